#!/bin/bash
# checkpoint: everything that touches weights on disk: checkpoints under damage, kills and full disks,
# Hugging Face and PEFT folders both ways, the run lock, stop requests. KILLS=n: moments of kill -9.
# cost: 28
set -u
. tests/sources.sh
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=checkpoint/
cd "$(dirname "$0")/../.." || exit 1
here=tests/checkpoint
ref=tests/train/ref
build=out/.test/checkpoint
mkdir -p $build
scratch=$(mktemp -d)
mounts=
trap 'for m in $mounts; do umount "$m"; done; rm -rf "$scratch"' EXIT
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 OMP_NUM_THREADS=1

units="base names owners comm launch device_cpu fault flags flags_parse built schedule json crc32c safetensors
       safetensors_write model model_parts moments weights folder hf hf_match hf_config hf_tensors hf_adapter card
       checkpoint checkpoint_resume resume_path replicas fingerprint lock stop"
watched $(sources runtime $units) $here/driver.c $here/fake.c
watched_link $build/driver $objects -lcjson -lm &&
    gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o $build/shim.so $here/shim.c -ldl || exit 1
driver=$build/driver

# config folder of a kind of fake model
folder_of() {
    case $1 in
        gpt2*) echo gpt2_tiny ;; llama*) echo llama_tiny ;; qwen2*) echo qwen2_tiny ;;
        bert*) echo mlm_bert ;; lora*) echo qwen2_lora ;; rslora*) echo qwen2_rslora ;;
    esac
}

# d KIND COMMAND ARGS...: runs the driver; its output, all of it, in $scratch/out
d() {
    local kind=$1
    shift
    timeout 300 $driver "$ref/$(folder_of "$kind")/model/config.json" "$kind" "$@" >"$scratch/out" 2>&1
}

# expect NAME CODE PATTERN KIND COMMAND ARGS...: exit code and a line of the output
expect() {
    local name=$1 want=$2 pattern=$3 code
    shift 3
    d "$@"
    code=$?
    if [ $code != "$want" ]; then
        not_ok "$name" "exit $code, want $want: $(tail -c 300 "$scratch/out" | tr '\n' ' ')"
    elif ! grep -qE -- "$pattern" "$scratch/out"; then
        not_ok "$name" "no /$pattern/ in: $(tail -c 300 "$scratch/out" | tr '\n' ' ')"
    else
        ok "$name"
    fi
}

# waits CONDITION: until it holds, a minute at most: a hang
waits() {
    for _ in {1..1200}; do "$@" && return; sleep 0.05; done
}

# taken PID: SIGTERM has reached it; two that wait would be one
taken() { ! grep -q '^ShdPnd:.*[4567cdef]...$' "/proc/$1/status" 2>/dev/null; }

new() { rm -rf "$scratch/run"; mkdir "$scratch/run"; echo "$scratch/run"; }

# flip FILE OFFSET: turns one bit; a negative offset counts from the end
flip() {
    local at=$2 byte
    [ "$at" -lt 0 ] && at=$(($(stat -c %s "$1") + at))
    byte=$(od -An -tu1 -j "$at" -N1 "$1")
    printf "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

# ---- checkpoints: there and back -------------------------------------------------------------

for kind in gpt2 llama llama-bf16 llama-f16 lora lora-bf16 rslora; do
    out=$(new)
    d $kind save "$out" 1 2 || not_ok "roundtrip-$kind" "save: $(cat "$scratch/out")"
    expect "roundtrip-$kind" 0 '^found 2 lr 0.25$' $kind find "$out"
done
expect init-llama 0 '^init' llama init 5
expect init-gpt2-bf16 0 '^init' gpt2-bf16 init 6

out=$(new)
d llama save "$out" 1 2 3 4 5
verdict rotation "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-3 checkpoint-4 checkpoint-5 ')"
out=$(new)
BEST=x/checkpoint-1 d llama save "$out" 1 2 3 4 5 --save-total-limit 1
verdict rotation-keeps-best-and-newest "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-1 checkpoint-5 ')"
grep -q 'counts as 2' "$scratch/out" && ok rotation-limit-1 || not_ok rotation-limit-1 "does not say so"
out=$(new)
d llama save "$out" 3 3
verdict same-step-again "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-3 ')"
expect same-step-again-loads 0 '^found 3' llama find "$out"

out=$(new)
d llama save "$out" 1
mkdir "$scratch/keep"; echo x >"$scratch/keep/file"
mkdir "$out/checkpoint-2.tmp" "$out/checkpoint-9.del" "$out/checkpoint-7x"
touch "$out/checkpoint-2.tmp/files.json" "$out/checkpoint-9.del/a"
ln -s "$scratch/keep" "$out/checkpoint-8.tmp"
expect leftovers-never-loaded 0 '^found 1 ' llama find "$out"
verdict leftovers-removed "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-1 checkpoint-7x checkpoint-8.tmp ')"
[ -f "$scratch/keep/file" ] && ok leftovers-follow-no-link || not_ok leftovers-follow-no-link "file gone"

# ---- damage ----------------------------------------------------------------------------------

out=$(new)
d llama save "$out" 4 5
cp -a "$out" "$scratch/good"
damage() {  # NAME PATTERN COMMAND...: in the newest checkpoint
    local name=$1 pattern=$2
    shift 2
    rm -rf "$out"; cp -a "$scratch/good" "$out"
    (cd "$out/checkpoint-5" && eval "$@")
    expect "damage-$name" 0 "$pattern" llama find "$out"
    grep -q '^found 4' "$scratch/out" && [ -d "$out/checkpoint-5.corrupt" ] ||
        not_ok "damage-$name-recovers" "$(tail -c 300 "$scratch/out")"
}
damage last-byte 'optimizer.safetensors: has [0-9]+ bytes, but files.json lists' truncate -s -1 optimizer.safetensors
damage bit-in-tensor 'model.safetensors: has crc32c .*damaged tensor ' 'flip model.safetensors -20'
damage bit-in-moment 'damaged tensor model.norm.weight.exp_avg_sq' 'flip optimizer.safetensors -20'
damage bit-in-header 'model.safetensors: has crc32c' 'flip model.safetensors 40'
damage bit-in-state 'train_state.json: has crc32c' 'flip train_state.json 60'
damage bit-in-files 'files.json: ' "sed -i 's/00ff/00fe/' files.json"
damage bit-in-trainer-state 'trainer_state.json: has crc32c' 'flip trainer_state.json 5'
damage file-missing 'config.json' rm config.json
damage files-missing 'files.json' rm files.json
damage files-empty 'files.json' '> files.json'
damage weights-empty 'model.safetensors: has 0 bytes' '> model.safetensors'
damage longer 'model.safetensors: has [0-9]+ bytes' 'echo >> model.safetensors'
damage link 'model.safetensors' 'mv model.safetensors m; ln -s m model.safetensors'
damage files-fifo 'files.json: open: not a regular file' 'rm files.json; mkfifo files.json'
damage files-link 'files.json: open: a symbolic link' 'mv files.json f; ln -s f files.json'
damage state-fifo 'train_state.json: open: not a regular file' 'rm train_state.json; mkfifo train_state.json'
damage fifo 'not a regular file' 'rm model.safetensors; mkfifo model.safetensors'
damage path-in-files 'files.json' "sed -i 's/\"config.json\"/\"..\\/x.json\"/' files.json"
damage depth 'files.json' "printf '[%.0s' {1..100000} > files.json"
damage bytes-negative 'files.json' "sed -i 's/\"bytes\": /\"bytes\": -/' files.json"
damage crc-number 'files.json' "sed -i 's/\"crc32c\": \"[0-9a-f]*\"/\"crc32c\": 7/' files.json"
# A checkpoint whose files are whole but whose checksum file was made for a lie: the step.
rm -rf "$out"; cp -a "$scratch/good" "$out"; mv "$out/checkpoint-5" "$out/checkpoint-6"
expect step-lies 0 'step is 5' llama find "$out"
rm -rf "$out"; cp -a "$scratch/good" "$out"
truncate -s 9 "$out"/checkpoint-*/model.safetensors
expect all-damaged 89 'no valid checkpoint' llama find "$out"
verdict all-damaged-put-aside "$(ls "$out" | grep -v corrupt)"
for again in second third; do
    expect all-damaged-$again-start 89 'all are damaged; --resume never starts over' llama find "$out"
done
expect all-damaged-never 0 '^none$' llama find "$out" --resume never
verdict all-damaged-stay "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-4.corrupt checkpoint-5.corrupt ')"
expect no-folder-auto 0 '^none$' llama find "$scratch/nowhere" unstarted
expect no-folder-last 89 'no valid checkpoint' llama find "$scratch/nowhere" unstarted --resume last
expect nothing-left-last 89 'no valid checkpoint' llama find "$out" --resume last
rm -rf "$out"; cp -a "$scratch/good" "$out"
expect resume-path 0 '^found 4' llama find "$out" --resume "$out/checkpoint-4/"
expect resume-pt 0 '^found 4' llama find "$out" --resume "checkpoint-4.pt"
expect resume-pt-none 89 "PyTorch files are not supported, and there is no folder .*/the last here .*torch.load.* '[^']*/the last.pt' DIR" \
    llama find "$out" --resume "$out/the last.pt"
truncate -s 9 "$out/checkpoint-4/model.safetensors"
expect resume-path-damaged 89 'model.safetensors: has 9 bytes' llama find "$out" --resume "$out/checkpoint-4"
[ -d "$out/checkpoint-4" ] && ok resume-path-stays || not_ok resume-path-stays "renamed"
expect resume-never 80 'has 2 checkpoints;' llama find "$out" --resume never

# ---- what must agree -------------------------------------------------------------------------

out=$(new)
d llama save "$out" 1 2 --lr 0.125
expect flag-of-checkpoint 0 '^found 2 lr 0.125$' llama find "$out"
expect flag-given 0 '^found 2 lr 0.5$' llama find "$out" --lr 0.5
grep -q 'CHANGED ON RESUME: lr 0.125 -> 0.5' "$scratch/out" && ok flag-change-said ||
    not_ok flag-change-said "$(cat "$scratch/out")"
expect another-model 83 'model.kind is llama in the checkpoint, gpt2 here' gpt2 find "$out"
FINGERPRINT=data-2 expect other-data 83 'data "data-1" -> "data-2"; --allow-inexact' llama find "$out"
FINGERPRINT=data-2 expect other-data-allowed 0 '^found 2' llama find "$out" --allow-inexact
grep -q 'INEXACT RESUME: data' "$scratch/out" && ok other-data-said || not_ok other-data-said "$(cat "$scratch/out")"
RANKS=2 expect other-batch 83 'global_batch 4 -> 8' llama find "$out"
RANKS=2 ACCUM=1 expect other-ranks 0 'INEXACT RESUME: (ranks 1 -> 2, accum 2 -> 1|accum 2 -> 1, ranks 1 -> 2)' \
    llama find "$out"
RANKS=2 ACCUM=1 expect other-ranks-exact 83 'ranks 1 -> 2' llama find "$out" --exact
# before the bits of 16-bit products on the CPU were those of any number of threads, programs named it
out=$(new)
THREADS=2 d llama save "$out" 1 2
expect of-threads 0 'INEXACT RESUME: threads 2 -> "any number"; ' llama find "$out"
expect of-threads-exact 83 '--exact, but threads 2 -> "any number";' llama find "$out" --exact
out=$(new)
d llama save "$out" 1 2
expect of-any-threads 0 '^found 2 ' llama find "$out" --exact
SET=head expect sets-added 83 'lm_head.weight is in group model in the checkpoint, in head here: ' llama find "$out"
grep -q '"sets"' "$out"/checkpoint-*/train_state.json && not_ok set-one "it is named" || ok set-one
out=$(new)
SET=head d llama save "$out" 1 2
verdict sets-by-name "$(grep -A 3 '"sets"' "$out/checkpoint-2/train_state.json" | tr -d ' \t\n' |
    grep -v '^"sets":{"head":\["lm_head.weight"\]')"
SET=head expect sets-resume 0 '^found 2 ' llama find "$out"
SET=top expect sets-other 83 'lm_head.weight is in group head in the checkpoint, in top here: ' llama find "$out"
expect sets-gone 83 'lm_head.weight is in group head in the checkpoint, in model here: ' llama find "$out"
out=$(new)
d lora save "$out" 1
BASE=9 expect lora-other-base 83 'trained on the base base' lora find "$out"

# ---- kills, full disks, failing calls --------------------------------------------------------

kills=${KILLS:-60}
out=$(new)
newest=0
lost=
seed=${SEED:-1}
RANDOM=$seed
for ((i = 0; ${#lost} == 0 && i < 10 * kills && (i < kills || newest <= 20); i++)); do
    $driver $ref/llama_tiny/model/config.json llama loop "$out" >"$scratch/loop" 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((50 + RANDOM % 300)))"
    kill -9 $pid 2>/dev/null || lost="loop ended by itself: $(cat "$scratch/loop")"
    wait $pid 2>/dev/null
    d llama find "$out" || lost="seed $seed, kill $i: $(cat "$scratch/out")"
    found=$(sed -n 's/^found \([0-9]*\) .*/\1/p' "$scratch/out")
    [ "${found:-0}" -ge "$newest" ] || lost="seed $seed, kill $i: newest was $newest, now ${found:-none}"
    newest=${found:-0}
done
kills=$i
[ -n "$lost" ] || [ "$newest" -gt 20 ] || lost="only $newest saves in all: no test"
ls "$out" | grep -q corrupt && lost="a checkpoint was found damaged: $(ls "$out")"
verdict "kill-9 ($kills moments, $newest saves)" "$lost"

out=$(new)
mkdir "$scratch/small"
if mount -t tmpfs -o size=2m none "$scratch/small" 2>/dev/null; then
    mounts=$scratch/small
    expect disk-too-small 90 'a checkpoint needs [0-9.]+ MiB, [0-9.]+ MiB are free' llama save "$scratch/small" 1
    mount -o remount,size=6m "$scratch/small"
    expect disk-fills 90 'third save in a row' llama save "$scratch/small" 1 2 3 4 5 6 7 8 9 --save-total-limit 0
    grep -q 'not saved: .*training goes on' "$scratch/out" && ok disk-full-goes-on ||
        not_ok disk-full-goes-on "$(cat "$scratch/out")"
    verdict disk-full-leaves-no-temp "$(ls "$scratch/small" | grep tmp)"
    mount -o remount,size=64m "$scratch/small"
    expect disk-full-newest 0 '^found [1-9]' llama find "$scratch/small"
    # Bytes enough, but no inode for the third file: ENOSPC in the middle of a save.
    mount -o remount,nr_inodes=$(($(df --output=iused "$scratch/small" | tail -1) + 3)) "$scratch/small"
    expect no-inodes 0 'No space left on device; training goes on' llama save "$scratch/small" 20 --save-total-limit 0
    verdict no-inodes-leaves-no-temp "$(ls "$scratch/small" | grep tmp)"
    mount -o remount,ro "$scratch/small"
    expect read-only 90 'cannot be written: Read-only' llama save "$scratch/small" 20
    expect read-only-lock 90 'Read-only' llama lock "$scratch/small" 0 0
else
    echo "# checkpoint: no tmpfs can be mounted here: the full-disk and read-only tests are left out"
fi
d llama save "$out" 1
(ulimit -f 200; expect file-limit 90 'File too large' llama save "$out" 2 3 4) | tee "$scratch/sub"
grep -q '^not ok' "$scratch/sub" && failed=1
verdict file-limit-leaves-nothing "$(ls "$out" | grep -vx checkpoint-1)"
expect file-limit-newest 0 '^found 1' llama find "$out"

export LD_PRELOAD=$PWD/$build/shim.so
FAIL_FSYNC=1 expect fsync-of-probe 90 'cannot be written: Input/output error' llama save "$out" 2
FAIL_FSYNC=3 expect fsync-once 0 'trying once more' llama save "$out" 2
LD_PRELOAD= expect fsync-once-saved 0 '^found 2' llama find "$out"
FAIL_FSYNC=3-99 expect fsync-twice 0 'saved 0 of 1' llama save "$out" 3
FAIL_FSYNC=3-99 expect fsync-always 90 'fsync: Input/output error; the third save' llama save "$out" 3 4 5
FAIL_RENAME=1-9 expect rename 0 'saved 0 of 1' llama save "$out" 3
FAIL_RENAME=3 expect rename-of-commit 0 'saved 1 of 1' llama save "$out" 3
unset LD_PRELOAD
verdict failing-calls-leave-nothing "$(ls "$out" | tr '\n' ' ' | grep -vx 'checkpoint-1 checkpoint-2 checkpoint-3 ')"
expect failing-calls-newest 0 '^found 3' llama find "$out"

# System call failures while packing, saving, resuming, exporting, loading and locking: at every call with FULL=1, else
# at two per failure mode.
watched $(sources runtime $units folder_replace failure records prepare data data_order data_batch recordfile \
    host_memory tokenfile shuffle bins data_bins sample workers rank_agreement sha256 'tokenizer*' bpe tokens \
    wordpiece words chars 'pack_*' 'format_*' 'jinja_*') \
    $here/errors.c $here/inject.c $here/fake.c gen/tools/pack.c gen/util.c gen/commands.c
watched_link $build/errors $(nm out/.test/watched/$here/inject.o | sed -n 's/.* T __wrap_/-Wl,--wrap=/p') $objects \
    -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm -lpthread || exit 1
most=2
[ -z "${FULL:-}" ] || most=0
mkdir "$scratch/errors"
$build/errors "$scratch/errors" $most || failed=1

# ---- Hugging Face model folders --------------------------------------------------------------

for kind in gpt2 llama bert qwen2; do
    model=$ref/$(folder_of $kind)/model
    expect "load-$kind" 0 '^loaded' $kind load $model
    expect "load-$kind-bf16" 0 '^loaded' $kind-bf16 load $model
    rm -rf "$scratch/m"
    expect "save-$kind" 0 '^saved' $kind resave $model "$scratch/m"
    # The recorded file was written by Hugging Face: the same tensors must give the same bytes.
    verdict "save-$kind-bytes" "$(cmp $model/model.safetensors "$scratch/m/model.safetensors" 2>&1)"
    [ $kind = bert ] ||
        verdict "save-$kind-extras" "$(cmp $model/generation_config.json "$scratch/m/generation_config.json" 2>&1)"
    expect "save-$kind-loads" 0 '^loaded' $kind load "$scratch/m"
    # Patched: only the keys of the other generation may be new, none may change or go.
    verdict "save-$kind-config" "$(diff $model/config.json "$scratch/m/config.json" | grep '^<')"
    new_keys=$(diff $model/config.json "$scratch/m/config.json" |
        sed -n 's/^>   "\([a-z_]*\)".*/\1/p' | sort | tr '\n' ' ')
    case $new_keys in
        'torch_dtype ' | 'dtype rope_parameters ' | 'rope_scaling rope_theta torch_dtype ' | \
            'dtype torch_dtype ') ok "save-$kind-keys" ;;
        *) not_ok "save-$kind-keys" "new keys: $new_keys" ;;
    esac
    rm -rf "$scratch/s"
    expect "shards-$kind" 0 '^saved' $kind shards $model "$scratch/s" 60000
    [ "$(ls "$scratch/s" | grep -cE '^model-[0-9]{5}-of-[0-9]{5}.safetensors$')" -gt 1 ] &&
        [ ! -e "$scratch/s/model.safetensors" ] && ok "shards-$kind-files" ||
            not_ok "shards-$kind-files" "$(ls "$scratch/s")"
done
rm -rf "$scratch/m"
expect export 0 '^saved' llama-bf16 export "$scratch/m"
grep -q '"dtype": "bfloat16"' "$scratch/m/config.json" && ok export-dtype ||
    not_ok export-dtype "$(cat "$scratch/m/config.json")"
expect export-again 0 '^saved' llama-bf16 export "$scratch/m"
echo x >"$scratch/m/thesis.txt"
expect export-foreign-file 80 'holds thesis.txt' llama-bf16 export "$scratch/m"
[ -f "$scratch/m/model.safetensors" ] && [ -f "$scratch/m/thesis.txt" ] &&
    ok export-foreign-stays ||
    not_ok export-foreign-stays "gone"
rm -rf "$scratch/m"
CARD='# A model' expect export-card 0 '^saved' llama export "$scratch/m"
CARD='# Another model' expect export-card-again 0 '^saved' llama export "$scratch/m"
verdict export-card-text "$(head -n 1 "$scratch/m/README.md" | grep -vx '# Another model')"
expect export-card-gone 0 '^saved' llama export "$scratch/m"
verdict export-card-none "$(ls "$scratch/m" | grep README)"
# a downloaded model, which need not have a README.md
CARD='# A model' expect export-over-model 80 'm: holds a model that was not written here' llama export "$scratch/m"
verdict export-over-model-stays "$(ls "$scratch/m/model.safetensors" 2>&1 >/dev/null)"
rm -rf "$scratch/m"
CARD='# A model' d llama export "$scratch/m"
sed -i 's/A model/My model/' "$scratch/m/README.md"
CARD='# A model' expect export-card-changed 80 'm: holds a README.md that was not written here, or was changed since; move' \
    llama export "$scratch/m"
echo mine >"$scratch/m/README.md"
CARD='# A model' expect export-card-foreign 80 'holds a README.md that was not written' llama export "$scratch/m"
rm "$scratch/m/README.md"; ln -s "$scratch/file" "$scratch/m/README.md"
CARD='# A model' expect export-card-link 80 'holds a README.md that was not written' llama export "$scratch/m"
cp -r $ref/llama_tiny/model "$scratch/own"
expect export-over-source 80 'came from' llama resave "$scratch/own" "$scratch/own/"
expect export-makes-parents 0 saved llama export "$scratch/none/of/these/m"
: >"$scratch/file"
expect export-below-a-file 90 'file/m: mkdir .*/file: File exists' llama export "$scratch/file/m"

# In 16 bits: the bytes that transformers writes of the same model, rounded by torch; tests/oracle/dtypes.py.
while read -r sum kind dtype; do
    rm -rf "$scratch/m"
    case $kind in
    *lora) DTYPE=$dtype d $kind adapter $ref/qwen2_$kind/adapter_final "$scratch/m" ;;
    *) DTYPE=$dtype d $kind resave "$ref/$(folder_of $kind)/model" "$scratch/m" ;;
    esac
    verdict "$dtype-$kind-bytes" "$(sha256sum "$scratch/m"/*.safetensors | grep -v "^$sum ")"
    case $kind-$dtype in
    *lora-*) ;;
    *-bf16) verdict "$dtype-$kind-config" "$(grep -c 'dtype": "bfloat16"' "$scratch/m/config.json" | grep -vx 2)" ;;
    *) verdict "$dtype-$kind-config" "$(grep -c 'dtype": "float16"' "$scratch/m/config.json" | grep -vx 2)" ;;
    esac
done <$here/as_16bit.sha256
# A bf16 program's fp32 copies as they are, and rounded once from them to fp16.
DTYPE=fp32 d llama-bf16 resave $ref/llama_tiny/model "$scratch/m"
verdict fp32-of-bf16 "$(cmp "$scratch/m/model.safetensors" $ref/llama_tiny/model/model.safetensors 2>&1)"
DTYPE=fp16 d llama-bf16 resave $ref/llama_tiny/model "$scratch/m"
verdict fp16-of-bf16 "$(sha256sum "$scratch/m/model.safetensors" | cut -d ' ' -f 1 |
    grep -vxF "$(sed -n 's/  llama fp16$//p' $here/as_16bit.sha256)")"
rm -rf "$scratch/h"; cp -r $ref/llama_tiny/model "$scratch/h"; rm "$scratch/h/model.safetensors"
d llama rewrite $ref/llama_tiny/model "$scratch/h" large
DTYPE=bf16 expect bf16-large 0 '^saved' llama resave "$scratch/h" "$scratch/m"
DTYPE=fp16 expect fp16-large 80 '^[^:]*: --export-dtype fp16: model[^:]*: value 2 is 65520, the largest of fp16 is 65504: bf16 and fp32' \
    llama resave "$scratch/h" "$scratch/too"
verdict fp16-large-leaves-nothing "$(ls -d "$scratch/too"* 2>/dev/null)"

changed() {  # NAME CODE PATTERN KIND WHAT: the recorded model with one thing changed
    local kind=$4 what=$5
    rm -rf "$scratch/h"; cp -r "$ref/$(folder_of "$kind")/model" "$scratch/h"; rm "$scratch/h/model.safetensors"
    d "$kind" rewrite "$ref/$(folder_of "$kind")/model" "$scratch/h" "$what" ||
        { not_ok "$1" "$(cat "$scratch/out")"; return; }
    expect "$1" "$2" "$3" "$kind" load "$scratch/h"
}
changed missing 83 '1 tensors are missing: ' llama missing
changed extra 83 '1 unexpected tensors: ' llama extra
changed shape 83 'has shape .*, this program was built for' llama shape
changed integer 83 'is I32; supported are' llama integer
changed nan 88 'holds 1 NaN or Inf; --allow-nonfinite' llama nan
expect nan-allowed 0 '^loaded' llama load "$scratch/h" --allow-nonfinite
changed skipped-buffer-gpt2 0 '^loaded' gpt2 skip
changed skipped-buffer-llama 0 '^loaded' llama skip-llama
changed tied-head-equal 0 '^loaded' qwen2 head
changed tied-head-differs 83 'lm_head.weight differs from model.embed_tokens.weight' qwen2 head-differs
changed tied-head-gpt2 0 '^loaded' gpt2 head-gpt2
for what in pooler pooler-plain sentences position-ids decoder decoder-bias; do
    changed bert-$what 0 '^loaded' bert $what
done
changed bert-decoder-differs 83 'decoder.weight differs from bert.embeddings.word_embeddings.weight' bert \
    decoder-differs
changed bert-gamma-elsewhere 83 '1 unexpected tensors: bert.encoder.gamma' bert gamma-elsewhere
for dtype in f64 f16 bf16; do changed dtype-$dtype 0 '^loaded' gpt2 $dtype; done
changed bf16-into-fp16 83 'BF16, which fp16 cannot represent' llama-f16 bf16
for kind_what in gpt2-no-prefix llama-no-prefix qwen2-no-prefix bert-no-prefix bert-gamma; do
    kind=${kind_what%%-*}
    OTHER_NAMES=1 changed $kind_what 0 '^loaded' $kind ${kind_what#*-}
    with=$(cat "$scratch/out")
    d $kind load "$ref/$(folder_of $kind)/model"
    [ "$with" = "$(cat "$scratch/out")" ] && ok $kind_what-same-weights || not_ok $kind_what-same-weights "$with"
done
changed gpt2-twice 83 'is stored twice' gpt2 twice

edited() {  # NAME CODE PATTERN KIND SED: the recorded model with an edited config.json
    rm -rf "$scratch/h"; cp -r "$ref/$(folder_of "$4")/model" "$scratch/h"
    sed -i "$5" "$scratch/h/config.json"
    expect "$1" "$2" "$3" "$4" load "$scratch/h"
}
edited config-hidden 83 'hidden_size is 128, this program was built for 64' \
    llama 's/"hidden_size": 64/"hidden_size": 128/'
edited config-all 83 'hidden_size is 128, this .*64; rms_norm_eps is 1e-06, this .*; factor is 9, this .*for 8; gen new FILE.lua --from ' \
    llama 's/"hidden_size": 64/"hidden_size": 128/; s/1e-05/1e-06/; s/"factor": 8.0/"factor": 9.0/'
edited config-text 83 'hidden_size is "64", this' llama 's/"hidden_size": 64/"hidden_size": "64"/'
edited config-negative 83 'num_hidden_layers is -2, this' llama 's/"num_hidden_layers": 2/"num_hidden_layers": -2/'
edited config-eps 83 'rms_norm_eps is 1e-06, this' llama 's/1e-05/1e-06/'
edited config-missing-is-default 83 'intermediate_size is 11008, this' llama '/intermediate_size/d'
edited config-head-dim-derived 0 '^loaded' llama '/"head_dim"/d'
edited config-family 83 'model_type is mistral, this program was built for llama' llama 's/"llama"/"mistral"/'
edited config-theta 83 'rope_theta is 500000, this' llama 's/"rope_theta": 10000.0/"rope_theta": 500000.0/'
edited config-scaling 83 'low_freq_factor is 2, this' llama 's/"low_freq_factor": 1.0/"low_freq_factor": 2.0/'
edited config-rope-type 83 'rope_parameters.rope_type is "yarn": YaRN, .*: not supported' llama \
    's/"rope_type": "llama3"/"rope_type": "yarn"/'
edited config-rope-unknown 83 'rope_type is "spiral", this' llama 's/"rope_type": "llama3"/"rope_type": "spiral"/'
edited config-rope-part 83 'partial_rotary_factor is 0.5: rotating .* is not supported' llama \
    's/"rope_type": "llama3"/"rope_type": "llama3", "partial_rotary_factor": 0.5/'
edited config-rope-part-4x 83 'partial_rotary_factor is 0.25' llama \
    's/"rms_norm_eps"/"partial_rotary_factor": 0.25, "rms_norm_eps"/'
edited config-rope-outer 83 'original_max_position_embeddings is 3, and [0-9]* in the object' llama \
    's/"rms_norm_eps"/"original_max_position_embeddings": 3, "rms_norm_eps"/'
edited config-rope-kinds 83 'one object a kind of layers: not supported in the family llama' llama \
    's/"rope_type": "llama3"/"rope_type": "llama3", "full_attention": {}/'
edited config-two-names 83 'n_head is 4, but num_attention_heads is 2: remove the wrong one' gpt2 \
    's/"n_head"/"num_attention_heads": 2, "n_head"/'
edited config-other-name 0 '^loaded' gpt2 's/"n_head"/"num_attention_heads"/'
old='"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 16'
edited config-dropped-base 83 'rope_scaling contradicts rope_parameters' llama \
    's/"rope_theta": 10000.0/"rope_theta": 500000.0/; s/"rms_norm_eps"/"rope_scaling": {'"$old"'}, &/'
edited config-kinds 83 'layer_types is "sliding_attention", this program' llama \
    's/"rms_norm_eps"/"layer_types": ["full_attention", "sliding_attention"], "rms_norm_eps"/'
edited config-rope-whole 0 '^loaded' llama 's/"rms_norm_eps"/"partial_rotary_factor": 1.0, "rms_norm_eps"/'
edited config-theta-text 83 'rope_theta must be a number' llama 's/"rope_theta": 10000.0/"rope_theta": "1e4"/'
edited config-rope-type-number 83 'rope_type must be a string' llama 's/"rope_type": "llama3"/"rope_type": 3/'
edited config-two-thetas 83 'rope_theta is 500000 and rope_parameters.rope_theta 10000' \
    llama 's/"rms_norm_eps"/"rope_theta": 500000.0, "rms_norm_eps"/'
edited config-two-scalings 83 'rope_scaling contradicts rope_parameters' llama \
    's/"rms_norm_eps"/"rope_scaling": {"type": "llama3", "factor": 4.0}, "rms_norm_eps"/'
edited config-both-generations 0 '^loaded' llama 's/"rms_norm_eps"/"rope_theta": 10000.0, "rms_norm_eps"/'
edited config-quantised 83 'quantization_config' \
    llama 's/"rms_norm_eps"/"quantization_config": {"bits": 4}, "rms_norm_eps"/'
edited config-bitsandbytes 83 'quantization_config .bitsandbytes.: bnb_4bit_quant_type is fp4: supported is nf4' \
    llama 's/"rms_norm_eps"/"quantization_config": {"quant_method":"bitsandbytes","load_in_4bit":true}, "rms_norm_eps"/'
edited config-gptq 83 'quantization_config .gptq, 4 bits.: quantised' \
    llama 's/"rms_norm_eps"/"quantization_config": {"quant_method": "gptq", "bits": 4}, "rms_norm_eps"/'
sliding='s/"use_sliding_window": false/"use_sliding_window": true/; s/"max_window_layers": [0-9]*/"max_window_layers": 1/'
edited config-window 83 'sliding_window is 8 tokens, .* sequences of 32; generate it with seq.max=8 or less' \
    qwen2 "$sliding; s/\"sliding_window\": [a-z0-9]*/\"sliding_window\": 8/"
edited config-window-reaches 0 '^loaded' qwen2 "$sliding; s/\"sliding_window\": [a-z0-9]*/\"sliding_window\": 32/"
edited config-window-off 0 '^loaded' qwen2 's/"sliding_window": [a-z0-9]*/"sliding_window": 8/'
edited config-layer-types 83 'sliding_window is 8 tokens' qwen2 's/"use_sliding_window": false/"use_sliding_window": true/
    s/"sliding_window": [a-z0-9]*/"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]/'
edited config-layer-kinds 83 'layer_types has linear_attention' \
    qwen2 's/"hidden_act"/"layer_types": ["full_attention", "linear_attention"], "hidden_act"/'
edited config-tied 83 'tie_word_embeddings is true' llama 's/"tie_word_embeddings": false/"tie_word_embeddings": true/'
edited config-inner 0 '^loaded' gpt2 's/"n_inner": null/"n_inner": 256/'
edited config-inner-other 83 'n_inner is 128' gpt2 's/"n_inner": null/"n_inner": 128/'
edited config-act 83 'activation_function is "gelu"' gpt2 's/gelu_new/gelu/'
edited config-bert 83 'type_vocab_size is 1, this .*; position_embedding_type is "relative_key", this' bert \
    's/"type_vocab_size": 2/"type_vocab_size": 1, "position_embedding_type": "relative_key"/'
edited config-bert-dropout 0 '^loaded' bert 's/"hidden_dropout_prob": 0.0/"hidden_dropout_prob": 0.1/'
edited config-bert-untied 83 'tie_word_embeddings is false' bert \
    's/"tie_word_embeddings": true/"tie_word_embeddings": false/'
for other in roberta:RoBERTa distilbert:DistilBERT albert:ALBERT electra:ELECTRA; do
    edited "config-${other%:*}" 83 \
        "model_type is ${other%:*}, this program was built for bert: not supported: ${other#*:}" \
        bert "s/\"model_type\": \"bert\"/\"model_type\": \"${other%:*}\"/"
done
edited config-twice 88 'config.json' llama 's/"rms_norm_eps"/"vocab_size": 257, "rms_norm_eps"/'
edited config-not-json 88 'config.json' llama '1d'
expect no-folder 80 'no such folder' llama load "$scratch/nowhere"
rm -rf "$scratch/h"; cp -r $ref/llama_tiny/model "$scratch/h"
truncate -s -1 "$scratch/h/model.safetensors"
expect truncated 88 'model.safetensors' llama load "$scratch/h"
printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | dd of="$scratch/h/model.safetensors" conv=notrunc status=none
expect huge-header 88 'model.safetensors' llama load "$scratch/h"
mv "$scratch/h/model.safetensors" "$scratch/h/pytorch_model.bin"
expect pickle 83 'pickle' llama load "$scratch/h"
rm "$scratch/h/pytorch_model.bin"
expect no-weights 83 'neither model.safetensors nor' llama load "$scratch/h"
rm "$scratch/h/config.json"
expect no-config 88 'config.json' llama load "$scratch/h"
rm -rf "$scratch/h"; cp -r "$scratch/s" "$scratch/h"     # shards of qwen2
rm "$scratch/h/model-00002-of"*
expect shard-missing 88 'model-00002-of' qwen2 load "$scratch/h"
rm -rf "$scratch/h"; cp -r "$scratch/s" "$scratch/h"
sed -i 's/"model-00002-of/"..\/model-00002-of/' "$scratch/h/model.safetensors.index.json"
expect shard-path 88 'index.json' qwen2 load "$scratch/h"

# Folders as users have them: what is loaded of them and written again are the weights of the plain one.
sum_of() { $driver $ref/qwen2_tiny/model/config.json qwen2 load "$1" 2>/dev/null; }
plain=$(sum_of $ref/qwen2_tiny/model)
layout() {              # NAME FILES: loads, and is written again as these
    rm -rf "$scratch/w"
    expect "layout-$1" 0 "^$plain$" qwen2 load "$scratch/h"
    expect "layout-$1-again" 0 '^saved' qwen2 resave "$scratch/h" "$scratch/w"
    verdict "layout-$1-files" "$(cmp "$scratch/w/model.safetensors" $ref/qwen2_tiny/model/model.safetensors 2>&1
        find "$scratch/w" -mindepth 1 ! -type f
        ls "$scratch/w" | tr '\n' ' ' | grep -vx "$2")"
}
usual="config.json generation_config.json model.safetensors "
rm -rf "$scratch/h"; cp -r "$scratch/s" "$scratch/h"
layout shards "$usual"
# in the hub's cache each is a link to a file that is named by its sum
rm -rf "$scratch/hub"; mkdir -p "$scratch/hub/snapshots/rev" "$scratch/hub/blobs"
for file in "$scratch/s"/*; do
    blob=$(sha256sum "$file" | cut -d ' ' -f 1)
    cp "$file" "$scratch/hub/blobs/$blob"
    ln -s "../../blobs/$blob" "$scratch/hub/snapshots/rev/$(basename "$file")"
done
mv "$scratch/h" "$scratch/h.shards"; ln -s hub/snapshots/rev "$scratch/h"
layout shards-in-cache "$usual"
expect layout-over-a-link 80 'h: exists and is not a folder; name another' qwen2 export "$scratch/h"
verdict layout-cache-stays "$(find "$scratch/hub/snapshots/rev" -mindepth 1 ! -type l)"
blob=$(readlink "$scratch/hub/snapshots/rev/model-00002-of"*)
rm "$scratch/hub/snapshots/rev/$blob"                   # a download that was broken off
expect layout-broken-link 88 'model-00002-of-.*: No such file' qwen2 load "$scratch/h"
rm "$scratch/h"
cp -r $ref/qwen2_tiny/model "$scratch/h"; rm "$scratch/h/generation_config.json"
layout no-generation "config.json model.safetensors "
mkdir "$scratch/h/original" "$scratch/h/onnx"
echo x | tee "$scratch/h/"{README.md,.gitattributes,LICENSE} \
    "$scratch/h/"{consolidated.safetensors,pytorch_model.bin,flax_model.msgpack} >"$scratch/h/original/params.json"
layout others "config.json model.safetensors "
# the tied head as a tensor of its own, of the same values, in a shard or the file; it is written once
rm -rf "$scratch/h"; cp -r $ref/qwen2_tiny/model "$scratch/h"; rm "$scratch/h/model.safetensors"
d qwen2 rewrite $ref/qwen2_tiny/model "$scratch/h" head
layout tied-twice "$usual"
# what is of yesterday, the file or the shards? Where the index means the file alone, nothing is.
cp "$scratch/h.shards"/model* "$scratch/h"
cp $ref/qwen2_tiny/model/model.safetensors "$scratch/h"
expect layout-file-and-shards 88 'index.json: model[^ ]* is in model-00001-of-[0-9]*.safetensors, but model.safetensors is' \
    qwen2 load "$scratch/h"
sed -i 's/model-[0-9]*-of-[0-9]*.safetensors/model.safetensors/' "$scratch/h/model.safetensors.index.json"
layout file-with-index "$usual"
rm "$scratch/h/model.safetensors.index.json"            # shards that nothing names
layout file-beside-shards "$usual"
rm "$scratch/h/model.safetensors"
expect layout-shards-without-index 83 'index.json is there; the index is missing: download it' qwen2 load \
    "$scratch/h"
rm -rf "$scratch/h"; cp -r "$scratch/h.shards" "$scratch/h"
cp "$scratch/h/model-00001-of"* "$scratch/h/model-00001-of-00099.safetensors"      # not in the index
layout shards-of-yesterday "$usual"
# what was written over shards has none of them
cp -r "$scratch/h.shards" "$scratch/o"
expect layout-over-shards 0 '^saved' qwen2 resave $ref/qwen2_tiny/model "$scratch/o"
verdict layout-over-shards-files "$(ls "$scratch/o" | tr '\n' ' ' | grep -vx "$usual")"

# ---- PEFT adapters ---------------------------------------------------------------------------

for kind in lora rslora; do
    from=$ref/qwen2_$kind
    rm -rf "$scratch/a" "$scratch/m"
    expect "adapter-$kind" 0 '^saved' $kind adapter $from/adapter_final "$scratch/a"
    # Written by PEFT: names, shapes and order must give the same bytes.
    verdict "adapter-$kind-bytes" \
        "$(cmp $from/adapter_final/adapter_model.safetensors "$scratch/a/adapter_model.safetensors" 2>&1)"
    keys=$(sed -n 's/^  "\([a-z_]*\)": .*/\1/p' "$scratch/a/adapter_config.json" | tr '\n' ' ')
    known="alpha_pattern base_model_name_or_path bias fan_in_fan_out inference_mode init_lora_weights layers_pattern \
layers_to_transform lora_alpha lora_dropout modules_to_save peft_type r rank_pattern revision target_modules task_type \
use_dora use_rslora "
    verdict "adapter-$kind-keys" "$(echo "$keys" | grep -vx "$known")"
    # Every value that PEFT wrote as well, lists of modules aside, is the same.
    same="bias|fan_in_fan_out|inference_mode|init_lora_weights|lora_alpha|lora_dropout|peft_type|r|task_type|use_dora"
    verdict "adapter-$kind-values" "$(grep -E "\"($same|use_rslora)\":" \
        "$scratch/a/adapter_config.json" | sed 's/,$//' |
        grep -vxFf <(sed 's/,$//' $from/adapter_final/adapter_config.json))"
    expect "adapter-$kind-again" 0 '^saved' $kind adapter "$scratch/a" "$scratch/b"
    verdict "adapter-$kind-stable" "$(diff -r "$scratch/a" "$scratch/b")"
    rm -rf "$scratch/b"
    expect "merge-$kind" 0 '^merged' $kind merge $from/model $from/adapter_final "$scratch/m"
    if [ $kind = lora ]; then    # the sum is rounded, once
        DTYPE=bf16 d lora merge $from/model $from/adapter_final "$scratch/b"
        DTYPE=bf16 d qwen2 resave "$scratch/m" "$scratch/c"
        verdict "merge-$kind-bf16" "$(diff -r "$scratch/b" "$scratch/c")"
    fi
    rm -rf "$scratch/b" "$scratch/c"
done
expect merge-transposed 0 '^merged' gpt2lora merge $ref/gpt2_tiny/model - "$scratch/m2"
# A head that is trained as a whole: from the folder's own, or from the embedding when tied.
expect head-own 0 '^loaded' rslora load $ref/qwen2_rslora/model
rm -rf "$scratch/h"; cp -r $ref/qwen2_rslora/model "$scratch/h"; rm "$scratch/h/model.safetensors"
d rslora rewrite $ref/qwen2_rslora/model "$scratch/h" no-head
expect head-fresh 0 'keeps its initial values' rslora load "$scratch/h"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$scratch/h/config.json"
TIED=1 $driver "$scratch/h/config.json" rslora load "$scratch/h" >"$scratch/out" 2>&1 &&
    ok head-tied || not_ok head-tied "$(cat "$scratch/out")"
# Folders of another kind, and a model as the hub's cache keeps it.
expect adapter-as-model 80 'is a PEFT adapter, not a model: use --adapter .*adapter_init --init-from its base' \
    lora load $ref/qwen2_lora/adapter_init
rm -rf "$scratch/h"; cp -r $ref/qwen2_lora/adapter_init "$scratch/h"
sed -i 's,"base_model_name_or_path": "","base_model_name_or_path": "org/base",' "$scratch/h/adapter_config.json"
cp $ref/qwen2_lora/model/config.json "$scratch/h"      # as PEFT leaves it next to some
expect adapter-as-model-base 80 '--adapter .*/h --init-from org/base' lora load "$scratch/h"
expect adapter-as-model-no-lora 80 'adapter of org/base, not a model, and this program has no LoRA' qwen2 load "$scratch/h"
expect model-as-adapter 80 'is a model, not a PEFT adapter: use --init-from .*/qwen2_lora/model' \
    lora adapter $ref/qwen2_lora/model "$scratch/b"
cp -rL $ref/qwen2_lora/model "$scratch/h/a model"
expect model-as-adapter-blank 80 "not a PEFT adapter: use --init-from '.*/h/a model'$" lora adapter "$scratch/h/a model" "$scratch/b"
rm -rf "$scratch/h"; mkdir -p "$scratch/h/checkpoint-7" "$scratch/h/checkpoint-30"
expect run-as-model 80 'a run folder; name one of its checkpoints: .*/h/checkpoint-30$' llama load "$scratch/h"
expect run-as-adapter 80 'name one of its checkpoints: .*/h/checkpoint-30$' lora adapter "$scratch/h" "$scratch/b"
rm -rf "$scratch/h"; mkdir -p "$scratch/h/snapshots/rev" "$scratch/h/blobs"
expect cache-as-model 80 'name the folder of one of its revisions in .*/h/snapshots' llama load "$scratch/h"
for file in $ref/llama_tiny/model/*; do
    cp "$file" "$scratch/h/blobs/of-$(basename "$file")"
    ln -s "../../blobs/of-$(basename "$file")" "$scratch/h/snapshots/rev/$(basename "$file")"
done
expect model-in-cache 0 '^loaded' llama load "$scratch/h/snapshots/rev"
ln -s snapshots/rev "$scratch/h/link"
expect model-through-link 0 '^loaded' llama load "$scratch/h/link"
expect hub-name 80 'hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, then name' llama load Qwen/Qwen2.5-0.5B
expect hub-name-adapter 80 'hf download org/adapter --local-dir adapter' lora adapter org/adapter "$scratch/b"
expect file-as-model 80 'a file; name the folder' llama load $ref/llama_tiny/model/model.safetensors
rm -rf "$scratch/h"; cp -r $ref/qwen2_lora/adapter_init "$scratch/h"
mv "$scratch/h/adapter_model.safetensors" "$scratch/h/adapter_model.bin"
expect adapter-pickle 83 "pickle files .* s.save_file.torch.load.'.*/h/adapter_model.bin'" \
    lora adapter "$scratch/h" "$scratch/b"
adapter_edit() {  # NAME CODE PATTERN SED
    rm -rf "$scratch/h"; cp -r $ref/qwen2_rslora/adapter_final "$scratch/h"
    sed -i "$4" "$scratch/h/adapter_config.json"
    expect "adapter-$1" "$2" "$3" rslora adapter "$scratch/h" "$scratch/b"
}
adapter_edit rank 83 'r is 8, this program was built for 4' 's/"r": 4/"r": 8/'
adapter_edit alpha 83 'lora_alpha is 16, this' 's/"lora_alpha": 8/"lora_alpha": 16/'
adapter_edit alpha-missing-is-8 0 '^saved' '/"lora_alpha"/d'
rm -rf "$scratch/b"
adapter_edit rslora 83 'use_rslora is false, this' '/"use_rslora"/d'
adapter_edit dora 83 'use_dora is true: DoRA is not supported' 's/"use_dora": false/"use_dora": true/'
adapter_edit kasa 83 'kasa_config is {"beta":1}: KaSA, which truncates the base, is not supported' \
    's/"kasa_config": null/"kasa_config": {"beta": 1}/'
adapter_edit unknown 83 'new_config is {"a":1}: not known here' 's/"bias": "none"/"new_config": {"a": 1}, &/'
adapter_edit unknown-off 0 '^saved' 's/"bias": "none"/"new_config": null, "use_new": false, &/'
rm -rf "$scratch/b"
adapter_edit type 83 'peft_type is "IA3": an adapter of another kind than LORA is not supported' 's/"LORA"/"IA3"/'
adapter_edit pattern 83 'rank_pattern is ' 's/"rank_pattern": {}/"rank_pattern": {"(a*)*b": 1000000000}/'
adapter_edit bias 83 'bias is "all": a trained bias is not' 's/"bias": "none"/"bias": "all"/'
adapter_edit pissa 83 'init_lora_weights is "pissa_niter_4": an adapter whose initialisation changed the base' \
    's/"init_lora_weights": true/"init_lora_weights": "pissa_niter_4"/'
adapter_edit gaussian 0 '^saved' 's/"init_lora_weights": true/"init_lora_weights": "gaussian"/'
rm -rf "$scratch/b"
adapter_edit alora 83 'alora_invocation_tokens is \[5\]: aLoRA' \
    's/"alora_invocation_tokens": null/"alora_invocation_tokens": [5]/'
adapter_edit layers 83 'layers_to_transform is 1: an adapter of some layers' \
    's/"layers_to_transform": null/"layers_to_transform": 1/'
adapter_edit whole 83 'modules_to_save is absent, this program was built for \["lm_head"\]' \
    '/"modules_to_save": \[/,/\]/c "modules_to_save": null,'
adapter_edit both 83 'r is 8, this .* for 4; lora_alpha is 16, .*generate it with lora.rank=8 lora.alpha=16$' \
    's/"r": 4/"r": 8/; s/"lora_alpha": 8/"lora_alpha": 16/'
adapter_edit target-missing 83 'target_modules lacks model.layers.0.self_attn.v_proj' \
    's/"q_proj",/"q_proj"/; /"v_proj"/d'
adapter_edit target-extra 83 'target_modules has "o_proj"' 's/"q_proj",/"q_proj", "o_proj",/'
adapter_edit target-number 83 'target_modules has 7' 's/"q_proj",/"q_proj", 7,/'
expect adapter-of-another 83 'use_rslora is true, this program was built for false' \
    lora adapter $ref/qwen2_rslora/adapter_final "$scratch/b"
rm -rf "$scratch/h"; cp -r $ref/qwen2_lora/adapter_final "$scratch/h"
truncate -s -3 "$scratch/h/adapter_model.safetensors"
expect adapter-truncated 88 'adapter_model.safetensors' lora adapter "$scratch/h" "$scratch/b"
expect adapter-without-lora 83 'built without LoRA' qwen2 adapter $ref/qwen2_lora/adapter_final "$scratch/b"

# ---- lock ------------------------------------------------------------------------------------

config=$ref/llama_tiny/model/config.json
hold() {  # SECONDS: a process that holds the lock of $out, its id in $pid
    : >"$scratch/held"
    $driver $config llama lock "$out" 0 "$1" >"$scratch/held" 2>&1 &
    pid=$!
    waits grep -q locked "$scratch/held"
}
out=$(new)
hold 600
before=$(ls -l --full-time "$out")
expect lock-held 92 "in use by process $pid on " llama lock "$out" 0 0
expect lock-held-breaks-not 92 "in use by process $pid on " llama lock "$out" 9 0 --break-lock
verdict lock-held-untouched "$([ "$before" = "$(ls -l --full-time "$out")" ] || echo changed)"
kill -9 $pid; wait $pid 2>/dev/null
expect lock-of-the-dead 0 'is stale, taken over' llama lock "$out" 0 0
verdict lock-released "$(ls "$out")"
# Killed, and its parent never waits for it: a zombie.
: >"$scratch/held"
($driver $config llama lock "$out" 0 600 >"$scratch/held" 2>&1 & exec sleep 600) &
parent=$!
disown $parent
waits grep -q locked "$scratch/held"
pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$out/run.lock")
kill -9 "$pid"
waits grep -q '^State:.*Z' "/proc/$pid/status"
expect lock-of-a-zombie 0 'is stale, taken over' llama lock "$out" 0 0
grep -q '^State:.*Z' "/proc/$pid/status" && ok lock-zombie-was-one || not_ok lock-zombie-was-one "no zombie"
kill $parent
DIE=1 d llama lock "$out" 0 0
verdict lock-released-by-die "$(ls "$out")"
other() {
    printf '{"host": "elsewhere", "job": "%s", "pid": 1, "restart": 2, "since": "2024", "start": "5"}\n' "$1" \
        >"$out/run.lock"
}
other 7
expect lock-other-host 92 'in use by process 1 on elsewhere' llama lock "$out" 3 0
SLURM_JOB_ID=7 expect lock-same-job-same-restart 92 'job 7' llama lock "$out" 2 0
SLURM_JOB_ID=8 expect lock-other-job 92 'job 7' llama lock "$out" 3 0
SLURM_JOB_ID=7 expect lock-requeued 0 'stale' llama lock "$out" 3 0
other sky-7
SKYPILOT_TASK_ID=sky-8 expect lock-other-task 92 'job sky-7' llama lock "$out" 0 0
SKYPILOT_TASK_ID=sky-7 expect lock-recovered 0 'stale' llama lock "$out" 0 0
other ''
expect lock-no-job 92 'elsewhere' llama lock "$out" 3 0
expect lock-broken 0 '^locked' llama lock "$out" 0 0 --break-lock
: >"$out/run.lock"
expect lock-left-empty 0 '^locked' llama lock "$out" 0 0
echo '{' >"$out/run.lock"; touch -d '1 year' "$out/run.lock"
expect lock-unreadable-of-the-future 0 '^locked' llama lock "$out" 0 0
: >"$out/run.lock"
exec 7<"$out/run.lock"; flock 7
expect lock-unreadable-held 92 'run.lock does not name the process; stop that run first' \
    llama lock "$out" 0 0 --break-lock
exec 7<&-
rm "$out/run.lock"
# Every rank holds it: a run whose rank 0 was killed lives while another does, and the last one removes the file.
RANK_OF_TWO=0 hold 600
first=$pid
RANK_OF_TWO=1 hold 600
kill -9 $first; wait $first 2>/dev/null
expect lock-of-other-ranks 92 "in use by process $first on .* is gone, but other ranks of its run are alive" \
    llama lock "$out" 0 0
kill -9 $pid; wait $pid 2>/dev/null
RANK_OF_TWO=0 hold 600
first=$pid
RANK_OF_TWO=1 d llama lock "$out" 0 0
verdict lock-not-the-last "$([ -e "$out/run.lock" ] || echo "removed while rank 0 has it")"
kill -9 $first; wait $first 2>/dev/null
RANK_OF_TWO=1 DIE=1 d llama lock "$out" 0 0
verdict lock-the-last "$(ls "$out")"
# Containers: the kernel knows of all locks, whatever names and pids there are; where the file system has none, a pid
# counts in its own PID namespace and boot alone.
in_container() {        # BOOT PID_NAMESPACE HOST PID START
    printf '{"boot": "%s", "host": "%s", "job": "", "pid": %s, "pid_namespace": "%s", "restart": 0, "start": "%s"}\n' \
        "$1" "$3" "$4" "$2" "$5" >"$out/run.lock"
}
boot=$(cat /proc/sys/kernel/random/boot_id)
pids=$(readlink /proc/self/ns/pid)
in_container "$boot" 'pid:[1]' container 7 5
exec 7<"$out/run.lock"; flock 7
expect lock-of-a-container 92 'in use by process 7 on container' llama lock "$out" 0 0
exec 7<&-
expect lock-of-a-dead-container 0 'process 7 on container is stale' llama lock "$out" 0 0
export NO_FLOCK=1 LD_PRELOAD=$PWD/$build/shim.so
in_container "$boot" 'pid:[1]' "$(hostname)" 2147483646 5
expect no-flock-other-namespace 92 'in use by process 2147483646 on .*--break-lock takes' llama lock "$out" 0 0
in_container another "$pids" "$(hostname)" 2147483646 5
expect no-flock-other-boot 92 'in use by process 2147483646' llama lock "$out" 0 0
in_container "$boot" "$pids" "$(hostname)" $$ 5
expect no-flock-another-process 0 "the lock of process $$ .* is stale" llama lock "$out" 0 0
verdict no-flock-released "$(ls "$out")"
hold 600
expect no-flock-held 92 "in use by process $pid on " llama lock "$out" 0 0
kill -9 $pid; wait $pid 2>/dev/null
expect no-flock-of-the-dead 0 "the lock of process $pid .* is stale" llama lock "$out" 0 0
unset NO_FLOCK
export BUCKET=1
expect lock-in-a-bucket 0 '^locked' llama lock "$out" 0 0
verdict lock-in-a-bucket-released "$(ls "$out")"
hold 600
expect lock-in-a-bucket-held 92 "in use by process $pid on " llama lock "$out" 0 0
kill -9 $pid; wait $pid 2>/dev/null
expect lock-in-a-bucket-of-the-dead 0 "the lock of process $pid .* is stale" llama lock "$out" 0 0
unset BUCKET LD_PRELOAD
mkdir "$out/run.lock"
expect lock-a-folder 90 'run.lock: open: .*; remove it' llama lock "$out" 0 0 --break-lock
rmdir "$out/run.lock"
echo kept >"$scratch/kept"; ln -s "$scratch/kept" "$out/run.lock"
expect lock-a-link 90 'run.lock: open: a symbolic link, .*; remove it' llama lock "$out" 0 0
expect lock-a-link-broken 0 '^locked' llama lock "$out" 0 0 --break-lock
mkfifo "$out/run.lock"
expect lock-a-fifo 90 'run.lock: open: not a regular file; remove it' llama lock "$out" 0 0
expect lock-a-fifo-broken 0 '^locked' llama lock "$out" 0 0 --break-lock
verdict lock-follows-no-link "$(grep -vx kept "$scratch/kept"; ls "$out")"
# Killed at each moment of taking a lock, a new one or that of a run which was killed: the next start
# takes it at once and clears up.
hold 600
kill -9 $pid; wait $pid 2>/dev/null
cp "$out/run.lock" "$scratch/dead.lock"
for before in none dead; do
    lost=
    moments=0
    while [ -z "$lost" ] && [ $moments -lt 99 ]; do
        rm -f "$out"/run.lock*
        [ $before = none ] || cp "$scratch/dead.lock" "$out/run.lock"
        KILL_AT=$((moments + 1)) LD_PRELOAD=$PWD/$build/shim.so d llama lock "$out" 0 0 && break
        moments=$((moments + 1))
        left=$(ls "$out" | tr '\n' ' ')
        d llama lock "$out" 0 0 && [ -z "$(ls "$out")" ] ||
            lost="moment $moments left $left: $(cat "$scratch/out") $(ls "$out")"
    done 2>/dev/null
    [ $moments -ge 8 ] || lost="only $moments moments: $(cat "$scratch/out")"
    verdict "lock-killed-$before ($moments moments)" "$lost"
done
rm -rf "$out"
expect lock-makes-folders 0 '^locked' llama lock "$out/a/b" 0 0
# Many at once: exactly one may get it.
hosts=$scratch/many; rm -rf "$hosts"; mkdir "$hosts"
pids=
for i in {1..8}; do $driver $config llama lock "$hosts" 0 60 >"$scratch/many.$i" 2>&1 & pids="$pids $!"; done
alone() { [ "$(jobs -rp | wc -l)" -le 1 ]; }
waits alone                                      # the one that holds it
got=$(cat "$scratch"/many.[1-8] | grep -c '^locked')
kill -9 $pids 2>/dev/null
wait $pids 2>/dev/null
verdict lock-race "$([ "$got" = 1 ] || echo "$got of 8 got it")"

# ---- stop requests ---------------------------------------------------------------------------

start_stop() {
    out=$(new)
    : >"$scratch/out"
    $driver $config llama stop "$out" >"$scratch/out" 2>&1 &
    pid=$!
    waits grep -q ready "$scratch/out"
}
for signal in TERM INT USR1; do
    start_stop
    kill -HUP $pid; kill -PIPE $pid; kill -XFSZ $pid
    kill -$signal $pid
    wait $pid
    code=$?
    verdict "stop-$signal" \
        "$([ $code = 91 ] && grep -q "^SIG$signal done 12" "$scratch/out" || echo "exit $code, $(cat "$scratch/out")")"
done
grep -q '"code": 91' "$out/fault.3.0.json" && grep -q '"step": 12' "$out/fault.3.0.json" &&
    ok fault-file ||
    not_ok fault-file "$(cat "$out"/fault*)"
export ORDERLY=1; start_stop; unset ORDERLY
kill -USR1 $pid; wait $pid
grep -q '"code": 91' "$out/fault.3.0.json" && ok fault-file-orderly || not_ok fault-file-orderly "$(cat "$out"/fault*)"
grep -q '"step": 12' "$out/DONE" && ok done-file || not_ok done-file "$(cat "$out/DONE")"
# Files of ours are neither written through a link nor read from a FIFO.
start_stop
ln -s "$scratch/kept" "$out/DONE.tmp"; mkfifo "$out/DONE" "$out/fault.3.0.json.tmp"
kill -USR1 $pid; wait $pid
verdict stop-files-no-link "$([ -f "$out/DONE" ] && [ -f "$out/fault.3.0.json" ] && grep -qx kept "$scratch/kept" ||
    { ls -l "$out"; cat "$scratch/out"; })"
export BUSY=1
start_stop
kill -TERM $pid
waits taken $pid
began=$(date +%s%N)
kill -TERM $pid; wait $pid
code=$?
took=$((($(date +%s%N) - began) / 1000000))
unset BUSY
verdict stop-twice "$([ $code = 143 ] && [ $took -lt 20000 ] && [ ! -e "$out/DONE" ] ||
    echo "exit $code after $took ms")"
verdict stop-twice-leaves-no-lock "$(ls "$out")"

exit $failed
