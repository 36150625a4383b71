/* recordfile.h -- records of named columns in one mapped safetensors file.
 *
 * In:    metadata "columns": space-separated NAME=fixed, NAME=ragged or NAME=OTHER (with the
 *        lengths of the ragged column OTHER); "records": their number. Tensors: NAME; fixed columns
 *        are [records, ...], ragged ones [elements] with NAME.offsets, I64 [records + 1].
 *        A file of TOKENFILE_FORMAT has the columns tokens and optionally mask; see tokenfile.h.
 * Keeps: offsets are checked at open, and again when a record is read: a file that changes or
 *        shrinks while it is mapped ends the program with EXIT_DATA, naming column and record. */
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
    const int64_t *offsets;      /* (records + 1) from 0 to n, never decreasing; NULL: fixed */
    const char *offsets_name;    /* name of that tensor */
    int64_t width;               /* fixed: elements per record */
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
    struct RecordFile *next_;    /* list of open files: *f must not move until it is closed */
} RecordFile;

/* For files opened from now on: false (initially): map them; true: read them into memory, so that
 * nothing is read later. */
void recordfile_keep(bool in_memory);
/* Returns NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *recordfile_open(RecordFile *f, const char *path);
const Column *recordfile_column(const RecordFile *f, const char *name);    /* NULL: none */
/* Returns the *n elements of a record in a column. record: 0 to f->n - 1. */
const void *recordfile_at(const RecordFile *f, const Column *c, int64_t record, int64_t *n);
/* EXIT_DATA if the file is shorter than at open: the rest of its last page would read as 0. */
void recordfile_check_size(const RecordFile *f);
/* EXIT_DATA: tensor[i] is no longer what was checked at open. */
void recordfile_changed(const RecordFile *f, const char *tensor, int64_t i)
    __attribute__((noreturn));
void recordfile_close(RecordFile *f);

/* A column to write. */
typedef struct {
    const char *name;
    StDtype dtype;
    const char *as;              /* "fixed", "ragged", or a ragged column before it */
    int64_t n;                   /* fixed: elements per record; ragged: elements in all */
} ColumnPlan;

/* Adds the tensors and metadata of the columns to a writer of RECORDFILE_FORMAT, before
 * st_begin(). */
char *recordfile_plan(StWriter *w, int64_t records, const ColumnPlan *column, int ncolumns);

#endif
