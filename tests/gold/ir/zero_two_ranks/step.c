/* step.c -- the programs of a training step.
 *
 * Every matrix product and kernel call of a step, straight down.
 * Made by `gen tests/gold/ir/zero_two_ranks/recipe.lua`:
 * change the recipe, not this file.
 * IR sha256 f31a64737f5090cb, 76 kernel calls in 7 programs, arena 21.3 MiB a rank.
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. */
#define ACT_BF16 1        // activations and compute weights are bf16
#include "kernels/cpu/adamw.h"
#include "kernels/cpu/adamw_parts.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/ce.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/rmsnorm.h"
#include "kernels/cpu/rope.h"

#include <stdio.h>               // snprintf()
#include <string.h>              // memset()

#include "runtime/ranks/comm.h"  // sums over ranks
#include "runtime/base.h"        // arena_alloc()
#include "runtime/device.h"      // device_open()
#include "shape.h"               // B, T, C, ...
#include "step.h"

/* Pointers into the arena, one per row of the plan. */
#define PLAN(type, name, slots, stride, offset) static type *name; \
    enum { name##_stride = stride, name##_slots = slots };
#include "plan.h"

/* Slot l of a value with one slot per layer. */
#define AT(name, l) (name + (l) * (int64_t)name##_stride)
/* Of a divided value: offset of this rank's part in a tensor; that part of the first tensor. */
#define PART(name) (world.rank * ((int64_t)name##_stride / RANKS))
#define OWN(name) (name + PART(name))
/* Number of elements from the start of one value to the end of another, including all between
 * them. */
#define SPAN(first, last) (AT(last, last##_slots) - (first))

const char *const step_tools = "gcc " __VERSION__;
StepIO io;
Model model = {
#include "recipe.h"
};

const ProfileOp step_ops[] = {
#include "ops.h"
};
const int step_nops = sizeof step_ops / sizeof step_ops[0];

/* In a step of --profile, marks the start of the call below: step_ops[op]. */
static inline void profile_op(int op)
{
    if (profile_on)
        profile_mark(op, NULL);
}

/* Every matrix product of the program, each with a fixed algorithm. */
static Gemm mm_qkv = {.name = "qkv", .m = B * T, .n = (H+2*K)*D, .k = C, .form = GEMM_NT};
static Gemm mm_o = {.name = "o", .m = B * T, .n = C, .k = H*D, .form = GEMM_NT};
static Gemm mm_gate_up = {.name = "gate_up", .m = B * T, .n = 2*F, .k = C, .form = GEMM_NT};
static Gemm mm_down = {.name = "down", .m = B * T, .n = C, .k = F, .form = GEMM_NT};
static Gemm mm_head_logits = {.name = "head_logits", .m = ROWS, .n = V, .k = C, .form = GEMM_NT,
    .out_f32 = 1};
static Gemm mm_head_dx = {.name = "head_dx", .m = ROWS, .n = C, .k = V, .form = GEMM_NN};
static Gemm mm_head_dw = {.name = "head_dw", .m = V, .n = C, .k = ROWS, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_down_dw = {.name = "down_dw", .m = C, .n = F, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_down_dx = {.name = "down_dx", .m = B * T, .n = F, .k = C, .form = GEMM_NN};
static Gemm mm_gate_up_dw = {.name = "gate_up_dw", .m = 2*F, .n = C, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_gate_up_dx = {.name = "gate_up_dx", .m = B * T, .n = C, .k = 2*F, .form = GEMM_NN};
static Gemm mm_o_dw = {.name = "o_dw", .m = C, .n = H*D, .k = B * T, .form = GEMM_TN, .out_f32 = 1,
    .beta = 1};
static Gemm mm_o_dx = {.name = "o_dx", .m = B * T, .n = H*D, .k = C, .form = GEMM_NN};
static Gemm mm_qkv_dw = {.name = "qkv_dw", .m = (H+2*K)*D, .n = C, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_qkv_dx = {.name = "qkv_dx", .m = B * T, .n = C, .k = (H+2*K)*D, .form = GEMM_NN};
static Gemm mm_qkv_decode = {.name = "qkv_decode", .m = DECODE_B * DECODE_T, .n = (H+2*K)*D,
    .k = C, .form = GEMM_NT};
static Gemm mm_o_decode = {.name = "o_decode", .m = DECODE_B * DECODE_T, .n = C, .k = H*D,
    .form = GEMM_NT};
static Gemm mm_gate_up_decode = {.name = "gate_up_decode", .m = DECODE_B * DECODE_T, .n = 2*F,
    .k = C, .form = GEMM_NT};
static Gemm mm_down_decode = {.name = "down_decode", .m = DECODE_B * DECODE_T, .n = C, .k = F,
    .form = GEMM_NT};
static Gemm mm_head_logits_decode = {.name = "head_logits_decode", .m = DECODE_B * DECODE_T,
    .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1};

static Gemm *const gemms[] = {
    &mm_qkv, &mm_o, &mm_gate_up, &mm_down, &mm_head_logits, &mm_head_dx, &mm_head_dw,
    &mm_down_dw, &mm_down_dx, &mm_gate_up_dw, &mm_gate_up_dx, &mm_o_dw, &mm_o_dx, &mm_qkv_dw,
    &mm_qkv_dx, &mm_qkv_decode, &mm_o_decode, &mm_gate_up_decode, &mm_down_decode,
    &mm_head_logits_decode,
};

static void place_values(void)
{
    char *arena = arena_alloc(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
#include "plan.h"
}

/* The map from rows of parameters to tensors of Hugging Face and PEFT files. */
static void name_tensors(void)
{
    const Tensor rows[] = {
#include "tensors.h"
    };
    model.tensors = model_expand(rows, sizeof rows / sizeof rows[0], &model.ntensors);
}

/* once at the start: tables that the layers read */
static void run_init(void)
{
    profile_op(0);          // recipe.lua:5
    rope_table(rope_cos, rope_sin, T, D/2, &(RopeRule){.theta = 10000.0f});
}

/* forward and backward of a micro-batch; adds to the gradients and to the loss (119 MFLOP) */
static void run_micro(int micro)
{
    /* embedding */
    profile_op(1);          // recipe.lua:6
    embed_fwd(AT(x, 0), AT(tokens, micro), wte, NULL, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(2);          // recipe.lua:5
        rmsnorm_fwd(AT(b_norm1, l), AT(b_norm1_rstd, l), AT(x, l), AT(b_norm1_w, l), B * T, C,
                    NORM_EPS, SCALE_W);
        profile_op(3);          // recipe.lua:6
        linear_fwd(AT(b_qkv, l), AT(b_norm1, l), AT(b_qkv_w, l), &mm_qkv, ws_micro_1);
        profile_op(4);          // recipe.lua:5
        rope_fwd(AT(b_rot, l), rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(5);          // recipe.lua:6
        attention_fwd(AT(b_att, l), AT(b_att_lse, l), AT(b_rot, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(6);
        linear_fwd(AT(b_o, l), AT(b_att, l), AT(b_o_w, l), &mm_o, ws_micro_1);
        /* feed-forward */
        profile_op(7);
        add_rmsnorm_fwd(AT(b_mid, l), AT(b_norm2, l), AT(b_norm2_rstd, l), AT(x, l), AT(b_o, l),
                        AT(b_norm2_w, l), B * T, C, NORM_EPS, SCALE_W);
        profile_op(8);
        linear_fwd(AT(b_gate_up, l), AT(b_norm2, l), AT(b_gate_up_w, l), &mm_gate_up, ws_micro_1);
        profile_op(9);
        swiglu_fwd(AT(b_act, l), AT(b_gate_up, l), B * T, F);
        profile_op(10);
        linear_fwd(b_down, AT(b_act, l), AT(b_down_w, l), &mm_down, ws_micro_1);
        profile_op(11);
        add_fwd(AT(x, l + 1), AT(b_mid, l), b_down, B * T * C);
    }
    /* head */
    profile_op(12);         // recipe.lua:5
    rmsnorm_fwd(norm_f, norm_f_rstd, AT(x, L), norm_f_w, B * T, C, NORM_EPS, SCALE_W);
    profile_op(13);         // recipe.lua:3
    ce_bwd(losses, dnorm_f, norm_f, head, AT(labels, micro), scale, &(CeHead){.dw = grad_head},
           B * T, V, C, ROWS, ACCUMULATE, &mm_head_logits, &mm_head_dx, &mm_head_dw, ws_micro_2);
    profile_op(14);
    loss_sum(AT(loss, micro), losses, B * T);
    /* head, backward */
    profile_op(15);         // recipe.lua:5
    rmsnorm_bwd(grad_norm_f_w, dx, dnorm_f, AT(x, L), norm_f_w, norm_f_rstd, B * T, C, SCALE_W,
                ACCUMULATE, ws_micro_2);
    for (int l = L - 1; l >= 0; l--) {
        /* feed-forward, backward */
        profile_op(16);         // recipe.lua:6
        linear_dw(AT(grad_b_down_w, l), dx, AT(b_act, l), &mm_down_dw, ws_micro_3);
        profile_op(17);
        linear_dx(b_dact, dx, AT(b_down_w, l), &mm_down_dx, ws_micro_3);
        profile_op(18);
        swiglu_bwd(AT(b_dgate_up, l), b_dact, AT(b_gate_up, l), B * T, F);
        profile_op(19);
        linear_dw(AT(grad_b_gate_up_w, l), AT(b_dgate_up, l), AT(b_norm2, l), &mm_gate_up_dw,
                  ws_micro_3);
        profile_op(20);
        linear_dx(b_dnorm2, AT(b_dgate_up, l), AT(b_gate_up_w, l), &mm_gate_up_dx, ws_micro_3);
        profile_op(21);         // recipe.lua:5
        rmsnorm_bwd_add(AT(grad_b_norm2_w, l), b_dmid, b_dnorm2, AT(b_mid, l), AT(b_norm2_w, l),
                        AT(b_norm2_rstd, l), dx, B * T, C, SCALE_W, ACCUMULATE, ws_micro_3);
        /* attention, backward */
        profile_op(22);         // recipe.lua:6
        linear_dw(AT(grad_b_o_w, l), b_dmid, AT(b_att, l), &mm_o_dw, ws_micro_3);
        profile_op(23);
        linear_dx(b_datt, b_dmid, AT(b_o_w, l), &mm_o_dx, ws_micro_3);
        profile_op(24);
        attention_bwd(b_drot, b_datt, AT(b_att, l), AT(b_att_lse, l), AT(b_rot, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(25);         // recipe.lua:5
        rope_bwd(b_dqkv, rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(26);         // recipe.lua:6
        linear_dw(AT(grad_b_qkv_w, l), b_dqkv, AT(b_norm1, l), &mm_qkv_dw, ws_micro_3);
        profile_op(27);
        linear_dx(b_dnorm1, b_dqkv, AT(b_qkv_w, l), &mm_qkv_dx, ws_micro_3);
        profile_op(28);         // recipe.lua:5
        rmsnorm_bwd_add(AT(grad_b_norm1_w, l), dx, b_dnorm1, AT(x, l), AT(b_norm1_w, l),
                        AT(b_norm1_rstd, l), b_dmid, B * T, C, SCALE_W, ACCUMULATE, ws_micro_3);
    }
    /* embedding, backward */
    profile_op(29);         // recipe.lua:6
    embed_bwd(grad_wte, dx, AT(tokens, micro), NO_PAD, B * T, C, V, ACCUMULATE);
}

/* start of a step: clears the gradients that micro-batches add to */
static void run_begin(void)
{
    profile_op(30);         // recipe.lua:9
    zero(grad_b_qkv_w, SPAN(grad_b_qkv_w, grad_head));
}

/* after the last micro-batch: the norm of the gradient (762 kFLOP) */
static void run_reduce(void)
{
    profile_op(31);         // recipe.lua:3
    comm_allreduce_sum(grad_b_qkv_w, SPAN(grad_b_qkv_w, grad_norm_f_w), BUCKET);
    profile_op(32);
    grad_squares_whole(OWN(squares), &(SquareColumns){.first = 0, .all = NORM_COLUMNS},
                       grad_b_qkv_w, SPAN(grad_b_qkv_w, grad_norm_f_w), world.rank, RANKS);
    profile_op(33);         // recipe.lua:10
    comm_reduce_scatter(grad_wte, grad_wte_slots, grad_wte_stride);
    profile_op(34);
    comm_reduce_scatter(grad_b_gate_up_w, grad_b_gate_up_w_slots, grad_b_gate_up_w_stride);
    profile_op(35);
    comm_reduce_scatter(grad_head, grad_head_slots, grad_head_stride);
    profile_op(36);         // recipe.lua:3
    grad_squares(OWN(squares), &(SquareColumns){.first = 1, .all = NORM_COLUMNS}, OWN(grad_wte),
                 V * C, grad_wte_slots, grad_wte_stride, share_elements(V * C), world.rank, RANKS);
    profile_op(37);
    grad_squares(OWN(squares), &(SquareColumns){.first = 2, .all = NORM_COLUMNS},
                 OWN(grad_b_gate_up_w), 2*F * C, grad_b_gate_up_w_slots, grad_b_gate_up_w_stride,
                 share_elements(2*F * C), world.rank, RANKS);
    profile_op(38);
    grad_squares(OWN(squares), &(SquareColumns){.first = 4, .all = NORM_COLUMNS}, OWN(grad_head),
                 V * C, grad_head_slots, grad_head_stride, share_elements(V * C), world.rank,
                 RANKS);
    profile_op(39);         // recipe.lua:10
    comm_all_gather(squares, sizeof *squares, squares_slots, squares_stride);
    profile_op(40);         // recipe.lua:3
    squares_norm(total_norm, squares, NORM_COLUMNS, squares_stride, RANKS);
}

/* clipping and AdamW (2.95 MFLOP) */
static void run_update(void)
{
    profile_op(41);         // recipe.lua:3
    adamw_mixed(b_qkv_w, &(Master){.remainder = remainder_b_qkv_w}, m_b_qkv_w, v_b_qkv_w,
                grad_b_qkv_w, adamw_args, total_norm, SPAN(b_qkv_w, b_down_w), WITH_DECAY);
    profile_op(42);
    adamw_mixed(b_norm1_w, &(Master){.remainder = remainder_b_norm1_w}, m_b_norm1_w, v_b_norm1_w,
                grad_b_norm1_w, adamw_args, total_norm, SPAN(b_norm1_w, norm_f_w), NO_DECAY);
    profile_op(43);
    adamw_mixed_parts(OWN(wte), &(Master){.remainder = remainder_wte}, m_wte, v_wte, OWN(grad_wte),
                      adamw_args, total_norm, m_wte_stride, wte_slots, wte_stride, grad_wte_stride,
                      WITH_DECAY);
    profile_op(44);         // recipe.lua:10
    comm_all_gather(wte, sizeof *wte, wte_slots, wte_stride);
    profile_op(45);         // recipe.lua:3
    adamw_mixed_parts(OWN(b_gate_up_w), &(Master){.remainder = remainder_b_gate_up_w},
                      m_b_gate_up_w, v_b_gate_up_w, OWN(grad_b_gate_up_w), adamw_args, total_norm,
                      m_b_gate_up_w_stride, b_gate_up_w_slots, b_gate_up_w_stride,
                      grad_b_gate_up_w_stride, WITH_DECAY);
    profile_op(46);         // recipe.lua:10
    comm_all_gather(b_gate_up_w, sizeof *b_gate_up_w, b_gate_up_w_slots, b_gate_up_w_stride);
    profile_op(47);         // recipe.lua:3
    adamw_mixed_parts(OWN(head), &(Master){.remainder = remainder_head}, m_head, v_head,
                      OWN(grad_head), adamw_args, total_norm, m_head_stride, head_slots,
                      head_stride, grad_head_stride, WITH_DECAY);
    profile_op(48);         // recipe.lua:10
    comm_all_gather(head, sizeof *head, head_slots, head_stride);
}

/* the loss of one micro-batch (40.2 MFLOP) */
static void run_eval(void)
{
    /* embedding */
    profile_op(49);         // recipe.lua:6
    embed_fwd(e_x, AT(tokens, 0), wte, NULL, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(50);         // recipe.lua:5
        rmsnorm_fwd(e_norm1, e_norm1_rstd, e_x, AT(b_norm1_w, l), B * T, C, NORM_EPS, SCALE_W);
        profile_op(51);         // recipe.lua:6
        linear_fwd(e_qkv, e_norm1, AT(b_qkv_w, l), &mm_qkv, ws_eval_1);
        profile_op(52);         // recipe.lua:5
        rope_fwd(e_rot, rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(53);         // recipe.lua:6
        attention_fwd(e_att, e_att_lse, e_rot, &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H,
                      K, D, ATTENTION_SCALE, NULL);
        profile_op(54);
        linear_fwd(e_o, e_att, AT(b_o_w, l), &mm_o, ws_eval_1);
        /* feed-forward */
        profile_op(55);
        add_rmsnorm_fwd(e_mid, e_norm2, e_norm2_rstd, e_x, e_o, AT(b_norm2_w, l), B * T, C,
                        NORM_EPS, SCALE_W);
        profile_op(56);
        linear_fwd(e_gate_up, e_norm2, AT(b_gate_up_w, l), &mm_gate_up, ws_eval_1);
        profile_op(57);
        swiglu_fwd(e_act, e_gate_up, B * T, F);
        profile_op(58);
        linear_fwd(e_down, e_act, AT(b_down_w, l), &mm_down, ws_eval_1);
        profile_op(59);
        add_fwd(e_x, e_mid, e_down, B * T * C);
    }
    /* head */
    profile_op(60);         // recipe.lua:5
    rmsnorm_fwd(e_norm_f, e_norm_f_rstd, e_x, norm_f_w, B * T, C, NORM_EPS, SCALE_W);
    profile_op(61);         // recipe.lua:3
    ce_fwd(e_losses, e_norm_f, head, AT(labels, 0), &(CeHead){}, B * T, V, C, ROWS,
           &mm_head_logits, ws_eval_2);
    profile_op(62);
    loss_sum(AT(loss, 0), e_losses, B * T);
}

/* one token of each text: the logits of the next (1.27 MFLOP) */
static void run_decode(void)
{
    /* embedding */
    profile_op(63);         // recipe.lua:6
    embed_fwd(d_x, token, wte, NULL, NULL, DECODE_B * DECODE_T, DECODE_T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(64);         // recipe.lua:5
        rmsnorm_fwd(d_norm1, d_norm1_rstd, d_x, AT(b_norm1_w, l), DECODE_B * DECODE_T, C, NORM_EPS,
                    SCALE_W);
        profile_op(65);         // recipe.lua:6
        linear_fwd(d_qkv, d_norm1, AT(b_qkv_w, l), &mm_qkv_decode, ws_decode_1);
        profile_op(66);         // recipe.lua:5
        rope_fwd(d_rot, rope_cos, rope_sin, position, DECODE_B * DECODE_T, DECODE_T, H, K, D);
        profile_op(67);         // recipe.lua:6
        attention_decode(d_att, AT(keys, l), AT(values, l), d_rot, position, DECODE_B, T, H, K, D,
                         ATTENTION_SCALE, ws_decode_1);
        profile_op(68);
        linear_fwd(d_o, d_att, AT(b_o_w, l), &mm_o_decode, ws_decode_1);
        /* feed-forward */
        profile_op(69);
        add_rmsnorm_fwd(d_mid, d_norm2, d_norm2_rstd, d_x, d_o, AT(b_norm2_w, l),
                        DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W);
        profile_op(70);
        linear_fwd(d_gate_up, d_norm2, AT(b_gate_up_w, l), &mm_gate_up_decode, ws_decode_1);
        profile_op(71);
        swiglu_fwd(d_act, d_gate_up, DECODE_B * DECODE_T, F);
        profile_op(72);
        linear_fwd(d_down, d_act, AT(b_down_w, l), &mm_down_decode, ws_decode_1);
        profile_op(73);
        add_fwd(d_x, d_mid, d_down, DECODE_B * DECODE_T * C);
    }
    /* head */
    profile_op(74);         // recipe.lua:5
    rmsnorm_fwd(d_norm_f, d_norm_f_rstd, d_x, norm_f_w, DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W);
    profile_op(75);
    logits_fwd(logits, d_norm_f, head, &mm_head_logits_decode, ws_decode_2);
}

void step_open(void)
{
    device_open(model.target);
    place_values();
    for (int k = 0; k < MICROS; k++) {
        io.tokens[k] = AT(tokens, k);
        io.labels[k] = AT(labels, k);
    }
    io.scale = scale;
    io.adamw_args = adamw_args;
    io.token = token;
    io.position = position;
    io.loss[0] = loss;
    io.total_norm = total_norm;
    io.logits = logits;
    for (int k = 1; k < MICROS; k++) {
        io.loss[k] = io.loss[0] + k * loss_stride;
    }
    name_tensors();
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
    run_init();
}

static void clear(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

void step_wait(void)
{
}

void step_train(void)
{
    clear(loss, sizeof *loss * loss_slots * loss_stride);
    run_begin();
    for (int micro = 0; micro < MICROS; micro++) {
        run_micro(micro);
        comm_advance();
    }
    run_reduce();
    run_update();
    profile_phase(PROFILE_HOST);
}

void step_eval(void)
{
    clear(loss, sizeof *loss * loss_slots * loss_stride);
    run_eval();
    comm_advance();
    profile_phase(PROFILE_HOST);
}

void step_decode(void)
{
    run_decode();
    comm_advance();
    profile_phase(PROFILE_HOST);
}

void step_products(void (*say)(const char *line))
{
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++) {
        static const char *const forms[] = {"NT", "NN", "TN"};
        const Gemm *g = gemms[i];
        char how[GEMM_ALGO_BYTES], line[GEMM_ALGO_BYTES + 120];
        gemm_describe(g, how);
        snprintf(line, sizeof line, "%-20.40s %s %lld x %lld x %lld: %s", g->name, forms[g->form],
                 (long long)g->m, (long long)g->n, (long long)g->k, how);
        say(line);
    }
}
