"""Prints the units that public functions launch with default options, and a wheel does not have.

First line: the numbers of texts and of records that a wheel has for GPUs alone.  Makes the calls of
public functions on a CPU and on a device that stands for a GPU, then those of `morph warm`, until
they have made the texts of all units.  Nothing is compiled: launches are interpreted, as by
`recorder`.
A process of its own: launches cannot be interpreted and then compiled in one process.
"""

import gc
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import parsed_once  # noqa: E402
from launch import tour  # noqa: E402
from pretend import Pretended, There, pretended  # noqa: E402
from recorder import Recorder  # noqa: E402

import morph  # noqa: E402
from morph.cli import warm  # noqa: E402
from morph.compiler.codegen.prelude import prelude  # noqa: E402
from morph.language.bundles import flat, is_bundle  # noqa: E402
from morph.launch import binding, common_units, compiled, records  # noqa: E402
from morph.launch.compiled import Compiled  # noqa: E402
from morph.launch.prepared import Prepared  # noqa: E402
from morph.runtime.cuda.device import CudaDevice  # noqa: E402
from morph.runtime.interpreter.memory import BoundStore, Memory  # noqa: E402
from morph.runtime.toolchain import cpu, shipped  # noqa: E402

OF_USERS = {"morph_mark"}  # has a function of the caller of `compact`
SLOW = "community", "refine"  # in `morph warm`; their calls find little, and are made last
# calls of `morph warm`, without builders, that find units besides the first one of each algorithm:
# they are made early, as four of five calls find none
EARLY = {
    "betweenness": {8}, "colouring": {4}, "dynamic": {4, 7}, "edge-betweenness": {8},
    "independent": {4}, "johnson": {8, 24}, "matching": {6}, "mst": {4}, "pagerank": {6},
    "path": {2}, "strong": {2},
}  # fmt: skip


def changes(kind: Any, dtype: Any, both: bool, device: Any) -> None:
    """Single changes of edges, before and after a deletion, and batches of several."""
    weight = None if dtype is None else np.ones(40, dtype)
    ends = np.arange(40) // 4, np.arange(40) % 39 + 1  # a tree
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
    mesh = morph.triangulate(np.random.default_rng(0).random((30, 2)), device=device)
    graphs = product((None, np.int64), (True, False))
    return [
        *(partial(changes, morph.DynamicSSSP, *kind, device) for kind in graphs),
        partial(morph.survey.backtrack, formula, max_rounds=2, max_sweeps=5, device=device),
        partial(warm.rolled_back, device),
        partial(morph.survey.believe, formula, max_rounds=2, sweeps=5, device=device),
        partial(morph.survey.reinforce, formula, max_sweeps=2, device=device),
        partial(morph.argmax, numbers.x), partial(morph.argmin, numbers.x),
        partial(morph.refine_with_report, mesh, 25),
        partial(morph.generate.rmat, 6, weight=(1, 9), device=device),
        partial(morph.generate.grid, 5, 5, weight=(1, 9), device=device),
        partial(morph.generate.uniform, 30, 110, weight=(1, 9), device=device),
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


class Texts(Recorder):
    """The names and texts of the units that are launched, in place of their hashes."""

    def __init__(self) -> None:
        super().__init__()
        self.built: dict[str, str] = {}  # names by texts

    def compiled(self, made: Compiled) -> None:
        """Record a unit that is launched, unless the text of its program has it."""
        if not self.inside:
            self.build(prelude(*made.outline.prelude) + made.text, name=made.name)

    def build(self, text: str, *, name: str = "", **_: Any) -> Path:
        """Record a text in place of its compilation."""
        self.built[text] = name
        return Path()

    def install(self) -> None:
        """Replace launches, also of prepared programs and on a simulated GPU."""
        super().install()
        cpu.build = self.build
        recorder, of, bind, wider = self, Prepared.of, BoundStore.bind, Compiled.wider
        binding.MAX_UNITS = sys.maxsize  # units are not compiled again
        parsed_once.install(sys.maxsize)
        printed, print_unit = dict[int, tuple[Any, str]](), compiled.print_unit

        def print_once(unit: Any) -> str:
            if id(unit) not in printed:
                printed[id(unit)] = unit, print_unit(unit)
            return printed[id(unit)][1]

        compiled.print_unit = print_once

        def made_wider(self: Compiled) -> Compiled:
            recorder.compiled(found := wider(self))
            return found

        def made(program: Any, *args: Any) -> Prepared | None:
            if (found := of(program, *args)) is not None:
                recorder.compiled(found.launch.compiled)
                found.launch.called = program, args
            return found

        def run(
            self: Prepared, numbers: Any, then: Any = None, work: Any = None, args: Any = ()
        ) -> Any:  # fmt: skip
            self.write(*numbers)
            result = [recorder.result(x) for x in (self, then) if x is not None][-1]
            if self._status is None:
                self._touch(then)
            return result, None if work is None else work(*args)

        def bind_store(self: BoundStore, *args: Any) -> None:
            bind(self, *args)
            for name in ("meta", "dead", "free"):
                setattr(self, name, on_host(getattr(self, name, None)))
            self.columns = {name: on_host(x) for name, x in self.columns.items()}

        def bind_memory(self: Memory, *args: Any, bind: Any = Memory.bind) -> None:
            bind(self, *args)
            self.status = on_host(self.status)
            for key, arrays in self.adjacency.items():
                self.adjacency[key] = tuple(map(on_host, arrays))

        Compiled.wider = made_wider
        Prepared.of, Prepared.run = staticmethod(made), run
        BoundStore.bind, Memory.bind = bind_store, bind_memory

    def result(self, prepared: Prepared) -> Any:
        """Run a prepared program kernel by kernel, with the numbers of its argument block."""
        launch = prepared.launch
        (program, args), made = launch.called, launch.compiled
        given = list(flat(args))
        numbers = made.scalars.unpack_from(launch.buffer, made.first_scalar)
        for place, number in zip(made.scalar_origins, numbers, strict=True):
            given[place] = type(given[place])(number)
        self.inside += 1
        try:
            return program.__wrapped__(*bundled(args, iter(given)))
        finally:
            self.inside -= 1


def on_host(x: Any) -> Any:
    """Return an array of the simulated GPU as NumPy's, which the interpreter takes."""
    return x.view(np.ndarray) if type(x) is There else x


def bundled(args: Any, given: Iterator[Any]) -> list[Any]:
    """The reverse of `flat`, for arguments like ``args``."""
    return [type(a)(*bundled(a, given)) if is_bundle(type(a)) else next(given) for a in args]


def make_small() -> None:
    """Let calls have small inputs, for what is interpreted."""
    formula, points = morph.generate.random_ksat, warm._points
    morph.generate.random_ksat = lambda k, n, ratio, **seed: formula(k, 12, ratio, **seed)
    warm._points = lambda: points()[:40]


def is_build(call: Any) -> bool:
    """Whether a call of `morph warm` compiles a single unit."""
    return getattr(call, "func", None) is common_units._build_now


def in_turn(calls: Iterable[list[Any]]) -> Iterator[Any]:
    """The first calls of all algorithms, then the second ones, which find little, and so on."""
    return filter(None, chain.from_iterable(zip_longest(*calls)))


def is_early(name: str, k: int) -> bool:
    """Whether a call of an algorithm is made before most others."""
    return k == 0 or k in EARLY.get(name, ())


def find(wanted: dict[str, str], texts: Texts) -> None:
    """Make calls of `morph warm` until only units of users are wanted; remove what is found."""
    calls = {name: list(made("cpu")) for name, made in warm.CALLS.items()}
    builds = [c for c in chain(*calls.values()) if is_build(c)]
    others = {name: [c for c in made if not is_build(c)] for name, made in calls.items()}
    slow = [others.pop(name) for name in SLOW]
    early = [c for n, made in others.items() for k, c in enumerate(made) if is_early(n, k)]
    quick = [[c for k, c in enumerate(made) if not is_early(n, k)] for n, made in others.items()]
    for call in chain(builds, early, in_turn(quick), in_turn(slow)):
        if set(wanted.values()) <= OF_USERS:
            return
        records.enabled = is_build(call)  # descriptions are compiled only with records
        if is_build(call) and f"morph_{call.args[0].function.__name__}" not in wanted.values():
            continue
        texts.built.clear()
        call()
        for text in texts.built:
            wanted.pop(text, None)


def main() -> None:
    texts = Texts()
    texts.install()
    make_small()
    launched: dict[str, dict[str, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pretended, "host_array_limit", CudaDevice.host_array_limit)
        for device in ("cpu", pretended(patch)):
            texts.built = launched[morph.device(device).name] = {}
            for call in (*tour(device, 30), *more(device)):
                call()
    texts.built = {}
    records.enabled = True
    warm.TYPES = None, np.int64  # the others are compiled in the same way
    known = set(texts_for_gpus())
    wanted = {t: name for found in launched.values() for t, name in found.items() if t not in known}
    find(wanted, texts)
    for device, found in launched.items():
        print(device, *sorted({name for text, name in found.items() if text in wanted}))


if __name__ == "__main__":
    gc.disable()  # units are kept, and collections would take a quarter of the time
    main()
    sys.stdout.flush()
    os._exit(0)  # the end of Python would take as long as the calls on a device
