/* emit_tune.c -- measurements of tune.cu: the calls of kernels that have variants.
 *
 * In:    the graph after plan, the calls recorded by emit_variant.c.   Out: C text of tune.cu.
 * Method: the calls of tune.cu are those of step.cu, with pointers as operands and a template
 *         argument for the variant. */
#include "gen/emit/emit.h"

#include <inttypes.h>

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
    for (int i = 0; i < t->n; i++) {
        const Value *v = t->operand[i].r.v;      /* with the padding that kernels may touch */
        str_print(rows, "%s{%s, %" PRId64 ", %s}", !i ? "" : i % 3 ? ", " : ",\n      ",
                  tuned_type(v->dtype), v->stride / dtype_bytes[v->dtype],
                  t->operand[i].out ? "true" : "false");
    }
    str_print(rows, "},\n     {");
    for (int i = 0; i < t->nvalues; i++)
        str_print(rows, "%s{%d, tune_call_%d<%d>}", !i ? "" : i % 3 ? ", " : ",\n      ",
                  t->value[i], number, t->value[i]);
    str_print(rows, "}},\n");
}

char *emit_variants(void)
{
    Str rows = {0}, calls = {0};
    TunedCall *list;
    int n = variants_list(&list);
    for (int i = 0; i < n; i++)
        print_tuned(&rows, &calls, &list[i], i);
    if (!n)
        return "";
    str_print(&calls, "static const TuneKernel tune_kernels[] = {\n%s};\n", rows.text);
    return calls.text;
}

char *emit_variant_lists(void)
{
    Str s = {0};
    TunedCall *list;
    int n = variants_list(&list);
    for (int i = 0; i < nvariants; i++) {
        const VariantRow *row = &variant_row[i];
        str_print(&s, "#define VARIANTS_%s(X)", row->name);
        for (int k = 0; k < row->n; k++) {
            bool used = !k;
            for (int t = 0; t < n; t++)
                for (int v = 0; v < list[t].nvalues; v++)
                    used |= list[t].row == row && list[t].value[v] == row->value[k];
            if (used)
                str_print(&s, " X(%d)", row->value[k]);
        }
        str_print(&s, "\n");
    }
    return s.text;
}
