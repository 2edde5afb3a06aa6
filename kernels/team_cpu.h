// Teams of CPU threads: their barrier, their shares of a step's items, and the entry of a unit.  serial_cpu.h defines the
// same names for a single thread.

constexpr i64 LIMIT_FACTOR = 30, LONGEST_LIMIT = 2000000000;  // times the time lost; nanoseconds
constexpr i64 BREAK_EVEN = 15, BREAK_EVEN_ADDING = 45;  // tenths; of steps that add to shared places
constexpr i64 EVALUATION_INTERVAL = 8000000;  // nanoseconds between decisions on a long-lived team
constexpr u64 MEASURE_INTERVAL = 1 << 21;  // ticks between measurements of a thread: 0.5 to 2 ms

static i32 next_threads = 1;  // number of threads from the next step on; written only while a single thread runs
static i64 break_even = BREAK_EVEN;  // of the team's steps
// Joins the team that is being formed, if it is not complete; returns the thread's number, or 0.
MORPH_FN i32 join_team(Pool* p, u32 request) {
    for (u64 c = __atomic_load_n(&p->answers, __ATOMIC_ACQUIRE); u32(c >> 32) == request;) {
        if ((c & 0xffff) >= (c >> 16 & 0xffff)) return 0;
        if (__atomic_compare_exchange_n(&p->answers, &c, c + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return i32(c & 0xffff) + 1;
    }
    return 0;
}
// The number of spins before a thread sleeps: fewer while other processes need the cores.
MORPH_FN i32 spins_now(const Pool* p) {
    return wall_time() - load(&p->contended) < 1000000000 ? SHORT_SPINS : SPINS;
}
static void* run_worker(void* given) {
    Pool* p = (Pool*)given;
    for (u32 seen = 0;;) {
        u32 request = __atomic_load_n(&p->request, __ATOMIC_ACQUIRE);
        i32 most = spins_now(p);
        for (i32 spins = 0; request == seen; request = __atomic_load_n(&p->request, __ATOMIC_ACQUIRE)) {
            if (spins++ < most) {
                pause();
                continue;
            }
            __atomic_fetch_add(&p->sleeping_workers, 1, __ATOMIC_SEQ_CST);
            sleep_while(&p->request, seen);
            __atomic_fetch_sub(&p->sleeping_workers, 1, __ATOMIC_SEQ_CST);
        }
        seen = request;
        i32 thread = join_team(p, request);
        if (!thread) continue;
        for (i32 spins = 0; __atomic_load_n(&p->start, __ATOMIC_ACQUIRE) != request; spins++) {
            if (spins < SHORT_SPINS) {
                pause();
                continue;
            }
            __atomic_fetch_add(&p->sleeping_members, 1, __ATOMIC_SEQ_CST);
            sleep_while(&p->start, request - 1);
            __atomic_fetch_sub(&p->sleeping_members, 1, __ATOMIC_SEQ_CST);
        }
        u32 others = u32(p->team) - 1;
        p->run(p->args, thread, p->team);
        bool last = __atomic_add_fetch(&p->done, 1, __ATOMIC_SEQ_CST) == others;
        if (last && __atomic_load_n(&p->caller_sleeps, __ATOMIC_SEQ_CST)) wake(&p->done, 1);
    }
    return nullptr;
}

// Limits teams to `limit` threads for LIMIT_FACTOR times the time lost.
MORPH_FN void limit_teams(i32 limit, i64 lost) {
    store(&pool->limit, limited(max_of(limit, 1)));
    i64 until = wall_time() + min_of(LIMIT_FACTOR * lost, LONGEST_LIMIT);
    store(&pool->limited_until, max_of(load(&pool->limited_until), until));
}
// Limits teams if a ready thread of a team of n threads did not run for as long as competing processes keep a core.
MORPH_FN void record_lost_time(i32 n, i64 lost) {
    if (lost < LATE) return;
    store(&pool->contended, wall_time());
    limit_teams(n * 3 / 4, lost);
}
MORPH_FN void start_clocks(i32 threads) {
    if (threads > 1) clocks = {wall_time(), processor_time(), 0, 0, ticks(), spins_now(pool)};
}
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
// Decides whether teams are faster than a single thread.  Called by the only thread that runs.
MORPH_COLD void evaluate_team(i64 now) {
    i64 busy = __atomic_exchange_n(&pool->busy, 0, __ATOMIC_RELAXED), lost = now - pool->from - busy * 10 / break_even;
    pool->from = now, break_even = BREAK_EVEN;
    pool->net_loss = max_of(pool->net_loss + lost, i64(0));
    if (pool->net_loss < LATE) return;
    limit_teams(1, pool->net_loss);
    pool->net_loss = 0;
}

// Runs `run(args, i, n)` on the calling thread and n - 1 workers, or on fewer if fewer answer.  Returns false, and has
// run nothing, if no worker answers.
static bool run_team(void (*run)(const void*, i32, i32), const void* args, i32 n) {
    i64 longest = ANSWER_TIME + ANSWER_TIME_PER_THREAD * n, from = wall_time(), now = from;
    u32 request = pool->request + 1;
    if (!request) request = 1;
    pool->run = run, pool->args = args;
    __atomic_store_n(&pool->answers, u64(request) << 32 | u64(n - 1) << 16, __ATOMIC_RELEASE);
    __atomic_exchange_n(&pool->request, request, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleeping_workers, __ATOMIC_SEQ_CST)) wake(&pool->request, n - 1);
    for (; pool->workers < n - 1; pool->workers++, longest += ANSWER_TIME) {
        void* thread;
        if (pthread_create(&thread, nullptr, run_worker, pool)) break;
        pthread_detach(thread);
        from = wall_time();
    }
    u64 c = __atomic_load_n(&pool->answers, __ATOMIC_ACQUIRE);
    for (; i32(c & 0xffff) < min_of(n - 1, pool->workers) && now - from < longest; now = wall_time()) {
        for (i32 k = 0; k < 8; k++) pause();
        c = __atomic_load_n(&pool->answers, __ATOMIC_ACQUIRE);
    }
    while (!__atomic_compare_exchange_n(&pool->answers, &c, (c & ~u64(0xffff0000)) | (c & 0xffff) << 16, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    pool->team = next_threads = i32(c & 0xffff) + 1;
    pool->done = 0;
    pool->from = from, pool->busy = 0;
    if (pool->team < n) limit_teams(pool->team, now - from);
    __atomic_exchange_n(&pool->start, request, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleeping_members, __ATOMIC_SEQ_CST)) wake(&pool->start, n);
    if (pool->team > 1) run(args, 0, pool->team);
    evaluate_team(wall_time());
    return pool->team > 1;
}

// --- the barrier of a team ------------------------------------------------------------------------

template <class T> MORPH_FN bool is_single(const T& t) { return t.threads == 1; }
// The least work (items and their edges) of a step for which a team is started, and the least for which a team is kept.
// An item takes a thread of a team about 1.96 times as long as a single thread, because of atomics and cache misses on
// lines that other threads write; 4.5 times if it adds floats atomically, or uses the old value of an addition.
#ifdef MORPH_FAULTS  // tests: threads meet over few items too
constexpr i32 TEAM_START_ITEMS = 2, LEAST_BATCH = 2, MOST_BATCH = 128;
constexpr i64 QUEUED_AT_ONCE = 2;
MORPH_FN i64 least_chunk() { return 1; }
template <class Step> MORPH_FN i64 team_work() { return 4; }
template <class Step> MORPH_FN i64 kept_work() { return 3; }
#else
constexpr i32 TEAM_START_ITEMS = 512, LEAST_BATCH = 32, MOST_BATCH = 128;
constexpr i64 QUEUED_AT_ONCE = 32;  // items that a thread takes of a queue at most
constexpr i64 LEAST_WORK = 1024, NEVER = 1ll << 50;
MORPH_FN i64 least_chunk() { return team_threads > 32 ? 4 : team_threads > 4 ? 128 / team_threads : 32; }
template <class Step> MORPH_FN i64 team_work() {
    constexpr i32 slower = Step::FETCH_ADDS ? 450 : 196;  // hundredths
    return 100 * team_threads > slower ? LEAST_WORK * 100 * team_threads / (100 * team_threads - slower) : NEVER;
}
template <class Step> MORPH_FN i64 kept_work() { return team_work<Step>() / 4; }
#endif

// Whether a team of another size is to run this step of a program: a single thread runs small steps, without barriers
// and atomic instructions.
template <class A, class R, class Step> MORPH_FN bool step_changes_team(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if (stopped) return true;
    if (t.threads > 1 && t.threads != next_threads) return t.left = true;
    if (team_threads <= 1 || t.replay) return false;
    i64 n = work(a, t, s, first, last);
    t.left = t.threads == 1 ? n >= team_work<Step>() : n < kept_work<Step>();
    if (Step::FETCH_ADDS && !t.left && t.threads > 1) store(&break_even, BREAK_EVEN_ADDING);
    return t.left;
}
// The same for a step with sections, whose work is `work()`.
template <class... Steps, class A, class R, class F> MORPH_FN bool sections_change_team(const A&, R& t, const F& work) {
    if (stopped) return true;
    if (t.threads > 1 && t.threads != next_threads) return t.left = true;
    if (team_threads <= 1 || t.replay) return false;
    constexpr bool ADDS = (Steps::FETCH_ADDS || ...);
    const i64 starts[] = {team_work<Steps>()...}, keeps[] = {kept_work<Steps>()...};
    i64 n = work(), most = 0, least = 0;
    for (i64 x : starts) most = max_of(most, x);
    for (i64 x : keeps) least = max_of(least, x);
    t.left = t.threads == 1 ? n >= most : n < least;
    if (ADDS && !t.left && t.threads > 1) store(&break_even, BREAK_EVEN_ADDING);
    return t.left;
}
// The same for programs whose small steps run on all threads, too.
template <class A, class R> MORPH_FN bool changes_team(const A&, R& t) {
    if (stopped) return true;
    return t.left = t.threads > 1 ? t.threads != next_threads : team_threads > 1 && !t.replay;
}

// Chunks from a cursor, so that a thread with heavy items takes fewer.
struct Share {
    i64 begin, end, first, last, most;
    Pace pace;
    i64* cursor;
    bool alone, polls;
    static constexpr i32 step = 1;  // most loops of a CPU rely on it
    template <class A, class T> MORPH_FN Share(const A& a, const T& t, i64 first, i64 last, i64 limit = 8192)
        : begin(first), end(first), first(first), last(last), cursor(a.cursor + CURSOR_WORDS * t.section),
          alone(t.threads == 1),
          polls(t.thread == 0) {
        most = max_of(min_of((last - first) / (8 * t.threads), limit), least_chunk());
        pace = {most < 64 ? most : most / 32, 0};
        if (most >= 64 && !alone) pace.from = ticks();
    }
    MORPH_FN bool next() {
        if (!alone && begin < end) pace = next_pace(pace, most, polls ? cursor : nullptr);
        begin = alone ? end : first + add_word(cursor, pace.chunk);
        end = alone || begin + pace.chunk > last ? last : begin + pace.chunk;
        return begin < end;
    }
};
MORPH_OF_LAUNCH u32 single_barriers = 0;        // number of barriers of a single thread
static i64 released_at = 0;  // time at which sleeping threads were last woken at the barrier

// The barrier of a single thread.
template <class A> MORPH_FN void barrier_alone(const A& a) {
    if ((++single_barriers & 15) == 0) {
        poll(a.cursor);
        if (full > 1) {
            count_free_cores();
            team_threads = allowed(full);
        }
    }
    if (stopping) stopped = true;
}
// Called by the master of a team's barrier, which was ready but did not run for the time `lost`.
template <class T> MORPH_FN void update_team(T& t, i64 lost) {
    if (load(&stopping)) stopped = true;
    if (t.sense & T::SLEEPS) record_lost_time(t.threads, lost);
    if (clocks.wall - pool->from > EVALUATION_INTERVAL) evaluate_team(clocks.wall);
    if (load(&pool->limit)) next_threads = allowed(full);
}
template <class A, class T> MORPH_COLD void sleep_at_barrier(const A& a, T& t, u32 now) {
    if (!(now & T::SLEEPS) && !__atomic_compare_exchange_n(a.barrier, &now, now | T::SLEEPS, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        return;
    i64 from = wall_time();
    sleep_while(a.barrier, now | T::SLEEPS);
    i64 until = wall_time(), woken = (load(a.barrier) ^ t.sense) & T::RELEASED ? load(&released_at) : until;
    clocks.slept += max_of(woken - from, i64(0));
    if (woken > from) record_lost_time(t.threads, until - woken);
    if (t.thread == 0) poll(a.cursor);
}

// Arrives at the barrier.  Returns true to the last thread to arrive, the master, which runs alone until the release.
template <class A, class T> MORPH_FN bool arrive(const A& a, T& t) {
    flush_partial_sums(a);
    t.broadcast_value = false;
    if (is_single(t)) {
        barrier_alone(a);
        return t.master = true;
    }
    if (t.thread == 0) poll(a.cursor);
    i64 lost = ticks() - clocks.ticks > MEASURE_INTERVAL ? measure() : 0;
    t.sense = add_release(a.barrier, T::ARRIVAL);
    t.master = (t.sense & ~(T::RELEASED | T::BROADCAST | T::SLEEPS)) == T::ARRIVAL * u32(barrier_arrivals(t) - 1);
    if (t.master) update_team(t, lost);
    return t.master;
}
template <bool CROSSED = false, class A, class T> MORPH_FN void release_barrier(const A& a, T& t) {
    if (is_single(t)) {
    } else if (t.master) {
        if (load(a.barrier) & T::SLEEPS) store(&released_at, wall_time());
        u32 released = ((t.sense & T::RELEASED) ^ T::RELEASED) | (t.broadcast_value ? T::BROADCAST : 0);
        if (__atomic_exchange_n(a.barrier, released, __ATOMIC_ACQ_REL) & T::SLEEPS) wake(a.barrier, t.threads);
    } else {
        u32 now;
        i64 from = 0;
        for (i32 spins = 0; !(((now = load(a.barrier)) ^ t.sense) & T::RELEASED); spins++) {
            if (spins == RECORDED_SPINS) from = wall_time();
            if (spins < clocks.spins) pause();
            else sleep_at_barrier(a, t, now);
        }
        acquire();
        if (from) clocks.waited += wall_time() - from;
        t.broadcast_value = now & T::BROADCAST;
    }
    t.master = t.flag_taken = false, t.has_read = 0;
}
// The end of a team: the thread that launched waits until the workers have returned.  Afterwards workers access no
// memory of the launch, since its arguments may be freed.
template <class A, class T> MORPH_FN void await_workers(const A& a, T& t) {
    if (is_single(t)) return barrier_alone(a);
    poll(a.cursor);
    measure();
    u32 now, others = u32(t.threads) - 1;
    for (i32 spins = 0; (now = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE)) != others; spins++) {
        if (spins < clocks.spins) {
            pause();
            continue;
        }
        __atomic_exchange_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
        sleep_while(&pool->done, now);
        poll(a.cursor);
    }
    store(&pool->caller_sleeps, 0);
    if (load(&stopping)) stopped = true;
}
template <class T> MORPH_FN void end_work(T& t) {
    i64 lost = measure();
    if (load(&pool->caller_sleeps)) record_lost_time(t.threads, lost);
}
// --- queues of items that run asynchronously (asynchronous.h) --------------------------------------
//
// A word of the pool has for each thread's queue the positions of its items that no thread has taken, `begin` and `end`.
enum { WAITING = 1 };  // word of `cursor`: the number of threads that have no items

// Takes items of a queue, half of another thread's; returns whether there were any.
MORPH_FN bool take_queued(u64* queued, bool own, i64& begin, i64& end) {
    for (u64 seen = load(queued);;) {
        i64 from = i64(seen >> 32), n = i64(seen & 0xffffffff) - from;
        if (n <= 0) return false;
        n = min_of(own ? n : (n + 1) / 2, QUEUED_AT_ONCE);
        if (!__atomic_compare_exchange_n(queued, &seen, seen + (u64(n) << 32), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
        begin = from, end = from + n;
        return true;
    }
}
// Takes items of this thread's queue, or of another one, while any thread runs items.
template <class A, class R> MORPH_COLD bool find_queued(const A& a, const R& t, i64& begin, i64& end) {
    i64* waiting = a.cursor + WAITING;
    bool waits = false;
    for (Idle idle; !cut_short(a);) {
        for (i32 k = 0; k < t.threads; k++) {
            u64* queued = queued_items((t.thread + k) % t.threads);
            u64 seen = load(queued);
            if (seen >> 32 == (seen & 0xffffffff)) continue;
            if (waits) add_word(waiting, i64(-1)), waits = false;  // before it takes items
            if (take_queued(queued, k == 0, begin, end)) {
                idle.end();
                return true;
            }
        }
        if (!waits) add_word(waiting, i64(1)), waits = true;
        if (load(waiting) == t.threads) {
            idle.end();
            return false;
        }
        if (t.thread == 0) poll(a.cursor);
        for (i32 k = 0; k < 8; k++) idle.wait();
    }
    return false;
}

// --- entry ----------------------------------------------------------------------------------------

// The code of a thread is compiled once, for teams of any size.
MORPH_OF_LAUNCH bool again = false;  // the program is resumed by a team of another size
#define MORPH_ENTRY(NAME)                                                                \
    __attribute__((noinline)) void member(const void* args, i32 thread, i32 threads) {   \
        const Args& a = *(const Args*)args;                                              \
        Run t(a, thread, threads);                                                       \
        run(a, t);                                                                       \
        flush_partial_sums(a);                                                                   \
        if (t.thread != 0) return end_work(t);                                           \
        await_workers(a, t);                                                             \
        if (PUBLISHES) publish_counters(a, t);                                           \
        rewind(a);                                                                       \
        again = t.left && !stopped;                                                      \
    }                                                                                    \
    MORPH_EXPORT i64 NAME(const Args* a, i64 items) {                                    \
        begin_launch(*a);                                                                \
        const bool resumed = items == -1;  /* a program that serial_cpu.h has started */ \
        if (items < -1) items = -2 - items;                                              \
        if (PREPARES && !resumed) prepare(*a);                                           \
        bool few = !resumed && items < TEAM_START_ITEMS;                                 \
        if (team_threads > 1 && few && !has_much_work(*a)) full = team_threads = 1;              \
        bool one = CHANGES_TEAM || team_threads <= 1;                                          \
        do {                                                                             \
            multithreaded = !one;                                                        \
            bool team = !one && run_team(member, a, team_threads);                       \
            multithreaded = false;                                                       \
            if (!one) count_free_cores(), team_threads = allowed(full);                  \
            if (!team) member(a, 0, 1);                                                  \
            one = team_threads <= 1 || (team && CHANGES_TEAM);                                 \
        } while (again);                                                                 \
        end_launch();                                                                    \
        return 0;                                                                        \
    }
