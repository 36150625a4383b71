/* step.cu -- the programs of a training step.
 *
 * Every matrix product and kernel call of a step, straight down.
 * Made by `gen tests/gold/ir/nf4/recipe.lua`:
 * change the recipe, not this file.
 * IR sha256 f2eb25aecf0b6e2d, 102 kernel calls in 6 programs, arena 32.5 MiB a rank.
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. Every
 * launch goes to the stream that it is given. */
#define ACT_BF16 1        // activations and compute weights are bf16
#include "kernels/cuda/adamw.cuh"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/ce.cuh"
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/lora.cuh"
#include "kernels/cuda/lora_dy.cuh"
#include "kernels/cuda/nf4.cuh"
#include "kernels/cuda/pointwise.cuh"
#include "kernels/cuda/rmsnorm.cuh"
#include "kernels/cuda/rope.cuh"

#include <stdio.h>               // snprintf()

extern "C" {
#include "runtime/ranks/comm.h"  // sums over ranks; comm_poll()
#include "runtime/device.h"      // the GPU, its arena, pinned memory
}
#include "shape.h"               // B, T, C, ...
#include "step.h"

/* Pointers into the arena, one per row of the plan. */
#define PLAN(type, name, slots, stride, offset) static type *name; \
    enum { name##_stride = stride, name##_slots = slots };
#define PLAN_HOST PLAN
#include "plan.h"

/* Slot l of a value with one slot per layer. */
#define AT(name, l) (name + (l) * (int64_t)name##_stride)
/* Number of elements from the start of one value to the end of another, including all between
 * them. */
#define SPAN(first, last) (AT(last, last##_slots) - (first))

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#ifdef __CUDACC_VER_BUILD__
const char *const step_tools = "nvcc " TEXT(__CUDACC_VER_MAJOR__) "." TEXT(__CUDACC_VER_MINOR__) "."
                               TEXT(__CUDACC_VER_BUILD__) ", g++ " __VERSION__;
#else
const char *const step_tools = "g++ " __VERSION__;     // no nvcc
#endif

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
static inline void profile_op(int op, cudaStream_t s)
{
    if (profile_on)
        profile_mark(op, s);
}

/* Every matrix product of the program, each with a fixed algorithm. */
static Gemm mm_qkv_lora_u = {.name = "qkv_lora_u", .m = B * T, .n = 2*R, .k = C, .lda = C+2*R,
    .ldc = C+2*R, .form = GEMM_NT, .scale = LORA_SCALE, .offset = 8};
static Gemm mm_qkv = {.name = "qkv", .m = B * T, .n = (H+2*K)*D, .k = C+2*R, .form = GEMM_NT,
    .bias = 1};
static Gemm mm_o = {.name = "o", .m = B * T, .n = C, .k = H*D, .form = GEMM_NT};
static Gemm mm_gate_up_lora_u = {.name = "gate_up_lora_u", .m = B * T, .n = 2*R, .k = C,
    .lda = C+2*R, .ldc = C+2*R, .form = GEMM_NT, .scale = LORA_SCALE, .offset = 8};
static Gemm mm_gate_up = {.name = "gate_up", .m = B * T, .n = 2*F, .k = C+2*R, .form = GEMM_NT};
static Gemm mm_down = {.name = "down", .m = B * T, .n = C, .k = F, .form = GEMM_NT};
static Gemm mm_down_lora_u = {.name = "down_lora_u", .m = B * T, .n = R, .k = F, .form = GEMM_NT,
    .scale = LORA_SCALE};
static Gemm mm_down_lora_y = {.name = "down_lora_y", .m = B * T, .n = C, .k = R, .form = GEMM_NT,
    .beta = 1};
static Gemm mm_head_logits = {.name = "head_logits", .m = ROWS, .n = ce_width(V), .k = C,
    .form = GEMM_NT, .out_f32 = 1};
static Gemm mm_head_dx = {.name = "head_dx", .m = ROWS, .n = C, .k = ce_width(V), .form = GEMM_NN};
static Gemm mm_down_dx = {.name = "down_dx", .m = B * T, .n = F, .k = C, .form = GEMM_NN};
static Gemm mm_down_lora_da = {.name = "down_lora_da", .m = R, .n = F, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1};
static Gemm mm_gate_up_dx = {.name = "gate_up_dx", .m = B * T, .n = C, .k = 2*F, .form = GEMM_NN};
static Gemm mm_gate_up_lora_da = {.name = "gate_up_lora_da", .m = 2*R, .n = C, .k = B * T,
    .ldb = C+2*R, .form = GEMM_TN, .out_f32 = 1};
static Gemm mm_gate_up_lora_dx = {.name = "gate_up_lora_dx", .m = B * T, .n = C, .k = 2*R,
    .form = GEMM_NN, .beta = 1};
static Gemm mm_o_dx = {.name = "o_dx", .m = B * T, .n = H*D, .k = C, .form = GEMM_NN};
static Gemm mm_qkv_dx = {.name = "qkv_dx", .m = B * T, .n = C, .k = (H+2*K)*D, .form = GEMM_NN};
static Gemm mm_qkv_lora_da = {.name = "qkv_lora_da", .m = 2*R, .n = C, .k = B * T, .ldb = C+2*R,
    .form = GEMM_TN, .out_f32 = 1};
static Gemm mm_qkv_lora_dx = {.name = "qkv_lora_dx", .m = B * T, .n = C, .k = 2*R, .form = GEMM_NN,
    .beta = 1};
static Gemm mm_qkv_lora_u_decode = {.name = "qkv_lora_u_decode", .m = DECODE_B * DECODE_T,
    .n = 2*R, .k = C, .lda = C+2*R, .ldc = C+2*R, .form = GEMM_NT, .scale = LORA_SCALE,
    .offset = 8};
static Gemm mm_qkv_decode = {.name = "qkv_decode", .m = DECODE_B * DECODE_T, .n = (H+2*K)*D,
    .k = C+2*R, .form = GEMM_NT, .bias = 1};
static Gemm mm_o_decode = {.name = "o_decode", .m = DECODE_B * DECODE_T, .n = C, .k = H*D,
    .form = GEMM_NT};
static Gemm mm_gate_up_lora_u_decode = {.name = "gate_up_lora_u_decode", .m = DECODE_B * DECODE_T,
    .n = 2*R, .k = C, .lda = C+2*R, .ldc = C+2*R, .form = GEMM_NT, .scale = LORA_SCALE,
    .offset = 8};
static Gemm mm_gate_up_decode = {.name = "gate_up_decode", .m = DECODE_B * DECODE_T, .n = 2*F,
    .k = C+2*R, .form = GEMM_NT};
static Gemm mm_down_decode = {.name = "down_decode", .m = DECODE_B * DECODE_T, .n = C, .k = F,
    .form = GEMM_NT};
static Gemm mm_down_lora_u_decode = {.name = "down_lora_u_decode", .m = DECODE_B * DECODE_T,
    .n = R, .k = F, .form = GEMM_NT, .scale = LORA_SCALE};
static Gemm mm_down_lora_y_decode = {.name = "down_lora_y_decode", .m = DECODE_B * DECODE_T,
    .n = C, .k = R, .form = GEMM_NT, .beta = 1};
static Gemm mm_head_logits_decode = {.name = "head_logits_decode", .m = DECODE_B * DECODE_T,
    .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1};
static const Lora lora_qkv = {.rows = B * T, .in = C, .row = C+2*R, .out = (H+2*K)*D, .rank = R,
    .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D}, .u = &mm_qkv_lora_u};
static const Lora lora_gate_up = {.rows = B * T, .in = C, .row = C+2*R, .out = 2*F, .rank = R,
    .parts = 2, .col = {0, F}, .width = {F, F}, .u = &mm_gate_up_lora_u};
static const Lora lora_down = {.rows = B * T, .in = F, .row = F, .rank = R, .parts = 1, .col = {0},
    .width = {C}, .u = &mm_down_lora_u, .y = {&mm_down_lora_y}};
static const Lora lora_down_dy = {.rows = B * T, .in = 0, .row = R, .out = C, .rank = R,
    .parts = 1, .col = {0}, .width = {C}, .scale = LORA_SCALE};
static const Lora lora_down_da = {.rows = B * T, .in = F, .row = F, .rank = R, .parts = 1,
    .col = {0}, .width = {C}, .da = &mm_down_lora_da};
static const Lora lora_gate_up_dy = {.rows = B * T, .in = C, .row = C+2*R, .out = 2*F, .rank = R,
    .parts = 2, .col = {0, F}, .width = {F, F}, .scale = LORA_SCALE};
static const Lora lora_gate_up_da = {.rows = B * T, .in = C, .row = C+2*R, .rank = R, .parts = 2,
    .col = {0, F}, .width = {F, F}, .da = &mm_gate_up_lora_da};
static const Lora lora_gate_up_dx = {.rows = B * T, .in = C, .row = C, .rank = R, .parts = 2,
    .col = {0, F}, .width = {F, F}, .dx = &mm_gate_up_lora_dx};
static const Lora lora_qkv_dy = {.rows = B * T, .in = C, .row = C+2*R, .out = (H+2*K)*D, .rank = R,
    .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D}, .scale = LORA_SCALE};
static const Lora lora_qkv_da = {.rows = B * T, .in = C, .row = C+2*R, .rank = R, .parts = 2,
    .col = {0, (H+K)*D}, .width = {H*D, K*D}, .da = &mm_qkv_lora_da};
static const Lora lora_qkv_dx = {.rows = B * T, .in = C, .row = C, .rank = R, .parts = 2,
    .col = {0, (H+K)*D}, .width = {H*D, K*D}, .dx = &mm_qkv_lora_dx};
static const Lora lora_qkv_decode = {.rows = DECODE_B * DECODE_T, .in = C, .row = C+2*R,
    .out = (H+2*K)*D, .rank = R, .parts = 2, .col = {0, (H+K)*D}, .width = {H*D, K*D},
    .u = &mm_qkv_lora_u_decode};
static const Lora lora_gate_up_decode = {.rows = DECODE_B * DECODE_T, .in = C, .row = C+2*R,
    .out = 2*F, .rank = R, .parts = 2, .col = {0, F}, .width = {F, F},
    .u = &mm_gate_up_lora_u_decode};
static const Lora lora_down_decode = {.rows = DECODE_B * DECODE_T, .in = F, .row = F, .rank = R,
    .parts = 1, .col = {0}, .width = {C}, .u = &mm_down_lora_u_decode,
    .y = {&mm_down_lora_y_decode}};

static Gemm *const gemms[] = {
    &mm_qkv_lora_u, &mm_qkv, &mm_o, &mm_gate_up_lora_u, &mm_gate_up, &mm_down, &mm_down_lora_u,
    &mm_down_lora_y, &mm_head_logits, &mm_head_dx, &mm_down_dx, &mm_down_lora_da, &mm_gate_up_dx,
    &mm_gate_up_lora_da, &mm_gate_up_lora_dx, &mm_o_dx, &mm_qkv_dx, &mm_qkv_lora_da,
    &mm_qkv_lora_dx, &mm_qkv_lora_u_decode, &mm_qkv_decode, &mm_o_decode,
    &mm_gate_up_lora_u_decode, &mm_gate_up_decode, &mm_down_decode, &mm_down_lora_u_decode,
    &mm_down_lora_y_decode, &mm_head_logits_decode,
};

static char *arena;
static void place_values(void)
{
    arena = (char *)device_arena(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
    char *host = (char *)device_pinned(HOST_BYTES, "the embedding");
#define PLAN_HOST(type, name, slots, stride, offset) name = (type *)(host + offset);
#include "plan.h"
    array_zero(arena, PERSISTENT_BYTES);         // the gaps between gradients count in the norm
}

/* The part of the arena with all inputs, and its pinned copy that the host writes. */
enum : int64_t { INPUTS_OFFSET = 267776, INPUTS_BYTES = 3072 };
static char *inputs;
#define PINNED(name) ((decltype(name))(inputs + ((char *)(name) - arena - INPUTS_OFFSET)))

static cudaStream_t work, transfer;      // kernels; transfer of inputs
static cudaEvent_t arrived, done;        // end of the transfer; end of the program

static const Merge merges[] = {
    {"model.layers.%d.self_attn.q_proj.weight",
     "base_model.model.model.layers.%d.self_attn.q_proj.lora_A.weight",
     "base_model.model.model.layers.%d.self_attn.q_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.self_attn.v_proj.weight",
     "base_model.model.model.layers.%d.self_attn.v_proj.lora_A.weight",
     "base_model.model.model.layers.%d.self_attn.v_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.mlp.gate_proj.weight",
     "base_model.model.model.layers.%d.mlp.gate_proj.lora_A.weight",
     "base_model.model.model.layers.%d.mlp.gate_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.mlp.up_proj.weight",
     "base_model.model.model.layers.%d.mlp.up_proj.lora_A.weight",
     "base_model.model.model.layers.%d.mlp.up_proj.lora_B.weight", 2, LORA_SCALE},
    {"model.layers.%d.mlp.down_proj.weight",
     "base_model.model.model.layers.%d.mlp.down_proj.lora_A.weight",
     "base_model.model.model.layers.%d.mlp.down_proj.lora_B.weight", 2, LORA_SCALE},
};

/* The map from rows of parameters to tensors of Hugging Face and PEFT files. */
static void name_tensors(void)
{
    const Tensor rows[] = {
#include "tensors.h"
    };
    model.tensors = model_expand(rows, sizeof rows / sizeof rows[0], &model.ntensors);
}

/* once at the start: tables that the layers read */
static void run_init(cudaStream_t s)
{
    profile_op(0, s);       // recipe.lua:5
    rope_table(rope_cos, rope_sin, T, D/2, RopeRule{.theta = 10000.0f}, s);
}

/* forward and backward; sets the gradients, adds to the loss (60.6 MFLOP) */
static void run_micro(cudaStream_t s)
{
    /* embedding */
    profile_op(1, s);       // recipe.lua:6
    embed_fwd(AT(x, 0), tokens, wte, NULL, NULL, B * T, T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(2, s);       // recipe.lua:5
        rmsnorm_fwd(b_norm1, b_norm1_rstd, AT(x, l), AT(b_norm1_w, l), B * T, C, NORM_EPS, SCALE_W,
                    s, C+2*R);
        profile_op(3, s);       // recipe.lua:11
        dequant_nf4(b_qkv_nf4, AT(b_qkv_w, l), AT(absmax_b_qkv_w, l), AT(nested_b_qkv_w, l),
                    AT(offset_b_qkv_w, l), Nf4Rows{.parts = 3, .w0 = 64, .w1 = 32, .w2 = 32}, C/2,
                    C+2*R, s);
        profile_op(4, s);
        lora_fold(b_qkv_xu, b_qkv_wb, AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE,
                  &lora_qkv, ws_micro_1, s);
        profile_op(5, s);       // recipe.lua:6
        linear_bias_fwd(b_qkv, b_qkv_xu, b_qkv_wb, AT(b_qkv_b, l), &mm_qkv, ws_micro_1, s);
        profile_op(6, s);       // recipe.lua:5
        rope_fwd(b_rot, rope_cos, rope_sin, NULL, B * T, T, H, K, D, s);
        profile_op(7, s);       // recipe.lua:6
        attention_fwd<D, ATTENTION_CAUSAL, 128>(b_att, b_att_lse, b_rot, AttentionRule{}, B, T, H,
                                                K, ATTENTION_SCALE, NULL, s);
        profile_op(8, s);       // recipe.lua:11
        dequant_nf4(b_o_nf4, AT(b_o_w, l), AT(absmax_b_o_w, l), AT(nested_b_o_w, l),
                    AT(offset_b_o_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, H*D/2,
                    H*D, s);
        profile_op(9, s);       // recipe.lua:6
        linear_fwd(b_o, b_att, b_o_nf4, &mm_o, ws_micro_1, s);
        /* feed-forward */
        profile_op(10, s);
        add_rmsnorm_fwd(b_mid, b_norm2, b_norm2_rstd, AT(x, l), b_o, AT(b_norm2_w, l), B * T, C,
                        NORM_EPS, SCALE_W, s, C+2*R);
        profile_op(11, s);      // recipe.lua:11
        dequant_nf4(b_gate_up_nf4, AT(b_gate_up_w, l), AT(absmax_b_gate_up_w, l),
                    AT(nested_b_gate_up_w, l), AT(offset_b_gate_up_w, l),
                    Nf4Rows{.parts = 2, .w0 = 96, .w1 = 96, .w2 = 0}, C/2, C+2*R, s);
        profile_op(12, s);
        lora_fold(b_gate_up_xu, b_gate_up_wb, AT(b_gate_up_lora_a, l), AT(b_gate_up_lora_b, l),
                  NULL, NO_SITE, &lora_gate_up, ws_micro_1, s);
        profile_op(13, s);      // recipe.lua:6
        linear_fwd(b_gate_up, b_gate_up_xu, b_gate_up_wb, &mm_gate_up, ws_micro_1, s);
        profile_op(14, s);
        swiglu_fwd(b_act, b_gate_up, B * T, F, s);
        profile_op(15, s);      // recipe.lua:11
        dequant_nf4(b_down_nf4, AT(b_down_w, l), AT(absmax_b_down_w, l), AT(nested_b_down_w, l),
                    AT(offset_b_down_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, F/2,
                    F, s);
        profile_op(16, s);      // recipe.lua:6
        linear_fwd(b_down, b_act, b_down_nf4, &mm_down, ws_micro_1, s);
        profile_op(17, s);      // recipe.lua:11
        lora_fwd(b_down_lora, b_down_u, b_act, AT(b_down_lora_a, l), AT(b_down_lora_b, l), NULL,
                 NO_SITE, &lora_down, ws_micro_1, s);
        profile_op(18, s);      // recipe.lua:6
        add_fwd(AT(x, l + 1), b_mid, b_down_lora, B * T * C, s);
    }
    /* head */
    profile_op(19, s);      // recipe.lua:5
    rmsnorm_fwd(norm_f, norm_f_rstd, AT(x, L), norm_f_w, B * T, C, NORM_EPS, SCALE_W, s);
    profile_op(20, s);      // recipe.lua:3
    ce_bwd<1024>(losses, dnorm_f, norm_f, head, labels, scale, CeHead{}, B * T, V, C, ROWS,
                 OVERWRITE, &mm_head_logits, &mm_head_dx, NULL, ws_micro_2, s);
    profile_op(21, s);
    loss_sum(loss, losses, B * T, s);
    /* head, backward */
    profile_op(22, s);      // recipe.lua:5
    rmsnorm_dx(dx, dnorm_f, AT(x, L), norm_f_w, norm_f_rstd, B * T, C, SCALE_W, s);
    for (int l = L - 1; l >= 0; l--) {
        /* attention, again */
        profile_op(23, s);
        rmsnorm_fwd(r_norm1, r_norm1_rstd, AT(x, l), AT(b_norm1_w, l), B * T, C, NORM_EPS, SCALE_W,
                    s, C+2*R);
        profile_op(24, s);      // recipe.lua:11
        dequant_nf4(r_qkv_nf4, AT(b_qkv_w, l), AT(absmax_b_qkv_w, l), AT(nested_b_qkv_w, l),
                    AT(offset_b_qkv_w, l), Nf4Rows{.parts = 3, .w0 = 64, .w1 = 32, .w2 = 32}, C/2,
                    C+2*R, s);
        profile_op(25, s);
        lora_fold(r_qkv_xu, r_qkv_wb, AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE,
                  &lora_qkv, ws_micro_3, s);
        profile_op(26, s);      // recipe.lua:6
        linear_bias_fwd(r_qkv, r_qkv_xu, r_qkv_wb, AT(b_qkv_b, l), &mm_qkv, ws_micro_3, s);
        profile_op(27, s);      // recipe.lua:5
        rope_fwd(r_rot, rope_cos, rope_sin, NULL, B * T, T, H, K, D, s);
        profile_op(28, s);      // recipe.lua:6
        attention_fwd<D, ATTENTION_CAUSAL, 128>(r_att, r_att_lse, r_rot, AttentionRule{}, B, T, H,
                                                K, ATTENTION_SCALE, NULL, s);
        profile_op(29, s);      // recipe.lua:11
        dequant_nf4(r_o_nf4, AT(b_o_w, l), AT(absmax_b_o_w, l), AT(nested_b_o_w, l),
                    AT(offset_b_o_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, H*D/2,
                    H*D, s);
        profile_op(30, s);      // recipe.lua:6
        linear_fwd(r_o, r_att, r_o_nf4, &mm_o, ws_micro_3, s);
        /* feed-forward, again */
        profile_op(31, s);
        add_rmsnorm_fwd(r_mid, r_norm2, r_norm2_rstd, AT(x, l), r_o, AT(b_norm2_w, l), B * T, C,
                        NORM_EPS, SCALE_W, s, C+2*R);
        profile_op(32, s);      // recipe.lua:11
        dequant_nf4(r_gate_up_nf4, AT(b_gate_up_w, l), AT(absmax_b_gate_up_w, l),
                    AT(nested_b_gate_up_w, l), AT(offset_b_gate_up_w, l),
                    Nf4Rows{.parts = 2, .w0 = 96, .w1 = 96, .w2 = 0}, C/2, C+2*R, s);
        profile_op(33, s);
        lora_fold(r_gate_up_xu, r_gate_up_wb, AT(b_gate_up_lora_a, l), AT(b_gate_up_lora_b, l),
                  NULL, NO_SITE, &lora_gate_up, ws_micro_3, s);
        profile_op(34, s);      // recipe.lua:6
        linear_fwd(r_gate_up, r_gate_up_xu, r_gate_up_wb, &mm_gate_up, ws_micro_3, s);
        profile_op(35, s);
        swiglu_fwd(r_act, r_gate_up, B * T, F, s);
        profile_op(36, s);      // recipe.lua:11
        dequant_nf4(r_down_nf4, AT(b_down_w, l), AT(absmax_b_down_w, l), AT(nested_b_down_w, l),
                    AT(offset_b_down_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, F/2,
                    F, s);
        profile_op(37, s);      // recipe.lua:6
        linear_fwd(r_down, r_act, r_down_nf4, &mm_down, ws_micro_3, s);
        profile_op(38, s);      // recipe.lua:11
        lora_fwd(r_down_lora, r_down_u, r_act, AT(b_down_lora_a, l), AT(b_down_lora_b, l), NULL,
                 NO_SITE, &lora_down, ws_micro_3, s);
        /* feed-forward, backward */
        profile_op(39, s);
        lora_dy<R>(b_ddown_u, AT(grad_b_down_lora_b, l), dx, r_down_u, AT(b_down_lora_b, l),
                   OVERWRITE, &lora_down_dy, ws_micro_3, s);
        profile_op(40, s);
        dequant_nf4(b_ddown_w, AT(b_down_w, l), AT(absmax_b_down_w, l), AT(nested_b_down_w, l),
                    AT(offset_b_down_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, F/2,
                    F, s);
        profile_op(41, s);
        linear_dx(b_ddown_base, dx, b_ddown_w, &mm_down_dx, ws_micro_3, s);
        profile_op(42, s);
        lora_da(AT(grad_b_down_lora_a, l), b_ddown_u, r_act, NULL, NO_SITE, &lora_down_da,
                ws_micro_3, s);
        profile_op(43, s);
        gated_bwd_lora_dx<R, SILU_GATE>(b_dgate_up, b_dgate_up_u, AT(grad_b_gate_up_lora_b, l),
                                        b_ddown_base, b_ddown_u, AT(b_down_lora_a, l), r_gate_up,
                                        r_gate_up_xu, AT(b_gate_up_lora_b, l), OVERWRITE,
                                        &lora_gate_up_dy, ws_micro_3, s);
        profile_op(44, s);
        dequant_nf4(b_dgate_up_w, AT(b_gate_up_w, l), AT(absmax_b_gate_up_w, l),
                    AT(nested_b_gate_up_w, l), AT(offset_b_gate_up_w, l),
                    Nf4Rows{.parts = 2, .w0 = 96, .w1 = 96, .w2 = 0}, C/2, C, s);
        profile_op(45, s);
        linear_dx(b_dgate_up_base, b_dgate_up, b_dgate_up_w, &mm_gate_up_dx, ws_micro_3, s);
        profile_op(46, s);
        lora_da(AT(grad_b_gate_up_lora_a, l), b_dgate_up_u, r_gate_up_xu, NULL, NO_SITE,
                &lora_gate_up_da, ws_micro_3, s);
        profile_op(47, s);
        lora_dx(b_dnorm2, b_dgate_up_u, AT(b_gate_up_lora_a, l), NULL, NO_SITE, &lora_gate_up_dx,
                ws_micro_3, s);
        profile_op(48, s);      // recipe.lua:5
        rmsnorm_dx_add(b_dmid, b_dnorm2, r_mid, AT(b_norm2_w, l), r_norm2_rstd, dx, B * T, C,
                       SCALE_W, s);
        /* attention, backward */
        profile_op(49, s);      // recipe.lua:11
        dequant_nf4(b_do_w, AT(b_o_w, l), AT(absmax_b_o_w, l), AT(nested_b_o_w, l),
                    AT(offset_b_o_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, H*D/2,
                    H*D, s);
        profile_op(50, s);      // recipe.lua:6
        linear_dx(b_datt, b_dmid, b_do_w, &mm_o_dx, ws_micro_3, s);
        profile_op(51, s);
        attention_bwd<D, ATTENTION_CAUSAL, 128>(b_drot, b_datt, r_att, r_att_lse, r_rot,
                                                AttentionRule{}, B, T, H, K, ATTENTION_SCALE,
                                                ws_micro_3, s);
        profile_op(52, s);      // recipe.lua:5
        rope_bwd(b_dqkv, rope_cos, rope_sin, NULL, B * T, T, H, K, D, s);
        profile_op(53, s);      // recipe.lua:11
        lora_dy<R>(b_dqkv_u, AT(grad_b_qkv_lora_b, l), b_dqkv, r_qkv_xu, AT(b_qkv_lora_b, l),
                   OVERWRITE, &lora_qkv_dy, ws_micro_3, s);
        profile_op(54, s);
        dequant_nf4(b_dqkv_w, AT(b_qkv_w, l), AT(absmax_b_qkv_w, l), AT(nested_b_qkv_w, l),
                    AT(offset_b_qkv_w, l), Nf4Rows{.parts = 3, .w0 = 64, .w1 = 32, .w2 = 32}, C/2,
                    C, s);
        profile_op(55, s);
        linear_dx(b_dqkv_base, b_dqkv, b_dqkv_w, &mm_qkv_dx, ws_micro_3, s);
        profile_op(56, s);
        lora_da(AT(grad_b_qkv_lora_a, l), b_dqkv_u, r_qkv_xu, NULL, NO_SITE, &lora_qkv_da,
                ws_micro_3, s);
        profile_op(57, s);
        lora_dx(b_dnorm1, b_dqkv_u, AT(b_qkv_lora_a, l), NULL, NO_SITE, &lora_qkv_dx, ws_micro_3,
                s);
        profile_op(58, s);      // recipe.lua:5
        rmsnorm_dx_add(dx, b_dnorm1, AT(x, l), AT(b_norm1_w, l), r_norm1_rstd, b_dmid, B * T, C,
                       SCALE_W, s);
    }
}

/* after the last micro-batch: the norm of the gradient (6.14 kFLOP) */
static void run_reduce(cudaStream_t s)
{
    profile_op(59, s);      // recipe.lua:3
    grad_norm(total_norm, grad_b_qkv_lora_a, SPAN(grad_b_qkv_lora_a, grad_b_down_lora_b),
              ws_reduce_0, s);
}

/* clipping and AdamW (135 kFLOP) */
static void run_update(cudaStream_t s)
{
    profile_op(60, s);      // recipe.lua:3
    adamw_mixed(b_qkv_lora_a, Master{.remainder = remainder_b_qkv_lora_a}, m_b_qkv_lora_a,
                v_b_qkv_lora_a, grad_b_qkv_lora_a, adamw_args, total_norm,
                SPAN(b_qkv_lora_a, b_down_lora_b), WITH_DECAY, s);
}

/* the loss of one micro-batch (20.6 MFLOP) */
static void run_eval(cudaStream_t s)
{
    /* embedding */
    profile_op(61, s);      // recipe.lua:6
    embed_fwd(e_x, tokens, wte, NULL, NULL, B * T, T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(62, s);      // recipe.lua:5
        rmsnorm_fwd(e_norm1, e_norm1_rstd, e_x, AT(b_norm1_w, l), B * T, C, NORM_EPS, SCALE_W, s,
                    C+2*R);
        profile_op(63, s);      // recipe.lua:11
        dequant_nf4(e_qkv_nf4, AT(b_qkv_w, l), AT(absmax_b_qkv_w, l), AT(nested_b_qkv_w, l),
                    AT(offset_b_qkv_w, l), Nf4Rows{.parts = 3, .w0 = 64, .w1 = 32, .w2 = 32}, C/2,
                    C+2*R, s);
        profile_op(64, s);
        lora_fold(e_qkv_xu, e_qkv_wb, AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE,
                  &lora_qkv, ws_eval_1, s);
        profile_op(65, s);      // recipe.lua:6
        linear_bias_fwd(e_qkv, e_qkv_xu, e_qkv_wb, AT(b_qkv_b, l), &mm_qkv, ws_eval_1, s);
        profile_op(66, s);      // recipe.lua:5
        rope_fwd(e_rot, rope_cos, rope_sin, NULL, B * T, T, H, K, D, s);
        profile_op(67, s);      // recipe.lua:6
        attention_fwd<D, ATTENTION_CAUSAL, 128>(e_att, e_att_lse, e_rot, AttentionRule{}, B, T, H,
                                                K, ATTENTION_SCALE, NULL, s);
        profile_op(68, s);      // recipe.lua:11
        dequant_nf4(e_o_nf4, AT(b_o_w, l), AT(absmax_b_o_w, l), AT(nested_b_o_w, l),
                    AT(offset_b_o_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, H*D/2,
                    H*D, s);
        profile_op(69, s);      // recipe.lua:6
        linear_fwd(e_o, e_att, e_o_nf4, &mm_o, ws_eval_1, s);
        /* feed-forward */
        profile_op(70, s);
        add_rmsnorm_fwd(e_mid, e_norm2, e_norm2_rstd, e_x, e_o, AT(b_norm2_w, l), B * T, C,
                        NORM_EPS, SCALE_W, s, C+2*R);
        profile_op(71, s);      // recipe.lua:11
        dequant_nf4(e_gate_up_nf4, AT(b_gate_up_w, l), AT(absmax_b_gate_up_w, l),
                    AT(nested_b_gate_up_w, l), AT(offset_b_gate_up_w, l),
                    Nf4Rows{.parts = 2, .w0 = 96, .w1 = 96, .w2 = 0}, C/2, C+2*R, s);
        profile_op(72, s);
        lora_fold(e_gate_up_xu, e_gate_up_wb, AT(b_gate_up_lora_a, l), AT(b_gate_up_lora_b, l),
                  NULL, NO_SITE, &lora_gate_up, ws_eval_1, s);
        profile_op(73, s);      // recipe.lua:6
        linear_fwd(e_gate_up, e_gate_up_xu, e_gate_up_wb, &mm_gate_up, ws_eval_1, s);
        profile_op(74, s);
        swiglu_fwd(e_act, e_gate_up, B * T, F, s);
        profile_op(75, s);      // recipe.lua:11
        dequant_nf4(e_down_nf4, AT(b_down_w, l), AT(absmax_b_down_w, l), AT(nested_b_down_w, l),
                    AT(offset_b_down_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, F/2,
                    F, s);
        profile_op(76, s);      // recipe.lua:6
        linear_fwd(e_down, e_act, e_down_nf4, &mm_down, ws_eval_1, s);
        profile_op(77, s);      // recipe.lua:11
        lora_fwd(e_down_lora, e_down_u, e_act, AT(b_down_lora_a, l), AT(b_down_lora_b, l), NULL,
                 NO_SITE, &lora_down, ws_eval_1, s);
        profile_op(78, s);      // recipe.lua:6
        add_fwd(e_x, e_mid, e_down_lora, B * T * C, s);
    }
    /* head */
    profile_op(79, s);      // recipe.lua:5
    rmsnorm_fwd(e_norm_f, e_norm_f_rstd, e_x, norm_f_w, B * T, C, NORM_EPS, SCALE_W, s);
    profile_op(80, s);      // recipe.lua:3
    ce_fwd<1024>(e_losses, e_norm_f, head, labels, CeHead{}, B * T, V, C, ROWS, &mm_head_logits,
                 ws_eval_2, s);
    profile_op(81, s);
    loss_sum(loss, e_losses, B * T, s);
}

/* one token of each text: the logits of the next (453 kFLOP) */
static void run_decode(cudaStream_t s)
{
    /* embedding */
    profile_op(82, s);      // recipe.lua:6
    embed_fwd(d_x, token, wte, NULL, NULL, DECODE_B * DECODE_T, DECODE_T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(83, s);      // recipe.lua:5
        rmsnorm_fwd(d_norm1, d_norm1_rstd, d_x, AT(b_norm1_w, l), DECODE_B * DECODE_T, C, NORM_EPS,
                    SCALE_W, s, C+2*R);
        profile_op(84, s);      // recipe.lua:11
        dequant_nf4(d_qkv_nf4, AT(b_qkv_w, l), AT(absmax_b_qkv_w, l), AT(nested_b_qkv_w, l),
                    AT(offset_b_qkv_w, l), Nf4Rows{.parts = 3, .w0 = 64, .w1 = 32, .w2 = 32}, C/2,
                    C+2*R, s);
        profile_op(85, s);
        lora_fold(d_qkv_xu, d_qkv_wb, AT(b_qkv_lora_a, l), AT(b_qkv_lora_b, l), NULL, NO_SITE,
                  &lora_qkv_decode, ws_decode_1, s);
        profile_op(86, s);      // recipe.lua:6
        linear_bias_fwd(d_qkv, d_qkv_xu, d_qkv_wb, AT(b_qkv_b, l), &mm_qkv_decode, ws_decode_1, s);
        profile_op(87, s);      // recipe.lua:5
        rope_fwd(d_rot, rope_cos, rope_sin, position, DECODE_B * DECODE_T, DECODE_T, H, K, D, s);
        profile_op(88, s);      // recipe.lua:6
        attention_decode<D>(d_att, AT(keys, l), AT(values, l), d_rot, position, DECODE_B, T, H, K,
                            ATTENTION_SCALE, ws_decode_1, s);
        profile_op(89, s);      // recipe.lua:11
        dequant_nf4(d_o_nf4, AT(b_o_w, l), AT(absmax_b_o_w, l), AT(nested_b_o_w, l),
                    AT(offset_b_o_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, H*D/2,
                    H*D, s);
        profile_op(90, s);      // recipe.lua:6
        linear_fwd(d_o, d_att, d_o_nf4, &mm_o_decode, ws_decode_1, s);
        /* feed-forward */
        profile_op(91, s);
        add_rmsnorm_fwd(d_mid, d_norm2, d_norm2_rstd, d_x, d_o, AT(b_norm2_w, l),
                        DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W, s, C+2*R);
        profile_op(92, s);      // recipe.lua:11
        dequant_nf4(d_gate_up_nf4, AT(b_gate_up_w, l), AT(absmax_b_gate_up_w, l),
                    AT(nested_b_gate_up_w, l), AT(offset_b_gate_up_w, l),
                    Nf4Rows{.parts = 2, .w0 = 96, .w1 = 96, .w2 = 0}, C/2, C+2*R, s);
        profile_op(93, s);
        lora_fold(d_gate_up_xu, d_gate_up_wb, AT(b_gate_up_lora_a, l), AT(b_gate_up_lora_b, l),
                  NULL, NO_SITE, &lora_gate_up_decode, ws_decode_1, s);
        profile_op(94, s);      // recipe.lua:6
        linear_fwd(d_gate_up, d_gate_up_xu, d_gate_up_wb, &mm_gate_up_decode, ws_decode_1, s);
        profile_op(95, s);
        swiglu_fwd(d_act, d_gate_up, DECODE_B * DECODE_T, F, s);
        profile_op(96, s);      // recipe.lua:11
        dequant_nf4(d_down_nf4, AT(b_down_w, l), AT(absmax_b_down_w, l), AT(nested_b_down_w, l),
                    AT(offset_b_down_w, l), Nf4Rows{.parts = 1, .w0 = 64, .w1 = 0, .w2 = 0}, F/2,
                    F, s);
        profile_op(97, s);      // recipe.lua:6
        linear_fwd(d_down, d_act, d_down_nf4, &mm_down_decode, ws_decode_1, s);
        profile_op(98, s);      // recipe.lua:11
        lora_fwd(d_down_lora, d_down_u, d_act, AT(b_down_lora_a, l), AT(b_down_lora_b, l), NULL,
                 NO_SITE, &lora_down_decode, ws_decode_1, s);
        profile_op(99, s);      // recipe.lua:6
        add_fwd(d_x, d_mid, d_down_lora, DECODE_B * DECODE_T * C, s);
    }
    /* head */
    profile_op(100, s);     // recipe.lua:5
    rmsnorm_fwd(d_norm_f, d_norm_f_rstd, d_x, norm_f_w, DECODE_B * DECODE_T, C, NORM_EPS, SCALE_W,
                s);
    profile_op(101, s);     // recipe.lua:6
    logits_fwd(logits, d_norm_f, head, &mm_head_logits_decode, ws_decode_2, s);
}

static void open_streams(void)
{
    cuda_check(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "a stream");
    cuda_check(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking), "a stream");
    cuda_check(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming), "an event");
    cuda_check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "an event");
}

static void open_io(void)
{
    inputs = (char *)device_pinned(INPUTS_BYTES, "the inputs");
    io.loss[0] = (double *)device_pinned(sizeof *loss, "loss");
    io.total_norm = (float *)device_pinned(sizeof *total_norm, "total_norm");
    io.logits = (float *)device_pinned(DECODE_B * V * sizeof *logits, "logits");
    io.tokens[0] = PINNED(tokens);
    io.labels[0] = PINNED(labels);
    io.scale = PINNED(scale);
    io.adamw_args = PINNED(adamw_args);
    io.token = PINNED(token);
    io.position = PINNED(position);
}

/* Waits for the event, watching the other ranks meanwhile. */
static void wait_for(cudaEvent_t event)
{
    cudaError_t state;
    while ((state = cudaEventQuery(event)) == cudaErrorNotReady)
        comm_poll();
    comm_advance();
    cuda_check(state, "the step");
}

/* Starts the transfer of the inputs. The stream `work` waits for it, and so does the host before it
 * writes inputs again. */
static void send_inputs(void)
{
    cuda_check(cudaMemcpyAsync(arena + INPUTS_OFFSET, inputs, INPUTS_BYTES, cudaMemcpyHostToDevice,
                               transfer), "a copy to the GPU");
    cuda_check(cudaEventRecord(arrived, transfer), "an event");
    cuda_check(cudaStreamWaitEvent(work, arrived, 0), "an event");
}

void step_open(void)
{
    device_open(model.target);
    comm_connect();
    place_values();
    open_streams();
    open_io();
    name_tensors();
    model.merges = merges;
    model.nmerges = sizeof merges / sizeof merges[0];
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
    run_init(work);
    cuda_check(cudaStreamSynchronize(work), "the tables");
}

static void clear(void *to, size_t bytes, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(to, 0, bytes, s), "a value");
}

static void fetch(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s), "a copy to the host");
}

/* Called after the last launch: records the event `done` and waits until the inputs have
 * arrived. */
static void begun(void)
{
    if (profile_on)
        profile_mark(PROFILE_HOST, work);
    cuda_check(cudaEventRecord(done, work), "an event");
    wait_for(arrived);
}

void step_wait(void)
{
    wait_for(done);
}

/* The calls of a step. The first run is eager, because NCCL connects the ranks at the first
 * collective of a size and the driver loads a kernel at its first launch; a capture allows
 * neither. */
typedef struct {
    void (*run)(cudaStream_t s);
    bool has_run;
    cudaGraphExec_t graph;               // captured before the second run; NULL until then
} Captured;

/* Captures a step as a graph. The mode is relaxed, because NCCL may allocate for a captured call
 * and launches from its own thread. */
static cudaGraphExec_t capture(void (*run)(cudaStream_t s))
{
    cudaGraph_t graph;
    cudaGraphExec_t all;
    cuda_check(cudaStreamBeginCapture(work, cudaStreamCaptureModeRelaxed), "capturing a step");
    run(work);
    cuda_check(cudaStreamEndCapture(work, &graph), "capturing a step");
    cuda_check(cudaGraphInstantiate(&all, graph, 0), "the graph of a step");
    cuda_check(cudaGraphDestroy(graph), "the graph of a step");
    return all;
}

/* Runs a step with the inputs in io: as a graph, or call by call on the first run and in steps of
 * --profile. */
static void launch(Captured *c)
{
    if (c->has_run && !c->graph && !profile_on)
        c->graph = capture(c->run);
    send_inputs();
    if (c->graph && !profile_on)
        cuda_check(cudaGraphLaunch(c->graph, work), "a step");
    else
        c->run(work);
    c->has_run = true;
    begun();
}

/* step_train() without the transfer of its inputs. */
static void all_of_train(cudaStream_t s)
{
    clear(loss, sizeof *loss, s);
    run_micro(s);
    run_reduce(s);
    run_update(s);
    fetch(io.loss[0], loss, sizeof *loss, s);
    fetch(io.total_norm, total_norm, sizeof *total_norm, s);
}

void step_train(void)
{
    static Captured all = {.run = all_of_train};
    launch(&all);
}

void step_eval(void)
{
    send_inputs();
    clear(loss, sizeof *loss, work);
    run_eval(work);
    fetch(io.loss[0], loss, sizeof *loss, work);
    begun();
}

void step_decode(void)
{
    send_inputs();
    run_decode(work);
    fetch(io.logits, logits, DECODE_B * V * sizeof *logits, work);
    begun();
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
