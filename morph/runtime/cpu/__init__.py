"""The device ``cpu``: arrays in host memory, units compiled by the host's C++ compiler.

Imports ``language``, ``compiler`` (not its frontend), ``runtime.toolchain``.
"""
