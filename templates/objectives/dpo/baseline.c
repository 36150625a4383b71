/* baseline.c -- loads the metrics, answers and reference values of the initial weights, or computes
 * them. */
#define _GNU_SOURCE
#include "baseline.h"

//@ unless DPO_REFERENCE=none
#include <math.h>
//@ end
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "evaluation.h"
#include "runtime/base.h"             // die(), the world of ranks
//@ unless DPO_REFERENCE=none
#include "runtime/dpo.h"              // the loss of a pair
//@ end
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/ranks/comm.h"       // broadcasts from rank 0
#include "runtime/run/initial_weights.h"
#include "runtime/run/reference.h"    // REFERENCE_FOLDER
#include "step.h"                     // io, model

static const char start_file[] = "start.json";

cJSON *baseline;

static double loaded_at;         /* clock */

double baseline_seconds(void)
{
    return clock_seconds() - loaded_at;
}

//@ if reference
/* Log-probabilities of both answers to each prompt of a batch. */
static const float *score(Data *d, int64_t batch)
{
    pairs_fill(d, batch, 0);
    step_score();
    step_wait();
    return io.score;
}

/* Loads the values, or computes them from the initial weights; first: these are loaded. Returns
 * whether there are values. */
static bool find_reference(Reference *r, const char *weights, bool first)
{
    r->width = ANSWERS;
    r->score = score;
    r->made = format("@DPO_LOGP@ of an answer, %s, T=%d", model.precision, T);
    if (!reference_load(r, flags->out, weights, first) && first)
        reference_make(r, flags->eval_only ? NULL : flags->out, weights);
    return r->value;
}

//@ end
/* Returns the checksum of the initial weights of the run of a checkpoint, malloc'ed; NULL: not
 * recorded. */
static char *began_with(const char *checkpoint)
{
    char *error = NULL;
    cJSON *all = folder_read_nofollow(checkpoint, "train_state.json", 1 << 28, &error);
    const char *mark = cJSON_GetStringValue(json_get(json_get(all, "state"), "began"));
    char *copy = mark ? format("%s", mark) : NULL;
    cJSON_Delete(all);
    free(error);
    return copy;
}

/* Everything but the weights that start.json depends on; malloc'ed. */
static char *start_key(void)
{
    static const char rule[] =
        "@DPO_LOSS@ of @DPO_LOGP@, reference @DPO_REFERENCE@, beta @DPO_BETA@ smoothing "
        "@DPO_SMOOTHING@ margin @DPO_MARGIN@ penalty @DPO_PENALTY@ shift @DPO_SHIFT@ kl @DPO_KL@ "
        "@DPO_KL_WEIGHT@ reward_beta @DPO_REWARD_BETA@";
    const Sampling s = generate_sampling(flags);
    char *train = split[TRAIN].n ? data_fingerprint(&split[TRAIN]) : format("none"),
         *eval = split[VALIDATION].n ? data_fingerprint(&split[VALIDATION]) : format("none"),
         *narrow = s.rule.top_k || s.rule.min_p > 0 || s.rule.repetition_penalty != 1
                       ? format(" --top-k %lld --min-p %.9g --repetition-penalty %.9g",
                                (long long)s.rule.top_k, s.rule.min_p, s.rule.repetition_penalty)
                       : format("%s", ""),
         *key = format("%s; %s, T=%d; %s; %s; %lld to test on; --temperature %.9g --top-p %.9g "
                       "--seed %llu --max-new-tokens %lld --eval-batches %lld%s", rule,
                       model.precision, T, train, eval, (long long)split[TEST].n,
                       s.rule.temperature, s.rule.top_p, (unsigned long long)s.seed,
                       (long long)s.most, (long long)flags->eval_batches, narrow);
    free(train), free(eval), free(narrow);
    return key;
}

/* Reads start.json on rank 0. Returns true if it exists and belongs to these weights (NULL:
 * any). */
static bool load_start(const char *weights)
{
    char *folder = folder_join(flags->out, REFERENCE_FOLDER), *error = NULL, *key = start_key();
    bool there = false;
    if (world.rank == 0) {
        cJSON *all = folder_read_nofollow(folder, start_file, 1 << 28, &error);
        const char *mark = cJSON_GetStringValue(json_get(all, "weights")),
                   *of = cJSON_GetStringValue(json_get(all, "of"));
        there = mark && of && (!weights || !strcmp(mark, weights)) && !strcmp(of, key) &&
                json_get(all, "before") && json_get(all, "answers");
        baseline = there ? all : NULL;
        if (!there)
            cJSON_Delete(all);
    }
    comm_broadcast(&there, sizeof there, 0);
    free(folder), free(error), free(key);
    return there;
}

/* Evaluates the loaded weights before training and writes start.json. */
static void make_start(const Flags *f, const WeightFolders folder, const char *weights)
{
    double value[SPLITS][EVAL_METRICS];
    char *key = start_key();
    evaluate_splits(value);
    say_splits("before", value);
    Tokenizer *t = find_tokenizer(f, folder, "nothing is answered");
    baseline = cJSON_CreateObject();
    cJSON_AddStringToObject(baseline, "weights", weights);
    cJSON_AddStringToObject(baseline, "of", key);
    cJSON_AddItemToObject(baseline, "before", splits_json(value));
    cJSON *all = cJSON_AddObjectToObject(baseline, "answers");
    const Answers by = answers_by(t);
    for (int g = 0; t && g < SPLITS; g++)
        cJSON_AddItemToObject(all, split_name[g], answers_list(&by, &split[g], examples_of(g)));
    if (world.rank == 0) {
        char *text = folder_json_text(baseline);
        char *error = folder_replace_below(flags->out, REFERENCE_FOLDER, start_file, text);
        if (error)
            die(EXIT_IO, "%s", error);
        free(text);
    }
    if (t)
        tokenizer_free(t);
    free(key);
}

//@ unless DPO_REFERENCE=none
//@ if DPO_LOGP=sum
/* Mean number of targets of an answer in the batch evaluated last, over all ranks. */
static double targets_an_answer(void)
{
    double n[2] = {0, 0};        /* targets, answers */
    for (int64_t i = 0; i < BOTH; i++) {
        const int64_t targets = pairs_targets(i);
        n[0] += (double)targets, n[1] += targets > 0;
    }
    comm_allreduce_double(n, 2);
    return n[1] > 0 ? n[0] / n[1] : 1;
}

//@ end
/* EXIT_MISMATCH unless loss and margin are those of a model that is its own reference: all its
 * rewards are 0. */
static void check_start(void)
{
    const bool exact = !strcmp(model.precision, "fp32");
    const DpoRule rule = {
//@ if DPO_LOSS=ipo
        .loss = DPO_IPO,
//@ end
//@ unless DPO_LOSS=ipo
        .loss = DPO_SIGMOID,
//@ end
        .beta = @DPO_BETA@, .smoothing = @DPO_SMOOTHING@, .margin = @DPO_MARGIN@, .shift = 1};
    double v[EVAL_METRICS];
    float coef[ANSWERS];
    evaluate(&split[split[TRAIN].n ? TRAIN : VALIDATION], 1, v);
    metrics_values(objective_metrics.eval, EVAL_METRICS, v);
    const double want = dpo_pair(coef, &rule, &(DpoPair){0}), within = exact ? 1e-5 : 1e-2,
                 nats = fabs(v[EVAL_policy_chosen]) + fabs(v[EVAL_policy_rejected]);
//@ if DPO_LOGP=sum
    /* errors of the n tokens of a sum add up like the square root of n, times three */
    const double n = targets_an_answer(),
                 size = fmin(1 + nats, (1 + nats / n) * 3 * sqrt(n));
//@ end
//@ unless DPO_LOGP=sum
    const double size = 1 + nats;
//@ end
    if (!(fabs(v[EVAL_loss] - want) <= within * size * (1 + want)) ||
        !(fabs(v[EVAL_margin]) <= within * size))
        die(EXIT_MISMATCH, "before the first step the weights are their own reference, so the loss "
            "must be %.7g and the margin 0, but they are %.7g and %.7g; %s/%s may be of other "
            "weights: remove it, and it is rebuilt", want, v[EVAL_loss], v[EVAL_margin], flags->out,
            REFERENCE_FOLDER);
    note("before the first step: loss %.7g, margin %.3g, as the weights are their own reference",
         v[EVAL_loss], v[EVAL_margin]);
}

//@ end
//@ if DPO_REFERENCE=adapter_off
/* True if the adapters add nothing: the factor that is initialised to zeros still is. */
static bool adapters_add_nothing(void)
{
    for (int i = 0; i < model.ntensors; i++) {
        const Tensor *t = &model.tensors[i];
        if (t->adapter && t->init == INIT_ZEROS && !model_all_zeros(t))
            return false;
    }
    return true;
}

//@ end
bool baseline_loaded(const Flags *f, const WeightFolders folder, bool first)
{
    const bool trains = !f->eval_only;
    bool missing = false;        /* a result that needs the initial weights */
//@ if DPO_REFERENCE=copy
    if (first || f->bench_steps)
        model_keep_start(&model);
    else
        missing = true;
//@ end
    if (f->bench_steps)
        return false;
//@ if DPO_REFERENCE=adapter_off
    if (folder[1] && first && trains && !adapters_add_nothing())
        die(EXIT_CONFIG, "--adapter %s: the reference of this program is the model without "
            "adapters, but training would begin with these; use gen %s dpo.reference=%s, or merge "
            "them into the model first with --merge-lora", folder[1],
            model_words(&model, "dpo.reference"),
//@ if DPO_KL=token
            "copy");
//@ end
//@ unless DPO_KL=token
            "cache");
//@ end
//@ end
    char *weights = first ? initial_mark(&model) : began_with(folder[0]);
//@ if reference
    if (first && !trains && !folder[0])
        note("reference: the weights are their own, as no run here trained them; --out RUN "
             "evaluates a run's weights against its initial ones");
    for (int i = 0; i < REFERENCES; i++)
        if (reference[i].all.n && !reference[i].value)
            missing = !find_reference(&reference[i], weights, first) || missing;
//@ end
    if (trains && !baseline && !load_start(weights)) {
        if (first)
            make_start(f, folder, weights);
        missing = missing || !first;
    }
//@ unless DPO_REFERENCE=none
    if (first && trains)
        check_start();
//@ end
    loaded_at = clock_seconds();
    free(weights);
    return missing;
}
