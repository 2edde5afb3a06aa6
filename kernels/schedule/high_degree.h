// The list of rows that all threads share out: long ones, and what is left of one that found no room.
//
// Rows put on the list are run when all have met: they are cut into chunks, and each warp (on a CPU:
// thread) gets as many as any other.  One atomic counts the rows of the list and their chunks, so each
// knows its place in both.  The list has two sides: while the rows of one are run, what finds no room
// goes to the other, and is run when the host has made some; so do long rows of items that run ahead, and
// are run when all have met again.  A long row that finds the list full is run
// like a short one; places for what finds no room are kept free.
// Where there is a tail, the item waits on the list: who ends a chunk adds its sums to the item's, and who
// ends the last one goes on with the item.

struct Entries {  // of a row: its part of the adjacency
    i64 begin = 0, end = 0;
};
struct Nothing {};  // is handed on where there is no tail

// How sums are joined, by Plus or as `min` and `max` of the language do.
struct Minimum { template <class T> static MORPH_FN T of(T x, T v) { return min_of(x, v); } };
struct Maximum { template <class T> static MORPH_FN T of(T x, T v) { return max_of(x, v); } };

constexpr i64 NO_LIST = ~0ull >> 1;  // as LIMIT: no row is as long
#if defined(MORPH_FAULTS)  // tests: small graphs have high_degree, and more than there is room for
constexpr i64 HIGH_DEGREE = 2, CHUNK = 2, MAX_LISTED = 5;
#else
constexpr i64 HIGH_DEGREE = TARGET_GPU ? 64 : 1024, CHUNK = HIGH_DEGREE / 2, MAX_LISTED = NO_LIST;
#endif

// Words of `high_degree`: rows << 32 | chunks, of those being put there and of those being run; the bytes of a
// side; the side that is put to.  The sides follow.
enum { LISTED = 0, BYTES = 1, TAKEN = 2, SIDE = 3, FIRST_ENTRY = 8 };

MORPH_FN i64 chunks(const Entries& row) { return (row.end - row.begin + CHUNK - 1) / CHUNK; }
template <class A> MORPH_FN bool has_high_degree_list(const A& a) { return load(a.high_degree + TAKEN) != 0; }

// By the master, when all have run their items: whether rows are on the list, to be run next.  If they
// are to wait, they stay: the replay of those that found no room comes back here.  What is reserved for
// entries cannot wait, it would be forgotten when counters are published.
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
    u32 chunks;                // that have not
};
template <class Step> struct HighDegreeEntry {
    i64 chunk;  // how many chunks there are before
    Entries row;
    typename Step::LiveIn live_in;
    Choose<Step::HAS_EPILOGUE, Waiting<Step>, Nothing> waiting;
};

// One side of the list.  Threads may overrun the place where it counts as full by a row each, and leave
// one row each that found no room; of the rows being run, the next side gets no more than there are and
// one for each.  Where entries do not take room in batches none is left, and rows may be larger.
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
    // `before`: what had been counted when this row was.
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
            Step::I::SlotCaches::release(it);
            large.waiting = {it, live_out, typename Step::Reductions(), u32(chunks(row))};
            it = typename Step::I(a, t, -1);  // has nothing left to end
        }
    }
    MORPH_FN i64 size() const { return load(words + TAKEN) >> 32; }
};

// Adds what `n` chunks of a row gave; the tail, if they were the last.
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

// The same where there is nothing else to publish.
template <class A, class R> MORPH_FN bool high_degree_list_waits(const A& a, R& t, bool batched) {
    if (arrive(a, t)) {
        broadcast(t, take_high_degree_list(a, batched && load(a.status + FAILED) != 0));
        rewind(a);
    }
    release_barrier(a, t);
    return t.broadcast_value;
}
