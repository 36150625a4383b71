/* names.h -- what a setting is called elsewhere, by the rows of foreign.def; which names are near.
 *
 * Of gen and of every program. Keeps: - and _, large and small letters are the same. */
#ifndef DIECAST_NAMES_H
#define DIECAST_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* As the rows of foreign.def say. */
typedef enum {
    FOREIGN_ALIAS, FOREIGN_LINE, FOREIGN_RECIPE, FOREIGN_MEANS, FOREIGN_SAY, FOREIGN_NONE, FOREIGN_ALWAYS
} ForeignKind;

typedef struct {
    const char *name;
    ForeignKind kind;
    const char *ours;            /* ALIAS, LINE: a flag; RECIPE: a field; MEANS: either; else "" */
    const char *value;           /* LINE, RECIPE: an example; MEANS: a placeholder; ALWAYS: the value */
    const char *note;            /* "" or a half sentence */
} Foreign;

extern const Foreign foreign_row[];
extern const int foreign_rows;

/* What one value of a name means: a WHEN or IMPLIED row. */
typedef struct {
    const char *name, *given;    /* given: "*" is any value */
    const char *ours;            /* a field or flag; "": it holds here without a setting */
    const char *value;           /* "?": one has to be set, by another name; "+a,b": added to a list */
    bool implied;                /* an explicit value of ours goes before it */
} ForeignMeaning;

extern const ForeignMeaning foreign_meaning[];
extern const int foreign_meanings;

const Foreign *foreign_find(const char *name);         /* NULL: no row has this name */
/* Our word for a value of a field or flag; the word itself when there is no row. */
const char *foreign_word(const char *ours, const char *word);
/* Whether the row is of this name and value. yes, on and 1 are true; false is all of foreign_off(). */
bool foreign_meant(const ForeignMeaning *m, const char *name, const char *given);
/* What a value of the row's name means for its flag or field, or "": nothing has to be set; "?": another name says it,
 * or by default the flag behind the ?; NULL: no row says. */
const char *foreign_meaning_of(const Foreign *row, const char *given);
/* Whether a row of LINE has this value: where its example is below 1, only such values mean the same here. */
bool foreign_share(const Foreign *row, const char *given);
/* What to type for a row of LINE, RECIPE or MEANS: the given value (NULL: none; of MEANS true) in our words, else
 * the example or placeholder of the row. */
const char *foreign_value(const Foreign *row, const char *given);
/* A row of MEANS with a value that needs no setting here: leave it out. */
bool foreign_needless(const Foreign *row, const char *given);
/* "false", "no", "0", "0.0" ...: the setting is not wanted. NULL is none of them. "true", "yes", "on", "1". */
bool foreign_off(const char *given);
bool foreign_on(const char *given);
/* Whether the name counts what one node has. The value of a field that leaves its feature out; NULL: no row. */
bool foreign_per_node(const char *name);
const char *foreign_unset(const char *ours);

bool names_same(const char *a, const char *b);
/* What text begins with: 1 of "epoch", 5 of "5epochs", and how many letters that is; 0: neither. */
long long names_epochs(const char *text, size_t *n);
/* Whether word is one of "a|b|c". */
bool names_listed(const char *list, const char *word);
/* words between blanks, but those FIELD=VALUE whose field is in list, "a|b|c"; malloc'ed. */
char *names_without(const char *words, const char *list);
/* Letters added, left out, changed or swapped with their neighbour; names over 64 letters: 65. */
int names_distance(const char *a, const char *b);

#endif
