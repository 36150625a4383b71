/* step.cu -- the programs of a training step.
 *
 * Every matrix product and kernel call of a step, straight down.
 * Made by `gen tests/gold/ir/feed_forward_tiles/recipe.lua`:
 * change the recipe, not this file.
 * IR sha256 68330648eb7144ee, 51 kernel calls in 6 programs, arena 34.1 MiB a rank.
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. Every
 * launch goes to the stream that it is given. */
#define ACT_BF16 1        // activations and compute weights are bf16
#include "kernels/cuda/adamw.cuh"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/ce.cuh"
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/ffn.cuh"
#include "kernels/cuda/layernorm.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/pointwise.cuh"

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
static Gemm mm_qkv = {.name = "qkv", .m = B * T, .n = 3*C, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_o = {.name = "o", .m = B * T, .n = C, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_up = {.name = "up", .m = FFN_ROWS, .n = F, .k = C, .form = GEMM_NT, .bias = 1};
static Gemm mm_down = {.name = "down", .m = FFN_ROWS, .n = C, .k = F, .form = GEMM_NT, .bias = 1};
static Gemm mm_head_logits = {.name = "head_logits", .m = ROWS, .n = ce_width(V), .k = C,
    .form = GEMM_NT, .out_f32 = 1};
static Gemm mm_head_dx = {.name = "head_dx", .m = ROWS, .n = C, .k = ce_width(V), .form = GEMM_NN};
static Gemm mm_head_dw = {.name = "head_dw", .m = ce_width(V), .n = C, .k = ROWS, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_down_dw = {.name = "down_dw", .m = C, .n = F, .k = FFN_ROWS, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_down_dx = {.name = "down_dx", .m = FFN_ROWS, .n = F, .k = C, .form = GEMM_NN};
static Gemm mm_up_dw = {.name = "up_dw", .m = F, .n = C, .k = FFN_ROWS, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_up_dx = {.name = "up_dx", .m = FFN_ROWS, .n = C, .k = F, .form = GEMM_NN};
static Gemm mm_o_dw = {.name = "o_dw", .m = C, .n = C, .k = B * T, .form = GEMM_TN, .out_f32 = 1,
    .beta = 1};
static Gemm mm_o_dx = {.name = "o_dx", .m = B * T, .n = C, .k = C, .form = GEMM_NN};
static Gemm mm_qkv_dw = {.name = "qkv_dw", .m = 3*C, .n = C, .k = B * T, .form = GEMM_TN,
    .out_f32 = 1, .beta = 1};
static Gemm mm_qkv_dx = {.name = "qkv_dx", .m = B * T, .n = C, .k = 3*C, .form = GEMM_NN};
static Gemm mm_qkv_decode = {.name = "qkv_decode", .m = DECODE_B * DECODE_T, .n = 3*C, .k = C,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_o_decode = {.name = "o_decode", .m = DECODE_B * DECODE_T, .n = C, .k = C,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_up_decode = {.name = "up_decode", .m = DECODE_B * DECODE_T, .n = F, .k = C,
    .form = GEMM_NT, .bias = 1, .epilogue = GEMM_GELU};
static Gemm mm_down_decode = {.name = "down_decode", .m = DECODE_B * DECODE_T, .n = C, .k = F,
    .form = GEMM_NT, .bias = 1};
static Gemm mm_head_logits_decode = {.name = "head_logits_decode", .m = DECODE_B * DECODE_T,
    .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1};

static Gemm *const gemms[] = {
    &mm_qkv, &mm_o, &mm_up, &mm_down, &mm_head_logits, &mm_head_dx, &mm_head_dw, &mm_down_dw,
    &mm_down_dx, &mm_up_dw, &mm_up_dx, &mm_o_dw, &mm_o_dx, &mm_qkv_dw, &mm_qkv_dx,
    &mm_qkv_decode, &mm_o_decode, &mm_up_decode, &mm_down_decode, &mm_head_logits_decode,
};

static char *arena;
static void place_values(void)
{
    arena = (char *)device_arena(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
#include "plan.h"
    array_zero(arena, PERSISTENT_BYTES);         // the gaps between gradients count in the norm
}

/* The part of the arena with all inputs, and its pinned copy that the host writes. */
enum : int64_t { INPUTS_OFFSET = 1980928, INPUTS_BYTES = 4096 };
static char *inputs;
#define PINNED(name) ((decltype(name))(inputs + ((char *)(name) - arena - INPUTS_OFFSET)))

static cudaStream_t work, transfer;      // kernels; transfer of inputs
static cudaEvent_t arrived, done;        // end of the transfer; end of the program

/* The map from rows of parameters to tensors of Hugging Face and PEFT files. */
static void name_tensors(void)
{
    const Tensor rows[] = {
#include "tensors.h"
    };
    model.tensors = model_expand(rows, sizeof rows / sizeof rows[0], &model.ntensors);
}

/* forward and backward of a micro-batch; adds to the gradients and to the loss (50.7 MFLOP) */
static void run_micro(int micro, cudaStream_t s)
{
    /* embedding */
    profile_op(0, s);       // recipe.lua:4
    embed_fwd(AT(x, 0), AT(tokens, micro), wte, wpe, NULL, B * T, T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(1, s);
        layernorm_fwd(AT(b_norm1, l), AT(b_norm1_mean, l), AT(b_norm1_rstd, l), AT(x, l),
                      AT(b_norm1_w, l), AT(b_norm1_b, l), B * T, C, NORM_EPS, s);
        profile_op(2, s);
        linear_bias_fwd(AT(b_qkv, l), AT(b_norm1, l), AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv,
                        ws_micro_1, s);
        profile_op(3, s);
        attention_fwd<D, ATTENTION_CAUSAL, 128>(AT(b_att, l), AT(b_att_lse, l), AT(b_qkv, l),
                                                AttentionRule{}, B, T, H, K, ATTENTION_SCALE, NULL,
                                                s);
        profile_op(4, s);
        linear_bias_fwd(AT(b_o, l), AT(b_att, l), AT(b_o_w, l), AT(b_o_b, l), &mm_o, ws_micro_1, s);
        /* feed-forward */
        profile_op(5, s);
        add_layernorm_fwd(AT(b_mid, l), AT(b_norm2, l), AT(b_norm2_mean, l), AT(b_norm2_rstd, l),
                          AT(x, l), AT(b_o, l), AT(b_norm2_w, l), AT(b_norm2_b, l), B * T, C,
                          NORM_EPS, s);
        profile_op(6, s);       // recipe.lua:7
        ffn_fwd<FFN_GELU>(b_down, AT(b_norm2, l), FfnWeights{.up = AT(b_up_w, l),
                          .down = AT(b_down_w, l), .up_bias = AT(b_up_b, l),
                          .down_bias = AT(b_down_b, l)}, B * T, C, F, FFN_ROWS, &mm_up, &mm_down,
                          ws_micro_1, s);
        profile_op(7, s);
        add_fwd(AT(x, l + 1), AT(b_mid, l), b_down, B * T * C, s);
    }
    /* head */
    profile_op(8, s);       // recipe.lua:4
    layernorm_fwd(norm_f, norm_f_mean, norm_f_rstd, AT(x, L), norm_f_w, norm_f_b, B * T, C,
                  NORM_EPS, s);
    profile_op(9, s);       // recipe.lua:2
    ce_bwd<1024>(losses, dnorm_f, norm_f, wte, AT(labels, micro), scale, CeHead{.dw = grad_wte},
                 B * T, V, C, ROWS, ACCUMULATE, &mm_head_logits, &mm_head_dx, &mm_head_dw,
                 ws_micro_2, s);
    profile_op(10, s);
    loss_sum(AT(loss, micro), losses, B * T, s);
    /* head, backward */
    profile_op(11, s);      // recipe.lua:4
    layernorm_bwd<256>(grad_norm_f_w, grad_norm_f_b, dx, dnorm_f, AT(x, L), norm_f_w, norm_f_mean,
                       norm_f_rstd, B * T, C, ACCUMULATE, ws_micro_2, s);
    for (int l = L - 1; l >= 0; l--) {
        /* feed-forward, backward */
        profile_op(12, s);      // recipe.lua:7
        bias_grad(AT(grad_b_down_b, l), dx, B * T, C, ACCUMULATE, ws_micro_3, s);
        profile_op(13, s);
        ffn_bwd<FFN_GELU>(AT(b_dnorm2, l), dx, AT(b_norm2, l), FfnWeights{.up = AT(b_up_w, l),
                          .down = AT(b_down_w, l), .up_bias = AT(b_up_b, l)},
                          FfnGrads{.up = AT(grad_b_up_w, l), .down = AT(grad_b_down_w, l),
                          .up_bias = AT(grad_b_up_b, l)}, B * T, C, F, FFN_ROWS, ACCUMULATE,
                          &mm_up, &mm_down_dw, &mm_down_dx, &mm_up_dw, &mm_up_dx, ws_micro_3, s);
        profile_op(14, s);      // recipe.lua:4
        layernorm_bwd_add<256>(AT(grad_b_norm2_w, l), AT(grad_b_norm2_b, l), b_dmid,
                               AT(b_dnorm2, l), AT(b_mid, l), AT(b_norm2_w, l),
                               AT(b_norm2_mean, l), AT(b_norm2_rstd, l), dx, B * T, C, ACCUMULATE,
                               ws_micro_3, s);
        /* attention, backward */
        profile_op(15, s);
        bias_grad(AT(grad_b_o_b, l), b_dmid, B * T, C, ACCUMULATE, ws_micro_3, s);
        profile_op(16, s);
        linear_dw(AT(grad_b_o_w, l), b_dmid, AT(b_att, l), &mm_o_dw, ws_micro_3, s);
        profile_op(17, s);
        linear_dx(b_datt, b_dmid, AT(b_o_w, l), &mm_o_dx, ws_micro_3, s);
        profile_op(18, s);
        attention_bwd<D, ATTENTION_CAUSAL, 128>(b_dqkv, b_datt, AT(b_att, l), AT(b_att_lse, l),
                                                AT(b_qkv, l), AttentionRule{}, B, T, H, K,
                                                ATTENTION_SCALE, ws_micro_3, s);
        profile_op(19, s);
        bias_grad(AT(grad_b_qkv_b, l), b_dqkv, B * T, 3*C, ACCUMULATE, ws_micro_3, s);
        profile_op(20, s);
        linear_dw(AT(grad_b_qkv_w, l), b_dqkv, AT(b_norm1, l), &mm_qkv_dw, ws_micro_3, s);
        profile_op(21, s);
        linear_dx(b_dnorm1, b_dqkv, AT(b_qkv_w, l), &mm_qkv_dx, ws_micro_3, s);
        profile_op(22, s);
        layernorm_bwd_add<256>(AT(grad_b_norm1_w, l), AT(grad_b_norm1_b, l), dx, b_dnorm1,
                               AT(x, l), AT(b_norm1_w, l), AT(b_norm1_mean, l),
                               AT(b_norm1_rstd, l), b_dmid, B * T, C, ACCUMULATE, ws_micro_3, s);
    }
    /* embedding, backward */
    profile_op(23, s);
    embed_bwd(grad_wte, dx, AT(tokens, micro), NO_PAD, B * T, C, V, ACCUMULATE, ws_micro_4, s);
    profile_op(24, s);
    pos_bwd(grad_wpe, dx, B * T, T, C, P, ACCUMULATE, s);
}

/* start of a step: clears the gradients that micro-batches add to */
static void run_begin(cudaStream_t s)
{
    profile_op(25, s);      // recipe.lua:6
    zero(grad_wte, SPAN(grad_wte, grad_norm_f_b), s);
}

/* after the last micro-batch: the norm of the gradient (98.7 kFLOP) */
static void run_reduce(cudaStream_t s)
{
    profile_op(26, s);      // recipe.lua:2
    grad_norm(total_norm, grad_wte, SPAN(grad_wte, grad_norm_f_b), ws_reduce_0, s);
}

/* clipping and AdamW (1.42 MFLOP) */
static void run_update(cudaStream_t s)
{
    profile_op(27, s);      // recipe.lua:2
    adamw_mixed(wte, Master{.remainder = remainder_wte}, m_wte, v_wte, grad_wte, adamw_args,
                total_norm, SPAN(wte, b_down_w), WITH_DECAY, s);
    profile_op(28, s);
    adamw_mixed(b_norm1_w, Master{.remainder = remainder_b_norm1_w}, m_b_norm1_w, v_b_norm1_w,
                grad_b_norm1_w, adamw_args, total_norm, SPAN(b_norm1_w, norm_f_b), NO_DECAY, s);
}

/* the loss of one micro-batch (15.5 MFLOP) */
static void run_eval(cudaStream_t s)
{
    /* embedding */
    profile_op(29, s);      // recipe.lua:4
    embed_fwd(e_x, AT(tokens, 0), wte, wpe, NULL, B * T, T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(30, s);
        layernorm_fwd(e_norm1, e_norm1_mean, e_norm1_rstd, e_x, AT(b_norm1_w, l), AT(b_norm1_b, l),
                      B * T, C, NORM_EPS, s);
        profile_op(31, s);
        linear_bias_fwd(e_qkv, e_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv, ws_eval_1, s);
        profile_op(32, s);
        attention_fwd<D, ATTENTION_CAUSAL, 128>(e_att, e_att_lse, e_qkv, AttentionRule{}, B, T, H,
                                                K, ATTENTION_SCALE, NULL, s);
        profile_op(33, s);
        linear_bias_fwd(e_o, e_att, AT(b_o_w, l), AT(b_o_b, l), &mm_o, ws_eval_1, s);
        /* feed-forward */
        profile_op(34, s);
        add_layernorm_fwd(e_mid, e_norm2, e_norm2_mean, e_norm2_rstd, e_x, e_o, AT(b_norm2_w, l),
                          AT(b_norm2_b, l), B * T, C, NORM_EPS, s);
        profile_op(35, s);      // recipe.lua:7
        ffn_fwd<FFN_GELU>(e_down, e_norm2, FfnWeights{.up = AT(b_up_w, l), .down = AT(b_down_w, l),
                          .up_bias = AT(b_up_b, l), .down_bias = AT(b_down_b, l)}, B * T, C, F,
                          FFN_ROWS, &mm_up, &mm_down, ws_eval_1, s);
        profile_op(36, s);
        add_fwd(e_x, e_mid, e_down, B * T * C, s);
    }
    /* head */
    profile_op(37, s);      // recipe.lua:4
    layernorm_fwd(e_norm_f, e_norm_f_mean, e_norm_f_rstd, e_x, norm_f_w, norm_f_b, B * T, C,
                  NORM_EPS, s);
    profile_op(38, s);      // recipe.lua:2
    ce_fwd<1024>(e_losses, e_norm_f, wte, AT(labels, 0), CeHead{}, B * T, V, C, ROWS,
                 &mm_head_logits, ws_eval_2, s);
    profile_op(39, s);
    loss_sum(AT(loss, 0), e_losses, B * T, s);
}

/* one token of each text: the logits of the next (508 kFLOP) */
static void run_decode(cudaStream_t s)
{
    /* embedding */
    profile_op(40, s);      // recipe.lua:4
    embed_fwd(d_x, token, wte, wpe, position, DECODE_B * DECODE_T, DECODE_T, C, s);
    for (int l = 0; l < L; l++) {
        /* attention */
        profile_op(41, s);
        layernorm_fwd(d_norm1, d_norm1_mean, d_norm1_rstd, d_x, AT(b_norm1_w, l), AT(b_norm1_b, l),
                      DECODE_B * DECODE_T, C, NORM_EPS, s);
        profile_op(42, s);
        linear_bias_fwd(d_qkv, d_norm1, AT(b_qkv_w, l), AT(b_qkv_b, l), &mm_qkv_decode,
                        ws_decode_1, s);
        profile_op(43, s);
        attention_decode<D>(d_att, AT(keys, l), AT(values, l), d_qkv, position, DECODE_B, T, H, K,
                            ATTENTION_SCALE, ws_decode_1, s);
        profile_op(44, s);
        linear_bias_fwd(d_o, d_att, AT(b_o_w, l), AT(b_o_b, l), &mm_o_decode, ws_decode_1, s);
        /* feed-forward */
        profile_op(45, s);
        add_layernorm_fwd(d_mid, d_norm2, d_norm2_mean, d_norm2_rstd, d_x, d_o, AT(b_norm2_w, l),
                          AT(b_norm2_b, l), DECODE_B * DECODE_T, C, NORM_EPS, s);
        profile_op(46, s);
        linear_bias_gelu_fwd(d_act, d_up, d_norm2, AT(b_up_w, l), AT(b_up_b, l), &mm_up_decode,
                             ws_decode_1, s);
        profile_op(47, s);
        linear_bias_fwd(d_down, d_act, AT(b_down_w, l), AT(b_down_b, l), &mm_down_decode,
                        ws_decode_1, s);
        profile_op(48, s);
        add_fwd(d_x, d_mid, d_down, DECODE_B * DECODE_T * C, s);
    }
    /* head */
    profile_op(49, s);
    layernorm_fwd(d_norm_f, d_norm_f_mean, d_norm_f_rstd, d_x, norm_f_w, norm_f_b,
                  DECODE_B * DECODE_T, C, NORM_EPS, s);
    profile_op(50, s);
    logits_fwd(logits, d_norm_f, wte, &mm_head_logits_decode, ws_decode_2, s);
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
    io.loss[0] = (double *)device_pinned(sizeof *loss * loss_slots * loss_stride, "loss");
    io.total_norm = (float *)device_pinned(sizeof *total_norm, "total_norm");
    io.logits = (float *)device_pinned(DECODE_B * V * sizeof *logits, "logits");
    for (int k = 1; k < MICROS; k++) {
        io.loss[k] = io.loss[0] + k * loss_stride;
    }
    for (int k = 0; k < MICROS; k++) {
        io.tokens[k] = PINNED(AT(tokens, k));
        io.labels[k] = PINNED(AT(labels, k));
    }
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
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
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
    clear(loss, sizeof *loss * loss_slots * loss_stride, s);
    run_begin(s);
    for (int micro = 0; micro < MICROS; micro++)
        run_micro(micro, s);
    run_reduce(s);
    run_update(s);
    fetch(io.loss[0], loss, sizeof *loss * loss_slots * loss_stride, s);
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
    clear(loss, sizeof *loss * loss_slots * loss_stride, work);
    run_eval(work);
    fetch(io.loss[0], loss, sizeof *loss * loss_slots * loss_stride, work);
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
