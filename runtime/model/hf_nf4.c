/* hf_nf4.c -- weights that bitsandbytes quantised to NF4, as they are in a model folder.
 *
 * In:    codes, absmax, nested, the two tables of values, JSON of the quantisation's state.
 * Keeps: nothing is written before all of it is checked. */
#include "runtime/model/hf_nf4.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/dynamic_map.h"
#include "runtime/files/json.h"
#include "runtime/model/nf4_weights.h"
#include "runtime/model/weights.h"
#include "runtime/nf4.h"

enum { STATE_MAX = 1 << 16 };        /* bytes of the state; bitsandbytes writes about 200 */

/* A key of the state and the only value that is supported. */
static const struct { const char *key, *text; double number; } state_keys[] = {
    {"quant_type", "nf4", 0},           {"blocksize", NULL, NF4_BLOCK},
    {"nested_blocksize", NULL, NF4_GROUP}, {"nested_dtype", "float32", 0},
};

static char *at_part(const HfWant *w, HfNf4Part part, const char *what)
{
    return format("%s: %s: %s", w->part_file[part]->path, w->part[part]->name, what);
}

/* Reads all bytes of a part; the caller frees them. */
static char *read_part(const HfWant *w, HfNf4Part part, void **bytes)
{
    const StTensor *t = w->part[part];
    const size_t n = (size_t)(t->end - t->begin);
    *bytes = malloc(n + 1);
    if (!*bytes)
        die(EXIT_IO, "out of memory for %zu bytes of %s", n, t->name);
    ((char *)*bytes)[n] = 0;
    return st_read(w->part_file[part], t, *bytes, 0, n);
}

/* Message if a table of values is not ours. */
static char *check_map(const HfWant *w, HfNf4Part part, const float *ours, size_t n, int *code)
{
    void *theirs;
    char *error = read_part(w, part, &theirs);
    if (!error && memcmp(theirs, ours, n * sizeof *ours)) {
        *code = EXIT_MISMATCH;
        error = at_part(w, part, "has other values than NF4 of bitsandbytes");
    }
    free(theirs);
    return error;
}

/* Message if the state is of another format; *offset: its number. */
static char *check_state(const HfWant *w, const cJSON *state, float *offset, int *code)
{
    *code = EXIT_MISMATCH;
    for (size_t i = 0; i < sizeof state_keys / sizeof *state_keys; i++) {
        const cJSON *value = json_get(state, state_keys[i].key);
        const char *text = cJSON_GetStringValue(value), *want = state_keys[i].text;
        if (want ? text && !strcmp(text, want)
                 : cJSON_IsNumber(value) && value->valuedouble == state_keys[i].number)
            continue;
        char *found = value ? cJSON_PrintUnformatted(value) : NULL;
        char *what = want ? format("%s is %.40s: supported is \"%s\"", state_keys[i].key,
                                   found ? found : "absent", want)
                          : format("%s is %.40s: supported is %g", state_keys[i].key,
                                   found ? found : "absent", state_keys[i].number);
        char *error = at_part(w, HF_NF4_STATE, what);
        free(found), free(what);
        return error;
    }
    const cJSON *shape = json_get(state, "shape"), *mean = json_get(state, "nested_offset");
    *code = EXIT_DATA;
    for (int i = 0; i < w->t->rank; i++) {
        const cJSON *dim = cJSON_GetArrayItem(shape, i);
        if (cJSON_GetArraySize(shape) != w->t->rank || !cJSON_IsNumber(dim) ||
            dim->valuedouble != (double)w->t->shape[i])
            return at_part(w, HF_NF4_STATE, "\"shape\" is not that of the weight");
    }
    *offset = cJSON_IsNumber(mean) ? (float)mean->valuedouble : NAN;
    if (!isfinite(*offset))
        return at_part(w, HF_NF4_STATE, "\"nested_offset\" must be a finite number");
    return NULL;
}

static char *read_state(const HfWant *w, float *offset, int *code)
{
    const StTensor *t = w->part[HF_NF4_STATE];
    if (t->end - t->begin > STATE_MAX)
        return at_part(w, HF_NF4_STATE, "is too long to be the state of a quantisation");
    void *text;
    char *why = NULL, *error = read_part(w, HF_NF4_STATE, &text);
    cJSON *state = error ? NULL : json_parse(text, (size_t)(t->end - t->begin), &why);
    if (!error && !cJSON_IsObject(state))
        error = at_part(w, HF_NF4_STATE, why ? why : "is no JSON object");
    if (!error)
        error = check_state(w, state, offset, code);
    free(why), free(text);
    cJSON_Delete(state);
    return error;
}

/* Copies the codes, a piece at a time. */
static char *copy_codes(const HfWant *w)
{
    enum { PIECE = 1 << 20 };
    const int64_t n = model_elements(w->t) / 2;
    char *bytes = malloc(PIECE), *error = NULL;
    if (!bytes)
        die(EXIT_IO, "out of memory for codes of %s", w->name);
    for (int64_t done = 0, k; done < n && !error; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        error = st_read(w->file, w->from, bytes, (uint64_t)done, (uint64_t)k);
        if (!error)
            w->t->nf4.access->write(w->t, NF4_CODES, done, k, bytes);
        if (!error && w->t->weight.part)
            weights_has_read(bytes, k);
    }
    free(bytes);
    return error;
}

char *hf_nf4_load(const HfWant *w, bool store, int *code)
{
    static const float values[16] = {NF4_VALUES}, map[256] = {DYNAMIC_SIGNED};
    const Nf4Access *access = w->t->nf4.access;
    const Tensor *t = w->t;
    float offset;
    void *absmax = NULL, *nested = NULL;
    *code = EXIT_DATA;
    char *error = read_state(w, &offset, code);
    if (!error)
        error = check_map(w, HF_NF4_MAP, values, 16, code);
    if (!error)
        error = check_map(w, HF_NF4_NESTED_MAP, map, 256, code);
    if (!error)
        error = read_part(w, HF_NF4_ABSMAX, &absmax);
    if (!error)
        error = read_part(w, HF_NF4_NESTED, &nested);
    for (int64_t i = 0; !error && i < access->bytes(t, NF4_NESTED) / (int64_t)sizeof(float); i++)
        if (!isfinite(((float *)nested)[i]))
            error = at_part(w, HF_NF4_NESTED, "holds NaN or Inf");
    if (!error && store) {
        access->write(t, NF4_ABSMAX, 0, access->bytes(t, NF4_ABSMAX), absmax);
        access->write(t, NF4_NESTED, 0, access->bytes(t, NF4_NESTED), nested);
        access->write(t, NF4_OFFSET, 0, sizeof offset, &offset);
        error = copy_codes(w);
    }
    free(absmax), free(nested);
    return error;
}
