/* safetensors_write.c -- conversion of elements to and from float; writer of safetensors files.
 *
 * In:    names, dtypes and shapes of tensors, then their bytes.
 * Out:   the file the reference library would write.
 * Keeps: PATH is replaced atomically; the header is first checked by the reader's own rules. */
#define _GNU_SOURCE
#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- elements -------------------------------------------------------------------------------- */

float st_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff, u;
    float f;
    if (exponent == 31)
        u = sign | 0x7f800000 | fraction << 13;
    else if (exponent)
        u = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    memcpy(&f, &u, 4);
    return f;
}

uint16_t st_float_to_half(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000)                     /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    /* below 2^-14: a multiple of 2^-24, rounded by the addition */
    if (size < 0x38800000) {
        float a;
        memcpy(&a, &size, 4);
        a += 0.5f;                              /* ulp of [0.5, 1) is 2^-24 */
        memcpy(&u, &a, 4);
        return (uint16_t)(sign | (u - 0x3f000000));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | ((size - 0x38000000) >> 13));
}

bool st_to_float(float *dst, const void *src, StDtype dtype, size_t n)
{
    const unsigned char *p = src;               /* memcpy: tensors in files may be unaligned */
    uint16_t h;
    double d;
    switch (dtype) {
    case ST_F32:
        memcpy(dst, src, 4 * n);
        return true;
    case ST_F64:
        for (size_t i = 0; i < n; i++)
            memcpy(&d, p + 8 * i, 8), dst[i] = (float)d;
        return true;
    case ST_BF16:
        for (size_t i = 0; i < n; i++)
            memcpy(&h, p + 2 * i, 2), dst[i] = bf16_to_float(h);
        return true;
    case ST_F16:
        for (size_t i = 0; i < n; i++)
            memcpy(&h, p + 2 * i, 2), dst[i] = st_half_to_float(h);
        return true;
    case ST_I16:
        for (size_t i = 0; i < n; i++)
            memcpy(&h, p + 2 * i, 2), dst[i] = (int16_t)h;
        return true;
    case ST_U8:
        for (size_t i = 0; i < n; i++)
            dst[i] = p[i];
        return true;
    default:
        return false;
    }
}

bool st_from_float(void *dst, StDtype dtype, const float *src, size_t n)
{
    unsigned char *p = dst;
    uint16_t h;
    double d;
    switch (dtype) {
    case ST_F32:
        memcpy(dst, src, 4 * n);
        return true;
    case ST_F64:
        for (size_t i = 0; i < n; i++)
            d = (double)src[i], memcpy(p + 8 * i, &d, 8);
        return true;
    case ST_BF16:
        for (size_t i = 0; i < n; i++)
            h = float_to_bf16(src[i]), memcpy(p + 2 * i, &h, 2);
        return true;
    case ST_F16:
        for (size_t i = 0; i < n; i++)
            h = st_float_to_half(src[i]), memcpy(p + 2 * i, &h, 2);
        return true;
    case ST_I16:
        for (size_t i = 0; i < n; i++)
            h = (uint16_t)(int16_t)src[i], memcpy(p + 2 * i, &h, 2);
        return true;
    case ST_U8:
        for (size_t i = 0; i < n; i++)
            p[i] = (unsigned char)src[i];
        return true;
    default:
        return false;
    }
}

/* ---- the writer ------------------------------------------------------------------------------ */

struct StWriter {
    int fd;                      /* -1 before st_begin() and after st_end() */
    char *path, *temp;
    int n, now;                  /* number of tensors; the one being written */
    StTensor *t;
    uint32_t *tensor_crc;
    uint64_t at, bytes;          /* bytes written so far; of the whole file */
    uint32_t crc;
    FILE *meta;                  /* members of __metadata__ */
    char *meta_text;
    size_t meta_bytes;
};

static void put_string(FILE *to, const char *s)
{
    static const char name[] = "\"\\bfnrt", value[] = "\"\\\b\f\n\r\t";
    putc('"', to);
    for (; *s; s++) {
        const char *at = strchr(value, *s);
        if (at)
            fprintf(to, "\\%c", name[at - value]);
        else if ((unsigned char)*s < 0x20)
            fprintf(to, "\\u%04x", (unsigned char)*s);
        else
            putc(*s, to);
    }
    putc('"', to);
}

StWriter *st_writer(const char *made_by)
{
    StWriter *w = calloc(1, sizeof *w);
    w->fd = -1;
    w->meta = open_memstream(&w->meta_text, &w->meta_bytes);
    fputs("\"format\":", w->meta);
    put_string(w->meta, made_by);
    return w;
}

char *st_add(StWriter *w, const char *name, StDtype dtype, int rank, const int64_t *shape)
{
    StTensor t = {.dtype = dtype, .rank = rank};
    uint64_t bytes;
    if (rank < 0 || rank > ST_RANK)
        return format("tensor %s: %d dimensions, at most %d are written", name, rank, ST_RANK);
    for (int i = 0; i < rank; i++)
        t.shape[i] = shape[i] < 0 ? INT64_MAX : shape[i];
    if (!st_tensor_bytes(&t, &bytes) || bytes > INT64_MAX / 2)
        return format("tensor %s: size overflows", name);
    t.end = bytes;
    t.name = strdup(name);
    w->t = realloc(w->t, ((size_t)w->n + 1) * sizeof *w->t);
    w->t[w->n++] = t;
    return NULL;
}

char *st_add_meta(StWriter *w, const char *key, const char *value)
{
    putc(',', w->meta);
    put_string(w->meta, key);
    putc(':', w->meta);
    put_string(w->meta, value);
    return ferror(w->meta) ? format("__metadata__: %s", strerror(errno)) : NULL;
}

static int layout_order(const void *pa, const void *pb)
{
    const StTensor *a = pa, *b = pb;
    return a->dtype != b->dtype ? (a->dtype > b->dtype ? -1 : 1) : strcmp(a->name, b->name);
}

/* Appends to the file and updates the checksum. */
static char *put_bytes(StWriter *w, const void *data, uint64_t bytes)
{
    if (!file_write(w->fd, data, bytes))
        return format("%s: write: %s", w->temp, strerror(errno));
    w->crc = crc32c(w->crc, data, bytes);
    w->at += bytes;
    return NULL;
}

/* Builds the header text, padded to a multiple of 8; offsets in w->t become file offsets. */
static char *make_header(StWriter *w, size_t *n)
{
    char *text = NULL;
    uint64_t at = 0;
    FILE *to = open_memstream(&text, n);
    fflush(w->meta);
    fprintf(to, "{\"__metadata__\":{%s}", w->meta_text);
    for (int i = 0; i < w->n; i++) {
        StTensor *t = &w->t[i];
        putc(',', to);
        put_string(to, t->name);
        fprintf(to, ":{\"dtype\":\"%s\",\"shape\":[", st_dtype_name[t->dtype]);
        for (int k = 0; k < t->rank; k++)
            fprintf(to, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        t->begin = at;
        at = t->end += at;
        fprintf(to, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->begin,
                (unsigned long long)t->end);
    }
    putc('}', to);
    for (fflush(to); *n % 8; fflush(to))
        putc(' ', to);
    fclose(to);
    for (int i = 0; i < w->n; i++) {
        w->t[i].begin += 8 + *n;
        w->t[i].end += 8 + *n;
    }
    w->bytes = 8 + *n + at;
    return text;
}

char *st_begin(StWriter *w, const char *path)
{
    size_t n;
    unsigned char word[8];
    if (w->n)
        qsort(w->t, (size_t)w->n, sizeof *w->t, layout_order);
    uint64_t sum = 0;
    for (int i = 0; i < w->n; i++)
        if (__builtin_add_overflow(sum, w->t[i].end, &sum) || sum > INT64_MAX / 2)
            return format("%s: sizes overflow", path);
    char *header = make_header(w, &n);
    StFile probe;                /* checks by the reader's rules, among them: unique names, UTF-8 */
    char *error = st_header_parse(&probe, header, n, w->bytes);
    if (!error)
        st_close(&probe);
    if (error || n > ST_HEADER_MAX) {
        char *full = format("%s: %s", path, error ? error : "header too long");
        free(error);
        free(header);
        return full;
    }
    w->tensor_crc = calloc((size_t)w->n + 1, sizeof *w->tensor_crc);
    w->path = strdup(path);
    w->temp = format("%s.tmp", path);
    w->fd = file_create(w->temp, &error);
    if (w->fd >= 0) {
        for (int i = 0; i < 8; i++)
            word[i] = (unsigned char)(n >> 8 * i);
        error = put_bytes(w, word, 8);
        if (!error)
            error = put_bytes(w, header, n);
    }
    free(header);
    return error;
}

int st_count(const StWriter *w)
{
    return w->n;
}

const StTensor *st_planned(const StWriter *w, int i)
{
    return &w->t[i];
}

uint64_t st_bytes(const StWriter *w)
{
    return w->bytes;
}

char *st_write(StWriter *w, const char *name, const void *data, uint64_t bytes)
{
    while (w->now < w->n && w->at == w->t[w->now].end && strcmp(w->t[w->now].name, name))
        w->now++;
    if (w->now == w->n || strcmp(w->t[w->now].name, name))
        return format("%s: tensor %s written out of order, %s is due", w->path, name,
                      w->now < w->n ? w->t[w->now].name : "nothing");
    if (bytes > w->t[w->now].end - w->at)
        return format("%s: tensor %s: more bytes than its shape has", w->path, name);
    char *error = put_bytes(w, data, bytes);
    if (!error)
        w->tensor_crc[w->now] = crc32c(w->tensor_crc[w->now], data, bytes);
    return error;
}

uint32_t st_tensor_crc(const StWriter *w, int i)
{
    return w->tensor_crc[i];
}

/* Syncs the folder so that the rename is durable; returns 0 or an errno. */
static int sync_folder(const char *path)
{
    char *folder = strdup(path), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = TEMP_FAILURE_RETRY(open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int why = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0)
        close(fd);
    free(folder);
    return why;
}

char *st_end(StWriter *w, uint32_t *crc)
{
    const char *what = NULL;
    int why = 0;
    if (w->at != w->bytes)
        return format("%s: %llu of %llu bytes written", w->path, (unsigned long long)w->at,
                      (unsigned long long)w->bytes);
    if (fsync(w->fd))
        what = "fsync", why = errno;
    if (close(w->fd) && !what)
        what = "close", why = errno;
    w->fd = -1;
    if (!what && rename(w->temp, w->path))
        what = "rename", why = errno;
    if (what) {
        char *error = format("%s: %s: %s", w->temp, what, strerror(why));
        unlink(w->temp);
        return error;
    }
    why = sync_folder(w->path);
    if (why)
        return format("%s: fsync of its folder: %s", w->path, strerror(why));
    *crc = w->crc;
    return NULL;
}

void st_free(StWriter *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->temp);
    }
    for (int i = 0; i < w->n; i++)
        free(w->t[i].name);
    fclose(w->meta);
    free(w->meta_text);
    free(w->t);
    free(w->tensor_crc);
    free(w->path);
    free(w->temp);
    free(w);
}
