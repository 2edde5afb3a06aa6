"""orient2d and incircle against rational arithmetic, where rounding gives wrong signs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from targets import examples

from morph.compiler.codegen.unit import prelude
from morph.runtime.toolchain import cpu as host
from morph.runtime.toolchain import cuda

AT = """
MORPH_FN Vec<f64, 2> point(const f64* x, i64 i) { return {x[2 * i], x[2 * i + 1]}; }
MORPH_FN i32 sign(i64 k, const f64* x, i64 i) {
    return k == 3 ? orient2d(point(x, 3 * i), point(x, 3 * i + 1), point(x, 3 * i + 2))
        : incircle(point(x, 4 * i), point(x, 4 * i + 1), point(x, 4 * i + 2), point(x, 4 * i + 3));
}
"""
ENTRY = """
#ifdef __CUDACC__
extern "C" __global__ void signs(i64 k, i64 n, const f64* x, i32* out) {
    i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sign(k, x, i);
}
#else
extern "C" __attribute__((visibility("default")))
void signs(i64 k, i64 n, const f64* x, i32* out) {
    for (i64 i = 0; i < n; i++) out[i] = sign(k, x, i);
}
#endif
"""
TEXT = prelude() + AT + ENTRY
Signs = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def cpu() -> Signs:
    """The predicates compiled for this machine: points (n, 3 or 4, 2) -> signs (n,)."""
    library = ctypes.CDLL(str(host.build(TEXT, name="signs")))

    def signs(points: np.ndarray) -> np.ndarray:
        points = np.ascontiguousarray(points, np.float64)
        out = np.empty(len(points), np.int32)
        n, k, _ = points.shape
        library.signs(
            ctypes.c_int64(k), ctypes.c_int64(n),
            ctypes.c_void_p(points.ctypes.data), ctypes.c_void_p(out.ctypes.data),
        )  # fmt: skip
        return out

    return signs


def exact(points: np.ndarray) -> np.ndarray:
    """The same signs by rational arithmetic."""
    return np.array([exact_sign([[Fraction(float(v)) for v in p] for p in ps]) for ps in points])


def exact_sign(points: list[list[Fraction]]) -> int:
    *others, (ox, oy) = points
    rows = [(x - ox, y - oy) for x, y in others]
    if len(rows) == 2:
        (a, b), (c, d) = rows
        det = a * d - b * c
    else:
        (a, b), (c, d), (e, f) = rows
        lift = [x * x + y * y for x, y in rows]
        det = lift[0] * (c * f - d * e) + lift[1] * (e * b - f * a) + lift[2] * (a * d - b * c)
    return (det > 0) - (det < 0)


def near_a_line(rng: np.random.Generator) -> np.ndarray:
    """Kettner et al.'s classroom grids: a point moved by ulps, near the line through two others."""
    step = np.arange(16) * 2.0**-53
    cases = []
    for p, q, r in [
        ((0.5, 0.5), (12.0, 12.0), (24.0, 24.0)),
        ((0.5, 0.5), (8.8000000000000007, 8.8000000000000007), (12.1, 12.1)),
        ((0.50000000000002531, 0.5000000000000171), (17.300000000000001, 17.300000000000001),
         (24.00000000000005, 24.0000000000000517765)),
    ]:  # fmt: skip
        cases += [((p[0] + dx, p[1] + dy), q, r) for dx in step for dy in step]
    lines = rng.uniform(-1, 1, (300, 2, 2))
    t = rng.uniform(-3, 3, (300, 1))
    third = lines[:, 0] + t * (lines[:, 1] - lines[:, 0])
    return np.concatenate([cases, np.concatenate([lines, third[:, None]], axis=1)])


def near_a_circle(rng: np.random.Generator) -> np.ndarray:
    """Points of one circle, rounded, then moved by a few ulps."""
    angle = rng.uniform(0, 2 * np.pi, (400, 4))
    circle: np.ndarray = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points = circle + rng.uniform(-1, 1, (400, 1, 2))
    points += np.spacing(points) * rng.integers(-2, 3, points.shape)
    return points


def cocircular() -> np.ndarray:
    """Lattice points on circles about the origin, moved far away; and one a unit off."""
    rng = np.random.default_rng(5)
    circle = [(x, y) for x in range(-65, 66) for y in range(-65, 66) if x * x + y * y == 65 * 65]
    points = np.array([rng.permutation(circle)[:4] for _ in range(300)], float)
    points[::3, 3, 0] += 1
    scale = 2.0 ** rng.integers(-40, 12, (300, 1, 1))
    return (points + rng.integers(-(2**30), 2**30, (300, 1, 2))) * scale


def at_scales(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """The same points from the subnormal numbers to the overflow limit, and at mixed scales."""
    n = len(points) // 4
    with np.errstate(under="ignore"):
        tiny, huge = points[:n] * 2.0**-1060, points[:n] * 2.0**1000
        small = points[:n] * 2.0**-230
        mixed = points[:n] * 2.0 ** rng.integers(-1000, 1000, (n, *points.shape[1:]))
    return np.concatenate([points, tiny, small, huge, mixed])


def adversarial(k: int) -> np.ndarray:
    """All of the hard cases for orient2d (k = 3) or incircle (k = 4)."""
    rng = np.random.default_rng(k)
    base = near_a_line(rng) if k == 3 else np.concatenate([near_a_circle(rng), cocircular()])
    lattice = rng.integers(-3, 4, (400, k, 2)).astype(float)
    limits = rng.choice([0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 1.0, 1 + 2.0**-52], (400, k, 2))
    return np.concatenate([at_scales(rng, base), lattice, limits])


@pytest.mark.parametrize("k", [3, 4], ids=["orient2d", "incircle"])
def test_adversarial(cpu: Signs, k: int) -> None:
    points = adversarial(k)
    expected = exact(points)
    assert {-1, 0, 1} == set(expected.tolist())
    np.testing.assert_array_equal(cpu(points), expected)


def test_rounding_alone_would_be_wrong() -> None:
    points = near_a_line(np.random.default_rng(3))
    (ax, ay), (bx, by), (cx, cy) = (points[:, i].T for i in range(3))
    rounded = np.sign((ax - cx) * (by - cy) - (ay - cy) * (bx - cx))
    assert np.count_nonzero(rounded != exact(points)) > 50


@pytest.mark.parametrize("k", [3, 4], ids=["orient2d", "incircle"])
def test_exchange_of_points_changes_sign(cpu: Signs, k: int) -> None:
    points = adversarial(k)
    for i in range(k - 1):
        order = list(range(k))
        order[i], order[i + 1] = i + 1, i
        np.testing.assert_array_equal(cpu(points[:, order]), -cpu(points))


@pytest.mark.parametrize("k", [3, 4], ids=["orient2d", "incircle"])
def test_not_finite_gives_zero(cpu: Signs, k: int) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (30, k, 2))
    for i, bad in enumerate(np.tile([np.nan, np.inf, -np.inf], 10)):
        points[i, i % k, i % 2] = bad
    assert not cpu(points).any()


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-4, 4).map(float)


@pytest.mark.parametrize("k", [3, 4], ids=["orient2d", "incircle"])
@settings(max_examples=examples(300), deadline=None)
@given(values=st.lists(numbers, min_size=8, max_size=8))
@example(values=[5e-324, 0.0, 0.0, 1.7976931348623157e308, 1.0, 1.0, -5e-324, 2.0])
def test_any_finite_numbers(cpu: Signs, k: int, values: list[float]) -> None:
    points = np.array(values[: 2 * k]).reshape(1, k, 2)
    np.testing.assert_array_equal(cpu(points), exact(points))


@pytest.mark.nvrtc
def test_compiles_for_sm_90() -> None:
    assert cuda.build(TEXT, "sm_90", name="signs")


@pytest.mark.gpu
@pytest.mark.parametrize("k", [3, 4], ids=["orient2d", "incircle"])
def test_on_the_gpu(k: int) -> None:
    import cupy

    points = adversarial(k)
    n = len(points)
    out = cupy.empty(n, np.int32)
    module = cupy.cuda.function.Module()
    module.load(cuda.build(TEXT, f"sm_{cupy.cuda.Device().compute_capability}"))
    arguments = (np.int64(k), np.int64(n), cupy.asarray(points), out)
    module.get_function("signs")(((n + 127) // 128,), (128,), arguments)
    np.testing.assert_array_equal(out.get(), exact(points))
