"""The limit of a CPU team's size (kernels/team_cpu.h), with simulated clocks."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from morph.compiler.ir import layout
from morph.runtime.toolchain import cpu

KERNELS = Path(__file__).parents[2] / "kernels"
HEADERS = "target_cpu team_cpu core/types core/half core/math core/atomics".split()
STUBS = """
#include <cstdio>
#include <initializer_list>
static long long now_wall = 1ll << 50, now_processor = 0;
static int now_runnable = 0;
"""

MAIN = """
constexpr i64 US = 1000, MS = 1000 * US;
static i32 line = 0;
#define CHECK(x) if (!(x) && !line) line = __LINE__
// A team that takes `wall` and computes for `busy`, in all.
static void team(i64 wall, i64 busy) {
    pool->from = now_wall, pool->busy = busy;
    now_wall += wall;
    evaluate_team(now_wall);
}
static void short_losses_add_up() {
    for (i32 k = 0; k < 9; k++) team(100 * US, 0);
    CHECK(allowed(16) == 16);
    team(100 * US, 0);
    CHECK(allowed(16) == 1);
    now_wall += 29 * MS;
    CHECK(allowed(16) == 1);
    now_wall += 2 * MS;
    CHECK(allowed(16) == 16);
}
static void gains_make_up_for_losses() {
    for (i32 k = 0; k < 100; k++) team(900 * US, 0), team(MS, 5 * MS);
    CHECK(allowed(16) == 16);
}
// On two busy cores each attempt takes longer than one thread, by up to all of its time.
static void attempts_cost_less_than_a_tenth() {
    for (i64 wall : {200 * US, 3 * MS, 20 * MS})
        for (i64 busy : {i64(0), wall / 2, wall}) {
            i64 begin = now_wall, lost = 0;
            while (now_wall < begin + 20000 * MS) {
                if (allowed(2) == 1) now_wall += 100 * US;
                else team(wall, busy), lost += wall;
            }
            CHECK(lost < (now_wall - begin) / 10);
        }
}
static void limits_do_not_become_longer() {
    for (i32 k = 0; k < 50; k++) {
        record_lost_time(16, 3 * MS);
        CHECK(allowed(16) == 12 && allowed(2) == 2);
        now_wall += 89 * MS;
        CHECK(allowed(16) == 12);
        now_wall += 2 * MS;
        CHECK(allowed(16) == 16);
    }
}
static void the_stricter_limit_holds() {
    limit_teams(1, 10 * MS), limit_teams(12, MS);
    CHECK(allowed(16) == 1);
    now_wall += 299 * MS;
    CHECK(allowed(16) == 1);
    now_wall += 2 * MS;
    CHECK(allowed(16) == 16);
}
static void wake_latencies_are_no_lost_time() {
    record_lost_time(16, 900 * US);
    CHECK(allowed(16) == 16);
    CHECK(spins_now(pool) == SPINS);
    record_lost_time(2, MS);
    CHECK(allowed(16) == 1 && spins_now(pool) == SHORT_SPINS);
    now_wall += 1000 * MS;
    CHECK(allowed(16) == 16 && spins_now(pool) == SPINS);
}
// A thread computes for no longer than it runs, nor while it waits.
static void waiting_is_not_computing() {
    pool->busy = 0;
    start_clocks(2);
    now_wall += 10 * MS, now_processor += 9 * MS, clocks.waited = 7 * MS;
    CHECK(measure() == MS && pool->busy == 3 * MS);
    now_wall += 10 * MS, now_processor += 2 * MS, clocks.slept = 5 * MS;
    CHECK(measure() == 3 * MS && pool->busy == 5 * MS);
}
static void cores_of_other_processes_are_left_to_them() {
    pool->cores = 16, pool->workers = 15, pool->sleeping_workers = 15;
    now_runnable = 9, count_free_cores();  // this thread and eight of others
    CHECK(allowed(16) == 8 && allowed(2) == 2);
    pool->sleeping_workers = 0, now_runnable = 16, count_free_cores();
    CHECK(allowed(16) == 8);  // counted a moment ago
    now_wall += COUNT_INTERVAL, count_free_cores();
    CHECK(allowed(16) == 16);  // its own workers spin
    now_wall += COUNT_INTERVAL, now_runnable = 90, count_free_cores();
    CHECK(allowed(16) == 1);
    limit_teams(12, MS);
    now_wall += COUNT_INTERVAL, now_runnable = 1, count_free_cores();
    CHECK(allowed(16) == 12);  // the count was no reason for a limit
    now_wall += COUNT_INTERVAL, now_runnable = 0, count_free_cores();
    CHECK(allowed(8) == 8 && pool->free == 0);  // nothing is known
}
static void teams_that_add_pay_later() {
    for (i32 k = 0; k < 4; k++) team(MS, 4 * MS);
    CHECK(allowed(16) == 16);
    for (i32 k = 0; k < 8; k++) break_even = BREAK_EVEN_ADDING, team(MS, 4 * MS);
    CHECK(allowed(16) == 16 && break_even == BREAK_EVEN);
    break_even = BREAK_EVEN_ADDING, team(MS, 4 * MS);
    CHECK(allowed(16) == 1);
}
int main() {
    static u32 words[2];
    find_pool(words);
    NAME();
    if (line) printf("line %d\\n", line);
    return line != 0;
}
"""


def headers() -> str:
    """The headers that the pool needs, and the layouts between them."""
    return (
        (KERNELS / "core/scalars.h").read_text()
        + layout.header()
        + "".join((KERNELS / f"{h}.h").read_text() for h in HEADERS)
    )


@pytest.mark.skipif(not Path("/proc/loadavg").exists(), reason="needs Linux's procfs")
def test_runnable_threads(tmp_path):
    """The fourth field of /proc/loadavg, before the stroke."""
    text = headers()
    file = tmp_path / "loadavg"
    text = text.replace("/proc/loadavg", str(file))
    main = "int main() { return runnable_threads(); }"
    source, binary = tmp_path / "pool.cpp", tmp_path / "pool"
    source.write_text(STUBS + text + main)
    command = [*cpu.compiler().command, "-std=c++17", "-O1", "-w", "-pthread", source, "-o", binary]
    subprocess.run(command, check=True)
    assert subprocess.run([binary], timeout=600).returncode == 0  # there is no such file
    for given, found in {
        "0.20 12.18 0.12 3/301 4711\n": 3,
        "0.00 0.01 0.05 104/999 1\n": 104,
    }.items():
        file.write_text(given)
        assert subprocess.run([binary], timeout=600).returncode == found
    file.write_text("")
    assert subprocess.run([binary], timeout=600).returncode == 0


@pytest.mark.parametrize("name", re.findall(r"static void (\w+)\(\)", MAIN))
def test_limits(name, tmp_path):
    text = headers()
    for clock in ("wall", "processor"):
        was = rf"MORPH_FN i64 {clock}_time\(\) \{{ return nanoseconds\(\d+\); \}}"
        text, n = re.subn(was, f"MORPH_FN i64 {clock}_time() {{ return now_{clock}; }}", text)
        assert n == 2
    function = r"MORPH_COLD i32 runnable_threads\(\) \{.*?\n\}"
    stub = "MORPH_COLD i32 runnable_threads() { return now_runnable; }"
    text, n = re.subn(function, stub, text, flags=re.DOTALL)
    assert n == 1
    source, binary = tmp_path / "pool.cpp", tmp_path / "pool"
    source.write_text(STUBS + text + MAIN.replace("NAME", name))
    command = [*cpu.compiler().command, "-std=c++17", "-O1", "-w", "-pthread", source, "-o", binary]
    subprocess.run(command, check=True)
    ran = subprocess.run([binary], timeout=600, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
