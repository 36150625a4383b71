/* families.c -- a model's forward pass: one function per step of families.def.
 *
 * In:    the model.* fields.
 * Out:   forward ops, built with layers.c.
 * Keeps: the training, recomputing, evaluating and decoding passes share these functions.
 * Source: transformers' GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM, GemmaForCausalLM,
 *         Gemma3ForCausalLM. */
#include "gen/config/objective.h"
#include "gen/graph/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes and values ----------------------------------------------------------------------- */

/* True if this step is the next of a list. */
static bool is_step(const char *steps, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(steps, word, n) && (!steps[n] || steps[n] == ' ');
}

void family_shapes(Build *b)
{
    Config *c = b->c;
    b->family = family_find(config_text(c, F_model_family));
    b->in.B = config_int(c, F_batch_micro) * objective_sequences(c);
    b->in.T = config_int(c, F_seq_max);
    size_add(b, "B", b->in.B, "sequences of a micro-batch");
    size_add(b, "T", b->in.T, "positions of a sequence");
    b->stack = (Stack){"", dim(config_int(c, F_model_layers), "L"), 0};
    b->model.C = config_int(c, F_model_hidden);
    b->model.H = config_int(c, F_model_heads);
    b->model.K = config_int(c, F_model_kv_heads);
    b->model.D = config_int(c, F_model_head_dim);
    b->model.F = config_int(c, F_model_ffn);
    b->model.V = config_int(c, F_model_vocab);
    const char *precision = config_text(c, F_precision);
    b->model.act = !strcmp(precision, "bf16")   ? DT_BF16
                   : !strcmp(precision, "fp16") ? DT_F16 : DT_F32;
    b->model.head_bias = b->family->biases & BIAS_HEAD;
    b->model.pad = config_int(c, F_model_pad);
}

/* True if linear layers of this kind have a bias. */
static bool biased(const Build *b, int kind)
{
    int chosen = config_bool(b->c, F_model_attention_bias) ? BIAS_ATTENTION : 0;
    return (b->family->biases | chosen) & kind;
}

/* Ops of a block where the model may apply dropout: attention probabilities, outputs of attention
 * and of the feed-forward layer, inside the latter. Each has a site, used or not. */
static int block_drops(const Build *b)
{
    const Family *f = b->family;
    return 2 * family_steps(f, "attention") + (f->hidden_drop ? 2 : 1) * family_steps(f, "ffn");
}

/* Sets dropout attributes and noise of an op; outside of blocks, sites follow those of the
 * blocks. */
static void drop_attrs(Build *b, Op *op, double p, int place)
{
    const int64_t drops = block_drops(b), layers = b->stack.layers.n;
    const int64_t offset = b->region ? place : b->last.at ? drops * (layers - 1) + place
                                                          : drops * layers;
    op_in(op, build_input(b, b->model.noise));
    op_float(op, "dropout", p), op_int(op, "site", b->stack.site + offset);
    op_int(op, "sites", b->region ? drops : 0);
}

static Dim dim_qkv(const Build *b)
{
    const ModelShape *m = &b->model;
    return b->family->k ? dim((m->H + 2 * m->K) * m->D, "(H+2*K)*D") : dim(3 * m->C, "3*C");
}

static Dim dim_heads(const Build *b)
{
    return b->family->k ? dim(b->model.H * b->model.D, "H*D") : dim_hidden(b);
}

/* ---- pieces of a block ----------------------------------------------------------------------- */

static void residual_init(Build *b, const char *name)
{
    if (b->family->residual_init)
        ir_value(b->g, name)->std = config_float(b->c, F_model_init_std) /
                                    sqrt(b->family->residual_init * (double)b->stack.layers.n);
}

static void head_attrs(const Build *b, Op *op)
{
    op_int(op, "heads", b->model.H), op_int(op, "kv", b->model.K), op_int(op, "dim", b->model.D);
}

/* Normalises each head of q and k; their weights are one parameter, q first. */
static Ref norm_heads(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_norm_eps);
    const Module m[2] = {{b->family->q_norm, b->model.D}, {b->family->k_norm, b->model.D}};
    const Dim d[3] = {qkv.v->dim[0], qkv.v->dim[1], dim(b->model.H + b->model.K, "H+K")};
    Value *w =
        layer_parameter(b, layer_name(b, "qk_norm", "w"), dim(2 * b->model.D, "2*D"), dim(0, ""), m,
                        2, "weight", first_as(b, b->family->norm_plus ? "zeros" : "ones", false));
    Ref y = build_like(b, "qk_norm", qkv, ref_columns(qkv)),
        rstd = build_temp(b, "qk_norm.rstd", DT_F32, 3, d);
    Op *op = build_op(b, OP_qk_norm);
    op_in(op, qkv), op_in(op, build_use(b, w));
    op_out(op, y), op_out(op, rstd);
    head_attrs(b, op);
    op_float(op, "eps", config_float(b->c, F_model_norm_eps));
    if (b->family->norm_plus)
        op_int(op, "plus", 1);
    return y;
}

static Ref rotate(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_rope_theta);
    Ref y = build_like(b, "rot", qkv, ref_columns(qkv));
    bool at = b->mode == MODE_DECODE, documents = b->in.positions && !at;
    Op *op = build_op(b, OP_rope);
    op_in(op, qkv), op_in(op, ref(b->model.cos)), op_in(op, ref(b->model.sin));
    if (at)
        op_in(op, ref(b->in.position));
    if (documents)
        op_in(op, build_input(b, b->in.positions));
    op_out(op, y);
    head_attrs(b, op);
    if (b->family->layered)
        op_int(op, "period", config_int(b->c, F_model_full_every));
    return y;
}

/* KV cache: keys or values of all positions of each text, (N, K, T, D) per layer. */
static Value *cache(Build *b, const char *what)
{
    const char *name = text_print("%s%s", b->stack.name, what);
    Dim d[4] = {b->in.position->dim[0], dim(b->model.K, "K"), dim_positions(b),
                dim(b->model.D, "D")};
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_STATE, PU_activations, b->model.act, name, 4, d, b->loc);
        v->count = v->slots = b->stack.layers.n;
    }
    return v;
}

/* Marks the op for cuDNN if the recipe says so. Elsewhere than on Hopper this form of the gradient
 * is not known to be deterministic. auto: on an H200 cuDNN was 1.6 to 2 times as fast with heads of
 * 128; with heads of 64 whole steps were between 1 % faster and slower. Its scores, T x T, may need
 * at most a 16th of the memory. */
static void choose_cudnn(const Build *b, Op *op)
{
    const bool tries = config_is(b->c, F_kernels_attention, "auto");
    const int64_t scores = 2 * b->in.B * b->model.H * b->in.T * b->in.T;
    if (!tries && !config_is(b->c, F_kernels_attention, "cudnn"))
        return;
    const bool hopper = !strcmp(b->g->target->name, "sm_90");
    const bool causal = !strcmp(b->in.mask.word, "causal");
    const char *why =
        !hopper ? "is for target = \"sm_90\"; leave it out"
        : b->model.act == DT_F32 ? "needs precision = \"bf16\" or \"fp16\""
        : !causal ? "has only causal attention over whole sequences; leave it out"
        : config_float(b->c, F_model_attention_dropout) > 0
            ? "drops no probabilities; try model.attention_dropout = 0"
        : b->model.D % 8 || b->model.D > 128
            ? "needs a model.head_dim that is a multiple of 8, at most 128; leave it out"
            : NULL;
    if (why && !tries)
        err(config_loc(b->c, F_kernels_attention), "kernels.attention: \"cudnn\" %s", why);
    const bool pays = b->model.D > 64 && scores <= b->g->target->memory / 16;
    if (!why && (!tries || pays))
        op_int(op, "cudnn", 1);
}

/* Names the queries of the last layer whose output is read: kernels of CPUs compute no others. */
static void read_queries(Build *b, Op *op)
{
    if (!b->last.inverse || strcmp(b->g->target->backend, "cpu"))
        return;
    op_in(op, build_input(b, b->last.inverse));
    op_int(op, "read", value_elements(b->last.at));
}

static Ref attention(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_heads);
    Ref o = build_like(b, "att", qkv, dim_heads(b));
    Op *op;
    if (b->mode == MODE_DECODE) {
        Value *keys = cache(b, "keys"), *values = cache(b, "values");
        op = build_op(b, OP_attention_decode);
        op_in(op, qkv), op_in(op, ref(b->in.position));
        op_out(op, o), op_out(op, ref_loop(keys, 0)), op_out(op, ref_loop(values, 0));
    } else {
        Dim d[3] = {dim_batch(b), dim(b->model.H, "H"), dim_positions(b)};
        Ref lse = build_temp(b, "att.lse", DT_F32, 3, d);
        op = build_op(b, OP_attention);
        op_in(op, qkv);
        for (int i = 0; i < 2 && b->in.mask.input[i]; i++)
            op_in(op, build_input(b, b->in.mask.input[i]));
        op_out(op, o), op_out(op, lse);
    }
    head_attrs(b, op);
    if (op->kind == OP_attention)
        op_word(op, "mask", b->in.mask.word);
    op_float(op, "scale", 1 / sqrt(config_float(b->c, F_model_query_scalar)));
    double p = drop_share(b, F_model_attention_dropout);
    if (op->kind == OP_attention)
        choose_cudnn(b, op);
    int place = b->drops++;
    if (p > 0)
        drop_attrs(b, op, p, place);
    if (op->kind == OP_attention)
        read_queries(b, op);
    return o;
}

/* Output of a part of the block, after dropout. */
static Ref drop(Build *b, const char *name, Ref x)
{
    double p = drop_share(b, F_model_dropout);
    int place = b->drops++;
    if (!(p > 0))
        return x;
    b->loc = config_loc(b->c, F_model_dropout);
    Ref y = build_like(b, name, x, ref_columns(x));
    const bool rows = x.v->rank == 2;
    Op *op = build_op(b, rows ? OP_dropout_rows : OP_dropout);
    op_in(op, x);
    drop_attrs(b, op, p, place);
    if (rows)
        op_in(op, build_input(b, b->last.at)), op_int(op, "length", b->in.T);
    op_out(op, y);
    return y;
}

static Ref pointwise(Build *b, int kind, const char *name, Ref x, Dim width)
{
    Ref y = build_like(b, name, x, width);
    Op *op = build_op(b, kind);
    op_in(op, x);
    op_out(op, y);
    return y;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Appends the modules of a path, `rows` rows in all: one, or with %h one per head; returns their
 * number. */
static int add_modules(Module *m, int n, const char *path, int64_t heads, int64_t rows)
{
    const char *hole = strstr(path, "%h");
    if (!hole) {
        m[n] = (Module){path, rows};
        return n + 1;
    }
    for (int64_t h = 0; h < heads; h++)
        m[n++] = (Module){text_print("%.*s%" PRId64 "%s", (int)(hole - path), path, h, hole + 2),
                          rows / heads};
    return n;
}

/* Stores the modules of a linear layer, stacked by rows; returns their number. */
static int qkv_modules(const Build *b, Module **m)
{
    const Family *f = b->family;
    int64_t q = b->model.H * b->model.D, kv = b->model.K * b->model.D;
    *m = arena_new(sizeof **m * (size_t)(b->model.H + 2 * b->model.K));
    int n = add_modules(*m, 0, f->q, b->model.H, f->k ? q : q + 2 * kv);
    if (f->k)
        n = add_modules(*m, add_modules(*m, n, f->k, b->model.K, kv), f->v, b->model.K, kv);
    return n;
}

static int up_modules(const Build *b, Module m[2])
{
    const Family *f = b->family;
    m[f->gate ? 1 : 0] = (Module){f->up, b->model.F};
    if (f->gate)
        m[0] = (Module){f->gate, b->model.F};
    return f->gate ? 2 : 1;
}

static Dim dim_up(const Build *b)
{
    return b->family->gate ? dim(2 * b->model.F, "2*F") : dim(b->model.F, "F");
}

/* Columns of a norm's result; next: the steps after it. If only a linear layer reads it, they
 * include room for that layer's adapters, but not of feed-forward layers in tiles. */
static Dim dim_normed(const Build *b, const char *next)
{
    Module *qkv, up[2];
    int n;
    if (is_step(next, "attention")) {
        n = qkv_modules(b, &qkv);
        return dim_folded(b, dim_hidden(b), dim_qkv(b), qkv, n);
    }
    if (is_step(next, "ffn") && !config_int(b->c, F_memory_ffn_rows)) {
        n = up_modules(b, up);
        return dim_folded(b, dim_hidden(b), dim_up(b), up, n);
    }
    return dim_hidden(b);
}

/* Destination of a step's result; for the last step, that of the list. */
static Ref result(Build *b, const char *name, Dim width, const char *next)
{
    if (*next)
        return build_like(b, name, b->x, width);
    if (b->to.v)
        return b->to;
    return build_like(b, b->mode == MODE_AGAIN ? "out" : name, b->x, width);
}

/* The position table, or NULL. */
static Value *positions_table(Build *b)
{
    int64_t P = config_int(b->c, F_model_positions);
    Module m = {b->family->positions, P};
    First first = b->family->positions_std > 0 ? (First){"normal", b->family->positions_std, false}
                                            : first_table(b);
    return !m.path ? NULL
                   : layer_parameter(b, "wpe", dim(P, "P"), dim_hidden(b), &m, 1, "weight", first);
}

/* A linear layer of b->in.features plus positions, for whole sequences. */
static void step_features(Build *b, const char *next)
{
    if (b->mode == MODE_DECODE || b->in.positions)
        bug("rows of floats must be whole sequences, one sequence each");
    b->loc = config_loc(b->c, F_model_hidden);
    Ref x = build_input(b, b->in.features);
    Dim C = dim_hidden(b), none = dim(0, "");
    Module m = {b->added.features_path, b->model.C};
    if (x.v->dtype != b->model.act) {
        Ref rounded = build_like(b, "features.act", x, ref_columns(x));
        Op *cast = build_op(b, OP_cast);
        op_in(cast, x), op_out(cast, rounded);
        x = rounded;
    }
    Value *w = layer_parameter(b, "embed.w", C, ref_columns(x), &m, 1, "weight",
                               first_weight(b, ref_columns(x))),
          *bias =
              layer_parameter(b, "embed.b", C, none, &m, 1, "bias", first_bias(b, ref_columns(x))),
          *wpe = positions_table(b);
    Ref y = wpe ? build_like(b, "embed", x, C) : result(b, "embed", C, next);
    Op *op = build_op(b, OP_linear_bias);
    op_in(op, x), op_in(op, ref(w)), op_in(op, ref(bias));
    op_out(op, y);
    b->x = y;
    if (!wpe)
        return;
    op = build_op(b, OP_add_pos);
    op_in(op, y), op_in(op, ref(wpe));
    b->x = result(b, "embed.pos", C, next);
    op_out(op, b->x);
}

/* The last row of the embedding, trained along with adapters: named as in PEFT's trainable
 * tokens. */
static Value *new_row(Build *b)
{
    Module m = {text_print("base_model.model.%s.token_adapter", b->family->tokens), 1};
    Value *v = layer_parameter(b, "wte.last", dim(1, "1"), dim_hidden(b), &m, 1,
                               "trainable_tokens_delta", first_table(b));
    return layer_adapter(b, v, "zeros", 0);
}

static Ref tokens_table(Build *b)
{
    Module m = {b->family->tokens, b->model.V};
    Value *wte = layer_parameter(b, "wte", dim(b->model.V, "V"), dim_hidden(b), &m, 1, "weight",
                                 first_table(b));
    wte->extra_vocab_row = b->model.new_row;
    wte->pinned = config_is(b->c, F_memory_embedding, "host");
    return ref(wte);
}

static void step_tokens(Build *b, const char *next)
{
    if (b->in.features) {
        step_features(b, next);
        return;
    }
    b->loc = config_loc(b->c, b->added.table ? F_objective : F_model_vocab);
    Ref table = b->added.table ? b->added.table(b) : tokens_table(b);
    Value *wpe = positions_table(b);
    bool at = b->mode == MODE_DECODE, documents = wpe && b->in.positions && !at,
         row = b->model.new_row && !table.v->trained;
    Ref y =
        row ? build_like(b, "embed", b->x, dim_hidden(b)) : result(b, "embed", dim_hidden(b), next);
    Op *op = build_op(b, OP_embed);
    op_in(op, build_input(b, b->in.tokens)), op_in(op, table);
    if (wpe)
        op_in(op, ref(wpe));
    if (wpe && at)
        op_in(op, ref(b->in.position));
    if (documents)
        op_in(op, build_input(b, b->in.positions));
    if (wpe)
        op_word(op, "by", at || documents ? "positions" : "index");
    op_out(op, y);
    b->x = y;
    if (!row)
        return;
    Value *last = new_row(b);
    b->x = result(b, "embed.last", dim_hidden(b), next);
    op = build_op(b, OP_embed_row);
    op_in(op, y), op_in(op, build_input(b, b->in.tokens)), op_in(op, ref(last));
    op_out(op, b->x);
    op_int(op, "token", b->model.V - 1);
}

/* Adds the embeddings of token types. */
static void step_types(Build *b, const char *next)
{
    const Family *f = b->family;
    b->loc = config_loc(b->c, F_model_family);
    if (!b->in.types)
        err(b->loc, "model.family: tokens of %s have types, which the objective %s does not give",
            f->name, b->g->objective);
    Module m = {f->types, f->type_rows};
    Dim rows = size_add(b, "TYPES", f->type_rows, "token types");
    Value *table = layer_parameter(b, "wtt", rows, dim_hidden(b), &m, 1, "weight", first_table(b));
    Ref row = build_like(b, "type", b->x, dim_hidden(b)),
        y = result(b, "embed.type", dim_hidden(b), next);
    Op *op = build_op(b, OP_embed);
    op_in(op, build_input(b, b->in.types)), op_in(op, ref(table));
    op_out(op, row);
    op = build_op(b, OP_add);
    op_in(op, b->x), op_in(op, row);
    op_out(op, y);
    b->x = y;
}

static void norm(Build *b, const char *name, const char *path, double eps, const char *next)
{
    b->loc = config_loc(b->c, F_model_norm_eps);
    bool layernorm = !strcmp(b->family->norm, "layernorm");
    Dim C = dim_hidden(b), none = dim(0, "");
    const Value *x = b->x.v;
    Module m = {path, C.n};
    Value *w = layer_parameter(b, layer_name(b, name, "w"), C, none, &m, 1, "weight",
                               first_as(b, b->family->norm_plus ? "zeros" : "ones", layernorm));
    Ref y = result(b, name, dim_normed(b, next), next), mean = {0};
    if (layernorm)
        mean = build_temp(b, text_print("%s.mean", name), DT_F32, x->rank - 1, x->dim);
    Ref rstd = build_temp(b, text_print("%s.rstd", name), DT_F32, x->rank - 1, x->dim);
    Value *bias = !layernorm ? NULL
                             : layer_parameter(b, layer_name(b, name, "b"), C, none, &m, 1, "bias",
                                               first_as(b, "zeros", true));
    Op *op = build_op(b, layernorm ? OP_layernorm : OP_rmsnorm);
    op_in(op, b->x), op_in(op, build_use(b, w));
    if (layernorm)
        op_in(op, build_use(b, bias));
    op_out(op, y);
    if (layernorm)
        op_out(op, mean);
    op_out(op, rstd);
    op_float(op, "eps", eps);
    if (b->family->norm_plus)
        op_int(op, "plus", 1);
    b->x = y;
}

static double norm_eps(const Build *b) { return config_float(b->c, F_model_norm_eps); }

static void step_norm_e(Build *b, const char *next)
{
    const char *eps = b->family->eps_e;
    norm(b, "norm_e", b->family->norm_e, eps ? atof(eps) : norm_eps(b), next);
}

static void step_norm1(Build *b, const char *next)
{
    norm(b, "norm1", b->family->norm1, norm_eps(b), next);
}

static void step_norm2(Build *b, const char *next)
{
    norm(b, "norm2", b->family->norm2, norm_eps(b), next);
}

static void step_norm_o(Build *b, const char *next)
{
    norm(b, "norm_o", b->family->norm_o, norm_eps(b), next);
}

static void step_norm_d(Build *b, const char *next)
{
    norm(b, "norm_d", b->family->norm_d, norm_eps(b), next);
}

static void step_norm_f(Build *b, const char *next)
{
    norm(b, "norm_f", b->family->norm_f, norm_eps(b), next);
}

static void step_keep(Build *b, const char *next)
{
    (void)next;
    b->residual = b->x;
}

static void step_add(Build *b, const char *next)
{
    Ref y = result(b, b->adds++ ? "end" : "mid", dim_hidden(b), next);
    Op *op = build_op(b, OP_add);
    op_in(op, b->residual), op_in(op, b->x);
    op_out(op, y);
    b->x = y;
}

static void step_attention(Build *b, const char *next)
{
    (void)next;
    Module *qkv, o = {b->family->o, b->model.C};
    int n = qkv_modules(b, &qkv);
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y = layer_linear_from(b, "qkv", b->x, dim_hidden(b), dim_qkv(b), qkv, n,
                              biased(b, BIAS_QKV), first_qkv(b, dim_hidden(b), dim_qkv(b)),
                              first_bias_attention(b, dim_hidden(b)));
    if (b->family->q_norm)
        y = norm_heads(b, y);
    if (b->model.cos)
        y = rotate(b, y);
    y = attention(b, y);
    if (b->last.at) {
        const char *stage = b->stage;
        b->stage = "rows that the head reads";
        y = build_rows(b, y, b->last), b->residual = build_rows(b, b->residual, b->last);
        b->stage = stage;
    }
    b->loc = config_loc(b->c, F_model_hidden);
    b->x = layer_linear_from(b, "o", y, dim_heads(b), dim_hidden(b), &o, 1, biased(b, BIAS_O),
                             first_weight(b, dim_heads(b)), first_bias_attention(b, dim_heads(b)));
    residual_init(b, layer_name(b, "o", "w"));
    b->x = drop(b, "o.drop", b->x);
}

/* Rows of a tile: the most of memory.ffn_rows that divide the rows of x; 0: no tiles. A token of
 * each text needs none. */
static int64_t ffn_tile(const Build *b, Ref x)
{
    const int64_t rows = value_elements(x.v) / ref_columns(x).n,
                  most = config_int(b->c, F_memory_ffn_rows);
    int64_t tile = b->mode == MODE_DECODE ? 0 : most < rows ? most : rows;
    while (tile && rows % tile)
        tile--;
    return tile;
}

/* The layers as one op, whose wide rows exist for a tile at a time. */
static Ref tiled(Build *b, int64_t tile, const char *name, const Module *up, int n,
                 const Module *down, bool bias)
{
    const Dim C = dim_hidden(b), F = dim(b->model.F, "F");
    const LayerUse use[2] = {layer_weights(b, name, C, dim_up(b), up, n, bias),
                             layer_weights(b, "down", F, C, down, 1, bias)};
    const bool adapted = use[0].parts || use[1].parts;
    Ref y = build_like(b, "down", b->x, C);
    b->drops += b->family->hidden_drop;          /* its site stays unused */
    Op *op = build_op(b, adapted ? OP_ffn_lora : OP_ffn);
    op_in(op, b->x), op_in(op, use[0].w), op_in(op, use[1].w);
    for (int i = 0; i < 2; i++)
        if (use[i].parts)
            op_in(op, use[i].A), op_in(op, use[i].B);
    if (bias)
        op_in(op, use[0].b), op_in(op, use[1].b);
    op_out(op, y);
    op_int(op, "tile", tile), op_word(op, "activation", b->family->activation);
    op_int(op, "gates", n);
    if (bias)
        op_int(op, "bias", 1);
    if (!adapted)
        return y;
    op_int(op, "rank", config_int(b->c, F_lora_rank));
    op_float(op, "scale", use[use[0].parts ? 0 : 1].scale);
    if (use[0].parts)
        op_int(op, "up_parts", use[0].parts);
    for (int i = 0; i < use[0].parts; i++) {
        op_int(op, text_print("c%d", i), use[0].column[i]);
        op_int(op, text_print("w%d", i), use[0].width[i]);
    }
    if (use[1].parts)
        op_int(op, "down_parts", use[1].parts);
    return y;
}

static void step_ffn(Build *b, const char *next)
{
    (void)next;
    Module up[2], down = {b->family->down, b->model.C};
    const int n = up_modules(b, up);
    const char *name = b->family->gate ? "gate_up" : "up";
    const int64_t tile = ffn_tile(b, b->x);
    Dim F = dim(b->model.F, "F");
    bool bias = biased(b, BIAS_FFN);
    b->loc = config_loc(b->c, tile ? F_memory_ffn_rows : F_model_ffn);
    if (tile)
        b->x = tiled(b, tile, name, up, n, &down, bias);
    else {
        Ref y = layer_linear(b, name, b->x, dim_hidden(b), dim_up(b), up, n, bias);
        y = pointwise(b, op_find(b->family->activation), "act", y, F);
        if (b->family->hidden_drop)
            y = drop(b, "act.drop", y);
        b->x = layer_linear(b, "down", y, F, dim_hidden(b), &down, 1, bias);
    }
    residual_init(b, layer_name(b, "down", "w"));
    b->x = drop(b, "down.drop", b->x);
}

static void step_dense(Build *b, const char *next)
{
    (void)next;
    Module m = {b->family->dense, b->model.C};
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y =
        layer_linear(b, "dense", b->x, dim_hidden(b), dim_hidden(b), &m, 1, biased(b, BIAS_DENSE));
    b->x = pointwise(b, op_find(b->family->activation), "dense.act", y, dim_hidden(b));
}

/* x rounded to even with the mantissa of this type. */
static double rounded(Dtype dt, double x)
{
    int exponent, bits = dt == DT_BF16 ? 8 : dt == DT_F16 ? 11 : 24;
    double part = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(part, bits)), exponent - bits);
}

/* Embedding rows times the square root of their width, a factor rounded to the same type. */
static void step_scale(Build *b, const char *next)
{
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y = result(b, "embed.scaled", dim_hidden(b), next);
    Op *op = build_op(b, OP_scale);
    op_in(op, b->x);
    op_out(op, y);
    op_float(op, "factor", rounded(b->model.act, sqrt((double)b->model.C)));
    b->x = y;
}

/* Dropout after the steps before the first block, in training. */
static void step_drop(Build *b, const char *next)
{
    b->loc = config_loc(b->c, F_model_dropout);
    Ref y = result(b, "embed.drop", dim_hidden(b), next);
    Op *op = build_op(b, OP_dropout);
    op_in(op, b->x);
    drop_attrs(b, op, drop_share(b, F_model_dropout), 0);
    op_out(op, y);
    b->x = y;
}

static const struct { const char *word; void (*write)(Build *b, const char *next); } steps[] = {
    {"tokens", step_tokens}, {"norm_e", step_norm_e},       {"keep", step_keep},
    {"add", step_add},       {"norm1", step_norm1},         {"norm2", step_norm2},
    {"ffn", step_ffn},       {"attention", step_attention}, {"dense", step_dense},
    {"norm_f", step_norm_f}, {"types", step_types},         {"drop", step_drop},
    {"scale", step_scale},   {"norm_o", step_norm_o},       {"norm_d", step_norm_d},
};

/* Stage of a step: sums and norms belong to the layer before them, except a norm directly before a
 * layer. */
static const char *stage_of(const Build *b, const char *step)
{
    static const struct { const char *word, *stage; } stages[] = {
        {"tokens", "embedding"}, {"types", "embedding"},        {"norm_e", "embedding"},
        {"scale", "embedding"},
        {"dense", "head"},       {"attention", "attention"},    {"ffn", "feed-forward"},
        {"norm_f", "head"}};
    while (is_step(step, "keep") || (!strncmp(step, "norm", 4) && strchr(step, ' ')))
        step = strchr(step, ' ') + 1;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (is_step(step, stages[i].word))
            return b->mode == MODE_AGAIN ? text_print("%s, again", stages[i].stage)
                                         : stages[i].stage;
    return b->stage;
}

/* Writes a list of steps from b->x to `to`; to.v NULL: to a new value. */
static void walk(Build *b, const char *list, Ref to)
{
    b->to = to;
    b->adds = 0;
    while (*list) {
        size_t i = 0, n = strcspn(list, " ");
        while (i < sizeof steps / sizeof steps[0] && !is_step(list, steps[i].word))
            i++;
        if (i == sizeof steps / sizeof steps[0])
            bug("families.def: %s: no step %s", b->family->name, list);
        b->stage = stage_of(b, list);
        list += n + (list[n] == ' ');
        steps[i].write(b, list);
    }
}

/* ---- the public pieces ----------------------------------------------------------------------- */

void family_first(Build *b, Ref to)
{
    bool drops = drop_share(b, F_model_dropout) > 0 && !b->family->embedding_kept;
    walk(b, drops ? text_print("%s drop", b->family->first) : b->family->first, to);
}

void family_block(Build *b)
{
    b->block_first = b->p->nops;
    b->sites = b->drops = 0;
    walk(b, b->family->block, b->mode == MODE_AGAIN ? (Ref){0} : ref_loop(b->x.v, 1));
    b->block_last = b->p->nops;
}

Ref family_last_block(Build *b, Rows rows)
{
    b->last = rows;
    b->sites = b->drops = 0;
    walk(b, b->family->block, (Ref){0});
    b->last = (Rows){0};
    return b->x;
}

Ref family_last(Build *b)
{
    b->stage = "head";
    walk(b, b->family->last, (Ref){0});
    return b->x;
}

Value *family_head_bias(Build *b)
{
    if (!b->model.head_bias)
        return NULL;
    b->loc = config_loc(b->c, F_model_tied);
    const char *path = b->family->head_bias;
    Module m = {path ? path : b->family->head, b->model.V};
    return layer_parameter(b, "head.b", dim(b->model.V, "V"), dim(0, ""), &m, 1, "bias",
                           first_bias(b, dim_hidden(b)));
}

Value *family_head(Build *b)
{
    if (config_bool(b->c, F_model_tied) && b->in.features)
        err(config_loc(b->c, F_model_tied),
            "model.tied: must be false: there is no table of tokens that a head could share");
    if (config_bool(b->c, F_model_tied))
        return layer_read(b, ir_value(b->g, "wte"));
    b->loc = config_loc(b->c, F_model_tied);
    Module m = {b->family->head, b->model.V};
    return layer_parameter(b, "head", dim(b->model.V, "V"), dim_hidden(b), &m, 1, "weight",
                           first_weight(b, dim_hidden(b)));
}
