"""Compiled and NumPy parsing of numbers agree on any text, and so do both ways of formatting."""

import locale
import re
import shutil
import struct
import subprocess
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshfiles import PARSERS, library
from targets import examples

from morph.io import FormatError, read_edges
from morph.io.mesh.nodes import read_node
from morph.io.text import numbers
from morph.io.text import scanner as text_module
from morph.io.text.rows import format_rows
from morph.io.text.scanner import Field, Scanner
from morph.runtime.toolchain.library import HostLibrary

COMPILED = [p for p in PARSERS if p != "numpy"]
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z", re.ASCII)
WHOLE = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", 0)


def parse(text, rows, whole, parser, monkeypatch):
    made = library("MORPH_PLAIN") if parser == "plain" else library()
    if made is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setattr(numbers, "library", lambda: made)
    found = numbers.parse(text, 0, rows, [whole])
    return None if found is None else (found[0][0], found[1])


WORDS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.17g}".format),
    st.floats(0.1, 10).map("{:.25f}".format),
    st.text("0123456789+-.eE", min_size=1, max_size=8),
    st.sampled_from(["nan", "inf", "0x1", "1_0", "-0.0", "1e-400", "1e400", "4.9e-324", "+.5e+3"]),
)
BLANKS = st.text(" \t", min_size=1, max_size=2)
LINES = st.lists(
    st.tuples(
        st.lists(st.tuples(WORDS, BLANKS), max_size=3),
        st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
    ).map(lambda line: "".join(w + b for w, b in line[0]) + line[1]),
    max_size=6,
)


@pytest.mark.parametrize("parser", COMPILED)
@pytest.mark.parametrize("whole", [(True, True), (True, False), (False, False, True)])
def test_a_table_is_what_its_words_say_or_nothing(parser, whole, monkeypatch):
    """The reference is Python: text that matches the grammar, converted by int and float."""

    @settings(max_examples=examples(60))
    @given(LINES)
    def check(lines):
        text = "".join(lines)
        found = parse(text.encode(), None, whole, parser, monkeypatch)
        words = [line.split() for line in text.split("\n") if line.split()]
        good = all(len(line) == len(whole) for line in words) and all(
            bool(WHOLE.match(w) if is_whole else NUMBER.match(w))
            for line in words
            for w, is_whole in zip(line, whole, strict=True)
        )
        if found is None:
            return
        assert good
        want = np.array([[float(w) for w in line] for line in words])
        if all(whole):
            want = np.array([[int(w) for w in line] for line in words])
        assert found[0].tobytes() == want.astype(found[0].dtype).tobytes()
        assert not text[found[1] :].strip()

    check()


@pytest.mark.parametrize("parser", COMPILED)
def test_nothing_good_is_left_to_the_slow_way(parser, monkeypatch):
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    raw = raw[np.isfinite(raw)]
    text = "".join(f"{k}\t{v!r}  {v:+.17e} {-k}\r\n\n" for k, v in enumerate(raw.tolist()))
    values, behind = parse(text.encode(), None, [True, False, False, True], parser, monkeypatch)
    assert values[:, 1].tobytes() == raw.tobytes() == values[:, 2].tobytes()
    assert values[:, 0].tolist() == list(range(len(raw))) == (-values[:, 3]).tolist()
    assert not text[behind:].strip()


@pytest.mark.parametrize("parser", PARSERS)
def test_halves_round_to_even_at_any_length(parser, monkeypatch):
    words = ["9007199254740993", "9007199254740993." + "0" * 30 + "1", "1.7976931348623158079e308"]
    words += ["0." + "0" * 40 + "1", "2.5e-324", "2.4703282292062327208e-324", "1e-999", "7" * 300]
    made = {"numpy": lambda: None, "compiled": library, "plain": lambda: library("MORPH_PLAIN")}
    monkeypatch.setattr(numbers, "library", made[parser])
    found = Scanner("t", "\n".join(words).encode()).rest([Field("x", False)])
    assert found.values[:, 0].tolist() == [float(w) for w in words]


@pytest.mark.parametrize("parser", COMPILED)
def test_parts_of_a_large_text_meet(parser, monkeypatch):
    """Several parts, blank lines on their borders, and rows wanted in any of them."""
    rng = np.random.default_rng(1)
    lines = [f"{k} {k * 3}" + "\n" * int(j) for k, j in enumerate(rng.integers(1, 5, 90_000))]
    lines[4000] = "4000 12000" + " " * 600_000 + "\n"  # a line longer than a part
    text = "".join(lines).encode()
    for rows in (None, 1, 4000, 4001, 4002, 50_000, 90_000):
        values, behind = parse(text, rows, [True, True], parser, monkeypatch)
        count = 90_000 if rows is None else rows
        assert np.array_equal(values, np.arange(count)[:, None] * [1, 3])
        assert text[behind:].split()[:1] == ([b"%d" % count] if count < 90_000 else [])
        assert text[behind - 1 : behind] == b"\n"
    assert parse(text, 90_001, [True, True], parser, monkeypatch) is None
    assert parse(text + b"x", None, [True, True], parser, monkeypatch) is None


needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")


@needs_compiler
def test_groups_of_columns_are_arrays_of_their_own():
    groups = [[True], [False, True], [True, True]]
    (number, mixed, pair), _ = numbers.parse(b"1 .5 2 3 -4\n2 7 8 9 2147483647\n", 0, 2, groups,
                                             narrow=True)  # fmt: skip
    assert (number.dtype, mixed.dtype, pair.dtype) == (np.int32, np.float64, np.int32)
    assert (number.tolist(), mixed.tolist()) == ([[1], [2]], [[0.5, 2], [7, 8]])
    assert pair.tolist() == [[3, -4], [9, 2**31 - 1]] and pair.flags.c_contiguous
    wide = b"1 2147483648\n"
    assert numbers.parse(wide, 0, 1, [[True, True]], narrow=True) is None
    assert numbers.parse(wide, 0, 1, [[True, True]])[0][0].tolist() == [[1, 2**31]]


@needs_compiler
def test_a_short_last_piece_is_compiled_too(monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", 99)
    monkeypatch.setattr(text_module, "PIECE", 90)
    scanner = Scanner("t", b"a 1 2\n" * 20)
    monkeypatch.setattr(scanner, "_some", lambda *_: pytest.fail("read by NumPy"))
    fields = [Field("u"), Field("v")]
    found = [len(b.values) for b in scanner.pieces(20, fields, "arcs", b"a", scanner._some)]
    assert found == [16, 4]


@given(st.lists(st.sampled_from([b"ab", b"c", b"a", b"\n"]), max_size=9), st.integers(0, 9))
def test_marks_are_found_across_pieces(words, start):
    data = b"".join(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "PIECE", 1)
        got = text_module.find(data, [b"ab", b"c"], start)
    assert got == min((k for k in (data.find(b"ab", start), data.find(b"c", start)) if k >= 0),
                      default=-1)  # fmt: skip


@needs_compiler
def test_a_comment_behind_the_last_row_is_no_reason_for_a_copy(monkeypatch):
    """Triangle writes one behind the triangles."""
    monkeypatch.setattr(numbers, "LEAST", 0)
    monkeypatch.setattr(text_module, "PIECE", 8)
    data = b"# head\n3 1 # header\n1 2\n3 4\n5 6\n  # Generated by triangle\n\n#"
    scanner, fields = Scanner("t", data), [Field("u"), Field("v")]
    assert scanner.header("row", ["rows", "columns"], [0, 0]) == [3, 1]
    assert scanner.block(3, fields, "rows", (1, 1)).parts[1].tolist() == [[2], [4], [6]]
    scanner.end("rows")
    assert scanner.data is data
    scanner = Scanner("t", data + b"\n7 8")
    scanner.skip_line()
    scanner.block(3, fields, "rows")
    with pytest.raises(FormatError, match="^t:9: unexpected '7' after the last of the rows"):
        scanner.end("rows")


COMMENTS = {  # what begins a comment, what it matches, and the lines before the edges
    "g.txt": (["#", "%"], r"[#%][^\n]*", ""),
    "g.wel": (["#", "%", "# e.E "], r"[#%][^\n]*", "0 1 5\n"),
    "g.mtx": (["%"], r"%[^\n]*", "%%MatrixMarket matrix coordinate integer general\n9 9 4\n"),
    "g.gr": (["\nc ", "\nc\n", "\nc\t"], r"(?m)^c(?!\S)[^\n]*", "p sp 9 4\n"),
    "g.node": (["#", "# 7"], r"#[^\n]*", "4 2 0 0\n"),
}


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["compiled", "numpy"])
@pytest.mark.parametrize("name", COMMENTS)
@settings(max_examples=examples(60))
@given(st.data())
def test_comments_count_as_blanks(tmp_path_factory, name, least, data):
    """Values, or the error with its line, are those of the text with blanks in their place."""
    begins, pattern, head = COMMENTS[name]
    path, row = tmp_path_factory.mktemp("text") / name, "a 1 2 7" if name == "g.gr" else "1 2 7"
    rows = (
        [f"{k} {k} {k}.5" for k in range(4)] if name == "g.node" else [row, row.replace("2", "3")]
    )
    line = st.sampled_from([*rows, *rows, *rows, "1 2", "1 x 2", "0.5 1 2", "", " "])
    comment = st.builds(str.__add__, st.sampled_from(begins), st.sampled_from(["", " 1 2", "x,%#"]))
    lines = st.builds("".join, st.lists(st.one_of(line, comment), max_size=3))
    text = data.draw(st.one_of(
        st.just(head + "\n".join(rows * (4 // len(rows))) + "\n"), st.just(head)
    ))  # fmt: skip
    text += "\n".join(data.draw(st.lists(lines, max_size=6)))
    at = text.find("\n", len(head)) + 1
    text = text[:at] + data.draw(comment) + "\n" + text[at:]
    read = partial(read_node, keep=True) if name == "g.node" else read_edges
    begin = text.find("\n") + 1 if name == "g.mtx" else 0  # after the banner
    blank = re.sub(pattern, lambda found: " " * len(found[0]), text[begin:])
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "LEAST", least)
        patch.setattr(text_module, "PIECE", 12)
        for content in (text, text[:begin] + blank):
            path.write_text(content)
            try:
                found.append(repr(read(path)))
            except FormatError as error:
                found.append(str(error))
    assert found[0].replace(str(path), "") == found[1].replace(str(path), "")


FIELDS = [Field("number"), Field("x", False)]


def outcome(data):
    scanner = Scanner("t", data)
    try:
        block = scanner.block(4, FIELDS, "rows")
        scanner.end("rows")
        return block.values.tolist(), block.values.shape
    except FormatError as error:
        return str(error)


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(0, 48), st.integers(0, 255), st.integers(0, 2)), max_size=3),
)
def test_mutated_text_has_one_outcome(changes):
    """Values or message: the same with compiled code as without."""
    data = bytearray(b"1 0.5\n2 1e3 # x\n\n3 -7.25\r\n 4 12345678901234567\n")
    for at, byte, how in changes:
        at = min(at, len(data))
        data[at : at + (how > 0)] = bytes([byte] * (how < 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "PIECE", 9)
        seen = []
        for made in (lambda: None, library, lambda: library("MORPH_PLAIN")):
            patch.setattr(numbers, "library", made)
            seen.append(outcome(bytes(data)))
    assert seen[0] == seen[1] == seen[2]


finite = st.floats(allow_nan=False, allow_infinity=False)
edges = st.sampled_from(
    [
        0.0,
        -0.0,
        1e16,
        9999999999999998.0,
        1e-4,
        9.999999999999999e-05,
        5e-324,
        1.7976931348623157e308,
    ]
    + [10.0**k for k in range(-6, 24)]
)


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 300), finite | edges),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 3),
    st.sampled_from([b"", b"a "]),
)
def test_the_same_bytes_are_written(rows, columns, prefix):
    table = [np.array(c) for c in zip(*rows, strict=True)][:columns]
    table[0] = np.repeat(table[0], 2)[::2]  # a column with gaps
    with pytest.MonkeyPatch.context() as patch:
        compiled = b"".join(bytes(c) for c in format_rows(table, prefix))
        patch.setattr(numbers, "library", lambda: None)
        assert compiled == b"".join(format_rows(table, prefix))


def test_many_rows_are_written_in_order():
    table = [np.arange(300_000), np.random.default_rng(2).random(300_000)]
    text = b"".join(bytes(c) for c in format_rows(table))
    want = "".join(f"{k} {v!r}\n" for k, v in enumerate(table[1].tolist()))
    assert text == want.encode()


def test_doubles_of_any_bits_survive():
    bits = np.random.default_rng(3).integers(0, 2**64, 50_000, dtype=np.uint64)
    values = bits.view(np.float64)
    values = values[np.isfinite(values)]
    text = b"".join(bytes(c) for c in format_rows([values]))
    found = Scanner("t", text).rest([Field("x", False)])
    assert found.values.tobytes() == values.tobytes()
    assert text.decode().split() == [repr(v) for v in values.tolist()]


def test_what_is_not_finite_is_written_by_name():
    text = b"".join(bytes(c) for c in format_rows([np.array([np.nan, np.inf, 1.0])]))
    assert text == b"nan\ninf\n1.0\n"


@pytest.fixture
def decimal_commas(tmp_path, monkeypatch):
    if shutil.which("localedef"):
        command = ["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"]
        subprocess.run(command, capture_output=True)
        monkeypatch.setenv("LOCPATH", str(tmp_path))
    old = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    except locale.Error:
        pytest.skip("the German locale is not there")
    yield
    locale.setlocale(locale.LC_ALL, old)


def test_a_locale_with_decimal_commas_changes_nothing(decimal_commas, monkeypatch):
    assert locale.localeconv()["decimal_point"] == ","
    for made in (lambda: None, library, lambda: library("MORPH_PLAIN")):
        monkeypatch.setattr(numbers, "library", made)
        assert outcome(b"1 0.5\n2 1.25\n3 1\n4 1e-3\n")[0][1] == [2.0, 1.25]
        assert b"".join(bytes(c) for c in format_rows([np.array([1.5])])) == b"1.5\n"


def test_a_number_at_the_end_of_64_bits(monkeypatch):
    fields = [Field("a"), Field("b")]
    good = f"{2**63 - 1} {-(2**63)}\n".encode()
    for made in (lambda: None, library):
        monkeypatch.setattr(numbers, "library", made)
        assert Scanner("t", good).rest(fields).values.tolist() == [[2**63 - 1, -(2**63)]]
        with pytest.raises(FormatError, match="t:2: the b does not fit 64 bits"):
            Scanner("t", good + b"1 9223372036854775808\n").rest(fields)
        with pytest.raises(FormatError, match="t:2: the a does not fit 64 bits"):
            Scanner("t", good + b"-" + b"9" * 5000 + b" 1\n").rest(fields)
        long = b"-" + b"0" * 5000 + b"7 1\n"
        assert Scanner("t", long).rest(fields).values.tolist() == [[-7, 1]]
        assert Scanner("t", long[1:]).header("h", ["a", "b"], [0, 0]) == [7, 1]


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_a_byte_order_mark_is_named(mark):
    with pytest.raises(FormatError, match="t:1: a byte order mark"):
        Scanner("t", mark + b"1 2\n")


def test_small_texts_need_no_compiler(monkeypatch):
    monkeypatch.setattr(numbers, "LEAST", 1 << 21)
    monkeypatch.setattr(numbers, "library", lambda: pytest.fail("asked for a compiler"))
    assert outcome(b"1 0.5\n2 1.25\n3 1\n4 1e-3\n")[1] == (4, 2)
    assert b"".join(format_rows([np.arange(3)])) == b"0\n1\n2\n"


def test_without_a_compiler_numpy_reads(monkeypatch):
    from morph.runtime.toolchain import CompilerNotFound, cpu

    def none(*_, **__):
        raise CompilerNotFound("none here")

    monkeypatch.setattr(cpu, "build", none)
    fresh = HostLibrary(numbers.LIBRARY.path, numbers.LIBRARY.functions)
    assert fresh.load() is None
    monkeypatch.setattr(text_module, "CHUNK", 8)
    monkeypatch.setattr(numbers, "library", fresh.load)
    assert outcome(b"1 0.5\n2 1.25\n3 1\n4 1e-3\n")[1] == (4, 2)


def test_bits_are_those_of_python():
    text = b"0.1 0.30000000000000004 1e23 8.41e21 9.5367431640625e-7\n"
    row = Scanner("t", text).rest([Field(str(k), False) for k in range(5)]).values[0]
    assert [struct.pack("d", v) for v in row] == [struct.pack("d", float(w)) for w in text.split()]
