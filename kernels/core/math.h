// Operators whose meaning in Python and NumPy differs from that in C++.
//
// Integers: `//` and `%` round down, and give 0 for a divisor 0; a shift by the width or more equals repeated shifts by
// one bit.  Floats: as numpy.floor_divide and numpy.remainder.

// Integers wrap around: unsigned arithmetic, since the overflow of signed integers is undefined in C++.
template <i32 BYTES> struct Wrapping { typedef u32 type; };
template <> struct Wrapping<8> { typedef u64 type; };
template <class T> using Wraps = typename Wrapping<sizeof(T)>::type;
template <class T> MORPH_FN T wrap_add(T x, Value<T> y) { return T(Wraps<T>(x) + Wraps<T>(y)); }
template <class T> MORPH_FN T wrap_sub(T x, Value<T> y) { return T(Wraps<T>(x) - Wraps<T>(y)); }
template <class T> MORPH_FN T wrap_mul(T x, Value<T> y) { return T(Wraps<T>(x) * Wraps<T>(y)); }

template <class T> MORPH_FN constexpr bool is_float() { return T(0.5) != T(0); }
template <> MORPH_FN constexpr bool is_float<f16>() { return true; }

// Functions of the device's library; those of f16 are computed in f32.
#define MORPH_MATH(NAME)                                                \
    MORPH_FN f32 NAME##_of(f32 x) { return MORPH_LIBRARY(NAME##f)(x); } \
    MORPH_FN f64 NAME##_of(f64 x) { return MORPH_LIBRARY(NAME)(x); }    \
    MORPH_FN f16 NAME##_of(f16 x) { return f16(NAME##_of(f32(x))); }
MORPH_MATH(sqrt)
MORPH_MATH(exp)
MORPH_MATH(log)
MORPH_MATH(floor)
MORPH_MATH(ceil)
MORPH_MATH(rint)
MORPH_MATH(sin)
MORPH_MATH(cos)
MORPH_MATH(tan)

// Of f32, exp2 and log2 are sums and products that IEEE 754 defines, so all targets give the same bits;
// within 1 ulp.  Minimax polynomials of (2^x - 1) / x and log2(1 + x) / x.  Below 2^-126 exp2 gives 0.
MORPH_FN f32 exp2_of(f32 x) {
    f32 y = x >= -126.f ? x < 128.f ? x : 0.f : 0.f;  // without branches, which would diverge on a GPU
    f32 whole = floor_of(y + 0.5f), f = y - whole, p = 0.00015353362f;
    p = fused(p, f, 0.00133988739f);
    p = fused(p, f, 0.00961843692f);
    p = fused(p, f, 0.0555033237f);
    p = fused(p, f, 0.240226477f);
    p = fused(p, f, 0.693147182f);
    u32 bits = to_bits(fused(p, f, 1.f));
    f32 power = from_bits<f32>(bits + (u32(i32(whole)) << 23));
    return x >= -126.f ? x < 128.f ? power : from_bits<f32>(0x7f800000u) : x < -126.f ? 0.f : x;
}
MORPH_FN f32 log2_of(f32 x) {
    u32 bits = to_bits(x);
    i32 more = 0;
    if (bits - 0x00800000u >= 0x7f000000u) {  // not a normal positive number
        if (x == 0.f) return from_bits<f32>(0xff800000u);
        if (!(x > 0.f)) return from_bits<f32>(0x7fc00000u);
        if (bits >= 0x7f800000u) return x;
        bits = to_bits(x * 8388608.f), more = 23;
    }
    bits -= 0x3f3504f3u;  // sqrt(1/2)
    i32 whole = i32(bits) >> 23;
    f32 f = from_bits<f32>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.f, p = 0.125837058f;
    p = fused(p, f, -0.207269758f);
    p = fused(p, f, 0.215715602f);
    p = fused(p, f, -0.238944814f);
    p = fused(p, f, 0.287916243f);
    p = fused(p, f, -0.360703677f);
    p = fused(p, f, 0.480910629f);
    p = fused(p, f, -0.721347332f);
    p = fused(p, f, 1.44269502f);
    return fused(p, f, f32(whole - more));
}
MORPH_FN f16 exp2_of(f16 x) { return f16(exp2_of(f32(x))); }
MORPH_FN f16 log2_of(f16 x) { return f16(log2_of(f32(x))); }

// The sign bit of a float of any size.
template <class T> MORPH_FN bool sign_of(T x) { return to_bits(x) >> (8 * sizeof(T) - 1); }
template <class T> MORPH_FN T signed_zero(bool negative) { return negative ? T(-0.0) : T(0.0); }

// floor(x / y) and the remainder with the sign of y, both from one exact remainder.
template <class T> struct Division {
    T quotient, modulo;
};

template <class T> MORPH_FN Division<T> divide(T x, T y) {
    T m = remainder_of(x, y), q = (x - m) / y;
    if (y == T(0)) return {x / y, m};
    if (m != T(0)) {
        if ((y < T(0)) != (m < T(0))) m += y, q -= T(1);
    } else {
        m = signed_zero<T>(sign_of(y));
    }
    if (q == T(0)) return {signed_zero<T>(sign_of(x / y)), m};
    T f = floor_of(q);
    return {q - f > T(0.5) ? f + T(1) : f, m};
}

template <class T> MORPH_FN T floor_div(T x, T y) {
    if constexpr (is_float<T>()) {
        return divide(x, y).quotient;
    } else {
        if (y == T(0)) return T(0);
        if (y == T(-1) && T(-1) < T(0)) return wrap_sub(T(0), x);  // also if x is the smallest integer
        return T(x / y - (x % y != 0 && (x < T(0)) != (y < T(0))));
    }
}
template <class T> MORPH_FN T floor_mod(T x, T y) {
    if constexpr (is_float<T>()) {
        return divide(x, y).modulo;
    } else {
        if (y == T(0) || (y == T(-1) && T(-1) < T(0))) return T(0);
        T m = T(x % y);
        return m != 0 && (x < T(0)) != (y < T(0)) ? T(m + y) : m;
    }
}
template <> MORPH_FN f16 floor_div(f16 x, f16 y) { return f16(divide<f32>(x, y).quotient); }
template <> MORPH_FN f16 floor_mod(f16 x, f16 y) { return f16(divide<f32>(x, y).modulo); }

template <class T> MORPH_FN T shift_left(T x, T n) {
    return u64(n) < 8 * sizeof(T) ? T(Bits<T>(x) << n) : T(0);
}
template <class T> MORPH_FN T shift_right(T x, T n) {
    return u64(n) < 8 * sizeof(T) ? T(x >> n) : x < T(0) ? T(-1) : T(0);
}

// Converts a float to an integer: truncates towards zero, saturates, and converts NaN to 0.
template <class T, class F> MORPH_FN T to_int(F x) {
    constexpr bool SIGNED = T(-1) < T(0);
    constexpr i32 BITS = 8 * sizeof(T) - SIGNED;
    constexpr T MOST = SIGNED ? T(~(Bits<T>(1) << (8 * sizeof(T) - 1))) : T(-1);
    constexpr F PAST = F(u64(1) << (BITS - 1)) * F(2), LOW = SIGNED ? -PAST : F(0);
    if constexpr (TARGET_GPU && sizeof(T) == 4 && sizeof(F) == 4) {
        return T(x);  // the instruction has this behaviour
    } else if constexpr (TARGET_GPU && sizeof(T) >= 4) {
        return x == x ? T(x) : T(0);
    } else if constexpr (CONVERTS_TO_LEAST && SIGNED && sizeof(T) >= 4) {
        T found = T(x);
        if (__builtin_expect(found == T(~MOST), false)) {  // integer operations, so that loops are vectorised
            Bits<F> bits = to_bits(x);
            bool nan = Bits<F>(bits << 1) > Bits<F>(to_bits(F(infinity())) << 1);
            found = nan ? T(0) : bits >> (8 * sizeof(F) - 1) ? found : MOST;
        }
        return found;
    }
    F inside = x > LOW ? x : LOW;
    T found = T(inside < PAST ? inside : F(0));
    found = x >= PAST ? MOST : found;
    return x == x ? found : T(0);
}
template <class T> MORPH_FN T to_int(f16 x) { return to_int<T>(f32(x)); }

// The next value of a range, saturated: after the last value the sum may exceed i64.
template <i64 STEP> MORPH_FN i64 range_next(i64 k) {
    constexpr i64 MOST = 0x7fffffffffffffffll, END = STEP > 0 ? MOST : -MOST - 1;
    constexpr i64 LAST = END - STEP;
    return (STEP > 0 ? k > LAST : k < LAST) ? END : k + STEP;
}

template <class T> MORPH_FN T sum_of(T x, T y) {
    if constexpr (is_float<T>()) return x + y;
    else return wrap_add(x, y);
}
template <class T> MORPH_FN T min_of(T x, T y) { return x < y || x != x ? x : y; }
template <class T> MORPH_FN T max_of(T x, T y) { return x > y || x != x ? x : y; }
template <class T> MORPH_FN T abs_of(T x) {
    if constexpr (is_float<T>()) return from_bits<T>(to_bits(x) & ~(Bits<T>(1) << (8 * sizeof(T) - 1)));
    else return x < T(0) ? wrap_sub(T(0), x) : x;
}
// The e with 2^e <= |x| < 2^(e + 1), from the exponent's bits: 0 and subnormal numbers have the smallest e.
template <class T> MORPH_FN i32 exponent_of(T x) {
    constexpr i32 FRACTION = sizeof(T) == 8 ? 52 : sizeof(T) == 4 ? 23 : 10;
    constexpr i32 MOST = (1 << (8 * sizeof(T) - 1 - FRACTION)) - 1;
    return (i32(to_bits(x) >> FRACTION) & MOST) - MOST / 2;
}
template <class T> MORPH_FN i32 popcount_of(T x) {
    if constexpr (sizeof(T) == 8) return popcount(u64(x));
    else return popcount(u32(Bits<T>(x)));
}
template <class T> MORPH_FN i32 ctz_of(T x) {  // for 0 the number of bits, like clz
    if (x == T(0)) return 8 * sizeof(T);
    if constexpr (sizeof(T) == 8) return trailing_zeros(u64(x));
    else return trailing_zeros(u32(Bits<T>(x)));
}
template <class T> MORPH_FN i32 clz_of(T x) {
    if constexpr (sizeof(T) < 8) return leading_zeros(u32(Bits<T>(x))) - i32(32 - 8 * sizeof(T));
    else return u64(x) >> 32 ? leading_zeros(u32(u64(x) >> 32)) : 32 + leading_zeros(u32(x));
}
// The sum, saturated to the range of the type.
template <class T> MORPH_FN T sat_add_of(T x, T y) {
    T sum = wrap_add(x, y);
    if constexpr (T(-1) < T(0)) {
        constexpr T LEAST = T(Bits<T>(1) << (8 * sizeof(T) - 1));
        return T((x ^ sum) & (y ^ sum)) < T(0) ? x < T(0) ? LEAST : T(~LEAST) : sum;
    } else {
        return sum < x ? T(-1) : sum;
    }
}
MORPH_FN f16 atan2_of(f16 y, f16 x) { return f16(atan2_of(f32(y), f32(x))); }
MORPH_FN f16 float_power(f16 x, f16 y) { return f16(float_power(f32(x), f32(y))); }
// x ** y.  For integers it wraps; with a negative exponent it is 0, except for the bases 1 and -1.
template <class T> MORPH_FN T pow_of(T x, T y) {
    if constexpr (is_float<T>()) {
        return float_power(x, y);
    } else {
        if (y < T(0)) return x == T(1) || x == T(-1) ? (y & 1 ? x : T(1)) : T(0);
        T power = T(1);
        for (; y != T(0); y = T(y >> 1), x = wrap_mul(x, x))
            if (y & 1) power = wrap_mul(power, x);
        return power;
    }
}
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): random words that depend on nothing but these numbers.
MORPH_FN Vec<u32, 4> philox_of(u64 key, u64 counter, u64 upper) {
    u32 k = u32(key), l = u32(key >> 32);
    u32 a = u32(counter), b = u32(counter >> 32), c = u32(upper), d = u32(upper >> 32);
    MORPH_UNROLL_ALL for (i32 round = 0; round < 10; round++) {
        u64 first = u64(0xd2511f53u) * a, second = u64(0xcd9e8d57u) * c;
        a = u32(second >> 32) ^ b ^ k, b = u32(second);
        c = u32(first >> 32) ^ d ^ l, d = u32(first);
        k += 0x9e3779b9u, l += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}
MORPH_FN u64 random_of(u64 key, u64 counter, u64 upper) {
    Vec<u32, 4> words = philox_of(key, counter, upper);
    return u64(words[0]) << 32 | words[1];
}
