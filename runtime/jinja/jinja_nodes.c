/* jinja_nodes.c -- the parser's position in the lexemes, interned names, and new nodes. */
#include "runtime/jinja/jinja_grammar.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

const char *name_intern(JinjaTemplate *t, const char *s, size_t n)
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

const Lexeme *lex_peek(const JinjaTemplate *t) { return &t->lexeme[t->at]; }

const Lexeme *lex_take(JinjaTemplate *t)
{
    const Lexeme *l = lex_peek(t);
    t->at += l->kind != LEX_EOF;
    return l;
}

static bool is(const JinjaTemplate *t, LexKind kind, const char *word)
{
    const Lexeme *l = lex_peek(t);
    return l->kind == kind && strlen(word) == l->n && !memcmp(l->at, word, l->n);
}

bool lex_is_name(const JinjaTemplate *t, const char *name) { return is(t, LEX_NAME, name); }
bool lex_is_op(const JinjaTemplate *t, const char *op) { return is(t, LEX_OPERATOR, op); }

bool lex_take_name(JinjaTemplate *t, const char *word)
{
    return lex_is_name(t, word) ? lex_take(t), true : false;
}

bool lex_take_op(JinjaTemplate *t, const char *word)
{
    return lex_is_op(t, word) ? lex_take(t), true : false;
}

void lex_unexpected(JinjaTemplate *t, const char *want)
{
    const Lexeme *l = lex_peek(t);
    if (l->kind == LEX_EOF)
        template_fail(t, l->line, "expected %s, got the end of the template", want);
    if (l->kind == LEX_BLOCK_END || l->kind == LEX_OUTPUT_END)
        template_fail(t, l->line, "expected %s, got the end of the tag", want);
    template_fail(t, l->line, "expected %s, got \"%.*s\"", want, l->n < 40 ? (int)l->n : 40, l->at);
}

void lex_want_op(JinjaTemplate *t, const char *word)
{
    if (!lex_take_op(t, word))
        lex_unexpected(t, word);
}

void lex_want_end(JinjaTemplate *t)
{
    if (lex_peek(t)->kind != LEX_BLOCK_END)
        lex_unexpected(t, "%}");
    lex_take(t);
}

const char *lex_want_name(JinjaTemplate *t, const char *what)
{
    if (lex_peek(t)->kind != LEX_NAME)
        lex_unexpected(t, what);
    const Lexeme *l = lex_take(t);
    return name_intern(t, l->at, l->n);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

Node *node_new(JinjaTemplate *t, NodeKind kind)
{
    Node *n = arena_take(&t->arena, sizeof *n);
    if (!n || ++t->nodes > JINJA_NODES)
        template_fail(t, lex_peek(t)->line, "more than %d expressions", JINJA_NODES);
    n->kind = kind;
    n->line = lex_peek(t)->line;
    return n;
}

Node *node_with(JinjaTemplate *t, NodeKind kind, Node *a, Node *b)
{
    Node *n = node_new(t, kind);
    n->a = a;
    n->b = b;
    n->line = a ? a->line : n->line;
    return n;
}

void parse_deeper(JinjaTemplate *t)
{
    if (++t->depth > JINJA_DEPTH)
        template_fail(t, lex_peek(t)->line, "nested deeper than %d levels", JINJA_DEPTH);
}
