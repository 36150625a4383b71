#!/bin/bash
# Memory of ranks whose states, or weights too, are divided: what a rank saves against whole ones, and that rank 0
# writes, resumes and exports them piece by piece. FULL=1 (make soak): 47 million parameters and 542 MiB of states.
BACKEND=cpu
source "$(dirname "$0")/../train/lib.sh"

# KiB by which a peak may exceed what it is compared with: far less than one of the arrays, 36 MiB of moments of the
# embedding, FULL=1 141 MiB
large="model.vocab=36864 model.hidden=256 model.ffn=1024" most=$((24 << 10)) least=$((96 << 10))
[ -z "$FULL" ] || large="model.vocab=72000 model.hidden=512 model.ffn=4096" most=$((64 << 10)) least=$((512 << 10))
fields="gpus=2 precision=bf16 $large model.positions=16 seq.max=16 batch.micro=1"
programs <<<"large shard $fields
large.1 shard $fields memory.zero=1
large.3 shard $fields memory.zero=3"
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$scratch/peak.so" tests/shard/peak.c ||
    verdict peak.c "does not compile"
tr -dc 'a-z \n' <LICENSE >"$scratch/text.txt"

# peaks NAME PROGRAM ARGS...: runs it; the peaks of its ranks are in $scratch/NAME.0 and .1
peaks() {
    local name=$1 program=$2
    shift 2
    LD_PRELOAD=$scratch/peak.so PEAK=$scratch/$name "$work/$program/run.sh" --out "$scratch/$program" "$@" \
        >"$scratch/$name.log" 2>&1 || verdict "$name" "exit $?: $(tail -n 2 "$scratch/$name.log")"
}
text=(--data "$scratch/text.txt" --tokenizer bytes)
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

peaks whole large "${text[@]}" --bench-steps 1
for zero in 1 3; do
    peaks $zero.divided large.$zero "${text[@]}" --bench-steps 1
    saved=$((($(planned .device_bytes) - $(planned .device_bytes memory.zero=$zero)) / 1024))
    verdict "$zero, the plan's saving" "$([ $saved -gt $most ] || echo "$saved KiB")"
    below "$zero, rank 1 saves nine tenths of it" $zero.divided.1 "$(cat "$scratch/whole.1")" $((-9 * saved / 10))
    plan=$(($(planned .device_bytes memory.zero=$zero) / 1024))
    for use in save resume export load; do
        case $use in
        save) peaks $zero.save large.$zero "${text[@]}" --steps 1 --save-every 1 ;;
        resume) peaks $zero.resume large.$zero "${text[@]}" --steps 2 --save-every 2 ;;
        export) peaks $zero.export large.$zero --export "$scratch/exported.$zero" --export-dtype fp32 ;;
        load) peaks $zero.load large.$zero "${text[@]}" --init-from "$scratch/exported.$zero" --bench-steps 1 ;;
        esac
        below "$zero, $use: rank 1 needs what is planned" $zero.$use.1 $plan
        below "$zero, $use: rank 0 needs little more" $zero.$use.0 "$(cat "$scratch/$zero.$use.1")"
    done
    below "$zero, save: rank 0 needs little more than a step" $zero.save.0 "$(cat "$scratch/$zero.divided.0")"
    states=$(du -k "$scratch/large.$zero/checkpoint-1/optimizer.safetensors" | cut -f 1)
    verdict "$zero, size of the states" "$([ $states -gt $least ] || echo "$states KiB")"
    verdict "$zero, it resumes" "$(grep -q "^resumed from .*checkpoint-1$" "$scratch/$zero.resume.log" ||
        tail -n 1 "$scratch/$zero.resume.log")"
done
weights=$(du -k "$scratch/exported.3/model.safetensors" | cut -f 1)
verdict "size of the weights" "$([ "$weights" -gt $most ] || echo "$weights KiB")"
exit $failed
