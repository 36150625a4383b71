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
    const char *file;    /* as typed by the user; NULL: command line or default */
    int line;            /* 1-based; 0: no line */
} Loc;

/* A growing text, NUL-terminated after the first print. */
typedef struct {
    char *text;
    size_t n, cap;
} Str;

void *arena_new(size_t bytes);                        /* zeroed; lives until exit */
/* Returns a larger block with a copy of old, the rest zeroed. */
void *arena_grow(void *old, size_t old_bytes, size_t new_bytes);
char *text_copy(const char *s);
char *text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *text_capitals(const char *word);                 /* "log_sum" -> "LOG_SUM" */
void str_print(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int text_order(const void *a, const void *b);         /* for qsort over const char * */
char *text_bytes(int64_t bytes);                      /* "151.2 MiB" */
char *text_seconds(double s);                         /* "3.4 ms", "12 h", "5 days" */
char *text_grouped(int64_t n);                         /* "1,000,000", n >= 0 */
#define TEXT_OF_NUMBER(n) #n
#define TEXT_OF(number) TEXT_OF_NUMBER(number)         /* of a macro */
/* Nearest of n names, by names_distance(); NULL: none is near. */
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
/* Folder of templates/, kernels/, runtime/ and recipes/, above /proc/self/exe. */
const char *gen_root(void);
char *sha256_hex(const void *data, size_t n);

/* User errors. err() prints `file:line: message` and exits with 1. err_add() collects a message and
 * err_flush() exits with 1 if there are any, so that all mistakes of a recipe are reported together
 * (at most 20). */
void err(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void err_add(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_flush(void);
/* Calls f(data). Returns false if it ended with user errors, which are dropped; what it allocated
 * stays. Calls do not nest. */
bool err_try(void (*f)(void *data), void *data);
/* Sets a function that receives the errors before they end the program with `status`. */
void err_on_end(void (*tell)(int n, const Loc *loc, const char *const *text, int status));
/* Registers the text of a file, so that errors show their line. */
void err_source(const char *file, const char *text);
/* Internal errors: prints the position in gen and the last good dump, then aborts. */
void bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
void bug_after(const char *room, const char *recipe);  /* sets the last room whose check passed */
/* After this call bug() reports an error in this text of a room, at the line that defines the name
 * in its message. Both texts must outlive the program. */
void bug_in_text(const char *file, const char *text);

/* ---- quote.c: user text in emitted files and messages ---------------------------------------- */

char *c_string(const char *text);            /* C string literal, one line of code per line */
/* For comments of C, shell and make: characters that end or continue one become ?. */
char *text_comment(const char *text);
char *text_shell(const char *text);          /* one shell word, quoted if necessary */
char *text_shown(const char *text);          /* "in quotes", for messages */
/* Ends the program unless path is safe in Makefiles and scripts; what: its name in the message. */
void path_check(const char *what, const char *path);
void path_check_at(Loc loc, const char *what, const char *path);

#endif
