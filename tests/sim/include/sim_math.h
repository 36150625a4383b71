/* sim_math.h -- arithmetic of device code that the C library lacks: intrinsics, bits, conversions.
 *
 * Keeps: functions that the toolkit rounds to nearest do so here. The approximate ones (__expf ...)
 *        are computed by the same formula as on the device, from correctly rounded parts. */
#ifndef SIM_MATH_H
#define SIM_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SIM_MINMAX(T)                                                                           \
    static inline T min(T a, T b) { return b < a ? b : a; }                                     \
    static inline T max(T a, T b) { return a < b ? b : a; }
SIM_MINMAX(int)
SIM_MINMAX(unsigned)
SIM_MINMAX(long)
SIM_MINMAX(unsigned long)
SIM_MINMAX(long long)
SIM_MINMAX(unsigned long long)
#undef SIM_MINMAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

/* ---- bits as another type ---- */
template <typename To, typename From> static inline To sim_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x) { return sim_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return sim_bits<float>(x); }
static inline int __float_as_int(float x) { return sim_bits<int>(x); }
static inline float __int_as_float(int x) { return sim_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return sim_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return sim_bits<double>(x); }

/* ---- rounded to nearest ---- */
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }

/* ---- approximate; the C library has declarations of its own of these names ---- */
#define __expf sim_expf
#define __exp10f sim_exp10f
#define __log2f sim_log2f
#define __logf sim_logf
#define __log10f sim_log10f
#define __powf sim_powf
#define __sinf sim_sinf
#define __cosf sim_cosf
#define __tanf sim_tanf
#define __sincosf sim_sincosf
static inline float sim_expf(float x) { return exp2f(x * 1.4426950408889634f); }
static inline float sim_exp10f(float x) { return exp2f(x * 3.3219280948873622f); }
static inline float sim_log2f(float x) { return log2f(x); }
static inline float sim_logf(float x) { return log2f(x) * 0.6931471805599453f; }
static inline float sim_log10f(float x) { return log2f(x) * 0.30102999566398120f; }
static inline float sim_powf(float x, float y) { return exp2f(y * log2f(x)); }
static inline float sim_sinf(float x) { return sinf(x); }
static inline float sim_cosf(float x) { return cosf(x); }
static inline float sim_tanf(float x) { return sinf(x) / cosf(x); }
static inline void sim_sincosf(float x, float *s, float *c) { sincosf(x, s, c); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

/* 0 for divisors above 2^126, as on the device */
static inline float __fdividef(float a, float b)
{
    return fabsf(b) > 0x1p126f && !isinf(b) ? 0.0f * a : a / b;
}

/* ---- conversions ---- */
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rd(float x) { return (int)floorf(x); }
static inline int __float2int_ru(float x) { return (int)ceilf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }
static inline unsigned __float2uint_rz(float x) { return (unsigned)x; }
static inline long long __float2ll_rn(float x) { return (long long)rintf(x); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline int __double2int_rn(double x) { return (int)rint(x); }
static inline double __int2double_rn(int x) { return (double)x; }
static inline double __ll2double_rn(long long x) { return (double)x; }

/* ---- integers ---- */
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((__extension__(unsigned __int128)a) * b >> 64);
}

static inline unsigned __brev(unsigned x)
{
    unsigned y = 0;
    for (int i = 0; i < 32; i++)
        y |= (x >> i & 1) << (31 - i);
    return y;
}

/* Four bytes chosen from those of (y, x) by the nibbles of `select`; bit 3 of a nibble: its sign */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select)
{
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned byte = (unsigned)(bytes >> (select >> 4 * i & 7) * 8) & 0xff;
        if (select >> 4 * i & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)(both << (shift & 31) >> 32);
}

static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)(both >> (shift & 31));
}

#endif
