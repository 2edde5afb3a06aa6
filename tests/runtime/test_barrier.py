"""The GPU's barrier of kernels/target_cuda.h, emulated with one host thread for each GPU thread.

Blocks are groups of threads that meet at `__syncthreads`.  Every thread must learn at every barrier
the value that the master broadcasts, and all must read at one barrier that the host has asked for a
stop.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from morph.runtime.toolchain import cpu

KERNELS = Path(__file__).parents[2] / "kernels"

STUBS = """
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sys/time.h>
#include <thread>
#include <vector>
#define MORPH_FN inline
#define MORPH_OUTLINED inline
#define __shared__ static thread_local
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
enum { FAILED, ROUND, VARS, ENDED };
struct Block {
    std::atomic<int> count{0}, turn{0}, any[2]{};
};
struct Place { int x; };
static thread_local Place threadIdx, blockIdx;
static Place gridDim, blockDim;
constexpr bool SINGLE_BLOCK = false;
static i32 block_id() { return blockIdx.x; }
static i32 block_count() { return gridDim.x; }
static std::vector<Block> blocks;
static thread_local unsigned chance;
static unsigned draw() { return chance = chance * 1664525u + 1013904223u, chance >> 8; }
static int __syncthreads_or(bool x) {  // by the last to come
    Block& b = blocks[blockIdx.x];
    int turn = b.turn;
    if (x) b.any[turn & 1] = 1;
    if (++b.count == blockDim.x) {
        b.any[turn + 1 & 1] = 0, b.count = 0, b.turn = turn + 1;
    } else {
        while (b.turn == turn) std::this_thread::yield();
    }
    return b.any[turn & 1];
}
static void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static void __syncthreads() { __syncthreads_or(false); }
#define clock emulated_clock
static unsigned clock() { return draw() << 24; }
template <class T> T load(const T* p) {
    if (draw() % 8 == 0) std::this_thread::yield();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class A> void flush_partial_sums(const A&) {}
template <class T, class X> void store(T* p, X x) { __atomic_store_n(p, T(x), __ATOMIC_RELAXED); }
static u32 add_release(u32* p, u32 x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }
static void acquire() {}
"""

MAIN = """
struct Args {
    u32* barrier;
    i64* cursor;
    i64 replay, launch;
};
static std::atomic<i32> left_at{-1}, wrong{0};
static void member(const Args& a, i32 block, i32 thread, u32 seed) {
    blockIdx.x = block, threadIdx.x = thread, chance = seed * 977 + block * 31 + thread;
    Team t(a, block * blockDim.x + thread, gridDim.x * blockDim.x);
    for (u32 k = 0, same = seed; !t.stop; k++) {
        same = same * 1664525u + 1013904223u;  // alike for all
        bool says = same >> 20 & 1;
        if (same >> 21 & 1) {
            barrier(a, t);
        } else {
            if (arrive(a, t)) broadcast(t, says);
            if (draw() % 4 == 0) std::this_thread::yield();
            release_barrier(a, t);
            if (t.broadcast_value != says) wrong++;
        }
        if (t.stop) {
            i32 first = -1;
            if (!left_at.compare_exchange_strong(first, k) && first != i32(k)) wrong++;
        }
    }
}
int main(int, char** given) {
    itimerval limit{{}, {5, 0}};  // seconds of all threads; others take less than 1 ms at rest
    gridDim.x = atoi(given[1]), blockDim.x = atoi(given[2]);
    for (u32 seed = 0; seed < u32(atoi(given[3])); seed++) {
        setitimer(ITIMER_PROF, &limit, nullptr);  // a run that hangs spins, and is killed
        std::vector<Block> made(gridDim.x);
        blocks.swap(made);
        u32 word[64] = {};
        Args a{word, nullptr, 0, 0};
        left_at = -1;
        std::vector<std::thread> threads;
        for (i32 b = 0; b < gridDim.x; b++)
            for (i32 i = 0; i < blockDim.x; i++)
                threads.emplace_back(member, std::ref(a), b, i, seed);
        for (u32 i = 0; i < seed % 7 * 50; i++) std::this_thread::yield();
        __atomic_store_n(word + STOP_WORD, 1u, __ATOMIC_RELAXED);
        for (auto& x : threads) x.join();
        if (wrong) return printf("wrong: seed %u\\n", seed), 1;
    }
    return 0;
}
"""


def emulation(change=lambda text: text) -> str:
    """One text of the GPU's half of the team, with stubs for what CUDA has."""
    text = (KERNELS / "target_cuda.h").read_text()
    text = text[
        text.index("// --- the barrier of a grid") : text.index("// The items first + thread")
    ]
    assert "arrive" in text and "asm" not in text
    return STUBS + change(text + (KERNELS / "schedule" / "team.h").read_text()) + MAIN


def outcome(tmp_path: Path, text: str, *sizes: int) -> int:
    """The exit status; negative if a run hangs."""
    source, binary = tmp_path / "barrier.cpp", tmp_path / "barrier"
    source.write_text(text)
    command = [*cpu.compiler().command, "-std=c++17", "-O1", "-w", "-pthread", source, "-o", binary]
    subprocess.run(command, check=True)
    return subprocess.run([binary, *map(str, sizes)]).returncode


@pytest.mark.parametrize("blocks, threads", [(1, 1), (1, 3), (2, 1), (4, 1), (3, 2)])
def test_all_blocks_learn_the_same_at_every_barrier(blocks, threads, tmp_path):
    assert outcome(tmp_path, emulation(), blocks, threads, 60) == 0


def test_a_stop_seen_in_the_released_word_is_noticed(tmp_path):
    """The obvious way, which lets blocks leave at different barriers, fails here."""

    def naive(text: str) -> str:
        seen = "return (t.sense & (T::RELEASED | T::STOP)) == (T::RELEASED | T::STOP);"
        assert seen in text
        return text.replace(seen, "return t.sense & T::STOP;").replace(
            "if (t.sense & T::RELEASED && !(t.sense & T::STOP)", "if (!(t.sense & T::STOP)"
        )

    assert outcome(tmp_path, emulation(naive), 4, 1, 60) != 0
