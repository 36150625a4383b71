/* best.c -- the best validation so far, and what ends a run early. */
#include "runtime/run/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/run/checkpoint.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

void best_clear(Best *b, const Metrics *of, char *(*enough)(const double *eval))
{
    *b = (Best){.of = of, .enough = enough, .seen = {.value = NAN}, .best = {.value = NAN},
                .kept = {.value = NAN}};
    for (int i = 0; i < METRICS_MAX; i++)
        b->last[i] = NAN;
}

static const Metric *decides(const Best *b)
{
    return &b->of->eval[b->of->decides];
}

/* A value that is a number, and better than another or than none. */
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

/* --patience is spent. */
static char *spent(const Best *b, int64_t patience)
{
    char *best = isfinite(b->best.value)
                     ? format("%s %.6g, that of step %" PRId64,
                              decides(b)->more ? "above" : "below", b->best.value, b->best.step)
                     : format("that is a number");
    char *why = format("of the last %" PRId64 " validations none had a %s %s (--patience %" PRId64
                       ")", b->worse, decides(b)->name, best,
                       patience);
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

void best_save(Best *b, const char *out, int64_t step, cJSON *state, cJSON *trainer)
{
    char *path = checkpoint_path(out, b->kept.step);
    if (!folder_exists(path))
        b->kept.value = NAN;
    free(path);
    if (b->seen.step == step && better(b, b->seen.value, b->kept.value))
        b->kept = b->seen;
    cJSON_AddNumberToObject(state, "worse", (double)b->worse);
    if (b->enough)
        metrics_save(b->of->eval, b->of->neval, b->last, cJSON_AddObjectToObject(state, "eval"));
    add(state, "best", "best_step", &b->best);
    add(state, "kept", "kept_step", &b->kept);
    if (!isfinite(b->kept.value))
        return;
    path = checkpoint_path(out, b->kept.step);
    cJSON_ReplaceItemInObjectCaseSensitive(trainer, "best_metric",
                                           cJSON_CreateNumber(b->kept.value));
    cJSON_ReplaceItemInObjectCaseSensitive(trainer, "best_model_checkpoint",
                                           cJSON_CreateString(path));
    free(path);
}

void best_load(Best *b, const cJSON *state)
{
    const cJSON *worse = json_get(state, "worse");
    take(state, "best", "best_step", &b->best);
    take(state, "kept", "kept_step", &b->kept);
    b->worse = cJSON_IsNumber(worse) ? (int64_t)worse->valuedouble : 0;
    free(metrics_load(b->of->eval, b->of->neval, b->last, json_get(state, "eval")));
}
