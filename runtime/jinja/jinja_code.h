/* jinja_code.h -- shared by the functions of jinja.def: jinja_text.c (strings and numbers),
 * jinja_lists.c (lists and objects), jinja_tests.c, jinja_functions.c; jinja_args.c has their
 * arguments, jinja_calls.c their tables. */
#ifndef DIECAST_JINJA_CODE_H
#define DIECAST_JINJA_CODE_H

#include "runtime/jinja/jinja_parts.h"

/* The functions of the rows. */
#define FILTER(name, params, code) CallCode code;
#define TEST(name, params, code) CallCode code;
#define FUNCTION(name, params, code) CallCode code;
#define METHOD(kind, name, params, code) CallCode code;
#define NO_METHOD(kind, name)
#include "runtime/jinja/jinja.def"

#define CALL Run *r, Value *self, Value *arg, const Args *raw      /* see CallCode */
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

static inline bool given(const Value *v) { return v->kind != JV_MISSING; }
/* jinja_args.c: arguments of a type; `what` begins the message of another one. */
Value want_string(Run *r, const Value *v, const char *what);
int64_t want_int(Run *r, const Value *v, const char *what);

/* jinja_text.c: small letters, one for one; the items of a list joined. strings: others fail. */
Value text_lowered(Run *r, const Value *v);
Value text_joined(Run *r, const Value *between, const Value *list, bool strings);

#endif
