/* checks.h -- what main.c and ../cuda/main.cpp share: draws and checks (C and C++).
 *
 * In:    harness.h of the one that includes it; HOST(type, n), memory of the host; hash().
 * Keeps: check_ functions as declared there. */
#ifndef DIECAST_TESTS_KERNELS_CHECKS_H
#define DIECAST_TESTS_KERNELS_CHECKS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "numbers.h"

#ifdef ACT_BF16
#define ACT_EPS EPS_BF16
#elif defined ACT_F16
#define ACT_EPS EPS_F16
#else
#define ACT_EPS EPS_F32
#endif

static char why[512];                    /* the first failure of the running test, or empty */
static uint64_t rng;

/* The bytes, on the host; they go into the digest of the body's results. */
static const void *hash(const void *data, int64_t bytes);

__attribute__((format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
    if (why[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
}

uint32_t random_u32(void)
{
    return (uint32_t)(numbers_next(&rng) >> 32);
}

int64_t random_below(int64_t n)
{
    return (int64_t)(numbers_next(&rng) % (uint64_t)n);
}

double random_normal(void)
{
    return numbers_normal(&rng);
}

static void compare(const char *what, const double *got, const double *ref, const double *terms,
                    int64_t n, int64_t depth, double eps)
{
    int64_t at;
    const double worst = numbers_worst(got, ref, terms, n, depth, eps, &at);
    if (getenv("VERBOSE"))
        printf("# %s[%lld of %lld]: %.2f of the tolerance\n", what, (long long)at, (long long)n,
               worst);
    if (!(worst <= 1))
        fail("%s[%lld of %lld]: want %.9g, got %.9g, %.1f times the tolerance", what,
             (long long)at, (long long)n, ref[at], got[at], worst);
}

void check_act_terms(const char *what, const act_t *got, const double *ref, const double *terms,
                     int64_t n, int64_t depth)
{
    hash(got, n * (int64_t)sizeof *got);
    compare(what, act_double(got, n), ref, terms, n, depth, ACT_EPS);
}

void check_f32_terms(const char *what, const float *got, const double *ref, const double *terms,
                     int64_t n, int64_t depth)
{
    hash(got, n * (int64_t)sizeof *got);
    compare(what, f32_double(got, n), ref, terms, n, depth, EPS_F32);
}

void check_via_act_terms(const char *what, const float *got, const double *ref, const double *terms,
                         int64_t n, int64_t depth)
{
    hash(got, n * (int64_t)sizeof *got);
    compare(what, f32_double(got, n), ref, terms, n, depth, ACT_EPS);
}

void check_act(const char *what, const act_t *got, const double *ref, int64_t n, int64_t depth)
{
    check_act_terms(what, got, ref, NULL, n, depth);
}

void check_f32(const char *what, const float *got, const double *ref, int64_t n, int64_t depth)
{
    check_f32_terms(what, got, ref, NULL, n, depth);
}

void check_via_act(const char *what, const float *got, const double *ref, int64_t n, int64_t depth)
{
    check_via_act_terms(what, got, ref, NULL, n, depth);
}

static void compare_exact(const char *what, const double *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(got[i] == want[i])) {
            fail("%s[%lld of %lld]: want exactly %.9g, got %.9g", what, (long long)i,
                 (long long)n, want[i], got[i]);
            return;
        }
}

void check_act_exact(const char *what, const act_t *got, const double *ref, int64_t n)
{
    double *want = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = act_round((float)ref[i]);
    hash(got, n * (int64_t)sizeof *got);
    compare_exact(what, act_double(got, n), want, n);
}

void check_f32_exact(const char *what, const float *got, const double *ref, int64_t n)
{
    double *want = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = (float)ref[i];
    hash(got, n * (int64_t)sizeof *got);
    compare_exact(what, f32_double(got, n), want, n);
}

void check_true(const char *what, bool ok)
{
    if (!ok)
        fail("%s: false", what);
}

double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

#endif
