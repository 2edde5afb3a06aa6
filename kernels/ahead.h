// Running ahead: whoever adds an item to the list of the next step may run it in this one.
//
// While a step has few items, a warp (on a CPU: a thread) lays what it adds into a queue of its own and
// runs that, too, before it comes to the barrier: as much as AHEAD allows; from then on what is added goes
// to the list as ever, so that nothing is left in a queue.  A GPU's warp does the same behind its part of the
// rows that all share; long rows that it finds then come to the list's other side, and are shared out next.
//
// The queues lie in the free room of the list that is being read, behind its items: what runs there is
// an item of that list like any other.
// Invariant: an item that finds no room keeps its place, where the replay, or what is left of its row,
// finds it: from then on its warp or thread lays nothing into the queue, and in a replay nobody runs ahead.

#if defined(MORPH_FAULTS)  // tests: small lists have room
constexpr i32 AHEAD = 3, AHEAD_ROOM = 2, AHEAD_MOST = 8;
constexpr i64 ALONE_AHEAD = 3;
#elif defined(__CUDACC__)
constexpr i32 AHEAD = 8;        // tiles that a warp runs so
constexpr i32 AHEAD_ROOM = 32;  // of a queue: one of two that take turns
constexpr i32 AHEAD_MOST = 8;   // items of a tile; if there are more, all warps have enough to do
#else
constexpr i32 AHEAD = 1024;          // items that a thread runs so
constexpr i64 ALONE_AHEAD = 1 << 14;  // the same if others wait for it
constexpr i32 AHEAD_ROOM = 1 << 20;  // of a queue, at most
#endif

#ifdef __CUDACC__

// Where a warp lays what it adds.
struct Ahead {
    i32 first = 0, room = 0;
    static MORPH_FN i32& taken() {
        __shared__ i32 counts[256 / 32];
        return counts[threadIdx.x / 32];
    }
    MORPH_FN void open(i32 at, i32 places) {  // by all lanes
        first = at, room = places;
        if ((threadIdx.x & 31) == 0) taken() = 0;
        __syncwarp();
    }
    MORPH_FN i32 size() const {
        __syncwarp();
        i32 n = taken();
        __syncwarp();
        return n < room ? n : room;
    }
    MORPH_FN i32 place() const {
        if (!room) return -1;
        i32 k = atomicAdd(&taken(), 1);
        return k < room ? first + k : -1;
    }
};

// Where a warp's queues begin, the `number` of them, and how often it may fill one: not if they do not fit.
template <class A, class R, class Step> struct Queues {
    i64 first;
    i32 depth;
    MORPH_FN Queues(const A& a, const R& t, const Step& s, i64 last, i64 number) : first(last + number * 2 * AHEAD_ROOM) {
        i64 end = t.replay ? 0 : load_settled(s.list(a, t) + CAPACITY);
        depth = first + 2 * AHEAD_ROOM <= end ? AHEAD : 0;
    }
};

// Runs what lies in the first queue, where `by` or `it` has laid it, and what follows from that.
template <class A, class R, class Step, class I>
MORPH_FN void run_queue(const A& a, R& t, const Step& s, I& it, i64 queue, i32 depth, bool failed, Runner<Step>& by) {
    i32 turn = 0;
    for (i32 n = bearer(by, it).ahead.size(); n; depth--) {
        I next(a, t, queue + turn * AHEAD_ROOM + lane_id());
        if (by.it.failed) {
            if (lane_id() < n) leave(a.status, a.pending, next);
            return;
        }
        turn ^= 1;
        Ahead& added = bearer(by, next).ahead;
        added.open(i32(queue) + turn * AHEAD_ROOM, depth > 1 && !failed ? AHEAD_ROOM : 0);
        bool here = lane_id() < n && s.open(a, next);
        if (lane_id() < n && !here) end_item(a, next);
        tile(a, t, s, next, here, n, by);
        failed |= __any_sync(ALL_LANES, next.failed | by.it.failed);
        n = added.size();
    }
}

// Runs a tile, and what follows from it; `number` of the tile in this step.
template <class A, class R, class Step, class I>
MORPH_FN void run_ahead(const A& a, R& t, const Step& s, I& it, bool mine, i32 size, i64 last, i64 number,
                        Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, last, number);
    i32 depth = size <= AHEAD_MOST ? queues.depth : 0;
    bearer(by, it).ahead.open(i32(queues.first), depth ? AHEAD_ROOM : 0);
    tile(a, t, s, it, mine && open(a, t, s, it), size, by);
    run_queue(a, t, s, it, queues.first, depth, __any_sync(ALL_LANES, it.failed | by.it.failed), by);
}

// The same for what a warp adds while it runs its part of the rows that all share.
template <class A, class R, class Step> MORPH_FN void open_queue(const A& a, const R& t, const Step& s, Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, s.behind(a, t), warp_id());
    by.it.ahead.open(i32(queues.first), queues.depth ? AHEAD_ROOM : 0);
}
template <class A, class R, class Step> MORPH_FN void end_queue(const A& a, R& t, const Step& s, Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, s.behind(a, t), warp_id());
    run_queue(a, t, s, by.it, queues.first, queues.depth, __any_sync(ALL_LANES, by.it.failed), by);
}

#else

// A thread's queue: the items first, first + 1, ... of the list's memory.
struct Queue {
    i64 next, end;
    i32 place() {
        if (next < end) return i32(next++);
        close();
        return -1;
    }
    void close() { end = 0; }  // for good: what is added later is not run before what was
};
struct Ahead {
    Queue* queue = nullptr;
    i32 place() const { return queue ? queue->place() : -1; }
};

// Runs the items, and what follows from them.
template <class A, class R, class Step>
MORPH_LOOP void each_ahead(const A& a, R& t, const Step& s, i64 first, i64 last) {
    i64 end = load(s.list(a, t) + CAPACITY);
    if (t.replay) last = end;
    i64 room = min_of((end - last) / t.threads, i64(AHEAD_ROOM)), from = last + t.thread * room;
    Queue queue{from, t.replay ? 0 : from + room};
    Runner<Step> by(a, t, s);
    typename Step::I::Stocks stocks;
    stocks.serve(by.it);
    by.it.ahead.queue = &queue;
    i64 left = AHEAD;
    Share share(a, t, first, last);
    for (bool listed = true;;) {
        if (listed && share.begin == share.end && !share.next()) listed = false, share.begin = from;
        if (!listed && share.begin == queue.next) break;
        typename Step::I it(a, t, share.begin++);
        it.ahead.queue = &queue;
        stocks.serve(it);
        if (by.it.failed) {
            if (!t.replay) leave(a.status, a.pending, it);
        } else if (open(a, t, s, it)) {
            run_spread(a, t, s, it, by);
            if (it.failed | by.it.failed) queue.close();
        }
        if (--left <= 0) queue.close();
    }
    by.end(a, s);
    stocks.flush();
}

#endif

// A place for what is added: in the queue, or in the list.
struct Place {
    i32 row;
    bool ahead;
    MORPH_HOT Place(const Ahead& queue, i64* meta, Room& room) : row(queue.place()), ahead(row >= 0) {
        if (!ahead) row = Slots(meta, 1, room).first();
    }
    MORPH_FN i32 first() const { return row; }
};
