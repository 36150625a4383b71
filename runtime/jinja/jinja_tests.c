/* jinja_tests.c -- tests: what follows "is". */
#include "runtime/jinja/jinja_code.h"

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
