"""Journals that several processes use: locks, damage, leftover files, reading without a lock."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from journals import changed, same
from small import contents

import morph
from morph import io


def python(program, *args, **options):
    """Start another process that runs a program, with the tests' modules at hand."""
    head = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
    command = [sys.executable, "-c", head + program, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def test_one_journal_at_a_time(tmp_path):
    path = tmp_path / "g"
    with io.Journal(path, changed()) as journal:
        journal.apply(([0], [3], [1]))
        for again in (lambda: io.Journal(path), lambda: io.Journal(path, changed())):
            with pytest.raises(BlockingIOError, match="another open journal") as caught:
                again()
            assert caught.value.filename == str(journal.log)
        with pytest.raises(BlockingIOError, match="another open journal"):
            io.write_snapshot(path, changed())
        journal.apply(([2], [3], [1]))
        journal.checkpoint()
        journal.apply(([3], [3], [1]))
        with pytest.raises(BlockingIOError):  # a checkpoint keeps the lock
            io.Journal(path)
    with io.Journal(path) as again:
        assert again.number == 3
        same(journal.graph, again.graph)


def test_another_process_holds_the_lock_until_it_is_killed(tmp_path):
    program = """
import time
from morph import io
from journals import changed
journal = io.Journal(sys.argv[1], changed())
journal.apply(([0], [3], [1]))
print("open", flush=True)
time.sleep(100)
"""
    running = python(program, tmp_path / "g")
    try:
        assert running.stdout.readline() == "open\n"
        with pytest.raises(BlockingIOError, match="another open journal"):
            io.Journal(tmp_path / "g")
    finally:
        running.kill()
        running.wait()
    with io.Journal(tmp_path / "g") as journal:
        assert journal.number == 1


def test_a_forked_child_has_the_journal_closed(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        child = os.fork()
        if not child:
            try:
                journal.apply(([0], [3], [1]))
            except ValueError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        journal.apply(([0], [3], [1]))
        with pytest.raises(BlockingIOError):
            io.Journal(tmp_path / "g")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda g, log: log.unlink(), "the log was removed or replaced"),
        (lambda g, log: os.replace(g.with_name("other"), log), "the log was removed or replaced"),
        (lambda g, log: log.write_bytes(log.read_bytes() * 2), "the log has"),
        (lambda g, log: os.truncate(log, 0), "the log has 0 bytes"),
        (
            lambda g, log: os.replace(g.with_name("other"), g),
            "the snapshot was removed or replaced",
        ),
        (lambda g, log: g.unlink(), "the snapshot was removed"),
        (lambda g, log: log.write_bytes(renumbered(log.read_bytes())), "is not number 2"),
    ],
)
def test_what_another_program_does_to_the_files_is_noticed(tmp_path, change, said):
    path = tmp_path / "g"
    io.write_snapshot(tmp_path / "other", changed(), number=2)
    with io.Journal(path, changed()) as journal:
        journal.apply(([0], [3], [1]))
        journal.apply(([0], [3], [1]))
        before = contents(journal.graph.edges)
        change(path, journal.log)
        for ask in (lambda: journal.apply(([2], [3], [1])), journal.checkpoint):
            with pytest.raises(OSError, match=said) as caught:
                ask()
            assert caught.value.errno == errno.ESTALE and len(str(caught.value)) < 200 + len(
                str(path)
            )
        assert contents(journal.graph.edges) == before and journal.number == 2


def renumbered(log):
    """A log whose last record has another number."""
    half = len(log) // 2
    return log[:half] + log[half : half + 8] + b"\x09" + log[half + 9 :]


def test_records_of_two_writers_are_refused(tmp_path):
    """As two journals of an earlier version left them: both wrote a batch of one number."""
    with io.Journal(tmp_path / "g", changed()) as journal:
        journal.apply(([0], [3], [1]))
        journal.apply(([0], [3], [2]))
    log = journal.log.read_bytes()
    journal.log.write_bytes(log + log[len(log) // 2 :])
    with pytest.raises(io.FormatError, match="batch 2 is followed by batch 2"):
        io.Journal(tmp_path / "g")


def test_a_complete_record_that_is_damaged_is_no_torn_tail(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        for k in range(3):
            journal.apply(([0], [3], [k]))
    log = journal.log.read_bytes()
    one = len(log) // 3
    rng = random.Random(5)
    for begin in (one, 2 * one):  # in the middle, and the last one
        for at in [8, 12, 16, 24, 28, 31, 32, one - 1, *rng.sample(range(32, one), 20)]:
            bad = bytearray(log)
            bad[begin + at] ^= 1 << rng.randrange(8)
            journal.log.write_bytes(bad)
            for options in ({}, {"readonly": True}):
                with pytest.raises(io.FormatError, match=f"the batch at byte {begin} is damaged"):
                    io.Journal(tmp_path / "g", **options)
            assert journal.log.read_bytes() == bad
    for cut in (*range(1, 40), one - 1):  # while what is incomplete was never acknowledged
        journal.log.write_bytes(log[: 2 * one + cut])
        with io.Journal(tmp_path / "g") as again:
            assert (again.number, again.dropped_bytes) == (2, cut)


def test_temporary_files_of_a_killed_checkpoint_are_removed(tmp_path):
    program = """
import os, signal
from morph import io
from journals import changed
journal = io.Journal(sys.argv[1], changed())
journal.apply(([0], [3], [1]))
import morph.io.graph.snapshot
morph.io.graph.snapshot.sync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
journal.checkpoint()
"""
    running = python(program, tmp_path / "g")
    assert running.wait() == -signal.SIGKILL
    left = [x for x in os.listdir(tmp_path) if x.endswith(".tmp")]
    assert len(left) == 1 and left[0].startswith(".g.")
    others = [".g2.77.0123abcd.tmp", ".g.x.0123abcd.tmp", ".g.77.0123abcd.tmp~", "g.77.tmp"]
    for other in others:
        (tmp_path / other).write_bytes(b"not ours")
    with io.text.files.replacing(tmp_path / "g.two"), io.text.files.replacing(tmp_path / "g"):
        live = {x for x in os.listdir(tmp_path) if x.endswith(".tmp")} - {*left, *others}
        assert len(live) == 2  # being written
        with io.Journal(tmp_path / "g") as journal:
            assert journal.number == 1
            now = {x for x in os.listdir(tmp_path) if x not in ("g", "g.log")}
            assert now == live | set(others)
        raise_from = tmp_path / "g"
        raise_from.rename(tmp_path / "kept")  # `replacing` is about to give its empty file the name
    assert not [x for x in os.listdir(tmp_path) if x.endswith(".tmp") and x not in others]


@pytest.mark.parametrize("logged", [True, False])
def test_a_journal_is_read_without_write_access(tmp_path, logged, monkeypatch):
    folder = tmp_path / "kept"
    folder.mkdir()
    with io.Journal(folder / "g", changed()) as journal:
        journal.apply(([0], [3], [1]))
        if not logged:
            journal.checkpoint()
            journal.log.unlink()
    files = {x: (folder / x).read_bytes() for x in os.listdir(folder)}
    real = os.open

    def refuse(path, flags, *rest, **named):
        if str(path).startswith(str(folder)) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(refusal, os.strerror(refusal), path)
        return real(path, flags, *rest, **named)

    for refusal in (errno.EACCES, errno.EROFS):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            for options in ({}, {"readonly": True}):
                with io.Journal(folder / "g", **options) as again:
                    assert again.readonly and again.number == 1
                    same(journal.graph.copy(), again.graph.copy())
                    for ask in (lambda j=again: j.apply(([0], [3], [1])), again.checkpoint):
                        with pytest.raises(OSError, match="open for reading only"):
                            ask()
            with pytest.raises(PermissionError if refusal == errno.EACCES else OSError):
                io.Journal(folder / "g", changed())
    assert files == {x: (folder / x).read_bytes() for x in os.listdir(folder)}


def test_a_user_without_rights_reads_a_journal(tmp_path):
    """Where no other user may read the interpreter, rights go after it has loaded everything."""
    program = """
import os
from morph import io
path = sys.argv[1]
io.Journal(path, readonly=True)
if os.geteuid() == 0:
    os.seteuid(65534)
journal = io.Journal(path)
assert journal.readonly and journal.number == 1
print(journal.graph.edges.live)
"""
    with tempfile.TemporaryDirectory() as folder:
        with io.Journal(f"{folder}/g", changed()) as journal:
            journal.apply(([0], [3], [1]))
        os.chmod(journal.log, 0o444)
        os.chmod(folder, 0o555)
        running = python(program, f"{folder}/g")
        out, _ = running.communicate(timeout=600)
        os.chmod(folder, 0o755)
    assert running.returncode == 0 and int(out) == journal.graph.edges.live


def test_a_reader_beside_a_writer(tmp_path):
    """It sees a state that there was, whatever the writer does meanwhile, checkpoints included."""
    program = """
from morph import Graph, io
journal = io.Journal(sys.argv[1], Graph.from_edges([0], [1], weight=[0], n=2))
print("open", flush=True)
for k in range(1, 100000):
    journal.apply(([0], [1], [k]))
    if k % 3 == 0:
        journal.checkpoint()
"""
    running = python(program, tmp_path / "g")
    try:
        assert running.stdout.readline() == "open\n"
        seen = []
        while len(seen) < 40 or seen[-1] == seen[0]:
            assert running.poll() is None
            try:
                with io.Journal(tmp_path / "g", readonly=True) as journal:
                    weights = journal.graph.edges.weight[:].tolist()
            except BlockingIOError:  # checkpoints came too fast
                continue
            assert weights == list(range(journal.number + 1))
            seen.append(journal.number)
        assert seen == sorted(seen)
    finally:
        running.kill()
        running.wait()


WRITER = """
import time
from morph import Graph, io
path, first, said = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], "a", buffering=1)
while True:
    try:
        journal = io.Journal(path)
        break
    except BlockingIOError:
        time.sleep(0.002)
k = first
while True:
    journal.apply(([0], [1], [k]))
    said.write(f"{k}\\n")
    k += 1
    if k % 7 == 0:
        journal.checkpoint()
"""


def test_two_processes_killed_at_any_moment(tmp_path):
    """Acknowledged batches are there, once and in order, whichever process is killed and when."""
    path, said = tmp_path / "g", tmp_path / "said"
    io.Journal(path, morph.Graph.from_edges([0], [1], weight=[0], n=2)).close()
    said.touch()
    rng, running = random.Random(1), []
    try:
        running = [python(WRITER, path, 10**6 * k, said) for k in (1, 2)]
        for k in range(3, 13):
            before, until = said.stat().st_size, time.monotonic() + 600
            while said.stat().st_size == before and time.monotonic() < until:
                time.sleep(0.01)  # one of them has the lock, and gets a batch
            time.sleep(0.3 * rng.random())
            who = rng.randrange(2)
            running[who].kill()
            running[who].wait()
            running[who] = python(WRITER, path, 10**6 * k, said)
    finally:
        for process in running:
            process.kill()
            process.wait()
    acknowledged = [int(x) for x in said.read_text().split()]
    with io.Journal(path) as journal:
        kept = journal.graph.edges.weight[:].tolist()[1:]
        assert journal.number == len(kept) and journal.dropped_bytes >= 0
    assert len(set(kept)) == len(kept) and len(acknowledged) >= 10
    assert not set(acknowledged) - set(kept)
    assert len(kept) - len(acknowledged) <= 12  # of each that was killed, one not yet acknowledged
    assert not [x for x in os.listdir(tmp_path) if x.endswith(".tmp")]


def test_threads_share_a_journal(tmp_path):
    with io.Journal(tmp_path / "g", morph.Graph.from_edges([0], [1], weight=[0], n=2)) as journal:

        def work(k):
            for i in range(20):
                journal.apply(([0], [1], [1 + k * 20 + i]))

        workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for w in workers:
            w.start()
        journal.checkpoint()
        for w in workers:
            w.join()
    with io.Journal(tmp_path / "g") as again:
        assert again.number == 80
        assert sorted(again.graph.edges.weight[:].tolist()) == list(range(81))


def test_nothing_is_created_where_there_is_no_journal(tmp_path):
    for options in ({}, {"readonly": True}):
        with pytest.raises(FileNotFoundError):
            io.Journal(tmp_path / "g", **options)
    with pytest.raises(ValueError, match="readonly=True reads a journal"):
        io.Journal(tmp_path / "g", changed(), readonly=True)
    assert not os.listdir(tmp_path)


def test_a_journal_that_cannot_begin_leaves_the_one_before(tmp_path, monkeypatch):
    with io.Journal(tmp_path / "g", changed()) as journal:
        journal.apply(([0], [3], [1]))

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("morph.io.graph.snapshot.sync", full)
        with pytest.raises(OSError, match="No space"):
            io.Journal(tmp_path / "g", morph.Graph())
    assert sorted(os.listdir(tmp_path)) == ["g", "g.log"]
    with io.Journal(tmp_path / "g") as again:
        assert again.number == 1


def test_the_log_has_the_rights_of_other_files(tmp_path):
    before = os.umask(0o027)
    try:
        io.Journal(tmp_path / "g", changed()).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "g.log").stat().st_mode) == 0o640


def test_a_checkpoint_that_is_interrupted_after_the_snapshot_was_replaced(tmp_path, monkeypatch):
    """The journal goes on: the log has batches that the snapshot has, too."""

    def interrupt(path):
        raise KeyboardInterrupt

    with io.Journal(tmp_path / "g", changed()) as journal:
        journal.apply(([0], [3], [1]))
        with monkeypatch.context() as patch:
            patch.setattr("morph.io.graph.snapshot.sync_folder", interrupt)
            with pytest.raises(KeyboardInterrupt):
                journal.checkpoint()
        journal.apply(([3], [0], [2]))
    with io.Journal(tmp_path / "g") as again:
        assert again.number == 2
        same(again.graph, journal.graph)
        again.checkpoint()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="symbolic links")
def test_a_symbolic_link_is_the_journal_that_it_leads_to(tmp_path):
    """It has the log of the file itself: no batch is missing, and one journal writes."""
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "g", tmp_path / "link"
    link.symlink_to("there/g")
    with io.Journal(link, changed()) as journal:
        journal.apply(([0], [3], [1]))
        with pytest.raises(BlockingIOError):
            io.Journal(path)
    with io.Journal(path) as journal:
        journal.apply(([3], [0], [2]))
        with pytest.raises(BlockingIOError):
            io.Journal(link)
        with io.Journal(link, readonly=True) as reader:
            assert reader.number == 2
    with io.Journal(link) as again:
        assert again.number == 2
        same(again.graph, journal.graph)
        again.checkpoint()
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "there"]
    assert sorted(os.listdir(path.parent)) == ["g", "g.log"]
