"""Ranks with a GPU each: arrays are sent by NCCL or by MPI; results are those of one device."""

from types import SimpleNamespace

import pytest
from ranks import output_of_ranks

from morph import device
from morph.runtime import device as devices
from morph.runtime.cuda import nccl

COUNTED = """
from morph.partition import ranks
from morph.runtime.cuda import nccl

count = 0

def counted(method):
    def call(*args):
        global count
        count += 1
        return method(*args)

    return call

nccl.Nccl.exchange, nccl.Nccl.move = counted(nccl.Nccl.exchange), counted(nccl.Nccl.move)
"""
# arrays on the host, which NumPy refuses beside others, and an NCCL that sends by MPI
PRETENDED = """
import ctypes
from types import SimpleNamespace
import pytest
from pretend import Pretended, pretended

patch, pending, lacks = pytest.MonkeyPatch(), [], ""
devices = [Pretended(k) for k in range(comm.size)]
devices[comm.rank] = gpu = pretended(patch, comm.rank)

class Communicator:
    def __init__(self, size, name, rank):
        if lacks == "a connection" and rank == 1:
            raise RuntimeError
        assert (size, name, rank) == (comm.size, "a name", comm.rank)

    def send(self, at, size, kind, to, stream):
        pending.append(comm.Isend((ctypes.c_uint8 * size).from_address(at), to, 7))

    def recv(self, at, size, kind, of, stream):
        pending.append(comm.Irecv((ctypes.c_uint8 * size).from_address(at), of, 7))

    def rank_id(self):
        return comm.rank

    def destroy(self):
        comm.Barrier()

def end_group():
    MPI.Request.Waitall(pending)
    pending.clear()

fake = SimpleNamespace(
    available=True, NCCL_UINT8=1, get_unique_id=lambda: "a name", NcclCommunicator=Communicator,
    groupStart=lambda: None, groupEnd=end_group,
)
cuda = SimpleNamespace(
    get_current_stream=lambda: SimpleNamespace(ptr=0),
    runtime=SimpleNamespace(deviceGetPCIBusId=lambda k: "" if lacks == "a GPU" else str(k)),
)
patch.setattr(nccl, "_nccl", lambda: fake)
patch.setattr(nccl, "import_cupy", lambda: SimpleNamespace(cuda=cuda))
patch.setattr(nccl, "device_of", lambda x: gpu)
"""
ALGORITHMS = """
def host(a):
    return a.get() if hasattr(a, "get") else np.asarray(a)

rng = np.random.default_rng(3)
ends, weight = rng.integers(0, 60, (2, 200)), rng.integers(1, 9, 200)
for directed in (True, False):
    g = morph.Graph.from_edges(*ends, weight=weight, n=60, directed=directed, device="cpu")
    parts = morph.partition(g, devices, by=rng.integers(0, comm.size, 60), comm=comm)
    parts.points.add("x", morph.prelude.i64)
    runs = (  # in turn of both kinds of graphs
        lambda g: morph.bfs(g, 0).distance, lambda g: morph.sssp(g, 0).distance,
        lambda g: morph.connected_components(g).label, lambda g: morph.core_number(g).core,
        lambda g: morph.triangle_count(g).triangles, lambda g: morph.mst(g).weight,
        lambda g: morph.pagerank(g).rank, lambda g: morph.betweenness(g, [0, 7]).centrality,
    )
    for k, run in list(enumerate(runs))[directed::2]:
        np.testing.assert_allclose(host(run(parts)), host(run(g)), rtol=1e-9, err_msg=str(k))
"""


FALLBACKS = """
for lacks in ("NCCL", "a GPU", "a connection"):
    fake.available = lacks != "NCCL" or comm.rank == 0
    assert nccl.connect(comm, gpu) is None, lacks
patch.setattr(ranks, "connect", lambda comm, gpu: None)
assert parts.transport._operations._nccl.popitem()[1] is not None
before = count
assert np.array_equal(morph.bfs(parts, 0).distance, morph.bfs(g, 0).distance)
assert count == before
"""


@pytest.mark.mpi
def test_pretended_gpus():
    code = COUNTED + PRETENDED + ALGORITHMS + FALLBACKS + "print(count > 0)"
    assert output_of_ranks(2, code) == ["True"] * 2


@pytest.mark.mpi
@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 2])
def test_gpus(size):
    if size > device("cuda").xp.cuda.runtime.getDeviceCount():
        pytest.skip(f"there are not {size} GPUs")
    if not nccl._nccl().available:
        pytest.skip("CuPy finds no NCCL, so arrays go by MPI")
    code = 'devices = [f"cuda:{k}" for k in range(comm.size)]\n' + COUNTED + ALGORITHMS
    assert output_of_ranks(size, code + "print(count > 0)") == ["True"] * size


@pytest.mark.mpi
@pytest.mark.gpu
def test_ranks_that_share_a_gpu():
    code = 'devices = "cuda:0"\n' + COUNTED + ALGORITHMS
    assert output_of_ranks(2, code + "print(count)") == ["0"] * 2


def test_the_gpu_of_arrays_is_not_the_current_one(monkeypatch):
    """CuPy's `asarray` would copy them to the current GPU, which is the first."""
    monkeypatch.setattr(devices, "device", lambda name: name)
    array = SimpleNamespace(__cuda_array_interface__={}, get=None, device=SimpleNamespace(id=2))
    assert nccl.gpu_of([[], [array]]) == "cuda:2"


@pytest.mark.parametrize("lacks", ["its place", "a name", "a connection"])
def test_what_nccl_lacks_is_a_warning(lacks, monkeypatch):
    def refuse(what, answer):
        def call(*_):
            if lacks == what:
                raise OSError(f"no {what}")
            return answer

        return call

    runtime = SimpleNamespace(deviceGetPCIBusId=refuse("its place", "0000:01:00.0"))
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    fake = SimpleNamespace(
        available=True, get_unique_id=refuse("a name", b"name"),
        NcclCommunicator=refuse("a connection", None),
    )  # fmt: skip
    monkeypatch.setattr(nccl, "import_cupy", lambda: cupy)
    monkeypatch.setattr(nccl, "_nccl", lambda: fake)
    comm = SimpleNamespace(rank=0, size=1, allgather=lambda x: [x])
    with pytest.warns(RuntimeWarning, match=f"rank 0: OSError: no {lacks}"):
        assert nccl.connect(comm, device("cpu")) is None
