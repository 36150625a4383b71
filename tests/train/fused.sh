#!/bin/bash
# Whole programs whose micro-batches have enough rows for products that go row by row through what follows them
# (linear_norm.h, linear_rows.h): the bits of the same program with one kernel an op (kernels.fuse=false).
source "$(dirname "$0")/lib.sh"

# name, case, fields; the calls that its step must have
cases='gpt2 gpt2_dropout batch.micro=64
mlm mlm_dropout batch.micro=64
llama llama_tiny batch.micro=64
ad ad_one batch.micro=64 model.dropout=0 ad.context=compressed
dropped ad_one batch.micro=64'
calls='gpt2 linear_dropout_add_fwd linear_dropout_add_layernorm_fwd linear_dx_layernorm_bwd
gpt2 linear_gelu_fwd linear_dx_gelu_bwd_bias
mlm linear_dropout_add_layernorm_fwd linear_dx_layernorm_bwd linear_gelu_erf_fwd linear_dx_add
mlm linear_dx_gelu_erf_bwd_bias
llama linear_add_rmsnorm_fwd linear_add_fwd linear_dx_rmsnorm_bwd_add linear_swiglu_fwd linear_dx_swiglu_bwd
ad linear_add_layernorm_fwd linear_dx_layernorm_bwd_bias
dropped linear_gelu_erf_dropout_fwd'
programs <<<"$(while read -r name recipe fields; do
    echo "fused.$name $recipe $fields"
    echo "fused.$name.apart $recipe $fields kernels.fuse=false"
done <<<"$cases")"
while read -r name words; do
    verdict "$name: ${words%% *}..." "$(for call in $words; do
        grep -q "^ *$call(" "$work/fused.$name/step.c" || echo "$call"
        ! grep -q "^ *$call(" "$work/fused.$name.apart/step.c" || echo "$call, not fused"; done)"
done <<<"$calls"
while read -r name recipe _; do
    trained "fused.$name" "$recipe" "fused.$name" --steps 2
    trained "fused.$name.apart" "$recipe" "fused.$name.apart" --steps 2
    same "$name, fused" "fused.$name" "fused.$name.apart" 2
done <<<"$cases"
exit $failed
