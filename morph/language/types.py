"""The types of the language.

Values are scalars, handles (a row of a table), fixed-length vectors, small structs, tuples and
per-item collections.  Objects (graphs, tables, collections, sets, flags) are not values: a type
has the *slot* of the object in one compilation unit, and functions are specialised by slot.
"""

from __future__ import annotations

from dataclasses import dataclass


class Type:
    """Base of every type; compares by value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """A NumPy scalar type: ``kind`` as in ``numpy.dtype.kind``, ``bits`` wide."""

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Weak(Type):
    """A Python literal, which adapts to the type of the other operand (NEP 50): ``i`` or ``f``."""

    kind: str

    def __str__(self) -> str:
        return "int literal" if self.kind == "i" else "float literal"


@dataclass(frozen=True, slots=True)
class Handle(Type):
    """A row of the table or collection in ``slot``; -1 is None."""

    slot: str

    def __str__(self) -> str:
        return f"handle of {self.slot}"


@dataclass(frozen=True, slots=True)
class Vector(Type):
    """``size`` values of one type, a local value of the item."""

    elem: Type
    size: int

    def __str__(self) -> str:
        return f"vector of {self.size} {self.elem}"


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """A named record of values."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Tuple(Type):
    """Several values returned together."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


@dataclass(frozen=True, slots=True)
class Local(Type):
    """A per-item collection of at most ``capacity`` values, passed by reference."""

    elem: Type
    capacity: int

    def __str__(self) -> str:
        return f"local collection of {self.elem}"


@dataclass(frozen=True, slots=True)
class Shared(Local):
    """An array of ``capacity`` numbers, initially 0, shared by the threads of an item."""

    @property
    def bytes(self) -> int:
        """The size of the array."""
        assert isinstance(self.elem, Scalar)
        return self.capacity * self.elem.bits // 8

    def __str__(self) -> str:
        return f"shared array of {self.elem}"


@dataclass(frozen=True, slots=True)
class Rows(Type):
    """Consecutive new rows of the table in ``slot``."""

    slot: str

    def __str__(self) -> str:
        return f"new rows of {self.slot}"


@dataclass(frozen=True, slots=True)
class Nothing(Type):
    """The type of ``None`` and of a function that returns no value."""

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True, slots=True)
class Object(Type):
    """An object as an argument: ``kind`` and slot; for a column also its name.

    Scalars, columns and arrays are views: their slot is that of their table.
    """

    kind: str
    slot: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.slot}{f'.{self.column}' if self.kind == 'column' else ''}"


BOOL = Scalar("bool_", "b", 8)
I8, I16, I32, I64 = (Scalar(f"i{n}", "i", n) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{n}", "u", n) for n in (8, 16, 32, 64))
F16, F32, F64 = (Scalar(f"f{n}", "f", n) for n in (16, 32, 64))
SCALARS = {s.name: s for s in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64)}
NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a store: ``size`` values a row (0: a scalar), ``ref`` the slot it refers to.

    Columns of one ``record`` are interleaved, each ``offset`` bytes from the begin of a row.
    """

    name: str
    dtype: Scalar
    size: int
    ref: str | None
    stride: int  # bytes from one row to the next
    offset: int = 0
    record: int = -1  # index of the record in the store, -1: a separate array

    @property
    def elem(self) -> Type:
        """The type of one value of the column."""
        return Handle(self.ref) if self.ref else self.dtype


@dataclass(frozen=True, slots=True)
class Store:
    """The compiler's description of one object in memory.

    ``kind`` is ``table``, ``collection``, ``set`` or ``flag``.  A collection's items are the column
    ``item`` (absent if it only has other columns).  A set's ``of`` is the slot of its table.
    """

    slot: str
    kind: str
    columns: tuple[Column, ...] = ()
    of: str | None = None
    deletes: bool = False  # rows of the table may be dead
    wide: bool = False  # the table has 2^31 rows or more
    owner_stride: int = 8  # bytes between the claim keys of two rows

    def column(self, name: str) -> Column | None:
        """Find a column by name."""
        return next((c for c in self.columns if c.name == name), None)

    @property
    def listed(self) -> Type | None:
        """The type of a collection's ``item`` (rows or numbers); None if it has other columns."""
        if self.kind != "collection" or [c.name for c in self.columns] != ["item"]:
            return None
        return self.columns[0].elem

    @property
    def lists_rows(self) -> bool:
        """Whether an item is a row of a table, not an entry with columns."""
        return isinstance(self.listed, Handle)


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """A graph: the slots of its tables by name, and the format of its adjacency."""

    slot: str
    tables: tuple[tuple[str, str], ...]  # (name, slot)
    directed: bool
    out_identity: bool  # the k-th entry of the out-adjacency is edge k
    gapped: bool = False  # rows have spare capacity; entries include the other end
    tiled: str = ""  # the direction in which sums over rows use tiles, or empty
