// Shared memory: relaxed loads and stores, compare-and-swap on any type, read-modify-write.
//
// `load` reads a place that other threads may write in the same step: a relaxed load, served by L2.  `load_stable` reads
// a place that changes only on the other side of a barrier: a plain load, which may be served by L1 or from a register
// up to the next barrier, whose fence invalidates stale lines.  `load_fixed` reads a place that the unit never writes.
// A read-modify-write tests first whether it has an effect, and writes nothing if it has none: a load is two to three
// times as fast as the atomic.

template <class T> MORPH_FN T load_stable(const T* p) { return from_bits<T>(*(const Bits<T>*)p); }

// Compare-and-swap by bits; returns the old value.
template <class T> MORPH_FN T swap_if(T* p, T old, T v) {
    return from_bits<T>(swap_word((Bits<T>*)p, to_bits(old), to_bits(v)));
}

struct Min { template <class T> static MORPH_FN T of(T x, T v) { return v < x ? v : x; } };
struct Max { template <class T> static MORPH_FN T of(T x, T v) { return x < v ? v : x; } };
struct Plus { template <class T> static MORPH_FN T of(T x, T v) { return T(x + v); } };
struct Minus { template <class T> static MORPH_FN T of(T x, T v) { return T(x - v); } };
struct And { template <class T> static MORPH_FN T of(T x, T v) { return T(x & v); } };
struct Or { template <class T> static MORPH_FN T of(T x, T v) { return T(x | v); } };
struct Xor { template <class T> static MORPH_FN T of(T x, T v) { return T(x ^ v); } };
struct Put { template <class T> static MORPH_FN T of(T, T v) { return v; } };

// Whether an operation has an effect.
template <class Op, class T> MORPH_FN bool has_effect(Op, T old, T v) { return !same_bits(Op::of(old, v), old); }
template <class T> MORPH_FN bool has_effect(Min, T old, T v) { return v < old; }
template <class T> MORPH_FN bool has_effect(Max, T old, T v) { return old < v; }

// A place that only one CPU thread accesses while it runs: non-atomic access.
template <class T> struct NonAtomic {
    T* p;
};
template <class Op, class T> MORPH_FN T fetch(Op, NonAtomic<T> place, T v) {
    T old = *place.p;
    if (has_effect(Op(), old, v)) *place.p = Op::of(old, v);
    return old;
}

template <class T> MORPH_FN T fetch(Min, NonAtomic<T> place, T v) {
    T old = *place.p;
    if (v < old) *place.p = v;
    return old;
}
template <class T> MORPH_FN T fetch(Max, NonAtomic<T> place, T v) {
    T old = *place.p;
    if (old < v) *place.p = v;
    return old;
}

// Any operation on any type; returns the old value.
template <class Op, class T> MORPH_FN T fetch(Op, T* p, Value<T> v) {
    if constexpr (NativeOf<Op, T>::HOW == DIRECT) {
        return native_fetch((Op*)nullptr, p, v);
    } else if constexpr (NativeOf<Op, T>::HOW == TESTED) {
        T old = load(p);
        return Op::of(old, v) == old ? old : native_fetch((Op*)nullptr, p, v);
    } else {
        if (single_threaded()) return fetch(Op(), NonAtomic<T>{p}, v);
        for (T old = load(p);;) {
            T next = Op::of(old, v);
            if (same_bits(next, old)) return old;
            T seen = swap_if(p, old, next);
            if (same_bits(seen, old)) return old;
            old = seen;
        }
    }
}
// The same, without testing first whether the operation has an effect.
template <class Op, class T> MORPH_FN T fetch_untested(Op, T* p, Value<T> v) {
    if constexpr (NativeOf<Op, T>::HOW != BY_SWAP) return native_fetch((Op*)nullptr, p, v);
    else return fetch(Op(), p, v);
}

// Sets a flag; threads only set flags during a step, so a set flag needs no write.
MORPH_FN void raise_flag(i32* flag) {
    if (!load(flag)) store(flag, 1);
}
// A flag that another item has set is seen after the next barrier at the latest.
MORPH_FN bool is_raised(const i32* flag) { return load(flag) != 0; }

#define MORPH_ATOMIC_AT(NAME, OP, PLACE)                                                    \
    template <class T> MORPH_FN T NAME(PLACE p, Value<T> v) { return fetch(OP(), p, T(v)); } \
    template <class T> MORPH_FN T NAME(PLACE p, Value<T> v, i32* flag) {                    \
        T old = fetch(OP(), p, T(v));                                                       \
        if (OP::of(old, T(v)) != old) raise_flag(flag);                                     \
        return old;                                                                         \
    }
#define MORPH_ATOMIC(NAME, OP) MORPH_ATOMIC_AT(NAME, OP, T*) MORPH_ATOMIC_AT(NAME, OP, NonAtomic<T>)
MORPH_ATOMIC(atomic_min, Min)
MORPH_ATOMIC(atomic_max, Max)
MORPH_ATOMIC(atomic_add, Plus)
MORPH_ATOMIC(atomic_sub, Minus)
MORPH_ATOMIC(atomic_and, And)
MORPH_ATOMIC(atomic_or, Or)
MORPH_ATOMIC(atomic_xor, Xor)
MORPH_ATOMIC(atomic_exch, Put)

// Atomic min/max without a return value, at a place that only this operation changes in this step.  A stale value of
// L1 suffices to test whether the operation has an effect, which spares contended places.
template <class Op, class T> MORPH_FN void update_monotone(Op op, T* p, Value<T> v) {
    if constexpr (TARGET_GPU) {
        T old = load_stable(p);
        if (same_bits(Op::of(old, T(v)), old)) return;
    }
    fetch(op, p, T(v));
}
template <class Op, class T> MORPH_FN void update_monotone(Op op, NonAtomic<T> p, Value<T> v) { fetch(op, p, T(v)); }

// Partial sums of a warp (on a CPU: a thread) for the places to which all items add, until the next barrier or the end;
// a launch of one block has none, as every barrier would test them.
// A unit numbers these places; `Args` has their number `TOTALS`, and `add_total(i, sum)` adds to the i-th place.
struct PartialSum {
    u32 low, high;  // a GPU's shared memory has no fast 64-bit addition
};
MORPH_FN PartialSum* partial_sums() {  // of a warp
    MORPH_SHARED PartialSum sums[256 / 32][MOST_TOTALS];
    return sums[warp_of_block()];
}
// Partial sums of floats are those of a thread on a GPU, too: shared memory has no fast addition of floats.  `Args` has
// their number `FLOAT_TOTALS`, if there are any.
template <class T> using Void = void;
template <class A, class = void> constexpr i32 FLOAT_TOTALS_OF = 0;
template <class A> constexpr i32 FLOAT_TOTALS_OF<A, Void<decltype(A::FLOAT_TOTALS)>> = A::FLOAT_TOTALS;
template <i32 N> MORPH_FN f64& float_partial_sum(i32 which) {
    if constexpr (!TARGET_GPU) return thread_float_partial_sum(which);
    MORPH_SHARED f64 sums[N][256];
    return sums[which][warp_of_block() * 32 + lane_id()];
}
// On a GPU one warp adds up each total of its block: additions to one place are executed one after another.
template <class A> MORPH_FN void flush_float_partial_sums(const A& a) {
    constexpr i32 N = FLOAT_TOTALS_OF<A>;
    if constexpr (N > 0 && TARGET_GPU) {
        sync_block();
        for (i32 i = warp_of_block(); i < N; i += warps_of_block()) {
            f64 sum = 0, *sums = &float_partial_sum<N>(i) - warp_of_block() * 32;
            for (i32 k = 0; k < 32 * warps_of_block(); k += 32) sum += sums[k], sums[k] = 0;
            for (i32 by = 16; by; by /= 2) sum += shuffle(ALL_LANES, sum, lane_id() ^ by);
            if (lane_id() == 0 && sum != 0) a.add_float_total(i, sum);
        }
    } else if constexpr (N > 0) {
        for (i32 i = 0; i < N; i++)
            if (f64& sum = float_partial_sum<N>(i); sum != 0) a.add_float_total(i, sum), sum = 0;
    }
}
template <class A> MORPH_FN void clear_partial_sums(const A&) {  // by all lanes
    if constexpr (A::TOTALS > 0 && !SINGLE_BLOCK) {
        if (lane_id() < A::TOTALS) partial_sums()[lane_id()] = {0, 0};
        sync_warp();
    }
    constexpr i32 N = FLOAT_TOTALS_OF<A>;
    if constexpr (N > 0)
        for (i32 i = 0; i < N; i++) float_partial_sum<N>(i) = 0;
}
template <class A> MORPH_FN void flush_each_partial_sum(const A& a) {
    constexpr bool ANY = A::TOTALS > 0 && !SINGLE_BLOCK;
    flush_float_partial_sums(a);
    if constexpr (ANY && TARGET_GPU) {
        sync_warp();
        i32 i = lane_id();
        PartialSum sum = i < A::TOTALS ? partial_sums()[i] : PartialSum{0, 0};
        if (sum.low | sum.high) a.add_total(i, u64(sum.high) << 32 | sum.low), partial_sums()[i] = {0, 0};
        sync_warp();
    } else if constexpr (ANY) {
        for (i32 i = 0; i < A::TOTALS; i++)
            if (u64& sum = thread_partial_sum(i); sum) a.add_total(i, sum), sum = 0;
    }
}
template <class A> MORPH_OUTLINED void call_flush_each_partial_sum(const A& a) { flush_each_partial_sum(a); }
// By all threads of a block, before its threads wait for each other.  As a program has many barriers, many totals are
// added up by a function, which is not inlined, although members of `a` are loaded again behind calls that have `a`.
constexpr i32 MANY_TOTALS = 3;
template <class A> MORPH_FN void flush_partial_sums(const A& a) {
    if constexpr (A::TOTALS + FLOAT_TOTALS_OF<A> < MANY_TOTALS) flush_each_partial_sum(a);
    else call_flush_each_partial_sum(a);
}

// Addition without a return value to a place to which all items add: to the partial sum, if the place is the WHICH-th
// of the unit's totals.  The lanes of a GPU's warp add together.
template <i32 WHICH, class T> MORPH_FN void add_to_total(T* p, Value<T> v) {
    if constexpr (!TARGET_GPU) {
        if constexpr (WHICH < MOST_TOTALS) thread_partial_sum(WHICH) += u64(T(v));
        else fetch(Plus(), p, T(v));
        return;
    }
    u64 x = u64(v), sum = x;
    if constexpr (AGGREGATES) {
        u32 mask = active_lanes();
        sum = add_lanes(mask, u32(x) & 0x3ffffff);
        if (or_lanes(mask, u32(x >> 26) | u32(x >> 58))) {
            sum += u64(add_lanes(mask, u32(x >> 26) & 0x3ffffff)) << 26;
            sum += u64(add_lanes(mask, u32(x >> 52))) << 52;
        }
        if (lane_id() != first_lane(mask)) return;
    }
    if constexpr (WHICH < MOST_TOTALS && !SINGLE_BLOCK) {
        PartialSum& total = partial_sums()[WHICH];
        u32 low = u32(sum), high = u32(sum >> 32) + (fetch(Plus(), &total.low, low) > ~low);
        if (high) fetch(Plus(), &total.high, high);
    } else fetch(Plus(), p, T(sum));
}
template <i32 WHICH, class T> MORPH_FN void add_to_total(NonAtomic<T> p, Value<T> v) { fetch(Plus(), p, T(v)); }
// The same for the WHICH-th of N totals that are floats.
template <i32 WHICH, i32 N, class T> MORPH_FN void add_to_float_total(T*, Value<T> v) { float_partial_sum<N>(WHICH) += v; }
template <i32 WHICH, i32 N, class T> MORPH_FN void add_to_float_total(NonAtomic<T> p, Value<T> v) {
    fetch(Plus(), p, T(v));
}

// Addition without a return value.
template <class T> MORPH_FN void add_to(T* p, Value<T> v) { atomic_add(p, v); }
template <class T> MORPH_FN void add_to(NonAtomic<T> p, Value<T> v) { fetch(Plus(), p, T(v)); }

template <class T> MORPH_FN T swap_if(NonAtomic<T> place, T old, T v) {
    T seen = *place.p;
    if (same_bits(seen, old)) *place.p = v;
    return seen;
}
#define MORPH_CAS_AT(PLACE)                                                                                      \
    template <class T> MORPH_FN T atomic_cas(PLACE p, Value<T> old, Value<T> v) { return swap_if(p, T(old), T(v)); } \
    template <class T> MORPH_FN T atomic_cas(PLACE p, Value<T> old, Value<T> v, i32* flag) {                     \
        T seen = swap_if(p, T(old), T(v));                                                                       \
        if (same_bits(seen, T(old)) && v != old) raise_flag(flag);                                               \
        return seen;                                                                                             \
    }
MORPH_CAS_AT(T*)
MORPH_CAS_AT(NonAtomic<T>)
