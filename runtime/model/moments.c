/* moments.c -- loads moments from checkpoints, and converts them between fp32 and 8 bit.
 *
 * In:     the tensors of a model; an open optimizer.safetensors.
 * Method: to quantise, first the magnitudes of all tensors are read, since tensors share blocks;
 *         then the codes. */
#include "runtime/model/moments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/dynamic.h"
#include "runtime/model/absmax.h"
#include "runtime/model/hf_match.h"
#include "runtime/model/weights.h"

enum { PIECE = 1 << 18 };            /* elements */

const char *moments_type(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++)
        if (m->tensors[i].exp_avg.type == EL_U8)
            return "8bit";
    return "fp32";
}

int64_t moments_bytes(const Tensor *t)
{
    const Array moment[] = {t->exp_avg, t->exp_avg_sq};
    int64_t bytes = 0;
    for (int k = 0; k < 2; k++) {
        if (moment[k].at)
            bytes += element_bytes(moment[k].type) * model_elements(t);
        if (moment[k].at && moment[k].type == EL_U8)
            bytes += (int64_t)sizeof(float) * absmax_tensor(t, moment[k]).shape[0];
    }
    return bytes;
}

/* A moment of a tensor, in memory and in the file. */
typedef struct {
    const StFile *file;
    const StTensor *values, *absmax;     /* absmax NULL: fp32 in the file */
    const Tensor *t;
    Array array;
    DynamicMap map;
} Moment;

static const StTensor *find(const StFile *file, const Tensor *t, const char *suffix,
                            const char *more)
{
    char *name = format("%s.%s%s", t->name, suffix, more);
    const StTensor *from = st_find(file, name);
    if (!from)
        die(EXIT_MISMATCH, "%s: %s is missing", file->path, name);
    free(name);
    return from;
}

/* Finds the moment in the file and checks its shape. */
static Moment moment_of(const StFile *file, const Tensor *t, const char *suffix, Array array)
{
    Moment o = {.file = file, .values = find(file, t, suffix, ""), .t = t, .array = array,
                .map = strcmp(suffix, "exp_avg") ? DYNAMIC_OF_V : DYNAMIC_OF_M};
    const bool quantised = o.values->dtype == ST_U8;
    char *error = quantised ? hf_dims_check(file, o.values, t) : hf_shape_check(file, o.values, t);
    if (!error && quantised) {
        const Tensor blocks = absmax_tensor(t, array);
        o.absmax = find(file, t, suffix, ".absmax");
        error = hf_shape_check(file, o.absmax, &blocks);
    }
    if (error)
        die(EXIT_MISMATCH, "%s", error);
    return o;
}

static void *room(int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size + 1);
    if (!p)
        die(EXIT_IO, "out of memory for %lld values", (long long)n);
    return p;
}

/* Reads n values from `first` on, in file order. */
static void read_values(const StFile *file, const StTensor *from, int64_t first, int64_t n,
                        float *to)
{
    char *error = weights_values(file, from, first, n, to);
    if (error)
        die(EXIT_NO_CKPT, "%s", error);
}

/* Returns the number of the block, among those of the tensor, of element e of the file. */
static int64_t block_of(const Tensor *t, int64_t e)
{
    const int64_t columns = t->rank > 1 ? t->shape[1] : 1, rows = t->shape[0],
                  row = t->transposed ? e % rows : e / columns,
                  column = t->transposed ? e / rows : e % columns,
                  before = t->stride ? t->first % t->stride : t->first;
    return (before + row * (t->pitch ? t->pitch : columns) + column) / DYNAMIC_BLOCK -
           before / DYNAMIC_BLOCK;
}

/* Calls each() for the moment's values of the file, piece by piece, with the same `with`. */
static void each_piece(const Moment *o, float *absmax,
                       void (*each)(const Moment *o, float *absmax, int64_t first, int64_t n,
                                    float *values))
{
    const int64_t all = model_elements(o->t);
    float *values = room(all < PIECE ? all : PIECE, sizeof *values);
    for (int64_t done = 0, n; done < all; done += n) {
        n = all - done < PIECE ? all - done : PIECE;
        read_values(o->file, o->values, done, n, values);
        each(o, absmax, done, n, values);
    }
    free(values);
}

static void copy_piece(const Moment *o, float *absmax, int64_t first, int64_t n, float *values)
{
    (void)absmax;
    model_put(o->t, o->array, first, n, values);
}

static void dequantise_piece(const Moment *o, float *absmax, int64_t first, int64_t n,
                             float *values)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = dynamic_map[o->map][(int)values[i]] * absmax[block_of(o->t, first + i)];
    model_put(o->t, o->array, first, n, values);
}

static void raise_piece(const Moment *o, float *absmax, int64_t first, int64_t n, float *values)
{
    for (int64_t i = 0; i < n; i++) {
        float *most = &absmax[block_of(o->t, first + i)];
        const float size = fabsf(values[i]);
        if (!isfinite(size) || (o->map == DYNAMIC_OF_V && values[i] < 0))
            die(EXIT_DATA, "%s: damaged tensor %s: value %lld is %g, which a moment never is; "
                           "resume from another checkpoint", o->file->path, o->values->name,
                (long long)(first + i), (double)values[i]);
        *most = size > *most ? size : *most;
    }
}

static void quantise_piece(const Moment *o, float *absmax, int64_t first, int64_t n, float *values)
{
    const DynamicTables tables = dynamic_tables();
    for (int64_t i = 0; i < n; i++) {
        const float most = absmax[block_of(o->t, first + i)];
        values[i] = most > 0 ? (float)dynamic_code(values[i], most, o->map, tables.mid[o->map])
                             : 0;
    }
    model_put(o->t, o->array, first, n, values);
}

/* Reads the magnitudes of an 8-bit moment of the file; the caller frees. */
static float *file_absmax(const Moment *o)
{
    const int64_t n = st_elements(o->absmax);
    float *absmax = room(n, sizeof *absmax);
    read_values(o->file, o->absmax, 0, n, absmax);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(absmax[i]) || absmax[i] < 0)
            die(EXIT_DATA, "%s: damaged tensor %s: value %lld is %g, but a largest magnitude is "
                           "finite and not negative; resume from another checkpoint",
                o->file->path, o->absmax->name, (long long)i, (double)absmax[i]);
    return absmax;
}

/* Raises the magnitudes in memory to those of an fp32 moment of the file; without `raise`, sets
 * them to 0. */
static void read_absmax(const Moment *o, bool raise)
{
    const Tensor blocks = absmax_tensor(o->t, o->array);
    const Array array = absmax_array(o->array);
    float *absmax = room(blocks.shape[0], sizeof *absmax);
    memset(absmax, 0, (size_t)blocks.shape[0] * sizeof *absmax);
    if (raise) {
        model_get_own(&blocks, array, 0, blocks.shape[0], absmax);
        each_piece(o, absmax, raise_piece);
    }
    model_put(&blocks, array, 0, blocks.shape[0], absmax);
    free(absmax);
}

static void load(const Moment *o)
{
    const bool in_memory = o->array.type == EL_U8;
    const Tensor blocks = in_memory ? absmax_tensor(o->t, o->array) : (Tensor){0};
    float *absmax = NULL;
    if (o->absmax)
        absmax = file_absmax(o);
    if (o->absmax && in_memory)
        model_put(&blocks, absmax_array(o->array), 0, blocks.shape[0], absmax);
    if (!o->absmax && in_memory) {
        absmax = room(blocks.shape[0], sizeof *absmax);
        model_get_own(&blocks, absmax_array(o->array), 0, blocks.shape[0], absmax);
    }
    each_piece(o, absmax, in_memory == (o->absmax != NULL) ? copy_piece
                          : in_memory                      ? quantise_piece
                                                           : dequantise_piece);
    free(absmax);
}

void moments_load(const StFile *file, const Model *m, const char *suffix, int *used)
{
    Moment *o = room(m->ntensors, sizeof *o);
    int n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const Array array = strcmp(suffix, "exp_avg") ? t->exp_avg_sq : t->exp_avg;
        if (!array.at)
            continue;
        o[n] = moment_of(file, t, suffix, array);
        *used += 1 + (o[n].absmax != NULL);
        n++;
    }
    for (int raise = 0; raise < 2; raise++)
        for (int i = 0; i < n; i++)
            if (o[i].array.type == EL_U8 && !o[i].absmax)
                read_absmax(&o[i], raise);
    for (int i = 0; i < n; i++)
        load(&o[i]);
    free(o);
}
