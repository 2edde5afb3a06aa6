"""Markers for missing hardware and packages, Hypothesis profiles, compiler options."""

import gc
import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import parsed_once
import precompiled
import pytest
import ranks
from hypothesis import HealthCheck, settings

import morph
from morph.launch import records
from morph.launch.checked import is_checked

# the first example pays for a compilation, so neither its time nor its slowness means anything
settings.register_profile(
    "here",
    deadline=None,
    max_examples=30,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# CI tries the same examples each time, so more of them find nothing new; see also `targets.tries`
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, max_examples=5)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def gpu_answers() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return bool(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def nvrtc_loads() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    from cupy.cuda import nvrtc

    try:
        return bool(nvrtc.getVersion())
    except RuntimeError:
        return False


def mpi_starts() -> bool:
    return importlib.util.find_spec("mpi4py") is not None and ranks.MPIEXEC is not None


# begun first, so that no worker is alone with one when the others have ended
LONG = re.compile(
    r"test_(golden|sm90|interrupts|dynamic|names|ranks|refine_deterministic|parts_algorithms"
    r"|parts_dynamic|sat|sat_solve|refine_parts|edge_map|refine_hard|dynamic_faults|deletion|warm"
    r"|benchmarks|records|checkpoint|community|graph_inputs)\.py"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs = {
        "gpu": (gpu_answers, "no GPU answers"),
        "nvrtc": (nvrtc_loads, "NVRTC is missing"),
        "mpi": (mpi_starts, "mpi4py or mpiexec is missing"),
    }
    for marker, (there, reason) in needs.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not there():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: not LONG.match(item.path.name))


gc.disable()  # collections of garbage are a third of the time in which tests are collected


def pytest_collection_finish() -> None:
    freeze()
    gc.enable()


def freeze() -> None:
    """Exclude all current objects from later garbage collections, by `gc.freeze`.

    Most are tests, modules and launches of kernels, which live until the end.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    if gc.get_count()[2] > 3:  # some 30,000 objects were made since the last time
        freeze()


# CI compiles with -O0, in half of the time, also in processes that tests start; but not for these
AS_USERS_DO = re.compile(
    r"test_(algorithms|toolchain|delaunay|powers|predicates|refine|sat|targets_numbers|triangulate)\.py"
)
COMPUTING = re.compile(  # with -O1
    r"test_(cli_sat|cliques|first_calls|decimation|fixpoints|sat_parts|sat_solve|surveys|triangulate_hard)\.py"
    r"|test_interrupts\.py::test_(triangulation|many_sources|a_long_foreach|a_launch_of_another_thread)"
    r"|test_refine_deterministic\.py::test_cavities"
    r"|test_examples\.py::test_gallery\[cpu-(complexity|sandpile)"
)
OPTIMIZE = os.environ.get("MORPH_OPTIMIZE")
COMPILER = os.environ.get("MORPH_CXX") or shutil.which("g++")
if os.environ.get("CI"):
    precompiled.install()
    parsed_once.install()
    # processes that tests start load NumPy in three quarters of the time without its threads
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# processes that tests start import the same modules
PATHS = [str(Path(precompiled.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)

records.enabled = False  # all that tests launch is compiled in their process


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    name = item.path.name
    as_users_do = AS_USERS_DO.match(name) and not is_checked()  # the results are the same
    full = as_users_do or item.get_closest_marker("gpu")
    # compiled once, nothing in the background
    os.environ["MORPH_OPTIMIZE"] = OPTIMIZE or ("full" if full else "quick")
    precompiled.as_users_do = bool(as_users_do) and name != "test_toolchain.py"  # it counts calls
    if os.environ.get("CI") and COMPILER:
        level = int(bool(COMPUTING.match(f"{name}::{item.name}")))
        quick = f"{shlex.quote(precompiled.WITH_LAST)} -O{level} "
        os.environ["MORPH_CXX"] = ("" if as_users_do else quick) + COMPILER


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """With MORPH_CHECK=1 all is checked but what a test says of the texts that are not."""
    if item.get_closest_marker("unchecked"):
        with morph.checked(False):
            return (yield)
    return (yield)


@pytest.fixture(params=["python", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def target(request: pytest.FixtureRequest) -> str:
    """Each device that kernels run on."""
    return str(request.param)
