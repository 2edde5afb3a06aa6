// Warp execution: the lanes of a GPU's warp execute an item together; see passes/warp_execution.py.
//
// A `Step` whose items warps execute has
//     run_by_warp(a, it)     the kernel for each lane of the warp; only on a GPU
// Invariant: outside of divided loops all lanes have equal locals and take the same branches.  `it` holds the
// reservations and the failure of the first lane; after each failure all lanes have `it.failed`.
//
// On a CPU an item runs on one thread.

#ifdef __CUDACC__
// Lane 0 calls f; the result is broadcast.  All lanes then see the writes of f.
template <class F> MORPH_FN auto by_leader(const F& f) -> decltype(f()) {
    decltype(f()) x{};
    if (lane_id() == 0) x = f();
    sync_warp();
    return from_lane(x, 0);
}
// Reserves by the first lane.
template <class I, class F> MORPH_FN bool reserve_by_warp(I& it, const F& f) {
    bool done = by_leader(f);
    it.failed = from_lane(it.failed, 0);
    return done;
}
template <class T, i32 N>
MORPH_FN bool add_by_warp(InlineLocal<T, N>& x, Value<T> value, ItemBase& it, i64* status) {
#ifdef MORPH_FAULTS
    bool full = by_leader([&] { return injected(status, it); }) || x.n >= N;
#else
    bool full = x.n >= N;
#endif
    if (!full) x.v[x.n++] = value;
    else it.failed = -1;
    return !it.failed;
}
template <class T, i32 N> MORPH_FN void fill_with(InlineLocal<T, N>& x, Value<T> value) {
    MORPH_UNROLL for (i32 i = 0; i < x.n; i++) x.v[i] = value;
}

// The position of the bit that is set after k others.
MORPH_FN i32 nth_bit(u32 x, i32 k) {
    i32 at = 0;
    MORPH_UNROLL_ALL for (i32 half = 16; half; half /= 2) {
        i32 below = popcount(x & ((1u << half) - 1));
        if (k >= below) {
            k -= below;
            x >>= half;
            at += half;
        }
    }
    return at;
}
MORPH_FN i32 nth_bit(u64 x, i32 k) {
    i32 below = popcount(u32(x)), at = k < below ? 0 : 32;
    return at + nth_bit(u32(x >> at), k - (at ? below : 0));
}

MORPH_FN u32 combine_lanes(Plus, u32 x) { return __reduce_add_sync(ALL_LANES, x); }
MORPH_FN i32 combine_lanes(Plus, i32 x) { return i32(__reduce_add_sync(ALL_LANES, u32(x))); }
MORPH_FN u32 combine_lanes(Or, u32 x) { return __reduce_or_sync(ALL_LANES, x); }
MORPH_FN i32 combine_lanes(Or, i32 x) { return i32(__reduce_or_sync(ALL_LANES, u32(x))); }
MORPH_FN u64 combine_lanes(Or, u64 x) {
    return u64(__reduce_or_sync(ALL_LANES, u32(x >> 32))) << 32 | __reduce_or_sync(ALL_LANES, u32(x));
}
MORPH_FN i64 combine_lanes(Or, i64 x) { return i64(combine_lanes(Or(), u64(x))); }
template <class T> MORPH_FN T combine_lanes(And, T x) { return T(~combine_lanes(Or(), T(~x))); }
MORPH_FN i32 combine_lanes(Max, i32 x) { return __reduce_max_sync(ALL_LANES, x); }
MORPH_FN i32 combine_lanes(Min, i32 x) { return ~__reduce_max_sync(ALL_LANES, ~x); }
template <class T> MORPH_FN T combine_pair(Plus, T x, T y) { return sum_of(x, y); }
template <class T> MORPH_FN T combine_pair(Min, T x, T y) { return min_of(x, y); }
template <class T> MORPH_FN T combine_pair(Max, T x, T y) { return max_of(x, y); }
template <class Op, class T> MORPH_FN T combine_lanes(Op op, T x) {
    MORPH_UNROLL_ALL for (i32 by = 16; by; by /= 2) x = combine_pair(op, x, shuffle(ALL_LANES, x, lane_id() ^ by));
    return x;
}
// Combine the values of all lanes, in each of them.
template <class Op, class T> MORPH_FN void combine_value(T& x) { x = combine_lanes(Op(), x); }
template <class Op, class T, i32 N> MORPH_FN void combine_elements(InlineLocal<T, N>& x) {
    MORPH_UNROLL for (i32 i = 0; i < x.n; i++) x.v[i] = combine_lanes(Op(), x.v[i]);
}

// Sets it.queue, a member of the items of queues only: the overload with i32 is preferred where it exists.
template <class I> MORPH_FN auto set_queue(I& it, const i64* queue, i32) -> decltype((void)(it.queue = queue)) {
    it.queue = queue;
}
template <class I> MORPH_FN void set_queue(I&, const i64*, i64) {}

// `replay`: only if the item was deferred.
template <class A, class R, class Step>
MORPH_FN void run_item_by_warp(const A& a, const R& t, const Step& s, i64 i, const i64* queue, bool replay) {
    typename Step::I it(a, t, i);
    set_queue(it, queue, 0);
    // the test of a deferred item clears its bit
    bool runs = by_leader([&] { return (!replay || was_deferred(a.deferred, it.deferred_bit())) && s.open(a, it); });
    it.row = from_lane(it.row, 0);
    it.failed = from_lane(it.failed, 0);
    if (runs) s.run_by_warp(a, it);
    sync_warp();
    if (lane_id() == 0) end_item(a, it);
}
#endif

// Each warp executes every (t.threads / 32)-th item, without a cursor: items of unequal work belong into a queue.
template <class A, class R, class Step>
MORPH_FN void each_by_warps(const A& a, R& t, const Step& s, i64 first, i64 last) {
#ifdef __CUDACC__
    for (i64 i = first + warp_id(); i < last; i += t.threads / 32) {
        run_item_by_warp(a, t, s, i, nullptr, t.replay);
    }
#else
    each(a, t, s, first, last);
#endif
}

// A queue, see queue.h.
template <class A, class R, class Step>
MORPH_LOOP void each_until_empty_by_warps(const A& a, R& t, const Step& s, const i64* meta, i64 first, i64 last) {
#ifdef __CUDACC__
    Idle idle;
    while (true) {
        Taken taken{0, 0};
        if (lane_id() == 0) taken = take_items(a, meta, first, t.threads / 32);
        taken = from_lane(taken, 0);
        if (taken.n < 0) break;
        if (taken.n == 0) {
            idle.wait();
            continue;
        }
        idle.end();
        for (i64 i = taken.at; i < taken.at + taken.n; i++) {
            if (i >= last && lane_id() == 0) await_item(a, i);
            sync_warp();
            run_item_by_warp(a, t, s, i, meta, i < last && t.replay);
        }
        sync_warp();
        publish();
        if (lane_id() == 0) fetch(Plus(), a.cursor + QUEUE_FINISHED, i64(taken.n));
    }
    idle.end();
#else
    each_until_empty(a, t, s, meta, first, last);
#endif
}
