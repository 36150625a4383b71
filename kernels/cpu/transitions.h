/* transitions.h -- darkroom token embeddings, computed from the parts of a transition, and
 * their gradient.
 *
 * In:    w (C, 10), b (C), states (81, C); marks (2, C) and types (3, C), or NULL; start:
 *        start state of the environment.
 * Out:   table (DARKROOM_CODES, C): for a transition's code w f + b, with f its numbers of
 *        runtime/darkroom.h; for a query its state's row; both + types[0]; for marks marks[k]
 *        + types[1 + k], without marks 0.
 * Keeps: in fp32, rounded once; a gradient element adds codes in order, for any number of
 *        threads. */
#ifndef DIECAST_KERNELS_TRANSITIONS_H
#define DIECAST_KERNELS_TRANSITIONS_H

#include "../../runtime/darkroom.h"
#include "types.h"

enum { TRANSITION_COLUMNS = 16 };        /* columns per pass */

/* Rows of a state's transitions, n columns; weight (10, 16), bias: b + types[0]. */
static inline void transition_rows_(act_t *row, const float (*w)[TRANSITION_COLUMNS],
                                    const float *bias, int start, int state, int64_t n, int64_t C)
{
    enum { EACH = DARKROOM_TRANSITIONS / DARKROOM_STATES, NEXT = DARKROOM_NO_MOVE + 1 };
    float base[TRANSITION_COLUMNS], sum[TRANSITION_COLUMNS];
    for (int code = state * EACH; code < (state + 1) * EACH; code++, row += C) {
        const int next = darkroom_next_of(start, code);
        const float r = (float)darkroom_row(next), c = (float)darkroom_column(next);
        if (code % NEXT == 0) {          /* the others differ in the next state alone */
            float f[DARKROOM_FEATURES];
            darkroom_features(start, code, f);
            memcpy(base, bias, sizeof base);
            for (int k = 0; k < DARKROOM_FEATURES - 2; k++)
                for (int i = 0; i < TRANSITION_COLUMNS; i++)
                    base[i] += f[k] * w[k][i];
        }
        for (int i = 0; i < TRANSITION_COLUMNS; i++)
            sum[i] = base[i] + r * w[DARKROOM_FEATURES - 2][i] + c * w[DARKROOM_FEATURES - 1][i];
        for (int64_t i = 0; i < n; i++)
            act_store(row + i, sum[i]);
    }
}

static inline void transition_table_fwd(act_t *restrict table, const wt_t *restrict w,
                                        const wt_t *restrict b, const wt_t *restrict states,
                                        const wt_t *restrict marks, const wt_t *restrict types,
                                        int start, int64_t C)
{
    for (int64_t first = 0; first < C; first += TRANSITION_COLUMNS) {
        const int64_t n = C - first < TRANSITION_COLUMNS ? C - first : TRANSITION_COLUMNS;
        float weight[DARKROOM_FEATURES][TRANSITION_COLUMNS] = {{0}}, bias[TRANSITION_COLUMNS] = {0};
        for (int64_t c = 0; c < n; c++) {
            bias[c] = act_load(b + first + c) + (types ? act_load(types + first + c) : 0);
            for (int k = 0; k < DARKROOM_FEATURES; k++)
                weight[k][c] = act_load(w + (first + c) * DARKROOM_FEATURES + k);
        }
#pragma omp parallel for schedule(static) if (DARKROOM_TRANSITIONS * n >= PARALLEL_MIN)
        for (int state = 0; state < DARKROOM_STATES; state++)
            transition_rows_(table + DARKROOM_TRANSITIONS / DARKROOM_STATES * state * C + first,
                             weight, bias, start, state, n, C);
    }
    act_t *row = table + DARKROOM_TRANSITIONS * C;
    for (int64_t i = 0; i < DARKROOM_STATES * C; i++)
        act_store(row + i, act_load(states + i) + (types ? act_load(types + i % C) : 0));
    row += DARKROOM_STATES * C;
    for (int64_t i = 0; i < 2 * C; i++)
        act_store(row + i, marks ? act_load(marks + i) + act_load(types + C + i) : 0);
}

/* Columns [first, first + n) of all gradients. */
static inline void transition_columns_(float *dw, float *db, float *dstates, float *dmarks,
                                       float *dtypes, const float *dtable, int start,
                                       int64_t first, int64_t n, int64_t C, int beta)
{
    float sum[DARKROOM_FEATURES][TRANSITION_COLUMNS] = {{0}}, all[TRANSITION_COLUMNS] = {0};
    for (int code = 0; code < DARKROOM_TRANSITIONS; code++) {
        const float *row = dtable + code * C + first;
        float f[DARKROOM_FEATURES], d[TRANSITION_COLUMNS] = {0};
        darkroom_features(start, code, f);
        memcpy(d, row, (size_t)n * sizeof *d);
        for (int c = 0; c < TRANSITION_COLUMNS; c++)
            all[c] += d[c];
        for (int k = 0; k < DARKROOM_FEATURES; k++)
            if (f[k] != 0)
                for (int c = 0; c < TRANSITION_COLUMNS; c++)
                    sum[k][c] += f[k] * d[c];
    }
    for (int64_t c = first; c < first + n; c++) {
        float *to = dw + c * DARKROOM_FEATURES;
        for (int k = 0; k < DARKROOM_FEATURES; k++)
            to[k] = (beta ? to[k] : 0) + sum[k][c - first];
        db[c] = (beta ? db[c] : 0) + all[c - first];
        float of_type = all[c - first];
        for (int s = 0; s < DARKROOM_STATES; s++) {
            const float d = dtable[(DARKROOM_TRANSITIONS + s) * C + c];
            dstates[s * C + c] = (beta ? dstates[s * C + c] : 0) + d;
            of_type += d;
        }
        for (int k = 0; k < 3 && dtypes; k++) {
            const float d = k ? dtable[(DARKROOM_OPEN + k - 1) * C + c] : of_type;
            dtypes[k * C + c] = (beta ? dtypes[k * C + c] : 0) + d;
            if (k)
                dmarks[(k - 1) * C + c] = (beta ? dmarks[(k - 1) * C + c] : 0) + d;
        }
    }
}

/* Adds up the gradients of the parameters from dtable (DARKROOM_CODES, C); beta 1: accumulated. A
 * thread owns columns. */
static inline void transition_table_bwd(float *restrict dw, float *restrict db,
                                        float *restrict dstates, float *restrict dmarks,
                                        float *restrict dtypes, const float *restrict dtable,
                                        int start, int64_t C, int beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < C; first += TRANSITION_COLUMNS) {
        const int64_t n = C - first < TRANSITION_COLUMNS ? C - first : TRANSITION_COLUMNS;
        transition_columns_(dw, db, dstates, dmarks, dtypes, dtable, start, first, n, C, beta);
    }
}

#endif
