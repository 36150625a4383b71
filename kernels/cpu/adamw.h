/* adamw.h -- AdamW (Loshchilov, Hutter 2017) over one block of parameters; the gradient norm
 * for clipping.
 *
 * In:    g (n) fp32; adamw_args, see runtime/adamw_args.h; norm[0] the L2 norm of all gradients;
 *        decay 0: no weight decay.
 * Out:   m, v (n) fp32 and the weights, in place: g *= min(1, clip / (norm + 1e-6));
 *        w *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 *        w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). Element-wise.
 * Keeps: a non-finite norm changes nothing. */
#ifndef DIECAST_KERNELS_ADAMW_H
#define DIECAST_KERNELS_ADAMW_H

#include <math.h>

#include "../../runtime/adamw_args.h"
#include "../../runtime/split.h"
#include "dropout_draw.h"
#include "types.h"

/* Factors shared by all elements. */
typedef struct {
    float clip, keep, beta1, beta2, rest1, rest2, rate, root, eps;
} AdamwStep;

static inline AdamwStep adamw_step(const float *adamw_args, const float *norm, int decay)
{
    float clip = adamw_args[ADAMW_CLIP] / (norm[0] + 1e-6f);
    return (AdamwStep){
        .clip = adamw_args[ADAMW_CLIP] > 0 && clip < 1.0f ? clip : 1.0f,
        .keep = decay ? 1.0f - adamw_args[ADAMW_LR] * adamw_args[ADAMW_DECAY] : 1.0f,
        .beta1 = adamw_args[ADAMW_BETA1],
        .beta2 = adamw_args[ADAMW_BETA2],
        .rest1 = 1.0f - adamw_args[ADAMW_BETA1],
        .rest2 = 1.0f - adamw_args[ADAMW_BETA2],
        .rate = adamw_args[ADAMW_LR] / adamw_args[ADAMW_BIAS1],
        .root = 1.0f / sqrtf(adamw_args[ADAMW_BIAS2]),
        .eps = adamw_args[ADAMW_EPS],
    };
}

/* Returns the new weight; updates m and v. */
static inline float adamw_element(float w, float *m, float *v, float g, AdamwStep s)
{
    g *= s.clip;
    *m = s.beta1 * *m + s.rest1 * g;
    *v = s.beta2 * *v + s.rest2 * g * g;
    return w * s.keep - s.rate * *m / (sqrtf(*v) * s.root + s.eps);
}

/* fp32 weights. */
static inline void adamw(float *restrict w, float *restrict m, float *restrict v,
                         const float *restrict g, const float *adamw_args, const float *norm,
                         int64_t n, int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        w[i] = adamw_element(w[i], m + i, v + i, g[i], s);
}

/* ---- 16-bit weights -------------------------------------------------------------------------- */

/* The higher precision of 16-bit weights w: one of these. */
typedef struct {
    float *fp32;                 /* master weights; w is their rounded copy */
    int16_t *remainder;          /* their remainders: runtime/split.h */
    /* w alone, rounded stochastically: {seed low, seed high, update}; numbers of the parameter, of
     * its tensor (layer) and of the element in that which w[0] is, a multiple of 8. */
    const uint32_t *rounding;
    uint32_t site, tensor;
    int64_t first;
} Master;

/* Elements of a block, a unit of work. */
enum { ADAMW_BLOCK = 256 };

/* Draws 16 bits for each element of a block, which begins with element i of the tensor, a multiple
 * of 8. Eight elements share a counter, so the draws do not depend on the rank. */
static inline void rounding_draw(uint16_t *draw, const Master *of, int64_t i)
{
    const uint64_t first = (uint64_t)i / 8;
    const DrawWords zero = { 0 }, begin = zero + (uint32_t)first;
    DrawMask keys;
    DrawWords lane = { 0 };
    draw_keys(&keys, rounding_key(of->rounding[0], of->site), of->rounding[1]);
    for (uint32_t l = 0; l < DRAW_LANES; l++)
        lane[l] = l;
    for (uint32_t q = 0; q < ADAMW_BLOCK / 8; q += DRAW_LANES) {
        const DrawWords low = begin + lane + q, carry = (DrawWords)(low < begin);    /* 0 or -1 */
        const Draw counter = { { low, zero + (uint32_t)(first >> 32) - carry,
                                 zero + of->rounding[2], zero + of->tensor } };
        draw_store(draw + 8 * q, draw_words(&keys, counter).word);
    }
}

typedef enum { MASTER_FP32, MASTER_REMAINDER, MASTER_ROUNDING } MasterKind;

static inline MasterKind master_kind(const Master *of)
{
    return of->fp32 ? MASTER_FP32 : of->remainder ? MASTER_REMAINDER : MASTER_ROUNDING;
}

/* The weight that an update starts from. In a loop, `kind` is a constant. */
static inline float master_load(const wt_t *w, const float *fp32, const int16_t *remainder,
                                int64_t i, MasterKind kind)
{
    return kind == MASTER_FP32 ? fp32[i]
           : kind == MASTER_REMAINDER
               ? bits_float(split_join(float_bits(act_load(w + i)), remainder[i]))
               : act_load(w + i);
}

/* x: its new value; draw: the element's, for MASTER_ROUNDING. */
static inline void master_store(wt_t *w, float *fp32, int16_t *remainder, int64_t i, float x,
                                uint16_t draw, MasterKind kind)
{
    if (kind == MASTER_FP32)
        fp32[i] = x;
    if (kind == MASTER_REMAINDER) {
        const uint32_t bits = split_value(float_bits(x));
        remainder[i] = split_remainder(bits);
        x = bits_float(split_bf16(bits));
    }
    if (kind == MASTER_ROUNDING)
        x = bits_float(split_drawn(float_bits(x), draw));
    act_store(w + i, x);
}

/* n weights from i on, at most a block. */
static inline __attribute__((always_inline)) void
adamw_mixed_block(wt_t *restrict w, const Master *master, float *restrict m, float *restrict v,
                  const float *restrict g, AdamwStep s, int64_t i, int64_t n, MasterKind kind)
{
    float *restrict fp32 = master->fp32;
    int16_t *restrict remainder = master->remainder;
    uint16_t draw[ADAMW_BLOCK];
    if (kind == MASTER_ROUNDING)
        rounding_draw(draw, master, master->first + i);
#pragma omp simd
    for (int64_t k = i; k < i + n; k++) {
        const float x = adamw_element(master_load(w, fp32, remainder, k, kind), m + k, v + k, g[k],
                                      s);
        master_store(w, fp32, remainder, k, x, kind == MASTER_ROUNDING ? draw[k - i] : 0, kind);
    }
}

static inline void adamw_mixed(wt_t *restrict w, const Master *master, float *restrict m,
                               float *restrict v, const float *restrict g, const float *adamw_args,
                               const float *norm, int64_t n, int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
    const MasterKind kind = master_kind(master);
#pragma omp parallel for schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i += ADAMW_BLOCK) {
        const int64_t k = n - i < ADAMW_BLOCK ? n - i : ADAMW_BLOCK;
        if (kind == MASTER_FP32)
            adamw_mixed_block(w, master, m, v, g, s, i, k, MASTER_FP32);
        else if (kind == MASTER_REMAINDER)
            adamw_mixed_block(w, master, m, v, g, s, i, k, MASTER_REMAINDER);
        else
            adamw_mixed_block(w, master, m, v, g, s, i, k, MASTER_ROUNDING);
    }
}

/* ---- clearing, norm -------------------------------------------------------------------------- */

/* g[0..n-1] = 0 */
static inline void zero(float *g, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        g[i] = 0;
}

/* |g|^2, squares added in double: NORM_PARTS ranges, each in two halves, then in order. */
static inline double squares_sum(const float *restrict g, int64_t n, void *ws)
{
    double *parts = ws;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t part = 0; part < NORM_PARTS; part++) {
        const int64_t begin = part * n / NORM_PARTS, end = (part + 1) * n / NORM_PARTS;
        const int64_t half = (end - begin) / 2;
        const float *a = g + begin, *b = a + half;
        double s0 = 0, s1 = 0;
#pragma omp simd reduction(+ : s0, s1)
        for (int64_t i = 0; i < half; i++) {
            s0 += (double)a[i] * a[i];
            s1 += (double)b[i] * b[i];
        }
        if ((end - begin) % 2)
            s0 += (double)g[end - 1] * g[end - 1];
        parts[part] = s0 + s1;
    }
    double sum = 0;
    for (int64_t part = 0; part < NORM_PARTS; part++)
        sum += parts[part];
    return sum;
}

/* norm[0] = |g| */
static inline void grad_norm(float *norm, const float *g, int64_t n, void *ws)
{
    *norm = (float)sqrt(squares_sum(g, n, ws));
}

/* The same; adds |g|^2 to squares[0]. */
static inline void partial_norm(float *norm, double *squares, const float *g, int64_t n, void *ws)
{
    const double sum = squares_sum(g, n, ws);
    *norm = (float)sqrt(sum);
    *squares += sum;
}

/* norm[0] = root of squares[0] */
static inline void squares_root(float *norm, const double *squares)
{
    *norm = (float)sqrt(*squares);
}

#endif
