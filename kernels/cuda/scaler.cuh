/* scaler.cuh -- dynamic loss scaling for fp16, adapted on the device.
 *
 * In:    scaler: { scale, steps since it last changed }; norm[0] of the scaled gradients.
 * Out:   norm[0] of the true gradients; adamw_args[ADAMW_UNSCALE] = 1 / scale for this step's
 *        update.
 * Method: a non-finite norm halves the scale, and AdamW skips the step; after SCALER_STEPS
 *         good steps it doubles (Micikevicius et al. 2018; torch.amp.GradScaler). */
#ifndef DIECAST_KERNELS_SCALER_CUH
#define DIECAST_KERNELS_SCALER_CUH

#include "adamw.cuh"
#include "types.cuh"

enum { SCALER_STEPS = 2000 };

__global__ void __launch_bounds__(1) scale_loss_kernel(float *scaled, const float *scale,
                                                       const float *scaler)
{
    scaled[0] = scale[0] * scaler[0];
}

__global__ void __launch_bounds__(1)
    scaler_update_kernel(float *norm, float *scaler, float *adamw_args)
{
    const float scale = scaler[0], least = 1.0f / 16384;
    adamw_args[ADAMW_UNSCALE] = 1.0f / scale;         // exact: a power of two
    norm[0] *= adamw_args[ADAMW_UNSCALE];
    if (!isfinite(norm[0])) {
        scaler[0] = scale > least ? 0.5f * scale : scale;
        scaler[1] = 0;
    } else if (scaler[1] + 1 == (float)SCALER_STEPS) {
        scaler[0] = 2 * scale;
        scaler[1] = 0;
    } else {
        scaler[1] += 1;
    }
}

#ifndef __CUDACC_RTC__
/* scaled[0] = scale[0] times the loss scale */
static inline void scale_loss(float *scaled, const float *scale, const float *scaler,
                              cudaStream_t s)
{
    launch(scale_loss_kernel, 1, 1, 0, s, scaled, scale, scaler);
}

static inline void scaler_update(float *norm, float *scaler, float *adamw_args, cudaStream_t s)
{
    launch(scaler_update_kernel, 1, 1, 0, s, norm, scaler, adamw_args);
}
#endif

#endif
