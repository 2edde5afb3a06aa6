"""A kernel of the checked mode as C++: each access first calls a check of `kernels/core/check.h`.

An item that has violated a rule returns after the statement, as it does when a local collection is
full.
"""

from __future__ import annotations

from dataclasses import replace

from morph.compiler.codegen.expressions import WRAPPING, Scope
from morph.compiler.codegen.names import Names
from morph.compiler.codegen.statements import Body, heads
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import deaths, shadow
from morph.compiler.ir.sites import Kind, Sites, ends
from morph.compiler.passes.grouping import Allocations, Make
from morph.compiler.passes.plan import BodyPlan
from morph.language.types import Handle, Local, Scalar, Vector

SILENT = -1  # the site of expressions computed in advance: violations there are not reported
WITH_CHECK = {"+": "check_add", "-": "check_sub", "*": "check_mul", "<<": "check_shift"}
assert WITH_CHECK.keys() - {"<<"} == WRAPPING.keys() and len(Kind) == 7


class Checked(Body):
    """The text of one function body, with checks."""

    loop: ir.ForEdges  # the loop whose head is being printed

    def __init__(self, names: Names, scope: Scope, body: BodyPlan) -> None:
        super().__init__(names, scope, body)
        assert self.plan.sites is not None
        self.sites: Sites = self.plan.sites
        self.silent = False
        self.computed: set[str] = set()  # C++ locals that hold the value of an expression

    # --- arguments of checks ---------------------------------------------------------------------

    def _site(self, node: ir.Node) -> str:
        """The argument that identifies the site of a check."""
        site = SILENT if self.silent else self.sites.number[id(node)]
        return f"at_site(a.check, it, {site})"

    def live(self, slot: str) -> str:
        """The argument that describes which rows of a store exist."""
        base, store = self.names.base(slot), self.names.stores[slot]
        dead = f"{base}_dead" if store.deletes and not self.silent else "nullptr"
        died = f"a.{deaths(self.names.prefix[slot])}" if slot in self.sites.deleting else "nullptr"
        return f"Live{{{base}_meta, {dead}, {died}}}"

    def _shadow(self, node: ir.Node, p: ir.Place) -> str:
        return self._shadow_of(node, p.slot, p.column, max(self._column(p).size, 1))

    def _shadow_of(self, node: ir.Node, slot: str, column: str, size: int = 1) -> str:
        tracked = self.sites.races(node, (slot, column)) and not self.silent
        words = f"a.{shadow(self.names.prefix[slot], column)}" if tracked else "nullptr"
        return f"Shadow{{{words}, {size}}}"

    def _access(self, node: ir.Node, p: ir.Place) -> str:
        """The arguments of a check of a place; its row and index come last."""
        column = self.names.column(p.slot, p.column)
        args = f"{self._site(node)}, {self.live(p.slot)}, {self._shadow(node, p)}, {column}"
        return f"{args}, {self.place_args(p)}"

    # --- expressions -----------------------------------------------------------------------------

    def expr(self, e: ir.Expr) -> str:
        """An expression, checked if it is a site."""
        if isinstance(e, ir.Var) and e.name in self.computed:
            return e.name
        if id(e) not in self.sites.number:
            return super().expr(e)
        n = self.names
        match e:
            case ir.Load(place=p):
                whole = isinstance(p.type, Vector) and p.index is None
                size = f"vec<{p.type.size}>" if isinstance(p.type, Vector) and whole else "get"
                return f"check_{size}({self._access(e, p)})"
            case ir.Cast(type=Handle(slot)):
                return f"check_handle({self._site(e)}, {self.live(slot)}, {self.expr(e.x)})"
            case ir.Cast():
                return f"check_integer<{n.type(e.type)}>({self._site(e)}, {self.expr(e.x)})"
            case ir.Binary():
                return self._checked_binary(e)
            case ir.Unary(x=x) | ir.Builtin(args=(x,)) if not self.silent:
                check = "check_abs" if isinstance(e, ir.Builtin) else "check_negate"
                return f"{check}({self._site(e)}, {self.expr(x)})"
            case ir.Item():
                return f"check_item({self._site(e)}, {self.expr(e.x)}, {self.expr(e.index)})"
            case ir.Dead():
                return f"check_dead({self._site(e)}, {self.live(e.slot)}, {self.expr(e.row)})"
            case ir.FindEdge():
                ((slot, column),) = ends(e.graph, "out")
                where = f"{self._point(e)}, {self._shadow_of(e, slot, column)}, {self._edges(e)}"
                return f"check_edge({where}{self.args((e.x, e.y))})"
        return super().expr(e)

    def _checked_binary(self, e: ir.Binary) -> str:
        if self.silent:
            return super().expr(e)
        t = "" if e.x.type == e.type else f"<{self.names.type(e.type)}>"
        call = f"{WITH_CHECK[e.op]}{t}({self._site(e)}, {self.expr(e.x)}, {self.expr(e.y)})"
        narrow = isinstance(e.type, Scalar) and e.type.bits < 32
        return f"{self.names.type(e.type)}({call})" if narrow else call

    def sub(self, e: ir.Expr) -> str:
        """An operand; a check is a call."""
        return self.expr(e) if id(e) in self.sites.number else super().sub(e)

    def _point(self, e: ir.Degree | ir.FindEdge | ir.ForEdges) -> str:
        return f"{self._site(e)}, {self.live(self.sites.slot(e))}"

    def _degree(self, e: ir.Degree, row: str) -> str:
        return f"check_degree({self._point(e)}, {row}, {self.expr(e.point)})"

    def _set_rows(self, e: ir.SetFind | ir.SetUnion) -> str:
        of = self.names.stores[e.slot].of
        assert of is not None
        return f"{self._site(e)}, {self.live(of)}, a.{self.names.prefix[e.slot]}_parent"

    def element(self, e: ir.ItemAtomic) -> str:
        """The element of a shared array that an atomic changes."""
        return f"check_element({self._site(e)}, {self.resolve(e.name)}, {self.expr(e.index)})"

    def target(self, e: ir.Atomic) -> str:
        """The target of an atomic."""
        return f"check_at({self._access(e, e.place)})"

    def _expr_delete(self, e: ir.Delete) -> str:
        prefix = self.names.prefix[e.slot]
        s, where = f"a.{prefix}", f"{self._site(e)}, {self.live(e.slot)}, a.{deaths(prefix)}"
        return f"check_delete({where}, {s}_meta, {s}_free, {s}_dead, {self.expr(e.row)})"

    def _expr_setfind(self, e: ir.SetFind) -> str:
        return f"check_find<{self._find_mode(e)}>({self._set_rows(e)}, {self.expr(e.x)})"

    def _expr_setunion(self, e: ir.SetUnion) -> str:
        return f"check_union({self._set_rows(e)}{self.args((e.x, e.y))})"

    def _expr_lock(self, e: ir.Lock) -> str:
        lock = f"{self.names.base(e.slot)}_lock, {self.expr(e.row)}, {self.launch}"
        return f"check_lock({self._site(e)}, {self.live(e.slot)}, {lock})"

    def _expr_lockplace(self, e: ir.LockPlace) -> str:
        return f"lock_place(check_at({self._access(e, e.place)}))"

    def _expr_prefetch(self, e: ir.Prefetch) -> str:
        p = e.place
        return f"has_row({self._site(e)}, {self.live(p.slot)}, {self.expr(p.row)})"

    def _expr_localpop(self, e: ir.LocalPop) -> str:
        return f"check_pop({self._site(e)}, {self.resolve(e.name)})"

    # --- statements ------------------------------------------------------------------------------

    def body(self, body: ir.Body) -> None:
        """Statements in order; an item that has violated a rule returns."""
        for s, group in zip(body, self.body_plan.groups[id(body)], strict=True):
            s = self._operands_first(s)
            if isinstance(group, Allocations):
                assert isinstance(s, ir.Assign | ir.Eval) and isinstance(s.value, Make)
                self._allocate([(s.name if isinstance(s, ir.Assign) else "", s.value)])
            else:
                self.stmt(s)
            if not s.leaves and any(self._grows(x) for x in heads(s)):
                self._return_if_failed()

    def _operands_first(self, s: ir.Stmt) -> ir.Stmt:
        """Print checked operands ahead of a statement, so that the item can return before it."""
        match s:
            case ir.Assign(value=e) | ir.Eval(value=e):
                match e:
                    case ir.New() | ir.Add():
                        values = tuple((name, self._first(x)) for name, x in e.values)
                        return replace(s, value=replace(e, values=values))
                    case ir.NewRows():
                        return replace(s, value=replace(e, count=self._first(e.count)))
                    case ir.LocalAdd():
                        return replace(s, value=replace(e, value=self._first(e.value)))
            case ir.ForRange():
                return replace(s, start=self._first(s.start), stop=self._first(s.stop))
            case ir.ForBits():
                return replace(s, x=self._first(s.x))
            case ir.ForRows(start=x) | ir.ForItems(start=x) if x is not None:
                return replace(s, start=self._first(x))
        return s

    def _first(self, x: ir.Expr) -> ir.Expr:
        if not self._grows(x):
            return x
        name = self.temp("v")
        self.put(f"const auto {name} = {self.expr(x)};")
        self._return_if_failed()
        self.computed.add(name)
        return ir.Var(name=name, type=x.type, pos=x.pos)

    def _grows(self, node: object) -> bool:
        """Whether the evaluation of a node may end the item."""
        nodes = list(ir.walk(node))
        return super()._grows(node) or any(
            isinstance(n, ir.Call) or id(n) in self.sites.number for n in nodes
        )

    def _without_result(self, e: ir.Atomic) -> str:
        return ""

    def _stmt_setitem(self, s: ir.SetItem) -> None:
        i, name = self.temp("k"), self.resolve(s.name)
        self.put(f"const i64 {i} = {self.expr(s.index)};")
        self.put(f"check_put({self._site(s)}, {name}, {i}, {self.expr(s.value)});")

    def _stmt_write(self, s: ir.Write) -> None:
        t, p = s.value.type, s.place
        whole = isinstance(t, Vector) and p.index is None
        size = f"_vec<{t.size}>" if isinstance(t, Vector) and whole else ""
        self.put(f"check_set{size}({self._access(s, p)}, {self.expr(s.value)});")

    def _stmt_claim(self, s: ir.Claim) -> None:
        for name in (x for x in (s.items, s.guard) if x):
            t = self.types[name]
            assert isinstance(t, Local) and isinstance(t.elem, Handle)
            claim = f"{self._site(s)}, {self.live(t.elem.slot)}, {self.resolve(name)}"
            self.put(f"if (!check_claim({claim})) return{self.default};")
        super()._stmt_claim(s)

    def _stmt_reserve(self, s: ir.Reserve) -> None:
        self.silent = True
        super()._stmt_reserve(s)
        self.silent = False

    def _end(self, s: ir.ForEdges, direction: str, entry: str, edge: str) -> str:
        ((slot, column),) = ends(s.graph, direction)
        end, node = super()._end(s, direction, entry, edge), self.loop
        if not self.sites.races(node, (slot, column)):
            return end
        return (
            f"check_end({self._site(node)}, {self._shadow_of(node, slot, column)}, {edge}, {end})"
        )

    def _stmt_foredges(self, s: ir.ForEdges) -> None:
        point = self.temp("p")
        self.computed.add(point)
        self.put(f"const i32 {point} = {self.expr(s.point)};")
        self.put(f"if (!has_row({self._point(s)}, {point})) return{self.default};")
        var = ir.Var(name=point, type=s.point.type, pos=s.pos)
        self.loop = s
        start = self._first(s.start) if s.start is not None else None
        super()._stmt_foredges(replace(s, point=var, start=start))
