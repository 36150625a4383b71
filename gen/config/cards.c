/* cards.c -- target and memory of the GPU that a recipe names.
 *
 * In:    fields set by the recipe and the command line.
 * Out:   target and memory.limit_gib.
 * Keeps: a card on the command line replaces the recipe's target and memory; any other
 *        contradiction is an error that names both values. */
#include "gen/config/objective.h"

#include <string.h>

char *card_fault(const char *name)
{
    const char *driver = !strncmp(name, "NVIDIA ", 7) ? name + 7 : name;
    if (driver != name && card_find(driver))
        return text_print("%s is the driver's name, which chooses a section of a lock file: "
                          "tune.card; as a card it is %s",
                          text_shown(name), card_find(driver)->name);
    if (card_find(name))
        return NULL;
    if (card_near(name))
        return text_print("unknown card %s; did you mean %s? gen list cards prints all",
                          text_shown(name), card_near(name)->name);
    return text_print("unknown card %s; gen list cards prints the known ones; for another set "
                      "target and memory.limit_gib",
                      text_shown(name));
}

const char *card_take(const char *name, FieldValue *v)
{
    if (strcmp(name, "none") && card_fault(name))
        return card_fault(name);
    v->s = strcmp(name, "none") ? card_find(name)->name : "none";
    choice_find(field_choices(F_card), v->s, &v->i);
    return NULL;
}

const Card *config_card(const Config *c)
{
    const FieldValue *v = &c->v[F_card];
    return v->set && v->s ? card_find(v->s) : NULL;
}

static const char *place(Loc loc)
{
    return loc.file ? text_print("%s:%d", loc.file, loc.line) : "the command line";
}

/* Adds an error. other: the contradicting field; is: the card's value. */
static void refuse(const Config *c, const Card *card, const char *is, int other)
{
    const FieldValue *v = &c->v[F_card], *o = &c->v[other];
    const char *value =
        field_row[other].type == FT_FLOAT ? text_print("%.15g", o->f) : text_print("\"%s\"", o->s);
    err_add(v->loc, "card: %s%s, but %s = %s (%s); leave one of them out%s", card->name, is,
            field_row[other].path, value, place(o->loc),
            v->loc.file && !o->loc.file ? " (card=)" : "");
}

/* True if a card on the command line replaces a value of the recipe. */
static bool replaces(const Config *c, int other)
{
    return !c->v[F_card].loc.file && c->v[other].loc.file;
}

void card_fill(Config *c)
{
    const Card *card = config_card(c), *node;
    FieldValue *target = &c->v[F_target], *limit = &c->v[F_memory_limit_gib];
    const FieldValue *of_cluster = &c->v[F_cluster_card];
    const Loc loc = c->v[F_card].loc.file ? c->v[F_card].loc : (Loc){c->recipe, 0};
    const char *objective = c->v[F_objective].set ? c->v[F_objective].s : NULL;
    /* a standalone objective has no field card */
    if (!card || (objective && objective_find(objective)->standalone))
        return;
    if (c->cluster) {                        /* target and memory follow from the cluster */
        node = of_cluster->set && of_cluster->s ? card_find(of_cluster->s) : NULL;
        if (node && node != card)
            refuse(c, card, "", F_cluster_card);
        else if (!node && c->v[F_cluster_target].set && c->v[F_cluster_target].s)
            refuse(c, card, text_print(" is %s", card->target), F_cluster_target);
        return;
    }
    if (target->set && target->s && strcmp(target->s, card->target) && !replaces(c, F_target))
        refuse(c, card, text_print(" is %s", card->target), F_target);
    if (limit->set && limit->f != 0 && limit->f != card->gib && !replaces(c, F_memory_limit_gib))
        refuse(c, card, text_print(" has %g GiB", card->gib), F_memory_limit_gib);
    *target = (FieldValue){.set = true, .s = card->target, .loc = loc};
    choice_find(field_choices(F_target), card->target, &target->i);
    *limit = (FieldValue){0};
    if (card->memory != target_find(card->target)->memory)
        *limit = (FieldValue){.set = true, .f = card->gib, .loc = loc};
}
