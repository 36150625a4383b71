/* ptx.h -- the functions of kernels/cuda/ptx.cuh for the host: which lane holds which element.
 *
 * In:    included before a source (-include): its own include of ptx.cuh finds the guard taken.
 * Keeps: copies arrive at the wait, not before; products are exact, added to c with one rounding.
 * Method: lanes lay down what they hold (sim_warp_exchange_all) and pick what they need. */
#ifndef DIECAST_KERNELS_PTX_CUH
#define DIECAST_KERNELS_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef const unsigned char *SharedAddress;

static inline int thread_anew(void)
{
    return (int)threadIdx.x;
}

static inline SharedAddress shared_address(const void *p)
{
    return (SharedAddress)p;
}

static inline void copy16_async(SharedAddress to, const void *from, int bytes)
{
    sim_async_copy((void *)(uintptr_t)to, from, 16, (unsigned)bytes);
}

static inline void copy_commit(void)
{
    sim_async_commit();
}

template <int PENDING> static inline void copy_wait(void)
{
    sim_async_wait(PENDING);
}

/* The result of the exchange belongs to the simulator: its reads are not those of the kernel. */
#define SIM_UNSEEN __attribute__((no_sanitize_thread, noinline)) static

SIM_UNSEEN void sim_matrices(unsigned r[4], const uint4 *row, bool transposed)
{
    const unsigned char *rows = sim_warp_exchange_all(row, 16, "ldmatrix");
    const int lane = sim_lane(), outer = lane / 4, inner = lane % 4 * 2;
    for (int m = 0; m < 4; m++) {
        unsigned short pair[2];
        for (int i = 0; i < 2; i++) {
            const int y = transposed ? inner + i : outer, x = transposed ? outer : inner + i;
            memcpy(pair + i, rows + 64 * (8 * m + y) + 2 * x, 2);
        }
        r[m] = pair[0] | (unsigned)pair[1] << 16;
    }
}

static inline void matrices_load(unsigned r[4], SharedAddress row)
{
    const uint4 mine = *(const uint4 *)row;
    sim_matrices(r, &mine, false);
}

static inline void matrices_load_transposed(unsigned r[4], SharedAddress row)
{
    const uint4 mine = *(const uint4 *)row;
    sim_matrices(r, &mine, true);
}

SIM_UNSEEN void sim_turned(unsigned *x)
{
    const unsigned char *rows = sim_warp_exchange_all(x, 4, "movmatrix");
    const int lane = sim_lane();
    unsigned short pair[2];
    for (int i = 0; i < 2; i++)
        memcpy(pair + i, rows + 64 * (4 * (lane % 4 * 2 + i) + lane / 8) + lane / 4 % 2 * 2, 2);
    *x = pair[0] | (unsigned)pair[1] << 16;
}

static inline unsigned matrix_turned(unsigned row)
{
    sim_turned(&row);
    return row;
}

static inline void product_bf16(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    sim_product(c, mine, 1);
}

static inline void product_f16(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    sim_product(c, mine, 0);
}

#undef SIM_UNSEEN

static inline float exp2_approx(float x)
{
    return exp2f(x);
}

#endif
