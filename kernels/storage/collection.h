// A local collection: at most N values of an item.
//
// Invariant: n <= N.  An item whose collection would overflow fails before it has changed anything; the host compiles
// the unit with larger collections and re-executes the item.

template <class T, i32 N, class Memory> struct LocalValues {
    i32 n = 0;
    mutable Memory v;

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

// Values apart from the item's other locals: values that are indexed by a variable cannot be in registers, nor could
// other members of a struct with them.
template <class T, i32 N> struct Local : LocalValues<T, N, T*> {
    explicit MORPH_FN Local(T (&memory)[N]) { this->v = memory; }
};

// Values inside the collection, in units whose items are executed by warps.  There a GPU calls functions with
// references to collections, and would load the address of the values before each access.
#ifdef __CUDACC__
template <class T, i32 N> struct InlineLocal : LocalValues<T, N, T[N]> {
    explicit MORPH_FN InlineLocal(T (&)[N]) {}
};
#else
template <class T, i32 N> using InlineLocal = Local<T, N>;
#endif

template <class T, i32 N, class Memory>
MORPH_FN bool contains(const LocalValues<T, N, Memory>& x, Value<T> value) {
    for (i32 i = 0; i < x.n; i++)
        if (x.v[i] == value) return true;
    return false;
}
template <class T, i32 N> MORPH_FN bool contains(const Vec<T, N>& x, Value<T> value) {
    for (i32 i = 0; i < N; i++)
        if (x.v[i] == value) return true;
    return false;
}
