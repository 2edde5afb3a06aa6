// A column: its address and stride.  The layout of a table consists of these strides.  Col<const T, S> is a column that
// the unit never writes; Col<T, S, O> lies at offset O of a record.  A GPU loads columns of one record together, by
// loads of 8 or 16 bytes, which cost as much as a load of 4.

template <Mode MODE, class T> MORPH_FN T read(const T* p) {
    if constexpr (MODE == LIVE) return load(p);
    else if constexpr (MODE == STABLE) return load_stable(p);
    else return load_fixed(p);
}

template <Mode MODE, i32 STRIDE, i32 LOW, i32 HIGH, bool GPU = TARGET_GPU> struct Span;

// Bytes LOW to HIGH of a record, loaded together; records are STRIDE bytes long, a multiple of 8.
template <Mode MODE, i32 STRIDE, i32 LOW, i32 HIGH> struct Span<MODE, STRIDE, LOW, HIGH, true> {
    static constexpr i32 BY_8 = (HIGH + 7) / 8 - LOW / 8, BY_16 = (HIGH + 15) / 16 - LOW / 16;
    static constexpr i32 WIDTH = STRIDE % 16 == 0 && BY_16 < BY_8 ? 16 : 8;
    static constexpr i32 FIRST = LOW / WIDTH * WIDTH, LAST = (HIGH + WIDTH - 1) / WIDTH * WIDTH;
    u32 word[(LAST - FIRST) / 4];

    explicit MORPH_FN Span(const u8* record) {
        MORPH_UNROLL_ALL for (i32 at = 0; at < LAST - FIRST; at += WIDTH) {
            const u8* p = record + FIRST + at;
            u32* w = word + at / 4;
            if constexpr (WIDTH == 16) load_vector<MODE>(p, w[0], w[1], w[2], w[3]);
            else load_vector<MODE>(p, w[0], w[1]);
        }
    }
    template <class V, i32 OFFSET> MORPH_FN V get(i32 j = 0) const {
        i32 at = OFFSET - FIRST + j * i32(sizeof(V));
        u64 bits = word[at / 4] >> at % 4 * 8;
        if constexpr (sizeof(V) == 8) bits |= u64(word[at / 4 + 1]) << 32;
        return from_bits<V>(Bits<V>(bits));
    }
    template <class V, i32 N, i32 OFFSET> MORPH_FN Vec<V, N> vec() const {
        Vec<V, N> x;
        MORPH_UNROLL_ALL for (i32 j = 0; j < N; j++) x.v[j] = get<V, OFFSET>(j);
        return x;
    }
};

template <Mode MODE, i32 STRIDE, i32 LOW, i32 HIGH> struct Span<MODE, STRIDE, LOW, HIGH, false> {
    const u8* record;

    explicit MORPH_FN Span(const u8* record) : record(record) {}
    template <class V, i32 OFFSET> MORPH_FN V get(i32 j = 0) const {
        const V* p = (const V*)(record + OFFSET) + j;
        return read<MODE>(p);
    }
    template <class V, i32 N, i32 OFFSET> MORPH_FN Vec<V, N> vec() const {
        Vec<V, N> x;
        for (i32 j = 0; j < N; j++) x.v[j] = get<V, OFFSET>(j);
        return x;
    }
};

// Bytes LOW to HIGH of a record, multiples of 4, written by as few stores as possible; records are STRIDE bytes long, a
// multiple of 8.
template <i32 STRIDE, i32 LOW, i32 HIGH> struct Pack {
    u32 word[(HIGH - LOW) / 4];

    template <i32 OFFSET, class V> MORPH_FN void put(V x, i32 j = 0) {
        i32 at = (OFFSET - LOW + j * i32(sizeof(V))) / 4;
        word[at] = u32(to_bits(x));
        if constexpr (sizeof(V) == 8) word[at + 1] = u32(to_bits(x) >> 32);
    }
    template <i32 OFFSET, class V, i32 N> MORPH_FN void put(const Vec<V, N>& x) {
        MORPH_UNROLL_ALL for (i32 j = 0; j < N; j++) put<OFFSET>(x.v[j], j);
    }
    template <i32 AT = LOW> MORPH_FN void write(u8* record) const {
        constexpr bool BY_16 = STRIDE % 16 == 0 && AT % 16 == 0 && AT + 16 <= HIGH;
        constexpr i32 N = BY_16 ? 16 : AT % 8 == 0 && AT + 8 <= HIGH ? 8 : 4;
        u32* p = (u32*)(record + AT);
        const u32* w = word + (AT - LOW) / 4;
        store_vector<N>(p, w);
        if constexpr (AT + N < HIGH) write<AT + N>(record);
    }
};

template <class T> constexpr Mode DEFAULT = LIVE;
template <class T> constexpr Mode DEFAULT<const T> = FIXED;

template <class T, i64 STRIDE, i64 OFFSET = 0, Mode MODE = DEFAULT<T>> struct Col {
    typedef Value<T> V;
    u8* base;

    MORPH_FN u8* record(i64 row) const { return base + row * STRIDE - OFFSET; }
    MORPH_FN V* at(i64 row, i64 j = 0) const { return (V*)(base + row * STRIDE) + j; }
    MORPH_FN V get(i64 row, i64 j = 0) const { return read<MODE>(at(row, j)); }
    MORPH_FN NonAtomic<V> nonatomic(i64 row, i64 j = 0) const { return NonAtomic<V>{at(row, j)}; }
    MORPH_FN Col<T, STRIDE, OFFSET, STABLE> stable() const { return {base}; }
    MORPH_FN void set(i64 row, V x) const { store(at(row), x); }
    MORPH_FN void set(i64 row, i64 j, V x) const { store(at(row, j), x); }

    template <i32 N> MORPH_FN Vec<V, N> vec(i64 row) const {
        if constexpr (STRIDE % 8 == 0 && N * sizeof(V) >= 8 && N <= MOST_UNROLLED) {
            Span<MODE, STRIDE, OFFSET, OFFSET + N * sizeof(V)> span(record(row));
            return span.template vec<V, N, OFFSET>();
        }
        Vec<V, N> x;
        MORPH_UNROLL for (i32 j = 0; j < N; j++) x.v[j] = get(row, j);
        return x;
    }
    template <i32 N> MORPH_FN void set(i64 row, const Vec<V, N>& x) const {
        if constexpr (STRIDE % 8 == 0 && N * sizeof(V) >= 8 && sizeof(V) >= 4 && N <= MOST_UNROLLED) {
            Pack<STRIDE, OFFSET, OFFSET + N * i32(sizeof(V))> pack;
            pack.template put<OFFSET>(x);
            return pack.write(record(row));
        }
        MORPH_UNROLL for (i32 j = 0; j < N; j++) set(row, j, x.v[j]);
    }
    // A new row's values, from the table's fill blob.
    template <i32 N> MORPH_FN void fill(i64 row, const u8* from) const {
        for (i32 j = 0; j < N; j++) set(row, j, load_fixed((const V*)from + j));
    }
};
