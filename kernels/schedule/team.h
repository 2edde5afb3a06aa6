// The team: all threads of a launch, their barrier, and how they share out a range of items.
//
// Invariant of the barrier: one word, whose middle bits count the arrivals and are 0 between barriers,
// and whose sign flips when all are released; so it needs no reset, whatever the size of the team.
// Between `arrive` and `release_barrier` the master alone runs: nobody is before the barrier, nobody after it.
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

struct Team {
    enum : u32 { RELEASED = 0x80000000u };  // the sign
    enum : u32 { BROADCAST = 1u };               // what the master told; below the count, where no borrow gets
    enum : u32 { SLEEPS = 2u, STOP = 2u };  // on a CPU; on a GPU
    enum : u32 { ARRIVAL = 4u };
    i32 thread, threads;
    bool replay;  // run only the deferred items
    bool master;  // between arrive and depart: this thread runs alone, the last to come
    bool broadcast_value;    // what the master told at the last barrier
    u32 sense;    // the barrier word when this thread arrived
    u32 round;    // of claims
    i32 launch;   // what single(row) compares: the launch, or below 0 a step of a program
    bool has_read;  // all have read what a step may write: a barrier first
    bool flag_taken;    // all have read a flag: a barrier before it is taken again
    bool left;    // a program stands before a step that a team of another size is to run
    bool stop = false;  // on a GPU: the host has requested a stop, and all blocks have seen the request

    template <class A> MORPH_FN Team(const A& a, i32 thread, i32 threads)
        : thread(thread), threads(threads), replay(a.replay), master(false), broadcast_value(false),
          sense(0), round(0), launch(i32(a.launch)), has_read(false), flag_taken(false), left(false) {
        start_clocks(threads);
    }
};

// What a program ends with: for a launch that goes on with it, and for the host, which on a GPU need not
// fetch it.  There `report` is memory of the host's: the status, then the state.
constexpr i32 REPORTED = 64;
template <class A> MORPH_FN void end_with(const A& a, i32 variable, i64 x) {
    store(a.state + VARS + variable, x);
    if (i64* report = host_report(a)) report[REPORTED + VARS + variable] = x;
}
template <class A> MORPH_FN void report(const A& a, u32 round) {
    i64* report = host_report(a);
    if (!report) return;
    report[FAILED] = load(a.status + FAILED);
    report[ROUND] = round;
}

// The i-th of some numbers.
template <i32 FIRST, i32... MORE> MORPH_FN i32 one_of(i32 i) {
    if constexpr (sizeof...(MORE) == 0) return FIRST;
    else return i == 0 ? FIRST : one_of<MORE...>(i - 1);
}

// By the master, before it departs; `t.told` is then the same for all.
MORPH_FN void broadcast(Team& t, bool x) { t.broadcast_value = x; }

// A flag has three words that take turns: one is read, one is written, one is being cleared; so taking
// it needs no barrier of its own, only one since it was last taken.
template <class A> MORPH_FN bool take_flag(const A& a, Team& t, i32* flag, i32& turn) {
    if (t.flag_taken) barrier(a, t);
    bool was = load(flag + turn);
    if (t.thread == 0) store(flag + (turn + 2) % 3, 0);
    turn = (turn + 1) % 3;
    t.flag_taken = true;
    return was;
}
MORPH_FN void rest_flag(i32* flag, i32 turn) {  // between launches word 0 holds it
    i32 was = load(flag + turn);
    for (i32 i = 0; i < 3; i++) store(flag + i, i ? 0 : was);
}
