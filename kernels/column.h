// A column: where it begins, and how far apart its rows are.  The layout of a table is nothing but
// these strides.  Col<const T, S> is a column that the unit never writes.

template <class T> struct Reader {
    static MORPH_FN T get(const T* p) { return load(p); }
};
template <class T> struct Reader<const T> {
    static MORPH_FN T get(const T* p) { return load_fixed(p); }
};

template <class T, i64 STRIDE> struct Col {
    typedef Value<T> V;
    u8* base;

    MORPH_FN V* at(i64 row, i64 j = 0) const { return (V*)(base + row * STRIDE) + j; }
    MORPH_FN V get(i64 row, i64 j = 0) const { return Reader<T>::get(at(row, j)); }
    MORPH_FN void set(i64 row, V x) const { store(at(row), x); }
    MORPH_FN void set(i64 row, i64 j, V x) const { store(at(row, j), x); }

    template <i32 N> MORPH_FN Vec<V, N> vec(i64 row) const {
        Vec<V, N> x;
        for (i32 j = 0; j < N; j++) x.v[j] = get(row, j);
        return x;
    }
    template <i32 N> MORPH_FN void set(i64 row, const Vec<V, N>& x) const {
        for (i32 j = 0; j < N; j++) set(row, j, x.v[j]);
    }
    // A new row's values, from the table's fill blob.
    template <i32 N> MORPH_FN void fill(i64 row, const u8* from) const {
        for (i32 j = 0; j < N; j++) set(row, j, load_fixed((const V*)from + j));
    }
};
