/* packing_csv.h -- buffers for the memory planner, from a CSV file. */
#ifndef PACKING_CSV_H
#define PACKING_CSV_H
#include "gen/lower/packing.h"

/* Rows of a CSV file; ids point into the bytes it was read from and are not NUL-terminated. */
typedef struct { const char *id; size_t idlen; int64_t line; PackBuffer b; } PackRow;
typedef struct { PackRow *rows; int n; char error[256]; } PackTable;

/* Parses header and rows (id, lower, upper, size, optional alignment; others ignored). True when
 * valid, else t->error holds "name:line: column: must be ..., got ...". The caller frees
 * t->rows. */
int packing_parse(const char *name, const char *data, size_t size, PackTable *t);

/* `gen pack-buffers FILE.csv [--capacity N]`; argv[0] is "pack-buffers". Returns the status. */
int packing_main(int argc, char **argv);
#endif
