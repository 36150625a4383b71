/* npy.c -- a text header, padded so that the data start at a multiple of 64 bytes, then the data in
 * C order.
 *
 * Source: NumPy Enhancement Proposal 1. */
#include "runtime/files/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"

char *npy_write(const char *folder, const char *name, const double *from, int64_t rows,
                int64_t columns)
{
    enum { MAGIC = 10, ALIGN = 64 };    /* "\x93NUMPY", the version, the header length (2 bytes) */
    const size_t bytes = sizeof *from * (size_t)(rows * columns);
    char *text = format("{'descr': '<f8', 'fortran_order': False, "
                        "'shape': (%" PRId64 ", %" PRId64 "), }", rows, columns);
    const size_t n = strlen(text), head = (MAGIC + n + 1 + ALIGN - 1) / ALIGN * ALIGN,
                 length = head - MAGIC;
    unsigned char *all = malloc(head + bytes);
    if (!all)
        die(EXIT_INTERNAL, "out of memory for %s", name);
    memset(all, ' ', head);
    memcpy(all, "\x93NUMPY\x01\x00", 8);
    all[8] = (unsigned char)(length & 255), all[9] = (unsigned char)(length >> 8);
    memcpy(all + MAGIC, text, n);
    all[head - 1] = '\n';
    memcpy(all + head, from, bytes);
    char *error = folder_replace_bytes(folder, name, all, head + bytes);
    free(text), free(all);
    return error;
}
