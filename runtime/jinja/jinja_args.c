/* jinja_args.c -- arguments of calls: their order and their types. */
#include "runtime/jinja/jinja_code.h"

#include <string.h>

Value want_string(Run *r, const Value *v, const char *what)
{
    if (v->kind != JV_STRING)
        run_fail(r, "%s: must be a str, got %s", what, jv_name[v->kind]);
    return *v;
}

int64_t want_int(Run *r, const Value *v, const char *what)
{
    if (v->kind != JV_INT && v->kind != JV_BOOL)
        run_fail(r, "%s: must be an int, got %s", what, jv_name[v->kind]);
    return v->kind == JV_INT ? v->integer : v->yes;
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
