"""Binaries of the package's own kernels that lie in a wheel, for machines without a compiler.

They are made by ``morph warm --ship FOLDER`` when a wheel is built (``hatch_build.py``): for
Linux on x86-64-v3, and for the CUDA architectures that are asked for.  A binary is named by the
hash of its text and flags, without compiler and machine, so it can serve wherever its
instructions are known.  Cubins are compressed: uncompressed, those of all architectures take
150 MB.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from functools import cache as memoised
from pathlib import Path

from morph.runtime.toolchain import cache

FOLDER = Path(__file__).parents[2] / "compiled"
COLLECT = "MORPH_SHIP"
"""Environment variable: the folder into which a build for a wheel compiles."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
"""One of each generation of GPUs; its cubins also run on later ones of the same generation."""

# of x86-64-v3, beyond what each 64-bit processor has; as /proc/cpuinfo names them
_INSTRUCTIONS = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}


def collected() -> Path | None:
    """Return the folder to compile into, if this process compiles for a wheel."""
    name = os.environ.get(COLLECT)
    return Path(name).absolute() if name else None


@memoised
def portable_flags(processor: str) -> tuple[str, ...] | None:
    """Return the flags of binaries that run on this processor and were made on another.

    None if there are no such binaries for it.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    known = set(processor.split())
    return ("-march=x86-64-v3",) if _INSTRUCTIONS <= known else None


def find(suffixes: Iterable[str], text: str, *parts: str) -> Path | None:
    """Return the binary of a text and flags, with the first suffix that the package has."""
    if not FOLDER.is_dir():
        return None
    key = cache.key(text, *parts)
    made = (FOLDER / f"{key}.{suffix}" for suffix in suffixes)
    return next((file for file in made if file.is_file()), None)


def suffixes(arch: str) -> list[str]:
    """Return the suffixes of cubins that run on an architecture, the best first."""
    number = arch.removeprefix("sm_")
    if not number.isdecimal():  # sm_90a: of one GPU only
        return [f"{arch}.xz"]
    return [f"sm_{n}.xz" for n in range(int(number), int(number) // 10 * 10 - 1, -1)]
