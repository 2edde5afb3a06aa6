"""Refinement of the tables of a mesh, in rounds, until no triangle can be improved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from morph.algorithms.refinement.deterministic import SPARE, DeterministicRounds
from morph.algorithms.refinement.kernels import (
    REASONS,
    count_unmet,
    find_bad,
    find_defect,
    run_rounds,
)
from morph.algorithms.refinement.parameters import has_points
from morph.algorithms.refinement.quality import BUCKETS
from morph.algorithms.triangulation.kept import KeptObjects
from morph.data.collection import Collection
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.launch.foreach import foreach
from morph.mesh import Mesh, MeshError
from morph.prelude import i8, i32
from morph.runtime.arrays import count_true

if TYPE_CHECKING:
    from morph.data.row import Row

ALL_ROUNDS = 1 << 40  # rounds
PACKED = ("item", "stamp", "bucket")  # columns of a list whose items are taken in any order
Progress = Callable[[int, int, int], None]


def refuse_defects(g: Graph, mesh: Mesh) -> None:
    """Raise if tables of a mesh, or of a part of it, are not constrained Delaunay.

    Raises
    ------
    MeshError
    """
    defect = KeptObjects.of(g).flag("defect")
    foreach(g.triangles, find_defect, g, defect)
    if defect:
        mesh.check()  # raises the usual errors; the next line those that only `violations` finds
        raise MeshError(mesh.violations())


def refine_tables(
    g: Graph, params: Row, progress: Progress | None, measure: Callable[[int], int], few: int = 0
) -> tuple[int, list[int]]:
    """Refine until no triangle can be improved.

    A triangle may be given up because of its surroundings, which change later.  So if one was given
    up, all triangles are examined again; also after the sizes at new points, interpolated until
    then, were measured.  If the examination finds at most ``few`` triangles, refinement ends.

    Returns
    -------
    rounds : int
    unmet : list of int
        Number of triangles that miss a limit, by reason, see `REASONS`.
    """
    m = len(g.triangles)
    deterministic = "next_id" in params.table.columns
    # growth ends a launch, and deterministic rounds need capacity before they begin
    capacity = 4 * (m + SPARE) if deterministic else m
    active, following = (worklist(g, name, capacity, PACKED) for name in ("active", "following"))
    waiting, urgent = worklist(g, "waiting", 2 * capacity), KeptObjects.of(g).flag("urgent")
    ordered = DeterministicRounds(g, params) if deterministic else None
    rounds, known = 0, len(g.points)
    always = "reason" in g.triangles.columns or "wanted" in g.points.columns
    foreach(g.triangles, find_bad, waiting, params)
    while True:
        params.bucket = -1
        while not (active.empty and params.bucket == BUCKETS - 1) and has_points(params):
            turns = 1 if progress else ALL_ROUNDS
            if ordered is not None:
                rounds += ordered.run(active, following, waiting, urgent, turns)
            else:
                unused = g  # in place of the counts of deterministic rounds
                rounds += run_rounds(g, active, following, waiting, unused, urgent, params, turns)
            if active.empty:
                active, following = following, active
            if progress is not None:
                left = len(active) + _count_waiting(waiting, params.bucket)
                progress(rounds, left, len(g.triangles))
        if not (params.excused or always) and has_points(params):
            return rounds, [0] * len(REASONS)
        known = measure(known)
        for work in (active, following, waiting):
            work.clear()
        unmet = examine(g, waiting, params)
        if len(waiting) <= few or not has_points(params):
            return rounds, unmet


def worklist(g: Graph, name: str, capacity: int, pack: Sequence[str] = ()) -> Collection:
    """Make a list of triangles to refine, see `morph.algorithms.refinement.kernels`."""
    kept = KeptObjects.of(g)
    made = kept.list(name, g.triangles, pack=pack, stamp=Ref(g.points), bucket=i8)
    kept.resize(made, capacity + SPARE if kept.small else capacity)
    return made


def examine(g: Graph, waiting: Collection, params: Row) -> list[int]:
    """Append the triangles that can be refined; count those that cannot, by reason.

    In a part of a mesh triangles are not counted, but have their ``reason``, -1 if there is none.
    """
    if "reason" in g.triangles.columns:
        g.triangles.reason = -1
    counts = KeptObjects.of(g).table("counts", n=vec(i32, len(REASONS)))
    counts.new()
    foreach(g.triangles, count_unmet, g, waiting, counts[0], params)
    unmet: list[int] = g.device.to_host(counts.n.array)[0].tolist()
    return unmet


def _count_waiting(waiting: Collection, bucket: int) -> int:
    """The number of entries whose bucket is not active yet."""
    with waiting.device.active():
        return count_true(waiting.bucket.array > bucket)
