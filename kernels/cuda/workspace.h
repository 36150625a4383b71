/* workspace.h -- workspace sizes of CUDA kernels in bytes, and the layout of each.
 *
 * Keeps: the generator plans with these same functions; kernels never allocate. `act`:
 *        sizeof(act_t). */
#ifndef DIECAST_KERNELS_CUDA_WORKSPACE_H
#define DIECAST_KERNELS_CUDA_WORKSPACE_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

enum {
    /* Column sums add rows in this many fixed blocks, then the blocks in order. */
    CUDA_REDUCE_PARTS = 128,
    /* Blocks of a norm's gradient: at most this many, see norm_parts in kernels.def. */
    CUDA_NORM_BWD_PARTS = 264,
    /* Ranges of the gradient that are summed separately. */
    CUDA_NORM_PARTS = 1024,
    /* Ranges of a sample's elements. */
    CUDA_JVP_PARTS = 128,
    /* Rows, in token order, that one block of the embedding gradient adds. */
    CUDA_EMBED_PIECE = 64,
    /* Longest row of logits that one warp reads; longer rows take a block. */
    CUDA_CE_SHORT = 1024,
    /* Logits of a longer row that a block of sm_90 holds in shared memory: 14 vectors for each of
     * 1,024 threads. */
    CUDA_CE_HELD = 14 * 4 * 1024,
    /* Elements that all ranks send each other at once: 64 MiB. */
    CUDA_FOLD_ELEMENTS = 1 << 24,
    /* Keys of a block of the gradient of keys and values on tensor cores, and blocks of a launch
     * that are enough: with a causal mask about four for each multiprocessor. */
    CUDA_DKV_KEYS = 128,
    CUDA_DKV_BLOCKS = 512,
    /* Widest heads of which attention without tensor cores holds a row in one lane. */
    CUDA_ATTENTION_LANE = 16,
    /* Workspace of any matrix product; cuBLASLt's algorithms are chosen among those that fit. */
    CUDA_GEMM_WORKSPACE = 32 << 20,
    /* Of lora_dy.cuh: shares are of multiples of so many rows; blocks of a launch, four
     * for each multiprocessor of an H100, of which two fit; the largest rank, and the largest whose
     * blocks own more columns. */
    CUDA_LORA_DY_ROWS = 64,
    CUDA_LORA_DY_BLOCKS = 528,
    CUDA_LORA_DY_RANK = 32,
    CUDA_LORA_DY_SHORT = 16
};

/* Columns that a block of lora_dy.cuh owns: a warp keeps the sums of an eighth in registers. */
#define CUDA_LORA_DY_STRIPE(rank) ((rank) <= CUDA_LORA_DY_SHORT ? 512 : 256)

/* Attention on tensor cores: warps for which the registers of a multiprocessor must do, and whether
 * heads are so narrow that all kernels have blocks of 4 warps, else the gradient's have 8. */
#define CUDA_ATTENTION_WARPS(D) ((D) <= 16 ? 12 : 8)
#define CUDA_ATTENTION_NARROW(D) ((D) <= 64)
/* Its bytes of shared memory, with 128 queries a block; for keys, of narrow heads. */
#define CUDA_ATTENTION_SHARED(D) (512 * ((D) + 8))
#define CUDA_ATTENTION_DKV_SHARED(D) (768 * ((D) + 8) + 512)

#ifndef __CUDACC_RTC__          /* the rest is the host's */
static inline int64_t cuda_workspace_round(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Elements of a piece that each rank sends. */
static inline int64_t fold_cuda_piece(int64_t ranks)
{
    return CUDA_FOLD_ELEMENTS / ranks;
}

/* (ranks, a piece) of gradients of n elements, fp32 */
static inline int64_t fold_cuda_workspace(int64_t ranks, int64_t n)
{
    return 4 * ranks * (n < fold_cuda_piece(ranks) ? n : fold_cuda_piece(ranks));
}

/* (CUDA_NORM_BWD_PARTS, 2, C) fp32: dw then db of each block of rows */
static inline int64_t layernorm_bwd_cuda_workspace(int64_t C)
{
    return 4 * CUDA_NORM_BWD_PARTS * 2 * C;
}

/* (CUDA_NORM_BWD_PARTS, C) fp32 */
static inline int64_t rmsnorm_bwd_cuda_workspace(int64_t C)
{
    return 4 * CUDA_NORM_BWD_PARTS * C;
}

/* (CUDA_REDUCE_PARTS, 2, D) fp32 */
static inline int64_t qk_norm_bwd_cuda_workspace(int64_t D)
{
    return 4 * CUDA_REDUCE_PARTS * 2 * D;
}

/* (CUDA_REDUCE_PARTS, N) fp32 */
static inline int64_t bias_grad_cuda_workspace(int64_t N)
{
    return 4 * CUDA_REDUCE_PARTS * N;
}

/* Workspace of the product, or of bias_grad before it */
static inline int64_t linear_dw_bias_cuda_workspace(int64_t N)
{
    const int64_t product = CUDA_GEMM_WORKSPACE, apart = bias_grad_cuda_workspace(N);
    return apart > product ? apart : product;
}

/* (CUDA_NORM_PARTS) double */
static inline int64_t grad_norm_cuda_workspace(void)
{
    return 8 * CUDA_NORM_PARTS;
}

/* (S, CUDA_JVP_PARTS) double */
static inline int64_t jvp_dot_cuda_workspace(int64_t S)
{
    return 8 * CUDA_JVP_PARTS * S;
}

/* [keys (rows) uint64 | as many | (pieces, 2, C) fp32: sums of tokens that cross borders] */
static inline int64_t embed_bwd_cuda_workspace(int64_t rows, int64_t C)
{
    return 2 * cuda_workspace_round(8 * rows) +
           4 * ((rows + CUDA_EMBED_PIECE - 1) / CUDA_EMBED_PIECE) * 2 * C;
}

static inline int64_t attention_fwd_cuda_workspace(int64_t B, int64_t T, int64_t H, int64_t K,
                                                   int64_t D, int64_t act)
{
    (void)B, (void)T, (void)H, (void)K, (void)D, (void)act;
    return 0;
}

/* Attention whose products are on tensor cores: act is the size of an element. */
static inline int attention_on_tensor_cores(int64_t D, int64_t act)
{
    return act == 2 && D % 16 == 0 && D <= 128;
}

/* Parts that the H / K query heads of a key head are divided among for the gradient of keys and
 * values: the fewest of equal size that make enough blocks. Only tensor cores divide them. */
static inline int64_t attention_dkv_parts(int64_t B, int64_t T, int64_t H, int64_t K, int64_t D,
                                          int64_t act)
{
    const int64_t blocks = B * K * ((T + CUDA_DKV_KEYS - 1) / CUDA_DKV_KEYS), group = H / K;
    int64_t parts = 1;
    if (!attention_on_tensor_cores(D, act))
        return 1;
    while (parts < group && (blocks * parts < CUDA_DKV_BLOCKS || group % parts != 0))
        parts++;
    return parts;
}

/* [row sums of do * o, (B, H, T) fp32 | if several: (parts, B, T, 2 K, D) fp32] */
static inline int64_t attention_bwd_cuda_workspace(int64_t B, int64_t T, int64_t H, int64_t K,
                                                   int64_t D, int64_t act)
{
    const int64_t parts = attention_dkv_parts(B, T, H, K, D, act), sums = 4 * B * H * T;
    return parts == 1 ? sums : cuda_workspace_round(sums) + 4 * parts * B * T * 2 * K * D;
}

/* [the same | without tensor cores, heads of one lane each: whether a query keeps a key, bits of 32
 * keys, (B, H, T, (T + 31) / 32) uint32] */
static inline int64_t attention_drop_bwd_cuda_workspace(int64_t B, int64_t T, int64_t H, int64_t K,
                                                        int64_t D, int64_t act)
{
    const int64_t plain = attention_bwd_cuda_workspace(B, T, H, K, D, act);
    return attention_on_tensor_cores(D, act) || D > CUDA_ATTENTION_LANE
               ? plain
               : cuda_workspace_round(plain) + 4 * B * H * T * ((T + 31) / 32);
}

/* Those of cuDNN 9 on Hopper, see runtime/attention_cudnn.h: what it says itself for 9.19. */
static inline int64_t attention_fwd_cudnn_workspace(void)
{
    return 256;
}

/* [256 bytes | scores (B, H, T, T), in tiles of 64 queries and 128 keys | dk and dv of each query
 * head, if H > K | row sums of do * o (B, H, T) fp32] */
static inline int64_t attention_bwd_cudnn_workspace(int64_t B, int64_t T, int64_t H, int64_t K,
                                                    int64_t D, int64_t act)
{
    const int64_t queries = (T + 63) / 64 * 64, keys = (T + 127) / 128 * 128;
    const int64_t scores = B * H * queries * keys * act;
    const int64_t dkv = H > K ? 2 * B * H * T * D * act : 0;
    return cuda_workspace_round(256 + scores + dkv) + cuda_workspace_round(4 * B * H * T);
}

/* Scores (rows, H, T) fp32 */
static inline int64_t attention_decode_cuda_workspace(int64_t rows, int64_t T, int64_t H)
{
    return 4 * rows * H * T;
}

/* Rows of a head of V that its products have, and so columns of their logits: with an odd V
 * cuBLASLt could read and write no vectors, and no tile would be whole. Rows from V on are 0 in the
 * head and in its gradient. */
static inline int64_t ce_width(int64_t V)
{
    return (V + 63) / 64 * 64;
}

/* [CUDA_GEMM_WORKSPACE | logits (chunk, ce_width(V)) of `logit` bytes | their gradient, as wide,
 * act_t; of the same size in place] */
static inline int64_t ce_cuda_workspace(int64_t chunk, int64_t V, int64_t act, int64_t logit)
{
    return CUDA_GEMM_WORKSPACE + chunk * ce_width(V) * (logit + (act == logit ? 0 : act));
}

/* [CUDA_GEMM_WORKSPACE | logits of two (2, chunk, ce_width(V)) fp32 | their gradients, likewise,
 * act_t; in fp32 in place] */
static inline int64_t kl_cuda_workspace(int64_t chunk, int64_t V, int64_t act)
{
    return CUDA_GEMM_WORKSPACE + 2 * chunk * ce_width(V) * (4 + (act == 4 ? 0 : act));
}

/* [linear_dw_bias_cuda_workspace(G) | results of the first layer (tile, G) act_t | what the second
 * reads, (tile, G / gates) act_t] */
static inline int64_t ffn_cuda_workspace(int64_t tile, int64_t G, int64_t gates, int64_t act)
{
    return cuda_workspace_round(linear_dw_bias_cuda_workspace(G)) +
           cuda_workspace_round(act * tile * G) + act * tile * (G / gates);
}

/* [CUDA_GEMM_WORKSPACE | du (rows, parts * rank) act_t | dropout: masked x (rows, in) act_t] */
static inline int64_t lora_cuda_workspace(int64_t rows, int64_t in, int64_t rank, int64_t parts,
                                          float dropout, int64_t act)
{
    return CUDA_GEMM_WORKSPACE + cuda_workspace_round(act * rows * parts * rank) +
           (dropout > 0 ? cuda_workspace_round(act * rows * in) : 0);
}

/* Such stripes of a part. */
static inline int64_t lora_dy_stripes(int64_t width, int64_t rank)
{
    return (width + CUDA_LORA_DY_STRIPE(rank) - 1) / CUDA_LORA_DY_STRIPE(rank);
}

/* Shares of the rows, of at least two times CUDA_LORA_DY_ROWS, for so many stripes. Sums of a share
 * are written and read again, so more than whole waves of blocks cost more than they bring. */
static inline int64_t lora_dy_shares(int64_t rows, int64_t stripes)
{
    const int64_t most = (rows + 2 * CUDA_LORA_DY_ROWS - 1) / (2 * CUDA_LORA_DY_ROWS);
    const int64_t waves = (3 * stripes + CUDA_LORA_DY_BLOCKS - 1) / CUDA_LORA_DY_BLOCKS;
    const int64_t even = waves * CUDA_LORA_DY_BLOCKS / stripes;
    return most < even ? most : even;
}

/* [du of each stripe (stripes, rows, rank) fp32 | db of each share (shares, widths, rank) fp32];
 * stripes and widths: of all parts */
static inline int64_t lora_dy_cuda_workspace(int64_t rows, int64_t stripes, int64_t widths,
                                             int64_t rank)
{
    return 4 * rank * (stripes * rows + lora_dy_shares(rows, stripes) * widths);
}

/* Of a product, or of the adapters of either layer. */
static inline int64_t ffn_lora_cuda_products_workspace(int64_t tile, int64_t rank, int64_t up,
                                                       int64_t down, int64_t act)
{
    return lora_cuda_workspace(tile, 0, rank, up > down ? up : down, 0, act);
}

/* [that | results of the first layer (tile, G) act_t | what the second reads, and its gradient,
 * (tile, F) each | u of the first layer (tile, up * rank), of the second (tile, down * rank)] */
static inline int64_t ffn_lora_cuda_workspace(int64_t tile, int64_t G, int64_t gates, int64_t C,
                                              int64_t rank, int64_t up, int64_t down, int64_t act)
{
    (void)C;
    return ffn_lora_cuda_products_workspace(tile, rank, up, down, act) +
           cuda_workspace_round(act * tile * G) +
           2 * cuda_workspace_round(act * tile * (G / gates)) +
           cuda_workspace_round(act * tile * up * rank) +
           cuda_workspace_round(act * tile * down * rank);
}
#endif

#endif
