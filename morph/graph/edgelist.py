"""Checks of edge lists and compressed rows from users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from morph.data.conversion import IdCheck, check_all_ids, check_ids
from morph.graph.adjacency import count_keys, is_sorted
from morph.graph.reverses import have_reverses, without_reverse
from morph.language.arguments import integer
from morph.language.dtypes import ID_LIMIT, parse
from morph.language.messages import shown
from morph.runtime.arrays import all_true, listed, refuse_masked
from morph.runtime.device import Array, Device


def id_array(device: Device, x: Any, where: str) -> Array:
    """Return point ids as an array of integers on ``device``, shape (m,).

    Raises
    ------
    TypeError, ValueError
        If they are not integers, not one-dimensional, or 2^31 or more.
    """
    refuse_masked(x, where)
    a = device.asarray(listed(x, where))
    if a.ndim != 1:
        raise ValueError(f"{where} has shape {a.shape}: expected one dimension")
    if a.size == 0:
        return a.astype(np.int32)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{where} holds {a.dtype}: expected integers")
    if a.size > ID_LIMIT:
        raise ValueError(f"{where} has {a.size} edges: at most 2^31 - 1 are possible")
    return a


def checked_edges(
    device: Device, src: Any, dst: Any, weight: Any, n: int | None
) -> tuple[Array, Array, Array | None, int]:
    """Check an edge list and copy it to the device; types are not converted.

    Raises
    ------
    TypeError, ValueError
        The error names the argument, position and value.
    """
    with device.active():
        src, dst = id_array(device, src, "src"), id_array(device, dst, "dst")
        if src.size != dst.size:
            raise ValueError(
                f"src has {src.size} values and dst {dst.size}: expected equal lengths"
            )
        weight = _checked_weight(device, weight, src.size)
        if n is None:
            rows = max((int(a.max()) + 1 for a in (src, dst) if a.size), default=0)
            rows = min(max(rows, 0), ID_LIMIT)
        else:
            rows = integer(n, "n")
            if not 0 <= rows <= ID_LIMIT:
                raise ValueError(f"n = {rows}: expected 0 to 2^31 - 1 points")
        check_all_ids([IdCheck(src, rows, "src", "points"), IdCheck(dst, rows, "dst", "points")])
        return src, dst, weight, rows


def checked_ends(device: Device, dst: Any, weight: Any, n: int) -> tuple[Array, Array | None]:
    """Check the ends of edges in compressed rows, and copy them as `checked_edges` does."""
    with device.active():
        dst = id_array(device, dst, "dst")
        weight = _checked_weight(device, weight, dst.size)
        check_ids(dst, n, "dst", "points")
        return dst, weight


def _checked_weight(device: Device, weight: Any, m: int) -> Array | None:
    if weight is None:
        return None
    refuse_masked(weight, "weight")
    weight = device.asarray(numbers_of(weight))
    if weight.shape != (m,):
        raise ValueError(f"weight has shape {weight.shape} for {m} edges")
    native = parse(weight.dtype, "column 'weight' of edges").dtype
    return weight if weight.dtype.isnative else weight.astype(native)


def numbers_of(weight: Any, name: Callable[[int], str] = "weight[{}]".format) -> Any:
    """Convert a list, or an array of objects, to an array of numbers; return other objects.

    ``name`` names a weight in errors.

    Raises
    ------
    TypeError
        If a value is not a number.
    ValueError
        If an integer among reals would lose digits.
    """
    given = isinstance(weight, list | tuple)
    if not given and getattr(weight, "dtype", np.dtype(int)).kind != "O":
        return weight
    try:
        a = np.asarray(weight)
    except ValueError:  # lists among numbers
        a = np.empty(0, object)
    if a.dtype.kind not in "biuf":
        for k, x in enumerate(weight):
            if not isinstance(x, int | float | np.integer | np.floating | np.bool_):
                raise TypeError(f"{name(k)} is not a number: {shown(x, 40)}")
            if not isinstance(x, float | np.floating) and not -(2**63) <= int(x) < 2**64:
                raise ValueError(f"{name(k)} does not fit 64 bits: {shown(x)}")
        if not given:
            raise TypeError("weights are Python objects: give an array of integers or reals")
    if a.dtype.kind == "f" and a.ndim == 1 and a.size and not all_true(abs(a) < 2**53):
        if all(isinstance(x, int | np.integer | np.bool_) for x in weight) and min(weight) >= 0:
            return np.asarray(weight, np.uint64)  # NumPy would make reals
        for k, x in enumerate(weight):
            if isinstance(x, int | np.integer) and (inexact := float(x)) != int(x):
                raise ValueError(
                    f"{name(k)} is {x}, which beside reals would become {inexact:.0f}: give"
                    " integers alone, or reals"
                )
    return a


def require_symmetric(device: Device, src: Array, dst: Array, n: int) -> None:
    """Check that each edge has its reverse.

    Raises
    ------
    ValueError
        If one has none.
    """
    xp = device.xp
    with device.active():
        out, into = (count_keys(xp, a, n) for a in (src, dst))
        odd = xp.flatnonzero(out != into)
        if odd.size:
            p = int(odd[0])
            raise ValueError(
                f"symmetric=True, but point {p} has {int(out[p])} edges out and {int(into[p])} in; "
                "symmetrize=True adds the reverse edges"
            )
        if not have_reverses(device, src, dst):
            u, v = without_reverse(device.to_host(src), device.to_host(dst))
            raise ValueError(
                f"symmetric=True, but edge {u} -> {v} has no reverse; symmetrize=True adds the "
                "reverse edges"
            )


def checked_offsets(device: Device, offsets: Any, m: int) -> Array:
    """Check the offsets of compressed rows with ``m`` entries, and copy them to the device.

    Raises
    ------
    ValueError
        If they do not increase from 0 to ``m``.
    """
    refuse_masked(offsets, "offsets")
    with device.active():
        offsets = device.asarray(listed(offsets, "offsets"))
        if offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
            raise ValueError("offsets: expected integers, one more than there are points")
        if offsets.size - 1 > ID_LIMIT:
            raise ValueError(f"offsets: {offsets.size - 1} points, at most 2^31 - 1 are possible")
        if int(offsets[0]) or int(offsets[-1]) != m or not is_sorted(offsets):
            raise ValueError(f"offsets: expected to rise from 0 to the {m} edges")
        return offsets
