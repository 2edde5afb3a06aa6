"""Texts to NVRTC, in processes of their own that load little."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from unittest import mock

from morph.runtime.toolchain import cuda


@cache
def pool() -> ProcessPoolExecutor:
    """The processes, which all tests of this one share: each loads NVRTC once."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


def compile_all(texts: Mapping[str, str]) -> None:
    """Compile each text, and find the name of its entry in the binary."""
    cubins = pool().map(compile_one, texts, texts.values())
    for name, cubin in zip(texts.values(), cubins, strict=True):
        assert cubin[:4] == b"\x7fELF" and name.encode() in cubin


def compile_one(
    text: str, name: str = "", defines: tuple[str, ...] = (), fast: str = "max"
) -> bytes:
    """Give a text to NVRTC; optimisation, most of the time, is left out where it can be.

    Long functions without loops take less time with ``fast="min"``.
    """
    flags = (f"--Ofast-compile={fast}",) if cuda._nvrtc().getVersion() >= (13, 0) else ()
    # in this process, which loads NVRTC once
    with (
        mock.patch.object(cuda, "FLAGS", (*cuda.FLAGS, *flags)),
        mock.patch.object(cuda, "_library", lambda: None),
    ):
        return cuda.build(text, "sm_90", name=name, defines=defines)
