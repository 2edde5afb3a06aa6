"""Graphs on disk: snapshots, logs, and recovery after a process is killed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import changed, same
from pretend import pretended
from small import contents
from targets import tries

import morph
from morph import io, validate


@pytest.mark.parametrize("directed", [True, False])
def test_a_snapshot_is_the_graph(tmp_path, directed):
    g = changed(directed)
    io.write_snapshot(tmp_path / "g", g)
    same(g, io.read_snapshot(tmp_path / "g"))
    assert os.listdir(tmp_path) == ["g"]


def test_a_snapshot_keeps_the_order_of_edges(tmp_path):
    g = changed()
    g.sort_edges("weight")
    io.write_snapshot(tmp_path / "g", g)
    again = io.read_snapshot(tmp_path / "g")
    for a, b in zip(g.adjacency(), again.adjacency(), strict=True):
        assert a.tolist() == b.tolist()


def test_a_snapshot_where_arrays_lie_apart(tmp_path, monkeypatch):
    there = pretended(monkeypatch)
    io.write_snapshot(tmp_path / "g", changed(target=there))
    same(changed(), io.read_snapshot(tmp_path / "g"))
    same(changed(target=there), io.read_snapshot(tmp_path / "g", there))
    with io.Journal(tmp_path / "g", changed(target=there)) as journal:
        journal.apply((there.asarray([0, 2]), [3, 3], [1, 1]))
    with io.Journal(tmp_path / "g", device=there) as again:
        same(journal.graph, again.graph)


@pytest.mark.gpu
def test_a_snapshot_goes_from_one_device_to_another(tmp_path):
    io.write_snapshot(tmp_path / "g", changed(target="cuda"))
    same(changed(), io.read_snapshot(tmp_path / "g"))
    same(changed(target="cuda"), io.read_snapshot(tmp_path / "g", "cuda"))


def test_what_is_no_snapshot(tmp_path):
    path = tmp_path / "g"
    io.write_snapshot(path, changed())
    data = path.read_bytes()
    path.write_bytes(b"p sp 1 0\n")
    with pytest.raises(io.FormatError, match="no snapshot"):
        io.read_snapshot(path)
    for broken in (data[:-1], data + b"x", data[:60], data[:200] + b"?" + data[201:]):
        path.write_bytes(broken)
        with pytest.raises(io.FormatError, match="damaged"):
            io.read_snapshot(path)


def test_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("morph.io.graph.snapshot.VERSION", 2)
    io.write_snapshot(tmp_path / "g", changed())
    monkeypatch.undo()
    with pytest.raises(io.FormatError, match="version 2: this program reads 1"):
        io.read_snapshot(tmp_path / "g")


def batches(rng, count):
    for k in range(count):
        ends = rng.integers(0, 6, (2, 4))
        ends[ends == 1] = 0  # which is deleted
        yield {"inserts": (*ends, rng.integers(0, 9, 4)), "deletes": tuple(ends[:, :2] // 2)}
        yield {"inserts": {"src": [5 - k % 3], "dst": 3, "weight": 2}, "updates": ([1], [k])}
        yield {"deletes": [0, 1], "updates": ([0], [0], [9])}


@tries(8)
@given(seed=st.integers(0, 99), cut=st.floats(0, 1), directed=st.booleans())
def test_a_log_that_is_cut_anywhere(tmp_path, seed, cut, directed):
    path = tmp_path / "g"
    with io.Journal(path, changed(directed)) as journal:
        states, sizes = [contents(journal.graph.edges)], [0]
        for batch in batches(np.random.default_rng(seed), 4):
            journal.apply(**batch)
            states.append(contents(journal.graph.edges))
            sizes.append(journal.log.stat().st_size)
    end = int(cut * sizes[-1])
    with journal.log.open("r+b") as log:
        log.truncate(end)
    whole = max(k for k, size in enumerate(sizes) if size <= end)
    with io.Journal(path) as again:
        assert again.number == whole and again.dropped_bytes == end - sizes[whole]
        assert contents(again.graph.edges) == states[whole]
        again.apply(deletes=[2])
        again.checkpoint()
        assert journal.log.stat().st_size == 0
        again.apply(deletes=[3])
    with io.Journal(path) as last:
        assert last.number == whole + 2
        same(again.graph, last.graph)


def test_what_is_refused_is_not_logged(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        with pytest.raises(ValueError, match="is not a row of points"):
            journal.apply(([0], [99], [1]))
        with pytest.raises(TypeError, match="no numbers"):
            journal.apply(([None], [1]))
        assert journal.log.stat().st_size == 0 and journal.number == 0


def test_the_results_of_batches_applied_again(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        counts = [journal.apply(inserts=(x, x, 1)).inserted.size for x in ([0], [0, 3])]
    done = []
    with io.Journal(tmp_path / "g", then=done.append):
        assert [applied.inserted.size for applied in done] == counts == [1, 2]
    with pytest.warns(DeprecationWarning, match="then="):
        again = io.Journal(tmp_path / "g", told=done.append)
    with again, pytest.warns(DeprecationWarning, match="dropped_bytes"):
        assert again.torn == again.dropped_bytes == 0
    assert len(done) == 4


def test_what_does_not_come_to_the_disk_is_not_applied(tmp_path, monkeypatch):
    def torn(file, data):
        file.write(data[:40])
        raise OSError("no space")

    with io.Journal(tmp_path / "g", changed(), note={"from": "x"}) as journal:
        with monkeypatch.context() as patch:
            patch.setattr("morph.io.graph.journal._append", torn)
            for by in (None, morph.DynamicSSSP(journal.graph, 0).apply):
                with pytest.raises(OSError, match="no space"):
                    journal.apply(([0], [3], [1]), by=by)
        same(changed(), journal.graph)
        assert journal.log.stat().st_size == 0 and journal.number == 0
    with io.Journal(tmp_path / "g") as again:
        assert again.note == {"from": "x"}
        with pytest.raises(RuntimeError, match="did not call `then`"):
            again.apply(([0], [3], [1]), by=lambda *batch, then: None)
        with pytest.raises(ValueError, match="closed"):
            again.apply(([0], [3], [1]))
    with pytest.raises(ValueError, match=r"not compressed: leave out \.xz"):
        io.Journal(tmp_path / "g.xz", changed())
    with pytest.raises(TypeError, match="graph is a Graph on one device, not <PartitionedGraph"):
        io.Journal(tmp_path / "parts", morph.generate.grid(2, 2).to(["cpu"]))
    assert sorted(os.listdir(tmp_path)) == ["g", "g.log"]


def test_a_log_of_before_the_snapshot_and_one_of_after(tmp_path):
    first = 0
    with io.Journal(tmp_path / "g", changed()) as journal:
        for batch in batches(np.random.default_rng(1), 1):
            journal.apply(**batch)
            first = first or journal.log.stat().st_size
        log = journal.log.read_bytes()
        journal.checkpoint()
    journal.log.write_bytes(log)  # as if killed before the log was emptied
    with io.Journal(tmp_path / "g") as again:
        assert again.number == 3
        same(journal.graph, again.graph)
    io.write_snapshot(tmp_path / "g", changed(), number=1)
    journal.log.write_bytes(log[len(log) * 2 // 3 :])
    with pytest.raises(io.FormatError, match="no batch begins at byte 0"):
        io.Journal(tmp_path / "g")
    assert journal.log.read_bytes() == log[len(log) * 2 // 3 :]
    io.write_snapshot(tmp_path / "g", changed())
    journal.log.write_bytes(log[first:])
    with pytest.raises(io.FormatError, match="batch 1 is missing"):
        io.Journal(tmp_path / "g")


def test_a_log_that_is_damaged_is_left_as_it_is(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        for k in range(3):
            journal.apply(([0], [3], [k]))
    log = journal.log.read_bytes()
    one = len(log) // 3
    for at, said in ((one + 60, f"the batch at byte {one} is damaged"), (5, "no batch begins")):
        bad = bytearray(log)
        bad[at] ^= 1
        journal.log.write_bytes(bad)
        with pytest.raises(io.FormatError, match=said):
            io.Journal(tmp_path / "g")
        assert journal.log.read_bytes() == bad
    for begun in 0, 3, 60:  # as some file systems leave it
        journal.log.write_bytes(log[: 2 * one + begun] + b"\0" * 100)
        with io.Journal(tmp_path / "g") as again:
            assert again.number == 2 and again.dropped_bytes == begun + 100
    io.write_snapshot(tmp_path / "g", morph.Graph.from_edges([0], [1], weight=[1]))
    with pytest.raises(io.FormatError, match="batch 1: inserts.dst"):
        io.Journal(tmp_path / "g")


def test_one_value_for_many_rows(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        journal.apply({"src": [0, 2, 3], "dst": 3 * [4], "weight": 2})
        journal.apply(([0, 2], [3, 3], 5), updates=(2, 7), deletes=3)
    with io.Journal(tmp_path / "g") as again:
        same(journal.graph, again.graph)


def test_a_disk_that_is_full_for_a_time(tmp_path):
    program = f"""
import os, resource, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from morph import io
from journals import changed
journal = io.Journal({str(tmp_path / "g")!r}, changed())
journal.apply(([0], [3], [1]))
free = resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_FSIZE, (journal.log.stat().st_size + 50, free))
try:
    journal.apply(([2], [3], [77]))
except OSError as error:
    assert error.filename == str(journal.log)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))
    journal.apply(([3], [3], [88]))
io.write_snapshot({str(tmp_path / "want")!r}, journal.graph)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)
    with io.Journal(tmp_path / "g") as again:
        assert again.number == 2
        same(io.read_snapshot(tmp_path / "want"), again.graph)


def test_a_process_that_is_killed(tmp_path):
    path, said = tmp_path / "g", tmp_path / "said"
    program = f"""
import numpy as np, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from morph import io
from journals import changed
journal = io.Journal({str(path)!r}, changed())
rng = np.random.default_rng(3)
while True:
    ends = rng.integers(0, 6, (2, 3))
    ends[ends == 1] = 0
    journal.apply((*ends, [1, 2, 3]), tuple(ends[:, :1]))
    with open({str(said)!r}, "w") as f:
        f.write(str(journal.number))
"""
    running = subprocess.Popen([sys.executable, "-c", program])
    try:
        for _ in range(6000):
            time.sleep(0.1)
            if said.exists() and (said.read_text() or "0") > "0" and path.exists():
                break
        time.sleep(0.2)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    at_least = int(said.read_text() or 0)
    with io.Journal(path) as journal:
        assert at_least <= journal.number <= at_least + 1 or not at_least
        validate.index(journal.graph)
        g, rng = changed(), np.random.default_rng(3)
        for _ in range(journal.number):
            ends = rng.integers(0, 6, (2, 3))
            ends[ends == 1] = 0
            g.apply((*ends, [1, 2, 3]), tuple(ends[:, :1]))
        same(g, journal.graph)
