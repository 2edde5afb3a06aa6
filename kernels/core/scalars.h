// The language's scalar types, and the words that hold their bits.
//
// One text serves all targets, and no header is included, so that a kernel compiles in a tenth of a second: these names
// come first, then target_cpu.h or target_cuda.h, then all other headers, which are the same on every target.
// `long long` is 64 bits on all targets; handles are i32, -1 being None.

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

template <bool FIRST, class T, class F> struct Choice { typedef T type; };
template <class T, class F> struct Choice<false, T, F> { typedef F type; };
template <bool FIRST, class T, class F> using Choose = typename Choice<FIRST, T, F>::type;

// How a place is read: other threads may change it now (LIVE), only across a barrier (STABLE), never (FIXED).
enum Mode { LIVE, STABLE, FIXED };

// Operations of atomics.h.  NativeOf says whether the target has one as an instruction for a type, and whether it is
// faster to read first and do nothing if nothing would change.
struct Min;
struct Max;
struct Plus;
struct Minus;
struct And;
struct Or;
struct Xor;
struct Put;
enum Native { BY_SWAP, DIRECT, TESTED };
template <class Op, class T> struct NativeOf { enum { HOW = BY_SWAP }; };
