/* rules.h -- rules between recipe fields: those of one objective, and the helpers that rules are written with.
 *
 * config names no objective: it reaches the rules of one by name. They are in gen/graph/objectives/NAME.c. */
#ifndef RULES_H
#define RULES_H

#include "gen/config/config.h"

/* Any of them may be NULL. */
typedef struct {
    /* Fills the objective's fields, and others that follow from them, where the recipe leaves them open; after
     * every other default. Called again when the precision changes. */
    void (*defaults)(Config *c);
    /* Adds errors of combinations that need no graph. */
    void (*check)(const Config *c);
    /* false: a field that the recipe sets is for its own precision alone. */
    bool (*any_precision)(const Config *c);
    const char *free_field;          /* one that a checkpoint's run may change; NULL: none */
    /* gen new: fields, or NULL. One that, true, trains a head that the folder lacks beside adapters; one that, true,
     * adds a row for a token that the folder lacks, and one that has the token. */
    const char *head_field, *new_token_field, *token_field;
    /* Each returns NULL where there is nothing to say: a line about tokens that the folder lacks; options of
     * `gen pack`; flags of the program that have no default. */
    const char *(*new_token)(const Config *c);
    const char *(*pack_options)(const Config *c);
    const char *(*run_flags)(const Config *c);
} ObjectiveRules;

/* To be called before config_fill(): returns the rules of an objective, all NULL where it has none. */
void config_set_rules(const ObjectiveRules *(*find)(const char *objective));
const ObjectiveRules *config_rules(const Config *c);

/* ---- helpers: a default, unless the recipe sets the field ------------------------------------- */

bool rule_is_open(const Config *c, int field);
void rule_fill_int(Config *c, int field, int64_t i);
void rule_fill_text(Config *c, int field, const char *text);         /* in Lua's spelling */

/* ---- helpers: errors -------------------------------------------------------------------------- */

/* Where to report a contradiction of two fields: at the first of them that the recipe sets. */
Loc rule_loc(const Config *c, int a, int b);
/* Adds an error unless a token id is below model.vocab, and at least 0 if it is `wanted`. */
void rule_token(const Config *c, int field, bool wanted);
int64_t near_divisor(int64_t n, int64_t k);        /* the divisor of n nearest to k */

#endif
