/* jinja_eval.c -- nodes to text.
 *
 * Method: a tree walk. Scopes are as in Jinja: a loop's body, a macro and {% generation %} have
 *         their own, "if" has none. An error leaves by longjmp; values are in the run's arena. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/utf8.h"

/* ---- depth ----------------------------------------------------------------------------------- */

static void deeper(Run *r)
{
    if (++r->depth > JINJA_DEPTH)
        run_fail(r, "values or calls are nested deeper than %d levels", JINJA_DEPTH);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static Env *env_new(Run *r, Env *up)
{
    Env *e = run_take(r, sizeof *e);
    e->up = up;
    return e;
}

/* The interned name; NULL: the template does not have it. */
static const char *name_of(const JinjaTemplate *t, const char *name)
{
    for (int i = 0; i < t->nnames; i++)
        if (!strcmp(t->name[i], name))
            return t->name[i];
    return NULL;
}

static Value *env_find(Run *r, const Env *e, const char *name)
{
    for (; e; e = e->up)
        for (Var *v = e->var; v; v = v->next) {
            if (v->name == name)
                return &v->value;
            run_steps(r, 0);
        }
    return NULL;
}

static void env_set(Run *r, Env *e, const char *name, Value value)
{
    for (Var *v = e->var; v; v = v->next)
        if (v->name == name) {
            v->value = value;
            return;
        }
    Var *v = run_take(r, sizeof *v);
    *v = (Var){name, value, e->var};
    e->var = v;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static Value eval(Run *r, const Node *n, Env *e);
static void run_nodes(Run *r, const Node *n, Env *e, int *jump);

static Value concat(Run *r, const Value *a, const Value *b)
{
    char *s = run_take(r, a->n + b->n + 1);
    memcpy(mempcpy(s, a->s, a->n), b->s, b->n);
    return jv_string(s, a->n + b->n);
}

static Value add(Run *r, const Value *a, const Value *b)
{
    if (a->kind == JV_STRING && b->kind == JV_STRING) {
        if ((a->flags | b->flags) & STRING_SAFE)
            run_fail(r, "+ with a text that is | safe is not supported");
        return concat(r, a, b);
    }
    if (a->kind == JV_LIST && b->kind == JV_LIST && a->list->kind == b->list->kind &&
        a->list->kind <= LIST_TUPLE) {
        Value all = jv_list(r, a->list->kind, a->list->n + b->list->n);
        for (int i = 0; i < all.list->n; i++)
            all.list->item[i] = i < a->list->n ? a->list->item[i]
                                               : b->list->item[i - a->list->n];
        return all;
    }
    run_fail(r, "%s + %s is not possible", jv_name[a->kind], jv_name[b->kind]);
}

static Value repeat(Run *r, const Value *s, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (s->n && (size_t)times > JINJA_MEMORY / s->n)
        run_fail(r, "a text of more than %d MiB", JINJA_MEMORY >> 20);
    char *to = run_take(r, s->n * (size_t)times + 1);
    for (int64_t i = 0; i < times; i++)
        memcpy(to + (size_t)i * s->n, s->s, s->n);
    run_steps(r, s->n * (size_t)times);
    return jv_string(to, s->n * (size_t)times);
}

static Value whole_result(Run *r, int op, int64_t x, int64_t y)
{
    int64_t z = 0;
    bool over = false;
    if ((op == OP_FLOOR || op == OP_MOD) && !y)
        run_fail(r, "division by zero");
    switch (op) {
    case OP_ADD: over = __builtin_add_overflow(x, y, &z); break;
    case OP_SUB: over = __builtin_sub_overflow(x, y, &z); break;
    case OP_MUL: over = __builtin_mul_overflow(x, y, &z); break;
    case OP_FLOOR:
    case OP_MOD:
        over = x == INT64_MIN && y == -1;
        if (over)
            break;
        z = op == OP_MOD ? x % y : x / y;
        if (x % y && (x < 0) != (y < 0))
            z += op == OP_MOD ? y : -1;
        break;
    default:                     /* a power */
        if (y < 0)
            run_fail(r, "** with a negative exponent is not supported");
        for (z = 1; y && !over; y--) {
            over = __builtin_mul_overflow(z, x, &z);
            run_steps(r, 0);
        }
    }
    if (over)
        run_fail(r, "an integer beyond 64 bits");
    return jv_int(z);
}

static Value binary(Run *r, int op, const Value *a, const Value *b)
{
    double x, y;
    if (a->kind == JV_UNDEFINED || b->kind == JV_UNDEFINED)
        fail_undefined(r, a->kind == JV_UNDEFINED ? a : b);
    if (!jv_number(a, &x) || !jv_number(b, &y)) {
        if (op == OP_ADD)
            return add(r, a, b);
        if (op == OP_MUL && a->kind == JV_STRING && b->kind == JV_INT && !a->flags)
            return repeat(r, a, b->integer);
        run_fail(r, "this operation on %s and %s is not supported", jv_name[a->kind],
                 jv_name[b->kind]);
    }
    if (op != OP_DIV && a->kind != JV_FLOAT && b->kind != JV_FLOAT)
        return whole_result(r, op, a->kind == JV_INT ? a->integer : a->yes,
                            b->kind == JV_INT ? b->integer : b->yes);
    if ((op == OP_DIV || op == OP_FLOOR || op == OP_MOD) && y == 0)
        run_fail(r, "division by zero");
    if (op == OP_FLOOR || op == OP_MOD || op == OP_POW)
        run_fail(r, "//, %% and ** are only supported for integers");
    return (Value){.kind = JV_FLOAT, .real = op == OP_ADD ? x + y : op == OP_SUB ? x - y
                                           : op == OP_MUL ? x * y : x / y};
}

static bool compares(Run *r, int op, const Value *a, const Value *b)
{
    switch (op) {
    case OP_EQ: return jv_equal(r, a, b);
    case OP_NE: return !jv_equal(r, a, b);
    case OP_IN: return jv_contains(r, b, a);
    case OP_NOT_IN: return !jv_contains(r, b, a);
    case OP_LT: return jv_order(r, a, b) < 0;
    case OP_LE: return jv_order(r, a, b) <= 0;
    case OP_GT: return jv_order(r, a, b) > 0;
    default: return jv_order(r, a, b) >= 0;
    }
}

/* A bound of a slice, within [low, high]; NULL: `otherwise`. */
static int64_t bound(Run *r, const Node *n, Env *e, int64_t length, int64_t low, int64_t high,
                     int64_t otherwise)
{
    const Value v = n ? eval(r, n, e) : (Value){.kind = JV_NONE};
    if (v.kind == JV_NONE)
        return otherwise;
    if (v.kind != JV_INT)
        run_fail(r, "a slice needs integers, got %s", jv_name[v.kind]);
    const int64_t at = v.integer < 0 ? v.integer + length : v.integer;
    return at < low ? low : at > high ? high : at;
}

static Value slice(Run *r, const Node *n, Env *e)
{
    const Value v = eval(r, n->a, e), by = n->d ? eval(r, n->d, e) : (Value){.kind = JV_NONE};
    if (v.kind == JV_UNDEFINED)
        fail_undefined(r, &v);
    const bool list = v.kind == JV_LIST && v.list->kind != LIST_ONCE && v.list->kind != LIST_VIEW;
    if ((!list && v.kind != JV_STRING) || (by.kind != JV_NONE && by.kind != JV_INT))
        run_fail(r, "a slice of a %s is not supported", jv_name[v.kind]);
    const int64_t step = by.kind == JV_INT ? by.integer : 1;
    if (!step || step > INT32_MAX || step < -INT32_MAX)
        run_fail(r, "a slice with this step is not supported");
    const int64_t length = list ? v.list->n : string_length(v.s, v.n);
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    const int64_t from = bound(r, n->b, e, length, low, high, step > 0 ? low : high),
                  to = bound(r, n->c, e, length, low, high, step > 0 ? high : low);
    const int64_t count = step > 0 ? (to > from ? (to - from - 1) / step + 1 : 0)
                                   : (from > to ? (from - to - 1) / -step + 1 : 0);
    run_steps(r, list ? 0 : v.n);
    if (!list && step == 1) {
        const size_t begin = string_offset(v.s, v.n, from),
                     end = string_offset(v.s, v.n, from + count);
        return jv_string(v.s + begin, end - begin);
    }
    const Value all = jv_iterate(r, &v);
    const ListKind kind = list ? v.list->kind : LIST_LIST;
    Value part = jv_list(r, kind, (int)count);
    for (int64_t i = 0; i < count; i++)
        part.list->item[i] = all.list->item[from + i * step];
    if (list)
        return part;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++)
        size += part.list->item[i].n;
    char *text = run_take(r, size + 1), *put = text;
    for (int64_t i = 0; i < count; i++)
        put = mempcpy(put, part.list->item[i].s, part.list->item[i].n);
    return jv_string(text, size);
}

static void eval_args(Run *r, const Node *list, Env *e, Args *to)
{
    to->n = to->nnamed = 0;
    for (const Node *n = list; n; n = n->next) {
        if (to->n + to->nnamed == CALL_ARGS)
            run_fail(r, "more than %d arguments", CALL_ARGS);
        if (n->kind == N_NAMED && !n->name) {
            const Value from = eval(r, n->a, e), all = jv_iterate(r, &from);
            if (to->n + to->nnamed + all.list->n > CALL_ARGS)
                run_fail(r, "more than %d arguments", CALL_ARGS);
            for (int i = 0; i < all.list->n; i++)
                to->value[to->n++] = all.list->item[i];
        } else if (n->kind == N_NAMED) {
            to->named[to->nnamed].name = n->name;
            to->named[to->nnamed++].value = eval(r, n->a, e);
        } else {
            to->value[to->n++] = eval(r, n, e);
        }
    }
}

/* Removes the output written after its first `from` bytes and returns it as a text. */
static Value taken_back(Run *r, size_t from)
{
    const size_t n = r->nout - from;
    char *text = run_take(r, n + 1);
    if (n)
        memcpy(text, r->out + from, n);
    r->nout = from;
    if (n)
        r->out[from] = 0;
    return jv_string(text, n);
}

/* The text that statements write. */
static Value captured(Run *r, const Node *body, Env *e)
{
    const size_t from = r->nout;
    int jump = 0;
    r->captures++;
    run_nodes(r, body, e, &jump);
    r->captures--;
    return taken_back(r, from);
}

static Value call_macro(Run *r, const Macro *m, const Args *args)
{
    Env *e = env_new(r, m->env);
    int i = 0;
    deeper(r);
    for (const Node *p = m->node->list; p; p = p->next, i++) {
        Value v = i < args->n ? args->value[i] : (Value){0};
        for (int k = 0; k < args->nnamed; k++)
            if (args->named[k].name == p->name)
                v = args->named[k].value;
        if (!v.kind)
            v = p->a ? eval(r, p->a, e) : jv_undefined(p->name);
        env_set(r, e, p->name, v);
    }
    if (args->n > i)
        run_fail(r, "the macro %s takes at most %d arguments", m->node->name, i);
    for (int k = 0; k < args->nnamed; k++) {
        const Node *p = m->node->list;
        while (p && p->name != args->named[k].name)
            p = p->next;
        if (!p)
            run_fail(r, "the macro %s has no argument %.60s", m->node->name, args->named[k].name);
    }
    const int line = r->line;
    const Value text = captured(r, m->node->b, e);
    r->line = line;
    r->depth--;
    return text;
}

static Value call(Run *r, const Node *n, Env *e)
{
    const Value f = eval(r, n->a, e);
    Args *args = run_take(r, sizeof *args);
    eval_args(r, n->list, e, args);
    r->line = n->line;
    if (f.kind == JV_MACRO)
        return call_macro(r, f.macro, args);
    if (f.kind == JV_METHOD || f.kind == JV_FUNCTION)
        return call_code(r, f.call, f.self, args);
    if (f.kind == JV_UNDEFINED)
        run_fail(r, "the function %.*s is not supported", f.n < 60 ? (int)f.n : 60, f.s);
    run_fail(r, "a %s cannot be called", jv_name[f.kind]);
}

/* A filter or test on a value. */
static Value apply(Run *r, const Node *n, Env *e, Value self)
{
    static const Args none;
    Args *args = NULL;
    if (n->list) {
        args = run_take(r, sizeof *args);
        eval_args(r, n->list, e, args);
    }
    r->line = n->line;
    return call_code(r, n->call, &self, args ? args : &none);
}

static Value name_value(Run *r, const Node *n, const Env *e)
{
    const Value *v = env_find(r, e, n->name);
    if (v)
        return *v;
    const Callable *f = function_find(n->name);
    return f ? (Value){.kind = JV_FUNCTION, .call = f} : jv_undefined(n->name);
}

static Value eval_dict(Run *r, const Node *n, Env *e)
{
    Value d = jv_dict(r);
    for (const Node *m = n->list; m; m = m->next) {
        const Value key = eval(r, m->a, e);
        if (key.kind != JV_STRING)
            run_fail(r, "keys of a mapping must be texts, got %s", jv_name[key.kind]);
        dict_set(r, d.dict, key.s, key.n, eval(r, m->b, e), NULL);
    }
    return d;
}

static Value eval_items(Run *r, const Node *n, Env *e)
{
    int count = 0, i = 0;
    for (const Node *item = n->list; item; item = item->next)
        count++;
    Value all = jv_list(r, n->kind == N_TUPLE ? LIST_TUPLE : LIST_LIST, count);
    for (const Node *item = n->list; item; item = item->next)
        all.list->item[i++] = eval(r, item, e);
    return all;
}

static Value eval_concat(Run *r, const Node *n, Env *e)
{
    const size_t from = r->nout;
    for (const Node *item = n->list; item; item = item->next) {
        const Value v = eval(r, item, e), s = jv_text(r, &v);
        run_put(r, s.s, s.n);
    }
    return taken_back(r, from);
}

static Value eval_compare(Run *r, const Node *n, Env *e)
{
    Value a = eval(r, n->a, e);
    for (const Node *with = n->list; with; with = with->next) {
        const Value b = eval(r, with->a, e);
        r->line = n->line;
        if (!compares(r, with->op, &a, &b))
            return jv_bool(false);
        a = b;
    }
    return jv_bool(true);
}

static Value eval_sign(Run *r, const Node *n, Env *e)
{
    const Value v = eval(r, n->a, e), zero = jv_int(0);
    return n->kind == N_PLUS ? binary(r, OP_ADD, &zero, &v)
         : v.kind == JV_FLOAT ? (Value){.kind = JV_FLOAT, .real = -v.real}
                              : binary(r, OP_SUB, &zero, &v);
}

static Value eval_kind(Run *r, const Node *n, Env *e)
{
    Value a, b;
    switch (n->kind) {
    case N_CONST: return n->value;
    case N_NAME: return name_value(r, n, e);
    case N_LIST:
    case N_TUPLE: return eval_items(r, n, e);
    case N_DICT: return eval_dict(r, n, e);
    case N_ATTRIBUTE:
        a = eval(r, n->a, e);
        r->line = n->line;
        return value_attribute(r, &a, n->name, strlen(n->name));
    case N_ITEM:
        a = eval(r, n->a, e);
        b = eval(r, n->b, e);
        r->line = n->line;
        return value_item(r, &a, &b);
    case N_SLICE: return slice(r, n, e);
    case N_CALL: return call(r, n, e);
    case N_FILTER:
    case N_TEST: return apply(r, n, e, eval(r, n->a, e));
    case N_NOT:
        a = eval(r, n->a, e);
        return jv_bool(!jv_true(&a));
    case N_NEGATE:
    case N_PLUS: return eval_sign(r, n, e);
    case N_BINARY:
        a = eval(r, n->a, e);
        b = eval(r, n->b, e);
        r->line = n->line;
        return binary(r, n->op, &a, &b);
    case N_COMPARE: return eval_compare(r, n, e);
    case N_AND:
    case N_OR:
        for (const Node *item = n->list; item; item = item->next) {
            a = eval(r, item, e);
            if (jv_true(&a) == (n->kind == N_OR))
                break;
        }
        return a;
    case N_CONDITION:
        b = eval(r, n->b, e);
        return jv_true(&b) ? eval(r, n->a, e)
             : n->c ? eval(r, n->c, e) : jv_undefined("a condition without else");
    case N_CONCAT: return eval_concat(r, n, e);
    default: run_fail(r, "not an expression");
    }
}

/* Counts the C stack: of expressions, statements and the macros that they call. */
static void nest(Run *r)
{
    run_steps(r, 0);
    if (++r->nest > JINJA_NEST)
        run_fail(r, "expressions are nested deeper than %d levels", JINJA_NEST);
}

static Value eval(Run *r, const Node *n, Env *e)
{
    nest(r);
    r->line = n->line;
    const Value v = eval_kind(r, n, e);
    r->nest--;
    return v;
}

/* ---- statements ------------------------------------------------------------------------------ */

enum { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE };

/* Sets one name, or several to the items of a value. */
static void assign(Run *r, const Node *to, Env *e, const Value *v)
{
    if (!to->next) {
        if (to->kind == N_NAME) {
            env_set(r, e, to->name, *v);
            return;
        }
        Value *space = env_find(r, e, to->a->name);
        if (!space || space->kind != JV_SPACE)
            run_fail(r, "%s is no namespace, so %s.%s cannot be set", to->a->name, to->a->name,
                     to->name);
        if (*to->name == '_')
            run_fail(r, "the name %.60s in a namespace is not supported", to->name);
        dict_set(r, space->dict, to->name, strlen(to->name), *v, NULL);
        return;
    }
    const Value all = jv_iterate(r, v);
    int n = 0;
    for (const Node *t = to; t; t = t->next)
        n++;
    if (all.list->n != n)
        run_fail(r, "%d names are set to %d values", n, all.list->n);
    for (const Node *t = to; t; t = t->next) {
        Node one = *t;
        one.next = NULL;
        assign(r, &one, e, &all.list->item[all.list->n - n--]);
    }
}

static Value filtered(Run *r, const Node *filter, Env *e, Value v)
{
    return !filter ? v : apply(r, filter, e, filter->a ? filtered(r, filter->a, e, v) : v);
}

/* The values of a loop, without those that its "if" leaves out. */
static Value loop_values(Run *r, const Node *n, Env *e)
{
    const Value from = eval(r, n->a, e), all = jv_iterate(r, &from);
    if (!n->b)
        return all;
    Value kept = jv_list(r, LIST_LIST, all.list->n);
    kept.list->n = 0;
    for (int i = 0; i < all.list->n; i++) {
        Env *in = env_new(r, e);
        assign(r, n->list, in, &all.list->item[i]);
        const Value is = eval(r, n->b, in);
        if (jv_true(&is))
            kept.list->item[kept.list->n++] = all.list->item[i];
    }
    return kept;
}

/* As in Jinja, else runs unless the body of some round has come to its end: also where each round
 * ends with break or continue. */
static void run_for(Run *r, const Node *n, Env *e)
{
    const Value all = loop_values(r, n, e);
    bool ended = false;
    Loop *loop = run_take(r, sizeof *loop);
    const char *name = name_of(r->t, "loop");
    loop->list = all.list;
    for (int i = 0, jump = 0; i < all.list->n && jump != JUMP_BREAK; i++) {
        const Value *v = &all.list->item[i];
        Env *in = env_new(r, e);
        jump = 0;
        loop->at = i;
        if (v->kind == JV_DICT && v->dict->item >= 0)
            in->item = v->dict;
        assign(r, n->list, in, v);
        if (name)
            env_set(r, in, name, (Value){.kind = JV_LOOP, .loop = loop});
        run_nodes(r, n->c, in, &jump);
        ended |= jump == JUMP_NONE;
    }
    int jump = 0;
    if (!ended)
        run_nodes(r, n->d, e, &jump);
}

/* Index of the item of JinjaInput.items that the nearest loop is at; -1: none. A loop over numbers
 * may set a variable to it. */
static int item_of(const Env *e)
{
    for (; e; e = e->up) {
        if (e->item)
            return e->item->item;
        for (const Var *v = e->var; v; v = v->next)
            if (v->value.kind == JV_DICT && v->value.dict->item >= 0)
                return v->value.dict->item;
    }
    return -1;
}

static void run_generation(Run *r, const Node *n, Env *e)
{
    int jump = 0;
    const size_t begin = r->nout;
    if (r->captures)
        run_fail(r, "generation inside a macro, a filter or another text is not supported");
    r->captures++;               /* marks are not nested */
    run_nodes(r, n->b, env_new(r, e), &jump);
    r->captures--;
    if (r->nspans == r->capspans) {
        r->capspans = 2 * r->capspans + 16;
        r->span = realloc(r->span, (size_t)r->capspans * sizeof *r->span);
        if (!r->span)
            abort();
    }
    r->span[r->nspans++] = (JinjaSpan){begin, r->nout, item_of(e)};
}

static void run_node(Run *r, const Node *n, Env *e, int *jump)
{
    Value v;
    nest(r);
    r->line = n->line;
    switch (n->kind) {
    case N_TEXT:
        run_put(r, n->value.s, n->value.n);
        break;
    case N_OUTPUT:
        v = eval(r, n->a, e);
        v = jv_text(r, &v);
        run_put(r, v.s, v.n);
        break;
    case N_IF:
        v = eval(r, n->a, e);
        run_nodes(r, jv_true(&v) ? n->b : n->c, e, jump);
        break;
    case N_FOR:
        run_for(r, n, e);
        break;
    case N_SET:
        v = eval(r, n->a, e);
        assign(r, n->list, e, &v);
        break;
    case N_SET_BLOCK:
        v = filtered(r, n->a, e, captured(r, n->b, env_new(r, e)));
        assign(r, n->list, e, &v);
        break;
    case N_FILTER_BLOCK:
        v = filtered(r, n->a, e, captured(r, n->b, env_new(r, e)));
        v = jv_text(r, &v);
        run_put(r, v.s, v.n);
        break;
    case N_MACRO: {
        Macro *m = run_take(r, sizeof *m);
        *m = (Macro){n, e};
        env_set(r, e, n->name, (Value){.kind = JV_MACRO, .macro = m});
        break;
    }
    case N_GENERATION:
        run_generation(r, n, e);
        break;
    default:
        *jump = n->kind == N_BREAK ? JUMP_BREAK : JUMP_CONTINUE;
    }
    r->nest--;
}

static void run_nodes(Run *r, const Node *n, Env *e, int *jump)
{
    for (; n && !*jump; n = n->next)
        run_node(r, n, e, jump);
}

/* ---- a rendering ----------------------------------------------------------------------------- */

static void run_template(Run *r, const JinjaInput *in)
{
    Env *e = env_new(r, NULL);
    int jump = 0;
    for (int i = 0; i < in->n; i++) {
        const char *name = name_of(r->t, in->variable[i].name);
        if (!name)
            continue;            /* the template does not mention it */
        const Value v = jv_json(r, in->variable[i].json);
        const bool items = in->items && !strcmp(in->items, name) && v.kind == JV_LIST;
        for (int k = 0; items && k < v.list->n; k++)
            if (v.list->item[k].kind == JV_DICT)
                v.list->item[k].dict->item = k;
        env_set(r, e, name, v);
    }
    run_put(r, "", 0);
    run_nodes(r, r->t->body, e, &jump);
}

char *jinja_render(const JinjaTemplate *t, const JinjaInput *in, JinjaText *to)
{
    Run *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    static const CallTables tables = {filter_find, test_find, value_item};
    r->t = t;
    r->by = &tables;
    r->limit = in->steps ? in->steps : JINJA_STEPS;
    if (!setjmp(r->fail))
        run_template(r, in);
    char *error = r->error;
    *to = (JinjaText){.decodes = r->decodes};
    if (error) {
        free(r->out), free(r->span);
    } else {
        to->text = r->out, to->n = r->nout;
        to->span = r->span, to->nspans = r->nspans;
    }
    arena_free(&r->arena);
    free(r);
    return error;
}

void jinja_text_free(JinjaText *text)
{
    free(text->text), free(text->span);
    *text = (JinjaText){0};
}
