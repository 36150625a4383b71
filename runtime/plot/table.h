/* table.h -- files of a run folder as columns of numbers with names.
 *
 * In:    files that runs write; hostile all the same.
 * Out:   NULL, or a malloc'ed message "FILE: what"; a file that is not there is an empty table.
 * Keeps: NAN where a row has nothing, INFINITY where it has no finite number; no symbolic link is followed. */
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
    int64_t bad;                 /* lines left out, for they are no rows */
    int64_t bad_line;            /* the first of them, from 1 */
} Table;                         /* all zero: empty */

typedef char *TableReader(Table *t, const char *path);

/* Lines of JSON: a row a record, its numbers by their keys. The end of a line that is being written is no row. */
TableReader table_lines;
/* Numbers between commas below a line of names. */
TableReader table_csv;
/* A JSON object of lists of numbers: a column each, beside them "epoch", 1, 2 ... */
TableReader table_lists;
/* A .npy of doubles (tasks, episodes): a row an episode, with "mean", "low" and "high" over tasks, and "smooth",
 * the mean of the means around it. */
TableReader table_returns;
/* A JSON list of records with weights ("weight", "noisy"): of each piece of the span of weights where it begins,
 * "weight", and in "all", "right" and "noisy" how many of these records are in it, of 100. */
TableReader table_weights;
/* The same file by "domain", in the order of their names: a row each, "domain" 1, 2 ... with "mean", "low", "high". */
TableReader table_domains;

const double *table_column(const Table *t, const char *name);        /* NULL: there is none */
/* That column, of NAN where it is new; NULL: there are too many. */
double *table_make(Table *t, const char *name);
/* A row more, of NAN; a value in the last row, whose column may be new. */
void table_row(Table *t);
void table_put(Table *t, const char *name, double value);
void table_free(Table *t);

#endif
