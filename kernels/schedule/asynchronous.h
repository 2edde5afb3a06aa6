// Asynchronous execution: a thread may run an item that it adds to the next step's list within the current step.
//
// While a step has few items, a warp (on a CPU: a thread) enqueues the items that it adds in a queue of its own, and
// runs them before the barrier, for at most ASYNCHRONOUS_ROUNDS; after that, items are added to the list, so that
// no item is left in a queue.  A GPU's warp does the same after its part of the high-degree list; long rows that it
// then finds are appended to the other side of that list, and are shared next.
//
// The queues lie in the unused capacity of the list that is being read, behind its items: a queued item is an item
// of that list like any other.
// Invariant: an item without capacity keeps its position, where the re-execution, or the deferred range of its row,
// finds it: from then on its warp or thread enqueues nothing, and a re-execution is never asynchronous.

#if defined(MORPH_FAULTS)  // tests: small lists have capacity for queues
constexpr i32 ASYNCHRONOUS_ROUNDS = 3, QUEUE_CAPACITY = 2, MAX_ASYNCHRONOUS_ITEMS = 8, KNOWN_ROW = 3;
constexpr i64 SINGLE_THREAD_ITEMS = 3;
#else
constexpr i32 ASYNCHRONOUS_ROUNDS = TARGET_GPU ? 16 : 1024;  // rounds of entries of a warp; items of a thread
constexpr i64 SINGLE_THREAD_ITEMS = 1 << 14;                    // items of a single thread, if a team could run instead
constexpr i32 QUEUE_CAPACITY = TARGET_GPU ? 32 : 1 << 20;   // of each of a warp's two queues; most of a thread's
constexpr i32 MAX_ASYNCHRONOUS_ITEMS = 8;   // of a batch: with more items, all warps are busy anyway
constexpr i32 KNOWN_ROW = 64;    // entries of a row for `run_known_rows`
#endif

// A warp's queue; besides the items it holds their adjacency rows, if the step knows them (KNOWS_ROWS).
struct WarpQueue {
    struct Row {
        i64 begin;
        i32 size, item;  // the size is clamped: larger than any round
    };
    i32 first = 0, capacity = 0, side = 0;
    i32 item = -1;  // the value of the item in the list, if known
    Entries row;    // of `to`, the item that is enqueued next; not waited for before
    i32 to = -1;
    static MORPH_FN i32& taken() {
        MORPH_SHARED i32 counts[256 / 32];
        return counts[warp_of_block()];
    }
    static MORPH_FN Row* rows(i32 side) {
        struct alignas(16) Aligned {
            u32 word[4];
        };
        MORPH_SHARED Aligned words[256 / 32][2 * QUEUE_CAPACITY];
        return (Row*)words[warp_of_block()] + side * QUEUE_CAPACITY;
    }
    MORPH_FN void open(i64 queue, i32 turn, i32 places) {  // by all lanes
        first = i32(queue) + turn * QUEUE_CAPACITY, capacity = places, side = turn;
        if (lane_id() == 0) taken() = 0;
        sync_warp();
    }
    MORPH_FN i32 size() const {
        sync_warp();
        i32 n = taken();
        sync_warp();
        return n < capacity ? n : capacity;
    }
    MORPH_FN i32 place() const {
        if (SINGLE_BLOCK || !capacity) return -1;
        i32 k = fetch(Plus(), &taken(), 1);
        if (k >= capacity) return -1;
        rows(side)[k] = {row.begin, i32(min_of(row.end - row.begin, i64(1 << 25))), to};
        return first + k;
    }
};

// A thread's queue: consecutive positions of the list's memory.
struct Queue {
    i64 next, end;
    MORPH_HOT bool has_slot() {
        if (next < end) return true;
        close();
        return false;
    }
    void close() { end = 0; }  // for the rest of the step: later items must not run before earlier ones
};
struct ThreadQueue {
    Queue* queue = nullptr;
    MORPH_HOT bool has_slot() const { return queue && queue->has_slot(); }
    MORPH_HOT i32 take_slot() const { return narrow_slot(queue->next++); }
    MORPH_HOT i32 place() const { return has_slot() ? take_slot() : -1; }
};
typedef Choose<TARGET_GPU, WarpQueue, ThreadQueue> AsynchronousQueue;

#ifdef __CUDACC__
// Where the queues of batch `number` begin, and how many rounds they may fill: none if they do not fit.
template <class A, class R, class Step> struct Queues {
    i64 first;
    i32 depth;
    MORPH_FN Queues(const A& a, const R& t, const Step& s, i64 last, i64 number)
        : first(last + number * 2 * QUEUE_CAPACITY) {
        i64 end = t.replay ? 0 : load_stable(s.list(a, t) + CAPACITY);
        depth = first + 2 * QUEUE_CAPACITY <= end ? ASYNCHRONOUS_ROUNDS : 0;
    }
};

// Forces a load to be issued here, however late its value is used.
template <class T> MORPH_FN T loaded(const T& x) {
    union Registers {
        u32 word[sizeof(T) / 4];
        T value;
        MORPH_FN Registers() {}
    } all;
    all.value = x;
    MORPH_UNROLL_ALL for (i32 i = 0; i < i32(sizeof(T) / 4); i++) pin(all.word[i]);
    return all.value;
}

// Whether this lane is one of the first `size`, and its item passes the filter.
template <class A, class Step, class I> MORPH_FN bool open_batch(const A& a, const Step& s, I& it, i32 size) {
    if (lane_id() >= size) return false;
    if (s.open(a, it)) return true;
    end_item(a, it);
    return false;
}

// Runs a batch whose rows are known: each item has the same number of lanes, so no prefix sum is needed, and the
// other ends of entries are prefetched before the filter runs: the latency of a single warp is not hidden by others.
// Calls `open` with the number of rounds.
template <class A, class R, class Step, class I, class Open>
MORPH_FN void run_known_rows(const A& a, R& t, const Step& s, I& it, const WarpQueue::Row* rows, i32 size,
                             Runner<Step>& by, const Open& open) {
    i32 bits = leading_zeros(size - 1) - 27, lanes = 1 << bits, owner_lane = lane_id() >> bits, first = lane_id() & (lanes - 1);
    WarpQueue::Row part = owner_lane < size ? rows[owner_lane] : WarpQueue::Row{0, 0, 0};
    constexpr i32 MOST = Step::LIMIT ? KNOWN_ROW : 0;
    i32 most = max_of_lanes(part.size), rounds = (most + lanes - 1) >> bits;
    if (rounds > PREFETCHED || most > MOST) {
        open(PREFETCHED);
        return share_batch(a, t, s, it, open_batch(a, s, it, size), by);
    }
    typename Step::Reach next[PREFETCHED]{};
    part.begin += first, part.size -= first;  // this lane's first entry, and the number of entries from there on
    if (part.size > 0) next[0] = loaded(s.reach(a, part.begin));
    if (rounds > 1) {
        MORPH_UNROLL_ALL for (i32 j = 1; j < PREFETCHED; j++)
            if (j * lanes < part.size) next[j] = loaded(s.reach(a, part.begin + j * lanes));
    }
    open(rounds);
    if (lane_id() < size) it.asynchronous.item = rows[lane_id()].item;
    bool active = open_batch(a, s, it, size);
    Entries row;
    typename Step::LiveIn live_in{};
    typename Step::LiveOut live_out{};
    bool reaches_loop = active && s.prologue(a, it, row, live_in, live_out);
    if (!active) it.failed = 0;  // the item has ended; its lane runs other items' entries
    if (!(ballot(ALL_LANES, reaches_loop) >> owner_lane & 1)) part.size = 0;
    typename Step::LiveIn owner_live_in = from_lane(live_in, owner_lane);
    if constexpr (Step::BATCHED) {
        if (rounds && !by.has_capacity(a, s, rounds)) {
            rounds = 0;
            row = Entries();
            if (reaches_loop) row.begin = rows[lane_id()].begin, row.end = row.begin + rows[lane_id()].size;
            defer(a, t, s, row, live_in);
        }
    }
    MORPH_UNROLL_NONE for (i32 j = 0; j < rounds; j++) {
        typename Step::Reach reached = nth_of(next, j);
        typename Step::Reductions reductions;
        if (j * lanes < part.size) {
            reserving_item(by, it).asynchronous.row = loaded(s.row_of(a, reached));
            reserving_item(by, it).asynchronous.to = reached.end;
            s.body(a, reserving_item(by, it), owner_live_in, reached, reductions);
        }
        sync_warp();
    }
    end_item(a, it);
}

// Runs the items of the first queue, and the items that these enqueue, in turn.
template <class A, class R, class Step, class I>
MORPH_FN void run_queue(const A& a, R& t, const Step& s, I& it, i64 queue, i32 depth, bool failed, Runner<Step>& by) {
    i32 turn = 0;
    for (i32 n = reserving_item(by, it).asynchronous.size(); n;) {
        I next(a, t, queue + turn * QUEUE_CAPACITY + lane_id());
        if (by.it.failed) {
            if (lane_id() < n) mark_deferred(a.status, a.deferred, next);
            return;
        }
        turn ^= 1;
        auto& added = reserving_item(by, next).asynchronous;
        auto open = [&](i32 rounds) {
            depth -= max_of(rounds, 1);
            added.open(queue, turn, depth > 0 && !failed ? QUEUE_CAPACITY : 0);
        };
        if constexpr (Step::KNOWS_ROWS) {
            run_known_rows(a, t, s, next, WarpQueue::rows(turn ^ 1), n, by, open);
        } else {
            open(1);
            share_batch(a, t, s, next, open_batch(a, s, next, n), by);
        }
        failed |= any_lane(next.failed | by.it.failed);
        n = added.size();
    }
}

// Runs a batch and the items that it enqueues; `number` is the batch's in this step.
template <class A, class R, class Step, class I>
MORPH_FN void run_asynchronously(const A& a, R& t, const Step& s, I& it, bool mine, i32 size, i64 last, i64 number,
                        Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, last, number);
    i32 depth = size <= MAX_ASYNCHRONOUS_ITEMS ? queues.depth : 0;
    reserving_item(by, it).asynchronous.open(queues.first, 0, depth ? QUEUE_CAPACITY : 0);
    share_batch(a, t, s, it, mine && open(a, t, s, it), by);
    run_queue(a, t, s, it, queues.first, depth, any_lane(it.failed | by.it.failed), by);
}

// The same for items that a warp adds while it runs its part of the high-degree list.
template <class A, class R, class Step>
MORPH_FN void open_queue(const A& a, const R& t, const Step& s, Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, s.behind(a, t), warp_id());
    by.it.asynchronous.open(queues.first, 0, queues.depth ? QUEUE_CAPACITY : 0);
}
template <class A, class R, class Step> MORPH_FN void end_queue(const A& a, R& t, const Step& s, Runner<Step>& by) {
    Queues<A, R, Step> queues(a, t, s, s.behind(a, t), warp_id());
    run_queue(a, t, s, by.it, queues.first, queues.depth, any_lane(by.it.failed), by);
}
#endif

// --- on a CPU -------------------------------------------------------------------------------------

#ifndef MORPH_SERIAL
// Runs the items and those that they enqueue.
template <class A, class R, class Step>
MORPH_LOOP void each_asynchronously(const A& a, R& t, const Step& s, i64 first, i64 last) {
    i64 end = load(s.list(a, t) + CAPACITY);
    if (t.replay) last = end;
    i64 capacity = min_of((end - last) / t.threads, i64(QUEUE_CAPACITY)), from = last + t.thread * capacity;
    Queue queue{from, t.replay ? 0 : from + capacity};
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    caches.attach(by.it);
    by.it.asynchronous.queue = &queue;
    i64 left = ASYNCHRONOUS_ROUNDS;
    Share share(a, t, first, last);
    for (bool listed = true;;) {
        if (listed && share.begin == share.end && !share.next()) listed = false, share.begin = from;
        if (!listed && share.begin == queue.next) break;
        typename Step::I it(a, t, share.begin++);
        it.asynchronous.queue = &queue;
        caches.attach(it);
        if (by.it.failed) {
            if (!t.replay) mark_deferred(a.status, a.deferred, it);
        } else if (open(a, t, s, it)) {
            run_shared(a, t, s, it, by);
            if (it.failed | by.it.failed) queue.close();
        }
        if (--left <= 0) queue.close();
    }
    by.end(a, s);
    caches.flush();
}

#endif
// The place of an atomic min/max: while few items run, it is not tested first whether the operation has an effect.
template <class T> struct UntestedPlace {
    T* p;
    bool few;
};
template <class T> MORPH_FN UntestedPlace<T> untested(const WarpQueue& queue, T* p) { return {p, SINGLE_BLOCK || queue.capacity != 0}; }
template <class T> MORPH_FN T* untested(const ThreadQueue&, T* p) { return p; }
template <class Op, class T> MORPH_FN T fetch(Op op, UntestedPlace<T> x, T v) {
    return x.few ? fetch_untested(op, x.p, v) : fetch(op, x.p, v);
}
MORPH_ATOMIC_AT(atomic_min, Min, UntestedPlace<T>)
MORPH_ATOMIC_AT(atomic_max, Max, UntestedPlace<T>)

// The value of an item in its list.
template <class C> MORPH_FN i32 item_of(const WarpQueue& queue, const C& column, i64 row) {
    return !SINGLE_BLOCK && queue.item >= 0 ? queue.item : column.get(row);
}
template <class C> MORPH_FN i32 item_of(const ThreadQueue&, const C& column, i64 row) { return column.get(row); }

// The position of an added item: in the queue, or in the list.
struct Place {
    i32 row;
    bool asynchronous;
    MORPH_HOT Place(const WarpQueue& queue, i64* meta, Reservation& reservation)
        : row(queue.place()), asynchronous(row >= 0) {
        if (!asynchronous) row = Slots(meta, 1, reservation).first();
    }
    MORPH_HOT Place(const ThreadQueue& queue, i64* meta, Reservation& reservation)
        : asynchronous(queue.has_slot()) {
        row = asynchronous ? queue.take_slot() : Slots(meta, 1, reservation).first();
    }
    MORPH_FN i32 first() const { return row; }
};
