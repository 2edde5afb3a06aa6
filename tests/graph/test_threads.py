"""Several threads on one graph: batches, algorithms, rows, launches; no update is lost."""

import sys
import threading

import numpy as np
import pytest

import morph
from morph import validate
from morph.algorithms.registry import ROWS
from morph.prelude import atomic_add

WORKERS = 4


@pytest.fixture(autouse=True)
def switching():
    """Let threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works):
    """Run functions in a thread each, begun at once; raise what one of them raises."""
    ready, problems = threading.Barrier(len(works)), []

    def run(work):
        try:
            ready.wait(600)
            work()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join(600)
    assert not any(t.is_alive() for t in threads)
    if problems:
        raise problems[0]


def each(work):
    """The same work for each of the workers, who know their number."""
    return [lambda k=k: work(k) for k in range(WORKERS)]


def base(target, directed=True):
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 50, (2, 200))
    return morph.Graph.from_edges(
        *ends, weight=np.zeros(200, np.int32), n=50, directed=directed, device=target
    )


def host(g, a):
    return np.asarray(g.device.to_host(a))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_no_batch_is_lost(target, directed, indexed):
    g, rounds = base(target, directed), 40 if target != "python" else 10
    if indexed:
        g.adjacency()
    before = g.edges.live

    def work(k):
        rng = np.random.default_rng(k)
        for i in range(rounds):
            ends = rng.integers(0, 50, (2, 3))
            ends[1][ends[0] == ends[1]] += 1
            number = 1 + 3 * (k * rounds + i)
            done = g.apply((ends[0] % 50, ends[1] % 50, np.arange(number, number + 3)))
            if i % 3 == 2:  # and its own go again
                g.apply(deletes=done.inserted[:1])

    together(*each(work))
    made = WORKERS * rounds
    weight = np.sort(host(g, g.edge_list()[2]))
    want = [w + 1 for w in range(3 * made) if not (w % 3 == 0 and (w // 3) % rounds % 3 == 2)]
    want = np.sort(np.repeat(want, 1 if directed else 2))
    assert weight[before:].tolist() == want.tolist() and not weight[:before].any()
    validate.index(g)


def test_arrays_of_a_batch_are_not_read_while_another_thread_changes_the_graph(target):
    g = base(target)
    g.adjacency()
    done, found = g.apply(([1, 2], [3, 4], [5, 6])), []
    reader = threading.Thread(target=lambda: found.append(host(g, done.inserted).tolist()))
    with g._lock:  # as in a batch
        reader.start()
        reader.join(0.1)
        assert not found
    reader.join(60)
    assert found == [[200, 201]]


def test_algorithms_and_batches_take_turns(target):
    g = base(target, directed=False)
    g.edges.weight[:] = 5
    before, rounds = g.edges.live, 6 if target != "python" else 3

    def change(k):
        for i in range(rounds):
            ids = host(g, g.apply(([k], [10 + i], [5])).inserted)
            g.apply(updates=(ids[:1], [3 + k]))

    def ask(k):
        for _ in range(rounds):
            found = (morph.sssp, morph.bfs, morph.connected_components, morph.core_number)[k](g)
            assert host(g, found[0]).shape == (50,)
        rows = [row for row in ROWS if not row.acyclic]
        # the interpreter takes seconds for all of them
        for row in rows[k :: 2 * WORKERS] if target == "python" else rows:
            row.function(g, **row.arguments_of(row.examples[-1]))

    together(*each(change), *each(ask))
    validate.index(g)
    validate.sssp(g, morph.sssp(g).distance)
    loops = sum(k == 10 + i for k in range(WORKERS) for i in range(rounds))
    assert g.edges.live == before + 2 * WORKERS * rounds - loops
    assert list(g.points.columns) == [] and list(g.edges.columns) == ["src", "dst", "weight"]


def test_the_first_index_is_built_by_several(target):
    for _ in range(5):
        g = base(target)
        found = [None] * WORKERS

        def work(k, g=g, found=found):
            if k % 2:
                found[k] = host(g, g.adjacency("in")[0])
            else:
                found[k] = host(g, morph.bfs(g).distance)

        together(*each(work))
        validate.index(g)
        assert (found[1] == found[3]).all() and (found[0] == found[2]).all()


def test_rows_of_several_threads(target):
    g = base(target)
    g.points.add("who", np.int32, fill=-1)
    g.edges.add("who", np.int32, fill=-1)
    rows = {"points": [], "edges": []}
    count = 60

    def work(k):
        for i in range(count):
            p = g.points.new(who=k)
            rows["points"].append(p.id)
            g.points.extend(2, who=k)
            g.edges.new(src=p.id, dst=0, who=k)
            if i % 4 == 3:
                p.delete()

    together(*each(work))
    who = host(g, g.points.who[:])[host(g, g.points.ids())]
    for k in range(WORKERS):
        assert (who == k).sum() == 3 * count - count // 4
    validate.index(g)


def test_collections_and_sets_of_several_threads():
    g = base("cpu")
    c, s, t = morph.Collection(g.points), morph.Set(g.points), morph.Table("t", x=np.int32)

    def work(k):
        for i in range(200):
            c.add(k)
            c.extend([k, k])
            t.new(x=k)
            t.extend(x=[k, k])
            s.union(i % 49, i % 49 + 1)

    together(*each(work))
    assert np.bincount(c.items).tolist() == [600] * WORKERS
    assert np.bincount(t.x[:]).tolist() == [600] * WORKERS
    assert (s.labels() == 0).all()


@morph.kernel
def step(p, g):
    for t in p.outnbrs:
        atomic_add(t.seen, 1)


@morph.kernel
def sprout(p, g):
    g.edges.new(src=p, dst=p)


def test_launches_beside_batches_and_algorithms(target):
    """A launch that was found before the index became another one is looked up again."""
    g = base(target)
    g.points.add("seen", np.int64)
    g.points.add("dist", np.int64, fill=7)  # steps aside while `bfs` runs
    rounds = 30 if target != "python" else 6

    @morph.kernel
    def mine(p):
        p.dist = p.dist + 1

    def work(k):
        for i in range(rounds):
            if k == 0:
                g.apply(([i % 50], [0], [1]))
            elif k == 1:
                morph.foreach(g.points, step, g)
                if i % 5 == 4:
                    g.compact()
            elif k == 2:
                morph.foreach(g.points, mine)
            else:
                morph.bfs(g)

    together(*each(work))
    assert host(g, g.points.dist[:]).tolist() == [7 + rounds] * 50
    assert g.edges.live == 200 + rounds
    validate.index(g)


def test_one_dynamic_object_of_several_threads(target):
    g = base(target, directed=False)
    g.edges.weight[:] = 9
    d = morph.DynamicSSSP(g, 0)
    other = morph.DynamicBFS(g, 0)
    before, rounds = g.edges.live, 15 if target != "python" else 3

    def work(k):
        for i in range(rounds):
            done = d.apply(([k], [i + 5], [1 + k]))
            other.update(done.applied)
            assert host(g, d.distance).shape == (50,)
            assert host(g, other.predecessor).shape == (50,)

    together(*each(work))
    validate.sssp(g, d.distance, d.predecessor)
    validate.bfs(g, other.distance, other.predecessor)
    assert g.edges.live == before + 2 * WORKERS * rounds


def test_then_may_ask_for_the_graph():
    g = base("cpu")
    seen = []
    g.apply(([1], [2], [3]), then=lambda done: seen.append(int(g.degree(1))))
    g.apply(([1], [2], [3]), then=lambda done: seen.append(len(morph.bfs(g).distance)))
    assert seen[1] == 50

    def fail(done):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        g.apply(([1], [2], [3]), then=fail)
    together(*[lambda: g.apply(([1], [2], [3]))] * WORKERS)  # the lock is free
    assert g.edges.live == 202 + WORKERS


def test_a_refusal_concerns_the_thread_that_asks():
    """While one thread's `then` runs, others wait; no error is raised."""
    g, inside, go = base("cpu"), threading.Event(), threading.Event()

    def then(done):
        inside.set()
        go.wait(0.2)

    def other():
        inside.wait(600)
        g.points.new()
        morph.foreach(g.points, sprout, g)

    together(lambda: g.apply(([1], [2], [3]), then=then), other)
    assert len(g.points) == 51 and g.edges.live == 201 + 51


def test_graphs_in_two_orders():
    """Launches over two graphs take their locks in one order."""
    a, b = base("cpu"), base("cpu")
    for g in (a, b):
        g.points.add("seen", np.int64)

    @morph.kernel
    def both(p, g, h):
        atomic_add(h.points[p.id].seen, 1)
        p.seen = p.seen + 0 * len(g.points)

    def work(k):
        g, h = (a, b) if k % 2 else (b, a)
        for _ in range(200):
            morph.foreach(g.points, both, g, h)

    together(*each(work))
    for g in (a, b):
        assert g.points.seen[:].tolist() == [400] * 50
