// A local collection: at most N values in the item's memory, apart from its other locals: values that are indexed by
// a variable cannot be in registers, nor could other members of a struct with them.
//
// Invariant: n <= N.  An item whose collection would overflow fails before it has changed anything; the host compiles
// the unit with larger collections and re-executes the item.

template <class T, i32 N> struct Local {
    i32 n;
    T* v;

    explicit MORPH_FN Local(T (&memory)[N]) : n(0), v(memory) {}
    MORPH_FN T& operator[](i64 i) const { return v[i]; }
    MORPH_FN bool add(T x, ItemBase& it, i64* status) {
        if (n < N && !injected(status, it)) v[n++] = x;
        else it.failed = -1;
        return !it.failed;
    }
    MORPH_FN T pop() { return v[--n]; }
    MORPH_FN bool fits(i64 more, ItemBase& it) const {
        if (n + more > N) it.failed = -1;
        return !it.failed;
    }
};

// In units whose items are executed by warps.  There a GPU calls functions with references to collections, and
// would load the address of the values before each access.
#ifdef __CUDACC__
template <class T, i32 N> struct Inside {
    i32 n;
    mutable T v[N];

    explicit MORPH_FN Inside(T (&)[N]) : n(0) {}
    MORPH_FN T& operator[](i64 i) const { return v[i]; }
    MORPH_FN bool add(T x, ItemBase& it, i64* status) {
        if (n < N && !injected(status, it)) v[n++] = x;
        else it.failed = -1;
        return !it.failed;
    }
    MORPH_FN T pop() { return v[--n]; }
    MORPH_FN bool fits(i64 more, ItemBase& it) const {
        if (n + more > N) it.failed = -1;
        return !it.failed;
    }
};
template <class T, i32 N> MORPH_FN bool contains(const Inside<T, N>& x, Value<T> value) {
    for (i32 i = 0; i < x.n; i++)
        if (x.v[i] == value) return true;
    return false;
}
#else
template <class T, i32 N> using Inside = Local<T, N>;
#endif

template <class T, i32 N> MORPH_FN bool contains(const Local<T, N>& x, Value<T> value) {
    for (i32 i = 0; i < x.n; i++)
        if (x.v[i] == value) return true;
    return false;
}
template <class T, i32 N> MORPH_FN bool contains(const Vec<T, N>& x, Value<T> value) {
    for (i32 i = 0; i < N; i++)
        if (x.v[i] == value) return true;
    return false;
}
