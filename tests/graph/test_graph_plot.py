"""Drawings of small graphs: positions and colours of points and edges."""

import builtins

import numpy as np
import pytest

import morph
from morph.plotting.graph import EDGES, LAID_OUT, layout

matplotlib = pytest.importorskip("matplotlib")
INF = np.iinfo(np.int64).max


def ring(n, **more):
    return morph.Graph.from_edges(
        np.arange(n), (np.arange(n) + 1) % n, symmetrize=True, directed=False, device="cpu", **more
    )


def parts(figure):
    """The collections of the first axes, by their classes' names."""
    found = {}
    for artist in figure.axes[0].collections:
        found.setdefault(type(artist).__name__, []).append(artist)
    return found


def test_distances_in_a_layout_are_numbers_of_edges():
    line = np.arange(9)
    places = layout(line, line + 1, 10)
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    assert np.allclose(apart, abs(np.arange(10)[:, None] - np.arange(10)), atol=0.05)
    side = 7
    ids = np.arange(side * side).reshape(side, side)
    src = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    dst = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    places = layout(src, dst, side * side)
    length = np.hypot(*(places[src] - places[dst]).T)
    assert 0.7 < length.min() and length.max() < 1.3
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) + 9 * np.eye(side * side)
    assert apart.min() > 0.5  # no two points are at the same place
    assert np.array_equal(places, layout(src, dst, side * side))


@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_layouts_of_points_without_edges(n):
    none = np.empty(0, np.int64)
    places = layout(none, none, n)
    assert places.shape == (n, 2) and np.isfinite(places).all()
    assert len(np.unique(places.round(3), axis=0)) == n


def test_components_are_apart():
    one, other = np.arange(5), np.arange(6, 10)
    places = layout(np.concatenate([one, other]), np.concatenate([one + 1, other + 1]), 11)
    between = np.hypot(*(places[:6, None] - places[6:]).transpose(2, 0, 1))
    assert between.min() > 1


def test_values_are_colours_and_missing_ones_grey(tmp_path):
    g = ring(6)
    figure = g.plot(tmp_path / "ring", values=np.array([0, 1, 2, INF, 2, 1]), label="hops")
    assert (tmp_path / "ring.png").read_bytes()[:4] == b"\x89PNG"
    drawn = parts(figure)
    missing, seen = drawn["PathCollection"]
    assert len(missing.get_offsets()) == 1 and seen.get_array().tolist() == [0, 1, 2, 2, 1]
    (lines,) = drawn["LineCollection"]
    assert len(lines.get_segments()) == 6 and "Quiver" not in drawn
    assert figure.axes[1].get_ylabel() == "hops"
    assert [t.get_text() for t in figure.axes[0].texts] == list("012345")
    masked = np.ma.masked_less([0, 1, -1, -1, np.inf, 1.5], 0)
    seen = parts(g.plot(values=masked))["PathCollection"][1]
    assert seen.get_array().tolist() == [0, 1, 1.5]


def test_directed_edges_loops_and_labels():
    g = morph.Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 2], device="cpu")
    g.labels = ["Ulm", "Bonn", "Kiel"]
    figure = g.plot()
    drawn = parts(figure)
    (arrows,) = drawn["Quiver"]
    rings, points = drawn["PathCollection"]
    assert arrows.N == 3 and len(rings.get_offsets()) == 1 and len(points.get_offsets()) == 3
    at = points.get_offsets()
    assert np.allclose(rings.get_offsets()[0], at[2])
    assert [t.get_text() for t in figure.axes[0].texts] == ["Ulm", "Bonn", "Kiel"]


def test_given_positions_and_columns():
    g = morph.generate.geometric(200, degree=5, seed=1, device="cpu")
    points = parts(g.plot(values=np.arange(200.0)))["PathCollection"][-1]
    assert np.allclose(points.get_offsets(), np.stack([g.points.x[:], g.points.y[:]], 1))
    where = np.random.default_rng(0).random((200, 2))
    ax = matplotlib.figure.Figure().add_subplot()
    assert g.plot(positions=where, ax=ax) is ax.figure
    assert np.allclose(parts(ax.figure)["PathCollection"][-1].get_offsets(), where)
    assert not ax.texts  # so many labels would overlap


def test_deleted_points_are_not_drawn():
    g = ring(5)
    g.points.delete([1])
    figure = g.plot(values=np.arange(5), positions=np.arange(10).reshape(5, 2))
    drawn = parts(figure)
    assert drawn["PathCollection"][-1].get_array().tolist() == [0, 2, 3, 4]
    assert len(drawn["LineCollection"][0].get_segments()) == 3
    assert [t.get_text() for t in figure.axes[0].texts] == list("0234")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"values": [1, 2]}, r"values must have shape \(4, \.\.\.\), a row for each point"),
        ({"values": np.ones((4, 2))}, r"values must have shape \(4,\), got \(4, 2\)"),
        ({"positions": np.ones(4)}, r"positions must have shape \(4, 2\), got \(4,\)"),
        ({"positions": [[0, 0]] * 3 + [[0, np.nan]]}, r"positions\[3\] is \[0.0, nan\]"),
        ({"cmap": "blue-ish"}, "matplotlib colour map, not 'blue-ish'"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        ring(4).plot(**given)


def test_large_graphs_are_refused():
    with pytest.raises(ValueError, match="at most 1,000 points are placed, the graph has 1,001"):
        ring(LAID_OUT + 1).plot()
    points = np.zeros(EDGES + 1, np.int64)
    g = morph.Graph.from_edges(points, points + 1, device="cpu")
    with pytest.raises(ValueError, match="at most 50,000 edges, the graph has 50,001"):
        g.plot()
    with pytest.raises(TypeError, match="values are numbers"):
        ring(3).plot(values=np.array(["a", "b", "c"]))


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install 'morph-engine"):
        ring(3).plot()
