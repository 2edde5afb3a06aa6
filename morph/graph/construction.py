"""Construction of graphs: from edges, compressed rows, and graphs of other libraries."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from morph.graph.adjacency import count_keys, is_sorted
from morph.graph.arrange import (
    Rows,
    arrange,
    bytes_needed,
    contiguous,
    keeps,
    offsets_from,
    require_memory,
    sources_from,
)
from morph.graph.edgelist import checked_edges, checked_ends, checked_offsets, require_symmetric
from morph.graph.interop import (
    EdgeData,
    igraph_edges,
    is_symmetric,
    library_of,
    networkx_edges,
    table_edges,
)
from morph.language.arguments import boolean, check_name, integer
from morph.language.dtypes import parse
from morph.language.messages import shown
from morph.runtime.arrays import listed, refuse_masked
from morph.runtime.device import Array, Device, device_for

POINTS_PER_EDGE = 16  # number of points whose offsets take as long as sorting one edge
Form = Literal["directed", "both", "symmetric", "verified"]
"""Which arcs an edge list has, and what is done with it.

``"directed"``: the edges of a directed graph.  ``"both"``: one arc of each undirected edge; the
other is added.  ``"symmetric"``: both arcs, which is checked.  ``"verified"``: both arcs, which the
reader of the file has checked.
"""


class Making:
    """Base of `Graph`: its ``from_...`` methods, and their memory requirements."""

    __slots__ = ()

    @classmethod
    def _of_rows(cls, where: Device, rows: Rows, directed: bool) -> Self:
        """See `Graph`."""
        raise NotImplementedError

    labels: Any  # see `Labelled`

    @classmethod
    def from_edges(
        cls,
        src: Any,
        dst: Any,
        weight: Any = None,
        n: int | None = None,
        *,
        directed: bool = True,
        symmetric: bool = False,
        symmetrize: bool = False,
        copy: bool = True,
        device: str | Device | None = None,
    ) -> Self:
        """Make a graph from an edge list.

        Parameters
        ----------
        src, dst : array of int, shape (m,)
            Arrays of NumPy, CuPy, or another library with ``__array__``,
            ``__cuda_array_interface__`` or ``__dlpack__``.
        weight : array, shape (m,), optional
            Of any column type; becomes column ``weight``.
        n : int, optional
            Number of points; one more than the largest id by default.
        symmetric : bool
            The list has as many edges from u to v as from v to u, which is checked.
        symmetrize : bool
            Add the reverse of each edge except loops, with the same weight.
        directed : bool
            ``directed=False`` is ``symmetrize=True``, unless the list is ``symmetric``.
        copy : bool
            False lets the graph use arrays as the memory of its columns, if they lie on the device,
            are contiguous, writable, sorted by ``src``, and of the columns' types (int32 ids).  The
            arrays and the columns then share their values, until the table grows.
        device : str or Device, optional
            By default the device of arrays on a GPU, else see `morph.set_device`.

        Returns
        -------
        Graph
            Its edges are sorted by source, stably; see ``edge_order``.

        Raises
        ------
        TypeError, ValueError
            If the lengths differ, or an id is not an integer from 0 to ``n - 1``; the error names
            argument, position and value.  If ``symmetric`` is given and found to be wrong.
        MemoryError
            If the device has less free memory than `bytes_needed`, before any is allocated.
        """
        directed, symmetric = boolean(directed, "directed"), boolean(symmetric, "symmetric")
        symmetrize, copy = boolean(symmetrize, "symmetrize"), boolean(copy, "copy")
        unpaired: Form = "both" if symmetrize or not directed else "directed"
        form: Form = "symmetric" if symmetric else unpaired
        return cls._from_edges(src, dst, weight, n, form, copy, device)

    @classmethod
    def _from_edges(
        cls, src: Any, dst: Any, weight: Any, n: int | None, form: Form, copy: bool, device: Any
    ) -> Self:
        """See `from_edges`; ``form`` says which arcs the list has."""
        where = device_for(device, src, dst, weight)
        work = where.array_device(src, dst, weight)  # the device where edges are checked and sorted
        a, b, w, rows = checked_edges(work, src, dst, weight, n)
        if work is not where and where.array_device(rows // POINTS_PER_EDGE) is where:
            work = where
            a, b = work.asarray(a), work.asarray(b)
            w = None if w is None else work.asarray(w)
        dtype = None if w is None else w.dtype
        both = form == "both"
        if form == "symmetric":
            require_symmetric(work, a, b, rows)
        keep = not copy or work is not where  # `Rows.on` copies arrays from another device
        with work.active():
            in_order = not both and is_sorted(a)
            kept = 0 if not in_order else _kept(where, not copy, (src, a), (dst, b), (weight, w))
            require_memory(where, rows, a.size * (1 + both), dtype, in_order, kept)
            if not in_order:
                made = arrange(work, a, b, w, rows, both)
                return cls._of_rows(where, made.on(where), form == "directed")
            offsets = offsets_from(work, count_keys(work.xp, a, rows))
        starts = contiguous(work, src, a, np.int32, keep)
        made = _with_ends(work, offsets, starts, (dst, b), (weight, w), keep)
        return cls._of_rows(where, made.on(where), form == "directed")

    @classmethod
    def from_csr(
        cls,
        offsets: Any,
        dst: Any,
        weight: Any = None,
        *,
        symmetric: bool = False,
        copy: bool = True,
        device: str | Device | None = None,
    ) -> Self:
        """Make a graph from compressed rows: ``offsets[p]`` to ``offsets[p+1]`` are edges of p.

        Nothing is sorted: an edge's id is its position.

        Parameters
        ----------
        offsets : array of int, shape (n + 1,)
        dst : array of int, shape (m,)
        weight, symmetric, copy, device
            As in `from_edges`.

        Raises
        ------
        TypeError, ValueError
            If the offsets do not increase from 0 to m, and as in `from_edges`.
        MemoryError
            As in `from_edges`.
        """
        symmetric, copy = boolean(symmetric, "symmetric"), boolean(copy, "copy")
        where = device_for(device, dst, offsets, weight)
        work = where.array_device(dst, offsets, weight)
        keep = not copy or work is not where  # as in `from_edges`
        with work.active():
            refuse_masked(dst, "dst")
            b = work.asarray(listed(dst, "dst"))
            at = checked_offsets(work, offsets, b.size)
            n = at.size - 1
            b, w = checked_ends(work, b, weight, n)
            dtype, kept = (
                None if w is None else w.dtype,
                _kept(where, not copy, (dst, b), (weight, w)),
            )
            require_memory(where, n, b.size, dtype, arranged=True, kept=kept)
            at = contiguous(work, offsets, at, np.int64, keep)
            src = None  # most algorithms do not use it: made from the offsets, when it is used
            if symmetric:
                src = sources_from(work, at, b.size)
                require_symmetric(work, src, b, n)
        made = _with_ends(work, at, src, (dst, b), (weight, w), keep)
        return cls._of_rows(where, made.on(where), not symmetric)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        *,
        weight: bool = True,
        symmetric: bool | None = None,
        copy: bool = True,
        device: str | Device | None = None,
    ) -> Self:
        """Make a graph from a square sparse matrix (SciPy or CuPy): entry (i, j) is an edge.

        Parameters
        ----------
        matrix : sparse matrix or array, shape (n, n)
            Formats other than CSR are converted to CSR, which sums duplicate entries of a COO
            matrix.  Stored zeros are edges, too.
        weight : bool
            Keep the values as column ``weight``.
        symmetric : bool, optional
            Whether the graph is undirected.  By default, whether the matrix equals its transpose,
            including the values if they are kept; True is checked as in `from_edges`.
        copy, device
            As in `from_edges`.

        Raises
        ------
        ValueError
            If the matrix is not square.
        """
        weight, copy = boolean(weight, "weight"), boolean(copy, "copy")
        if not hasattr(matrix, "tocsr"):
            raise TypeError(f"matrix is a sparse matrix of SciPy or CuPy, not {shown(matrix)}")
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"the matrix is {matrix.shape}: expected a square one")
        csr = matrix.tocsr()
        values = csr.data if weight else None
        copy = copy and csr is matrix  # a converted matrix is not shared
        if symmetric is None:
            symmetric = is_symmetric(csr, weight)
        options: dict[str, Any] = {"symmetric": symmetric, "copy": copy, "device": device}
        return cls.from_csr(csr.indptr, csr.indices, values, **options)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, weight: str | None = "weight", device: str | Device | None = None
    ) -> Self:
        """Make a graph from a NetworkX graph; point i is the i-th node of ``list(graph)``.

        Nodes become the `labels` of points, unless they are 0, 1, 2, ... in this order.

        Parameters
        ----------
        graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
            Undirected graphs become symmetric graphs.
        weight : str or None
            The edge attribute that becomes column ``weight``, 1 where it is missing; no
            column if no edge has it.
        """
        if not hasattr(graph, "adjacency") or not hasattr(graph, "is_multigraph"):
            raise TypeError(f"graph is a graph of NetworkX, not {shown(graph)}")
        check_name(weight, "weight")
        return cls._of_data(networkx_edges(graph, weight), bool(graph.is_directed()), device)

    @classmethod
    def from_igraph(
        cls, graph: Any, *, weight: str | None = "weight", device: str | Device | None = None
    ) -> Self:
        """Make a graph from an ``igraph.Graph``; point i is vertex i.

        The vertex attribute ``name`` becomes the `labels` of points, if all have one and these are
        distinct.

        Parameters
        ----------
        graph : igraph.Graph
            Undirected graphs become symmetric graphs.
        weight : str or None
            As in `from_networkx`.
        """
        if not hasattr(graph, "get_edgelist"):
            raise TypeError(f"graph is a graph of igraph, not {shown(graph)}")
        return cls._of_data(igraph_edges(graph, weight), bool(graph.is_directed()), device)

    @classmethod
    def from_table(
        cls, table: Any, source: str = "source", target: str = "target",
        weight: str | None = "weight", *, directed: bool = True, labels: bool = False,
        device: str | Device | None = None,
    ) -> Self:  # fmt: skip
        """Make a graph from a table that has a row for each edge.

        Parameters
        ----------
        table : DataFrame of pandas or polars, Table or RecordBatch of Arrow
        source, target : str
            The columns of the ends.  Integers are the ids of points.  Other values, such as
            strings, are labels: each distinct label becomes a point, in the order of occurrence.
        weight : str or None
            The column that becomes column ``weight``, if the table has it.  Missing reals are NaN,
            which algorithms refuse.
        directed : bool
            As in `from_edges`.
        labels : bool
            Treat also integers as labels, such as ids with large gaps.
        device : str or Device, optional
            By default that of arrays on a GPU, else see `morph.set_device`.

        Raises
        ------
        TypeError, ValueError
            If the table has no such columns, an end is missing, a real number or a date, and as in
            `from_edges`.
        """
        check_name(source, "source")
        check_name(target, "target")
        check_name(weight, "weight")
        if not hasattr(table, "columns") or not hasattr(table, "__getitem__"):
            raise TypeError(f"table is a table of pandas, polars or Arrow, not {shown(table)}")
        directed, labels = boolean(directed, "directed"), boolean(labels, "labels")
        return cls._of_data(table_edges(table, source, target, weight, labels), directed, device)

    @classmethod
    def _of_data(cls, data: EdgeData, directed: bool, device: str | Device | None) -> Self:
        src, dst, weight, n, labels = data
        g = cls.from_edges(src, dst, weight, n, directed=directed, device=device)
        if labels is not None:
            g.labels = labels
        return g

    @classmethod
    def of(
        cls, graph: Any, *, weight: str | None = "weight", device: str | Device | None = None
    ) -> Self:
        """Make a graph from a graph of another library, see the ``from_...`` of each.

        Parameters
        ----------
        graph : sparse matrix or array of SciPy or CuPy, NetworkX graph, igraph.Graph, or table
            These libraries are not imported for the test.  The result is undirected for undirected
            graphs, and for matrices that equal their transposes (see `from_scipy`).  Tables are
            those of pandas, polars and Arrow (see `from_table`).
        weight : str or None
            The edge attribute that becomes column ``weight``; for a matrix, its values.  None makes
            no column.
        device : str or Device, optional
            By default that of arrays on a GPU, else see `morph.set_device`.

        Raises
        ------
        TypeError
            If it is no such object.
        """
        library = library_of(graph)
        if library == "scipy":
            return cls.from_scipy(graph, weight=weight is not None, device=device)
        if library == "networkx":
            return cls.from_networkx(graph, weight=weight, device=device)
        if library == "igraph":
            return cls.from_igraph(graph, weight=weight, device=device)
        if library == "table":
            return cls.from_table(graph, weight=weight, device=device)
        raise TypeError(
            f"no graph can be made of {type(graph).__name__}: expected a sparse matrix of SciPy or "
            "CuPy, a graph of Morph, NetworkX or igraph, or a table of edges; from_edges takes"
            " arrays"
        )

    @staticmethod
    def bytes_needed(n: int, m: int, weight: Any = None, *, arranged: bool = True) -> int:
        """Return an upper bound of the bytes for making a graph, besides its input.

        This includes the resulting graph: 8 bytes for a point; for an edge two ids (4 bytes each),
        the weight, and the input position (4) if the edges were not sorted.  `from_edges` and
        `from_csr` raise MemoryError if the device has less free memory.

        Parameters
        ----------
        n, m : int
            Number of points, and of edges of the graph, including reverses added by `from_edges`.
        weight : type, optional
            The type of column ``weight``, if there is one.
        arranged : bool
            False if edges must be sorted by source, or reverse edges are added.
        """
        n, m = integer(n, "n"), integer(m, "m")
        arranged = boolean(arranged, "arranged")
        if weight is not None:
            weight = parse(weight, "weight").dtype
        return bytes_needed(n, m, weight, arranged)


def _kept(where: Device, keep: bool, *columns: tuple[Any, Array | None]) -> int:
    """Bytes of the columns (ids first) that the graph does not copy."""
    types = [np.int32, np.int32][: len(columns) - 1]
    total = 0
    for k, (given, a) in enumerate(columns):
        if a is not None and keeps(where, given, a, types[k] if k < len(types) else a.dtype, keep):
            total += int(a.nbytes)
    return total


def _with_ends(
    where: Device,
    offsets: Array,
    src: Array | None,
    dst: tuple[Any, Array],
    weight: tuple[Any, Array | None],
    keep: bool,
) -> Rows:
    """Rows made of pairs of an argument and the array made from it."""
    made = Rows(offsets, src, contiguous(where, *dst, np.int32, keep, src), None)
    given, values = weight
    if values is not None:
        keep = keep and not where.xp.may_share_memory(values, made.dst)
        made.weight = contiguous(where, given, values, values.dtype, keep, src)
    return made
