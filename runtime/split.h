/* split.h -- fp32 values stored as a bf16 and a 16-bit remainder, or as a bf16 alone.
 *
 * A value's 32 bits are (bf16 << 16) + remainder, with remainder in -32768 .. 32767: the bf16 is
 * the value rounded to nearest, ties away from zero. (With ties to even, half of all ties would
 * need a remainder of 32768.) Values that would round to Inf are stored as the largest that do not,
 * NaN as the quiet NaN. */
#ifndef DIECAST_SPLIT_H
#define DIECAST_SPLIT_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

/* A kernel file may define it otherwise before including this one. */
#ifndef SPLIT_FUNCTION
#define SPLIT_FUNCTION static inline
#endif

/* Returns the value that is stored for these bits of a float: nearly always the same. */
SPLIT_FUNCTION uint32_t split_value(uint32_t bits)
{
    const uint32_t inf = 0x7f800000, nan = 0x7fc00000, largest = 0x7f7f7fff;
    const uint32_t sign = bits & 0x80000000, size = bits & 0x7fffffff;
    return size <= largest || size == inf ? bits : sign | (size > inf ? nan : largest);
}

/* The bf16, as the bits of a float, and the remainder of a result of split_value(). */
SPLIT_FUNCTION uint32_t split_bf16(uint32_t bits) { return (bits + 0x8000) & 0xffff0000; }
SPLIT_FUNCTION int16_t split_remainder(uint32_t bits) { return (int16_t)(uint16_t)bits; }

/* The inverse. */
SPLIT_FUNCTION uint32_t split_join(uint32_t bf16, int16_t remainder)
{
    return bf16 + (uint32_t)(int32_t)remainder;
}

/* Returns the bits of a float rounded to bf16, up with the probability of the bits that are cut
 * off: draw is uniform in 0 .. 65535. The largest finite value is not exceeded; Inf and NaN
 * stay. */
SPLIT_FUNCTION uint32_t split_drawn(uint32_t bits, uint32_t draw)
{
    const uint32_t inf = 0x7f800000, largest = 0x7f7f0000, up = (bits + draw) & 0xffff0000;
    const uint32_t finite = (up & 0x7fffffff) < inf ? up : (bits & 0x80000000) | largest;
    return (bits & 0x7fffffff) >= inf ? bits : finite;
}

#endif
