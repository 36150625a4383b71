#!/bin/bash
# Checkpoints that a thread writes while training goes on (checkpoint.async): the files and losses of the program that
# stops for them; kills, stops, a disk that fails, a host without memory. async.sh sim: a CUDA program on the simulator.
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

# NAME FIELDS: with and without
rows="2.z3 gpus=2 precision=bf16 memory.zero=3"
[ "$BACKEND" = cpu ] || rows="2.z1 gpus=2 precision=bf16 memory.zero=1 optim.moments=8bit model.tied=false"
[ "$BACKEND" != cpu ] || rows+="
1 optim.moments=8bit model.tied=false"
[ -z "$FULL" ] || rows+="
2 gpus=2
2.z1 gpus=2 memory.zero=1 optim.moments=8bit optim.master=none precision=bf16
2.z2 gpus=2 memory.zero=2 comm.order=canonical
llama gpus=2 memory.zero=3 model.family=llama model.tied=false lora.rank=4 lora.base=nf4 lora.modules_to_save=lm_head"
programs <<<"$(while read -r name fields; do
    echo "async.$name shard $fields checkpoint.async=true"
    echo "stops.$name shard $fields"
done <<<"$rows")"
shim=$scratch/shim.so
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$shim" tests/checkpoint/shim.c -ldl ||
    { verdict shim.c "does not compile"; exit 1; }

# slow RUN NAME FLAG...: as ran, where each call of the disk takes up to 20 ms, 60 on the simulator: a save takes longer
# than the steps between two
delay=20000
[ "$BACKEND" = cpu ] || delay=60000
slow() { LD_PRELOAD=$shim BAD_DISK="$scratch/$1 7 $delay 0" run "$2" "$1" "${@:3}"; }
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
    slow async.$name async.$name --init-from none --save-every 2 ||
        verdict "$name trains" "$(tail -n 2 "$scratch/async.$name.log")"
    verdict "$name, losses" "$(diff <(losses "$scratch/stops.$name") <(losses "$scratch/async.$name")
        [ "$(losses "$scratch/async.$name" | wc -l)" = 8 ] || echo "not 8 losses")"
    folders "$name, files" stops.$name async.$name 4
    verdict "$name, log" "$(grep -c '^checkpoint-[246]: written in .* s while training went on, which it stopped for ' \
        "$scratch/async.$name.log" | grep -vx 3
        grep -c '^the next save waited .* until checkpoint-2 was written' "$scratch/async.$name.log" | grep -vx 1)"
done <<<"$rows"
[ "$BACKEND" = cpu ] || exit $failed

# Objectives with names for checkpoints, files and measurements of their own.
if [ -n "$FULL" ]; then
    cases="ad=ad_one llada=mdm_llada prm=prm_instance dpo=dpo_lora"
    programs <<<"$(for name in $cases; do
        fields="${name#*=} $([[ $name != prm=* ]] || echo gpus=2)"
        echo "async.${name%=*} $fields checkpoint.async=true"
        echo "stops.${name%=*} $fields"
    done)"
    tree() { (cd "$1" && find . -not -path './runs/*' -not -path './logs/*' | sort); }
    for name in $cases; do
        case=${name#*=} name=${name%=*}
        for way in stops async; do
            trained $way.$name $case $way.$name --save-every 2 --eval-every 4 --save-total-limit 3
        done
        verdict "$name, losses" "$(diff <(losses "$scratch/stops.$name") <(losses "$scratch/async.$name"))"
        verdict "$name, files" "$(diff <(tree "$scratch/stops.$name") <(tree "$scratch/async.$name")
            cd "$scratch/stops.$name" && find . -name '*.safetensors' -o -name 'stats*' | while read -r file; do
                cmp "$file" "../async.$name/$file" 2>&1
            done)"
    done
fi

# ---- stops and kills. While the checkpoint of step 4 is held before its rename, training goes on.

every=(--init-from none --save-every 2)
program=async.1 straight=async.1 ranks=1
waits() { for ((i = 0; i < 600; i++)); do "$@" && return; sleep 0.05; done; }
# held SECONDS FLAG...: in the background, until training is at the next save; $! is the launcher's
held() {
    rm -rf "$scratch/held" "$scratch/held.log"
    DIECAST_FAULT=save:rank=0:step=4:seconds=$1 run $program held "${every[@]}" "${@:2}" 2>/dev/null &
    waits grep -qs '^step 5/8' "$scratch/held.log"
}
# left NAME: checkpoint-4 is incomplete and does not have its name
left() {
    verdict "$1: checkpoint-4 is not there" "$([ -d "$scratch/held/checkpoint-4.tmp" ] || echo "no checkpoint-4.tmp"
        ls -d "$scratch/held"/checkpoint-[4-8] 2>/dev/null)"
}
# goes_on NAME STEP: it resumes from that step and ends like the one without a fault
goes_on() {
    ran $program held "${every[@]}"
    verdict "$1: goes on" "$(sed -n 's/^resumed from .*checkpoint-//p' "$scratch/held.log" | grep -vx "$2"
        ls -d "$scratch/held"/*.tmp "$scratch/held"/*.del 2>/dev/null
        diff <(losses "$scratch/held") <(losses "$scratch/$straight"))"
    files "$1: the same in the end" held $straight
}
ours() {                # of a run in $scratch/held, those of the program
    local pid
    for pid in $(pgrep -f -- "--out $scratch/held"); do
        [[ "$(readlink "/proc/$pid/exe")" != */train ]] || echo "$pid"
    done
}
# killed SIGNAL RANK [CODE]: that process, in the write
killed() {
    local code name="$ranks ranks, $1 to rank $2"
    held 60
    mapfile -t all < <(ours)
    for pid in "${all[@]}"; do
        rank=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
        [ "${rank:-0}" != "$2" ] || kill -"$1" "$pid"
    done
    wait; code=$?
    left "$name"
    verdict "$name: no process is left" "$(ours)"
    goes_on "$name" 2
}
killed KILL 0
held 1
kill -USR1 "$(ours)"
wait $!; code=$?
verdict "SIGUSR1 in a write" "$([ $code = 91 ] || echo "exit $code: $(tail -n 2 "$scratch/held.log")"
    grep -q '^checkpoint-4: written' "$scratch/held.log" || echo "checkpoint-4 is not finished"
    at=$(sed -n 's/^stopped on SIGUSR1 after step \([5-7]\), checkpoint-\1 saved.*/\1/p' "$scratch/held.log")
    [ -n "$at" ] || tail -n 2 "$scratch/held.log"
    for step in 2 4 "${at:-0}"; do [ -d "$scratch/held/checkpoint-$step" ] || echo "no checkpoint-$step"; done
    ls -d "$scratch/held"/*.tmp 2>/dev/null)"
ran async.1 held "${every[@]}"
verdict "SIGUSR1: goes on" "$(diff <(losses "$scratch/held") <(losses "$scratch/async.1"))"
program=async.2.z3 straight=async.2.z3 ranks=2
killed KILL 1
[ -z "$FULL" ] || killed KILL 0
program=async.1

# ---- what fails: as the program that stops for checkpoints

# both NAME CODE FLAG...: the same code and last words of both, but for the step
both() {
    local way code
    for way in stops async; do
        rm -rf "$scratch/both"
        ($limits; slow both $way.1 "${@:3}"); code=$?
        verdict "$1, $way" "$([ $code = "$2" ] || echo "exit $code: $(tail -n 2 "$scratch/both.log")")"
        # but for advice, which counts steps
        sed -n 's/^rank 0 (.*) step [0-9]*: //p' "$scratch/both.log" | sed 's/; the loss was .*//' >"$scratch/$way.words"
        find "$scratch/both" -maxdepth 1 -name 'checkpoint-*' -printf '%f\n' | sort >>"$scratch/$way.words"
    done
    verdict "$1, the same words and checkpoints" "$(diff "$scratch"/{stops,async}.words)"
}
limits="ulimit -f 500" both "a file that is too large" 90 "${every[@]}" --steps 20
limits=: DIECAST_FAULT=nan:rank=0:step=3 both "NaN in a step while one is written" 87 "${every[@]}"
# a row of the embedding that no token reads
cp -r "$scratch/async.1/checkpoint-8" "$scratch/nan"
header=$(head -c 8 "$scratch/nan/model.safetensors" | od -An -tu8)
end=$(head -c $((header + 8)) "$scratch/nan/model.safetensors" | tail -c +9 |
    jq '."transformer.wte.weight".data_offsets[1]')
printf '\0\0\300\177' | dd of="$scratch/nan/model.safetensors" bs=1 seek=$((header + 8 + end - 4)) conv=notrunc status=none
limits=: both "a weight that is NaN" 87 --init-from "$scratch/nan" --allow-nonfinite true --save-every 4

# ---- which checkpoints stay

for way in stops async; do
    ran $way.1 kept.$way --init-from none --save-every 1 --save-total-limit 2
done
verdict "--save-total-limit" "$(diff <(ls "$scratch/kept.stops") <(ls "$scratch/kept.async")
    ls "$scratch/kept.async" | grep -c '^checkpoint' | grep -vx 2)"

# ---- a host without memory

printf '%s\n' '#include <stdio.h>' '#include "runtime/host_memory.h"' \
    'int main(int n, char **arg) { (void)n; printf("%lld\n", (long long)host_memory_left(arg[1])); }' >"$scratch/left.c"
gcc -std=c11 -I. -o "$scratch/left" "$scratch/left.c" runtime/host_memory.c runtime/base.c ||
    verdict host_memory.c "does not compile"
fake=$scratch/fake group=$scratch/fake/sys/fs/cgroup
puts() { mkdir -p "$(dirname "$1")" && printf '%s\n' "${@:2}" >"$1"; }
leaves() { verdict "memory left: $1" "$("$scratch/left" "$fake" | grep -vx "$2")"; }
leaves "unknown" 9223372036854775807
puts $fake/proc/meminfo "MemTotal:  5000 kB" "MemAvailable:    3000 kB"
leaves "of the machine" $((3000 << 10))
puts $fake/proc/self/cgroup 0::/job/step
puts $group/job/step/memory.max max
puts $group/job/step/memory.current 7
puts $group/job/memory.max 2000000
puts $group/job/memory.current 1500000
puts $group/job/memory.stat "anon 1" "inactive_file 30000" "active_file 4000"
leaves "in a group above, whose cache counts as free" 534000
puts $fake/proc/self/cgroup 5:cpu,cpuacct:/ 4:memory:/old 0::/job/step
puts $group/memory/old/memory.limit_in_bytes 900000
puts $group/memory/old/memory.usage_in_bytes 500000
puts $group/memory/old/memory.stat "total_inactive_file 30" "total_active_file 4"
leaves "in a group of version 1" 400034
cat >"$scratch/poor.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    static char poor[] = "MemTotal: 9000 kB\nMemAvailable: 1 kB\n";
    return strcmp(path, "/proc/meminfo") ? real(path, mode) : fmemopen(poor, sizeof poor, "r");
}
END
gcc -shared -fPIC -o "$scratch/poor.so" "$scratch/poor.c" -ldl || verdict poor.c "does not compile"
LD_PRELOAD=$scratch/poor.so run async.1 poor "${every[@]}"; code=$?
verdict "a host without memory" "$([ $code = 80 ] || echo "exit $code"
    grep -q 'checkpoint.async needs .* GiB of host memory for a copy of the checkpoint, .*: end other programs, or gen .*shard.lua .*checkpoint.async=false && make' \
        "$scratch/poor.log" || tail -n 2 "$scratch/poor.log"
    grep '^step 1/' "$scratch/poor.log")"
# what is left is less than the arenas, whose pages are not in use yet
LD_PRELOAD=$scratch/poor.so run async.1 whole "${every[@]}" --streaming false; code=$?
verdict "a host without memory for records" "$([ $code = 88 ] || echo "exit $code"
    grep -q ' bytes, but only 0 of memory are free: --streaming true reads them on demand' "$scratch/whole.log" ||
        tail -n 2 "$scratch/whole.log")"
exit $failed
