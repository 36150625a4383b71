/* format_prompt.c -- conversations: {"messages": [...]}, that list alone, or ShareGPT's
 * {"conversations": [...]}; {"prompt", "completion"}: strings or lists of messages; Alpaca's keys.
 *
 * In:    with each "system", a string, and "history", a list of [question, answer], as in
 *        LLaMA-Factory, which become messages before the others.
 * Out:   the ids of pack_chat.c, or those of prompt, completion and the end-of-text token; the
 *        targets are the last answer or the completion, or those of --loss-on. */
#include "runtime/pack/pack.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

/* ---- system message and earlier turns -------------------------------------------------------- */

bool turns_any(const cJSON *json)
{
    return has_content(json_get(json, "system")) || has_content(json_get(json, "history"));
}

static const char *text_under(const cJSON *message, const char *key, const char *other)
{
    const char *text = cJSON_GetStringValue(json_get(message, key));
    return text ? text : cJSON_GetStringValue(json_get(message, other));
}

/* Returns the text of a system message at the beginning of a list; NULL: none. */
static const char *system_of(const cJSON *list)
{
    const char *role = list ? text_under(list->child, "role", "from") : NULL;
    if (!role || strcmp(role, "system"))
        return NULL;
    const char *text = text_under(list->child, "content", "value");
    return text ? text : "";
}

static char *add_history(const cJSON *history, cJSON *all)
{
    if (!cJSON_IsArray(history))
        return format("history: must be a list of [question, answer]");
    for (const cJSON *pair = history->child; pair; pair = pair->next) {
        const char *question = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)),
                   *answer = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 || !question || !answer)
            return format("history: must be a list of [question, answer], two strings each");
        cJSON_AddItemToArray(all, chat_turn("user", question));
        cJSON_AddItemToArray(all, chat_turn("assistant", answer));
    }
    return NULL;
}

static char *join(const cJSON *json, const cJSON *after, cJSON *all)
{
    const cJSON *system = json_get(json, "system"), *history = json_get(json, "history");
    const char *text = cJSON_GetStringValue(system), *first = system_of(after);
    if (has_content(system) && !text)
        return format("system: must be a string");
    if (has_content(system) && first && strcmp(text, first))
        return format("system: the messages begin with another system message: remove one");
    const cJSON *rest = after->child;
    if (first) {
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)rest);
        rest = rest->next;
    } else if (has_content(system)) {
        cJSON_AddItemToArray(all, chat_turn("system", text));
    }
    char *error = has_content(history) ? add_history(history, all) : NULL;
    for (; rest && !error; rest = rest->next)
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)rest);
    return error;
}

char *turns_join(const Rules *rules, const cJSON *json, const cJSON *after, cJSON **all,
                 RowOut *row)
{
    const char *key = has_content(json_get(json, "system")) ? "system" : "history";
    *all = NULL;
    if (!turns_any(json))
        return NULL;
    row->stops = !rules->chat && !rules->render;
    if (row->stops)
        return format("%s: turns of a conversation need a chat format, but %s; --ignore-keys "
                      "system,history drops them", key, rules->no_chat);
    *all = cJSON_CreateArray();
    row->turns = true;
    return join(json, after, *all);
}

char *encode_turns(const Rules *rules, const Tokenizer *tok, const cJSON *json, const char *prompt,
                   Answered answer, Encoded *e, RowOut *row)
{
    cJSON *user = chat_list(chat_turn("user", prompt), NULL),
          *reply = chat_list(chat_answer(answer), NULL), *all;
    char *error = turns_join(rules, json, user, &all, row);
    const cJSON *messages = all ? all : user;
    if (!error)
        error = chat_encode(rules, tok, messages, reply, cJSON_GetArraySize(messages), e, row);
    cJSON_Delete(all), cJSON_Delete(user), cJSON_Delete(reply);
    return error;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* True if a message has one of these roles, by the names of all formats. */
static bool has_role(const cJSON *message, const char *roles)
{
    const char *role = text_under(message, "role", "from");
    return role && names_listed(roles, role);
}

/* Encodes the first n messages, of which those from `given` on may be targets. */
static char *encode_first(const Rules *rules, const Tokenizer *tok, const cJSON *messages, int n,
                          int given, Encoded *e, RowOut *row)
{
    cJSON *part = cJSON_CreateArray();
    for (const cJSON *m = messages->child; m && n; m = m->next, n--)
        cJSON_AddItemReferenceToArray(part, (cJSON *)(uintptr_t)m);
    char *error = chat_encode(rules, tok, part, NULL, given, e, row);
    cJSON_Delete(part);
    return error;
}

/* Ends the row being built and begins another one of the same sample. */
static RowOut *next_row(Encoded *e)
{
    const RowOut done = e->row[e->nrows];
    spans_done(e, done.begin);
    RowOut *row = encoded_next_row(e);
    row->tools = done.tools;
    row->turns = done.turns;
    return row;
}

/* Encodes the first `end` messages as one row whose answers from `given` on are targets; or, where
 * the chat_template renders one of them differently when others follow, a row for each of these
 * answers. *more: the sample has rows already. */
static char *encode_turn(const Rules *rules, const Tokenizer *tok, const cJSON *messages, int given,
                         int end, Encoded *e, bool *more)
{
    RowOut *row = *more ? next_row(e) : &e->row[e->nrows];
    const RowOut empty = *row;
    char *error = encode_first(rules, tok, messages, end, given, e, row);
    int answers = 0;
    *more = true;
    for (int i = given; i < end; i++)
        answers += has_role(cJSON_GetArrayItem(messages, i), "assistant|gpt");
    if (!error || !rules->render || answers < 2)
        return error;
    free(error);
    error = NULL;
    e->n = empty.begin;
    e->hides = false;
    e->row[e->nrows] = empty;
    bool any = false;
    for (int i = given; i < end && !error; i++) {
        if (!has_role(cJSON_GetArrayItem(messages, i), "assistant|gpt"))
            continue;
        row = any ? next_row(e) : &e->row[e->nrows];
        any = true;
        error = encode_first(rules, tok, messages, i + 1, i, e, row);
    }
    return error;
}

/* Returns what is wrong with messages that no row has: those after the last answer. */
static char *check_rest(const Rules *rules, const Tokenizer *tok, const cJSON *messages, int n,
                        Encoded *e)
{
    RowOut row = e->row[e->nrows];
    const size_t before = e->n;
    const bool hides = e->hides;
    char *error = encode_first(rules, tok, messages, n, n, e, &row);
    e->n = before;
    e->hides = hides;
    return error;
}

/* LOSS_TURNS. */
static char *encode_turns_apart(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                                Encoded *e)
{
    int i = 0, given = 0, end = 0, seen = 0;
    bool more = false;
    char *error = NULL;
    for (const cJSON *m = messages->child; m && !error; m = m->next) {
        i++;
        if (has_role(m, "user|human"))
            given = i, end = 0;
        else if (has_role(m, "assistant|gpt"))
            end = i;
        const bool ends = !m->next || has_role(m->next, "user|human");
        /* a turn without an answer gives no row, unless there is no other */
        if (ends && (end || (!m->next && !more)))
            error = encode_turn(rules, tok, messages, given, seen = end ? end : i, e, &more);
    }
    return error || seen == i ? error : check_rest(rules, tok, messages, i, e);
}

char *format_messages(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                      RowOut *row)
{
    const char *key = sample_get(s->json, "messages") ? "messages" : "conversations";
    const cJSON *list = json_get(s->json, key);
    cJSON *all = NULL;
    if (!cJSON_IsArray(list) || !list->child)
        return format("%s: must be a non-empty list of {\"role\", \"content\"}", key);
    char *error = turns_join(rules, s->json, list, &all, row);
    const cJSON *messages = all ? all : list;
    if (!error)
        error = rules->loss == LOSS_TURNS
                    ? encode_turns_apart(rules, tok, messages, e)
                    : chat_encode(rules, tok, messages, NULL, cJSON_GetArraySize(messages) - 1, e,
                                  row);
    cJSON_Delete(all);
    return error;
}

const FormatCode messages_format = {.form = FORM_MESSAGES, .encode = format_messages},
                 sharegpt_format = {.form = FORM_SHAREGPT, .encode = format_messages};

/* ---- prompt and completion ------------------------------------------------------------------- */

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
        *error = spans_of_key(s->json, key, &a.masked);
    return a;
}

char *encode_answered(const Rules *rules, const Tokenizer *tok, const char *prompt, Answered answer,
                      Encoded *e, RowOut *row)
{
    const char *completion = answer.text;
    size_t np = strlen(prompt), nc = strlen(completion), nsuffix, head, begin = e->n;
    row->bytes += (int64_t)(np + nc);
    row->empty |= !nc;
    row->blank |= np && nc && (prompt[np - 1] == ' ' || prompt[np - 1] == '\t');
    if (rules->loss == LOSS_ASSISTANT || rules->loss == LOSS_TURNS)
        return row->stops = true,
               format("--loss-on %s needs messages, but these are strings: last means the "
                      "completion, all also the prompt", loss_name[rules->loss]);
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
    size_t n = e->n - begin - head, same = 0;
    while (same < head && same < n && e->id[begin + same] == e->id[begin + head + same])
        same++;
    row->joined |= same < head;
    row->not_prefix |= same < head;      /* a token that joins both is of the answer, as in TRL */
    memmove(e->id + begin, e->id + begin + head, n * sizeof *e->id);
    e->n = begin + n;
    memset(e->target + begin, 1, n);
    if (rules->loss != LOSS_ALL)
        memset(e->target + begin, 0, same);
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
