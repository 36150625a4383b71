/* harness.h -- what a file of CUDA kernel tests needs: TEST(name) { ... } registers, main.cpp runs.
 *
 * In:    SEED in the environment repeats a run; the seed is printed.
 * Keeps: a body runs twice (TWICE) on the same inputs, and all that passes through a check_ must have the
 *        same bits each time. What it starts by run() is called plainly the first time and captured
 *        into a graph the second. The same files run on the simulator and on a GPU.
 *        FULL: everything in every type (a GPU, make soak); else what costs most in bf16 only. */
#ifndef DIECAST_TESTS_CUDA_HARNESS_H
#define DIECAST_TESTS_CUDA_HARNESS_H

#ifndef FULL
#define FULL 0
#endif
#if FULL || defined ACT_BF16
#define TWICE 1
#else
#define TWICE 0
#endif

#include <functional>

#include "../../kernels/cuda/types.cuh"

/* How a file looks:
 *
 *     #include "../../kernels/cuda/NAME.cuh"
 *     #include "unwatched.h"
 *     #include "harness.h"
 *
 *     TEST(add_fwd)
 *     {
 *         const int64_t n = 1003;
 *         act_t *a = act_normal(n, 0, 1), *y = NEW(act_t, n);       // device
 *         double *a_ = act_double(a, n), *want = HOST(double, n);   // host
 *         add_fwd_ref(want, a_, ...);
 *         run([&] { add_fwd(y, a, ..., stream); });
 *         check_act("y", y, want, n, 1);
 *     }
 *
 * Each file is a program of its own for each act_t. Pointers below are device memory unless they
 * are `double *` or said to be the host's. Nobody frees anything. */
struct Test {
    const char *name;
    void (*body)();
    bool bench;                 /* run under --bench only */
    Test *next;
    Test(const char *name_, void (*body_)(), bool bench_);
};

#define TEST_(name, body, bench)                           \
    static void body();                                    \
    static Test body##_entry(#name, body, bench);          \
    static void body()
#define TEST(name) TEST_(name, test_##name, false)
#ifdef __CUDACC__
#define BENCH(name) TEST_(name, bench_##name, true)
#else       /* the simulator has no speeds: read, but not compiled */
#define BENCH(name) template <typename> static void bench_##name()
#endif

/* Everything goes here: kernels, copies and clears. It does not wait for the legacy stream. */
extern cudaStream_t stream;
extern int guard_bytes;          /* in front of and after each buffer; 0: something else looks at bounds */
/* Kernels that the calls of `work` start on `stream`; done on return. Called once, or captured: a
 * launcher that may not be captured fails here. Results must not depend on which. */
void run(const std::function<void()> &work);

/* Memory, an allocation each. On the device as nothing wrote it: the simulator reports its reads;
 * on a GPU it is NaN between guard zones, which are verified after the body. On the host NaN. */
void *new_bytes(int64_t bytes);
void *host_bytes(int64_t bytes);
#define NEW(type, n) ((type *)new_bytes((int64_t)sizeof(type) * (n)))
#define HOST(type, n) ((type *)host_bytes((int64_t)sizeof(type) * (n)))

/* Every byte of device memory becomes `value`, in the order of `stream`. */
void fill_bytes(void *to, int value, int64_t bytes);

/* Copies between the two; sizes in bytes. */
void *to_device(const void *host, int64_t bytes);
void *to_host(const void *device, int64_t bytes);
template <typename V> V *upload(const V *host, int64_t n)
{
    return (V *)to_device(host, (int64_t)sizeof(V) * n);
}
template <typename V> V *download(const V *device, int64_t n)
{
    return (V *)to_host(device, (int64_t)sizeof(V) * n);
}
/* Device to device: n elements, then zeros up to `to`. */
template <typename V> V *padded(const V *x, int64_t n, int64_t to)
{
    V *host = HOST(V, to);
    memset((void *)host, 0, sizeof(V) * (size_t)to);
    memcpy((void *)host, download(x, n), sizeof(V) * (size_t)n);
    return upload(host, to);
}
act_t *act_copy(const act_t *x, int64_t n);              /* device to device */
float *f32_copy(const float *x, int64_t n);
double *act_double(const act_t *x, int64_t n);           /* the values, on the host */
double *f32_double(const float *x, int64_t n);

/* Random numbers. */
uint32_t random_u32();
int64_t random_below(int64_t n);             /* 0..n-1 */
double random_normal();

/* Inputs. Values are those that the storage type holds, so that the double copy is exact. */
act_t *act_normal(int64_t n, double mean, double std);
float *f32_normal(int64_t n, double mean, double std);
act_t *act_integers(int64_t n, int bound);   /* -bound..bound */
float *f32_integers(int64_t n, int bound);
int32_t *tokens_random(int64_t n, int64_t V);
act_t *act_from(const double *values, int64_t n);        /* rounded */
float *f32_from(const double *values, int64_t n);

/* Outputs against a double reference, within the one tolerance, of ../kernels/numbers.h; depth:
 * terms added up for one output (1 for element-wise). check_via_act is for a float output computed from
 * values rounded to act_t. */
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

/* grad (n) against central differences of loss() in a sample of the elements of x (n), all host; of
 * double references, which are the same in all types: with fp32's inputs. */
void check_gradient(const char *what, const std::function<double()> &loss, double *x,
                    const double *grad, int64_t n);
double dot(const double *a, const double *b, int64_t n);

/* Seconds of one call of work, from a graph of several calls, the median of several; and a line of
 * the bench table. bytes, flops of one call; 0: absent. */
double bench_time(const std::function<void()> &work);
void bench_report(const char *what, double seconds, double bytes, double flops);

#endif
