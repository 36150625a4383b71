/* families.c -- a model's forward pass: the steps of families.def, a function each.
 *
 * In:    the model.* and lora.* fields.   Out: parameters with their Hugging Face names, and
 *        forward ops.
 * Keeps: the same functions write the training, recomputing, evaluating and decoding passes.
 * Source: transformers' GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM, GemmaForCausalLM, Gemma3ForCausalLM;
 *        PEFT's LoRA. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes and values ----------------------------------------------------------------------- */

/* Whether a list of steps goes on with this one. */
static bool is_step(const char *steps, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(steps, word, n) && (!steps[n] || steps[n] == ' ');
}

void family_shapes(Build *b)
{
    Config *c = b->c;
    b->family = family_find(config_text(c, F_model_family));
    b->B = config_int(c, F_batch_micro) * objective_sequences(c);
    b->T = config_int(c, F_seq_max);
    size_add(b, "B", b->B);
    size_add(b, "T", b->T);
    b->stack = (Stack){"", dim(config_int(c, F_model_layers), "L"), 0};
    b->C = config_int(c, F_model_hidden);
    b->H = config_int(c, F_model_heads);
    b->K = config_int(c, F_model_kv_heads);
    b->D = config_int(c, F_model_head_dim);
    b->F = config_int(c, F_model_ffn);
    b->V = config_int(c, F_model_vocab);
    const char *precision = config_text(c, F_precision);
    b->act = !strcmp(precision, "bf16") ? DT_BF16 : !strcmp(precision, "fp16") ? DT_F16 : DT_F32;
    b->head_bias = b->family->biases & BIAS_HEAD;
    b->pad = config_int(c, F_model_pad);
}

/* Whether linear layers of this kind have a bias. */
static bool biased(const Build *b, int kind)
{
    int chosen = config_bool(b->c, F_model_attention_bias) ? BIAS_ATTENTION : 0;
    return (b->family->biases | chosen) & kind;
}

/* Linear layers, each with a dropout site, of a block. */
static int block_sites(const Build *b)
{
    int n = 0;
    for (const char *p = b->family->block; *p; p += strcspn(p, " "), p += *p == ' ')
        n += is_step(p, "attention") || is_step(p, "ffn") ? 2 : 0;
    return n;
}

/* Places of a block where the model itself may drop: attention's probabilities, what attention and
 * feed-forward part give, inside the latter. Each has a site, whether it drops or not. */
static int block_drops(const Build *b)
{
    int n = 0, ffn = b->family->hidden_drop ? 2 : 1;
    for (const char *p = b->family->block; *p; p += strcspn(p, " "), p += *p == ' ')
        n += is_step(p, "attention") ? 2 : is_step(p, "ffn") ? ffn : 0;
    return n;
}

/* Share dropped in the pass being written. */
static double drop_share(const Build *b, int field)
{
    double p = config_float(b->c, field);
    return b->mode <= MODE_AGAIN && !b->beside ? p : 0;
}

/* Attributes and noise of an op of that place of its block; outside of blocks the site stands behind
 * theirs. */
static void drop_attrs(Build *b, Op *op, double p, int place)
{
    int64_t drops = block_drops(b), behind = b->region ? place : drops * b->stack.layers.n;
    op_in(op, build_input(b, b->noise));
    op_float(op, "dropout", p), op_int(op, "site", b->stack.site + behind);
    op_int(op, "sites", b->region ? drops : 0);
}

/* An activation with the rows of x. */
static Ref activation(Build *b, const char *name, Ref x, Dim width)
{
    Dim d[5];
    memcpy(d, x.v->dim, sizeof d);
    d[x.v->rank - 1] = width;
    return build_temp(b, name, b->act, x.v->rank, d);
}

static Dim columns(Ref x) { return x.v->dim[x.v->rank - 1]; }

static Dim dim_qkv(const Build *b)
{
    return b->family->k ? dim((b->H + 2 * b->K) * b->D, "(H+2*K)*D") : dim(3 * b->C, "3*C");
}

static Dim dim_heads(const Build *b)
{
    return b->family->k ? dim(b->H * b->D, "H*D") : dim(b->C, "C");
}

static bool listed(Config *c, int field, const char *path)
{
    return config_listed(c, field, family_leaf(path));
}

/* What a parameter is before training. */
typedef struct {
    const char *init;
    double std;              /* of normal; bound of uniform */
    bool plain;              /* a norm's, or a bias */
} First;

static First first_as(const Build *b, const char *init, bool plain)
{
    return (First){init, config_float(b->c, F_model_init_std), plain};
}

/* A linear layer's weight and bias, and an embedding. PyTorch: U(-1/sqrt(in), 1/sqrt(in)) for both,
 * N(0, 1). */
static First first_weight(const Build *b, Dim in)
{
    return b->family->torch_init ? (First){"uniform", 1 / sqrt((double)in.n), false}
                                 : first_as(b, "normal", false);
}

static First first_bias(const Build *b, Dim in)
{
    return b->family->torch_init ? (First){"uniform", 1 / sqrt((double)in.n), true}
                                 : first_as(b, "zeros", true);
}

static First first_table(const Build *b)
{
    return b->family->torch_init ? (First){"normal", 1, false} : first_as(b, "normal", false);
}

/* q, k and v as one matrix: Glorot and Bengio 2010 where that is PyTorch's way. */
static First first_qkv(const Build *b, Dim in, Dim out)
{
    return b->family->torch_attention ? (First){"uniform", sqrt(6 / (double)(in.n + out.n)), false}
                                      : first_weight(b, in);
}

static First first_bias_attention(const Build *b, Dim in)
{
    return b->family->torch_attention ? first_as(b, "zeros", true) : first_bias(b, in);
}

/* Weight decay by the rule of the recipe; hf5: everything but norms and biases, as transformers 5
 * decides by name. */
static bool decays(const Build *b, First first)
{
    const char *rule = config_text(b->c, F_optim_decay_rule);
    return !strcmp(rule, "all") || (!strcmp(rule, "hf5") && !first.plain);
}

typedef struct { const char *path; int64_t rows; } Module;

/* "b.qkv.w" inside blocks, "norm_f.w" outside. */
static const char *parameter_name(const Build *b, const char *name, const char *suffix)
{
    return text_print("%s%s%s.%s", b->region ? "b." : "", b->stack.name, name, suffix);
}

/* What the pass reads of a parameter that is there: in one by the weights as they were at the start
 * the kept values of a trained one. */
static Value *in_pass(Build *b, Value *v)
{
    return b->started && v->kind == VK_PARAM && v->trained ? build_start(b, v) : v;
}

/* A parameter of rank 1 or 2 that holds the tensors `suffix` of the modules, one below the
 * other. */
static Value *parameter(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                        int nmodules, const char *suffix, First first)
{
    Value *v = ir_value(b->g, name);
    if (v)
        return in_pass(b, v);
    if (b->beside)
        bug("%s is made for a pass beside that of the model", name);
    Dim d[2] = {rows, cols};
    v = ir_new(b->g, VK_PARAM, PU_weights, b->act, name, cols.n ? 2 : 1, d, b->loc);
    bool layered = strstr(m[0].path, "%d");
    v->set = b->set->name;
    v->count = layered ? b->stack.layers.n : 0;
    v->slots = layered ? b->stack.layers.n : 1;
    bool lora = config_int(b->c, F_lora_rank) > 0;
    bool saved = lora && listed(b->c, F_lora_modules_to_save, m[0].path);
    v->trained = !lora || saved;
    v->decay = v->trained && decays(b, first);
    v->adapter = saved;
    v->init = first.init;
    v->std = first.std;
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
    if (v->kind != VK_PARAM)
        return v;            /* of the start */
    v->trained = v->adapter = true;
    v->decay = decays(b, (First){0});
    v->init = init;
    v->std = std;
    for (int i = 0; i < v->npieces; i++)
        v->piece[i].transposed = false;
    return v;
}

static Ref use(Value *v) { return v->count ? ref_loop(v, 0) : ref(v); }

/* ---- pieces of a block ----------------------------------------------------------------------- */

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
    int64_t r = b->adapters_off ? 0 : config_int(c, F_lora_rank), column = 0;
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
    if (!l.parts || !gpu || !strcmp(fold, "none") || b->slopes ||
        (!all && (!aligned || !fold_pays(b, &l, ranks.n, out.n))))
        return in;
    if (!aligned)
        err(config_loc(b->c, F_lora_fold),
            "lora.fold: \"all\" wants rows of whole 16 bytes, but %d x lora.rank = %" PRId64
            " columns of %d bytes stand behind those of %s; try lora.rank = 8, or lora.fold = \"auto\"",
            l.parts, ranks.n, dtype_bytes[b->act], family_leaf(m[0].path));
    return dim(in.n + ranks.n, text_print("%s+%s", in.sym, ranks.sym));
}

/* The A's, which share x and are stacked, and the B's. */
static void adapter_weights(Build *b, const char *name, Adapters *l, Dim in, Dim out)
{
    Dim rows = l->width == out.n ? out : dim(l->width, text_print("%" PRId64, l->width));
    Value *A = parameter(b, parameter_name(b, name, "lora_a"), dim_ranks(b, l), in, l->a,
                         l->parts, "lora_A.weight", (First){0});
    Value *B = parameter(b, parameter_name(b, name, "lora_b"), rows,
                         dim(config_int(b->c, F_lora_rank), "R"), l->b, l->parts, "lora_B.weight",
                         (First){0});
    l->A = as_adapter(b, A, "uniform", 1 / sqrt((double)in.n));
    l->B = as_adapter(b, B, "zeros", 0);
}

/* The dropout site of the linear layer just begun, in a block that of layer 0. */
static int64_t site(const Build *b)
{
    int64_t behind = b->region ? 0 : block_sites(b) * (b->stack.layers.n - 1);
    return b->stack.site + behind + b->sites - 1;
}

/* An op of the layer's adapters: the caller's two operands, their weights, in training the noise of
 * dropout. */
static Op *adapter_op(Build *b, int kind, int with_dropout, Ref first, Ref second, const Adapters *l)
{
    Config *c = b->c;
    double r = (double)config_int(c, F_lora_rank), alpha = config_float(c, F_lora_alpha),
           p = drop_share(b, F_lora_dropout);
    const Value *x = kind == OP_lora_fold ? first.v : second.v;
    if (p > 0 && x->rank < 3)
        err(config_loc(c, F_lora_dropout), "lora.dropout: %s reads the rows that have a target alone, "
            "whose places no draw knows; leave lora.dropout out, or %s out of lora.targets",
            family_leaf(l->b[0].path), family_leaf(l->b[0].path));
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
        op_float(op, "dropout", p), op_int(op, "site", site(b)), op_int(op, "sites", b->region ? block_sites(b) : 0);
    return op;
}

/* PEFT's adapters of the targeted modules on top of y = x w^T. */
static Ref lora(Build *b, const char *name, Ref y, Ref x, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref out_y = activation(b, text_print("%s.lora", name), x, out);
    Ref u = activation(b, text_print("%s.u", name), x, dim_ranks(b, l));
    Op *op = adapter_op(b, OP_lora, OP_lora_dropout, y, x, l);
    op_out(op, out_y), op_out(op, u);
    return out_y;
}

/* The same before y = x w^T: what stands behind the columns of x and w. */
static Ref fold(Build *b, const char *name, Ref x, Ref w, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref xu = activation(b, text_print("%s.xu", name), x, columns(x));
    Op *op = adapter_op(b, OP_lora_fold, OP_lora_fold_dropout, x, w, l);
    op_out(op, xu), op_out(op, w);
    return xu;
}

/* y = x w^T (+ b) with the tensors of nmodules modules as one matrix, and their adapters: folded
 * into the product where the rows of x have room for that. What weight and bias are at first. */
static Ref linear_from(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m,
                       int nmodules, bool bias, First first_w, First first_b)
{
    Adapters l = adapters(b, m, nmodules);
    Dim wide = columns(x);
    Loc loc = b->loc;
    Value *w = parameter(b, parameter_name(b, name, "w"), out, wide, m, nmodules, "weight", first_w);
    bool folded = wide.n > in.n;
    b->sites++;
    for (int i = 0; i < nmodules && folded; i++)
        w->piece[i].cols = in.n;
    if (folded)
        x = fold(b, name, x, use(w), &l, in, out);
    b->loc = loc;
    Ref y = activation(b, name, x, out);
    Op *op;
    if (bias) {
        Value *v = parameter(b, parameter_name(b, name, "b"), out, dim(0, ""), m, nmodules, "bias",
                             first_b);
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

static Ref linear(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules,
                  bool bias)
{
    return linear_from(b, name, x, in, out, m, nmodules, bias, first_weight(b, in),
                       first_bias(b, in));
}

static void residual_init(Build *b, const char *name)
{
    if (b->family->residual_init)
        ir_value(b->g, name)->std =
            config_float(b->c, F_model_init_std) / sqrt(b->family->residual_init * (double)b->stack.layers.n);
}

static void head_attrs(const Build *b, Op *op)
{
    op_int(op, "heads", b->H), op_int(op, "kv", b->K), op_int(op, "dim", b->D);
}

/* Each head of q and of k normed: their weights are one parameter, that of q first. */
static Ref norm_heads(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_norm_eps);
    const Module m[2] = {{b->family->q_norm, b->D}, {b->family->k_norm, b->D}};
    const Dim d[3] = {qkv.v->dim[0], qkv.v->dim[1], dim(b->H + b->K, "H+K")};
    Value *w = parameter(b, parameter_name(b, "qk_norm", "w"), dim(2 * b->D, "2*D"), dim(0, ""), m, 2,
                         "weight", first_as(b, b->family->norm_plus ? "zeros" : "ones", true));
    Ref y = activation(b, "qk_norm", qkv, columns(qkv)),
        rstd = build_temp(b, "qk_norm.rstd", DT_F32, 3, d);
    Op *op = build_op(b, OP_qk_norm);
    op_in(op, qkv), op_in(op, use(w));
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
    Ref y = activation(b, "rot", qkv, columns(qkv));
    bool at = b->mode == MODE_DECODE, documents = b->places && !at;
    Op *op = build_op(b, at ? OP_rope_at : documents ? OP_rope_docs : OP_rope);
    op_in(op, qkv), op_in(op, ref(b->cos)), op_in(op, ref(b->sin));
    if (at)
        op_in(op, ref(b->place));
    if (documents)
        op_in(op, build_input(b, b->places));
    op_out(op, y);
    head_attrs(b, op);
    if (b->family->layered)
        op_int(op, "period", config_int(b->c, F_model_full_every));
    return y;
}

/* Keys or values of every place so far of each text: (N, K, T, D) a layer. */
static Value *cache(Build *b, const char *what)
{
    const char *name = text_print("%s%s", b->stack.name, what);
    Dim d[4] = {b->place->dim[0], dim(b->K, "K"), dim_places(b), dim(b->D, "D")};
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_STATE, PU_activations, b->act, name, 4, d, b->loc);
        v->count = v->slots = b->stack.layers.n;
    }
    return v;
}

static Ref attention(Build *b, Ref qkv)
{
    b->loc = config_loc(b->c, F_model_heads);
    Ref o = activation(b, "att", qkv, dim_heads(b));
    Op *op;
    if (b->mode == MODE_DECODE) {
        Value *keys = cache(b, "keys"), *values = cache(b, "values");
        op = build_op(b, OP_attention_decode);
        op_in(op, qkv), op_in(op, ref(b->place));
        op_out(op, o), op_out(op, ref_loop(keys, 0)), op_out(op, ref_loop(values, 0));
    } else {
        Dim d[3] = {dim_batch(b), dim(b->H, "H"), dim_places(b)};
        Ref lse = build_temp(b, "att.lse", DT_F32, 3, d);
        op = build_op(b, b->ends      ? OP_attention_docs
                         : b->holes   ? OP_attention_shared
                         : b->lengths ? OP_attention_length
                         : b->limits  ? OP_attention_limit
                                      : OP_attention);
        op_in(op, qkv);
        Value *const inputs[] = {b->ends ? b->places : NULL, b->ends, b->holes, b->lengths,
                                 b->limits};
        for (int i = 0; i < 5; i++)
            if (inputs[i])
                op_in(op, build_input(b, inputs[i]));
        op_out(op, o), op_out(op, lse);
    }
    head_attrs(b, op);
    if (op_takes(op->kind, "mask"))
        op_word(op, "mask", b->both_ways ? "full" : "causal");
    op_float(op, "scale", 1 / sqrt(config_float(b->c, F_model_query_scalar)));
    double p = drop_share(b, F_model_attention_dropout);
    int place = b->drops++;
    if (p > 0)
        drop_attrs(b, op, p, place);
    return o;
}

/* What a part of the block gives, elements of it dropped. */
static Ref drop(Build *b, const char *name, Ref x)
{
    double p = drop_share(b, F_model_dropout);
    int place = b->drops++;
    if (!(p > 0))
        return x;
    b->loc = config_loc(b->c, F_model_dropout);
    Ref y = activation(b, name, x, columns(x));
    Op *op = build_op(b, OP_dropout);
    op_in(op, x);
    drop_attrs(b, op, p, place);
    op_out(op, y);
    return y;
}

static Ref pointwise(Build *b, int kind, const char *name, Ref x, Dim width)
{
    Ref y = activation(b, name, x, width);
    Op *op = build_op(b, kind);
    op_in(op, x);
    op_out(op, y);
    return y;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static Dim dim_C(const Build *b) { return dim(b->C, "C"); }

/* Appends what a path names, all rows together: a module, or with %h one for each head; how many
 * there are then. */
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

/* Modules whose tensors a linear layer has, one below the other; how many. */
static int qkv_modules(const Build *b, Module **m)
{
    const Family *f = b->family;
    int64_t q = b->H * b->D, kv = b->K * b->D;
    *m = arena_new(sizeof **m * (size_t)(b->H + 2 * b->K));
    int n = add_modules(*m, 0, f->q, b->H, f->k ? q : q + 2 * kv);
    if (f->k)
        n = add_modules(*m, add_modules(*m, n, f->k, b->K, kv), f->v, b->K, kv);
    return n;
}

static int up_modules(const Build *b, Module m[2])
{
    const Family *f = b->family;
    m[f->gate ? 1 : 0] = (Module){f->up, b->F};
    if (f->gate)
        m[0] = (Module){f->gate, b->F};
    return f->gate ? 2 : 1;
}

static Dim dim_up(const Build *b)
{
    return b->family->gate ? dim(2 * b->F, "2*F") : dim(b->F, "F");
}

/* What follows a step: `next` is the rest of the list. A norm that only a linear layer reads leaves
 * room in its rows for that layer's adapters. */
static Dim dim_normed(const Build *b, const char *next)
{
    Module *qkv, up[2];
    int n;
    if (is_step(next, "attention")) {
        n = qkv_modules(b, &qkv);
        return dim_folded(b, dim_C(b), dim_qkv(b), qkv, n);
    }
    if (is_step(next, "ffn")) {
        n = up_modules(b, up);
        return dim_folded(b, dim_C(b), dim_up(b), up, n);
    }
    return dim_C(b);
}

/* Where a step leaves its result: the last one where the list's goes. */
static Ref result(Build *b, const char *name, Dim width, const char *next)
{
    if (*next)
        return activation(b, name, b->x, width);
    if (b->to.v)
        return b->to;
    return activation(b, b->mode == MODE_AGAIN ? "out" : name, b->x, width);
}

/* The table of places, or NULL. */
static Value *places_table(Build *b)
{
    int64_t P = config_int(b->c, F_model_positions);
    Module m = {b->family->places, P};
    First first = b->family->places_std > 0 ? (First){"normal", b->family->places_std, false}
                                            : first_table(b);
    return !m.path ? NULL : parameter(b, "wpe", dim(P, "P"), dim_C(b), &m, 1, "weight", first);
}

/* A linear layer of b->features, and the rows of places; of whole sequences. */
static void step_features(Build *b, const char *next)
{
    if (b->mode == MODE_DECODE || b->places)
        bug("rows of floats: want whole sequences, each of them one");
    b->loc = config_loc(b->c, F_model_hidden);
    Ref x = build_input(b, b->features);
    Dim C = dim_C(b), none = dim(0, "");
    Module m = {b->features_path, b->C};
    if (x.v->dtype != b->act) {
        Ref rounded = activation(b, "features.act", x, columns(x));
        Op *cast = build_op(b, OP_cast);
        op_in(cast, x), op_out(cast, rounded);
        x = rounded;
    }
    Value *w = parameter(b, "embed.w", C, columns(x), &m, 1, "weight",
                         first_weight(b, columns(x))),
          *bias = parameter(b, "embed.b", C, none, &m, 1, "bias", first_bias(b, columns(x))),
          *wpe = places_table(b);
    Ref y = wpe ? activation(b, "embed", x, C) : result(b, "embed", C, next);
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

/* The last row of the table of tokens, trained beside adapters: named as PEFT names trainable tokens. */
static Value *new_row(Build *b)
{
    Module m = {text_print("base_model.model.%s.token_adapter", b->family->tokens), 1};
    Value *v = parameter(b, "wte.last", dim(1, "1"), dim_C(b), &m, 1, "trainable_tokens_delta",
                         first_table(b));
    return as_adapter(b, v, "zeros", 0);
}

static Ref tokens_table(Build *b)
{
    Module m = {b->family->tokens, b->V};
    Value *wte = parameter(b, "wte", dim(b->V, "V"), dim_C(b), &m, 1, "weight", first_table(b));
    wte->grown = b->new_row;
    return ref(wte);
}

static void step_tokens(Build *b, const char *next)
{
    if (b->features) {
        step_features(b, next);
        return;
    }
    b->loc = config_loc(b->c, b->table ? F_objective : F_model_vocab);
    Ref table = b->table ? b->table(b) : tokens_table(b);
    Value *wpe = places_table(b);
    bool at = b->mode == MODE_DECODE, documents = wpe && b->places && !at,
         row = b->new_row && !table.v->trained;
    Ref y = row ? activation(b, "embed", b->x, dim_C(b)) : result(b, "embed", dim_C(b), next);
    Op *op = build_op(b, documents ? OP_embed_docs
                         : wpe     ? at ? OP_embed_pos_at : OP_embed_pos
                         : at      ? OP_embed_at
                                   : OP_embed);
    op_in(op, build_input(b, b->tokens)), op_in(op, table);
    if (wpe)
        op_in(op, ref(wpe));
    if (at)
        op_in(op, ref(b->place));
    if (documents)
        op_in(op, build_input(b, b->places));
    op_out(op, y);
    b->x = y;
    if (!row)
        return;
    Value *last = new_row(b);
    b->x = result(b, "embed.last", dim_C(b), next);
    op = build_op(b, OP_embed_row);
    op_in(op, y), op_in(op, build_input(b, b->tokens)), op_in(op, ref(last));
    op_out(op, b->x);
    op_int(op, "token", b->V - 1);
}

/* The rows of the tokens' types added. */
static void step_types(Build *b, const char *next)
{
    const Family *f = b->family;
    b->loc = config_loc(b->c, F_model_family);
    if (!b->types)
        err(b->loc, "model.family: tokens of %s have types, which the objective %s does not give",
            f->name, b->g->objective);
    Module m = {f->types, f->type_rows};
    Dim rows = dim(f->type_rows, text_print("%d", f->type_rows));
    Value *table = parameter(b, "wtt", rows, dim_C(b), &m, 1, "weight", first_table(b));
    Ref row = activation(b, "type", b->x, dim_C(b)), y = result(b, "embed.type", dim_C(b), next);
    bool at = b->mode == MODE_DECODE;
    Op *op = build_op(b, at ? OP_embed_at : OP_embed);
    op_in(op, build_input(b, b->types)), op_in(op, ref(table));
    if (at)
        op_in(op, ref(b->place));
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
    Dim C = dim_C(b), none = dim(0, "");
    const Value *x = b->x.v;
    Module m = {path, C.n};
    Value *w = parameter(b, parameter_name(b, name, "w"), C, none, &m, 1, "weight",
                         first_as(b, b->family->norm_plus ? "zeros" : "ones", true));
    Ref y = result(b, name, dim_normed(b, next), next), mean = {0};
    if (layernorm)
        mean = build_temp(b, text_print("%s.mean", name), DT_F32, x->rank - 1, x->dim);
    Ref rstd = build_temp(b, text_print("%s.rstd", name), DT_F32, x->rank - 1, x->dim);
    Value *bias = !layernorm ? NULL
                             : parameter(b, parameter_name(b, name, "b"), C, none, &m, 1, "bias",
                                         first_as(b, "zeros", true));
    Op *op = build_op(b, layernorm ? OP_layernorm : OP_rmsnorm);
    op_in(op, b->x), op_in(op, use(w));
    if (layernorm)
        op_in(op, use(bias));
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
    b->kept = b->x;
}

static void step_add(Build *b, const char *next)
{
    Ref y = result(b, b->adds++ ? "end" : "mid", dim_C(b), next);
    Op *op = build_op(b, OP_add);
    op_in(op, b->kept), op_in(op, b->x);
    op_out(op, y);
    b->x = y;
}

static void step_attention(Build *b, const char *next)
{
    (void)next;
    Module *qkv, o = {b->family->o, b->C};
    int n = qkv_modules(b, &qkv);
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y = linear_from(b, "qkv", b->x, dim_C(b), dim_qkv(b), qkv, n, biased(b, BIAS_QKV),
                        first_qkv(b, dim_C(b), dim_qkv(b)), first_bias_attention(b, dim_C(b)));
    if (b->family->q_norm)
        y = norm_heads(b, y);
    if (b->cos)
        y = rotate(b, y);
    y = attention(b, y);
    b->loc = config_loc(b->c, F_model_hidden);
    b->x = linear_from(b, "o", y, dim_heads(b), dim_C(b), &o, 1, biased(b, BIAS_O),
                       first_weight(b, dim_heads(b)), first_bias_attention(b, dim_heads(b)));
    residual_init(b, parameter_name(b, "o", "w"));
    b->x = drop(b, "o.drop", b->x);
}

static void step_ffn(Build *b, const char *next)
{
    (void)next;
    Module up[2], down = {b->family->down, b->C};
    Dim F = dim(b->F, "F");
    bool bias = biased(b, BIAS_FFN);
    b->loc = config_loc(b->c, F_model_ffn);
    Ref y = linear(b, b->family->gate ? "gate_up" : "up", b->x, dim_C(b), dim_up(b), up,
                   up_modules(b, up), bias);
    y = pointwise(b, op_find(b->family->activation), "act", y, F);
    if (b->family->hidden_drop)
        y = drop(b, "act.drop", y);
    b->x = linear(b, "down", y, F, dim_C(b), &down, 1, bias);
    residual_init(b, parameter_name(b, "down", "w"));
    b->x = drop(b, "down.drop", b->x);
}

static void step_dense(Build *b, const char *next)
{
    (void)next;
    Module m = {b->family->dense, b->C};
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y = linear(b, "dense", b->x, dim_C(b), dim_C(b), &m, 1, biased(b, BIAS_DENSE));
    b->x = pointwise(b, op_find(b->family->activation), "dense.act", y, dim_C(b));
}

/* x as a number of this type, rounded to even: with so many bits. */
static double rounded(Dtype dt, double x)
{
    int exponent, bits = dt == DT_BF16 ? 8 : dt == DT_F16 ? 11 : 24;
    double part = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(part, bits)), exponent - bits);
}

/* Rows of the table times the root of their width, which is rounded as they are. */
static void step_scale(Build *b, const char *next)
{
    b->loc = config_loc(b->c, F_model_hidden);
    Ref y = result(b, "embed.scaled", dim_C(b), next);
    Op *op = build_op(b, OP_scale);
    op_in(op, b->x);
    op_out(op, y);
    op_float(op, "factor", rounded(b->act, sqrt((double)b->C)));
    b->x = y;
}

/* Behind the steps before the first block, in training with dropout. */
static void step_drop(Build *b, const char *next)
{
    b->loc = config_loc(b->c, F_model_dropout);
    Ref y = result(b, "embed.drop", dim_C(b), next);
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

/* The stage that a step belongs to: sums and norms to the layers before them, but for a norm right
 * before some. */
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

/* Writes a list of steps from b->x to `to`; to.v == NULL: to a value of its own. */
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

Ref family_last(Build *b)
{
    b->stage = "head";
    walk(b, b->family->last, (Ref){0});
    return b->x;
}

Ref family_output(Build *b, Ref x, const char *path, Dim width)
{
    Module m = {path, width.n};
    Layer head = {parameter(b, "head.w", width, columns(x), &m, 1, "weight",
                            first_weight(b, columns(x))),
                  parameter(b, "head.b", width, dim(0, ""), &m, 1, "bias",
                            first_bias(b, columns(x)))};
    return family_linear(b, head, "head.y", x);
}

/* Of a layer beside the family's own. */
static Value *extra(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                    const char *suffix, First first, bool trained)
{
    Value *v = parameter(b, name, rows, cols, m, 1, suffix, first);
    if (v->kind != VK_PARAM)
        return v;            /* of the start */
    v->trained = v->added = trained;
    v->decay = trained && decays(b, first);
    v->adapter = trained && config_int(b->c, F_lora_rank) > 0;
    return v;
}

Layer family_layer(Build *b, const char *name, const char *path, Dim in, Dim out, bool zeros,
                   bool trained)
{
    Module m = {path, out.n};
    const char *init = zeros ? "zeros" : "uniform";
    double bound = zeros ? 0 : 1 / sqrt((double)in.n);
    return (Layer){extra(b, text_print("%s.w", name), out, in, &m, "weight",
                         (First){init, bound, false}, trained),
                   extra(b, text_print("%s.b", name), out, dim(0, ""), &m, "bias",
                         (First){init, bound, true}, trained)};
}

Value *family_rows(Build *b, const char *name, const char *path, const char *tensor, Dim rows,
                   double std)
{
    Module m = {path, rows.n};
    return parameter(b, name, rows, dim_C(b), &m, 1, tensor, (First){"normal", std, false});
}

Layer family_modules(Build *b, const char *name, int n, const char *const *path,
                     const int64_t *width, Dim in)
{
    Module m[4];
    int64_t all = 0;
    if (n > (int)(sizeof m / sizeof *m))
        bug("%s: %d modules", name, n);
    for (int i = 0; i < n; all += width[i++])
        m[i] = (Module){path[i], width[i]};
    Dim out = dim(all, text_print("%" PRId64, all));
    double bound = 1 / sqrt((double)in.n);
    if (all == b->C)
        out = dim_C(b);
    return (Layer){parameter(b, text_print("%s.w", name), out, in, m, n, "weight",
                             (First){"uniform", bound, false}),
                   parameter(b, text_print("%s.b", name), out, dim(0, ""), m, n, "bias",
                             (First){"uniform", bound, true})};
}

Ref family_linear(Build *b, Layer layer, const char *name, Ref x)
{
    Ref y = activation(b, name, x, layer.w->dim[0]);
    Op *op = build_op(b, OP_linear_bias);
    op_in(op, x), op_in(op, ref(layer.w)), op_in(op, ref(layer.b));
    op_out(op, y);
    return y;
}

Value *family_head_bias(Build *b)
{
    if (!b->head_bias)
        return NULL;
    b->loc = config_loc(b->c, F_model_tied);
    const char *path = b->family->head_bias;
    Module m = {path ? path : b->family->head, b->V};
    return parameter(b, "head.b", dim(b->V, "V"), dim(0, ""), &m, 1, "bias",
                     first_bias(b, dim_C(b)));
}

Value *family_head(Build *b)
{
    if (config_bool(b->c, F_model_tied) && b->features)
        err(config_loc(b->c, F_model_tied),
            "model.tied: want false: there is no table of tokens that a head could share");
    if (config_bool(b->c, F_model_tied))
        return in_pass(b, ir_value(b->g, "wte"));
    b->loc = config_loc(b->c, F_model_tied);
    Module m = {b->family->head, b->V};
    return parameter(b, "head", dim(b->V, "V"), dim_C(b), &m, 1, "weight",
                     first_weight(b, dim_C(b)));
}
