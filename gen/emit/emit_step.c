/* emit_step.c -- text of step.c (step.cu on a GPU): tables and kernel calls.
 *
 * In:    the graph after plan, the lock file.   Out: C text; every number comes from them.
 * Keeps: IR names: %b.norm1[l] is AT(b_norm1, l). */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "kernels/cuda/workspace.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- shape.h and plan.h ---------------------------------------------------------------------- */

char *emit_shape(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nsizes; i++)
        print_constant(&s, g->size[i].name, g->size[i].n, g->size[i].about);
    const Attr *a;
    for (const Constant *row = constant_row; row->name; row++)
        if ((a = constant_value(g, row)) && a->type == ATTR_INT)
            print_constant(&s, row->name, a->i, row->doc);
    print_sites(&s, g);
    return s.text;
}

char *emit_numbers(const Graph *g)
{
    Str s = {0};
    const Attr *a;
    for (const Constant *row = constant_row; row->name; row++)
        if ((a = constant_value(g, row)) && a->type == ATTR_FLOAT)
            str_print(&s, "#define %-24s /* %s */\n",
                      text_print("%s %s", row->name, float_text(a->f)), row->doc);
    return s.n ? s.text : "";
}

char *emit_plan(const Graph *g)
{
    Str s = {0};
    int purpose = -1;
    for (int pu = 0; pu < NPURPOSES; pu++)
        for (int i = 0; i < g->nvalues; i++) {
            const Value *v = g->values[i];
            if (v->internal || (int)v->purpose != pu)
                continue;
            if (pu != purpose) {
                int64_t bytes = 0;
                for (int j = 0; j < g->nvalues; j++)
                    if (!g->values[j]->internal && (int)g->values[j]->purpose == pu)
                        bytes += g->values[j]->slots * g->values[j]->stride;
                str_print(&s, "\n/* %s: %s before sharing */\n", purpose_name[pu],
                          text_bytes(bytes));
                purpose = pu;
            }
            Str shape = {0};
            for (int d = 0; d < v->rank; d++)
                str_print(&shape, "%s%s", d ? ", " : "", v->dim[d].sym);
            const bool workspace = v->purpose == PU_workspace;
            if (workspace)
                str_print(&shape, " for one call");
            const char *row = text_print("PLAN%s(%s, %s, %" PRId64 ", %" PRId64 ", 0x%" PRIx64 ")",
                                         v->pinned ? "_HOST" : "",
                                         workspace ? "char" : c_type(v->dtype),
                                         c_name(v->name), v->slots,
                                         v->stride / dtype_bytes[v->dtype], v->offset);
            const char *steps = v->last == INT32_MAX ? "always"
                                                     : text_print("%d..%d", v->first, v->last);
            const char *about = text_print("/* (%s)%s %s, %s */", shape.text,
                                           value_is_own_part(v) ? " / RANKS" : "",
                                           text_bytes(v->slots * v->stride), steps);
            if (strlen(row) + 2 + strlen(about) > COLUMNS)
                str_print(&s, "%s\n%s\n", about, row);
            else
                str_print(&s, "%s  %s\n", row, about);
        }
    return s.text;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* l, l + 1, l - 1 */
static char *turn_text(int64_t k)
{
    return k ? text_print("l %c %" PRId64, k < 0 ? '-' : '+', k < 0 ? -k : k) : text_copy("l");
}

/* Returns which tensor a reference names, of a value with several slots. */
static char *tensor_text(const Program *p, Ref r)
{
    const Region *loop = r.index == IX_CONST && r.k ? ir_region_of(p, r.v) : NULL;
    if (r.index != IX_CONST)
        return turn_text(r.k);
    return loop && loop->count.n == r.k       ? text_copy(loop->count.sym)
           : loop && loop->count.n == r.k + 1 ? text_print("%s - 1", loop->count.sym)
                                              : text_print("%" PRId64, r.k);
}

static char *operand(const Program *p, Ref r)
{
    char *name = c_name(r.v->name);
    if (r.v->internal)
        bug("%s is passed to a kernel, but not stored", r.v->name);
    if (r.index == IX_NONE || r.v->slots == 1)
        return name;
    if (r.index == IX_MICRO)
        return text_print("AT(%s, micro)", name);
    return text_print(r.v->slots < r.v->count ? "SLOT(%s, %s)" : "AT(%s, %s)", name,
                      tensor_text(p, r));
}

/* Returns the number of elements from the start of one value to the end of another. */
static char *span_text(const Value *first, const Value *last)
{
    return text_print("SPAN(%s, %s)", c_name(first->name), c_name(last->name));
}

/* Returns the span of the op's gradients, which are contiguous in the order of the operands. */
static char *gradients_span(const Call *c)
{
    const Op *op = call_op(c, 0);
    const Value *first = NULL, *last = NULL;
    for (int i = 0; i < op->nin + op->nout; i++) {
        const Value *v = (i < op->nin ? op->in[i] : op->out[i - op->nin]).v;
        if (!value_is_gradient(v))
            continue;
        first = !first || v->offset < first->offset ? v : first;
        last = !last || v->offset > last->offset ? v : last;
    }
    return span_text(first, last);
}

/* Returns the constant for an attribute word: ATTENTION_CAUSAL for `causal` of attention_bwd. */
static char *word_constant(const Op *op, const char *word)
{
    const char *name = op_row[op->kind].name;
    return text_capitals(text_print("%.*s_%s", (int)strcspn(name, "_"), name, word));
}

static char *attribute(const Call *c, const char *word)
{
    int op = 0;
    if (isdigit((unsigned char)word[0]) && word[1] == '.') {
        op = word[0] - '0';
        word += 2;
    }
    const Op *of = call_op(c, op);
    const Attr *a = op_attr(of, word);
    if (!a && !op_takes(of->kind, word))
        bug("kernels.def: %s has no attribute %s", kernel_row[c->group->kernel].name, word);
    if (!a && !argument_name(c->g, of, word))
        return text_copy("0");       /* left out */
    return a && a->type == ATTR_WORD ? word_constant(of, a->word) : attribute_text(c->g, of, word);
}

/* On a GPU the head's products use ce_width(V) in place of V: with V itself, such as GPT-2's 50257,
 * the library could not read and write vectors. plan.c leaves room for that many rows of the head;
 * the extra ones are 0. */
static Dim wide(Dim d) { return (Dim){ce_width(d.n), text_print("ce_width(%s)", d.sym)}; }

/* Returns the product that a word {mm FORM|m|n|k|flags} describes. */
static Product gemm_product(const Call *c, const char *word)
{
    static const char *const epilogues[] = {"dgelu", "gelu", "bgrad", "bias", ""};
    char *copy = text_copy(word), *save = NULL;
    Product p = {.form = strtok_r(copy + 3, "|", &save)};
    p.m = call_measure(c, strtok_r(NULL, "|", &save));
    p.n = call_measure(c, strtok_r(NULL, "|", &save));
    p.k = call_measure(c, strtok_r(NULL, "|", &save));
    const char *last = strtok_r(NULL, "|", &save), *flags = last ? last : "";
    Dim *vocabulary = p.form[0] == 'T' ? &p.m : p.form[1] == 'T' ? &p.n : &p.k;
    if (strstr(flags, "wide"))
        *vocabulary = wide(*vocabulary);
    if (strstr(flags, "ldb"))
        p.ldb = call_measure(c, "cols:i1");
    const bool no_bias = strstr(flags, "bias?") && !op_attr(call_op(c, 0), "bias");
    const char *bias = no_bias ? NULL : strstr(flags, "bias");
    const bool f32_logits = strstr(flags, "logits") && !op_attr(call_op(c, 0), "act_logits");
    p.bias = bias, p.f32 = strstr(flags, "f32") || f32_logits, p.adds = call_adds(c, flags);
    int i = 0;
    while (!strstr(flags, epilogues[i]) || (!bias && !strcmp(epilogues[i], "bias")))
        i++;
    p.epilogue = *epilogues[i] ? epilogues[i] : "none";
    return p;
}

static char *gemm_text(const Call *c, const char *word)
{
    const Product p = gemm_product(c, word);
    return product_text(c->g, &p);
}

/* Returns the layer of a product and the quantity it computes: "up", "up.dx", "up.dw",
 * "head.logits". The weight is input 1, or the one that the word names. */
static char *gemm_label(const Call *c, const char *word)
{
    const Op *op = call_op(c, call_op(c, 0)->kind == OP_bias_grad);    /* skips the bias gradient */
    const char *form = word + strlen("mm ");
    const char *what = form[0] == 'T' ? ".dw" : form[1] == 'N' ? ".dx" : "";
    const char *of = strstr(word, "of ");
    const Ref w = of                         ? kernel_operand(c->p, c->group, of + strlen("of "))
                  : op->kind == OP_linear_dw ? op->out[0]
                                             : op->in[1];
    const char *layer = weight_layer(c, w.v);
    if (!strcmp(layer, "wte"))           /* the head shares its weights */
        layer = "head";
    const bool rows = w.v->count && op->in[0].v->rank == 2;      /* of the last layer */
    return text_print("%s%s%s", rows ? "last." : "", layer,
                      !*what && !strcmp(layer, "head") ? ".logits" : what);
}

/* Returns a rotary table, or its second part in every period-th layer. */
static char *layer_table(const Call *c, Ref r)
{
    char *table = c->tuned ? variant_operand(c->tuned, r, false) : operand(c->p, r);
    if (!op_attr(call_op(c, 0), "period"))
        return table;
    const char *n = attribute_text(c->g, call_op(c, 0), "period");
    return text_print("%s + (l %% %s == %s - 1 ? T * %s : 0)", table, n, n,
                      dim_factor(r.v->dim[1]));
}

/* ---- words {NAME:operand}: the value of an operand ------------------------------------------- */

static char *slots_text(const Call *c, Ref r)
{
    (void)c;
    return r.index != IX_NONE && r.v->slots > 1 ? text_copy("ONE_TENSOR")
                                                : text_print("%s_slots", c_name(r.v->name));
}

static char *stride_text(const Call *c, Ref r)
{
    (void)c;
    return text_print("%s_stride", c_name(r.v->name));
}

static char *own_text(const Call *c, Ref r)
{
    const bool whole = r.v->part && !value_is_own_part(r.v);
    if (!whole)
        return operand(c->p, r);
    return r.index == IX_NONE ? text_print("OWN(%s)", c_name(r.v->name))
                              : text_print("%s + PART(%s)", operand(c->p, r), c_name(r.v->name));
}

static char *part_text(const Call *c, Ref r)
{
    (void)c;
    return text_print(value_is_own_part(r.v) ? "%s_stride" : "(int64_t)%s_stride / RANKS",
                      c_name(r.v->name));
}

static char *operation_text(const Call *c, Ref r)
{
    return text_print("EVENT(%s, %s)", c_name(r.v->name), tensor_text(c->p, r));
}

static char *name_text(const Call *c, Ref r)
{
    (void)c;
    return c_name(r.v->name);
}

/* The number of the tensor that a reference names. */
static char *index_text(const Call *c, Ref r)
{
    (void)c;
    return r.index != IX_LOOP ? text_print("%" PRId64, r.k)
           : r.k              ? text_print("(%s)", turn_text(r.k))
                              : text_copy("l");
}

static char *blocks_text(const Call *c, Ref r)
{
    const Ref of = call_op(c, 0)->out[0];
    char *first = operand(c->p, r);
    return of.index == IX_NONE ? first
                               : text_print("%s + %s * DYNAMIC_BLOCKS(%s)", first,
                                            index_text(c, of), dim_product(of.v->dim, of.v->rank));
}

static char *first_text(const Call *c, Ref r)
{
    (void)c;
    return !r.v->part               ? text_copy("0")
           : value_is_own_part(r.v) ? text_print("world.rank * (int64_t)%s_stride",
                                                 c_name(r.v->name))
                                    : text_print("PART(%s)", c_name(r.v->name));
}

static char *held_text(const Call *c, Ref r)
{
    (void)c;
    return value_is_own_part(r.v) ? text_print("%s_stride", c_name(r.v->name))
                                  : dim_product(r.v->dim, r.v->rank);
}

static char *share_text(const Call *c, Ref r)
{
    const bool wide = value_room(c->g, r.v) > value_elements(r.v);
    return wide ? text_print("share_elements(ce_width(%s) * %s)", r.v->dim[0].sym,
                             r.v->dim[1].sym)
                : text_print("share_elements(%s)", dim_product(r.v->dim, r.v->rank));
}

/* Returns the text of a word {NAME:operand}, or one of call_measure(). */
static char *operand_text(const Call *c, const char *word)
{
    static const struct {
        const char *name;
        char *(*text)(const Call *c, Ref r);
    } row[] = {
        {"layer", layer_table}, {"slots", slots_text}, {"stride", stride_text}, {"own", own_text},
        {"part", part_text}, {"operation", operation_text}, {"name", name_text},
        {"index", index_text}, {"blocks", blocks_text}, {"first", first_text},
        {"held", held_text}, {"share", share_text},
    };
    const size_t n = strcspn(word, ":");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strlen(row[i].name) == n && !strncmp(word, row[i].name, n))
            return row[i].text(c, kernel_operand(c->p, c->group, word + n + 1));
    return text_copy(call_measure(c, word).sym);
}

/* ---- words of kernels.def -------------------------------------------------------------------- */

static char *struct_text(const Call *c, const char *word);

/* Returns true if the op has the operand that a word i2 or o0 names. */
static bool has_operand(const Op *op, const char *word)
{
    return op_operand(op, word[0] == 'o', atoi(word + 1)) >= 0;
}

static bool is_lora(const char *word) { return !strncmp(word, "lora", 4); }

/* Returns the text of a word of a row's arguments, as the head of kernels.def lists them. */
static char *expand(const Call *c, const char *word)
{
    const char *mark = strchr(word, '?');
    if (mark && mark[1] && mark <= word + 3)
        return has_operand(call_op(c, 0), word) ? expand(c, mark + 1) : text_copy("NULL");
    if (strchr(word, '|') && word[0] == 'i' && isdigit((unsigned char)word[1]))
        return expand(c, has_operand(call_op(c, 0), word) ? text_print("%.2s", word)
                                                          : text_print("%s?", word + 3));
    if (!strncmp(word, "struct ", 7))
        return struct_text(c, word + 7);
    if (!strncmp(word, "variant ", 8))
        return variant_text(c, word);
    if (!strncmp(word, "flag ", 5)) {
        const char *bar = strchr(word, '|');
        char *name = text_print("%.*s", (int)(bar - word - 5), word + 5);
        return text_copy(op_attr(call_op(c, 0), name) ? bar + 1 : "");
    }
    if (!strcmp(word, "ws") && c->tuned)
        return text_copy("ws");
    if (!strcmp(word, "ws"))
        return c->group->ws ? c_name(c->group->ws->name) : text_copy("NULL");
    if (!strcmp(word, "s"))
        return comma(emit_backend(c->g)->argument);
    if (!strcmp(word, "side"))
        return gradients_span(c);
    if (!strncmp(word, "all:", 4)) {
        Group end = {.kernel = c->group->kernel, .nops = 1,
                     .first_op = c->group->first_op + c->group->nops - 1};
        return span_text(kernel_operand(c->p, c->group, word + 4).v,
                         kernel_operand(c->p, &end, word + 4).v);
    }
    const bool of_op = isdigit((unsigned char)word[0]) && word[1] == '.';
    if (!strcmp(word + (of_op ? 2 : 0), "site"))
        return site_text(c, call_op(c, of_op ? word[0] - '0' : 0));
    if (is_lora(word))
        return lora_object(c, word);
    if (!strncmp(word, "mm ", 3))
        return text_print("&%s", object_name(c, gemm_label(c, word), gemm_text(c, word), false));
    if (strchr(word, ':'))
        return operand_text(c, word);
    const char *w = isdigit((unsigned char)word[0]) && word[1] == '.' ? word + 2 : word;
    if ((w[0] == 'i' || w[0] == 'o') && isdigit((unsigned char)w[1])) {
        const int of = w > word ? word[0] - '0' : 0;
        if (strchr(w, '?') && !has_operand(call_op(c, of), w))
            return text_copy("NULL");
        Ref r = kernel_operand(c->p, c->group, word);
        return c->tuned ? variant_operand(c->tuned, r, w[0] == 'o') : operand(c->p, r);
    }
    return attribute(c, word);
}

/* Returns the initialiser for {struct TYPE name=word|name=word..}; members that the op lacks are
 * left out. */
static char *struct_text(const Call *c, const char *word)
{
    Str s = {0};
    char *copy = text_copy(word), *save = NULL;
    const char *type = strtok_r(copy, " ", &save);
    const Op *op = call_op(c, 0);
    for (char *at; (at = strtok_r(NULL, "|", &save));) {
        char *value = strchr(at, '=') + 1;
        value[-1] = 0;
        char *of = strchr(value, '?');
        bool there = !of && strchr(value, ':')          ? true
                     : isdigit((unsigned char)value[1]) ? has_operand(op, value)
                                                        : op_attr(op, value) != NULL;
        value = of ? of + 1 : value;
        if (there)
            str_print(&s, "%s.%s = %s", s.n ? ", " : "", at, expand(c, value));
    }
    char *object = template_line(emit_backend(c->g)->object, (Hole[]){{"TYPE", type, false}}, 1);
    return text_print("%s{%s}", object, s.n ? s.text : "");
}

/* Returns the text with its words in braces expanded. */
static char *expand_all(const Call *c, const char *a)
{
    Str s = {0};
    while (*a) {
        size_t n = strcspn(a, "{");
        str_print(&s, "%.*s", (int)n, a);
        a += n;
        if (*a != '{')
            break;
        const char *end = strchr(a, '}');
        str_print(&s, "%s", expand(c, text_print("%.*s", (int)(end - a - 1), a + 1)));
        a = end + 1;
    }
    return s.text;
}

static char *arguments(const Call *c)
{
    const char *a = kernel_row[c->group->kernel].args;
    if (!emit_backend(c->g)->templates && *a == '<')
        a += strcspn(a, ">") + 1;
    return expand_all(c, a);
}

/* Returns the length up to the first comma outside brackets of these kinds, except those that
 * args begins in. */
static size_t argument_length(const char *args, const char *open, const char *close)
{
    size_t n = 0;
    for (int depth = 0; args[n] && (args[n] != ',' || depth); n++)
        depth += (strchr(open, args[n]) != NULL) - (depth && strchr(close, args[n]));
    return n;
}

void call_print(Str *s, const Call *c, int indent)
{
    const char *args = arguments(c);
    Str line = {0};
    str_print(&line, "%*s%s", indent, "", kernel_row[c->group->kernel].name);
    if (*args == '<') {          /* arguments of a template */
        size_t n = strcspn(args, ">") + 1;
        str_print(&line, "%.*s", (int)n, args);
        args += n;
    }
    str_print(&line, "(");
    int column = (int)line.n, at = column;
    while (*args) {
        /* a comma inside AT(x, l) does not end the argument; a long {.a = x, .b = y} breaks inside
         * its braces */
        size_t n = argument_length(args, "(", ")"), all = argument_length(args, "({", ")}");
        bool fits = column + (int)all + 2 <= COLUMNS;
        bool wraps = at + (int)(fits ? all : n) + 2 > COLUMNS && at > column;
        if (wraps)
            at = column;
        str_print(&line, wraps ? "\n%*s%.*s" : "%*s%.*s", wraps ? column : at > column, "", (int)n,
                  args);
        at += (int)n + 2;
        args += n;
        if (*args == ',') {
            str_print(&line, ",");
            args += strspn(args, ", ");
        }
    }
    str_print(s, "%s);\n", line.text);
}

/* Returns the parameters of a program: the micro-batch if it is used, and the stream of its
 * kernels. */
static const char *parameters(const Graph *g, const Program *p)
{
    const char *stream = emit_backend(g)->parameter;
    if (program_times(g, p) > 1)
        return text_print("int micro%s", comma(stream));
    return *stream ? stream : "void";
}

/* Returns a recipe file as a path below the folder of the recipe, or the name of one elsewhere. */
static const char *short_path(const Graph *g, const char *file)
{
    const char *recipe = recipe_name(g->setting[SETTING_recipe].text), *path = recipe_name(file),
               *end = strrchr(recipe, '/'), *slash = strrchr(path, '/');
    const size_t n = end ? (size_t)(end - recipe) + 1 : 0;
    return n && !strncmp(path, recipe, n) ? path + n : slash ? slash + 1 : path;
}

/* Returns the recipe line of a group; "" if the previous group has the same one. */
static char *recipe_line(const Call *c)
{
    Loc loc = call_op(c, 0)->loc;
    const Group *group = c->group;
    Loc before = group > c->p->groups ? c->p->ops[group[-1].first_op].loc : (Loc){0};
    if (!loc.file || (before.file && !strcmp(before.file, loc.file) && before.line == loc.line))
        return "";
    return text_print("// %s:%d", text_comment(short_path(c->g, loc.file)), loc.line);
}

/* The condition under which a turn of the program or of its loop has the call; "": every turn has
 * it. */
static const char *turn_condition(const Call *c)
{
    const Op *op = call_op(c, 0);
    const Attr *when = op_attr(op, "if");
    if (op_attr(op, "last") && program_times(c->g, c->p) > 1)
        return "micro == MICROS - 1";
    if (!when)
        return "";
    const Region *loop = &c->p->region[op->region];
    if (!strcmp(when->word, "later"))
        return loop->reverse ? text_print("l < %s - 1", loop->count.sym) : text_copy("l > 0");
    const int64_t k = op->out[0].k;
    return k < 0 ? text_print("l >= %" PRId64, -k)
                 : text_print("l + %" PRId64 " < %s", k, loop->count.sym);
}

/* Prints a call below its profile mark, whose line ends with the recipe line. */
static void print_call(Str *s, const Call *c, int indent)
{
    const char *line = recipe_line(c);
    const char *mark = text_print("profile_op(%d%s);", c->group->pos,
                                  comma(emit_backend(c->g)->argument));
    str_print(s, *line ? "%*s%-23s %s\n" : "%*s%s\n", indent, "", mark, line);
    call_print(s, c, indent);
}

/* Returns the stage of the model that a group is part of: that of its matrix product, else of its
 * last op. */
static const char *stage_of(const Program *p, const Group *group)
{
    const bool product = strstr(kernel_row[group->kernel].args, "{mm ");
    return p->ops[group->first_op + (product ? 0 : group->nops - 1)].stage;
}

/* Prints the name of the stage that begins with the group. */
static void print_stage(Str *s, const Program *p, const Group *group, int indent)
{
    const char *stage = stage_of(p, group);
    const char *before = group > p->groups ? stage_of(p, group - 1) : NULL;
    if (stage && (!before || strcmp(stage, before)))
        str_print(s, "%*s/* %s */\n", indent, "", text_comment(stage));
}

/* Prints the calls of a loop, or of the groups up to the next; those under the same condition in
 * one block. Returns the index of the group after them. */
static int print_calls(Str *s, const Graph *g, const Program *p, int k, int indent)
{
    const char *open = "";
    const int region = p->groups[k].region;
    for (; k < p->ngroups && p->groups[k].region == region; k++) {
        const Call c = {g, p, &p->groups[k], NULL};
        const char *when = turn_condition(&c);
        const bool same = !strcmp(when, open);
        if (!same && *open)
            str_print(s, "%*s}\n", indent, "");
        print_stage(s, p, c.group, indent);
        if (!same && *when)
            str_print(s, "%*sif (%s) {\n", indent, "", when);
        open = when;
        print_call(s, &c, indent + (*when ? 4 : 0));
    }
    if (*open)
        str_print(s, "%*s}\n", indent, "");
    return k;
}

/* Returns a number of operations with its unit, "1.15 MFLOP". */
static char *flop_text(double flops)
{
    static const char unit[] = "kMGTPE";
    int u = 0;
    for (flops /= 1e3; flops >= 999.5 && unit[u + 1]; flops /= 1e3)
        u++;
    return text_print("%.3g %cFLOP", flops, unit[u]);
}

static void print_program(Str *s, const Graph *g, const Program *p)
{
    double flops = program_flops(p);
    str_print(s, "/* %s", text_comment(p->about));
    if (flops)
        str_print(s, " (%s)", flop_text(flops));
    str_print(s, " */\nstatic void run_%s(%s)\n{\n", p->name, parameters(g, p));
    for (int k = 0; k < p->ngroups;) {
        const Region *loop = &p->region[p->groups[k].region];
        if (!p->groups[k].region) {
            k = print_calls(s, g, p, k, 4);
            continue;
        }
        str_print(s, loop->reverse ? "    for (int l = %s - 1; l >= 0; l--) {\n"
                                   : "    for (int l = 0; l < %s; l++) {\n", loop->count.sym);
        k = print_calls(s, g, p, k, 8);
        str_print(s, "    }\n");
    }
    str_print(s, "}\n");
}

char *emit_programs(const Graph *g)
{
    Str s = {0};
    objects_clear();
    variants_clear();
    for (int i = 0; i < g->nprograms; i++) {
        if (i)
            str_print(&s, "\n");
        print_program(&s, g, g->programs[i]);
    }
    return s.text;
}

static bool has_operand(const Op *op, const char *word);

int group_products(const Graph *g, const Program *p, const Group *group, Product *list)
{
    const Call c = {.g = g, .p = p, .group = group};
    int n = 0;
    const char *at = kernel_row[group->kernel].args;
    while ((at = strchr(at, '{'))) {
        char *word = text_print("%.*s", (int)strcspn(at + 1, "}"), at + 1);
        at++;
        if (n + ADAPTER_PRODUCTS > MOST_PRODUCTS)
            bug("%s has more than %d products", kernel_row[group->kernel].name, MOST_PRODUCTS);
        const char *mm = strstr(word, "mm ");
        if (is_lora(word))
            n += lora_products(&c, word, list + n);
        else if (mm && (mm == word || has_operand(call_op(&c, 0), word)))
            list[n++] = gemm_product(&c, text_copy(mm));
    }
    return n;
}

/* ---- ops.h ----------------------------------------------------------------------------------- */

char *emit_ops(const Graph *g)
{
    Str s = {0};
    int n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++) {
            const Program *p = g->programs[i];
            const Group *group = &p->groups[k];
            const Op *op = &p->ops[group->first_op];
            const Region *loop = group->region ? &p->region[group->region] : NULL;
            double flops = 0;
            for (int j = 0; j < group->nops; j++)
                flops += op_flops(&op[j]);
            if (group->pos != n++)
                bug("group @g%d of %s is number %d", group->pos, p->name, n - 1);
            const Op *makes = &op[group->nops - 1];
            str_print(&s, "{\"%s\", \"%s\", %.0f, %.0f, %" PRId64 ", %s},\n",
                      kernel_row[group->kernel].name, makes->nout ? makes->out[0].v->name : "",
                      flops, group_bytes(p, group),
                      !loop           ? 0
                      : loop->reverse ? -loop->count.n
                                      : loop->count.n,
                      g->ranks > 1 && op_is_collective(op->kind) ? "true" : "false");
        }
    return s.text;
}

/* ---- what the calls need -------------------------------------------------------------------- */

char *emit_attention_starts(const Graph *g)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        for (int k = 0; k < p->ngroups; k++) {
            const Call c = {.g = g, .p = p, .group = &p->groups[k]};
            if (!op_attr(call_op(&c, 0), "cudnn"))
                continue;
            char *args = expand_all(&c, "{d0:i0}, {d1:i0}, {heads}, {kv}, {dim}, {scale}");
            char *call = text_print("    %s_start(%s);\n", kernel_row[c.group->kernel].name, args);
            if (!strstr(s.text, call))
                str_print(&s, "%s", call);
        }
    }
    return s.text;
}

const char *const *emit_kernel_files(const Graph *g, int *n)
{
    const char **file = arena_new(sizeof *file * (size_t)nkernels);
    *n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++) {
            const char *name = kernel_row[g->programs[i]->groups[k].kernel].file;
            bool known = !*name;
            for (int j = 0; j < *n; j++)
                known |= !strcmp(file[j], name);
            if (!known)
                file[(*n)++] = name;
        }
    qsort(file, (size_t)*n, sizeof *file, text_order);
    return file;
}
