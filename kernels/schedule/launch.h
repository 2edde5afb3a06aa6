// Execution of the items of a foreach, and the entry of a unit.
//
// A `Step` is one foreach of the unit.  It names its items' type `I` and has
//     FILTERS          whether there is a ``where``
//     FETCH_ADDS       whether the kernel adds floats atomically, or uses the old value of an atomic addition
//     find(a, it)      sets the row with which the kernel is called
//     open(a, it)      the same; returns whether the item is to be run (the row is live, and passes the filter)
//     run(a, it)       the kernel; with single(collection): returns whether it claims anything
//     take_all(a, t, caches)    a single thread reserves all capacity of the lists that the step adds to
//     WORK_SHARING          whether threads share its last loop: then see balance.h, search.h and sweep.h
//     ASYNCHRONOUS     only with WORK_SHARING: whether the step may run the items that it adds
//     list(a, t)       only if ASYNCHRONOUS: the header of the list of the items
//     KNOWS_ROWS       only with WORK_SHARING: whether the adjacency row of an added item is known
//     prefetch_row(a, t, i)    only of lists whose items have rows: prefetches the row of item i
//     claim, wins, commit, abort    only with single(collection)
// `end_item(a, it)` gives back the item's unused reservations, and records a failure.

// Whether the item is to be run; if not, the item is ended here.
template <class A, class R, class Step, class I>
MORPH_HOT bool open(const A& a, const R& t, const Step& s, I& it) {
    if (t.replay && !was_deferred(a.deferred, it.deferred_bit())) return false;
    if (s.open(a, it)) return true;
    end_item(a, it);
    return false;
}
// The part of a claiming kernel after the barrier.
template <class A, class Step, class I> MORPH_FN void finish(const A& a, const Step& s, I& it, bool won) {
    if (won) s.commit(a, it);
    else s.abort(a, it);
    end_item(a, it);
}

// --- on a GPU -------------------------------------------------------------------------------------

#ifdef __CUDACC__
constexpr i32 FILTERED_PER_LANE = 8;  // items of each lane that a warp filters before it runs any

// The warp's queue of items that passed; all steps of a unit share the memory.
MORPH_FN unsigned short* filter_queue() {
    MORPH_SHARED unsigned short queues[256 / 32][32 * FILTERED_PER_LANE];
    return queues[warp_of_block()];
}

// A warp filters `each` items a lane, from `base` on, and queues those that pass; returns their number.
template <class I, class A, class R, class Passes, class... Buffers>
MORPH_FN i32 filter_batch(const A& a, const R& t, i64 base, i64 last, i32 each, const Passes& passes, Buffers&... buffers) {
    unsigned short* queue = filter_queue();
    i32 lane = lane_id(), found = 0;
    u32 pass = 0;
    MORPH_UNROLL for (i32 k = 0; k < each; k++) {  // their loads overlap
        I it(a, t, base + 32 * k + lane, buffers...);
        pass |= u32(it.position < last && passes(it)) << k;
    }
    for (i32 k = 0; k < each; k++) {
        bool active = pass >> k & 1;
        u32 mask = ballot(ALL_LANES, active);
        if (active) queue[found + popcount(mask & ((1u << lane) - 1))] = 32 * k + lane;
        found += popcount(mask);
    }
    sync_warp();
    return found;
}

// A warp filters many items, then runs those that passed, one on each lane: so few divergent lanes where items
// rarely pass, and aggregated additions to lists.
template <class A, class R, class Step>
MORPH_FN void each_filtered(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    unsigned short* queue = filter_queue();
    i64 warps = t.threads / 32, parts = (last - first + 32 * FILTERED_PER_LANE - 1) / (32 * FILTERED_PER_LANE);
    Runner<Step> by(a, t, s, min_of(parts, warps));
    i32 lane = lane_id();
    i64 warp = SEARCHES<Step> ? warp_id() : t.thread / 32;  // adjacent rows are often long: to several blocks
    for (auto part = Batches::of<IN_PROGRAM<R>>(a, t, warp, parts); part.batch < parts; part.take_next(a, t, parts)) {
        i64 base = first + i64(part.batch) * (32 * FILTERED_PER_LANE);
        if (by.it.failed) {
            for (i32 k = 0; k < FILTERED_PER_LANE && !t.replay; k++) {
                I it(a, t, base + 32 * k + lane);
                if (it.position < last) mark_deferred(a.status, a.deferred, it);
            }
            continue;
        }
        i32 found = filter_batch<I>(a, t, base, last, FILTERED_PER_LANE, [&](I& it) { return open(a, t, s, it); });
        for (i32 k = 0; k < found; k += 32) {
            bool active = k + lane < found;
            I it(a, t, base + queue[active ? k + lane : 0]);
            if (active) s.find(a, it);
            if constexpr (Step::WORK_SHARING) {
                if (!by.it.failed) run_batch(a, t, s, it, active, by);
                else if (active) mark_deferred(a.status, a.deferred, it);
            } else if (active) {
                s.run(a, it);
                end_item(a, it);
            }
        }
        sync_warp();
    }
    by.end(a, s);
}

template <class A, class R, class Step>
MORPH_FN void each_in_order(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typename Step::I::SlotCaches caches;
    if (is_single(t)) s.take_all(a, t, caches);
    for (Share share(a, t, first, last); share.next();)
        for (i64 i = share.begin; i < share.end; i += share.step) {
            typename Step::I it(a, t, i);
            caches.attach(it);
            if (!open(a, t, s, it)) continue;
            s.run(a, it);
            end_item(a, it);
        }
    caches.flush();
}

template <class A, class R, class Step>
MORPH_FN void each_on_warps(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (Step::WORK_SHARING) {
        if constexpr (TILED<Step>) return each_tiled(a, t, s, first, last);
        if constexpr (Step::SWEEPS) {
            if (!Step::REPLAYS || !t.replay) return each_sweep(a, t, s, first, last);
        }
        if constexpr (Step::REPLAYS) {
            if constexpr (Step::ASYNCHRONOUS) last = t.replay ? load(s.list(a, t) + CAPACITY) : last;
            if constexpr (Step::FILTERS && !SINGLE_BLOCK) {
                if (last - first > i64(t.threads) * FILTERED_PER_LANE / 2) return each_filtered(a, t, s, first, last);
            }
            if constexpr (SINGLE_BLOCK && !SEARCHES<Step>) each_shared_in_block(a, t, s, first, last);
            else each_shared_on_warps(a, t, s, first, last);
        }
    } else {
        if constexpr (Step::FILTERS && !SINGLE_BLOCK) {
            if (last - first > i64(t.threads) * FILTERED_PER_LANE / 2) return each_filtered(a, t, s, first, last);
        }
        each_in_order(a, t, s, first, last);
    }
}

// A permutation of thread numbers that places consecutive numbers in different blocks, then in different warps: items
// are spread evenly over all warps, and few of them do not wait for divergent branches of others.
MORPH_FN i32 scattered_index(const Team& t) {
    return (lane_id() * warps_of_block() + warp_of_block()) * block_count() + block_id();
}

// Writes the positions of the items that pass to a.queue; returns their number, after a barrier.
template <class A, class R, class Step>
MORPH_FN i64 filter_all(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    typename I::Buffers buffers;
    unsigned short* queue = filter_queue();
    i64 share = (last - first + t.threads - 1) / t.threads;
    i32 lane = lane_id(), each = share < FILTERED_PER_LANE ? i32(share) : FILTERED_PER_LANE;
    for (i64 base = first + t.thread / 32 * (32 * each); base < last; base += i64(t.threads) * each) {
        i32 found = filter_batch<I>(a, t, base, last, each, [&](I& it) {
            return t.replay ? is_deferred(a.deferred, it.deferred_bit()) : open(a, t, s, it);
        }, buffers);
        i64 at = lane ? 0 : fetch(Plus(), a.cursor + 1, i64(found));
        at = shuffle(ALL_LANES, at, 0);
        for (i32 k = lane; k < found; k += 32) a.queue[at + k] = u32(base - first) + queue[k];
        sync_warp();
    }
    barrier(a, t);
    return load(a.cursor + 1);
}

// Rounds of one item a thread; all threads take part in the same number of rounds.  If there are more items than
// threads, the items are filtered first, and the items of one round lie far apart: neighbours in a list are often
// neighbours in the graph, and would claim the same rows.  The barrier after the last round is that of the step.
template <class A, class R, class Step>
MORPH_FN void claims_on_warps(const A& a, R& t, const Step& s, i64 first, i64 last) {
    i64 n = last - first;
    bool filtered = n > t.threads;
    if (filtered) n = filter_all(a, t, s, first, last);
    i64 rounds = (n + t.threads - 1) / t.threads;
    for (i64 round = 0; round < rounds; round++) {
        t.round++;
        typename Step::I::Buffers buffers;
        i64 place = i64(scattered_index(t)) * rounds + round;
        bool active = place < n;
        typename Step::I it(a, t, first + (active && filtered ? load_stable(a.queue + place) : place), buffers);
        active = active && open(a, t, s, it);
        bool claimed = active && s.run(a, it) && !it.failed;
        it.key = claim_key(t.round, it.priority, it.position);
        if (claimed) s.claim(a, it);
        barrier(a, t);
        if (t.thread == 0) store(a.cursor + 1, 0);
        if (claimed) finish(a, s, it, s.wins(a, it));
        else if (active) end_item(a, it);
        if (round + 1 < rounds) barrier(a, t);
    }
}
#endif

// --- on a CPU -------------------------------------------------------------------------------------

// What a single thread's loop reads: copies, which no store of a kernel changes, so that they may be registers.  The
// current permutation becomes the first one, so that its index is a constant.
template <class A> using Permuted = decltype(A::permutations);
template <class A, class = void> struct Permute {
    template <class R> static MORPH_HOT void specialise(A&, R&, const A&) {}
    template <class I> static MORPH_HOT void restore_index(I&) {}
};
template <class A> struct Permute<A, Void<Permuted<A>>> {
    template <class R> static MORPH_HOT void specialise(A& a, R& t, const A& shared) {
        a.permutations[0] = shared.permutations[t.permutation];
        t.permutation = 0;
    }
    // Restored, as g++ no longer knows the value after the kernel's stores.
    template <class I> static MORPH_HOT void restore_index(I& it) { it.permutation = 0; }
};

// Filters `n` items, at most 64, from `base` on; returns a bit for each item that is to be run.  The loop has no branch
// that depends on the values of the filter, so the compiler of a CPU may vectorise it.
template <class A, class R, class Step>
MORPH_HOT u64 filter_block(const A& a, const R& t, const Step& s, i64 base, i32 n) {
    alignas(8) bool passes[64] = {};
    if (t.replay) {
        for (i32 k = 0; k < n; k++) {
            typename Step::I it(a, t, base + k);
            passes[k] = open(a, t, s, it);
        }
    } else {
        for (i32 k = 0; k < n; k++) {
            typename Step::I it(a, t, base + k);
            passes[k] = s.open(a, it);
            if (it.failed) end_item(a, it);
        }
    }
    u64 bits = 0;
    for (i32 k = 0; k < 64; k += 8)  // collects the lowest bits of eight bytes
        bits |= (*(const u64*)(passes + k) * 0x0102040810204080 >> 56) << k;
    return bits;
}

// A range of items for a thread: `next` sets `end` at most `most` items ahead; in a re-execution, after the next deferred
// item.  The test for re-execution is hoisted out of the item loop.  If no deferred item is within `most` items, `next`
// returns an empty range, so that the caller polls; it returns false at `last`.
template <class I> struct ItemRange {
    i64 i, end = 0;
    template <class A, class R> MORPH_HOT bool next(const A& a, const R& t, i64 last, i64 most) {
        if (!t.replay) {
            end = min_of(last, i + most);
            return i < end;
        }
        for (i64 stop = min_of(last, i + most); i < stop; i++)
            if (was_deferred(a.deferred, I(a, t, i).deferred_bit())) {
                end = i + 1;
                return true;
            }
        end = i;
        return i < last;
    }
};

// Runs an item, if it passes.
template <class A, class Step, class I> MORPH_HOT void run_item(const A& a, const Step& s, I& it) {
    if (s.open(a, it)) s.run(a, it);
    Permute<A>::restore_index(it);
    end_item(a, it);
}

// Items with a filter, in blocks of 64.  If most items of a block passed (`most`), those of the next one are filtered one
// by one, since the branches are predicted.
template <class A, class R, class Step, class Caches>
MORPH_HOT void run_filtered(const A& a, const R& t, const Step& s, Caches& caches, i64 first, i64 last, bool& most) {
    for (i64 base = first; base < last; base += 64) {
        i32 n = i32(min_of(last - base, i64(64))), passed = 0;
        for (u64 left = most ? ~u64(0) >> (64 - n) : filter_block(a, t, s, base, n); left; left &= left - 1) {
            typename Step::I it(a, t, base + trailing_zeros(left));
            caches.attach(it);
            if (!most) s.find(a, it);
            else if (!open(a, t, s, it)) continue;
            s.run(a, it);
            Permute<A>::restore_index(it);
            end_item(a, it);
            passed++;
        }
        most = 4 * passed >= 3 * n;
    }
}

// Copies of the arguments of a loop: stores to memory do not change them, so they stay in registers.
#define MORPH_COPY_ARGUMENTS \
    A a = shared;            \
    R t = run;               \
    const Step s = step;     \
    Permute<A>::specialise(a, t, shared)

// A thread runs its share of the items, which are consecutive on a CPU: `Share::step` is 1.
template <class A, class R, class Step>
MORPH_LOOP void run_share(const A& shared, R& run, const Step& step, i64 first, i64 last) {
    MORPH_COPY_ARGUMENTS;
    typename Step::I::SlotCaches caches;
    if (is_single(t)) s.take_all(a, t, caches);
    bool most = true;
    for (Share share(a, t, first, last); share.next();) {
        if constexpr (Step::FILTERS && FILTERS_BLOCKS) run_filtered(a, t, s, caches, share.begin, share.end, most);
        else
            for (ItemRange<typename Step::I> part{share.begin}; part.next(a, t, share.end, share.end - part.i);)
                for (; part.i < part.end; part.i++) {
                    typename Step::I it(a, t, part.i);
                    caches.attach(it);
                    run_item(a, s, it);
                }
    }
    caches.flush();
}

constexpr i64 PREFETCH_DISTANCE = 6;  // the row of the item so many places ahead is prefetched
constexpr i64 NEAR_ENDS = 3;  // by teams columns of its first neighbours, which other threads have often written
// The bounds of a row are prefetched before it, columns of its first neighbours after it; ROW_ and ENDS_DISTANCE are
// distances to the item whose bounds are prefetched.
constexpr i64 BOUNDS_DISTANCE = 12, ROW_DISTANCE = BOUNDS_DISTANCE - PREFETCH_DISTANCE, ENDS_DISTANCE = BOUNDS_DISTANCE - 3;
template <class Step, class = void> constexpr bool PREFETCHES = false;
template <class Step> constexpr bool PREFETCHES<Step, Void<decltype(&Step::prefetch_row)>> = true;
template <class Step, class = void> constexpr bool PREFETCHES_ENDS = false;
template <class Step> constexpr bool PREFETCHES_ENDS<Step, Void<decltype(&Step::prefetch_ends)>> = true;

// A single thread runs the kernel sequentially.
template <class A, class R, class Step>
MORPH_SINGLE_THREADED void run_single_threaded(const A& shared, const R& run, const Step& step, i64 first, i64 last) {
    MORPH_COPY_ARGUMENTS;
    typename Step::I::SlotCaches caches;
    s.take_all(a, t, caches);
    for (ItemRange<typename Step::I> part{first}; part.next(a, t, last, last - first);)
        for (; part.i < part.end; part.i++) {
            typename Step::I it(a, t, part.i);
            caches.attach(it);
            if constexpr (PREFETCHES<Step>) {
                if (part.i + BOUNDS_DISTANCE < last) s.prefetch_row(a, t, part.i + BOUNDS_DISTANCE);
            }
            run_item(a, s, it);
        }
    caches.flush();
}

#if defined(MORPH_FAULTS)  // tests: a few items
constexpr i64 POLL_ITEMS = 1;
#else
constexpr i64 POLL_ITEMS = 512;  // items between tests for signals, and of the queue's length
#endif

// The same, where items that run asynchronously are queued behind the list.
template <class A, class R, class Step>
MORPH_SINGLE_THREADED void run_single_threaded_asynchronously(const A& shared, const R& run, const Step& step, i64 first, i64 last) {
    MORPH_COPY_ARGUMENTS;
    i64 end = load(s.list(a, t) + CAPACITY);
    if (t.replay) last = end;
    i64 most = team_size() > 1 ? SINGLE_THREAD_ITEMS : end;
    i64 wait = team_size() > 1 ? kept_work<Step>() : end;  // with more items, a team is faster
    Queue queue{last, t.replay ? 0 : min_of(end, last + most)};
    typename Step::I::SlotCaches caches;
    s.take_all(a, t, caches);
    i64 polled = first;
    for (ItemRange<typename Step::I> part{first}; !step_interrupted() && part.next(a, t, queue.next, POLL_ITEMS);) {
        if (queue.next - part.i > wait) queue.close();
        // including items that are queued meanwhile: the end of a range of few items is a mispredicted branch
        i64 stop = t.replay ? part.end : part.i + POLL_ITEMS;
        for (; part.i < queue.next && part.i < stop; part.i++) {
            typename Step::I it(a, t, part.i);
            it.asynchronous.queue = &queue;
            caches.attach(it);
            if constexpr (PREFETCHES<Step>) {
                if (part.i + PREFETCH_DISTANCE < queue.next) s.prefetch_row(a, t, part.i + PREFETCH_DISTANCE);
            }
            run_item(a, s, it);
            if (it.failed) queue.close();
        }
        if (part.i - polled >= POLL_ITEMS) poll(a.cursor), polled = part.i;
    }
    caches.flush();
}

#if !defined(MORPH_SERIAL) && !defined(__CUDACC__)
// Runs the items; long rows are appended to the high-degree list.
template <class A, class R, class Step>
MORPH_TEAM_LOOP void each_shared_on_threads(const A& shared, const R& run, const Step& step, i64 first, i64 last) {
    MORPH_COPY_ARGUMENTS;
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    caches.attach(by.it);
    for (Share share(a, t, first, last); share.next();)
        for (i64 i = share.begin; i < share.end; i++) {
            typename Step::I it(a, t, i);
            caches.attach(it);
            if constexpr (PREFETCHES<Step>) {
                if (i + BOUNDS_DISTANCE < share.end) s.prefetch_row(a, t, i + BOUNDS_DISTANCE);
            }
            if (by.it.failed) {
                if (!t.replay) mark_deferred(a.status, a.deferred, it);
            } else if (open(a, t, s, it)) {
                run_shared(a, t, s, it, by);
            }
        }
    by.end(a, s);
    caches.flush();
}

// Runs the rows of the high-degree list; threads take chunks from a cursor, several at once, since the cursor and the
// reductions of a row are shared.  A thread that cannot reserve capacity takes all remaining chunks and appends them to
// the other side of the list.
template <class A, class R, class Step>
MORPH_TEAM_LOOP void run_listed_on_threads(const A& shared, const R& run, const Step& step) {
    MORPH_COPY_ARGUMENTS;
    HighDegreeList<Step> high_degree(a, t, false);
    i64 n = high_degree.size();
    if (!n) return;
    i64 all = high_degree.at[n - 1].chunk + chunks(high_degree.at[n - 1].row);
    i64 most = max_of(min_of(all / (16 * t.threads), CHUNKS_AT_ONCE), i64(1));
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    if (!is_single(t)) caches.attach(by.it);
    for (i64 chunk, last; (chunk = fetch(Plus(), a.cursor, by.it.failed ? all : most)) < all;) {
        if (t.thread == 0) poll(a.cursor);
        last = by.it.failed ? all : min_of(chunk + most, all);
        for (i64 h = owner_by_bisection(high_degree.at, n, chunk), upto; chunk < last; h++, chunk = upto) {
            HighDegreeEntry<Step>& large = high_degree.at[h];
            typename Step::Reductions reductions;
            upto = min_of(large.chunk + chunks(large.row), last);
            i64 k = large.row.begin + (chunk - large.chunk) * CHUNK;
            i64 end = min_of(large.row.end, large.row.begin + (upto - large.chunk) * CHUNK);
            if constexpr (Step::BATCHED) run_row(a, t, s, {k, end}, large.live_in, by);
            else run_entries(a, s, by.it, {k, end}, large.live_in, reductions);
            if constexpr (Step::HAS_EPILOGUE) end_chunks(a, s, large.waiting, reductions, upto - chunk);
        }
    }
    by.end(a, s);
    caches.flush();
}

// Runs the items and those that they enqueue.
template <class A, class R, class Step>
MORPH_TEAM_LOOP void each_asynchronously(const A& shared, const R& run, const Step& step, i64 first, i64 last) {
    MORPH_COPY_ARGUMENTS;
    i64 end = load(s.list(a, t) + CAPACITY);
    if (t.replay) last = end;
    i64 capacity = min_of((end - last) / t.threads, i64(QUEUE_CAPACITY)), from = last + t.thread * capacity;
    Queue queue{from, t.replay ? 0 : from + capacity};
    u64* queued = queued_items(t.thread);
    store(queued, u64(from) << 32 | u64(from));
    Runner<Step> by(a, t, s);
    typename Step::I::SlotCaches caches;
    caches.attach(by.it);
    by.it.asynchronous.queue = &queue;
    i64 left = ASYNCHRONOUS_ROUNDS;
    Share share(a, t, first, last);
    i64 i, upto;  // the items taken
    for (bool listed = true;;) {
        if (queue.next > from) {
            __atomic_fetch_add(queued, u64(queue.next - from), __ATOMIC_RELEASE);
            from = queue.next;
        }
        listed = listed && share.next();
        if (listed) i = share.begin, upto = share.end;
        else if (!take_queued(queued, true, i, upto) && !find_queued(a, t, i, upto)) break;
        if constexpr (PREFETCHES<Step>) {
            for (i64 k = i + 1; k < min_of(upto, i + PREFETCH_DISTANCE); k++) s.prefetch_row(a, t, k);
        }
        for (; i < upto; i++) {
            if constexpr (PREFETCHES<Step>) {
                if (i + PREFETCH_DISTANCE < upto) s.prefetch_row(a, t, i + PREFETCH_DISTANCE);
            }
            if constexpr (PREFETCHES_ENDS<Step>) {
                if (i + NEAR_ENDS < upto) s.prefetch_ends(a, t, i + NEAR_ENDS);
            }
            typename Step::I it(a, t, i);
            it.asynchronous.queue = &queue;
            caches.attach(it);
            if (by.it.failed) {
                if (!t.replay) mark_deferred(a.status, a.deferred, it);
            } else if (open(a, t, s, it)) {
                run_shared(a, t, s, it, by);
                if (it.failed | by.it.failed) queue.close();
            }
            if (--left <= 0) queue.close();
        }
    }
    by.end(a, s);
    caches.flush();
}
#endif

template <class A, class R, class Step>
MORPH_FN void each_on_threads(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (Step::WORK_SHARING) {
        if constexpr (Step::ASYNCHRONOUS) {
            if (SERIAL || is_single(t)) run_single_threaded_asynchronously(a, t, s, first, last);
            else if constexpr (!SERIAL) each_asynchronously(a, t, s, first, last);
        } else if (SERIAL || is_single(t)) {
            in_pieces(a, first, last, [&](i64 from, i64 to) { run_single_threaded(a, t, s, from, to); });
        } else if constexpr (!SERIAL) each_shared_on_threads(a, t, s, first, last);
    } else {
        if (SERIAL || is_single(t)) in_pieces(a, first, last, [&](i64 from, i64 to) { run_share(a, t, s, from, to); });
        else if constexpr (!SERIAL) run_share(a, t, s, first, last);
    }
}

struct Placement {
    void* at;
};
MORPH_FN void* operator new(decltype(sizeof 0), Placement place) noexcept { return place.at; }

// An item between gather and commit.
template <class I> struct GatheredItem {
    typename I::Buffers buffers;
    I it;
    bool won;
    template <class A, class R> I& make(const A& a, const R& t, i64 position) {
        return *new (Placement{&it}) I(a, t, position, buffers);
    }
};

// Whether items of a step allocate exactly what `demand` announces.
template <class Step, class = void> constexpr bool DEMANDS = false;
template <class Step> constexpr bool DEMANDS<Step, Void<typename Step::BatchSlots>> = true;

// The part of a batch of items after the barrier.  All allocate together, if they can, so that threads change the
// counters of a store once for each batch, not for each item.
template <class A, class Step, class I> MORPH_FN void finish_batch(const A& a, const Step& s, GatheredItem<I>* batch, i32 n) {
    for (i32 k = 0; k < n; k++) batch[k].won = s.wins(a, batch[k].it);
    if constexpr (DEMANDS<Step>) {
        typename Step::BatchSlots slots;
        for (i32 k = 0; k < n; k++) s.demand(a, batch[k].it, batch[k].won, slots);
        if (!will_fail(a.status) && slots.take()) {
            for (i32 k = 0; k < n; k++) {
                slots.attach(batch[k].it);
                finish(a, s, batch[k].it, batch[k].won);
            }
            return;
        }
    }
    for (i32 k = 0; k < n; k++) finish(a, s, batch[k].it, batch[k].won);
}

#ifndef MORPH_SERIAL
// Items of a batch conflict with each other if they are near each other in the mesh or graph, as neighbours in a list
// often are.  So a thread takes items that lie APART positions apart, from its own block of the list: its next batches
// are items between these, whose rows are in its caches.  Phase k of a block has the positions phase_of(k) + APART * j.
constexpr i32 APART = 16;
// Words of `cursor`: those of a queue are others, since it expects zeros.
enum { CLAIMS_PASSED = 4, CLAIMS_SPAN = 5, CLAIMS_LEFT = 6 };
MORPH_FN i64 phase_of(i64 k) { return (k & 1) << 3 | (k & 2) << 1 | (k & 4) >> 1 | k >> 3; }

// Batches of at most 128 items a thread: each costs two barriers, but smaller ones have fewer conflicts and stay in the
// caches from gather to commit.  A thread that has run its share takes items of others, so that all arrive at the
// barrier at the same time.
template <class A, class R, class Step>
MORPH_FN void claims_of_team(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    constexpr i64 CHUNK = 8, MOST_BLOCK = 1024;
    const i64 block = min_of(((last - first - 1) / t.threads / APART + 1) * APART, MOST_BLOCK), columns = block / APART;
    const i64 size = max_of(min_of(block / 4, i64(MOST_BATCH)), i64(LEAST_BATCH)), most = 2 * size;
    GatheredItem<I>* batch = (GatheredItem<I>*)allocate(sizeof(GatheredItem<I>) * (most + CHUNK));
    i64 from = 0, span = size;  // of each block a batch has the items `from` to `from + span`, by phases
    for (bool more = first < last; more;) {
        t.round++;
        const i64 end = min_of(from + span, block);
        i64 n = 0;
        for (i32 k = 0; k < t.threads; k++) {
            const i32 owner = (t.thread + k) % t.threads;
            const i64 base = first + owner * block;
            i64* cursor = item_cursor(a, owner);
            while (base < last && n < most && from + load(cursor) < end && !cut_short(a)) {
                if (t.thread == 0) poll(a.cursor);
                i64 place = from + add_word(cursor, CHUNK);
                for (i64 upto = min_of(place + CHUNK, end); place < upto; place++) {
                    i64 i = base + phase_of(place / columns) + place % columns * APART;
                    if (i >= last) continue;
                    I& it = batch[n].make(a, t, i);
                    if (!open(a, t, s, it)) continue;
                    if (!s.run(a, it) || it.failed) {
                        end_item(a, it);
                        continue;
                    }
                    it.key = claim_key(t.round, it.priority, it.position);
                    s.claim(a, it);
                    n++;
                }
            }
        }
        add_word(a.cursor + CLAIMS_PASSED, n);
        if (arrive(a, t)) {
            bool left = false;  // threads with full batches may leave items for another one
            for (i32 k = 0; k < t.threads; k++)
                left |= first + k * block < last && from + load(item_cursor(a, k)) < end;
            i64 passed = max_of(load(a.cursor + CLAIMS_PASSED), i64(1)), wanted = size * t.threads;
            store(a.cursor + CLAIMS_PASSED, 0);
            store(a.cursor + CLAIMS_SPAN, max_of(min_of(span * wanted / passed, 16 * size), size));
            store(a.cursor + CLAIMS_LEFT, left);
            broadcast(t, !cut_short(a) && (left || end < block || first + t.threads * block < last));
        }
        release_barrier(a, t);
        more = t.broadcast_value;
        span = load(a.cursor + CLAIMS_SPAN);
        if (!more || !load(a.cursor + CLAIMS_LEFT)) {
            store(item_cursor(a, t.thread), 0);
            from = end < block ? end : 0;
            if (!from) first += t.threads * block;
        }
        finish_batch(a, s, batch, i32(n));
        if (more) {
            arrive(a, t);
            release_barrier(a, t);
        }
    }
    deallocate(batch);
}
#endif
// A single thread needs no claims.
template <class A, class R, class Step>
MORPH_FN void claims_on_threads(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    if (SERIAL || is_single(t)) {
        in_pieces(a, first, last, [&](i64 from, i64 to) {
            for (i64 i = from; i < to; i++) {
#ifdef MORPH_CHECKED
                t.round++;  // races are checked within a round
#endif
                typename I::Buffers buffers;
                I it(a, t, i, buffers);
                if (!open(a, t, s, it)) continue;
                if (s.run(a, it) && !it.failed) finish(a, s, it, true);
                else end_item(a, it);
            }
        });
    } else if constexpr (!SERIAL) claims_of_team(a, t, s, first, last);
}

// A bound of the items from `first` to `last`, counted as in a slice of Python.
MORPH_FN i64 slice_bound(i64 i, i64 first, i64 last) {
    const i64 n = last - first;
    return first + (i < 0 ? max_of(i + n, i64(0)) : min_of(i, n));
}

template <class A, class R, class Step>
MORPH_FN void each(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (TARGET_GPU) each_on_warps(a, t, s, first, last);
    else each_on_threads(a, t, s, first, last);
}
template <class A, class R, class Step>
MORPH_FN void claims(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (TARGET_GPU) claims_on_warps(a, t, s, first, last);
    else claims_on_threads(a, t, s, first, last);
}
