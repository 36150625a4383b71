/* version.h -- --version: build and library versions; the check of the sources at start.
 *
 * Keeps: the same facts as lines and as JSON; --version queries no rank or device. */
#ifndef DIECAST_VERSION_H
#define DIECAST_VERSION_H

#include <stdbool.h>

#include "runtime/library.h"

/* Build facts; a text is NULL if not applicable. */
typedef struct {
    const char *name, *generator, *recipe, *hash, *overrides, *objective, *family, *precision,
        *target, *cluster;
    long long ranks;
    const char *ir, *kernels;    /* hex SHA-256 of the plan and of the kernel files */
    const char *compiler, *kernel_compiler;
    const char *flags;           /* compiler flags that affect the arithmetic */
    const char *lock; /* "CLUSTER SHA256" of the lock file the build was checked against; "":
                                    none */
    int (*libraries)(LibraryVersion *list); /* fills in libraries beyond the common ones and returns
                                                    their number; NULL: none */
} Built;

/* Set by the Makefile; unknown when compiled by hand. */
#ifndef BUILD_FLAGS
#define BUILD_FLAGS "unknown"
#define BUILD_LOCK ""
#endif

/* Prints the versions of libraries and toolchain on stdout; json: everything as one object
 * instead. */
void version_more(const Built *b, bool json);

/* Returns "cuBLASLt 13.1.0, cuDNN 9.14.0": those that compute, as loaded, with commas between them;
 * malloc'ed. */
char *version_computes(const LibraryVersion *list, int n);

/* Refuses to run a program built before gen last rewrote its sources. sources: hash of the sources
 * the program was built from. EXIT_CONFIG if the manifest.json next to the program has another
 * hash; a program without a manifest, such as a copied one, runs. */
void stale_check(const char *sources);

#endif
