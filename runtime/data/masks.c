/* masks.c -- draws by counter: a token's words are those of (place, sample, epoch) under the seed.
 *
 * Method: word 0 chooses, word 1 says what stands there, words 2 and 3 which random id. Of n tokens
 *         the k with the least word 0 are a choice without replacement; of equal words the first. */
#include "runtime/data/masks.h"

#include <stdbool.h>
#include <stdlib.h>

#include "kernels/cpu/philox.h"

/* A token that may be chosen. */
typedef struct {
    uint32_t word, place;
} Drawn;

static void draw(const MaskRule *r, const MaskSample *s, int64_t place, uint32_t word[4])
{
    const uint32_t counter[4] = {(uint32_t)place, (uint32_t)s->sample,
                                 (uint32_t)((uint64_t)s->sample >> 32), (uint32_t)s->epoch},
                   key[2] = {(uint32_t)r->seed ^ (uint32_t)s->stream * 0x9E3779B9u,
                             (uint32_t)(r->seed >> 32)};
    philox(counter, key, word);
}

/* Of 2^32 words how many are below a probability. */
static uint64_t below(double p)
{
    return (uint64_t)(p * 4294967296.0);
}

static bool may_choose(const MaskSample *s, int64_t i)
{
    return !s->may || s->may[i];
}

int64_t masks_exactly(const MaskRule *r, int64_t may)
{
    int64_t k = (int64_t)(r->share * (double)may);
    return may == 0 ? 0 : k < 1 ? 1 : k;
}

int64_t masks_work(int64_t n)
{
    return n * (int64_t)sizeof(Drawn);
}

int64_t masks_count(const MaskRule *r, const MaskSample *s)
{
    int64_t n = 0;
    uint32_t word[4];
    for (int64_t i = 0; i < s->n; i++) {
        if (!may_choose(s, i))
            continue;
        if (r->select == MASKS_independent)
            draw(r, s, i, word);
        n += r->select == MASKS_exact || word[0] < below(r->share);
    }
    return r->select == MASKS_exact ? masks_exactly(r, n) : n;
}

static int by_word(const void *a, const void *b)
{
    const Drawn *x = a, *y = b;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word)
                              : (x->place > y->place) - (x->place < y->place);
}

/* The mask, a random id or the token itself: 80, 10 and 10 of 100. */
static int32_t seen(const MaskRule *r, const uint32_t word[4], int32_t token)
{
    if (word[1] < below(0.8))
        return r->mask;
    uint64_t any = (uint64_t)word[2] << 32 | word[3];
    return word[1] < below(0.9) ? (int32_t)(any % (uint64_t)r->ids) : token;
}

int64_t masks_draw(const MaskRule *r, const MaskSample *s, int32_t *input, int32_t *label,
                   void *work)
{
    Drawn *drawn = work;
    uint32_t word[4];
    int64_t may = 0, n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        input[i] = s->token[i];
        label[i] = -1;
        if (!may_choose(s, i))
            continue;
        draw(r, s, i, word);
        if (r->select == MASKS_exact || word[0] < below(r->share))
            drawn[may++] = (Drawn){word[0], (uint32_t)i};
    }
    n = may;
    if (r->select == MASKS_exact) {
        qsort(drawn, (size_t)may, sizeof *drawn, by_word);
        n = masks_exactly(r, may);
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t i = drawn[k].place;
        draw(r, s, i, word);
        label[i] = s->token[i];
        input[i] = seen(r, word, s->token[i]);
    }
    return n;
}
