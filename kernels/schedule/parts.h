// Programs that all parts of a graph execute together: crossings, mirrors, messages.
//
// A crossing is a barrier of all threads of all parts.  The threads of a part wait at the barrier of the part; its master
// stores words into the mailbox of every part, and waits until its own mailbox has the arrivals of all parts.  A mailbox
// has, for each part and each of the last two crossings, the number of the crossing with two bits, on a separate cache
// line, and the words that the part has published at the crossing.
//
// Invariants
//   - The lines and words of part k in any mailbox are written by the master of part k alone.  Numbers of crossings only
//     grow, so lines are not reset.  Odd and even crossings use different lines and words: a part arrives at crossing
//     n + 2 after all parts have arrived at n + 1, and so have read the lines and words of n.
//   - Stores of any thread before a crossing are visible to all threads of all parts after it.  They happen before the
//     arrival of the thread's block (barrier of the block), before the master's arrival (the barrier word: release and
//     acquire at the scope of the GPU), before the master's store of its line (a fence at the scope of the system), before
//     the other master's load of it (an acquire at that scope), and before its threads' release (scope of the GPU).
//     Causality order is transitive, since each pair that synchronizes has a scope that includes both threads; so the
//     threads need no fence of system scope of their own.
//   - Between two crossings a row of another part is written by one part alone: mirrors by the owner of their rows,
//     places of an inbox by the part to which they are given.
//   - Parts on MPI ranks cannot access each other's memory: at a crossing the master stores its words where the host reads
//     them, and all threads leave (PARTS_LEFT).  The hosts exchange the words, mirrors and messages, and launch again: the
//     step resumes at its crossing (`Run::crossed`), and its mailbox has the words of all parts.  Until then the step has
//     published nothing.  Rows for other parts are stored to memory of this part, from which the host sends them.
//   - All parts arrive at the same crossings.  One exception: a part that has seen the host's request to stop at one of
//     its own barriers publishes PART_STOPS at its next crossing and does not wait.  A part that waits there sees the
//     same request.  Then PARTS_STOPPED is set, all threads leave, and no crossing follows in this launch.

#ifdef MORPH_RANKS  // the hosts exchange at crossings, for which the parts leave the launch
constexpr bool ON_RANKS = true;
#else
constexpr bool ON_RANKS = false;
#endif
constexpr i32 OWN_VALUES = ON_RANKS ? 2 : 1;     // words before those of a step: the bits below; on ranks, the step
enum : u64 { PART_FAILED = 1, PART_STOPS = 2 };  // an item of the part has failed; the part stops
constexpr i32 OWN_BITS = 2;                      // the number of these bits

// A word of this part that other parts write, or of another part.
template <class T> MORPH_FN T load_system(const T* p) {
    if constexpr (TARGET_GPU) return from_bits<T>(load_system_word((const Bits<T>*)p));
    else return load(p);
}
template <class T> MORPH_FN void set_system(T* p, T x) {
    if constexpr (TARGET_GPU) store_system(p, x);
    else store(p, x);
}

// In the mailbox `box` at a crossing: the line of a part, the word with which it arrives; and the words that it publishes.
MORPH_FN u64* line_in(i64* box, i64 crossing, i32 part) {
    return (u64*)box + part * MAILBOX_LINE + i32(crossing & 1) * (MAILBOX_LINE / 2);
}
MORPH_FN u64* published_in(i64* box, i64 crossing, i32 part) {
    return (u64*)box + MOST_PARTS * MAILBOX_LINE + (i32(crossing & 1) * MOST_PARTS + part) * MOST_WORDS;
}
template <class A> MORPH_FN i32 part_count(const A& a) { return i32(load_fixed(a.parts + PARTS_COUNT)); }
template <class A> MORPH_FN i32 part_number(const A& a) { return i32(load_fixed(a.parts + PARTS_NUMBER)); }
template <class A> MORPH_FN i64* mailbox(const A& a, i32 part) {
    return (i64*)load_fixed(a.parts + PARTS_MAILBOXES + part);
}

// The words that all parts have published at a crossing.
struct Published {
    i32 parts;
    const u64* first;
    MORPH_FN u64 operator()(i32 part, i32 word) const { return load_system(first + part * MOST_WORDS + word); }
};
MORPH_FN u64 sum_of_parts(const Published& w, i32 word) {
    u64 sum = 0;
    for (i32 k = 0; k < w.parts; k++) sum += w(k, word);
    return sum;
}
MORPH_FN u64 or_of_parts(const Published& w, i32 word) {
    u64 bits = 0;
    for (i32 k = 0; k < w.parts; k++) bits |= w(k, word);
    return bits;
}

// By the master: whether this part has seen a request to stop, at the latest at this barrier.
template <class R> MORPH_FN bool wants_stop(const R& t) {
    if constexpr (TARGET_GPU) return t.stop || sees_stop(t);
    else return stops(t);
}
// By the master: all threads of this part stop at this barrier.  On a GPU the release reads the word.
template <class A, class R> MORPH_FN void stop_part(const A& a, const R& t) {
    store(a.parts + PARTS_STOPPED, 1);
    if constexpr (!TARGET_GPU) set_stop(t);
}
// Whether the launch leaves at a crossing, or, at its begin, has left at one.
template <class A> MORPH_FN bool left_at_crossing(const A& a) { return ON_RANKS && load(a.parts + PARTS_LEFT); }
// Publishes `count` words of this part and waits for all parts, or leaves; returns the bits of all of them.  Not inlined: a
// unit has many crossings.
template <class A> MORPH_OUTLINED u64 exchange_words(const A& a, i64 crossing, const u64* w, i32 count) {
    const i32 parts = part_count(a), own = part_number(a);
    if constexpr (ON_RANKS) {
        u64* sent = (u64*)load_fixed(a.parts + PARTS_SENT);
        for (i32 i = 0; i < count; i++) set_system(sent + 1 + i, w[i]);
        fence_system();
        set_system(sent, u64(crossing));
        store(a.parts + PARTS_LEFT, 1);
        return PART_STOPS;
    }
    for (i32 k = 0; k < parts && count > 1; k++) {
        u64* to = published_in(mailbox(a, k), crossing, own);
        for (i32 i = 1; i < count; i++) set_system(to + i, w[i]);
    }
    fence_system();
    const u64 number = u64(crossing) << OWN_BITS;
    for (i32 first = 0; first < parts; first += PARTS_AT_ONCE) {
        i64* box[PARTS_AT_ONCE];
        MORPH_UNROLL_ALL for (i32 k = 0; k < PARTS_AT_ONCE; k++) box[k] = mailbox(a, first + k);
        MORPH_UNROLL_ALL for (i32 k = 0; k < PARTS_AT_ONCE; k++) {
            if (first + k >= parts) break;
            u64* line = line_in(box[k], crossing, own);
            set_system(line, number | w[0]);
            wake_part(a, line);
        }
    }
    u64 bits = w[0];
    u64* lines = line_in(mailbox(a, own), crossing, 0);
    if (bits & PART_STOPS || !await_parts(a, lines, parts, number)) return PART_STOPS;
    for (i32 k = 0; k < parts; k++)
        if (k != own) bits |= acquire_system(lines + k * MAILBOX_LINE) & ((1 << OWN_BITS) - 1);
    return bits & PART_STOPS ? u64(PART_STOPS) : bits;
}
// By the master, between arrival and release.  `publish(w)` sets `count` words of this part; `combine(w)` takes those of
// all parts, unless an item of any part has failed or the program stops.  Returns whether one of these is the case, or
// the launch leaves.
template <class A, class R, class F, class G>
MORPH_FN bool cross(const A& a, const R& t, i32 step, bool failed, i32 count, const F& publish, const G& combine) {
    const i64 stopped = load(a.parts + PARTS_STOPPED), error = load(a.parts + PARTS_ERROR);
    const bool resumed = left_at_crossing(a);
    const i64 crossing = load(a.parts + PARTS_CROSSINGS) + !resumed;
    if (stopped) return true;
    const Published all{part_count(a), published_in(mailbox(a, part_number(a)), crossing, 0)};
    u64 bits;
    if (resumed) {
        store(a.parts + PARTS_LEFT, 0);
        bits = or_of_parts(all, 0) & PART_FAILED;  // hosts of parts that stop raise errors
    } else {
        store(a.parts + PARTS_CROSSINGS, crossing);
        u64 w[MOST_WORDS];
        w[0] = (failed ? PART_FAILED : 0) | (wants_stop(t) || error ? PART_STOPS : 0);
        if constexpr (ON_RANKS) w[1] = step;
        publish(w + OWN_VALUES);
        bits = exchange_words(a, crossing, w, OWN_VALUES + count);
    }
    if (bits & PART_STOPS) stop_part(a, t);
    if (bits) return true;
    combine(Published{all.parts, all.first + OWN_VALUES});
    return false;
}
// At the end of a launch: another one may follow.
template <class A> MORPH_FN void end_parts(const A& a) { store(a.parts + PARTS_STOPPED, 0); }

// --- values of which every part has a copy --------------------------------------------------------

struct Sum;    // of the values of all parts
struct First;  // the value of the first part
template <class X, class Y> constexpr bool IS = false;
template <class X> constexpr bool IS<X, X> = true;
template <class T> constexpr bool IS_FLOAT = IS<T, f16> || IS<T, f32> || IS<T, f64>;

// The value after a step, in order of parts.  Plus: each part has added to a copy of the same value; Put: the last part
// whose value differs from `before` counts.
template <class Op, class T> MORPH_FN T agreed(const Published& w, i32 word, T before) {
    T x = from_bits<T>(Bits<T>(w(0, word)));
    for (i32 k = 1; k < w.parts; k++) {
        T v = from_bits<T>(Bits<T>(w(k, word)));
        if constexpr (IS<Op, Plus>) {
            if (v != before) x = Plus::of(x, Minus::of(v, before));  // infinity minus itself is NaN
        } else if constexpr (IS<Op, Put>) {
            if (x == before || (x != x && before != before)) x = v;
        } else if constexpr (IS<Op, Sum>) {
            x = Plus::of(x, v);
        } else if constexpr (!IS<Op, First>) {
            x = Op::of(x, v);
        }
    }
    return x;
}

// --- mirrors --------------------------------------------------------------------------------------

// The words of a route.
struct Route {
    const i64* at;
    i32 parts, own;
    template <class A>
    MORPH_FN Route(const A& a, i32 route) : at(a.parts + route), parts(part_count(a)), own(part_number(a)) {}
    MORPH_FN i64 operator[](i32 i) const { return load_fixed(at + i); }
    MORPH_FN const i32* rows(i32 i) const { return (const i32*)(*this)[i]; }
};
// The column of another part that corresponds to a column of this part.
template <class A, class C> MORPH_FN C column_in(const A& a, const C&, i32 peers, i32 part) {
    return C{(u8*)load_fixed(a.parts + peers + part)};
}

// Sets the values of a column at all mirrors to 0; a barrier follows.
template <i32 SIZE, class A, class R, class C>
MORPH_FN void fill_mirrors(const A& a, const R& t, const C& column, i32 route) {
    typedef typename C::V V;
    const Route r(a, route);
    const i64 first = r[ROUTE_MIRRORS], n = (r[ROUTE_MIRRORS + r.parts] - first) * SIZE;
    for (i64 i = t.thread; i < n; i += t.threads) store(column.at(first + i / SIZE, i % SIZE), V(0));
}

// How many values of a column a thread stores at once to mirrors: values of less than 4 bytes in words of 4 bytes, since
// a warp should store 128 consecutive bytes, the largest packet between GPUs.
template <class C> struct SentAtOnce { enum { VALUES = 1 }; };
template <class T, i64 STRIDE, i64 OFFSET, Mode MODE> struct SentAtOnce<Col<T, STRIDE, OFFSET, MODE>> {
    enum { SIZE = sizeof(Value<T>), VALUES = STRIDE == SIZE && SIZE < 4 ? 4 / SIZE : 1 };
};
// Copies the values from `begin` on, in strides of `threads`.  A thread issues several loads before its first store, so
// that their latencies overlap.
constexpr i32 IN_FLIGHT_TO_MIRRORS = TARGET_GPU ? 4 : 1;
template <class T, class F, class G>
MORPH_FN void move_all(i64 begin, i64 end, i64 threads, const F& load_value, const G& store_value) {
    for (i64 i = begin; i < end; i += IN_FLIGHT_TO_MIRRORS * threads) {
        T values[IN_FLIGHT_TO_MIRRORS];
        MORPH_UNROLL_ALL for (i32 s = 0; s < IN_FLIGHT_TO_MIRRORS; s++)
            if (i + s * threads < end) values[s] = load_value(i + s * threads);
        MORPH_UNROLL_ALL for (i32 s = 0; s < IN_FLIGHT_TO_MIRRORS; s++)
            if (i + s * threads < end) store_value(i + s * threads, values[s]);
    }
}
// Sends the values of the rows sent[from .. last) to their mirrors in the column `to` of another part: row `first` + i
// there is the mirror of row sent[i].  All of `threads` threads call this, each with its number `thread`.
template <i32 SIZE, class C>
MORPH_FN void send_rows(
    const C& column, const C& to, const i32* sent, i64 first, i64 from, i64 last, i64 thread, i64 threads
) {
    typedef typename C::V V;
    constexpr i32 VALUES = SIZE == 1 ? i32(SentAtOnce<C>::VALUES) : 1;
    auto value = [&](i64 j) { return column.get(load_fixed(sent + j / SIZE), j % SIZE); };
    auto set = [&](i64 j, V x) { store(to.at(first + j / SIZE, j % SIZE), x); };
    from *= SIZE, last *= SIZE;
    if constexpr (VALUES > 1) {
        const i64 before = i64(-u64(to.at(first + from)) & 3) / i64(sizeof(V));
        const i64 begin = min_of(last, from + before), words = (last - begin) / VALUES;
        auto word = [&](i64 i) {
            u32 bits = 0;
            MORPH_UNROLL_ALL for (i32 b = 0; b < VALUES; b++)
                bits |= u32(to_bits(value(begin + i * VALUES + b))) << b * 8 * i32(sizeof(V));
            return bits;
        };
        move_all<u32>(thread, words, threads, word, [&](i64 i, u32 x) { store((u32*)to.at(first + begin + i * VALUES), x); });
        for (i64 j = from + thread; j < begin; j += threads) set(j, value(j));  // before and after the whole words
        for (i64 j = begin + words * VALUES + thread; j < last; j += threads) set(j, value(j));
    } else {
        move_all<V>(from + thread, last, threads, value, set);
    }
}

// Sends the own values of a column to their mirrors in all other parts; a crossing follows.  The mirrors that a part has
// of this one are consecutive rows there.
template <i32 SIZE, class A, class C>
MORPH_OUTLINED void send_column(const A& a, i32 thread, i32 threads, const C column, i32 route, i32 peers) {
    const Route r(a, route);
    for (i32 i = 1; i < r.parts; i++) {  // each part begins with a different receiver
        const i32 k = (r.own + i) % r.parts;
        const i64 from = r[ROUTE_SENT_BOUNDS + k], to = r[ROUTE_SENT_BOUNDS + k + 1];
        if (const i32* at = r.rows(ROUTE_MIRROR_AT)) {  // mirrors need not be consecutive
            const C theirs = column_in(a, column, peers, k);
            const i32* sent = r.rows(ROUTE_SENT);
            move_all<typename C::V>(
                from * SIZE + thread, to * SIZE, threads,
                [&](i64 j) { return column.get(load_fixed(sent + j / SIZE), j % SIZE); },
                [&](i64 j, typename C::V x) { store(theirs.at(load_fixed(at + j / SIZE), j % SIZE), x); });
            continue;
        }
        send_rows<SIZE>(column, column_in(a, column, peers, k), r.rows(ROUTE_SENT), r[ROUTE_FIRST_MIRROR + k] - from,
                        from, to, thread, threads);
    }
}
template <i32 SIZE, class A, class R, class C>
MORPH_FN void spread_column(const A& a, const R& t, const C& column, i32 route, i32 peers) {
    send_column<SIZE>(a, t.thread, t.threads, column, route, peers);
}

// If all values that a step has written to a column are equal, a part sends a bit for each of its rows: whether the row
// has this value.  Rows without the bit have not changed; mirrors of rows that had the value before do not change.  Bits
// are received in separate buffers, since the receiver may still read the column in the same step; mirrors are set after
// the crossing.  A part may send the bits of the next crossing before another part has read those of this one, so bits are
// double-buffered: one buffer for crossings with even numbers, one for those with odd numbers.
//
// In each buffer of a receiver a sender has `EQUAL_WIDTH` words of 32 rows.  For each of these words the receiver knows
// which of its rows it mirrors, and the first of their mirrors, which are consecutive.
constexpr i32 WORDS_AT_ONCE = 8;
template <class A> MORPH_FN u32* bits_in(const A& a, i32 bits, i64 crossing, i32 part) {
    return (u32*)load_fixed(a.parts + bits + EQUAL_BITS + (crossing & 1) * MOST_PARTS + part);
}
template <class A, class C, class V>
MORPH_OUTLINED void pack_equal(const A& a, i32 thread, i32 threads, const C column, V value, i32 route, i32 bits) {
    const i32 parts = part_count(a), own = part_number(a);
    const i64 n = load_fixed(a.parts + route + ROUTE_OWNED), words = (n + 31) / 32;
    const i64 crossing = load(a.parts + PARTS_CROSSINGS) + 1, first = own * load_fixed(a.parts + bits + EQUAL_WIDTH);
    u32* to[MOST_PARTS];
    MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++) to[k] = bits_in(a, bits, crossing, k < parts ? k : own) + first;
    auto send = [&](i64 w, u32 word) {
        MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++) if (k < parts && k != own) store(to[k] + w, word);
    };
    if constexpr (TARGET_GPU) {  // a warp makes some words, whose loads are in flight at once
        const i32 lane = lane_id();
        for (i64 w = i64(thread / 32) * WORDS_AT_ONCE; w < words; w += i64(threads / 32) * WORDS_AT_ONCE) {
            V x[WORDS_AT_ONCE];
            MORPH_UNROLL_ALL for (i32 s = 0; s < WORDS_AT_ONCE; s++) x[s] = column.get(min_of((w + s) * 32 + lane, n - 1));
            u32 mine = 0;
            MORPH_UNROLL_ALL for (i32 s = 0; s < WORDS_AT_ONCE; s++) {
                const u32 word = ballot(ALL_LANES, same_bits(x[s], value));
                mine = lane == s ? word : mine;
            }
            if (lane < WORDS_AT_ONCE && w + lane < words) send(w + lane, mine);
        }
    } else {
        for (i64 w = thread; w < words; w += threads) {
            u32 word = 0;
            for (i64 i = 32 * w; i < min_of(n, 32 * w + 32); i++) word |= u32(same_bits(column.get(i), value)) << i % 32;
            send(w, word);
        }
    }
}
template <class A, class C, class V>
MORPH_OUTLINED void unpack_equal(const A& a, i32 thread, i32 threads, const C column, V value, i32 bits) {
    const i64 n = part_count(a) * load_fixed(a.parts + bits + EQUAL_WIDTH);
    const u32* words = bits_in(a, bits, load(a.parts + PARTS_CROSSINGS), part_number(a));
    const u32* mirrored = (const u32*)load_fixed(a.parts + bits + EQUAL_MIRRORED);
    const i32* firsts = (const i32*)load_fixed(a.parts + bits + EQUAL_FIRST);
    if constexpr (TARGET_GPU) {
        const i32 lane = lane_id();
        for (i64 i = thread; i - lane < n; i += threads) {  // the words of a warp one by one, a row on each lane
            const u32 mine = i < n ? load_fixed(mirrored + i) : 0, set = i < n ? load(words + i) & mine : 0;
            const i32 first = i < n ? load_fixed(firsts + i) : 0;
            for (u32 lanes = ballot(ALL_LANES, set != 0); lanes; lanes &= lanes - 1) {
                const i32 from = first_lane(lanes);
                const u32 rows = shuffle(ALL_LANES, mine, from), bit = shuffle(ALL_LANES, set, from) >> lane & 1;
                const i32 row = shuffle(ALL_LANES, first, from) + popcount(rows & ((1u << lane) - 1));
                if (bit) store(column.at(row), value);
            }
        }
    } else {
        for (i64 i = thread; i < n; i += threads) {
            const u32 mine = load_fixed(mirrored + i);
            for (u32 set = mine ? load(words + i) & mine : 0; set; set &= set - 1) {
                const u32 before = mine & ((set & (0 - set)) - 1);
                store(column.at(load_fixed(firsts + i) + popcount(before)), value);
            }
        }
    }
}
// Sends the bits of a column to all other parts; a crossing follows, then `set_equal` with the same value.  A
// barrier precedes the next step.
template <class A, class R, class C>
MORPH_FN void send_equal(const A& a, const R& t, const C& column, typename C::V value, i32 route, i32 bits) {
    pack_equal(a, t.thread, t.threads, column, value, route, bits);
}
template <class A, class R, class C>
MORPH_FN void set_equal(const A& a, const R& t, const C& column, typename C::V value, i32 bits) {
    unpack_equal(a, t.thread, t.threads, column, value, bits);
}

// A step over a worklist changes few rows: it marks them, and only these are sent.  A byte is the mark of MARKED_ROWS
// rows, whose values have at least the size of one transfer between GPUs; a warp reads the marks of 32 words at once.
template <class A> MORPH_FN void mark_row(const A& a, i32 marks, i64 row) {
    u8* mark = (u8*)load_fixed(a.parts + marks) + row / MARKED_ROWS;
    if (TARGET_GPU || !load(mark)) store(mark, u8(1));  // CPU threads avoid transfers of the cache line
}

// Sends the own values of marked rows to their mirrors in all other parts, and clears the marks; a crossing follows.
// If there are fewer mirrors than words of marks, if mirrors may be unordered, or if the host sends rows, the values of all
// rows are sent, and no marks are read.  If at least half of a warp's words have marks, the warp sends the rows of all its
// words, which is faster than word by word.
template <i32 SIZE, class A, class R, class C>
MORPH_FN void spread_marked(const A& a, R& t, const C& column, i32 route, i32 peers, i32 marks) {
    constexpr i32 GROUP = 8 * MARKED_ROWS;  // rows of a word
    constexpr u64 EACH = 0x0101010101010101;  // the marks of a word
    const Route r(a, route);
    const i32* sent = r.rows(ROUTE_SENT);
    u64* words = (u64*)load_fixed(a.parts + marks);
    const i32* begin = (const i32*)load_fixed(a.parts + marks + 1);
    const i64 groups = (r[ROUTE_OWNED] + GROUP - 1) / GROUP;
    const bool all = r[ROUTE_SENT_BOUNDS + r.parts] <= groups || r[ROUTE_MIRROR_AT] || ON_RANKS;
    if (all) return spread_column<SIZE>(a, t, column, route, peers);
    const i32 lane = lane_id();
    for (i64 g = t.thread; g - lane < groups; g += t.threads) {
        const u64 word = g < groups ? load(words + g) : 0;
        if (word) store(words + g, u64(0));
        u32 lanes = ballot(ALL_LANES, word != 0);
        if (TARGET_GPU && popcount(lanes) >= 16) {
            for (i32 i = 1; i < r.parts; i++) {
                const i32 k = (r.own + i) % r.parts;
                const i32* at = begin + k * (8 * groups + 1);
                const i64 from = load_fixed(at + 8 * (g - lane)), to = load_fixed(at + 8 * min_of(groups, g - lane + 32));
                send_rows<SIZE>(column, column_in(a, column, peers, k), sent,
                                r[ROUTE_FIRST_MIRROR + k] - r[ROUTE_SENT_BOUNDS + k], from, to, lane, 32);
            }
            continue;
        }
        for (; lanes; lanes &= lanes - 1) {
            const i32 from_lane = first_lane(lanes);
            const u64 marked = shuffle(ALL_LANES, word, from_lane);
            const i64 group = g - lane + from_lane;
            for (i32 i = 1; i < r.parts; i++) {
                const i32 k = (r.own + i) % r.parts;
                const C to = column_in(a, column, peers, k);
                const i32* at = begin + k * (8 * groups + 1) + 8 * group;
                const i64 first = r[ROUTE_FIRST_MIRROR + k] - r[ROUTE_SENT_BOUNDS + k];
                auto send = [&](i64 j, i32 row) {
                    store(to.at(first + j / SIZE, j % SIZE), column.get(row, j % SIZE));
                };
                if constexpr (TARGET_GPU) {
                    const i64 end = load_fixed(at + 8) * i64(SIZE);
                    for (i64 j = load_fixed(at) * i64(SIZE) + lane; j < end; j += 32) {
                        const i32 row = load_fixed(sent + j / SIZE);
                        if (marked >> (row % GROUP / MARKED_ROWS * 8) & 255) send(j, row);
                    }
                } else {
                    for (u64 rest = marked; rest;) {  // runs of marks
                        const i32 b = ctz_of(rest) / 8, e = b + ctz_of(~(rest >> 8 * b) & EACH) / 8;
                        const i64 end = load_fixed(at + e) * i64(SIZE);
                        for (i64 j = load_fixed(at + b) * i64(SIZE); j < end; j++) send(j, load_fixed(sent + j / SIZE));
                        rest = e < 8 ? rest >> 8 * e << 8 * e : 0;
                    }
                }
            }
        }
    }
}

// Combines the own values of a column with those at their mirrors in all other parts; a barrier follows.  Floats are
// combined in order of parts, so that results do not depend on timing.
template <class Op, i32 SIZE, class A, class R, class C>
MORPH_FN void combine_mirrors(const A& a, R& t, const C& column, i32 route, i32 peers) {
    typedef typename C::V V;
    const Route r(a, route);
    const i32 *sent = r.rows(ROUTE_SENT), *mirror_at = r.rows(ROUTE_MIRROR_AT);
    bool first_part = true;
    for (i32 k = 0; k < r.parts; k++) {
        const i64 from = r[ROUTE_SENT_BOUNDS + k], n = (r[ROUTE_SENT_BOUNDS + k + 1] - from) * SIZE;
        if (k == r.own || n == 0) continue;
        if (IS_FLOAT<V> && !first_part) barrier(a, t);
        first_part = false;
        const C theirs = column_in(a, column, peers, k);
        const i64 first = r[ROUTE_FIRST_MIRROR + k];
        for (i64 j = t.thread; j < n; j += t.threads) {
            const i64 mirror = mirror_at ? load_fixed(mirror_at + from + j / SIZE) : first + j / SIZE;
            const V x = load_system(theirs.at(mirror, j % SIZE));
            V* own = column.at(load_fixed(sent + from + j / SIZE), j % SIZE);
            if constexpr (IS_FLOAT<V>) store(own, Op::of(load(own), x));  // a part has one mirror of a row
            else fetch(Op(), own, x);
        }
    }
}

// Gives all parts the combination of their copies of a column: each part combines a range of the values, and stores the
// result into all copies, if it differs.  It requires a crossing before and after it.  The copies of a thread's values are
// loaded before the first one is used, as a load from another GPU takes microseconds.
template <class Op, i32 SIZE, class A, class R, class C>
MORPH_FN void combine_copies(const A& a, R& t, const C& column, i64* meta, i32 peers) {
    typedef typename C::V V;
    constexpr i32 AT_ONCE = TARGET_GPU ? 4 : 1;
    const i32 parts = part_count(a), own = part_number(a);
    const i64 n = load(meta + COUNT) * SIZE, first = n * own / parts, last = n * (own + 1) / parts;
    C copies[MOST_PARTS];
    MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++) copies[k] = column_in(a, column, peers, k < parts ? k : 0);
    for (i64 i = first + t.thread; i < last; i += AT_ONCE * t.threads) {
        V values[AT_ONCE][MOST_PARTS];
        MORPH_UNROLL_ALL for (i32 s = 0; s < AT_ONCE; s++) {
            const i64 j = i + s * t.threads;
            MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++)
                if (k < parts && j < last) values[s][k] = load_system(copies[k].at(j / SIZE, j % SIZE));
        }
        MORPH_UNROLL_ALL for (i32 s = 0; s < AT_ONCE; s++) {
            const i64 j = i + s * t.threads;
            if (j >= last) break;
            V x = values[s][0];
            MORPH_UNROLL_ALL for (i32 k = 1; k < MOST_PARTS; k++) if (k < parts) x = Op::of(x, values[s][k]);
            MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++)
                if (k < parts && !same_bits(values[s][k], x)) store(copies[k].at(j / SIZE, j % SIZE), x);
        }
    }
}

// --- messages -------------------------------------------------------------------------------------
//
// An item of an outbox is a mirror, or an own row; the message goes to the owner of the row, as an item of its inbox.
// Inboxes of one kind have the same capacity on all parts, and each part has an equal region of every inbox.  So a part
// knows the positions of its messages without communication.  Messages beyond the end of a region are counted and not
// written; at the next crossing all parts have all counts, so all make the same decision to grow the inboxes and send
// again.  The step that executes messages numbers them without the gaps between regions.

// The part that owns a row: an own row, or a mirror.
struct Owners {
    i64 owned;
    const u8* of_mirror;            // the owner of each mirror, if mirrors may be unordered
    i32 own, ends[MOST_PARTS - 1];  // of the mirrors of each part
    explicit MORPH_FN Owners(const Route& r) : owned(r[ROUTE_OWNED]), of_mirror((const u8*)r[ROUTE_OWNER]), own(r.own) {
        MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS - 1; k++)
            ends[k] = i32(r[ROUTE_MIRRORS + min_of(k + 1, r.parts)]);
    }
    MORPH_FN i32 operator()(i64 row, i32 parts) const {
        if (row < owned) return own;
        if (of_mirror) return load_fixed(of_mirror + (row - owned));
        i32 k = 0;
        MORPH_UNROLL_ALL for (i32 j = 0; j < MOST_PARTS - 1; j++) k += j < parts - 1 && row >= ends[j];
        return k;
    }
};

// Which messages are sent: all, or those whose value is still the best of this part for their row, by a comparison with
// the mirror.  Others have no effect if the owner executes the best one first.
struct EveryMessage {
    MORPH_FN bool operator()(i64, i64) const { return true; }
};
template <class Op, class C, class V> struct BestValue {
    C mirror;
    V offered;
    MORPH_FN bool operator()(i64 message, i64 row) const {
        return !has_effect(Op(), offered.get(message), mirror.get(row));
    }
};
template <class Op, class C, class V> MORPH_FN BestValue<Op, C, V> best_value(const C& mirror, const V& offered) {
    return {mirror, offered};
}

MORPH_FN i64 region_of_inbox(const i64* inbox_meta, i32 parts) { return load_stable(inbox_meta + CAPACITY) / parts; }
// By the master at the crossing after the messages: the counts of those to each part, and the largest of them.
template <class A> MORPH_FN void publish_message_counts(const A& a, u64* w) {
    w[MOST_PARTS] = 0;
    MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++) w[k] = u64(load(a.parts + PARTS_COUNTS + k));
    MORPH_UNROLL_ALL for (i32 k = 0; k < MOST_PARTS; k++) {
        w[MOST_PARTS] = max_of(w[MOST_PARTS], w[k]);
        store(a.parts + PARTS_COUNTS + k, 0);
    }
}
// Whether no part has sent messages.
MORPH_FN bool is_quiet(const Published& w) { return or_of_parts(w, MOST_PARTS) == 0; }
// The inbox contains the messages to this part.  Returns whether the inboxes, store number `inbox` of the unit, must grow
// first.
template <class A> MORPH_FN bool receive_messages(const A& a, const Published& w, i64* inbox_meta, i32 inbox) {
    const i64 region = region_of_inbox(inbox_meta, w.parts);
    i64 most = 0, n = 0;
    for (i32 from = 0; from < w.parts; from++) {
        most = max_of(most, i64(w(from, MOST_PARTS)));
        store(a.parts + PARTS_SHIFTS + from, from * region - n);
        n += i64(w(from, part_number(a)));
        store(a.parts + PARTS_ENDS + from, n);
    }
    if (most > region) {
        store(a.status + FAILED, most * w.parts - load(inbox_meta + CAPACITY));
        store(a.status + STORES + inbox, 1);
        return true;
    }
    store(inbox_meta + COUNT, n);
    CollectionCounters(inbox_meta, COUNT).set(0, n);
    return false;
}
// The row of an inbox with the message of this number.
template <class A> MORPH_FN i64 inbox_row(const A& a, i64 message) {
    i32 from = 0;
    for (i32 k = 0; k < part_count(a) - 1; k++) from += message >= load_stable(a.parts + PARTS_ENDS + k);
    return message + load_stable(a.parts + PARTS_SHIFTS + from);
}

template <i32 SIZE, class C> struct SentColumn {
    C column;
    i32 peers;
    template <class A> MORPH_FN void send(const A& a, i32 part, i64 from, i64 to) const {
        const C theirs = column_in(a, column, peers, part);
        for (i32 j = 0; j < SIZE; j++) store(theirs.at(to, j), column.get(from, j));
    }
};
template <i32 SIZE, class C> MORPH_FN SentColumn<SIZE, C> sent_column(const C& outbox_column, i32 peers) {
    return {outbox_column, peers};
}

// Messages that a block of a GPU, or a CPU thread, sorts by receiver, so that it writes consecutive places of an inbox.
constexpr i32 SORTERS = TARGET_GPU ? 256 : 1, SORTED_EACH = TARGET_GPU ? 8 : 256;
struct SortedMessages {
    i32 count[MOST_PARTS], begin[MOST_PARTS + 1];  // of the messages to each part; where they begin in `order`
    i64 place[MOST_PARTS];                         // of the first of them in the region of the inbox
    unsigned short order[SORTERS * SORTED_EACH];
};

// Writes the messages to the inboxes of their receivers; called by all threads, before a crossing.  Not inlined: registers
// of its loops, and of the loops of other steps, would be spilled.
template <class A, class C, class K, class... Sent>
MORPH_OUTLINED void sort_and_push(
    const A& a, const i32 thread, const i32 threads, i64* meta, const C items, const i64* inbox_meta, i32 route, i32 peers,
    const K is_sent, const Sent... columns
) {
    const Route r(a, route);
    const Owners owner(r);
    const i64 region = region_of_inbox(inbox_meta, r.parts);
    const i32* home = r.rows(ROUTE_HOME);
    const i64 owned = r[ROUTE_OWNED], first = load(meta + FROM), last = load(meta + TO);
    const i32 me = thread % SORTERS, group = thread / SORTERS, groups = threads / SORTERS, lane = lane_id();
    const i32 each = i32(min_of(i64(SORTED_EACH), (last - first + threads - 1) / threads));  // few: by all groups
    SortedMessages of_thread;
    SortedMessages& sorted = block_memory(of_thread);
    for (i64 base = first + i64(group) * each * SORTERS; base < last; base += i64(groups) * each * SORTERS) {
        for (i32 k = me; k < MOST_PARTS; k += SORTERS) sorted.count[k] = 0;
        sync_block();
        i32 to[SORTED_EACH];  // the receiver, and from bit 4 on the position among the messages to it
        MORPH_UNROLL_ALL for (i32 e = 0; e < SORTED_EACH; e++) {
            const i64 i = base + e * SORTERS + me, row = e < each && i < last ? i64(items.get(i)) : -1;
            to[e] = row >= 0 && is_sent(i, row) ? owner(row, r.parts) : -1;
        }
        MORPH_UNROLL_ALL for (i32 e = 0; e < SORTED_EACH; e++) {
            if (e >= each) break;
            const i32 receiver = to[e];
            for (i32 k = 0; k < r.parts; k++) {
                const u32 lanes = ballot(ALL_LANES, receiver == k);
                if (!lanes) continue;
                i32 at = lane == first_lane(lanes) ? fetch(Plus(), &sorted.count[k], i32(popcount(lanes))) : 0;
                at = shuffle(ALL_LANES, at, first_lane(lanes)) + popcount(lanes & ((1u << lane) - 1));
                if (receiver == k) to[e] |= at << 4;
            }
        }
        sync_block();
        for (i32 k = me; k <= r.parts; k += SORTERS) {
            sorted.begin[k] = 0;
            for (i32 j = 0; j < k; j++) sorted.begin[k] += sorted.count[j];
            if (const i64 n = k < r.parts ? sorted.count[k] : 0) sorted.place[k] = fetch(Plus(), a.parts + PARTS_COUNTS + k, n);
        }
        sync_block();
        MORPH_UNROLL_ALL for (i32 e = 0; e < SORTED_EACH; e++) {
            if (e >= each) break;
            if (to[e] >= 0) sorted.order[sorted.begin[to[e] & 15] + (to[e] >> 4)] = e * SORTERS + me;
        }
        sync_block();
        i32 k = 0;
        for (i32 j = me; j < sorted.begin[r.parts]; j += SORTERS) {
            while (j >= sorted.begin[k + 1]) k++;
            const i64 i = base + sorted.order[j], at = sorted.place[k] + (j - sorted.begin[k]);
            if (at >= region) continue;
            const i64 place = r.own * region + at;
            i64 row = items.get(i);
            if (row >= owned) row = load_fixed(home + (row - owned));
            store(column_in(a, items, peers, k).at(place), i32(row));
            (columns.send(a, k, i, place), ...);
        }
        sync_block();
    }
}
template <class A, class R, class... Given> MORPH_FN void push_messages(const A& a, const R& t, Given... given) {
    sort_and_push(a, t.thread, t.threads, given...);
}

// The row of an id among the rows from `first` to `last`, whose ids ascend; -1 if there is none.
template <class G> MORPH_FN i64 row_of(const G& ids, i64 id, i64 first, i64 last) {
    const i64 end = last;
    while (first < last) {
        const i64 middle = (first + last) / 2;
        if (i64(ids.get(middle)) < id) first = middle + 1;
        else last = middle;
    }
    return first < end && i64(ids.get(first)) == id ? first : -1;
}
// Replaces the global ids of points in a column of an inbox by local ids; -1 stays.  All threads; a barrier follows.  If
// the part has no copy of a point, the program stops at the next crossing.
template <i32 SIZE, class A, class R, class C, class G>
MORPH_FN void localise_points(const A& a, R& t, i64* inbox_meta, const C& column, const G& global_ids, i32 route) {
    const Route r(a, route);
    const i64 n = load(inbox_meta + TO) * SIZE;
    for (i64 i = t.thread; i < n; i += t.threads) {
        auto* place = column.at(inbox_row(a, i / SIZE), i % SIZE);
        const i64 id = load(place);
        if (id < 0) continue;
        i64 row = row_of(global_ids, id, 0, r[ROUTE_OWNED]);
        for (i32 k = 0; k < r.parts && row < 0; k++)
            row = row_of(global_ids, id, r[ROUTE_MIRRORS + k], r[ROUTE_MIRRORS + k + 1]);
        if (row < 0) store(a.parts + PARTS_ERROR, 1 + id), row = 0;
        store(place, i32(row));
    }
}
