"""Effects of a unit's functions: whether a call changes state, directly or through other calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from morph.compiler.ir import nodes as ir
from morph.language.position import Pos
from morph.language.types import NOTHING, Local, Object


class Effects:
    """Effects of functions; functions may be added to ``funcs`` (by name) later."""

    def __init__(self, funcs: Mapping[str, ir.Func]) -> None:
        self.funcs = funcs
        self._known: dict[str, tuple[ir.Func, bool, bool]] = {}

    def _of(self, func: ir.Func) -> tuple[ir.Func, bool, bool]:
        """Whether a call has side effects, and whether these are visible to other items."""
        known = self._known.get(func.name)
        if known is None or known[0] is not func:
            nodes, params = list(ir.walk(func)), dict(func.params)
            acts = shared = func.cpp is not None
            for n in nodes:
                local = isinstance(n, ir.SetItem) and isinstance(params.get(n.name), Local)
                acts, shared = acts or n.effect or n.writes or local, shared or n.shared
            for name in {n.func for n in nodes if isinstance(n, ir.Call)}:
                _, inner_acts, inner_shared = self._of(self.funcs[name])
                acts, shared = acts or inner_acts, shared or inner_shared
            self._known[func.name] = known = func, acts, shared
        return known

    def has_effect(self, func: ir.Func) -> bool:
        """Whether a call must be a statement."""
        return self._of(func)[1] or func.result == NOTHING

    def writes_shared(self, func: ir.Func) -> bool:
        """Whether a call changes state that is visible to other items."""
        return self._of(func)[2]

    def changes_shared(self, node: object) -> bool:
        """Whether a node in a tree changes state that is visible to other items."""
        return any(
            n.shared or (isinstance(n, ir.Call) and self.writes_shared(self.funcs[n.func]))
            for n in ir.walk(node)
        )

    def nodes(self, node: object) -> list[ir.Node]:
        """The nodes of a tree, and of all functions that it calls."""
        own = list(ir.walk(node))
        return own + [n for f in called(own, self.funcs) for n in ir.walk(f)]

    def passed(self, call: ir.Call, name: str) -> Iterator[tuple[ir.Func, str]]:
        """The called function, and each of its parameters that receives the variable ``name``."""
        func = self.funcs[call.func]
        for param, a in zip(value_params(func), call.args, strict=True):
            if isinstance(a, ir.Var) and a.name == name:
                yield func, param

    def change_of(self, func: ir.Func, param: str) -> Pos | None:
        """The position at which a function changes the local collection ``param``, or None."""
        for n in ir.walk(func.body):
            match n:
                case ir.LocalAdd() | ir.LocalClear() | ir.SetItem() if n.name == param:
                    return n.pos
                case ir.Call():
                    for called, name in self.passed(n, param):
                        if (pos := self.change_of(called, name)) is not None:
                            return pos
        return None


def value_params(func: ir.Func) -> list[str]:
    """The parameters for which calls pass arguments: all except objects."""
    return [n for n, t in func.params if not isinstance(t, Object)]


def reached(name: str, funcs: Mapping[str, ir.Func]) -> tuple[ir.Func, ...]:
    """A function and all functions that it calls."""
    seen = {name: funcs[name]}
    todo = [name]
    while todo:
        for n in ir.walk(seen[todo.pop()]):
            if isinstance(n, ir.Call) and n.func not in seen:
                seen[n.func] = funcs[n.func]
                todo.append(n.func)
    return tuple(seen.values())


def called(nodes: Iterable[ir.Node], funcs: Mapping[str, ir.Func]) -> list[ir.Func]:
    """All functions that nodes call, directly or through other calls."""
    found: dict[str, ir.Func] = {}
    for n in nodes:
        if isinstance(n, ir.Call) and n.func not in found:
            found |= {f.name: f for f in reached(n.func, funcs)}
    return list(found.values())


def functions_of_kernel(
    kernel: ir.Kernel, funcs: Mapping[str, ir.Func], *, itself: bool = False
) -> list[ir.Func]:
    """All functions that a kernel and its filter call, callees first, and the filter.

    The kernel is the last one if ``itself`` is true.
    """
    names = {f.name for f in called(ir.walk(kernel), funcs)}
    if kernel.where:
        names |= {f.name for f in reached(kernel.where, funcs)}
    found = [f for name, f in funcs.items() if name in names]
    return [*found, kernel] if itself else found
