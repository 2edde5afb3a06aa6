"""Small triangulations use the tables of earlier ones: results do not depend on these."""

from __future__ import annotations

import threading
from copy import copy
from functools import cache

import numpy as np
import pytest

import morph
from morph.algorithms.triangulation import kept
from morph.launch.launcher import Launch
from morph.testing import team

rng = np.random.default_rng(0)
ANGLE = np.arange(12)[:, None] * np.pi / 6
CIRCLE = rng.uniform(0.9, 1, (12, 1)) * np.concatenate([np.cos(ANGLE), np.sin(ANGLE)], axis=1)
TURN = np.stack([np.arange(12), np.arange(1, 13) % 12], axis=1)
CALLS = [
    {"source": rng.random((40, 2))},
    {"source": np.concatenate([CIRCLE, CIRCLE / 2]), "segments": np.concatenate([TURN, TURN + 12]),
     "holes": [[0.0, 0.0]], "regions": [[0.7, 0.1, 3.0]]},
    {"source": CIRCLE, "segments": [[0, 6], [3, 9]], "crossing": "split"},
    {"source": rng.random((40, 2))[rng.integers(0, 40, 90)], "duplicates": "merge"},
    {"source": CIRCLE, "segments": TURN, "segment_markers": np.arange(12)},
    {"source": rng.random((200, 2)), "segments": [[0, 1], [1, 2]], "hull": True},
]  # fmt: skip


def arrays(mesh):
    """The mesh in an order that does not depend on that of items."""
    corners = np.sort(mesh.triangles, axis=1)
    order, ends = np.lexsort(corners.T), np.sort(mesh.segments, axis=1)
    sides = np.lexsort(ends.T)
    return [
        mesh.points, mesh.point_markers, corners[order], np.sort(mesh.neighbors[order] >= 0),
        mesh.triangle_attributes[order], ends[sides], mesh.segment_markers[sides],
    ]  # fmt: skip


def run(i, target):
    return morph.triangulate(**CALLS[i], device=target)


def equal(a, b):
    return all(x.shape == y.shape and (x == y).all() for x, y in zip(a, b, strict=True))


@cache
def expected(target):
    """The arrays of each call, with new tables."""
    found = []
    for i in range(len(CALLS)):
        kept._kept.clear()
        found.append(arrays(run(i, target)))
    return found


def test_results_do_not_depend_on_earlier_calls(target):
    order = [*range(len(CALLS)), *np.random.default_rng(1).integers(0, len(CALLS), 4)]
    meshes = [(run(i, target), expected(target)[i]) for i in order]
    assert all(equal(arrays(mesh), want) for mesh, want in meshes)  # none has kept memory


def test_calls_that_fail_leave_nothing(target):
    run(4, target)
    with pytest.raises(ValueError, match="cross"):
        morph.triangulate(CIRCLE, [[0, 6], [3, 9]], device=target)
    with pytest.raises(ValueError, match="on one line"):
        morph.triangulate(np.stack([np.arange(5.0)] * 2, axis=1), device=target)
    assert equal(arrays(run(4, target)), expected(target)[4])


def refined(i, angle):
    with team(1):  # else the order of threads decides
        mesh = morph.refine(run(i, "cpu"), angle, device="cpu")
    assert not mesh.violations()
    return mesh.points, mesh.triangles, mesh.segments, mesh.segment_markers, mesh.point_markers


@pytest.mark.parametrize("i", [0, 5])
def test_refinements_do_not_depend_on_earlier_calls(i):
    """Full lists grow, which changes the order of items: so capacities are those of new lists."""
    found = {20: [], 30: []}
    for angle in (30, 20, 20, 30, 30):
        found[angle].append(refined(i, angle))
    kept._kept.clear()
    assert all(equal(mesh, refined(i, angle)) for angle in found for mesh in found[angle])


def test_a_refinement_that_fails_leaves_nothing():
    broken = copy(run(0, "cpu"))
    broken.neighbors = np.full_like(broken.neighbors, -1)
    with pytest.raises(morph.MeshError):
        morph.refine(broken, device="cpu")
    assert "cpu mesh" not in kept._kept


@pytest.mark.parametrize("call", [lambda: run(4, "cpu"), lambda: refined(4, 20)])
def test_the_third_call_writes_no_argument_block(call, monkeypatch):
    call(), call()
    fills = []
    monkeypatch.setattr(
        Launch, "_write_objects", lambda self, *_: fills.append(self.compiled.title)
    )
    call()
    assert not fills


def test_tables_are_used_again_by_one_call_at_a_time():
    run(0, "cpu")
    tables = kept._kept["cpu"]
    run(1, "cpu")
    assert kept._kept["cpu"] is tables
    one, other = kept.tables_for(morph.device("cpu"), 9), kept.tables_for(morph.device("cpu"), 9)
    assert one is tables and other is not tables
    many = kept.MOST_KEPT + 1
    assert kept.tables_for(morph.device("cpu"), many) is not kept.tables_for(tables.device, many)


def test_threads():
    wrong, right = [], expected("cpu")

    def work(first):
        for i in range(first, first + 2 * len(CALLS)):
            if len(run(i % len(CALLS), "cpu").triangles) != len(right[i % len(CALLS)][2]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
