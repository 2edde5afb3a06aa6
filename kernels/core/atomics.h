// Shared memory: relaxed loads and stores, compare-and-swap on any type, read-modify-write.
//
// What others may change meanwhile is read through `load`: served by L2, in the order written.  What
// changes only on the other side of a barrier, through `load_settled`: a plain load, which may be served
// by L1 or from a register up to the next barrier, whose fence drops stale lines.  What the unit never
// changes, through `load_fixed`.
// A read-modify-write that would change nothing touches nothing: it reads first, which is two to three
// times as fast as the atomic.

enum Mode { LIVE, SETTLED, FIXED };

template <class T> MORPH_FN T load_settled(const T* p) { return from_bits<T>(*(const Bits<T>*)p); }

#ifdef __CUDACC__

#define MORPH_LOAD(T, BITS, REGISTER)                                                            \
    MORPH_FN T load_word(const T* p) {                                                           \
        REGISTER v;                                                                              \
        asm volatile("ld.relaxed.gpu.global." #BITS " %0, [%1];" : MORPH_OUT(v) : "l"(p) : "memory"); \
        return T(v);                                                                             \
    }
#define MORPH_OUT(v) "=r"(v)
MORPH_LOAD(u8, u8, u32)
MORPH_LOAD(u32, u32, u32)
#undef MORPH_OUT
#define MORPH_OUT(v) "=h"(v)
MORPH_LOAD(u16, u16, u16)
#undef MORPH_OUT
#define MORPH_OUT(v) "=l"(v)
MORPH_LOAD(u64, u64, u64)

template <class T> MORPH_FN T load(const T* p) { return from_bits<T>(load_word((const Bits<T>*)p)); }
template <class T> MORPH_FN T load_fixed(const T* p) { return from_bits<T>(__ldg((const Bits<T>*)p)); }

// Two or four words, aligned to their size; each is read as one word would be.
template <Mode MODE> MORPH_FN void load_words(const u8* p, u32& x, u32& y) {
    if constexpr (MODE == LIVE) {
        asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p) : "memory");
    } else {
        uint2 v = MODE == SETTLED ? *(const uint2*)p : __ldg((const uint2*)p);
        x = v.x, y = v.y;
    }
}
template <Mode MODE> MORPH_FN void load_words(const u8* p, u32& x, u32& y, u32& z, u32& w) {
    if constexpr (MODE == LIVE) {
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(p) : "memory");
    } else {
        uint4 v = MODE == SETTLED ? *(const uint4*)p : __ldg((const uint4*)p);
        x = v.x, y = v.y, z = v.z, w = v.w;
    }
}
template <class T> MORPH_FN void store(T* p, Value<T> v) { *p = v; }

MORPH_FN u32 swap_word(u32* p, u32 old, u32 v) { return atomicCAS(p, old, v); }
MORPH_FN u64 swap_word(u64* p, u64 old, u64 v) { return atomicCAS(p, old, v); }
MORPH_FN u16 swap_word(u16* p, u16 old, u16 v) { return atomicCAS(p, old, v); }
MORPH_FN u8 swap_word(u8* p, u8 old, u8 v) {  // by the aligned word that holds the byte
    u32* word = (u32*)((u64)p & ~u64(3));
    u32 shift = 8 * (u32)((u64)p & 3);
    for (u32 seen = load(word);;) {
        u8 byte = u8(seen >> shift);
        if (byte != old) return byte;
        u32 was = atomicCAS(word, seen, (seen & ~(255u << shift)) | (u32)v << shift);
        if (was == seen) return old;
        seen = was;
    }
}

#else

// Whether several threads run.  One alone needs no locked instruction, each of which costs as much as
// twenty others.  It changes only between teams, when one thread runs.
static bool crowd = false;

template <class T> MORPH_FN T load(const T* p) {
    return from_bits<T>(__atomic_load_n((const Bits<T>*)p, __ATOMIC_RELAXED));
}
template <class T> MORPH_FN T load_fixed(const T* p) { return *p; }
template <class T> MORPH_FN void store(T* p, Value<T> v) {
    __atomic_store_n((Bits<T>*)p, to_bits(v), __ATOMIC_RELAXED);
}
template <class W> MORPH_FN W swap_word(W* p, W old, W v) {
    if (!crowd) {
        W seen = *p;
        if (seen == old) *p = v;
        return seen;
    }
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

#endif

// What will soon be read.
template <class T> MORPH_FN void fetch_ahead(const T* p) {
#ifndef __CUDACC__
    __builtin_prefetch(p);
#endif
}

// Puts v at p if `old` is there, bit for bit; gives what was there.
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

// Whether an operation changes what is there.
template <class Op, class T> MORPH_FN bool moves(Op, T old, T v) { return !same_bits(Op::of(old, v), old); }
template <class T> MORPH_FN bool moves(Min, T old, T v) { return v < old; }
template <class T> MORPH_FN bool moves(Max, T old, T v) { return old < v; }

// A place that one CPU thread has for its own while it runs.
template <class T> struct Own {
    T* p;
};
template <class Op, class T> MORPH_FN T fetch(Op, Own<T> own, T v) {
    T old = *own.p;
    if (moves(Op(), old, v)) *own.p = Op::of(old, v);
    return old;
}

// Any operation on any type.
template <class Op, class T> MORPH_FN T fetch(Op, T* p, T v) {
#ifndef __CUDACC__
    if (!crowd) return fetch(Op(), Own<T>{p}, v);
#endif
    for (T old = load(p);;) {
        T next = Op::of(old, v);
        if (same_bits(next, old)) return old;
        T seen = swap_if(p, old, next);
        if (same_bits(seen, old)) return old;
        old = seen;
    }
}

#ifdef __CUDACC__
#define MORPH_NATIVE(OP, T, U, NAME) \
    MORPH_FN T fetch(OP, T* p, T v) { return (T)NAME((U*)p, (U)v); }
#define MORPH_NATIVE_TESTED(OP, T, NAME)                            \
    MORPH_FN T fetch(OP, T* p, T v) {                               \
        T old = load(p);                                            \
        return OP::of(old, v) == old ? old : NAME(p, v);            \
    }
#define MORPH_NATIVE_WORD(T, U)          \
    MORPH_NATIVE(Plus, T, U, atomicAdd)  \
    MORPH_NATIVE(Put, T, U, atomicExch)  \
    MORPH_NATIVE_TESTED(Min, T, atomicMin) \
    MORPH_NATIVE_TESTED(Max, T, atomicMax) \
    MORPH_NATIVE_TESTED(And, T, atomicAnd) \
    MORPH_NATIVE_TESTED(Or, T, atomicOr) \
    MORPH_NATIVE(Xor, T, U, atomicXor)   \
    MORPH_FN T fetch(Minus, T* p, T v) { return (T)atomicAdd((U*)p, U(0) - (U)v); }
MORPH_NATIVE_WORD(i32, u32)
MORPH_NATIVE_WORD(u32, u32)
MORPH_NATIVE_WORD(i64, u64)
MORPH_NATIVE_WORD(u64, u64)
MORPH_NATIVE(Plus, f32, f32, atomicAdd)
MORPH_NATIVE(Plus, f64, f64, atomicAdd)
#else
template <class T> MORPH_FN T add_word(T* p, T v) {
    if (crowd) return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
    T old = *p;
    *p = old + v;
    return old;
}
#define MORPH_NATIVE_WORD(T)                                               \
    MORPH_FN T fetch(Plus, T* p, T v) { return add_word(p, v); }           \
    MORPH_FN T fetch(Minus, T* p, T v) { return add_word(p, T(T(0) - v)); }
MORPH_NATIVE_WORD(i32)
MORPH_NATIVE_WORD(u32)
MORPH_NATIVE_WORD(i64)
MORPH_NATIVE_WORD(u64)
#endif

// A flag is only ever raised here, so whoever sees it raised need not write.
MORPH_FN void raise_flag(i32* flag) {
    if (!load(flag)) store(flag, 1);
}
// What another item has done is seen some time, at the latest behind the next barrier.
MORPH_FN bool is_raised(const i32* flag) { return load(flag) != 0; }

#define MORPH_ATOMIC_AT(NAME, OP, PLACE)                                                    \
    template <class T> MORPH_FN T NAME(PLACE p, Value<T> v) { return fetch(OP(), p, T(v)); } \
    template <class T> MORPH_FN T NAME(PLACE p, Value<T> v, i32* flag) {                    \
        T old = fetch(OP(), p, T(v));                                                       \
        if (OP::of(old, T(v)) != old) raise_flag(flag);                                     \
        return old;                                                                         \
    }
#define MORPH_ATOMIC(NAME, OP) MORPH_ATOMIC_AT(NAME, OP, T*) MORPH_ATOMIC_AT(NAME, OP, Own<T>)
MORPH_ATOMIC(atomic_min, Min)
MORPH_ATOMIC(atomic_max, Max)
MORPH_ATOMIC(atomic_add, Plus)
MORPH_ATOMIC(atomic_sub, Minus)
MORPH_ATOMIC(atomic_and, And)
MORPH_ATOMIC(atomic_or, Or)
MORPH_ATOMIC(atomic_xor, Xor)
MORPH_ATOMIC(atomic_exch, Put)

// Lowers or raises a place that nothing does anything else to in this step, and nobody asks what was there.
// What L1 has, however old, tells whether it is of any use: all may want the same few places.
template <class Op, class T> MORPH_FN void move_to(Op op, T* p, Value<T> v) {
#ifdef __CUDACC__
    T old = load_settled(p);
    if (same_bits(Op::of(old, T(v)), old)) return;
#endif
    fetch(op, p, T(v));
}
template <class Op, class T> MORPH_FN void move_to(Op op, Own<T> p, Value<T> v) { fetch(op, p, T(v)); }

// What a warp (on a CPU: a thread) has to add to the places that all add to, until it comes to a barrier, or to
// its end.  A unit numbers these places; `Args` has the `TOTALS` of them, and `add_total(i, sum)` adds to the i-th.
#ifdef __CUDACC__
struct Total {
    u32 low, high;  // there is no addition of 64 bits in shared memory
};
MORPH_FN Total* totals() {
    __shared__ Total sums[256 / 32][MOST_TOTALS];
    return sums[threadIdx.x / 32];
}
template <class A> MORPH_FN void no_totals(const A&) {  // by all lanes
    if constexpr (A::TOTALS > 0) {
        if ((threadIdx.x & 31) < A::TOTALS) totals()[threadIdx.x & 31] = {0, 0};
        __syncwarp();
    }
}
template <class A> MORPH_FN void add_totals(const A& a) {  // by all lanes
    if constexpr (A::TOTALS > 0) {
        __syncwarp();
        i32 i = threadIdx.x & 31;
        Total sum = i < A::TOTALS ? totals()[i] : Total{0, 0};
        if (sum.low | sum.high) a.add_total(i, u64(sum.high) << 32 | sum.low), totals()[i] = {0, 0};
        __syncwarp();
    }
}
#else
static __thread u64 totals[MOST_TOTALS];
template <class A> MORPH_FN void add_totals(const A& a) {
    if constexpr (A::TOTALS > 0) {
        for (i32 i = 0; i < A::TOTALS; i++)
            if (totals[i]) a.add_total(i, totals[i]), totals[i] = 0;
    }
}
#endif

// Adds to one place for all, and nobody asks what was there: if it is the WHICH-th of the unit, to what is added
// at the end.  A GPU's warp adds once, what its lanes do.
template <i32 WHICH, class T> MORPH_FN void add_for_all(T* p, Value<T> v) {
#ifdef __CUDACC__
    u32 mask = __activemask();
    u64 x = u64(v), sum = __reduce_add_sync(mask, u32(x) & 0x3ffffff);
    if (__reduce_or_sync(mask, u32(x >> 26) | u32(x >> 58))) {
        sum += u64(__reduce_add_sync(mask, u32(x >> 26) & 0x3ffffff)) << 26;
        sum += u64(__reduce_add_sync(mask, u32(x >> 52))) << 52;
    }
    if ((threadIdx.x & 31) != __ffs(mask) - 1) return;
    if constexpr (WHICH < MOST_TOTALS) {
        Total& total = totals()[WHICH];
        u32 low = u32(sum), high = u32(sum >> 32) + (atomicAdd(&total.low, low) > ~low);
        if (high) atomicAdd(&total.high, high);
    } else fetch(Plus(), p, T(sum));
#else
    if constexpr (WHICH < MOST_TOTALS) totals[WHICH] += u64(T(v));
    else fetch(Plus(), p, T(v));
#endif
}
template <i32 WHICH, class T> MORPH_FN void add_for_all(Own<T> p, Value<T> v) { fetch(Plus(), p, T(v)); }

// Addition that nobody waits for.
template <class T> MORPH_FN void add_to(T* p, Value<T> v) { atomic_add(p, v); }
template <class T> MORPH_FN void add_to(Own<T> p, Value<T> v) { fetch(Plus(), p, T(v)); }
#ifdef __CUDACC__
#define MORPH_RED(T, BITS, REGISTER)                                                                   \
    MORPH_FN void add_to(T* p, T v) {                                                                  \
        asm volatile("red.relaxed.gpu.global.add." #BITS " [%0], %1;" ::"l"(p), REGISTER(v) : "memory"); \
    }
MORPH_RED(i32, u32, "r")
MORPH_RED(u32, u32, "r")
MORPH_RED(i64, u64, "l")
MORPH_RED(u64, u64, "l")
MORPH_RED(f32, f32, "f")
MORPH_RED(f64, f64, "d")
#endif

template <class T> MORPH_FN T swap_if(Own<T> own, T old, T v) {
    T seen = *own.p;
    if (same_bits(seen, old)) *own.p = v;
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
MORPH_CAS_AT(Own<T>)
