"""Log records of compilation, launches, growth, re-execution and replay of logs."""

from __future__ import annotations

import logging

import pytest
from click.testing import CliRunner

import morph
from morph import cli
from morph.cli.logs import logged
from morph.io.graph.journal import Journal
from morph.prelude import i64
from morph.runtime.toolchain import cpu


@morph.kernel
def double(r, made):
    made.add(r)
    made.add(r)


def launched() -> tuple[morph.Table, morph.Collection]:
    table = morph.Table("rows", "python", x=i64)
    table.extend(40)
    made = morph.Collection(table, capacity=4)
    morph.foreach(table, double, made)
    return table, made


def messages(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == name]


def test_launches_and_growth(caplog):
    with caplog.at_level(logging.DEBUG, "morph"):
        launched()
    assert "rows on python: capacity 0 to 40" in messages(caplog, "morph.memory")
    first, again = messages(caplog, "morph.launch")[:2]
    assert first.startswith("first launch of double on python: types ")
    assert again.startswith("double on python: ") and again.endswith(" items are executed again")
    assert any(": capacity 4 to " in m for m in messages(caplog, "morph.memory"))


def test_launches_known_ask_no_logger(monkeypatch):
    table, made = launched()

    def refuse(*_):
        raise AssertionError("a logger was asked")

    monkeypatch.setattr(logging.Logger, "isEnabledFor", refuse)
    morph.foreach(table, double, made)


def test_binaries(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path))
    with caplog.at_level(logging.INFO, "morph"):
        made = cpu.build('extern "C" int one() { return 1; }', name="morph_one")
    with caplog.at_level(logging.DEBUG, "morph"):
        cpu.build('extern "C" int one() { return 1; }', name="morph_one")
    miss, hit = messages(caplog, "morph.compile")
    assert miss.startswith("one for cpu: cache miss, ") and miss.endswith(f" ms: {made}")
    assert hit.startswith("one for cpu: cache hit, ") and hit.endswith(f" ms: {made}")


def test_journals(caplog, tmp_path):
    path, g = tmp_path / "g.npz", morph.Graph.from_edges([0, 1], [1, 2])
    journal = Journal(path, g)
    journal.apply(inserts=([0], [2]))
    journal.close()
    with caplog.at_level(logging.INFO, "morph"):
        Journal(path).close()
    (message,) = messages(caplog, "morph.journal")
    assert message.startswith(f"{path}.log: 1 batches replayed, ") and message.endswith(" ms")


def test_the_package_installs_no_handler():
    assert all(isinstance(h, logging.NullHandler) for h in logging.getLogger("morph").handlers)


def test_a_verbose_command(tmp_path):
    path = tmp_path / "g.el"
    path.write_text("0 1\n1 2\n")
    before = logging.getLogger("morph").level
    asked = CliRunner().invoke(cli.main, ["-v", "bfs", str(path), "--device", "python"])
    assert asked.exit_code == 0 and "morph.memory: points on python: capacity 0 to 3\n" in (
        asked.stderr
    )
    quiet = CliRunner().invoke(cli.main, ["bfs", str(path), "--device", "python"])
    assert quiet.exit_code == 0 and quiet.stderr == "" and "morph." not in quiet.stdout
    assert logging.getLogger("morph").level == before


def test_a_verbose_line_is_short(capsys):
    with logged():
        logging.getLogger("morph.compile").info("found: %s", "/" + "x" * 300)
    assert len(capsys.readouterr().err) <= 201
