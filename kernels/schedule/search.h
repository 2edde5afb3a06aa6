// Searches: the last loop of a kernel ends at the first entry of its item's row that passes a test.  The lanes of a
// GPU's warp share long searches; a CPU's thread runs the kernel as it is, not split.
//
// The `Step` of such a kernel has the member type `Searches`, LiveIn, LiveOut, prologue and reach (see balance.h), and
//     test(a, it, live_in, reached)      whether an entry passes; without side effects: `it` may be another lane's item
//     epilogue(a, it, live_out, k, found)    the statements after the test.  If `found`, entry k of the adjacency
//                                        passed, else k is the row's last entry, or -1 if it is empty
//
// Each lane first tests entries of its own row.  Then all lanes search the unfinished rows together, one row after
// the other, as soon as this takes fewer rounds of loads in the worst case, in which no entry passes.  The number of
// entries tested in a round doubles while none passes, so a shared search tests at most about twice the entries that
// a sequential search tests.

constexpr i32 OWN_ENTRIES = 16;    // entries of its own row that a lane tests before rows may be shared
constexpr i32 OWN_GROUP = 4;       // entries it then tests between two decisions; `find_first` loads them together
constexpr i32 SHARED_AT_ONCE = 8;  // most entries of a shared row that a lane loads together

template <class Step, class = void> constexpr bool SEARCHES = false;
template <class Step> constexpr bool SEARCHES<Step, typename Step::Searches> = true;

#ifdef __CUDACC__
// The first entry for which `test(edge, end)` holds, or `last`.  All lanes call it, with the same arguments.
template <class Reach, class Test>
MORPH_FN i64 find_first_by_warp(i64 first, i64 last, const Reach& reach, const Test& test) {
    for (i32 each = 1; first < last; each = min_of(2 * each, SHARED_AT_ONCE)) {
        i64 upto = min_of(last, first + 32 * each), k = first + lane_id();
        Reached r[SHARED_AT_ONCE];
        bool hit[SHARED_AT_ONCE];
        MORPH_UNROLL_ALL for (i32 j = 0; j < SHARED_AT_ONCE; j++)
            if (k + 32 * j < upto) r[j] = reach(k + 32 * j);
        MORPH_UNROLL_ALL for (i32 j = 0; j < SHARED_AT_ONCE; j++)
            hit[j] = k + 32 * j < upto && test(r[j].edge, r[j].end);
        MORPH_UNROLL_ALL for (i32 j = 0; j < SHARED_AT_ONCE; j++) {
            u32 mask = ballot(ALL_LANES, hit[j]);
            if (mask) return first + 32 * j + first_lane(mask);
        }
        first = upto;
    }
    return last;
}

// Whether all lanes together need fewer rounds of loads for the unfinished rows than each lane for its own row; `rest`
// entries of this lane's row are not yet tested.
MORPH_FN bool sharing_is_faster(i64 rest) {
    i32 left = i32(min_of(rest, i64(1 << 24))), whole = (left + 32 * SHARED_AT_ONCE - 1) / (32 * SHARED_AT_ONCE);
    return sum_of_lanes(min_of((left + 31) / 32, whole + 3)) * OWN_GROUP < max_of_lanes(left);
}

// Runs the items of a warp's lanes; `active` is set on lanes with an item that passed the filter.
template <class A, class Step, class I> MORPH_FN void search_batch(const A& a, const Step& s, I& it, bool active) {
    Entries row;
    typename Step::LiveIn live_in{};
    typename Step::LiveOut live_out{};
    bool reaches_loop = active && s.prologue(a, it, row, live_in, live_out), found = false;
    if (!active) it.failed = 0;  // no item to run, but the lane helps to test entries of other items
    auto reach = [&](i64 k) { return s.reach(a, k); };
    i64 k = row.begin;
    for (i32 n = OWN_ENTRIES; any_lane(!found && k < row.end); n = OWN_GROUP) {  // all lanes take part in each round
        if (n == OWN_GROUP && sharing_is_faster(found ? 0 : row.end - k)) break;
        if (found) continue;
        i64 upto = min_of(row.end, k + n);
        k = find_first(k, upto, reach, [&](RowId edge, i32 end) { return s.test(a, it, live_in, Reached{edge, end}); });
        found = k < upto;
    }
    sync_warp();  // other lanes' tests read what the prologues have written
    for (u32 left = ballot(ALL_LANES, !found && k < row.end); left; left &= left - 1) {
        i32 owner_lane = first_lane(left);
        typename Step::LiveIn owner_live_in = from_lane(live_in, owner_lane);
        i64 last = shuffle(ALL_LANES, row.end, owner_lane);
        i64 at = find_first_by_warp(shuffle(ALL_LANES, k, owner_lane), last, reach, [&](RowId edge, i32 end) {
            return s.test(a, it, owner_live_in, Reached{edge, end});
        });
        if (lane_id() == owner_lane) k = at, found = at < last;
    }
    if (!found) k = row.begin < row.end ? row.end - 1 : -1;
    if (reaches_loop) s.epilogue(a, it, live_out, k, found);
    end_item(a, it);
}
#endif
