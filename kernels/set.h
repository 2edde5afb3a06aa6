// Union-find that any number of threads use at once.
//
// Invariant: parent[x] <= x, and it only falls; a root is its own parent.  So there are no cycles, and
// the representative is the smallest id.  Halving paths by plain stores is safe: a stale grandparent
// is still an ancestor.
// Source: S. V. Jayanti, R. E. Tarjan, "A randomized concurrent algorithm for disjoint set union",
//         PODC 2016, with ids in place of random ranks.

MORPH_FN i32 set_find(i32* parent, i32 x) {
    for (;;) {
        i32 p = load(parent + x);
        if (p == x) return x;
        i32 above = load(parent + p);
        if (above == p) return p;
        store(parent + x, above);
        x = above;
    }
}

MORPH_FN bool set_union(i32* parent, i32 x, i32 y) {
    for (;;) {
        x = set_find(parent, x), y = set_find(parent, y);
        if (x == y) return false;
        i32 low = x < y ? x : y, high = x < y ? y : x;
        if (swap_if(parent + high, high, low) == high) return true;
    }
}
