/* npy.h -- writer for NumPy arrays of doubles (.npy, format 1.0). */
#ifndef DIECAST_NPY_H
#define DIECAST_NPY_H

#include <stdint.h>

/* Atomically writes the array (rows, columns) to folder/name. Returns NULL, or a malloc'ed
 * message. */
char *npy_write(const char *folder, const char *name, const double *from, int64_t rows,
                int64_t columns);

#endif
