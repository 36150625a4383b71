/* nf4_input.h -- the matrix of nf4_recorded.h before it is quantised, and what was recorded as bytes (C and C++). */
#ifndef DIECAST_TESTS_KERNELS_NF4_INPUT_H
#define DIECAST_TESTS_KERNELS_NF4_INPUT_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/nf4.h"
#include "nf4_recorded.h"

enum { NF4_ROWS = NF4_ROWS0 + NF4_ROWS1 + NF4_ROWS2, NF4_ELEMENTS = NF4_ROWS * NF4_COLUMNS };

/* recorded_input() of tests/oracle/nf4.py. */
static inline void nf4_input(float x[NF4_ELEMENTS])
{
    static const float code[16] = { NF4_VALUES };
    for (int64_t i = 0; i < NF4_ELEMENTS; i++) {
        const int64_t block = i / 64, k = i % 64;
        const float v = (float)((int64_t)((uint32_t)(i * 2654435761) >> 8) - (1 << 23)) * 0x1p-24f;
        x[i] = ldexpf(v, -(int)(block % 7));
        if (block == 5 || block == 7)
            x[i] = block == 7 && k == 9 ? -3 : 0;
        if (block == 6)
            x[i] = ldexpf(x[i], -130);
        if (block == 8 && k < 16)
            x[i] = k == 15 ? 1 : (code[k] + code[k + 1]) / 2;
        if (block == 9)
            x[i] = k ? ldexpf(x[i], -126) : 1.1e-38f;
    }
}

/* The bytes of a text of hexadecimal digits; malloc'ed. */
static inline void *nf4_bytes(const char *text)
{
    const size_t n = strlen(text) / 2;
    uint8_t *bytes = (uint8_t *)malloc(n);
    for (size_t i = 0; i < n; i++) {
        const char two[3] = { text[2 * i], text[2 * i + 1], 0 };
        bytes[i] = (uint8_t)strtol(two, NULL, 16);
    }
    return bytes;
}

/* CRC-32 as zlib's. */
static inline uint32_t nf4_crc(const void *data, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (const uint8_t *p = (const uint8_t *)data, *end = p + n; p < end; p++) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

#endif
