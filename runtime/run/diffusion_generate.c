/* diffusion_generate.c -- text generation by a masked-diffusion model.
 *
 * In:    flags, a tokenizer, a sampler. Out: text. */
#include "runtime/run/diffusion_generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/prompts.h"
#include "runtime/run/records.h"

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for texts of %" PRId64 " elements", n);
    return p;
}

/* ---- settings from the flags ----------------------------------------------------------------- */

typedef struct {
    DiffusionSchedule how;
    int64_t length;              /* tokens after a prompt; 0: the tokens that the prompt masks */
} Settings;

enum { LENGTH = 128 };           /* default length after a prompt, if there is room */

/* Ends the program, as the length is no multiple of the block, with values that are and that fit
 * after a prompt of `before` tokens. */
static void die_multiple(int64_t positions, int64_t before, int64_t length, int64_t block)
{
    const int64_t left = positions - before, fits = length < left ? length : left;
    char *advice = fits >= block    ? format("; try --gen-length %" PRId64, fits / block * block)
                   : fits == length ? format("; try --gen-block %" PRId64, length)
                   : fits > 0       ? format("; try --gen-length %" PRId64 " --gen-block %" PRId64,
                                             fits, fits)
                                    : format("%s", "");
    die(EXIT_CONFIG, "--gen-length %" PRId64 " is not a multiple of the blocks of %" PRId64
        " tokens%s", length, block, advice);
}

/* Returns the number of blocks after a prompt of `before` tokens, in texts of `positions`
 * positions; *length: all their tokens, *block: those of a block, at most `most`. EXIT_CONFIG if
 * they do not fit. */
static int64_t blocks_of(int64_t positions, int64_t before, int64_t most, const Flags *f,
                         int64_t *length, int64_t *block)
{
    const int64_t half = positions > 1 ? positions / 2 : 1;
    *block = f->gen_block ? f->gen_block : most;
    *length = f->gen_length >= 0 ? f->gen_length : half < LENGTH ? half : LENGTH;
    if (*block > most)
        die(EXIT_CONFIG,
            "--gen-block %" PRId64 ": this program computes %" PRId64 " positions at "
            "a time: give at most that, or build with gen RECIPE diffusion.block=%" PRId64,
            *block, most, *block);
    if (*length == 0)
        return 1;
    if (!f->gen_block && *length < *block)
        *block = *length;
    if (!f->given[FLAG_gen_length])
        *length = (*length + *block - 1) / *block * *block;
    if (*length % *block)
        die_multiple(positions, before, *length, *block);
    return *length / *block;
}

/* Returns the passes per block; EXIT_CONFIG. */
static int64_t steps_of(const Flags *f, int64_t blocks, int64_t block)
{
    if (f->gen_steps % blocks)
        die(EXIT_CONFIG,
            "--gen-steps %" PRId64 " cannot be divided equally among %" PRId64 " "
            "blocks of %" PRId64 " tokens; try --gen-steps %" PRId64,
            f->gen_steps, blocks, block, (f->gen_steps + blocks - 1) / blocks * blocks);
    return f->gen_steps ? f->gen_steps / blocks : block;
}

void diffusion_check(const Flags *f, int64_t positions, int64_t most)
{
    int64_t length, block, blocks = blocks_of(positions, 0, most, f, &length, &block);
    steps_of(f, blocks, block);
}

/* mask: the model's mask token, -1: the tokenizer's. flag: the requesting flag, for messages.
 * before: tokens of the longest prompt, for advice. EXIT_CONFIG for contradicting flags or a
 * missing mask token. */
static Settings settings_of(const DiffusionSampler *d, const Flags *f, const Tokenizer *t,
                            int64_t mask, const char *flag, int64_t before)
{
    int64_t length, block,
        blocks = blocks_of(d->positions, before, d->block, f, &length, &block);
    if (mask < 0)
        mask = tokenizer_mask(t);
    if (mask < 0)
        die(EXIT_CONFIG, "%s: the tokenizer has no mask token such as [MASK]; build with gen "
                         "RECIPE diffusion.mask=ID", flag);
    int64_t ids = tokenizer_size(t) < d->vocab ? tokenizer_size(t) : d->vocab;
    const bool random = !strcmp(f->gen_remasking, "random");
    const UnmaskRule rule = {.order = random ? UNMASK_random : UNMASK_low_confidence,
                             .temperature = f->temperature, .mask = (int32_t)mask,
                             .ids = (int32_t)ids, .seed = (uint64_t)f->seed};
    return (Settings){{rule, f->guidance, block, steps_of(f, blocks, block)}, length};
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Returns the text of the tokens from `from` on, of which the first n are the prompt; generated
 * ones count up to a token that ends a text, or an answer of `style`. malloc'ed. */
static char *text_of(const Settings *g, const Tokenizer *t, const ChatStyle *style,
                     const DiffusionText *text, int64_t from,
                     int64_t n, size_t *bytes)
{
    int64_t end = g->length ? n : text->n;
    while (end < text->n &&
           !(style ? style_ends(style, t, text->token[end]) : tokenizer_ends(t, text->token[end])))
        end++;
    return tokenizer_decode(t, text->token + from, (size_t)(end - from), true, bytes);
}

/* The prompts to answer. */
typedef struct {
    const DiffusionSampler *d;
    Settings g;
    Tokenizer *t;
    bool continues;              /* the text; otherwise its mask tokens are filled */
    ChatStyle *style;            /* of messages; NULL: no prompt has any */
    bool windows;                /* the model was trained on text windows; otherwise on answers to
                                    prompts */
} Asked;

/* Returns the tokens of a prompt as in training: of a conversation up to the answer; of a text with
 * the tokens that begin one; if it has mask tokens itself, with those around a whole text. */
static char *prompt_ids(const Asked *a, const Prompt *p, Encoded *e)
{
    const bool continues = a->continues;
    if (!p->text)
        return continues ? style_prompt(a->style, a->t, p->messages, p->tools, e)
                      : format("messages: needs --gen-length above 0, for the answer");
    int32_t *ids;
    size_t n, before = 0;
    const int32_t *prefix = continues ? tokenizer_prefix(a->t, &before) : NULL,
                  first = continues && a->windows ? windows_first(a->t) : -1;
    char *error = tokenizer_encode(a->t, p->text, strlen(p->text), !continues, &ids, &n);
    if (error)
        return error;
    if (first >= 0)
        prefix = &first, before = 1;
    encoded_put(e, prefix, before, false);
    encoded_put(e, ids, n, false);
    free(ids);
    return NULL;
}

/* Returns that n tokens and those to generate do not fit, with a length in whole blocks, or a
 * shorter block, that does; malloc'ed. */
static char *no_room(int64_t positions, int64_t n, int64_t length, int64_t block)
{
    const int64_t left = positions - n, whole = left / block * block;
    char *error = format("the text has %" PRId64 " tokens and --gen-length is %" PRId64
                         "; this program has room for %" PRId64, n, length, positions),
         *advice = left <= 0 ? format(": shorten the text")
                   : whole   ? format(": try --gen-length %" PRId64, whole)
                             : format(": try --gen-length %" PRId64 " --gen-block %" PRId64, left,
                                      left),
         *all = format("%s%s", error, advice);
    free(error), free(advice);
    return all;
}

/* Sets the sequence of a prompt: its tokens followed by masked ones; or, with gaps, the tokenizer's
 * mask tokens replaced by the model's. */
static char *lay_out(const Asked *a, const Encoded *e, DiffusionText *text)
{
    const Settings *g = &a->g;
    const DiffusionSampler *d = a->d;
    const int64_t n = (int64_t)e->n;
    char *error = NULL;
    text->n = n + g->length;
    text->token = room(text->n, sizeof *text->token);
    int64_t hidden = 0;
    for (int64_t i = 0; i < text->n; i++) {
        int32_t id = i < n ? e->id[i] : g->how.rule.mask;
        if (id >= 0 && id == tokenizer_mask(a->t))
            id = g->how.rule.mask;
        if (id < 0 || id >= d->vocab)
            error = format("token %d is beyond the model's vocabulary of %" PRId64, id, d->vocab);
        hidden += id == g->how.rule.mask;
        text->token[i] = id;
    }
    if (error)
        return error;
    if (!hidden)
        return format("--gen-length is 0, but the text has no mask token");
    if (g->length && hidden > g->length)
        return format("the text has mask tokens: fill them with --gen-length 0");
    if (text->n > d->positions)
        return no_room(d->positions, n, g->length, g->how.block);
    return NULL;
}

/* Prints a result: a given text with its continuation, the answer of a question, an object for a
 * line of a file. */
static void print_text(const Asked *a, const Prompt *p, const DiffusionText *text, int64_t n,
                       bool object)
{
    size_t bytes;
    const bool alone = (object && a->g.length) || !p->text;
    char *answer = text_of(&a->g, a->t, p->text ? NULL : a->style, text, alone ? n : 0, n, &bytes);
    if (object) {
        cJSON *row = cJSON_CreateObject();
        if (p->text)
            cJSON_AddStringToObject(row, "prompt", p->text);
        else
            cJSON_AddItemToObject(row, "messages", cJSON_Duplicate(p->messages, true));
        cJSON_AddStringToObject(row, "answer", answer);
        json_say(row);
    } else {
        fwrite(answer, 1, bytes, stdout);
        putchar('\n');
    }
    free(answer);
}

/* Returns the prompts of --generate: texts, or questions of a user. */
static Prompt *prompts_given(const Flags *f, int64_t *n)
{
    *n = flags_many(f, FLAG_generate);
    Prompt *all = room(*n, sizeof *all);
    for (int64_t i = 0; i < *n; i++) {
        const char *prompt = f->many[FLAG_generate][i];
        if (f->generate_chat)
            all[i].messages = chat_list(chat_turn("user", prompt), NULL);
        else
            all[i].text = format("%s", prompt);
    }
    return all;
}

/* Divides the texts among the ranks; afterwards rank 0 has all of them, and the cost. */
static void diffusion_parts(const DiffusionSampler *d, const DiffusionSchedule *how,
                            DiffusionText *text, int64_t n, DiffusionCost *cost)
{
    enum { SECONDS = 7 * 24 * 3600 };        /* ranks may wait for each other */
    const int64_t ranks = world.size, first = n * world.rank / ranks,
                  end = n * (world.rank + 1) / ranks;
    double began = clock_seconds(), sum[] = {0, 0};
    comm_expect(ranks > 1 && !d->collective ? SECONDS : 0);
    diffusion_sample(d, how, text + first, end - first, cost);
    for (int64_t r = 0, i = 0; r < ranks; r++)
        for (; i < n * (r + 1) / ranks; i++)
            comm_broadcast(text[i].token, sizeof *text[i].token * (size_t)text[i].n, (int)r);
    sum[0] = (double)cost->tokens, sum[1] = (double)cost->passes;
    comm_allreduce_double(sum, 2);
    comm_expect(0);
    *cost = (DiffusionCost){(int64_t)sum[0], (int64_t)sum[1], clock_seconds() - began,
                            cost->inside};
}

static void note_cost(const DiffusionSampler *d, const DiffusionCost *c)
{
    char *seconds = plain_number(c->seconds), *all = plain_number((double)c->tokens / c->seconds),
         *inside = plain_number((double)c->tokens / c->inside);
    note("%" PRId64 " tokens in %s s: %s a second; the %" PRId64 " passes of %" PRId64 " x %" PRId64
         " tokens alone: %s a second",
         c->tokens, seconds, all, c->passes, d->rows, d->positions, inside);
    free(seconds), free(all), free(inside);
}

/* Ends the program if there is an error with this prompt. */
static void refuse(const Flags *f, const Prompt *p, const char *error)
{
    if (error && *f->generate_file)
        die(EXIT_DATA, "%s:%" PRId64 ": %s", f->generate_file, p->line, error);
    if (error)
        die(EXIT_CONFIG, "--generate: %s", error);
}

int diffusion_print(const DiffusionSampler *d, const Flags *f, int64_t mask, bool windows,
                    const char *const folder[], int nfolders)
{
    const bool file = *f->generate_file;
    const char *flag = file ? "--generate-file" : "--generate";
    Tokenizer *t = vocabulary_load(flag, records_tokenizer(f), folder, nfolders, d->vocab);
    Asked a = {.d = d, .t = t, .continues = f->gen_length != 0, .windows = windows};
    int64_t n, longest = 0;
    Prompt *prompt = file ? prompts_read(flag, f->generate_file, f->ignore_keys, &n)
                          : prompts_given(f, &n);
    DiffusionText *text = room(n, sizeof *text);
    Encoded *encoded = room(n, sizeof *encoded);
    DiffusionCost cost = {0};
    for (int64_t i = 0; i < n; i++) {
        if (prompt[i].messages && !a.style)
            a.style = style_open(flag, f, t, folder, nfolders);
        refuse(f, &prompt[i], prompt_ids(&a, &prompt[i], &encoded[i]));
        longest = (int64_t)encoded[i].n > longest ? (int64_t)encoded[i].n : longest;
    }
    a.g = settings_of(d, f, t, mask, flag, longest);
    for (int64_t i = 0; i < n; i++) {
        refuse(f, &prompt[i], lay_out(&a, &encoded[i], &text[i]));
        text[i].number = i;
    }
    if (!a.style)
        style_unused(flag, f);
    diffusion_parts(d, &a.g.how, text, n, &cost);
    for (int64_t i = 0; i < n; i++) {
        if (world.rank == 0)
            print_text(&a, &prompt[i], &text[i], (int64_t)encoded[i].n, file);
        free(text[i].token);
        encoded_free(&encoded[i]);
    }
    note_cost(d, &cost);
    prompts_free(prompt, n);
    style_free(a.style);
    free(text), free(encoded);
    tokenizer_free(t);
    return EXIT_OK;
}

/* ---- with validations ---------------------------------------------------------------------- */

static const char samples_file[] = "samples.jsonl";

/* Rewrites the file: lines of earlier steps, then a new one. */
static char *with_line(const char *before, int64_t step, const char *line)
{
    size_t kept = 0;
    for (const char *p = before; *p;) {
        size_t n = strcspn(p, "\n");
        cJSON *row = cJSON_ParseWithLength(p, n);
        const cJSON *of = json_get(row, "step");
        bool keep = p[n] && cJSON_IsNumber(of) && of->valuedouble < (double)step;
        cJSON_Delete(row);
        if (!keep)
            break;
        p += n + 1;
        kept = (size_t)(p - before);
    }
    return format("%.*s%s\n", (int)kept, before, line);
}

static char *add_sample(const char *out, int64_t step, const char *prompt, const char *answer)
{
    size_t n;
    char *error = NULL, *path = folder_join(out, samples_file),
         *before = file_named(path) ? file_read_nofollow(path, 1 << 28, &n, &error)
             : format("%s", "");
    if (error)
        return error;
    cJSON *row = cJSON_CreateObject(), *value = cJSON_CreateString(answer);
    cJSON_AddNumberToObject(row, "step", (double)step);
    cJSON_AddStringToObject(row, "prompt", prompt);
    char *shown = cJSON_PrintUnformatted(value);
    cJSON_AddItemToObject(row, "answer", value);
    char *line = cJSON_PrintUnformatted(row);
    if (!line || !shown)
        die(EXIT_INTERNAL, "out of memory for a sample");
    note("step %" PRId64 "  says %s", step, shown);
    char *text = with_line(before, step, line);
    error = folder_replace_text(out, samples_file, text);
    free(text), free(line), free(shown), free(before), free(path);
    cJSON_Delete(row);
    return error;
}

char *diffusion_sample_text(const DiffusionSampler *d, const Flags *f, int64_t mask,
                            const char *tokenizer, const DataRow *row, int64_t step)
{
    Tokenizer *t = vocabulary_load("--eval-sample", tokenizer, NULL, 0, d->vocab);
    Settings g = settings_of(d, f, t, mask, "--eval-sample", 0);
    int64_t n = 0;
    while (row->mask && n < row->n && !row->mask[n])
        n++;
    n = n < d->positions / 8 ? d->positions / 8 : n;
    n = n > row->n ? row->n : n > d->positions / 2 ? d->positions / 2 : n;
    if (g.how.block > d->positions - n)
        g.how.block = g.how.steps = d->positions - n;
    if (g.length > d->positions - n || !g.length)
        g.length = (d->positions - n) / g.how.block * g.how.block;
    DiffusionText text = {room(n + g.length, sizeof *text.token), n + g.length, 0};
    for (int64_t i = 0; i < text.n; i++)
        text.token[i] = i < n ? row->token[i] : g.how.rule.mask;
    DiffusionCost cost = {0};
    diffusion_sample(d, &g.how, &text, 1, &cost);
    size_t bytes;
    char *error = NULL;
    if (world.rank == 0) {
        char *prompt = tokenizer_decode(t, text.token, (size_t)n, true, &bytes),
             *answer = text_of(&g, t, NULL, &text, n, n, &bytes);
        error = add_sample(f->out, step, prompt, answer);
        free(prompt), free(answer);
    }
    free(text.token);
    tokenizer_free(t);
    return error;
}
