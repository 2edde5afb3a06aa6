"""Keys of edges, source << 32 | target: gathered in groups of consecutive sources, and sorted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from morph.generate.draws import LOWER_HALF
from morph.graph.arrange import Rows, empty
from morph.runtime.device import Array, Device

_GROUPS = 64  # largest number of groups, into which each batch is divided
_CHUNKS = 16  # a chunk behind the first one of a group has 1 / _CHUNKS of a group's keys


def number_of_groups(where: Device, most: int) -> int:
    """Return the number of groups in which a device sorts at most ``most`` keys."""
    return min(-(-most // (where.bulk if where.on_host else where.bulk * 8)), _GROUPS)


def source_offsets(where: Device, keys: Array, sources: list[int]) -> list[int]:
    """Return the index of the first key of each source among sorted keys."""
    first = where.asarray(np.array(sources, np.int64) << 32)
    found: list[int] = where.to_host(where.xp.searchsorted(keys, first)).tolist()
    return found


class KeyGroups:
    """Keys of edges in groups of consecutive sources, each in chunks.

    Groups are balanced by the frequency of sources in the first batch, and have at most 1.25 times
    as many points as equal ranges.  On a GPU the first chunk of a group has space for all keys of
    the group, if later batches are like the first one; then these are sorted in place.

    Parameters
    ----------
    where : Device
    own : range
        The sources.
    groups : int
        The wanted number of groups.
    most : int
        An upper bound of the number of keys, if the points have equal degrees.
    is_bound : bool
        Whether ``most`` is an upper bound for any graph.

    Attributes
    ----------
    cuts : list of int
        The first source of each group, and the end.
    """

    def __init__(self, where: Device, own: range, groups: int, most: int, is_bound: bool) -> None:
        self.where, self.own, self.groups = where, own, groups
        self.cuts, self.most = [own.start, own.stop], most
        self._is_bound = groups <= 1 and is_bound
        self._chunk = max(most // (_CHUNKS * max(groups, 1)), 1)
        self._first = list[int]()  # the size of the first chunk of each group
        self._chunks, self._ends = list[list[Array]](), list[int]()

    def add(self, keys: Array, in_order: bool = False) -> None:
        """Add keys, which are sorted if they are ``in_order``, and may be overwritten otherwise."""
        if not keys.size:
            return
        if self.groups > 1 and not in_order:
            keys.sort()
        if self.groups > 1 and not self._chunks:
            self._divide(keys)
        places = [0, keys.size]
        if self.groups > 1:
            places = source_offsets(self.where, keys, self.cuts)
        if not self._chunks:
            self._chunks, self._ends = [[] for _ in self.cuts[1:]], [0] * (len(self.cuts) - 1)
            self._first = self._expected(places)
        for k, (i, j) in enumerate(pairwise(places)):
            self._append(k, keys[i:j])

    def _append(self, k: int, keys: Array) -> None:
        """Copy keys to the chunks of a group; only the last chunk may have free space."""
        chunks, done = self._chunks[k], 0
        if self.where.on_host and not self._is_bound and keys.size:
            chunks.append(self.where.copy(keys))
            self._ends[k] = done = keys.size
        while done < keys.size:
            if not chunks or self._ends[k] == chunks[-1].size:
                size = self._chunk if chunks else max(self._first[k], self._chunk)
                chunks.append(empty(self.where, size, np.int64))
                self._ends[k] = 0
            begin = self._ends[k]
            end = min(begin + keys.size - done, chunks[-1].size)
            chunks[-1][begin:end] = keys[done : done + end - begin]
            done, self._ends[k] = done + end - begin, end

    def _divide(self, keys: Array) -> None:
        """Choose the groups by the sorted keys of the first batch."""
        where, own, groups = self.where, self.own, self.groups
        at = where.xp.arange(1, groups) * keys.size // groups
        frequent = where.to_host(keys[at] >> 32).tolist()
        even = (own.start + len(own) * k // groups for k in range(groups))
        cuts = sorted({*self.cuts, *even, *frequent})
        places, kept = source_offsets(where, keys, cuts), [0]
        for k in range(1, len(cuts)):  # each group costs launches: small groups are joined
            share = max(
                (places[k] - places[kept[-1]]) / keys.size, (cuts[k] - cuts[kept[-1]]) / len(own)
            )
            if share * groups > 1.25 and k - 1 > kept[-1]:
                kept.append(k - 1)
        self.cuts = [cuts[k] for k in (*kept, len(cuts) - 1)]

    def _expected(self, places: list[int]) -> list[int]:
        """Return the expected number of keys of each group.

        That is the group's share of the first batch, in which its keys begin at ``places``.  If the
        group's share of the points is less than half of this, as in a grid, whose first batch has
        the first rows only, it is the share of the points.
        """
        if self._is_bound:
            return [self.most]
        shares = (np.diff(places) / places[-1], np.diff(self.cuts) / len(self.own))
        sizes = np.where(shares[0] <= 2 * shares[1], *shares) * self.most * (1 + 1 / 64)
        found: list[int] = sizes.astype(np.int64).tolist()
        return found

    @property
    def size(self) -> int:
        """The number of keys."""
        full = sum(a.size for chunks in self._chunks for a in chunks[:-1])
        return int(full + sum(self._ends))

    def take(self, k: int) -> Array:
        """Return the keys of a group, once; its chunks are freed."""
        chunks = self._chunks[k] if self._chunks else []
        if chunks:
            chunks[-1] = chunks[-1][: self._ends[k]]
        return _joined(self.where, chunks, np.int64)


class SortedEdges:
    """The edges from consecutive points, sorted by source and target.

    They are stored as row offsets, int64, shape (points + 1,), and targets, int32, on the device.

    Parameters
    ----------
    where : Device
    own : range
        The points.
    at_once : bool
        Allocate the targets of all groups that are added together by one call: small ones between
        the keys would keep memory of these from being freed.
    """

    def __init__(self, where: Device, own: range, at_once: bool = False) -> None:
        self.where, self.own, self.at_once = where, own, at_once
        self._offsets: Array = None
        self._pieces, self._end = list[Array](), 0  # of the targets, and their number

    def add(self, given: KeyGroups, simple: bool) -> None:
        """Sort and add keys, group by group; their sources follow those of all earlier keys.

        With ``simple``, of equal keys one is added.  A key of 8 bytes becomes a target of 4, so the
        peak memory is that of the keys, a batch and a group.
        """
        where, xp, own = self.where, self.where.xp, self.own
        if self._offsets is None:
            self._offsets = where.zeros(len(own) + 1, np.int64)
        targets, begin = empty(where, given.size if self.at_once else 0, np.int32), self._end
        for k, (first, last) in enumerate(pairwise(given.cuts)):
            keys = given.take(k)
            keys.sort()
            if simple:
                keys = keys[: _drop_repeated(where, keys)]
            points = xp.arange(first + 1, last + 1)
            self._offsets[first - own.start + 1 : last - own.start + 1] = (
                xp.searchsorted(keys, points << 32) + self._end
            )
            first = self._end - begin
            dst = targets[first:] if self.at_once else empty(where, keys.size, np.int32)
            for start in range(0, keys.size, where.bulk):
                end = min(start + where.bulk, keys.size)
                dst[start:end] = keys[start:end] & LOWER_HALF
            if not self.at_once:
                self._pieces.append(dst)
            self._end += keys.size
            del keys, dst
        if self.at_once:
            self._pieces.append(targets[: self._end - begin])

    def rows(self) -> Rows:
        """Return all edges, once."""
        with self.where.active():
            return Rows(self._offsets, None, _joined(self.where, self._pieces, np.int32), None)


def _joined(where: Device, pieces: list[Array], dtype: Any) -> Array:
    """Concatenate arrays; each is freed after it has been copied."""
    if len(pieces) == 1:
        return pieces.pop()
    made, end = empty(where, sum(a.size for a in pieces), dtype), 0
    for k in range(len(pieces)):
        made[end : end + pieces[k].size] = pieces[k]
        end += pieces[k].size
        pieces[k] = None
    return made


def _drop_repeated(where: Device, keys: Array) -> int:
    """Move the distinct keys of a sorted array to the front; returns their number."""
    end, part_size = 0, where.bulk
    for start in range(0, keys.size, part_size):
        part = keys[start : start + part_size]
        fresh = where.xp.empty(part.size, bool)
        fresh[1:] = part[1:] != part[:-1]
        fresh[:1] = end == 0 or part[:1] != keys[end - 1]
        part = part[fresh]
        keys[end : end + part.size] = part
        end += part.size
    return end
