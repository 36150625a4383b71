/* families.c -- the forward pass of a decoder: one row a family, one function a block.
 *
 * In:    the model.* and lora.* fields.   Out: parameters with their Hugging Face names, and
 *        forward ops.
 * Keeps: the same functions write the training, recomputing, evaluating and decoding passes.
 * Source: transformers' GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM; PEFT's LoRA. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const Family families[] = {
    {.name = "gpt2",
     .layernorm = true,
     .positions = true,
     .gelu = true,
     .biases = true,
     .transposed = true,
     .residual_init = 2,
     .embed = "transformer.wte",
     .place = "transformer.wpe",
     .norm1 = "transformer.h.%d.ln_1",
     .norm2 = "transformer.h.%d.ln_2",
     .norm = "transformer.ln_f",
     .head = "lm_head",
     .q = "transformer.h.%d.attn.c_attn",
     .o = "transformer.h.%d.attn.c_proj",
     .gate = "transformer.h.%d.mlp.c_fc",
     .down = "transformer.h.%d.mlp.c_proj"},
#define LLAMA_NAMES \
    .embed = "model.embed_tokens", .norm1 = "model.layers.%d.input_layernorm", \
    .norm2 = "model.layers.%d.post_attention_layernorm", .norm = "model.norm", .head = "lm_head", \
    .q = "model.layers.%d.self_attn.q_proj", .k = "model.layers.%d.self_attn.k_proj", \
    .v = "model.layers.%d.self_attn.v_proj", .o = "model.layers.%d.self_attn.o_proj", \
    .gate = "model.layers.%d.mlp.gate_proj", .up = "model.layers.%d.mlp.up_proj", \
    .down = "model.layers.%d.mlp.down_proj"
    {.name = "llama", LLAMA_NAMES},
    {.name = "qwen2", .qkv_bias = true, LLAMA_NAMES},
};

const Family *family_find(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (!strcmp(families[i].name, name))
            return &families[i];
    bug("no family %s", name);
}

/* ---- shapes and values ----------------------------------------------------------------------- */

void family_shapes(Build *b)
{
    Config *c = b->c;
    b->family = family_find(config_text(c, F_model_family));
    b->B = config_int(c, F_batch_micro);
    b->T = config_int(c, F_seq_max);
    size_add(b, "B", b->B);
    size_add(b, "T", b->T);
    b->L = config_int(c, F_model_layers);
    b->C = config_int(c, F_model_hidden);
    b->H = config_int(c, F_model_heads);
    b->K = config_int(c, F_model_kv_heads);
    b->D = config_int(c, F_model_head_dim);
    b->F = config_int(c, F_model_ffn);
    b->V = config_int(c, F_model_vocab);
    const char *precision = config_text(c, F_precision);
    b->act = !strcmp(precision, "bf16") ? DT_BF16 : !strcmp(precision, "fp16") ? DT_F16 : DT_F32;
    bool attention_bias = config_bool(c, F_model_attention_bias);
    b->bias_qkv = b->family->biases || b->family->qkv_bias || attention_bias;
    b->bias_o = b->family->biases || attention_bias;
}

static Dim dim_B(const Build *b) { return b->mode == MODE_DECODE ? dim(1, "1") : dim(b->B, "B"); }
static Dim dim_T(const Build *b) { return b->mode == MODE_DECODE ? dim(1, "1") : dim(b->T, "T"); }

/* An activation (B, T, width). */
static Ref activation(Build *b, const char *name, Dim width)
{
    Dim d[3] = {dim_B(b), dim_T(b), width};
    return build_temp(b, name, b->act, 3, d);
}

static Dim dim_qkv(const Build *b)
{
    return b->family->k ? dim((b->H + 2 * b->K) * b->D, "(H+2*K)*D") : dim(3 * b->C, "3*C");
}

static Dim dim_heads(const Build *b)
{
    return b->family->k ? dim(b->H * b->D, "H*D") : dim(b->C, "C");
}

/* The last name of a path. */
static const char *leaf(const char *path)
{
    return strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
}

static bool listed(Config *c, int field, const char *path)
{
    return config_listed(c, field, leaf(path));
}

/* Weight decay by the rule of the recipe; hf5: everything but norms and biases, as transformers 5
 * decides by name. */
static bool decays(const Build *b, bool norm_or_bias)
{
    const char *rule = config_text(b->c, F_optim_decay_rule);
    return !strcmp(rule, "all") || (!strcmp(rule, "hf5") && !norm_or_bias);
}

typedef struct { const char *path; int64_t rows; } Module;

/* A parameter of rank 1 or 2 that holds the tensors `suffix` of the modules, one below the
 * other. */
static Value *parameter(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                        int nmodules, const char *suffix, bool norm_or_bias)
{
    Value *v = ir_value(b->g, name);
    if (v)
        return v;
    Dim d[2] = {rows, cols};
    v = ir_new(b->g, VK_PARAM, PU_weights, b->act, name, cols.n ? 2 : 1, d, b->loc);
    bool layered = strstr(m[0].path, "%d");
    v->count = layered ? b->L : 0;
    v->slots = layered ? b->L : 1;
    bool lora = config_int(b->c, F_lora_rank) > 0;
    bool saved = lora && listed(b->c, F_lora_modules_to_save, m[0].path);
    v->trained = !lora || saved;
    v->decay = v->trained && decays(b, norm_or_bias);
    v->adapter = saved;
    v->init = norm_or_bias ? strcmp(suffix, "weight") ? "zeros" : "ones" : "normal";
    v->std = config_float(b->c, F_model_init_std);
    v->npieces = nmodules;
    v->piece = arena_new(sizeof(Piece) * (size_t)nmodules);
    int64_t row = 0;
    for (int i = 0; i < nmodules; i++) {
        v->piece[i] = (Piece){text_print("%s.%s", m[i].path, suffix), row, m[i].rows, 0,
                              b->family->transposed && layered && cols.n};
        row += m[i].rows;
    }
    return v;
}

/* An adapter's weight: trained, in the adapter's file, which never holds it transposed. */
static Value *as_adapter(const Build *b, Value *v, const char *init, double std)
{
    v->trained = v->adapter = true;
    v->decay = decays(b, false);
    v->init = init;
    v->std = std;
    for (int i = 0; i < v->npieces; i++)
        v->piece[i].transposed = false;
    return v;
}

static Ref use(Value *v) { return v->count ? ref_loop(v, 0) : ref(v); }

/* ---- pieces of a block ----------------------------------------------------------------------- */

/* wide: columns of the result's rows, C or more. */
static Ref norm(Build *b, const char *name, const char *path, Ref x, Dim wide)
{
    b->loc = config_loc(b->c, F_model_norm_eps);
    const Family *f = b->family;
    const char *in_block = b->region ? "b." : "";
    Module m = {path, b->C};
    Value *w = parameter(b, text_print("%s%s.w", in_block, name), dim(b->C, "C"), dim(0, ""), &m, 1,
                         "weight", true);
    Dim d[2] = {dim_B(b), dim_T(b)};
    Ref y = activation(b, name, wide);
    Ref mean = {0}, rstd;
    if (f->layernorm)
        mean = build_temp(b, text_print("%s.mean", name), DT_F32, 2, d);
    rstd = build_temp(b, text_print("%s.rstd", name), DT_F32, 2, d);
    Op *op;
    if (f->layernorm) {
        Value *bias = parameter(b, text_print("%s%s.b", in_block, name), dim(b->C, "C"), dim(0, ""),
                                &m, 1, "bias", true);
        op = build_op(b, OP_layernorm);
        op_in(op, x), op_in(op, use(w)), op_in(op, use(bias));
        op_out(op, y), op_out(op, mean), op_out(op, rstd);
    } else {
        op = build_op(b, OP_rmsnorm);
        op_in(op, x), op_in(op, use(w));
        op_out(op, y), op_out(op, rstd);
    }
    op_float(op, "eps", config_float(b->c, F_model_norm_eps));
    return y;
}

/* The modules of a layer that get adapters: parts of its output. */
typedef struct {
    int parts;
    Module a[3], b[3];               /* as PEFT names them */
    int64_t column[3], width;        /* where each part begins; of all of them */
    Value *A, *B;
} Adapters;

static Adapters adapters(const Build *b, const Module *m, int nmodules)
{
    Config *c = b->c;
    Adapters l = {0};
    int64_t r = config_int(c, F_lora_rank), column = 0;
    for (int i = 0; i < nmodules && r; column += m[i++].rows)
        if (listed(c, F_lora_targets, m[i].path) || listed(c, F_lora_targets, "all-linear")) {
            l.a[l.parts] = (Module){text_print("base_model.model.%s", m[i].path), r};
            l.b[l.parts] = (Module){l.a[l.parts].path, m[i].rows};
            l.column[l.parts++] = column;
            l.width += m[i].rows;
        }
    return l;
}

static Dim dim_ranks(const Build *b, const Adapters *l)
{
    return dim(l->parts * config_int(b->c, F_lora_rank),
               l->parts == 1 ? "R" : text_print("%d*R", l->parts));
}

/* Whether a GPU takes less time for y = [x | u] [w | B]^T than for x w^T and u B^T added to it.
 * Folded, an element of y costs `ranks` more multiply-adds, those with the zeros beside B's parts
 * included, and B is written once more into rows of w; apart, the elements that adapters add to
 * are read and written again. Tensor cores do at least 150 16-bit operations in the time in which
 * memory moves a byte: A100 312 TFLOP/s and 2.0 TB/s, H200 989 and 4.8, RTX 4090 165 and 1.0. */
static bool fold_pays(const Build *b, const Adapters *l, int64_t ranks, int64_t out)
{
    double rows = (double)(b->B * b->T), element = dtype_bytes[b->act];
    double bytes = 2 * element * (rows * (double)l->width - (double)(ranks * out));
    double flops =
        2 * rows * (double)(ranks * out - config_int(b->c, F_lora_rank) * l->width);
    return b->act != DT_F32 && flops < 150 * bytes;
}

/* Columns of the rows of a layer's input and weight: `in`, and behind them room for the adapters'
 * u and B where these are folded into the layer's product. */
static Dim dim_folded(const Build *b, Dim in, Dim out, const Module *m, int nmodules)
{
    const Adapters l = adapters(b, m, nmodules);
    const char *fold = config_text(b->c, F_lora_fold);
    const Dim ranks = dim_ranks(b, &l);
    bool gpu = !strcmp(b->g->target->backend, "cuda"), all = !strcmp(fold, "all"),
         aligned = ranks.n * dtype_bytes[b->act] % 16 == 0;
    if (!l.parts || !gpu || !strcmp(fold, "none") ||
        (!all && (!aligned || !fold_pays(b, &l, ranks.n, out.n))))
        return in;
    if (!aligned)
        err(config_loc(b->c, F_lora_fold),
            "lora.fold: \"all\" wants rows of whole 16 bytes, but %d x lora.rank = %" PRId64
            " columns of %d bytes stand behind those of %s; try lora.rank = 8, or lora.fold = \"auto\"",
            l.parts, ranks.n, dtype_bytes[b->act], leaf(m[0].path));
    return dim(in.n + ranks.n, text_print("%s+%s", in.sym, ranks.sym));
}

/* The A's, which share x and are stacked, and the B's. */
static void adapter_weights(Build *b, const char *name, Adapters *l, Dim in, Dim out)
{
    Dim rows = l->width == out.n ? out : dim(l->width, text_print("%" PRId64, l->width));
    Value *A = parameter(b, text_print("b.%s.lora_a", name), dim_ranks(b, l), in, l->a, l->parts,
                         "lora_A.weight", false);
    Value *B = parameter(b, text_print("b.%s.lora_b", name), rows,
                         dim(config_int(b->c, F_lora_rank), "R"), l->b, l->parts, "lora_B.weight",
                         false);
    l->A = as_adapter(b, A, "uniform", 1 / sqrt((double)in.n));
    l->B = as_adapter(b, B, "zeros", 0);
}

/* An op of the layer's adapters: the caller's two operands, their weights, in training the noise of
 * dropout. */
static Op *adapter_op(Build *b, int kind, int with_dropout, Ref first, Ref second, const Adapters *l)
{
    Config *c = b->c;
    double r = (double)config_int(c, F_lora_rank), alpha = config_float(c, F_lora_alpha),
           p = b->mode <= MODE_AGAIN ? config_float(c, F_lora_dropout) : 0;
    Op *op = build_op(b, p > 0 ? with_dropout : kind);
    op_in(op, first), op_in(op, second), op_in(op, use(l->A)), op_in(op, use(l->B));
    if (p > 0)
        op_in(op, build_input(b, b->noise));
    op_int(op, "rank", config_int(c, F_lora_rank)), op_int(op, "parts", l->parts);
    for (int i = 0; i < l->parts; i++) {
        op_int(op, text_print("c%d", i), l->column[i]);
        op_int(op, text_print("w%d", i), l->b[i].rows);
    }
    op_float(op, "scale", alpha / (config_bool(c, F_lora_rslora) ? sqrt(r) : r));
    if (p > 0)
        op_float(op, "dropout", p), op_int(op, "site", b->sites - 1);
    return op;
}

/* PEFT's adapters of the targeted modules on top of y = x w^T. */
static Ref lora(Build *b, const char *name, Ref y, Ref x, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref out_y = activation(b, text_print("%s.lora", name), out);
    Ref u = activation(b, text_print("%s.u", name), dim_ranks(b, l));
    Op *op = adapter_op(b, OP_lora, OP_lora_dropout, y, x, l);
    op_out(op, out_y), op_out(op, u);
    return out_y;
}

/* The same before y = x w^T: what stands behind the columns of x and w. */
static Ref fold(Build *b, const char *name, Ref x, Ref w, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref xu = activation(b, text_print("%s.xu", name), x.v->dim[2]);
    Op *op = adapter_op(b, OP_lora_fold, OP_lora_fold_dropout, x, w, l);
    op_out(op, xu), op_out(op, w);
    return xu;
}

/* y = x w^T (+ b) with the tensors of nmodules modules as one matrix, and their adapters: folded
 * into the product where the rows of x have room for that. */
static Ref linear(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules,
                  bool bias)
{
    Adapters l = adapters(b, m, nmodules);
    Dim wide = x.v->dim[2];
    Loc loc = b->loc;
    Value *w = parameter(b, text_print("b.%s.w", name), out, wide, m, nmodules, "weight", false);
    bool folded = wide.n > in.n;
    b->sites++;
    for (int i = 0; i < nmodules && folded; i++)
        w->piece[i].cols = in.n;
    if (folded)
        x = fold(b, name, x, use(w), &l, in, out);
    b->loc = loc;
    Ref y = activation(b, name, out);
    Op *op;
    if (bias) {
        Value *v =
            parameter(b, text_print("b.%s.b", name), out, dim(0, ""), m, nmodules, "bias", true);
        op = build_op(b, OP_linear_bias);
        op_in(op, x), op_in(op, use(w)), op_in(op, use(v));
    } else {
        op = build_op(b, OP_linear);
        op_in(op, x), op_in(op, use(w));
    }
    op_out(op, y);
    if (l.parts && !folded)
        y = lora(b, name, y, x, &l, in, out);
    b->loc = loc;
    return y;
}

static void residual_init(Build *b, const char *name)
{
    if (b->family->residual_init)
        ir_value(b->g, name)->std =
            config_float(b->c, F_model_init_std) / sqrt(b->family->residual_init * (double)b->L);
}

static void head_attrs(const Build *b, Op *op)
{
    op_int(op, "heads", b->H), op_int(op, "kv", b->K), op_int(op, "dim", b->D);
}

static Ref rotate(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_rope_theta);
    Ref y = activation(b, "rot", dim_qkv(b));
    bool at = b->mode == MODE_DECODE, documents = b->places && !at;
    Op *op = build_op(b, at ? OP_rope_at : documents ? OP_rope_docs : OP_rope);
    op_in(op, qkv), op_in(op, ref(b->cos)), op_in(op, ref(b->sin));
    if (at)
        op_in(op, ref(b->place));
    if (documents)
        op_in(op, build_input(b, b->places));
    op_out(op, y);
    head_attrs(b, op);
    return y;
}

/* Keys or values of every place so far: (K, T, D) a layer. */
static Value *cache(Build *b, const char *name)
{
    Dim d[3] = {dim(b->K, "K"), dim(b->T, "T"), dim(b->D, "D")};
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_STATE, PU_activations, b->act, name, 3, d, b->loc);
        v->count = v->slots = b->L;
    }
    return v;
}

static Ref attention(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_heads);
    Ref o = activation(b, "att", dim_heads(b));
    Op *op;
    if (b->mode == MODE_DECODE) {
        Value *keys = cache(b, "keys"), *values = cache(b, "values");
        op = build_op(b, OP_attention_decode);
        op_in(op, qkv), op_in(op, ref(b->place));
        op_out(op, o), op_out(op, ref_loop(keys, 0)), op_out(op, ref_loop(values, 0));
    } else {
        Dim d[3] = {dim(b->B, "B"), dim(b->H, "H"), dim(b->T, "T")};
        Ref lse = build_temp(b, "att.lse", DT_F32, 3, d);
        op = build_op(b, b->places ? OP_attention_docs : OP_attention);
        op_in(op, qkv);
        if (b->places)
            op_in(op, build_input(b, b->places)), op_in(op, build_input(b, b->ends));
        op_out(op, o), op_out(op, lse);
    }
    head_attrs(b, op);
    op_float(op, "scale", 1 / sqrt((double)b->D));
    return o;
}

static Ref pointwise(Build *b, int kind, const char *name, Ref x, Dim width)
{
    Ref y = activation(b, name, width);
    Op *op = build_op(b, kind);
    op_in(op, x);
    op_out(op, y);
    return y;
}

static void add(Build *b, Ref x, Ref y, Ref out)
{
    Op *op = build_op(b, OP_add);
    op_in(op, x), op_in(op, y);
    op_out(op, out);
}

/* ---- the public pieces ----------------------------------------------------------------------- */

void family_embed(Build *b)
{
    const Family *f = b->family;
    b->loc = config_loc(b->c, F_model_vocab);
    Module m = {f->embed, b->V};
    Value *wte = parameter(b, "wte", dim(b->V, "V"), dim(b->C, "C"), &m, 1, "weight", false),
          *wpe = NULL;
    if (f->positions) {
        int64_t P = config_int(b->c, F_model_positions);
        Module place = {f->place, P};
        wpe = parameter(b, "wpe", dim(P, "P"), dim(b->C, "C"), &place, 1, "weight", false);
    }
    bool at = b->mode == MODE_DECODE, documents = wpe && b->places && !at;
    Op *op = build_op(b, documents ? OP_embed_docs
                         : wpe     ? at ? OP_embed_pos_at : OP_embed_pos
                         : at      ? OP_embed_at
                                   : OP_embed);
    op_in(op, build_input(b, b->tokens)), op_in(op, ref(wte));
    if (wpe)
        op_in(op, ref(wpe));
    if (at)
        op_in(op, ref(b->place));
    if (documents)
        op_in(op, build_input(b, b->places));
    op_out(op, b->x);
}

void family_block(Build *b)
{
    const Family *f = b->family;
    Config *c = b->c;
    Dim C = dim(b->C, "C"), F = dim(b->F, "F");
    int64_t q = b->H * b->D, kv = b->K * b->D;
    b->block_first = b->p->nops;
    b->sites = 0;

    Module qkv[3] = {{f->q, f->k ? q : q + 2 * kv}, {f->k, kv}, {f->v, kv}};
    int n = f->k ? 3 : 1;
    Ref x = b->x, n1 = norm(b, "norm1", f->norm1, x, dim_folded(b, C, dim_qkv(b), qkv, n));
    b->loc = config_loc(c, F_model_hidden);
    Ref y = linear(b, "qkv", n1, C, dim_qkv(b), qkv, n, b->bias_qkv);
    if (!f->positions)
        y = rotate(b, y);
    y = attention(b, y);
    b->loc = config_loc(c, F_model_hidden);
    Module o = {f->o, b->C}, down = {f->down, b->C};
    y = linear(b, "o", y, dim_heads(b), C, &o, 1, b->bias_o);
    residual_init(b, "b.o.w");
    Ref mid = activation(b, "mid", C);
    add(b, x, y, mid);

    Module up[2] = {{f->gate, b->F}, {f->up, b->F}};
    Dim width = f->gelu ? F : dim(2 * b->F, "2*F");
    n = f->gelu ? 1 : 2;
    Ref n2 = norm(b, "norm2", f->norm2, mid, dim_folded(b, C, width, up, n));
    b->loc = config_loc(c, F_model_ffn);
    y = linear(b, f->gelu ? "up" : "gate_up", n2, C, width, up, n, f->biases);
    y = pointwise(b, f->gelu ? OP_gelu : OP_swiglu, "act", y, F);
    b->loc = config_loc(c, F_model_ffn);
    y = linear(b, "down", y, F, C, &down, 1, f->biases);
    residual_init(b, "b.down.w");
    b->x = b->mode == MODE_AGAIN ? activation(b, "out", C) : ref_loop(x.v, 1);
    add(b, mid, y, b->x);
    b->block_last = b->p->nops;
}

Ref family_norm(Build *b)
{
    return norm(b, "norm_f", b->family->norm, b->x, dim(b->C, "C"));
}

Value *family_head(Build *b)
{
    if (config_bool(b->c, F_model_tied))
        return ir_value(b->g, "wte");
    b->loc = config_loc(b->c, F_model_tied);
    Module m = {b->family->head, b->V};
    return parameter(b, "head", dim(b->V, "V"), dim(b->C, "C"), &m, 1, "weight", false);
}
