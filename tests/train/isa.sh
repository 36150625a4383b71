#!/bin/bash
# Programs with each instruction set that this CPU has, up to all of it. In fp32, and in bf16 without bf16 instructions,
# every set gives the same bits; with them, PyTorch's values within the bounds of bf16, a policy that begins as its
# reference, and texts that do not depend on their neighbours.
source "$(dirname "$0")/lib.sh"

# the names of oneDNN; each has all before it
sets=(AVX2)
has() { grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$1"; }
has avx512bw && has avx512vl && has avx512dq && sets+=(AVX512_CORE)
has avx512_bf16 && sets+=(AVX512_CORE_BF16)
has amx_bf16 && sets+=(AVX512_CORE_AMX)
echo "# ${sets[*]}"
programs <<END
gpt2_tiny gpt2_tiny
gpt2_tiny.bf16 gpt2_tiny precision=bf16
gpt2_tiny.native gpt2_tiny target=cpu_native
dpo_sum.bf16.again dpo_sum precision=bf16 memory.recompute=block batch.targets=160 dpo.reference=copy
llama_rows.bf16 llama_rows precision=bf16 batch.texts=3
END

for set in "${sets[@]}"; do
    export ONEDNN_MAX_CPU_ISA=$set
    for name in gpt2_tiny{,.bf16}; do
        trained $name gpt2_tiny $name.$set
        if [ $name = gpt2_tiny ] || [[ $set != *_BF16 && $set != *_AMX ]]; then
            same "$name with $set" $name.$set $name.AVX2
        else
            compare "$name with $set" reference $ref/gpt2_tiny "$scratch/$name.$set" 2e-3
        fi
    done
done
compare "gpt2_tiny with AVX2" reference $ref/gpt2_tiny "$scratch/gpt2_tiny.AVX2"

# all that there is from here on
export ONEDNN_MAX_CPU_ISA=ALL
trained gpt2_tiny.native gpt2_tiny native
compare "gpt2_tiny for this CPU" reference $ref/gpt2_tiny "$scratch/native"
trained gpt2_tiny.bf16 gpt2_tiny one
OMP_NUM_THREADS=2 trained gpt2_tiny.bf16 gpt2_tiny two
same "bf16 on 2 threads" two one
trained dpo_sum.bf16.again dpo_sum preferences
said=$(sed -n 's/.*"loss": \([^,]*\),.*"margin": \([^,]*\),.*/\1 \2/p' "$scratch/preferences/history.jsonl" | head -n 1)
verdict "bf16, preferences begin at ln 2" "$([ "$said" = "0.6931471824645996 0.0" ] || echo "$said")"
write() {               # TEXT ...: continued side by side, a line each
    "$work/llama_rows.bf16/train" --init-from $ref/llama_rows/model --tokenizer bytes --greedy --max-new-tokens 12 \
        --json "${@/#/--sample=}" 2>"$scratch/log" || tail -n 1 "$scratch/log"
}
texts=(a "Who is there?" "of 12" "zwei" "the end of it")
alone=$(for text in "${texts[@]}"; do write "$text"; done)
verdict "bf16, each text as if it were alone" "$(diff <(write "${texts[@]}") <(echo "$alone")
    [ "$(grep -c '"answer"' <<<"$alone")" = ${#texts[@]} ] || echo "$alone")"
exit $failed
