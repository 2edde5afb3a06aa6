"""Prints the plan of a unit as C++: functions, steps, shared loops, programs, checked mode.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``; not the frontend.
"""
