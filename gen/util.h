/* util.h -- memory, text, files and errors of the generator.
 *
 * Everything is allocated from one arena and never freed; gen is short-lived. */
#ifndef GEN_UTIL_H
#define GEN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GEN_VERSION "diecast 0.1"     /* in manifests, checkpoints and --version */

/* ---- util.c: memory, text, errors ---------------------------------------------------------- */

typedef struct {
    const char *file;    /* as typed by the user; NULL: the command line or a default */
    int line;            /* 1-based; 0: no line */
} Loc;

/* A text that grows; text is always NUL-terminated after the first print. */
typedef struct {
    char *text;
    size_t n, cap;
} Str;

void *arena_new(size_t bytes);                        /* zeroed; lives until exit */
/* copy of old in a larger zeroed block */
void *arena_grow(void *old, size_t old_bytes, size_t new_bytes);
char *text_copy(const char *s);
char *text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void str_print(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int text_order(const void *a, const void *b);         /* for qsort over const char * */
char *text_bytes(int64_t bytes);                      /* "151.2 MiB" */
char *text_seconds(double s);                         /* "3.4 ms", "12 h", "5 days" */
char *text_grouped(int64_t n);                         /* "1,000,000", n >= 0 */
#define TEXT_OF_NUMBER(n) #n
#define TEXT_OF(number) TEXT_OF_NUMBER(number)         /* of a macro */
/* by names_distance(), or NULL: none is near */
const char *text_nearest(const char *name, const char *const *names, int n);
/* Replaces a file that gen can write again; creates its folders. Returns false if it had this
 * content and mode already. Ends the program on failure. */
bool file_write_if_changed(const char *path, const char *text, size_t n, bool executable);
/* The same for the user's own files (recipes, locks, settings), synced: after a power cut the file
 * has its old content or the new one. */
void file_save(const char *path, const char *text, size_t n);
/* Syncs temp and renames it to path. On failure returns false, sets errno, removes temp and leaves
 * path unchanged. */
bool file_commit(const char *temp, const char *path);
char *file_text(const char *path, size_t max, size_t *n);  /* NULL and errno on failure */
/* folder that holds templates/, kernels/ ...; from /proc/self/exe */
const char *gen_root(void);
char *sha256_hex(const void *data, size_t n);

/* The user's mistakes. err() collects nothing: it prints `file:line: message` and exits 1.
 * err_add() prints one of several and err_flush() exits 1 if any was added, so that a recipe's
 * mistakes are shown together (at most 20). */
void err(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void err_add(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_flush(void);
/* Is told the mistakes that end the program, before it ends with the status. */
void err_tell(void (*tell)(int n, const Loc *loc, const char *const *text, int status));
/* text of a file, so that errors show the line */
void err_source(const char *file, const char *text);
/* Our mistakes: names the place in gen and the last good dump, then aborts. */
void bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
void bug_after(const char *room, const char *recipe);  /* the last room whose check passed */
/* From here on what bug() finds is a mistake in the text of a room that the user gave: err() of this file, at the line
 * that defines what the message names. Both outlive the program. */
void bug_in_text(const char *file, const char *text);

/* ---- quote.c: text of the user in emitted files -------------------------------------------- */

char *c_string(const char *text);            /* a C string literal, one line of text a line */
/* for comments of C, shell and make: what could end or continue one becomes ? */
char *text_comment(const char *text);
char *text_shell(const char *text);          /* one word of a shell, quoted if it has to be */
char *text_shown(const char *text);          /* "in quotes", for messages */
/* Ends the program unless what stands for one path that is safe to go into Makefiles and scripts. */
void path_check(const char *what, const char *path);
void path_check_at(Loc loc, const char *what, const char *path);

#endif
