#!/bin/bash
# Whole steps of the CUDA target on the simulator that checks every access, of kernels and of the host:
# bounds, reads of unwritten values, races in a block, unordered work of two streams or of the host. Each of
# these ends the program with code 97. Two steps each: every kernel, graph, stream and copy of a run.
export BACKEND=sim SIM=checked
source "$(dirname "$0")/lib.sh"
# each family, type and kind of data, adapters, recomputed, without graphs, ranks
programs="
gpt2_tiny.bf16 gpt2_tiny precision=bf16
gpt2_tiny.bf16.launches gpt2_tiny precision=bf16 kernels.graph=false memory.recompute=block
llama_rows.few llama_rows batch.targets=96 memory.recompute=block
qwen2_dropout.fp16 qwen2_dropout precision=fp16
qwen2_dropout.folded qwen2_dropout lora.fold=all memory.recompute=block
llama_bfd.bf16.2x2x2 llama_bfd gpus=2 batch.micro=2 batch.accum=2 comm.overlap=all precision=bf16
"
[ -z "$FULL" ] || programs+="
gpt2_tiny gpt2_tiny
llama_bfd.bf16 llama_bfd precision=bf16
gpt2_tiny.bf16.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2 comm.overlap=all precision=bf16
llama_rows.few.bf16 llama_rows batch.targets=96 precision=bf16
qwen2_lora.fp16 qwen2_lora precision=fp16
qwen2_dropout.bf16 qwen2_dropout precision=bf16
gpt2_tiny.bf16.2x1x4 gpt2_tiny gpus=2 batch.accum=1 comm.overlap=all precision=bf16
"
programs <<<"$programs"
while read -r name words; do
    [ -n "$name" ] || continue
    bound=
    case $name in *.bf16* | *.fp16*) bound=2e-3 ;; esac
    verdict "$name, every access looked at" \
        "$(train "$name" "${name%%.*}" "$name" --steps 2 $([[ $name != *.launches ]] || echo --profile 2) ||
            tail -n 2 "$scratch/$name.log")"
    compare "$name, every access looked at:" beginning "$ref/${name%%.*}" "$scratch/$name" $bound
    says() {
        "$work/$name/run.sh" --out "$scratch/$name" --tokenizer bytes --max-new-tokens 3 --greedy --json "$@" \
            2>"$scratch/said" || tail -n 2 "$scratch/said"
    }
    verdict "$name, a text with others as alone" "$(diff <(says --sample "a b" | grep '^{.*"new_tokens":3') \
        <(says --sample c --sample "de fgh" --sample "a b" | grep '^{' | tail -n 1))"
done <<<"$programs"
compare "graphs and recomputed: the same bits:" history "$scratch/gpt2_tiny.bf16.launches" "$scratch/gpt2_tiny.bf16" 0
verdict "graphs and recomputed: the same weights" \
    "$(cmp "$scratch"/gpt2_tiny.bf16{,.launches}/checkpoint-2/model.safetensors 2>&1)"

# The same program whose wait for the event that orders the inputs before the kernels does nothing is refused.
step=$work/gpt2_tiny.bf16/step.cu
verdict "one event outside graphs" "$([ "$(grep -c 'cudaStreamWaitEvent(work, arrived' $step)" = 1 ] ||
    grep cudaStreamWaitEvent $step)"
DIECAST_SIM_DEAF=1 train gpt2_tiny.bf16 gpt2_tiny deaf --steps 2
code=$?
verdict "inputs without their event are refused" "$([ $code = 97 ] && grep -q '^simulator: ' "$scratch/deaf.log" ||
    echo "exit $code: $(tail -n 1 "$scratch/deaf.log")")"
exit $failed
