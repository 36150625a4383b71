/* unit_masked_batch.c -- what a step makes of rows that hide tokens, by hand: weights, divisors, all norms; rows of
 * tests/train/ref/mdm_llada and mdm_sft, whose runs are compared with PyTorch's elsewhere. */
#include "unit.h"
#include "../../runtime/data/masked_batch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { T = 32, ROWS = 4, MOST = ROWS * T, V = 205, DRAWS = 64 };

static int32_t tokens[MOST], of[MOST], at[MOST], labels[MOST], lengths[ROWS];
static float weights[MOST];
static MaskedRow row[ROWS];
static const Model model = {.recipe = "x.lua", .overrides = "", .micro = ROWS, .accum = 1, .ranks = 1};

static Batch batch_at(int64_t micro)
{
    (void)micro;
    return (Batch){.tokens = tokens, .target_of = of, .target_rows = at, .labels = labels,
                   .weights = weights, .lengths = lengths};
}

static MaskedBatch opened(Data *d, const char *file, MaskedNorm norm, MaskedMode mode, bool eval)
{
    const DataShape shape = {.kind = "rows", .T = T, .vocab = V, .finds_targets = true};
    MaskedBatch h = {.model = &model, .T = T, .vocab = V, .most = MOST, .at = batch_at, .row = row,
                .norm = norm, .mode = mode,
                .rule = {.select = MASK_random, .mask = -1, .seed = 5, .draws = DRAWS}};
    data_open(d, file, &model, &shape, 5, eval);
    masked_suit(&h, d, file);
    return h;
}

/* The loss of a batch where each hidden token loses 1. */
static double loss(const MaskedBatch *h, const MaskedCounts *c)
{
    double sum = 0;
    for (int64_t i = 0; i < h->most; i++)
        sum += labels[i] >= 0 ? weights[i] : 0;
    int64_t by = masked_divisor(h, c);
    return by ? sum / (double)by : sum;
}

/* So many of all tokens: over the row it is 1, whatever the share; over the hidden tokens 1 / share; all
 * of them: each counts 1 / n. */
static void norms(void)
{
    static const char *const file = "tests/train/ref/mdm_llada/eval.safetensors";
    bool seq = true, over = true, whole = true;
    int64_t halves = 0, wholes = 0;
    Data d;
    for (MaskedNorm norm = MASKED_masked; norm <= MASKED_seq; norm++) {
        MaskedBatch h = opened(&d, file, norm, MASKED_pretrain, true);
        h.rule.select = MASK_spread;
        for (int64_t i = 0; i < d.n; i++)
            for (h.draw = 0; h.draw < DRAWS; h.draw += ROWS) {
                MaskedCounts c = masked_fill_draws(&h, &d, i, 1);
                double n = (double)c.may, k = (double)c.targets;
                seq &= norm == MASKED_masked || fabs(loss(&h, &c) - 1) < 1e-6;
                for (int b = 0; b < ROWS; b++) {
                    double share = (double)row[b].has.targets / (double)row[b].has.may;
                    halves += share == 0.5, wholes += share == 1;
                    over &= row[b].share == share;
                    whole &= share < 1 || norm != MASKED_seq || c.targets != c.may ||
                             weights[0] == (float)(1 / (double)row[b].has.may);
                }
                over &= norm != MASKED_masked || fabs(loss(&h, &c) - ROWS * n / ROWS / k) < 1e-5;
            }
    }
    check(seq, "hidden.norms", "losses of 1 are not 1");
    check(over && halves > 0, "hidden.over hidden tokens", "not 1 / share; %lld halves", (long long)halves);
    check(whole && wholes > 0, "hidden.all", "not 1 / n; %lld whole", (long long)wholes);
}

/* E 1/p = ln 1000 / 0.999 = 6.91467; a loss over the hidden tokens is so many times that of a row. */
static void means(void)
{
    enum { MANY = 400000 };
    const MaskRule r = {.select = MASK_random, .seed = 3};
    double sum = 0;
    for (int64_t i = 0; i < MANY; i++)
        sum += 1 / mask_share(&r, &(MaskSample){.stream = MASK_TRAIN, .sample = i, .n = 1}, 1);
    /* 1/p has the mean of squares (1000 - 1) / 0.999 */
    check(fabs(sum / MANY - 6.91467) < 6 * sqrt((1000 - 6.91467 * 6.91467) / MANY), "hidden.mean of 1 / p",
          "%g", sum / MANY);
}

/* Answers of a micro-batch become equally long, as far as there is room; nothing hidden: no loss. */
static void answers(void)
{
    Data d;
    MaskedBatch h = opened(&d, "tests/train/ref/mdm_sft/tokens.safetensors", MASKED_tokens, MASKED_sft, false);
    bool even = true, ends = true;
    for (int64_t s = 0; s < d.n / ROWS; s++) {
        int64_t most = 0;
        masked_fill(&h, &d, s, 0);
        for (int b = 0; b < ROWS; b++)
            most = row[b].has.may > most ? row[b].has.may : most;
        for (int b = 0; b < ROWS; b++) {
            int64_t n = row[b].has.tokens;
            int32_t k = of[b * T + n - 1];
            even &= lengths[b] == n && (row[b].has.may == most || n == T);
            ends &= k < 0 ? tokens[b * T + n - 1] == h.end : labels[k] == h.end;
        }
    }
    check(even, "hidden.answers", "not equally long, with room after them");
    check(ends, "hidden.ends", "an answer does not end with its token");
    check(masked_divisor(&h, &(MaskedCounts){0}) == 0 && loss(&(MaskedBatch){0}, &(MaskedCounts){0}) == 0,
          "hidden.none", "nothing loses something");
}

/* In validations a row depends on its own tokens alone, not on its neighbours in the micro-batch. */
static void held_answers(void)
{
    Data d;
    MaskedBatch h = opened(&d, "tests/train/ref/mdm_sft/eval.safetensors", MASKED_tokens, MASKED_sft, true);
    bool alone = true;
    for (int64_t i = 0; i < d.n; i++) {
        DataRow own;
        data_sample(&d, i, 0, &own);
        if (i % ROWS == 0)
            masked_fill(&h, &d, i / ROWS, 0);
        alone &= row[i % ROWS].has.tokens == own.n && lengths[i % ROWS] == own.n;
    }
    check(alone, "hidden.answers alone", "a row is longer than its sample");
}

void test_masked_batch(void)
{
    norms();
    means();
    answers();
    held_answers();
}
