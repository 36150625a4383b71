/* checkpoint_async.c -- checkpoints that a thread writes while training goes on.
 *
 * In:     arrays of the model, between two steps.
 * Keeps:  the thread reads the copies of `job` only, and communicates with no other rank.
 * Method: the main thread writes `job` before the thread starts and after it was joined:
 *             idle --begin: copy, start--> writing --the thread--> written --end: join--> idle
 *         `done`: written. checkpoint_async_end() waits for it, if need be. */
#define _GNU_SOURCE
#include "runtime/run/checkpoint_async.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/model/weights.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/snapshot.h"

static struct {
    Model copy;                      /* with arrays of its own */
    Checkpoints c;                   /* as it was at `step` */
    int64_t step;
    cJSON *all, *trainer;            /* train_state.json, trainer_state.json */
    int64_t bad;                     /* weights that are NaN or Inf, the first in `where` */
    const char *where;
    char *error;                     /* of checkpoint_write() */
    double stopped, written;         /* seconds: training for the copy; the thread */
    int64_t before, best;            /* last one that was saved, and its best one; 0: none */
    pthread_t thread;
    bool joinable;
    atomic_bool done;
} job;

static void *work(void *unused)
{
    const double start = clock_seconds();
    (void)unused;
    job.bad = snapshot_nonfinite(&job.copy, &job.where);
    if (job.before && !job.bad)
        checkpoint_remove_oldest(&job.c, job.before, job.best);
    if (!job.bad)
        job.error = checkpoint_write(&job.c, &job.copy, job.step, job.all, job.trainer);
    job.written = clock_seconds() - start;
    job.done = true;
    return NULL;
}

/* Signals are the main thread's. */
static void start(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int why = pthread_create(&job.thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    job.joinable = !why;
    if (!why)
        return;
    warn("no thread to write the checkpoint: %s; training waits for it", strerror(why));
    work(NULL);
}

void checkpoint_async_open(Model *m)
{
    snapshot_open(m, &job.copy);
    if (world.rank == 0 && !strcmp(device_name(), "CPU"))
        m->planned_bytes += m->snapshot_bytes;
}

void checkpoint_async_begin(Checkpoints *c, const Model *m, int64_t step, const cJSON *state,
                            const cJSON *trainer)
{
    const double begun = clock_seconds();
    checkpoint_check(c, m, step);
    comm_expect(weights_seconds(m));
    snapshot_take(m, &job.copy);
    comm_expect(0);
    if (world.rank != 0)
        return;
    job.c = *c;
    job.step = step;
    job.all = checkpoint_state(c, m, step, state);
    job.trainer = cJSON_Duplicate(trainer, true);
    job.done = false;
    job.stopped = clock_seconds() - begun;
    start();
}

bool checkpoint_async_done(void)
{
    return job.done;
}

bool checkpoint_async_end(Checkpoints *c, bool waited)
{
    static bool told;
    if (world.rank != 0)
        return true;
    const double begun = clock_seconds();
    if (job.joinable)
        pthread_join(job.thread, NULL);
    const double seconds = clock_seconds() - begun;
    if (waited && !told)
        note("the next save waited %.2f s until checkpoint-%lld was written; raise --save-every to "
             "avoid such waits", seconds, (long long)job.step);
    told = told || waited;
    job.joinable = job.done = false;
    checkpoint_check_finite(c, job.bad, job.where);
    const bool saved = checkpoint_count(c, job.step, job.error);
    if (saved) {
        note("checkpoint-%lld: written in %.2f s while training went on, which it stopped for "
             "%.2f s", (long long)job.step, job.written, job.stopped + seconds);
        job.before = job.step;
        job.best = checkpoint_best_step(job.trainer);
    }
    cJSON_Delete(job.all);
    cJSON_Delete(job.trainer);
    return saved;
}
