/* pointwise.h -- residual addition, scaling, input rounding; GELU (tanh form), SwiGLU, GeGLU
 * and their gradients.
 *
 * In, out: n elements, or rows of 2F = [gate | up] and F. An output may alias an input of its
 * shape.
 * Keeps: fp32 inside, one rounding at the store. Element-wise: nothing to order.
 * Method: GELU (Hendrycks, Gimpel 2016) 0.5 x (1 + tanh u) is x sigmoid(2u), with u =
 *         sqrt(2/pi) (x + 0.044715 x^3); SwiGLU (Shazeer 2020) is silu(gate) up, GeGLU
 *         gelu(gate) up. */
#ifndef DIECAST_KERNELS_POINTWISE_H
#define DIECAST_KERNELS_POINTWISE_H

#include "math.h"
#include "types.h"

#define GELU_2A 1.5957691216057308f             /* 2 sqrt(2/pi) */
#define GELU_B 0.044715f

static inline void add_fwd(act_t *y, const act_t *a, const act_t *b, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, act_load(a + i) + act_load(b + i));
}

static inline void scale_fwd(act_t *y, const act_t *x, float factor, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, act_load(x + i) * factor);
}

/* y = x: fp32 inputs in the type of activations. */
static inline void cast_fwd(act_t *restrict y, const float *restrict x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, x[i]);
}

static inline float gelu_value(float v)
{
    return v * math_sigmoid(GELU_2A * v * (1.0f + GELU_B * v * v));
}

static inline void gelu_fwd(act_t *y, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, gelu_value(act_load(x + i)));
}

/* GELU at v and its derivative. */
typedef struct {
    float value, slope;
} Gelu;

static inline Gelu gelu_at(float v)
{
    const float b = GELU_B * v * v;
    const Logistic s = math_logistic(GELU_2A * v * (1.0f + b));
    return (Gelu){ v * s.value, s.value + v * s.value * s.rest * GELU_2A * (1.0f + 3.0f * b) };
}

static inline void gelu_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(dx + i, act_load(dy + i) * gelu_at(act_load(x + i)).slope);
}

static inline void swiglu_row(act_t *restrict h, const act_t *restrict gate, int64_t F)
{
    const act_t *up = gate + F;
#pragma omp simd
    for (int64_t i = 0; i < F; i++) {
        float g = act_load(gate + i);
        act_store(h + i, g * math_sigmoid(g) * act_load(up + i));
    }
}

static inline void swiglu_fwd(act_t *restrict h, const act_t *restrict gu, int64_t rows, int64_t F)
{
#pragma omp parallel for schedule(static) if (rows * F >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++)
        swiglu_row(h + r * F, gu + r * 2 * F, F);
}

static inline void swiglu_bwd_row(act_t *dgate, const act_t *restrict dh, const act_t *gate,
                                  int64_t F)
{
    const act_t *up = gate + F;
    act_t *dup = dgate + F;
#pragma omp simd
    for (int64_t i = 0; i < F; i++) {
        float g = act_load(gate + i), u = act_load(up + i), d = act_load(dh + i);
        Logistic s = math_logistic(g);
        act_store(dgate + i, d * u * s.value * (1.0f + g * s.rest));
        act_store(dup + i, d * g * s.value);
    }
}

static inline void swiglu_bwd(act_t *dgu, const act_t *restrict dh, const act_t *gu, int64_t rows,
                              int64_t F)
{
#pragma omp parallel for schedule(static) if (rows * F >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++)
        swiglu_bwd_row(dgu + r * 2 * F, dh + r * F, gu + r * 2 * F, F);
}

static inline void geglu_fwd(act_t *restrict h, const act_t *restrict gu, int64_t rows, int64_t F)
{
#pragma omp parallel for schedule(static) if (rows * F >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++) {
        const act_t *gate = gu + r * 2 * F, *up = gate + F;
#pragma omp simd
        for (int64_t i = 0; i < F; i++) {
            float g = act_load(gate + i);
            g *= math_sigmoid(GELU_2A * g * (1.0f + GELU_B * g * g));
            act_store(h + r * F + i, g * act_load(up + i));
        }
    }
}

static inline void geglu_bwd(act_t *dgu, const act_t *restrict dh, const act_t *gu, int64_t rows,
                             int64_t F)
{
#pragma omp parallel for schedule(static) if (rows * F >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++) {
        const act_t *gate = gu + r * 2 * F, *up = gate + F;
        act_t *dgate = dgu + r * 2 * F, *dup = dgate + F;
#pragma omp simd
        for (int64_t i = 0; i < F; i++) {
            float g = act_load(gate + i), u = act_load(up + i), d = act_load(dh + r * F + i);
            Gelu y = gelu_at(g);
            act_store(dgate + i, d * u * y.slope);
            act_store(dup + i, d * y.value);
        }
    }
}

#endif
