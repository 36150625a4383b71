/* base.h -- what every part of a training binary needs: who we are, how we end, checked system calls.
 *
 * Keeps: one line of explanation for every way to end; codes are those of exit_codes.def. */
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

/* The process among its ranks. Set once by comm_init(); before that rank 0 of 1. */
typedef struct {
    int rank, size;          /* of the world */
    int local_rank, local_size;
    char host[64];
    const char *words;       /* of CUDA programs on several ranks: behind gen, but gpus=N; else NULL */
    int64_t step;            /* optimiser step being worked on; -1 before the first */
    bool reads_flags;        /* the command line is being read: messages name no rank */
} World;
extern World world;

/* Messages are single lines of at most 2 kB, without control characters.
 *
 * One line `rank R (host) step S: message`, then the job ends with the code on every rank, or with EXIT_IO if
 * error_of_machine(message). Never returns. */
void die(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
/* What die() has said, without rank and step; "" before. */
const char *die_text(void);
/* Both look up the row of errno.def whose strerror() text the message contains. */
bool error_of_machine(const char *text);               /* the machine is at fault, e.g. a full disk */
const char *error_remedy(const char *text);            /* advice, e.g. "make room (df -h, df -i)"; NULL: no row */
/* Called by die() before the process leaves, e.g. to abort the other ranks. */
extern void (*die_hook)(int code);
/* A line on stderr from rank 0 only / from any rank, prefixed `warning:`. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From here on what these three say of this process goes to fd too, each line with its time before it.
 * note_there: to fd alone. Lines that fd does not take are lost, which is said once. */
void note_to(int fd);
void note_there(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Standard error is a terminal that moves its cursor back, or DIECAST_TERMINAL says that a launcher passes it on to
 * one: not with TERM=dumb, or none. */
bool note_terminal(void);
/* A line that from here on stays below what is said, where note_terminal(); it must fit into a row. It goes
 * when another is given, or "". NULL: it stays where it is, and what is said comes below it. */
void note_foot(const char *text);

char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));   /* malloc'ed; never NULL */
/* At least three digits of a number and no exponent: "3890", "38.9", "0.0123"; malloc'ed. */
char *plain_number(double x);
/* A word as a shell takes it, quoted where it has to be; malloc'ed. */
char *shell_word(const char *word);
/* "a,b": the words between commas, *n of them, empty ones left out; one malloc'ed array, the words malloc'ed
 * in one piece. */
char **split_names(const char *list, int *n);
/* Behind "no such file" or folder: what the path might have meant and what to type; malloc'ed, "" when nothing is
 * known. Qwen/Qwen2.5-0.5B is a name of the Hugging Face hub. */
char *path_hint(const char *path);
double clock_seconds(void);                            /* CLOCK_MONOTONIC */
/* A zeroed, page-aligned (2 MiB when large) block that lives until exit; counted for the closing line. */
void *arena_alloc(int64_t bytes, const char *what);
int64_t arena_allocated(void);

/* Every file of ours goes through these two: a regular one, no symbolic link at the end of path is
 * followed and no FIFO waited for. A descriptor, or -1, errno and a malloc'ed *error that begins with
 * the path. file_create: a new empty file, to be renamed later; whatever had the name goes. */
int file_open(const char *path, int flags, char **error);
int file_create(const char *path, char **error);
/* Writes all n bytes, retrying short writes and EINTR. On failure false, with errno set. */
bool file_write(int fd, const void *from, size_t n);
/* Whether something has this name. A link that leads nowhere has: to read it is an error, not
 * the same as no file. */
bool file_named(const char *path);

float bf16_to_float(uint16_t b);
uint16_t float_to_bf16(float f);                       /* round to nearest even, NaN stays NaN */

#ifdef __cplusplus
}
#endif

#endif
