"""Earlier faults of launches: interruption, threads, forks, unusual arguments."""

import importlib.util
import linecache
import multiprocessing
import os
import threading

import numpy as np
import pytest
from small import rows, values

import morph
from morph import (
    Graph,
    LanguageError,
    Table,
    device,
    foreach,
    kernel,
    program,
    testing,
)
from morph.compiler.ir.abi import Status
from morph.language import depth
from morph.launch.scratch import scratch as scratch_of
from morph.prelude import f64, i32, i64, local, single
from morph.runtime import threads
from morph.runtime.toolchain import progress

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@kernel
def count(r):
    r.runs += 1


@kernel
def count_and_add(r, made):
    new = made.new()
    new.of = r.id
    r.runs += 1


@kernel
def add_if_asked(r, made):
    if r.asks != 0:
        new = made.new()
        new.of = r.id
    r.runs += 1


@kernel
def forget(m):
    m.delete()


def table_of(target, n):
    return rows(target, n, runs=i32)


# --- a launch that ends in an error --------------------------------------------------------------


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_items_that_an_error_left_do_not_run_in_the_next_launch(target, error, monkeypatch):
    def fails(self, minimum=0):
        raise error

    items = table_of(target, 100)
    with monkeypatch.context() as patched:
        patched.setattr(Table, "grow", fails)
        with pytest.raises(error):
            foreach(items, count_and_add, Table("made", target, of=i32))
    others = rows(target, 100, runs=i32, asks=i32)
    others.asks[:] = np.arange(100) == 99
    made = Table("made", target, of=i32, capacity=100)
    foreach(others, add_if_asked, made)
    assert values(others, "runs") == [1] * 100
    assert len(made) == 1


def test_after_an_error_what_items_had_reserved_is_free(target, monkeypatch):
    items, made = table_of(target, 100), Table("made", target, of=i32, capacity=60)
    grow, calls = Table.grow, []

    def fails_once(self, minimum=0):
        calls.append(self)
        if len(calls) == 1:
            raise MemoryError
        grow(self, minimum)

    monkeypatch.setattr(Table, "grow", fails_once)
    for _ in range(2):
        try:
            foreach(items, count_and_add, made)
        except MemoryError:
            assert len(made) == 60 == sum(values(items, "runs"))
    assert len(made) == 160


def test_edges_made_before_an_error_are_walked(target, monkeypatch):
    @kernel
    def join(p, g):
        g.edges.new(p, p)

    @kernel
    def see(p):
        p.runs = 0
        for _q in p.outnbrs:
            p.runs += 1

    def fails(self, minimum=0):
        raise MemoryError

    g = Graph(target)
    g.points.add("runs", i32)
    g.points.extend(10)
    g.edges.resize(4)
    foreach(g.points, see)
    monkeypatch.setattr(Table, "grow", fails)
    with pytest.raises(MemoryError):
        foreach(g.points, join, g)
    foreach(g.points, see)
    assert sum(values(g.points, "runs")) == len(g.edges) == 4


# --- threads and processes -----------------------------------------------------------------------


def test_threads_of_the_host_may_launch_at_once(target):
    tables = [table_of(target, 2000 if target == "cpu" else 20) for _ in range(4)]
    rounds = 200 if target == "cpu" else 5

    def work(table):
        for _ in range(rounds):
            foreach(table, count)
            foreach(table, count_and_add, Table("made", target, of=i32))

    workers = [threading.Thread(target=work, args=(t,), daemon=True) for t in tables]
    for w in workers:
        w.start()
    for w in workers:
        w.join(600)
        assert not w.is_alive()
    for t in tables:
        assert set(values(t, "runs")) == {2 * rounds}


def _launch_in_child(send):
    table = table_of("cpu", 5000)
    foreach(table, count)
    send.send(sorted(set(values(table, "runs"))))


@needs_fork
def test_a_forked_process_can_launch():
    foreach(table_of("cpu", 5000), count)  # the pool has threads now, which a child has not
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe()
    child = context.Process(target=_launch_in_child, args=(send,))
    child.start()
    answered = receive.poll(60)
    if not answered:
        child.kill()
    child.join()
    assert answered
    assert receive.recv() == [1]


def _errors_of(send, calls):
    errors = []
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            errors.append(str(error))
    send.send(errors)


@needs_fork
@pytest.mark.parametrize("kind", ["graph", "parts", "table"])
def test_a_forked_process_refuses_what_another_thread_uses(kind):
    """The lock belongs to a thread that the child does not have."""
    used, unused = (morph.Graph.from_edges([0, 1], [1, 2], device="cpu") for _ in range(2))
    calls = [lambda: morph.bfs(used), lambda: used.apply(([0], [1])), lambda: used.edges[0].src]
    if kind == "table":
        used = table_of("cpu", 10)
        calls = [used.new, used.compact]
    elif kind == "parts":
        used = morph.partition(used, ["cpu", "cpu"])
    morph.bfs(unused)
    begun, end = threading.Event(), threading.Event()

    def use():
        with used._lock:
            begun.set()
            end.wait(600)

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait(600)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe()
    child = context.Process(target=_errors_of, args=(send, [lambda: morph.bfs(unused), *calls]))
    child.start()
    end.set()
    answered = receive.poll(60)
    if not answered:
        child.kill()
    child.join(), thread.join()
    assert answered
    errors = receive.recv()
    assert len(errors) >= 2 and all("when this process was forked" in text for text in errors)
    with used._lock:  # the parent's is as before
        pass


@needs_fork
def test_a_forked_process_keeps_the_locks_of_its_thread():
    g = morph.Graph.from_edges([0, 1], [1, 2], device="cpu")
    with g._lock:
        child = os.fork()
        if not child:
            os._exit(0 if morph.bfs(g).distance.tolist() == [0, 1, 2] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_fork
@pytest.mark.parametrize("lock", ["depth", "progress"])
def test_a_forked_process_takes_locks_that_another_thread_held(lock):
    held = depth._lock if lock == "depth" else progress._Compilers.lock
    begun, end = threading.Event(), threading.Event()

    def use():
        with held:
            begun.set()
            end.wait(600)

    def call():
        with depth.deep(), progress.compiling("unit"):
            pass

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait(600)
    child = multiprocessing.get_context("fork").Process(target=call)
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill(), end.set(), thread.join()
    assert code == 0


def test_threads_are_counted_where_processes_are_not_bound_to_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_limit", 0)
    assert threads.get_num_threads() == os.cpu_count()


@pytest.mark.gpu
def test_launches_on_two_streams_do_not_overlap():
    import cupy

    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    tables = [table_of("cuda", 1 << 20) for _ in streams]
    lists = [Table("made", "cuda", of=i32) for _ in streams]
    cupy.cuda.runtime.deviceSynchronize()
    for _ in range(50):
        for stream, table, made in zip(streams, tables, lists, strict=True):
            with stream:
                foreach(table, count)
                foreach(made, forget)
                foreach(table, count_and_add, made)
    cupy.cuda.runtime.deviceSynchronize()
    for table in tables:
        assert set(values(table, "runs")) == {100}


# --- arguments -----------------------------------------------------------------------------------


@kernel
def put(r, x):
    r.x = x


def test_a_number_beyond_64_bits_is_an_overflow(target):
    table = rows(target, 2, x=i64)
    with pytest.raises(OverflowError):
        foreach(table, put, 2**63)
    foreach(table, put, 2**63 - 1)
    assert values(table, "x") == [2**63 - 1] * 2


def test_a_captured_object_on_another_device_is_refused():
    far = Graph("python")
    far.points.add("x", f64)

    @kernel
    def read(r):
        for q in far.points:
            r.x += q.x

    with pytest.raises(TypeError, match="is on python, but the launch is on cpu"):
        foreach(rows("cpu", 2, x=f64), read)


# --- which unit runs -----------------------------------------------------------------------------


def test_a_file_edited_after_its_import_runs_as_imported(target, tmp_path):
    file = tmp_path / f"edited_on_{target}.py"
    text = """from morph import kernel
chosen = lambda r: r.x > 0
@kernel
def other(r):
    r.x += 10
@kernel
def add(r):
    r.x += 1
"""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text("# a line more\n\n\n" + text.replace("> 0", "< 0").replace("1", "7"))
    table = rows(target, 2, x=i32)
    table.x[:] = [0, 5]
    foreach(table, module.add, where=module.chosen)
    assert values(table, "x") == [0, 6]


def test_equal_filters_of_two_modules_see_their_own_globals(target):
    text = "\n\nchosen = lambda r: r.runs < LIMIT\n"
    modules = []
    for limit in (1, 100):
        file = f"<filters below {limit}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        modules.append({"LIMIT": limit})
        exec(compile(text, file, "exec"), modules[-1])
    table = table_of(target, 3)
    for module in (*modules, *modules):
        foreach(table, count, where=module["chosen"])
    assert values(table, "runs") == [3] * 3


# --- what a kernel changes -----------------------------------------------------------------------


def test_edges_that_a_kernel_redirects_are_traversed_again(target):
    @kernel
    def turn_back(e):
        e.dst = e.src

    @kernel
    def see(p):
        p.seen = 0
        for _q in p.innbrs:
            p.seen += 1

    g = Graph.from_edges([0, 1, 2], [1, 1, 1], n=3, device=target)
    g.points.add("seen", i32)
    foreach(g.points, see)
    assert values(g.points, "seen") == [0, 3, 0]
    foreach(g.edges, turn_back)
    foreach(g.points, see)
    assert values(g.points, "seen") == [1, 1, 1]


def test_fewer_than_no_rows_are_none(target):
    @kernel
    def make(r, made, n):
        new = made.new_rows(n)
        for m in new:
            m.of = r.id
        r.runs = i32(new.size)

    table, made = table_of(target, 3), Table("made", target, of=i32)
    made.extend(5)
    for n, rows_then in ((-2, 5), (0, 5), (2, 11), (-1, 11)):
        foreach(table, make, made, n)
        assert len(made) == rows_then
        assert values(table, "runs") == [max(n, 0)] * 3


def test_a_table_among_many_grows(target):
    @kernel
    def double(r, g):
        new = g.last.new()
        new.of = r.id

    g = Graph(target)
    for i in range(70):
        g.add_table(f"t{i}", of=i32)
    g.add_table("last", of=i32).extend(5)
    foreach(g.last, double, g)
    assert sorted(values(g.last, "of")[5:]) == [0, 1, 2, 3, 4]
    assert all(g.tables[f"t{i}"].capacity == 0 for i in range(70))


def test_rounds_of_claims_begin_again_before_they_overflow():
    @kernel
    def once(r, g):
        pair = g.points.local(2)
        pair.add(r)
        pair.add(g.points[0])
        if single(pair):
            r.won += 1

    scratch = scratch_of(device("cpu"))
    scratch.status[Status.ROUND] = 2**26 - 40
    g = Graph("cpu")
    g.points.add("won", i32)
    g.points.extend(64)
    with testing.team(2):
        for _ in range(100):
            before = g.points.won[:].sum()
            foreach(g.points, once, g)
            assert g.points.won[:].sum() > before
    assert scratch.status[Status.ROUND] < 2**25


def test_a_local_collection_that_only_grows_is_an_error(target):
    @kernel
    def hoard(r, n):
        mine = local(i64, 16)
        k = i64(0)
        while k < n:
            mine.add(k * r.x)
            k += 1
        total = i64(0)
        for m in mine:
            total += m
        r.x = total

    table = rows(target, 2, x=i64)
    table.x[:] = 1
    with pytest.raises(MemoryError, match="needs .* bytes an item for its local collections"):
        foreach(table, hoard, 10**6)
    foreach(table, hoard, 100)
    assert values(table, "x") == [4950] * 2


# --- arguments that a launch cannot take ---------------------------------------------------------


@kernel
def assign(r, value):
    r.of = value


@kernel
def without_item():
    pass


@kernel
def without_item_but_more(*more):
    pass


@program
def run_without_item(t):
    foreach(t, without_item_but_more)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_beyond_64_bits_is_named(target, value):
    t = rows(target, 2, of=i64)
    limits = "i64 holds -9223372036854775808 to 9223372036854775807"
    with pytest.raises(OverflowError, match=f"'value' is {value}: {limits}"):
        foreach(t, assign, value)

    @kernel
    def assign_captured(r):
        r.of = value

    with pytest.raises(OverflowError, match=f"'value' is {value}: {limits}"):
        foreach(t, assign_captured)
    assert values(t, "of") == [0, 0]


@pytest.mark.parametrize("function", [without_item, without_item_but_more, run_without_item])
def test_a_kernel_needs_an_item(target, function):
    t = rows(target, 2, of=i64)
    with pytest.raises(LanguageError, match="has no parameter"):
        function(t) if function is run_without_item else foreach(t, function)


@kernel
def raise_runs(r):
    if min(r.id, r.id) < i64(2):
        r.runs += 1
    while max(r.id, r.id) > i64(r.runs):
        r.runs += 1


def test_conditions_are_no_declarations(target):
    """In `if (i64(min_of(i32(r), i32(r))) < 2)` g++ finds a function with two parameters `r`."""
    items = table_of(target, 4)
    foreach(items, raise_runs)
    assert values(items, "runs") == [1, 1, 2, 3]
