/* tile.c -- register tiles of small fp32 products, for vectors of both widths: see tile.h. */
#include "tile.h"

#define MICRO_LANES 8
#include "tile_micro.h"
#define MICRO_LANES 16
#include "tile_micro.h"

const TileWidth *const tile_widths[] = {tile_8_widths, tile_16_widths};
