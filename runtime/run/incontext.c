/* incontext.c -- agents that act with their history as context.
 *
 * In:    logits of the current states. Out: transitions, returns.
 * Keeps: each agent has its own step count, so that one that closes a region, which takes an extra
 *        query, does not delay the others. */
#include "runtime/run/incontext.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/philox.h"
#include "runtime/base.h"
#include "runtime/darkroom.h"
#include "runtime/ranks/comm.h"

enum { PURPOSE = 0x41435431 };       /* "ACT1": separates these draws from all others of the seed */

/* ---- actions --------------------------------------------------------------------------------- */

/* Returns a uniform number in [0, 1) with 53 bits. */
static double uniform(uint64_t seed, int task, int64_t stream, int64_t step)
{
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)stream, (uint32_t)task, PURPOSE};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    philox(counter, key, out);
    return (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) * 0x1p-53;
}

static int largest(const float *x, int64_t n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

int incontext_draw(const float *logits, double temperature, uint64_t seed, int task, int64_t stream,
                   int64_t step)
{
    const int likeliest = largest(logits, DARKROOM_ACTIONS);
    if (temperature <= 0)
        return likeliest;
    double p[DARKROOM_ACTIONS], sum = 0;
    for (int a = 0; a < DARKROOM_ACTIONS; a++)
        sum += p[a] = exp(((double)logits[a] - (double)logits[likeliest]) / temperature);
    double left = uniform(seed, task, stream, step) * sum;
    int action = 0;
    while (action + 1 < DARKROOM_ACTIONS && left >= p[action])
        left -= p[action++];
    return action;
}

/* ---- agents ---------------------------------------------------------------------------------- */

/* An agent and its row of the batch. */
typedef struct {
    Agent *agent;                /* NULL: the row is free */
    int64_t step;                /* of all its episodes */
    int state;
    int64_t before, from;        /* transitions at the start of the previous region, and of the
                                    current one */
} Seat;

static void begin(Seat *p, const InContext *how, Agent *agent)
{
    *p = (Seat){.agent = agent, .state = darkroom_start(how->rules.env)};
    if (!agent)
        return;
    agent->turns = agent->closed = 0;
    for (int64_t e = 0; e < how->episodes; e++)
        agent->returns[e] = 0;
}

/* Fills row b of the batch; a free row has only a query. */
static void put(const Actor *a, const InContext *how, const Seat *p, int64_t b)
{
    int32_t *tokens = a->tokens + b * a->positions, *at = a->at + b * a->positions;
    ContextParts of = {.state = p->state};
    if (p->agent) {
        of.before = p->agent->taken + p->before, of.nbefore = p->from - p->before;
        of.now = p->agent->taken + p->from, of.nnow = p->step - p->from;
    }
    const int64_t n = contexts_lay(&how->rules, &of, tokens);
    for (int64_t i = 0; i < a->positions; i++)
        at[i] = i < n ? (int32_t)i : 0;
    for (int64_t i = n; i < a->positions; i++)
        tokens[i] = DARKROOM_CLOSE;
    a->query[b] = (int32_t)(b * a->positions + n - 1);
}

static void act(Seat *p, const InContext *how, const float *logits)
{
    Agent *agent = p->agent;
    const int env = how->rules.env, start = darkroom_start(env), state = p->state,
              action = incontext_draw(logits, how->temperature, how->seed, agent->task,
                                      agent->stream, p->step),
              next = darkroom_step(env, agent->task, state, action),
              reward = darkroom_reward(env, agent->task, next);
    const bool over = (p->step + 1) % DARKROOM_EPISODE == 0;
    agent->returns[p->step / DARKROOM_EPISODE] += reward;
    agent->taken[p->step++] = (uint16_t)darkroom_code(start, state, action, reward,
                                                      over && how->reset ? start : next);
    p->state = over ? start : next;
    if (!how->rules.compressed && p->step >= how->rules.n_transit)
        p->before = p->from = p->step - how->rules.n_transit + 1;
}

/* NaN weights give no valid action. */
static void check_finite(const Seat *p, const float *logits, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            die(EXIT_NONFINITE, "the model's logits are not finite: task %d, step %" PRId64,
                p->agent->task, p->step);
}

/* Advances an agent by its logits: it acts, or first closes a region. */
static void advance(Seat *p, const InContext *how, const float *logits, int64_t types)
{
    const bool full = how->rules.compressed &&
                      largest(logits + DARKROOM_ACTIONS, types) == CONTEXT_END;
    if (full && p->step > p->from) {
        p->before = p->from, p->from = p->step;
        p->agent->turns++, p->agent->closed = p->step;
    } else {
        act(p, how, logits);
    }
}

/* True if another pass follows. *left: `stopped` ends the rollouts. */
static bool goes_on(const Actor *a, const InContext *how, bool busy, bool *left)
{
    enum { DONE, BUSY, STOPPED };
    int64_t state = !busy ? DONE : how->stopped && how->stopped() ? STOPPED : BUSY;
    if (a->collective)
        state = comm_max_int(state);
    *left = state == STOPPED;
    return state == BUSY;
}

bool incontext_run(const Actor *a, const InContext *how, Agent *agent, int64_t n,
                   InContextCost *cost)
{
    bool left = false;
    const int64_t width = DARKROOM_ACTIONS + a->types, steps = how->episodes * DARKROOM_EPISODE;
    const double began = clock_seconds();
    REQUIRE(how->rules.n_transit <= a->positions);
    Seat *seat = calloc((size_t)a->rows, sizeof *seat);
    if (!seat)
        die(EXIT_INTERNAL, "out of memory for %" PRId64 " agents", a->rows);
    int64_t next = 0, busy = 0;
    for (int64_t b = 0; b < a->rows; b++) {
        begin(&seat[b], how, next < n ? &agent[next++] : NULL);
        busy += seat[b].agent != NULL;
    }
    while (goes_on(a, how, busy > 0, &left)) {
        for (int64_t b = 0; b < a->rows; b++)
            put(a, how, &seat[b], b);
        const double before = clock_seconds();
        const float *logits = a->logits();
        cost->inside += clock_seconds() - before;
        cost->passes += busy > 0;
        for (int64_t b = 0; b < a->rows; b++) {
            Seat *p = &seat[b];
            if (!p->agent)
                continue;
            check_finite(p, logits + b * width, width);
            advance(p, how, logits + b * width, a->types);
            if (p->step < steps)
                continue;
            begin(p, how, next < n ? &agent[next++] : NULL);
            busy -= p->agent == NULL;
        }
    }
    free(seat);
    cost->steps += left ? 0 : n * steps;
    cost->seconds += clock_seconds() - began;
    return !left;
}
