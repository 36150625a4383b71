/* base.h -- process identity, fatal errors, messages, checked system calls.
 *
 * Keeps: every abnormal end prints one line; exit codes are those of exit_codes.def. */
#ifndef DIECAST_BASE_H
#define DIECAST_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
#define EXIT_CODE(name, code, restart, meaning) EXIT_##name = code,
#include "runtime/exit_codes.def"
#undef EXIT_CODE
};

/* This process among the ranks. Set once by comm_init(); before that rank 0 of 1. */
typedef struct {
    int rank, size;          /* of the world */
    int local_rank, local_size;
    char host[64];
    const char *words;       /* CUDA programs on several ranks: arguments of gen without gpus=N;
                                otherwise NULL */
    int64_t step;            /* current optimiser step; -1 before the first */
    bool reads_flags;        /* the command line is being read: messages do not name the rank */
} World;
extern World world;

/* Messages are single lines of at most 2 kB, without control characters.
 *
 * Prints `rank R (host) step S: message`, then ends the job on every rank with the code, or with
 * EXIT_IO if error_of_machine(message). */
void die(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Checks a contract that a header states; if a caller broke it, dies with EXIT_INTERNAL, file and
 * line. Not inside a step. */
#define REQUIRE(holds)                                                                         \
    ((holds) ? (void)0                                                                         \
             : die(EXIT_INTERNAL, "%s:%d: broken contract: %s", __FILE__, __LINE__, #holds))
/* Returns the message of die(), without rank and step; "" before. */
const char *die_text(void);
/* Both look up the row of errno.def whose strerror() text the message contains. */
bool error_of_machine(const char *text);               /* the machine is at fault, e.g. a full
                                                          disk */
const char *error_remedy(const char *text);            /* advice, e.g. "make room (df -h, df -i)";
                                                          NULL: no row */
/* Flushes standard output. Returns code if all of it was written; otherwise dies with EXIT_IO. */
int output_done(int code);
/* Called by die() before the process exits, e.g. to abort the other ranks. */
extern void (*die_hook)(int code);
/* note(): prints a line on stderr, on rank 0 only. warn(): on any rank, with the prefix
 * `warning:`. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* note_to(): from now on these three also write to fd, each line after its time. note_there(): to
 * fd only. Lines that cannot be written are lost, with one warning. */
void note_to(int fd);
void note_there(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* True if standard error is a terminal with cursor movement, or is forwarded to one by a launcher
 * (DIECAST_TERMINAL); false if TERM is dumb or unset. */
bool note_terminal(void);
/* If note_terminal(), keeps a line below all messages from now on; it must fit into a row. Another
 * text replaces it, "" removes it. NULL: it stays where it is, and messages follow below. */
void note_foot(const char *text);

char *format(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* malloc'ed; never NULL */
/* Returns a number with at least three digits and no exponent: "3890", "38.9", "0.0123";
 * malloc'ed. */
char *plain_number(double x);
/* Returns a word for the shell, quoted if necessary; malloc'ed. */
char *shell_word(const char *word);
/* Returns the *n words of a list with commas, without empty ones: one malloc'ed array, with the
 * words malloc'ed in one piece. */
char **split_names(const char *list, int *n);
/* Returns advice to append to "no such file": what the path may mean and what to type, e.g. for a
 * name on the Hugging Face hub, Qwen/Qwen2.5-0.5B; malloc'ed; "": none. */
char *path_hint(const char *path);
double clock_seconds(void);                            /* CLOCK_MONOTONIC */
/* Returns a zeroed block, aligned to a page (2 MiB if large), that lives until exit; its bytes
 * count in arena_allocated(). EXIT_CONFIG if memory is short. */
void *arena_alloc(int64_t bytes, const char *what);
int64_t arena_allocated(void);

/* Raises the soft limit of open files to n where it is lower. Returns n, or the limit if it
 * stays lower. */
int64_t file_limit(int64_t n);
/* Open regular files only, without following a symbolic link at the end of path or waiting for a
 * FIFO. Return a descriptor, or -1 with errno set and a malloc'ed *error that begins with the path.
 * file_create(): a new empty file, to be renamed later; removes any file of that name. */
int file_open(const char *path, int flags, char **error);
int file_create(const char *path, char **error);
/* Writes all n bytes, retrying short writes and EINTR. Returns false with errno set on failure. */
bool file_write(int fd, const void *from, size_t n);
/* True if the name exists. A dangling link exists: reading it is an error, unlike a missing
 * file. */
bool file_named(const char *path);

float bf16_to_float(uint16_t b);
uint16_t float_to_bf16(float f);                       /* round to nearest even, NaN stays NaN */

#ifdef __cplusplus
}
#endif

#endif
