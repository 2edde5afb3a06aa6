// The last loop of a kernel, over the entries of its item's row, run by several threads.
//
// A `Step` that SPREADS has, beside what launch.h lists,
//     Live, Rest, Sums      what an entry reads of its item, what the tail reads, what entries add up
//     LIMIT                 how many entries a row may have that is not put on the list
//     head(a, it, row, live, rest)    all before the loop; whether that is come to
//     reach(a, k)           what entry k of the adjacency leads to
//     entry(a, it, live, reached, sums)    the inside of the loop; `it` is of whoever runs it
//     WHOLE                 whether there is a tail, or there are sums
//     add(rest, sums), tail(a, it, rest)   what the entries have added up; all behind the loop
//
// Invariant: the head of an item has run, and has reserved, before any of its entries runs, and all of
// them have run before its tail does, once.  The room reserved for an entry is its own: whoever runs it
// takes that over, and gives back the rest; that for the tail stays with the item.
//
// On a GPU a warp opens a tile of up to 32 items, one on each lane, and runs the entries of all their
// rows, those that follow one another on consecutive lanes.  Rows longer than LIMIT are put on a list
// in memory; when all have met, they are cut into chunks, and each warp (on a CPU: thread) gets as many
// as any other.  One atomic counts the rows of the list and their chunks, so each knows its place in
// both.  A row that finds the list full is run like a short one.  Where there is a tail, the item waits on
// the list: who ends a chunk adds its sums to the item's, and who ends the last one goes on with the item.

struct Entries {  // of a row: its part of the adjacency
    i64 begin = 0, end = 0;
};
struct Reached {
    i32 edge, end;
};
struct Nothing {};  // is handed on where there is no tail
template <bool WHOLE, class T> struct Where { typedef T type; };
template <class T> struct Where<false, T> { typedef Nothing type; };

// How sums are joined, by Plus or as `min` and `max` of the language do.
struct Least { template <class T> static MORPH_FN T of(T x, T v) { return min_of(x, v); } };
struct Most { template <class T> static MORPH_FN T of(T x, T v) { return max_of(x, v); } };

constexpr i64 NO_LIST = ~0ull >> 1;  // as LIMIT: no row is as long
#if defined(MORPH_FAULTS)  // tests: small graphs have hubs, and more than there is room for
constexpr i64 HUB = 2, LEAST_HUB = 1, CHUNK = 2, MOST_HUBS = 5;
#elif defined(__CUDACC__)
constexpr i64 HUB = 256, LEAST_HUB = 64, CHUNK = 128, MOST_HUBS = NO_LIST;
#else
constexpr i64 HUB = 4096, CHUNK = 1024, MOST_HUBS = NO_LIST;
#endif

// Words of `hubs`: rows << 32 | chunks, of those being put there and of those being run; room behind.
enum { LISTED = 0, BYTES = 1, TAKEN = 2, FIRST_HUB = 8 };

MORPH_FN i64 chunks(const Entries& row) { return (row.end - row.begin + CHUNK - 1) / CHUNK; }
template <class A> MORPH_FN bool has_hubs(const A& a) { return load(a.hubs + TAKEN) != 0; }

// By the master, when all have run their items: whether rows are on the list, to be run next.
template <class A> MORPH_FN bool take_hubs(const A& a) {
    i64 listed = load(a.hubs + LISTED);
    if (listed) store(a.hubs + LISTED, 0);
    store(a.hubs + TAKEN, listed);
    return listed != 0;
}

template <class Step> struct Waiting {
    typename Step::I it;
    typename Step::Rest rest;
    typename Step::Sums sums;  // of the chunks that have been run
    u32 chunks;                // that have not
};
template <class Step> struct Hub {
    i64 chunk;  // how many chunks there are before
    Entries row;
    typename Step::Live live;
    typename Where<Step::WHOLE, Waiting<Step>>::type waiting;
};
template <class Step> struct Hubs {
    i64* words;
    Hub<Step>* at;
    i64 places;

    template <class A> explicit MORPH_FN Hubs(const A& a) : words(a.hubs), at((Hub<Step>*)(a.hubs + FIRST_HUB)) {
        places = min_of(load_settled(words + BYTES) / i64(sizeof(Hub<Step>)), MOST_HUBS);
    }
    static MORPH_FN i64 count(const Entries& row) { return (1ll << 32) + chunks(row); }
    // `before`: what had been counted when this row was.
    template <class A, class R>
    MORPH_FN bool put(const A& a, const R& t, i64 before, const Entries& row, const typename Step::Live& live,
                      typename Step::I& it, const typename Step::Rest& rest) const {
        if (before >> 32 >= places) return false;
        Hub<Step>& hub = at[before >> 32];
        hub.chunk = before & 0xffffffff, hub.row = row, hub.live = live;
        if constexpr (Step::WHOLE) {
            Step::I::Stocks::release(it);
            hub.waiting = {it, rest, typename Step::Sums(), u32(chunks(row))};
            it = typename Step::I(a, t, -1);  // has nothing left to end
        }
        return true;
    }
    MORPH_FN i64 size() const { return min_of(load(words + TAKEN) >> 32, places); }
};

// Adds what `n` chunks of a row gave; the tail, if they were the last.
template <class A, class Step>
MORPH_FN void end_chunks(const A& a, const Step& s, Waiting<Step>& waiting, const typename Step::Sums& sums, i64 n) {
    sums.join(waiting.sums);
    if (add_release(&waiting.chunks, 0 - u32(n)) != u32(n)) return;
    typename Step::I it = waiting.it;
    s.add(waiting.rest, waiting.sums);
    s.tail(a, it, waiting.rest);
    end_item(a, it);
}

// The same where there is nothing else to settle.
template <class A, class R> MORPH_FN bool hubs_wait(const A& a, R& t) {
    if (arrive(a, t)) {
        tell(t, take_hubs(a));
        rewind(a);
    }
    depart(a, t);
    return t.told;
}

#ifdef __CUDACC__

constexpr u32 ALL_LANES = ~0u;

MORPH_FN i32 lane_id() { return threadIdx.x & 31; }
// Warps of a block far apart: few items, or heavy ones side by side, are spread over all blocks.
MORPH_FN i64 warp_id() { return i64(threadIdx.x / 32) * gridDim.x + blockIdx.x; }

template <class T> MORPH_FN T from_lane(const T& x, i32 lane) {
    constexpr i32 N = __is_empty(T) ? 0 : (sizeof(T) + 3) / 4;
    union Words {
        u32 word[N + 1];
        T value;
        MORPH_FN Words() {}
    } give, take;
    give.value = x;
    MORPH_UNROLL_ALL for (i32 i = 0; i < N; i++) take.word[i] = __shfl_sync(ALL_LANES, give.word[i], lane);
    return take.value;
}
template <class T> MORPH_FN T sum_up_to(T x) {  // over the lanes up to this one
    MORPH_UNROLL_ALL for (i32 by = 1; by < 32; by *= 2) {
        T below = __shfl_up_sync(ALL_LANES, x, by);
        if (lane_id() >= by) x += below;
    }
    return x;
}
template <class T> MORPH_FN T sum_of_row(T x, i32 row) {  // over those of the same row up to this lane
    MORPH_UNROLL_ALL for (i32 by = 1; by < 32; by *= 2) {
        T below = from_lane(x, (lane_id() - by) & 31);
        i32 its = __shfl_up_sync(ALL_LANES, row, by);
        if (lane_id() >= by && its == row) x.add(below);
    }
    return x;
}
// The lane whose part holds `i`: the first with more than that many up to it.
MORPH_FN i32 owner_of(i32 upto, i32 i) {
    i32 lane = 0;
    MORPH_UNROLL_ALL for (i32 by = 16; by; by /= 2)
        if (__shfl_sync(ALL_LANES, upto, lane + by - 1) <= i) lane += by;
    return lane;
}

// Puts the long rows of a tile on the list: with few items there are warps to spare, and rows are long
// sooner.  Whether this lane's is there.
template <class A, class R, class Step>
MORPH_FN bool list_hubs(const A& a, const R& t, const Step&, Entries& row, const typename Step::Live& live,
                        typename Step::I& it, const typename Step::Rest& rest, i32 size) {
    i64 limit = Step::LIMIT == HUB ? max_of(HUB * size / 32, LEAST_HUB) : Step::LIMIT;
    bool hub = row.end - row.begin > limit;
    if (!__any_sync(ALL_LANES, hub)) return false;
    Hubs<Step> hubs(a);
    i64 mine = hub ? hubs.count(row) : 0, upto = sum_up_to(mine), before = 0;
    if (lane_id() == 31) before = fetch(Plus(), hubs.words + LISTED, upto);
    before = __shfl_sync(ALL_LANES, before, 31) + upto - mine;
    bool listed = hub && hubs.put(a, t, before, row, live, it, rest);
    if (listed) row.end = row.begin;
    return listed;
}

// Runs the items of a warp's first `size` lanes: those that have one that passed are `here`.
template <class A, class R, class Step, class I>
MORPH_FN void tile(const A& a, R& t, const Step& s, I& it, bool here, i32 size) {
    Entries row;
    typename Step::Live live{};
    typename Step::Rest rest{};
    bool came = here && s.head(a, it, row, live, rest);
    if (!here) it.failed = 0;  // it has ended; its lane helps
    __syncwarp();
    if constexpr (Step::LIMIT < NO_LIST) came &= !list_hubs(a, t, s, row, live, it, rest, size);
    while (__any_sync(ALL_LANES, row.begin < row.end)) {  // once, unless 32 bits cannot count them
        i32 mine = i32(min_of(row.end - row.begin, i64(1 << 25))), upto = sum_up_to(mine);
        i32 all = __shfl_sync(ALL_LANES, upto, 31);
        i64 shift = row.begin - (upto - mine);
        row.begin += mine;
        i32 owner, i = lane_id();
        Reached next{};
        auto reach = [&](i32 i) {  // ahead of what is run: two entries are under way
            owner = owner_of(upto, i);
            i64 k = __shfl_sync(ALL_LANES, shift, owner) + i;
            if (i < all) next = s.reach(a, k);
        };
        reach(i);
        for (i32 base = 0; base < all; base += 32, i += 32) {
            Reached reached = next;
            i32 whose = owner;
            typename Step::Live its = from_lane(live, whose);
            if (base + 32 < all) reach(i + 32);
            typename Step::Sums sums;
            if (i < all) s.entry(a, it, its, reached, sums);
            __syncwarp();
            if constexpr (Step::WHOLE) {
                sums = sum_of_row(sums, whose);
                i32 last = min_of(upto, base + 32) - 1;  // of the row's entries so far
                sums = from_lane(sums, last & 31);
                if (last >= base && last >= upto - mine) s.add(rest, sums);
            }
        }
    }
    if constexpr (Step::WHOLE) {
        if (came) s.tail(a, it, rest);
    }
    end_item(a, it);
}

// Tiles of 1 to 8 items, while not all warps have one (each costs a few atomics on the same words), then
// of as many as leave none without.
template <class A, class R, class Step>
MORPH_FN void each_spread(const A& a, R& t, const Step& s, i64 first, i64 last) {
    i64 warps = t.threads / 32, all = (last - first + warps - 1) / warps;
    i64 few = (8 * (last - first) + warps - 1) / warps;
    i32 size = all > 8 ? i32(min_of(all, i64(32))) : i32(min_of(few, i64(8)));
    for (i64 base = first + warp_id() * size; base < last; base += warps * size) {
        typename Step::I it(a, t, base + lane_id());
        bool mine = lane_id() < size && it.position < last;
        if constexpr (Step::AHEAD) {
            run_ahead(a, t, s, it, mine, size, last, (base - first) / size);
        } else {
            tile(a, t, s, it, mine && open(a, t, s, it), size);
        }
    }
}

// The hub that holds a chunk; the warp looks at 32 of them at once.
template <class Step> MORPH_FN i64 hub_of(const Hub<Step>* hubs, i64 n, i64 chunk) {
    i64 first = 0;
    while (n > 1) {
        i64 apart = (n + 31) / 32, i = lane_id() * apart;
        u32 before = __ballot_sync(ALL_LANES, i < n && load_settled(&hubs[first + i].chunk) <= chunk);
        i64 skipped = (__popc(before) - 1) * apart;
        first += skipped;
        n = min_of(apart, n - skipped);
    }
    return first;
}

// What is on the list, each warp as many chunks as any other.
template <class A, class R, class Step> MORPH_FN void run_hubs(const A& a, R& t, const Step& s) {
    Hubs<Step> hubs(a);
    i64 n = hubs.size(), warps = t.threads / 32;
    if (!n) return;
    i64 all = hubs.at[n - 1].chunk + chunks(hubs.at[n - 1].row);
    i64 chunk = all * warp_id() / warps, last = all * (warp_id() + 1) / warps;
    if (chunk >= last) return;
    typename Step::I it(a, t, -1);
    for (i64 h = hub_of(hubs.at, n, chunk); chunk < last; h++) {
        Hub<Step>& hub = hubs.at[h];
        typename Step::Live live = hub.live;
        Entries row = hub.row;
        typename Step::Sums sums;
        i64 upto = min_of(hub.chunk + chunks(row), last), end = min_of(row.end, row.begin + (upto - hub.chunk) * CHUNK);
        i64 base = row.begin + (chunk - hub.chunk) * CHUNK, k = base + lane_id();
        Reached next{};
        if (k < end) next = s.reach(a, k);
        for (; base < end; base += 32, k += 32) {
            Reached reached = next;
            if (k + 32 < end) next = s.reach(a, k + 32);
            if (k < end) s.entry(a, it, live, reached, sums);
            __syncwarp();
        }
        if constexpr (Step::WHOLE) {
            sums = sum_of_row(sums, 0);
            if (lane_id() == 31) end_chunks(a, s, hub.waiting, sums, upto - chunk);
            __syncwarp();
        }
        chunk = upto;
    }
    end_item(a, it);
}

#else

// An item that has passed.
template <class A, class R, class Step, class I>
MORPH_FN void run_spread(const A& a, const R& t, const Step& s, I& it, const Hubs<Step>& hubs) {
    Entries row;
    typename Step::Live live{};
    typename Step::Rest rest{};
    bool came = s.head(a, it, row, live, rest);
    bool hub = row.end - row.begin > Step::LIMIT;
    i64 before = hub ? fetch(Plus(), hubs.words + LISTED, hubs.count(row)) : 0;
    if (!hub || !hubs.put(a, t, before, row, live, it, rest)) {
        typename Step::Sums sums;
        for (i64 k = row.begin; k < row.end; k++) s.entry(a, it, live, s.reach(a, k), sums);
        if constexpr (Step::WHOLE) {
            if (came) s.add(rest, sums), s.tail(a, it, rest);
        }
    }
    end_item(a, it);
}

// Runs the items; long rows are put on the list.  One thread alone has nobody to share them with.
template <class A, class R, class Step>
MORPH_FN void each_spread(const A& a, R& t, const Step& s, i64 first, i64 last) {
    Hubs<Step> hubs(a);
    typename Step::I::Stocks stocks;
    for (Share share(a, t, first, last); share.next();)
        for (i64 i = share.begin; i < share.end; i++) {
            typename Step::I it(a, t, i);
            stocks.serve(it);
            if (open(a, t, s, it)) run_spread(a, t, s, it, hubs);
        }
    stocks.flush();
}

template <class Step> MORPH_FN i64 hub_of(const Hub<Step>* hubs, i64 n, i64 chunk) {
    i64 first = 0;
    while (n > 1) {
        i64 half = n / 2;
        bool behind = hubs[first + half].chunk <= chunk;
        first += behind ? half : 0;
        n = behind ? n - half : half;
    }
    return first;
}

// What is on the list, chunk by chunk, from a cursor.
template <class A, class R, class Step> MORPH_FN void run_hubs(const A& a, R& t, const Step& s) {
    Hubs<Step> hubs(a);
    i64 n = hubs.size();
    if (!n) return;
    i64 all = hubs.at[n - 1].chunk + chunks(hubs.at[n - 1].row);
    typename Step::I it(a, t, -1);
    typename Step::I::Stocks stocks;
    if (!alone(t)) stocks.serve(it);
    for (i64 chunk; (chunk = fetch(Plus(), a.cursor, i64(1))) < all;) {
        Hub<Step>& hub = hubs.at[hub_of(hubs.at, n, chunk)];
        typename Step::Sums sums;
        i64 k = hub.row.begin + (chunk - hub.chunk) * CHUNK, end = min_of(hub.row.end, k + CHUNK);
        for (; k < end; k++) s.entry(a, it, hub.live, s.reach(a, k), sums);
        if constexpr (Step::WHOLE) end_chunks(a, s, hub.waiting, sums, 1);
    }
    end_item(a, it);
    stocks.flush();
}

#endif
