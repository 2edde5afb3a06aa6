"""Compiles texts by NVRTC, in processes that import little."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Mapping, Set
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from unittest import mock

from morph.runtime.toolchain import cuda

INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.:]*)\b", re.MULTILINE)
SHARED, LOCAL = (re.compile(rf"\.{space} .*\[(\d+)\];") for space in ("shared", "local"))
assembled: set[str] = set()  # instructions that went through ptxas in this process
PARAMETERS = re.compile(r"\.entry[^{]*?\[(\d+)\]")


@cache
def pool() -> ProcessPoolExecutor:
    """The processes, which all tests of this one share: each loads NVRTC once."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


@dataclass(frozen=True)
class Ptx:
    """A text in PTX: its length, instructions, and that its entry ``name`` is there."""

    name: str
    length: int
    instructions: frozenset[str]
    has_entry: bool

    @classmethod
    def of(cls, text: str, name: str, fast: str = "max") -> Ptx:
        """Compile a text; refuse what ptxas would refuse whatever the instructions are."""
        nvrtc = cuda._nvrtc()
        program = nvrtc.createProgram(text, f"{name}.cu", (), ())
        try:
            nvrtc.compileProgram(program, (*flags(fast), "--gpu-architecture=compute_90"))
            ptx = nvrtc.getPTX(program)
        except nvrtc.NVRTCError:
            raise AssertionError(nvrtc.getProgramLog(program)) from None
        finally:
            nvrtc.destroyProgram(program)
        ptx = ptx if isinstance(ptx, str) else ptx.decode()
        assert ".extern .func" not in ptx, f"{name}: a function has no body"
        assert sum(map(int, SHARED.findall(ptx))) <= 48 << 10, f"{name}: shared memory"
        assert sum(map(int, LOCAL.findall(ptx))) <= 512 << 10, f"{name}: local memory"
        assert sum(map(int, PARAMETERS.findall(ptx))) <= 32_764, f"{name}: parameters"
        there = re.search(rf"\.entry {name}\b", ptx) is not None
        return cls(name, len(ptx), frozenset(INSTRUCTION.findall(ptx)), there)


def compile_all(texts: Mapping[str, str]) -> None:
    """Compile each text to PTX, and find its entry; a few, which have all instructions, further.

    ptxas takes three quarters of the time, so instructions that an earlier call has given to it
    are left out.
    """
    made = dict(zip(texts, pool().map(Ptx.of, texts, texts.values(), chunksize=4), strict=True))
    assert all(ptx.has_entry for ptx in made.values())
    some = {text: texts[text] for text in covering(made, assembled)}
    for name, cubin in zip(
        some.values(), pool().map(compile_one, some, some.values()), strict=True
    ):
        assert cubin[:4] == b"\x7fELF" and name.encode() in cubin
    assembled.update(*(made[text].instructions for text in some))


def covering(made: Mapping[str, Ptx], without: Set[str] = frozenset()) -> list[str]:
    """Texts that have every other instruction, and are short: each time the most new ones."""
    left, chosen = frozenset[str]().union(*(p.instructions for p in made.values())) - without, []
    while left:
        best = max(made, key=lambda x: len(made[x].instructions & left) / (made[x].length + 30_000))
        chosen.append(best)
        left -= made[best].instructions
    return chosen


def flags(fast: str) -> tuple[str, ...]:
    """Those of the package, and less optimisation where NVRTC knows of it."""
    more = (f"--Ofast-compile={fast}",) if cuda._nvrtc().getVersion() >= (13, 0) else ()
    return (*cuda.FLAGS, *more)


def compile_one(
    text: str, name: str = "", defines: tuple[str, ...] = (), fast: str = "max"
) -> bytes:
    """Give a text to NVRTC; optimisation, most of the time, is left out where it can be.

    Long functions without loops take less time with ``fast="min"``.
    """
    # in this process, which loads NVRTC once
    with (
        mock.patch.object(cuda, "FLAGS", flags(fast)),
        mock.patch.object(cuda, "_library", lambda: None),
    ):
        return cuda.build(text, "sm_90", name=name, defines=defines)
