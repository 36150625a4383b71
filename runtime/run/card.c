/* card.c -- model card (README.md) of an exported folder.
 *
 * Method: metadata lines `key: value`, which the hub reads, then text. */
#define _GNU_SOURCE
#include "runtime/run/card.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

static const char *const license_keys[] = {"license", "license_name", "license_link"};
enum { LICENSE_KEYS = sizeof license_keys / sizeof *license_keys };

/* ---- names ----------------------------------------------------------------------------------- */

/* Returns the last part of a path, without characters that end a name in Markdown; malloc'ed. */
static char *leaf(const char *path, size_t n)
{
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    char *name = n == 1 && *path == '-' ? format("standard input")
                                        : format("%.*s", (int)(n - from), path + from);
    for (char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c) || strchr("`|<>", *c))
            *c = '_';
    return name;
}

/* Returns the hub's name of a folder, from a cache path models--ORG--NAME/snapshots/.., otherwise
 * the folder's name; malloc'ed. */
static char *base_name(const char *folder)
{
    const char *at = strstr(folder, "models--"), *end = at ? strchr(at, '/') : NULL;
    if (!end || strncmp(end, "/snapshots/", 11))
        return leaf(folder, strlen(folder));
    at += strlen("models--");
    const char *two = strstr(at, "--");
    return two && two < end
               ? format("%.*s/%.*s", (int)(two - at), at, (int)(end - two - 2), two + 2)
               : format("%.*s", (int)(end - at), at);
}

static void add_files(cJSON *to, const char *key, const char *paths)
{
    cJSON *list = *paths ? cJSON_AddArrayToObject(to, key) : NULL;
    for (size_t n; *paths; paths += n + (paths[n] == ',')) {
        n = strcspn(paths, ",");
        char *name = leaf(paths, n);
        if (n)
            cJSON_AddItemToArray(list, cJSON_CreateString(name));
        free(name);
    }
}

/* Returns the metadata of a card under `key`, if it is one plain word or address; malloc'ed, NULL:
 * none. */
static char *head_value(const char *card, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(card, "---\n", 4))
        return NULL;
    for (const char *line = card + 4; *line && strncmp(line, "---", 3);) {
        const size_t length = strcspn(line, "\r\n");
        if (length > n && !strncmp(line, key, n) && line[n] == ':') {
            const char *from = line + n + 1 + strspn(line + n + 1, " \"'");
            int k = (int)strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz01234567"
                                      "89._-+:/#?=&%");
            return k && k < 200 && from[k - 1] != ':' && strchr("\"'\r\n ", from[k])
                       ? format("%.*s", k, from)
                       : NULL;
        }
        line += length;
        line += *line == '\r';
        line += *line == '\n';
    }
    return NULL;
}

static void add_license(cJSON *to, const char *base)
{
    size_t n;
    char *path = folder_join(base, "README.md"), *error = NULL,
         *card = file_read(path, 1 << 20, &n, &error);
    for (int i = 0; card && i < LICENSE_KEYS; i++) {
        char *value = head_value(card, license_keys[i]);
        if (value)
            cJSON_AddStringToObject(to, license_keys[i], value);
        free(value);
    }
    free(path), free(error), free(card);
}

static void add_base(cJSON *to, const char *base)
{
    char *name = base_name(base);
    cJSON_AddStringToObject(to, "base", name);
    add_license(to, base);
    free(name);
}

/* Flags that name data files; a program has some of them. */
static const char *const record_flags[] = {"data", "eval_data", "meta_data"};

cJSON *card_sources(const Checkpoints *c)
{
    cJSON *made = cJSON_CreateObject();
    const cJSON *before = json_get(c->file, "made_of");
    if (c->base)
        add_base(made, c->base);
    else if (!*c->flags->init_from)                      /* resumed run: as recorded at its start */
        for (const cJSON *i = before ? before->child : NULL; i; i = i->next)
            if (cJSON_IsString(i))
                cJSON_AddStringToObject(made, i->string, i->valuestring);
    for (size_t i = 0; i < sizeof record_flags / sizeof *record_flags; i++) {
        const int flag = flags_find(record_flags[i]);
        if (flag >= 0)
            add_files(made, record_flags[i], flags_word(c->flags, flag));
    }
    return made;
}

/* ---- the text -------------------------------------------------------------------------------- */

typedef struct {
    const char *pattern, *loader, *pipeline, *left_out;
} HubRow;

typedef struct {
    FILE *to;
    const Checkpoints *c;
    const Model *m;
    bool adapter;
    const char *tokenizer;       /* class that loads it in transformers, and its arguments; NULL:
                                    none */
    const char *tokenizer_call;
    cJSON *made, *trainer, *config, *lora;
    const HubRow *hub;           /* NULL: transformers has no such class */
} Card;

static const char *word(const cJSON *of, const char *key)
{
    return cJSON_GetStringValue(json_get(of, key));
}

/* Returns the last row of hub.def that fits the class of a config.json; NULL: none. */
static const HubRow *hub_row(const cJSON *config)
{
    static const HubRow row[] = {
#define HUB(pattern, loader, pipeline, left_out) { pattern, loader, pipeline, left_out },
#include "runtime/run/hub.def"
#undef HUB
    };
    const char *class =
        cJSON_GetStringValue(cJSON_GetArrayItem(json_get(config, "architectures"), 0));
    const HubRow *found = NULL;
    for (size_t i = 0; class && i < sizeof row / sizeof *row; i++)
        if (!fnmatch(row[i].pattern, class, 0))
            found = &row[i];
    return found;
}

static bool generates(const HubRow *row)
{
    return row && !strcmp(row->pipeline, "text-generation");
}

bool card_generates(const Model *m)
{
    char *error = NULL;
    cJSON *config = json_parse(m->config_json, strlen(m->config_json), &error);
    const bool does = generates(hub_row(config));
    cJSON_Delete(config);
    free(error);
    return does;
}

static void write_head(const Card *k)
{
    const char *base = word(k->made, "base");
    fprintf(k->to, "---\n");
    if (k->hub)
        fprintf(k->to, "library_name: %s\n", k->adapter ? "peft" : "transformers");
    if (base)
        fprintf(k->to, "base_model: \"%s\"\n", base);
    if (k->hub)
        fprintf(k->to, "pipeline_tag: %s\n", k->hub->pipeline);
    for (int i = 0; i < LICENSE_KEYS; i++)
        if (word(k->made, license_keys[i]))
            fprintf(k->to, "%s: \"%s\"\n", license_keys[i], word(k->made, license_keys[i]));
    fprintf(k->to, "tags:\n- diecast\n- %s\n", k->m->objective);
    if (k->lora)
        fprintf(k->to, "- lora\n");
    fprintf(k->to, "---\n\n");
}

static void write_list(const Card *k, const char *what, const char *key)
{
    const cJSON *list = json_get(k->made, key), *item;
    const char *between = "";
    if (!cJSON_GetArraySize(list))
        return;
    fprintf(k->to, "| %s | ", what);
    cJSON_ArrayForEach(item, list) {
        fprintf(k->to, "%s`%s`", between, item->valuestring);
        between = ", ";
    }
    fprintf(k->to, " |\n");
}

static void write_modules(const Card *k, const char *what, const char *key)
{
    const cJSON *list = json_get(k->lora, key), *item;
    const char *between = "";
    if (!cJSON_GetArraySize(list))
        return;
    fprintf(k->to, ", %s", what);
    cJSON_ArrayForEach(item, list) {
        fprintf(k->to, "%s%s", between, cJSON_IsString(item) ? item->valuestring : "?");
        between = ", ";
    }
}

/* Returns the number of parameters; without those of the adapter's pairs where they are merged. */
static int64_t parameters(const Card *k)
{
    int64_t n = k->m->parameters;
    for (int i = 0; !k->adapter && i < k->m->ntensors; i++)
        if (strstr(k->m->tensors[i].name, ".lora_"))
            n -= model_elements(&k->m->tensors[i]);
    return n;
}

static void write_origin(const Card *k)
{
    const Model *m = k->m;
    const cJSON *layout = json_get(k->c->file, "layout");
    const char *hash = word(layout, "recipe_hash"), *by = word(layout, "generator");
    char *recipe = leaf(m->recipe, strlen(m->recipe));
    fprintf(k->to, "| | |\n|---|---|\n");
    fprintf(k->to, "| base | %s |\n",
            word(k->made, "base")             ? word(k->made, "base")
            : json_get(k->c->file, "made_of") ? "random weights"
                                              : "not recorded");
    fprintf(k->to,
            "| objective | %s |\n| family | %s, %" PRId64 " parameters, %" PRId64 " trained |\n",
            m->objective, m->family, parameters(k), m->trained);
    fprintf(k->to, "| precision | %s |\n", m->precision);
    if (k->lora) {
        fprintf(k->to, "| LoRA | rank %g, alpha %g%s", json_get(k->lora, "r")->valuedouble,
                json_get(k->lora, "lora_alpha")->valuedouble,
                cJSON_IsTrue(json_get(k->lora, "use_rslora")) ? " (rslora)" : "");
        write_modules(k, "targets ", "target_modules");
        write_modules(k, "whole: ", "modules_to_save");
        fprintf(k->to, "%s |\n", k->adapter ? "" : "; merged into the base");
    }
    write_list(k, "data", "data");
    write_list(k, "validation data", "eval_data");
    write_list(k, "records that weights are learned of", "meta_data");
    fprintf(k->to, "| recipe | `%s`, %.12s |\n| program | %s |\n", recipe, hash ? hash : m->hash,
            by ? by : m->generator);
    free(recipe);
}

static bool is_metric(const char *key)
{
    static const char *const others[] = {"*_per_second", "*_runtime", "epoch", "step",
                                         "total_flos"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (fnmatch(others[i], key, 0) == 0)
            return false;
    return true;
}

/* Prints the numbers of the last record that has `key`. */
static void write_last(const Card *k, const char *what, const char *key)
{
    const cJSON *record, *last = NULL, *item;
    cJSON_ArrayForEach(record, json_get(k->trainer, "log_history"))
        if (cJSON_IsNumber(json_get(record, key)))
            last = record;
    cJSON_ArrayForEach(item, last)
        if (cJSON_IsNumber(item) && is_metric(item->string))
            fprintf(k->to, "| %s | %s | %.6g |\n", what, item->string, item->valuedouble);
}

/* False for a share of the training data where validation files replace it. */
static bool is_used(const Card *k, int flag)
{
    return flag != FLAG_eval_share || !cJSON_GetArraySize(json_get(k->made, "eval_data"));
}

static void write_training(const Card *k)
{
    const cJSON *t = k->trainer, *flags = json_get(k->c->file, "flags"),
                *layout = json_get(k->c->file, "layout"),
                *tokens = json_get(t, "num_input_tokens_seen"), *epoch = json_get(t, "epoch"),
                *most = json_get(json_get(k->c->file, "state"), "total");
    if (!k->c->file) {
        fprintf(k->to, "\nThese weights were exported as loaded, without training.\n");
        return;
    }
    fprintf(k->to, "\n## Training\n\n| | |\n|---|---|\n| steps | %" PRId64, k->c->step);
    if (cJSON_IsNumber(most))
        fprintf(k->to, " of %.0f", most->valuedouble);
    if (cJSON_IsNumber(epoch))
        fprintf(k->to, ", %.4g epoch%s", epoch->valuedouble, epoch->valuedouble == 1 ? "" : "s");
    fprintf(k->to, " |\n");
    if (cJSON_IsNumber(tokens) && tokens->valuedouble > 0)
        fprintf(k->to, "| tokens | %.0f |\n", tokens->valuedouble);
    fprintf(k->to, "| samples a step | %.0f", json_get(k->c->file, "global_batch")->valuedouble);
    static const struct { const char *key, *text; } parts[] = {
        {"micro", ": "}, {"accum", " x "}, {"ranks", " accumulated x "}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (cJSON_IsNumber(json_get(layout, parts[i].key)))
            fprintf(k->to, "%s%.0f", parts[i].text, json_get(layout, parts[i].key)->valuedouble);
    const cJSON *ranks = json_get(layout, "ranks");
    fprintf(k->to, " rank%s |\n", ranks && ranks->valuedouble == 1 ? "" : "s");
    for (int i = 0; i < FLAG_COUNT; i++) {
        const char *value = flags_has(i) && is_used(k, i) ? word(flags, flags_name(i)) : NULL;
        char *name = flags_spelt(i);
        if (value && *value && strcspn(value, "\n|`<") == strlen(value))
            fprintf(k->to, "| `%s` | %s |\n", name, value);
        free(name);
    }
    fprintf(k->to, "\n## Results\n\n| | | |\n|---|---|---|\n");
    write_last(k, "last step that was logged", "loss");
    write_last(k, "all steps", "train_loss");
    write_last(k, "last validation", "eval_loss");
}

/* Prints Python code that scores the steps of a solution, as --score does. An adapter without a
 * trained head uses that of the base. */
static void write_scores(const Card *k, const char *base)
{
    const Additions *a = k->m->additions;
    const cJSON *saved, *all = json_get(k->lora, "modules_to_save");
    bool has_score = !k->adapter;
    if (!a || !a->mark || !k->tokenizer)
        return;
    cJSON_ArrayForEach(saved, all)
        has_score = has_score ||
                    (cJSON_IsString(saved) && !strncmp(saved->valuestring, "score", 5));
    char *mark = json_quoted(a->mark), *system = json_quoted(a->system),
         *turn = !*a->system ? format("%s", "")
                             : format("{\"role\": \"system\", \"content\": %s}, ", system);
    fprintf(k->to,
            "\nimport torch\nfrom glob import glob\nfrom safetensors.torch import load_file\n\n");
    fprintf(k->to, "head = {k[k.find(\"score.\"):]: v.float() for f in glob(\"%s/*.safetensors\")\n"
            "        for k, v in load_file(f).items() if \"score.\" in k}\n",
            has_score ? "." : base);
    fprintf(k->to,
            "\ndef score(problem, steps):    # probability that each step but the last is right\n "
            "   turns = [%s{\"role\": \"user\", \"content\": problem},\n             {\"role\": "
            "\"assistant\", \"content\": %s.join(steps)}]\n",
            turn, mark);
    fprintf(k->to,
            "    text = tokenizer.apply_chat_template(turns, tokenize=False)\n"
            "    ids = tokenizer(text, return_tensors=\"pt\", add_special_tokens=False).input_ids\n"
            "    with torch.no_grad():\n"
            "        x = model(input_ids=ids).last_hidden_state[ids == "
            "tokenizer.convert_tokens_to_ids(%s)].float()\n"
            "        x = torch.relu(x @ head[\"score.0.weight\"].T + head[\"score.0.bias\"])\n"
            "        x = x @ head[\"score.2.weight\"].T + head[\"score.2.bias\"]\n"
            "    return torch.softmax(x, -1)[:, 1].tolist()\n",
            mark);
    free(mark), free(system), free(turn);
}

static void write_use(const Card *k)
{
    const char *base = word(k->made, "base");
    const bool ends = k->adapter && k->tokenizer && k->c->file && generates(k->hub);
    fprintf(k->to, "\n## Use\n\n");
    if (!k->hub || (k->adapter && !base)) {
        fprintf(k->to,
                "transformers has no class for it; load it in a program generated by diecast: "
                "`--%s FOLDER`.\n",
                k->adapter ? "adapter" : "init-from");
        return;
    }
    fprintf(k->to, "In this folder%s:\n\n```python\n",
            k->adapter ? ", with the base next to it or on the hub" : "");
    if (k->adapter)
        fprintf(k->to, "from peft import PeftModel\n");
    fprintf(k->to, "from transformers import %s%s%s%s\n\n", k->hub->loader,
            k->tokenizer ? ", " : "", k->tokenizer ? k->tokenizer : "",
            ends ? ", GenerationConfig" : "");
    const int64_t rows = model_extra_vocab_rows(k->m);
    if (k->adapter) {
        fprintf(k->to, "model = %s.from_pretrained(\"%s\", dtype=\"auto\")\n", k->hub->loader,
                base);
        if (rows)
            fprintf(k->to,
                    "model.resize_token_embeddings(%" PRId64 ")    # a row for the added token\n",
                    rows);
        fprintf(k->to, "model = PeftModel.from_pretrained(model, \".\")\n%s",
                ends ? "model.generation_config = GenerationConfig.from_pretrained(\".\")\n" : "");
    } else
        fprintf(k->to, "model = %s.from_pretrained(\".\", dtype=\"auto\")\n", k->hub->loader);
    if (k->tokenizer)
        fprintf(k->to, "tokenizer = %s%s\n", k->tokenizer, k->tokenizer_call);
    write_scores(k, base);
    fprintf(k->to, "```\n");
    if (*k->hub->left_out)
        fprintf(k->to, "\n%s\n", k->hub->left_out);
}

/* Finds the class that loads the tokenizer. transformers reads a word vocabulary from a copy in its
 * own format, with a class that needs the special tokens as arguments. */
static void find_tokenizer(Card *k, const char *file, bool words, bool plain)
{
    k->tokenizer = !file ? NULL : words || plain ? "PreTrainedTokenizerFast" : "AutoTokenizer";
    k->tokenizer_call = !words ? ".from_pretrained(\".\")"
                               : "(tokenizer_file=\"tokenizer_hf.json\", mask_token=\"[MASK]\", "
                                 "pad_token=\"[PAD]\", "
                                 "unk_token=\"[UNK]\", cls_token=\"[CLS]\", sep_token=\"[SEP]\")";
}

char *card_text(const Checkpoints *c, const Model *m, bool adapter, const char *tokenizer,
                bool words, bool plain)
{
    size_t n;
    char *text = NULL, *error = NULL;
    const cJSON *made = json_get(c->file, "made_of");
    Card k = {.to = open_memstream(&text, &n),
              .c = c,
              .m = m,
              .adapter = adapter,
              .made = made ? cJSON_Duplicate(made, true) : cJSON_CreateObject(),
              .config = json_parse(m->config_json, strlen(m->config_json), &error),
              .lora = m->adapter_json ? json_parse(m->adapter_json, strlen(m->adapter_json), &error)
                                      : NULL};
    if (!k.to || error)
        die(EXIT_INTERNAL, "README.md: %s", error ? error : "out of memory");
    if (c->found)
        k.trainer = folder_read_nofollow(c->found, "trainer_state.json", 1u << 30, &error);
    free(error);
    if (!made && c->base)
        add_base(k.made, c->base);
    k.hub = hub_row(k.config);
    find_tokenizer(&k, tokenizer, words, plain);
    write_head(&k);
    char *name = leaf(m->name, strlen(m->name));
    fprintf(k.to, "# %s%s\n\n", name, adapter ? ", adapter" : "");
    free(name);
    write_origin(&k);
    write_training(&k);
    write_use(&k);
    fclose(k.to);
    cJSON_Delete(k.made), cJSON_Delete(k.trainer), cJSON_Delete(k.config), cJSON_Delete(k.lora);
    return text;
}
