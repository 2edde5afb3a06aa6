"""Runs scripts on several MPI ranks of this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOUND = os.path.join(os.path.dirname(sys.executable), "mpiexec")
MPIEXEC = FOUND if os.path.exists(FOUND) else shutil.which("mpiexec")
HEAD = """import precompiled; precompiled.follow()
import numpy as np
import morph
from mpi4py import MPI
comm = MPI.COMM_WORLD
"""


def run_on_ranks(
    n: int, code: str, *args: str, head: str = HEAD
) -> subprocess.CompletedProcess[str]:
    """Run Python code on ``n`` ranks, also as root and on fewer cores than ranks."""
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")  # kernels need a file
        script.write_text(head + code)
        command = [MPIEXEC, "-n", str(n), sys.executable, str(script), *args]
        return subprocess.run(
            command, env=os.environ | settings, capture_output=True, text=True, timeout=300
        )


def output_of_ranks(n: int, code: str, *args: str) -> list[str]:
    """Run code on ranks, all of which must succeed; return the lines that they print, sorted."""
    done = run_on_ranks(n, code, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())
