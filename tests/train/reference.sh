#!/bin/bash
# Training runs against the same runs in PyTorch, transformers and PEFT (tests/oracle/train.py): fp32 to the last bits,
# bf16 losses to 2e-3, one rounding of a bf16 number. VERBOSE=1 shows how near they are.
source "$(dirname "$0")/lib.sh"
# of each family (and of families/), kind of data and kind of adapter one precision at least
names="gpt2_tiny gpt2_tiny.bf16 llama_tiny.bf16 llama_rows gpt2_bfd llama_bfd.bf16 qwen2_tiny qwen2_lora qwen2_lora.bf16
    qwen2_rslora qwen2_dropout qwen2_dropout.bf16 post_norm norm_then_residual.bf16 post_lora
    two_stacks"
[ -z "$FULL" ] || names+=" post_norm.bf16 norm_then_residual post_lora.bf16 two_stacks.bf16"
[ -z "$FULL" ] || names+=" llama_tiny llama_rows.bf16 gpt2_bfd.bf16 llama_bfd qwen2_tiny.bf16 qwen2_rslora.bf16"

programs < <(for name in $names; do
    case $name in *.bf16) echo "$name ${name%.bf16} precision=bf16" ;; *) echo "$name $name" ;; esac
done)
for name in $names; do
    case=${name%.bf16}
    trained $name $case $name
    compare $name reference $ref/$case "$scratch/$name" $([ $name = $case ] || echo 2e-3)
done
[ -n "${VERBOSE:-}" ] && grep worst "$scratch/compare.log"
exit $failed
