/* absmax.h -- the largest magnitudes of the blocks of an 8-bit array, as a tensor of their own. */
#ifndef DIECAST_ABSMAX_H
#define DIECAST_ABSMAX_H

#include "runtime/dynamic_map.h"
#include "runtime/model/model.h"

/* Returns, as a tensor of rank 1 without a name, the magnitudes of those blocks of an 8-bit array
 * that t has elements of, in memory order; its array is absmax_array(). */
static inline Tensor absmax_tensor(const Tensor *t, Array array)
{
    const int64_t slot = t->stride ? t->first / t->stride : 0, first = t->first - slot * t->stride,
                  n = t->pitch ? (t->shape[0] - 1) * t->pitch + t->shape[1] : model_elements(t),
                  low = first / DYNAMIC_BLOCK, high = (first + n - 1) / DYNAMIC_BLOCK;
    return (Tensor){.rank = 1, .shape = {high - low + 1}, .first = slot * array.blocks + low,
                    .stride = array.blocks, .array_of = t};
}

static inline Array absmax_array(Array array)
{
    const int64_t part = array.absmax ? array.part / DYNAMIC_BLOCK : 0;
    return (Array){.at = array.absmax, .type = EL_F32, .part = part};
}

#endif
