"""Batches of searches for communities: the bounds and candidates of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from morph.algorithms.community.neighbourhood import Ints
from morph.algorithms.community.nodes import STANDARD_WORDS

MAX_BITS = 1 << 30  # of adjacency of the tasks in a batch
WORD = 64


@dataclass
class Tasks:
    """Searches for connected subgraphs that have a vertex, some size and a minimum degree.

    Attributes
    ----------
    min_size, max_size, degree : array of int, shape (count,)
        Bounds of the size, and the minimum degree to reach.
    sizes : array of int, shape (count,)
        Number of candidates of each task, with its query.
    vertices : array of int, shape (sizes.sum(),)
        The candidates, task by task; the first of each task is its query.
    """

    min_size: Ints
    max_size: Ints
    degree: Ints
    sizes: Ints
    vertices: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> Ints:
        """Where the vertices of each task begin."""
        return begins(self.sizes)

    def lower_and_higher(self) -> tuple[Ints, Ints]:
        """Count the consecutive tasks before and after each that only differ in the degree.

        Returns
        -------
        lower, higher : array of int64, shape (count,)
            Tasks right before each, of ascending lower degrees; right after each, of higher ones.
        """
        same = self.degree[1:] > self.degree[:-1]
        for x in (self.vertices[self.first], self.min_size, self.max_size):
            same &= x[1:] == x[:-1]
        begins = np.flatnonzero(np.concatenate([[True], ~same]))
        sizes = np.diff(begins, append=len(self))
        number = np.arange(len(self)) - np.repeat(begins, sizes)
        return number, np.repeat(sizes, sizes) - 1 - number

    @property
    def words(self) -> Ints:
        """Words of a set of candidates: 4, 16, 256 or 4096, so that few kernels are compiled."""
        words = np.full(len(self), STANDARD_WORDS)
        while (short := words * WORD < self.sizes).any():
            words[short] *= 4 if words[short].min() == STANDARD_WORDS else 16
        return words

    def take(self, at: Ints, most: int | None = None) -> Tasks:
        """Return some of the tasks, with at most ``most`` candidates of each, the first ones."""
        sizes = self.sizes[at] if most is None else np.minimum(self.sizes[at], most)
        rows = np.arange(sizes.sum()) + np.repeat(self.first[at] - begins(sizes), sizes)
        min_size, max_size, degree = (x[at] for x in (self.min_size, self.max_size, self.degree))
        return Tasks(min_size, max_size, degree, sizes, self.vertices[rows])

    def batches(self) -> Iterator[Ints]:
        """Divide the tasks into batches with sets of equal width, up to `MAX_BITS` of adjacency."""
        widths = self.words
        for words in np.unique(widths).tolist():
            at = np.flatnonzero(widths == words)
            part = np.cumsum(self.sizes[at] ** 2) // MAX_BITS
            yield from np.split(at, np.flatnonzero(np.diff(part)) + 1)


def begins(counts: Ints) -> Ints:
    """Return where consecutive ranges of some lengths begin."""
    return np.cumsum(counts) - counts
