"""What the parts of a partitioned graph exchange: derived from the IR of a unit for one device.

Imports ``language``, ``compiler.ir`` and ``compiler.passes``; only `morph.partition` imports it.
"""
