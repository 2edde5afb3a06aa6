"""From the IR to C++: kernels, steps, shared loops, programs, checked mode.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``; not the frontend.
"""
