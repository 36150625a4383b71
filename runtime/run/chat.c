/* chat.c -- interactive chat (--chat).
 *
 * In:    lines of standard input. Out: answers.
 * Keeps: each question encodes the whole conversation again, as in training; keys and values are
 *        reused up to the first token that differs. */
#define _GNU_SOURCE
#include "runtime/run/chat.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/prompts.h"

typedef struct {
    const Decoder *d;
    Sampling how;
    Tokenizer *t;
    ChatStyle *style;
    const char *system;          /* "": none */
    bool json, terminal;
    cJSON *messages;             /* so far */
    int32_t *held;               /* (places): tokens whose keys and values are cached */
    int64_t nheld_out, turn, line;
    size_t shown;                /* bytes of the answer */
    GenerateCost cost;
} Conversation;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* Reports a question that cannot be answered, and frees the reason. */
static void refuse(const Conversation *c, char *why)
{
    if (!c->terminal)
        die(EXIT_DATA, "--chat: line %" PRId64 ": %s", c->line, why);
    note("%s", why);
    free(why);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Returns the next line without its end, malloc'ed, the same on all ranks; NULL: end of the
 * input. */
static char *next_line(Conversation *c, size_t *n)
{
    enum { SECONDS = 7 * 24 * 3600 };        /* the user may take time */
    char *line = NULL;
    size_t cap = 0;
    int64_t bytes = -1;
    comm_expect(SECONDS);
    if (world.rank == 0) {
        if (c->terminal) {
            fputs("> ", stdout);
            fflush(stdout);
        }
        errno = 0;
        bytes = getline(&line, &cap, stdin);
        if (c->terminal && bytes < 0)
            putchar('\n');
    }
    comm_broadcast(&bytes, sizeof bytes, 0);
    if (bytes < 0) {
        free(line);
        return NULL;
    }
    if (world.rank != 0 && !(line = malloc((size_t)bytes + 1)))
        die(EXIT_INTERNAL, "out of memory for a line of %" PRId64 " bytes", bytes);
    comm_broadcast(line, (size_t)bytes, 0);
    comm_expect(0);
    while (bytes > 0 && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
        bytes--;
    line[bytes] = 0;
    *n = (size_t)bytes;
    const size_t mark = c->line ? 0 : utf8_mark(line, *n);
    memmove(line, line + mark, *n - mark + 1);
    *n -= mark;
    c->line++;
    return line;
}

static void reset(Conversation *c)
{
    cJSON_Delete(c->messages);
    c->messages = cJSON_CreateArray();
    if (*c->system)
        cJSON_AddItemToArray(c->messages, chat_turn("system", c->system));
}

/* Runs a command, a line that begins with /. Returns false if it ends the chat. */
static bool command(Conversation *c, const char *line)
{
    if (!strcmp(line, "/exit"))
        return false;
    if (!strcmp(line, "/help"))
        note("/reset starts over, /exit or Ctrl-D ends, Ctrl-C ends an answer; //... is a "
             "question that begins with /; everything else is a question");
    else if (!strcmp(line, "/reset")) {
        reset(c);
        note("a new conversation");
    } else
        refuse(c, format("%.40s: unknown, commands are /help, /reset, /exit; write a question "
                         "that begins with / as //...",
                         line));
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Prints the part of the answer that later tokens cannot change. */
static bool show(void *user, const int32_t *more, int64_t n)
{
    Conversation *c = user;
    size_t whole;
    if (world.rank != 0 || c->json)
        return !interrupted;
    char *text = generate_text(c->t, more, n, &whole);
    if (whole > c->shown) {
        fwrite(text + c->shown, 1, whole - c->shown, stdout);
        fflush(stdout);
        c->shown = whole;
    }
    free(text);
    return !interrupted;
}

/* Returns the conversation's tokens, malloc'ed; NULL and a message. */
static int32_t *encode(const Conversation *c, int64_t *n, char **error)
{
    Encoded e = {0};
    if ((*error = style_prompt(c->style, c->t, c->messages, NULL, &e)))
        return NULL;
    int32_t *ids = malloc(sizeof *ids * (e.n + (size_t)c->how.most + 1));
    if (!ids)
        die(EXIT_INTERNAL, "out of memory for a conversation of %zu tokens", e.n);
    memcpy(ids, e.id, sizeof *ids * e.n);
    *n = (int64_t)e.n;
    encoded_free(&e);
    return ids;
}

/* Drops the earliest question and its answer; false: there is only the last question. */
static bool drop_earliest(Conversation *c)
{
    const int first =
        cJSON_GetArraySize(c->messages) > 0 &&
        !strcmp(cJSON_GetStringValue(json_get(cJSON_GetArrayItem(c->messages, 0), "role")),
                "system");
    if (cJSON_GetArraySize(c->messages) <= first + 1)
        return false;
    for (int i = 0; i < 2; i++)
        cJSON_DeleteItemFromArray(c->messages, first);
    return true;
}

/* The same, without as many of the earliest turns as leave no room for an answer. */
static int32_t *encode_fitting(Conversation *c, int64_t *n, char **error)
{
    const int64_t quarter = c->d->positions / 4, left = c->how.most < quarter ? c->how.most
        : quarter;
    int64_t dropped = 0;
    int32_t *ids;
    while ((ids = encode(c, n, error)) && *n + left > c->d->positions && drop_earliest(c)) {
        free(ids);
        dropped++;
    }
    if (dropped)
        note("the program has room for %" PRId64 " tokens: the earliest %s left out",
             c->d->positions,
             dropped == 1 ? "question and its answer are" : "questions and their answers are");
    if (ids && *n >= c->d->positions) {
        *error = format("the question has %" PRId64 " tokens with its format; this program has "
                        "room for %" PRId64 " with the answer", *n, c->d->positions);
        free(ids);
        return NULL;
    }
    return ids;
}

static void print_object(const Conversation *c, const char *question, const char *answer,
                         const GeneratedText *x)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "turn", (double)c->turn);
    cJSON_AddStringToObject(row, "question", question);
    cJSON_AddStringToObject(row, "answer", answer);
    cJSON_AddNumberToObject(row, "prompt_tokens", (double)x->n);
    cJSON_AddNumberToObject(row, "known_tokens", (double)x->known);
    cJSON_AddNumberToObject(row, "new_tokens", (double)x->more);
    cJSON_AddStringToObject(row, "end", text_end[x->end]);
    json_say(row);
}

static void finish(Conversation *c, const char *question, const GeneratedText *x)
{
    char *answer = generate_text(c->t, x->token + x->n, x->more, NULL);
    const char *lead = c->style->chat && c->style->chat->lead ? c->style->chat->lead : "";
    const size_t n = strlen(lead);
    if (world.rank == 0 && c->json)
        print_object(c, question, answer, x);
    else if (world.rank == 0)
        printf("%s\n", answer + c->shown);
    output_done(EXIT_OK);
    if (x->end == TEXT_FULL)
        note("the program has room for %" PRId64 " tokens: the answer is cut", c->d->positions);
    if (x->end == TEXT_LONGEST)
        note("the answer is cut after %" PRId64 " tokens: --max-new-tokens", c->how.most);
    cJSON_AddItemToArray(c->messages,
                         chat_turn("assistant", strncmp(answer, lead, n) ? answer : answer + n));
    free(answer);
}

static void answer(Conversation *c, const char *question)
{
    char *error = NULL;
    GenerateCost cost = {0};
    GeneratedText x = {.style = c->style, .on_token = show, .user = c};
    cJSON_AddItemToArray(c->messages, chat_turn("user", question));
    if (!(x.token = encode_fitting(c, &x.n, &error))) {
        cJSON_DeleteItemFromArray(c->messages, cJSON_GetArraySize(c->messages) - 1);
        refuse(c, error);
        return;
    }
    while (x.known < c->nheld_out && x.known < x.n - 1 && c->held[x.known] == x.token[x.known])
        x.known++;
    c->shown = 0;
    c->turn++;
    interrupted = 0;
    generate_texts(c->d, &c->how, c->t, &x, 1, &cost);
    c->nheld_out = x.n + x.more - (x.end != TEXT_ENDED);  /* the last token was not fed to the
                                                            model */
    memcpy(c->held, x.token, sizeof *c->held * (size_t)c->nheld_out);
    finish(c, question, &x);
    if (c->terminal) {
        char *summary = generate_cost(&cost);
        note("%s", summary);
        free(summary);
    }
    c->cost.prompt += cost.prompt, c->cost.more += cost.more;
    c->cost.prompt_seconds += cost.prompt_seconds, c->cost.more_seconds += cost.more_seconds;
    free(x.token);
}

/* Takes a line of input. Returns false if it ends the chat. */
static bool take_line(Conversation *c, const char *line, size_t n)
{
    const size_t bad = utf8_check(line, n);
    if (strlen(line) < n)
        refuse(c, format("holds a NUL character: not text"));
    else if (bad < n)
        refuse(c, format("byte %zu is not UTF-8", bad + 1));
    else if (line[0] == '/' && line[1] != '/')
        return command(c, line);
    else if (line[strspn(line, " \t")])
        answer(c, line[0] == '/' ? line + 1 : line);
    return true;
}

int chat_run(const Decoder *d, const Flags *f, const char *const folder[], int nfolders)
{
    Conversation c = {.d = d,
                      .how = generate_sampling(f),
                      .system = f->chat_system,
                      .json = f->json,
                      .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    char *line;
    size_t n;
    comm_broadcast(&c.terminal, sizeof c.terminal, 0);
    c.t = vocabulary_load("--chat", f->tokenizer, folder, nfolders, d->vocab);
    c.style = style_open("--chat", f, c.t, folder, nfolders);
    if (!(c.held = malloc(sizeof *c.held * (size_t)d->positions)))
        die(EXIT_INTERNAL, "out of memory for a conversation");
    if (*c.system && c.style->chat && c.style->chat->system_in == SYSTEM_NOWHERE)
        die(EXIT_CONFIG, "--chat-system: the chat format %s has no system messages",
            c.style->chat->name);
    reset(&c);
    if (c.terminal && world.size == 1)
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = SA_RESTART},
                  NULL);
    if (c.terminal)
        note("/help lists commands; Ctrl-D ends");
    for (bool more = true; more && (line = next_line(&c, &n)); free(line))
        more = take_line(&c, line, n);
    char *summary = generate_cost(&c.cost);
    note("%" PRId64 " answer%s; %s", c.turn, c.turn == 1 ? "" : "s", summary);
    cJSON_Delete(c.messages);
    style_free(c.style);
    tokenizer_free(c.t);
    free(c.held), free(summary);
    return EXIT_OK;
}
