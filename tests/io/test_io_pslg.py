"""Planar straight-line graphs in `.poly` and `.node` files, and their repair."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshfiles import NODE, PARSERS, assert_equal, refusal, use_parser

from morph.io import RepairWarning, read_mesh, read_pslg, write_pslg
from morph.mesh import Pslg

SQUARE = NODE + "4 0\n1 1 2\n2 2 3\n3 3 4\n4 4 1\n"  # no column of markers
MESHES = Path(__file__).parents[2] / "meshes"


def put(folder: Path, **files: str) -> Path:
    for suffix, text in files.items():
        (folder / f"g.{suffix}").write_text(text)
    return folder / "g"


def test_a_poly_with_its_own_vertices(tmp_path):
    graph = read_pslg(put(tmp_path, poly=SQUARE + "1\n1 .5 .5\n1\n1 .1 .2 7 .01\n"))
    assert graph.points.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert graph.segments.tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert graph.segment_markers.tolist() == [0] * 4
    assert graph.point_markers.tolist() == [0] * 4
    assert graph.holes.tolist() == [[0.5, 0.5]]
    assert graph.regions.tolist() == [[0.1, 0.2, 7, 0.01]]
    assert graph.base == 1


def test_its_own_vertices_win_over_those_beside(tmp_path):
    base = put(tmp_path, poly=SQUARE + "0\n", node="1 2\n0 9 9\n")
    assert len(read_pslg(base).points) == 4
    assert len(read_pslg(f"{base}.node").points) == 1


def test_a_poly_with_no_vertices_leans_on_the_node_file(tmp_path):
    node = "3 2 1 1\n0 0 0 .5 4\n1 1 0 .25 5\n2 0 1 1 6\n"
    base = put(tmp_path, node=node, poly="0 2 0 0 # none\n2 1\n0 0 1 -3\n1 1 2 8\n")
    for name in (base, f"{base}.poly"):
        graph = read_pslg(name)
        assert graph.segments.tolist() == [[0, 1], [1, 2]]
        assert graph.segment_markers.tolist() == [-3, 8]
        assert graph.point_markers.tolist() == [4, 5, 6]
        assert graph.point_attributes.tolist() == [[0.5], [0.25], [1]]
    (tmp_path / "g.node").unlink()
    message = "g.poly:2: the file has no vertices, and there is no g.node"
    assert refusal(base, read_pslg) == message


def test_a_node_file_alone_has_no_segments(tmp_path):
    base = put(tmp_path, node=NODE)
    for name in (base, f"{base}.node"):
        graph = read_pslg(name)
        assert (graph.points.shape, graph.segments.shape, graph.base) == ((4, 2), (0, 2), 1)
    with pytest.raises(FileNotFoundError) as caught:
        read_pslg(f"{base}.poly")
    assert caught.value.filename == f"{base}.poly"


def test_a_region_with_one_value_has_it_as_attribute_and_area(tmp_path):
    graph = read_pslg(put(tmp_path, poly=SQUARE + "0\n2\n1 .1 .2 .5\n2 .3 .4 -1\n"))
    assert graph.regions.tolist() == [[0.1, 0.2, 0.5, 0.5], [0.3, 0.4, -1, -1]]


@pytest.mark.parametrize("name", ["italy", "norway", "chile", "south_africa", "canada"])
def test_coastlines_agree_with_numpy_and_with_the_meshes(name, tmp_path):
    mesh = read_mesh(MESHES / name)
    points = np.loadtxt(MESHES / f"{name}.node", skiprows=1)[:, 1:3]
    assert np.array_equal(mesh.points, points)
    triangles = np.loadtxt(MESHES / f"{name}.ele", skiprows=1, dtype=int)[:, 1:4]
    assert np.array_equal(mesh.triangles, triangles - mesh.base)
    graph = read_pslg(MESHES / f"{name}.poly")
    assert np.array_equal(graph.points, points)
    assert np.array_equal(graph.segments, mesh.segments[: len(graph.segments)])
    write_pslg(graph, tmp_path / "copy.poly")
    again = read_pslg(tmp_path / "copy")
    assert_equal(again, graph)


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("parser", PARSERS)
@given(st.data())
def test_graphs_survive_a_round_trip(tmp_path_factory, parser, data):
    place = st.tuples(finite, finite)
    unlike = {"unique_by": lambda p: (p[0] + 0.0, p[1] + 0.0)}
    points = data.draw(st.lists(place, min_size=2, max_size=12, **unlike))
    n = len(points)
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    segments = data.draw(st.lists(pair, max_size=8, unique_by=frozenset))
    int32 = st.integers(-(2**31), 2**31 - 1)
    fill = [data.draw(st.lists(int32, min_size=k, max_size=k)) for k in (n, len(segments))]
    graph = Pslg(
        points=np.array(points),
        segments=np.array(segments, np.int32).reshape(-1, 2),
        segment_markers=np.array(fill[1], np.int32),
        point_markers=np.array(fill[0], np.int32),
        point_attributes=np.array(data.draw(st.lists(finite, min_size=n, max_size=n)))[:, None],
        holes=np.array(data.draw(st.lists(place, max_size=2)), float).reshape(-1, 2),
        regions=np.array(
            data.draw(st.lists(st.tuples(finite, finite, finite, finite), max_size=2)), float
        ).reshape(-1, 4),
        base=data.draw(st.integers(0, 1)),
    )
    folder = tmp_path_factory.mktemp("graph")
    with pytest.MonkeyPatch.context() as patch:
        use_parser(patch, parser)
        write_pslg(graph, folder / "g")
        again = read_pslg(folder / "g")
    assert_equal(graph, again)
    assert graph.points.tobytes() == again.points.tobytes()


def test_writing_what_no_reader_takes_is_refused(tmp_path):
    graph = Pslg(points=np.array([[0.0, 1.0], [2.0, 3.0]]), holes=np.array([[0.5, 0.5]]))
    graph.holes[0, 1] = np.nan
    with pytest.raises(ValueError, match=r"holes\[0\]\[1\] is nan: files hold finite numbers"):
        write_pslg(graph, tmp_path / "g")
    assert not list(tmp_path.iterdir())


def test_an_area_without_limit_is_written_as_minus_one(tmp_path):
    regions = np.array([[0.5, 0.5, 1.0, np.nan], [0.5, 0.5, 1.0, np.inf], [0.5, 0.5, 1.0, 2.0]])
    write_pslg(Pslg(points=np.eye(2), regions=regions), tmp_path / "g")
    assert read_pslg(tmp_path / "g").regions[:, 3].tolist() == [-1, -1, 2]


def test_repair_merges_vertices_and_drops_segments(tmp_path):
    poly = (
        "6 2 1 1\n0 0 0 5 1\n1 1 0 6 2\n2 0.0 -0.0 7 3\n3 0 1 8 4\n4 1.0 0 9 5\n5 0 0 9 9\n"
        "5 1\n0 0 1 11\n1 2 3 12\n2 4 5 13\n3 2 0 14\n4 3 1 15\n0\n"
    )
    base = put(tmp_path, poly=poly)
    assert refusal(base, read_pslg) == "g.poly:4: vertex 2 repeats the coordinates of vertex 0"
    with pytest.warns(RepairWarning) as reported:
        graph = read_pslg(base, repair=True)
    assert [str(w.message).replace(f"{base}.poly", "g") for w in reported] == [
        "g:4: vertex 2 repeats the coordinates of vertex 0: merged (and 2 more like it)",
        "g:12: segment 3 joins a vertex to itself: dropped",
        "g:11: segment 2 repeats segment 0: dropped",
    ]
    assert graph.points.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert graph.point_markers.tolist() == [1, 2, 4]
    assert graph.point_attributes.tolist() == [[5], [6], [8]]
    assert graph.segments.tolist() == [[0, 1], [0, 2], [2, 1]]
    assert graph.segment_markers.tolist() == [11, 12, 15]


def test_repair_of_what_is_good_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_equal(read_pslg(MESHES / "chile", repair=True), read_pslg(MESHES / "chile"))
        assert_equal(read_mesh(MESHES / "chile", repair=True), read_mesh(MESHES / "chile"))
