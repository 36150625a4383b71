/* pack_rows.c -- chunks of the input to ids and targets; what the keys of a row mean.
 *
 * In:    a Chunk: rows of JSON, or a stretch of a text; Rules.
 * Out:   Encoded; depends on the chunk alone, so that threads may work in any order.
 * Keeps: after a bad row the chunk ends: its place and message stand in Encoded. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

const char *const form_keys[NFORMS] = {
    "text files", "text", "prompt + completion", "messages", "conversations",
    "instruction + output",
};

/* What Alpaca's rows are told the model with; an answer follows. */
static const char alpaca_plain[] =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n%s\n\n### Response:\n";
static const char alpaca_input[] =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n### Instruction:\n%s"
    "\n\n### Input:\n%s\n\n### Response:\n";

/* ---- encoding -------------------------------------------------------------------------------- */

/* The same for a text that ends a document: with the end-of-text token, as its string where it
 * has one (so that tokenisation is that of the joined string), unless it is there already. */
static char *encode_ended(const Tokenizer *tok, const char *text, size_t n, bool specials,
                          Encoded *e)
{
    const char *end = tokenizer_eos_text(tok);
    if (!end) {
        char *error = encode_text(tok, text, n, specials, true, e);
        encoded_put(e, &(int32_t){tokenizer_eos(tok)}, 1, true);
        return error;
    }
    size_t len = strlen(end);
    if (n >= len && !memcmp(text + n - len, end, len))
        return encode_text(tok, text, n, specials, true, e);
    char *joined = malloc(n + len);
    memcpy(joined, text, n);
    memcpy(joined + n, end, len);
    char *error = encode_text(tok, joined, n + len, specials, true, e);
    free(joined);
    return error;
}

/* ---- the kinds of rows ----------------------------------------------------------------------- */

static char *row_text(const Rules *rules, const Tokenizer *tok, const char *text, Encoded *e,
                      RowOut *row)
{
    row->bytes = (int64_t)strlen(text);
    if (rules->loss == LOSS_LAST || rules->loss == LOSS_ASSISTANT)
        return format("--loss-on %s: a text has no answers, all its tokens are targets: drop it, "
                      "or say --loss-on all", rules->loss == LOSS_LAST ? "last" : "assistant");
    return row->bytes ? encode_ended(tok, text, (size_t)row->bytes, true, e)
                      : format("text: empty");
}

static char *row_prompt(const Rules *rules, const Tokenizer *tok, const char *prompt,
                        const char *completion, Encoded *e, RowOut *row)
{
    size_t np = strlen(prompt), nc = strlen(completion), nsuffix, head, begin = e->n;
    row->bytes = (int64_t)(np + nc);
    if (rules->loss == LOSS_ASSISTANT)
        return format("--loss-on assistant wants messages; here are strings: last is the "
                      "completion, all is the prompt too");
    /* BERT's would close the prompt before the completion begins */
    tokenizer_suffix(tok, &nsuffix);
    if (nsuffix)
        return format("this tokenizer appends special tokens to every text; prompts cannot be "
                      "masked");
    char *joined = malloc(np + nc + 1);
    memcpy(joined, prompt, np);
    memcpy(joined + np, completion, nc + 1);
    char *error = encode_text(tok, prompt, np, true, false, e);
    head = e->n - begin;         /* the prompt alone, which goes away again */
    if (!error)
        error = encode_ended(tok, joined, np + nc, true, e);
    free(joined);
    if (error)
        return error;
    size_t n = e->n - begin - head;
    row->not_prefix = head > n ||
                      memcmp(e->id + begin, e->id + begin + head, head * sizeof *e->id);
    memmove(e->id + begin, e->id + begin + head, n * sizeof *e->id);
    e->n = begin + n;
    memset(e->target + begin, 1, n);
    if (rules->loss != LOSS_ALL)
        memset(e->target + begin, 0, head < n ? head : n);
    return NULL;
}

static const char *row_string(const cJSON *row, const char *key, char **error)
{
    const cJSON *v = json_get(row, key);
    if (!cJSON_IsString(v) && !*error)
        *error = format("%s: want a string", key);
    return *error ? NULL : v->valuestring;
}

static char *row_alpaca(const Rules *rules, const Tokenizer *tok, const cJSON *json, Encoded *e,
                        RowOut *row)
{
    char *error = NULL;
    const cJSON *given = json_get(json, "input");
    const char *instruction = row_string(json, "instruction", &error);
    const char *output = row_string(json, "output", &error);
    const char *input = given && !cJSON_IsNull(given) ? row_string(json, "input", &error) : "";
    if (error)
        return error;
    char *prompt = *input ? format(alpaca_input, instruction, input)
                          : format(alpaca_plain, instruction);
    error = row_prompt(rules, tok, prompt, output, e, row);
    free(prompt);
    return error;
}

static char *row_messages(const Rules *rules, const Tokenizer *tok, const cJSON *list,
                          const char *key, Encoded *e, RowOut *row)
{
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    return n ? chat_encode(rules, tok, list, NULL, n - 1, e, row)
             : format("%s: want a list of {\"role\", \"content\"}, not empty", key);
}

/* Of the keys that a row has the first of these counts. */
static char *row_encode(const Rules *rules, const Tokenizer *tok, const cJSON *json, Encoded *e,
                        RowOut *row)
{
    const cJSON *prompt = json_get(json, "prompt"), *completion = json_get(json, "completion");
    const cJSON *messages = json_get(json, "messages"), *tools = json_get(json, "tools");
    const cJSON *conversations = json_get(json, "conversations");
    char *error = NULL;
    row->masked = true;
    if (!cJSON_IsObject(json))
        return format("want a JSON object");
    if (messages || conversations) {
        row->form = messages ? FORM_MESSAGES : FORM_SHAREGPT;
        if (tools && !cJSON_IsNull(tools) && !(cJSON_IsArray(tools) && !tools->child))
            return format("tools: definitions of tools are not supported");
        return messages ? row_messages(rules, tok, messages, "messages", e, row)
                        : row_messages(rules, tok, conversations, "conversations", e, row);
    }
    if (prompt || completion) {
        row->form = FORM_PROMPT;
        if (cJSON_IsArray(prompt) && cJSON_IsArray(completion) && completion->child)
            return chat_encode(rules, tok, prompt, completion, cJSON_GetArraySize(prompt), e, row);
        const char *p = row_string(json, "prompt", &error);
        const char *c = row_string(json, "completion", &error);
        return error ? error : row_prompt(rules, tok, p, c, e, row);
    }
    if (json_get(json, "instruction") || json_get(json, "output")) {
        row->form = FORM_ALPACA;
        return row_alpaca(rules, tok, json, e, row);
    }
    row->form = FORM_TEXT;
    row->masked = false;
    if (!json_get(json, "text"))
        return format("want the keys messages, conversations, prompt and completion, instruction "
                      "and output, or text");
    const char *text = row_string(json, "text", &error);
    return error ? error : row_text(rules, tok, text, e, row);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static RowOut *row_new(Encoded *e, Form form, int line)
{
    if (e->nrows == e->caprows) {
        e->caprows = 2 * e->caprows + 64;
        e->row = realloc(e->row, (size_t)e->caprows * sizeof *e->row);
        if (!e->row)
            abort();
    }
    e->row[e->nrows] = (RowOut){.begin = e->n, .form = form, .line = line};
    return &e->row[e->nrows];
}

static void encode_document(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    RowOut *row = row_new(e, FORM_DOCUMENT, 0);
    size_t nprefix, nsuffix;
    const int32_t *prefix = tokenizer_prefix(tok, &nprefix);
    const int32_t *suffix = tokenizer_suffix(tok, &nsuffix);
    char *error = NULL;
    if (rules->loss == LOSS_LAST || rules->loss == LOSS_ASSISTANT)
        error = format("--loss-on: a text has no answers, all its tokens are targets: drop it, "
                       "or say --loss-on all");
    if (!error && p->first)
        encoded_put(e, prefix, nprefix, true);
    if (!error)
        error = p->last ? encode_ended(tok, p->text, p->n, false, e)
                        : encode_text(tok, p->text, p->n, false, true, e);
    if (!error && p->last)
        encoded_put(e, suffix, nsuffix, true);
    if (error && p->offset) {
        e->error = format("in the text from byte %lld on: %s", (long long)p->offset, error);
        free(error);
    } else {
        e->error = error;
    }
    e->error_at = p->place;
    row->n = e->n - row->begin;
    row->bytes = (int64_t)p->n;
    e->nrows += !error;
}

void rows_encode(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    if (!p->rows && (p->n || p->last))
        encode_document(rules, tok, p, e);
    for (int i = 0; i < p->nspans && !e->error; i++) {
        const Span *s = &p->span[i];
        RowOut *row = row_new(e, FORM_TEXT, s->line);
        char *error = NULL;
        cJSON *json = json_parse(p->text + s->at, s->n, &error);
        if (!json) {
            /* its line number counts inside this row */
            char *what = strstr(error, "byte ");
            char *only = format("%s", what ? what : error);
            free(error);
            error = only;
        } else {
            error = row_encode(rules, tok, json, e, row);
        }
        cJSON_Delete(json);
        row->n = e->n - row->begin;
        if (error) {
            e->n = row->begin;
            e->error = error;
            e->error_at = (Place){p->place.file, s->line};
        } else {
            e->nrows++;
        }
    }
    if (!e->error && p->error) {
        e->error = format("%s", p->error);
        e->error_at = p->error_at;
    }
}
