/* adamw_args.h -- per-step AdamW arguments: entries of the input `adamw_args`, all floats. */
#ifndef DIECAST_ADAMW_ARGS_H
#define DIECAST_ADAMW_ARGS_H

enum {
    ADAMW_LR,
    ADAMW_BETA1,
    ADAMW_BETA2,
    ADAMW_EPS,
    ADAMW_DECAY,
    ADAMW_BIAS1,            /* 1 - beta1^t and 1 - beta2^t, powers of the fp32 values above */
    ADAMW_BIAS2,
    ADAMW_CLIP,             /* <= 0: no clipping */
    ADAMW_UNSCALE           /* fp16: 1 / the scale of the gradients; written on the device */
};

#endif
