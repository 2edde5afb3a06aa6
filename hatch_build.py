"""The build of a wheel: it holds the package's own kernels compiled, for users without a compiler.

``MORPH_WHEEL`` names the algorithms whose kernels are compiled, as `morph warm` does; "none" makes
a wheel for any system, which compiles all kernels where it is installed.  ``MORPH_WHEEL_ARCHS``
names CUDA architectures, such as "sm_80 sm_90", or is "all"; NVRTC and ptxas are then dependencies
of the build.
``MORPH_WHEEL_FOLDER`` names a folder in which the binaries are kept: a later build, of the same
commit, compiles what is missing there.
Binaries serve every Python; records of units, which spare the first call 0.2 to 0.6 s of Python,
serve the version that builds the wheel, and those of ``MORPH_WHEEL_PYTHONS``, commands of
interpreters with NumPy and click, such as "python3.12 python3.13".
"""

import os
import platform
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WARM = "import sys; from morph.cli import main; main(sys.argv[1:])"


def _compiles() -> bool:
    """Whether a wheel that is built here gets compiled kernels."""
    here = platform.system(), platform.machine()
    return os.environ.get("MORPH_WHEEL", "").split() != ["none"] and here == ("Linux", "x86_64")


class CompiledKernels(BuildHookInterface):
    """Compiles kernels into the wheel's folder ``morph/compiled``."""

    def dependencies(self) -> list[str]:
        """Return what the build needs in addition: NVRTC and ptxas, if it compiles for GPUs."""
        # hatchling does not pass the name of the calling hook: `get_requires_for_build_editable` or
        # another
        calls = (frame.f_code.co_name for frame, _ in traceback.walk_stack(None))
        if not _compiles() or any(name.endswith("_build_editable") for name in calls):
            return []
        compilers = ["nvidia-cuda-nvrtc>=13", "nvidia-cuda-nvcc>=13"]
        return compilers if os.environ.get("MORPH_WHEEL_ARCHS") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; without a compiler, or on another system, the wheel has no binaries."""
        names = os.environ.get("MORPH_WHEEL", "").split()
        if version == "editable" or not _compiles():
            return
        folder = self._folder()
        self._remove_folder()
        archs = [f"--arch={a}" for a in os.environ.get("MORPH_WHEEL_ARCHS", "").split()]
        ship, environment = ["-c", WARM, "warm", "--ship", str(folder)], {**os.environ, "CI": ""}
        command = [sys.executable, *ship, *archs, *names]
        if subprocess.run(command, cwd=self.root, env=environment).returncode:
            if archs:  # a wheel that is published
                raise RuntimeError(f"MORPH_WHEEL_ARCHS: kernels are not compiled: {command}")
            self.app.display_warning("kernels are not compiled: the wheel holds none")
            return
        for python in os.environ.get("MORPH_WHEEL_PYTHONS", "").split():
            # the build's own packages are of another Python
            other = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
            if subprocess.run([python, *ship, *names], cwd=self.root, env=other).returncode:
                self.app.display_warning(f"{python}: the wheel holds no records of units for it")
        for unfinished in folder.glob("tmp-*"):  # of a build that was killed
            unfinished.unlink()
        build_data["force_include"][str(folder)] = "morph/compiled"
        build_data["pure_python"] = False
        libc = platform.libc_ver()[1].replace(".", "_")
        build_data["tag"] = f"py3-none-manylinux_{libc}_x86_64"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        self._remove_folder()

    def _folder(self) -> Path:
        """Return the folder of the binaries."""
        kept = os.environ.get("MORPH_WHEEL_FOLDER")
        return Path(kept or Path(self.directory) / "compiled").absolute()

    def _remove_folder(self) -> None:
        if not os.environ.get("MORPH_WHEEL_FOLDER"):
            shutil.rmtree(self._folder(), ignore_errors=True)
