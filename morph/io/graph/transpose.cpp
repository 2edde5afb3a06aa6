// Comparison of a sparse matrix with its transpose.  Needs no C++ library.
#include <stdint.h>

namespace {

constexpr int64_t AHEAD = 64;  // entries between the prefetch of a cursor and the comparison

// A cursor in each row of `low` to `high` follows the entries of its column, which come row by row.
template <class T>
bool is_transpose(int64_t n, const int64_t *offsets, const int32_t *columns, const T *values,
                  int64_t low, int64_t high, int64_t *cursor) {
  uint64_t width = (uint64_t)(high - low);
  int64_t last = width == (uint64_t)n ? offsets[n] - AHEAD : 0;  // prefetch if all entries are compared
  for (int64_t v = low; v < high; v++) cursor[v] = offsets[v];
  for (int64_t u = 0; u < n; u++)
    for (int64_t i = offsets[u]; i < offsets[u + 1]; i++) {
      uint64_t v = (uint64_t)columns[i];
      if (i < last) {
        __builtin_prefetch(cursor + columns[i + AHEAD], 1);
        int64_t next = cursor[columns[i + AHEAD / 2]];
        __builtin_prefetch(columns + next);
        if (values) __builtin_prefetch(values + next);
      }
      if (v - (uint64_t)low >= width) continue;
      int64_t j = cursor[v]++;
      if (j >= offsets[v + 1] || columns[j] != u || (values && !(values[i] == values[j])))
        return false;
    }
  return true;
}

}  // namespace

extern "C" {

// Whether rows `low` to `high` of a matrix equal those of its transpose.  Columns of a row are in order
// and below n; values have `size` bytes, 0 without values, and are real numbers or integers.
int64_t morph_is_transpose(int64_t n, const int64_t *offsets, const int32_t *columns,
                           const void *values, int64_t size, int64_t real, int64_t low,
                           int64_t high, int64_t *cursor) {
#define MORPH_OF(T) is_transpose(n, offsets, columns, (const T *)values, low, high, cursor)
  switch (real ? -size : size) {
    case -4: return MORPH_OF(float);
    case -8: return MORPH_OF(double);
    case 1: return MORPH_OF(uint8_t);
    case 2: return MORPH_OF(uint16_t);
    case 4: return MORPH_OF(uint32_t);
    case 8: return MORPH_OF(uint64_t);
    default: return MORPH_OF(uint8_t);  // without values
  }
#undef MORPH_OF
}
}
