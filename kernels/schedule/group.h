// Group execution: the threads of a GPU's warp or block execute an item together; see passes/group_execution.py.
//
// A `Step` of a kernel with shared arrays has
//     GROUP                  how many threads execute an item; 1: the first thread of a block alone
//     OWN_ARRAYS             whether the arrays are local to a thread: then each thread executes an item
//     run_group(a, it, g)    the kernel for each thread of the group `g`; only where GROUP > 1
// Invariant: all threads of a group reach the same barriers (`sync`) in the same order.
//
// On a CPU an item runs on one thread, and its arrays are the thread's own.

#ifdef __CUDACC__
#define MORPH_ARRAY __shared__
// The same array with its address in a register; otherwise each access computes it by a slow instruction.
template <class T> MORPH_FN T& pinned(T& array) {
    u32 address = u32(__cvta_generic_to_shared(&array));
    pin(address);
    return *(T*)__cvta_shared_to_generic(address);
}
#else
#define MORPH_ARRAY
template <class T> MORPH_FN T& pinned(T& array) { return array; }
#endif

template <class T, i32 N> struct Shared {
    static constexpr i32 n = N;
    T v[N];

    MORPH_FN T& operator[](i64 i) { return v[i]; }
    MORPH_FN const T& operator[](i64 i) const { return v[i]; }
    MORPH_FN void clear() {  // by one thread
        for (i32 i = 0; i < N; i++) v[i] = 0;
    }
    template <class G> MORPH_FN void clear(const G& g) {  // by the threads of a group
        for (i32 i = g.thread(); i < N; i += G::THREADS) v[i] = 0;
    }
};

// Whether other threads may change an element at the same time.
template <class T> MORPH_FN bool is_shared(const T& place) {
#ifdef __CUDACC__
    return __isShared(&place);
#else
    return false;
#endif
}
// Changes an element of a shared array; returns its old value.
template <class Op, class T> MORPH_FN T change_element(Op, T& place, Value<T> x) {
    if (is_shared(place)) return fetch_untested(Op(), &place, x);
    return fetch(Op(), NonAtomic<T>{&place}, T(x));
}
// Shared memory has no fast 64-bit addition, so the halves are added one after the other.  If several
// threads add, none may use the result.
template <class T> MORPH_FN T change_element(Plus, T& place, Value<T> x) {
    if constexpr (sizeof(T) == 8) {
        if (is_shared(place)) {
            u32* half = (u32*)&place;
            u32 low = fetch_untested(Plus(), half, u32(x)), carry = low > ~u32(x), high = u32(u64(x) >> 32) + carry;
            if (high) return T(u64(fetch_untested(Plus(), half + 1, high)) << 32 | low);
            return T(u64(half[1]) << 32 | low);
        }
    } else if (is_shared(place)) return fetch_untested(Plus(), &place, x);
    return fetch(Plus(), NonAtomic<T>{&place}, T(x));
}
struct PutIf {};
template <class T> MORPH_FN T change_element(PutIf, T& place, Value<T> old, Value<T> x) {
    if (!is_shared(place)) return swap_if(NonAtomic<T>{&place}, T(old), T(x));
    T seen = *(volatile T*)&place;  // most swaps fail, and a load takes less time
    return same_bits(seen, T(old)) ? swap_if(&place, T(old), T(x)) : seen;
}

#ifdef MORPH_CHECKED
template <class T, i32 N, class I> MORPH_FN T check_item(const At<I>& at, const Shared<T, N>& x, i64 i) {
    return has_index(at, i, N) ? x[i] : T();
}
template <class T, i32 N, class I> MORPH_FN void check_put(const At<I>& at, Shared<T, N>& x, i64 i, T value) {
    if (has_index(at, i, N)) x[i] = value;
}
template <class T, i32 N, class I> MORPH_FN T& check_element(const At<I>& at, Shared<T, N>& x, i64 i) {
    return x[has_index(at, i, N) ? i : 0];  // the item has failed; any element of its own array will do
}
#endif

MORPH_FN u64 range_size(i64 begin, i64 end) { return begin < end ? u64(end) - u64(begin) : 0; }
MORPH_FN u32 range_size(i32 begin, i32 end) { return begin < end ? u32(end) - u32(begin) : 0; }

constexpr i32 BLOCK_THREADS = 256;
constexpr i32 SUBWARP_LANES = 8;

// `SIZE` adjacent threads of a block, in subwarps of `WIDTH` adjacent lanes of a warp.
template <i32 SIZE, i32 WIDTH> struct Group {
    static constexpr i32 THREADS = SIZE, LANES = WIDTH, SUBWARPS = SIZE / WIDTH, COUNT = BLOCK_THREADS / SIZE;

    static MORPH_FN i32 number() { return COUNT == 1 ? 0 : warp_of_block() * 32 / SIZE; }
    static MORPH_FN i32 thread() { return (warp_of_block() * 32 + lane_id()) % SIZE; }
    static MORPH_FN i32 subwarp() { return thread() / WIDTH; }
    static MORPH_FN i32 lane() { return lane_id() % WIDTH; }
    static MORPH_FN void sync() {
        if constexpr (SIZE == 32) sync_warp();
        else sync_block();
    }
    // Broadcasts a condition of the group's first thread; a barrier.
    static MORPH_FN bool broadcast(bool x) {
        if constexpr (SIZE == 32) {
            sync_warp();
            return any_lane(lane_id() == 0 && x);
        }
        return any_of_block(thread() == 0 && x);
    }
    // Reduces values of the lanes of a subwarp.
    template <class T, class F> static MORPH_FN T reduce_lanes(T x, const F& combine) {
        u32 lanes = WIDTH == 32 ? ALL_LANES : ((u32(1) << WIDTH % 32) - 1) << lane_id() / WIDTH * WIDTH;
        MORPH_UNROLL_ALL for (i32 by = WIDTH / 2; by; by /= 2) x = combine(x, shuffle(lanes, x, lane_id() ^ by));
        return x;
    }
    // Reduces values of all threads of the group.
    template <class T, class F> static MORPH_FN T reduce_threads(T x, const F& combine) {
        MORPH_UNROLL_ALL for (i32 by = 16; by; by /= 2) x = combine(x, shuffle(ALL_LANES, x, lane_id() ^ by));
        if constexpr (SIZE == 32) return x;
        MORPH_SHARED T parts[SIZE / 32];
        sync();  // all threads have read `parts` of an earlier reduction
        if (lane_id() == 0) parts[warp_of_block()] = x;
        sync();
        x = parts[0];
        MORPH_UNROLL_ALL for (i32 i = 1; i < SIZE / 32; i++) x = combine(x, parts[i]);
        return x;
    }
};

template <class A, class R, class Step>
MORPH_FN void each_by_gpu_groups(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    if constexpr (Step::GROUP == 1 && Step::OWN_ARRAYS) {
        each(a, t, s, first, last);
    } else if constexpr (Step::GROUP == 1) {
        for (i64 i = first + block_id(); i < last; i += block_count()) {
            if (warp_of_block() != 0 || lane_id() != 0) continue;
            I it(a, t, i);
            if (!open(a, t, s, it)) continue;
            s.run(a, it);
            end_item(a, it);
        }
    } else {
        typedef Group<Step::GROUP, SUBWARP_LANES> G;
        i64 groups = i64(block_count()) * G::COUNT;
        for (i64 i = first + i64(G::number()) * block_count() + block_id(); i < last; i += groups) {
            I it(a, t, i);
            if (!G::broadcast(s.open(a, it))) continue;
            s.find(a, it);
            s.run_group(a, it, G());
        }
    }
}

template <class A, class R, class Step>
MORPH_FN void each_by_groups(const A& a, R& t, const Step& s, i64 first, i64 last) {
    if constexpr (TARGET_GPU) each_by_gpu_groups(a, t, s, first, last);
    else each(a, t, s, first, last);
}
