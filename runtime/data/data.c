/* data.c -- opens token files, checks that they match the model, and divides their samples.
 *
 * In:    TokenFile.  Out: Data; names and fingerprints for messages. */
#define _GNU_SOURCE
#include "runtime/data/data_parts.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

/* Returns the names of parts (NULL: those of f), "chosen, rejected"; malloc'ed. */
static char *part_names(const TokenFile *f, const char *const *part)
{
    char *all = format("%s", "");
    for (int i = 0; part ? part[i] != NULL : i < f->nparts; i++) {
        char *longer = format("%s%s%s", all, i ? ", " : "", part ? part[i] : f->part[i].name);
        free(all);
        all = longer;
    }
    return all;
}

/* EXIT_MISMATCH unless f has the parts that the program reads, in their order. */
static void check_parts(const Data *d, const TokenFile *f)
{
    static const char *const tokens[] = {"tokens", NULL};
    const char *const *want = d->parts ? d->parts : tokens;
    bool same = f->nparts == d->nparts;
    for (int i = 0; i < f->nparts && same; i++)
        same = !strcmp(f->part[i].name, want[i]);
    if (same && (!d->parts || !strcmp(d->kind, f->kind)))
        return;
    die(EXIT_MISMATCH, "%s: %s (%s), but this program takes %s (%s): pack it again, with a --format"
        " that makes them", f->path, f->kind, part_names(f, NULL), d->kind, part_names(f, want));
}

/* Finds the columns that the program reads besides the parts. */
static void find_columns(const Data *d, DataFile *f)
{
    for (int i = 0; i < d->ncolumns; i++) {
        const DataColumn *want = &d->columns[i];
        const Column *c = recordfile_column(&f->t.records, want->name);
        f->column[i] = c;
        if (!c && want->may)
            continue;
        if (!c || c->dtype != want->dtype || !c->offsets != !want->ragged ||
            (!want->ragged && c->width != 1))
            die(EXIT_MISMATCH, "%s: column %s: must be %s, %s: pack it again, with this version "
                               "and a --format that makes %s", f->t.path, want->name,
                               st_dtype_name[want->dtype],
                want->ragged ? "ragged" : "one a record", d->kind);
    }
}

static void open_file(Data *d, DataFile *f, const char *path, const Model *m)
{
    char *error = tokenfile_open(&f->t, path);
    if (error)
        die(EXIT_DATA, "%s", error);
    check_parts(d, &f->t);
    find_columns(d, f);
    char *words = model_words(m, "data.kind");
    if (d->rows && d->finds_targets && !strcmp(f->t.kind, "packed"))
        die(EXIT_MISMATCH, "%s: packed documents, but this program masks tokens of rows: pack them "
            "again with gen pack --format NAME, a name that --data-format accepts", path);
    if (d->rows && !strcmp(f->t.kind, "packed"))
        die(EXIT_MISMATCH, "%s: packed documents, but this program was built for data.kind=%s: gen "
            "pack JSON Lines with --kind rows, or gen %s data.kind=packed", path, d->kind, words);
    if (!d->rows && !strcmp(f->t.kind, "rows"))
        die(EXIT_MISMATCH, "%s: rows%s, but this program was built for data.kind=%s: gen %s "
            "data.kind=rows (one row per sample) or data.kind=bfd (several short rows)%s", path,
            f->t.part->mask ? " with masked prompts" : "", d->kind, words,
            f->t.part->mask ? "" : "; plain texts are packed with gen pack --kind packed");
    free(words);
    if (f->t.finds_targets != d->finds_targets)
        die(EXIT_MISMATCH, "%s: rows %s, but this program %s: pack them again with gen pack %s",
            path, f->t.finds_targets ? "of tokens to mask" : "of targets to predict",
            d->finds_targets ? "masks tokens" : "predicts targets",
            d->finds_targets ? "--format NAME, a name that --data-format accepts"
                           : "without --format");
    if (f->t.vocab > d->vocab)
        die(EXIT_MISMATCH, "%s: tokenizer %s has %lld ids, the model %lld: gen pack it with the "
            "model's tokenizer, or gen %s model.vocab=%lld", path, f->t.tokenizer,
            (long long)f->t.vocab, (long long)d->vocab, model_words(m, "model.vocab"),
            (long long)f->t.vocab);
    error = tokenfile_check_sums(&f->t);
    error = error ? error : tokenfile_check_ids(&f->t, d->vocab);
    if (error)
        die(EXIT_DATA, "%s", error);
    f->n = d->rows ? f->t.ndocs : (f->t.part->n - 1) / d->T;
    for (int64_t k = 0; d->rows && k < f->n * d->nparts; k++) {
        const TokenPart *p = &f->t.part[k / f->n];
        int64_t i = k % f->n, length = p->doc[i + 1] - p->doc[i];
        if (length > d->T)
            die(EXIT_DATA, "%s: document %lld has %lld tokens%s%s, the model takes %lld: pack it "
                "again with gen pack --max-length %lld", path, (long long)i, (long long)length,
                d->nparts > 1 ? " in " : "", d->nparts > 1 ? p->name : "", (long long)d->T,
                (long long)d->T);
    }
    if (f->t.train) {
        d->divided = true;
        f->skip = d->eval ? f->t.train : 0;
        f->n = d->eval ? f->n - f->t.train : f->t.train;
    }
    d->n += f->n;
}

/* After all files are open: EXIT_DATA unless every row has a target. */
static void check_targets(const Data *d)
{
    for (int64_t k = 0; k < d->n * d->nparts; k++) {
        DataPiece s = data_piece_at(d, k / d->nparts, (int)(k % d->nparts));
        if ((d->rows || s.mask) &&
            (d->finds_targets ? data_piece_choices(&s) : data_piece_targets(&s)) == 0)
            die(EXIT_DATA, "%s: %s %lld has no target%s%s: nothing to learn from it", s.file->path,
                d->rows ? "document" : "sample", (long long)s.index, d->parts ? " in " : "",
                d->parts ? s.part->name : "");
    }
}

/* Returns how often a sample may occur in an epoch at most. */
static int64_t copies(const Data *d, int64_t i)
{
    for (int k = 0; k < d->nsources; k++) {
        const DataSource *s = &d->source[k];
        /* an epoch may start and end within a pass: two more */
        if (i >= s->first && i < s->first + s->n)
            return s->drawn ? s->drawn / s->n + 2 : 0;
    }
    return 1;
}

/* EXIT_DATA if a micro-batch can have more targets than the head takes: training draws samples in
 * any order, evaluation in file order. */
static void check_bound(const Data *d, const DataShape *of, const char *paths, const Model *m)
{
    const int64_t positions = d->T * d->nparts;
    int64_t *samples = calloc((size_t)positions + 1, sizeof *samples);  /* by number of targets */
    int64_t most = 0, batch = 0, all = 0;
    if (!samples)
        die(EXIT_INTERNAL, "out of memory for the count of targets");
    for (int64_t i = 0; i < d->n; i++) {
        int64_t n = data_sample_targets(d, i);
        if (of->takes)
            n = of->takes(n);
        samples[n] += d->eval ? 1 : copies(d, i);
        all += d->eval ? n : n * copies(d, i);
        batch = i % d->micro ? batch + n : n;
        most = d->eval && batch > most ? batch : most;
    }
    if (!d->eval) {                      /* the samples with most, repeated if there are too few */
        most = d->micro / d->n * all;
        int64_t left = d->micro % d->n;
        for (int64_t n = positions; left > 0; n--) {
            int64_t take = samples[n] < left ? samples[n] : left;
            most += take * n;
            left -= take;
        }
    }
    free(samples);
    most = most < d->micro * positions ? most : d->micro * positions;
    if (most > d->targets)
        die(EXIT_DATA, "%s: a micro-batch of %lld samples may have %lld targets, this program "
            "takes %lld: gen %s batch.targets=%lld%s", paths, (long long)d->micro, (long long)most,
            (long long)d->targets, model_words(m, "batch.targets"),
            (long long)(most < d->micro * positions ? most : 0),
            most < d->micro * positions ? "" : ": all tokens are targets");
}

enum { SHARES = sizeof((DataShape *)0)->split / sizeof(double), PARTS = SHARES + 1 };

/* Sets n (PARTS), the samples of `all` in each part; returns the last part. */
static int shares(const DataShape *of, int64_t all, int64_t *n)
{
    int last = 0;
    int64_t left = all;
    for (; last < SHARES && of->split[last] > 0; last++)
        left -= n[last] = (int64_t)((double)all * of->split[last] + 1e-6);
    n[last] = left;              /* 1e-6 above: 0.29 * 100 is less than 29 */
    if (of->take < 0 || of->take > last || left < 0)
        die(EXIT_INTERNAL, "data: part %d of %d, shares of more than all", of->take, last + 1);
    return last;
}

static void add_span(Data *d, int file, int64_t skip, int64_t n)
{
    const DataSpan *before = d->nspans ? &d->span[d->nspans - 1] : NULL;
    d->span[d->nspans++] = (DataSpan){file, before ? before->first + before->n : 0, n, skip};
}

/* Sets the order of all pieces: by file; or, if each file is divided separately, by part and then
 * by file. */
static void lay_spans(Data *d, const DataShape *of)
{
    const bool each = of->weight && of->split[0] > 0 && !d->divided;
    int64_t n[PARTS];
    int last = 0;
    d->span = calloc((size_t)(d->nfiles * PARTS), sizeof *d->span);
    if (!d->span)
        die(EXIT_INTERNAL, "out of memory for the parts of %d files", d->nfiles);
    for (int part = 0; part <= last; part++)
        for (int k = 0; k < d->nfiles; k++) {
            const DataFile *f = &d->file[k];
            int64_t skip = f->skip;
            n[0] = f->n;
            if (each)
                last = shares(of, f->n, n);
            for (int before = 0; before < part; before++)
                skip += n[before];
            add_span(d, k, skip, n[part]);
        }
}

/* Sets the sources: the training samples of each file. */
static void find_sources(Data *d, const DataShape *of)
{
    d->source = calloc((size_t)d->nfiles, sizeof *d->source);
    if (!d->source)
        die(EXIT_INTERNAL, "out of memory for %d sources", d->nfiles);
    d->nsources = d->nfiles;
    for (int k = 0; k < d->nfiles; k++) {
        const DataSpan *s = &d->span[k];                 /* of the first part */
        d->source[k] = (DataSource){.weight = of->weight[k], .first = s->first, .n = s->n};
        if (!s->n && of->weight[k] > 0)
            die(EXIT_DATA, "%s has no training samples left after --eval-share, but its "
                "--data-weights is %g: lower --eval-share, or give it the weight 0",
                d->file[k].t.path, of->weight[k]);
    }
}

static void share_sources(Data *d)
{
    mixture_share(d->source, d->nsources, d->n);
    for (int k = 0; k < d->nsources; k++)
        if (!d->source[k].drawn && d->source[k].weight > 0)
            die(EXIT_DATA, "%s: its --data-weights, %g, gives less than one of the %lld samples of "
                "an epoch: raise it, or set it to 0", d->file[k].t.path, d->source[k].weight,
                (long long)d->n);
}

/* Selects the samples of d among all samples of the files. */
static void take_part(Data *d, const DataShape *of, const char *paths)
{
    if (of->most && of->most < d->n && !(d->divided && d->eval))
        d->n = of->most;
    if (of->split[0] <= 0 || d->divided)
        return;
    const int64_t all = d->n;
    int64_t n[PARTS] = {0};
    int last = shares(of, all, n);
    for (int k = 0; of->weight && k < d->nfiles; k++) {
        int64_t part[PARTS];
        shares(of, d->file[k].n, part);
        for (int i = 0; i <= last; i++)
            n[i] = (k ? n[i] : 0) + part[i];
    }
    char *counts = format("%lld", (long long)n[0]);
    for (int i = 1; i <= last; i++) {
        char *longer = format("%s%s%lld", counts, i < last ? ", " : " and ", (long long)n[i]);
        free(counts);
        counts = longer;
    }
    if (!n[of->take])
        die(EXIT_DATA, "%s: of %lld samples, %s are for training and validation: use more data or "
            "another --eval-share", paths, (long long)all, counts);
    free(counts);
    for (int i = 0; i < of->take; i++)
        d->base += n[i];
    d->n = n[of->take];
}

/* EXIT_DATA if a file shrank. */
static void check_sizes(const Data *d)
{
    for (int k = 0; k < d->nfiles; k++)
        recordfile_check_size(&d->file[k].t.records);
}

/* EXIT_DATA if an epoch of whole steps has none. */
static void check_steps(const Data *d, const char *paths)
{
    if (data_steps_per_epoch(d) < 1)
        die(EXIT_DATA, "%s: %lld training samples, but a step takes %lld: use more data or a "
            "smaller batch", paths, (long long)d->n, (long long)d->G);
}

void data_open(Data *d, const char *paths, const Model *m, const DataShape *of, uint64_t seed,
               bool eval)
{
    *d = data_divided(of->kind, of->T, m, of->micro, seed, eval);
    d->rows = strcmp(of->kind, "packed");
    d->vocab = of->vocab, d->targets = of->targets, d->finds_targets = of->finds_targets;
    d->parts = of->parts, d->whole = of->whole;
    d->columns = of->columns;
    d->check = check_sizes;
    for (int i = 1; of->parts && of->parts[i]; i++)
        d->nparts = i + 1;
    while (d->columns && d->columns[d->ncolumns].name)
        d->ncolumns++;
    if (d->ncolumns > COLUMNS)
        die(EXIT_INTERNAL, "data: %d columns, at most %d", d->ncolumns, COLUMNS);
    char **path = split_names(paths, &d->nfiles);
    d->file = calloc((size_t)d->nfiles + 1, sizeof *d->file);
    if (!d->file)
        die(EXIT_INTERNAL, "out of memory for %d files", d->nfiles);
    for (int k = 0; k < d->nfiles; k++)
        open_file(d, &d->file[k], path[k], m);
    free(path);
    if (!d->nfiles)
        die(EXIT_CONFIG, "--%s: must be token files, got \"%s\"", eval ? "eval-data" : "data",
            paths);
    const TokenFile *first = &d->file[0].t;
    const char *slash = strrchr(first->path, '/');
    const int length = slash ? (int)(slash - first->path) + (slash == first->path) : 0;
    d->folder = slash ? format("%.*s", length, first->path) : format(".");
    d->tokenizer = strcmp(d->file[0].t.tokenizer, "none") ? d->file[0].t.tokenizer : NULL;
    d->ids = first->vocab, d->mask_id = first->mask_id, d->pad_id = first->pad_id;
    d->eos = first->eos;
    for (int k = 1; k < d->nfiles; k++) {
        const TokenFile *t = &d->file[k].t;
        data_check_same(d, t->tokenizer, t->eos, t->path);
        if (t->vocab != d->ids || t->mask_id != d->mask_id || t->pad_id != d->pad_id)
            die(EXIT_MISMATCH, "%s and %s have %lld and %lld ids, mask_id %lld and %lld, pad_id "
                "%lld and %lld: gen pack both with this version", first->path, t->path,
                (long long)d->ids, (long long)t->vocab, (long long)d->mask_id,
                (long long)t->mask_id, (long long)d->pad_id, (long long)t->pad_id);
    }
    if (d->n == 0)
        die(EXIT_DATA, "%s: %lld tokens, one sample needs %lld", paths,
            (long long)d->file[0].t.part->n, (long long)d->T + 1);
    lay_spans(d, of);
    take_part(d, of, paths);
    if (of->weight && !eval)
        find_sources(d, of);
    data_check_count(d, paths);
    check_steps(d, paths);
    check_targets(d);
    if (of->fill_bins)
        of->fill_bins(d);
    if (d->nsources)
        share_sources(d);
    if (of->targets)
        check_bound(d, of, paths, m);
    data_start_order(d);
}

char *data_paths(const Data *d)
{
    char *all = format("%s", d->nfiles ? d->file[0].t.path : "");
    for (int k = 1; k < d->nfiles; k++) {
        char *longer = format("%s,%s", all, d->file[k].t.path);
        free(all);
        all = longer;
    }
    return all;
}

void data_view(Data *view, const Data *d, int64_t first, int64_t n, const Model *m,
               const DataShape *of)
{
    REQUIRE(first >= 0 && n >= 0);
    const Data by = data_divided(d->kind, d->T, m, of->micro, d->seed, true);
    *view = *d;
    view->eval = true;
    view->micro = by.micro, view->accum = by.accum, view->G = by.G, view->epoch = by.epoch,
    view->step = by.step;
    view->order = NULL;
    view->base = first, view->n = n;
    if (view->bins.n)
        die(EXIT_INTERNAL, "data_view: bfd samples are not in file order");
    if (of->targets) {
        char *paths = data_paths(d);
        check_bound(view, of, paths, m);
        free(paths);
    }
}

void data_check_tokenizer(const Data *d, const char *id, const char *file)
{
    const TokenFile *t = &d->file[0].t;
    if (!d->tokenizer || !strcmp(id, d->tokenizer))
        return;
    char *length = t->max_length ? format("--max-length %lld ", (long long)t->max_length)
                                 : format("%s", "");
    die(EXIT_MISMATCH, "%s was packed with tokenizer %s, %s is %s: pack it again: gen pack "
        "--tokenizer %s %s-o %s FILE...", t->path, d->tokenizer, file, id, shell_word(file), length,
        shell_word(t->path));
}

void data_check_same(const Data *d, const char *id, int64_t eos, const char *files)
{
    if (id && d->tokenizer && strcmp(id, d->tokenizer))
        die(EXIT_MISMATCH, "%s was packed with tokenizer %s, %s with %s: gen pack them with the "
            "same --tokenizer", d->file[0].t.path, d->tokenizer, files, id);
    if (id && d->tokenizer && eos >= 0 && d->eos >= 0 && eos != d->eos)
        die(EXIT_MISMATCH,
            "%s has texts that end with token %lld, %s with %lld: gen pack them with the same "
            "tokenizer_config.json next to the tokenizer",
            d->file[0].t.path, (long long)d->eos, files, (long long)eos);
}

const char *data_path(const Data *d, int file)
{
    return d->file[file].t.path;
}

const char *data_meta(const Data *d, int file, const char *key)
{
    return st_meta(&d->file[file].t.records.st, key);
}

char *data_fingerprint_tokenizer(const char *fingerprint)
{
    static const char key[] = " tokenizer=";
    const char *at = strstr(fingerprint, key);
    at = at ? at + sizeof key - 1 : "";
    return format("%.*s", (int)strcspn(at, " "), at);
}

