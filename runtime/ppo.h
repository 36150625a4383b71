/* ppo.h -- PPO networks: policy and value net, tanh multilayer perceptrons with two hidden layers.
 *
 * The generator reports their size; the emitted program implements them. */
#ifndef DIECAST_PPO_H
#define DIECAST_PPO_H

enum {
    PPO_INPUTS = 2,             /* row and column of the state */
    PPO_HIDDEN = 64             /* units of a hidden layer */
};

/* Returns the number of parameters of a net with that many outputs. */
#define PPO_PARAMETERS(outputs)                                                                    \
    (PPO_INPUTS * PPO_HIDDEN + PPO_HIDDEN + PPO_HIDDEN * PPO_HIDDEN + PPO_HIDDEN +                 \
     PPO_HIDDEN * (outputs) + (outputs))

#endif
