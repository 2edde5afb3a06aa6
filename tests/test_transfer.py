"""Large arrays from a GPU arrive whole, whatever their type and how many chunks they are."""

import numpy as np
import pytest

import morph
from morph.runtime.transfer import CHUNK, LARGE, SLOTS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((LARGE,), np.uint8),
        ((LARGE // 24 + 7, 3), np.float64),
        ((LARGE + 1,), np.bool_),
        (((SLOTS * CHUNK * 5 // 2) // 4 + 3,), np.int32),  # every slot is used again
    ],
)
def test_a_large_array_arrives_whole(shape, dtype):
    device = morph.device("cuda")
    with device.active():
        x = (device.xp.arange(np.prod(shape), dtype=np.uint32) * 2654435761 >> 7).reshape(shape)
        x = x.astype(dtype)
        want = x.get()
        turned = x.T
    got = device.to_host(x)
    assert got.dtype == dtype
    assert (got == want).all()
    assert (device.to_host(turned) == want.T).all()
