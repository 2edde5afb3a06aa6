"""DIMACS CNF: input that solvers accept is read; irregular input is reported by file and line."""

from __future__ import annotations

import io
import re
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sat import clause_lists

from morph import Formula, generate
from morph.io import CnfWarning, FormatError, read_cnf, write_cnf
from morph.io.sat import cnf
from morph.io.sat.models import model_lines, read_answer
from morph.io.text import clauses
from morph.runtime.toolchain import cpu


@pytest.fixture(params=["compiled", "plain"])
def way(request, monkeypatch):
    """Both readers: that for large files, and that for small ones and where no compiler is."""
    if request.param == "compiled":
        monkeypatch.setattr(clauses, "LEAST", 0)
    else:
        monkeypatch.setattr(clauses, "library", lambda: None)


def written(tmp_path, text):
    path = tmp_path / "f.cnf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ACCEPTED = {
    "plain": "p cnf 3 2\n1 -2 0\n3 0\n",
    "several lines": "p cnf 3 2\n1\n-2\n\n0 3\n0",
    "several in a line": "p  cnf\t3   2  \n1 -2 0 3 0",
    "comments everywhere": "c a\nc\ncb 1 0\np cnf 3 2\nc 1 0\n1 c 3 0\n-2 0 c%\n c p cnf\n3 0\nc",
    "comments before blanks": "\n \n  c x\n\np cnf 3 2\n1 -2 0\n3 0\n",
    "satlib": " p cnf 3 2 \n 1 -2 0\n3 0\n%\n0\n\n",
    "satlib, short": "p cnf 3 2\n1 -2 0\n3 0\n%",
    "windows": "c x\r\np cnf 3 2\r\n1 -2 0\r\n3 0\r\n",
    "tabs and other blanks": "p cnf 3 2\n1\t-2\v0\f3 0\n",
    "signs and zeros": "p cnf 3 2\n+1 -02 00\n+3 0\n",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_solvers_read(way, tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_cnf(written(tmp_path, ACCEPTED[name]))
    assert found == Formula.of([[1, -2], [3]])


def test_open_files(tmp_path):
    text = "p cnf 3 2\n1 -2 0\n3 0\n"
    with open(written(tmp_path, text), "rb") as file:
        assert Formula.of(file) == Formula.of([[1, -2], [3]])
    for wrong in (io.StringIO(text), 5):
        with pytest.raises(TypeError, match='no file opened with "rb"'):
            read_cnf(wrong)
    with open(written(tmp_path, "p cnf 1 1\ny"), "rb") as file:
        with pytest.raises(FormatError, match=f"{re.escape(file.name)}:2: expected"):
            read_cnf(file)
    with pytest.raises(FormatError, match="standard input:2: expected"):
        read_cnf(io.BytesIO(b"p cnf 1 1\ny"))


def test_leading_zeros_count_for_nothing(way, tmp_path):
    zeros = "0" * 30
    text = f"p cnf {zeros}3 {zeros}2\n{zeros}1 -{zeros}2 {zeros}\n{zeros}3 0\n"
    assert read_cnf(written(tmp_path, text)) == Formula.of([[1, -2], [3]])


def test_odd_but_right(way, tmp_path):
    assert read_cnf(written(tmp_path, "p cnf 0 0")) == Formula.of([])
    assert read_cnf(written(tmp_path, "p cnf 9 3\n0 2 2 -2 0 0\n")) == Formula.of(
        [[], [2, 2, -2], []], 9
    )
    most = 2**31 - 1
    found = read_cnf(written(tmp_path, f"p cnf {most} 1\n-{most} {most} 0"))
    assert found.literals.tolist() == [-most, most]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("c x\np cnf 3 3\n1 0 2 0\n", 2, "the header declares 3 clauses, there are 2"),
        ("p cnf 3 0\n1 0\n", 1, "the header declares 0 clauses, there are 1"),
        ("\nc x\n1 -3 0\n", 3, "there is no header"),
    ],
)
def test_headers_that_do_not_fit_are_warned_of(way, tmp_path, text, line, message):
    path = written(tmp_path, text)
    with pytest.warns(CnfWarning, match=f"f.cnf:{line}: {message}") as caught:
        assert read_cnf(path).variables == 3
    assert caught[0].filename == __file__
    with pytest.raises(FormatError):
        read_cnf(path, strict=True)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("p cnf 3 2\n1 0\n2", 3, "the last clause lacks its 0"),
        ("p cnf 3 2\n1 0\n2 \n\nc 0\n", 5, "the last clause lacks its 0"),
        ("p cnf 3 2\n1 0\n2\n%\n0\n", 3, "the last clause lacks its 0"),
        ("p cnf 3 2\n1 0\n\n2 -4 0", 4, "literal -4: the largest variable is 3"),
        ("p cnf 3 2\n1 0\n99999999999999999999999 0", 3, "the largest variable is 3"),
        ("p cnf 3 2\n1 0\nx 0", 3, "expected a literal, a 0 or a comment, not 'x'"),
        ("p cnf 3 2\n1 2- 0", 2, "not '2-'"),
        ("p cnf 3 2\n1 - 2 0", 2, "not '-'"),
        ("p cnf 3 2\n1 -0", 2, "not '-0'"),
        ("p cnf 3 2\n1,2 0", 2, "not '1,2'"),
        ("p cnf 3 2\n1 2.0 0", 2, "not '2.0'"),
        ("p cnf 3 2\n1_1 0", 2, "not '1_1'"),
        (b"p cnf 3 2\n1 \x00 0", 2, r"not '\\x00'"),
        (b"p cnf 3 2\n1 0\n\xc3\xa9 0", 3, "expected a literal"),
        ("p cnf 3 2\n1 0\np cnf 3 2\n", 3, "a second header"),
        ("p cnf 3 2\n1 0\n2 0\n%\n0\n1 0\n", 4, "more than a 0 follows the '%'"),
        ("p cnf 3 2 1\n1 0", 1, "expected p cnf VARIABLES CLAUSES, not 'p cnf 3 2 1'"),
        ("c\np wcnf 3 2\n1 0", 2, "expected p cnf"),
        ("p cnf -3 2\n1 0", 1, "expected p cnf"),
        ("p cnf 3\n1 0", 1, "expected p cnf"),
        ("p cnf 2147483648 1\n1 0", 1, "at most 2147483647 are possible"),
        ("", 1, "expected the header"),
        ("c only\n", 2, "expected the header"),
        (b"\xef\xbb\xbfp cnf 1 1\n1 0", 1, "byte order mark"),
    ],
)
def test_irregular_input_is_reported(way, tmp_path, text, line, message):
    with pytest.raises(FormatError, match=f"f.cnf:{line}: .*{message}"):
        read_cnf(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p cnf 3 1\n1 c 2\n 2 0", "f.cnf:2: a comment within a line"),
        ("p cnf 3 1\n1 0\n%\n0\n", "f.cnf:3: a '%'"),
        ("p cnf 3 1\n+1 0\n", "f.cnf:2: a plus sign"),
        ("1 0\n", "f.cnf:1: expected the header"),
    ],
)
def test_strict(way, tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        read_cnf(written(tmp_path, text), strict=True)
    strict = "c x\np cnf 2 2\nc y\n1 -2\n0\n2 0\n"
    assert read_cnf(written(tmp_path, strict), strict=True).lists() == [[1, -2], [2]]


@given(clause_lists(), st.sampled_from(["", ".gz", ".xz", ".bz2"]))
def test_what_is_written_is_read(tmp_path_factory, formula, suffix):
    path = tmp_path_factory.mktemp("cnf") / f"a.cnf{suffix}"
    write_cnf(formula, path, comment="one\ntwo")
    assert read_cnf(path, strict=True) == formula


@given(
    st.lists(st.sampled_from(["1", "-2", "0", "0", "c x", "\n", "%", "x", "3", " "]), max_size=30)
)
def test_both_readers_agree(tmp_path_factory, words):
    path = written(tmp_path_factory.mktemp("cnf"), "p cnf 2 3\n" + " ".join(words))
    results = []
    for least in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(clauses, "LEAST", least)
            patch.setattr(clauses, "PIECE", 1)
            try:
                results.append(read_cnf(path).lists())
            except FormatError as error:
                results.append(str(error))
    assert results[0] == results[1]


def test_a_library_that_is_made_reads_smaller_files_too(monkeypatch):
    monkeypatch.setattr(clauses.LIBRARY, "_is_made", True)
    assert clauses.is_worth(clauses.LEAST_MADE) and not clauses.is_worth(clauses.LEAST_MADE - 1)
    monkeypatch.setattr(clauses.LIBRARY, "_is_made", False)
    monkeypatch.setattr(clauses.LIBRARY, "_loaded", {})
    assert not clauses.is_worth(clauses.LEAST - 1) and clauses.is_worth(clauses.LEAST)


@pytest.mark.parametrize("compiled", [True, False])
def test_whether_a_library_is_made(compiled, tmp_path, monkeypatch):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    text = 'extern "C" int one() { return 1; }'
    made = cpu.build(text, name="one") if compiled else None
    assert cpu.find(text, name="one") == made
    monkeypatch.setenv("MORPH_CXX", "/missing")
    assert cpu.find(text, name="one") is None


def test_clauses_are_written_in_pieces(tmp_path, monkeypatch):
    f, path = generate.random_ksat(3, 50_000, 4, 1), tmp_path / "a.cnf"
    monkeypatch.setattr(cnf, "CHUNK", 1 << 12)
    tracemalloc.start()
    try:
        write_cnf(f, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 2 and read_cnf(path) == f


def test_large_files(tmp_path, monkeypatch):
    """Of many parts; one clause without line ends; an error far behind."""
    f = generate.random_ksat(3, 50_000, 4, 1)
    path = tmp_path / "a.cnf"
    write_cnf(f, path)
    text = path.read_bytes()
    assert read_cnf(path) == f and len(text) > clauses.LEAST
    path.write_bytes(text.replace(b"\n", b" ").replace(b"200000 ", b"200000\n", 1))
    assert read_cnf(path) == f
    lines = text.split(b"\n")
    lines[150_000] = b"1 oops 0"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(FormatError, match="a.cnf:150001: .*'oops'"):
        read_cnf(path)
    lines[100_000] = b"%"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(FormatError, match="a.cnf:100001: more than a 0"):
        read_cnf(path)
    monkeypatch.setattr(clauses, "library", lambda: None)
    write_cnf(f, path)
    assert zlib.crc32(path.read_bytes()) == zlib.crc32(text)


def test_a_damaged_file_is_reported(tmp_path):
    path = tmp_path / "a.cnf.gz"
    path.write_bytes(b"\x1f\x8b\x08 no")
    with pytest.raises(FormatError, match="damaged .gz file"):
        read_cnf(path)
    with pytest.raises(FileNotFoundError):
        read_cnf(tmp_path / "none.cnf")


@given(st.lists(st.booleans(), max_size=60))
def test_models_are_printed_and_read(tmp_path_factory, truth):
    path = tmp_path_factory.mktemp("cnf") / "a.out"
    lines = list(model_lines(truth))
    assert max(map(len, lines)) <= 80 and all(line.startswith("v ") for line in lines)
    path.write_text("\n".join(["c hello", "s SATISFIABLE", *lines, ""]))
    status, model, missing = read_answer(path, len(truth))
    assert (status, missing) == ("SATISFIABLE", 0) and model.tolist() == truth
    path.write_text("SAT\n" + " ".join(line[2:] for line in lines))  # as MiniSat writes it
    assert read_answer(path, len(truth)).model.tolist() == truth


def test_answers_without_a_model(tmp_path):
    path = tmp_path / "a.out"
    for word, want in (("s UNSATISFIABLE", "UNSATISFIABLE"), ("UNSAT", "UNSATISFIABLE"),
                       ("s UNKNOWN", "UNKNOWN"), ("INDETERMINATE", "UNKNOWN")):  # fmt: skip
        path.write_text(f"c x\n{word}\n")
        assert read_answer(path, 2) == (want, None, 2)
    path.write_text("s SATISFIABLE\nv 2\nv 0\n")
    status, model, missing = read_answer(path, 3)
    assert (status, model.tolist(), missing) == ("SATISFIABLE", [False, True, False], 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v 1 0\n", "there is no line s"),
        ("s SATISFIABLE\nv 1 2\n", "do not end with a 0"),
        ("s SATISFIABLE\nv 1 3 0\n", "a.out:2: literal 3: the formula has 2 variables"),
        ("s SATISFIABLE\nv 1 2 -1 0\n", "a.out:2: both 1 and -1"),
        ("s SATISFIABLE\nv 1\nv -1 0\n", "a.out:3: both 1 and -1"),
        ("s SATISFIABLE\nv 1 x 0\n", "a.out:2: not a literal: 'x'"),
        ("s SATISFIABLE\nv 1 0 2\n", "a.out:2: literals after the 0"),
        ("s MAYBE\n", "a.out:1: a status is"),
        ("s UNKNOWN\ns UNKNOWN\n", "a.out:2: a second status"),
    ],
)
def test_answers_that_are_none(tmp_path, text, message):
    path = tmp_path / "a.out"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_answer(path, 2)


def test_arrays_are_as_promised(tmp_path):
    found = read_cnf(written(tmp_path, "p cnf 3 2\n1 -2 0\n3 0\n"))
    assert (found.offsets.dtype, found.literals.dtype) == (np.int64, np.int32)
