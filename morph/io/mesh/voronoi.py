"""Triangle's Voronoi diagrams: ``.v.node`` and ``.v.edge`` files.

``.v.node``: ``<triangles> 2 <attributes> 0``, then ``<number> <x> <y> [attributes]``.
``.v.edge``: ``<edges> 0``, then ``<number> <vertex> <vertex>``, or ``<number> <vertex> -1 <x> <y>``
for a ray in the direction x, y.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from morph.io.mesh.pslgs import node_lines
from morph.io.text.rows import check_finite, counted, format_rows
from morph.mesh.mesh import Mesh
from morph.mesh.voronoi import Voronoi

_ROWS = 1 << 17  # edges written at once


def voronoi_parts(mesh: Mesh) -> dict[str, Iterator[bytes]]:
    """Return the text of both files by their suffixes.

    Raises
    ------
    ValueError
        If a circumcentre, or an attribute there, is too large for a double.
    """
    dual = mesh.voronoi()
    check_finite(**{"voronoi vertices": dual.vertices, "voronoi attributes": dual.attributes})
    none = np.empty(0, np.int32)
    return {
        ".v.node": node_lines(dual.vertices, dual.attributes, none, mesh.base),
        ".v.edge": _edge_lines(dual, mesh.base),
    }


def _edge_lines(dual: Voronoi, base: int) -> Iterator[bytes]:
    yield b"%d 0\n" % len(dual.edges)
    numbers = counted(dual.edges, base)
    for start in range(0, len(numbers), _ROWS):
        part = slice(start, start + _ROWS)
        number, edges, directions = numbers[part], dual.edges[part], dual.directions[part]
        ends = [np.where(end < 0, -1, end + base) for end in edges.T]
        lines = b"".join(format_rows([number, *ends])).split(b"\n")
        rays = np.flatnonzero(edges[:, 1] < 0)
        tails = b"".join(format_rows([*directions[rays].T])).split(b"\n")
        for row, tail in zip(rays.tolist(), tails, strict=False):
            lines[row] += b" " + tail
        yield b"\n".join(lines)
