"""The data types of columns: NumPy's, fixed-length vectors of them, and references to rows."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from morph.language.messages import shortened, shown

bool_ = np.bool_
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
f16, f32, f64 = np.float16, np.float32, np.float64

NAMES = {
    np.dtype(t): name
    for name, t in {
        "bool_": bool_, "i8": i8, "i16": i16, "i32": i32, "i64": i64, "u8": u8, "u16": u16,
        "u32": u32, "u64": u64, "f16": f16, "f32": f32, "f64": f64,
    }.items()
}  # fmt: skip

ID_LIMIT = 2**31 - 1
"""Most rows a store can have: ids are int32."""


@dataclass(frozen=True, slots=True)
class Vec:
    """``size`` values of ``dtype`` in each row; made by `vec`."""

    dtype: Any
    size: int


def vec(dtype: Any, size: int) -> Vec:
    """Describe a fixed-length vector column: ``points.add("xy", vec(f64, 2))``."""
    return Vec(dtype, size)


class Ref:
    """Describe a column that refers to rows of a table; ``Ref("points")[3]`` refers to three.

    Parameters
    ----------
    table : str or Table
        The table referred to.  A name is resolved when it is needed, so that a table may refer to
        itself and to tables that are added later.
    """

    __slots__ = ("name", "size", "table")

    def __init__(self, table: Any, size: int = 0) -> None:
        if not isinstance(table, str) and getattr(table, "kind", None) != "table":
            raise TypeError(f"Ref takes a table or its name, not {shown(table)}")
        self.name: str = table if isinstance(table, str) else table.name
        self.table: Any = None if isinstance(table, str) else table
        self.size = size

    def __getitem__(self, size: int) -> Ref:
        return Ref(self.table or self.name, _checked_size(size, "Ref"))

    def __repr__(self) -> str:
        return f"Ref({self.name!r})" + (f"[{self.size}]" if self.size else "")


@dataclass(frozen=True, slots=True)
class Spec:
    """A normalised column description; ``size`` is 0 for a scalar."""

    dtype: np.dtype[Any]
    size: int = 0
    ref: str | None = None
    table: Any = None


_SCALARS = {dtype.type: Spec(dtype) for dtype in NAMES}


def parse(spec: Any, where: str) -> Spec:
    """Normalise an accepted description of a column.

    Raises
    ------
    TypeError
        If ``spec`` is not a boolean, integer or real type of at most 64 bits, a vector of one, or
        a `Ref`.
    ValueError
        If a vector is shorter than 1.
    """
    if isinstance(spec, type) and (known := _SCALARS.get(spec)) is not None:
        return known
    if isinstance(spec, Ref):
        return Spec(np.dtype(i32), spec.size, spec.name, spec.table)
    if isinstance(spec, Vec):
        spec = (spec.dtype, spec.size)
    if isinstance(spec, tuple) and len(spec) == 2:
        inner = parse(spec[0], where)
        if inner.size:
            raise TypeError(f"{where}: a vector of vectors is not a column type")
        return Spec(inner.dtype, _checked_size(spec[1], where), inner.ref, inner.table)
    try:
        dtype = np.dtype(spec) if spec is not None else None
    except TypeError:
        dtype = None
    if dtype is not None and dtype.subdtype is not None:
        base, shape = dtype.subdtype
        if len(shape) == 1:
            return parse((base, shape[0]), where)
        dtype = None
    native = dtype.newbyteorder("=") if dtype is not None else None
    if native not in NAMES:
        raise TypeError(
            f"{shortened(where, 60)}: {shown(spec, 40)} is not a column type; accepted are"
            f" {', '.join(NAMES.values())}, vec(type, n) and Ref(table)"
        )
    return Spec(np.dtype(native.name))


def _checked_size(size: Any, where: str) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"{where}: the length of a vector is an int, not {shown(size)}")
    if size < 1:
        raise ValueError(f"{where}: a vector has at least 1 value, not {size}")
    return int(size)


def checked_capacity(capacity: Any) -> int:
    """Return a capacity as an int from 0 to 2^31 - 1."""
    try:
        rows = index(capacity)
    except TypeError:
        raise TypeError(f"a capacity is an integer, not {shown(capacity)}") from None
    if not 0 <= rows <= ID_LIMIT:
        raise ValueError(f"a capacity is from 0 to 2^31 - 1, not {shown(rows)}")
    return rows
