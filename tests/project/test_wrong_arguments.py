"""None, or an object of another kind, as the first argument of each public function."""

import inspect
from dataclasses import is_dataclass

import numpy as np
import pytest

import morph

OTHERS = {"set_device", "set_num_threads", "vec", "PartitionedArray"}  # or made inside
OTHERS |= {"PartitionedGraph", "compile"}


class Odd:
    def __repr__(self):
        return "<odd>"


def _functions():
    """The public functions with an argument, and how many they need."""
    places = [("", morph, morph.__all__)]
    for name in ("io", "validate", "survey", "generate", "worklists"):
        module = getattr(morph, name)
        places.append((f"{name}.", module, module.__all__))
    for prefix, module, names in places:
        for name in sorted({*names} - OTHERS):
            found = getattr(module, name)
            is_record = inspect.isclass(found) and issubclass(found, tuple | Exception)
            is_record = is_record or is_dataclass(found)
            if not callable(found) or is_record:
                continue
            try:
                parameters = inspect.signature(found).parameters.values()
            except (TypeError, ValueError):
                continue
            needed = [p for p in parameters if p.default is p.empty and p.kind in (0, 1)]
            if needed:
                yield pytest.param(found, len(needed), id=prefix + name)
    for kind, method in ((morph.Graph, "of"), (morph.Mesh, "of"), (morph.Pslg, "of")):
        yield pytest.param(getattr(kind, method), 1, id=f"{kind.__name__}.{method}")


@pytest.mark.parametrize("wrong", [None, Odd()], ids=["None", "odd"])
@pytest.mark.parametrize(("function", "needed"), [*_functions()])
def test_the_error_says_what_is_wrong(function, needed, wrong):
    """Not an AttributeError of the inside."""
    with pytest.raises((TypeError, ValueError)) as info:
        function(wrong, *[1] * (needed - 1))
    text = str(info.value)
    assert len(text) <= 200 and "has no attribute" not in text and "dtype=object" not in text


@pytest.mark.parametrize("call", [morph.refine, morph.triangulate, morph.Pslg.of])
def test_sources(call):
    with pytest.raises(TypeError, match="source is an array of points, a mesh, .*, not None"):
        call(None)


RAGGED = [[1, 2], [3]]
MASKED = np.ma.array([0, 1, 2], mask=[0, 1, 0])
HUGE = 10**400  # no real number, and longer than an error


def graph():
    return morph.Graph.from_edges([0, 1], [1, 2], weight=[1, 1], device="python")


@pytest.mark.parametrize("wrong", [RAGGED, MASKED], ids=["ragged", "masked"])
@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("bfs", "distance"), ("sssp", "distance"), ("bellman_ford", "distance"), ("mst", "edges"),
        ("connected_components", "label"), ("strongly_connected_components", "label"),
        ("core_number", "core"), ("triangle_count", "triangles"), ("truss_number", "number"),
        ("pagerank", "rank"), ("edge_betweenness", "centrality"), ("colouring", "color"),
        ("maximal_independent_set", "selected"), ("louvain", "label"), ("max_clique", "vertices"),
    ],
)  # fmt: skip
def test_results_that_are_no_arrays(check, name, wrong):
    said = "rows of different lengths" if wrong is RAGGED else "is masked"
    with pytest.raises(ValueError, match=f"{name}.*{said}"):
        getattr(morph.validate, check)(graph(), wrong)


@pytest.mark.parametrize(
    ("check", "named", "match"),
    [
        ("bfs", {"distance": [0, 1, 2], "cutoff": "x"}, "cutoff is a number"),
        ("sssp", {"distance": [0, 1, 2], "cutoff": RAGGED}, "cutoff is a number"),
        ("bfs", {"distance": RAGGED, "predecessor": None, "rows": True}, "distance has 2 rows"),
        ("johnson", {"distance": 5}, "distance has 0 rows, for 3 sources"),
        ("path", {"vertices": [0, 1], "edges": ["x"]}, "edges has type <U1"),
        ("path", {"vertices": [0, 1], "edges": [0], "length": MASKED}, "length is a number"),
        ("louvain", {"label": [0, 0, 0], "modularity": "x"}, "modularity is a number"),
        ("max_k_plex", {"points": [0, 1], "k": "x"}, "k is an integer"),
        ("cliques", {"found": 5}, "found is an iterable of cliques"),
        ("community", {"found": 5, "q": 0, "size": (1, 2)}, "found is a Community"),
        ("community", {"found": None, "q": 0, "size": 5}, "size is a pair"),
        ("community", {"found": None, "q": [], "size": (1, 2)}, "q is an id or a label"),
    ],
)  # fmt: skip
def test_checkers_name_their_arguments(check, named, match):
    with pytest.raises((TypeError, ValueError), match=match):
        getattr(morph.validate, check)(graph(), **named)


def test_the_largest_cutoff():
    morph.validate.bfs(graph(), [0, 1, 2], cutoff=2**70)
    with pytest.raises(ValueError, match="beyond the cut-off"):
        morph.validate.bfs(graph(), [0, 1, 2], cutoff=-(2**70))


def test_no_communicator_and_no_mesh(tmp_path):
    mesh = morph.triangulate([[0, 0], [1, 0], [0, 1]], device="python")
    morph.io.write_neigh(mesh, tmp_path / "m.neigh")
    morph.io.write_edge(mesh, tmp_path / "m.edge")
    (tmp_path / "f.cnf").write_text("p cnf 1 1\n1 0\n")
    for call in (
        lambda: morph.partition(graph(), comm=5),
        lambda: morph.io.read_cnf(tmp_path / "f.cnf", comm=5),
        lambda: morph.generate.uniform(3, 3, comm=5),
        lambda: morph.generate.random_ksat(3, 3, 1, comm=5),
        lambda: morph.survey.solve([[1]], comm=5),
    ):
        with pytest.raises(TypeError, match="comm is a Comm, not 5"):
            call()
    for read in (morph.io.read_neigh, morph.io.read_edge):
        with pytest.raises(TypeError, match="mesh is a Mesh, not 5"):
            read(tmp_path / f"m.{read.__name__[5:]}", 5)


@pytest.mark.parametrize("kind", ["x", "M8[s]", object, bool, 5])
def test_types_of_weights(kind, tmp_path):
    morph.io.write_graph(graph(), tmp_path / "g.gr", "galois")
    with pytest.raises(TypeError, match="weight_type is a type of numbers"):
        morph.io.read_edges(tmp_path / "g.gr", "galois", kind)


def test_huge_integers():
    g = graph()
    s = morph.Set(g.points)
    g.points.add("x", "i4")
    for call in (
        lambda: s.find(HUGE), lambda: s.union(0, -HUGE), lambda: g.points[HUGE],
        lambda: g.points.x.__setitem__(0, HUGE), lambda: g.points.new(HUGE),
        lambda: morph.Table(capacity=HUGE), lambda: morph.generate.rmat(3, a=HUGE),
        lambda: morph.generate.geometric(9, HUGE), lambda: morph.generate.rmat(HUGE),
        lambda: morph.generate.random_ksat(3, 9, HUGE), lambda: morph.betweenness(g, HUGE),
        lambda: morph.survey.walksat([[1]], seed=HUGE),
        lambda: morph.io.write_snapshot("x", g, HUGE),
        lambda: morph.generate.uniform(3, 3, seed=np.array(1)),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError, OverflowError, IndexError)) as info:
            call()
        text = str(info.value)
        assert 0 < len(text) <= 200 and "no len()" not in text and "too large" not in text


def test_masked_literals():
    solver = morph.survey.Solver()
    with pytest.raises(ValueError, match=r"clause\[1\] is masked"):
        solver.add_clause(MASKED)
