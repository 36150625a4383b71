/* jinja_parse.c -- lexemes to the nodes of a template, by the grammar of Jinja's parser. */
#include "runtime/jinja/jinja_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/files/utf8.h"

/* ---- statements ------------------------------------------------------------------------------ */

static Node *statements(JinjaTemplate *t, const char *const *ends);

/* The body of a statement up to one of `ends`, whose name is taken; ends is NULL-terminated. */
static Node *body(JinjaTemplate *t, const char *const *ends, const char **end)
{
    lex_want_end(t);
    Node *n = statements(t, ends);
    *end = lex_want_name(t, ends[0]);
    return n;
}

static Node *body_to(JinjaTemplate *t, const char *end)
{
    const char *which;
    Node *n = body(t, (const char *const[]){end, NULL}, &which);
    lex_want_end(t);
    return n;
}

/* A name, ns.name, or several names for the items of a tuple: NAME or ATTRIBUTE nodes, linked. */
static Node *targets(JinjaTemplate *t, bool spaces)
{
    Node *first = NULL, **last = &first;
    const bool bracket = lex_take_op(t, "(");
    do {
        Node *n = *last = node_new(t, N_NAME);
        n->name = lex_want_name(t, "a name");
        Value v;
        if (parse_constant(n->name, &v) || !strcmp(n->name, "loop"))
            template_fail(t, n->line, "%s cannot be set", n->name);
        if (spaces && lex_take_op(t, ".")) {
            n->kind = N_ATTRIBUTE;
            n->a = node_new(t, N_NAME);
            n->a->name = n->name;
            n->name = lex_want_name(t, "an attribute");
        }
        last = &n->next;
    } while (lex_take_op(t, ","));
    if (bracket)
        lex_want_op(t, ")");
    return first;
}

static Node *parse_if(JinjaTemplate *t)
{
    Node *n = node_new(t, N_IF);
    const char *end;
    n->a = parse_tuple(t, false, NULL);
    n->b = body(t, (const char *const[]){"endif", "else", "elif", NULL}, &end);
    if (!strcmp(end, "elif")) {
        parse_deeper(t);
        n->c = parse_if(t);
        t->depth--;
        return n;
    }
    if (!strcmp(end, "else"))
        n->c = body_to(t, "endif");
    else
        lex_want_end(t);
    return n;
}

/* {% for list in a if b %} c {% else %} d */
static Node *parse_for(JinjaTemplate *t)
{
    Node *n = node_new(t, N_FOR);
    const char *end;
    n->list = targets(t, false);
    if (!lex_take_name(t, "in"))
        lex_unexpected(t, "in");
    n->a = parse_tuple(t, false, "recursive");
    if (lex_take_name(t, "if"))
        n->b = parse_expression(t);
    if (lex_is_name(t, "recursive"))
        template_fail(t, n->line, "recursive loops are not supported");
    t->loops++;
    n->c = body(t, (const char *const[]){"endfor", "else", NULL}, &end);
    t->loops--;
    if (!strcmp(end, "else"))
        n->d = body_to(t, "endfor");
    else
        lex_want_end(t);
    return n;
}

static Node *parse_set(JinjaTemplate *t)
{
    Node *n = node_new(t, N_SET);
    n->list = targets(t, true);
    if (lex_take_op(t, "=")) {
        n->a = parse_tuple(t, true, NULL);
        lex_want_end(t);
        return n;
    }
    n->kind = N_SET_BLOCK;
    if (n->list->next)
        lex_unexpected(t, "=");
    for (Node *of = NULL; lex_take_op(t, "|");)
        n->a = of = parse_filter(t, of);
    n->b = body_to(t, "endset");
    return n;
}

/* Parameters: NAMED nodes with a default in a, or NULL. */
static Node *parse_macro(JinjaTemplate *t)
{
    Node *n = node_new(t, N_MACRO), **last = &n->list;
    n->name = lex_want_name(t, "the name of a macro");
    lex_want_op(t, "(");
    while (!lex_is_op(t, ")")) {
        Node *p = *last = node_new(t, N_NAMED);
        p->name = lex_want_name(t, "a parameter");
        if (lex_take_op(t, "="))
            p->a = parse_expression(t);
        last = &p->next;
        if (!lex_is_op(t, ")"))
            lex_want_op(t, ",");
    }
    lex_take(t);
    const int loops = t->loops;
    t->loops = 0;
    n->b = body_to(t, "endmacro");
    t->loops = loops;
    return n;
}

static Node *parse_generation(JinjaTemplate *t)
{
    Node *n = node_new(t, N_GENERATION);
    const int loops = t->loops;
    t->loops = 0;
    n->b = body_to(t, "endgeneration");
    t->loops = loops;
    t->generates = true;
    return n;
}

static Node *parse_filter_block(JinjaTemplate *t)
{
    Node *n = node_new(t, N_FILTER_BLOCK);
    n->a = parse_filter(t, NULL);
    while (lex_take_op(t, "|"))
        n->a = parse_filter(t, n->a);
    n->b = body_to(t, "endfilter");
    return n;
}

static Node *parse_jump(JinjaTemplate *t, NodeKind kind)
{
    Node *n = node_new(t, kind);
    if (!t->loops)
        template_fail(t, n->line, "%s outside of a loop", kind == N_BREAK ? "break" : "continue");
    lex_want_end(t);
    return n;
}

static Node *statement(JinjaTemplate *t)
{
    if (lex_peek(t)->kind != LEX_NAME)
        lex_unexpected(t, "a statement");
    if (lex_take_name(t, "if"))
        return parse_if(t);
    if (lex_take_name(t, "for"))
        return parse_for(t);
    if (lex_take_name(t, "set"))
        return parse_set(t);
    if (lex_take_name(t, "macro"))
        return parse_macro(t);
    if (lex_take_name(t, "generation"))
        return parse_generation(t);
    if (lex_take_name(t, "filter"))
        return parse_filter_block(t);
    if (lex_take_name(t, "break"))
        return parse_jump(t, N_BREAK);
    if (lex_take_name(t, "continue"))
        return parse_jump(t, N_CONTINUE);
    const Lexeme *l = lex_peek(t);
    template_fail(t, l->line, "the statement %.*s is not supported here",
                  l->n < 40 ? (int)l->n : 40, l->at);
}

/* Text, outputs and statements, linked, up to a tag that begins with one of `ends`, or the end of
 * the template (NULL). */
static Node *statements(JinjaTemplate *t, const char *const *ends)
{
    Node *first = NULL, **last = &first;
    parse_deeper(t);
    for (;;) {
        const Lexeme *l = lex_take(t);
        if (l->kind == LEX_EOF) {
            if (ends)
                template_fail(t, l->line, "the template ends before %s", ends[0]);
            break;
        }
        if (l->kind == LEX_TEXT) {
            *last = node_new(t, N_TEXT);
            (*last)->value = jv_string(l->at, l->n);
        } else if (l->kind == LEX_OUTPUT) {
            Node *n = *last = node_new(t, N_OUTPUT);
            n->a = parse_tuple(t, true, NULL);
            if (lex_peek(t)->kind != LEX_OUTPUT_END)
                lex_unexpected(t, "}}");
            lex_take(t);
        } else {
            bool ended = false;
            for (const char *const *e = ends; e && *e && !ended; e++)
                ended = lex_is_name(t, *e);
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
