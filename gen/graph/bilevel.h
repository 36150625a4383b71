/* bilevel.h -- hypergradients: derivatives of per-sample losses along v, the gradient of another
 * loss.
 *
 * From jvp_tangent() to the end of the schedule, the gradients of a parameter group hold v,
 * summed over all ranks. */
#ifndef BILEVEL_H
#define BILEVEL_H

#include "gen/graph/graph.h"

/* Derivatives of per-sample losses along v. */
struct Jvp {
    Set *set;                /* parameter group whose gradients hold v */
    Value *tangent;          /* figures of v: runtime/jvp.h */
    Value *jvp;              /* (B) doubles per micro-batch: derivative of each sample's loss */
};

/* Creates $tangent and $jvp for the gradients of a parameter group. */
Jvp *jvp_new(Build *b, Set *set);
/* Call after schedule_turns() of the program that writes v; clears the derivatives. */
void jvp_tangent(Build *b, Schedule *s, const Jvp *jvp);
/* First method, finite differences. Call it in a program without a backward pass; losses: f32
 * (B). */
void jvp_losses(Build *b, const Jvp *jvp, Ref losses);
/* Then call it instead of schedule_turns(): runs the last program with parameters moved by eps v
 * and by -eps v, eps = 0.01 / (|v| + 1e-15), and restores them bit for bit. Needs fp32
 * parameters. */
void jvp_differences(Build *b, Schedule *s, const Jvp *jvp);
/* Second method, Jacobian-vector products: in a program with b->jvp = jvp, write a pass whose
 * losses are the unweighted ones of the samples times loss_scale(); pass_backward() adds up the
 * derivatives. It needs no per-sample gradients: for each layer, the result with v instead of the
 * parameters is multiplied with the gradient of the layer's result, sample by sample. */
/* Third method, the second without a whole v: in one program, forward passes of the losses that v
 * is the gradient of and of the samples' losses, then both backward passes, layer by layer. The
 * first writes the layer's part of v, the second adds up its products and then drops it. */
typedef struct {
    Pass pass;
    int end;                 /* as of pass_backward() */
    PassInputs in;
    const char *prefix;      /* of its values, such as "meta." */
} LockstepSide;
/* Begins the program; v and the sides' values follow. scale: of the samples' losses. */
void lockstep_begin(Build *b, const Jvp *jvp, Value *scale);
/* Further values belong to the side, whose inputs are those of b. */
void lockstep_side(Build *b, LockstepSide *side, const char *prefix);
/* Writes both backward passes, whose last gradients are set; ends the program. */
void lockstep_backward(Build *b, Jvp *jvp, const LockstepSide *meta, const LockstepSide *own);
/* After each method: derivatives of the micro-batch's samples, f64 (B). */
Ref jvp_of(const Build *b, const Jvp *jvp);

#endif
