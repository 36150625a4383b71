/* weights.c -- tensor I/O between memory and safetensors files, in pieces.
 *
 * In:    arrays of a Tensor, open files.
 * Keeps: elements are in file order; one rounding on the way. */
#include "runtime/model/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/model/hf_match.h"
#include "runtime/model/nf4_weights.h"

enum { PIECE = 1 << 20 };            /* elements */

/* Returns the number of elements per piece: whole rows of the file if these are columns in
 * memory. */
static int64_t piece_of(const Tensor *t)
{
    int64_t row = t->transposed ? t->shape[0] : 1, n = model_elements(t);
    if (n <= PIECE)
        return n;
    return row <= PIECE ? PIECE / row * row : PIECE;
}

uint64_t weights_bytes(const WeightsItem *item)
{
    return (uint64_t)model_elements(item->t) * (uint64_t)st_dtype_bits[item->dtype] / 8;
}

double weights_seconds(const Model *m)
{
    return (4.0 * (double)m->parameters + 12.0 * (double)m->trained) / 50e6 + 120;
}

/* Returns the values of an adapter matrix in memory order; the caller frees. */
static float *adapter_values(const Tensor *t)
{
    int64_t n = model_elements(t);
    float *values = malloc(((size_t)n + 1) * sizeof *values);
    if (!values)
        die(EXIT_IO, "out of memory for %lld values of %s", (long long)n, t->name);
    model_get(t, model_precise(t), 0, n, values);
    return values;
}

/* values[] += scale * (b a)[] for the file's elements begin .. begin+n-1; sums over r in ascending
 * order. */
static void add_product(const WeightsItem *item, const float *a, const float *b, int64_t begin,
                        int64_t n, float *values)
{
    const Tensor *t = item->t;
    int64_t rank = item->a->shape[0], in = t->shape[1], width = t->transposed ? t->shape[0] : in;
    float *sum = malloc((size_t)width * sizeof *sum);
    if (!sum)
        die(EXIT_IO, "out of memory for a row of %lld values", (long long)width);
    for (int64_t e = begin; e < begin + n;) {
        int64_t row = e / width, col = e % width, k = width - col;
        if (k > begin + n - e)
            k = begin + n - e;
        memset(sum, 0, (size_t)k * sizeof *sum);
        for (int64_t r = 0; r < rank; r++)
            for (int64_t j = 0; j < k; j++)
                sum[j] += t->transposed ? b[(col + j) * rank + r] * a[r * in + row]
                                        : b[row * rank + r] * a[r * in + col + j];
        for (int64_t j = 0; j < k; j++)
            values[e - begin + j] += item->scale * sum[j];
        e += k;
    }
    free(sum);
}

/* Returns the item's row as t stores it; the caller frees. */
static float *row_values(const WeightsItem *item)
{
    const StDtype dtype = element_dtype(item->t->weight.type);
    const size_t n = (size_t)model_elements(item->row);
    float *values = adapter_values(item->row);
    void *rounded = malloc(n * sizeof *values + 1);
    if (!rounded)
        die(EXIT_IO, "out of memory for a row of %s", item->name);
    st_from_float(rounded, dtype, values, n);
    st_to_float(values, rounded, dtype, n);
    free(rounded);
    return values;
}

/* Of the file's elements begin .. begin+n-1, replaces those of the last row. */
static void put_row(const WeightsItem *item, const float *row, int64_t begin, int64_t n,
                    float *values)
{
    const Tensor *t = item->t;
    const int64_t out = t->shape[0], in = t->shape[1],
                  apart = t->transposed ? out : 1,       /* from one of its elements to the next */
                  first = t->transposed ? out - 1 : (out - 1) * in;
    for (int64_t j = 0; j < in; j++) {
        const int64_t e = first + j * apart - begin;
        if (e >= 0 && e < n)
            values[e] = row[j];
    }
}

/* Writes bytes as they are in memory. */
static char *write_bytes(StWriter *w, const char *name, const char *from, int64_t bytes)
{
    char *error = NULL;
    for (int64_t done = 0, k; done < bytes && !error; done += k) {
        k = bytes - done < ARRAY_PIECE ? bytes - done : ARRAY_PIECE;
        error = st_write(w, name, array_view(from + done, k), (uint64_t)k);
    }
    return error;
}

/* Calls each() for an item's values in file order, piece by piece, until it returns a message,
 * which is returned. */
static char *each_piece(const WeightsItem *item,
                        char *(*each)(void *with, const WeightsItem *item, int64_t first,
                                      const float *values, int64_t n),
                        void *with)
{
    int64_t n = model_elements(item->t), piece = piece_of(item->t);
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        die(EXIT_IO, "out of memory for %lld values", (long long)piece);
    float *a = item->a ? adapter_values(item->a) : NULL;
    float *b = item->a ? adapter_values(item->b) : NULL;
    float *row = item->row ? row_values(item) : NULL;
    char *error = NULL;
    for (int64_t done = 0, k; done < n && !error; done += k) {
        k = n - done < piece ? n - done : piece;
        model_get(item->t, item->array, done, k, values);
        if (row)
            put_row(item, row, done, k, values);
        if (item->a)
            add_product(item, a, b, done, k, values);
        error = each(with, item, done, values, k);
    }
    free(values);
    free(a);
    free(b);
    free(row);
    return error;
}

static char *write_piece(void *writer, const WeightsItem *item, int64_t first, const float *values,
                         int64_t n)
{
    (void)first;
    const size_t bytes = (size_t)n * (size_t)st_dtype_bits[item->dtype] / 8;
    void *rounded = malloc(bytes);
    if (!rounded)
        die(EXIT_IO, "out of memory for %lld values", (long long)n);
    st_from_float(rounded, item->dtype, values, (size_t)n);
    char *error = st_write(writer, item->name, rounded, bytes);
    free(rounded);
    return error;
}

static char *write_tensor(StWriter *w, const WeightsItem *item)
{
    if (item->array.type == EL_NF4 || element_dtype(item->array.type) != item->dtype ||
        item->t->transposed || item->t->pitch || item->array.part || item->a ||
        item->row)
        return each_piece(item, write_piece, w);
    int64_t size = st_dtype_bits[item->dtype] / 8;
    return write_bytes(w, item->name, (const char *)item->array.at + item->t->first * size,
                       model_elements(item->t) * size);
}

/* 65520, half a step above fp16's largest number, is the smallest value that rounds to Inf. */
static char *beyond_piece(void *with, const WeightsItem *item, int64_t first, const float *values,
                          int64_t n)
{
    (void)with;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i]) && fabsf(values[i]) >= 65520)
            return format("%s: value %lld is %.9g, the largest of fp16 is 65504", item->name,
                          (long long)(first + i), (double)values[i]);
    return NULL;
}

char *weights_beyond(const WeightsItem *item, int n)
{
    char *error = NULL;
    for (int i = 0; i < n && !error; i++)
        if (item[i].dtype == ST_F16 &&
            (item[i].array.type != EL_F16 || item[i].a || item[i].row))
            error = each_piece(&item[i], beyond_piece, NULL);
    return error;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const WeightsItem *)a)->name, ((const WeightsItem *)b)->name);
}

static char *write_all(StWriter *w, const WeightsItem *sorted, int n, const char *folder,
                       const char *file, cJSON *manifest)
{
    for (int i = 0; i < n; i++) {
        int64_t shape[ST_RANK];
        hf_file_shape(sorted[i].t, shape);
        char *error = st_add(w, sorted[i].name, sorted[i].dtype, sorted[i].t->rank, shape);
        if (error)
            return error;
    }
    char *path = folder_join(folder, file), *error = st_begin(w, path);
    free(path);
    for (int i = 0; i < n && !error; i++) {
        WeightsItem key = { .name = st_planned(w, i)->name };
        error = write_tensor(w, bsearch(&key, sorted, (size_t)n, sizeof key, by_name));
    }
    uint32_t crc;
    if (!error)
        error = st_end(w, &crc);
    if (error)
        return error;
    manifest_file(manifest, file, st_bytes(w), crc);
    for (int i = 0; i < n; i++)
        manifest_tensor(manifest, file, st_planned(w, i)->name, st_tensor_crc(w, i));
    return NULL;
}

char *weights_write(const WeightsItem *item, int n, const char *folder, const char *file,
                    cJSON *manifest)
{
    WeightsItem *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    if (!sorted)
        die(EXIT_IO, "out of memory for a list of %d tensors", n);
    memcpy(sorted, item, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    StWriter *w = st_writer("pt");
    char *error = write_all(w, sorted, n, folder, file, manifest);
    st_free(w);
    free(sorted);
    return error;
}

char *weights_values(const StFile *file, const StTensor *from, int64_t first, int64_t n, float *to)
{
    const size_t size = (size_t)st_dtype_bits[from->dtype] / 8;
    void *bytes = malloc((size_t)n * size + 1);
    if (!bytes)
        die(EXIT_IO, "out of memory for %lld values", (long long)n);
    char *error = st_read(file, from, bytes, (uint64_t)first * size, (uint64_t)n * size);
    if (!error)
        st_to_float(to, bytes, from->dtype, (size_t)n);
    free(bytes);
    return error;
}

/* Number of NaN and Inf among n values, at most PIECE; of doubles, as fp32. */
static int64_t count_nonfinite(const void *values, StDtype dtype, int64_t n)
{
    const uint16_t *half = values, exponent = dtype == ST_BF16 ? 0x7f80 : 0x7c00;
    const uint32_t *single = values, mask = 0x7f800000;
    const double *wide = values;
    int32_t bad = 0;
    if (dtype == ST_BF16 || dtype == ST_F16) {
#pragma omp simd reduction(+ : bad)
        for (int32_t i = 0; i < (int32_t)n; i++)
            bad += (half[i] & exponent) == exponent;
    } else if (dtype == ST_F32) {
#pragma omp simd reduction(+ : bad)
        for (int32_t i = 0; i < (int32_t)n; i++)
            bad += (single[i] & mask) == mask;
    } else
        for (int32_t i = 0; i < (int32_t)n; i++)
            bad += !isfinite((float)wide[i]);
    return bad;
}

char *weights_scan(const StFile *file, const StTensor *from, int64_t *nonfinite)
{
    const int64_t size = st_dtype_bits[from->dtype] / 8;
    const int64_t n = (int64_t)(from->end - from->begin) / size;
    void *values = malloc(PIECE * sizeof(double));
    if (!values)
        die(EXIT_IO, "out of memory for %d values", (int)PIECE);
    char *error = NULL;
    for (int64_t done = 0, k; done < n && !error; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        error = st_read(file, from, values, (uint64_t)(done * size), (uint64_t)(k * size));
        if (!error)
            *nonfinite += count_nonfinite(values, from->dtype, k);
    }
    free(values);
    return error;
}

static uint32_t read_crc;

void weights_has_read(const void *bytes, int64_t n)
{
    read_crc = crc32c(read_crc, bytes, (size_t)n);
}

uint32_t weights_read_crc(void) { return read_crc; }

char *weights_read(const StFile *file, const StTensor *from, const Tensor *t, const Array *to,
                   int64_t *nonfinite)
{
    int64_t n = model_elements(t);
    REQUIRE(from->end - from->begin == (uint64_t)n * st_dtype_bits[from->dtype] / 8);
    int64_t piece = piece_of(t);
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        die(EXIT_IO, "out of memory for %lld values", (long long)piece);
    const Nf4Access *access = t->nf4.access;
    Nf4Writer *nf4 = access ? access->writer(t) : NULL;
    char *error = NULL;
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < piece ? n - done : piece;
        error = weights_values(file, from, done, k, values);
        if (error)
            break;
        if ((to ? to : &t->weight)->part)
            weights_has_read(values, k * (int64_t)sizeof *values);
        for (int64_t i = 0; i < k; i++)
            *nonfinite += !isfinite(values[i]);
        if (nf4)
            access->put(nf4, done, k, values);
        else if (to)
            model_put(t, *to, done, k, values);
        else
            model_put_weights(t, done, k, values);
    }
    if (nf4)
        access->finish(nf4);
    free(values);
    return error;
}
