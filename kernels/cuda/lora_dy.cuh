/* lora_dy.cuh -- what the adapters of a layer need of dy, the gradient of its output, in one pass:
 * du = scale dy b and db = dy^T u; alone, or inside the gradient of the gated unit that makes dy,
 * which may begin with the sum dh = dx0 + du a of the adapter after the unit.
 *
 * In:    dy (rows, out) act_t, or the operands of gated_bwd; u (rows, parts * rank) in rows l->row
 *        apart, after l->in columns; b: the parts' (width, rank).
 * Out:   du (rows, parts * rank) act_t; db, added to or overwritten; dy.
 * Keeps: 16-bit types. Sums in fp32 in one order, the same alone and inside. Pointers, parts and
 *        row strides are multiples of 16 bytes; see fits_lora_dy.
 * Method: a block owns columns of a part, a stripe, and a share of the rows. Tensor cores multiply
 *         each tile of dy by b and, transposed, by u: half of the warps sum du of a row of tiles,
 *         the others db of the stripe, in shared memory. A second kernel adds the stripes of du and
 *         the shares of db. */
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
template <int RANK, int GATE, bool DX = false> struct LoraDy {
    static constexpr int HALVES = GATE == NO_GATE ? 1 : 2;
    static constexpr int THREADS = 256, TILE = CUDA_LORA_DY_TILE, BANDS = TILE / 16;
    static constexpr int DEPTH = (RANK + 15) / 16 * 16, RUNS = DEPTH / 8;
    static constexpr int TILES = CUDA_LORA_DY_STRIPE(RANK) / TILE;    /* of a stripe */
    static constexpr int DY_ROW = 2 * (TILE + 8), RANK_ROW = 2 * (DEPTH + 8);    /* bytes */
    /* fragments of db of the stripe's tiles, then of du | dy | b | u, each of both halves |
     * du and a of the sum */
    static constexpr int DB = 4 * (TILES + 1) * TILE * DEPTH, DY = TILE * DY_ROW;
    static constexpr int MATRIX = TILE * RANK_ROW, DU_ROW = 2 * DEPTH, DU = TILE * DU_ROW;
    static constexpr int SUM = DX ? DU + DEPTH * DY_ROW : 0;
    static constexpr int SHARED = HALVES * (DB + DY + 2 * MATRIX) + SUM;
    static constexpr int VECTORS = 2;                            /* of a thread, of a half */
};

/* Operands; dh and gu with a gate only; du_h (rows, rank) and a_h (rank, out / 2) of the sum, whose
 * dx0 is dh. */
struct LoraDyOperands {
    act_t *dy = NULL;
    const act_t *dh = NULL, *gu = NULL, *u = NULL;
    const act_t *du_h = NULL;
    const wt_t *b = NULL, *a_h = NULL;
    float *du = NULL, *db = NULL;        /* of stripes and shares, see lora_dy_cuda_workspace */
    int64_t rows = 0, out = 0, row = 0;
    int rank = 0, parts = 0, stripes = 0;    /* stripes: of all parts; with a gate of each */
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

/* The lanes' addresses for ldmatrix in 16 rows `row` bytes apart: four 8 x 8 matrices, first down
 * then across; or first across then down. */
static __device__ __forceinline__ int lora_dy_down_(int row)
{
    const int lane = thread_anew() % WARP;
    return lane % 16 * row + lane / 16 * 16;
}

static __device__ __forceinline__ int lora_dy_across_(int row)
{
    const int lane = thread_anew() % WARP;
    return (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * 16;
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
            product_act(c[n], a, b[0], b[1]);
            product_act(c[n + 1], a, b[2], b[3]);
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

/* Row and column of a thread's vector i in a tile: a warp has 16 rows and 32 columns, a lane two
 * rows, as in a fragment c, and 8 columns. */
template <typename D> static __device__ __forceinline__ int lora_dy_row_(int i)
{
    const int thread = thread_anew();
    return thread / WARP % D::BANDS * 16 + thread % WARP / 4 + i * 8;
}

template <typename D> static __device__ __forceinline__ int lora_dy_column_(void)
{
    const int thread = thread_anew();
    return thread / WARP / D::BANDS * 32 + thread % 4 * 8;
}

/* The tile at row r0 and column c0 of the stripe; zeros outside of it. */
template <typename D>
static __device__ __forceinline__ void lora_dy_load_(LoraDyVectors<D> &to, const LoraDyOperands &o,
                                                     const LoraDyStripe &s, int64_t r0, int c0)
{
#pragma unroll
    for (int i = 0; i < D::VECTORS; i++) {
        const int64_t row = r0 + lora_dy_row_<D>(i);
        const int column = c0 + lora_dy_column_<D>();
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

/* Begins to copy rows r0.. of du_h and columns c0.. of the stripe of a_h; zeros outside of them. */
template <typename D>
static __device__ __forceinline__ void lora_dy_sum_begin_(SharedAddress at, const LoraDyOperands &o,
                                                          const LoraDyStripe &s, int64_t r0, int c0)
{
    for (int i = thread_anew(); i < D::TILE * D::RUNS; i += D::THREADS) {
        const int r = i / D::RUNS, run = i % D::RUNS;
        const bool there = r0 + r < o.rows && run * 8 < o.rank;
        copy16_async(at + r * D::DU_ROW + run * 16,
                     o.du_h + (there ? (r0 + r) * o.rank + run * 8 : 0), there ? 16 : 0);
    }
    for (int i = thread_anew(); i < D::DEPTH * D::TILE / 8; i += D::THREADS) {
        const int r = i / (D::TILE / 8), column = c0 + i % (D::TILE / 8) * 8;
        const bool there = r < o.rank && column < s.width;
        copy16_async(at + D::DU + r * D::DY_ROW + i % (D::TILE / 8) * 16,
                     o.a_h + (there ? r * (o.out / 2) + s.col + column : 0), there ? 16 : 0);
    }
    copy_commit();
}

/* c[j][2 i + e] += element 4 half + 2 j + e of vector i of du_h a_h: column g of fragment c[j] is
 * column 8 (g / 2) + 4 half + 2 j + g % 2 of the warp's 32. */
template <typename D>
static __device__ __forceinline__ void lora_dy_sum_(float (*c)[4], SharedAddress du, const act_t *a,
                                                    int half)
{
    const int lane = thread_anew() % WARP, warp = thread_anew() / WARP;
    const int column = warp / D::BANDS * 32 + lane / 8 * 8 + lane / 4 % 2 + 4 * half;
    du += warp % D::BANDS * 16 * D::DU_ROW + lora_dy_down_(D::DU_ROW);
    a += lane % 4 * 2 * (D::DY_ROW / 2) + column;
#pragma unroll
    for (int k = 0; k < D::DEPTH / 16; k++) {
        unsigned f[4];
        matrices_load(f, du + k * 32);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            unsigned short b[4];         // rows t, t + 1, t + 8, t + 9
#pragma unroll
            for (int i = 0; i < 4; i++)
                memcpy(b + i, a + (16 * k + i / 2 * 8 + i % 2) * (D::DY_ROW / 2) + 2 * j, 2);
            product_act(c[j], f, b[0] | (unsigned)b[1] << 16, b[2] | (unsigned)b[3] << 16);
        }
    }
}

/* dy of the gates and of up, of half of a thread's vectors: 4 elements of each. */
template <typename D, int GATE, bool DX>
static __device__ __forceinline__ void lora_dy_gate_(uint2 (*of_gate)[2], uint2 (*of_up)[2],
                                                     const LoraDyVectors<D> &from, const act_t *sum,
                                                     int half)
{
    float more[2][4] = {};
    if constexpr (DX)
        lora_dy_sum_<D>(more, shared_address(sum), sum + D::DU / 2, half);
#pragma unroll
    for (int i = 0; i < D::VECTORS; i++) {
        float g[4], u[4], d[4];
        act_load4(g, (const act_t *)&from.v[0][i] + 4 * half);
        act_load4(u, (const act_t *)&from.v[1][i] + 4 * half);
        act_load4(d, (const act_t *)&from.v[2][i] + 4 * half);
#pragma unroll
        for (int j = 0; j < 4 && DX; j++)
            d[j] += more[j / 2][2 * i + j % 2];
        if constexpr (DX)
            act_round_all<4>(d);
#pragma unroll
        for (int j = 0; j < 4; j++)
            gate_grads<GATE>(d + j, u + j, g[j]);
        of_gate[i][half] = make_uint2(act_pack(u[0], u[1]), act_pack(u[2], u[3]));
        of_up[i][half] = make_uint2(act_pack(d[0], d[1]), act_pack(d[2], d[3]));
    }
}

/* A thread's vectors of dy to shared memory; with a gate it computes them, and writes them to
 * memory, too. sum: of DX. */
template <typename D, int GATE, bool DX>
static __device__ __forceinline__ void lora_dy_place_(act_t *tile, const act_t *sum,
                                                      const LoraDyVectors<D> &from,
                                                      const LoraDyOperands &o,
                                                      const LoraDyStripe &s, int64_t r0, int c0)
{
    constexpr int ROW = D::DY_ROW / 2, HALF = D::DY / 2;
    if constexpr (GATE == NO_GATE) {
#pragma unroll
        for (int i = 0; i < D::VECTORS; i++)
            *(uint4 *)(tile + lora_dy_row_<D>(i) * ROW + lora_dy_column_<D>()) = from.v[0][i];
    } else {
        uint2 of_gate[D::VECTORS][2], of_up[D::VECTORS][2];
        lora_dy_gate_<D, GATE, DX>(of_gate, of_up, from, sum, 0);
        lora_dy_gate_<D, GATE, DX>(of_gate, of_up, from, sum, 1);
#pragma unroll
        for (int i = 0; i < D::VECTORS; i++) {
            const int r = lora_dy_row_<D>(i), column = lora_dy_column_<D>();
            const uint4 gate = make_uint4(of_gate[i][0].x, of_gate[i][0].y, of_gate[i][1].x,
                                          of_gate[i][1].y);
            const uint4 up = make_uint4(of_up[i][0].x, of_up[i][0].y, of_up[i][1].x, of_up[i][1].y);
            *(uint4 *)(tile + r * ROW + column) = gate;
            *(uint4 *)(tile + HALF + r * ROW + column) = up;
            if (r0 + r < o.rows && c0 + column < s.width) {
                act_t *dy = o.dy + (r0 + r) * o.out + s.col + c0 + column;
                __stwb((uint4 *)dy, gate);
                __stwb((uint4 *)(dy + o.out / 2), up);
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
    const int lane = thread_anew() % WARP;
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

/* A lane's first sums in tile k of a half, those of du in tile TILES: 4 floats of each run, WARP
 * apart. */
template <typename D>
static __device__ __forceinline__ float4 *lora_dy_own_(float4 *sums, int half, int k)
{
    const int thread = thread_anew(), band = thread / WARP % D::BANDS;
    return sums + ((half * (D::TILES + 1) + k) * D::BANDS + band) * D::RUNS * WARP + thread % WARP;
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
template <int RANK, int GATE, bool DX>
static __device__ __forceinline__ void lora_dy_block_(const LoraDyOperands &o)
{
    typedef LoraDy<RANK, GATE, DX> D;
    static_assert(D::THREADS == 2 * D::BANDS * WARP, "a warp each for 16 rows and 16 columns");
    DYNAMIC_SHARED(float4, sums);
    act_t *tile = (act_t *)((unsigned char *)sums + D::HALVES * D::DB);
    const SharedAddress dy_at = shared_address(tile), b_at = dy_at + D::HALVES * D::DY,
                        u_at = b_at + D::HALVES * D::MATRIX,
                        sum_at = u_at + D::HALVES * D::MATRIX;
    const int band = thread_anew() / WARP % D::BANDS;
    const bool of_rows = thread_anew() / WARP < D::BANDS;    /* keeps du, not db */
    const LoraDyStripe s = lora_dy_stripe_of(o, (int)blockIdx.x, D::TILES * D::TILE);
    const int64_t F = o.out / 2;         /* rows of b from half to half */
    const int64_t all = (o.rows + D::TILE - 1) / D::TILE;
    const int first = (int)(all * blockIdx.y / gridDim.y),
              last = (int)(all * (blockIdx.y + 1) / gridDim.y);
    const int tiles = (s.width + D::TILE - 1) / D::TILE;
    LoraDyVectors<D> next;
    lora_dy_load_(next, o, s, (int64_t)first * D::TILE, 0);
    if (DX)
        lora_dy_sum_begin_<D>(sum_at, o, s, (int64_t)first * D::TILE, 0);
    for (int t = first; t < last; t++) {
        const int64_t r0 = (int64_t)t * D::TILE;
        for (int k = 0; k < tiles; k++) {
            const int c0 = k * D::TILE;
            const bool same_rows = k + 1 < tiles, more = same_rows || t + 1 < last;
            const int64_t next_r0 = same_rows ? r0 : r0 + D::TILE;
            const int next_c0 = same_rows ? c0 + D::TILE : 0;
            if (DX)
                copy_wait<0>();
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
            lora_dy_place_<D, GATE, DX>(tile, tile + (sum_at - dy_at) / 2, next, o, s, r0, c0);
            if (more)
                lora_dy_load_(next, o, s, next_r0, next_c0);
            copy_wait<0>();
            __syncthreads();
            if (DX && more)
                lora_dy_sum_begin_<D>(sum_at, o, s, next_r0, next_c0);
#pragma unroll
            for (int h = 0; h < D::HALVES; h++) {
                float c[D::RUNS][4];
                float4 *own = lora_dy_own_<D>(sums, h, of_rows ? D::TILES : k);
                lora_dy_take_<D>(c, own, of_rows ? k > 0 : t > first);
                if (of_rows)
                    lora_dy_product_<D, false>(c, dy_at + h * D::DY, b_at + h * D::MATRIX, band);
                else
                    lora_dy_product_<D, true>(c, dy_at + h * D::DY, u_at + h * D::MATRIX, band);
                if (of_rows && k + 1 == tiles)
                    lora_dy_store_<D>(o.du + (s.number + h * o.stripes) * o.rows * o.rank, c,
                                      r0 + band * 16, o.rows, o.rank);
#pragma unroll
                for (int n = 0; n < D::RUNS; n++)
                    own[n * WARP] = make_float4(c[n][0], c[n][1], c[n][2], c[n][3]);
            }
        }
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
    lora_dy_block_<RANK, NO_GATE, false>(o);
}

template <int RANK, int GATE>
__global__ void __launch_bounds__(LoraDy<RANK, GATE>::THREADS, LORA_DY_GATED_BLOCKS)
    gated_bwd_lora_kernel(const LoraDyOperands o)
{
    lora_dy_block_<RANK, GATE, false>(o);
}

template <int RANK, int GATE>
__global__ void __launch_bounds__(LoraDy<RANK, GATE>::THREADS, LORA_DY_GATED_BLOCKS)
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
