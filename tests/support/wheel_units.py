"""Prints the units that public functions launch with default options, and a wheel does not have.

First line: the numbers of texts and of records that a wheel has for GPUs alone.  Makes the calls of
`morph warm`, then those of public functions on a CPU and on a device that stands for a GPU.
A process of its own: one that has launched a unit before does not build it again.
"""

import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import precompiled  # noqa: E402
from launch import tour  # noqa: E402
from pretend import Pretended, pretended  # noqa: E402

import morph  # noqa: E402
from morph.cli import warm  # noqa: E402
from morph.launch import common_units, records  # noqa: E402
from morph.runtime.cuda.device import CudaDevice  # noqa: E402
from morph.runtime.toolchain import cpu, shipped  # noqa: E402


def changes(kind: Any, dtype: Any, both: bool, device: Any) -> None:
    """Single changes of edges, before and after a deletion, and batches of several."""
    weight = None if dtype is None else np.ones(40, dtype)
    ends = np.arange(40), np.arange(40) % 39 + 1
    answer = kind(morph.Graph.from_edges(*ends, weight, n=41, symmetrize=both, device=device))
    one = [] if dtype is None else [3]
    for k in range(3):
        answer.apply((k, k + 20, *one))
    for k in range(2):
        answer.apply(([k, k + 1], [k + 25, k + 26], *([w, w] for w in one)), ([k], [k + 20]))
    for k in range(3):
        answer.apply((k, k + 30, *one))
        answer.apply(deletes=(k, k + 30))


def more(device: Any) -> list[Any]:
    """Calls of the public functions that the tour leaves out."""
    formula = morph.generate.random_ksat(3, 300, 4.0)
    numbers = morph.Table("numbers", device, x=morph.prelude.f64)
    numbers.extend(x=np.arange(9.0))
    mesh = morph.triangulate(np.random.default_rng(0).random((200, 2)), device=device)
    graphs = product((None, np.int64), (True, False))
    return [
        *(partial(changes, morph.DynamicSSSP, *kind, device) for kind in graphs),
        partial(morph.survey.backtrack, formula, max_rounds=2, device=device),
        partial(morph.survey.believe, formula, max_rounds=2, device=device),
        partial(morph.survey.reinforce, formula, max_sweeps=2, device=device),
        partial(morph.argmax, numbers.x), partial(morph.argmin, numbers.x),
        partial(morph.refine_with_report, mesh, 25),
    ]  # fmt: skip


def texts_for_gpus() -> list[str]:
    """Return the texts of units that only GPUs launch, and print the number of their records."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(shipped.COLLECT, folder)
        texts = list(common_units.texts_for_gpus(morph.device("cpu")))
        print(len(texts), len(list(Path(folder).glob("unit-*.json"))))
    for text in texts:  # with the prelude
        assert text.index("MORPH_FN") < text.index("struct Args") < text.index("struct Run :")
    return texts


def main() -> None:
    precompiled.follow()
    records.enabled = True  # descriptions of common units are compiled only with records
    built: list[tuple[str, str]] = []

    launches = True

    def build(text: str, *, name: str = "", old: Any = cpu.build, **options: Any) -> Path:
        built.append((name, text))
        return old(text, name=name, **options) if launches else Path()

    cpu.build = build
    warm.TYPES = None, np.int64  # the others are compiled in the same way
    for calls in warm.CALLS.values():
        for call in calls("cpu"):
            launches = getattr(call, "func", None) is not common_units._build_now
            call()
    launches = True
    known = {text for _, text in built} | set(texts_for_gpus())
    records.enabled = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pretended, "host_array_limit", CudaDevice.host_array_limit)
        for device in ("cpu", pretended(patch)):
            built.clear()
            for call in (*tour(device), *more(device)):
                call()
            missing = {name for name, text in built if text not in known}
            print(morph.device(device).name, *sorted(missing))


if __name__ == "__main__":
    main()
