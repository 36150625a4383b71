/* workspace.h -- workspace sizes of kernels in bytes, and the layout of each.
 *
 * Keeps: the generator plans with these same functions; kernels never allocate. `act`:
 *        sizeof(act_t). */
#ifndef DIECAST_KERNELS_WORKSPACE_H
#define DIECAST_KERNELS_WORKSPACE_H

#include <stdint.h>

enum {
    /* Column sums (gradients of biases and of norm weights) add rows in this many fixed blocks,
     * then the blocks in order: the order of the sum does not depend on the number of threads. */
    REDUCE_PARTS = 32,
    /* Ranges of the gradient that are summed separately. */
    NORM_PARTS = 64,
    /* Elements that all ranks send each other at once: 4 MiB. */
    FOLD_ELEMENTS = 1 << 20,
    /* Of any matrix product, for all threads. gemm_blocks.h packs 0.2 to 0.6 MiB a thread and has
     * the rest for sums; oneDNN 2.6 takes at most 1.3 MiB a thread over the shapes of GPT-2 124M to
     * Qwen2-7B. Where a product would take more, it runs on fewer threads. */
    GEMM_WORKSPACE = 16 << 20,
    /* gemm_rows.h: columns of C, and elements of B that a thread packs, at most; rows of C, at
     * least. */
    GEMM_ROWS_N = 512,
    GEMM_ROWS_B = 1 << 17,
    GEMM_ROWS_M = 512,
    /* Elements of an array of attention: a block of 64 queries of the largest head, or one head. */
    ATTENTION_ROOM = 64 * 256
};

static inline int64_t workspace_round(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* (REDUCE_PARTS, 2, C): dw then db of each block of rows */
static inline int64_t layernorm_bwd_workspace(int64_t C)
{
    return 4 * REDUCE_PARTS * 2 * C;
}

/* (REDUCE_PARTS, C) */
static inline int64_t rmsnorm_bwd_workspace(int64_t C)
{
    return 4 * REDUCE_PARTS * C;
}

/* linear_norm.h: a product, then the sums of blocks of rows: dw, db and those of dx. */
static inline int64_t linear_layernorm_bwd_workspace(int64_t N)
{
    return GEMM_WORKSPACE + layernorm_bwd_workspace(N);
}

static inline int64_t linear_layernorm_bwd_bias_workspace(int64_t N)
{
    return GEMM_WORKSPACE + 4 * REDUCE_PARTS * 3 * N;
}

static inline int64_t linear_rmsnorm_bwd_workspace(int64_t N)
{
    return GEMM_WORKSPACE + rmsnorm_bwd_workspace(N);
}

/* (REDUCE_PARTS, 2 D) */
static inline int64_t qk_norm_bwd_workspace(int64_t D)
{
    return 4 * REDUCE_PARTS * 2 * D;
}

/* (REDUCE_PARTS, N) */
static inline int64_t bias_grad_workspace(int64_t N)
{
    return 4 * REDUCE_PARTS * N;
}

/* (S, REDUCE_PARTS) double */
static inline int64_t jvp_dot_workspace(int64_t S)
{
    return 8 * REDUCE_PARTS * S;
}

/* Elements of a piece that each rank sends. */
static inline int64_t fold_piece(int64_t ranks)
{
    return FOLD_ELEMENTS / ranks;
}

/* (ranks, a piece) of gradients of n elements */
static inline int64_t fold_workspace(int64_t ranks, int64_t n)
{
    return 4 * ranks * (n < fold_piece(ranks) ? n : fold_piece(ranks));
}

/* (NORM_PARTS) double */
static inline int64_t grad_norm_workspace(void)
{
    return 8 * NORM_PARTS;
}

/* Returns 1 if a thread has room for a key head of T rows of D, else 0. */
static inline int attention_fits(int64_t T, int64_t D)
{
    return T * D <= ATTENTION_ROOM;
}

/* Values transposed (B, KV, D, T) for matrix tiles, which want multiples of 32; nothing in fp32. */
static inline int64_t attention_fwd_workspace(int64_t B, int64_t T, int64_t KV, int64_t D,
                                              int64_t act)
{
    return act == 4 || T % 32 || D % 32 ? 0 : B * KV * D * T * act;
}

/* Sums of dk and dv of heads that do not fit in fp32, (B, KV, 2, T, D); nothing in fp32. */
static inline int64_t attention_sums_workspace(int64_t B, int64_t T, int64_t KV, int64_t D,
                                               int64_t act)
{
    return act == 4 || attention_fits(T, D) ? 0 : B * KV * T * D * 2 * 4;
}

/* These sums, then keys transposed as values are in the forward pass. */
static inline int64_t attention_bwd_workspace(int64_t B, int64_t T, int64_t KV, int64_t D,
                                              int64_t act)
{
    return attention_sums_workspace(B, T, KV, D, act) + attention_fwd_workspace(B, T, KV, D, act);
}

/* Scores (rows, NH, T) fp32. */
static inline int64_t attention_decode_workspace(int64_t rows, int64_t T, int64_t NH)
{
    return rows * NH * T * 4;
}

/* [GEMM_WORKSPACE | logits (chunk, V) fp32 | their gradient (chunk, V) act_t, in fp32 in place] */
static inline int64_t ce_workspace(int64_t chunk, int64_t V, int64_t act)
{
    return GEMM_WORKSPACE + chunk * V * (4 + (act == 4 ? 0 : act));
}

/* [GEMM_WORKSPACE | logits of two (2, chunk, V) fp32 | their gradients, as many act_t, in fp32 in
 * place] */
static inline int64_t kl_workspace(int64_t chunk, int64_t V, int64_t act)
{
    return GEMM_WORKSPACE + 2 * chunk * V * (4 + (act == 4 ? 0 : act));
}

/* Of a product, or of the sums of a bias gradient (G). */
static inline int64_t ffn_products_workspace(int64_t G)
{
    const int64_t product = GEMM_WORKSPACE, sums = workspace_round(bias_grad_workspace(G));
    return sums > product ? sums : product;
}

/* [those | results of the first layer (tile, G) act_t | what the second reads, (tile, G / gates)
 * act_t] */
static inline int64_t ffn_workspace(int64_t tile, int64_t G, int64_t gates, int64_t act)
{
    return ffn_products_workspace(G) + workspace_round(tile * G * act) + tile * (G / gates) * act;
}

/* [GEMM_WORKSPACE | du (rows, parts * rank) act_t | a or a part of b as (rank.., columns) fp32 |
 * with dropout: masked x] */
static inline int64_t lora_workspace(int64_t rows, int64_t in, int64_t out, int64_t rank,
                                     int64_t parts, float dropout, int64_t act)
{
    return GEMM_WORKSPACE + workspace_round(rows * parts * rank * act) +
           workspace_round(parts * rank * (in > out ? in : out) * 4) +
           (dropout > 0 ? workspace_round(rows * in * act) : 0);
}

/* Of a product, or of the adapters of either layer. */
static inline int64_t ffn_lora_products_workspace(int64_t tile, int64_t G, int64_t F, int64_t C,
                                                  int64_t rank, int64_t up, int64_t down,
                                                  int64_t act)
{
    const int64_t first = lora_workspace(tile, C, G, rank, up, 0, act),
                  second = lora_workspace(tile, F, C, rank, down, 0, act);
    return first > second ? first : second;
}

/* [that | results of the first layer (tile, G) act_t | what the second reads, and its gradient,
 * (tile, F) each | u of the first layer (tile, up * rank), of the second (tile, down * rank)] */
static inline int64_t ffn_lora_workspace(int64_t tile, int64_t G, int64_t gates, int64_t C,
                                         int64_t rank, int64_t up, int64_t down, int64_t act)
{
    const int64_t F = G / gates;
    return ffn_lora_products_workspace(tile, G, F, C, rank, up, down, act) +
           workspace_round(tile * G * act) + 2 * workspace_round(tile * F * act) +
           workspace_round(tile * up * rank * act) + workspace_round(tile * down * rank * act);
}

#endif
