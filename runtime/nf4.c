/* nf4.c -- quantisation to NF4 and back on the host.
 *
 * Keeps: the bits of bitsandbytes, but for the offset, a mean that is summed in double here. */
#include "runtime/nf4.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/dynamic_map.h"

static const float values[16] = {NF4_VALUES};
static const float map[256] = {DYNAMIC_SIGNED};

/* bitsandbytes divides by no less. */
#define LEAST 1e-38f

/* Number of values halfway between neighbours of an ascending table that are below x. */
static uint8_t code_of(float x, const float *table, int n)
{
    int low = 0, high = n - 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (x > (table[mid] + table[mid + 1]) / 2)
            low = mid + 1;
        else
            high = mid;
    }
    return (uint8_t)low;
}

/* Bits of the magnitude; they are ordered as magnitudes are, those of NaN last. */
static uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

static float largest(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++)
        most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
    float value;
    memcpy(&value, &most, sizeof value);
    return value;
}

/* Numbers smaller than the least normal one: the program may compute with zeros instead. */
static bool is_denormal(float x) { return magnitude(x) < 0x800000; }

static double exact(float x)
{
    const double value = is_denormal(x) ? magnitude(x) * 0x1p-149 : fabs((double)x);
    return signbit(x) ? -value : value;
}

static float within(float x) { return x < -1 ? -1 : x > 1 ? 1 : x; }

/* Codes of a block whose absmax is denormal. */
static void quantise_denormal(const float *x, float absmax, uint8_t code[NF4_BLOCK])
{
    const double divisor = exact(absmax) < 0x1.b38fb8p-127 ? 0x1.b38fb8p-127 : exact(absmax),
                 by = (float)(1 / divisor);
    for (int i = 0; i < NF4_BLOCK; i++)
        code[i] = code_of(within((float)(exact(x[i]) * by)), values, 16);
}

static void quantise_block(const float *x, uint8_t *codes, float *absmax)
{
    uint8_t code[NF4_BLOCK];
    *absmax = largest(x, NF4_BLOCK);
    const bool denormal = is_denormal(*absmax);
    const float by = denormal ? 0 : 1.0f / *absmax;
    if (denormal)
        quantise_denormal(x, *absmax, code);
    for (int i = 0; !denormal && i < NF4_BLOCK; i++)
        code[i] = code_of(within(x[i] * by), values, 16);
    for (int i = 0; i < NF4_BLOCK; i += 2)
        codes[i / 2] = (uint8_t)(code[i] << 4 | code[i + 1]);
}

void nf4_quantise(const float *x, int64_t n, uint8_t *codes, float *absmax)
{
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < NF4_BLOCKS(n); b++)
        quantise_block(x + b * NF4_BLOCK, codes + b * NF4_BLOCK / 2, absmax + b);
}

void nf4_quantise_absmax(const float *absmax, int64_t blocks, uint8_t *codes, float *nested,
                         float *offset)
{
    double sum = 0;
    for (int64_t b = 0; b < blocks; b++)
        sum += absmax[b];
    *offset = (float)(sum / (double)blocks);
    for (int64_t first = 0; first < blocks; first += NF4_GROUP) {
        const int64_t n = blocks - first < NF4_GROUP ? blocks - first : NF4_GROUP;
        float x[NF4_GROUP];
        for (int64_t i = 0; i < n; i++)
            x[i] = absmax[first + i] - *offset;
        const float most = largest(x, n);
        const bool denormal = is_denormal(most), divides = n < NF4_GROUP && !denormal;
        const float by = denormal ? 0 : 1.0f / most;
        for (int64_t i = 0; i < n; i++)      /* a short group is divided, a full one multiplied */
            codes[first + i] = code_of(within(divides ? x[i] / most : x[i] * by), map, 256);
        nested[first / NF4_GROUP] = n == NF4_GROUP || !denormal ? most : LEAST;
    }
}

float nf4_absmax(uint8_t code, float nested, float offset)
{
    volatile float product = map[code] * nested;         /* rounded, not fused into the sum */
    return product + offset;
}

void nf4_dequantise(const uint8_t *codes, int64_t n, float absmax, float *to)
{
    for (int64_t i = 0; i < n; i += 2) {
        to[i] = values[codes[i / 2] >> 4] * absmax;
        to[i + 1] = values[codes[i / 2] & 15] * absmax;
    }
}
