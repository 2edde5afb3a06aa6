// The high-degree list: long rows, and unprocessed ranges of rows without capacity, shared by all threads.
//
// The rows of the list are run after a barrier: they are cut into chunks, which are divided evenly among the warps
// (on a CPU: threads).  One atomic counts the rows of the list and their chunks, so that a row knows its position in
// both.  The list has two sides: while the rows of one are run, deferred ranges are appended to the other, which is
// run when the host has added capacity; so are long rows of asynchronous items, which are run after the next barrier.
// A long row that finds the list full is run like a short one; positions for deferred ranges are kept free.
// If there is an epilogue, the item is stored in the list: the thread that ends a chunk adds its reductions to the
// item's, and the thread that ends the last chunk runs the epilogue.

struct Entries {  // of a row: a range of the adjacency
    i64 begin = 0, end = 0;
};
struct Nothing {};  // live-out locals where there is no epilogue

// The operations of reductions: Plus, Or, And, or `min` and `max` of the language.
struct Minimum { template <class T> static MORPH_FN T of(T x, T v) { return min_of(x, v); } };
struct Maximum { template <class T> static MORPH_FN T of(T x, T v) { return max_of(x, v); } };

constexpr i64 NO_LIST = ~0ull >> 1;  // as LIMIT: longer than any row
#if defined(MORPH_FAULTS)  // tests: small graphs have long rows, and more than fit the list
constexpr i64 HIGH_DEGREE = 2, CHUNK = 2, MAX_LISTED = 5, SHARED_WORK = 12;
#else
constexpr i64 HIGH_DEGREE = TARGET_GPU ? 64 : 1024, CHUNK = HIGH_DEGREE / 2, MAX_LISTED = NO_LIST;
constexpr i64 SHARED_WORK = 1 << 16;  // entries; see `is_long`
#endif

// The header of `high_degree`: rows << 32 | chunks, of the side that is filled and of the side that is run; the
// bytes of a side; which side is filled.  The two sides follow.
enum { LISTED = 0, BYTES = 1, TAKEN = 2, SIDE = 3, FIRST_ENTRY = 8 };

// Whether a row is listed by a team of a CPU.  Few threads list only very long rows: a listed row runs after all others,
// and where later items depend on its entries (as in `bellman_ford`), these then run again in the next round.
MORPH_FN bool is_long(const Entries& row, i64 limit, i32 threads) {
    return row.end - row.begin > max_of(limit, SHARED_WORK / threads / threads);
}

MORPH_FN i64 chunks(const Entries& row) { return (row.end - row.begin + CHUNK - 1) / CHUNK; }
template <class A> MORPH_FN bool has_high_degree_list(const A& a) { return load(a.high_degree + TAKEN) != 0; }

// By the master, after all items have run: returns whether the list has rows to run next.  If they must `wait`, they
// stay in the list until the re-execution of the deferred items.  Rows with reservations for their entries cannot
// wait, since publishing the counters would drop the reservations.
template <class A> MORPH_FN bool take_high_degree_list(const A& a, bool wait) {
    i64 listed = load(a.high_degree + LISTED), side = load(a.high_degree + SIDE);
    if (wait) listed = 0;
    if (listed) store(a.high_degree + LISTED, 0), store(a.high_degree + SIDE, 1 - side);
    store(a.high_degree + TAKEN, listed);
    return listed != 0;
}

template <class Step> struct Waiting {
    typename Step::I it;
    typename Step::LiveOut live_out;
    typename Step::Reductions reductions;  // of the chunks that have been run
    u32 chunks;                // that have not been run
};
template <class Step> struct HighDegreeEntry {
    i64 chunk;  // the number of chunks before this row's
    Entries row;
    typename Step::LiveIn live_in;
    Choose<Step::HAS_EPILOGUE, Waiting<Step>, Nothing> waiting;
};

// One side of the list.  Each thread may exceed the limit by one row, and add one deferred range; while a side is
// run, the other gets at most as many rows as the side has, and one for each thread.  Where entries do not reserve
// in batches, no ranges are deferred, and the entries of the list may be larger.
template <class Step> struct HighDegreeList {
    static_assert(!Step::BATCHED || sizeof(HighDegreeEntry<Step>) <= 64, "the host counts with 64 bytes a row");
    i64* words;
    HighDegreeEntry<Step>* at;
    i64 most;

    template <class A, class R>
    MORPH_FN HighDegreeList(const A& a, const R& t, bool put) : words(a.high_degree) {
        i64 bytes = load_stable(words + BYTES), side = load(words + SIDE);
        at = (HighDegreeEntry<Step>*)((u8*)(words + FIRST_ENTRY) + (put ? side : 1 - side) * bytes);
        i64 entries = bytes / i64(sizeof(HighDegreeEntry<Step>));
        most = min_of(entries - (Step::BATCHED ? 3 : 1) * i64(t.threads), MAX_LISTED);
    }
    static MORPH_FN i64 count(const Entries& row) { return (1ll << 32) + chunks(row); }
    MORPH_FN bool full() const { return (load(words + LISTED) >> 32) + size() >= most; }
    // `before`: the count of rows and chunks before this row.
    MORPH_FN HighDegreeEntry<Step>& put(i64 before, const Entries& row, const typename Step::LiveIn& live_in) const {
        HighDegreeEntry<Step>& large = at[before >> 32];
        large.chunk = before & 0xffffffff, large.row = row, large.live_in = live_in;
        return large;
    }
    template <class A, class R>
    MORPH_FN void put(const A& a, const R& t, i64 before, const Entries& row, const typename Step::LiveIn& live_in,
                      typename Step::I& it, const typename Step::LiveOut& live_out) const {
        HighDegreeEntry<Step>& large = put(before, row, live_in);
        if constexpr (Step::HAS_EPILOGUE) {
            Step::I::SlotCaches::detach(it);
            large.waiting = {it, live_out, typename Step::Reductions(), u32(chunks(row))};
            it = typename Step::I(a, t, -1);  // `it` has nothing left to end
        }
    }
    MORPH_FN i64 size() const { return load(words + TAKEN) >> 32; }
};

// Adds the reductions of `n` chunks of a row; runs the epilogue after the last chunk.
template <class A, class Step>
MORPH_FN void end_chunks(const A& a, const Step& s, Waiting<Step>& waiting,
                         const typename Step::Reductions& reductions, i64 n) {
    reductions.join(waiting.reductions);
    if (add_release(&waiting.chunks, 0 - u32(n)) != u32(n)) return;
    typename Step::I it = waiting.it;
    s.add(waiting.live_out, waiting.reductions);
    s.epilogue(a, it, waiting.live_out);
    end_item(a, it);
}

// `take_high_degree_list` at a barrier at which nothing else is published.
template <class A, class R> MORPH_FN bool high_degree_list_waits(const A& a, R& t, bool batched) {
    if (arrive(a, t)) {
        broadcast(t, take_high_degree_list(a, batched && load(a.status + FAILED) != 0));
        rewind(a);
    }
    release_barrier(a, t);
    return t.broadcast_value;
}
