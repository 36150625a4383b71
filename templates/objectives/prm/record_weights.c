/* record_weights.c -- computes, reports and writes the weights of the training records. */
#define _GNU_SOURCE
#include "record_weights.h"

//@ if meta_tokens
//@ unless PRM_WEIGHTS=net
#include <math.h>
//@ end
//@ end
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/prm.h"              // weights from learned entries
//@ if PRM_WEIGHTS=net
#include "scores.h"
//@ end
#include "step.h"                     // model

static struct {
//@ unless PRM_WEIGHTS=net
    float *raw;                  /* (n) the learned entry */
//@ end
    float *weight;               /* (n) */
    int64_t n;                   /* 0: not read yet */
} weights;

static float *floats(int64_t n)
{
    float *to = malloc(sizeof *to * (size_t)n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %lld weights", (long long)n);
    return to;
}

/* The values of a tensor by its name in checkpoints; malloc'ed. Collective if it is divided. */
static float *read_learned(const char *named)
{
    const Tensor *t = model_need(&model, named);
    float *to = floats(model_elements(t));
    model_get_everywhere(&model, t, t->weight, 0, model_elements(t), to);
    return to;
}

int32_t entry_of(const StepsRow *r, int64_t step)
{
    if (step < flags->cold_start)
        return -1;
//@ if PRM_WEIGHTS=domain
    return r->domain;
//@ end
//@ unless PRM_WEIGHTS=domain
    return (int32_t)r->sample;
//@ end
}

//@ if PRM_WEIGHTS=instance
static void set_weights(const float *table)
{
    for (int64_t i = 0; i < weights.n; i++) {
        weights.raw[i] = table[i];
        weights.weight[i] = (float)prm_activation(PRM_@UPPER_PRM_ACTIVATION@, table[i]);
    }
}

//@ end
//@ if PRM_WEIGHTS=domain
/* The domain of each training record; malloc'ed. */
static int32_t *read_domains(void)
{
    int32_t *to = malloc(sizeof *to * (size_t)weights.n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %lld domains", (long long)weights.n);
    for (int64_t i = 0; i < weights.n; i++) {
        StepsRow r;
        steps_sample(&train_steps, i, &r);
        to[i] = r.domain;
    }
    return to;
}

static void set_weights(const float *table)
{
    static int32_t *domain;      /* (n) of each record */
    const int n = train_steps.ndomains;
    const double total = prm_domains_total(table, n);
    if (!domain)
        domain = read_domains();
    for (int64_t i = 0; i < weights.n; i++) {
        weights.raw[i] = table[domain[i]];
        weights.weight[i] = (float)prm_domain_weight(table[domain[i]], total, n);
    }
}

//@ end
//@ unless PRM_WEIGHTS=net
static void read_weights(void)
{
    if (!weights.n) {
        weights.raw = floats(trained->n), weights.weight = floats(trained->n);
        weights.n = trained->n;
    }
    float *table = read_learned("weights.table");
    set_weights(table);
    free(table);
}

//@ end
//@ if PRM_WEIGHTS=net
/* Scores all training records and applies the net to their margins. */
static void read_weights(void)
{
    static Data all;
    static Steps steps;
    if (!weights.n) {
        weights.weight = floats(trained->n), weights.n = trained->n;
        data_view(&all, trained, 0, trained->n, &model, &shape);
        steps_open(&steps, &all, MARKS, false, false);
    }
    float *w1 = read_learned("weights.net.0.weight"), *b1 = read_learned("weights.net.0.bias"),
          *w2 = read_learned("weights.net.2.weight"), *b2 = read_learned("weights.net.2.bias");
    const PrmNet net = {w1, b1, w2, b2};
    double *margins = score_all(&steps);
    for (int64_t i = 0; i < weights.n; i++) {
        StepsRow r;
        float d[MARKS];
        int32_t row[MARKS];
        steps_sample(&steps, i, &r);
        for (int j = 0; j < MARKS; j++) {
            d[j] = (float)margins[i * (MARKS + 1) + j];
            row[j] = j < r.nlabels ? j : -1;
        }
        weights.weight[i] = (float)prm_net_weight(&net, d, row, MARKS);
    }
    free(w1), free(b1), free(w2), free(b2), free(margins);
}

//@ end
//@ if meta_tokens
//@ unless PRM_WEIGHTS=net
void record_weights_report(bool read, double *sum)
{
    if (read || !weights.n)
        read_weights();
    const double n = (double)weights.n;
    double mean = 0, square = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < weights.n; i++) {
        const double w = weights.weight[i];
        mean += w;
        least = w < least ? w : least;
        most = w > most ? w : most;
    }
    mean /= n;
    for (int64_t i = 0; i < weights.n; i++)
        square += (weights.weight[i] - mean) * (weights.weight[i] - mean);
    sum[STEP_instance_weight_mean] = mean;
    sum[STEP_instance_weight_std] = sqrt(square / n);
    sum[STEP_instance_weight_min] = least;
    sum[STEP_instance_weight_max] = most;
    sum[STEP_weighted] = 1;
}

//@ end
//@ end
/* ---- files ----------------------------------------------------------------------------------- */

const char weights_file[] = "instance_weights.json";
const char suspects_file[] = "suspicious_records.jsonl";
enum { SUSPECTS = 100 };

/* Prints {"id", "domain", "noisy", "raw", "weight"} of a record; keys that are unknown, domain and
 * noisy, are left out. */
static void write_weight(FILE *to, int64_t i)
{
    char *id = steps_id(&train_steps, i), *text = json_quoted(id), weight[64], raw[64] = "null";
    StepsRow row;
    steps_sample(&train_steps, i, &row);
//@ unless PRM_WEIGHTS=net
    json_float_text(weights.raw[i], raw);
//@ end
    json_float_text(weights.weight[i], weight);
    fprintf(to, "{\"id\": %s", text);
    if (row.domain >= 0) {
        char *domain = json_quoted(train_steps.domain[row.domain]);
        fprintf(to, ", \"domain\": %s", domain);
        free(domain);
    }
    if (row.noisy >= 0)
        fprintf(to, ", \"noisy\": %s", row.noisy ? "true" : "false");
    fprintf(to, ", \"raw\": %s, \"weight\": %s}", raw, weight);
    free(text), free(id);
}

static int by_weight(const void *a, const void *b)
{
    const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    const float x = weights.weight[i], y = weights.weight[k];
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

/* Training records by ascending weight; malloc'ed. */
static int64_t *order_by_weight(void)
{
    int64_t *order = malloc(sizeof *order * (size_t)weights.n);
    if (!order)
        die(EXIT_INTERNAL, "out of memory for %lld weights", (long long)weights.n);
    for (int64_t i = 0; i < weights.n; i++)
        order[i] = i;
    qsort(order, (size_t)weights.n, sizeof *order, by_weight);
    return order;
}

/* Writes OUT/LEAF with what write(to) prints; NULL or a malloc'ed message. */
static char *write_text(const char *leaf, void (*write)(FILE *to))
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %s", leaf);
    write(to);
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for %s", leaf);
    char *error = folder_replace_text(flags->out, leaf, text);
    free(text);
    return error;
}

static void write_all(FILE *to)
{
    for (int64_t i = 0; i < weights.n; i++) {
        fputs(i ? ",\n " : "[", to);
        write_weight(to, i);
    }
    fputs("]\n", to);
}

static void write_suspects(FILE *to)
{
    int64_t *order = order_by_weight();
    for (int64_t i = 0; i < weights.n && i < SUSPECTS; i++) {
        write_weight(to, order[i]);
        fputc('\n', to);
    }
    free(order);
}

char *record_weights_write(void)
{
    read_weights();
    if (world.rank != 0)
        return NULL;
    char *error = write_text(weights_file, write_all);
    return error ? error : write_text(suspects_file, write_suspects);
}

void record_weights_say_suspects(void)
{
    enum { SAID = 5 };
    int64_t *order = order_by_weight();
    const float least = weights.weight[order[0]], most = weights.weight[order[weights.n - 1]];
    for (int64_t i = 0; i < weights.n && i < SAID && least < most; i++) {
        char *id = steps_id(&train_steps, order[i]);
        note("%s %s, weight %.4f", i ? "                   " : "most suspicious are", id,
             weights.weight[order[i]]);
        free(id);
    }
    free(order);
}
