/* unit.c -- in-process tests of the thin runtime. argv[1]: a scratch folder. Run from the
 * repository root. */
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/device.h"
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int failures;

void check(bool good, const char *name, const char *why, ...)
{
    if (good) {
        printf("ok %s\n", name);
        return;
    }
    failures++;
    va_list ap;
    va_start(ap, why);
    printf("not ok %s: ", name);
    vprintf(why, ap);
    printf("\n");
    va_end(ap);
}

void unit_write_records(const char *path, int64_t records, const ColumnPlan *column, int columns,
                        const UnitArray *data, size_t arrays, const UnitMeta *meta, size_t metas)
{
    StWriter *w = st_writer(RECORDFILE_FORMAT);
    char *error = recordfile_plan(w, records, column, columns);
    for (size_t i = 0; i < metas && !error; i++)
        error = st_add_meta(w, meta[i].key, meta[i].value);
    error = error ? error : st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++)
        for (size_t k = 0; k < arrays && !error; k++)
            if (!strcmp(data[k].name, st_planned(w, i)->name))
                error = st_write(w, data[k].name, data[k].from,
                                 st_planned(w, i)->end - st_planned(w, i)->begin);
    error = error ? error : st_end(w, &(uint32_t){ 0 });
    check(!error, path, "%s", error ? error : "");
    st_free(w);
}

/* The bf16 nearest to f, ties to the even one, by trying the neighbours in exact arithmetic. */
static uint16_t nearest(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t down = (uint16_t)(u >> 16), up = (uint16_t)(down + 1);
    double below = fabs((double)f - (double)bf16_to_float(down)), above;
    float top = bf16_to_float(up);
    above = isinf(top) ? fabs(ldexp(1.0, 128) - fabs((double)f)) : fabs((double)f - (double)top);
    if (below != above)
        return below < above ? down : up;
    return down & 1 ? up : down;
}

static void *keeps(void *keeps)
{
    volatile float least = FLT_MIN, half = 0.5f;
    *(bool *)keeps = least * half > 0;
    return NULL;
}

/* Before other threads are made; this one is as before afterwards. */
static void test_device(void)
{
    bool before, here, there = true;
    pthread_t thread;
    fenv_t kept;
    fegetenv(&kept);
    keeps(&before);
    device_open("cpu");
    keeps(&here);
    if (!pthread_create(&thread, NULL, keeps, &there))
        pthread_join(thread, NULL);
    fesetenv(&kept);
    check(before && !here && !there,
          "what is below the least normal number counts as zero, in every thread",
          "kept before: %d, in this thread: %d, in another: %d", before, here, there);
}

void test_base(void)
{
    bool round = true, back = true;
    uint32_t u = 1, bad = 0;
    for (int i = 0; i < 3000000; i++) {
        float f;
        u = u * 1664525 + 1013904223;
        if (i % 3 == 0)
            u = (u & 0xffff0000u) | 0x8000;      /* exactly between two */
        memcpy(&f, &u, sizeof f);
        if (!isfinite(f))
            continue;
        if (float_to_bf16(f) != nearest(f))
            round = false, bad = u;
    }
    check(round, "bf16 rounds to nearest even", "bits %08x", bad);
    for (uint32_t b = 0; b < 65536; b++) {
        float f = bf16_to_float((uint16_t)b);
        back = back && (isnan(f) ? isnan(bf16_to_float(float_to_bf16(f)))
                                 : float_to_bf16(f) == b);
    }
    check(back, "every bf16 survives a round trip", "one does not");
    char *a = arena_alloc(5 << 20, "test"), *b = arena_alloc(3, "test");
    bool zero = true;
    for (int i = 0; i < 5 << 20; i++)
        zero = zero && !a[i];
    check(zero && (uintptr_t)a % (2 << 20) == 0 && (uintptr_t)b % 4096 == 0
          && arena_allocated() >= (5 << 20) + 3, "arenas are zero and aligned", "%p %p",
          (void *)a, (void *)b);
    a[(5 << 20) - 1] = b[4095] = 1;

    static const struct { const char *path, *hint; } paths[] = {
        { "Qwen/Qwen2.5-0.5B", "; if Qwen/Qwen2.5-0.5B is a name of the Hugging Face hub: hf download "
          "Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, then name Qwen2.5-0.5B" },
        { "a/b/tokenizer.json", "; if a/b is a name of the Hugging Face hub: hf download a/b "
          "--local-dir b, then name b/tokenizer.json" },
        { "https://huggingface.co/a/b", "; if a/b is a name of the Hugging Face hub: hf download a/b "
          "--local-dir b, then name b" },
        { "~/models/x", "; the shell did not expand ~: write $HOME/models/x" },
        { "tests/nothing", "" }, { "./x", "" }, { "../x", "" }, { "/a/b", "" }, { "a/b/c", "" },
        { "a", "" }, { "a/", "" }, { "/", "" }, { "", "" }, { "a b/c", "" }, { "a/b;c", "" },
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *hint = path_hint(paths[i].path), *name = format("hint for \"%s\"", paths[i].path);
        check(strcmp(hint, paths[i].hint) == 0, name, "%s", hint);
        free(hint), free(name);
    }
}

int main(int argc, char **argv)
{
    if (argc > 8 && strcmp(argv[1], "--open") == 0)
        return unit_open(argv);
    test_device();
    test_base();
    test_names();
    test_darkroom();
    test_launch();
    test_schedule();
    test_param_groups();
    test_data(argv[1]);
    test_steps(argv[1]);
    test_log(argv[1]);
    test_profile(argv[1]);
    test_events(argv[1]);
    test_sample();
    test_mask_draw();
    test_contexts();
    test_masked_batch();
    test_unmask_order();
    test_incontext(argv[1]);
    test_sha256();
    test_normal();
    test_nf4();
    test_record_cache(argv[1]);
    test_histories(argv[1]);
    test_plot(argv[1]);
    return failures != 0;
}
