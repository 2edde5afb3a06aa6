// Interrupting a launch: by Ctrl-C, or any other signal whose Python handler raises an exception.
//
// The CPU thread that launched runs signal handlers about every 50 ms: at barriers, and between chunks of items.
// If a handler raises, the master of the next barrier sets `stopped`, which all threads read before they begin a step.
// If no barrier follows within another 50 ms, the step is cut short: its remaining items do not run.
// On a GPU handlers run while the host waits; if one raises, the host sets a word of the device's memory, which block 0
// reads at barriers about every 10 ms; team.h says how block 0 forwards the request to the other blocks.

#ifdef __CUDACC__

constexpr i32 STOP_WORD = 32;  // index in `barrier` of the host's request to stop
constexpr u32 POLL_CYCLES = 1 << 24;  // cycles

#else

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
static void* released = nullptr;
static u64 handled = 0;       // the time, in ticks, at which handlers last ran
static u32 stopping = 0;      // whether a handler has raised
static bool cut = false;      // whether the step is cut short; used by the thread that launched only
static bool stopped = false;  // whether all threads leave before the next step; written by the master at a barrier

MORPH_COLD void handle_signals(i64* cursor) {
    handled = ticks();
    if (stopping) {
        if (!cut) __atomic_fetch_add(cursor, PAST_ALL_ITEMS, __ATOMIC_RELAXED);
        cut = true;
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
    handled = ticks();
    stopping = 0, stopped = cut = false;
    full = crew = THREADED ? i32(a.threads) : 1;
    if (full <= 1) return;
    find_pool(a.barrier + POOL_WORD);
    count_free_cores();
    crew = allowed(full);
}
MORPH_FN void end_launch() {
    if (morph_interpreter.acquire) morph_interpreter.acquire(released);
}

#endif
