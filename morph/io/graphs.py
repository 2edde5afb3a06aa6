"""Graph files by their suffix: which reader, which writer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.io.dimacs import read_dimacs, write_dimacs
from morph.io.edgelist import read_edge_list, write_edge_list
from morph.io.edges import EdgeArrays
from morph.io.files import read_bytes, replacing, split_compression, write_chunks
from morph.io.matrix import read_matrix_market, read_npz, write_matrix_market, write_npz
from morph.io.text import StrPath

if TYPE_CHECKING:
    from morph.graph import Graph

_READERS = {".gr": read_dimacs, ".mtx": read_matrix_market, ".npz": read_npz}
_WRITERS = {".gr": write_dimacs, ".mtx": write_matrix_market}
_LISTS = (".txt", ".el", ".wel", ".edges", ".tsv")


def read_edges(path: StrPath) -> EdgeArrays:
    """Read the edges of a graph file, in its own order.

    The suffix names the format: ``.gr`` DIMACS, ``.mtx`` Matrix Market, ``.npz`` SciPy; any
    other is an edge list.  A further ``.gz``, ``.xz`` or ``.bz2`` is decompressed.

    Raises
    ------
    FormatError
        If the file breaks its format; names file and line.
    OSError
        If it cannot be read.
    """
    suffix = os.path.splitext(split_compression(path)[0])[1].lower()
    return _READERS.get(suffix, read_edge_list)(path, read_bytes(path))


def read_graph(path: StrPath, device: Any = "cpu", symmetrize: bool = False) -> Graph:
    """Read a graph file.

    Parameters
    ----------
    path : path-like
        See `read_edges` for the formats.
    device : str or Device
        Where the graph is to live.
    symmetrize : bool
        Add the reverse of every edge.  Formats whose edges are undirected (``p tw``, symmetric
        ``.mtx``) always give both arcs.

    Raises
    ------
    FormatError
        If the file breaks its format; names file and line.
    OSError
        If it cannot be read.
    """
    from morph.graph import Graph  # noqa: PLC0415

    edges = read_edges(path)
    return Graph.from_edges(
        edges.src,
        edges.dst,
        weight=edges.weight,
        n=edges.n,
        symmetrize=symmetrize or edges.undirected,
        device=device,
    )


def write_graph(graph: Graph | EdgeArrays, path: StrPath) -> None:
    """Write a graph file, in the format of its suffix, compressed if a further one says so.

    Parameters
    ----------
    graph : Graph or EdgeArrays
        A graph's arcs are written one by one.
    path : path-like
        ``.gr``, ``.mtx``, ``.npz``, or an edge list: ``.txt .el .wel .edges .tsv``.

    Raises
    ------
    ValueError
        If the suffix is unknown, or the format cannot hold the weights.
    OSError
        If the file cannot be written.
    """
    edges = graph if isinstance(graph, EdgeArrays) else _edges_of(graph)
    suffix = os.path.splitext(split_compression(path)[0])[1].lower()
    if suffix == ".npz":
        with replacing(path) as (file,):
            write_npz(edges, file)
    elif suffix in _WRITERS:
        write_chunks(path, _WRITERS[suffix](edges))
    elif suffix in _LISTS:
        write_chunks(path, write_edge_list(edges))
    else:
        known = " ".join([".gr", ".mtx", ".npz", *_LISTS])
        raise ValueError(f"{os.fspath(path)}: unknown suffix {suffix!r}; known are {known}")


def _edges_of(graph: Graph) -> EdgeArrays:
    src, dst, weight = (
        None if part is None else graph.device.to_host(part) for part in graph.edge_list()
    )
    return EdgeArrays(
        np.asarray(src, np.int32), np.asarray(dst, np.int32), weight, len(graph.points)
    )
