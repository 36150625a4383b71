/* pack_files.c -- texts and rows of JSON to the token file that a training program maps.
 *
 * In:    files as pack_read.c takes them, and how their rows are to be read.
 * Out:   the token file, rows for people, a summary; progress on standard error.
 * Keeps: the file's bytes do not depend on the number of threads; a bad row ends it all with its
 *        place, nothing is skipped. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/safetensors.h"
#include "runtime/pack/show.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLIGHT_MIN = 32 << 20, FLIGHT_A_THREAD = 2 << 20 };

/* What the threads share, and what comes of it. */
typedef struct {
    const PackOptions *o;
    Rules rules;
    Tokenizer *tok, **twin;      /* one a thread */
    int threads;
    Vocabulary vocabulary;       /* of a tokenizer that is made */
    Prepared *prepared;          /* arrays of ids, then all above but rules is empty */
    char *why_chat;              /* how the chat format was found */
    Pack pack;
    int64_t to_show;
    int nfiles;                  /* folders are opened up */
    char **file;
} Work;

typedef struct {
    Chunk *chunk;
    Encoded out;
} Job;

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* imdb_train.json goes before imdb_test.json. */
static int train_first(const struct dirent **a, const struct dirent **b)
{
    int order = !!strstr((*b)->d_name, "train") - !!strstr((*a)->d_name, "train");
    return order ? order : by_name(a, b);
}

static int core_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                   : CPU_COUNT(&set);
    return n < 1 ? 1 : n > PACK_THREADS_MAX ? PACK_THREADS_MAX : n;
}

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct {
    const char *who;
    int64_t total;               /* bytes of all files, -1: unknown */
    double began, last;
    bool terminal, drawn;
} Progress;

static void progress_note(Progress *g, const Pack *p, int64_t bytes)
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

static void progress_clear(Progress *g)
{
    if (g->drawn)
        fputs("\r\033[K", stderr);
    g->drawn = false;
}

/* ---- the work -------------------------------------------------------------------------------- */

static void encode(void *user, int thread, void *arg)
{
    const Work *w = user;
    Job *job = arg;
    rows_encode(&w->rules, w->twin[thread], job->chunk, &job->out);
}

/* "24 tokens, 5 targets" of a part. */
static char *counts(const Kept *k, int i)
{
    return format("%zu tokens, %zu target%s", k->n[i], k->targets[i], k->targets[i] == 1 ? "" : "s");
}

/* target NULL: all are. Nothing predicts the first, unless the objective finds targets itself. */
static void show_ids(const Work *w, const char *title, const int32_t *id, const uint8_t *target,
                     size_t n)
{
    uint8_t *copy = target && n ? malloc(n) : NULL;
    if (copy) {
        memcpy(copy, target, n);
        copy[0] = w->pack.own && target[0];
    }
    show_row(w->tok, title, &(ShownRow){.n = (int64_t)n, .token = id, .target = copy});
    free(copy);
}

/* A row of a file. */
static void show_sample(const Work *w, const Job *job, const RowOut *row, const Kept *k,
                        const int32_t *id, const uint8_t *target)
{
    static const char *const part[PACK_PARTS] = {"chosen", "rejected"};
    const char *keys = pack_format[row->form].keys;
    char *first = counts(k, 0), *place = format("%s:%d", job->chunk->place.file, row->line);
    if (row->drop)
        printf("%s: %s: left out, %s\n", place, keys, drop_why[row->drop]);
    else if (k->drop == DROP_NO_TARGET)
        printf("%s: %s, %s: left out\n", place, keys, first);
    else
        printf("%s: %s%s%s%s%s%s\n", place, keys, k->parts > 1 ? "" : ", ", k->parts > 1 ? "" : first,
               k->cut ? ", cut" : "", k->drop ? ": left out, " : "", k->drop ? drop_why[k->drop] : "");
    free(first), free(place);
    for (int i = 0; i < k->parts && !row->drop; i++) {
        char *own = counts(k, i), *title = format("  %s: %s", part[i], own);
        show_ids(w, k->parts > 1 ? title : NULL, id + k->begin[i], target + k->begin[i], k->n[i]);
        free(own), free(title);
    }
}

/* A text, or its first stretch. */
static void show_text(const Work *w, const Job *job, const RowOut *row, const int32_t *id)
{
    char *title = format("%s: a text%s", job->chunk->place.file, job->chunk->last ? "" : ", its beginning");
    show_ids(w, title, id, NULL, row->n);
    free(title);
}

static bool in_windows(const Work *w)
{
    return w->rules.format == &pack_format[FORM_WINDOWS];
}

/* No more rows, or tokens, are wanted. */
static bool enough(const Work *w)
{
    const PackOptions *o = w->o;
    return o->most && (w->pack.kind == KIND_PACKED ? w->pack.ntokens >= o->most : w->pack.ndocs >= o->most);
}

typedef struct {
    Work *w;
    const Job *job;
    const RowOut *row;
    Progress *g;
} Shown;

static void show_window(void *with, const int32_t *id, size_t n)
{
    const Shown *s = with;
    if (s->w->to_show <= 0)
        return;
    progress_clear(s->g);
    char *line = s->row->line ? format(":%d", s->row->line) : format("%s", "");
    char *title = format("%s%s: a window, %zu tokens%s", s->job->chunk->place.file, line, n,
                         s->job->chunk->held ? ", to validate on" : "");
    show_ids(s->w, title, id, s->w->pack.windows.target, n);
    free(line), free(title);
    s->w->to_show--;
}

/* A text, or a stretch of one, becomes windows. */
static void finish_windows(Work *w, const Job *job, const RowOut *row, const int32_t *id, bool document,
                           Progress *g)
{
    Pack *p = &w->pack;
    bool first = !document || job->chunk->first, last = !document || job->chunk->last;
    if (row->drop) {
        p->dropped[row->drop]++;
        return;
    }
    if (first && !job->chunk->held)
        pack_count(p, row);
    else
        p->nbytes += row->bytes;
    windows_put(p, &w->rules, w->tok, job->chunk, id, row, first, last, show_window,
                &(Shown){w, job, row, g});
}

/* The rows of a chunk that is done, in order. */
static void job_finish(Work *w, Job *job, Progress *g)
{
    Pack *p = &w->pack;
    Encoded *e = &job->out;
    bool document = job->chunk->reads == READS_TEXT;
    for (int i = 0; i < e->nrows && !p->error.text && !enough(w); i++) {
        const RowOut *row = &e->row[i];
        const int32_t *id = e->n ? e->id + row->begin : NULL;    /* all rows may be left out */
        const uint8_t *target = e->n ? e->target + row->begin : NULL;
        char *error = pack_kind(p, row);
        Kept kept = {0};
        if (error) {
            pack_fail(p, EXIT_DATA, (Place){job->chunk->place.file, row->line}, error);
            return;
        }
        if (in_windows(w)) {
            finish_windows(w, job, row, id, document, g);
            if (w->o->show && w->to_show <= 0 && !p->out)
                return;
            continue;
        }
        if (document)
            pack_stretch(p, id, row->n, row, job->chunk->first);
        else
            kept = pack_row(p, id, target, row);
        if (w->to_show > 0 && (!document || job->chunk->first)) {
            progress_clear(g);
            if (document)
                show_text(w, job, row, id);
            else
                show_sample(w, job, row, &kept, id, target);
            if (!--w->to_show && !p->out)
                return;
        }
    }
    if (e->error && !enough(w)) {
        pack_fail(p, EXIT_DATA, e->error_at, e->error);
        e->error = NULL;
    }
}

static void job_free(Job *job)
{
    chunk_free(job->chunk);
    encoded_free(&job->out);
    free(job);
}

/* Folders become the files in them, by name, of imdb those for training first; what is no data there
 * is told. */
static void list_files(Work *w)
{
    for (int i = 0; i < w->o->nfiles && !w->pack.error.text; i++) {
        char *path = w->o->file[i];
        struct dirent **entry = NULL;
        struct stat st;
        int n = strcmp(path, "-") && !stat(path, &st) && S_ISDIR(st.st_mode)
                    ? scandir(path, &entry, NULL, w->rules.format == &pack_format[FORM_IMDB]
                                                  ? train_first : by_name) : 0, found = 0, others = 0;
        w->file = realloc(w->file, (size_t)(w->nfiles + (n > 0 ? n : 1)) * sizeof *w->file);
        if (!entry)              /* no folder, or one that cannot be read: reader_open says it */
            w->file[w->nfiles++] = format("%s", path);
        for (int k = 0; k < n; k++) {
            char *file = format("%s/%s", path, entry[k]->d_name);
            bool data = *entry[k]->d_name != '.' && reader_takes(file);
            others += *entry[k]->d_name != '.' && !data;
            found += data;
            if (data)
                w->file[w->nfiles++] = file;
            else
                free(file);
            free(entry[k]);
        }
        free(entry);
        if (n > 0 && !found)
            pack_fail(&w->pack, EXIT_DATA, (Place){path, 0},
                      format("a folder without files that end in .jsonl, .ndjson, .json or .txt"));
        else if (others)
            fprintf(stderr, "%s: note: %s: %d %s not read: want .jsonl, .ndjson, .json or .txt\n",
                    w->o->who, path, others, others == 1 ? "file is" : "files are");
    }
}

/* What can be known before anything is read: kinds of files, and how much there is. */
static int64_t files_check(Work *w)
{
    Pack *p = &w->pack;
    int64_t total = 0;
    int inputs = 0;
    for (int i = 0; i < w->nfiles && !p->error.text; i++) {
        const char *path = w->file[i];
        if (!strcmp(path, "-")) {
            if (inputs++)
                pack_fail(p, EXIT_DATA, (Place){0}, format("- stands for standard input, which can be read "
                                                "once"));
            total = -1;
            continue;
        }
        Reader *r;
        char *error = reader_open(&r, path, w->tok, &w->rules);
        if (error) {
            pack_fail(p, EXIT_DATA, (Place){path, 0}, error);
            break;
        }
        if (reader_reads(r) == READS_TEXT && p->kind == KIND_ROWS && !in_windows(w))
            pack_fail(p, EXIT_DATA, (Place){path, 0}, format("a text file has no rows: drop --kind rows, or "
                                                  "give rows of JSON (.jsonl)"));
        if (reader_looks_like_rows(r))
            fprintf(stderr, "%s: note: %s is read as one text, though it begins with an "
                            "object of JSON: rows want a name that ends in .jsonl\n", w->o->who,
                    path);
        total = total < 0 ? -1 : total + reader_size(r);
        reader_close(r);
    }
    return total;
}

/* The next chunk of the files, NULL: none is left. *next: the file behind that of *r. */
static Chunk *next_chunk(const Work *w, Reader **r, int *next, int64_t *before)
{
    while (*r || *next < w->nfiles) {
        const char *path = w->file[*next - !!*r];
        if (!*r) {
            char *error = reader_open(r, path, w->tok, &w->rules);
            ++*next;
            if (error) {         /* behind the mistakes in what was read before */
                Chunk *chunk = calloc(1, sizeof *chunk);
                chunk->error = error;
                chunk->error_at = (Place){reader_name(path), 0};
                return chunk;
            }
        }
        Chunk *chunk = reader_chunk(*r);
        if (chunk)
            return chunk;
        *before += reader_bytes(*r);
        reader_close(*r);
        *r = NULL;
    }
    return NULL;
}

/* Reads what is left, for the hashes: the rest of r, and the files from `next` on. */
static void skip_rest(Work *w, Reader *r, int next)
{
    while (!w->pack.error.text && (r || next < w->nfiles)) {
        const char *path = w->file[next - !!r];
        char *error = r ? NULL : reader_open(&r, w->file[next++], w->tok, &w->rules);
        error = error ? error : reader_skip(r);
        if (error)
            pack_fail(&w->pack, EXIT_DATA, (Place){path, 0}, error);
        if (r)
            reader_close(r);
        r = NULL;
    }
}

static void read_all(Work *w, Progress *g)
{
    const PackOptions *o = w->o;
    Jobs *jobs = jobs_start(w->threads, encode, w);
    int64_t flight = 0, before = 0, most = (int64_t)w->threads * FLIGHT_A_THREAD;
    Reader *r = NULL;
    if (most < FLIGHT_MIN)
        most = FLIGHT_MIN;
    if (!jobs) {
        pack_fail(&w->pack, EXIT_CONFIG, (Place){0},
                  format("cannot start %d threads: try --threads with fewer", w->threads));
        return;
    }
    int next = 0;
    while (!w->pack.error.text && !(o->show && !w->to_show && !o->out) && !enough(w)) {
        Chunk *chunk = jobs_full(jobs) || flight >= most ? NULL
                     : next_chunk(w, &r, &next, &before);
        if (chunk) {
            Job *job = calloc(1, sizeof *job);
            job->chunk = chunk;
            flight += (int64_t)chunk->n;
            jobs_put(jobs, job);
        }
        /* nothing more can be put: wait for the oldest */
        Job *job = jobs_take(jobs, chunk ? 0 : 0.5);
        if (!job && !chunk && !r && next == w->nfiles && jobs_none(jobs))
            break;
        if (job) {
            flight -= (int64_t)job->chunk->n;
            job_finish(w, job, g);
            job_free(job);
        }
        progress_note(g, &w->pack, before + (r ? reader_bytes(r) : 0) - flight);
    }
    progress_clear(g);
    Job *left;                   /* what was read ahead */
    while (enough(w) && (left = jobs_take(jobs, 60)))
        job_free(left);
    if (enough(w) && !w->pack.error.text)
        skip_rest(w, r, next);
    else if (r)
        reader_close(r);
    jobs_end(jobs);
}

/* A tokenizer of the data: all files are read once before. */
static void count_vocabulary(Work *w)
{
    PackOptions o = *w->o;
    Counter *counter = NULL;
    o.show = o.most = 0;
    o.out = NULL;
    Work c = {.o = &o, .rules = w->rules, .threads = 1, .nfiles = w->nfiles, .file = w->file,
              .pack = {.kind = o.kind, .max_length = o.max_length}};
    char *error = counter_begin(&counter, o.tokenizer);
    if (error) {
        pack_fail(&w->pack, EXIT_INTERNAL, (Place){0}, error);
        return;
    }
    c.tok = tokenizer_twin(counter_tokenizer(counter));
    c.twin = &c.tok;
    Progress g = {.who = o.who, .total = files_check(&c), .terminal = isatty(STDERR_FILENO)};
    g.began = g.last = clock_seconds();
    if (!c.pack.error.text)
        read_all(&c, &g);
    if (!c.pack.error.text && (error = vocabulary_make(&w->vocabulary, counter,
                                                  o.words ? o.words : PACK_WORDS, &w->tok)))
        pack_fail(&c.pack, EXIT_DATA, (Place){0}, error);
    if (c.pack.error.text)
        pack_fail(&w->pack, c.pack.error.code, c.pack.error.at, c.pack.error.text);
    char bytes[SHA256_HEX], files[SHA256_HEX];
    reader_hashes(bytes, files); /* the next reading is the one that counts */
    tokenizer_free(c.tok);
    counter_free(counter);
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* How the rows became tokens and targets. */
static void report_rules(const Work *w, FILE *to)
{
    static const char *const means[] = {
        "the last answer of each row, its completion, or all of a text (the default)",
        "the last answer of each row, or its completion (--loss-on last)",
        "every answer of an assistant (--loss-on assistant)", "every token (--loss-on all)",
    };
    const Pack *p = &w->pack;
    if (p->nchats)
        fprintf(to, "chat format: %s, by %s\n", w->rules.chat->name, w->why_chat);
    if (p->kind == KIND_PAIRS)
        fprintf(to, "targets: the answers, each with what ends it\n");
    else if (p->kind == KIND_ROWS)
        fprintf(to, "targets: %s\n",
                p->own ? "chosen anew for each batch"
                : p->nform[FORM_TEXT] == p->ndocs + p->dropped[DROP_NO_TARGET]
                ? means[LOSS_ALL] : means[w->rules.loss]);
}

/* most: of words, asked for; 0: not said */
static void report_vocabulary(const Vocabulary *v, int64_t most, int size, FILE *to)
{
    const char *const *file = vocabulary_files(v->kind);
    const bool words = !strcmp(v->kind, "words");
    int64_t taken = size - v->specials, all = v->distinct < PACK_WORDS ? v->distinct : PACK_WORDS;
    fprintf(to, "%s and %s beside it: %lld special tokens and %lld of %lld %s; for gen: "
            "model.vocab=%d", file[0], file[1], (long long)v->specials, (long long)taken,
            (long long)v->distinct, words ? "words" : "characters", size);
    if (words && most && taken < all)
        fprintf(to, ", or %lld for %s", (long long)(v->specials + all),
                all < v->distinct ? "the most frequent" : "all");
    fputc('\n', to);
}

static void report_windows(const Work *w, FILE *to)
{
    const Pack *p = &w->pack;
    const Rules *r = &w->rules;
    fprintf(to, "windows of %lld tokens, %lld apart, of %lld tokens of text, each behind %s",
            (long long)p->max_length, (long long)r->stride, (long long)p->windows.ntokens,
            windows_first(w->tok) < 0 ? "no token: the tokenizer has none for the begin of a text" : "");
    if (windows_first(w->tok) >= 0)
        fprintf(to, "token %d", windows_first(w->tok));
    if (p->nheld)
        fprintf(to, "; %lld to train on, %lld to validate on: %s %g of %s",
                (long long)(p->ndocs - p->nheld), (long long)p->nheld,
                r->held == HELD_TAIL ? "the last" : "any", r->share,
                r->held == HELD_TAIL ? "each text" : "them");
    fputc('\n', to);
}

static void report_pairs(const Pack *p, FILE *to)
{
    char *lengths = pack_lengths(p);
    fprintf(to, "lengths before any is cut: %s\n", lengths);
    if (p->nshared)
        fprintf(to, "%lld pairs have no prompt: what both answers begin with is taken for it\n",
                (long long)p->nshared);
    if (p->identical)
        fprintf(to, "%lld pairs have identical answers, of which nothing is learned\n",
                (long long)p->identical);
    free(lengths);
}

static void report(const Work *w, FILE *to)
{
    const Pack *p = &w->pack;
    if (w->prepared) {
        fprintf(to, "%s: rows, %lld to train on, %lld to validate on, of %lld tokens each; tokenizer %s\n",
                p->out, (long long)(p->ndocs - p->nheld), (long long)p->nheld, (long long)p->max_length,
                prepared_ids(w->prepared)->id);
        return;
    }
    if (p->kind != KIND_PACKED)
        fprintf(to, "%s: %s, %lld %s, %lld tokens, %lld targets, %lld cut to %lld tokens, "
                "%lld left out %s", p->out, kind_name[p->kind], (long long)p->ndocs,
                kind_name[p->kind], (long long)p->ntokens, (long long)p->ntargets, (long long)p->cut,
                (long long)p->max_length, (long long)p->dropped[DROP_NO_TARGET],
                drop_why[DROP_NO_TARGET]);
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
    report_rules(w, to);
    if (in_windows(w))
        report_windows(w, to);
    if (p->kind == KIND_PAIRS)
        report_pairs(p, to);
    if (w->vocabulary.kind)
        report_vocabulary(&w->vocabulary, w->o->words, tokenizer_size(w->tok), to);
    if (p->more_answers)
        fprintf(to, "%lld rows have earlier answers, which are no targets: --loss-on assistant "
                "takes them too\n", (long long)p->more_answers);
    if (p->not_prefix)
        fprintf(stderr,
                "%s: warning: in %lld rows the prompt's tokens are not a prefix of the "
                "whole; targets start after as many tokens as the prompt has alone\n", w->o->who,
                (long long)p->not_prefix);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What has to hold where the tokenizer is still to be made. words: the data are samples of words. */
static char *made_rules(Work *w, bool words)
{
    const char *name = w->o->tokenizer;
    if (!words && !strcmp(name, "words"))
        return format("--tokenizer words is for the formats imdb and corpus");
    if (words && strcmp(name, "words"))
        return format("--tokenizer %s has no words: the formats imdb and corpus want --tokenizer words, "
                      "or a file", name);
    if (w->o->chat)
        return format("--chat: a vocabulary of %s has no conversations", name);
    for (int i = 0; i < w->o->nfiles; i++)
        if (!strcmp(w->o->file[i], "-"))
            return format("--tokenizer %s reads its data twice, and standard input can be read "
                          "once: write it to a file", name);
    return NULL;
}

/* Arrays of ids need no more than to be read. */
static void open_prepared(Work *w)
{
    const PackOptions *o = w->o;
    Pack *p = &w->pack;
    char *error = NULL;
    int code = EXIT_CONFIG;
    if (o->nfiles > 1)
        error = format("%s has arrays of ids: want no other file beside it", o->file[0]);
    else if (o->kind == KIND_PACKED || o->kind == KIND_PAIRS)
        error = format("%s has arrays of ids, which make rows; what is packed here is %s", o->file[0],
                       kind_name[o->kind]);
    else if (o->show)
        error = format("--show: %s has arrays of ids: the program that they are for shows them, with its "
                       "--show", o->file[0]);
    else if (vocabulary_made(o->tokenizer))
        error = format("--tokenizer %s makes one of texts, and %s has ids", o->tokenizer, o->file[0]);
    code = error ? code : EXIT_DATA;
    error = error ? error : prepared_open(&w->prepared, o->file[0], o->tokenizer);
    if (!error && o->max_length && prepared_length(w->prepared) > o->max_length)
        code = EXIT_MISMATCH, error = format("%s: sequence_length %lld, at most %lld are wanted", o->file[0],
            (long long)prepared_length(w->prepared), (long long)o->max_length);
    if (!error && o->vocab && prepared_ids(w->prepared)->size != o->vocab)
        code = EXIT_MISMATCH, error = format("%s: vocab_size %lld, the model has %lld rows: gen RECIPE "
            "model.vocab=%lld, or gen pack --prepare with --vocab %lld", o->file[0],
            (long long)prepared_ids(w->prepared)->size, (long long)o->vocab,
            (long long)prepared_ids(w->prepared)->size, (long long)o->vocab);
    if (error) {
        pack_fail(p, code, (Place){0}, error);
        return;
    }
    w->rules.max_length = p->max_length = prepared_length(w->prepared);
    w->rules.format = &pack_format[FORM_WINDOWS];
    p->kind = KIND_ROWS;
    p->own = true;
}

static char *window_rules(const Work *w)
{
    const PackOptions *o = w->o;
    if (!in_windows(w) && (o->stride || o->held || o->share > 0))
        return format("%s is for the format windows", o->stride ? "--stride" : o->held ? "--split"
                                                                                   : "--eval-share");
    if (in_windows(w) && w->rules.stride > w->rules.max_length)
        return format("--stride %lld leaves out what is between windows of %lld tokens",
                      (long long)w->rules.stride, (long long)w->rules.max_length);
    if (in_windows(w) && o->share > 0 && !o->held)
        return format("--eval-share wants --split tail or random");
    return NULL;
}

/* Before rows are written: which of them are to validate on. */
static void hold(Work *w)
{
    Pack *p = &w->pack;
    if (w->rules.held == HELD_RANDOM)
        windows_hold(p, w->rules.share);
    if (w->rules.held == HELD_TAIL && !p->nheld)
        pack_fail(p, EXIT_DATA, (Place){0}, format("--split tail is of texts, and these are rows of JSON: "
                                                   "say random, or none"));
    else if (w->rules.held && (!p->nheld || p->nheld == p->ndocs))
        pack_fail(p, EXIT_DATA, (Place){0},
                  format("%lld windows, of which a share of %g leaves %lld to train on and %lld to validate "
                         "on", (long long)p->ndocs, w->rules.share, (long long)(p->ndocs - p->nheld),
                         (long long)p->nheld));
}

/* The tokenizer and what its folder says of conversations. */
static void find_rules(Work *w)
{
    const PackOptions *o = w->o;
    Pack *p = &w->pack;
    if (prepared_is(o->file[0])) {
        open_prepared(w);
        return;
    }
    w->rules.loss = o->loss;
    w->rules.max_length = o->max_length ? o->max_length : PACK_LENGTH;
    w->rules.min_words = o->min_words ? o->min_words : PACK_MIN_WORDS;
    w->rules.format = o->format ? format_find(o->format) : NULL;
    bool words = w->rules.format && w->rules.format->encode == format_words;
    bool made = vocabulary_made(o->tokenizer);
    w->rules.system = o->system ? o->system : PACK_SYSTEM;
    w->rules.stride = o->stride ? o->stride : w->rules.max_length / 2;
    w->rules.held = o->held;
    w->rules.share = o->share > 0 ? o->share : 0.1;
    char *error = window_rules(w);
    if (error) {
        pack_fail(p, EXIT_CONFIG, (Place){0}, error);
        return;
    }
    error = o->min_words && !words ? format("--min-words is for the formats imdb and corpus")
                : o->words && strcmp(o->tokenizer, "words") ? format("--vocab is for --tokenizer words")
                : made                   ? made_rules(w, words)
                                         : tokenizer_load(&w->tok, o->tokenizer);
    if (error)
        pack_fail(p, EXIT_CONFIG, (Place){0}, error);
    if (made && !error)
        w->rules.no_chat = format("a vocabulary of %s has no chat tokens, which messages want",
                                  o->tokenizer);
    if (error || made)
        return;
    if (tokenizer_eos(w->tok) < 0 && !(w->rules.format && w->rules.format->own))
        pack_fail(p, EXIT_CONFIG, (Place){o->tokenizer, 0},
                  format("no end-of-text token: put the tokenizer_config.json that names eos_token, "
                         "or config.json with eos_token_id, beside it"));
    w->rules.no_chat = chat_choose(&w->rules.chat, &w->why_chat, w->tok, o->tokenizer, o->chat);
    if (w->rules.no_chat && o->chat)
        pack_fail(p, EXIT_CONFIG, (Place){0}, format("--chat: %s", w->rules.no_chat));
}

/* Nothing is left: why. */
static char *no_row(const Pack *p)
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
    char *all = format("%s)", why);
    free(why);
    return all;
}

/* All that decides what the records are: the bytes read, the tokenizer, the rules. */
static void fingerprint(const Work *w, const char *bytes, const char *files, char hex[SHA256_HEX])
{
    const Rules *r = &w->rules;
    bool made = vocabulary_made(w->o->tokenizer);       /* of the data: its rules say which */
    char *text = format("records %d %s %s %s %lld %s %lld %lld %s %s %s%s%s", PACK_VERSION, bytes, files,
                        w->prepared ? prepared_ids(w->prepared)->id
                        : made      ? w->o->tokenizer : tokenizer_id(w->tok),
                        (long long)(w->o->words ? w->o->words : PACK_WORDS),
                        kind_name[w->pack.kind], (long long)r->max_length,
                        (long long)r->min_words, loss_name[r->loss],
                        r->chat ? r->chat->name : "", r->format ? r->format->name : "",
                        w->pack.kind == KIND_PAIRS ? " " : "",
                        w->pack.kind == KIND_PAIRS ? r->system : "");
    char *limit = w->o->most ? format(" first %lld", (long long)w->o->most) : format("%s", "");
    char *more = in_windows(w) ? format(" %lld %s %g", (long long)r->stride, held_name[r->held], r->share)
                               : format("%s", "");
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, text, strlen(text));
    sha256_add(&h, more, strlen(more));
    sha256_add(&h, limit, strlen(limit));
    free(more), free(limit);
    sha256_text(&h, hex);
    free(text);
}

static Work work_begin(const PackOptions *o)
{
    Work w = {.o = o, .threads = o->threads ? o->threads : core_count(), .to_show = o->show,
              .pack = {.kind = o->kind, .max_length = o->max_length, .out = o->out}};
    find_rules(&w);
    if (!w.prepared)
        list_files(&w);
    return w;
}

static PackError work_end(Work *w)
{
    PackError error = w->pack.error;
    error.at.file = error.at.file ? format("%s", error.at.file) : NULL;
    w->pack.error.text = NULL;
    pack_end(&w->pack);
    for (int i = 0; i < w->nfiles; i++)
        free(w->file[i]);
    free(w->file);
    prepared_close(w->prepared);
    free(w->rules.no_chat);
    free(w->why_chat);
    vocabulary_free(&w->vocabulary);
    tokenizer_free(w->tok);
    return error;
}

/* The same of arrays of ids. */
static void pack_prepared(Work *w, char hex[SHA256_HEX])
{
    Pack *p = &w->pack;
    char bytes[SHA256_HEX], files[SHA256_HEX];
    pack_begin(p);
    char *error = p->error.text ? NULL : prepared_read(w->prepared, p);
    if (error)
        pack_fail(p, EXIT_DATA, (Place){0}, error);
    reader_hashes(bytes, files);
    fingerprint(w, bytes, files, hex);
    if (!p->error.text && p->out)
        pack_write(p, prepared_ids(w->prepared), bytes, hex, &w->rules);
}

/* Reads, writes; hex: what the file's fingerprint is. */
static void pack_all(Work *w, char hex[SHA256_HEX])
{
    const PackOptions *o = w->o;
    Pack *p = &w->pack;
    char bytes[SHA256_HEX], files[SHA256_HEX];
    Progress g = {.who = o->who, .terminal = isatty(STDERR_FILENO)};
    if (!p->error.text && !w->prepared && !w->tok)
        count_vocabulary(w);
    if (w->prepared && !p->error.text)
        pack_prepared(w, hex);
    if (w->prepared || p->error.text)
        return;
    g.total = files_check(w);
    g.began = g.last = clock_seconds();
    if (!p->error.text)
        pack_begin(p);
    w->twin = calloc((size_t)w->threads, sizeof *w->twin);
    for (int i = 0; i < w->threads; i++)
        w->twin[i] = tokenizer_twin(w->tok);
    if (!p->error.text)
        read_all(w, &g);
    if (!p->error.text && p->out && !p->ndocs)
        pack_fail(p, EXIT_DATA, (Place){w->file[0], 0}, no_row(p));
    if (!p->error.text && p->out && o->chat && !p->nchats)
        pack_fail(p, EXIT_DATA, (Place){0},
                  format("--chat %s: no row is a conversation", o->chat));
    if (!p->error.text && p->out && o->system && !p->nquestions)
        pack_fail(p, EXIT_DATA, (Place){0},
                  format("--system: no row is a pair of answers to a question"));
    if (!p->error.text && p->out)
        hold(w);
    reader_hashes(bytes, files);
    fingerprint(w, bytes, files, hex);
    char *error = !p->error.text && p->out && w->vocabulary.kind
                ? vocabulary_write(&w->vocabulary, p->out) : NULL;
    if (error)
        pack_fail(p, EXIT_IO, (Place){0}, error);
    if (!p->error.text && p->out)
        pack_write(p, &(TokenIds){tokenizer_id(w->tok), tokenizer_size(w->tok), tokenizer_eos(w->tok),
                                  tokenizer_mask(w->tok), tokenizer_pad(w->tok)},
                   bytes, hex, &w->rules);
    for (int i = 0; i < w->threads; i++)
        tokenizer_free(w->twin[i]);
    free(w->twin);
}

PackError pack_files(const PackOptions *o, FILE *summary)
{
    char hex[SHA256_HEX];
    Work w = work_begin(o);
    pack_all(&w, hex);
    if (!w.pack.error.text && o->out)
        report(&w, summary);
    else if (!w.pack.error.text)
        report_rules(&w, summary);
    return work_end(&w);
}

/* ---- the cache ------------------------------------------------------------------------------- */

bool pack_is_raw(const char *path)
{
    struct stat st;
    unsigned char head[9];
    uint64_t n = 0;
    if (!strcmp(path, "-"))
        return true;
    if (stat(path, &st))
        return false;
    FILE *f = S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;
    size_t got = f ? fread(head, 1, sizeof head, f) : 0;
    size_t len = strlen(path);
    if (f)
        fclose(f);
    for (int i = 0; i < 8 && got == sizeof head; i++)
        n |= (uint64_t)head[i] << (8 * i);
    bool named = len > 12 && !strcmp(path + len - 12, ".safetensors");
    bool tensors = got == sizeof head && n && n <= ST_HEADER_MAX && head[8] == '{';
    return S_ISDIR(st.st_mode) || (f && !named && !tensors);
}

static char *cache_path(const char *folder, const char *hex)
{
    return format("%s/%.32s/records.safetensors", folder, hex);
}

/* Reads all files for the name of the file that they make; those of standard input cannot be read
 * twice: NULL. malloc'ed. */
static char *expected_path(Work *w, const char *folder)
{
    char bytes[SHA256_HEX], files[SHA256_HEX], hex[SHA256_HEX];
    for (int i = 0; i < w->nfiles; i++)
        if (!strcmp(w->file[i], "-"))
            return NULL;
    for (int i = 0; i < w->nfiles && !w->pack.error.text; i++) {
        Reader *r;
        char *error = reader_open(&r, w->file[i], w->tok, &w->rules);
        if (!error) {
            error = reader_skip(r);
            reader_close(r);
        }
        if (error)
            pack_fail(&w->pack, EXIT_DATA, (Place){w->file[i], 0}, error);
    }
    char *error = w->prepared && !w->pack.error.text ? prepared_read(w->prepared, NULL) : NULL;
    if (error)
        pack_fail(&w->pack, EXIT_DATA, (Place){0}, error);
    reader_hashes(bytes, files);
    fingerprint(w, bytes, files, hex);
    return cache_path(folder, hex);
}

/* The records, and the tokenizer that was made with them. */
static bool cache_whole(const PackOptions *o, const char *path)
{
    bool whole = file_named(path);
    for (int i = 0; i < VOCABULARY_FILES && vocabulary_made(o->tokenizer); i++) {
        char *file = format("%.*s%s", (int)(strrchr(path, '/') + 1 - path), path,
                            vocabulary_files(o->tokenizer)[i]);
        whole = whole && file_named(file);
        free(file);
    }
    return whole;
}

/* The new folder `temp` gets the name of what is in it, unless another program was faster; what is
 * left there of one that is not whole goes. */
static void cache_commit(Pack *p, const PackOptions *o, const char *temp, const char *final)
{
    char *to = format("%.*s", (int)(strrchr(final, '/') - final), final), *error = NULL;
    if (!p->error.text && rename(temp, to) && !cache_whole(o, final)) {
        error = folder_exists(to) ? folder_remove(to) : NULL;
        if (!error && rename(temp, to))
            error = format("%s: rename: %s", to, strerror(errno));
    }
    if (error)
        pack_fail(p, EXIT_IO, (Place){0}, error);
    free(folder_exists(temp) ? folder_remove(temp) : NULL);
    free(to);
}

/* A folder to pack in, of this process alone. malloc'ed. */
static char *cache_temp(const char *folder)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return format("%s/packing-%s-%ld", folder, host, (long)getpid());
}

/* Folders of processes of this host that were killed while they packed. */
static void cache_sweep(const char *folder)
{
    struct dirent **entry = NULL;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    char *ours = format("packing-%s-", host);
    int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        char *end, *path = folder_join(folder, name);
        long pid = strncmp(name, ours, strlen(ours)) ? 0 : strtol(name + strlen(ours), &end, 10);
        if (pid > 0 && !*end && kill((pid_t)pid, 0) && errno == ESRCH)
            free(folder_remove(path));
        free(path), free(entry[i]);
    }
    free(entry), free(ours);
}

/* The tokenizer of arrays of ids, into the folder of their records. */
static void copy_beside(Pack *p, const char *from, const char *folder)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char *path = folder_join(from, name[i]);
        char *error = file_named(path) ? folder_copy(from, folder, name[i], NULL) : NULL;
        if (error)
            pack_fail(p, EXIT_IO, (Place){0}, error);
        free(path);
    }
}

PackError pack_cached(const PackOptions *o, const char *folder, FILE *summary, char **path,
                      bool *found)
{
    char hex[SHA256_HEX];
    Work w = work_begin(o);
    Pack *p = &w.pack;
    char *temp = cache_temp(folder);
    char *out = format("%s/records.safetensors", temp);
    cache_sweep(folder);
    *path = p->error.text ? NULL : expected_path(&w, folder);
    *found = !p->error.text && *path && cache_whole(o, *path);
    if (!*found && !p->error.text) {
        /* what a process that had our number was killed at */
        char *error = folder_exists(temp) ? folder_remove(temp) : NULL;
        error = error ? error : folder_make_parents(out);
        if (error)
            pack_fail(p, EXIT_IO, (Place){0}, error);
        p->out = out;
        pack_all(&w, hex);
        if (w.prepared && !p->error.text)
            copy_beside(p, o->file[0], temp);
        char *final = p->error.text ? NULL : cache_path(folder, hex);
        if (final && *path && strcmp(final, *path))
            pack_fail(p, EXIT_DATA, (Place){w.file[0], 0}, format("changed while it was read"));
        cache_commit(p, o, temp, final ? final : out);
        free(*path);
        p->out = *path = final;
        if (!p->error.text)
            report(&w, summary);
    }
    free(temp), free(out);
    return work_end(&w);
}

/* ---- arrays of ids --------------------------------------------------------------------------- */

/* What o has left open, for windows. */
static PackOptions prepare_options(const PackOptions *o, const char *records)
{
    PackOptions p = *o;
    p.format = pack_format[FORM_WINDOWS].name;
    p.kind = KIND_ROWS;
    p.held = o->held ? o->held : HELD_TAIL;
    p.out = records;
    return p;
}

/* The tokenizer that was named goes with the ids; one that was made is there already. */
static char *copy_tokenizer(const char *from, const char *folder)
{
    size_t n;
    char *error = NULL, *text;
    if (vocabulary_made(from) || !strcmp(from, "bytes"))
        return NULL;
    text = file_read(from, 256 << 20, &n, &error);
    if (text)
        error = folder_write_text(folder, "tokenizer.json", text, NULL);
    free(text);
    return error;
}

PackError pack_prepare(const PackOptions *o, const char *to, FILE *summary)
{
    char hex[SHA256_HEX], *records = folder_join(to, "records.safetensors"), *error = NULL;
    PackOptions options = prepare_options(o, records);
    bool there = prepared_is(to);
    if (there)
        error = format("%s has arrays of ids already: remove it, or name another folder", to);
    error = error ? error : folder_make_parents(records);
    if (error)
        return (PackError){.text = error, .code = there ? EXIT_CONFIG : EXIT_IO};
    Work w = work_begin(&options);
    pack_all(&w, hex);
    if (!w.pack.error.text)
        error = prepared_write(records, o, windows_first(w.tok), to);
    if (!w.pack.error.text && !error)
        error = copy_tokenizer(o->tokenizer, to);
    if (error) {
        prepared_remove(to);
        pack_fail(&w.pack, EXIT_DATA, (Place){0}, error);
    }
    w.pack.out = to;
    if (!w.pack.error.text)
        report(&w, summary);
    unlink(records);
    free(records);
    return work_end(&w);
}
