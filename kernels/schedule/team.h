// The team: all threads of a launch, their barrier, and how they divide a range of items.
//
// Invariant of the barrier: one word, whose middle bits count the arrivals and are 0 between barriers, and whose sign
// flips at each release; so the word needs no reset, whatever the size of the team.
// Between `arrive` and `release_barrier` only the master runs: no thread is still before the barrier or already after
// it.  All threads can read the master's stores until they arrive at the next barrier; the release itself broadcasts
// one bit, which no thread has to load.
// Every thread of the team must arrive at every barrier: no return before one.
// A launch of one block of a GPU uses the block's barrier only, not that word.
//
// A CPU thread that has spun long enough at the barrier sets SLEEPS and sleeps: then the master wakes all threads.
// On a GPU block 0 adds STOP to the word, if the host has requested a stop, after its release from a barrier that
// leaves the sign 0; and each block tests STOP in the value that its own arrival returned at a barrier with the sign 1.
// Between addition and test all blocks arrive at one barrier, and STOP is not added before all have arrived at the
// next one, so all blocks see STOP at the same barrier.  (The value at a block's release may differ between blocks:
// block 0 may already have continued.)

struct Team {
    enum : u32 { RELEASED = 0x80000000u };  // the sign
    enum : u32 { BROADCAST = 1u };               // the broadcast value; below the count, so that no borrow reaches it
    enum : u32 { SLEEPS = 2u, STOP = 2u };  // on a CPU; on a GPU
    enum : u32 { ARRIVAL = 4u };
    static constexpr i32 SECTIONS = 1, section = 0;  // of a step: how many it has at most, and the one being run
#ifdef MORPH_SERIAL
    static constexpr i32 thread = 0, threads = 1;
#else
    i32 thread, threads;
#endif
    bool replay;  // run only the deferred items
    bool master;  // between arrival and release: whether this thread, the last to arrive, runs alone
    bool broadcast_value;    // the value that the master broadcast at the last barrier
    u32 sense;    // the barrier word when this thread arrived
    u32 round;    // of claims
    i32 launch;   // compared by single(row): the launch, or, below 0, a step of a program
    u32 has_read;  // bits of memory read since the last barrier: one precedes a step that may write it
    bool flag_taken;    // threads have read a flag: a barrier precedes its next take
    bool left;    // a team of another size is to run the next step of the program
    bool stop = false;  // on a GPU: the host has requested a stop, and all blocks have seen the request
    i32 cursor = 0;  // on a GPU: which cursor the next step takes its batches from, see balance.h

    template <class A> MORPH_FN Team(const A& a, i32 thread, i32 threads)
        :
#ifndef MORPH_SERIAL
          thread(thread), threads(threads),
#endif
          replay(a.replay), master(false), broadcast_value(false), sense(0), round(0), launch(i32(a.launch)), has_read(0), flag_taken(false), left(false) {
        start_clocks(threads);
    }
};

// The final value of a program's variable: for the launch that resumes the program, and for the host.  On a GPU
// `report` is memory of the host, which needs no copy: the status, then the state.
constexpr i32 REPORTED = 64;
template <class A> MORPH_FN void store_variable(const A& a, i32 variable, i64 x) {
    store(a.state + VARS + variable, x);
    if (i64* report = host_report(a)) report[REPORTED + VARS + variable] = x;
}
template <class A> MORPH_FN void report(const A& a, u32 round) {
    i64* report = host_report(a);
    if (!report) return;
    report[FAILED] = load(a.status + FAILED);
    report[ROUND] = round;
    announce(report + ENDED, a.launch);  // the host polls it
}

// Selects the i-th of some constants.
template <i32 FIRST, i32... MORE> MORPH_FN i32 one_of(i32 i) {
    if constexpr (sizeof...(MORE) == 0) return FIRST;
    else return i == 0 ? FIRST : one_of<MORE...>(i - 1);
}

// By the master, before the release; `t.broadcast_value` is then the same for all.
MORPH_FN void broadcast(Team& t, bool x) { t.broadcast_value = x; }

// A flag has three words in rotation: one is read, one is written, one is being cleared; so `take` needs no barrier
// of its own, only one since the flag was last taken.
template <class A> MORPH_FN bool take_flag(const A& a, Team& t, i32* flag, i32& turn) {
    if (t.flag_taken) barrier(a, t);
    bool was = load(flag + turn);
    if (t.thread == 0) store(flag + (turn + 2) % 3, 0);
    turn = (turn + 1) % 3;
    t.flag_taken = true;
    return was;
}
MORPH_FN void store_flag(i32* flag, i32 turn) {  // between launches word 0 holds the value
    i32 was = load(flag + turn);
    for (i32 i = 0; i < 3; i++) store(flag + i, i ? 0 : was);
}
