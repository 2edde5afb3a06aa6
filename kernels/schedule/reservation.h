// Reservations for the entries of shared rows, made in batches by the warp (on a CPU: the thread) that runs them.
//
// Invariant: a warp holds a reservation for all that one entry of each lane may allocate, so no entry can fail.  A
// warp that cannot reserve more appends its unprocessed entry ranges to the high-degree list, records which store is
// full, and marks its other items as deferred, unchanged.  So a store needs capacity for the rows that are really
// added, and a batch for each warp.
//
// In a program the warps of a GPU begin a step with a share of the capacity left at the last barrier, without an
// atomic; further reservations leave these shares untouched.  A re-execution has no shares: TO is that of the step's
// begin.
//
// Of a Step, `BATCHED` says that its entries reserve in batches; `reservations(a, it, f)` calls f(meta, reservation,
// each, number) for each store to which entries add: the reservation of `it`, the most rows of an entry, the store's
// number.  `SHARES` says that TO is the store's end at the last barrier.  `clear_staged()` empties the staging
// buffers, and `flush_staged(a, it, n)` flushes them where n entries of each lane would not fit.

#if defined(MORPH_FAULTS)  // tests: batches are used up
constexpr i32 BATCH = 2;
#else
constexpr i32 BATCH = TARGET_GPU ? 4 : 64;  // entries of each lane
#endif
constexpr i64 SHARED_OUT = 8;  // shares take at most this part of the capacity

// Reserves `most` rows, or `least` if there are fewer; returns the number reserved.
MORPH_FN i32 take_capacity(i64* meta, i32 least, i32 most, i64 excluded) {
    i64 left = fetch(Plus(), meta + BUDGET, i64(-most)) - excluded;
    if (left >= most) return most;
    i32 taken = left >= least ? least : 0;
    fetch(Plus(), meta + BUDGET, i64(most - taken));
    return taken;
}

template <class T> MORPH_FN T from_lane(const T& x, i32 lane) {
    constexpr i32 N = __is_empty(T) ? 0 : (sizeof(T) + 3) / 4;
    union Registers {
        u32 word[N + 1];
        T value;
        MORPH_FN Registers() {}
    } give, take;
    give.value = x;
    if constexpr (N <= 2 * MOST_UNROLLED) {
        MORPH_UNROLL_ALL for (i32 i = 0; i < N; i++) take.word[i] = shuffle(ALL_LANES, give.word[i], lane);
    } else {
        MORPH_UNROLL for (i32 i = 0; i < N; i++) take.word[i] = shuffle(ALL_LANES, give.word[i], lane);
    }
    return take.value;
}
MORPH_FN i32 sum_of_lanes(i32 x) { return i32(add_lanes(ALL_LANES, u32(x))); }

template <class Step, bool GPU = TARGET_GPU> struct Runner;

#ifdef __CUDACC__
// A warp that runs entries: `it` holds the reservations; `it.failed` says that a store is full.
template <class Step> struct Runner<Step, true> {
    typename Step::I it;
    i64 sharers = 0;   // number of warps with a share
    bool late = false;  // whether shares are used up

    // `sharers` of the warps that run items have a share, later ones (of listed rows) none.
    template <class A, class R>
    MORPH_FN Runner(const A& a, const R& t, const Step& s, i64 sharers) : it(a, t, -1) {
        if constexpr (Step::BATCHED) {
            if (Step::SHARES && !t.replay) this->sharers = sharers, late = !sharers;
            s.reservations(a, it, [&](i64* meta, i32& reservation, i32 each, i32) { reservation = share(meta, each); });
            s.clear_staged();
        }
    }
    static MORPH_FN i64 left(i64* meta) { return load_stable(meta + CAPACITY) - load_stable(meta + TO); }
    MORPH_FN i32 share(i64* meta, i32 each) const {  // of a lane
        if constexpr (SINGLE_BLOCK) {  // a full one or none: no division
            return sharers && left(meta) >= SHARED_OUT * 32 * SINGLE_BLOCK_WARPS * BATCH * each ? BATCH * each : 0;
        }
        return sharers ? i32(min_of(left(meta) / (SHARED_OUT * 32 * sharers), i64(BATCH * each))) : 0;
    }
    MORPH_FN i64 capacity_of_shares(i64* meta, i32 each) const {
        return late ? left(meta) / SHARED_OUT : 32 * sharers * share(meta, each);
    }
    // Whether an entry of each lane, or several, are covered by the reservations.
    template <class A> MORPH_FN bool has_capacity(const A& a, const Step& s, i32 entries = 1) {
        bool lacks = it.failed;
        s.reservations(a, it, [&](i64*, i32& reservation, i32 each, i32) { lacks |= reservation < each * entries; });
        return !any_lane(lacks) || (!it.failed && reserve_more(a, s, entries));
    }
    template <class A> MORPH_FN bool reserve_more(const A& a, const Step& s, i32 entries) {  // lane n: store n
        i64 *at = nullptr, excluded = 0;
        i32 n = 0, blame = 0, held = 0, least = 0, most = 0;
        s.reservations(a, it, [&](i64* meta, i32& reservation, i32 each, i32 number) {
            i32 all = sum_of_lanes(reservation);
            if (lane_id() == n++) {
                at = meta, blame = number, held = all, least = 32 * each * entries - all;
                most = max_of(32 * each * BATCH - all, least), excluded = capacity_of_shares(meta, each);
            }
        });
        bool none = false;
        if (at && least > 0) {
            i32 taken = injected(a.status) ? 0 : take_capacity(at, least, most, excluded);
            held += taken, none = !taken;
        }
        n = 0;
        s.reservations(a, it, [&](i64*, i32& reservation, i32, i32) {
            i32 all = shuffle(ALL_LANES, held, n++);
            reservation = all / 32 + (lane_id() < all % 32);
        });
        s.flush_staged(a, it, max_of(BATCH, entries));
        u32 mask = ballot(ALL_LANES, none);
        if (mask) it.failed = shuffle(ALL_LANES, blame, first_lane(mask)) + 1;
        return !mask;
    }
    // Gives back unused reservations, and reports whether the warp failed.
    template <class A> MORPH_FN void end(const A& a, const Step& s) {
        if constexpr (Step::BATCHED) {
            s.flush_staged(a, it, 1 << 16);
            s.reservations(a, it, [&](i64* meta, i32& reservation, i32 each, i32) {
                i64 rest = sum_of_lanes(reservation) - i64(32) * share(meta, each);
                if (rest > 0 && lane_id() == 0) fetch(Plus(), meta + BUDGET, rest);
                reservation = 0;
            });
        }
        end_item(a, it);
    }
};
#endif

// A CPU thread that runs entries.
template <class Step> struct Runner<Step, false> {
    typename Step::I it;

    template <class A, class R> MORPH_FN Runner(const A& a, const R& t, const Step&, i64 = 0) : it(a, t, -1) {}
    template <class A> MORPH_FN bool has_capacity(const A& a, const Step& s) {  // for an entry
        s.reservations(a, it, [&](i64* meta, Reservation& reservation, i32 each, i32 number) {
            if (reservation >= each || it.failed) return;
            i32 taken = injected(a.status) ? 0 : take_capacity(meta, each - reservation, BATCH * each, 0);
            reservation += taken;
            if (!taken) it.failed = number + 1;
        });
        return !it.failed;
    }
    template <class A> MORPH_FN void end(const A& a, const Step&) { end_item(a, it); }
};
