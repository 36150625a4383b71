/* jinja_calls.c -- the tables of jinja.def, and attributes and items of values. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_code.h"

#include <string.h>

#include "runtime/files/utf8.h"

/* ---- the tables ------------------------------------------------------------------------------ */

#define FILTER(name, params, code) {name, params, code, 0},
static const Callable filters[] = {
#include "runtime/jinja/jinja.def"
};
#define TEST(name, params, code) {name, params, code, 0},
static const Callable tests[] = {
#include "runtime/jinja/jinja.def"
};
#define FUNCTION(name, params, code) {name, params, code, 0},
static const Callable functions[] = {
#include "runtime/jinja/jinja.def"
};
#define METHOD(kind, name, params, code) {name, params, code, kind},
#define NO_METHOD(kind, name) {name, "", NULL, kind},
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

static const Callable *method_find(ValueKind of, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].of == of && strlen(methods[i].name) == n &&
            !memcmp(methods[i].name, name, n))
            return &methods[i];
    return NULL;
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
