/* table.h -- named numeric columns from the files of a run folder.
 *
 * In:    files written by runs, but untrusted.
 * Out:   NULL, or a malloc'ed message "FILE: what"; a missing file is an empty table.
 * Keeps: NAN for a missing value, INFINITY for a non-finite one; symbolic links are not
 *        followed. */
#ifndef DIECAST_TABLE_H
#define DIECAST_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum { TABLE_COLUMNS = 256, TABLE_NAME = 64 };

typedef struct {
    char name[TABLE_NAME];
    double *v;                   /* (n) */
} TableColumn;

typedef struct {
    int64_t n, room;             /* rows */
    int columns;
    TableColumn column[TABLE_COLUMNS];
    int64_t names;
    char **name;                 /* (names) of groups 1, 2 ..., or NULL */
    int64_t bad;                 /* malformed lines skipped */
    int64_t bad_line;            /* the first of them, 1-based */
} Table;                         /* all zero: empty */

typedef char *TableReader(Table *t, const char *path);

/* JSON lines: one row per record, its numbers by key. Ignores an incomplete last line. */
TableReader table_lines;
/* CSV with a header line. */
TableReader table_csv;
/* A JSON object of lists of numbers: one column each, plus "epoch", 1, 2 ... */
TableReader table_lists;
/* A .npy file of doubles (tasks, episodes): one row per episode, with "mean", "low" and "high" over
 * tasks, and "smooth", a moving average of the mean. */
TableReader table_returns;
/* A JSON list of weighted records ("weight", "noisy"), as a histogram: "weight" is the lower bound
 * of each bin; "all", "right" and "noisy" are the percentages of those records in it. */
TableReader table_weights;
/* The same file grouped by "domain", sorted by name: one row each, "domain" 1, 2 ... with "mean",
 * "low", "high". */
TableReader table_domains;

const double *table_column(const Table *t, const char *name);        /* NULL: no such column */
/* Returns that column, created with NAN if new; NULL: too many columns. */
double *table_make(Table *t, const char *name);
/* table_row(): appends a row of NAN; table_put(): sets a value in the last row, creating its column
 * if needed. */
void table_row(Table *t);
void table_put(Table *t, const char *name, double value);
void table_free(Table *t);

#endif
