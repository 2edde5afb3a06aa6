"""The back end: the text of a unit, and its results with any number of threads."""

import re

import numpy as np
import pytest
import unit_programs
import units
from machine import THREADS, Machine, collection_arrays, graph_arrays, meta
from sm90 import compile_all

from morph.compiler.codegen.unit import entry, prelude, source
from morph.compiler.ir import layout
from morph.compiler.ir.layout import Meta, State, Status

UNITS = units.ALL | unit_programs.ALL

# --- the text ---------------------------------------------------------------------------------


def without_lines(text):
    return re.sub(r"#line.*\n", "", text)


RELAX = """
MORPH_BODY bool marked(const Args& a, i32 p) {
    return a.g_points_mark.get(p) != u8(0);
}

MORPH_BODY void relax(const Args& a, Item& it, i32 p) {
    i32 e{};
    i32 t{};
    a.g_points_mark.set(p, u8(0));
    for (i64 k1_ = row_begin(a.g_out_offset, p), e2_ = row_end(a.g_out_offset, p); k1_ < e2_; k1_++) {
        e = edge_at(k1_);
        t = a.g_edges_dst.get(e);
        atomic_min(a.g_points_dist.nonatomic(t), wrap_add(a.g_points_dist.stable().get(p), a.g_edges_weight.get(e)), a.changed_flag);
    }
}
"""  # noqa: E501

CLAIM = """
MORPH_BODY bool touch(const Args& a, touch_item& it, i32 p) {
    i32 v1_[8];
    Local<i32, 8> ring(v1_);
    i32 e{};
    i32 t{};
    it.cells.n = 0;
    ring.n = 0;
    if (!it.cells.add(p, it, a.status)) return false;
    for (i64 k2_ = row_begin(a.g_out_offset, p), e3_ = row_end(a.g_out_offset, p); k2_ < e3_; k2_++) {
        e = edge_at(k2_);
        t = a.g_edges_dst.get(e);
        if (!it.cells.add(t, it, a.status)) return false;
    }
    it.priority = clamp_priority(3);
    return true;
}
"""  # noqa: E501


def test_text_of_relax():
    text = source(units.relax())
    assert RELAX in without_lines(text)
    assert (
        "Col<const i32, 4> g_edges_dst;" in text
    )  # never written: read through the read-only path
    assert "Col<i32, 4> g_points_dist;" in text
    assert '#line 11 "user.py"\n    a.g_points_mark.set(p, u8(0));' in text
    assert "PREPARES = 0" in text


def test_text_of_claim():
    text = source(units.claim())
    assert CLAIM in without_lines(text)
    assert "return owns(a.g_points_owner, it.cells, it.key);" in text
    assert "PREPARES = 1" in text


def test_names_out_of_the_way():
    k = units.kernel(
        "delete",
        [("a", units.P)],
        [units.assign("load", units.const(1)), units.assign("k1_", units.var("load"))],
        [("load", units.I32), ("k1_", units.I32)],
    )
    unit = units.one(
        "names", (units.POINTS,), (k,), units.foreach("g.points", "delete"), graph=False
    )
    text = without_lines(source(unit))
    assert (
        "void delete_(const Args& a, Item& it, i32 a_) {\n    i32 load_{};\n    i32 k1__{};" in text
    )


def test_words_of_kernels_alone_clash_with_none():
    for words, others in layout.KERNEL_COUNTERS.items():
        assert not {int(w) for w in words} & {*others.values()}
    text = prelude(checked=True)
    assert layout.header(checked=True) in text and layout.header() in prelude()
    for name in (*Meta.__members__, *State.__members__, *Status.__members__):
        assert len(re.findall(rf"\b{name} = \d", text)) == 1  # declared nowhere else


# --- compiling --------------------------------------------------------------------------------


@pytest.mark.nvrtc
def test_compiles_for_cuda():
    made = [make() for make in UNITS.values()]
    texts = {prelude() + source(unit): entry(unit) for unit in made}
    faulty = "#define MORPH_FAULTS 1\n"
    texts[faulty + prelude() + source(units.claim())] = entry(units.claim())
    compile_all(texts)


# --- running ----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_relax(threads):
    n, m = 3000, 12000
    arrays = graph_arrays(n, m)
    rng = np.random.default_rng(1)
    before = rng.integers(0, 1000, n).astype(np.int32)
    arrays["g_points_mark"][:] = rng.integers(0, 2, n)
    marked = arrays["g_points_mark"].astype(bool)
    arrays["g_points_dist"][:] = before
    machine = Machine(units.relax(), n, **arrays)
    machine.run(threads)
    dist = machine["g_points_dist"]
    src, dst, weight = (arrays[f"g_edges_{c}"] for c in ("src", "dst", "weight"))
    assert not machine["g_points_mark"].any()
    assert machine["changed_flag"][0] == 1
    assert (dist <= before).all()
    assert (dist[dst] <= before[src] + weight)[marked[src]].all()
    machine["changed_flag"][:] = 0
    machine.run(threads)  # nothing is marked
    assert not machine["changed_flag"].any()


def rows_machine(count, capacity, most=2):
    rng = np.random.default_rng(2)
    left = np.zeros(capacity, np.int32)
    left[:count] = rng.integers(0, most + 1, count)
    key = np.zeros(capacity, np.int32)
    key[:count] = np.arange(count) * 1000
    fill = np.zeros(24, np.uint8)  # key at 0, pair at 8, left at 16
    fill[0:4] = np.array([7], np.int32).view(np.uint8)
    fill[8:16] = np.array([1.25, 2.25], np.float32).view(np.uint8)
    return (
        Machine(
            units.split(most),
            4 * capacity,
            rows_key=key,
            rows_left=left,
            rows_fill=fill,
            rows_pair=np.zeros((capacity, 2), np.float32),
            rows_meta=meta(count, capacity),
            rows_dead=np.zeros(capacity, np.uint8),
            rows_created=np.zeros(capacity, np.int32),
            rows_free=np.zeros(capacity, np.int32),
        ),
        key[:count].copy(),
        left[:count].copy(),
    )


def split_result(key, left):
    made = [k + 100 * (i + 1) for k, n in zip(key, left, strict=True) for i in range(n)]
    kept = [k for k, n in zip(key, left, strict=True) if n % 2 == 0]
    return sorted(made + kept)


def live_keys(machine):
    count = machine["rows_meta"][Meta.COUNT]
    return sorted(machine["rows_key"][:count][machine["rows_dead"][:count] == 0].tolist())


def check_budget(words):
    head, committed = words[Meta.HEAD], words[Meta.COMMITTED]
    assert head <= committed <= words[Meta.TAIL]
    assert words[Meta.BUDGET] == committed - head + words[Meta.CAPACITY] - words[Meta.COUNT]


@pytest.mark.parametrize("threads", THREADS)
def test_rows_are_made_and_the_store_grows(threads):
    machine, key, left = rows_machine(1000, 1024)
    launches = 0
    while True:
        machine.run(threads)
        launches += 1
        if not machine.failed():
            break
        check_budget(machine["rows_meta"])
        machine.grow("rows")
        machine.numbers["replay"] = 1
    assert launches > 1
    assert live_keys(machine) == split_result(key, left)
    made = machine["rows_meta"][Meta.COUNT]
    assert (machine["rows_pair"][1000:made] == [1.25, 0.5]).all()
    assert not machine["deferred"].any()
    check_budget(machine["rows_meta"])


@pytest.mark.parametrize("threads", THREADS)
def test_deleted_rows_are_used_again(threads):
    machine, key, left = rows_machine(2000, 6000)
    machine.run(threads)
    count = machine["rows_meta"][Meta.COUNT]
    words = machine["rows_meta"]
    free = int(words[Meta.TAIL])
    assert free == (left % 2).sum() == machine["rows_dead"].sum()
    assert words[Meta.COMMITTED] == 0 and words[Meta.BUDGET] == words[Meta.CAPACITY] - count
    words[Meta.COMMITTED] = free  # the host releases them
    words[Meta.BUDGET] += free
    keys = live_keys(machine)
    machine["rows_left"][:] = 0
    survivors = np.flatnonzero(machine["rows_dead"][:2000] == 0)[: free // 4]
    machine["rows_left"][survivors] = 2
    machine.run(threads)
    assert not machine.failed()
    assert machine["rows_meta"][Meta.COUNT] == count  # all came from the ring
    more = [k for i in survivors for k in (key[i] + 100, key[i] + 200)]
    assert live_keys(machine) == sorted(keys + more)
    check_budget(machine["rows_meta"])


def test_every_allocation_can_fail():
    machine, key, left = rows_machine(40, 256)
    want, fault = split_result(key, left), 0
    while True:
        fault += 1
        machine, key, left = rows_machine(40, 256)
        machine["status"][Status.INJECT] = fault
        machine.run(faults=True)
        failed = machine.failed()
        if not failed:
            break
        assert failed == 1
        machine.numbers["replay"] = 1
        machine.run(faults=True)
        assert not machine.failed()
        assert live_keys(machine) == want
    assert fault == 41


@pytest.mark.parametrize("threads", THREADS)
def test_take_and_add(threads):
    n, have = 3000, 2000
    items = np.random.default_rng(3).permutation(10000)[:have]
    arrays = graph_arrays(n, 1) | collection_arrays("work", items, have)
    arrays |= collection_arrays("rest", [], 1500, rest_by=np.zeros(1500, np.float32))
    machine = Machine(units.worklist(), n, **arrays)
    machine.run(threads)
    while machine.failed():
        machine.grow("rest")
        machine.numbers["replay"] = 1
        machine.run(threads)
    count = machine["rest_meta"][Meta.COUNT]
    got, by = machine["rest_item"][:count], machine["rest_by"][:count]
    assert sorted(got) == sorted(items)
    assert (by == np.where(got % 2 == 0, 1.5, 2.5)).all()
    assert machine["work_meta"][Meta.HEAD] == have
    assert machine["rest_meta"][Meta.BUDGET] == machine["rest_meta"][Meta.CAPACITY] - count


@pytest.mark.parametrize("threads", THREADS)
def test_union(threads):
    n, m = 4000, 3000
    arrays = graph_arrays(n, m)
    machine = Machine(units.components(), m, **arrays)
    machine.run(threads)
    labels = np.arange(n)
    src, dst = arrays["g_edges_src"], arrays["g_edges_dst"]
    while True:
        low = np.minimum(labels[src], labels[dst])
        before = labels.copy()
        np.minimum.at(labels, src, low)
        np.minimum.at(labels, dst, low)
        if (labels == before).all():
            break
    found = machine["set_parent"]
    while (found[found] != found).any():
        found = found[found]
    assert (found == labels).all()
    assert machine["g_points_hits"][0] == n - len(np.unique(labels))


@pytest.mark.parametrize("threads", THREADS)
def test_locks(threads):
    n, m = 500, 8000
    arrays = graph_arrays(n, m)
    machine = Machine(units.locks(), m, **arrays)
    reached = np.bincount(arrays["g_edges_dst"], minlength=n) > 0
    for launch in (1, 2):
        machine.run(threads, launch=launch)
        assert (machine["g_points_hits"] == launch * reached).all()
        assert (machine["g_points_dist"] == reached).all()


def claim_machine(n, m, guard, capacity, local=64):
    arrays = graph_arrays(n, m, seed=4)
    for name, items in (("work", range(n)), ("again", []), ("log", [])):
        arrays |= collection_arrays(name, items, max(capacity, len(items)))
    return Machine(units.claim(local, guard), n, **arrays)


def claimed(machine, log, guard):
    """How often each point was touched by the items of the log."""
    offset, dst = machine["g_out_offset"], machine["g_edges_dst"]
    hits = np.zeros(len(offset) - 1, np.int64)
    for p in log:
        cells = [p] if guard else [p, *dst[offset[p] : offset[p + 1]]]
        np.add.at(hits, cells, 1)
    return hits


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("threads", THREADS)
def test_claims_exclude(threads, guard):
    n, m = 2000, 6000
    machine = claim_machine(n, m, guard, 8 * n)
    seen, rounds = [], 0
    while machine["work_meta"][Meta.COUNT]:
        machine.run(threads)
        assert not machine.failed()
        log = machine["log_item"][: machine["log_meta"][Meta.COUNT]].tolist()
        again = machine["again_item"][: machine["again_meta"][Meta.COUNT]].tolist()
        new = log[len(seen) :]
        work = machine["work_item"][: machine["work_meta"][Meta.COUNT]].tolist()
        assert sorted(new + again) == sorted(work)
        assert new, "a round without a winner"
        seen, rounds = log, rounds + 1
        machine["work_item"][: len(again)] = again
        machine["work_meta"][:] = meta(len(again), 8 * n)
        machine["again_meta"][:] = meta(0, 8 * n)
    assert sorted(seen) == list(range(n))
    assert (machine["g_points_hits"] == claimed(machine, seen, guard)).all()
    if threads == 1:
        assert rounds == 1


@pytest.mark.parametrize("threads", THREADS)
def test_claims_replay(threads):
    machine = claim_machine(300, 900, False, 8)
    machine.run(threads)
    failures = 0
    while machine.failed():
        failures += 1
        machine.grow("log")
        machine.grow("again")
        machine.numbers["replay"] = 1
        machine.run(threads)
    log = machine["log_item"][: machine["log_meta"][Meta.COUNT]].tolist()
    again = machine["again_item"][: machine["again_meta"][Meta.COUNT]].tolist()
    assert failures > 2
    assert sorted(log + again) == list(range(300))
    assert (machine["g_points_hits"] == claimed(machine, log, False)).all()


def test_local_overflow():
    machine = claim_machine(300, 900, False, 1000, local=3)
    machine.run(1)
    assert machine["status"][Status.LOCAL] == 1
    degree = np.diff(machine["g_out_offset"])
    assert machine.failed() == (degree > 2).sum()
    done = machine["log_item"][: machine["log_meta"][Meta.COUNT]]
    assert sorted(done) == np.flatnonzero(degree <= 2).tolist()
