/* emit_tune.c -- calls of kernels that have variants: the value of each, and what tune.cu measures.
 *
 * In:    the graph after plan, the lock file.   Out: {variant} of a call; C text of tune.cu.
 * Keeps: a call is asked for once, by the key that lock files have.
 * Method: the calls of tune.cu are those of step.cu; operands are pointers, a template has the
 *         variant. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"

#include <inttypes.h>
#include <string.h>

/* A call whose kernel has variants that may be chosen: values of `row`, at least two. */
struct TunedCall {
    const char *key;
    const VariantRow *row;
    int nvalues, value[8];
    int64_t depth;                   /* the largest of its dimensions: no sum has more terms */
    Call call;
    int n;                           /* operands, each once */
    struct { Ref r; bool out; } operand[16];
};

static struct { int n; TunedCall list[64]; } variants;

void variants_clear(void) { variants.n = 0; }

/* The tuner's pointer to an operand. */
char *variant_operand(TunedCall *t, Ref r, bool out)
{
    int i = 0;
    while (i < t->n && (t->operand[i].r.v != r.v || t->operand[i].r.index != r.index ||
                        t->operand[i].r.k != r.k))
        i++;
    if (i == (int)(sizeof t->operand / sizeof t->operand[0]))
        bug("too many operands of %s", t->key);
    t->n += i == t->n;
    t->operand[i].r = r;
    t->operand[i].out |= out;
    return text_print("(%s *)p[%d]", c_type(r.v->dtype), i);
}

/* {variant family|dim|dim..}: the value that was measured for a call of these dimensions, or the
 * default. In the tuner it is the argument of a template. */
char *variant_text(const Call *c, const char *word)
{
    if (c->tuned)
        return text_copy("VARIANT");
    char *copy = text_copy(word), *save = NULL;
    const VariantRow *row = variant_find(strtok_r(copy + strlen("variant "), "|", &save));
    const char *name = kernel_row[c->group->kernel].name;
    TunedCall t = {.row = row, .call = *c, .nvalues = 1, .value = {row->value[0]}};
    Str key = {0};
    str_print(&key, "%s %s", name, config_text(c->g->cfg, F_precision));
    for (const char *dim; (dim = strtok_r(NULL, "|", &save));) {
        int64_t n = call_measure(c, dim).n;
        str_print(&key, " %.*s %" PRId64, (int)strcspn(dim, ":"), dim, n);
        t.depth = n > t.depth ? n : t.depth;
    }
    t.key = key.text;
    for (int i = 1; i < row->n; i++)
        if (row->fits(&c->p->ops[c->group->first_op], row->value[i]))
            t.value[t.nvalues++] = row->value[i];
    if (t.nvalues == 1)
        return text_print("%d", row->value[0]);
    int known = 0;
    while (known < variants.n && strcmp(variants.list[known].key, key.text))
        known++;
    if (known == (int)(sizeof variants.list / sizeof variants.list[0]))
        bug("too many calls with variants");
    if (known == variants.n)
        variants.list[variants.n++] = t;
    const char *chosen = lock_variant(c->g, key.text);
    for (int i = 0; chosen && i < t.nvalues; i++)
        if (!strcmp(chosen, text_print("%d", t.value[i])))
            return text_copy(chosen);
    if (chosen)
        err((Loc){lock_path(c->g), 0}, "%s: has no variant %s; delete that row", key.text, chosen);
    return text_print("%d", row->value[0]);
}

static const char *tuned_type(Dtype dt)
{
    if (dt != DT_F32 && dt != DT_I32 && dt != DT_BF16 && dt != DT_F16)
        bug("the tuner has no operands of type %s", dtype_name[dt]);
    return dt == DT_F32 ? "TUNE_F32" : dt == DT_I32 ? "TUNE_TOKEN" : "TUNE_ACT";
}

static void print_tuned(Str *rows, Str *calls, TunedCall *t, int number)
{
    t->call.tuned = t;
    t->n = 0;
    str_print(calls, "/* %s */\ntemplate <int VARIANT>\n", t->key);
    str_print(calls, "static void tune_call_%d(void *const *p, void *ws, cudaStream_t s)\n{\n",
              number);
    call_print(calls, &t->call, 4);
    str_print(calls, "}\n\n");
    str_print(rows, "    {\"%s\", %" PRId64 ", %" PRId64 ", %s,\n     {", t->key,
              t->call.group->workspace, t->depth, t->row->act ? "true" : "false");
    for (int i = 0; i < t->n; i++)
        str_print(rows, "%s{%s, %" PRId64 ", %s}", !i ? "" : i % 3 ? ", " : ",\n      ",
                  tuned_type(t->operand[i].r.v->dtype), value_elements(t->operand[i].r.v),
                  t->operand[i].out ? "true" : "false");
    str_print(rows, "},\n     {");
    for (int i = 0; i < t->nvalues; i++)
        str_print(rows, "%s{%d, tune_call_%d<%d>}", !i ? "" : i % 3 ? ", " : ",\n      ",
                  t->value[i], number, t->value[i]);
    str_print(rows, "}},\n");
}

char *emit_variants(void)
{
    Str rows = {0}, calls = {0};
    for (int i = 0; i < variants.n; i++)
        print_tuned(&rows, &calls, &variants.list[i], i);
    if (!variants.n)
        return "";
    str_print(&calls, "static const TuneKernel tune_kernels[] = {\n%s};\n", rows.text);
    return calls.text;
}

char *emit_variant_lists(void)
{
    Str s = {0};
    for (int i = 0; i < nvariants; i++) {
        const VariantRow *row = &variant_row[i];
        str_print(&s, "#define VARIANTS_%s(X)", row->name);
        for (int k = 0; k < row->n; k++) {
            bool used = !k;
            for (int t = 0; t < variants.n; t++)
                for (int v = 0; v < variants.list[t].nvalues; v++)
                    used |= variants.list[t].row == row &&
                            variants.list[t].value[v] == row->value[k];
            if (used)
                str_print(&s, " X(%d)", row->value[k]);
        }
        str_print(&s, "\n");
    }
    return s.text;
}
