"""Graphs: construction, packed, gapped and rebuilt CSR indices, deletion, interoperability.

Imports ``language``, ``compiler.ir.layout``, ``runtime`` and ``data``.
"""

from morph.graph.graph import Graph as Graph
