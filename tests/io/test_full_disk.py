"""A full disk: writers leave the previous file, and no other."""

import errno
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import morph
from morph import io
from morph.io.graph.formats import ROWS as GRAPHS
from morph.io.text import files

N = 300


def graph():
    ends = np.arange(N)
    return morph.Graph.from_edges(ends, (ends + 1) % N, weight=np.ones(N, np.int32))


@cache  # two threads may make another one, whose picture is smaller
def mesh():
    side = np.linspace(0, 1, 18)
    return morph.triangulate(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2))


def formula():
    return morph.Formula.of([[k, -k - 1] for k in range(1, N)])


def checkpoint(path):
    with io.Journal(path) as journal:
        journal.apply(([0], [1], [1]))
        journal.checkpoint()


def saved(path):
    from morph.algorithms.registry import ALGORITHMS
    from morph.cli.graphs import save_answer

    save_answer(str(path), ALGORITHMS["bfs"], {"distance": np.arange(10 * N)})


WRITERS = {
    **{f"graph{row.suffixes[0]}": lambda p: io.write_graph(graph(), p) for row in GRAPHS},
    **{f"graph.{s}": lambda p: io.write_graph(graph(), p) for s in ("wel.gz", "mtx.xz", "txt.bz2")},
    "graph.graph": lambda p: io.write_graph(
        morph.Graph.from_edges(np.arange(N - 1), np.arange(1, N), directed=False), p),
    "graph.snapshot": lambda p: io.write_snapshot(p, graph()),
    "kept": checkpoint,
    "mesh": lambda p: io.write_mesh(mesh(), p, neighbors=True, edges=True, order=2),
    "pslg.poly": lambda p: io.write_pslg(
        morph.Pslg(np.random.default_rng(0).random((N, 2)), [[0, 1]]), p),
    "sides.area": lambda p: io.write_area(np.random.default_rng(0).random(N), p),
    "sides.neigh": lambda p: io.write_neigh(mesh(), p),
    "sides.edge": lambda p: io.write_edge(mesh(), p),
    "formula.cnf": lambda p: io.write_cnf(formula(), p),
    "formula.cnf.gz": lambda p: io.write_cnf(
        morph.generate.random_ksat(3, 900, 4.0, 1), p),
    "found.npy": saved,
    "found.npz": lambda p: saved(p),
    "picture.png": lambda p: mesh().plot(p),
    "picture.svg": lambda p: mesh().plot(p),
}  # fmt: skip


class Failing:
    """A file one of whose methods fails as on a full disk, or is interrupted."""

    def __init__(self, file, where, error):
        self.file, self.where, self.error = file, where, error

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()

    def write(self, data):
        if self.where == "write":
            self.file.write(bytes(memoryview(data).cast("B")[:7]))
            raise self.error
        return self.file.write(data)

    def flush(self):
        if self.where == "flush":
            raise self.error
        return self.file.flush()

    def close(self):
        if not self.file.closed:
            self.file.close()
            if self.where == "close":
                raise self.error


def listed(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


@cache
def written(folder, name):
    """The files that a writer makes in a folder."""
    WRITERS[name](folder / name)
    return listed(folder)


ERRORS = {
    "full": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "interrupt": KeyboardInterrupt,
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", ["write", "flush", "fsync", "close", "replace", "lock"])
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_left(tmp_path, tmp_path_factory, monkeypatch, name, where, error):
    if name == ("picture.png" if error == "full" else "picture.svg"):
        pytest.skip("pictures take a second, and one function writes both")
    path, problem = tmp_path / name, ERRORS[error]()
    if name == "kept":
        io.Journal(path, graph()).close()
    else:
        folder = tmp_path_factory.getbasetemp() / f"first-{name}"
        folder.mkdir(exist_ok=True)
        for other, data in written(folder, name).items():
            (tmp_path / other).write_bytes(data)
    before = listed(tmp_path)

    def fail(*args):
        raise problem

    real = dict(files._OPENERS)
    failing = {s: lambda *a, o=o: Failing(o(*a), where, problem) for s, o in real.items()}
    with monkeypatch.context() as patch:
        patch.setattr(files, "_OPENERS", failing)
        patch.setattr(files, "open", lambda *a: opened(*a), raising=False)

        def opened(path, mode="r"):
            file = open(path, mode)  # noqa: SIM115
            return Failing(file, where, problem) if "w" in mode else file

        if where == "replace":
            patch.setattr(os, "replace", fail)
        if where == "fsync":
            patch.setattr(os, "fsync", fail)
        if where == "lock":
            patch.setattr(files, "lock_file", fail)
        try:
            WRITERS[name](path)
        except type(problem) as caught:
            if error == "full" and name != "kept":
                assert caught.errno == errno.ENOSPC
                assert not str(caught.filename or "").endswith(".tmp")
        else:  # where it never comes to that
            assert where in ("flush", "fsync")
            return
    after = listed(tmp_path)
    assert not [x for x in after if x.endswith(".tmp")]
    if name != "kept":
        assert after == before
        return
    with io.Journal(path) as journal:
        assert journal.number <= 1 and journal.graph.edges.live == N + journal.number


def test_the_system_refuses_to_write_more(tmp_path):
    """The kernel's own error, wherever it comes: of a write, of a flush, of closing."""
    program = f"""
import os, resource, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_full_disk import WRITERS, graph, io
free = resource.RLIM_INFINITY
for name, write in WRITERS.items():
    folder = os.path.join(sys.argv[1], name)
    path = os.path.join(folder, name)
    os.mkdir(folder)
    io.Journal(path, graph()).close() if name == "kept" else write(path)
    before = set(os.listdir(folder))
    sizes = [os.path.getsize(os.path.join(folder, x)) for x in before]
    for limit in (10, max(sizes) - 1, max(sizes) // 2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free))
        try:
            write(path)
        except OSError as error:
            assert not str(error.filename).endswith(".tmp"), error
        else:
            raise AssertionError(f"{{name}} was written")
        assert set(os.listdir(folder)) == before, os.listdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))
    write(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("links", [True, False])
def test_files_of_a_mesh_are_replaced_together(tmp_path, monkeypatch, at, error, links):
    """An error of the k-th rename, or an interrupt behind it, undoes those before."""
    write = WRITERS["mesh"]
    other = morph.Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]])
    io.write_mesh(other, tmp_path / "mesh")  # fewer files
    before, rename, calls = listed(tmp_path), os.replace, []

    def fail(source, target):
        calls.append(target)
        if len(calls) == at and error == "full":
            raise ERRORS[error]()
        rename(source, target)
        if len(calls) == at:
            raise ERRORS[error]()

    def no_links(*paths):
        raise OSError(errno.EPERM, "no hard links")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        if not links:
            patch.setattr(os, "link", no_links)
        with pytest.raises((OSError, KeyboardInterrupt)):
            write(tmp_path / "mesh")
    assert len(calls) >= at and listed(tmp_path) == before
    write(tmp_path / "mesh")
    assert len(listed(tmp_path)) == 5


def test_a_folder_of_the_name_of_one_file_of_a_mesh(tmp_path):
    (tmp_path / "mesh.ele").mkdir()
    with pytest.raises(OSError) as caught:
        WRITERS["mesh"](tmp_path / "mesh")
    assert caught.value.filename == str(tmp_path / "mesh.ele") and len(str(caught.value)) <= 200
    assert os.listdir(tmp_path) == ["mesh.ele"]


def test_files_that_cannot_be_restored_are_named(tmp_path, monkeypatch):
    """Their previous contents are kept."""
    for name in "abc":
        (tmp_path / name).write_text(name)
    rename, calls = os.replace, []

    def fail(source, target):
        calls.append(target)
        if len(calls) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO), source)
        rename(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="cannot restore it") as caught:
        with files.replacing(*(tmp_path / name for name in "abc")) as opened:
            for file in opened:
                file.write(b"new")
    assert caught.value.filename == str(tmp_path / "a") and len(caught.value.strerror) <= 200
    old = caught.value.strerror.split()[-1]
    assert (tmp_path / old).read_text() == "a" and (tmp_path / "b").read_text() == "b"
    assert sorted(os.listdir(tmp_path)) == sorted([old, "a", "b", "c"])


def test_interrupts_while_files_are_restored(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).write_text(name)
    rename, calls = os.replace, []

    def interrupted(source, target):
        calls.append(target)
        rename(source, target)
        if len(calls) in (2, 3, 4):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        with files.replacing(*(tmp_path / name for name in "abc")) as opened:
            opened[0].write(b"new")
    assert listed(tmp_path) == {name: name.encode() for name in "abc"}


def test_folders_of_all_targets_are_locked_in_one_order(tmp_path, monkeypatch):
    locked = []
    monkeypatch.setattr(files, "_lock_folder", lambda folder, cleanup: locked.append(folder.name))
    for name in "zyx":
        (tmp_path / name).mkdir()
        (tmp_path / f"m.{name}").symlink_to(tmp_path / name / "file")
    with files.replacing(*(tmp_path / f"m.{name}" for name in "zyx")) as opened:
        opened[0].write(b"new")
    assert locked == ["x", "y", "z"] and (tmp_path / "z" / "file").read_bytes() == b"new"


def test_two_processes_write_one_mesh(tmp_path):
    """All files are of one of them, and nothing else is left."""
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_full_disk import io, morph, np
n = int(sys.argv[2])
mesh = morph.Mesh([[0, 0], [1, 0], [0, 1], [1, 1]][:n], [[0, 1, 2], [2, 1, 3]][:n - 2])
for _ in range(60):
    io.write_mesh(mesh, sys.argv[1], neighbors=True, edges=True)
"""
    name = str(tmp_path / "mesh")
    writers = [subprocess.Popen([sys.executable, "-c", program, name, n]) for n in "34"]
    assert [w.wait(600) for w in writers] == [0, 0]
    mesh = io.read_mesh(name)
    assert len(mesh.points) == len(mesh.triangles) + 2
    rows = {s: int((tmp_path / f"mesh.{s}").read_text().split()[0]) for s in ("neigh", "edge")}
    assert rows == {"neigh": len(mesh.triangles), "edge": 2 * len(mesh.triangles) + 1}
    assert len(os.listdir(tmp_path)) == 5


def test_a_locked_folder_delays_a_writer_briefly(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(files, "LOCKED", 0.01)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # as `flock FOLDER COMMAND` does
        io.write_mesh(morph.Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]]), tmp_path / "mesh")
    finally:
        os.close(handle)
    assert sorted(os.listdir(tmp_path)) == ["mesh.ele", "mesh.node", "mesh.poly"]


def test_the_file_is_named_in_the_error(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *args[:1])

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space") as caught:
        io.write_graph(graph(), tmp_path / "g.txt")
    assert caught.value.filename == str(tmp_path / "g.txt")
    with pytest.raises(FileNotFoundError) as caught:
        io.write_graph(graph(), tmp_path / "no" / "g.txt")
    assert caught.value.filename == str(tmp_path / "no")


def test_the_folder_is_named_if_one_of_several_files_cannot_be_written(tmp_path):
    targets = tmp_path / "a", tmp_path / "b"
    with pytest.raises(OSError, match="No space") as caught, files.replacing(*targets):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(caught.value) == f"[Errno {errno.ENOSPC}] No space left on device: '{tmp_path}'"


def test_the_cache_keeps_nothing_that_is_not_whole(tmp_path, monkeypatch):
    from morph.runtime.toolchain import cache

    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))

    def full(*args, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cache.remember("x", {"a": 1})
    assert not os.listdir(tmp_path)
