"""Large arrays are copied to and from a GPU completely, for any type and number of chunks."""

import numpy as np
import pytest

import morph
from morph.runtime.transfer import CHUNK, FETCHED, LARGE

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((LARGE,), np.uint8),
        ((LARGE // 24 + 7, 3), np.float64),
        ((LARGE + 1,), np.bool_),
        (((FETCHED * CHUNK * 5 // 2) // 4 + 3,), np.int32),  # every slot is used again
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
    sent = device.asarray(want)
    assert sent.dtype == dtype
    assert (sent.get() == want).all()
