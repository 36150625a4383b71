/* objective.c -- masked diffusion on the host: masked texts, validation, likelihoods, generation.
//@ head
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/masked_batch.h"  // masked rows
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/files/folder.h"     // OUT/checkpoints_pretrained
#include "runtime/files/json.h"
#include "runtime/pack/pack.h"        // detects raw files
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/diffusion_generate.h"   // --generate
#include "runtime/run/prepare.h"      // --prepare
#include "runtime/run/records.h"      // opens the records of --data
#include "shape.h"                    // B, T, N, V, ...
#include "step.h"                     // io, model

//@ metrics

//@ from common.c batch_at

static MaskedRow row[B];
static MaskedBatch hidden = {
    .model = &model, .T = T, .vocab = V, .most = N, .at = batch_at, .row = row,
    .norm = MASKED_@DIFFUSION_NORM@, .mode = MASKED_@DIFFUSION_MODE@,
    .rule = {.select = MASK_random, .shorter = @DIFFUSION_RANDOM_LENGTH@,
             .mask = @DIFFUSION_MASK@}};
/* --val-noise: the spread estimate is the loss of a validation; the other one is computed, too. */
static bool spread_decides, both;
static const char *trained;      /* folder of the training records; NULL: none */
static Data *validated;          /* the records of the last validation */

/* ---- records --------------------------------------------------------------------------------- */

/* Any rate may be drawn, so every maskable token needs room. */
static int64_t takes(int64_t may)
{
    return may;
}

static const FormatCode *const formats[] = {&windows_format, &answers_format, &imdb_format,
                                            &corpus_format, NULL};

/* For a model that uses the tokenizer's mask. EXIT_MISMATCH, naming `files`, if the data have
 * another mask than the tokenizer.json next to them, which generation and evaluation use. */
static void check_mask(const Data *data, const char *files)
{
    const char *folder = data->mask_id < 0 ? NULL : vocabulary_folder(data);
    if (!folder)
        return;
    Tokenizer *t;
    char *path = folder_join(folder, "tokenizer.json"), *error = tokenizer_load(&t, path);
    if (error)
        die(EXIT_DATA, "%s: %s", path, error);
    const int its = tokenizer_mask(t);
    if (its >= 0 && its != data->mask_id)
        die(EXIT_MISMATCH, "%s: the mask is token %lld, that of their tokenizer (%s) is %d: pack "
            "them with that mask, or set the other in the recipe (diffusion.mask)", files,
            (long long)data->mask_id, path, its);
    tokenizer_free(t);
    free(path);
}

static void open_records(const Flags *f, const RecordRules *rules, Data *train, Data *eval)
{
    const DataShape of = {.kind = "@KIND@", .T = T, .vocab = V, .finds_targets = true, .targets = N,
                          .takes = takes};
    const bool trains = records_train(f), evaluates = records_validate(f);
    hidden.rule.seed = (uint64_t)f->seed;
    hidden.rule.draws = f->val_draws;
    spread_decides = !strncmp(f->val_noise, "spread", strlen("spread"));
    both = strchr(f->val_noise, ',') != NULL;
    if (evaluates && f->eval_sample)
        diffusion_check(f, T, ASKED / B);
    records_open(f, &model, &of, rules, train, eval);
    trained = trains ? train->folder : NULL;
    const Data *any = trains ? train : evaluates ? eval : NULL;
    const char *files = trains ? f->data : f->eval_data;
    if (any && hidden.rule.mask < 0)
        check_mask(any, files);
    if (any) {
        static SpecialTokens special;
        masked_suit(&hidden, any, files);
        special = (SpecialTokens){hidden.rule.mask, any->pad_id};
        model.special = &special;
    }
    if (trains)
        masked_check(&hidden, train, f->data);
    if (evaluates)
        masked_check(&hidden, eval, *f->eval_data ? f->eval_data : f->data);
}

void objective_open(const Flags *f, Data *train, Data *eval)
{
    const RecordRules rules = {.format = masked_format[hidden.mode], .formats = formats};
    open_records(f, &rules, train, eval);
}

/* EXIT_MISMATCH if config.json of a folder has another mask_token_id than the recipe, which masks
 * the model's input. */
static void check_folders(const WeightFolders folder)
{
    const int mask = hidden.rule.mask;
    for (int i = 0; i < WEIGHT_FOLDERS && mask >= 0; i++) {
        char *path = format("%s/config.json", folder[i] ? folder[i] : ""), *error = NULL;
        cJSON *config = !folder[i] || !file_named(path) ? NULL
                      : folder_read_json(folder[i], "config.json", 1 << 24, &error);
        const cJSON *its = json_get(config, "mask_token_id");
        if (error)
            die(EXIT_DATA, "%s", error);
        if (cJSON_IsNumber(its) && its->valuedouble != mask)
            die(EXIT_MISMATCH, "%s: mask_token_id is %.0f, but the mask here is token %d: gen %s "
                "diffusion.mask=%.0f, with records packed with the tokenizer of these weights",
                path, its->valuedouble, mask, model_words(&model, "diffusion.mask"),
                its->valuedouble);
        cJSON_Delete(config);
        free(path);
    }
}

/* Weights mean something only with the ids they were trained on. */
void objective_suit(const WeightFolders folder, const Data *records)
{
    vocabulary_check(folder, WEIGHT_FOLDERS, records);
    check_folders(folder);
}

/* ---- a step ---------------------------------------------------------------------------------- */

//@ from common.c masked_fill

//@ from common.c work

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const MaskedCounts *c = &counted[step % 2], none = {0};
    if (world.rank != 0 || micro != 0)
        c = &none;
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_divisor] = (double)masked_divisor(&hidden, c);
    sum[STEP_targets] = (double)c->targets;
    sum[STEP_samples] = (double)c->samples;
    sum[STEP_tokens] = (double)c->tokens;
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Sum of the losses of the filled batch. */
static double losses(void)
{
    step_eval();
    step_wait();
    return *io.loss[0];
}

/* Sets a batch's sums of a validation. */
static void validate_batch(double *sum, const MaskedCounts *counts)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    sum[EVAL_loss] = losses();
    sum[EVAL_accuracy] = *io.right[0];
    sum[EVAL_divisor] = (double)masked_divisor(&hidden, counts);
    sum[EVAL_samples] = (double)counts->samples;
    sum[EVAL_targets] = (double)counts->targets;
    sum[EVAL_tokens] = (double)counts->tokens;
}

/* Standard error of the mean of n values; NAN for one. */
static double error_of(const double *value, int64_t n)
{
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        mean += value[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    return n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : NAN;
}

static void sum_over_ranks(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += COMM_DOUBLES)
        comm_allreduce_double(x + i, (int)(n - i < COMM_DOUBLES ? n - i : COMM_DOUBLES));
}

/* The loss of a validation and its standard error. */
typedef struct {
    double loss, error;
} Estimate;

/* Sums over batches for the standard error of a ratio: their losses by their divisors. */
typedef struct {
    double n, loss, divisor, squares, products, divisors;
} Batches;
enum { BATCHES = sizeof(Batches) / sizeof(double) };

static Batches one_batch(double loss, double divisor)
{
    return (Batches){divisor > 0, loss, divisor, loss * loss, loss * divisor, divisor * divisor};
}

static void add_batches(Batches *all, const Batches *more)
{
    all->n += more->n;
    all->loss += more->loss, all->divisor += more->divisor;
    all->squares += more->squares;
    all->products += more->products;
    all->divisors += more->divisors;
}

/* Standard error of a single draw, from the variance between batches, so it includes that of their
 * texts; NAN for one batch. */
static double error_over(const Batches *b)
{
    const double mean = b->divisor > 0 ? b->loss / b->divisor : NAN,
                 squares = b->squares - 2 * mean * b->products + mean * mean * b->divisors;
    return b->n > 1 ? sqrt((squares < 0 ? 0 : squares) * b->n / (b->n - 1)) / b->divisor : NAN;
}

/* The loss with masks drawn by `select`. Adds to sum, EVAL_METRICS of all ranks. */
static Estimate estimate(Data *d, int64_t batches, MaskSelect select, double *sum)
{
    const int64_t draws = hidden.rule.draws;
    Batches all = {0};
    double *loss = calloc((size_t)draws, sizeof *loss);
    if (!loss)
        die(EXIT_INTERNAL, "out of memory for %lld draws", (long long)draws);
    hidden.rule.select = select;
    for (int64_t k = 0; k < draws; k++) {
        Batches drawn = {0};
        for (int64_t b = 0; b < batches; b++) {
            double part[EVAL_METRICS];
            hidden.draw = k;
            MaskedCounts counts = masked_fill(&hidden, d, b, 0);
            validate_batch(part, &counts);
            const Batches one = one_batch(part[EVAL_loss], part[EVAL_divisor]);
            comm_fold(part, 1, EVAL_METRICS, sum);
            comm_fold(&one.n, 1, BATCHES, &drawn.n);
        }
        loss[k] = drawn.divisor > 0 ? drawn.loss / drawn.divisor : 0;
        add_batches(&all, &drawn);
    }
    hidden.rule.select = MASK_random;
    hidden.draw = 0;
    sum[EVAL_samples] /= (double)draws;
    const Estimate e = {all.divisor > 0 ? all.loss / all.divisor : NAN,
                        draws > 1 ? error_of(loss, draws) : error_over(&all)};
    free(loss);
    return e;
}

void objective_validate(Data *d, int64_t batches, double *sum)
{
    const MaskSelect way[2] = {spread_decides ? MASK_spread : MASK_random,
                               spread_decides ? MASK_random : MASK_spread};
    Estimate by[2] = {{NAN, NAN}, {NAN, NAN}};
    double other[EVAL_METRICS] = {0};
    validated = d;
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    by[0] = estimate(d, batches, way[0], sum);
    if (both)
        by[1] = estimate(d, batches, way[1], other);
    sum[EVAL_tokens] += other[EVAL_tokens];      /* the rate counts both estimates */
    const Estimate *at_random = &by[spread_decides], *evenly = &by[!spread_decides];
    sum[EVAL_draws] = (double)hidden.rule.draws;
    sum[EVAL_error] = by[0].error * sum[EVAL_draws];
    sum[EVAL_loss_random] = at_random->loss * sum[EVAL_draws];
    sum[EVAL_error_random] = at_random->error * sum[EVAL_draws];
    sum[EVAL_loss_spread] = evenly->loss * sum[EVAL_draws];
    sum[EVAL_error_spread] = evenly->error * sum[EVAL_draws];
}

/* ---- likelihoods ----------------------------------------------------------------------------- */

enum { LOGLIK_DRAWS = 128 };

/* A lower bound on the log-likelihood of a sample's maskable tokens. */
typedef struct {
    double value, error;         /* nats; error: standard error */
    double tokens;
} Bound;
enum { BOUND = sizeof(Bound) / sizeof(double) };

/* The draws of each batch spread over all masking rates. */
static Bound bound_of(Data *d, int64_t sample)
{
    const int64_t draws = hidden.rule.draws, n = (draws + B - 1) / B;
    double *mean = malloc(sizeof *mean * (size_t)n);
    Bound b = {0};
    if (!mean)
        die(EXIT_INTERNAL, "out of memory for %lld draws", (long long)draws);
    for (hidden.draw = 0; hidden.draw < n; hidden.draw++) {
        MaskedCounts counts = masked_fill_draws(&hidden, d, sample, n);
        double sum = losses();
        b.tokens = (double)(counts.may / counts.samples);
        b.value -= sum / (double)draws;
        mean[hidden.draw] = sum / (double)counts.samples;
    }
    b.error = error_of(mean, n);
    free(mean);
    return b;
}

static void print_number(const char *key, const char *as, double x)
{
    printf(", \"%s\": ", key);
    printf(isfinite(x) ? as : "null", x);
}

/* Prints a line of JSON on rank 0; all ranks have the same bound. */
static void print_bound(int64_t sample, const Bound *b, bool nonfinite)
{
    if (!isfinite(b->value) && !nonfinite)
        die(EXIT_NONFINITE, "the log-likelihood of sample %lld is %g; --allow-nonfinite prints it "
            "as null", (long long)sample, b->value);
    if (world.rank != 0)
        return;
    printf("{\"sample\": %lld, \"tokens\": %.0f", (long long)sample, b->tokens);
    print_number("loglik", "%.9g", b->value);
    print_number("error", "%.3g", b->error);
    printf("}\n");
}

/* Opens --loglik FILE. Raw data are encoded with the model's tokenizer; JSON rows are answers. */
static void open_asked(const Flags *f, const WeightFolders folder, Data *d)
{
    Flags of = *f;
    char *found = NULL;
    of.data = "", of.eval_data = f->loglik;
    of.eval_share = 0, of.given[FLAG_eval_share] = false;
    of.val_draws = f->given[FLAG_val_draws] ? f->val_draws : LOGLIK_DRAWS;
    if (!f->given[FLAG_tokenizer] && (found = vocabulary_of_folder(folder, WEIGHT_FOLDERS)))
        of.tokenizer = found;
    const RecordRules rules = {
        .format = pack_is_rows(f->loglik) ? "answers" : masked_format[hidden.mode],
        .formats = formats, .eval_flag = "loglik"};
    open_records(&of, &rules, NULL, d);
    objective_suit(folder, d);
    free(found);
}

/* --loglik FILE: a sample for each rank at a time; prints them in their order. */
static int loglik(const Flags *f, const WeightFolders folder)
{
    Data d = {0};
    Bound *all = malloc(sizeof *all * (size_t)model.ranks), sum = {0};
    if (!all)
        die(EXIT_INTERNAL, "out of memory for %lld ranks", (long long)model.ranks);
    open_asked(f, folder, &d);
    hidden.norm = MASKED_tokens;
    hidden.rule.select = MASK_spread;
    for (int64_t i = 0; i < d.n; i += model.ranks) {
        memset(all, 0, sizeof *all * (size_t)model.ranks);
//@ if communicates_eval
        /* a rank without a sample runs as many batches, those of the last one */
        const int64_t mine = i + world.rank;
        const Bound own = bound_of(&d, mine < d.n ? mine : d.n - 1);
        if (mine < d.n)
            all[world.rank] = own;
//@ end
//@ unless communicates_eval
        if (i + world.rank < d.n)
            all[world.rank] = bound_of(&d, i + world.rank);
//@ end
        sum_over_ranks(&all->value, model.ranks * BOUND);
        for (int64_t k = 0; k < model.ranks && i + k < d.n; k++) {
            sum.value += all[k].value, sum.tokens += all[k].tokens;
            print_bound(i + k, &all[k], f->allow_nonfinite);
        }
    }
    note("%lld samples, %.0f tokens, %lld draws each: %.4f nats a token", (long long)d.n,
         sum.tokens, (long long)hidden.rule.draws, -sum.value / sum.tokens);
    free(all);
    return EXIT_OK;
}

/* ---- generation ------------------------------------------------------------------------------ */

/* Logits (ASKED, V) at the positions io.asked. */
static const float *logits_asked(void)
{
    step_generate();
    step_wait();
    return io.logits;
}

/* The sampler on this program. */
static DiffusionSampler denoiser(void)
{
    const Batch to = batch_at(0);
//@ if types
    memset(to.types, 0, B * T * sizeof *to.types);
//@ end
    return (DiffusionSampler){.rows = B, .positions = T, .block = ASKED / B, .vocab = V,
                              .tokens = to.tokens, .lengths = to.lengths, .at = io.asked,
//@ if communicates_generate
                              .collective = true,
//@ end
                              .logits = logits_asked};
}

/* --generate TEXT, --generate-file FILE */
static int generate(const Flags *f, const WeightFolders folder)
{
    const DiffusionSampler by = denoiser();
    return diffusion_print(&by, f, @DIFFUSION_MASK@, hidden.mode != MASKED_sft, folder,
                           WEIGHT_FOLDERS);
}

/* Writes a generated text after each validation. */
static char *write_sample(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    const EpochRow *last = epochs->n ? &epochs->row[epochs->n - 1] : NULL;
    DataRow first;
    if (!f->eval_sample || !validated || !last || !last->validated)
        return NULL;
    const DiffusionSampler by = denoiser();
    const char *all[WEIGHT_FOLDERS + 2];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = validated->folder;
    all[WEIGHT_FOLDERS + 1] = trained;
    const char *named = records_tokenizer(f);
    char *tokenizer = vocabulary_file(validated->tokenizer, named, all, WEIGHT_FOLDERS + 2),
         *error = NULL;
    if (!tokenizer && validated->tokenizer && !strcmp(validated->tokenizer, "bytes"))
        tokenizer = format("bytes");     /* has no file */
    data_order(validated, 0);
    if (tokenizer && data_row_of_step(validated, 0, 0, &first))
        error = diffusion_sample_text(&by, f, hidden.rule.mask, tokenizer, &first, last->step);
    free(tokenizer);
    return error;
}

/* ---- arrays of ids --------------------------------------------------------------------------- */

/* --prepare FILE,... */
static int prepare(const Flags *f, const WeightFolders folder)
{
    (void)folder;
    if (hidden.mode == MASKED_sft)
        die(EXIT_CONFIG, "--prepare makes windows of texts, but this program learns answers "
            "(diffusion.mode=sft): pass the rows to --data as they are");
    prepare_texts(f, f->prepare, &model, formats, T, V, @DIFFUSION_MASK@);
    return EXIT_OK;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static const char pretrained[] = "checkpoints_pretrained";

/* Names the checkpoint of each epoch that is the best so far, and of every fifth. */
static char *name(const Epochs *epochs, int64_t step, bool best)
{
    const EpochRow *last = epochs_at(epochs, step);
    if (!last || !last->ends_epoch || !(best || last->epoch % 5 == 0))
        return NULL;
    return format("%s/checkpoint_epoch_%lld", pretrained, (long long)last->epoch);
}

/* Writes the losses of all epochs next to that checkpoint; null: there was no validation. */
static char *write_stats(const Flags *f, const char *path, const Epochs *epochs)
{
    cJSON *all = cJSON_CreateObject(), *train, *eval;
    const EpochRow *last = &epochs->row[epochs->n - 1];
    (void)path;
    cJSON_AddNumberToObject(all, "epoch", (double)last->epoch);
    train = cJSON_AddArrayToObject(all, "train_losses");
    eval = cJSON_AddArrayToObject(all, "val_losses");
    for (const EpochRow *r = epochs->row; r <= last; r++) {
        if (!r->ends_epoch)
            continue;
        cJSON_AddItemToArray(train, cJSON_CreateNumber(r->step_value[STEP_loss]));
        cJSON_AddItemToArray(eval, r->validated ? cJSON_CreateNumber(r->eval_value[EVAL_loss])
                                                : cJSON_CreateNull());
    }
    cJSON_AddNumberToObject(all, "vocab_size", V);
    cJSON_AddNumberToObject(all, "mask_token", hidden.rule.mask);
    char *folder = folder_join(f->out, pretrained),
         *file = format("stats_epoch_%lld.json", (long long)last->epoch),
         *text = folder_json_text(all), *error = folder_replace_text(folder, file, text);
    cJSON_Delete(all);
    free(folder), free(file), free(text);
    return error;
}

//@ from common.c masked_show

static const ObjectiveCommand commands[] = {
    {FLAG_loglik, loglik}, {FLAG_generate, generate}, {FLAG_generate_file, generate}, {0, NULL}};
static const ObjectiveCommand without_weights[] = {{FLAG_prepare, prepare}, {0, NULL}};
static const char *const files[] = {"samples.jsonl", pretrained, NULL};
const ObjectiveHooks objective_hooks = {
    .commands = commands,
    .without_weights = without_weights,
    .show = show,
    .write = write_sample,
    .name = name,
    .named = write_stats,
    .files = files,
};
