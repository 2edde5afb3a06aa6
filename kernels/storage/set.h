// Concurrent union-find.
//
// Invariant: parent[x] <= x, and parents only decrease; a root is its own parent.  So there are no cycles, and the
// representative is the smallest id.  Path halving by plain stores is safe: a stale grandparent is still an ancestor.
// Source: S. V. Jayanti, R. E. Tarjan, "A randomized concurrent algorithm for disjoint set union",
//         PODC 2016, with ids in place of random ranks.

template <Mode MODE> MORPH_FN i32 parent_of(const i32* parent, i32 x) {
    // only path halving writes: stale values of L1 suffice
    if constexpr (TARGET_GPU && MODE == STABLE) return load_stable(parent + x);
    else return load(parent + x);
}

// STABLE: no thread unites sets in this step.
template <Mode MODE> MORPH_FN i32 set_find(i32* parent, i32 x) {
    for (;;) {
        i32 p = parent_of<MODE>(parent, x);
        if (p == x) return x;
        i32 above = parent_of<MODE>(parent, p);
        if (above == p) return p;
        store(parent + x, above);
        x = above;
    }
}

MORPH_FN bool set_union(i32* parent, i32 x, i32 y) {
    for (;;) {
        x = set_find<LIVE>(parent, x), y = set_find<LIVE>(parent, y);
        if (x == y) return false;
        i32 low = x < y ? x : y, high = x < y ? y : x;
        if (swap_if(parent + high, high, low) == high) return true;
    }
}
