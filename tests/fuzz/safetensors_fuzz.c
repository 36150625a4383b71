// link: base json crc32c safetensors safetensors_write -lcjson -lm
/* safetensors_fuzz.c -- header reader against a slow validator; what it accepts is written again.
 *
 * In:     two bytes that give the size of the data, then the header.
 * Method: the slow one works on cJSON's tree and marks every byte of data that a tensor covers. */
#define _GNU_SOURCE
#include "../../runtime/files/json.h"
#include "../../runtime/files/safetensors.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)

/* An integer from 0 to 2^63-1; those of more than 18 digits as UINT64_MAX. */
static bool size_of(const cJSON *item, uint64_t *value)
{
    *value = 0;
    if (!cJSON_IsNumber(item) || (item->type & JSON_FLOAT))
        return false;
    char text[32];
    snprintf(text, sizeof text, "%.0f", item->valuedouble);
    const char *digits = item->valuestring ? item->valuestring : text;
    if (item->valuestring ? *digits == '-' : signbit(item->valuedouble))     /* -0 too */
        return false;
    if (strlen(digits) > 18) {
        *value = UINT64_MAX;
        return strlen(digits) < 19 ||
            (strlen(digits) == 19 && strcmp(digits, "9223372036854775807") <= 0);
    }
    *value = strtoull(digits, NULL, 10);
    return true;
}

static bool slow_tensor(const cJSON *t, unsigned char *covered, uint64_t data)
{
    const cJSON *dtype = json_get(t, "dtype"), *shape = json_get(t, "shape");
    const cJSON *at = json_get(t, "data_offsets");
    int d = -1;
    for (int i = 0; cJSON_IsString(dtype) && i < ST_NDTYPES; i++)
        if (!strcmp(dtype->valuestring, st_dtype_name[i]))
            d = i;
    if (!cJSON_IsObject(t) || d < 0 || !cJSON_IsArray(shape) || !cJSON_IsArray(at))
        return false;
    if (cJSON_GetArraySize(shape) > ST_RANK || cJSON_GetArraySize(at) != 2)
        return false;
    unsigned __int128 bits = 1;
    for (const cJSON *i = shape->child; i; i = i->next) {
        uint64_t dim;
        if (!size_of(i, &dim))
            return false;
        bits *= dim;
        if (bits > UINT64_MAX)
            return false;
    }
    bits *= (unsigned)st_dtype_bits[d];
    uint64_t begin, end;
    if (bits > UINT64_MAX || bits % 8 || !size_of(at->child, &begin) ||
        !size_of(at->child->next, &end))
        return false;
    if (begin > end || end > data || end - begin != bits / 8)
        return false;
    for (uint64_t i = begin; i < end; i++)
        if (covered[i]++)
            return false;
    return true;
}

/* Empty tensors must begin where another one begins or ends, or at a border of the data. */
static bool slow_empty(const cJSON *root, uint64_t at, uint64_t data)
{
    if (at == 0 || at == data)
        return true;
    for (const cJSON *t = root->child; t; t = t->next) {
        uint64_t begin, end;
        const cJSON *o = json_get(t, "data_offsets");
        if (o && size_of(o->child, &begin) && size_of(o->child->next, &end) && begin != end &&
            begin == at)
            return true;
    }
    return false;
}

static bool slow_accepts(const cJSON *root, uint64_t data)
{
    unsigned char *covered = calloc(1, data + 1);
    bool fine = cJSON_IsObject(root);
    for (const cJSON *t = fine ? root->child : NULL; t && fine; t = t->next) {
        if (strcmp(t->string, "__metadata__")) {
            fine = slow_tensor(t, covered, data);
            continue;
        }
        fine = cJSON_IsObject(t);
        for (const cJSON *m = t->child; m && fine; m = m->next)
            fine = cJSON_IsString(m);
    }
    for (uint64_t i = 0; i < data && fine; i++)
        fine = covered[i];
    for (const cJSON *t = fine ? root->child : NULL; t && fine; t = t->next) {
        uint64_t begin, end;
        const cJSON *o = json_get(t, "data_offsets");
        if (strcmp(t->string, "__metadata__") && size_of(o->child, &begin) &&
            size_of(o->child->next, &end) && begin == end)
            fine = slow_empty(root, begin, data);
    }
    free(covered);
    return fine;
}

static void round_trip(const StFile *f)
{
    static char path[512];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/st_fuzz.%d", tmp ? tmp : "/tmp", (int)getpid());
    StWriter *w = st_writer("pt");
    StFile back;
    uint32_t crc;
    for (int i = f->n - 1; i >= 0; i--)
        WANT(!st_add(w, f->t[i].name, f->t[i].dtype, f->t[i].rank, f->t[i].shape));
    char zero[65536] = "", *error = st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++)
        error = st_write(w, st_planned(w, i)->name, zero,
                         st_planned(w, i)->end - st_planned(w, i)->begin);
    WANT(!error && !st_end(w, &crc) && !st_open(&back, path));
    WANT(back.n == f->n);
    for (int i = 0; i < f->n; i++) {
        const StTensor *a = &f->t[i], *b = st_find(&back, a->name);
        WANT(b && a->dtype == b->dtype && a->rank == b->rank &&
             a->end - a->begin == b->end - b->begin &&
             !memcmp(a->shape, b->shape, sizeof a->shape));
    }
    st_close(&back);
    st_free(w);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    if (size < 2)
        return 0;
    uint64_t data = (uint64_t)in[0] | (uint64_t)in[1] << 8;
    const char *header = (const char *)in + 2;
    size_t n = size - 2;
    StFile f;
    char *why, *error = st_header_parse(&f, header, n, 8 + n + data);
    cJSON *root = json_parse(header, n, &why);
    const bool marked = n >= 3 && !memcmp(header, "\xef\xbb\xbf", 3);       /* the format wants { first */
    bool slow = root && !marked && slow_accepts(root, data);
    if (slow == !!error)
        fprintf(stderr, "slow %d, fast: %s\n", slow, error ? error : "accepted");
    WANT(slow == !error);
    static unsigned turn;
    if (!error && turn++ % 64 == 0)      /* the writer syncs to disk: not every time */
        round_trip(&f);
    if (!error)
        st_close(&f);
    cJSON_Delete(root);
    free(why);
    free(error);
    return 0;
}
