// Rebuilds the adjacency of a graph inside a launch, after a step that has deleted or created points or edges.
//
// Problem: the rows of the adjacency (storage/graph.h) must contain exactly the live edges, each row in order of edge
// ids, as if the host had built them; and edges at deleted points must be deleted.
// Method: edges at deleted points are found by a scan of the table.  In each direction the old entries whose edges
// are alive are merged with the created edges, sorted by point and id: the new position of an old entry is its old one,
// minus the number of deleted entries before it, plus that of created edges before it.  All numbers come from prefix
// sums, so the result does not depend on the number of threads.  Threads take equal parts of all entries and of all
// edges, so long rows cost no more than short ones.
// Cost: some passes over the edges and entries, and 4 barriers a direction; if edges were created, 2 more barriers for
// each bit of a point's number.  The memory of all arrays covers the capacity of the tables, so nothing can fail.
//
// Invariant: the row of an edge in the adjacency is not reused before the next rebuild.  So each old entry denotes the
// same edge as at the last rebuild, and `listed` distinguishes these edges from created ones.

struct EndColumn {  // `src` or `dst` of edges, in any layout
    const u8* first;
    i64 stride;
    MORPH_FN i32 operator[](i64 e) const { return *(const i32*)(first + e * stride); }
};

// When the adjacency is valid: stores the counters with which `compare_counters` detects changes of the tables.
MORPH_FN void adjacency_is_valid(i64* w) {
    const i64 *points = (i64*)w[REBUILD_POINTS], *edges = (i64*)w[REBUILD_EDGES];
    w[REBUILD_POINTS_TAIL] = load(points + TAIL);
    w[REBUILD_EDGES_TAIL] = load(edges + TAIL);
    w[REBUILD_EDGES_COUNT] = load(edges + COUNT);
    w[REBUILD_EDGES_HEAD] = load(edges + HEAD);
}

// Calls `visit(i, k, here, all)` for each i below n: `active` is `test(i)`, k the number of smaller i that pass the test,
// and `all` the number of all i that pass.  Ends with a barrier, and returns `all` to every thread.
template <class A, class R, class Test, class Visit>
MORPH_FN i64 number_all(const A& a, R& t, i64* counts, i64 n, const Test& test, const Visit& visit) {
    constexpr i32 LANES = TARGET_GPU ? 32 : 1;
    i32 lane = lane_id(), warp = t.thread / LANES, warps = t.threads / LANES;
    i64 part = (n / LANES + warps) / warps * LANES, first = min_of(warp * part, n), last = min_of(first + part, n);
    u32 found = 0;
    MORPH_UNROLL for (i64 i = first + lane; i < last; i += LANES) found += test(i);
    found = add_lanes(ALL_LANES, found);
    if (lane == 0) counts[warp] = found;
    barrier(a, t);
    u32 before = 0, all = 0;
    for (i32 w = lane; w < warps; w += LANES) {
        u32 x = u32(counts[w]);
        all += x;
        before += w < warp ? x : 0;
    }
    before = add_lanes(ALL_LANES, before), all = add_lanes(ALL_LANES, all);
    MORPH_UNROLL for (i64 i = first; i < last; i += LANES) {
        bool inside = i + lane < last, active = inside && test(i + lane);
        u32 mask = ballot(ALL_LANES, active);
        if (inside) visit(i + lane, i64(before) + popcount(mask & ((1u << lane) - 1)), active, i64(all));
        before += popcount(mask);
    }
    barrier(a, t);
    return all;
}

// The number of sorted keys less than `key`, at least `from`: a galloping search, fast if the result is near `from`.
MORPH_FN i64 count_below(const u64* keys, i64 n, i64 from, u64 key) {
    i64 step = 1;
    for (; from + step <= n && keys[from + step - 1] < key; step *= 2) from += step;
    for (i64 last = min_of(from + step - 1, n); from < last;) {
        i64 middle = (from + last) / 2;
        if (keys[middle] < key) from = middle + 1;
        else last = middle;
    }
    return from;
}

// Sorts keys (point, edge), given in order of edges, by point: a stable radix sort by bits.  Returns the sorted array.
template <class A, class R> MORPH_FN u64* sort_keys(const A& a, R& t, i64* w, i64 n) {
    u64 *keys = (u64*)w[REBUILD_KEYS], *sorted = (u64*)w[REBUILD_MORE_KEYS];
    i64 points = load((i64*)w[REBUILD_POINTS] + COUNT);
    for (i32 bit = 32; n > 0 && (points - 1) >> (bit - 32) > 0; bit++) {
        auto is_set = [&](i64 i) { return keys[i] >> bit & 1; };
        number_all(a, t, (i64*)w[REBUILD_COUNTS], n, is_set, [&](i64 i, i64 k, bool active, i64 all) {
            sorted[active ? n - all + k : i - k] = keys[i];
        });
        u64* other = keys;
        keys = sorted, sorted = other;
    }
    return keys;
}

// Rebuilds the rows of one direction: `near` has the ends of edges in whose rows they are, `far` their other ends;
// `created`: whether there may be new edges.
template <class A, class R>
MORPH_FN void rebuild_rows(const A& a, R& t, i64* w, i64* offset, i32* ids, const EndColumn& near, const EndColumn& far,
                           i64 edges, bool created) {
    const u8* dead = (u8*)w[REBUILD_DEAD_EDGES];
    u8* listed = (u8*)w[REBUILD_LISTED];
    i32 *ranks = (i32*)w[REBUILD_RANKS], *entries = (i32*)w[REBUILD_ENTRIES];
    i64 *counts = (i64*)w[REBUILD_COUNTS], offsets = w[REBUILD_OFFSETS], old = offset[offsets - 1], come = 0;
    u64* keys = (u64*)w[REBUILD_KEYS];
    auto key_of = [&](i32 e) { return u64(u32(near[e])) << 32 | u32(e); };
    if (created) {
        auto is_new = [&](i64 e) { return !dead[e] && !listed[e] && near[e] >= 0 && far[e] >= 0; };
        come = number_all(a, t, counts, edges, is_new, [&](i64 e, i64 k, bool active, i64) {
            if (active) keys[k] = key_of(i32(e));
        });
        keys = sort_keys(a, t, w, come);
    }
    i64 below = 0;  // created edges before the entry; entries of a thread are in order
    i64 stay = number_all(a, t, counts, old, [&](i64 k) { return !dead[ids[k]]; }, [&](i64 k, i64 r, bool active, i64) {
        ranks[k] = i32(r);
        if (!active) {
            listed[ids[k]] = 0;
            return;
        }
        if (come) below = count_below(keys, come, below, key_of(ids[k]));
        entries[r + below] = ids[k];
    });
    for (i64 j = t.thread; j < come; j += t.threads) {
        i32 e = i32(keys[j]), p = i32(keys[j] >> 32);
        i64 from = offset[p], last = offset[p + 1];
        while (from < last) {  // old entries of the row with smaller ids
            i64 middle = (from + last) / 2;
            if (ids[middle] < e) from = middle + 1;
            else last = middle;
        }
        entries[j + (from < old ? i64(ranks[from]) : stay)] = e;
    }
    barrier(a, t);
    for (i64 p = t.thread; p < offsets; p += t.threads) {
        i64 k = offset[p];
        offset[p] = (k < old ? i64(ranks[k]) : stay) + count_below(keys, come, 0, u64(p) << 32);
    }
    MORPH_UNROLL for (i64 k = t.thread; k < stay + come; k += t.threads) ids[k] = entries[k];
    barrier(a, t);
}

// Deletes the edges at deleted points and rebuilds the rows of all directions; returns whether the launch is to stop.
template <class A, class R> MORPH_OUTLINED bool rebuild_changed(const A& a, R t, i64* w) {
    i64* edges = (i64*)w[REBUILD_EDGES];
    i64 count = load(edges + COUNT), tail = load(edges + TAIL), mask = ring_mask(edges), gone = 0;
    bool created = count != w[REBUILD_EDGES_COUNT] || load(edges + HEAD) != w[REBUILD_EDGES_HEAD];
    bool deleted = load((i64*)w[REBUILD_POINTS] + TAIL) != w[REBUILD_POINTS_TAIL];
    u8 *dead = (u8*)w[REBUILD_DEAD_EDGES], *listed = (u8*)w[REBUILD_LISTED];
    const u8* dead_points = (u8*)w[REBUILD_DEAD_POINTS];
    EndColumn src{(u8*)w[REBUILD_SRC], w[REBUILD_SRC_STRIDE]}, dst{(u8*)w[REBUILD_DST], w[REBUILD_DST_STRIDE]};
    if (dead_points && (created || deleted)) {
        auto is_at_deleted = [&](i64 e) {
            if (dead[e]) return false;
            i32 p = src[e], q = dst[e];
            return (p >= 0 && dead_points[p]) || (q >= 0 && dead_points[q]);
        };
        gone = number_all(a, t, (i64*)w[REBUILD_COUNTS], count, is_at_deleted, [&](i64 e, i64 k, bool active, i64) {
            if (!active) return;
            ((i32*)w[REBUILD_FREE_EDGES])[(tail + k) & mask] = i32(e);
            dead[e] = 1;
        });
    }
    i64 *out = (i64*)w[REBUILD_OUT_OFFSET], *in = (i64*)w[REBUILD_IN_OFFSET];
    if (out) rebuild_rows(a, t, w, out, (i32*)w[REBUILD_OUT_EDGE], src, dst, count, created);
    if (in) rebuild_rows(a, t, w, in, (i32*)w[REBUILD_IN_EDGE], dst, src, count, created);
    if (created)
        for (i64 e = t.thread; e < count; e += t.threads)
            if (!dead[e] && !listed[e] && src[e] >= 0 && dst[e] >= 0) listed[e] = 1;
    if (t.thread == 0) {
        store(edges + TAIL, tail + gone);
        adjacency_is_valid(w);
    }
    barrier(a, t);
    return t.stop;
}

// By the master at the barrier of the step, when counters are published: later, some threads may already change the
// tables while others have not yet read the counters.
MORPH_FN void compare_counters(i64* w) {
    const i64 *points = (i64*)w[REBUILD_POINTS], *edges = (i64*)w[REBUILD_EDGES];
    bool same = load(points + TAIL) == w[REBUILD_POINTS_TAIL] && load(edges + TAIL) == w[REBUILD_EDGES_TAIL] &&
                load(edges + COUNT) == w[REBUILD_EDGES_COUNT] && load(edges + HEAD) == w[REBUILD_EDGES_HEAD];
    w[REBUILD_CHANGED] = !same;
}
// By all threads, after that barrier.
template <class A, class R> MORPH_FN void rebuild_adjacency(const A& a, R& t, i64* w) {
    if (w[REBUILD_CHANGED] && rebuild_changed(a, t, w)) t.stop = true;
}
