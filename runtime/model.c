/* model.c -- the model's tensors as the runtime sees them: list, first values, checks, sums.
 *
 * In:    the rows of tensors.h.
 * Keeps: values depend on seed, tensor name and element only; sums on names and values only. */
#define _GNU_SOURCE
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/cpu/philox.h"
#include "base.h"
#include "crc32c.h"
#include "safetensors.h"

enum { PIECE = 1 << 18 };            /* elements moved at a time */

static const StDtype st_type[] = { [EL_F32] = ST_F32, [EL_BF16] = ST_BF16, [EL_F16] = ST_F16 };
static const size_t type_bytes[] = { [EL_F32] = 4, [EL_BF16] = 2, [EL_F16] = 2 };

int64_t model_elements(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

const Tensor *model_find(const Model *m, const char *name)
{
    for (int i = 0; i < m->ntensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    return NULL;
}

Tensor *model_expand(const Tensor *rows, int nrows, int *ntensors)
{
    int n = 0;
    for (int i = 0; i < nrows; i++)
        n += rows[i].layers > 0 ? rows[i].layers : 1;
    Tensor *list = calloc((size_t)n, sizeof *list);
    if (n > 0 && !list)
        die(EXIT_IO, "out of memory for a list of %d tensors", n);
    Tensor *t = list;
    for (int i = 0; i < nrows; i++) {
        if (rows[i].layers == 0) {
            *t++ = rows[i];
            continue;
        }
        const char *hole = strstr(rows[i].name, "%d");
        if (!hole)
            die(EXIT_INTERNAL, "tensor %s of %d layers has no %%d", rows[i].name, rows[i].layers);
        for (int l = 0; l < rows[i].layers; l++, t++) {
            *t = rows[i];
            t->name = format("%.*s%d%s", (int)(hole - rows[i].name), rows[i].name, l, hole + 2);
            t->first = rows[i].first + l * rows[i].stride;
            t->layers = 0;
        }
    }
    *ntensors = n;
    return list;
}

/* Place in memory, counted in elements from t->first, of element e of the file. The file of a
 * transposed tensor holds (in, out), memory (out, in). */
static int64_t place(const Tensor *t, int64_t e)
{
    int64_t out = t->shape[0], in = t->shape[1];
    return e % out * in + e / out;
}

void model_get(const Tensor *t, const void *array, ElementType type, int64_t begin, int64_t n,
               float *to)
{
    size_t size = type_bytes[type];
    const char *from = (const char *)array + (size_t)t->first * size;
    if (!t->transposed) {
        st_to_float(to, from + (size_t)begin * size, st_type[type], (size_t)n);
        return;
    }
    char block[1024 * sizeof(float)];
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < 1024 ? n - done : 1024;
        for (int64_t i = 0; i < k; i++)
            memcpy(block + (size_t)i * size, from + (size_t)place(t, begin + done + i) * size, size);
        st_to_float(to + done, block, st_type[type], (size_t)k);
    }
}

void model_put(const Tensor *t, void *array, ElementType type, int64_t begin, int64_t n,
               const float *from)
{
    size_t size = type_bytes[type];
    char *to = (char *)array + (size_t)t->first * size;
    if (!t->transposed) {
        st_from_float(to + (size_t)begin * size, st_type[type], from, (size_t)n);
        return;
    }
    char block[1024 * sizeof(float)];
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < 1024 ? n - done : 1024;
        st_from_float(block, st_type[type], from + done, (size_t)k);
        for (int64_t i = 0; i < k; i++)
            memcpy(to + (size_t)place(t, begin + done + i) * size, block + (size_t)i * size, size);
    }
}

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/* In (0, 1). */
static double unit(uint32_t word)
{
    return ((double)word + 0.5) / 4294967296.0;
}

/* Four consecutive values of a tensor from the four words of one counter. Box, Muller (1958). */
static void draw(const Tensor *t, const uint32_t word[4], float to[4])
{
    for (int i = 0; i < 4; i += 2) {
        double u = unit(word[i]), v = unit(word[i + 1]);
        if (t->init == INIT_NORMAL) {
            double radius = t->init_arg * sqrt(-2 * log(u));
            to[i] = (float)(radius * cos(2 * M_PI * v));
            to[i + 1] = (float)(radius * sin(2 * M_PI * v));
        } else {
            to[i] = (float)(t->init_arg * (2 * u - 1));
            to[i + 1] = (float)(t->init_arg * (2 * v - 1));
        }
    }
}

/* Elements begin .. begin+n-1 in memory order; begin is a multiple of 4. */
static void init_piece(const Tensor *t, uint64_t seed, int64_t begin, int64_t n, float *to)
{
    uint64_t name = hash_name(t->name);
    uint32_t key[2] = { (uint32_t)seed ^ (uint32_t)name,
                        (uint32_t)(seed >> 32) ^ (uint32_t)(name >> 32) };
    for (int64_t i = 0; i < n; i += 4) {
        uint64_t quad = (uint64_t)(begin + i) / 4;
        float value[4] = { 0, 0, 0, 0 };
        if (t->init == INIT_ONES) {
            value[0] = value[1] = value[2] = value[3] = 1;
        } else if (t->init != INIT_ZEROS) {
            uint32_t word[4], counter[4] = { (uint32_t)quad, (uint32_t)(quad >> 32), 0, 0 };
            philox(counter, key, word);
            draw(t, word, value);
        }
        memcpy(to + i, value, (size_t)(n - i < 4 ? n - i : 4) * sizeof(float));
    }
}

void model_init(Model *m, uint64_t seed)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        int64_t n = model_elements(t), pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static)
        for (int64_t p = 0; p < pieces; p++) {
            float *value = malloc(PIECE * sizeof *value);
            if (!value)
                die(EXIT_IO, "out of memory for %d values", (int)PIECE);
            int64_t begin = p * PIECE, k = n - begin < PIECE ? n - begin : PIECE;
            init_piece(t, seed, begin, k, value);
            size_t at = (size_t)(t->first + begin);
            st_from_float((char *)t->weight + at * type_bytes[t->type], st_type[t->type], value,
                          (size_t)k);
            if (t->master)
                memcpy(t->master + at, value, (size_t)k * sizeof *value);
            free(value);
        }
    }
}

void model_round(Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (t->master)
            st_from_float((char *)t->weight + (size_t)t->first * type_bytes[t->type],
                          st_type[t->type], t->master + t->first, (size_t)model_elements(t));
    }
}

int64_t model_nonfinite(const Model *m, const char **where)
{
    int64_t bad = 0;
    *where = NULL;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const char *array = t->master ? (const char *)t->master : t->weight;
        ElementType type = t->master ? EL_F32 : t->type;
        int64_t n = model_elements(t);
        float block[4096];
        for (int64_t done = 0, k; done < n; done += k) {
            k = n - done < 4096 ? n - done : 4096;
            st_to_float(block, array + (size_t)(t->first + done) * type_bytes[type], st_type[type],
                        (size_t)k);
            for (int64_t j = 0; j < k; j++)
                bad += !isfinite(block[j]);
        }
        if (bad > 0 && !*where)
            *where = t->name;
    }
    return bad;
}

static int by_name(const void *a, const void *b)
{
    const Tensor *const *s = a, *const *t = b;
    return strcmp((*s)->name, (*t)->name);
}

static uint32_t sum(const Model *m, bool adapter_too)
{
    const Tensor **order = malloc(((size_t)m->ntensors + 1) * sizeof *order);
    if (!order)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    int n = 0;
    for (int i = 0; i < m->ntensors; i++)
        if (adapter_too || !m->tensors[i].adapter)
            order[n++] = &m->tensors[i];
    qsort(order, (size_t)n, sizeof *order, by_name);
    uint32_t crc = 0;
    for (int i = 0; i < n; i++) {
        const Tensor *t = order[i];
        const char *array = t->master ? (const char *)t->master : t->weight;
        size_t size = t->master ? sizeof(float) : type_bytes[t->type];
        crc = crc32c(crc, t->name, strlen(t->name) + 1);
        crc = crc32c(crc, array + (size_t)t->first * size, (size_t)model_elements(t) * size);
    }
    free(order);
    return crc;
}

uint32_t model_crc(const Model *m)
{
    return sum(m, true);
}

uint32_t model_base_crc(const Model *m)
{
    return sum(m, false);
}
