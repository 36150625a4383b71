/* nf4.h -- dequantises a weight matrix before a product reads it: runtime/nf4.h.
 *
 * In:    codes (O, C / 2); absmax: a code for each block; nested: a float for each group, and
 *        offset: one, of each tensor in turn. rows: of the tensors.
 *        bytes: C / 2, of the codes of a row.
 * Out:   w (O, wide): the first C columns; those after them stay.
 * Keeps: the bits of bitsandbytes: no product is fused with a sum, and an element is rounded once
 *        to act_t. Every tensor has a multiple of NF4_BLOCK elements; C is even. */
#ifndef DIECAST_KERNELS_NF4_H
#define DIECAST_KERNELS_NF4_H

#include "../../runtime/dynamic_map.h"
#include "../../runtime/nf4.h"
#include "types.h"

/* The 16 values of a block with this absmax, as act_t. */
static inline void nf4_block(act_t value[16], float absmax)
{
    static const float nf4[16] = {NF4_VALUES};
    for (int i = 0; i < 16; i++)
        act_store(value + i, nf4[i] * absmax);
}

/* Elements begin .. end - 1 of row r of the tensor whose groups begin at nested. */
static inline void nf4_row(act_t *w, const uint8_t *codes, const uint8_t *absmax,
                           const float *nested, float offset, int64_t begin, int64_t end)
{
    static const float map[256] = {DYNAMIC_SIGNED};
    for (int64_t e = begin; e < end;) {
        const int64_t block = e / NF4_BLOCK, stop = (block + 1) * NF4_BLOCK,
                      n = (stop < end ? stop : end) - e;
        volatile float product = map[absmax[block]] * nested[block / NF4_GROUP];
        act_t value[16];
        nf4_block(value, product + offset);
        for (int64_t i = 0; i < n; i += 2, e += 2) {
            const uint8_t two = codes[e / 2];
            w[e - begin] = value[two >> 4];
            w[e - begin + 1] = value[two & 15];
        }
    }
}

static inline void dequant_nf4(act_t *w, const uint8_t *codes, const uint8_t *absmax,
                               const float *nested, const float *offset, const Nf4Rows *rows,
                               int64_t bytes, int64_t wide)
{
    const int64_t height[3] = {rows->w0, rows->w1, rows->w2}, C = 2 * bytes;
    for (int64_t p = 0; p < rows->parts; p++) {
        const int64_t n = height[p] * C;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_MIN)
        for (int64_t r = 0; r < height[p]; r++)
            nf4_row(w + r * wide, codes, absmax, nested, offset[p], r * C, (r + 1) * C);
        w += height[p] * wide;
        codes += n / 2;
        absmax += NF4_BLOCKS(n);
        nested += NF4_GROUPS(n);
    }
}

#endif
