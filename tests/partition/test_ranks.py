"""Parts on MPI ranks: exchange of arrays, errors; programs give the results of one device."""

import re
import signal
import time

import numpy as np
import pytest
from limits import SLOWER
from ranks import output_of_ranks, run_on_ranks

import morph
from morph.partition.partition import _checksum, placement
from morph.partition.ranks import VERSION
from morph.partition.transport import Local, PartError, agree, raise_together

# what part k sends to part j, as a function of both, for every transport
SENT = """
def sent_by(k, size):
    return [
        [np.arange(k * j, dtype=np.int32), np.full((j, 2), k / 8), np.arange(k) % 2 == 0]
        for j in range(size)
    ]
"""
exec(SENT)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_parts_of_one_process_exchange_arrays(size):
    local = Local([morph.device("cpu")] * size)
    found = local.exchange({k: sent_by(k, size) for k in local.here})  # noqa: F821
    for j in local.here:
        for k in local.here:
            for got, wanted in zip(found[j][k], sent_by(k, size)[j], strict=True):  # noqa: F821
                assert got.dtype == wanted.dtype and np.array_equal(got, wanted)
    assert local.gather({k: k * k for k in local.here}) == [k * k for k in range(size)]


def test_errors_of_parts_are_raised_after_all():
    local = Local([morph.device("cpu")] * 2)
    raise_together(local, {0: None, 1: None})
    with pytest.raises(KeyError, match="lost"):
        raise_together(local, {0: None, 1: KeyError("lost")})
    with pytest.raises(ValueError, match="the graph differs between rank 0 and rank 1: a, b"):
        agree(OtherRank("b"), "the graph", "a")
    with pytest.raises(PartError, match="part 1 has failed: ValueError: bad"):
        raise_together(OtherRank("ValueError: bad"), {0: None})


def test_checksums_of_labels_do_not_depend_on_the_process():
    g = morph.generate.grid(1, 2, device="cpu")
    place = placement(g, "range", np.full(2, 1 / 2))

    def checksum(name):
        g.labels = [(name, (object(), 1)), ("b", 1)]  # `repr` differs
        return _checksum(g, place)

    assert checksum("a") == checksum("a") != checksum("c")


class OtherRank(Local):
    """Part 0 of two; part 1 is elsewhere and has a value of its own."""

    def __init__(self, other):
        self.size, self.here, self.other = 2, range(1), other

    def gather(self, values):
        return [values[0], self.other]


EXCHANGE = (
    SENT
    + """
from morph.partition.ranks import Ranks
ranks = Ranks(comm)
me, P = comm.rank, comm.size
assert (ranks.size, list(ranks.here)) == (P, [me])
found = ranks.exchange({me: sent_by(me, P)})
assert list(found) == [me]
for k in range(P):
    for got, wanted in zip(found[me][k], sent_by(k, P)[me], strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape, (got, wanted)
        assert np.array_equal(got, wanted)
        got[:] = 0  # it may be written
assert ranks.gather({me: me * me}) == [k * k for k in range(P)]
"""
)


WAITING = """
from morph.partition.ranks import Ranks
ranks = Ranks(comm)
if comm.rank == 1:
    %s
ranks.gather({comm.rank: 0})  # waits for rank 1
"""


@pytest.mark.mpi
def test_a_rank_that_raises_ends_all():
    start = time.monotonic()
    done = run_on_ranks(2, WAITING % "raise OSError('no such disk')")
    assert (
        done.returncode and time.monotonic() - start < 15 * SLOWER
    )  # 10 s, and the start of Python
    assert "rank 1 ends all 2: OSError: no such disk" in done.stderr


IN_A_STEP = """
from morph.partition.execution import PartitionedLaunch
parts = morph.partition(morph.generate.grid(4, 4, device="cpu"), comm=comm)
parts.points.add("x", morph.prelude.i64)

@morph.kernel
def pull(p):
    for t in p.outnbrs:
        p.x += t.x

if comm.rank == 1:  # killed between the launches of its part and the exchanges after these
    PartitionedLaunch._launch = lambda *_: os.kill(os.getpid(), 9)
morph.foreach(parts.points, pull)
"""
AT_START = """
if comm.rank == 1:
    os.kill(os.getpid(), 9)
morph.partition(morph.generate.grid(4, 4, device="cpu"), comm=comm)
"""


@pytest.mark.mpi
@pytest.mark.parametrize(
    "code", [AT_START, IN_A_STEP, WAITING % "os.kill(os.getpid(), 9)"], ids=["start", "step", "end"]
)
def test_a_rank_that_is_killed_ends_all(code):
    start = time.monotonic()
    done = run_on_ranks(2, "import os\n" + code)
    assert done.returncode and time.monotonic() - start < 15 * SLOWER
    assert f"signal {int(signal.SIGKILL)}" in done.stderr + done.stdout


PARTS = """
from morph.partition import ranks
from morph.partition.transport import PartError
from morph.prelude import i64

@morph.kernel
def shift(p, n):
    p.x = p.x + n

def parts_of_ring():
    g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], n=4, device="cpu")
    parts = morph.partition(g, comm=comm)
    parts.points.add("x", i64)
    return parts

parts = parts_of_ring()
first = comm.rank == 0
"""


@pytest.mark.mpi
def test_ranks_that_execute_different_operations_are_refused():
    code = """
def write(parts):
    if first:
        parts.points.x[:] = 1
    parts.points.x[:]

def values(parts):
    parts.points.x[:] = comm.rank
    parts.points.x[:]

def new_column(parts):
    if not first:
        parts.points.add("y", i64)
    morph.foreach(parts.points, shift, 1)

def read(parts):
    if first:
        parts.points.x[:]
    morph.foreach(parts.points, shift, 1)

def number(parts):
    morph.foreach(parts.points, shift, comm.rank)

def flag(parts):
    raised = morph.Flag(parts)
    if first:
        raised.set()
    len(morph.Collection(parts.points))

def graph(parts):
    pair = parts, parts_of_ring()
    pair[comm.rank].points.x[:]

def division(parts):
    if first:
        parts_of_ring()
    parts.points.x[:]

for part_ways in (write, values, new_column, read, number, flag, graph, division):
    for again in (part_ways, read):  # the error remains
        try:
            again(parts)
        except PartError as error:
            print(part_ways.__name__, str(error).split(", number ")[1].split(": ", 1)[1])
    ranks._known.clear()
    parts = parts_of_ring()
"""
    wanted = {
        "division": ("a partitioned graph", "read points.x"),
        "flag": ("raise a flag", "make a collection of points"),
        "graph": ("read points.x", "read points.x"),
        "new_column": ("foreach shift 1", "add column points.y int64"),
        "number": ("foreach shift 0", "foreach shift 1"),
        "read": ("read points.x", "foreach shift 1"),
        "values": ("write points.x 0", "write points.x 1"),
        "write": ("write points.x 1", "read points.x"),
    }
    assert sorted(set(output_of_ranks(2, PARTS + code))) == [
        f"{name} rank 0: {a} (graph {int(name == 'division')});"
        f" rank 1: {b} (graph {int(name == 'graph')})"
        for name, (a, b) in wanted.items()
    ]


@pytest.mark.mpi
@pytest.mark.parametrize("alone", ["parts.points.x[:]", "parts.points.x[:] = 1"])
def test_a_rank_that_is_alone_at_the_end_ends_all(alone):
    done = run_on_ranks(2, PARTS + f"if first:\n    {alone}\nelse:\n    raise SystemExit(0)")
    assert done.returncode, done.stderr
    assert "rank 1: the end of the script" in done.stderr


@pytest.mark.mpi
def test_a_rank_that_waits_long_says_in_what(tmp_path):
    code = """
import os, sys, time
name = sys.argv[1]
ranks.REPORT_AFTER = 0.1
reported = ranks.Operations.report

def report(self):
    reported(self)
    if self.waiting and self._report_after > ranks.REPORT_AFTER:
        open(name, "w").close()

ranks.Operations.report = report
while not first and not os.path.exists(name):
    time.sleep(0.05)
parts.points.x[:]
"""
    done = run_on_ranks(2, PARTS + code, str(tmp_path / "reported"))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"(rank 0 has waited \d+ s for other ranks in: read points.x \(graph 0\)\n)+",
        done.stderr,
    )


PROGRAMS = """
import sys
from unittest import mock
import pytest
from test_parts_programs import *

class Counted:  # a communicator, and how many collectives it has made
    def __init__(self, comm):
        self.comm, self.count = comm, 0

    def __getattr__(self, name):
        self.count += name.lower().startswith("all")
        return getattr(self.comm, name)

sys.modules["morph.partition.routes"].SENT_WHOLE = 1  # lists of changes, of few mirrors, too
sys.modules["morph.partition.ranks"].platform.node = lambda: f"machine {comm.rank}"
everyone = comm
for comm in (MPI.COMM_SELF, everyone):
    rng = np.random.default_rng(5)
    for directed, by in (True, "degree"), (False, rng.integers(0, comm.size, 40)):
        ends, weight = rng.integers(0, 40, (2, 90)), rng.integers(1, 9, 90)
        g = morph.Graph.from_edges(*ends, weight=weight, n=40, directed=directed, device="cpu")
        for program in PROGRAMS:
            found = values(program(morph.partition(g, by=by, comm=comm)))
            for a, b in zip(found, values(program(g.copy())), strict=True):
                assert np.array_equal(a, b), (program, directed, by)
        parts = morph.partition(g, by=by, comm=comm, shares="measured")
        searched, wanted = morph.bfs(parts, 1).distance, morph.bfs(g, 1).distance
        own = parts.points.global_id.local(comm.rank)[: len(searched.local(comm.rank))]
        assert np.array_equal(searched.local(comm.rank), wanted[own])  # not gathered
        assert np.array_equal(searched, wanted) and (searched + 1 == wanted + 1).all()
        assert np.array_equal(searched.local(comm.rank), wanted[own])
        if comm.size > 1:
            with pytest.raises(ValueError, match="lies in another process"):
                searched.local(1 - min(comm.rank, 1))
        assert np.array_equal(
            morph.connected_components(parts).label, morph.connected_components(g).label
        )
        np.testing.assert_allclose(morph.pagerank(parts).rank, morph.pagerank(g).rank, rtol=1e-12)
        morph.bfs(parts, 1)  # with objects that the next call finds
        operations = parts.transport._operations
        operations.comm = counted = Counted(operations.comm)
        steps = parts._steps
        with mock.patch.object(sys.modules["morph.launch.lookup"], "accept"):  # not called again
            morph.bfs(parts, 1)
            assert not sys.modules["morph.launch.lookup"].accept.called
        steps = parts._steps - steps
        assert counted.count <= 4 * steps + 2, (counted.count, steps)
        operations.comm = counted.comm
        found = np.array(pagerank(parts))
        np.testing.assert_allclose(found, np.array(pagerank(g.copy())), rtol=1e-12)
        with morph.sections() as s:  # those on ranks run in the same order on all
            search = s.run(morph.bfs, parts, 1)
            components = s.run(morph.connected_components, morph.partition(g, comm=comm))
        assert np.array_equal(search.result().distance, morph.bfs(g, 1).distance)
        assert np.array_equal(components.result().label, morph.connected_components(g).label)
print("equal")
"""


@pytest.mark.mpi
def test_arrays_and_programs_on_ranks():
    """On 3 ranks, and on one at a time."""
    assert output_of_ranks(3, EXCHANGE + PROGRAMS) == ["equal"] * 3


@pytest.mark.mpi
def test_versions_and_graphs_that_differ_between_ranks_are_refused():
    code = """
from morph.partition import ranks
ranks.VERSION += comm.rank
try:
    ranks.Ranks(comm)
except ValueError as error:
    print(error)
ranks.VERSION -= comm.rank
g = morph.Graph.from_edges([0, 1], [1, comm.rank], n=3, device="cpu")
for devices in (None, ["cpu"]):
    try:
        morph.partition(g, devices, comm=comm)
    except ValueError as error:
        print(str(error).split(":")[0])
try:
    morph.partition(g if comm.rank else g.points, comm=comm)
except (TypeError, RuntimeError) as error:
    print(type(error).__name__, str(error)[:40])
"""
    differs = "the graph differs between rank 0 and rank 1"
    versions = f"differs between rank 0 and rank 1: {VERSION}, {VERSION + 1}"
    assert output_of_ranks(2, code) == [
        "PartError part 0 has failed: TypeError: partition ",
        "TypeError partition takes a Graph, not <Table 'poi",
        *[differs] * 2,
        *[f"the version of Morph's messages {versions}"] * 2,
        *["there are 2 ranks, but devices for 1"] * 2,
    ]


@pytest.mark.mpi
def test_an_error_of_one_part_is_raised_on_all_ranks():
    code = """
from morph.prelude import *

@morph.kernel
def read_ahead(p, x):
    p.x = x[p.id * 3]

g = morph.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], n=4, device="cpu")
parts = morph.partition(g, comm=comm)
parts.points.add("x", i64)
numbers = morph.Table("numbers", parts, x=i64)
numbers.extend(4)
try:
    with morph.checked():
        morph.foreach(parts.points, read_ahead, numbers.x)
except RuntimeError as error:
    print(comm.rank, type(error).__name__, "part 1" in str(error))
"""
    assert output_of_ranks(2, code) == ["0 PartError True", "1 CheckError False"]
