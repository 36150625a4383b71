/* rules.h -- rules between recipe fields: the rules of one objective, and helpers to write them.
 *
 * config names no objective; it finds an objective's rules by its name. They are in
 * gen/graph/objectives/NAME.c. */
#ifndef RULES_H
#define RULES_H

#include "gen/config/config.h"

/* Any of them may be NULL. */
typedef struct {
    /* Fills the fields of the objective that the recipe leaves open, and others that follow from
     * them; after every other default. */
    void (*defaults)(Config *c);
    /* Adds errors of combinations that need no graph. */
    void (*check)(const Config *c);
    /* true: the recipe takes neither a second micro-batch nor adapters. */
    bool (*one_micro)(const Config *c);
    const char *free_field;          /* one that a checkpoint's run may change; NULL: none */
    /* Fields for gen new; NULL: none. */
    const char *head_field;  /* true: trains a head that the folder lacks, with adapters too */
    const char *new_token_field;     /* true: adds a row for a token that the folder lacks */
    const char *token_field;         /* that token */
    /* Words for gen new, each NULL where there are none. */
    const char *(*new_token)(const Config *c);       /* a line about the added token */
    const char *(*pack_options)(const Config *c);    /* options of `gen pack` */
} ObjectiveRules;

/* Call it before config_fill(). find never returns NULL. */
void config_set_rules(const ObjectiveRules *(*find)(const char *objective));
const ObjectiveRules *config_rules(const Config *c);

/* ---- helpers: a default, unless the recipe sets the field ----------------------------------- */

void rule_fill_int(Config *c, int field, int64_t i);                 /* an INT or BOOL */
void rule_fill_text(Config *c, int field, const char *text);         /* in Lua's spelling */

/* ---- helpers: errors ------------------------------------------------------------------------ */

/* Returns where to report that two fields contradict each other: at the first that the recipe
 * sets. */
Loc rule_loc(const Config *c, int a, int b);
/* Adds an error unless a token id is below model.vocab, and at least 0 if it is `required`. */
void rule_token(const Config *c, int field, bool required);
int64_t near_divisor(int64_t n, int64_t k);        /* the divisor of n nearest to k */

#endif
