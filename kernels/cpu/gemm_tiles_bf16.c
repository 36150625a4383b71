/* gemm_tiles_bf16.c -- register tiles and packing of bf16 products, for each kind of
 * multiply-add. */
#define ACT_BF16 1
#include "gemm_tiles.h"

#define MICRO_LANES 8
#include "gemm_micro.h"
#define MICRO_LANES 16
#include "gemm_micro.h"
#define MICRO_LANES 16
#define MICRO_PAIRS
#include "gemm_micro.h"

const GemmTiles *const gemm_kinds[] = {&gemm_8_tiles, &gemm_16_tiles, &gemm_pairs_tiles};
