/* jinja_tests.c -- tests: what follows "is". */
#include "runtime/jinja/jinja_code.h"

Value code_is_defined(CALL) { UNUSED; return jv_bool(self->kind != JV_UNDEFINED); }
Value code_is_undefined(CALL) { UNUSED; return jv_bool(self->kind == JV_UNDEFINED); }
Value code_is_none(CALL) { UNUSED; return jv_bool(self->kind == JV_NONE); }
Value code_is_string(CALL) { UNUSED; return jv_bool(self->kind == JV_STRING); }
Value code_is_mapping(CALL) { UNUSED; return jv_bool(self->kind == JV_DICT); }
Value code_is_boolean(CALL) { UNUSED; return jv_bool(self->kind == JV_BOOL); }
Value code_is_float(CALL) { UNUSED; return jv_bool(self->kind == JV_FLOAT); }
Value code_is_true(CALL) { UNUSED; return jv_bool(self->kind == JV_BOOL && self->yes); }
Value code_is_false(CALL) { UNUSED; return jv_bool(self->kind == JV_BOOL && !self->yes); }

Value code_is_integer(CALL)
{
    UNUSED;
    return jv_bool(self->kind == JV_INT || self->kind == JV_BIG);
}

/* Python's "is": whether two texts or numbers are one object is an accident there. */
Value code_is_same(CALL)
{
    UNUSED;
    const Value *b = &arg[0];
    if (self->kind != b->kind)
        return jv_bool(false);
    switch (self->kind) {
    case JV_NONE: return jv_bool(true);
    case JV_BOOL: return jv_bool(self->yes == b->yes);
    case JV_LIST: return jv_bool(self->list == b->list);
    case JV_DICT: return jv_bool(self->dict == b->dict);
    default: run_fail(r, "sameas: of two values of the type %s is not supported", jv_name[b->kind]);
    }
}

Value code_is_number(CALL)
{
    UNUSED;
    double x;
    return jv_bool(jv_number(self, &x) || self->kind == JV_BIG);
}

Value code_is_sequence(CALL)
{
    UNUSED;
    const bool list = self->kind == JV_LIST && self->list->kind != LIST_ONCE &&
                      self->list->kind != LIST_VIEW;
    return jv_bool(list || self->kind == JV_STRING || self->kind == JV_DICT ||
                   self->kind == JV_UNDEFINED);
}

Value code_is_iterable(CALL)
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

Value code_is_odd(CALL) { UNUSED; return jv_bool(!divides(r, self, 2)); }
Value code_is_even(CALL) { UNUSED; return jv_bool(divides(r, self, 2)); }
Value code_is_divisible(CALL)
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

Value code_is_lower(CALL) { UNUSED; return jv_bool(all_cased(r, self, 'a')); }
Value code_is_upper(CALL) { UNUSED; return jv_bool(all_cased(r, self, 'A')); }
Value code_is_in(CALL) { UNUSED; return jv_bool(jv_contains(r, &arg[0], self)); }
Value code_is_equal(CALL) { UNUSED; return jv_bool(jv_equal(r, self, &arg[0])); }
Value code_is_different(CALL) { UNUSED; return jv_bool(!jv_equal(r, self, &arg[0])); }
Value code_is_greater(CALL) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) > 0); }
Value code_is_at_least(CALL) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) >= 0); }
Value code_is_less(CALL) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) < 0); }
Value code_is_at_most(CALL) { UNUSED; return jv_bool(jv_order(r, self, &arg[0]) <= 0); }
