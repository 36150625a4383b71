/* table.h -- named numeric columns from the files of a run folder; a reader for each kind of file.
 *
 * In:    files written by runs, but untrusted.
 * Out:   NULL, or a malloc'ed message "FILE: what"; a missing file is an empty table.
 * Keeps: NAN for a missing value, INFINITY for a non-finite one; symbolic links are not
 *        followed. */
#ifndef DIECAST_TABLE_H
#define DIECAST_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
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
    int64_t bad;                 /* malformed lines skipped: table_skip() */
    int64_t bad_line;            /* the first of them, 1-based */
} Table;                         /* all zero: empty */

typedef char *TableReader(Table *t, const char *path);

/* JSON lines: one row per record, its numbers by key. Ignores an incomplete last line. */
TableReader table_lines;
/* table_csv.c: CSV with a header line. */
TableReader table_csv;
/* table_json.c: a JSON object of lists of numbers: one column each, plus "epoch", 1, 2 ... */
TableReader table_lists;
/* table_returns.c: a .npy file of doubles (tasks, episodes): one row per episode, with "mean",
 * "low" and "high" over tasks, and "smooth", a moving average of the mean. */
TableReader table_returns;
/* table_weights.c: a JSON list of weighted records ("weight", "noisy"), as a histogram: "weight" is
 * the lower bound of each bin; "all", "right" and "noisy" are the percentages of those records in
 * it. */
TableReader table_weights;
/* The same file grouped by "domain", sorted by name: one row each, "domain" 1, 2 ... with "mean",
 * "low", "high". */
TableReader table_domains;

const double *table_column(const Table *t, const char *name);        /* NULL: no such column */
/* Returns that column, created with NAN if new; NULL: too many columns, or a name too long to be
 * one of ours. */
double *table_make(Table *t, const char *name);
/* table_row(): appends a row of NAN; table_put(): sets a value in the last row, creating its column
 * if needed. */
void table_row(Table *t);
void table_put(Table *t, const char *name, double value);
void table_free(Table *t);

/* For readers. Return the text or the value of a file; NULL and no *error: it is missing. */
char *table_text(const char *path, size_t *n, char **error);
cJSON *table_json(const char *path, char **error);
/* Counts a line (1-based) that is left out. */
void table_skip(Table *t, int64_t line);

#endif
