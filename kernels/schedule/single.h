// single(collection): locks all rows of a collection for one of the competing items.
//
// Invariant: the owner of a row is the smallest key that has claimed it.  Keys are unique, and the keys of a round are
// less than those of all earlier rounds, so nothing has to be released.  An item wins if all its rows still have its
// key and no guarded row has a smaller key of this round; so no two winners share a row, and the item with the
// smallest key wins: every round makes progress.  A barrier separates claims from checks, and another one checks from
// the next claims.

MORPH_FN u32 mix32(u32 h) {  // the finaliser of MurmurHash3, one-to-one
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}
MORPH_FN u64 claim_key(u32 round, i32 priority, i64 position) {
    u64 age = 0x3ffffffu - (round & 0x3ffffffu);
    return age << 38 | u64(priority) << 32 | mix32(u32(position));
}
template <class T> MORPH_FN i32 clamp_priority(T p) { return p < T(0) ? 0 : p > T(63) ? 63 : i32(p); }

constexpr i32 AT_ONCE = TARGET_GPU ? 8 : 1;

template <class O, class L> MORPH_FN void claim(const O& owner, const L& rows, u64 key) {
    for (i32 i = 0; i < rows.n; i++)
        if (rows.v[i] >= 0) fetch_untested(Min(), owner.at(rows.v[i]), key);  // without a return value: no thread waits
}
// Whether a predicate holds for the owners of all rows.  All are read, without an early exit: on a GPU eight at a
// time, first their positions, from the item's memory, then the owners, whose loads overlap.
template <class O, class L, class F> MORPH_FN bool all_owners(const O& owner, const L& rows, const F& good) {
    bool all = true;
    for (i32 i = 0; i < rows.n; i += AT_ONCE) {
        i32 row[AT_ONCE];
        u64 key[AT_ONCE];
        MORPH_UNROLL_ALL for (i32 k = 0; k < AT_ONCE; k++) row[k] = rows.v[i + k < rows.n ? i + k : i];
        MORPH_UNROLL_ALL for (i32 k = 0; k < AT_ONCE; k++)
            if (row[k] >= 0) key[k] = owner.stable().get(row[k]);
        MORPH_UNROLL_ALL for (i32 k = 0; k < AT_ONCE; k++) all &= row[k] < 0 || good(key[k]);
    }
    return all;
}
template <class O, class L> MORPH_FN bool owns(const O& owner, const L& rows, u64 key) {
    return all_owners(owner, rows, [=](u64 k) { return k == key; });
}
template <class O, class L> MORPH_FN bool unchallenged(const O& owner, const L& rows, u64 key) {
    return all_owners(owner, rows, [=](u64 k) { return k >= key; });
}

// single(row): true for the first item of this launch.  single(row.column): changes the value from 0 to 1.
MORPH_FN bool lock_row(i32* lock, i64 row, i32 launch) {
    return load(lock + row) != launch && fetch(Put(), lock + row, launch) != launch;
}
template <class T> MORPH_FN bool lock_place(T* p) { return load(p) == T(0) && swap_if(p, T(0), T(1)) == T(0); }
