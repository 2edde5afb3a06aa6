"""GPUs below sm_80: reductions over lanes by shuffles; GPUs that are too old."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import units

from morph.compiler.codegen.unit import prelude, source
from morph.runtime.cuda import device as gpus
from morph.runtime.cuda import driver
from morph.runtime.device import DeviceError
from morph.runtime.toolchain import cpu, cuda

HEADER = Path(__file__).parents[2] / "kernels" / "target_cuda.h"
MODERN = "__CUDA_ARCH__ < 800"

# each lane is a thread; a shuffle stores its value, waits for the lanes of the mask, and reads
LANES = r"""
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
typedef unsigned u32;
typedef int i32;
#define MORPH_FN static
constexpr u32 ALL_LANES = ~0u;
thread_local i32 lane;
u32 slots[32];
std::atomic<i32> arrived, phase;
void await_lanes(u32 lanes) {
    i32 was = phase;
    if (++arrived == __builtin_popcount(lanes)) arrived = 0, ++phase, phase.notify_all();
    else phase.wait(was);
}
u32 __shfl_sync(u32 lanes, u32 x, i32 from) {
    slots[lane] = x;
    await_lanes(lanes);
    u32 found = lanes >> from & 1 ? slots[from] : 0xdeadbeef;
    await_lanes(lanes);
    return found;
}
u32 __shfl_xor_sync(u32 lanes, u32 x, i32 by) { return __shfl_sync(lanes, x, lane ^ by); }
i32 __ffs(u32 x) { return __builtin_ffs(x); }
FUNCTIONS
int main() {
    u32 random = 12345, wrong = 0;
    for (u32 lanes : {ALL_LANES, 1u, 1u << 31, 0x80000001u, 0x0f0f00f0u, 0xfffffffeu}) {
        u32 x[32], sum = 0, any = 0;
        i32 most = -2147483647 - 1;
        for (i32 i = 0; i < 32; i++) {
            x[i] = random = random * 1664525 + 1013904223;
            if (lanes >> i & 1) {
                sum += x[i], any |= x[i] & 0x01010101;
                if (i32(x[i]) > most) most = x[i];
            }
        }
        std::atomic<u32> bad{0};
        std::vector<std::thread> threads;
        for (i32 i = 0; i < 32; i++)
            if (lanes >> i & 1) threads.emplace_back([&, i] {
                lane = i;
                bad += __reduce_add_sync(lanes, x[i]) != sum;
                bad += __reduce_or_sync(lanes, x[i] & 0x01010101) != any;
                bad += __reduce_max_sync(lanes, x[i]) != most;
            });
        for (auto& t : threads) t.join();
        wrong += bad;
    }
    printf("%u", wrong);
}
"""


def older(text: str) -> str:
    """The part of the header for GPUs below sm_80."""
    return text.partition(f"#if {MODERN}\n")[2].partition("#endif\n")[0]


def test_reductions_of_any_lanes(tmp_path):
    functions = older(HEADER.read_text())
    assert set(re.findall(r"__reduce_\w+", functions)) == set(
        re.findall(r"__reduce_\w+", HEADER.read_text())
    )
    file, binary = tmp_path / "lanes.cpp", tmp_path / "lanes"
    file.write_text(LANES.replace("FUNCTIONS", functions))
    command = [*cpu.compiler().command, "-std=c++20", "-w", "-pthread", file, "-o", binary]
    subprocess.run([os.fspath(x) for x in command], check=True)
    assert subprocess.run([binary], capture_output=True, timeout=60).stdout == b"0"


def test_newer_gpus_see_nothing_of_it():
    """What is left for sm_80 and later is the text of before, with the instructions."""
    text = HEADER.read_text()
    assert text.count("#if __CUDA_ARCH__") == 1
    rest = text.replace(f"#if {MODERN}\n{older(text)}#endif\n", "")
    assert rest.count("__reduce_") == 6 and "reduce_lanes" not in rest


@pytest.mark.nvrtc
def test_compiles_for_turing():
    """A unit that adds up over lanes of any set, and one that allocates."""
    pytest.importorskip("cupy")
    for unit in (units.claim(), units.worklist()):
        assert cuda.build(prelude() + source(unit), "sm_75")[:4] == b"\x7fELF"


@pytest.mark.parametrize("capability", ["61", "70", "75", "90", "120"])
def test_old_gpus_are_refused_when_they_are_opened(capability, monkeypatch):
    properties = {"name": b"Tesla X"}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda index: properties
    )
    device = SimpleNamespace(compute_capability=capability)
    made = SimpleNamespace(runtime=runtime, Device=lambda index: device, compiler=None)
    made = SimpleNamespace(cuda=made)
    monkeypatch.setattr(gpus, "import_cupy", lambda: made)
    monkeypatch.setattr(driver, "load", lambda: SimpleNamespace(cuInit=lambda flags: 1))
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: True)
    if int(capability) >= 75:
        assert gpus.find(0).name == "cuda:0"
        return
    with pytest.raises(DeviceError) as caught:
        gpus.find(0)
    has = f"{capability[0]}.{capability[1]}"
    assert str(caught.value) == (
        f"cuda:0 is a Tesla X of compute capability {has}: Morph needs 7.5 (Turing) or later"
    )


def test_the_error_of_an_old_driver_names_the_other_extra(monkeypatch):
    def count():
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    made = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count)))
    monkeypatch.setattr(gpus, "import_cupy", lambda: made)
    monkeypatch.setattr(driver, "load", lambda: SimpleNamespace(cuInit=lambda flags: 1))
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: True)
    with pytest.raises(DeviceError, match=r"needs 'morph-engine\[gpu12\]'$"):
        gpus.find(0)


def test_cupy_is_not_imported_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(driver.ctypes, "CDLL", missing)
    monkeypatch.setattr(gpus, "import_cupy", None)
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: True)
    with pytest.raises(DeviceError, match="does not answer: no NVIDIA driver is installed"):
        gpus.find(0)
