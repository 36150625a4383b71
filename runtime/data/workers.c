/* workers.c -- thread pool.
 *
 * Method: a counter under a lock; threads wait between calls and block all signals. */
#define _GNU_SOURCE
#include "runtime/data/workers.h"

#include "runtime/base.h"

#include <pthread.h>
#include <signal.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    int64_t threads;
    int64_t next, n, left;       /* pieces: next to begin, all, not yet done */
    void (*work)(void *user, int64_t i);
    void *user;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

/* Works until no piece is left to begin; the lock is held on entry and on return. */
static void take_pieces(void)
{
    while (pool.next < pool.n) {
        int64_t i = pool.next++;
        pthread_mutex_unlock(&pool.lock);
        pool.work(pool.user, i);
        pthread_mutex_lock(&pool.lock);
        if (--pool.left == 0)
            pthread_cond_signal(&pool.done);
    }
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        take_pieces();
        pthread_cond_wait(&pool.more, &pool.lock);
    }
    return NULL;
}

void workers_start(int64_t n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; pool.threads < n; pool.threads++) {
        pthread_t id;
        int why = pthread_create(&id, NULL, worker, NULL);
        if (why)
            die(EXIT_CONFIG, "--num-workers %lld: thread %lld cannot be started (error %d): try "
                "fewer", (long long)n, (long long)pool.threads + 1, why);
        pthread_detach(id);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void workers_run(int64_t n, void (*work)(void *user, int64_t i), void *user)
{
    if (!pool.threads || n < 2) {
        for (int64_t i = 0; i < n; i++)
            work(user, i);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pool.work = work;
    pool.user = user;
    pool.next = 0;
    pool.n = pool.left = n;
    pthread_cond_broadcast(&pool.more);
    take_pieces();
    while (pool.left)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}
