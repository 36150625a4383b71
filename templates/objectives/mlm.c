/* objective.c -- masked language modelling on the host: texts with masked words, validation,
 * probing.
//@ head
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/masked_batch.h"  // masked rows
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/files/folder.h"     // OUT/.mlm_pretrained_v3
#include "runtime/files/json.h"
#include "runtime/model/hf.h"         // weights as files
#include "runtime/model/model_parts.h"  // rank 0 writes what all ranks have
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/records.h"      // opens the records of --data
#include "shape.h"                    // B, T, N, V, ...
#include "step.h"                     // io, model

//@ metrics

//@ from common.c batch_at

static MaskedRow row[B];
static MaskedBatch hidden = {
    .model = &model, .T = T, .vocab = V, .most = N, .at = batch_at, .row = row,
    .rule = {.select = MASK_@MLM_SELECT@, .share = @MLM_SHARE@, .mask = -1}};
static const char *tokenizer_of; /* id of the records' tokenizer */
static const char *tokenizer_in; /* the folder of the records */

/* ---- records --------------------------------------------------------------------------------- */

static int64_t takes(int64_t may)
{
    return mask_exactly(&hidden.rule, may);
}

void objective_open(const Flags *f, Data *train, Data *eval)
{
    const DataShape of = {.kind = "@KIND@", .T = T, .vocab = V, .finds_targets = true,
                          .targets = hidden.rule.select == MASK_exact ? N : 0, .takes = takes};
    static const FormatCode *const formats[] = {&corpus_format, &imdb_format, &windows_format,
                                                &answers_format, NULL};
    const RecordRules rules = {.format = "corpus", .formats = formats, .min_words = f->min_words};
    hidden.rule.seed = (uint64_t)f->seed;
    records_open(f, &model, &of, &rules, train, eval);
    if (!records_train(f) && !records_validate(f))
        return;
    const Data *d = records_train(f) ? train : eval;
    masked_suit(&hidden, d, records_train(f) ? f->data : f->eval_data);
    tokenizer_of = d->tokenizer;
    tokenizer_in = d->folder;
}

//@ from common.c suit

/* ---- a step ---------------------------------------------------------------------------------- */

//@ from common.c masked_fill

//@ from common.c work

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const MaskedCounts *c = &counted[step % 2];
    const bool tells = world.rank == 0 && micro == 0;
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_targets] = tells ? (double)c->targets : 0;
    sum[STEP_samples] = tells ? (double)c->samples : 0;
    sum[STEP_tokens] = tells ? (double)c->tokens : 0;
}

//@ from common.c masked_show

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches; b++) {
        MaskedCounts counts = masked_fill(&hidden, d, b, 0);
        step_eval();
        step_wait();
        double part[EVAL_METRICS] = {0};
        part[EVAL_loss] = part[EVAL_perplexity] = *io.loss[0];
        part[EVAL_accuracy] = *io.right[0];
        part[EVAL_samples] = (double)counts.samples;
        part[EVAL_targets] = (double)counts.targets;
        part[EVAL_tokens] = (double)counts.tokens;
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

/* ---- probing --------------------------------------------------------------------------------- */

enum { BEST = 5 };

/* Logits at a position of the text in row 0. */
static const float *logits_at(int64_t position)
{
    *io.row = (int32_t)position;
    step_probe();
    step_wait();
    return io.logits;
}

/* Prints the likeliest words with their probabilities over the model's vocabulary, which may be
 * larger than the tokenizer's. */
static void print_best(const Tokenizer *t, const float *logits)
{
    int32_t best[BEST];
    int n = 0, ids = tokenizer_size(t), unknown = tokenizer_unknown(t);
    double most = logits[0], sum = 0;
    for (int32_t v = 1; v < V; v++)
        most = logits[v] > most ? logits[v] : most;
    for (int32_t v = 0; v < V; v++)
        sum += exp(logits[v] - most);
    for (int32_t v = 0; v < ids; v++) {
        int k = n;               /* rank of v among the best so far */
        while (k > 0 && logits[v] > logits[best[k - 1]])
            k--;
        if (k == BEST || v == unknown || tokenizer_special(t, v))
            continue;
        n += n < BEST;
        memmove(&best[k + 1], &best[k], sizeof *best * (size_t)(n - k - 1));
        best[k] = v;
    }
    for (int k = 0; k < n; k++) {
        size_t bytes;
        char *word = tokenizer_decode(t, &best[k], 1, false, &bytes);
        printf("  %.4f  %s\n", exp(logits[best[k]] - most) / sum, word);
        free(word);
    }
}

/* Prints the likeliest words for each mask of a text. NULL, or a malloc'ed message. */
static char *probe_text(const Tokenizer *t, const char *text)
{
    const Batch to = batch_at(0);
    int32_t *ids, mask = tokenizer_mask(t);
    size_t n, masks = 0;
    char *error = tokenizer_encode(t, text, strlen(text), true, &ids, &n);
    if (error)
        return error;
    for (size_t i = 0; i < n; i++)
        masks += ids[i] == mask;
    if (!masks)
        error = format("the text has no mask token: put one, such as [MASK], in place of a word");
    if (n > T)
        error = format("the text has %zu tokens; it must have at most %d", n, T);
    if (error) {
        free(ids);
        return error;
    }
    memcpy(to.tokens, ids, sizeof *ids * n);
    for (int64_t b = 0; b < B; b++)
        masked_pad(&hidden, &to, b, b == 0 ? (int64_t)n : 0);
    if (world.rank == 0)
        printf("%s\n", text);
    for (size_t i = 0; i < n; i++)
        if (ids[i] == mask) {
            const float *logits = logits_at((int64_t)i);
            if (world.rank == 0)
                print_best(t, logits);
        }
    free(ids);
    return NULL;
}

/* Lays out texts with this tokenizer from now on. */
static void take_tokenizer(const Tokenizer *t, const char *whose)
{
    if (tokenizer_mask(t) < 0)
        die(EXIT_CONFIG, "%s: the tokenizer has no mask token, such as [MASK]", whose);
    hidden.pad = tokenizer_pad(t) < 0 ? 0 : tokenizer_pad(t);
}

/* ---- files of its own ------------------------------------------------------------------------ */

static const char own_folder[] = ".mlm_pretrained_v3";

/* The tokenizer.json with that id: the one that --tokenizer names, one next to the weights, in the
 * folder of the records, or of an earlier run. malloc'ed; NULL: not found. */
static char *tokenizer_file(const Flags *f, const WeightFolders folder, const char *id)
{
    char *earlier = folder_join(f->out, own_folder);
    const char *all[WEIGHT_FOLDERS + 2];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = tokenizer_in;
    all[WEIGHT_FOLDERS + 1] = earlier;
    char *path = vocabulary_file(id, f->tokenizer, all, WEIGHT_FOLDERS + 2);
    free(earlier);
    return path;
}

/* Writes each epoch's mean loss and that of the validation at its end; null: there was none. */
static char *write_history(const Epochs *epochs, const char *folder)
{
    cJSON *all = cJSON_CreateObject(), *train = cJSON_AddArrayToObject(all, "train_losses"),
          *eval = cJSON_AddArrayToObject(all, "val_losses");
    for (int64_t i = 0; i < epochs->n; i++) {
        const EpochRow *r = &epochs->row[i];
        if (!r->ends_epoch && (i + 1 < epochs->n || r->step == 0))
            continue;
        cJSON_AddItemToArray(train, cJSON_CreateNumber(r->step_value[STEP_loss]));
        cJSON_AddItemToArray(eval, cJSON_CreateNumber(r->eval_value[EVAL_loss]));
    }
    char *error = folder_write_json(folder, "mlm_training_history.json", all, NULL);
    cJSON_Delete(all);
    return error;
}

typedef struct {
    const Epochs *epochs;
    const char *tokenizer;       /* or NULL */
} Own;

static char *write_files(const char *folder, void *with)
{
    const Own *to = with;
    char *error = hf_write_weights(&model, folder, "mlm_model.safetensors");
    if (!error && to->tokenizer)
        error = folder_copy_tokenizer(to->tokenizer, folder, NULL);
    return error ? error : write_history(to->epochs, folder);
}

static char *write_own(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    if (!parts_gather(&model))
        return NULL;
    char *tokenizer = tokenizer_file(f, folder, tokenizer_of),
         *path = folder_join(f->out, own_folder),
         *error = folder_replace(path, write_files, &(Own){epochs, tokenizer});
    parts_gathered();
    free(tokenizer), free(path);
    return error;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* --probe TEXT */
static int probe(const Flags *f, const WeightFolders folder)
{
    char *earlier = format("%s/%s/tokenizer.json", f->out, own_folder);
    const char *recorded = records_tokenizer(f),
               *named = *recorded || !file_named(earlier) ? recorded : earlier;
    Tokenizer *t = vocabulary_load("--probe", named, folder, WEIGHT_FOLDERS, V);
    take_tokenizer(t, "--probe");
    for (const char **text = f->many[FLAG_probe]; *text; text++) {
        char *error = probe_text(t, *text);
        if (error)
            die(EXIT_CONFIG, "--probe: %s", error);
    }
    tokenizer_free(t);
    free(earlier);
    return EXIT_OK;
}

/* Probes some sentences. */
static void finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    static const char *const around[][2] = {
        {"the film was slow but the ", " was worth it"},
        {"she opened the ", " and went into the house"},
        {"it was one of the best ", " of the year"}};
    (void)last;
    char *path = tokenizer_file(f, folder, tokenizer_of);
    if (!path) {
        note("no tokenizer.json with the id %s was named, or found next to the weights or the "
             "records: nothing is probed; name one with --tokenizer FILE", tokenizer_of);
        return;
    }
    Tokenizer *t = vocabulary_load("--tokenizer", path, folder, WEIGHT_FOLDERS, V);
    take_tokenizer(t, path);
    int32_t id = tokenizer_mask(t);
    size_t bytes;
    char *mask = tokenizer_decode(t, &id, 1, false, &bytes);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        char *text = format("%s%s%s", around[i][0], mask, around[i][1]),
             *error = probe_text(t, text);
        if (error)
            note("\"%s\" is not probed: %s", text, error);
        free(text), free(error);
    }
    tokenizer_free(t);
    free(mask), free(path);
}

static const ObjectiveCommand commands[] = {{FLAG_probe, probe}, {0, NULL}};
static const char *const files[] = {own_folder, NULL};
static const FigureReader figures[] = {{"epochs", table_lists}, {NULL, NULL}};
const ObjectiveHooks objective_hooks = {
    .commands = commands,
    .show = show,
    .write = write_own,
    .files = files,
    .figures = figures,
    .log = "logs/@_training_%Y%m%d_%H%M%S.log",
    .finished = finished,
};
