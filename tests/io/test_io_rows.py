"""Galois, ECL and METIS files: contents, every malformation with its place, round trips."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph.graph import Graph
from morph.io import EdgeArrays, FormatError, read_edges, read_graph, write_graph
from morph.io.graph import metis as metis_module
from morph.io.text import numbers


def words(dtype, *values):
    return np.array(values, dtype).tobytes()


def galois(version=1, size=4, n=3, m=3, ends=(2, 2, 3), dst=(1, 2, 0), pad=True, data=(7, 8, 9)):
    wide = "<u4" if version == 1 else "<u8"
    text = words("<u8", version, size, n, m, *ends) + words(wide, *dst)
    if pad and version == 1 and len(dst) % 2:
        text += bytes(4)
    return text + (words("<u4" if size == 4 else "<i8", *data) if size else b"")


def ecl(n=3, m=3, offsets=(0, 2, 2, 3), dst=(1, 2, 0), weight=(7, -8, 9)):
    return words("<i4", n, m, *offsets, *dst, *weight)


def read(folder, name, text, **options):
    path = folder / name
    path.write_bytes(text.encode("latin1") if isinstance(text, str) else text)
    return read_edges(path, **options)


def arcs(edges):
    weight = None if edges.weight is None else edges.weight.tolist()
    return edges.src.tolist(), edges.dst.tolist(), weight, edges.n, edges.undirected


ENDS = ([0, 0, 2], [1, 2, 0])
METIS = "% c\n4 3 001\n2 5 3 6\n1 5\n% c\n1 6 4 7\n3 7\n"
BOTH = ([0, 0, 1, 2, 2, 3], [1, 2, 0, 0, 3, 2])
GOOD = [
    ("g.gr", galois(), (*ENDS, [7, 8, 9], 3, False)),
    ("g.gr", galois(2), (*ENDS, [7, 8, 9], 3, False)),
    ("g.sgr", galois(size=8, data=(7, -8, 2**40)), (*ENDS, [7, -8, 2**40], 3, False)),
    ("g.gr", galois(data=(7, 8, 2**32 - 1)), (*ENDS, [7, 8, 2**32 - 1], 3, False)),
    ("g.vgr", galois(size=0), (*ENDS, None, 3, False)),
    ("g.vgr", galois(size=0, pad=False), (*ENDS, None, 3, False)),
    ("g.gr", galois(size=0, n=2, m=0, ends=(0, 0), dst=()), ([], [], None, 2, False)),
    ("g.gr", galois(size=4, n=0, m=0, ends=(), dst=(), data=()), ([], [], [], 0, False)),
    ("g.egr", ecl(), (*ENDS, [7, -8, 9], 3, False)),
    ("g.egr", ecl(weight=()), (*ENDS, None, 3, False)),
    ("g.egr", ecl(1, 0, (0, 0), (), ()), ([], [], None, 1, False)),
    ("g.egr", ecl(0, 0, (0,), (), ()), ([], [], None, 0, False)),
    ("g.graph", METIS, (*BOTH, [5, 6, 5, 6, 7, 7], 4, False)),
    ("g.graph", "4 3\r\n2 3\r\n1\r\n1 4\r\n3\r\n", (*BOTH, None, 4, False)),
    ("g.graph", "4 1\n\n 4\t\n\n2", ([1, 3], [3, 1], None, 4, False)),
    ("g.graph", "4 1 0\n\n4\n\n2\n\n% c\n\n", ([1, 3], [3, 1], None, 4, False)),
    ("g.graph", "2 0\n\n\n", ([], [], None, 2, False)),
    ("g.graph", "0 0", ([], [], None, 0, False)),
    ("g.metis", "2 1 11 1\n9 2 5\n8 1 5\n", ([0, 1], [1, 0], [5, 5], 2, False)),
    ("g.graph", "2 2 1\n2 5 2 6\n1 6 1 5\n", ([0, 0, 1, 1], [1, 1, 0, 0], [5, 6, 6, 5], 2, False)),
]


@pytest.mark.parametrize("name, text, expected", GOOD)
@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
def test_read(tmp_path, name, text, expected, least, monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", least)
    edges = read(tmp_path, name, text)
    assert arcs(edges) == expected and edges.symmetric == (name in ("g.graph", "g.metis"))
    assert edges.src.dtype == edges.dst.dtype == np.int32
    text = text.encode() if isinstance(text, str) else text
    assert arcs(read(tmp_path, name + ".gz", gzip.compress(text))) == expected


def test_galois_edge_data_of_other_types(tmp_path):
    reals = words("<f4", 0.5, 1.5, -2)
    text = galois(size=0) + reals
    text = words("<u8", 1, 4) + text[16:]
    edges = read(tmp_path, "g.gr", text, weight_type=np.float32)
    assert edges.weight.dtype == np.float32 and edges.weight.tolist() == [0.5, 1.5, -2]
    assert read_graph(tmp_path / "g.gr", weight_type=np.float32).weight(0, 2) == 1.5
    with pytest.raises(FormatError, match="byte 8: edge data of 4 bytes are no float64"):
        read(tmp_path, "g.gr", text, weight_type=np.float64)
    with pytest.raises(ValueError, match="weight_type is for Galois's files"):
        read(tmp_path, "g.egr", ecl(), weight_type=np.float32)


def test_what_metis_says_of_vertices(tmp_path):
    text = "3 1 111 2\n4 1 2 3 9\n5 3 4\n6 5 6 1 9\n"
    edges = read(tmp_path, "g.graph", text)
    assert edges.points["size"].tolist() == [4, 5, 6]
    assert edges.points["weight"].tolist() == [[1, 2], [3, 4], [5, 6]]
    graph = read_graph(tmp_path / "g.graph")
    assert graph.points.weight[:].tolist() == [[1, 2], [3, 4], [5, 6]]
    write_graph(edges, tmp_path / "h.graph")
    assert (tmp_path / "h.graph").read_text() == text
    with pytest.raises(ValueError, match="no place for vertices' size, weight"):
        write_graph(edges, tmp_path / "h.egr")
    single = read(tmp_path, "g.graph", "2 1 10\n7 2\n8 1\n")
    assert single.points["weight"].tolist() == [7, 8]


BAD = [
    ("g.sgr", "", "byte 0: the file ends in the header: 0 of 4 are there"),
    ("g.gr", galois(1)[:40], "byte 40: the file ends in the offsets: 1 of 3 are there"),
    ("g.sgr", galois(3), "byte 0: version 3: known are 1 and 2"),
    ("g.gr", galois(size=2), "byte 8: edge data of 2 bytes: weights have 4 or 8"),
    ("g.gr", galois(n=2**31), "byte 16: 2147483648 vertices: expected 0 to 2147483647"),
    ("g.gr", galois(n=2, ends=(2, 2)), "byte 24: the vertices have 2 edges, and the header says 3"),
    ("g.gr", galois(ends=(2, 1, 3)), "byte 40: the offset 1 behind the edges of vertex 1 is not"
     " from 2 to 3"),
    ("g.gr", galois(ends=(4, 4, 3)), "byte 32: the offset 4 behind the edges of vertex 0 is not"
     " from 0 to 3"),
    ("g.gr", galois(ends=(2, 2, 2**64 - 1)), "byte 48: the offset 18446744073709551615 behind the"
     " edges of vertex 2 is not from 2 to 3"),
    ("g.gr", galois(dst=(1, 3, 0)), "byte 60: vertex 3 is out of range: vertices are 0 to 2"),
    ("g.gr", galois(2, dst=(1, 2, 2**63)), "byte 72: vertex 9223372036854775808 is out of range:"
     " vertices are 0 to 2"),
    ("g.gr", galois(m=2**62), "byte 24: the vertices have 3 edges, and the header says"
     " 4611686018427387904"),
    ("g.gr", galois(m=2**62, ends=(0, 0, 2**62)), "byte 84: the file ends in the ends of edges: 7"
     " of 4611686018427387904 are there"),
    ("g.gr", galois(data=(7, 8)), "byte 80: the file ends in the edge data: 2 of 3 are there"),
    ("g.gr", galois(pad=False), "byte 80: the file ends in the edge data: 2 of 3 are there"),
    ("g.gr", galois() + b"x", "byte 84: 1 bytes are left over"),
    ("g.egr", ecl()[:7], "byte 7: the file ends in the header: 1 of 2 are there"),
    ("g.egr", ecl(-1), "byte 0: -1 vertices: expected 0 to 2147483647"),
    ("g.egr", ecl(m=-1), "byte 4: -1 edges"),
    ("g.egr", ecl(offsets=(1, 2, 2, 3)), "byte 8: the first offset is 1, not 0"),
    ("g.egr", ecl(offsets=(0, 2, 1, 3)), "byte 16: the offset 1 behind the edges of vertex 1 is not"
     " from 2 to 3"),
    ("g.egr", ecl(offsets=(0, 2, 2, 2)), "byte 4: the vertices have 2 edges, and the header says"
     " 3"),
    ("g.egr", ecl(dst=(1, 2, -1)), "byte 32: vertex -1 is out of range: vertices are 0 to 2"),
    ("g.egr", ecl(weight=(7, 8)), "byte 44: the file ends in the weights: 2 of 3 are there"),
    ("g.egr", ecl(weight=(7, 8, 9, 10)), "byte 48: 4 bytes are left over"),
    ("g.graph", "", "line 1: the file ends before the graph header (n m fmt ncon)"),
    ("g.graph", "3\n", "line 1: the graph header needs at least 2 fields: n m"),
    ("g.graph", "3 -1\n", "line 1: the m in the graph header is negative: -1"),
    ("g.graph", "3 2 2\n", "line 1: fmt is 2: expected three digits, each 0 or 1"),
    ("g.graph", "3 2 1 2\n", "line 1: ncon is 2, and fmt 001 gives vertices no weights"),
    ("g.graph", "3 2 10 99999999999\n", "line 1: ncon is 99999999999: the file has fewer numbers"),
    ("g.graph", "3 2 10 0\n", "line 1: fmt 010 gives vertices weights, and ncon is 0"),
    ("g.graph", "2147483648 0\n", "line 1: 2147483648 vertices: at most 2147483647 are possible"),
    ("g.graph", "4 3\n2 3\n1\n1 4\n", "line 4: the file ends after 3 of 4 vertices"),
    ("g.graph", METIS + "1\n", "line 8: a line after the last of 4 vertices"),
    ("g.graph", METIS.replace("1 5", "1"), "line 4: vertex 2 has 1 numbers, expected: neighbour"
     " weight ..."),
    ("g.graph", "2 1 110\n4 5 2\n4\n", "line 3: vertex 2 has 1 numbers, expected: size weight"
     " neighbour ..."),
    ("g.graph", METIS.replace("1 6 4", "1 6 5"), "line 6: vertex 5 is out of range: vertices are 1"
     " to 4"),
    ("g.graph", METIS.replace("1 6 4", "0 6 4"), "line 6: vertex 0 is out of range: vertices are 1"
     " to 4"),
    ("g.graph", METIS.replace("1 6 4", "x 6 4"), "line 6: the number is not an integer: 'x'"),
    ("g.graph", METIS.replace("1 6 4", "1.5 6 4"), "line 6: the number is not an integer: '1.5'"),
    ("g.graph", METIS.replace("1 6 4", "1,6 4 4"), "line 6: a comma: fields are separated by"
     " blanks"),
    ("g.graph", METIS.replace("1 6 4", "3 6 4"), "line 6: vertex 3 is its own neighbour"),
    ("g.graph", METIS.replace("1 6 4", "2 6 4"), "line 3: vertex 1 lists 3, which does not list it"
     " as often"),
    ("g.graph", METIS.replace("1 6 4 7", "1 6"), "line 7: vertex 4 lists 3, which does not list it"
     " as often"),
    ("g.graph", METIS.replace("1 6 4", "1 2 4"), "line 3: the edge of 1 and 3 has weight 6 at one"
     " end and 2 at the other"),
    ("g.graph", METIS.replace("6", "0"), "line 3: an edge has weight 0: METIS wants positive ones"),
    ("g.graph", METIS.replace("4 3 001", "4 2 001"), "line 2: the header says 2 edges, and the"
     " lines have 3"),
    ("g.graph", "2 1\n2 \x00\n1\n", "line 2: binary data where text is expected"),
]  # fmt: skip


@pytest.mark.parametrize("name, text, message", BAD, ids=lambda t: repr(t)[:30])
@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
def test_refused(tmp_path, name, text, message, least, monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", least)
    with pytest.raises(FormatError) as caught:
        read(tmp_path, name, text)
    message = message.removeprefix("line ") if message.startswith("line") else " " + message
    assert str(caught.value) == f"{tmp_path / name}:{message}"


def draw_graph(data):
    """Arcs of any kind, or undirected edges without loops."""
    undirected = data.draw(st.booleans())
    n = data.draw(st.integers(1, 9))
    point = st.integers(0, n - 1)
    pairs = data.draw(st.lists(st.tuples(point, point), max_size=20))
    if undirected:
        pairs = [p for p in pairs if p[0] != p[1]]
    src, dst = np.array(pairs, np.int32).reshape(-1, 2).T
    weight = None
    if data.draw(st.booleans()):
        few = st.lists(st.integers(1, 2**31 - 1), min_size=len(src), max_size=len(src))
        weight = np.array(data.draw(few), np.int32)
    return EdgeArrays(src, dst, weight, n, undirected)


def as_set(edges):
    """The arcs, both ways of undirected edges, with their weights."""
    weight = [None] * len(edges.src) if edges.weight is None else edges.weight.tolist()
    found = list(zip(edges.src.tolist(), edges.dst.tolist(), weight, strict=True))
    if edges.undirected:
        found += [(v, u, w) for u, v, w in found if u != v]
    return sorted(found)


@given(st.data(), st.sampled_from([".sgr", ".egr", ".graph", ".graph.gz"]))
def test_round_trip(tmp_path_factory, data, suffix):
    edges = draw_graph(data)
    path = tmp_path_factory.mktemp("trip") / f"g{suffix}"
    if "graph" in suffix and not edges.undirected and as_set(edges):
        try:
            write_graph(edges, path)
        except ValueError as error:
            assert "a .graph file cannot hold this: vertex" in str(error)
            assert not list(path.parent.iterdir())
            return
    write_graph(edges, path)
    again = read_edges(path)
    assert again.n == edges.n and as_set(again) == as_set(edges)
    if len(edges.src):
        assert (again.weight is None) == (edges.weight is None)
    graph = read_graph(path)
    assert len(graph.points) == edges.n and len(graph.edges) == len(as_set(edges))


@given(st.data(), st.booleans())
def test_metis_is_what_its_lines_say(tmp_path_factory, data, compiled):
    """Against a reader of a dozen lines, the writer's chunks as small as can be."""
    edges = draw_graph(data)
    edges = EdgeArrays(edges.src, edges.dst, edges.weight, edges.n, undirected=True)
    if (edges.src == edges.dst).any():
        return
    path = tmp_path_factory.mktemp("metis") / "g.graph"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "LEAST", 0 if compiled else 1 << 30)
        patch.setattr(metis_module, "_WRITTEN", 2)
        patch.setattr(metis_module, "PIECE", 5)
        patch.setattr(metis_module, "_LEAST_ARCS", 2)
        write_graph(edges, path)
        assert as_set(read_edges(path)) == as_set(edges)
    head, *lines = path.read_text().split("\n")
    assert lines.pop() == "" and not any(line != line.strip() for line in lines)
    n, m, *fmt = map(int, head.split())
    assert (n, m, fmt) == (edges.n, len(edges.src), [] if edges.weight is None else [1])
    each, found = (1, []) if edges.weight is None else (2, [])
    for u, line in enumerate(lines):
        values = [int(word) for word in line.split()]
        weights = values[1::2] if each == 2 else [None] * len(values)
        found += [(u, v - 1, w) for v, w in zip(values[::each], weights, strict=True)]
    assert sorted(found) == as_set(edges)


@pytest.mark.parametrize(
    ("name", "weight", "message"),
    [
        ("g.sgr", np.array([0.5]), "does not say what its weights are"),
        ("g.egr", np.array([0.5]), "weights that are integers of 32 bits"),
        ("g.egr", np.array([2**31]), "weights that are integers of 32 bits"),
        ("g.graph", np.array([0.5]), "holds positive integers; weight has others"),
        ("g.graph", np.array([0]), "an edge has weight 0"),
    ],
)
def test_writers_refuse_what_they_cannot_hold(tmp_path, name, weight, message):
    edges = EdgeArrays(np.array([0]), np.array([1]), weight, 2, undirected=True)
    with pytest.raises(ValueError, match=message):
        write_graph(edges, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_formats_by_name(tmp_path):
    graph = Graph.from_edges([0, 1], [1, 0], [5, 5])
    write_graph(graph, tmp_path / "g.gr", format="galois")
    assert arcs(read_edges(tmp_path / "g.gr")) == ([0, 1], [1, 0], [5, 5], 2, False)
    with pytest.raises(FormatError, match="binary data|problem line"):
        read_edges(tmp_path / "g.gr", format="dimacs")
    with pytest.raises(ValueError, match="format 'foo': known are dimacs, galois, ecl, metis"):
        write_graph(graph, tmp_path / "g.gr", format="foo")


def test_archives_are_not_guessed_into(tmp_path):
    for name in ("g.tar.gz", "g.tgz", "g.zip"):
        with pytest.raises(FormatError, match="an archive: unpack it, and name the graph file"):
            read(tmp_path, name, b"")


HEADS = {"g.gr": galois()[:32], "h.gr": galois(2), "g.egr": ecl()[:8], "g.graph": b"3 2\n2\n"}


@given(st.binary(max_size=80), st.sampled_from(list(HEADS)), st.integers(0, 100))
def test_junk_never_crashes_a_reader(tmp_path_factory, junk, name, kept):
    folder = tmp_path_factory.mktemp("junk")
    try:
        read(folder, name, HEADS[name][:kept] + junk)
    except FormatError as error:
        assert str(folder / name) in str(error)


@given(st.lists(st.sampled_from(["1", "2", "3", "-1", "x", "\n", "%", "\v", " "]), max_size=30))
def test_odd_metis_never_crashes_its_reader(tmp_path_factory, parts):
    """By compiled code and by NumPy, in pieces of lines, with the same result."""
    folder = tmp_path_factory.mktemp("junk")
    for separator in ("", " "):
        found = []
        for least in (0, 1 << 30):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(numbers, "LEAST", least)
                patch.setattr(metis_module, "PIECE", 4)
                try:
                    text = separator.join(["3 2\n", *parts])
                    found.append(arcs(read(folder, "g.graph", text)))
                except FormatError as error:
                    assert str(folder / "g.graph") in str(error)
                    found.append(str(error))
        assert found[0] == found[1]


def test_lines_of_metis_in_many_parts(tmp_path, monkeypatch):
    """A graph of 0.9 MB, with a comment, a long line and an error far behind."""
    monkeypatch.setattr(numbers, "LEAST", 0)
    n = 15_000
    src = np.repeat(np.arange(1, n, dtype=np.int32), 2)
    dst = np.stack([np.zeros(n - 1, np.int32), np.arange(1, n, dtype=np.int32) % (n - 1) + 1])
    edges = EdgeArrays(src, dst.T.ravel(), np.arange(len(src)) + 10**8, n, undirected=True)
    path = tmp_path / "g.graph"
    write_graph(edges, path)
    text = path.read_bytes()
    assert len(text) > 3 << 18
    lines = text.split(b"\n")
    path.write_bytes(b"\n".join([*lines[:9], b"% x", *lines[9:]]))
    assert as_set(read_edges(path)) == as_set(edges)
    for word, message in ((b"oops", "not an integer: 'oops'"), (b"15001", "out of range")):
        path.write_bytes(b"\n".join([*lines[:12_000], word + b" 1", *lines[12_001:]]))
        with pytest.raises(FormatError, match=f"g.graph:12001: .*{message}"):
            read_edges(path)


def test_metis_of_no_vertices(tmp_path):
    (tmp_path / "g.graph").write_text("0 0 110 1\n\n")
    write_graph(read_edges(tmp_path / "g.graph"), tmp_path / "h.graph")
    assert (tmp_path / "h.graph").read_text() == "0 0 110 1\n"
