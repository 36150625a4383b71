/* fit_space.c -- the settings that `gen fit` may change, and the plan of a choice of them.
 *
 * In:    the recipe as a function of words; rows of fit.def.
 * Out:   plans, each made from its own words, so that bytes and speed are those of its command. */
#include "gen/tools/fit_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gen/config/objective.h"
#include "gen/graph/ir.h"
#include "gen/lower/lower.h"
#include "gen/tools/kept_choice.h"
#include "gen/tools/measure.h"

/* ---- what may change ------------------------------------------------------------------------- */

typedef enum { WHEN_any, WHEN_ranks, WHEN_adapters, WHEN_sm_90 } When;

typedef struct {
    int field;
    const char *words;
    When when;
    const char *lost;
} Try;

static const Try try_row[] = {
#define TRY(field, words, when, lost) {F_##field, words, WHEN_##when, lost},
#include "gen/tools/fit.def"
};
enum {
    TRIES = sizeof try_row / sizeof *try_row,
    MOST_WORDS = 32              /* of a plan */
};

/* Value of a field as in a word; lists joined by commas. */
static const char *value_text(const Config *c, int field)
{
    const FieldValue *v = &c->v[field];
    Str s = {0};
    str_print(&s, "%s", "");
    if (field_row[field].type == FT_CHOICE || field_row[field].type == FT_STRING)
        return v->s ? v->s : "";
    if (field_row[field].type != FT_LIST)
        return value_print(field_row[field].type, v);
    for (int i = 0; i < v->n; i++)
        str_print(&s, "%s%s", i ? "," : "", v->list[i]);
    return s.text;
}

/* Index of a run-time flag that the recipe sets; -1: none. */
static int run_index(const Config *c, const char *name)
{
    int i = c->nrun - 1;
    while (i >= 0 && strcmp(c->run_name[i], name))
        i--;
    return i;
}

/* True if the recipe has the word's value already. */
static bool has_word(const Config *c, const char *word)
{
    const char *name = fit_field(word), *value = strchr(word, '=') + 1;
    if (!strncmp(name, "run.", 4)) {
        const int i = run_index(c, name + 4);
        return i >= 0 && strtod(c->run_value[i], NULL) == strtod(value, NULL);
    }
    return !strcmp(value_text(c, field_find(name)), value);
}

/* True if the user gives the field a value. */
static bool is_typed(const FitSpace *s, const char *name)
{
    const int i = fit_word_index(s->ask->word, s->ask->nwords, name);
    return i >= 0 && s->ask->word[i][strlen(name) + 1];
}

/* True if the user's command or, outside of memory, the recipe says otherwise than the word. */
static bool is_taken(const FitSpace *s, const char *word)
{
    const Config *c = s->base;
    const char *name = fit_field(word);
    if (has_word(c, word))
        return false;
    if (is_typed(s, name))
        return true;
    if (!strncmp(name, "run.", 4)) {
        const int i = run_index(c, name + 4);
        const char *usual = objective_default(c->v[F_objective].s, name + 4);
        return i >= 0 && (!usual || strtod(usual, NULL) != strtod(c->run_value[i], NULL));
    }
    return c->v[field_find(name)].set && strncmp(name, "memory.", 7);
}

/* Splits a row's words; returns their number. */
static int words_of(int row, char **word)
{
    int n = 0;
    for (const char *p = row == FIT_AS_IS ? "" : try_row[row].words; *p; p += strspn(p, " ")) {
        word[n++] = text_print("%.*s", (int)strcspn(p, " "), p);
        p += strcspn(p, " ");
    }
    return n;
}

static bool may_try(const FitSpace *s, int row)
{
    char *word[MOST_WORDS];
    const int n = words_of(row, word);
    bool other = false;
    if (!field_applies(s->base, try_row[row].field) || field_fixed(s->base, try_row[row].field))
        return false;
    for (int i = 0; i < n; i++) {
        const int field = field_find(fit_field(word[i]));
        if (is_taken(s, word[i]))
            return false;
        const bool differs = !has_word(s->base, word[i]);
        other |= differs;
        if (differs && s->ask->exact && (field < 0 || field_bits(s->base, field) != BITS_same))
            return false;
    }
    return other || !*try_row[row].lost;
}

/* Adds the rows of a field, `begin` to `end`, that may be tried. */
static void add_axis(FitSpace *s, int begin, int end)
{
    FitAxis *a = &s->axis[s->naxes];
    bool other = true;           /* the recipe has another value than all of them */
    *a = (FitAxis){.field = try_row[begin].field};
    for (int i = begin; i < end; i++) {
        char *word[MOST_WORDS];
        words_of(i, word);
        other &= !has_word(s->base, word[0]);
        if (may_try(s, i))
            a->row[a->n++] = i;
    }
    if (!a->n)
        return;
    if (*try_row[begin].lost)
        s->losing[s->nlosing++] = s->naxes++;
    else {
        if (other) {
            memmove(a->row + 1, a->row, sizeof *a->row * (size_t)a->n++);
            a->row[0] = FIT_AS_IS;
        }
        if (a->field == F_memory_recompute)
            s->recompute = s->naxes++;
        else if (a->field == F_kernels_attention)
            s->attention = s->naxes++;
        else if (a->field == F_memory_ffn_rows)
            s->tiles = s->naxes++;
        else
            s->free[s->nfree++] = s->naxes++;
    }
}

static void set_axes(FitSpace *s)
{
    s->recompute = s->attention = s->tiles = FIT_AS_IS;
    for (int i = 0, end; i < TRIES; i = end) {
        for (end = i + 1; end < TRIES && try_row[end].field == try_row[i].field; end++)
            ;
        add_axis(s, i, end);
    }
    s->divisions = 1;
    for (int i = 0; i < s->nfree; i++)
        s->divisions *= s->axis[s->free[i]].n;
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* The divisors of a rank's samples, at most FIT_SPLITS; none if the batch may not change. */
static void set_splits(FitSpace *s, int64_t samples)
{
    const Config *c = s->base;
    const int64_t own = (samples + s->ranks - 1) / s->ranks;
    s->samples = own * s->ranks;
    if (is_typed(s, "batch.micro") || is_typed(s, "batch.accum") || s->ask->exact) {
        s->samples = c->v[F_batch_micro].i * c->v[F_batch_accum].i * s->ranks;
        return;
    }
    for (int64_t n = 1; n <= own && s->nsplits < FIT_SPLITS; n++)
        if (own % n == 0 && own / n <= (int64_t)field_row[F_batch_accum].hi &&
            n <= (int64_t)field_row[F_batch_micro].hi)
            s->split[s->nsplits++] = n;
}

static int add_number(char **word, int n, const Config *c, int field, int64_t value)
{
    if (c->v[field].i != value)
        word[n++] = text_print("%s=%" PRId64, field_row[field].path, value);
    return n;
}

static int batch_words(const FitSpace *s, int split, char **word)
{
    const Config *c = s->base;
    int n = 0;
    if (!s->nsplits)
        return 0;
    const int64_t micro = s->split[split], accum = s->samples / s->ranks / micro;
    if (micro != c->v[F_batch_micro].i || accum != c->v[F_batch_accum].i) {
        word[n++] = text_print("batch.micro=%" PRId64, micro);
        word[n++] = text_print("batch.accum=%" PRId64, accum);
    }
    if (c->v[F_batch_global].i)
        n = add_number(word, n, c, F_batch_global, s->samples);
    if (c->v[F_batch_targets].set && c->v[F_batch_targets].i)
        n = add_number(word, n, c, F_batch_targets, fit_targets(c, micro));
    if (micro != c->v[F_batch_micro].i && c->v[F_memory_loss_rows].i)
        word[n++] = "memory.loss_rows=0";
    return n;
}

FitSpace fit_space(const FitAsk *ask)
{
    FitSpace s = {.ask = ask};
    Config *own = fit_config(ask);
    s.base = fit_placed(ask);
    if (!s.base)
        s.base = own;
    s.ranks = fit_ranks(ask, s.base);
    set_axes(&s);
    set_splits(&s, ask->samples ? ask->samples : fit_samples(own));
    return s;
}

/* ---- a plan ---------------------------------------------------------------------------------- */

typedef struct {
    const FitAsk *ask;
    FitPlan *p;
} Making;

static void make_plan(void *data)
{
    const Making *m = data;
    FitPlan *p = m->p;
    const FitAsk *ask = m->ask;
    char **word;
    const int n = fit_all_words(ask, p->word, p->nwords, &word);
    Config *c = ask->make(ask->of, word, n);
    choose_kept(c);
    const Graph *g = fit_planned(c);
    const Sent sent = step_sent(g, c);
    p->limit = fit_limit(g);
    p->device = g->arena_bytes;
    p->persistent = g->persistent_bytes;
    p->host = graph_pinned_bytes(g) * g->ranks / nodes_of(c) + graph_snapshot_bytes(g);
    p->sent = sent.within + sent.between;
    p->step = step_cost(g, c).step;
    p->tokens = step_tokens(g, c) / p->step;
    p->kept = c->kept;
    p->fits = p->device <= p->limit && p->host <= ask->host;
}

static bool keeps_bits(const FitSpace *s, char *const *word, int n)
{
    for (int i = 0; i < n; i++) {
        const int field = field_find(fit_field(word[i]));
        if (field < 0 || field_bits(s->base, field) != BITS_same)
            return false;
    }
    return true;
}

unsigned fit_lost_by(const FitSpace *s, const FitChoice *choice)
{
    unsigned lost = 0;
    for (int i = 0; i < s->nlosing; i++) {
        const int row = choice->row[s->losing[i]];
        char *word[MOST_WORDS];
        int n = 0;
        const int all = words_of(row, word);
        for (int k = 0; k < all; k++)
            if (!has_word(s->base, word[k]))
                word[n++] = word[k];
        if (!keeps_bits(s, word, n))
            lost |= 1u << row;
    }
    return lost;
}

/* The words of a choice that the recipe does not have. */
static int choice_words(const FitSpace *s, const FitChoice *choice, char **word)
{
    int n = 0;
    for (int i = 0; i < s->naxes; i++) {
        char *own[MOST_WORDS];
        const int k = words_of(choice->row[i], own);
        for (int j = 0; j < k; j++)
            if (!has_word(s->base, own[j]))
                word[n++] = own[j];
    }
    return n + batch_words(s, choice->split, word + n);
}

/* True if the rows of a choice go together. */
static bool applies(const FitSpace *s, const FitChoice *choice)
{
    bool adapters = s->base->v[F_lora_rank].i > 0, ranks = s->ranks > 1;
    for (int i = 0; i < s->naxes; i++)
        adapters |= choice->row[i] != FIT_AS_IS && try_row[choice->row[i]].field == F_lora_rank;
    for (int i = 0; i < s->naxes; i++)
        if (choice->row[i] != FIT_AS_IS)
            switch (try_row[choice->row[i]].when) {
            case WHEN_any: break;
            case WHEN_ranks: if (!ranks) return false; break;
            case WHEN_adapters: if (!adapters) return false; break;
            case WHEN_sm_90: if (strcmp(s->base->v[F_target].s, "sm_90")) return false; break;
            }
    return true;
}

const FitPlan *fit_plan_of(FitSpace *s, const FitChoice *choice)
{
    char *word[MOST_WORDS];
    if (!applies(s, choice))
        return NULL;
    const int n = choice_words(s, choice, word);
    Str key = {0};
    str_print(&key, "%s", "");
    for (int i = 0; i < n; i++)
        str_print(&key, " %s", word[i]);
    for (int i = 0; i < s->nplans; i++)
        if (!strcmp(s->key[i], key.text))
            return s->plan[i]->device ? s->plan[i] : NULL;
    if (s->nplans == s->capplans) {
        const size_t was = sizeof *s->plan * (size_t)s->capplans;
        s->capplans = s->capplans ? 2 * s->capplans : 64;
        s->plan = arena_grow(s->plan, was, sizeof *s->plan * (size_t)s->capplans);
        s->key = arena_grow(s->key, was, sizeof *s->key * (size_t)s->capplans);
        s->choice = arena_grow(s->choice, was / sizeof *s->plan * sizeof *s->choice,
                               sizeof *s->choice * (size_t)s->capplans);
    }
    FitPlan *p = arena_new(sizeof *p);
    p->word = arena_new(sizeof *p->word * (size_t)(n + 1));
    memcpy(p->word, word, sizeof *word * (size_t)n);
    p->nwords = n;
    p->lost = fit_lost_by(s, choice);
    p->exact = keeps_bits(s, word, n);
    s->key[s->nplans] = key.text;
    s->choice[s->nplans] = *choice;
    p->order = s->nplans;
    s->plan[s->nplans++] = p;
    const bool made = err_try(make_plan, &(Making){s->ask, p});
    s->made += made;
    return made ? p : NULL;
}

FitChoice fit_choice_of(const FitSpace *s, const FitPlan *p)
{
    int k = 0;
    while (s->plan[k] != p)
        k++;
    return s->choice[k];
}

void fit_require(const FitAsk *ask)
{
    make_plan(&(Making){ask, arena_new(sizeof(FitPlan))});
}

const Card *fit_card(const FitAsk *ask, const FitPlan *plan)
{
    FitAsk other = *ask;
    other.place = arena_new(sizeof *other.place * (size_t)(ask->nplace + 1));
    const Card *found = NULL;
    for (int i = 0; i < card_count(); i++) {
        const Card *card = card_row(i);
        const int64_t room = card->memory - target_find(card->target)->reserve;
        FitPlan p = {.word = plan->word, .nwords = plan->nwords};
        if ((double)room < 0.9 * (double)plan->device || (found && card->memory >= found->memory))
            continue;
        other.nplace = 0;
        for (int k = 0; k < ask->nplace; k++)
            if (!strncmp(ask->place[k], "gpus=", 5))
                other.place[other.nplace++] = ask->place[k];
        other.place[other.nplace++] = text_print("card=%s", card->name);
        if (err_try(make_plan, &(Making){&other, &p}) && p.fits)
            found = card;
    }
    return found;
}

/* ---- words ----------------------------------------------------------------------------------- */

char *fit_words(const FitPlan *p)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (int i = 0; i < p->nwords; i++)
        str_print(&s, " %s", text_shell(p->word[i]));
    return s.text;
}

char *fit_lost(const FitPlan *p)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (int i = 0; i < TRIES; i++)
        if (p->lost >> i & 1)
            str_print(&s, "%s%s", *s.text ? ", " : "", try_row[i].lost);
    return s.text;
}

