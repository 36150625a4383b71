/* format_prompt.c -- {"prompt", "completion"}: strings or lists of messages; Alpaca's keys.
 *
 * Out:   the ids of both and the end-of-text token; those of the completion are targets. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

/* The prompts of Alpaca. */
static const char alpaca_plain[] =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n%s\n\n### Response:\n";
static const char alpaca_input[] =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n### Instruction:\n%s"
    "\n\n### Input:\n%s\n\n### Response:\n";

Answered sample_answer(const Sample *s, const char *key, char **error)
{
    Answered a = {.text = sample_string(s, key, error)};
    if (!*error)
        *error = spans_beside(s->json, key, &a.masked);
    return a;
}

char *encode_answered(const Rules *rules, const Tokenizer *tok, const char *prompt, Answered answer,
                      Encoded *e, RowOut *row)
{
    const char *completion = answer.text;
    size_t np = strlen(prompt), nc = strlen(completion), nsuffix, head, begin = e->n;
    row->bytes += (int64_t)(np + nc);
    row->blank |= np && nc && (prompt[np - 1] == ' ' || prompt[np - 1] == '\t');
    if (rules->loss == LOSS_ASSISTANT)
        return row->stops = true,
               format("--loss-on assistant needs messages, but these are strings: last means the "
                      "completion, all also the prompt");
    /* BERT's would close the prompt before the completion begins */
    tokenizer_suffix(tok, &nsuffix);
    if (nsuffix)
        return row->stops = true,
               format("this tokenizer appends special tokens to every text, so a completion cannot "
                      "follow a prompt: use another tokenizer");
    char *joined = malloc(np + nc + 1);
    if (!joined)
        abort();
    memcpy(joined, prompt, np);
    memcpy(joined + np, completion, nc + 1);
    char *error = encode_text(tok, prompt, np, true, false, e);
    head = e->n - begin;         /* the prompt alone, removed below */
    if (!error)
        error = encode_ended(tok, joined, np + nc, true, e);
    if (error) {
        free(joined);
        return error;
    }
    size_t n = e->n - begin - head;
    row->not_prefix |= head > n ||
                       memcmp(e->id + begin, e->id + begin + head, head * sizeof *e->id);
    memmove(e->id + begin, e->id + begin + head, n * sizeof *e->id);
    e->n = begin + n;
    memset(e->target + begin, 1, n);
    if (rules->loss != LOSS_ALL)
        memset(e->target + begin, 0, head < n ? head : n);
    error = spans_hide(tok, answer.masked,
                       &(Spanned){joined, completion - answer.before, np - answer.before, 0,
                                  answer.before + nc}, true, begin, e, row);
    free(joined);
    return error;
}

/* Encodes prompt and completion given as lists of messages. */
static char *encode_lists(const Rules *rules, const Tokenizer *tok, const cJSON *json,
                          const cJSON *prompt, const cJSON *completion, Encoded *e, RowOut *row)
{
    cJSON *all = NULL;
    char *error = turns_join(rules, json, prompt, &all, row);
    const cJSON *messages = all ? all : prompt;
    if (!error)
        error = chat_encode(rules, tok, messages, completion, cJSON_GetArraySize(messages), e, row);
    cJSON_Delete(all);
    return error;
}

char *format_prompt(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                    RowOut *row)
{
    const cJSON *prompt = json_get(s->json, "prompt"),
                *completion = json_get(s->json, "completion");
    char *error = NULL;
    if (cJSON_IsArray(prompt) && cJSON_IsArray(completion) && completion->child)
        return encode_lists(rules, tok, s->json, prompt, completion, e, row);
    const char *p = sample_string(s, "prompt", &error);
    const Answered c = sample_answer(s, "completion", &error);
    return error ? error : turns_any(s->json) ? encode_turns(rules, tok, s->json, p, c, e, row)
                                              : encode_answered(rules, tok, p, c, e, row);
}

/* Reads the two strings of an Alpaca row; input "": none. */
static bool alpaca_strings(const Sample *s, const char **instruction, const char **input,
                           char **error)
{
    *instruction = sample_string(s, "instruction", error);
    *input = has_content(json_get(s->json, "input")) ? sample_string(s, "input", error) : "";
    return !*error;
}

char *alpaca_prompt(const Sample *s, char **error)
{
    const char *instruction, *input;
    if (!alpaca_strings(s, &instruction, &input, error))
        return NULL;
    return *input ? format(alpaca_input, instruction, input) : format(alpaca_plain, instruction);
}

char *alpaca_question(const Sample *s, char **error)
{
    const char *instruction, *input;
    if (!alpaca_strings(s, &instruction, &input, error))
        return NULL;
    return format("%s%s%s", instruction, *instruction && *input ? "\n" : "", input);
}

static char *encode_alpaca(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                    RowOut *row)
{
    const bool turns = turns_any(s->json);
    char *error = NULL, *prompt = turns ? alpaca_question(s, &error) : alpaca_prompt(s, &error);
    const Answered output = sample_answer(s, "output", &error);
    if (!error)
        error = turns ? encode_turns(rules, tok, s->json, prompt, output, e, row)
                      : encode_answered(rules, tok, prompt, output, e, row);
    free(prompt);
    return error;
}

const FormatCode prompt_format = {.form = FORM_PROMPT, .encode = format_prompt},
                 alpaca_format = {.form = FORM_ALPACA, .encode = encode_alpaca};
