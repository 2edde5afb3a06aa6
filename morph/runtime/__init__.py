"""Devices, memory, transfers, and the backends that run units: cpu, cuda, interpreter.

Imports ``language`` and ``compiler`` (not its frontend).
"""
