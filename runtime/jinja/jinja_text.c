/* jinja_text.c -- filters and methods of strings, and numbers of strings. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_code.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/files/utf8.h"

/* ---- letters --------------------------------------------------------------------------------- */

/* The whole of v in small letters, capitals ...: only of ASCII, as others change in number. */
static Value cased(Run *r, const Value *v, int how(int c, bool starts), const char *what)
{
    const Value s = jv_text(r, v);
    char *to = run_take(r, s.n + 1);
    bool starts = true;
    for (size_t i = 0; i < s.n; i++) {
        const unsigned char c = (unsigned char)s.s[i];
        if (c >= 0x80)
            run_fail(r, "%s: letters other than ASCII are not supported", what);
        to[i] = (char)how(c, starts);
        starts = !((c | 32) >= 'a' && (c | 32) <= 'z');
    }
    return jv_string(to, s.n);
}

static int upper_of(int c, bool starts)
{
    (void)starts;
    return c >= 'a' && c <= 'z' ? c - 32 : c;
}

static int lower_of(int c, bool starts)
{
    (void)starts;
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static int title_of(int c, bool starts) { return starts ? upper_of(c, 0) : lower_of(c, 0); }

Value code_upper(CALL) { UNUSED; return cased(r, self, upper_of, "upper"); }

/* Not of the two capitals that become two, or depend on others. */
Value text_lowered(Run *r, const Value *v)
{
    const Value s = jv_text(r, v);
    char *to = run_take(r, 2 * s.n + 1), *put = to;
    run_steps(r, s.n);
    for (size_t at = 0; at < s.n;) {
        const int len = utf8_length_at(s.s, s.n, at);
        const uint32_t c = utf8_value(s.s + at, len);
        if (c == 0x130 || c == 0x3a3)
            run_fail(r, "lower: the letter U+%04X is not supported", c);
        put += utf8_put(put, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        at += (size_t)len;
    }
    return jv_string(to, (size_t)(put - to));
}

Value code_lower(CALL) { UNUSED; return text_lowered(r, self); }

Value code_title_method(CALL) { UNUSED; return cased(r, self, title_of, "title"); }

/* Jinja's: words begin after white space and "-([{<". */
Value code_title(CALL)
{
    UNUSED;
    const Value s = cased(r, self, lower_of, "title");
    char *to = run_take(r, s.n + 1);
    for (size_t i = 0; i < s.n; i++) {
        const char *mark = i ? strchr("-([{<", s.s[i - 1]) : NULL;
        const bool starts = !i || mark || is_space((unsigned char)s.s[i - 1]);
        to[i] = (char)(starts ? upper_of(s.s[i], 0) : s.s[i]);
    }
    return jv_string(to, s.n);
}

Value code_capitalize(CALL)
{
    UNUSED;
    const Value s = cased(r, self, lower_of, "capitalize");
    if (!s.n)
        return s;
    char *to = run_take(r, s.n);
    memcpy(to, s.s, s.n);
    *to = (char)upper_of(*to, 0);
    return jv_string(to, s.n);
}

/* ---- strings --------------------------------------------------------------------------------- */

static Value stripped(Run *r, const Value *self, const Value *chars, bool left, bool right)
{
    const Value s = jv_text(r, self);
    const bool has = given(chars) && chars->kind != JV_NONE;
    const Value set = has ? want_string(r, chars, "strip") : (Value){0};
    run_steps(r, s.n);
    return string_strip(s, has ? &set : NULL, left, right);
}

Value code_trim(CALL) { UNUSED; return stripped(r, self, arg, true, true); }
Value code_strip(CALL) { UNUSED; return stripped(r, self, arg, true, true); }
Value code_lstrip(CALL) { UNUSED; return stripped(r, self, arg, true, false); }
Value code_rstrip(CALL) { UNUSED; return stripped(r, self, arg, false, true); }

Value code_split(CALL)
{
    UNUSED;
    Value all = jv_list(r, LIST_LIST, 0), rest = *self;
    int cap = 0;
    const bool blank = !given(&arg[0]) || arg[0].kind == JV_NONE;
    const Value sep = blank ? (Value){0} : want_string(r, &arg[0], "split");
    int64_t most = given(&arg[1]) ? want_int(r, &arg[1], "split") : -1;
    rest.flags = 0;
    run_steps(r, rest.n);
    if (!blank && !sep.n)
        run_fail(r, "split: empty separator");
    if (blank)
        rest = string_strip(rest, NULL, true, false);
    while (rest.n || !blank) {
        size_t at = rest.n, gap = 0;
        if (!blank) {
            const char *found = most ? memmem(rest.s, rest.n, sep.s, sep.n) : NULL;
            at = found ? (size_t)(found - rest.s) : rest.n;
            gap = found ? sep.n : 0;
        }
        for (size_t i = 0; blank && most && i < rest.n;) {
            const int len = utf8_length_at(rest.s, rest.n, i);
            if (is_space(utf8_value(rest.s + i, len))) {
                at = i;
                break;
            }
            i += (size_t)len;
        }
        Value piece = jv_string(rest.s, at);
        if (blank && at == rest.n && !most)
            piece = string_strip(piece, NULL, false, true);
        list_add(r, all.list, &cap, piece);
        rest.s += at + gap;
        rest.n -= at + gap;
        most -= most > 0;
        if (blank)
            rest = string_strip(rest, NULL, true, false);
        else if (!gap)
            break;
    }
    return all;
}

/* From the right, at a separator. */
Value code_rsplit(CALL)
{
    UNUSED;
    if (!given(&arg[0]) || arg[0].kind == JV_NONE)
        run_fail(r, "rsplit: needs a separator");
    const Value sep = want_string(r, &arg[0], "rsplit");
    const int64_t most = given(&arg[1]) ? want_int(r, &arg[1], "rsplit") : -1;
    Value back = jv_list(r, LIST_LIST, 0);
    int cap = 0;
    size_t end = self->n;
    if (!sep.n)
        run_fail(r, "rsplit: empty separator");
    run_steps(r, self->n);
    for (size_t at = self->n; at-- > 0;)
        if (at + sep.n <= end && back.list->n != most && !memcmp(self->s + at, sep.s, sep.n)) {
            list_add(r, back.list, &cap,
                     jv_string(self->s + at + sep.n, end - at - sep.n));
            end = at;
        }
    list_add(r, back.list, &cap, jv_string(self->s, end));
    Value all = jv_list(r, LIST_LIST, back.list->n);
    for (int i = 0; i < back.list->n; i++)
        all.list->item[i] = back.list->item[back.list->n - 1 - i];
    return all;
}

Value code_splitlines(CALL)
{
    UNUSED;
    Value all = jv_list(r, LIST_LIST, 0);
    int cap = 0;
    run_steps(r, self->n);
    for (size_t at = 0, i = 0; i <= self->n; i++) {
        const unsigned char c = i < self->n ? (unsigned char)self->s[i] : '\n';
        if (i == self->n && at == i)
            break;
        if (i < self->n && ((c >= 0xb && c <= 0xc) || (c >= 0x1c && c <= 0x1e) || c >= 0x80))
            run_fail(r, "splitlines: only \\n and \\r are supported as line ends in ASCII");
        if (c != '\n' && c != '\r')
            continue;
        list_add(r, all.list, &cap, jv_string(self->s + at, i - at));
        i += c == '\r' && i + 1 < self->n && self->s[i + 1] == '\n';
        at = i + 1;
    }
    return all;
}

static bool affix(Run *r, const Value *self, const Value *affix, bool end)
{
    if (affix->kind == JV_LIST && affix->list->kind == LIST_TUPLE) {
        for (int i = 0; i < affix->list->n; i++) {
            const Value s = want_string(r, &affix->list->item[i], "startswith, endswith");
            if (s.n <= self->n && !memcmp(self->s + (end ? self->n - s.n : 0), s.s, s.n))
                return true;
        }
        return false;
    }
    const Value s = want_string(r, affix, end ? "endswith" : "startswith");
    return s.n <= self->n && !memcmp(self->s + (end ? self->n - s.n : 0), s.s, s.n);
}

Value code_starts_with(CALL) { UNUSED; return jv_bool(affix(r, self, &arg[0], false)); }
Value code_ends_with(CALL) { UNUSED; return jv_bool(affix(r, self, &arg[0], true)); }

Value code_replace(CALL)
{
    UNUSED;
    const Value s = jv_text(r, self), from = want_string(r, &arg[0], "replace"),
                to = want_string(r, &arg[1], "replace");
    int64_t most = given(&arg[2]) && arg[2].kind != JV_NONE ? want_int(r, &arg[2], "replace") : -1;
    if (!from.n)
        run_fail(r, "replace: an empty text cannot be replaced");
    size_t count = 0;
    run_steps(r, s.n);
    for (const char *at = s.s, *end = s.s + s.n; most < 0 || (int64_t)count < most; at += from.n) {
        at = memmem(at, (size_t)(end - at), from.s, from.n);
        if (!at)
            break;
        count++;
    }
    char *out = run_take(r, s.n + count * to.n + 1), *put = out;
    const char *at = s.s;
    for (size_t i = 0; i < count; i++) {
        const char *found = memmem(at, (size_t)(s.s + s.n - at), from.s, from.n);
        put = mempcpy(put, at, (size_t)(found - at));
        put = mempcpy(put, to.s, to.n);
        at = found + from.n;
    }
    put = mempcpy(put, at, (size_t)(s.s + s.n - at));
    return jv_string(out, (size_t)(put - out));
}

Value code_find(CALL)
{
    UNUSED;
    const Value what = want_string(r, &arg[0], "find");
    const char *at = memmem(self->s, self->n, what.s, what.n);
    run_steps(r, self->n);
    return jv_int(at ? string_length(self->s, (size_t)(at - self->s)) : -1);
}

Value code_count(CALL)
{
    UNUSED;
    const Value what = want_string(r, &arg[0], "count");
    int64_t n = 0;
    if (!what.n)
        run_fail(r, "count: an empty text cannot be counted");
    run_steps(r, self->n);
    for (const char *at = self->s, *end = at + self->n;
         (at = memmem(at, (size_t)(end - at), what.s, what.n)); at += what.n)
        n++;
    return jv_int(n);
}

Value text_joined(Run *r, const Value *between, const Value *list, bool strings)
{
    const Value all = jv_iterate(r, list);
    size_t n = 0;
    for (int i = 0; i < all.list->n; i++) {
        Value *v = &all.list->item[i];
        *v = strings ? want_string(r, v, "join") : jv_text(r, v);
        n += v->n + (i ? between->n : 0);
    }
    char *out = run_take(r, n + 1), *put = out;
    run_steps(r, n);
    for (int i = 0; i < all.list->n; i++) {
        if (i)
            put = mempcpy(put, between->s, between->n);
        put = mempcpy(put, all.list->item[i].s, all.list->item[i].n);
    }
    return jv_string(out, n);
}

Value code_join_method(CALL)
{
    UNUSED;
    const Value list = list_copied(r, &arg[0], LIST_LIST);
    return text_joined(r, self, &list, true);
}

Value code_indent(CALL)
{
    UNUSED;
    const Value s = *self, width = arg[0];
    if (s.kind != JV_STRING)
        run_fail(r, "indent: must be given a str, got %s", jv_name[s.kind]);
    const bool text = given(&width) && width.kind == JV_STRING;
    const int64_t n = text ? 0 : given(&width) ? want_int(r, &width, "indent") : 4;
    if (n < 0 || n > 1000)
        run_fail(r, "indent: must be 0 to 1000");
    char *blanks = run_take(r, (size_t)n + 1);
    memset(blanks, ' ', (size_t)n);
    const Value by = text ? width : jv_string(blanks, (size_t)n);
    const bool first = given(&arg[1]) && jv_true(&arg[1]),
               blank = given(&arg[2]) && jv_true(&arg[2]);
    size_t lines = 1;
    for (size_t i = 0; i < s.n; i++)
        lines += s.s[i] == '\n';
    char *out = run_take(r, s.n + lines * by.n + 2), *put = out;
    run_steps(r, s.n + lines * by.n);
    for (size_t at = 0, end; at <= s.n; at = end + 1) {
        const char *lf = memchr(s.s + at, '\n', s.n - at);
        end = lf ? (size_t)(lf - s.s) : s.n;
        if (at ? blank || end > at : first)
            put = mempcpy(put, by.s, by.n);
        put = mempcpy(put, s.s + at, end - at);
        if (lf)
            *put++ = '\n';
    }
    return jv_string(out, (size_t)(put - out));
}

Value code_to_string(CALL) { UNUSED; return jv_text(r, self); }

/* Jinja's Markup: adding to it would escape the other text, which value + refuses. */
Value code_safe(CALL)
{
    UNUSED;
    Value v = jv_text(r, self);
    v.flags |= STRING_SAFE;
    return v;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool number_in(const Value *s, bool real, Value *to)
{
    char text[80], *end;
    const Value t = string_strip(*s, NULL, true, true);
    if (!t.n || t.n >= sizeof text || memchr(t.s, '_', t.n))
        return false;
    memcpy(text, t.s, t.n);
    text[t.n] = 0;
    if (strspn(text, "0123456789+-.eE") != t.n)
        return false;
    errno = 0;
    if (real)
        *to = (Value){.kind = JV_FLOAT, .real = strtod(text, &end)};
    else
        *to = jv_int(strtoll(text, &end, 10));
    return !*end && !errno;
}

Value code_to_int(CALL)
{
    UNUSED;
    Value v = given(arg) ? *arg : jv_int(0), real;
    double x;
    if (self->kind == JV_INT || self->kind == JV_BIG)
        return *self;
    if (self->kind == JV_UNDEFINED)
        fail_undefined(r, self);
    if (self->kind == JV_STRING && number_in(self, false, &v))
        return v;
    const bool is = self->kind == JV_STRING ? number_in(self, true, &real) : jv_number(self, &x);
    x = self->kind == JV_STRING && is ? real.real : x;
    if (!is || !isfinite(x))
        return v;
    if (fabs(x) >= 0x1p63)
        run_fail(r, "int: %g is too large", x);
    return jv_int((int64_t)x);
}

Value code_to_float(CALL)
{
    UNUSED;
    Value v = given(arg) ? *arg : (Value){.kind = JV_FLOAT};
    double x;
    if (self->kind == JV_UNDEFINED)
        fail_undefined(r, self);
    if (self->kind == JV_STRING ? number_in(self, true, &v) : !jv_number(self, &x))
        return v;
    return self->kind == JV_STRING ? v : (Value){.kind = JV_FLOAT, .real = x};
}

Value code_absolute(CALL)
{
    UNUSED;
    double x;
    if (!jv_number(self, &x) || (self->kind == JV_INT && self->integer == INT64_MIN))
        run_fail(r, "abs: not of a %s", jv_name[self->kind]);
    if (self->kind == JV_FLOAT)
        return (Value){.kind = JV_FLOAT, .real = fabs(x)};
    return jv_int(self->kind == JV_INT ? llabs(self->integer) : self->yes);
}
