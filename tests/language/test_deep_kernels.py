"""Long and deeply nested kernels compile, and give the results of Python."""

from __future__ import annotations

import sys

import pytest
from small import rows, values
from test_names import compiles_for_cuda, module

import morph
from morph.prelude import f64, i64

N = 400
HEAD = "import morph\n@morph.func\ndef inc(x):\n    return x + 1\n"
HEAD += "@morph.func\ndef next_of(r):\n    return morph.prelude.atomic_add(r.y, 1)\n"


def body(line: str, then: str = "") -> str:
    return f"    {line}\n" + (f"        {then}\n" if then else "")


def elifs(n: int) -> str:
    text = body("if r.v == -1:", "r.out = 1")
    for i in range(n):
        text += body(f"elif r.v == {i}:", f"r.out = {i} + 1" if i % 9 else "return")
    return text + body("else:", "r.out = -1")


CASES = {  # a body, and what it makes of v = 3 in the columns out and f
    "sum": (body("r.out = " + " + ".join(["r.v"] * N)), 3 * N),
    "sum of floats": (body("r.f = " + " + ".join(["f64(r.v)"] * N)), 0),
    "sum of effects": (body("r.out = " + " + ".join(["next_of(r)"] * 100)), 4950),
    "to the right": (body("r.out = " + "r.v - (" * 90 + "r.v" + ")" * 90), 3),
    "and": (body("if " + " and ".join(["r.v > 0"] * N) + ":", "r.out = 1"), 1),
    "or": (body("r.out = i64(" + " or ".join(["r.v > 9"] * N) + ")"), 0),
    "and of values": (body("r.out = " + " and ".join(["r.v"] * N)), 3),
    "and of effects": (body("if " + " and ".join(["next_of(r) < 90"] * 99) + ":", "r.out = 1"), 0),
    "comparisons": (body("if " + " <= ".join(["r.v"] * N) + ":", "r.out = 1"), 1),
    "elif": (elifs(N), 4),
    "if else": (body("r.out = " + "".join(f"{i} if r.v == {i} else " for i in range(N)) + "5"), 3),
    "minus": (body("r.out = " + "-" * N + "r.v"), 3),
    "not": (body("r.out = i64(" + "not " * N + "(r.v > 0))"), 1),
    "min": (body("r.out = min(" + ", ".join(f"r.v + {i}" for i in range(N)) + ")"), 3),
    "calls": (body("r.out = " + "inc(" * 80 + "r.v" + ")" * 80), 83),
    "names": (
        body(", ".join(f"x{i}" for i in range(N)) + " = " + ", ".join(["r.v"] * N))
        + body(f"r.out = x{N - 1}"), 3,
    ),
    "vectors": (
        body("v = morph.prelude.vector(r.v, 1)")
        + body("w = " + " + ".join(["v"] * N))
        + body("r.out = w.x"),
        3 * N,
    ),
    "ifs": (
        "".join("    " * (i + 1) + f"if r.v > {-i}:\n" for i in range(90))
        + "    " * 91 + "r.out = 1\n", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_long_kernels(target, tmp_path, name):
    text, want = CASES[name]
    start = "import morph\nfrom morph.prelude import f64, i64\n"
    many = module(tmp_path, start + HEAD + "@morph.kernel\ndef many(r):\n" + text).many
    t = rows(target, v=i64, out=i64, y=i64, f=f64)
    t.v[:] = 3
    limit = sys.getrecursionlimit()
    morph.foreach(t, many)
    assert values(t, "out") == [want] and sys.getrecursionlimit() == limit
    assert values(t, "f") == [3 * N if name == "sum of floats" else 0]
    compiles_for_cuda(many)


def test_functions_that_call_functions(target, tmp_path):
    text = HEAD + "f0 = inc\n"
    for i in range(1, N):
        text += f"@morph.func\ndef f{i}(x):\n    return f{i - 1}(x) + 1\n"
    many = module(tmp_path, text + f"@morph.kernel\ndef many(r):\n    r.out = f{N - 1}(r.v)\n").many
    t = rows(target, v=i64, out=i64)
    morph.foreach(t, many)
    assert values(t, "out") == [N]
    compiles_for_cuda(many)


def test_two_calls_of_each_function_are_counted_once(target, tmp_path):
    """The functions that a kernel reaches, not the ways to reach them: there are 2 ** 40."""
    text = HEAD + "f0 = inc\n"
    for i in range(1, 41):
        text += f"@morph.func\ndef f{i}(x):\n    return f{i - 1}(x) + 1 if x > 0 else f{i - 1}(x)\n"
    many = module(tmp_path, text + "@morph.kernel\ndef many(r):\n    r.out = f40(r.v)\n").many
    t = rows(target, v=i64, out=i64)
    if target != "cuda":  # NVRTC copies each function to every call
        morph.foreach(t, many)
        assert values(t, "out") == [1]


def test_too_deep_is_an_error_of_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr("morph.language.depth.FRAMES", 1)
    text = HEAD + "f0 = inc\n"
    for i in range(1, N):
        text += f"@morph.func\ndef f{i}(x):\n    return f{i - 1}(x) + 1\n"
    many = module(tmp_path, text + f"@morph.kernel\ndef many(r):\n    r.out = f{N - 1}(r.v)\n").many
    t = rows("python", v=i64, out=i64)
    with pytest.raises(morph.LanguageError, match="'many' is nested too deeply") as found:
        morph.foreach(t, many)
    assert found.value.hint == "split it into functions" and found.value.pos.file.endswith(".py")
