// Adjacency: edge ids by point, as compressed sparse rows (CSR).  offset[p] .. offset[p + 1] are p's entries; entry k
// is edge `edge[k]`, or edge k itself where `edge` is null.  During a launch only `rebuild_adjacency` changes it,
// between two steps of a program (schedule/rebuild.h).
// Graphs that batches change have rows with gaps: a row is its begin and size, with spare capacity behind it, and an
// entry also has the other end of its edge.  There are fewer than 2^31 entries.

MORPH_FN i64 row_begin(const LooseRow* row, i64 p) { return load_fixed(&row[p].begin); }
MORPH_FN i64 row_end(const LooseRow* row, i64 p) { return i64(load_fixed(&row[p].begin)) + load_fixed(&row[p].size); }
MORPH_FN i32 degree(const LooseRow* row, i64 p) { return load_fixed(&row[p].size); }

#ifdef MORPH_REBUILDS
template <class T> MORPH_FN T load_index(const T* p) { return load_stable(p); }
#else
template <class T> MORPH_FN T load_index(const T* p) { return load_fixed(p); }
#endif
MORPH_FN i64 row_begin(const i64* offset, i64 p) { return load_index(offset + p); }
MORPH_FN i64 row_end(const i64* offset, i64 p) { return load_index(offset + p + 1); }
MORPH_FN i32 degree(const i64* offset, i64 p) {
    i64 n = row_end(offset, p) - row_begin(offset, p);
    MORPH_ASSUME(n >= 0 && n <= 0x7fffffff);
    return i32(n);
}
// The degree of the i-th point of a random sample.
template <class Offset> MORPH_FN i32 sampled_degree(const Offset* offset, i64 i, i64 points) {
    return points > 0 ? degree(offset, i64(u64(u32(i) * 0x9e3779b1u) * u64(points) >> 32)) : 0;
}
MORPH_FN RowId edge_at(i64 k) {
    MORPH_ASSUME(k >= 0 && (sizeof(RowId) > 4 || k <= 0x7fffffff));
    return RowId(k);
}
MORPH_FN i32 edge_at(const i32* edge, i64 k) { return load_index(edge + k); }

struct Reached {  // an entry of the adjacency: the edge and its other end
    RowId edge;
    i32 end;
};

// The first entry for which `test(edge, end)` holds, or `last`.  A thread of a GPU tests several entries at once, so
// that their loads overlap.
template <class Reach, class Test>
MORPH_FN i64 find_first(i64 first, i64 last, const Reach& reach, const Test& test) {
    if constexpr (TARGET_GPU) {
        constexpr i32 AT_ONCE = 4;
        for (i64 k = first; k < last; k += AT_ONCE) {
            Reached r[AT_ONCE];
            bool hit[AT_ONCE];
            MORPH_UNROLL_ALL for (i32 j = 0; j < AT_ONCE; j++)
                if (k + j < last) r[j] = reach(k + j);
            MORPH_UNROLL_ALL for (i32 j = 0; j < AT_ONCE; j++) hit[j] = k + j < last && test(r[j].edge, r[j].end);
            MORPH_UNROLL_ALL for (i32 j = 0; j < AT_ONCE; j++)
                if (hit[j]) return k + j;
        }
    } else {
        for (i64 k = first; k < last; k++) {
            Reached r = reach(k);
            if (test(r.edge, r.end)) return k;
        }
    }
    return last;
}

// The first edge from x to y, or -1.
template <class C> MORPH_FN RowId find_edge(const i64* offset, const i32* edge, const C& end, i32 x, i32 y) {
    for (i64 k = row_begin(offset, x); k < row_end(offset, x); k++) {
        RowId e = edge ? edge_at(edge, k) : edge_at(k);
        if (end.get(e) == y) return e;
    }
    return -1;
}

MORPH_FN i32 find_edge(const LooseRow* row, const i32* edge, const i32* end, i32 x, i32 y) {
    for (i64 k = row_begin(row, x), last = row_end(row, x); k < last; k++)
        if (edge_at(end, k) == y) return edge_at(edge, k);
    return -1;
}

// A point's out-entries and then its in-entries, as one range.
struct BothDirections {
    i64 out, outs, in, n;
    template <class Rows> MORPH_FN BothDirections(const Rows* out_offset, const Rows* in_offset, i64 p)
        : out(row_begin(out_offset, p)), outs(row_end(out_offset, p) - out),
          in(row_begin(in_offset, p) - outs), n(outs + row_end(in_offset, p) - in - outs) {}
    MORPH_FN bool is_out(i64 j) const { return j < outs; }
    MORPH_FN i64 entry(i64 j) const { return (j < outs ? out : in) + j; }
    // Numbers that are consecutive for a point's entries and determine the point, for threads that share them.
    static MORPH_FN i64 first(i64 p) { return p << 32; }
    static MORPH_FN i64 point(i64 k) { return k >> 32; }
    static MORPH_FN i64 place(i64 k) { return k & 0xffffffff; }
};
