/* base.c -- fatal errors, messages, memory and bf16.
 *
 * Keeps: each line is written at once, so that lines of several ranks never mix. */
#define _GNU_SOURCE
#include "runtime/base.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048, FOOT = 512 };
#define HUGE_PAGE ((int64_t)2 << 20)

World world = { .size = 1, .local_size = 1, .step = -1 };
void (*die_hook)(int code);

static char last_words[LINE];
static atomic_flag dying = ATOMIC_FLAG_INIT;
static pthread_t dying_thread;
static _Atomic int64_t allocated;
static _Atomic int there = -1;      /* of note_to() */
static const char over[] = "\r\033[K";     /* clears the cursor's line */
static char foot[FOOT];             /* of note_foot() */
static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER;

/* Writes a line, which ends in a newline, to the file of note_to(), after the time. */
static void line_there(const char *line, size_t n)
{
    static const char lost[] = "warning: the log file takes no more lines; some of them are lost\n";
    static atomic_bool told;
    char dated[LINE + 32];
    time_t now = time(NULL);
    struct tm parts;
    int fd = there;
    size_t at = fd >= 0 && localtime_r(&now, &parts)
                    ? strftime(dated, sizeof dated, "%Y-%m-%d %H:%M:%S  ", &parts) : 0;
    if (fd < 0)
        return;
    memcpy(dated + at, line, n);
    if (!file_write(fd, dated, at + n) && !atomic_exchange(&told, true))
        file_write(2, lost, sizeof lost - 1);
}

/* Copies n bytes with control characters as \xNN, also those of two bytes in UTF-8 (U+0080 to
 * U+009F), so that names from files cannot steer a terminal. Writes at most `most` bytes; a longer
 * text ends in "...". Returns the number. */
static size_t plain(char *to, size_t most, const char *from, size_t n)
{
    size_t at = 0, cut = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)from[i];
        const bool second = c == 0xc2 && i + 1 < n && (from[i + 1] & 0xe0) == 0x80;
        const size_t width = c < ' ' || c == 0x7f ? 4 : second ? 8 : 1;
        if (at + width > most) {
            at = cut;
            while (at > 0 && (to[at] & 0xc0) == 0x80)
                at--;                        /* do not cut a character */
            memcpy(to + at, "...", 3);
            return at + 3;
        }
        if (width == 1)
            to[at++] = (char)c;
        for (size_t k = 0; k < width / 4; k++)
            at += (size_t)sprintf(to + at, "\\x%02x", from[i + k] & 0xff);
        i += width / 8;
        if (at + 3 <= most)
            cut = at;
    }
    return at;
}

/* Writes prefix, message and newline at once; on a terminal over the line of note_foot(), which is
 * drawn again below. */
static void line_out(bool here, const char *prefix, const char *fmt, va_list ap)
{
    enum { OVER = sizeof over - 1 };
    char line[OVER + LINE + FOOT], text[LINE + 1];
    memcpy(line, over, OVER);
    size_t n = (size_t)snprintf(line + OVER, LINE, "%s", prefix);
    const int len = vsnprintf(text, sizeof text, fmt, ap);
    const size_t said = len < 0 ? 0 : len < (int)sizeof text ? (size_t)len : sizeof text - 1;
    n += plain(line + OVER + n, LINE - 1 - n, text, said);
    line[OVER + n++] = '\n';
    if (here && note_terminal()) {
        pthread_mutex_lock(&drawing);
        size_t below = strlen(foot);
        memcpy(line + OVER + n, foot, below);
        file_write(2, line, OVER + n + below);
        pthread_mutex_unlock(&drawing);
    } else if (here) {
        file_write(2, line + OVER, n);
    }
    line_there(line + OVER, n);
}

bool note_terminal(void)
{
    static _Atomic int known = -1;
    if (known < 0) {
        const char *kind = getenv("TERM");
        known = (isatty(2) || getenv("DIECAST_TERMINAL")) && kind && *kind && strcmp(kind, "dumb");
    }
    return known;
}

void note_foot(const char *text)
{
    char line[sizeof over + FOOT];
    if (!note_terminal())
        return;
    pthread_mutex_lock(&drawing);
    if (text || *foot) {
        int n = text ? snprintf(line, sizeof line, "%s%.*s", over, FOOT - 1, text)
                     : snprintf(line, sizeof line, "\n");
        snprintf(foot, sizeof foot, "%s", text ? text : "");
        file_write(2, line, (size_t)n);
    }
    pthread_mutex_unlock(&drawing);
}

void note_to(int fd)
{
    there = fd;
}

static const struct {
    int why;
    bool machine;
    const char *remedy;
} errno_rows[] = {
#define ERRNO(why, machine, remedy) {why, machine, remedy},
#include "runtime/errno.def"
#undef ERRNO
};

/* Returns the row whose text comes first in the message; -1: none. */
static int errno_row(const char *text)
{
    const char *first = NULL;
    int row = -1;
    for (size_t i = 0; i < sizeof errno_rows / sizeof *errno_rows; i++) {
        const char *at = strstr(text, strerror(errno_rows[i].why));
        if (at && (!first || at < first))
            first = at, row = (int)i;
    }
    return row;
}

bool error_of_machine(const char *text)
{
    const int row = errno_row(text);
    return row >= 0 && errno_rows[row].machine;
}

const char *error_remedy(const char *text)
{
    const int row = errno_row(text);
    return row >= 0 ? errno_rows[row].remedy : NULL;
}

void die(int code, const char *fmt, ...)
{
    if (atomic_flag_test_and_set(&dying)) {
        if (pthread_equal(dying_thread, pthread_self()))
            _exit(code);                /* the hook itself failed */
        for (;;)
            pause();                    /* another thread is already ending the process */
    }
    dying_thread = pthread_self();
    if (!world.host[0] && gethostname(world.host, sizeof world.host - 1) != 0)
        strcpy(world.host, "?");
    char step[32] = "-", prefix[160];
    note_foot("");
    if (world.step >= 0)
        snprintf(step, sizeof step, "%lld", (long long)world.step);
    if (world.reads_flags)
        snprintf(prefix, sizeof prefix, "train: ");
    else
        snprintf(prefix, sizeof prefix, "rank %d (%s) step %s: ", world.rank, world.host, step);
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    line_out(true, prefix, fmt, ap);
    vsnprintf(last_words, sizeof last_words, fmt, again);
    va_end(again);
    va_end(ap);
    if (error_of_machine(last_words))
        code = EXIT_IO;
    fflush(stdout);
    if (die_hook)
        die_hook(code);
    _exit(code);
}

int output_done(int code)
{
    if (fflush(stdout))
        die(EXIT_IO, "cannot write to standard output: %s", strerror(errno));
    if (ferror(stdout))
        die(EXIT_IO, "cannot write to standard output");
    return code;
}

const char *die_text(void)
{
    return last_words;
}

void note(const char *fmt, ...)
{
    if (world.rank != 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    line_out(true, "", fmt, ap);
    va_end(ap);
}

void note_there(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_out(false, "", fmt, ap);
    va_end(ap);
}

void warn(const char *fmt, ...)
{
    char prefix[40] = "warning: ";
    if (world.size > 1)
        snprintf(prefix, sizeof prefix, "warning: rank %d: ", world.rank);
    va_list ap;
    va_start(ap, fmt);
    line_out(true, prefix, fmt, ap);
    va_end(ap);
}

char *format(const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die(EXIT_INTERNAL, "out of memory for a message");
    va_end(ap);
    return text;
}

char *plain_number(double x)
{
    int digits = 0;
    for (double least = 100; digits < 6 && x < least && x > -least; least /= 10)
        digits++;
    return format("%.*f", digits, x);
}

char *shell_word(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_./-+=:,@%";
    if (*word && strspn(word, plain) == strlen(word))
        return format("%s", word);
    char *text = format("'");
    for (; *word; word++) {
        char *longer = *word == '\'' ? format("%s'\\''", text) : format("%s%c", text, *word);
        free(text);
        text = longer;
    }
    char *all = format("%s'", text);
    free(text);
    return all;
}

char **split_names(const char *list, int *n)
{
    char **word = calloc(strlen(list) + 1, sizeof *word), *rest = format("%s", list), *one;
    if (!word)
        die(EXIT_INTERNAL, "out of memory for a list of names");
    for (*n = 0; (one = strsep(&rest, ","));)
        if (*one)
            word[(*n)++] = one;
    return word;
}

char *path_hint(const char *path)
{
    static const char file[] = "/tokenizer.json", hub[] = "https://huggingface.co/";
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (!strncmp(path, "~/", 2))
        return format("; the shell did not expand ~: write $HOME/%s", path + 2);
    if (!strncmp(path, hub, sizeof hub - 1))
        path += sizeof hub - 1;
    size_t n = strlen(path), owner = strspn(path, letters);
    const char *end = "";
    if (n > sizeof file && !strcmp(path + n - (sizeof file - 1), file)) {
        n -= sizeof file - 1;
        end = file;
    }
    const char *name = path + owner + 1;
    if (owner == 0 || owner + 1 >= n || path[owner] != '/' ||
        owner + 1 + strspn(name, letters) != n || strspn(path, ".") == owner)
        return format("%s", "");
    char *folder = format("%.*s", (int)owner, path);
    bool local = access(folder, F_OK) == 0;
    int length = (int)(path + n - name);
    free(folder);
    if (local)
        return format("%s", "");
    return format("; if %.*s is a name of the Hugging Face hub: hf download %.*s --local-dir "
                  "%.*s, then name %.*s%s",
                  (int)n, path, (int)n, path, length, name, length, name, end);
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *arena_alloc(int64_t bytes, const char *what)
{
    if (bytes < 0)
        die(EXIT_INTERNAL, "arena %s: %lld bytes", what, (long long)bytes);
    int64_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : sysconf(_SC_PAGESIZE);
    int64_t size = (bytes + align - 1) / align * align;
    int64_t total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    char *p = MAP_FAILED;
    if (size == 0)
        size = align;
    if (size <= total)
        p = mmap(NULL, (size_t)(size + align), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die(EXIT_CONFIG, "not enough memory for %s: %.3f GiB of %.3f GiB in this machine: lower "
            "batch.micro or spread over more machines", what, (double)bytes / (1 << 30),
            (double)total / (1 << 30));
    int64_t skip = (align - (int64_t)((uintptr_t)p % (uintptr_t)align)) % align;
    if (skip)
        munmap(p, (size_t)skip);
    if (align - skip)
        munmap(p + skip + size, (size_t)(align - skip));
    p += skip;
    if (size >= HUGE_PAGE)
        madvise(p, (size_t)size, MADV_HUGEPAGE);
    atomic_fetch_add(&allocated, size);
    return p;
}

int64_t arena_allocated(void)
{
    return allocated;
}

int64_t file_limit(int64_t n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return n;                                /* unknown */
    const struct rlimit more = {(rlim_t)n, limit.rlim_max};
    if (limit.rlim_cur >= (rlim_t)n ||
        ((rlim_t)n <= limit.rlim_max && !setrlimit(RLIMIT_NOFILE, &more)))
        return n;
    return (int64_t)limit.rlim_cur;
}

int file_open(const char *path, int flags, char **error)
{
    struct stat s;
    int fd = TEMP_FAILURE_RETRY(open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    int why = fd < 0 || fstat(fd, &s) ? errno : S_ISREG(s.st_mode) ? 0 : ENXIO;
    if (!why)
        return fd;
    if (fd >= 0)
        close(fd);
    const char *text = why == ENXIO   ? "not a regular file"  /* as open() reports for a FIFO */
                       : why == ELOOP ? "a symbolic link, not a regular file"
                                      : strerror(why);
    *error = format("%s: open: %s", path, text);
    errno = why;
    return -1;
}

bool file_named(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

bool file_write(int fd, const void *from, size_t n)
{
    const char *at = from;
    while (n > 0) {
        const ssize_t done = write(fd, at, n < (1u << 30) ? n : 1u << 30);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

int file_create(const char *path, char **error)
{
    unlink(path);
    return file_open(path, O_WRONLY | O_CREAT | O_EXCL, error);
}

float bf16_to_float(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t float_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);          /* NaN stays NaN, quiet */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
