/* host_memory.h -- host memory that this process may still use. */
#ifndef DIECAST_HOST_MEMORY_H
#define DIECAST_HOST_MEMORY_H

#include <stdint.h>

/* Returns bytes: what Linux calls available, or less under a limit of this process's control groups
 * (1 or 2), whose page cache counts as free; not counting the arenas that are reserved, but not yet
 * touched; at least 0. INT64_MAX: unknown. root: "", in tests a folder in the place of /. */
int64_t host_memory_left(const char *root);

#endif
