/* utf8.h -- well-formed UTF-8 (Unicode standard, table 3-7). */
#ifndef DIECAST_UTF8_H
#define DIECAST_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the length of the well-formed sequence at s, n >= 1 bytes; 0: there is none, and *bad (1
 * to 3) is the length of its longest valid prefix, at least 1: what a lossy decoder replaces by one
 * U+FFFD. */
static inline int utf8_length(const char *s, size_t n, int *bad)
{
    const unsigned char *p = (const unsigned char *)s;
    *bad = 1;
    if (p[0] < 0x80)
        return 1;
    int len = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3
            : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
    unsigned lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (!len || n < 2 || p[1] < lo || p[1] > hi)
        return 0;
    for (int i = 2; i < len; i++) {
        *bad = i;
        if ((size_t)i >= n || (p[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

/* Returns the length of a leading byte order mark: 3 or 0. Every text reader skips it. */
static inline size_t utf8_mark(const char *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* True if the text starts with a UTF-16 byte order mark. */
static inline bool utf16_mark(const char *text, size_t n)
{
    return n >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2));
}

/* Returns the offset of the first byte that is not well-formed UTF-8; n: none. */
static inline size_t utf8_check(const char *s, size_t n)
{
    int bad;
    for (size_t i = 0; i < n;) {
        uint64_t word;
        if (n - i >= 8 && (memcpy(&word, s + i, 8), !(word & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        int len = utf8_length(s + i, n - i, &bad);
        if (!len)
            return i;
        i += (size_t)len;
    }
    return n;
}

/* Encodes a code point below 0x110000; returns its length, 1 to 4 bytes. */
static inline size_t utf8_put(char *out, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)(n == 1 ? c : (0xf00 >> n & 0xff) | c);
    return n;
}

/* Decodes a well-formed sequence of len bytes. */
static inline uint32_t utf8_value(const char *s, int len)
{
    uint32_t c = (unsigned char)*s;
    if (len > 1)
        c &= 0x7fu >> len;
    for (int i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)s[i] & 63);
    return c;
}

/* utf8_length_at(): length of the character at text[at]; utf8_before(): start of the character that
 * ends before text[at]. The text must be well-formed. */
static inline int utf8_length_at(const char *text, size_t n, size_t at)
{
    int bad;
    return utf8_length(text + at, n - at, &bad);
}

static inline size_t utf8_before(const char *text, size_t at)
{
    do
        at--;
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* The Unicode property White_Space. */
static inline bool utf8_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

#endif
