/* pack_work.h -- state of a pack, shared by pack_rules.c (rules for rows), pack_input.c (input
 * files), pack_report.c (progress and summary), pack_files.c (the main loop), and what runs it:
 * pack_cache.c (into the cache), pack_arrays.c (into arrays of ids), pack_each.c (into a callback),
 * gen pack. */
#ifndef DIECAST_PACK_WORK_H
#define DIECAST_PACK_WORK_H

#include "runtime/pack/pack.h"

/* State shared by the threads, and the result. */
typedef struct {
    const PackOptions *o;
    Rules rules;
    Tokenizer *tok, **twin;      /* one twin per thread */
    int threads;
    Vocabulary vocabulary;       /* of a tokenizer made from the data */
    Prepared *prepared;          /* arrays of ids: then all above but rules is empty */
    char *why_chat;              /* how the chat format was found */
    Pack pack;
    int64_t to_show;
    int nfiles;                  /* after expanding folders */
    char **file;
} Work;

/* ---- pack_rules.c ---------------------------------------------------------------------------- */

/* Loads the tokenizer and chooses the chat format. */
void rules_find(Work *w);
void rules_free(Rules *r);
bool rules_windows(const Work *w);             /* rows are windows of texts */
/* Hash of everything that determines the records: bytes read, tokenizer, rules. */
void rules_fingerprint(const Work *w, const char *bytes, const char *files, char hex[SHA256_HEX]);
/* The part of it that is known before rows are read: the name of a folder in the cache, PACK_NAME
 * digits and, if rows, PACK_ROWS. rows: some input is JSON. */
void rules_name(const Work *w, const char *bytes, const char *files, bool rows,
                char name[SHA256_HEX]);

/* ---- pack_input.c ---------------------------------------------------------------------------- */

/* Expands folders into their files, sorted by name, for imdb the training files first; reports
 * other files in them. */
void input_list(Work *w);
/* Checks the kinds of files before anything is read; returns their size in bytes, -1: unknown. */
int64_t input_check(Work *w);
/* Returns the next chunk of the files; NULL: none. *next: the file after that of *r. */
Chunk *input_next(const Work *w, Reader **r, int *next, int64_t *before);
/* Reads the rest for the hashes: of r, and the files from `next` on. */
void input_skip(Work *w, Reader *r, int next);

/* ---- pack_tables.c --------------------------------------------------------------------------- */

enum { ARRAY_TRAIN, ARRAY_EVAL, ARRAYS };
extern const char *const array_name[ARRAYS];   /* files of a folder of arrays of ids */

/* ---- pack_report.c --------------------------------------------------------------------------- */

typedef struct {
    const char *who;
    int64_t total;               /* bytes of all files, -1: unknown */
    double began, last;
    bool terminal, drawn;
} Progress;

/* Prints the progress after `bytes` of input on stderr: on a terminal twice a second, in place;
 * elsewhere a line every five seconds. progress_clear() removes it from the terminal. */
void progress_note(Progress *g, const Pack *p, int64_t bytes);
void progress_clear(Progress *g);
/* Print to standard output what is packed: a row of a file; a text or its first stretch; a window,
 * from line `line` (0: the whole file). */
void report_row(const Work *w, const Chunk *from, const RowOut *row, const CutRow *k,
                const int32_t *id, const uint8_t *target);
void report_text(const Work *w, const Chunk *from, const RowOut *row, const int32_t *id);
void report_window(const Work *w, const Chunk *from, int line, const int32_t *id,
                   const uint8_t *target, size_t n);
/* Prints how rows were converted to tokens and targets. */
void report_rules(const Work *w, FILE *to);
void report_all(const Work *w, FILE *to);
/* Lists the malformed rows that were left out, one per line; prints nothing if there are none.
 * report_all() calls it. */
void report_skipped(const Work *w, FILE *to);
char *report_no_row(const Pack *p);            /* why no row is left; malloc'ed */

/* ---- pack_files.c ---------------------------------------------------------------------------- */

Work work_begin(const PackOptions *o);
/* Reads all input and writes the records; name: see rules_name(). */
void work_do(Work *w, char name[SHA256_HEX]);
/* After all rows: fails if rows had keys that nothing reads. */
void work_check_keys(Work *w);
PackError work_end(Work *w);

#endif
