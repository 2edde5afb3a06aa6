"""Expressions of the IR as C++.

The text resembles the user's function.  A name is printed as a local, as a value that is live from
the gather to the commit phase, or as a program's variable: each body resolves its names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from morph.compiler.codegen.names import Names, constant
from morph.compiler.codegen.operations import ELEMENT
from morph.compiler.ir import nodes as ir
from morph.compiler.passes.plan import BodyPlan
from morph.compiler.passes.stability import PARENT
from morph.language.types import I64, Object, Scalar, Type, Vector

BUILTINS = {"orient2d": "orient2d", "incircle": "incircle", "round": "rint_of"}  # others: abs_of
OPERATORS = {"//": "floor_div", "%": "floor_mod", "<<": "shift_left", ">>": "shift_right"}
WRAPPING = {"+": "wrap_add", "-": "wrap_sub", "*": "wrap_mul"}


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolution of names in the body that is printed."""

    resolve: Callable[[str], str]  # a local
    flag: Callable[[str], str]  # a flag's slot: the address of the word to write, or read
    launch: str  # the launch number that single(row) compares
    types: Mapping[str, Type]
    default: str = ""  # the value of a bare return, after a space


class Expressions:
    """The expressions of one function body."""

    def __init__(self, names: Names, scope: Scope, body: BodyPlan) -> None:
        self.names, self.plan, self.body_plan = names, names.plan, body
        self.resolve, self.flag, self.launch = scope.resolve, scope.flag, scope.launch
        self.types, self.default = scope.types, scope.default

    def sub(self, e: ir.Expr) -> str:
        """An operand."""
        match e:
            case ir.Compare() | ir.Logic() | ir.Select():
                compound = True
            case ir.Binary():
                compound = e.op not in OPERATORS and not narrow(e.type) and not wraps(e)
            case ir.Unary():
                compound = not narrow(e.type) and not wraps(e)
            case _:
                compound = False
        return f"({self.expr(e)})" if compound else self.expr(e)

    def args(self, args: Iterable[ir.Expr]) -> str:
        """Arguments without objects."""
        return "".join(f", {self.expr(x)}" for x in args if not isinstance(x.type, Object))

    def number(self, text: str, t: Type, native: str) -> str:
        """A count, cast to the type of the expression."""
        wanted = self.names.type(t)
        return text if wanted == native else f"{wanted}({text})"

    def place_args(self, p: ir.Place) -> str:
        """Row and index."""
        return self.expr(p.row) + (f", {self.expr(p.index)}" if p.index is not None else "")

    def is_stable(self, p: ir.Place) -> bool:
        """Whether no other thread changes a place while the body is executed."""
        one = self.body_plan.single_threaded
        return one or (p.slot, p.column) not in self.body_plan.unstable or self._at_item(p)

    def _at_item(self, p: ir.Place) -> bool:
        of_item = isinstance(p.row, ir.Var) and p.row.name == self.body_plan.item
        return of_item and (p.slot, p.column) in self.body_plan.stable

    def load(self, p: ir.Place) -> str:
        """The value at a place."""
        column = self.names.column(p.slot, p.column)
        if (p.slot, p.column) in self.plan.changed and self.is_stable(p):
            column += ".stable()"
        if p.column == "item" and self._at_item(p):
            return f"item_of(it.asynchronous, {column}, {self.expr(p.row)})"
        if isinstance(p.type, Vector) and p.index is None:
            return f"{column}.vec<{p.type.size}>({self.expr(p.row)})"
        return f"{column}.get({self.place_args(p)})"

    def skipped(self, x: ir.Expr) -> str:
        """The number of entries that ``[x:]`` skips, limited so that sums do not overflow."""
        text = f"max_of(i64({self.expr(x)}), i64(0))"
        return text if is_small(x) else f"min_of({text}, i64(1) << 40)"

    def address(self, p: ir.Place) -> str:
        """The address of a place."""
        return f"{self.names.column(p.slot, p.column)}.at({self.place_args(p)})"

    def target(self, e: ir.Atomic) -> str:
        """The target of an atomic: an address, or a place for a non-atomic update."""
        how, p = "nonatomic" if self.body_plan.single_threaded else "at", e.place
        return f"{self.names.column(p.slot, p.column)}.{how}({self.place_args(p)})"

    def expr(self, e: ir.Expr) -> str:
        """An expression, by the method of its class; without the parentheses of an operand."""
        text: str = getattr(self, f"_expr_{type(e).__name__.lower()}")(e)
        return text

    def _expr_const(self, e: ir.Const) -> str:
        return constant(e)

    def _expr_var(self, e: ir.Var) -> str:
        return self.resolve(e.name)

    def _expr_unary(self, e: ir.Unary) -> str:
        t = self.names.type(e.type)
        if wraps(e) and t != "bool":
            return f"wrap_sub({t}(0), {self.expr(e.x)})"
        x = self.sub(e.x)
        x = f"({x})" if x.startswith("-") else x
        if t == "bool":  # `~` of a bool is `not`, as in NumPy
            return f"!{x}"
        return f"{t}({e.op}{x})" if narrow(e.type) else f"{e.op}{x}"

    def _expr_binary(self, e: ir.Binary) -> str:
        if e.op in OPERATORS:
            return f"{OPERATORS[e.op]}({self.expr(e.x)}, {self.expr(e.y)})"
        if wraps(e):
            t = "" if e.x.type == e.type else f"<{self.names.type(e.type)}>"
            return f"{WRAPPING[e.op]}{t}({self.expr(e.x)}, {self.expr(e.y)})"
        text = f"{self.sub(e.x)} {e.op} {self.sub(e.y)}"
        return f"{self.names.type(e.type)}({text})" if narrow(e.type) else text

    def _expr_compare(self, e: ir.Compare) -> str:
        return f"{self.sub(e.x)} {e.op} {self.sub(e.y)}"

    def _expr_logic(self, e: ir.Logic) -> str:
        return f"{self.sub(e.x)} {'&&' if e.op == 'and' else '||'} {self.sub(e.y)}"

    def _expr_select(self, e: ir.Select) -> str:
        return f"{self.sub(e.cond)} ? {self.sub(e.x)} : {self.sub(e.y)}"

    def _expr_cast(self, e: ir.Cast) -> str:
        t, x = self.names.type(e.type), self.expr(e.x)
        return f"to_int<{t}>({x})" if truncates(e) else f"{t}({x})"

    def _expr_call(self, e: ir.Call) -> str:
        return self.names.call(e.func, self.args(e.args))

    def _expr_builtin(self, e: ir.Builtin) -> str:
        args = ", ".join(self.expr(x) for x in e.args)
        return f"{BUILTINS.get(e.name, f'{e.name}_of')}({args})"

    def _expr_load(self, e: ir.Load) -> str:
        return self.load(e.place)

    def _expr_dead(self, e: ir.Dead) -> str:
        if not self.names.stores[e.slot].deletes:
            return "false"
        return f"is_dead({self.names.base(e.slot)}_dead, {self.expr(e.row)})"

    def _expr_make(self, e: ir.Make) -> str:
        parts = ", ".join(self.expr(x) for x in e.parts)
        parts = f"{{{parts}}}" if isinstance(e.type, Vector) else parts
        return f"{self.names.type(e.type)}{{{parts}}}"

    def _expr_item(self, e: ir.Item) -> str:
        if isinstance(e.x.type, Vector) and not isinstance(e.index, ir.Const):
            return f"{self.sub(e.x)}.pick({self.expr(e.index)})"
        return f"{self.sub(e.x)}[{self.expr(e.index)}]"

    def _expr_field(self, e: ir.Field) -> str:
        return f"{self.sub(e.x)}.{self.names.field(e.x.type, e.index)}"

    def _expr_localsize(self, e: ir.LocalSize) -> str:
        size = str(e.x.type.size) if isinstance(e.x.type, Vector) else f"{self.sub(e.x)}.n"
        return self.number(size, e.type, "i32")

    def _expr_contains(self, e: ir.Contains) -> str:
        return f"contains({self.expr(e.x)}, {self.expr(e.value)})"

    def _expr_storesize(self, e: ir.StoreSize) -> str:
        if e.in_all:
            return self.number(
                f"load_stable({self.names.base(e.slot)}_meta + GLOBAL)", e.type, "i64"
            )
        begin, end = self.names.extent(e.slot)
        return self.number(f"({end} - {begin})" if begin != "0" else end, e.type, "i64")

    def _expr_raised(self, e: ir.Raised) -> str:
        return f"is_raised({self.flag(e.slot)})"

    def _expr_degree(self, e: ir.Degree) -> str:
        counts = [self._degree(e, row) for row in self.names.offsets(e.graph, e.direction)]
        text = counts[0] if len(counts) == 1 else f"({counts[0]} + {counts[1]})"
        return self.number(text, e.type, "i32")

    def _degree(self, e: ir.Degree, row: str) -> str:
        """The number of edges in one direction."""
        return f"degree({row}, {self.expr(e.point)})"

    def _expr_findedge(self, e: ir.FindEdge) -> str:
        return f"find_edge({self._edges(e)}{self.args((e.x, e.y))})"

    def _edges(self, e: ir.FindEdge) -> str:
        """The out-edges of a graph, as arguments."""
        n, g = self.names, f"a.{self.names.prefix[e.graph]}_out"
        ids = "nullptr" if n.graphs[e.graph].out_identity else f"{g}_edge"
        return f"{g}_offset, {ids}, {n.ends(e.graph, 'out')}"

    # --- effects ---------------------------------------------------------------------------------

    def _expr_atomic(self, e: ir.Atomic) -> str:
        flag = f", {self.flag(e.flag)}" if e.flag else ""
        return f"atomic_{e.op}({self.target(e)}{self.args(e.args)}{flag})"

    def _expr_itematomic(self, e: ir.ItemAtomic) -> str:
        return f"change_element({ELEMENT[e.op]}(), {self.element(e)}{self.args(e.args)})"

    def element(self, e: ir.ItemAtomic) -> str:
        """The element of a shared array that an atomic changes."""
        return f"{self.resolve(e.name)}[{self.expr(e.index)}]"

    def _expr_delete(self, e: ir.Delete) -> str:
        s = f"a.{self.names.prefix[e.slot]}"
        return f"delete_row({s}_meta, {s}_free, {s}_dead, {self.expr(e.row)})"

    def _find_mode(self, e: ir.SetFind) -> str:
        return "LIVE" if (e.slot, PARENT) in self.body_plan.unstable else "STABLE"

    def _expr_setfind(self, e: ir.SetFind) -> str:
        parent = f"a.{self.names.prefix[e.slot]}_parent"
        return f"set_find<{self._find_mode(e)}>({parent}, {self.expr(e.x)})"

    def _expr_setunion(self, e: ir.SetUnion) -> str:
        return f"set_union(a.{self.names.prefix[e.slot]}_parent{self.args((e.x, e.y))})"

    def _expr_lock(self, e: ir.Lock) -> str:
        lock = f"{self.names.base(e.slot)}_lock"
        return f"lock_row({lock}, {self.expr(e.row)}, {self.launch})"

    def _expr_lockplace(self, e: ir.LockPlace) -> str:
        return f"lock_place({self.address(e.place)})"

    def _expr_prefetch(self, e: ir.Prefetch) -> str:
        return f"prefetch({self.address(e.place)})"

    def _expr_flagset(self, e: ir.FlagSet) -> str:
        flag = self.flag(e.slot)
        return f"raise_flag({flag})" if e.value else f"store({flag}, 0)"

    def _expr_localadd(self, e: ir.LocalAdd) -> str:
        return f"{self.resolve(e.name)}.add({self.expr(e.value)}, it, a.status)"

    def _expr_localpop(self, e: ir.LocalPop) -> str:
        return f"{self.resolve(e.name)}.pop()"

    def _expr_localclear(self, e: ir.LocalClear) -> str:
        return f"{self.resolve(e.name)}.n = 0"


def wraps(e: ir.Binary | ir.Unary) -> bool:
    """Whether an overflow is undefined in C++: the operands are signed integers."""
    t = e.type
    signed = isinstance(t, Scalar) and (t.kind == "i" or (t.name == "u16" and e.op == "*"))
    return e.op in WRAPPING and signed


def truncates(e: ir.Cast) -> bool:
    """Whether a cast converts a float to an integer."""
    a, b = e.x.type, e.type
    return isinstance(a, Scalar) and isinstance(b, Scalar) and a.kind == "f" and b.kind in "iu"


def is_small(x: ir.Expr) -> bool:
    """Whether a number is known to have at most 32 bits."""
    match x:
        case ir.Const(value=value):
            return -(2**31) <= value < 2**32
        case ir.Cast(x=ir.Expr(type=Scalar(kind="i" | "u", bits=bits))):
            return bits <= 32
    return isinstance(x, ir.Degree | ir.LocalSize)


def ends_before(s: ir.ForRange) -> bool:
    """Whether a range's counter cannot overflow when it has passed the last value."""
    return abs(s.step) == 1 or s.start.type != I64 or (is_small(s.stop) and abs(s.step) < 2**62)


def narrow(t: Type) -> bool:
    """Whether C++ promotes this type, to int or f32, so that results are cast back."""
    return isinstance(t, Scalar) and t.bits < 32
