/* contexts.c -- training sequences for algorithm distillation, by sample index.
 *
 * In:    codes of histories.  Out: tokens, positions, labels. */
#include "runtime/data/contexts.h"
#include "runtime/philox.h"
#include "runtime/darkroom.h"

enum { PURPOSE = 0x434f4e54 };       /* "CONT": independent of other draws of the same seed */

int64_t contexts_lay(const ContextRules *r, const ContextParts *c, int32_t *to)
{
    const uint16_t open = DARKROOM_OPEN, close = DARKROOM_CLOSE,
                   query = (uint16_t)darkroom_query(c->state);
    const struct {
        const uint16_t *code;
        int64_t n;
    } part[] = {{&open, c->nbefore > 0}, {c->before, c->nbefore}, {&close, c->nbefore > 0},
                {&open, r->compressed},  {c->now, c->nnow},       {&query, 1}};
    enum { PARTS = sizeof part / sizeof *part };
    int64_t all = 0, at = 0, n = 0;
    for (int k = 0; k < PARTS; k++)
        all += part[k].n;
    const int64_t more = all - r->n_transit;     /* dropped after the first token */
    for (int k = 0; k < PARTS; k++)
        for (int64_t i = 0; i < part[k].n; i++, at++)
            if (at == 0 || at > more)
                to[n++] = part[k].code[i];
    return n;
}

void contexts_open(Contexts *c, const ContextRules *r, const uint16_t *const *history,
                   int64_t histories, int64_t steps)
{
    const int64_t windows = steps < r->n_transit ? 0 : steps - r->n_transit + 1;
    *c = (Contexts){.rules = *r, .history = history, .histories = histories, .steps = steps,
                    .cuts = r->compressed ? steps / r->region : windows};
    c->n = histories * c->cuts * (r->compressed && !r->all ? contexts_positions(r) : 1);
}

static int64_t draw(uint64_t seed, int64_t epoch, int64_t sample, int64_t n)
{
    const uint32_t counter[4] = {(uint32_t)sample, (uint32_t)((uint64_t)sample >> 32),
                                 (uint32_t)epoch, PURPOSE},
                   key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t word[4];
    philox(counter, key, word);
    return (int64_t)((uint64_t)word[0] * (uint64_t)n >> 32);
}

ContextAt contexts_at(const Contexts *c, int64_t sample, uint64_t seed, int64_t epoch)
{
    const ContextRules *r = &c->rules;
    const int64_t positions = contexts_positions(r), of = r->compressed && !r->all ? positions : 1,
                  cut = sample / of, stride = r->compressed ? r->region : 1;
    ContextAt at = {.history = cut / c->cuts, .first = cut % c->cuts * stride};
    at.position = r->all ? -1 : r->compressed ? sample % of
             : r->ragged ? draw(seed, epoch, sample, positions) : positions - 1;
    return at;
}

int64_t contexts_length(const Contexts *c, const ContextAt *at)
{
    const ContextRules *r = &c->rules;
    const int64_t before = contexts_ahead_(r, at->first == 0), one = before + at->position + 1;
    if (r->all)
        return before + contexts_known_(r) + contexts_positions(r);
    return one < r->n_transit ? one : r->n_transit;
}

int64_t contexts_actions(const Contexts *c, const ContextAt *at)
{
    const int64_t positions = contexts_positions(&c->rules), actions =
        positions - c->rules.compressed;
    return at->position < 0 ? actions : at->position < actions;
}

/* Returns the state before a step of a history; step may be one past the last. */
static int state_at(const Contexts *c, int64_t history, int64_t step)
{
    const uint16_t *code = c->history[history];
    const int start = darkroom_start(c->rules.env);
    if (step < c->steps)
        return darkroom_state_of(code[step]);
    return step % DARKROOM_EPISODE ? darkroom_next_of(start, code[step - 1]) : start;
}

static void ask(const Contexts *c, const ContextAt *at, int64_t position, int64_t index,
                ContextRow *to)
{
    const ContextAt one = {.history = at->history, .first = at->first, .position = position};
    const bool action = contexts_actions(c, &one);
    to->query[to->queries] = (int32_t)index;
    const uint16_t *code = c->history[at->history] + at->first + position;
    to->action[to->queries] = action ? darkroom_action_of(*code) : -1;
    to->type[to->queries++] = action ? CONTEXT_ACTION : CONTEXT_END;
}

void contexts_row(const Contexts *c, const ContextAt *at, ContextRow *to)
{
    const ContextRules *r = &c->rules;
    const uint16_t *now = c->history[at->history] + at->first;
    const bool first = at->first == 0;
    ContextParts of = {.now = now};
    if (r->compressed && !first)
        of.before = now - r->region, of.nbefore = r->region;
    of.nnow = r->all ? contexts_known_(r) : at->position;
    of.state = state_at(c, at->history, at->first + of.nnow);
    to->n = contexts_lay(r, &of, to->token), to->queries = 0;
    for (int64_t i = 0; i < to->n; i++)
        to->position[i] = (int32_t)i;
    if (!r->all) {
        ask(c, at, at->position, to->n - 1, to);
        return;
    }
    to->n--;                     /* the query of the last position is among those below */
    for (int64_t t = 0; t < contexts_positions(r); t++) {
        to->token[to->n] = darkroom_query(state_at(c, at->history, at->first + t));
        to->position[to->n] = (int32_t)(contexts_ahead_(r, first) + t);
        ask(c, at, t, to->n++, to);
    }
}
