"""Decorators of the language and `foreach`, which finds a launch for its arguments and runs it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NamedTuple, overload

from morph.data.collection import Set
from morph.data.row import RowRange
from morph.data.scalars import Scalars
from morph.data.versions import Outdated
from morph.language.bundles import flat
from morph.language.hooks import Hook
from morph.language.messages import shown
from morph.launch.checked import checked, is_checked
from morph.launch.kernels import Function, Kernel, Launchable
from morph.runtime.threads import get_num_threads, set_num_threads
from morph.runtime.timing import timing

BALANCE = ("auto", "thread", "warp", "block", "grid")

# the compiler would double the time of `import morph`, so the first launch imports it
_launch_for: Hook[Any] = Hook("morph.launch.lookup:launch_for")
_accept: Hook[None] = Hook("morph.launch.lookup:accept")
_run_parts: Hook[None] = Hook("morph.launch.sections:run_parts")
_available_threads: Hook[int] = Hook("morph.launch.scratch:available_threads")


def _first_launch_for(*request: Any) -> Any:
    global launch_for
    launch_for = _launch_for.provider()  # saves a function call at each launch
    return launch_for(*request)


launch_for: Callable[..., Any] = _first_launch_for


class _Eager(threading.local):
    """Whether this thread runs a program eagerly."""

    active = False


_eager = _Eager()


def available_threads() -> int:
    """Number of CPU threads of a launch now: fewer while other processes use the cores."""
    return _available_threads()


class Program(Launchable):
    """A loop over kernels that runs as one launch; made by `program`."""

    kind = "program"

    def __call__(self, *args: Any) -> Any:
        """Run as one launch; on the ``python`` device, or if `checked`, as eager Python.

        A program that runs eagerly calls other programs eagerly, and gets their results unchanged.
        """
        if _eager.active:
            return self.__wrapped__(*args)
        if is_checked():
            return self.eager(*args)
        try:
            launch, given = launch_for(self, None, args, None)
            return self._interpreted(args) if launch is None else launch.run(given, None)
        except Outdated:
            return self(*args)

    def alone(self, *args: Any) -> Any:
        """Run by one CPU thread or one GPU block: faster for little work, with the same results."""
        if is_checked():
            return self.eager(*args)
        try:
            launch, given = launch_for(self, None, args, None)
            if launch is None:
                return self._interpreted(args)
            return launch.run(given, None, alone=True)
        except Outdated:
            return self.alone(*args)

    def eager(self, *args: Any) -> Any:
        """Run as plain Python, launch by launch; accepts the same programs."""
        _accept(self, args)
        return self._interpreted(args)

    def _interpreted(self, args: tuple[Any, ...]) -> Any:
        """Run as plain Python; the result is a Python scalar, as for a fused launch."""
        if _eager.active:
            return self.__wrapped__(*args)
        _eager.active = True
        before = collected.set(None)  # its launches are not sections of the calling block
        try:
            result = self.__wrapped__(*args)
        finally:
            collected.reset(before)
            _eager.active = False
        return result.item() if hasattr(result, "item") else result


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a function whose first parameter is the item.

    Parameters
    ----------
    function : function
        Restricted Python, compiled when first launched; see the language reference.

    Returns
    -------
    Kernel
        To be run with `foreach`.
    """
    return Kernel(function)


@overload
def func(function: Callable[..., Any]) -> Function: ...
@overload
def func(*, cpp: str) -> Callable[[Callable[..., Any]], Function]: ...
def func(function: Callable[..., Any] | None = None, *, cpp: str | None = None) -> Any:
    """Make a function that kernels can call.

    Parameters
    ----------
    function : function
        Restricted Python, specialised to the types of its arguments.
    cpp : str, optional
        The body in C++ instead; the function then only declares its parameters and, as an
        annotation, the scalar type that it returns.

    Returns
    -------
    Function
    """
    if function is None:
        return lambda f: Function(f, cpp)
    return Function(function)


def program(function: Callable[..., Any]) -> Program:
    """Make one launch of a loop over kernels.

    Parameters
    ----------
    function : function
        ``while``, ``if``, scalars, `foreach`, swaps of collections, flags.  The
        results do not depend on the decorator: without it, the function runs launch by launch.

    Returns
    -------
    Program
    """
    return Program(function)


def foreach(
    items: Any,
    kernel: Kernel,
    *args: Any,
    where: Callable[[Any], Any] | None = None,
    together: bool = False,
    balance: str = "auto",
    ahead: Any = None,
    until_empty: bool = False,
    check: bool | None = None,
) -> None:
    """Run a kernel once for each row of a table or item of a collection, in parallel.

    Parameters
    ----------
    items : Table, Collection, Set or Scalars, or a slice of a table or collection
        The rows or items to run on; a set stands for the rows of its table.  Deleted rows are
        skipped.
    kernel : Kernel
        Its first parameter is the item, the others are ``args``.
    *args : Graph, Table, column, Collection, Set, Flag, Scalars, Row, Function, or number
        All objects lie on the device of ``items``.
    where : callable, optional
        A lambda or a `func` of the item; items for which it is false are skipped.
    together : bool
        For a kernel with ``single(collection)``: all items claim before any item commits, so that
        the winners depend on positions in ``items`` and not on the number of threads.
    balance : {"auto", "thread", "warp", "block", "grid"}
        Which threads share the edges of one item, if the kernel ends in a loop over them that can
        be shared: one thread; a warp ("warp", "block"); all ("grid"); "auto" decides by the number
        of edges.  An item of a kernel with shared arrays is executed by one thread ("thread"), a
        warp ("warp"), else by a GPU's block; one of a kernel with loops over `bit_positions` by a
        warp ("warp"), else by one thread.  The result is the same.
    ahead : Collection, optional
        A collection that the kernel adds to, with the same element type and columns as ``items``:
        in a program, the thread that adds an item may execute it in the same step.  The result of
        the program must not depend on the step in which an item is executed.
    until_empty : bool
        The items that the kernel adds to the collection ``items`` are executed in the same step, in
        any order, by idle threads; at the end ``items`` is empty.
    check : bool, optional
        Check every access, see `checked`; the default is that of the enclosing block, else of
        MORPH_CHECK.

    Raises
    ------
    LanguageError
        If the kernel is not in the language, or does not fit its arguments.
    CheckError
        If the launch is checked, and an item breaks a rule of the language.
    TypeError
        If an argument is none of these, or lies on another device.
    ValueError
        If ``together`` is set for more items than a GPU has resident threads: 256 to 512 on each
        multiprocessor; if ``balance`` is none of these; if ``ahead`` is not among ``args``; or
        if ``until_empty`` comes with ``ahead``, ``together``, or a ``balance`` other than "warp".

    Notes
    -----
    One foreach is one launch and one barrier: the next foreach sees all its changes.
    """
    if kernel.__class__ is not Kernel:
        raise TypeError(f"foreach runs a @kernel, not {shown(kernel)}")
    if items.__class__ in (Set, Scalars):
        items = items.table
    if where is not None and where.__class__ not in (FunctionType, Function):
        raise TypeError(f"where is a lambda or a @func of the item, not {shown(where)}")
    if balance not in BALANCE:
        raise ValueError(f"balance is one of {', '.join(map(repr, BALANCE))}, not {shown(balance)}")
    if ahead is not None and not any(ahead is x for x in flat(args)):
        raise ValueError(
            f"ahead is one of the collections that the kernel is given, not {shown(ahead)}"
        )
    if until_empty and (together or balance not in ("auto", "thread", "warp") or ahead is not None):
        raise ValueError(
            "until_empty goes without together and ahead, and with balance thread or warp"
        )
    if until_empty and items.__class__ is RowRange:
        raise ValueError("until_empty takes a whole collection, not a slice")
    waiting = collected.get()
    if waiting is not None and sys._getframe(1).f_globals.get("__name__", "").startswith("morph."):
        waiting = None  # the library's functions read the results of their kernels at once
    if waiting is not None or kernel.parts:
        if until_empty:
            raise ValueError("until_empty goes without sections and barrier()")
        here = sys._getframe(1)
        at = here.f_code.co_filename, here.f_lineno
        call = Call(kernel, where, args, items, bool(together), balance, check, *at)
        return _run_parts(call) if waiting is None else waiting.append(call)
    checks = is_checked(check)
    options = bool(together), balance, checks, bool(until_empty)
    while True:
        try:
            launch, given = launch_for(kernel, items, args, where, *options)
            assert launch is not None
            last = items.span()[1] if until_empty and checks else 0
            launch.run(given, where)
        except Outdated:
            continue
        if not (until_empty and checks):
            return
        items._drop(last)  # a checked launch runs one round, as races are found within a round
        if items.empty:
            return


class Call(NamedTuple):
    """A call of `foreach` in ``with sections():``, see `morph.launch.sections`."""

    kernel: Kernel
    where: Callable[[Any], Any] | None
    args: tuple[Any, ...]
    items: Any
    together: bool
    balance: str
    check: bool | None
    file: str
    line: int


collected: ContextVar[list[Call] | None] = ContextVar("collected", default=None)
foreach.morph_foreach = True  # type: ignore[attr-defined]


__all__ = [
    "Function", "Kernel", "Program", "available_threads", "checked", "foreach", "func",
    "get_num_threads", "kernel", "program", "set_num_threads", "timing",
]  # fmt: skip
