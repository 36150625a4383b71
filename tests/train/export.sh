#!/bin/bash
# The files of a run load again with the same validation loss: model folders, adapters, merged models. The folders stay
# in out/.test/train/exported/ for tests/oracle/folders.sh, which shows them to transformers and PEFT.
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh
exported=$work/exported
rm -rf $exported
mkdir $exported
programs <<'END'
gpt2_tiny gpt2_tiny
llama_rows llama_rows
qwen2_tiny qwen2_tiny
mlm_bert mlm_bert
mlm_microbert mlm_microbert
mdm_llada mdm_llada
qwen2_lora qwen2_lora
qwen2_rslora qwen2_rslora
gemma_tiny gemma_tiny
gemma_lora gemma_lora
gemma3_tiny gemma3_tiny
gemma3_lora gemma3_lora
qwen3_tiny qwen3_tiny
qwen3_lora qwen3_lora
mistral_tiny mistral_tiny
mistral_lora mistral_lora
qwen2_untied qwen2_tiny model.layers=1 model.tied=false
gpt2_lora gpt2_lora
mlm_lora mlm_bert lora.rank=4 lora.targets=all-linear
gpt2_tiny.bf16 gpt2_tiny precision=bf16
qwen2_lora.bf16 qwen2_lora precision=bf16
llama_chat llama_rows lora.rank=8 lora.targets=all-linear
END

value() { sed -n "s/.*\"$1\": \([-+.e0-9]*\).*/\1/p" "$2" | tail -n 1; }
before() {              # RUN: the validation loss that it began with
    sed -n 's/.*"eval_loss": \([-+.e0-9]*\).*/\1/p' "$scratch/$1/history.jsonl" | head -n 1
}
# evaluates NAME CASE TEST WANTED BOUND FLAGS...: eval_loss of these weights; its JSON in $scratch/eval
evaluates() {
    local name=$1 case=$2 test=$3 want=$4 bound=$5
    shift 5
    "$work/$name/train" --eval-only --eval-data "$ref/$case/eval.safetensors" --out "$scratch/none" "$@" \
        >"$scratch/eval" 2>"$scratch/eval.log" ||
        { verdict "$test" "exit $?: $(tail -n 1 "$scratch/eval.log")"; return; }
    verdict "$test" "$(awk -v x="$(value eval_loss "$scratch/eval")" -v y="$want" -v b="$bound" \
        'BEGIN { d = x > y ? x - y : y - x; if (x == "" || y == "" || !(d <= b * y)) print x, "and", y }')"
}
writes() {              # TEST NAME FLAGS...
    local test=$1 name=$2
    shift 2
    "$work/$name/train" "$@" >"$scratch/write.log" 2>&1 || verdict "$test" "exit $?: $(tail -n 1 "$scratch/write.log")"
}

# The card of a folder that NAME wrote: its lines without the numbers of a run; no path is in it.
card() {                # NAME FOLDER PATTERN...
    local name=$1 folder=$2 pattern
    shift 2
    verdict "card $name" "$(for pattern; do
            grep -qE -- "$pattern" "$exported/$folder/README.md" || echo "no '$pattern'"
        done
        grep -nF -e "$scratch" -e "$PWD" -e "$ref" "$exported/$folder/README.md")"
}

# Weights in full: every number comes back, so the loss is equal to the last bit; bf16 programs round the same masters.
for name in gpt2_tiny llama_rows qwen2_tiny qwen3_tiny mistral_tiny gemma_tiny gemma3_tiny mlm_bert mlm_microbert \
    mdm_llada \
    gpt2_tiny.bf16; do
    case=${name%.bf16}
    trained $name $case $name
    loss=$(value eval_loss "$scratch/$name/history.jsonl")
    verdict "$name learned" "$([ "$loss" != "$(before $name)" ] || echo "loss is still $loss")"
    writes "export $name" $name --out "$scratch/$name" --export "$exported/$name"
    evaluates $name $case "export $name" "$loss" 1e-15 --init-from "$exported/$name"
    cp "$scratch/eval" "$exported/$name.json"
    evaluates $name $case "checkpoint of $name" "$loss" 1e-15 --init-from "$scratch/$name"/checkpoint-*
    # its tokenizer.json is words of ours, which transformers does not read
    [ $name = mlm_bert ] && [ -e $exported/$name/tokenizer.json ] &&
        card $name $name '^tokenizer = PreTrainedTokenizerFast\(tokenizer_file="tokenizer_hf.json", mask_token="\[MASK\]"'
    [ $name = gpt2_tiny ] || continue
    card $name $name '^library_name: transformers$' '^base_model: "model"$' '^pipeline_tag: text-generation$' \
        '^- diecast$' \
        '^\| objective \| lm \|$' '^\| data \| `tokens.safetensors` \|$' \
        '^\| validation data \| `eval.safetensors` \|$' \
        ' accumulated x 1 rank \|$' '^\| steps \| 20 of 20, ' '^\| `--lr` \| [0-9.e-]+ \|$' '^\| recipe \| `gpt2_tiny.lua`, [0-9a-f]{12} \|$' \
        '^\| last validation \| eval_loss \| [0-9.]+ \|$' '^model = AutoModelForCausalLM.from_pretrained'
    cp -r "$exported/$name" "$scratch/card"
    writes "card $name again" $name --out "$scratch/$name" --export "$scratch/card"
    verdict "card $name is the same" "$(cmp "$exported/$name/README.md" "$scratch/card/README.md" 2>&1)"
    writes "export $name in 16 bits" $name --out "$scratch/$name" --export "$exported/$name.as_bf16" \
        --export-dtype bfloat16
    evaluates $name $case "export $name in 16 bits" "$loss" 1e-3 --init-from "$exported/$name.as_bf16"
    cp "$scratch/eval" "$exported/$name.as_bf16.json"
done

# Layers of two kinds as 4.x writes them, a number and two bases; in another order they are refused.
gemma3=$exported/gemma3_tiny.4x
cp -r $exported/gemma3_tiny $gemma3
tr -d ' \n' <$exported/gemma3_tiny/config.json |
    sed 's/"rope_parameters":{[^}]*},*[^}]*}},*//; s/"layer_types":\[[^]]*\],//' >$gemma3/config.json
verdict "config.json of 4.x" "$(grep -Eo 'rope_parameters|layer_types' $gemma3/config.json)"
evaluates gemma3_tiny gemma3_tiny "layers of two kinds, config.json of 4.x" \
    "$(value eval_loss "$scratch/gemma3_tiny/history.jsonl")" 1e-15 --init-from $gemma3
sed -i 's/"sliding_window_pattern":2/"layer_types":["full_attention","sliding_attention","sliding_attention"]/
    s/"rope_local_base_freq":10000[.0]*/"rope_local_base_freq":20000/' $gemma3/config.json
"$work/gemma3_tiny/train" --eval-only --eval-data $ref/gemma3_tiny/eval.safetensors --out "$scratch/none" \
    --init-from $gemma3 >"$scratch/eval" 2>&1
code=$?
verdict "other layers of two kinds" "$([ $code = 83 ] &&
    grep -q 'sliding_window_pattern is \["full_attention",.*built for 2; rope_local_base_freq is 20000' \
    "$scratch/eval" ||
    tail -n 1 "$scratch/eval")"

# Adapters: equal to the last bit over their base; merged into it the sums are others.
while read -r name case plain bound; do
    trained $name $case $name
    loss=$(value eval_loss "$scratch/$name/history.jsonl")
    writes "adapter $name" $name --out "$scratch/$name" --export "$exported/$name"
    evaluates $name $case "adapter $name" "$loss" 1e-15 --init-from "$ref/$case/model" --adapter "$exported/$name"
    cp "$scratch/eval" "$exported/$name.json"
    writes "merged $name" $name --out "$scratch/$name" --merge-lora "$exported/$name.merged"
    evaluates $plain $case "merged $name" "$loss" "$bound" --init-from "$exported/$name.merged"
    cp "$scratch/eval" "$exported/$name.merged.json"
    [ $name = qwen2_lora ] || continue
    card "$name" $name '^library_name: peft$' '^base_model: "model"$' '^- lora$' '^model = PeftModel.from_pretrained' \
        '^\| LoRA \| rank 4, alpha 8, targets .*down_proj, gate_proj,.* \|$'
    card "merged $name" $name.merged '^library_name: transformers$' '; merged into the base \|$' \
        '^\| family \| qwen2, 49632 parameters, 5760 trained \|$'
    writes "merged $name in 16 bits" $name --out "$scratch/$name" --merge-lora "$exported/$name.as_fp16" \
        --export-dtype fp16
    evaluates $plain $case "merged $name in 16 bits" "$loss" 1e-3 --init-from "$exported/$name.as_fp16"
    cp "$scratch/eval" "$exported/$name.as_fp16.json"
done <<'END'
qwen2_lora qwen2_lora qwen2_tiny 1e-6
qwen2_rslora qwen2_rslora qwen2_untied 1e-6
gemma_lora gemma_lora gemma_tiny 1e-6
gemma3_lora gemma3_lora gemma3_tiny 1e-6
qwen3_lora qwen3_lora qwen3_tiny 1e-6
mistral_lora mistral_lora mistral_tiny 1e-6
gpt2_lora gpt2_tiny gpt2_tiny 1e-6
mlm_lora mlm_bert mlm_bert 1e-6
qwen2_lora.bf16 qwen2_lora qwen2_tiny 2e-3
END
# Tuned on chats over a base that ends its texts elsewhere and has no template: the folder, the adapter and both as one
# stop and talk as they were trained; of the base nothing else changes.
base=$exported/chat_base
cp -rL $ref/llama_rows/model $base
tiny_tokenizer $base
echo '{"eos_token":"<|endoftext|>"}' >$base/tokenizer_config.json
echo '{"_from_model_config":true,"eos_token_id":256,"temperature":0.5}' >$base/generation_config.json
for ((i = 0; i < 8; i++)); do
    printf '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"%s"}]}\n' a yes b no
done >"$scratch/chats.jsonl"
for name in llama_rows llama_chat; do
    "$work/$name/train" --init-from $base --data "$scratch/chats.jsonl" --out "$scratch/chat_$name" --steps 100 --lr 1e-2 \
        --save-every 0 >"$scratch/log" 2>&1 || verdict "chat_$name trains" "$(tail -n 1 "$scratch/log")"
done
writes "chat" llama_rows --out "$scratch/chat_llama_rows" --export $exported/chat
writes "chat adapter" llama_chat --out "$scratch/chat_llama_chat" --export $exported/chat_lora
writes "chat merged" llama_chat --out "$scratch/chat_llama_chat" --merge-lora $exported/chat_merged
for name in chat chat_lora chat_merged; do
    folder=$exported/$name
    verdict "$name: the ids that end a text" "$(tr -d ' \n' <$folder/generation_config.json |
        diff - <(printf '{"eos_token_id":[256,255],"temperature":0.5}'))"
    verdict "$name: the template" "$(diff tests/formats/chats/chatml.jinja $folder/chat_template.jinja 2>&1)"
    verdict "$name: the tokenizer" "$(cmp $base/tokenizer.json $folder/tokenizer.json 2>&1
        grep -q '"eos_token":.*"<|endoftext|>"' $folder/tokenizer_config.json || cat $folder/tokenizer_config.json)"
done
verdict "chat_lora: the tokenizer's class" "$(grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' \
    $exported/chat_lora/tokenizer_config.json || cat $exported/chat_lora/tokenizer_config.json)"
card chat_lora chat_lora '^tokenizer = AutoTokenizer.from_pretrained' '^model.generation_config = GenerationConfig.from_pret'
for name in chat chat_merged; do
    said=$(printf 'a\nb\n' | "$work/llama_rows/train" --init-from $exported/$name --greedy --chat 2>"$scratch/log")
    verdict "$name talks" "$(diff <(echo "$said") <(printf 'yes\nno\n'); grep -q "by the chat_template\|the chat_template in" \
        "$scratch/log" || cat "$scratch/log")"
done
writes "chat again" llama_rows --init-from $exported/chat --data "$scratch/chats.jsonl" --out "$scratch/chat_again" \
    --steps 1 --save-every 0
writes "chat again" llama_rows --out "$scratch/chat_again" --export $exported/chat_again
verdict "exported again: the same files" "$(for file in generation_config.json chat_template.jinja tokenizer.json \
    tokenizer_config.json; do cmp $exported/chat/$file $exported/chat_again/$file 2>&1; done)"
# A checkpoint has the tokenizer of the export, and its template where the base has another one, as an export does; a
# base without a template gets none, which a resumed run would read.
verdict "chat: checkpoints" "$(cd "$scratch/chat_llama_rows/checkpoint-100" &&
    for file in tokenizer.json tokenizer_config.json; do cmp $OLDPWD/$base/$file $file 2>&1; done
    ls chat_template.jinja 2>/dev/null)"
cp -r $base "$scratch/other"
echo '{"eos_token":"<|endoftext|>","chat_template":"{{ messages[0].content }}"}' >"$scratch/other/tokenizer_config.json"
"$gen" pack -o "$scratch/chats.safetensors" --tokenizer $exported/chat/tokenizer.json --max-length 64 \
    "$scratch/chats.jsonl" >"$scratch/log" 2>&1 || cat "$scratch/log"
writes "chat: checkpoints" llama_rows --init-from "$scratch/other" --data "$scratch/chats.safetensors" \
    --out "$scratch/chat_other" --steps 1
writes "chat: checkpoints" llama_rows --out "$scratch/chat_other" --export "$scratch/chat_other.again"
verdict "chat: checkpoints of a base with another template" "$(cd "$scratch/chat_other/checkpoint-1" &&
    cmp $OLDPWD/tests/formats/chats/chatml.jinja chat_template.jinja 2>&1
    for file in tokenizer.json tokenizer_config.json chat_template.jinja; do
        cmp "$scratch/chat_other.again/$file" $file 2>&1
    done)"
# Python's json refuses a byte order mark, and a template prints it: checkpoints and exports have none, and tokenizer and
# template stay the same.
cp -r $exported/chat "$scratch/marked"
for file in {config,generation_config,tokenizer,tokenizer_config}.json chat_template.jinja; do
    { printf '\xef\xbb\xbf'; cat $exported/chat/$file; } >"$scratch/marked/$file"
done
writes "byte order marks" llama_rows --init-from "$scratch/marked" --data "$scratch/chats.jsonl" \
    --out "$scratch/marked.run" --steps 1
writes "byte order marks" llama_rows --out "$scratch/marked.run" --export $exported/marked
verdict "byte order marks are not copied" "$(
    LC_ALL=C grep -lr $'^\xef\xbb\xbf' $exported/marked "$scratch"/marked.run/checkpoint-*
    for file in chat_template.jinja tokenizer.json; do cmp $exported/{chat,marked}/$file 2>&1; done)"
# a file that the first checkpoint or an export would stumble over ends a run before its first step
cp -r $base "$scratch/broken"
for text in '{"eos_token_id":' '[256]' ''; do
    printf '%s' "$text" >"$scratch/broken/generation_config.json"
    "$work/llama_rows/train" --init-from "$scratch/broken" --data "$scratch/chats.jsonl" --out "$scratch/none" --steps 1 \
        >"$scratch/log" 2>&1
    code=$?
    verdict "a broken generation_config.json: $text" "$([ $code = 88 ] &&
        grep -q 'step -: .*/generation_config.json: .*; checkpoints copy this file: repair it' "$scratch/log" ||
        echo "exit $code: $(cat "$scratch/log")")"
done

# A tokenizer that transformers would rebuild otherwise, by the class that the base names or by its model type: the
# export names the class that reads the file as it is; where transformers 5 takes none but its own, messages and the
# card say so.
odd() {                 # NAME CLASS JQ [CONFIG]: a model folder of that program whose tokenizer.json jq has changed,
                        # and by CONFIG its config.json
    local folder=$exported/odd_$1
    rm -rf "$folder"{,.again}
    cp -rL "$ref/$1/model" "$folder"
    tiny_tokenizer "$folder"
    jq -c "$3" "$folder/tokenizer.json" >"$scratch/odd.json" && mv "$scratch/odd.json" "$folder/tokenizer.json"
    jq -c "${4:-.}" "$folder/config.json" >"$scratch/odd.json" && mv "$scratch/odd.json" "$folder/config.json"
    printf '{"tokenizer_class":"%s","eos_token":"<|endoftext|>"}\n' "$2" >"$folder/tokenizer_config.json"
    writes "odd $1" "$1" --init-from "$folder" --export "$exported/odd_$1.again"
    cp "$scratch/write.log" "$scratch/odd.$1.log"
}
class_is() {            # NAME CLASS: of the export, and of the checkpoints of a run, which goes on from one
    local folder=$exported/odd_$1.again run=$scratch/odd_$1 file steps
    verdict "odd $1: tokenizer_class" "$(grep -q "\"tokenizer_class\": *\"$2\"" "$folder/tokenizer_config.json" ||
        cat "$folder/tokenizer_config.json")"
    rm -rf "$run"
    for steps in 1 2; do
        writes "odd $1: run" "$1" --init-from "$exported/odd_$1" --data "$scratch/odd.jsonl" --out "$run" --steps $steps
    done
    verdict "odd $1: checkpoints" "$(grep -q "resumed from .*/checkpoint-1$" "$scratch/write.log" ||
        cat "$scratch/write.log"
        for file in tokenizer.json tokenizer_config.json; do cmp "$folder/$file" "$run/checkpoint-2/$file" 2>&1; done)"
}
printf '{"text":"%s"}\n' "$(seq -s' ' 300)" >"$scratch/odd.jsonl"
odd gpt2_tiny GPT2Tokenizer .
class_is gpt2_tiny GPT2Tokenizer
odd llama_rows LlamaTokenizerFast '.pre_tokenizer.use_regex = false'
class_is llama_rows PreTrainedTokenizerFast
odd qwen3_tiny Qwen2Tokenizer '.pre_tokenizer.use_regex = false'
class_is qwen3_tiny PreTrainedTokenizerFast
odd gpt2_tiny '' . '.tokenizer_class = "Qwen2Tokenizer"'        # only config.json names a class
class_is gpt2_tiny PreTrainedTokenizerFast
odd qwen2_tiny Qwen2Tokenizer .
otherwise='transformers 5 reads each tokenizer.json of a qwen2 model as Qwen2Tokenizer, which replaces its normalizer: load'
verdict "odd qwen2_tiny: said" "$(grep -q "$otherwise it with PreTrainedTokenizerFast instead of Auto" \
    "$scratch/odd.qwen2_tiny.log" || cat "$scratch/odd.qwen2_tiny.log")"
card qwen2_tiny odd_qwen2_tiny.again '^tokenizer = PreTrainedTokenizerFast.from_pretrained'
writes "odd, beforehand" qwen2_tiny --init-from "$exported/odd_qwen2_tiny" --data "$scratch/odd.jsonl" --dry-run \
    --out "$scratch/none"
verdict "odd qwen2_tiny: said beforehand" "$(grep -q "$otherwise" "$scratch/write.log" || cat "$scratch/write.log")"
verdict "others are said nothing of" "$(grep -h 'transformers 5' "$scratch"/odd.{gpt2_tiny,llama_rows,qwen3_tiny}.log)"
# Random weights have the recipe's eos_token_id, 256, at which transformers would stop: where the tokenizer ends texts
# at another token, a note before training has the words that name it.
mkdir "$scratch/ends"
tiny_tokenizer "$scratch/ends"
for folder in "$scratch/ends" "$exported/odd_qwen2_tiny"; do
    writes "ends by the recipe" llama_rows --init-from none --tokenizer "$folder/tokenizer.json" \
        --data "$scratch/odd.jsonl" --dry-run --out "$scratch/none"
    grep model.eos "$scratch/write.log"
done >"$scratch/ends.log"
verdict "ends by the recipe: said" "$(sed 's/gen .* model.b/gen model.b/' "$scratch/ends.log" | diff - <(echo "model.eos is \
256, but the tokenizer ends texts with token 255; transformers would stop generating at token 256: gen model.bos=255 \
model.eos=255"))"

# Bytes get a tokenizer.json that others read; here it stays what it was, so that records of bytes go on.
printf '{"text":"Bytes \u00e9, as they are"}\n' >"$scratch/text.jsonl"
writes "bytes" llama_rows --init-from none --tokenizer bytes --data "$scratch/text.jsonl" \
    --out "$scratch/bytes" --steps 2 --save-every 0
writes "bytes" llama_rows --out "$scratch/bytes" --export $exported/bytes
"$gen" pack -o "$scratch/bytes.st" --tokenizer $exported/bytes/tokenizer.json "$scratch/text.jsonl" >"$scratch/log" 2>&1
verdict "bytes: tokenizer.json" "$(grep -q ' tokenizer bytes$' "$scratch/log" || cat "$scratch/log")"
writes "bytes go on" llama_rows --init-from $exported/bytes --data "$scratch/text.jsonl" --out "$scratch/bytes_on" --steps 1 \
    --save-every 0
rm $exported/bytes/{tokenizer,tokenizer_config}.json
writes "bytes go on, of a folder written before" llama_rows --init-from $exported/bytes --tokenizer bytes \
    --data "$scratch/text.jsonl" --out "$scratch/bytes_before" --steps 1 --save-every 0
writes "bytes" llama_rows --out "$scratch/bytes" --export $exported/bytes
exit $failed
