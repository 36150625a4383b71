/* cuda_fp16.h -- __half for the simulator: storage, conversions to nearest even, arithmetic as the
 *                device does it, with one rounding. */
#ifndef SIM_CUDA_FP16_H
#define SIM_CUDA_FP16_H

#include "cuda_runtime.h"

static inline unsigned short sim_half_bits(float x)
{
    if (isnan(x))
        return 0x7fff;
    return sim_bits<unsigned short>((_Float16)x);
}

struct __half_raw {
    unsigned short x;
};

struct __attribute__((aligned(2))) __half {
    unsigned short __x;
    __half() = default;
    __half(__half_raw raw) : __x(raw.x) {}
    __half(float x) : __x(sim_half_bits(x)) {}
    __half(int x) : __x(sim_half_bits((float)x)) {}
    explicit __half(double x) : __x(sim_bits<unsigned short>((_Float16)x)) {}
    operator float() const { return (float)sim_bits<_Float16>(__x); }
    operator __half_raw() const { return __half_raw{__x}; }
};

struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    __half2() = default;
    __half2(__half x_, __half y_) : x(x_), y(y_) {}
};

static inline float __half2float(__half x) { return (float)x; }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.__x; }
static inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
static inline __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
static inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
static inline float2 __half22float2(__half2 v) { return make_float2((float)v.x, (float)v.y); }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline float __low2float(__half2 v) { return (float)v.x; }
static inline float __high2float(__half2 v) { return (float)v.y; }
static inline __half __hadd(__half a, __half b) { return __half((float)a + (float)b); }
static inline __half __hmul(__half a, __half b) { return __half((float)a * (float)b); }

#endif
