"""Kernels, functions and programs: where the compiler, the build and the run meet.

`foreach` finds (or makes) the compiled unit that fits its arguments, fills the unit's argument
words, launches it, and, if a store was too small, grows it and replays just the items that did not
run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self, overload

from morph.data.versions import Outdated
from morph.language.bundles import flat
from morph.language.definition import Definition
from morph.language.lines import keep
from morph.language.source import read
from morph.launch.checked import checked, is_checked
from morph.runtime.timing import timing

if TYPE_CHECKING:
    from morph.launch.launcher import Launch


BALANCE = ("auto", "thread", "warp", "grid")


def launch_for(*request: Any) -> tuple[Launch | None, tuple[Any, ...]]:  # noqa: F811
    """Import the compiler, which takes half of ``import morph``, at the first launch."""
    global launch_for
    from morph.launch.launcher import launch_for  # noqa: PLC0415

    return launch_for(*request)


def available_threads() -> int:
    """Give how many CPU threads a launch has now; fewer while other processes use the cores."""
    from morph.launch.launcher import available_threads as given  # noqa: PLC0415

    return given()


def get_num_threads() -> int:
    """Give how many threads a launch on the CPU uses at most.

    Returns
    -------
    int
        What `set_num_threads` set; else the environment variable ``OMP_NUM_THREADS``; else the
        number of cores that this process may run on.
    """
    from morph.launch.launcher import threads  # noqa: PLC0415

    return threads()


def set_num_threads(n: int | None) -> None:
    """Set how many threads a launch on the CPU uses at most, from the next one on.

    Parameters
    ----------
    n : int or None
        1 to 256; None for the default, see `get_num_threads`.

    Raises
    ------
    TypeError
        If ``n`` is neither.
    ValueError
        If it is out of range.

    Notes
    -----
    A launch uses fewer threads where it has little to do, and while other processes use the cores.
    """
    from morph.launch.launcher import set_threads  # noqa: PLC0415

    set_threads(n)


class Function:
    """A function of the language; made by `func`, called only from kernels.

    Attributes
    ----------
    interruptible : bool
        Whether signal handlers run while it is launched, and end the launch if they raise.
    """

    kind = "func"
    interruptible = True

    def __init__(self, function: Callable[..., Any], cpp: str | None = None) -> None:
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            raise TypeError(f"@{self.kind} decorates a function made by `def`, not {function!r}")
        self.__wrapped__, self.cpp = function, cpp
        self.__name__ = getattr(function, "__name__", "?")
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__doc__ = function.__doc__
        self._definition: Definition | None = None
        self._lines = keep(function)

    @property
    def definition(self) -> Definition:
        """The parsed source; read when first needed."""
        if self._definition is None:
            assert isinstance(self.__wrapped__, FunctionType)
            self._definition = Definition(self.kind, read(self.__wrapped__, self._lines), self.cpp)
        return self._definition

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> str:
        """Give `pickle` the name, as of a function: who loads it imports the module."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is not self:
            raise TypeError(
                f"@{self.kind} {self.__qualname__} of {self.__module__} cannot be pickled: only"
                " what a module defines under its name, outside functions, can"
            )
        return str(self.__qualname__)

    def __call__(self, *args: Any) -> Any:
        """Refuse: only kernels call functions of the language."""
        raise TypeError(
            f"{self.__name__} is a @{self.kind}: it runs inside kernels, not on the host"
        )

    def __repr__(self) -> str:
        return f"<morph {self.kind} {self.__name__}>"


class Kernel(Function):
    """What `foreach` runs for each item of a table or collection; made by `kernel`."""

    kind = "kernel"

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.launches: dict[Any, Launch] = {}

    def __call__(self, *args: Any) -> Any:
        """Refuse: a kernel runs through `foreach`."""
        raise TypeError(
            f"{self.__name__} is a @kernel: run it with foreach(items, {self.__name__}, ...)"
        )

    def source(self, target: str = "cpu") -> str:
        """The C++ that was generated for the latest launch.

        Parameters
        ----------
        target : {"cpu", "cuda"}
            With ``"cpu"`` or ``"cuda"``: one text serves both; the target names the prelude's side.

        Raises
        ------
        ValueError
            If the kernel has not been launched yet, or ``target`` is neither.
        """
        return _source(self, target)

    def edit(self, text: str) -> None:
        """Replace the generated text of the latest launch, for debugging.

        Parameters
        ----------
        text : str
            C++ with the same entry and ``struct Args`` as `source` printed.
        """
        _latest(self).edit(text)


class Program(Function):
    """A loop over kernels that runs as one launch; made by `program`."""

    kind = "program"

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.launches: dict[Any, Launch] = {}

    def __call__(self, *args: Any) -> Any:
        """Run fused; on the ``python`` device, or if it is `checked`, eagerly."""
        if is_checked():
            return self.eager(*args)
        try:
            launch, given = launch_for(self, None, args, None)
            return self._interpreted(args) if launch is None else launch.run(given, None)
        except Outdated:
            return self(*args)

    def alone(self, *args: Any) -> Any:
        """Run by one thread of a CPU, or one block of a GPU: others would wait for so little work.

        In what is computed, and on another device, as a plain call.
        """
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
        """Run as plain Python, launch by launch; what is accepted, and the result, is the same."""
        from morph.launch.launcher import accept  # noqa: PLC0415

        accept(self, args)
        return self._interpreted(args)

    def _interpreted(self, args: tuple[Any, ...]) -> Any:
        """Run as plain Python; the result is a Python scalar, as that of a fused launch."""
        result = self.__wrapped__(*args)
        return result.item() if hasattr(result, "item") else result

    def source(self, target: str = "cpu") -> str:
        """The C++ that was generated for the latest run; see `Kernel.source`."""
        return _source(self, target)

    def edit(self, text: str) -> None:
        """Replace the generated text; see `Kernel.edit`."""
        _latest(self).edit(text)


def _latest(what: Kernel | Program) -> Launch:
    if not what.launches:
        raise ValueError(
            f"{what.__name__} has not been launched yet: its code follows from its arguments"
        )
    return list(what.launches.values())[-1]


def _source(what: Kernel | Program, target: str) -> str:
    if target not in ("cpu", "cuda"):
        raise ValueError(f"target is 'cpu' or 'cuda', not {target!r}")
    return _latest(what).compiled.text


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
        ``while``, ``if``, scalars, `foreach`, swaps of collections, flags.  What it computes does
        not depend on the decorator: without it, the same function runs launch by launch.

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
    check: bool | None = None,
) -> None:
    """Run a kernel once for each row of a table or item of a collection, in parallel.

    Parameters
    ----------
    items : Table or Collection
        What to run over; deleted rows are passed over.
    kernel : Kernel
        Its first parameter is the item, the others are ``args``.
    *args : Graph, Table, Collection, Set, Flag, Function, or scalar
        All objects on the device of ``items``.
    where : callable, optional
        A lambda of the item; items for which it is false are passed over.
    together : bool
        Of a kernel with ``single(collection)``: all items gather and claim before any goes on, so
        that who wins depends on their positions in ``items`` and not on the number of threads.
    balance : {"auto", "thread", "warp", "grid"}
        How many threads share the edges of one item, where the kernel ends in a loop over them that
        can be shared: one; those of a warp; all; or, by default, as many as there are edges for.
        The result is the same.
    ahead : Collection, optional
        One that the kernel adds to, with rows and columns like those of ``items``: in a program,
        what is added to it may be run at once, by whoever added it, and is then not in it.  So what
        the program computes must not depend on which items run in which step.
    check : bool, optional
        Check every access, see `checked`; by default as the block around it, or MORPH_CHECK.

    Raises
    ------
    LanguageError
        If the kernel is not in the language, or does not fit its arguments.
    CheckError
        If the launch is checked, and an item breaks a rule of the language.
    TypeError
        If an argument is none of the above, or lies on another device.
    ValueError
        If ``together`` are more items than a GPU has threads at once: 256 to 512 for each of its
        multiprocessors; if ``balance`` is none of these; or if ``ahead`` is not among ``args``.

    Notes
    -----
    One foreach is one launch and one barrier: all its changes are seen by the next.
    """
    if kernel.__class__ is not Kernel:
        raise TypeError(f"foreach runs a @kernel, not {kernel!r}")
    if where is not None and where.__class__ is not FunctionType:
        raise TypeError(f"where is a lambda of the item, not {where!r}")
    if balance not in BALANCE:
        raise ValueError(f"balance is one of {', '.join(map(repr, BALANCE))}, not {balance!r}")
    if ahead is not None and not any(ahead is x for x in flat(args)):
        raise ValueError(f"ahead is one of the collections that the kernel is given, not {ahead!r}")
    checks = is_checked(check)
    try:
        launch, given = launch_for(kernel, items, args, where, bool(together), balance, checks)
        assert launch is not None
        launch.run(given, where)
    except Outdated:
        options: dict[str, Any] = {"together": together, "balance": balance, "check": check}
        foreach(items, kernel, *args, where=where, **options)


foreach.morph_foreach = True  # type: ignore[attr-defined]


__all__ = [
    "Function", "Kernel", "Program", "available_threads", "checked", "foreach", "func",
    "get_num_threads", "kernel", "program", "set_num_threads", "timing",
]  # fmt: skip
