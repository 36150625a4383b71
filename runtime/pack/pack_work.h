/* pack_work.h -- what the files of runtime/pack share while they pack: pack_rules.c (how rows are to be
 * read), pack_input.c (the files, in order), pack_report.c (what people are told), pack_files.c (the
 * way through), pack_cache.c (its result under a name that stands for it). */
#ifndef DIECAST_PACK_WORK_H
#define DIECAST_PACK_WORK_H

#include "runtime/pack/pack.h"

/* What the threads share, and what comes of it. */
typedef struct {
    const PackOptions *o;
    Rules rules;
    Tokenizer *tok, **twin;      /* one a thread */
    int threads;
    Vocabulary vocabulary;       /* of a tokenizer that is made */
    Prepared *prepared;          /* arrays of ids, then all above but rules is empty */
    char *why_chat;              /* how the chat format was found */
    Pack pack;
    int64_t to_show;
    int nfiles;                  /* folders are opened up */
    char **file;
} Work;

/* ---- pack_rules.c ---------------------------------------------------------------------------- */

/* The tokenizer and what its folder says of conversations. */
void rules_find(Work *w);
void rules_free(Rules *r);
bool rules_windows(const Work *w);             /* rows are windows of texts */
/* All that decides what the records are: the bytes read, the tokenizer, the rules. */
void rules_fingerprint(const Work *w, const char *bytes, const char *files, char hex[SHA256_HEX]);
/* The same as far as it is known before rows are read: what records are called in a cache. rows: some are JSON. */
void rules_name(const Work *w, const char *bytes, const char *files, bool rows, char hex[SHA256_HEX]);

/* ---- pack_input.c ---------------------------------------------------------------------------- */

/* Folders become the files in them, by name, of imdb those for training first; what is no data there
 * is told. */
void input_list(Work *w);
/* What can be known before anything is read: kinds of files, and how much there is: bytes, -1:
 * unknown. */
int64_t input_check(Work *w);
/* The next chunk of the files, NULL: none is left. *next: the file behind that of *r. */
Chunk *input_next(const Work *w, Reader **r, int *next, int64_t *before);
/* Reads what is left, for the hashes: the rest of r, and the files from `next` on. */
void input_skip(Work *w, Reader *r, int next);

/* ---- pack_report.c --------------------------------------------------------------------------- */

typedef struct {
    const char *who;
    int64_t total;               /* bytes of all files, -1: unknown */
    double began, last;
    bool terminal, drawn;
} Progress;

void progress_note(Progress *g, const Pack *p, int64_t bytes);
void progress_clear(Progress *g);
/* A row of a file; a text or its first stretch; a window, text of line `line` (0: of the file): what it
 * becomes, on standard output. */
void report_row(const Work *w, const Chunk *from, const RowOut *row, const Kept *k, const int32_t *id,
                const uint8_t *target);
void report_text(const Work *w, const Chunk *from, const RowOut *row, const int32_t *id);
void report_window(const Work *w, const Chunk *from, int line, const int32_t *id, const uint8_t *target, size_t n);
/* How the rows became tokens and targets. */
void report_rules(const Work *w, FILE *to);
void report_all(const Work *w, FILE *to);
/* Lists the malformed rows that were left out, one a line; prints nothing if there are none. report_all() calls it. */
void report_skipped(const Work *w, FILE *to);
char *report_no_row(const Pack *p);            /* nothing is left: why; malloc'ed */

/* ---- pack_files.c ---------------------------------------------------------------------------- */

Work work_begin(const PackOptions *o);
/* Reads, writes; name: see rules_name(). */
void work_do(Work *w, char name[SHA256_HEX]);
PackError work_end(Work *w);

#endif
