/* recordfile.c -- maps (or reads) and validates records of named columns.
 *
 * In:    a file written by gen pack or a program; untrusted.  Out: pointers into a private mapping.
 * Keeps: elements are aligned; a file with unaligned tensors is refused. */
#define _GNU_SOURCE
#include "runtime/data/recordfile.h"

#include "runtime/base.h"
#include "runtime/host_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static RecordFile *mapped;       /* all open files, for the signal handler */

static void end_shorter(const RecordFile *f)
{
    die(EXIT_DATA, "%s: became shorter while in use, or is no longer readable",
        f->st.path);
}

/* SIGBUS: a page after the present end of a mapped file, or on a broken disk. */
static void lost_page(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    for (const RecordFile *f = mapped; f; f = f->next_)
        if ((uintptr_t)info->si_addr - (uintptr_t)f->map_ < f->map_bytes_)
            end_shorter(f);
    signal(signal_number, SIG_DFL);      /* not ours: it happens again and ends the program */
}

static bool in_memory_;

void recordfile_keep(bool in_memory)
{
    in_memory_ = in_memory;
}

/* Reads the first `bytes` of the file into memory; else MAP_FAILED and *error. */
static void *read_whole(int fd, size_t bytes, char **error)
{
    const int64_t left = host_memory_left("");
    if (bytes > (size_t)left) {
        *error = format("%zu bytes, but only %lld of memory are free: --streaming true reads them "
                        "on demand", bytes, (long long)left);
        return MAP_FAILED;
    }
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t n = 0; at != MAP_FAILED && n < bytes;) {
        ssize_t k = pread(fd, at + n, bytes - n, (off_t)n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            *error = format("read: %s", k ? strerror(errno) : "it is shorter than its header says");
            munmap(at, bytes);
            return MAP_FAILED;
        }
        n += (size_t)k;
    }
    return at;
}

/* Maps or reads the first `bytes` of the file. */
static char *map(RecordFile *f, size_t bytes)
{
    struct sigaction action = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};
    struct stat now;
    char *error = NULL;
    void *at = fstat(f->st.fd, &now) ? MAP_FAILED
               : in_memory_          ? read_whole(f->st.fd, bytes, &error)
                                     : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, f->st.fd, 0);
    if (at == MAP_FAILED)
        return error ? error : format("mmap of %zu bytes: %s", bytes, strerror(errno));
    f->map_ = at;
    f->map_bytes_ = bytes;
    f->device_ = in_memory_ ? 0 : now.st_dev;    /* in memory: the file may change */
    f->inode_ = in_memory_ ? 0 : now.st_ino;
    sigaction(SIGBUS, &action, NULL);
    f->next_ = mapped;
    mapped = f;
    return NULL;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Finds a tensor with aligned elements. */
static char *find_aligned(const RecordFile *f, const char *name, const StTensor **t)
{
    *t = st_find(&f->st, name);
    if (!*t)
        return format("tensor %s: is missing", name);
    int bits = st_dtype_bits[(*t)->dtype];
    if (bits % 8 || (*t)->begin % (uint64_t)(bits / 8))
        return format("tensor %s: tensors are not aligned to their elements", name);
    return NULL;
}

/* Checks and sets the offsets of column c, tensor `name`. If f->n is 0, they set it. */
static char *take_offsets(RecordFile *f, Column *c, const char *name)
{
    const StTensor *t;
    char *error = find_aligned(f, name, &t);
    if (error)
        return error;
    if (t->dtype != ST_I64 || t->rank != 1 || t->shape[0] < 2 || (f->n && t->shape[0] - 1 != f->n))
        return f->n ? format("tensor %s: must be I64 [%lld]", name, (long long)f->n + 1)
                    : format("tensor %s: must be I64 [D+1], D from 1", name);
    f->n = t->shape[0] - 1;
    c->offsets = (const int64_t *)((const char *)f->map_ + t->begin);
    c->offsets_name = t->name;
    if (c->offsets[0] != 0 || c->offsets[f->n] != c->n)
        return format("%s: run from %lld to %lld, must be 0 to %lld", name,
                      (long long)c->offsets[0], (long long)c->offsets[f->n], (long long)c->n);
    for (int64_t i = 0; i < f->n; i++)
        if (c->offsets[i + 1] < c->offsets[i])
            return format("%s[%lld]: %lld after %lld, must be ascending", name, (long long)i + 1,
                          (long long)c->offsets[i + 1], (long long)c->offsets[i]);
    return NULL;
}

/* Adds column `name` with lengths by `as`; old: a token file, whose offsets have another name. */
static char *take_column(RecordFile *f, const char *name, const char *as, bool old)
{
    const StTensor *t;
    char *error = find_aligned(f, name, &t);
    if (error)
        return error;
    Column *c = &f->column[f->ncolumns];
    *c = (Column){.name = t->name, .dtype = t->dtype, .n = st_elements(t),
                  .data = (const char *)f->map_ + t->begin};
    if (recordfile_column(f, name))
        return format("metadata columns: %s is listed twice", name);
    f->ncolumns++;
    if (!strcmp(as, "fixed")) {
        if (t->rank < 1 || t->shape[0] != f->n)
            return format("tensor %s: its shape must be [%lld, ...]", name, (long long)f->n);
        c->width = c->n / f->n;
        return NULL;
    }
    if (t->rank != 1 || (old && c->n < 1))
        return format("tensor %s: its shape must be [N]%s", name, old ? ", N from 1" : "");
    if (!strcmp(as, "ragged")) {
        char *offsets = old ? format("doc_offsets") : format("%s.offsets", name);
        error = take_offsets(f, c, offsets);
        free(offsets);
        return error;
    }
    const Column *other = recordfile_column(f, as);
    if (!other || !other->offsets || other == c)
        return format("metadata columns: %s=%s: must be fixed, ragged or a ragged column before it",
                      name, as);
    if (c->n != other->n)
        return format("tensor %s: must be %s [%lld]", name, st_dtype_name[t->dtype],
                      (long long)other->n);
    c->offsets = other->offsets;
    c->offsets_name = other->offsets_name;
    return NULL;
}

static char *take_columns(RecordFile *f, char *list, bool old)
{
    int tensors = 0;
    for (char *word, *rest = list; (word = strsep(&rest, " "));) {
        char *as = strchr(word, '=');
        if (!as)
            return format("metadata columns: must be NAME=fixed, NAME=ragged or NAME=OTHER, got "
                          "\"%.40s\"", word);
        *as++ = 0;
        char *error = take_column(f, word, as, old);
        if (error)
            return error;
        tensors += 1 + !strcmp(as, "ragged");
    }
    return tensors == f->st.n ? NULL
         : format("has %d tensors besides its columns and their offsets",
                  f->st.n - tensors);
}

static char *check(RecordFile *f)
{
    const char *made_by = st_meta(&f->st, "format"), *columns = st_meta(&f->st, "columns");
    const char *records = st_meta(&f->st, "records");
    bool old = made_by && !strcmp(made_by, TOKENFILE_FORMAT);
    char *end;
    if (!old && (!made_by || strcmp(made_by, RECORDFILE_FORMAT)))
        return format("not a token file: format is %.40s, must be " RECORDFILE_FORMAT
                      " (make one with gen pack)", made_by ? made_by : "missing");
    if (!old && (!columns || !records))
        return format("metadata columns or records: is missing");
    if (!old) {
        errno = 0;
        f->n = strtoll(records, &end, 10);
        if (errno || !*records || *end || f->n < 1)
            return format("metadata records: must be an integer from 1, got \"%.40s\"", records);
    }
    char *error = f->st.n ? map(f, f->st.t[f->st.n - 1].end) : format("no tensors");
    if (error)
        return error;
    f->column = calloc((size_t)f->st.n + 1, sizeof *f->column);
    char *list = format("%s", !old ? columns : st_find(&f->st, "mask") ? "tokens=ragged mask=tokens"
                                                                       : "tokens=ragged");
    if (f->column)
        error = take_columns(f, list, old);
    free(list);
    return f->column ? error : format("out of memory for %d columns", f->st.n);
}

const Column *recordfile_column(const RecordFile *f, const char *name)
{
    for (int i = 0; i < f->ncolumns; i++)
        if (!strcmp(f->column[i].name, name))
            return &f->column[i];
    return NULL;
}

const void *recordfile_at(const RecordFile *f, const Column *c, int64_t record, int64_t *n)
{
    const int64_t size = st_dtype_bits[c->dtype] / 8;
    int64_t begin = record * c->width, end = begin + c->width;
    if (c->offsets) {
        begin = c->offsets[record];
        end = c->offsets[record + 1];
        if (begin < 0 || end < begin || end > c->n)
            recordfile_changed(f, c->offsets_name, record + 1);
    }
    *n = end - begin;
    return c->data + begin * size;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Returns a better message for a file that st_open() refused. */
static char *other_file(const char *path, char *error)
{
    unsigned char head[64];
    struct stat is;
    FILE *file = stat(path, &is) == 0 && S_ISREG(is.st_mode) ? fopen(path, "r") : NULL;
    const char *what = file ? st_looks_like(head, fread(head, 1, sizeof head, file)) : NULL;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(name, '.');
    char *better = NULL;
    if (what)
        better = format("%s: not a token file but %s; gen pack makes one of text and JSON Lines: "
                        "gen pack --tokenizer MODEL/tokenizer.json -o %.*s.safetensors %s", path,
                        what, (int)(dot > name ? dot - path : (long)strlen(path)), path, path);
    else if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        better = format("%s: a folder; name the token files in it, separated by commas", path);
    if (file)
        fclose(file);
    if (better)
        free(error);
    return better ? better : error;
}

char *recordfile_open(RecordFile *f, const char *path)
{
    *f = (RecordFile){0};
    char *error = st_open(&f->st, path);
    if (error)
        return other_file(path, error);
    error = check(f);
    if (!error)
        return NULL;
    char *full = format("%s: %s", path, error);
    free(error);
    recordfile_close(f);
    return full;
}

void recordfile_check_size(const RecordFile *f)
{
    struct stat now;
    /* a new file of that name does not matter: the old one stays mapped */
    if (stat(f->st.path, &now) == 0 && now.st_dev == f->device_ && now.st_ino == f->inode_ &&
        (uint64_t)now.st_size < f->map_bytes_)
        end_shorter(f);
}

void recordfile_changed(const RecordFile *f, const char *tensor, int64_t i)
{
    die(EXIT_DATA, "%s: %s[%lld] has changed: the file was changed while in use", f->st.path,
        tensor, (long long)i);
}

void recordfile_close(RecordFile *f)
{
    for (RecordFile **at = &mapped; *at; at = &(*at)->next_)
        if (*at == f) {
            *at = f->next_;
            break;
        }
    if (f->map_)
        munmap(f->map_, f->map_bytes_);
    free(f->column);
    st_close(&f->st);
    *f = (RecordFile){0};
}

char *recordfile_plan(StWriter *w, int64_t records, const ColumnPlan *column, int ncolumns)
{
    char *list = format("%s", ""), *error = NULL, count[24];
    for (int i = 0; i < ncolumns && !error; i++) {
        const ColumnPlan *c = &column[i];
        bool fixed = !strcmp(c->as, "fixed");
        char *longer = format("%s%s%s=%s", list, i ? " " : "", c->name, c->as);
        free(list);
        list = longer;
        error = st_add(w, c->name, c->dtype, fixed && c->n != 1 ? 2 : 1,
                       fixed ? (int64_t[]){records, c->n} : &c->n);
        if (!error && !strcmp(c->as, "ragged")) {
            char *offsets = format("%s.offsets", c->name);
            error = st_add(w, offsets, ST_I64, 1, &(int64_t){records + 1});
            free(offsets);
        }
    }
    snprintf(count, sizeof count, "%lld", (long long)records);
    if (!error)
        error = st_add_meta(w, "records", count);
    if (!error)
        error = st_add_meta(w, "columns", list);
    free(list);
    return error;
}
