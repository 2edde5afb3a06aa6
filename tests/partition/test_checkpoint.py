"""Programs on parts that end at any step resume from a checkpoint, on any parts."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pretend import pretended
from ranks import output_of_ranks, run_on_ranks
from test_parts_programs import PROGRAMS, components, divided_graphs, pagerank, values

import morph
from morph.io import FormatError
from morph.io.graph.checkpoint import Recorder, _fingerprint
from morph.partition.execution import PartitionedLaunch
from morph.prelude import i32


class Killed(BaseException):
    pass


def executed(monkeypatch, stop=None):
    """The kernels that run; the process is killed after some of them."""
    names, run = [], PartitionedLaunch._run

    def counted(self, args, where):
        if len(names) == stop:
            raise Killed
        run(self, args, where)
        names.append(self._name)

    monkeypatch.setattr(PartitionedLaunch, "_run", counted)
    return names


def run_in(path, program, parts, every=0):
    with parts.checkpoint(path, every=every):
        return values(program(parts))


def graph(directed=True):
    return morph.generate.uniform(40, 90, weight=(1, 9), seed=3, directed=directed)


@pytest.mark.parametrize("program", [*PROGRAMS, pagerank], ids=lambda f: f.__name__)
def test_resumed_at_each_step_on_other_parts(program, tmp_path, monkeypatch):
    g, path = graph(), tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        all_names = executed(patch)
        wanted = run_in(path, program, morph.partition(g, ["cpu", "cpu"]))
    assert all_names and not path.exists()
    numbers = range(1, len(all_names), max(len(all_names) // 4, 1))
    for stop in {*numbers, len(all_names) - 1} - {0}:
        with monkeypatch.context() as patch:
            executed(patch, stop)
            with pytest.raises(Killed):
                run_in(path, program, morph.partition(g, ["cpu", "cpu"]))
        for devices in (["cpu"], ["cpu", "python", "cpu"]):
            saved = path.read_bytes()
            with monkeypatch.context() as patch:
                names = executed(patch)
                found = run_in(path, program, morph.partition(g, devices, "degree"))
            if program is not components:  # whose steps see values of the same step
                assert names == all_names[stop:]
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12 if program is pagerank else 0)
            assert not path.exists()
            path.write_bytes(saved)
        path.unlink()


@settings(max_examples=10)
@given(divided_graphs(), st.integers(0, 5), st.data())
def test_any_graph(tmp_path_factory, case, stop, data):
    path, program = tmp_path_factory.mktemp("run") / "run.npz", data.draw(st.sampled_from(PROGRAMS))
    g, devices = case[:2]
    wanted = values(program(g.copy()))
    with pytest.MonkeyPatch.context() as patch:
        executed(patch, stop)
        try:
            run_in(path, program, morph.partition(g, devices))
        except Killed:
            pass
    found = run_in(path, program, morph.partition(g, ["cpu", "cpu"]))
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b)


@morph.kernel
def add_one(p):
    p.x += 1


@morph.kernel
def collect(p, chosen, flag, sums):
    if p.x % 3 == 0:
        chosen.add(p, p.x)
        flag.set()


def all_kinds(parts):
    """Objects of all kinds, columns with other names for a while, reads of all kinds."""
    parts.points.add("x", i32)[:] = np.arange(len(parts.points))
    parts.points.add("up", morph.Ref("points"))
    parts.points.add("xy", (np.float64, 2))[0] = [1.5, np.nan]
    chosen = morph.Collection(parts.points, key=i32)
    flag, sums = morph.Flag(parts), morph.Scalars(parts, a=1, v=np.zeros(9))
    table = parts.add_table("kinds", a=i32)
    table.extend(3)
    found = []
    for k in range(3):
        with parts.points.temporary_columns(x=(i32, 6)):
            morph.foreach(parts.points, add_one)
            found.append(int(parts.points.x[5]))
        morph.foreach(parts.points, add_one)
        chosen.clear()
        morph.foreach(parts.points, collect, chosen, flag, sums)
        found += [len(chosen), flag.take(), sorted(chosen.items.tolist()), sums.v.tolist()]
        found.append(sorted(zip(chosen.items.tolist(), chosen.key.tolist(), strict=True)))
        sums.a += len(chosen)
        sums.v = np.arange(9) * k
        table[k].a = parts.points[k].x
        parts.points[int(parts.edges.src[k])].up = int(parts.edges.dst[k])
        found += [parts.points.x[:].tolist(), table.a[:].tolist(), sums.a, parts.points.up[:].sum()]
        found.append(parts.points.x[parts.edges.src].sum())
        found += [parts.points.xy[0, 0], parts.points[0].xy.tolist()[0], bool(flag)]
    return found


def run_all_kinds(parts):
    return np.array(repr(all_kinds(parts)))


def test_objects_of_all_kinds(tmp_path, monkeypatch):
    g, path = graph(), tmp_path / "run.npz"
    wanted = run_all_kinds(morph.partition(g, ["cpu", "cpu"]))
    for stop in range(1, 9):
        with monkeypatch.context() as patch:
            executed(patch, stop)
            with pytest.raises(Killed):
                run_in(path, run_all_kinds, morph.partition(g, ["cpu", "cpu"]))
        with monkeypatch.context() as patch:
            names = executed(patch)
            (found,) = run_in(path, run_all_kinds, morph.partition(g, ["cpu", "cpu", "cpu"]))
        assert len(names) == 9 - stop and found.tolist() == wanted.tolist()


@morph.kernel
def add_neighbours(p):
    for t in p.outnbrs:
        p.x += t.id


def changing(parts):
    """Edges come and go between the steps."""
    parts.points.add("x", i32)
    parts.edges.add("y", i32)[:] = 3
    for k in range(3):
        done = parts.apply(inserts=([0, 5 + k], [39 - k, 0], [4, 4]), deletes=[k])
        parts.edges.y[int(done.inserted[0])] = k
        morph.foreach(parts.points, add_one)
        morph.foreach(parts.points, add_neighbours)
    whole = parts.to("cpu")
    return whole.points.x[:], *(getattr(whole.edges, c)[:] for c in whole.edges.columns)


def test_a_graph_that_changes(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    wanted = changing(morph.partition(graph(), ["cpu"]))
    for stop in (1, 4):
        stopped(path, monkeypatch, changing, stop=stop)
        found = run_in(path, changing, morph.partition(graph(), ["cpu", "cpu", "cpu"]))
        assert all(map(np.array_equal, found, wanted))


def test_a_pretended_gpu(tmp_path, monkeypatch):
    g, path, gpu = graph(), tmp_path / "run.npz", pretended(monkeypatch)
    for program in (*PROGRAMS[:2], run_all_kinds):
        wanted = values(program(morph.partition(g, ["cpu"])))
        for devices, others in (([gpu, "cpu"], ["cpu", gpu, gpu]), (["cpu"], [gpu, gpu])):
            with monkeypatch.context() as patch:
                executed(patch, 3)
                with pytest.raises(Killed):
                    run_in(path, program, morph.partition(g, devices))
            found = run_in(path, program, morph.partition(g, others))
            assert all(map(np.array_equal, found, wanted))


@pytest.mark.gpu
def test_a_gpu(tmp_path, monkeypatch):
    g, path = graph(), tmp_path / "run.npz"
    for program in (*PROGRAMS[:2], run_all_kinds):
        wanted = values(program(morph.partition(g, ["cpu"])))
        with monkeypatch.context() as patch:
            executed(patch, 3)
            with pytest.raises(Killed):
                run_in(path, program, morph.partition(g, ["cuda", "cpu"]))
        found = run_in(path, program, morph.partition(g, ["cuda", "cuda", "cuda"]))
        assert all(map(np.array_equal, found, wanted))


def test_no_checkpoint_before_its_time(tmp_path):
    path, parts = tmp_path / "run.npz", morph.partition(graph(), ["cpu", "cpu"])
    with parts.checkpoint(path, every=1e9):
        PROGRAMS[0](parts)
        assert not path.exists()
    with pytest.raises(ValueError, match="every = -1: expected 0 or more seconds"):
        parts.checkpoint(path, every=-1).__enter__()
    with parts.checkpoint(path), pytest.raises(RuntimeError, match="a checkpoint of this graph is"):
        parts.checkpoint(path).__enter__()


def stopped(path, monkeypatch, program=PROGRAMS[0], g=None, stop=3):
    with monkeypatch.context() as patch:
        executed(patch, stop)
        with pytest.raises(Killed):
            run_in(path, program, morph.partition(g or graph(), ["cpu", "cpu"]))


def test_checkpoints_of_something_else_are_refused(tmp_path, monkeypatch):
    path, parts = tmp_path / "run.npz", morph.partition(graph(), ["cpu", "cpu"])
    stopped(path, monkeypatch)
    saved = path.read_bytes()
    other = morph.partition(morph.generate.uniform(40, 90, seed=4, directed=True), ["cpu"])
    with pytest.raises(FormatError, match="run.npz: a checkpoint of another graph"):
        run_in(path, PROGRAMS[0], other)
    other = graph()
    other.edges.weight[5] += 1
    with pytest.raises(FormatError, match="run.npz: a checkpoint of another graph"):
        run_in(path, PROGRAMS[0], morph.partition(other, ["cpu"]))
    with pytest.raises(FormatError, match="a checkpoint of another program: this one runs 'visit'"):
        run_in(path, PROGRAMS[1], morph.partition(graph(), ["cpu"]))
    with pytest.raises(FormatError, match="of another program: this one ends after 0 steps, that"):
        with parts.checkpoint(path):
            pass
    flag = morph.Flag(parts)
    parts.points.add("x", i32)
    with pytest.raises(FormatError, match="this one runs 'add_one' after 0 steps, that one read a"):
        with parts.checkpoint(path):
            morph.foreach(parts.points, add_one)
    with pytest.raises(FormatError, match="this one reads a value after 0 steps, that one ran"):
        with parts.checkpoint(path):
            bool(flag)
            bool(flag)
    path.write_bytes(saved[: len(saved) // 2])
    with pytest.raises(FormatError, match="no checkpoint: "):
        run_in(path, PROGRAMS[0], parts)
    at = saved.rindex(b"PK\x01\x02")  # the last file of the archive: a method that no archive has
    path.write_bytes(saved[: at + 10] + b"\x77" + saved[at + 11 :])
    with pytest.raises(FormatError, match="no checkpoint: "):
        run_in(path, PROGRAMS[0], parts)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FormatError, match="no checkpoint: "):
        run_in(path, PROGRAMS[0], parts)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(FormatError, match="no checkpoint: "):
        run_in(path, PROGRAMS[0], parts)
    text = json.dumps({"version": 9}).encode()
    np.savez(path, **{"morph checkpoint": np.frombuffer(text, np.uint8)})
    with pytest.raises(FormatError, match="a checkpoint of version 9, not 2"):
        run_in(path, PROGRAMS[0], parts)
    assert parts.recorder is None


def test_a_damaged_checkpoint_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    stopped(path, monkeypatch)
    with np.load(path) as file:
        saved = dict(file)
    for name in saved:
        damaged = saved | {name: saved[name].copy()}
        if not saved[name].size:
            continue
        at = saved["morph checkpoint"].tobytes().index(b'"entries"') + 4
        damaged[name].reshape(-1).view(np.uint8)[at if name == "morph checkpoint" else 0] ^= 1
        with open(path, "wb") as file:
            np.savez(file, **damaged)
        with pytest.raises(FormatError, match="a damaged checkpoint|no checkpoint"):
            run_in(path, PROGRAMS[0], morph.partition(graph(), ["cpu"]))
    with open(path, "wb") as file:
        np.savez(file, **{n: a for n, a in saved.items() if not n.startswith("points.")})
    with pytest.raises(FormatError, match="a damaged checkpoint: its checksum is another"):
        run_in(path, PROGRAMS[0], morph.partition(graph(), ["cpu"]))


@pytest.mark.parametrize("weight", [None, "f4", "u1", "i8", "f8"])
def test_the_fingerprint_does_not_depend_on_the_parts(weight):
    for directed in (True, False):
        g = graph(directed)
        src, dst = (getattr(g.edges, c)[:] for c in ("src", "dst"))
        w = None if weight is None else (np.arange(len(src)) % 5).astype(weight)
        g = morph.Graph.from_edges(src, dst, weight=w, n=len(g.points))
        found = [_fingerprint(morph.partition(g, ["cpu"] * k)) for k in (1, 2, 5)]
        assert found[0] == found[1] == found[2]
        if w is not None:
            g.edges.weight[:2] = g.edges.weight[[3, 2]]
            assert _fingerprint(morph.partition(g, ["cpu"] * 2)) != found[0]


def test_an_error_is_handled_with_the_values_of_this_run(tmp_path, monkeypatch):
    def reading(kernel):
        def program(parts):
            parts.points.add("x", i32)
            try:
                assert parts.points.x[:].sum() == 0
                for _ in range(3):
                    morph.foreach(parts.points, kernel)
                return ()
            except FormatError:
                assert parts.points.x[0] == 0
                raise

        return program

    path = tmp_path / "run.npz"
    stopped(path, monkeypatch, reading(add_one), stop=2)
    with pytest.raises(FormatError, match="of another program: this one runs 'add_neighbours'"):
        run_in(path, reading(add_neighbours), morph.partition(graph(), ["cpu"]))


def test_an_object_with_other_columns_is_refused(tmp_path, monkeypatch):
    def with_column(name):
        def program(parts):
            parts.points.add("x", i32)
            parts.points.add(name, i32)
            for _ in range(3):
                morph.foreach(parts.points, add_one)
            return ()

        return program

    path = tmp_path / "run.npz"
    stopped(path, monkeypatch, with_column("a"), stop=2)
    with pytest.raises(FormatError, match="the columns or rows of table points are others"):
        run_in(path, with_column("b"), morph.partition(graph(), ["cpu"]))


def test_an_error_while_writing_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path, save, seen = tmp_path / "run.npz", Recorder._save, []

    def failing(self):
        if len(seen) == 2:
            monkeypatch.setattr(np, "savez", lambda file, **_: file.write(b"x") and 1 / 0)
        save(self)
        seen.append(path.read_bytes())

    monkeypatch.setattr(Recorder, "_save", failing)
    with pytest.raises(ZeroDivisionError):
        run_in(path, PROGRAMS[0], morph.partition(graph(), ["cpu", "cpu"]))
    assert path.read_bytes() == seen[-1] and [f.name for f in tmp_path.iterdir()] == ["run.npz"]


RANKS = """
import os, signal, sys
from test_checkpoint import *
path, stop = sys.argv[1], sys.argv[2]
g = graph()
names = executed(pytest.MonkeyPatch())
replace, count = os.replace, [0]
def replace_or_die(*args):
    count[0] += str(args[1]) == path  # not the files of the compile cache
    if stop == "within" and count[0] == 4:
        os.kill(os.getpid(), signal.SIGKILL)  # rank 0, in the fourth checkpoint
    replace(*args)
os.replace = replace_or_die
if stop == "other" and comm.rank == 1:
    save = Recorder._save
    def save_or_die(self):
        if self.steps == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        save(self)
    Recorder._save = save_or_die
for program in PROGRAMS[:1]:
    found = run_in(path, program, morph.partition(g, by="degree", comm=comm))
    assert all(map(np.array_equal, found, values(program(g.copy()))))
print(len(names))
"""


@pytest.mark.mpi
@pytest.mark.parametrize("stop, size", [("within", 3), ("other", 0)])
def test_a_rank_that_is_killed_in_a_checkpoint(tmp_path, stop, size, monkeypatch):
    path = tmp_path / "run.npz"
    names = executed(monkeypatch)
    run_in(tmp_path / "all.npz", PROGRAMS[0], morph.partition(graph(), ["cpu"]))
    done = run_on_ranks(2, RANKS, str(path), stop)
    assert done.returncode and "signal 9" in done.stdout + done.stderr
    with np.load(path) as file:
        entries = json.loads(file["morph checkpoint"].tobytes())["entries"]
    assert [e[1] for e in entries if e[0] == "step"] == names[:3]
    if size:
        left = path.read_bytes()
        assert output_of_ranks(size, RANKS, str(path), "") == [str(len(names) - 3)] * size
        assert not path.exists() and not list(tmp_path.glob(".*.tmp"))
        path.write_bytes(left)
    del names[:]
    found = run_in(path, PROGRAMS[0], morph.partition(graph(), ["cpu", "cpu"]))
    assert all(map(np.array_equal, found, values(PROGRAMS[0](graph()))))
