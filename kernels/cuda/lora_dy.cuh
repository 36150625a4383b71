/* lora_dy.cuh -- what the adapters of a layer need of dy, the gradient of its output, in one pass:
 * du = scale dy b and db = dy^T u; alone, or inside the gradient of the gated unit that makes dy,
 * which may begin with the sum dh = dx0 + du a of the adapter after the unit.
 *
 * In:    dy (rows, out) act_t, or the operands of gated_bwd; u (rows, parts * rank) in rows l->row
 *        apart, after l->in columns; b: the parts' (width, rank).
 * Out:   du (rows, parts * rank) act_t; db, added to or overwritten; dy.
 * Keeps: 16-bit types. Sums in fp32 in one order, the same alone and inside. Pointers, parts and
 *        row strides are multiples of 16 bytes; see fits_lora_dy.
 * Method: a block owns columns of a part, a stripe, and a share of the rows; a warp some of these
 *         columns, down all rows. It holds 16 rows of dy, a band, as the left operand of du, turns
 *         them into the right one of db^T = u^T dy, and keeps db. Bands that come next are on their
 *         way from memory meanwhile. The warps' sums of du meet in shared memory; a second kernel
 *         adds the stripes of du and the shares of db. */
#ifndef DIECAST_KERNELS_LORA_DY_CUH
#define DIECAST_KERNELS_LORA_DY_CUH

#include "lora.cuh"
#include "pointwise.cuh"
#include "ptx.cuh"

enum { NO_GATE = -1 };                           /* as SILU_GATE and GELU_GATE */

/* A lane holds vectors of 8 elements of rows lane / 4 and lane / 4 + 8: columns 32 v + 8 (lane % 4)
 * + 0..7. Each of a vector's 4 registers has two columns; those of the 4 lanes of a row are a row
 * of a matrix of 8 columns, in an order of its own, which the other operands follow. */
template <int RANK, int GATE, bool DX = false> struct LoraDy {
    static constexpr int HALVES = GATE == NO_GATE ? 1 : 2;
    static constexpr int WARPS = 8, THREADS = WARPS * WARP, BAND = 16;
    static constexpr int DEPTH = (RANK + 15) / 16 * 16, RUNS = DEPTH / 8;
    static constexpr int COLUMNS = CUDA_LORA_DY_STRIPE(RANK) / WARPS;    /* of a warp */
    static constexpr int VECTORS = COLUMNS / 32, TILES = COLUMNS / 8;
    static constexpr int READS = HALVES == 1 ? 1 : 3;                    /* gate, up and dh */
    static constexpr int BANDS = (HALVES == 1 ? 4 : 2) / VECTORS;        /* read at once */
    static constexpr int ROWS = BANDS * BAND;
    /* Fragments of b of each half | of a | rows of u, of du_h, twice | sums of du of each warp,
     * twice where there is room; in bytes. */
    static constexpr int STRIPE = 2 * WARPS * COLUMNS * DEPTH, B = HALVES * STRIPE;
    static constexpr int RANK_ROW = 2 * (DEPTH + 8), RANKS = ROWS * RANK_ROW;
    static constexpr int BUFFER = (HALVES + DX) * RANKS;
    static constexpr int BUFFERS = HALVES * RUNS <= 4 ? 2 : 1, DU = 4 * HALVES * BAND * DEPTH;
    static constexpr int SHARED = B + DX * STRIPE + 2 * BUFFER + BUFFERS * WARPS * DU;
};

/* Operands; dh and gu with a gate only; du_h (rows, rank) and a_h (rank, out / 2) of the sum, whose
 * dx0 is dh. */
struct LoraDyOperands {
    act_t *dy = NULL;
    const act_t *dh = NULL, *gu = NULL, *u = NULL;
    const act_t *du_h = NULL;
    const wt_t *b = NULL, *a_h = NULL;
    float *du = NULL, *db = NULL;        /* of stripes and shares, see lora_dy_cuda_workspace */
    int64_t out = 0, row = 0;
    int rows = 0, rank = 0, parts = 0;
    int stripes = 0;                     /* of all parts; with a gate of each */
    LoraParts at = {};
};

/* A stripe, with a gate that of the gates: columns of dy, rows of b and columns of u. */
struct LoraDyStripe {
    int col, b, u, number, width;
};

static __device__ __forceinline__ LoraDyStripe lora_dy_stripe_of(const LoraDyOperands &o,
                                                                 int number, int columns)
{
    LoraDyStripe s = { 0, 0, 0, number, 0 };
    int first = number;
    for (int p = 0; p < o.parts; p++) {
        const int width = (int)o.at.width[p], stripes = (width + columns - 1) / columns;
        if (first < stripes) {
            const int from = first * columns;
            s.col = (int)o.at.col[p] + from, s.b += from, s.u = p * o.rank;
            s.width = width - from < columns ? width - from : columns;
            return s;
        }
        first -= stripes, s.b += width;
    }
    return s;
}

/* ---- operands that stay: in shared memory as fragments, a float4 of each lane ---- */

/* Two elements of a matrix, `apart` from each other; zeros where there are none. */
static __device__ __forceinline__ unsigned lora_dy_pair_(const act_t *p, int64_t apart, bool first,
                                                         bool second)
{
    unsigned short x = 0, y = 0;
    if (first)
        memcpy(&x, p, sizeof x);
    if (second)
        memcpy(&y, p + apart, sizeof y);
    return x | (unsigned)y << 16;
}

/* The warp's rows of b (width, rank), from row `from` on, n of them: step k of the product has the
 * columns of dy in registers 2 (k % 2) and the next of vector k / 2. */
template <typename D>
static __device__ __forceinline__ void lora_dy_keep_b_(uint4 *to, const act_t *b, int n, int rank)
{
    const int lane = thread_anew() % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < D::COLUMNS / 16; k++)
#pragma unroll
        for (int run = 0; run < D::RUNS; run += 2) {
            unsigned v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = k / 2 * 32 + t * 8 + k % 2 * 4 + i % 2 * 2;
                const int column = 8 * (run + i / 2) + g;
                v[i] = lora_dy_pair_(b + (int64_t)row * rank + column, rank,
                                     row < n && column < rank, row + 1 < n && column < rank);
            }
            to[(k * D::RUNS / 2 + run / 2) * WARP + lane] = make_uint4(v[0], v[1], v[2], v[3]);
        }
}

/* The warp's columns of a (rank, F), n of them: those of registers i and i + 1 of vector v. */
template <typename D>
static __device__ __forceinline__ void lora_dy_keep_a_(uint4 *to, const act_t *a, int64_t F, int n,
                                                       int rank)
{
    const int lane = thread_anew() % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int pair = 0; pair < 2 * D::VECTORS; pair++)
#pragma unroll
        for (int k = 0; k < D::DEPTH / 16; k++) {
            unsigned v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int column = pair / 2 * 32 + g / 2 * 8 + (pair % 2 * 2 + i / 2) * 2 + g % 2;
                const int row = 16 * k + i % 2 * 8 + 2 * t;
                v[i] = lora_dy_pair_(a + row * F + column, F, row < rank && column < n,
                                     row + 1 < rank && column < n);
            }
            to[(pair * D::DEPTH / 16 + k) * WARP + lane] = make_uint4(v[0], v[1], v[2], v[3]);
        }
}

/* ---- operands that pass by ---- */

/* Begins to copy ROWS rows of `rank` columns, `row` elements apart; zeros from row n on, and in
 * columns from rank on. */
template <typename D>
static __device__ __forceinline__ void lora_dy_ranks_begin_(SharedAddress to, const act_t *from,
                                                            int64_t row, int n, int rank)
{
    for (int i = thread_anew(); i < D::ROWS * D::RUNS; i += D::THREADS) {
        const int r = i / D::RUNS, run = i % D::RUNS;
        const bool there = r < n && run * 8 < rank;
        copy16_async(to + r * D::RANK_ROW + run * 16, there ? from + r * row + run * 8 : from,
                     there ? 16 : 0);
    }
}

/* u of the halves and du_h, of the rows from r0 on. */
template <typename D, bool DX>
static __device__ __forceinline__ void
lora_dy_step_begin_(SharedAddress to, const LoraDyOperands &o, const LoraDyStripe &s, int r0)
{
#pragma unroll
    for (int h = 0; h < D::HALVES; h++)
        lora_dy_ranks_begin_<D>(to + h * D::RANKS, o.u + r0 * o.row + s.u + h * o.rank, o.row,
                                o.rows - r0, o.rank);
    if (DX)
        lora_dy_ranks_begin_<D>(to + D::HALVES * D::RANKS, o.du_h + (int64_t)r0 * o.rank, o.rank,
                                o.rows - r0, o.rank);
    copy_commit();
}

/* A lane's vectors of a band: of dy, or of gate, up and dh, which become dy of both halves. */
template <typename D> struct LoraDyBand {
    unsigned v[D::READS][D::VECTORS][2][4];      /* two rows, 4 registers of two columns */

    static __device__ __forceinline__ void load_(unsigned to[4], const act_t *p, bool there)
    {
        const uint4 x = there ? *(const uint4 *)p : uint4();
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    }

    /* Of the rows from r0 on; zeros outside of the stripe. */
    __device__ __forceinline__ void load(const LoraDyOperands &o, const LoraDyStripe &s, int r0)
    {
        const int lane = thread_anew() % WARP, warp = thread_anew() / WARP;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int k = 0; k < D::VECTORS; k++) {
                const int row = r0 + lane / 4 + 8 * i;
                const int64_t F = o.out / 2;
                const int column = warp * D::COLUMNS + 32 * k + lane % 4 * 8;
                const bool there = row < o.rows && column < s.width;
                const act_t *wide = (D::HALVES == 1 ? o.dy : o.gu) + row * o.out + s.col + column;
                load_(v[0][k][i], wide, there);
                if constexpr (D::HALVES == 2) {
                    load_(v[1][k][i], wide + F, there);
                    load_(v[2][k][i], o.dh + row * F + s.col + column, there);
                }
            }
    }

    /* dy of both halves in their place, also in memory. du_h: rows of the band; a: fragments. */
    template <int GATE, bool DX>
    __device__ __forceinline__ void gate(SharedAddress du_h, const uint4 *a)
    {
        unsigned rows[D::DEPTH / 16][4];
#pragma unroll
        for (int k = 0; k < D::DEPTH / 16 && DX; k++)
            matrices_load(rows[k],
                          du_h + matrices_down(thread_anew() % WARP, D::RANK_ROW) + k * 32);
#pragma unroll
        for (int pair = 0; pair < 2 * D::VECTORS; pair++) {
            float more[2][4] = {};       /* of two registers: columns of both rows */
#pragma unroll
            for (int k = 0; k < D::DEPTH / 16 && DX; k++) {
                const uint4 f = a[(pair * D::DEPTH / 16 + k) * WARP + thread_anew() % WARP];
                product_act(more[0], rows[k], f.x, f.y);
                product_act(more[1], rows[k], f.z, f.w);
            }
#pragma unroll
            for (int at = 0; at < 4; at++) {
                const int k = pair / 2, i = at % 2, j = pair % 2 * 2 + at / 2;
                float g[2], u[2], d[2];
                act_unpack(g, v[0][k][i][j]);
                act_unpack(u, v[1][k][i][j]);
                act_unpack(d, v[2][k][i][j]);
                if constexpr (DX) {
                    d[0] += more[at / 2][2 * i], d[1] += more[at / 2][2 * i + 1];
                    act_round_all<2>(d);
                }
                gate_grads<GATE>(d, u, g[0]);
                gate_grads<GATE>(d + 1, u + 1, g[1]);
                v[0][k][i][j] = act_pack(u[0], u[1]);
                v[1][k][i][j] = act_pack(d[0], d[1]);
            }
        }
    }

    __device__ __forceinline__ void store(const LoraDyOperands &o, const LoraDyStripe &s,
                                          int r0) const
    {
        const int lane = thread_anew() % WARP, warp = thread_anew() / WARP;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int k = 0; k < D::VECTORS; k++) {
                const int row = r0 + lane / 4 + 8 * i;
                const int column = warp * D::COLUMNS + 32 * k + lane % 4 * 8;
                if (row >= o.rows || column >= s.width)
                    continue;
                act_t *dy = o.dy + row * o.out + s.col + column;
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const unsigned *x = v[h][k][i];
                    __stwb((uint4 *)(dy + h * (o.out / 2)), make_uint4(x[0], x[1], x[2], x[3]));
                }
            }
    }

    /* du (BAND, DEPTH) of half h over the warp's columns. */
    __device__ __forceinline__ void times_b(float (*du)[4], int h, const uint4 *b) const
    {
#pragma unroll
        for (int k = 0; k < D::COLUMNS / 16; k++) {
            const unsigned(&x)[2][4] = v[h][k / 2];
            const int j = k % 2 * 2;
            const unsigned f[4] = { x[0][j], x[1][j], x[0][j + 1], x[1][j + 1] };
#pragma unroll
            for (int run = 0; run < D::RUNS; run += 2) {
                const uint4 to = b[(k * D::RUNS / 2 + run / 2) * WARP + thread_anew() % WARP];
                product_act(du[run], f, to.x, to.y);
                product_act(du[run + 1], f, to.z, to.w);
            }
        }
    }

    /* db^T (DEPTH, COLUMNS) += u^T times half h. */
    __device__ __forceinline__ void turned_times_u(float (*db)[D::DEPTH / 16][4], int h,
                                                   SharedAddress u) const
    {
        const SharedAddress at = u + matrices_across(thread_anew() % WARP, D::RANK_ROW);
        unsigned f[D::DEPTH / 16][4];
#pragma unroll
        for (int m = 0; m < D::DEPTH / 16; m++)
            matrices_load_transposed(f[m], at + m * 32);
#pragma unroll
        for (int tile = 0; tile < D::TILES; tile++) {
            const unsigned first = matrix_turned(v[h][tile / 4][0][tile % 4]);
            const unsigned second = matrix_turned(v[h][tile / 4][1][tile % 4]);
#pragma unroll
            for (int m = 0; m < D::DEPTH / 16; m++)
                product_act(db[tile][m], f[m], first, second);
        }
    }
};

/* ---- a block ---- */

/* du of the band from row r0 on: the sum of the warps', in order. */
template <typename D>
static __device__ __forceinline__ void lora_dy_join_(const LoraDyOperands &o, const LoraDyStripe &s,
                                                     const float2 *sums, int r0)
{
    constexpr int EACH = D::DU / (int)sizeof(float2);
    for (int i = thread_anew(); i < EACH; i += D::THREADS) {
        const int lane = i / 2 % WARP, run = i / (2 * WARP) % D::RUNS;
        const int half = i / (2 * WARP * D::RUNS);
        const int row = r0 + lane / 4 + i % 2 * 8;
        const int column = 8 * run + lane % 4 * 2;
        float2 sum = sums[i];
#pragma unroll
        for (int warp = 1; warp < D::WARPS; warp++) {
            const float2 x = sums[warp * EACH + i];
            sum.x += x.x, sum.y += x.y;
        }
        if (row < o.rows && column < o.rank)
            *(float2 *)(o.du + ((int64_t)(s.number + half * o.stripes) * o.rows + row) * o.rank +
                        column) = sum;
    }
}

/* Block (x, y): stripe x, and with a gate that of up, too; share y of the rows. */
template <int RANK, int GATE, bool DX>
static __device__ __forceinline__ void lora_dy_block_(const LoraDyOperands &o)
{
    typedef LoraDy<RANK, GATE, DX> D;
    static_assert(CUDA_LORA_DY_ROWS % D::ROWS == 0, "shares of whole steps");
    DYNAMIC_SHARED(float4, shared);
    const int warp = thread_anew() / WARP;
    const LoraDyStripe s = lora_dy_stripe_of(o, (int)blockIdx.x, D::WARPS * D::COLUMNS);
    const int64_t F = o.out / 2;         /* rows of b from half to half */
    constexpr int OF_WARP = D::COLUMNS * D::DEPTH / 8, OF_HALF = D::WARPS * OF_WARP;
    uint4 *b = (uint4 *)shared + warp * OF_WARP, *a = b + D::HALVES * OF_HALF;
    const SharedAddress ranks = shared_address((unsigned char *)shared + D::B + DX * D::STRIPE);
    float4 *sums = shared + (D::B + DX * D::STRIPE + 2 * D::BUFFER) / (int)sizeof(float4);
    const int first_column = warp * D::COLUMNS, mine = s.width - first_column;
#pragma unroll
    for (int h = 0; h < D::HALVES; h++)
        lora_dy_keep_b_<D>(b + h * OF_HALF, o.b + (s.b + h * F + first_column) * o.rank, mine,
                           o.rank);
    if constexpr (DX)
        lora_dy_keep_a_<D>(a, o.a_h + s.col + first_column, F, mine, o.rank);
    const int64_t units = (o.rows + CUDA_LORA_DY_ROWS - 1) / CUDA_LORA_DY_ROWS;
    const int first = (int)(units * blockIdx.y / gridDim.y) * CUDA_LORA_DY_ROWS;
    int last = (int)(units * (blockIdx.y + 1) / gridDim.y) * CUDA_LORA_DY_ROWS;
    last = last < o.rows ? last : o.rows;
    float db[D::HALVES][D::TILES][D::DEPTH / 16][4] = {};
    LoraDyBand<D> next[D::BANDS];
#pragma unroll
    for (int k = 0; k < D::BANDS; k++)
        next[k].load(o, s, first + k * D::BAND);
    lora_dy_step_begin_<D, DX>(ranks, o, s, first);
    copy_wait<0>();
    __syncthreads();
    int parity = 0, buffer = 0;
    for (int r0 = first; r0 < last; r0 += D::ROWS, parity ^= 1) {
        LoraDyBand<D> now[D::BANDS];
#pragma unroll
        for (int k = 0; k < D::BANDS; k++)
            now[k] = next[k];
        if (r0 + D::ROWS < last) {
#pragma unroll
            for (int k = 0; k < D::BANDS; k++)
                next[k].load(o, s, r0 + D::ROWS + k * D::BAND);
            lora_dy_step_begin_<D, DX>(ranks + (parity ^ 1) * D::BUFFER, o, s, r0 + D::ROWS);
        }
#pragma unroll
        for (int k = 0; k < D::BANDS; k++) {
            const SharedAddress u = ranks + parity * D::BUFFER + k * D::BAND * D::RANK_ROW;
            if constexpr (GATE != NO_GATE) {
                now[k].template gate<GATE, DX>(u + D::HALVES * D::RANKS, a);
                now[k].store(o, s, r0 + k * D::BAND);
            }
            float4 *own = sums + (buffer * D::WARPS + thread_anew() / WARP) * (D::DU / 16) +
                          thread_anew() % WARP;
#pragma unroll
            for (int h = 0; h < D::HALVES; h++) {
                float du[D::RUNS][4] = {};
                now[k].times_b(du, h, b + h * OF_HALF);
#pragma unroll
                for (int run = 0; run < D::RUNS; run++)
                    own[(h * D::RUNS + run) * WARP] =
                        make_float4(du[run][0], du[run][1], du[run][2], du[run][3]);
                now[k].turned_times_u(db[h], h, u + h * D::RANKS);
            }
            if (k + 1 == D::BANDS)
                copy_wait<0>();
            __syncthreads();
            lora_dy_join_<D>(o, s, (const float2 *)(sums + buffer * D::WARPS * (D::DU / 16)),
                             r0 + k * D::BAND);
            if (D::BUFFERS == 1)
                __syncthreads();
            else
                buffer ^= 1;
        }
    }
    int64_t widths = 0;
    for (int p = 0; p < o.parts; p++)
        widths += o.at.width[p];
#pragma unroll
    for (int h = 0; h < D::HALVES; h++)
#pragma unroll
        for (int tile = 0; tile < D::TILES; tile++)
#pragma unroll
            for (int m = 0; m < D::DEPTH / 16; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int lane = thread_anew() % WARP;
                    const int column = tile / 4 * 32 + lane % 4 * 8 + tile % 4 * 2 + i % 2;
                    const int rank = 16 * m + lane / 4 + i / 2 * 8;
                    if (column < mine && rank < o.rank)
                        o.db[(blockIdx.y * widths + s.b + h * F + first_column + column) * o.rank +
                             rank] = db[h][tile][m][i];
                }
}

template <int RANK>
__global__ void __launch_bounds__(LoraDy<RANK, NO_GATE>::THREADS, 2)
    lora_dy_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, NO_GATE, false>(o);
}

template <int RANK, int GATE>
__global__ void __launch_bounds__(LoraDy<RANK, GATE>::THREADS, 1)
    gated_bwd_lora_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, GATE, false>(o);
}

template <int RANK, int GATE>
__global__ void __launch_bounds__(LoraDy<RANK, GATE>::THREADS, 1)
    gated_bwd_lora_dx_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, GATE, true>(o);
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
        int64_t first = 0, n = 0;
#pragma unroll
        for (int k = 0; k < LORA_PARTS; k++)     /* no index that is not known: registers */
            first = k == p ? stripes.col[k] : first, n = k == p ? stripes.width[k] : n;
        for (int64_t s = first; s < first + n; s++) {
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

template <int RANK, int GATE, bool DX>
static inline void lora_dy_run_(void (*kernel)(LoraDyOperands), LoraDyOperands o, act_t *du,
                                float *db, int beta, const Lora *l, void *ws, cudaStream_t s)
{
    typedef LoraDy<RANK, GATE, DX> D;
    const LoraParts stripes = lora_dy_stripes_(l);
    const int last = (int)l->parts - 1;
    const int n = (int)(stripes.col[last] + stripes.width[last]);
    const int shares = (int)lora_dy_shares(l->rows, n);
    int64_t widths = 0;
    for (int64_t p = 0; p < l->parts; p++)
        widths += l->width[p];
    o.du = (float *)ws, o.db = o.du + n * l->rows * l->rank;
    o.rows = (int)l->rows, o.out = l->out, o.row = l->row;
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
    lora_dy_run_<RANK, NO_GATE, false>(lora_dy_kernel<RANK>, o, du, db, beta, l, ws, s);
}

/* dy = gradient of value(gate) up, rows (gate | up), by dh; both parts have adapters. dy may be
 * gu. */
template <int RANK, int GATE>
static inline void gated_bwd_lora(act_t *dy, act_t *du, float *db, const act_t *dh,
                                  const act_t *gu, const act_t *u, const wt_t *b, int beta,
                                  const Lora *l, void *ws, cudaStream_t s)
{
    const LoraDyOperands o = { .dy = dy, .dh = dh, .gu = gu, .u = u + l->in, .b = b };
    lora_dy_run_<RANK, GATE, false>(gated_bwd_lora_kernel<RANK, GATE>, o, du, db, beta, l, ws, s);
}

/* The same of dh = dx0 + du_h a_h, which is rounded to act_t. */
template <int RANK, int GATE>
static inline void gated_bwd_lora_dx(act_t *dy, act_t *du, float *db, const act_t *dx0,
                                     const act_t *du_h, const wt_t *a_h, const act_t *gu,
                                     const act_t *u, const wt_t *b, int beta, const Lora *l,
                                     void *ws, cudaStream_t s)
{
    const LoraDyOperands o = { .dy = dy, .dh = dx0, .gu = gu, .u = u + l->in, .du_h = du_h, .b = b,
                               .a_h = a_h };
    lora_dy_run_<RANK, GATE, true>(gated_bwd_lora_dx_kernel<RANK, GATE>, o, du, db, beta, l, ws, s);
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
#ifdef KERNEL_gated_bwd_lora_dx
template __global__ void gated_bwd_lora_dx_kernel<R, SILU_GATE>(LoraDyOperands);
template __global__ void gated_bwd_lora_dx_kernel<R, GELU_GATE>(LoraDyOperands);
SHARED_BYTES(gated_bwd_lora_dx_kernel, (LoraDy<R, SILU_GATE, true>::SHARED));
#endif
#endif

#endif
