/* pack_prepared.c -- reads folders of token ids, as other programs use them: train_data.npy,
 * val_data.npy, metadata.json.
 *
 * In:    arrays of int64 (rows, tokens of each), all rows of one length; metadata.json must agree
 *        with them. A tokenizer.json next to them is the one they were made with.
 * Keeps: training rows come first; memory for one row. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_MAX = 1 << 16, METADATA_MAX = 1 << 20 };
static const char *const count_key[ARRAYS] = {"train_samples", "val_samples"};

typedef struct {
    Prepared base;
    char *folder, *id;           /* of the tokenizer; "none" */
    FILE *array[ARRAYS];         /* positioned after its header */
    int64_t rows[ARRAYS], bos;
} Arrays;

static void close_arrays(Prepared *base)
{
    Arrays *f = (Arrays *)base;
    for (int i = 0; i < ARRAYS; i++)
        if (f->array[i])
            fclose(f->array[i]);
    free(f->folder), free(f->id);
    free(f);
}

/* Returns the text after 'key': in the header of an array. */
static const char *header_value(const char *header, const char *key)
{
    char *quoted = format("'%s':", key);
    const char *at = strstr(header, quoted);
    at = at ? at + strlen(quoted) : "";
    free(quoted);
    return at + strspn(at, " ");
}

/* Returns the error of a short read: errno if the stream failed, else `ends`; malloc'ed. */
static char *unread(FILE *f, const char *ends)
{
    return format("%s", ferror(f) ? strerror(errno) : ends);
}

/* Reads the shape of an array of int64; its data come next. */
static char *array_open(FILE *f, int64_t *rows, int64_t *T)
{
    unsigned char head[12] = {0};
    size_t before = fread(head, 1, 8, f) == 8 && head[6] == 1 ? 10 : 12;
    if (memcmp(head, "\x93NUMPY", 6) || head[6] < 1 || head[6] > 3 ||
        fread(head + 8, 1, before - 8, f) != before - 8)
        return unread(f, "not a NumPy array");
    size_t n = head[8] | (size_t)head[9] << 8 | (size_t)head[10] << 16 | (size_t)head[11] << 24;
    char *header = n <= HEADER_MAX ? calloc(n + 1, 1) : NULL, *error = NULL;
    long long shape[2], end = 0;
    char close = 0;              /* not ')' if there is a third length */
    struct stat is;
    if (!header || fread(header, 1, n, f) != n) {
        error = unread(f, "its header is cut off");
    } else if (strncmp(header_value(header, "descr"), "'<i8'", 5)) {
        const char *found = header_value(header, "descr");
        error = format("dtype is %.*s, must be int64 ('<i8')", (int)strcspn(found, ",}"), found);
    } else if (strncmp(header_value(header, "fortran_order"), "False", 5)) {
        error = format("is in Fortran order, must be in C order: use numpy.ascontiguousarray");
    } else if (sscanf(header_value(header, "shape"), "(%lld, %lld%c", &shape[0], &shape[1],
                      &close) != 3 || close != ')' || shape[0] < 1 || shape[1] < 1 ||
               shape[1] > INT32_MAX || shape[0] > INT64_MAX / 8 / shape[1]) {
        const char *found = header_value(header, "shape");
        error = format("shape is %.*s, must be two lengths of 1 or more",
                       (int)strcspn(found, ")}") + 1, found);
    } else {
        *rows = shape[0], *T = shape[1];
        end = (long long)(before + n) + shape[0] * shape[1] * 8;
        if (fstat(fileno(f), &is))
            error = format("%s", strerror(errno));
        else if (is.st_size != end)
            error = format("has %lld bytes, must have %lld for its shape", (long long)is.st_size,
                           end);
    }
    free(header);
    return error;
}

/* Reads a number of metadata.json from lo to hi. */
static char *number(const cJSON *meta, const char *key, int64_t lo, int64_t hi, int64_t *value)
{
    const cJSON *v = json_get(meta, key);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= (double)lo && v->valuedouble <= (double)hi) ||
        v->valuedouble != (double)(int64_t)v->valuedouble)
        return format("%s: must be an integer from %lld to %lld", key, (long long)lo,
                      (long long)hi);
    *value = (int64_t)v->valuedouble;
    return NULL;
}

static char *equal(const char *key, int64_t says, int64_t is)
{
    return says == is ? NULL
         : format("%s is %lld, but the arrays have %lld", key, (long long)says, (long long)is);
}

static char *check_metadata(Arrays *f, const cJSON *meta)
{
    const char *const special[] = {"mask_token", "bos_token", "eos_token", "pad_token"};
    int64_t *const to[] = {&f->base.ids.mask, &f->bos, &f->base.ids.eos, &f->base.ids.pad};
    int64_t says = 0, train = f->rows[ARRAY_TRAIN] * f->base.length,
            all = train + f->rows[ARRAY_EVAL] * f->base.length;
    char *error = number(meta, "sequence_length", 1, INT32_MAX, &says);
    error = error ? error : equal("sequence_length", says, f->base.length);
    for (int i = 0; i < ARRAYS && !error; i++) {
        error = number(meta, count_key[i], 1, INT64_C(1) << 50, &says);
        error = error ? error : equal(count_key[i], says, f->rows[i]);
    }
    if (!error && json_get(meta, "total_tokens")) {
        error = number(meta, "total_tokens", 1, INT64_C(1) << 53, &says);
        if (!error && says != train && says != all)
            error = format("total_tokens is %lld, but the arrays have %lld for training, %lld in "
                           "all",
                           (long long)says, (long long)train, (long long)all);
    }
    error = error ? error : number(meta, "vocab_size", 1, INT32_MAX, &f->base.ids.size);
    for (int i = 0; i < 4 && !error; i++)
        error = number(meta, special[i], 0, f->base.ids.size - 1, to[i]);
    for (int i = 1; i < 4 && !error; i++)
        if (*to[i] == f->base.ids.mask)
            error = format("%s: %lld, which is mask_token: give another id", special[i],
                           (long long)*to[i]);
    return error;
}

static char *at(const char *folder, const char *name, char *error)
{
    char *full = error ? format("%s/%s: %s", folder, name, error) : NULL;
    free(error);
    return full;
}

/* Sets the id of the tokenizer: of tokenizer.json next to the arrays, else of the given file. */
static char *find_tokenizer(Arrays *f, const char *named)
{
    char *folder_file = format("%s/tokenizer.json", f->folder), *error = NULL, *other = NULL;
    bool has_file = file_named(folder_file), file = file_named(named);
    if (has_file)
        error = tokenizer_file_id(folder_file, &f->id);
    if (!error && file)
        error = tokenizer_file_id(named, has_file ? &other : &f->id);
    if (!error && other && strcmp(other, f->id))
        error = format("%s: another tokenizer than %s", named, folder_file);
    if (!error && !f->id)
        f->id = format("none");
    f->base.ids.id = f->id;
    free(folder_file), free(other);
    return error;
}

/* Converts and checks one row. */
static char *take_row(const Arrays *f, int which, int64_t row, const int64_t *from, int32_t *id)
{
    for (int64_t i = 0; i < f->base.length; i++) {
        if (from[i] < 0 || from[i] >= f->base.ids.size || from[i] == f->base.ids.mask)
            return at(f->folder, array_name[which], from[i] == f->base.ids.mask
                ? format("row %lld, position %lld: id %lld is mask_token", (long long)row,
                         (long long)i, (long long)from[i])
                : format("row %lld, position %lld: id %lld is outside the vocabulary, 0 to %lld",
                         (long long)row,
                         (long long)i, (long long)from[i], (long long)f->base.ids.size - 1));
        id[i] = (int32_t)from[i];
    }
    return NULL;
}

/* Returns the length of a row before its padding; all of it if padding is also the end of text. */
static int64_t row_length(const Arrays *f, const int32_t *id)
{
    int64_t n = f->base.length;
    while (f->base.ids.pad != f->base.ids.eos && n && id[n - 1] == f->base.ids.pad)
        n--;
    return n;
}

/* Adds to the hashes what else determines the records: the split and the special ids. */
static void note_meaning(const Arrays *f)
{
    const TokenIds *ids = &f->base.ids;
    const int64_t says[] = {f->rows[ARRAY_TRAIN], f->rows[ARRAY_EVAL], ids->size, ids->eos,
                            ids->mask, ids->pad};
    reader_note(says, sizeof says);
}

static char *read_arrays(Prepared *base, Pack *p)
{
    Arrays *f = (Arrays *)base;
    const size_t length = (size_t)base->length;
    int64_t *from = malloc(length * sizeof *from);
    int32_t *id = malloc(length * sizeof *id);
    uint8_t *target = malloc(length);
    char *error = from && id && target ? NULL
                : format("out of memory for a row of %lld ids", (long long)length);
    note_meaning(f);
    for (int k = 0; k < ARRAYS && !error; k++) {
        const off_t begin = ftello(f->array[k]);
        for (int64_t i = 0; i < f->rows[k] && !error; i++) {
            if (fread(from, sizeof *from, length, f->array[k]) != length)
                error = at(f->folder, array_name[k],
                           unread(f->array[k], "changed while being read"));
            else
                error = take_row(f, k, i, from, id);
            const int64_t n = error ? 0 : row_length(f, id);
            if (!error && !n)
                error = at(f->folder, array_name[k],
                           format("row %lld has only pad_token %lld", (long long)i,
                                  (long long)f->base.ids.pad));
            if (error)
                break;
            reader_note(id, length * sizeof *id);
            memset(target, 1, (size_t)n);
            if (p)
                pack_put(p, id, target, (size_t)n, k == ARRAY_EVAL),
                    p->padded += (size_t)n < length;
        }
        fseeko(f->array[k], begin, SEEK_SET);
    }
    free(from), free(id), free(target);
    return error;
}

char *prepared_open(Prepared **to, const char *folder, const char *tokenizer)
{
    Arrays *f = calloc(1, sizeof *f);
    char *error = NULL, *path;
    int64_t T[ARRAYS] = {0};
    if (!f)
        abort();
    f->folder = format("%s", folder);
    for (int i = 0; i < ARRAYS && !error; i++) {
        path = format("%s/%s", folder, array_name[i]);
        f->array[i] = fopen(path, "r");
        error = at(folder, array_name[i], f->array[i] ? array_open(f->array[i], &f->rows[i], &T[i])
                                                      : format("%s", strerror(errno)));
        free(path);
    }
    if (!error && T[ARRAY_TRAIN] != T[ARRAY_EVAL])
        error = at(folder, array_name[ARRAY_EVAL],
                   format("has rows of %lld tokens, but those of %s have %lld",
                          (long long)T[ARRAY_EVAL], array_name[ARRAY_TRAIN],
                          (long long)T[ARRAY_TRAIN]));
    f->base.length = T[ARRAY_TRAIN];
    cJSON *meta = error ? NULL : folder_read_json(folder, "metadata.json", METADATA_MAX, &error);
    if (!error)
        error = at(folder, "metadata.json", check_metadata(f, meta));
    cJSON_Delete(meta);
    if (!error)
        error = find_tokenizer(f, tokenizer);
    f->base.read = read_arrays;
    f->base.close = close_arrays;
    *to = error ? NULL : &f->base;
    if (error)
        close_arrays(&f->base);
    return error;
}
