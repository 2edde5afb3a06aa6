"""A host for units without a front end: the arrays of a unit's arguments, and its launches."""

import numpy as np

from morph.compiler.codegen.unit import source
from morph.compiler.ir import abi
from morph.compiler.ir.abi import Meta, State, Status, cname
from morph.compiler.passes.outline import outline
from morph.runtime.cpu import launch as cpu

THREADS = (1, 2, 4)
MANY = 1 << 20  # items: enough to open a parallel region


def meta(count, capacity, head=0):
    words = np.zeros(8, np.int64)
    words[[Meta.COUNT, Meta.CAPACITY, Meta.HEAD]] = count, capacity, head
    words[Meta.BUDGET] = capacity - count
    return words


class Machine:
    """The arrays that a unit's arguments name, made on demand."""

    def __init__(self, unit, capacity=64, **arrays):
        self.unit = unit
        self.capacity = capacity
        self.arrays = {
            "status": np.zeros(64, np.int64),
            "deferred": np.zeros(-(-max(capacity, 1 << 14) // 32), np.uint32),
            "queue": np.zeros(1, np.uint32),  # a GPU's
            "barrier": np.zeros(64, np.uint32),
            "cursor": np.zeros(64, np.int64),
            "state": np.zeros(State.VARS + len(unit.state), np.int64),
            "high_degree": np.array([0, 8 * 2044, *[0] * 4094], np.int64),
            **arrays,
        }
        self.numbers = {"replay": 0, "launch": 1, "threads": 1, "report": 0}
        self.launch = None

    def __getitem__(self, name):
        return self.arrays[name]

    def words(self, **scalars):
        """The argument words, in the order of the fields."""
        values = self.numbers | scalars
        words = np.zeros(len(abi.fields(self.unit)), np.uint64)
        for i, f in enumerate(abi.fields(self.unit)):
            if f.name in values:
                words[i] = values[f.name]
            else:
                array = self.arrays[f.name]
                assert array.flags.c_contiguous, f.name
                words[i] = array.ctypes.data
        return words

    def run(self, threads=1, faults=False, items=MANY, **scalars):
        """Launch once."""
        self.launch = self.launch or cpu.load(outline(self.unit), source(self.unit), faults)
        self.numbers["threads"] = threads
        self.launch(self.words(**scalars), items)
        # kernels/schedule/launch.h sets the words of claims, 4 to 6, before it reads them
        assert not np.delete(self["cursor"], [4, 5, 6]).any()
        assert not self["barrier"][0] & 0x7FFFFFFF

    def failed(self):
        """How many items failed; the status is cleared as the host does."""
        status = self["status"]
        failed = int(status[Status.FAILED])
        status[[Status.FAILED, Status.LOCAL]] = 0
        status[Status.STORES :] = 0
        deferred = np.unpackbits(self["deferred"].view(np.uint8)).sum()
        waiting = self["high_degree"][0] >> 32  # listed rows whose capacity ran out
        assert failed > 0 if waiting else failed == deferred
        return failed

    def grow(self, slot):
        """Double a store; its arrays are those named after it."""
        name = cname(slot)
        words = self[f"{name}_meta"]
        old = int(words[Meta.CAPACITY])
        for f in abi.fields(self.unit):
            if f.slot == slot and f.kind in ("column", "dead", "created"):
                array = self[f.name]
                self.arrays[f.name] = np.concatenate([array, np.zeros_like(array)])
            if f.slot == slot and f.kind == "free":
                free = np.zeros(2 * old, np.int32)
                for k in range(words[Meta.HEAD], words[Meta.TAIL]):
                    free[k % (2 * old)] = self[f.name][k % old]
                self.arrays[f.name] = free
        words[Meta.CAPACITY] = 2 * old
        words[Meta.BUDGET] += old


def random_graph(n, m, seed=0):
    rng = np.random.default_rng(seed)
    src = np.sort(rng.integers(0, n, m)).astype(np.int32)
    dst = rng.integers(0, n, m).astype(np.int32)
    offset = np.searchsorted(src, np.arange(n + 1)).astype(np.int64)
    return offset, src, dst, rng.integers(1, 100, m).astype(np.int32)


def graph_arrays(n, m, seed=0):
    offset, src, dst, weight = random_graph(n, m, seed)
    return {
        "g_out_offset": offset, "g_edges_src": src, "g_edges_dst": dst, "g_edges_weight": weight,
        "g_edges_meta": meta(m, m), "g_points_meta": meta(n, n),
        "g_points_dist": np.zeros(n, np.int32), "g_points_hits": np.zeros(n, np.int32),
        "g_points_mark": np.zeros(n, np.uint8), "g_points_owner": np.full(n, ~np.uint64(0)),
        "g_points_lock": np.zeros(n, np.int32), "changed_flag": np.zeros(4, np.int32),
        "set_parent": np.arange(n, dtype=np.int32),
    }  # fmt: skip


def collection_arrays(name, items, capacity, **columns):
    item = np.zeros(capacity, np.int32)
    item[: len(items)] = items
    return {f"{name}_item": item, f"{name}_meta": meta(len(items), capacity), **columns}
