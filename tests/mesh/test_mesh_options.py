"""Arguments of triangulation, refinement, meshes and graphs: invalid ones are refused."""

import math

import numpy as np
import pytest

import morph

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
OUTLINE = [[0, 1], [1, 2], [2, 3], [3, 0]]
FAN = [[0, 1, 2], [0, 2, 3]]
LONG = "x" * 5000

NO_NUMBERS = ["20", LONG, True, 1j, [[1], [2, 3]], object(), {}]
NO_INTEGERS = [*NO_NUMBERS, 2.5, 2.0, math.nan, np.float64(3), [1]]
NO_NAMES = [5, None, LONG, True, 1j, ["split"], np.array(["split", "split"])]
NO_ARRAYS = [5, LONG, 1j, object(), {}, [[0, 0], [1]], [[1j, 0]], [["a", "b"]], [[None, 1]],
             [[LONG] * 9] * 9, np.ones((2, 2, 2)), np.ones((2, 5), complex)]  # fmt: skip
NO_SIZES = [*NO_ARRAYS[1:], "0.5", True, [True] * 4, 0, -1, math.nan, [1, 2, 3], ["1"] * 4,
            np.ones(4, complex)]  # fmt: skip

OF_BOTH = {"progress": [5, "yes", True]}
OF_TRIANGULATE = OF_BOTH | {
    "source": [*NO_ARRAYS[2:], 5, None, True, [[math.nan, 0]] * 3, 10**400, morph.Mesh],
    "segments": [*NO_ARRAYS, True, [[0, 9]], [[0, -1]], [[0.0, 1.0]], [[True, False]], [[0, 0]]],
    "segment_markers": [*NO_ARRAYS, [1, 2], [0.5] * 4, [True] * 4, [2**40] * 4],
    "holes": [*NO_ARRAYS, True, [[math.nan, 0.5]], [[0.5, 0.5, 1]]],
    "regions": [*NO_ARRAYS, True, [[math.nan, 0.5, 1]], [[0.5, 0.5]]],
    "crossing": NO_NAMES,
    "duplicates": NO_NAMES,
    "hull": [None, 2, 2.5, "no", [True], 1j],
}
OF_REFINE = OF_BOTH | {
    "source": OF_TRIANGULATE["source"],
    "min_angle": [*NO_NUMBERS, None, [20.0], math.nan, -1, 35, 10**400, -math.inf],
    "max_area": [*NO_SIZES, -math.inf],
    "size": [*NO_SIZES, -math.inf, lambda xy: 1, lambda xy: xy, lambda xy: ["1"] * len(xy),
             lambda xy: None, lambda xy: np.full(len(xy), 1j)],
    "boundary": NO_NAMES,
    "max_points": [*NO_INTEGERS, -1, 1 << 62],
    "conforming": [None, 2, 2.5, "no", [True], 1j],
    "deterministic": [None, 2, 2.5, "no", [True], 1j],
}  # fmt: skip
OF_PSLG = {
    "points": [*NO_ARRAYS, None, [[math.nan, 0]] * 4, [[0, 0, 0]] * 4],
    "segments": [*NO_ARRAYS, None, [[0, 9]], [[0, -1]], [[0.0, 1.0]]],
    "segment_markers": [*NO_ARRAYS, None, [1, 2], [0.5] * 4],
    "point_markers": [*NO_ARRAYS, None, [1, 2], [0.5] * 4],
    "point_attributes": [*NO_ARRAYS, None, [1] * 4, [[1]] * 3],
    "holes": [*NO_ARRAYS, None, [[math.inf, 0]]],
    "regions": [*NO_ARRAYS, None, [[math.inf, 0, 1]]],
    "base": [*NO_INTEGERS[:-2], None, 2, -1, 1.0],
}
OF_MESH = OF_PSLG | {
    "points": [*NO_ARRAYS, None, [[0, 0, 0]] * 4],
    "triangles": [*NO_ARRAYS, None, [[0, 1, 9]], [[0, 1, -1]], [[0.0, 1.0, 2.0]], [[0, 1]]],
    "neighbors": [*NO_ARRAYS, None, [[0, 1, 2]], [[0.5, 1, 2]], [[0, 1, 9]] * 2],
    "triangle_attributes": [*NO_ARRAYS, None, [1] * 2, [[1]] * 3],
    "holes": [*NO_ARRAYS, None],
    "regions": [*NO_ARRAYS, None],
}


def cases(table):
    rows = [(name, k, v) for name, values in table.items() for k, v in enumerate(values)]
    return [pytest.param(name, value, id=f"{name}-{k}") for name, k, value in rows]


def refusal(call, **options):
    """The short line by which a call is refused."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call(**options)
    text = str(caught.value)
    assert len(text) <= 200 and "\n" not in text
    return text


def names(name):
    """How an error about an argument begins: an array given as a source has points."""
    return ("source", "points") if name == "source" else name


@pytest.mark.parametrize(("name", "value"), cases(OF_TRIANGULATE))
def test_triangulate(name, value):
    given = {"source": SQUARE, "segments": OUTLINE, "device": "cpu", name: value}
    assert refusal(morph.triangulate, **given).startswith(names(name))


@pytest.mark.parametrize("call", [morph.refine, morph.refine_with_report])
@pytest.mark.parametrize(("name", "value"), cases(OF_REFINE))
def test_refine(name, value, call):
    given = {"source": SQUARE, "device": "cpu", name: value}
    assert refusal(call, **given).startswith(names(name))


@pytest.mark.parametrize(("name", "value"), cases(OF_PSLG))
def test_pslg(name, value):
    given = {"points": SQUARE, "segments": OUTLINE, name: value}
    assert refusal(morph.Pslg, **given).startswith(name)


@pytest.mark.parametrize(("name", "value"), cases(OF_MESH))
def test_mesh(name, value):
    given = {"points": SQUARE, "triangles": FAN, "segments": OUTLINE, name: value}
    assert refusal(morph.Mesh, **given).startswith(name)


@pytest.mark.parametrize("call", [morph.triangulate, morph.refine])
def test_devices(call):
    assert refusal(call, source=SQUARE, device=LONG).startswith("device: no device 'xxx")


def test_what_is_understood():
    """Numbers of NumPy's types are numbers, and lists are arrays."""
    given = {"segment_markers": (4, 0, 5, 0), "hull": np.True_}
    mesh = morph.triangulate(SQUARE, OUTLINE, **given, device="cpu")
    assert sorted(mesh.segment_markers.tolist()) == [1, 1, 4, 5]
    fine = morph.refine(mesh, np.float32(20), np.array(0.1), [0.5] * 4, max_points=np.int64(3),
                        deterministic=1, device="cpu")  # fmt: skip
    assert len(fine.points) <= 7


# --- arrays of a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
def test_arguments_may_be_arrays_of_a_gpu():
    xp = pytest.importorskip("cupy")
    given = {"segments": OUTLINE, "segment_markers": [4, 0, 5, 0], "regions": [[0.5, 0.2, 7]]}
    mesh = morph.triangulate(xp.asarray(SQUARE, float), device="cpu",
                             **{name: xp.asarray(v) for name, v in given.items()})  # fmt: skip
    assert sorted(mesh.segment_markers.tolist()) == [1, 1, 4, 5]

    def size(xy):
        return 0.2 + 0.1 * (xp if isinstance(xy, xp.ndarray) else np).hypot(xy[:, 0], xy[:, 1])

    there = mesh.to("cuda")
    options = {"deterministic": True, "device": "cuda"}
    known = morph.refine(mesh, 25, [0.01, 0.1], size, **options)
    for limits in ([0.01, 0.1], xp.array([0.01, 0.1])):
        for sizes in (size, lambda xy: xp.asarray(size(xy))):
            fine = morph.refine(there, xp.array(25.0), limits, sizes, **options).to("cpu")
            assert np.array_equal(fine.points, known.points)
            assert np.array_equal(fine.segment_markers, known.segment_markers)
    assert refusal(morph.Mesh, points=xp.asarray(SQUARE, float),
                   triangles=xp.asarray(FAN) + 0.0).startswith("triangles")  # fmt: skip
    assert refusal(morph.refine, source=there, size=xp.zeros(4)).startswith("size")
    assert refusal(morph.refine, source=there, max_area=xp.ones(2, complex)).startswith("max_area")
