/* emit_lora.c -- LoRA adapters in step.c: one Lora object per layer and pass.
 *
 * In:    a call of a lora op; kernels/cuda/lora.def lists the products of a GPU program.
 * Out:   initialisers of Lora, and of the Gemms that they point to. */
#include "gen/emit/emit.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    const Op *op;
    bool backward, folded, adds;     /* adds: adds to gradients, for any beta */
    const char *only;                /* of an op with part of the backward pass: its product, or
                                      * "dy": it has none */
    int64_t parts;
    Dim rows, T, in, out;
    Dim row;                         /* row stride of x, and of w where u and B follow its
                                      * columns */
    int64_t column[3], width[3];     /* of parts, in rows of y */
    const char *layer;               /* "qkv" */
    Dim y;                           /* columns of the layer's y, of all modules */
} Adapters;

static int64_t of_part(const Op *op, char what, int part)
{
    return op_attr(op, text_print("%c%d", what, part))->i;
}

static void read_parts(Adapters *l)
{
    for (int i = 0; i < l->parts; i++)
        l->column[i] = of_part(l->op, 'c', i), l->width[i] = of_part(l->op, 'w', i);
}

/* Sets the layer that has the matrix, and the columns of its y. */
static void set_layer(Adapters *l, const Call *c, const Value *matrix)
{
    l->layer = weight_layer(c, matrix);
    const char *dot = strrchr(l->layer, '.');        /* of a tangent: v.qkv */
    const Value *w = ir_value(c->g, text_print("b.%s.w", dot ? dot + 1 : l->layer));
    l->y = w ? w->dim[0] : (Dim){-1, ""};
}

/* Returns n columns of y as text: those of a module or, with before, those of modules before it. */
static char *columns_text(const Graph *g, Dim y, int64_t n, bool before)
{
    const int64_t q = ir_size(g, "H") * ir_size(g, "D"), k = ir_size(g, "K") * ir_size(g, "D");
    const bool qkv = !strcmp(y.sym, "(H+2*K)*D"), pair = !strcmp(y.sym, "2*F");
    return !n                            ? text_copy("0")
           : n == y.n                    ? text_copy(y.sym)
           : qkv && n == q               ? text_copy("H*D")
           : qkv && n == k && !before    ? text_copy("K*D")
           : qkv && n == q + k && before ? text_copy("(H+K)*D")
           : pair && 2 * n == y.n        ? text_copy("F")
                                         : integer(n);
}

/* Of a word {lora up} or {lora down bwd}, a layer of a feed-forward op: its rows are a tile's. */
static Adapters adapters_in_tiles(const Call *c, const char *word)
{
    const Op *op = call_op(c, 0);
    const bool back = op->kind == OP_ffn_lora_bwd, down = strstr(word, "down");
    const Attr *parts = op_attr(op, down ? "down_parts" : "up_parts");
    Adapters l = {.op = op, .parts = parts ? parts->i : 0, .backward = strstr(word, "bwd"),
                  .adds = true};
    if (!parts)
        return l;
    const Dim *a = op->in[op_operand(op, false, 3 + back + 2 * down)].v->dim,
              *w = op->in[1 + back + down].v->dim;
    l.rows = l.T = call_measure(c, "tile");
    l.in = l.row = a[1], l.out = w[0];
    set_layer(&l, c, op->in[1 + back + down].v);
    if (down)
        l.width[0] = w[0].n;
    else
        read_parts(&l);
    return l;
}

/* Operands of an op of adapters, -1: it has none: x, of lora_dy u; A, of lora_dy B, -1: the first
 * result has its shape; rows as wide as the layer's. */
static const struct {
    int kind, x, a, y;
    const char *only;
} operand_row[] = {{OP_lora, 1, 2, 0, NULL},    {OP_lora_fold, 0, 2, -1, NULL},
                   {OP_lora_bwd, 2, 4, 1, NULL}, {OP_lora_dy, 1, 2, 0, "dy"},
                   {OP_lora_da, 1, -1, -1, "da"}, {OP_lora_dx, 0, 2, -1, "dx"}};

/* The columns before u in rows of a width "C+2*R". */
static Dim columns_before(const Op *op, Dim row)
{
    const int64_t n = op_attr(op, "before")->i;
    return (Dim){n, n ? text_print("%.*s", (int)strcspn(row.sym, "+"), row.sym) : "0"};
}

/* Of the word {lora}: the last op of the group. */
static Adapters adapters_of(const Call *c, const char *word)
{
    if (strchr(word, ' '))
        return adapters_in_tiles(c, word);
    const Op *op = call_op(c, c->group->nops - 1);
    int k = 0;
    while (operand_row[k].kind != op->kind)
        k++;
    Adapters l = {.op = op, .parts = op_attr(op, "parts")->i,
                  .only = operand_row[k].only};
    l.backward = op->kind == OP_lora_bwd || l.only;
    l.folded = op->kind == OP_lora_fold ||
               (op->kind == OP_lora_bwd && op->in[2].v == op->in[3].v);
    const Value *x = op->in[operand_row[k].x].v,
                *a = operand_row[k].a < 0 ? op->out[0].v : op->in[operand_row[k].a].v;
    const Dim *dim = x->dim;         /* (B, T, C), or (N, C) of rows that were gathered */
    bool whole = x->rank == 3;
    l.rows = (Dim){dim[0].n * (whole ? dim[1].n : 1), dim_product(dim, x->rank - 1)};
    l.T = dim[x->rank - 2], l.row = dim[x->rank - 1];
    l.in = op->kind == OP_lora_dy ? columns_before(op, l.row) : a->dim[1];
    l.out = op->kind == OP_lora_fold ? op->in[1].v->dim[0]
            : operand_row[k].y >= 0  ? op->in[operand_row[k].y].v->dim[x->rank - 1] : (Dim){0, ""};
    set_layer(&l, c, a);
    read_parts(&l);
    return l;
}

/* Returns the size that a word of lora.def names. */
static Dim adapter_dim(const Graph *g, const Adapters *l, const char *word, int part)
{
    int64_t rank = op_attr(l->op, "rank")->i, width = l->width[part];
    const Dim one = {rank, "R"},
              all = {l->parts * rank, l->parts > 1 ? text_print("%" PRId64 "*R", l->parts) : "R"};
    const struct { const char *word; Dim dim; } table[] = {
        {"rows", l->rows}, {"in", l->in}, {"out", l->out}, {"rank", one}, {"all", all},
        {"some", op_attr(l->op, "dropout") ? one : all},
        {"width", {width, columns_text(g, l->y, width, false)}},
        {"x", op_attr(l->op, "dropout") ? l->in : l->row}, {"u", l->folded ? l->row : all},
        {"dense", {0, ""}}};
    size_t i = 0;
    while (strcmp(table[i].word, word))
        i++;
    return table[i].dim;
}

/* Returns the offset, in elements, of operands that begin at a part's columns or after those of x.
 * 8 elements are at least 16 bytes: no load or copy needs a better alignment. */
static int64_t adapter_offset(const Adapters *l)
{
    int64_t bits = l->folded ? l->in.n : 0;
    for (int i = 0; i < l->parts; i++)
        bits |= l->column[i] | i * op_attr(l->op, "rank")->i;
    return bits ? (bits | 8) & -(bits | 8) : 0;
}

/* Rows of lora.def. */
typedef struct {
    const char *member, *pass, *times, *form, *m, *n, *k, *lda, *ldb, *ldc, *flags;
} AdapterRow;
static const AdapterRow adapter_rows[] = {
#define LORA_PRODUCT(member, pass, times, form, m, n, k, lda, ldb, ldc, flags) \
    {#member, #pass, #times, #form, #m, #n, #k, #lda, #ldb, #ldc, flags},
#include "kernels/cuda/lora.def"
#undef LORA_PRODUCT
};

static Product adapter_gemm(const Call *c, const Adapters *l, const AdapterRow *row, int part)
{
    Product p = {.form = row->form, .epilogue = "none",
                 .adds = call_adds(c, row->flags) || (l->adds && strstr(row->flags, "beta"))};
    const Graph *g = c->g;
    p.m = adapter_dim(g, l, row->m, part), p.n = adapter_dim(g, l, row->n, part);
    p.k = adapter_dim(g, l, row->k, part);
    p.lda = adapter_dim(g, l, row->lda, part), p.ldb = adapter_dim(g, l, row->ldb, part);
    p.ldc = adapter_dim(g, l, row->ldc, part);
    p.f32 = strstr(row->flags, "f32");
    if (strstr(row->flags, "scale"))
        p.scale = attribute_text(c->g, l->op, "scale");
    bool each = !strcmp(row->times, "part");
    if (each || (!strcmp(row->times, "some") && (op_attr(l->op, "dropout") || l->folded)))
        p.offset = adapter_offset(l);
    return p;
}

/* Returns the Gemm of a row, "&mm_qkv_lora_u". */
static char *adapter_product(const Call *c, const Adapters *l, const AdapterRow *row, int part)
{
    const Product p = adapter_gemm(c, l, row, part);
    const bool each = !strcmp(row->times, "part");
    const char *which = each && l->parts > 1 ? text_print("%d", part) : "";
    char *label = text_print("%s.lora.%s%s", l->layer, row->member, which);
    return text_print("&%s", object_name(c, label, product_text(c->g, &p), false));
}

static bool is_dy(const Adapters *l) { return l->op->kind == OP_lora_dy; }

static bool computes(const Adapters *l, const AdapterRow *row)
{
    if ((l->only && strcmp(l->only, row->member)) ||
        (!strcmp(row->times, "plain") && op_attr(l->op, "dropout")))
        return false;
    return !strcmp(row->pass, l->backward ? "bwd" : "fwd") ||
           (!strcmp(row->pass, "apart") && !l->backward && !l->folded);
}

/* Adds the members of a Lora that point to the products of this pass. */
static void print_adapter_products(Str *s, const Call *c, const Adapters *l)
{
    for (size_t i = 0; i < sizeof adapter_rows / sizeof adapter_rows[0]; i++) {
        const AdapterRow *row = &adapter_rows[i];
        bool each = !strcmp(row->times, "part");
        if (!computes(l, row))
            continue;
        str_print(s, ", .%s = %s", row->member, each ? "{" : "");
        for (int part = 0; part < (each ? l->parts : 1); part++)
            str_print(s, "%s%s", part ? ", " : "", adapter_product(c, l, row, part));
        str_print(s, each ? "}" : "");
    }
}

int lora_products(const Call *c, const char *word, Product *list)
{
    const Adapters l = adapters_of(c, word);
    int n = 0;
    for (size_t i = 0; l.parts && i < sizeof adapter_rows / sizeof adapter_rows[0]; i++)
        for (int part = 0; computes(&l, &adapter_rows[i]) &&
                           part < (strcmp(adapter_rows[i].times, "part") ? 1 : l.parts);
             part++)
            list[n++] = adapter_gemm(c, &l, &adapter_rows[i], part);
    return n;
}

static void print_parts(Str *s, const Graph *g, const Adapters *l, bool before)
{
    for (int i = 0; i < l->parts; i++)
        str_print(s, "%s%s", i ? ", " : "",
                  columns_text(g, l->y, before ? l->column[i] : l->width[i], before));
}

/* An initialiser without its name. */
static char *lora_text(const Call *c, const Adapters *l)
{
    const Attr *dropout = op_attr(l->op, "dropout"), *beta = op_attr(l->op, "beta");
    bool points = !emit_backend(c->g)->lists_adapters;
    Str s = {0};
    str_print(&s, ".rows = %s, .in = %s", l->rows.sym, l->in.sym);
    if (points)
        str_print(&s, ", .row = %s", l->row.sym);
    if (!points || is_dy(l) || (l->folded && !l->backward))
        str_print(&s, ", .out = %s", l->out.sym);
    str_print(&s, ", .rank = R, .parts = %" PRId64 ", .col = {", l->parts);
    print_parts(&s, c->g, l, true);
    str_print(&s, "}, .width = {");
    print_parts(&s, c->g, l, false);
    str_print(&s, "}");
    if (!points || is_dy(l))
        str_print(&s, ", .scale = %s", attribute_text(c->g, l->op, "scale"));
    if (dropout)
        str_print(&s, ", .dropout = %s, .T = %s",
                  attribute_text(c->g, l->op, "dropout"), l->T.sym);
    if (points)
        print_adapter_products(&s, c, l);
    else if (l->backward && (l->adds || beta->i))
        str_print(&s, ", .beta = 1");
    return s.text;
}

char *lora_object(const Call *c, const char *word)
{
    const Adapters l = adapters_of(c, word);
    if (!l.parts)
        return text_copy("NULL");
    char *label = text_print("%s%s%s", l.layer, l.only ? "." : l.backward ? ".bwd" : "",
                             l.only ? l.only : "");
    return text_print("&%s", object_name(c, label, lora_text(c, &l), true));
}
