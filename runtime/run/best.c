/* best.c -- the best validation so far. */
#include "runtime/run/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/run/checkpoint.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

void best_clear(Best *b, const Metrics *of)
{
    *b = (Best){.by = &of->eval[of->decides], .seen = {.value = NAN}, .best = {.value = NAN},
                .kept = {.value = NAN}};
}

/* A value that is a number, and better than another or than none. */
static bool better(const Best *b, double value, double than)
{
    return isfinite(value) && !(b->by->more ? value <= than : value >= than);
}

bool best_see(Best *b, int64_t step, double value)
{
    if (step == 0)
        return false;
    b->seen = (Validation){value, step};
    bool best = better(b, value, b->best.value);
    if (best)
        b->best = b->seen;
    b->worse = best ? 0 : b->worse + 1;
    return best;
}

bool best_spent(const Best *b, int64_t patience)
{
    return patience && b->worse >= patience;
}

char *best_why(const Best *b, int64_t patience)
{
    char *best = isfinite(b->best.value)
                     ? format("%s %.6g, that of step %" PRId64, b->by->more ? "above" : "below",
                              b->best.value, b->best.step)
                     : format("that is a number");
    char *why = format("of the last %" PRId64 " validations none had a %s %s (--patience %" PRId64
                       ")", b->worse, b->by->name, best, patience);
    free(best);
    return why;
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
}
