/* jinja_calls.c -- attributes, filters, tests, functions and methods: the rows of jinja.def.
 *
 * One file, as its functions are known only to the tables at its end. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <utf8proc.h>

#include "runtime/files/utf8.h"

enum { RANGE_MAX = 100000 };     /* as in Jinja's sandbox */

/* ---- arguments ------------------------------------------------------------------------------- */

static bool given(const Value *v) { return v->kind != JV_MISSING; }

static Value want_string(Run *r, const Value *v, const char *what)
{
    if (v->kind != JV_STRING)
        run_fail(r, "%s: must be a str, got %s", what, jv_name[v->kind]);
    return *v;
}

static int64_t want_int(Run *r, const Value *v, const char *what)
{
    if (v->kind != JV_INT && v->kind != JV_BOOL)
        run_fail(r, "%s: must be an int, got %s", what, jv_name[v->kind]);
    return v->kind == JV_INT ? v->integer : v->yes;
}

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

#define CODE(name) static Value name(Run *r, Value *self, Value *arg, const Args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

CODE(upper) { UNUSED; return cased(r, self, upper_of, "upper"); }

/* Small letters, one for one: not of the two capitals that become two, or depend on others. */
static Value lowered(Run *r, const Value *v)
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

CODE(lower) { UNUSED; return lowered(r, self); }

CODE(title_method) { UNUSED; return cased(r, self, title_of, "title"); }

/* Jinja's: words begin after white space and "-([{<". */
CODE(title)
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

CODE(capitalize)
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

CODE(trim) { UNUSED; return stripped(r, self, arg, true, true); }
CODE(strip) { UNUSED; return stripped(r, self, arg, true, true); }
CODE(lstrip) { UNUSED; return stripped(r, self, arg, true, false); }
CODE(rstrip) { UNUSED; return stripped(r, self, arg, false, true); }

static void list_add(Run *r, List *l, int *cap, Value v)
{
    if (l->n == *cap) {
        *cap = 2 * *cap + 8;
        Value *more = run_take(r, (size_t)*cap * sizeof *more);
        if (l->n)
            memcpy(more, l->item, (size_t)l->n * sizeof *more);
        l->item = more;
    }
    l->item[l->n++] = v;
}

CODE(split)
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

CODE(splitlines)
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

CODE(starts_with) { UNUSED; return jv_bool(affix(r, self, &arg[0], false)); }
CODE(ends_with) { UNUSED; return jv_bool(affix(r, self, &arg[0], true)); }

CODE(replace)
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

CODE(find)
{
    UNUSED;
    const Value what = want_string(r, &arg[0], "find");
    const char *at = memmem(self->s, self->n, what.s, what.n);
    run_steps(r, self->n);
    return jv_int(at ? string_length(self->s, (size_t)(at - self->s)) : -1);
}

CODE(count)
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

static Value joined(Run *r, const Value *between, const Value *list, bool strings)
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

/* A list whose items may be changed. */
static Value copied(Run *r, const Value *v, ListKind kind)
{
    const Value all = jv_iterate(r, v);
    Value copy = jv_list(r, kind, all.list->n);
    if (all.list->n)
        memcpy(copy.list->item, all.list->item, (size_t)all.list->n * sizeof *all.list->item);
    return copy;
}

CODE(join_method)
{
    UNUSED;
    const Value list = copied(r, &arg[0], LIST_LIST);
    return joined(r, self, &list, true);
}

CODE(indent)
{
    UNUSED;
    const Value s = jv_text(r, self), width = arg[0];
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

CODE(to_string) { UNUSED; return jv_text(r, self); }

/* Jinja's Markup: adding to it would escape the other text, which value + refuses. */
CODE(safe)
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

CODE(to_int)
{
    UNUSED;
    Value v = given(arg) ? *arg : jv_int(0), real;
    double x;
    if (self->kind == JV_INT || self->kind == JV_BIG)
        return *self;
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

CODE(to_float)
{
    UNUSED;
    Value v = given(arg) ? *arg : (Value){.kind = JV_FLOAT};
    double x;
    if (self->kind == JV_STRING ? number_in(self, true, &v) : !jv_number(self, &x))
        return v;
    return self->kind == JV_STRING ? v : (Value){.kind = JV_FLOAT, .real = x};
}

CODE(absolute)
{
    UNUSED;
    double x;
    if (!jv_number(self, &x) || (self->kind == JV_INT && self->integer == INT64_MIN))
        run_fail(r, "abs: not of a %s", jv_name[self->kind]);
    if (self->kind == JV_FLOAT)
        return (Value){.kind = JV_FLOAT, .real = fabs(x)};
    return jv_int(self->kind == JV_INT ? llabs(self->integer) : self->yes);
}

/* ---- lists and objects ----------------------------------------------------------------------- */

CODE(length)
{
    UNUSED;
    switch (self->kind) {
    case JV_UNDEFINED: return jv_int(0);
    case JV_STRING: return jv_int(string_length(self->s, self->n));
    case JV_DICT: return jv_int(self->dict->n);
    case JV_LIST:
        if (self->list->kind != LIST_ONCE)
            return jv_int(self->list->n);
        run_fail(r, "length: not of a generator: make a list of it with | list");
    default: run_fail(r, "length: not of a %s", jv_name[self->kind]);
    }
}

/* The attribute "a.b.c" of a value, as map() and selectattr() read it. */
static Value attribute_of(Run *r, const Value *v, const Value *path)
{
    Value at = *v;
    if (path->kind == JV_INT)
        return value_item(r, v, path);
    const Value p = want_string(r, path, "attribute");
    for (size_t i = 0; i <= p.n;) {
        const char *dot = memchr(p.s + i, '.', p.n - i);
        const size_t n = (dot ? (size_t)(dot - p.s) : p.n) - i;
        const Value key = jv_string(p.s + i, n);
        if (n && strspn(key.s, "0123456789") >= n)
            run_fail(r, "attribute: numbers are not supported");
        at = value_item(r, &at, &key);
        i += n + 1;
    }
    return at;
}

CODE(join)
{
    UNUSED;
    const Value none = jv_literal(""), between = given(&arg[0]) ? jv_text(r, &arg[0]) : none;
    Value list = copied(r, self, LIST_LIST);
    for (int i = 0; given(&arg[1]) && i < list.list->n; i++)
        list.list->item[i] = attribute_of(r, &list.list->item[i], &arg[1]);
    for (int i = 0; i < list.list->n; i++)
        if (list.list->item[i].kind == JV_STRING && list.list->item[i].flags & STRING_SAFE)
            run_fail(r, "join: of texts that are | safe is not supported");
    return joined(r, &between, &list, false);
}

CODE(default_to)
{
    UNUSED;
    const bool empty = given(&arg[1]) && jv_true(&arg[1]) && !jv_true(self);
    if (self->kind != JV_UNDEFINED && !empty)
        return *self;
    return given(&arg[0]) ? arg[0] : jv_literal("");
}

static Value pairs(Run *r, const Value *of, ListKind kind)
{
    Value all = jv_list(r, kind, of->dict->n);
    dict_read(of->dict);
    for (int i = 0; i < of->dict->n; i++) {
        const Member *m = &of->dict->member[i];
        Value *pair = &all.list->item[i];
        *pair = jv_list(r, LIST_TUPLE, 2);
        pair->list->item[0] = jv_string(m->key, m->nkey);
        pair->list->item[1] = *m->value;
    }
    return all;
}

CODE(items)
{
    UNUSED;
    if (self->kind == JV_UNDEFINED)
        return jv_list(r, LIST_ONCE, 0);
    if (self->kind == JV_STRING && self->flags & STRING_ENCODED)
        r->decodes = true;
    if (self->kind != JV_DICT)
        run_fail(r, "items: a %s is no mapping", jv_name[self->kind]);
    return pairs(r, self, LIST_ONCE);
}

CODE(items_method) { UNUSED; return pairs(r, self, LIST_VIEW); }

CODE(keys)
{
    UNUSED;
    return copied(r, self, LIST_VIEW);
}

CODE(values)
{
    UNUSED;
    Value all = jv_list(r, LIST_VIEW, self->dict->n);
    dict_read(self->dict);
    for (int i = 0; i < self->dict->n; i++)
        all.list->item[i] = *self->dict->member[i].value;
    return all;
}

CODE(get)
{
    UNUSED;
    if (!given(&arg[0]))
        run_fail(r, "get: needs a key");
    cJSON *from = NULL;
    run_steps(r, (size_t)self->dict->n * 8);
    const Value *v = arg[0].kind != JV_STRING ? NULL
                   : dict_find(self->dict, arg[0].s, arg[0].n, &from);
    if (from)
        from->type |= JINJA_READ;
    return v ? *v : given(&arg[1]) ? arg[1] : (Value){.kind = JV_NONE};
}

/* The arguments of a call that begin at `from`. */
static Args args_after(const Args *raw, int from)
{
    Args rest = {.n = raw->n - from};
    for (int i = 0; i < rest.n; i++)
        rest.value[i] = raw->value[from + i];
    return rest;
}

CODE(map)
{
    UNUSED;
    Value list = copied(r, self, LIST_ONCE);
    const Callable *by = NULL;
    const Value *path = NULL, *otherwise = NULL;
    for (int i = 0; i < raw->nnamed; i++)
        if (!strcmp(raw->named[i].name, "attribute"))
            path = &raw->named[i].value;
        else if (!strcmp(raw->named[i].name, "default"))
            otherwise = &raw->named[i].value;
        else
            run_fail(r, "map: the argument %.60s is not supported", raw->named[i].name);
    if (!path == !raw->n)
        run_fail(r, "map: needs attribute=, or the name of a filter");
    if (raw->n) {
        const Value name = want_string(r, &raw->value[0], "map");
        char *text = run_take(r, name.n + 1);
        memcpy(text, name.s, name.n);
        by = filter_find(text);
        if (!by)
            run_fail(r, "map: the filter %.60s is not supported", text);
    }
    const Args rest = raw->n ? args_after(raw, 1) : (Args){0};
    for (int i = 0; i < list.list->n; i++) {
        Value *v = &list.list->item[i];
        *v = by ? call_code(r, by, v, &rest) : attribute_of(r, v, path);
        if (otherwise && v->kind == JV_UNDEFINED)
            *v = *otherwise;
    }
    return list;
}

/* select, reject (attribute false), selectattr, rejectattr: items of which a test, or without one
 * their truth, is `want`. */
static Value chosen(Run *r, const Value *self, const Args *raw, bool attribute, bool want)
{
    const Value all = jv_iterate(r, self);
    Value list = jv_list(r, LIST_ONCE, 0);
    const Callable *by = NULL;
    int cap = 0;
    if (raw->nnamed || raw->n < attribute)
        run_fail(r, "select, reject: needs an attribute and a test without names");
    if (raw->n > attribute) {
        const Value name = want_string(r, &raw->value[attribute], "select, reject");
        char *text = run_take(r, name.n + 1);
        memcpy(text, name.s, name.n);
        by = test_find(text);
        if (!by)
            run_fail(r, "select, reject: the test %.60s is not supported", text);
    }
    const Args rest = by ? args_after(raw, attribute + 1) : (Args){0};
    for (int i = 0; i < all.list->n; i++) {
        Value v = attribute ? attribute_of(r, &all.list->item[i], &raw->value[0])
                            : all.list->item[i];
        const Value is = by ? call_code(r, by, &v, &rest) : v;
        if (jv_true(&is) == want)
            list_add(r, list.list, &cap, all.list->item[i]);
    }
    return list;
}

CODE(choose) { UNUSED; return chosen(r, self, raw, false, true); }
CODE(reject) { UNUSED; return chosen(r, self, raw, false, false); }
CODE(choose_attribute) { UNUSED; return chosen(r, self, raw, true, true); }
CODE(reject_attribute) { UNUSED; return chosen(r, self, raw, true, false); }

CODE(first)
{
    UNUSED;
    const Value all = jv_iterate(r, self);
    return all.list->n ? all.list->item[0] : jv_undefined("the first item of an empty list");
}

CODE(last)
{
    UNUSED;
    if (self->kind == JV_LIST && self->list->kind == LIST_ONCE)
        run_fail(r, "last: not of a generator: make a list of it with | list");
    const Value all = jv_iterate(r, self);
    return all.list->n ? all.list->item[all.list->n - 1]
                       : jv_undefined("the last item of an empty list");
}

CODE(to_list) { UNUSED; return copied(r, self, LIST_LIST); }

CODE(reverse)
{
    UNUSED;
    const Value all = jv_iterate(r, self);
    Value back = jv_list(r, LIST_ONCE, all.list->n);
    for (int i = 0; i < all.list->n; i++)
        back.list->item[all.list->n - 1 - i] = all.list->item[i];
    if (self->kind != JV_STRING)
        return back;
    const Value none = jv_literal("");
    return joined(r, &none, &back, true);
}

static int order_of(Run *r, Value a, Value b, bool cases)
{
    if (!cases && a.kind == JV_STRING && b.kind == JV_STRING)
        a = lowered(r, &a), b = lowered(r, &b);
    return jv_order(r, &a, &b);
}

/* Sorts items (n) by keys, stable. */
static void sort_by(Run *r, Value *item, Value *key, int n, bool cases, bool down)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            const int order = order_of(r, key[k - 1], key[k], cases);
            run_steps(r, 64);
            if (down ? order >= 0 : order <= 0)
                break;
            const Value v = item[k], w = key[k];
            item[k] = item[k - 1], item[k - 1] = v;
            key[k] = key[k - 1], key[k - 1] = w;
        }
}

CODE(sort)
{
    UNUSED;
    Value list = copied(r, self, LIST_LIST), key = copied(r, &list, LIST_LIST);
    for (int i = 0; given(&arg[2]) && arg[2].kind != JV_NONE && i < key.list->n; i++)
        key.list->item[i] = attribute_of(r, &list.list->item[i], &arg[2]);
    sort_by(r, list.list->item, key.list->item, list.list->n, given(&arg[1]) && jv_true(&arg[1]),
            given(&arg[0]) && jv_true(&arg[0]));
    return list;
}

CODE(dictsort)
{
    UNUSED;
    if (self->kind != JV_DICT)
        run_fail(r, "dictsort: a %s is no mapping", jv_name[self->kind]);
    const Value by = given(&arg[1]) ? want_string(r, &arg[1], "dictsort") : jv_literal("key");
    if (by.n != 3 || memcmp(by.s, "key", 3))
        run_fail(r, "dictsort: only by=\"key\" is supported");
    Value list = pairs(r, self, LIST_LIST), key = copied(r, self, LIST_LIST);
    sort_by(r, list.list->item, key.list->item, list.list->n, given(&arg[0]) && jv_true(&arg[0]),
            given(&arg[2]) && jv_true(&arg[2]));
    return list;
}

CODE(tojson)
{
    UNUSED;
    const bool indented = given(&arg[1]) && arg[1].kind != JV_NONE;
    JsonStyle style = {.ascii = given(&arg[0]) && jv_true(&arg[0]),
                       .sorted = given(&arg[3]) && jv_true(&arg[3]),
                       .indent = indented ? (int)want_int(r, &arg[1], "tojson: indent") : -1,
                       .item = jv_literal(indented ? "," : ", "), .key = jv_literal(": ")};
    if (style.indent > 100 || (indented && style.indent < 0))
        run_fail(r, "tojson: indent must be 0 to 100");
    if (given(&arg[2]) && arg[2].kind != JV_NONE) {
        if (arg[2].kind != JV_LIST || arg[2].list->n != 2)
            run_fail(r, "tojson: separators must be two texts");
        style.item = want_string(r, &arg[2].list->item[0], "tojson: separators");
        style.key = want_string(r, &arg[2].list->item[1], "tojson: separators");
    }
    return jv_dumps(r, self, &style);
}

/* ---- tests ----------------------------------------------------------------------------------- */

CODE(is_defined) { UNUSED; return jv_bool(self->kind != JV_UNDEFINED); }
CODE(is_undefined) { UNUSED; return jv_bool(self->kind == JV_UNDEFINED); }
CODE(is_none) { UNUSED; return jv_bool(self->kind == JV_NONE); }
CODE(is_string) { UNUSED; return jv_bool(self->kind == JV_STRING); }
CODE(is_mapping) { UNUSED; return jv_bool(self->kind == JV_DICT); }
CODE(is_boolean) { UNUSED; return jv_bool(self->kind == JV_BOOL); }
CODE(is_float) { UNUSED; return jv_bool(self->kind == JV_FLOAT); }
CODE(is_integer) { UNUSED; return jv_bool(self->kind == JV_INT || self->kind == JV_BIG); }
CODE(is_true) { UNUSED; return jv_bool(self->kind == JV_BOOL && self->yes); }
CODE(is_false) { UNUSED; return jv_bool(self->kind == JV_BOOL && !self->yes); }

CODE(is_number)
{
    UNUSED;
    double x;
    return jv_bool(jv_number(self, &x) || self->kind == JV_BIG);
}

CODE(is_sequence)
{
    UNUSED;
    const bool list = self->kind == JV_LIST && self->list->kind != LIST_ONCE &&
                      self->list->kind != LIST_VIEW;
    return jv_bool(list || self->kind == JV_STRING || self->kind == JV_DICT);
}

CODE(is_iterable)
{
    UNUSED;
    return jv_bool(self->kind == JV_LIST || self->kind == JV_STRING || self->kind == JV_DICT ||
                   self->kind == JV_UNDEFINED || self->kind == JV_LOOP);
}

static bool divides(Run *r, const Value *v, int64_t by)
{
    const int64_t n = want_int(r, v, "odd, even, divisibleby");
    if (!by)
        run_fail(r, "divisibleby: division by zero");
    return by == -1 || n % by == 0;
}

CODE(is_odd) { UNUSED; return jv_bool(!divides(r, self, 2)); }
CODE(is_even) { UNUSED; return jv_bool(divides(r, self, 2)); }
CODE(is_divisible)
{
    UNUSED;
    return jv_bool(divides(r, self, want_int(r, &arg[0], "divisibleby")));
}

/* Python's islower, isupper: at least one letter, and none of the other case. */
static bool all_cased(Run *r, const Value *self, char from)
{
    const Value s = jv_text(r, self);
    bool any = false;
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.s[i];
        if ((unsigned char)c >= 0x80)
            run_fail(r, "lower, upper: letters other than ASCII are not supported");
        if ((c | 32) < 'a' || (c | 32) > 'z')
            continue;
        if ((c & 32) != (from & 32))
            return false;
        any = true;
    }
    return any;
}

CODE(is_lower) { UNUSED; return jv_bool(all_cased(r, self, 'a')); }
CODE(is_upper) { UNUSED; return jv_bool(all_cased(r, self, 'A')); }
CODE(is_in) { UNUSED; return jv_bool(jv_contains(r, &arg[0], self)); }
CODE(is_equal) { UNUSED; return jv_bool(jv_equal(r, self, &arg[0])); }
CODE(is_different) { UNUSED; return jv_bool(!jv_equal(r, self, &arg[0])); }
CODE(is_greater) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) > 0); }
CODE(is_at_least) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) >= 0); }
CODE(is_less) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) < 0); }
CODE(is_at_most) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) <= 0); }

/* ---- functions ------------------------------------------------------------------------------- */

CODE(raise_exception)
{
    UNUSED;
    const Value why = given(&arg[0]) ? jv_text(r, &arg[0]) : jv_literal("");
    run_fail(r, "the template refuses the conversation: %.*s", why.n < 500 ? (int)why.n : 500,
             why.s);
}

CODE(strftime_now)
{
    UNUSED;
    const Value how = want_string(r, &arg[0], "strftime_now");
    struct tm tm = {0};
    char text[256], in[64];
    if (how.n >= sizeof in)
        run_fail(r, "strftime_now: a format of more than %zu bytes", sizeof in - 1);
    memcpy(in, how.s, how.n);
    in[how.n] = 0;
    for (const char *c = strchr(in, '%'); c; c = strchr(c + 2, '%'))
        if (!c[1] || !strchr("aAbBdmyYHMSpIj%", c[1]))
            run_fail(r, "strftime_now: the format %%%c is not supported", c[1] ? c[1] : ' ');
    strptime(JINJA_DATE, "%Y-%m-%d", &tm);
    const size_t n = strftime(text, sizeof text, in, &tm);
    return jv_string(memcpy(run_take(r, n + 1), text, n), n);
}

CODE(range)
{
    UNUSED;
    int64_t start = want_int(r, &arg[0], "range"), stop, step = 1;
    stop = given(&arg[1]) ? want_int(r, &arg[1], "range") : start;
    start = given(&arg[1]) ? start : 0;
    step = given(&arg[2]) ? want_int(r, &arg[2], "range") : 1;
    if (!step)
        run_fail(r, "range: the step is 0");
    const double n = ceil(((double)stop - (double)start) / (double)step);
    if (n > RANGE_MAX)
        run_fail(r, "range: more than %d numbers", RANGE_MAX);
    Value all = jv_list(r, LIST_RANGE, n > 0 ? (int)n : 0);
    for (int i = 0; i < all.list->n; i++)
        all.list->item[i] = jv_int(start + i * step);
    return all;
}

static Value named_values(Run *r, const Args *raw, bool space)
{
    Value d = jv_dict(r);
    if (raw->n > 1 || (raw->n && raw->value[0].kind != JV_DICT))
        run_fail(r, "%s: takes names, or one mapping", space ? "namespace" : "dict");
    for (int i = 0; raw->n && i < raw->value[0].dict->n; i++) {
        const Member *m = &raw->value[0].dict->member[i];
        dict_set(r, d.dict, m->key, m->nkey, *m->value, m->from);
    }
    for (int i = 0; i < raw->nnamed; i++) {
        const char *name = raw->named[i].name;
        if (space && *name == '_')
            run_fail(r, "namespace: the name %.60s is not supported", name);
        dict_set(r, d.dict, name, strlen(name), raw->named[i].value, NULL);
    }
    d.kind = space ? JV_SPACE : JV_DICT;
    return d;
}

CODE(namespace) { UNUSED; return named_values(r, raw, true); }
CODE(new_dict) { UNUSED; return named_values(r, raw, false); }

CODE(cycle)
{
    UNUSED;
    if (!raw->n || raw->nnamed)
        run_fail(r, "loop.cycle: needs values");
    return raw->value[self->loop->at % raw->n];
}

CODE(changed)
{
    UNUSED;
    Value *now = run_take(r, sizeof *now), *before = self->loop->changed;
    *now = arg[0];
    self->loop->changed = now;
    return jv_bool(!before || !jv_equal(r, before, now));
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define FILTER(name, params, code) {name, params, code, 0},
#define TEST(...)
#define FUNCTION(...)
#define METHOD(...)
static const Callable filters[] = {
#include "runtime/jinja/jinja.def"
};
#undef FILTER
#undef TEST
#define FILTER(...)
#define TEST(name, params, code) {name, params, code, 0},
static const Callable tests[] = {
#include "runtime/jinja/jinja.def"
};
#undef TEST
#undef FUNCTION
#define TEST(...)
#define FUNCTION(name, params, code) {name, params, code, 0},
static const Callable functions[] = {
#include "runtime/jinja/jinja.def"
};
#undef FUNCTION
#undef METHOD
#define FUNCTION(...)
#define METHOD(kind, name, params, code) {name, params, code, kind},
static const Callable methods[] = {
#include "runtime/jinja/jinja.def"
};

static const Callable *find_in(const Callable *row, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    return NULL;
}

const Callable *filter_find(const char *name)
{
    return find_in(filters, sizeof filters / sizeof *filters, name);
}

const Callable *test_find(const char *name)
{
    return find_in(tests, sizeof tests / sizeof *tests, name);
}

const Callable *function_find(const char *name)
{
    return find_in(functions, sizeof functions / sizeof *functions, name);
}

const Callable *method_find(ValueKind of, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].of == of && strlen(methods[i].name) == n &&
            !memcmp(methods[i].name, name, n))
            return &methods[i];
    return NULL;
}

/* Puts the arguments into the order of the parameters. */
static void args_bind(Run *r, const Callable *c, const Args *args, Value to[CALL_PARAMS])
{
    int n = 0;
    for (const char *p = c->params; *p; n++) {
        const size_t len = strcspn(p, "|");
        if (n < args->n)
            to[n] = args->value[n];
        for (int i = 0; i < args->nnamed; i++)
            if (strlen(args->named[i].name) == len && !memcmp(args->named[i].name, p, len)) {
                if (given(&to[n]))
                    run_fail(r, "%s: the argument %.*s is given twice", c->name, (int)len, p);
                to[n] = args->named[i].value;
            }
        p += len + (p[len] == '|');
    }
    if (args->n > n)
        run_fail(r, "%s: takes at most %d argument%s here", c->name, n, n == 1 ? "" : "s");
    for (int i = 0; i < args->nnamed; i++) {
        bool known = false;
        const size_t len = strlen(args->named[i].name);
        for (const char *p = c->params; *p && !known; p += strcspn(p, "|"), p += *p == '|')
            known = strcspn(p, "|") == len && !memcmp(p, args->named[i].name, len);
        if (!known)
            run_fail(r, "%s: the argument %.60s is not supported", c->name, args->named[i].name);
    }
}

Value call_code(Run *r, const Callable *c, Value *self, const Args *args)
{
    Value arg[CALL_PARAMS] = {0};
    if (strcmp(c->params, "..."))
        args_bind(r, c, args, arg);
    return c->code(r, self, arg, args);
}

/* ---- attributes and items -------------------------------------------------------------------- */

static Value member_of(Run *r, Dict *d, const char *name, size_t n, bool *found)
{
    cJSON *from = NULL;
    run_steps(r, (size_t)d->n * 8);
    const Value *v = dict_find(d, name, n, &from);
    if (from)
        from->type |= JINJA_READ;
    *found = v != NULL;
    return v ? *v : (Value){0};
}

static Value undefined_of(Run *r, const char *name, size_t n)
{
    char *text = run_take(r, n + 1);
    memcpy(text, name, n);
    return jv_undefined(text);
}

static Value method_of(Run *r, const Value *v, const Callable *c)
{
    Value *self = run_take(r, sizeof *self);
    *self = *v;
    if (!c->code)
        run_fail(r, "the method %s of a %s is not supported", c->name, jv_name[v->kind]);
    return (Value){.kind = JV_METHOD, .call = c, .self = self};
}

static Value loop_attribute(Run *r, const Loop *l, const char *name)
{
    const int n = l->list->n;
    static const char *const names[] = {"index", "index0", "first", "last", "length", "revindex",
                                        "revindex0", "depth", "depth0", "previtem", "nextitem"};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(names[i], name))
        i++;
    switch (i) {
    case 0: return jv_int(l->at + 1);
    case 1: return jv_int(l->at);
    case 2: return jv_bool(!l->at);
    case 3: return jv_bool(l->at == n - 1);
    case 4: return jv_int(n);
    case 5: return jv_int(n - l->at);
    case 6: return jv_int(n - l->at - 1);
    case 7: return jv_int(1);    /* the depth of recursive loops */
    case 8: return jv_int(0);
    case 9: return l->at ? l->list->item[l->at - 1] : jv_undefined("loop.previtem");
    case 10: return l->at < n - 1 ? l->list->item[l->at + 1] : jv_undefined("loop.nextitem");
    default: run_fail(r, "loop.%.60s is not supported", name);
    }
}

void fail_undefined(Run *r, const Value *v)
{
    run_fail(r, "%.*s is undefined", v->n < 60 ? (int)v->n : 60, v->s);
}

Value value_attribute(Run *r, const Value *v, const char *name, size_t n)
{
    bool found;
    if (v->kind == JV_UNDEFINED)
        fail_undefined(r, v);
    if (v->kind == JV_SPACE || v->kind == JV_DICT) {
        const Callable *c = v->kind == JV_DICT ? method_find(JV_DICT, name, n) : NULL;
        if (c)
            return method_of(r, v, c);
        const Value member = member_of(r, v->dict, name, n, &found);
        return found ? member : undefined_of(r, name, n);
    }
    const Callable *c = method_find(v->kind, name, n);
    if (c)
        return method_of(r, v, c);
    if (v->kind == JV_LOOP)
        return loop_attribute(r, v->loop, name);
    if (v->kind >= JV_MACRO)
        run_fail(r, "the attribute %.*s of a %s is not supported", n < 60 ? (int)n : 60, name,
                 jv_name[v->kind]);
    if (v->kind == JV_STRING && v->flags & STRING_ENCODED)
        r->decodes = true;
    return undefined_of(r, name, n);
}

Value value_item(Run *r, const Value *v, const Value *key)
{
    bool found = false;
    if (v->kind == JV_UNDEFINED)
        fail_undefined(r, v);
    if (key->kind == JV_STRING) {
        if (v->kind == JV_DICT) {
            const Value member = member_of(r, v->dict, key->s, key->n, &found);
            if (found)
                return member;
        }
        char *name = run_take(r, key->n + 1);
        memcpy(name, key->s, key->n);
        return value_attribute(r, v, name, key->n);
    }
    if ((key->kind == JV_INT || key->kind == JV_BOOL) &&
        (v->kind == JV_STRING || v->kind == JV_LIST)) {
        const bool list = v->kind == JV_LIST;
        if (list && (v->list->kind == LIST_ONCE || v->list->kind == LIST_VIEW))
            run_fail(r, "a generator has no items by number: make a list of it with | list");
        int64_t at = key->kind == JV_BOOL ? key->yes : key->integer;
        const int64_t n = list ? v->list->n : string_length(v->s, v->n);
        at += at < 0 ? n : 0;
        if (at < 0 || at >= n)
            return jv_undefined("an item outside of its list");
        if (list)
            return v->list->item[at];
        run_steps(r, v->n);
        const size_t begin = string_offset(v->s, v->n, at);
        return jv_string(v->s + begin, (size_t)utf8_length_at(v->s, v->n, begin));
    }
    return jv_undefined("an item");
}
