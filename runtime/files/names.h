/* names.h -- names of settings in other trainers, by the rows of aliases.def, and spelling
 * suggestions.
 *
 * Used by gen and by every program. Keeps: - and _ are equivalent, as are upper and lower case. */
#ifndef DIECAST_NAMES_H
#define DIECAST_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Kinds of rows in aliases.def. */
typedef enum {
    ALIAS_FLAG, ALIAS_LINE, ALIAS_FIELD, ALIAS_MEANS, ALIAS_NOTE, ALIAS_NONE,
    ALIAS_ALWAYS
} AliasKind;

typedef struct {
    const char *name;
    AliasKind kind;
    const char *ours;            /* ALIAS, LINE: a flag; RECIPE: a field; MEANS: either; else "" */
    const char *value;           /* LINE, RECIPE: an example; MEANS: a placeholder; ALWAYS: value */
    const char *note;            /* "" or a clause to append to a message */
} Alias;

extern const Alias alias_row[];
extern const int alias_rows;

/* Meaning of one value of a name: a WHEN or IMPLIED row. */
typedef struct {
    const char *name, *given;    /* given: "*" matches any value */
    const char *ours;            /* a field or flag; "": already the behaviour here */
    const char *value;           /* "?": set it under another name; "+a,b": added to a list */
    bool implied;                /* an explicit value of ours takes precedence */
} AliasMeaning;

extern const AliasMeaning alias_meaning[];
extern const int alias_meanings;

/* An UNLESS row: the name with this value means any other value of ours. */
typedef struct {
    const char *name, *given, *ours, *value;
} AliasDenial;

extern const AliasDenial alias_denial[];
extern const int alias_denials;

/* A NEEDS row: a value of a field that gen takes only with a value of another setting. */
typedef struct {
    const char *ours, *value;
    const char *other, *wanted;  /* ">16": any above 0, such as 16 */
} AliasNeed;

extern const AliasNeed alias_need[];
extern const int alias_needs;

const Alias *alias_find(const char *name);             /* NULL: no row has this name */
/* Returns our word for a value of a field or flag; the word itself if no row translates it. */
const char *alias_word(const char *ours, const char *word);
/* True if the row matches this name and value. yes, on and 1 match true; every value of
 * alias_off() matches false. */
bool alias_meant(const AliasMeaning *m, const char *name, const char *given);
/* The same for a value that a row gives. */
bool alias_given(const char *row_given, const char *given);
/* True if `value` of the other setting is what the row needs; NULL: not set. */
bool alias_met(const AliasNeed *need, const char *value);
/* Returns the meaning of a value of the row's name for its flag or field: "": nothing to set; "?":
 * set under another name, by default the flag after the ?; NULL: no row for this value. */
const char *alias_meaning_of(const Alias *row, const char *given);
/* True if a LINE row accepts this value: if its example is below 1, only values below 1 mean the
 * same here. */
bool alias_share(const Alias *row, const char *given);
/* Returns what to type for a LINE, RECIPE or MEANS row: the given value (NULL: none; for MEANS
 * true) in our words, else the row's example or placeholder. */
const char *alias_value(const Alias *row, const char *given);
/* True for a MEANS row with a value that needs no setting here and can be left out. */
bool alias_needless(const Alias *row, const char *given);
/* alias_off(): true for "false", "no", "0", "0.0" ..., a disabled setting; false for NULL.
 * alias_on(): true for "true", "yes", "on", "1". */
bool alias_off(const char *given);
bool alias_on(const char *given);
/* alias_per_node(): true if the name counts something per node. alias_unset(): the value of a
 * field that disables its feature; NULL: no row. */
bool alias_per_node(const char *name);
const char *alias_unset(const char *ours);

/* Names of fields and flags in earlier releases: the rows RENAMED and RENAMED_WORD. */
typedef struct {
    const char *before, *now;
} Renamed;

extern const Renamed renamed_row[];
extern const int renamed_rows;

/* Words of a field; the last row has an empty field. */
typedef struct {
    const char *field, *before, *now;
} RenamedWord;

extern const RenamedWord renamed_word_row[];

/* Today's name; NULL: the name is not one of an earlier release. */
const char *renamed(const char *name);
/* Today's word for a word that the field had in earlier releases; NULL: it is none. */
const char *renamed_word(const char *field, const char *word);
/* The other way: the name and the word of an earlier release; NULL: there is none. */
const char *renamed_from(const char *now);
const char *renamed_word_from(const char *field, const char *now);
/* Lines FIELD=VALUE as an earlier release wrote them, in today's names and words; malloc'ed. */
char *renamed_lines(const char *lines);

bool names_same(const char *a, const char *b);         /* but for - and _, and case */
/* Parses an epoch count at the start of text: 1 for "epoch", 5 for "5epochs"; *n: length of that
 * prefix; 0: no epoch count. */
long long names_epochs(const char *text, size_t *n);
/* True if word is one of "a|b|c". */
bool names_listed(const char *list, const char *word);
/* Returns the space-separated words except FIELD=VALUE of the fields in list, "a|b|c";
 * malloc'ed. */
char *names_without(const char *words, const char *list);
/* Edit distance: letters inserted, deleted, substituted or transposed; 65 for names longer than 64
 * letters. */
int names_distance(const char *a, const char *b);

#endif
