/* best.c -- the best validation so far. */
#include "runtime/run/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/run/checkpoint.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

void best_clear(Best *b)
{
    *b = (Best){.seen = {.loss = NAN}, .best = {.loss = NAN}, .kept = {.loss = NAN}};
}

/* A loss that is a number, and less than another or than none. */
static bool less(double loss, double than)
{
    return isfinite(loss) && !(loss >= than);
}

bool best_see(Best *b, int64_t step, double loss)
{
    if (step == 0)
        return false;
    b->seen = (Validation){loss, step};
    bool better = less(loss, b->best.loss);
    if (better)
        b->best = b->seen;
    b->worse = better ? 0 : b->worse + 1;
    return better;
}

bool best_spent(const Best *b, int64_t patience)
{
    return patience && b->worse >= patience;
}

char *best_why(const Best *b, int64_t patience)
{
    char *best = isfinite(b->best.loss)
                     ? format("below %.6g, that of step %" PRId64, b->best.loss, b->best.step)
                     : format("finite");
    char *why = format("of the last %" PRId64 " validation losses none was %s (--patience %" PRId64
                       ")", b->worse, best, patience);
    free(best);
    return why;
}

static void add(cJSON *state, const char *loss, const char *step, const Validation *v)
{
    if (!isfinite(v->loss))
        return;
    json_add_float(state, loss, v->loss);
    cJSON_AddNumberToObject(state, step, (double)v->step);
}

static void take(const cJSON *state, const char *loss, const char *step, Validation *v)
{
    const cJSON *l = json_get(state, loss), *s = json_get(state, step);
    if (cJSON_IsNumber(l) && cJSON_IsNumber(s))
        *v = (Validation){l->valuedouble, (int64_t)s->valuedouble};
}

void best_save(Best *b, const char *out, int64_t step, cJSON *state, cJSON *trainer)
{
    char *path = checkpoint_path(out, b->kept.step);
    if (!folder_exists(path))
        b->kept.loss = NAN;
    free(path);
    if (b->seen.step == step && less(b->seen.loss, b->kept.loss))
        b->kept = b->seen;
    cJSON_AddNumberToObject(state, "worse", (double)b->worse);
    add(state, "best", "best_step", &b->best);
    add(state, "kept", "kept_step", &b->kept);
    if (!isfinite(b->kept.loss))
        return;
    path = checkpoint_path(out, b->kept.step);
    cJSON_ReplaceItemInObjectCaseSensitive(trainer, "best_metric",
                                           cJSON_CreateNumber(b->kept.loss));
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
