/* results.c -- names checkpoints, writes the final model. */
#define _GNU_SOURCE
#include "results.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"             // format(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer that goes with the model
#include "runtime/model/model_parts.h"  // rank 0 writes what all ranks have
#include "runtime/model/weights.h"    // how long writing them takes
#include "runtime/ranks/comm.h"       // the other ranks wait
#include "runtime/run/export.h"       // writes the model
#include "runtime/run/records.h"      // the tokenizer that --tokenizer names
#include "runtime/run/run_folder.h"   // names of checkpoints
#include "step.h"                     // model

const char checkpoints[] = "checkpoints";

char *final_folder(const Flags *f)
{
    return format("%s/%s/%s", f->out, checkpoints,
                  model.adapter_json ? "lora_adapters" : "final_model");
}

char *checkpoint_name(const Epochs *epochs, int64_t step, bool best)
{
    (void)epochs, (void)best;
    return format("%s/checkpoint_step_%lld", checkpoints, (long long)step);
}

/* Removes the names of checkpoints that are gone. */
char *checkpoint_named(const Flags *f, const char *path, const Epochs *epochs)
{
    (void)path, (void)epochs;
    return run_folder_forget(f->out, "checkpoints/checkpoint_step_");
}

static void write_model(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    const char *all[WEIGHT_FOLDERS + 1];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = trained->folder;
    char *path = final_folder(f),
         *file = vocabulary_file(trained->tokenizer, records_tokenizer(f), all, WEIGHT_FOLDERS + 1);
    export_write(last, &model, path, file);
    free(path), free(file);
}

void model_write(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    comm_expect(weights_seconds(&model));
    if (parts_gather(&model)) {
        write_model(f, folder, last);
        parts_gathered();
    }
    comm_barrier();
    comm_expect(0);
}
