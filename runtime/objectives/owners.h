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
#define WHOLE(name, ...) OWNERS_##name,
#include "runtime/objectives/rows.def"
    OWNERS_COUNT
};

bool owners_include(int owners, const char *objective);
/* The objectives, between bars; NULL of all. The text stays. */
const char *owners_text(int owners);
/* The objective of a flag, - or _ in its name, whose rows are left out of this program; NULL: it is none. */
const char *owners_of_left_out(const char *flag);

#endif
