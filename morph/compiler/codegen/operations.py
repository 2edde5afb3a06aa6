"""Operations of the IR as function objects and functions of the prelude."""

from __future__ import annotations

from morph.language.types import Scalar, Type

ATOMIC = {  # read-modify-write of a place in memory
    "add": "Plus", "sub": "Minus", "min": "Min", "max": "Max", "and": "And", "or": "Or",
    "xor": "Xor", "exch": "Put",
}  # fmt: skip
ELEMENT = ATOMIC | {"cas": "PutIf"}  # the same of an element of a shared array
CROSSING = {  # combines the values of a graph's parts
    **{op: ATOMIC[op] for op in ("add", "min", "max", "or", "and")},
    "sum": "Sum", "set": "Put", "first": "First",
}  # fmt: skip
# Reductions of loops.  `min` and `max` of the language, unlike the atomics, propagate nan: by
# `Minimum` and `Maximum`, and by specialisations of `Min` and `Max` for lanes.
JOINED = {"+": "Plus", "|": "Or", "&": "And", "min": "Minimum", "max": "Maximum"}  # in memory
OVER_LANES = {"+": "Plus", "|": "Or", "&": "And", "min": "Min", "max": "Max"}
COMBINED = {"+": "sum_of", "|": "Or::of", "&": "And::of", "min": "min_of", "max": "max_of"}


def identity(how: str, t: Type) -> float:
    """The identity of a reduction."""
    assert isinstance(t, Scalar)
    if how == "+":
        return -0.0 if t.kind == "f" else 0
    if how == "|":
        return 0
    if how == "&":
        return 2**t.bits - 1 if t.kind == "u" else -1
    if t.kind == "f":
        return float("inf") if how == "min" else float("-inf")
    least, most = (
        (0, 2**t.bits - 1) if t.kind == "u" else (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1)
    )
    return most if how == "min" else least
