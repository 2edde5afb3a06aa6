// Reservations and slot caches of CPU threads; target_cuda.h defines the same names for a GPU.
//
// A slot cache holds slots of a list, and reservations, that a thread has taken together, so that threads do not
// contend for the list's counters at every item.  A warp of a GPU takes slots for 32 items together anyway.
//
// Invariant, as everywhere: COUNT, all reservations (of items or cached) and BUDGET together never exceed CAPACITY.
// Cached slots are already included in COUNT, covered by cached reservations; an item that uses a cached slot transfers
// its own reservation to the cache.  Unused cached slots are gaps, which the master closes at the barrier: the last
// items of the list move there.  So only lists have caches: rows of tables do not move.

struct SlotCaches;  // of all lists of a unit

#if defined(MORPH_FAULTS)  // tests: small lists have gaps
constexpr i32 AT_A_TIME = 2, PLENTY = 4;
#else
constexpr i32 AT_A_TIME = 256, PLENTY = 1024;
#endif

struct Gap {
    i64* meta;
    i64 at, end;
};
constexpr i32 MOST_GAPS = 1 << 12, MOST_CACHED = 256;  // threads, times at most 8 lists, times 2 loops a step
static Gap gaps[MOST_GAPS];
static i32 gap_count = 0;

struct Reservation;
struct SlotCache {
    i64* meta = nullptr;
    i64 kept = 0;  // reservations that belong to no item
    i64 at = 0, end = 0;  // cached slots; if `all`: the whole capacity
    bool all = false;  // of a single thread: holds the whole capacity; items reserve from the cache
    bool reserve(i64* meta, i32 n, Reservation& reservation);
    bool reserve_from_all(i64 n, Reservation& reservation) const;
    bool take(i64* meta, i32 n);
    void take_all(i64* meta);
    i32 cached_slots(i32 n);
    i32 slot(i64* meta, Reservation& reservation);
    void return_unused(i64* meta, i32 n);
    void flush();
    void demand(i64* meta, i64 n);
    bool reserve_demand();
    void take_demand(bool all);
};
// Rows that an item has reserved.
struct Reservation {
    i32 n = 0;
    SlotCache* slot_cache = nullptr;
    operator i32() const { return n; }
    void operator+=(i32 more) { n += more; }
    void operator-=(i32 less) { n -= less; }
};

// Reserves for an item; if false, the item must reserve exactly what it needs.
MORPH_HOT bool SlotCache::reserve(i64* of, i32 n, Reservation& reservation) {
    if (kept < n && !take(of, n)) return false;
    kept -= n;
    reservation += n;
    return true;
}
// The same of a single thread.
MORPH_HOT bool SlotCache::reserve_from_all(i64 n, Reservation& reservation) const {
    n = max_of(n, i64(0)) + reservation.n;
    if (end - at < n) return false;
    reservation.n = i32(n);
    return true;
}
MORPH_HOT bool SlotCache::take(i64* of, i32 n) {
    meta = of;
    i64 more = n + AT_A_TIME;
    if (load(meta + BUDGET) < more + i64(PLENTY) * team_threads) return false;
    if (add_word(meta + BUDGET, -more) < more) {
        add_word(meta + BUDGET, more);
        return false;
    }
    kept += more;
    return true;
}
// A single thread: its counters are in registers while it runs.
MORPH_HOT void SlotCache::take_all(i64* of) {
    all = true;
    meta = of;
    at = load(meta + COUNT);
    end = at + load(meta + BUDGET);
    store(meta + BUDGET, 0);
}
MORPH_HOT i32 SlotCache::cached_slots(i32 n) {
    at += n;
    return narrow_slot(at - n);
}
// A slot for an item's reservation, or -1: there is no cached slot, and no cached reservation that covers one.
MORPH_HOT i32 SlotCache::slot(i64* of, Reservation& reservation) {
    if (at == end) {
        meta = of;
        i64 spare = kept + reservation.n - 1;
        i32 more = spare < AT_A_TIME ? i32(spare) : AT_A_TIME;
        if (more <= 0) return -1;
        at = add_word(meta + COUNT, i64(more));
        end = at + more;
        i32 paid = kept < more ? i32(kept) : more;
        kept -= paid, reservation -= more - paid;
    }
    kept++;
    return i32(at++);
}
// Keeps an item's unused reservation; most of a large one is returned to BUDGET.
MORPH_HOT void SlotCache::return_unused(i64* of, i32 n) {
    if (all) return;
    meta = of;
    kept += n;
    if (kept <= 4 * AT_A_TIME) return;
    add_word(meta + BUDGET, kept - AT_A_TIME);
    kept = AT_A_TIME;
}
// At the end of a thread's items: returns reservations, records gaps.
MORPH_HOT void SlotCache::flush() {
    if (all) {
        store(meta + COUNT, at);
        add_word(meta + BUDGET, end - at);
    } else {
        if (at < end) gaps[__atomic_fetch_add(&gap_count, 1, __ATOMIC_RELAXED)] = {meta, at, end};
        if (kept) add_word(meta + BUDGET, kept);
    }
    *this = SlotCache();
}

// For a batch of items that allocate exactly what they demand: `kept` is the sum of the demands, and the slots from `at`
// to `end` are allocated for it.  No slot remains unused, so this serves tables, too, whose gaps are not closed.
MORPH_HOT void SlotCache::demand(i64* of, i64 n) {
    meta = of;
    if (n > 0) kept += n;
}
MORPH_HOT bool SlotCache::reserve_demand() {
    if (!kept || add_word(meta + BUDGET, -kept) >= kept) return all = true;
    add_word(meta + BUDGET, kept);
    return false;
}
MORPH_HOT void SlotCache::take_demand(bool granted) {  // if not, reservations are returned
    if (kept && granted) at = add_word(meta + COUNT, kept), end = at + kept;
    else if (kept && all) add_word(meta + BUDGET, kept);
}

// By the master: moves a list's last items to its gaps, by `move(given, to, from)`.
MORPH_COLD void close_gaps(i64* meta, void (*move)(const void*, i64, i64), const void* given) {
    i32 n = 0, others = 0;
    static Gap mine[MOST_GAPS];
    for (i32 k = 0; k < gap_count; k++) {
        Gap gap = gaps[k];
        if (gap.meta != meta) {
            gaps[others++] = gap;
            continue;
        }
        i32 i = n++;  // in order of their positions
        for (; i > 0 && mine[i - 1].at > gap.at; i--) mine[i] = mine[i - 1];
        mine[i] = gap;
    }
    gap_count = others;
    i64 from = load(meta + COUNT), count = from;
    for (i32 k = 0; k < n; k++) count -= mine[k].end - mine[k].at;
    i32 last = n - 1;
    for (i32 k = 0; k < n; k++)
        for (i64 to = mine[k].at; to < mine[k].end && to < count; to++) {
            for (from--; last >= 0 && from < mine[last].end;) {  // from the end, skipping other gaps
                if (from < mine[last].at) last--;
                else from = mine[last].at - 1;
            }
            move(given, to, from);
        }
    if (n) store(meta + COUNT, count);
}
template <class Move> MORPH_FN void close_gaps(i64* meta, const Move& move) {
    if (SERIAL || !gap_count) return;
    close_gaps(meta, [](const void* given, i64 to, i64 from) { (*(const Move*)given)(to, from); }, &move);
}

MORPH_HOT SlotCache* cache_of(const Reservation& reservation) { return reservation.slot_cache; }

struct AggregatedAdd {
    i64 old;
    MORPH_FN AggregatedAdd(i64* p, i32 count, i32 sign) : old(add_word(p, i64(count) * sign)) {}
    MORPH_FN i64 value() const { return old; }
    MORPH_FN i32 row() const { return i32(old); }
};
MORPH_FN void add_up(i64* p, i32 count) { add_word(p, i64(count)); }
// `n` consecutive slots at the end of a store.
struct Slots {
    i32 row;
    MORPH_HOT Slots(i64* meta, i32 n, Reservation& reservation) {
        if (reservation.slot_cache && reservation.slot_cache->all) {
            row = reservation.slot_cache->cached_slots(n);
        } else {
            row = n == 1 && reservation.slot_cache ? reservation.slot_cache->slot(meta, reservation) : -1;
            if (row < 0) row = n ? AggregatedAdd(meta + COUNT, n, 1).row() : 0;
        }
        reservation -= n;
    }
    MORPH_FN i32 first() const { return row; }
};
