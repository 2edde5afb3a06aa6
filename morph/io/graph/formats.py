"""The registry of graph formats: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any

from morph.io.graph.dimacs import read_dimacs, write_dimacs
from morph.io.graph.edgelist import read_edge_list, write_edge_list
from morph.io.graph.edges import EdgeArrays
from morph.io.graph.matrix import read_matrix_market, read_npz, write_matrix_market, write_npz
from morph.io.graph.metis import read_metis, write_metis
from morph.io.graph.rowfiles import is_galois, read_ecl, read_galois, write_ecl, write_galois
from morph.io.text.files import map_bytes, opened, read_array
from morph.io.text.formats import Format
from morph.io.text.scanner import StrPath


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
    begins : callable, optional
        Tells a file by its first 8 bytes; needed where another format has the same suffix.
    """

    read: Callable[[StrPath, Any], EdgeArrays]
    write: Callable[[EdgeArrays, IO[bytes]], None]
    weights: str
    edges: str = "arcs"
    typed: bool = False
    vertex_data: bool = False
    begins: Callable[[bytes], bool] | None = None
    kind: str = "graph"
    reader: str = "`read_graph`, `read_edges`"
    writer: str = "`write_graph`"
    compressed: bool = True


def _parsed(parse: Callable[[StrPath, Any], EdgeArrays], load: Any = map_bytes) -> Any:
    """Make a reader of a function of a file's bytes."""
    return lambda path, _: parse(path, load(path))


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
        read=_parsed(read_dimacs), write=_chunks(write_dimacs),
    ),
    GraphFormat(
        name="galois", suffixes=(".sgr", ".vgr", ".csgr", ".cgr", ".tgr", ".gr"), begins=is_galois,
        about="Galois, binary, version 1 or 2", weights="none, 4 or 8 bytes, type not stored",
        read=lambda path, weight_type: read_galois(path, read_array(path), weight_type),
        write=_chunks(write_galois), typed=True,
    ),
    GraphFormat(
        name="ecl", suffixes=(".egr",), about="the ECL codes, binary",
        weights="none, 32-bit integers",
        read=_parsed(read_ecl, read_array), write=_chunks(write_ecl),
    ),
    GraphFormat(
        name="metis", suffixes=(".graph", ".metis"), about="METIS, 10th DIMACS challenge",
        weights="none, positive integers", edges="both arcs", vertex_data=True,
        read=_parsed(read_metis), write=_chunks(write_metis),
    ),
    GraphFormat(
        name="mtx", suffixes=(".mtx",), about="Matrix Market, `coordinate` or `array`",
        weights="integers, reals, pattern", edges="arcs; undirected if `symmetric`",
        read=_parsed(read_matrix_market), write=_chunks(write_matrix_market),
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
        read=_parsed(read_edge_list), write=_chunks(write_edge_list),
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in ROWS}
