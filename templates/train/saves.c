/* saves.c -- checkpoints of a run: saving and restoring its state. */
#define _GNU_SOURCE
#include "saves.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base.h"             // die(), note(), the world of ranks
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/weights.h"    // how long reading and writing them takes
#include "runtime/ranks/comm.h"       // comm_expect()
//@ if checkpoint_async
#include "runtime/run/checkpoint_async.h"
//@ end
#include "runtime/run/hints.h"        // hints after a failure
#include "runtime/run/initial_weights.h"
//@ if uses_tokens
#include "runtime/run/records.h"      // --data, --eval-data
//@ end
#include "step.h"                     // the model

//@ if hook_name
void name_checkpoint(Run *r, int64_t step, const Epochs *epochs, bool best)
{
    char *from = checkpoint_path(r->flags.out, step), *name = NULL, *path = NULL, *error = NULL;
    comm_expect(weights_seconds(&model));
    if (world.rank == 0 && folder_exists(from))
        name = objective_hooks.name(epochs, step, best);
    if (name) {
        path = folder_join(r->flags.out, name);
        error = folder_make_below(r->flags.out, path);
        error = error ? error : folder_link(from, path);
//@ if hook_named
        if (!error)
            error = objective_hooks.named(&r->flags, path, epochs);
//@ end
    }
    comm_expect(0);
    if (error)
        warn("%s; training goes on", error);
    free(from), free(name), free(path), free(error);
}

//@ end
/* A checkpoint that is being saved: what the run was like at its step. */
typedef struct {
    int64_t step;
    Validation before;           /* the best saved validation but for this checkpoint */
    uint32_t bits;               /* checksum of the weights, in canonical order */
//@ if hook_name
    int64_t rows;                /* of the epochs */
    bool best;                   /* it is after the best validation so far */
//@ end
} Save;

/* After the checkpoint was written, or could not be. */
static void end_save(Run *r, const Save *s, bool saved)
{
    if (!saved) {
        r->best.saved = s->before;
        return;
    }
    if (model.order)
        note("bits %08x: crc32c of the weights after step %" PRId64, s->bits, s->step);
//@ if uses_tokens
    if (r->tokenizer_is_copy) {
        char *folder = checkpoint_path(r->flags.out, s->step);
        r->checkpoints.tokenizer = folder_join(folder, "tokenizer.json");
        free(folder);
    }
//@ end
//@ unless lora
    if (r->checkpoints.found) {  /* an old checkpoint, which may be removed from now on */
        free(r->saved);
        r->checkpoints.source = r->saved = checkpoint_path(r->flags.out, s->step);
    }
//@ end
//@ if hook_name
    Epochs epochs = r->epochs;
    epochs.n = s->rows;
    name_checkpoint(r, s->step, &epochs, s->best);
//@ end
}

/* Writes the checkpoint while training waits. */
static void save_now(Run *r, const Save *s, const cJSON *state, const cJSON *trainer, bool must)
{
    Checkpoints *c = &r->checkpoints;
    const bool saved = checkpoint_save(c, &model, s->step, state, trainer);
    if (!saved && must)
        die(EXIT_IO,
            "%s: the last checkpoint could not be written; the steps since the one before it, up "
            "to step %" PRId64 ", are lost",
            c->why, s->step);
    end_save(r, s, saved);
}

//@ if checkpoint_async
static Save under_way;           /* step 0: none */

void save_end(Run *r, bool waited)
{
    const double start = clock_seconds();
    if (!under_way.step)
        return;
    comm_expect(3 * weights_seconds(&model));        /* two attempts, one verification */
    char *advice = world.rank == 0 ? hint_nonfinite(&r->log, r->flags.out) : NULL;
    r->checkpoints.advice = advice;
    const bool saved = checkpoint_async_end(&r->checkpoints, waited);
    r->checkpoints.advice = NULL;
    free(advice);
    comm_barrier();              /* the others wait with rank 0 */
    comm_expect(0);
    end_save(r, &under_way, saved);
    under_way.step = 0;
    log_pause(&r->log, clock_seconds() - start);
}

//@ end
void save(Run *r, int64_t step, bool must)
{
//@ if checkpoint_async
    save_end(r, !must);
//@ end
    double start = clock_seconds();
    Checkpoints *c = &r->checkpoints;
    cJSON *state = cJSON_CreateObject(), *trainer = log_state(&r->log, step);
    param_groups_save(state);
    cJSON_AddNumberToObject(state, "total", (double)r->total);
//@ if hook_wants_start
    if (r->began)
        cJSON_AddStringToObject(state, "began", r->began);
//@ end
    initial_save_start(c, state);
    const Save s = {.step = step, .before = r->best.saved,
//@ if hook_name
                    .rows = r->epochs.n, .best = r->best.best.step == step,
//@ end
                    .bits = model.order ? model_crc(&model) : 0};
    best_save(&r->best, r->flags.out, step, state, trainer);
    log_save(&r->log, state);
//@ if uses_tokens
    records_save(&r->flags, &r->train, state);
//@ end
    epochs_save(&r->epochs, state);
//@ if hook_measured
    if (r->measurement_due)
        cJSON_AddTrueToObject(state, "owes");
//@ end
    char *advice = world.rank == 0 ? hint_nonfinite(&r->log, r->flags.out) : NULL;
    c->advice = advice;
//@ unless checkpoint_async
    save_now(r, &s, state, trainer, must);
//@ end
//@ if checkpoint_async
    if (must) {
        save_now(r, &s, state, trainer, true);
    } else {
        checkpoint_async_begin(c, &model, step, state, trainer);
        under_way = s;
    }
//@ end
    c->advice = NULL;
    free(advice);
    cJSON_Delete(state);
    cJSON_Delete(trainer);
    log_pause(&r->log, clock_seconds() - start);
}

void restore(Run *r)
{
    const cJSON *s = r->checkpoints.state;
    best_load(&r->best, r->flags.out, s);
//@ if uses_tokens
    records_load(&r->train, s);
//@ end
//@ if hook_measured
    r->measurement_due = cJSON_IsTrue(json_get(s, "owes"));
//@ end
    char *error = param_groups_load(s);
    if (!error)
        error = log_load(&r->log, &objective_metrics, s);
    if (!error)
        error = epochs_load(&r->epochs, s);
    if (error)
        die(EXIT_NO_CKPT, "%s/train_state.json: %s", r->checkpoints.found, error);
}
