"""Limits that depend on the machine that runs the tests."""

import os

# A machine of CI runs other programs, too; elsewhere the promised times are held.
SLOWER = 10 if os.environ.get("CI") else 1
# A sweep over n failing allocations tests each of the first ``STRIDE``, then one in n / STRIDE.
STRIDE = 8 if os.environ.get("CI") else 40
