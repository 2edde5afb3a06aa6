// Rows of tables and slots of collections: reserve, allocate, delete, publish counters.
//
// Invariant: an item allocates only rows that it has reserved, and BUDGET never exceeds the capacity left:
//     BUDGET <= (COMMITTED - HEAD) + (CAPACITY - COUNT) - (reserved and not yet allocated).
// So an allocation cannot fail.  A reservation can: then the item has changed nothing, its bit in `deferred` is set, and
// the host grows the store and re-executes the item.
// Deleted rows are pushed at the TAIL of a ring.  Only rows below COMMITTED are reused.  Kernels never
// advance COMMITTED: the host does, for rows that no reference denotes (morph/data/reclaim.py).

constexpr i32 PAST_LIMIT = -3;  // `failed` of an item that allocates more than the kernel's limit
constexpr i32 VIOLATED = -2;  // `failed` of an item with a violation in checked mode

// The state of every item.
struct ItemBase {
    i64 position;  // row of the table, or position in the collection
    RowId row;     // the row with which the kernel is called
    i32 failed;    // 0; -1: a local collection is full; k + 1: store k is full; PAST_LIMIT; VIOLATED
#ifdef MORPH_FAULTS
    bool reserved = false;  // later additions to local collections cannot fail
#endif
    MORPH_FN ItemBase(i64 position) : position(position), row(RowId(position)), failed(0) {}
    MORPH_FN i64 deferred_bit() const { return position; }  // items of units with sections redefine it
};

MORPH_FN i64 add_aggregated(i64* p, i32 count) { return AggregatedAdd(p, count, 1).value(); }

// Test only: make the n-th reservation fail.
MORPH_FN bool injected(i64* status) {
#ifdef MORPH_FAULTS
    return load(status + INJECT) > 0 && fetch(Plus(), status + INJECT, i64(-1)) == 1;
#else
    return false;
#endif
}

// Test only: whether a later reservation will fail.
MORPH_FN bool will_fail(const i64* status) {
#ifdef MORPH_FAULTS
    return load(status + INJECT) > 0;
#else
    return false;
#endif
}

MORPH_FN bool injected(i64* status, const ItemBase& it) {
#ifdef MORPH_FAULTS
    return !it.reserved && injected(status);
#else
    return false;
#endif
}

// Whether the item may reserve; an injected fault is attributed to `store`.
MORPH_HOT bool may_reserve(i64* status, ItemBase& it, i32 store) {
    if (!it.failed && injected(status)) it.failed = store + 1;
#ifdef MORPH_FAULTS
    it.reserved = true;
#endif
    return !it.failed;
}

// A request to reserve `count` rows of a store; `excluded` of its budget are deleted rows that cannot be used.
struct Request {
    i64* meta;
    i64 count;
    Reservation& reservation;
    i32 store;
    i64 excluded = 0;
    MORPH_FN i32 n() const { return count <= 0 || count > 0x7fffffff ? 0 : i32(count); }
    MORPH_FN AggregatedAdd begin() const { return AggregatedAdd(meta + BUDGET, n(), -1); }
    MORPH_HOT bool end(const AggregatedAdd& taken, ItemBase& it) const {
        i64 left = taken.value() - excluded;
        if (count <= 0) return true;
        if (n() && left >= n()) {
            reservation += n();
            return true;
        }
        if (n()) add_up(meta + BUDGET, n());
        it.failed = store + 1;
        return false;
    }
};
// Reserves in several stores, or fails the item; reservations made so far are given back at the item's end.
MORPH_HOT bool reserve(ItemBase& it, const Request& a) {
    SlotCache* cache = cache_of(a.reservation);
    if (cache && cache->all) {  // it holds all capacity: one test
        if (cache->reserve_from_all(a.count, a.reservation)) return true;
        it.failed = a.store + 1;
        return false;
    }
    if (a.count <= 0) return true;
    if (cache && a.n() && cache->reserve(a.meta, a.n(), a.reservation)) return true;
    return a.end(a.begin(), it);
}
MORPH_HOT bool reserve(ItemBase& it, const Request& a, const Request& b) {
    if constexpr (!TARGET_GPU) return reserve(it, a) & reserve(it, b);
    AggregatedAdd x = a.begin(), y = b.begin();
    return a.end(x, it) & b.end(y, it);
}
template <class... More>
MORPH_HOT bool reserve(ItemBase& it, const Request& a, const Request& b, const Request& c, const More&... more) {
    if constexpr (!TARGET_GPU) {
        if constexpr (sizeof...(More) > 0) return reserve(it, a, b) & reserve(it, c, more...);
        else return reserve(it, a, b) & reserve(it, c);
    }
    AggregatedAdd x = a.begin(), y = b.begin(), z = c.begin();
    bool rest = true;
    if constexpr (sizeof...(More) > 0) rest = reserve(it, more...);
    return a.end(x, it) & b.end(y, it) & c.end(z, it) & rest;
}

// Deleted rows that the host has released for reuse.
MORPH_FN i64 reusable(const i64* meta) { return load(meta + COMMITTED) - load(meta + HEAD); }

// At the end of an item: gives back an unused reservation.
MORPH_HOT void give_back(i64* meta, const Reservation& reservation) {
    if (cache_of(reservation)) {
        if (reservation) cache_of(reservation)->return_unused(meta, reservation);
        return;
    }
    if (reservation) add_up(meta + BUDGET, reservation);
}

// The mask of the ring: the next power of two of the capacity, less one.
MORPH_FN i64 ring_mask(const i64* meta) {
    i64 n = load(meta + CAPACITY) - 1;
    for (i32 s = 1; s < 64; s *= 2) n |= n >> s;
    return n < 0 ? 0 : n;
}

// Allocates one row: a recycled one if there is any, else at the end.
MORPH_FN i32 new_row(i64* meta, const i32* free, Reservation& reservation) {
    if (reusable(meta) > 0) {
        i64 h = add_aggregated(meta + HEAD, 1);
        if (h < load(meta + COMMITTED)) {
            reservation -= 1;
            return load(free + (h & ring_mask(meta)));
        }
    }
    return Slots(meta, 1, reservation).first();
}

MORPH_FN bool is_dead(const u8* dead, i64 row) { return load(dead + row); }

// A recycled row records the step, as `launch` counts them, in which it was created: it is no item of that step.
MORPH_FN void mark_created(u8* dead, i32* created, i64 row, i32 launch) {
    store(created + row, launch);
    publish();
    store(dead + row, 0);
}
MORPH_FN bool created_in_launch(const i32* created, i64 row, i32 launch) {  // after is_dead
    acquire();
    return load(created + row) == launch;
}

MORPH_FN void delete_row(i64* meta, i32* free, u8* dead, i32 row) {
    if (swap_if(dead + row, u8(0), u8(1))) return;
    i64 t = add_aggregated(meta + TAIL, 1);
    store(free + (t & ring_mask(meta)), row);
}

// Takes one of the items in the collection at the last barrier; -1 if none is left.
MORPH_FN i64 take(i64* meta, i32 end) {
    i64 last = load(meta + end);
    if (load(meta + HEAD) >= last) return -1;
    i64 h = add_aggregated(meta + HEAD, 1);
    return h < last ? h : -1;
}

// Publishing counters, by the master at a barrier, makes added rows visible.  All threads wait for the master, so the
// counters of all stores are loaded before any is stored.  After a failed step FROM and TO remain those at its begin:
// its deferred items see the same sizes as the other items.
struct TableCounters {
    i64 *meta, count, capacity, head, committed;

    explicit MORPH_FN TableCounters(i64* meta)
        : meta(meta), count(load(meta + COUNT)), capacity(load(meta + CAPACITY)), head(load(meta + HEAD)),
          committed(load(meta + COMMITTED)) {}
    MORPH_FN void publish_counters(bool failed = false) const {
        i64 used = head > committed ? committed : head;
        store(meta + HEAD, used);
        store(meta + BUDGET, committed - used + capacity - count);
        if (!failed) store(meta + TO, count);
    }
};
struct CollectionCounters {
    i64 *meta, count, capacity, head, last;

    MORPH_FN CollectionCounters(i64* meta, i32 end)
        : meta(meta), count(load(meta + COUNT)), capacity(load(meta + CAPACITY)), head(load(meta + HEAD)),
          last(load(meta + end)) {}
    MORPH_FN void publish_counters(bool failed = false) const { set(head > last ? last : head, count, failed); }
    MORPH_FN void clear() const {
        store(meta + COUNT, 0);
        set(0, 0);
    }
    MORPH_FN void set(i64 from, i64 to, bool failed = false) const {
        store(meta + HEAD, from);
        store(meta + BUDGET, capacity - to);
        if (failed) return;
        store(meta + FROM, from);
        store(meta + TO, to);
    }
};
// Before the first step: sets the extent of a store.
MORPH_FN void publish_extent(i64* meta, bool collection) {
    store(meta + FROM, collection ? load(meta + HEAD) : 0);
    store(meta + TO, load(meta + COUNT));
}

MORPH_COLD void mark_deferred_at(i64* status, u32* deferred, i64 bit) {
    add_up(status + FAILED, 1);
    if (bit >= 0) fetch(Or(), deferred + bit / 32, 1u << bit % 32);
}
template <class I>  // for re-execution by the host
MORPH_HOT void mark_deferred(i64* status, u32* deferred, const I& it) {
    mark_deferred_at(status, deferred, it.deferred_bit());
}
// At the end of an item: records whether it failed.
template <class I> MORPH_HOT void record(i64* status, u32* deferred, const I& it) {
    if (!it.failed) return;
#ifdef MORPH_CHECKED
    if (it.failed == VIOLATED) return;  // it is not re-executed
#endif
    if (it.failed == PAST_LIMIT) return mark_deferred_at(status, deferred, -1);  // the host raises an error
    store(status + (it.failed < 0 ? LOCAL : STORES + it.failed - 1), 1);
    mark_deferred(status, deferred, it);
}
MORPH_COLD void exceed(i64* status, ItemBase& it, i32 place) {
    store(status + EXCEEDED, place + 1);
    it.failed = PAST_LIMIT;
}
MORPH_FN bool is_deferred(const u32* deferred, i64 bit) { return load(deferred + bit / 32) >> bit % 32 & 1; }
// Whether the item was deferred by the launch before; clears its bit.
MORPH_FN bool was_deferred(u32* deferred, i64 position) {
    u32 bit = 1u << position % 32;
    return load(deferred + position / 32) & bit && fetch(And(), deferred + position / 32, ~bit) & bit;
}
