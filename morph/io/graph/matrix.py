"""Graphs as sparse matrices: Matrix Market ``.mtx`` text and SciPy's ``.npz``.

Row u, column v holds the weight of the edge from u to v.  Neither needs SciPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray

from morph.io.graph.edges import MAX_VERTICES, EdgeArrays, gathered, narrow
from morph.io.graph.lines import Lines, first_line
from morph.io.text.files import InPieces
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Block, Field, FormatError, Scanner, StrPath

INTEGERS = ("integer", "unsigned-integer")  # the second is SciPy's, of unsigned types
_BANNER = (
    "%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric"
)


def read_matrix_market(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of an ``.mtx`` file as `scipy.io.mmread` does, if it holds a graph.

    An entry of a symmetric matrix, in whichever triangle, is an undirected edge; one of a
    skew-symmetric matrix an arc, and one back of the negative weight.  Of a dense matrix
    (``array``) the values that are not 0 are edges.

    Raises
    ------
    FormatError
        With file and line.
    """
    scanner, layout, kind, symmetry = _banner(path, data)
    integral, skew = kind in INTEGERS, symmetry == "skew-symmetric"
    if layout == "array":
        found = _dense(scanner, integral, symmetry)
    else:
        found = _coordinates(scanner, kind)
    if not skew:
        return dataclasses.replace(found, undirected=symmetry != "general")
    return _with_negatives(scanner, found)


def _banner(path: StrPath, data: bytes) -> tuple[Scanner, str, str, str]:
    """Read the first line of a file, after a scanner of it: layout, type, symmetry."""
    tokens = data[: data.find(b"\n") + 1 or len(data)].lower().split()
    scanner = Scanner(path, data, comment=b"%")
    if len(tokens) != 5 or tokens[:2] != [b"%%matrixmarket", b"matrix"]:
        scanner.fail(f"the first line must be: {_BANNER}", 1)
    layout, kind, symmetry = (w.decode("ascii", "replace") for w in tokens[2:])
    if layout not in ("coordinate", "array") or (layout, kind) == ("array", "pattern"):
        scanner.fail(f"{layout} {kind} is no matrix of a graph: {_BANNER}", 1)
    if kind not in INTEGERS and kind not in ("real", "double", "pattern"):
        scanner.fail(f"a {kind} matrix is no graph: {_BANNER}", 1)
    if symmetry not in ("general", "symmetric", "skew-symmetric"):
        scanner.fail(f"a {symmetry} matrix is no graph: {_BANNER}", 1)
    if symmetry == "skew-symmetric" and kind == "unsigned-integer":
        scanner.fail("a skew-symmetric matrix has negative values, and cannot be unsigned", 1)
    return scanner, layout, kind, symmetry


def matrix_lines(path: StrPath, data: bytes) -> Lines | None:
    """Read the beginning of an ``.mtx`` file: which lines follow.

    None stands for dense and skew-symmetric matrices, which are read as a whole.

    Raises
    ------
    FormatError
        With file and line.
    """
    start = data[: first_line(data, rb"%[^\n]*")]
    scanner, layout, kind, symmetry = _banner(path, start)
    if layout == "array" or symmetry == "skew-symmetric":
        return None
    n, entries = _size(scanner)
    return Lines(
        scanner.pos, _entry(kind), "entries", n, count=entries, comment=b"%",
        undirected=symmetry != "general", real=kind not in INTEGERS,
    )  # fmt: skip


def _coordinates(scanner: Scanner, kind: str) -> EdgeArrays:
    """Read a list of entries."""
    rows, entries = _size(scanner)
    blocks: Iterable[Block] = scanner.pieces(entries, _entry(kind), "entries")
    src, dst, values = gathered(blocks, 1, rows, kind in INTEGERS)
    scanner.end("entries")
    return EdgeArrays(src, dst, None if kind == "pattern" else values, rows)


def _size(scanner: Scanner) -> tuple[int, int]:
    """Read the size line of a list of entries: rows and entries."""
    rows, columns, entries = scanner.header(
        "size", ("number of rows", "number of columns", "number of entries"), (0, -1, -1)
    )
    line = scanner.line(scanner.pos - 1)
    if entries < 0:
        scanner.fail("the size line needs rows, columns and entries", line)
    _require_square(scanner, rows, columns, line)
    return rows, entries


def _entry(kind: str) -> tuple[Field, ...]:
    """Give the fields of an entry of a matrix of some type."""
    fields = Field("row"), Field("column"), Field("value", kind in INTEGERS)
    return fields[:2] if kind == "pattern" else fields


def _dense(scanner: Scanner, integral: bool, symmetry: str) -> EdgeArrays:
    """Read values column by column: all, or the lower triangle, or the part below the diagonal."""
    n, columns = scanner.header("size", ("number of rows", "number of columns"), (0, -1))
    _require_square(scanner, n, columns, scanner.line(scanner.pos - 1))
    first = int(symmetry == "skew-symmetric")
    count = n * n if symmetry == "general" else n * (n + 1) // 2 - first * n
    values = scanner.block(count, [Field("value", integral)], "values").values[:, 0]
    scanner.end("values")
    at = np.flatnonzero(values)
    if symmetry == "general":
        dst, src = np.divmod(at, max(n, 1))
        order = np.lexsort((dst, src))
        at, src, dst = at[order], src[order], dst[order]
    else:  # column j begins after the j columns before, each shorter by one
        begins = np.concatenate([[0], np.cumsum(np.arange(n - first, 0, -1))])
        dst = np.searchsorted(begins, at, "right") - 1
        src = at - begins[dst] + dst + first
    return EdgeArrays(src.astype(np.int32), dst.astype(np.int32), narrow(values[at]), n)


def _require_square(scanner: Scanner, rows: int, columns: int, line: int) -> None:
    if rows != columns or rows > MAX_VERTICES:
        scanner.fail(f"a matrix of {rows} x {columns} is no graph: it must be square", line)


def _with_negatives(scanner: Scanner, edges: EdgeArrays) -> EdgeArrays:
    """Add the arc back of each entry beside the diagonal, of the negative weight."""
    weight = np.ones(len(edges.src)) if edges.weight is None else edges.weight
    back = np.flatnonzero(edges.src != edges.dst)
    if weight.dtype.kind == "i" and len(back):
        if int(weight.min()) == np.iinfo(np.int64).min:
            scanner.fail(f"the value {weight.min()} has no negative of 64 bits", 1)
        if int(weight.min()) == np.iinfo(np.int32).min:
            weight = weight.astype(np.int64)
    src = np.concatenate([edges.src, edges.dst[back]])
    dst = np.concatenate([edges.dst, edges.src[back]])
    return EdgeArrays(src, dst, np.concatenate([weight, -weight[back]]), edges.n)


def write_matrix_market(edges: EdgeArrays) -> Iterator[bytes]:
    """Yield the text of a ``.mtx`` file.

    Raises
    ------
    ValueError
        If a weight is no finite number.
    """
    src, dst = edges.src.astype(np.int64) + 1, edges.dst.astype(np.int64) + 1
    if edges.undirected:
        src, dst = np.maximum(src, dst), np.minimum(src, dst)
    columns: list[NDArray[Any]] = [src, dst]
    kind = b"pattern"
    if edges.weight is not None:
        if not np.isfinite(edges.weight).all():
            raise ValueError("a .mtx file cannot hold weights that are not finite")
        columns.append(edges.weight)
        kind = b"real" if edges.weight.dtype.kind == "f" else b"integer"
    symmetry = b"symmetric" if edges.undirected else b"general"
    yield b"%%%%MatrixMarket matrix coordinate %s %s\n" % (kind, symmetry)
    yield b"%d %d %d\n" % (edges.n, edges.n, len(src))
    yield from format_rows(columns)


def read_npz(path: StrPath, archive: IO[bytes]) -> EdgeArrays:
    """Read a matrix saved by ``scipy.sparse.save_npz`` (CSR, CSC or COO) from an open file.

    It is ``symmetric`` if it equals its transpose, values included.

    Raises
    ------
    FormatError
        With the file, which has no lines.
    """
    try:
        with np.load(archive, allow_pickle=False) as file:
            part = {name: file[name] for name in file.files}
        form = part["format"].item()
        form = form.decode() if isinstance(form, bytes) else str(form)
        rows, columns = (int(v) for v in part["shape"])
        if rows != columns or not 0 <= rows <= MAX_VERTICES:
            raise FormatError(path, None, f"a matrix of {rows} x {columns} is no graph")
        if form in ("csr", "csc"):
            src, dst = _expand(path, part["indptr"], rows), part["indices"]
            src, dst = (src, dst) if form == "csr" else (dst, src)
        elif form == "coo":
            src, dst = part["row"], part["col"]
        else:
            raise FormatError(path, None, f"a sparse matrix of format {form!r}: save it as CSR")
        weight = part["data"]
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # of a damaged archive NumPy complains in many ways
        raise FormatError(path, None, f"no sparse matrix as SciPy saves it: {error}") from error
    del part
    if not (src.ndim == dst.ndim == weight.ndim == 1 and len(src) == len(dst) == len(weight)):
        raise FormatError(path, None, "rows, columns and values differ in number")
    for ids in (src, dst):
        if ids.dtype.kind not in "iu" or (len(ids) and not 0 <= ids.min() <= ids.max() < rows):
            raise FormatError(path, None, f"an index is no integer in 0 to {rows - 1}")
    if weight.dtype.kind not in "biuf":
        raise FormatError(path, None, f"values of type {weight.dtype} are no weights")
    src, dst = (ids.astype(np.int32, copy=False) for ids in (src, dst))
    return EdgeArrays(src, dst, weight, rows, symmetric=_is_symmetric(src, dst, weight, rows))


def _is_symmetric(
    src: NDArray[np.int32], dst: NDArray[np.int32], weight: NDArray[Any], n: int
) -> bool:
    """Whether a matrix equals its transpose, as `Graph.of` finds out of SciPy's matrices.

    Rows and columns are counted first, in which most that are not symmetric differ.  Of entries
    that are stored twice in one place the order counts.
    """
    if not np.array_equal(np.bincount(src, minlength=n), np.bincount(dst, minlength=n)):
        return False
    here, there = (a.astype(np.int64) * n + b for a, b in ((src, dst), (dst, src)))
    if not (here[1:] >= here[:-1]).all():
        order = np.argsort(here, kind="stable")
        here, there, weight = here[order], there[order], weight[order]
    turned = np.argsort(there, kind="stable")
    return bool((here == there[turned]).all() and (weight == weight[turned]).all())


def _expand(path: StrPath, offsets: NDArray[Any], rows: int) -> NDArray[Any]:
    """Row of each entry, from where the rows start."""
    degree = np.diff(offsets)
    if len(offsets) != rows + 1 or offsets[0] != 0 or (degree < 0).any():
        raise FormatError(path, None, "indptr does not count up from 0, one number a row")
    return np.repeat(np.arange(rows, dtype=np.int32), degree)


def write_npz(edges: EdgeArrays, file: IO[bytes]) -> None:
    """Write a COO matrix that ``scipy.sparse.load_npz`` reads; no weights become ones."""
    weight = np.ones(len(edges.src), np.int32) if edges.weight is None else edges.weight
    src, dst = edges.src, edges.dst
    if edges.undirected:
        mirror = np.flatnonzero(src != dst)
        src, dst = np.concatenate([src, dst[mirror]]), np.concatenate([dst, src[mirror]])
        weight = np.concatenate([weight, weight[mirror]])
    shape = np.array([edges.n, edges.n])
    kept = {"row": src, "col": dst, "data": weight, "shape": shape, "format": np.array(b"coo")}
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, array in kept.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(InPieces(member), array, allow_pickle=False)
