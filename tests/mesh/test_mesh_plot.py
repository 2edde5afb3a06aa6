"""Pictures of meshes, compared pixel by pixel."""

import base64
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import shapely
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from morph.cli import main
from morph.mesh import Mesh
from morph.plotting.raster import rasterize, trace


def ring(n, seed=0, scale=1.0):
    """A triangulated unit square with a round hole of radius 0.3, two regions."""
    points = np.random.default_rng(seed).random((n, 2))
    triangles = Delaunay(points).simplices
    p, q, r = points[triangles].transpose(1, 2, 0)
    turn = (q[0] - p[0]) * (r[1] - p[1]) < (q[1] - p[1]) * (r[0] - p[0])
    triangles[turn] = triangles[turn][:, ::-1]
    middle = points[triangles].mean(axis=1)
    keep = np.hypot(*(middle - 0.5).T) > 0.3
    region = np.where(middle[keep, :1] < 0.5, 1, 7)
    return Mesh(points * scale, triangles[keep], triangle_attributes=region)


def picture(figure):
    """The pixels of a figure, 0 to 255, rows from the top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.booleans())
def test_pixels_against_shapely(seed, count, mean):
    rng = np.random.default_rng(seed)
    points = rng.random((3 * count, 2)) * [14, 10] - 1
    points[::3] = points[1::3] + rng.normal(size=(count, 2)) * rng.choice([0.1, 1, 9], (count, 1))
    triangles, values = np.arange(3 * count).reshape(-1, 3), rng.random(count)
    image = rasterize(points, triangles.astype(np.int32), values, (8, 12), mean)
    shapes = shapely.polygons(points[triangles])
    for row in range(8):
        for column in range(12):
            holds = shapely.contains_xy(shapes, column + 0.5, row + 0.5)
            middle = points[triangles].mean(axis=1)
            near = (np.floor(middle) == [column, row]).all(axis=1)
            shown = np.concatenate([values[holds], values[near]])
            if mean or len(shown) < 2:
                assert image[row, column] == pytest.approx(
                    shown.mean() if len(shown) else np.nan, nan_ok=True
                )
            else:
                assert image[row, column] in shown


def test_pixels_of_a_line():
    points = np.array([[0.5, 0.5], [5.5, 3.0], [-9, 1.5], [99, 1.5]])
    hit = trace(points, np.array([[0, 1]], np.int32), (5, 7))
    assert hit.any(axis=0).tolist() == [True] * 6 + [False]
    assert trace(points, np.array([[2, 3]], np.int32), (5, 7))[1].all()


@pytest.mark.parametrize("n", [400, 30_000])  # drawn, and painted
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"color": "area"},
        {"color": "density"},
        {"color": "region"},
        {"color": "none"},
        {"values": "points"},
    ],
    ids=str,
)
def test_a_picture_shows_the_mesh_and_its_hole(n, options):
    pytest.importorskip("matplotlib")
    mesh = ring(n)
    if options.get("values"):
        options = {"values": mesh.points[:, 0], "label": "x", "cmap": "Greys"}
    figure = mesh.plot(**options)
    axes = figure.axes[0]
    figure.set_dpi(50)
    pixels = picture(figure)
    x, y = np.meshgrid(np.linspace(0.05, 0.95, 19), np.linspace(0.05, 0.95, 19))
    place = np.stack([x.ravel(), y.ravel()], axis=1)
    away = np.hypot(*(place - 0.5).T)
    column, row = axes.transData.transform(place).astype(int).T
    shown = pixels[len(pixels) - 1 - row, column]
    white = (shown > 250).all(axis=1)
    assert white[away < 0.25].all()
    assert white[away > 0.36].mean() < 0.15  # light colours, and white edges
    if options.get("color") == "region":
        left, right = shown[(away > 0.36) & (place[:, 0] < 0.45)], shown[place[:, 0] > 0.85]
        assert np.abs(np.median(left, axis=0) - np.median(right, axis=0)).max() > 50
        assert [t.get_text() for t in axes.get_legend().get_texts()] == ["1", "7"]
    if "label" in options:
        dark = shown.sum(axis=1)
        assert dark[place[:, 0] < 0.15].mean() > dark[place[:, 0] > 0.85].mean() + 300
        assert figure.axes[1].get_ylabel() == "x"


def test_painted_densities():
    """Twice as many points in each direction, four times the density."""
    pytest.importorskip("matplotlib")
    coarse, fine = np.mgrid[0:100, 0:100] / 100, np.mgrid[0:200, 0:200] / 200
    points = np.concatenate([coarse.reshape(2, -1).T, fine.reshape(2, -1).T + [0.995, 0]])
    points += np.random.default_rng(0).random(points.shape) * 1e-4
    image = np.asarray(
        Mesh(points, _turned(points)).plot(color="density").axes[0].images[0].get_array()
    )
    height, width = image.shape
    left, right = image[:, : int(0.45 * width)], image[:, int(0.55 * width) :]
    assert np.nanmean(left) == pytest.approx(2 * 100**2, rel=0.05)
    assert np.nanmean(right) == pytest.approx(8 * 100**2, rel=0.05)
    hole = np.asarray(
        ring(30_000).plot(color="density").axes[0].images[0].get_array().filled(np.nan)
    )
    assert np.isnan(hole[len(hole) // 2, len(hole) // 2])


def _turned(points):
    triangles = Delaunay(points).simplices
    p, q, r = points[triangles].transpose(1, 2, 0)
    turn = (q[0] - p[0]) * (r[1] - p[1]) < (q[1] - p[1]) * (r[0] - p[0])
    triangles[turn] = triangles[turn][:, ::-1]
    return triangles


def test_axes_of_the_users(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert ring(60).plot(ax=left, color="none", segments=False) is figure
    assert ring(60).plot(tmp_path / "two.png", ax=right, values=np.arange(len(ring(60).triangles)))
    assert (tmp_path / "two.png").read_bytes()[1:4] == b"PNG"
    assert not left.collections[1:] and len(right.collections) == 2
    empty = Mesh(np.zeros((0, 2)), np.zeros((0, 3), int))
    for color in ("angle", "area", "density", "region"):
        picture(empty.plot(color=color))


def test_refused_pictures(monkeypatch):
    pytest.importorskip("matplotlib")
    mesh = ring(60)
    with pytest.raises(
        ValueError, match="color is one of angle, area, density, region, none, not 'red'"
    ):
        mesh.plot(color="red")
    with pytest.raises(ValueError, match=r"values must have shape \(60,\), one for each point"):
        mesh.plot(values=np.zeros(7))
    mesh.points[3] = np.nan
    with pytest.raises(ValueError, match=r"point 3 is at \[nan, nan\]"):
        mesh.plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'morph-engine\[mesh\]'"):
        ring(60).plot()


@pytest.mark.parametrize("n", [60, 30_000])  # drawn, and painted
def test_previews_in_notebooks(n):
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    mesh = ring(n)
    png, html = mesh._repr_png_(), mesh._repr_html_()
    height, width, _ = imread(io.BytesIO(png)).shape
    assert 200 < max(height, width) < 800 and len(png) < 2**20
    start = html.index("base64,") + len("base64,")
    assert base64.b64decode(html[start : html.index('"', start)])[:4] == b"\x89PNG"
    low, high = mesh.angles().min(), mesh.angles().max()
    assert f"{len(mesh.triangles):,} triangles" in html
    assert f"angles {low:.2f} to {high:.2f} degrees" in html


def test_what_has_no_preview(monkeypatch):
    pytest.importorskip("matplotlib")
    empty = Mesh(np.zeros((0, 2)), np.zeros((0, 3), int))
    assert empty._repr_png_() is None and "0 triangles" in empty._repr_html_()
    mesh = ring(60)
    monkeypatch.setattr("morph.plotting.mesh.PREVIEWED", len(mesh.triangles) - 1)
    assert mesh._repr_png_() is None and "img" not in mesh._repr_html_()
    monkeypatch.setattr("morph.plotting.mesh.PREVIEWED", len(mesh.triangles))
    assert mesh._repr_png_()
    mesh.points[3] = np.nan
    assert mesh._repr_png_() is None and "img" not in mesh._repr_html_()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert ring(60)._repr_png_() is None and "img" not in ring(60)._repr_html_()


@pytest.mark.parametrize(("few", "asked", "drawn"), [
    (10**9, [], "smallest angle (degrees)"), (1, [], "triangles per unit area"),
    (1, ["--color", "area"], "area"),
])  # fmt: skip
def test_colours_of_the_command(few, asked, drawn, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    labels = []
    monkeypatch.setattr("morph.cli.meshfiles.VECTOR_LIMIT", few)
    monkeypatch.setattr(
        "morph.cli.meshfiles.write_figure", lambda f, _: labels.append(f.axes[1].get_ylabel())
    )
    italy = Path(__file__).parents[2] / "meshes" / "italy"
    command = ["refine", str(italy), "--device", "cpu", "--plot", str(tmp_path / "a.png"), *asked]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and labels == [drawn], done.output
