/* png.c -- rows as differences from the row above; runs of equal bytes with deflate's fixed code.
 *
 * Source: W3C, PNG specification; RFC 1950 and 1951. libpng, which cairo would use, tries five
 *         filters per
 * row and takes four times as long as all the drawing. */
#include "runtime/plot/png.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

typedef struct {
    unsigned char *data;
    size_t n, room;
    uint64_t bits;               /* pending bits, the first one lowest */
    int nbits;
} Out;

static void put_byte(Out *o, unsigned byte)
{
    if (o->n == o->room) {
        o->room = 2 * o->room + 65536;
        o->data = realloc(o->data, o->room);
        if (!o->data)
            die(EXIT_INTERNAL, "out of memory for a picture");
    }
    o->data[o->n++] = (unsigned char)byte;
}

static void put_word(Out *o, uint32_t x)
{
    for (int k = 24; k >= 0; k -= 8)
        put_byte(o, x >> k & 255);
}

/* ---- deflate --------------------------------------------------------------------------------- */

static void put_bits(Out *o, uint32_t bits, int n)
{
    o->bits |= (uint64_t)bits << o->nbits;
    for (o->nbits += n; o->nbits >= 8; o->nbits -= 8, o->bits >>= 8)
        put_byte(o, o->bits & 255);
}

/* Writes a Huffman code, highest bit first. */
static void put_code(Out *o, uint32_t code, int n)
{
    uint32_t turned = 0;
    for (int i = 0; i < n; i++)
        turned |= (code >> i & 1) << (n - 1 - i);
    put_bits(o, turned, n);
}

/* 0..255: a literal byte; 256: the end; above: a length. */
static void put_symbol(Out *o, unsigned s)
{
    if (s < 144)
        put_code(o, 0x30 + s, 8);
    else if (s < 256)
        put_code(o, 0x190 + s - 144, 9);
    else if (s < 280)
        put_code(o, s - 256, 7);
    else
        put_code(o, 0xc0 + s - 280, 8);
}

/* Repeats the previous byte 3 to 258 times. */
static void put_run(Out *o, unsigned length)
{
    const unsigned more = length - 3;
    int extra = 0;
    while (more >> extra >= 8)
        extra++;
    if (length == 258)
        put_symbol(o, 285);
    else if (!extra)
        put_symbol(o, 257 + more);
    else
        put_symbol(o, 261 + 4 * (unsigned)extra + (more >> extra) - 4);
    if (length < 258)
        put_bits(o, more & ((1u << extra) - 1), extra);
    put_code(o, 0, 5);           /* distance of one byte */
}

static void put_data(Out *o, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n;) {
        const unsigned char byte = from[i];
        size_t run = 1;
        put_symbol(o, byte);
        while (i + run < n && from[i + run] == byte)
            run++;
        i += run--;
        while (run >= 3) {
            const unsigned piece = run > 258 ? 258 : (unsigned)run;
            put_run(o, piece);
            run -= piece;
        }
        while (run--)
            put_symbol(o, byte);
    }
}

static uint32_t adler(const unsigned char *from, size_t n)
{
    enum { PIECE = 5000 };       /* sums of this many bytes fit */
    uint32_t a = 1, b = 0;
    while (n) {
        size_t some = n < PIECE ? n : PIECE;
        n -= some;
        while (some--)
            a += *from++, b += a;
        a %= 65521, b %= 65521;
    }
    return b << 16 | a;
}

/* ---- PNG ------------------------------------------------------------------------------------- */

/* Per row: a byte 2 (filter Up) and the differences from the row above. */
static unsigned char *rows_of(const uint32_t *pixel, int width, int height, int stride)
{
    const size_t each = 1 + 3 * (size_t)width;
    unsigned char *all = malloc(each * (size_t)height), *to = all;
    if (!all)
        die(EXIT_INTERNAL, "out of memory for a picture");
    for (int y = 0; y < height; y++) {
        const uint32_t *row = pixel + (size_t)y * (size_t)stride;
        *to++ = 2;
        for (int x = 0; x < width; x++) {
            const uint32_t here = row[x], above = y ? row[x - stride] : 0;
            *to++ = (unsigned char)((here >> 16) - (above >> 16));
            *to++ = (unsigned char)((here >> 8) - (above >> 8));
            *to++ = (unsigned char)(here - above);
        }
    }
    return all;
}

static uint32_t crc(const unsigned char *from, size_t n)
{
    uint32_t table[256], c = 0xffffffff;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
    while (n--)
        c = table[(c ^ *from++) & 255] ^ c >> 8;
    return ~c;
}

/* Begins a chunk; its length is filled in when it ends. Returns where it begins. */
static size_t begin(Out *o, const char *type)
{
    put_word(o, 0);
    const size_t at = o->n;
    for (int i = 0; i < 4; i++)
        put_byte(o, (unsigned char)type[i]);
    return at;
}

static void end(Out *o, size_t at)
{
    const uint32_t length = (uint32_t)(o->n - at - 4);
    for (int i = 0; i < 4; i++)
        o->data[at - 4 + (size_t)i] = (unsigned char)(length >> (24 - 8 * i));
    put_word(o, crc(o->data + at, o->n - at));
}

unsigned char *png_encode(const uint32_t *pixel, int width, int height, int stride, size_t *n)
{
    static const unsigned char mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char rgb[] = {8, 2, 0, 0, 0};      /* bit depth, RGB, deflate, filters, no
                                                                interlace */
    const size_t bytes = (1 + 3 * (size_t)width) * (size_t)height;
    unsigned char *rows = rows_of(pixel, width, height, stride);
    Out o = {0};
    for (size_t i = 0; i < sizeof mark; i++)
        put_byte(&o, mark[i]);
    size_t at = begin(&o, "IHDR");
    put_word(&o, (uint32_t)width), put_word(&o, (uint32_t)height);
    for (size_t i = 0; i < sizeof rgb; i++)
        put_byte(&o, rgb[i]);
    end(&o, at);
    at = begin(&o, "IDAT");
    put_byte(&o, 0x78), put_byte(&o, 0x01);
    put_bits(&o, 1, 1), put_bits(&o, 1, 2);      /* the last block, fixed code */
    put_data(&o, rows, bytes);
    put_symbol(&o, 256);
    put_bits(&o, 0, 7);                          /* pads the last byte */
    put_word(&o, adler(rows, bytes));
    end(&o, at);
    end(&o, begin(&o, "IEND"));
    free(rows);
    *n = o.n;
    return o.data;
}
