// Tables of numbers between text and memory, in parts, by several threads.  Reading stops at irregular text:
// the reader in scanner.py then reports the line.  Needs no C++ library where there is none.
#include <stdint.h>
#include <string.h>
#if __has_include(<charconv>) && !defined(MORPH_PLAIN)
#include <charconv>
#endif
#ifndef __cpp_lib_to_chars  // not for doubles: exact by the C library, slower, and reading only
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#endif

namespace {

#ifndef __cpp_lib_to_chars
const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
#endif
constexpr int64_t PART = 1 << 18;  // bytes of text a thread takes at a time
enum Kind { REAL, INT64, INTEGRAL_REAL, INT32 };  // the third: an integer, stored as a double
constexpr int64_t ROWS = 1 << 12;  // rows formatted by a thread at a time

inline bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool digit(char c) { return (unsigned char)(c - '0') < 10; }

const char *skip_blanks(const char *p, const char *end) {
  while (p < end && blank(*p)) p++;
  return p;
}

// the first line that begins at or after an offset
const char *line_at(const char *text, int64_t length, int64_t at) {
  if (at == 0) return text;
  if (at >= length) return text + length;
  const char *found = (const char *)memchr(text + at - 1, '\n', length - at + 1);
  return found ? found + 1 : text + length;
}

// Count lines that all begin with a word; -1 if some do not.  Branch-free, so that it is vectorised.
int64_t count_full_lines(const char *p, const char *end) {
  if (p == end) return 0;
  if ((unsigned char)*p <= ' ') return -1;
  constexpr int BLOCK = 128;  // their line ends fit a byte
  int64_t count = 1;
  for (end--; p < end; p += BLOCK) {
    int size = end - p < BLOCK ? (int)(end - p) : BLOCK;
    uint8_t ends = 0, odd = 0;
    for (int i = 0; i < size; i++) {
      uint8_t is_end = p[i] == '\n';
      ends += is_end;
      odd |= is_end & ((unsigned char)p[i + 1] <= ' ');
    }
    if (odd) return -1;
    count += ends;
  }
  return count;
}

// each reader returns where the number ends, or nothing if it is odd
const char *read_integer(const char *p, const char *end, int64_t &value) {
  bool minus = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  const char *start = p;
  int64_t magnitude = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (end - p >= 8) {  // up to 8 digits at once: a branch per digit is mispredicted too often
    uint64_t word;
    memcpy(&word, p, 8);
    word ^= 0x3030303030303030;  // a digit is 0 to 9, any other byte more
    uint64_t others = (word | (word + 0x7676767676767676)) & 0x8080808080808080;
    int count = others ? __builtin_ctzll(others) / 8 : 8;
    if (count == 0) return nullptr;
    word <<= 64 - 8 * count;  // leading zeros in place of what follows
    word = word * 10 + (word >> 8);
    word = ((word & 0x000000FF000000FF) * 0x000F424000000064 +
            ((word >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >> 32;
    magnitude = (int64_t)word;
    p += count;
    if (count < 8) {
      value = minus ? -magnitude : magnitude;
      return p;
    }
  }
#endif
  for (; p < end && digit(*p) && p - start < 19; p++) magnitude = magnitude * 10 + (*p - '0');
  if (p == start || p - start > 18) return nullptr;
  value = minus ? -magnitude : magnitude;
  return p;
}

const char *read_double(const char *p, const char *end, double &value) {
  const char *start = p;
  if (p < end && (*p == '-' || *p == '+')) p++;
  if (p == end || !(digit(*p) || *p == '.')) return nullptr;  // no nan, no infinity
#ifdef __cpp_lib_to_chars
  auto [stop, error] = std::from_chars(*start == '-' ? start : p, end, value);
  return error == std::errc() ? stop : nullptr;
#else
  char word[64];
  int n = 0;
  for (p = start; p < end && n < 63 && *p && strchr("0123456789+-.eE", *p); p++) word[n++] = *p;
  word[n] = 0;
  char *stop;
  value = strtod_l(word, &stop, plain);
  return stop == word + n && isfinite(value) ? p : nullptr;
#endif
}

#ifdef __cpp_lib_to_chars
// as Python's repr: the shortest digits that read back the same, plain from 1e-4 to 1e16
char *write_double(char *out, double value) {
  char text[32];
  const char *end = std::to_chars(text, text + 32, value, std::chars_format::scientific).ptr;
  const char *e = end - 1, *p = text;
  while (*e != 'e') e--;
  int exponent = 0;
  std::from_chars(e[1] == '+' ? e + 2 : e + 1, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    memcpy(out, text, end - text);
    return out + (end - text);
  }
  if (*p == '-') *out++ = *p++;
  char digits[20];
  int n = 0;
  for (; p < e; p++)
    if (*p != '.') digits[n++] = *p;
  if (exponent < 0) {
    *out++ = '0', *out++ = '.';
    for (int k = -1; k > exponent; k--) *out++ = '0';
    memcpy(out, digits, n);
    return out + n;
  }
  for (int k = 0; k <= exponent; k++) *out++ = k < n ? digits[k] : '0';
  *out++ = '.';
  if (n <= exponent + 1) *out++ = '0';
  for (int k = exponent + 1; k < n; k++) *out++ = digits[k];
  return out;
}
#else
char *write_double(char *, double) { return nullptr; }
#endif

char *write_integer(char *out, int64_t value, int width) {
  char text[24];
  char *end = text + 24, *p = end;
  uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do *--p = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) *--p = '-';
  for (int k = (int)(end - p); k < width; k++) *out++ = ' ';
  memcpy(out, p, end - p);
  return out + (end - p);
}

}  // namespace

extern "C" {

int64_t morph_part() { return PART; }

// Can doubles be written?
int32_t morph_writes() {
#ifdef __cpp_lib_to_chars
  return 1;
#else
  return 0;
#endif
}

// Count the lines that hold anything and begin in each of the parts from `start` to `stop` of the text.
void morph_lines(const char *text, int64_t length, int64_t start, int64_t stop, int64_t *counts) {
  for (int64_t k = start; k < stop; k++) {
    const char *p = line_at(text, length, k * PART), *end = line_at(text, length, (k + 1) * PART);
    int64_t count = count_full_lines(p, end);
    if (count >= 0) {
      counts[k] = count;
      continue;
    }
    count = 0;
    while (p < end) {
      p = skip_blanks(p, end);
      if (p == end) break;
      count += *p != '\n';
      p = (const char *)memchr(p, '\n', end - p);
      p = p ? p + 1 : end;
    }
    counts[k] = count;
  }
}

// Read `rows` lines of `columns` numbers, each of a `Kind`, into arrays with `strides` bytes from
// row to row; the lines of part k begin at row `first[k]`, and each with `letter` and a blank, unless
// that is 0.  `behind[k]` is the offset behind the last of them if it lies in part k, else 0.
// Returns 0, -1 if something is odd.
int64_t morph_parse(const char *text, int64_t length, int64_t start, int64_t stop,
                    const int64_t *first, int64_t rows, int64_t columns, const uint8_t *kinds,
                    char *const *out, const int64_t *strides, int32_t letter, int64_t *behind) {
  for (int64_t k = start; k < stop; k++) {
    behind[k] = 0;
    if (first[k] >= rows) continue;
    const char *p = line_at(text, length, k * PART), *end = line_at(text, length, (k + 1) * PART);
    int64_t row = first[k];
    while (row < rows && p < end) {
      const char *line = p;
      p = skip_blanks(p, end);
      if (p == end) break;
      if (*p == '\n') {
        p++;
        continue;
      }
      if (letter) p = p == line && *p == letter && p + 1 < end && blank(p[1]) ? p + 1 : nullptr;
      for (int64_t c = 0; c < columns && p; c++) {
        char *at = out[c] + row * strides[c];
        int64_t integer = 0;
        p = skip_blanks(p, end);
        if (kinds[c] == REAL) {
          p = read_double(p, end, *(double *)at);
        } else if ((p = read_integer(p, end, integer))) {
          if (kinds[c] == INT64) *(int64_t *)at = integer;
          else if (kinds[c] == INTEGRAL_REAL) *(double *)at = (double)integer;
          else if (integer == (int32_t)integer) *(int32_t *)at = (int32_t)integer;
          else p = nullptr;
        }
        if (p && p < end && *p != '\n' && !blank(*p)) p = nullptr;
      }
      if (p) p = skip_blanks(p, end);
      if (!p || (p < end && *p != '\n')) return -1;
      if (p < end) p++;
      if (++row == rows) behind[k] = p - text;
    }
  }
  return 0;
}

// Read the integers of 32 bits of parts of a text, those of the part from byte b on into out + b / 2,
// and the number of integers of each of its lines into words + b; lines that begin with '%' are left
// out.  `sizes` are the integers and lines of each part.  Returns 0, -1 if something is odd.
int64_t morph_ragged(const char *text, int64_t length, int64_t start, int64_t stop, int32_t *out,
                     int32_t *words, int64_t *sizes) {
  for (int64_t k = start; k < stop; k++) {
    const char *p = line_at(text, length, k * PART), *end = line_at(text, length, (k + 1) * PART);
    int32_t *first = out + (p - text + 1) / 2, *to = first;
    int32_t *first_line = words + (p - text), *line = first_line;
    while (p < end) {
      if (*p == '%') {
        p = (const char *)memchr(p, '\n', end - p);
        p = p ? p + 1 : end;
        continue;
      }
      int32_t *before = to;
      while (true) {
        while (p < end && (blank(*p) || *p == '\v' || *p == '\f')) p++;
        if (p == end || *p == '\n') break;
        int64_t value = 0;
        p = read_integer(p, end, value);
        if (!p || value != (int32_t)value || (p < end && (unsigned char)*p > ' ')) return -1;
        *to++ = (int32_t)value;
      }
      if (p < end) p++;
      *line++ = (int32_t)(to - before);
    }
    sizes[2 * k] = to - first;
    sizes[2 * k + 1] = line - first_line;
  }
  return 0;
}

// Split `arcs` arcs of one or two numbers: vertices from 1 become `ends` from 0, second numbers `weights`.
// Returns whether all vertices are at most n.
int64_t morph_arcs(const int32_t *numbers, int64_t arcs, int64_t n, int32_t *ends,
                   int32_t *weights) {
  uint32_t wrong = 0, most = (uint32_t)n;
  for (int64_t i = 0; i < arcs; i++) {
    uint32_t end = (uint32_t)numbers[weights ? 2 * i : i] - 1;
    wrong |= end >= most;
    ends[i] = (int32_t)end;
    if (weights) weights[i] = numbers[2 * i + 1];
  }
  return !wrong;
}

// Write rows in parts of ROWS, each row begun by `prefix`, into `out`, which has `row_bytes` for each;
// columns are int64 (padded to their width) or double, `strides` bytes from row to row.
void morph_format(int64_t rows, int64_t start, int64_t stop, int64_t columns,
                  const char *const *data, const int64_t *strides, const uint8_t *whole,
                  const int32_t *widths, const char *prefix, int64_t prefix_length,
                  int64_t row_bytes, int64_t *lengths, char *out) {
  for (int64_t k = start; k < stop; k++) {
    int64_t last = (k + 1) * ROWS < rows ? (k + 1) * ROWS : rows;
    char *begin = out + k * ROWS * row_bytes, *p = begin;
    for (int64_t row = k * ROWS; row < last; row++) {
      memcpy(p, prefix, prefix_length);
      p += prefix_length;
      for (int64_t c = 0; c < columns; c++) {
        const char *at = data[c] + row * strides[c];
        if (c) *p++ = ' ';
        p = whole[c] ? write_integer(p, *(const int64_t *)at, widths[c])
                     : write_double(p, *(const double *)at);
      }
      *p++ = '\n';
    }
    lengths[k] = p - begin;
  }
}

int64_t morph_rows() { return ROWS; }

// Write lines of `lead` numbers and of `each` numbers for each entry, which are not negative: of rows
// `cut[k]` to `cut[k + 1]` in part k, whose text begins at `place[k]` of `out`.
void morph_write_ragged(int64_t start, int64_t stop, const int64_t *cut, const int64_t *offsets,
                        int64_t lead, const int64_t *leads, int64_t each,
                        const int64_t *const *entries, const int64_t *place, int64_t *lengths,
                        char *out) {
  for (int64_t k = start; k < stop; k++) {
    char *begin = out + place[k], *p = begin;
    for (int64_t row = cut[k]; row < cut[k + 1]; row++) {
      char *line = p;
      for (int64_t c = 0; c < lead; c++) {
        p = write_integer(p, leads[row * lead + c], 0);
        *p++ = ' ';
      }
      for (int64_t i = offsets[row]; i < offsets[row + 1]; i++)
        for (int64_t c = 0; c < each; c++) {
          p = write_integer(p, entries[c][i], 0);
          *p++ = ' ';
        }
      if (p > line) p[-1] = '\n';
      else *p++ = '\n';
    }
    lengths[k] = p - begin;
  }
}

// Move the texts of parts, which begin at `place`, together.  Returns the length.
int64_t morph_join(int64_t parts, const int64_t *place, const int64_t *lengths, char *out) {
  int64_t total = 0;
  for (int64_t k = 0; k < parts; k++) {
    memmove(out + total, out + place[k], lengths[k]);
    total += lengths[k];
  }
  return total;
}
}
