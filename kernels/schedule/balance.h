// Work sharing: several threads run the last loop of a kernel, over the entries of its item's row.
//
// A `Step` with WORK_SHARING has these members, besides those that launch.h and reservation.h list:
//     LiveIn, LiveOut, Reductions    locals that the body reads, that the epilogue reads, that the bodies reduce to
//     LIMIT                 the most entries of a row that is not appended to the high-degree list
//     prologue(a, it, row, live_in, live_out)    the statements before the loop; returns whether the loop is reached
//     Reach, reach(a, k)    the other end of entry k of the adjacency, and the edge's columns that every body reads
//     body(a, it, live_in, reached, reductions)    the body of the loop; `it` belongs to the executing thread
//     HAS_EPILOGUE          whether statements follow the loop, or there are reductions
//     add(live_out, reductions), epilogue(a, it, live_out)    adds the reductions; the statements after the loop
//
// Invariant: the prologue of an item has run, and has reserved, before any body runs for one of its entries; all
// bodies have run before its epilogue runs, once.  Where bodies do not reserve in batches, the capacity reserved
// for an entry goes to the thread that runs its body, which gives back what it does not use; the capacity for the
// epilogue stays with the item.
//
// On a GPU a warp processes a batch of up to 32 items, one on each lane: consecutive lanes run consecutive entries
// of all their rows.  Rows longer than LIMIT are appended to the high-degree list (see high_degree.h).

constexpr i32 PREFETCHED = 4;  // entries of each lane, or of a row, whose other ends are loaded together

#ifdef __CUDACC__
template <class T> MORPH_FN T sum_up_to(T x) {  // inclusive prefix sum over the lanes
    MORPH_UNROLL_ALL for (i32 by = 1; by < 32; by *= 2) {
        T below = shuffle_up(x, by);
        if (lane_id() >= by) x += below;
    }
    return x;
}
template <class T> MORPH_FN T sum_of_row(T x, i32 row) {  // inclusive prefix sum over the lanes of the same row
    MORPH_UNROLL_ALL for (i32 by = 1; by < 32; by *= 2) {
        T below = from_lane(x, (lane_id() - by) & 31);
        i32 row_below = shuffle_up(row, by);
        if (lane_id() >= by && row_below == row) x.add(below);
    }
    return x;
}
// Selects one of a few values in registers.
template <class T, i32 N> MORPH_FN T nth_of(const T (&x)[N], i32 at) {
    T found = x[0];
    MORPH_UNROLL_ALL for (i32 j = 1; j < N; j++)
        if (j == at) found = x[j];
    return found;
}
// The lane whose row contains entry `i` of the batch: the first whose prefix sum exceeds i.
MORPH_FN i32 owner_of(i32 upto, i32 i) {
    i32 lane = 0;
    MORPH_UNROLL_ALL for (i32 by = 16; by; by /= 2)
        if (shuffle(ALL_LANES, upto, lane + by - 1) <= i) lane += by;
    return lane;
}

// Appends the long rows of a batch to the high-degree list; returns whether this lane's row is in it.
template <class A, class R, class Step>
MORPH_FN bool list_high_degree_rows(const A& a, const R& t, const Step&, Entries& row,
                                    const typename Step::LiveIn& live_in, typename Step::I& it,
                                    const typename Step::LiveOut& live_out) {
    bool large = row.end - row.begin > Step::LIMIT;
    if (!any_lane(large)) return false;
    HighDegreeList<Step> high_degree(a, t, true);
    i64 mine = large ? high_degree.count(row) : 0, upto = sum_up_to(mine), before = -1;
    if (lane_id() == 31 && !high_degree.full()) before = fetch(Plus(), high_degree.words + LISTED, upto);
    before = shuffle(ALL_LANES, before, 31);
    if (before < 0 || !large) return false;
    high_degree.put(a, t, before + upto - mine, row, live_in, it, live_out);
    row.end = row.begin;
    return true;
}

// Appends the unprocessed ranges of rows to the high-degree list, to be run when the host has added capacity.
template <class A, class R, class Step>
MORPH_FN void defer(const A& a, const R& t, const Step&, Entries& row, const typename Step::LiveIn& live_in) {
    HighDegreeList<Step> high_degree(a, t, true);
    i64 mine = row.begin < row.end ? high_degree.count(row) : 0, upto = sum_up_to(mine), before = 0;
    if (lane_id() == 31 && upto) before = fetch(Plus(), high_degree.words + LISTED, upto);
    before = shuffle(ALL_LANES, before, 31) + upto - mine;
    if (mine) high_degree.put(before, row, live_in);
    row.begin = row.end;
}

// The item that holds the reservations of entries and the queue: the warp's in batches, else the row's own.
template <class Step, class I> MORPH_FN I& reserving_item(Runner<Step>& by, I& it) {
    if constexpr (Step::BATCHED) return by.it;
    else return it;
}

// Prefetches the adjacency bounds of the vertex that this entry may enqueue; `it` is the reserving item.
template <class A, class Step, class I, class Reach>
MORPH_FN void prefetch_bounds(const A& a, const Step& s, I& it, const Reach& reached, bool runs) {
    if (!runs || !it.asynchronous.capacity) return;
    it.asynchronous.row = s.row_of(a, reached);
    it.asynchronous.to = reached.end;
}

// Runs the items of a warp's lanes, which share the entries; `active` is set on lanes with an item that passed the filter.
template <class A, class R, class Step, class I>
MORPH_FN void share_batch(const A& a, R& t, const Step& s, I& it, bool active, Runner<Step>& by) {
    Entries row;
    typename Step::LiveIn live_in{};
    typename Step::LiveOut live_out{};
    bool reaches_loop = active && s.prologue(a, it, row, live_in, live_out);
    if (!active) it.failed = 0;  // the item has ended; its lane runs other items' entries
    sync_warp();
    if constexpr (Step::LIMIT < NO_LIST) reaches_loop &= !list_high_degree_rows(a, t, s, row, live_in, it, live_out);
    while (any_lane(row.begin < row.end)) {  // one iteration, unless the number of entries exceeds 32 bits
        i32 mine = i32(min_of(row.end - row.begin, i64(1 << 25))), upto = sum_up_to(mine);
        i32 all = shuffle(ALL_LANES, upto, 31);
        i64 shift = row.begin - (upto - mine);
        row.begin += mine;
        typename Step::Reach next[PREFETCHED]{};
        i32 owner[PREFETCHED]{};
        for (i32 base = 0, at = PREFETCHED; base < all; base += 32, at++) {
            i32 i = base + lane_id();
            if (at == PREFETCHED) {  // loads the other ends of the next entries together
                at = 0;
                MORPH_UNROLL_ALL for (i32 j = 0; j < PREFETCHED; j++)
                    if (base + 32 * j < all) {
                        owner[j] = owner_of(upto, i + 32 * j);
                        i64 k = shuffle(ALL_LANES, shift, owner[j]) + i + 32 * j;
                        if (i + 32 * j < all) next[j] = s.reach(a, k);
                    }
            }
            if constexpr (Step::BATCHED) {
                if (!by.has_capacity(a, s)) {
                    row.begin = shift + min_of(max_of(base, upto - mine), upto);
                    defer(a, t, s, row, live_in);
                    break;
                }
            }
            typename Step::Reach reached = nth_of(next, at);
            i32 owner_lane = nth_of(owner, at);
            typename Step::LiveIn owner_live_in = from_lane(live_in, owner_lane);
            typename Step::Reductions reductions;
            if constexpr (Step::KNOWS_ROWS) prefetch_bounds(a, s, reserving_item(by, it), reached, i < all);
            if (i < all) s.body(a, reserving_item(by, it), owner_live_in, reached, reductions);
            sync_warp();
            if constexpr (Step::HAS_EPILOGUE) {
                reductions = sum_of_row(reductions, owner_lane);
                i32 last = min_of(upto, base + 32) - 1;  // of the row's entries in this round
                reductions = from_lane(reductions, last & 31);
                if (last >= base && last >= upto - mine) s.add(live_out, reductions);
            }
        }
    }
    if constexpr (Step::HAS_EPILOGUE) {
        if (reaches_loop) s.epilogue(a, it, live_out);
    }
    end_item(a, it);
}

// Runs a batch of items whose last loop is shared.
template <class A, class R, class Step, class I>
MORPH_FN void run_batch(const A& a, R& t, const Step& s, I& it, bool active, Runner<Step>& by) {
    if constexpr (SEARCHES<Step>) search_batch(a, s, it, active);
    else share_batch(a, t, s, it, active, by);
}

// Whether a launch is that of a program, whose steps end at barriers.
template <class R, class = void> constexpr bool IN_PROGRAM = false;
template <class R> constexpr bool IN_PROGRAM<R, Void<decltype(R::block)>> = R::SECTIONS == 1;

template <class A> MORPH_FN i32* batch_cursor(const A& a, i32 k) { return (i32*)(a.cursor + 16 + 8 * k); }

// The batches that a warp runs: the first one by the warp's number, in a program the others from a cursor, the next as soon
// as the warp begins one, since batches take different times.
//
// Of three cursors in turn one is read, and the one of the next such step is cleared.
struct Batches {
    i32 batch, next = 0, which = -1;  // `which` cursor; -1: every `warps`-th batch, without a cursor

    template <bool DYNAMIC, class A, class R>
    static MORPH_FN Batches of(const A& a, R& t, i64 warp, i64 count) {
        Batches made;
        made.batch = i32(warp);
        if (DYNAMIC && count > t.threads / 32) {
            made.which = t.cursor;
            t.cursor = (t.cursor + 1) % 3;
            if (t.thread == 0) store(batch_cursor(a, t.cursor), 0);
        }
        made.reserve(a, count);
        return made;
    }
    template <class A> MORPH_FN void reserve(const A& a, i64 count) {
        if (which >= 0 && batch < count && lane_id() == 0) next = fetch(Plus(), batch_cursor(a, which), 1);
    }
    template <class A, class R> MORPH_FN void take_next(const A& a, const R& t, i64 count) {
        batch = t.threads / 32 + (which >= 0 ? shuffle(ALL_LANES, next, 0) : batch);
        reserve(a, count);
    }
};

// The items of a launch of one block: a warp runs one item at a time.  Much less code than batches have, which a launch
// of few items waits for longer than for its memory.
template <class A, class R, class Step>
MORPH_FN void each_shared_in_block(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    constexpr i64 WARPS = SINGLE_BLOCK_WARPS;
    if (first >= last) return;
    Runner<Step> by(a, t, s, WARPS);
    for (i64 i = first + warp_of_block(); i < last; i += WARPS) {
        I it(a, t, i);
        if (by.it.failed) {
            if (lane_id() == 0 && !t.replay) mark_deferred(a.status, a.deferred, it);
            continue;
        }
        Entries row;
        typename Step::LiveIn live_in{};
        typename Step::LiveOut live_out{};
        bool reaches_loop = false;
        if (lane_id() == 0) {
            if (open(a, t, s, it)) reaches_loop = s.prologue(a, it, row, live_in, live_out);
            else it.failed = 0;  // the item has ended
        }
        sync_warp();
        if constexpr (Step::LIMIT < NO_LIST) reaches_loop &= !list_high_degree_rows(a, t, s, row, live_in, it, live_out);
        row = from_lane(row, 0), live_in = from_lane(live_in, 0);
        typename Step::Reductions reductions;
        typename Step::Reach reached{}, next{};
        row.begin += lane_id();
        if (row.begin < row.end) next = s.reach(a, row.begin);
        for (; any_lane(row.begin < row.end); row.begin += 32) {
            reached = next;
            if (row.begin + 32 < row.end) next = s.reach(a, row.begin + 32);
            if constexpr (Step::BATCHED) {
                if (!by.has_capacity(a, s)) {
                    if (lane_id()) row.begin = row.end;  // the first lane's entry is the first one left
                    defer(a, t, s, row, live_in);
                    break;
                }
            }
            if (row.begin < row.end) s.body(a, reserving_item(by, it), live_in, reached, reductions);
            sync_warp();
        }
        if constexpr (Step::HAS_EPILOGUE) {
            reductions = from_lane(sum_of_row(reductions, 0), 31);
            if (reaches_loop) s.add(live_out, reductions), s.epilogue(a, it, live_out);
        }
        end_item(a, it);
    }
    by.end(a, s);
}

// Batch sizes: 1 to 8 items while there are too few items for all warps (each batch costs a few contended atomics),
// then as many as give every warp one batch.  Asynchronous steps create items, so their batches begin with 1 or 2.
template <class A, class R, class Step>
MORPH_FN void each_shared_on_warps(const A& a, R& t, const Step& s, i64 first, i64 last) {
    i64 warps = t.threads / 32, all = (last - first + warps - 1) / warps;
    i64 few = (8 * (last - first) + warps - 1) / warps;
    i32 size = all > 8 ? i32(min_of(all, i64(32))) : i32(max_of(all, min_of(few, i64(Step::ASYNCHRONOUS ? 2 : 8))));
    if (first >= last) return;
    i64 count = (last - first + size - 1) / size, warp = warp_of_section(t, warp_id(), warps);
    Runner<Step> by(a, t, s, min_of(count, warps));
    constexpr bool DYNAMIC = IN_PROGRAM<R> && !Step::ASYNCHRONOUS;
    for (auto part = Batches::of<DYNAMIC>(a, t, warp, count); part.batch < count; part.take_next(a, t, count)) {
        i64 base = first + i64(part.batch) * size;
        typename Step::I it(a, t, base + lane_id());
        bool mine = lane_id() < size && it.position < last;
        if (by.it.failed) {
            if (mine && !t.replay) mark_deferred(a.status, a.deferred, it);
        } else if constexpr (Step::ASYNCHRONOUS) {
            run_asynchronously(a, t, s, it, mine, size, last, (base - first) / size, by);
        } else {
            run_batch(a, t, s, it, mine && open(a, t, s, it), by);
        }
    }
    by.end(a, s);
}

// The last of n indices for which a monotone predicate holds that holds for index 0: a 32-ary search by a warp.
template <class F> MORPH_FN i64 last_of(i64 n, const F& holds) {
    i64 first = 0;
    while (n > 1) {
        i64 apart = (n + 31) / 32, i = lane_id() * apart;
        u32 mask = ballot(ALL_LANES, i < n && holds(first + i));
        i64 skipped = (popcount(mask) - 1) * apart;
        first += skipped;
        n = min_of(apart, n - skipped);
    }
    return first;
}
template <class Step>  // the row of the list that contains a chunk
MORPH_FN i64 entry_of(const HighDegreeEntry<Step>* high_degree, i64 n, i64 chunk) {
    return last_of(n, [&](i64 i) { return load_stable(&high_degree[i].chunk) <= chunk; });
}

// Whether the loop has no live-in variable, as a loop over all edges that only adds up values of the edges.
template <class Step> constexpr bool REDUCES_ALONE =
    Step::HAS_EPILOGUE && !Step::BATCHED && !Step::ASYNCHRONOUS && __is_empty(typename Step::LiveIn);

// Runs the rows of the high-degree list; chunks are divided evenly among the warps.
template <class A, class R, class Step> MORPH_FN void run_listed(const A& a, R& t, const Step& s) {
    HighDegreeList<Step> high_degree(a, t, false);
    i64 n = high_degree.size(), warps = t.threads / 32;
    if (!n) return;
    i64 all = high_degree.at[n - 1].chunk + chunks(high_degree.at[n - 1].row);
    i64 chunk = all * warp_id() / warps, last = all * (warp_id() + 1) / warps;
    if (chunk >= last) return;
    Runner<Step> by(a, t, s, 0);
    if constexpr (Step::ASYNCHRONOUS && !SINGLE_BLOCK) open_queue(a, t, s, by);
    for (i64 h = entry_of(high_degree.at, n, chunk); chunk < last; h++) {
        HighDegreeEntry<Step>& large = high_degree.at[h];
        typename Step::LiveIn live_in = large.live_in;
        Entries row = large.row;
        typename Step::Reductions reductions;
        i64 upto = min_of(large.chunk + chunks(row), last);
        i64 end = min_of(row.end, row.begin + (upto - large.chunk) * CHUNK);
        i64 base = row.begin + (chunk - large.chunk) * CHUNK, k = base + lane_id();
        if constexpr (REDUCES_ALONE<Step>) {
            constexpr i32 GROUP = 32 * PREFETCHED;
            for (; base + GROUP <= end; base += GROUP, k += GROUP) {  // without branches, so that loads overlap
                typename Step::Reach group[PREFETCHED];
                MORPH_UNROLL_ALL for (i32 j = 0; j < PREFETCHED; j++) group[j] = s.reach(a, k + 32 * j);
                MORPH_UNROLL_ALL for (i32 j = 0; j < PREFETCHED; j++) s.body(a, by.it, live_in, group[j], reductions);
                sync_warp();
            }
        }
        typename Step::Reach next[PREFETCHED]{};
        for (i32 at = PREFETCHED; base < end; base += 32, k += 32, at++) {
            if (at == PREFETCHED) {
                at = 0;
                MORPH_UNROLL_ALL for (i32 j = 0; j < PREFETCHED; j++)
                    if (k + 32 * j < end) next[j] = s.reach(a, k + 32 * j);
            }
            if constexpr (Step::BATCHED) {
                if (!by.has_capacity(a, s)) {
                    row = {base, lane_id() ? base : end};
                    defer(a, t, s, row, live_in);
                    break;
                }
            }
            typename Step::Reach reached = nth_of(next, at);
            if constexpr (Step::KNOWS_ROWS) prefetch_bounds(a, s, by.it, reached, k < end);
            if (k < end) s.body(a, by.it, live_in, reached, reductions);
            sync_warp();
        }
        if constexpr (Step::HAS_EPILOGUE) {
            reductions = sum_of_row(reductions, 0);
            if (lane_id() == 31) end_chunks(a, s, large.waiting, reductions, upto - chunk);
            sync_warp();
        }
        chunk = upto;
    }
    if constexpr (Step::ASYNCHRONOUS && !SINGLE_BLOCK) end_queue(a, t, s, by);
    by.end(a, s);
}
#endif

// --- on a CPU -------------------------------------------------------------------------------------

// The row of an entry: of loops over both directions, its offsets are loaded once, not for each entry.
template <class Step, class = void> struct RowOf {
    template <class A> MORPH_FN RowOf(const A&, const Step&, i64) {}
    template <class A> MORPH_FN typename Step::Reach reach(const A& a, const Step& s, i64 k) const { return s.reach(a, k); }
};
template <class Step> struct RowOf<Step, Void<typename Step::Rows>> {
    const typename Step::Rows rows;
    template <class A> MORPH_FN RowOf(const A& a, const Step& s, i64 k) : rows(s.rows(a, k)) {}
    template <class A> MORPH_FN typename Step::Reach reach(const A& a, const Step& s, i64 k) const {
        return s.reach(a, rows, k);
    }
};

#ifndef MORPH_SERIAL  // a single thread runs whole items
template <class A, class R, class Step>
MORPH_FN bool list_high_degree_row(const A& a, const R& t, const Step&, const Entries& row,
                                   const typename Step::LiveIn& live_in, typename Step::I& it,
                                   const typename Step::LiveOut& live_out) {
    HighDegreeList<Step> high_degree(a, t, true);
    if (high_degree.full()) return false;
    i64 before = fetch(Plus(), high_degree.words + LISTED, high_degree.count(row));
    high_degree.put(a, t, before, row, live_in, it, live_out);
    return true;
}

template <class A, class Step, class I>
MORPH_FN void run_entries(const A& a, const Step& s, I& it, Entries row, const typename Step::LiveIn& live_in,
                          typename Step::Reductions& reductions) {
    if (row.begin >= row.end) return;
    const RowOf<Step> entries(a, s, row.begin);
    for (i64 k = row.begin; k < row.end; k++) s.body(a, it, live_in, entries.reach(a, s, k), reductions);
}
// Runs the entries of a row; entries without capacity are appended to the high-degree list.
template <class A, class R, class Step>
MORPH_FN void run_row(const A& a, const R& t, const Step& s, Entries row, const typename Step::LiveIn& live_in,
                      Runner<Step>& by) {
    if (row.begin >= row.end) return;
    typename Step::Reductions reductions;
    const RowOf<Step> entries(a, s, row.begin);
    for (; row.begin < row.end; row.begin++) {
        if (!by.has_capacity(a, s)) {
            HighDegreeList<Step> high_degree(a, t, true);
            high_degree.put(fetch(Plus(), high_degree.words + LISTED, high_degree.count(row)), row, live_in);
            return;
        }
        s.body(a, by.it, live_in, entries.reach(a, s, row.begin), reductions);
    }
}

// Runs an item that has passed the filter.
template <class A, class R, class Step, class I>
MORPH_FN void run_shared(const A& a, const R& t, const Step& s, I& it, Runner<Step>& by) {
    Entries row;
    typename Step::LiveIn live_in{};
    typename Step::LiveOut live_out{};
    bool reaches_loop = s.prologue(a, it, row, live_in, live_out);
    bool large = Step::LIMIT < NO_LIST && is_long(row, Step::LIMIT, t.threads);
    if (!large || !list_high_degree_row(a, t, s, row, live_in, it, live_out)) {
        typename Step::Reductions reductions;
        if constexpr (Step::BATCHED) run_row(a, t, s, row, live_in, by);
        else run_entries(a, s, it, row, live_in, reductions);
        if constexpr (Step::HAS_EPILOGUE) {
            if (reaches_loop) s.add(live_out, reductions), s.epilogue(a, it, live_out);
        }
    }
    end_item(a, it);
}

// Runs the items; long rows are appended to the high-degree list.
template <class A, class R, class Step>
MORPH_LOOP void each_shared_on_threads(const A& a, R& t, const Step& s, i64 first, i64 last) {
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    caches.attach(by.it);
    for (Share share(a, t, first, last); share.next();)
        for (i64 i = share.begin; i < share.end; i++) {
            typename Step::I it(a, t, i);
            caches.attach(it);
            if (by.it.failed) {
                if (!t.replay) mark_deferred(a.status, a.deferred, it);
            } else if (open(a, t, s, it)) {
                run_shared(a, t, s, it, by);
            }
        }
    by.end(a, s);
    caches.flush();
}

template <class Step> MORPH_FN i64 owner_by_bisection(const HighDegreeEntry<Step>* high_degree, i64 n, i64 chunk) {
    i64 first = 0;
    while (n > 1) {
        i64 half = n / 2;
        bool behind = high_degree[first + half].chunk <= chunk;
        first += behind ? half : 0;
        n = behind ? n - half : half;
    }
    return first;
}

// Runs the rows of the high-degree list; threads take chunks from a cursor.  A thread that cannot reserve capacity
// takes all remaining chunks and appends them to the other side of the list.
template <class A, class R, class Step> MORPH_FN void run_listed_on_threads(const A& a, R& t, const Step& s) {
    HighDegreeList<Step> high_degree(a, t, false);
    i64 n = high_degree.size();
    if (!n) return;
    i64 all = high_degree.at[n - 1].chunk + chunks(high_degree.at[n - 1].row);
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    if (!is_single(t)) caches.attach(by.it);
    for (i64 chunk; (chunk = fetch(Plus(), a.cursor, by.it.failed ? all : i64(1))) < all;) {
        if (t.thread == 0) poll(a.cursor);
        i64 h = owner_by_bisection(high_degree.at, n, chunk);
        HighDegreeEntry<Step>& large = high_degree.at[h];
        typename Step::Reductions reductions;
        i64 k = large.row.begin + (chunk - large.chunk) * CHUNK, end = min_of(large.row.end, k + CHUNK);
        if constexpr (Step::BATCHED) {
            if (by.it.failed) {
                run_row(a, t, s, {k, large.row.end}, large.live_in, by);
                while (++h < n) run_row(a, t, s, high_degree.at[h].row, high_degree.at[h].live_in, by);
                break;
            }
        }
        if constexpr (Step::BATCHED) run_row(a, t, s, {k, end}, large.live_in, by);
        else run_entries(a, s, by.it, {k, end}, large.live_in, reductions);
        if constexpr (Step::HAS_EPILOGUE) end_chunks(a, s, large.waiting, reductions, 1);
    }
    by.end(a, s);
    caches.flush();
}

#endif

template <class A, class R, class Step>
MORPH_HOT void each_shared(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (TARGET_GPU) each_shared_on_warps(a, t, s, first, last);
    else each_shared_on_threads(a, t, s, first, last);
}
template <class A, class R, class Step> MORPH_FN void run_high_degree_list(const A& a, R& t, const Step& s) {
    if constexpr (SERIAL) return;  // has listed none
    else if constexpr (!TARGET_GPU) run_listed_on_threads(a, t, s);
    else if constexpr (Step::REPLAYS) run_listed(a, t, s);
}
