"""Graph files: contents, every malformation with its line, exact round trips."""

import bz2
import gzip
import lzma
import threading
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph.graph import Graph, reverses
from morph.io import EdgeArrays, FormatError, read_edges, read_graph, write_graph
from morph.io.graph import matrix
from morph.io.graph.edges import is_symmetric
from morph.io.text import files, numbers, scanner
from morph.language.messages import shortened

GR = "c road\np sp 4 3\na 1 2 7\na 2 3 -1\nc between\na 4 4 0\n"
MTX = "%%MatrixMarket matrix coordinate integer general\n% c\n3 3 2\n1 2 5\n3 1 6\n"


def read(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode("latin1") if isinstance(text, str) else text)
    return read_edges(path)


def as_lists(edges):
    weight = None if edges.weight is None else edges.weight.tolist()
    return edges.src.tolist(), edges.dst.tolist(), weight, edges.n, edges.undirected


GOOD = {
    ("g.gr", GR): ([0, 1, 3], [1, 2, 3], [7, -1, 0], 4, False),
    ("g.gr", "p sp 3 0\n"): ([], [], [], 3, False),
    ("g.gr", "p sp 2 1\r\na\t1 2 3000000000\r\n\r\n"): ([0], [1], [3000000000], 2, False),
    ("g.gr", "c x\nc\np sp 2 2\n \t\na 1 2 3\n  \nc y\na 2 1 4\n"): (
        [0, 1], [1, 0], [3, 4], 2, False),
    ("g.gr", "c x\np tw 3 2\n1 2\nc y\n3 2"): ([0, 2], [1, 1], None, 3, True),
    ("g.gr", "p sp 2 1\na 1 2 3\nc"): ([0], [1], [3], 2, False),
    ("g.txt", "0 1\n\n# c\n2 1 # d\n"): ([0, 2], [1, 1], None, 3, False),
    ("g.txt", "% c\n0\t1\t5\n2 1 -6\n"): ([0, 2], [1, 1], [5, -6], 3, False),
    ("g.txt", " # c\n\t% c\n 0 1\n2 1\n"): ([0, 2], [1, 1], None, 3, False),
    ("g.el", "0 1 .5\n2 1 1\n"): ([0, 2], [1, 1], [0.5, 1.0], 3, False),
    ("g", "# Nodes: 9 Edges: 1\n0 1\n"): ([0], [1], None, 9, False),
    ("g", "# Directed graph\n# Nodes: 2 Edges: 1\n0 5\n"): ([0], [5], None, 6, False),
    ("g", "# a.b e\n% c\n#\n0 1 5\n# .\n1 0 6\n"): ([0, 1], [1, 0], [5, 6], 2, False),
    ("g", "# Nodes: 4\n"): ([], [], None, 4, False),
    ("g.mtx", MTX): ([0, 2], [1, 0], [5, 6], 3, False),
    ("g.mtx", MTX.replace("integer", "unsigned-integer")): ([0, 2], [1, 0], [5, 6], 3, False),
    ("g.mtx", MTX.replace("integer", "real")): ([0, 2], [1, 0], [5.0, 6.0], 3, False),
    ("g.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"): (
        [1], [0], None, 2, True),
}  # fmt: skip


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
@pytest.mark.parametrize("name, text", GOOD)
def test_read(tmp_path, name, text, least, monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", least)
    monkeypatch.setattr(scanner, "PIECE", 5 if least == 0 else 1 << 24)
    edges = read(tmp_path, name, text)
    assert as_lists(edges) == GOOD[name, text]
    assert edges.src.dtype == edges.dst.dtype == np.int32


def test_weights_take_the_smallest_type_that_holds_them(tmp_path):
    assert read(tmp_path, "a", "0 1 5\n").weight.dtype == np.int32
    assert read(tmp_path, "a", "0 1 3000000000\n").weight.dtype == np.int64
    assert read(tmp_path, "a", "0 1 5.0\n").weight.dtype == np.float64


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip), (".xz", lzma), (".bz2", bz2)])
def test_compressed(tmp_path, suffix, pack):
    packed = pack.compress(GR.encode())
    assert as_lists(read(tmp_path, "g.gr" + suffix, packed)) == GOOD["g.gr", GR]
    with pytest.raises(FormatError, match=rf"g\.gr\{suffix}: damaged \{suffix} file: "):
        read(tmp_path, "g.gr" + suffix, b"not at all")
    with pytest.raises(FormatError, match=rf"g\.gr\{suffix}: damaged \{suffix} file: "):
        read(tmp_path, "g.gr" + suffix, packed[:-12])


def test_a_large_compressed_file_is_unpacked_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED", 16)
    packed = gzip.compress(GR.encode())
    assert as_lists(read(tmp_path, "g.gr.gz", packed)) == GOOD["g.gr", GR]
    with pytest.raises(FormatError, match=r"g\.gr\.gz: damaged \.gz file: "):
        read(tmp_path, "g.gr.gz", packed[:-12])


BAD = {
    ("g.gr", ""): "1: the file ends before its problem line (p sp n m)",
    ("g.gr", "a 1 2 3\n"): "1: expected the problem line 'p sp n m' or 'p tw n m', found 'a 1 2 3'",
    ("g.gr", "c\np max 4 3\n"): "2: expected the problem line 'p sp n m' or 'p tw n m', found"
    " 'p max 4 3'",
    ("g.gr", "p sp x 3\n"): "1: the n is not an integer: 'x'",
    ("g.gr", "p sp -1 3\n"): "1: n = -1 and m = 3: n must be 0 to 2147483647, m not negative",
    ("g.gr", "p\x00sp 1 1\n"): "1: binary data where text is expected",
    ("g.gr", GR.replace("4 3", "4 4")): "6: the file ends after 3 of 4 arcs",
    ("g.gr", GR.replace("4 3", "4 2")): "6: unexpected '4' after the last of the arcs",
    ("g.gr", GR.replace("a 2", "e 2")): "4: expected an arc 'a tail head weight', found 'e 2 3 -1'",
    ("g.gr", GR.replace("a 2", "a2")): "4: expected an arc 'a tail head weight', found 'a2 3 -1'",
    ("g.gr", GR.replace("a 2", " a 2")): "4: expected an arc 'a tail head weight', found"
    " ' a 2 3 -1'",
    ("g.gr", GR.replace("a 2", "a \x80")): "4: binary data where text is expected",
    ("g.gr", GR.replace("2 3 -1", "2 3")): "4: found 2 fields, expected 3: tail head weight",
    ("g.gr", GR.replace("2 3 -1", "2 3 1.5")): "4: the weight is not an integer: '1.5'",
    ("g.gr", GR.replace("2 3 -1", "2,3,1")): "4: a comma: fields are separated by blanks",
    ("g.gr", GR.replace("2 3 -1", "2 5 1")): "4: vertex 5 is out of range: vertices are 1 to 4",
    ("g.gr", GR.replace("2 3 -1", "0 3 1")): "4: vertex 0 is out of range: vertices are 1 to 4",
    ("g.gr", "p tw 3 2\n1 2\n"): "2: the file ends after 1 of 2 edges",
    ("g.gr", "p tw 3 1\n1 4\n"): "2: vertex 4 is out of range: vertices are 1 to 3",
    ("g.txt", ""): "1: the file has no edges",
    ("g.txt", "# c\n\n"): "1: the file has no edges",
    ("g.txt", "1\n"): "1: found 1 fields, expected 'u v' or 'u v weight'",
    ("g.txt", "0 1 2 3\n"): "1: found 4 fields, expected 'u v' or 'u v weight'",
    ("g.txt", "0,1\n"): "1: a comma: fields are separated by blanks",
    ("g.txt", "0 1\n1 2 3\n"): "2: found 3 fields, expected 2: first vertex second vertex",
    ("g.txt", "0 1\n1 x\n"): "2: the second vertex is not an integer: 'x'",
    ("g.txt", "0 1\n-1 2\n"): "2: vertex -1 is out of range: vertices are 0 to 2147483646",
    ("g.txt", "0 1\n2147483647 2\n"): "2: vertex 2147483647 is out of range: vertices are 0 to"
    " 2147483646",
    ("g.txt", "0 1 1\n1 2 nan\n"): "2: the weight is not a finite number: 'nan'",
    ("g.txt", "0 1 .1\n1.5 2 1\n"): "2: the first vertex is not an integer: 1.5",
    ("g.txt", "0 1\n\x01 2\n"): "2: binary data where text is expected",
    ("g.txt", "# Nodes: 99999999999\n0 1\n"): "1: 99999999999 vertices are announced, at most"
    " 2147483647 are possible",
    ("g.mtx", "3 3 1\n1 1 1\n"): "1: the first line must be: %%MatrixMarket matrix coordinate|array"
    " real|integer|pattern general|symmetric|skew-symmetric",
    ("g.mtx", MTX.replace("integer", "complex")): "1: a complex matrix is no graph:"
    " %%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric",
    ("g.mtx", MTX.replace("general", "hermitian")): "1: a hermitian matrix is no graph:"
    " %%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric",
    ("g.mtx", MTX.replace("3 3 2", "3 4 2")): "3: a matrix of 3 x 4 is no graph: it must be square",
    ("g.mtx", MTX.replace("3 3 2", "3 3")): "3: the size line needs rows, columns and entries",
    ("g.mtx", MTX.replace("3 3 2", "3 3 3")): "5: the file ends after 2 of 3 entries",
    ("g.mtx", MTX.replace("3 3 2", "3 3 1")): "5: unexpected '3' after the last of the entries",
    ("g.mtx", MTX.replace("1 2 5", "1 4 5")): "4: vertex 4 is out of range: vertices are 1 to 3",
    ("g.mtx", MTX.replace("1 2 5", "1 2 5.5")): "4: the value is not an integer: '5.5'",
    ("g.npz", "junk"): None,
}


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
@pytest.mark.parametrize("name, text", BAD, ids=lambda t: repr(t)[:40])
def test_refused(tmp_path, name, text, least, monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", least)
    with pytest.raises(FormatError) as caught:
        read(tmp_path, name, text)
    message = BAD[name, text]
    if message is None:
        assert "no sparse matrix as SciPy saves it" in str(caught.value)
    else:
        assert str(caught.value) == shortened(f"{tmp_path / name}:{message}")


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_edges(tmp_path / "no.gr")


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_npz_by_scipy(tmp_path, form):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_array(([5, 6, 7], ([0, 2, 2], [1, 0, 2])), shape=(4, 4))
    sparse.save_npz(tmp_path / "g.npz", matrix.asformat(form))
    edges = read_edges(tmp_path / "g.npz")
    assert edges.n == 4
    assert sorted(zip(edges.src, edges.dst, edges.weight, strict=True)) == [
        (0, 1, 5), (2, 0, 6), (2, 2, 7)]  # fmt: skip
    write_graph(edges, tmp_path / "h.npz")
    assert (sparse.load_npz(tmp_path / "h.npz") != matrix).nnz == 0


def test_npz_is_opened_by_one_thread(tmp_path, monkeypatch):
    """Members opened by several threads at the same time may begin at wrong places."""
    path, opened, begin = tmp_path / "g.npz", [], zipfile.ZipFile.open
    write_graph(EdgeArrays(*(np.arange(9, dtype=np.int32),) * 3, 9), path)

    def record(*args, **options):
        opened.append(threading.get_ident())
        return begin(*args, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", record)
    monkeypatch.setattr(matrix, "in_threads", in_another_thread)
    assert read_edges(path).src.tolist() == list(range(9))
    assert set(opened) == {threading.get_ident()}


def in_another_thread(work, parts):
    thread = threading.Thread(target=work, args=(0, parts))
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [4, 5]}, "a matrix of 4 x 5 is no graph"),
        ({"col": [0, 4]}, "an index is no integer in 0 to 3"),
        ({"row": [0.5, 1]}, "an index is no integer in 0 to 3"),
        ({"col": [0]}, "rows, columns and values differ in number"),
        ({"data": [[3], [4]]}, "rows, columns and values differ in number"),
        ({"row": 0, "col": 1, "data": 3}, "rows, columns and values differ in number"),
        ({"data": [1j, 2]}, "values of type complex128 are no weights"),
        ({"format": b"bsr"}, "a sparse matrix of format 'bsr': save it as CSR"),
        ({"format": b"csr", "indptr": [0, 2, 1, 2, 2], "indices": [0, 1]},
         "indptr does not count up from 0, one number a row"),
        ({"data": np.array([None, 1])}, "no sparse matrix as SciPy saves it"),
    ],
)  # fmt: skip
def test_npz_refused(tmp_path, change, message):
    parts = {"format": b"coo", "shape": [4, 4], "row": [0, 1], "col": [1, 2], "data": [3, 4]}
    np.savez(tmp_path / "g.npz", **{k: np.array(v) for k, v in (parts | change).items()})
    with pytest.raises(FormatError, match=message):
        read_edges(tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz", allow_pickle=True) as part:
        np.savez(tmp_path / "h.npz", **{k: v for k, v in part.items() if k != "shape"})
    with pytest.raises(FormatError):
        read_edges(tmp_path / "h.npz")


arcs = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40)
integers = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)
suffixes = [".gr", ".txt", ".mtx", ".npz", ".gr.gz", ".el.xz", ".mtx.bz2"]


@given(arcs, st.sampled_from(suffixes), st.sampled_from(["none", "int", "float"]), st.data())
def test_round_trip(tmp_path_factory, ends, suffix, kind, data):
    path = tmp_path_factory.mktemp("trip") / f"g{suffix}"
    src, dst = np.array(ends, np.int32).T
    weight = None
    if kind != "none":
        numbers = integers if kind == "int" else doubles
        weight = np.array(data.draw(st.lists(numbers, min_size=len(ends), max_size=len(ends))))
    edges = EdgeArrays(src, dst, weight, int(data.draw(st.integers(21, 30))))
    if ".gr" in suffix and kind != "int":
        with pytest.raises(ValueError, match="a .gr file needs integer weights"):
            write_graph(edges, path)
        assert not list(path.parent.iterdir())
        return
    write_graph(edges, path)
    again = read_edges(path)
    if kind == "none" and suffix == ".npz":
        weight = np.ones(len(ends))
    assert again.n == edges.n
    assert again.src.tolist() == edges.src.tolist()
    assert again.dst.tolist() == edges.dst.tolist()
    if weight is None:
        assert again.weight is None
    else:
        assert again.weight.tolist() == weight.tolist()


@pytest.mark.parametrize("extremes", [[0, -(2**63)], [2**63 - 1, -1]])
def test_extreme_weights_round_trip(tmp_path, extremes):
    ends = np.zeros(2, np.int32)
    write_graph(EdgeArrays(ends, ends, np.array(extremes), 1), tmp_path / "g.gr")
    assert read_edges(tmp_path / "g.gr").weight.tolist() == extremes


@pytest.mark.parametrize("name", ["g.gr", "g.mtx"])
def test_undirected_round_trip(tmp_path, name):
    edges = EdgeArrays(np.array([2, 1]), np.array([0, 1]), None, 4, undirected=True)
    write_graph(edges, tmp_path / name)
    assert as_lists(read_edges(tmp_path / name)) == ([2, 1], [0, 1], None, 4, True)


def test_writers_refuse_what_they_cannot_hold(tmp_path):
    one = np.array([0])
    with pytest.raises(ValueError, match=r"unknown suffix '\.foo'; known are \.gr"):
        write_graph(EdgeArrays(one, one, None, 1), tmp_path / "g.foo")
    infinite = EdgeArrays(one, one, np.array([np.inf]), 1)
    for name in ("g.txt", "g.mtx"):
        with pytest.raises(ValueError, match="not finite"):
            write_graph(infinite, tmp_path / name)
    both = EdgeArrays(one, one, one, 1, undirected=True)
    with pytest.raises(ValueError, match="must be given both ways"):
        write_graph(both, tmp_path / "g.gr")


def test_graph(tmp_path):
    (tmp_path / "g.gr").write_text("p sp 4 3\na 4 1 7\na 1 3 9\na 1 2 8\n")
    graph = read_graph(tmp_path / "g.gr")
    assert isinstance(graph, Graph)
    src, dst, weight = graph.edge_list()
    assert (src.tolist(), dst.tolist(), weight.tolist()) == ([0, 0, 3], [2, 1, 0], [9, 8, 7])
    write_graph(graph, tmp_path / "h.gr")
    assert as_lists(read_edges(tmp_path / "h.gr")) == ([0, 0, 3], [2, 1, 0], [9, 8, 7], 4, False)
    assert len(read_graph(tmp_path / "g.gr", symmetrize=True).edges) == 6
    (tmp_path / "u.gr").write_text("p tw 3 2\n1 2\n2 3\n")
    assert len(read_graph(tmp_path / "u.gr").edges) == 4


def test_lines_are_right_beyond_the_first_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(scanner, "CHUNK", 16)
    lines = [f"{k} {k + 1}" for k in range(50)]
    assert read(tmp_path, "g", "\n".join(lines)).n == 51
    with pytest.raises(FormatError, match=":41: the first vertex"):
        read(tmp_path, "g", "\n".join([*lines[:40], "x 1", *lines[40:]]))
    with pytest.raises(FormatError, match=":41: vertex -1"):
        read(tmp_path, "g", "\n".join([*lines[:40], "-1 1", *lines[40:]]))


WORDS = ["a ", "a 1 2 3\n", " a 1 2 3\n", "a", "c x\n", "1", "2 ", "\n", "\r\n", "\t", "-", "."]
HEADS = ["p sp 2 2\n", "p tw 2 2\n", "c\np sp 2 3\n", MTX[:50]]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


@given(TEXTS, st.sampled_from(HEADS), st.integers(1, 40))
def test_compiled_and_plain_readers_agree(tmp_path_factory, text, head, piece):
    folder, name = tmp_path_factory.mktemp("same"), "g.mtx" if head[0] == "%" else "g.gr"
    answers = []
    for least, size in ((0, piece), (0, 1 << 24), (1 << 30, piece), (1 << 30, 1 << 24)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbers, "LEAST", least)
            patch.setattr(scanner, "PIECE", size)
            try:
                answers.append(as_lists(read(folder, name, head + text)))
            except FormatError:
                answers.append("refused")
    assert answers == answers[:1] * 4


@given(st.binary(max_size=80), st.sampled_from(["g.gr", "g.txt", "g.mtx", "g.npz"]))
def test_junk_never_crashes_a_reader(tmp_path_factory, junk, name):
    folder = tmp_path_factory.mktemp("junk")
    start = {"g.gr": b"p sp 3 2\n", "g.mtx": MTX[:50].encode()}.get(name, b"")
    try:
        read(folder, name, start + junk)
    except FormatError as error:
        assert name in str(error)  # the path may be cut at its head


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 1)), max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, np.bool_, np.int32, np.int64, np.float32, np.float64]),
)
def test_symmetric_arcs_are_their_own_reverses(arcs, both, in_order, compiled_type):
    arcs = arcs + [(v, u, w) for u, v, w in arcs] if both else arcs
    arcs = sorted(arcs) if in_order else arcs
    columns = np.array(arcs, np.int32).reshape(-1, 3).T.copy()
    with pytest.MonkeyPatch.context() as patch:
        least = 1 << 30 if compiled_type is None else 0
        patch.setattr(reverses, "LEAST", least)
        patch.setattr(reverses, "LEAST_MADE", least)
        weight = columns[2] if compiled_type is None else columns[2].astype(compiled_type)
        turned = sorted((v, u, w) for u, v, w in arcs)
        assert is_symmetric(*columns[:2], weight) == (sorted(arcs) == turned)
        ends = sorted((u, v) for u, v, _ in arcs) == sorted((v, u) for u, v, _ in arcs)
        assert is_symmetric(*columns[:2], None) == ends


@pytest.mark.parametrize("least", [0, 1 << 30])
@pytest.mark.parametrize(
    "name", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
)
def test_weights_of_reverses_of_every_type(monkeypatch, name, least):
    """More edges than a part of the library; the last has another weight than its reverse."""
    monkeypatch.setattr(reverses, "LEAST", least)
    monkeypatch.setattr(reverses, "LEAST_MADE", least)
    u, v = np.random.default_rng(0).integers(0, 2**31, (2, 70_000)).astype(np.int32)
    weight = np.random.default_rng(1).integers(0, 2, 70_000).astype(name)
    ends, others = np.append(u, v), np.append(v, u)
    weights = np.append(weight, weight)
    assert is_symmetric(ends, others, weights)
    if weights.dtype.kind == "f":
        weights[:70_000][weight == 0] = -0.0
        assert is_symmetric(ends, others, weights)
    weights[-1] = weights[-1] == 0
    assert not is_symmetric(ends, others, weights)
    if weights.dtype.kind == "f":
        weights[[69_999, -1]] = np.nan
        assert not is_symmetric(ends, others, weights)
    others[-1] ^= 1
    assert not is_symmetric(ends, others, None)


@pytest.mark.parametrize("in_order", [True, False])
def test_npz_keeps_arcs_in_their_order_uncompressed(tmp_path, in_order):
    """Of CSR, if they are in order of their source; a further suffix compresses."""
    sparse, rng = pytest.importorskip("scipy.sparse"), np.random.default_rng(3)
    src, dst, weight = rng.integers(0, 99, (3, 5000)).astype(np.int32)
    src = np.sort(src) if in_order else src
    edges = EdgeArrays(src, dst, weight, 99)
    for name in ("g.npz", "g.npz.gz"):
        write_graph(edges, tmp_path / name)
        assert as_lists(read_edges(tmp_path / name)) == as_lists(edges)
    assert sparse.load_npz(tmp_path / "g.npz").format == ("csr" if in_order else "coo")
    with zipfile.ZipFile(tmp_path / "g.npz") as archive:
        assert {row.compress_type for row in archive.infolist()} == {zipfile.ZIP_STORED}
    assert (tmp_path / "g.npz.gz").stat().st_size < (tmp_path / "g.npz").stat().st_size


def test_compressed_npz_is_decompressed_once(tmp_path, monkeypatch):
    """Its members are read from places that are far apart: in memory, or in a file if large."""
    write_graph(EdgeArrays(*(np.arange(900, dtype=np.int32),) * 3, 900), tmp_path / "g.npz.gz")
    monkeypatch.setattr(gzip.GzipFile, "seek", None)
    for most in (1 << 20, 16):
        monkeypatch.setattr(files, "UNPACKED", most)
        assert read_edges(tmp_path / "g.npz.gz").dst.tolist() == list(range(900))
