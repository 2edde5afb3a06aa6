"""Sorting of words, and stable argsort, on any device.

On the host words are sorted by ``radix.cpp``, if it is compiled: NumPy takes 4 to 10 times as long.
It is compiled when sorts have taken about as long as its compilation takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from morph.runtime.device import Array
from morph.runtime.threads import get_num_threads, in_threads
from morph.runtime.toolchain.library import HostLibrary

COMPILE_AFTER = (
    1 << 22
)  # words of all sorts so far: NumPy's have taken 0.2 s, as a compilation does
USE_FROM = 1 << 11  # words

PART, LEAST_PARTS = 1 << 17, 4  # least words of a thread; with fewer threads, one is as fast

LIBRARY = HostLibrary(
    Path(__file__).with_name("radix.cpp"),
    {
        "morph_sort_words": "pipi", "morph_read_bits": "pip", "morph_divide_bits": "ipp",
        "morph_count_digits": "piiip", "morph_distribute": "piiipp",
    },
)  # fmt: skip
_sorted = [0]  # words of all sorts without the library


def _library(size: int) -> Any:
    """Return the library for a sort of so many words on the host, or None."""
    if size < USE_FROM:
        return None
    library = LIBRARY.load_if_worthwhile(_sorted[0] + size, COMPILE_AFTER, USE_FROM)
    if library is None:
        _sorted[0] += size
    return library


def sort_words(words: Array, ordered: int = 0) -> None:
    """Sort words in place.

    Parameters
    ----------
    words : (n,) int64 array of any device
        Not negative.
    ordered : int
        Words that differ in so many of their lowest bits only must be in order already.
    """
    on_host = type(words) is np.ndarray and words.flags.c_contiguous and words.dtype == np.int64
    library = _library(words.size) if on_host else None
    if library is None:
        words.sort()
        return
    parts = min(get_num_threads(), words.size // PART)
    if parts >= LEAST_PARTS:
        return _sort_by_threads(library, words, ordered, parts)
    spare = np.empty_like(words)
    library.morph_sort_words(words.ctypes.data, words.size, spare.ctypes.data, ordered)


def _sort_by_threads(library: Any, words: Array, ordered: int, parts: int) -> None:
    """Sort words like ``morph_sort_words``, where threads process parts of the words.

    An interrupt leaves the words as they were.
    """
    ends = [words.size * k // parts for k in range(parts + 1)]

    def by_threads(
        function: Any, array: Array, *given: Any, of_part: Array, to: Any = None
    ) -> None:
        """Call a function for each part of an array, with its row of ``of_part``."""

        def run(first: int, end: int) -> None:
            for k in range(first, end):
                at, size = array.ctypes.data + 8 * ends[k], ends[k + 1] - ends[k]
                function(at, size, *given, of_part[k].ctypes.data, *(() if to is None else (to,)))

        in_threads(run, parts)

    found = np.empty((parts, 3), np.uint64)
    by_threads(library.morph_read_bits, words, of_part=found)
    inner = ends[1:-1]
    in_order = (words[[k - 1 for k in inner]] <= words[inner]).all()
    if found[:, 2].all() and in_order:
        return
    varying = int(np.bitwise_or.reduce(found[:, 0])) & ~int(np.bitwise_and.reduce(found[:, 1]))
    bits = np.empty((2, 64), np.int64)
    digits = library.morph_divide_bits(
        varying >> ordered << ordered, *(x.ctypes.data for x in bits)
    )
    source, target, other = words, np.empty_like(words), np.empty_like(words)
    for shift, width in bits[:, :digits].T.tolist():
        counts = np.empty((parts, 1 << width), np.int64)
        by_threads(library.morph_count_digits, source, shift, width, of_part=counts)
        before = np.cumsum(counts.T).reshape(-1, parts).T - counts
        counts = np.ascontiguousarray(before)
        to = target.ctypes.data
        by_threads(library.morph_distribute, source, shift, width, of_part=counts, to=to)
        source, target, other = target, other, target
    words[...] = source


def stable_order(xp: Any, keys: Array, bits: int | None = None) -> Array:
    """Return the stable order of ``keys``, shape (n,), int64.

    With ``bits``, keys are integers from 0 below ``2**bits``: one sort of (key, position) words is
    faster than a stable ``argsort``, in NumPy and CuPy, except for NumPy's radix sort of 16 bits.
    """
    if xp is np and bits is not None and bits <= 16:
        return np.argsort(keys.astype(np.uint16), kind="stable").astype(np.int64, copy=False)
    width = int(keys.size).bit_length()
    if bits is None or bits + width > 63:
        return xp.argsort(keys, kind="stable").astype(np.int64, copy=False)
    words = keys.astype(np.int64) << width
    words |= xp.arange(keys.size, dtype=np.int64)
    sort_words(words, width)
    words &= (1 << width) - 1
    return words


def order_of(xp: Any, keys: Array) -> Array:
    """Return the stable order of keys of any type, NaN last."""
    if keys.dtype.kind not in "iu" or not keys.size:
        return stable_order(xp, keys)
    low = keys.min()
    bits = (int(keys.max()) - int(low)).bit_length()
    if bits + int(keys.size).bit_length() > 63:
        return stable_order(xp, keys)
    return stable_order(xp, keys.astype(np.int64) - low.astype(np.int64), bits)  # modulo 2**64
