/* version.h -- --version: what a program was built from and with, and what it runs with.
 *
 * Keeps: the same facts as lines and as JSON; no rank, device or file is asked. */
#ifndef DIECAST_VERSION_H
#define DIECAST_VERSION_H

#include <stdbool.h>

#include "runtime/library.h"

/* What is built into the program; a text is NULL where there is none of it. */
typedef struct {
    const char *name, *generator, *recipe, *hash, *overrides, *objective, *family, *precision, *target, *cluster;
    long long ranks;
    const char *ir, *kernels;    /* hex sha256 of the plan and of the kernels' files */
    const char *compiler, *kernel_compiler;
    const char *flags;           /* of the compiler, for the arithmetic */
    const char *lock;            /* "CLUSTER SHA256" of the lock that the build was held to; "": none */
    int (*libraries)(LibraryVersion *list);      /* beside those of every program; how many; NULL: none */
} Built;

/* Of the Makefile; compiled by hand they are not known. */
#ifndef BUILD_FLAGS
#define BUILD_FLAGS "unknown"
#define BUILD_LOCK ""
#endif

/* Lines of libraries and of the toolchain on stdout; json: all of it as one object instead. */
void version_more(const Built *b, bool json);

#endif
