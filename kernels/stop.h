// How a launch is stopped: by Ctrl-C, or whatever else makes the interpreter's signal handlers raise.
//
// The CPU thread that launched lets signal handlers run about every 50 ms: at barriers, and between chunks of items.
// If one raises, the master of the next barrier sets `stopped`, which all threads read before they begin a step.
// If no barrier comes for as long again, the step is cut short: its other items do not run.
// On a GPU the host's handlers run while it waits; then it sets a word of the device's memory, which block 0
// reads about every 10 ms when it comes to a barrier; see team.h for how the others are told.

#ifdef __CUDACC__

constexpr i32 STOP_WORD = 32;  // of `barrier`: the host asks for a stop
constexpr u32 LOOKS_EVERY = 1 << 24;  // cycles

#else

// Functions of Python's C interface, which the host fills in; none: signals wait for the end of the launch.
struct Interpreter {
    void* (*release)();  // PyEval_SaveThread
    void (*acquire)(void*);  // PyEval_RestoreThread
    int (*handle_signals)();  // PyErr_CheckSignals
    void* thread;  // the main thread; handlers run in no other one
};
MORPH_EXPORT Interpreter morph_interpreter;
Interpreter morph_interpreter;

#if defined(__x86_64__)
constexpr u64 BETWEEN = 1 << 27;  // ticks: 30 to 130 ms
#else
constexpr u64 BETWEEN = 1 << 25;  // nanoseconds
#endif
constexpr i64 BEHIND_ALL = 1ll << 40;
static void* released = nullptr;
static u64 handled = 0;       // when handlers last ran
static u32 stopping = 0;      // one has raised
static bool cut = false;      // the step is cut short; of the thread that launched
static bool stopped = false;  // all threads have been told; changes only while the master runs alone

MORPH_COLD void handle_signals(i64* cursor) {
    handled = ticks();
    if (stopping) {
        if (!cut) __atomic_fetch_add(cursor, BEHIND_ALL, __ATOMIC_RELAXED);
        cut = true;
        return;
    }
    if (!morph_interpreter.handle_signals || morph_interpreter.thread != pthread_self()) return;
    morph_interpreter.acquire(released);
    int raised = morph_interpreter.handle_signals();
    released = morph_interpreter.release();
    if (raised) store(&stopping, 1);
}
// By the thread that launched.
MORPH_FN void poll(i64* cursor) {
    if (ticks() - handled > BETWEEN) handle_signals(cursor);
}

template <class A> MORPH_FN void begin_launch(const A& a) {
    if (morph_interpreter.release) released = morph_interpreter.release();
    handled = ticks();
    stopping = 0, stopped = cut = false;
    full = crew = THREADED ? i32(a.threads) : 1;
    if (full <= 1) return;
    find_pool(a.barrier + POOL_WORD);
    crew = allowed(full);
}
MORPH_FN void end_launch() {
    if (morph_interpreter.acquire) morph_interpreter.acquire(released);
}

#endif
