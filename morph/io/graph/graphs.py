"""Graph files by their suffix: which reader, which writer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.io.graph.dimacs import read_dimacs, write_dimacs
from morph.io.graph.edgelist import read_edge_list, write_edge_list
from morph.io.graph.edges import EdgeArrays
from morph.io.graph.matrix import read_matrix_market, read_npz, write_matrix_market, write_npz
from morph.io.graph.metis import read_metis, write_metis
from morph.io.graph.rowfiles import is_galois, read_ecl, read_galois, write_ecl, write_galois
from morph.io.text.files import (
    map_bytes,
    opened,
    read_array,
    read_head,
    replacing,
    split_compression,
    write_chunks,
)
from morph.io.text.scanner import FormatError, StrPath

SUFFIXES = {
    "dimacs": (".gr",),
    "galois": (".sgr", ".vgr", ".csgr", ".cgr", ".tgr"),
    "ecl": (".egr",),
    "metis": (".graph", ".metis"),
    "mtx": (".mtx",),
    "npz": (".npz",),
    "edges": (".txt", ".el", ".wel", ".edges", ".tsv"),
}
"""Formats, and the suffixes that name them."""

_ARCHIVES = (".tar", ".tgz", ".zip", ".7z", ".zst", ".rar")

_READERS = {
    "dimacs": read_dimacs,
    "metis": read_metis,
    "mtx": read_matrix_market,
    "edges": read_edge_list,
}
_WRITERS: dict[str, Callable[[EdgeArrays], Any]] = {
    "dimacs": write_dimacs,
    "galois": write_galois,
    "ecl": write_ecl,
    "metis": write_metis,
    "mtx": write_matrix_market,
    "edges": write_edge_list,
}


def _named(path: StrPath, format: str | None) -> tuple[str | None, str]:
    """Give the format that is asked for or that the suffix names, and the suffix."""
    suffix = os.path.splitext(split_compression(path)[0])[1].lower()
    if format is not None:
        if format not in SUFFIXES:
            raise ValueError(f"format {format!r}: known are {', '.join(SUFFIXES)}")
        return format, suffix
    return next((name for name, known in SUFFIXES.items() if suffix in known), None), suffix


def format_of(path: StrPath, format: str | None = None) -> str:
    """Name the format in which `write_graph` would write a file.

    Raises
    ------
    ValueError
        If the suffix or the format is unknown.
    """
    kind, suffix = _named(path, format)
    if kind is None:
        known = " ".join(s for names in SUFFIXES.values() for s in names)
        raise ValueError(f"{os.fspath(path)}: unknown suffix {suffix!r}; known are {known}")
    return kind


def read_edges(path: StrPath, format: str | None = None, weight_type: Any = None) -> EdgeArrays:
    """Read the edges of a graph file, in its own order.

    The suffix names the format: ``.gr`` DIMACS or, told by its content, Galois; ``.egr`` ECL,
    ``.graph`` METIS, ``.mtx`` Matrix Market, ``.npz`` SciPy; any other is an edge list.  A further
    ``.gz``, ``.xz`` or ``.bz2`` is decompressed.

    Parameters
    ----------
    path : path-like
    format : str, optional
        ``"dimacs"``, ``"galois"``, ``"ecl"``, ``"metis"``, ``"mtx"``, ``"npz"`` or ``"edges"``,
        whatever the suffix.
    weight_type : type, optional
        What the data of a Galois file's edges are, such as ``np.float32``: the file does not say.
        By default integers, of 4 bytes unsigned, of 8 bytes signed.

    Raises
    ------
    FormatError
        If the file breaks its format; names file and line, of a binary file the byte.
    ValueError
        If ``format`` is unknown, or ``weight_type`` given for a file that says its own.
    OSError
        If it cannot be read.
    """
    kind, suffix = _named(path, format)
    if suffix in _ARCHIVES and format is None:
        raise FormatError(path, None, "an archive: unpack it, and name the graph file in it")
    if kind == "dimacs" and format is None and is_galois(read_head(path, 8)):
        kind = "galois"
    if kind == "galois":
        return read_galois(path, read_array(path), weight_type)
    if weight_type is not None:
        raise ValueError(f"weight_type is for Galois's files, not for {os.fspath(path)}")
    if kind == "ecl":
        return read_ecl(path, read_array(path))
    if kind == "npz":
        with opened(path) as file:
            return read_npz(path, file)
    return _READERS[kind or "edges"](path, map_bytes(path))


def read_graph(
    path: StrPath,
    device: Any = "cpu",
    symmetrize: bool = False,
    format: str | None = None,
    weight_type: Any = None,
) -> Graph:
    """Read a graph file.

    Parameters
    ----------
    path, format, weight_type
        As in `read_edges`, which tells the formats.
    device : str or Device
        Where the graph is to live.
    symmetrize : bool
        Add the reverse of every edge.  Formats whose edges are undirected (``p tw``, symmetric
        ``.mtx``, METIS) always give both arcs, and are taken as they are.

    Returns
    -------
    Graph
        What a METIS file says of vertices is in their columns ``weight`` and ``size``.

    Raises
    ------
    FormatError
        If the file breaks its format; names file and line, of a binary file the byte.
    OSError
        If it cannot be read.
    """
    edges = read_edges(path, format, weight_type)
    graph = Graph.from_edges(
        edges.src,
        edges.dst,
        weight=edges.weight,
        n=edges.n,
        symmetric=edges.symmetric,
        symmetrize=symmetrize or edges.undirected,
        copy=False,  # these arrays are nobody else's
        device=device,
    )
    for name, values in edges.points.items():
        column = graph.points.add(name, (values.dtype, *values.shape[1:]) if values.ndim > 1
                                  else values.dtype)  # fmt: skip
        column[:] = values
    return graph


def write_graph(graph: Graph | EdgeArrays, path: StrPath, format: str | None = None) -> None:
    """Write a graph file, in the format of its suffix, compressed if a further one says so.

    Parameters
    ----------
    graph : Graph or EdgeArrays
        A graph's arcs are written one by one, with their weights; other columns are not.
    path : path-like
        ``.gr`` (DIMACS), ``.sgr`` (Galois), ``.egr``, ``.graph``, ``.mtx``, ``.npz``, or an edge
        list: ``.txt .el .wel .edges .tsv``.
    format : str, optional
        As in `read_edges`, whatever the suffix.

    Raises
    ------
    ValueError
        If the suffix or format is unknown, or the format cannot hold the graph.
    OSError
        If the file cannot be written.
    """
    edges = graph if isinstance(graph, EdgeArrays) else _edges_of(graph)
    kind = format_of(path, format)
    if edges.points and kind != "metis":
        told = ", ".join(edges.points)
        raise ValueError(f"{os.fspath(path)}: this format has no place for vertices' {told}")
    if kind == "npz":
        with replacing(path) as (file,):
            write_npz(edges, file)
    else:
        write_chunks(path, _WRITERS[kind](edges))


def _edges_of(graph: Graph) -> EdgeArrays:
    src, dst, weight = (
        None if part is None else graph.device.to_host(part) for part in graph.edge_list()
    )
    return EdgeArrays(
        np.asarray(src, np.int32), np.asarray(dst, np.int32), weight, len(graph.points)
    )
