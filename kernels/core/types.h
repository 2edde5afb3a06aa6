// The language's types, and what the two targets call things.
//
// One text serves both targets: nothing here includes a header, so that a kernel compiles in a tenth
// of a second.  `long long` is 64 bits on both; handles are i32, -1 being None.

#ifdef __CUDACC__
#define MORPH_FN __device__ __forceinline__
#define MORPH_CALL static __device__ __noinline__  // large, and called from several places
#define MORPH_HOT MORPH_FN
#define MORPH_COLD MORPH_FN
#define MORPH_LOOP MORPH_FN
#define MORPH_BODY MORPH_FN
#define MORPH_UNROLL _Pragma("unroll 4")
#define MORPH_UNROLL_ALL _Pragma("unroll")
#define MORPH_UNROLL_NONE _Pragma("unroll 1")
#else
#define MORPH_FN inline
#define MORPH_HOT inline __attribute__((always_inline))  // so that an item and its room are registers
#define MORPH_LOOP static __attribute__((noinline))  // a function of its own, with its own registers
#define MORPH_BODY static inline  // of a kernel: part of its loop, if that is the only one
#define MORPH_COLD static __attribute__((noinline, cold))  // takes no address of such
#define MORPH_CALL static inline __attribute__((unused))
#define MORPH_UNROLL
#define MORPH_UNROLL_ALL
#define MORPH_EXPORT extern "C" __attribute__((visibility("default")))
#pragma GCC visibility push(hidden)  // two kernels in one process never see each other's functions
#endif

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

template <i32 BYTES> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef u64 type; };
template <class T> using Bits = typename Word<sizeof(T)>::type;

template <class T> struct Same { typedef T type; };
template <class T> struct Same<const T> { typedef T type; };
template <class T> using Value = typename Same<T>::type;  // T without const, and never deduced

template <class T> MORPH_FN Bits<T> to_bits(T x) { return *(Bits<T>*)&x; }
template <class T> MORPH_FN T from_bits(Bits<T> x) { return *(T*)&x; }
template <class T> MORPH_FN bool same_bits(T x, T y) { return to_bits(x) == to_bits(y); }

template <class T, i32 N> struct Vec {
    T v[N];
    MORPH_FN T& operator[](i64 i) { return v[i]; }
    MORPH_FN const T& operator[](i64 i) const { return v[i]; }
    // Value `i`, whatever it is: on a GPU without an address, so that the vector stays in registers.
    MORPH_FN T pick(i64 i) const {
#ifdef __CUDACC__
        T x = v[0];
        MORPH_UNROLL_ALL for (i32 k = 1; k < N; k++) x = i == k ? v[k] : x;
        return x;
#else
        return v[i];
#endif
    }
};

// Consecutive new rows of a table.
struct Rows {
    i32 first, n;
    MORPH_FN i32 operator[](i64 i) const { return first + i32(i); }
};

MORPH_FN f64 infinity() { return from_bits<f64>(0x7ff0000000000000ull); }
MORPH_FN f64 not_a_number() { return from_bits<f64>(0x7ff8000000000000ull); }
