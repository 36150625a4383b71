/* step.c -- the programs of a training step.
 *
 * Every matrix product and kernel call of a step, straight down.
 * Made by `gen tests/gold/ir/gpt2_full/recipe.lua`:
 * change the recipe, not this file.
 * IR sha256 311a97faefd635df, 59 kernel calls in 5 programs, arena 17.2 MiB a rank.
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. */
#include "kernels/cpu/adamw.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/bias_rows.h"
#include "kernels/cpu/ce.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/layernorm.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/pointwise.h"

#include <stdio.h>               // snprintf()
#include <string.h>              // memset()

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
static Gemm mm_qkv = {.name = "qkv", .m = B * T, .n = 3*C, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_o = {.name = "o", .m = B * T, .n = C, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_up = {.name = "up", .m = B * T, .n = F, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_down = {.name = "down", .m = B * T, .n = C, .k = F, .form = GEMM_NT, .bias = 1};
static Gemm mm_head_logits = {.name = "head_logits", .m = ROWS, .n = V, .k = C, .form = GEMM_NT,
    .out_f32 = 1};
static Gemm mm_head_dx = {.name = "head_dx", .m = ROWS, .n = C, .k = V, .form = GEMM_NN};
static Gemm mm_head_dw = {.name = "head_dw", .m = V, .n = C, .k = ROWS, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_down_dw = {.name = "down_dw", .m = C, .n = F, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1};
static Gemm mm_down_dx = {.name = "down_dx", .m = B * T, .n = F, .k = C, .form = GEMM_NN};
static Gemm mm_up_dw = {.name = "up_dw", .m = F, .n = C, .k = B * T, .form = GEMM_TN, .out_f32 = 1};
static Gemm mm_up_dx = {.name = "up_dx", .m = B * T, .n = C, .k = F, .form = GEMM_NN};
static Gemm mm_o_dw = {.name = "o_dw", .m = C, .n = C, .k = B * T, .form = GEMM_TN, .out_f32 = 1};
static Gemm mm_o_dx = {.name = "o_dx", .m = B * T, .n = C, .k = C, .form = GEMM_NN};
static Gemm mm_qkv_dw = {.name = "qkv_dw", .m = 3*C, .n = C, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1};
static Gemm mm_qkv_dx = {.name = "qkv_dx", .m = B * T, .n = C, .k = 3*C, .form = GEMM_NN};
static Gemm mm_qkv_decode = {.name = "qkv_decode", .m = DECODE_B * DECODE_T, .n = 3*C, .k = C,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_o_decode = {.name = "o_decode", .m = DECODE_B * DECODE_T, .n = C, .k = C,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_up_decode = {.name = "up_decode", .m = DECODE_B * DECODE_T, .n = F, .k = C,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_down_decode = {.name = "down_decode", .m = DECODE_B * DECODE_T, .n = C, .k = F,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_head_logits_decode = {.name = "head_logits_decode", .m = DECODE_B * DECODE_T,
    .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1};

static Gemm *const gemms[] = {
    &mm_qkv, &mm_o, &mm_up, &mm_down, &mm_head_logits, &mm_head_dx, &mm_head_dw, &mm_down_dw,
    &mm_down_dx, &mm_up_dw, &mm_up_dx, &mm_o_dw, &mm_o_dx, &mm_qkv_dw, &mm_qkv_dx,
    &mm_qkv_decode, &mm_o_decode, &mm_up_decode, &mm_down_decode, &mm_head_logits_decode,
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

/* forward and backward; sets the gradients, adds to the loss (30 MFLOP) */
static void run_micro(void)
{
    /* embedding */
    profile_op(0);          // recipe.lua:4
    embed_fwd(AT(x, 0), tokens, wte, wpe, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(1);
        layernorm_fwd(AT(b_norm1, l), AT(b_norm1_mean, l), AT(b_norm1_rstd, l), AT(x, l),
                      AT(b_norm1_w, l), AT(b_norm1_b, l), B * T, C, NORM_EPS);
        profile_op(2);
        linear_bias_fwd(AT(b_qkv, l), AT(b_norm1, l), AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv,
                        ws_micro_1);
        profile_op(3);
        attention_fwd(AT(b_att, l), AT(b_att_lse, l), AT(b_qkv, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(4);
        linear_bias_fwd(AT(b_o, l), AT(b_att, l), AT(b_o_w, l), AT(b_o_b, l), &mm_o, ws_micro_1);
        /* feed-forward */
        profile_op(5);
        add_layernorm_fwd(AT(b_mid, l), AT(b_norm2, l), AT(b_norm2_mean, l), AT(b_norm2_rstd, l),
                          AT(x, l), AT(b_o, l), AT(b_norm2_w, l), AT(b_norm2_b, l), B * T, C,
                          NORM_EPS);
        profile_op(6);
        linear_bias_fwd(AT(b_up, l), AT(b_norm2, l), AT(b_up_w, l), AT(b_up_b, l), &mm_up,
                        ws_micro_1);
        profile_op(7);
        gelu_fwd(AT(b_act, l), AT(b_up, l), B * T * F);
        profile_op(8);
        linear_bias_fwd(b_down, AT(b_act, l), AT(b_down_w, l), AT(b_down_b, l), &mm_down,
                        ws_micro_1);
        profile_op(9);
        add_fwd(AT(x, l + 1), AT(b_mid, l), b_down, B * T * C);
    }
    /* head */
    profile_op(10);
    layernorm_fwd(norm_f, norm_f_mean, norm_f_rstd, AT(x, L), norm_f_w, norm_f_b, B * T, C,
                  NORM_EPS);
    profile_op(11);         // recipe.lua:2
    ce_bwd(losses, dnorm_f, norm_f, wte, labels, scale, &(CeHead){.dw = grad_wte}, B * T, V, C,
           ROWS, OVERWRITE, &mm_head_logits, &mm_head_dx, &mm_head_dw, ws_micro_2);
    profile_op(12);
    loss_sum(loss, losses, B * T);
    /* head, backward */
    profile_op(13);         // recipe.lua:4
    layernorm_bwd(grad_norm_f_w, grad_norm_f_b, dx, dnorm_f, AT(x, L), norm_f_w, norm_f_mean,
                  norm_f_rstd, B * T, C, OVERWRITE, ws_micro_2);
    for (int l = L - 1; l >= 0; l--) {
        /* feed-forward, backward */
        profile_op(14);
        bias_grad(AT(grad_b_down_b, l), dx, B * T, C, OVERWRITE, ws_micro_3);
        profile_op(15);
        linear_dw(AT(grad_b_down_w, l), dx, AT(b_act, l), &mm_down_dw, ws_micro_3);
        profile_op(16);
        linear_dx(b_dact, dx, AT(b_down_w, l), &mm_down_dx, ws_micro_3);
        profile_op(17);
        gelu_bwd_bias(AT(grad_b_up_b, l), b_dup, b_dact, AT(b_up, l), B * T, F, OVERWRITE,
                      ws_micro_3);
        profile_op(18);
        linear_dw(AT(grad_b_up_w, l), b_dup, AT(b_norm2, l), &mm_up_dw, ws_micro_3);
        profile_op(19);
        linear_dx(b_dnorm2, b_dup, AT(b_up_w, l), &mm_up_dx, ws_micro_3);
        profile_op(20);
        layernorm_bwd_add(AT(grad_b_norm2_w, l), AT(grad_b_norm2_b, l), b_dmid, b_dnorm2,
                          AT(b_mid, l), AT(b_norm2_w, l), AT(b_norm2_mean, l), AT(b_norm2_rstd, l),
                          dx, B * T, C, OVERWRITE, ws_micro_3);
        /* attention, backward */
        profile_op(21);
        bias_grad(AT(grad_b_o_b, l), b_dmid, B * T, C, OVERWRITE, ws_micro_3);
        profile_op(22);
        linear_dw(AT(grad_b_o_w, l), b_dmid, AT(b_att, l), &mm_o_dw, ws_micro_3);
        profile_op(23);
        linear_dx(b_datt, b_dmid, AT(b_o_w, l), &mm_o_dx, ws_micro_3);
        profile_op(24);
        attention_bwd(b_dqkv, b_datt, AT(b_att, l), AT(b_att_lse, l), AT(b_qkv, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(25);
        bias_grad(AT(grad_b_qkv_b, l), b_dqkv, B * T, 3*C, OVERWRITE, ws_micro_3);
        profile_op(26);
        linear_dw(AT(grad_b_qkv_w, l), b_dqkv, AT(b_norm1, l), &mm_qkv_dw, ws_micro_3);
        profile_op(27);
        linear_dx(b_dnorm1, b_dqkv, AT(b_qkv_w, l), &mm_qkv_dx, ws_micro_3);
        profile_op(28);
        layernorm_bwd_add(AT(grad_b_norm1_w, l), AT(grad_b_norm1_b, l), dx, b_dnorm1, AT(x, l),
                          AT(b_norm1_w, l), AT(b_norm1_mean, l), AT(b_norm1_rstd, l), b_dmid,
                          B * T, C, OVERWRITE, ws_micro_3);
    }
    /* embedding, backward */
    profile_op(29);
    embed_bwd(grad_wte, dx, tokens, NO_PAD, B * T, C, V, ACCUMULATE);
    profile_op(30);
    pos_bwd(grad_wpe, dx, B * T, T, C, P, OVERWRITE);
}

/* after the last micro-batch: the norm of the gradient (49.3 kFLOP) */
static void run_reduce(void)
{
    profile_op(31);         // recipe.lua:2
    grad_norm(total_norm, grad_wte, SPAN(grad_wte, grad_norm_f_b), ws_reduce_0);
}

/* clipping and AdamW (429 kFLOP) */
static void run_update(void)
{
    profile_op(32);         // recipe.lua:2
    adamw(wte, m_wte, v_wte, grad_wte, adamw_args, total_norm, SPAN(wte, b_down_w), WITH_DECAY);
    profile_op(33);
    adamw(b_norm1_w, m_b_norm1_w, v_b_norm1_w, grad_b_norm1_w, adamw_args, total_norm,
          SPAN(b_norm1_w, norm_f_b), NO_DECAY);
}

/* the loss of one micro-batch (9.96 MFLOP) */
static void run_eval(void)
{
    /* embedding */
    profile_op(34);         // recipe.lua:4
    embed_fwd(e_x, tokens, wte, wpe, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(35);
        layernorm_fwd(e_norm1, e_norm1_mean, e_norm1_rstd, e_x, AT(b_norm1_w, l), AT(b_norm1_b, l),
                      B * T, C, NORM_EPS);
        profile_op(36);
        linear_bias_fwd(e_qkv, e_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv, ws_eval_1);
        profile_op(37);
        attention_fwd(e_att, e_att_lse, e_qkv, &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H,
                      K, D, ATTENTION_SCALE, NULL);
        profile_op(38);
        linear_bias_fwd(e_o, e_att, AT(b_o_w, l), AT(b_o_b, l), &mm_o, ws_eval_1);
        /* feed-forward */
        profile_op(39);
        add_layernorm_fwd(e_mid, e_norm2, e_norm2_mean, e_norm2_rstd, e_x, e_o, AT(b_norm2_w, l),
                          AT(b_norm2_b, l), B * T, C, NORM_EPS);
        profile_op(40);
        linear_bias_fwd(e_up, e_norm2, AT(b_up_w, l), AT(b_up_b, l), &mm_up, ws_eval_1);
        profile_op(41);
        gelu_fwd(e_act, e_up, B * T * F);
        profile_op(42);
        linear_bias_fwd(e_down, e_act, AT(b_down_w, l), AT(b_down_b, l), &mm_down, ws_eval_1);
        profile_op(43);
        add_fwd(e_x, e_mid, e_down, B * T * C);
    }
    /* head */
    profile_op(44);
    layernorm_fwd(e_norm_f, e_norm_f_mean, e_norm_f_rstd, e_x, norm_f_w, norm_f_b, B * T, C,
                  NORM_EPS);
    profile_op(45);         // recipe.lua:2
    ce_fwd(e_losses, e_norm_f, wte, labels, &(CeHead){}, B * T, V, C, ROWS, &mm_head_logits,
           ws_eval_2);
    profile_op(46);
    loss_sum(loss, e_losses, B * T);
}

/* one token of each text: the logits of the next (172 kFLOP) */
static void run_decode(void)
{
    /* embedding */
    profile_op(47);         // recipe.lua:4
    embed_fwd(d_x, token, wte, wpe, position, DECODE_B * DECODE_T, DECODE_T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(48);
        layernorm_fwd(d_norm1, d_norm1_mean, d_norm1_rstd, d_x, AT(b_norm1_w, l), AT(b_norm1_b, l),
                      DECODE_B * DECODE_T, C, NORM_EPS);
        profile_op(49);
        linear_bias_fwd(d_qkv, d_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv_decode,
                        ws_decode_1);
        profile_op(50);
        attention_decode(d_att, AT(keys, l), AT(values, l), d_qkv, position, DECODE_B, T, H, K, D,
                         ATTENTION_SCALE, ws_decode_1);
        profile_op(51);
        linear_bias_fwd(d_o, d_att, AT(b_o_w, l), AT(b_o_b, l), &mm_o_decode, ws_decode_1);
        /* feed-forward */
        profile_op(52);
        add_layernorm_fwd(d_mid, d_norm2, d_norm2_mean, d_norm2_rstd, d_x, d_o, AT(b_norm2_w, l),
                          AT(b_norm2_b, l), DECODE_B * DECODE_T, C, NORM_EPS);
        profile_op(53);
        linear_bias_fwd(d_up, d_norm2, AT(b_up_w, l), AT(b_up_b, l), &mm_up_decode, ws_decode_1);
        profile_op(54);
        gelu_fwd(d_act, d_up, DECODE_B * DECODE_T * F);
        profile_op(55);
        linear_bias_fwd(d_down, d_act, AT(b_down_w, l), AT(b_down_b, l), &mm_down_decode,
                        ws_decode_1);
        profile_op(56);
        add_fwd(d_x, d_mid, d_down, DECODE_B * DECODE_T * C);
    }
    /* head */
    profile_op(57);
    layernorm_fwd(d_norm_f, d_norm_f_mean, d_norm_f_rstd, d_x, norm_f_w, norm_f_b,
                  DECODE_B * DECODE_T, C, NORM_EPS);
    profile_op(58);
    logits_fwd(logits, d_norm_f, wte, &mm_head_logits_decode, ws_decode_2);
}

void step_open(void)
{
    device_open(model.target);
    place_values();
    io.tokens[0] = tokens;
    io.labels[0] = labels;
    io.scale = scale;
    io.adamw_args = adamw_args;
    io.token = token;
    io.position = position;
    io.loss[0] = loss;
    io.total_norm = total_norm;
    io.logits = logits;
    name_tensors();
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
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
    clear(loss, sizeof *loss);
    run_micro();
    run_reduce();
    run_update();
    profile_phase(PROFILE_HOST);
}

void step_eval(void)
{
    clear(loss, sizeof *loss);
    run_eval();
    profile_phase(PROFILE_HOST);
}

void step_decode(void)
{
    run_decode();
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
