/* fake.h -- small models as tensors.h would describe them, for the driver of these tests.
 *
 * Keeps: shapes are those of the recorded folders under tests/train/ref. */
#ifndef FAKE_H
#define FAKE_H

#include "../../runtime/model/model.h"

/* kind: gpt2, llama, qwen2 (tied), bert, lora (qwen2 tied base, all linears), rslora (one layer, q and v,
 * trained head), gpt2lora; with -bf16 or -f16 after it: 16-bit weights and fp32 copies. config_json: text
 * of config.json. */
Model *fake_model(const char *kind, const char *config_json);
/* Every array as a function of step: weights by model_init, moments by a formula. */
void fake_fill(Model *m, int64_t step);
/* Name of the first tensor in which the two differ in any bit of any array; NULL: none. */
const char *fake_differ(const Model *a, const Model *b);

#endif
