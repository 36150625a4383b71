/* pack_jobs.c -- ordered thread pool: results are taken in the order in which jobs were put.
 *
 * Keeps: at most `cap` jobs between put and take, so memory is bounded; with one thread the caller
 *        does the work when it takes the result. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    void *job;
    bool done;
} Slot;

struct Jobs {
    void (*work)(void *user, int thread, void *job);
    void *user;
    int threads, cap;
    Slot *slot;                  /* job k is in slot[k % cap] */
    uint64_t put, begun, taken;  /* counts of jobs */
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    pthread_t *id;
};

typedef struct {
    Jobs *j;
    int thread;
} Worker;

static void *worker_run(void *arg)
{
    Worker *w = arg;
    Jobs *j = w->j;
    pthread_mutex_lock(&j->lock);
    for (;;) {
        while (j->begun == j->put && !j->stop)
            pthread_cond_wait(&j->more, &j->lock);
        if (j->stop)
            break;
        Slot *s = &j->slot[j->begun++ % (uint64_t)j->cap];
        pthread_mutex_unlock(&j->lock);
        j->work(j->user, w->thread, s->job);
        pthread_mutex_lock(&j->lock);
        s->done = true;
        pthread_cond_signal(&j->done);
    }
    pthread_mutex_unlock(&j->lock);
    free(w);
    return NULL;
}

Jobs *jobs_start(int threads, void (*work)(void *user, int thread, void *job), void *user)
{
    Jobs *j = calloc(1, sizeof *j);
    j->work = work;
    j->user = user;
    j->threads = threads;
    j->cap = threads == 1 ? 1 : 4 * threads;
    j->slot = calloc((size_t)j->cap, sizeof *j->slot);
    j->id = calloc((size_t)threads, sizeof *j->id);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->more, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&j->done, &clock);
    pthread_condattr_destroy(&clock);
    for (int i = 0; threads > 1 && i < threads; i++) {
        Worker *w = malloc(sizeof *w);
        *w = (Worker){j, i};
        if (pthread_create(&j->id[i], NULL, worker_run, w)) {
            free(w);
            j->threads = i > 1 ? i : 1;
            jobs_end(j);
            return NULL;
        }
    }
    return j;
}

bool jobs_full(const Jobs *j)
{
    return j->put - j->taken == (uint64_t)j->cap;
}

bool jobs_none(const Jobs *j)
{
    return j->put == j->taken;
}

void jobs_put(Jobs *j, void *job)
{
    REQUIRE(!jobs_full(j));
    pthread_mutex_lock(&j->lock);
    j->slot[j->put++ % (uint64_t)j->cap] = (Slot){job, false};
    pthread_cond_signal(&j->more);
    pthread_mutex_unlock(&j->lock);
}

void *jobs_take(Jobs *j, double seconds)
{
    if (jobs_none(j))
        return NULL;
    Slot *s = &j->slot[j->taken % (uint64_t)j->cap];
    if (j->threads == 1) {
        j->work(j->user, 0, s->job);
        s->done = true;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    bool late = false;
    pthread_mutex_lock(&j->lock);
    while (!s->done && !late)
        late = pthread_cond_timedwait(&j->done, &j->lock, &until) && !s->done;
    j->taken += s->done;
    pthread_mutex_unlock(&j->lock);
    return late ? NULL : s->job;
}

void jobs_end(Jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->stop = true;
    pthread_cond_broadcast(&j->more);
    pthread_mutex_unlock(&j->lock);
    for (int i = 0; j->threads > 1 && i < j->threads; i++)
        pthread_join(j->id[i], NULL);
    pthread_cond_destroy(&j->more);
    pthread_cond_destroy(&j->done);
    pthread_mutex_destroy(&j->lock);
    free(j->slot);
    free(j->id);
    free(j);
}
