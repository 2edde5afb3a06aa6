"""The device of a call: by argument, data, `set_device`, MORPH_DEVICE, or the built-in default."""

import inspect
import json
import threading

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner
from pretend import There, pretended

import morph
from morph import generate, io, survey
from morph.algorithms.graph.arguments import as_graph
from morph.cli import main
from morph.language.dtypes import i64
from morph.partition.group import DeviceGroup
from morph.runtime import device as devices
from morph.runtime.device import DeviceError, device_for
from morph.runtime.interpreter.device import InterpretedDevice

SRC, DST = np.array([0, 1, 2]), np.array([1, 2, 0])
SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.4, 0.6]])
MATRIX = scipy.sparse.csr_array((np.ones(3), (SRC, DST)), shape=(3, 3))
CLAUSES = [[1, 2], [-1, 2], [1, -2]]


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("MORPH_DEVICE", raising=False)
    yield
    morph.set_device(None)


def file_of(kind, folder):
    g = morph.Graph.from_edges(SRC, DST, [1, 2, 3], device="cpu")
    path = folder / f"g.{kind}"
    if kind == "morph":
        io.write_snapshot(path, g)
    else:
        io.write_graph(g, path)
    return path


MADE = {
    "Graph": lambda folder: morph.Graph(),
    "from_edges": lambda folder: morph.Graph.from_edges(SRC, DST),
    "from_csr": lambda folder: morph.Graph.from_csr([0, 1, 2, 3], DST),
    "of a matrix": lambda folder: morph.Graph.of(MATRIX),
    "of NetworkX": lambda folder: morph.Graph.of(nx.path_graph(3)),
    "given to an algorithm": lambda folder: as_graph(MATRIX),
    "Table": lambda folder: morph.Table("t", x=i64),
    "Flag": lambda folder: morph.Flag(),
    "Scalars": lambda folder: morph.Scalars(x=1),
    "Collection": lambda folder: morph.Collection(i64),
    "grid": lambda folder: generate.grid(2, 2),
    "read_graph": lambda folder: io.read_graph(file_of("gr", folder)),
    "read_snapshot": lambda folder: io.read_snapshot(file_of("morph", folder)),
    "Journal": lambda folder: io.Journal(file_of("morph", folder), readonly=True).graph,
    "device": lambda folder: type("", (), {"device": morph.device()}),
    "group": lambda folder: type("", (), {"device": DeviceGroup(None).devices[0]}),
}


@pytest.mark.parametrize("kind", MADE)
def test_what_is_made_lies_on_the_default_device(kind, tmp_path, monkeypatch):
    make = MADE[kind]
    if kind != "device":  # a GPU if one answers
        assert make(tmp_path).device.name == "cpu"
    monkeypatch.setenv("MORPH_DEVICE", "python")
    assert make(tmp_path).device.name == "python"
    morph.set_device("cpu")  # precedes the environment
    assert make(tmp_path).device.name == "cpu"


class Recording(InterpretedDevice):
    """The interpreter, which counts the units that it loads."""

    def __init__(self):
        super().__init__("python", 0, np)
        self.name, self.loaded = f"python {id(self)}", 0  # no unit is known for it

    def load(self, *args):
        self.loaded += 1
        return super().load(*args)


MESH = morph.Mesh(SQUARE[:4], [[0, 1, 2], [0, 2, 3]])
RUN = {
    "triangulate": lambda: morph.triangulate(SQUARE),
    "refine": lambda: morph.refine(MESH, 5),
    "find_simplex": lambda: MESH.find_simplex(SQUARE),
    "interpolate": lambda: MESH.interpolate(np.arange(4.0), SQUARE),
    "solve": lambda: survey.solve(CLAUSES),
    "walksat": lambda: survey.walksat(CLAUSES),
    "surveys": lambda: survey.surveys(CLAUSES, max_sweeps=2),
    "decimate": lambda: survey.decimate(CLAUSES, max_rounds=1),
    "backtrack": lambda: survey.backtrack(CLAUSES, max_rounds=1),
    "reinforce": lambda: survey.reinforce(CLAUSES, max_sweeps=2),
}


@pytest.mark.parametrize("kind", RUN)
def test_what_computes_runs_on_the_default_device(kind):
    there = Recording()
    morph.set_device(there)
    RUN[kind]()
    assert there.loaded


def test_no_public_call_has_a_default_of_its_own():
    found = []
    for module in (morph, generate, io, survey):
        for name in module.__all__:
            made = getattr(module, name)
            methods = dict(inspect.getmembers(made, callable)) if inspect.isclass(made) else {}
            for f in (made, *methods.values()) if callable(made) else ():
                try:
                    parameters = inspect.signature(f).parameters
                except (TypeError, ValueError):
                    continue
                if "device" in parameters and parameters["device"].default is not inspect._empty:
                    found.append(name)
                    assert parameters["device"].default is None, (name, f)
    assert {"Graph", "Mesh", "refine", "rmat", "Journal", "read_graph", "solve"} <= {*found}


def test_data_on_a_device_decide(monkeypatch):
    there = pretended(monkeypatch)
    monkeypatch.setattr(devices, "device_of", lambda x: there if type(x) is There else None)
    morph.set_device("python")
    src, dst = there.asarray(SRC), there.asarray(DST)
    assert morph.Graph.from_edges(src, dst).device == there
    assert morph.Graph.from_csr([0, 1, 2, 3], dst).device == there
    g = morph.Graph.from_edges(SRC, DST, device="cpu")  # a graph of the host, too
    assert morph.Flag(g).device == morph.Collection(g.points).device == g.device
    assert device_for(None, SRC, g) == g.device and device_for(None, SRC, dst) == there
    assert device_for("cpu", dst) == device_for(g.device, dst) == g.device


def test_wrong_names_say_where_they_stand(monkeypatch):
    with pytest.raises(ValueError, match="^device: no device 'gpu'; there are cpu, cuda"):
        morph.Graph(device="gpu")
    monkeypatch.setenv("MORPH_DEVICE", "gpu")
    for make in (morph.Graph, morph.get_device, morph.device):
        with pytest.raises(ValueError, match="^MORPH_DEVICE: no device 'gpu'; there are cpu"):
            make()
    assert morph.Graph(device="cpu").device.name == "cpu"
    monkeypatch.setenv("MORPH_DEVICE", "cuda:99")
    with pytest.raises(DeviceError, match="^MORPH_DEVICE: cuda:99 "):
        morph.Graph()
    morph.set_device("python")
    with pytest.raises(ValueError, match="^no device 'gpu'"):
        morph.set_device("gpu")
    assert morph.get_device() == morph.device("python")  # as it was
    monkeypatch.setenv("MORPH_DEVICE", "")
    morph.set_device(None)
    assert morph.get_device() is None


def test_the_default_belongs_to_the_process():
    found = []
    thread = threading.Thread(target=lambda: morph.set_device("python"))
    thread.start(), thread.join()
    assert morph.get_device().name == "python"
    thread = threading.Thread(target=lambda: found.append(morph.Graph().device.name))
    thread.start(), thread.join()
    assert found == ["python"]


def test_the_command_line(tmp_path, monkeypatch):
    def run(*args):
        done = CliRunner().invoke(main, [str(a) for a in args])
        return done.exit_code, done.stdout, done.stderr

    path = file_of("gr", tmp_path)
    monkeypatch.setenv("MORPH_DEVICE", "python")
    assert json.loads(run("components", path, "--json")[1])["device"] == "python"
    assert json.loads(run("components", path, "--json", "--device", "cpu")[1])["device"] == "cpu"
    monkeypatch.setenv("MORPH_DEVICE", "gpu")
    for command in (
        ["components", path],
        ["generate", "grid", 2, 2, "--weight", 1, 9, "-o", tmp_path / "h.gr"],
    ):
        code, _, said = run(*command)
        assert code == 2 and said.startswith("morph: MORPH_DEVICE: no device 'gpu'; there are")
        assert said.count("\n") == 1
