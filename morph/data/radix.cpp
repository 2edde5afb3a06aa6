// Radix sort of 64-bit words.  Needs no C++ library.
#include <stdint.h>

namespace {

constexpr int64_t DIGIT = 11;  // most bits of a digit

// One pass: the words of `from`, stably in the order of `mask` bits from bit `shift` on.
void distribute(const uint64_t *from, uint64_t *to, int64_t n, int64_t shift, uint64_t mask) {
  int64_t next[(int64_t)1 << DIGIT] = {};
  for (int64_t i = 0; i < n; i++) next[from[i] >> shift & mask]++;
  int64_t sum = 0;
  for (uint64_t k = 0; k <= mask; k++) {
    int64_t count = next[k];
    next[k] = sum;
    sum += count;
  }
  for (int64_t i = 0; i < n; i++) to[next[from[i] >> shift & mask]++] = from[i];
}

}  // namespace

extern "C" {

// Sorts words from 0 to 2^63 - 1; `spare` has as many.  Words that differ in their lowest `ordered` bits
// only are in order already.  Bits that are equal in all words take no pass.
int64_t morph_sort_words(uint64_t *words, int64_t n, uint64_t *spare, int64_t ordered) {
  uint64_t any = 0, all = ~(uint64_t)0, before = 0;
  bool sorted = true;
  for (int64_t i = 0; i < n; i++) {
    any |= words[i];
    all &= words[i];
    sorted &= before <= words[i];
    before = words[i];
  }
  uint64_t varying = sorted ? 0 : (any & ~all) >> ordered << ordered;
  uint64_t *from = words, *to = spare;
  while (varying) {  // the lowest bits that vary, up to a bit that does not, in equal digits
    int64_t low = __builtin_ctzll(varying), width = __builtin_ctzll(~(varying >> low));
    int64_t digits = (width + DIGIT - 1) / DIGIT;
    for (int64_t k = 0; k < digits; k++) {
      int64_t first = width * k / digits, last = width * (k + 1) / digits;
      distribute(from, to, n, low + first, ((uint64_t)1 << (last - first)) - 1);
      uint64_t *other = from;
      from = to;
      to = other;
    }
    varying = varying >> (low + width) << (low + width);
  }
  if (from != words)
    for (int64_t i = 0; i < n; i++) words[i] = from[i];
  return 0;
}
}
