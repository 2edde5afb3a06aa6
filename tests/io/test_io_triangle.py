"""Triangle's files: every malformation with its line, exact round trips, no partial files."""

import gzip
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshfiles import MESHES, NODE, PARSERS, POLY, assert_equal, grid, put, refusal, use_parser
from targets import examples

from morph.io import FormatError, read_mesh, write_mesh
from morph.io.mesh.nodes import read_node
from morph.io.mesh.pslgs import read_poly
from morph.io.text import scanner
from morph.io.text.files import replacing
from morph.mesh import Mesh


@pytest.mark.parametrize("name", ["italy", "norway", "chile", "south_africa", "canada", "square"])
def test_samples_are_good_and_survive_a_round_trip(name, tmp_path):
    mesh = read_mesh(MESHES / name)
    mesh.check()
    write_mesh(mesh, tmp_path / "copy")
    again = read_mesh(tmp_path / "copy.ele")
    assert_equal(mesh, again)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.ele", "copy.node", "copy.poly"]


@pytest.mark.parametrize("suffix", ["", ".node", ".ele", ".poly"])
def test_any_of_the_names_will_do(tmp_path, suffix):
    mesh = read_mesh(str(put(tmp_path, poly=POLY)) + suffix)
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.segment_markers.tolist() == [5, 6, 7, 8]
    assert mesh.base == 1


def test_a_base_name_may_hold_dots(tmp_path):
    write_mesh(read_mesh(put(tmp_path)), tmp_path / "a.1")
    assert len(read_mesh(tmp_path / "a.1").triangles) == 2


def test_without_poly_the_hull_is_the_segments(tmp_path):
    mesh = read_mesh(put(tmp_path))
    assert sorted(map(sorted, mesh.segments.tolist())) == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert mesh.segment_markers.tolist() == [1] * 4
    assert mesh.point_markers.tolist() == [1] * 4


def test_hull_edges_that_poly_lacks_are_added_behind(tmp_path):
    mesh = read_mesh(put(tmp_path, poly="0 2 0 0\n1 1\n1 1 3 9\n0\n"))
    assert mesh.segments[0].tolist() == [0, 2]
    assert mesh.segment_markers.tolist() == [9, 1, 1, 1, 1]


def test_comments_blanks_and_line_ends(tmp_path):
    node = "# head\r\n\r\n4 2 0 0 # header\r\n\t0 0 0#a\r\n\n1 1 0\n2 1 1 # b\n#\n3 0 1"
    mesh = read_mesh(put(tmp_path, node, "2 3\n0 0 1 2\n1 0 2 3\n# end"))
    assert mesh.base == 0
    assert mesh.points.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]


def test_attributes_and_markers_are_carried(tmp_path):
    node = "3 2 2 1\n0 0 0 .5 1e3 7\n1 1 0 -1 2 -8\n2 0 1 0 0 9\n"
    mesh = read_mesh(put(tmp_path, node, "1 3 1\n0 0 1 2 2.5\n"))
    assert mesh.point_attributes.tolist() == [[0.5, 1000], [-1, 2], [0, 0]]
    assert mesh.point_markers.tolist() == [7, -8, 9]
    assert mesh.triangle_attributes.tolist() == [[2.5]]
    write_mesh(mesh, tmp_path / "n")
    assert_equal(mesh, read_mesh(tmp_path / "n"))


def test_poly_may_hold_the_vertices_holes_and_regions(tmp_path):
    poly = NODE + "4 0\n1 1 2\n2 2 3\n3 3 4\n4 4 1\n1\n1 5 5\n1\n1 .5 .25 3 -1\n"
    put(tmp_path, poly=poly)
    both = read_mesh(tmp_path / "m")
    (tmp_path / "m.node").unlink()
    mesh = read_mesh(tmp_path / "m")
    assert_equal(both, mesh)
    assert mesh.holes.tolist() == [[5, 5]]
    assert mesh.regions.tolist() == [[0.5, 0.25, 3, -1]]
    write_mesh(mesh, tmp_path / "n")
    assert_equal(mesh, read_mesh(tmp_path / "n"))


BAD_NODE = {
    "": "m.node:1: the file ends before the vertex header (number of vertices dimension"
    " number of attributes number of markers)",
    "# only\n# comments\n": "m.node:1: the file ends before the vertex header (number of vertices"
    " dimension number of attributes number of markers)",
    "0 2 0 0\n": "m.node:1: the file has no vertices",
    "x 2 0 0\n": "m.node:1: the number of vertices is not an integer: 'x'",
    "4.5 2 0 0\n": "m.node:1: the number of vertices is not an integer: '4.5'",
    "-4 2 0 0\n": "m.node:1: the number of vertices in the vertex header is negative: -4",
    "4,2,0,0\n": "m.node:1: a comma: fields are separated by blanks",
    "4 3 0 0\n": "m.node:1: the dimension is 3, expected 2",
    "4 2 0 2\n": "m.node:1: the number of markers is 2, expected 0 or 1",
    "4 2 9999 0\n": "m.node:1: the number of attributes is 9999, expected at most 1000",
    "4 2 0 0 0\n": "m.node:1: the vertex header has 5 fields, expected 4: number of vertices"
    " dimension number of attributes number of markers",
    NODE[:-6]: "m.node:4: the file ends after 3 of 4 vertices",
    "# c\n5 2 0 0\n" + NODE[8:]: "m.node:6: the file ends after 4 of 5 vertices",
    NODE + "5 2 2\n": "m.node:6: unexpected '5' after the last of the vertices",
    NODE + "\nend\n": "m.node:7: unexpected 'end' after the last of the vertices",
    NODE.replace("3 1 1", "3 1"): "m.node:4: found 2 fields, expected 3: vertex number x y",
    NODE.replace("3 1 1", "3 1 1 1"): "m.node:4: found 4 fields, expected 3: vertex number x y",
    NODE.replace("3 1 1", "3 nan 1"): "m.node:4: the x is not a finite number: 'nan'",
    NODE.replace("3 1 1", "3 1 -Inf"): "m.node:4: the y is not a finite number: '-Inf'",
    NODE.replace("3 1 1", "3 1 1e999"): "m.node:4: the y is too large for a double: '1e999'",
    NODE.replace("3 1 1", "3 1 1.5.5"): "m.node:4: the y is not a number: '1.5.5'",
    NODE.replace("3 1 1", "3 1-1"): "m.node:4: found 2 fields, expected 3: vertex number x y",
    NODE.replace("3 1 1", "3 0x1 1"): "m.node:4: the x is not a number: '0x1'",
    NODE.replace("3 1 1", "3 1_0 1"): "m.node:4: the x is not a number: '1_0'",
    NODE.replace("3 1 1", "3 1,5 1"): "m.node:4: a comma: fields are separated by blanks",
    NODE.replace("3 1 1", "3 1 \x00"): "m.node:4: binary data where text is expected",
    NODE.replace("3 1 1", "3 1 \xff"): "m.node:4: binary data where text is expected",
    "\x7fELF\x02\x01": "m.node:1: binary data where text is expected",
    NODE + "\x00\x00": "m.node:6: binary data where text is expected",
    NODE + "\n5 \x80": "m.node:7: binary data where text is expected",
    NODE.replace("3 1 1", "3.5 1 1"): "m.node:4: the vertex number is not an integer: 3.5",
    NODE.replace("3 1 1", "7 1 1"): "m.node:4: found vertex 7, expected vertex 3: numbers must"
    " follow one another, as the first vertex counts",
    NODE.replace("1 0 0\n", "2 0 0\n"): "m.node:2: the first vertex has number 2, expected 0 or 1",
    NODE.replace("3 1 1", "3 1 -0.0"): "m.node:4: vertex 3 repeats the coordinates of vertex 2",
    "3 2 0 1\n0 0 0 1\n1 1 0 2.5\n2 0 1 1\n": "m.node:3: the marker is not an integer: 2.5",
    "3 2 0 1\n0 0 0 1\n1 1 0 1\n2 0 1 9999999999\n": "m.node:4: marker 9999999999 does not fit"
    " 32 bits",
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("node", BAD_NODE, ids=lambda t: repr(t)[:40])
def test_bad_node(tmp_path, monkeypatch, node, parser):
    use_parser(monkeypatch, parser)
    assert refusal(put(tmp_path, node)) == BAD_NODE[node]


BAD_ELE = {
    "": "m.ele:1: the file ends before the triangle header (number of triangles corners of a"
    " triangle number of attributes)",
    "0 3 0\n": "m.ele:1: the file has no triangles",
    "2 4 0\n": "m.ele:1: triangles have 4 vertices, expected 3 or 6",
    "2 6 0\n": "m.ele:1: the file ends after 0 of 2 triangles",
    "3 3 0\n1 1 2 3\n2 1 3 4\n": "m.ele:3: the file ends after 2 of 3 triangles",
    "1 3 0\n1 1 2 3\n2 1 3 4\n": "m.ele:3: unexpected '2' after the last of the triangles",
    "2 3 0\n1 1 2 3\n2 1 3\n": "m.ele:3: found 3 fields, expected 4: triangle number vertex 1"
    " vertex 2 vertex 3",
    "2 3 0\n1 1 2 3\n2 1 3 4.0\n": "m.ele:3: the vertex 3 is not an integer: '4.0'",
    "2 3 0\n1 1 2 3\n3 1 3 4\n": "m.ele:3: found triangle 3, expected triangle 2: numbers must"
    " follow one another, as the first vertex counts",
    "2 3 0\n0 1 2 3\n1 1 3 4\n": "m.ele:2: found triangle 0, expected triangle 1: numbers must"
    " follow one another, as the first vertex counts",
    "2 3 0\n1 1 2 3\n2 1 3 5\n": "m.ele:3: triangle 2 names vertex 5, but vertices are 1 to 4",
    "2 3 0\n1 1 2 3\n2 0 3 4\n": "m.ele:3: triangle 2 names vertex 0, but vertices are 1 to 4",
    "2 3 0\n1 1 2 99999999999999999999\n2 1 3 4\n": "m.ele:2: the vertex 3 does not fit 64 bits:"
    " '99999999999999999999'",
    "2 3 0\n1 1 2 3\n2 1 4 3\n": "m.ele:3: triangle 2 (1 4 3) is clockwise: list its vertices"
    " counter-clockwise",
    "2 3 0\n1 1 2 3\n2 1 3 3\n": "m.ele:3: triangle 2 (1 3 3) is degenerate: its area is zero",
    "2 3 0\n1 1 2 3\n2 1 2 4\n": "m.ele:3: triangles 1 and 2 overlap: they lie on one side of"
    " an edge",
    "2 3 0\n1 1 2 3\n2 2 3 1\n": "m.ele:3: triangles 1 and 2 overlap: they lie on one side of"
    " an edge",
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("ele", BAD_ELE, ids=lambda t: repr(t)[:40])
def test_bad_ele(tmp_path, monkeypatch, ele, parser):
    use_parser(monkeypatch, parser)
    assert refusal(put(tmp_path, ele=ele)) == BAD_ELE[ele]


def test_degenerate_is_decided_exactly(tmp_path):
    # almost on one line: floating point alone cannot tell these two apart
    node = "3 2\n1 0.1 0.1\n2 0.3 0.3\n3 0.7 0.7000000000000001\n"
    assert read_mesh(put(tmp_path, node, "1 3\n1 1 2 3\n")).triangles.tolist() == [[0, 1, 2]]
    node = "3 2\n1 0.1 0.1\n2 0.3 0.3\n3 0.7 0.7\n"
    assert "is degenerate" in refusal(put(tmp_path, node, "1 3\n1 1 2 3\n"))


BAD_POLY = {
    "0 2 0 1\n4 1\n1 1 2 5\n": "m.poly:3: the file ends after 1 of 4 segments",
    "0 2 0 1\n": "m.poly:1: the file ends before the segment header (number of segments number"
    " of markers)",
    POLY.replace("4 1\n1 1", "4 3\n1 1"): "m.poly:2: the number of markers is 3, expected 0 or 1",
    POLY.replace("2 2 3 6", "2 2 9 6"): "m.poly:4: segment 2 names vertex 9, but vertices are"
    " 1 to 4",
    POLY.replace("2 2 3 6", "2 2 2 6"): "m.poly:4: segment 2 joins a vertex to itself",
    POLY.replace("2 2 3 6", "2 2 1 6"): "m.poly:4: segment 2 repeats segment 1",
    POLY.replace("2 2 3 6", "2 2 4 6"): "m.poly:4: segment 2 (2 4) is not an edge of any triangle",
    POLY.replace("2 2 3 6", "5 2 3 6"): "m.poly:4: found segment 5, expected segment 2: numbers"
    " must follow one another, as the first vertex counts",
    POLY[:-2] + "1\n": "m.poly:7: the file ends after 0 of 1 holes",
    POLY[:-2] + "1\n1 nan 0\n": "m.poly:8: the x is not a finite number: 'nan'",
    POLY + "1\n1 0 0\n": "m.poly:9: found 3 fields, expected 5: region number x y attribute"
    " maximum area",
    POLY + "2\n1 0 0 1\n2 0 0 1 1\n": "m.poly:10: found 5 fields, expected 4: region number x y"
    " attribute",
    POLY + "1\n1 0 0 1 1\nend\n": "m.poly:10: unexpected 'end' after the last of the regions",
    "1 2 0 0\n1 0 0\n" + POLY[8:]: "m.poly:3: the vertices differ from those of the .node file",
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("poly", BAD_POLY, ids=lambda t: repr(t)[:40])
def test_bad_poly(tmp_path, monkeypatch, poly, parser):
    use_parser(monkeypatch, parser)
    assert refusal(put(tmp_path, poly=poly)) == BAD_POLY[poly]


def test_poly_without_vertices_anywhere(tmp_path):
    put(tmp_path, poly=POLY)
    (tmp_path / "m.node").unlink()
    assert refusal(tmp_path / "m") == "m.poly:2: the file has no vertices, and there is no m.node"


@pytest.mark.parametrize("suffix", [".node", ".ele"])
def test_a_missing_file_is_named(tmp_path, suffix):
    base = put(tmp_path)
    base.with_suffix(suffix).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        read_mesh(base)
    assert caught.value.filename == str(base) + suffix


def test_lines_are_right_beyond_the_first_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(scanner, "CHUNK", 16)
    mesh = read_mesh(put(tmp_path, poly=POLY))
    assert len(mesh.triangles) == 2
    assert refusal(put(tmp_path, NODE.replace("3 1 1", "3 x 1"))).startswith("m.node:4: ")
    spaced = NODE.replace("\n", "\n\n# c\n   \n")
    assert refusal(put(tmp_path, spaced.replace("4 0 1", "4 0"))).startswith("m.node:17: ")
    assert refusal(put(tmp_path, spaced.replace("4 0 1", "9 0 1"))).startswith("m.node:17: ")


def test_format_error_has_its_parts():
    error = FormatError("a.node", 3, "bad")
    assert (error.path, error.line, error.message, str(error)) == (
        "a.node",
        3,
        "bad",
        "a.node:3: bad",
    )
    assert str(FormatError("a.npz", None, "bad")) == "a.npz: bad"


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(
        st.tuples(finite, finite),
        min_size=1,
        max_size=30,
        unique_by=lambda p: (p[0] + 0.0, p[1] + 0.0),
    ),
    st.integers(0, 1),
    st.data(),
)
def test_vertices_keep_their_bits(tmp_path_factory, points, base, data):
    folder = tmp_path_factory.mktemp("bits")
    n = len(points)
    extra = data.draw(st.lists(st.tuples(finite), min_size=n, max_size=n))
    marks = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=n, max_size=n))
    mesh = Mesh(np.array(points), np.empty((0, 3), np.int32), point_attributes=np.array(extra),
                point_markers=np.array(marks), base=base)  # fmt: skip
    write_mesh(mesh, folder / "m")
    nodes = read_node(folder / "m.node")
    assert nodes.points.tobytes() == mesh.points.tobytes()
    assert nodes.attributes.tobytes() == mesh.point_attributes.tobytes()
    assert nodes.markers.tolist() == marks
    assert nodes.base == base
    assert len(read_poly(folder / "m.poly", nodes).segments) == 0


@given(st.integers(1, 12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_meshes_survive_a_round_trip(tmp_path_factory, wide, tall, random):
    mesh = grid(wide, tall, random)
    folder = tmp_path_factory.mktemp("trip")
    write_mesh(mesh, folder / "m.node")
    assert_equal(mesh, read_mesh(folder / "m"))


@given(st.binary(max_size=60))
def test_junk_never_crashes_the_reader(tmp_path_factory, junk):
    folder = tmp_path_factory.mktemp("junk")
    put(folder)
    (folder / "m.node").write_bytes(b"4 2 0 0\n1 0 0\n" + junk)
    with pytest.raises(FormatError):
        read_mesh(folder / "m")


FILES = {
    "node": "4 2 1 1\n1 0 0 .5 7\n2 1 0 2e3 8\n# c\n3 1 1 0 9\n4 0 1 -1 1\n",
    "ele": "2 3 1\n1 1 2 3 .5\n2 1 3 4 1.5\n",
    "poly": POLY + "1\n1 .5 .25 3 -1\n",
}
GOOD_READER = {"corners", "orientation", "edge-use", "duplicate-triangle", "neighbour", "segment",
               "duplicate-segment", "hull", "duplicate-point", "finite", "index"}  # fmt: skip


def plainly(folder, suffix, width):
    """Rows of a file's first part by nothing but split and float."""
    text = (folder / f"m.{suffix}").read_bytes().decode("latin1")
    lines = [line.partition("#")[0].split() for line in text.split("\n")]
    lines = [words for words in lines if words]
    return [[float(w) for w in words[1:width]] for words in lines[1 : 1 + int(lines[0][0])]]


@settings(max_examples=examples(150))
@given(
    st.sampled_from(["node", "ele", "poly"]),
    st.lists(
        st.tuples(
            st.integers(0, 90),
            st.sampled_from(list(b"0123456789-.eE+ \n#,\t\r")) | st.integers(0, 255),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_changed_bytes_are_an_error_or_the_mesh_they_spell(tmp_path_factory, kind, changes):
    """By each parser: the same error, or the same mesh, which is what a plain reading gives."""
    folder = tmp_path_factory.mktemp("bytes")
    for suffix, text in FILES.items():
        data = bytearray(text.encode())
        for at, byte, how in changes if suffix == kind else []:
            at = min(at, len(data))
            data[at : at + (how > 0)] = bytes([byte] * (how < 2))
        (folder / f"m.{suffix}").write_bytes(data)
    found = []
    for parser in PARSERS:
        with pytest.MonkeyPatch.context() as patch:
            use_parser(patch, parser)
            try:
                found.append(read_mesh(folder / "m"))
            except FormatError as error:
                found.append(str(error))
    mesh = found[0]
    if isinstance(mesh, str):
        assert found == [mesh] * 3
        return
    for other in found[1:]:
        assert_equal(mesh, other)
    assert not GOOD_READER & {v.name for v in mesh.violations()}
    extra = mesh.point_attributes.shape[1]
    assert mesh.points.tolist() == [row[:2] for row in plainly(folder, "node", 3)]
    assert mesh.point_attributes.tolist() == [r[2:] for r in plainly(folder, "node", 3 + extra)]
    assert (mesh.triangles + mesh.base).tolist() == plainly(folder, "ele", 4)


def test_an_interrupted_write_leaves_what_was_there(tmp_path, monkeypatch):
    base = put(tmp_path, poly=POLY)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def interrupted(mesh):
        yield b"half of"
        raise KeyboardInterrupt

    monkeypatch.setattr("morph.io.mesh.triangle._poly_lines", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_mesh(read_mesh(base), base)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_writing_into_a_missing_folder_names_it(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_mesh(read_mesh(MESHES / "square"), tmp_path / "no" / "m")
    assert caught.value.filename == str(tmp_path / "no")


def test_compressed_files_are_replaced_atomically_too(tmp_path):
    with replacing(tmp_path / "a.gz") as (file,):
        file.write(b"text")
        assert not (tmp_path / "a.gz").exists()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes_and_symbolic_links_stay(tmp_path):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to("file")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe, link) as files:
        for written in files:
            written.write(b"text")
    assert os.read(reader, 10) == file.read_bytes() == b"text"
    assert pipe.is_fifo() and link.is_symlink() and len(os.listdir(tmp_path)) == 3
    os.close(reader)
