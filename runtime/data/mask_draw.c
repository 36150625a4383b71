/* mask_draw.c -- random words by counter, (position, sample, epoch), under the seed.
 *
 * Method: word 0 chooses a token, word 1 its replacement, words 2 and 3 the random id. The k of n
 *         tokens with the smallest word 0 are a choice without replacement; of equal words the
 *         first. Draws per row or per step use a position that no token has. */
#include "runtime/data/mask_draw.h"

#include <stdbool.h>
#include <stdlib.h>

#include "runtime/philox.h"

/* A token that may be chosen. */
typedef struct {
    uint32_t word, position;
} Drawn;

static void draw(const MaskRule *r, const MaskSample *s, int64_t position, uint32_t word[4])
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)s->sample,
                                 (uint32_t)((uint64_t)s->sample >> 32) + (uint32_t)s->repeat,
                                 (uint32_t)s->epoch},
                   key[2] = {(uint32_t)r->seed ^ (uint32_t)s->stream * 0x9E3779B9u,
                             (uint32_t)(r->seed >> 32)};
    philox(counter, key, word);
}

/* Returns how many of the 2^32 words mean an event of probability p. */
static uint64_t below(double p)
{
    return (uint64_t)(p * 4294967296.0);
}

static bool may_choose(const MaskSample *s, int64_t i)
{
    return i >= s->n || !s->may || s->may[i];
}

static int32_t token_at(const MaskSample *s, int64_t i)
{
    return i < s->n ? s->token[i] : s->fill;
}

int64_t mask_may(const MaskSample *s)
{
    int64_t n = s->may ? 0 : s->n;
    for (int64_t i = 0; s->may && i < s->n; i++)
        n += s->may[i] != 0;
    return n + s->more;
}

/* Draws words for a whole row or step. */
static void draw_once(const MaskRule *r, const MaskSample *s, uint32_t word[4])
{
    draw(r, s, UINT32_MAX, word);
}

static uint64_t long_word(const uint32_t word[4])
{
    return (uint64_t)word[2] << 32 | word[3];
}

int64_t mask_length(const MaskRule *r, int64_t step, int64_t most)
{
    uint32_t word[4];
    if (r->shorter <= 0)
        return most;
    draw_once(r, &(MaskSample){.stream = MASK_LENGTHS, .sample = step}, word);
    return word[0] < below(r->shorter) ? 1 + (int64_t)(long_word(word) % (uint64_t)most) : most;
}

/* Returns the probability with which each token of the row is masked. */
static double probability(const MaskRule *r, const MaskSample *s)
{
    enum { LEAST = 1000 };       /* e = 1 / LEAST: p is in [e, 1) */
    uint32_t word[4];
    if (r->select != MASK_random)
        return r->share;
    draw_once(r, s, word);
    return (1 - 1.0 / LEAST) * (word[0] / 4294967296.0) + 1.0 / LEAST;
}

/* Draw 0 takes a random number from 1 to may; each draw after it adds may / draws, modulo may. */
static int64_t spread(const MaskRule *r, const MaskSample *s, int64_t may)
{
    MaskSample first = *s;
    uint32_t word[4];
    first.epoch = 0;
    draw_once(r, &first, word);
    uint64_t n = (uint64_t)may, step = (uint64_t)s->epoch * n / (uint64_t)r->draws;
    return 1 + (int64_t)((long_word(word) % n + step) % n);
}

int64_t mask_exactly(const MaskRule *r, int64_t may)
{
    int64_t k = (int64_t)(r->share * (double)may);
    return may == 0 ? 0 : k < 1 ? 1 : k;
}

int64_t mask_work(int64_t n)
{
    return n * (int64_t)sizeof(Drawn);
}

/* True if the number of chosen tokens is fixed before the draw: without replacement. */
static bool counted(const MaskRule *r)
{
    return r->select == MASK_exact || r->select == MASK_spread;
}

/* Returns that number. */
static int64_t number(const MaskRule *r, const MaskSample *s, int64_t may)
{
    return r->select == MASK_exact ? mask_exactly(r, may) : may ? spread(r, s, may) : 0;
}

double mask_share(const MaskRule *r, const MaskSample *s, int64_t may)
{
    return counted(r) ? (double)number(r, s, may) / (double)may : probability(r, s);
}

int64_t mask_count(const MaskRule *r, const MaskSample *s)
{
    int64_t n = 0;
    uint32_t word[4];
    if (counted(r))
        return number(r, s, mask_may(s));
    const uint64_t least = below(probability(r, s));
    for (int64_t i = 0; i < s->n + s->more; i++) {
        if (!may_choose(s, i))
            continue;
        draw(r, s, i, word);
        n += word[0] < least;
    }
    return n;
}

static int by_word(const void *a, const void *b)
{
    const Drawn *x = a, *y = b;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word)
                              : (x->position > y->position) - (x->position < y->position);
}

/* Returns the mask (80 %), a random id (10 %) or the token itself (10 %). */
static int32_t mixed(const MaskRule *r, const uint32_t word[4], int32_t token)
{
    if (word[1] < below(0.8))
        return r->mask;
    return word[1] < below(0.9) ? (int32_t)(long_word(word) % (uint64_t)r->ids) : token;
}

int64_t mask_draw(const MaskRule *r, const MaskSample *s, int32_t *input, int32_t *label,
                   void *work)
{
    const bool mixes = r->select == MASK_exact || r->select == MASK_independent;
    const uint64_t least = counted(r) ? below(1) : below(probability(r, s));
    Drawn *drawn = work;
    uint32_t word[4];
    int64_t n = 0;
    for (int64_t i = 0; i < s->n + s->more; i++) {
        input[i] = token_at(s, i);
        label[i] = -1;
        if (!may_choose(s, i))
            continue;
        draw(r, s, i, word);
        if (word[0] < least)
            drawn[n++] = (Drawn){word[0], (uint32_t)i};
    }
    if (counted(r)) {
        qsort(drawn, (size_t)n, sizeof *drawn, by_word);
        n = number(r, s, n);
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t i = drawn[k].position;
        label[i] = input[i];
        if (!mixes) {
            input[i] = r->mask;
            continue;
        }
        draw(r, s, i, word);
        input[i] = mixed(r, word, label[i]);
    }
    return n;
}
