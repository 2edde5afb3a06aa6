"""Readers and writers of graph files, selected by the suffix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from morph.graph import Graph
from morph.graph.construction import Form
from morph.io.graph.edges import EdgeArrays
from morph.io.graph.formats import FORMATS, ROWS, GraphFormat
from morph.io.graph.shares import read_shares
from morph.io.text.files import read_start, replacing, split_compression
from morph.io.text.scanner import FormatError, StrPath
from morph.language.arguments import boolean, check_type, string
from morph.language.messages import shortened, shown
from morph.partition.graph import PartitionedGraph
from morph.partition.ranges import Division, Ends, division, partitioned_edges, places
from morph.partition.transport import Transport
from morph.runtime.device import Device

_ARCHIVES = (".tar", ".tgz", ".zip", ".7z", ".zst", ".rar")


def _rows(path: StrPath, format: str | None) -> tuple[list[GraphFormat], str]:
    """Return the formats that match ``format`` or the suffix, and the suffix."""
    suffix = os.path.splitext(split_compression(path)[0])[1].lower()
    if format is None:
        return [row for row in ROWS if suffix in row.suffixes], suffix
    if string(format, "format") not in FORMATS:
        raise ValueError(f"format {shown(format)}: known are {', '.join(FORMATS)}")
    return [FORMATS[format]], suffix


def format_of(path: StrPath, format: str | None = None) -> GraphFormat:
    """Return the format in which `write_graph` would write a file.

    Raises
    ------
    ValueError
        If the suffix or the format is unknown.
    """
    rows, suffix = _rows(path, format)
    if not rows:
        known = " ".join(dict.fromkeys(s for row in ROWS for s in row.suffixes))
        name = shortened(os.fspath(path), 60)
        raise ValueError(f"{name}: unknown suffix {shown(suffix)}; known are {known}")
    return rows[0]


def read_edges(path: StrPath, format: str | None = None, weight_type: Any = None) -> EdgeArrays:
    """Read the edges of a graph file, in the order of the file.

    The suffix determines the format (docs/files.md, Graph files); unknown suffixes mean an edge
    list.  A further ``.gz``, ``.xz`` or ``.bz2`` is decompressed.

    Parameters
    ----------
    path : path-like
    format : str, optional
        A name of `morph.io.graph.formats`, such as ``"dimacs"``; overrides the suffix.
    weight_type : type, optional
        Type of the edge data of a Galois file, such as ``np.float32``, which the file does not
        contain.  By default unsigned integers if of 4 bytes, signed integers if of 8.

    Raises
    ------
    FormatError
        If the file violates its format; names file and line, or the byte of a binary file.
    ValueError
        If ``format`` is unknown, or ``weight_type`` is given for another format.
    OSError
        If it cannot be read.
    """
    return _format_for(path, format, weight_type).read(path, weight_type)


def read_edges_of_parts(
    path: StrPath, transport: Transport, format: str | None = None, weight_type: Any = None
) -> dict[int, EdgeArrays]:
    """Read a share of the edges for each part of this process, see `read_shares`."""
    choose = partial(_format_for, path, format, weight_type)
    return read_shares(choose, path, weight_type, transport)


def _format_for(path: StrPath, format: str | None, weight_type: Any) -> GraphFormat:
    """Return the format in which a file is read."""
    rows, suffix = _rows(path, format)
    if suffix in _ARCHIVES and format is None:
        raise FormatError(path, None, "an archive: unpack it, and name the graph file in it")
    row = rows[0] if rows else FORMATS["edges"]
    if len(rows) > 1:
        head = read_start(path, 8)
        row = next((r for r in rows if r.begins is not None and r.begins(head)), row)
    if weight_type is None:
        return row
    try:
        known = np.dtype(weight_type).kind in "iuf"
    except TypeError:
        known = False
    if not known:
        raise TypeError(f"weight_type is a type of numbers, not {shown(weight_type)}")
    if not row.typed:
        raise ValueError(f"weight_type is for Galois's files, not for {os.fspath(path)}")
    return row


def read_graph(
    path: StrPath,
    device: Any = None,
    symmetrize: bool = False,
    format: str | None = None,
    weight_type: Any = None,
    *,
    by: str = "range",
    shares: Sequence[float] | str | None = None,
    comm: Any = None,
) -> Any:
    """Read a graph file.

    Parameters
    ----------
    path, format, weight_type
        As in `read_edges`.
    device : str or Device, or a list of them, optional
        Device of the graph, see `morph.set_device` for the default.  With a list, the graph is
        partitioned, with a part on each device.
    symmetrize : bool
        Add the reverse of every edge.  Formats whose edges are undirected (``p tw``, symmetric
        ``.mtx``, METIS) always have both arcs, and are not changed.
    by : {"range", "degree"}
        Partitioning of the graph, as in `morph.partition`, which yields the same parts of the
        whole graph.
    shares : sequence of float or "measured", optional
        Relative sizes of the parts, see `morph.partition`.
    comm : mpi4py.MPI.Comm, optional
        Each rank reads a share of the edges and owns a part of the graph; ``device`` is the device
        of all ranks, or a list with one device for each.

    Returns
    -------
    Graph or PartitionedGraph
        Vertex data of a METIS file is in the columns ``weight`` and ``size`` of the points.

    Raises
    ------
    FormatError
        If the file violates its format; names file and line, or the byte of a binary file.
    ValueError
        If the file differs between ranks.
    OSError
        If it cannot be read.
    """
    symmetrize = boolean(symmetrize, "symmetrize")
    if comm is not None or isinstance(device, (list, tuple)):
        where, transport = places(device, comm)
        divided = division(where, transport, by, shares)
        found = read_edges_of_parts(path, transport, format, weight_type)
        return graph_of_shares(found, where, transport, divided, symmetrize)
    if by != "range" or shares is not None:
        raise ValueError("by and shares divide a graph among a list of devices, or among ranks")
    edges = read_edges(path, format, weight_type)
    graph = graph_from(edges, device, symmetrize)
    _add_columns(graph, edges)
    return graph


def graph_from(
    edges: EdgeArrays, device: Any, symmetrize: bool = False, weighted: bool = True
) -> Graph:
    """Make a graph of the edges of a file, which uses their memory where possible."""
    unpaired: Form = "both" if symmetrize or edges.undirected else "directed"
    form: Form = "verified" if edges.symmetric else unpaired  # by the reader
    weight = edges.weight if weighted else None
    return Graph._from_edges(edges.src, edges.dst, weight, edges.n, form, False, device)


def _add_columns(graph: Any, edges: EdgeArrays) -> None:
    """Add the vertex data of a file as columns."""
    for name, values in edges.points.items():
        column = graph.points.add(name, (values.dtype, *values.shape[1:]) if values.ndim > 1
                                  else values.dtype)  # fmt: skip
        column[:] = values


def graph_of_shares(
    shares: Mapping[int, EdgeArrays], devices: list[Device], transport: Transport,
    divided: Division | None = None, symmetrize: bool = False, positions: bool = False,
) -> PartitionedGraph:  # fmt: skip
    """Make a partitioned graph from the result of `read_shares`, by default by ranges of points.

    ``positions`` adds a column ``position`` to edges: the index of each edge in the file.
    """
    first = next(iter(shares.values()))
    both = not first.symmetric and (symmetrize or first.undirected)
    directed = not (first.symmetric or both)
    edges = {k: Ends(x.src, x.dst, x.weight) for k, x in shares.items()}
    if positions:
        begin = [0, *accumulate(transport.gather({k: len(x.src) for k, x in shares.items()}))]
        edges = {
            k: x._replace(position=np.arange(begin[k], begin[k + 1])) for k, x in edges.items()
        }
    divided = division(devices, transport) if divided is None else divided
    graph = partitioned_edges(devices, first.n, edges, both, directed, transport, divided)
    _add_columns(graph, first)
    return graph


def write_graph(graph: Graph | EdgeArrays, path: StrPath, format: str | None = None) -> None:
    """Write a graph file in the format of its suffix; a further suffix ``.gz`` etc. compresses.

    Parameters
    ----------
    graph : Graph or EdgeArrays
        All arcs of a graph are written, with their weights but without other columns.
    path : path-like
        With a suffix of docs/files.md, Graph files; ``.gr`` is written as DIMACS.
    format : str, optional
        As in `read_edges`; overrides the suffix.

    Raises
    ------
    ValueError
        If the suffix or format is unknown, or the format cannot represent the graph.
    OSError
        If the file cannot be written.
    """
    check_type(graph, "graph", "Graph", "EdgeArrays")
    edges = graph if isinstance(graph, EdgeArrays) else _edges_of(graph)
    row = format_of(path, format)
    if edges.points and not row.vertex_data:
        columns = ", ".join(edges.points)
        raise ValueError(f"{os.fspath(path)}: this format has no place for vertices' {columns}")
    with replacing(path) as (file,):
        row.write(edges, file)


def _edges_of(graph: Graph) -> EdgeArrays:
    src, dst, weight = (
        None if part is None else graph.device.to_host(part) for part in graph.edge_list()
    )
    return EdgeArrays(
        np.asarray(src, np.int32), np.asarray(dst, np.int32), weight, len(graph.points)
    )
