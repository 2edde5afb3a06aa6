"""Limits that depend on the machine on which the tests run."""

import os

# A machine of CI runs other programs, too; elsewhere the promised times are held.
SLOWER = 10 if os.environ.get("CI") else 1
# A sweep over failing allocations goes from the n-th to that of n + 1 + n // STRIDE.
STRIDE = 5 if os.environ.get("CI") else 40


def stride(target: str) -> int:
    """STRIDE; in CI the interpreter, which takes seconds for a sweep, goes in larger strides."""
    return 2 if target == "python" and os.environ.get("CI") else STRIDE
