"""The lanes of a warp on a CPU: 32 coroutines, scheduled at broadcasts and barriers of lanes.

`emulated` changes the text of items that warps execute before a CPU's compiler gets it.  All lanes
must arrive at the same broadcasts and barriers in the same order, else the process ends.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from morph.runtime.cpu import launch

HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
static volatile int lane_now = -1, arrived[32];
static bool ended[32];
static ucontext_t outside, lanes[32];
static char stacks[32][1 << 18], given[32][256];
static void (*body)(void*);
static void* argument;
static void run_lane(int lane) {
    lane_now = lane;
    body(argument);
    ended[lane] = true;  // then the next lane goes on
}
static void meet(int point) {
    int me = lane_now, next = (me + 1) % 32;
    arrived[me] = point;
    bool apart = ended[next];
    for (int i = 0; i < 32 && me == 31; i++) apart |= ended[i] || arrived[i] != point;
    if (apart) {
        fprintf(stderr, "the lanes of a warp diverge\n");
        abort();
    }
    lane_now = next;
    asm volatile("" ::: "memory");
    swapcontext(&lanes[me], &lanes[next]);
    asm volatile("" ::: "memory");
    lane_now = me;
}
template <class F> static void on_lanes(const F& f) {
    body = [](void* p) { (*(const F*)p)(); };
    argument = (void*)&f;
    for (int i = 0; i < 32; i++) {
        ended[i] = false;
        getcontext(&lanes[i]);
        lanes[i].uc_stack.ss_sp = stacks[i];
        lanes[i].uc_stack.ss_size = sizeof stacks[i];
        lanes[i].uc_link = i < 31 ? &lanes[i + 1] : &outside;
        makecontext(&lanes[i], (void (*)())run_lane, 1, i);
    }
    swapcontext(&outside, &lanes[0]);
    lane_now = -1;
}
"""
LANES = r"""
MORPH_FN i32 lane_id() { return lane_now < 0 ? 0 : lane_now; }
MORPH_FN void sync_warp() { if (lane_now >= 0) meet(1); }
template <class T> MORPH_FN T shuffle(u32, T x, i32 from) {
    if (lane_now < 0) return x;
    memcpy(given[lane_now], &x, sizeof x);
    meet(2);
    memcpy(&x, given[from], sizeof x);
    meet(3);
    return x;
}
template <class T, class F> MORPH_FN T over_lanes(T x, F f) {
    for (i32 by = 16; by; by /= 2) x = f(x, shuffle(1, x, lane_id() ^ by));
    return x;
}
MORPH_FN u32 __reduce_add_sync(u32, u32 x) {
    return over_lanes(x, [](u32 a, u32 b) { return a + b; });
}
MORPH_FN u32 __reduce_or_sync(u32, u32 x) {
    return over_lanes(x, [](u32 a, u32 b) { return a | b; });
}
MORPH_FN i32 __reduce_max_sync(u32, i32 x) {
    return over_lanes(x, [](i32 a, i32 b) { return a > b ? a : b; });
}
"""
REPLACED = (
    "MORPH_FN i32 lane_id() { return 0; }\n",
    "MORPH_FN void sync_warp() {}\n",
    "template <class T> MORPH_FN T shuffle(u32, T x, i32) { return x; }\n",
)
BRANCH = re.compile(
    r"#ifdef __CUDACC__\n((?:(?!#endif|#else|#ifdef).*\n)*)#else\n\s*each\w*\(.*\n#endif"
)


def changed(text: str) -> str:
    """The text in which the lanes of one warp execute all items."""
    at = text.index("// Warp execution: the lanes")
    before, after = text[:at], text[at:]
    for line in REPLACED:
        assert line in before
        before = before.replace(line, LANES if "lane_id" in line else "")
    alone = "bool single_threaded() { return !multithreaded; }"
    assert alone in before
    before = before.replace(alone, "bool single_threaded() { return false; }")
    after = BRANCH.sub(
        lambda m: f"on_lanes([&] {{ {m[1].replace('t.threads / 32', 'i64(1)')} }});", after
    )
    return HEAD + before + re.sub("#ifn?def __CUDACC__", "#if 1", after)


def emulated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on emulate the lanes of warps on one CPU thread; the names of such units."""
    if sys.platform != "linux":
        pytest.skip("coroutines are those of Linux")
    build, names = launch.cpu.build, list[str]()

    def build_changed(text: str, name: str, **options: Any) -> Any:
        if "_by_warp(const Args&" in text:
            names.append(name)
            text = changed(text)
        return build(text, name=name, **options)

    monkeypatch.setattr(launch.cpu, "build", build_changed)
    return names
