/* step.c -- the programs of a training step.
 *
 * Every matrix product and kernel call of a step, straight down.
 * Made by `gen tests/gold/ir/qwen2_lora_dropout/recipe.lua`:
 * change the recipe, not this file.
 * IR sha256 180a78f2c234c212, 54 kernel calls in 6 programs, arena 16.5 MiB a rank.
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. */
#include "kernels/cpu/adamw.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/ce.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/lora.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/rmsnorm.h"
#include "kernels/cpu/rope.h"

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
    .adapter_folders = &hf_adapter_folders,
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
static Gemm mm_qkv = {.name = "qkv", .m = B * T, .n = (H+2*K)*D, .k = C, .form = GEMM_NT,
    .bias = 1};
static Gemm mm_o = {.name = "o", .m = B * T, .n = C, .k = H*D, .form = GEMM_NT};
static Gemm mm_gate_up = {.name = "gate_up", .m = B * T, .n = 2*F, .k = C, .form = GEMM_NT};
static Gemm mm_down = {.name = "down", .m = B * T, .n = C, .k = F, .form = GEMM_NT};
static Gemm mm_head_logits = {.name = "head_logits", .m = ROWS, .n = V, .k = C, .form = GEMM_NT,
    .out_f32 = 1};
static Gemm mm_head_dx = {.name = "head_dx", .m = ROWS, .n = C, .k = V, .form = GEMM_NN};
static Gemm mm_down_dx = {.name = "down_dx", .m = B * T, .n = F, .k = C, .form = GEMM_NN};
static Gemm mm_gate_up_dx = {.name = "gate_up_dx", .m = B * T, .n = C, .k = 2*F, .form = GEMM_NN};
static Gemm mm_o_dx = {.name = "o_dx", .m = B * T, .n = H*D, .k = C, .form = GEMM_NN};
static Gemm mm_qkv_dx = {.name = "qkv_dx", .m = B * T, .n = C, .k = (H+2*K)*D, .form = GEMM_NN};
static Gemm mm_qkv_decode = {.name = "qkv_decode", .m = DECODE_B * DECODE_T, .n = (H+2*K)*D,
    .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_o_decode = {.name = "o_decode", .m = DECODE_B * DECODE_T, .n = C, .k = H*D,
    .form = GEMM_NT};
static Gemm mm_gate_up_decode = {.name = "gate_up_decode", .m = DECODE_B * DECODE_T, .n = 2*F,
    .k = C, .form = GEMM_NT};
static Gemm mm_down_decode = {.name = "down_decode", .m = DECODE_B * DECODE_T, .n = C, .k = F,
    .form = GEMM_NT};
static Gemm mm_head_logits_decode = {.name = "head_logits_decode", .m = DECODE_B * DECODE_T,
    .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1};
static Lora lora_qkv = {.name = "qkv", .rows = B * T, .in = C, .out = (H+2*K)*D, .rank = R,
    .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D}, .scale = LORA_SCALE,
    .dropout = LORA_DROPOUT, .T = T};
static Lora lora_down = {.name = "down", .rows = B * T, .in = F, .out = C, .rank = R, .parts = 1,
    .col = {0}, .width = {C}, .scale = LORA_SCALE, .dropout = LORA_DROPOUT, .T = T};
static Lora lora_down_bwd = {.name = "down_bwd", .rows = B * T, .in = F, .out = C, .rank = R,
    .parts = 1, .col = {0}, .width = {C}, .scale = LORA_SCALE, .dropout = LORA_DROPOUT, .T = T};
static Lora lora_qkv_bwd = {.name = "qkv_bwd", .rows = B * T, .in = C, .out = (H+2*K)*D, .rank = R,
    .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D}, .scale = LORA_SCALE,
    .dropout = LORA_DROPOUT, .T = T};
static Lora lora_qkv_eval = {.name = "qkv_eval", .rows = B * T, .in = C, .out = (H+2*K)*D,
    .rank = R, .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D}, .scale = LORA_SCALE};
static Lora lora_down_eval = {.name = "down_eval", .rows = B * T, .in = F, .out = C, .rank = R,
    .parts = 1, .col = {0}, .width = {C}, .scale = LORA_SCALE};
static Lora lora_qkv_decode = {.name = "qkv_decode", .rows = DECODE_B * DECODE_T, .in = C,
    .out = (H+2*K)*D, .rank = R, .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D},
    .scale = LORA_SCALE};
static Lora lora_down_decode = {.name = "down_decode", .rows = DECODE_B * DECODE_T, .in = F,
    .out = C, .rank = R, .parts = 1, .col = {0}, .width = {C}, .scale = LORA_SCALE};

static Gemm *const gemms[] = {
    &mm_qkv, &mm_o, &mm_gate_up, &mm_down, &mm_head_logits, &mm_head_dx, &mm_down_dx,
    &mm_gate_up_dx, &mm_o_dx, &mm_qkv_dx, &mm_qkv_decode, &mm_o_decode, &mm_gate_up_decode,
    &mm_down_decode, &mm_head_logits_decode,
};

static Lora *const loras[] = {
    &lora_qkv, &lora_down, &lora_down_bwd, &lora_qkv_bwd, &lora_qkv_eval, &lora_down_eval,
    &lora_qkv_decode, &lora_down_decode,
};

static const Merge merges[] = {
    {"model.layers.%d.self_attn.q_proj.weight",
     "base_model.model.model.layers.%d.self_attn.q_proj.lora_A.weight",
     "base_model.model.model.layers.%d.self_attn.q_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.self_attn.v_proj.weight",
     "base_model.model.model.layers.%d.self_attn.v_proj.lora_A.weight",
     "base_model.model.model.layers.%d.self_attn.v_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.mlp.down_proj.weight",
     "base_model.model.model.layers.%d.mlp.down_proj.lora_A.weight",
     "base_model.model.model.layers.%d.mlp.down_proj.lora_B.weight", 2, LORA_SCALE},
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
    profile_op(0);          // recipe.lua:4
    rope_table(rope_cos, rope_sin, T, D/2, &(RopeRule){.theta = 10000.0f});
}

/* forward and backward; sets the gradients, adds to the loss (13.1 MFLOP) */
static void run_micro(void)
{
    /* embedding */
    profile_op(1);          // recipe.lua:5
    embed_fwd(AT(x, 0), tokens, wte, NULL, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(2);          // recipe.lua:4
        rmsnorm_fwd(AT(b_norm1, l), AT(b_norm1_rstd, l), AT(x, l), AT(b_norm1_w, l), B * T, C,
                    NORM_EPS, SCALE_W);
        profile_op(3);          // recipe.lua:5
        linear_lora_fwd(AT(b_qkv_lora, l), AT(b_qkv_u, l), AT(b_norm1, l), AT(b_qkv_w, l),
                        AT(b_qkv_b, l), AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), noise,
                        SITES * l + SITE_QKV, &mm_qkv, &lora_qkv, ws_micro_1);
        profile_op(4);          // recipe.lua:4
        rope_fwd(AT(b_rot, l), rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(5);          // recipe.lua:5
        attention_fwd(AT(b_att, l), AT(b_att_lse, l), AT(b_rot, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(6);
        linear_fwd(AT(b_o, l), AT(b_att, l), AT(b_o_w, l), &mm_o, ws_micro_1);
        /* feed-forward */
        profile_op(7);
        add_rmsnorm_fwd(AT(b_mid, l), b_norm2, AT(b_norm2_rstd, l), AT(x, l), AT(b_o, l),
                        AT(b_norm2_w, l), B * T, C, NORM_EPS, SCALE_W);
        profile_op(8);
        linear_fwd(AT(b_gate_up, l), b_norm2, AT(b_gate_up_w, l), &mm_gate_up, ws_micro_1);
        profile_op(9);
        swiglu_fwd(AT(b_act, l), AT(b_gate_up, l), B * T, F);
        profile_op(10);
        linear_lora_fwd(b_down_lora, AT(b_down_u, l), AT(b_act, l), AT(b_down_w, l), NULL,
                        AT(b_down_lora_a, l), AT(b_down_lora_b, l), noise, SITES * l + SITE_DOWN,
                        &mm_down, &lora_down, ws_micro_1);
        profile_op(11);
        add_fwd(AT(x, l + 1), AT(b_mid, l), b_down_lora, B * T * C);
    }
    /* head */
    profile_op(12);         // recipe.lua:4
    rmsnorm_fwd(norm_f, norm_f_rstd, AT(x, L), norm_f_w, B * T, C, NORM_EPS, SCALE_W);
    profile_op(13);         // recipe.lua:2
    ce_bwd(losses, dnorm_f, norm_f, wte, labels, scale, &(CeHead){}, B * T, V, C, ROWS, OVERWRITE,
           &mm_head_logits, &mm_head_dx, NULL, ws_micro_2);
    profile_op(14);
    loss_sum(loss, losses, B * T);
    /* head, backward */
    profile_op(15);         // recipe.lua:4
    rmsnorm_dx(dx, dnorm_f, AT(x, L), norm_f_w, norm_f_rstd, B * T, C, SCALE_W);
    for (int l = L - 1; l >= 0; l--) {
        /* feed-forward, backward */
        profile_op(16);         // recipe.lua:10
        linear_lora_bwd(b_dact, AT(grad_b_down_lora_a, l), AT(grad_b_down_lora_b, l), dx,
                        AT(b_act, l), AT(b_down_u, l), AT(b_down_w, l), AT(b_down_lora_a, l),
                        AT(b_down_lora_b, l), noise, SITES * l + SITE_DOWN, &mm_down_dx,
                        &lora_down_bwd, ws_micro_3);
        profile_op(17);         // recipe.lua:5
        swiglu_bwd(AT(b_dgate_up, l), b_dact, AT(b_gate_up, l), B * T, F);
        profile_op(18);
        linear_dx(b_dnorm2, AT(b_dgate_up, l), AT(b_gate_up_w, l), &mm_gate_up_dx, ws_micro_3);
        profile_op(19);         // recipe.lua:4
        rmsnorm_dx_add(b_dmid, b_dnorm2, AT(b_mid, l), AT(b_norm2_w, l), AT(b_norm2_rstd, l), dx,
                       B * T, C, SCALE_W);
        /* attention, backward */
        profile_op(20);         // recipe.lua:5
        linear_dx(b_datt, b_dmid, AT(b_o_w, l), &mm_o_dx, ws_micro_3);
        profile_op(21);
        attention_bwd(b_drot, b_datt, AT(b_att, l), AT(b_att_lse, l), AT(b_rot, l),
                      &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H, K, D, ATTENTION_SCALE,
                      NULL);
        profile_op(22);         // recipe.lua:4
        rope_bwd(b_dqkv_lora, rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(23);         // recipe.lua:10
        linear_lora_bwd(b_dnorm1, AT(grad_b_qkv_lora_a, l), AT(grad_b_qkv_lora_b, l), b_dqkv_lora,
                        AT(b_norm1, l), AT(b_qkv_u, l), AT(b_qkv_w, l), AT(b_qkv_lora_a, l),
                        AT(b_qkv_lora_b, l), noise, SITES * l + SITE_QKV, &mm_qkv_dx,
                        &lora_qkv_bwd, ws_micro_3);
        profile_op(24);         // recipe.lua:4
        rmsnorm_dx_add(dx, b_dnorm1, AT(x, l), AT(b_norm1_w, l), AT(b_norm1_rstd, l), b_dmid,
                       B * T, C, SCALE_W);
    }
}

/* after the last micro-batch: the norm of the gradient (1.54 kFLOP) */
static void run_reduce(void)
{
    profile_op(25);         // recipe.lua:2
    grad_norm(total_norm, grad_b_qkv_lora_a, SPAN(grad_b_qkv_lora_a, grad_b_down_lora_b),
              ws_reduce_0);
}

/* clipping and AdamW (18.4 kFLOP) */
static void run_update(void)
{
    profile_op(26);         // recipe.lua:2
    adamw(b_qkv_lora_a, m_b_qkv_lora_a, v_b_qkv_lora_a, grad_b_qkv_lora_a, adamw_args, total_norm,
          SPAN(b_qkv_lora_a, b_down_lora_b), WITH_DECAY);
}

/* the loss of one micro-batch (6.01 MFLOP) */
static void run_eval(void)
{
    /* embedding */
    profile_op(27);         // recipe.lua:5
    embed_fwd(e_x, tokens, wte, NULL, NULL, B * T, T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(28);         // recipe.lua:4
        rmsnorm_fwd(e_norm1, e_norm1_rstd, e_x, AT(b_norm1_w, l), B * T, C, NORM_EPS, SCALE_W);
        profile_op(29);         // recipe.lua:5
        linear_lora_fwd(e_qkv_lora, e_qkv_u, e_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l),
                        AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE, &mm_qkv,
                        &lora_qkv_eval, ws_eval_1);
        profile_op(30);         // recipe.lua:4
        rope_fwd(e_rot, rope_cos, rope_sin, NULL, B * T, T, H, K, D);
        profile_op(31);         // recipe.lua:5
        attention_fwd(e_att, e_att_lse, e_rot, &(AttentionRule){.mask = ATTENTION_CAUSAL}, B, T, H,
                      K, D, ATTENTION_SCALE, NULL);
        profile_op(32);
        linear_fwd(e_o, e_att, AT(b_o_w, l), &mm_o, ws_eval_1);
        /* feed-forward */
        profile_op(33);
        add_rmsnorm_fwd(e_mid, e_norm2, e_norm2_rstd, e_x, e_o, AT(b_norm2_w, l), B * T, C,
                        NORM_EPS, SCALE_W);
        profile_op(34);
        linear_fwd(e_gate_up, e_norm2, AT(b_gate_up_w, l), &mm_gate_up, ws_eval_1);
        profile_op(35);
        swiglu_fwd(e_act, e_gate_up, B * T, F);
        profile_op(36);
        linear_lora_fwd(e_down_lora, e_down_u, e_act, AT(b_down_w, l), NULL, AT(b_down_lora_a, l),
                        AT(b_down_lora_b, l), NULL, NO_SITE, &mm_down, &lora_down_eval, ws_eval_1);
        profile_op(37);
        add_fwd(e_x, e_mid, e_down_lora, B * T * C);
    }
    /* head */
    profile_op(38);         // recipe.lua:4
    rmsnorm_fwd(e_norm_f, e_norm_f_rstd, e_x, norm_f_w, B * T, C, NORM_EPS, SCALE_W);
    profile_op(39);         // recipe.lua:2
    ce_fwd(e_losses, e_norm_f, wte, labels, &(CeHead){}, B * T, V, C, ROWS, &mm_head_logits,
           ws_eval_2);
    profile_op(40);
    loss_sum(loss, e_losses, B * T);
}

/* one token of each text: the logits of the next (138 kFLOP) */
static void run_decode(void)
{
    /* embedding */
    profile_op(41);         // recipe.lua:5
    embed_fwd(d_x, token, wte, NULL, NULL, DECODE_B * DECODE_T, DECODE_T, C);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(42);         // recipe.lua:4
        rmsnorm_fwd(d_norm1, d_norm1_rstd, d_x, AT(b_norm1_w, l), DECODE_B * DECODE_T, C, NORM_EPS,
                    SCALE_W);
        profile_op(43);         // recipe.lua:5
        linear_lora_fwd(d_qkv_lora, d_qkv_u, d_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l),
                        AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE, &mm_qkv_decode,
                        &lora_qkv_decode, ws_decode_1);
        profile_op(44);         // recipe.lua:4
        rope_fwd(d_rot, rope_cos, rope_sin, position, DECODE_B * DECODE_T, DECODE_T, H, K, D);
        profile_op(45);         // recipe.lua:5
        attention_decode(d_att, AT(keys, l), AT(values, l), d_rot, position, DECODE_B, T, H, K, D,
                         ATTENTION_SCALE, ws_decode_1);
        profile_op(46);
        linear_fwd(d_o, d_att, AT(b_o_w, l), &mm_o_decode, ws_decode_1);
        /* feed-forward */
        profile_op(47);
        add_rmsnorm_fwd(d_mid, d_norm2, d_norm2_rstd, d_x, d_o, AT(b_norm2_w, l),
                        DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W);
        profile_op(48);
        linear_fwd(d_gate_up, d_norm2, AT(b_gate_up_w, l), &mm_gate_up_decode, ws_decode_1);
        profile_op(49);
        swiglu_fwd(d_act, d_gate_up, DECODE_B * DECODE_T, F);
        profile_op(50);
        linear_lora_fwd(d_down_lora, d_down_u, d_act, AT(b_down_w, l), NULL, AT(b_down_lora_a, l),
                        AT(b_down_lora_b, l), NULL, NO_SITE, &mm_down_decode, &lora_down_decode,
                        ws_decode_1);
        profile_op(51);
        add_fwd(d_x, d_mid, d_down_lora, DECODE_B * DECODE_T * C);
    }
    /* head */
    profile_op(52);         // recipe.lua:4
    rmsnorm_fwd(d_norm_f, d_norm_f_rstd, d_x, norm_f_w, DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W);
    profile_op(53);
    logits_fwd(logits, d_norm_f, wte, &mm_head_logits_decode, ws_decode_2);
}

void step_open(void)
{
    device_open(model.target);
    place_values();
    io.tokens[0] = tokens;
    io.labels[0] = labels;
    io.noise[0] = noise;
    io.scale = scale;
    io.adamw_args = adamw_args;
    io.token = token;
    io.position = position;
    io.loss[0] = loss;
    io.total_norm = total_norm;
    io.logits = logits;
    name_tensors();
    model.merges = merges;
    model.nmerges = sizeof merges / sizeof merges[0];
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
    for (size_t i = 0; i < sizeof loras / sizeof loras[0]; i++)
        lora_init(loras[i]);
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
