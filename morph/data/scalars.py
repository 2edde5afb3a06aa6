"""Named numbers on a device, for the reductions of kernels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from morph.data.row import Row
from morph.data.table import Table
from morph.runtime.device import Device


class Scalars(Row):
    """Named numbers on a device: reduction variables of kernels and programs.

    Kernels change them by atomic operations, as in ``atomic_add(totals.x, p.x)``; kernels,
    programs and the host read and assign them as attributes.  A `foreach` over scalars runs its
    kernel once.

    Parameters
    ----------
    where : str, Device, or Graph, Table or other object on a device, optional
        The device; see `morph.set_device` for the default.
    **values : number, or array of shape (size,)
        Initial values by name: a Python ``int`` makes an ``i64``, a ``float`` an ``f64``, a NumPy
        scalar a number of its type, an array a vector.

    Raises
    ------
    TypeError
        If a value is not a number.
    ValueError
        If a name has another meaning on rows.
    """

    __slots__ = ("__weakref__",)
    morph_scalars: ClassVar[bool] = True  # for the compiler, which does not import this module

    def __new__(cls, where: Any = None, **values: Any) -> Any:
        """Make scalars; for a partitioned graph, a copy on each part."""
        on_parts = getattr(type(where), "on_parts", None)
        return object.__new__(cls) if on_parts is None else on_parts(where, cls, **values)

    def __init__(self, where: Any = None, **values: Any) -> None:
        table, specs = Table("scalars", where), {}
        for name, value in values.items():
            a = np.asarray(value)
            if a.ndim > 1 or a.dtype.kind not in "biuf":
                raise TypeError(f"scalar {name!r} is a number or a vector, not {value!r}")
            specs[name] = (a.dtype, a.size) if a.ndim else a.dtype, value
        table.add_columns(specs)
        table.extend(1)
        super().__init__(table, 0)

    @property
    def device(self) -> Device:
        """The device of the numbers."""
        return self.table.device

    @property
    def version(self) -> int:
        """Changes with each address, like the version of a table."""
        return self.table.version

    def __reduce__(self) -> Any:
        return restored, (self.table,)

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)}" for name in self.table.columns)
        return f"<Scalars on {self.device.name}: {', '.join(values)}>"


def restored(table: Table) -> Scalars:
    """Make scalars from a table of one row, for pickles."""
    made: Scalars = Scalars.__new__(Scalars)
    Row.__init__(made, table, 0)
    return made
