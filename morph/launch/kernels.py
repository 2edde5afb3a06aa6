"""Functions of the language as host objects, made by `func` and `kernel`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, Self

from morph.language.definition import Definition, static_params
from morph.language.hooks import Hook
from morph.language.lines import remember
from morph.language.messages import shown
from morph.language.source import read

TARGETS = ("cpu", "cuda")  # of generated C++
IMPORTED = time.time()  # earlier than the import of the compiler, see `records`
launch_on_parts: Hook[Any] = Hook()  # provided by partition.execution


class Function:
    """A function of the language; made by `func`, called only from kernels.

    Attributes
    ----------
    interruptible : bool
        Whether signal handlers run during a launch, and end it if they raise.
    made_by : (str, tuple) or None
        The Python function that returned this one, as ``"module:name"``, and its arguments, with
        which `morph.launch.common_units` makes it again.  None for a function of a module.
    """

    kind = "func"
    made_by: tuple[str, tuple[Any, ...]] | None = None
    interruptible = True

    def __init__(self, function: Callable[..., Any], cpp: str | None = None) -> None:
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            raise TypeError(
                f"@{self.kind} decorates a function made by `def`, not {shown(function)}"
            )
        self.__wrapped__, self.cpp = function, cpp
        self.__name__ = getattr(function, "__name__", "?")
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__doc__ = function.__doc__
        self._definition: Definition | None = None
        self.lines = remember(function)  # the lines of its file

    @property
    def definition(self) -> Definition:
        """The parsed source; read when first needed."""
        if self._definition is None:
            assert isinstance(self.__wrapped__, FunctionType)
            self._definition = Definition(self.kind, read(self.__wrapped__, self.lines), self.cpp)
        return self._definition

    @property
    def part(self) -> int | None:
        """The index of this part of a kernel divided by ``barrier()``; None for a whole kernel."""
        return None if self._definition is None else self._definition.part

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> str:
        """Pickle the name, as for Python functions: loading imports the module."""
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
        """Raise an error: only kernels call functions of the language."""
        raise TypeError(
            f"{self.__name__} is a @{self.kind}: it runs inside kernels, not on the host"
        )

    def __repr__(self) -> str:
        return f"<morph {self.kind} {self.__name__}>"


class Launchable(Function):
    """A function that the host launches: a kernel or a program.

    Attributes
    ----------
    single_block : bool
        Whether all launches are executed by one block of a GPU, or one CPU thread: the code is then
        compiled for that, and is shorter.  They have to be short: they cannot be interrupted.
    launches : dict
        Each `morph.launch.launcher.Launch` bound so far, by the key of its arguments; latest last.
    units : dict
        The compiled units, and the positions of the objects in their slots, by the key of the
        arguments' layouts; see `morph.launch.lookup`.
    statics : tuple of int
        The positions of the arguments (without the item) whose values are compiled in.
    """

    single_block = False

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.launches: dict[Any, Any] = {}
        self.units: dict[Any, Any] = {}
        first = int(self.kind == "kernel")  # the item
        self.statics = tuple(i - first for i in static_params(function) if i >= first)

    def source(self, target: str = "cpu") -> str:
        """The C++ that was generated for the latest launch.

        Parameters
        ----------
        target : {"cpu", "cuda"}
            The text is the same for both; the targets differ in the prelude.

        Raises
        ------
        ValueError
            If nothing has been launched yet, or ``target`` is neither.
        """
        if target not in TARGETS:
            raise ValueError(f"target is 'cpu' or 'cuda', not {shown(target)}")
        text: str = self._latest().compiled.text
        return text

    def edit(self, text: str) -> None:
        """Replace the generated text of the latest launch, for debugging.

        Parameters
        ----------
        text : str
            C++ with the same entry and ``struct Args`` as `source` printed.
        """
        self._latest().edit(text)

    def _latest(self) -> Any:
        if not self.launches:
            raise ValueError(
                f"{self.__name__} has not been launched yet: its code follows from its arguments"
            )
        return list(self.launches.values())[-1]


class Kernel(Launchable):
    """Function that `foreach` runs for each item of a table or collection; made by `kernel`."""

    kind = "kernel"

    @cached_property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that ``barrier()`` divides this one into; none if it has no barrier."""
        return tuple(self._part(part) for part in self.definition.parts)

    def _part(self, definition: Definition) -> Kernel:
        assert isinstance(self.__wrapped__, FunctionType)
        part = Kernel(self.__wrapped__)
        part._definition = definition
        return part

    def __call__(self, *args: Any) -> Any:
        """Raise an error: kernels are executed by `foreach`."""
        raise TypeError(
            f"{self.__name__} is a @kernel: run it with foreach(items, {self.__name__}, ...)"
        )
