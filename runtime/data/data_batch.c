/* data_batch.c -- tokens and labels of the samples of a step: as rows of a micro-batch, or as they
 * are in their files.
 *
 * Keeps: a file may be changed meanwhile; ids are looked at after they were copied.
 * Method: sample i of a packed file is tokens [i T, i T + T], of rows document i, of bfd the
 *         documents of bin i; where samples have parts, they have them apart. */
#include "runtime/data/data_parts.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

/* ---- pieces of samples ----------------------------------------------------------------------- */

int data_file_of(const Data *d, int64_t sample, int64_t *record)
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

DataPiece data_piece_at(const Data *d, int64_t i, int part)
{
    const DataFile *f = &d->file[data_file_of(d, i, &i)];
    const TokenPart *p = &f->t.part[part];
    int64_t begin = i * d->T, end = begin + d->T;
    if (d->rows) {
        begin = p->doc[i];
        end = p->doc[i + 1];
        if (begin < 0 || end <= begin || end > p->n || end - begin > d->T)
            recordfile_changed(&f->t.records, p->offsets, i + 1);
    }
    return (DataPiece){
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

/* Number of pieces of sample i: the documents of a bin, or the parts. */
static int64_t pieces(const Data *d, int64_t i)
{
    return d->bins.n ? d->bins.first[i + 1] - d->bins.first[i] : d->nparts;
}

/* Piece k of sample i. */
static DataPiece piece(const Data *d, int64_t i, int64_t k)
{
    return d->bins.n ? data_piece_at(d, d->bins.doc[d->bins.first[i] + k], 0)
                     : data_piece_at(d, i, (int)k);
}

int64_t data_piece_targets(const DataPiece *s)
{
    int64_t last = s->have + s->next - 1, n = 0;     /* labels 0 .. last-1 exist */
    if (!s->mask)
        return last;
    for (int64_t t = 0; t < last; t++)
        n += s->mask[t + 1] != 0;
    return n;
}

int64_t data_piece_choices(const DataPiece *s)
{
    int64_t n = 0;
    for (int64_t t = 0; s->mask && t < s->have; t++)
        n += s->mask[t] != 0;
    return s->mask ? n : s->have;
}

int64_t data_sample_targets(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < pieces(d, i); k++) {
        DataPiece s = piece(d, i, k);
        n += d->finds_targets ? data_piece_choices(&s) : data_piece_targets(&s);
    }
    return n;
}

static int64_t sample_tokens(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < pieces(d, i); k++)
        n += piece(d, i, k).have;
    return n;
}

/* Returns the sum of `count` over the samples of a step; padding rows (-1) count nothing. */
static int64_t sum_of_step(Data *d, int64_t step, int64_t (*count)(const Data *d, int64_t i))
{
    int64_t n = 0;
    for (int64_t g = 0; g < d->G; g++) {
        const int64_t i = data_sample_at(d, step, g);
        n += i >= 0 ? count(d, i) : 0;
    }
    return n;
}

int64_t data_targets(Data *d, int64_t step) { return sum_of_step(d, step, data_sample_targets); }

int64_t data_tokens(Data *d, int64_t step) { return sum_of_step(d, step, sample_tokens); }

/* ---- batches --------------------------------------------------------------------------------- */

/* Writes piece s from position t of a row on, where its document begins; returns its end. Its file
 * may be changed meanwhile, so the copied ids are checked. */
static int64_t write_piece(const Data *d, const Batch *to, const DataPiece *s, int64_t row,
                           int64_t t)
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
    for (int64_t k = 0; to->positions && k < s->have; k++) {
        to->positions[row + t + k] = (int32_t)k;
        to->doc_ends[row + t + k] = (int32_t)end;
    }
    return end;
}

/* Pads a row from position t on: a document of its own without targets. */
static void write_padding(const Batch *to, int32_t pad, int64_t row, int64_t t, int64_t T)
{
    for (int64_t k = t; k < T; k++) {
        to->tokens[row + k] = pad;
        to->labels[row + k] = -1;
    }
    for (int64_t k = t; to->positions && k < T; k++) {
        to->positions[row + k] = (int32_t)(k - t);
        to->doc_ends[row + k] = (int32_t)T;
    }
}

void data_batch(Data *d, int64_t step, int64_t micro, Batch to)
{
    int64_t first = data_sample0(d, step, micro);
    if (d->parts)
        die(EXIT_INTERNAL, "data_batch: a sample with parts is not a row");
    Batch all = to;                      /* a label for each position */
    if (to.target_of)
        all.labels = to.target_of;
    for (int64_t b = 0; b < d->micro; b++) {
        int64_t i = data_sample_at(d, step, first + b), t = 0;
        for (int64_t k = 0; i >= 0 && k < pieces(d, i); k++) {
            DataPiece s = piece(d, i, k);
            if (t + s.have > d->T)       /* a document has grown since its bin was packed */
                recordfile_changed(&s.file->records, s.part->offsets, s.index + 1);
            t = write_piece(d, &all, &s, b * d->T, t);
        }
        write_padding(&all, piece(d, i < 0 ? 0 : i, 0).pad, b * d->T, t, d->T);
    }
    if (to.target_of)
        data_gather(to.target_of, d->micro * d->T, to.target_rows, to.labels, d->targets);
}

/* Copies a part of sample i; false if i is -1. */
static bool row_of(const Data *d, int64_t i, int64_t repeat, int part, DataRow *to)
{
    static _Thread_local struct {        /* a copy: the file may be changed meanwhile */
        int32_t *token;
        int64_t room;
    } copies[TOKENFILE_PARTS], *copy;
    if (i < 0)
        return false;
    if (d->bins.n || part < 0 || part >= d->nparts)
        die(EXIT_INTERNAL, "data_part: part %d of %d, %s", part, d->nparts, d->kind);
    DataPiece s = data_piece_at(d, i, part);
    copy = &copies[part];
    if (copy->room < d->T) {
        free(copy->token);
        copy->token = malloc(sizeof *copy->token * (size_t)(copy->room = d->T));
        if (!copy->token)
            die(EXIT_INTERNAL, "out of memory for a row of %lld tokens", (long long)d->T);
    }
    memcpy(copy->token, s.token, sizeof *s.token * (size_t)s.have);
    tokenfile_check_copy(s.file, s.part, d->vocab, s.begin, copy->token, s.have);
    *to = (DataRow){.sample = i, .repeat = repeat, .token = copy->token, .mask = s.mask,
                    .n = s.have};
    return true;
}

void data_sample(const Data *d, int64_t sample, int part, DataRow *to)
{
    row_of(d, sample, 0, part, to);
}

bool data_part(Data *d, int64_t step, int64_t micro, int64_t row, int part, DataRow *to)
{
    return data_part_of_step(d, step, data_sample0(d, step, micro) + row, part, to);
}

bool data_part_of_step(Data *d, int64_t step, int64_t at, int part, DataRow *to)
{
    return row_of(d, data_sample_at(d, step, at), data_repeat_at(d, step, at), part, to);
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
    const DataFile *f = &d->file[data_file_of(d, sample, &record)];
    return f->column[column] ? recordfile_at(&f->t.records, f->column[column], record, n) : NULL;
}

void data_gather(int32_t *of, int64_t n, int32_t *rows, int32_t *labels, int64_t most)
{
    int64_t targets = 0;
    for (int64_t i = 0; i < n; i++) {
        if (of[i] < 0)
            continue;
        if (targets == most)
            die(EXIT_DATA, "more than %lld targets in a micro-batch: a token file was changed "
                "while in use", (long long)most);
        rows[targets] = (int32_t)i;
        labels[targets] = of[i];
        of[i] = (int32_t)targets++;
    }
    for (; targets < most; targets++)
        rows[targets] = labels[targets] = -1;
}

static int32_t any_token(int64_t n, int64_t vocab)
{
    return (int32_t)((uint64_t)n * 2654435761u % (uint64_t)vocab);
}

void data_fill_any(int32_t *tokens, int32_t *target_of, int64_t rows, int64_t targets,
                   int64_t vocab, int64_t first)
{
    for (int64_t i = 0; i < rows; i++) {
        const bool target = (i + 1) * targets / rows > i * targets / rows;
        tokens[i] = any_token(first + i, vocab);
        target_of[i] = target ? any_token(first + i + 1, vocab) : -1;
    }
}
