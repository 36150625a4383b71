#!/bin/bash
# Mistakes and contradictions in files that others made: each gives one line, before the first step; a file that is only
# unusual is read.
source "$(dirname "$0")/lib.sh"
programs <<'END'
gpt2_tiny gpt2_tiny
qwen2_tiny qwen2_tiny
qwen2_lora qwen2_lora
END
fresh() { rm -rf "$scratch/in" && cp -rL "$ref/$1" "$scratch/in"; }
# runs PROGRAM [FLAGS]: --dry-run with the files in $scratch/in, of $data; what it said is in $scratch/said
data=tokens.safetensors
runs() {
    timeout 60 "$work/$1/train" --data "$scratch/in/$data" --init-from "$scratch/in/model" \
        --out "$scratch/out" --dry-run "${@:2}" >"$scratch/said" 2>&1
}
# refuses NAME CODE TEXT PROGRAM [FLAGS]: one line, and this code
refuses() {
    local name=$1 want=$2 text=$3 code
    runs "${@:4}"
    code=$?
    verdict "$name" "$([ $code = "$want" ] || echo "exit $code, want $want: $(tail -n 2 "$scratch/said")"
        [ "$(grep -c '^\(rank\|train:\) ' "$scratch/said")" = 1 ] || echo "not one line: $(head -n 3 "$scratch/said")"
        grep -q -- "^\(rank\|train:\) .*$text" "$scratch/said" || echo "no '$text' in: $(head -n 3 "$scratch/said")")"
}

# ---- token files

fresh gpt2_tiny
sed -i 's/"documents":"11"/"documents":"12"/' "$scratch/in/tokens.safetensors"
refuses "another number of documents" 88 'tokens.safetensors: metadata documents: is 12, but the file has 11 documents' \
    gpt2_tiny
fresh gpt2_tiny
sed -i 's/"sha256":"c7e66be/"sha256":"c7e66bg/' "$scratch/in/tokens.safetensors"
refuses "a sha256 that is none" 88 'tokens.safetensors: metadata sha256: must be at most 64 hexadecimal digits' gpt2_tiny

# ---- weights

fresh gpt2_tiny
printf '\0\0\300\177' | dd of="$scratch/in/model/model.safetensors" bs=1 conv=notrunc status=none \
    seek=$(($(stat -c %s "$scratch/in/model/model.safetensors") - 4))
refuses "a NaN in a model" 88 'model.safetensors: transformer.wte.weight holds 1 NaN or Inf; --allow-nonfinite loads' gpt2_tiny
runs gpt2_tiny --allow-nonfinite
verdict "a NaN in a model, allowed" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
fresh qwen2_lora
printf '\0\0\200\377' | dd of="$scratch/in/adapter_init/adapter_model.safetensors" bs=1 conv=notrunc status=none \
    seek=$(($(stat -c %s "$scratch/in/adapter_init/adapter_model.safetensors") - 4))
refuses "an infinity in an adapter" 88 'adapter_model.safetensors: .* holds 1 NaN or Inf; --allow-nonfinite loads' qwen2_lora \
    --adapter "$scratch/in/adapter_init"

# ---- config.json and generation_config.json

# sets FILE JQ
sets() { jq "$2" "$scratch/in/model/$1" >"$scratch/new" && cp "$scratch/new" "$scratch/in/model/$1"; }
while IFS='|' read -r change text; do
    fresh qwen2_tiny
    sets config.json "$change"
    refuses "config.json: $change" 83 "config.json: $text" qwen2_tiny
done <<'END'
.eos_token_id = 300|eos_token_id is 300, but vocab_size is 257;
.eos_token_id = [256, 257]|eos_token_id is 257, but vocab_size is 257;
.eos_token_id = "256"|eos_token_id is "256": must be a token id or null;
.pad_token_id = 1.5|pad_token_id is 1.5: must be a token id or null;
.layer_types = ["full_attention"]|layer_types has 1 layers, but num_hidden_layers is 2;
.max_position_embeddings = 16|max_position_embeddings is 16, but this program was built for sequences of 32; .*seq.max=16
END
fresh qwen2_tiny
sets config.json '.eos_token_id = [256, 0] | .pad_token_id = -1 | .bos_token_id = null | .layer_types = null'
runs qwen2_tiny
verdict "config.json: lists, null and -1" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
for ids in '"x"' 257 '[0, 257]'; do
    echo "{\"eos_token_id\":$ids}" >"$scratch/in/model/generation_config.json"
    refuses "generation_config.json: $ids" 88 'generation_config.json: eos_token_id is .*; checkpoints copy this file' \
        qwen2_tiny
done

# ---- adapters

while IFS='|' read -r change code text; do
    fresh qwen2_lora
    (cd "$scratch/in/adapter_init" && eval "$change")
    refuses "adapter: $change" "$code" "$text" qwen2_lora --adapter "$scratch/in/adapter_init"
    [[ $text != target_modules* ]] || verdict "adapter: what to build" \
        "$(grep '^next: build with gen RECIPE lora.targets=NAME' "$scratch/said" >/dev/null || tail -n 1 "$scratch/said")"
done <<'END'
sed -i 's/"r": 4/"r": 8/' adapter_config.json|83|adapter_config.json: r is 8, this program was built for 4
sed -i 's/"target_modules": \[/&"lm_head", /' adapter_config.json|83|target_modules has "*lm_head"*, which this program does not adapt
echo '{' >adapter_config.json|88|adapter_config.json: line 2, byte 2: expected a key
rm adapter_config.json|88|adapter_config.json: No such file
rm adapter_model.safetensors|88|adapter_model.safetensors: No such file
: >adapter_model.safetensors|88|adapter_model.safetensors: not a safetensors file: 0 bytes
END

# ---- raw data

fresh gpt2_tiny
rows() { data=$3 refuses "$1" 88 "$2" gpt2_tiny --tokenizer bytes; }
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' | tee "$scratch/in/text.txt" \
    >"$scratch/in/rows.jsonl"
rows "rows that git-lfs left out" 'rows.jsonl: a pointer of git-lfs, .*: git lfs pull' rows.jsonl
rows "text that git-lfs left out" 'text.txt: a pointer of git-lfs, .*: git lfs pull' text.txt
echo '{"text":"a"}' | iconv -f UTF-8 -t UTF-32 >"$scratch/in/rows.jsonl"
rows "UTF-32" 'rows.jsonl: UTF-32 data, .*iconv -f UTF-32 -t UTF-8' rows.jsonl

# ---- the run folder; launchers

fresh gpt2_tiny
data=tokens.safetensors
touch "$scratch/file"
for out in file file/below; do
    "$work/gpt2_tiny/train" --data "$scratch/in/$data" --init-from none --out "$scratch/$out" --steps 1 >"$scratch/said" 2>&1
    verdict "--out $out" "$([ $? = 90 ] || tail -n 2 "$scratch/said"
        [ $out != file ] || grep -q -- '--out .*/file is not a folder: name another path' "$scratch/said" || cat "$scratch/said")"
done
trains() {
    "$work/gpt2_tiny/train" --data "$scratch/in/$data" --init-from none --out "$scratch/done" --steps 2 "$@" \
        >"$scratch/said" 2>&1
}
trains
rm -rf "$scratch"/done/checkpoint-*
before=$(sha256sum "$scratch/done/history.jsonl")
trains
verdict "a finished run whose checkpoints were deleted is not trained again" "$([ $? = 89 ] || tail -n 2 "$scratch/said"
    grep -q 'done: a finished run without checkpoints; --force moves its files aside' "$scratch/said" || cat "$scratch/said"
    [ "$(sha256sum "$scratch/done/history.jsonl")" = "$before" ] || echo "history.jsonl was changed")"
"$work/gpt2_tiny/train" --eval-data "$scratch/in/$data" --init-from "$scratch/in/model" \
    --out "$scratch/done" --eval-only >"$scratch/said" 2>&1
verdict "commands that only read take --init-from there" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
trains --force
verdict "--force moves its history aside" "$([ $? = 0 ] || tail -n 2 "$scratch/said"
    [ "$(sha256sum <"$scratch/done/aside-1/history.jsonl")" = "${before%% *}  -" ] || echo "not in aside-1")"
while read -r type text; do
    ACCELERATE_MIXED_PRECISION=$type refuses "accelerate launch --mixed_precision $type" 80 \
        "ACCELERATE_MIXED_PRECISION is $type, but .*precision=fp32: start it with --mixed_precision no$text" gpt2_tiny
done <<'END'
bf16 , or build it with gen .* precision=bf16 && make$
fp16 ; fp16 needs a GPU, and this program is for target=cpu; bf16 or fp32$
fp8 ; no program has it, only fp32|bf16|fp16$
END
ACCELERATE_MIXED_PRECISION=no runs gpt2_tiny
verdict "accelerate launch without a type" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
exit $failed
