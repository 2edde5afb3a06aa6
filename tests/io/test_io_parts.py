"""Graph files read in shares give the parts of the whole graph."""

import bz2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import same_parts
from pretend import pretended
from ranks import output_of_ranks
from scipy.sparse import coo_array, save_npz
from targets import examples
from test_io_graphs import BAD, GOOD, as_lists

import morph
from morph.io import EdgeArrays, FormatError, read_edges, read_graph, write_graph
from morph.io.graph import lines
from morph.io.graph.graphs import read_edges_of_parts
from morph.io.text import numbers, scanner
from morph.language.messages import shortened
from morph.partition.transport import Local

NAMES = {
    "g.gr": np.int32, "g.sgr": np.int64, "g.egr": np.int32, "g.graph": np.int32, "g.mtx": float,
    "g.npz": np.int64, "g.txt": float, "g.el": None, "g.gr.bz2": np.int64,
}  # fmt: skip


def read_in_shares(path, parts):
    """All edges of a file, after a check of the shares."""
    transport = Local([morph.device("cpu")] * parts)
    found = read_edges_of_parts(path, transport)
    first = found[0]
    for edges in found.values():
        for name in ("n", "undirected", "symmetric"):
            assert getattr(edges, name) == getattr(first, name)
    weights = None if first.weight is None else [e.weight for e in found.values()]
    return EdgeArrays(
        np.concatenate([e.src for e in found.values()]),
        np.concatenate([e.dst for e in found.values()]),
        None if weights is None else np.concatenate(weights), first.n, first.undirected,
        first.symmetric,
    )  # fmt: skip


def small_chunks(monkeypatch, least):
    monkeypatch.setattr(numbers, "LEAST", least)
    monkeypatch.setattr(scanner, "PIECE", 5 if least == 0 else 1 << 24)
    monkeypatch.setattr(lines, "_CHUNK", 9)


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
@pytest.mark.parametrize("name, text", GOOD)
def test_shares_have_all_edges_in_order(tmp_path, name, text, least, monkeypatch):
    small_chunks(monkeypatch, least)
    path = tmp_path / name
    path.write_text(text)
    whole = read_edges(path)
    for parts in (1, 2, 3, 7):
        found = read_in_shares(path, parts)
        assert as_lists(found) == as_lists(whole)
        if len(whole.src) and whole.weight is not None:
            assert found.weight.dtype == whole.weight.dtype


@pytest.mark.parametrize("name, text", BAD, ids=lambda t: repr(t)[:40])
def test_shares_of_files_that_break_the_format(tmp_path, name, text, monkeypatch):
    small_chunks(monkeypatch, 1 << 30)
    path = tmp_path / name
    path.write_bytes(text.encode("latin1"))
    for parts in (1, 3):
        with pytest.raises(FormatError) as caught:
            read_in_shares(path, parts)
        message = BAD[name, text] or "no sparse matrix as SciPy saves it"
        if "the file ends after" in message or "after the last of" in message:
            message = ": the file announces "
        if message[0].isdigit():
            message = shortened(f"{path}:{message}")
        assert message in str(caught.value)


def test_weights_of_all_shares_have_one_type(tmp_path):
    path = tmp_path / "g.txt"
    for last, dtype in (("3", np.int32), ("3000000000", np.int64), ("2.5", np.float64)):
        path.write_text(f"0 1 5 # a.b\n1 2 7\n2 0 {last}\n")
        for parts in (1, 2, 3):
            found = read_in_shares(path, parts).weight
            assert found.dtype == dtype and found.tolist() == [5, 7, float(last)]
    path.write_text("0 1 9007199254740993\n1 2 7\n2 0 2.5\n")
    for parts in (1, 3):
        with pytest.raises(FormatError, match="the weight 9007199254740993 loses digits"):
            read_in_shares(path, parts)
    path.write_text(f"0 1 5\n1 2 {2**65}\n2 3 7\n3 0 1.5\n")  # the share of line 2 has no real
    for parts in (1, 4):
        assert read_in_shares(path, parts).weight.tolist() == [5, 2.0**65, 7, 1.5]
    path.write_text(f"0 1 5\n1 2 {2**65}\n2 3 7\n3 0 1\n")
    for parts in (1, 4):
        with pytest.raises(FormatError, match=":2: the weight does not fit 64 bits"):
            read_in_shares(path, parts)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(8))
@given(st.data())
def test_parts_are_those_of_the_whole_graph(tmp_path_factory, name, data):
    path, n = tmp_path_factory.mktemp("graphs") / name, data.draw(st.integers(2, 12))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 9))
    edges = data.draw(st.lists(ends, max_size=30))
    if name == "g.graph":  # without loops
        edges = [e for e in edges if e[0] != e[1]]
    src, dst, w = np.array(edges, np.int64).reshape(-1, 3).T
    weight = None if NAMES[name] is None else w.astype(NAMES[name])
    if NAMES[name] is float:
        weight /= 2

    undirected = name in ("g.graph", "g.mtx")
    if name == "g.npz" and data.draw(st.booleans()):
        src, dst, weight = np.r_[src, dst], np.r_[dst, src], np.r_[weight, weight]
    write_graph(EdgeArrays(src.astype(np.int32), dst.astype(np.int32), weight, n, undirected), path)
    devices = ["cpu", "cpu", "cpu"][: data.draw(st.integers(1, 3))]
    options = {"symmetrize": data.draw(st.booleans())}
    for by in ("range", "degree"):
        wanted = [3, 1, 2][: len(devices)] if data.draw(st.booleans()) else None
        whole = morph.partition(read_graph(path, **options), devices, by, wanted)
        same_parts(read_graph(path, devices, by=by, shares=wanted, **options), whole)


@given(st.data())
def test_matrices_that_equal_their_transpose(tmp_path_factory, data):
    path, n = tmp_path_factory.mktemp("graphs") / "g.npz", data.draw(st.integers(1, 4))
    entries = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from([1.0, 2.0]))
    src, dst, w = np.array(data.draw(st.lists(entries, max_size=6))).reshape(-1, 3).T
    src, dst, w = (np.concatenate(x) for x in ([src, dst], [dst, src], [w, w]))
    if w.size and data.draw(st.booleans()):
        w[data.draw(st.integers(0, w.size - 1))] = 3
    order = np.array(data.draw(st.permutations(range(w.size))), int)
    form = data.draw(st.sampled_from(["coo", "csr", "csc"]))
    matrix = coo_array((w[order], (src[order].astype(int), dst[order].astype(int))), (n, n))
    save_npz(path, matrix if form == "coo" else matrix.asformat(form), data.draw(st.booleans()))
    whole = read_edges(path)
    for parts in (1, 2, 3):
        found = read_in_shares(path, parts)
        assert as_lists(found) == as_lists(whole) and found.symmetric == whole.symmetric


def test_columns_of_vertices(tmp_path):
    path = tmp_path / "g.graph"
    path.write_text("3 2 110 2\n5 1 2 2\n6 3 4 1 3\n7 5 6 2\n")
    parts = read_graph(path, ["cpu", "cpu"])
    assert parts.points.size[:].tolist() == [5, 6, 7]
    assert parts.points.weight[:].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_parts_on_devices_with_memory_of_their_own(tmp_path, monkeypatch):
    gpu, path = pretended(monkeypatch), tmp_path / "g.gr"
    write_graph(morph.generate.rmat(5, 4, weight=(1, 9), directed=True), path)
    for devices in ([gpu, gpu], [gpu, "cpu", gpu]):
        for by in ("range", "degree"):
            whole = morph.partition(read_graph(path), devices, by)
            same_parts(read_graph(path, devices, by=by), whole)


@pytest.mark.gpu
@pytest.mark.parametrize("devices", [["cuda"], ["cuda", "cuda", "cuda"], ["cpu", "cuda"]])
def test_parts_on_the_gpu(tmp_path, devices):
    path = tmp_path / "g.gr"
    write_graph(morph.generate.rmat(8, 8, weight=(1, 9), directed=True), path)
    for symmetrize in (False, True):
        for by in ("range", "degree"):
            whole = morph.partition(read_graph(path, symmetrize=symmetrize), devices, by)
            same_parts(read_graph(path, devices, symmetrize, by=by), whole)


def test_refused(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1\n")
    with pytest.raises(ValueError, match="by is 'range' or 'degree' for a graph that is made in"):
        read_graph(path, ["cpu", "cpu"], by="hilbert")
    with pytest.raises(ValueError, match="by and shares divide a graph among a list of devices"):
        read_graph(path, by="degree")
    with pytest.raises(ValueError, match="shares are 2 numbers"):
        read_graph(path, ["cpu", "cpu"], shares=[1])
    with pytest.raises(FileNotFoundError):
        read_graph(tmp_path / "none.txt", ["cpu", "cpu"])


def test_a_damaged_compressed_file(tmp_path):
    path = tmp_path / "g.txt.bz2"
    path.write_bytes(bz2.compress(b"0 1\n" * 100)[:-9])
    with pytest.raises(FormatError, match="damaged .bz2 file"):
        read_graph(path, ["cpu", "cpu"])


RANKS = """
import sys
from parts import same_parts
from morph.io import read_graph
folder = sys.argv[1]
for name in ("g.gr", "g.txt", "g.mtx", "g.egr", "g.npz", "g.graph"):
    path = f"{folder}/{name}"
    for by in ("range", "degree"):
        same_parts(read_graph(path, by=by, comm=comm), morph.partition(
            read_graph(path), by=by, comm=comm))
for make in (
    lambda **where: morph.generate.rmat(6, 4, weight=(1, 9), permute=True, **where),
    lambda **where: morph.generate.uniform(30, 90, directed=True, **where),
    lambda **where: morph.generate.geometric(40, degree=5, weight="length", **where),
):
    same_parts(make(comm=comm), morph.partition(make(), comm=comm))
def error(f):
    try:
        f()
    except Exception as error:
        print(comm.rank, type(error).__name__, str(error).replace(folder, ""))
if comm.size > 1:
    error(lambda: read_graph(f"{folder}/{comm.rank > 0}.txt", comm=comm))
    error(lambda: read_graph(f"{folder}/bad.txt", comm=comm))
    error(lambda: read_graph(f"{folder}/g.{'gr' if comm.rank else 'none'}", comm=comm))
    error(lambda: morph.generate.rmat(4, seed=comm.rank, comm=comm))
"""


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_ranks_read_shares(tmp_path, size):
    rng = np.random.default_rng(3)
    src, dst, w = (rng.integers(0, 20, 60), rng.integers(0, 20, 60), rng.integers(1, 9, 60))
    src, dst, w = (a.astype(np.int32)[src != dst] for a in (src, dst, w))
    for name in ("g.gr", "g.txt", "g.mtx", "g.egr", "g.npz", "g.graph"):
        undirected = name in ("g.mtx", "g.graph")
        write_graph(EdgeArrays(src, dst, w, 20, undirected), tmp_path / name)
    (tmp_path / "False.txt").write_text("0 1\n")
    (tmp_path / "True.txt").write_text("0 1 2\n")
    (tmp_path / "bad.txt").write_text("0 1\n" * 50 + "0 x\n")
    found = output_of_ranks(size, RANKS, str(tmp_path))
    if size == 1:
        assert found == []
        return
    bad = "/bad.txt:51: the second vertex is not an integer: 'x'"
    for rank in range(size):
        lines = [x.partition(" ")[2] for x in found if int(x[0]) == rank]
        assert len(lines) == 4, lines
        (failed,) = [x for x in lines if "bad.txt" in x]
        own = rank == size - 1
        wanted = f"PartError part {size - 1} has failed: FormatError: "
        assert failed.endswith(bad) and failed.startswith("FormatError " if own else wanted)
        (missing,) = [x for x in lines if "FileNotFoundError" in x]
        assert missing.startswith("PartError part 0 has failed" if rank else "FileNotFoundError")
        assert any(x.startswith("ValueError the file ") and "differs between rank 0" in x
                   for x in lines)  # fmt: skip
        assert any(x.startswith("ValueError the graph differs between rank 0") for x in lines)
