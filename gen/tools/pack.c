/* pack.c -- `gen pack`: texts and rows of JSON to the token file that a training binary maps.
 *
 * In:    the command line; files as pack_read.c takes them.
 * Out:   the token file, rows for people with --show, a summary on stdout, progress on stderr.
 * Keeps: the file's bytes do not depend on the number of threads; a bad row ends the command with
 *        FILE:LINE, nothing is skipped. */
#define _GNU_SOURCE
#include "gen/tools/pack.h"

#include "runtime/base.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, FLIGHT_MIN = 32 << 20, FLIGHT_A_THREAD = 2 << 20 };

static const char usage[] =
    "usage: gen pack -o OUT.safetensors [options] FILE...\n"
    "       gen pack --show N [options] FILE...\n"
    "\n"
    "  FILE  .jsonl or .ndjson: a row of JSON a line; .json: the same, or an array of rows;\n"
    "        -: standard input (rows if it begins with { or [); any other file: one text\n"
    "\n"
    "  Rows have the first of these keys:\n"
    "    messages                     a list of {role, content}: system, user, assistant\n"
    "    conversations                ShareGPT: a list of {from, value}: system, human, gpt\n"
    "    prompt, completion           two strings, or two lists of messages\n"
    "    instruction, input, output   Alpaca: a prompt \"Below is an instruction ...\\n\\n"
    "### Instruction:\n"
    "                                 ...### Response:\\n\", and output as its completion\n"
    "    text                         a document\n"
    "\n"
    "  -o OUT               the token file to write\n"
    "  --show N             prints the first N rows as the model will see them, with their "
    "targets;\n"
    "                       without -o nothing is written and reading ends there\n"
    "  --tokenizer FILE     tokenizer.json of the model that will read the tokens; bytes (the "
    "default):\n"
    "                       256 byte values and end of text\n"
    "  --loss-on WHICH      which tokens are targets (the loss is computed on them); always with "
    "the\n"
    "                       end-of-turn or end-of-text token that ends them, never the first of a "
    "row\n"
    "                       last       messages: the last message, which an assistant's must be, "
    "from\n"
    "                                  behind its header; prompt, completion: the completion "
    "(TRL:\n"
    "                                  completion_only_loss); the default for both\n"
    "                       assistant  messages: every message of an assistant likewise (TRL:\n"
    "                                  assistant_only_loss); prompt and completion only as lists\n"
    "                       all        every token, of whatever row; the default for text, which "
    "has\n"
    "                                  no other\n"
    "  --chat NAME          how messages become text: %s.\n"
    "                       By default what the chat_template in the tokenizer's folder means; "
    "without\n"
    "                       one, what its added tokens mean. llama-3.1 (3.2 too) always has its\n"
    "                       template's date, 26 Jul 2024\n"
    "  --kind KIND          packed: documents in one stream; rows: a sample each, with masked "
    "prompts;\n"
    "                       auto (the default): by the keys of the first row\n"
    "  --max-length N       rows: cut after N tokens (default 1024)\n"
    "  --threads N          default: the cores there are; the file is the same with any number\n";

typedef struct {
    const char *tokenizer, *chat;
    int nfiles, threads;
    char **file;
    int64_t show;
} Options;

/* What the threads share. */
typedef struct {
    Rules rules;
    Tokenizer *tok, **twin;      /* one a thread */
} Shared;

typedef struct {
    Chunk *chunk;
    Encoded out;
} Job;

/* ---- options --------------------------------------------------------------------------------- */

static const char *option_value(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        err((Loc){0}, "pack: %s wants a value", argv[*i]);
    return argv[++*i];
}

static int64_t option_count(int argc, char **argv, int *i, int64_t lo, int64_t hi)
{
    const char *name = argv[*i], *text = option_value(argc, argv, i);
    char *end;
    long long n = strtoll(text, &end, 10);
    if (!*text || *end || n < lo || n > hi)
        err((Loc){0}, "pack: %s: want %lld to %lld, got %s", name, (long long)lo, (long long)hi,
            text);
    return n;
}

static int option_word(const char *name, const char *got, const char *const *word, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(word[i], got))
            return i;
    const char *near = text_nearest(got, word, n);
    Str all = {0};
    for (int i = 0; i < n; i++)
        str_print(&all, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", word[i]);
    err((Loc){0}, "pack: %s: want %s, got %s%s%s%s", name, all.text, got,
        near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

static void option_unknown(const char *name)
{
    static const char *const names[] = {"-o", "--show", "--tokenizer", "--loss-on", "--chat",
                                        "--kind", "--max-length", "--threads", "--help"};
    const char *near = text_nearest(name, names, sizeof names / sizeof *names);
    err((Loc){0}, "pack: unknown option %s%s%s%s", name, near ? ": did you mean " : "",
        near ? near : "", near ? "?" : "");
}

static void options_read(int argc, char **argv, Options *o, Pack *p, Rules *rules)
{
    o->file = argv;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "-o")) {
            p->out = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--show")) {
            o->show = option_count(argc, argv, &i, 1, INT_MAX);
        } else if (!strcmp(a, "--tokenizer")) {
            o->tokenizer = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--loss-on")) {
            rules->loss = (Loss)(1 + option_word(a, option_value(argc, argv, &i), loss_name + 1,
                                                 3));
        } else if (!strcmp(a, "--assistant-only")) {
            err((Loc){0}, "pack: --assistant-only is now --loss-on assistant");
        } else if (!strcmp(a, "--chat")) {
            o->chat = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--max-length")) {
            p->max_length = option_count(argc, argv, &i, 2, INT_MAX / 2);
        } else if (!strcmp(a, "--threads")) {
            o->threads = (int)option_count(argc, argv, &i, 1, THREADS_MAX);
        } else if (!strcmp(a, "--kind")) {
            const char *k = option_value(argc, argv, &i);
            if (!strcmp(k, "bfd"))
                err((Loc){0}, "pack: --kind: want auto, packed or rows; data.kind = bfd reads "
                              "rows");
            p->kind = (Kind)option_word(a, k, kind_name, 3);
        } else if (a[0] == '-' && a[1]) {
            option_unknown(a);
        } else {
            argv[o->nfiles++] = argv[i];
        }
    }
    if (p->kind == KIND_PACKED && p->max_length)
        err((Loc){0}, "pack: --max-length cuts rows; --kind packed keeps documents whole");
}

static int core_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                   : CPU_COUNT(&set);
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct {
    int64_t total, before;       /* bytes of all files, -1: unknown; of the files that are read */
    double began, last;
    bool terminal, drawn;
} Progress;

static void progress_note(Progress *g, const Pack *p, int64_t bytes)
{
    double now = clock_seconds();
    if (now - g->last < (g->terminal ? 0.5 : 5))
        return;
    double rate = (double)bytes / (now - g->began);
    char *share = g->total < 0 ? format("%s", text_bytes(bytes))
                : format("%.0f%% of %s", 100.0 * (double)bytes / (double)g->total,
                         text_bytes(g->total));
    char *left = g->total < 0 || rate <= 0 ? format("%s", "")
               : format(", %.0f s left", (double)(g->total - bytes) / rate);
    fprintf(stderr, "%sgen pack: %s, %lld tokens, %.1f MB/s%s%s", g->terminal ? "\r\033[K" : "",
            share, (long long)p->ntokens, rate / 1e6, left, g->terminal ? "" : "\n");
    free(share);
    free(left);
    g->last = now;
    g->drawn = g->terminal;
}

static void progress_clear(Progress *g)
{
    if (g->drawn)
        fputs("\r\033[K", stderr);
    g->drawn = false;
}

/* ---- the work -------------------------------------------------------------------------------- */

static void work(void *user, int thread, void *arg)
{
    const Shared *s = user;
    Job *job = arg;
    rows_encode(&s->rules, s->twin[thread], job->chunk, &job->out);
}

static void show(const Shared *s, const Pack *p, const Job *job, const RowOut *row, size_t kept,
                 size_t targets)
{
    const Encoded *e = &job->out;
    const char *file = job->chunk->loc.file;
    char *place = row->line ? format("%s:%d", file, row->line) : format("%s", file);
    char *title = !row->line
        ? format("%s: a text%s", place, job->chunk->last ? "" : ", its beginning")
        : format("%s: %s, %zu tokens, %zu %s%s", place, form_keys[row->form], kept, targets,
                 targets == 1 ? "target" : "targets",
                 p->kind == KIND_ROWS && !targets ? ": left out" : kept < row->n ? ", cut" : "");
    show_row(s->tok, title, e->id + row->begin, row->line ? e->target + row->begin : NULL, kept);
    free(place);
    free(title);
}

/* The rows of a chunk that is done, in order. */
static void job_finish(const Shared *s, Pack *p, Job *job, int64_t *to_show, Progress *g)
{
    Encoded *e = &job->out;
    bool document = !job->chunk->rows;
    for (int i = 0; i < e->nrows; i++) {
        const RowOut *row = &e->row[i];
        char *error = pack_kind(p, row);
        size_t kept = row->n, targets = 0;
        if (error) {
            progress_clear(g);
            err((Loc){job->chunk->loc.file, row->line}, "%s", error);
        }
        if (document)
            pack_stretch(p, e->id + row->begin, row->n, row, job->chunk->first);
        else
            kept = pack_row(p, e->id + row->begin, e->target + row->begin, row, &targets);
        if (*to_show > 0 && (!document || job->chunk->first)) {
            progress_clear(g);
            show(s, p, job, row, kept, targets);
            if (!--*to_show && !p->out)
                return;
        }
    }
    if (e->error) {
        progress_clear(g);
        err(e->error_loc, "%s", e->error);
    }
}

static void job_free(Job *job)
{
    chunk_free(job->chunk);
    encoded_free(&job->out);
    free(job);
}

/* What can be known before anything is read: kinds of files, and how much there is. */
static int64_t files_check(const Options *o, const Pack *p, const Tokenizer *tok)
{
    int64_t total = 0;
    int inputs = 0;
    for (int i = 0; i < o->nfiles; i++) {
        const char *path = o->file[i];
        if (!strcmp(path, "-")) {
            if (inputs++)
                err((Loc){0}, "pack: - stands for standard input, which can be read once");
            total = -1;
            continue;
        }
        Reader *r;
        char *error = reader_open(&r, path, tok);
        if (error)
            err((Loc){path, 0}, "%s", error);
        if (!reader_rows(r) && p->kind == KIND_ROWS)
            err((Loc){path, 0}, "a text file has no rows: drop --kind rows, or give rows of JSON "
                                "(.jsonl)");
        if (reader_looks_like_rows(r))
            fprintf(stderr, "gen pack: note: %s is read as one text, though it begins with an "
                            "object of JSON: rows want a name that ends in .jsonl\n", path);
        total = total < 0 ? -1 : total + reader_size(r);
        reader_close(r);
    }
    return total;
}

static void files_pack(const Options *o, Shared *s, Pack *p, Progress *g)
{
    Jobs *jobs = jobs_start(o->threads, work, s);
    int64_t to_show = o->show, flight = 0, before = 0;
    int64_t most = (int64_t)o->threads * FLIGHT_A_THREAD;
    Reader *r = NULL;
    if (most < FLIGHT_MIN)
        most = FLIGHT_MIN;
    for (int next = 0; !(o->show && !to_show && !p->out);) {
        Chunk *chunk = NULL;
        while (!chunk && (r || next < o->nfiles) && !jobs_full(jobs) && flight < most) {
            if (!r) {
                char *error = reader_open(&r, o->file[next++], s->tok);
                if (error) {     /* behind the mistakes in what was read before */
                    chunk = calloc(1, sizeof *chunk);
                    chunk->error = error;
                    chunk->error_loc = (Loc){reader_name(o->file[next - 1]), 0};
                    break;
                }
            }
            chunk = reader_chunk(r);
            if (!chunk) {
                before += reader_bytes(r);
                reader_close(r);
                r = NULL;
            }
        }
        if (chunk) {
            Job *job = calloc(1, sizeof *job);
            job->chunk = chunk;
            flight += (int64_t)chunk->n;
            jobs_put(jobs, job);
        }
        /* nothing more can be put: wait for the oldest */
        Job *job = jobs_take(jobs, chunk ? 0 : 0.5);
        if (!job && !chunk && !r && next == o->nfiles && jobs_none(jobs))
            break;
        if (job) {
            flight -= (int64_t)job->chunk->n;
            job_finish(s, p, job, &to_show, g);
            job_free(job);
        }
        progress_note(g, p, before + (r ? reader_bytes(r) : 0) - flight);
    }
    progress_clear(g);
    if (r)
        reader_close(r);
    jobs_end(jobs);
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* How the rows became tokens and targets. */
static void report_rules(const Pack *p, const Shared *s, const char *why_chat)
{
    static const char *const means[] = {
        "the last answer of each row, its completion, or all of a text (the default)",
        "the last answer of each row, or its completion (--loss-on last)",
        "every answer of an assistant (--loss-on assistant)", "every token (--loss-on all)",
    };
    if (p->nchats)
        printf("chat format: %s, by %s\n", s->rules.chat->name, why_chat);
    if (p->kind == KIND_ROWS)
        printf("targets: %s\n",
               p->nform[FORM_TEXT] == p->ndocs + p->no_target ? means[LOSS_ALL]
                                                              : means[s->rules.loss]);
}

static void report(const Pack *p, const Shared *s, const char *why_chat)
{
    Str forms = {0};
    for (int i = 0; i < NFORMS; i++)
        if (p->nform[i])
            str_print(&forms, "%s%s: %lld", forms.n ? ", " : "", form_keys[i],
                      (long long)p->nform[i]);
    if (p->kind == KIND_ROWS)
        printf("%s: rows, %lld rows, %lld tokens, %lld targets, %lld cut to %lld tokens, "
               "%lld left out without a target", p->out, (long long)p->ndocs,
               (long long)p->ntokens, (long long)p->ntargets, (long long)p->cut,
               (long long)p->max_length, (long long)p->no_target);
    else
        printf("%s: packed, %lld document%s, %lld tokens, all targets", p->out,
               (long long)p->ndocs, p->ndocs == 1 ? "" : "s", (long long)p->ntokens);
    printf("; %.2f bytes a token, tokenizer %s\n", (double)p->nbytes / (double)p->ntokens,
           tokenizer_id(s->tok));
    printf("read %s\n", forms.text);
    report_rules(p, s, why_chat);
    if (p->more_answers)
        printf("%lld rows have earlier answers, which are no targets: --loss-on assistant takes "
               "them too\n", (long long)p->more_answers);
    if (p->not_prefix)
        fprintf(stderr,
                "gen pack: warning: in %lld rows the prompt's tokens are not a prefix of the "
                "whole; targets start after as many tokens as the prompt has alone\n",
                (long long)p->not_prefix);
}

int pack_main(int argc, char **argv)
{
    Options o = {.tokenizer = "bytes"};
    Pack p = {0};
    Shared s = {0};
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help")) {
            printf(usage, chat_names());
            return 0;
        }
    options_read(argc, argv, &o, &p, &s.rules);
    if ((!p.out && !o.show) || !o.nfiles)
        err((Loc){0}, "pack: want %s: gen pack --help", o.nfiles ? "-o OUT.safetensors, or --show N"
                                                                : "files to pack");
    char *error = tokenizer_load(&s.tok, o.tokenizer);
    if (error)
        err((Loc){0}, "%s", error);
    if (tokenizer_eos(s.tok) < 0)
        err((Loc){o.tokenizer, 0}, "no end-of-text token: put the tokenizer_config.json that names "
                                   "eos_token, or config.json with eos_token_id, beside it");
    const char *why_chat = NULL;
    s.rules.no_chat = chat_choose(&s.rules.chat, &why_chat, s.tok, o.tokenizer, o.chat);
    if (s.rules.no_chat && o.chat)
        err((Loc){0}, "pack: --chat: %s", s.rules.no_chat);
    if (!o.threads)
        o.threads = core_count();
    Progress g = {.total = files_check(&o, &p, s.tok), .terminal = isatty(STDERR_FILENO)};
    g.began = g.last = clock_seconds();
    pack_begin(&p);
    s.twin = calloc((size_t)o.threads, sizeof *s.twin);
    for (int i = 0; i < o.threads; i++)
        s.twin[i] = tokenizer_twin(s.tok);
    files_pack(&o, &s, &p, &g);
    if (p.out) {
        if (!p.ndocs)
            err((Loc){o.file[0], 0}, "no usable row (%lld without a target)",
                (long long)p.no_target);
        if (o.chat && !p.nchats)
            err((Loc){0}, "pack: --chat %s: no row is a conversation", o.chat);
        pack_write(&p, s.tok, reader_sha256(), &s.rules);
        report(&p, &s, why_chat);
    } else {
        report_rules(&p, &s, why_chat);
    }
    for (int i = 0; i < o.threads; i++)
        tokenizer_free(s.twin[i]);
    free(s.twin);
    tokenizer_free(s.tok);
    return 0;
}
