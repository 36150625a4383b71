/* new_ways.c -- ways to train a model folder, and the choice of one that fits.
 *
 * In:    a folder, the words of the user, the lengths of the user's samples.
 * Out:   target, precision, sequence length; a recipe, planned.
 * Method: values from the folder and from the user are fixed; the planner decides the rest: the
 *         first way of a list that fits. */
#include "gen/tools/new_ways.h"

#include "gen/commands.h"
#include "gen/graph/objectives.h"
#include "gen/lower/lower.h"
#include "gen/tools/kept_choice.h"
#include "gen/tools/measure.h"
#include "gen/tools/tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/hf_config.h"

enum {
    CPU_TOKENS = 512, GPU_TOKENS = 2048,     /* of a sequence */
    TOKENS_STEP = 16,            /* seq.max that follows from data is a multiple of it */
    LEAST_TOKENS = 128           /* the shortest that is tried */
};

const char *new_given(const NewOptions *o, const char *field)
{
    size_t n = strlen(field);
    for (int i = 0; i < o->nwords; i++)
        if (!strncmp(o->word[i], field, n) && o->word[i][n] == '=')
            return o->word[i] + n + 1;
    return NULL;
}

bool new_fixed(const ModelFolder *m, int field)
{
    Config c = {0};
    c.v[F_objective].s = m->objective->name;
    return field_fixed(&c, field) != NULL;
}

bool new_takes_adapters(const ModelFolder *m)
{
    return !new_fixed(m, F_lora_rank) && family_takes_adapters(m->family);
}

static void add_word(char **word, int *n, const NewOptions *o, const char *field, const char *value)
{
    if (!new_given(o, field))
        word[(*n)++] = text_print("%s=%s", field, value);
}

Config *new_config(const Ask *a, const Way *w)
{
    const NewOptions *o = a->o;
    const ModelFolder *m = a->m;
    char **word = arena_new(((size_t)o->nwords + 24) * sizeof *word);
    int n = 0;
    const char *name = o->file ? o->file : "model";
    if (!o->card)
        add_word(word, &n, o, "target", a->target->name);
    if (strcmp(a->precision, "fp32"))
        add_word(word, &n, o, "precision", a->precision);
    const char *kinds = m->objective->kinds;
    const bool rows = a->data ? !strcmp(a->data->kind, "rows") : m->template;
    if (names_listed(kinds, "bfd") && rows)
        add_word(word, &n, o, "data.kind", "bfd");
    else if (*kinds && !names_listed(kinds, "packed"))
        add_word(word, &n, o, "data.kind", text_print("%.*s", (int)strcspn(kinds, "|"), kinds));
    if (w->tokens)
        add_word(word, &n, o, "seq.max", text_print("%" PRId64, w->tokens));
    if (!new_given(o, "batch.global"))
        add_word(word, &n, o, "batch.micro", text_print("%" PRId64, w->samples));
    if (w->lora) {
        add_word(word, &n, o, "lora.rank", text_print("%" PRId64, a->rank));
        add_word(word, &n, o, "lora.alpha", text_print("%" PRId64, 2 * a->rank));
        add_word(word, &n, o, "lora.targets", "all-linear");
    }
    if (m->nf4 && (w->lora || new_given(o, "lora.rank")))
        add_word(word, &n, o, "lora.base", "nf4");
    const char *head = objective_parts(m->objective->name)->rules.head_field;
    if (head && m->lacks_added && (w->lora || new_given(o, "lora.rank")))
        add_word(word, &n, o, head, "true");
    if (w->recompute)
        add_word(word, &n, o, "memory.recompute", "block");
    if (!objective_default(m->objective->name, "lr")) {
        if (!new_given(o, "run.steps"))
            add_word(word, &n, o, "run.epochs", "1");
        add_word(word, &n, o, "run.lr", w->lora || new_given(o, "lora.rank") ? "2e-4" : "1e-5");
        add_word(word, &n, o, "run.schedule", "cosine");
        add_word(word, &n, o, "run.warmup", "0.03");
    }
    for (int i = 0; i < o->nwords; i++)
        word[n++] = o->word[i];
    Config *c = model_folder_config(m, name, word, n);
    choose_kept(c);
    return c;
}

bool new_fits(const Ask *a, Way *w)
{
    w->c = new_config(a, w);
    w->g = fit_planned(w->c);
    w->differs = model_folder_differs(a->m, w->g);
    return !w->differs && w->g->arena_bytes <= fit_limit(w->g);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t rank_of(const NewOptions *o, const char *command)
{
    char *end;
    errno = 0;
    long long rank = o->lora ? strtoll(o->lora, &end, 10) : NEW_RANK;
    if (o->lora && (errno || end == o->lora || *end || rank < 1 ||
                    rank > (int64_t)field_row[F_lora_rank].hi))
        err((Loc){0}, "%s: --lora %s: must be a rank from 1 to %.0f", command, o->lora,
            field_row[F_lora_rank].hi);
    return rank;
}

static const Target *find_target(const char *command, const char *word)
{
    const char *name[32];
    int n = target_count();
    if (n > (int)(sizeof name / sizeof *name))
        bug("more targets than there is room for");
    for (int i = 0; i < n; i++)
        name[i] = target_row(i)->name;
    const char *near = target_find(word) ? NULL : text_nearest(word, name, n);
    if (!target_find(word) && card_find(word))
        err((Loc){0}, "%s: %s is a card: use card=%s", command, word, card_find(word)->name);
    if (!target_find(word))
        err((Loc){0}, "%s: no target %s%s; gen list targets shows them", command, word,
            near ? text_print("; did you mean %s?", near) : "");
    return target_find(word);
}

static void choose_target(Ask *a, const char *command)
{
    const char *word = a->o->target ? a->o->target : new_given(a->o, "target");
    bool small = a->parameters < NEW_MILLIONS * INT64_C(1000000);
    const Card *card = a->o->card;
    a->target = find_target(command, card ? card->target : word ? word : small ? "cpu" :
                            NEW_TARGET);
    a->target_why = card   ? text_print("of card %s: %s", card->name, card->about)
                    : word ? "as given"
                           : text_print("%s %d million parameters%s; --target or --card name "
                                        "another", small ? "less than" : "of", NEW_MILLIONS,
                                        small ? "" : " or more");
}

/* Precision of the stored weights, if the target supports it. */
static void choose_precision(Ask *a, const char *command)
{
    const ModelFolder *m = a->m;
    const char *word = new_given(a->o, "precision");
    bool cannot = !strcmp(m->stored, "fp16") && !strcmp(a->target->backend, "cpu");
    a->precision = word ? word : cannot ? "fp32" : m->stored;
    a->precision_why = word     ? "as given"
                       : cannot ? text_print("%s; fp16 is for GPUs", m->stored_by)
                                : m->stored_by;
    if (!strcmp(a->precision, "fp16") && m->wide)
        err((Loc){0},
            "%s: precision=fp16: %s has weights in BF16, which fp16 cannot hold: use bf16 or "
            "fp32",
            command, m->path);
}

/* Longest sequence that a program of the model supports. */
int64_t new_positions(const ModelFolder *m)
{
    static const int field[] = {F_model_positions, F_model_window};
    int64_t most = INT64_MAX;
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        int64_t n = m->value[field[i]] ? strtoll(m->value[field[i]], NULL, 10) : 0;
        most = n > 0 ? smaller(most, n) : most;
    }
    char *error;
    int64_t window = hf_config_window(m->config, &error);
    free(error);                 /* reported when the folder is compared */
    return window > 0 ? smaller(most, window) : most;
}

/* Parameters of the smallest program for the folder; ends the program if that would refuse it. */
static void check_folder(Ask *a, ModelFolder *m)
{
    const NewOptions *all = a->o;
    NewOptions shaping = {.word = arena_new(((size_t)all->nwords + 1) * sizeof *shaping.word)};
    for (int i = 0; i < all->nwords; i++) {          /* only words that determine the model */
        const char *path = text_print("%.*s", (int)strcspn(all->word[i], "="), all->word[i]);
        if (!strcmp(path, "objective") || objective_owns(m->objective->name, path))
            shaping.word[shaping.nwords++] = all->word[i];
    }
    Way least = {.tokens = new_fixed(m, F_seq_max) ? 0 : smaller(16, new_positions(m)),
                 .samples = 1, .lora = m->nf4};
    a->o = &shaping;
    a->target = target_find("cpu");
    a->precision = "fp32";
    least.g = graph_build(new_config(a, &least));
    a->o = all;
    model_folder_check(m, least.g);
    const Holdings held = measure_holdings(least.g);
    a->parameters = held.parameters - (least.lora ? held.trained : 0);
}

/* The samples of --data, which data.kind, where it is given, has to suit. */
static const SampleLengths *read_data(const ModelFolder *m, const NewOptions *o,
                                      const char *command)
{
    SampleLengths *s = arena_new(sizeof *s);
    const char *kind = new_given(o, "data.kind");
    *s = sample_lengths(m, o->data);
    if (kind && !strcmp(kind, "packed") && strcmp(s->kind, "packed"))
        err((Loc){0},
            "%s: data.kind=packed reads documents, and the samples in --data %s are %s; leave "
            "data.kind out", command, o->data, s->kind);
    return s;
}

/* seq.max where the user leaves it open: the longest sample as far as the model goes, or a usual
 * length. */
static int64_t sequence_tokens(const Ask *a)
{
    const int64_t usual = !strcmp(a->target->backend, "cpu") ? CPU_TOKENS : GPU_TOKENS;
    const bool samples = a->data && a->data->samples;
    const int64_t fits_longest = samples ?
        (a->data->longest + TOKENS_STEP - 1) / TOKENS_STEP * TOKENS_STEP : usual;
    return smaller(new_positions(a->m), fits_longest);
}

/* Chooses target, precision and sequence length; ends the program if no program accepts the
 * folder. */
Ask new_ask(ModelFolder *m, const NewOptions *o, const char *command)
{
    const SampleLengths *data = o->data ? read_data(m, o, command) : NULL;
    Ask a = {.m = m, .o = o, .rank = rank_of(o, command), .data = data};
    const ObjectiveRules *rules = &objective_parts(m->objective->name)->rules;
    const char *adds = rules->new_token_field ? new_given(o, rules->new_token_field) : NULL;
    if (adds && !strcmp(adds, "true")) {
        const char *token = new_given(o, rules->token_field);
        model_folder_new_token(m, rules->new_token_field,
                               token ? token : field_default_word(field_find(rules->token_field)));
    }
    check_folder(&a, m);
    choose_target(&a, command);
    choose_precision(&a, command);
    if (!new_fixed(m, F_seq_max))
        a.tokens = new_given(o, "seq.max") ? strtoll(new_given(o, "seq.max"), NULL, 10) :
            sequence_tokens(&a);
    return a;
}

/* ", 8 sequences of 512 tokens" of a micro-batch; "": the objective sets the length. */
static const char *least_batch(const Way *w)
{
    const int64_t n = w->c->v[F_batch_micro].i;
    return !w->tokens ? "" : text_print(", %s of %" PRId64 " tokens", n == 1 ? "one sequence"
                                        : text_print("%" PRId64 " sequences", n), w->tokens);
}

/* First way to train that fits: all weights, then adapters; each as it is, then with recomputed
 * blocks; then with shorter sequences; with the largest micro-batch. */
Way new_choose(const Ask *a)
{
    const NewOptions *o = a->o;
    bool adapters = new_takes_adapters(a->m) && !o->full,
         whole = !o->lora && (o->full || !a->m->nf4),
        rank_given = new_given(o, "lora.rank") != NULL;
    Way w = {0}, least = {0};
    for (int64_t tokens = a->tokens; !w.g; tokens /= 2) {
        for (int i = 0; i < 4 && !w.g; i++) {
            Way next = {.lora = i / 2, .recompute = i % 2, .tokens = tokens, .samples = 1};
            bool wanted = rank_given ? !next.lora : next.lora ? adapters || o->lora : whole;
            bool is_given = new_given(o, "memory.recompute") != NULL;
            bool larger = (!next.recompute && !is_given) || (!next.lora && adapters && !rank_given);
            if (!wanted || (tokens < a->tokens && larger) || (next.recompute && is_given))
                continue;
            if (new_fits(a, &next))
                w = next;
            else if (next.differs && (new_given(o, "seq.max") || tokens / 2 < LEAST_TOKENS))
                err((Loc){text_print("%s/config.json", a->m->path), 0}, "%s", next.differs);
            else if (!least.g || next.g->arena_bytes < least.g->arena_bytes)
                least = next;
        }
        if (!w.g && (new_given(o, "seq.max") || tokens / 2 < LEAST_TOKENS))
            err((Loc){0},
                "%s: no way to train it fits %s: the least is %s (%s%s%s), %s available; another "
                "--card or --target%s%s", a->m->path, a->target->name,
                text_bytes(least.g->arena_bytes),
                least.lora ? text_print("adapters of rank %" PRId64, a->rank) : "all weights",
                least_batch(&least), least.recompute ? ", blocks computed again" : "",
                    text_bytes(fit_limit(least.g)),
                new_given(o, "batch.micro") || new_given(o, "batch.global") ?
                    ", a smaller batch.micro with more batch.accum"
                                                                    : "",
                !strcmp(a->precision, "fp32") && !new_given(o, "precision") ?
                    ", or precision=bf16" : "");
    }
    bool open = !new_given(o, "batch.micro") && !new_given(o, "batch.global");
    for (int64_t samples = 2; open && samples <= NEW_SAMPLES; samples *= 2) {
        Way next = w;
        next.samples = samples;
        if (!new_fits(a, &next))
            break;
        w = next;
    }
    return w;
}
