"""The prelude of units as a precompiled header: g++ then takes two thirds of the time at -O0.

What does not compile that way, or cannot be loaded, is compiled as it is for users.
"""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

from morph.language.imports import import_uninterrupted
from morph.runtime.toolchain import cpu

FOLDER = "MORPH_TEST_HEADERS"  # environment variable, by which the processes of xdist share them
# libraries are not searched: the process has the C library, and that of C++ serves exceptions only
WITHOUT = (
    "-nostdlib", "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-fno-use-linker-plugin",
)  # fmt: skip
_plain = cpu._compile
as_users_do = False  # whether headers serve compilers with the flags of users, too
# entries of units that run for minutes when compiled with -O0, so they get -O1
COMPUTING = re.compile(r"\(morph_propagate\)")
# without optimisation g++ compiles a static function that nothing calls, unless it is inline
STATIC = re.compile(
    r"^(#define MORPH_(?:LOOP|COLD|OUTLINED) .*?\bstatic\b|static(?= [^;=]*\{$))", re.MULTILINE
)


def install() -> None:
    """Use precompiled headers in this process, with compilers that `tests/with_last` starts."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = made = tempfile.mkdtemp(prefix="morph-headers-")
        atexit.register(_remove, made, os.getpid())
    cpu._compile = _compile


def follow() -> None:
    """Use the headers of the process that started this one, if it has any."""
    if FOLDER in os.environ:
        install()


def _remove(made: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(made, ignore_errors=True)


def _compile(
    using: cpu.Compiler, flags: Sequence[str], text: str, out: Path, seconds: float | None = None,
    background: bool = False,
) -> str:  # fmt: skip
    """Compile and load, as `cpu._compile`."""
    if "-O0" in using.command and COMPUTING.search(text):
        command = tuple(x.replace("-O0", "-O1") for x in using.command)
        using = dataclasses.replace(using, command=command)
    quick = using.command[0].endswith("with_last")
    prelude = next((x for x in _preludes() if text.startswith(x)), None)
    usable = (quick or as_users_do) and "clang" not in using.version and not background
    if prelude and usable:
        direct, more, start = using, tuple(flags), prelude
        if quick:
            _, last, *command = using.command
            direct = dataclasses.replace(using, command=tuple(command))  # starts no shell
            more = (*more, *WITHOUT, last)
            start = STATIC.sub(r"\1 inline", prelude)
        header = _header((*direct.command, *more), start)
        short = f'#include "{header}"\n{text.removeprefix(prelude)}'
        if not _plain(direct, more, short, out, seconds):
            return ""
    return _plain(using, flags, text, out, seconds, background)


@cache
def _preludes() -> list[str]:
    """All preludes, those first that begin with another one."""
    # scripts that import this file are interrupted
    unit = import_uninterrupted("morph.compiler.codegen.unit")
    found = {unit.prelude(*options) for options in product((False, True), repeat=4)}
    return sorted(found, key=len, reverse=True)


@cache
def _header(command: tuple[str, ...], text: str) -> Path:
    """Compile a prelude for a command and its flags, and return the header to include."""
    digest = hashlib.sha256("\0".join((*command, text)).encode()).hexdigest()[:24]
    header = Path(os.environ[FOLDER]) / f"{digest}.h"
    compiled = header.with_suffix(".h.gch")
    if not compiled.exists():
        handle, made = tempfile.mkstemp(".h", dir=header.parent)
        os.close(handle)
        Path(made).write_text(text)
        os.replace(made, header)
        # without: the header itself is read
        subprocess.run(
            [*command, "-x", "c++-header", str(header), "-o", f"{made}.gch"], check=False
        )
        if os.path.exists(f"{made}.gch"):
            os.replace(f"{made}.gch", compiled)
    return header
