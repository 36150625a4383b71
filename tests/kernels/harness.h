/* harness.h -- what a file of kernel tests needs: TEST(name) { ... } registers, main.c runs it.
 *
 * In:    SEED in the environment repeats a run; the seed is printed. A test has a stream of its own.
 * Keeps: a body runs with 1, 2 and 3 threads on the same inputs, and everything that passes through
 *        a check_ must have the same bits each time.
 * Buffers come filled with NaN between guard zones, verified after the body; nobody frees them. */
#ifndef DIECAST_TESTS_KERNELS_HARNESS_H
#define DIECAST_TESTS_KERNELS_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../kernels/cpu/types.h"

typedef struct Test Test;
struct Test {
    const char *name;
    void (*body)(void);
    bool bench;                 /* run under --bench only */
    Test *next;
};
void harness_register(Test *t);

#define TEST_(name_, bench_)                                                                 \
    static void test_##name_(void);                                                          \
    static Test entry_##name_ = { .name = #name_, .body = test_##name_, .bench = bench_ };   \
    __attribute__((constructor)) static void register_##name_(void)                          \
    {                                                                                        \
        harness_register(&entry_##name_);                                                    \
    }                                                                                        \
    static void test_##name_(void)
#define TEST(name) TEST_(name, false)
#ifdef BENCHES
#define BENCH(name) TEST_(name, true)
#else       /* read, but not compiled */
#define BENCH(name) __attribute__((unused)) static void test_##name(void)
#endif

/* Memory: 64-byte aligned, NaN in every element. */
void *new_bytes(int64_t bytes);
#define NEW(type, n) ((type *)new_bytes((int64_t)sizeof(type) * (n)))

/* Random numbers. */
uint32_t random_u32(void);
int64_t random_below(int64_t n);             /* 0..n-1 */
double random_normal(void);

/* Inputs. Values are those that the storage type holds, so that a double copy is exact. */
act_t *act_normal(int64_t n, double mean, double std);
float *f32_normal(int64_t n, double mean, double std);
act_t *act_integers(int64_t n, int bound);   /* -bound..bound */
float *f32_integers(int64_t n, int bound);
int32_t *tokens_random(int64_t n, int64_t V);
double *act_double(const act_t *x, int64_t n);           /* copies */
double *f32_double(const float *x, int64_t n);
act_t *act_copy(const act_t *x, int64_t n);
float *f32_copy(const float *x, int64_t n);

/* Outputs against a double reference, within the one tolerance, of numbers.h. check_via_act is for a
 * float output computed from values rounded to act_t. */
void check_act(const char *what, const act_t *got, const double *ref, int64_t n, int64_t depth);
void check_f32(const char *what, const float *got, const double *ref, int64_t n, int64_t depth);
void check_via_act(const char *what, const float *got, const double *ref, int64_t n, int64_t depth);
/* The same where results may be small against the terms added up for them; terms (n), from terms.h. */
void check_act_terms(const char *what, const act_t *got, const double *ref, const double *terms,
                     int64_t n, int64_t depth);
void check_f32_terms(const char *what, const float *got, const double *ref, const double *terms,
                     int64_t n, int64_t depth);
void check_via_act_terms(const char *what, const float *got, const double *ref, const double *terms,
                         int64_t n, int64_t depth);
/* Exactly the reference rounded to the type: for integer-valued inputs. */
void check_act_exact(const char *what, const act_t *got, const double *ref, int64_t n);
void check_f32_exact(const char *what, const float *got, const double *ref, int64_t n);
void check_same(const char *what, const void *a, const void *b, int64_t bytes);  /* all bits */
void check_true(const char *what, bool ok);

/* grad (n) against central differences of loss(ctx) in a sample of the elements of x (n); of double
 * references, which are the same in both types: with fp32's inputs. */
void check_gradient(const char *what, double (*loss)(void *ctx), void *ctx, double *x,
                    const double *grad, int64_t n);
double dot(const double *a, const double *b, int64_t n);

/* Time of one call of run(ctx), seconds, the best of several; and a line of the bench table. */
double bench_time(void (*run)(void *ctx), void *ctx);
void bench_report(const char *what, double seconds, double bytes, double flops);  /* 0: absent */

#endif
