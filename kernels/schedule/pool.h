// CPU threads: a pool that all units of the process share, bounded spinning followed by a futex, and the limit
// of a team's size while a team does not pay or other processes use the cores.
//
// A waiting thread spins for 1 ms, or 50 us if competing processes were detected within the last second, then sleeps:
// spinning longer could take the core from the thread that it waits for.  A team consists of the workers that answer
// within PATIENCE, so a worker without a core delays no launch; the other threads run its items.
// Each limit holds for REST times the time lost, so that attempts with all threads cost about 1/REST of the time:
//   A thread for which others had to sleep compares its processor time with the clock.  If the thread was ready but
//   did not run, other processes use the cores, and teams have three quarters as many threads.
//   A team pays if its threads compute for `worth` times as long, in all, as the team takes; an item takes a thread of a
//   team up to `worth` times as long as a single thread.  If teams lost LATE more than they gained, one thread runs.
// A team has no more threads than the machine has cores without runnable threads of other processes, where the kernel
// counts runnable threads (Linux): at a barrier a thread that shares its core delays all others by a scheduler's slice.

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
MORPH_EXPORT int open(const char*, int, ...);
MORPH_EXPORT long read(int, void*, decltype(sizeof 0));
MORPH_EXPORT int close(int);
MORPH_EXPORT long sysconf(int);
MORPH_FN i64 nanoseconds(int clock) {
    TimeSpec t;
    clock_gettime(clock, &t);
    return i64(t.seconds) * 1000000000 + t.nanoseconds;
}
#ifdef __linux__
MORPH_FN i64 wall_time() { return nanoseconds(1); }
MORPH_FN i64 processor_time() { return nanoseconds(3); }  // of this thread
MORPH_FN i64 online_cores() { return sysconf(84); }  // _SC_NPROCESSORS_ONLN
#else
MORPH_FN i64 wall_time() { return nanoseconds(6); }
MORPH_FN i64 processor_time() { return nanoseconds(16); }
MORPH_FN i64 online_cores() { return 0; }
#endif
#else
constexpr bool THREADED = false;
MORPH_FN i64 wall_time() { return 0; }
MORPH_FN i64 processor_time() { return 0; }
MORPH_FN i64 online_cores() { return 0; }
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
constexpr i64 PATIENCE = 100000, MORE = 25000;    // nanoseconds to wait for answers: in all; and for each thread
constexpr i64 LATE = 1000000;  // nanoseconds; idle cores wake 16 threads sooner, and a competitor keeps a core longer
#endif
constexpr i32 NOTED_SPINS = 16;  // longer waits are subtracted from the time for which a thread computes
constexpr i32 POOL_WORD = 16;  // index in `barrier` of the pool's address
constexpr i64 REST = 30, LONGEST_REST = 2000000000;  // times the time lost; nanoseconds
constexpr i64 WORTH = 15, WORTH_ADDING = 45;         // tenths; of steps that add to shared places
constexpr i64 COUNT_INTERVAL = 5000000;              // nanoseconds between counts of runnable threads
constexpr i64 WINDOW = 8000000;                      // nanoseconds between decisions whether a long-lived team pays
constexpr u64 MEASURED = 1 << 21;                    // ticks between measurements of a thread: 0.5 to 2 ms

struct Pool {
    i64 rested;  // these three are read by the host, too
    i32 limit;   // largest size of a team until the time `rested`; 0: no limit
    i32 free;    // number of cores for a team when runnable threads were last counted; 0: unknown
    i64 counted, cores;  // the time of that count; the cores of the machine
    alignas(64) u32 bell;  // futex: the number of the latest call for a team
    u32 asleep;            // number of workers that sleep on `bell`
    alignas(64) u64 seats;  // number of the call << 32 | workers requested << 16 | workers that have answered
    alignas(64) u32 start;  // futex: the number of the call whose team is complete
    u32 seated;             // number of workers of that team that sleep on `start`
    i32 team;               // number of threads of that team
    void (*run)(const void*, i32, i32);
    const void* args;
    alignas(64) u32 done;  // futex: workers of the team that have returned from `run`
    u32 awaited;           // whether the caller sleeps on `done`
    alignas(64) i32 workers;  // number of worker threads created
    i64 contended;  // the time at which competing processes were last detected
    i64 from;       // the time from which `busy` counts
    i64 debt;       // time that teams lost beside a single thread, less what they gained; not below 0
    alignas(64) i64 busy;  // time for which the team's threads have computed
};
static Pool* pool = nullptr;
static i32 full = 1;    // number of threads that the launch may use
static i32 crew = 1;    // number of threads of a team at present
static i32 wanted = 1;  // number of threads from the next step on; written only while a single thread runs
static i64 worth = WORTH;  // of the team's steps
struct Clocks {  // of a thread in a team: clocks at its last measurement; since then time slept, and waited in all
    i64 wall, processor, slept, waited;
    u64 ticks;
    i32 spins;  // before the thread sleeps
};
static __thread Clocks clocks;

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
    return wall_time() - load(&p->contended) < 1000000000 ? SHORT_SPINS : SPINS;
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
        bool last = __atomic_add_fetch(&p->done, 1, __ATOMIC_SEQ_CST) == others;
        if (last && __atomic_load_n(&p->awaited, __ATOMIC_SEQ_CST)) wake(&p->done, 1);
    }
    return nullptr;
}

// Finds or creates the pool of the process; its address is in memory that all units share.
MORPH_COLD void find_pool(u32* shared) {
    Pool** at = (Pool**)shared;
    bool first = !*at;
    if (first) *at = (Pool*)calloc(2, sizeof(Pool));
    pool = (Pool*)(((u64)*at + 63) & ~u64(63));
    if (first) pool->cores = online_cores();
}

#if defined(__linux__) && !defined(MORPH_FAULTS)
// The number of runnable threads of the machine, or 0.
MORPH_COLD i32 runnable_threads() {
    char text[64];  // like "0.20 0.18 0.12 3/301 4711": 3 threads
    i32 file = open("/proc/loadavg", 0x80000, 0), fields = 0, n = 0;
    if (file < 0) return 0;
    i64 size = read(file, text, sizeof(text));
    close(file);
    for (i64 k = 0; k < size && fields < 4; k++) {
        if (fields == 3 && text[k] >= '0' && text[k] <= '9') n = 10 * n + (text[k] - '0');
        else fields += text[k] == ' ' || fields == 3;
    }
    return n;
}
#else
MORPH_FN i32 runnable_threads() { return 0; }
#endif
// Counts the cores for a team.  No thread of the pool waits at a barrier: all workers that do not sleep are runnable.
MORPH_FN void count_free_cores() {
    i64 now = wall_time();
    if (now - load(&pool->counted) < COUNT_INTERVAL) return;
    i32 runnable = runnable_threads(), own = 1 + pool->workers - i32(load(&pool->asleep));
    store(&pool->free, runnable ? max_of(i32(pool->cores) - max_of(runnable - own, 0), 1) : 0);
    store(&pool->counted, now);
}
// The smaller of `most` and the limit.
MORPH_FN i32 limited(i32 most) {
    i32 limit = load(&pool->limit);
    if (!limit) return most;
    if (wall_time() < load(&pool->rested)) return min_of(limit, most);
    store(&pool->limit, 0);
    return most;
}
// The number of threads that a team may have now.
MORPH_FN i32 allowed(i32 most) {
    i32 free = load(&pool->free);
    return limited(free ? min_of(free, most) : most);
}
// Limits teams to `limit` threads for REST times the time lost.
MORPH_FN void limit_teams(i32 limit, i64 lost) {
    store(&pool->limit, limited(max_of(limit, 1)));
    store(&pool->rested, max_of(load(&pool->rested), wall_time() + min_of(REST * lost, LONGEST_REST)));
}
// Limits teams if a ready thread of a team of n threads did not run for as long as competing processes keep a core.
MORPH_FN void note_lost_time(i32 n, i64 lost) {
    if (lost < LATE) return;
    store(&pool->contended, wall_time());
    limit_teams(n * 3 / 4, lost);
}
MORPH_FN void start_clocks() { clocks = {wall_time(), processor_time(), 0, 0, ticks(), spins_now(pool)}; }
// Adds the time for which this thread has computed since its last measurement to the team's; returns the time for
// which the thread was ready but did not run.
MORPH_COLD i64 measure() {
    i64 wall = wall_time(), processor = processor_time();
    i64 passed = wall - clocks.wall, ran = processor - clocks.processor;
    i64 busy = min_of(ran, passed - clocks.waited);  // each is an upper bound
    if (busy > 0) __atomic_fetch_add(&pool->busy, busy, __ATOMIC_RELAXED);
    i64 lost = passed - ran - clocks.slept;
    clocks = {wall, processor, 0, 0, ticks(), clocks.spins};
    return lost;
}
// Decides whether teams pay.  Called by the only thread that runs.
MORPH_COLD void judge_team(i64 now) {
    i64 busy = __atomic_exchange_n(&pool->busy, 0, __ATOMIC_RELAXED), lost = now - pool->from - busy * 10 / worth;
    pool->from = now, worth = WORTH;
    pool->debt = max_of(pool->debt + lost, i64(0));
    if (pool->debt < LATE) return;
    limit_teams(1, pool->debt);
    pool->debt = 0;
}

// Runs `run(args, i, n)` on the calling thread and n - 1 workers, or on fewer if fewer answer.  Returns false, and has
// run nothing, if no worker answers.
static bool run_team(void (*run)(const void*, i32, i32), const void* args, i32 n) {
    i64 patience = PATIENCE + MORE * n, from = wall_time(), now = from;
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
        from = wall_time();
    }
    u64 c = __atomic_load_n(&pool->seats, __ATOMIC_ACQUIRE);
    for (; i32(c & 0xffff) < min_of(n - 1, pool->workers) && now - from < patience; now = wall_time()) {
        for (i32 k = 0; k < 8; k++) pause();
        c = __atomic_load_n(&pool->seats, __ATOMIC_ACQUIRE);
    }
    while (!__atomic_compare_exchange_n(&pool->seats, &c, (c & ~u64(0xffff0000)) | (c & 0xffff) << 16, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    pool->team = wanted = i32(c & 0xffff) + 1;
    pool->done = 0;
    pool->from = from, pool->busy = 0;
    if (pool->team < n) limit_teams(pool->team, now - from);
    __atomic_exchange_n(&pool->start, call, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->seated, __ATOMIC_SEQ_CST)) wake(&pool->start, n);
    if (pool->team > 1) run(args, 0, pool->team);
    judge_team(wall_time());
    return pool->team > 1;
}

#endif
