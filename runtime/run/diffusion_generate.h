/* diffusion_generate.h -- --generate of masked-diffusion models: continuation, infilling.
 *
 * In:    a program that computes logits at masked positions of a batch
 *        (runtime/run/diffusion_sampler.h). */
#ifndef DIECAST_DIFFUSION_GENERATE_H
#define DIECAST_DIFFUSION_GENERATE_H

#include "runtime/data/data.h"
#include "runtime/data/tokenizer.h"
#include "runtime/run/diffusion_sampler.h"
#include "runtime/run/flags.h"

/* EXIT_CONFIG if generation flags contradict each other. positions, most: sequence length and block
 * of the DiffusionSampler. */
void diffusion_check(const Flags *f, int64_t positions, int64_t most);
/* Runs --generate TEXT (prints the text and its answer; only the answer with --generate-chat) or
 * --generate-file FILE (one object per line, {"prompt", "answer"} or {"messages", "answer"}), on
 * rank 0's standard output. windows: the model was trained on text windows and prompts start like
 * the first one; else on answers. folder: of the weights. Returns the exit status. */
int diffusion_print(const DiffusionSampler *d, const Flags *f, int64_t mask, bool windows,
                    const char *const folder[], int nfolders);
/* After a validation: samples a text from the first eighth of a row, or from its leading tokens
 * that are never masked, at most half a row. Goes to the log and to OUT/samples.jsonl, where it
 * replaces entries of this or a later step. tokenizer: its file. Collective. Returns NULL, or a
 * malloc'ed message. */
char *diffusion_sample_text(const DiffusionSampler *d, const Flags *f, int64_t mask,
                            const char *tokenizer, const DataRow *row, int64_t step);

#endif
