"""What is true at one point of a function: which locals have a value, and whether it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from morph.lang.ir import Pos
from morph.lang.types import Type

# Names that mean something in C++, in the prelude or among a launch's own words; a user's local of
# that name gets a "_".
RESERVED = frozenset(
    """a it team alignas alignof and_eq asm auto bitand bitor bool bool_ case catch char char8_t
    char16_t char32_t class co_await co_return co_yield compl concept const consteval constexpr
    constinit const_cast decltype default delete do double dynamic_cast enum explicit export extern
    false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator
    or_eq private protected public register reinterpret_cast requires short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t xor xor_eq
    i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 Col Vec Local Item Args Rows
    blockIdx threadIdx blockDim gridDim warpSize main abs min max sqrt floor ceil exp log popcount
    exponent orient2d incircle status pending replay launch threads barrier cursor state""".split()
)


Edges = dict[str, tuple[str, str, str]]  # by a loop's variable: the graph, its point's, its edge's


@dataclass(slots=True)
class Flow:
    """The state along one path; ``None`` in place of a Flow means the path has ended."""

    assigned: frozenset[str]
    wrote: Pos | None = None  # the first change of shared state on some path to here

    def copy(self) -> Flow:
        """The same state, for one of two paths."""
        return Flow(self.assigned, self.wrote)


def join(a: Flow | None, b: Flow | None) -> Flow | None:
    """The state where two paths meet."""
    if a is None or b is None:
        return b if a is None else a
    return Flow(a.assigned & b.assigned, a.wrote or b.wrote)


@dataclass(slots=True)
class Loop:
    """An enclosing loop: the states at its breaks."""

    breaks: list[Flow | None] = field(default_factory=list)
    wrote: Pos | None = None  # a write on a path that ends in `continue`


class Retype(Exception):
    """A name that was None turns out to be of type ``type``: check the function again."""

    def __init__(self, name: str, type: Type) -> None:
        super().__init__(name)
        self.name, self.type = name, type


def spelled(name: str) -> str:
    """The name that a user's local gets in the generated text; never that of a temporary."""
    name = "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)
    return name + "_" if name in RESERVED or name.endswith("_") else name


def plain(name: str) -> str:
    """The user's own spelling, for messages."""
    return name[:-1] if name.endswith("_") else name
