// Exact geometric predicates on points of the plane.
//
// Returns   the sign of a determinant, right for every finite input: coordinates may be of any
//           size, subnormal or near overflow.  0 if a coordinate is not finite.
// Method    a floating-point filter with Shewchuk's error bounds; when it cannot decide, the
//           determinant is summed exactly in integers.
// Source    J. R. Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric
//           predicates", Discrete & Computational Geometry 18 (1997), 305-363.
//
// The filter's bound has an absolute part as well, which covers what products lose by underflow; an
// overflow makes the bound infinite or NaN, and the comparison fails.  Products are rounded, never
// fused with a sum: the bounds, and the test that a difference is exact, depend on that.
//
// The exact stage replaces floating-point expansions, which for incircle would hold up to 1152
// doubles and limit the exponents.  A double is an integer of 53 bits times a power of two, so a
// determinant of degree four is a sum of 48 integers of 212 bits, shifted.  Its digits are summed
// from the lowest, a window at a time: usually one window, and a quarter of a kilobyte, is enough.
// Points whose differences are exact (any lattice) are moved to the origin first: 12 terms, not 48.

constexpr i32 EXACT_BITS = 27;    // of a digit: two digits hold a double's 53 bits
constexpr i32 EXACT_WINDOW = 16;  // digits summed at a time
constexpr u64 EXACT_MASK = (u64(1) << EXACT_BITS) - 1;

// A finite double is (-1)^negative * mantissa * 2^exponent.
struct ExactFloat {
    u64 mantissa;
    i32 exponent;
    bool negative;
};

MORPH_FN ExactFloat exact_float(f64 x) {
    u64 bits = to_bits(x);
    i32 e = i32(bits >> 52) & 0x7ff;
    u64 fraction = bits & ((u64(1) << 52) - 1);
    return {e ? fraction | u64(1) << 52 : fraction, (e ? e : 1) - 1075, (bits >> 63) != 0};
}

// The rounding error of `difference`, the rounded x - y; NaN after an overflow.
MORPH_FN f64 difference_tail(f64 x, f64 y, f64 difference) {
    f64 y_part = x - difference;
    f64 x_part = difference + y_part;
    return (x - x_part) + (y_part - y);
}

// Adds the digits of +-p*q*r*r that lie in the window; the lowest digit of all weighs 2^low.
MORPH_FN void exact_add(i64* window, i32 first_digit, i32 low, f64 p, f64 q, f64 r, bool negate) {
    ExactFloat factor[4] = {exact_float(p), exact_float(q), exact_float(r), exact_float(r)};
    i32 shift = -low;
    for (i32 k = 0; k < 4; k++) {
        if (factor[k].mantissa == 0) return;
        shift += factor[k].exponent;
        negate = negate != factor[k].negative;
    }
    i32 at = shift / EXACT_BITS - first_digit;
    shift %= EXACT_BITS;
    if (at >= EXACT_WINDOW || at + 8 < 0) return;

    u32 digit[8] = {1, 0, 0, 0, 0, 0, 0, 0};
    for (i32 k = 0; k < 4; k++) {
        u64 lower = factor[k].mantissa & EXACT_MASK, upper = factor[k].mantissa >> EXACT_BITS;
        u64 carry = 0, before = 0;
        for (i32 i = 0; i < 2 * k + 2; i++) {
            u64 now = digit[i];
            carry += now * lower + before * upper;
            digit[i] = u32(carry & EXACT_MASK);
            carry >>= EXACT_BITS;
            before = now;
        }
    }
    u64 carry = 0;
    for (i32 i = 0; i < 9; i++, at++) {
        if (i < 8) carry |= u64(digit[i]) << shift;
        i64 part = i64(carry & EXACT_MASK);
        if (at >= 0 && at < EXACT_WINDOW) window[at] += negate ? -part : part;
        carry >>= EXACT_BITS;
    }
}

// The sign of sum over k of (-1)^k |p_k|^2 orient(the other three points), for k from `first` to 3:
// incircle if `first` is 0, minus orient2d of a, b, c if it is 3 and d = (1, 0).
MORPH_OUTLINED i32 exact_sign(f64 ax, f64 ay, f64 bx, f64 by, f64 cx, f64 cy, f64 dx, f64 dy,
                           i32 first) {
    f64 x[8] = {ax, ay, bx, by, cx, cy, dx, dy};
    i32 origin = first == 0 ? 6 : 4;
    bool exact = true;
    for (i32 i = 0; i < origin; i++) {
        f64 o = x[origin + (i & 1)];
        exact = exact && difference_tail(x[i], o, x[i] - o) == 0;
    }
    if (exact) {
        for (i32 i = 0; i < origin; i++) x[i] -= x[origin + (i & 1)];
        x[origin] = x[origin + 1] = 0;
    }
    i32 low = 2000, high = -2000;
    for (i32 i = 0; i < 8; i++) {
        ExactFloat v = exact_float(x[i]);
        if (v.exponent > 971) return 0;  // infinite or NaN
        if (v.mantissa == 0) continue;
        low = v.exponent < low ? v.exponent : low;
        high = v.exponent > high ? v.exponent : high;
    }
    i32 digits = (4 * (high - low) + 4 * 53) / EXACT_BITS + 1;
    bool nonzero = false;
    i64 carry = 0;
    for (i32 begin = 0; begin < digits; begin += EXACT_WINDOW) {
        i64 window[EXACT_WINDOW] = {};
        for (i32 k = first; k < 4; k++) {
            for (i32 t = 0; t < 3; t++) {  // cross products of the other points, in cyclic order
                i32 p = t, q = (t + 1) % 3;
                p += p >= k;
                q += q >= k;
                for (i32 l = 2 * k; l < 2 * k + 2; l++) {
                    exact_add(window, begin, 4 * low, x[2 * p], x[2 * q + 1], x[l], (k & 1) != 0);
                    exact_add(window, begin, 4 * low, x[2 * p + 1], x[2 * q], x[l], (k & 1) == 0);
                }
            }
        }
        for (i32 i = 0; i < EXACT_WINDOW; i++) {
            carry += window[i];
            nonzero = nonzero || (carry & i64(EXACT_MASK)) != 0;
            carry >>= EXACT_BITS;  // rounds down, so that every digit kept is positive
        }
    }
    return carry < 0 ? -1 : carry > 0 || nonzero;
}

// 1 if a, b, c turn counter-clockwise, -1 if clockwise, 0 if they lie on one line.
MORPH_FN i32 orient2d(Vec<f64, 2> a, Vec<f64, 2> b, Vec<f64, 2> c) {
    f64 left = (a.v[0] - c.v[0]) * (b.v[1] - c.v[1]);
    f64 right = (a.v[1] - c.v[1]) * (b.v[0] - c.v[0]);
    f64 det = left - right;
    f64 sum = (left < 0 ? -left : left) + (right < 0 ? -right : right);
    f64 bound = 3.3306690738754716e-16 * sum + 1e-300;
    if (det > bound) return 1;
    if (-det > bound) return -1;
    return -exact_sign(a.v[0], a.v[1], b.v[0], b.v[1], c.v[0], c.v[1], 1, 0, 3);
}

// The products and lifts of the determinant whose sign incircle finds.
struct Lifted {
    f64 bc, ca, ab, cb, ac, ba, a, b, c, det;
};
MORPH_FN Lifted lifted(Vec<f64, 2> a, Vec<f64, 2> b, Vec<f64, 2> c, Vec<f64, 2> d) {
    f64 adx = a.v[0] - d.v[0], bdx = b.v[0] - d.v[0], cdx = c.v[0] - d.v[0];
    f64 ady = a.v[1] - d.v[1], bdy = b.v[1] - d.v[1], cdy = c.v[1] - d.v[1];
    Lifted x;
    x.bc = bdx * cdy, x.ca = cdx * ady, x.ab = adx * bdy;
    x.cb = cdx * bdy, x.ac = adx * cdy, x.ba = bdx * ady;
    x.a = adx * adx + ady * ady, x.b = bdx * bdx + bdy * bdy, x.c = cdx * cdx + cdy * cdy;
    x.det = x.a * (x.bc - x.cb) + x.b * (x.ca - x.ac) + x.c * (x.ab - x.ba);
    return x;
}

// Slow path of incircle: the error bound by the permanent, then exact arithmetic.
MORPH_OUTLINED i32 incircle_slow_path(Vec<f64, 2> a, Vec<f64, 2> b, Vec<f64, 2> c, Vec<f64, 2> d) {
    const Lifted x = lifted(a, b, c, d);  // computed again: the call keeps few registers
    f64 permanent = ((x.bc < 0 ? -x.bc : x.bc) + (x.cb < 0 ? -x.cb : x.cb)) * x.a +
                    ((x.ca < 0 ? -x.ca : x.ca) + (x.ac < 0 ? -x.ac : x.ac)) * x.b +
                    ((x.ab < 0 ? -x.ab : x.ab) + (x.ba < 0 ? -x.ba : x.ba)) * x.c;
    f64 bound = 1.1102230246251577e-15 * permanent + 1e-300 * (1 + x.a + x.b + x.c);
    if (x.det > bound) return 1;
    if (-x.det > bound) return -1;
    return exact_sign(a.v[0], a.v[1], b.v[0], b.v[1], c.v[0], c.v[1], d.v[0], d.v[1], 0);
}

// 1 if d is inside the circle through a, b, c (counter-clockwise), -1 outside, 0 on it.
MORPH_FN i32 incircle(Vec<f64, 2> a, Vec<f64, 2> b, Vec<f64, 2> c, Vec<f64, 2> d) {
    const Lifted x = lifted(a, b, c, d);
    // permanent <= ab + bc + ca <= (a + b + c)^2 / 3 for the lifts a, b, c; if lifts^2 is finite, det is finite
    f64 lifts = x.a + x.b + x.c;
    f64 cheap_bound = 3.700743415422e-16 * (lifts * lifts) + 1e-300 * (1 + lifts);
    if (x.det > cheap_bound) return 1;
    if (-x.det > cheap_bound) return -1;
    return incircle_slow_path(a, b, c, d);
}
