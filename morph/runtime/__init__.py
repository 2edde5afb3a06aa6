"""Devices, their memory, and how compiled or interpreted units run on them.

Imports ``language`` and ``compiler``.
"""
