/* goal.h -- one task of darkroom learned by proximal policy optimisation: nets, an update, the run.
 *
 * Keeps: all of a task follows from its seed, by one thread: the same bits beside whatever it runs.
 * Source: Schulman et al. 2017, Proximal policy optimization algorithms. */
#ifndef GOAL_H
#define GOAL_H

#include <stdint.h>

#include "runtime/darkroom.h"
#include "runtime/data/histories.h"
#include "runtime/ppo.h"

enum {
    ENV = DARKROOM_@UPPER_AD_ENV@,
    STREAMS = @PPO_STREAMS@,                   /* environments beside each other */
    ROLLOUTS = @PPO_ROLLOUTS@,
    EPOCHS = @PPO_PASSES@,                     /* over a rollout */
    MINIBATCH = @PPO_MINIBATCH@,
    HIDDEN = PPO_HIDDEN,             /* units of each of two layers, of each net */
    ROLLOUT = HISTORIES_ROLLOUT,     /* steps of a stream */
    STEPS = ROLLOUTS * ROLLOUT,      /* of a stream, in all */
    SAMPLES = ROLLOUT * STREAMS,
    UPDATES = ROLLOUTS * EPOCHS * (SAMPLES / MINIBATCH),
    INPUTS = PPO_INPUTS,             /* row and column */
    OUTPUTS = DARKROOM_ACTIONS,      /* of the policy; of values the first alone is used */
    BIASES = 16                      /* room for those of the outputs; the rest stays 0 */
};

#define LR @PPO_RATE@f
#define GAMMA @PPO_GAMMA@
#define LAMBDA @PPO_LAMBDA@
#define CLIP @PPO_CLIP_RATIO@f                    /* of the ratio of probabilities */
#define VALUE @PPO_VALUE_WEIGHT@f                   /* what the loss of values counts */
#define MAX_NORM @PPO_MAX_NORM@f                /* of the gradient of both nets */
#define BETA1 0.9f
#define BETA2 0.999f
#define EPS 1e-5f

typedef float Row[HIDDEN] __attribute__((aligned(64)));

/* Or its gradient, or moments. w1 from each input to the units, w2 from each unit to the units, w3
 * from the units to each output. */
typedef struct {
    Row w1[INPUTS], b1, w2[HIDDEN], b2, w3[OUTPUTS];
    float b3[BIASES];
} Net;

enum { POLICY, VALUES, NETS };

/* What one step of a rollout tells an update. */
typedef struct {
    int state, action;
    float p;                         /* that the policy gave the action */
    float advantage, value;          /* the value that is to be */
} Sample;

typedef struct Learner Learner;

Learner *goal_learner(void);         /* never NULL: no memory ends the program */
void goal_free(Learner *l);
/* Nets of a seed, moments 0. */
void goal_begin(Learner *l, uint64_t seed);
/* Both, (NETS). goal_changed() behind what is written there. */
Net *goal_nets(Learner *l);
void goal_changed(Learner *l);
/* One step of Adam. Returns the norm of the gradient before it is clipped. */
double goal_update(Learner *l, const Sample *const sample[MINIBATCH]);
/* In every state: the policy's probabilities, the value. */
void goal_outputs(Learner *l, float p[DARKROOM_STATES][OUTPUTS], float value[DARKROOM_STATES]);
/* The whole run; action (STEPS, STREAMS) is what it did. */
void goal_run(Learner *l, int task, uint64_t seed, uint8_t *action);

#endif
