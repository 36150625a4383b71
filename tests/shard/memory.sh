#!/bin/bash
# Memory of ranks whose states are divided: what a rank saves against whole states, and that rank 0 writes, resumes and
# exports them piece by piece. FULL=1 (make soak): 47 million parameters and 542 MiB of states.
BACKEND=cpu
source "$(dirname "$0")/../train/lib.sh"

# KiB by which a peak may exceed what it is compared with: far less than one of the arrays, 36 MiB of moments of the
# embedding, FULL=1 141 MiB
large="model.vocab=36864 model.hidden=256 model.ffn=1024" most=$((24 << 10)) least=$((96 << 10))
[ -z "$FULL" ] || large="model.vocab=72000 model.hidden=512 model.ffn=4096" most=$((64 << 10)) least=$((512 << 10))
fields="gpus=2 precision=bf16 $large model.positions=16 seq.max=16 batch.micro=1"
programs <<<"large shard $fields
large.z shard $fields memory.zero=1"
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$scratch/peak.so" tests/shard/peak.c ||
    verdict peak.c "does not compile"
tr -dc 'a-z \n' <LICENSE >"$scratch/text.txt"

# peaks NAME PROGRAM ARGS...: runs it; the peaks of its ranks are in $scratch/NAME.0 and .1
peaks() {
    local name=$1 program=$2
    shift 2
    LD_PRELOAD=$scratch/peak.so PEAK=$scratch/$name "$work/$program/run.sh" --data "$scratch/text.txt" \
        --tokenizer bytes --out "$scratch/run" "$@" >"$scratch/$name.log" 2>&1 ||
        verdict "$name" "exit $?: $(tail -n 2 "$scratch/$name.log")"
}
# planned KEY [FIELD ...]
planned() {
    local key=$1
    shift
    # shellcheck disable=SC2086
    "$gen" plan "$here/recipes/shard.lua" $fields "$@" --json | jq -r "$key"
}
# below TEST PEAK LIMIT [MORE]: a peak exceeds LIMIT by less than MORE KiB, $most if that is left out
below() {
    verdict "$1" "$(awk -v peak="$(cat "$scratch/$2")" -v limit="$3" -v more="${4:-$most}" 'BEGIN {
        if (!(peak > 1000 && limit > 1000 && peak - limit < more)) print peak " KiB, limit " limit " + " more }')"
}

peaks whole large --bench-steps 1
peaks divided large.z --bench-steps 1
saved=$((($(planned .device_bytes) - $(planned .device_bytes memory.zero=1)) / 1024))
verdict "the plan's saving" "$([ $saved -gt $most ] || echo "$saved KiB")"
below "rank 1 saves nine tenths of it" divided.1 "$(cat "$scratch/whole.1")" $((-9 * saved / 10))
plan=$(($(planned .device_bytes memory.zero=1) / 1024))
for use in save resume export; do
    case $use in
    save) peaks save large.z --steps 1 --save-every 1 ;;
    resume) peaks resume large.z --steps 2 --save-every 2 ;;
    export) peaks export large.z --export "$scratch/exported" --export-dtype fp32 ;;
    esac
    below "$use: rank 1 needs what is planned" $use.1 $plan
    below "$use: rank 0 needs little more" $use.0 "$(cat "$scratch/$use.1")"
done
below "save: rank 0 needs little more than a step" save.0 "$(cat "$scratch/divided.0")"
states=$(du -k "$scratch/run/checkpoint-1/optimizer.safetensors" | cut -f 1)
verdict "size of the states" "$([ $states -gt $least ] || echo "$states KiB")"
verdict "it resumes" "$(grep -q "^resumed from .*checkpoint-1$" "$scratch/resume.log" || tail -n 1 "$scratch/resume.log")"
exit $failed
