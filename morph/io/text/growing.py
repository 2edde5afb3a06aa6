"""Arrays that are filled part by part while a file is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """An array that is filled part by part; the expected size is allocated at once.

    Parameters
    ----------
    dtype : dtype, optional
        By default that of the first part; a part with a wider dtype widens the array.
    """

    def __init__(self, dtype: np.dtype[Any] | None) -> None:
        self.dtype = dtype
        self.array: NDArray[Any] | None = None
        self.size = 0

    def add(self, values: NDArray[Any], left: int) -> None:
        """Append values; ``left`` more are expected."""
        self.extend(len(values), values.dtype, left)[:] = values

    def extend(self, size: int, dtype: np.dtype[Any], left: int) -> NDArray[Any]:
        """Return the place of ``size`` values to be written; ``left`` more are expected."""
        dtype = np.result_type(dtype, self.dtype or dtype)
        end = self.size + size
        if self.array is None:
            self.array = np.empty(end + left + left // 64, dtype)
        elif dtype != self.array.dtype:
            self.array = self.array.astype(dtype)
        if end > len(self.array):
            self.array.resize(end + left + left // 64 + end // 16, refcheck=False)
        self.dtype, self.size = dtype, end
        return self.array[end - size : end]

    def finish(self, none: NDArray[Any]) -> NDArray[Any]:
        """Return the appended values, or ``none`` if there are none; ends the use."""
        if self.array is None:
            return none if self.dtype is None else none.astype(self.dtype)
        self.array.resize(self.size, refcheck=False)
        return self.array
