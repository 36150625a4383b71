/* yield.c -- sched_yield() that sleeps. Open MPI calls it while a rank waits for a message; with more ranks than cores,
 * those that only give way take as much processor time as those that compute. cc links it into programs of ranks. */
#include <sched.h>
#include <time.h>

int sched_yield(void)
{
    const struct timespec moment = { 0, 50000 };        /* far less than a step */
    return nanosleep(&moment, NULL);
}
