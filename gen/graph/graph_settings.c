/* graph_settings.c -- recipe values that later rooms need (settings.def), and sizes.
 *
 * In:    Config, values of the graph.
 * Out:   Graph.setting, Graph.size.
 * Keeps: every dimension, and every count that C code reads by name, equals its symbol's size. */
#include "gen/graph/graph.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/dynamic_map.h"

enum { F_none = -1 };
const SettingRow setting_row[NSETTINGS] = {
#define SETTING(kind, name, field, doc) {#name, SETTING_IS_##kind, F_##field},
#include "gen/graph/settings.def"
#undef SETTING
};

/* ---- of a recipe ----------------------------------------------------------------------------- */

static void add_word(GraphSetting *f, char *word)
{
    f->word = ir_one_more(f->word, f->n);
    f->word[f->n++] = word;
}

void settings_make(Graph *g, Config *c)
{
    for (int i = 0; i < NSETTINGS; i++) {
        int field = setting_row[i].field;
        if (field == F_none)
            continue;
        g->setting[i].loc = config_loc(c, field);
        if (field_row[field].type == FT_BOOL)
            g->setting[i].i = config_bool(c, field);
        else if (setting_row[i].kind == SETTING_IS_INT)
            g->setting[i].i = config_int(c, field);
        else
            g->setting[i].text = config_text(c, field);
    }
    double limit = config_float(c, F_memory_limit_gib) * (1 << 30);
    g->setting[SETTING_memory] =
        (GraphSetting){.i = limit > 0 ? (int64_t)limit : 0,
               .loc = config_loc(c, limit > 0 ? F_memory_limit_gib : F_target)};
    g->setting[SETTING_recipe].text = c->recipe;
    g->setting[SETTING_name].text = c->name;
    g->setting[SETTING_hash].text = c->hash;
    g->setting[SETTING_overrides].n = config_overrides(c, &g->setting[SETTING_overrides].word);
    g->setting[SETTING_cluster].text = cluster_lines(c);
    for (int i = 0; i < c->nrun; i++)
        add_word(&g->setting[SETTING_flags], text_print("%s=%s", c->run_name[i], c->run_value[i]));
    g->setting[SETTING_model_fields].text = model_fields(c);
    g->setting[SETTING_other_fields].text = other_fields(g, c);
    g->setting[SETTING_config_json].text = model_config_json(g, c);
    g->setting[SETTING_adapter_json].text = model_adapter_json(g, c);
    if (config_is(c, F_comm_order, "canonical"))
        g->setting[SETTING_order].text = text_print("%s\n", config_order_hash(c));
    if (config_bool(c, F_checkpoint_async))
        g->setting[SETTING_checkpoint].text = "async\n";
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Chunk of the losses over the vocabulary; 0: none. */
static int64_t chunk_of(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Attr *chunk = op_attr(&g->programs[i]->ops[k], "chunk");
            if (chunk)
                return chunk->i;
        }
    return 0;
}

static bool is_used(const Graph *g, const char *sym)
{
    for (int i = 0; i < g->nvalues; i++)
        for (int d = 0; d < g->values[i]->rank; d++)
            if (!strcmp(g->values[i]->dim[d].sym, sym))
                return true;
    return false;
}

void sizes_make(Build *b)
{
    Graph *g = b->g;
    Config *c = b->c;
    const Value *rows = ir_value(g, "target_rows");
    ir_size_add(g, "B", b->in.B, "sequences of a micro-batch");
    if (b->in.B != config_int(c, F_batch_micro))
        ir_size_add(g, "S", config_int(c, F_batch_micro), "samples of a micro-batch");
    ir_size_add(g, "T", config_int(c, F_seq_max), "positions of a sequence");
    if (rows)
        ir_size_add(g, "N", rows->dim[0].n, "rows of a micro-batch that go through the head");
    if (config_int(c, F_memory_zero) || config_is(c, F_comm_order, "canonical"))
        ir_size_add(g, "RANKS", g->ranks, "ranks of a run");
    ir_size_add(g, "L", config_int(c, F_model_layers), "layers");
    ir_size_add(g, "C", config_int(c, F_model_hidden), "width of the residual stream");
    ir_size_add(g, "H", config_int(c, F_model_heads), "query heads");
    ir_size_add(g, "K", config_int(c, F_model_kv_heads), "key and value heads");
    ir_size_add(g, "D", config_int(c, F_model_head_dim), "width of a head");
    ir_size_add(g, "F", config_int(c, F_model_ffn), "width of the feed-forward layer");
    if (field_applies(c, F_model_vocab))
        ir_size_add(g, "V", config_int(c, F_model_vocab), "rows of the embedding");
    ir_size_add(g, "P", config_int(c, F_model_positions), "positions the model knows");
    if (config_int(c, F_lora_rank))
        ir_size_add(g, "R", config_int(c, F_lora_rank), "rank of the adapters");
    if (chunk_of(g))
        ir_size_add(g, "ROWS", chunk_of(g), "rows of logits held at a time");
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 1; k <= g->programs[i]->nregions; k++) {
            Dim layers = g->programs[i]->region[k].count;
            const Size *loop = size_find(b, layers.sym);
            if (!ir_size(g, layers.sym))
                ir_size_add(g, layers.sym, layers.n,
                            loop ? loop->about : "layers of another stack");
        }
    for (int i = 0; i < b->added.nsizes; i++)
        if (!ir_size(g, b->added.size[i].name) && is_used(g, b->added.size[i].name))
            ir_size_add(g, b->added.size[i].name, b->added.size[i].n, b->added.size[i].about);
}

/* Parser of a symbol such as "3*C" or "(H+2*K)*D". */
typedef struct {
    const Graph *g;
    const char *p;
    int depth;
    bool bad;                /* not a valid symbol */
} Sum;

static int64_t sum(Sum *s);

static int64_t factor(Sum *s)
{
    if (isdigit((unsigned char)*s->p)) {
        char *end;
        int64_t n = strtoll(s->p, &end, 10);
        s->p = end;
        return n;
    }
    if (*s->p == '(' && s->depth < 20) {
        s->p++, s->depth++;
        int64_t n = sum(s);
        s->bad |= *s->p != ')';
        s->p += *s->p == ')', s->depth--;
        return n;
    }
    size_t n = 0;
    while (isalnum((unsigned char)s->p[n]) || s->p[n] == '_')
        n++;
    int64_t found = ir_size(s->g, text_print("%.*s", (int)n, s->p));
    s->p += n;
    s->bad |= !found;
    return found;
}

static int64_t product(Sum *s)
{
    int64_t n = factor(s);
    while (!s->bad && (*s->p == '*' || *s->p == '/')) {
        char op = *s->p++;
        int64_t m = factor(s);
        if (op == '*')
            s->bad |= __builtin_mul_overflow(n, m, &n);
        else if (m <= 0 || n % m)
            s->bad = true;
        else
            n /= m;
    }
    return n;
}

static int64_t sum(Sum *s)
{
    int64_t n = product(s);
    while (!s->bad && (*s->p == '+' || *s->p == '-')) {
        char op = *s->p++;
        int64_t m = product(s);
        s->bad |= op == '+' ? __builtin_add_overflow(n, m, &n) : __builtin_sub_overflow(n, m, &n);
    }
    return n;
}

/* Message if the magnitudes of an 8-bit moment are not one for each block; else NULL. */
static char *absmax_fault(const Graph *g, const Value *v)
{
    const Value *moment = absmax_moment(g, v);
    if (!moment || v->rank != 2)
        return NULL;
    const int64_t tensors = moment->count ? moment->count : 1,
                  blocks = DYNAMIC_BLOCKS(value_elements(moment));
    return v->dim[0].n == tensors && v->dim[1].n == blocks
               ? NULL
               : text_print("%s: %s has %" PRId64 " tensors of %" PRId64 " blocks", v->name,
                            moment->name, tensors, blocks);
}

char *size_fault_value(const Graph *g, const Value *v)
{
    static const char *const precision[NDTYPES] = {[DT_BF16] = "bf16", [DT_F16] = "fp16"};
    const char *is = g->setting[SETTING_precision].text;
    if (precision[v->dtype] && strcmp(precision[v->dtype], is))
        return text_print("%s is %s, but precision is %s", v->name, dtype_name[v->dtype], is);
    for (int i = 0; i < v->rank && v->purpose != PU_workspace; i++) {
        Sum s = {.g = g, .p = v->dim[i].sym};
        int64_t n = sum(&s);
        if (s.bad || *s.p)
            return text_print("%s: the sizes do not say what %s is", v->name, v->dim[i].sym);
        if (n != v->dim[i].n)
            return text_print("%s: %s is %" PRId64 ", here %" PRId64, v->name, v->dim[i].sym, n,
                              v->dim[i].n);
    }
    return absmax_fault(g, v);
}

char *size_fault_op(const Graph *g, const Program *p, const Op *op)
{
    Dim layers = op->region ? p->region[op->region].count : (Dim){0};
    if (op->region && ir_size(g, layers.sym) != layers.n)
        return text_print("a repeat of %" PRId64 ", but %s is %" PRId64, layers.n, layers.sym,
                          ir_size(g, layers.sym));
    for (int i = 0; i < op->nattr; i++) {
        const char *name = attr_symbol(op->attr[i].key);
        if (name && ir_size(g, name) != op->attr[i].i)
            return text_print("%s: %s is %" PRId64 ", but %s is %" PRId64, op_row[op->kind].name,
                              op->attr[i].key, op->attr[i].i, name, ir_size(g, name));
    }
    for (int i = 0; i < op->nin + op->nout; i++) {
        Ref r = i < op->nin ? op->in[i] : op->out[i - op->nin];
        if (r.index == IX_CONST && r.k && r.k != r.v->count - 1)
            return text_print("%s[%" PRId64 "]: must be the first, or the last: %" PRId64,
                              r.v->name, r.k, r.v->count - 1);
    }
    return NULL;
}

const char *attr_symbol(const char *key)
{
    static const char *const table[][2] = {
        {"heads", "H"}, {"kv", "K"}, {"dim", "D"}, {"rank", "R"}, {"chunk", "ROWS"},
        {"length", "T"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(key, table[i][0]))
            return table[i][1];
    return NULL;
}

void check_sizes(const Graph *g)
{
    int setting;
    char *model = model_fault(g, &setting);
    if (model)
        bug("%s: %s", setting_row[setting].name, model);
    for (int i = 0; i < g->nvalues; i++) {
        char *fault = size_fault_value(g, g->values[i]);
        if (fault)
            bug("%s", fault);
    }
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            char *fault = size_fault_op(g, g->programs[i], &g->programs[i]->ops[k]);
            if (fault)
                bug("program %s: %s", g->programs[i]->name, fault);
        }
}
