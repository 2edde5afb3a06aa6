"""The checker's state for one function, dispatch by construct, and emission of IR.

The check of an expression may append statements to ``Context.out``: effects are bound to
temporaries, in Python's order of evaluation, so that the resulting expression is pure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from morph.compiler.frontend.builder import Builder
from morph.compiler.frontend.scope import Edges, Flow, Loop
from morph.compiler.frontend.values import Bundle, Method, Value, cast, default, describe
from morph.compiler.ir import nodes as ir
from morph.language.definition import Definition
from morph.language.errors import reject
from morph.language.position import Pos
from morph.language.source import Source
from morph.language.types import I64, NOTHING, Object, Scalar, Type, Weak

V = TypeVar("V")
MAX_NODES = 200  # maximum nodes of an expression


@dataclass(frozen=True, slots=True)
class Rules:
    """The checking function of each construct; that of ``ast.AST`` refuses all others."""

    expressions: Mapping[type[ast.AST], Callable[[Context, Any], Value]]
    statements: Mapping[type[ast.AST], Callable[[Any, Any], None]]  # (context, node)
    methods: Mapping[tuple[str, str], Callable[[Context, ast.Call, Object], Value]]  # (kind, name)
    call: Callable[[Context, Definition, list[Value], Pos], ir.Expr]  # of a @func


@dataclass(slots=True, kw_only=True)
class Context:
    """The function that is checked; ``out`` and ``flow`` belong to the current path."""

    builder: Builder
    definition: Definition
    rules: Rules
    params: dict[str, Value | Type]
    hints: dict[str, Type] = field(default_factory=dict)  # types of locals that begin as None
    # the scope
    locals: dict[str, Type] = field(init=False)
    structs: dict[str, Bundle] = field(default_factory=dict)  # of structs with local collections
    stored: frozenset[str] = field(init=False)  # names that some statement assigns
    extra: dict[str, Type] = field(default_factory=dict)  # parameters for captured numbers
    nones: dict[str, Pos] = field(default_factory=dict)  # the first assignment of None to a local
    loops: list[Loop] = field(default_factory=list)
    edges: Edges = field(default_factory=dict)  # while their loops' variables are unchanged
    # the current path
    flow: Flow | None = field(init=False)
    out: list[ir.Stmt] = field(default_factory=list)
    temporaries: int = 0
    kept: set[str] = field(default_factory=set)  # temporaries that are read more than once
    # results
    result: Type | None = None
    claim: Pos | None = None  # of single(collection)
    claimed: frozenset[str] = frozenset()  # the collection, in the branch that owns its rows
    commit: ir.Body | None = None
    abort: ir.Body | None = None

    def __post_init__(self) -> None:
        self.locals = {n: p for n, p in self.params.items() if isinstance(p, Type)}
        self.flow = Flow(frozenset(self.params))
        self.stored = self.definition.stored

    @property
    def source(self) -> Source:
        """The function's tree and the names visible in it."""
        return self.definition.source

    @property
    def is_kernel(self) -> bool:
        """Whether the function is a ``@kernel``."""
        return self.definition.kind == "kernel"

    def pos(self, node: ast.AST) -> Pos:
        """The position of a node in the user's file."""
        return self.source.pos(node)

    def path(self) -> Flow:
        """The state of a path that has not ended."""
        assert self.flow is not None
        return self.flow

    # --- expressions -----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Any expression: a value of the IR, or a compile-time value."""
        rules = self.rules.expressions
        return rules.get(type(node), rules[ast.AST])(self, node)

    def expr(self, node: ast.expr) -> ir.Expr:
        """An expression that must be a value of the IR."""
        return self.evaluated(self.value(node), node)

    def evaluated(self, v: Value, node: ast.expr) -> ir.Expr:
        """The result of `value` for an expression that must be a value of the IR."""
        if isinstance(v, ir.Expr):
            return self.bounded(v)
        if isinstance(v, Method) and isinstance(v.receiver, ir.Expr):
            reject(f"{v.name!r} is a method", v.pos, f"call it: {v.name}()")
        reject(f"{describe(v)} is not a value", self.pos(node), "use one of its members")

    def exprs(self, nodes: Sequence[ast.expr]) -> list[ir.Expr]:
        """Several values of the IR, left to right."""
        return self._in_order(nodes, self.expr)

    def arguments(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """The arguments of a call, left to right; ``*bundle`` is replaced by its fields."""
        plain = [node.value if isinstance(node, ast.Starred) else node for node in nodes]
        found: list[Value] = []
        for node, v in zip(nodes, self._in_order(plain, self.value), strict=True):
            if not isinstance(node, ast.Starred):
                found.append(v)
            elif isinstance(v, Bundle):
                found += (x for _, x in v.fields)
            else:
                hint = "`*more` of the parameters, or a named tuple"
                reject(f"{describe(v)} cannot stand behind *", self.pos(node), hint)
        return found

    def _in_order(self, nodes: Sequence[ast.expr], check: Callable[[ast.expr], V]) -> list[V]:
        """Several values; earlier values are copied if later effects could change them."""
        done: list[V] = []
        for node in nodes:
            with self.collect() as later:
                x = check(node)
            if later:
                done = [self._bound(y) for y in done]
            self.out += later
            done.append(x)
        return done

    def _bound(self, v: Any) -> Any:
        if isinstance(v, Bundle):
            return replace(v, fields=tuple((f, self._bound(x)) for f, x in v.fields))
        return self.bind(v) if isinstance(v, ir.Expr) else v

    def integer(self, x: ir.Expr, role: str) -> ir.Expr:
        """An index or a count, as int64."""
        if isinstance(x.type, Weak | Scalar) and x.type.kind in "iu":
            return cast(x, I64)
        reject(f"{role} must be an integer, not {x.type}", x.pos, "cast it: i64(...)")

    # --- emission --------------------------------------------------------------------------------

    @contextmanager
    def collect(self) -> Iterator[list[ir.Stmt]]:
        """Collect the statements of the block in a separate list."""
        outer, self.out = self.out, []
        yield self.out
        self.out = outer

    def temporary(self, t: Type) -> str:
        """A fresh local."""
        name = f"t{self.temporaries}_"
        self.temporaries += 1
        self.locals[name] = default(t)
        return name

    def copy(self, x: ir.Expr) -> ir.Var:
        """Evaluate into a temporary."""
        name = self.temporary(x.type)
        self.out.append(ir.Assign(name=name, value=x, pos=x.pos))
        return ir.Var(name=name, type=x.type, pos=x.pos)

    def bind(self, x: ir.Expr) -> ir.Expr:
        """Return an expression that can be repeated and that later effects do not change."""
        return x if isinstance(x, ir.Const | ir.Var | ir.MakeLocal) else self.copy(x)

    def bounded(self, x: ir.Expr) -> ir.Expr:
        """An expression of at most `MAX_NODES` nodes: a larger one is evaluated into a temporary.

        Recursive passes, and the bracket limit of C++ compilers, require shallow expressions.
        """
        large = next(islice(ir.walk(x), MAX_NODES, None), None) is not None
        return self.bind(x) if large else x

    def evaluate_before(self, x: ir.Expr, later: list[ir.Stmt]) -> ir.Expr:
        """Append statements, and return the value of ``x`` before them."""
        if later:
            x = self.bind(x)
        self.out += later
        return x

    def effect(self, x: ir.Expr, shared: bool = True) -> ir.Expr:
        """Emit an effect; its value is a temporary."""
        if shared:
            self.record_write(x.pos)
        if x.type == NOTHING:
            self.out.append(ir.Eval(value=x, pos=x.pos))
            return ir.Const(value=-1, type=NOTHING, pos=x.pos)
        return self.bind(x)

    def record_write(self, pos: Pos) -> None:
        """Record that the current path changes shared state."""
        if self.flow is not None and self.flow.wrote is None:
            self.flow.wrote = pos
