// Clauses between text and memory, in parts, by several threads.  Needs no C++ library.
#include <stdint.h>
#include <string.h>

namespace {

constexpr int64_t PART = 1 << 18;    // bytes of text a thread takes at a time
constexpr int64_t CLAUSES = 1 << 13;  // clauses written by a thread at a time

inline bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
inline bool digit(char c) { return (unsigned char)(c - '0') < 10; }

// the first line that begins at or after an offset
int64_t line_at(const char *text, int64_t length, int64_t at) {
  if (at == 0) return 0;
  if (at >= length) return length;
  const char *found = (const char *)memchr(text + at - 1, '\n', length - at + 1);
  return found ? found - text + 1 : length;
}

enum { NUMBERS, ENDS, STOP, ODD, FIELDS };  // fields that describe a part

}  // namespace

extern "C" {

int64_t morph_part() { return PART; }

// Read the numbers of parts `start` to `stop` of a text, those of the part that begins at byte b to
// out + b / 2, as a number takes at least two bytes.  The fields of a part are how many numbers it
// has, how many of these are 0, and the offsets of a '%' and of an invalid byte that ended it, or -1.
void morph_scan(const char *text, int64_t length, int64_t start, int64_t stop, int64_t variables,
                int32_t strict, int32_t *out, int64_t *fields) {
  for (int64_t k = start; k < stop; k++) {
    int64_t begin = line_at(text, length, k * PART);
    const char *p = text + begin, *end = text + line_at(text, length, (k + 1) * PART), *line = p;
    int32_t *first = out + (begin + 1) / 2, *to = first;
    int64_t *here = fields + k * FIELDS, zeros = 0;
    here[STOP] = here[ODD] = -1;
    while (true) {
      while (p < end && blank(*p))
        if (*p++ == '\n') line = p;
      if (p == end) break;
      const char *start = p;
      if (*p == 'c' && (!strict || p == line)) {
        p = (const char *)memchr(p, '\n', end - p);
        if (!p) break;
        continue;
      }
      if (*p == '%' && !strict) {
        here[STOP] = p - text;
        break;
      }
      bool minus = *p == '-', plus = *p == '+' && !strict;
      p += minus || plus;
      const char *digits = p;
      int64_t value = 0;
      for (; p < end && digit(*p) && value <= variables; p++) value = value * 10 + (*p - '0');
      if (p == digits || value > variables || (p < end && !blank(*p)) || (minus && !value)) {
        here[ODD] = start - text;
        break;
      }
      zeros += value == 0;
      *to++ = (int32_t)(minus ? -value : value);
    }
    here[NUMBERS] = to - first;
    here[ENDS] = zeros;
  }
}

// Put what was read of each part where it belongs: its first number, less the zeros before it, is
// literal `at[k]`, its first 0 ends clause `clause[k]`.
void morph_gather(const char *text, int64_t length, int64_t start, int64_t stop,
                  const int32_t *found, const int64_t *fields, const int64_t *at,
                  const int64_t *clause, int32_t *literals, int64_t *offsets) {
  for (int64_t k = start; k < stop; k++) {
    const int32_t *p = found + (line_at(text, length, k * PART) + 1) / 2;
    const int32_t *end = p + fields[k * FIELDS + NUMBERS];
    int64_t to = at[k], c = clause[k];
    for (; p < end; p++) {
      if (*p) literals[to++] = *p;
      else offsets[++c] = to;
    }
  }
}

int64_t morph_clauses() { return CLAUSES; }

// Write clauses in parts of CLAUSES, a line each, into `out`, which has 12 bytes for each literal and 2
// for each clause.
void morph_write(int64_t clauses, int64_t start, int64_t stop, const int64_t *offsets,
                 const int32_t *literals, int64_t *lengths, char *out) {
  for (int64_t k = start; k < stop; k++) {
    int64_t c = k * CLAUSES, last = c + CLAUSES < clauses ? c + CLAUSES : clauses;
    char *begin = out + 12 * offsets[c] + 2 * c, *p = begin;
    for (; c < last; c++) {
      for (int64_t i = offsets[c]; i < offsets[c + 1]; i++) {
        char text[12], *q = text + 12;
        uint32_t left = literals[i] < 0 ? 0u - (uint32_t)literals[i] : (uint32_t)literals[i];
        do *--q = (char)('0' + left % 10);
        while (left /= 10);
        if (literals[i] < 0) *--q = '-';
        memcpy(p, q, text + 12 - q);
        p += text + 12 - q;
        *p++ = ' ';
      }
      *p++ = '0';
      *p++ = '\n';
    }
    lengths[k] = p - begin;
  }
}

// Move the texts of parts together.  Returns the length.
int64_t morph_join(int64_t parts, const int64_t *offsets, const int64_t *lengths, char *out) {
  int64_t total = 0;
  for (int64_t k = 0; k < parts; k++) {
    int64_t c = k * CLAUSES;
    memmove(out + total, out + 12 * offsets[c] + 2 * c, lengths[k]);
    total += lengths[k];
  }
  return total;
}
}
