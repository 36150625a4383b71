/* goal.c -- proximal policy optimisation of one task.
 *
 * Method: the nets see only a cell, so all samples of a minibatch in the same cell share a row of
 *         every product, and the gradients of its outputs are summed first. Several rows are
 *         summed at once, in registers. */
#include "goal.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/math.h"
#include "runtime/philox.h"
#include "runtime/base.h"

#ifdef __AVX512F__
enum { LANES = 16, ROWS = 6 };       /* 24 of 32 registers hold sums */
#else
enum { LANES = 8, ROWS = 3 };        /* 12 of 16 registers */
#endif
typedef float Vec __attribute__((vector_size(4 * LANES), may_alias));

enum {
    PANEL = 4,                       /* vectors of a row that are computed at once */
    PANELS = HIDDEN / (PANEL * LANES),
    MOST = DARKROOM_STATES,
    CELLS = MINIBATCH < MOST ? MINIBATCH : MOST,     /* distinct cells of a minibatch, at most */
    PARAMETERS = NETS * sizeof(Net) / sizeof(float)
};
_Static_assert(HIDDEN % (PANEL * LANES) == 0 && PARAMETERS % LANES == 0, "whole vectors");
_Static_assert(SAMPLES % MINIBATCH == 0 && MINIBATCH > 1, "whole minibatches");
_Static_assert(ROLLOUT % DARKROOM_EPISODE == 0, "a rollout ends where an episode ends");

/* Activations and gradients of a net on the cells of a minibatch. */
typedef struct {
    Row back[HIDDEN];                /* w2 transposed */
    Row h1[CELLS], h2[CELLS];        /* units */
    Row d1[CELLS], d2[CELLS];        /* gradients before tanh */
    float out[OUTPUTS][CELLS];       /* outputs, then their gradients */
} Pass;

struct Learner {
    Net net[NETS], gradient[NETS], m[NETS], v[NETS];
    Pass pass[NETS];
    int64_t updates;
    int cell[CELLS], cells;          /* the distinct states of a minibatch */
    Sample sample[SAMPLES];
    int32_t order[SAMPLES];
    float p[DARKROOM_STATES][OUTPUTS], value[DARKROOM_STATES];
};

static const int outputs_of[NETS] = {[POLICY] = OUTPUTS, [VALUES] = 1};

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* tanh, within 2e-7. */
static inline float tanh_of(float x)
{
    x = x < -10.0f ? -10.0f : x;
    x = x > 10.0f ? 10.0f : x;
    return 1.0f - 2.0f / (1.0f + math_exp_normal(2.0f * x));
}

static inline Vec all(float x)
{
    return x - (Vec){0};
}

/* out = start + in W of n rows from the first on, one panel. n is a constant where it is called. */
__attribute__((always_inline)) static inline void
product_rows(Row *restrict out, const Row *restrict in, const Row *restrict w, const float *start,
             int first, int n, int panel)
{
    Vec sum[ROWS][PANEL];
    const int at = panel * PANEL * LANES;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < PANEL; k++)
            sum[i][k] = start ? *(const Vec *)(start + at + k * LANES) : (Vec){0};
    for (int u = 0; u < HIDDEN; u++) {
        const Vec *row = (const Vec *)(w[u] + at);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < PANEL; k++)
                sum[i][k] += all(in[first + i][u]) * row[k];
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < PANEL; k++)
            *(Vec *)(out[first + i] + at + k * LANES) = sum[i][k];
}

/* out = start + in W; start (HIDDEN) may be NULL. */
static void product(Row *restrict out, const Row *restrict in, const Row *restrict w,
                    const float *start, int cells)
{
    for (int panel = 0; panel < PANELS; panel++) {
        int i = 0;
        for (; i + ROWS <= cells; i += ROWS)
            product_rows(out, in, w, start, i, ROWS, panel);
        for (; i + 2 <= cells; i += 2)
            product_rows(out, in, w, start, i, 2, panel);
        if (i < cells)
            product_rows(out, in, w, start, i, 1, panel);
    }
}

/* g = h^T d; (HIDDEN, HIDDEN). */
static void product_outer(Row *restrict g, const Row *restrict h, const Row *restrict d, int cells)
{
    enum { HIGH = ROWS > 4 ? 4 : 2 };        /* divides HIDDEN */
    for (int panel = 0; panel < PANELS; panel++)
        for (int u = 0; u < HIDDEN; u += HIGH) {
            const int at = panel * PANEL * LANES;
            Vec sum[HIGH][PANEL] = {{{0}}};
            for (int c = 0; c < cells; c++) {
                const Vec *row = (const Vec *)(d[c] + at);
                for (int i = 0; i < HIGH; i++)
                    for (int k = 0; k < PANEL; k++)
                        sum[i][k] += all(h[c][u + i]) * row[k];
            }
            for (int i = 0; i < HIGH; i++)
                for (int k = 0; k < PANEL; k++)
                    *(Vec *)(g[u + i] + at + k * LANES) = sum[i][k];
        }
}

static float dot(const float *a, const float *b)
{
    Vec sum = {0};
    for (int u = 0; u < HIDDEN; u += LANES)
        sum += *(const Vec *)(a + u) * *(const Vec *)(b + u);
    float x = 0;
    for (int k = 0; k < LANES; k++)
        x += sum[k];
    return x;
}

/* to += x from. */
static void add(float *restrict to, float x, const float *restrict from)
{
    for (int u = 0; u < HIDDEN; u++)
        to[u] += x * from[u];
}

/* ---- the nets -------------------------------------------------------------------------------- */

static void squash(Row *rows, int cells)
{
    float *x = rows[0];
#pragma omp simd
    for (int i = 0; i < cells * HIDDEN; i++)
        x[i] = tanh_of(x[i]);
}

/* Computes n outputs of the cells into p->out. */
static void forward(Pass *p, const Net *net, int n, const int *cell, int cells)
{
    for (int c = 0; c < cells; c++) {
        memcpy(p->h1[c], net->b1, sizeof(Row));
        add(p->h1[c], (float)darkroom_row(cell[c]), net->w1[0]);
        add(p->h1[c], (float)darkroom_column(cell[c]), net->w1[1]);
    }
    squash(p->h1, cells);
    product(p->h2, p->h1, net->w2, net->b2, cells);
    squash(p->h2, cells);
    for (int o = 0; o < n; o++)
        for (int c = 0; c < cells; c++)
            p->out[o][c] = net->b3[o] + dot(p->h2[c], net->w3[o]);
}

/* Computes the gradient g from the gradients of the outputs, p->out. */
static void backward(Pass *p, Net *g, const Net *net, int n, const int *cell, int cells)
{
    memset(g->w1, 0, sizeof g->w1);
    memset(g->b1, 0, sizeof g->b1);
    memset(g->b2, 0, sizeof g->b2);
    memset(g->w3, 0, sizeof g->w3);
    memset(g->b3, 0, sizeof g->b3);
    for (int c = 0; c < cells; c++) {
        float *d2 = p->d2[c], *d1 = p->d1[c];
        const float *h2 = p->h2[c];
        memset(d1, 0, sizeof(Row));
        for (int o = 0; o < n; o++) {
            add(d1, p->out[o][c], net->w3[o]);
            add(g->w3[o], p->out[o][c], h2);
            g->b3[o] += p->out[o][c];
        }
        for (int u = 0; u < HIDDEN; u++)
            d2[u] = d1[u] * (1.0f - h2[u] * h2[u]);
        add(g->b2, 1, d2);
    }
    product_outer(g->w2, p->h1, p->d2, cells);
    product(p->d1, p->d2, p->back, NULL, cells);
    for (int c = 0; c < cells; c++) {
        float *d1 = p->d1[c];
        const float *h1 = p->h1[c];
        for (int u = 0; u < HIDDEN; u++)
            d1[u] *= 1.0f - h1[u] * h1[u];
        add(g->w1[0], (float)darkroom_row(cell[c]), d1);
        add(g->w1[1], (float)darkroom_column(cell[c]), d1);
        add(g->b1, 1, d1);
    }
}

/* Turns logits into probabilities, in place. */
static void softmax(float out[OUTPUTS][CELLS], int cells)
{
#pragma omp simd
    for (int c = 0; c < cells; c++) {
        float most = out[0][c], sum = 0;
        for (int a = 1; a < OUTPUTS; a++)
            most = out[a][c] > most ? out[a][c] : most;
        for (int a = 0; a < OUTPUTS; a++)
            sum += out[a][c] = math_exp(out[a][c] - most);
        for (int a = 0; a < OUTPUTS; a++)
            out[a][c] /= sum;
    }
}

/* Computes the probabilities and values of l->cell. */
static void evaluate(Learner *l)
{
    for (int k = 0; k < NETS; k++)
        forward(&l->pass[k], &l->net[k], outputs_of[k], l->cell, l->cells);
    softmax(l->pass[POLICY].out, l->cells);
}

void goal_outputs(Learner *l, float p[DARKROOM_STATES][OUTPUTS], float value[DARKROOM_STATES])
{
    for (int first = 0; first < DARKROOM_STATES; first += l->cells) {
        const int left = DARKROOM_STATES - first;
        l->cells = left < CELLS ? left : CELLS;
        for (int c = 0; c < l->cells; c++)
            l->cell[c] = first + c;
        evaluate(l);
        for (int c = 0; c < l->cells; c++) {
            for (int a = 0; a < OUTPUTS; a++)
                p[first + c][a] = l->pass[POLICY].out[a][c];
            value[first + c] = l->pass[VALUES].out[0][c];
        }
    }
}

Net *goal_nets(Learner *l)
{
    return l->net;
}

void goal_changed(Learner *l)
{
    for (int k = 0; k < NETS; k++)
        for (int u = 0; u < HIDDEN; u++)
            for (int i = 0; i < HIDDEN; i++)
                l->pass[k].back[u][i] = l->net[k].w2[i][u];
}

/* ---- an update ------------------------------------------------------------------------------- */

/* Advantages of a minibatch with mean 0 and sample deviation 1. */
static void normalise(float *advantage, const Sample *const *sample)
{
    double mean = 0, square = 0;
    for (int i = 0; i < MINIBATCH; i++)
        mean += sample[i]->advantage / (double)MINIBATCH;
    for (int i = 0; i < MINIBATCH; i++)
        square += (sample[i]->advantage - mean) * (sample[i]->advantage - mean);
    const double deviation = sqrt(square / (MINIBATCH - 1)) + 1e-8;
    for (int i = 0; i < MINIBATCH; i++)
        advantage[i] = (float)((sample[i]->advantage - mean) / deviation);
}

/* Collects the distinct cells of a minibatch; slot (MINIBATCH): the index of the cell of each
 * sample. */
static void gather(Learner *l, int *slot, const Sample *const *sample)
{
    int8_t where[DARKROOM_STATES];
    memset(where, -1, sizeof where);
    l->cells = 0;
    for (int i = 0; i < MINIBATCH; i++) {
        const int state = sample[i]->state;
        if (where[state] < 0) {
            where[state] = (int8_t)l->cells;
            l->cell[l->cells++] = state;
        }
        slot[i] = where[state];
    }
}

/* Gradient of the loss -mean min(r A, clip(r) A) + VALUE mean (V - R)^2 by logits and values; it
 * overwrites probabilities and values. */
static void slopes(Learner *l, const int *slot, const Sample *const *sample)
{
    float advantage[MINIBATCH], taken[OUTPUTS][CELLS] = {{0}}, off[CELLS] = {0};
    float (*p)[CELLS] = l->pass[POLICY].out, *value = l->pass[VALUES].out[0];
    normalise(advantage, sample);
    for (int i = 0; i < MINIBATCH; i++) {
        const Sample *s = sample[i];
        const int c = slot[i];
        const float ratio = p[s->action][c] / s->p, A = advantage[i];
        const bool clipped = A > 0 ? ratio > 1.0f + CLIP : ratio < 1.0f - CLIP;
        taken[s->action][c] -= clipped ? 0.0f : ratio * A / MINIBATCH;
        off[c] += 2.0f * VALUE / MINIBATCH * (value[c] - s->value);
    }
    for (int c = 0; c < l->cells; c++) {
        float sum = 0;
        for (int a = 0; a < OUTPUTS; a++)
            sum += taken[a][c];
        for (int a = 0; a < OUTPUTS; a++)
            p[a][c] = taken[a][c] - p[a][c] * sum;
        value[c] = off[c];
    }
}

static double norm(const Net *gradient)
{
    const float *g = gradient->w1[0];
    Vec sum[4] = {{0}};
    for (int i = 0; i < PARAMETERS; i += LANES)
        sum[i / LANES % 4] += *(const Vec *)(g + i) * *(const Vec *)(g + i);
    const Vec s = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    double square = 0;
    for (int k = 0; k < LANES; k++)
        square += s[k];
    return sqrt(square);
}

static void adam(Learner *l, float scale)
{
    float *restrict p = l->net->w1[0], *restrict m = l->m->w1[0], *restrict v = l->v->w1[0];
    const float *restrict g = l->gradient->w1[0];
    const double t = (double)l->updates;
    const float root = (float)(1 / sqrt(1 - pow(BETA2, t)));
    const float rate = (float)(LR / (1 - pow(BETA1, t)));
#pragma omp simd
    for (int i = 0; i < PARAMETERS; i++) {
        const float x = g[i] * scale;
        m[i] = BETA1 * m[i] + (1.0f - BETA1) * x;
        v[i] = BETA2 * v[i] + (1.0f - BETA2) * x * x;
        p[i] -= rate * m[i] / (sqrtf(v[i]) * root + EPS);
    }
}

double goal_update(Learner *l, const Sample *const sample[MINIBATCH])
{
    int slot[MINIBATCH];
    gather(l, slot, sample);
    evaluate(l);
    slopes(l, slot, sample);
    for (int k = 0; k < NETS; k++)
        backward(&l->pass[k], &l->gradient[k], &l->net[k], outputs_of[k], l->cell, l->cells);
    const double length = norm(l->gradient), scale = MAX_NORM / (length + 1e-6);
    l->updates++;
    adam(l, scale < 1 ? (float)scale : 1.0f);
    goal_changed(l);
    return length;
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Independent random streams, by use. */
enum { FOR_WEIGHTS, FOR_ACTIONS, FOR_ORDER };

static void draw(uint32_t out[4], uint64_t seed, uint32_t what, uint32_t which, uint32_t i)
{
    const uint32_t counter[4] = {i, which, what, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    philox(counter, key, out);
}

/* Uniform in (0, 1). */
static double uniform(uint32_t word)
{
    return (word + 0.5) / 4294967296.0;
}

static double normal(uint64_t seed, uint32_t which, uint32_t i)
{
    uint32_t word[4];
    draw(word, seed, FOR_WEIGHTS, which, i);
    return sqrt(-2 * log(uniform(word[0]))) * cos(6.283185307179586 * uniform(word[1]));
}

static double dot_double(const double *a, const double *b)
{
    double sum = 0;
    for (int u = 0; u < HIDDEN; u++)
        sum += a[u] * b[u];
    return sum;
}

/* n rows, orthogonal to each other, each of length gain. */
static void orthogonal(Row *to, int n, double gain, uint64_t seed, uint32_t which)
{
    double row[HIDDEN][HIDDEN];
    for (int i = 0; i < n; i++) {
        for (int u = 0; u < HIDDEN; u++)
            row[i][u] = normal(seed, which, (uint32_t)(i * HIDDEN + u));
        for (int k = 0; k < 2 * i; k++) {            /* twice, to remove rounding errors as well */
            const double along = dot_double(row[i], row[k % i]);
            for (int u = 0; u < HIDDEN; u++)
                row[i][u] -= along * row[k % i][u];
        }
        const double length = sqrt(dot_double(row[i], row[i]));
        for (int u = 0; u < HIDDEN; u++) {
            row[i][u] /= length;
            to[i][u] = (float)(gain * row[i][u]);
        }
    }
}

void goal_begin(Learner *l, uint64_t seed)
{
    static const double last[NETS] = {[POLICY] = 0.01, [VALUES] = 1};
    memset(l, 0, sizeof *l);
    for (int k = 0; k < NETS; k++) {
        const uint32_t which = 3 * (uint32_t)k;
        orthogonal(l->net[k].w1, INPUTS, sqrt(2), seed, which);
        orthogonal(l->net[k].w2, HIDDEN, sqrt(2), seed, which + 1);
        orthogonal(l->net[k].w3, outputs_of[k], last[k], seed, which + 2);
    }
    goal_changed(l);
}

Learner *goal_learner(void)
{
    Learner *l = aligned_alloc(64, (sizeof *l + 63) / 64 * 64);
    if (!l)
        die(EXIT_IO, "no memory for a learner of %zu bytes: try --threads 1", sizeof *l);
    return l;
}

void goal_free(Learner *l)
{
    free(l);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Runs all streams with the current policy into l->sample, (ROLLOUT, STREAMS), with rewards in
 * place of advantages. */
static void roll_out(Learner *l, int task, uint64_t seed, int rollout, uint8_t *action)
{
    int state[STREAMS];
    goal_outputs(l, l->p, l->value);
    for (int t = 0; t < ROLLOUT; t++)
        for (int s = 0; s < STREAMS; s++) {
            if (t % DARKROOM_EPISODE == 0)
                state[s] = darkroom_start(ENV);
            const int i = t * STREAMS + s, from = state[s];
            uint32_t word[4];
            draw(word, seed, FOR_ACTIONS, (uint32_t)rollout, (uint32_t)i);
            const float *p = l->p[from], u = (float)uniform(word[0]);
            float below = p[0];
            int a = 0;
            while (a < OUTPUTS - 1 && u >= below)
                below += p[++a];
            action[i] = (uint8_t)a;
            state[s] = darkroom_step(ENV, task, from, a);
            l->sample[i] = (Sample){.state = from, .action = a, .p = p[a],
                                    .advantage = (float)darkroom_reward(ENV, task, state[s])};
        }
}

/* Generalised advantages; the last step of an episode is its end. */
static void advantages(Learner *l)
{
    for (int s = 0; s < STREAMS; s++) {
        double advantage = 0, next = 0;
        for (int t = ROLLOUT - 1; t >= 0; t--) {
            Sample *x = &l->sample[t * STREAMS + s];
            if (t % DARKROOM_EPISODE == DARKROOM_EPISODE - 1)
                advantage = next = 0;
            const double now = l->value[x->state], reward = x->advantage;
            advantage = reward + GAMMA * next - now + GAMMA * LAMBDA * advantage;
            x->advantage = (float)advantage;
            x->value = (float)(advantage + now);
            next = now;
        }
    }
}

/* Shuffles the samples for an epoch. */
static void shuffle(Learner *l, uint64_t seed, uint32_t epoch)
{
    uint32_t word[4];
    for (int i = 0; i < SAMPLES; i++)
        l->order[i] = i;
    for (int i = SAMPLES - 1; i > 0; i--) {
        if (i == SAMPLES - 1 || i % 4 == 3)
            draw(word, seed, FOR_ORDER, epoch, (uint32_t)i / 4);
        const int j = (int)((uint64_t)word[i % 4] * (uint64_t)(i + 1) >> 32);
        const int32_t x = l->order[i];
        l->order[i] = l->order[j];
        l->order[j] = x;
    }
}

void goal_run(Learner *l, int task, uint64_t seed, uint8_t *action)
{
    goal_begin(l, seed);
    for (int rollout = 0; rollout < ROLLOUTS; rollout++) {
        roll_out(l, task, seed, rollout, action + (int64_t)rollout * SAMPLES);
        advantages(l);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            shuffle(l, seed, (uint32_t)(rollout * EPOCHS + epoch));
            for (int i = 0; i < SAMPLES; i += MINIBATCH) {
                const Sample *minibatch[MINIBATCH];
                for (int k = 0; k < MINIBATCH; k++)
                    minibatch[k] = &l->sample[l->order[i + k]];
                goal_update(l, minibatch);
            }
        }
    }
}
