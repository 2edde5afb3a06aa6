// f16: half precision as storage.  Arithmetic is in f32, each result rounded once to nearest even,
// which is what NumPy does.

// The half nearest to a double, without hardware: `unit` is the weight of the lowest bit kept.
MORPH_FN u16 half_bits(f64 x) {
    u64 b = to_bits(x);
    u16 sign = u16(b >> 48) & 0x8000;
    b &= ~(u64(1) << 63);
    if (b > 0x7ff0000000000000ull) return sign | 0x7e00;
    if (b >= 0x40f0000000000000ull) return sign | 0x7c00;  // 65536 and more
    i32 shift = 42;
    u64 m = b - (u64(1008) << 52);
    if (b < 0x3f10000000000000ull) {  // below 2^-14: no implicit bit in the half
        shift = 1051 - i32(b >> 52);
        if (shift > 53) return sign;
        m = (b & ((u64(1) << 52) - 1)) | u64(1) << 52;
    }
    u64 kept = m >> shift, rest = m & ((u64(1) << shift) - 1), middle = u64(1) << (shift - 1);
    if (rest > middle || (rest == middle && (kept & 1))) kept++;
    return sign | u16(kept);
}

MORPH_FN f32 half_value(u16 h) {
    u32 sign = u32(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
    if (e == 0) return from_bits<f32>(sign | to_bits(f32(m) * f32(1.0 / 16777216.0)));
    return from_bits<f32>(sign | (e == 31 ? 255u : e + 112) << 23 | m << 13);
}

struct f16 {
    u16 bits;

    f16() = default;
#ifdef __CUDACC__
    MORPH_FN f16(f32 x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    MORPH_FN f16(f64 x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
    MORPH_FN operator f32() const {
        f32 x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
#else
    MORPH_FN f16(f32 x) : bits(half_bits(x)) {}
    MORPH_FN f16(f64 x) : bits(half_bits(x)) {}
    MORPH_FN operator f32() const { return half_value(bits); }
#endif
    template <class T> MORPH_FN f16(T x) : f16(f32(x)) {}
};
