"""``morph sssp --updates``: files and streams of changes, their order, ids and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import edge_lists, lightest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph
from targets import tries

import morph.io
from morph.cli import main
from morph.io.graph import journal
from morph.io.graph.updates import read_updates

GR = "p sp 4 5\na 1 2 3\na 1 3 9\na 2 3 2\na 3 4 5\na 1 2 8\n"


def morph_sssp(folder, updates, *options, graph=GR, name="g.gr", stdin=None):
    (folder / name).write_text(graph)
    if stdin is None:
        (folder / "u.txt").write_text(updates)
    path = "-" if stdin else folder / "u.txt"
    arguments = ["sssp", folder / name, "--updates", path, "--device", "cpu", *options]
    return CliRunner().invoke(main, [str(a) for a in arguments], input=updates)


def test_batches_and_what_is_said(tmp_path):
    updates = "+ 0 3 4\n- 1 2\n\n= 0 1 1 4 # the fifth edge of the file\n- 0 1 0\n+ 3 2 0\n- 3 2\n"
    out = tmp_path / "o.npz"
    result = morph_sssp(tmp_path, updates, "--verify", "-o", out)
    assert result.exit_code == 0, result.stderr
    said = result.stdout.splitlines()
    assert said[0].startswith("batch 1: 1 inserted, 1 deleted; ")
    assert said[1].startswith("batch 2: 1 changed; ")  # a deletion has to come after
    assert said[2].startswith("batch 3: 1 inserted, 1 deleted; ")  # and one after an insertion
    assert said[3].startswith("batch 4: 1 deleted; ")
    assert said[5] == "reached 4, farthest 9"
    assert said[6].endswith("2 inserted, 3 deleted, 1 changed")
    with np.load(out) as found:
        assert found["distance"].tolist() == [0, 1, 9, 4]
        assert found["predecessor"].tolist() == [-1, 0, 0, 0]
    result = morph_sssp(tmp_path, updates, "--batch", 2, "--json", stdin=True)
    report = json.loads(result.stdout)
    assert [b["lines"] for b in report["batches"]] == [[1, 2], [4, 4], [5, 6], [7, 7]]
    assert (report["reached"], report["farthest"], report["edges"]) == (4, 9, 4)
    assert {b["decision"] for b in report["batches"]} <= {"repaired", "recomputed"}


def test_what_is_absent_is_counted(tmp_path):
    result = morph_sssp(tmp_path, "- 3 0\n- 0 1\n- 0 1\n- 0 1\n\n= 0 1 2\n\n- 0 1 0\n", "--json")
    report = json.loads(result.stdout)
    assert [(b["deleted"], b["absent"]) for b in report["batches"]] == [(2, 2), (0, 1), (0, 1)]


def test_inserted_edges_have_numbers(tmp_path):
    updates = "+ 0 3 4\n+ 0 3 2\n\n- 0 3 6\n\n= 0 3 1 5\n\n- 0 3 6\n"
    report = json.loads(morph_sssp(tmp_path, updates, "--json", "--verify").stdout)
    assert [b["absent"] for b in report["batches"]] == [0, 0, 0, 1]
    assert report["batches"][2]["changed"] == 1


def test_an_edge_that_is_gone_is_not_mistaken_for_an_arc_back(tmp_path):
    metis = "3 2 001\n2 5 3 6\n1 5\n1 6\n"
    updates = "- 0 1 0\n- 0 2 1\n\n+ 0 2 9\n\n- 0 2 1\n\n- 0 1 0\n"  # row 1 leads from 2 to 0
    result = morph_sssp(tmp_path, updates, "--json", "--verify", graph=metis, name="g.graph")
    report = json.loads(result.stdout)
    assert [b["deleted"] for b in report["batches"]] == [2, 0, 0, 0]
    assert [b["absent"] for b in report["batches"]] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("* 0 1", "found '*', expected '+', '-' or '='"),
        ("+ 0", "found 2 fields, expected '+ u v' or '+ u v weight'"),
        ("+ 0 1 2 3", "found 5 fields, expected '+ u v' or '+ u v weight'"),
        ("- 0 1 2 3", "found 5 fields, expected '- u v' or '- u v id'"),
        ("= 0 1", "found 3 fields, expected '= u v weight' or '= u v weight id'"),
        ("+ 0 4 1", "second vertex 4: the graph has 4 vertices, 0 to 3"),
        ("+ x 1 1", "first vertex: 'x' is not an integer"),
        ("+ 0 1 1.5", "weight: '1.5' is not an integer"),
        ("+ 0 1 -1", "weight '-1' is negative"),
        ("+ 0 1 4294967296", "weight 4294967296 does not fit int32"),
        ("- 0 1 -1", "edge id -1 is negative"),
        ("- 0 1 9", "edge id 9: there were 6 edges"),
        ("- 0 1 9223372036854775808", "edge id 9223372036854775808 is too large"),
        ("- 0 2 0", "edge 0 leads from 0 to 1, not from 0 to 2"),
    ],
)
def test_errors_name_the_line(tmp_path, line, message):
    result = morph_sssp(tmp_path, f"+ 0 3 4\n\n{line}\n")
    assert (result.exit_code, result.stderr) == (2, f"morph: {tmp_path / 'u.txt'}:3: {message}\n")
    assert result.stdout.count("batch") == 1


def test_options_that_do_not_go_together(tmp_path):
    for option in (["--cutoff", 0], ["--rows"]):
        result = morph_sssp(tmp_path, "", *option)
        said = f"morph: {option[0]} and --updates exclude each other\n"
        assert (result.exit_code, result.stderr) == (2, said)
    (tmp_path / "g.gr").write_text(GR)
    result = CliRunner().invoke(main, ["sssp", str(tmp_path / "g.gr"), "--verify"])
    assert (result.exit_code, result.stderr) == (2, "morph: --batch, --verify and --log"
                                                    " belong to --updates\n")  # fmt: skip
    result = morph_sssp(tmp_path, "+ 0 1 nan\n", graph="0 1 2.5\n", name="g.txt")
    assert result.stderr.endswith("u.txt:1: weight: nan is not a weight\n")


def test_a_process_that_is_killed_goes_on(tmp_path):
    """By number, too: edges inserted before have theirs."""
    updates = "+ 0 3 4\n+ 3 1 1\n\n- 0 1 0\n\n= 0 3 2 5\n- 0 1 4\n\n- 3 1 6\n\n+ 2 1 1\n"
    whole = morph_sssp(tmp_path, updates, "-o", tmp_path / "want.npy")
    command = [sys.executable, "-m", "morph", "sssp", tmp_path / "g.gr", "--device", "cpu",
               "--log", tmp_path / "kept", "--updates", "-"]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as running:
        running.stdin.write(b"".join(x + b"\n" for x in updates.encode().split(b"\n")[:5]))
        running.stdin.flush()
        said = [running.stdout.readline() for _ in range(2)]
        running.kill()
    assert [x[:8] for x in said] == [b"batch 1:", b"batch 2:"]
    options = "--log", tmp_path / "kept"
    refused = morph_sssp(tmp_path, updates, *options)
    assert refused.exit_code == 2 and "add --resume to go on with it" in refused.stderr
    out = tmp_path / "found.npy"
    result = morph_sssp(tmp_path, updates, *options, "--resume", "--verify", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0].startswith("batch 3:")
    assert np.load(out).tolist() == np.load(tmp_path / "want.npy").tolist()
    lines = [[x.rsplit(";", 2)[0] for x in r.stdout.splitlines() if x.startswith("batch")]
             for r in (result, whole)]  # fmt: skip
    assert lines[0] == lines[1][2:]
    again = morph_sssp(tmp_path, "+ 3 2 1\n", *options, "--resume", "--json", stdin=True)
    assert json.loads(again.stdout)["resumed_after"] == 5
    short = morph_sssp(tmp_path, "+ 3 2 1\n+ 3 2 1\n", *options, "--resume")
    assert "the log has 6 batches, 5 more than this file" in short.stderr
    other = morph_sssp(tmp_path, updates, *options, "--resume", graph="p sp 9 1\na 1 2 3\n")
    assert "kept was begun with 4 vertices, not 9 vertices" in other.stderr
    assert other.exit_code == 2
    for graph, option, what in (
        ("p sp 4 1\na 1 2 3\n", (), "5 arcs, not 1 arcs"),
        (GR.replace("1 3 9", "1 3 8"), (), "edges of checksum "),
        (GR.replace("1 3 9", "1 4 9"), (), "edges of checksum "),
        (GR, ("--source", 1), "source 0, not source 1"),
    ):
        other = morph_sssp(tmp_path, updates, *options, "--resume", *option, graph=graph)
        assert f"kept was begun with {what}" in other.stderr and other.exit_code == 2
    cut = morph_sssp(tmp_path, updates, *options, "--resume", "--batch", 1)
    assert cut.stderr.endswith("u.txt:1-1: batch 1 of the log inserts 2 edges, this one 1\n")
    with morph.io.Journal(tmp_path / "kept") as journal:
        journal.checkpoint()
    later = morph_sssp(tmp_path, updates, *options, "--resume")
    assert "kept is a checkpoint of batch 6" in later.stderr and later.exit_code == 2
    alone = morph_sssp(tmp_path, updates, "--resume")
    assert alone.stderr == "morph: --resume belongs to --log\n"


def test_errors_known_at_once_are_raised_before_a_log_is_begun(tmp_path):
    def refused(*options, graph=GR, updates="u.txt"):
        (tmp_path / "g.gr").write_text(graph)
        (tmp_path / "u.txt").write_text("+ 0 1 2\n")
        names = sorted(os.listdir(tmp_path))
        arguments = "sssp", tmp_path / "g.gr", "--device", "cpu", "--updates", tmp_path / updates
        result = CliRunner().invoke(main, [str(a) for a in (*arguments, *options)])
        assert result.exit_code != 0 and sorted(os.listdir(tmp_path)) == names
        return result.stderr

    kept = tmp_path / "kept"
    assert "none.txt" in refused("--log", kept, updates="none.txt")
    assert "x.gz" in refused("--log", kept, updates="x.gz")
    assert "no directory" in refused("--log", tmp_path / "none" / "kept")
    assert "leave out .gz" in refused("--log", f"{kept}.gz")
    big = "p sp 3 2\na 1 2 9000000000000000000\na 2 3 9000000000000000000\n"
    assert "too large for int64" in refused("--log", kept, graph=big)
    for name in ("u", "g.gr"):  # files of others
        (tmp_path / "u.log").write_text("+ 0 1 2\n")
        assert "is another file of this command" in refused(
            "--log", tmp_path / name, updates="u.log"
        )
        assert (tmp_path / "u.log").read_text() == "+ 0 1 2\n"
    assert "is another file" in refused("--log", f"{kept}.npz", "-o", f"{kept}.npz")
    assert "unknown suffix" in refused("--log", kept, "-o", f"{kept}.log")
    assert "u.log is there already, and no " in refused("--log", tmp_path / "u")


def test_a_batch_that_is_refused_never_comes_to_the_log(tmp_path, monkeypatch):
    graph = "p sp 3 2\na 1 2 9000000000000000000\na 2 3 1\n"
    options = "--log", tmp_path / "kept"
    real, written = journal._append, []
    monkeypatch.setattr(journal, "_append", lambda f, x: (written.append(x), real(f, x)))
    result = morph_sssp(tmp_path, "= 1 2 7\n\n= 1 2 9000000000000000000\n", *options, graph=graph)
    assert "too large for int64" in result.stderr and result.exit_code == 2
    assert len(written) == 1  # a process that is killed at any moment can go on
    result = morph_sssp(tmp_path, "= 1 2 7\n\n= 1 2 8\n", *options, "--resume", "--verify",
                        graph=graph)  # fmt: skip
    assert result.exit_code == 0 and "farthest 9,000,000,000,000,000,008" in result.stdout


ends = st.integers(0, 5)
a_line = st.tuples(st.sampled_from("++-="), ends, ends, st.integers(0, 9))


@tries(12)
@given(edge_lists(most=6), st.lists(a_line | st.none(), max_size=25), st.booleans(),
       st.none() | st.integers(1, 4))  # fmt: skip
def test_lines_mean_what_they_mean_one_after_another(edges, lines, directed, size):
    """A graph changed in batches is what it is when each line is carried out alone."""
    n, src, dst, w = edges
    n = max(n, 6)
    rows = zip(src.tolist(), dst.tolist(), w.tolist(), strict=True)
    once = {((u, v) if directed else (min(u, v), max(u, v))): int(x) for u, v, x in rows}
    made = [(u, v, x) for (u, v), x in once.items()]
    src, dst, w = np.array(made, np.int64).reshape(-1, 3).T
    text = []
    for line in lines:
        if line is None:
            text.append(b"\n")
            continue
        sign, u, v, x = line
        at = [k for k, (a, b, _) in enumerate(made)
              if (a, b) == (u, v) or (not directed and (b, a) == (u, v))]  # fmt: skip
        if sign == "+" and at:
            continue  # of parallel edges a pair names any
        text.append(f"{sign} {u} {v}{'' if sign == '-' else f' {x}'}\n".encode())
        if sign == "+":
            made.append((u, v, x))
        elif at and sign == "-":
            del made[at[0]]
        elif at:
            made[at[0]] = (*made[at[0]][:2], x)
    weight = w.astype(np.int32)
    g = morph.Graph.from_edges(src, dst, weight=weight, n=n, directed=directed)
    dynamic = morph.DynamicSSSP(g, 0)
    for batch in read_updates(text, "x", n, np.int32, directed, size):
        named = batch.deletes, batch.updates, batch.inserts
        assert batch.first <= batch.last and sum(map(len, named)) <= (size or 99)
        deletes, updates, inserts = ((a.src, a.dst, a.weight) for a in named)
        dynamic.apply(inserts, deletes[:2], updates)
    ways = made if directed else [*made, *((v, u, x) for u, v, x in made)]
    graph = lightest((n, *map(np.array, zip(*ways, strict=True)))) if ways else None
    want = np.full(n, np.inf)
    want[0] = 0
    if graph:
        triples = np.array([(u, v, d["weight"]) for u, v, d in graph.edges(data=True)]).T
        matrix = coo_array((triples[2].astype(float), triples[:2]), shape=(n, n)).tocsr()
        want = csgraph.dijkstra(matrix, indices=0)
    far = np.iinfo(np.int64).max
    found = dynamic.distance
    assert np.where(found == far, np.inf, found).tolist() == want.tolist()
