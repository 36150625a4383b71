/* gemm_tiles_fp32.c -- register tiles and packing of fp32 products, for each kind of
 * multiply-add. */
#include "gemm_tiles.h"

#define MICRO_LANES 8
#include "gemm_micro.h"
#define MICRO_LANES 16
#include "gemm_micro.h"

const GemmTiles *const gemm_kinds[] = {&gemm_8_tiles, &gemm_16_tiles};
