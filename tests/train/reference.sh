#!/bin/bash
# Training runs against the same runs in PyTorch, transformers and PEFT (tests/oracle/train.py): fp32 to the last bits,
# bf16 losses to 2e-3, one rounding of a bf16 number. VERBOSE=1 shows how near they are.
source "$(dirname "$0")/lib.sh"
cases="gpt2_tiny llama_tiny llama_rows gpt2_bfd llama_bfd qwen2_tiny qwen2_lora qwen2_rslora qwen2_dropout"

programs < <(for case in $cases; do echo "$case $case"; echo "$case.bf16 $case precision=bf16"; done)
for case in $cases; do
    trained $case $case $case
    compare $case reference $ref/$case "$scratch/$case"
    trained $case.bf16 $case $case.bf16
    compare $case.bf16 reference $ref/$case "$scratch/$case.bf16" 2e-3
done
[ -n "${VERBOSE:-}" ] && grep worst "$scratch/compare.log"
exit $failed
