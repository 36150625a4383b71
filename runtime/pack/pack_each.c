/* pack_each.c -- hands each row of raw data to a callback; writes nothing. */
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"

#include <stdlib.h>

static void each_row(Work *w, const Chunk *from, Encoded *e,
                     void (*each)(void *user, const PackedRow *row), void *user)
{
    for (int i = 0, next = 0, bad = 0;; i++) {
        pack_skip(&w->pack, &w->rules, e, i, &bad, from->file);
        if (i == e->nrows || w->pack.error.text)
            return;
        const RowOut *row = &e->row[i];
        char *error = pack_kind(&w->pack, row);
        if (error) {
            pack_fail(&w->pack, EXIT_DATA, (Location){from->place.file, row->line}, error);
            return;
        }
        pack_keys(&w->pack, e, i, from->place.file, &next);
        const size_t most = (size_t)w->rules.max_length, n = row->n < most ? row->n : most;
        char *name = row->records && row->records->name ? row->records->name(&w->pack, row) : NULL;
        each(user, &(PackedRow){.at = {from->place.file, row->line},
                                .id = n ? e->id + row->begin : NULL,
                                .target = n ? e->target + row->begin : NULL,
                                .n = n,
                                .row = row,
                                .name = name});
        free(name);
    }
}

PackError pack_each(const PackOptions *o, void (*each)(void *user, const PackedRow *row),
                    void *user)
{
    Work w = work_begin(o);
    Reader *r = NULL;
    int next = 0;
    int64_t before = 0;
    Chunk *chunk;
    if (!w.pack.error.text && (w.prepared || !w.tok))
        pack_fail(&w.pack, EXIT_CONFIG, (Location){0},
                  format("needs JSON rows, and an existing tokenizer"));
    if (!w.pack.error.text)
        input_check(&w);
    while (!w.pack.error.text && (chunk = input_next(&w, &r, &next, &before))) {
        Encoded e = {0};
        rows_encode(&w.rules, w.tok, chunk, &e);
        each_row(&w, chunk, &e, each, user);
        each(user, NULL);
        if (e.error && !w.pack.error.text)
            pack_fail(&w.pack, EXIT_DATA, e.error_at, e.error), e.error = NULL;
        encoded_free(&e);
        chunk_free(chunk);
    }
    if (r)
        reader_close(r);
    work_check_keys(&w);
    if (!w.pack.error.text)
        report_skipped(&w, stderr);
    return work_end(&w);
}
