// The same names as in team_cpu.h, for a quick binary whose launches are executed by a single CPU thread.
//
// The entry returns 0 when the program has ended.  With three threads or more it returns early: its items before it has
// run a step of TEAM_COMPILE_ITEMS or more, -1 between later steps.  The host then calls the entry of the binary for
// teams, or, if that cannot be built, this one again, which runs the rest: with -1 to resume, or with -2 minus the items.

MORPH_FN void start_clocks(i32) {}
template <class T> constexpr bool is_single(const T&) { return true; }

constexpr i64 TEAM_COMPILE_ITEMS = MORPH_SERIAL;  // for a step of so many items and more a team is compiled
constexpr u64 LONGEST = u64(TEAM_COMPILE_ITEMS) * (POLL_INTERVAL >> 16);  // ticks that a program runs

template <class A, class R> MORPH_FN bool changes_team(const A& a, R& t) {
    return stopped || (t.left = team_threads > 2 && !t.replay && ticks() - begun > LONGEST);
}
template <class A, class R, class Step> MORPH_FN bool step_changes_team(const A& a, R& t, const Step&, i64 first, i64 last) {
    return changes_team(a, t) || (t.left = team_threads > 2 && !t.replay && last - first >= TEAM_COMPILE_ITEMS);
}
template <class... Steps, class A, class R, class F> MORPH_FN bool sections_change_team(const A& a, R& t, const F&) {
    return changes_team(a, t);
}

template <class Step> MORPH_FN i64 kept_work() { return TEAM_COMPILE_ITEMS; }

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
    flush_partial_sums(a);
    t.broadcast_value = false;
    if ((++single_barriers & 15) == 0) poll(a.cursor);
    if (stopping) stopped = true;
    return t.master = true;
}
template <bool CROSSED = false, class A, class T> MORPH_FN void release_barrier(const A&, T& t) {
    t.master = t.flag_taken = false, t.has_read = 0;
}

#define MORPH_ENTRY(NAME)                                                                             \
    MORPH_EXPORT i64 NAME(const Args* args, i64 items) {                                              \
        const Args& a = *args;                                                                        \
        begin_launch(a);                                                                              \
        const bool resumed = items == -1;                                                             \
        if (items < 0) team_threads = 1;  /* there is no binary for teams */                          \
        if (items < -1) items = -2 - items;                                                           \
        bool left = team_threads > 2 && !CHANGES_TEAM && !a.replay && items >= TEAM_COMPILE_ITEMS;          \
        if (a.replay && a.high_degree && (load(a.high_degree + LISTED) || has_high_degree_list(a))) { \
            left = true, items = -1;  /* begun by a team, whose list of long rows has entries */      \
        }                                                                                             \
        if (!left) {                                                                                  \
            if (PREPARES && !resumed) prepare(a);                                                     \
            Run t(a, 0, 1);                                                                           \
            run(a, t);                                                                                \
            flush_partial_sums(a);                                                                            \
            if (stopping) stopped = true;                                                             \
            if (PUBLISHES) publish_counters(a, t);                                                    \
            rewind(a);                                                                                \
            items = -1, left = t.left && !stopped;                                                    \
        }                                                                                             \
        end_launch();                                                                                 \
        return left ? items : 0;                                                                      \
    }
