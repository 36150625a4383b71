/* results.c -- writes dpo.csv during training; afterwards evaluation.json, example answers and the
 * model. */
#define _GNU_SOURCE
#include "results.h"

#include <stdio.h>
#include <stdlib.h>

#include "answers.h"
#include "baseline.h"
#include "evaluation.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer that goes with the model
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/model_parts.h"  // rank 0 writes what all ranks have
#include "runtime/model/weights.h"    // how long writing them takes
#include "runtime/ranks/comm.h"       // the other ranks wait
#include "runtime/run/export.h"       // writes the model
#include "runtime/run/records.h"      // the tokenizer that --tokenizer names
#include "runtime/run/reference.h"    // REFERENCE_FOLDER
#include "step.h"                     // model

static const char results[] = "results";
const char *const result_files[] = {results, "workspace", REFERENCE_FOLDER, NULL};

/* Columns of dpo.csv after epoch, step and tokens. */
static const struct {
    const char *name;
    int eval;
} column[] = {
    {"train_loss", EVAL_train_loss},           {"val_loss", EVAL_loss},
    {"train_margin", EVAL_train_margin},       {"val_margin", EVAL_margin},
    {"train_accuracy", EVAL_train_accuracy},   {"val_accuracy", EVAL_accuracy},
    {"policy_chosen", EVAL_policy_chosen},     {"policy_rejected", EVAL_policy_rejected},
    {"reference_chosen", EVAL_reference_chosen},
    {"reference_rejected", EVAL_reference_rejected}};
enum { COLUMNS = sizeof column / sizeof *column };

/* A row for each validation; tokens: of both answers, trained on so far. malloc'ed. */
static char *table(const Epochs *epochs)
{
    char *text = NULL;
    size_t n;
    double before = 0;           /* tokens of completed epochs */
    FILE *to = open_memstream(&text, &n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    fputs("epoch,step,tokens", to);
    for (int i = 0; i < COLUMNS; i++)
        fprintf(to, ",%s", column[i].name);
    fputc('\n', to);
    for (int64_t i = 0; i < epochs->n; i++) {
        const EpochRow *r = &epochs->row[i];
        const double tokens = r->step ? r->step_value[STEP_tokens] : 0;
        if (r->validated) {
            fprintf(to, "%.9g,%lld,%.0f", (double)r->step / (double)epochs->per_epoch,
                    (long long)r->step, before + tokens);
            for (int k = 0; k < COLUMNS; k++)
                fprintf(to, ",%.9g", r->eval_value[column[k].eval]);
            fputc('\n', to);
        }
        before += r->ends_epoch ? tokens : 0;
    }
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    return text;
}

char *results_write(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    (void)folder;
    if (world.rank != 0)
        return NULL;
    char *text = table(epochs), *error = folder_replace_below(f->out, results, "dpo.csv", text);
    free(text);
    return error;
}

/* The first records of a split with both answers and those of the initial and the final weights. */
static void write_examples(const Tokenizer *t, Split s, const char *name)
{
    const Answers by = answers_by(t);
    const cJSON *theirs = json_get(json_get(baseline, "answers"), split_name[s]);
    char *text = answers_text(&by, &split[s], examples_of(s), theirs), *error = NULL;
    if (world.rank == 0)
        error = folder_replace_below(flags->out, results, name, text);
    if (error)
        die(EXIT_IO, "%s", error);
    free(text);
}

/* OUT/workspace/NAME_fine-tuned, which transformers or PEFT load. */
static void write_model(const Flags *f, const Checkpoints *last)
{
    char *path = format("%s/workspace/%s_fine-tuned", f->out, model.name),
         *tokenizer = vocabulary_of_records(pairs_known(), records_tokenizer(f));
    export_write(last, &model, path, tokenizer);
    free(path), free(tokenizer);
}

void results_finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    const double seconds = baseline_seconds();
    double value[SPLITS][EVAL_METRICS];
    evaluate_splits(value);
    say_splits("after", value);
    note("%.1f minutes since the weights were loaded", seconds / 60);
    cJSON *all = cJSON_CreateObject();
    cJSON_AddItemToObject(all, "before", cJSON_Duplicate(json_get(baseline, "before"), true));
    cJSON_AddItemToObject(all, "after", splits_json(value));
    cJSON_AddNumberToObject(all, "minutes", seconds / 60);
    if (world.rank == 0) {
        char *text = folder_json_text(all);
        char *error = folder_replace_below(f->out, results, "evaluation.json", text);
        if (error)
            die(EXIT_IO, "%s", error);
        free(text);
    }
    cJSON_Delete(all);
    Tokenizer *t = find_tokenizer(f, folder, "there are no example answers");
    if (t && split[VALIDATION].n)
        write_examples(t, VALIDATION, "distributed_output_val.txt");
    if (t && split[TEST].n)
        write_examples(t, TEST, "distributed_output_test.txt");
    if (t)
        tokenizer_free(t);
    comm_expect(weights_seconds(&model));
    if (parts_gather(&model)) {
        write_model(f, last);
        parts_gathered();
    }
    comm_barrier();
    comm_expect(0);
}
