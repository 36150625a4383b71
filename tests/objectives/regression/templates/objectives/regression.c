/* objective.c -- regression on the host: rows of floats from a safetensors file, validation.
//@ head
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"               // die(), the world of ranks
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/files/safetensors.h"
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/rank_agreement.h"          // what all ranks must have the same
#include "shape.h"                      // B, T, X, Y
#include "step.h"                       // io, model

//@ metrics

//@ if noise
static uint64_t seed;

//@ end
/* ---- records --------------------------------------------------------------------------------- */

/* Of all samples: features (n, T, X) and targets (n, T, Y), NaN: none. */
typedef struct {
    int64_t n;
    float *features, *targets;
} Records;

static Records records[2];       /* to train on, to validate on */

static Records *records_of(const Data *d)
{
    return &records[d->eval];
}

static float *read_floats(const StFile *f, const char *name, int64_t *n, int64_t columns)
{
    const StTensor *t = st_find(f, name);
    if (!t || t->dtype != ST_F32 || t->rank != 3 || t->shape[1] != T || t->shape[2] != columns ||
        (*n && t->shape[0] != *n))
        die(EXIT_MISMATCH, "%s: want %s as F32 of (samples, %d, %lld), of all tensors as many "
            "samples", f->path, name, T, (long long)columns);
    *n = t->shape[0];
    uint64_t bytes = t->end - t->begin;
    float *to = malloc((size_t)bytes + 1);
    char *error = to ? st_read(f, t, to, 0, bytes) : format("out of memory for %s", name);
    if (error)
        die(EXIT_DATA, "%s", error);
    return to;
}

static void open_records(Data *d, const char *path, uint64_t order, bool eval)
{
    StFile f;
    char *error = st_open(&f, path);
    if (error)
        die(EXIT_DATA, "%s", error);
    Records *r = &records[eval];
    r->features = read_floats(&f, "features", &r->n, X);
    r->targets = read_floats(&f, "targets", &r->n, Y);
    for (int64_t i = 0; i < r->n * T * X; i++)
        if (!isfinite(r->features[i]))
            die(EXIT_DATA, "%s: sample %lld has a feature that is NaN or Inf", path,
                (long long)(i / (T * X)));
    uint32_t crc = crc32c(0, r->features, sizeof(float) * (size_t)(r->n * T * X));
    crc = crc32c(crc, r->targets, sizeof(float) * (size_t)(r->n * T * Y));
    data_open_samples(d, format("floats:%08x", crc), path, r->n, T, &model, order, eval);
    st_close(&f);
}

void objective_open(const Flags *f, Data *train, Data *eval)
{
    bool trains = *f->data, evaluates = *f->eval_data;
//@ if noise
    seed = (uint64_t)f->seed;
//@ end
    if (trains)
        open_records(train, f->data, (uint64_t)f->seed, false);
    if (evaluates)
        open_records(eval, f->eval_data, (uint64_t)f->seed, true);
    ranks_check_data(trains ? train : NULL, evaluates ? eval : NULL);
}

/* Any weights read any floats. */
void objective_suit(const WeightFolders folder, const Data *own)
{
    (void)folder, (void)own;
}

/* ---- a step ---------------------------------------------------------------------------------- */

//@ if SET_head
static Data *trained;            /* whose steps were filled last */
//@ end
static int64_t counted[2];       /* targets of all ranks, of even and odd steps */

/* Where the inputs of a micro-batch stand. */
static Batch batch_at(int64_t micro)
{
    return (Batch){
//@ batch
    };
}

static void set_counts(int64_t step, int64_t targets)
{
    counted[step % 2] = targets;
    *io.scale = targets ? (float)(1.0 / (double)targets) : 0;
}

static int64_t count(const float *targets, int64_t n)
{
    int64_t known = 0;
    for (int64_t i = 0; i < n; i++)
        known += !isnan(targets[i]);
    return known;
}

/* The samples of a step; malloc'ed. -1: none, at the end of a validation. */
static int64_t *samples_of(Data *d, int64_t step)
{
    int64_t *sample = malloc(sizeof *sample * (size_t)d->G);
    if (!sample)
        die(EXIT_INTERNAL, "out of memory for the samples of a step");
    data_samples(d, step, sample, d->G);
    return sample;
}

static void fill_micro(const Data *d, const int64_t *sample, int64_t step, int64_t micro)
{
    const Records *r = records_of(d);
    Batch to = batch_at(micro);
    int64_t first = data_sample0(d, step, micro);
    for (int64_t b = 0; b < B; b++) {
        int64_t i = sample[first + b];
        for (int64_t k = 0; k < T * X; k++)
            to.features[b * T * X + k] = i < 0 ? 0 : r->features[i * T * X + k];
        for (int64_t k = 0; k < T * Y; k++)
            to.targets[b * T * Y + k] = i < 0 ? NAN : r->targets[i * T * Y + k];
    }
//@ if noise
    data_noise(io.noise[micro], seed, step, first);
//@ end
}

void objective_fill(Data *d, int64_t step)
{
    int64_t *sample = samples_of(d, step), targets = 0;
//@ if SET_head
    trained = d;
//@ end
    for (int64_t g = 0; g < d->G; g++)
        targets += count(records_of(d)->targets + sample[g] * T * Y, T * Y);
    set_counts(step, targets);
    for (int64_t micro = 0; micro < model.accum; micro++)
        fill_micro(d, sample, step, micro);
    free(sample);
}

void objective_fill_any(void)
{
    set_counts(0, objective_work() * Y);
    for (int64_t micro = 0; micro < model.accum; micro++) {
        Batch to = batch_at(micro);
        for (int64_t i = 0; i < B * T * X; i++)
            to.features[i] = (float)(i % 7) - 3;
        for (int64_t i = 0; i < B * T * Y; i++)
            to.targets[i] = (float)(i % 3);
//@ if noise
        data_noise(io.noise[micro], seed, 0, micro * B);
//@ end
    }
}

int64_t objective_work(void)
{
    return B * T * model.accum * model.ranks;
}

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const bool tells = world.rank == 0 && micro == 0;
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_targets] = tells ? (double)counted[step % 2] : 0;
    sum[STEP_late] = sum[STEP_late_targets] = 0;
    sum[STEP_places] = tells ? (double)objective_work() : 0;
}

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches; b++) {
        int64_t *sample = samples_of(d, b), samples = data_rows(d, b, 0);
        fill_micro(d, sample, b, 0);
        free(sample);
        step_eval();
        step_wait();
        double part[EVAL_METRICS] = {0};
        part[EVAL_loss] = *io.loss[0];
        part[EVAL_samples] = (double)samples;
        part[EVAL_targets] = (double)count(io.targets[0], B * T * Y);
        part[EVAL_places] = (double)(samples * T);
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

//@ if SET_head
/* ---- the head by itself ---------------------------------------------------------------------- */

enum { EVERY = 2, LATE = 2 };    /* steps; samples of an update, the first of the step's */

/* Rank r has sample r, r + ranks ...; rows beyond have no targets. */
static bool updated(int64_t step, int64_t total, double *sum)
{
    if ((step + 1) % EVERY)
        return false;
    const Records *r = &records[0];
    Batch to = batch_at(0);
    int64_t *sample = samples_of(trained, step), known = 0;
    for (int64_t i = 0; i < LATE; i++)
        known += count(r->targets + sample[i] * T * Y, T * Y);
    for (int64_t b = 0; b < B; b++) {
        int64_t i = world.rank + b * model.ranks;
        for (int64_t k = 0; k < T * X; k++)
            to.features[b * T * X + k] = r->features[sample[i < LATE ? i : 0] * T * X + k];
        for (int64_t k = 0; k < T * Y; k++)
            to.targets[b * T * Y + k] = i < LATE ? r->targets[sample[i] * T * Y + k] : NAN;
    }
    free(sample);
    *io.scale_head = known ? (float)(1.0 / (double)known) : 0;
    param_group_begin(SET_head, step / EVERY, total / EVERY);
    step_late();
    step_wait();
    sum[STEP_late] = LATE, sum[STEP_late_targets] = (double)known;
    return true;
}

//@ end
/* ---- files of its own, finished weights ------------------------------------------------------ */

static double stop_loss;


/* Writes over the inputs of a step. */
static double loss_of_any(void)
{
    objective_fill_any();
    step_eval();
    step_wait();
    return *io.loss[0];
}

//@ if upper_scale
/* Rows of the samples from `first` on. */
static void fill_rows(float *features, float *to, int64_t first, int64_t n)
{
    const Records *r = &records[0];
    memcpy(features, r->features + first * T * X, sizeof(float) * (size_t)(n * T * X));
    memcpy(to, r->targets + first * T * Y, sizeof(float) * (size_t)(n * T * Y));
}

/* Of samples 0 to 3; the others are 5 to 10. */
static void say_slopes(void)
{
    int64_t known = count(records[0].targets + 5 * T * Y, 6 * T * Y);
    for (int64_t m = 0; m < model.accum; m++) {
        int64_t micro = world.rank * model.accum + m;
        Batch to = batch_at(m);
        fill_rows(to.features, to.targets, micro * B, B);
        fill_rows(to.upper_features, to.upper_targets, 5 + micro * META, META);
    }
    *io.scale = 0.125f;
    *io.upper_scale = 1 / (float)known;
    step_upper();
    step_wait();
    note("slopes of the first: %.9g %.9g", io.jvp[0][0], io.jvp[0][1]);
}

//@ end
/* It wants the weights of the start every time. */
static bool loaded(const Flags *f, const WeightFolders folder, bool start)
{
//@ if upper_scale
    if (start)
        say_slopes();
//@ end
    note("weights of %s: %.9g", start ? "the start" : folder[0], loss_of_any());
    stop_loss = f->stop_loss;
    return !start;
}

static char *enough(const double *eval)
{
    if (eval[EVAL_loss] >= stop_loss)
        return NULL;
    return format("the validation's loss is %.4f (--stop-loss %g)", eval[EVAL_loss], stop_loss);
}

/* Of whole epochs and of the best; of step 8, wherever it is. */
static char *name(const Epochs *course, int64_t step, bool best)
{
    const EpochRow *last = epochs_at(course, step);
    if (!last)
        return step == 8 ? format("epochs/step_8") : NULL;
    return last->ends_epoch || best ? format("epochs/%s_%lld", last->ends_epoch ? "epoch" : "best",
                                             (long long)last->step) : NULL;
}

static bool has_column(const Metric *m)
{
    return m->tag && m->kind != METRIC_COUNT;
}

static void put_names(FILE *to, const char *before, const Metric *row, int n)
{
    for (int i = 0; i < n; i++)
        if (has_column(&row[i]))
            fprintf(to, ",%s%s", before, row[i].name);
}

static void put_values(FILE *to, const Metric *row, int n, const double *x)
{
    for (int i = 0; i < n; i++)
        if (has_column(&row[i]))
            fprintf(to, isfinite(x[i]) ? ",%.9g" : ",", x[i]);
}

/* The rows as CSV: epoch (fractional), step, the metrics that records keep. */
static char *csv_of(const Epochs *c)
{
    const Metrics *m = c->metrics;
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    fprintf(to, "epoch,step");
    put_names(to, "", m->step, m->nstep);
    put_names(to, "eval_", m->eval, m->neval);
    fputc('\n', to);
    for (int64_t i = 0; i < c->n; i++) {
        const EpochRow *r = &c->row[i];
        fprintf(to, "%.9g,%lld", (double)r->step / (double)c->per_epoch, (long long)r->step);
        put_values(to, m->step, m->nstep, r->step_value);
        put_values(to, m->eval, m->neval, r->eval_value);
        fputc('\n', to);
    }
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    return text;
}

static char *named(const Flags *f, const char *path, const Epochs *course)
{
    char *table = csv_of(course), *file = format("%s.csv", strrchr(path, '/') + 1),
         *folder = folder_join(f->out, "epochs"), *error = folder_replace_text(folder, file, table);
    free(table), free(file), free(folder);
    return error;
}

/* A line an epoch: steps done, mean of its training losses, that of the validation at its end. */
static char *write_epochs(const char *folder, void *with)
{
    const Epochs *course = with;
    char *text = format("%s", "");
    for (int64_t i = 0; i < course->n; i++) {
        const EpochRow *r = &course->row[i];
        if (!r->ends_epoch)
            continue;
        char *longer = format("%s%lld %lld %.9g %.9g\n", text, (long long)r->epoch,
                              (long long)r->step, r->step_value[STEP_loss], r->eval_value[EVAL_loss]);
        free(text);
        text = longer;
    }
    char *error = folder_write_text(folder, "epochs", text, NULL);
    free(text);
    return error;
}

static char *write_own(const Flags *f, const WeightFolders folder, const Epochs *course)
{
    (void)folder;
    loss_of_any();
    if (world.rank != 0)
        return NULL;
    char *path = folder_join(f->out, "regression"),
         *error = folder_replace(path, write_epochs, (void *)(uintptr_t)course);
    free(path);
    return error;
}

static void finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    (void)f, (void)folder, (void)last;
    note("finished weights: %.9g", loss_of_any());
}

static const char *const files[] = {"regression", "epochs", NULL};
const ObjectiveHooks objective_hooks = {
//@ if SET_head
    .updated = updated,
//@ end
    .loaded = loaded, .wants_start = true, .enough = enough, .write = write_own, .name = name, .named = named,
    .files = files, .log = "logs/@_training_%Y%m%d_%H%M%S.log", .finished = finished};
