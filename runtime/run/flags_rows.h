/* flags_rows.h -- rows of flags.def in memory; included by the flags_*.c files only. */
#ifndef DIECAST_FLAGS_ROWS_H
#define DIECAST_FLAGS_ROWS_H

#include "runtime/run/flags.h"

typedef enum { TYPE_BOOL, TYPE_INT, TYPE_EVERY, TYPE_FLOAT, TYPE_STRING } FlagType;

typedef struct {
    const char *name;
    FlagType type;
    size_t offset;               /* in Flags */
    double lo, hi;               /* FLOAT */
    int64_t ilo, ihi;            /* INT, EVERY */
    const char *metavar;
    int recipe;                  /* 0 to 2, as in flags.def */
    bool differs;                /* ranks may have different values */
    const char *readers, *doc, *value;   /* value: the default as written in the table */
} FlagRow;

extern const FlagRow flags_row[FLAG_COUNT];
extern const int flags_owner[FLAG_COUNT];      /* OWNERS_... */
extern const char *flags_objective;            /* of flags_of(); NULL: any */

/* Returns what flag i does, in programs of the objective. */
const char *flags_doc(int i);
/* Returns the length of its summary: up to the first ". ", or all. */
int flags_summary(int i);
/* Returns whether flag i may be given with this command; command, weights: as flags_check_readers()
 * has them. */
bool flags_reads(int i, int command, bool weights);
/* Copies the name with - for _. */
void flags_spell(char to[64], const char *name);
/* True for "true" and "false" in any case; false for NULL. */
bool flags_truth(const char *text);

#endif
