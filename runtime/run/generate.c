/* generate.c -- batched autoregressive text generation.
 *
 * In:    logits of the next tokens. Out: tokens, text. */
#define _GNU_SOURCE
#include "runtime/run/generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/utf8.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/initial_weights.h"
#include "runtime/run/prompts.h"

const char *const text_end[] = {[TEXT_ENDED] = "end",
                                [TEXT_LONGEST] = "length",
                                [TEXT_FULL] = "context",
                                [TEXT_HALTED] = "halt"};

/* Ends the program if --greedy is given together with a flag of random sampling. */
static void check_greedy(const Flags *f)
{
    const struct { int flag; bool draws;
    } row[] = {{FLAG_temperature, f->temperature > 0},
               {FLAG_top_p, f->top_p < 1},
               {FLAG_top_k, f->top_k > 1},
               {FLAG_min_p, f->min_p > 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (f->greedy && f->given[row[i].flag] && row[i].draws)
            die(EXIT_CONFIG,
                "--greedy takes the likeliest token, %s %s samples one: give only one of them",
                flags_spelt(row[i].flag), flags_text(f, row[i].flag));
}

Sampling generate_sampling(const Flags *f)
{
    check_greedy(f);
    return (Sampling){.rule = {.temperature = f->greedy ? 0 : f->temperature,
                               .top_k = f->top_k,
                               .top_p = f->top_p,
                               .min_p = f->min_p,
                               .repetition_penalty = f->repetition_penalty},
                      .seed = (uint64_t)f->seed,
                      .most = f->max_new_tokens};
}

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n + 1), size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for a text of %" PRId64 " tokens", n);
    return p;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void check_ids(const Decoder *d, const GeneratedText *text)
{
    for (int64_t i = 0; i < text->n; i++)
        if (text->token[i] < 0 || text->token[i] >= d->vocab)
            die(EXIT_MISMATCH, "token %d of a text is beyond the model's vocabulary of %" PRId64,
                text->token[i], d->vocab);
}

/* True if the text is not finished. */
static bool take(const Tokenizer *t, const Sampling *s, const Decoder *d, GeneratedText *x,
                 int32_t id)
{
    x->end = TEXT_ENDED;
    if (x->style ? style_ends(x->style, t, id) : tokenizer_ends(t, id))
        return false;
    x->token[x->n + x->more++] = id;
    x->end = TEXT_HALTED;
    if (x->on_token && !x->on_token(x->user, x->token + x->n, x->more))
        return false;
    x->end = x->n + x->more == d->positions ? TEXT_FULL : TEXT_LONGEST;
    return x->n + x->more < d->positions && x->more < s->most;
}

/* Feeds the last token of each active text to the decoder, at its position; an idle slot gets token
 * 0 at position 0. */
typedef struct {
    const Decoder *d;
    const Sampling *s;
    const Tokenizer *t;
    GeneratedText **at;          /* (texts), NULL: idle */
    int32_t *token, *position;   /* (texts) */
    float *work;                 /* (vocab) */
    int32_t *heap;               /* (vocab) */
} Desk;

static void desk_put(Desk *k, int64_t row, GeneratedText *x)
{
    k->at[row] = x;
    k->position[row] = x ? (int32_t)x->known : 0;
    k->token[row] = x ? x->token[x->known] : 0;
    if (!x)
        return;
    check_ids(k->d, x);
    x->more = 0;
}

/* Appends a token; false: the text is finished. */
static bool desk_step(Desk *k, int64_t row, const float *logits)
{
    GeneratedText *x = k->at[row];
    const Sampling *s = k->s;
    const int64_t position = k->position[row], vocab = k->d->vocab;
    const bool asks = position + 1 >= x->n;
    if (asks && !take(k->t, s, k->d, x,
                      sample_token(logits + row * vocab, vocab, &s->rule, x->token, position + 1,
                                   s->seed + ((uint64_t)x->number << 32), position, k->work,
                                   k->heap)))
        return false;
    k->token[row] = x->token[position + 1];
    k->position[row]++;
    return true;
}

/* Generates all texts, as many at a time as the decoder has slots; a finished text is replaced by
 * the next. */
void generate_texts(const Decoder *d, const Sampling *s, const Tokenizer *t, GeneratedText *text,
                    int64_t n, GenerateCost *cost)
{
    Desk k = {d,
              s,
              t,
              room(d->texts, sizeof *k.at),
              room(d->texts, sizeof *k.token),
              room(d->texts, sizeof *k.position),
              room(d->vocab, sizeof *k.work),
              room(d->vocab, sizeof *k.heap)};
    int64_t next = 0, busy = 0;
    for (int64_t i = 0; i < n; i++)
        REQUIRE(text[i].known >= 0 && (!text[i].known || n == 1));
    double began = clock_seconds();
    for (int64_t row = 0; row < d->texts && next < n; row++, busy++)
        desk_put(&k, row, &text[next++]);
    while (d->collective ? comm_any(busy > 0) : busy > 0) {
        const float *logits = d->logits(k.token, k.position);
        if (!busy)
            continue;            /* another rank has texts left */
        int64_t prompts = 0, rows = busy;
        for (int64_t row = 0; row < d->texts; row++) {
            GeneratedText *x = k.at[row];
            prompts += x && k.position[row] < x->n;
            if (!x || desk_step(&k, row, logits))
                continue;
            cost->prompt += x->n - x->known;
            cost->more += x->more;
            busy -= next == n;
            desk_put(&k, row, next < n ? &text[next++] : NULL);
        }
        const double now = clock_seconds(), share = (double)prompts / (double)rows;
        cost->prompt_seconds += (now - began) * share;
        cost->more_seconds += (now - began) * (1 - share);
        began = now;
    }
    free(k.at), free(k.token), free(k.position), free(k.work), free(k.heap);
}

static double rate(int64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

char *generate_cost(const GenerateCost *c)
{
    char *before = plain_number(rate(c->prompt, c->prompt_seconds)),
         *more = plain_number(rate(c->more, c->more_seconds)),
         *text = format("%" PRId64 " prompt token%s, %s a second; %" PRId64 " new, %s a second",
                        c->prompt, c->prompt == 1 ? "" : "s", before, c->more, more);
    free(before), free(more);
    return text;
}

/* ---- text ------------------------------------------------------------------------------------ */

char *generate_text(const Tokenizer *t, const int32_t *token, int64_t n, size_t *whole)
{
    static const char lost[] = "\xef\xbf\xbd";
    const size_t put = sizeof lost - 1;
    size_t bytes, end = 0, sure = 0;
    char *text = tokenizer_decode(t, token, (size_t)n, true, &bytes),
         *good = malloc(bytes * put + 1);
    if (!good)
        die(EXIT_INTERNAL, "out of memory for a text of %zu bytes", bytes);
    for (size_t i = 0; i < bytes;) {
        int bad, length = text[i] ? utf8_length(text + i, bytes - i, &bad) : (bad = 1, 0);
        const size_t taken = (size_t)(length ? length : bad), now = length ? taken : put;
        const bool open = length ? !memcmp(text + i, lost, taken < put ? taken : put)
                                 : i + taken == bytes && text[i];
        memcpy(good + end, length ? text + i : lost, now);
        i += taken, end += now;
        sure = open ? sure : end;        /* an incomplete UTF-8 character; its last bytes may
                                            follow */
    }
    good[end] = 0;
    free(text);
    if (whole)
        *whole = sure;
    return good;
}

/* ---- --sample, --prompts --------------------------------------------------------------------- */

/* The requested texts, and their source. */
typedef struct {
    const Decoder *d;
    Sampling how;
    Tokenizer *t;
    ChatStyle *style;            /* NULL: no prompt has messages */
    Prompt *prompt;
    int64_t n;
    const char *file;            /* NULL: of the command line */
    bool json;
} Asked;

/* Encodes a prompt, with room for its answer. */
static void lay_out(const Asked *a, int64_t i, GeneratedText *to)
{
    const Prompt *p = &a->prompt[i];
    int32_t *ids = NULL;
    size_t n;
    Encoded e = {0};
    char *error = p->text ? tokenizer_encode(a->t, p->text, strlen(p->text), true, &ids, &n)
                          : style_prompt(a->style, a->t, p->messages, p->tools, &e);
    n = p->text ? n : e.n;
    if (!error && (n == 0 || (int64_t)n >= a->d->positions))
        error = format("the text has %zu tokens; it must have 1 to %" PRId64, n,
                       a->d->positions - 1);
    if (error && a->file)
        die(EXIT_DATA, "%s:%" PRId64 ": %s", a->file, p->line, error);
    if (error)
        die(EXIT_CONFIG, "--sample: %s", error);
    const int64_t left = a->d->positions - (int64_t)n, most = a->how.most < left ? a->how.most
        : left;
    *to = (GeneratedText){.token = room((int64_t)n + most, sizeof *ids), .n = (int64_t)n,
                          .number = i, .style = p->text ? NULL : a->style};
    memcpy(to->token, p->text ? ids : e.id, n * sizeof *ids);
    free(ids);
    encoded_free(&e);
}

/* start: the answer by the initial weights; NULL: not requested. */
static void print_object(const Asked *a, const Prompt *p, const GeneratedText *x,
                         const GeneratedText *start)
{
    cJSON *row = cJSON_CreateObject();
    char *answer = generate_text(a->t, x->token + x->n, x->more, NULL);
    if (p->text)
        cJSON_AddStringToObject(row, "prompt", p->text);
    else
        cJSON_AddItemToObject(row, "messages", cJSON_Duplicate(p->messages, true));
    cJSON_AddStringToObject(row, "answer", answer);
    if (start) {
        char *before = generate_text(a->t, start->token + start->n, start->more, NULL);
        cJSON_AddStringToObject(row, "start", before);
        free(before);
    }
    cJSON_AddNumberToObject(row, "prompt_tokens", (double)x->n);
    cJSON_AddNumberToObject(row, "new_tokens", (double)x->more);
    cJSON_AddStringToObject(row, "end", text_end[x->end]);
    json_say(row);
    free(answer);
}

/* Prints the prompt and its continuation unchanged. */
static void print_text(const Asked *a, const GeneratedText *x)
{
    size_t bytes;
    char *out = tokenizer_decode(a->t, x->token, (size_t)(x->n + x->more), true, &bytes);
    fwrite(out, 1, bytes, stdout);
    putchar('\n');
    free(out);
}

/* Prints n of them from `at` on, on rank 0. */
static void print_part(const Asked *a, const GeneratedText *text, const GeneratedText *start,
                       int64_t at, int64_t n)
{
    for (int64_t i = at; world.rank == 0 && i < at + n; i++) {
        if (a->json) {
            print_object(a, &a->prompt[i], &text[i], start ? &start[i] : NULL);
            continue;
        }
        if (i)
            putchar('\n');
        print_text(a, &text[i]);
        if (start) {
            puts("-- the weights that the run began with:");
            print_text(a, &start[i]);
        }
    }
}

/* Divides the texts among the ranks; afterwards every rank has all of them. */
static void continue_parts(const Asked *a, GeneratedText *text, int64_t n, GenerateCost *cost)
{
    enum { SECONDS = 7 * 24 * 3600 };        /* ranks may wait for each other */
    const int64_t ranks = world.size, first = n * world.rank / ranks,
                  end = n * (world.rank + 1) / ranks;
    comm_expect(ranks > 1 && !a->d->collective ? SECONDS : 0);
    generate_texts(a->d, &a->how, a->t, text + first, end - first, cost);
    for (int64_t r = 0, i = 0; r < ranks; r++)
        for (; i < n * (r + 1) / ranks; i++) {
            int64_t result[] = {text[i].more, (int64_t)text[i].end};
            comm_broadcast(result, sizeof result, (int)r);
            text[i].more = result[0], text[i].end = (TextEnd)result[1];
            comm_broadcast(text[i].token + text[i].n, sizeof *text[i].token * (size_t)result[0],
                           (int)r);
        }
    comm_expect(0);
}

int generate_print(const Decoder *d, const Flags *f, const char *const folder[], int nfolders)
{
    enum { PART = 64 };          /* prompts of a rank, before they are printed */
    const bool file = *f->prompts;
    const char *flag = file ? "--prompts" : "--sample";
    Asked a = {.d = d,
               .how = generate_sampling(f),
               .file = !file                     ? NULL
                       : strcmp(f->prompts, "-") ? f->prompts
                                                 : "standard input",
               .json = file || f->json,
               .n = flags_many(f, FLAG_sample)};
    if (f->given[FLAG_max_new_tokens] && a.how.most >= d->positions)
        note("--max-new-tokens %" PRId64 ": the program has room for %" PRId64 " tokens with the "
             "prompt (seq.max), and texts end there", a.how.most, d->positions);
    a.t = vocabulary_load(flag, f->tokenizer, folder, nfolders, d->vocab);
    if (file)
        a.prompt = prompts_read(flag, f->prompts, f->ignore_keys, &a.n);
    else
        a.prompt = room(a.n, sizeof *a.prompt);
    for (int64_t i = 0; i < a.n; i++) {
        if (!file)
            a.prompt[i].text = format("%s", f->many[FLAG_sample][i]);
        if (a.prompt[i].messages && !a.style)
            a.style = style_open(flag, f, a.t, folder, nfolders);
    }
    if (!a.style)
        style_unused(flag, f);
    GeneratedText *text = room(a.n, sizeof *text),
                  *start = *f->compare_initial ? room(a.n, sizeof *start) : NULL;
    GenerateCost cost = {0};
    for (int64_t i = 0; i < a.n; i++) {
        lay_out(&a, i, &text[i]);
        if (start)
            lay_out(&a, i, &start[i]);
    }
    const double began = clock_seconds();
    const int64_t part = start ? a.n : PART * world.size;
    for (int64_t at = 0; at < a.n; at += part) {
        const int64_t n = a.n - at < part ? a.n - at : part;
        continue_parts(&a, text + at, n, &cost);
        if (start) {
            initial_load_start("--compare-initial",
                               strcmp(f->compare_initial, "recorded") ? f->compare_initial : NULL);
            continue_parts(&a, start, n, &cost);
        }
        print_part(&a, text, start, at, n);
        output_done(EXIT_OK);
    }
    double sum[] = {(double)cost.prompt, (double)cost.more, cost.prompt_seconds, cost.more_seconds};
    comm_allreduce_double(sum, 4);
    cost =
        (GenerateCost){(int64_t)sum[0], (int64_t)sum[1], sum[2] / world.size, sum[3] / world.size};
    char *summary = generate_cost(&cost), *seconds = plain_number(clock_seconds() - began);
    note("%" PRId64 " text%s in %s s; %s", a.n, a.n == 1 ? "" : "s", seconds, summary);
    free(seconds);
    for (int64_t i = 0; i < a.n; i++) {
        free(text[i].token);
        if (start)
            free(start[i].token);
    }
    free(text), free(start), free(summary);
    prompts_free(a.prompt, a.n);
    style_free(a.style);
    tokenizer_free(a.t);
    return EXIT_OK;
}
