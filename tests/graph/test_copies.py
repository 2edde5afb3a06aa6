"""Copies and pickles are complete, and share no memory with the original."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from journals import changed, same
from small import contents
from targets import host

import morph
from morph import CheckError, LanguageError, MeshError, io, validate
from morph.language.position import Pos
from morph.runtime.toolchain import CompileError

KINDS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "protocol 0": lambda x: pickle.loads(pickle.dumps(x, 0)),
    "protocol 2": lambda x: pickle.loads(pickle.dumps(x, 2)),
    "apart": lambda x: apart(x),
}
DEEP = [k for k in KINDS if k != "copy"]


def apart(x):
    """By buffers that the pickle does not hold."""
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [True, False])
def test_a_graph(target, kind, directed):
    g = changed(directed, target)
    h = KINDS[kind](g)
    assert type(h) is morph.Graph and h.device == g.device and h is not g
    want = changed(directed, target)
    for t in g.tables.values():  # nothing is shared
        for c in t.columns.values():
            if not c.ref:
                c.array[:] = 0
    g.apply(delete_points=[0])
    g.points.new()
    same(want, h)


def test_the_method_is_the_same():
    g = changed()
    same(g, g.copy())
    same(g, g.snapshot())


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_index_come_along(target, kind):
    g = morph.Graph.from_edges([2, 0, 1], [0, 1, 2], weight=[3.5, 1, 2], device=target)
    h = KINDS[kind](g)
    assert h.out_identity and host(h.edge_order).tolist() == [1, 2, 0]
    assert host(h.adjacency()[0]).tolist() == [0, 1, 2, 3] and h.adjacency()[1] is None
    validate.index(h)
    g.sort_edges("weight")
    assert not KINDS[kind](g).out_identity
    assert KINDS[kind](g)._adjacency.sorted_by == "weight"
    h.apply(([0], [2], [9]))
    assert (g.edges.live, h.edges.live) == (3, 4)
    empty = KINDS[kind](morph.Graph(target))
    assert len(empty.points) == len(empty.edges) == 0
    assert empty.points.new().id == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_table(target, kind):
    t = morph.Table("rows", target, x=np.float32, y=morph.vec(np.int16, 3), r=morph.Ref("rows"))
    t.columns["x"].fill = np.float32(4)
    t.pack("x", "r")
    t.extend(3, x=[1, 2, 3], r=[2, 1, 0])
    t.delete([1])
    other = KINDS[kind](t)
    want = contents(t)
    t.x[:] = 0
    t.new()
    assert contents(other) == want and other.packs == t.packs
    row = other.new()
    assert row.id == 1 and row.x == 4 and row.r is None and other.live == 3


@pytest.mark.parametrize("kind", KINDS)
def test_collections_sets_flags_and_rows(target, kind):
    g = changed(True, target)
    c = morph.Collection(g.points, name="some", key=np.int64, edge=morph.Ref(g.edges))
    c.extend([0, 2, 3], key=[5, 6, 7], edge=[2, -1, 0])
    s, f = morph.Set(g.points), morph.Flag(g)
    s.union(0, 4)
    f.set()
    held = {"g": g, "c": c, "s": s, "f": f, "row": g.points[2], "column": g.edges.weight,
            "refs": g.tables["triangles"][0].node, "points": g.points}  # fmt: skip
    made = {k: KINDS[kind](x) for k, x in held.items()} if kind == "copy" else KINDS[kind](held)
    home = g if kind == "copy" else made["g"]
    assert (home is g) == (kind == "copy")
    assert made["c"].table is home.points and made["s"].table is home.points
    assert made["c"].graph is home and made["c"]._lock is home._lock
    assert made["row"].table is home.points and made["column"].store is home.edges
    assert made["refs"]._table is home.tables["triangles"]
    if kind != "copy":
        assert made["points"] is home.points
    c.add(4, 1, 1)
    s.union(2, 3)
    f.clear()
    assert host(made["c"].items).tolist() == [0, 2, 3] and made["c"].name == "some"
    assert host(made["c"].key[:]).tolist() == [5, 6, 7] and made["c"][0].edge.id == 2
    assert host(made["s"].labels()).tolist()[:5] == [0, 1, 2, 3, 0]
    assert made["f"].raised and not f.raised
    made["c"].add(0)
    made["s"].union(0, 2)
    assert (len(c), len(made["c"]), c[3].item.id) == (4, 4, 4)
    assert s.find(2).id == 2 and made["s"].find(2).id == 0


@pytest.mark.parametrize("kind", DEEP)
def test_deleted_rows_are_not_reused_while_something_copied_denotes_them(target, kind):
    g = morph.Graph.from_edges([0, 1], [1, 2], n=6, device=target)
    homes = g.add_table("homes", at=morph.Ref("points"))
    homes.extend(1, at=[3])
    c, s = morph.Collection(g.points), morph.Set(g.points)
    c.add(1)
    s.union(4, 5)
    g.points.delete([0, 1, 3, 5])
    h, d, u = KINDS[kind]((g, c, s))
    for x in (g, h):
        made = [x.points.new().id for _ in range(12)]
        assert not {1, 3, 5} & set(made) and 0 in made
    assert d[0].id == 1 and d[0].dead and h.homes[0].at.dead and u.find(5).id == 4


@pytest.mark.parametrize("kind", DEEP)
def test_one_object_brings_its_graph(kind):
    g = changed()
    c = morph.Collection(g.points)
    c.extend([0, 2])
    for x in (c, morph.Set(g.points), g.points[0], g.points, g.edges.weight):
        made = KINDS[kind](x)
        table = made if isinstance(made, morph.Table) else getattr(made, "table", None)
        table = made.store if table is None else table
        assert table.graph is not g
        same(changed(), table.graph)
    loose = morph.Table("t", x=np.int32)
    loose.extend(2)
    a, b = KINDS[kind]([morph.Collection(loose), morph.Collection(loose)])
    assert a.table is b.table is not loose
    assert copy.copy(g.points).graph is None  # as `Table.to`


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_algorithms_and_batches(target, kind):
    g = changed(True, target)
    done = g.apply(([0], [3], [1]), [2])
    made = KINDS[kind](done)
    for name in ("inserted", "deleted", "deleted_src", "deleted_weight", "updated", "points"):
        assert host(getattr(made, name)).tolist() == host(getattr(done, name)).tolist()
    assert (made.given, made.absent) == (1, done.absent)
    with pytest.raises(RuntimeError, match="before the graph changes"):
        made.present  # noqa: B018
    found = morph.bfs(g)
    assert host(KINDS[kind](found).distance).tolist() == host(found.distance).tolist()


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "protocol 0"])
def test_what_else_there_is(kind):
    mesh = morph.triangulate([[0, 0], [1, 0], [0, 1]])
    formula = morph.Formula.of([[1, -2], [2]])
    assert (KINDS[kind](mesh).points == mesh.points).all()
    assert KINDS[kind](formula).literals.tolist() == [1, -2, 2]
    pslg = morph.Pslg([[0, 0], [1, 0]], [[0, 1]])
    assert KINDS[kind](pslg).segments.tolist() == [[0, 1]]
    assert KINDS[kind](morph.device("python")) is morph.device("python")
    g = changed()
    for x in (morph.DynamicSSSP(g), morph.DynamicBFS(g), morph.DynamicCores(g),
              morph.DynamicComponents(changed(False))):  # fmt: skip
        with pytest.raises(TypeError, match="follows its graph, so it cannot be copied or pickled"):
            KINDS[kind](x)


def test_parts_say_that_they_cannot():
    parts = morph.partition(morph.Graph.from_edges([0], [1], device="cpu"), ["cpu", "cpu"])
    for x in (parts, parts.points, morph.Collection(parts.points)):
        for make in KINDS.values():
            with pytest.raises(TypeError, match="partitioned graph cannot be copied or pickled"):
                make(x)


@pytest.mark.parametrize(
    "error",
    [
        CheckError("problem", Pos("a.py", 3, 4, 5), Pos("a.py", 7, 4, 5)),
        CompileError("a.py:3: no", "cpu", Path("a.cpp"), "name"),
        io.FormatError("a.gr", 3, "no"),
        LanguageError("problem", Pos("a.py", 3, 4, 5), "hint"),
        MeshError([]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_of_other_processes(error):
    """A pool of processes that could not unpickle the error of a worker would wait forever."""
    again = KINDS["pickle"](error)
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error)


@morph.kernel
def plus(p):
    p.x = p.x + 1


@morph.func
def double(x):
    return x + x


@morph.program
def twice(t):
    morph.foreach(t, plus)
    morph.foreach(t, plus)


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_go_by_name(kind):
    for x in (plus, double, twice):
        assert KINDS[kind](x) is x

    @morph.kernel
    def inside(p):
        p.x = 1

    assert copy.copy(inside) is inside and copy.deepcopy(inside) is inside
    with pytest.raises(TypeError, match=r"@kernel .*inside of test_copies cannot be pickled"):
        pickle.dumps(inside)


def test_a_journal_says_that_it_cannot(tmp_path):
    with io.Journal(tmp_path / "g", changed()) as journal:
        for make in KINDS.values():
            with pytest.raises(TypeError, match="holds its log open and locked"):
                make(journal)
        same(changed(), pickle.loads(pickle.dumps(journal.graph)))


def test_another_process_has_it(tmp_path):
    g = changed()
    c = morph.Collection(g.points)
    c.extend([2, 3])
    (tmp_path / "kept").write_bytes(pickle.dumps((g, c, plus)))
    program = f"""
import pickle, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import morph
with open({str(tmp_path / "kept")!r}, "rb") as file:
    g, c, plus = pickle.load(file)
g.points.add("x", "i4")
morph.foreach(g.points, plus)
assert c.table is g.points and len(c) == 2
print(g.points.x[:].sum(), g.edges.live)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(g.points.live), str(g.edges.live)]


def test_a_device_that_is_not_there():
    data = pickle.dumps(changed(), 0).replace(b"Vcpu\n", b"Vcuda:77\n")
    with pytest.raises(RuntimeError, match="cuda:77"):
        pickle.loads(data)


def test_a_graph_on_other_arrays(monkeypatch):
    """What a GPU's graph does: host arrays in the pickle, its own after."""
    from pretend import pretended

    there = pretended(monkeypatch)
    g = changed(target=there)
    make, parts = g.__reduce__()
    assert all(type(a) is np.ndarray for _, state in parts[3] for _, a in state.records)
    copied = g.copy()
    same(g, make(*parts))
    same(changed(target=there), copied)
