"""The prelude of units as a precompiled header, and in CI another compiler of units.

With the header g++ takes two thirds of the time at -O0. There the functions of the prelude that are
no templates are in an object, with which units are linked: they are compiled once, not for each
unit, so a unit takes two thirds of the time again; the clang of `ziglang` takes six tenths of that.
What does not compile that way, or cannot be loaded, is compiled as it is for users.
"""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path

from morph.language.imports import import_uninterrupted
from morph.runtime.toolchain import cpu

FOLDER = "MORPH_TEST_HEADERS"  # environment variable, by which the processes of xdist share them
# libraries are not searched: the process has the C library, and that of C++ serves exceptions only
WITHOUT = "-nostdlib", "-fno-exceptions", "-fno-asynchronous-unwind-tables"
WITHOUT_GCC = ("-fno-use-linker-plugin",)
WITHOUT_CLANG = "-Xclang", "-mno-constructor-aliases"  # units call both symbols of a constructor
_plain = cpu._compile
WITH_LAST = str(Path(__file__).with_name("with_last"))  # a compiler with its last flag first
as_users_do = False  # whether headers serve compilers with the flags of users, too
# entries of units that run for minutes when compiled with -O0, so they get -O1
COMPUTING = re.compile(r"\(morph_propagate\)")
# without optimisation g++ compiles a static function that nothing calls, unless it is inline
STATIC = re.compile(
    r"^(#define MORPH_(?:LOOP|COLD|OUTLINED) .*?\bstatic\b|static(?= [^;=]*\{$))", re.MULTILINE
)
# tokens that show whether a function is a template, and those that begin a function of the prelude
TOKENS = re.compile(
    r'//.*|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:.*\\\n)*.*'
    r"|template\s*<|[{};]|\bMORPH_(?:FN|HOT|COLD|CALL)\b|^static\b(?=[^(=;]*(\(?))",
    re.MULTILINE,
)
DECLARED = """#define MORPH_LINKED inline __attribute__((gnu_inline))  // never compiled
#define MORPH_INTERPRETER Interpreter morph_interpreter;
"""
DEFINED = """#define MORPH_LINKED inline __attribute__((used))
#define MORPH_INTERPRETER
"""


@cache
def clang() -> tuple[list[str], str] | None:
    """Return the command of the clang in `ziglang`, without zig's own cache, and its version."""
    zig = importlib.util.find_spec("ziglang") if sys.platform == "linux" else None
    if zig is None or not zig.submodule_search_locations:
        return None
    program = str(Path(zig.submodule_search_locations[0]) / "zig")
    return [program, "clang", f"--target={platform.machine()}-linux-gnu"], "clang of zig"


def install() -> None:
    """Use precompiled headers in this process, with compilers that `with_last` starts."""
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
    if as_users_do and "-DMORPH_FAULTS" in flags:  # a binary that no user has, in half of the time
        using = dataclasses.replace(using, command=(WITH_LAST, "-O1", *using.command))
    quick = using.command[0].endswith("with_last")
    # a library of C++ functions has no prelude: an import here could be interrupted
    known = "morph.compiler.codegen.prelude" in sys.modules
    prelude = next((x for x in _preludes() if text.startswith(x)), None) if known else None
    if prelude and (quick or as_users_do) and not background:
        # g++ precompiles no header with libraries
        direct, more = using, tuple(f for f in flags if not f.startswith("-l"))
        if quick:
            _, last, *command = using.command  # starts no shell
            command, version = clang() or (command, using.version)
            direct = dataclasses.replace(using, command=tuple(command), version=version)
            own = WITHOUT_CLANG if "clang" in version else WITHOUT_GCC
            more = (*more, *WITHOUT, *own, last)
        header, linked = _files((*direct.command, *more), prelude, quick)
        short = text.removeprefix(prelude)
        more = (*more, "-include", str(header), *linked)
        error = _plain(direct, more, short, out, seconds)
        if not error:
            return ""
        if "PCH file" in error:  # it was written wrongly, and g++ takes seconds to notice that
            header.with_suffix(".h.gch").unlink(missing_ok=True)
    return _plain(using, flags, text, out, seconds, background)


@cache
def _preludes() -> list[str]:
    """All preludes, those first that begin with another one."""
    # scripts that import this file are interrupted
    made = import_uninterrupted("morph.compiler.codegen.prelude")
    found = {
        made.prelude(*options, single_block=single_block)
        for *options, single_block in product((False, True), repeat=5)
    }
    return sorted(found, key=len, reverse=True)


@cache
def _linked(prelude: str) -> str:
    """Let MORPH_LINKED begin the functions of a prelude that are no templates."""
    made, done, template = [], 0, False
    scopes = [False]  # for each brace that is open: whether it is within a template
    for found in TOKENS.finditer(prelude):
        word = found[0]
        if word == "{":
            scopes.append(template or scopes[-1])
        elif word == "}":
            scopes.pop()
        elif word.startswith(("MORPH", "static")) and not template and not scopes[-1]:
            is_variable = word == "static" and not found[1]
            made += [prelude[done : found.start()], "inline" if is_variable else "MORPH_LINKED"]
            done = found.end()
        if word.startswith("template"):
            template = True
        elif word in "{};":
            template = False
    text = "".join([*made, prelude[done:]])
    text = text.replace("#define MORPH_OF_LAUNCH static", "#define MORPH_OF_LAUNCH inline")
    return text.replace("\nInterpreter morph_interpreter;", "\nMORPH_INTERPRETER")


@cache
def _files(command: tuple[str, ...], prelude: str, quick: bool) -> tuple[Path, tuple[str, ...]]:
    """Compile a prelude for a command: the header to include, and arguments for the linker."""
    apart = command[-1] == "-O0"  # functions that are no templates are in an object
    text = _linked(prelude) if apart else prelude
    text = STATIC.sub(r"\1 inline", text) if quick else text
    linked = ("-x", "none", str(_object(command, text))) if apart else ()
    return _header(command, DECLARED + text), linked


def _object(command: tuple[str, ...], text: str) -> Path:
    """Return the object of the functions that begin with MORPH_LINKED, compiled for a command."""
    source = _source((*command, "-c"), DEFINED + text)
    return _built(source.with_suffix(".o"), (*command, "-c", "-x", "c++"), source)


def _header(command: tuple[str, ...], text: str) -> Path:
    """Compile a prelude for a command and its flags, and return the header to include."""
    header = _source(command, text)
    _built(header.with_suffix(".h.gch"), (*command, "-x", "c++-header"), header)
    return header  # is read itself if it does not compile


@cache
def _source(command: tuple[str, ...], text: str) -> Path:
    """Write a text that is compiled by a command."""
    digest = hashlib.sha256("\0".join((*command, text)).encode()).hexdigest()[:24]
    source = Path(os.environ[FOLDER]) / f"{digest}.h"
    if not source.exists():
        handle, made = tempfile.mkstemp(".h", dir=source.parent)
        os.close(handle)
        Path(made).write_text(text)
        with suppress(FileExistsError):  # clang refuses a header that is newer than its `.gch`
            os.link(made, source)
        os.remove(made)
    return source


@cache
def _built(built: Path, command: tuple[str, ...], source: Path) -> Path:
    """Compile a file, unless another process has."""
    if not built.exists():
        made = f"{built}.{os.getpid()}"
        subprocess.run([*command, str(source), "-o", made], check=False)
        if os.path.exists(made):
            os.replace(made, built)
    return built
