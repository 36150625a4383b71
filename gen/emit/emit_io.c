/* emit_io.c -- host inputs: fields of StepIO, their addresses, the Batch of a micro-batch.
 *
 * In:    inputs of the graph after plan, their rows of inputs.def.   Out: C text.
 * Keeps: the order of the graph; a program has only the fields that it reads. */
#include "gen/emit/emit.h"

#include <inttypes.h>
#include <string.h>

/* Returns the i-th input of the graph; NULL after the last. */
static const Value *input_at(const Graph *g, int i)
{
    for (int k = 0; k < g->nvalues; k++)
        if (g->values[k]->kind == VK_INPUT && i-- == 0)
            return g->values[k];
    return NULL;
}

int64_t emit_micros(const Graph *g)
{
    const Value *v;
    int64_t n = 1;
    for (int i = 0; (v = input_at(g, i)); i++)
        n = v->count > n ? v->count : n;
    return n;
}

/* Returns the row of inputs.def of an input; ends gen if there is none, as in an edited graph. */
static const InputRow *row_of(const Graph *g, const Value *v)
{
    const InputRow *row = input_row(v->name);
    if (!row)
        err(v->loc, "input %s: inputs.def has no such row, so no host writes it", v->name);
    int64_t tensors = row->micro ? emit_micros(g) : 1;
    if (row->dtype != v->dtype || (v->count ? v->count : 1) != tensors || v->slots != tensors)
        err(v->loc, "input %s: must be %" PRId64 " of %s, as inputs.def has it", v->name, tensors,
            dtype_name[row->dtype]);
    return row;
}

/* Adds a wrapped comment after the line that ends s, at column 33 or to the right of the text. */
static void comment(Str *s, int used, const char *text)
{
    int column = used < 33 ? 33 : used + 1, at = column + 2;
    str_print(s, "%*s//", column - used, "");
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (at + 1 + n > COLUMNS) {
            str_print(s, "\n%*s//", column, "");
            at = column + 2;
        }
        str_print(s, " %.*s", n, text);
        at += 1 + n;
        text += n + (text[n] == ' ');
    }
    str_print(s, "\n");
}

char *emit_io_fields(const Graph *g)
{
    const Value *v;
    Str s = {0};
    for (int i = 0; (v = input_at(g, i)); i++) {
        const InputRow *row = row_of(g, v);
        char *line = text_print("    %s *%s%s;", c_type(v->dtype), c_name(v->name),
                                row->micro ? "[MICROS]" : "");
        Str shape = {0};
        for (int d = 0; d < v->rank; d++)
            str_print(&shape, "%s%s", d ? ", " : "", v->dim[d].sym);
        str_print(&s, "%s", line);
        const bool scalar = !strcmp(shape.text, "1");
        comment(&s, (int)strlen(line),
                scalar ? row->doc : text_print("(%s): %s", shape.text, row->doc));
    }
    return s.text;
}

char *emit_scalers(const Graph *g, const char *line)
{
    Str s = {0};
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            if (op->kind != OP_scaler_update)
                continue;
            for (const char *from = line, *at; *from; from = *at ? at + 2 : at) {
                at = strstr(from, "%s") ? strstr(from, "%s") : from + strlen(from);
                str_print(&s, "%.*s%s", (int)(at - from), from,
                          *at ? c_name(op->out[1].v->name) : "");
            }
        }
    return s.n ? s.text : "";
}

/* Returns the input adamw_args of the i-th parameter group; NULL after the last. */
static const Value *set_at(const Graph *g, int i)
{
    const Value *v;
    for (int k = 0; (v = input_at(g, k)); k++)
        if (input_row(v->name) == input_row("adamw_args") && i-- == 0)
            return v;
    return NULL;
}

char *emit_set_names(const Graph *g)
{
    const Value *adamw_args;
    Str s = {0};
    str_print(&s, "enum {\n");
    for (int i = 0; (adamw_args = set_at(g, i)); i++)
        str_print(&s, "    SET_%s,\n", c_name(value_set(adamw_args)));
    str_print(&s, "    SETS\n};\n");
    return s.text;
}

/* Returns the host's name of a state value of a parameter group: total_norm, total_norm_head. */
static char *set_field(const Value *adamw_args, const char *name)
{
    return c_name(adamw_args->set ? text_print("%s.%s", name, adamw_args->set) : name);
}

/* Returns true if the schedule `train` updates the group. */
static bool with_step(const Graph *g, const Value *adamw_args)
{
    const char *norm = set_field(adamw_args, "total_norm");
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nresults; k++)
            if (!strcmp(c_name(g->schedules[i]->result[k]->name), norm))
                return !strcmp(g->schedules[i]->name, "train");
    bug("the norm of the group %s is not a result of a schedule", value_set(adamw_args));
}

/* Adds the flags that only this parameter group has. */
static void own_flags(Str *s, const char *set)
{
    static const char *const name[] = {
#define SET_FLAG(name) #name,
#include "runtime/run/param_groups.def"
#undef SET_FLAG
    };
    const char *before = ",\n     .flag = {", *first = before;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char *flag = text_print("%s_%s", set, name[i]);
        if (run_flag_find(flag) < 0)
            continue;
        str_print(s, "%s[SET_FLAG_%s] = FLAG_%s", before, name[i], flag);
        before = ",\n             ";
    }
    if (before != first)
        str_print(s, "}");
}

char *emit_sets(const Graph *g)
{
    const Value *adamw_args;
    Str s = {0};
    for (int i = 0; (adamw_args = set_at(g, i)); i++) {
        str_print(&s, "    {.name = \"%s\",%s\n     .adamw_args = &io.%s, .norm = &io.%s",
                  value_set(adamw_args), with_step(g, adamw_args) ? " .with_step = true," : "",
                  c_name(adamw_args->name), set_field(adamw_args, "total_norm"));
        if (ir_value(g, adamw_args->set ? text_print("scaler.%s", adamw_args->set) : "scaler"))
            str_print(&s, ", .scaler = &io.%s", set_field(adamw_args, "scaler"));
        if (ir_value(g, adamw_args->set ? text_print("rounding.%s", adamw_args->set) : "rounding"))
            str_print(&s, ", .rounding = &io.%s", set_field(adamw_args, "rounding"));
        own_flags(&s, value_set(adamw_args));
        str_print(&s, "},\n");
    }
    return s.text;
}

/* Returns the line that sets the host address of an input. */
static char *input_line(const Graph *g, const char *field, const char *value)
{
    Hole holes[] = {{"FIELD", field, false}, {"VALUE", value, false}};
    return template_line(emit_backend(g)->input, holes, 2);
}

char *emit_io(const Graph *g)
{
    const Value *v;
    bool loop = emit_micros(g) > 1;
    Str micros = {0}, s = {0};
    for (int i = 0; (v = input_at(g, i)); i++) {
        const char *name = c_name(v->name);
        if (!row_of(g, v)->micro)
            str_print(&s, "    %s\n", input_line(g, name, name));
        else if (loop)
            str_print(&micros, "        %s\n",
                      input_line(g, text_print("%s[k]", name), text_print("AT(%s, k)", name)));
        else
            str_print(&micros, "    %s\n", input_line(g, text_print("%s[0]", name), name));
    }
    return text_print("%s%s%s%s", loop ? "    for (int k = 0; k < MICROS; k++) {\n" : "",
                      micros.n ? micros.text : "", loop ? "    }\n" : "", s.n ? s.text : "");
}

char *emit_batch(const Graph *g)
{
    const Value *v;
    Str s = {0};
    for (int i = 0; (v = input_at(g, i)); i++)
        if (row_of(g, v)->micro)
            str_print(&s, "        .%s = io.%s[micro],\n", c_name(v->name), c_name(v->name));
    return s.n ? s.text : "";
}

char *emit_inputs(const Graph *g)
{
    const Value *v;
    int64_t begin = INT64_MAX, end = 0;
    for (int i = 0; (v = input_at(g, i)); i++) {
        begin = v->offset < begin ? v->offset : begin;
        end = v->offset + v->slots * v->stride > end ? v->offset + v->slots * v->stride : end;
    }
    return text_print("enum : int64_t { INPUTS_OFFSET = %" PRId64 ", INPUTS_BYTES = %" PRId64
                      " };\n", begin, end - begin);
}
