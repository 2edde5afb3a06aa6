"""The C++ text of functions that the lanes of a GPU's warp execute together.

See `passes.warp_execution`; ``kernels/schedule/warp.h`` assigns items.  A CPU does not compile this
text: there a thread executes the item by the ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.expressions import Scope
from morph.compiler.codegen.names import Names, constant
from morph.compiler.codegen.operations import OVER_LANES, identity
from morph.compiler.codegen.statements import Body
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.grouping import Make
from morph.compiler.passes.plan import BodyPlan, FunctionPlan, StepPlan
from morph.compiler.passes.warp_execution import Reductions
from morph.language.types import Local

SUFFIX = "_by_warp"
ALL, LEADER, EACH = "all lanes", "the first lane", "each lane for itself"


class WarpBody(Body):
    """The body of a function."""

    def __init__(self, names: Names, scope: Scope, body: BodyPlan) -> None:
        super().__init__(names, scope, body)
        self.by = ALL  # which threads execute the code that is printed

    def _by_leader(self, change: Callable[[], None], outputs: tuple[str, ...] = ()) -> None:
        """Print statements for the first lane, then the broadcast of the locals they assign."""
        if self.by != ALL:
            change()
            return
        self.put("if (lane_id() == 0) {")
        self.depth, self.by = self.depth + 1, LEADER
        change()
        self.depth, self.by = self.depth - 1, ALL
        self.put("}")
        self.put("sync_warp();")
        for name in outputs:
            self.put(f"{name} = from_lane({name}, 0);")

    def _broadcast(self, text: Callable[[], str]) -> str:
        """An expression that the first lane evaluates."""
        if self.by != ALL:
            return text()
        self.by = LEADER
        made = text()
        self.by = ALL
        return f"by_leader([&] {{ return {made}; }})"

    # --- expressions -----------------------------------------------------------------------------

    def load(self, p: ir.Place) -> str:
        """The value at a place; the first lane loads what the step changes."""
        if (p.slot, p.column) not in self.body_plan.unstable:
            return super().load(p)
        return self._broadcast(partial(super().load, p))

    def _expr_call(self, e: ir.Call) -> str:
        text = super()._expr_call(e)
        if self.by != ALL or self.plan.functions[e.func].by_warp is None:
            return text
        name, _, rest = text.partition("(")
        return f"{name}{SUFFIX}({rest}"

    def _expr_atomic(self, e: ir.Atomic) -> str:
        return self._broadcast(partial(super()._expr_atomic, e))

    def _expr_localadd(self, e: ir.LocalAdd) -> str:
        return f"add_by_warp({self.resolve(e.name)}, {self.expr(e.value)}, it, a.status)"

    # --- statements ------------------------------------------------------------------------------

    def _read(self, reads: list[tuple[str, ir.Place]]) -> None:
        if not any((p.slot, p.column) in self.body_plan.unstable for _, p in reads):
            super()._read(reads)
            return
        names = tuple(self.resolve(name) for name, _ in reads)
        self._by_leader(partial(super()._read, reads), names)

    def _write(self, writes: list[ir.Write]) -> None:
        self._by_leader(partial(super()._write, writes))

    def _stmt_write(self, s: ir.Write) -> None:
        self._by_leader(partial(super()._stmt_write, s))

    def _stmt_eval(self, s: ir.Eval) -> None:
        if isinstance(s.value, ir.Atomic):
            self._by_leader(partial(super()._stmt_eval, s))
        else:
            super()._stmt_eval(s)

    def _allocate(self, makes: list[tuple[str, Make]]) -> None:
        outputs = tuple(self.resolve(name) for name, _ in makes if name)
        self._by_leader(partial(super()._allocate, makes), outputs)

    def _value(self, target: str, e: ir.Expr) -> None:
        if isinstance(e, ir.New):
            self._by_leader(partial(super()._value, target, e), (target,) if target else ())
        else:
            super()._value(target, e)

    def _stmt_reserve(self, s: ir.Reserve) -> None:
        done = self.temp("b")
        self.put(f"const bool {done} = reserve_by_warp(it, [&] {{")
        self.depth, self.by, self.default, default = self.depth + 1, LEADER, " false", self.default
        super()._stmt_reserve(s)
        self.put("return true;")
        self.depth, self.by, self.default = self.depth - 1, ALL, default
        self.put("});")
        self.put(f"if (!{done}) return{self.default};")

    def _stmt_exceed(self, s: ir.Exceed) -> None:
        number = ir.exceeds(self.plan.unit).index(s)
        self._by_leader(lambda: self.put(f"exceed(a.status, it, {number});"))
        self.put("it.failed = from_lane(it.failed, 0);")
        self.put(f"return{self.default};")

    def _stmt_forbits(self, s: ir.ForBits) -> None:
        if self.by != ALL or s.divided is None:
            super()._stmt_forbits(s)
            return
        bits, k, (t, x) = self.temp("b"), self.temp("k"), self.bits_of(s)
        self.put(f"const {t} {bits} = {x};")
        self.put(f"if ({bits}) {{")
        self.depth += 1
        self._begin(s.reductions, s.pos)
        self.put(f"for (i32 {k} = lane_id(); {k} < popcount_of({bits}); {k} += 32) {{")
        self.depth, self.by = self.depth + 1, EACH
        self._bound(s.body, [(s.var, f"i64(nth_bit({bits}, {k}))")])
        self.by = ALL
        self.put("sync_warp();")
        for name, how in s.reductions:
            over = "elements" if isinstance(self.types[name], Local) else "value"
            self.put(f"combine_{over}<{OVER_LANES[how]}>({self.resolve(name)});")
        self.depth -= 1
        self.put("}")

    def _begin(self, reductions: Reductions, pos: ir.Pos) -> None:
        """Set what all lanes but the first begin the reductions with."""
        for name, how in reductions:
            t = self.types[name]
            elem = t.elem if isinstance(t, Local) else t
            start = constant(ir.Const(value=identity(how, elem), type=elem, pos=pos))
            x = self.resolve(name)
            if isinstance(t, Local):
                self.put(f"if (lane_id() != 0) fill_with({x}, {start});")
            else:
                self.put(f"if (lane_id() != 0) {x} = {start};")


def warp_function(e: Emission, plan: FunctionPlan, body: BodyPlan) -> None:
    """Add a function that the lanes of a warp execute together, for a GPU."""
    f, name = plan.func, e.names.funcs[plan.func.name]
    result = e.names.type(f.result)
    item = ", Item& it" if plan.takes_item else ""
    kind = "MORPH_CALL" if plan.called else "MORPH_BODY"
    given = f"const Args& __restrict__ a{item}{e.signature(f.params)}"
    head = f"{kind} {result} {name}{SUFFIX}({given})"
    e.put("#ifdef __CUDACC__")
    e.define(f, head, body, default="" if result == "void" else " {}", make=WarpBody)
    e.put("#endif", '#line 1 "morph"')


def warp_members(step: StepPlan, func: str, args: str) -> list[str]:
    """Return the additional members of a step whose items warps execute."""
    if not step.by_warp:
        return []
    return [
        "#ifdef __CUDACC__",
        "    MORPH_FN void run_by_warp(const Args& a, I& it) const {",
        f"        {func}{SUFFIX}(a, it, it.row{args});",
        "    }",
        "#endif",
    ]
