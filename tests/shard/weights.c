/* weights.c -- weights that are divided over ranks, against the same model with whole arrays.
 *
 * In:    the number of ranks, a folder to write to.   Out: from rank 0, one line a check.
 * A value of two layers holds three tensors, one of them transposed; another holds two side by side; a third is in
 * NF4. Whole and divided arrays have the same strides, so that a rank's part is a range of bytes of the whole array. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/model_parts.h"
#include "runtime/model/nf4_weights.h"
#include "runtime/model/weights.h"
#include "runtime/nf4.h"
#include "runtime/ranks/comm.h"

enum { LAYERS = 2, COLUMNS = 100, WIDE = 150, NF4_ROWS = 24, NF4_COLUMNS = 64, EMBED = 30, HIDDEN = 64,
       NF4_N = NF4_ROWS * NF4_COLUMNS, ARRAYS = 16 };
typedef enum { FP32, BF16_NONE, BF16_FP32, BF16_REMAINDER, KINDS } Kind;
static const char *const kind_name[KINDS] = {"fp32", "bf16 without masters", "bf16 with fp32 masters",
                                             "bf16 with remainders"};
static const char *folder;
static int failed;

static void check(Kind kind, const char *name, bool good)
{
    good = comm_max_int(!good) == 0;
    if (world.rank == 0)
        printf(good ? "ok %s, %s\n" : "not ok %s, %s\n", kind_name[kind], name);
    fflush(stdout);
    failed |= !good;
}

static void must(char *error)
{
    if (error)
        die(EXIT_INTERNAL, "%s", error);
}

/* An array as allocated: slots of `stride` bytes, or of `part` bytes. */
typedef struct {
    char *at;
    int64_t slots, stride, part;
} Block;

typedef struct {
    Model model;
    Tensor tensor[32];
    Block block[ARRAYS];
    int blocks;
    bool divided;
    Kind kind;
} Weights;

static int64_t part_of(int64_t elements, int64_t unit)
{
    const int64_t units = (elements + unit - 1) / unit;
    return (units + world.size - 1) / world.size * unit;
}

/* bits: of an element */
static Array array_new(Weights *w, ElementType type, int bits, int64_t slots, int64_t part)
{
    Block b = {.slots = slots, .part = part * bits / 8, .stride = world.size * part * bits / 8};
    b.at = calloc(1, (size_t)(slots * (w->divided ? b.part : b.stride)));
    w->block[w->blocks++] = b;
    return (Array){.at = b.at, .type = type, .part = w->divided ? part : 0};
}

static ElementType type_of(Kind kind) { return kind == FP32 ? EL_F32 : EL_BF16; }

static void add(Weights *w, Tensor t)
{
    w->tensor[w->model.ntensors++] = t;
}

/* Layers of q (10 rows), k (4, transposed), v (7). */
static void add_trained(Weights *w)
{
    static const char *const name[LAYERS][3] = {{"q.0", "k.0", "v.0"}, {"q.1", "k.1", "v.1"}};
    static const int row[4] = {0, 10, 14, 21};
    const int64_t part = part_of(21 * COLUMNS, 256), stride = world.size * part;
    const ElementType type = type_of(w->kind);
    const Array weight = array_new(w, type, type == EL_F32 ? 32 : 16, LAYERS, part),
                start = array_new(w, type, type == EL_F32 ? 32 : 16, LAYERS, part),
                m = array_new(w, EL_F32, 32, LAYERS, part);
    Array master = {0};
    if (w->kind == BF16_FP32)
        master = array_new(w, EL_F32, 32, LAYERS, part);
    if (w->kind == BF16_REMAINDER)
        master = array_new(w, EL_REMAINDER, 16, LAYERS, part);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 3; i++)
            add(w, (Tensor){.name = name[l][i], .rank = 2, .shape = {row[i + 1] - row[i], COLUMNS},
                            .transposed = i == 1, .trained = true, .init = INIT_NORMAL, .init_arg = 1,
                            .first = l * stride + row[i] * COLUMNS, .stride = stride, .weight = weight,
                            .master = master, .exp_avg = m, .start = start});
}

static void add_frozen(Weights *w)
{
    const ElementType type = type_of(w->kind);
    const int bits = type == EL_F32 ? 32 : 16;
    const int64_t wide = part_of(12 * WIDE, 256), codes = part_of(NF4_N, 512), embed = part_of(EMBED * HIDDEN, 256);
    const Array side = array_new(w, type, bits, 1, wide), nf4 = array_new(w, EL_NF4, 4, LAYERS, codes),
                rows = array_new(w, type, bits, 1, embed);
    const Tensor frozen = {.rank = 2, .init = INIT_NORMAL, .init_arg = 1};
    for (int i = 0; i < 2; i++) {
        Tensor t = frozen;
        t.name = i ? "right" : "left", t.shape[0] = 12, t.shape[1] = i ? WIDE - COLUMNS : COLUMNS;
        t.pitch = WIDE, t.first = i * COLUMNS, t.stride = world.size * wide, t.weight = side;
        add(w, t);
    }
    Nf4Blocks *blocks = calloc(1, sizeof *blocks);
    *blocks = (Nf4Blocks){.access = &nf4_access, .computes = EL_BF16,
                          .absmax = {calloc(LAYERS, NF4_BLOCKS(NF4_N)), 0, 0},
                          .nested = {calloc(LAYERS, NF4_GROUPS(NF4_N) * sizeof(float)), 0, 0},
                          .offset = {calloc(LAYERS, sizeof(float)), 0, 0}};
    for (int l = 0; l < LAYERS; l++) {
        Tensor t = frozen;
        t.name = l ? "nf4.1" : "nf4.0", t.shape[0] = NF4_ROWS, t.shape[1] = NF4_COLUMNS;
        t.first = l * world.size * codes, t.stride = world.size * codes, t.weight = nf4, t.nf4 = *blocks;
        t.nf4.absmax.first = l * NF4_BLOCKS(NF4_N), t.nf4.nested.first = l * NF4_GROUPS(NF4_N);
        t.nf4.offset.first = l;
        add(w, t);
    }
    Tensor t = frozen;
    t.name = "embed.weight", t.shape[0] = EMBED, t.shape[1] = HIDDEN, t.extra_vocab_row = true;
    t.stride = world.size * embed, t.weight = rows;
    add(w, t);
}

static Weights *weights_new(Kind kind, bool divided)
{
    Weights *w = calloc(1, sizeof *w);
    w->kind = kind, w->divided = divided;
    w->model.tensors = w->tensor;
    add_trained(w);
    add_frozen(w);
    const Tensor small = {.rank = 2, .trained = true, .adapter = true, .init = INIT_NORMAL, .init_arg = 1,
                          .weight = {.type = EL_F32}};
    static const struct { const char *name; int rows, columns; } whole[] = {
        {"base_model.model.embed.token_adapter.trainable_tokens_delta", 1, HIDDEN}, {"a", 2, COLUMNS}, {"b", 10, 2}};
    for (int i = 0; i < 3; i++) {
        Tensor t = small;
        t.name = whole[i].name, t.shape[0] = whole[i].rows, t.shape[1] = whole[i].columns;
        t.weight.at = calloc((size_t)model_elements(&t), sizeof(float));
        add(w, t);
    }
    return w;
}

/* Each of this rank's parts has the bytes that the whole array has there. */
static bool same(const Weights *whole, const Weights *parts)
{
    bool good = whole->blocks == parts->blocks;
    for (int i = 0; i < whole->blocks; i++) {
        const Block *a = &whole->block[i], *b = &parts->block[i];
        for (int64_t l = 0; l < a->slots; l++)
            good = good && !memcmp(a->at + l * a->stride + world.rank * a->part, b->at + l * b->part, (size_t)b->part);
    }
    for (int i = 0; i < whole->model.ntensors; i++) {
        const Tensor *t = &whole->tensor[i], *u = &parts->tensor[i];
        const size_t bytes = (size_t)model_elements(t) * sizeof(float);
        good = good && (u->weight.part || !memcmp(t->weight.at, u->weight.at, bytes));
        for (Nf4Array k = NF4_ABSMAX; t->nf4.access && k < NF4_ARRAYS; k++) {
            const BlockArray *c = k == NF4_ABSMAX ? &t->nf4.absmax : k == NF4_NESTED ? &t->nf4.nested : &t->nf4.offset,
                             *d = k == NF4_ABSMAX ? &u->nf4.absmax : k == NF4_NESTED ? &u->nf4.nested : &u->nf4.offset;
            good = good && !memcmp(c->at, d->at, (size_t)t->nf4.access->bytes(t, k));
        }
    }
    return good;
}

static const Tensor *find(const Weights *w, const char *name)
{
    return model_need(&w->model, name);
}

/* Writes all tensors: in their own type, in fp32 from their most precise weights, with a product and a row added. */
static char *written(const Weights *w, const char *file)
{
    WeightsItem item[80];
    int n = 0;
    for (int i = 0; i < w->model.ntensors; i++) {
        const Tensor *t = &w->tensor[i];
        const bool merged = !strncmp(t->name, "q.", 2), grown = t->extra_vocab_row;
        item[n++] = (WeightsItem){.name = t->name, .dtype = element_dtype(model_computes(t)), .t = t,
                                  .array = t->weight};
        item[n++] = (WeightsItem){.name = format("%s.fp32", t->name), .dtype = ST_F32, .t = t,
                                  .array = model_precise(t)};
        if (t->start.at)
            item[n++] = (WeightsItem){.name = format("%s.start", t->name), .dtype = ST_F32, .t = t, .array = t->start};
        if (merged || grown)
            item[n++] = (WeightsItem){.name = format("%s.merged", t->name), .dtype = ST_BF16, .t = t,
                                      .array = model_precise(t), .scale = 2, .a = merged ? find(w, "a") : NULL,
                                      .b = merged ? find(w, "b") : NULL,
                                      .row = grown ? &w->tensor[w->model.ntensors - 3] : NULL};
    }
    if (parts_gather(&w->model)) {
        cJSON *manifest = manifest_new();
        must(weights_write(item, n, folder, file, manifest));
        cJSON_Delete(manifest);
        parts_gathered();
    }
    comm_barrier();
    return format("%s/%s", folder, file);
}

static bool same_files(const char *a, const char *b)
{
    char *error = NULL;
    size_t n, m;
    char *x = file_read(a, 1 << 24, &n, &error), *y = file_read(b, 1 << 24, &m, &error);
    must(error);
    const bool good = n == m && n > 10000 && !memcmp(x, y, n);
    free(x), free(y);
    return good;
}

/* Reads the fp32 values, or those in the type of the weights. */
static void read_all(Weights *w, const char *path, const char *suffix)
{
    StFile file;
    int64_t nonfinite = 0;
    must(st_open(&file, path));
    for (int i = 0; i < w->model.ntensors; i++) {
        char *name = format("%s%s", w->tensor[i].name, suffix);
        must(weights_read(&file, st_find(&file, name), &w->tensor[i], NULL, &nonfinite));
        free(name);
    }
    st_close(&file);
}

static bool same_crc(const Weights *whole, const Weights *parts)
{
    uint32_t a, b;
    const uint32_t base = model_base_crc(&whole->model, &a);
    return model_crc(&whole->model) == model_crc(&parts->model) && base == a && base != 0 &&
           base == model_base_crc(&parts->model, &b) && model_crc(&parts->model) != base;
}

/* The last element of a tensor that this rank has; NULL: it has none. */
static void *last_own(const Tensor *t, Array array)
{
    OwnElements own = {0}, last = {0};
    while ((own = parts_next(t, array, own.e + own.n)).n)
        last = own;
    return last.n ? (char *)array.at + (last.own + last.n - 1) * element_bytes(array.type) : NULL;
}

/* NaN in the last element of v.1, on the rank that has it. */
static bool finds_nan(const Weights *parts)
{
    const char *where = "";
    const Tensor *t = find(parts, "v.1");
    void *at = last_own(t, t->weight);
    const bool mine = comm_max_int(at ? world.rank : -1) == world.rank;
    const int64_t size = element_bytes(t->weight.type);
    uint32_t was = 0, nan = size == 4 ? 0x7fc00000 : 0x7fc0;
    bool good = model_nonfinite(&parts->model, &where) == 0 && !where;
    if (mine)
        memcpy(&was, at, (size_t)size), memcpy(at, &nan, (size_t)size);
    /* of fp32 masters the weight is a copy, which is not looked at */
    good = good && model_nonfinite(&parts->model, &where) == (parts->kind == BF16_FP32 ? 0 : 1) &&
           (parts->kind == BF16_FP32 || !strcmp(where, "v.1"));
    if (mine)
        memcpy(at, &was, (size_t)size);
    return good;
}

/* A NaN in a weight that each rank has whole next to its part of the remainders (memory.zero = 1, 2). */
static bool counts_once(void)
{
    const int64_t n = 21 * COLUMNS, part = part_of(n, 256);
    uint16_t *weight = calloc((size_t)n, sizeof *weight);
    for (int64_t i = 0; i < n; i++)
        weight[i] = i == n - 1 ? 0x7fc0 : 0x3f80;
    Tensor t = {.name = "w", .rank = 2, .shape = {21, COLUMNS}, .trained = true, .stride = world.size * part,
                .weight = {.at = weight, .type = EL_BF16},
                .master = {.at = calloc((size_t)part, 2), .type = EL_REMAINDER, .part = part}};
    const Model model = {.tensors = &t, .ntensors = 1};
    const char *where = "";
    const bool good = model_nonfinite(&model, &where) == 1 && where && !strcmp(where, "w");
    free(t.master.at), free(weight);
    return good;
}

/* A bit of a weight of rank 1 is not that of its fp32 master weight. */
static bool finds_unrounded(const Weights *parts)
{
    const bool known = parts->kind == BF16_FP32;
    const Tensor *t = find(parts, "q.0");
    uint16_t *at = parts_next(t, t->weight, 0).n ? last_own(t, t->weight) : NULL;
    uint32_t *crc = calloc((size_t)world.size, sizeof *crc);
    bool good = parts_unrounded(&parts->model) == (known ? 0 : -1);
    if (known && at)
        *at ^= 8;
    good = good && (!known || parts_unrounded(&parts->model) == (at ? 1 : 0));
    if (known && at)
        *at ^= 8;
    parts_weights_crc(&parts->model, crc);       /* shares have no twin */
    for (int r = 0; r < world.size; r++)
        good = good && crc[r] == 0;
    free(crc);
    return good;
}

/* Codes as they come from a file, in pieces that end anywhere. */
static bool codes(const Weights *whole)
{
    Weights *w[] = {weights_new(whole->kind, false), weights_new(whole->kind, true)};
    for (int l = 0; l < LAYERS; l++) {
        const Tensor *t = find(whole, l ? "nf4.1" : "nf4.0");
        const uint8_t *from = (uint8_t *)t->weight.at + t->first / 2;
        for (int i = 0; i < 2; i++)
            for (int64_t at = 0, n; at < NF4_N / 2; at += n) {
                n = NF4_N / 2 - at < 77 ? NF4_N / 2 - at : 77;
                t->nf4.access->write(find(w[i], t->name), NF4_CODES, at, n, from + at);
            }
    }
    return same(w[0], w[1]) && !memcmp(find(w[0], "nf4.0")->weight.at, find(whole, "nf4.0")->weight.at, NF4_N / 2);
}

static bool all_zeros(const Weights *parts)
{
    Weights *zero = weights_new(parts->kind, true);
    const Tensor *t = find(zero, "v.1");
    bool good = model_all_zeros(t) && !model_all_zeros(find(parts, "v.1"));
    const Array array = zero->kind == BF16_REMAINDER ? model_remainder(t) : model_precise(t);
    char *at = last_own(t, array);
    if (at)
        at[0] = 1;
    return good && !model_all_zeros(t);
}

static bool everywhere(const Weights *whole, const Weights *parts)
{
    bool good = true;
    for (int i = 0; i < whole->model.ntensors; i++) {
        const Tensor *t = &whole->tensor[i], *u = &parts->tensor[i];
        const int64_t n = model_elements(t);
        float *a = malloc(2 * (size_t)n * sizeof *a), *b = a + n;
        model_get(t, model_precise(t), 0, n, a);
        model_get_everywhere(&parts->model, u, model_precise(u), 0, n, b);
        good = good && !memcmp(a, b, (size_t)n * sizeof *a);
        free(a);
    }
    return good;
}

static void try_kind(Kind kind)
{
    Weights *both[] = {weights_new(kind, false), weights_new(kind, true)}, *whole = both[0], *parts = both[1];
    for (int i = 0; i < 2; i++) {
        model_init(&both[i]->model, 7);
        model_keep_start(&both[i]->model);
        model_take_rows(&both[i]->model);
    }
    check(kind, "of the seed", same(whole, parts));
    check(kind, "checksums", same_crc(whole, parts));
    check(kind, "all elements on every rank", everywhere(whole, parts));
    check(kind, "a NaN", finds_nan(parts));
    if (kind == BF16_REMAINDER)
        check(kind, "a NaN that every rank has", counts_once());
    check(kind, "zeros", all_zeros(parts));
    check(kind, "codes of NF4", codes(whole));
    check(kind, "weights that are not their master weights rounded", finds_unrounded(parts));
    char *file[] = {written(whole, "whole"), written(parts, "parts")};
    check(kind, "files", world.rank != 0 || same_files(file[0], file[1]));
    Weights *again[] = {weights_new(kind, false), weights_new(kind, true)};
    for (int i = 0; i < 2; i++) {
        read_all(again[i], file[0], ".fp32");
        model_keep_start(&again[i]->model);
    }
    check(kind, "read from fp32", same(again[0], again[1]));
    const int64_t crc = weights_read_crc();
    check(kind, "values that were read", crc && comm_max_int(crc) == -comm_max_int(-crc));
    check(kind, "read from fp32, checksums", same_crc(again[0], again[1]));
    for (int i = 0; i < 2; i++) {
        read_all(again[i], file[1], "");
        model_grow(&again[i]->model, find(again[i], "embed.weight"));
        model_take_rows(&again[i]->model);
    }
    check(kind, "read, with a row more", same(again[0], again[1]));
    check(kind, "read, checksums", same_crc(again[0], again[1]));
}

int main(int argc, char **argv)
{
    comm_init(atoi(argv[1]), "recipes/x.lua", argc, argv);
    folder = argv[2];
    for (Kind kind = 0; kind < KINDS; kind++)
        try_kind(kind);
    comm_finish();
    return failed;
}
