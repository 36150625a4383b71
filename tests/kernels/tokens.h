/* tokens.h -- rows of tokens of darkroom, losses of choices: what they come to, for the tests of every target
 * (C and C++).
 *
 * In:    the references in double; a code is told apart by trying all that there is. */
#ifndef DIECAST_TESTS_KERNELS_TOKENS_H
#define DIECAST_TESTS_KERNELS_TOKENS_H

#include <stdint.h>

#include "../../kernels/reference/action_type.h"
#include "../../kernels/reference/transitions.h"

enum { TOKENS = 4943, TOKENS_PARAMETERS = 10 + 1 + 81 + 2 + 3 };     /* of a column */

/* What a code says: of transitions next is found by the rules, by counting up. start: of the environment. */
static inline void tokens_spell(Spelled *all, int start)
{
    int code = 0;
    for (int state = 0; state < 81; state++)
        for (int action = 0; action < 5; action++)
            for (int reward = 0; reward < 2; reward++)
                for (int move = 0; move < 6; move++, code++) {
                    const int down[6] = { 1, -1, 0, 0, 0, 0 }, right[6] = { 0, 0, 1, -1, 0, 0 };
                    int r = state / 9 + down[move], c = state % 9 + right[move];
                    r = r < 0 ? 0 : r > 8 ? 8 : r, c = c < 0 ? 0 : c > 8 ? 8 : c;
                    const Spelled s = { 0, state, action, reward, move == 5 ? start : 9 * r + c };
                    all[code] = s;
                }
    for (int state = 0; state < 81; state++, code++) {
        const Spelled s = { 1, state, 0, 0, 0 };
        all[code] = s;
    }
    for (int mark = 2; mark < 4; mark++, code++) {
        const Spelled s = { mark, 0, 0, 0, 0 };
        all[code] = s;
    }
}

typedef struct {
    const double *x;             /* parameters */
    double sum, *grad, d;        /* grad: of a row's element that counts d */
} TokensSum;

static inline void tokens_add(void *user, int64_t parameter, double times)
{
    TokensSum *s = (TokensSum *)user;
    if (s->grad)
        s->grad[parameter] += times * s->d;
    else
        s->sum += times * s->x[parameter];
}

/* table (TOKENS, C) of parameters x, one after the other. */
static inline void tokens_table(double *table, const double *x, const Spelled *all, int typed, int64_t C)
{
    for (int64_t i = 0; i < TOKENS * C; i++) {
        TokensSum s = { x, 0, NULL, 0 };
        transition_each_ref(&all[i / C], typed, C, i % C, tokens_add, &s);
        table[i] = s.sum;
    }
}

/* grad (TOKENS_PARAMETERS * C): of dtable (TOKENS, C); beta: what is there counts. */
static inline void tokens_gradient(double *grad, const double *dtable, const Spelled *all, int typed, int64_t C,
                                   int beta)
{
    for (int64_t i = 0; i < TOKENS_PARAMETERS * C && !beta; i++)
        grad[i] = 0;
    for (int64_t i = 0; i < TOKENS * C; i++) {
        TokensSum s = { NULL, 0, grad, dtable[i] };
        transition_each_ref(&all[i / C], typed, C, i % C, tokens_add, &s);
    }
}

/* Of n rows of O logits, 5 of actions and the others of types: sums [4] as `stats`, and dz (n, O) by differences. */
static inline void choices_ref(double *sums, double *dz, const double *z, const int32_t *labels, const int32_t *kinds,
                               double scale, double type_scale, int64_t n, int O)
{
    const double h = 1e-5;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            const int first = k ? 5 : 0, size = k ? O - 5 : 5, label = !k ? labels[i] : kinds ? kinds[i] : -1;
            double row[5];
            int above = 0;
            for (int c = 0; c < size; c++)
                row[c] = z[i * O + first + c], dz[i * O + first + c] = 0;
            if (label < 0)
                continue;
            for (int c = 0; c < size; c++)
                above += row[c] > row[label];
            sums[2 * k] += action_type_ref(row, size, label);
            sums[2 * k + 1] += !above;
            for (int c = 0; c < size; c++) {
                const double was = row[c];
                row[c] = was + h;
                const double up = action_type_ref(row, size, label);
                row[c] = was - h;
                dz[i * O + first + c] = (up - action_type_ref(row, size, label)) / (2 * h) * (k ? type_scale : scale);
                row[c] = was;
            }
        }
}

#endif
