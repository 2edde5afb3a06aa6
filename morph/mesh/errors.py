"""Errors of meshes, by the invariants that are broken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shortened


class Violation(NamedTuple):
    """One invariant that a mesh breaks.

    Attributes
    ----------
    name : str
        The invariant, as listed at `morph.mesh.validation.violations`.
    message : str
        What is wrong, with the first offender.
    ids : (k,) int64 array
        All offenders: rows of the array that ``name`` speaks of.
    """

    name: str
    message: str
    ids: NDArray[np.int64]


class MeshError(ValueError):
    """Arrays that make no mesh, or a mesh that breaks its invariants.

    Attributes
    ----------
    violations : list of Violation
        Every invariant that is broken.
    """

    def __init__(self, found: list[Violation]) -> None:
        super().__init__(found)
        self.violations = found

    def __str__(self) -> str:
        return shortened("; ".join(f"{v.name}: {v.message}" for v in self.violations))
