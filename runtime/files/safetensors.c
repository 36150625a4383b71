/* safetensors.c -- strict reader of safetensors files and of model folders.
 *
 * In:     u64 N, N bytes of JSON, tensor bytes.  Out: see safetensors.h.
 * Keeps:  nothing is allocated from a number in the file; sizes are computed with overflow checks.
 * Method: json_check proves the header to be JSON without duplicate keys, so the walk over it only
 *         looks at meaning; integers are read as exact 64-bit values, which cJSON cannot do. */
#define _GNU_SOURCE
#include "runtime/files/safetensors.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ST_NAME(name, bits) #name,
#define ST_BITS(name, bits) bits,
const char *const st_dtype_name[ST_NDTYPES] = {ST_DTYPES(ST_NAME)};
const int st_dtype_bits[ST_NDTYPES] = {ST_DTYPES(ST_BITS)};

/* ---- walk over text accepted by json_check() ------------------------------------------------- */

typedef struct {
    const char *p, *end;
} Walk;

/* Returns the next character that is not space; 0 at the end. */
static char look(Walk *w)
{
    while (w->p < w->end && strchr(" \t\r\n", *w->p))
        w->p++;
    return w->p < w->end ? *w->p : 0;
}

/* Skips the opening bracket, comma or colon; false if the bracket closes here (and is skipped). */
static bool enter(Walk *w)
{
    look(w);
    w->p++;
    char c = look(w);
    if (c == '}' || c == ']') {
        w->p++;
        return false;
    }
    return true;
}

/* After a member: true at a comma (skipped), false at the closing bracket (skipped). */
static bool more(Walk *w)
{
    bool comma = look(w) == ',';
    w->p++;
    return comma;
}

static char *take_string(Walk *w)
{
    look(w);
    const char *from = ++w->p;
    while (*w->p != '"')
        w->p += *w->p == '\\' ? 2 : 1;
    size_t n = (size_t)(w->p++ - from);
    char *text = malloc(n + 1);
    text[json_unescape(from, n, text)] = 0;
    return text;
}

static char *take_key(Walk *w)
{
    char *key = take_string(w);
    look(w);
    w->p++;
    return key;
}

/* Reads an integer without sign, fraction or exponent that fits 63 bits. */
static bool take_size(Walk *w, uint64_t *value)
{
    char c = look(w);
    *value = 0;
    if (c < '0' || c > '9')
        return false;
    for (; *w->p >= '0' && *w->p <= '9'; w->p++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*w->p - '0'), value))
            return false;
    return *value <= INT64_MAX && !strchr(".eE", *w->p);
}

static void skip_value(Walk *w)
{
    int depth = 0;
    do {
        char c = look(w);
        if (c == '"') {
            free(take_string(w));
        } else {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            w->p++;
        }
    } while (depth);
    while (w->p < w->end && !strchr(",]} \t\r\n", *w->p))     /* the rest of a number or word */
        w->p++;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int dtype_find(const char *name)
{
    for (int i = 0; i < ST_NDTYPES; i++)
        if (!strcmp(st_dtype_name[i], name))
            return i;
    return -1;
}

bool st_tensor_bytes(const StTensor *t, uint64_t *bytes)
{
    uint64_t bits = 1;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)t->shape[i], &bits))
            return false;
    if (__builtin_mul_overflow(bits, (uint64_t)st_dtype_bits[t->dtype], &bits) || bits % 8)
        return false;
    *bytes = bits / 8;
    return true;
}

static char *take_shape(Walk *w, StTensor *t)
{
    if (look(w) != '[')
        return format("tensor %s: shape: must be a list", t->name);
    t->rank = 0;
    if (enter(w)) {
        do {
            uint64_t dim;
            if (t->rank == ST_RANK)
                return format("tensor %s: shape: more than %d dimensions", t->name, ST_RANK);
            if (!take_size(w, &dim))
                return format("tensor %s: shape: must be integers from 0 to 2^63-1", t->name);
            t->shape[t->rank++] = (int64_t)dim;
        } while (more(w));
    }
    return NULL;
}

static char *take_offsets(Walk *w, StTensor *t)
{
    if (look(w) != '[' || !enter(w) || !take_size(w, &t->begin) || !more(w) ||
        !take_size(w, &t->end) || more(w))
        return format("tensor %s: data_offsets: must be two integers from 0 to 2^63-1", t->name);
    return NULL;
}

static char *take_tensor(Walk *w, StTensor *t)
{
    bool dtype = false, shape = false, offsets = false;
    uint64_t bytes;
    if (look(w) != '{')
        return format("tensor %s: must be an object", t->name);
    if (enter(w)) {
        do {
            char *key = take_key(w), *error = NULL;
            if (!strcmp(key, "dtype") && look(w) == '"') {
                char *name = take_string(w);
                int d = dtype_find(name);
                if (d < 0)
                    error = format("tensor %s: unknown dtype %.40s", t->name, name);
                t->dtype = (StDtype)d;
                dtype = true;
                free(name);
            } else if (!strcmp(key, "shape")) {
                shape = !(error = take_shape(w, t));
            } else if (!strcmp(key, "data_offsets")) {
                offsets = !(error = take_offsets(w, t));
            } else {
                skip_value(w);
            }
            free(key);
            if (error)
                return error;
        } while (more(w));
    }
    if (!dtype || !shape || !offsets)
        return format("tensor %s: %s is missing", t->name,
                      !dtype ? "dtype" : !shape ? "shape" : "data_offsets");
    if (t->end < t->begin)
        return format("tensor %s: data_offsets: END %llu before BEGIN %llu", t->name,
                      (unsigned long long)t->end, (unsigned long long)t->begin);
    if (!st_tensor_bytes(t, &bytes))
        return format("tensor %s: shape: size overflows or is not a whole number of bytes",
                      t->name);
    if (bytes != t->end - t->begin)
        return format("tensor %s: shape and dtype need %llu bytes, data_offsets hold %llu", t->name,
                      (unsigned long long)bytes, (unsigned long long)(t->end - t->begin));
    return NULL;
}

static char *take_metadata(Walk *w, StFile *f)
{
    if (look(w) != '{')
        return format("__metadata__: must be an object");
    if (!enter(w))
        return NULL;
    do {
        char *key = take_key(w);
        if (look(w) != '"') {
            char *error = format("__metadata__: %.60s: must be a string", key);
            free(key);
            return error;
        }
        if ((f->nmeta & (f->nmeta - 1)) == 0) {
            size_t cap = f->nmeta ? 2 * (size_t)f->nmeta : 1;
            f->meta_key = realloc(f->meta_key, cap * sizeof *f->meta_key);
            f->meta_value = realloc(f->meta_value, cap * sizeof *f->meta_value);
        }
        f->meta_key[f->nmeta] = key;
        f->meta_value[f->nmeta++] = take_string(w);
    } while (more(w));
    return NULL;
}

static int place_order(const void *pa, const void *pb)
{
    const StTensor *a = pa, *b = pb;
    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1)
         : a->end != b->end ? (a->end < b->end ? -1 : 1) : strcmp(a->name, b->name);
}

typedef struct {
    const char *name;
    int i;
} Named;

static int name_order(const void *a, const void *b)
{
    return strcmp(((const Named *)a)->name, ((const Named *)b)->name);
}

static void index_names(StFile *f)
{
    Named *named = malloc(((size_t)f->n + 1) * sizeof *named);
    f->by_name = malloc(((size_t)f->n + 1) * sizeof *f->by_name);
    for (int i = 0; i < f->n; i++)
        named[i] = (Named){f->t[i].name, i};
    qsort(named, (size_t)f->n, sizeof *named, name_order);
    for (int i = 0; i < f->n; i++)
        f->by_name[i] = named[i].i;
    free(named);
}

static char *take_header(StFile *f, const char *header, size_t n, uint64_t file_size)
{
    Walk w = {header, header + n};
    char *error = json_check(header, n);
    if (error) {
        char *full = format("header: %s", error);
        free(error);
        return full;
    }
    if (look(&w) != '{')
        return format("header: must be one JSON object");
    if (enter(&w)) {
        do {
            char *name = take_key(&w);
            if (!strcmp(name, "__metadata__")) {
                free(name);
                error = take_metadata(&w, f);
            } else {
                if ((f->n & (f->n - 1)) == 0)
                    f->t = realloc(f->t, (f->n ? 2 * (size_t)f->n : 1) * sizeof *f->t);
                StTensor *t = &f->t[f->n++];
                memset(t, 0, sizeof *t);
                t->name = name;
                error = take_tensor(&w, t);
            }
            if (error)
                return error;
        } while (more(&w));
    }
    if (f->n)
        qsort(f->t, (size_t)f->n, sizeof *f->t, place_order);
    uint64_t at = 0, data = file_size - 8 - n;
    for (int i = 0; i < f->n; i++) {
        StTensor *t = &f->t[i];
        if (t->begin != at)
            return format("tensor %s: data_offsets: begins at %llu, %s at %llu", t->name,
                          (unsigned long long)t->begin,
                          t->begin > at ? "a hole opens" : "the tensor before ends",
                          (unsigned long long)at);
        at = t->end;
        if (at > data)
            return format("tensor %s: ends at %llu, the file has %llu bytes of data", t->name,
                          (unsigned long long)at, (unsigned long long)data);
        t->begin += 8 + n;
        t->end += 8 + n;
    }
    if (at != data)
        return format("tensors end at %llu, the file has %llu bytes of data",
                      (unsigned long long)at, (unsigned long long)data);
    index_names(f);
    return NULL;
}

void st_close(StFile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    for (int i = 0; i < f->n; i++)
        free(f->t[i].name);
    for (int i = 0; i < f->nmeta; i++) {
        free(f->meta_key[i]);
        free(f->meta_value[i]);
    }
    free(f->t);
    free(f->by_name);
    free(f->meta_key);
    free(f->meta_value);
    free(f->path);
    *f = (StFile){.fd = -1};
}

char *st_header_parse(StFile *f, const char *header, size_t n, uint64_t file_size)
{
    *f = (StFile){.fd = -1};
    char *error = file_size < 8 || n > file_size - 8
                ? format("header of %zu bytes does not fit the file of %llu", n,
                         (unsigned long long)file_size)
                : take_header(f, header, n, file_size);
    if (error)
        st_close(f);
    return error;
}

static char *read_at(int fd, void *dst, uint64_t at, uint64_t bytes)
{
    for (char *p = dst; bytes;) {
        size_t piece = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        ssize_t r = pread(fd, p, piece, (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return format("byte %llu: %s", (unsigned long long)at,
                          r ? strerror(errno) : "the file shrank while being read");
        p += r;
        at += (uint64_t)r;
        bytes -= (uint64_t)r;
    }
    return NULL;
}

const char *st_looks_like(const void *head, size_t n)
{
    static const struct { const char *begin, *what; } known[] = {
        {"version https://git-lfs", "a pointer of git-lfs (git lfs pull fetches the file itself)"},
        {"\x1f\x8b", "gzip data"}, {"PAR1", "Parquet"}, {"\x93NUMPY", "a NumPy array"},
        {"PK\3\4", "a zip archive"}, {"GGUF", "GGUF"}, {"\x28\xb5\x2f\xfd", "zstd data"},
        {"ARROW1", "Arrow"}, {"<!DOCTYPE", "a web page"}, {"<html", "a web page"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t k = strlen(known[i].begin);
        if (k <= n && !memcmp(head, known[i].begin, k))
            return known[i].what;
    }
    const unsigned char *byte = head;
    for (size_t i = 0; i < n; i++)
        if ((byte[i] < ' ' && !strchr("\t\n\r", byte[i])) || byte[i] == 0x7f || byte[i] == 0)
            return NULL;
    return n ? "text" : NULL;
}

/* Message for a file without a header: what the file is, or else `error`. */
static char *no_header(const unsigned char *head, size_t n, char *error)
{
    const char *what = st_looks_like(head, n);
    if (!what)
        return error;
    free(error);
    return format("not a safetensors file but %s", what);
}

static char *open_file(StFile *f, int fd)
{
    struct stat st;
    unsigned char head[64] = {0};
    uint64_t n = 0;
    if (fstat(fd, &st))
        return format("%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return format("not a regular file");
    uint64_t size = (uint64_t)st.st_size;
    size_t nhead = size < sizeof head ? (size_t)size : sizeof head;
    char *error = read_at(fd, head, 0, nhead);
    if (error)
        return error;
    if (size < 8)
        return no_header(head, nhead, format("not a safetensors file: %llu bytes, fewer than the 8 "
                                             "of its length field",
                                             (unsigned long long)size));
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > ST_HEADER_MAX)
        return no_header(head, nhead, format("not a safetensors file: header of %llu bytes, at "
                                             "most %u are allowed", (unsigned long long)n,
                                             ST_HEADER_MAX));
    if (n > size - 8)
        return no_header(head, nhead, format("header of %llu bytes does not fit the file of %llu",
                                             (unsigned long long)n, (unsigned long long)size));
    char *header = malloc(n + 1);
    if (!header)
        return format("out of memory for its header of %llu bytes", (unsigned long long)n);
    error = read_at(fd, header, 8, n);
    if (!error) {
        error = st_header_parse(f, header, n, size);
        if (error && n && !memchr(" \t\r\n{", *header, 5))
            error = no_header(head, nhead, error);
    }
    free(header);
    return error;
}

enum { LATER = 64 };              /* files that a run opens later; those of data stay open */

char *st_open(StFile *f, const char *path)
{
    *f = (StFile){.fd = -1};
    /* O_NONBLOCK: open_file() refuses a FIFO, which would block here */
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    char *error;
    if (fd < 0)
        error = format("%s%s", strerror(errno), errno == EMFILE ? ": raise ulimit -n" : "");
    else if (file_limit(fd + LATER) < fd + LATER)
        error = format("%d files are open: raise ulimit -n", fd);
    else
        error = open_file(f, fd);
    if (error) {
        char *full = format("%s: %s", path, error);
        free(error);
        if (fd >= 0)
            close(fd);
        return full;
    }
    f->fd = fd;
    f->path = strdup(path);
    return NULL;
}

const StTensor *st_find(const StFile *f, const char *name)
{
    for (int lo = 0, hi = f->n; lo < hi;) {
        int mid = lo + (hi - lo) / 2;
        const StTensor *t = &f->t[f->by_name[mid]];
        int c = strcmp(name, t->name);
        if (!c)
            return t;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const char *st_meta(const StFile *f, const char *key)
{
    for (int i = 0; i < f->nmeta; i++)
        if (!strcmp(f->meta_key[i], key))
            return f->meta_value[i];
    return NULL;
}

int64_t st_elements(const StTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

char *st_read(const StFile *f, const StTensor *t, void *dst, uint64_t offset, uint64_t bytes)
{
    uint64_t size = t->end - t->begin;
    if (offset > size || bytes > size - offset)
        return format("%s: tensor %s: bytes %llu + %llu asked for, it has %llu", f->path, t->name,
                      (unsigned long long)offset, (unsigned long long)bytes,
                      (unsigned long long)size);
    char *error = read_at(f->fd, dst, t->begin + offset, bytes);
    if (error) {
        char *full = format("%s: tensor %s: %s", f->path, t->name, error);
        free(error);
        return full;
    }
    return NULL;
}

/* ---- model folders --------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat st;
    return !stat(path, &st);
}

/* Returns the shard of that name, opened if new. Names from the index are never paths. */
static char *shard_open(StSet *s, const char *folder, const char *name, int *file)
{
    if (!*name || strchr(name, '/') || strchr(name, '\\') || !strcmp(name, ".") ||
        !strcmp(name, ".."))
        return format("weight_map: must be a file name, got \"%.80s\"", name);
    char *path = format("%s/%s", folder, name), *error = NULL;
    for (*file = s->nfiles - 1; *file >= 0 && strcmp(s->file[*file].path, path); --*file)
        ;
    if (*file < 0) {
        s->file = realloc(s->file, ((size_t)s->nfiles + 1) * sizeof *s->file);
        error = st_open(&s->file[s->nfiles], path);
        if (!error)
            *file = s->nfiles++;
    }
    free(path);
    return error;
}

static char *index_open(StSet *s, const char *folder, const cJSON *map)
{
    int64_t mapped = 0, held = 0;
    if (!cJSON_IsObject(map) || !map->child)
        return format("weight_map: must be an object of tensor: file");
    for (const cJSON *i = map->child; i; i = i->next, mapped++) {
        int file = -1;
        if (!cJSON_IsString(i))
            return format("weight_map: %.80s: must be a file name", i->string);
        char *error = shard_open(s, folder, i->valuestring, &file);
        if (error)
            return error;
        if (!st_find(&s->file[file], i->string))
            return format("tensor %.80s: not in its shard %s", i->string, i->valuestring);
    }
    for (int f = 0; f < s->nfiles; f++)
        held += s->file[f].n;
    if (held == mapped)
        return NULL;
    for (int f = 0; f < s->nfiles; f++)
        for (int i = 0; i < s->file[f].n; i++)
            for (int g = 0; g < f; g++)
                if (st_find(&s->file[g], s->file[f].t[i].name))
                    return format("tensor %s: in two shards, %s and %s", s->file[f].t[i].name,
                                  s->file[g].path, s->file[f].path);
    return format("the shards hold %lld tensors, weight_map names %lld", (long long)held,
                  (long long)mapped);
}

/* Describes what a folder without safetensors contains instead. */
static char *other_weights(const char *folder)
{
    struct dirent **list;
    bool pickles = false, gguf = false, shards = false;
    int n = scandir(folder, &list, NULL, NULL);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        pickles = pickles || !fnmatch("pytorch_model*.bin", name, 0) || !fnmatch("*.pth", name, 0);
        gguf = gguf || !fnmatch("*.gguf", name, 0);
        shards = shards || !fnmatch("model-*-of-*.safetensors", name, 0);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    if (pickles)
        return format("%s: pickle files can run code and are not read; convert them once: python3 "
                      "-c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained("
                      "'%s', torch_dtype='auto').save_pretrained('%s')\"", folder, folder, folder);
    return format("%s: neither model.safetensors nor model.safetensors.index.json is there%s",
                  folder,
                  shards ? "; the index is missing: download it as well"
                  : gguf ? "; GGUF is not read: use the folder it was converted from" : "");
}

/* With model.safetensors present, the index must name no other file: it would be unclear which is
 * current. */
static char *index_of_one(StSet *s, const char *folder, const cJSON *map)
{
    (void)s, (void)folder;
    for (const cJSON *i = map ? map->child : NULL; i; i = i->next)
        if (!cJSON_IsString(i) || strcmp(i->valuestring, "model.safetensors"))
            return format("%.80s is in %.80s, but model.safetensors is there as well: remove the "
                          "one you do not want (other readers take model.safetensors)", i->string,
                          cJSON_IsString(i) ? i->valuestring : "no file");
    return NULL;
}

/* Reads the index. Returns NULL, or the message of `read` about the weight_map or of the file. */
static char *index_read(StSet *s, const char *folder, const char *index,
                        char *(*read)(StSet *s, const char *folder, const cJSON *map))
{
    size_t n;
    char *error = NULL, *text = file_read(index, 256u << 20, &n, &error);
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    char *inner = json ? read(s, folder, json_get(json, "weight_map")) : text ? error : NULL;
    if (inner) {
        error = format("%s: %s", index, inner);
        free(inner);
    }
    cJSON_Delete(json);
    free(text);
    return error;
}

char *st_set_open(StSet *s, const char *folder)
{
    char *one = format("%s/model.safetensors", folder), *error = NULL;
    char *index = format("%s/model.safetensors.index.json", folder);
    *s = (StSet){0};
    if (exists(one)) {
        error = exists(index) ? index_read(s, folder, index, index_of_one) : NULL;
        s->file = malloc(sizeof *s->file);
        if (!error)
            error = st_open(&s->file[0], one);
        s->nfiles = !error;
    } else if (exists(index)) {
        error = index_read(s, folder, index, index_open);
    } else {
        error = other_weights(folder);
    }
    free(one);
    free(index);
    if (error)
        st_set_close(s);
    return error;
}

void st_set_close(StSet *s)
{
    for (int i = 0; i < s->nfiles; i++)
        st_close(&s->file[i]);
    free(s->file);
    *s = (StSet){0};
}
