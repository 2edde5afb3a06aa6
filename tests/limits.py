"""How slow the machine may be that runs the tests."""

import os

# A machine of CI runs other programs, too; elsewhere the promised times are held.
SLOWER = 10 if os.environ.get("CI") else 1
