/* schedule.c -- learning-rate schedules: rows of schedule.def evaluated at a step.
 *
 * Keeps: double arithmetic in the order of transformers, so that values agree to the last bit. */
#include "runtime/run/schedule.h"
#include "runtime/base.h"
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

typedef struct {
    const char *name;
    bool warms, floors;
    double (*factor)(double s, double W, double T, double m, double shift);
} Row;

static double half_cosine(double q)
{
    return 0.5 * (1.0 + cos(PI * q));
}

static double cosine_between(double a, double b, double q)
{
    return b + (a - b) * half_cosine(q);
}

/* Rises from `low` to `high` on updates [0, 0.1 T - 1], then falls to `end` on the last one. */
static double onecycle(double s, double T, double low, double high, double end)
{
    double peak = 0.1 * T - 1.0, last = T - 1.0;
    if (s <= peak)
        return cosine_between(low, high, peak > 0.0 ? s / peak : 1.0);
    return cosine_between(high, end, last > peak ? fmin(1.0, (s - peak) / (last - peak)) : 1.0);
}

#define SCHEDULE(name, warms, floors, expression)                                        \
    static double factor_##name(double s, double W, double T, double m, double shift)    \
    {                                                                                    \
        (void)s, (void)W, (void)T, (void)m, (void)shift;                                 \
        return expression;                                                               \
    }
#include "runtime/run/schedule.def"
#undef SCHEDULE

static const Row rows[] = {
#define SCHEDULE(name, warms, floors, expression) { #name, warms, floors, factor_##name },
#include "runtime/run/schedule.def"
#undef SCHEDULE
};

static const Row *row_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    die(EXIT_CONFIG, "--schedule: no such schedule: %s", name);
}

bool schedule_warms(const char *name) { return row_of(name)->warms; }
bool schedule_floors(const char *name) { return row_of(name)->floors; }
bool schedule_keeps_beta1(const char *name) { return strcmp(name, "onecycle"); }

double schedule_floor(const char *name, double min_lr)
{
    return min_lr == 0.0 && !strcmp(name, "polynomial") ? 1e-7 : min_lr;
}

double schedule_lr(const char *name, double lr, double min_lr, int64_t s, int64_t warmup,
                   int64_t total)
{
    const Row *r = row_of(name);
    if (lr == 0.0)
        return 0.0;
    if (r->warms && s < warmup)
        return lr * ((double)s / (double)(warmup > 1 ? warmup : 1));
    return lr * r->factor((double)s, (double)warmup, (double)total,
                          schedule_floor(name, min_lr) / lr,
                          warmup ? (double)warmup : 10000.0);
}

double schedule_beta1(const char *name, double beta1, int64_t s, int64_t total)
{
    if (schedule_keeps_beta1(name))
        return beta1;
    return onecycle((double)s, (double)total, 0.95, 0.85, 0.95);
}

int64_t schedule_warmup(double warmup, const char *round, int64_t total)
{
    double updates = warmup < 1.0 ? warmup * (double)total : warmup;
    return (int64_t)(!strcmp(round, "down") ? floor(updates) : ceil(updates));
}

double schedule_scaled(const char *lr_scale, double lr, int64_t ranks)
{
    if (!strcmp(lr_scale, "sqrt"))
        return lr * sqrt((double)ranks);
    return !strcmp(lr_scale, "linear") ? lr * (double)ranks : lr;
}
