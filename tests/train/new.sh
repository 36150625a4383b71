#!/bin/bash
# The whole way of a model's folder that a user brings: gen new, gen, make, a run on conversations. What gen new takes
# is what --init-from takes: layouts of folders that are the same model, and those that are refused.
source "$(dirname "$0")/lib.sh"
source tests/tiny_tokenizer.sh
own=$PWD/$gen root=$PWD
for i in 1 2 3 4 5 6 7 8 9; do
    printf '{"messages":[{"role":"user","content":"Who is %d?"},' $i
    printf '{"role":"assistant","content":"It is %d."}]}\n' $((i * 7))
done >"$scratch/chat.jsonl"

# way NAME CASE WORDS...: in the folder $scratch/NAME, from the folder F in it
way() {
    local name=$1
    mkdir "$scratch/$name"
    cd "$scratch/$name" || exit 1
    cp -rL "$root/$ref/$2/model" F
    tiny_tokenizer F
    "$own" new mine.lua --from F --target cpu "${@:3}" >log 2>&1 && "$own" mine.lua >>log 2>&1 &&
        (cd "$root" && make_in_haste "$scratch/$name/out/mine") >>log 2>&1 &&
        out/mine/run.sh --data ../chat.jsonl --init-from F --steps 2 >>log 2>&1
    code=$?
    verdict "new $name" "$([ $code = 0 ] && grep -q 'chat format: chatml' log && [ -f out/mine/run/DONE ] ||
        echo "exit $code: $(tail -n 3 log)")"
    cd "$root" || exit 1
}
way llama llama_tiny
way qwen2 qwen2_tiny --lora 4

# ---- adapters on raw data go on without the flags that named model and tokenizer: with the base's tokenizer, and with
# the checkpoint's copy of one that was named, also once that checkpoint is gone
cd "$scratch/qwen2" || exit 1
tune() {
    out/mine/train --data ../chat.jsonl --schedule constant --save-every 1 --save-total-limit 2 --out "$@" >>log 2>&1
}
cp -r F bare
mkdir T && mv bare/tokenizer*.json T && cp bare/config.json T
tune straight --init-from F --steps 6
tune base --init-from F --steps 2 --run_name other && tune base --steps 6
verdict "the run's name in TensorBoard" "$([ "$(ls base/runs straight/runs | paste -sd ' ')" = \
    "base/runs: other  straight/runs: mine" ] || ls base/runs straight/runs)"
verdict "adapters go on with the base's tokenizer" "$(cmp {straight,base}/checkpoint-6/adapter_model.safetensors 2>&1)"
tune named --init-from bare --tokenizer T/tokenizer.json --steps 2 && tune named --steps 6
verdict "adapters go on with the checkpoint's tokenizer" \
    "$(cmp {straight,named}/checkpoint-6/adapter_model.safetensors 2>&1 || tail -n 2 log)"
cd "$root" || exit 1

# ---- other layouts of a folder: gen new writes the same recipe, the program takes it in; or both refuse
cd "$scratch/llama" || exit 1
"$own" pack -o chat.st --tokenizer F/tokenizer.json ../chat.jsonl >log 2>&1 || verdict "new pack" "$(cat log)"
model() { sed -n '/^    model/,/^    seq/p' "$1"; }
model mine.lua >model
takes() {               # the program, of the folder M
    out/mine/train --eval-only --eval-data chat.st --out none --init-from M >program.log 2>&1
}
layout() {              # NAME WANT COMMAND: same or refused, of what the command makes of the folder M
    local name=$1 want=$2 gen_found=refused program_found=refused
    rm -rf M M.lua
    cp -r F M
    (cd M && eval "$3") || verdict "new layout $name" "was not made"
    if "$own" new M.lua --from M --target cpu >gen.log 2>&1; then
        gen_found=same
        model M.lua | cmp -s - model || gen_found="another: $(model M.lua)"
    fi
    takes && program_found=same
    verdict "new layout $name" "$([ "$gen_found $program_found" = "$want $want" ] ||
        echo "gen: $gen_found ($(tail -n 1 gen.log)), program: $program_found ($(tail -n 1 program.log)), want $want")"
}
layout plain same :
layout "without generation_config" same 'rm generation_config.json'
layout "a cache's links" same 'mkdir ../blobs && for f in *; do mv $f ../blobs/ && ln -s ../blobs/$f $f; done'
layout "unknown keys" same 'sed -i "s/\"vocab_size\"/\"theirs\": {\"a\": [1]}, &/" config.json'
old='"rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,'
old+=' "high_freq_factor": 4.0, "original_max_position_embeddings": 16}'
layout "keys of transformers 4" same 'tr -d "\n" <config.json >c &&
    sed -E "s/\"rope_parameters\": *\{[^}]*\}/$old/; s/\"dtype\"/\"torch_dtype\"/" c >config.json && rm c'
layout "head_dim left out" same 'sed -i "/head_dim/d" config.json'
shards='mv model.safetensors model-00001-of-00001.safetensors; { printf "{\"weight_map\": {"
    head -c 3000 model-00001-of-00001.safetensors | grep -aoE "\"(model|lm_head)[^\"]*\"" |
    sed "s/$/: \"model-00001-of-00001.safetensors\"/" |
    paste -sd,; echo "}}"; } >model.safetensors.index.json'
layout shards same "$shards"
layout "a shard missing" refused "$shards; rm model-0*"
layout "a tensor missing" refused 'sed -i "s/model.norm.weight/model.morn.weight/" model.safetensors'
layout "damaged weights" refused 'truncate -s 3000 model.safetensors'
layout "pickle alone" refused 'mv model.safetensors pytorch_model.bin'
layout quantised refused 'sed -i "s/\"vocab_size\"/\"quantization_config\": {\"bits\": 4}, &/" config.json'
layout "another activation" refused 'sed -i "s/\"silu\"/\"relu\"/" config.json'
layout "biases" refused 'sed -i "s/\"mlp_bias\": false/\"mlp_bias\": true/" config.json'
layout "another rope" refused 'sed -i "s/\"llama3\"/\"yarn\"/" config.json'
layout "ropes that differ" refused \
    'sed -i "s/\"vocab_size\"/\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}, &/" config.json'
layout "tied, with another head" refused \
    'sed -i "s/\"tie_word_embeddings\": false/\"tie_word_embeddings\": true/" config.json'
layout "another family" refused 'sed -i "s/\"model_type\": \"llama\"/\"model_type\": \"mamba\"/" config.json'
layout "no config" refused 'rm config.json'
exit $failed
