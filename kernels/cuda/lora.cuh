/* lora.cuh -- the LoRA adapters of one linear layer (Hu et al. 2021), as PEFT computes them.
 *
 * In:    x (rows, in), y (rows, out) act_t; a (parts * rank, in); b: the parts' (width, rank).
 * Out:   y[:, col_p ..] += u_p b_p^T, u_p = scale * drop_p(x) a_p^T; u is kept for the backward.
 *        Folded: u follows the columns of x, b those of w, and the layer's product is
 *        y = [x | u] [w | b]^T.
 * Keeps: part p draws the mask of site * 4 + p, never stored. Products: cuBLASLt, see lora.def. */
#ifndef DIECAST_KERNELS_LORA_CUH
#define DIECAST_KERNELS_LORA_CUH

#include "gemm.cuh"
#include "philox.cuh"
#include "types.cuh"
#include "workspace.h"

enum {
    LORA_PARTS = 4,
    LORA_THREADS = 256,
    /* of the block of dx that is updated at a time: a warp has 4 rows, a lane 4 columns */
    LORA_ROWS = 32, LORA_COLS = 128, LORA_DEPTH = 32, LORA_OWN = 4
};

/* y = drop(x), (rows, in), x's rows ldx apart: a block a row. */
__global__ void __launch_bounds__(LORA_THREADS)
    lora_drop_kernel(act_t *__restrict__ y, const act_t *__restrict__ x,
                     const uint32_t *__restrict__ noise, uint32_t site, int64_t T, int64_t in,
                     int64_t ldx, uint32_t threshold, float scale)
{
    const int64_t row = blockIdx.x;
    const bool quads = in % 4 == 0 && ldx % 4 == 0;
    x += row * ldx;
    y += row * in;
    for (int64_t c = 4 * (int64_t)threadIdx.x; c < in; c += 4 * LORA_THREADS) {
        float mask[4], v[4];
        dropout_mask4(mask, noise, site, T, row, (uint32_t)(c / 4), threshold, scale);
        if (quads) {
            act_load4(v, x + c);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[j] *= mask[j];
            act_store4(y + c, v);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (c + j < in)
                    act_store(y + c + j, act_load(x + c + j) * mask[j]);
        }
    }
}

/* First columns of the parts of y, and their widths. */
struct LoraParts {
    int64_t col[LORA_PARTS], width[LORA_PARTS];
};

/* w[:, in ..] (out, parts * rank), rows ldw apart = the parts' b, part p in rows col_p .. and
 * columns p * rank .., 0 elsewhere: a warp a row. */
__global__ void __launch_bounds__(LORA_THREADS)
    lora_place_kernel(wt_t *__restrict__ w, const wt_t *__restrict__ b, int64_t out, int64_t in,
                      int64_t ldw, int rank, int parts, LoraParts at)
{
    const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    if (row >= out)
        return;
    for (int p = 0; p < parts; b += at.width[p++] * rank) {
        const int64_t r = row - at.col[p];
        const bool mine = r >= 0 && r < at.width[p];
        for (int j = threadIdx.x; j < rank; j += WARP)
            act_store(w + row * ldw + in + p * rank + j, mine ? act_load(b + r * rank + j) : 0.0f);
    }
}

/* m[l][j] (LORA_DEPTH, LORA_COLS) = rows r + l, columns c0 + j of a (.., in); 0 beyond them. */
static __device__ __forceinline__ void lora_tile_a_(float (*m)[LORA_COLS], const wt_t *a, int64_t r,
                                                    int depth, int64_t c0, int64_t in)
{
#pragma unroll 4
    for (int i = threadIdx.x; i < LORA_DEPTH * LORA_COLS; i += LORA_THREADS) {
        const int l = i / LORA_COLS, j = i % LORA_COLS;
        m[l][j] = l < depth && c0 + j < in ? act_load(a + (r + l) * in + c0 + j) : 0.0f;
    }
}

/* m[l][i] (LORA_DEPTH, LORA_ROWS) = the columns r + l of rows row0 + i of u (rows, all). */
static __device__ __forceinline__ void lora_tile_u_(float (*m)[LORA_ROWS], const act_t *u,
                                                    int64_t r, int depth, int64_t row0,
                                                    int64_t rows, int64_t all)
{
    for (int k = threadIdx.x; k < LORA_DEPTH * LORA_ROWS; k += LORA_THREADS) {
        const int l = k / LORA_ROWS, i = k % LORA_ROWS;
        m[l][i] = l < depth && row0 + i < rows ? act_load(u + (row0 + i) * all + r + l) : 0.0f;
    }
}

/* sum[i] += own rows i of u_p times the lane's columns of a_p, through the tiles. */
static __device__ __forceinline__ void lora_product_(float (*sum)[4], float (*ta)[LORA_COLS],
                                                     float (*tu)[LORA_ROWS])
{
    const int column = threadIdx.x % WARP * 4, own = threadIdx.x / WARP * LORA_OWN;
#pragma unroll 4
    for (int l = 0; l < LORA_DEPTH; l++) {
        float m[4], f[LORA_OWN];
        f32_load4(m, &ta[l][column]);
        f32_load4(f, &tu[l][own]);
#pragma unroll
        for (int i = 0; i < LORA_OWN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] += f[i] * m[j];
    }
}

/* to (4) += v, of which the first n are there; all or none where rows are of whole quads. */
static __device__ __forceinline__ void lora_add_(act_t *to, const float v[4], int64_t n, bool quads)
{
    float old[4];
    if (quads && n > 0) {
        act_load4(old, to);
#pragma unroll
        for (int j = 0; j < 4; j++)
            old[j] += v[j];
        act_store4(to, old);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < n)
                act_store(to + j, act_load(to + j) + v[j]);
    }
}

/* dx (rows, in) += the sum over parts of drop_p(du_p a_p). */
__global__ void __launch_bounds__(LORA_THREADS, 2)
    lora_update_kernel(act_t *dx, const act_t *__restrict__ du, const wt_t *__restrict__ a,
                       const uint32_t *__restrict__ noise, uint32_t site, int64_t T, int64_t rows,
                       int64_t in, int rank, int parts, uint32_t threshold, float scale)
{
    __shared__ __align__(16) float ta[LORA_DEPTH][LORA_COLS], tu[LORA_DEPTH][LORA_ROWS];
    const int64_t row0 = blockIdx.x * (int64_t)LORA_ROWS, c0 = blockIdx.y * (int64_t)LORA_COLS;
    const int64_t own = row0 + threadIdx.x / WARP * LORA_OWN, c = c0 + threadIdx.x % WARP * 4;
    float total[LORA_OWN][4] = { { 0 } };
    for (int p = 0; p < parts; p++) {
        float sum[LORA_OWN][4] = { { 0 } };
        for (int r = 0; r < rank; r += LORA_DEPTH) {
            const int depth = rank - r < LORA_DEPTH ? rank - r : LORA_DEPTH;
            const int64_t first = (int64_t)p * rank + r;
            __syncthreads();             // the tiles of before have been used
            lora_tile_a_(ta, a, first, depth, c0, in);
            lora_tile_u_(tu, du, first, depth, row0, rows, (int64_t)parts * rank);
            __syncthreads();
            lora_product_(sum, ta, tu);
        }
#pragma unroll
        for (int i = 0; i < LORA_OWN; i++) {
            float mask[4];
            dropout_mask4(mask, noise, site * LORA_PARTS + p, T, own + i, (uint32_t)(c / 4),
                          threshold, scale);
#pragma unroll
            for (int j = 0; j < 4; j++)
                total[i][j] += sum[i][j] * mask[j];
        }
    }
#pragma unroll
    for (int i = 0; i < LORA_OWN; i++)
        if (own + i < rows)
            lora_add_(dx + (own + i) * in + c, total[i], in - c, in % 4 == 0);
}

#ifndef __CUDACC_RTC__
/* One layer in one pass; its products are those of lora.def. For lora_dy.cuh `in` are the columns
 * before u in its rows, which are `row` apart. */
struct Lora {
    int64_t rows, in, row;                           /* row: from row to row of x, folded of w */
    int64_t out = 0;                                 /* rows of w, columns of dy; where read */
    int64_t rank, parts;
    int64_t col[LORA_PARTS], width[LORA_PARTS];      /* columns of y that a part adds to */
    float dropout = 0;                               /* probability to drop, < 1 */
    int64_t T = 0;                                   /* positions a sequence, for the masks */
    float scale = 1;                                 /* of du in lora_dy.cuh; products have it */
    /* with dropout u and da are products of one part, else of all at once */
    const Gemm *u = NULL, *y[LORA_PARTS] = {};                           /* forward */
    const Gemm *du[LORA_PARTS] = {}, *db[LORA_PARTS] = {}, *da = NULL, *dx = NULL;
};

static inline void lora_drop_(act_t *y, const act_t *x, const uint32_t *noise, uint32_t site,
                              const Lora *l, cudaStream_t s)
{
    launch(lora_drop_kernel, (unsigned)l->rows, LORA_THREADS, 0, s, y, x, noise, site, l->T, l->in,
           l->row, dropout_threshold(l->dropout), 1.0f / (1.0f - l->dropout));
}

/* Addresses of the parts of ws. */
static inline act_t *lora_du_(void *ws)
{
    return (act_t *)((char *)ws + CUDA_GEMM_WORKSPACE);
}

static inline act_t *lora_dropped_(void *ws, const Lora *l)
{
    return (act_t *)((char *)ws + lora_cuda_workspace(l->rows, l->in, l->rank, l->parts, 0,
                                                      sizeof(act_t)));
}

/* noise: see philox.cuh; not read when dropout is 0. ws: lora_cuda_workspace(...) bytes. */
static inline void lora_fwd(act_t *y, act_t *u, const act_t *x, const wt_t *a, const wt_t *b,
                            const uint32_t *noise, uint32_t site, const Lora *l, void *ws,
                            cudaStream_t s)
{
    act_t *dropped = lora_dropped_(ws, l);
    if (l->dropout == 0)
        gemm_run(l->u, u, x, a, NULL, NULL, ws, s);
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank) {
        const int64_t first = p * l->rank;
        if (l->dropout > 0) {
            lora_drop_(dropped, x, noise, site * LORA_PARTS + (uint32_t)p, l, s);
            gemm_run(l->u, u + first, dropped, a + first * l->in, NULL, NULL, ws, s);
        }
        gemm_run(l->y[p], y + l->col[p], u + first, b, NULL, NULL, ws, s);
    }
}

/* Called before the product y = x w^T over the columns of both: writes u after the columns of x,
 * and b after those of w, overwriting the previous contents. */
static inline void lora_fold(act_t *x, wt_t *w, const wt_t *a, const wt_t *b, const uint32_t *noise,
                             uint32_t site, const Lora *l, void *ws, cudaStream_t s)
{
    act_t *u = x + l->in, *dropped = lora_dropped_(ws, l);
    LoraParts at;
    memcpy(at.col, l->col, sizeof at.col);
    memcpy(at.width, l->width, sizeof at.width);
    launch(lora_place_kernel, blocks_over(l->out, LORA_THREADS / WARP),
           dim3(WARP, LORA_THREADS / WARP), 0, s, w, b, l->out, l->in, l->row, (int)l->rank,
           (int)l->parts, at);
    if (l->dropout == 0)
        gemm_run(l->u, u, x, a, NULL, NULL, ws, s);
    for (int64_t p = 0; p < l->parts && l->dropout > 0; p++) {
        lora_drop_(dropped, x, noise, site * LORA_PARTS + (uint32_t)p, l, s);
        gemm_run(l->u, u + p * l->rank, dropped, a + p * l->rank * l->in, NULL, NULL, ws, s);
    }
}

/* da = du^T x, of du (rows, parts * rank). */
static inline void lora_da(float *da, const act_t *du, const act_t *x, const uint32_t *noise,
                           uint32_t site, const Lora *l, void *ws, cudaStream_t s)
{
    act_t *dropped = lora_dropped_(ws, l);
    if (l->dropout == 0)
        gemm_run(l->da, da, du, x, NULL, NULL, ws, s);
    for (int64_t p = 0; p < l->parts && l->dropout > 0; p++) {
        const int64_t first = p * l->rank;
        lora_drop_(dropped, x, noise, site * LORA_PARTS + (uint32_t)p, l, s);
        gemm_run(l->da, da + first * l->in, du + first, dropped, NULL, NULL, ws, s);
    }
}

/* dx += du a */
static inline void lora_dx(act_t *dx, const act_t *du, const wt_t *a, const uint32_t *noise,
                           uint32_t site, const Lora *l, void *ws, cudaStream_t s)
{
    if (l->dropout == 0)
        gemm_run(l->dx, dx, du, a, NULL, NULL, ws, s);
    else
        launch(lora_update_kernel,
               dim3(blocks_over(l->rows, LORA_ROWS), blocks_over(l->in, LORA_COLS)), LORA_THREADS,
               0, s, dx, du, a, noise, site, l->T, l->rows, l->in, (int)l->rank, (int)l->parts,
               dropout_threshold(l->dropout), 1.0f / (1.0f - l->dropout));
}

/* dx is added to; u as the forward pass has left it, folded u = x + in. */
static inline void lora_bwd(act_t *dx, float *da, float *db, const act_t *dy, const act_t *x,
                            const act_t *u, const wt_t *a, const wt_t *b, const uint32_t *noise,
                            uint32_t site, const Lora *l, void *ws, cudaStream_t s)
{
    act_t *du = lora_du_(ws);
    int64_t above = 0;
    for (int64_t p = 0; p < l->parts; above += l->width[p++] * l->rank) {
        const int64_t first = p * l->rank;
        gemm_run(l->du[p], du + first, dy + l->col[p], b + above, NULL, NULL, ws, s);
        gemm_run(l->db[p], db + above, dy + l->col[p], u + first, NULL, NULL, ws, s);
    }
    lora_da(da, du, x, noise, site, l, ws, s);
    lora_dx(dx, du, a, noise, site, l, ws, s);
}
#endif

#endif
