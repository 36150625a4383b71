/* model_parts.c -- arrays of a tensor that are divided over ranks.
 *
 * In:     the tensors of a model; the ranks.
 * Method: rank 0 broadcasts which elements it reads; every rank sends it those it holds, in the
 *         order in which rank 0 looks for them. */
#include "runtime/model/model_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/safetensors.h"
#include "runtime/model/absmax.h"
#include "runtime/model/nf4_weights.h"
#include "runtime/ranks/comm.h"

/* ---- what a rank holds ----------------------------------------------------------------------- */

/* Consecutive elements in memory that a rank holds, and which of the caller's values they are:
 * values[0], values[apart], ... */
typedef struct {
    char *at;                /* on that rank */
    ElementType type;
    int64_t n, apart;
    float *values;
    char **packed;           /* position in a list of the stored elements of all runs */
} OwnRun;

enum { BLOCK = 256 };

static float *floats(int64_t n)
{
    float *to = malloc((size_t)n * sizeof *to + 1);
    if (!to)
        die(EXIT_IO, "out of memory for %lld numbers", (long long)n);
    return to;
}

/* values[0], values[apart], ... = the n stored elements */
static void spread(const OwnRun *r, const char *from, int64_t n, float *values)
{
    const int64_t size = element_bytes(r->type);
    float block[BLOCK];
    if (r->apart == 1)
        st_to_float(values, from, element_dtype(r->type), (size_t)n);
    for (int64_t done = 0, k; r->apart != 1 && done < n; done += k) {
        k = n - done < BLOCK ? n - done : BLOCK;
        st_to_float(block, from + done * size, element_dtype(r->type), (size_t)k);
        for (int64_t i = 0; i < k; i++)
            values[(done + i) * r->apart] = block[i];
    }
}

/* The n stored elements = values[0], values[apart], ... */
static void collect(const OwnRun *r, char *to, int64_t n, const float *values)
{
    const int64_t size = element_bytes(r->type);
    float block[BLOCK];
    if (r->apart == 1)
        st_from_float(to, element_dtype(r->type), values, (size_t)n);
    for (int64_t done = 0, k; r->apart != 1 && done < n; done += k) {
        k = n - done < BLOCK ? n - done : BLOCK;
        for (int64_t i = 0; i < k; i++)
            block[i] = values[(done + i) * r->apart];
        st_from_float(to + done * size, element_dtype(r->type), block, (size_t)k);
    }
}

static void read_run(const OwnRun *r)
{
    const int64_t size = element_bytes(r->type), most = ARRAY_PIECE / size;
    for (int64_t done = 0, k; done < r->n; done += k) {
        k = r->n - done < most ? r->n - done : most;
        spread(r, array_view(r->at + done * size, k * size), k, r->values + done * r->apart);
    }
}

static void write_run(const OwnRun *r)
{
    const int64_t size = element_bytes(r->type), most = ARRAY_PIECE / size;
    for (int64_t done = 0, k; done < r->n; done += k) {
        k = r->n - done < most ? r->n - done : most;
        char *at = r->at + done * size, *room = array_room(at, k * size);
        collect(r, room, k, r->values + done * r->apart);
        array_write(at, room, k * size);
    }
}

/* Appends the run's elements to the list. */
static void pack_run(const OwnRun *r)
{
    const int64_t bytes = r->n * element_bytes(r->type);
    array_read(*r->packed, r->at, bytes);
    *r->packed += bytes;
}

/* Takes the run's values from the list. */
static void unpack_run(const OwnRun *r)
{
    spread(r, *r->packed, r->n, r->values);
    *r->packed += r->n * element_bytes(r->type);
}

static void count_run(const OwnRun *r)
{
    *r->packed += r->n * element_bytes(r->type);
}

/* Elements of a tensor that one rank holds: n from `begin` on. */
typedef struct {
    const Tensor *t;
    Array array;
    ElementOrder order;
    int64_t begin, n;
    int rank;
} Range;

/* Calls each() with the held ones of n consecutive elements in memory, the first of which is
 * `element` elements after the start of the undivided array. */
static void own_run(const Range *of, int64_t element, OwnRun r, void (*each)(const OwnRun *r))
{
    const Array a = of->array;
    const int64_t stride = of->t->stride, slot = stride ? element / stride : 0,
                  first = element - slot * stride, low = of->rank * a.part, high = low + a.part;
    const int64_t begin = first > low ? first : low,
                  end = first + r.n < high ? first + r.n : high;
    if (begin >= end)
        return;
    r.at = (char *)a.at + (slot * a.part + begin - low) * element_bytes(a.type);
    r.type = a.type;
    r.n = end - begin;
    r.values += (begin - first) * r.apart;
    each(&r);
}

static void each_own(const Range *of, float *values, char **packed,
                     void (*each)(const OwnRun *r))
{
    const Tensor *t = of->t;
    const int64_t columns = t->rank > 1 ? t->shape[1] : model_elements(t),
                  pitch = t->pitch ? t->pitch : columns, rows = t->shape[0], begin = of->begin,
                  n = of->n;
    if (of->order == ORDER_MEMORY || !t->transposed) {
        const int64_t run = t->pitch ? columns : model_elements(t);
        for (int64_t e = begin, k; e < begin + n; e += k) {
            k = run - e % run < begin + n - e ? run - e % run : begin + n - e;
            own_run(of, t->first + e / run * pitch + e % run,
                    (OwnRun){.n = k, .apart = 1, .values = values + (e - begin), .packed = packed},
                    each);
        }
        return;
    }
    /* the file holds column by column: element c * rows + r is in row r, column c */
    for (int64_t r = 0; r < rows; r++) {
        const int64_t c = begin > r ? (begin - r + rows - 1) / rows : 0,
                      last = (begin + n - 1 - r) / rows;
        if (begin + n - 1 >= r && c <= last)
            own_run(of, t->first + r * pitch + c,
                    (OwnRun){.n = last - c + 1, .apart = rows,
                             .values = values + (c * rows + r - begin), .packed = packed}, each);
    }
}

void parts_own(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               float *to)
{
    memset(to, 0, sizeof *to * (size_t)n);
    each_own(&(Range){t, array, order, begin, n, world.rank}, to, NULL, read_run);
}

void parts_put(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               const float *from)
{
    each_own(&(Range){t, array, order, begin, n, world.rank}, (float *)(uintptr_t)from, NULL,
             write_run);
}

OwnElements parts_next(const Tensor *t, Array array, int64_t e)
{
    const int64_t elements = model_elements(t), run = t->pitch ? t->shape[1] : elements,
                  low = world.rank * array.part, high = low + array.part;
    for (int64_t k; e < elements; e += k) {
        const int64_t at = t->first + e / run * t->pitch + e % run,
                      slot = t->stride ? at / t->stride : 0, within = at - slot * t->stride;
        k = run - e % run;
        if (within >= low && within < high)
            return (OwnElements){e, high - within < k ? high - within : k,
                                 slot * array.part + within - low};
        if (within < low && low - within < k)
            k = low - within;
    }
    return (OwnElements){elements, 0, 0};
}

void parts_zero(const Tensor *t, Array array)
{
    const int64_t bytes = array.part * element_bytes(array.type),
                  slot = t->stride ? t->first / t->stride : 0;
    array_zero((char *)array.at + slot * bytes, bytes);
}

/* ---- weights that one rank updates ----------------------------------------------------------- */

/* Consecutive weights of a divided parameter that one rank updates; on that rank, their moments and
 * master weights begin at element `own` of its parts. */
typedef struct {
    const char *weight;      /* NULL: only the owner has them */
    int64_t n, own;
    int owner;
} UpdatedRun;

/* Returns the run that begins with element e of the tensor, in memory order. */
static UpdatedRun updated_run(const Tensor *t, int64_t e, int64_t most)
{
    const int64_t part = t->exp_avg.part, elements = model_elements(t),
                  run = t->pitch ? t->shape[1] : elements,
                  at = t->first + e / run * t->pitch + e % run,
                  slot = t->stride ? at / t->stride : 0, within = at - slot * t->stride,
                  left = part - within % part;
    UpdatedRun r = {.n = run - e % run, .own = slot * part + within % part,
                     .owner = (int)(within / part)};
    if (!t->weight.part || r.owner == world.rank)
        r.weight = (char *)t->weight.at +
                   (t->weight.part ? r.own : at) * element_bytes(t->weight.type);
    r.n = r.n < left ? r.n : left;
    r.n = r.n < most ? r.n : most;
    return r;
}

void parts_weights_crc(const Model *m, uint32_t *crc)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const int64_t size = element_bytes(t->weight.type);
        UpdatedRun r;
        const bool everywhere = t->exp_avg.part && !t->weight.part;
        for (int64_t e = 0; everywhere && e < model_elements(t); e += r.n) {
            r = updated_run(t, e, ARRAY_PIECE / size);
            crc[r.owner] = crc32c(crc[r.owner], array_view(r.weight, r.n * size),
                                  (size_t)(r.n * size));
        }
    }
}

/* Returns the number of n weights in memory that are not these values rounded. A NaN has many
 * forms and is found elsewhere. */
static int64_t unrounded(const char *weight, ElementType type, const float *value, int64_t n)
{
    const int64_t size = element_bytes(type);
    char rounded[BLOCK * sizeof *value];
    int64_t bad = 0;
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < BLOCK ? n - done : BLOCK;
        st_from_float(rounded, element_dtype(type), value + done, (size_t)k);
        if (memcmp(rounded, weight + done * size, (size_t)(k * size)) == 0)
            continue;
        for (int64_t i = 0; i < k; i++)
            bad += !isnan(value[done + i]) &&
                   memcmp(rounded + i * size, weight + (done + i) * size, (size_t)size) != 0;
    }
    return bad;
}

int64_t parts_unrounded(const Model *m)
{
    enum { PIECE = ARRAY_PIECE / sizeof(float) };
    float *value = floats(PIECE);
    int64_t bad = 0;
    for (int i = 0; i < m->ntensors && bad >= 0; i++) {
        const Tensor *t = &m->tensors[i];
        UpdatedRun r;
        for (int64_t e = 0; t->exp_avg.part && e < model_elements(t) && bad >= 0; e += r.n) {
            r = updated_run(t, e, PIECE);
            if (!t->master.part || t->master.type != EL_F32)
                bad = -1;
            else if (r.owner == world.rank) {
                array_read(value, (float *)t->master.at + r.own, r.n * (int64_t)sizeof *value);
                bad += unrounded(array_view(r.weight, r.n * element_bytes(t->weight.type)),
                                 t->weight.type, value, r.n);
            }
        }
    }
    free(value);
    return bad;
}

/* ---- checksums of bytes that ranks hold ------------------------------------------------------ */

void parts_crc_whole(PartsCrc *c, const void *bytes, int64_t n)
{
    c->whole = crc32c(c->whole, bytes, (size_t)n);
    if (c->own)
        c->own = crc32c_join(c->own, 0, (uint64_t)n);
}

void parts_crc_own(PartsCrc *c, const void *bytes, int64_t n)
{
    c->whole = crc32c_join(c->whole, 0, (uint64_t)n);
    c->own = crc32c(c->own, bytes, (size_t)n);
}

void parts_crc_others(PartsCrc *c, int64_t n)
{
    c->whole = crc32c_join(c->whole, 0, (uint64_t)n);
    c->own = crc32c_join(c->own, 0, (uint64_t)n);
}

void parts_crc_array(PartsCrc *c, const Tensor *t, Array array)
{
    const int64_t size = element_bytes(array.type), most = ARRAY_PIECE / size;
    for (int64_t e = 0; e < model_elements(t);) {
        const OwnElements own = parts_next(t, array, e);
        parts_crc_others(c, (own.e - e) * size);
        for (int64_t done = 0, k; done < own.n; done += k) {
            k = own.n - done < most ? own.n - done : most;
            const char *at = (const char *)array.at + (own.own + done) * size;
            parts_crc_own(c, array_view(at, k * size), k * size);
        }
        e = own.e + own.n;
    }
}

uint32_t parts_crc(const Model *m, const PartsCrc *c)
{
    uint32_t all = c->whole;
    for (int r = 0; r < world.size && parts_divided(m); r++) {
        uint32_t own = c->own;
        comm_broadcast(&own, sizeof own, r);
        all ^= own;
    }
    return all;
}

/* ---- what all ranks hold --------------------------------------------------------------------- */

/* From ABSMAX on: magnitudes of the blocks of moments, and codes of NF4. */
enum { ABSMAX = 6, ABSMAX_SQ, CODES, ARRAYS };

/* A read of rank 0; tensor -1: the last. */
typedef struct {
    int64_t tensor, array, order, begin, n;
} Read;

static const Model *gathered;        /* on rank 0 during a gather */

static Array array_of(const Tensor *t, int64_t i)
{
    const bool nf4 = t->weight.type == EL_NF4;
    const Array none = {0},
                all[ARRAYS] = {nf4 ? none : t->weight, t->master, t->exp_avg, t->exp_avg_sq,
                               t->grad, t->start, absmax_array(t->exp_avg),
                               absmax_array(t->exp_avg_sq), nf4 ? nf4_codes_array(t) : none};
    return all[i];
}

/* Returns the tensor whose elements the i-th array has. */
static Tensor tensor_of(const Tensor *t, int64_t i)
{
    return i < ABSMAX    ? *t
           : i == CODES  ? nf4_codes_tensor(t)
           : i == ABSMAX ? absmax_tensor(t, t->exp_avg) : absmax_tensor(t, t->exp_avg_sq);
}

bool parts_divided(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++)
        for (int k = 0; k < ARRAYS; k++)
            if (array_of(&m->tensors[i], k).part)
                return true;
    return false;
}

static int64_t *counts_of_ranks(void)
{
    int64_t *counts = calloc((size_t)world.size, sizeof *counts);
    if (!counts)
        die(EXIT_IO, "out of memory for a table of %d ranks", world.size);
    return counts;
}

/* Returns the floats in which so many bytes are sent. */
static int64_t words(int64_t bytes) { return (bytes + 3) / 4; }

bool parts_gather(const Model *m)
{
    if (world.rank == 0)
        gathered = m;
    if (world.rank == 0 || !parts_divided(m))
        return world.rank == 0;
    for (Read r;;) {
        comm_broadcast(&r, sizeof r, 0);
        if (r.tensor < 0)
            return false;
        const Tensor *t = &m->tensors[r.tensor], of = tensor_of(t, r.array);
        const Range own = {&of, array_of(t, r.array), (ElementOrder)r.order, r.begin, r.n,
                           world.rank};
        float *list = floats(r.n);
        char *end = (char *)list;
        each_own(&own, list, &end, pack_run);
        comm_gather(list, words(end - (char *)list), NULL, NULL);
        free(list);
    }
}

void parts_gathered(void)
{
    Read last = {.tensor = -1};
    if (parts_divided(gathered))
        comm_broadcast(&last, sizeof last, 0);
    gathered = NULL;
}

void parts_get(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               float *to)
{
    const Tensor *of = t->array_of ? t->array_of : t;
    REQUIRE(gathered && of >= gathered->tensors && of < gathered->tensors + gathered->ntensors);
    Read r = {.tensor = of - gathered->tensors, .order = order, .begin = begin, .n = n};
    while (r.array < ARRAYS - 1 && array_of(of, r.array).at != array.at)
        r.array++;
    comm_broadcast(&r, sizeof r, 0);
    Range range = {t, array, order, begin, n, 0};
    float *list = floats(n + world.size), *from = list;
    int64_t *counts = counts_of_ranks();
    each_own(&range, to, NULL, read_run);
    for (range.rank = 1; range.rank < world.size; range.rank++) {
        char *end = (char *)list;
        each_own(&range, to, &end, count_run);
        counts[range.rank] = words(end - (char *)list);
    }
    comm_gather(NULL, 0, list, counts);
    for (range.rank = 1; range.rank < world.size; from += counts[range.rank++]) {
        char *end = (char *)from;
        each_own(&range, to, &end, unpack_run);
    }
    free(list), free(counts);
}
