"""Graphs as sparse matrices: Matrix Market ``.mtx`` text and SciPy's ``.npz``.

Row u, column v holds the weight of the edge from u to v.  SciPy is not required.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from morph.graph.adjacency import is_sorted
from morph.io.graph.edges import (
    MAX_VERTICES,
    EdgeArrays,
    arcs_of,
    compressed_rows,
    gathered,
    is_symmetric,
    narrow,
)
from morph.io.graph.lines import Lines, first_line
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Block, Comment, Field, FormatError, Scanner, StrPath
from morph.runtime.threads import in_threads

_COMMENT = Comment((b"%",), re.compile(rb"%[^\n]*"))
_LARGEST = 2**31 - 1
INTEGERS = ("integer", "unsigned-integer")  # the second is SciPy's, of unsigned types
_BANNER = (
    "%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric"
)


def read_matrix_market(path: StrPath, data: bytes) -> EdgeArrays:
    """Read the bytes of an ``.mtx`` file of a square matrix, as `scipy.io.mmread` does.

    An entry of a symmetric matrix, in the lower or upper triangle, is an undirected edge; an entry
    of a skew-symmetric matrix is an arc and its reverse with negated weight.  The nonzero values
    of a dense matrix (``array``) are edges.

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
    """Read the first line of a file: returns a scanner, layout, type and symmetry."""
    tokens = data[: data.find(b"\n") + 1 or len(data)].lower().split()
    scanner = Scanner(path, data, _COMMENT)
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
    """Read the head of an ``.mtx`` file; returns the format of its edge lines.

    Returns None for dense and skew-symmetric matrices, which are not read in shares.

    Raises
    ------
    FormatError
        With file and line.
    """
    start = data[: first_line(data, _COMMENT.pattern.pattern)]
    scanner, layout, kind, symmetry = _banner(path, start)
    if layout == "array" or symmetry == "skew-symmetric":
        return None
    n, entries = _size(scanner)
    return Lines(
        scanner.pos, _entry(kind), "entries", _COMMENT, n, count=entries,
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
    """Return the fields of an entry, by the type of the matrix."""
    fields = Field("row"), Field("column"), Field("value", kind in INTEGERS)
    return fields[:2] if kind == "pattern" else fields


def _dense(scanner: Scanner, integral: bool, symmetry: str) -> EdgeArrays:
    """Read a dense matrix by columns: all values, the lower triangle or the strict lower one."""
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
    else:  # packed storage: each column is shorter than the previous one by 1
        begins = np.concatenate([[0], np.cumsum(np.arange(n - first, 0, -1))])
        dst = np.searchsorted(begins, at, "right") - 1
        src = at - begins[dst] + dst + first
    return EdgeArrays(src.astype(np.int32), dst.astype(np.int32), narrow(values[at]), n)


def _require_square(scanner: Scanner, rows: int, columns: int, line: int) -> None:
    if rows != columns or rows > MAX_VERTICES:
        scanner.fail(f"a matrix of {rows} x {columns} is no graph: it must be square", line)


def _with_negatives(scanner: Scanner, edges: EdgeArrays) -> EdgeArrays:
    """Add the reverse arc, with negated weight, of each off-diagonal entry."""
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
        If a weight is not finite.
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


def read_npz(path: StrPath, archive: IO[bytes], share: tuple[int, int] = (0, 1)) -> EdgeArrays:
    """Read a matrix saved by ``scipy.sparse.save_npz`` (CSR, CSC or COO) from an open file.

    The result is ``symmetric`` if sums of hashes of the entries, with values, equal those of the
    transpose; the order of duplicates does not matter.  It is not tested for a share, such as
    (1, 3) for the second third of the entries.

    Raises
    ------
    FormatError
        With the file, without a line.
    """
    try:
        with np.load(archive, allow_pickle=False) as opened:
            file: Any = opened
            form = file["format"].item()
            form = form.decode() if isinstance(form, bytes) else str(form)
            rows, columns = (int(v) for v in file["shape"])
            if rows != columns or not 0 <= rows <= MAX_VERTICES:
                raise FormatError(path, None, f"a matrix of {rows} x {columns} is no graph")
            arrays = ("row", "col") if form == "coo" else ("indices", "indptr")
            if share == (0, 1) and form in ("csr", "csc", "coo"):
                file = _members(file, (*arrays, "data"))
            if form in ("csr", "csc"):
                dst, sizes = _entries(file, "indices", share)
                src = _expand(path, offsets := file["indptr"], rows, share)
                src, dst = (src, dst) if form == "csr" else (dst, src)
                sizes.add(int(offsets[-1]))
            elif form == "coo":
                src, sizes = _entries(file, "row", share)
                dst, more = _entries(file, "col", share)
                sizes |= more
            else:
                raise FormatError(path, None, f"a sparse matrix of format {form!r}: save it as CSR")
            weight, more = _entries(file, "data", share)
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # NumPy raises many types for a damaged archive
        raise FormatError(path, None, f"no sparse matrix as SciPy saves it: {error}") from error
    if len(sizes | more) > 1 or not (src.ndim == dst.ndim == weight.ndim == 1):
        raise FormatError(path, None, "rows, columns and values differ in number")
    for ids in (src, dst):
        if ids.dtype.kind not in "iu" or (len(ids) and not 0 <= ids.min() <= ids.max() < rows):
            raise FormatError(path, None, f"an index is no integer in 0 to {rows - 1}")
    if weight.dtype.kind not in "biuf":
        raise FormatError(path, None, f"values of type {weight.dtype} are no weights")
    src, dst = (ids.astype(np.int32, copy=False) for ids in (src, dst))
    whole = share == (0, 1)
    return EdgeArrays(src, dst, weight, rows, symmetric=whole and is_symmetric(src, dst, weight))


def _members(file: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read arrays of an archive, in several threads: zlib decompresses without the GIL.

    This thread opens the members, as `zipfile.ZipFile.open` seeks relative to the position of the
    archive, which other threads change.
    """
    found: dict[str, NDArray[Any]] = {}
    with ExitStack() as stack:
        members = [stack.enter_context(file.zip.open(f"{name}.npy")) for name in names]

        def read(first: int, end: int) -> None:
            for k in range(first, end):
                found[names[k]] = np.lib.format.read_array(members[k], allow_pickle=False)

        in_threads(read, len(names))
    return found


def _entries(file: Any, name: str, share: tuple[int, int]) -> tuple[NDArray[Any], set[int]]:
    """Read a share of an array of an archive, and the size of the complete array."""
    if share == (0, 1):
        whole = file[name]
        return whole, {whole.size}
    with file.zip.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else (
            np.lib.format.read_array_header_2_0)  # fmt: skip
        shape, _, dtype = header(member)
        size = math.prod(shape)
        first, last = (size * k // share[1] for k in (share[0], share[0] + 1))
        member.seek(first * dtype.itemsize, 1)
        data = member.read((last - first) * dtype.itemsize)
    return np.frombuffer(data, dtype, last - first), {size}


def _expand(
    path: StrPath, offsets: NDArray[Any], rows: int, share: tuple[int, int]
) -> NDArray[Any]:
    """Return the row of each entry of a share, from the row offsets."""
    degree = np.diff(offsets)
    if len(offsets) != rows + 1 or offsets[0] != 0 or (degree < 0).any():
        raise FormatError(path, None, "indptr does not count up from 0, one number a row")
    first, last = (int(offsets[-1]) * k // share[1] for k in (share[0], share[0] + 1))
    degree = np.diff(np.clip(offsets, first, last))
    return np.repeat(np.arange(rows, dtype=np.int32), degree)


def write_npz(edges: EdgeArrays, file: IO[bytes]) -> None:
    """Write a matrix for ``scipy.sparse.load_npz``; without weights, all values are 1.

    Arcs in order of their source are written as CSR, others as COO, in their order.
    """
    src, dst, weight = arcs_of(edges) if edges.undirected else (edges.src, edges.dst, edges.weight)
    values: NDArray[Any] = np.ones(len(src), np.int32) if weight is None else weight
    if is_sorted(src):
        offsets, dst, _ = compressed_rows(EdgeArrays(src, dst, values, edges.n))
        offsets = offsets.astype(np.int32 if len(dst) <= _LARGEST else np.int64)  # as SciPy's
        arrays: dict[str, NDArray[Any]] = {"indices": dst, "indptr": offsets}
        form = b"csr"
    else:
        arrays, form = {"row": src, "col": dst}, b"coo"
    arrays |= {"data": values, "shape": np.array([edges.n, edges.n]), "format": np.array(form)}
    with ZipFile(file, "w") as archive:  # not compressed, as zlib reads no more than 400 MB/s
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
