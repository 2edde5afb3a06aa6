"""Checked launches that break a rule: a graph for their kernels, and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import morph
from morph.prelude import f64, i32, i64


def line_of(file: str, mark: str) -> int:
    """The line of a file that ends with a comment ``# <mark>``."""
    text = Path(file).read_text().splitlines()
    (found,) = [i for i, line in enumerate(text, 1) if line.endswith(f"# {mark}")]
    return found


def graph(target):
    made = morph.Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3], weight=[5, 1, 1, 9], device=target)
    made.points.add("a", i64)
    made.points.add("big", i32, fill=70000)
    made.points.add("far", i64, fill=2**40)
    made.points.add("x", f64, fill=1e300)
    made.points.add("v", morph.vec(f64, 3))
    made.points.add("next", morph.Ref("points"))
    return made


def found(items, kernel, *args, **options):
    """The error of a checked launch; after it the same objects serve other launches."""
    with pytest.raises(morph.CheckError) as caught:
        morph.foreach(items, kernel, *args, check=True, **options)
    file, pos = kernel.__wrapped__.__code__.co_filename, caught.value.pos
    assert pos.file == file and len(caught.value.problem) <= 200
    text = str(caught.value).splitlines()
    assert text[0] == f"{file}:{pos.line}: {caught.value.problem}"
    there = Path(file).read_text().splitlines()[pos.line - 1]
    assert text[1].strip() == there.strip() and "^" in text[2]
    return caught.value
