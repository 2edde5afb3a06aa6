// On a CPU: what a thread has taken of a list at once, so that threads do not wait for each other's
// counts at every item.  A GPU's warp takes for 32 items at once as it is.
//
// Invariant, as everywhere: COUNT, what is reserved or kept, and BUDGET together never exceed CAPACITY.
// Slots in hand are counted in COUNT, so what was kept has paid for them; who uses one gives what it had
// reserved for itself in exchange.  Slots that nobody used are gaps; the master closes them before it
// settles the list: its last items move there.  So lists alone are served: rows of tables stay.

struct Stocks;  // of all lists of a unit

#ifndef __CUDACC__

#if defined(MORPH_FAULTS)  // tests: small lists have gaps
constexpr i32 AT_A_TIME = 2, PLENTY = 4;
#else
constexpr i32 AT_A_TIME = 256, PLENTY = 1024;
#endif

struct Gap {
    i64* meta;
    i64 at, end;
};
constexpr i32 MOST_GAPS = 1 << 12, MOST_SERVED = 256;  // threads, of at most 8 lists, in 2 loops a step
static Gap gaps[MOST_GAPS];
static i32 gap_count = 0;

struct Room;
struct Stock {
    i64* meta = nullptr;
    i64 kept = 0;  // reserved, and for no item
    i64 at = 0, end = 0;  // slots in hand
    bool all = false;  // it has taken all there is, being alone; what items reserve stays in it
    bool gives(i64* meta, i32 n, Room& room);
    bool take(i64* meta, i32 n);
    void take_all(i64* meta);
    i32 own_slots(i32 n);
    i32 slot(i64* meta, Room& room);
    void keep(i64* meta, i32 n);
    void flush();
};
// Rows that an item has reserved.
struct Room {
    i32 n = 0;
    Stock* stock = nullptr;
    operator i32() const { return n; }
    void operator+=(i32 more) { n += more; }
    void operator-=(i32 less) { n -= less; }
};

// Reserves for an item; false: it has to ask for exactly what it needs.
MORPH_HOT bool Stock::gives(i64* of, i32 n, Room& room) {
    if (all) {
        if (kept < i64(room.n) + n) return false;
    } else {
        if (kept < n && !take(of, n)) return false;
        kept -= n;
    }
    room += n;
    return true;
}
MORPH_HOT bool Stock::take(i64* of, i32 n) {
    meta = of;
    i64 more = n + AT_A_TIME;
    if (load(meta + BUDGET) < more + i64(PLENTY) * crew) return false;
    if (fetch(Plus(), meta + BUDGET, -more) < more) {
        fetch(Plus(), meta + BUDGET, more);
        return false;
    }
    kept += more;
    return true;
}
// One thread alone: its counts are in registers while it runs.
MORPH_HOT void Stock::take_all(i64* of) {
    all = true;
    meta = of;
    kept = load(meta + BUDGET);
    at = load(meta + COUNT);
    store(meta + BUDGET, 0);
}
MORPH_HOT i32 Stock::own_slots(i32 n) {
    kept -= n;
    at += n;
    return i32(at - n);
}
// A slot for what an item has reserved, or -1: there is none in hand, and nothing else to pay one with.
MORPH_HOT i32 Stock::slot(i64* of, Room& room) {
    if (at == end) {
        meta = of;
        i64 spare = kept + room.n - 1;
        i32 more = spare < AT_A_TIME ? i32(spare) : AT_A_TIME;
        if (more <= 0) return -1;
        at = fetch(Plus(), meta + COUNT, i64(more));
        end = at + more;
        i32 paid = kept < more ? i32(kept) : more;
        kept -= paid, room -= more - paid;
    }
    kept++;
    return i32(at++);
}
// What an item has not used; of much, others get the most.
MORPH_HOT void Stock::keep(i64* of, i32 n) {
    if (all) return;
    meta = of;
    kept += n;
    if (kept <= 4 * AT_A_TIME) return;
    fetch(Plus(), meta + BUDGET, kept - AT_A_TIME);
    kept = AT_A_TIME;
}
// At the end of a thread's items.
MORPH_HOT void Stock::flush() {
    if (all) store(meta + COUNT, at);
    if (at < end) gaps[__atomic_fetch_add(&gap_count, 1, __ATOMIC_RELAXED)] = {meta, at, end};
    if (kept) fetch(Plus(), meta + BUDGET, kept);
    *this = Stock();
}

// By the master: has a list's last items move to its gaps, by `move(to, from)`.
template <class Move> MORPH_FN void close_gaps(i64* meta, const Move& move) {
    i32 n = 0, others = 0;
    static Gap mine[MOST_GAPS];
    for (i32 k = 0; k < gap_count; k++) {
        Gap gap = gaps[k];
        if (gap.meta != meta) {
            gaps[others++] = gap;
            continue;
        }
        i32 i = n++;  // in order of their places
        for (; i > 0 && mine[i - 1].at > gap.at; i--) mine[i] = mine[i - 1];
        mine[i] = gap;
    }
    gap_count = others;
    i64 from = load(meta + COUNT), count = from;
    for (i32 k = 0; k < n; k++) count -= mine[k].end - mine[k].at;
    i32 last = n - 1;
    for (i32 k = 0; k < n; k++)
        for (i64 to = mine[k].at; to < mine[k].end && to < count; to++) {
            for (from--; last >= 0 && from < mine[last].end;) {  // from the end, past other gaps
                if (from < mine[last].at) last--;
                else from = mine[last].at - 1;
            }
            move(to, from);
        }
    if (n) store(meta + COUNT, count);
}

#else
template <class Move> MORPH_FN void close_gaps(i64*, const Move&) {}
#endif
