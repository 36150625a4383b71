/* goal.h -- proximal policy optimisation of one darkroom task: nets, an update, the whole run.
 *
 * Keeps: a task depends only on its seed and runs in one thread: its bits depend on no other task.
 * Source: Schulman et al. 2017, Proximal policy optimization algorithms. */
#ifndef GOAL_H
#define GOAL_H

#include <stdint.h>

#include "runtime/darkroom.h"
#include "runtime/data/histories.h"
#include "runtime/ppo.h"

enum {
    ENV = DARKROOM_@UPPER_AD_ENV@,
    STREAMS = @PPO_STREAMS@,                   /* parallel environments */
    ROLLOUTS = @PPO_ROLLOUTS@,
    EPOCHS = @PPO_PASSES@,                     /* passes over a rollout */
    MINIBATCH = @PPO_MINIBATCH@,
    HIDDEN = PPO_HIDDEN,             /* units of each of two layers, of each net */
    ROLLOUT = HISTORIES_ROLLOUT,     /* steps of a stream */
    STEPS = ROLLOUTS * ROLLOUT,      /* steps of a stream in all */
    SAMPLES = ROLLOUT * STREAMS,
    UPDATES = ROLLOUTS * EPOCHS * (SAMPLES / MINIBATCH),
    INPUTS = PPO_INPUTS,             /* row and column */
    OUTPUTS = DARKROOM_ACTIONS,      /* outputs of the policy; the value net uses only the first */
    BIASES = 16                      /* biases of the outputs, padded with zeros */
};

#define LR @PPO_RATE@f
#define GAMMA @PPO_GAMMA@
#define LAMBDA @PPO_LAMBDA@
#define CLIP @PPO_CLIP_RATIO@f                    /* clip range of the probability ratio */
#define VALUE @PPO_VALUE_WEIGHT@f                   /* weight of the value loss */
#define MAX_NORM @PPO_MAX_NORM@f                /* both nets' gradient is clipped to this norm */
#define BETA1 0.9f
#define BETA2 0.999f
#define EPS 1e-5f

typedef float Row[HIDDEN] __attribute__((aligned(64)));

/* A net, its gradient or its moments. w1: from each input to the units; w2: from each unit to the
 * units; w3: from the units to each output. */
typedef struct {
    Row w1[INPUTS], b1, w2[HIDDEN], b2, w3[OUTPUTS];
    float b3[BIASES];
} Net;

enum { POLICY, VALUES, NETS };

/* One step of a rollout, as an update uses it. */
typedef struct {
    int state, action;
    float p;                         /* probability that the policy gave the action */
    float advantage, value;          /* advantage; target of the value net */
} Sample;

typedef struct Learner Learner;

Learner *goal_learner(void);         /* never NULL: ends the program if memory runs out */
void goal_free(Learner *l);
/* Initialises the nets from a seed and sets the moments to 0. */
void goal_begin(Learner *l, uint64_t seed);
/* Returns both nets, (NETS). Call goal_changed() after writing to them. */
Net *goal_nets(Learner *l);
void goal_changed(Learner *l);
/* One step of Adam. Returns the norm of the gradient before it is clipped. */
double goal_update(Learner *l, const Sample *const sample[MINIBATCH]);
/* Sets the probabilities of the policy and the value of every state. */
void goal_outputs(Learner *l, float p[DARKROOM_STATES][OUTPUTS], float value[DARKROOM_STATES]);
/* Runs a whole task; action (STEPS, STREAMS): the actions taken. */
void goal_run(Learner *l, int task, uint64_t seed, uint8_t *action);

#endif
