"""Comparison of edges with their reverses, by ``reverses.cpp`` for many edges on a CPU."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from morph.runtime.device import Array, Device
from morph.runtime.threads import in_threads
from morph.runtime.toolchain.library import HostLibrary

LEAST = 1 << 24  # edges from which the library is used, though it takes 0.1 s to compile
LEAST_MADE = 1 << 13  # edges from which it is used if it is compiled already
CHUNK = 1 << 15  # edges hashed at once by NumPy: they fit the cache
CHUNK_ON_GPU = 1 << 24  # limits temporary memory
SALT = np.uint64(random.SystemRandom().getrandbits(64))
FACTORS = np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9E3779B97F4A7C15)

LIBRARY = HostLibrary(
    Path(__file__).with_name("reverses.cpp"), {"morph_part": "", "morph_sums": "pppiiiiiip"}
)


def have_reverses(device: Device, src: Array, dst: Array, weight: Array | None = None) -> bool:
    """Whether as many edges lead from u to v as from v to u, for all points u and v.

    With ``weight``, as many of equal weight.  Tested by a salted hash of the ends, which is added
    for edges to larger ids and subtracted for edges to smaller ids: of a list that lacks a reverse,
    the sum is 0 for one in 2**64 salts.
    """
    made = _sums(src, dst, weight) if device.on_host else None
    sums = _sums_of_chunks(device, src, dst, weight) if made is None else made
    return sum(sums) % 2**64 == 0


def _sums(src: Array, dst: Array, weight: Array | None) -> list[int] | None:
    """Return sums of hashes by the library; None if it cannot be used, or NumPy is faster."""
    library = LIBRARY.load_if_worthwhile(src.size, LEAST, LEAST_MADE)
    arrays = [a for a in (src, dst, weight) if a is not None]
    if library is None or not all(a.flags.c_contiguous and a.dtype.isnative for a in arrays):
        return None
    kind, size, values = "", 0, None
    if weight is not None:
        kind, size, values = weight.dtype.kind, weight.itemsize, weight.ctypes.data
    if src.dtype != np.int32 or dst.dtype != np.int32 or (kind == "f" and size not in (4, 8)):
        return None
    parts = -(-src.size // library.morph_part())
    sums = np.empty(parts, np.uint64)
    given = src.ctypes.data, dst.ctypes.data, values, size, kind == "f", src.size
    out, salt = sums.ctypes.data, int(SALT.view(np.int64))
    in_threads(lambda k, end: library.morph_sums(*given, k, end, salt, out), parts)
    return [int(x) for x in sums]


def _sums_of_chunks(device: Device, src: Array, dst: Array, weight: Array | None) -> list[int]:
    """Return sums of hashes by NumPy or CuPy."""
    xp, sums = device.xp, list[int]()
    step = CHUNK if device.on_host else CHUNK_ON_GPU

    def add(first: int, end: int) -> None:
        for at in range(first * step, min(end * step, src.size), step):
            u, v = (a[at : at + step].astype(np.int64) for a in (src, dst))
            h = _mixed((xp.minimum(u, v) << 32 | xp.maximum(u, v)).view(np.uint64) ^ SALT)
            if weight is not None:
                w = weight[at : at + step]
                w = (w.astype(np.float64) + 0.0) if w.dtype.kind == "f" else w.astype(np.int64)
                h = _mixed(h + w.view(np.uint64))
            sums.append(int((h * xp.sign(v - u).view(np.uint64)).sum(dtype=np.uint64)))

    parts = -(-src.size // step)
    if device.on_host:
        in_threads(add, parts)
    else:
        with device.active():
            add(0, parts)
    return sums


def _mixed(h: Array) -> Array:
    for factor in FACTORS:
        h = h * factor
        h ^= h >> np.uint64(29)
    return h


def without_reverse(src: Array, dst: Array) -> tuple[int, int]:
    """Return the ends of an edge without reverse, which must exist; arrays of the host."""
    src, dst = src.astype(np.int64), dst.astype(np.int64)
    forth, again = np.sort(src << 32 | dst), np.sort(dst << 32 | src)
    k = int((forth != again).argmax())
    key = int(min(forth[k], again[k]))
    u, v = key >> 32, key & 0xFFFFFFFF
    return (u, v) if forth[k] < again[k] else (v, u)
