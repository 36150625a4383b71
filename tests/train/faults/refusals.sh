# shellcheck shell=bash disable=SC2086,SC2154
# refusals.sh -- damaged and unsuitable files, flags that contradict: the exit code, one line, no step.
# Sourced by faults.sh.

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
