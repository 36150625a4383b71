/* fit_search.c -- the search for settings with which a recipe fits a memory limit.
 *
 * In:    the recipe as a function of words; rows of fit.def.
 * Out:   plans, each made from its own words, so that bytes and speed are those of its command.
 * Method: for each set of losses, the divisions of memory from the largest on. The smallest plan
 *         of a division tells whether anything fits, the fastest whether it is worth a search;
 *         then the largest micro-batch is found by halving. If what the smallest plan of all keeps
 *         from step to step is too much already, the set is left out. */
#include "gen/tools/fit_search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gen/config/objective.h"
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
    MOST_WORDS = 32,             /* of a plan */
    MOST_SPLITS = 64,            /* of a rank's samples into micro-batches */
    AS_IS = -1,                  /* in the place of a row: the recipe's value */
    ROWS = 8, NEAREST = 3,       /* of an answer */
    NAMED = 4,                   /* rows for which gen chooses what recomputed blocks keep */
    SMALLER = 2                  /* micro-batches with which it does so, too, for the first */
};
/* By how much a row must be faster than one that loses less; a leaner one must need this much
 * less. */
static const double faster = 1.05, leaner = 0.9;

/* Values of a field that may be tried, indices of try_row. */
typedef struct {
    int field;
    int n, row[8];
} Axis;

enum { AXES = 16 };

/* Rows of each axis (AS_IS or of try_row), and the index of the split. */
typedef struct {
    int row[AXES];
    int split;
} Choice;

typedef struct {
    const FitAsk *ask;
    Config *base;                /* to whose values words are compared */
    Axis axis[AXES];
    int naxes;
    int losing[AXES], nlosing;   /* axes that lose something */
    int free[AXES], nfree;       /* those that do not, without the next three */
    int recompute, attention, tiles; /* AS_IS: the user has it */
    int divisions;               /* combinations of the free ones, from the most memory on */
    int64_t samples, ranks;      /* of an update */
    int64_t split[MOST_SPLITS];  /* values of batch.micro, ascending */
    int nsplits;                 /* 0: the user's batch stays */
    FitPlan **plan;              /* all, also those that gen refused: device 0 */
    Choice *choice;              /* of each */
    char **key;                  /* its words */
    int nplans, capplans, made;
} Search;

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
static bool is_typed(const Search *s, const char *name)
{
    const int i = fit_word_index(s->ask->word, s->ask->nwords, name);
    return i >= 0 && s->ask->word[i][strlen(name) + 1];
}

/* True if the user's command or, outside of memory, the recipe says otherwise than the word. */
static bool is_taken(const Search *s, const char *word)
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
    for (const char *p = row == AS_IS ? "" : try_row[row].words; *p; p += strspn(p, " ")) {
        word[n++] = text_print("%.*s", (int)strcspn(p, " "), p);
        p += strcspn(p, " ");
    }
    return n;
}

static bool may_try(const Search *s, int row)
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
static void add_axis(Search *s, int begin, int end)
{
    Axis *a = &s->axis[s->naxes];
    bool other = true;           /* the recipe has another value than all of them */
    *a = (Axis){.field = try_row[begin].field};
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
            a->row[0] = AS_IS;
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

static void set_axes(Search *s)
{
    s->recompute = s->attention = s->tiles = AS_IS;
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

/* The divisors of a rank's samples, at most MOST_SPLITS; none if the batch may not change. */
static void set_splits(Search *s, int64_t samples)
{
    const Config *c = s->base;
    const int64_t own = (samples + s->ranks - 1) / s->ranks;
    s->samples = own * s->ranks;
    if (is_typed(s, "batch.micro") || is_typed(s, "batch.accum") || s->ask->exact) {
        s->samples = c->v[F_batch_micro].i * c->v[F_batch_accum].i * s->ranks;
        return;
    }
    for (int64_t n = 1; n <= own && s->nsplits < MOST_SPLITS; n++)
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

static int batch_words(const Search *s, int split, char **word)
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

static bool keeps_bits(const Search *s, char *const *word, int n)
{
    for (int i = 0; i < n; i++) {
        const int field = field_find(fit_field(word[i]));
        if (field < 0 || field_bits(s->base, field) != BITS_same)
            return false;
    }
    return true;
}

/* Bits of the rows that lose something: not a row whose words that would, the recipe has. */
static unsigned lost_by(const Search *s, const Choice *choice)
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
static int choice_words(const Search *s, const Choice *choice, char **word)
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
static bool applies(const Search *s, const Choice *choice)
{
    bool adapters = s->base->v[F_lora_rank].i > 0, ranks = s->ranks > 1;
    for (int i = 0; i < s->naxes; i++)
        adapters |= choice->row[i] != AS_IS && try_row[choice->row[i]].field == F_lora_rank;
    for (int i = 0; i < s->naxes; i++)
        if (choice->row[i] != AS_IS)
            switch (try_row[choice->row[i]].when) {
            case WHEN_any: break;
            case WHEN_ranks: if (!ranks) return false; break;
            case WHEN_adapters: if (!adapters) return false; break;
            case WHEN_sm_90: if (strcmp(s->base->v[F_target].s, "sm_90")) return false; break;
            }
    return true;
}

/* The plan of a choice, made once; NULL: the recipe does not accept its words. */
static const FitPlan *plan_of(Search *s, const Choice *choice)
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
    p->lost = lost_by(s, choice);
    p->exact = keeps_bits(s, word, n);
    s->key[s->nplans] = key.text;
    s->choice[s->nplans] = *choice;
    p->order = s->nplans;
    s->plan[s->nplans++] = p;
    const bool made = err_try(make_plan, &(Making){s->ask, p});
    s->made += made;
    return made ? p : NULL;
}

/* ---- the search ------------------------------------------------------------------------------ */

static int rows_of(const Search *s, int axis) { return axis == AS_IS ? 1 : s->axis[axis].n; }

static void set_row(const Search *s, Choice *choice, int axis, int k)
{
    if (axis != AS_IS)
        choice->row[axis] = s->axis[axis].row[k];
}

/* Tokens a second of the fastest plan that fits and loses part of `lost`, or all of it; 0: none. */
static double best_within(const Search *s, unsigned lost, bool all)
{
    double best = 0;
    for (int i = 0; i < s->nplans; i++) {
        const FitPlan *p = s->plan[i];
        if (p->fits && !(p->lost & ~lost) && (all || p->lost != lost) && p->tokens > best)
            best = p->tokens;
    }
    return best;
}

/* Plans the largest micro-batch that fits, if one of at least `low` does. */
static void largest_split(Search *s, Choice choice, int low)
{
    int high = s->nsplits;               /* does not fit, or is none */
    choice.split = low;
    while (low + 1 < high) {
        choice.split = (low + high) / 2;
        const FitPlan *p = plan_of(s, &choice);
        if (p && p->fits)
            low = choice.split;
        else
            high = choice.split;
    }
}

/* The plans of one division of memory that may be faster than what was found. */
static void search_division(Search *s, Choice choice)
{
    const int kept = rows_of(s, s->recompute);
    const int tiles = rows_of(s, s->tiles);
    for (int k = 0; k < 2 * tiles; k++) {
        if (k >= tiles && kept == 1)
            return;
        set_row(s, &choice, s->recompute, k < tiles ? 0 : kept - 1);
        set_row(s, &choice, s->tiles, k % tiles);
        choice.split = s->nsplits ? s->nsplits - 1 : 0;
        const FitPlan *fast = plan_of(s, &choice);
        if (fast && (fast->fits || fast->tokens <= best_within(s, fast->lost, true)))
            return;
        choice.split = 0;
        const FitPlan *small = plan_of(s, &choice);
        if (small && small->fits)
            largest_split(s, choice, 0);
    }
}

static void set_division(const Search *s, Choice *choice, int division)
{
    for (int i = s->nfree - 1; i >= 0; i--) {
        const Axis *a = &s->axis[s->free[i]];
        choice->row[s->free[i]] = a->row[division % a->n];
        division /= a->n;
    }
}

/* The smallest plan of a division; NULL: the recipe accepts none of its micro-batches. Tiles of as
 * many rows as a micro-batch may need more memory than the whole. */
static const FitPlan *smallest(Search *s, Choice choice, int division)
{
    const FitPlan *least = NULL;
    set_division(s, &choice, division);
    set_row(s, &choice, s->recompute, rows_of(s, s->recompute) - 1);
    for (choice.split = 0; !least && choice.split < (s->nsplits ? s->nsplits : 1); choice.split++)
        for (int k = 0; k < rows_of(s, s->tiles); k++) {
            set_row(s, &choice, s->tiles, k);
            const FitPlan *p = plan_of(s, &choice);
            least = !least || (p && p->device < least->device) ? p : least;
        }
    return least;
}

/* The plan of the largest division that recomputes nothing, in one micro-batch. */
static const FitPlan *largest(Search *s, Choice choice)
{
    set_division(s, &choice, 0);
    set_row(s, &choice, s->recompute, 0);
    set_row(s, &choice, s->tiles, 0);
    choice.split = s->nsplits ? s->nsplits - 1 : 0;
    return plan_of(s, &choice);
}

/* True if a set of losses may give a plan that is faster than those of a set that loses less, of
 * which some fit: what it saves, on all ranks together, lets a faster one fit, or it is faster
 * itself. */
static bool may_pay(Search *s, Choice choice, const FitPlan *small)
{
    const unsigned lost = lost_by(s, &choice);
    const double best = best_within(s, lost, false);
    const FitPlan *fast = best > 0 ? largest(s, choice) : NULL;
    const int nplans = s->nplans;
    for (int i = 0; i < nplans && fast; i++) {
        const FitPlan *p = s->plan[i];
        Choice other = s->choice[i];
        if (!p->device || p->lost == lost || p->lost & ~lost)
            continue;
        const FitPlan *wide = smallest(s, other, s->divisions - 1), *full = largest(s, other);
        const int64_t least = wide ? wide->device - small->device : 0,
                      most = full ? full->device - fast->device : 0,
                      saved = (least > most ? least : most) * s->ranks;
        const double gain = full && fast->tokens > full->tokens ? fast->tokens / full->tokens : 1;
        if (p->device <= p->limit + saved && p->tokens * gain >= faster * best)
            return true;
    }
    return !fast;
}

/* The plans of one set of losses. */
static void search_losses(Search *s, Choice choice)
{
    const FitPlan *small = NULL;
    int last = s->divisions;
    while (!small && last)
        small = smallest(s, choice, --last);
    if (!small || small->persistent > small->limit || !may_pay(s, choice, small))
        return;
    for (int i = 0; i <= last; i++) {
        small = smallest(s, choice, i);
        set_division(s, &choice, i);
        if (small && small->fits)
            search_division(s, choice);
    }
}

/* Order of sets: that with the worst loss last. */
static int by_lost(unsigned a, unsigned b) { return (a > b) - (a < b); }

static int by_choice(const void *a, const void *b)
{
    const Choice *x = a, *y = b;
    return by_lost((unsigned)x->split, (unsigned)y->split);
}

/* All sets of losses, in order; the set is in `split` for the sort. */
static int all_losses(const Search *s, Choice **list)
{
    int n = 1;
    for (int i = 0; i < s->nlosing; i++)
        n *= s->axis[s->losing[i]].n + 1;
    *list = arena_new(sizeof **list * (size_t)n);
    for (int k = 0; k < n; k++) {
        Choice *c = &(*list)[k];
        int rest = k;
        for (int i = 0; i < AXES; i++)
            c->row[i] = AS_IS;
        for (int i = 0; i < s->nlosing; i++) {
            const Axis *a = &s->axis[s->losing[i]];
            c->row[s->losing[i]] = rest % (a->n + 1) ? a->row[rest % (a->n + 1) - 1] : AS_IS;
            rest /= a->n + 1;
        }
        c->split = (int)lost_by(s, c);
    }
    qsort(*list, (size_t)n, sizeof **list, by_choice);
    for (int k = 0; k < n; k++)
        (*list)[k].split = 0;
    return n;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The smallest losses first, then speed, bytes of the host and of the device, and what was planned
 * first. */
static int by_merit(const void *a, const void *b)
{
    const FitPlan *x = *(const FitPlan *const *)a, *y = *(const FitPlan *const *)b;
    if (x->lost != y->lost)
        return by_lost(x->lost, y->lost);
    if (x->tokens != y->tokens)
        return x->tokens > y->tokens ? -1 : 1;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->order - y->order;
}

static int by_device(const void *a, const void *b)
{
    const FitPlan *x = *(const FitPlan *const *)a, *y = *(const FitPlan *const *)b;
    return x->device != y->device ? (x->device > y->device) - (x->device < y->device)
                                  : by_merit(a, b);
}

/* True if a plan deserves a row in addition to those before it, which lose no more than it does: it
 * is faster, or needs less and is the leanest of its set. */
static bool is_worth(const FitTable *t, const FitPlan *p)
{
    bool lean = true;
    for (int i = 0; i < t->nrows; i++) {
        const FitPlan *q = t->row[i];
        if (q->lost & ~p->lost)
            continue;
        if (q->lost != p->lost && p->tokens < faster * q->tokens)
            return false;
        if (q->lost == p->lost && (double)p->device > leaner * (double)q->device)
            return false;
    }
    for (int i = 0; i < t->nall; i++)
        lean &= t->all[i]->lost != p->lost || t->all[i]->device >= p->device;
    bool first = true;
    for (int i = 0; i < t->nrows; i++)
        first &= t->row[i]->lost != p->lost;
    return first || lean;
}

static void choose_rows(FitTable *t)
{
    t->row = arena_new(sizeof *t->row * (size_t)(t->nall + 1));
    for (int i = 0; i < t->nall; i++)
        if (t->nrows < ROWS && is_worth(t, t->all[i]))
            t->row[t->nrows++] = t->all[i];
}

/* Keeps of plans that do not fit those that need less than all that lose less. */
static int nearest(const FitPlan **over, int n)
{
    int kept = 0;
    qsort(over, (size_t)n, sizeof *over, by_device);
    for (int i = 0; i < n && kept < NEAREST; i++) {
        bool worth = true;
        for (int k = i + 1; k < n; k++)
            worth &= over[k]->lost & ~over[i]->lost ||
                     (double)over[i]->device < leaner * (double)over[k]->device;
        if (worth)
            over[kept++] = over[i];
    }
    return kept;
}

/* Of plans that do not fit: the smallest of each set, and the fastest that loses no more than the
 * first row. */
static void choose_over(const Search *s, FitTable *t)
{
    const FitPlan **over = t->over = arena_new(sizeof *over * (size_t)(s->nplans + 1));
    for (int i = 0; i < s->nplans; i++) {
        const FitPlan *p = s->plan[i];
        int k = 0;
        if (p->fits || !p->device)
            continue;
        const bool same = t->nrows && !(p->lost & ~t->row[0]->lost);
        if (same && (!t->next || p->tokens > t->next->tokens))
            t->next = p;
        while (k < t->nover && over[k]->lost != p->lost)
            k++;
        if (k == t->nover || p->device < over[k]->device)
            over[k] = p;
        t->nover += k == t->nover;
    }
    t->nover = nearest(over, t->nover);
}

static FitTable table_of(const Search *s)
{
    FitTable t = {.samples = s->samples, .ranks = s->ranks, .config = s->base, .plans = s->made};
    t.all = arena_new(sizeof *t.all * (size_t)(s->nplans + 1));
    for (int i = 0; i < s->nplans; i++)
        if (s->plan[i]->fits)
            t.all[t.nall++] = s->plan[i];
    qsort(t.all, (size_t)t.nall, sizeof *t.all, by_merit);
    choose_rows(&t);
    choose_over(s, &t);
    return t;
}

static Choice choice_of(const Search *s, const FitPlan *p)
{
    int k = 0;
    while (s->plan[k] != p)
        k++;
    return s->choice[k];
}

/* Tries the rows of memory.recompute between the first and the last, where gen chooses what
 * recomputed blocks keep, for a choice that recomputes all; with up to `less` smaller
 * micro-batches, too. */
static void choose_between(Search *s, Choice choice, int less)
{
    for (int row = 1; row < rows_of(s, s->recompute) - 1; row++)
        for (int k = 0; k <= less && choice.split >= k; k++) {
            Choice other = choice;
            other.split -= k;
            set_row(s, &other, s->recompute, row);
            plan_of(s, &other);
        }
}

/* The fastest plan that fits, loses what p does, recomputes all and has feed-forward layers as
 * `choice`, which becomes its choice; false: none. */
static bool fastest_like(const Search *s, const FitTable *t, const FitPlan *p, Choice *choice)
{
    for (int i = 0; i < t->nall; i++) {
        const Choice other = choice_of(s, t->all[i]);
        if (t->all[i]->lost == p->lost &&
            other.row[s->recompute] == choice->row[s->recompute] &&
            (s->tiles == AS_IS || other.row[s->tiles] == choice->row[s->tiles])) {
            *choice = other;
            return true;
        }
    }
    return false;
}

/* The same for the first rows of the table and for the fastest plans that recompute all and lose
 * what a row does, with whole feed-forward layers and in tiles. */
static void refine_kept(Search *s, const FitTable *t)
{
    const int last = rows_of(s, s->recompute) - 1;
    for (int i = 0; i < t->nrows && i < NAMED && last > 1; i++)
        for (int k = 0; k < rows_of(s, s->tiles); k++) {
            Choice choice = choice_of(s, t->row[i]);
            set_row(s, &choice, s->recompute, last);
            set_row(s, &choice, s->tiles, k);
            const FitPlan *p = plan_of(s, &choice);
            if (p && p->fits)
                choose_between(s, choice, i ? 0 : SMALLER);
            if (fastest_like(s, t, t->row[i], &choice))
                choose_between(s, choice, 0);
        }
}

/* Tries other attention kernels for all rows, until a row is no faster with them: they make all
 * plans of a recipe faster, or none. */
static void refine_attention(Search *s, const FitTable *t)
{
    const int last = rows_of(s, s->attention) - 1;
    for (int i = 0; i < t->nrows && last > 0; i++) {
        Choice choice = choice_of(s, t->row[i]);
        set_row(s, &choice, s->attention, last);
        const FitPlan *p = plan_of(s, &choice);
        if (p && p->tokens <= t->row[i]->tokens)
            return;
    }
}

FitTable fit_search(const FitAsk *ask)
{
    Search s = {.ask = ask};
    Choice *set;
    Config *own = fit_config(ask);
    s.base = fit_placed(ask);
    if (!s.base)
        s.base = own;
    s.ranks = fit_ranks(ask, s.base);
    set_axes(&s);
    set_splits(&s, ask->samples ? ask->samples : fit_samples(own));
    Choice as_is = {.split = 0};
    for (int i = 0; i < AXES; i++)
        as_is.row[i] = AS_IS;
    const int splits = s.nsplits;
    while (as_is.split < splits && s.split[as_is.split] != s.base->v[F_batch_micro].i)
        as_is.split++;
    if (as_is.split == splits)
        s.nsplits = as_is.split = 0;         /* without words of the batch */
    if (s.nsplits ||
        s.base->v[F_batch_micro].i * s.base->v[F_batch_accum].i * s.ranks == s.samples)
        plan_of(&s, &as_is);
    s.nsplits = splits;
    const int n = all_losses(&s, &set);
    for (int i = 0; i < n; i++)
        search_losses(&s, set[i]);
    if (!s.made)                 /* the words of the user do not go together: say why */
        make_plan(&(Making){ask, arena_new(sizeof(FitPlan))});
    FitTable t = table_of(&s);
    refine_kept(&s, &t);
    t = table_of(&s);
    refine_attention(&s, &t);
    return table_of(&s);
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

