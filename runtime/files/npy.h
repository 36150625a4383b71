/* npy.h -- arrays of doubles as NumPy's files (.npy, format 1.0): written, never read. */
#ifndef DIECAST_NPY_H
#define DIECAST_NPY_H

#include <stdint.h>

/* folder/name becomes the array (rows, columns), at once. NULL, or a malloc'ed message. */
char *npy_write(const char *folder, const char *name, const double *from, int64_t rows, int64_t columns);

#endif
