/* inject.h -- makes the n-th call of the system fail. The program is linked with --wrap=NAME for each
 * __wrap_NAME of inject.c. */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>

/* How a call fails: by this errno; or INJECT_SHORT: it reads or writes half of what it was asked to. */
enum { INJECT_SHORT = -1 };

/* Shared with child processes. */
typedef struct {
    int calls;               /* so far, that may fail so */
    int failed;              /* of them */
    char name[32];           /* of the first that failed */
} Injected;

extern Injected *injected;

/* From now on the n-th call that may fail by `why` does so, counted from 1, and all after it if `on`; 0: none does. */
void inject(int n, int why, bool on);

#endif
