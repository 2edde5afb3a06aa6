// The target-specific half of the device runtime, for a CUDA GPU: macros, memory, atomics, mathematics, lanes of a
// warp, the barrier of a grid, and the entry of a unit.  target_cpu.h defines the same names.

constexpr bool TARGET_GPU = true;
enum : bool { SERIAL = false, FILTERS_BLOCKS = false };  // no constants: these would be in the PTX
#ifdef MORPH_SINGLE_BLOCK  // a unit for launches of one block, which wait for its instructions
constexpr bool SINGLE_BLOCK = true;
// A program's blocks jump to each other: each jump by the table of a switch waits for its instructions.
#define MORPH_LABEL(N) block_##N:
#define MORPH_GO(N) goto block_##N
#else
constexpr bool SINGLE_BLOCK = false;
#define MORPH_LABEL(N)
#define MORPH_GO(N) break
#endif
constexpr i32 SINGLE_BLOCK_WARPS = 256 / 32;
constexpr bool CONVERTS_TO_LEAST = false;  // whether a float out of range becomes the least integer

#define MORPH_FN __device__ __forceinline__
#define MORPH_CALL static __device__ __noinline__  // large, and called from several places
#define MORPH_OUTLINED __device__ __noinline__
#define MORPH_HOT MORPH_FN
#define MORPH_COLD MORPH_FN
#define MORPH_LOOP MORPH_FN
#define MORPH_SINGLE_THREADED MORPH_FN
#define MORPH_ASSUME(X)
#define MORPH_BODY MORPH_FN
#define MORPH_UNROLL _Pragma("unroll 4")
#define MORPH_UNROLL_ALL _Pragma("unroll")
#define MORPH_UNROLL_NONE _Pragma("unroll 1")
#define MORPH_SHARED __shared__

template <class T> MORPH_FN Bits<T> to_bits(T x);
template <class T> MORPH_FN T from_bits(Bits<T> x);

// --- mathematics and half precision ---------------------------------------------------------------

#define MORPH_LIBRARY(NAME) NAME  // a function of CUDA's mathematical library
MORPH_FN f32 atan2_of(f32 y, f32 x) { return atan2f(y, x); }
MORPH_FN f64 atan2_of(f64 y, f64 x) { return atan2(y, x); }
MORPH_FN f32 float_power(f32 x, f32 y) { return powf(x, y); }
MORPH_FN f64 float_power(f64 x, f64 y) { return pow(x, y); }
MORPH_FN f32 remainder_of(f32 x, f32 y) { return fmodf(x, y); }
MORPH_FN f64 remainder_of(f64 x, f64 y) { return fmod(x, y); }
MORPH_FN i32 popcount(u32 x) { return __popc(x); }
MORPH_FN i32 popcount(u64 x) { return __popcll(x); }
MORPH_FN i32 leading_zeros(u32 x) { return __clz(x); }
MORPH_FN i32 trailing_zeros(u32 x) { return __ffs(x) - 1; }  // x is not 0
MORPH_FN i32 trailing_zeros(u64 x) { return __ffsll(x) - 1; }
MORPH_FN f32 fused(f32 x, f32 y, f32 z) { return __fmaf_rn(x, y, z); }  // x * y + z, rounded once
MORPH_FN f64 exp2_of(f64 x) { return exp2(x); }
MORPH_FN f64 log2_of(f64 x) { return log2(x); }

MORPH_FN u16 to_half(f32 x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
MORPH_FN u16 to_half(f64 x) {
    u16 bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
    return bits;
}
MORPH_FN f32 from_half(u16 bits) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// --- memory ---------------------------------------------------------------------------------------

#ifdef MORPH_SINGLE_BLOCK  // L1 serves its own block
#define MORPH_SCOPE "cta"
#else
#define MORPH_SCOPE "gpu"
#endif
#define MORPH_LOAD(T, BITS, REGISTER)                                                            \
    MORPH_FN T load_word(const T* p) {                                                           \
        REGISTER v;                                                                              \
        asm volatile("ld.relaxed." MORPH_SCOPE ".global." #BITS " %0, [%1];" : MORPH_OUT(v) : "l"(p) : "memory"); \
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
template <class T> MORPH_FN T load_stable(const T* p);
// Of memory that the unit does not write.  A unit for one block may write it by another name, before a barrier.
template <class T> MORPH_FN T load_fixed(const T* p) {
    if constexpr (SINGLE_BLOCK) return load_stable(p);
    else return from_bits<T>(__ldg((const Bits<T>*)p));
}
template <class T> MORPH_FN void store(T* p, Value<T> v) { *p = v; }
template <class T> MORPH_FN void prefetch(const T*) {}  // a prefetch
template <class T> MORPH_FN void prefetch_next(const T*) {}

// Vector loads of two or four 32-bit words, aligned to their size; each word is read as by a load of one word.
template <Mode MODE> MORPH_FN void load_vector(const u8* p, u32& x, u32& y) {
    if constexpr (MODE == LIVE) {
        asm volatile("ld.relaxed." MORPH_SCOPE ".global.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p) : "memory");
    } else {
        uint2 v = MODE == STABLE || SINGLE_BLOCK ? *(const uint2*)p : __ldg((const uint2*)p);
        x = v.x, y = v.y;
    }
}
template <Mode MODE> MORPH_FN void load_vector(const u8* p, u32& x, u32& y, u32& z, u32& w) {
    if constexpr (MODE == LIVE) {
        asm volatile("ld.relaxed." MORPH_SCOPE ".global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(p) : "memory");
    } else {
        uint4 v = MODE == STABLE || SINGLE_BLOCK ? *(const uint4*)p : __ldg((const uint4*)p);
        x = v.x, y = v.y, z = v.z, w = v.w;
    }
}
template <i32 BYTES> MORPH_FN void store_vector(u32* p, const u32* w) {
    if constexpr (BYTES == 16) *(uint4*)p = make_uint4(w[0], w[1], w[2], w[3]);
    else if constexpr (BYTES == 8) *(uint2*)p = make_uint2(w[0], w[1]);
    else *p = w[0];
}

MORPH_FN void acquire() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }  // after relaxed polling
MORPH_FN void publish() { acquire(); }                                       // before a relaxed store
MORPH_FN void full_fence() { __threadfence(); }
MORPH_FN void* allocate(i64) { return nullptr; }  // this and the functions below are for the CPU
MORPH_FN void deallocate(void*) {}
MORPH_FN u64& thread_partial_sum(i32) { return *(u64*)nullptr; }
MORPH_FN f64& thread_float_partial_sum(i32) { return *(f64*)nullptr; }
// The shared memory that the launch gives a block.
MORPH_FN u8* launch_shared() {
    extern __shared__ double launch_memory[];
    return (u8*)launch_memory;
}
MORPH_FN void poll(i64*) {}
MORPH_FN bool step_interrupted() { return false; }
template <class A, class T> MORPH_FN bool queue_interrupted(const A&, const T&) { return false; }
struct Idle {  // of a thread that finds no item in a queue: polls less and less often
    u32 nanoseconds = 64;
    MORPH_FN void wait() {
        __nanosleep(nanoseconds);
        if (nanoseconds < 4096) nanoseconds *= 2;
    }
    MORPH_FN void end() { nanoseconds = 64; }
};
MORPH_FN i32 team_size() { return 1; }
template <class Step> MORPH_FN i64 kept_work() { return 0; }
constexpr i32 LEAST_BATCH = 1, MOST_BATCH = 1;

#ifdef MORPH_PARTS
// Places that threads of several GPUs write, see parts.h.  The memory of another GPU is not cached here.
#define MORPH_LOAD_SYSTEM(T, BITS, OUT, REGISTER)                                                   \
    MORPH_FN T load_system_word(const T* p) {                                                      \
        REGISTER v;                                                                                \
        asm volatile("ld.relaxed.sys.global." #BITS " %0, [%1];" : OUT(v) : "l"(p) : "memory");    \
        return T(v);                                                                               \
    }
MORPH_LOAD_SYSTEM(u8, u8, "=r", u32)
MORPH_LOAD_SYSTEM(u16, u16, "=h", u16)
MORPH_LOAD_SYSTEM(u32, u32, "=r", u32)
MORPH_LOAD_SYSTEM(u64, u64, "=l", u64)
MORPH_FN void store_system(u64* p, u64 x) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}
MORPH_FN u64 acquire_system(const u64* p) {
    u64 x;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
MORPH_FN void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
#endif

// --- atomics --------------------------------------------------------------------------------------

MORPH_FN bool single_threaded() { return false; }
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

#define MORPH_NATIVE(KIND, OP, T, U, NAME)                                              \
    MORPH_FN T native_fetch(OP*, T* p, T v) { return (T)NAME((U*)p, (U)v); }            \
    template <> struct NativeOf<OP, T> { enum { HOW = KIND }; };
#define MORPH_NATIVE_WORD(T, U)                                                         \
    MORPH_NATIVE(DIRECT, Plus, T, U, atomicAdd)                                         \
    MORPH_NATIVE(DIRECT, Put, T, U, atomicExch)                                         \
    MORPH_NATIVE(TESTED, Min, T, T, atomicMin)                                          \
    MORPH_NATIVE(TESTED, Max, T, T, atomicMax)                                          \
    MORPH_NATIVE(TESTED, And, T, T, atomicAnd)                                          \
    MORPH_NATIVE(TESTED, Or, T, T, atomicOr)                                            \
    MORPH_NATIVE(DIRECT, Xor, T, U, atomicXor)                                          \
    MORPH_FN T native_fetch(Minus*, T* p, T v) { return (T)atomicAdd((U*)p, U(0) - (U)v); } \
    template <> struct NativeOf<Minus, T> { enum { HOW = DIRECT }; };
MORPH_NATIVE_WORD(i32, u32)
MORPH_NATIVE_WORD(u32, u32)
MORPH_NATIVE_WORD(i64, u64)
MORPH_NATIVE_WORD(u64, u64)
MORPH_NATIVE(DIRECT, Plus, f32, f32, atomicAdd)
MORPH_NATIVE(DIRECT, Plus, f64, f64, atomicAdd)

MORPH_FN u32 add_release(u32* p, u32 x) {
    u32 v;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(x) : "memory");
    return v;
}
// Addition without a return value.
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

// --- lanes, warps, blocks ---------------------------------------------------------------------------

constexpr u32 ALL_LANES = ~0u;
#if __CUDA_ARCH__ < 800
// Turing has no instructions that reduce over lanes.  `lanes` are any set, the same in each of them.
template <class F> MORPH_FN u32 reduce_lanes(u32 lanes, u32 x, F combine) {
    if (lanes == ALL_LANES) {
        for (i32 by = 16; by; by /= 2) x = combine(x, __shfl_xor_sync(ALL_LANES, x, by));
        return x;
    }
    u32 all = __shfl_sync(lanes, x, __ffs(lanes) - 1);
    for (u32 left = lanes & (lanes - 1); left; left &= left - 1)
        all = combine(all, __shfl_sync(lanes, x, __ffs(left) - 1));
    return all;
}
MORPH_FN u32 __reduce_add_sync(u32 lanes, u32 x) {
    return reduce_lanes(lanes, x, [](u32 a, u32 b) { return a + b; });
}
MORPH_FN u32 __reduce_or_sync(u32 lanes, u32 x) {
    return reduce_lanes(lanes, x, [](u32 a, u32 b) { return a | b; });
}
MORPH_FN i32 __reduce_max_sync(u32 lanes, i32 x) {
    return reduce_lanes(lanes, x, [](u32 a, u32 b) { return i32(a) > i32(b) ? a : b; });
}
#endif
MORPH_FN i32 lane_id() { return threadIdx.x & 31; }
MORPH_FN i32 warp_of_block() { return threadIdx.x / 32; }
MORPH_FN i32 warps_of_block() { return SINGLE_BLOCK ? SINGLE_BLOCK_WARPS : blockDim.x / 32; }
MORPH_FN i32 block_id() { return SINGLE_BLOCK ? 0 : blockIdx.x; }
MORPH_FN i32 block_count() { return SINGLE_BLOCK ? 1 : gridDim.x; }
// Numbers of a block's warps are far apart, so that few items, or adjacent heavy ones, are spread over all blocks.
MORPH_FN i64 warp_id() { return i64(threadIdx.x / 32) * block_count() + block_id(); }
// Whether the active lanes of a warp add with one atomic.  Not in a quick cubin: its functions are called, not inlined,
// so `__activemask()` may have lanes of different calls, whose additions to different counters would be combined.
#ifdef MORPH_QUICK
constexpr bool AGGREGATES = false;
#else
constexpr bool AGGREGATES = true;
#endif
MORPH_FN u32 active_lanes() { return __activemask(); }
MORPH_FN i32 first_lane(u32 lanes) { return __ffs(lanes) - 1; }
MORPH_FN void sync_warp() { __syncwarp(); }
MORPH_FN u32 ballot(u32 lanes, i32 x) { return __ballot_sync(lanes, x); }
MORPH_FN i32 any_lane(i32 x) { return __any_sync(ALL_LANES, x); }
template <class T> MORPH_FN T shuffle(u32 lanes, T x, i32 lane) { return __shfl_sync(lanes, x, lane); }
template <class T> MORPH_FN T shuffle_up(T x, i32 by) { return __shfl_up_sync(ALL_LANES, x, by); }
MORPH_FN u32 add_lanes(u32 lanes, u32 x) { return __reduce_add_sync(lanes, x); }
MORPH_FN u32 or_lanes(u32 lanes, u32 x) { return __reduce_or_sync(lanes, x); }
MORPH_FN i32 max_of_lanes(i32 x) { return __reduce_max_sync(ALL_LANES, x); }
// Forces a value into a register here: the compiler may neither delay nor repeat its load.
MORPH_FN void pin(u32& x) { asm volatile("" : "+r"(x)); }

// --- the barrier of a grid ------------------------------------------------------------------------

constexpr i32 STOP_WORD = 32;         // index in `barrier` of the host's request to stop
constexpr u32 POLL_CYCLES = 1 << 24;  // cycles

template <class T> MORPH_FN i32 barrier_arrivals(const T&) { return block_count(); }
template <class T> MORPH_FN bool is_single(const T&) { return false; }  // whether there is no other thread
template <class T> MORPH_FN bool is_block_leader(const T&) { return threadIdx.x == 0; }  // for its block
MORPH_FN void sync_block() { __syncthreads(); }
MORPH_FN bool any_of_block(bool x) { return __syncthreads_or(x); }
template <class A> MORPH_FN void rewind(const A&) {}
template <class A> MORPH_FN void rewind_sections(const A&, i32) {}
MORPH_FN void start_clocks(i32) {}
// Whether the program ends here: tested between its blocks.
template <class T> MORPH_FN bool stops(const T& t) { return !SINGLE_BLOCK && t.stop; }
template <class A, class R> MORPH_FN bool changes_team(const A&, R&) { return false; }
template <class A, class R, class Step> MORPH_FN bool step_changes_team(const A&, R&, const Step&, i64, i64) { return false; }
template <class... Steps, class A, class R, class F> MORPH_FN bool sections_change_team(const A&, R&, const F&) { return false; }
template <class A, class R, class Step> MORPH_FN i64 work(const A&, const R&, const Step&, i64, i64) { return 0; }
// Whether a program's state is loaded: it is that of the launch before, unless this launch continues that one.
template <class A> MORPH_FN bool continues(const A& a) { return a.replay; }
template <class A> MORPH_FN i64* host_report(const A& a) { return a.report; }
// Writes a word of the host's memory behind all words written before.
MORPH_FN void announce(i64* word, i64 x) {
    __threadfence_system();
    *(volatile i64*)word = x;
}

// Whether block 0 polls the host's request now.  Called by its first thread; `last_poll` is uninitialised, so the first
// poll is at once or some milliseconds later.
MORPH_FN bool time_to_poll() {
    __shared__ u32 last_poll;
    u32 now = u32(clock());
    if (now - last_poll < POLL_CYCLES) return false;
    last_poll = now;
    return true;
}
MORPH_FN bool asked_to_stop(const u32* barrier) { return *(volatile const u32*)(barrier + STOP_WORD) != 0; }
#ifdef MORPH_PARTS
// Waits at a crossing (parts.h) until the lines of all parts are at least `number`; returns false if the launch is to stop.
// The loads of some lines are in flight at once.
constexpr i32 PARTS_AT_ONCE = 4;
template <class A> MORPH_FN bool await_parts(const A& a, const u64* lines, i32 parts, u64 number) {
    for (i32 first = 0; first < parts; first += PARTS_AT_ONCE) {
        for (u32 spins = 1;; spins++) {
            u64 seen[PARTS_AT_ONCE], least = number;
            MORPH_UNROLL_ALL for (i32 k = 0; k < PARTS_AT_ONCE; k++)
                seen[k] = first + k < parts ? load_system_word(lines + (first + k) * MAILBOX_LINE) : number;
            MORPH_UNROLL_ALL for (i32 k = 0; k < PARTS_AT_ONCE; k++) least = seen[k] < least ? seen[k] : least;
            if (least == number) break;
            if ((spins & 255) == 0 && asked_to_stop(a.barrier)) return false;
        }
    }
    return true;
}
template <class A> MORPH_FN void wake_part(const A&, u64*) {}
#endif
// Called by the first thread of block 0 after its release from a barrier.
template <class T> MORPH_FN void pass_on_stop(u32* barrier, u32 sense) {
    if (sense & T::RELEASED && !(sense & T::STOP) && asked_to_stop(barrier)) add_release(barrier, T::STOP);
}
// Whether all blocks see the request, by the word's value at this block's arrival.
template <class T> MORPH_FN bool sees_stop(const T& t) {
    return (t.sense & (T::RELEASED | T::STOP)) == (T::RELEASED | T::STOP);
}

// Arrives at the barrier.  Returns true to the last thread to arrive, the master, which runs alone until the release.
template <class A, class T> MORPH_FN bool arrive(const A& a, T& t) {
    flush_partial_sums(a);
    sync_block();
    t.master = t.broadcast_value = false;
    if (SINGLE_BLOCK) return t.master = is_block_leader(t);
    if (!is_block_leader(t)) return false;
    if (barrier_arrivals(t) == 1) {
        t.sense = time_to_poll() && asked_to_stop(a.barrier) ? T::RELEASED | T::STOP : 0;
        return t.master = true;
    }
    t.sense = add_release(a.barrier, T::ARRIVAL);
    return t.master = (t.sense & ~(T::RELEASED | T::BROADCAST | T::STOP)) == T::ARRIVAL * u32(barrier_arrivals(t) - 1);
}
template <class T> MORPH_FN u32 await_release(u32* barrier, u32 sense) {
    u32 now;
    while (!(((now = load(barrier)) ^ sense) & T::RELEASED)) {}
    acquire();
    return now;
}
// These two are not inlined, since a unit has many barriers; an argument `a` would have its members loaded again behind
// each call.  Called by the first thread of a block, if there are several.
// The second half of a barrier after `arrive`; returns the broadcast value.
template <class T> MORPH_OUTLINED bool release_blocks(u32* barrier, u32 sense, bool master, bool value) {
    bool polls = block_id() == 0 && time_to_poll();
    if (master) {
        u32 released = ((sense & T::RELEASED) ^ T::RELEASED) | (sense & T::STOP);
        add_release(barrier, (value ? released | T::BROADCAST : released) - (sense + T::ARRIVAL));
    } else {
        value = await_release<T>(barrier, sense) & T::BROADCAST;
    }
    if (polls) pass_on_stop<T>(barrier, sense);
    return value;
}
// A barrier without work for the master; returns the word at the block's arrival.
template <class T> MORPH_OUTLINED u32 sync_grid(u32* barrier) {
    // the last arrival flips the sign, by a carry through the count; BROADCAST stays for late readers
    u32 release = T::RELEASED - T::ARRIVAL * u32(block_count() - 1);
    u32 sense = add_release(barrier, block_id() == 0 ? release : T::ARRIVAL);
    bool polls = block_id() == 0 && time_to_poll();
    await_release<T>(barrier, sense);
    if (polls) pass_on_stop<T>(barrier, sense);
    return sense;
}
// After a crossing (parts.h), at which the master broadcasts whether it has failed, all threads may have to stop.
template <bool CROSSED = false, class A, class T> MORPH_FN void release_barrier(const A& a, T& t) {
    if constexpr (SINGLE_BLOCK) {
        t.broadcast_value = any_of_block(t.broadcast_value);
        t.master = t.has_read = t.flag_taken = false;
        return;
    }
    if (barrier_arrivals(t) > 1 && is_block_leader(t)) t.broadcast_value = release_blocks<T>(a.barrier, t.sense, t.master, t.broadcast_value);
    bool stop = sees_stop(t);
#ifdef MORPH_PARTS
    if constexpr (CROSSED) stop |= is_block_leader(t) && t.broadcast_value && load(a.parts + PARTS_STOPPED);
#endif
    if (any_of_block(t.broadcast_value | stop)) {
        t.stop |= any_of_block(stop);
        t.broadcast_value = any_of_block(t.broadcast_value);
    }
    t.master = t.flag_taken = false, t.has_read = 0;
}
// A barrier without work for the master.
template <class A, class T> MORPH_FN void barrier(const A& a, T& t) {
    flush_partial_sums(a);
    sync_block();
    if constexpr (SINGLE_BLOCK) {
        t.has_read = t.flag_taken = t.broadcast_value = false;
        return;
    }
    if (barrier_arrivals(t) > 1 && is_block_leader(t)) {
        t.sense = sync_grid<T>(a.barrier);
    } else if (is_block_leader(t) && barrier_arrivals(t) == 1) {
        t.sense = time_to_poll() && asked_to_stop(a.barrier) ? T::RELEASED | T::STOP : 0;
    }
    t.flag_taken = t.broadcast_value = false, t.has_read = 0;
    t.stop |= any_of_block(sees_stop(t));
}

// The number of a warp among those that run the present section.  Sections begin at different warps, so that small
// ones run side by side.
template <class T> MORPH_FN i64 warp_of_section(const T& t, i64 warp, i64 warps) {
    if constexpr (T::SECTIONS > 1) return (warp + warps * t.section / T::SECTIONS) % warps;
    return warp;
}
// The items first + thread, first + thread + threads, ...
struct Share {
    i64 begin, end;
    i32 step;
    bool fresh = true;
    template <class A, class T> MORPH_FN Share(const A&, const T& t, i64 first, i64 last, i64 = 0)
        : begin(first + t.thread), end(last), step(t.threads) {
        if constexpr (T::SECTIONS > 1) begin = first + 32 * warp_of_section(t, t.thread / 32, step / 32) + lane_id();
    }
    MORPH_FN bool next() {
        bool was = fresh;
        fresh = false;
        return was;
    }
};

// --- reservations ---------------------------------------------------------------------------------

typedef i32 Reservation;  // rows that an item has reserved

struct SlotCaches;  // of all lists of a unit
template <class Move> MORPH_FN void close_gaps(i64*, const Move&) {}
struct SlotCache {  // of a CPU's thread
    bool all;
    MORPH_FN bool reserve(i64*, i32, Reservation&) { return false; }
    MORPH_FN bool reserve_from_all(i64, Reservation&) const { return false; }
    MORPH_FN void return_unused(i64*, i32) {}
};
MORPH_FN SlotCache* cache_of(const Reservation&) { return nullptr; }

// Adds the counts (not negative) of all active lanes with one atomic (in a single block or a quick cubin with one for
// each lane), or subtracts them; returns to each lane the value
// before its own part.  In two steps, so that several additions can overlap.
#if defined(MORPH_SINGLE_BLOCK) || defined(MORPH_QUICK)  // each lane adds by itself
struct AggregatedAdd {
    i64 old;
    MORPH_FN AggregatedAdd(i64* p, i32 count, i32 sign) {
        if constexpr (!SINGLE_BLOCK) old = native_fetch((Plus*)nullptr, p, i64(count) * sign);
        else asm volatile("atom.relaxed.cta.global.add.u64 %0, [%1], %2;"
                          : "=l"(old) : "l"(p), "l"(i64(count) * sign) : "memory");
    }
    MORPH_FN i64 value() const { return old; }
    MORPH_FN i32 row() const { return i32(old); }
};
#else
struct AggregatedAdd {
    u32 mask;
    i32 leader;
    i64 before, old;
    MORPH_FN AggregatedAdd(i64* p, i32 count, i32 sign) : mask(active_lanes()), before(0), old(0) {
        i32 lane = threadIdx.x & 31;
        leader = __ffs(mask) - 1;
        i64 total = 0;
        u32 any = __reduce_or_sync(mask, u32(count));
        for (i32 bit = 0; any >> bit; bit++) {
            u32 lanes = __ballot_sync(mask, count >> bit & 1);
            before += i64(__popc(lanes & ((1u << lane) - 1))) << bit;
            total += i64(__popc(lanes)) << bit;
        }
        before *= sign;
        if (lane == leader) old = native_fetch((Plus*)nullptr, p, total * sign);
    }
    MORPH_FN i64 value() const { return __shfl_sync(mask, old, leader) + before; }
    MORPH_FN i32 row() const { return __shfl_sync(mask, i32(old), leader) + i32(before); }
};
#endif
// The same without the value.
MORPH_FN void add_up(i64* p, i32 count) {
    if constexpr (!AGGREGATES) {
        native_fetch((Plus*)nullptr, p, i64(count));
        return;
    }
    u32 mask = active_lanes();
    u32 low = __reduce_add_sync(mask, u32(count) & 0xffff), high = __reduce_add_sync(mask, u32(count) >> 16);
    if ((threadIdx.x & 31) == __ffs(mask) - 1) native_fetch((Plus*)nullptr, p, i64(low) + (i64(high) << 16));
}
// `n` consecutive slots at the end of a store; requests to several stores can overlap.
struct Slots {
    AggregatedAdd taken;
    MORPH_FN Slots(i64* meta, i32 n, i32& reservation) : taken(meta + COUNT, n, 1) { reservation -= n; }
    MORPH_FN i32 first() const { return taken.row(); }
};

// --- entry ----------------------------------------------------------------------------------------

// Returns true to one thread of the last block to end, which sees the writes of all others.
template <class A> MORPH_FN bool last_out(const A& a) {
    __syncthreads();
    if (threadIdx.x) return false;
    if (SINGLE_BLOCK) return true;
    u32 old = add_release((u32*)a.cursor, 1);
    if (old != u32(block_count() - 1)) return false;
    store(a.cursor, 0);
    return true;
}

#define MORPH_ENTRY(NAME)                                                                     \
    extern "C" __global__ void __launch_bounds__(256, SINGLE_BLOCK ? 1 : BLOCKS) NAME(const __grid_constant__ Args a) { \
        Run t(a, block_id() * blockDim.x + threadIdx.x, block_count() * (32 * warps_of_block()));              \
        clear_partial_sums(a);                                                                         \
        if (PREPARES) {                                                                       \
            if (arrive(a, t)) prepare(a), store(batch_cursor(a, 0), 0);                       \
            release_barrier(a, t);                                                                     \
        }                                                                                     \
        run(a, t);                                                                            \
        flush_partial_sums(a);                                                                        \
        if (PUBLISHES && last_out(a)) publish_counters(a, t);                                             \
    }
