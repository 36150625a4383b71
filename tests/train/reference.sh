#!/bin/bash
# Training runs against the same runs in PyTorch, transformers and PEFT (tests/oracle/train.py): fp32 to the last bits,
# bf16 losses to 2e-3, one rounding of a bf16 number. VERBOSE=1 shows how near they are.
source "$(dirname "$0")/lib.sh"
# of each family (and of families/), kind of data and kind of adapter one precision at least
names="gpt2_tiny llama_tiny.bf16 llama_rows gpt2_bfd llama_bfd.bf16 qwen2_tiny qwen2_lora qwen2_lora.bf16 qwen2_nf4
    qwen2_rslora qwen3_tiny qwen3_lora.bf16 gemma_tiny gemma_lora gemma3_tiny gemma3_lora mistral_tiny gpt2_dropout
    qwen2_dropout post_norm norm_then_residual.bf16 post_lora two_stacks typed"
[ -z "$FULL" ] || names+=" post_norm.bf16 norm_then_residual post_lora.bf16 two_stacks.bf16 gpt2_tiny.bf16"
[ -z "$FULL" ] || names+=" qwen2_dropout.bf16 llama_tiny llama_rows.bf16 gpt2_bfd.bf16 llama_bfd"
[ -z "$FULL" ] || names+=" qwen2_tiny.bf16 qwen2_rslora.bf16 qwen3_tiny.bf16 qwen3_lora"
[ -z "$FULL" ] || names+=" gemma_tiny.bf16 gemma_lora.bf16 gemma3_tiny.bf16 gemma3_lora.bf16"
[ -z "$FULL" ] || names+=" mistral_tiny.bf16 mistral_lora mistral_lora.bf16"

programs < <(for name in $names; do
    case $name in *.bf16) echo "$name ${name%.bf16} precision=bf16" ;; *) echo "$name $name" ;; esac
done)
for name in $names; do
    case=${name%.bf16}
    trained $name $case $name
    compare $name reference $ref/$case "$scratch/$name" $([ $name = $case ] || echo 2e-3)
done
compare TensorBoard tags "$scratch/gpt2_tiny" "eval/best_loss_token eval/loss eval/loss_token eval/runtime \
eval/samples_per_second eval/steps_per_second eval/tokens_per_second train/learning_rate train/loss train/tokens \
train/tokens_per_second train/train_tokens_per_second"
# Padding that the program was not built for: a note, with the command; gen new takes it from the folder.
cp -rL $ref/qwen2_tiny/model "$scratch/padded"
sed -i 's/"pad_token_id": null/"pad_token_id": 5/' "$scratch/padded/config.json"
"$work/qwen2_tiny/run.sh" --data $ref/qwen2_tiny/tokens.safetensors --init-from "$scratch/padded" --steps 1 \
    --out "$scratch/pads" >"$scratch/pads.log" 2>&1
said="^$scratch/padded/config.json: pad_token_id is 5, .*: gen $here/recipes/qwen2_tiny.lua model.pad=5 does as"
verdict "other padding" "$(grep -q "$said transformers" "$scratch/pads.log" || tail -n 3 "$scratch/pads.log"
    grep pad_token_id "$scratch/qwen2_tiny.log" "$scratch/qwen3_tiny.log"
    "$gen" new "$scratch/pads.lua" --from "$scratch/padded" --full >"$scratch/pads.log" 2>&1
    grep -q '^ .* pad = 5,' "$scratch/pads.lua" || tail -n 3 "$scratch/pads.log")"
verdict "no padding of gpt2" "$("$gen" plan $here/recipes/gpt2_tiny.lua model.pad=5 2>&1 |
    grep -q 'model.pad: gpt2 has no row of padding; leave it out' || echo "taken")"
# documents side by side, for people
printf '%s\n' '{"prompt":"2+2=","completion":"4"}' '{"prompt":"ab","completion":"cde"}' >"$scratch/rows.jsonl"
"$work/gpt2_bfd/train" --data "$scratch/rows.jsonl" --tokenizer bytes --show 1 --out "$scratch/shown" \
    >"$scratch/rows" 2>"$scratch/said" || verdict "--show" "$(tail -n 1 "$scratch/said")"
verdict "--show: documents side by side" "$(diff - "$scratch/rows" <<'END'
step 1 micro-batch 1 row 1: 12 tokens, 6 targets
     50 "2"  43 "+"  50 "2"  61 "="
  *  52 "4"  256 "<|endoftext|>"
     --
     97 "a"  98 "b"
  *  99 "c"  100 "d"  101 "e"  256 "<|endoftext|>"
     and 20 of padding
END
)"
# refused RECIPE MESSAGE WORDS...: by the gen that has the families, and lm.c itself
refused() {
    local recipe=$here/families/recipes/$1.lua message=$2 said
    shift 2
    said=$("$(families_gen post_norm)" "$recipe" "$@" -o "$scratch/refused" 2>&1)
    verdict "refused: $message" "$(grep -qF "$message" <<<"$said" || echo "$said")"
}
refused typed "typed.lua:3: model.family: tokens of typed have types, which the objective lm does not give"
refused norm_then_residual \
    "model.init_std: weights of norm_then_residual are initialised as PyTorch's modules are; leave it out" \
    model.init_std=0.1
# first values as PyTorch's modules have them: 1 / sqrt(64), 1 / sqrt(256)
first=$(awk -F'"' '/\.name/ { name = $2 } /\.init =/ { sub(/, \.first.*/, ""); print name, $0 }' \
    $work/norm_then_residual.bf16/tensors.h | tr -s ' ')
for want in "layer.%d.key.weight .init = INIT_UNIFORM, .init_arg = 0.125f" \
    "layer.%d.key.bias .init = INIT_UNIFORM, .init_arg = 0.125f" \
    "layer.%d.down.weight .init = INIT_UNIFORM, .init_arg = 0.0625f" \
    "layer.%d.LayerNorm1.weight .init = INIT_ONES" \
    "embeddings.word.weight .init = INIT_NORMAL, .init_arg = 1.0f"; do
    verdict "first values: ${want%% *}" "$(grep -qxF "$want" <<<"$first" || echo "$first")"
done
[ -n "${VERBOSE:-}" ] && grep worst "$scratch/compare.log"
exit $failed
