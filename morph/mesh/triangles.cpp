// Neighbours and orientations of triangles, and repeated points.  Needs no C++ library.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace {

constexpr int64_t PART = 1 << 15;  // triangles, or points, that a thread takes at a time
constexpr int AHEAD = 16;          // half-edges between a prefetch and the use

struct Edge {
  int32_t low, high;
  bool backward;  // from the higher point to the lower one
};

// the edge opposite to a corner
inline Edge edge_of(const int32_t *triangles, int64_t half) {
  const int32_t *corner = triangles + half / 3 * 3;
  int k = (int)(half % 3);
  int32_t a = corner[k == 2 ? 0 : k + 1], b = corner[k == 0 ? 2 : k - 1];
  return a > b ? Edge{b, a, true} : Edge{a, b, false};
}

inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

// A slot of a hash table of edges: half-edge and direction of the first of two half-edges
struct Slot {
  int32_t low, high;
  uint32_t first;
};
constexpr uint32_t EMPTY = ~0u, PAIRED = ~0u - 1;

inline uint64_t mixed(int32_t low, int32_t high) {
  return ((uint64_t)(uint32_t)low << 32 | (uint32_t)high) * 0x9E3779B97F4A7C15u;
}

// Pair the half-edges of one block.  Returns false if a directed edge occurs twice.
bool pair_block(const int32_t *triangles, const int32_t *half, int64_t count, Slot *table, int bits,
                int32_t *neighbors) {
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  memset(table, 0xFF, sizeof(Slot) << bits);
  for (int64_t i = 0; i < count; i++) {
    if (i + AHEAD < count) {
      __builtin_prefetch(triangles + half[i + AHEAD]);
      __builtin_prefetch(neighbors + half[i + AHEAD], 1);
    }
    int32_t h = half[i];
    Edge edge = edge_of(triangles, h);
    uint64_t at = mixed(edge.low, edge.high) >> (64 - bits);
    while (table[at].first != EMPTY && (table[at].low != edge.low || table[at].high != edge.high))
      at = (at + 1) & mask;
    uint32_t first = table[at].first;
    if (first == EMPTY) {
      table[at] = Slot{edge.low, edge.high, (uint32_t)h << 1 | edge.backward};
    } else {
      if (first == PAIRED || (first & 1) == edge.backward) return false;
      int32_t other = (int32_t)(first >> 1);
      neighbors[h] = other / 3;
      neighbors[other] = h / 3;
      table[at].first = PAIRED;
    }
  }
  return true;
}

inline bool in_range(double difference) {
  double size = difference < 0 ? -difference : difference;
  return (size > 1e-70 && size < 1e70) || difference == 0;
}

inline uint64_t bits_of(double x) {
  x += 0.0;  // -0 becomes 0
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}

}  // namespace

extern "C" {

int64_t morph_part() { return PART; }

// Count the half-edges of parts `first` to `end` of the triangles by blocks of 2^shift lower points.
void morph_count(const int32_t *triangles, int64_t m, int64_t first, int64_t end, int64_t shift,
                 int64_t blocks, int64_t *counts) {
  for (int64_t k = first; k < end; k++) {
    int64_t *of = counts + k * blocks, last = (k + 1) * PART < m ? (k + 1) * PART : m;
    for (int64_t b = 0; b < blocks; b++) of[b] = 0;
    for (int64_t t = k * PART; t < last; t++) {
      const int32_t *c = triangles + 3 * t;
      of[least(c[1], c[2]) >> shift]++;
      of[least(c[2], c[0]) >> shift]++;
      of[least(c[0], c[1]) >> shift]++;
    }
  }
}

// List them block by block; those of a part begin at `place`, which is overwritten.
void morph_distribute(const int32_t *triangles, int64_t m, int64_t first, int64_t end,
                      int64_t shift, int64_t blocks, int64_t *place, int32_t *half) {
  for (int64_t k = first; k < end; k++) {
    int64_t *to = place + k * blocks, last = (k + 1) * PART < m ? (k + 1) * PART : m;
    for (int64_t t = k * PART; t < last; t++) {
      const int32_t *c = triangles + 3 * t;
      int32_t h = (int32_t)(3 * t);
      half[to[least(c[1], c[2]) >> shift]++] = h;
      half[to[least(c[2], c[0]) >> shift]++] = h + 1;
      half[to[least(c[0], c[1]) >> shift]++] = h + 2;
    }
  }
}

// Pair the half-edges of blocks `first` to `end`, each of which begins at `start`; `neighbors` holds
// -1 before.  Returns 0, 1 if a directed edge occurs twice, 2 if memory is exhausted.
int64_t morph_pair(const int32_t *triangles, const int32_t *half, const int64_t *start,
                   int64_t first, int64_t end, int32_t *neighbors) {
  Slot *table = nullptr;
  int bits = 4, held = 0;
  int64_t result = 0;
  for (int64_t b = first; b < end && !result; b++) {
    int64_t count = start[b + 1] - start[b];
    for (bits = 4; ((int64_t)1 << bits) < count + count / 2; bits++) {}
    if (bits > held) {
      free(table);
      table = (Slot *)malloc(sizeof(Slot) << bits);
      held = bits;
    }
    if (!table) result = 2;
    else if (!pair_block(triangles, half + start[b], count, table, bits, neighbors)) result = 1;
  }
  free(table);
  return result;
}

// Signs of the areas of triangles in parts `first` to `end`, `stride` numbers from corner to corner
// of one column; 2 where the filter of signs.py does not decide.
void morph_orient(const double *points, int64_t n, const int32_t *a, const int32_t *b,
                  const int32_t *c, int64_t stride, int64_t m, int64_t first, int64_t end,
                  int8_t *out) {
  int64_t last = end * PART < m ? end * PART : m;
  for (int64_t t = first * PART; t < last; t++) {
    if (t + AHEAD < last) {
      __builtin_prefetch(points + 2 * (int64_t)a[(t + AHEAD) * stride]);
      __builtin_prefetch(points + 2 * (int64_t)b[(t + AHEAD) * stride]);
      __builtin_prefetch(points + 2 * (int64_t)c[(t + AHEAD) * stride]);
    }
    uint64_t i = (uint64_t)(int64_t)a[t * stride], j = (uint64_t)(int64_t)b[t * stride];
    uint64_t k = (uint64_t)(int64_t)c[t * stride], limit = (uint64_t)n;
    if (i >= limit || j >= limit || k >= limit) {
      out[t] = 2;
      continue;
    }
    const double *p = points + 2 * i, *q = points + 2 * j, *r = points + 2 * k;
    double px = p[0] - r[0], py = p[1] - r[1], qx = q[0] - r[0], qy = q[1] - r[1];
    double left = px * qy, right = py * qx, value = left - right;
    double bound = 4 * 0x1p-53 * ((left < 0 ? -left : left) + (right < 0 ? -right : right));
    bool sure = (value > bound) | (value < -bound);
    sure &= in_range(px) & in_range(py) & in_range(qx) & in_range(qy);
    out[t] = sure ? (int8_t)(value > 0 ? 1 : -1) : (int8_t)2;
  }
}

// Whether one of the points of parts `first` to `end` has the coordinates of a point that was entered
// before, perhaps by another thread. `table` has 2^bits entries: 0, or 1 more than a point. A point with
// a NaN equals no other.
int64_t morph_repeats(const double *points, int64_t n, int64_t first, int64_t end, int32_t *table,
                      int64_t bits) {
  constexpr int64_t BATCH = 64;
  uint64_t at[BATCH], mask = ((uint64_t)1 << bits) - 1;
  int64_t last = end * PART < n ? end * PART : n;
  for (int64_t start = first * PART; start < last; start += BATCH) {
    int64_t size = last - start < BATCH ? last - start : BATCH;
    for (int64_t k = 0; k < size; k++) {
      const double *p = points + 2 * (start + k);
      uint64_t x = bits_of(p[0]) * 0x9E3779B97F4A7C15u, y = bits_of(p[1]);
      uint64_t hash = (x ^ (y >> 29) ^ y) * 0xD6E8FEB86659FD93u;
      at[k] = hash >> (64 - bits);
      __builtin_prefetch(table + at[k], 1);
    }
    for (int64_t k = 0; k < size; k++) {
      const double *p = points + 2 * (start + k);
      if (p[0] != p[0] || p[1] != p[1]) continue;
      for (uint64_t slot = at[k];; slot = (slot + 1) & mask) {
        int32_t entered = __atomic_load_n(table + slot, __ATOMIC_RELAXED);
        if (!entered && __atomic_compare_exchange_n(table + slot, &entered, (int32_t)(start + k + 1),
                                                    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
          break;
        const double *q = points + 2 * ((int64_t)entered - 1);
        if (p[0] == q[0] && p[1] == q[1]) return 1;
      }
    }
  }
  return 0;
}
}
