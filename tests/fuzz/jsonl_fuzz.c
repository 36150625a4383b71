// link: pack_tables pack_formats pack_rows pack_keys pack_lengths pack_steps format_* pack_chat pack_template pack_turns pack_render* jinja_* pack_encoded pack_write pack_prepared pack_read folder recordfile host_memory names base json crc32c safetensors safetensors_write
// link: sha256 tokenizer* bpe tokens wordpiece words -lcjson -lpcre2-8 -lutf8proc -lm
/* jsonl_fuzz.c -- a line of JSON: strict check against cJSON, print and read again, one row of pack.
 *
 * In:    first byte: byte vocabulary, ChatML or Llama-3 tokenizer, chat format, loss; then the line,
 *        which is a row and a line of samples of words, too. */
#define _GNU_SOURCE
#include "../../runtime/pack/format_steps.h"

#include "../../runtime/files/json.h"
#include "../../runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)

static Tokenizer *tokenizers[3];
static Rules chats[3][3];        /* of each tokenizer */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const paths[] = {"bytes", "tests/tokenizer/qwen2/tokenizer.json",
                                        "tests/tokenizer/llama3/tokenizer.json"};
    static const char *const names[3][3] = {{NULL, NULL, NULL}, {"qwen2", "qwen3", "llama-2"},
                                            {"llama-3", "llama-3.1", NULL}};
    (void)argc, (void)argv;
    for (int i = 0; i < 9; i++) {
        Rules *r = &chats[i / 3][i % 3];
        char *why;
        WANT(i % 3 || !tokenizer_load(&tokenizers[i / 3], paths[i / 3]));
        for (int k = 0; k < 4 && i == 3; k++)
            WANT(!tokenizer_add(tokenizers[1], (const char *const[]){"<s>", "</s>", "<think>", "</think>"}[k],
                                700 + k));
        r->formats = pack_all_formats;
        r->system = PACK_SYSTEM;
        r->no_chat = chat_choose(&r->chat, &why, tokenizers[i / 3], paths[i / 3],
                                 names[i / 3][i % 3]);
        WANT(i / 3 ? !r->no_chat : r->no_chat && !r->chat);
    }
    return 0;
}

static void print_and_read(const cJSON *tree)
{
    char *text, *again, *error;
    size_t n, m;
    FILE *f = open_memstream(&text, &n);
    WANT(json_write_hf(f, tree));
    fclose(f);
    cJSON *back = json_parse(text, n, &error);
    WANT(back);
    f = open_memstream(&again, &m);
    WANT(json_write_hf(f, back));
    fclose(f);
    WANT(n == m && !memcmp(text, again, n));
    WANT(cJSON_Compare(tree, back, true));
    cJSON_Delete(back);
    free(text);
    free(again);
}

/* form: of this format, FORM_FILE: by its keys. */
static void one_row(Form form, unsigned how, const char *text, size_t n)
{
    const Tokenizer *tok = tokenizers[how % 3];
    Rules rules = chats[how % 3][how / 3 % 3];
    rules.loss = (Loss)(how >> 6);
    rules.format = form == FORM_FILE ? NULL : &pack_format[form];
    Span span = {0, n, 7};
    Chunk chunk = {.place = {"x", 0}, .text = (char *)text, .n = n, .reads = READS_OBJECTS,
                   .span = &span, .nspans = 1};
    Encoded out = {0};
    rows_encode(&rules, tok, &chunk, &out);
    WANT(out.nrows + !!out.error == 1);
    WANT(!out.error || (out.error_at.line == 7 && !out.n));
    for (size_t i = 0; i < out.n; i++)
        WANT(out.id[i] >= 0 && out.id[i] < tokenizer_size(tok) && out.target[i] <= 1);
    if (out.nrows) {
        Pack p = {0};            /* without a file */
        size_t n = 0, targets = 0;
        WANT(out.row->begin == 0 && out.row->n == out.n && out.n);
        WANT(!pack_kind(&p, out.row));
        CutRow kept = pack_row(&p, out.id, out.target, out.row, "x");
        WANT(kept.parts == (p.kind == KIND_PAIRS ? 2 : 1) && kept.parts == 1 + !!out.row->second);
        for (int i = 0; i < kept.parts; i++) {
            WANT(kept.n[i] && kept.begin[i] + kept.n[i] <= out.n);
            WANT(kept.targets[i] < kept.n[i] + (form == FORM_ANSWERS));
            WANT(p.kind == KIND_PACKED || (int64_t)kept.n[i] <= p.max_length);
            WANT(kept.drop || kept.targets[i]);
            n += kept.n[i];
            targets += kept.targets[i];
        }
        WANT(p.ndocs + p.dropped[DROP_NO_TARGET] + p.dropped[DROP_LONG_PROMPT] == 1);
        WANT(p.ntokens == (p.ndocs ? (int64_t)n : 0) && p.ntargets == (p.ndocs ? (int64_t)targets : 0));
        WANT(rules.loss != LOSS_ALL || targets == n - (form != FORM_ANSWERS));
        WANT(!out.row->second || (out.row->prompt <= out.row->second && !out.target[0] &&
                                  (out.row->second == out.n || !out.target[out.row->second])));
        pack_end(&p);
    }
    encoded_free(&out);
}

/* As a row, and as a line, of samples of words: special tokens around at most six others. */
static void one_sample(Form form, Reads reads, const char *text, size_t n)
{
    static Tokenizer *tok;
    WANT(tok || !tokenizer_load(&tok, "tests/tokenizer/plain/tokenizer.json"));
    Rules rules = {.format = &pack_format[form], .formats = pack_all_formats, .max_length = 8, .min_words = 2};
    Span span = {0, n, 7};
    Chunk chunk = {.place = {"x", 0}, .text = (char *)text, .n = n, .reads = reads, .span = &span,
                   .nspans = 1};
    Encoded out = {0};
    rows_encode(&rules, tok, &chunk, &out);
    WANT(out.nrows + !!out.error == 1);
    if (out.n) {
        WANT(out.nrows && !out.row->drop && out.n <= 8 && out.row->n == out.n && out.n > 2);
        WANT(out.id[0] == 1 && out.id[out.n - 1] == 2 && out.row->form == form);
        for (size_t i = 0; i < out.n; i++)
            WANT(out.target[i] == (out.id[i] == 3 || out.id[i] > 4));
    } else {
        WANT(out.error || out.row->drop);
    }
    encoded_free(&out);
}

/* As solutions in steps, if it is such: rows are left out, or have the marks that the rules want, and as
 * many labels at most. */
static void one_solution(unsigned how, const char *text, size_t n)
{
    const Tokenizer *tok = tokenizers[1 + how % 2];
    Rules rules = chats[1 + how % 2][0];
    rules.max_length = 24 + how / 4 % 8 * 8;
    StepsRules steps = (StepsRules){.mark = "<|endoftext|>", .mark_id = tokenizer_added(tok, "<|endoftext|>"),
                               .steps = how / 32 % 2 ? 3 : 0, .rewards = 1, .system = how / 64 % 2 ? "s" : "",
                               .unlabelled = how & 2, .scored = how > 127};
    Span span = {0, n, 7};
    Chunk chunk = {.place = {"x", 0}, .text = (char *)text, .n = n, .reads = READS_OBJECTS, .span = &span,
                   .nspans = 1};
    Encoded out = {0};
    steps.mark_id = steps.mark_id < 0 ? tokenizer_eos(tok) : steps.mark_id;
    rules.more = &steps;
    rows_encode(&rules, tok, &chunk, &out);
    Pack p = {0};
    WANT(!out.error || !out.nrows);
    for (int i = 0; i < out.nrows; i++) {
        const RowOut *row = &out.row[i];
        int marks = 0;
        if (row->records != &steps_records)
            continue;
        WANT(!pack_kind(&p, row));
        char *name = row->records->name(&p, row);
        WANT(*name && (!row->drop || !row->n) && row->n <= (size_t)rules.max_length);
        for (size_t t = 0; t < row->n; t++)
            marks += out.target[row->begin + t];
        WANT(row->drop || (marks >= 1 && marks <= STEPS_MARKS && ((const ParsedSteps *)row->more)->nlabels <= marks));
        WANT(row->drop || !steps.steps || marks == 2 || steps.scored);
        const size_t at = row->begin;
        WANT(pack_row(&p, out.n ? out.id + at : NULL, out.n ? out.target + at : NULL, row, "x").drop == row->drop);
        free(name);
    }
    pack_end(&p);
    encoded_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)in + 1;
    const size_t mark = utf8_mark(text, size - 1);   /* which a file may have, and json_check refuses */
    char *error = json_check(text + mark, size - 1 - mark), *why;
    cJSON *tree = json_parse(text, size - 1, &why);
    WANT(!error == !!tree);      /* what the check accepts, cJSON accepts */
    if (tree) {
        print_and_read(tree);
        one_row(FORM_FILE, in[0], text, size - 1);
        one_row(FORM_ANSWERS, in[0], text, size - 1);
        one_solution(in[0], text, size - 1);
        one_sample(FORM_IMDB, READS_OBJECTS, text, size - 1);
        one_sample(FORM_CORPUS, READS_OBJECTS, text, size - 1);
    }
    if (!memchr(text, '\n', size - 1))
        one_sample(FORM_CORPUS, READS_LINES, text, size - 1);
    cJSON_Delete(tree);
    free(error);
    free(why);
    return 0;
}
