// single(collection): of all items that want an element, one gets it.
//
// Invariant: the owner of a row is the least key that ever claimed it.  A key is unique, and the keys of
// a newer round are less than all older ones: nothing has to be released.  An item wins if all its
// elements still bear its key and no guarded row bears a lesser one of this round; so no two winners
// share an element, and the item with the least key of all wins: every round makes progress.
// Between claim and check stands a barrier, and one more before the next claims.

MORPH_FN u32 mix32(u32 h) {  // a bijection: different positions stay different
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
        if (rows.v[i] >= 0) fetch_untested(Min(), owner.at(rows.v[i]), key);  // reads nothing back: none waits
}
// Whether the owners of all rows are as they should be.  All are read, whatever the first ones say, and
// on a GPU eight at a time: first their places in the item's memory, then they are under way together.
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

// single(row): the first of this launch.  single(row.column): turns it from 0 to 1.
MORPH_FN bool lock_row(i32* lock, i64 row, i32 launch) {
    return load(lock + row) != launch && fetch(Put(), lock + row, launch) != launch;
}
template <class T> MORPH_FN bool lock_place(T* p) { return load(p) == T(0) && swap_if(p, T(0), T(1)) == T(0); }
