/* rules.c -- checks of ops against the operands and attributes of ops.def.
 *
 * In:    the columns operands and attributes of ops.def.
 * Out:   op_fault(): a message, or NULL.
 * Method: each row is parsed once. A dimension that is a single letter binds it; then every
 *         dimension is computed and compared. */
#include "gen/graph/ir.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPE_ACT = NDTYPES,          /* f32, bf16 or f16: the same for all operands of an op */
    TYPE_ANY,                    /* any type: the same for all operands of an op */
    MAX_DIMS = 5,                /* of a Value */
    LETTERS = 26
};

/* A part of a row's text. */
typedef struct {
    const char *at;
    int n;
} Word;

typedef struct {
    Word name, shape;            /* "y", "act[N..,>=C]" */
    Word when;                   /* "a|b": present if an attribute has it; n 0: see often */
    char often;                  /* '*': any number of them, '?': one or none, 0: one */
    int type;                    /* a Dtype, TYPE_ACT or TYPE_ANY */
    bool any;                    /* [*] */
    char rest;                   /* N of a leading "N.."; 0: none */
    int ndims;                   /* after it */
    Word dim[MAX_DIMS];
    bool or_more[MAX_DIMS];
} Operand;

typedef struct {
    Word name, kind;
    bool optional;
} Attribute;

typedef struct {
    bool read;
    int nin, nout, nattr;
    Operand in[11], out[7];
    Attribute attr[16];
} Rule;

static Rule rules[NOPS];

static bool word_is(Word w, const char *text)
{
    return (int)strlen(text) == w.n && !strncmp(w.at, text, (size_t)w.n);
}

/* ---- reading a row --------------------------------------------------------------------------- */

static Word take(const char **p, const char *characters)
{
    Word w = {*p, 0};
    while (isalnum((unsigned char)(*p)[0]) || (**p && strchr(characters, **p)))
        (*p)++, w.n++;
    return w;
}

static void want(const char *row, const char **p, char c)
{
    if (**p != c)
        bug("ops.def: %s: expected %c at \"%.20s\"", row, c, *p);
    (*p)++;
}

static void read_operand(const char *row, const char **p, Operand *o)
{
    o->name = take(p, "_");
    if (**p == '*' || **p == '?')
        o->often = *(*p)++;
    o->when = take(p, "_|");
    if (o->when.n)
        o->often = 0;
    want(row, p, ':');
    o->shape.at = *p;
    Word type = take(p, "");
    for (o->type = 0; o->type < NDTYPES && !word_is(type, dtype_name[o->type]); o->type++)
        ;
    if (o->type == NDTYPES && word_is(type, "any"))
        o->type = TYPE_ANY;
    else if (o->type == NDTYPES && !word_is(type, "act"))
        bug("ops.def: %s: no type %.*s", row, type.n, type.at);
    want(row, p, '[');
    o->any = **p == '*';
    *p += o->any;
    if (isupper((unsigned char)(*p)[0]) && !strncmp(*p + 1, "..", 2)) {
        o->rest = **p;
        *p += 3;
    }
    for (bool more = !o->any && !o->rest; more || **p == ','; more = false) {
        *p += **p == ',';
        if (o->ndims == MAX_DIMS)
            bug("ops.def: %s: more than %d dimensions", row, MAX_DIMS);
        o->or_more[o->ndims] = !strncmp(*p, ">=", 2);
        *p += 2 * o->or_more[o->ndims];
        o->dim[o->ndims++] = take(p, "_+*/()");
    }
    want(row, p, ']');
    o->shape.n = (int)(*p - o->shape.at);
}

static void read_operands(const OpRow *row, Rule *rule)
{
    const char *p = row->operands;
    for (int out = 0; out < 2; out++) {
        int *n = out ? &rule->nout : &rule->nin,
            most = out ? (int)(sizeof rule->out / sizeof *rule->out)
                       : (int)(sizeof rule->in / sizeof *rule->in);
        for (p += strspn(p, " "); *p && strncmp(p, "->", 2); p += strspn(p, " ")) {
            Operand *list = out ? rule->out : rule->in;
            if (*n == most)
                bug("ops.def: %s: more than %d operands", row->name, most);
            read_operand(row->name, &p, &list[*n]);
            if (*n && list[*n - 1].often && (list[*n - 1].often == '*' || list[*n].often != '?'))
                bug("ops.def: %s: an operand after the last one", row->name);
            (*n)++;
        }
        if (!out)
            want(row->name, &p, '-'), want(row->name, &p, '>');
    }
}

static void read_attributes(const OpRow *row, Rule *rule)
{
    const char *p = row->attrs;
    for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
        if (rule->nattr == (int)(sizeof rule->attr / sizeof *rule->attr))
            bug("ops.def: %s: too many attributes", row->name);
        Attribute *a = &rule->attr[rule->nattr++];
        a->name = take(&p, "_");
        a->optional = *p == '?';
        p += a->optional;
        want(row->name, &p, ':');
        a->kind = take(&p, "_|");
    }
}

/* Checks that the words of a dimension are attributes of the op. */
static void check_words(const OpRow *row, const Rule *rule, const Operand *o)
{
    for (int i = 0; i < o->ndims; i++)
        for (const char *p = o->dim[i].at, *end = p + o->dim[i].n; p < end;) {
            Word w = take(&p, "_");
            bool known = !w.n || !islower((unsigned char)*w.at);
            for (int k = 0; k < rule->nattr && !known; k++)
                known = w.n == rule->attr[k].name.n &&
                        !strncmp(w.at, rule->attr[k].name.at, (size_t)w.n);
            if (!known)
                bug("ops.def: %s: no attribute %.*s", row->name, w.n, w.at);
            p += !w.n;
        }
}

static const Rule *rule_of(int kind)
{
    const OpRow *row = &op_row[kind];
    Rule *rule = &rules[kind];
    if (rule->read)
        return rule;
    read_operands(row, rule);
    read_attributes(row, rule);
    for (int i = 0; i < rule->nin + rule->nout; i++)
        check_words(row, rule, i < rule->nin ? &rule->in[i] : &rule->out[i - rule->nin]);
    rule->read = true;
    return rule;
}

bool op_takes(int kind, const char *key)
{
    const Rule *rule = rule_of(kind);
    int k = 0;
    while (k < rule->nattr && !word_is(rule->attr[k].name, key))
        k++;
    return k < rule->nattr;
}

bool op_takes_list(int kind)
{
    const Rule *rule = rule_of(kind);
    return rule->nin && rule->in[rule->nin - 1].often == '*';
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* True if the text is one of the words a|b. */
static bool is_choice(Word kind, const char *word)
{
    for (const char *p = kind.at, *end = kind.at + kind.n; p < end; p++) {
        int n = 0;
        while (p + n < end && p[n] != '|')
            n++;
        if (word_is((Word){p, n}, word))
            return true;
        p += n;
    }
    return false;
}

/* NULL, or what the kind expects instead. */
static const char *kind_fault(Word kind, const Attr *a)
{
    if (word_is(kind, "float"))
        return a->type == ATTR_FLOAT ? NULL : "a float";
    if (word_is(kind, "int"))
        return a->type == ATTR_INT && a->i >= 1 ? NULL : "an integer from 1";
    if (word_is(kind, "index"))
        return a->type == ATTR_INT && a->i >= 0 ? NULL : "an integer from 0";
    if (word_is(kind, "flag"))
        return a->type == ATTR_INT && (a->i == 0 || a->i == 1) ? NULL : "0 or 1";
    return a->type == ATTR_WORD && is_choice(kind, a->word)
               ? NULL
               : text_print("%.*s", kind.n, kind.at);
}

static char *attributes_fault(const Rule *rule, const Op *op)
{
    for (int i = 0; i < op->nattr; i++) {
        const Attr *a = &op->attr[i];
        int k = 0;
        while (k < rule->nattr && !word_is(rule->attr[k].name, a->key))
            k++;
        if (k == rule->nattr)
            return text_print("has no attribute %s; ops.def: \"%s\"", a->key,
                              op_row[op->kind].attrs);
        if (op_attr(op, a->key) != a)
            return text_print("attribute %s is there twice", a->key);
        const char *wanted = kind_fault(rule->attr[k].kind, a);
        if (wanted)
            return text_print("attribute %s: must be %s, found %s", a->key, wanted, attr_text(a));
    }
    for (int k = 0; k < rule->nattr; k++) {
        char *name = text_print("%.*s", rule->attr[k].name.n, rule->attr[k].name.at);
        if (!rule->attr[k].optional && !op_attr(op, name))
            return text_print("attribute %s is missing", name);
    }
    return NULL;
}

/* An op with dropout has its rate and site; an op without has neither. */
static char *drops_fault(const Op *op)
{
    static const char *const key[] = {"site", "sites"};
    for (int i = 0; i < 2 && op_takes(op->kind, "dropout"); i++)
        if (!op_attr(op, key[i]) != !op_attr(op, "dropout"))
            return text_print("dropout, site and sites go together, found %s dropout and %s %s",
                              op_attr(op, "dropout") ? "a" : "no", op_attr(op, key[i]) ? "a" : "no",
                              key[i]);
    return NULL;
}

/* ---- which operands of its row an op has ----------------------------------------------------- */

/* True if an attribute of the op has one of these names or values; value 0 counts as absent. */
static bool is_asked_for(Word when, const Op *op)
{
    for (int i = 0; i < op->nattr; i++) {
        const Attr *a = &op->attr[i];
        if (a->type == ATTR_WORD ? is_choice(when, a->word)
                                 : (a->type == ATTR_FLOAT || a->i) && is_choice(when, a->key))
            return true;
    }
    return false;
}

/* Index in the row of the op's k-th operand; those after the last belong to the last. */
static int position_of(const Operand *list, int n, const Op *op, int k)
{
    for (int i = 0; i < n; i++)
        if (!list[i].when.n || is_asked_for(list[i].when, op))
            if (!k-- || list[i].often == '*')
                return i;
    return n - 1;
}

int op_row_operand(const Op *op, bool out, int k)
{
    const Rule *rule = rule_of(op->kind);
    return position_of(out ? rule->out : rule->in, out ? rule->nout : rule->nin, op, k);
}

int op_operand(const Op *op, bool out, int k)
{
    const Rule *rule = rule_of(op->kind);
    const Operand *list = out ? rule->out : rule->in;
    int n = out ? rule->nout : rule->nin, at = 0;
    if (k >= n)                              /* one of any number */
        return k < (out ? op->nout : op->nin) ? k : -1;
    for (int i = 0; i < k; i++)
        at += !list[i].when.n || is_asked_for(list[i].when, op);
    bool there = !list[k].when.n || is_asked_for(list[k].when, op);
    return there && at < (out ? op->nout : op->nin) ? at : -1;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

/* Values of a row's letters and of `act` or `any` in an op. */
typedef struct {
    const Op *op;
    int act;                     /* a Dtype; -1: none yet */
    int64_t letter[LETTERS];     /* 0: not bound */
    /* N..: the first nrest dimensions of this value; NULL: not bound */
    const Value *rest[LETTERS];
    int nrest[LETTERS];
} Bound;

static int64_t sum_of(const Bound *b, const char **p, const char *end);

/* Value of a number, letter, attribute or (sum); 0: unknown. */
static int64_t factor_of(const Bound *b, const char **p, const char *end)
{
    if (**p == '(') {
        (*p)++;
        int64_t n = sum_of(b, p, end);
        (*p)++;
        return n;
    }
    if (isdigit((unsigned char)**p))
        return strtoll(*p, (char **)(uintptr_t)p, 10);
    Word w = take(p, "_");
    if (w.n == 1 && isupper((unsigned char)*w.at))
        return b->letter[*w.at - 'A'];
    const Attr *a = op_attr(b->op, text_print("%.*s", w.n, w.at));
    return a && a->type == ATTR_INT ? a->i : 0;
}

static int64_t product_of(const Bound *b, const char **p, const char *end)
{
    int64_t n = factor_of(b, p, end);
    while (*p < end && (**p == '*' || **p == '/')) {
        bool divides = *(*p)++ == '/';
        int64_t k = factor_of(b, p, end);
        if (divides)
            n = k && n % k == 0 ? n / k : 0;
        else if (__builtin_mul_overflow(n, k, &n))
            return 0;
    }
    return n;
}

/* Value of a dimension; 0: unknown or not a number of elements. */
static int64_t sum_of(const Bound *b, const char **p, const char *end)
{
    int64_t n = product_of(b, p, end);
    while (*p < end && **p == '+') {
        (*p)++;
        if (__builtin_add_overflow(n, product_of(b, p, end), &n))
            return 0;
    }
    return n;
}

static int64_t dim_of(const Bound *b, Word dim)
{
    const char *p = dim.at;
    return sum_of(b, &p, dim.at + dim.n);
}

/* Number of dimensions that "N.." of an operand covers. */
static int rest_of(const Operand *o, const Value *v) { return o->rest ? v->rank - o->ndims : 0; }

static void bind(Bound *b, const Operand *o, const Value *v)
{
    int rest = rest_of(o, v);
    if (o->type >= TYPE_ACT && b->act < 0)
        b->act = v->dtype;
    if (o->any || rest < 0 || rest + o->ndims != v->rank)
        return;
    if (o->rest && !b->rest[o->rest - 'A']) {
        b->rest[o->rest - 'A'] = v;
        b->nrest[o->rest - 'A'] = rest;
    }
    for (int i = 0; i < o->ndims; i++) {
        const char c = *o->dim[i].at;
        if (o->dim[i].n == 1 && isupper((unsigned char)c) && !o->or_more[i] && !b->letter[c - 'A'])
            b->letter[c - 'A'] = v->dim[rest + i].n;
    }
}

static bool agrees(const Bound *b, const Operand *o, const Value *v)
{
    bool act = v->dtype == DT_F32 || v->dtype == DT_BF16 || v->dtype == DT_F16;
    if (o->type == TYPE_ACT && !act)
        return false;
    if ((int)v->dtype != (o->type >= TYPE_ACT ? b->act : o->type))
        return false;
    if (o->any)
        return true;
    int rest = rest_of(o, v);
    if (rest + o->ndims != v->rank || (o->rest && rest != b->nrest[o->rest - 'A']))
        return false;
    for (int i = 0; i < rest; i++)
        if (v->dim[i].n != b->rest[o->rest - 'A']->dim[i].n)
            return false;
    for (int i = 0; i < o->ndims; i++) {
        int64_t n = dim_of(b, o->dim[i]), found = v->dim[rest + i].n;
        if (!n || (o->or_more[i] ? found < n : found != n))
            return false;
    }
    return true;
}

/* Expected form of an operand, given the others and the attributes: "bf16[8,512,>=256]". */
static char *wanted_text(const Bound *b, const Operand *o)
{
    Str s = {0};
    str_print(&s, "%s[", dtype_name[o->type >= TYPE_ACT ? b->act : o->type]);
    const char *comma = "";
    for (int i = 0; o->rest && i < b->nrest[o->rest - 'A']; i++, comma = ",")
        str_print(&s, "%s%" PRId64, comma, b->rest[o->rest - 'A']->dim[i].n);
    for (int i = 0; i < o->ndims; i++, comma = ",")
        str_print(&s, "%s%s%s", comma, o->or_more[i] ? ">=" : "",
                  dim_of(b, o->dim[i]) ? text_print("%" PRId64, dim_of(b, o->dim[i])) : "?");
    str_print(&s, "]");
    return s.text;
}

static char *found_text(const Value *v)
{
    Str s = {0};
    str_print(&s, "%s[", dtype_name[v->dtype]);
    for (int i = 0; i < v->rank; i++)
        str_print(&s, "%s%" PRId64, i ? "," : "", v->dim[i].n);
    str_print(&s, "]");
    return s.text;
}

/* found: number of operands of the op. */
static bool counts(const Operand *list, int n, const Op *op, int found)
{
    int least = 0, most = 0;
    for (int i = 0; i < n; i++)
        if (!list[i].when.n || is_asked_for(list[i].when, op)) {
            least += !list[i].often;
            most += list[i].often == '*' ? found : 1;
        }
    return found >= least && found <= most;
}

static char *operands_fault(const Rule *rule, const Op *op)
{
    if (!counts(rule->in, rule->nin, op, op->nin) || !counts(rule->out, rule->nout, op, op->nout))
        return text_print("%d operands in and %d out; ops.def: \"%s\"", op->nin, op->nout,
                          op_row[op->kind].operands);
    Bound b = {.op = op, .act = -1};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < op->nin + op->nout; i++) {
            bool in = i < op->nin;
            const Operand *o = in ? &rule->in[op_row_operand(op, false, i)]
                                  : &rule->out[op_row_operand(op, true, i - op->nin)];
            const Value *v = in ? op->in[i].v : op->out[i - op->nin].v;
            if (!pass)
                bind(&b, o, v);
            else if (!agrees(&b, o, v))
                return text_print("%.*s = %s is %s, must be %.*s%s", o->name.n, o->name.at, v->name,
                                  found_text(v), o->shape.n, o->shape.at,
                                  o->any ? "" : text_print(" = %s", wanted_text(&b, o)));
        }
    return NULL;
}

/* ---- an op ----------------------------------------------------------------------------------- */

static char *placement_fault(const Program *p, const Op *op)
{
    if (op->region < 0 || op->region > p->nregions)
        return text_print("no region %d", op->region);
    if (op_attr(op, "if") && !op->region)
        return text_copy("attribute if: outside a region");
    for (int i = 0; i < op->nin + op->nout; i++) {
        Ref r = i < op->nin ? op->in[i] : op->out[i - op->nin];
        if (r.index == IX_LOOP && !op->region)
            return text_print("%s[l] outside a region", r.v->name);
        const Attr *when = op_attr(op, "if");
        const bool bounded = r.index == IX_LOOP && when && !strcmp(when->word, "inside");
        int64_t last = r.index == IX_LOOP ? p->region[op->region].count.n - 1 + r.k : r.k;
        if (r.index != IX_NONE && !bounded && (r.k < 0 || last >= r.v->count))
            return text_print("index of %s beyond its %" PRId64 " elements", r.v->name, r.v->count);
    }
    return NULL;
}

char *op_fault(const Program *p, const Op *op)
{
    const Rule *rule = rule_of(op->kind);
    char *fault = attributes_fault(rule, op);
    if (!fault)
        fault = drops_fault(op);
    if (!fault)
        fault = operands_fault(rule, op);
    if (!fault)
        fault = placement_fault(p, op);
    return fault ? text_print("%s: %s", op_row[op->kind].name, fault) : NULL;
}

void check_ops(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            char *fault = op_fault(g->programs[i], &g->programs[i]->ops[k]);
            if (fault)
                bug("%s: %s", g->programs[i]->name, fault);
        }
}
