"""The registry of graph formats: one row for each format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple

import numpy as np

from morph.io.graph.dimacs import dimacs_lines, read_dimacs, write_dimacs
from morph.io.graph.edgelist import edge_list_lines, read_edge_list, write_edge_list
from morph.io.graph.edges import EdgeArrays
from morph.io.graph.lines import Lines, read_lines
from morph.io.graph.matrix import (
    matrix_lines,
    read_matrix_market,
    read_npz,
    write_matrix_market,
    write_npz,
)
from morph.io.graph.metis import read_metis, write_metis
from morph.io.graph.rowfiles import is_galois, read_ecl, read_galois, write_ecl, write_galois
from morph.io.text.files import map_bytes, open_seekable, read_array
from morph.io.text.formats import Format
from morph.io.text.scanner import StrPath


class Shared(NamedTuple):
    """A share of the edges of a file.

    Attributes
    ----------
    edges : EdgeArrays
    announced : int or None
        Number of edges in the header of the file.
    compare : bool
        Whether the graph is undirected if every arc has its reverse.
    """

    edges: EdgeArrays
    announced: int | None = None
    compare: bool = False


@dataclass(frozen=True, kw_only=True)
class GraphFormat(Format):
    """A format of graphs.

    Attributes
    ----------
    read : callable
        Arguments: a path and, if ``typed``, the dtype of the weights.
    write : callable
        Arguments: edges and an open file.
    weights, edges : str
        Their possible kinds, for docs/files.md.
    typed : bool
        Whether a file does not contain the dtype of its weights.
    vertex_data : bool
        Whether a file can contain `EdgeArrays.points`.
    share : callable, optional
        Reads one of several consecutive shares of the edges.  Arguments: a path, the dtype of the
        weights, the number of the share, and the number of shares.
    begins : callable, optional
        Recognises a file by its first 8 bytes; needed if another format has the same suffix.
    """

    read: Callable[[StrPath, Any], EdgeArrays]
    write: Callable[[EdgeArrays, IO[bytes]], None]
    weights: str
    edges: str = "arcs"
    typed: bool = False
    vertex_data: bool = False
    share: Callable[[StrPath, Any, int, int], Shared] | None = None
    begins: Callable[[bytes], bool] | None = None
    kind: str = "graph"
    reader: str = "`read_graph`, `read_edges`"
    writer: str = "`write_graph`"
    compressed: bool = True


def _parsed(parse: Callable[[StrPath, Any], EdgeArrays], load: Any = map_bytes) -> Any:
    """Make a reader from a function of a file's bytes."""
    return lambda path, _: parse(path, load(path))


def _lines(begin: Callable[[StrPath, Any], Lines | None], parse: Any) -> Any:
    """Make a reader of shares from a function that returns `Lines`, or None to read all edges."""

    def share(path: StrPath, _: Any, k: int, parts: int) -> Shared:
        data = map_bytes(path)
        lines = begin(path, data)
        if lines is None:
            return Shared(share_of(parse(path, data), k, parts))
        return Shared(read_lines(path, data, lines, k, parts), lines.count)

    return share


def share_of(edges: EdgeArrays, k: int, parts: int) -> EdgeArrays:
    """Return one of several shares of the edges."""
    m = len(edges.src)
    own = slice(m * k // parts, m * (k + 1) // parts)
    weight = None if edges.weight is None else edges.weight[own]
    return replace(edges, src=edges.src[own], dst=edges.dst[own], weight=weight)


def _mapped(path: StrPath) -> Any:
    """Map a file into memory as an array of bytes."""
    return np.frombuffer(map_bytes(path), np.uint8)


def _chunks(generate: Callable[[EdgeArrays], Iterable[Any]]) -> Any:
    """Make a writer from a function that yields bytes."""

    def write(edges: EdgeArrays, file: IO[bytes]) -> None:
        for chunk in generate(edges):
            file.write(chunk)

    return write


def _read_npz(path: StrPath, _: Any) -> EdgeArrays:
    with open_seekable(path) as file:
        return read_npz(path, file)


def _share_of_npz(path: StrPath, _: Any, k: int, parts: int) -> Shared:
    with open_seekable(path) as file:
        return Shared(read_npz(path, file, (k, parts)), compare=parts > 1)


ROWS = (
    GraphFormat(
        name="dimacs", suffixes=(".gr",), about="`p sp`, the 9th DIMACS challenge; `p tw`, PACE",
        weights="integers; none", edges="arcs; undirected",
        read=_parsed(read_dimacs), share=_lines(dimacs_lines, read_dimacs),
        write=_chunks(write_dimacs),
    ),
    GraphFormat(
        name="galois", suffixes=(".sgr", ".vgr", ".csgr", ".cgr", ".tgr", ".gr"), begins=is_galois,
        about="Galois, binary, version 1 or 2", weights="none, 4 or 8 bytes, type not stored",
        read=lambda path, weight_type: read_galois(path, read_array(path), weight_type),
        share=lambda path, weight_type, k, parts: Shared(
            read_galois(path, _mapped(path), weight_type, (k, parts))
        ),
        write=_chunks(write_galois), typed=True,
    ),
    GraphFormat(
        name="ecl", suffixes=(".egr",), about="the ECL codes, binary",
        weights="none, 32-bit integers",
        read=_parsed(read_ecl, read_array),
        share=lambda path, _, k, parts: Shared(read_ecl(path, _mapped(path), (k, parts))),
        write=_chunks(write_ecl),
    ),
    GraphFormat(
        name="metis", suffixes=(".graph", ".metis"), about="METIS, 10th DIMACS challenge",
        weights="none, positive integers", edges="both arcs", vertex_data=True,
        read=_parsed(read_metis), write=_chunks(write_metis),
    ),
    GraphFormat(
        name="mtx", suffixes=(".mtx",), about="Matrix Market, `coordinate` or `array`",
        weights="integers, reals, pattern", edges="arcs; undirected if `symmetric`",
        read=_parsed(read_matrix_market), share=_lines(matrix_lines, read_matrix_market),
        write=_chunks(write_matrix_market),
    ),
    GraphFormat(
        name="npz", suffixes=(".npz",), about="`scipy.sparse.save_npz`: CSR, CSC, COO",
        weights="the values", edges="arcs; undirected if symmetric",
        read=_read_npz, share=_share_of_npz, write=write_npz,
    ),
    GraphFormat(  # also the default for unknown suffixes
        name="edges", suffixes=(".txt", ".el", ".wel", ".edges", ".tsv"), common=3,
        about="`u v` or `u v w` a line: SNAP, GAP; any other suffix",
        weights="none, integers, reals",
        read=_parsed(read_edge_list), share=_lines(edge_list_lines, read_edge_list),
        write=_chunks(write_edge_list),
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in ROWS}
