/* format_pairs.c -- preference pairs: a prompt and two answers, strings or lists of messages.
 *
 * Out:   the ids of prompt and chosen answer, then those of prompt and rejected answer. Targets are
 *        the ids after as many as the prompt alone has, with the end of the turn or text.
 * Keeps: the prompt and the whole are encoded separately. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <stdlib.h>
#include <string.h>

static const char *const answer_key[PACK_PARTS] = {"chosen", "rejected"};
/* Number of prompt tokens of each part; omitted if that is the number before the targets. */
static const char prompt_column[] = "prompt";

/* A parsed row; a question is converted to messages. */
typedef struct {
    const char *key;             /* of its prompt; NULL: none */
    const char *prompt;          /* strings: (nprompt); else NULL */
    size_t nprompt;
    Answered answer[PACK_PARTS];
    const cJSON *messages;       /* lists: the prompt, of which the first `given` count */
    const cJSON *reply[PACK_PARTS];
    int given;
    cJSON *made[2 + PACK_PARTS]; /* to free: prompt, answers, prompt after system and history */
    char *text;                  /* of an instruction; to free */
} Pair;

static bool asks(const Pair *p, const char *key)
{
    return p->key && !strcmp(p->key, key);
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Returns the length of the common prefix of two texts, in whole characters. If one is a prefix
 * of the other, it keeps its last character. */
static size_t common_text(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    bool differ = a[n] && b[n];
    if (n && !differ)
        n--;
    while (n && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    return n - (n && differ && a[n - 1] == ' ');
}

/* The same for messages. */
static int common_messages(const cJSON *a, const cJSON *b)
{
    int n = 0;
    const cJSON *x = a->child, *y = b->child;
    for (; x && y && cJSON_Compare(x, y, true); x = x->next, y = y->next)
        n++;
    return n - (n && (!x || !y));
}

/* Converts a question and its answers, strings, to conversations. The row's own system message,
 * which may be empty, replaces the common one. */
static char *take_question(const Rules *rules, const Sample *s, Pair *p, RowOut *row)
{
    char *error = NULL;
    const bool has_system = sample_get(s->json, "system");
    const char *question = sample_string(s, "question", &error),
               *system = has_system && !error ? sample_string(s, "system", &error) : rules->system;
    for (int i = 0; i < PACK_PARTS; i++)
        p->answer[i] = sample_answer(s, answer_key[i], &error);
    if (error)
        return error;
    char *asked = format("Question: %s", question);
    cJSON *user = chat_turn("user", asked);
    p->made[0] = *system ? chat_list(chat_turn("system", system), user) : chat_list(user, NULL);
    free(asked);
    for (int i = 0; i < PACK_PARTS; i++)
        p->reply[i] = p->made[1 + i] = chat_list(chat_answer(p->answer[i]), NULL);
    p->messages = p->made[0];
    p->given = cJSON_GetArraySize(p->messages);
    row->question = !has_system;
    return NULL;
}

/* Returns list; *error if it is empty or not a list. */
static const cJSON *take_list(const cJSON *list, const char *key, char **error)
{
    if (!*error && (!cJSON_IsArray(list) || !list->child))
        *error = format("%s: must be a non-empty list of {\"role\", \"content\"}", key);
    return list;
}

static char *no_prompt(void)
{
    return format("no prompt: add prompt, question or instruction, or answers with a common "
                  "prefix");
}

static const char *member_text(const cJSON *message, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(message, key));
    return text ? text : "";
}

/* A string prompt with lists: the user's message before the answers or, in whole conversations, the
 * last message of their common prefix. */
static char *take_user(const char *prompt, Pair *p)
{
    const cJSON *first = p->reply[0]->child;
    if (!strcmp(member_text(first, "role"), "assistant")) {
        p->messages = p->made[0] = chat_list(chat_turn("user", prompt), NULL);
        p->given = 1;
        return NULL;
    }
    p->given = common_messages(p->reply[0], p->reply[1]);
    const cJSON *last = p->given ? cJSON_GetArrayItem(p->reply[0], p->given - 1) : NULL;
    return last && !strcmp(member_text(last, "content"), prompt)
               ? NULL
               : format("prompt: is a string that differs from the user's last message in both "
                        "lists: remove it, or make it a list");
}

/* Reads two lists of messages: answers only, or whole conversations. */
static char *take_messages(const cJSON *json, Pair *p)
{
    const cJSON *prompt = asks(p, "prompt") ? json_get(json, "prompt") : NULL;
    char *error = NULL;
    for (int i = 0; i < PACK_PARTS; i++) {
        const cJSON *masked;
        error = error ? error : spans_of_key(json, answer_key[i], &masked);
        if (!error && masked)
            error = format("%s_masked: %s is a list of messages: use the key masked of its "
                           "messages",
                           answer_key[i], answer_key[i]);
    }
    for (int i = 0; i < PACK_PARTS; i++)
        p->reply[i] = take_list(sample_get(json, answer_key[i]), answer_key[i], &error);
    if (!error && cJSON_IsString(prompt))
        return take_user(prompt->valuestring, p);
    if (prompt)
        p->messages = take_list(prompt, "prompt", &error);
    if (error || prompt) {
        p->given = cJSON_GetArraySize(p->messages);
        return error;
    }
    p->given = common_messages(p->reply[0], p->reply[1]);
    return p->given ? NULL : no_prompt();
}

/* Reads two strings after a prompt or an instruction, or with a common prefix. */
static char *take_strings(const Sample *s, Pair *p)
{
    char *error = NULL;
    for (int i = 0; i < PACK_PARTS; i++)
        p->answer[i] = sample_answer(s, answer_key[i], &error);
    if (asks(p, "instruction"))
        p->prompt = p->text = turns_any(s->json) ? alpaca_question(s, &error)
                                                 : alpaca_prompt(s, &error);
    else if (asks(p, "prompt"))
        p->prompt = sample_string(s, "prompt", &error);
    if (error)
        return error;
    if (p->prompt) {
        p->nprompt = strlen(p->prompt);
        return NULL;
    }
    p->nprompt = common_text(p->answer[0].text, p->answer[1].text);
    if (!p->nprompt)
        return no_prompt();
    p->prompt = p->text = format("%.*s", (int)p->nprompt, p->answer[0].text);
    for (int i = 0; i < PACK_PARTS; i++)
        p->answer[i].text += p->nprompt, p->answer[i].before = p->nprompt;
    return NULL;
}

static const char *const prompts[] = {"question", "instruction", "prompt"};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

/* For a row without a prompt: NULL, or the key that was probably meant. */
static char *misspelt(const cJSON *json)
{
    for (const cJSON *member = json->child; member; member = member->next)
        for (int i = 0; i < PROMPTS; i++)
            if (strcmp(member->string, prompts[i]) &&
                names_distance(member->string, prompts[i]) <= 2)
                return format("%.60s: did you mean %s?", member->string, prompts[i]);
    return NULL;
}

/* Splits a list after its first n messages, by reference. */
static void split_list(const cJSON *list, int n, cJSON **before, cJSON **after)
{
    *before = cJSON_CreateArray(), *after = cJSON_CreateArray();
    for (const cJSON *m = list->child; m; m = m->next)
        cJSON_AddItemReferenceToArray(n-- > 0 ? *before : *after, (cJSON *)(uintptr_t)m);
}

/* Finds the key of the prompt; an empty string counts if there is no other. */
static char *take_key(const cJSON *json, Pair *p)
{
    for (int i = 0; i < PROMPTS; i++) {
        const bool there = has_content(json_get(json, prompts[i]));
        if (p->key && there)
            return format("has two prompts, %s and %s: keep one", p->key, prompts[i]);
        p->key = there ? prompts[i] : p->key;
    }
    for (int i = 0; i < PROMPTS && !p->key; i++)
        p->key = cJSON_IsString(json_get(json, prompts[i])) ? prompts[i] : NULL;
    return NULL;
}

/* Puts the row's system message and history before the prompt, which becomes a conversation. */
static char *take_turns(const Rules *rules, const cJSON *json, Pair *p, RowOut *row)
{
    if (!turns_any(json) || (asks(p, "question") && !has_content(json_get(json, "history"))))
        return NULL;             /* a question has its system message already */
    if (!p->reply[0] && !p->key)
        return format("system or history, but no prompt: add prompt, question or instruction");
    if (!p->reply[0]) {
        p->messages = p->made[0] = chat_list(chat_turn("user", p->prompt), NULL);
        for (int i = 0; i < PACK_PARTS; i++)
            p->reply[i] = p->made[1 + i] = chat_list(chat_answer(p->answer[i]), NULL);
    }
    for (int i = 0; i < PACK_PARTS && !p->made[1 + i] && !p->messages; i++) {
        cJSON *before;           /* whole conversations */
        split_list(p->reply[i], p->given, &before, &p->made[1 + i]);
        if (i)
            cJSON_Delete(before);
        else
            p->made[0] = before;
    }
    for (int i = 0; i < PACK_PARTS && !p->messages; i++)
        p->reply[i] = p->made[1 + i];
    cJSON *all;
    char *error = turns_join(rules, json, p->messages ? p->messages : p->made[0], &all, row);
    p->messages = p->made[1 + PACK_PARTS] = all;
    p->given = cJSON_GetArraySize(all);
    return error;
}

static char *take(const Rules *rules, const Sample *s, Pair *p, RowOut *row)
{
    char *error = take_key(s->json, p), *meant = error || p->key ? NULL : misspelt(s->json);
    if (meant)
        return row->stops = true, meant;
    if (error)
        return error;
    row->shared = !p->key;
    if (asks(p, "question"))
        return take_question(rules, s, p, row);
    bool lists = cJSON_IsArray(sample_get(s->json, "chosen"));
    if (lists && asks(p, "instruction"))
        return format("chosen: must be a string, like instruction");
    return lists ? take_messages(s->json, p) : take_strings(s, p);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static char *encode_part(const Rules *rules, const Tokenizer *tok, const Pair *p, int i, Encoded *e,
                         RowOut *row)
{
    if (!p->reply[i])
        return encode_answered(rules, tok, p->prompt, p->answer[i], e, row);
    if (p->messages)
        return chat_encode(rules, tok, p->messages, p->reply[i], p->given, e, row);
    cJSON *before, *after;       /* whole conversations */
    split_list(p->reply[i], p->given, &before, &after);
    char *error = chat_encode(rules, tok, before, after, p->given, e, row);
    cJSON_Delete(before), cJSON_Delete(after);
    return error;
}

/* Makes both answers begin after the same number of tokens, that of the first, as TRL does, and
 * returns it. begin: of each part in the ids, and their end. */
static size_t begin_alike(Encoded *e, const size_t *begin, RowOut *row)
{
    size_t answer[PACK_PARTS];
    for (int i = 0; i < PACK_PARTS; i++)
        for (answer[i] = 0; begin[i] + answer[i] < begin[i + 1]; answer[i]++)
            if (e->target[begin[i] + answer[i]])
                break;
    const size_t first = answer[0] < answer[1] ? answer[0] : answer[1];
    row->joined |= answer[0] != answer[1];
    for (int i = 0; i < PACK_PARTS; i++)
        memset(e->target + begin[i] + first, 1, answer[i] - first);
    return first;
}

static char *encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                    RowOut *row)
{
    Pair p = {0};
    size_t begin[PACK_PARTS + 1] = {e->n};
    row->stops = rules->loss != LOSS_DEFAULT && rules->loss != LOSS_LAST;
    char *error = !row->stops ? take(rules, s, &p, row)
                : format("--loss-on %s: not for pairs, whose targets are always the answers",
                         loss_name[rules->loss]);
    error = error ? error : take_turns(rules, s->json, &p, row);
    for (int i = 0; i < PACK_PARTS && !error; i++) {
        error = encode_part(rules, tok, &p, i, e, row);
        begin[i + 1] = e->n;
    }
    if (!error) {
        row->second = begin[1] - begin[0];
        row->prompt = begin_alike(e, begin, row);
        for (int i = 0; i < PACK_PARTS && !row->prompt; i++)
            if (begin[i] < begin[i + 1])
                e->target[begin[i]] = 0; /* nothing predicts it */
        row->prompt += !row->prompt && row->second;
    }
    row->more_answers = false;
    for (int i = 0; i < 2 + PACK_PARTS; i++)
        cJSON_Delete(p.made[i]);
    free(p.text);
    return error;
}

/* ---- records --------------------------------------------------------------------------------- */

/* State of a Pack for pairs. */
typedef struct {
    Lengths length[1 + PACK_PARTS];      /* of prompts and answers before they are cut */
    int32_t *prompt;             /* (p->ndocs) RowOut.prompt */
    int64_t cap;
    bool masked_first;           /* an answer begins without a target: prompt is written */
    int64_t shared, identical;   /* pairs without a prompt; with identical answers */
} Pairs;

static Pairs *pairs_of(Pack *p)
{
    if (!p->more)
        p->more = calloc(1, sizeof(Pairs));
    if (!p->more)
        abort();
    return p->more;
}

static void count(Pack *p, const RowOut *row)
{
    Pairs *a = pairs_of(p);
    a->shared += row->shared;
    if (row->second) {
        lengths_add(&a->length[0], row->prompt);
        lengths_add(&a->length[1], row->second - row->prompt);
        lengths_add(&a->length[2],
                    row->n - row->second > row->prompt ? row->n - row->second - row->prompt : 0);
    }
}

static void put(Pack *p, const RowOut *row, const CutRow *k, const int32_t *id,
                const uint8_t *target,
                const char *file)
{
    Pairs *a = p->more;
    (void)file;
    if (p->ndocs == a->cap) {
        a->cap = 2 * a->cap + 1024;
        a->prompt = realloc(a->prompt, (size_t)a->cap * sizeof *a->prompt);
        if (!a->prompt)
            abort();
    }
    a->prompt[p->ndocs] = (int32_t)row->prompt;
    for (int i = 0; i < k->parts; i++)
        a->masked_first = a->masked_first || !target[k->begin[i] + row->prompt];
    a->identical += k->parts == 2 && k->n[0] == k->n[1] &&
                    !memcmp(id + k->begin[0], id + k->begin[1], k->n[0] * sizeof *id) &&
                    !memcmp(target + k->begin[0] + 1, target + k->begin[1] + 1, k->n[0] - 1);
}

static int plan(Pack *p, StWriter *w, ColumnPlan *column)
{
    if (!pairs_of(p)->masked_first)
        return 0;
    *column = (ColumnPlan){prompt_column, ST_I32, "fixed", 1};
    st_add_meta(w, "parts", "chosen rejected");
    return 1;
}

static const void *tensor(const Pack *p, const char *name, size_t *bytes)
{
    const Pairs *a = p->more;
    *bytes = (size_t)p->ndocs * sizeof *a->prompt;
    return strcmp(name, prompt_column) ? NULL : a->prompt;
}

/* "prompts 3 to 9 tokens, mean 5.0, half up to 5, 95 of 100 up to 9; chosen ..."; malloc'ed */
static char *lengths_of(const Pairs *a)
{
    char *prompt = lengths_text(&a->length[0], "prompts"),
         *chosen = lengths_text(&a->length[1], "chosen answers"),
         *rejected = lengths_text(&a->length[2], "rejected answers"),
         *all = format("%s; %s; %s", prompt, chosen, rejected);
    free(prompt), free(chosen), free(rejected);
    return all;
}

static char *meta(const Pack *p, StWriter *w, const Rules *rules)
{
    const Pairs *a = p->more;
    char *lengths = lengths_of(a), *identical = format("%lld", (long long)a->identical);
    (void)rules;
    char *error = st_add_meta(w, "identical", identical);
    error = error ? error : st_add_meta(w, "lengths", lengths);
    free(lengths), free(identical);
    return error;
}

static char *fingerprint(const Rules *rules)
{
    return format(" %s", rules->system);
}

static char *targets(const Rules *rules)
{
    (void)rules;
    return format("the answers, with their ends");
}

static void report(const Pack *p, const Rules *rules, const Tokenizer *tok, FILE *to)
{
    const Pairs *a = p->more;
    char *lengths = lengths_of(a);
    (void)rules, (void)tok;
    fprintf(to, "lengths before cutting: %s\n", lengths);
    if (a->shared)
        fprintf(to, "%lld pair%s no prompt: the common prefix of the answers is used\n",
                (long long)a->shared, a->shared == 1 ? " has" : "s have");
    if (a->identical)
        fprintf(to, "%lld pair%s identical answers: neither is preferred\n",
                (long long)a->identical, a->identical == 1 ? " has" : "s have");
    free(lengths);
}

static void free_pairs(Pack *p)
{
    Pairs *a = p->more;
    for (int i = 0; a && i < 1 + PACK_PARTS; i++)
        lengths_free(&a->length[i]);
    if (a)
        free(a->prompt);
    free(a);
}

static const RecordCode records = {
    .part = {"chosen", "rejected"}, .count = count, .put = put, .plan = plan, .tensor = tensor,
    .meta = meta, .fingerprint = fingerprint, .targets = targets, .report = report,
    .free = free_pairs};
const FormatCode pairs_format = {.form = FORM_PAIRS, .encode = encode, .records = &records};
