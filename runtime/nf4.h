/* nf4.h -- 4-bit NormalFloat weights with double quantisation, in the format of bitsandbytes.
 *
 * A tensor is quantised in the order of its elements, of which it has a multiple of NF4_BLOCK.
 * Codes of 4 bits are stored two a byte, the first in the high half. The elements of a block share
 * absmax, their largest magnitude. NF4_GROUP blocks share `nested`, the largest magnitude of
 * absmax - offset; offset is the mean of absmax over the tensor. An element is
 * nf4[code] * (map[absmax code] * nested + offset), every operation rounded to fp32.
 * Source: Dettmers et al. 2023, "QLoRA"; bitsandbytes 0.50.2, backend "default". */
#ifndef DIECAST_NF4_H
#define DIECAST_NF4_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

enum {
    NF4_BLOCK = 64,          /* elements of a block */
    NF4_GROUP = 256          /* blocks of a group */
};

/* Values of the 16 codes. */
#define NF4_VALUES                                                                                 \
    -0x1p+0f, -0x1.647362p-1f, -0x1.0cd66p-1f, -0x1.94654p-2f, -0x1.23449ap-2f, -0x1.7a6a7ep-3f,   \
    -0x1.74f0e2p-4f, 0.0f, 0x1.45f5fep-4f, 0x1.4995c6p-3f, 0x1.f809bap-3f, 0x1.5a0674p-2f,         \
    0x1.c3497p-2f, 0x1.200f56p-1f, 0x1.722766p-1f, 0x1p+0f

/* Rows of the tensors that a matrix is made of, from top to bottom: each is quantised by itself. */
typedef struct {
    int64_t parts, w0, w1, w2;
} Nf4Rows;

/* Returns the blocks, and the groups, of a tensor of n elements. */
#define NF4_BLOCKS(n) ((n) / NF4_BLOCK)
#define NF4_GROUPS(n) ((NF4_BLOCKS(n) + NF4_GROUP - 1) / NF4_GROUP)

#ifndef __CUDACC__
/* Quantises n elements, a multiple of NF4_BLOCK: codes (n / 2), absmax (n / NF4_BLOCK). */
void nf4_quantise(const float *x, int64_t n, uint8_t *codes, float *absmax);
/* Quantises the absmax of a tensor: codes (blocks), nested (a float for each group), offset (1). */
void nf4_quantise_absmax(const float *absmax, int64_t blocks, uint8_t *codes, float *nested,
                         float *offset);
/* Returns absmax from its code. */
float nf4_absmax(uint8_t code, float nested, float offset);
/* Writes the values of n elements, an even number, of one block. */
void nf4_dequantise(const uint8_t *codes, int64_t n, float absmax, float *to);
#endif

#endif
