// Radix sort of 64-bit words, from 0 to 2^63 - 1.  Needs no C++ library.  One thread sorts by `morph_sort_words`;
// several call the other functions for parts of the words, one pass after another.
#include <stdint.h>

extern "C" {

constexpr int64_t DIGIT = 11;  // most bits of a digit

// Writes the bits that are set in any word, those that are set in all words, and whether the words are in order.
int64_t morph_read_bits(const uint64_t *words, int64_t n, uint64_t *found) {
  uint64_t any = 0, all = ~(uint64_t)0, before = 0;
  bool sorted = true;
  for (int64_t i = 0; i < n; i++) {
    any |= words[i];
    all &= words[i];
    sorted &= before <= words[i];
    before = words[i];
  }
  found[0] = any;
  found[1] = all;
  found[2] = sorted;
  return 0;
}

// Divides the bits that vary into digits, the lowest first: their first bits and widths.  Returns their number.
int64_t morph_divide_bits(uint64_t varying, int64_t *shift, int64_t *width) {
  int64_t n = 0;
  while (varying) {  // the lowest bits that vary, up to a bit that does not, in equal digits
    int64_t low = __builtin_ctzll(varying), size = __builtin_ctzll(~(varying >> low));
    int64_t digits = (size + DIGIT - 1) / DIGIT;
    for (int64_t k = 0; k < digits; k++) {
      shift[n] = low + size * k / digits;
      width[n++] = size * (k + 1) / digits - size * k / digits;
    }
    varying = varying >> (low + size) << (low + size);
  }
  return n;
}

// Counts the words with each value of a digit.
int64_t morph_count_digits(const uint64_t *words, int64_t n, int64_t shift, int64_t width, int64_t *counts) {
  const uint64_t mask = ((uint64_t)1 << width) - 1;
  for (uint64_t k = 0; k <= mask; k++) counts[k] = 0;
  for (int64_t i = 0; i < n; i++) counts[words[i] >> shift & mask]++;
  return 0;
}

// Copies the words to the next positions of the values of their digit.
int64_t morph_distribute(const uint64_t *words, int64_t n, int64_t shift, int64_t width, int64_t *next, uint64_t *to) {
  const uint64_t mask = ((uint64_t)1 << width) - 1;
  for (int64_t i = 0; i < n; i++) to[next[words[i] >> shift & mask]++] = words[i];
  return 0;
}

// Sorts words; `spare` has as many.  Words that differ in their lowest `ordered` bits only are in order already.  Bits
// that are equal in all words take no pass.
int64_t morph_sort_words(uint64_t *words, int64_t n, uint64_t *spare, int64_t ordered) {
  uint64_t found[3], *from = words, *to = spare;
  int64_t shift[64], width[64], next[(int64_t)1 << DIGIT];
  morph_read_bits(words, n, found);
  int64_t digits = found[2] ? 0 : morph_divide_bits((found[0] & ~found[1]) >> ordered << ordered, shift, width);
  for (int64_t d = 0; d < digits; d++) {
    morph_count_digits(from, n, shift[d], width[d], next);
    int64_t sum = 0;
    for (int64_t k = 0; k < (int64_t)1 << width[d]; k++) {
      int64_t count = next[k];
      next[k] = sum;
      sum += count;
    }
    morph_distribute(from, n, shift[d], width[d], next, to);
    uint64_t *other = from;
    from = to;
    to = other;
  }
  if (from != words)
    for (int64_t i = 0; i < n; i++) words[i] = from[i];
  return 0;
}
}
