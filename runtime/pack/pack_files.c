/* pack_files.c -- packs texts and JSON rows into a token file.
 *
 * In:    files (pack_read.c), and the rules for their rows.
 * Out:   the token file; the report (pack_report.c).
 * Keeps: the file's bytes do not depend on the number of threads; a malformed row ends the pack
 *        with its place, unless --skip-bad leaves it out and lists it. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLIGHT_MIN = 32 << 20, FLIGHT_A_THREAD = 2 << 20 };

typedef struct {
    Chunk *chunk;
    Encoded out;
} Job;

static int core_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                   : CPU_COUNT(&set);
    return n < 1 ? 1 : n > PACK_THREADS_MAX ? PACK_THREADS_MAX : n;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void encode(void *user, int thread, void *arg)
{
    const Work *w = user;
    Job *job = arg;
    rows_encode(&w->rules, w->twin[thread], job->chunk, &job->out);
}

/* True if PackOptions.most is reached. */
static bool enough(const Work *w)
{
    const PackOptions *o = w->o;
    return o->most &&
           (w->pack.kind == KIND_PACKED ? w->pack.ntokens >= o->most : w->pack.ndocs >= o->most);
}

typedef struct {
    Work *w;
    const Job *job;
    const RowOut *row;
    Progress *g;
} Shown;

static void show_window(void *with, const int32_t *id, const uint8_t *target, size_t n)
{
    const Shown *s = with;
    if (s->w->to_show <= 0)
        return;
    progress_clear(s->g);
    report_window(s->w, s->job->chunk, s->row->line, id, target, n);
    s->w->to_show--;
}

/* Writes a text, or a stretch of one, as records that are not rows. */
static void finish_text(Work *w, const Job *job, const RowOut *row, const int32_t *id,
                        bool document, Progress *g)
{
    Pack *p = &w->pack;
    bool first = !document || job->chunk->first, last = !document || job->chunk->last;
    if (row->drop) {
        p->dropped[row->drop]++;
        return;
    }
    if (first && !job->chunk->held_out)
        pack_count(p, row, job->chunk->place.file);
    else
        p->nbytes += row->bytes;
    p->records->put_text(p, &w->rules, w->tok, job->chunk, id, row, first, last, show_window,
                         &(Shown){w, job, row, g});
}

/* Writes the rows of a finished chunk, in order. */
static void job_finish(Work *w, Job *job, Progress *g)
{
    Pack *p = &w->pack;
    Encoded *e = &job->out;
    bool document = job->chunk->reads == READS_TEXT;
    int next = 0, bad = 0;
    for (int i = 0; !p->error.text && !enough(w); i++) {
        pack_skip(p, &w->rules, e, i, &bad, job->chunk->file);
        if (i == e->nrows || p->error.text)
            break;
        const RowOut *row = &e->row[i];
        const int32_t *id = e->n ? e->id + row->begin : NULL;    /* all rows may be left out */
        const uint8_t *target = e->n ? e->target + row->begin : NULL;
        char *error = pack_kind(p, row);
        CutRow kept = {0};
        if (error) {
            pack_fail(p, EXIT_DATA, (Location){job->chunk->place.file, row->line}, error);
            return;
        }
        pack_keys(p, e, i, job->chunk->place.file, &next);
        if (p->records && p->records->put_text) {
            finish_text(w, job, row, id, document, g);
            if (w->o->show && w->to_show <= 0 && !p->out)
                return;
            continue;
        }
        if (document)
            pack_stretch(p, id, row->n, row, job->chunk->first, job->chunk->place.file);
        else
            kept = pack_row(p, id, target, row, job->chunk->place.file);
        if (w->to_show > 0 && (!document || job->chunk->first)) {
            progress_clear(g);
            if (document)
                report_text(w, job->chunk, row, id);
            else
                report_row(w, job->chunk, row, &kept, id, target);
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

static void read_all(Work *w, Progress *g)
{
    const PackOptions *o = w->o;
    Jobs *jobs = jobs_start(w->threads, encode, w);
    int64_t flight = 0, before = 0, most = (int64_t)w->threads * FLIGHT_A_THREAD;
    Reader *r = NULL;
    if (most < FLIGHT_MIN)
        most = FLIGHT_MIN;
    if (!jobs) {
        pack_fail(&w->pack, EXIT_CONFIG, (Location){0},
                  format("cannot start %d threads: try --threads with fewer", w->threads));
        return;
    }
    int next = 0;
    while (!w->pack.error.text && !(o->show && !w->to_show && !o->out) && !enough(w)) {
        Chunk *chunk = jobs_full(jobs) || flight >= most ? NULL
                     : input_next(w, &r, &next, &before);
        if (chunk) {
            Job *job = calloc(1, sizeof *job);
            job->chunk = chunk;
            flight += (int64_t)chunk->n;
            jobs_put(jobs, job);
        }
        /* the queue is full, or there is no more input: wait for the oldest job */
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
    Job *left;                   /* chunks read ahead */
    while (enough(w) && (left = jobs_take(jobs, 60)))
        job_free(left);
    if (enough(w) && !w->pack.error.text)
        input_skip(w, r, next);
    else if (r)
        reader_close(r);
    jobs_end(jobs);
}

/* Makes a tokenizer from the data, in a first pass over all files. */
static void count_vocabulary(Work *w)
{
    PackOptions o = *w->o;
    Counter *counter = NULL;
    o.show = o.most = 0;
    o.out = NULL;
    Work c = {.o = &o, .rules = w->rules, .threads = 1, .nfiles = w->nfiles, .file = w->file,
              .pack = {.kind = o.kind, .max_length = o.max_length}};
    char *error = counter_begin(&counter, o.tokenizer, o.formats);
    if (error) {
        pack_fail(&w->pack, EXIT_INTERNAL, (Location){0}, error);
        return;
    }
    c.tok = tokenizer_twin(counter_tokenizer(counter));
    c.twin = &c.tok;
    Progress g = {.who = o.who, .total = input_check(&c), .terminal = isatty(STDERR_FILENO)};
    g.began = g.last = clock_seconds();
    if (!c.pack.error.text)
        read_all(&c, &g);
    if (!c.pack.error.text && (error = vocabulary_make(&w->vocabulary, counter,
                                                  o.words ? o.words : PACK_WORDS, &w->tok)))
        pack_fail(&c.pack, EXIT_DATA, (Location){0}, error);
    if (c.pack.error.text)
        w->pack.error = c.pack.error;
    char bytes[SHA256_HEX], files[SHA256_HEX];
    reader_hashes(bytes, files); /* resets them for the second pass */
    c.pack.error = (PackError){0};
    pack_end(&c.pack);
    tokenizer_free(c.tok);
    counter_free(counter);
}

/* ---- the whole pack -------------------------------------------------------------------------- */

/* Before rows are written: chooses those for validation. */
static void hold(Work *w)
{
    Pack *p = &w->pack;
    if (w->rules.held_out == HELD_OUT_RANDOM && p->records && p->records->hold)
        p->records->hold(p, w->rules.share);
    if (w->rules.held_out == HELD_OUT_TAIL && !p->nheld_out)
        pack_fail(p, EXIT_DATA, (Location){0},
                  format("%s", strcmp(w->o->who, "prepare")
                             ? "--split tail is for texts, these are JSON rows: use random or none"
                             : "validation uses the tail of texts, but these are JSON rows: name "
                               "texts, or gen pack --prepare DIR --split random FILE"));
    else if (w->rules.held_out && (!p->nheld_out || p->nheld_out == p->ndocs))
        pack_fail(p, EXIT_DATA, (Location){0},
                  format("%lld windows: a share of %g leaves %lld for training and %lld for "
                         "validation", (long long)p->ndocs, w->rules.share,
                         (long long)(p->ndocs - p->nheld_out), (long long)p->nheld_out));
}

Work work_begin(const PackOptions *o)
{
    Work w = {.o = o, .threads = o->threads ? o->threads : core_count(), .to_show = o->show,
              .pack = {.kind = o->kind, .max_length = o->max_length, .out = o->out}};
    rules_find(&w);
    if (!w.prepared)
        input_list(&w);
    return w;
}

PackError work_end(Work *w)
{
    PackError error = w->pack.error;
    w->pack.error = (PackError){0};
    pack_end(&w->pack);
    for (int i = 0; i < w->nfiles; i++)
        free(w->file[i]);
    free(w->file);
    if (w->prepared)
        w->prepared->close(w->prepared);
    rules_free(&w->rules);
    free(w->why_chat);
    vocabulary_free(&w->vocabulary);
    tokenizer_free(w->tok);
    return error;
}

void work_check_keys(Work *w)
{
    const PackOptions *o = w->o;
    Location at = {0};
    char *error = w->pack.error.text ? NULL
                                     : keys_error(&w->pack, o->command, o->ignore, o->nignore, &at);
    if (error)
        pack_fail(&w->pack, EXIT_DATA, at, error);
    for (int i = 0; i < o->nignore && o->keys_there && o->out && !w->pack.error.text && !enough(w);
         i++)
        if (!(w->pack.ignored >> i & 1))
            pack_fail(&w->pack, EXIT_CONFIG, (Location){0},
                      format("--ignore-keys %s: no row has this key", o->ignore[i]));
}

/* The same for arrays of ids. */
static void pack_prepared(Work *w, char name[SHA256_HEX])
{
    Pack *p = &w->pack;
    char bytes[SHA256_HEX], files[SHA256_HEX], hex[SHA256_HEX];
    pack_begin(p);
    char *error = p->error.text ? NULL : w->prepared->read(w->prepared, p);
    if (error)
        pack_fail(p, EXIT_DATA, (Location){0}, error);
    reader_hashes(bytes, files);
    rules_name(w, bytes, files, false, name);
    rules_fingerprint(w, bytes, files, hex);
    if (!p->error.text && p->out)
        pack_write(p, &w->prepared->ids, bytes, hex, &w->rules);
}

void work_do(Work *w, char name[SHA256_HEX])
{
    const PackOptions *o = w->o;
    Pack *p = &w->pack;
    char bytes[SHA256_HEX], files[SHA256_HEX], hex[SHA256_HEX];
    Progress g = {.who = o->who, .terminal = isatty(STDERR_FILENO)};
    if (!p->error.text && !w->prepared && !w->tok)
        count_vocabulary(w);
    char *wrong = o->suits && !w->prepared && !p->error.text ? o->suits(o, w->tok) : NULL;
    if (wrong)
        pack_fail(p, EXIT_MISMATCH, (Location){0}, wrong);
    if (w->prepared && !p->error.text)
        pack_prepared(w, name);
    if (w->prepared || p->error.text)
        return;
    g.total = input_check(w);
    g.began = g.last = clock_seconds();
    if (!p->error.text)
        pack_begin(p);
    w->twin = calloc((size_t)w->threads, sizeof *w->twin);
    for (int i = 0; i < w->threads; i++)
        w->twin[i] = tokenizer_twin(w->tok);
    if (!p->error.text)
        read_all(w, &g);
    work_check_keys(w);
    if (!p->error.text && p->out && !p->ndocs)
        pack_fail(p, EXIT_DATA, (Location){w->file[0], 0}, report_no_row(p));
    if (!p->error.text && !p->out && o->show && w->to_show == o->show)
        pack_fail(p, EXIT_DATA, (Location){w->file[0], 0}, format("has no row to show"));
    if (!p->error.text && p->out && o->chat && !p->nchats)
        pack_fail(p, EXIT_DATA, (Location){0},
                  format("--chat %s: no row is a conversation", o->chat));
    if (!p->error.text && p->out && o->variable && *o->variable && !p->nchats)
        pack_fail(p, EXIT_DATA, (Location){0},
                  format("--template-var: no row is a conversation"));
    if (!p->error.text && p->out && o->system && !p->nquestions)
        pack_fail(p, EXIT_DATA, (Location){0},
                  format("--system: no row is a pair of answers to a question or a step-labelled "
                         "solution"));
    if (!p->error.text && p->out && o->asked && p->kind < o->asked_kind)
        pack_fail(p, EXIT_DATA, (Location){0}, format("%s: no row is %s", o->asked, o->asked_row));
    if (!p->error.text && p->out && p->records && p->records->check)
        p->records->check(p);
    if (!p->error.text && p->out)
        hold(w);
    const bool rows = reader_hashes(bytes, files);
    rules_name(w, bytes, files, rows, name);
    rules_fingerprint(w, bytes, files, hex);
    char *error = !p->error.text && p->out && w->vocabulary.kind
                ? vocabulary_write(&w->vocabulary, p->out) : NULL;
    if (error)
        pack_fail(p, EXIT_IO, (Location){0}, error);
    if (!p->error.text && p->out) {
        const TokenIds ids = token_ids(w->tok);
        pack_write(p, &ids, bytes, hex, &w->rules);
    }
    for (int i = 0; i < w->threads; i++)
        tokenizer_free(w->twin[i]);
    free(w->twin);
}
