"""Sums over rows whose entries are ordered by their other ends, tile by tile."""

import numpy as np
import pytest
from sm90 import compile_one

import morph
from morph.algorithms.graph.pagerank import DOUBLE
from morph.compiler.codegen.prelude import prelude
from morph.graph import tiles
from morph.launch.checked import is_checked
from morph.runtime.cpu.device import HostDevice

ROWS = 50


@pytest.fixture
def small_tiles(monkeypatch):
    """A function that makes a kind of device divide small graphs into tiles."""
    monkeypatch.setattr(tiles, "TILE_ROWS", ROWS)

    def use(kind, blocks=3):
        monkeypatch.setattr(kind, "tiles", property(lambda self: blocks))
        monkeypatch.setattr(kind, "cache_bytes", property(lambda self: 64))

    return use


@pytest.mark.parametrize("directed", [False, True])
def test_each_entry_is_in_one_tile(small_tiles, directed):
    small_tiles(HostDevice)
    g = morph.generate.uniform(1000, 4000, directed=directed, device="cpu")
    direction = "in" if directed else "out"
    found = g._adjacency.tiles(direction)
    offsets, ids = g.adjacency(direction)
    rows, count, *begin = found.tile.tolist()
    assert rows <= ROWS and rows * count >= 1000 and begin[-1] == offsets[-1]
    pairs = []
    for n in range(count):
        part = slice(begin[n], begin[n + 1])
        assert (np.diff(found.far[part]) >= 0).all() and (found.place[part] < rows).all()
        pairs += zip((n * rows + found.place[part]).tolist(), found.far[part].tolist(), strict=True)
    near, far = (g.edges.dst, g.edges.src) if directed else (g.edges.src, g.edges.dst)
    assert sorted(pairs) == sorted(zip(near[:].tolist(), far[:].tolist(), strict=True))
    assert g._adjacency.tiles(direction) is found
    g.apply(inserts=([0], [999]))
    assert g._adjacency.tiles(direction) is None  # rows with spare capacity have none


def test_graphs_that_gain_nothing_have_no_tiles(small_tiles, monkeypatch):
    small_tiles(HostDevice)
    near = morph.generate.grid(60, 60, device="cpu")
    monkeypatch.setattr(HostDevice, "cache_bytes", property(lambda self: 1 << 11))
    assert near._adjacency.tiles("out") is None  # entries lead to rows that are near
    uneven = morph.generate.rmat(10, device="cpu")
    assert uneven._adjacency.tiles("out") is None
    even = morph.generate.uniform(1000, 4000, device="cpu")
    assert even._adjacency.tiles("out") is not None
    monkeypatch.setattr(HostDevice, "cache_bytes", property(lambda self: 1 << 20))
    assert morph.generate.uniform(1000, 4000, device="cpu")._adjacency.tiles("out") is None


@pytest.mark.skipif(is_checked(), reason="checked steps have no tiles")
def test_the_text_with_tiles_is_for_all_devices(small_tiles):
    """A CPU runs the same text, by rows."""
    g = morph.generate.uniform(1000, 4000, device="cpu")
    wanted = morph.pagerank(g).rank
    assert "Tiled" not in DOUBLE.iterate.source()
    small_tiles(HostDevice)
    assert np.array_equal(morph.pagerank(g).rank, wanted)
    text = DOUBLE.iterate.source()
    assert "typedef Tiles Tiled;" in text and g.tiled == ""
    assert compile_one(prelude() + text, "morph_iterate")[:4] == b"\x7fELF"


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [False, True])
def test_sums_by_tiles(small_tiles, directed):
    g = morph.generate.uniform(5000, 20000, directed=directed, device="cuda")
    wanted = morph.pagerank(g, iterations=9).rank.get()
    small_tiles(type(g.device))
    g = g.copy()  # without what is known of its tiles
    found = morph.pagerank(g, iterations=9).rank.get()
    assert "typedef Tiles Tiled;" in DOUBLE.iterate.source()
    assert abs(found / wanted - 1).max() < 1e-13
    g.apply(inserts=([0], [4999]))
    assert float(morph.pagerank(g).rank.sum()) == pytest.approx(1)
