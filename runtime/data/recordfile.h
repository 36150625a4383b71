/* recordfile.h -- records of named columns: one safetensors file, mapped.
 *
 * In:    metadata "columns": NAME=fixed, NAME=ragged or NAME=OTHER (with the lengths of the ragged
 *        column OTHER), between spaces; "records": how many. Tensors: NAME, of fixed columns
 *        [records, ...]; of ragged ones [elements] and NAME.offsets I64 [records + 1].
 *        A file of TOKENFILE_FORMAT has the columns tokens and perhaps mask; see tokenfile.h.
 * Keeps: every offset is checked at open, and again where a record is taken: a file that is changed
 *        or cut while it is mapped ends the program with EXIT_DATA, naming column and record. */
#ifndef DIECAST_RECORDFILE_H
#define DIECAST_RECORDFILE_H

#include "runtime/files/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RECORDFILE_FORMAT "diecast-records-1"
#define TOKENFILE_FORMAT "diecast-tokens-1"

typedef struct {
    const char *name;
    StDtype dtype;
    const char *data;            /* (n) elements */
    int64_t n;
    const int64_t *offsets;      /* (records + 1) from 0 to n, never falling; NULL: fixed */
    const char *offsets_name;    /* of the tensor */
    int64_t width;               /* fixed: elements of a record */
} Column;

typedef struct RecordFile {
    int64_t n;                   /* records, from 1 */
    int ncolumns;
    Column *column;
    StFile st;                   /* its header: metadata */
    void *map_;
    size_t map_bytes_;
    dev_t device_;
    ino_t inode_;
    struct RecordFile *next_;    /* of all that are open: it stays where it is until the close */
} RecordFile;

/* Of files that are opened from now on: mapped (at first), or read whole into memory, so that nothing is
 * read later. */
void recordfile_keep(bool in_memory);
/* NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *recordfile_open(RecordFile *f, const char *path);
const Column *recordfile_column(const RecordFile *f, const char *name);    /* NULL: there is none */
/* The elements of a record in a column, *n of them. */
const void *recordfile_at(const RecordFile *f, const Column *c, int64_t record, int64_t *n);
/* EXIT_DATA when the file is shorter than at open: the rest of its last page would read as 0. */
void recordfile_check_size(const RecordFile *f);
/* EXIT_DATA: what stands at tensor[i] is no longer what was checked at open. */
void recordfile_changed(const RecordFile *f, const char *tensor, int64_t i)
    __attribute__((noreturn));
void recordfile_close(RecordFile *f);

/* A column that is to be written. */
typedef struct {
    const char *name;
    StDtype dtype;
    const char *as;              /* "fixed", "ragged", or a ragged column before it */
    int64_t n;                   /* fixed: elements of a record; ragged: elements in all */
} ColumnPlan;

/* Adds the tensors of the columns and what tells of them: before st_begin of the writer of
 * RECORDFILE_FORMAT. */
char *recordfile_plan(StWriter *w, int64_t records, const ColumnPlan *column, int ncolumns);

#endif
