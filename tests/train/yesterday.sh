#!/bin/bash
# Files that programs of an earlier release wrote: run folders with their caches of packed data, and exports. Today's
# programs resume, sample and export from each, with the results of that day bit for bit, and have its flags.
# tests/checkpoint/yesterday/NAME.tar.gz holds the files; in it, `after` has the results and `flags` the flags.
# RECORD=1 makes the archives that are missing, such as that of a new objective. Never remake one that exists: the
# program that wrote it is gone. All arithmetic is fp32 in a fixed order, so the bits do not depend on the machine.
# Lines of `after` were replaced twice. Attention's products had separate multiplications and additions in programs
# built in haste only; the program of that day with fused ones, as it was shipped, gave the new lines. Then
# attention's gradients of small heads and odd lengths got another order of sums: today's weights differ from those of
# the program of that day by rounding, at most 3e-6 of the largest value of a tensor; in key biases, whose gradient is
# 0 without rounding, by more.
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh
[ "$BACKEND" = cpu ] || exit 0
archive=$PWD/tests/checkpoint/yesterday
bert="model.layers=1 model.hidden=8 model.heads=2 model.ffn=16"
llama="model.layers=1 model.hidden=8 model.heads=2 model.kv_heads=1 model.head_dim=4 model.ffn=16"
adapters="lora.rank=2 lora.targets=all-linear"
programs <<END
yesterday.lm gpt2_tiny model.layers=1 model.hidden=8 model.heads=2
yesterday.lm_lora gpt2_lora model.layers=1 model.hidden=8 model.heads=2
yesterday.mlm mlm_bert $bert
yesterday.mlm_lora mlm_bert $bert $adapters
yesterday.mdm mdm_sft $bert model.init_std=0.3 model.vocab=257 mdm.mask=253 model.eos=255
yesterday.mdm_lora mdm_sft $bert model.init_std=0.3 model.vocab=257 mdm.mask=253 model.eos=255 $adapters
yesterday.dpo dpo_sum $llama
yesterday.dpo_lora dpo_lora $llama
yesterday.prm prm_instance $llama seq.max=128
yesterday.prm_lora prm_lora $llama seq.max=128
yesterday.ad ad_all model.layers=1 model.hidden=8
yesterday.ppo ppo ppo.streams=1 ppo.rollouts=1 ppo.passes=1
END

# ---- what a program is given, and what it says ------------------------------------------------

# The inputs of NAME, in this folder; a LoRA program's base is the export of the program without adapters.
inputs() {
    local name=$1 i
    case $name in
    lm*) for ((i = 0; i < 24; i++)); do echo "{\"text\":\"line $i says $((i * i)), not $((i * 7))\"}"; done ;;
    mlm*) for ((i = 0; i < 24; i++)); do echo "{\"text\":\"w$i w$((i * 7)) w$((i * 3)) w20 w$((i + 9)) w7\"}"; done ;;
    mdm*) for ((i = 0; i < 24; i++)); do
            echo "{\"prompt\":\"$i and\",\"completion\":\"$((i * 7)), $((i * 3))\"}"
        done ;;
    dpo*) for ((i = 0; i < 24; i++)); do
            echo "{\"prompt\":\"$i?\",\"chosen\":\"$((i * i))\",\"rejected\":\"$((i * 7 + 1))\"}"
        done ;;
    prm*) for ((i = 0; i < 24; i++)); do
            echo "{\"id\":\"r$i\",\"informal_prefix\":\"$i\",\"domain\":\"d$((i % 3))\"," \
                "\"cot_response\":\"$(printf '### Step %d:\\n%c\\n' 1 a 2 b 3 c 4 d 5 e)\"," \
                "\"cot_steps\":[{\"pi\":$((i % 2))},{\"pi\":1},{\"pi\":0},{\"pi\":0.5}],\"meta_label\":$((i % 2))}"
        done ;;
    *) return ;;
    esac >train.jsonl
    tail -n 8 train.jsonl >eval.jsonl
    case $name in
    mlm*) cp "$OLDPWD/$ref/mlm_bert/tokenizer.json" . ;;
    mdm*) tiny_tokenizer . ;;
    prm*) "$OLDPWD/recipes/demos/chains.sh" tokenizer tokenizer && mv tokenizer/* . && rmdir tokenizer ;;
    esac
}
# run NAME ARGS...: the program, in this folder
run() {
    local name=$1
    shift
    "$OLDPWD/$work/yesterday.$name/train" --threads 1 "$@"
}
# its flags for data and first weights: the lines of $words
words() {
    local name=$1 held=eval tokens=tokenizer.json
    [[ $name != prm* ]] || held=meta
    [ -e tokenizer.json ] || tokens=bytes
    case $name in
    ad) words=(--data histories.safetensors --eval-data histories.safetensors) ;;
    *) words=(--data train.jsonl "--$held-data" eval.jsonl --tokenizer $tokens) ;;
    esac
}
# Trains for six steps, from the last checkpoint if there is one.
trains() {
    local words
    words "$1"
    if [ -e base ]; then words+=(--init-from base); else words+=(--init-from none); fi
    run "$1" --out run "${words[@]}" --steps 6 --save-every 2 --save-total-limit 0 --eval-every 3
}
# Answers of its weights to a text.
says() {
    local name=$1
    set -- --out run --seed 5
    case $name in
    lm* | dpo*) run "$name" "$@" --sample 4 --temperature 1 --max-new-tokens 12 --tokenizer bytes ;;
    mlm*) run "$name" "$@" --probe "w10 w150 [MASK] w20 w7" ;;
    mdm*) run "$name" "$@" --generate "4 and" --gen-length 8 --gen-steps 4 ;;
    prm*) run "$name" "$@" --score eval.jsonl ;;
    ad) run "$name" "$@" --evaluate --eval-episodes 2 ;;
    esac
}
# The loss of its export.
loads() {
    local words name=$1
    words "$name"
    set -- "${words[@]:2}"
    if [ -e base ]; then set -- "$@" --init-from base --adapter export; else set -- "$@" --init-from export; fi
    run "$name" --out none --eval-only "$@"
}
hashes() { find "$@" -type f | LC_ALL=C sort | xargs sha256sum; }

# A sed script from flag names of earlier releases to current ones: the rows RENAMED.
renamed=$(sed -n 's/^RENAMED("\([^".]*\)", "\([^".]*\)")$/s|^--\1$|--\2|/p' runtime/files/aliases.def)
# Every flag of --help, also those of other trainers.
flags_of() { run "$1" --help --verbose | grep -oE -- '--[a-z][a-z0-9_-]*' | LC_ALL=C sort -u; }
# Goes on where yesterday's run was killed; prints what comes of it.
comes_of() {            # NAME
    if [ "$1" = ppo ]; then
        run ppo --out run >log 2>&1 || grep ^rank log
        grep -o '[0-9]* of them done before' log
        hashes run/datasets
        return
    fi
    trains "$1" >log 2>&1 || { grep ^rank log; return; }
    grep -o 'resumed from .*' log
    (cd run && find . -path '*_cache/*' -type f | LC_ALL=C sort)    # none is made again
    hashes run/checkpoint-6/*.safetensors
    says "$1" 2>log | cat -v
    grep ^rank log
    run "$1" --out run --export again >log 2>&1 || grep ^rank log
    hashes again/*.safetensors again/*.json
    loads "$1" 2>log || grep ^rank log
}
# Losses to 14 decimals: a validation adds its batches in another order than releases before comm.order did.
# Conversations of a folder with a chat template (mdm) are packed again: the template is now part of what a cache is
# made of. So are other rows, into folders that end with -2: into the same records, as none of these answers begins at
# another token than then.
rounded() {
    sed -E '/^\{"eval_loss"/s/(\.[0-9]{14})[0-9]+/\1/g; /_cache\/[0-9a-f]*-2\//d' |
        if [[ $name = mdm* ]]; then grep -v '_cache/'; else cat; fi
}
# Files of other archives that NAME begins with.
begins_with() {         # NAME
    case $1 in
    *_lora) tar xzf "$archive/${1%_lora}.tar.gz" --transform s/export/base/ ./export ;;
    ad) tar xzf "$archive/ppo.tar.gz" ./histories.safetensors ;;
    esac
}
record() (              # NAME
    mkdir "$scratch/$1" && cd "$scratch/$1" || exit
    begins_with "$1"
    if [ "$1" = ppo ]; then
        run ppo --out run >log 2>&1 || grep ^rank log
        mv run/datasets/*.safetensors histories.safetensors
        rm -r run/DONE run/datasets run/goals-seed42/goal-0[1-8]*
        cp -r run killed
    else
        inputs "$1"
        DIECAST_FAULT=kill9:rank=0:step=4 trains "$1" >log 2>&1
        rm run/run.lock         # of this machine
        cp -r run killed
        trains "$1" >log 2>&1 || grep ^rank log
        run "$1" --out run --export export >log 2>&1 || grep ^rank log
        rm -r run
        cp -r killed run
    fi
    comes_of "$1" >after
    flags_of "$1" >flags
    rm -r run
    mv killed run
    [ "$1" != ad ] || rm histories.safetensors
    rm -rf again none base log
    tar czf "$archive/$1.tar.gz" --sort=name --owner=0 --group=0 .
    cd .. && rm -r "$1"
)
# The fingerprint and the checksums of each tensor of a folder's records; the sentences about them may have changed.
records() { grep -aoE '"(fingerprint|crc32c)":"[^"]*"' "$1/records.safetensors" || echo "no checksums in $1"; }
mkdir -p "$archive"
for name in lm lm_lora mlm mlm_lora mdm mdm_lora dpo dpo_lora prm prm_lora ppo ad; do
    if [ -n "${RECORD:-}" ] && [ ! -e "$archive/$name.tar.gz" ]; then record $name 2>/dev/null; fi
    mkdir "$scratch/$name"
    verdict "$name goes on" "$(cd "$scratch/$name" && tar xzf "$archive/$name.tar.gz" && begins_with $name &&
        comes_of $name 2>&1 | diff <(rounded <after) <(rounded) 2>&1)"
    verdict "$name has the same records" "$(cd "$scratch/$name" && for folder in run/.dataset_cache/*-2; do
        [ ! -e "$folder" ] || [[ $name = mdm* ]] || diff <(records "${folder%-2}") <(records "$folder")
    done 2>&1)"
    verdict "$name has no object without a use" "$(unreached $work/yesterday.$name)"
    reads=$(grep -rqs --include='*.def' --exclude=all.def "^USES(.*, tokens)" \
        $work/yesterday.$name/runtime/objectives && echo yes)
    verdict "$name has tokenizers and packing only to read texts" "$(cd $work/yesterday.$name || exit
        ls runtime/data/tokenizer.c runtime/pack/pack_read.c runtime/run/records.c 2>/dev/null |
            awk -v want="${reads:+3}" 'END { if (NR != want + 0) print NR " of 3 files" }')"
    verdict "$name has no circle of files" "$(needs $work/yesterday.$name/.obj | circles)"
    # as shipped: tests compile it with the rows of all objectives (programs.sh)
    [ "${name%_lora}" != "$name" ] || verdict "$name compiles with the rows of its objective alone" \
        "$(cd $work/yesterday.$name && ls ./*.c runtime/{run,data}/*.c | grep -v -e '^\./step' -e '^\./goal' |
            xargs gcc -std=c11 -fsyntax-only -fopenmp -Wall -Wextra -I. 2>&1 | grep -m 3 -e error -e warning)"
    verdict "$name has all its flags" "$(cd "$scratch/$name" && sed "$renamed" flags | LC_ALL=C sort >now &&
        flags_of $name | LC_ALL=C comm -23 now - 2>&1)"
done
exit $failed
