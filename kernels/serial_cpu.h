// The same names as in team_cpu.h, for a quick binary whose launches are executed by a single CPU thread.
//
// The entry returns 0 at the end.  Before a step for which a team would be much faster, and between steps that have run
// for some time, it returns the number of items with which the host calls the entry of the binary for teams: -1 if that
// entry resumes the program.

MORPH_FN void start_clocks(i32) {}
template <class T> constexpr bool is_single(const T&) { return true; }

constexpr i64 LEAST_WORK = MORPH_SERIAL, NEVER = 1ll << 50;  // a team is compiled only for steps of 10 ms and more
constexpr u64 LONGEST = u64(LEAST_WORK) * (POLL_INTERVAL >> 20);  // ticks that a program runs, if teams have 3 threads
template <class Step> MORPH_FN i64 team_work() {
    constexpr i32 slower = Step::FETCH_ADDS ? 450 : 196;  // as for teams
    return 100 * team_threads > slower ? LEAST_WORK * 100 * team_threads / (100 * team_threads - slower) : NEVER;
}
template <class Step> MORPH_FN i64 kept_work() { return NEVER; }

static u64 begun = 0;  // the time, in ticks, at which the launch began
template <class A, class R> MORPH_FN bool resizes(const A& a, R& t) {
    return stopped || (t.left = team_threads > 2 && !t.replay && ticks() - begun > LONGEST);
}
template <class A, class R, class Step> MORPH_FN bool leaves(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if (resizes(a, t)) return true;
    return t.left = team_threads > 1 && !t.replay && work(a, t, s, first, last) >= team_work<Step>();
}
template <class... Steps, class A, class R, class F> MORPH_FN bool sections_resize(const A& a, R& t, const F& work) {
    if (resizes(a, t)) return true;
    const i64 starts[] = {team_work<Steps>()...};
    i64 most = 0;
    for (i64 x : starts) most = max_of(most, x);
    return t.left = team_threads > 1 && !t.replay && work() >= most;
}

struct Share {  // all items at once
    i64 begin, end, last;
    static constexpr i32 step = 1;
    template <class A, class T> MORPH_FN Share(const A&, const T&, i64 first, i64 last, i64 = 0)
        : begin(first), end(first), last(last) {}
    MORPH_FN bool next() {
        begin = end, end = last;
        return begin < end;
    }
};

MORPH_OF_LAUNCH u32 single_barriers = 0;
template <class A, class T> MORPH_FN bool arrive(const A& a, T& t) {
    add_totals(a);
    t.broadcast_value = false;
    if ((++single_barriers & 15) == 0) poll(a.cursor);
    if (stopping) stopped = true;
    return t.master = true;
}
template <bool CROSSED = false, class A, class T> MORPH_FN void release_barrier(const A&, T& t) {
    t.master = t.flag_taken = false, t.has_read = 0;
}

#define MORPH_ENTRY(NAME)                                                                               \
    MORPH_EXPORT i64 NAME(const Args* args, i64 items) {                                                \
        const Args& a = *args;                                                                          \
        begin_launch(a);                                                                                \
        begun = handled;                                                                                \
        bool left = team_threads > 2 && !PHASES && !a.replay && items > 0;                               \
        left = left && (items > LEAST_WORK || heavy(a));                                                \
        if (a.replay && a.high_degree && (load(a.high_degree + LISTED) || has_high_degree_list(a))) {   \
            left = true, items = -1;  /* begun by a team, whose list of long rows has entries */        \
        }                                                                                               \
        if (!left) {                                                                                    \
            if (PREPARES) prepare(a);                                                                   \
            Run t(a, 0, 1);                                                                             \
            run(a, t);                                                                                  \
            add_totals(a);                                                                              \
            if (stopping) stopped = true;                                                               \
            if (PUBLISHES) publish_counters(a, t);                                                      \
            rewind(a);                                                                                  \
            items = -1, left = t.left && !stopped;                                                      \
        }                                                                                               \
        end_launch();                                                                                   \
        return left ? items : 0;                                                                        \
    }
