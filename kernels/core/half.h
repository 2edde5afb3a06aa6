// f16: half precision as storage.  Arithmetic is in f32, each result rounded once to nearest even,
// which is what NumPy does.

struct f16 {
    u16 bits;

    f16() = default;
    MORPH_FN f16(f32 x) : bits(to_half(x)) {}
    MORPH_FN f16(f64 x) : bits(to_half(x)) {}
    MORPH_FN operator f32() const { return from_half(bits); }
    template <class T> MORPH_FN f16(T x) : f16(f32(x)) {}
};
