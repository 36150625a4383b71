/* cuda_bf16.h -- __nv_bfloat16 for the simulator: storage, conversions to nearest even, arithmetic
 *                as the device does it, in fp32 with one rounding. */
#ifndef SIM_CUDA_BF16_H
#define SIM_CUDA_BF16_H

#include "cuda_runtime.h"

static inline unsigned short sim_bf16_bits(float x)
{
    unsigned u = __float_as_uint(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __attribute__((aligned(2))) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : __x(raw.x) {}
    __nv_bfloat16(float x) : __x(sim_bf16_bits(x)) {}
    __nv_bfloat16(int x) : __x(sim_bf16_bits((float)x)) {}
    explicit __nv_bfloat16(double x) : __x(sim_bf16_bits((float)x)) {}
    operator float() const { return __uint_as_float((unsigned)__x << 16); }
    operator __nv_bfloat16_raw() const { return __nv_bfloat16_raw{__x}; }
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) : x(x_), y(y_) {}
};

static inline float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v)
{
    return __floats2bfloat162_rn(v.x, v.y);
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y)
{
    return __nv_bfloat162(x, y);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return make_float2((float)v.x, (float)v.y);
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
static inline float __low2float(__nv_bfloat162 v) { return (float)v.x; }
static inline float __high2float(__nv_bfloat162 v) { return (float)v.y; }
static inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __nv_bfloat16((float)a + (float)b);
}
static inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __nv_bfloat16((float)a * (float)b);
}

#endif
