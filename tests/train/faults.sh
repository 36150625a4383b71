#!/bin/bash
# Bad input, full disks, stops and kills: the exact exit code, one line that says why, and nothing
# lost. KILLS=n, SEED=n; INJECT=1: every kind of fault at two and at four ranks.
# shellcheck disable=SC2086      # $ours is two words
source "$(dirname "$0")/lib.sh"
case=gpt2_tiny
ours="--data $ref/$case/tokens.safetensors"
programs <<'END'
gpt2_tiny gpt2_tiny
gpt2_tiny.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2
gpt2_tiny.4x1x2 gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
llama_rows llama_rows
qwen2_lora qwen2_lora
qwen2_lora.2 qwen2_lora gpus=2 batch.micro=2
wide gpt2_tiny model.hidden=48
few llama_rows batch.targets=80
END
mounts=
trap 'for m in $mounts; do umount "$m"; done; rm -rf "$scratch"' EXIT

# ---- making bad files --------------------------------------------------

header() { echo $((8 + $(od -An -tu8 -N8 "$1"))); }      # bytes in front of the data of a safetensors file
poke() {                # FILE OFFSET HEX...: writes bytes; a negative offset counts from the end
    local file=$1 at=$2
    shift 2
    [ "$at" -lt 0 ] && at=$(($(stat -c %s "$file") + at))
    printf "$(printf '\\x%s' "$@")" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
}
place() { head -c "$(header "$1")" "$1" | grep -abo "\"$2\":" | head -n 1 | cut -d: -f1; }
begin() { head -c "$(header "$1")" "$1" | grep -ao "\"$2\":{[^}]*}" | sed 's/.*offsets":\[\([0-9]*\),.*/\1/'; }
renamed() {             # FILE OLD NEW: a name in the header, of the same length
    poke "$1" $(($(place "$1" "$2") + 1)) $(printf '%s' "$3" | od -An -tx1)
}
fresh() { rm -rf "$scratch/in"; mkdir "$scratch/in"; cp -r $ref/$case/model $ref/$case/*.safetensors "$scratch/in"; }
tokens=$scratch/in/tokens.safetensors
weights=$scratch/in/model/model.safetensors

# ---- refusals --------------------------------------------------

# waits COMMAND...: until it succeeds, a minute at most: a hang
waits() {
    for ((i = 0; i < 1200; i++)); do "$@" && return; sleep 0.05; done
}
taken() {               # PID: SIGTERM has reached it; two that wait would be one
    ! grep -q '^ShdPnd:.*[4567cdef]...$' "/proc/$1/status" 2>/dev/null
}

# misled FILE: the line of advice if it is of another cause than the message: of the build, of a full disk
misled() {
    grep -q 'this program was built' "$1" || grep '^next: .*--version' "$1"
    grep -q -e 'No space left' -e 'quota' "$1" || grep '^next: make room' "$1"
    grep -q -e 'gen [^ ]*\.lua ' -e 'gen pack --' "$1" || grep '^next: run that gen' "$1"
}
# refuses NAME CODE TEXT PROGRAM ARGS...: that code, one line with that text, and no step was taken
refuses() {
    local name=$1 want=$2 text=$3 program=$4 code
    shift 4
    timeout 300 "$work/$program/train" --out "$scratch/out" "$@" >"$scratch/said" 2>&1
    code=$?
    verdict "$name" "$([ $code = "$want" ] || echo "exit $code, want $want: $(tail -n 1 "$scratch/said")"
        [ "$(grep -c '^\(rank\|train:\) ' "$scratch/said")" = 1 ] || echo "not one line: $(head -n 3 "$scratch/said")"
        grep -q -- "^\(rank\|train:\) .*$text" "$scratch/said" || echo "no '$text' in: $(head -n 3 "$scratch/said")"
        [ "$(sed -n '/^\(rank\|train:\) /{n;p}' "$scratch/said" | grep -c '^next: ')" = 1 ] ||
            echo "what next: $(tail -n 2 "$scratch/said")"
        misled "$scratch/said"
        grep -q '^step ' "$scratch/said" && echo "it trained")"
    rm -rf "$scratch/out"
}
data() { refuses "$1" "$2" "$3" gpt2_tiny --data "$tokens" --init-from $ref/$case/model; }
model() { refuses "$1" "$2" "$3" gpt2_tiny $ours --init-from "$scratch/in/model"; }

refuses "no data" 80 "--data" gpt2_tiny
refuses "data file is missing" 88 "nowhere.safetensors" gpt2_tiny --data "$scratch/nowhere.safetensors"
refuses "raw data without a tokenizer" 80 "README.md is not a record file, .* needs a tokenizer: --tokenizer" gpt2_tiny \
    --data README.md
refuses "raw data, a model without a tokenizer" 80 "there is none in the folder of --init-from" gpt2_tiny \
    --data README.md --init-from $ref/$case/model
raw() { refuses "$1" "$2" "$3" gpt2_tiny --tokenizer bytes --data "${@:4}"; }
mkdir "$scratch/raw"
raw "raw data is a folder without any" 88 "raw: a folder without files that end in .jsonl" "$scratch/raw"
printf '{"text":"a"}\n{"text":1}\n' >"$scratch/raw/a.jsonl"
raw "a bad row of raw data" 88 "--data: .*raw/a.jsonl:2: text: must be a string$" "$scratch/raw/a.jsonl"
# before the data are read, which cannot be
raw "a model of the hub" 80 "--init-from Org/M-1: no such folder; .*hf download Org/M-1 --local-dir M-1" \
    "$scratch/raw/a.jsonl" --init-from Org/M-1
raw "flags before raw data, which may take minutes to pack" 80 "--patience: this run has no validations" \
    "$scratch/raw/a.jsonl" --patience 1
(ulimit -n 10; raw "raw data, few open files" 90 "Too many open files$" "$scratch/raw/a.jsonl") | tee "$scratch/few"
verdict "raw data, few open files: what to do" "$(grep -q '^not ok' "$scratch/few" && echo "see above"
    sed -n '/^next: /p' "$scratch/said" | grep -v '^next: allow more open files (ulimit -n 4096); then ')"
raw "a bad row in a folder" 88 "--data: .*raw/a.jsonl:2: text: must be a string" "$scratch/raw"
raw "rows of another kind" 88 "with masked prompts, which .*built for data.kind=packed: gen .*\.lua.* data.kind=rows builds" \
    - <<<'{"prompt":"a","completion":"b"}'
verdict "rows of another kind: what to do" "$(grep -q '^next: run that gen command and make; then .*gpt2_tiny' \
    "$scratch/said" || tail -n 1 "$scratch/said")"
# of formats whose code the program does not have: never a row that is read as another
raw "rows of pairs" 88 \
    "the output is packed, and pairs cannot be part of it .built for data.kind=packed; another objective trains on these pairs: gen .*\.lua.* data.kind=pairs names it)$" - <<<'{"prompt":"a","chosen":"b","rejected":"c"}'
verdict "rows of pairs: what to do" "$(grep -q '^next: that gen command names the objective; ' "$scratch/said" ||
    tail -n 1 "$scratch/said")"
raw "rows of solutions in steps" 88 "cot_response: step-labelled solutions are for the objective prm$" \
    - <<<'{"cot_response":"### Step 1: a","text":"b"}'
printf '{"text":"%s","tools":[{}]}\n' "$(head -c 4000 /dev/zero | tr '\0' a)" >"$scratch/keys.jsonl"
raw "a key of raw data that is not read" 88 \
    "--data: $scratch/keys.jsonl:1: .*: tools (1 row: .*gpt2_tiny/run.sh .* --data .* --ignore-keys tools" \
    "$scratch/keys.jsonl"
raw "raw data and a record file" 80 "a.jsonl is raw data and .*tokens.safetensors is a record file" \
    "$scratch/raw/a.jsonl,$ref/$case/tokens.safetensors"
raw "raw data and a file that is not there" 88 "--data: $scratch/none: No such file or directory" \
    "$scratch/raw/a.jsonl,$scratch/none"
raw "standard input twice" 80 "standard input can be read once" - --eval-data -
printf '\x7fELF\2\1\1\0\0\0' >"$scratch/raw/program"
raw "binary data" 88 "/program: byte 7 is 0: binary data" "$scratch/raw/program"
refuses "a share of nothing" 80 "--eval-share is a share of --data" gpt2_tiny --bench-steps 1 --eval-share 0.1
refuses "a share and a file" 80 "--eval-share and --eval-data both" gpt2_tiny $ours --eval-share 0.1 \
    --eval-data $ref/$case/eval.safetensors
refuses "a share that leaves nothing" 88 "of 1 samples, 0 and 1 are for training and validation" gpt2_tiny $ours \
    --max-samples 1 --eval-share 0.5
refuses "a floor above the peak" 80 "--min-lr 1 is above --lr 0.001, the peak of the schedule: lower it" gpt2_tiny $ours \
    --schedule cosine_with_min_lr --lr 1e-3 --min-lr 1
refuses "a floor of the schedule above the peak" 80 "--min-lr 1e-07 is above --lr 1e-08, the peak of the schedule" \
    gpt2_tiny $ours --schedule polynomial --lr 1e-8
# shellcheck disable=SC2086
"$work/gpt2_tiny/train" $ours --out "$scratch/none" --dry-run --steps 20 --warmup 40 \
    --eval-data $ref/$case/tokens.safetensors >"$scratch/said" 2>&1
verdict "what a run is unlikely to want is said" "$(for line in '^--warmup 40: the run has only 20 steps and ends at 0.475 of ' \
    '^--eval-data has the data of --data: '; do grep -q -- "$line" "$scratch/said" || echo "no $line: $(cat "$scratch/said")"; done
    "$work/gpt2_tiny/train" $ours --out "$scratch/none" --dry-run --steps 20 --warmup 4 \
        --eval-data $ref/$case/eval.safetensors 2>&1 | grep 'has only\|has the data')"
refuses "samples of no number" 80 "--max-samples: must be an integer .* got \"5kk\"" gpt2_tiny $ours --max-samples 5kk
fresh; truncate -s -1 "$tokens"; data "token file cut by a byte" 88 "tokens.safetensors"
fresh; : >"$tokens"; data "token file of no bytes" 88 "tokens.safetensors"
fresh; seq 1000 | gzip -n | tail -c 300 >"$tokens"; data "token file of noise" 88 "tokens.safetensors"
fresh; cp "$weights" "$tokens"; data "weights instead of tokens" 88 "tokens.safetensors"
fresh; at=$(($(header "$tokens") + $(begin "$tokens" tokens)))
poke "$tokens" $((at + 400)) 01 01 00 00; data "id beyond the vocabulary" 88 "257"
fresh; poke "$tokens" $((at + 404)) ff ff ff ff; data "negative id" 88 "-1"
fresh; poke "$tokens" $(($(place "$tokens" vocab) + 9)) 32 35 38; data "other vocabulary" 83 "258"
refuses "rows for a packed recipe" 83 "rows" gpt2_tiny --data $ref/llama_rows/tokens.safetensors
refuses "packed for a rows recipe" 83 "packed" llama_rows --data $ref/gpt2_tiny/tokens.safetensors
fits="gen $here/recipes/llama_rows.lua batch.targets=96"
refuses "more targets than the head takes" 88 \
    "llama_rows/tokens.*of 4 samples may have 96 targets, this program takes 80: $fits" few \
    --data $ref/llama_rows/tokens.safetensors
refuses "more targets in an evaluation" 88 "llama_rows/eval.* takes 80: .*batch.targets=83" few \
    --eval-only --eval-data $ref/llama_rows/eval.safetensors --init-from $ref/llama_rows/model
refuses "other tokenizer" 83 "tokenizer" gpt2_tiny $ours \
    --tokenizer tests/tokenizer/gpt2/tokenizer.json
fresh; cp tests/tokenizer/gpt2/tokenizer.json "$scratch/in/model"
other="packed with tokenizer bytes, $scratch/in/model/tokenizer.json is crc32c:55c877c1:11891: .*gen pack\
 --tokenizer $scratch/in/model/tokenizer.json"
model "another tokenizer than the model's" 83 "$case/tokens.* $other -o "
refuses "rows of another tokenizer" 83 "$other --max-length 32 -o .*/llama_rows/tokens" llama_rows \
    --data $ref/llama_rows/tokens.safetensors --init-from "$scratch/in/model"
refuses "evaluation with another tokenizer" 83 "$case/eval.* $other" gpt2_tiny --eval-only \
    --eval-data $ref/$case/eval.safetensors --init-from "$scratch/in/model"
refuses "another tokenizer than the base's" 83 "$other" qwen2_lora --init-from $ref/qwen2_lora/model \
    --data $ref/qwen2_lora/tokens.safetensors --adapter "$scratch/in/model"
refuses "sample with more ids than the model" 83 "618 ids, the model 257" gpt2_tiny --sample a \
    --init-from "$scratch/in/model"
refuses "sample with a folder" 80 "name tests/tokenizer/gpt2/tokenizer.json" gpt2_tiny --sample a \
    --init-from $ref/$case/model --tokenizer tests/tokenizer/gpt2
fresh; ln -s nowhere "$scratch/in/model/tokenizer.json"
model "a model whose tokenizer is a link that leads nowhere" 88 "$scratch/in/model/tokenizer.json: "
retold() { fresh; sed -i 's/"tokenizer":"bytes"/"tokenizer":"bytez"/' "$scratch"/in/*.safetensors; }
retold
refuses "evaluation data of another tokenizer" 83 "eval.safetensors was packed with tokenizer bytez, .*\
tokens.safetensors with bytes: " gpt2_tiny $ours --eval-data "$scratch/in/eval.safetensors"
printf 'short' >"$scratch/short.txt"
"$gen" pack -o "$scratch/short.safetensors" "$scratch/short.txt" >/dev/null
refuses "less than a sample" 88 "6 tokens" gpt2_tiny --data "$scratch/short.safetensors"

refuses "model folder is missing" 80 "nowhere" gpt2_tiny $ours --init-from "$scratch/nowhere"
fresh; rm "$weights"; model "no weights" 83 "model.safetensors"
fresh; rm "$scratch/in/model/config.json"; model "no config.json" 88 "config.json"
fresh; truncate -s -4 "$weights"; model "weights cut" 88 "model.safetensors"
fresh; poke "$weights" 0 ff ff ff ff ff ff ff 7f; model "header of 2^63 bytes" 88 "model.safetensors"
fresh; poke "$weights" 8 5b; model "header is no object" 88 "model.safetensors"
fresh; poke "$weights" -4 00 00 c0 7f; model "NaN weight" 88 "wte.weight holds 1 NaN"
fresh; poke "$weights" -4 00 00 80 ff; model "infinite weight" 88 "wte.weight holds 1 NaN or Inf"
fresh; renamed "$weights" transformer.wpe.weight transformer.wpx.weight
model "tensor of another name" 83 "transformer.wpx.weight"
fresh; sed -i 's/"shape":\[257,64\]/"shape":[64,257]/' "$weights"
model "tensor of another shape" 83 "transformer.wte.weight"
fresh; sed -i 's/"n_head": 4/"n_head": 8/' "$scratch/in/model/config.json"
model "config.json with other heads" 83 "n_head"
fresh; sed -i 's/"gpt2"/"llama"/' "$scratch/in/model/config.json"
model "config.json of another family" 83 "llama"
fresh; sed -i 's/"n_layer": 2,/"n_layer": 2/' "$scratch/in/model/config.json"
model "config.json is no JSON" 88 "config.json: line"
refuses "weights of another model" 83 "config.json" gpt2_tiny $ours --init-from $ref/llama_tiny/model
refuses "adapter for a program without" 80 "no LoRA" gpt2_tiny $ours \
    --adapter $ref/qwen2_lora/adapter_init
refuses "adapter of other modules" 83 "adapter" qwen2_lora --data $ref/qwen2_lora/tokens.safetensors \
    --init-from $ref/qwen2_lora/model --adapter $ref/qwen2_rslora/adapter_init

mkdir "$scratch/elsewhere"
for folder in logs runs .dataset_cache; do
    mkdir "$scratch/out"
    ln -s "$scratch/elsewhere" "$scratch/out/$folder"
    refuses "OUT/$folder is a link" 90 "out/$folder: a symbolic link; replace it by a folder" gpt2_tiny --data README.md \
        --tokenizer bytes
done
mkdir "$scratch/linked"
ln -s "$scratch/elsewhere" "$scratch/linked/plots"
train gpt2_tiny $case linked --steps 2 --figures true
verdict "nothing is written where a run folder leads" "$(ls -A "$scratch/elsewhere")"
rm -rf "$scratch"/{elsewhere,linked}
OMP_NUM_THREADS=99999 refuses "too many threads" 80 "OMP_NUM_THREADS asks for 99999 threads .*at most" gpt2_tiny $ours
refuses "a name with control characters" 88 '/x\\x1b\[31m\\x0a\\xc2\\x9by: ' gpt2_tiny \
    --data "$scratch/x"$'\e[31m\n\xc2\x9by'
refuses "a name of 3000 characters" 88 "[/n]\{1900\}\.\.\.$" gpt2_tiny \
    --data "$scratch$(printf '/%0100d' {1..30} | tr 0-9 n)"
: >"$scratch/file"
refuses "OUT is a file" 90 "$scratch/file" gpt2_tiny $ours --out "$scratch/file"
refuses "OUT below a file" 90 "$scratch/file/run" gpt2_tiny $ours --out "$scratch/file/run"
refuses "--resume last of nothing" 89 "" gpt2_tiny $ours --resume last
refuses "wrong flag value" 80 "--lr" gpt2_tiny $ours --lr 1e9

# ---- raw data --------------------------------------------------

# They are packed once, by rank 0, and train as what gen pack makes of them; a run goes on on either.
head -c 4000 README.md >"$scratch/raw/b.txt"
tail -c 3000 README.md >"$scratch/raw/c.txt"
rm "$scratch/raw/a.jsonl"
"$gen" pack -o "$scratch/raw.safetensors" "$scratch/raw" >/dev/null
packs() {               # PROGRAM RUN DATA ARGS...: two steps
    local program=$1 run=$2
    shift 2
    "$work/$program/run.sh" --out "$scratch/$run" --tokenizer bytes --save-every 0 --log-every 1 --steps 2 --data "$@" \
        >"$scratch/$run.log" 2>&1 || verdict "$run trains" "exit $?: $(tail -n 1 "$scratch/$run.log")"
}
said() { verdict "$1" "$(grep -q -- "$3" "$scratch/$2.log" || echo "no '$3' in: $(head -n 5 "$scratch/$2.log")")"; }
cached() { verdict "$1" "$([ "$(ls "$scratch/$2/.dataset_cache" | wc -l)" = "$3" ] ||
    ls -A "$scratch/$2/.dataset_cache")"; }
for program in gpt2_tiny gpt2_tiny.2x2x2; do
    packs $program raw.1 "$scratch/raw"
    said "raw data are packed, $program" raw.1 "^data: $scratch/raw.1/.dataset_cache/[0-9a-f]*/records.safetensors: packed, 2 documents, 7002 tokens"
    packs $program raw.2 "$scratch/raw.safetensors" --num-workers 2 --streaming false
    compare "raw and packed data, $program" history "$scratch/raw.1" "$scratch/raw.2" 0
    packs $program raw.1 "$scratch/raw" --steps 3
    said "packed once, $program" raw.1 "^data: --data was packed before: $scratch/raw.1/.dataset_cache/"
    said "it resumes, $program" raw.1 "^resumed from $scratch/raw.1/checkpoint-2"
    cached "nothing else is in the cache, $program" raw.1 1
    packs $program raw.2 "$scratch/raw/b.txt,$scratch/raw/c.txt" --steps 3
    said "a run goes on on raw data, $program" raw.2 "^resumed from $scratch/raw.2/checkpoint-2"
    rm -rf "$scratch"/raw.[12]
done
packs gpt2_tiny raw.3 - --eval-share 0.25 --max-samples 12 <"$scratch/raw/b.txt"
said "standard input" raw.3 "^data: .*: packed, 1 document, 4001 tokens"
said "the last of the first samples validate" raw.3 "^  data       9 samples of "
said "and only those" raw.3 "^  [a-z]*  *3 samples of .* batches a rank"
packs gpt2_tiny raw.4 "$scratch/raw/b.txt" --out "$scratch/raw.3" --bench-steps 1 --max-samples 12
said "the same text by name" raw.4 "was packed before"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore-keys tools
said "a key that is left out" raw.5 "^data: .*: packed, 1 document, 4001 tokens"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore_keys=tools --steps 3
said "a key that was left out" raw.5 "was packed before"
said "a run goes on without it" raw.5 "^resumed from $scratch/raw.5/checkpoint-2"
# The name of the cache of a release in which answers began at other tokens, with a file that nobody can read.
mv "$scratch"/raw.5/.dataset_cache/*-2 "$scratch/raw.5/other"
: >"$scratch/raw.5/other/records.safetensors"
mv "$scratch/raw.5/other" "$(sed -n 's/^data: --data was packed before: \(.*\)-2.records.safetensors.*/\1/p' "$scratch/raw.5.log")"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore_keys=tools --steps 4
said "rows packed by other rules" raw.5 "^data: $scratch/raw.5/.dataset_cache/[0-9a-f]*: packed by another release, .*; packed again$"
said "a run goes on on rows that were packed again" raw.5 "^resumed from $scratch/raw.5/checkpoint-3"
"$work/gpt2_tiny/run.sh" --out "$scratch/raw.5" --tokenizer bytes --data "$scratch/keys.jsonl" --steps 4 \
    --ignore_keys id >"$scratch/raw.5.log" 2>&1
verdict "packed rows do not hide a key" "$([ $? = 88 ] && grep -q -- "--steps 4 --ignore-keys id,tools" \
    "$scratch/raw.5.log" || tail -n 3 "$scratch/raw.5.log")"
printf '{"text":"%s"}\n{"text":7}\n' "$(head -c 4000 /dev/zero | tr '\0' a)" >"$scratch/bad.jsonl"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip-bad 2
said "a malformed row" raw.6 "^data: .*: packed, 1 document, 4001 tokens, all targets, 1 malformed;"
said "a malformed row is listed" raw.6 "^  $scratch/bad.jsonl:2: text: must be a string"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip_bad=2 --steps 3
said "a malformed row is packed once" raw.6 "was packed before"
said "a row that was left out before" raw.6 "^malformed rows left out: 1 (file:line 1:2)"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip-bad 3 --steps 4
said "another --skip-bad packs again" raw.6 "^data: .*: packed, 1 document"
said "a run goes on without the same rows" raw.6 "^resumed from $scratch/raw.6/checkpoint-3"
"$work/gpt2_tiny/run.sh" --out "$scratch/raw.6" --tokenizer bytes --data "$scratch/bad.jsonl" --steps 5 \
    --skip-bad 0 >"$scratch/raw.6.log" 2>&1
verdict "packed rows do not hide a malformed one" "$([ $? = 88 ] && grep -q -- "--data: $scratch/bad.jsonl:2: text: must" \
    "$scratch/raw.6.log" || tail -n 3 "$scratch/raw.6.log")"
refuses "--skip-bad of a record file" 80 "--skip-bad: .*tokens.safetensors is packed, already without the rows that" gpt2_tiny \
    $ours --skip-bad 1
echo more >>"$scratch/raw/b.txt"
packs gpt2_tiny raw.4 "$scratch/raw/b.txt" --out "$scratch/raw.3" --bench-steps 1
cached "other text, another file" raw.3 2
# Files next to tokenizer.json name the special tokens: with another eos_token the same text gives other records, on
# which a run does not go on by itself.
. tests/tiny_tokenizer.sh
mkdir "$scratch/raw.special"
tiny_tokenizer "$scratch/raw.special"
special="$scratch/raw --tokenizer $scratch/raw.special/tokenizer.json"
packs gpt2_tiny raw.7 $special
cp -r "$scratch/raw.7" "$scratch/raw.8"
sed -i 's/"eos_token":"<|im_end|>"/"eos_token":"<|endoftext|>"/' "$scratch/raw.special/tokenizer_config.json"
refuses "a run goes on with another eos_token" 83 \
    "data: ids of eos, mask, pad and bos 255,-1,-1,-1 -> 256,-1,-1,-1; --allow" gpt2_tiny --data $special --out "$scratch/raw.8" --steps 3
packs gpt2_tiny raw.7 $special --force
said "another eos_token packs again" raw.7 "was packed before the tokenizer's special tokens changed; packed again$"
packs gpt2_tiny raw.9 $special
verdict "records have the eos_token of today" "$(cmp "$scratch"/raw.{7,9}/.dataset_cache/*/records.safetensors 2>&1)"
packs gpt2_tiny raw.9 $special --steps 3
said "the same eos_token" raw.9 "was packed before: "
rm -rf "$scratch"/raw*

# ---- shares of several files --------------------------------------------------

both=$ref/$case/tokens.safetensors,$ref/$case/eval.safetensors
shares() { refuses "shares: $1" 80 "$2" gpt2_tiny --init-from $ref/$case/model "${@:3}"; }
shares "a number is missing" "--data-weights 1: must be 2 numbers, one per file of --data, got 1" --data "$both" \
    --data-weights 1
shares "one file" "--data-weights 1: --data is one file, .*tokens.safetensors: leave them out" $ours --data-weights 1
shares "no file" "--data-weights applies to the files of --data, which is missing" --data-weights 1,2 \
    --eval-only --eval-data "$both"
for bad in -1 nan inf 0x1 '' x; do
    shares "'$bad'" "--data-weights 1,$bad: must be numbers from 0, separated by commas, got \"$bad\"" --data "$both" \
        --data-weights "1,$bad"
done
shares "nothing" "--data-weights 0,0: their sum is 0, must be above 0" --data "$both" --data-weights 0,0
shares "the first samples" "--max-samples counts samples over all files" --data "$both" \
    --data-weights 1,2 --max-samples 9
refuses "shares: less than a sample" 88 "tokens.safetensors: its --data-weights, 1e-09, gives less than one of the" \
    gpt2_tiny \
    --init-from $ref/$case/model --data "$both" --data-weights 1e-9,1
mixed() {               # PROGRAM RUN ARGS...
    local program=$1 run=$2
    shift 2
    "$work/$program/run.sh" --init-from $ref/$case/model --out "$scratch/$run" --data "$both" --steps 8 --log-every 1 \
        --save-every 4 "$@" >"$scratch/$run.log" 2>&1
}
mixed gpt2_tiny mixed --data-weights 3,1
mixed gpt2_tiny.2x2x2 mixed.2 --data-weights 0.75,0.25
compare "shares on two ranks" history "$scratch/mixed" "$scratch/mixed.2" 1e-5
DIECAST_FAULT=kill9:rank=0:step=7 mixed gpt2_tiny mixed.killed --data-weights 3,1
mixed gpt2_tiny mixed.killed
verdict "shares are kept" "$(grep -q 'resumed from .*checkpoint-4$' "$scratch/mixed.killed.log" &&
    grep -q '"drawn_1": 4[0-9], "drawn_2": 1[0-9], .*"step": 8' "$scratch/mixed.killed/history.jsonl" ||
    tail -n 2 "$scratch/mixed.killed.log" "$scratch/mixed.killed/history.jsonl")"
same "shares, resumed" mixed mixed.killed 8
mixed gpt2_tiny mixed --data-weights 1,1 --steps 10
verdict "other shares on resume" "$(grep -q 'CHANGED ON RESUME: data_weights 3,1 -> 1,1' "$scratch/mixed.log" &&
    grep -q '^rank .*checkpoint-8: data: samples drawn from each file [0-9,]* -> [0-9,]*; --allow-inexact' \
        "$scratch/mixed.log" || tail -n 3 "$scratch/mixed.log")"
verdict "shares are said" "$(grep -q '^  source 2   .*eval.safetensors: weight 1, [0-9]* samples per epoch, drawn from' \
    "$scratch/mixed.killed.log" || head -n 14 "$scratch/mixed.killed.log")"
head -c 4000 README.md >"$scratch/b.txt"
tail -c 3000 README.md >"$scratch/c.txt"
both="$scratch/b.txt,$scratch/c.txt" mixed gpt2_tiny mixed.raw --init-from none --tokenizer bytes --data-weights 1,2 \
    --steps 1 --eval-share 0.25
verdict "shares of raw files, each divided" "$(grep -q '^  source 2   .*c.txt: weight 2, ' "$scratch/mixed.raw.log" &&
    [ "$(ls "$scratch/mixed.raw/.dataset_cache" | wc -l)" = 2 ] || tail -n 4 "$scratch/mixed.raw.log")"
rm -rf "$scratch"/mixed* "$scratch"/[bc].txt

# ---- rows for people --------------------------------------------------

shows() {               # NAME PROGRAM ARGS...: standard input is what it prints
    local name=$1 program=$2
    shift 2
    "$work/$program/train" --tokenizer bytes --out "$scratch/shown" "$@" >"$scratch/rows" 2>"$scratch/said"
    verdict "--show: $name" "$([ $? = 0 ] || tail -n 1 "$scratch/said"; diff - "$scratch/rows")"
}
printf 'the quick brown fox jumps over the dogs' >"$scratch/text"
printf '%s\n' '{"prompt":"2+2=","completion":"4"}' '{"prompt":"q","completion":"\u00e9\n"}' >"$scratch/rows.jsonl"
shows "a window of text, the token after it" gpt2_tiny --data "$scratch/text" --show 1 <<'END'
step 1 micro-batch 1 row 1: sample 0, 33 tokens, 32 targets
     116 "t"
  *  104 "h"  101 "e"  32 " "  113 "q"  117 "u"  105 "i"  99 "c"  107 "k"  32 " "  98 "b"  114 "r"
  *  111 "o"  119 "w"  110 "n"  32 " "  102 "f"  111 "o"  120 "x"  32 " "  106 "j"  117 "u"  109 "m"
  *  112 "p"  115 "s"  32 " "  111 "o"  118 "v"  101 "e"  114 "r"  32 " "  116 "t"  104 "h"
END
for program in llama_rows few; do    # the head sees all rows, or those of targets
    shows "prompts and padding, $program" $program --data "$scratch/rows.jsonl" --show 2 <<'END'
step 1 micro-batch 1 row 1: sample 1, 5 tokens, 4 targets
     113 "q"
  *  195 "\xc3"  169 "\xa9"  10 "\n"  256 "<|endoftext|>"
     and 27 of padding
step 1 micro-batch 1 row 2: sample 0, 6 tokens, 2 targets
     50 "2"  43 "+"  50 "2"  61 "="
  *  52 "4"  256 "<|endoftext|>"
     and 26 of padding
END
done
refuses "--show of nothing" 80 "--show needs --data FILE" gpt2_tiny --show 2
refuses "--show with another use" 80 "--show and --dry-run: give one\|--dry-run and --show: give one" gpt2_tiny $ours \
    --show 2 --dry-run
rm -rf "$scratch"/{shown,text,rows,rows.jsonl}

# ---- weights that nobody named --------------------------------------------------

# A folder without a checkpoint is no reason to take other weights, nor is a model that was not named.
lora="--data $ref/qwen2_lora/tokens.safetensors"
for use in "--export $scratch/exported" "--sample ab" "--eval-only --eval-data $ref/$case/eval.safetensors"; do
    refuses "$use of an empty folder" 89 "no checkpoint in $scratch/out, .* did you mean --init-from?" gpt2_tiny $use
    refuses "$use of an empty folder, adapters" 89 "no checkpoint in .* did you mean --adapter in addition to" qwen2_lora $use \
        --init-from $ref/qwen2_lora/model
done
refuses "--merge-lora of an empty folder" 89 "no checkpoint in .* did you mean --init-from?" qwen2_lora \
    --merge-lora "$scratch/exported"
verdict "nothing was exported" "$(ls "$scratch" | grep exported)"
refuses "adapters on no model" 80 "--init-from none" qwen2_lora $lora
refuses "a model that is not there, tried dry" 80 "/absent: no such folder" gpt2_tiny $ours --dry-run \
    --init-from "$scratch/absent"
refuses "another model, tried dry" 83 "config.json: model_type" gpt2_tiny $ours --dry-run \
    --init-from $ref/llama_tiny/model
refuses "adapters on no model, tried dry" 80 "--init-from none" qwen2_lora $lora --dry-run
refuses "an adapter without its model" 80 "--init-from none" qwen2_lora $lora --adapter $ref/qwen2_lora/adapter_init
refuses "merging without LoRA" 80 "has no LoRA" gpt2_tiny --merge-lora "$scratch/exported"
refuses "a type of nothing" 80 "--export-dtype: has no effect without --export or --merge-lora$" gpt2_tiny --export-dtype bf16
refuses "a type that is none" 80 '--export-dtype: must be one of fp32|bf16|fp16, got "int8"' gpt2_tiny --export-dtype int8
refuses "two uses at a time" 80 "--sample and --export: give one" gpt2_tiny --sample a --export "$scratch/exported"
# uses NAME TEXT PROGRAM ARGS...: exit 0, and where the weights come from is said
uses() {
    local name=$1 text=$2 program=$3 code
    shift 3
    "$work/$program/train" "$@" >"$scratch/said" 2>&1
    code=$?
    verdict "$name" "$([ $code = 0 ] || echo "exit $code: $(tail -n 1 "$scratch/said")"
        grep -q -- "$text" "$scratch/said" || echo "no '$text' in: $(tail -n 12 "$scratch/said")")"
}
draw="--sample a --max-new-tokens 1"
uses "random weights when asked for" "^weights: random, made from seed 42" gpt2_tiny $draw --init-from none
refuses "the likeliest token and another" 80 "--greedy takes the likeliest token, --temperature 0.7 samples one" \
    gpt2_tiny $draw --init-from none --greedy --temperature 0.7
verdict "the likeliest token by two names" "$(cmp <("$work/gpt2_tiny/train" --sample ab --init-from none \
    --greedy 2>&1 | grep -v ' second') \
    <("$work/gpt2_tiny/train" --sample ab --init-from none --temperature 0 2>&1 | grep -v ' second') 2>&1)"
uses "weights of a model folder" "^weights: $ref/$case/model" gpt2_tiny $draw --init-from $ref/$case/model
uses "from scratch" "^  weights    random, made from seed 42" gpt2_tiny $ours --out "$scratch/from" --steps 1
refuses "a checkpoint and a model" 80 "both $scratch/from/checkpoint-1 and --init-from none have weights" gpt2_tiny \
    $draw --out "$scratch/from" --init-from none
uses "a model that a resumed run does not read" \
    "^--init-from $ref/$case/model is not read: $scratch/from/checkpoint-1 has the weights, and this run began with none" \
    gpt2_tiny $ours --out "$scratch/from" --steps 1 --init-from $ref/$case/model
refuses "an adapter without LoRA, next to a checkpoint" 80 "--adapter: this program has no LoRA" gpt2_tiny $draw \
    --out "$scratch/from" --adapter $ref/qwen2_lora/adapter_init
uses "flags given twice" "^given twice, the last one holds: --lr 1 and 2, --seed 3 and 4$" gpt2_tiny $ours --dry-run \
    --lr 1 --lr 2 --seed 3 --seed 3 --seed 4
uses "steps and epochs" "^--epochs has no effect: --steps 2 decides$" gpt2_tiny $ours --dry-run --epochs 4 --steps 2
for use in "$draw" "$ours"; do
    refuses "a checkpoint as run folder: ${use%% *}" 89 \
        "is a checkpoint itself; .* --out $scratch/from?" gpt2_tiny $use \
        --out "$scratch/from/checkpoint-1"
done
uses "adapters on random weights" "^  weights    random, made from seed 3; adapters: new" qwen2_lora $lora \
    --out "$scratch/random" --init-from none --steps 1
uses "they go on" "^  weights    random, made from seed 3; adapters: $scratch/random/checkpoint-1" qwen2_lora $lora \
    --out "$scratch/random" --steps 2
uses "adapters on a model" "^  weights    $ref/qwen2_lora/model; adapters: new" qwen2_lora $lora --out "$scratch/on" \
    --init-from $ref/qwen2_lora/model --steps 1
uses "the base is known" "^weights: $ref/qwen2_lora/model; adapters: $scratch/on/checkpoint-1" qwen2_lora $draw \
    --out "$scratch/on"
uses "no adapters when asked for" "^weights: $ref/qwen2_lora/model; adapters: new" qwen2_lora $draw \
    --out "$scratch/nowhere" --init-from $ref/qwen2_lora/model --adapter none
rm -rf "$scratch"/{from,random,on}

# ---- the run folder --------------------------------------------------

run() { train gpt2_tiny $case "$@"; }
# expect NAME CODE TEXT: of the last run
expect() {
    local code=$?
    verdict "$1" "$([ $code = "$2" ] || echo "exit $code, want $2: $(tail -n 2 "$scratch/$run.log")"
        grep -q -- "$3" "$scratch/$run.log" || echo "no '$3' in: $(tail -n 3 "$scratch/$run.log")")"
}
# finishes NAME [STRAIGHT]: the run of the last name is, in the end, the straight one
finishes() {
    local straight=${2:-straight}
    compare "$1" history "$scratch/$run" "$scratch/$straight" 0
    local file
    for file in model optimizer; do
        cmp -s "$scratch/$run/checkpoint-20/$file.safetensors" \
            "$scratch/$straight/checkpoint-20/$file.safetensors" ||
            verdict "$1 bits" "$file.safetensors differs"
    done
    [ -f "$scratch/$run/DONE" ] || verdict "$1 done" "no DONE"
    rm -rf "${scratch:?}/$run"
}
run straight || verdict straight "$(tail -n 2 "$scratch/straight.log")"

run=again; cp -r "$scratch/straight" "$scratch/again"
run again; expect "a finished run" 0 "nothing to do"
run again --resume never; expect "--resume never of a run" 80 "has 1 checkpoint; give another --out"
run again --steps 22; expect "more steps" 0 "CHANGED ON RESUME: steps 20 -> 22"
verdict "the mean of which steps" "$(
    grep -q '^2 steps more in .*; mean loss of all 22 steps of the run [0-9.]*$' "$scratch/again.log" ||
    grep mean "$scratch/again.log")"
# what the program says to type, typed; files next to the weights go along without the folder they came from
verdict "what to do next" "$(next=$(sed -n 's/^  export  \(.*\)  a Hugging Face folder$/\1/p' "$scratch/again.log")
    eval "$next" >"$scratch/said" 2>&1 || cat "$scratch/said"
    next=$(sed -n 's/^  sample  //p' "$scratch/again.log")
    eval "$next --max-new-tokens 2" >"$scratch/said" 2>&1 || cat "$scratch/said"
    [ -f "$scratch/again-model/config.json" ] || echo "no folder")"
cp -r "$scratch/again" "$scratch/carried"
"$work/gpt2_tiny/train" $ours --out "$scratch/carried" --steps 26 --save-every 1 --save-total-limit 2 \
    >"$scratch/said" 2>&1
verdict "files next to the weights go along" "$(
    ls "$scratch/carried/checkpoint-26/generation_config.json" 2>&1 >/dev/null)"
uses "an export makes the folders above it" "^wrote" gpt2_tiny --out "$scratch/again" --export "$scratch/deep/er/model"
rm -rf "$scratch"/{deep,again-model,carried}
wild="--lr 1000 --clip 0 --warmup 0 --steps 40 --schedule constant --weight-decay 900"
run again $wild; expect "a run that goes on and fails" 87 "loss"
verdict "is not done" "$(ls "$scratch/again" | grep DONE)"
train gpt2_tiny.2x2x2 $case again --steps 23 --exact; expect "another program --exact" 83 "ranks"
train wide $case again
expect "checkpoint of another shape" 83 "hidden is 64 in the checkpoint, 48 here; .*model.ffn is 256 in the checkpoint, 192 here"
retold
"$work/gpt2_tiny/run.sh" --init-from $ref/$case/model --out "$scratch/again" --steps 23 --data "$tokens" \
    --eval-data "$scratch/in/eval.safetensors" --allow-inexact >"$scratch/again.log" 2>&1
expect "data of another tokenizer than the checkpoint's" 83 "with tokenizer bytez, .*/checkpoint-22 with bytes:"
refuses "weights of data of another tokenizer" 83 "bytez, .*/checkpoint-22 with bytes:" gpt2_tiny \
    --data "$tokens" --init-from "$scratch/again/checkpoint-22"
"$work/gpt2_tiny/train" --out "$scratch/again" --sample a --tokenizer tests/tokenizer/gpt2/tokenizer.json \
    >"$scratch/again.log" 2>&1
expect "sample with another tokenizer" 83 "gpt2/tokenizer.json is crc32c:.* that of the weights .*-22) is bytes"
rm -rf "$scratch/again"

run=damaged; run damaged --save-every 5 --save-total-limit 0
rm "$scratch/damaged/DONE"
poke "$scratch/damaged/checkpoint-20/optimizer.safetensors" -2000 55
poke "$scratch/damaged/checkpoint-15/train_state.json" 20 00
run damaged; expect "two damaged checkpoints" 0 "resumed from .*checkpoint-10"
[ -d "$scratch/damaged/checkpoint-15.corrupt" ] || verdict "damaged are kept aside" "no checkpoint-15.corrupt"
finishes "after damage"
run=damaged; run damaged
rm -rf "$scratch/damaged"/DONE
poke "$scratch/damaged/checkpoint-20/model.safetensors" -1 7f
run damaged; expect "no valid checkpoint" 89 "checkpoint-20"
run damaged; expect "nor at the next start" 89 "--resume never starts over at step 0"
run damaged --resume never --steps 2; expect "until it is told" 0 "^step 1/2 "
rm -rf "$scratch/damaged"

# A second start in a folder leaves it and the run that works there alone, whatever its ranks.
run=locked
mkdir "$scratch/locked"
touch "$scratch/locked"/{fault.0.1.json,history.jsonl,DONE}.tmp "$scratch/locked/probe.77"
train gpt2_tiny.2x2x2 $case locked --steps 400000 --epochs 100000 --log-every 1000 --save-every 0 &
pid=$!
waits [ -n "$(ls "$scratch"/locked/runs/*/*.diecast 2>/dev/null)" ]
verdict "what a killed start was writing goes" "$(ls "$scratch/locked" | grep -e tmp -e probe)"
untouched() {
    (cd "$scratch/locked" && find . -printf '%p %i %m\n' | sort; stat -c %y . logs
        grep -c -e ' ---- ' logs/training.log)
}
before=$(untouched)
verdict "its ranks listen to this machine alone" "$(for rank in $(pgrep -f -- "train .*--out $scratch/locked "); do
    [ "$(readlink "/proc/$rank/exe")" = "$PWD/$work/gpt2_tiny.2x2x2/train" ] || continue
    echo rank
    awk '$4 == "0A" && $2 !~ /^0100007F:/ { print $10 }' /proc/net/tcp /proc/net/tcp6 |
        grep -xFf <(ls -l "/proc/$rank/fd" | sed -n 's/.*socket:.\([0-9]*\).$/\1/p')
    done | sort | uniq -c | grep -vx ' *2 rank')"
for program in gpt2_tiny gpt2_tiny.2x2x2; do
    "$work/$program/run.sh" $ours --init-from $ref/$case/model --out "$scratch/locked" >"$scratch/said" 2>&1
    code=$?
    verdict "a second run in the folder, $program" "$([ $code = 92 ] || echo "exit $code"
        grep -q "^rank 0 .*locked: in use by process [0-9]* on " "$scratch/said" || tail -n 3 "$scratch/said"
        [ "$before" = "$(untouched)" ] || diff <(echo "$before") <(untouched))"
done
kill -TERM "$(pgrep -P $pid run.sh || echo $pid)"
wait $pid; expect "a request saves and stops, whatever came in between" 91 "stopped on SIGUSR1"
[ -f "$scratch/locked/DONE" ] && verdict "stopped is not done" DONE
verdict "its fault files name their start" "$(
    sed -n 's/.*"start": "\(.*\)".*/\1/p' "$scratch"/locked/fault.0.[01].json | uniq -c | grep -v '^ *2 .*\.[0-9]*$')"
last=$(ls -d "$scratch/locked"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
train gpt2_tiny.2x2x2 $case locked --steps $((last + 3)); expect "it goes on" 0 "resumed from .*checkpoint-$last"
verdict "no lock stays" "$(ls "$scratch/locked" | grep run.lock)"
rm -rf "$scratch/locked"

# A second SIGTERM while a checkpoint is written, which takes long: what it says is so, and no lock stays.
run=hurry
DIECAST_FAULT=save:rank=0:step=6:seconds=60 run hurry --save-every 3 &
pid=$!
waits [ -f "$scratch/hurry/checkpoint-6.tmp/files.json" ]
own=$(pgrep -P $pid train || echo $pid)
kill -TERM "$own"; waits taken "$own"; kill -TERM "$own"
wait $pid; expect "a second SIGTERM ends it at once" 143 "second SIGTERM: leaving at once; what came after the newest"
verdict "it says no more than that" "$(grep "saved" "$scratch/hurry.log"
    ls "$scratch/hurry" | grep -E 'lock|DONE|^checkpoint-6$')"
run hurry; expect "and the run goes on" 0 "resumed from .*checkpoint-3"
finishes "after a second SIGTERM"

mpirun -n 3 --oversubscribe --bind-to none "$work/gpt2_tiny.2x2x2/train" --out "$scratch/out" >"$scratch/said" 2>&1
code=$?
verdict "three ranks of a program for two" "$([ $code = 83 ] || echo "exit $code"
    grep -q "built for 2 ranks, started as 3.*: gen $here/recipes/gpt2_tiny.lua batch.micro=2 batch.accum=2 gpus=3," \
        "$scratch/said" || head -n 3 "$scratch/said")"

# ---- ranks that differ --------------------------------------------------

# replicas NAME CODE TEXT PROGRAM ARGS0 ARGS1 [PROGRAM1]: its two ranks with arguments that differ;
# rank 0 says it, and no step is taken
replicas() {
    local one="$work/$4/train --out $scratch/replicas" two="${7:-$work/$4/train} --out $scratch/replicas" code
    timeout 300 mpirun --oversubscribe --bind-to none -n 1 $one $5 : -n 1 $two $6 >"$scratch/said" 2>&1
    code=$?
    verdict "$1" "$([ $code = "$2" ] || echo "exit $code"
        grep -q "^rank 0 .*$3" "$scratch/said" || tail -n 3 "$scratch/said"
        grep '^step' "$scratch/said"
        ls "$scratch/replicas" 2>/dev/null | grep -e checkpoint -e DONE)"
    rm -rf "$scratch/replicas"
}
two=gpt2_tiny.2x2x2
from="--init-from $ref/$case/model"
replicas "steps of one rank" 83 "--steps is 5 on rank 0, 20 (default) on rank 1 (.*): start all" $two \
    "$ours --steps 5" "$ours"
replicas "rates of two ranks" 83 "--lr is 0.001 on rank 0, 0.002 on rank 1" $two \
    "$ours --lr 1e-3" "$ours --lr 2e-3"
replicas "a flag that repeats the default" 83 "--seed is 42 (default) on rank 0, 42 on rank 1" $two \
    "$ours" "$ours --seed 42"
replicas "data for one rank" 83 "--eval-data is a path on rank 0, not given on rank 1" $two \
    "$ours --eval-data $ref/$case/eval.safetensors" "$ours"
replicas "other data on a rank" 83 "--data differs between rank 0 and rank 1 (.*): samples 48 -> 10, file 1 has different content: every host needs" $two \
    "$ours" "--data $ref/$case/eval.safetensors"
replicas "other data for an evaluation" 83 "--eval-data differs between rank 0 and rank 1 (.*): samples 10 -> 48" $two \
    "--eval-only $from --eval-data $ref/$case/eval.safetensors" \
    "--eval-only $from --eval-data $ref/$case/tokens.safetensors"
replicas "data that a rank does not have" 88 "rank 1 (.*) ended with code 88: $scratch/none: No such" \
    $two "$ours" "--data $scratch/none"
replicas "one rank evaluates" 83 "--eval-only is false (default) on rank 0, true on rank 1" $two \
    "$ours" "$ours --eval-only"
replicas "one rank times more steps" 83 "--bench-steps is 3 on rank 0, 4 on rank 1" $two \
    "--bench-steps 3" "--bench-steps 4"
cp "$work/$two/train" "$scratch/other"; echo >>"$scratch/other"
replicas "another program on a rank" 83 "rank 1 runs another binary than rank 0: SHA-256" $two \
    "$ours" "$ours" "$scratch/other"
gcc -shared -fPIC -o "$scratch/older.so" -x c - <<'END'
#include <oneapi/dnnl/dnnl.h>
const dnnl_version_t *dnnl_version(void)
{
    static const dnnl_version_t v = {.major = 2, .minor = 0, .patch = 1};
    return &v;
}
END
printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$scratch/older.so" "$work/$two/train" >"$scratch/older"
chmod +x "$scratch/older"
replicas "another library on a rank" 83 "oneDNN is [0-9.]* on rank 0, 2.0.1 on rank 1 (.*): load the same" $two \
    "$ours" "$ours" "$scratch/older"
other="ranks 0 (.*) and 1 (.*) have different weights to start from: one of them is wrong"
fresh; poke "$weights" -3 3c
replicas "ranks that load other weights" 83 "$other" $two "$ours $from" \
    "$ours --init-from $scratch/in/model"
replicas "ranks that evaluate other weights" 83 "$other" $two \
    "--eval-only --eval-data $ref/$case/eval.safetensors $from" \
    "--eval-only --eval-data $ref/$case/eval.safetensors --init-from $scratch/in/model"
rm -rf "$scratch/in/model"; cp -rL $ref/qwen2_tiny/model "$scratch/in"; poke "$weights" -3 3c
replicas "ranks that load another base" 83 "$other" qwen2_lora.2 \
    "$ours --init-from $ref/qwen2_tiny/model" "$ours --init-from $scratch/in/model"
run=elsewhere; cp $ref/$case/tokens.safetensors "$scratch/in"
mpirun --oversubscribe --bind-to none -n 1 "$work/$two/train" $ours --out "$scratch/elsewhere" --steps 1 \
    : -n 1 "$work/$two/train" --data "$scratch/in/tokens.safetensors" --out "$scratch/elsewhere" --steps 1 \
    --threads 2 >"$scratch/elsewhere.log" 2>&1
expect "the same data at another place" 0 "^step 1/1"
mpirun --oversubscribe --bind-to none -n 2 "$scratch/older" $ours --out "$scratch/elsewhere" --steps 2 \
    >"$scratch/elsewhere.log" 2>&1
expect "another library after a checkpoint" 0 'INEXACT RESUME: .*libraries "oneDNN [0-9.]*" -> "oneDNN 2.0.1"'
rm -rf "$scratch/elsewhere"

# ---- ranks that die, freeze or compute wrongly --------------------------------------------------

# struck NAME FAULT CODE TEXT [ARGS...]: what all ranks of $program but the one of DIECAST_FAULT say
# and leave; nobody is left and nothing half written, but for the .tmp of a save that the fault met.
# With CODE 94 and 87 the victim says so too.
struck() {
    local name=$1 fault=$2 want=$3 text=$4 victim=${2#*rank=} code r ranks
    shift 4
    victim=${victim%%:*}
    ranks=$(sed -n 's/^RANKS := //p' "$work/$program/Makefile")
    run=struck
    rm -rf "$scratch/struck"
    DIECAST_FAULT=$fault DIECAST_TIMEOUT_SCALE=0.25 train $program $case struck --save-every 5 "$@"
    code=$?
    verdict "$name" "$([ $code = "$want" ] || echo "exit $code"
        [ "$(grep -c "^warning: rank $victim: DIECAST_FAULT=$fault is armed" "$scratch/struck.log")" = 1 ] ||
            echo "not armed"
        for ((r = 0; r < ranks; r++)); do
            [ $r = $victim ] && [ $want != 94 ] && [ $want != 87 ] && continue
            grep -q "^rank $r ($(hostname)) step [0-9-][0-9]*: .*$text" "$scratch/struck.log" ||
                echo "rank $r: $(grep "^rank $r " "$scratch/struck.log")"
            grep -q "\"code\": $want," "$scratch/struck/fault.0.$r.json" || echo "no fault file of rank $r"
        done
        pgrep -f -- "--out $scratch/struck" >/dev/null && echo "processes are left"
        # on a machine that others use too, seconds say nothing
        [ -z "${INJECT:-}" ] || [ $want != 84 ] ||
            [ -n "$(find "$scratch/struck" -name 'fault.0.*.json' -newermt "-4 seconds")" ] ||
            echo "the launcher ended long after its ranks"
        ls "$scratch/struck" | grep -v -e '^checkpoint-[0-9]*\(\.tmp\)*$' -e '^fault' -e history.jsonl -e '^logs$' -e '^runs$' \
            -e run.lock)"
}
# goes_on NAME: without the fault it is, in the end, the run that was never struck
goes_on() {
    train $program $case struck --save-every 5 || verdict "$1 goes on" "exit $?: $(tail -n 2 "$scratch/struck.log")"
    finishes "$1 goes on" straight.$program
}
for program in gpt2_tiny.2x2x2 gpt2_tiny.4x1x2; do
    trained $program $case straight.$program --save-every 5
done
program=gpt2_tiny.2x2x2
struck "a rank is killed" kill9:rank=1:step=8 84 "rank 1 (.*) died: "
goes_on "a rank is killed"
struck "rank 0 is killed" kill9:rank=0:step=1 84 "rank 0 (.*) died"
goes_on "rank 0 is killed"
struck "a rank freezes" stop:rank=1:step=8 85 "rank 1 (.*) has been silent for [0-9]* s: frozen"
verdict "it is warned about" "$(grep -q '^warning: rank 0: rank 1 (.*) has been silent for' "$scratch/struck.log" ||
    cat "$scratch/struck.log")"
goes_on "a rank freezes"
struck "weights of two ranks part" flip:rank=0:step=7 94 \
    "step 10: ranks 0 (.*) and 1 (.*) have different weights or moments: one of them is wrong: faulty memory"
verdict "nothing of it is saved" "$(ls -d "$scratch/struck/checkpoint-10" 2>/dev/null)"
struck "a gradient of one rank is none" nan:rank=1:step=7 87 "loss [0-9.]*, gradient norm -*nan; samples [0-9]"
run=skipped
DIECAST_FAULT=nan:rank=1:step=7 train $program $case skipped --nonfinite skip
expect "and is skipped" 0 "^step 7: .*skipped"
program=gpt2_tiny.4x1x2
struck "SIGSEGV in a rank" segv:rank=2:step=8 84 "rank 2 (.*) died"
struck "abort in a rank" abort:rank=3:step=2 84 "rank 3 (.*) died"
struck "a rank leaves with exit 0" exit0:rank=1:step=20 84 "rank 1 (.*) died"
struck "weights of one of four ranks" flip:rank=2:step=7 94 \
    "rank 2 (.*) has different weights or moments from the other ranks: faulty memory or processor"
goes_on "weights of one of four ranks"

# From outside: a rank that stands still for less than the limit, one that is asked to stop, one that
# is killed while another saves.
rank_of() {             # RUN RANK: its process, once it works
    local pid
    for ((i = 0; i < 1200; i++)); do
        for pid in $(pgrep -f -- "train .*--out $scratch/$1 "); do
            grep -qz "^OMPI_COMM_WORLD_RANK=$2$" /proc/$pid/environ 2>/dev/null &&
                [ -e "$scratch/$1/history.jsonl" ] && echo $pid && return
        done
        sleep 0.05
    done
}
for program in gpt2_tiny.2x2x2 ${INJECT:+gpt2_tiny.4x1x2}; do
run=struck
rm -rf "$scratch/struck"
DIECAST_FAULT=stop:rank=1:step=8 DIECAST_TIMEOUT_SCALE=0.5 train $program $case struck --save-every 5 &
shell=$!
waits grep -q 'has been silent' "$scratch/struck.log"
kill -CONT "$(rank_of struck 1)"
wait $shell; expect "a rank freezes for a moment" 0 "rank 1 (.*) has been silent for .* it counts as hung after 10 s"
finishes "a rank freezes for a moment" straight.$program
DIECAST_FAULT=save:rank=0:step=5:seconds=1 train $program $case struck --save-every 5 &
shell=$!
waits [ -d "$scratch/struck/checkpoint-5.tmp" ]
kill -TERM "$(rank_of struck 1)"
wait $shell
expect "SIGTERM to one rank stops all" 91 "stopped on .* after step \([0-9]*\), checkpoint-\1 saved; the same command"
goes_on "SIGTERM to one rank"
DIECAST_FAULT=save:rank=0:step=10:seconds=30 train $program $case struck --save-every 5 &
shell=$!
waits [ -d "$scratch/struck/checkpoint-10.tmp" ]
kill -9 "$(rank_of struck 1)"        # the launcher gives rank 0 a second
wait $shell
verdict "killed while rank 0 saves" "$(grep -q '"code": 84' "$scratch/struck/fault.0.0.json" || echo "no fault file")"
goes_on "killed while rank 0 saves"
done

# With INJECT=1 (make soak) every kind of fault in the first and in the last rank of two and of four, a kill at each of
# the first ten steps; the run goes on to the bits of the one that was never struck.
for program in ${INJECT:+gpt2_tiny.2x2x2 gpt2_tiny.4x1x2}; do
    last=$(($(sed -n 's/^RANKS := //p' "$work/$program/Makefile") - 1))
    for rank in 0 $last; do
        for kind in segv:84 abort:84 exit0:84 stop:85 nan:87 flip:94 kill9:84:{1..10}; do
            IFS=: read -r fault want step <<<"$kind"
            name="$program, $fault of rank $rank, step ${step:-7}"
            case $want in
            84) text="rank $rank (.*) died" ;;
            85) text="rank $rank (.*) has been silent" ;;
            87) text="gradient norm -*nan" ;;
            94) text="\(other\|different\) weights or moments" ;;
            esac
            struck "$name" $fault:rank=$rank:step=${step:-7} $want "$text"
            goes_on "$name"
        done
    done
done

for wrong in kill:rank=0:step=2 kill9:rank=1:step=1 kill9:step=1 kill9:rank=0 kill9:rank=0:step=0 \
    kill9:rank=0:step=x save:rank=0:step=1 nan:rank=0:step=1:seconds=3 "" flip:rank=0:step=1:now; do
    DIECAST_FAULT=$wrong refuses "DIECAST_FAULT=$wrong" 80 "the form is kill9|segv|" gpt2_tiny $ours
done

# ---- numbers that are none --------------------------------------------------

run=nan; run nan $wild --save-every 1 --save-total-limit 0
expect "the loss is no number" 87 "^rank 0 .* step [0-9]*: loss .*samples [0-9]"
verdict "nothing of it is saved" "$(for file in "$scratch/nan"/checkpoint-*/model.safetensors; do
    "$work/compare" nan weights "$file" "$file" 0 | grep '^not ok'; done)"
verdict "what came before is" "$(ls -d "$scratch/nan"/checkpoint-1 2>&1 >/dev/null)"
back=$(sed -n 's/.*the loss was 5[0-9.]* at step 1 and rose after it; .* --resume \(.*\), with a lower .*/\1/p' \
    "$scratch/nan.log")
verdict "where to go on is said" "$([ "$back" = "$scratch/nan/checkpoint-1" ] || tail -n 1 "$scratch/nan.log")"
mkdir "$scratch/nan/checkpoint-9"        # of the course that is left
run nan --resume "$back" --lr 1e-3 --weight-decay 0 --steps 2; expect "it goes on from there" 0 "resumed from $back"
verdict "later checkpoints are put aside" "$([ -d "$scratch/nan/checkpoint-9.aside" ] || ls "$scratch/nan"
    ls -d "$scratch/nan"/checkpoint-[3-9] 2>/dev/null)"
rm -rf "$scratch/nan"
run=skip; run skip $wild --nonfinite skip
expect "skipped three times, then no more" 87 "update skipped"
times=$(grep -c 'update skipped' "$scratch/skip.log")
verdict "three times" "$([ "$times" = 3 ] || echo "$times times")"
rm -rf "$scratch/skip"

# With a NaN in the weights: JSON all the same.
fresh; poke "$weights" -4 00 00 c0 7f
uses "a loss that is no number, as JSON" \
    '^{"eval_loss": null, "eval_loss_token": null, "eval_samples": 10}$' gpt2_tiny \
    --eval-only --eval-data $ref/$case/eval.safetensors --init-from "$scratch/in/model" --allow-nonfinite

# Lost output of a command is always an error.
for use in --help --where "--eval-only --eval-data $ref/$case/eval.safetensors --init-from $ref/$case/model"; do
    # shellcheck disable=SC2086
    "$work/gpt2_tiny/train" --out "$scratch/out" $use >/dev/full 2>"$scratch/said"
    verdict "${use%% *}: standard output is full" "$([ $? = 90 ] || echo "exit $?"
        grep -q 'cannot write to standard output: No space left' "$scratch/said" || tail -n 1 "$scratch/said")"
done

# ---- the best, and when to end --------------------------------------------------

refuses "--keep-best without data" 80 "--keep-best: this run has no validations; add --eval-data" gpt2_tiny $ours --keep-best
refuses "--eval-every without data" 80 "--eval-every: this run has no validations; add --eval-data" gpt2_tiny $ours --eval-every 5
refuses "--eval-batches without data" 80 "--eval-batches: this run has no validations" gpt2_tiny $ours --eval-batches 5
for flag in "--temperature 0.5" "--top-k 5" --greedy "--max-new-tokens 9"; do
    refuses "${flag% *} without a text to go on from" 80 \
        "${flag% *}: has no effect without --sample or --prompts or --chat$" gpt2_tiny $ours $flag
done

# Each flag of training, as --help lists them, next to each command that does not train: refused, with both names.
trained=$("$work/qwen2_lora/train" --help | awk '/^[a-z]/ { heading = $0 }
    heading ~ /^(steps and learning rate|optimiser)$/ && /^  --/ { print $1, $2 }')
verdict "flags of training" "$([ "$(wc -l <<<"$trained")" = 14 ] || echo "$trained")"
while read -r flag value; do
    case $value in X) value=0.5 ;; N) value=1 ;; *) value=${value%%|*} ;; esac
    for use in "--sample a" "--prompts x" --chat --eval-only "--export x" --merge-lora --plot; do
        said=$("$work/qwen2_lora/train" --out "$scratch/out" $use $flag=$value 2>&1)
        [ $? = 80 ] && grep -qe "$flag has no effect with ${use%% *}, which does not train: leave it out$" <<<"$said" ||
            echo "$use $flag: $said"
    done
done <<<"$trained" >"$scratch/said"
verdict "flags of training with other commands" "$(head -n 3 "$scratch/said")"
uses "more tokens than there is room for" "^--max-new-tokens 99: the program has room for 32 tokens with the prompt" \
    gpt2_tiny --sample a --max-new-tokens 99 --init-from none
for folder in "$scratch/out/checkpoint-7" "$scratch/out/./checkpoint-7/"; do
    mkdir -p "$scratch/out"
    refuses "an export as a checkpoint: ${folder##*out/}" 80 "is the name of a checkpoint of this run" gpt2_tiny \
        --init-from $ref/$case/model --export "$folder"
done
# the name that was typed; what no command reads, and what some read, is not refused
while IFS='|' read -r name text flags; do
    refuses "$name" 80 "$text" gpt2_tiny $flags
done <<END
a flag by the name of another trainer|--learning_rate has no effect with --sample, which does not|--sample a --learning_rate 3
steps by their epochs|--epochs has no effect with --export, which does not|--export $scratch/exported --epochs 3
data of a command that reads none|--eval-data has no effect with --sample: leave it out$|--sample a --eval-data x
a flag of another command|--export-dtype has no effect with --eval-only: leave it out$|--eval-only --eval-data x --export-dtype bf16
over, without training|--force has no effect with --bench-steps: leave it out$|--bench-steps 3 --force
END
for use in "--dry-run --lr 3 --save-every 9" "--show 1 --lr 3" "--bench-steps 1 --lr 3"; do
    "$work/gpt2_tiny/train" --out "$scratch/out" $ours $use >"$scratch/said" 2>&1
    verdict "flags of the run that $use previews" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
done
refuses "a choice that is none" 80 "--loss-on: must be one of auto|.* got \"turn\"" gpt2_tiny $ours --loss-on turn
verdict "a choice that is none: what to do" "$(grep -q '^next: fix that and run the command again' "$scratch/said" ||
    tail -n 1 "$scratch/said")"
refuses "a field without a dot" 80 "--bf16: fixed when the program was generated, .*: gen [^ ]*\.lua precision=bf16 && make" \
    gpt2_tiny $ours --bf16
verdict "a field without a dot: what to do" "$(grep -q '^next: run that gen command and make; then .*gpt2_tiny.* --bf16' \
    "$scratch/said" || tail -n 1 "$scratch/said")"
refuses "a run of no steps" 80 "--epochs 0 makes a run of 0 steps: give more, or --steps N$" gpt2_tiny $ours --epochs 0
verdict "a run of no steps: nothing is left" "$(ls "$scratch/out/DONE" 2>&1 | grep -v 'No such')"
refuses "a warm-up of part of a step" 80 "--warmup 10.5: must be a whole number of steps, or below 1, a share" \
    gpt2_tiny $ours --warmup 10.5
uses "intervals longer than the run" "^--log-every 99: the run has only 3 steps, and logs its last one only$" gpt2_tiny \
    $ours --out "$scratch/longer" --steps 3 --save-every 3 --log-every 99
verdict "an interval as long as the run" "$(grep -e '--save-every 3: ' "$scratch/said")"
refuses "--patience without data" 80 "--patience: this run has no validations; add --eval-data" gpt2_tiny $ours --patience 1
for flag in --keep-best "--patience 3"; do
    refuses "$flag without steps" 80 \
        "${flag% *}: this run has no validations; add --eval-every" gpt2_tiny $ours $flag --eval-every 0 \
        --eval-data $ref/$case/eval.safetensors
done
# RUN: the step after which the loss that the log shows is least
best_of() {
    sed -n 's/.*"eval_loss_token": \([^,]*\),.*"step": \([1-9][0-9]*\)}$/\1 \2/p' "$scratch/$1/history.jsonl" |
        sort -g | sed -n '1s/.* //p'
}
# a rate at which the validation loss rises after a few steps
wild="--eval-every 1 --patience 3 --keep-best --steps 60 --schedule constant --lr 0.03 --clip 0"
early="none of the last 3 validations was better than eval loss [0-9.]* at step"
run=early; run early $wild --save-every 1 --save-total-limit 0
expect "patience ends a run" 0 "^stopped early after step .*: $early"
last=$(sed -n 's/^stopped early after step \([0-9]*\):.*/\1/p' "$scratch/early.log")
best=$((last - 3))
verdict "done, and why" "$(grep -q "\"why\": \"$early $best " "$scratch/early/DONE" || cat "$scratch/early/DONE"
    tail -n 1 "$scratch/early/history.jsonl" | grep -q "\"early_stop\": \"$early $best .*\"step\": $last}" ||
        tail -n 1 "$scratch/early/history.jsonl"
    grep -q "^the best are in $scratch/early/checkpoint-$best, .*--resume" "$scratch/early.log" ||
        tail -n 4 "$scratch/early.log")"
cp -r "$scratch/early" "$scratch/resumed"
rm -rf "$scratch/resumed"/{DONE,checkpoint-$last,checkpoint-$((last - 1))}
run=resumed; run resumed $wild --save-total-limit 2
expect "resumed before its end" 0 "^stopped early after step $last: $early $best "
compare "resumed before its end" history "$scratch/resumed" "$scratch/early" 0
verdict "resumed before its end, bits" "$(cmp "$scratch"/{early,resumed}/checkpoint-$last/model.safetensors 2>&1
    grep -q "\"best_model_checkpoint\": \"$scratch/resumed/checkpoint-$best\"" \
        "$scratch/resumed/checkpoint-$last/trainer_state.json" || echo "another best")"
cp -r "$scratch/early/checkpoint-1" "$scratch/resumed"       # a kill came before its removal
run resumed $wild --save-total-limit 2
verdict "a checkpoint beyond the limit is removed at the next start" \
    "$([ ! -e "$scratch/resumed/checkpoint-1" ] || ls "$scratch/resumed")"
expect "a run that ended early is over" 0 "nothing to do: stopped early after step $last of 60: $early $best "
run resumed $wild --save-total-limit 2 --patience 0 --steps $((last + 9)) --lr 0.1 --save-every 1
expect "until it is told" 0 "resumed from .*checkpoint-$last"
best=$(best_of resumed)
verdict "the best outlives the newest" "$([ -d "$scratch/resumed/checkpoint-$best" ] || echo "$best is gone"
    [ "$best" -lt $((last + 8)) ] || echo "the best is among the newest: no test"
    [ "$(ls -d "$scratch/resumed"/checkpoint-* | wc -l)" = 2 ] || ls "$scratch/resumed"
    grep '"early_stop"' "$scratch/resumed/history.jsonl")"
rm -rf "$scratch"/{early,resumed}

# ---- disks --------------------------------------------------

if mkdir "$scratch/small" && mount -t tmpfs -o size=600k tmpfs "$scratch/small" 2>/dev/null; then
    mounts="$mounts $scratch/small"
    refuses "disk too small" 90 "" gpt2_tiny $ours --out "$scratch/small/run"
    mount -o remount,ro "$scratch/small"
    refuses "read-only disk" 90 "Read-only" gpt2_tiny $ours --out "$scratch/small/run2"
    mkdir "$scratch/fills"
    mount -t tmpfs -o size=24m tmpfs "$scratch/fills"
    mounts="$mounts $scratch/fills"
    run=fills; run fills --steps 500000 --save-every 100 &
    pid=$!
    waits [ -d "$scratch/fills/checkpoint-100" ]
    while kill -0 $pid 2>/dev/null; do       # all that there is, also what an old checkpoint leaves
        head -c 24m /dev/zero >>"$scratch/fills/other" 2>/dev/null
        sleep 0.05
    done
    wait $pid; expect "disk full, three saves fail" 90 "^rank 0 .*the third save in a row that failed"
    verdict "disk full: what to do" "$(grep -q '^next: make room (df -h, df -i); then .*gpt2_tiny/run.sh .* continues from' \
        "$scratch/fills.log" || tail -n 1 "$scratch/fills.log")"
    times=$(grep -c "^warning: checkpoint .*training goes on" "$scratch/fills.log")
    verdict "training goes on after two" "$([ "$times" = 2 ] || echo "$times times"
        grep -q "history.jsonl: write: .*training goes on" "$scratch/fills.log" || echo "no history")"
    rm "$scratch/fills/other"
    last=$(ls -d "$scratch/fills"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    run fills --steps $((last + 2)); expect "room again: it goes on" 0 "resumed from .*checkpoint-$last"
    # full for a while only: nothing is lost
    rm -rf "$scratch/fills"/*
    train gpt2_tiny $case fills --steps 500000 --save-every 0 &
    pid=$!
    waits [ -s "$scratch/fills/history.jsonl" ]
    head -c 24m /dev/zero >"$scratch/fills/other" 2>/dev/null
    waits grep -q 'history.jsonl: write' "$scratch/fills.log"
    rm "$scratch/fills/other"
    waits grep -q 'is complete again' "$scratch/fills.log"
    kill -TERM "$(pgrep -P $pid train || echo $pid)"
    wait $pid
    code=$?
    last=$(ls -d "$scratch/fills"/checkpoint-* | sed 's/.*-//')
    verdict "full for a while" "$([ $code = 91 ] || echo "exit $code: $(tail -n 2 "$scratch/fills.log")"
        [ "$(grep -c grad_norm "$scratch/fills/history.jsonl")" = "$last" ] || echo "records are missing")"
else
    echo "# no right to mount: full and read-only disks are left out"
fi

# ---- asked to stop while the ranks still come together --------------------------------------------------

two=("$work/gpt2_tiny.2x2x2/train" $ours --init-from $ref/$case/model --out "$scratch/early" --save-every 0)
# shellcheck disable=SC2016      # of the second rank's shell: it comes when there is a file
mpirun --oversubscribe --bind-to none -n 1 "${two[@]}" : \
    -n 1 sh -c 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"' "$scratch/go" "${two[@]}" >"$scratch/said" 2>&1 &
pid=$!
listens() {
    first=$(pgrep -P $pid -x train) &&
        [ $((16#$(sed -n 's/^SigCgt:\t//p' "/proc/$first/status") & 0x200)) != 0 ]
}
waits listens
kill -USR1 "$first"
: >"$scratch/go"
wait $pid
verdict "a request before all ranks are there" "$([ $? = 91 ] && [ -d "$scratch/early/checkpoint-1" ] ||
    { tail -n 3 "$scratch/said"; ls "$scratch/early"; })"

# ---- kill -9 --------------------------------------------------

# At random moments of a run that saves every other step, resumed each time: in the end the straight run.
RANDOM=${SEED:-1}
run=killed
kills=0
for ((i = 0; i < 200 && kills < ${KILLS:-12}; i++)); do
    "$work/gpt2_tiny/train" $ours --eval-data $ref/$case/eval.safetensors \
        --init-from $ref/$case/model --out "$scratch/killed" --save-every 2 >"$scratch/killed.log" 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((10 + RANDOM % 120)))"
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    [ -f "$scratch/killed/DONE" ] && break
done
run killed --save-every 2; expect "after $kills kills" 0 ""
finishes "after kills"
exit $failed
