"""Graph files of SciPy and NetworkX are read with equal results, and ours by them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph.io import EdgeArrays, read_edges, read_graph, write_graph

sparse = pytest.importorskip("scipy.sparse")
scipy_io = pytest.importorskip("scipy.io")

VALUES = {
    "integer": st.integers(-(2**31), 2**31 - 1),
    "unsigned": st.integers(0, 2**31 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False),
}
DTYPES = {"integer": np.int64, "unsigned": np.uint32, "real": np.float64}


@st.composite
def matrices(draw):
    n = draw(st.integers(1, 8))
    kind = draw(st.sampled_from(list(VALUES)))
    at = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    symmetric = draw(st.booleans())
    if symmetric:
        at = {(max(p), min(p)) for p in at}
    entries = {p: draw(VALUES[kind]) for p in sorted(at)}
    if symmetric:
        entries |= {(v, u): w for (u, v), w in entries.items()}
    u, v = np.array(list(entries), int).reshape(-1, 2).T
    values = np.array(list(entries.values()), DTYPES[kind])
    return sparse.coo_array((values, (u, v)), shape=(n, n)), symmetric


def as_matrix(graph):
    offsets, dst, weight = graph.csr()
    n = len(graph.points)
    return sparse.csr_array((weight, dst, offsets), shape=(n, n))


def equal(a, b):
    """The same entries, stored zeros too."""
    a, b = a.tocsr(), b.tocsr()
    a.sort_indices()
    b.sort_indices()
    pairs = ((a.indptr, b.indptr), (a.indices, b.indices), (a.data, b.data))
    return all(np.array_equal(x, y) for x, y in pairs)


@given(matrices(), st.booleans())
def test_matrix_market_of_scipy(tmp_path_factory, case, pattern):
    matrix, symmetric = case
    path = tmp_path_factory.mktemp("mm") / "g.mtx"
    options = {"field": "pattern"} if pattern else {}
    scipy_io.mmwrite(path, matrix, symmetry="symmetric" if symmetric else "general", **options)
    graph = read_graph(path)
    if pattern and matrix.nnz:  # SciPy writes an empty one as if it had values
        assert "weight" not in graph.edges.columns and len(graph.edges) == matrix.nnz
        return
    if matrix.nnz:
        assert equal(as_matrix(graph), matrix)
    again = path.with_name("h.mtx")
    write_graph(read_edges(path), again)
    assert equal(scipy_io.mmread(again), sparse.coo_array(matrix))


@given(matrices(), st.sampled_from(["csr", "csc", "coo"]), st.booleans())
def test_npz_of_scipy(tmp_path_factory, case, form, small):
    matrix, _ = case
    path = tmp_path_factory.mktemp("npz") / "g.npz"
    sparse.save_npz(path, matrix.asformat(form), compressed=small)
    assert equal(as_matrix(read_graph(path)), matrix)
    write_graph(read_edges(path), path)
    assert equal(sparse.load_npz(path), matrix)


@given(matrices())
def test_edge_lists_of_networkx(tmp_path_factory, case):
    networkx = pytest.importorskip("networkx")
    matrix, _ = case
    if not matrix.nnz:
        return
    folder = tmp_path_factory.mktemp("el")
    theirs = networkx.from_scipy_sparse_array(matrix, create_using=networkx.DiGraph)
    networkx.write_weighted_edgelist(theirs, folder / "g.wel")
    ours = read_edges(folder / "g.wel")
    found = dict(zip(zip(ours.src.tolist(), ours.dst.tolist(), strict=True), ours.weight.tolist(),
                     strict=True))  # fmt: skip
    assert found == {(u, v): w for u, v, w in theirs.edges(data="weight")}
    write_graph(EdgeArrays(ours.src, ours.dst, ours.weight, ours.n), folder / "h.wel")
    back = networkx.read_weighted_edgelist(
        folder / "h.wel", create_using=networkx.DiGraph, nodetype=int
    )
    assert {(u, v): w for u, v, w in back.edges(data="weight")} == found


def test_snap_as_it_is_published(tmp_path):
    """Comments, tabs, CR LF, ids that leave gaps, and times as a third column."""
    text = (
        "# A web: each pair is listed once. e.g. of 2002\r\n# Nodes: 4 Edges: 3\r\n"
        "# FromNodeId\tToNodeId\r\n0\t11342\r\n0\t824020\r\n11342\t0\r\n"
    )
    (tmp_path / "web.txt").write_bytes(text.encode())
    edges = read_edges(tmp_path / "web.txt")
    assert edges.n == 824021 and edges.dst.tolist() == [11342, 824020, 0] and edges.weight is None
    (tmp_path / "mail.txt").write_text("582 364 0\n168 472 2797\n168 912 1082040961\n")
    assert read_edges(tmp_path / "mail.txt").weight.tolist() == [0, 2797, 1082040961]


def test_dimacs_as_it_is_published(tmp_path):
    """Comments before and behind the problem line, and among the arcs, some of them empty."""
    text = (
        "c a road network\nc\np sp 6 4\nc 6 vertices\nc\n"
        "a 1 2 17\nc the next one is short\nc\na 1 3 10\na 2 4 2\na 6 5 20 \n"
    )
    (tmp_path / "g.gr").write_text(text)
    edges = read_edges(tmp_path / "g.gr")
    assert edges.n == 6 and edges.weight.tolist() == [17, 10, 2, 20]
