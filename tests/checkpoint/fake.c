/* fake.c -- small models as tensors.h would describe them.
 *
 * Keeps: q, k and v of llama and qwen2 are rows of one parameter, as gen lays them out. */
#define _GNU_SOURCE
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/base.h"

enum { ROWS = 64 };

typedef struct {
    Tensor row[ROWS];
    int n;
    ElementType type;
    bool lora;               /* the base is frozen */
} Build;

static void *zeros(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p)
        abort();
    return p;
}

static const size_t bytes_of[] = { [EL_F32] = 4, [EL_BF16] = 2, [EL_F16] = 2 };

static void give_arrays(Build *b, Tensor *t, int64_t n)
{
    t->trained = t->adapter || !b->lora;
    const ElementType type = t->adapter ? EL_F32 : b->type;
    t->weight = (Array){.at = zeros(n, bytes_of[type]), .type = type};
    if (!t->trained)
        return;
    if (type != EL_F32)
        t->master.at = zeros(n, 4);
    t->exp_avg.at = zeros(n, 4);
    t->exp_avg_sq.at = zeros(n, 4);
}

/* A parameter of one tensor a layer (layers = 0: one). */
static void add(Build *b, const char *name, int layers, int64_t rows, int64_t cols, bool transposed)
{
    Tensor *t = &b->row[b->n++];
    *t = (Tensor){ .name = name, .layers = layers, .rank = cols ? 2 : 1, .shape = { rows, cols },
                   .transposed = transposed, .init = INIT_NORMAL, .init_arg = 0.5f };
    t->adapter = strncmp(name, "base_model.", 11) == 0;
    int64_t each = rows * (cols ? cols : 1);
    t->stride = each;
    give_arrays(b, t, each * (layers ? layers : 1));
}

/* q, k, v of a layer, one after the other in one parameter. */
static void add_qkv(Build *b, const char *const name[3], int layers, const int64_t rows[3],
                    int64_t cols)
{
    int64_t width = cols ? cols : 1, stride = (rows[0] + rows[1] + rows[2]) * width, first = 0;
    Tensor shared = { 0 };
    give_arrays(b, &shared, stride * layers);
    for (int i = 0; i < 3; i++) {
        Tensor *t = &b->row[b->n++];
        *t = shared;
        t->name = name[i];
        t->layers = layers;
        t->rank = cols ? 2 : 1;
        t->shape[0] = rows[i];
        t->shape[1] = cols;
        t->init = INIT_NORMAL;
        t->init_arg = 0.5f;
        t->first = first;
        t->stride = stride;
        first += rows[i] * width;
    }
}

static void llama(Build *b, int64_t H, int64_t I, int64_t kv, int layers, bool bias, bool tied)
{
    static const char *const w[3] = { "model.layers.%d.self_attn.q_proj.weight",
                                      "model.layers.%d.self_attn.k_proj.weight",
                                      "model.layers.%d.self_attn.v_proj.weight" };
    static const char *const v[3] = { "model.layers.%d.self_attn.q_proj.bias",
                                      "model.layers.%d.self_attn.k_proj.bias",
                                      "model.layers.%d.self_attn.v_proj.bias" };
    add(b, "model.embed_tokens.weight", 0, 257, H, false);
    add(b, "model.layers.%d.input_layernorm.weight", layers, H, 0, false);
    add_qkv(b, w, layers, (int64_t[]){ H, kv, kv }, H);
    if (bias)
        add_qkv(b, v, layers, (int64_t[]){ H, kv, kv }, 0);
    add(b, "model.layers.%d.self_attn.o_proj.weight", layers, H, H, false);
    add(b, "model.layers.%d.post_attention_layernorm.weight", layers, H, 0, false);
    add(b, "model.layers.%d.mlp.gate_proj.weight", layers, I, H, false);
    add(b, "model.layers.%d.mlp.up_proj.weight", layers, I, H, false);
    add(b, "model.layers.%d.mlp.down_proj.weight", layers, H, I, false);
    add(b, "model.norm.weight", 0, H, 0, false);
    if (!tied)
        add(b, "lm_head.weight", 0, 257, H, false);
}

static void gpt2(Build *b, int64_t H, int layers)
{
    add(b, "transformer.wte.weight", 0, 257, H, false);
    add(b, "transformer.wpe.weight", 0, 64, H, false);
    add(b, "transformer.h.%d.ln_1.weight", layers, H, 0, false);
    add(b, "transformer.h.%d.ln_1.bias", layers, H, 0, false);
    add(b, "transformer.h.%d.attn.c_attn.weight", layers, 3 * H, H, true);
    add(b, "transformer.h.%d.attn.c_attn.bias", layers, 3 * H, 0, false);
    add(b, "transformer.h.%d.attn.c_proj.weight", layers, H, H, true);
    add(b, "transformer.h.%d.attn.c_proj.bias", layers, H, 0, false);
    add(b, "transformer.h.%d.ln_2.weight", layers, H, 0, false);
    add(b, "transformer.h.%d.ln_2.bias", layers, H, 0, false);
    add(b, "transformer.h.%d.mlp.c_fc.weight", layers, 4 * H, H, true);
    add(b, "transformer.h.%d.mlp.c_fc.bias", layers, 4 * H, 0, false);
    add(b, "transformer.h.%d.mlp.c_proj.weight", layers, H, 4 * H, true);
    add(b, "transformer.h.%d.mlp.c_proj.bias", layers, H, 0, false);
    add(b, "transformer.ln_f.weight", 0, H, 0, false);
    add(b, "transformer.ln_f.bias", 0, H, 0, false);
}

static void bert(Build *b, int64_t H, int64_t I, int layers)
{
    static const char *const w[3] = { "bert.encoder.layer.%d.attention.self.query.weight",
                                      "bert.encoder.layer.%d.attention.self.key.weight",
                                      "bert.encoder.layer.%d.attention.self.value.weight" };
    static const char *const v[3] = { "bert.encoder.layer.%d.attention.self.query.bias",
                                      "bert.encoder.layer.%d.attention.self.key.bias",
                                      "bert.encoder.layer.%d.attention.self.value.bias" };
    add(b, "bert.embeddings.word_embeddings.weight", 0, 205, H, false);
    add(b, "bert.embeddings.position_embeddings.weight", 0, 32, H, false);
    add(b, "bert.embeddings.token_type_embeddings.weight", 0, 2, H, false);
    add(b, "bert.embeddings.LayerNorm.weight", 0, H, 0, false);
    add(b, "bert.embeddings.LayerNorm.bias", 0, H, 0, false);
    add_qkv(b, w, layers, (int64_t[]){ H, H, H }, H);
    add_qkv(b, v, layers, (int64_t[]){ H, H, H }, 0);
    add(b, "bert.encoder.layer.%d.attention.output.dense.weight", layers, H, H, false);
    add(b, "bert.encoder.layer.%d.attention.output.dense.bias", layers, H, 0, false);
    add(b, "bert.encoder.layer.%d.attention.output.LayerNorm.weight", layers, H, 0, false);
    add(b, "bert.encoder.layer.%d.attention.output.LayerNorm.bias", layers, H, 0, false);
    add(b, "bert.encoder.layer.%d.intermediate.dense.weight", layers, I, H, false);
    add(b, "bert.encoder.layer.%d.intermediate.dense.bias", layers, I, 0, false);
    add(b, "bert.encoder.layer.%d.output.dense.weight", layers, H, I, false);
    add(b, "bert.encoder.layer.%d.output.dense.bias", layers, H, 0, false);
    add(b, "bert.encoder.layer.%d.output.LayerNorm.weight", layers, H, 0, false);
    add(b, "bert.encoder.layer.%d.output.LayerNorm.bias", layers, H, 0, false);
    add(b, "cls.predictions.transform.dense.weight", 0, H, H, false);
    add(b, "cls.predictions.transform.dense.bias", 0, H, 0, false);
    add(b, "cls.predictions.transform.LayerNorm.weight", 0, H, 0, false);
    add(b, "cls.predictions.transform.LayerNorm.bias", 0, H, 0, false);
    add(b, "cls.predictions.bias", 0, 205, 0, false);
}

/* One LoRA pair of rank 4 and its row of the merge table. */
static void adapt(Build *b, Merge *merge, const char *module, int layers, int64_t out, int64_t in,
                  float scale)
{
    merge->weight = format("%s.weight", module);
    merge->a = format("base_model.model.%s.lora_A.weight", module);
    merge->b = format("base_model.model.%s.lora_B.weight", module);
    merge->layers = layers;
    merge->scale = scale;
    add(b, merge->a, layers, 4, in, false);
    add(b, merge->b, layers, out, 4, false);
}

#define ADAPTER(targets, saved, rslora)                                                            \
    "{\"base_model_name_or_path\": \"\", \"bias\": \"none\", \"fan_in_fan_out\": false, "          \
    "\"inference_mode\": true, \"init_lora_weights\": true, \"layers_pattern\": null, "            \
    "\"layers_to_transform\": null, \"lora_alpha\": 8, \"lora_dropout\": 0.0, "                    \
    "\"modules_to_save\": " saved ", \"peft_type\": \"LORA\", \"r\": 4, \"rank_pattern\": {}, "    \
    "\"alpha_pattern\": {}, \"revision\": null, \"target_modules\": " targets ", "                 \
    "\"task_type\": \"CAUSAL_LM\", \"use_dora\": false, \"use_rslora\": " rslora "}"

static void lora(Build *b, Model *m)
{
    static const struct { const char *module; int64_t out, in; } linear[] = {
        { "model.layers.%d.self_attn.q_proj", 48, 48 }, { "model.layers.%d.self_attn.k_proj", 24, 48 },
        { "model.layers.%d.self_attn.v_proj", 24, 48 }, { "model.layers.%d.self_attn.o_proj", 48, 48 },
        { "model.layers.%d.mlp.gate_proj", 80, 48 }, { "model.layers.%d.mlp.up_proj", 80, 48 },
        { "model.layers.%d.mlp.down_proj", 48, 80 },
    };
    Merge *merge = zeros(7, sizeof *merge);
    llama(b, 48, 80, 24, 2, true, true);
    for (int i = 0; i < 7; i++)
        adapt(b, &merge[i], linear[i].module, 2, linear[i].out, linear[i].in, 2.0f);
    m->adapter_json = ADAPTER("[\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", "
                              "\"up_proj\", \"down_proj\"]", "null", "false");
    m->adapter_folders = &hf_adapter_folders;
    m->merges = merge;
    m->nmerges = 7;
}

static void rslora(Build *b, Model *m)
{
    Merge *merge = zeros(2, sizeof *merge);
    llama(b, 48, 80, 24, 1, true, true);
    adapt(b, &merge[0], "model.layers.%d.self_attn.q_proj", 1, 48, 48, 4.0f);
    adapt(b, &merge[1], "model.layers.%d.self_attn.v_proj", 1, 24, 48, 4.0f);
    add(b, "base_model.model.lm_head.weight", 0, 257, 48, false);
    m->adapter_json = ADAPTER("[\"q_proj\", \"v_proj\"]", "[\"lm_head\"]", "true");
    m->adapter_folders = &hf_adapter_folders;
    m->merges = merge;
    m->nmerges = 2;
}

static void gpt2_lora(Build *b, Model *m)
{
    Merge *merge = zeros(2, sizeof *merge);
    gpt2(b, 64, 2);
    adapt(b, &merge[0], "transformer.h.%d.attn.c_attn", 2, 192, 64, 2.0f);
    adapt(b, &merge[1], "transformer.h.%d.mlp.c_proj", 2, 64, 256, 2.0f);
    m->adapter_json = ADAPTER("[\"c_attn\", \"mlp.c_proj\"]", "null", "false");
    m->adapter_folders = &hf_adapter_folders;
    m->merges = merge;
    m->nmerges = 2;
}

Model *fake_model(const char *kind, const char *config_json)
{
    Model *m = zeros(1, sizeof *m);
    Build *b = zeros(1, sizeof *b);
    size_t n = strcspn(kind, "-");
    b->type = strcmp(kind + n, "-bf16") == 0 ? EL_BF16 : strcmp(kind + n, "-f16") == 0 ? EL_F16 : EL_F32;
    b->lora = strstr(kind, "lora") != NULL;
    *m = (Model){ .recipe = "recipes/fake.lua", .name = "fake", .hash = "00ff", .generator = "0.1",
                  .objective = "causal_lm", .precision = "fp32", .target = "cpu",
                  .model_fields = format("model.kind=%s\nmodel.hidden=64", kind),
                  .config_json = config_json, .micro = 2, .accum = 2, .ranks = 1,
                  .longest = 32 };
    if (strncmp(kind, "gpt2", n) == 0)
        gpt2(b, 64, 2);
    else if (strncmp(kind, "llama", n) == 0)
        llama(b, 64, 96, 32, 2, false, false);
    else if (strncmp(kind, "qwen2", n) == 0)
        llama(b, 48, 80, 24, 2, true, true);
    else if (strncmp(kind, "bert", n) == 0)
        bert(b, 32, 64, 2);
    else if (strncmp(kind, "gpt2lora", n) == 0)
        gpt2_lora(b, m);
    else if (strncmp(kind, "lora", n) == 0)
        lora(b, m);
    else
        rslora(b, m);
    m->tensors = model_expand(b->row, b->n, &m->ntensors);
    return m;
}

void fake_fill(Model *m, int64_t step)
{
    model_init(m, (uint64_t)step);
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        int64_t n = model_elements(t);
        float *m1 = t->exp_avg.at, *m2 = t->exp_avg_sq.at;
        for (int64_t e = t->first; m1 && e < t->first + n; e++) {
            m1[e] = (float)((step * 7919 + i * 104729 + e * 31) % 2003) / 2003.0f;
            m2[e] = (float)((step * 6007 + i * 15485 + e * 17) % 3001) * 1e-9f;
        }
    }
}

static bool same(const Tensor *a, Array x, Array y)
{
    const size_t size = bytes_of[x.type], at = (size_t)a->first * size;
    return !x.at == !y.at && (!x.at || memcmp((const char *)x.at + at, (const char *)y.at + at,
                                              (size_t)model_elements(a) * size) == 0);
}

const char *fake_differ(const Model *a, const Model *b)
{
    for (int i = 0; i < a->ntensors; i++) {
        const Tensor *s = &a->tensors[i], *t = &b->tensors[i];
        if (!same(s, s->weight, t->weight) || !same(s, s->master, t->master) ||
            !same(s, s->exp_avg, t->exp_avg) || !same(s, s->exp_avg_sq, t->exp_avg_sq))
            return s->name;
    }
    return NULL;
}
