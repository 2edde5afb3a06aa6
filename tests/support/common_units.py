"""Records morph/launch/common_units.json: the units that common public calls launch.

On the CPU and, by a device that stands for it, on a GPU.
Run `python tests/support/common_units.py` after a change of the kernels or tables of these calls.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pretend import Pretended, pretended

import morph
from morph.algorithms.community.community import MAX_FEW
from morph.algorithms.refinement import parts
from morph.algorithms.triangulation import delaunay, kept, triangulate
from morph.launch import ahead, binding, common_units, records
from morph.launch.binding import Description
from morph.runtime.cuda.device import CudaDevice
from morph.testing import team


def _graph(dtype: Any, both: bool, device: Any) -> morph.Graph:
    """A graph with dense steps of a search."""
    made = morph.generate.rmat(12, 12, device="cpu")
    ends, m = (made.edges.src[:], made.edges.dst[:]), len(made.edges)
    weight = None if dtype is None else np.random.default_rng(1).integers(1, 99, m).astype(dtype)
    return morph.Graph.from_edges(*ends, weight, n=1 << 12, symmetrize=both, device=device)


def _refine(device: Any, **limits: float) -> None:
    points = np.random.default_rng(0).random((200, 2))
    mesh = morph.Mesh.trusted(**vars(morph.triangulate(points, device="cpu")))
    records_of.clear()  # only those of the refinement
    morph.refine(mesh, 25, device=device, **limits)


def _refine_parts(device: Any) -> None:
    """With so many triangles that the units are those of large meshes."""
    points = np.random.default_rng(0).random((6000, 2))
    mesh = morph.Mesh.trusted(**vars(morph.triangulate(points, device="cpu")))
    records_of.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LEAST", 1000)
        morph.refine(mesh, 25, device=[device, device])


def _solve(n: int, ratio: float, device: Any) -> None:
    morph.survey.solve(morph.generate.random_ksat(3, n, ratio), device=device, time=20)


def _community(device: Any) -> None:
    made = _graph(None, True, device)
    small = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 3], symmetrize=True, device=device)
    morph.max_k_plex(made, 2)
    for g in made, small:  # small graphs have sets of one word
        for query in (0, [0, 1], [0, 1] * MAX_FEW):
            morph.community(g, query, (3, 6))


def _others(device: Any) -> None:
    """Other methods than those of `solve`, whose sweeps differ between devices."""
    formula, survey = morph.generate.random_ksat(3, 300, 4.0), morph.survey
    for find in (survey.surveys, survey.beliefs, survey.reinforce):
        find(formula, max_sweeps=2, device=device)
    for find in (survey.backtrack, survey.believe):
        find(formula, max_rounds=2, device=device)


def _triangulate(device: Any) -> None:
    """So many that they are sorted."""
    with team(2):
        morph.triangulate(np.random.default_rng(0).random((delaunay.FEW + 44, 2)), device=device)


def _polygon(device: Any) -> None:
    """With segments, as if few or several cores were free: a busy machine launches other units."""
    rows = np.arange(delaunay.FEW + 44)
    circle = np.exp(2j * np.pi * rows / len(rows)).view(float).reshape(-1, 2)
    rim = np.stack([rows, np.roll(rows, -1)], axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delaunay, "available_threads", lambda: 2)
        for threads in (triangulate.FEW_THREADS, triangulate.FEW_THREADS + 1):
            patch.setattr(triangulate, "available_threads", lambda threads=threads: threads)
            morph.triangulate(circle, rim, device=device)


def _change(kind: Any, dtype: Any, both: bool, device: Any) -> None:
    """A first change; on a GPU, whose compiler takes seconds, also another one of the same edge."""
    answer = kind(_graph(dtype, both, device))
    answer.apply((1, 2) if dtype is None else (1, 2, 3))
    if device != "cpu":
        answer.apply(deletes=(1, 2))


def _generate(device: Any) -> None:
    """On a GPU edges are drawn by kernels."""
    morph.generate.rmat(6, weight=(1, 9), device=device)
    morph.generate.uniform(30, 110, weight=(1, 9), device=device)


CALLS: dict[str, Callable[[Any], object]] = {
    "generate": _generate,
    "refine": lambda on: _refine(on, max_area=0.01),
    "refine segments first": _refine,
    "refine parts": _refine_parts,
    "triangulate": _triangulate,
    "triangulate polygon": _polygon,
    "solve": lambda on: _solve(300, 4.0, on),
    "solve regular": lambda on: _solve(10000, 4.2, on),
    "solve others": _others,
    "community": _community,
    "bfs": lambda on: [morph.bfs(_graph(None, both, on)) for both in (True, False)],
    **{
        f"sssp {t}" + " predecessors" * found: lambda on, t=t, found=found: [
            morph.sssp(_graph(t, both, on), predecessors=found) for both in (True, False)
        ]
        for t in ("int32", "int64", "float64")
        for found in (False, True)
    },
    **{
        f"DynamicSSSP {t}": lambda on, t=t: [
            _change(morph.DynamicSSSP, t, both, on) for both in (True, False)
        ]
        for t in (None, "int64", "float64")
    },
    "DynamicBFS": lambda on: [_change(morph.DynamicBFS, None, both, on) for both in (True, False)],
    "DynamicComponents": lambda on: _change(morph.DynamicComponents, None, True, on),
    **{
        kind: lambda on, kind=kind: [
            _change(getattr(morph, kind), None, both, on) for both in (True, False)
        ]
        for kind in ("DynamicCores", "DynamicPageRank")
    },
}
records_of: list[tuple[int, Description]] = []


def recorded() -> dict[str, Any]:
    """Make the calls, and return the contents of the file."""
    old, made = binding._compiled_now, dict[str, list[Description]]()
    functions: list[Any] = []

    def compiled_now(description: Description, slots: Any, recorder: Any) -> Any:
        found = old(description, slots, recorder)
        functions.append(description.function)
        if recorder is not None and found.recorder is not None:
            records_of.append((-len(found.text), description))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "_compiled_now", compiled_now)
        patch.setattr(Pretended, "host_array_limit", CudaDevice.host_array_limit)
        for device in ("cpu", pretended(patch)):
            for name, call in CALLS.items():
                records_of.clear(), binding._compiled.clear()
                kept._kept.clear()  # as in a first call
                for function in functions:
                    function.units.clear()
                call(device)
                made.setdefault(name, [])
                if not name.startswith("Dynamic"):  # it launches some only after the call
                    records_of.sort(key=lambda x: x[0])
                made[name] += [d for _, d in records_of]
    return common_units.encoded(made)


if __name__ == "__main__":
    records.enabled = True
    # nothing is compiled ahead
    ahead._begun.update((name, on) for name in CALLS for on in ("cpu", "cuda:7"))
    records.UnitRecorder.find = lambda self: None  # type: ignore[method-assign]
    text = json.dumps(recorded())
    common_units.FILE.write_text(text.replace('{"what"', '\n{"what"') + "\n")
    sys.exit(0)
