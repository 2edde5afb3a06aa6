"""Reproducible random words by PCG64, the same on every device and with every version of NumPy.

PCG64 is a 128-bit linear congruential generator, whose state after any number of steps is a linear
function of the initial state.  On a GPU each item computes its state from the initial state of its
stream, and a launch draws from many streams.

References
----------
M. O'Neill: PCG: a family of simple fast space-efficient statistically good algorithms for random
number generation.  Harvey Mudd College, HMC-CS-2014-0905, 2014.
F. Brown: Random number generation with arbitrary strides.  Trans. Am. Nucl. Soc. 71, 1994.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import PCG64

from morph.data.table import Table
from morph.language.arguments import integer
from morph.language.dtypes import ID_LIMIT, i32, u64, vec
from morph.language.messages import shown
from morph.launch.foreach import foreach, func, kernel
from morph.prelude import u32, vector
from morph.runtime.device import Array, Device

UNIT = 2.0**-53
AT_ONCE = (
    1 << 17
)  # edges drawn from one stream: fit into a cache; another number gives other graphs

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
LOWER_HALF = 0xFFFFFFFF  # the lower half of a word
_DIGIT = 9  # a table of `_steps` covers this many bits of a number of steps
_STEPS = 1 << _DIGIT
_MOST = 2**128 - 1


class Thresholds(NamedTuple):
    """The smallest 32-bit draws (uint32) of the second, third and fourth quadrant."""

    second: Any
    third: Any
    fourth: Any


class State(NamedTuple):
    """State and increment of a stream: 128-bit integers."""

    state: int
    increment: int


Stream = PCG64 | State


def streams(
    m: int, seed: int, kind: int, part: int, most: int = 1, share: tuple[int, int] = (0, 1)
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Divide ``m`` draws into parts with one stream each.

    Yields the size of a part, and the streams of up to ``most`` consecutive parts of this size; for
    several parts their states, which are faster to compute.  With ``share = (k, n)`` only the
    k-th of n equal shares of the parts.
    """
    (k, n), (parts, rest) = share, divmod(m, part)
    begin, stop = parts * k // n, parts * (k + 1) // n
    groups = [(part, i, min(i + most, stop)) for i in range(begin, stop, most)]
    if rest and k == n - 1:
        groups.append((rest, parts, parts + 1))
    for size, first, end in groups:
        if most > 1:
            yield size, _states_of(seed, kind, first, end)
        else:
            yield size, [PCG64(np.random.SeedSequence([seed, kind, k])) for k in range(first, end)]


def _states_of(seed: int, kind: int, first: int, end: int) -> list[State]:
    """Return the states of ``PCG64(SeedSequence([seed, kind, k]))`` for each k in a range.

    NumPy hashes the three numbers into a pool of four words, and these into the state and the
    increment; here the words are arrays.
    """
    words = [seed & LOWER_HALF, *([seed >> 32] if seed >> 32 else []), kind]
    k = np.arange(first, end, dtype=np.uint32)
    entropy = [*(np.full_like(k, w) for w in words), k]
    entropy += [np.zeros_like(k)] * (4 - len(entropy))
    constant = 0x43B0D7E5

    def hashed(value: Any, factor: int) -> Any:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * factor & LOWER_HALF
        value = value * np.uint32(constant)
        return value ^ value >> np.uint32(16)

    pool = [hashed(x, 0x931E8875) for x in entropy]
    for i in range(4):
        for j in range(4):
            if i != j:
                mixed = pool[j] * np.uint32(0xCA01F9DD)
                mixed = mixed - hashed(pool[i], 0x931E8875) * np.uint32(0x4973F715)
                pool[j] = mixed ^ mixed >> np.uint32(16)
    constant = 0x8B51F9DD
    drawn = [hashed(pool[i % 4], 0x58F38DED).astype(np.uint64) for i in range(8)]
    halves = [
        (low | high << np.uint64(32)).tolist()
        for low, high in zip(drawn[::2], drawn[1::2], strict=True)
    ]
    found = []
    for s_high, s_low, i_high, i_low in zip(*halves, strict=True):
        increment = (i_high << 65 | i_low << 1 | 1) & _MOST
        state = (increment + (s_high << 64 | s_low)) * _MULTIPLIER + increment
        found.append(State(state & _MOST, increment))
    return found


def check(**values: int) -> None:
    """Refuse values, by name, that are not integers (TypeError) or not in range (ValueError)."""
    for name, value in values.items():
        most = 2**63 if name in ("seed", "m") else ID_LIMIT
        if isinstance(value, np.ndarray):  # NumPy's generators take no arrays of one value
            raise TypeError(f"{name} is an integer, not {shown(value)}")
        if not 0 <= integer(value, name) <= most:
            raise ValueError(f"{name} = {shown(value)}: expected an integer from 0 to {most}")


def raw_bits(where: Device, streams: Sequence[Any], count: int) -> Array:
    """Draw ``count`` words of each stream, at most 2^18; shape (len(streams), count), uint64."""
    if where.on_host:
        return np.stack([s.random_raw(count) for s in streams])
    return bits_of_states(where, streams, count)


def quadrants(
    where: Device, streams: Sequence[Any], count: int, levels: int, least: Thresholds
) -> tuple[Array, Array]:
    """Draw a quadrant at each level for ``count`` edges of each stream; returns rows and columns.

    Two edges use the halves of one word at each level.  At most 2^18 edges per stream; with several
    streams, ``count`` is even.
    """
    if not where.on_host:
        return quadrants_of_states(where, streams, count, levels, least)
    made = np.zeros((2, len(streams), count), np.int32)
    for k, stream in enumerate(streams):
        u, v = made[:, k]
        for _ in range(levels):
            raw = stream.random_raw(-(-count // 2)).astype("<u8").view("<u4")[:count]
            down = raw >= least.third
            right = (raw >= least.second) ^ down
            right |= raw >= least.fourth
            u += u
            u += down
            v += v
            v += right
    return made[0].reshape(-1), made[1].reshape(-1)


def bits_of_states(where: Device, streams: Sequence[Stream], count: int) -> Array:
    """Draw like `raw_bits`, in one launch."""
    drawn = Table("draws", where, capacity=len(streams) * count, word=u64)
    drawn.extend(len(streams) * count)
    if count:
        foreach(drawn, draw_word, _states(where, streams), _steps(where), count)
    return drawn.word.array.reshape(-1, count)


def quadrants_of_states(
    where: Device, streams: Sequence[Stream], count: int, levels: int, least: Thresholds
) -> tuple[Array, Array]:
    """Draw like `quadrants`, in one launch."""
    half = -(-count // 2)
    made = Table("quadrants", where, capacity=2 * half * len(streams), src=i32, dst=i32)
    made.extend(2 * half * len(streams))
    foreach(
        made[: half * len(streams)], draw_quadrants, made, _states(where, streams),
        _steps(where, half), half, levels, least,
    )  # fmt: skip
    end = len(streams) * count
    return made.src.array[:end], made.dst.array[:end]


def _state_of(stream: PCG64) -> State:
    known: Any = stream.state["state"]
    return State(known["state"], known["inc"])


def _states(where: Device, streams: Sequence[Stream]) -> Table:
    """Make a table with the state before the first word, and the increment, of each stream."""
    found = [s if isinstance(s, State) else _state_of(s) for s in streams]
    table = Table("streams", where, state=vec(u64, 2), increment=vec(u64, 2))
    first = [(_MULTIPLIER * s.state + s.increment) & _MOST for s in found]
    table.extend(state=_halves(first), increment=_halves([s.increment for s in found]))
    return table


def _steps(where: Device, last: int = 0) -> Table:
    """Tabulate the effect of d steps: the new state is ``factor * state + total * increment``.

    Row d is for d steps, row ``_STEPS + d`` for ``_STEPS * d``, the row after these for ``last``.
    """
    rows = [*_multiples(1), *_multiples(_STEPS), _skip(last)]
    table = Table("steps", where, factor=vec(u64, 2), total=vec(u64, 2))
    table.extend(factor=_halves([f for f, _ in rows]), total=_halves([t for _, t in rows]))
    return table


@cache
def _multiples(steps: int) -> list[tuple[int, int]]:
    """Return factor and total for 0, ``steps``, ``2 * steps``, ... steps."""
    rows = [(1, 0)]
    while len(rows) < _STEPS:
        rows.append(_then(rows[-1], _skip(steps)))
    return rows


def _then(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Compose two numbers of steps."""
    return a[0] * b[0] & _MOST, (a[1] * b[0] + b[1]) & _MOST


def _skip(steps: int) -> tuple[int, int]:
    """Compose ``steps`` single steps, by repeated squaring."""
    found, power = (1, 0), (_MULTIPLIER, 1)
    while steps:
        if steps & 1:
            found = _then(found, power)
        power, steps = _then(power, power), steps >> 1
    return found


def _halves(numbers: Sequence[int]) -> Any:
    """Split 128-bit integers, the low half first; shape (len(numbers), 2)."""
    text = b"".join(x.to_bytes(16, "little") for x in numbers)
    return np.frombuffer(text, "<u8").astype(np.uint64).reshape(-1, 2)


# --- kernels: 128-bit integers are vectors of two words, the low word first ----------------------


@func
def high(a, b):
    """The upper word of the product of two words."""
    first = (a & LOWER_HALF) * (b & LOWER_HALF)
    second, third = (a >> 32) * (b & LOWER_HALF), (a & LOWER_HALF) * (b >> 32)
    middle = (first >> 32) + (second & LOWER_HALF) + (third & LOWER_HALF)
    return (a >> 32) * (b >> 32) + (second >> 32) + (third >> 32) + (middle >> 32)


@func
def product(a, b):
    """The product modulo 2^128."""
    return vector(a[0] * b[0], high(a[0], b[0]) + a[0] * b[1] + a[1] * b[0])


@func
def total(a, b):
    """The sum modulo 2^128."""
    low = a[0] + b[0]
    return vector(low, a[1] + b[1] + u64(low < a[0]))


@func
def skipped(state, stream, steps):
    """The state after the steps of a row of `_steps`."""
    return total(product(state, steps.factor), product(stream.increment, steps.total))


@func
def state_at(stream, steps, at):
    """The state of word ``at`` of a stream, counted from 0."""
    near = skipped(stream.state, stream, steps[at & (_STEPS - 1)])
    return skipped(near, stream, steps[_STEPS + (at >> _DIGIT)])


@func
def word_of(state):
    """The output of a state: XOR of its halves, rotated by the six highest bits (XSL-RR)."""
    mixed, by = state[0] ^ state[1], state[1] >> 58
    return mixed >> by | mixed << ((64 - by) & 63)


@kernel
def draw_word(r, streams, steps, count):
    """Draw one word."""
    r.word = word_of(state_at(streams[r.id // count], steps, r.id % count))


@func
def halved(row, column, bits, least):
    """Descend one level to the quadrant selected by random ``bits``."""
    down = bits >= least.third
    right = bits >= least.second and not down or bits >= least.fourth
    return 2 * row + i32(down), 2 * column + i32(right)


@kernel
def draw_quadrants(r, made, streams, steps, half, levels, least):
    """Draw a quadrant at each level for two edges."""
    stream, at = streams[r.id // half], r.id % half
    state = state_at(stream, steps, at)
    row, column, other_row, other_column = i32(0), i32(0), i32(0), i32(0)
    for _ in range(levels):
        bits = word_of(state)
        state = skipped(state, stream, steps[2 * _STEPS])
        row, column = halved(row, column, u32(bits), least)
        other_row, other_column = halved(other_row, other_column, u32(bits >> 32), least)
    made[2 * r.id].src, made[2 * r.id].dst = row, column
    made[2 * r.id + 1].src, made[2 * r.id + 1].dst = other_row, other_column
