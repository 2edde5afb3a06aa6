// Bits of values, vectors, and rows of tables.

template <class T> MORPH_FN Bits<T> to_bits(T x) { return *(Bits<T>*)&x; }
template <class T> MORPH_FN T from_bits(Bits<T> x) { return *(T*)&x; }
template <class T> MORPH_FN bool same_bits(T x, T y) { return to_bits(x) == to_bits(y); }

constexpr i32 MOST_UNROLLED = 16;  // elements; code for longer vectors has loops: ptxas took a minute for 256

template <class T, i32 N> struct Vec {
    T v[N];
    MORPH_FN T& operator[](i64 i) { return v[i]; }
    MORPH_FN const T& operator[](i64 i) const { return v[i]; }
    // Value `i`, a variable: on a GPU by selection, without an address, so that the vector stays in registers.
    MORPH_FN T pick(i64 i) const {
        if constexpr (TARGET_GPU) {
            T x = v[0];
            MORPH_UNROLL_ALL for (i32 k = 1; k < N; k++) x = i == k ? v[k] : x;
            return x;
        }
        return v[i];
    }
};

#ifdef MORPH_WIDE  // a table has 2^31 rows or more
typedef i64 RowId;
#else
typedef i32 RowId;
#endif

MORPH_FN i32 narrow_slot(i64 i) {  // a slot of a list
    MORPH_ASSUME(i >= 0 && i <= 0x7fffffff);
    return i32(i);
}

// Consecutive new rows of a table.
struct Rows {
    i32 first, n;
    MORPH_FN i32 operator[](i64 i) const { return first + i32(i); }
};

MORPH_FN f64 infinity() { return from_bits<f64>(0x7ff0000000000000ull); }
MORPH_FN f64 not_a_number() { return from_bits<f64>(0x7ff8000000000000ull); }
