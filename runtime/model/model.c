/* model.c -- the model's tensors: expansion, initialisation, checks, checksums.
 *
 * In:    the rows of tensors.h.
 * Keeps: initial values depend only on seed, tensor name and element; checksums only on names and
 *        values. */
#define _GNU_SOURCE
#include "runtime/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/philox.h"
#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/device.h"
#include "runtime/files/names.h"
#include "runtime/files/safetensors.h"
#include "runtime/model/absmax.h"
#include "runtime/model/model_parts.h"
#include "runtime/model/nf4_weights.h"
#include "runtime/model/normal.h"
#include "runtime/ranks/comm.h"
#include "runtime/split.h"

enum { PIECE = 1 << 18 };            /* elements per piece */

char *model_words(const Model *m, const char *fields)
{
    char *left = names_without(m->overrides ? m->overrides : "", fields),
         *recipe = m->recipe ? shell_word(m->recipe) : format("RECIPE"),
         *words = format("%s%s%s", recipe, *left ? " " : "", left);
    free(left), free(recipe);
    return words;
}

static const char peft_prefix[] = "base_model.model.";

const char *model_base_name(const char *name)
{
    const size_t n = sizeof peft_prefix - 1;
    return !strncmp(name, peft_prefix, n) ? name + n : name;
}

int64_t model_extra_vocab_rows(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++)
        if (m->tensors[i].extra_vocab_row)
            return m->tensors[i].shape[0];
    return 0;
}

const Tensor *model_need(const Model *m, const char *name)
{
    for (int whole = 0; whole < 2; whole++)
        for (int i = 0; i < m->ntensors; i++) {
            const char *own = m->tensors[i].name;
            if (!strcmp(whole ? model_base_name(own) : own, name))
                return &m->tensors[i];
        }
    die(EXIT_INTERNAL,
        "%s: the model has no tensor %s, which its own program asks for: this is a bug, please "
        "report it",
        m->recipe, name);
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
            t->nf4.absmax.first += l * t->nf4.absmax.stride;
            t->nf4.nested.first += l * t->nf4.nested.stride;
            t->nf4.offset.first += l * t->nf4.offset.stride;
            t->layers = 0;
        }
    }
    *ntensors = n;
    return list;
}

/* The file of a transposed tensor holds (in, out), memory (out, in): a range of the file's elements
 * is up to three rectangles in memory: part of a column, whole columns, part of a column. */
typedef struct {
    int64_t row, rows, col, cols;
} Part;

/* Length of a contiguous run in memory: a row, or the whole tensor. */
static int64_t run_of(const Tensor *t)
{
    return t->pitch ? t->shape[1] : model_elements(t);
}

static int64_t pitch_of(const Tensor *t)
{
    return t->pitch ? t->pitch : t->shape[1];
}

/* Returns the largest rectangle of at most one piece that starts at element e of the file and ends
 * before e + n. */
static Part part_at(const Tensor *t, int64_t e, int64_t n, int64_t size)
{
    int64_t out = t->shape[0], most = ARRAY_PIECE / size;
    Part p = { e % out, out - e % out, e / out, 1 };
    if (p.rows > n)
        p.rows = n;
    if (p.rows > most)
        p.rows = most;
    if (p.rows == out) {
        p.cols = n / out;
        if (p.cols > most / out)
            p.cols = most / out;
    }
    return p;
}

static void get_part(const Tensor *t, const char *from, ElementType type, Part p, float *to)
{
    int64_t size = element_bytes(type), stride = pitch_of(t) * size;
    from += p.row * stride + p.col * size;
    from = array_view_rows(from, p.rows, p.cols * size, &stride);
    char block[256 * sizeof(float)];
    for (int64_t c = 0; c < p.cols; c++)
        for (int64_t r = 0, k; r < p.rows; r += k, to += k) {
            k = p.rows - r < 256 ? p.rows - r : 256;
            for (int64_t i = 0; i < k; i++)
                memcpy(block + i * size, from + (r + i) * stride + c * size, (size_t)size);
            st_to_float(to, block, element_dtype(type), (size_t)k);
        }
}

static void put_part(const Tensor *t, char *to, ElementType type, Part p, const float *from)
{
    int64_t size = element_bytes(type), stride = pitch_of(t) * size, packed = stride;
    to += p.row * stride + p.col * size;
    char *room = array_room_rows(to, p.rows, p.cols * size, &packed);
    char block[256 * sizeof(float)];
    for (int64_t c = 0; c < p.cols; c++)
        for (int64_t r = 0, k; r < p.rows; r += k, from += k) {
            k = p.rows - r < 256 ? p.rows - r : 256;
            st_from_float(block, element_dtype(type), from, (size_t)k);
            for (int64_t i = 0; i < k; i++)
                memcpy(room + (r + i) * packed + c * size, block + i * size, (size_t)size);
        }
    array_write_rows(to, stride, room, packed, p.rows, p.cols * size);
}

/* Returns elements from `begin` in memory order, and in *n how many one view holds: part of a run,
 * or whole runs if the view packs them. */
static const char *view(const Tensor *t, Array array, int64_t begin, int64_t *n)
{
    const int64_t size = element_bytes(array.type);
    int64_t run = run_of(t), col = begin % run, most = ARRAY_PIECE / size, rows = 1;
    int64_t width = run - col < *n ? run - col : *n, stride = t->pitch * size;
    width = width < most ? width : most;
    if (t->pitch && width == run)
        rows = (*n < most ? *n : most) / run;
    const char *at = (const char *)array.at + (t->first + begin / run * t->pitch + col) * size;
    const char *p = array_view_rows(at, rows, width * size, &stride);
    *n = stride == width * size ? rows * width : width;
    return p;
}

/* Reads n elements in memory order. */
static void get_runs(const Tensor *t, Array array, int64_t begin, int64_t n, float *to)
{
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done;
        const char *p = view(t, array, begin + done, &k);
        st_to_float(to + done, p, element_dtype(array.type), (size_t)k);
    }
}

static float *floats(int64_t n)
{
    float *to = malloc((size_t)n * sizeof *to + 1);
    if (!to)
        die(EXIT_IO, "out of memory for %lld numbers", (long long)n);
    return to;
}

/* ---- bf16 weights and their remainders: runtime/split.h -------------------------------------- */

void model_join(float *weight, const float *remainder, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &weight[i], sizeof bits);
        bits = split_join(bits, (int16_t)remainder[i]);
        memcpy(&weight[i], &bits, sizeof bits);
    }
}

static void split(const float *value, float *weight, float *remainder, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &value[i], sizeof bits);
        bits = split_value(bits);
        const uint32_t high = split_bf16(bits);
        memcpy(&weight[i], &high, sizeof high);
        remainder[i] = split_remainder(bits);
    }
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* Reads n elements in memory order: of a divided array what this rank has, 0 for the rest, or, of
 * divided remainders, whole weights without them. */
void model_get_own(const Tensor *t, Array array, int64_t begin, int64_t n, float *to)
{
    if (array.type == EL_REMAINDER) {
        float *remainder = floats(n);
        model_get_own(t, t->weight, begin, n, to);
        model_get_own(t, model_remainder(t), begin, n, remainder);
        model_join(to, remainder, n);
        free(remainder);
    } else if (array.type == EL_NF4)
        t->nf4.access->get(t, begin, n, true, to);
    else if (array.part)
        parts_own(t, array, ORDER_MEMORY, begin, n, to);
    else
        get_runs(t, array, begin, n, to);
}

static void put_runs(const Tensor *t, Array array, int64_t begin, int64_t n, const float *from)
{
    REQUIRE(array.type != EL_NF4);
    if (array.part) {
        parts_put(t, array, ORDER_MEMORY, begin, n, from);
        return;
    }
    int64_t size = element_bytes(array.type), run = run_of(t), most = ARRAY_PIECE / size;
    for (int64_t done = 0, rows, width; done < n; done += rows * width) {
        int64_t at = begin + done, col = at % run, left = n - done < most ? n - done : most;
        int64_t stride = t->pitch * size, packed = stride;
        width = run - col < left ? run - col : left;
        rows = t->pitch && width == run ? left / run : 1;
        char *to = (char *)array.at + (t->first + at / run * t->pitch + col) * size;
        char *room = array_room_rows(to, rows, width * size, &packed);
        for (int64_t r = 0; r < rows; r++)
            st_from_float(room + r * packed, element_dtype(array.type), from + done + r * width,
                          (size_t)width);
        array_write_rows(to, stride, room, packed, rows, width * size);
    }
}

/* Reads stored elements in file order: of EL_REMAINDER the remainders alone. */
static void get_stored(const Tensor *t, Array array, int64_t begin, int64_t n, float *to)
{
    const int64_t size = element_bytes(array.type);
    if (array.type == EL_NF4)
        t->nf4.access->get(t, begin, n, false, to);
    else if (array.part)
        parts_get(t, array, ORDER_FILE, begin, n, to);
    else if (!t->transposed)
        get_runs(t, array, begin, n, to);
    else
        for (int64_t done = 0; done < n;) {
            const Part p = part_at(t, begin + done, n - done, size);
            get_part(t, (const char *)array.at + t->first * size, array.type, p, to + done);
            done += p.rows * p.cols;
        }
}

void model_get(const Tensor *t, Array array, int64_t begin, int64_t n, float *to)
{
    REQUIRE(begin >= 0 && n >= 0 && begin + n <= model_elements(t));
    if (array.type != EL_REMAINDER) {
        get_stored(t, array, begin, n, to);
        return;
    }
    float *remainder = floats(n);
    get_stored(t, t->weight, begin, n, to);
    get_stored(t, model_remainder(t), begin, n, remainder);
    model_join(to, remainder, n);
    free(remainder);
}

void model_get_everywhere(const Model *m, const Tensor *t, Array array, int64_t begin, int64_t n,
                          float *to)
{
    if (!array.part) {
        model_get(t, array, begin, n, to);
        return;
    }
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        if (parts_gather(m)) {
            model_get(t, array, begin + done, k, to + done);
            parts_gathered();
        }
        comm_broadcast(to + done, sizeof *to * (size_t)k, 0);
    }
}

Array model_precise(const Tensor *t)
{
    return t->master.at ? t->master : t->weight;
}

bool model_has_nf4(const Model *m)
{
    bool some = false;
    for (int i = 0; i < m->ntensors; i++)
        some |= m->tensors[i].weight.type == EL_NF4;
    return some;
}

ElementType model_computes(const Tensor *t)
{
    return t->weight.type == EL_NF4 ? t->nf4.computes : t->weight.type;
}

bool model_all_zeros(const Tensor *t)
{
    enum { SOME = 1024 };
    const int64_t n = model_elements(t);
    const Array a = model_precise(t);
    bool zeros = true;
    for (int64_t at = 0; at < n && zeros; at += SOME) {
        float piece[SOME];
        const int64_t some = n - at < SOME ? n - at : SOME;
        model_get_own(t, a, at, some, piece);
        for (int64_t k = 0; k < some; k++)
            zeros = zeros && piece[k] == 0;
    }
    return a.part ? comm_max_int(!zeros) == 0 : zeros;
}

static void put_stored(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
                       const float *from)
{
    if (order == ORDER_MEMORY)
        put_runs(t, array, begin, n, from);
    else
        model_put(t, array, begin, n, from);
}

static void put_weights(const Tensor *t, ElementOrder order, int64_t begin, int64_t n,
                        const float *from)
{
    if (t->master.type == EL_REMAINDER) {
        float *weight = floats(n), *remainder = floats(n);
        split(from, weight, remainder, n);
        put_stored(t, t->weight, order, begin, n, weight);
        put_stored(t, model_remainder(t), order, begin, n, remainder);
        free(weight), free(remainder);
        return;
    }
    put_stored(t, t->weight, order, begin, n, from);
    if (t->master.at)
        put_stored(t, t->master, order, begin, n, from);
}

void model_put_weights(const Tensor *t, int64_t begin, int64_t n, const float *from)
{
    put_weights(t, ORDER_FILE, begin, n, from);
}

void model_put(const Tensor *t, Array array, int64_t begin, int64_t n, const float *from)
{
    REQUIRE(begin >= 0 && n >= 0 && begin + n <= model_elements(t) && array.type != EL_REMAINDER &&
            array.type != EL_NF4);
    if (array.part) {
        parts_put(t, array, ORDER_FILE, begin, n, from);
        return;
    }
    const int64_t size = element_bytes(array.type);
    char *to = (char *)array.at + t->first * size;
    if (!t->transposed)
        put_runs(t, array, begin, n, from);
    for (int64_t done = 0; t->transposed && done < n;) {
        Part p = part_at(t, begin + done, n - done, size);
        put_part(t, to, array.type, p, from + done);
        done += p.rows * p.cols;
    }
}

/* ---- rows ---- */

const Tensor *model_row_of(const Model *m, const Tensor *t)
{
    const char *base = model_base_name(t->name), *end = ".token_adapter.trainable_tokens_delta";
    size_t n = strlen(base), tail = strlen(end);
    if (!t->adapter || base == t->name || n < tail || strcmp(base + n - tail, end))
        return NULL;
    char *name = format("%.*s.weight", (int)(n - tail), base);
    const Tensor *of = model_need(m, name);
    free(name);
    return of;
}


void model_take_rows(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i], *of = model_row_of(m, t);
        if (!of)
            continue;
        const int64_t n = model_elements(t);
        float *row = floats(n);
        model_get_everywhere(m, of, of->weight, model_elements(of) - n, n, row);
        model_put_weights(t, 0, n, row);
        free(row);
    }
}

/* Sets row, of n values, to the mean of the first `rows` rows. */
static void mean_row(const Tensor *t, int64_t rows, int64_t n, float *row)
{
    double *sum = calloc((size_t)n, sizeof *sum);
    if (!sum)
        die(EXIT_IO, "out of memory for a row of %s", t->name);
    for (int64_t r = 0; r < rows; r++) {
        model_get(t, model_precise(t), r * n, n, row);
        for (int64_t k = 0; k < n; k++)
            sum[k] += row[k];
    }
    for (int64_t k = 0; k < n; k++)
        row[k] = (float)(sum[k] / (double)rows);
    free(sum);
}

void model_grow(const Model *m, const Tensor *t)
{
    const int64_t n = t->shape[1], rows = t->shape[0] - 1;
    const bool divided = model_precise(t).part;
    float *row = floats(n);
    if (!divided || parts_gather(m))
        mean_row(t, rows, n, row);
    if (divided && world.rank == 0)
        parts_gathered();
    if (divided)
        comm_broadcast(row, sizeof *row * (size_t)n, 0);
    model_put_weights(t, rows * n, n, row);
    free(row);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/* The words of NORMAL_PAIRS / 2 counters from quad on, which are 2 * NORMAL_PAIRS values: value 2 i
 * and 2 i + 1 come from u[i] and v[i]. */
static void draw_words(uint32_t *restrict u, uint32_t *restrict v, const uint32_t key[2],
                       uint64_t quad)
{
    const uint32_t key0 = key[0], key1 = key[1];
#pragma omp simd
    for (int i = 0; i < NORMAL_PAIRS / 2; i++) {
        const uint64_t counter = quad + (uint64_t)i;
        uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
#pragma GCC unroll 10
        for (uint32_t round = 0; round < 10; round++)
            PHILOX_ROUND(a, b, c, d, key0, key1, round);
        u[2 * i] = a, v[2 * i] = b, u[2 * i + 1] = c, v[2 * i + 1] = d;
    }
}

/* Between -bound and bound. */
static void uniform_block(float *restrict to, const uint32_t *restrict u,
                          const uint32_t *restrict v, double bound)
{
#pragma omp simd
    for (int i = 0; i < NORMAL_PAIRS; i++) {
        to[2 * i] = (float)(bound * (2 * normal_unit(u[i]) - 1));
        to[2 * i + 1] = (float)(bound * (2 * normal_unit(v[i]) - 1));
    }
}

/* Initialises elements begin .. begin+n-1 in memory order; begin is a multiple of 4. */
static void init_piece(const Tensor *t, uint64_t seed, int64_t begin, int64_t n, float *to)
{
    enum { VALUES = 2 * NORMAL_PAIRS };
    const uint64_t name = hash_name(t->name);
    const uint32_t key[2] = {(uint32_t)seed ^ (uint32_t)name,
                             (uint32_t)(seed >> 32) ^ (uint32_t)(name >> 32)};
    for (int64_t i = 0; i < n; i += VALUES) {
        const int64_t k = n - i < VALUES ? n - i : VALUES;
        float value[VALUES];
        uint32_t u[NORMAL_PAIRS], v[NORMAL_PAIRS];
        if (t->init == INIT_ONES || t->init == INIT_ZEROS) {
            for (int j = 0; j < VALUES; j++)
                value[j] = t->init == INIT_ONES;
        } else {
            draw_words(u, v, key, (uint64_t)(begin + i) / 4);
            (t->init == INIT_NORMAL ? normal_block : uniform_block)(value, u, v, t->init_arg);
        }
        memcpy(to + i, value, (size_t)k * sizeof(float));
    }
}

static void zero_array(const Tensor *t, Array a)
{
    const int64_t size = element_bytes(a.type);
    if (a.part)
        parts_zero(t, a);
    else if (a.at)
        array_zero((char *)a.at + t->first * size, model_elements(t) * size);
}

static void zero_moment(const Tensor *t, Array moment)
{
    const Tensor blocks = absmax_tensor(t, moment);
    zero_array(t, moment);
    zero_array(&blocks, absmax_array(moment));
}

static void init_weights(const Tensor *t, uint64_t seed)
{
    int64_t n = model_elements(t), pieces = (n + PIECE - 1) / PIECE;
    const Nf4Access *access = t->nf4.access;
    Nf4Writer *nf4 = access ? access->writer(t) : NULL;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t begin = p * PIECE, k = n - begin < PIECE ? n - begin : PIECE;
        float *value = malloc((size_t)k * sizeof *value);
        if (!value)
            die(EXIT_IO, "out of memory for %lld values", (long long)k);
        init_piece(t, seed, begin, k, value);
        if (nf4)
            access->put(nf4, begin, k, value);
        else
            put_weights(t, ORDER_MEMORY, begin, k, value);
        free(value);
    }
    if (nf4)
        access->finish(nf4);
}

void model_init_except(Model *m, uint64_t seed, const bool *except)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (!except || !except[i])
            init_weights(t, seed);
        zero_moment(t, t->exp_avg);
        zero_moment(t, t->exp_avg_sq);
    }
}

void model_init(Model *m, uint64_t seed)
{
    model_init_except(m, seed, NULL);
}

/* Copies this rank's part of the tensor's weights to start. */
static void keep_own(const Tensor *t)
{
    const int64_t size = element_bytes(t->start.type);
    OwnElements own = {0};
    while ((own = parts_next(t, t->weight, own.e + own.n)).n)
        for (int64_t done = 0, k; done < own.n; done += k) {
            k = own.n - done < PIECE ? own.n - done : PIECE;
            const int64_t at = (own.own + done) * size;
            array_write((char *)t->start.at + at,
                        array_view((const char *)t->weight.at + at, k * size), k * size);
        }
}

void model_keep_start(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const int64_t size = element_bytes(t->start.type),
                      n = t->start.at ? model_elements(t) : 0;
        if (t->start.at && t->pitch)
            die(EXIT_INTERNAL, "%s: rows of a trained tensor lie apart", t->name);
        if (t->start.at && (t->start.part != t->weight.part || t->start.type != t->weight.type))
            die(EXIT_INTERNAL, "%s: its initial weights are stored otherwise", t->name);
        if (t->start.part) {
            keep_own(t);
            continue;
        }
        for (int64_t done = 0, k; done < n; done += k) {
            k = n - done < PIECE ? n - done : PIECE;
            const int64_t at = (t->first + done) * size;
            array_write((char *)t->start.at + at,
                        array_view((const char *)t->weight.at + at, k * size), k * size);
        }
    }
}

/* Returns how many of the n elements from e on are NaN or infinite. */
static int64_t nonfinite(const Tensor *t, Array array, int64_t e, int64_t n)
{
    int64_t bad = 0;
    float *block = floats(n < PIECE ? n : PIECE);
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        model_get_own(t, array, e + done, k, block);
        for (int64_t j = 0; j < k; j++)
            bad += !isfinite(block[j]);
    }
    free(block);
    return bad;
}

int64_t model_nonfinite_here(const Tensor *t)
{
    const Array array = model_precise(t);
    OwnElements own = {0};
    int64_t bad = 0;
    if (!array.part)
        return world.rank == 0 ? nonfinite(t, array, 0, model_elements(t)) : 0;
    while ((own = parts_next(t, array, own.e + own.n)).n)
        bad += nonfinite(t, array, own.e, own.n);
    return bad;
}

int64_t model_nonfinite(const Model *m, const char **where)
{
    double bad = 0;
    int first = m->ntensors;
    for (int i = 0; i < m->ntensors; i++) {
        const int64_t found = model_nonfinite_here(&m->tensors[i]);
        bad += (double)found;
        first = found && i < first ? i : first;
    }
    comm_allreduce_double(&bad, 1);
    first = (int)-comm_max_int(-first);
    *where = first < m->ntensors ? m->tensors[first].name : NULL;
    return (int64_t)bad;
}

static int by_name(const void *a, const void *b)
{
    const Tensor *const *s = a, *const *t = b;
    return strcmp((*s)->name, (*t)->name);
}

/* Continues the checksum over the fp32 values of EL_REMAINDER, n from element e on. */
static void values_crc(PartsCrc *c, const Tensor *t, Array array, int64_t e, int64_t n)
{
    float *values = floats(n < PIECE ? n : PIECE);
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        model_get_own(t, array, e + done, k, values);
        (array.part ? parts_crc_own : parts_crc_whole)(c, values, k * (int64_t)sizeof *values);
    }
    free(values);
}

/* The same over all values; divided: those that this rank has. */
static void joined_crc(PartsCrc *c, const Tensor *t, Array array)
{
    const int64_t n = model_elements(t), size = sizeof(float);
    OwnElements own = {0};
    if (!array.part)
        values_crc(c, t, array, 0, n);
    for (int64_t e = 0; array.part && e < n; e = own.e + own.n) {
        own = parts_next(t, array, e);
        parts_crc_others(c, (own.e - e) * size);
        values_crc(c, t, array, own.e, own.n);
    }
}

/* Continues the checksum over a tensor's elements in one of its arrays, in memory order. */
static void array_crc(PartsCrc *c, const Tensor *t, Array array)
{
    const int64_t elements = model_elements(t);
    if (array.type == EL_NF4)
        t->nf4.access->crc(c, t);
    else if (array.type == EL_REMAINDER)
        joined_crc(c, t, array);
    else if (array.part)
        parts_crc_array(c, t, array);
    else
        for (int64_t done = 0, k; done < elements; done += k) {
            k = elements - done;
            const char *p = view(t, array, done, &k);
            parts_crc_whole(c, p, k * element_bytes(array.type));
        }
}

/* The checksum of names and values in name order. */
static PartsCrc sum(const Model *m, bool adapter_too)
{
    const Tensor **order = malloc(((size_t)m->ntensors + 1) * sizeof *order);
    if (!order)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    int n = 0;
    for (int i = 0; i < m->ntensors; i++)
        if (adapter_too || !(m->tensors[i].adapter || m->tensors[i].not_in_model))
            order[n++] = &m->tensors[i];
    qsort(order, (size_t)n, sizeof *order, by_name);
    PartsCrc c = {0};
    for (int i = 0; i < n; i++) {
        const Tensor *t = order[i];
        parts_crc_whole(&c, t->name, (int64_t)strlen(t->name) + 1);
        array_crc(&c, t, model_precise(t));
    }
    free(order);
    return c;
}

uint32_t model_crc(const Model *m)
{
    const PartsCrc c = world.rank == 0 || parts_divided(m) ? sum(m, true) : (PartsCrc){0};
    uint32_t crc = parts_crc(m, &c);
    comm_broadcast(&crc, sizeof crc, 0);
    return crc;
}

uint32_t model_base_crc(const Model *m, uint32_t *whole)
{
    const PartsCrc c = sum(m, false);
    *whole = c.whole;
    return parts_crc(m, &c);
}

uint32_t model_state_crc(const Model *m)
{
    PartsCrc c = {0};
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const bool split = t->master.type == EL_REMAINDER,
                   divided = t->exp_avg.part || t->weight.part;
        const Array state[] = { t->weight, split ? model_remainder(t) : t->master, t->exp_avg,
                                t->exp_avg_sq };
        for (int k = 0; t->trained && !divided && k < 4; k++) {
            const Tensor blocks = absmax_tensor(t, state[k]);
            if (state[k].at)
                array_crc(&c, t, state[k]);
            if (state[k].absmax)
                array_crc(&c, &blocks, absmax_array(state[k]));
        }
    }
    return c.whole;
}
