/* tokenfile.c -- maps and validates a packed corpus.
 *
 * In: a file written by gen pack, or a hostile one.  Out: pointers into a private mapping.
 * Keeps: alignment: the writer pads its header to 8 bytes and puts I64 before I32 before U8; a file
 *        laid out otherwise is refused, not copied. */
#define _GNU_SOURCE
#include "runtime/data/tokenfile.h"

#include "runtime/base.h"
#include "runtime/files/safetensors.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static TokenFile *mapped;        /* all that are open, for the signal handler */

static void end_shorter(const TokenFile *f)
{
    die(EXIT_DATA, "%s: became shorter while it was in use, or cannot be read any more", f->path);
}

/* A page of a mapped file behind the end that it has now, or on a broken disk. */
static void lost_page(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    for (const TokenFile *f = mapped; f; f = f->next_)
        if ((uintptr_t)info->si_addr - (uintptr_t)f->map_ < f->map_bytes_)
            end_shorter(f);
    signal(signal_number, SIG_DFL);      /* somebody else's: happens again, and ends us */
}

/* Maps the first `bytes` of the file. */
static char *map(TokenFile *f, int fd, size_t bytes)
{
    struct sigaction action = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};
    struct stat now;
    void *at = fstat(fd, &now) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return format("mmap of %zu bytes: %s", bytes, strerror(errno));
    f->map_ = at;
    f->map_bytes_ = bytes;
    f->device_ = now.st_dev;
    f->inode_ = now.st_ino;
    sigaction(SIGBUS, &action, NULL);
    f->next_ = mapped;
    mapped = f;
    return NULL;
}

static bool meta_int(const StFile *s, const char *key, int64_t lo, int64_t *value)
{
    const char *text = st_meta(s, key);
    char *end;
    if (!text || !*text)
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && !*end && *value >= lo && *value <= INT32_MAX;
}

/* An id, -1 where the key is not there. */
static bool meta_id(const StFile *s, const char *key, int64_t vocab, int64_t *value)
{
    *value = -1;
    return !st_meta(s, key) || (meta_int(s, key, 0, value) && *value < vocab);
}

static bool meta_text(const StFile *s, const char *key, char *to, size_t cap)
{
    const char *text = st_meta(s, key);
    if (!text || strlen(text) >= cap)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static char *check_meta(TokenFile *f, const StFile *s)
{
    const char *made_by = st_meta(s, "format");
    if (!made_by || strcmp(made_by, TOKENFILE_FORMAT))
        return format("no token file: format is %.40s, want " TOKENFILE_FORMAT
                      " (make one with gen pack)", made_by ? made_by : "missing");
    if (!meta_text(s, "kind", f->kind, sizeof f->kind) ||
        (strcmp(f->kind, "packed") && strcmp(f->kind, "rows")))
        return format("metadata kind: want packed or rows");
    if (!meta_text(s, "tokenizer", f->tokenizer, sizeof f->tokenizer))
        return format("metadata tokenizer: want at most %zu characters", sizeof f->tokenizer - 1);
    if (!meta_text(s, "sha256", f->sha256, sizeof f->sha256))
        return format("metadata sha256: want at most %zu characters", sizeof f->sha256 - 1);
    if (st_meta(s, "fingerprint") &&
        !meta_text(s, "fingerprint", f->fingerprint, sizeof f->fingerprint))
        return format("metadata fingerprint: want at most %zu characters",
                      sizeof f->fingerprint - 1);
    if (!meta_int(s, "vocab", 1, &f->vocab))
        return format("metadata vocab: want an integer from 1 to 2^31-1");
    if (!meta_int(s, "eos", -1, &f->eos) || f->eos >= f->vocab)
        return format("metadata eos: want -1 or an id below vocab");
    if (!meta_id(s, "mask_id", f->vocab, &f->mask_id))
        return format("metadata mask_id: want an id below vocab, or no such key");
    if (!meta_id(s, "pad_id", f->vocab, &f->pad_id))
        return format("metadata pad_id: want an id below vocab, or no such key");
    if (!strcmp(f->kind, "rows") && !meta_int(s, "max_length", 1, &f->max_length))
        return format("metadata max_length: want an integer from 1 to 2^31-1");
    return NULL;
}

static char *check_tensors(TokenFile *f, const StFile *s)
{
    const StTensor *tokens = st_find(s, "tokens"), *doc = st_find(s, "doc_offsets");
    const StTensor *mask = st_find(s, "mask");
    if (!tokens || tokens->dtype != ST_I32 || tokens->rank != 1 || tokens->shape[0] < 1)
        return format("tensor tokens: want I32 [N], N from 1");
    if (!doc || doc->dtype != ST_I64 || doc->rank != 1 || doc->shape[0] < 2)
        return format("tensor doc_offsets: want I64 [D+1], D from 1");
    if (mask && (mask->dtype != ST_U8 || mask->rank != 1 || mask->shape[0] != tokens->shape[0]))
        return format("tensor mask: want U8 [%lld]", (long long)tokens->shape[0]);
    if (s->n != 2 + !!mask)
        return format("want the tensors tokens, doc_offsets and at most mask; %d are there", s->n);
    if (tokens->begin % 4 || doc->begin % 8)
        return format("tensors are not aligned to their elements");
    f->ntokens = tokens->shape[0];
    f->ndocs = doc->shape[0] - 1;
    char *error = map(f, s->fd, s->t[s->n - 1].end);
    if (error)
        return error;
    const char *base = f->map_;
    f->tokens = (const int32_t *)(base + tokens->begin);
    f->doc = (const int64_t *)(base + doc->begin);
    f->mask = mask ? (const uint8_t *)base + mask->begin : NULL;
    if (f->doc[0] != 0 || f->doc[f->ndocs] != f->ntokens)
        return format("doc_offsets: run from %lld to %lld, want 0 to %lld", (long long)f->doc[0],
                      (long long)f->doc[f->ndocs], (long long)f->ntokens);
    for (int64_t i = 0; i < f->ndocs; i++) {
        if (f->doc[i + 1] <= f->doc[i])
            return format("doc_offsets[%lld]: %lld after %lld, want ascending", (long long)i + 1,
                          (long long)f->doc[i + 1], (long long)f->doc[i]);
        if (f->max_length && f->doc[i + 1] - f->doc[i] > f->max_length)
            return format("row %lld: %lld tokens, max_length is %lld", (long long)i,
                          (long long)(f->doc[i + 1] - f->doc[i]), (long long)f->max_length);
    }
    for (int64_t i = 0; f->mask && i < f->ntokens; i++)
        if (f->mask[i] > 1)
            return format("mask[%lld]: %d, want 0 or 1", (long long)i, f->mask[i]);
    return NULL;
}

static char *with_path(const char *path, char *error)
{
    char *full = error ? format("%s: %s", path, error) : NULL;
    free(error);
    return full;
}

/* What is to be done with a file that st_open refused. */
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
        better = format("%s: no token file but %s; gen pack makes one of text and JSON Lines: gen "
                        "pack --tokenizer MODEL/tokenizer.json -o %.*s.safetensors %s", path, what,
                        (int)(dot > name ? dot - path : (long)strlen(path)), path, path);
    else if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        better = format("%s: a folder; name the token files in it, one after the other with commas",
                        path);
    if (file)
        fclose(file);
    if (better)
        free(error);
    return better ? better : error;
}

char *tokenfile_open(TokenFile *f, const char *path)
{
    StFile s;
    *f = (TokenFile){0};
    char *error = st_open(&s, path);
    if (error)
        return other_file(path, error);
    f->path = strdup(path);
    error = check_meta(f, &s);
    if (!error)
        error = check_tensors(f, &s);
    st_close(&s);
    if (error)
        tokenfile_close(f);
    return with_path(path, error);
}

char *tokenfile_check_ids(const TokenFile *f, int64_t vocab)
{
    enum { PIECE = 1 << 16 };
    int64_t pieces = (f->ntokens + PIECE - 1) / PIECE, bad = INT64_MAX;
#pragma omp parallel for reduction(min : bad)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t end = (p + 1) * PIECE < f->ntokens ? (p + 1) * PIECE : f->ntokens;
        for (int64_t i = p * PIECE; i < end; i++)
            if ((uint32_t)f->tokens[i] >= (uint64_t)vocab && i < bad)
                bad = i;
    }
    return bad == INT64_MAX ? NULL
         : format("%s: tokens[%lld]: id %d, want 0 to %lld", f->path, (long long)bad,
                  f->tokens[bad], (long long)vocab - 1);
}

void tokenfile_check_copy(const TokenFile *f, int64_t vocab, int64_t first, const int32_t *ids,
                          int64_t n)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (uint32_t)ids[i] >= (uint64_t)vocab;
    for (int64_t i = 0; bad && i < n; i++)
        if ((uint32_t)ids[i] >= (uint64_t)vocab)
            die(EXIT_DATA, "%s: tokens[%lld], byte %lld: id %d, want 0 to %lld: the file was "
                "changed while it was in use", f->path, (long long)(first + i),
                (long long)((const char *)(f->tokens + first + i) - (const char *)f->map_), ids[i],
                (long long)vocab - 1);
}

void tokenfile_check_size(const TokenFile *f)
{
    struct stat now;
    /* a new file of that name is none of our business: the old one stays mapped */
    if (stat(f->path, &now) == 0 && now.st_dev == f->device_ && now.st_ino == f->inode_ &&
        (uint64_t)now.st_size < f->map_bytes_)
        end_shorter(f);
}

void tokenfile_changed(const TokenFile *f, const char *tensor, int64_t i)
{
    die(EXIT_DATA, "%s: %s[%lld] is not what it was: the file was changed while it was in use",
        f->path, tensor, (long long)i);
}

void tokenfile_close(TokenFile *f)
{
    for (TokenFile **at = &mapped; *at; at = &(*at)->next_)
        if (*at == f) {
            *at = f->next_;
            break;
        }
    if (f->map_)
        munmap(f->map_, f->map_bytes_);
    free(f->path);
    *f = (TokenFile){0};
}
