"""Parallel reading of graph files: each part of a partitioned graph reads a share of the edges."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from morph.io.graph.edges import EdgeArrays
from morph.io.graph.formats import GraphFormat, Shared, share_of
from morph.io.text.files import identity
from morph.io.text.scanner import FormatError, StrPath
from morph.partition.ranges import Ends, are_symmetric
from morph.partition.transport import Transport, agree, on_all


def read_shares(
    choose: Callable[[], GraphFormat], path: StrPath, weight_type: Any, transport: Transport
) -> dict[int, EdgeArrays]:
    """Read a share of the edges for each part of this process.

    Parameters
    ----------
    choose : function
        Returns the format.
    transport : Transport
        Connects the processes of the parts, which all must call this function.

    Returns
    -------
    dict of int to EdgeArrays
        Indexed by part.  All have the same number of vertices, directions and dtype of weights;
        the concatenation in order of parts has the order of the file.

    Raises
    ------
    ValueError, OSError
        In all processes, if the file differs between processes or one of them cannot read it.
    """
    transport.begin("read a graph")
    about = on_all(transport, lambda: identity(path))
    agree(transport, f"the file {os.fspath(path)}", about)
    row = on_all(transport, choose)
    found = on_all(transport, lambda: _read(row, path, weight_type, transport))
    sizes = transport.gather({
        k: (edges.n, len(edges.src), edges.weight is not None and edges.weight.dtype.str)
        for k, (edges, _, _) in found.items()
    })  # fmt: skip
    vertices, counts, kinds = zip(*sizes, strict=True)
    n, m, (_, count, compare) = max(vertices), sum(counts), next(iter(found.values()))
    if count is not None and m != count:
        message = f"the file announces {count} edges, and its lines have {m}"
        raise FormatError(path, None, message)
    kind = np.result_type(*kinds) if kinds[0] else None

    def complete(edges: EdgeArrays) -> EdgeArrays:
        weight = edges.weight
        if weight is not None and kind is not None and weight.dtype != kind:
            weight = _converted(path, weight, kind)
        return replace(edges, n=n, weight=weight)

    made = on_all(transport, lambda: {k: complete(x.edges) for k, x in found.items()})
    ends = {k: Ends(x.src, x.dst, x.weight) for k, x in made.items()}
    if compare and are_symmetric(n, ends, transport):
        made = {k: replace(x, symmetric=True) for k, x in made.items()}
    return made


def _read(
    row: GraphFormat, path: StrPath, weight_type: Any, transport: Transport
) -> dict[int, Shared]:
    """Read the shares of this process; formats without ``share`` are read completely and cut."""
    if row.share is None:
        whole = row.read(path, weight_type)
        return {k: Shared(share_of(whole, k, transport.size)) for k in transport.here}
    return {k: row.share(path, weight_type, k, transport.size) for k in transport.here}


def _converted(path: StrPath, weight: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """Convert weights to the common dtype of all shares."""
    if kind.kind == "f" and weight.dtype.kind == "i":
        lost = [w for w in weight[abs(weight) >= 2**53].tolist() if int(float(w)) != w]
        if lost:
            message = f"the weight {lost[0]} loses digits: other weights here are reals"
            raise FormatError(path, None, message)
    return weight.astype(kind)
