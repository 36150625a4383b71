/* bilevel.h -- hypergradients: the derivative of each sample's loss along v, the gradient of
 * another loss.
 *
 * From slopes_direction() to the end of the schedule, v takes the place of the gradients of a
 * parameter set, summed over all ranks. */
#ifndef BILEVEL_H
#define BILEVEL_H

#include "gen/graph/graph.h"

/* Derivatives of the losses of single samples along v. */
struct Slopes {
    Set *set;                /* whose parameters v has a number for, in the place of their gradients */
    Value *along;            /* numbers about v: runtime/along.h */
    Value *slope;            /* (B) doubles a micro-batch: the derivative of each sample's loss */
};

Slopes *slopes_new(Build *b, Set *set);
/* Behind schedule_turns() of the program that writes v; clears the derivatives. */
void slopes_direction(Build *b, Schedule *s, const Slopes *slopes);
/* One way: differences of losses. In a further program without a backward pass, losses f32 (B): */
void slopes_losses(Build *b, const Slopes *slopes, Ref losses);
/* and in the place of schedule_turns(): the program just written with the parameters moved by eps v,
 * then by -eps v, eps = 0.01 / (|v| + 1e-15); then they are what they were, bit for bit. Wants
 * parameters in fp32. */
void slopes_differences(Build *b, Schedule *s, const Slopes *slopes);
/* The other: in a further program with b->slopes = slopes, a pass whose losses are those of the
 * samples, unweighted, times loss_scale(); pass_backward() adds up the derivatives. No gradient of
 * a single sample is ever there: of each layer's parameters, what they add to its result with v in
 * their place is multiplied with the result's gradient, a sample at a time. */
/* Behind either: the derivatives of the micro-batch's samples, f64 (B). */
Ref slopes_of(const Build *b, const Slopes *slopes);

#endif
