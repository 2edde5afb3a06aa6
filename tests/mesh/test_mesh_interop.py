"""Meshes and domains of other libraries: Triangle's dicts, meshio, PyVista, Shapely, GeoPandas."""

import json

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from meshfiles import MESHES, assert_equal
from targets import examples

import morph
from morph.io import read_mesh

meshio = pytest.importorskip("meshio")
PLACE, SIZE = st.integers(0, 6), st.integers(1, 4)
SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4]]


def domain(mesh):
    return shapely.union_all(shapely.polygons(mesh.points[mesh.triangles]))


def same_domain(mesh, geometry):
    assert shapely.area(shapely.symmetric_difference(domain(mesh), geometry)) < 1e-9


def triangles_of(mesh):
    """The corners, however triangles are ordered and begun."""
    return {frozenset(t) for t in np.asarray(mesh["triangles"]).tolist()}


@pytest.fixture
def plate():
    return morph.triangulate(
        [*SQUARE, [1, 1], [2, 1], [2, 2]],
        [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 4]],
        holes=[[1.8, 1.2]],
        regions=[[3, 3, 7, 0.5]],
        device="cpu",
    )


def test_dicts_of_triangle_both_ways(plate):
    there = plate.to_triangle()
    assert there["vertex_markers"].shape == (7, 1)
    assert_equal(plate, morph.Mesh.of(there))
    triangle = pytest.importorskip("triangle")
    fine = triangle.triangulate(there, "rpq25a0.1")
    mesh = morph.Mesh.of(fine)
    mesh.check()
    same_domain(mesh, domain(plate))
    assert np.array_equal(mesh.triangle_attributes, fine["triangle_attributes"])
    assert mesh.quality().min_angle >= 25


def test_a_dict_is_triangulated_as_triangle_does():
    given_dict = {"vertices": SQUARE + [[1, 1], [2.5, 1.25], [2, 2]], "holes": [[1.8, 1.4]]}
    given_dict["segments"] = [[4, 5], [5, 6], [6, 4], [0, 1], [1, 2], [2, 3], [3, 0]]
    triangle = pytest.importorskip("triangle")
    peer = triangle.triangulate(given_dict, "p")
    mesh = morph.triangulate(given_dict, device="cpu")
    mesh.check()
    assert mesh.quality().area == pytest.approx(morph.Mesh.of(peer).quality().area)
    assert triangles_of(mesh.to_triangle()) == triangles_of(peer)
    graph = morph.Pslg.of(peer)  # the triangles are ignored
    assert morph.Pslg.of(graph) is graph and len(graph.segments) == len(peer["segments"])


def test_a_dict_whose_triangles_are_clockwise_is_turned():
    mesh = morph.Mesh.of({"vertices": SQUARE, "triangles": [[0, 2, 1], [0, 2, 3]]})
    mesh.check()
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_refine_takes_what_mesh_of_takes(plate):
    wanted = morph.refine(plate, 25, deterministic=True, device="cpu")
    for source in (plate.to_triangle(), plate.to_meshio()):
        found = morph.refine(source, 25, deterministic=True, device="cpu")
        assert np.array_equal(found.points, wanted.points)
        assert np.array_equal(found.triangles, wanted.triangles)
    fine = morph.refine(shapely.Polygon(SQUARE), 25, 0.5, device="cpu")
    assert fine.quality().max_area <= 0.5
    same_domain(fine, shapely.Polygon(SQUARE))


def test_meshio_objects_and_methods(plate):
    there = plate.to_meshio(three_d=True)
    back = morph.Mesh.of(there)
    back.holes, back.regions = plate.holes, plate.regions
    assert_equal(plate, back)
    assert morph.Mesh.of(plate) is plate
    assert len(morph.Mesh.of(MESHES / "italy").triangles) == len(
        read_mesh(MESHES / "italy").triangles
    )


def test_pyvista_both_ways(plate):
    pyvista = pytest.importorskip("pyvista")
    there = plate.to_pyvista()
    assert there.n_cells == len(plate.triangles) + len(plate.segments)
    back = morph.Mesh.of(there)
    back.holes, back.regions = plate.holes, plate.regions
    assert_equal(plate, back)
    surface = pyvista.PolyData.from_regular_faces(
        np.pad(plate.points, ((0, 0), (0, 1))), plate.triangles
    )
    assert np.array_equal(morph.Mesh.of(surface).triangles, plate.triangles)
    with pytest.raises(ValueError, match="VTK 9"):
        morph.Mesh.of(pyvista.Plane(i_resolution=2, j_resolution=2))


def test_triangles_are_a_geometry(plate):
    there = shapely.geometry.shape(plate)
    assert there.is_valid and len(there.geoms) == len(plate.triangles)
    same_domain(plate, shapely.union_all(there.geoms))
    again = morph.triangulate(plate.__geo_interface__, device="cpu")
    same_domain(again, domain(plate))


def test_domains_of_polygons():
    box = shapely.box
    lake = box(0, 0, 10, 10).difference(box(2, 2, 8, 8))
    island = box(4, 4, 6, 6)
    corner = shapely.Polygon([(2, 2), (5, 3), (5, 2)])  # its side is on the lake's border
    for parts in (
        [lake],
        [lake, island],
        [lake, island.difference(box(4.5, 4.5, 5.5, 5.5)), corner],
        [box(0, 0, 3, 1), box(0, 2, 3, 3), box(0, 1, 1, 2), box(2, 1, 3, 2)],  # enclose a square
        [lake, shapely.LineString([(2, 5), (8, 5)])],  # halves the lake
        [box(0, 0, 1, 1), box(3, 3, 4, 4)],
    ):
        areas = shapely.union_all([p for p in parts if p.geom_type == "Polygon"])
        for source in (
            shapely.GeometryCollection(parts),
            shapely.geometry.mapping(shapely.GeometryCollection(parts)),
            {"type": "FeatureCollection", "features": [
                {"type": "Feature", "properties": {}, "geometry": shapely.geometry.mapping(p)}
                for p in parts
            ]},
        ):  # fmt: skip
            mesh = morph.triangulate(source, device="cpu")
            mesh.check()
            same_domain(mesh, areas)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 2, *[st.integers(1, 4)] * 2), min_size=1, max_size=6)
)
def test_overlapping_boxes_make_their_union(boxes):
    shapes = [shapely.box(x, y, x + a, y + b) for x, y, a, b in boxes]
    mesh = morph.triangulate(shapely.MultiPolygon(shapes), crossing="split", device="cpu")
    mesh.check()
    same_domain(mesh, shapely.union_all(shapes))


def test_points_and_lines():
    graph = morph.Pslg.of(shapely.MultiPoint([*SQUARE, SQUARE[0]]))
    assert graph.points.tolist() == SQUARE and not len(graph.segments)
    line = shapely.LineString([(0, 0, 9), (1, 1, 8), (1, 1, 8), (2, 0, 7), (0, 0, 9)])
    graph = morph.Pslg.of(line)
    assert graph.points.tolist() == [[0, 0], [1, 1], [2, 0]]
    assert graph.segments.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert len(morph.Pslg.of(shapely.Polygon()).points) == 0
    nested = shapely.GeometryCollection([shapely.GeometryCollection([line]), shapely.Point(5, 5)])
    assert morph.Pslg.of(nested).points.tolist() == [[0, 0], [1, 1], [2, 0], [5, 5]]
    assert len(morph.Pslg.of({"type": "Feature", "geometry": None}).points) == 0


def test_frames_of_geopandas():
    geopandas = pytest.importorskip("geopandas")
    halves = [shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)]
    for source in (
        geopandas.GeoSeries(halves),
        geopandas.GeoDataFrame({"a": [1, 2]}, geometry=halves),
    ):
        mesh = morph.triangulate(source, device="cpu")
        same_domain(mesh, shapely.box(0, 0, 2, 1))
        assert {0, 1} <= set(mesh.points[mesh.segments[:, 0], 0].astype(int))


def test_what_is_refused(plate):
    for source in (None, 3, [[0, 0]], shapely.Point(0, 0)):
        with pytest.raises(TypeError, match="no mesh can be made of"):
            morph.Mesh.of(source)
    with pytest.raises(ValueError, match="'vertex' is no key of a dict of Triangle"):
        morph.triangulate({"vertex": SQUARE})
    with pytest.raises(
        ValueError, match="triangles are missing: the dict has no key 'triangles', but"
    ):
        morph.Mesh.of({"vertices": SQUARE})
    with pytest.raises(ValueError, match=r"triangle 0 \[0, 1, 1\] has no area"):
        morph.Mesh.of({"vertices": SQUARE, "triangles": [[0, 1, 1]]})
    with pytest.raises(ValueError, match="points must hold numbers"):
        morph.triangulate({"vertices": "text"})
    with pytest.raises(ValueError, match="holes is given twice: the source is a dict"):
        morph.triangulate({"vertices": SQUARE, "segments": [[0, 1]]}, holes=[[1, 1]])
    bow = shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    with pytest.raises(ValueError, match="polygon 1 is not valid: Self-intersection"):
        morph.triangulate(shapely.GeometryCollection([shapely.box(0, 0, 1, 1), bow]))
    for broken in (
        {"type": "Polygon"},
        {"type": "Ball", "coordinates": []},
        {"type": "Point", "coordinates": ["a"]},
    ):
        with pytest.raises(ValueError, match="is no geometry of GeoJSON"):
            morph.Pslg.of(broken)
    assert json.loads(json.dumps(plate.__geo_interface__))["type"] == "GeometryCollection"
