/* log_banner.c -- summary of the run on standard error, before the first step; see log.h. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/log.h"
#include "runtime/run/schedule.h"

/* Returns " in text.txt" or " in a.jsonl and 2 more", malloc'ed; NULL: no files. paths: as typed;
 * "": only their number is known. */
static char *banner_files(const Data *d, const char *paths)
{
    int n;
    if (!d->nfiles)
        return NULL;
    char **file = split_names(paths, &n),
         *others = n > 1 ? format(" and %d more", n - 1) : format("%s", ""),
         *text = n ? format(" in %s%s", file[0], others)
                   : format(" in %d file%s", d->nfiles, d->nfiles == 1 ? "" : "s");
    free(others), free(file);
    return text;
}

/* most: limit on the validation batches of a rank; 0: none. */
static void banner_data(const char *what, const Data *d, const char *paths, int64_t most)
{
    if (!d)
        return;
    char *documents = d->bins.n ? format("%lld documents, ", (long long)d->bins.first[d->n]) : NULL;
    int64_t steps = data_steps_per_epoch(d);
    bool some = d->eval && most > 0 && most < steps;
    char *part = some ? format("%lld of ", (long long)most) : NULL;
    char *files = banner_files(d, paths);
    note("  %-10s %lld samples of %lld %s (%s%s)%s, %s%lld %s", what, (long long)d->n,
         (long long)d->T, files ? "tokens" : "positions", documents ? documents : "", d->kind,
         files ? files : "", part ? part : "", (long long)steps,
         d->eval ? "batches a rank" : "steps an epoch");
    free(files);
    free(documents);
    free(part);
}

/* Prints each source of --data-weights: its share of an epoch, and passes over it per epoch and
 * run. */
static void banner_sources(const Banner *b)
{
    const Data *d = b->train;
    const char *name = b->flags->data;
    for (int k = 0; d && k < d->nsources; k++, name += strcspn(name, ",")) {
        const DataSource *s = &d->source[k];
        name += strspn(name, ",");
        const double passes = s->n ? (double)s->drawn / (double)s->n : 0,
                     epochs = (double)b->total / (double)data_steps_per_epoch(d);
        char *source = format("source %d", k + 1);
        note("  %-10s %.*s: weight %g, %lld samples per epoch, drawn from %lld: %.3g passes an "
             "epoch, %.3g in all", source, (int)strcspn(name, ","), name, s->weight,
             (long long)s->drawn, (long long)s->n, passes, passes * epochs);
        free(source);
    }
}

/* Returns the value of the line `name=value` of model_fields, without quotes and braces, or "" if
 * there is none; malloc'ed. */
static char *field_text(const Model *m, const char *name)
{
    size_t n = strlen(name), k = 0;
    const char *line = m->model_fields;
    while (line && !(!strncmp(line, name, n) && line[n] == '=')) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    const char *value = line ? line + n + 1 : "";
    char *text = format("%.*s", (int)strcspn(value, "\n"), value);
    for (const char *c = text; *c; c++)
        if (!strchr("{}\"", *c))
            text[k++] = *c;
    text[k] = '\0';
    return text;
}

static void banner_lora(const Model *m)
{
    char *rank = field_text(m, "lora.rank"), *alpha = field_text(m, "lora.alpha"),
         *targets = field_text(m, "lora.targets"), *whole = field_text(m, "lora.modules_to_save");
    note("  %-10s rank %s, alpha %s%s, targets %s%s%s%s", "lora", rank, alpha,
         strstr(m->model_fields, "lora.rslora=true") ? " (rslora)" : "", targets,
         *whole ? ", trained whole: " : "", whole, model_has_nf4(m) ? ", base in NF4" : "");
    free(rank), free(alpha), free(targets), free(whole);
}

/* Returns " = 5e-06 x 2, --lr-scale linear of 2 ranks", or "" without scaling; malloc'ed. */
static char *banner_scaled(const Banner *b)
{
    const Flags *f = b->flags;
    if (!strcmp(f->lr_scale, "none"))
        return format("%s", "");
    return format(" = %g x %g, --lr-scale %s of %s%lld rank%s", f->lr,
                  schedule_scaled(f->lr_scale, 1, b->lr_ranks), f->lr_scale,
                  b->lr_ranks == b->model->ranks ? "" : "the run's first ",
                  (long long)b->lr_ranks, b->lr_ranks == 1 ? "" : "s");
}

/* Prints the NCCL settings of the environment that change the order of sums. */
static void banner_settings(void)
{
    char *all = format("%s", "");
    const char *setting;
    bool chosen;
    for (int i = 0; (setting = comm_setting(i, &chosen)); i++)
        if (chosen) {
            char *longer = format("%s%s%s", all, *all ? " " : "", setting);
            free(all);
            all = longer;
        }
    if (*all)
        note("  %-10s %s: the last bits of sums over ranks depend on these variables", "nccl", all);
    free(all);
}

void log_banner(const Banner *b)
{
    const Model *m = b->model;
    const Flags *f = b->flags;
    cpu_set_t cpus;
    int ncpus = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
    bool cpu = !strcmp(device_name(), "CPU");
    note("%s  %.12s  (%s, %s, %s)", m->recipe, m->hash, m->objective, m->family, m->generator);
    if (m->overrides)
        note("  %-10s %s", "changed by", m->overrides);
    char *gpus = cpu ? format("%s", "")
                     : format(" and %s, %d GPU%s visible,", device_name(), device_visible(),
                              device_visible() == 1 ? "" : "s");
    note("  %-10s %d rank%s x %d thread%s on %d CPU%s%s of %s (launcher %s, %s %s)", m->target,
         world.size, world.size == 1 ? "" : "s", b->threads, b->threads == 1 ? "" : "s", ncpus,
         ncpus == 1 ? "" : "s", gpus, world.host, comm_launcher(), cpu ? "MPI" : "NCCL",
         comm_library());
    free(gpus);
    note("  %-10s %s", "libraries", b->libraries);
    banner_settings();
    char *vocab = field_text(m, "model.vocab");
    note("  %-10s %s, %lld parameters, %lld trained%s%s, %.3f GiB planned a rank", "model",
         m->precision, (long long)m->parameters, (long long)m->trained,
         *vocab ? ", vocabulary of " : "", vocab, (double)m->planned_bytes / (1 << 30));
    free(vocab);
    if (m->adapter_json)
        banner_lora(m);
    note("  %-10s %s", "weights", b->weights);
    note("  %-10s %lld x %lld accumulated x %lld rank%s = %lld samples a step", "batch",
         (long long)m->micro, (long long)m->accum, (long long)m->ranks, m->ranks == 1 ? "" : "s",
         (long long)(m->micro * m->accum * m->ranks));
    char *scaled = banner_scaled(b);
    note("  %-10s %g%s (%s), weight decay %g, clip %g, seed %lld", "rate",
         schedule_scaled(f->lr_scale, f->lr, b->lr_ranks), scaled, f->schedule, f->weight_decay,
         f->clip, (long long)f->seed);
    free(scaled);
    if (m->updates_in_backward)
        note("  %-10s inside the backward pass: no gradient of a matrix is whole, no --clip",
             "update");
    if (b->train) {
        const double epochs = (double)b->total / (double)data_steps_per_epoch(b->train);
        note("  %-10s %lld step%s, %.4g epoch%s", "length", (long long)b->total,
             b->total == 1 ? "" : "s", epochs, epochs == 1 ? "" : "s");
    }
    banner_data("data", b->train, f->data, 0);
    banner_sources(b);
    banner_data("validation", b->eval, *f->eval_data ? f->eval_data : f->data,
                b->eval ? data_eval_batches(b->eval, m, f->eval_batches) : 0);
    note("  %-10s %s", "run folder", f->out);
}
