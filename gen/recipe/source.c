/* source.c -- line numbers of table keys in Lua source, which Lua itself does not keep.
 *
 * In:     the text of a recipe.
 * Out:    its table constructors with the line of every key; the same text with a call around each
 *         constructor that passes the new table to a function.
 * Keeps:  nothing is evaluated; no line moves; text that is not Lua gives some result, never an
 *         error.
 * Method: one pass over the tokens with a stack of open braces, brackets and blocks. */
#define _GNU_SOURCE
#include "gen/recipe/recipe.h"

#include <ctype.h>
#include <string.h>

enum { TK_END, TK_NAME, TK_STRING, TK_OTHER };

typedef struct {
    int kind, line;
    char c;                  /* TK_OTHER: the character; '=': a single = only */
    char *text;              /* TK_NAME, TK_STRING (escapes not decoded) */
} Token;

typedef struct {
    const char *p, *end;
    int line;
} Lexer;

typedef struct Open Open;
struct Open {
    Open *up;
    char kind;               /* { ( [ or b: a block that ends with `end` or `until` */
    Ctor *ctor;              /* of a { */
    bool at_field;           /* of a {: the next token begins a field */
};

/* At "[": the number of = in a long bracket, or -1. */
static int long_level(const Lexer *x)
{
    const char *q = x->p + 1;
    while (q < x->end && *q == '=')
        q++;
    return q < x->end && *q == '[' ? (int)(q - x->p - 1) : -1;
}

static void skip_long(Lexer *x, int level)
{
    for (x->p += level + 2; x->p < x->end; x->p++) {
        if (*x->p == '\n')
            x->line++;
        if (*x->p != ']')
            continue;
        const char *q = x->p + 1;
        int k = 0;
        while (q < x->end && *q == '=')
            q++, k++;
        if (q < x->end && *q == ']' && k == level) {
            x->p = q + 1;
            return;
        }
    }
}

static void skip_space(Lexer *x)
{
    while (x->p < x->end) {
        if (*x->p == '\n')
            x->line++, x->p++;
        else if (isspace((unsigned char)*x->p))
            x->p++;
        else if (*x->p == '-' && x->p + 1 < x->end && x->p[1] == '-') {
            x->p += 2;
            int level = x->p < x->end && *x->p == '[' ? long_level(x) : -1;
            if (level >= 0)
                skip_long(x, level);
            else
                while (x->p < x->end && *x->p != '\n')
                    x->p++;
        } else
            return;
    }
}

static char *cut(const char *p, const char *q)
{
    char *s = arena_new((size_t)(q - p) + 1);
    memcpy(s, p, (size_t)(q - p));
    return s;
}

static Token quoted(Lexer *x)
{
    Token t = {TK_STRING, x->line, 0, NULL};
    char q = *x->p++;
    const char *from = x->p;
    while (x->p < x->end && *x->p != q && *x->p != '\n') {
        if (*x->p == '\\' && x->p + 1 < x->end && *++x->p == 'z')
            while (x->p + 1 < x->end && isspace((unsigned char)x->p[1]))
                x->line += *++x->p == '\n';
        else
            x->line += *x->p == '\n';
        x->p++;
    }
    t.text = cut(from, x->p);
    if (x->p < x->end && *x->p == q)
        x->p++;
    return t;
}

static Token next(Lexer *x)
{
    skip_space(x);
    Token t = {TK_END, x->line, 0, NULL};
    if (x->p >= x->end)
        return t;
    const char *from = x->p;
    char c = *from;
    if (isalpha((unsigned char)c) || c == '_') {
        while (x->p < x->end && (isalnum((unsigned char)*x->p) || *x->p == '_'))
            x->p++;
        t.kind = TK_NAME;
        t.text = cut(from, x->p);
    } else if (c == '"' || c == '\'') {
        return quoted(x);
    } else if (c == '[' && long_level(x) >= 0) {
        skip_long(x, long_level(x));
        t.kind = TK_STRING;
        t.text = cut(from, x->p);
    } else if (isdigit((unsigned char)c)) {
        while (x->p < x->end && (isalnum((unsigned char)*x->p) || *x->p == '.'))
            x->p++;
        t.kind = TK_OTHER;
        t.c = '0';
    } else {
        t.kind = TK_OTHER;
        bool pair = x->p + 1 < x->end && x->p[1] == '=' && strchr("=~<>", c);
        t.c = pair ? 'o' : c;
        x->p += pair ? 2 : 1;
    }
    return t;
}

static CtorField *add_field(CtorField **list, int *n, int *cap)
{
    if (*n == *cap) {
        int more = *cap ? 2 * *cap : 8;
        *list = arena_grow(*list, (size_t)*n * sizeof **list, (size_t)more * sizeof **list);
        *cap = more;
    }
    return &(*list)[(*n)++];
}

static Ctor *add_ctor(Source *s, int line)
{
    if (s->nctors == s->capctors) {
        int more = s->capctors ? 2 * s->capctors : 8;
        s->ctor = arena_grow(s->ctor, (size_t)s->nctors * sizeof *s->ctor,
                             (size_t)more * sizeof *s->ctor);
        s->capctors = more;
    }
    Ctor *c = arena_new(sizeof *c);
    c->line = line;
    return s->ctor[s->nctors++] = c;
}

/* Adds the field that begins with token t. Returns the token after its `key =`, if any. */
static Token begin_field(Lexer *x, const char *file, Ctor *c, Token t)
{
    Lexer back = *x;
    CtorField f = {.line = t.line};
    Token after = t;
    if (t.kind == TK_NAME) {
        Token eq = next(x);
        if (eq.kind == TK_OTHER && eq.c == '=') {
            f.key = t.text;
            after = next(x);
        }
    } else if (t.kind == TK_OTHER && t.c == '[') {
        Token key = next(x), close = next(x), eq = next(x);
        if (key.kind == TK_STRING && close.c == ']' && eq.kind == TK_OTHER && eq.c == '=') {
            f.key = key.text;
            after = next(x);
        }
    }
    if (!f.key)
        *x = back;
    for (int i = 0; f.key && i < c->n; i++)
        if (c->field[i].key && !strcmp(c->field[i].key, f.key)) {
            err_add((Loc){file, f.line}, "%s: set twice in one table; first in line %d", f.key,
                    c->field[i].line);
            break;
        }
    *add_field(&c->field, &c->n, &c->cap) = f;
    return after;
}

static bool is_word(Token t, const char *words)
{
    if (t.kind != TK_NAME)
        return false;
    const char *hit = strstr(words, t.text);
    size_t n = strlen(t.text);
    return hit && (hit == words || hit[-1] == ' ') && (hit[n] == ' ' || !hit[n]);
}

static Open *push(Open *up, char kind, Ctor *c)
{
    Open *o = arena_new(sizeof *o);
    *o = (Open){up, kind, c, kind == '{'};
    return o;
}

/* Appends the source from *from to `to`, then `added`, to the marked text. */
static void mark(Source *s, const char **from, const char *to, const char *added)
{
    while (*from < to) {                       /* a string may hold a NUL byte */
        size_t k = strnlen(*from, (size_t)(to - *from));
        str_print(&s->marked, k ? "%.*s" : "%.*s%c", (int)k, *from, 0);
        *from += k ? k : 1;
    }
    str_print(&s->marked, "%s", added);
}

Source *source_scan(const char *file, const char *text, size_t n)
{
    Source *s = arena_new(sizeof *s);
    s->file = file;
    s->return_line = 1;
    str_print(&s->marked, "local __place = ...; ");
    Lexer x = {text, text + n, 1};
    const char *from = text;                   /* end of what is in the marked text */
    Open *open = NULL;
    Token last = {TK_OTHER, 1, 0, NULL};       /* the token before t */
    for (Token t = next(&x); t.kind != TK_END; last = t, t = next(&x)) {
        if (open && open->kind == '{' && open->at_field && t.c != '}') {
            open->at_field = false;
            t = begin_field(&x, file, open->ctor, t);
            if (t.kind == TK_END)
                break;
        } else if (t.c == '='
                   && (last.kind == TK_NAME || last.kind == TK_STRING || last.c == ']')) {
            if (last.text)
                *add_field(&s->set, &s->nsets, &s->capsets) =
                    (CtorField){.key = last.text, .line = last.line};
            continue;
        }
        if (t.kind == TK_OTHER && t.c == '{') {
            mark(s, &from, x.p - 1, text_print("(__place(%d,", s->nctors));
            open = push(open, '{', add_ctor(s, t.line));
        } else if (t.kind == TK_OTHER && strchr("([", t.c)) {
            open = push(open, t.c, NULL);
        } else if (is_word(t, "function do if repeat")) {
            open = push(open, 'b', NULL);
        } else if (open && (t.kind == TK_OTHER ? strchr(")]}", t.c) != NULL
                                               : is_word(t, "end until"))) {
            if (open->kind == '{')
                mark(s, &from, x.p, "))");
            open = open->up;
        } else if (open && open->kind == '{' && t.kind == TK_OTHER && strchr(",;", t.c)) {
            open->at_field = true;
        } else if (!open && is_word(t, "return")) {
            s->return_line = t.line;
        }
    }
    mark(s, &from, text + n, "");
    return s;
}
