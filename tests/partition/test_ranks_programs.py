"""Programs on MPI ranks: launches that leave at crossings give the results of one device."""

import pytest
from ranks import output_of_ranks

HEAD = """
from unittest import mock
import pytest
from test_parts_crossings import batched
from test_parts_kernels import numbered
from test_parts_programs import *
from test_parts_together import OTHERS, forever
from morph.data.collection import Collection
from morph.compiler.ir.layout import Status
from morph.launch import launcher
from morph.launch.scratch import scratch
from morph.partition.launches import LaunchOfOnePart
from morph.partition.program_on_ranks import ProgramOnRanks
from morph.partition.transport import PartError

executed, by_steps, execute = [], set(), ProgramOnRanks._execute

def counted(self, behind):
    executed.append(self)
    return execute(self, behind)

ProgramOnRanks._execute = counted
here = morph.device("cpu")

def check(program, g, by):
    before = len(executed)
    found = values(program(morph.partition(g, by=by, comm=comm)))
    if len(executed) == before:
        by_steps.add(program.__name__)
    for a, b in zip(found, values(program(g.copy())), strict=True):
        assert np.array_equal(a, b), (program, by)
"""
ALL = """
rng = np.random.default_rng(7)
for threads, faults in (1, False), (3, True):  # teams meet over few items, and lists overflow
    morph.set_num_threads(threads)
    launcher.faults = faults
    for k, program in enumerate([*PROGRAMS, *OTHERS]):
        for directed in (False, True):
            ends, weight = rng.integers(0, 40, (2, 120)), rng.integers(1, 9, 120)
            g = morph.Graph.from_edges(*ends, weight=weight, n=40, directed=directed, device="cpu")
            if faults:  # an allocation fails on one rank
                scratch(here).status[Status.INJECT] = 3 if comm.rank == k % comm.size else 0
            check(program, g, "degree" if directed else rng.integers(0, comm.size, 40))
    if not faults:
        check(PROGRAMS[0], rmat(), "degree")
assert by_steps == {"edges", "reductions"}, by_steps
check(numbered, rmat(), "degree")
print("equal")
"""


@pytest.mark.mpi
@pytest.mark.parametrize("size", [2, 4])
def test_programs_leave_and_resume(size):
    assert output_of_ranks(size, HEAD + ALL) == ["equal"] * size


LISTS = """
made = Collection.__init__

def small(self, *args, **columns):
    made(self, *args, **(columns | {"capacity": 1}))

with mock.patch.object(Collection, "__init__", small):
    for directed in (False, True):
        check(OTHERS[0], small_graph(directed), "range")
        check(PROGRAMS[1], small_graph(directed), "range")
n = 300  # all messages go from the last rank to the first
g = morph.Graph.from_edges(np.arange(200, n), np.arange(100), n=n, directed=True)
parts = morph.partition(g, comm=comm)
for name, fill in (("dist", FAR), ("count", 0)):
    parts.points.add(name, i32, fill=fill)
rounds_of_offers(parts, 2)
assert not by_steps
assert np.array_equal(parts.points.dist[:100], np.arange(200, n))
assert (parts.points.count[:100] == 1).all() and (parts.points.count[100:] == 0).all()
print("equal")
"""


@pytest.mark.mpi
def test_lists_and_inboxes_grow():
    assert output_of_ranks(3, HEAD + LISTS) == ["equal"] * 3


ERRORS = """
def refuse(store, *args):
    raise MemoryError("a test wants it")

run, wanted = batched(morph.partition(small_graph(), comm=comm)), batched(small_graph())()
with mock.patch.object(Collection, "grow", refuse if comm.rank == 1 else Collection.grow):
    with pytest.raises(MemoryError if comm.rank == 1 else PartError, match="a test wants it"):
        run()
assert run() == wanted and run() == wanted

g = morph.partition(small_graph(), comm=comm)
s = morph.Scalars(g, n=0)

start, left = LaunchOfOnePart.start, [7]

def interrupted(self):
    left[0] -= 1
    if not left[0]:
        raise KeyboardInterrupt
    start(self)

with mock.patch.object(LaunchOfOnePart, "start", interrupted if comm.rank == 1 else start):
    with pytest.raises(KeyboardInterrupt if comm.rank == 1 else PartError, match="Keyboard|^$"):
        forever(g, s)
assert run() == wanted

@morph.program
def link_all(g):
    morph.foreach(g.points, link)

h = morph.partition(morph.Graph.from_edges([0, 0], [1, 2], n=3, device="cpu"), comm=comm)
h.points.add("value", i64)
h.points.add("link", morph.Ref("points"))
with pytest.raises(ValueError if comm.rank == 1 else PartError, match="uses point 2, of which it"):
    link_all(h)
print("raised")
"""


@pytest.mark.mpi
def test_an_error_on_one_rank_is_raised_on_all():
    assert output_of_ranks(3, HEAD + ERRORS) == ["raised"] * 3
