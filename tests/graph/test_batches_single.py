"""Batches of a single change, passed as arguments of the launch."""

import numpy as np
import pytest
from small import contents

import morph
from morph import validate
from morph.graph import gapped
from morph.updates import changes, recognition


@pytest.mark.parametrize("directed", [True, False])
def test_a_single_change_is_as_the_long_way_has_it(monkeypatch, directed):
    monkeypatch.setattr(changes, "SHARE", 0)  # small graphs, too, are changed in place
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 9, (2, 60))
    graphs = [
        morph.Graph.from_edges(src, dst, weight=src / 2, n=9, symmetrize=not directed, device="cpu")
        for _ in range(2)
    ]
    ways, later = (recognition.recognise, lambda *_: None), []
    graphs[0].adjacency("in" if directed else "out"), graphs[0].adjacency("out")
    odd = [np.array([x]) for x in (-1, 9, 2**40, np.uint64(2**63 + 1), np.int8(3), -(2**63))]
    for k in range(150):
        e, u, v = (rng.integers(0, most, 1) for most in (len(graphs[0].edges), 9, 9))
        if k % 9 == 0:
            u, e = (odd[rng.integers(len(odd))] for _ in range(2))
        w = rng.choice(np.array([0, 1.5, -1, np.nan][: 4 - k % 2]), 1)
        w = w.astype(rng.choice([np.float32, np.float64]))
        change = [{"inserts": (u, v, w)}, {"deletes": e}, {"deletes": (u, v)},
                  {"updates": (e, w)}, {"updates": (u, v, w)}][k % 5]  # fmt: skip
        done = []
        for g, way in zip(graphs, ways, strict=True):
            monkeypatch.setattr(recognition, "recognise", way)
            try:
                done.append(g.apply(**change, nonnegative=k % 2 == 0))
            except (TypeError, ValueError, OverflowError) as error:
                done.append(str(error))
        tables = [[c.array.tolist() for c in (g.edges.src, g.edges.dst, g.edges.weight)]
                  for g in graphs]  # fmt: skip
        assert str(tables[0]) == str(tables[1])
        later += [done] if rng.random() < 0.5 else []  # some results are asked for when others came
    names = ("inserted", "deleted", "deleted_src", "deleted_dst", "deleted_weight", "updated")
    names += ("old_weight", "new_weight")
    for done in later:
        reported = [
            x if isinstance(x, str) else [getattr(x, n).tolist() for n in names] for x in done
        ]
        assert str(reported[0]) == str(reported[1])
    validate.index(graphs[0])


@pytest.mark.parametrize("long_way", [True, False])
@pytest.mark.parametrize("capacity", [200, 43])
def test_a_callback_that_resizes_tables_and_fails_leaves_them_as_they_were(
    monkeypatch, long_way, capacity
):
    monkeypatch.setattr(changes, "SHARE", 0)
    g = morph.Graph.from_edges(np.arange(40) % 9, np.arange(40) % 7, weight=np.ones(40))
    if long_way:
        g.edges.add("mark", np.int32)
    g.apply(deletes=[3])
    g.edges.resize(90)
    before = contents(g.edges)

    def fails(applied):
        g.edges.resize(capacity)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        g.apply(([1, 2], [2, 5], [7, 8]), deletes=[11], updates=([4], [2]), then=fails)
    assert contents(g.edges) == before
    validate.index(g)


def test_a_callback_that_drops_the_weights_and_fails_leaves_the_edges():
    g = morph.Graph.from_edges(np.arange(40) % 9, np.arange(40) % 7, weight=np.ones(40))
    g.adjacency()

    def fails(applied):
        g.edges.drop("weight")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        g.apply(([1], [2], [7]), deletes=[11], updates=([4], [2]), then=fails)
    assert g.edges.live == len(g.edges) == 40
    validate.index(g)


def test_an_interrupt_while_the_index_gets_longer(monkeypatch):
    monkeypatch.setattr(changes, "SHARE", 0)
    rng = np.random.default_rng(1)
    g = morph.Graph.from_edges(*rng.integers(0, 9, (2, 30)), n=9)
    g.adjacency("out"), g.apply(([1], [2]))
    g.edges.resize(71)

    def interrupt(table):
        raise KeyboardInterrupt

    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(gapped, "fill", interrupt)
        g.index("out")
    for _ in range(3):
        g.apply(tuple(rng.integers(0, 9, (2, 25))), rng.choice(g.edges.ids(), 20))
        g.edges.resize(g.edges.capacity + 1)
        validate.index(g)


@pytest.mark.parametrize("directed", [True, False])
def test_single_inserts_until_the_arena_grows_and_ids_are_reused(monkeypatch, directed):
    monkeypatch.setattr(gapped, "LEAST", 8)
    monkeypatch.setattr(changes, "SHARE", 0)
    g = morph.Graph.from_edges([0, 1, 2], [1, 2, 3], n=40, symmetrize=not directed, device="cpu")
    g.adjacency("out"), g.apply(deletes=(2, 3))
    for k in range(2):
        g.apply(inserts=(0, 4 + k))
    moves = g._adjacency.moves
    for k in range(60):
        g.apply(inserts=(0, 6 + k % 30))
    assert g._adjacency.moves > moves
    gone = np.flatnonzero(g.edge_order < 0)  # the deleted edge's ids, which others have now
    assert gone.size == (1 if directed else 2) and g.edges.alive[gone].all()
    for _ in range(20):
        ids = g.apply(inserts=(1, 7)).inserted.tolist()
        assert g.apply(deletes=ids[:1]).deleted.size == len(ids)
    validate.index(g)
