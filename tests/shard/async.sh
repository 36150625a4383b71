#!/bin/bash
# Checkpoints that a thread writes while training goes on (checkpoint.async): the files and losses of the program that
# stops for them; kills, stops, a disk that fails, a host without memory. async.sh sim: a CUDA program on the simulator.
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

# NAME FIELDS: with and without
rows="2.z3 gpus=2 precision=bf16 memory.zero=3"
[ "$BACKEND" = cpu ] || rows="2.z1 gpus=2 precision=bf16 memory.zero=1 optim.moments=8bit"
[ "$BACKEND" != cpu ] || rows+="
1 optim.moments=8bit"
[ -z "$FULL" ] || rows+="
2 gpus=2
2.z1 gpus=2 memory.zero=1 optim.moments=8bit optim.master=none precision=bf16
2.z2 gpus=2 memory.zero=2 comm.order=canonical
llama gpus=2 model.family=llama lora.rank=4 lora.base=nf4 memory.zero=3 lora.modules_to_save=lm_head model.tied=false"
programs <<<"$(while read -r name fields; do
    echo "async.$name shard $fields checkpoint.async=true"
    echo "stops.$name shard $fields"
done <<<"$rows")"
shim=$scratch/shim.so
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$shim" tests/checkpoint/shim.c -ldl ||
    { verdict shim.c "does not compile"; exit 1; }

# slow RUN NAME FLAG...: as ran, where each call of the disk takes up to 20 ms: several steps
slow() { LD_PRELOAD=$shim BAD_DISK="$scratch/$1 7 20000 0" run "$2" "$1" "${@:3}"; }
# plain FILE: what does not name the recipe, nor the time that a run took
plain() {
    case $1 in
    */files.json) jq 'del(.crc32c, .recipe_hash, (.files[] | select(.name | test("state.json")) | .crc32c, .bytes))' "$1" ;;
    */train*_state.json) sed -E '/"(recipe_hash|train_runtime|train_[a-z]*_per_second)":/d' "$1" ;;
    *) cat "$1" ;;
    esac
}
# folders TEST RUN RUN: their checkpoints are the same, byte for byte
folders() {
    verdict "$1" "$(diff <(cd "$scratch/$2" && ls checkpoint-*) <(cd "$scratch/$3" && ls checkpoint-*) | head -n 3
        for file in "$scratch/$2"/checkpoint-*/*; do
            cmp <(plain "$file") <(plain "$scratch/$3${file#"$scratch/$2"}") 2>&1 | sed "s|^|${file#"$scratch/"}: |"
        done
        [ "$(ls -d "$scratch/$2"/checkpoint-* | wc -l)" = "$4" ] || echo "not $4 checkpoints")"
}

while read -r name fields; do
    ran stops.$name stops.$name --init-from none --save-every 2
    slow async.$name async.$name --init-from none --save-every 2 || verdict "$name trains" "$(tail -n 2 "$scratch/async.$name.log")"
    verdict "$name, losses" "$(diff <(losses "$scratch/stops.$name") <(losses "$scratch/async.$name")
        [ "$(losses "$scratch/async.$name" | wc -l)" = 8 ] || echo "not 8 losses")"
    folders "$name, files" stops.$name async.$name 4
    verdict "$name, log" "$(grep -c '^checkpoint-[246]: written in .* s while training went on, which it stopped for ' \
        "$scratch/async.$name.log" | grep -vx 3
        grep -c '^the next save waited .* until checkpoint-2 was written' "$scratch/async.$name.log" | grep -vx 1)"
done <<<"$rows"
exit $failed
