/* jinja_lists.c -- filters and methods of lists and objects, and their JSON. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_code.h"

#include <string.h>

Value code_length(CALL)
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
        return r->by->item(r, v, path);
    const Value p = want_string(r, path, "attribute");
    for (size_t i = 0; i <= p.n;) {
        const char *dot = memchr(p.s + i, '.', p.n - i);
        const size_t n = (dot ? (size_t)(dot - p.s) : p.n) - i;
        const Value key = jv_string(p.s + i, n);
        if (n && strspn(key.s, "0123456789") >= n)
            run_fail(r, "attribute: numbers are not supported");
        at = r->by->item(r, &at, &key);
        i += n + 1;
    }
    return at;
}

Value code_join(CALL)
{
    UNUSED;
    const Value none = jv_literal(""), between = given(&arg[0]) ? jv_text(r, &arg[0]) : none;
    Value list = list_copied(r, self, LIST_LIST);
    for (int i = 0; given(&arg[1]) && i < list.list->n; i++)
        list.list->item[i] = attribute_of(r, &list.list->item[i], &arg[1]);
    for (int i = 0; i < list.list->n; i++)
        if (list.list->item[i].kind == JV_STRING && list.list->item[i].flags & STRING_SAFE)
            run_fail(r, "join: of texts that are | safe is not supported");
    return text_joined(r, &between, &list, false);
}

Value code_default_to(CALL)
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

Value code_items(CALL)
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

Value code_items_method(CALL) { UNUSED; return pairs(r, self, LIST_VIEW); }

Value code_keys(CALL)
{
    UNUSED;
    return list_copied(r, self, LIST_VIEW);
}

Value code_values(CALL)
{
    UNUSED;
    Value all = jv_list(r, LIST_VIEW, self->dict->n);
    dict_read(self->dict);
    for (int i = 0; i < self->dict->n; i++)
        all.list->item[i] = *self->dict->member[i].value;
    return all;
}

Value code_get(CALL)
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

Value code_map(CALL)
{
    UNUSED;
    Value list = list_copied(r, self, LIST_ONCE);
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
        by = r->by->filter(text);
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
        by = r->by->test(text);
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

Value code_choose(CALL) { UNUSED; return chosen(r, self, raw, false, true); }
Value code_reject(CALL) { UNUSED; return chosen(r, self, raw, false, false); }
Value code_choose_attribute(CALL) { UNUSED; return chosen(r, self, raw, true, true); }
Value code_reject_attribute(CALL) { UNUSED; return chosen(r, self, raw, true, false); }

Value code_first(CALL)
{
    UNUSED;
    const Value all = jv_iterate(r, self);
    return all.list->n ? all.list->item[0] : jv_undefined("the first item of an empty list");
}

Value code_last(CALL)
{
    UNUSED;
    if (self->kind == JV_LIST && self->list->kind == LIST_ONCE)
        run_fail(r, "last: not of a generator: make a list of it with | list");
    const Value all = jv_iterate(r, self);
    return all.list->n ? all.list->item[all.list->n - 1]
                       : jv_undefined("the last item of an empty list");
}

Value code_to_list(CALL) { UNUSED; return list_copied(r, self, LIST_LIST); }

Value code_reverse(CALL)
{
    UNUSED;
    const Value all = jv_iterate(r, self);
    Value back = jv_list(r, LIST_ONCE, all.list->n);
    for (int i = 0; i < all.list->n; i++)
        back.list->item[all.list->n - 1 - i] = all.list->item[i];
    if (self->kind != JV_STRING)
        return back;
    const Value none = jv_literal("");
    return text_joined(r, &none, &back, true);
}

static int order_of(Run *r, Value a, Value b, bool cases)
{
    if (!cases && a.kind == JV_STRING && b.kind == JV_STRING)
        a = text_lowered(r, &a), b = text_lowered(r, &b);
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

Value code_sort(CALL)
{
    UNUSED;
    Value list = list_copied(r, self, LIST_LIST), key = list_copied(r, &list, LIST_LIST);
    for (int i = 0; given(&arg[2]) && arg[2].kind != JV_NONE && i < key.list->n; i++)
        key.list->item[i] = attribute_of(r, &list.list->item[i], &arg[2]);
    sort_by(r, list.list->item, key.list->item, list.list->n, given(&arg[1]) && jv_true(&arg[1]),
            given(&arg[0]) && jv_true(&arg[0]));
    return list;
}

Value code_dictsort(CALL)
{
    UNUSED;
    if (self->kind != JV_DICT)
        run_fail(r, "dictsort: a %s is no mapping", jv_name[self->kind]);
    const Value by = given(&arg[1]) ? want_string(r, &arg[1], "dictsort") : jv_literal("key");
    if (by.n != 3 || memcmp(by.s, "key", 3))
        run_fail(r, "dictsort: only by=\"key\" is supported");
    Value list = pairs(r, self, LIST_LIST), key = list_copied(r, self, LIST_LIST);
    sort_by(r, list.list->item, key.list->item, list.list->n, given(&arg[0]) && jv_true(&arg[0]),
            given(&arg[2]) && jv_true(&arg[2]));
    return list;
}

Value code_tojson(CALL)
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
