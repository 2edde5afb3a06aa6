"""Records morph/launch/common_units.json: the units that common public calls launch.

Run `python tests/common_units.py` after a change of the kernels or tables of these calls.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import morph
from morph.launch import ahead, binding, common_units, records
from morph.launch.binding import Description


def _graph(dtype: Any, both: bool) -> morph.Graph:
    """A graph with dense steps of a search."""
    made = morph.generate.rmat(12, 12, device="cpu")
    ends, m = (made.edges.src[:], made.edges.dst[:]), len(made.edges)
    weight = None if dtype is None else np.random.default_rng(1).integers(1, 99, m).astype(dtype)
    return morph.Graph.from_edges(*ends, weight, n=1 << 12, symmetrize=both, device="cpu")


def _refine() -> None:
    points = np.random.default_rng(0).random((200, 2))
    mesh = morph.Mesh.trusted(**vars(morph.triangulate(points, device="cpu")))
    records_of.clear()  # only those of the refinement
    morph.refine(mesh, 25, device="cpu")


def _solve(n: int, ratio: float) -> None:
    morph.survey.solve(morph.generate.random_ksat(3, n, ratio), device="cpu", time=20)


def _triangulate() -> None:
    morph.triangulate(np.random.default_rng(0).random((200, 2)), device="cpu")


CALLS: dict[str, Callable[[], object]] = {
    "refine": _refine,
    "triangulate": _triangulate,
    "solve": lambda: _solve(300, 4.0),
    "solve regular": lambda: _solve(5000, 4.2),
    "bfs": lambda: [morph.bfs(_graph(None, both)) for both in (True, False)],
    **{
        f"sssp {t}": lambda t=t: [morph.sssp(_graph(t, both)) for both in (True, False)]
        for t in ("int32", "int64", "float64")
    },
}
records_of: list[tuple[int, Description]] = []


def recorded() -> dict[str, Any]:
    """Make the calls, and return the contents of the file."""
    old, made = binding._compiled_now, {}

    def compiled_now(description: Description, slots: Any, recorder: Any) -> Any:
        found = old(description, slots, recorder)
        if recorder is not None and found.recorder is not None and not description.statics:
            records_of.append((-len(found.text), description))
        return found

    binding._compiled_now = compiled_now
    try:
        for name, call in CALLS.items():
            records_of.clear(), binding._compiled.clear()
            call()
            made[name] = [d for _, d in sorted(records_of, key=lambda x: x[0])]
    finally:
        binding._compiled_now = old
    return common_units.encoded(made)


if __name__ == "__main__":
    records.enabled = True
    ahead._begun.update((name, "cpu") for name in CALLS)  # nothing is compiled ahead
    records.UnitRecorder.find = lambda self: None  # type: ignore[method-assign]
    text = json.dumps(recorded())
    common_units.FILE.write_text(text.replace('{"what"', '\n{"what"') + "\n")
    sys.exit(0)
