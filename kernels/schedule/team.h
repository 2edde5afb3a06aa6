// The team: all threads of a launch, their barrier, and how they share out a range of items.
//
// Invariant of the barrier: one word, whose middle bits count the arrivals and are 0 between barriers,
// and whose sign flips when all are released; so it needs no reset, whatever the size of the team.
// Between `arrive` and `depart` the master alone runs: nobody is before the barrier, nobody after it.
// What it stores there can be read by all until they arrive at the next barrier; one bit that it tells
// them comes with the release itself, so that nobody has to load it.
// Every thread of the team must come to every barrier: no return before one.
// One block of a GPU has a barrier of its own, and leaves that word alone.
//
// A CPU thread that has spun long enough at the barrier sets SLEEPS and sleeps: then the master wakes all threads.
// On a GPU block 0 adds STOP to the word, if the host has requested a stop, after its release from a barrier that
// leaves the sign 0; and each block tests STOP in the value that its own arrival returned at a barrier with the sign 1.
// Between addition and test all blocks arrive at one barrier, and STOP is not added before all have arrived at the
// next one, so all blocks see STOP at the same barrier.  (The value at a block's release may differ between blocks:
// block 0 may already have continued.)

enum : u32 { RELEASED = 0x80000000u };  // the sign
enum : u32 { TOLD = 1u };               // what the master told; below the count, where no borrow gets
enum : u32 { SLEEPS = 2u, STOP = 2u };  // on a CPU; on a GPU
enum : u32 { ARRIVAL = 4u };

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
#ifdef __CUDACC__
    bool stop;    // the host has requested a stop, and all blocks have seen the request
#endif

    template <class A> MORPH_FN Team(const A& a, i32 thread, i32 threads)
        : thread(thread), threads(threads), replay(a.replay), master(false), told(false),
          sense(0), round(0), launch(i32(a.launch)), looked(false), took(false), left(false) {
#ifdef __CUDACC__
        stop = false;
#else
        if (threads > 1) start_clocks();
#endif
    }
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
template <class A> MORPH_FN void rewind(const A&) {}
// Whether the program ends here: tested between its blocks of steps.
MORPH_FN bool stops(const Team& t) { return t.stop; }
template <class A, class R> MORPH_FN bool resizes(const A&, R&) { return false; }
template <class A, class R, class Step> MORPH_FN bool leaves(const A&, R&, const Step&, i64, i64) { return false; }

// Whether block 0 polls the host's request now.  Called by its first thread; `looked` is uninitialised, so the first
// poll is at once or some milliseconds later.
MORPH_FN bool is_due() {
    __shared__ u32 looked;
    u32 now = u32(clock());
    if (now - looked < POLL_CYCLES) return false;
    looked = now;
    return true;
}
template <class A> MORPH_FN bool asked_to_stop(const A& a) { return load(a.barrier + STOP_WORD) != 0; }
// Called by the first thread of block 0 after its release from a barrier.
template <class A> MORPH_FN void pass_on_stop(const A& a, const Team& t) {
    if (t.sense & RELEASED && !(t.sense & STOP) && asked_to_stop(a)) add_release(a.barrier, STOP);
}
// Whether all blocks see the request, by the word's value at this block's arrival.
MORPH_FN bool sees_stop(const Team& t) { return (t.sense & (RELEASED | STOP)) == (RELEASED | STOP); }

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

MORPH_FN void acquire() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
MORPH_FN void publish() { __atomic_thread_fence(__ATOMIC_RELEASE); }
MORPH_FN u32 add_release(u32* p, u32 x) { return __atomic_fetch_add(p, x, __ATOMIC_ACQ_REL); }
MORPH_FN i32 members(const Team& t) { return t.threads; }
MORPH_FN bool alone(const Team& t) { return t.threads == 1; }
MORPH_FN bool speaks(const Team&) { return true; }
MORPH_FN bool leads(const Team& t) { return t.thread == 0; }
MORPH_FN void gather_block() {}
MORPH_FN bool any_of_block(bool x) { return x; }
template <class A> MORPH_FN void rewind(const A& a) { store(a.cursor, 0); }  // by the master

MORPH_FN bool stops(const Team&) { return stopped; }

// From how much work on (items and their edges) a team is worth its start and its barriers, and below how much it
// is no longer.  An item takes each thread of a team about 1.96 times as long as one alone: it locks, and wants
// lines that others have; 4.5 times if it adds floats to places, or uses the value before.
#ifdef MORPH_FAULTS  // tests: threads meet over few items too
constexpr i32 LEAST_ITEMS = 2, LEAST_BATCH = 2;
MORPH_FN i64 least_chunk() { return 1; }
template <class Step> MORPH_FN i64 wide() { return 4; }
template <class Step> MORPH_FN i64 narrow() { return 3; }
#else
constexpr i32 LEAST_ITEMS = 512, LEAST_BATCH = 64;
constexpr i64 LEAST_WORK = 1024, NEVER = 1ll << 50;
MORPH_FN i64 least_chunk() { return crew > 32 ? 4 : crew > 4 ? 128 / crew : 32; }
template <class Step> MORPH_FN i64 wide() {
    constexpr i32 slower = Step::FETCH_ADDS ? 450 : 196;  // hundredths
    return 100 * crew > slower ? LEAST_WORK * 100 * crew / (100 * crew - slower) : NEVER;
}
template <class Step> MORPH_FN i64 narrow() { return wide<Step>() / 4; }
#endif

// How much a step has to do: its items, and the edges of some of them, which stand for all.
template <class A, class R, class Step> MORPH_FN i64 work(const A& a, const R& t, const Step& s, i64 first, i64 last) {
    i64 n = last - first, edges = 0, most = wide<Step>();
    if constexpr (Step::SPREADS) {
        i64 apart = n / 64 + 1;
        for (i64 i = first; n < most && i < last; i += apart) edges += s.entries(a, t, i) * apart;
    }
    return n + edges;
}
// Whether a step of a program is for a team of another size: one thread runs small ones alone, and is
// spared barriers and locked instructions.
template <class A, class R, class Step> MORPH_FN bool leaves(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if (stopped) return true;
    if (t.threads > 1 && t.threads != wanted) return t.left = true;
    if (crew <= 1 || t.replay) return false;
    i64 n = work(a, t, s, first, last);
    t.left = t.threads == 1 ? n >= wide<Step>() : n < narrow<Step>();
    if (Step::FETCH_ADDS && !t.left && t.threads > 1) store(&worth, WORTH_ADDING);
    return t.left;
}
// The same for programs whose small steps run on all threads, too.
template <class A, class R> MORPH_FN bool resizes(const A&, R& t) {
    if (stopped) return true;
    return t.left = t.threads > 1 ? t.threads != wanted : crew > 1 && !t.replay;
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

// Chunks from a cursor, so that a thread with heavy items takes fewer.
struct Share {
    i64 begin, end, first, last, most;
    Pace pace;
    i64* cursor;
    bool alone, polls;
    static constexpr i32 step = 1;
    template <class A> MORPH_FN Share(const A& a, const Team& t, i64 first, i64 last, i64 limit = 8192)
        : begin(first), end(first), first(first), last(last), cursor(a.cursor), alone(t.threads == 1),
          polls(t.thread == 0) {
        most = max_of(min_of((last - first) / (8 * t.threads), limit), least_chunk());
        pace = {most < 256 ? most : most / 32, 0};
        if (most >= 256 && !alone) pace.from = ticks();
    }
    MORPH_FN bool next() {
        if (!alone && begin < end) pace = next_pace(pace, most, polls ? cursor : nullptr);
        begin = alone ? end : first + fetch(Plus(), cursor, pace.chunk);
        end = alone || begin + pace.chunk > last ? last : begin + pace.chunk;
        return begin < end;
    }
};
// The same for a single thread: runs all items in chunks.
template <class A, class F> MORPH_FN void in_pieces(const A& a, i64 first, i64 last, const F& run) {
    Pace pace = {1024, last - first > 1024 ? ticks() : 0};
    for (i64 i = first; i < last && !cut;) {
        i64 upto = i + pace.chunk < last ? i + pace.chunk : last;
        run(i, upto);
        if (upto < last) pace = next_pace(pace, min_of(16 * pace.chunk, i64(1 << 18)), a.cursor);
        i = upto;
    }
}

static u32 single_barriers = 0;        // number of barriers of a single thread
static i64 released_at = 0;  // time at which sleeping threads were last woken at the barrier

// The barrier of a single thread.
template <class A> MORPH_FN void barrier_alone(const A& a) {
    if ((++single_barriers & 15) == 0) {
        poll(a.cursor);
        if (full > 1) {
            count_free_cores();
            crew = allowed(full);
        }
    }
    if (stopping) stopped = true;
}
// Called by the master of a team's barrier, which was ready but did not run for the time `lost`.
MORPH_FN void update_team(Team& t, i64 lost) {
    if (load(&stopping)) stopped = true;
    if (t.sense & SLEEPS) note_lost_time(t.threads, lost);
    if (clocks.wall - pool->from > WINDOW) judge_team(clocks.wall);
    if (load(&pool->limit)) wanted = allowed(full);
}
template <class A> MORPH_COLD void sleep_at_barrier(const A& a, Team& t, u32 now) {
    if (!(now & SLEEPS) && !__atomic_compare_exchange_n(a.barrier, &now, now | SLEEPS, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        return;
    i64 from = wall_time();
    sleep_while(a.barrier, now | SLEEPS);
    i64 until = wall_time(), woken = (load(a.barrier) ^ t.sense) & RELEASED ? load(&released_at) : until;
    clocks.slept += max_of(woken - from, i64(0));
    if (woken > from) note_lost_time(t.threads, until - woken);
    if (t.thread == 0) poll(a.cursor);
}

#endif

// The i-th of some numbers.
template <i32 FIRST, i32... MORE> MORPH_FN i32 one_of(i32 i) {
    if constexpr (sizeof...(MORE) == 0) return FIRST;
    else return i == 0 ? FIRST : one_of<MORE...>(i - 1);
}

// Wait for all.  Gives true to the last thread to come, the master, which alone runs on; the others go
// on to depart.
#ifdef __CUDACC__
template <class A> MORPH_FN bool arrive(const A& a, Team& t) {
    add_totals(a);
    gather_block();
    t.master = t.told = false;
    if (!speaks(t)) return false;
    if (members(t) == 1) {
        t.sense = is_due() && asked_to_stop(a) ? RELEASED | STOP : 0;
        return t.master = true;
    }
    t.sense = add_release(a.barrier, ARRIVAL);
    return t.master = (t.sense & ~(RELEASED | TOLD | STOP)) == ARRIVAL * u32(members(t) - 1);
}
template <class A> MORPH_FN bool await_release(const A& a, Team& t) {  // what the master told
    u32 now;
    while (!(((now = load(a.barrier)) ^ t.sense) & RELEASED)) {}
    acquire();
    return now & TOLD;
}
template <class A> MORPH_FN void depart(const A& a, Team& t) {
    if (members(t) > 1 && speaks(t)) {
        bool due = leads(t) && is_due();
        if (t.master) {
            u32 released = ((t.sense & RELEASED) ^ RELEASED) | (t.sense & STOP);
            add_release(a.barrier, (t.told ? released | TOLD : released) - (t.sense + ARRIVAL));
        } else {
            t.told = await_release(a, t);
        }
        if (due) pass_on_stop(a, t);
    }
    bool stop = sees_stop(t);
    if (any_of_block(t.told | stop)) {
        t.stop |= any_of_block(stop);
        t.told = any_of_block(t.told);
    }
    t.master = t.looked = t.took = false;
}
#else
template <class A> MORPH_FN bool arrive(const A& a, Team& t) {
    add_totals(a);
    t.told = false;
    if (alone(t)) {
        barrier_alone(a);
        return t.master = true;
    }
    if (t.thread == 0) poll(a.cursor);
    i64 lost = ticks() - clocks.ticks > MEASURED ? measure() : 0;
    t.sense = add_release(a.barrier, ARRIVAL);
    t.master = (t.sense & ~(RELEASED | TOLD | SLEEPS)) == ARRIVAL * u32(members(t) - 1);
    if (t.master) update_team(t, lost);
    return t.master;
}
template <class A> MORPH_FN void depart(const A& a, Team& t) {
    if (alone(t)) {
    } else if (t.master) {
        if (load(a.barrier) & SLEEPS) store(&released_at, wall_time());
        u32 released = ((t.sense & RELEASED) ^ RELEASED) | (t.told ? TOLD : 0);
        if (__atomic_exchange_n(a.barrier, released, __ATOMIC_ACQ_REL) & SLEEPS) wake(a.barrier, t.threads);
    } else {
        u32 now;
        i64 from = 0;
        for (i32 spins = 0; !(((now = load(a.barrier)) ^ t.sense) & RELEASED); spins++) {
            if (spins == NOTED_SPINS) from = wall_time();
            if (spins < clocks.spins) pause();
            else sleep_at_barrier(a, t, now);
        }
        acquire();
        if (from) clocks.waited += wall_time() - from;
        t.told = now & TOLD;
    }
    t.master = t.looked = t.took = false;
}
// The end of a team: the thread that launched waits until the workers have returned.  Afterwards workers access no
// memory of the launch, since its arguments may be freed.
template <class A> MORPH_FN void await_workers(const A& a, Team& t) {
    if (alone(t)) return barrier_alone(a);
    poll(a.cursor);
    measure();
    u32 now, others = u32(t.threads) - 1;
    for (i32 spins = 0; (now = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE)) != others; spins++) {
        if (spins < clocks.spins) {
            pause();
            continue;
        }
        __atomic_exchange_n(&pool->awaited, 1, __ATOMIC_SEQ_CST);
        sleep_while(&pool->done, now);
        poll(a.cursor);
    }
    store(&pool->awaited, 0);
    if (load(&stopping)) stopped = true;
}
MORPH_FN void end_work(Team& t) {
    i64 lost = measure();
    if (load(&pool->awaited)) note_lost_time(t.threads, lost);
}
#endif

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
        bool due = leads(t) && is_due();
        await_release(a, t);
        if (due) pass_on_stop(a, t);
    } else if (speaks(t) && members(t) == 1) {
        t.sense = is_due() && asked_to_stop(a) ? RELEASED | STOP : 0;
    }
    t.looked = t.took = t.told = false;
    t.stop |= any_of_block(sees_stop(t));
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
