/* ppo.h -- PPO's networks: a policy and a value net, tanh multilayer perceptrons of two hidden layers.
 *
 * The generator reports their size; the emitted program has them. */
#ifndef DIECAST_PPO_H
#define DIECAST_PPO_H

enum {
    PPO_INPUTS = 2,             /* row and column of the state */
    PPO_HIDDEN = 64             /* units of a hidden layer */
};

/* Parameters of a net of so many outputs. */
#define PPO_PARAMETERS(outputs) \
    (PPO_INPUTS * PPO_HIDDEN + PPO_HIDDEN + PPO_HIDDEN * PPO_HIDDEN + PPO_HIDDEN + PPO_HIDDEN * (outputs) + (outputs))

#endif
