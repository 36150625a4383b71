/* jinja_functions.c -- functions that a template calls by name, and those of a loop. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_code.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { RANGE_MAX = 100000 };     /* as in Jinja's sandbox */

Value code_raise_exception(CALL)
{
    UNUSED;
    const Value why = given(&arg[0]) ? jv_text(r, &arg[0]) : jv_literal("");
    run_fail(r, "the template refuses the conversation: %.*s", why.n < 500 ? (int)why.n : 500,
             why.s);
}

Value code_strftime_now(CALL)
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

Value code_range(CALL)
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

Value code_namespace(CALL) { UNUSED; return named_values(r, raw, true); }
Value code_new_dict(CALL) { UNUSED; return named_values(r, raw, false); }

Value code_cycle(CALL)
{
    UNUSED;
    if (!raw->n || raw->nnamed)
        run_fail(r, "loop.cycle: needs values");
    return raw->value[self->loop->at % raw->n];
}

Value code_changed(CALL)
{
    UNUSED;
    Value *now = run_take(r, sizeof *now), *before = self->loop->changed;
    *now = arg[0];
    self->loop->changed = now;
    return jv_bool(!before || !jv_equal(r, before, now));
}
