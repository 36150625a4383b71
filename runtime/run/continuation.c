/* continuation.c -- token after token.
 *
 * In:    logits, one token at a time.  Out: tokens, text. */
#include "runtime/run/continuation.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/sample.h"
#include "runtime/data/vocabulary.h"

Sampling continuation_sampling(const Flags *f)
{
    if (f->greedy && f->given[FLAG_temperature] && f->temperature > 0)
        die(EXIT_CONFIG, "--greedy takes the likeliest token, --temperature %g draws one: give one "
            "of them", f->temperature);
    if (f->greedy && f->given[FLAG_top_p] && f->top_p < 1)
        die(EXIT_CONFIG, "--greedy takes the likeliest token, --top-p %g draws one of several: give "
            "one of them", f->top_p);
    return (Sampling){.temperature = f->greedy ? 0 : f->temperature, .top_p = f->top_p,
                      .seed = (uint64_t)f->seed, .most = f->max_new_tokens};
}

static void *room(int64_t n, size_t size)
{
    void *p = malloc((size_t)(n + 1) * size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for a text of %lld tokens", (long long)n);
    return p;
}

int64_t continuation(const Decoder *d, const Sampling *s, const Tokenizer *t, const int32_t *text,
                     int64_t n, int32_t *more, bool *ended)
{
    float *work = room(d->vocab, sizeof *work);
    int32_t *heap = room(d->vocab, sizeof *heap);
    int64_t count = 0;
    *ended = false;
    for (int64_t place = 0; place + 1 < n + s->most && place + 1 < d->places; place++) {
        int32_t token = place < n ? text[place] : more[place - n];
        if (token < 0 || token >= d->vocab)
            die(EXIT_MISMATCH, "token %d of a text is beyond the model's %lld", token,
                (long long)d->vocab);
        const float *logits = d->logits(token, place);
        if (place + 1 < n)
            continue;
        int32_t next = sample_token(logits, d->vocab, s->temperature, s->top_p, s->seed, place,
                                    work, heap);
        if ((*ended = tokenizer_ends(t, next)))
            break;
        more[count++] = next;
    }
    free(work), free(heap);
    return count;
}

int continuation_print(const Decoder *d, const Flags *f, const char *const folder[], int nfolders)
{
    Sampling s = continuation_sampling(f);
    Tokenizer *t = vocabulary_load("--sample", f->tokenizer, folder, nfolders, d->vocab);
    int32_t *ids;
    size_t n, bytes;
    bool ended;
    char *error = tokenizer_encode(t, f->sample, strlen(f->sample), true, &ids, &n);
    if (error)
        die(EXIT_CONFIG, "--sample: %s", error);
    if (n == 0 || (int64_t)n >= d->places)
        die(EXIT_CONFIG, "--sample: the text is %zu tokens; want 1 to %lld", n,
            (long long)d->places - 1);
    if (s.most > d->places - (int64_t)n)
        s.most = d->places - (int64_t)n;
    int32_t *all = room((int64_t)n + s.most, sizeof *all);
    memcpy(all, ids, n * sizeof *ids);
    n += (size_t)continuation(d, &s, t, ids, (int64_t)n, all + n, &ended);
    char *out = tokenizer_decode(t, all, n, true, &bytes);
    if (world.rank == 0) {
        fwrite(out, 1, bytes, stdout);
        putchar('\n');
    }
    free(out), free(ids), free(all);
    tokenizer_free(t);
    return EXIT_OK;
}
