"""exp2 and log2: equal bits on every target, near the exact value."""

from __future__ import annotations

import numpy as np
import pytest

import morph
from morph.prelude import exp2, f16, f32, f64, log2


@morph.kernel
def both(r):
    r.power = exp2(r.x)
    r.logarithm = log2(r.x)


def run(device, x):
    kind = {2: f16, 4: f32, 8: f64}[x.itemsize]
    t = morph.Table("t", device, x=kind, power=kind, logarithm=kind)
    t.extend(x=x)
    morph.foreach(t, both)
    return [t.device.to_host(c.array) for c in (t.power, t.logarithm)]


def bits(x):
    return np.where(np.isnan(x), np.float32(np.nan), x).view(np.uint32)


@pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_same_bits_everywhere(kind):
    rng = np.random.default_rng(1)
    any_bits = rng.integers(0, 2**32, 1500, dtype=np.uint32).view(np.float32)
    near = np.concatenate([rng.uniform(-130, 130, 700), rng.uniform(0, 2, 700)])
    odd = [0, -0.0, np.inf, -np.inf, np.nan, 1, 2, -126, -126.00001, 127.99999, 128, 1e-40, 1e-45]
    x = np.concatenate([any_bits, near.astype(np.float32), np.array(odd, np.float32)])
    for found, known in zip(run(kind, x), run("python", x), strict=True):
        assert (bits(found) == bits(known)).all()


def test_near_the_true_value(target):
    rng = np.random.default_rng(2)
    n = 500 if target == "python" else 100_000
    x = rng.uniform(-126, 128, n).astype(np.float32)
    true = np.exp2(x.astype(np.float64))
    assert (np.abs(run(target, x)[0] / true - 1) < 1.5 * 2.0**-24).all()
    x = np.exp2(rng.uniform(-140, 120, n)).astype(np.float32)
    x[::2] = rng.uniform(0.25, 4, len(x[::2]))
    true = np.log2(x.astype(np.float64))
    error = np.abs(run(target, x)[1] - true)
    assert (error <= 3 * np.spacing(np.abs(true).astype(np.float32))).all()
    assert [float(v) for v in run(target, np.array([0.5, 8], np.float32))[1]] == [-1, 3]


def test_other_sizes(target):
    x = np.array([0.0, 1.0, -2.0, 3.5])
    for kind in (np.float16, np.float64):
        power, logarithm = run(target, x.astype(kind))
        assert np.allclose(power, np.exp2(x), rtol=1e-3 if kind is np.float16 else 1e-15)
        assert logarithm[0] == -np.inf and logarithm[1] == 0 and np.isnan(logarithm[2])
