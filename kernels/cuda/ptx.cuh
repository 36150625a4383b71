/* ptx.cuh -- PTX instructions without a CUDA C++ intrinsic: asynchronous copies, tensor cores.
 *
 * Keeps: the only inline PTX. sm_80 and later. tests/sim/ptx.h defines the same functions for
 *        the host, under the same include guard.
 * Method: PTX ISA, sections cp.async, ldmatrix, mma; each function notes which lane holds
 *         which element. */
#ifndef DIECAST_KERNELS_PTX_CUH
#define DIECAST_KERNELS_PTX_CUH

/* Returns threadIdx.x, read again at each call: values derived from it occupy no registers in
 * between. */
static __device__ __forceinline__ int thread_anew(void)
{
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

/* An address in shared memory: 4 bytes, where a generic pointer has 8. */
typedef unsigned SharedAddress;

static __device__ __forceinline__ SharedAddress shared_address(const void *p)
{
    return (SharedAddress)__cvta_generic_to_shared(p);
}

/* Begins to copy 16 bytes from global memory; both addresses are multiples of 16. bytes 0: zeros,
 * and nothing is read. */
static __device__ __forceinline__ void copy16_async(SharedAddress to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* The copies that this thread began since the last commit become a group. */
static __device__ __forceinline__ void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the PENDING newest groups of this thread are pending. Other threads see the
 * data after the next barrier. */
template <int PENDING> static __device__ __forceinline__ void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
}

/* Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8 (a
 * multiple of 16) and receives of each matrix row l / 4, columns 2 (l % 4) and the next. */
static __device__ __forceinline__ void matrices_load(unsigned r[4], SharedAddress row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

/* The same with each matrix transposed: column l / 4, rows 2 (l % 4) and the next. */
static __device__ __forceinline__ void matrices_load_transposed(unsigned r[4], SharedAddress row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

/* Transposes an 8 x 8 matrix of 16-bit elements: lane l gives of row l / 4 columns 2 (l % 4) and
 * the next, and receives of column l / 4 those rows. */
static __device__ __forceinline__ unsigned matrix_turned(unsigned row)
{
    unsigned column;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
    return column;
}

/* c (16, 8) += a (16, 16) b (16, 8), summed in fp32. With g = l / 4 and t = 2 (l % 4), lane l holds
 *   a: rows g, g + 8, g, g + 8 of columns t, t, t + 8, t + 8, each with the next column;
 *   b: rows t, t + 8 of column g, each with the next row;
 *   c: rows g, g, g + 8, g + 8 of columns t, t + 1, t, t + 1. */
#define PTX_PRODUCT(type)                                                                       \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "        \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                         \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

static __device__ __forceinline__ void product_bf16(float c[4], const unsigned a[4], unsigned b0,
                                                    unsigned b1)
{
    PTX_PRODUCT("bf16");
}

static __device__ __forceinline__ void product_f16(float c[4], const unsigned a[4], unsigned b0,
                                                   unsigned b1)
{
    PTX_PRODUCT("f16");
}
#undef PTX_PRODUCT

/* 2^x to about 2 ulp; 2^-inf = 0. */
static __device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
