"""Small mesh files, both parsers of the readers, and random meshes."""

from pathlib import Path

import numpy as np
import pytest

from morph.io import FormatError, read_mesh
from morph.io.text import numbers
from morph.mesh import Mesh

MESHES = Path(__file__).parents[2] / "meshes"
NODE = "4 2 0 0\n1 0 0\n2 1 0\n3 1 1\n4 0 1\n"
ELE = "2 3 0\n1 1 2 3\n2 1 3 4\n"
POLY = "0 2 0 0\n4 1\n1 1 2 5\n2 2 3 6\n3 3 4 7\n4 4 1 8\n0\n"

PARSERS = ["numpy", "compiled", "plain"]  # plain: without the C++ library


def use_parser(monkeypatch, parser: str) -> None:
    """Read, and write, whatever the size by one of `PARSERS`."""
    made = {"numpy": lambda: None, "compiled": library, "plain": lambda: library("MORPH_PLAIN")}
    monkeypatch.setattr(numbers, "library", made[parser])
    monkeypatch.setattr(numbers, "LEAST", 0)


library = numbers.library


def put(folder: Path, node: str = NODE, ele: str = ELE, poly: str | None = None) -> Path:
    (folder / "m.node").write_bytes(node.encode("latin1"))
    (folder / "m.ele").write_bytes(ele.encode("latin1"))
    if poly is not None:
        (folder / "m.poly").write_bytes(poly.encode("latin1"))
    return folder / "m"


def refusal(path: Path, read=read_mesh, **options) -> str:
    """The message, without the folder, with which ``path`` is refused."""
    with pytest.raises(FormatError) as caught:
        read(path, **options)
    assert str(caught.value).startswith(str(path.parent))
    return str(caught.value)[len(str(path.parent)) + 1 :]


def assert_equal(a, b) -> None:
    """The same arrays, bit for bit and of the same types."""
    assert type(a) is type(b)
    for name in type(a).__dataclass_fields__:
        left, right = getattr(a, name), getattr(b, name)
        assert np.array_equal(left, right), name
        assert name == "base" or left.dtype == right.dtype, name


def grid(wide: int, tall: int, random) -> Mesh:
    """A mesh of distorted squares, with markers and attributes of every kind."""
    x, y = np.meshgrid(np.arange(wide + 1.0), np.arange(tall + 1.0))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    points += [[random.uniform(-0.2, 0.2) for _ in range(2)] for _ in points]
    corner = (np.arange(tall)[:, None] * (wide + 1) + np.arange(wide)).ravel()
    up = np.stack([corner, corner + 1, corner + wide + 2], axis=1)
    down = np.stack([corner, corner + wide + 2, corner + wide + 1], axis=1)
    triangles = np.concatenate([up, down])
    marks = np.array([random.randint(-9, 99) for _ in points])
    inside = up[:1, [2, 0]]  # a diagonal is a segment, too
    return Mesh(
        points,
        triangles,
        segments=inside,
        segment_markers=np.array([random.randint(-9, 99)]),
        point_markers=marks,
        point_attributes=np.array([[random.random(), -random.random()] for _ in points]),
        triangle_attributes=np.array([[random.random()] for _ in triangles]),
        holes=np.array([[9.5, random.random()]]),
        regions=np.array([[0.5, 0.25, random.random(), -1.0]]),
        base=random.randint(0, 1),
    )
