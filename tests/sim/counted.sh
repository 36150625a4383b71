#!/bin/bash
# counted.sh FOLDER: emits small programs there, and prints the bytes that gen counts for their calls as NAME=NUMBER:
# those of ops.h, the table of a profile.
set -eu
cd "$(dirname "$0")/../.."
gen=${GEN:-out/.gen/gen}
words="model.vocab=2048 seq.max=32 batch.micro=2 batch.accum=2 memory.loss_rows=16"
emit() { # shellcheck disable=SC2086
    "$gen" recipes/h200x1_tiny.lua $words "${@:2}" -o "$1" >"$1.log"
}
# FLOP and bytes of the call of a kernel with the most FLOP
call() { sed -n "s/^{\"$2\", \"[^\"]*\", \([0-9]*\), \([0-9]*\), .*/\1 \2/p" "$1/ops.h" | sort -rn | head -n 1; }
for master in fp32 remainder; do
    emit "$1/$master" optim.master=$master
    read -r flop bytes < <(call "$1/$master" adamw_mixed)
    echo "ADAMW_ELEMENTS=$((flop / 12)) ADAMW_${master^^}=$bytes"
done
emit "$1/eight" optim.moments=8bit optim.master=remainder
read -r flop bytes < <(call "$1/eight" adamw8_mixed)
echo "ADAMW8_ELEMENTS=$((flop / 12)) ADAMW8_REMAINDER=$bytes"
echo "ROWS=64 VOCABULARY=2048 HIDDEN=64 CHUNK=16"
read -r _ bytes < <(call "$1/fp32" ce_fwd)
echo "CE_FWD=$bytes"
read -r _ bytes < <(call "$1/fp32" ce_bwd)
echo "CE_BWD=$bytes BETA=$(grep -A1 'ce_bwd<' "$1/fp32/step.cu" | grep -c ACCUMULATE)"
# adapters of rank 16 on a gated feed-forward layer
"$gen" recipes/cpu_tiny_llama.lua target=sm_90 precision=bf16 lora.rank=16 lora.targets=all-linear lora.fold=all \
    batch.micro=3 batch.accum=1 seq.max=90 -o "$1/lora" >"$1/lora.log"
read -r flop bytes < <(sed -n 's/^{"lora_dy", "b.ddown.u", \([0-9]*\), \([0-9]*\), .*/\1 \2/p' "$1/lora/ops.h")
echo "LORA_ROWS=270 HIDDEN_LORA=$((flop / 270 / 16 / 4)) LORA_DY=$bytes"
read -r _ bytes < <(call "$1/lora" gated_bwd_lora_dx)
echo "FFN_LORA=$(sed -n 's/^ *F = \([0-9]*\),.*/\1/p' "$1/lora/shape.h") GATED_BWD_LORA_DX=$bytes"
