"""What is true at one point of a function: which locals have a value, whether a write came before."""

from __future__ import annotations

from dataclasses import dataclass, field

from morph.lang.ir import Pos

# Names that mean something in C++ or in the prelude; a user's local of that name gets a "_".
RESERVED = frozenset(
    """a it team alignas alignof and_eq asm auto bitand bitor bool_ case catch char class compl const
    constexpr const_cast decltype default delete do double dynamic_cast enum explicit export extern
    false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq
    private protected public register reinterpret_cast short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t xor xor_eq i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64
    Col Vec Local Item Args Rows blockIdx threadIdx blockDim gridDim warpSize main abs min max
    sqrt floor ceil exp log popcount orient2d incircle""".split()
)


@dataclass(slots=True)
class Flow:
    """The state along one path; ``None`` in place of a Flow means the path has ended."""

    assigned: frozenset[str]
    wrote: Pos | None = None  # the first change of shared state on some path to here

    def copy(self) -> Flow:
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


def spelled(name: str) -> str:
    """The name that a user's local gets in the generated text."""
    return name + "_" if name in RESERVED or name.endswith("_") else name
