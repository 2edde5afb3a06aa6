"""Errors of meshes, by the violated invariants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph.language.messages import shortened


class Violation(NamedTuple):
    """One violated invariant of a mesh.

    Attributes
    ----------
    name : str
        The invariant, as listed at `morph.mesh.validation.violations`.
    message : str
        Description of the first violation.
    ids : (k,) int64 array
        All violations: rows of the array that ``name`` refers to.
    """

    name: str
    message: str
    ids: NDArray[np.int64]


class MeshError(ValueError):
    """Arrays do not form a mesh, or a mesh violates its invariants.

    Attributes
    ----------
    violations : list of Violation
        All violated invariants.
    """

    def __init__(self, found: list[Violation]) -> None:
        super().__init__(found)
        self.violations = found

    def __str__(self) -> str:
        return shortened("; ".join(f"{v.name}: {v.message}" for v in self.violations))
