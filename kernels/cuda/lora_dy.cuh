/* lora_dy.cuh -- what the adapters of a layer need of dy, the gradient of its output, in one pass:
 * du = scale dy b and db = dy^T u; alone, or inside the gradient of the gated unit that makes dy.
 *
 * In:    dy (rows, out) act_t, or the operands of gated_bwd; u (rows, parts * rank) in rows l->row
 *        apart, after l->in columns; b: the parts' (width, rank).
 * Out:   du (rows, parts * rank) act_t; db, added to or overwritten; dy.
 * Keeps: 16-bit types. Sums in fp32 in one order, the same alone and inside. Pointers, parts and
 *        row strides are multiples of 16 bytes; see fits_lora_dy.
 * Method: a block owns columns of a part, a stripe, and a share of the rows. Tensor cores multiply
 *         each tile of dy by b and, transposed, by u: half of the warps keep du of a row of tiles
 *         in registers, the others db of the stripe in shared memory. A second kernel adds the
 *         stripes of du and the shares of db. */
#ifndef DIECAST_KERNELS_LORA_DY_CUH
#define DIECAST_KERNELS_LORA_DY_CUH

#include "lora.cuh"
#include "pointwise.cuh"
#include "ptx.cuh"

enum { NO_GATE = -1 };                           /* as SILU_GATE and GELU_GATE */

/* Blocks with a gate that a multiprocessor has registers for; sm_80 has shared memory for one. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ == 800
static constexpr int LORA_DY_GATED_BLOCKS = 1;
#else
static constexpr int LORA_DY_GATED_BLOCKS = 2;
#endif

/* A tile is LORA_DY_TILE rows and columns of dy; with a gate it has two halves of so many columns,
 * of the gates and of up. Rows lie an odd number of 16-byte units apart in shared memory, see
 * attention_mma.cuh. */
template <int RANK, int GATE> struct LoraDy {
    static constexpr int HALVES = GATE == NO_GATE ? 1 : 2;
    static constexpr int THREADS = 256, TILE = CUDA_LORA_DY_TILE, BANDS = TILE / 16;
    static constexpr int DEPTH = (RANK + 15) / 16 * 16, RUNS = DEPTH / 8;
    static constexpr int TILES = CUDA_LORA_DY_STRIPE(RANK) / TILE;    /* of a stripe */
    static constexpr int DY_ROW = 2 * (TILE + 8), RANK_ROW = 2 * (DEPTH + 8);    /* bytes */
    /* db of a stripe as fragments | dy | b | u, each of both halves */
    static constexpr int DB = 4 * TILES * TILE * DEPTH, DY = TILE * DY_ROW;
    static constexpr int MATRIX = TILE * RANK_ROW;
    static constexpr int SHARED = HALVES * (DB + DY + 2 * MATRIX);
    static constexpr int VECTORS = TILE * TILE / ACT_VECTOR / THREADS;   /* of a half */
};

/* Operands; dh and gu with a gate only. */
struct LoraDyOperands {
    act_t *dy = NULL;
    const act_t *dh = NULL, *gu = NULL, *u = NULL;
    const wt_t *b = NULL;
    float *du = NULL, *db = NULL;        /* of stripes and shares, see lora_dy_cuda_workspace */
    int64_t rows = 0, out = 0, row = 0;
    int rank = 0, parts = 0, stripes = 0;    /* stripes: of all parts; with a gate of each */
    LoraParts at = {};
};

/* A stripe, with a gate that of the gates: columns of dy, rows of b and columns of u. */
struct LoraDyStripe {
    int64_t col, b, u;
    int number, width;
};

static __device__ __forceinline__ LoraDyStripe lora_dy_stripe_of(const LoraDyOperands &o,
                                                                 int number, int columns)
{
    LoraDyStripe s = { 0, 0, 0, number, 0 };
    int first = number;
    for (int p = 0; p < o.parts; p++) {
        const int64_t width = o.at.width[p];
        const int stripes = (int)((width + columns - 1) / columns);
        if (first < stripes) {
            const int64_t from = (int64_t)first * columns;
            s.col = o.at.col[p] + from, s.b += from, s.u = (int64_t)p * o.rank;
            s.width = (int)(width - from < columns ? width - from : columns);
            return s;
        }
        first -= stripes, s.b += width;
    }
    return s;
}

/* The lanes' addresses for ldmatrix in 16 rows `row` bytes apart: four 8 x 8 matrices, first down
 * then across; or first across then down. */
static __device__ __forceinline__ int lora_dy_down_(int row)
{
    const int lane = (int)threadIdx.x % WARP;
    return lane % 16 * row + lane / 16 * 16;
}

static __device__ __forceinline__ int lora_dy_across_(int row)
{
    const int lane = (int)threadIdx.x % WARP;
    return (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * 16;
}

static __device__ __forceinline__ void lora_dy_multiply_(float c[4], const unsigned a[4],
                                                         unsigned b0, unsigned b1)
{
#ifdef ACT_BF16
    product_bf16(c, a, b0, b1);
#else
    product_f16(c, a, b0, b1);
#endif
}

/* c (16, DEPTH) += 16 rows of dy, or TURNED columns, times a matrix (TILE, DEPTH), b or u. */
template <typename D, bool TURNED>
static __device__ __forceinline__ void lora_dy_product_(float (*c)[4], SharedAddress dy,
                                                        SharedAddress matrix, int band)
{
    const SharedAddress from = TURNED ? dy + lora_dy_across_(D::DY_ROW) + band * 32
                                      : dy + lora_dy_down_(D::DY_ROW) + band * 16 * D::DY_ROW;
    const SharedAddress to = matrix + lora_dy_down_(D::RANK_ROW);
#pragma unroll
    for (int k = 0; k < D::BANDS; k++) {
        unsigned a[4], b[4];
        if (TURNED)
            matrices_load_transposed(a, from + k * 16 * D::DY_ROW);
        else
            matrices_load(a, from + k * 32);
#pragma unroll
        for (int n = 0; n < D::RUNS; n += 2) {
            matrices_load_transposed(b, to + k * 16 * D::RANK_ROW + n * 16);
            lora_dy_multiply_(c[n], a, b[0], b[1]);
            lora_dy_multiply_(c[n + 1], a, b[2], b[3]);
        }
    }
}

/* Begins to copy rows `row` elements apart, `rank` columns of each, to (TILE, DEPTH); zeros from
 * row n on and in columns from rank on. */
template <typename D>
static __device__ __forceinline__ void lora_dy_matrix_begin_(SharedAddress to, const act_t *from,
                                                             int64_t row, int n, int rank)
{
    for (int i = thread_anew(); i < D::TILE * D::RUNS; i += D::THREADS) {
        const int r = i / D::RUNS, run = i % D::RUNS;
        const bool there = r < n && run * 8 < rank;
        copy16_async(to + r * D::RANK_ROW + run * 16, there ? from + r * row + run * 8 : from,
                     there ? 16 : 0);
    }
}

/* A thread's vectors of a tile as they come from memory: of dy, or of dh, gate and up. */
template <typename D> struct LoraDyVectors {
    uint4 v[D::HALVES == 1 ? 1 : 3][D::VECTORS];
};

/* Row and column of a thread's vector i in a tile. */
template <typename D> static __device__ __forceinline__ int lora_dy_row_(int i)
{
    return (thread_anew() + i * D::THREADS) / (D::TILE / 8);
}

template <typename D> static __device__ __forceinline__ int lora_dy_column_(int i)
{
    return (thread_anew() + i * D::THREADS) % (D::TILE / 8) * 8;
}

/* The tile at row r0 and column c0 of the stripe; zeros outside of it. */
template <typename D>
static __device__ __forceinline__ void lora_dy_load_(LoraDyVectors<D> &to, const LoraDyOperands &o,
                                                     const LoraDyStripe &s, int64_t r0, int c0)
{
#pragma unroll
    for (int i = 0; i < D::VECTORS; i++) {
        const int64_t row = r0 + lora_dy_row_<D>(i);
        const int column = c0 + lora_dy_column_<D>(i);
        const bool there = row < o.rows && column < s.width;
        const int64_t at = row * o.out + s.col + column;
        const act_t *wide = D::HALVES == 1 ? o.dy + at : o.gu + at;
        to.v[0][i] = there ? *(const uint4 *)wide : uint4();
        if constexpr (D::HALVES == 2) {
            const int64_t F = o.out / 2;
            to.v[1][i] = there ? *(const uint4 *)(wide + F) : uint4();
            to.v[2][i] = there ? *(const uint4 *)(o.dh + row * F + s.col + column) : uint4();
        }
    }
}

static __device__ __forceinline__ uint4 lora_dy_pack_(const float v[ACT_VECTOR])
{
    return make_uint4(act_pack(v[0], v[1]), act_pack(v[2], v[3]), act_pack(v[4], v[5]),
                      act_pack(v[6], v[7]));
}

/* Their dy to shared memory; with a gate it is computed, and written to memory, too. */
template <typename D, int GATE>
static __device__ __forceinline__ void lora_dy_place_(act_t *tile, const LoraDyVectors<D> &from,
                                                      const LoraDyOperands &o,
                                                      const LoraDyStripe &s, int64_t r0, int c0)
{
    constexpr int ROW = D::DY_ROW / 2, HALF = D::DY / 2;
#pragma unroll
    for (int i = 0; i < D::VECTORS; i++) {
        act_t *to = tile + lora_dy_row_<D>(i) * ROW + lora_dy_column_<D>(i);
        if constexpr (GATE == NO_GATE) {
            *(uint4 *)to = from.v[0][i];
        } else {
            float g[ACT_VECTOR], u[ACT_VECTOR], d[ACT_VECTOR];
            act_load_vector(g, (const act_t *)&from.v[0][i]);
            act_load_vector(u, (const act_t *)&from.v[1][i]);
            act_load_vector(d, (const act_t *)&from.v[2][i]);
#pragma unroll
            for (int j = 0; j < ACT_VECTOR; j++)
                gate_grads<GATE>(d + j, u + j, g[j]);
            const uint4 of_gate = lora_dy_pack_(u), of_up = lora_dy_pack_(d);
            *(uint4 *)to = of_gate, *(uint4 *)(to + HALF) = of_up;
            const int64_t row = r0 + lora_dy_row_<D>(i);
            const int column = c0 + lora_dy_column_<D>(i);
            if (row < o.rows && column < s.width) {
                act_t *dy = o.dy + row * o.out + s.col + column;
                __stwb((uint4 *)dy, of_gate);
                __stwb((uint4 *)(dy + o.out / 2), of_up);
            }
        }
    }
}

/* Columns g and g + 8 of a warp's fragment c: 2 floats each of rows of `rank`, from row `row` on,
 * as far as there are n. */
template <typename D>
static __device__ __forceinline__ void lora_dy_store_(float *to, const float (*c)[4], int64_t row,
                                                      int64_t n, int rank)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < D::RUNS; k++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int64_t r = row + lane / 4 + i * 4;
            const int column = 8 * k + lane % 4 * 2;
            if (r < n && column < rank)
                *(float2 *)(to + r * rank + column) = make_float2(c[k][i], c[k][i + 1]);
        }
}

/* A lane's first sums of db in tile k of a half: 4 floats of each run, WARP apart. */
template <typename D>
static __device__ __forceinline__ float4 *lora_dy_own_(float4 *sums, int half, int k)
{
    const int band = (int)threadIdx.x / WARP % D::BANDS;
    return sums + ((half * D::TILES + k) * D::BANDS + band) * D::RUNS * WARP +
           (int)threadIdx.x % WARP;
}

/* Reads them; zeros if there are none yet. */
template <typename D>
static __device__ __forceinline__ void lora_dy_take_(float (*c)[4], const float4 *own, bool there)
{
#pragma unroll
    for (int n = 0; n < D::RUNS; n++) {
        const float4 sum = there ? own[n * WARP] : make_float4(0, 0, 0, 0);
        c[n][0] = sum.x, c[n][1] = sum.y, c[n][2] = sum.z, c[n][3] = sum.w;
    }
}

/* Block (x, y): stripe x, and with a gate that of up, too; share y of the rows' tiles. */
template <int RANK, int GATE>
static __device__ __forceinline__ void lora_dy_block_(const LoraDyOperands &o)
{
    typedef LoraDy<RANK, GATE> D;
    static_assert(D::THREADS == 2 * D::BANDS * WARP, "a warp each for 16 rows and 16 columns");
    DYNAMIC_SHARED(float4, sums);
    act_t *tile = (act_t *)((unsigned char *)sums + D::HALVES * D::DB);
    const SharedAddress dy_at = shared_address(tile), b_at = dy_at + D::HALVES * D::DY,
                        u_at = b_at + D::HALVES * D::MATRIX;
    const int band = (int)threadIdx.x / WARP % D::BANDS;
    const bool of_rows = (int)threadIdx.x / WARP < D::BANDS;    /* keeps du, not db */
    const LoraDyStripe s = lora_dy_stripe_of(o, (int)blockIdx.x, D::TILES * D::TILE);
    const int64_t F = o.out / 2;         /* rows of b from half to half */
    const int64_t all = (o.rows + D::TILE - 1) / D::TILE,
                  first = all * blockIdx.y / gridDim.y, last = all * (blockIdx.y + 1) / gridDim.y;
    const int tiles = (s.width + D::TILE - 1) / D::TILE;
    LoraDyVectors<D> next;
    lora_dy_load_(next, o, s, first * D::TILE, 0);
    for (int64_t t = first; t < last; t++) {
        const int64_t r0 = t * D::TILE;
        float c[D::HALVES][D::RUNS][4] = {};
        for (int k = 0; k < tiles; k++) {
            const int c0 = k * D::TILE;
            __syncthreads();             // the tile of before has been used
#pragma unroll
            for (int h = 0; h < D::HALVES; h++) {
                lora_dy_matrix_begin_<D>(b_at + h * D::MATRIX, o.b + (s.b + h * F + c0) * o.rank,
                                         o.rank, s.width - c0, o.rank);
                lora_dy_matrix_begin_<D>(u_at + h * D::MATRIX, o.u + r0 * o.row + s.u + h * o.rank,
                                         o.row,
                                         (int)(o.rows - r0 < D::TILE ? o.rows - r0 : D::TILE),
                                         o.rank);
            }
            copy_commit();
            lora_dy_place_<D, GATE>(tile, next, o, s, r0, c0);
            if (k + 1 < tiles)
                lora_dy_load_(next, o, s, r0, c0 + D::TILE);
            else if (t + 1 < last)
                lora_dy_load_(next, o, s, r0 + D::TILE, 0);
            copy_wait<0>();
            __syncthreads();
#pragma unroll
            for (int h = 0; h < D::HALVES; h++) {
                if (of_rows) {
                    lora_dy_product_<D, false>(c[h], dy_at + h * D::DY, b_at + h * D::MATRIX, band);
                    continue;
                }
                float4 *own = lora_dy_own_<D>(sums, h, k);
                lora_dy_take_<D>(c[h], own, t > first);
                lora_dy_product_<D, true>(c[h], dy_at + h * D::DY, u_at + h * D::MATRIX, band);
#pragma unroll
                for (int n = 0; n < D::RUNS; n++)
                    own[n * WARP] = make_float4(c[h][n][0], c[h][n][1], c[h][n][2], c[h][n][3]);
            }
        }
#pragma unroll
        for (int h = 0; h < D::HALVES && of_rows; h++)
            lora_dy_store_<D>(o.du + (s.number + h * o.stripes) * o.rows * o.rank, c[h],
                              r0 + band * 16, o.rows, o.rank);
    }
    int64_t widths = 0;
    for (int p = 0; p < o.parts; p++)
        widths += o.at.width[p];
#pragma unroll
    for (int h = 0; h < D::HALVES && !of_rows; h++)
        for (int k = 0; k < tiles; k++) {
            float d[D::RUNS][4];
            lora_dy_take_<D>(d, lora_dy_own_<D>(sums, h, k), true);
            lora_dy_store_<D>(o.db + (blockIdx.y * widths + s.b + h * F) * o.rank, d,
                              k * D::TILE + band * 16, s.width, o.rank);
        }
}

template <int RANK>
__global__ void __launch_bounds__(LoraDy<RANK, NO_GATE>::THREADS, RANK > CUDA_LORA_DY_SHORT ? 2 : 3)
    lora_dy_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, NO_GATE>(o);
}

template <int RANK, int GATE>
__global__ void __launch_bounds__(LoraDy<RANK, GATE>::THREADS, LORA_DY_GATED_BLOCKS)
    gated_bwd_lora_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, GATE>(o);
}

/* du = scale times the sum over the stripes of each part, db = the sum over the shares, added to
 * what is there if beta: 4 elements a thread. */
__global__ void __launch_bounds__(LORA_THREADS)
    lora_dy_sum_kernel(act_t *du, float *db, const float *__restrict__ du_sums,
                       const float *__restrict__ db_sums, int64_t rows, int64_t widths, int rank,
                       int parts, LoraParts stripes, int shares, float scale, int beta)
{
    const int64_t quad = blockIdx.x * (int64_t)LORA_THREADS + threadIdx.x;
    const int64_t of_du = rows * rank / 4, of_db = widths * rank / 4;
    float sum[4] = { 0 }, v[4];
    if (quad < parts * of_du) {
        const int64_t p = quad / of_du, at = quad % of_du * 4;
        for (int64_t s = stripes.col[p]; s < stripes.col[p] + stripes.width[p]; s++) {
            f32_load4(v, du_sums + s * rows * rank + at);
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[j] += v[j];
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[j] *= scale;
        act_store4(du + (at / rank * parts + p) * rank + at % rank, sum);
    } else if (quad < parts * of_du + of_db) {
        const int64_t at = (quad - parts * of_du) * 4;
        for (int s = 0; s < shares; s++) {
            f32_load4(v, db_sums + s * widths * rank + at);
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[j] += v[j];
        }
        if (beta) {
            f32_load4(v, db + at);
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[j] += v[j];
        }
        f32_store4(db + at, sum);
    }
}

#ifndef __CUDACC_RTC__
/* All parts' stripes as first number and count. */
static inline LoraParts lora_dy_stripes_(const Lora *l)
{
    LoraParts s = {};
    for (int64_t p = 0, n = 0; p < l->parts; n += s.width[p++]) {
        s.col[p] = n;
        s.width[p] = lora_dy_stripes(l->width[p], l->rank);
    }
    return s;
}

template <int RANK, int GATE>
static inline void lora_dy_run_(void (*kernel)(LoraDyOperands), LoraDyOperands o, act_t *du,
                                float *db, int beta, const Lora *l, void *ws, cudaStream_t s)
{
    typedef LoraDy<RANK, GATE> D;
    const LoraParts stripes = lora_dy_stripes_(l);
    const int last = (int)l->parts - 1;
    const int n = (int)(stripes.col[last] + stripes.width[last]);
    const int shares = (int)lora_dy_shares(l->rows, n);
    int64_t widths = 0;
    for (int64_t p = 0; p < l->parts; p++)
        widths += l->width[p];
    o.du = (float *)ws, o.db = o.du + n * l->rows * l->rank;
    o.rows = l->rows, o.out = l->out, o.row = l->row;
    o.rank = (int)l->rank, o.parts = (int)l->parts, o.stripes = n / D::HALVES;
    memcpy(o.at.col, l->col, sizeof o.at.col);
    memcpy(o.at.width, l->width, sizeof o.at.width);
    launch(kernel, dim3((unsigned)o.stripes, (unsigned)shares), D::THREADS, D::SHARED, s, o);
    launch(lora_dy_sum_kernel,
           blocks_over((l->parts * l->rows + widths) * l->rank / 4, LORA_THREADS), LORA_THREADS, 0,
           s, du, db, (const float *)o.du, (const float *)o.db, l->rows, widths, o.rank, o.parts,
           stripes, shares, l->scale, beta);
}

/* ws: lora_dy_cuda_workspace(...) bytes; RANK: l->rank. */
template <int RANK>
static inline void lora_dy(act_t *du, float *db, const act_t *dy, const act_t *u, const wt_t *b,
                           int beta, const Lora *l, void *ws, cudaStream_t s)
{
    const LoraDyOperands o = { .dy = (act_t *)dy, .u = u + l->in, .b = b };
    lora_dy_run_<RANK, NO_GATE>(lora_dy_kernel<RANK>, o, du, db, beta, l, ws, s);
}

/* dy = gradient of value(gate) up, rows (gate | up), by dh; both parts have adapters. dy may be
 * gu. */
template <int RANK, int GATE>
static inline void gated_bwd_lora(act_t *dy, act_t *du, float *db, const act_t *dh,
                                  const act_t *gu, const act_t *u, const wt_t *b, int beta,
                                  const Lora *l, void *ws, cudaStream_t s)
{
    const LoraDyOperands o = { .dy = dy, .dh = dh, .gu = gu, .u = u + l->in, .b = b };
    lora_dy_run_<RANK, GATE>(gated_bwd_lora_kernel<RANK, GATE>, o, du, db, beta, l, ws, s);
}

#else
#ifdef KERNEL_lora_dy
template __global__ void lora_dy_kernel<R>(LoraDyOperands);
SHARED_BYTES(lora_dy_kernel, (LoraDy<R, NO_GATE>::SHARED));
#endif
#ifdef KERNEL_gated_bwd_lora
template __global__ void gated_bwd_lora_kernel<R, SILU_GATE>(LoraDyOperands);
template __global__ void gated_bwd_lora_kernel<R, GELU_GATE>(LoraDyOperands);
SHARED_BYTES(gated_bwd_lora_kernel, (LoraDy<R, SILU_GATE>::SHARED));
#endif
#endif

#endif
