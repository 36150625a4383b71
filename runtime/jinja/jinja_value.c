/* jinja_value.c -- values of a rendering: truth, order, iteration, and their texts as str(), repr()
 * and json.dumps() of Python write them.
 *
 * Keeps: an operation that Python refuses fails; so does the text of a function, a generator or a
 *        namespace. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

const char *const jv_name[] = {"missing", "undefined", "None", "bool", "int", "int", "float", "str",
                               "list", "dict", "namespace", "loop", "macro", "method", "function"};

/* ---- making ---------------------------------------------------------------------------------- */

Value jv_bool(bool yes) { return (Value){.kind = JV_BOOL, .yes = yes}; }
Value jv_int(int64_t i) { return (Value){.kind = JV_INT, .integer = i}; }

Value jv_string(const char *s, size_t n) { return (Value){.kind = JV_STRING, .s = s, .n = n}; }

Value jv_literal(const char *s) { return jv_string(s, strlen(s)); }

Value jv_undefined(const char *name)
{
    return (Value){.kind = JV_UNDEFINED, .s = name, .n = strlen(name)};
}

Value jv_list(Run *r, ListKind kind, int n)
{
    List *l = run_take(r, sizeof *l);
    *l = (List){.kind = kind, .n = n, .item = run_take(r, (size_t)n * sizeof *l->item)};
    return (Value){.kind = JV_LIST, .list = l};
}

Value jv_dict(Run *r)
{
    Dict *d = run_take(r, sizeof *d);
    d->item = -1;
    return (Value){.kind = JV_DICT, .dict = d};
}

void dict_set(Run *r, Dict *d, const char *key, size_t n, Value v, cJSON *from)
{
    Value *there = dict_find(d, key, n, NULL);
    run_steps(r, (size_t)d->n * 8);
    if (there) {
        *there = v;
        return;
    }
    if (d->n == d->cap) {
        const int cap = 2 * d->cap + 8;
        Member *more = run_take(r, (size_t)cap * sizeof *more);
        if (d->n)
            memcpy(more, d->member, (size_t)d->n * sizeof *more);
        d->member = more;
        d->cap = cap;
    }
    Value *value = run_take(r, sizeof *value);
    *value = v;
    d->member[d->n++] = (Member){key, n, value, from};
}

Value *dict_find(Dict *d, const char *key, size_t n, cJSON **from)
{
    for (int i = 0; i < d->n; i++) {
        Member *m = &d->member[i];
        if (m->nkey == n && !memcmp(m->key, key, n)) {
            if (from)
                *from = m->from;
            return m->value;
        }
    }
    return NULL;
}

void dict_read(Dict *d)
{
    for (int i = 0; i < d->n; i++)
        if (d->member[i].from)
            d->member[i].from->type |= JINJA_READ;
}

static Value number_of(const cJSON *json)
{
    if (json->type & JSON_FLOAT)
        return (Value){.kind = JV_FLOAT, .real = json->valuedouble};
    if (!json->valuestring)
        return jv_int((int64_t)json->valuedouble);
    char *end;
    errno = 0;
    const int64_t i = strtoll(json->valuestring, &end, 10);
    if (!errno && !*end)
        return jv_int(i);
    Value v = jv_literal(json->valuestring);
    v.kind = JV_BIG;
    return v;
}

Value jv_json(Run *r, cJSON *json)
{
    run_steps(r, 64);
    if (!json || cJSON_IsNull(json))
        return (Value){.kind = JV_NONE};
    if (cJSON_IsBool(json))
        return jv_bool(cJSON_IsTrue(json));
    if (cJSON_IsNumber(json))
        return number_of(json);
    if (cJSON_IsString(json)) {
        Value v = jv_literal(json->valuestring);
        v.flags = json->type & JINJA_ENCODED ? STRING_ENCODED : 0;
        return v;
    }
    if (cJSON_IsArray(json)) {
        Value v = jv_list(r, LIST_LIST, cJSON_GetArraySize(json));
        int i = 0;
        for (cJSON *item = json->child; item; item = item->next)
            v.list->item[i++] = jv_json(r, item);
        return v;
    }
    Value v = jv_dict(r);
    for (cJSON *m = json->child; m; m = m->next)
        dict_set(r, v.dict, m->string, strlen(m->string), jv_json(r, m), m);
    return v;
}

/* ---- truth and order ------------------------------------------------------------------------- */

bool jv_true(const Value *v)
{
    switch (v->kind) {
    case JV_BOOL: return v->yes;
    case JV_INT: return v->integer != 0;
    case JV_FLOAT: return v->real != 0;
    case JV_STRING: return v->n > 0;
    case JV_LIST: return v->list->n > 0 || v->list->kind == LIST_ONCE;
    case JV_DICT: return v->dict->n > 0;
    default: return v->kind > JV_NONE;
    }
}

bool jv_number(const Value *v, double *to)
{
    *to = v->kind == JV_BOOL ? v->yes : v->kind == JV_INT ? (double)v->integer : v->real;
    return v->kind == JV_BOOL || v->kind == JV_INT || v->kind == JV_FLOAT;
}

/* An integer, or a bool as one. */
static bool whole(const Value *v, int64_t *to)
{
    *to = v->kind == JV_BOOL ? v->yes : v->integer;
    return v->kind == JV_BOOL || v->kind == JV_INT;
}

static void deeper(Run *r)
{
    if (++r->depth > JINJA_DEPTH)
        run_fail(r, "values or calls are nested deeper than %d levels", JINJA_DEPTH);
}

static bool lists_equal(Run *r, const List *a, const List *b)
{
    if (a == b)
        return true;
    if ((a->kind == LIST_TUPLE) != (b->kind == LIST_TUPLE) || a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!jv_equal(r, &a->item[i], &b->item[i]))
            return false;
    return true;
}

static bool dicts_equal(Run *r, Dict *a, Dict *b)
{
    dict_read(a), dict_read(b);
    if (a == b || a->n != b->n)
        return a == b;
    run_steps(r, (size_t)a->n * (size_t)b->n * 8);
    for (int i = 0; i < a->n; i++) {
        const Value *v = dict_find(b, a->member[i].key, a->member[i].nkey, NULL);
        if (!v || !jv_equal(r, a->member[i].value, v))
            return false;
    }
    return true;
}

bool jv_equal(Run *r, const Value *a, const Value *b)
{
    double x, y;
    int64_t i, k;
    run_steps(r, 64);
    if (whole(a, &i) && whole(b, &k))
        return i == k;
    if (jv_number(a, &x) && jv_number(b, &y))
        return x == y;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JV_STRING:
    case JV_BIG:
        run_steps(r, a->n);
        return a->n == b->n && !memcmp(a->s, b->s, a->n);
    case JV_LIST:
    case JV_DICT: {
        deeper(r);
        const bool same = a->kind == JV_LIST ? lists_equal(r, a->list, b->list)
                                             : dicts_equal(r, a->dict, b->dict);
        r->depth--;
        return same;
    }
    case JV_NONE:
    case JV_UNDEFINED:
        return true;
    default:
        run_fail(r, "%ss cannot be compared", jv_name[a->kind]);
    }
}

int jv_order(Run *r, const Value *a, const Value *b)
{
    double x, y;
    int64_t i, k;
    if (whole(a, &i) && whole(b, &k))
        return (i > k) - (i < k);
    if (jv_number(a, &x) && jv_number(b, &y))
        return (x > y) - (x < y);
    if (a->kind != JV_STRING || b->kind != JV_STRING)
        run_fail(r, "%s and %s have no order", jv_name[a->kind], jv_name[b->kind]);
    const size_t n = a->n < b->n ? a->n : b->n;
    const int sign = n ? memcmp(a->s, b->s, n) : 0;
    run_steps(r, n);
    return sign ? (sign > 0) - (sign < 0) : (a->n > b->n) - (a->n < b->n);
}

bool jv_contains(Run *r, const Value *in, const Value *what)
{
    if (in->kind == JV_STRING) {
        if (what->kind != JV_STRING)
            run_fail(r, "in: a %s is not part of a str", jv_name[what->kind]);
        run_steps(r, in->n);
        return memmem(in->s, in->n, what->s, what->n) != NULL;
    }
    if (in->kind == JV_DICT) {
        cJSON *from = NULL;
        run_steps(r, (size_t)in->dict->n * 8);
        if (what->kind == JV_LIST || what->kind == JV_DICT)
            run_fail(r, "in: a %s cannot be a key", jv_name[what->kind]);
        const bool has = what->kind == JV_STRING && dict_find(in->dict, what->s, what->n, &from);
        if (from)
            from->type |= JINJA_READ;
        return has;
    }
    const Value all = jv_iterate(r, in);
    for (int i = 0; i < all.list->n; i++)
        if (jv_equal(r, &all.list->item[i], what))
            return true;
    return false;
}

void fail_undefined(Run *r, const Value *v)
{
    run_fail(r, "%.*s is undefined", v->n < 60 ? (int)v->n : 60, v->s);
}

/* ---- iteration and strings ------------------------------------------------------------------- */

int64_t string_length(const char *s, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

size_t string_offset(const char *s, size_t n, int64_t at)
{
    size_t i = 0;
    for (; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80 && !at--)
            break;
    return i;
}

Value jv_iterate(Run *r, const Value *v)
{
    if (v->kind == JV_UNDEFINED)
        return jv_list(r, LIST_LIST, 0);
    if (v->kind == JV_LIST) {
        if (v->list->kind == LIST_ONCE && v->list->read)
            run_fail(r, "a generator is read twice: make a list of it with | list");
        v->list->read = true;
        return *v;
    }
    if (v->kind == JV_DICT) {
        Value all = jv_list(r, LIST_LIST, v->dict->n);
        for (int i = 0; i < v->dict->n; i++)
            all.list->item[i] = jv_string(v->dict->member[i].key, v->dict->member[i].nkey);
        return all;
    }
    if (v->kind != JV_STRING)
        run_fail(r, "a %s has no items", jv_name[v->kind]);
    if (v->flags & STRING_ENCODED)
        r->decodes = true;
    Value all = jv_list(r, LIST_LIST, (int)string_length(v->s, v->n));
    for (size_t at = 0, i = 0; at < v->n; i++) {
        const size_t len = (size_t)utf8_length_at(v->s, v->n, at);
        all.list->item[i] = jv_string(v->s + at, len);
        at += len;
    }
    return all;
}

void list_add(Run *r, List *l, int *cap, Value v)
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

Value list_copied(Run *r, const Value *v, ListKind kind)
{
    const Value all = jv_iterate(r, v);
    Value copy = jv_list(r, kind, all.list->n);
    if (all.list->n)
        memcpy(copy.list->item, all.list->item, (size_t)all.list->n * sizeof *all.list->item);
    return copy;
}

static bool strips(const char *s, size_t n, const Value *chars)
{
    return chars ? memmem(chars->s, chars->n, s, n) != NULL : is_space(utf8_value(s, (int)n));
}

Value string_strip(Value v, const Value *chars, bool left, bool right)
{
    while (left && v.n) {
        const size_t len = (size_t)utf8_length_at(v.s, v.n, 0);
        if (!strips(v.s, len, chars))
            break;
        v.s += len;
        v.n -= len;
    }
    while (right && v.n) {
        const size_t at = utf8_before(v.s, v.n);
        if (!strips(v.s + at, v.n - at, chars))
            break;
        v.n = at;
    }
    v.flags = 0;
    return v;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A growing text in the arena. */
typedef struct {
    Run *r;
    char *s;
    size_t n, cap;
} Text;

static void put(Text *x, const char *s, size_t n)
{
    if (x->cap - x->n < n) {
        x->cap = 2 * x->cap + n + 64;
        char *more = run_take(x->r, x->cap);
        if (x->n)
            memcpy(more, x->s, x->n);
        x->s = more;
    }
    if (n)
        memcpy(x->s + x->n, s, n);
    x->n += n;
    run_steps(x->r, n);
}

static void put_string(Text *x, const char *s) { put(x, s, strlen(s)); }

static void put_number(Text *x, const Value *v, bool json)
{
    char text[80];
    if (v->kind == JV_BIG) {
        put(x, v->s, v->n);
        return;
    }
    if (v->kind == JV_INT)
        snprintf(text, sizeof text, "%" PRId64, v->integer);
    else if (isfinite(v->real))
        json_float_text(v->real, text);
    else if (isnan(v->real))
        snprintf(text, sizeof text, "%s", json ? "NaN" : "nan");
    else
        snprintf(text, sizeof text, "%s%s", v->real < 0 ? "-" : "", json ? "Infinity" : "inf");
    put_string(x, text);
}

/* True if Python's repr() prints the character as it is. */
static bool printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return true;
    }
}

static void put_repr_string(Text *x, const Value *v)
{
    const bool single = memchr(v->s, '\'', v->n) && !memchr(v->s, '"', v->n);
    const char quote = v->n && single ? '"' : '\'';
    put(x, &quote, 1);
    for (size_t at = 0; at < v->n;) {
        const int len = utf8_length_at(v->s, v->n, at);
        const uint32_t c = utf8_value(v->s + at, len);
        char text[16];
        if (c == (uint32_t)quote || c == '\\')
            put(x, "\\", 1);
        if (c == '\n' || c == '\r' || c == '\t')
            put(x, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", 2);
        else if (printable(c))
            put(x, v->s + at, (size_t)len);
        else
            put(x, text, (size_t)snprintf(text, sizeof text, c < 0x100 ? "\\x%02x"
                                          : c < 0x10000 ? "\\u%04x" : "\\U%08x", c));
        at += (size_t)len;
    }
    put(x, &quote, 1);
}

static void put_repr(Text *x, const Value *v);

static void put_repr_items(Text *x, const Value *v)
{
    const bool list = v->kind == JV_LIST, tuple = list && v->list->kind == LIST_TUPLE;
    const int n = list ? v->list->n : v->dict->n;
    deeper(x->r);
    put(x, !list ? "{" : tuple ? "(" : "[", 1);
    for (int i = 0; i < n; i++) {
        if (i)
            put(x, ", ", 2);
        if (!list) {
            const Value key = jv_string(v->dict->member[i].key, v->dict->member[i].nkey);
            put_repr(x, &key);
            put(x, ": ", 2);
        }
        put_repr(x, list ? &v->list->item[i] : v->dict->member[i].value);
    }
    if (tuple && n == 1)
        put(x, ",", 1);
    put(x, !list ? "}" : tuple ? ")" : "]", 1);
    x->r->depth--;
}

static void put_repr(Text *x, const Value *v)
{
    switch (v->kind) {
    case JV_NONE: put_string(x, "None"); return;
    case JV_UNDEFINED: put_string(x, "Undefined"); return;
    case JV_BOOL: put_string(x, v->yes ? "True" : "False"); return;
    case JV_INT: case JV_BIG: case JV_FLOAT: put_number(x, v, false); return;
    case JV_STRING:
        if (v->flags & STRING_SAFE)          /* Python prints Markup('...') */
            run_fail(x->r, "a safe text within a list or mapping cannot be printed");
        put_repr_string(x, v);
        return;
    case JV_LIST:
        if (v->list->kind == LIST_LIST || v->list->kind == LIST_TUPLE) {
            put_repr_items(x, v);
            return;
        }
        break;
    case JV_DICT:
        dict_read(v->dict);
        put_repr_items(x, v);
        return;
    default: break;
    }
    run_fail(x->r, "a %s cannot be printed", v->kind == JV_LIST ? "generator" : jv_name[v->kind]);
}

Value jv_text(Run *r, const Value *v)
{
    Text x = {.r = r};
    if (v->kind == JV_STRING)
        return *v;
    if (v->kind != JV_UNDEFINED)
        put_repr(&x, v);
    return jv_string(x.n ? x.s : "", x.n);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_json_string(Text *x, const char *s, size_t n, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    put(x, "\"", 1);
    for (size_t at = 0; at < n;) {
        const int len = utf8_length_at(s, n, at);
        const uint32_t c = utf8_value(s + at, len);
        const char *short_one = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        char text[16];
        if (short_one)
            put(x, (const char[]){'\\', to[short_one - from]}, 2);
        else if (c >= 0x20 && (c < 0x7f || !ascii))
            put(x, s + at, (size_t)len);
        else if (c < 0x10000)
            put(x, text, (size_t)snprintf(text, sizeof text, "\\u%04x", c));
        else
            put(x, text, (size_t)snprintf(text, sizeof text, "\\u%04x\\u%04x",
                                          0xd800 + ((c - 0x10000) >> 10),
                                          0xdc00 + ((c - 0x10000) & 0x3ff)));
        at += (size_t)len;
    }
    put(x, "\"", 1);
}

static void put_json_line(Text *x, const JsonStyle *style, int level)
{
    if (style->indent < 0)
        return;
    put(x, "\n", 1);
    for (int i = 0; i < level * style->indent; i++)
        put(x, " ", 1);
}

static int by_key(const void *a, const void *b)
{
    const Member *m = a, *k = b;
    const size_t n = m->nkey < k->nkey ? m->nkey : k->nkey;
    const int sign = memcmp(m->key, k->key, n);
    return sign ? sign : (m->nkey > k->nkey) - (m->nkey < k->nkey);
}

static void put_json(Text *x, const Value *v, const JsonStyle *style, int level);

static void put_json_items(Text *x, const Value *v, const JsonStyle *style, int level)
{
    const bool list = v->kind == JV_LIST;
    const int n = list ? v->list->n : v->dict->n;
    Member *member = list ? NULL : v->dict->member;
    deeper(x->r);
    if (!list && style->sorted && n) {
        member = run_take(x->r, (size_t)n * sizeof *member);
        memcpy(member, v->dict->member, (size_t)n * sizeof *member);
        qsort(member, (size_t)n, sizeof *member, by_key);
    }
    put(x, list ? "[" : "{", 1);
    for (int i = 0; i < n; i++) {
        if (i)
            put(x, style->item.s, style->item.n);
        put_json_line(x, style, level + 1);
        if (!list) {
            put_json_string(x, member[i].key, member[i].nkey, style->ascii);
            put(x, style->key.s, style->key.n);
        }
        put_json(x, list ? &v->list->item[i] : member[i].value, style, level + 1);
    }
    if (n)
        put_json_line(x, style, level);
    put(x, list ? "]" : "}", 1);
    x->r->depth--;
}

static void put_json(Text *x, const Value *v, const JsonStyle *style, int level)
{
    switch (v->kind) {
    case JV_NONE: put_string(x, "null"); return;
    case JV_BOOL: put_string(x, v->yes ? "true" : "false"); return;
    case JV_INT: case JV_BIG: case JV_FLOAT: put_number(x, v, true); return;
    case JV_STRING:
        if (v->flags & STRING_ENCODED)
            x->r->decodes = true;
        put_json_string(x, v->s, v->n, style->ascii);
        return;
    case JV_LIST:
        if (v->list->kind == LIST_LIST || v->list->kind == LIST_TUPLE) {
            put_json_items(x, v, style, level);
            return;
        }
        break;
    case JV_DICT:
        dict_read(v->dict);
        put_json_items(x, v, style, level);
        return;
    default: break;
    }
    if (v->kind == JV_UNDEFINED)
        run_fail(x->r, "tojson: %.*s is undefined", (int)v->n, v->s);
    run_fail(x->r, "tojson: a %s is not JSON", jv_name[v->kind]);
}

Value jv_dumps(Run *r, const Value *v, const JsonStyle *style)
{
    Text x = {.r = r};
    put_json(&x, v, style, 0);
    return jv_string(x.s, x.n);
}
