"""The registry of graph formats: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import IO, Any

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
from morph.io.text.files import map_bytes, opened, read_array
from morph.io.text.formats import Format
from morph.io.text.scanner import StrPath

Shared = tuple[EdgeArrays, int | None]


@dataclass(frozen=True, kw_only=True)
class GraphFormat(Format):
    """A format of graphs.

    Attributes
    ----------
    read : callable
        Of a path, and the type of the weights where ``typed``.
    write : callable
        Of edges and an open file.
    weights, edges : str
        What they may be, for docs/files.md.
    typed : bool
        Whether a file does not tell the type of its weights.
    vertex_data : bool
        Whether a file holds `EdgeArrays.points`.
    share : callable, optional
        Reads one of several shares of the edges, in order, and no others: of a path, the type of
        the weights, the number of the share, and how many there are.  It also gives the number of
        edges that the file announces, if it does.
    begins : callable, optional
        Tells a file by its first 8 bytes; needed where another format has the same suffix.
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
    """Make a reader of a function of a file's bytes."""
    return lambda path, _: parse(path, load(path))


def _lines(begin: Callable[[StrPath, Any], Lines | None], parse: Any) -> Any:
    """Make a reader of shares of a function that gives the lines of a file; None: no such lines."""

    def share(path: StrPath, _: Any, k: int, parts: int) -> Shared:
        data = map_bytes(path)
        lines = begin(path, data)
        if lines is None:
            return share_of(parse(path, data), k, parts), None
        return read_lines(path, data, lines, k, parts), lines.count

    return share


def share_of(edges: EdgeArrays, k: int, parts: int) -> EdgeArrays:
    """Give one of several shares of the edges."""
    m = len(edges.src)
    own = slice(m * k // parts, m * (k + 1) // parts)
    weight = None if edges.weight is None else edges.weight[own]
    return replace(edges, src=edges.src[own], dst=edges.dst[own], weight=weight)


def _mapped(path: StrPath) -> Any:
    """Give the bytes of a file as an array, in memory only those that are accessed."""
    return np.frombuffer(map_bytes(path), np.uint8)


def _chunks(generate: Callable[[EdgeArrays], Iterable[Any]]) -> Any:
    """Make a writer of a function that yields bytes."""

    def write(edges: EdgeArrays, file: IO[bytes]) -> None:
        for chunk in generate(edges):
            file.write(chunk)

    return write


def _read_npz(path: StrPath, _: Any) -> EdgeArrays:
    with opened(path) as file:
        return read_npz(path, file)


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
        share=lambda path, weight_type, k, parts: (
            read_galois(path, _mapped(path), weight_type, (k, parts)), None
        ),
        write=_chunks(write_galois), typed=True,
    ),
    GraphFormat(
        name="ecl", suffixes=(".egr",), about="the ECL codes, binary",
        weights="none, 32-bit integers",
        read=_parsed(read_ecl, read_array),
        share=lambda path, _, k, parts: (read_ecl(path, _mapped(path), (k, parts)), None),
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
        read=_read_npz, write=write_npz,
    ),
    GraphFormat(  # also of files whose suffix names no format
        name="edges", suffixes=(".txt", ".el", ".wel", ".edges", ".tsv"), common=3,
        about="`u v` or `u v w` a line: SNAP, GAP; any other suffix",
        weights="none, integers, reals",
        read=_parsed(read_edge_list), share=_lines(edge_list_lines, read_edge_list),
        write=_chunks(write_edge_list),
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in ROWS}
