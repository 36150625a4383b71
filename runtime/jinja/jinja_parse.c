/* jinja_parse.c -- lexemes to nodes, by the grammar of Jinja's parser.
 *
 * Keeps: operators bind as in Jinja: filters and tests before powers, "~" between "*" and "+",
 *        "x if y else z" last. Unsupported statements, filters and tests are errors here, not where
 *        they run. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/utf8.h"

/* ---- names ---------------------------------------------------------------------------------- */

static const char *intern(JinjaTemplate *t, const char *s, size_t n)
{
    for (int i = 0; i < t->nnames; i++)
        if (strlen(t->name[i]) == n && !memcmp(t->name[i], s, n))
            return t->name[i];
    if (t->nnames == 4096)
        template_fail(t, t->lexeme[t->at].line, "more than 4096 names");
    if (t->nnames == t->capnames) {
        t->capnames = 2 * t->capnames + 64;
        const char **more = arena_take(&t->arena, (size_t)t->capnames * sizeof *more);
        if (!more)
            template_fail(t, t->lexeme[t->at].line, "out of memory");
        if (t->nnames)
            memcpy(more, t->name, (size_t)t->nnames * sizeof *more);
        t->name = more;
    }
    char *name = arena_take(&t->arena, n + 1);
    if (!name)
        template_fail(t, t->lexeme[t->at].line, "out of memory");
    memcpy(name, s, n);
    return t->name[t->nnames++] = name;
}

/* ---- lexemes --------------------------------------------------------------------------------- */

static const Lexeme *peek(const JinjaTemplate *t) { return &t->lexeme[t->at]; }

static const Lexeme *take(JinjaTemplate *t)
{
    const Lexeme *l = peek(t);
    t->at += l->kind != LEX_EOF;
    return l;
}

static bool is(const JinjaTemplate *t, LexKind kind, const char *word)
{
    const Lexeme *l = peek(t);
    return l->kind == kind && strlen(word) == l->n && !memcmp(l->at, word, l->n);
}

static bool is_name(const JinjaTemplate *t, const char *word) { return is(t, LEX_NAME, word); }
static bool is_op(const JinjaTemplate *t, const char *word) { return is(t, LEX_OPERATOR, word); }

static bool take_name(JinjaTemplate *t, const char *word)
{
    return is_name(t, word) ? take(t), true : false;
}

static bool take_op(JinjaTemplate *t, const char *word)
{
    return is_op(t, word) ? take(t), true : false;
}

static _Noreturn void unexpected(JinjaTemplate *t, const char *want)
{
    const Lexeme *l = peek(t);
    if (l->kind == LEX_EOF)
        template_fail(t, l->line, "expected %s, got the end of the template", want);
    if (l->kind == LEX_BLOCK_END || l->kind == LEX_OUTPUT_END)
        template_fail(t, l->line, "expected %s, got the end of the tag", want);
    template_fail(t, l->line, "expected %s, got \"%.*s\"", want, l->n < 40 ? (int)l->n : 40, l->at);
}

static void want_op(JinjaTemplate *t, const char *word)
{
    if (!take_op(t, word))
        unexpected(t, word);
}

static void want_end(JinjaTemplate *t)
{
    if (peek(t)->kind != LEX_BLOCK_END)
        unexpected(t, "%}");
    take(t);
}

static const char *want_name(JinjaTemplate *t, const char *what)
{
    if (peek(t)->kind != LEX_NAME)
        unexpected(t, what);
    const Lexeme *l = take(t);
    return intern(t, l->at, l->n);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static Node *node(JinjaTemplate *t, NodeKind kind)
{
    Node *n = arena_take(&t->arena, sizeof *n);
    if (!n || ++t->nodes > JINJA_NODES)
        template_fail(t, peek(t)->line, "more than %d expressions", JINJA_NODES);
    n->kind = kind;
    n->line = peek(t)->line;
    return n;
}

static Node *node_of(JinjaTemplate *t, NodeKind kind, Node *a, Node *b)
{
    Node *n = node(t, kind);
    n->a = a;
    n->b = b;
    n->line = a ? a->line : n->line;
    return n;
}

static void deeper(JinjaTemplate *t)
{
    if (++t->depth > JINJA_DEPTH)
        template_fail(t, peek(t)->line, "nested deeper than %d levels", JINJA_DEPTH);
}

static Node *expression(JinjaTemplate *t);
static Node *unary(JinjaTemplate *t, bool filters);

/* ---- constants ------------------------------------------------------------------------------- */

static int hex_digits(const char *s, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        const char c = s[i];
        const int d = c >= '0' && c <= '9' ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0 || v > 0x10ffff)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Decodes Python's escapes of a string lexeme into `out`, which has room for its bytes; returns the
 * length. */
static size_t unescape(JinjaTemplate *t, const Lexeme *l, char *out)
{
    static const char from[] = "\\'\"abfnrtv\n", to[] = "\\'\"\a\b\f\n\r\t\v";
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const char c = l->at[i];
        if (c != '\\') {
            out[n++] = c;
            continue;
        }
        const char e = l->at[++i], *simple = e ? strchr(from, e) : NULL;
        const int digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
        if (simple) {
            if (e != '\n')
                out[n++] = to[simple - from];
        } else if (digits) {
            const int v = l->n - i > (size_t)digits ? hex_digits(l->at + i + 1, digits) : -1;
            if (v <= 0 || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
                template_fail(t, l->line, "\\%c is not followed by a character of %d digits", e,
                              digits);
            n += utf8_put(out + n, (uint32_t)v);
            i += (size_t)digits;
        } else if (e == 'N' || (e >= '0' && e <= '7') || (unsigned char)e >= 0x80) {
            template_fail(t, l->line, "the escape \\%c is not supported",
                          (unsigned char)e < 0x80 ? e : '?');
        } else {
            out[n++] = c;
            out[n++] = e;
        }
    }
    return n;
}

/* Adjacent strings are one. */
static Node *string(JinjaTemplate *t)
{
    Node *n = node(t, N_CONST);
    size_t room = 1, len = 0;
    for (int i = t->at; t->lexeme[i].kind == LEX_STRING; i++)
        room += t->lexeme[i].n;
    char *text = arena_take(&t->arena, room);
    if (!text)
        template_fail(t, n->line, "out of memory");
    while (peek(t)->kind == LEX_STRING)
        len += unescape(t, take(t), text + len);
    n->value = jv_string(text, len);
    intern(t, text, len < 64 ? len : 64);
    return n;
}

static Node *number(JinjaTemplate *t)
{
    const Lexeme *l = take(t);
    Node *n = node(t, N_CONST);
    char text[64];
    size_t len = 0;
    n->line = l->line;
    for (size_t i = 0; i < l->n; i++) {
        if (len + 1 == sizeof text)
            template_fail(t, l->line, "the number %.40s... is too long", text);
        if (l->at[i] != '_')
            text[len++] = l->at[i];
    }
    text[len] = 0;
    if (l->kind == LEX_FLOAT) {
        n->value = (Value){.kind = JV_FLOAT, .real = strtod(text, NULL)};
        return n;
    }
    errno = 0;
    n->value = jv_int(strtoll(text, NULL, 10));
    if (errno || (*text == '0' && strspn(text, "0") != len))
        template_fail(t, l->line, "the number %s is not supported", text);
    return n;
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Items up to a closing bracket, linked. */
static Node *items(JinjaTemplate *t, const char *close)
{
    Node *first = NULL, **last = &first;
    while (!is_op(t, close)) {
        *last = expression(t);
        last = &(*last)->next;
        if (!is_op(t, close))
            want_op(t, ",");
    }
    take(t);
    return first;
}

static Node *dict(JinjaTemplate *t)
{
    Node *n = node(t, N_DICT), **last = &n->list;
    while (!is_op(t, "}")) {
        Node *member = *last = node(t, N_NAMED);
        member->a = expression(t);
        want_op(t, ":");
        member->b = expression(t);
        last = &member->next;
        if (!is_op(t, "}"))
            want_op(t, ",");
    }
    take(t);
    return n;
}

/* A name for a value that all templates know. */
static bool constant_named(const char *name, Value *to)
{
    if (!strcasecmp(name, "true") || !strcasecmp(name, "false"))
        *to = jv_bool((*name | 32) == 't');
    else if (!strcasecmp(name, "none"))
        *to = (Value){.kind = JV_NONE};
    else
        return false;
    return !strcmp(name + 1, "rue") || !strcmp(name + 1, "alse") || !strcmp(name + 1, "one");
}

/* Expressions separated by commas are a tuple. conditions: with "x if y else z". */
static Node *disjunction(JinjaTemplate *t);
static Node *tuple(JinjaTemplate *t, bool conditions, const char *end_name)
{
    Node *first = conditions ? expression(t) : disjunction(t);
    if (!is_op(t, ","))
        return first;
    Node *n = node_of(t, N_TUPLE, NULL, NULL), **last = &first->next;
    n->list = first;
    while (take_op(t, ",")) {
        const LexKind k = peek(t)->kind;
        if (k == LEX_BLOCK_END || k == LEX_OUTPUT_END || is_op(t, ")") || is_op(t, "=") ||
            (end_name && is_name(t, end_name)))
            break;
        *last = conditions ? expression(t) : disjunction(t);
        last = &(*last)->next;
    }
    return n;
}

static Node *primary(JinjaTemplate *t)
{
    const Lexeme *l = peek(t);
    deeper(t);
    Node *n = NULL;
    if (l->kind == LEX_NAME) {
        n = node(t, N_NAME);
        n->name = want_name(t, "a name");
        if (constant_named(n->name, &n->value))
            n->kind = N_CONST;
    } else if (l->kind == LEX_STRING) {
        n = string(t);
    } else if (l->kind == LEX_INT || l->kind == LEX_FLOAT) {
        n = number(t);
    } else if (take_op(t, "(")) {
        if (take_op(t, ")")) {
            n = node(t, N_TUPLE);
        } else {
            n = tuple(t, true, NULL);
            want_op(t, ")");
        }
    } else if (take_op(t, "[")) {
        n = node(t, N_LIST);
        n->list = items(t, "]");
    } else if (take_op(t, "{")) {
        n = dict(t);
    } else {
        unexpected(t, "an expression");
    }
    t->depth--;
    return n;
}

/* Arguments of a call, after "(": NAMED has a name and its value in a; without a name, the items of
 * a are arguments. */
static Node *arguments(JinjaTemplate *t)
{
    Node *first = NULL, **last = &first;
    bool named = false;
    while (!is_op(t, ")")) {
        if (is_op(t, "**"))
            template_fail(t, peek(t)->line, "arguments with ** are not supported");
        const Lexeme *after = peek(t)->kind == LEX_NAME ? peek(t) + 1 : peek(t);
        if (after != peek(t) && after->kind == LEX_OPERATOR && after->n == 1 && *after->at == '=') {
            Node *n = node(t, N_NAMED);
            n->name = want_name(t, "a name");
            take(t);
            n->a = expression(t);
            *last = n;
            named = true;
        } else if (take_op(t, "*")) {
            *last = node(t, N_NAMED);
            (*last)->a = expression(t);
        } else if (named) {
            unexpected(t, "NAME=");
        } else {
            *last = expression(t);
        }
        last = &(*last)->next;
        if (!is_op(t, ")"))
            want_op(t, ",");
    }
    take(t);
    return first;
}

static Node *subscript(JinjaTemplate *t, Node *of)
{
    Node *n = node_of(t, N_ITEM, of, NULL), *part[3] = {0};
    bool slice = false;
    for (int i = 0; i < 3 && !is_op(t, "]"); i++) {
        if (!is_op(t, ":"))
            part[i] = expression(t);
        if (is_op(t, "]"))
            break;
        want_op(t, ":");
        slice = true;
    }
    want_op(t, "]");
    if (!slice) {
        if (!part[0])
            unexpected(t, "an index");
        n->b = part[0];
        return n;
    }
    n->kind = N_SLICE;
    n->b = part[0], n->c = part[1], n->d = part[2];
    return n;
}

static Node *call(JinjaTemplate *t, Node *of)
{
    Node *n = node_of(t, N_CALL, of, NULL);
    n->list = arguments(t);
    return n;
}

static Node *postfix(JinjaTemplate *t, Node *n)
{
    for (int links = 0;; links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, peek(t)->line, "more than %d attributes in a row", JINJA_DEPTH);
        if (take_op(t, ".")) {
            if (peek(t)->kind == LEX_INT) {
                n = node_of(t, N_ITEM, n, number(t));
                continue;
            }
            n = node_of(t, N_ATTRIBUTE, n, NULL);
            n->name = want_name(t, "an attribute");
            if (!strncmp(n->name, "__", 2))
                template_fail(t, n->line, "the attribute %.60s is not supported", n->name);
        } else if (take_op(t, "[")) {
            n = subscript(t, n);
        } else if (take_op(t, "(")) {
            n = call(t, n);
        } else {
            return n;
        }
    }
}

static Node *filter(JinjaTemplate *t, Node *of)
{
    Node *n = node_of(t, N_FILTER, of, NULL);
    n->line = peek(t)->line;
    n->name = want_name(t, "a filter");
    n->call = filter_find(n->name);
    if (!n->call || is_op(t, "."))
        template_fail(t, n->line, "the filter %.60s is not supported", n->name);
    if (take_op(t, "("))
        n->list = arguments(t);
    return n;
}

static Node *test(JinjaTemplate *t, Node *of)
{
    const bool negated = take_name(t, "not");
    Node *n = node_of(t, N_TEST, of, NULL);
    n->line = peek(t)->line;
    n->name = want_name(t, "a test");
    n->call = test_find(n->name);
    if (!n->call || is_op(t, "."))
        template_fail(t, n->line, "the test %.60s is not supported", n->name);
    const LexKind k = peek(t)->kind;
    if (take_op(t, "("))
        n->list = arguments(t);
    else if ((k == LEX_NAME && !is_name(t, "else") && !is_name(t, "or") && !is_name(t, "and")) ||
             k == LEX_STRING || k == LEX_INT || k == LEX_FLOAT || is_op(t, "[") || is_op(t, "{"))
        n->list = is_name(t, "is") ? (unexpected(t, "one test"), NULL) : postfix(t, primary(t));
    return negated ? node_of(t, N_NOT, n, NULL) : n;
}

static Node *filters_and_tests(JinjaTemplate *t, Node *n)
{
    for (int links = 0;; links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, peek(t)->line, "more than %d filters in a row", JINJA_DEPTH);
        if (take_op(t, "|"))
            n = filter(t, n);
        else if (take_name(t, "is"))
            n = test(t, n);
        else if (take_op(t, "("))
            n = call(t, n);
        else
            return n;
    }
}

static Node *unary(JinjaTemplate *t, bool filters)
{
    deeper(t);
    Node *n;
    if (take_op(t, "-"))
        n = node_of(t, N_NEGATE, unary(t, false), NULL);
    else if (take_op(t, "+"))
        n = node_of(t, N_PLUS, unary(t, false), NULL);
    else
        n = primary(t);
    n = postfix(t, n);
    n = filters ? filters_and_tests(t, n) : n;
    t->depth--;
    return n;
}

/* Chains of operators of one rank are nested to the left, so their length counts as depth. */
static Node *chain(JinjaTemplate *t, int rank)
{
    static const struct { const char *word; int rank; Operator op; } row[] = {
        {"**", 0, OP_POW}, {"*", 1, OP_MUL}, {"/", 1, OP_DIV}, {"//", 1, OP_FLOOR},
        {"%", 1, OP_MOD}, {"+", 3, OP_ADD}, {"-", 3, OP_SUB},
    };
    if (rank < 0)
        return unary(t, true);
    Node *n = chain(t, rank - 1);
    if (rank == 2) {             /* "~" */
        if (!is_op(t, "~"))
            return n;
        Node *all = node_of(t, N_CONCAT, NULL, NULL), **last = &n->next;
        all->list = n;
        while (take_op(t, "~")) {
            *last = chain(t, rank - 1);
            last = &(*last)->next;
        }
        return all;
    }
    for (int links = 0;; links++) {
        size_t i = 0;
        while (i < sizeof row / sizeof *row && (row[i].rank != rank || !is_op(t, row[i].word)))
            i++;
        if (i == sizeof row / sizeof *row)
            return n;
        if (links == JINJA_DEPTH)
            template_fail(t, peek(t)->line, "more than %d operators in a row", JINJA_DEPTH);
        take(t);
        n = node_of(t, N_BINARY, n, chain(t, rank - 1));
        n->op = (int)row[i].op;
    }
}

/* a < b < c: the first operand in a, then NAMED nodes with operator and operand. */
static Node *comparison(JinjaTemplate *t)
{
    static const struct { const char *word; Operator op; } row[] = {
        {"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {"<=", OP_LE}, {">", OP_GT}, {">=", OP_GE},
    };
    Node *n = chain(t, 3), *all = NULL, **last = NULL;
    for (;;) {
        int op = -1;
        for (size_t i = 0; i < sizeof row / sizeof *row && op < 0; i++)
            op = take_op(t, row[i].word) ? (int)row[i].op : -1;
        if (op < 0 && take_name(t, "in")) {
            op = OP_IN;
        } else if (op < 0 && is_name(t, "not") && peek(t)[1].kind == LEX_NAME &&
                   peek(t)[1].n == 2 && !memcmp(peek(t)[1].at, "in", 2)) {
            take(t), take(t);
            op = OP_NOT_IN;
        }
        if (op < 0)
            return all ? all : n;
        if (!all) {
            all = node_of(t, N_COMPARE, n, NULL);
            last = &all->list;
        }
        Node *with = *last = node(t, N_NAMED);
        with->op = op;
        with->a = chain(t, 3);
        last = &with->next;
    }
}

static Node *negation(JinjaTemplate *t)
{
    if (!take_name(t, "not"))
        return comparison(t);
    deeper(t);
    Node *n = node_of(t, N_NOT, negation(t), NULL);
    t->depth--;
    return n;
}

/* Operands of "and", "or" are linked. */
static Node *junction(JinjaTemplate *t, const char *word, NodeKind kind,
                      Node *operand(JinjaTemplate *))
{
    Node *n = operand(t);
    if (!is_name(t, word))
        return n;
    Node *all = node_of(t, kind, NULL, NULL), **last = &n->next;
    all->list = n;
    while (take_name(t, word)) {
        *last = operand(t);
        last = &(*last)->next;
    }
    return all;
}

static Node *conjunction(JinjaTemplate *t) { return junction(t, "and", N_AND, negation); }
static Node *disjunction(JinjaTemplate *t) { return junction(t, "or", N_OR, conjunction); }

/* x if y else z: x in a, y in b, z in c or NULL. */
static Node *expression(JinjaTemplate *t)
{
    deeper(t);
    Node *n = disjunction(t);
    for (int links = 0; take_name(t, "if"); links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, peek(t)->line, "more than %d conditions in a row", JINJA_DEPTH);
        n = node_of(t, N_CONDITION, n, disjunction(t));
        if (take_name(t, "else"))
            n->c = expression(t);
    }
    t->depth--;
    return n;
}

/* ---- statements ------------------------------------------------------------------------------ */

static Node *statements(JinjaTemplate *t, const char *const *ends);

/* The body of a statement up to one of `ends`, whose name is taken; ends is NULL-terminated. */
static Node *body(JinjaTemplate *t, const char *const *ends, const char **end)
{
    want_end(t);
    Node *n = statements(t, ends);
    *end = want_name(t, ends[0]);
    return n;
}

static Node *body_to(JinjaTemplate *t, const char *end)
{
    const char *which;
    Node *n = body(t, (const char *const[]){end, NULL}, &which);
    want_end(t);
    return n;
}

/* A name, ns.name, or several names for the items of a tuple: NAME or ATTRIBUTE nodes, linked. */
static Node *targets(JinjaTemplate *t, bool spaces)
{
    Node *first = NULL, **last = &first;
    const bool bracket = take_op(t, "(");
    do {
        Node *n = *last = node(t, N_NAME);
        n->name = want_name(t, "a name");
        Value v;
        if (constant_named(n->name, &v) || !strcmp(n->name, "loop"))
            template_fail(t, n->line, "%s cannot be set", n->name);
        if (spaces && take_op(t, ".")) {
            n->kind = N_ATTRIBUTE;
            n->a = node(t, N_NAME);
            n->a->name = n->name;
            n->name = want_name(t, "an attribute");
        }
        last = &n->next;
    } while (take_op(t, ","));
    if (bracket)
        want_op(t, ")");
    return first;
}

static Node *parse_if(JinjaTemplate *t)
{
    Node *n = node(t, N_IF);
    const char *end;
    n->a = tuple(t, false, NULL);
    n->b = body(t, (const char *const[]){"endif", "else", "elif", NULL}, &end);
    if (!strcmp(end, "elif")) {
        deeper(t);
        n->c = parse_if(t);
        t->depth--;
        return n;
    }
    if (!strcmp(end, "else"))
        n->c = body_to(t, "endif");
    else
        want_end(t);
    return n;
}

/* {% for list in a if b %} c {% else %} d */
static Node *parse_for(JinjaTemplate *t)
{
    Node *n = node(t, N_FOR);
    const char *end;
    n->list = targets(t, false);
    if (!take_name(t, "in"))
        unexpected(t, "in");
    n->a = tuple(t, false, "recursive");
    if (take_name(t, "if"))
        n->b = expression(t);
    if (is_name(t, "recursive"))
        template_fail(t, n->line, "recursive loops are not supported");
    t->loops++;
    n->c = body(t, (const char *const[]){"endfor", "else", NULL}, &end);
    t->loops--;
    if (!strcmp(end, "else"))
        n->d = body_to(t, "endfor");
    else
        want_end(t);
    return n;
}

static Node *parse_set(JinjaTemplate *t)
{
    Node *n = node(t, N_SET);
    n->list = targets(t, true);
    if (take_op(t, "=")) {
        n->a = tuple(t, true, NULL);
        want_end(t);
        return n;
    }
    n->kind = N_SET_BLOCK;
    if (n->list->next)
        unexpected(t, "=");
    for (Node *of = NULL; take_op(t, "|");)
        n->a = of = filter(t, of);
    n->b = body_to(t, "endset");
    return n;
}

/* Parameters: NAMED nodes with a default in a, or NULL. */
static Node *parse_macro(JinjaTemplate *t)
{
    Node *n = node(t, N_MACRO), **last = &n->list;
    n->name = want_name(t, "the name of a macro");
    want_op(t, "(");
    while (!is_op(t, ")")) {
        Node *p = *last = node(t, N_NAMED);
        p->name = want_name(t, "a parameter");
        if (take_op(t, "="))
            p->a = expression(t);
        last = &p->next;
        if (!is_op(t, ")"))
            want_op(t, ",");
    }
    take(t);
    const int loops = t->loops;
    t->loops = 0;
    n->b = body_to(t, "endmacro");
    t->loops = loops;
    return n;
}

static Node *parse_generation(JinjaTemplate *t)
{
    Node *n = node(t, N_GENERATION);
    const int loops = t->loops;
    t->loops = 0;
    n->b = body_to(t, "endgeneration");
    t->loops = loops;
    t->generates = true;
    return n;
}

static Node *parse_filter_block(JinjaTemplate *t)
{
    Node *n = node(t, N_FILTER_BLOCK);
    n->a = filter(t, NULL);
    while (take_op(t, "|"))
        n->a = filter(t, n->a);
    n->b = body_to(t, "endfilter");
    return n;
}

static Node *parse_jump(JinjaTemplate *t, NodeKind kind)
{
    Node *n = node(t, kind);
    if (!t->loops)
        template_fail(t, n->line, "%s outside of a loop", kind == N_BREAK ? "break" : "continue");
    want_end(t);
    return n;
}

static Node *statement(JinjaTemplate *t)
{
    if (peek(t)->kind != LEX_NAME)
        unexpected(t, "a statement");
    if (take_name(t, "if"))
        return parse_if(t);
    if (take_name(t, "for"))
        return parse_for(t);
    if (take_name(t, "set"))
        return parse_set(t);
    if (take_name(t, "macro"))
        return parse_macro(t);
    if (take_name(t, "generation"))
        return parse_generation(t);
    if (take_name(t, "filter"))
        return parse_filter_block(t);
    if (take_name(t, "break"))
        return parse_jump(t, N_BREAK);
    if (take_name(t, "continue"))
        return parse_jump(t, N_CONTINUE);
    const Lexeme *l = peek(t);
    template_fail(t, l->line, "the statement %.*s is not supported here",
                  l->n < 40 ? (int)l->n : 40, l->at);
}

/* Text, outputs and statements, linked, up to a tag that begins with one of `ends`, or the end of
 * the template (NULL). */
static Node *statements(JinjaTemplate *t, const char *const *ends)
{
    Node *first = NULL, **last = &first;
    deeper(t);
    for (;;) {
        const Lexeme *l = take(t);
        if (l->kind == LEX_EOF) {
            if (ends)
                template_fail(t, l->line, "the template ends before %s", ends[0]);
            break;
        }
        if (l->kind == LEX_TEXT) {
            *last = node(t, N_TEXT);
            (*last)->value = jv_string(l->at, l->n);
        } else if (l->kind == LEX_OUTPUT) {
            Node *n = *last = node(t, N_OUTPUT);
            n->a = tuple(t, true, NULL);
            if (peek(t)->kind != LEX_OUTPUT_END)
                unexpected(t, "}}");
            take(t);
        } else {
            bool ended = false;
            for (const char *const *e = ends; e && *e && !ended; e++)
                ended = is_name(t, *e);
            if (ended)
                break;
            *last = statement(t);
        }
        last = &(*last)->next;
    }
    t->depth--;
    return first;
}

/* ---- the template ---------------------------------------------------------------------------- */

/* Copies the source with line ends LF, without the last one. */
static void normalise(JinjaTemplate *t, const char *text, size_t n)
{
    t->source = arena_take(&t->arena, n + 1);
    if (!t->source)
        template_fail(t, 1, "out of memory");
    for (size_t i = 0; i < n; i++) {
        t->source[t->nsource++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    t->nsource -= t->nsource && t->source[t->nsource - 1] == '\n';
    t->source[t->nsource] = 0;
}

char *jinja_parse(JinjaTemplate **to, const char *text, size_t n)
{
    JinjaTemplate *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    if (!setjmp(t->fail)) {
        if (n > JINJA_TEXT)
            template_fail(t, 1, "the template is larger than %d bytes", JINJA_TEXT);
        if (utf8_check(text, n) != n || memchr(text, 0, n))
            template_fail(t, 1, "the template is not UTF-8");
        normalise(t, text, n);
        template_lex(t);
        t->body = statements(t, NULL);
        *to = t;
        return NULL;
    }
    char *error = t->error;
    jinja_free(t);
    return error;
}

void jinja_free(JinjaTemplate *t)
{
    if (t)
        arena_free(&t->arena);
    free(t);
}

bool jinja_mentions(const JinjaTemplate *t, const char *name)
{
    for (int i = 0; i < t->nnames; i++)
        if (!strcmp(t->name[i], name))
            return true;
    return false;
}

bool jinja_generates(const JinjaTemplate *t) { return t->generates; }
