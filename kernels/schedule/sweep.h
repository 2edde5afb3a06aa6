// Sweeps: reductions over the packed adjacency rows of all points, divided evenly among the warps (merge-path).
//
// If the items of a step are all points, in order, and a point's entries are its packed row, all entries are
// consecutive in the order of the items.  If the bodies only reduce, and the prologue changes nothing (`SWEEPS` of a
// Step), any warp may run any entry: each warp gets an equal part of the sequence of all rows and entries, which may
// begin and end within a row, so no row is too long.
//
// Invariant: the warp in whose part a row begins runs the row's epilogue, once.  The partial sums of later warps over
// that row, each at the beginning of its part, are in `sums_before` after a barrier.  So for a given number of warps
// sums are added in one fixed order.
//
// `begin(a, i)` of the Step is the first entry of the row of point i.

#if defined(MORPH_FAULTS)  // tests: small graphs have rows of each kind
constexpr i32 IN_FLIGHT = 2, SHORT_ROW = 2, MIDDLE_ROW = 8, WASTED_1 = 4, WASTED_8 = 4;
constexpr i64 ROW_COST = 1;
#else
constexpr i32 IN_FLIGHT = 4;   // entries of a lane whose loads overlap
constexpr i32 SHORT_ROW = 16;  // a lane processes each row of a batch of 32 up to this size,
constexpr i32 MIDDLE_ROW = 512;  // 8 lanes up to this size,
constexpr i32 WASTED_1 = 4, WASTED_8 = 3;  // if the ratio of the longest row to the mean is at most this
constexpr i64 ROW_COST = 8;    // cost of a row, in entries, besides its entries
#endif

#ifdef __CUDACC__
template <class T> MORPH_FN T sum_of_all(T x) {  // on all lanes
    MORPH_UNROLL_ALL for (i32 by = 16; by; by /= 2) x.add(from_lane(x, lane_id() ^ by));
    return x;
}

// Reductions over a batch of 32 rows, each by LANES adjacent lanes, so 32 / LANES rows at once; entries `low` to `high`
// from `base` on are those of this lane's row.  The next entries are loaded while the previous ones are reduced.
template <i32 LANES, class A, class Step, class I>
MORPH_FN typename Step::Reductions sum_rows_by_lanes(const A& a, const Step& s, I& it,
                                                     const typename Step::LiveIn& live_in, i64 base, i32 low, i32 high) {
    constexpr i32 ROWS = 32 / LANES;
    typename Step::Reach next[IN_FLIGHT];
    typename Step::Reductions mine, row;
    typename Step::LiveIn owner_live_in = live_in;
    i32 k = low, end = high;
    auto begin = [&](i32 pass) {
        if constexpr (LANES > 1) {
            i32 owner = pass * ROWS + lane_id() / LANES;
            k = shuffle(ALL_LANES, low, owner) + lane_id() % LANES, end = shuffle(ALL_LANES, high, owner);
            if constexpr (!__is_empty(typename Step::LiveIn)) owner_live_in = from_lane(live_in, owner);
        }
    };
    auto reach = [&]() {
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++)
            if (k + j * LANES < end) next[j] = s.reach(a, base + k + j * LANES);
    };
    begin(0);
    reach();
    for (i32 pass = 0; pass < LANES;) {
        typename Step::Reductions reductions[IN_FLIGHT];
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++)
            if (k + j * LANES < end) s.body(a, it, owner_live_in, next[j], reductions[j]);
        k += IN_FLIGHT * LANES;
        bool ends = !any_lane(k < end);
        if (ends && ++pass < LANES) begin(pass);
        reach();
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++) row.add(reductions[j]);
        if (!ends) continue;
        if constexpr (LANES > 1) {
            MORPH_UNROLL_ALL for (i32 by = LANES / 2; by; by /= 2) row.add(from_lane(row, lane_id() ^ by));
            row = from_lane(row, lane_id() % ROWS * LANES);
        }
        if (lane_id() / ROWS == pass - 1) mine.add(row);
        row = {};
    }
    return mine;
}

// Reductions over the `n` entries of a batch of rows, from `base` on; `low` to `high` are those of this lane's row.
template <class A, class Step, class I>
MORPH_FN typename Step::Reductions sum_rows(const A& a, const Step& s, I& it, const typename Step::LiveIn& live_in,
                                            i64 base, i32 low, i32 high, i32 n) {
    typename Step::Reach next[IN_FLIGHT];
    typename Step::Reductions mine, open;  // of this lane's row; of the row that is being summed by all lanes
    i32 most = max_of_lanes(high - low);
    if (most <= SHORT_ROW && most * 32 <= WASTED_1 * n) return sum_rows_by_lanes<1>(a, s, it, live_in, base, low, high);
    if (most <= MIDDLE_ROW && (most + 7) / 8 * 256 <= WASTED_8 * n)
        return sum_rows_by_lanes<8>(a, s, it, live_in, base, low, high);
    bool opened = false;
    auto close = [&](i32 at) {  // ends the row of the previous entry
        open = sum_of_all(open);
        if (low < at && at <= high) mine.add(open);
        open = {}, opened = false;
    };
    auto reach = [&](i32 at) {
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++)
            if (at + 32 * j + lane_id() < n) next[j] = s.reach(a, base + at + 32 * j + lane_id());
    };
    reach(0);
    for (i32 at = 0; at < n; at += 32 * IN_FLIGHT) {
        typename Step::Reductions reductions[IN_FLIGHT];
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++) {
            i32 i = at + 32 * j + lane_id();
            if constexpr (__is_empty(typename Step::LiveIn)) {
                if (i < n) s.body(a, it, live_in, next[j], reductions[j]);
            } else {
                typename Step::LiveIn owner_live_in = from_lane(live_in, owner_of(high, i));
                if (i < n) s.body(a, it, owner_live_in, next[j], reductions[j]);
            }
        }
        reach(at + 32 * IN_FLIGHT);
        MORPH_UNROLL_ALL for (i32 j = 0; j < IN_FLIGHT; j++) {
            i32 from = at + 32 * j;
            if (from >= n) break;
            bool begins = low < high && low >= from && low < from + 32;
            u32 starts = or_lanes(ALL_LANES, begins ? 1u << (low - from) : 0u);
            if (starts && opened) close(from);
            if (starts <= 1) {  // all these entries belong to one row
                open.add(reductions[j]), opened = true;
                continue;
            }
            i32 begin = 31 - leading_zeros((starts | 1) & ((2u << lane_id()) - 1));
            MORPH_UNROLL_ALL for (i32 by = 1; by < 32; by *= 2) {
                typename Step::Reductions below = from_lane(reductions[j], (lane_id() - by) & 31);
                if (lane_id() - by >= begin) reductions[j].add(below);
            }
            i32 end = min_of(high, from + 32);
            typename Step::Reductions row_sum = from_lane(reductions[j], (end - 1 - from) & 31);
            if (low < end && end > from) mine.add(row_sum);
        }
    }
    if (opened) close(n);
    return mine;
}

template <class A, class R, class Step> MORPH_FN void each_sweep(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::Reductions Reductions;
    Reductions* sums_before = (Reductions*)(a.high_degree + FIRST_ENTRY);  // by warp: of an earlier warp's row
    i64 warps = t.threads / 32, warp = t.thread / 32, zero = s.begin(a, first);
    auto place = [&](i64 i) { return s.begin(a, i) - zero + ROW_COST * (i - first); };
    i64 all = place(last), from = all * warp / warps, to = all * (warp + 1) / warps, next = 0;
    typename Step::I it(a, t, -1);
    typename Step::LiveOut live_out{};
    Reductions reductions, before;
    bool waits = false;  // the row continues in the next warp's part
    i64 i = from < to ? first + last_of(last - first, [&](i64 i) { return place(first + i) <= from; }) : last;
    i64 next_low = 0, next_high = 0;  // of the next rows: loaded while the previous ones are summed
    auto reach = [&](i64 i) {
        i64 row = min_of(i + lane_id(), last - 1);
        next_low = s.begin(a, row), next_high = s.begin(a, row + 1);
    };
    if (i < last) reach(i);
    for (bool more = i < last; more; i += 32) {
        bool active = i + lane_id() < last;
        i64 row = active ? i + lane_id() : last - 1, low = next_low, high = next_high;
        i64 at = low - zero + ROW_COST * (row - first);
        reach(i + 32);
        active = active && at < to;
        next = at + ROW_COST + (high - low);
        high = active ? min_of(high, low + max_of(to - at - ROW_COST, i64(0))) : high;
        low = active ? min_of(high, low + max_of(from - at - ROW_COST, i64(0))) : high;
        i32 rows = popcount(ballot(ALL_LANES, active));
        i64 base = shuffle(ALL_LANES, low, 0), end = shuffle(ALL_LANES, high, rows - 1);
        if (!active) low = high = end;
        Entries whole;
        typename Step::LiveIn live_in{};
        it = typename Step::I(a, t, row);
        s.find(a, it);
        s.prologue(a, it, whole, live_in, live_out);
        reductions = sum_rows(a, s, it, live_in, base, i32(low - base), i32(high - base), i32(end - base));
        bool begun = active && at >= from, opens = begun && s.open(a, it);
        if (active && !begun) before = reductions;
        waits = opens && next > to;
        if (opens && !waits) {
            s.add(live_out, reductions);
            s.epilogue(a, it, live_out);
            end_item(a, it);
        }
        more = rows == 32 && shuffle(ALL_LANES, next, 31) < to && i + 32 < last;
    }
    if (lane_id() == 0) sums_before[warp] = before;  // of the first lane's row
    barrier(a, t);
    u32 mask = ballot(ALL_LANES, waits);
    if (!mask) return;
    next = shuffle(ALL_LANES, next, first_lane(mask));
    Reductions others;
    for (i64 w = warp + 1 + lane_id(); w < warps && all * w / warps < next; w += 32) others.add(sums_before[w]);
    others = sum_of_all(others);
    if (!waits) return;
    reductions.add(others);
    s.add(live_out, reductions);
    s.epilogue(a, it, live_out);
    end_item(a, it);
}
#endif
