/* best.c -- best validation so far, early stopping. */
#include "runtime/run/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/run/checkpoint.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

void best_clear(Best *b, const Metrics *of, char *(*enough)(const double *eval))
{
    REQUIRE(of->neval <= METRICS_MAX);
    *b = (Best){.of = of, .enough = enough, .seen = {.value = NAN}, .best = {.value = NAN},
                .saved = {.value = NAN}};
    for (int i = 0; i < METRICS_MAX; i++)
        b->last[i] = NAN;
}

static const Metric *decides(const Best *b)
{
    return &b->of->eval[b->of->decides];
}

/* True if x is finite and better than y, or y is NAN. */
static bool better(const Best *b, double value, double than)
{
    return isfinite(value) && !(decides(b)->more ? value <= than : value >= than);
}

bool best_see(Best *b, int64_t step, const double *value)
{
    if (step == 0)
        return false;
    for (int i = 0; i < b->of->neval; i++)
        b->last[i] = value[i];
    b->seen = (Validation){value[b->of->decides], step};
    bool best = better(b, b->seen.value, b->best.value);
    if (best)
        b->best = b->seen;
    b->worse = best ? 0 : b->worse + 1;
    return best;
}

char *best_text(const Best *b, const Validation *v)
{
    char *value = metrics_one(decides(b), v->value),
         *text = format("%s at step %" PRId64, value, v->step);
    free(value);
    return text;
}

/* True if --patience is used up. */
static char *spent(const Best *b, int64_t patience)
{
    if (!isfinite(b->best.value))
        return format("eval_%s was not finite in any of the last %" PRId64
                      " validations (--patience %" PRId64 ")",
                      decides(b)->name, b->worse, patience);
    char *best = best_text(b, &b->best);
    char *why = format("none of the last %" PRId64 " validations was better than %s (--patience %"
                       PRId64 ")", b->worse, best, patience);
    free(best);
    return why;
}

char *best_over(const Best *b, int64_t patience)
{
    bool any = !isnan(b->last[b->of->samples]);
    char *why = any && b->enough ? b->enough(b->last) : NULL;
    return why || !patience || b->worse < patience ? why : spent(b, patience);
}

static void add(cJSON *state, const char *value, const char *step, const Validation *v)
{
    if (!isfinite(v->value))
        return;
    json_add_float(state, value, v->value);
    cJSON_AddNumberToObject(state, step, (double)v->step);
}

static void take(const cJSON *state, const char *value, const char *step, Validation *v)
{
    const cJSON *l = json_get(state, value), *s = json_get(state, step);
    if (cJSON_IsNumber(l) && cJSON_IsNumber(s))
        *v = (Validation){l->valuedouble, (int64_t)s->valuedouble};
}

bool best_is_saved(const Best *b, const char *out)
{
    char *path = checkpoint_path(out, b->saved.step);
    const bool is = isfinite(b->saved.value) && folder_exists(path);
    free(path);
    return is;
}

/* Warns, once per start, if the best checkpoint was removed; it stays the best. */
static void check_kept(Best *b, const char *out)
{
    if (b->reported || !isfinite(b->saved.value) || best_is_saved(b, out))
        return;
    char *best = best_text(b, &b->saved);
    warn("%s/checkpoint-%" PRId64 " is gone; it was the best saved one: %s; only a better "
         "validation replaces it", out, b->saved.step, best);
    b->reported = true;
    free(best);
}

void best_save(Best *b, const char *out, int64_t step, cJSON *state, cJSON *trainer)
{
    check_kept(b, out);
    const bool now = b->seen.step == step && better(b, b->seen.value, b->saved.value);
    if (now)
        b->saved = b->seen;
    cJSON_AddStringToObject(state, "best_metric", decides(b)->name);
    cJSON_AddNumberToObject(state, "worse", (double)b->worse);
    if (b->enough)
        metrics_save(b->of->eval, b->of->neval, b->last, cJSON_AddObjectToObject(state, "eval"));
    add(state, "best", "best_step", &b->best);
    add(state, "kept", "kept_step", &b->saved);
    if (!now && !best_is_saved(b, out))
        return;
    char *path = checkpoint_path(out, b->saved.step);
    cJSON_ReplaceItemInObjectCaseSensitive(trainer, "best_metric",
                                           cJSON_CreateNumber(b->saved.value));
    cJSON_ReplaceItemInObjectCaseSensitive(trainer, "best_model_checkpoint",
                                           cJSON_CreateString(path));
    free(path);
}

/* Drops the values of a metric that no longer decides; they cannot be compared with new ones. */
static void set_aside(Best *b, const char *metric)
{
    if (isfinite(b->best.value))
        note("the best validation so far, eval_%s %.6g at step %" PRId64 ", is dropped: eval_%s "
             "decides now; --keep-best and --patience start over", metric, b->best.value,
             b->best.step, decides(b)->name);
    b->best.value = b->saved.value = NAN;
    b->worse = 0;
}

void best_load(Best *b, const char *out, const cJSON *state)
{
    /* absent from older checkpoints, whose metric is the loss */
    const char *named = cJSON_GetStringValue(json_get(state, "best_metric")),
               *metric = named ? named : "loss";
    const cJSON *worse = json_get(state, "worse");
    take(state, "best", "best_step", &b->best);
    take(state, "kept", "kept_step", &b->saved);
    b->worse = cJSON_IsNumber(worse) ? (int64_t)worse->valuedouble : 0;
    if (strcmp(metric, decides(b)->name))
        set_aside(b, metric);
    check_kept(b, out);
    free(metrics_load(b->of->eval, b->of->neval, b->last, json_get(state, "eval")));
}
