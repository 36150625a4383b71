/* data.c -- maps token files and lays their samples out over steps, ranks and micro-batches.
 *
 * In:    TokenFile.  Out: (B, T) tokens and labels, target counts, names for messages.
 * Keeps: no state but the permutation of the epoch last asked for; a resumed run reads nothing
 *        again.  Method: sample i of a packed file is tokens [i T, i T + T], of rows document i,
 *        of bfd the documents of bin i; where samples have parts, they have them apart. */
#define _GNU_SOURCE
#include "runtime/data/data.h"
#include "runtime/base.h"
#include "runtime/data/tokenfile.h"
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8 };            /* most that are asked for */

struct DataFile {
    TokenFile t;
    const Column *column[COLUMNS];
    int64_t n;                   /* pieces */
    int64_t skip;                /* pieces that do not count, before them */
};

/* Consecutive pieces of a file. */
struct DataSpan {
    int file;
    int64_t first, n;            /* pieces of the spans before; of this one */
    int64_t skip;                /* pieces of the file before it */
};

/* Tokens that stand together in a sample, a window or a document: `have` of them are inputs; one
 * more follows them when `next`. */
typedef struct {
    const TokenFile *file;
    const TokenPart *part;
    int64_t index, begin;        /* of the piece and of its first token in the file */
    const int32_t *token;
    const uint8_t *mask;         /* or NULL: every token is a target */
    int64_t have;
    bool next;
    int32_t pad;
} Piece;

int data_place(const Data *d, int64_t sample, int64_t *record)
{
    const int64_t i = sample + d->base;
    int lo = 0, hi = d->nspans - 1;      /* the last span whose first <= i */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (d->span[mid].first <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    *record = i + d->span[lo].skip - d->span[lo].first;
    return d->span[lo].file;
}

static Piece piece_at(const Data *d, int64_t i, int part)
{
    const DataFile *f = &d->file[data_place(d, i, &i)];
    const TokenPart *p = &f->t.part[part];
    int64_t begin = i * d->T, end = begin + d->T;
    if (d->rows) {
        begin = p->doc[i];
        end = p->doc[i + 1];
        if (begin < 0 || end <= begin || end > p->n || end - begin > d->T)
            recordfile_changed(&f->t.records, p->offsets, i + 1);
    }
    return (Piece){
        .file = &f->t,
        .part = p,
        .index = i,
        .begin = begin,
        .token = p->tokens + begin,
        .mask = p->mask ? p->mask + begin : NULL,
        .have = end - begin,
        .next = !d->rows,
        .pad = f->t.eos >= 0 ? (int32_t)f->t.eos : 0,
    };
}

/* The pieces of sample i are piece_of(d, i, 0) .. piece_of(d, i, pieces(d, i) - 1): the documents of a
 * bin, or the parts. */
static int64_t pieces(const Data *d, int64_t i)
{
    return d->bins.n ? d->bins.first[i + 1] - d->bins.first[i] : d->nparts;
}

static Piece piece_of(const Data *d, int64_t i, int64_t k)
{
    return d->bins.n ? piece_at(d, d->bins.doc[d->bins.first[i] + k], 0) : piece_at(d, i, (int)k);
}

static int64_t piece_targets(const Piece *s)
{
    int64_t last = s->have + s->next - 1, n = 0;     /* labels 0 .. last-1 exist */
    if (!s->mask)
        return last;
    for (int64_t t = 0; t < last; t++)
        n += s->mask[t + 1] != 0;
    return n;
}

/* Tokens that an objective may choose as its targets. */
static int64_t chosen(const Piece *s)
{
    int64_t n = 0;
    for (int64_t t = 0; s->mask && t < s->have; t++)
        n += s->mask[t] != 0;
    return s->mask ? n : s->have;
}

static int64_t sample_targets(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < pieces(d, i); k++) {
        Piece s = piece_of(d, i, k);
        n += d->own_targets ? chosen(&s) : piece_targets(&s);
    }
    return n;
}

static int64_t sample_tokens(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < pieces(d, i); k++)
        n += piece_of(d, i, k).have;
    return n;
}

int64_t data_epoch(const Data *d, int64_t step)
{
    return d->eval ? 0 : step / data_steps_per_epoch(d);
}

void data_order(Data *d, int64_t step)
{
    int64_t epoch = data_epoch(d, step);
    if (step != d->step) {
        for (int k = 0; k < d->nfiles; k++)
            recordfile_check_size(&d->file[k].t.records);
        d->step = step;
    }
    if (d->eval || epoch == d->epoch)
        return;
    if (d->nsources)
        mixture_order(d->source, d->nsources, d->n, d->seed, epoch, d->order, d->list);
    else
        data_permutation(d->order, d->n, (uint32_t)(d->seed + (uint64_t)epoch));
    d->epoch = epoch;
}

/* The sample at place g of step's G, or -1: a padding row of an evaluation. */
static int64_t place(Data *d, int64_t step, int64_t g)
{
    data_order(d, step);
    if (d->eval) {
        int64_t i = step * d->G + g;
        return i < d->n ? i : -1;
    }
    return d->order[(step % data_steps_per_epoch(d) * d->G + g) % d->n];
}

/* "chosen, rejected": names that begin each at `step` bytes behind the one before. malloc'ed */
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

/* Samples are of the parts that the program takes, in their order. */
static void check_parts(const Data *d, const TokenFile *f)
{
    static const char *const tokens[] = {"tokens", NULL};
    const char *const *want = d->parts ? d->parts : tokens;
    bool same = f->nparts == d->nparts;
    for (int i = 0; i < f->nparts && same; i++)
        same = !strcmp(f->part[i].name, want[i]);
    if (same && (!d->parts || !strcmp(d->kind, f->kind)))
        return;
    die(EXIT_MISMATCH, "%s: %s (%s), but this binary takes %s (%s): pack it again, with a --format that "
        "makes them", f->path, f->kind, part_names(f, NULL), d->kind, part_names(f, want));
}

/* The columns that the program takes beside the parts. */
static void find_columns(const Data *d, DataFile *f)
{
    for (int i = 0; i < d->ncolumns; i++) {
        const DataColumn *want = &d->columns[i];
        const Column *c = recordfile_column(&f->t.records, want->name);
        f->column[i] = c;
        if (!c && want->may)
            continue;
        if (!c || c->dtype != want->dtype || !c->offsets != !want->ragged || (!want->ragged && c->width != 1))
            die(EXIT_MISMATCH, "%s: column %s: want %s, %s: pack it again, with this version and a --format that "
                "makes %s", f->t.path, want->name, st_dtype_name[want->dtype],
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
    if (d->rows && d->own_targets && strcmp(f->t.kind, "packed") == 0)
        die(EXIT_MISMATCH, "%s: packed documents, but this binary hides tokens of rows: pack them again, with gen "
            "pack --format NAME, one that --data-format takes", path);
    if (d->rows && strcmp(f->t.kind, "packed") == 0)
        die(EXIT_MISMATCH, "%s: packed documents, but this binary was built for data.kind=%s: gen "
            "pack JSON Lines with --kind rows, or gen %s data.kind=packed", path, d->kind, words);
    if (!d->rows && strcmp(f->t.kind, "rows") == 0)
        die(EXIT_MISMATCH, "%s: rows%s, but this binary was built for data.kind=%s: gen %s "
            "data.kind=rows (a row a sample) or data.kind=bfd (short rows side by side)%s", path,
            f->t.part->mask ? " with masked prompts" : "", d->kind, words,
            f->t.part->mask ? "" : "; plain texts are packed with gen pack --kind packed");
    free(words);
    if (f->t.own_targets != d->own_targets)
        die(EXIT_MISMATCH, "%s: rows %s, but this binary %s: pack them again, with gen pack --format "
            "%s", path, f->t.own_targets ? "of tokens to be hidden" : "of targets to be predicted",
            d->own_targets ? "hides tokens" : "predicts targets",
            d->own_targets ? "NAME, one that --data-format takes" : "left out");
    if (f->t.vocab > d->vocab)
        die(EXIT_MISMATCH, "%s: tokenizer %s has %lld ids, the model %lld: gen pack it with the "
            "model's own, or gen %s model.vocab=%lld", path, f->t.tokenizer, (long long)f->t.vocab,
            (long long)d->vocab, model_words(m, "model.vocab"), (long long)f->t.vocab);
    error = tokenfile_check_sums(&f->t);
    error = error ? error : tokenfile_check_ids(&f->t, d->vocab);
    if (error)
        die(EXIT_DATA, "%s", error);
    f->n = d->rows ? f->t.ndocs : (f->t.part->n - 1) / d->T;
    for (int64_t k = 0; d->rows && k < f->n * d->nparts; k++) {
        const TokenPart *p = &f->t.part[k / f->n];
        int64_t i = k % f->n, length = p->doc[i + 1] - p->doc[i];
        if (length > d->T)
            die(EXIT_DATA, "%s: document %lld has %lld tokens%s%s, the model takes %lld: pack it again "
                "with gen pack --max-length %lld", path, (long long)i, (long long)length,
                d->nparts > 1 ? " in " : "", d->nparts > 1 ? p->name : "", (long long)d->T, (long long)d->T);
    }
    if (f->t.train) {
        d->divided = true;
        f->skip = d->eval ? f->t.train : 0;
        f->n = d->eval ? f->n - f->t.train : f->t.train;
    }
    d->n += f->n;
}

/* After all files are open: every row has something to learn from. */
static void check_targets(const Data *d)
{
    for (int64_t k = 0; k < d->n * d->nparts; k++) {
        Piece s = piece_at(d, k / d->nparts, (int)(k % d->nparts));
        if ((d->rows || s.mask) && (d->own_targets ? chosen(&s) : piece_targets(&s)) == 0)
            die(EXIT_DATA, "%s: %s %lld has no target%s%s: nothing to learn from it", s.file->path,
                d->rows ? "document" : "sample", (long long)s.index, d->parts ? " in " : "",
                d->parts ? s.part->name : "");
    }
}

/* n documents from `first` on become bins, behind those that are there; returns how many. */
static int64_t add_bins(Data *d, int64_t first, int64_t n)
{
    int32_t *length = malloc(sizeof *length * (size_t)n);
    if (!length)
        die(EXIT_INTERNAL, "out of memory for the lengths of %lld documents", (long long)n);
    for (int64_t i = 0; i < n; i++)
        length[i] = (int32_t)piece_at(d, first + i, 0).have;
    Bins more = bins_pack(length, n, d->T);
    const int64_t bins = more.n;
    bins_append(&d->bins, &more, first);
    free(length);
    return bins;
}

/* Documents become bins, which are the samples; of one source each. */
static void fill_bins(Data *d)
{
    if (!d->nsources)
        add_bins(d, 0, d->n);
    for (int k = 0; k < d->nsources; k++) {
        const int64_t first = d->bins.n, n = add_bins(d, d->source[k].first, d->source[k].n);
        d->source[k].first = first;
        d->source[k].n = n;
    }
    d->n = d->bins.n;
}

/* How often a sample may be in an epoch at most. */
static int64_t copies(const Data *d, int64_t i)
{
    for (int k = 0; k < d->nsources; k++) {
        const DataSource *s = &d->source[k];
        if (i >= s->first && i < s->first + s->n)        /* not from the beginning of a pass: two more are touched */
            return s->drawn ? s->drawn / s->n + 2 : 0;
    }
    return 1;
}

/* No micro-batch has more targets than go through the head: training takes samples in any order,
 * evaluation in that of the files. */
static void check_bound(const Data *d, const DataShape *of, const char *paths, const Model *m)
{
    const int64_t places = d->T * d->nparts;
    int64_t *samples = calloc((size_t)places + 1, sizeof *samples);  /* by number of targets */
    int64_t most = 0, batch = 0, all = 0;
    if (!samples)
        die(EXIT_INTERNAL, "out of memory for the count of targets");
    for (int64_t i = 0; i < d->n; i++) {
        int64_t n = sample_targets(d, i);
        if (of->takes)
            n = of->takes(n);
        samples[n] += d->eval ? 1 : copies(d, i);
        all += d->eval ? n : n * copies(d, i);
        batch = i % d->micro ? batch + n : n;
        most = d->eval && batch > most ? batch : most;
    }
    if (!d->eval) {                      /* those with most; all again where an epoch is less */
        most = d->micro / d->n * all;
        int64_t left = d->micro % d->n;
        for (int64_t n = places; left > 0; n--) {
            int64_t take = samples[n] < left ? samples[n] : left;
            most += take * n;
            left -= take;
        }
    }
    free(samples);
    if (most > d->targets)
        die(EXIT_DATA, "%s: a micro-batch of %lld samples may have %lld targets, this binary takes "
            "%lld: gen %s batch.targets=%lld%s", paths, (long long)d->micro, (long long)most,
            (long long)d->targets, model_words(m, "batch.targets"),
            (long long)(most < d->micro * places ? most : 0),
            most < d->micro * places ? "" : ": all tokens are targets");
}

/* How samples are divided, before there are any. */
static Data divided(const char *kind, int64_t T, const Model *m, int64_t micro, uint64_t seed, bool eval)
{
    int64_t accum = eval ? 1 : m->accum;
    micro = micro ? micro : m->micro;
    return (Data){ .eval = eval, .kind = kind, .nparts = 1, .T = T, .micro = micro, .accum = accum,
                   .ranks = m->ranks, .G = micro * accum * m->ranks, .seed = seed, .epoch = -1, .step = -1 };
}

enum { SHARES = sizeof((DataShape *)0)->split / sizeof(double), PARTS = SHARES + 1 };

/* How many of `all` are in each part, n (PARTS); returns the last part. */
static int shares(const DataShape *of, int64_t all, int64_t *n)
{
    int last = 0;
    int64_t left = all;
    for (; last < SHARES && of->split[last] > 0; last++)
        left -= n[last] = (int64_t)((double)all * of->split[last] + 1e-6);
    n[last] = left;              /* above, 1e-6: 0.29 * 100 is less than 29 */
    if (of->take < 0 || of->take > last || left < 0)
        die(EXIT_INTERNAL, "data: part %d of %d, shares of more than all", of->take, last + 1);
    return last;
}

static void add_span(Data *d, int file, int64_t skip, int64_t n)
{
    const DataSpan *before = d->nspans ? &d->span[d->nspans - 1] : NULL;
    d->span[d->nspans++] = (DataSpan){file, before ? before->first + before->n : 0, n, skip};
}

/* The order of all pieces: file by file; or of files that are divided each by itself part by part, the parts of
 * one file behind those of the one before. */
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

/* What is drawn of each file, of the samples that are trained on. */
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
            die(EXIT_DATA, "%s: no sample to train on, but a weight of %g: want more data, another share to validate "
                "on, or the weight 0", d->file[k].t.path, of->weight[k]);
    }
}

static void share_sources(Data *d)
{
    mixture_share(d->source, d->nsources, d->n);
    for (int k = 0; k < d->nsources; k++)
        if (!d->source[k].drawn && d->source[k].weight > 0)
            die(EXIT_DATA, "%s: its weight, %g, is less than one sample of the %lld of an epoch: "
                "want a larger one, or 0",
                d->file[k].t.path, d->source[k].weight, (long long)d->n);
}

/* The samples of d among all that the files have. */
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
        int64_t own[PARTS];
        shares(of, d->file[k].n, own);
        for (int i = 0; i <= last; i++)
            n[i] = (k ? n[i] : 0) + own[i];
    }
    char *counts = format("%lld", (long long)n[0]);
    for (int i = 1; i <= last; i++) {
        char *longer = format("%s%s%lld", counts, i < last ? ", " : " and ", (long long)n[i]);
        free(counts);
        counts = longer;
    }
    if (!n[of->take])
        die(EXIT_DATA, "%s: of %lld samples %s are to train and to validate on: want more data, or "
            "another share", paths, (long long)all, counts);
    free(counts);
    for (int i = 0; i < of->take; i++)
        d->base += n[i];
    d->n = n[of->take];
}

/* Epochs of whole steps want one. */
static void check_steps(const Data *d, const char *paths)
{
    if (data_steps_per_epoch(d) < 1)
        die(EXIT_DATA, "%s: %lld samples to train on, a step takes %lld: want more data, or a smaller "
            "batch", paths, (long long)d->n, (long long)d->G);
}

static void check_count(const Data *d, const char *paths)
{
    if (d->n > DATA_SAMPLES_MAX)
        die(EXIT_DATA, "%s: %lld samples, at most %d are supported", paths, (long long)d->n,
            DATA_SAMPLES_MAX);
}

static void start_order(Data *d)
{
    if (!d->eval)
        d->order = arena_alloc((int64_t)sizeof *d->order * d->n, "data order");
    if (d->nsources)
        d->list = arena_alloc((int64_t)sizeof *d->list * d->n, "samples of an epoch");
}

void data_open_own(Data *d, const char *kind, const char *path, int64_t n, int64_t T,
                   const Model *m, uint64_t seed, bool eval)
{
    *d = divided(kind, T, m, 0, seed, eval);
    d->n = n;
    if (n <= 0)
        die(EXIT_DATA, "%s: want samples, found none", path);
    check_count(d, path);
    start_order(d);
}

void data_open(Data *d, const char *paths, const Model *m, const DataShape *of, uint64_t seed,
               bool eval)
{
    *d = divided(of->kind, of->T, m, of->micro, seed, eval);
    d->rows = strcmp(of->kind, "packed") != 0;
    d->vocab = of->vocab, d->targets = of->targets, d->own_targets = of->own_targets;
    d->parts = of->parts, d->whole = of->whole;
    d->columns = of->columns;
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
        die(EXIT_CONFIG, "--%s: want token files, got \"%s\"", eval ? "eval-data" : "data", paths);
    const TokenFile *first = &d->file[0].t;
    const char *slash = strrchr(first->path, '/');
    d->folder = slash ? format("%.*s", (int)(slash - first->path) + (slash == first->path), first->path)
                      : format(".");
    d->tokenizer = strcmp(d->file[0].t.tokenizer, "none") ? d->file[0].t.tokenizer : NULL;
    d->ids = first->vocab, d->mask_id = first->mask_id, d->pad_id = first->pad_id;
    d->eos = first->eos;
    for (int k = 1; k < d->nfiles; k++) {
        const TokenFile *t = &d->file[k].t;
        data_check_same(d, t->tokenizer, t->path);
        if (t->vocab != d->ids || t->mask_id != d->mask_id || t->pad_id != d->pad_id)
            die(EXIT_MISMATCH, "%s and %s tell of %lld and %lld ids, mask_id %lld and %lld, pad_id "
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
    check_count(d, paths);
    check_steps(d, paths);
    check_targets(d);
    if (strcmp(d->kind, "bfd") == 0)
        fill_bins(d);
    if (d->nsources)
        share_sources(d);
    if (of->targets)
        check_bound(d, of, paths, m);
    start_order(d);
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
    const Data by = divided(d->kind, d->T, m, of->micro, d->seed, true);
    *view = *d;
    view->eval = true;
    view->micro = by.micro, view->accum = by.accum, view->G = by.G, view->epoch = by.epoch, view->step = by.step;
    view->order = NULL;
    view->base = first, view->n = n;
    if (view->bins.n)
        die(EXIT_INTERNAL, "data_view: samples of bfd have no order of their own");
    if (of->targets) {
        char *paths = data_paths(d);
        check_bound(view, of, paths, m);
        free(paths);
    }
}

int64_t data_eval_batches(const Data *d, const Model *m, int64_t steps)
{
    const int64_t all = data_steps_per_epoch(d);
    return steps > 0 && steps < (all + m->accum - 1) / m->accum ? steps * m->accum : all;
}

void data_check_tokenizer(const Data *d, const char *id, const char *file)
{
    const TokenFile *t = &d->file[0].t;
    if (!d->tokenizer || strcmp(id, d->tokenizer) == 0)
        return;
    char *length = t->max_length ? format("--max-length %lld ", (long long)t->max_length)
                                 : format("%s", "");
    die(EXIT_MISMATCH, "%s was made with tokenizer %s, %s is %s: make it again: gen pack "
        "--tokenizer %s %s-o %s FILE...", t->path, d->tokenizer, file, id, shell_word(file), length,
        shell_word(t->path));
}

void data_check_same(const Data *d, const char *id, const char *files)
{
    if (id && d->tokenizer && strcmp(id, d->tokenizer) != 0)
        die(EXIT_MISMATCH, "%s was made with tokenizer %s, %s with %s: gen pack them with the same "
            "--tokenizer", d->file[0].t.path, d->tokenizer, files, id);
}

/* Writes piece s from place t of a row on, where its document begins; returns where it ends. Its
 * file may be changed meanwhile: ids are looked at after they were copied. */
static int64_t write_piece(const Data *d, const Batch *to, const Piece *s, int64_t row, int64_t t)
{
    const int64_t end = t + s->have;
    int32_t *token = to->tokens + row + t, *label = to->labels + row + t;
    int32_t after = s->next ? s->token[s->have] : 0;
    memcpy(token, s->token, sizeof *token * (size_t)s->have);
    tokenfile_check_copy(s->file, s->part, d->vocab, s->begin, token, s->have);
    tokenfile_check_copy(s->file, s->part, d->vocab, s->begin + s->have, &after, s->next);
    memcpy(label, token + 1, sizeof *label * (size_t)(s->have - 1));
    label[s->have - 1] = s->next ? after : -1;
    for (int64_t k = 0; s->mask && k < s->have - 1 + s->next; k++)
        if (!s->mask[k + 1])
            label[k] = -1;
    for (int64_t k = 0; to->places && k < s->have; k++) {
        to->places[row + t + k] = (int32_t)k;
        to->ends[row + t + k] = (int32_t)end;
    }
    return end;
}

/* The places of a row from t on hold no token: a document of its own without targets. */
static void write_padding(const Batch *to, int32_t pad, int64_t row, int64_t t, int64_t T)
{
    for (int64_t k = t; k < T; k++) {
        to->tokens[row + k] = pad;
        to->labels[row + k] = -1;
    }
    for (int64_t k = t; to->places && k < T; k++) {
        to->places[row + k] = (int32_t)(k - t);
        to->ends[row + k] = (int32_t)T;
    }
}

void data_batch(Data *d, int64_t step, int64_t micro, Batch to)
{
    int64_t first = data_sample0(d, step, micro);
    if (d->parts)
        die(EXIT_INTERNAL, "data_batch: a sample of parts is no row");
    Batch all = to;                      /* a label for each place */
    if (to.target_of)
        all.labels = to.target_of;
    for (int64_t b = 0; b < d->micro; b++) {
        int64_t i = place(d, step, first + b), t = 0;
        for (int64_t k = 0; i >= 0 && k < pieces(d, i); k++) {
            Piece s = piece_of(d, i, k);
            if (t + s.have > d->T)       /* a bin of what was shorter */
                recordfile_changed(&s.file->records, s.part->offsets, s.index + 1);
            t = write_piece(d, &all, &s, b * d->T, t);
        }
        write_padding(&all, piece_of(d, i < 0 ? 0 : i, 0).pad, b * d->T, t, d->T);
    }
    if (to.target_of)
        data_gather(to.target_of, d->micro * d->T, to.target_rows, to.labels, d->targets);
}

/* A part of sample i; -1: none. */
static bool row_of(const Data *d, int64_t i, int part, DataRow *to)
{
    static _Thread_local struct {        /* of a file that may be changed meanwhile */
        int32_t *token;
        int64_t room;
    } copies[TOKENFILE_PARTS], *copy;
    if (i < 0)
        return false;
    if (d->bins.n || part < 0 || part >= d->nparts)
        die(EXIT_INTERNAL, "data_part: part %d of %d, %s", part, d->nparts, d->kind);
    Piece s = piece_at(d, i, part);
    copy = &copies[part];
    if (copy->room < d->T) {
        free(copy->token);
        copy->token = malloc(sizeof *copy->token * (size_t)(copy->room = d->T));
        if (!copy->token)
            die(EXIT_INTERNAL, "out of memory for a row of %lld tokens", (long long)d->T);
    }
    memcpy(copy->token, s.token, sizeof *s.token * (size_t)s.have);
    tokenfile_check_copy(s.file, s.part, d->vocab, s.begin, copy->token, s.have);
    *to = (DataRow){ .sample = i, .token = copy->token, .mask = s.mask, .n = s.have };
    return true;
}

void data_sample(const Data *d, int64_t sample, int part, DataRow *to)
{
    row_of(d, sample, part, to);
}

bool data_part(Data *d, int64_t step, int64_t micro, int64_t row, int part, DataRow *to)
{
    return row_of(d, place(d, step, data_sample0(d, step, micro) + row), part, to);
}

bool data_part_of_step(Data *d, int64_t step, int64_t at, int part, DataRow *to)
{
    return row_of(d, place(d, step, at), part, to);
}

bool data_row(Data *d, int64_t step, int64_t micro, int64_t row, DataRow *to)
{
    return data_part(d, step, micro, row, 0, to);
}

bool data_row_of_step(Data *d, int64_t step, int64_t at, DataRow *to)
{
    return data_part_of_step(d, step, at, 0, to);
}

const void *data_column(const Data *d, int column, int64_t sample, int64_t *n)
{
    int64_t record;
    const DataFile *f = &d->file[data_place(d, sample, &record)];
    return f->column[column] ? recordfile_at(&f->t.records, f->column[column], record, n) : NULL;
}

const char *data_path(const Data *d, int file)
{
    return d->file[file].t.path;
}

const char *data_meta(const Data *d, int file, const char *key)
{
    return st_meta(&d->file[file].t.records.st, key);
}

void data_gather(int32_t *of, int64_t n, int32_t *rows, int32_t *labels, int64_t most)
{
    int64_t targets = 0;
    for (int64_t i = 0; i < n; i++) {
        if (of[i] < 0)
            continue;
        if (targets == most)
            die(EXIT_DATA, "more than %lld targets in a micro-batch: a token file was changed "
                "while it was in use", (long long)most);
        rows[targets] = (int32_t)i;
        labels[targets] = of[i];
        of[i] = (int32_t)targets++;
    }
    for (; targets < most; targets++)
        rows[targets] = labels[targets] = -1;
}

int64_t data_targets(Data *d, int64_t step)
{
    int64_t n = 0;
    for (int64_t g = 0; g < d->G; g++) {
        int64_t i = place(d, step, g);
        n += i >= 0 ? sample_targets(d, i) : 0;
    }
    return n;
}

int64_t data_tokens(Data *d, int64_t step)
{
    int64_t n = 0;
    for (int64_t g = 0; g < d->G; g++) {
        int64_t i = place(d, step, g);
        n += i >= 0 ? sample_tokens(d, i) : 0;
    }
    return n;
}

void data_count(Data *d, int64_t step)
{
    for (int64_t g = 0; d->nsources && g < d->G; g++) {
        const int64_t i = place(d, step, g);
        for (int k = 0; k < d->nsources; k++)
            d->source[k].taken += i >= d->source[k].first && i < d->source[k].first + d->source[k].n;
    }
}

int64_t data_rows(const Data *d, int64_t step, int64_t micro)
{
    int64_t left = d->eval ? d->n - step * d->G - data_sample0(d, step, micro) : d->micro;
    return left < 0 ? 0 : left < d->micro ? left : d->micro;
}

static int32_t any_token(int64_t n, int64_t vocab)
{
    return (int32_t)((uint64_t)n * 2654435761u % (uint64_t)vocab);
}

void data_fill_any(int32_t *tokens, int32_t *target_of, int64_t rows, int64_t targets, int64_t vocab,
                   int64_t first)
{
    for (int64_t i = 0; i < rows; i++) {
        const bool target = (i + 1) * targets / rows > i * targets / rows;
        tokens[i] = any_token(first + i, vocab);
        target_of[i] = target ? any_token(first + i + 1, vocab) : -1;
    }
}

int64_t data_sample0(const Data *d, int64_t step, int64_t micro)
{
    (void)step;
    return (micro * d->ranks + world.rank) * d->micro;
}

void data_noise(uint32_t *key, uint64_t seed, int64_t step, int64_t sample0)
{
    key[0] = (uint32_t)seed;
    key[1] = (uint32_t)(seed >> 32);
    key[2] = (uint32_t)step;
    key[3] = (uint32_t)sample0;
}

int64_t data_steps_per_epoch(const Data *d)
{
    return d->whole && !d->eval ? d->n / d->G : (d->n + d->G - 1) / d->G;
}

char *data_fingerprint(const Data *d)
{
    char *text = format("%s T=%lld samples=%lld", d->kind, (long long)d->T, (long long)d->n);
    for (int k = 0; k < d->nsources; k++) {
        char *longer = format("%s%s%lld", text, k ? "," : " drawn=", (long long)d->source[k].drawn);
        free(text);
        text = longer;
    }
    if (d->tokenizer) {
        char *longer = format("%s tokenizer=%s", text, d->tokenizer);
        free(text);
        text = longer;
    }
    for (int k = 0; k < d->nfiles; k++) {
        const TokenFile *t = &d->file[k].t;
        char *longer = *t->fingerprint
            ? format("%s %s", text, t->fingerprint)
            : format("%s %s:%lld", text, t->sha256, (long long)t->part->n);
        free(text);
        text = longer;
    }
    return text;
}

char *data_fingerprint_tokenizer(const char *fingerprint)
{
    static const char key[] = " tokenizer=";
    const char *at = strstr(fingerprint, key);
    at = at ? at + sizeof key - 1 : "";
    return format("%.*s", (int)strcspn(at, " "), at);
}

int64_t data_samples(Data *d, int64_t step, int64_t *out, int64_t max)
{
    for (int64_t g = 0; g < d->G && g < max; g++)
        out[g] = place(d, step, g);
    return d->G;
}

void data_close(Data *d)
{
    for (int k = 0; k < d->nfiles; k++)
        tokenfile_close(&d->file[k].t);
    bins_free(&d->bins);
    free(d->file);
    free(d->span);
    free(d->source);
    free(d->folder);
    *d = (Data){ .epoch = -1 };
}
