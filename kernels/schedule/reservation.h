// Reservation for what the entries of shared rows may add: taken in batches by whoever runs them.
//
// Invariant: whoever runs an entry holds as much room as one entry may take, so nothing in it can fail.  A
// warp (on a CPU: a thread) that gets no more puts what is left of its rows on the list, has the store
// grown, and leaves its other items deferred, untouched.  So a store needs room for what is really added,
// and a batch for each warp.
//
// In a program a GPU's warps begin a step with a share of the room there was at the last barrier, without
// an atomic; whoever asks for more leaves these shares alone.
//
// Of a Step, `BATCHED` says that its entries take room so, and `reservations(a, it, f)` calls f(meta, reservation, each,
// number) for each store that they add to: what `it` holds, what an entry may take, which store it is.
// `SHARES` says that TO is where the store ended at the last barrier.  `clear_staged()` and `flush_staged(a, it, n)`
// begin with nothing on its way, and carry over what lies where n entries of each lane are to have room.

#if defined(MORPH_FAULTS)  // tests: batches end, too
constexpr i32 BATCH = 2;
#else
constexpr i32 BATCH = TARGET_GPU ? 4 : 64;  // as many entries of each lane
#endif
constexpr i64 SHARED_OUT = 8;  // shares are such a part of the room, at most

// Takes room for `most` rows, or if there is not as much for `least`; gives how many.
MORPH_FN i32 take_capacity(i64* meta, i32 least, i32 most, i64 apart) {
    i64 left = fetch(Plus(), meta + BUDGET, i64(-most)) - apart;
    if (left >= most) return most;
    i32 taken = left >= least ? least : 0;
    fetch(Plus(), meta + BUDGET, i64(most - taken));
    return taken;
}

MORPH_FN i32 sum_of_lanes(i32 x) { return i32(add_lanes(ALL_LANES, u32(x))); }

// A warp that runs entries: `it` has the room, `it.failed` says that there was no more.
template <class Step, bool GPU = TARGET_GPU> struct Runner {
    typename Step::I it;
    i64 sharers = 0;   // how many warps have a share, and a part of the room
    bool late = false;  // when they have had it

    // Of those who run items, `sharers`; of those who come after them, none.
    template <class A, class R>
    MORPH_FN Runner(const A& a, const R& t, const Step& s, i64 sharers) : it(a, t, -1) {
        if constexpr (Step::BATCHED) {
            if (Step::SHARES) this->sharers = sharers, late = !sharers;
            s.reservations(a, it, [&](i64* meta, i32& reservation, i32 each, i32) { reservation = share(meta, each); });
            s.clear_staged();
        }
    }
    static MORPH_FN i64 left(i64* meta) { return load_stable(meta + CAPACITY) - load_stable(meta + TO); }
    MORPH_FN i32 share(i64* meta, i32 each) const {  // of a lane
        return sharers ? i32(min_of(left(meta) / (SHARED_OUT * 32 * sharers), i64(BATCH * each))) : 0;
    }
    MORPH_FN i64 apart(i64* meta, i32 each) const {
        return late ? left(meta) / SHARED_OUT : 32 * sharers * share(meta, each);
    }
    // Whether there is room for an entry of each lane, or for several.
    template <class A> MORPH_FN bool has_capacity(const A& a, const Step& s, i32 entries = 1) {
        bool lacks = it.failed;
        s.reservations(a, it, [&](i64*, i32& reservation, i32 each, i32) { lacks |= reservation < each * entries; });
        return !any_lane(lacks) || (!it.failed && reserve_more(a, s, entries));
    }
    template <class A> MORPH_FN bool reserve_more(const A& a, const Step& s, i32 entries) {  // lane n asks store n
        i64 *at = nullptr, aside = 0;
        i32 n = 0, blame = 0, held = 0, least = 0, most = 0;
        s.reservations(a, it, [&](i64* meta, i32& reservation, i32 each, i32 number) {
            i32 all = sum_of_lanes(reservation);
            if (lane_id() == n++) {
                at = meta, blame = number, held = all, least = 32 * each * entries - all;
                most = max_of(32 * each * BATCH - all, least), aside = apart(meta, each);
            }
        });
        bool none = false;
        if (at && least > 0) {
            i32 taken = injected(a.status) ? 0 : take_capacity(at, least, most, aside);
            held += taken, none = !taken;
        }
        n = 0;
        s.reservations(a, it, [&](i64*, i32& reservation, i32, i32) {
            i32 all = shuffle(ALL_LANES, held, n++);
            reservation = all / 32 + (lane_id() < all % 32);
        });
        s.flush_staged(a, it, max_of(BATCH, entries));
        u32 those = ballot(ALL_LANES, none);
        if (those) it.failed = shuffle(ALL_LANES, blame, first_lane(those)) + 1;
        return !those;
    }
    // Gives back what it has taken and not used, and says whether it failed.
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

// A thread of a CPU that runs entries.
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
