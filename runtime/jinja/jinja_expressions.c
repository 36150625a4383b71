/* jinja_expressions.c -- lexemes to the nodes of an expression, by the grammar of Jinja's parser.
 *
 * Keeps: operators bind as in Jinja: filters and tests before powers, "~" between "*" and "+",
 *        "x if y else z" last. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/utf8.h"

static Node *unary(JinjaTemplate *t, bool filters);
static Node *disjunction(JinjaTemplate *t);

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
    Node *n = node_new(t, N_CONST);
    size_t room = 1, len = 0;
    for (int i = t->at; t->lexeme[i].kind == LEX_STRING; i++)
        room += t->lexeme[i].n;
    char *text = arena_take(&t->arena, room);
    if (!text)
        template_fail(t, n->line, "out of memory");
    while (lex_peek(t)->kind == LEX_STRING)
        len += unescape(t, lex_take(t), text + len);
    n->value = jv_string(text, len);
    name_intern(t, text, len < 64 ? len : 64);
    return n;
}

static Node *number(JinjaTemplate *t)
{
    const Lexeme *l = lex_take(t);
    Node *n = node_new(t, N_CONST);
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
    while (!lex_is_op(t, close)) {
        *last = parse_expression(t);
        last = &(*last)->next;
        if (!lex_is_op(t, close))
            lex_want_op(t, ",");
    }
    lex_take(t);
    return first;
}

static Node *dict(JinjaTemplate *t)
{
    Node *n = node_new(t, N_DICT), **last = &n->list;
    while (!lex_is_op(t, "}")) {
        Node *member = *last = node_new(t, N_NAMED);
        member->a = parse_expression(t);
        lex_want_op(t, ":");
        member->b = parse_expression(t);
        last = &member->next;
        if (!lex_is_op(t, "}"))
            lex_want_op(t, ",");
    }
    lex_take(t);
    return n;
}

bool parse_constant(const char *name, Value *to)
{
    if (!strcasecmp(name, "true") || !strcasecmp(name, "false"))
        *to = jv_bool((*name | 32) == 't');
    else if (!strcasecmp(name, "none"))
        *to = (Value){.kind = JV_NONE};
    else
        return false;
    return !strcmp(name + 1, "rue") || !strcmp(name + 1, "alse") || !strcmp(name + 1, "one");
}

Node *parse_tuple(JinjaTemplate *t, bool conditions, const char *end_name)
{
    Node *first = conditions ? parse_expression(t) : disjunction(t);
    if (!lex_is_op(t, ","))
        return first;
    Node *n = node_with(t, N_TUPLE, NULL, NULL), **last = &first->next;
    n->list = first;
    while (lex_take_op(t, ",")) {
        const LexKind k = lex_peek(t)->kind;
        if (k == LEX_BLOCK_END || k == LEX_OUTPUT_END || lex_is_op(t, ")") || lex_is_op(t, "=") ||
            (end_name && lex_is_name(t, end_name)))
            break;
        *last = conditions ? parse_expression(t) : disjunction(t);
        last = &(*last)->next;
    }
    return n;
}

static Node *primary(JinjaTemplate *t)
{
    const Lexeme *l = lex_peek(t);
    parse_deeper(t);
    Node *n = NULL;
    if (l->kind == LEX_NAME) {
        n = node_new(t, N_NAME);
        n->name = lex_want_name(t, "a name");
        if (parse_constant(n->name, &n->value))
            n->kind = N_CONST;
    } else if (l->kind == LEX_STRING) {
        n = string(t);
    } else if (l->kind == LEX_INT || l->kind == LEX_FLOAT) {
        n = number(t);
    } else if (lex_take_op(t, "(")) {
        if (lex_take_op(t, ")")) {
            n = node_new(t, N_TUPLE);
        } else {
            n = parse_tuple(t, true, NULL);
            lex_want_op(t, ")");
        }
    } else if (lex_take_op(t, "[")) {
        n = node_new(t, N_LIST);
        n->list = items(t, "]");
    } else if (lex_take_op(t, "{")) {
        n = dict(t);
    } else {
        lex_unexpected(t, "an expression");
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
    while (!lex_is_op(t, ")")) {
        if (lex_is_op(t, "**"))
            template_fail(t, lex_peek(t)->line, "arguments with ** are not supported");
        const Lexeme *l = lex_peek(t);
        if (l->kind == LEX_NAME && l[1].kind == LEX_OPERATOR && l[1].n == 1 && *l[1].at == '=') {
            Node *n = node_new(t, N_NAMED);
            n->name = lex_want_name(t, "a name");
            lex_take(t);
            n->a = parse_expression(t);
            *last = n;
            named = true;
        } else if (lex_take_op(t, "*")) {
            *last = node_new(t, N_NAMED);
            (*last)->a = parse_expression(t);
        } else if (named) {
            lex_unexpected(t, "NAME=");
        } else {
            *last = parse_expression(t);
        }
        last = &(*last)->next;
        if (!lex_is_op(t, ")"))
            lex_want_op(t, ",");
    }
    lex_take(t);
    return first;
}

static Node *subscript(JinjaTemplate *t, Node *of)
{
    Node *n = node_with(t, N_ITEM, of, NULL), *part[3] = {0};
    bool slice = false;
    for (int i = 0; i < 3 && !lex_is_op(t, "]"); i++) {
        if (!lex_is_op(t, ":"))
            part[i] = parse_expression(t);
        if (lex_is_op(t, "]"))
            break;
        lex_want_op(t, ":");
        slice = true;
    }
    lex_want_op(t, "]");
    if (!slice) {
        if (!part[0])
            lex_unexpected(t, "an index");
        n->b = part[0];
        return n;
    }
    n->kind = N_SLICE;
    n->b = part[0], n->c = part[1], n->d = part[2];
    return n;
}

static Node *call(JinjaTemplate *t, Node *of)
{
    Node *n = node_with(t, N_CALL, of, NULL);
    n->list = arguments(t);
    return n;
}

static Node *postfix(JinjaTemplate *t, Node *n)
{
    for (int links = 0;; links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, lex_peek(t)->line, "more than %d attributes in a row", JINJA_DEPTH);
        if (lex_take_op(t, ".")) {
            if (lex_peek(t)->kind == LEX_INT) {
                n = node_with(t, N_ITEM, n, number(t));
                continue;
            }
            n = node_with(t, N_ATTRIBUTE, n, NULL);
            n->name = lex_want_name(t, "an attribute");
            if (!strncmp(n->name, "__", 2))
                template_fail(t, n->line, "the attribute %.60s is not supported", n->name);
        } else if (lex_take_op(t, "[")) {
            n = subscript(t, n);
        } else if (lex_take_op(t, "(")) {
            n = call(t, n);
        } else {
            return n;
        }
    }
}

Node *parse_filter(JinjaTemplate *t, Node *of)
{
    Node *n = node_with(t, N_FILTER, of, NULL);
    n->line = lex_peek(t)->line;
    n->name = lex_want_name(t, "a filter");
    n->call = filter_find(n->name);
    if (!n->call || lex_is_op(t, "."))
        template_fail(t, n->line, "the filter %.60s is not supported", n->name);
    if (lex_take_op(t, "("))
        n->list = arguments(t);
    return n;
}

static Node *test(JinjaTemplate *t, Node *of)
{
    const bool negated = lex_take_name(t, "not");
    Node *n = node_with(t, N_TEST, of, NULL);
    n->line = lex_peek(t)->line;
    n->name = lex_want_name(t, "a test");
    n->call = test_find(n->name);
    if (!n->call || lex_is_op(t, "."))
        template_fail(t, n->line, "the test %.60s is not supported", n->name);
    const LexKind k = lex_peek(t)->kind;
    if (lex_take_op(t, "("))
        n->list = arguments(t);
    else if (lex_is_name(t, "is"))
        lex_unexpected(t, "one test");
    else if ((k == LEX_NAME && !lex_is_name(t, "else") && !lex_is_name(t, "or") &&
              !lex_is_name(t, "and")) ||
             k == LEX_STRING || k == LEX_INT || k == LEX_FLOAT || lex_is_op(t, "[") ||
             lex_is_op(t, "{"))
        n->list = postfix(t, primary(t));
    return negated ? node_with(t, N_NOT, n, NULL) : n;
}

static Node *filters_and_tests(JinjaTemplate *t, Node *n)
{
    for (int links = 0;; links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, lex_peek(t)->line, "more than %d filters in a row", JINJA_DEPTH);
        if (lex_take_op(t, "|"))
            n = parse_filter(t, n);
        else if (lex_take_name(t, "is"))
            n = test(t, n);
        else if (lex_take_op(t, "("))
            n = call(t, n);
        else
            return n;
    }
}

static Node *unary(JinjaTemplate *t, bool filters)
{
    parse_deeper(t);
    Node *n;
    if (lex_take_op(t, "-"))
        n = node_with(t, N_NEGATE, unary(t, false), NULL);
    else if (lex_take_op(t, "+"))
        n = node_with(t, N_PLUS, unary(t, false), NULL);
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
        if (!lex_is_op(t, "~"))
            return n;
        Node *all = node_with(t, N_CONCAT, NULL, NULL), **last = &n->next;
        all->list = n;
        while (lex_take_op(t, "~")) {
            *last = chain(t, rank - 1);
            last = &(*last)->next;
        }
        return all;
    }
    for (int links = 0;; links++) {
        size_t i = 0;
        while (i < sizeof row / sizeof *row && (row[i].rank != rank || !lex_is_op(t, row[i].word)))
            i++;
        if (i == sizeof row / sizeof *row)
            return n;
        if (links == JINJA_DEPTH)
            template_fail(t, lex_peek(t)->line, "more than %d operators in a row", JINJA_DEPTH);
        lex_take(t);
        n = node_with(t, N_BINARY, n, chain(t, rank - 1));
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
            op = lex_take_op(t, row[i].word) ? (int)row[i].op : -1;
        if (op < 0 && lex_take_name(t, "in")) {
            op = OP_IN;
        } else if (op < 0 && lex_is_name(t, "not") && lex_peek(t)[1].kind == LEX_NAME &&
                   lex_peek(t)[1].n == 2 && !memcmp(lex_peek(t)[1].at, "in", 2)) {
            lex_take(t), lex_take(t);
            op = OP_NOT_IN;
        }
        if (op < 0)
            return all ? all : n;
        if (!all) {
            all = node_with(t, N_COMPARE, n, NULL);
            last = &all->list;
        }
        Node *with = *last = node_new(t, N_NAMED);
        with->op = op;
        with->a = chain(t, 3);
        last = &with->next;
    }
}

static Node *negation(JinjaTemplate *t)
{
    if (!lex_take_name(t, "not"))
        return comparison(t);
    parse_deeper(t);
    Node *n = node_with(t, N_NOT, negation(t), NULL);
    t->depth--;
    return n;
}

/* Operands of "and", "or" are linked. */
static Node *junction(JinjaTemplate *t, const char *word, NodeKind kind,
                      Node *operand(JinjaTemplate *))
{
    Node *n = operand(t);
    if (!lex_is_name(t, word))
        return n;
    Node *all = node_with(t, kind, NULL, NULL), **last = &n->next;
    all->list = n;
    while (lex_take_name(t, word)) {
        *last = operand(t);
        last = &(*last)->next;
    }
    return all;
}

static Node *conjunction(JinjaTemplate *t) { return junction(t, "and", N_AND, negation); }
static Node *disjunction(JinjaTemplate *t) { return junction(t, "or", N_OR, conjunction); }

/* x if y else z: x in a, y in b, z in c or NULL. */
Node *parse_expression(JinjaTemplate *t)
{
    parse_deeper(t);
    Node *n = disjunction(t);
    for (int links = 0; lex_take_name(t, "if"); links++) {
        if (links == JINJA_DEPTH)
            template_fail(t, lex_peek(t)->line, "more than %d conditions in a row", JINJA_DEPTH);
        n = node_with(t, N_CONDITION, n, disjunction(t));
        if (lex_take_name(t, "else"))
            n->c = parse_expression(t);
    }
    t->depth--;
    return n;
}
