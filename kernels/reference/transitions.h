/* transitions.h -- double-precision reference of darkroom token embeddings.
 *
 * In:    parameters concatenated: w (C, 10), b (C), states (81, C), marks (2, C), types (3,
 *        C); a decoded token: kind, state, action, reward, next state.
 * Out:   column c of its embedding; a gradient is the coefficient of each parameter. */
#ifndef DIECAST_KERNELS_REFERENCE_TRANSITIONS_H
#define DIECAST_KERNELS_REFERENCE_TRANSITIONS_H

#include <stdint.h>

typedef struct {
    int kind;                /* 0 transition, 1 query, 2 <c>, 3 </c> */
    int state, action, reward, next;
} Spelled;

/* Calls add(user, parameter, coefficient) for each parameter in column c. */
static inline void transition_each_ref(const Spelled *s, int typed, int64_t C, int64_t c,
                                       void (*add)(void *user, int64_t parameter, double times),
                                       void *user)
{
    const int64_t b = 10 * C, states = b + C, marks = states + 81 * C, types = marks + 2 * C;
    const int f[10] = { s->state / 9, s->state % 9, s->action == 0, s->action == 1,
                        s->action == 2, s->action == 3, s->action == 4, s->reward,
                        s->next / 9, s->next % 9 };
    for (int k = 0; k < 10 && s->kind == 0; k++)
        add(user, c * 10 + k, f[k]);
    if (s->kind == 0)
        add(user, b + c, 1);
    if (s->kind == 1)
        add(user, states + s->state * C + c, 1);
    if (!typed)
        return;
    if (s->kind >= 2)
        add(user, marks + (s->kind - 2) * C + c, 1);
    add(user, types + (s->kind < 2 ? 0 : s->kind - 1) * C + c, 1);
}

#endif
