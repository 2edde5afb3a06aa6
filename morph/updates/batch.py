"""Batches of edge changes: checks of the arguments, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from morph.data.column import ColumnView
from morph.data.conversion import check_alive, check_ids, prepare
from morph.language.messages import shown
from morph.runtime.arrays import any_true, listed, refuse_masked, refuse_rounded
from morph.runtime.device import Array, Device, is_host

if TYPE_CHECKING:
    from morph.graph import Graph

FEW = 1 << 12  # values that are checked on the host: synchronising with a GPU takes longer


def parallel_edges(g: Graph, ids: Array) -> int:
    """The number of edges ``ids`` parallel to an edge outside of them, or to an earlier one."""
    xp, columns = g.device.xp, g.edges.columns
    with g.device.active():
        src, dst = columns["src"].array[ids], columns["dst"].array[ids]
        live = candidates(g, src)
        mine, counts = xp.unique(pair_keys(src, dst), return_counts=True)
        there = pair_keys(columns["src"].array[live], columns["dst"].array[live])
        there.sort()
        total = xp.searchsorted(there, mine, "right") - xp.searchsorted(there, mine, "left")
        return int((counts - (total == counts)).sum())


def candidates(g: Graph, src: Array) -> Array:
    """Ids of all live edges that begin at one of the points ``src``, ascending, int64."""
    xp, edges = g.device.xp, g.edges
    mark = xp.zeros(len(g.points), bool)
    mark[src] = True
    found = mark[edges.columns["src"].array[: len(edges)]]  # -1, no point, reads the last one
    if edges.deletes:
        found &= edges.alive
    return xp.flatnonzero(found)


def pair_keys(src: Array, dst: Array) -> Array:
    """Pairs of points as numbers."""
    return (src.astype(np.int64) << 32) | dst.astype(np.int64)


# --- what is given -------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Named:
    """Edges by id, or by their ends; and the weights they are to have."""

    ids: Array | None
    src: Array | None = None
    dst: Array | None = None
    weight: Array | None = None

    @property
    def count(self) -> int:
        """The number of named edges."""
        a = self.src if self.ids is None else self.ids
        return 0 if a is None else int(a.size)


@dataclass(slots=True, eq=False)
class Batch:
    """A checked batch: arrays on the graph's device, of the columns' types; if few, on the host."""

    inserts: dict[str, Array]
    count: int  # of inserts
    deletes: Named
    updates: Named
    points: Array

    @classmethod
    def of(
        cls, g: Graph, inserts: Any, deletes: Any, updates: Any, points: Any, nonnegative: bool
    ) -> Batch:
        """Check what `Graph.apply` was given; nothing has changed if this raises."""
        with g.device.active():
            given, count = _inserts(g, inserts)
            batch = cls(
                given, count, _named(g, deletes, "deletes"), _updates(g, updates),
                _ids(g, points, "delete_points", g.points),
            )  # fmt: skip
            if nonnegative:
                _refuse_negative(given.get("weight"), "inserts")
                _refuse_negative(batch.updates.weight, "updates")
            return batch


def _inserts(g: Graph, given: Any) -> tuple[dict[str, Array], int]:
    if given is None:
        return {}, 0
    edges = g.edges
    if not isinstance(given, Mapping):
        names = ("src", "dst", "weight")
        if not _is_columns(given, "inserts"):
            raise TypeError("inserts: expected (src, dst), (src, dst, weight), or columns by name")
        given = dict(zip(names, given, strict=False))
    for name in ("src", "dst"):
        if name not in given:
            raise TypeError(f"inserts: column {name!r} is missing")
    src, dst = ends = [_checked_ids(g, given[n], f"inserts.{n}", g.points) for n in ("src", "dst")]
    if src.size != dst.size:
        raise ValueError(f"inserts: {src.size} src and {dst.size} dst: expected equal lengths")
    count, rows = int(src.size), {"src": src, "dst": dst}
    others = {
        name: a
        if isinstance(a, int | float | np.generic)
        else _row(g.device, a, f"inserts.{name}", edges.columns.get(name))
        for name, a in given.items()
        if name not in rows
    }
    try:
        _, arrays = prepare(edges, count, others)
    except (TypeError, ValueError, OverflowError) as e:
        raise _named_by(e, "inserts") from None
    for name, a in arrays.items():
        rows[name] = a if a.ndim else np.full(count, a)
    if g.points.deletes:
        for name, a in zip(("src", "dst"), ends, strict=True):
            check_alive(g.points, g.device.asarray(a), f"inserts.{name}")
    if is_host(src) and all(map(is_host, rows.values())):
        return rows, count
    return {name: g.device.asarray(a) for name, a in rows.items()}, count


def _is_columns(given: Any, what: str) -> bool:
    """Whether an argument is a tuple, or list, of two or three arrays.

    Raises
    ------
    TypeError
        If it is a list of sequences, which may be meant as a list of edges.
    """
    if isinstance(given, list) and any(isinstance(x, list | tuple) for x in given):
        raise TypeError(
            f"{what}: {shown(given, 40)} may mean a list of edges; expected a tuple of arrays,"
            " such as (src, dst): tuple(zip(*edges))"
        )
    return isinstance(given, tuple | list) and len(given) in (2, 3)


def _named_by(e: Exception, what: str) -> Exception:
    """The same error, said of the argument."""
    text = str(e)
    own = text.startswith("edges.")
    return type(e)(what + text.removeprefix("edges") if own else f"{what}: {text}")


def _row(device: Device, a: Any, where: str, column: Any = None) -> Any:
    """One value as an array of one; vectors of a vector column stay rows."""
    if isinstance(a, ColumnView):
        a = a.array
    refuse_masked(a, where)
    given = a
    if not hasattr(a, "__cuda_array_interface__") and not isinstance(a, np.ndarray):
        a = device.to_host(a) if hasattr(a, "__dlpack__") else np.asarray(listed(a, where))
    if column is not None and column.dtype.kind == "f":
        refuse_rounded(a, where, column.dtype.type, given)
    wanted = 2 if column is not None and column.size else 1
    if a.ndim == wanted - 1:
        a = a.reshape(1, *a.shape)
    if a.ndim != wanted:
        raise ValueError(f"{where} has shape {a.shape}: expected {wanted} dimension(s)")
    if not device.on_host and is_host(a) != (a.size <= FEW):
        return device.asarray(a) if is_host(a) else device.to_host(a)
    return a


def _checked_ids(g: Graph, given: Any, where: str, table: Any) -> Array:
    a = _row(g.device, given, where)
    if a.size and a.dtype.kind not in "iu":
        raise TypeError(f"{where} holds {a.dtype}: expected integers")
    check_ids(a, len(table), where, table.name)
    return a.astype(np.int32, copy=False)


def _ids(g: Graph, given: Any, where: str, table: Any) -> Array:
    if given is None:
        return none(g.device)
    return _checked_ids(g, given, where, table)


def none(device: Device) -> Array:
    """No ids."""
    if device.name not in _none:
        _none[device.name] = device.zeros(0, np.int32)
    return _none[device.name]


_none: dict[str, Array] = {}


def _named(g: Graph, given: Any, what: str) -> Named:
    if given is None:
        return Named(none(g.device))
    if not isinstance(given, tuple):
        return Named(_ids(g, given, what, g.edges))
    if len(given) != 2:
        raise TypeError(f"{what}: a tuple is (src, dst), not of {len(given)}")
    src, dst = (
        _ids(g, a, f"{what}.{n}", g.points) for n, a in zip(("src", "dst"), given, strict=True)
    )
    if src.size != dst.size:
        raise ValueError(f"{what}: {src.size} src and {dst.size} dst: expected equal lengths")
    return Named(None, src, dst)


def _updates(g: Graph, given: Any) -> Named:
    if given is None:
        return Named(none(g.device))
    if not _is_columns(given, "updates"):
        raise TypeError("updates: expected (ids, weight) or (src, dst, weight)")
    if "weight" not in g.edges.columns:
        raise TypeError(f"updates: {g.edges.no_column('weight')}")
    named = _named(g, tuple(given[:2]) if len(given) == 3 else _as_list(given[0]), "updates")
    weight = _row(g.device, given[-1], "updates.weight", g.edges.columns["weight"])
    if weight.shape[0] != named.count:
        raise ValueError(f"updates: {weight.shape[0]} weights for {named.count} edges")
    try:
        _, arrays = prepare(g.edges, named.count, {"weight": weight})
    except (TypeError, ValueError, OverflowError) as e:
        raise _named_by(e, "updates") from None
    named.weight = arrays["weight"]
    return named


def _as_list(ids: Any) -> Any:
    """Ids given as a tuple, where that means no pair."""
    return list(ids) if isinstance(ids, tuple) else ids


def _refuse_negative(weight: Array | None, what: str) -> None:
    if weight is None or weight.dtype.kind not in "if" or not weight.size:
        return
    bad = ~(weight >= 0)  # and what is no number
    if any_true(bad):
        k = int(bad.argmax())
        kind = "negative weights are" if weight[k] < 0 else "NaN is"
        raise ValueError(f"{what}.weight[{k}] = {weight[k]}: {kind} refused here")
