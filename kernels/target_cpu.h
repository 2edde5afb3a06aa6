// The target-specific half of the device runtime, for CPU cores: macros, memory, atomics, mathematics, threads, signals.
// target_cuda.h defines the same names; those of teams, and the entry of a unit, are in team_cpu.h and serial_cpu.h.

constexpr bool TARGET_GPU = false, SINGLE_BLOCK = false;
constexpr i32 SINGLE_BLOCK_WARPS = 1;
#if defined(__x86_64__)
constexpr bool CONVERTS_TO_LEAST = true;  // whether a float out of range becomes the least integer
#else
constexpr bool CONVERTS_TO_LEAST = false;
#endif

#define MORPH_LABEL(N)
#define MORPH_GO(N) break  // a program's next block is a case of a switch
#define MORPH_FN inline
#ifdef MORPH_QUICK  // a quick compilation: g++ decides
constexpr bool FILTERS_BLOCKS = false;
#define MORPH_HOT inline __attribute__((unused))
#define MORPH_TEAM_LOOP static __attribute__((noinline))
#define MORPH_SINGLE_THREADED static __attribute__((noinline))
#else
constexpr bool FILTERS_BLOCKS = true;
#define MORPH_HOT inline __attribute__((always_inline))  // so that an item and its reservations are registers
// A loop of a single thread, all calls inlined, so that arguments and counters stay in registers.
#define MORPH_SINGLE_THREADED static __attribute__((noinline, flatten))
#define MORPH_TEAM_LOOP static __attribute__((noinline, flatten))
#endif
#define MORPH_LOOP static __attribute__((noinline))  // a function of its own, with its own registers
#define MORPH_BODY static inline  // of a kernel: part of its loop, if that is the only one
#define MORPH_COLD static __attribute__((noinline, cold))  // never inlined, so that no local has an address
#define MORPH_CALL static inline __attribute__((unused))
#define MORPH_OUTLINED __attribute__((noinline, unused)) static
#define MORPH_ASSUME(X) do { if (!(X)) __builtin_unreachable(); } while (0)  // A macro: GCC drops the assumption when it inlines a function.
#define MORPH_UNROLL
#define MORPH_UNROLL_ALL
#define MORPH_UNROLL_NONE
#define MORPH_SHARED static
#if defined(MORPH_PARTS) && !defined(MORPH_RANKS)  // several launches at the same time, each by one thread
#define MORPH_OF_LAUNCH static __thread
#else
#define MORPH_OF_LAUNCH static
#endif
#define MORPH_EXPORT extern "C" __attribute__((visibility("default")))
#pragma GCC visibility push(hidden)  // two kernels in one process never see each other's functions

template <class T> MORPH_FN Bits<T> to_bits(T x);
template <class T> MORPH_FN T from_bits(Bits<T> x);
template <class T> MORPH_FN T min_of(T x, T y);
template <class T> MORPH_FN T max_of(T x, T y);
MORPH_FN i32 narrow_slot(i64 i);

// --- mathematics and half precision ---------------------------------------------------------------

#define MORPH_LIBRARY(NAME) __builtin_##NAME  // a function of the C library
MORPH_FN f32 atan2_of(f32 y, f32 x) { return __builtin_atan2f(y, x); }
MORPH_FN f64 atan2_of(f64 y, f64 x) { return __builtin_atan2(y, x); }
MORPH_FN f32 float_power(f32 x, f32 y) { return __builtin_powf(x, y); }
MORPH_FN f64 float_power(f64 x, f64 y) { return __builtin_pow(x, y); }
MORPH_FN f32 remainder_of(f32 x, f32 y) { return __builtin_fmodf(x, y); }
MORPH_FN f64 remainder_of(f64 x, f64 y) { return __builtin_fmod(x, y); }
MORPH_FN i32 popcount(u32 x) { return __builtin_popcount(x); }
MORPH_FN i32 popcount(u64 x) { return __builtin_popcountll(x); }
MORPH_FN i32 leading_zeros(u32 x) { return x ? __builtin_clz(x) : 32; }
MORPH_FN i32 trailing_zeros(u32 x) { return __builtin_ctz(x); }  // x is not 0
MORPH_FN i32 trailing_zeros(u64 x) { return __builtin_ctzll(x); }
MORPH_FN f32 fused(f32 x, f32 y, f32 z) { return __builtin_fmaf(x, y, z); }  // x * y + z, rounded once
MORPH_FN f64 exp2_of(f64 x) { return __builtin_exp2(x); }
MORPH_FN f64 log2_of(f64 x) { return __builtin_log2(x); }

// The half nearest to a double, without hardware: `unit` is the weight of the lowest bit kept.
MORPH_FN u16 to_half(f64 x) {
    u64 b = to_bits(x);
    u16 sign = u16(b >> 48) & 0x8000;
    b &= ~(u64(1) << 63);
    if (b > 0x7ff0000000000000ull) return sign | 0x7e00;
    if (b >= 0x40f0000000000000ull) return sign | 0x7c00;  // 65536 and more
    i32 shift = 42;
    u64 m = b - (u64(1008) << 52);
    if (b < 0x3f10000000000000ull) {  // below 2^-14: no implicit bit in the half
        shift = 1051 - i32(b >> 52);
        if (shift > 53) return sign;
        m = (b & ((u64(1) << 52) - 1)) | u64(1) << 52;
    }
    u64 kept = m >> shift, rest = m & ((u64(1) << shift) - 1), middle = u64(1) << (shift - 1);
    if (rest > middle || (rest == middle && (kept & 1))) kept++;
    return sign | u16(kept);
}

MORPH_FN u16 to_half(f32 x) { return to_half(f64(x)); }
MORPH_FN f32 from_half(u16 h) {
    u32 sign = u32(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
    if (e == 0) return from_bits<f32>(sign | to_bits(f32(m) * f32(1.0 / 16777216.0)));
    return from_bits<f32>(sign | (e == 31 ? 255u : e + 112) << 23 | m << 13);
}

// --- memory ---------------------------------------------------------------------------------------

template <class T> MORPH_FN T load(const T* p) {
    return from_bits<T>(__atomic_load_n((const Bits<T>*)p, __ATOMIC_RELAXED));
}
template <class T> MORPH_FN T load_fixed(const T* p) { return *p; }
template <class T> MORPH_FN void store(T* p, Value<T> v) {
    __atomic_store_n((Bits<T>*)p, to_bits(v), __ATOMIC_RELAXED);
}
template <i32 BYTES> MORPH_FN void store_vector(u32* p, const u32* w) {
    for (i32 k = 0; k < BYTES / 4; k++) store(p + k, w[k]);
}
template <class T> MORPH_FN void prefetch(const T* p) { __builtin_prefetch(p); }
template <class T> MORPH_FN void prefetch_next(const T* p) { __builtin_prefetch((const u8*)p + 64); }  // the next line
MORPH_EXPORT void* malloc(decltype(sizeof 0));
MORPH_EXPORT void* calloc(decltype(sizeof 0), decltype(sizeof 0));
MORPH_EXPORT void free(void*);
MORPH_FN void* allocate(i64 bytes) { return malloc(bytes); }
MORPH_FN void deallocate(void* memory) { free(memory); }

MORPH_FN void acquire() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }  // after relaxed polling
MORPH_FN void publish() { __atomic_thread_fence(__ATOMIC_RELEASE); }  // before a relaxed store
MORPH_FN void full_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
MORPH_FN void fence_system() { full_fence(); }
MORPH_FN u64 acquire_system(const u64* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

// --- atomics --------------------------------------------------------------------------------------

// Whether several threads run.  One alone needs no locked instruction, each of which costs as much as
// twenty others.  It changes only between teams, when one thread runs.
#ifdef MORPH_SERIAL  // a single thread executes each launch, see serial_cpu.h
constexpr bool SERIAL = true, multithreaded = false;
#else
constexpr bool SERIAL = false;
static bool multithreaded = false;
#endif
MORPH_FN bool single_threaded() { return !multithreaded; }

template <class W> MORPH_FN W swap_word(W* p, W old, W v) {
    if (!multithreaded) {
        W seen = *p;
        if (seen == old) *p = v;
        return seen;
    }
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
template <class T> MORPH_FN T add_word(T* p, T v) {
    if (multithreaded) return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
    T old = *p;
    *p = old + v;
    return old;
}
#define MORPH_NATIVE_WORD(T)                                                           \
    MORPH_FN T native_fetch(Plus*, T* p, T v) { return add_word(p, v); }               \
    MORPH_FN T native_fetch(Minus*, T* p, T v) { return add_word(p, T(T(0) - v)); }    \
    template <> struct NativeOf<Plus, T> { enum { HOW = DIRECT }; };                             \
    template <> struct NativeOf<Minus, T> { enum { HOW = DIRECT }; };
MORPH_NATIVE_WORD(i32)
MORPH_NATIVE_WORD(u32)
MORPH_NATIVE_WORD(i64)
MORPH_NATIVE_WORD(u64)
MORPH_FN u32 add_release(u32* p, u32 x) { return __atomic_fetch_add(p, x, __ATOMIC_ACQ_REL); }

static __thread u64 thread_partial_sums[MOST_TOTALS];  // a thread's partial sums for the places that all items add to
MORPH_OF_LAUNCH u64 single_partial_sums[MOST_TOTALS];  // those of a single thread: their address needs no call
MORPH_FN u64& thread_partial_sum(i32 i) { return *(multithreaded ? thread_partial_sums + i : single_partial_sums + i); }
static __thread f64 thread_float_partial_sums[MOST_TOTALS];  // the same of floats
MORPH_OF_LAUNCH f64 single_float_partial_sums[MOST_TOTALS];
MORPH_FN f64& thread_float_partial_sum(i32 i) { return *(multithreaded ? thread_float_partial_sums + i : single_float_partial_sums + i); }

// --- lanes: a warp is one thread, and no unit instantiates code for more lanes --------------------

constexpr u32 ALL_LANES = 1;
template <Mode MODE> void load_vector(const u8* p, u32& x, u32& y);
template <Mode MODE> void load_vector(const u8* p, u32& x, u32& y, u32& z, u32& w);
MORPH_FN i32 lane_id() { return 0; }
MORPH_FN i32 warp_of_block() { return 0; }
MORPH_FN i32 warps_of_block() { return 1; }
MORPH_FN u8* launch_shared() { return nullptr; }
MORPH_FN i32 block_id() { return 0; }
MORPH_FN i32 block_count() { return 1; }
MORPH_FN i64 warp_id() { return 0; }
template <class T> MORPH_FN i64 warp_of_section(const T&, i64 warp, i64) { return warp; }
constexpr bool AGGREGATES = false;
MORPH_FN u32 active_lanes() { return 1; }
MORPH_FN i32 first_lane(u32) { return 0; }
MORPH_FN void sync_warp() {}
MORPH_FN u32 ballot(u32, bool x) { return x; }
MORPH_FN bool any_lane(bool x) { return x; }
template <class T> MORPH_FN T shuffle(u32, T x, i32) { return x; }
template <class T> MORPH_FN T shuffle_up(T x, i32) { return x; }
MORPH_FN u32 add_lanes(u32, u32 x) { return x; }
MORPH_FN u32 or_lanes(u32, u32 x) { return x; }
MORPH_FN i32 max_of_lanes(i32 x) { return x; }
MORPH_FN void pin(u32&) {}

// --- threads --------------------------------------------------------------------------------------
//
// A pool that all units of the process share (team_cpu.h), bounded spinning followed by a futex, and the limit
// of a team's size while a team is slower than one thread, or other processes use the cores.
//
// A waiting thread spins for 1 ms, or 50 us if competing processes were detected within the last second, then sleeps:
// spinning longer could take the core from the thread that it waits for.  A team consists of the workers that answer
// within ANSWER_TIME, so a worker without a core delays no launch; the other threads run its items.
// Each limit holds for LIMIT_FACTOR times the time lost, so that attempts with all threads cost about 1/LIMIT_FACTOR of
// the time:
//   A thread for which others had to sleep compares its processor time with the clock.  If the thread was ready but
//   did not run, other processes use the cores, and teams have three quarters as many threads.
//   A team is faster if its threads together compute for more than `break_even` times the team's time: an item takes a
//   thread of a team up to that many times as long as a single thread.  If teams lost LATE more than they gained, one
//   thread runs.
// A team has no more threads than the machine has cores without runnable threads of other processes, where the kernel
// counts runnable threads (Linux): at a barrier a thread that shares its core delays all others by a scheduler's slice.

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
constexpr i64 ANSWER_TIME = 1ll << 40, ANSWER_TIME_PER_THREAD = 0, LATE = 1ll << 40;
#else
constexpr i32 SPINS = 40000, SHORT_SPINS = 2000;  // of about 25 ns each
constexpr i64 ANSWER_TIME = 100000, ANSWER_TIME_PER_THREAD = 25000;  // nanoseconds to wait for answers
constexpr i64 LATE = 1000000;  // nanoseconds; idle cores wake 16 threads sooner, and a competitor keeps a core longer
#endif
constexpr i32 RECORDED_SPINS = 16;  // longer waits are subtracted from the time for which a thread computes
constexpr i32 POOL_WORD = 16;  // index in `barrier` of the pool's address
constexpr i64 COUNT_INTERVAL = 5000000;              // nanoseconds between counts of runnable threads
// How many of a thread's own items threads have taken, between two barriers.
struct alignas(64) ItemCursor {
    i64 taken;
    u64 queued;  // of a queue (asynchronous.h): the positions from where on, and up to where, items are to be taken
};
struct Pool {
    i64 limited_until;  // these three are read by the host, too
    i32 limit;   // largest size of a team until the time `limited_until`; 0: no limit
    i32 free;    // number of cores for a team when runnable threads were last counted; 0: unknown
    i64 counted, cores;  // the time of that count; the cores of the machine
    alignas(64) u32 request;  // futex: the number of the latest request for a team
    u32 sleeping_workers;  // number of workers that sleep on `request`
    alignas(64) u64 answers;  // number of the request << 32 | workers requested << 16 | workers that have answered
    alignas(64) u32 start;  // futex: the number of the request whose team is complete
    u32 sleeping_members;  // number of workers of that team that sleep on `start`
    i32 team;               // number of threads of that team
    void (*run)(const void*, i32, i32);
    const void* args;
    alignas(64) u32 done;  // futex: workers of the team that have returned from `run`
    u32 caller_sleeps;  // whether the caller sleeps on `done`
    alignas(64) i32 workers;  // number of worker threads created
    i64 contended;  // the time at which competing processes were last detected
    i64 from;       // the time from which `busy` counts
    i64 net_loss;  // time that teams lost beside a single thread, less what they gained; not below 0
    alignas(64) i64 busy;  // time for which the team's threads have computed
    ItemCursor items[MOST_THREADS];  // not static: a process that is forked meanwhile has a pool of its own
};
static Pool* pool = nullptr;
static i32 full = 1;    // number of threads that the launch may use
static i32 team_threads = 1;    // number of threads of a team at present
struct Clocks {  // of a thread in a team: clocks at its last measurement; since then time slept, and waited in all
    i64 wall, processor, slept, waited;
    u64 ticks;
    i32 spins;  // before the thread sleeps
};
static __thread Clocks clocks;

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
    i32 runnable = runnable_threads(), own = 1 + pool->workers - i32(load(&pool->sleeping_workers));
    store(&pool->free, runnable ? max_of(i32(pool->cores) - max_of(runnable - own, 0), 1) : 0);
    store(&pool->counted, now);
}
// The smaller of `most` and the limit.
MORPH_FN i32 limited(i32 most) {
    i32 limit = load(&pool->limit);
    if (!limit) return most;
    if (wall_time() < load(&pool->limited_until)) return min_of(limit, most);
    store(&pool->limit, 0);
    return most;
}
// The number of threads that a team may have now.
MORPH_FN i32 allowed(i32 most) {
    i32 free = load(&pool->free);
    return limited(free ? min_of(free, most) : most);
}
// --- signals --------------------------------------------------------------------------------------
//
// Interrupting a launch: by Ctrl-C, or any other signal whose Python handler raises an exception.
//
// The CPU thread that launched runs signal handlers about every 50 ms: at barriers, and between chunks of items.
// If a handler raises, the master of the next barrier sets `stopped`, which all threads read before they begin a step.
// If no barrier follows within another 50 ms, the step is cut short: its remaining items do not run.

// Functions of Python's C API, set by the host; if they are null, signals wait for the end of the launch.
struct Interpreter {
    void* (*release)();  // PyEval_SaveThread
    void (*acquire)(void*);  // PyEval_RestoreThread
    int (*handle_signals)();  // PyErr_CheckSignals
    void* thread;  // the main thread, the only one in which handlers run
};
MORPH_EXPORT Interpreter morph_interpreter;
Interpreter morph_interpreter;

#if defined(__x86_64__)
constexpr u64 POLL_INTERVAL = 1 << 27;  // ticks: 30 to 130 ms
#else
constexpr u64 POLL_INTERVAL = 1 << 25;  // nanoseconds
#endif
constexpr i64 PAST_ALL_ITEMS = 1ll << 40;
constexpr i32 STOP_WORD = 32;  // index in `barrier` of the host's request to stop; only parts get one
MORPH_OF_LAUNCH void* released = nullptr;
MORPH_OF_LAUNCH u64 begun = 0;         // the time, in ticks, at which the launch began
MORPH_OF_LAUNCH u64 handled = 0;       // the same, at which handlers last ran
MORPH_OF_LAUNCH u32 stopping = 0;      // whether a handler has raised, or another part has ended
MORPH_OF_LAUNCH bool interrupted = false;  // whether the step is cut short; used by the thread that launched only
MORPH_OF_LAUNCH bool stopped = false;  // whether all threads leave before the next step; written by the master at a barrier

MORPH_OF_LAUNCH const u32* stop_request = nullptr;  // the address of that word
template <class A> MORPH_FN bool asked_to_stop(const A&) { return stopping || load(stop_request); }
template <class T> MORPH_FN void set_stop(const T&) { stopped = true; }

MORPH_COLD void handle_signals(i64* cursor) {
    handled = ticks();
    if (!stopping && load(stop_request)) return store(&stopping, 1);
    if (stopping) {
        if (__atomic_load_n(cursor, __ATOMIC_RELAXED) < PAST_ALL_ITEMS)
            __atomic_fetch_add(cursor, PAST_ALL_ITEMS, __ATOMIC_RELAXED);
        interrupted = true;
        return;
    }
    if (!morph_interpreter.handle_signals || morph_interpreter.thread != pthread_self()) return;
    morph_interpreter.acquire(released);
    int raised = morph_interpreter.handle_signals();
    released = morph_interpreter.release();
    if (raised) store(&stopping, 1);
}
// Called by the thread that launched.
MORPH_FN void poll(i64* cursor) {
    if (ticks() - handled > POLL_INTERVAL) handle_signals(cursor);
}

template <class A> MORPH_FN void begin_launch(const A& a) {
    if (morph_interpreter.release) released = morph_interpreter.release();
    begun = handled = ticks();
    stopping = 0, stopped = interrupted = false, stop_request = a.barrier + STOP_WORD;
    full = team_threads = THREADED ? i32(a.threads) : 1;
    if constexpr (!SERIAL) {
        if (full <= 1) return;
        find_pool(a.barrier + POOL_WORD);
        count_free_cores();
        team_threads = allowed(full);
    }
}
MORPH_FN void end_launch() {
    if (morph_interpreter.acquire) morph_interpreter.acquire(released);
}

MORPH_FN bool step_interrupted() { return interrupted; }
MORPH_FN i32 team_size() { return team_threads; }

// Whether a step over a queue is interrupted, which all its threads see in `cursor`.
template <class A, class T> MORPH_FN bool queue_interrupted(const A& a, const T& t) {
    if (t.thread == 0) poll(a.cursor);
    return load(a.cursor) >= PAST_ALL_ITEMS;
}
MORPH_COLD void sleep_shortly() {
#if defined(__linux__) || defined(__APPLE__)
    i64 from = wall_time();
    usleep(50);
    clocks.slept += wall_time() - from;
#endif
}
// A thread that finds no item in a queue: spins, then sleeps for short times.
struct Idle {
    i32 spins = 0;
    i64 from = 0;
    MORPH_FN void wait() {
        if (spins++ == 0) from = wall_time();
        if (spins < SHORT_SPINS) pause();
        else sleep_shortly();
    }
    MORPH_FN void end() {
        if (spins) clocks.waited += wall_time() - from;
        spins = 0;
    }
};

#ifdef MORPH_PARTS
// Waits at a crossing (parts.h) until a part's line is at least `number`; returns false if the launch is to stop.  The word
// behind it says whether this thread sleeps: soon, since there may be more parts than cores.
template <class A> MORPH_FN bool await_part(const A& a, u64* line, u64 number) {
    u64 seen;
    for (i32 spins = 0; (seen = load(line)) < number; spins++) {
        poll(a.cursor);
        if (asked_to_stop(a)) return false;
        if (spins < 20) pause();
        else if (!__atomic_exchange_n((u32*)(line + 1), 1, __ATOMIC_SEQ_CST)) continue;  // look again before sleeping
        else sleep_while((u32*)line, u32(seen));
    }
    return true;
}
constexpr i32 PARTS_AT_ONCE = 1;
template <class A> MORPH_FN bool await_parts(const A& a, u64* lines, i32 parts, u64 number) {
    for (i32 k = 0; k < parts; k++)
        if (!await_part(a, lines + k * MAILBOX_LINE, number)) return false;
    return true;
}
template <class A> MORPH_FN void wake_part(const A&, u64* line) {
    if (__atomic_exchange_n((u32*)(line + 1), 0, __ATOMIC_SEQ_CST)) wake((u32*)line, 1);
}
#endif

// --- steps --------------------------------------------------------------------------------------------

template <class T> MORPH_FN i32 barrier_arrivals(const T& t) { return t.threads; }
template <class T> MORPH_FN bool is_block_leader(const T&) { return true; }
MORPH_FN void sync_block() {}
MORPH_FN bool any_of_block(bool x) { return x; }
template <class A> MORPH_FN void rewind(const A& a) { store(a.cursor, 0), store(a.cursor + 1, 0); }  // by the master
template <class A> MORPH_FN i64* item_cursor(const A&, i32 thread) { return &pool->items[thread].taken; }
MORPH_FN u64* queued_items(i32 thread) { return &pool->items[thread].queued; }
template <class A> MORPH_FN bool cut_short(const A& a) { return load(a.cursor) >= PAST_ALL_ITEMS; }
// Each section of a step has a cursor of its own, since no barrier precedes the section.
constexpr i32 CURSOR_WORDS = 8;  // from the cursor of one section to that of the next
template <class A> MORPH_FN void rewind_sections(const A& a, i32 sections) {
    for (i32 k = 0; k < sections; k++) store(a.cursor + CURSOR_WORDS * k, 0);
}

template <class T> MORPH_FN bool stops(const T&) { return stopped; }

template <class Step> MORPH_FN i64 team_work();  // the least work of a step for which a team is started
// The work of a step: its items, and their edges, estimated from a sample.
template <class A, class R, class Step> MORPH_FN i64 work(const A& a, const R& t, const Step& s, i64 first, i64 last) {
    i64 n = last - first, edges = 0, most = team_work<Step>();
    if constexpr (Step::WORK_SHARING) {
        i64 apart = n / 64 + 1;
        for (i64 i = first; n < most && i < last; i += apart) edges += s.entries(a, t, i) * apart;
    }
    return n + edges;
}
// The number of items that a thread takes at once: large only after a small chunk was quick, since signals wait.
constexpr u64 QUICK = 1 << 18;  // ticks
struct Pace {
    i64 chunk;
    u64 from;  // time, in ticks, at which the chunk began
};
MORPH_COLD Pace next_pace(Pace pace, i64 faster, i64* polled) {
    if (polled) poll(polled);
    if (pace.chunk >= faster) return pace;
    u64 now = ticks();
    return {now - pace.from < QUICK ? faster : pace.chunk, now};
}

// Runs the items of a single thread, which looks at signals after `size` items of a kernel, also of several steps: 16 at
// first, more after quick ones.
constexpr i64 FIRST_ITEMS = 16, MOST_ITEMS = 1 << 18;
struct Pieces {
    u64 launch, from;  // the times, in ticks, at which the launch and the piece began
    i64 size, left;    // items of a piece, and those left of this one
};
template <class F> MORPH_OF_LAUNCH Pieces pieces_of = {};  // of a step
template <class A, class F> MORPH_FN void in_pieces(const A& a, i64 first, i64 last, const F& run) {
    auto& [launch, from, size, left] = pieces_of<F>;
    if (launch != begun) launch = from = begun, size = left = FIRST_ITEMS;
    for (i64 i = first, upto; i < last && !interrupted; i = upto) {
        upto = min_of(i + left, last);
        run(i, upto);
        left -= upto - i;
        if (left > 0) continue;
        u64 now = ticks(), took = now - from;  // including other kernels since the last test
        from = now;
        if (now - handled > POLL_INTERVAL) handle_signals(a.cursor);
        if (took > 16 * QUICK) size = max_of(size / 16, i64(1));
        else if (took < QUICK) size = min_of(16 * size, MOST_ITEMS);
        left = size;
    }
}

// A barrier without work for the master.
template <class A, class T> MORPH_FN void barrier(const A& a, T& t) {
    if (arrive(a, t)) rewind(a);
    release_barrier(a, t);
}
// A word of a program's state.
template <class A> MORPH_FN bool continues(const A&) { return true; }
template <class A> MORPH_FN i64* host_report(const A&) { return nullptr; }
MORPH_FN void announce(i64*, i64) {}
