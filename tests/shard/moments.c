/* moments.c -- moments in files and in memory, fp32 or 8 bit, whole or divided over ranks.
 *
 * In:    a folder to write to.   Out: one line a check.
 * A parameter of two layers holds three tensors, whose borders lie within blocks; one is transposed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/model/absmax.h"
#include "runtime/model/moments.h"
#include "runtime/model/weights.h"
#include "tests/kernels/moments_ref.h"

enum { LAYERS = 2, COLUMNS = 100, ROWS = 21, N = ROWS * COLUMNS, PIECES = 3, TENSORS = LAYERS * PIECES,
       BLOCKS = (N + DYNAMIC_BLOCK - 1) / DYNAMIC_BLOCK, STRIDE = 2560, MOMENTS = 2 };
static const int first_row[PIECES + 1] = {0, 10, 14, ROWS};
static const char *const suffix[MOMENTS] = {"exp_avg", "exp_avg_sq"};
static char *folder;
static int failed;

static void check(const char *name, bool good)
{
    printf(good ? "ok moments, %s\n" : "not ok moments, %s\n", name);
    failed |= !good;
}

/* A model's moments; ranks > 1: this rank's part of them. */
typedef struct {
    Model model;
    Tensor tensor[TENSORS];
    char name[TENSORS][8];
    float *fp32[MOMENTS];            /* (LAYERS, STRIDE) */
    Moment8 as8[MOMENTS];
} Moments;

static Array array_of(const Moments *m, int k, bool quantised, int ranks)
{
    const int64_t part = ranks > 1 ? STRIDE / ranks : 0;
    if (!quantised)
        return (Array){.at = m->fp32[k], .type = EL_F32, .part = part};
    return (Array){.at = m->as8[k].code, .type = EL_U8, .part = part, .absmax = m->as8[k].absmax,
                   .blocks = ranks > 1 ? STRIDE / DYNAMIC_BLOCK : BLOCKS};
}

static Moments *moments_new(bool quantised, int ranks)
{
    Moments *m = calloc(1, sizeof *m);
    for (int k = 0; k < MOMENTS; k++) {
        m->fp32[k] = calloc(LAYERS * STRIDE, sizeof(float));
        m->as8[k].code = calloc(LAYERS * STRIDE, 1);
        m->as8[k].absmax = malloc(LAYERS * STRIDE * sizeof(float));
        for (int i = 0; i < LAYERS * STRIDE; i++)
            m->as8[k].absmax[i] = 1e30f;         /* of an earlier load: it does not count */
    }
    for (int i = 0; i < TENSORS; i++) {
        const int piece = i % PIECES, layer = i / PIECES;
        sprintf(m->name[i], "%c.%d", "qkv"[piece], layer);
        m->tensor[i] = (Tensor){
            .name = m->name[i], .rank = 2, .transposed = piece == 1, .trained = true,
            .shape = {first_row[piece + 1] - first_row[piece], COLUMNS},
            .first = first_row[piece] * COLUMNS + layer * STRIDE, .stride = STRIDE,
            .exp_avg = array_of(m, 0, quantised, ranks), .exp_avg_sq = array_of(m, 1, quantised, ranks)};
    }
    m->model.tensors = m->tensor;
    m->model.ntensors = TENSORS;
    return m;
}

static char *written(const Moments *m, const char *file)
{
    WeightsItem item[TENSORS * MOMENTS * 2];
    Tensor blocks[TENSORS * MOMENTS];
    int n = 0;
    for (int i = 0; i < TENSORS * MOMENTS; i++) {
        const Tensor *t = &m->tensor[i / MOMENTS];
        const char *end = suffix[i % MOMENTS];
        const Array a = i % MOMENTS ? t->exp_avg_sq : t->exp_avg;
        item[n++] = (WeightsItem){.name = format("%s.%s", t->name, end), .t = t, .array = a,
                                  .dtype = a.type == EL_U8 ? ST_U8 : ST_F32};
        if (a.type != EL_U8)
            continue;
        blocks[i] = absmax_tensor(t, a);
        item[n++] = (WeightsItem){.name = format("%s.%s.absmax", t->name, end), .t = &blocks[i],
                                  .array = absmax_array(a), .dtype = ST_F32};
    }
    cJSON *manifest = manifest_new();
    char *error = weights_write(item, n, folder, file, manifest);
    if (error)
        die(EXIT_IO, "%s", error);
    cJSON_Delete(manifest);
    return format("%s/%s", folder, file);
}

static int loaded(const Moments *m, const char *path)
{
    StFile file;
    int used = 0;
    char *error = st_open(&file, path);
    if (error)
        die(EXIT_IO, "%s", error);
    for (int k = 0; k < MOMENTS; k++)
        moments_load(&file, &m->model, suffix[k], &used);
    const int n = file.n;
    st_close(&file);
    return used == n;
}

/* Values of many sizes, some of them 0. */
static void fill(Moments *m)
{
    uint32_t x = 7;
    for (int k = 0; k < MOMENTS; k++)
        for (int i = 0; i < LAYERS * STRIDE; i++) {
            x = x * 1664525 + 1013904223;
            const float size = expf((float)(x >> 8 & 0xfff) / 409.6f - 8), sign = x & 1 ? 1 : -1;
            m->fp32[k][i] = i % STRIDE >= N || x >> 28 == 0 ? 0 : k ? size * size : sign * size;
        }
}

/* The exit code of a child that loads the file. */
static int code_of(const char *path, bool quantised)
{
    const pid_t child = fork();
    if (!child) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        loaded(moments_new(quantised, 1), path);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    folder = argv[argc - 1];
    setvbuf(stdout, NULL, _IONBF, 0);        /* children print nothing again */
    world.size = 1;
    Moments *wide = moments_new(false, 1), *small = moments_new(true, 1), *again = moments_new(true, 1),
            *back = moments_new(false, 1), *same = moments_new(false, 1);
    fill(wide);
    char *wide_file = written(wide, "wide");
    check("fp32 and fp32", loaded(same, wide_file) && !memcmp(same->fp32[0], wide->fp32[0], 4 * LAYERS * STRIDE) &&
                               !memcmp(same->fp32[1], wide->fp32[1], 4 * LAYERS * STRIDE));

    check("fp32 to 8 bit, tensors", loaded(small, wide_file));
    Moment8 want[MOMENTS];
    bool codes = true, magnitudes = true, values = true;
    for (int k = 0; k < MOMENTS; k++) {
        want[k] = (Moment8){calloc(LAYERS * STRIDE, 1), calloc(LAYERS * BLOCKS, sizeof(float))};
        for (int l = 0; l < LAYERS; l++)
            moment_quantise((Moment8){want[k].code + l * STRIDE, want[k].absmax + l * BLOCKS},
                            wide->fp32[k] + l * STRIDE, N, k, 1);
        codes = codes && !memcmp(small->as8[k].code, want[k].code, LAYERS * STRIDE);
        magnitudes = magnitudes &&
                     !memcmp(small->as8[k].absmax, want[k].absmax, LAYERS * BLOCKS * sizeof(float));
    }
    check("fp32 to 8 bit, codes", codes);
    check("fp32 to 8 bit, largest magnitudes", magnitudes);

    char *small_file = written(small, "small");
    bool equal = loaded(again, small_file);
    for (int k = 0; k < MOMENTS; k++)
        equal = equal && !memcmp(again->as8[k].code, want[k].code, LAYERS * STRIDE) &&
                !memcmp(again->as8[k].absmax, want[k].absmax, LAYERS * BLOCKS * sizeof(float));
    check("8 bit and 8 bit", equal);

    check("8 bit to fp32, tensors", loaded(back, small_file));
    for (int k = 0; k < MOMENTS; k++)
        for (int l = 0; l < LAYERS; l++) {
            float value[N];
            moment_dequantise(value, (Moment8){want[k].code + l * STRIDE, want[k].absmax + l * BLOCKS}, N, k);
            for (int i = 0; i < N; i++)
                values = values && value[i] == back->fp32[k][l * STRIDE + i];
        }
    check("8 bit to fp32, values", values);

    /* each of two ranks has half of every layer, from either file */
    bool parts = true;
    world.size = 2;
    for (int i = 0; i < 4; i++) {
        world.rank = i % 2;
        Moments *own = moments_new(true, 2);
        const int part = STRIDE / 2, blocks = part / DYNAMIC_BLOCK;
        parts = parts && loaded(own, i / 2 ? small_file : wide_file);
        for (int k = 0; k < MOMENTS; k++)
            for (int l = 0; l < LAYERS; l++) {
                const int from = world.rank * blocks, n = from + blocks < BLOCKS ? blocks : BLOCKS - from;
                parts = parts && !memcmp(own->as8[k].code + l * part, want[k].code + l * STRIDE + world.rank * part,
                                         (size_t)part) &&
                        !memcmp(own->as8[k].absmax + l * blocks, want[k].absmax + l * BLOCKS + from,
                                (size_t)n * sizeof(float));
            }
    }
    check("8 bit, divided", parts);
    world.rank = 0, world.size = 1;

    const float bad[] = {NAN, INFINITY, -1};
    bool stops = code_of(small_file, true) == 0 && code_of(small_file, false) == 0;
    for (int i = 0; i < 3; i++) {
        const float was = small->as8[1].absmax[BLOCKS - 1];
        small->as8[1].absmax[BLOCKS - 1] = bad[i];
        char *path = written(small, "bad");
        stops = stops && code_of(path, true) == EXIT_DATA && code_of(path, false) == EXIT_DATA;
        small->as8[1].absmax[BLOCKS - 1] = was;
    }
    check("magnitudes that are no magnitudes", stops);

    /* of fp32 moments nothing is quantised silently; v is not negative, m may be */
    stops = code_of(wide_file, true) == 0;
    for (int k = 0; k < MOMENTS; k++)
        for (int i = 0; i < 2 + k; i++) {
            const float was = wide->fp32[k][STRIDE];
            wide->fp32[k][STRIDE] = bad[i];
            char *path = written(wide, "bad");
            stops = stops && code_of(path, true) == EXIT_DATA;
            wide->fp32[k][STRIDE] = was;
        }
    check("fp32 moments that are none", stops);
    return failed;
}
