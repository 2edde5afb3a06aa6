// Hashes of edges, by which edges are compared with their reverses.  Needs no C++ library.
#include <stdint.h>
#include <string.h>

namespace {

constexpr int64_t PART = 1 << 16;  // edges that a thread takes at a time

inline uint64_t mixed(uint64_t h) {
  h *= 0xD6E8FEB86659FD93u;
  h ^= h >> 29;
  h *= 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

inline uint64_t bits_of(double w) {
  w += 0.0;  // -0 becomes 0
  uint64_t bits;
  memcpy(&bits, &w, 8);
  return bits;
}
inline uint64_t bits_of(float w) { return bits_of((double)w); }
template <class T> inline uint64_t bits_of(T w) { return (uint64_t)(int64_t)w; }

template <class T>
uint64_t sum_of(const int32_t *src, const int32_t *dst, const T *weight, int64_t first, int64_t end,
                uint64_t salt) {
  uint64_t sum = 0;
  for (int64_t i = first; i < end; i++) {
    uint32_t u = (uint32_t)src[i], v = (uint32_t)dst[i], low = u < v ? u : v, high = u < v ? v : u;
    uint64_t h = mixed(((uint64_t)low << 32 | high) ^ salt);
    if (weight) h = mixed(h + bits_of(weight[i]));
    sum += h * ((uint64_t)(u < v) - (uint64_t)(u > v));
  }
  return sum;
}

}  // namespace

extern "C" {

int64_t morph_part() { return PART; }

// For each part from `start` to `stop` of m edges, the sum of the hashes of edges to larger points minus
// that of edges to smaller points.  Weights have `size` bytes, 0 without weights.
void morph_sums(const int32_t *src, const int32_t *dst, const void *weight, int64_t size, int64_t real,
                int64_t m, int64_t start, int64_t stop, uint64_t salt, uint64_t *sums) {
  for (int64_t k = start; k < stop; k++) {
    int64_t first = k * PART, end = first + PART < m ? first + PART : m;
#define MORPH_OF(T) sum_of(src, dst, (const T *)weight, first, end, salt)
    switch (real ? -size : size) {
      case -4: sums[k] = MORPH_OF(float); break;
      case -8: sums[k] = MORPH_OF(double); break;
      case 1: sums[k] = MORPH_OF(uint8_t); break;
      case 2: sums[k] = MORPH_OF(uint16_t); break;
      case 4: sums[k] = MORPH_OF(uint32_t); break;
      default: sums[k] = MORPH_OF(uint64_t);
    }
#undef MORPH_OF
  }
}
}
