/* layers.c -- parameters with their Hugging Face names, linear layers, LoRA adapters.
 *
 * In:    a Build inside a pass, a family's module paths, the lora.* fields.
 * Out:   parameters, and the ops that read them.
 * Source: PEFT's LoRA. */
#include "gen/graph/layers.h"

#include <inttypes.h>
#include <math.h>
#include <ctype.h>
#include <string.h>

#include "gen/graph/kernels.h"
#include "gen/graph/nf4.h"

double drop_share(const Build *b, int field)
{
    double p = config_float(b->c, field);
    return b->mode <= MODE_AGAIN && !b->pass_prefix ? p : 0;
}

static bool listed(Config *c, int field, const char *path)
{
    return config_listed(c, field, family_leaf(path));
}

/* ---- initial values of parameters ------------------------------------------------------------ */

First first_as(const Build *b, const char *init, bool plain)
{
    return (First){init, config_float(b->c, F_model_init_std), plain};
}

/* Initialisation of linear weights and biases and of embeddings. PyTorch: U(-1/sqrt(in),
 * 1/sqrt(in)) for weights and biases, N(0, 1). */
First first_weight(const Build *b, Dim in)
{
    return b->family->torch_init ? (First){"uniform", 1 / sqrt((double)in.n), false}
                                 : first_as(b, "normal", false);
}

First first_bias(const Build *b, Dim in)
{
    return b->family->torch_init ? (First){"uniform", 1 / sqrt((double)in.n), true}
                                 : first_as(b, "zeros", true);
}

First first_table(const Build *b)
{
    return b->family->torch_init ? (First){"normal", 1, false} : first_as(b, "normal", false);
}

/* q, k and v as one matrix: Glorot and Bengio 2010, if initialised as in PyTorch. */
First first_qkv(const Build *b, Dim in, Dim out)
{
    return b->family->torch_attention ? (First){"uniform", sqrt(6 / (double)(in.n + out.n)), false}
                                      : first_weight(b, in);
}

First first_bias_attention(const Build *b, Dim in)
{
    return b->family->torch_attention ? first_as(b, "zeros", true) : first_bias(b, in);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Names that transformers 5 exempts from weight decay (Trainer.get_decay_parameter_names):
 * bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.), in lower case. */
static bool exempt(const char *name)
{
    char *low = text_copy(name);
    for (char *p = low; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (strstr(low, "bias") || strstr(low, "layernorm") || strstr(low, "rmsnorm"))
        return true;
    for (const char *at = low; (at = strstr(at, "norm")); at += strlen("norm")) {
        const char after = at[strlen("norm")], before = at == low ? '.' : at[-1];
        if ((before == '.' || before == '_') && (after == '.' || !after))
            return true;
    }
    return false;
}

/* True if a parameter decays, by optim.decay_rule; hf5: as in transformers 5, by module and
 * name. */
static bool decays(const Build *b, First first, const char *name)
{
    const char *rule = config_text(b->c, F_optim_decay_rule);
    return !strcmp(rule, "all") || (!strcmp(rule, "hf5") && !first.plain && !exempt(name));
}

const char *layer_name(const Build *b, const char *name, const char *suffix)
{
    return text_print("%s%s%s.%s", build_in_block(b) ? "b." : "", b->stack.name, name, suffix);
}

Value *layer_read(Build *b, Value *v)
{
    return b->started && v->kind == VK_PARAM && v->trained ? build_start(b, v) : v;
}

Value *layer_parameter(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                       int nmodules, const char *suffix, First first)
{
    Value *v = ir_value(b->g, name);
    if (v)
        return layer_read(b, v);
    if (b->pass_prefix)
        bug("%s is made for a pass outside that of the model", name);
    Dim d[2] = {rows, cols};
    v = ir_new(b->g, VK_PARAM, PU_weights, b->model.act, name, cols.n ? 2 : 1, d, b->loc);
    bool layered = strstr(m[0].path, "%d");
    v->set = b->set->name;
    v->count = layered ? b->stack.layers.n : 0;
    v->slots = layered ? b->stack.layers.n : 1;
    bool lora = config_int(b->c, F_lora_rank) > 0;
    bool saved = lora && listed(b->c, F_lora_modules_to_save, m[0].path);
    v->trained = !lora || saved;
    v->decay = v->trained && decays(b, first, text_print("%s.%s", m[0].path, suffix));
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

Value *layer_adapter(const Build *b, Value *v, const char *init, double std)
{
    if (v->kind != VK_PARAM)
        return v;            /* of the start */
    v->trained = v->adapter = true;
    v->decay = decays(b, (First){0}, "lora");
    v->init = init;
    v->std = std;
    for (int i = 0; i < v->npieces; i++)
        v->piece[i].transposed = false;
    return v;
}

/* ---- linear layers and their adapters -------------------------------------------------------- */

/* Modules of a layer with adapters: parts of its output. */
typedef struct {
    int parts;
    Module a[3], b[3];               /* by their names in PEFT */
    int64_t column[3], width;        /* first column of each part; total width */
    Value *A, *B;
} Adapters;

/* True if the module has adapters, by PEFT's rule. */
static bool is_target(Config *c, const char *path)
{
    const FieldValue *v = &c->v[F_lora_targets];
    if (config_listed(c, F_lora_targets, "all-linear"))
        return true;
    for (int i = 0; i < v->n; i++)
        if (family_names(v->list[i], path))
            return true;
    return false;
}

static Adapters adapters(const Build *b, const Module *m, int nmodules)
{
    Config *c = b->c;
    Adapters l = {0};
    int64_t r = b->adapters_off ? 0 : config_int(c, F_lora_rank), column = 0;
    for (int i = 0; i < nmodules && r; column += m[i++].rows)
        if (is_target(c, m[i].path)) {
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

/* True if a GPU computes y = [x | u] [w | B]^T faster than x w^T and u B^T added to it. Folded, an
 * element of y costs `ranks` more multiply-adds, including the zeros around B's parts, and B is
 * copied into rows of w; separate, the elements that adapters add to are read and written again.
 * Tensor cores do at least 150 16-bit operations per byte of memory traffic: A100 312 TFLOP/s and
 * 2.0 TB/s, H200 989 and 4.8, RTX 4090 165 and 1.0. */
static bool fold_pays(const Build *b, const Adapters *l, int64_t ranks, int64_t out)
{
    double rows = (double)(b->in.B * b->in.T), element = dtype_bytes[b->model.act];
    double bytes = 2 * element * (rows * (double)l->width - (double)(ranks * out));
    double flops =
        2 * rows * (double)(ranks * out - config_int(b->c, F_lora_rank) * l->width);
    return b->model.act != DT_F32 && flops < 150 * bytes;
}

/* True if the op lora_dy moves fewer bytes than the products of lora_bwd, which read dy once more,
 * or twice where it is fused with the kernel that makes dy. It writes and reads its workspace. */
static bool dy_pays(const Build *b, const Op *dy, bool fused)
{
    const double saved = (fused ? 2 : 1) * dtype_bytes[b->model.act] *
                         (double)value_elements(dy->in[0].v);
    return 2 * (double)kernel_workspace(kernel_find("lora_dy", "cuda"), dy) < saved;
}

bool adapter_reads_dy_once(const Build *b, const Op *dy)
{
    const Op *last = &b->p->ops[b->p->nops - 1];
    const bool fused = config_bool(b->c, F_kernels_fuse) &&
                       (last->kind == OP_swiglu_bwd || last->kind == OP_geglu_bwd) &&
                       last->out[0].v == dy->in[0].v && op_attr(dy, "parts")->i == 2;
    const char *fold = config_text(b->c, F_lora_fold);
    return !strcmp(b->g->target->backend, "cuda") && strcmp(fold, "none") && !b->jvp &&
           !kernel_row[kernel_find("lora_dy", "cuda")].fits(dy) &&
           (!strcmp(fold, "all") || dy_pays(b, dy, fused));
}

Dim dim_folded(const Build *b, Dim in, Dim out, const Module *m, int nmodules)
{
    const Adapters l = adapters(b, m, nmodules);
    const char *fold = config_text(b->c, F_lora_fold);
    const Dim ranks = dim_ranks(b, &l);
    bool gpu = !strcmp(b->g->target->backend, "cuda"), all = !strcmp(fold, "all"),
         aligned = ranks.n * dtype_bytes[b->model.act] % 16 == 0;
    if (!l.parts || !gpu || !strcmp(fold, "none") || b->jvp ||
        (!all && (!aligned || !fold_pays(b, &l, ranks.n, out.n))))
        return in;
    if (!aligned)
        err(config_loc(b->c, F_lora_fold),
            "lora.fold: \"all\" needs rows of whole 16 bytes, but %d x lora.rank = %" PRId64
            " columns of %d bytes follow those of %s; try lora.rank = 8, or lora.fold = "
            "\"auto\"",
            l.parts, ranks.n, dtype_bytes[b->model.act], family_leaf(m[0].path));
    return dim(in.n + ranks.n, text_print("%s+%s", in.sym, ranks.sym));
}

/* Parameters A, which share x and are stacked, and B. */
static void adapter_weights(Build *b, const char *name, Adapters *l, Dim in, Dim out)
{
    Dim rows = l->width == out.n ? out : dim(l->width, text_print("%" PRId64, l->width));
    Value *A = layer_parameter(b, layer_name(b, name, "lora_a"), dim_ranks(b, l), in, l->a,
                               l->parts, "lora_A.weight", (First){0});
    Value *B = layer_parameter(b, layer_name(b, name, "lora_b"), rows,
                               dim(config_int(b->c, F_lora_rank), "R"), l->b, l->parts,
                               "lora_B.weight", (First){0});
    l->A = layer_adapter(b, A, "uniform", 1 / sqrt((double)in.n));
    l->B = layer_adapter(b, B, "zeros", 0);
}

/* Number of linear layers of a block, each with a dropout site. */
static int block_sites(const Build *b)
{
    return 2 * (family_steps(b->family, "attention") + family_steps(b->family, "ffn"));
}

/* Dropout site of the current linear layer; in a block, that of layer 0. */
static int64_t site(const Build *b)
{
    int64_t last_block = b->region ? 0 : block_sites(b) * (b->stack.layers.n - 1);
    return b->stack.site + last_block + b->sites - 1;
}

/* Factor of adapters' sums. */
static double adapter_scale(Config *c)
{
    const double r = (double)config_int(c, F_lora_rank);
    return config_float(c, F_lora_alpha) / (config_bool(c, F_lora_rslora) ? sqrt(r) : r);
}

/* Adds an op of the layer's adapters: the caller's two operands, the adapter weights, and in
 * training the dropout noise. */
static Op *adapter_op(Build *b, int kind, Ref first, Ref second, const Adapters *l)
{
    Config *c = b->c;
    double p = drop_share(b, F_lora_dropout);
    const Value *x = kind == OP_lora_fold ? first.v : second.v;
    if (p > 0 && x->rank < 3)
        err(config_loc(c, F_lora_dropout),
            "lora.dropout: %s reads only rows with a target, for whose positions no dropout mask "
            "is drawn; leave lora.dropout out, or %s out of lora.targets",
            family_leaf(l->b[0].path), family_leaf(l->b[0].path));
    Op *op = build_op(b, kind);
    op_in(op, first), op_in(op, second);
    op_in(op, build_use(b, l->A)), op_in(op, build_use(b, l->B));
    if (p > 0)
        op_in(op, build_input(b, b->model.noise));
    op_int(op, "rank", config_int(c, F_lora_rank)), op_int(op, "parts", l->parts);
    for (int i = 0; i < l->parts; i++) {
        op_int(op, text_print("c%d", i), l->column[i]);
        op_int(op, text_print("w%d", i), l->b[i].rows);
    }
    op_float(op, "scale", adapter_scale(c));
    if (p > 0)
        op_float(op, "dropout", p), op_int(op, "site", site(b)),
            op_int(op, "sites", b->region ? block_sites(b) : 0);
    return op;
}

/* Applies the adapters of the targeted modules to y = x w^T. */
static Ref lora(Build *b, const char *name, Ref y, Ref x, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref out_y = build_like(b, text_print("%s.lora", name), x, out);
    Ref u = build_like(b, text_print("%s.u", name), x, dim_ranks(b, l));
    Op *op = adapter_op(b, OP_lora, y, x, l);
    op_out(op, out_y), op_out(op, u);
    return out_y;
}

/* The same before y = x w^T, with the columns after those of x and w. */
static Ref fold(Build *b, const char *name, Ref x, Ref *w, Adapters *l, Dim in, Dim out)
{
    b->loc = config_loc(b->c, F_lora_rank);
    adapter_weights(b, name, l, in, out);
    Ref xu = build_like(b, text_print("%s.xu", name), x, ref_columns(x));
    Ref wide = w->v->kind == VK_PARAM
                   ? *w : build_temp(b, text_print("%s.wb", name), b->model.act, 2, w->v->dim);
    Op *op = adapter_op(b, OP_lora_fold, x, *w, l);
    op_out(op, xu), op_out(op, wide);
    *w = wide;
    return xu;
}

/* The matrix of a layer, whose rows have room after their `in` columns if wide is more. */
static Ref matrix(Build *b, const char *name, Dim in, Dim wide, Dim out, const Module *m,
                  int nmodules, First first)
{
    const bool nf4 = nf4_is_base(b);
    Value *param = layer_parameter(b, layer_name(b, name, "w"), out, nf4 ? in : wide, m, nmodules,
                                   "weight", first);
    b->sites++;
    for (int i = 0; i < nmodules && wide.n > in.n; i++)
        param->piece[i].cols = in.n;
    return nf4 ? nf4_matrix(b, name, param, in, wide) : build_use(b, param);
}

static Ref bias_of(Build *b, const char *name, Dim out, const Module *m, int nmodules, First first)
{
    return build_use(b, layer_parameter(b, layer_name(b, name, "b"), out, dim(0, ""), m, nmodules,
                                        "bias", first));
}

Ref layer_linear_from(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m,
                      int nmodules, bool bias, First first_w, First first_b)
{
    Adapters l = adapters(b, m, nmodules);
    Dim wide = ref_columns(x);
    Loc loc = b->loc;
    bool folded = wide.n > in.n;
    Ref w = matrix(b, name, in, wide, out, m, nmodules, first_w);
    if (folded)
        x = fold(b, name, x, &w, &l, in, out);
    b->loc = loc;
    Ref y = build_like(b, name, x, out);
    Op *op;
    if (bias) {
        Ref v = bias_of(b, name, out, m, nmodules, first_b);
        op = build_op(b, OP_linear_bias);
        op_in(op, x), op_in(op, w), op_in(op, v);
    } else {
        op = build_op(b, OP_linear);
        op_in(op, x), op_in(op, w);
    }
    op_out(op, y);
    if (l.parts && !folded)
        y = lora(b, name, y, x, &l, in, out);
    b->loc = loc;
    return y;
}

Ref layer_linear(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules,
                 bool bias)
{
    return layer_linear_from(b, name, x, in, out, m, nmodules, bias, first_weight(b, in),
                             first_bias(b, in));
}

LayerUse layer_weights(Build *b, const char *name, Dim in, Dim out, const Module *m, int nmodules,
                       bool bias)
{
    const Loc loc = b->loc;
    Adapters l = adapters(b, m, nmodules);
    LayerUse use = {.w = matrix(b, name, in, in, out, m, nmodules, first_weight(b, in)),
                    .parts = l.parts};
    if (bias)
        use.b = bias_of(b, name, out, m, nmodules, first_bias(b, in));
    if (l.parts) {
        b->loc = config_loc(b->c, F_lora_rank);
        adapter_weights(b, name, &l, in, out);
        use.A = build_use(b, l.A), use.B = build_use(b, l.B);
        use.scale = adapter_scale(b->c);
        b->loc = loc;
    }
    for (int i = 0; i < l.parts; i++)
        use.column[i] = l.column[i], use.width[i] = l.b[i].rows;
    return use;
}

/* ---- layers outside the family's blocks ------------------------------------------------------ */

/* Module of a layer that the family does not have. */
static Value *extra(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                    const char *suffix, First first, bool trained)
{
    Value *v = layer_parameter(b, name, rows, cols, m, 1, suffix, first);
    if (v->kind != VK_PARAM)
        return v;            /* of the start */
    v->trained = v->optional_in_checkpoint = trained;
    v->decay = trained && decays(b, first, text_print("%s.%s", m->path, suffix));
    v->adapter = trained && config_int(b->c, F_lora_rank) > 0;
    return v;
}

Layer layer_added(Build *b, const char *name, const char *path, Dim in, Dim out, bool zeros,
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

Value *layer_rows(Build *b, const char *name, const char *path, const char *tensor, Dim rows,
                  double std)
{
    Module m = {path, rows.n};
    return layer_parameter(b, name, rows, dim_hidden(b), &m, 1, tensor,
                           (First){"normal", std, false});
}

Layer layer_modules(Build *b, const char *name, int n, const char *const *path,
                    const int64_t *width, Dim in, Dim out)
{
    Module m[4];
    int64_t all = 0;
    if (n > (int)(sizeof m / sizeof *m))
        bug("%s: %d modules", name, n);
    for (int i = 0; i < n; all += width[i++])
        m[i] = (Module){path[i], width[i]};
    if (all != out.n)
        bug("%s: modules with %" PRId64 " rows, want %" PRId64, name, all, out.n);
    double bound = 1 / sqrt((double)in.n);
    return (Layer){layer_parameter(b, text_print("%s.w", name), out, in, m, n, "weight",
                                   (First){"uniform", bound, false}),
                   layer_parameter(b, text_print("%s.b", name), out, dim(0, ""), m, n, "bias",
                                   (First){"uniform", bound, true})};
}

Ref layer_apply(Build *b, Layer layer, const char *name, Ref x)
{
    Ref y = build_like(b, name, x, layer.w->dim[0]);
    Op *op = build_op(b, OP_linear_bias);
    op_in(op, x), op_in(op, ref(layer.w)), op_in(op, ref(layer.b));
    op_out(op, y);
    return y;
}
