"""The devices ``cuda:N``: CuPy arrays, units compiled by NVRTC.

Imports ``language``, ``compiler`` (not its frontend), ``runtime.toolchain``.
"""
