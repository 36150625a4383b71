/* heads.c -- what objectives may ask of attention and of the head, and lm does not: other masks, a
 *            weight a row, a bias, the logits of some rows.
 *
 * In:    a folder for recipes and calls.
 * Out:   `ok heads/NAME` a case, or `not ok`; heads_NAME.c: the calls of a CPU program, to compile.
 * Method: every room with its check; the text reads back; what is to stand in it and in the calls. */
#include "gen/emit/emit.h"
#include "gen/graph/graph.h"
#include "gen/lower/lower.h"

#include <string.h>

static struct { bool both_ways, lengths, limits, weights, bias, early, row, some; } form;

/* lm's loss and gradient in another form. */
static void build(Build *b)
{
    b->in.tokens = input_new(b, "tokens");
    b->added.targets = form.row ? 5 : b->added.targets;      /* the recipe says nothing of them */
    head_labels(b);
    if (form.both_ways)
        b->in.mask.word = "full";
    b->model.head_bias = form.bias;
    if (form.lengths)
        b->in.mask = (Mask){"length", {input_new(b, "lengths")}};
    if (form.limits)
        b->in.mask = (Mask){"limit", {input_new(b, "kv_limits")}};
    b->in.weights = form.weights ? input_new(b, "weights") : NULL;
    loss_inputs(b);
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = pass_rows(b, &pass, head_rows_read(b));
    Ref dy = build_temp(b, text_print("d%s", y.v->name), b->model.act, y.v->rank, y.v->dim);
    int end = b->p->nops;
    head_loss_gradient(b, y, dy);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
    schedule_train(b);
    if (form.row)
        size_add(b, "ASKED", 1, "of row");
    if (form.row || form.some)
        head_program_at(b, "probe", form.row ? "row" : "some", "the logits of rows");
}

static int failed;

static void verdict(const char *name, bool ok, const char *why)
{
    printf(ok ? "ok heads/%s\n" : "not ok heads/%s: %s\n", name, why);
    failed |= !ok;
}

static void has(const char *name, const char *text, const char *line)
{
    verdict(name, strstr(text, line), text_print("no \"%s\"", line));
}

/* The programs alone, with what they name: a compiler says whether the calls fit the kernels. */
static void write_calls(const Graph *g, const char *path, const char *programs)
{
    Str s = {0};
    int n;
    str_print(&s, "enum {\n%s};\n%s#define AT(x, l) ((void)(l), x)\n#define SPAN(a, b) ((a) - (b))\n"
              "#define profile_op(i)\n", emit_shape(g), emit_numbers(g));
    const char *const *file = emit_kernel_files(g, &n);
    for (int i = 0; i < n; i++)
        str_print(&s, "#include \"kernels/cpu/%s\"\n", file[i]);
    for (int i = 0; i < g->nvalues; i++)
        if (!g->values[i]->internal)
            str_print(&s, "static %s *%s;\n", c_type(g->values[i]->dtype),
                      c_name(g->values[i]->name));
    str_print(&s, "%s%s", emit_products(g), programs);
    file_write_if_changed(path, s.text, s.n, false);
}

typedef struct { const char *plan, *calls; } Texts;

/* The recipe with these words in it, after every room. */
static Texts planned(const char *folder, const char *name, const char *words)
{
    const char *file = text_print("%s/%s.lua", folder, name);
    const char *recipe = text_print("return { seq = { max = 6 }, batch = { micro = 2, accum = 2%s },\n"
                                    "%s, layers = 2, hidden = 64, heads = 2, vocab = 31 } }\n",
                                    form.early ? ", targets = 5" : "", words);
    file_write_if_changed(file, recipe, strlen(recipe), false);
    Config *c = config_fill(recipe_load(file, NULL, 0), file);
    check_config(c);
    Graph *g = graph_of(c, build);
    check_graph(g);
    fuse_run(g), check_fuse(g);
    part_run(g), check_part(g);
    plan_run(g), check_plan(g);
    Texts t = {ir_print(g), emit_programs(g)};
    verdict(text_print("%s reads back", name), !strcmp(t.plan, ir_print(ir_parse(t.plan, "plan"))),
            "another text");
    if (!strcmp(g->target->backend, "cpu"))
        write_calls(g, text_print("%s/heads_%s.c", folder, name), t.calls);
    memset(&form, 0, sizeof form);
    return t;
}

#define CPU "target = 'cpu', model = { family = 'gpt2'"
#define LORA "target = 'cpu', lora = { rank = 2, targets = { 'all-linear' }, dropout = 0.5 },\n" \
             "model = { family = 'gpt2', tied = false"
#define GPU "target = 'sm_90', precision = 'bf16', model = { family = 'llama', ffn = 40, tied = false"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    objectives_install();
    form.both_ways = true;
    Texts t = planned(argv[1], "full", CPU);
    has("full", t.plan, "attention %b.qkv[l]  heads 2  kv 2  dim 32  mask full  scale");
    has("full, its gradient", t.plan, "%b.att.lse[l]  heads 2  kv 2  dim 32  mask full  scale");
    has("full, call", t.calls, "{.mask = ATTENTION_FULL},");

    form.lengths = form.weights = form.some = true;
    t = planned(argv[1], "length", CPU);
    has("length", t.plan, "attention %b.qkv[l], %lengths[m]  heads 2  kv 2  dim 32  mask length  scale");
    has("length of rows", t.plan, "attention %s.qkv[l], %lengths[0]  heads 2");
    has("weights", t.plan, "= ce_bwd %norm_f, $wte, %labels[m], %scale, %weights[m]  chunk");
    has("weights, call", t.calls,
        "ce_bwd(losses, dnorm_f, norm_f, wte, AT(labels, micro), scale,");
    has("rows, their schedule", t.plan, "schedule probe ");

    form.limits = form.bias = true;
    t = planned(argv[1], "limit", CPU ", tied = false");
    has("limit", t.plan, "attention %b.qkv[l], %kv_limits[m]  heads 2  kv 2  dim 32  mask limit  scale");
    has("limit, its gradient", t.plan, "attention_bwd %b.datt");
    has("bias", t.plan,
        "$grad.head, $grad.head.b = ce_bwd %norm_f, $head, $head.b, %labels[m], %scale  chunk");
    has("bias in files", t.plan, "hf \"lm_head.bias\" rows 0 31");
    has("bias, call", t.calls, "&(CeHead){.bias = head_b, .dw = grad_head,");

    form.early = form.bias = true;
    t = planned(argv[1], "early", CPU ", tied = false");
    has("early", t.plan, "%x.rows = gather %x[2], %target_rows[m], %target_of[m]");
    has("early, after it", t.plan, "%norm_f.rstd = layernorm %x.rows, $norm_f.w, $norm_f.b");
    has("early, its gradient", t.plan, "%dx[2] = gather %dx.rows, %target_of[m], %target_rows[m]");
    has("early, call", t.calls, "layernorm_fwd(norm_f, norm_f_mean, norm_f_rstd, x_rows, norm_f_w, norm_f_b, N, C,");

    form.row = form.bias = true;
    t = planned(argv[1], "row", CPU ", tied = false");
    has("bound of the objective", t.plan, "size N 5 ");
    has("row", t.plan, "%s.x.row = gather %s.x[2], %row  #");
    has("row, after it", t.plan, "%s.norm_f.rstd = layernorm %s.x.row, $norm_f.w, $norm_f.b");
    has("row, logits", t.plan, "$logits = logits_bias %s.norm_f, $head, $head.b");
    has("row, call", t.calls, "logits_bias_fwd(logits, s_norm_f, head, head_b, &");

    form.some = true;
    t = planned(argv[1], "some", CPU);
    has("some rows", t.plan, "%s.x.some = gather %s.x[2], %some  #");
    has("some rows, logits", t.plan, "$logits = logits_rows %s.norm_f, $wte  #");
    has("some rows, shape", t.plan, "state $logits  :f32[3,31] (3,V)");
    has("some rows, call", t.calls, "logits_fwd(logits, s_norm_f, wte, &");

    form.row = form.bias = true;
    t = planned(argv[1], "row_gpu", GPU);
    has("row on a GPU", t.calls, "logits_bias_fwd(logits, s_norm_f, head, head_b, &");

    form.some = true;
    has("some rows on a GPU", planned(argv[1], "some_gpu", GPU).calls, "logits_fwd(logits, s_norm_f, head, &");

    form.weights = form.bias = form.some = true;
    t = planned(argv[1], "frozen", LORA);
    has("frozen", t.plan, "= ce_bwd %norm_f, $head, $head.b, %labels[m], %scale, %weights[m]  chunk");
    has("frozen, call", t.calls, "&(CeHead){.bias = head_b, .weights = AT(weights, micro)},");
    has("adapters of rows", t.calls, "&lora_qkv_probe");

    form.both_ways = form.bias = form.weights = true;
    t = planned(argv[1], "gpu", GPU);
    has("gpu, mask", t.calls, "attention_bwd<D, ATTENTION_FULL, 128>");
    has("gpu, head", t.calls, "ce_bwd<1024>(");
    form.limits = true;
    has("gpu, limit", planned(argv[1], "gpu_limit", GPU).calls, "attention_bwd<D, ATTENTION_LIMIT, 128>(b_drot,");
    return failed;
}
