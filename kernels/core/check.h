// Checks before memory accesses, part of units compiled for the checked mode only.
//
// A violation is recorded in `check`, and its item stops: `failed` is set, and all later accesses of the item
// through this header do nothing, so the item never reads or writes out of bounds.  Of several violations
// the one of the item at the lowest position is kept, so that every target reports the same one.
//
// A value of a column with non-atomic writes has four shadow words: of the items that write the value in this
// step the two with the lowest positions, and likewise of those that read it, or change it atomically.  A word is
// the step (24 bits), the item (28) and the site (12); a word of an older step counts as empty.  The race with the
// lowest items is among these words when the later of its two accesses is made, so which race is reported depends
// on the accesses alone, not on the order in which threads make them.

constexpr i64 RACES_LAST = i64(1) << 62;  // any other violation is reported before a race

// The item and the site of a check.
template <class I> struct At {
    i64* check;
    I& it;
    i32 site;
};
// Not a deduction guide: GCC 12 rejects `At{...}` in some parentheses, where it looks for a type first.
template <class I> MORPH_FN At<I> at_site(i64* check, I& it, i32 site) { return {check, it, site}; }
// The rows of a store; `deaths` has the item and launch that deleted each row, if the unit deletes rows.
struct Live {
    const i64* meta;
    const u8* dead;
    const u64* deaths;
};
// The shadow words of a column of `width` values a row; null if the column cannot have races.
struct Shadow {
    u64* words;
    i32 width;
};

struct Found {
    i32 kind, site;
    i64 item, row, value, limit, other, other_site;
};
// Whether a violation replaces the one in `check`.  Its words are written in this order and read in the opposite order,
// so that a reader never combines a smaller key with other words of a larger one.
MORPH_FN bool is_less(const i64* check, const Found& f, i64 key) {
    i64 least = load(check + CHECK_KEY);
    full_fence();
    i64 other = load(check + CHECK_OTHER);
    if (least != key) return key < least;
    if (other != f.other) return f.other < other;
    i64 site = load(check + CHECK_OTHER_SITE);
    return f.other_site < site || (f.other_site == site && f.value < load(check + CHECK_VALUE));
}
MORPH_CALL void record_violation(i64* check, const Found& f, i64 key) {
    for (bool done = false; !done;) {
        if (!is_less(check, f, key)) return;
        if (swap_if(check + CHECK_LOCK, i64(0), i64(1)) != 0) continue;
        full_fence();
        if (is_less(check, f, key)) {
            store(check + CHECK_KIND, i64(f.kind));
            store(check + CHECK_SITE, i64(f.site));
            store(check + CHECK_ITEM, f.item);
            store(check + CHECK_ROW, f.row);
            store(check + CHECK_VALUE, f.value);
            store(check + CHECK_LIMIT, f.limit);
            store(check + CHECK_OTHER_SITE, f.other_site);
            store(check + CHECK_OTHER, f.other);
            full_fence();
            store(check + CHECK_KEY, key);
        }
        full_fence();
        store(check + CHECK_LOCK, i64(0));
        done = true;
    }
}
template <class I> MORPH_FN void stop(const At<I>& at, Violation kind, i64 value, i64 limit) {
    if (at.it.failed) return;
    if (at.site < 0) return;  // evaluated for a reservation; the program may not execute the access
    at.it.failed = VIOLATED;
    record_violation(at.check, Found{kind, at.site, at.it.position, at.it.row, value, limit, -1, -1},
                     (at.it.position + 1) << SITE_BITS);
}

// --- races ---------------------------------------------------------------------------------------

template <class I> MORPH_FN u64 shadow_word(const At<I>& at) {
    u64 item = u64(at.it.position) & ((u64(1) << ITEM_BITS) - 1);
    return u64(at.it.step) << (ITEM_BITS + SITE_BITS) | item << SITE_BITS | u64(at.site);
}
MORPH_FN bool same_step(u64 x, u64 y) { return x >> (ITEM_BITS + SITE_BITS) == y >> (ITEM_BITS + SITE_BITS); }
MORPH_FN bool conflicts(u64 x, u64 y) { return same_step(x, y) && x >> SITE_BITS != y >> SITE_BITS; }

template <class I> MORPH_FN void race(const At<I>& at, u64 mine, u64 other, i64 place) {
    constexpr i64 ITEM = (i64(1) << ITEM_BITS) - 1, SITE = (i64(1) << SITE_BITS) - 1;
    bool first = (mine & ~u64(SITE)) < (other & ~u64(SITE));
    i64 low = first ? mine : other, high = first ? other : mine;
    i64 item = low >> SITE_BITS & ITEM, then = high >> SITE_BITS & ITEM;
    record_violation(at.check, Found{RACE, i32(low & SITE), item, -1, place, 0, then, high & SITE},
                     RACES_LAST + (item << SITE_BITS) + (low & SITE));
}
// Keeps in p[0] and p[1] the least words of the two lowest items that have accessed the value in this step.
MORPH_FN void record_mark(u64* p, u64 mine) {
    for (i32 k = 0; k < 2; k++) {
        u64 old = load(p + k);
        while (!same_step(old, mine) || mine < old) {
            u64 seen = swap_if(p + k, old, mine);
            if (seen == old) break;
            old = seen;
        }
        if (!conflicts(old, mine)) return;  // the word was empty, or this item's
        if (mine < old) mine = old;
    }
}
template <class I> MORPH_FN void compare_marks(const At<I>& at, u64 mine, const u64* p, i32 n, i64 place) {
    for (i32 k = 0; k < n; k++)
        if (u64 other = load(p + k); conflicts(other, mine)) race(at, mine, other, place);
}
template <class I> MORPH_CALL void record_read(const At<I>& at, const Shadow& s, i64 row, i64 j = 0) {
    if (!s.words) return;
    i64 place = row * s.width + j;
    u64 mine = shadow_word(at), *p = s.words + 4 * place;
    record_mark(p + 2, mine);
    full_fence();
    compare_marks(at, mine, p, 2, place);
}
template <class I> MORPH_CALL void record_write(const At<I>& at, const Shadow& s, i64 row, i64 j = 0) {
    if (!s.words) return;
    i64 place = row * s.width + j;
    u64 mine = shadow_word(at), *p = s.words + 4 * place;
    record_mark(p, mine);
    full_fence();
    compare_marks(at, mine, p, 4, place);
}

// --- rows and indices ----------------------------------------------------------------------------

template <class I> MORPH_FN bool has_row(const At<I>& at, const Live& live, i64 row) {
    if (at.it.failed) return false;
    i64 n = load(live.meta + COUNT);
    if (row >= 0 && row < n) return true;
    stop(at, NO_ROW, row, n);
    return false;
}
// The word of `deaths` for a row deleted by this item in this launch.
template <class I> MORPH_FN u64 death(const At<I>& at) {
    return u64(load(at.check + CHECK_LAUNCH)) << ITEM_BITS | (u64(at.it.position) & ((u64(1) << ITEM_BITS) - 1));
}
// Whether a row was deleted by this item or before this launch: rows that other items delete exist until its end.
template <class I> MORPH_FN bool is_deleted(const At<I>& at, const Live& live, i64 row) {
    if (!live.dead || !is_dead(live.dead, row)) return false;
    if (!live.deaths) return true;
    acquire();
    u64 mine = death(at), by = load(live.deaths + row);
    return by == mine || by >> ITEM_BITS != mine >> ITEM_BITS;
}
template <class I> MORPH_CALL bool lives(const At<I>& at, const Live& live, i64 row) {
    if (!has_row(at, live, row)) return false;
    if (!is_deleted(at, live, row)) return true;
    stop(at, DELETED_ROW, row, 0);
    return false;
}
template <class I> MORPH_FN bool has_index(const At<I>& at, i64 i, i64 n) {
    if (at.it.failed) return false;
    if (i >= 0 && i < n) return true;
    stop(at, NO_INDEX, i, n);
    return false;
}
template <class C, class I>
MORPH_CALL typename C::V check_get(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row) {
    if (!lives(at, live, row)) return typename C::V();
    record_read(at, s, row);
    return column.get(row);
}
template <class C, class I>
MORPH_CALL typename C::V check_get(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row, i64 j) {
    if (!lives(at, live, row) || !has_index(at, j, s.width)) return typename C::V();
    record_read(at, s, row, j);
    return column.get(row, j);
}
template <i32 N, class C, class I>
MORPH_CALL Vec<typename C::V, N> check_vec(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row) {
    if (!lives(at, live, row)) return {};
    for (i32 j = 0; j < N; j++) record_read(at, s, row, j);
    return column.template vec<N>(row);
}
template <class C, class I>
MORPH_CALL void check_set(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row, typename C::V x) {
    if (!lives(at, live, row)) return;
    record_write(at, s, row);
    column.set(row, x);
}
template <class C, class I>
MORPH_CALL void check_set(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row, i64 j,
                        typename C::V x) {
    if (!lives(at, live, row) || !has_index(at, j, s.width)) return;
    record_write(at, s, row, j);
    column.set(row, j, x);
}
template <i32 N, class C, class I>
MORPH_CALL void check_set_vec(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row,
                            const Vec<typename C::V, N>& x) {
    if (!lives(at, live, row)) return;
    for (i32 j = 0; j < N; j++) record_write(at, s, row, j);
    column.set(row, x);
}
// The address of a value for an atomic; after a violation, the address of a word that is never read.
template <class C, class I>
MORPH_CALL typename C::V* check_at(const At<I>& at, const Live& live, const Shadow& s, const C& column, i64 row,
                                 i64 j = 0) {
    if (!lives(at, live, row) || !has_index(at, j, s.width)) return (typename C::V*)(at.check + CHECK_SINK);
    record_read(at, s, row, j);
    return column.at(row, j);
}
template <class I> MORPH_FN bool check_dead(const At<I>& at, const Live& live, i64 row) {
    return has_row(at, live, row) && live.dead && is_dead(live.dead, row);
}
// Inlined: the lanes of a warp that delete together add to one table's counter.
template <class I>
MORPH_FN void check_delete(const At<I>& at, const Live& live, u64* deaths, i64* meta, i32* free, u8* dead, i32 row) {
    if (!has_row(at, live, row) || is_dead(dead, row)) return;
    store(deaths + row, death(at));
    publish();
    delete_row(meta, free, dead, row);
}
template <class I> MORPH_FN bool check_lock(const At<I>& at, const Live& live, i32* lock, i64 row, i32 launch) {
    return lives(at, live, row) && lock_row(lock, row, launch);
}
template <class L, class I> MORPH_FN bool check_claim(const At<I>& at, const Live& live, const L& rows) {
    for (i32 i = 0; i < rows.n; i++)
        if (rows.v[i] >= 0 && !has_row(at, live, rows.v[i])) return false;
    return !at.it.failed;
}
template <class R, class I> MORPH_CALL i32 check_degree(const At<I>& at, const Live& live, const R* offset, i64 p) {
    return has_row(at, live, p) ? degree(offset, p) : 0;
}
template <class R, class C, class I>
MORPH_CALL RowId check_edge(const At<I>& at, const Live& live, const Shadow& s, const R* offset, const i32* edge,
                        const C& end, i32 x, i32 y) {
    if (!has_row(at, live, x)) return -1;
    RowId found = find_edge(offset, edge, end, x, y);
    for (i64 k = row_begin(offset, x), last = s.words ? row_end(offset, x) : k; k < last; k++) {
        RowId e = edge ? edge_at(edge, k) : edge_at(k);
        record_read(at, s, e);
        if (e == found) break;
    }
    return found;
}
template <class I> MORPH_FN i32 check_end(const At<I>& at, const Shadow& s, RowId edge, i32 end) {
    record_read(at, s, edge);
    return end;
}
template <Mode MODE, class I> MORPH_FN i32 check_find(const At<I>& at, const Live& live, i32* parent, i32 x) {
    return has_row(at, live, x) ? set_find<MODE>(parent, x) : -1;
}
template <class I> MORPH_FN bool check_union(const At<I>& at, const Live& live, i32* parent, i32 x, i32 y) {
    return has_row(at, live, x) && has_row(at, live, y) && set_union(parent, x, y);
}

// --- values of the item --------------------------------------------------------------------------

template <class T, i32 N, class I> MORPH_FN T check_item(const At<I>& at, const Vec<T, N>& x, i64 i) {
    return has_index(at, i, N) ? x.pick(i) : T();
}
template <class T, i32 N, class I> MORPH_FN T check_item(const At<I>& at, const Local<T, N>& x, i64 i) {
    return has_index(at, i, x.n) ? x[i] : T();
}
template <class I> MORPH_FN i32 check_item(const At<I>& at, const Rows& x, i64 i) {
    return has_index(at, i, x.n) ? x[i] : -1;
}
template <class T, i32 N> MORPH_FN i64 size_of(const Vec<T, N>&) { return N; }
template <class T, i32 N> MORPH_FN i64 size_of(const Local<T, N>& x) { return x.n; }
template <class X, class T, class I> MORPH_FN void check_put(const At<I>& at, X& x, i64 i, T value) {
    if (has_index(at, i, size_of(x))) x[i] = value;
}
template <class T, i32 N, class I> MORPH_FN T check_pop(const At<I>& at, Local<T, N>& x) {
    if (!at.it.failed && x.n == 0) stop(at, NO_VALUE, 0, 0);
    return at.it.failed ? T() : x.pop();
}

// Integer operations from which an index is computed.
template <class T> MORPH_FN bool negative(T x) { return x < T(0); }
template <class T, class I> MORPH_FN T check_add(const At<I>& at, T x, Value<T> y) {
    T r = wrap_add(x, y);
    if (negative(x) == negative(y) && negative(r) != negative(x)) stop(at, INDEX_OVERFLOW, x, y);
    return r;
}
template <class T, class I> MORPH_FN T check_sub(const At<I>& at, T x, Value<T> y) {
    T r = wrap_sub(x, y);
    if (negative(x) != negative(y) && negative(r) != negative(x)) stop(at, INDEX_OVERFLOW, x, y);
    return r;
}
template <class T, class I> MORPH_FN T check_mul(const At<I>& at, T x, Value<T> y) {
    T r = wrap_mul(x, y);
    bool least = y == T(-1) && x == r && negative(x);  // -x of the least integer
    if (least || (y != T(0) && y != T(-1) && r / y != x)) stop(at, INDEX_OVERFLOW, x, y);
    return r;
}
template <class T, class I> MORPH_FN T check_negate(const At<I>& at, T x) {
    T r = wrap_sub(T(0), x);
    if (negative(x) && negative(r)) stop(at, INDEX_OVERFLOW, x, 0);
    return r;
}
template <class T, class I> MORPH_FN T check_abs(const At<I>& at, T x) {
    T r = abs_of(x);
    if (negative(r)) stop(at, INDEX_OVERFLOW, x, 0);
    return r;
}
template <class T, class I> MORPH_FN T check_shift(const At<I>& at, T x, T n) {
    T r = shift_left(x, n);
    if (shift_right(r, n) != x) stop(at, INDEX_OVERFLOW, x, n);
    return r;
}
// A number converted to an integer of type T, truncated towards zero.
template <class T, class S, class I> MORPH_FN T check_integer(const At<I>& at, S x) {
    if constexpr (is_float<S>()) {
        f64 v = f64(x), least = T(-1) < T(0) ? -1.0 : 0.0, most = 2.0;
        for (i32 k = 1; k < i32(8 * sizeof(T)) - (T(-1) < T(0)); k++) most *= 2;
        least *= most;
        if (!(v > least - 1 && v < most) && !(v == least)) {
            stop(at, NO_INTEGER, to_bits(v), 0);
            return T(0);
        }
        return T(x);
    } else {
        T r = T(x);
        if (S(r) != x || negative(r) != negative(x)) stop(at, INDEX_OVERFLOW, i64(x), 0);
        return r;
    }
}
// A handle of row x: None is -1; a number that does not fit in a handle is no row.
template <class S, class I> MORPH_FN RowId check_handle(const At<I>& at, const Live& live, S x) {
    RowId r = RowId(x);
    if (S(r) == x && (r >= 0) == !negative(x)) return r;
    if (!at.it.failed) stop(at, NO_ROW, i64(x), load(live.meta + COUNT));
    return -1;
}
