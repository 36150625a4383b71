/* util.c -- memory, text, files and errors of the generator.
 *
 * Keeps: one zeroed arena for the whole run, never freed; output depends on input alone.
 * Method: err_add() collects mistakes, err_flush() sorts them by file and line. */
#define _GNU_SOURCE
#include "gen/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/names.h"

enum { CHUNK = 1 << 20, MAX_ERRORS = 20 };

typedef struct {
    Loc loc;
    int order;               /* rank in which it was added, to keep the sort stable */
    char *text;
} Mistake;

static char *chunk;          /* free part of the arena */
static size_t chunk_left;
static Mistake mistakes[MAX_ERRORS];
static int nmistakes;        /* may exceed MAX_ERRORS; further ones are only counted */
static struct Source { const char *file, *text; } *sources;
static int nsources;
static const char *good_room, *good_recipe;

/* ---- memory -------------------------------------------------------------------------------- */

static void *must(void *p)
{
    if (!p) {
        fputs("gen: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

void *arena_new(size_t bytes)
{
    size_t need = (bytes + 15) & ~(size_t)15;
    if (need < bytes)
        bug("arena_new: %zu bytes", bytes);
    if (need > CHUNK / 4)
        return must(calloc(1, need));
    if (need > chunk_left) {
        chunk = must(calloc(1, CHUNK));
        chunk_left = CHUNK;
    }
    char *p = chunk;
    chunk += need;
    chunk_left -= need;
    return p;
}

void *arena_grow(void *old, size_t old_bytes, size_t new_bytes)
{
    void *p = arena_new(new_bytes);
    if (old_bytes)
        memcpy(p, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    return p;
}

/* ---- text ---------------------------------------------------------------------------------- */

char *text_copy(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(arena_new(n), s, n);
}

/* Prints into room bytes; returns how many the whole text has, without its NUL. */
static size_t print_into(char *to, size_t room, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(to, room, fmt, again);
    va_end(again);
    if (n < 0)
        bug("bad format \"%s\"", fmt);
    return (size_t)n;
}

static char *print_va(const char *fmt, va_list ap)
{
    char most[256];              /* longer texts are printed twice */
    const size_t n = print_into(most, sizeof most, fmt, ap);
    char *s = arena_new(n + 1);
    if (n < sizeof most)
        memcpy(s, most, n);
    else
        print_into(s, n + 1, fmt, ap);
    return s;
}

char *text_print(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = print_va(fmt, ap);
    va_end(ap);
    return s;
}

char *text_capitals(const char *word)
{
    char *text = text_copy(word);
    for (char *p = text; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return text;
}

void str_print(Str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const size_t n = print_into(s->text ? s->text + s->n : NULL, s->cap - s->n, fmt, ap);
    if (s->n + n + 1 > s->cap) {
        const size_t cap = 2 * (s->n + n + 1) + 256;
        s->text = arena_grow(s->text, s->n, cap);
        s->cap = cap;
        print_into(s->text + s->n, n + 1, fmt, ap);
    }
    s->n += n;
    va_end(ap);
}

int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *text_bytes(int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    int u = 0;
    while ((x >= 1023.95 || x <= -1023.95) && u < 6) {
        x /= 1024;
        u++;
    }
    return u ? text_print("%.1f %s", x, unit[u]) : text_print("%lld B", (long long)bytes);
}

char *text_seconds(double s)
{
    return s < 1e-3    ? text_print("%.3g us", s * 1e6)
           : s < 1     ? text_print("%.3g ms", s * 1e3)
           : s < 100   ? text_print("%.3g s", s)
           : s < 6000  ? text_print("%.3g min", s / 60)
           : s < 2e5   ? text_print("%.3g h", s / 3600)
                       : text_print("%.3g days", s / 86400);
}

char *text_grouped(int64_t n)
{
    const char *digits = text_print("%lld", (long long)n);
    Str s = {0};
    for (size_t i = 0, len = strlen(digits); i < len; i++)
        str_print(&s, "%s%c", i && (len - i) % 3 == 0 ? "," : "", digits[i]);
    return s.text;
}

const char *text_nearest(const char *name, const char *const *names, int n)
{
    size_t len = strlen(name);
    if (len == 0)
        return NULL;
    int best = len / 2 < 5 ? (int)len / 2 : 5;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        int d = names_distance(name, names[i]);
        if (d < best || (d == best && !found)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

/* ---- files --------------------------------------------------------------------------------- */

char *file_text(const char *path, size_t max, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct stat st;
    int why = 0;
    if (fstat(fd, &st))
        why = errno;
    else if (!S_ISREG(st.st_mode))
        why = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    else if ((uint64_t)st.st_size > max)
        why = EFBIG;
    char *text = NULL;
    size_t got = 0;
    if (!why) {
        text = arena_new((size_t)st.st_size + 1);
        while (got < (size_t)st.st_size) {
            ssize_t k = read(fd, text + got, (size_t)st.st_size - got);
            if (k < 0 && errno == EINTR)
                continue;
            if (k < 0)
                why = errno;
            if (k <= 0)
                break;
            got += (size_t)k;
        }
    }
    close(fd);
    if (why) {
        errno = why;
        return NULL;
    }
    text[got] = 0;
    if (n)
        *n = got;
    return text;
}

static bool same_content(const char *path, const char *text, size_t n, bool executable)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != n
        || !(st.st_mode & S_IXUSR) != !executable)
        return false;
    size_t m;
    char *old = file_text(path, n, &m);
    return old && m == n && !memcmp(old, text, n);
}

/* Creates the folders above path. */
static void make_folders(const char *path)
{
    char *p = text_copy(path);
    for (char *q = p + 1; *q; q++)
        if (*q == '/') {
            *q = 0;
            if (mkdir(p, 0777) && errno != EEXIST)
                err((Loc){0}, "cannot create the folder %s: %s", p, strerror(errno));
            *q = '/';
        }
}

bool file_commit(const char *temp, const char *path)
{
    const char *slash = strrchr(path, '/');
    int fd = open(temp, O_RDONLY | O_CLOEXEC), why = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (!why && rename(temp, path))
        why = errno;
    const char *folder = slash ? text_print("%.*s", (int)(slash - path) + 1, path) : ".";
    int dir = why ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        fsync(dir);      /* fails on some network file systems; the file itself is synced */
        close(dir);
    }
    if (why)
        unlink(temp);
    errno = why;
    return !why;
}

static bool write_if_changed(const char *path, const char *text, size_t n, bool executable,
                             bool durable)
{
    if (same_content(path, text, n, executable))
        return false;
    make_folders(path);
    char *temp = text_print("%s.%ld.tmp", path, (long)getpid());
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, executable ? 0777 : 0666);
    bool ok = fd >= 0;
    for (size_t at = 0; ok && at < n;) {
        ssize_t k = write(fd, text + at, n - at);
        if (k < 0 && errno == EINTR)
            continue;
        ok = k > 0;
        at += ok ? (size_t)k : 0;
    }
    int why = ok ? 0 : errno;
    if (fd >= 0 && close(fd) && !why)
        why = errno;
    if (!why && !(durable ? file_commit(temp, path) : !rename(temp, path)))
        why = errno;
    if (why) {
        unlink(temp);
        err((Loc){0}, "cannot write %s: %s", path, strerror(why));
    }
    return true;
}

bool file_write_if_changed(const char *path, const char *text, size_t n, bool executable)
{
    return write_if_changed(path, text, n, executable, false);
}

void file_save(const char *path, const char *text, size_t n)
{
    write_if_changed(path, text, n, false, true);
}

static bool is_root(const char *dir)
{
    static const char *const must_have[] = {"templates", "kernels", "runtime", "recipes"};
    for (size_t i = 0; i < sizeof must_have / sizeof *must_have; i++) {
        struct stat st;
        if (stat(text_print("%s/%s", dir, must_have[i]), &st) || !S_ISDIR(st.st_mode))
            return false;
    }
    return true;
}

const char *gen_root(void)
{
    static const char *root;
    if (root)
        return root;
    char buf[4096];
    ssize_t n = readlink("/proc/self/exe", buf, sizeof buf - 1);
    if (n <= 0)
        err((Loc){0}, "cannot read /proc/self/exe: %s", strerror(errno));
    buf[n] = 0;
    for (char *cut; (cut = strrchr(buf, '/')) && cut != buf;) {
        *cut = 0;
        if (is_root(buf))
            return root = text_copy(buf);
    }
    err((Loc){0}, "no folder above this program holds templates/, kernels/, runtime/ and recipes/: "
                  "run the generator from inside its project");
}

char *sha256_hex(const void *data, size_t n)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (!EVP_Digest(data, n, md, &len, EVP_sha256(), NULL) || len != 32)
        bug("SHA-256 is missing from libcrypto");
    char *hex = arena_new(65);
    for (unsigned i = 0; i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", md[i]);
    return hex;
}

/* ---- errors -------------------------------------------------------------------------------- */

void err_source(const char *file, const char *text)
{
    const size_t old = (size_t)nsources * sizeof *sources;
    sources = arena_grow(sources, old, old + sizeof *sources);
    sources[nsources++] = (struct Source){file, text};
}

/* Prints the source line of loc, indented, cut at 100 columns. */
static void print_source_line(Loc loc)
{
    for (int i = 0; i < nsources; i++) {
        if (strcmp(sources[i].file, loc.file))
            continue;
        const char *p = sources[i].text;
        for (int line = 1; p && line < loc.line; line++) {
            p = strchr(p, '\n');
            p = p ? p + 1 : NULL;
        }
        if (!p)
            return;
        p += strspn(p, " \t");
        size_t n = strcspn(p, "\r\n");
        if (n == 0)
            return;
        fputs("    ", stderr);
        for (size_t k = 0; k < n && k < 96; k++)
            fputc((unsigned char)p[k] < ' ' ? '?' : p[k], stderr);
        fputs(n > 96 ? "...\n" : "\n", stderr);
        return;
    }
}

/* The message's first line, the source line, then the message's further lines. */
static void print_mistake(Loc loc, const char *text)
{
    size_t first = strcspn(text, "\n");
    if (!loc.file)
        fprintf(stderr, "gen: %.*s\n", (int)first, text);
    else if (!loc.line)
        fprintf(stderr, "%s: %.*s\n", loc.file, (int)first, text);
    else {
        fprintf(stderr, "%s:%d: %.*s\n", loc.file, loc.line, (int)first, text);
        print_source_line(loc);
    }
    if (text[first])
        fprintf(stderr, "%s\n", text + first + 1);
}

static int by_place(const void *pa, const void *pb)
{
    const Mistake *a = pa, *b = pb;
    const char *fa = a->loc.file ? a->loc.file : "", *fb = b->loc.file ? b->loc.file : "";
    int c = strcmp(fa, fb);
    if (c)
        return c;
    if (a->loc.line != b->loc.line)
        return a->loc.line < b->loc.line ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void print_mistakes(void)
{
    int n = nmistakes < MAX_ERRORS ? nmistakes : MAX_ERRORS;
    qsort(mistakes, (size_t)n, sizeof *mistakes, by_place);
    for (int i = 0; i < n; i++)
        print_mistake(mistakes[i].loc, mistakes[i].text);
    if (nmistakes > n)
        fprintf(stderr, "gen: and %d more\n", nmistakes - n);
}

static bool telling;         /* inside `teller`, which must not be called for its own bugs */
static void (*teller)(int n, const Loc *loc, const char *const *text, int status);

void err_on_end(void (*tell)(int n, const Loc *loc, const char *const *text, int status))
{
    teller = tell;
}

/* Passes the collected errors and `last`, unless NULL, to `teller`. */
static void tell_mistakes(const Mistake *last, int status)
{
    Loc loc[MAX_ERRORS + 1];
    const char *text[MAX_ERRORS + 1];
    int n = 0;
    if (!teller)
        return;
    for (; n < nmistakes && n < MAX_ERRORS; n++)
        loc[n] = mistakes[n].loc, text[n] = mistakes[n].text;
    if (last)
        loc[n] = last->loc, text[n++] = last->text;
    telling = true;
    teller(n, loc, text, status);
}

static jmp_buf *caught;      /* where err_try() continues; NULL: errors end the program */

bool err_try(void (*f)(void *data), void *data)
{
    jmp_buf here;
    if (caught || nmistakes)
        bug("err_try() inside another, or after errors");
    if (setjmp(here)) {
        caught = NULL;
        nmistakes = 0;
        return false;
    }
    caught = &here;
    f(data);
    caught = NULL;
    if (nmistakes)
        bug("err_try(): errors that nobody flushed");
    return true;
}

void err(Loc loc, const char *fmt, ...)
{
    va_list ap;
    if (caught)
        longjmp(*caught, 1);
    va_start(ap, fmt);
    char *text = print_va(fmt, ap);
    va_end(ap);
    fflush(stdout);
    print_mistakes();
    print_mistake(loc, text);
    tell_mistakes(&(Mistake){loc, 0, text}, 1);
    exit(1);
}

void err_add(Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = print_va(fmt, ap);
    va_end(ap);
    if (nmistakes < MAX_ERRORS)
        mistakes[nmistakes] = (Mistake){loc, nmistakes, text};
    nmistakes++;
}

void err_flush(void)
{
    if (!nmistakes)
        return;
    if (caught)
        longjmp(*caught, 1);
    fflush(stdout);
    print_mistakes();
    tell_mistakes(NULL, 1);
    exit(1);
}

void bug_after(const char *room, const char *recipe)
{
    good_room = room;
    good_recipe = recipe;
}

static const char *room_file, *room_text;

void bug_in_text(const char *file, const char *text)
{
    room_file = file;
    room_text = text;
}

/* True if a line of a room's text defines a name: `value %NAME`, `param $NAME`; without `value`,
 * `program NAME`, `schedule NAME`, `set NAME`, `| NAME=`. */
static bool defines(const char *line, const char *name, size_t n, bool value)
{
    static const char *const kind[] = {"program ", "schedule ", "set ", "size ", "| "};
    const size_t word = strcspn(line, " \n");
    if (value)
        return line[word] == ' ' && (line[word + 1] == '%' || line[word + 1] == '$') &&
               !strncmp(line + word + 2, name, n) && line[word + 2 + n] == ' ';
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        const size_t k = strlen(kind[i]);
        if (!strncmp(line, kind[i], k) && !strncmp(line + k, name, n) &&
            strchr(" =\n", line[k + n]))
            return true;
    }
    return false;
}

/* Line of the room's text that defines the first value in a message, else the first program,
 * schedule, setting or field; 0: none. */
static int line_of(const char *message)
{
    static const char between[] = " ,:;()\"'";
    for (int value = 1; value >= 0; value--)
        for (const char *name = message + strspn(message, between); *name;) {
            const size_t n = strcspn(name, between);
            int line = 1;
            for (const char *p = room_text; *p; line++, p += *p == '\n') {
                if (defines(p, name, n, value))
                    return line;
                p += strcspn(p, "\n");
            }
            name += n;
            name += strspn(name, between);
        }
    return 0;
}

void bug_at(const char *file, int line, const char *fmt, ...)
{
    const char *base = strrchr(file, '/');
    char text[1000];
    fflush(stdout);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (room_file)
        err((Loc){room_file, line_of(text)}, "%s", text);
    fprintf(stderr, "gen: bug: %s:%d: %s", base ? base + 1 : file, line, text);
    if (good_room)
        fprintf(stderr, "; last good dump: gen -d %s %s", good_room, good_recipe);
    fputc('\n', stderr);
    if (teller && !telling)
        tell_mistakes(&(Mistake){.text = text}, 128 + SIGABRT);
    abort();
}
