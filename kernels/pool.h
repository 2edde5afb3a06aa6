// CPU threads: a pool that all units of the process share, bounded spinning followed by a futex, and the limit
// of a team's size while other processes use the cores.
//
// A waiting thread spins for 1 ms, or 50 us if competing processes were detected within the last second, then sleeps:
// spinning longer could take the core from the thread that it waits for.  A team consists of the workers that answer
// within PATIENCE, so a worker without a core delays no launch; the other threads run its items.
// The limit: a thread for which others had to sleep compares its processor time with the clock.  If the thread was
// ready but did not run, other processes use the cores, and teams are smaller for REST times the time lost.

#ifndef __CUDACC__

#if defined(__linux__) || defined(__APPLE__)
constexpr bool THREADED = true;
struct TimeSpec {
    long seconds, nanoseconds;
};
MORPH_EXPORT int clock_gettime(int, TimeSpec*);
MORPH_EXPORT int pthread_create(void**, const void*, void* (*)(void*), void*);
MORPH_EXPORT int pthread_detach(void*);
MORPH_EXPORT void* pthread_self(void);
MORPH_EXPORT int usleep(unsigned);
MORPH_EXPORT long syscall(long, ...);
MORPH_FN i64 nanoseconds(int clock) {
    TimeSpec t;
    clock_gettime(clock, &t);
    return i64(t.seconds) * 1000000000 + t.nanoseconds;
}
#ifdef __linux__
MORPH_FN i64 wall_time() { return nanoseconds(1); }
MORPH_FN i64 processor_time() { return nanoseconds(3); }  // of this thread
#else
MORPH_FN i64 wall_time() { return nanoseconds(6); }
MORPH_FN i64 processor_time() { return nanoseconds(16); }
#endif
#else
constexpr bool THREADED = false;
MORPH_FN i64 wall_time() { return 0; }
MORPH_FN i64 processor_time() { return 0; }
MORPH_FN int pthread_create(void**, const void*, void* (*)(void*), void*) { return 1; }
MORPH_FN int pthread_detach(void*) { return 0; }
MORPH_FN void* pthread_self() { return nullptr; }
#endif
MORPH_EXPORT void* calloc(decltype(sizeof 0), decltype(sizeof 0));

#if defined(__linux__) && defined(__x86_64__)
constexpr long FUTEX = 202;
#elif defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
constexpr long FUTEX = 98;
#elif defined(__linux__) && defined(__powerpc64__)
constexpr long FUTEX = 221;
#elif defined(__linux__) && defined(__s390x__)
constexpr long FUTEX = 238;
#else
constexpr long FUTEX = 0;  // no futex: poll, sleeping 50 us at a time
#endif
constexpr i64 LONGEST_SLEEP = 50000000;  // nanoseconds; then the thread polls for signals

// Sleep while *p is `seen`, until wake(p) or for at most LONGEST_SLEEP; may return spuriously.
MORPH_COLD void sleep_while(u32* p, u32 seen) {
#if defined(__linux__) || defined(__APPLE__)
    if constexpr (FUTEX != 0) {
        TimeSpec most = {0, long(LONGEST_SLEEP)};
        syscall(FUTEX, p, 128, seen, &most, nullptr, 0);  // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
    } else {
        usleep(50);
    }
#endif
}
MORPH_COLD void wake(u32* p, i32 threads) {
#if defined(__linux__)
    if constexpr (FUTEX != 0) syscall(FUTEX, p, 129, threads, nullptr, nullptr, 0);  // FUTEX_WAKE
#endif
}

// A clock that is cheap to read, with about 1 to 5 ticks a nanosecond.
MORPH_FN u64 ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return u64(wall_time());
#endif
}
MORPH_FN void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

constexpr i32 MOST_THREADS = 256;
#ifdef MORPH_FAULTS  // tests: every team has all its threads, and waiting threads sleep soon
constexpr i32 SPINS = 20, SHORT_SPINS = 20;
constexpr i64 PATIENCE = 1ll << 40, MORE = 0, LATE = 1ll << 40;
#else
constexpr i32 SPINS = 40000, SHORT_SPINS = 2000;  // of about 25 ns each
constexpr i64 PATIENCE = 100000, MORE = 10000;    // nanoseconds to wait for answers: in all; and for each thread
constexpr i64 LATE = 200000;  // nanoseconds; a ready thread that did not run for so long had lost its core
#endif
constexpr i32 POOL_WORD = 16;  // index in `barrier` of the pool's address
constexpr i64 REST = 30, LONGEST_REST = 2000000000;  // times the time lost; nanoseconds

struct Pool {
    u32 bell;        // futex: the number of the latest call for a team
    u32 asleep;      // number of workers that sleep on `bell`
    alignas(64) u64 seats;  // number of the call << 32 | workers requested << 16 | workers that have answered
    alignas(64) u32 start;  // futex: the number of the call whose team is complete
    u32 seated;             // number of workers of that team that sleep on `start`
    i32 team;               // number of threads of that team
    void (*run)(const void*, i32, i32);
    const void* args;
    alignas(64) u32 done;  // futex: workers of the team that have returned from `run`
    u32 awaited;           // whether the caller sleeps on `done`
    alignas(64) i32 workers;  // number of worker threads created
    i32 limit;                // largest size of a team until the time `rested`; 0: no limit
    i64 rested;
    i64 next;  // least duration of the next limit; doubled at each consecutive limit
};
static Pool* pool = nullptr;
static i32 full = 1;    // number of threads that the launch may use
static i32 crew = 1;    // number of threads of a team at present
static i32 wanted = 1;  // number of threads from the next step on; written only while a single thread runs

// Joins the team that is being formed, if it is not complete; returns the thread's number, or 0.
MORPH_FN i32 take_seat(Pool* p, u32 call) {
    for (u64 c = __atomic_load_n(&p->seats, __ATOMIC_ACQUIRE); u32(c >> 32) == call;) {
        if ((c & 0xffff) >= (c >> 16 & 0xffff)) return 0;
        if (__atomic_compare_exchange_n(&p->seats, &c, c + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return i32(c & 0xffff) + 1;
    }
    return 0;
}
// The number of spins before a thread sleeps: fewer while other processes need the cores.
MORPH_FN i32 spins_now(const Pool* p) {
    return wall_time() - load(&p->rested) < 1000000000 ? SHORT_SPINS : SPINS;
}
static void* work_forever(void* given) {
    Pool* p = (Pool*)given;
    for (u32 seen = 0;;) {
        u32 call = __atomic_load_n(&p->bell, __ATOMIC_ACQUIRE);
        i32 most = spins_now(p);
        for (i32 spins = 0; call == seen; call = __atomic_load_n(&p->bell, __ATOMIC_ACQUIRE)) {
            if (spins++ < most) {
                pause();
                continue;
            }
            __atomic_fetch_add(&p->asleep, 1, __ATOMIC_SEQ_CST);
            sleep_while(&p->bell, seen);
            __atomic_fetch_sub(&p->asleep, 1, __ATOMIC_SEQ_CST);
        }
        seen = call;
        i32 seat = take_seat(p, call);
        if (!seat) continue;
        for (i32 spins = 0; __atomic_load_n(&p->start, __ATOMIC_ACQUIRE) != call; spins++) {
            if (spins < SHORT_SPINS) {
                pause();
                continue;
            }
            __atomic_fetch_add(&p->seated, 1, __ATOMIC_SEQ_CST);
            sleep_while(&p->start, call - 1);
            __atomic_fetch_sub(&p->seated, 1, __ATOMIC_SEQ_CST);
        }
        u32 others = u32(p->team) - 1;
        p->run(p->args, seat, p->team);
        if (__atomic_add_fetch(&p->done, 1, __ATOMIC_SEQ_CST) == others && load(&p->awaited)) wake(&p->done, 1);
    }
    return nullptr;
}

// Finds or creates the pool of the process; its address is in memory that all units share.
MORPH_COLD void find_pool(u32* shared) {
    Pool** at = (Pool**)shared;
    bool fresh = !*at;
    if (fresh) *at = (Pool*)calloc(2, sizeof(Pool));
    pool = (Pool*)(((u64)*at + 63) & ~u64(63));
    if (fresh) pool->next = REST * LATE;
}

// The number of threads that a team may have now.
MORPH_FN i32 allowed(i32 most) {
    i32 limit = load(&pool->limit);
    if (!limit) return most;
    if (wall_time() < load(&pool->rested)) return min_of(limit, most);
    store(&pool->limit, 0);
    return most;
}
// Limits teams to `limit` threads, for a duration in proportion to the time during which a ready thread did not run.
MORPH_FN void limit_teams(i32 limit, i64 time) {
    if (time < LATE) return;
    i64 now = wall_time(), next = load(&pool->next);
    if (now > load(&pool->rested)) store(&pool->next, min_of(2 * next, LONGEST_REST));
    store(&pool->rested, now + min_of(max_of(REST * time, next), LONGEST_REST));
    store(&pool->limit, max_of(limit, 1));
}

// Runs `run(args, i, n)` on the calling thread and n - 1 workers, or on fewer if fewer answer.  Returns false, and has
// run nothing, if no worker answers.
static bool run_team(void (*run)(const void*, i32, i32), const void* args, i32 n) {
    i64 patience = PATIENCE + MORE * n;
    u32 call = pool->bell + 1;
    if (!call) call = 1;
    pool->run = run, pool->args = args;
    __atomic_store_n(&pool->seats, u64(call) << 32 | u64(n - 1) << 16, __ATOMIC_RELEASE);
    __atomic_exchange_n(&pool->bell, call, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST)) wake(&pool->bell, n - 1);
    for (; pool->workers < n - 1; pool->workers++, patience += PATIENCE) {
        void* thread;
        if (pthread_create(&thread, nullptr, work_forever, pool)) break;
        pthread_detach(thread);
    }
    i64 from = wall_time(), now = from;
    u64 c = __atomic_load_n(&pool->seats, __ATOMIC_ACQUIRE);
    for (; i32(c & 0xffff) < min_of(n - 1, pool->workers) && now - from < patience; now = wall_time()) {
        for (i32 k = 0; k < 8; k++) pause();
        c = __atomic_load_n(&pool->seats, __ATOMIC_ACQUIRE);
    }
    while (!__atomic_compare_exchange_n(&pool->seats, &c, (c & ~u64(0xffff0000)) | (c & 0xffff) << 16, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    pool->team = wanted = i32(c & 0xffff) + 1;
    pool->done = 0;
    if (pool->team < n) limit_teams(pool->team, max_of(now - from, LATE));
    else limit_teams(n * 3 / 4, now - from);
    __atomic_exchange_n(&pool->start, call, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->seated, __ATOMIC_SEQ_CST)) wake(&pool->start, n);
    if (pool->team == 1) return false;
    run(args, 0, pool->team);
    if (!load(&pool->limit)) pool->next = REST * LATE;
    return true;
}

#endif
