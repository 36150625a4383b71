/* inject.h -- fault injection: makes the n-th system call fail. The program is linked with --wrap=NAME for each
 * __wrap_NAME of inject.c. */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>

/* A call fails with an errno, or, INJECT_SHORT, reads or writes half of what was asked. */
enum { INJECT_SHORT = -1 };

/* Shared with child processes. */
typedef struct {
    int calls;               /* so far, of those that can fail so */
    int failed;              /* of them */
    char name[32];           /* of the first that failed */
} Injected;

extern Injected *injected;

/* Makes the n-th call (from 1) that can fail with `why` do so, and with `on` every later one too. n 0: none. */
void inject(int n, int why, bool on);

#endif
