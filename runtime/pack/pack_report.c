/* pack_report.c -- reports of a pack: progress on standard error, rows of --show, the summary. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"
#include "runtime/pack/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- progress -------------------------------------------------------------------------------- */

void progress_note(Progress *g, const Pack *p, int64_t bytes)
{
    double now = clock_seconds();
    if (now - g->last < (g->terminal ? 0.5 : 5))
        return;
    double rate = (double)bytes / (now - g->began), mib = 1 << 20;
    char *share = g->total < 0 ? format("%.1f MiB", (double)bytes / mib)
                : format("%.0f%% of %.1f MiB", 100.0 * (double)bytes / (double)g->total,
                         (double)g->total / mib);
    char *left = g->total < 0 || rate <= 0 ? format("%s", "")
               : format(", %.0f s left", (double)(g->total - bytes) / rate);
    fprintf(stderr, "%s%s: %s, %lld tokens, %.1f MB/s%s%s", g->terminal ? "\r\033[K" : "", g->who,
            share, (long long)p->ntokens, rate / 1e6, left, g->terminal ? "" : "\n");
    free(share);
    free(left);
    g->last = now;
    g->drawn = g->terminal;
}

void progress_clear(Progress *g)
{
    if (g->drawn)
        fputs("\r\033[K", stderr);
    g->drawn = false;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* "24 tokens, 5 targets" of a part. */
static char *counts(const CutRow *k, int i)
{
    const size_t targets = k->targets[i];
    return format("%zu tokens, %zu target%s", k->n[i], targets, targets == 1 ? "" : "s");
}

/* target NULL: all. The first token is not a target, unless the objective chooses its targets. */
static void show_ids(const Work *w, const char *title, const int32_t *id, const uint8_t *target,
                     size_t n)
{
    uint8_t *copy = target && n ? malloc(n) : NULL;
    if (copy) {
        memcpy(copy, target, n);
        copy[0] = w->pack.finds_targets && target[0];
    }
    show_row(&(TokenText){w->tok, show_token}, title,
             &(ShownRow){.n = (int64_t)n, .token = id, .target = copy});
    free(copy);
}

void report_row(const Work *w, const Chunk *from, const RowOut *row, const CutRow *k,
                        const int32_t *id, const uint8_t *target)
{
    const char *keys = pack_format[row->form].keys;
    char *first = counts(k, 0), *place = format("%s:%d", from->place.file, row->line);
    if (row->drop)
        printf("%s: %s: left out, %s\n", place, keys, drop_why[row->drop]);
    else if (k->drop == DROP_NO_TARGET)
        printf("%s: %s, %s: left out\n", place, keys, first);
    else
        printf("%s: %s%s%s%s%s%s\n", place, keys, k->parts > 1 ? "" : ", ",
               k->parts > 1 ? "" : first, k->cut ? ", cut" : "",
               k->drop ? ": left out, " : "", k->drop ? drop_why[k->drop] : "");
    free(first), free(place);
    for (int i = 0; i < k->parts && !row->drop; i++) {
        const char *part = k->parts > 1 ? row->records->part[i] : "";
        char *text = counts(k, i), *title = format("  %s: %s", part, text);
        show_ids(w, k->parts > 1 ? title : NULL, id + k->begin[i], target + k->begin[i], k->n[i]);
        free(text), free(title);
    }
    if (row->records && row->records->show && !row->drop)
        row->records->show(row);
}

void report_text(const Work *w, const Chunk *from, const RowOut *row, const int32_t *id)
{
    char *title = format("%s: a text%s", from->place.file, from->last ? "" : ", its beginning");
    show_ids(w, title, id, NULL, row->n);
    free(title);
}

void report_window(const Work *w, const Chunk *from, int line, const int32_t *id,
                   const uint8_t *target, size_t n)
{
    char *at = line ? format(":%d", line) : format("%s", "");
    char *title = format("%s%s: a window, %zu tokens%s", from->place.file, at, n,
                         from->held_out ? ", for validation" : "");
    show_ids(w, title, id, target, n);
    free(at), free(title);
}

/* ---- the summary ----------------------------------------------------------------------------- */

void report_rules(const Work *w, FILE *to)
{
    static const char *const means[] = {
        "the last answer of each row, its completion, or all of a text (the default)",
        "the last answer of each row, or its completion (--loss-on last)",
        "every answer of an assistant (--loss-on assistant)",
        "the answers to each user turn, in a row of its own (--loss-on turns)",
        "every token (--loss-on all)",
    };
    const Pack *p = &w->pack;
    if (p->nchats > p->nrendered)
        fprintf(to, "chat format: %s, by %s\n", w->rules.chat->name, w->why_chat);
    if (p->nrendered) {
        char *about = render_about(w->rules.render);
        fprintf(to, "chat format%s: %s\n",
                p->nchats > p->nrendered ? " of rows with tools" : "", about);
        free(about);
    }
    char *targets = p->records && p->records->targets ? p->records->targets(&w->rules) : NULL;
    if (targets)
        fprintf(to, "targets: %s\n", targets);
    else if (p->kind == KIND_ROWS)
        fprintf(to, "targets: %s\n",
                p->finds_targets ? "chosen for each batch"
                : p->nform[FORM_TEXT] == p->ndocs + p->dropped[DROP_NO_TARGET]
                ? means[LOSS_ALL] : means[w->rules.loss]);
    free(targets);
}

/* most: the given maximum of words; 0: none */
static void report_vocabulary(const Vocabulary *v, int64_t most, int size, FILE *to)
{
    const char *const *file = vocabulary_files(v->kind);
    const bool words = !strcmp(v->kind, "words");
    int64_t taken = size - v->specials, all = v->distinct < PACK_WORDS ? v->distinct : PACK_WORDS;
    fprintf(to, "%s and %s next to it: %lld special tokens and %lld of %lld %s; for gen: "
            "model.vocab=%d", file[0], file[1], (long long)v->specials, (long long)taken,
            (long long)v->distinct, words ? "words" : "characters", size);
    if (words && most && taken < all)
        fprintf(to, ", or %lld for %s", (long long)(v->specials + all),
                all < v->distinct ? "the most frequent" : "all");
    fputc('\n', to);
}

/* Reports records whose format has its own summary. */
static void report_own(const Work *w, FILE *to)
{
    char *text = w->pack.records->summary(&w->pack, &w->rules);
    fprintf(to, "%s: %s, %s\n", w->pack.out, kind_name[w->pack.kind], text);
    free(text);
    char *about = w->rules.chat ? format("%s, by %s", w->rules.chat->name, w->why_chat)
                                : render_about(w->rules.render);
    fprintf(to, "chat format: %s; tokenizer %s\n", about, tokenizer_id(w->tok));
    free(about);
    keys_report(&w->pack, w->o->format_flag, to);
}

/* Returns "3 prompts end in a blank (first x.jsonl:7)", malloc'ed; "" if n is 0. */
static char *border_text(int64_t n, const char *one, const char *more, Location first)
{
    if (!n)
        return format("%s", "");
    return format("%lld %s (first %s:%d)", (long long)n, n == 1 ? one : more, first.file,
                  first.line);
}

/* Warns of prompts that end within a token of the whole row. */
static void warn_borders(const Work *w)
{
    const Pack *p = &w->pack;
    char *blank = border_text(p->nblank, "prompt ends in a blank", "prompts end in a blank",
                              p->first_blank),
         *merge = border_text(p->not_prefix, "prompt's last token merges with its answer",
                              "prompts' last tokens merge with their answers", p->first_merge);
    if (p->nblank || p->not_prefix)
        fprintf(stderr, "%s: warning: %s%s%s: at inference the prompt ends in other tokens than in "
                "training; %s\n", w->o->who, blank, p->nblank && p->not_prefix ? ", " : "", merge,
                p->nblank ? "move the blank to the beginning of the answer"
                          : "end the prompt between two words");
    free(blank), free(merge);
}

/* Warns of answers of which only the end is learned, as TRL and axolotl do. */
static void warn_empty(const Work *w)
{
    const Pack *p = &w->pack;
    char *empty = border_text(p->nempty, "answer is empty", "answers are empty", p->first_empty);
    if (p->nempty)
        fprintf(stderr, "%s: warning: %s: the model learns to end the text there; remove the rows "
                "if that is not meant\n", w->o->who, empty);
    free(empty);
}

void report_skipped(const Work *w, FILE *to)
{
    const Pack *p = &w->pack;
    if (p->nbad)
        fprintf(to, "%d malformed row%s left out (--skip-bad %lld):\n", p->nbad,
                p->nbad == 1 ? " is" : "s are",
                (long long)w->rules.skip_bad);
    for (int i = 0; i < p->nbad; i++)
        fprintf(to, "  %s:%d: %s\n", p->bad[i].at.file, p->bad[i].at.line, p->bad[i].why);
}

/* Reports the records and how they were made. */
static void report_made(const Work *w, FILE *to)
{
    const Pack *p = &w->pack;
    if (p->records && p->records->summary) {
        report_own(w, to);
        return;
    }
    if (w->prepared) {
        fprintf(to, "%s: rows, %lld for training, %lld for validation, of %lld tokens each; "
                "tokenizer %s\n", p->out, (long long)(p->ndocs - p->nheld_out),
                (long long)p->nheld_out,
                (long long)p->max_length, w->prepared->ids.id);
        if (p->padded)
            fprintf(to, "%lld of them with pad_token at the end, which is removed\n",
                    (long long)p->padded);
        return;
    }
    if (p->kind != KIND_PACKED)
        fprintf(to, "%s: %s, %lld %s, %lld tokens, %lld targets, %lld cut to %lld tokens, "
                "%lld left out %s", p->out, kind_name[p->kind], (long long)p->ndocs,
                kind_name[p->kind], (long long)p->ntokens, (long long)p->ntargets,
                (long long)p->cut, (long long)p->max_length,
                (long long)p->dropped[DROP_NO_TARGET], drop_why[DROP_NO_TARGET]);
    else
        fprintf(to, "%s: packed, %lld document%s, %lld tokens, all targets", p->out,
                (long long)p->ndocs, p->ndocs == 1 ? "" : "s", (long long)p->ntokens);
    for (int i = DROP_NO_TARGET + 1; i < NDROPS; i++)
        if (p->dropped[i])
            fprintf(to, ", %lld %s", (long long)p->dropped[i], drop_why[i]);
    fprintf(to, "; %.2f bytes a token, tokenizer %s\nread", (double)p->nbytes / (double)p->ntokens,
            tokenizer_id(w->tok));
    const char *comma = " ";
    for (int i = 0; i < NFORMATS; i++)
        if (p->nform[i]) {
            fprintf(to, "%s%s: %lld", comma, pack_format[i].keys, (long long)p->nform[i]);
            comma = ", ";
        }
    fputc('\n', to);
    keys_report(p, w->o->format_flag, to);
    report_rules(w, to);
    if (p->records && p->records->report)
        p->records->report(p, &w->rules, w->tok, to);
    if (w->vocabulary.kind)
        report_vocabulary(&w->vocabulary, w->o->words, tokenizer_size(w->tok), to);
    if (p->more_answers)
        fprintf(to, "%lld rows have earlier answers, which are not targets: --loss-on assistant "
                "includes them\n", (long long)p->more_answers);
    if (p->nturns && p->nchats < p->ndocs)
        fprintf(to, "%lld row%s system or history and became %s; the others do not use the chat "
                "format\n", (long long)p->nturns, p->nturns == 1 ? " has" : "s have",
                p->nturns == 1 ? "a conversation" : "conversations");
    warn_borders(w);
    warn_empty(w);
}

void report_all(const Work *w, FILE *to)
{
    report_made(w, to);
    report_skipped(w, to);
}

char *report_no_row(const Pack *p)
{
    char *why = format("no usable row (%lld %s", (long long)p->dropped[DROP_NO_TARGET],
                       drop_why[DROP_NO_TARGET]);
    for (int i = DROP_NO_TARGET + 1; i < NDROPS; i++) {
        char *longer = p->dropped[i] ? format("%s, %lld %s", why, (long long)p->dropped[i],
                                              drop_why[i])
                                     : format("%s", why);
        free(why);
        why = longer;
    }
    char *all = !p->dropped[DROP_LONG_PROMPT] ? format("%s)", why)
                : format("%s): rows of %lld tokens are too short (seq.max, --max-length)%s", why,
                         (long long)p->max_length,
                         p->kind == KIND_PAIRS ? ", or the text of --system is too long" : "");
    free(why);
    return all;
}
