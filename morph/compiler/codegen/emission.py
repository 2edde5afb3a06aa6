"""State shared by all parts of a unit's text: the plan, names, lines, and printing of bodies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from morph.compiler.codegen.checked import Checked
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.plan import BodyPlan, Plan, StepPlan
from morph.language.types import Local, Object, Shared, Type

# Declares the struct whose members are the fields of swapped collections, for an item or thread.
PERMUTATION = "    const Permutation& permutation = a.permutations[{}.permutation];"


def boolean(x: object) -> str:
    """A truth value as a literal."""
    return "true" if x else "false"


def values(f: ir.Func) -> list[tuple[str, Type]]:
    """The parameters of a function that are not objects."""
    return [(n, t) for n, t in f.params if not isinstance(t, Object)]


class Emission:
    """The emission of one unit."""

    def __init__(self, plan: Plan, prelude: str) -> None:
        self.plan, self.unit = plan, plan.unit
        self.parts = abi.parts_of(plan.unit)
        self.names = Names(plan, prelude)
        self.lines: list[str] = []

    def put(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def with_permutation(self, lines: list[str], of: str, stores: Collection[str]) -> list[str]:
        """Prefix lines with the current permutation if they name a swapped store."""
        uses = lines and not self.plan.swapped.isdisjoint(stores)
        return [PERMUTATION.format(of), *lines] if uses else lines

    def member(
        self, head: str, body: list[str], of: str = "", stores: Collection[str] = ()
    ) -> list[str]:
        """A member function of a struct; for ``of`` and ``stores`` see `with_permutation`."""
        lines = self.with_permutation([f"    {x}" for x in body], of, stores)
        return [f"    {head} {{", *(f"    {x}" for x in lines), "    }"]

    def flag(self, slot: str) -> str:
        """The address of a flag that an item raises or reads."""
        return f"{'it' if self.unit.fused else 'a'}.{self.names.prefix[slot]}_flag"

    @property
    def launch(self) -> str:
        """The launch number with which items compare that of a lock or of a new row."""
        return "it.launch" if self.unit.fused else "i32(a.launch)"

    def from_state(self, i: int, t: Type) -> str:
        """Load a program's variable from its state."""
        ctype = self.names.type(t)
        return f"from_bits<{ctype}>(Bits<{ctype}>(load(a.state + VARS + {i})))"

    def signature(self, params: Collection[tuple[str, Type]]) -> str:
        """Parameters of a function, each after a comma; objects are omitted."""
        return "".join(
            f", {self.names.type(t)}{'&' if isinstance(t, Local) else ''} {self.names.spell(n)}"
            for n, t in params
            if not isinstance(t, Object)
        )

    def define(
        self, f: ir.Func, head: str, plan: BodyPlan,
        live: Mapping[str, str] | None = None, default: str = "",
        make: Callable[..., Body] = Body,
    ) -> None:  # fmt: skip
        """Add a function; ``live`` maps a local to the parameter that has it as a member."""
        types = dict(f.params) | dict(f.locals)
        names, members = self.names, live or {}

        def resolve(name: str) -> str:
            if name in members:
                return f"{members[name]}.{names.member(name)}"
            argument = name not in types and name in names.scalars
            return f"a.{names.spell(name)}" if argument else names.spell(name)

        scope = Scope(resolve, self.flag, self.launch, types, default)
        b = (Checked if self.unit.checked else make)(names, scope, plan)
        for n, t in plan.locals:
            if isinstance(t, Shared):
                b.put(b.array(n, t))
            elif isinstance(t, Local):
                memory = b.temp("v")
                b.put(names.buffer(t, memory))
                b.put(f"{names.type(t)} {names.spell(n)}({memory});")
            else:
                b.put(f"{names.type(t)} {names.spell(n)}{{}};")
        b.body(plan.body)
        if default == " false" and plan.ends:
            b.put("return false;")
        permutation = [PERMUTATION.format("it")] if plan.swapped else []
        self.put("", f"{head} {{", *permutation, *b.lines, "}")

    def uniform(self) -> Body:
        """A body that all threads execute with the same values."""
        return Body(self.names, self._uniform_scope(), self.plan.uniform)

    def one_thread(self) -> Body:
        """A body that one thread of a program executes as an item."""
        scope = replace(self._uniform_scope(), flag=self.flag, launch="it.launch")
        return Body(self.names, scope, self.plan.uniform)

    def _uniform_scope(self) -> Scope:
        state, names = dict(self.unit.state), self.names

        def resolve(name: str) -> str:
            return f"t.{names.member(name)}" if name in state else f"a.{names.spell(name)}"

        def flag(slot: str) -> str:
            return f"a.{names.prefix[slot]}_flag + t.{names.prefix[slot]}_turn"

        return Scope(resolve, flag, "t.launch", state)

    # --- steps -----------------------------------------------------------------------------------

    def step_args(self, s: ir.Foreach) -> str:
        """The initialiser of a step: the numeric arguments of its kernel and filter."""
        b = self.uniform()
        numbers = (x for x in (*s.args, *s.where_args) if not isinstance(x.type, Object))
        return f"{{{', '.join(b.expr(x) for x in numbers)}}}"

    def step_call(self, function: str, s: ir.Foreach, made: str) -> str:
        """A call of a function of `kernels/schedule/launch.h` with a step and its extent."""
        first, last = self.names.extent(s.slot)
        begin, end = (
            whole if x is None else f"slice_bound({self.uniform().expr(x)}, {first}, {last})"
            for x, whole in ((s.start, first), (s.stop, last))
        )
        end = f"max_of({begin}, {end})" if s.start and s.stop else end
        return f"{function}(a, t, {made}, {begin}, {end})"

    def runs(self, step: StepPlan, made: str) -> str:
        """The statement that executes a foreach."""
        s = step.node
        assert isinstance(s, ir.Foreach)
        kernel = self.plan.functions[s.kernel].func
        if s.until_empty:
            made += f", {self.names.base(s.slot)}_meta"
            function = "each_until_empty_by_warps" if step.by_warp else "each_until_empty"
            return self.step_call(function, s, made) + ";"
        if step.by_warp:
            return self.step_call("each_by_warps", s, made) + ";"
        if step.group:
            return self.step_call("each_by_groups", s, made) + ";"
        claims = isinstance(kernel, ir.Kernel) and kernel.commit is not None
        together = "_deterministic" if s.together else ""
        return self.step_call(f"{'claims' if claims else 'each'}{together}", s, made) + ";"
