/* emit_words.c -- parts of emitted calls: names, numbers, and the matrix products they point to.
 *
 * In:    values and ops after plan, the lock file.   Out: C text.
 * Keeps: one Gemm or Lora per distinct text. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

const EmitBackend *emit_backend(const Graph *g)
{
    static const EmitBackend row[] = {
#define EMIT_BACKEND(name, suffix, ...) {#name, #suffix, __VA_ARGS__},
#include "gen/emit/backends.def"
#undef EMIT_BACKEND
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].name, g->target->backend))
            return &row[i];
    bug("backends.def has no row %s", g->target->backend);
}

/* ---- names and numbers ----------------------------------------------------------------------- */

char *c_name(const char *ir_name)
{
    char *s = text_copy(ir_name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    return s;
}

const char *c_type(Dtype dt)
{
    static const char *const name[NDTYPES] = {"float",   "act_t",    "act_t", "double",
                                              "int32_t", "uint32_t", "uint8_t", "int16_t"};
    return name[dt];
}

char *dim_factor(Dim d)
{
    return strpbrk(d.sym, "+-") || (strpbrk(d.sym, "*/") && d.sym[0] != '(')
               ? text_print("(%s)", d.sym)
               : text_copy(d.sym);
}

/* A product that may exceed an int is written as one number. */
char *dim_product(const Dim *d, int n)
{
    int64_t total = 1;
    Str s = {0};
    for (int i = 0; i < n; i++) {
        total *= d[i].n;
        if (strcmp(d[i].sym, "1"))
            str_print(&s, "%s%s", s.n ? " * " : "",
                      n > 1 && strpbrk(d[i].sym, "+/") && d[i].sym[0] != '(' ? dim_factor(d[i])
                                                                             : d[i].sym);
    }
    if (total > INT32_MAX)
        return text_print("INT64_C(%" PRId64 ")", total);
    return s.n ? s.text : "1";
}

char *float_text(double f)
{
    return text_print("%sf", text_float(f));
}

char *integer(int64_t n)
{
    return n > INT32_MAX ? text_print("INT64_C(%" PRId64 ")", n) : text_print("%" PRId64, n);
}

char *comma(const char *word) { return text_print(*word ? ", %s" : "%s", word); }

void print_constant(Str *s, const char *name, int64_t n, const char *about)
{
    str_print(s, "    %-22s /* %s */\n", text_print("%s = %" PRId64 ",", name, n),
              text_comment(about));
}

/* Returns the length of the line up to its last comma of a kind, ", ." or ", ", within n columns;
 * 0: none. */
static int line_part(const char *line, int lead, int n, const char *comma)
{
    int cut = n - 1;
    while (cut > lead && strncmp(line + cut - 1, comma, strlen(comma)))
        cut--;
    return cut > lead ? cut : 0;
}

void print_wrapped(Str *s, const char *text)
{
    int indent = 0;          /* of the rest of a line */
    while (*text) {
        int n = (int)strcspn(text, "\n"), lead = (int)strspn(text, " "), cut = n;
        if (indent + n > COLUMNS && !(cut = line_part(text, lead, COLUMNS - indent, ", .")) &&
            !(cut = line_part(text, lead, COLUMNS - indent, ", ")))
            cut = n;
        str_print(s, "%*s%.*s\n", indent, "", cut, text);
        /* the blank after the comma is there */
        const int column = lead ? lead - 1 + (text[lead] == '{') : 3;
        indent = cut == n ? 0 : indent ? indent : column;
        text += cut + (cut == n);
    }
}

/* ---- a call's op and dimensions -------------------------------------------------------------- */

const Op *call_op(const Call *c, int i) { return &c->p->ops[c->group->first_op + i]; }

const Constant constant_row[] = {
#define CONSTANT(op, stage, attribute, name, doc) {op, stage, #attribute, #name, doc},
#include "kernels/arguments.def"
#undef CONSTANT
    {0}
};

/* NULL: no row has the op's attribute. */
static const Constant *constant_of(const Op *op, const char *attribute)
{
    for (const Constant *row = constant_row; row->name; row++)
        if (!strcmp(row->attribute, attribute) &&
            !strncmp(op_row[op->kind].name, row->op, strlen(row->op)) &&
            (!*row->stage || (op->stage && !strcmp(op->stage, row->stage))))
            return row;
    return NULL;
}

const Attr *constant_value(const Graph *g, const Constant *row)
{
    const Attr *found = NULL;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            const Attr *a =
                constant_of(op, row->attribute) == row ? op_attr(op, row->attribute) : NULL;
            if (a && found && (a->i != found->i || a->f != found->f))
                return NULL;
            found = a ? a : found;
        }
    return found;
}

const char *argument_name(const Graph *g, const Op *op, const char *attribute)
{
    static const struct { const char *attribute, *name[2]; } flag[] = {
#define FLAG(attribute, off, on) {#attribute, {#off, #on}},
#include "kernels/arguments.def"
#undef FLAG
    };
    static const struct { const char *attribute, *name; } absent[] = {
#define ABSENT(attribute, name, value) {#attribute, #name},
#include "kernels/arguments.def"
#undef ABSENT
    };
    const Attr *a = op_attr(op, attribute);
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (!strcmp(attribute, flag[i].attribute))
            return flag[i].name[a && a->i];
    for (size_t i = 0; !a && i < sizeof absent / sizeof *absent; i++)
        if (!strcmp(attribute, absent[i].attribute))
            return absent[i].name;
    const Constant *row = a ? constant_of(op, attribute) : NULL;
    return row && constant_value(g, row) ? row->name : attr_symbol(attribute);
}

char *attribute_text(const Graph *g, const Op *op, const char *attribute)
{
    const Attr *a = op_attr(op, attribute);
    const char *name = argument_name(g, op, attribute);
    return name ? text_copy(name) : a->type == ATTR_FLOAT ? float_text(a->f) : integer(a->i);
}

bool call_adds(const Call *c, const char *flags)
{
    const Attr *beta = op_attr(call_op(c, 0), "beta");
    return strstr(flags, "add") || (strstr(flags, "beta") && beta && beta->i);
}

Dim call_measure(const Call *c, const char *word)
{
    const char *colon = strchr(word, ':');
    if (!colon) {
        const Op *op = call_op(c, 0);
        return (Dim){op_attr(op, word)->i, attribute_text(c->g, op, word)};
    }
    const Value *v = kernel_operand(c->p, c->group, colon + 1).v;
    int n = v->rank;
    if (!strncmp(word, "rows", 4))
        n = v->rank - 1;
    else if (!strncmp(word, "cols", 4))
        return v->dim[v->rank - 1];
    else if (word[0] == 'd')
        return v->dim[word[1] - '0'];
    int64_t total = 1;
    for (int i = 0; i < n; i++)
        total *= v->dim[i].n;
    return (Dim){total, dim_product(v->dim, n)};
}

/* ---- matrix products ------------------------------------------------------------------------- */

/* Adds a leading dimension; nothing for dense rows. */
static void leading(Str *s, const char *name, Dim ld, int64_t dense)
{
    if (ld.n && ld.n != dense)
        str_print(s, ", .%s = %s", name, ld.sym);
}

/* Adds the optional members of a Gemm: epilogue, scale, and the algorithm of the lock file. */
static void print_algorithm(Str *s, const Graph *g, const Product *p)
{
    static const char *const names[][2] = {
        {"gelu", "GEMM_GELU"}, {"dgelu", "GEMM_DGELU"}, {"bgrad", "GEMM_BGRAD"}};
    const char *act = g->setting[SETTING_precision].text;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(p->epilogue, names[i][0]))
            str_print(s, ", .epilogue = %s", names[i][1]);
    if (p->scale)
        str_print(s, ", .scale = %s", p->scale);
    if (p->offset)
        str_print(s, ", .offset = %" PRId64, p->offset);
    if (!*emit_backend(g)->tuner)
        return;
    const LockedAlgo locked =
        lock_gemm_algo(g, p->form, act, p->f32 ? "fp32" : act, p->m.n, p->n.n, p->k.n, p->lda.n,
                       p->ldb.n, p->ldc.n, p->epilogue, p->adds, p->offset);
    if (locked.algo)
        str_print(s, ", .algo = %s", c_string(locked.algo));
    if (locked.raw)                  /* a line holds half of it */
        str_print(s, ", .raw = \"%.64s\"\n        \"%s\"", locked.raw, locked.raw + 64);
}

double product_seconds(const Graph *g, const Product *p)
{
    const char *act = g->setting[SETTING_precision].text;
    return !*emit_backend(g)->tuner
               ? 0
               : lock_gemm_seconds(g, p->form, act, p->f32 ? "fp32" : act, p->m.n, p->n.n, p->k.n,
                                   p->lda.n, p->ldb.n, p->ldc.n, p->epilogue, p->adds, p->offset);
}

char *product_text(const Graph *g, const Product *p)
{
    Str s = {0};
    str_print(&s, ".m = %s, .n = %s, .k = %s", p->m.sym, p->n.sym, p->k.sym);
    leading(&s, "lda", p->lda, p->form[0] == 'T' ? p->m.n : p->k.n);
    leading(&s, "ldb", p->ldb, p->form[1] == 'T' ? p->k.n : p->n.n);
    leading(&s, "ldc", p->ldc, p->n.n);
    str_print(&s, ", .form = GEMM_%s%s%s%s", p->form, p->bias ? ", .bias = 1" : "",
              p->f32 ? ", .out_f32 = 1" : "", p->adds ? ", .beta = 1" : "");
    print_algorithm(&s, g, p);
    return s.text;
}

/* ---- Gemm and Lora objects: one for each label and text -------------------------------------- */

/* The weight from which ops of the program gather or compute a matrix that a product reads. */
static const Value *weight_source(const Program *p, const Value *v)
{
    for (int i = p->nops - 1; i >= 0 && v->kind == VK_TEMP; i--) {
        const Op *op = &p->ops[i];
        if (op->kind == OP_lora_fold && op->out[1].v == v)
            v = op->in[1].v;
        else if ((op->kind == OP_dequant || op->kind == OP_all_gather ||
                  op->kind == OP_gather_begin) && op->out[0].v == v)
            v = op->in[0].v;
    }
    return v;
}

char *weight_layer(const Call *c, const Value *v)
{
    v = weight_source(c->p, v);
    const char *name = v->name, *end;
    const char *program = v->kind == VK_PARAM ? "" : text_print("%s.", c->p->name);
    const char *prefix[] = {program, "grad.", "b.", program};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (!strncmp(name, prefix[i], strlen(prefix[i])))
            name += strlen(prefix[i]);
    if (!(end = strstr(name, ".lora_")) && (end = strrchr(name, '.')) && strcmp(end, ".w"))
        end = NULL;
    return end ? text_print("%.*s", (int)(end - name), name) : text_copy(name);
}

typedef struct { char *name, *text, *label; bool lora; } Object;
static struct { int n; Object list[512]; } objects;

void objects_clear(void) { objects.n = 0; }

static bool is_taken(const char *name)
{
    for (int i = 0; i < objects.n; i++)
        if (!strcmp(objects.list[i].name, name))
            return true;
    return false;
}

const char *object_name(const Call *c, const char *label, const char *text, bool lora)
{
    for (int i = 0; i < objects.n; i++)
        if (objects.list[i].lora == lora && !strcmp(objects.list[i].text, text) &&
            !strcmp(objects.list[i].label, label))
            return objects.list[i].name;
    if (objects.n == (int)(sizeof objects.list / sizeof objects.list[0]))
        bug("too many matrix products");
    char *name = text_print("%s_%s", lora ? "lora" : "mm", c_name(label));
    if (is_taken(name))
        name = text_print("%s_%s", name, c->p->name);
    for (int i = 2; is_taken(name); i++)
        name = text_print("%s_%s_%d", lora ? "lora" : "mm", c_name(label), i);
    objects.list[objects.n] = (Object){name, text_copy(text), text_copy(label), lora};
    return objects.list[objects.n++].name;
}

/* Adds the list of all Gemms or all Loras; nothing if there are none. */
static void print_list(Str *s, bool lora)
{
    int column = 0;
    for (int i = 0; i < objects.n; i++) {
        if (objects.list[i].lora != lora)
            continue;
        int n = (int)strlen(objects.list[i].name) + 3;
        if (!column)
            str_print(s, "\nstatic %s *const %s[] = {", lora ? "Lora" : "Gemm",
                      lora ? "loras" : "gemms");
        bool wraps = !column || column + n > 98;
        str_print(s, wraps ? "\n    &%s," : " &%s,", objects.list[i].name);
        column = wraps ? 4 + n : column + n;
    }
    str_print(s, column ? "\n};\n" : "");
}

/* To be called after emit_programs(), which collects them. */
char *emit_products(const Graph *g)
{
    bool lists = emit_backend(g)->lists_adapters;
    Str s = {0};
    for (int lora = 0; lora < 2; lora++)
        for (int i = 0; i < objects.n; i++) {
            const Object *o = &objects.list[i];
            const char *name = text_print(".name = \"%s\", ", strchr(o->name, '_') + 1);
            bool made = !lora || lists;          /* by step_open() */
            if (o->lora == lora)
                print_wrapped(&s, text_print("static %s%s %s = {%s%s};\n", made ? "" : "const ",
                                             lora ? "Lora" : "Gemm", o->name, made ? name : "",
                                             o->text));
        }
    print_list(&s, false);
    if (lists)
        print_list(&s, true);
    return s.text;
}
