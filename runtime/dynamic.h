/* dynamic.h -- quantisation of optimizer states to the codes of dynamic_map.h.
 *
 * A code is the nearest value of the map, by the midpoints of neighbours in fp32; a tie goes to
 * the lower code. Values beyond the map get its first or last code, NaN that of 0. A second moment
 * above 0 never gets code 0: with its first moment not 0, the next update would divide by eps
 * alone.
 */
#ifndef DIECAST_DYNAMIC_H
#define DIECAST_DYNAMIC_H

#ifndef __CUDACC_RTC__
#include <math.h>
#include <stdint.h>
#endif

#include "dynamic_map.h"

#ifdef __CUDACC__
#define DYNAMIC_INLINE static inline __host__ __device__
#else
#define DYNAMIC_INLINE static inline
#endif

/* Number of midpoints of neighbours from 0 up. */
DYNAMIC_INLINE int dynamic_midpoints(DynamicMap map)
{
    return DYNAMIC_CODES - 1 - (map == DYNAMIC_OF_M ? DYNAMIC_ZERO : 0);
}

/* Returns the k-th of them; values: the map. */
DYNAMIC_INLINE float dynamic_midpoint(const float *values, DynamicMap map, int k)
{
    const float *at = values + (map == DYNAMIC_OF_M ? DYNAMIC_ZERO : 0);
    return (at[k] + at[k + 1]) * 0.5f;
}

/* Returns the code of x in a block whose largest magnitude is absmax, above 0; mid: the midpoints.
 *
 * Decade d of the map, from 10^(d-7) to 10^(d-6), has n = 2^d magnitudes (of V 2^(d+1)) in the
 * middle of n equal steps. Counted half a step low, the number of a magnitude is the right one or
 * the one before, as its midpoint says; the midpoint between two decades is a fifth of a step into
 * the upper one.
 */
DYNAMIC_INLINE int dynamic_code(float x, float absmax, DynamicMap map, const float *mid)
{
    const float y = x / absmax, size = fabsf(y), a = size < 1.0f ? size : 1.0f;
    const float n = map == DYNAMIC_OF_M ? 1.0f : 2.0f, first = map == DYNAMIC_OF_M ? 0.0f : 1.0f;
    float scale = 1e6f / 0.9f, steps = 1.0f;
#define DYNAMIC_DECADE(from, factor, count) \
    scale = a > from ? factor / 0.9f : scale, steps = a > from ? count : steps
    DYNAMIC_DECADE(1e-6f, 2e5f, 2.0f);
    DYNAMIC_DECADE(1e-5f, 4e4f, 4.0f);
    DYNAMIC_DECADE(1e-4f, 8e3f, 8.0f);
    DYNAMIC_DECADE(1e-3f, 16e2f, 16.0f);
    DYNAMIC_DECADE(1e-2f, 32e1f, 32.0f);
    DYNAMIC_DECADE(1e-1f, 64.0f, 64.0f);
#undef DYNAMIC_DECADE
    const int low = (int)(n * (a * scale + steps * (8.0f / 9.0f)) - first - 0.5f);
    if (map == DYNAMIC_OF_V) {
        const int k = low + (a > mid[low]);
        return !(y > 0.0f) ? (x > 0.0f) : k < 1 ? 1 : k;
    }
    const int k = low + (y < 0.0f ? a >= mid[low] : a > mid[low]),
              most = y < 0.0f && k > DYNAMIC_ZERO ? DYNAMIC_ZERO : k;
    return y < 0.0f ? DYNAMIC_ZERO - most : y > 0.0f ? DYNAMIC_ZERO + most : DYNAMIC_ZERO;
}

#ifndef __CUDACC__
static const float dynamic_map[2][DYNAMIC_CODES] = DYNAMIC_MAPS;

/* Midpoints of both maps; entries that are not used are 0. */
typedef struct {
    float mid[2][DYNAMIC_CODES];
} DynamicTables;

static inline DynamicTables dynamic_tables(void)
{
    DynamicTables t = {{{0}}};
    for (int map = DYNAMIC_OF_M; map <= DYNAMIC_OF_V; map++)
        for (int k = 0; k < dynamic_midpoints((DynamicMap)map); k++)
            t.mid[map][k] = dynamic_midpoint(dynamic_map[map], (DynamicMap)map, k);
    return t;
}
#endif

#endif
