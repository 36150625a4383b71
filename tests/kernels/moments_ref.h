/* moments_ref.h -- 8-bit moments by a search over the whole map: for the tests of both backends. */
#ifndef DIECAST_TESTS_KERNELS_MOMENTS_REF_H
#define DIECAST_TESTS_KERNELS_MOMENTS_REF_H

#include <math.h>
#include <stdint.h>

#include "../../runtime/dynamic_map.h"

/* A moment's codes and magnitudes. */
typedef struct {
    uint8_t *code;
    float *absmax;
} Moment8;

static inline float map_value(DynamicMap map, int code)
{
    static const float value[2][DYNAMIC_CODES] = DYNAMIC_MAPS;
    return value[map][code];
}

/* Number of midpoints below y; without `rule`, a v above 0 may get code 0. */
static inline int nearest_code(float x, float absmax, DynamicMap map, int rule)
{
    const float y = x / absmax;
    int code = 0;
    while (code < DYNAMIC_CODES - 1 &&
           y > (map_value(map, code) + map_value(map, code + 1)) / 2.0f)
        code++;
    if (isnan(y))
        code = map == DYNAMIC_OF_M ? DYNAMIC_ZERO : 0;
    return rule && map == DYNAMIC_OF_V && x > 0 && code == 0 ? 1 : code;
}

static inline void moment_quantise(Moment8 to, const float *x, int64_t n, DynamicMap map, int rule)
{
    for (int64_t b = 0; b * DYNAMIC_BLOCK < n; b++) {
        const int64_t end = (b + 1) * DYNAMIC_BLOCK < n ? (b + 1) * DYNAMIC_BLOCK : n;
        float most = 0;
        for (int64_t i = b * DYNAMIC_BLOCK; i < end; i++)
            most = isfinite(x[i]) && fabsf(x[i]) > most ? fabsf(x[i]) : most;
        to.absmax[b] = most;
        for (int64_t i = b * DYNAMIC_BLOCK; i < end; i++)
            to.code[i] = (uint8_t)(most > 0 ? nearest_code(x[i], most, map, rule) : 0);
    }
}

static inline void moment_dequantise(float *x, Moment8 from, int64_t n, DynamicMap map)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = map_value(map, from.code[i]) * from.absmax[i / DYNAMIC_BLOCK];
}

#endif
