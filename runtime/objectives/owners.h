/* owners.h -- which objectives have a field, flag or file: all, those with a capability, or one.
 *
 * Rows name an owner as a word: all, none, a capability of capabilities.def or an objective. */
#ifndef DIECAST_OWNERS_H
#define DIECAST_OWNERS_H

#include <stdbool.h>

/* OWNERS(word): the number of an owner; the word may be a macro. */
#define OWNERS(word) OWNERS_OF(word)
#define OWNERS_OF(word) OWNERS_##word

enum {
    OWNERS_all,
    OWNERS_none,
#define CAPABILITY(name, doc) OWNERS_##name,
#include "runtime/objectives/capabilities.def"
#define OBJECTIVE(name, ...) OWNERS_##name,
#define STANDALONE(name, ...) OWNERS_##name,
#include "runtime/objectives/rows.def"
    OWNERS_COUNT
};

/* True if the owner is the objective, or a capability that it has, or all. */
bool owners_include(int owners, const char *objective);
/* The objectives between bars, in static memory; NULL for all. */
const char *owners_text(int owners);
/* The objective that has the flag (- or _ in its name), if this program does not have its rows;
 * else NULL. */
const char *owners_of_left_out(const char *flag);

#endif
