"""Searches that a GPU's warp shares (kernels/schedule/search.h), emulated.

Lanes are fibers of one thread: they meet at each function of the whole warp, which must be the same
for all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from morph.runtime.toolchain import cpu

KERNELS = Path(__file__).parents[2] / "kernels"
STUBS = """
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#define __CUDACC__  // the code of a GPU
#define MORPH_FN inline
#define MORPH_UNROLL_ALL
#define MORPH_UNROLL
constexpr int MOST_UNROLLED = 16;
typedef int i32;
typedef long long i64;
typedef unsigned u32;
typedef unsigned long long u64;
typedef i32 RowId;
template <class T> T min_of(T x, T y) { return y < x ? y : x; }
template <class T> T max_of(T x, T y) { return x < y ? y : x; }
constexpr bool TARGET_GPU = true;
constexpr u32 ALL_LANES = ~0u;
struct Entries {
    i64 begin = 0, end = 0;
};

// A lane that has come to a function of the whole warp waits there for all others.
static i32 lane = 0, arrived = 0;
static u32 meetings = 0;
static u64 given[2][32];
static i32 kinds[32];
static bool ended[32];
static ucontext_t fibers[32], all_ended;
static void go_on() {
    i32 was = lane;
    do lane = (lane + 1) % 32;
    while (ended[lane] && lane != was);
    if (lane != was) swapcontext(&fibers[was], &fibers[lane]);
    else if (ended[was]) setcontext(&all_ended);
}
static const u64* meet(u64 x, i32 kind) {
    u32 now = meetings;
    given[now & 1][lane] = x, kinds[lane] = kind;
    if (++arrived == 32) {
        for (i32 other : kinds)
            if (other != kind) exit(3);  // lanes meet in different functions
        arrived = 0, meetings++;
    }
    while (meetings == now) {
        for (bool x : ended)
            if (x) exit(4);  // a lane that has ended never comes
        go_on();
    }
    return given[now & 1];
}
static i32 lane_id() { return lane; }
static void sync_warp() { meet(0, 0); }
static u32 ballot(u32, bool x) {
    const u64* all = meet(x, 1);
    u32 bits = 0;
    for (i32 i = 0; i < 32; i++) bits |= u32(all[i]) << i;
    return bits;
}
static bool any_lane(bool x) { return ballot(ALL_LANES, x) != 0; }
static i32 first_lane(u32 lanes) { return __builtin_ctz(lanes); }
template <class T> T shuffle(u32, T x, i32 from) { return T(meet(u64(x), 2)[from & 31]); }
static u32 add_lanes(u32, u32 x) {
    const u64* all = meet(x, 3);
    u32 sum = 0;
    for (i32 i = 0; i < 32; i++) sum += u32(all[i]);
    return sum;
}
static i32 max_of_lanes(i32 x) {
    const u64* all = meet(u32(x), 4);
    i32 most = i32(all[0]);
    for (i32 i = 0; i < 32; i++) most = max_of(most, i32(all[i]));
    return most;
}
"""
MAIN = """
static u32 chance = 1;
static u32 draw(u32 n) { return chance = chance * 1664525u + 1013904223u, (chance >> 8) % n; }
static const i64 LENGTHS[] = {0, 1, 2, 15, 16, 17, 20, 31, 32, 33, 47, 48, 49, 500, 1000, 1023};
static i32 marks[32 * 1023];
static i64 tested, shared;

struct Tile {  // what the items of the lanes are
    Entries row;
    i64 hit;
    bool here, comes;
    i64 k;
    i32 found, epilogues, ends;
};
static Tile tiles[32];
struct Item {
    i32 number, failed;
};
static void end_item(int, Item& it) { tiles[it.number].ends++; }
struct Step {
    typedef void Searches;
    struct LiveIn {
        short number;
        i64 twice;
    };
    struct LiveOut {
        i32 number = -1;
    };
    bool prologue(int, Item& it, Entries& row, LiveIn& in, LiveOut& out) const {
        const Tile& mine = tiles[it.number];
        if (!mine.comes) return false;
        row = mine.row, in = {short(it.number), 2 * it.number}, out = {it.number};
        return true;
    }
    Reached reach(int, i64 k) const { return {RowId(k), marks[k]}; }
    bool test(int, Item&, const LiveIn& in, Reached r) const {
        const Entries& row = tiles[in.number].row;
        if (r.edge < row.begin || r.edge >= row.end || in.twice != 2 * in.number) exit(5);
        tested++, shared += in.number != lane;
        return r.end == in.number;
    }
    void epilogue(int, Item& it, LiveOut& out, i64 k, bool found) const {
        Tile& mine = tiles[it.number];
        if (out.number != it.number) exit(6);
        mine.k = k, mine.found = found, mine.epilogues++;
    }
};

static void member() {
    Item it{lane, 7};
    search_batch(0, Step(), it, tiles[lane].here);
    ended[lane] = true;
    go_on();
}
static bool run() {
    i64 end = 0, least = 0;
    u32 kind = draw(4);  // most rows are short, or empty, or all are long, or one is
    i32 whose = draw(32);
    for (i32 i = 0; i < 32; i++) {
        bool is_long = kind == 2 || (kind == 3 && i == whose);
        i64 n = LENGTHS[is_long ? 13 + draw(3) : draw(kind ? 16 : 10)];
        Tile& x = tiles[i] = {{end, end + n}, -1, draw(8) != 0, draw(8) != 0, 0, 0, 0, 0};
        for (i64 k = end; k < end + n; k++) marks[k] = 32;
        if (n && draw(2)) x.hit = end + (draw(3) == 0 ? 0 : draw(2) ? n - 1 : draw(u32(n)));
        for (i64 k = x.hit; k >= 0 && k < end + n; k += 1 + draw(50)) marks[k] = i;
        end += n;
        if (x.here && x.comes) least += x.hit < 0 ? n : x.hit - x.row.begin + 1;
    }
    tested = 0;
    static char stacks[32][1 << 15];
    for (lane = 0; lane < 32; lane++) {
        getcontext(&fibers[lane]);
        fibers[lane].uc_stack.ss_sp = stacks[lane];
        fibers[lane].uc_stack.ss_size = sizeof stacks[lane];
        makecontext(&fibers[lane], member, 0);
        ended[lane] = false;
    }
    lane = draw(32);
    swapcontext(&all_ended, &fibers[lane]);
    bool right = tested <= 2 * least + 32 * 36;  // no entry is tested in vain but of the last group
    for (const Tile& x : tiles) {
        bool comes = x.here && x.comes;
        i64 k = x.hit >= 0 ? x.hit : x.row.begin < x.row.end ? x.row.end - 1 : -1;
        right &= x.epilogues == comes && x.ends == 1;
        right &= !comes || (x.k == k && x.found == (x.hit >= 0));
    }
    return right;
}
int main() {
    for (i32 round = 0; round < 120; round++)
        if (!run()) return 1;
    return shared ? 0 : 2;
}
"""


def between(name: str, first: str, last: str) -> str:
    text = (KERNELS / name).read_text()
    return text[text.index(first) : text.index(last)]


def outcome(tmp_path: Path, change=lambda text: text) -> int:
    """The exit status of a program that compares emulated searches with sequential ones."""
    from_lane = "template <class T> MORPH_FN T from_lane"
    lanes = between("schedule/reservation.h", from_lane, "template <class Step, bool GPU")
    graph = between("storage/graph.h", "struct Reached", "// The first edge from x to y")
    search = (KERNELS / "schedule" / "search.h").read_text()
    source, binary = tmp_path / "search.cpp", tmp_path / "search"
    source.write_text(STUBS + lanes + graph + change(search) + MAIN)
    command = [*cpu.compiler().command, "-std=c++17", "-O1", "-w", source, "-o", binary]
    subprocess.run(command, check=True)
    return subprocess.run([binary]).returncode


@pytest.mark.skipif(sys.platform != "linux", reason="fibers of ucontext.h")
def test_lanes_find_what_a_sequential_search_finds(tmp_path):
    assert outcome(tmp_path) == 0
