/* hyper.h -- what AdamW is told anew each step: the entries of the input `hyper`, all floats. */
#ifndef DIECAST_HYPER_H
#define DIECAST_HYPER_H

enum {
    HYPER_LR,
    HYPER_BETA1,
    HYPER_BETA2,
    HYPER_EPS,
    HYPER_DECAY,
    HYPER_BIAS1,            /* 1 - beta1^t and 1 - beta2^t, powers of the fp32 values above */
    HYPER_BIAS2,
    HYPER_CLIP,             /* <= 0: no clipping */
    HYPER_UNSCALE           /* fp16: 1 / the scale of the gradients; written on the device */
};

#endif
