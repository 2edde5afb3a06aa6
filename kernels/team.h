// The team: all threads of a launch, their barrier, and how they share out a range of items.
//
// Invariant of the barrier: one word, whose middle bits count the arrivals and are 0 between barriers,
// and whose sign flips when all are released; so it needs no reset, whatever the size of the team.
// Between `arrive` and `depart` the master alone runs: nobody is before the barrier, nobody after it.
// What it stores there can be read by all until they arrive at the next barrier; one bit that it tells
// them comes with the release itself, so that nobody has to load it.
// Every thread of the team must come to every barrier: no return before one.
// One block of a GPU has a barrier of its own, and leaves that word alone.

enum : u32 { RELEASED = 0x80000000u };  // the sign
enum : u32 { TOLD = 1u };               // what the master told; below the count, where no borrow gets
enum : u32 { ARRIVAL = 2u };

struct Team {
    i32 thread, threads;
    bool replay;  // run only the pending items
    bool master;  // between arrive and depart: this thread runs alone, the last to come
    bool told;    // what the master told at the last barrier
    u32 sense;    // the barrier word when this thread arrived
    u32 round;    // of claims
    i32 launch;   // what single(row) compares: the launch, or below 0 a step of a program
    bool looked;  // all have read what a step may write: a barrier first
    bool took;    // all have read a flag: a barrier before it is taken again
    bool left;    // a program stands before a step that a team of another size is to run

    template <class A> MORPH_FN Team(const A& a, i32 thread, i32 threads)
        : thread(thread), threads(threads), replay(a.replay), master(false), told(false),
          sense(0), round(0), launch(i32(a.launch)), looked(false), took(false), left(false) {}
};

// A word of a program's state.  A GPU's is of the launch before, unless this one goes on with that.
template <class A> MORPH_FN i64 kept(const A& a, i32 word) {
#ifdef __CUDACC__
    if (!a.replay) return 0;
#endif
    return load(a.state + word);
}
// What a program ends with: for a launch that goes on with it, and for the host, which on a GPU need not
// fetch it.  There `report` is memory of the host's: the status, then the state.
constexpr i32 REPORTED = 64;
template <class A> MORPH_FN void end_with(const A& a, i32 variable, i64 x) {
    store(a.state + VARS + variable, x);
#ifdef __CUDACC__
    if (a.report) a.report[REPORTED + VARS + variable] = x;
#endif
}
template <class A> MORPH_FN void report(const A& a, u32 round) {
#ifdef __CUDACC__
    if (!a.report) return;
    a.report[FAILED] = load(a.status + FAILED);
    a.report[ROUND] = round;
#endif
}

#ifdef __CUDACC__

MORPH_FN void acquire() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }  // after relaxed polling
MORPH_FN void publish() { acquire(); }  // before a relaxed store
MORPH_FN u32 add_release(u32* p, u32 x) {
    u32 v;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(x) : "memory");
    return v;
}
MORPH_FN i32 members(const Team&) { return gridDim.x; }
MORPH_FN bool alone(const Team&) { return false; }  // whether nobody has to be waited for
MORPH_FN bool speaks(const Team&) { return threadIdx.x == 0; }  // for its block
MORPH_FN bool leads(const Team&) { return blockIdx.x == 0; }
MORPH_FN void gather_block() { __syncthreads(); }
MORPH_FN bool any_of_block(bool x) { return __syncthreads_or(x); }
MORPH_FN void pause(i32) {}
template <class A> MORPH_FN void rewind(const A&) {}
template <class A, class R, class Step> MORPH_FN bool leaves(const A&, R&, const Step&, i64, i64) { return false; }

// The items first + thread, first + thread + threads, ...
struct Share {
    i64 begin, end;
    i32 step;
    bool fresh = true;
    template <class A> MORPH_FN Share(const A&, const Team& t, i64 first, i64 last)
        : begin(first + t.thread), end(last), step(t.threads) {}
    MORPH_FN bool next() {
        bool was = fresh;
        fresh = false;
        return was;
    }
};

#else

MORPH_EXPORT int sched_yield(void);
#ifdef _OPENMP
MORPH_EXPORT int omp_get_thread_num(void);
MORPH_EXPORT int omp_get_num_threads(void);
constexpr bool THREADED = true;
#else
constexpr bool THREADED = false;
MORPH_FN int omp_get_thread_num() { return 0; }
MORPH_FN int omp_get_num_threads() { return 1; }
#endif

MORPH_FN void acquire() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
MORPH_FN void publish() { __atomic_thread_fence(__ATOMIC_RELEASE); }
MORPH_FN u32 add_release(u32* p, u32 x) { return __atomic_fetch_add(p, x, __ATOMIC_ACQ_REL); }
MORPH_FN i32 members(const Team& t) { return t.threads; }
MORPH_FN bool alone(const Team& t) { return t.threads == 1; }
MORPH_FN bool speaks(const Team&) { return true; }
MORPH_FN bool leads(const Team& t) { return t.thread == 0; }
MORPH_FN void gather_block() {}
MORPH_FN bool any_of_block(bool x) { return x; }
MORPH_FN void pause(i32 spins) {  // on a loaded machine the thread waited for may not be running
    if (spins > 2000) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else __builtin_ia32_pause();
#endif
}

template <class A> MORPH_FN void rewind(const A& a) { store(a.cursor, 0); }  // by the master

static i32 crew = 1;  // how many threads there are

// From how much work on (items and their edges) a team is worth its start and its barriers, and below how much it
// is no longer.  An item takes each thread of a team about 1.9 times as long as one alone: it locks, and wants
// lines that others have.
#ifdef MORPH_FAULTS  // tests: threads meet over few items too
constexpr i32 LEAST_ITEMS = 2, LEAST_BATCH = 2;
MORPH_FN i64 least_chunk() { return 1; }
MORPH_FN i64 wide() { return 4; }
MORPH_FN i64 narrow() { return 3; }
#else
constexpr i32 LEAST_ITEMS = 512, LEAST_BATCH = 64;
constexpr i64 LEAST_WORK = 1024;
MORPH_FN i64 least_chunk() { return crew > 32 ? 4 : crew > 4 ? 128 / crew : 32; }
MORPH_FN i64 wide() { return LEAST_WORK * 10 * crew / (10 * crew - 19); }
MORPH_FN i64 narrow() { return wide() / 4; }
#endif

// How much a step has to do: its items, and the edges of some of them, which stand for all.
template <class A, class R, class Step> MORPH_FN i64 work(const A& a, const R& t, const Step& s, i64 first, i64 last) {
    i64 n = last - first, edges = 0, most = wide();
    if constexpr (Step::SPREADS) {
        i64 apart = n / 64 + 1;
        for (i64 i = first; n < most && i < last; i += apart) edges += s.entries(a, t, i) * apart;
    }
    return n + edges;
}
// Whether a step of a program is for a team of another size: one thread runs small ones alone, and is
// spared barriers and locked instructions.
template <class A, class R, class Step> MORPH_FN bool leaves(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if (crew <= 1 || t.replay) return false;
    i64 n = work(a, t, s, first, last);
    return t.left = t.threads == 1 ? n >= wide() : n < narrow();
}

// Chunks from a cursor, so that a thread with heavy items takes fewer.
struct Share {
    i64 begin, end, first, last, chunk;
    i64* cursor;
    bool alone;
    static constexpr i32 step = 1;
    template <class A> MORPH_FN Share(const A& a, const Team& t, i64 first, i64 last, i64 most = 8192)
        : begin(first), end(first), first(first), last(last), cursor(a.cursor), alone(t.threads == 1) {
        chunk = (last - first) / (8 * t.threads);
        chunk = max_of(min_of(chunk, most), least_chunk());
    }
    MORPH_FN bool next() {
        begin = alone ? end : first + fetch(Plus(), cursor, chunk);
        end = alone || begin + chunk > last ? last : begin + chunk;
        return begin < end;
    }
};

#endif

// The i-th of some numbers.
template <i32 FIRST, i32... MORE> MORPH_FN i32 one_of(i32 i) {
    if constexpr (sizeof...(MORE) == 0) return FIRST;
    else return i == 0 ? FIRST : one_of<MORE...>(i - 1);
}

// Wait for all.  Gives true to the last thread to come, the master, which alone runs on; the others go
// on to depart.
template <class A> MORPH_FN bool arrive(const A& a, Team& t) {
    add_totals(a);
    gather_block();
    t.master = t.told = false;
    if (alone(t)) {
        t.master = true;
    } else if (speaks(t) && members(t) == 1) {
        t.master = true;
    } else if (speaks(t)) {
        t.sense = add_release(a.barrier, ARRIVAL);
        t.master = (t.sense & ~(RELEASED | TOLD)) == ARRIVAL * u32(members(t) - 1);
    }
    return t.master;
}
template <class A> MORPH_FN bool await_release(const A& a, Team& t) {  // what the master told
    u32 now;
    for (i32 spins = 0; !(((now = load(a.barrier)) ^ t.sense) & RELEASED); spins++) pause(spins);
    acquire();
    return now & TOLD;
}
template <class A> MORPH_FN void depart(const A& a, Team& t) {
    if (members(t) == 1) {
    } else if (t.master) {
        u32 released = (t.sense & RELEASED) ^ RELEASED;
        add_release(a.barrier, (t.told ? released | TOLD : released) - (t.sense + ARRIVAL));
    } else if (speaks(t)) {
        t.told = await_release(a, t);
    }
    t.master = t.looked = t.took = false;
    t.told = any_of_block(t.told);
}

// By the master, before it departs; `t.told` is then the same for all.
MORPH_FN void tell(Team& t, bool x) { t.told = x; }

// Wait for all, when there is nothing to do in between.
template <class A> MORPH_FN void barrier(const A& a, Team& t) {
#ifdef __CUDACC__
    add_totals(a);
    gather_block();
    if (members(t) > 1 && speaks(t)) {
        // the last arrival flips the sign, by a carry through the count; some may have yet to read what was told
        u32 release = RELEASED - ARRIVAL * u32(members(t) - 1);
        t.sense = add_release(a.barrier, leads(t) ? release : ARRIVAL);
        await_release(a, t);
    }
    t.looked = t.took = t.told = false;
    gather_block();
#else
    if (arrive(a, t)) rewind(a);
    depart(a, t);
#endif
}

// A flag has three words that take turns: one is read, one is written, one is being cleared; so taking
// it needs no barrier of its own, only one since it was last taken.
template <class A> MORPH_FN bool take_flag(const A& a, Team& t, i32* flag, i32& turn) {
    if (t.took) barrier(a, t);
    bool was = load(flag + turn);
    if (t.thread == 0) store(flag + (turn + 2) % 3, 0);
    turn = (turn + 1) % 3;
    t.took = true;
    return was;
}
MORPH_FN void rest_flag(i32* flag, i32 turn) {  // between launches word 0 holds it
    i32 was = load(flag + turn);
    for (i32 i = 0; i < 3; i++) store(flag + i, i ? 0 : was);
}
