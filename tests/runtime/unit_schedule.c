/* unit_schedule.c -- rates against those recorded from transformers, and the formulas of the
 * others. */
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/run/schedule.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-12 * fabs(want) + 1e-19;
}

static void recorded(const cJSON *doc, const cJSON *row)
{
    const char *kind = json_get(row, "name")->valuestring;
    const cJSON *rise = json_get(json_get(row, "args"), "pct_start");
    if (strcmp(kind, "onecycle") == 0 && (!rise || rise->valuedouble != 0.1))
        return;                      /* PyTorch's default rises for 0.3 of the run, ours for 0.1 */
    const cJSON *floor_ = json_get(json_get(row, "args"), "min_lr"), *want;
    double lr = json_get(doc, "lr")->valuedouble, min_lr = floor_ ? floor_->valuedouble : 0.0;
    int64_t total = (int64_t)json_get(doc, "total")->valuedouble, s = 0;
    int64_t warmup = (int64_t)json_get(row, "warmup")->valuedouble;
    char *name = format("schedule %s, warm-up %d, as recorded", kind, (int)warmup);
    for (want = json_get(row, "lr")->child; want; want = want->next, s++) {
        double got = schedule_lr(kind, lr, min_lr, s, warmup, total);
        if (!near(got, want->valuedouble)) {
            check(false, name, "update %d: %.17g, want %.17g", (int)s, got, want->valuedouble);
            break;
        }
    }
    if (!want)
        check(s >= 100, name, "only %d values", (int)s);
    free(name);
}

void test_schedule(void)
{
    size_t n;
    char *error = NULL, *text = file_read("tests/train/ref/schedules.json", 1 << 24, &n, &error);
    cJSON *doc = text ? json_parse(text, n, &error) : NULL;
    check(doc != NULL, "schedules.json", "%s", error ? error : "");
    for (const cJSON *r = json_get(doc, "schedules") ? json_get(doc, "schedules")->child : NULL; r;
         r = r->next)
        recorded(doc, r);
    cJSON_Delete(doc);
    free(text);

    double b = 3e-4, m = 1e-5, pi = acos(-1.0);
    check(near(schedule_lr("anneal", b, m, 0, 0, 80), b)
          && near(schedule_lr("anneal", b, m, 20, 0, 80), m + (b - m) * (1 + cos(pi / 4)) / 2)
          && near(schedule_lr("anneal", b, m, 80, 0, 80), m), "schedule anneal", "%.17g",
          schedule_lr("anneal", b, m, 20, 0, 80));
    /* 490 windows x 5 epochs: first 4e-7, peak 1e-5 at update 244, last 4e-11. */
    int64_t N = 2450, rising = 1;
    for (int64_t s = 1; s < N; s++) {
        double a = schedule_lr("onecycle", 1e-5, 0, s - 1, 0, N);
        double c = schedule_lr("onecycle", 1e-5, 0, s, 0, N);
        rising = rising && (s <= 244 ? c > a : c < a);
    }
    check(near(schedule_lr("onecycle", 1e-5, 0, 0, 0, N), 4e-7)
          && near(schedule_lr("onecycle", 1e-5, 0, 244, 0, N), 1e-5)
          && fabs(schedule_lr("onecycle", 1e-5, 0, N - 1, 0, N) - 4e-11) < 1e-20 && rising,
          "schedule onecycle", "%g %g %g", schedule_lr("onecycle", 1e-5, 0, 0, 0, N),
          schedule_lr("onecycle", 1e-5, 0, 244, 0, N),
          schedule_lr("onecycle", 1e-5, 0, N - 1, 0, N));
    check(near(schedule_beta1("onecycle", 0.9, 0, N), 0.95)
          && near(schedule_beta1("onecycle", 0.9, 244, N), 0.85)
          && near(schedule_beta1("onecycle", 0.9, N - 1, N), 0.95)
          && schedule_beta1("cosine", 0.9, 7, N) == 0.9, "onecycle's beta1", "wrong value");
    check(schedule_warmup(0.05, "up", 2000) == 100 && schedule_warmup(0.051, "up", 10) == 1
          && schedule_warmup(0, "up", 10) == 0 && schedule_warmup(7, "up", 10) == 7,
          "warm-up as a share", "%d", (int)schedule_warmup(0.051, "up", 10));
    /* int(0.1 * N) of 879 updates an epoch and of a whole number of tens */
    check(schedule_warmup(0.1, "down", 3 * 879) == 263 && schedule_warmup(0.1, "up", 3 * 879) == 264
          && schedule_warmup(0.1, "down", 30) == 3 && schedule_warmup(7, "down", 10) == 7,
          "a share of warm-up, rounded down", "%d", (int)schedule_warmup(0.1, "down", 3 * 879));
    check(schedule_lr("cosine", 2e-4, 0, 0, 100, 2000) == 0.0
          && near(schedule_lr("cosine", 2e-4, 0, 100, 100, 2000), 2e-4)
          && near(schedule_lr("cosine", 2e-4, 0, 1050, 100, 2000), 1e-4)
          && schedule_lr("cosine", 2e-4, 0, 2000, 100, 2000) < 1e-18, "cosine at its known points",
          "wrong value");
    check(schedule_scaled("none", 2e-4, 4) == 2e-4 && near(schedule_scaled("sqrt", 2e-4, 4), 4e-4)
          && near(schedule_scaled("linear", 2e-4, 4), 8e-4), "lr scale on 4 ranks", "wrong value");
}
