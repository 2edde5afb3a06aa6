"""The examples on every target: Falcon's against SciPy, the others by their own checks."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array, csgraph
from targets import everywhere, host

EXAMPLES = Path(__file__).parents[2] / "examples"
FALCON = sorted(p.stem for p in (EXAMPLES / "falcon").glob("*.py"))
GALLERY = sorted(p.stem for p in (EXAMPLES / "gallery").glob("*.py"))
FEWER = {"complexity": {"VARIABLES": 1500}}  # in CI
FAR = {"bfs": 1234567890, "sssp": 1 << 60}


@pytest.fixture(scope="module")
def roads(tmp_path_factory):
    """A .gr file with islands, and the matrix of its lightest arcs."""
    rng = np.random.default_rng(3)
    n = 60
    arcs = {
        (int(a), int(b)): int(w) for a, b, w in rng.integers(0, [[n - 5, n - 5, 4000]], (130, 3))
    }
    arcs = {(a, b): w + 1 for (a, b), w in arcs.items() if a != b}
    path = tmp_path_factory.mktemp("roads") / "roads.gr"
    lines = [f"p sp {n} {len(arcs)}", *(f"a {a + 1} {b + 1} {w}" for (a, b), w in arcs.items())]
    path.write_text("\n".join(lines) + "\n")
    ends = np.array(list(arcs))
    weight = np.array(list(arcs.values()), float)
    return path, coo_array((weight, (ends[:, 0], ends[:, 1])), shape=(n, n)).tocsr()


@pytest.mark.parametrize("name", FALCON)
def test_falcon(target, roads, name):
    path, matrix = roads
    main = runpy.run_path(str(EXAMPLES / "falcon" / f"{name}.py"))["main"]
    kind = name.partition("_")[0]

    def run():
        found = main(path, target)
        if kind == "mst":
            tree = csgraph.minimum_spanning_tree(matrix.minimum(matrix.T) + lone(matrix))
            ends = np.stack([host(found.items), host(found.other)])
            assert host(found.weight).sum() == tree.sum() and ends.shape[1] == tree.nnz
            whole = csgraph.connected_components(matrix, directed=False)
            forest = coo_array((np.ones(ends.shape[1]), ends), shape=matrix.shape)
            assert csgraph.connected_components(forest, directed=False)[0] == whole[0]
            return
        want = csgraph.dijkstra(matrix, indices=0, unweighted=kind == "bfs")
        got = host(found).astype(float)
        assert np.array_equal(np.where(got < FAR[kind], got, np.inf), want)

    everywhere(target, run)


def lone(matrix):
    """The arcs that have none back, in both directions."""
    single = matrix - matrix.multiply(matrix.T.astype(bool))
    return single + single.T


@pytest.mark.parametrize(
    ("name", "given"),
    [("shortest_paths", {"n": 80}), ("contract", {"side": 6})],
)
def test_examples_that_check_themselves(target, name, given):
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](target, **given)


def test_coast(target, tmp_path):
    mesh = EXAMPLES.parent / "meshes" / ("square" if target == "python" else "italy")
    main = runpy.run_path(str(EXAMPLES / "coast.py"))["main"]
    main(mesh.with_suffix(".node"), tmp_path / "coast.png", target)
    assert (tmp_path / "coast.png").stat().st_size > 1000


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_gallery(name, device, tmp_path):
    main = runpy.run_path(str(EXAMPLES / "gallery" / f"{name}.py"))["main"]
    if os.environ.get("CI"):
        main.__globals__.update(FEWER.get(name, {}))
    picture = EXAMPLES / "gallery" / main.__defaults__[0]
    main(tmp_path / picture.name, device)
    assert (tmp_path / picture.name).stat().st_size > 4_000
    assert f"]({picture.name})" in (EXAMPLES / "gallery" / "README.md").read_text()
    assert f"]({name}.py)" in (EXAMPLES / "gallery" / "README.md").read_text()


def test_pictures_are_small():
    sizes = {p.name: p.stat().st_size for p in (EXAMPLES / "gallery").glob("*.png")}
    assert sizes and sum(sizes.values()) < 600_000, sizes
    assert all(p.stat().st_size < 400_000 for p in (EXAMPLES / "gallery").glob("*.gif"))
