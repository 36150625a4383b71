#!/bin/bash
# Bases in NF4 (lora.base): folders of bitsandbytes, read as they are or refused; a run that is killed and goes on;
# adapters and merged models. Steps against PEFT over bitsandbytes: reference.sh, sim.sh.
source "$(dirname "$0")/lib.sh"
programs <<'END'
qwen2_nf4 qwen2_nf4
qwen2_lora qwen2_lora
qwen2_tiny qwen2_tiny
prm_lora.nf4 prm_lora lora.base=nf4 prm.hypergradient=dot memory.recompute=block
prm_lora.same prm_lora prm.hypergradient=dot
dpo_lora.nf4 dpo_lora lora.base=nf4 dpo.reference=adapter_off
dpo_lora.same dpo_lora dpo.reference=adapter_off
END
case=$ref/qwen2_nf4
quantised=$case/quantised

# run NAME RUN FOLDER FLAGS...: trains from that folder; the exit code, what was said in $scratch/RUN.log
run() {
    local name=$1 run=$2 folder=$3
    shift 3
    "$work/$name/run.sh" --data $case/tokens.safetensors --eval-data $case/eval.safetensors --init-from "$folder" \
        --adapter $case/adapter_init --out "$scratch/$run" "$@" >"$scratch/$run.log" 2>&1
}
value() { sed -n "s/.*\"$1\": \([-+.e0-9]*\).*/\1/p" "$2" | tail -n 1; }

# Weights quantised by bitsandbytes, and by the program: PEFT's run, but for the last bit of means.
run qwen2_nf4 quantised $quantised --save-every 4 --save-total-limit 0 ||
    verdict "a folder of bitsandbytes" "exit $?: $(tail -n 2 "$scratch/quantised.log")"
compare "a folder of bitsandbytes" reference $case "$scratch/quantised"
loss=$(value eval_loss "$scratch/quantised/history.jsonl")

# Killed and resumed: the same bits.
{ DIECAST_FAULT=kill9:rank=0:step=10 run qwen2_nf4 killed $quantised --save-every 4 --save-total-limit 0; } 2>/dev/null
verdict "killed" "$([ -d "$scratch/killed/checkpoint-8" ] && [ ! -e "$scratch/killed/DONE" ] || ls "$scratch/killed")"
run qwen2_nf4 killed $quantised --save-every 4 --save-total-limit 0 ||
    verdict "resumed" "exit $?: $(tail -n 2 "$scratch/killed.log")"
same "killed and resumed" killed quantised
# Another base, one code of which differs, is another model.
cp -r "$scratch/quantised" "$scratch/other"
rm "$scratch/other/DONE"
mkdir "$scratch/moved"
offset_of() {           # TENSOR: where its bytes begin in moved/model.safetensors
    local header at
    header=$(od -An -N8 -t u8 "$scratch/moved/model.safetensors")
    at=$(head -c $((header + 8)) "$scratch/moved/model.safetensors" |
        grep -ao "\"$1\":{[^}]*\"data_offsets\":\[[0-9]*" | grep -o '[0-9]*$')
    echo $((header + 8 + at))
}
damage() {              # TENSOR BYTES: over its first ones
    cp $quantised/* "$scratch/moved"
    printf "$2" | dd of="$scratch/moved/model.safetensors" bs=1 seek="$(offset_of "$1")" conv=notrunc 2>/dev/null
}
q=model.layers.0.self_attn.q_proj.weight
damage $q '\177'
run qwen2_nf4 other "$scratch/moved" --steps 21
verdict "another base" "$([ $? = 83 ] && grep -q 'base' "$scratch/other.log" || tail -n 2 "$scratch/other.log")"

# Neither do adapters go on over weights that are not quantised, or over others.
for way in "qwen2_nf4 qwen2_lora nf4 same" "qwen2_lora qwen2_nf4 same nf4"; do
    read -r first second had has <<<"$way"
    run "$first" "base.$first" $case/model --steps 2 --save-every 2 ||
        verdict "$first over the model" "$(tail -n 2 "$scratch/base.$first.log")"
    rm -f "$scratch/base.$first/DONE"
    run "$second" "base.$first" $case/model --steps 4
    verdict "lora.base=$had, then $has" "$([ $? = 83 ] &&
        grep -q "trained with lora.base=$had, this program has lora.base=$has; build the recipe with lora.base=$had" \
            "$scratch/base.$first.log" || tail -n 2 "$scratch/base.$first.log")"
done

# Adapters, and merged models without a word of quantisation, have the loss of the run.
evaluates() {           # TEST BOUND NAME FLAGS...
    local test=$1 bound=$2 name=$3
    shift 3
    "$work/$name/train" --eval-only --eval-data $case/eval.safetensors --out "$scratch/none" "$@" \
        >"$scratch/eval" 2>"$scratch/eval.log" || verdict "$test" "exit $?: $(tail -n 1 "$scratch/eval.log")"
    verdict "$test" "$(awk -v x="$(value eval_loss "$scratch/eval")" -v y="$loss" -v b="$bound" \
        'BEGIN { d = x > y ? x - y : y - x; if (x == "" || y == "" || !(d <= b * y)) print x, "and", y }')"
}
"$work/qwen2_nf4/train" --out "$scratch/quantised" --export "$scratch/adapter" >"$scratch/log" 2>&1 ||
    verdict "adapter" "$(tail -n 1 "$scratch/log")"
evaluates "adapter over the folder of bitsandbytes" 1e-15 qwen2_nf4 --init-from $quantised --adapter "$scratch/adapter"
"$work/qwen2_nf4/train" --out "$scratch/quantised" --merge-lora "$scratch/merged" >"$scratch/log" 2>&1 ||
    verdict "merged" "$(tail -n 1 "$scratch/log")"
evaluates "merged model" 1e-6 qwen2_tiny --init-from "$scratch/merged"
verdict "merged config.json" "$(grep -o 'quantization_config' "$scratch/merged/config.json")"

# refused TEST CODE TEXT [PROGRAM]: the folder moved/, by a run and before it
refused() {
    local code how
    for how in --dry-run ""; do
        run "${4:-qwen2_nf4}" refused "$scratch/moved" --force ${how:+"$how"}
        code=$?
        verdict "refused: $1${how:+, $how}" "$([ $code = $2 ] && grep -qF -- "$3" "$scratch/refused.log" ||
            echo "exit $code: $(grep '^rank' "$scratch/refused.log")")"
    done
}
edited() {              # FILE SED: a copy with that file edited; lines that are as long leave binary files in order
    cp $quantised/* "$scratch/moved"
    LC_ALL=C sed -i "$2" "$scratch/moved/$1"
}
edited config.json ""
refused "by a program with another base" 83 'this program was built for lora.base = "same"; gen ' qwen2_lora
edited config.json 's/"nf4"/"fp4"/'
refused FP4 83 'bnb_4bit_quant_type is fp4: supported is nf4; use the original model'
edited config.json 's/load_in_4bit": true/load_in_4bit": false/; s/load_in_8bit": false/load_in_8bit": true/'
refused int8 83 'load_in_8bit: int8 weights are not supported; use the original model'
edited config.json 's/double_quant": true/double_quant": false/'
refused "one quantisation" 83 'bnb_4bit_use_double_quant is not true'
edited config.json 's/"uint8"/"bfloat16"/'
refused "other storage" 83 'bnb_4bit_quant_storage is bfloat16: supported is uint8'
edited model.safetensors 's/"blocksize": 64/"blocksize": 32/g'
refused "other blocks" 83 'quant_state.bitsandbytes__nf4: blocksize is 32: supported is 64'
edited model.safetensors 's/"nested_blocksize": 256/"nested_blocksize": 128/g'
refused "other groups" 83 'nested_blocksize is 128: supported is 256'
name=$(printf '%-55s' '"model.layers.0.self_attn.rotary_emb.inv_freq":')      # which is not read
edited model.safetensors "s/\"$q.nested_absmax\":/$name/"
refused "no nested_absmax" 83 "$q.nested_absmax is missing: supported is NF4 with double quantisation"
edited model.safetensors 's/"nested_offset": 0/"nested_offset": x/g'
refused "a damaged state" 88 'bitsandbytes__nf4: line 1'
edited model.safetensors 's/"shape": \[48, 48\]/"shape": [48, 49]/g'
refused "another shape" 88 '"shape" is not that of the weight'
damage $q.nested_absmax '\000\000\300\177'
refused "NaN" 88 "$q.nested_absmax: holds NaN or Inf"
damage $q.quant_map '\000\000\000\000'
refused "another table" 83 "$q.quant_map: has other values than NF4 of bitsandbytes"
edited config.json ""
truncate -s -1 "$scratch/moved/model.safetensors"
refused "a short file" 88 model.safetensors
# Over the dequantised weights, a program with another base has the same bits: a process reward model by products along
# the gradient of its records, with recomputation; preferences with the base as reference.
for case in prm_lora dpo_lora; do
    # new adapters add nothing, and learn nothing at a rate of 0
    held=$(cd $ref/$case && ls eval.safetensors meta.safetensors 2>/dev/null)
    "$work/$case.nf4/run.sh" --init-from $ref/$case/model --data $ref/$case/tokens.safetensors \
        --${held%.*}-data $ref/$case/$held --steps 1 --lr 0 --out "$scratch/$case.new" >"$scratch/log" 2>&1 &&
        "$work/$case.nf4/run.sh" --out "$scratch/$case.new" --merge-lora "$scratch/$case.values" >"$scratch/log" 2>&1 ||
        verdict "$case, dequantised" "$(grep '^rank\|^train' "$scratch/log")"
    mkdir "$scratch/$case.ref"
    cp -rL $ref/$case/*.safetensors $ref/$case/adapter_init "$scratch/$case.ref"
    mv "$scratch/$case.values" "$scratch/$case.ref/model"
    cp -nL $ref/$case/model/* "$scratch/$case.ref/model"
    trained $case.nf4 $case $case.nf4
    ref=$scratch trained $case.same $case.ref $case.same
    same "$case, dequantised" $case.same $case.nf4 "$(basename "$scratch/$case.nf4"/checkpoint-* | grep -o '[0-9]*$')"
done
# gen new takes such a folder, for adapters.
"$gen" new "$scratch/new.lua" --from $quantised >"$scratch/log" 2>&1
verdict "gen new" "$(grep -q '^    lora = .* base = "nf4" },$' "$scratch/new.lua" &&
    grep -q 'LoRA rank 16: the weights are quantised to NF4$' "$scratch/log" || cat "$scratch/log")"
"$gen" new "$scratch/full.lua" --from $quantised --full >"$scratch/log" 2>&1
verdict "gen new --full" "$(grep -q 'weights in NF4 are not trained: set lora.rank and lora.base = "nf4"' "$scratch/log" ||
    cat "$scratch/log")"
exit $failed
