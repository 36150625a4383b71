/* jinja_lex.c -- the source of a template to lexemes, as Jinja's lexer does with trim_blocks and
 * lstrip_blocks.
 *
 * Keeps: white space next to a tag: "-" strips all of it; else a line end after %} or #} goes, and
 *        blanks before {% or {# on a line of their own, unless the sign is "+". */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <string.h>

#include "runtime/files/utf8.h"

typedef struct {
    JinjaTemplate *t;
    const char *s;               /* (n) */
    size_t n, at;
    int line, cap;
    bool line_starts;            /* the last tag took a line end */
} Lexer;

static void lexeme_put(Lexer *x, LexKind kind, int line, const char *at, size_t n)
{
    JinjaTemplate *t = x->t;
    if (t->nlexemes == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 1024;
        Lexeme *more = arena_take(&t->arena, (size_t)x->cap * sizeof *more);
        if (!more)
            template_fail(t, line, "out of memory");
        if (t->nlexemes)
            memcpy(more, t->lexeme, (size_t)t->nlexemes * sizeof *more);
        t->lexeme = more;
    }
    t->lexeme[t->nlexemes++] = (Lexeme){kind, line, at, n};
}

/* Advances to `to`, counting lines. */
static void lexer_go(Lexer *x, size_t to)
{
    for (; x->at < to; x->at++)
        x->line += x->s[x->at] == '\n';
}

/* Returns the offset after white space from `at` on. */
static size_t after_space(const Lexer *x, size_t at)
{
    for (int len; at < x->n; at += (size_t)len) {
        len = utf8_length_at(x->s, x->n, at);
        if (!is_space(utf8_value(x->s + at, len)))
            break;
    }
    return at;
}

/* Returns the offset of the end of [from, to) without its trailing white space. */
static size_t before_space(const Lexer *x, size_t from, size_t to)
{
    while (to > from) {
        const size_t at = utf8_before(x->s, to);
        if (!is_space(utf8_value(x->s + at, (int)(to - at))))
            break;
        to = at;
    }
    return to;
}

static bool has_at(const Lexer *x, size_t at, const char *word)
{
    const size_t n = strlen(word);
    return x->n - at >= n && !memcmp(x->s + at, word, n);
}

/* Ends a tag whose last two characters are at `end`; sign: the character before them. `trims`: a
 * line end that follows belongs to it. */
static void tag_end(Lexer *x, size_t end, char sign, bool trims)
{
    size_t to = end + 2;
    if (sign == '-')
        to = after_space(x, to);
    else if (trims && sign != '+' && to < x->n && x->s[to] == '\n')
        to++;
    lexer_go(x, to);
    x->line_starts = x->at && x->s[x->at - 1] == '\n';
}

/* Puts the text [x->at, to) before a tag with this sign. strips: blanks on the tag's line go. */
static void text_put(Lexer *x, size_t to, char sign, bool strips)
{
    size_t end = to;
    if (sign == '-') {
        end = before_space(x, x->at, to);
    } else if (sign != '+' && strips) {
        size_t line = to;
        while (line > x->at && x->s[line - 1] != '\n')
            line--;
        if ((line > x->at || x->line_starts) && before_space(x, line, to) == line)
            end = line;
    }
    if (end > x->at)
        lexeme_put(x, LEX_TEXT, x->line, x->s + x->at, end - x->at);
    lexer_go(x, to);
}

/* ---- inside a tag ---------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool starts_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A number: digits with underscores between them, for a float a fraction, an exponent, or both. */
static size_t digits_end(const Lexer *x, size_t at)
{
    while (at < x->n && (is_digit(x->s[at]) ||
                         (x->s[at] == '_' && at + 1 < x->n && is_digit(x->s[at + 1]))))
        at++;
    return at;
}

static void lex_number(Lexer *x)
{
    size_t end = digits_end(x, x->at);
    bool real = false;
    if (x->at && x->s[x->at - 1] == '.') {       /* of an attribute: x.0.1 */
    } else {
        if (end + 1 < x->n && x->s[end] == '.' && is_digit(x->s[end + 1]))
            real = true, end = digits_end(x, end + 1);
        if (end < x->n && (x->s[end] == 'e' || x->s[end] == 'E')) {
            size_t e = end + 1;
            e += e < x->n && (x->s[e] == '+' || x->s[e] == '-');
            if (e < x->n && is_digit(x->s[e]))
                real = true, end = digits_end(x, e);
        }
    }
    if (end < x->n && starts_name(x->s[end]))
        template_fail(x->t, x->line, "the number %.*s is followed by a letter",
                      (int)(end - x->at), x->s + x->at);
    lexeme_put(x, real ? LEX_FLOAT : LEX_INT, x->line, x->s + x->at, end - x->at);
    x->at = end;
}

static void lex_string(Lexer *x)
{
    const char quote = x->s[x->at];
    size_t end = x->at + 1;
    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n)
        template_fail(x->t, x->line, "a string does not end");
    lexeme_put(x, LEX_STRING, x->line, x->s + x->at + 1, end - x->at - 1);
    lexer_go(x, end + 1);
}

static void lex_operator(Lexer *x, int *open)
{
    static const char *const two[] = {"**", "==", "!=", ">=", "<=", "//"};
    const char c = x->s[x->at];
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (has_at(x, x->at, two[i]))
            n = 2;
    if (n == 1 && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
        template_fail(x->t, x->line, "the character \"%c\" is not part of an expression",
                      c > ' ' && c < 0x7f ? c : '?');
    *open += c == '(' || c == '[' || c == '{';
    *open -= c == ')' || c == ']' || c == '}';
    lexeme_put(x, LEX_OPERATOR, x->line, x->s + x->at, n);
    x->at += n;
}

/* The lexemes of a tag up to its end, "%}" or "}}". */
static void lex_tag(Lexer *x, bool block)
{
    const char *end = block ? "%}" : "}}";
    const int line = x->line;
    int open = 0;
    for (;;) {
        lexer_go(x, after_space(x, x->at));
        if (x->at == x->n)
            template_fail(x->t, line, "a tag does not end with %s", end);
        const char c = x->s[x->at];
        const bool sign = (c == '-' || (c == '+' && block)) && has_at(x, x->at + 1, end);
        if (open <= 0 && (sign || has_at(x, x->at, end))) {
            lexeme_put(x, block ? LEX_BLOCK_END : LEX_OUTPUT_END, x->line, x->s + x->at, 2);
            tag_end(x, x->at + sign, sign ? c : 0, block);
            return;
        }
        if (is_digit(c)) {
            lex_number(x);
        } else if (c == '\'' || c == '"') {
            lex_string(x);
        } else if (starts_name(c)) {
            size_t to = x->at;
            while (to < x->n && (starts_name(x->s[to]) || is_digit(x->s[to])))
                to++;
            lexeme_put(x, LEX_NAME, x->line, x->s + x->at, to - x->at);
            x->at = to;
        } else {
            lex_operator(x, &open);
        }
    }
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void lex_comment(Lexer *x)
{
    const char *end = memmem(x->s + x->at, x->n - x->at, "#}", 2);
    if (!end)
        template_fail(x->t, x->line, "a comment does not end with #}");
    const size_t at = (size_t)(end - x->s);
    tag_end(x, at, at > x->at ? end[-1] : 0, true);
}

/* If the tag at `at`, after its sign, is the word and its end, returns the offset of that end, with
 * the sign before it in *sign; else 0. */
static size_t word_tag(const Lexer *x, size_t at, const char *word, char *sign)
{
    at = after_space(x, at);
    if (!has_at(x, at, word))
        return 0;
    at = after_space(x, at + strlen(word));
    *sign = at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at] : 0;
    at += *sign != 0;
    return at < x->n && has_at(x, at, "%}") ? at : 0;
}

/* The text of {% raw %} up to its {% endraw %}; x->at is after the first. */
static void lex_raw(Lexer *x)
{
    for (size_t at = x->at; at + 1 < x->n; at++) {
        if (!has_at(x, at, "{%"))
            continue;
        const char c = at + 2 < x->n ? x->s[at + 2] : 0, sign = c == '-' || c == '+' ? c : 0;
        char last;
        const size_t end = word_tag(x, at + 2 + (sign != 0), "endraw", &last);
        if (!end)
            continue;
        text_put(x, at, sign, true);
        tag_end(x, end, last, true);
        return;
    }
    template_fail(x->t, x->line, "raw does not end with endraw");
}

static size_t next_tag(const Lexer *x)
{
    for (size_t at = x->at; at + 1 < x->n; at++)
        if (x->s[at] == '{' && strchr("{%#", x->s[at + 1]))
            return at;
    return x->n;
}

void template_lex(JinjaTemplate *t)
{
    Lexer x = {.t = t, .s = t->source, .n = t->nsource, .line = 1, .line_starts = true};
    while (x.at < x.n) {
        const size_t at = next_tag(&x);
        if (at == x.n) {
            text_put(&x, at, '+', false);
            break;
        }
        const char kind = x.s[at + 1], c = at + 2 < x.n ? x.s[at + 2] : 0;
        const char sign = c == '-' || c == '+' ? c : 0;
        text_put(&x, at, sign, kind != '{');
        lexer_go(&x, at + 2 + (sign != 0));
        char last;
        const size_t raw = kind == '%' ? word_tag(&x, x.at, "raw", &last) : 0;
        if (kind == '#') {
            lex_comment(&x);
        } else if (raw && last != '+') {
            tag_end(&x, raw, last, false);
            lex_raw(&x);
        } else {
            lexeme_put(&x, kind == '%' ? LEX_BLOCK : LEX_OUTPUT, x.line, x.s + at, 2);
            lex_tag(&x, kind == '%');
        }
    }
    lexeme_put(&x, LEX_EOF, x.line, x.s + x.n, 0);
}
