#!/bin/bash
# kill -9 at random moments of runs of three objectives (prm; dpo on two ranks; lm, built with AddressSanitizer, and
# with checkpoints written while training continues) whose disk is slow and fails at times: 0 corrupt, 0 garbage, 0
# leftovers. KILLS=n (60), SEED=n.
# Each start resumes where the one before was killed, until the run is done; then its files, its history and the
# bits of its weights and moments are those of an undisturbed run, and a new run begins.
source "$(dirname "$0")/lib.sh"
kills=${KILLS:-60} seed=${SEED:-1}
RANDOM=$seed
# NAME RECIPE: as programs
programs <<'END'
prm_instance prm_instance
dpo_mean.2x1 dpo_mean gpus=2 batch.accum=1
llama_tiny.async llama_tiny checkpoint.async=true
END
export EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g1"
programs <<<"gpt2_tiny.asan gpt2_tiny"
unset EXTRA
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
shim=$scratch/shim.so
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$shim" tests/checkpoint/shim.c -ldl ||
    { verdict shim.c "does not compile"; exit 1; }
names=(prm_instance dpo_mean.2x1 gpt2_tiny.asan llama_tiny.async)
ways=(--steps 16 --save-every 1 --save-total-limit 2 --log-every 1 --eval-every 0)
trap 'kill -9 $(ours "$scratch") 2>/dev/null; rm -rf "$scratch"' EXIT

# ours OUT: the processes of a run there, but for the launcher's
ours() {
    local pid
    for pid in $(pgrep -f -- "--out $1"); do
        [[ "$(readlink "/proc/$pid/exe")" != */train ]] || echo "$pid"
    done
}
newest() { find "$1" -regex '.*/checkpoint-[0-9]+' -printf '%f\n' 2>/dev/null | sed 's/.*-//' | sort -n | tail -n 1; }
# garbage OUT: names that neither the undisturbed run has nor one that is being written or was killed, and lines of the
# history, but for the last, that are no JSON
garbage() {
    (cd "$1" && find . -mindepth 1 -not -path './runs/*' -not -path './logs/*') |
        sed -E 's/\.(tmp|del)(\/|$)/\2/g; s/checkpoint(-|_step_)[0-9]+/checkpoint\1N/' | sort -u |
        grep -vxE '\./(fault\.[0-9]+\.[0-9]+\.json|run\.lock(\.[A-Za-z0-9]+)?|probe\.[0-9]+|history\.jsonl)' |
        grep -vxFf <(cd "$scratch/$name.straight" && find . | sed -E 's/checkpoint(-|_step_)[0-9]+/checkpoint\1N/')
    [ ! -e "$1/history.jsonl" ] || head -n -1 "$1/history.jsonl" | jq . 2>&1 >/dev/null
}
# differs: from the undisturbed run, in bits or in names. Where a start of the run said so, the disk refused the save
# before the last one, and an older checkpoint is in its place, or it refused to remove an old one.
differs() {
    local file straight=$scratch/$name.straight names=nothing
    [ -z "${refused[$name]}" ] || names='checkpoint-1\?[0-9]$'
    [[ "${refused[$name]}" != *removal* ]] || names='checkpoint-1\?[0-9]\(\.del\)\?$'
    while read -r file; do
        [[ ${refused[$name]} == *save* && $file =~ checkpoint(-|_step_)15/ && ! -e $out/$file ]] ||
            cmp "$straight/$file" "$out/$file" 2>&1
    done < <(cd "$straight" && find . -name '*.safetensors' -not -path './.*/*')
    diff <(losses "$straight") <(losses "$out") >/dev/null || echo "other losses"
    diff <(ls -A "$straight" | grep -v "$names") <(ls -A "$out" | grep -v -e '^fault\.' -e "$names") | tr '\n' ' '
    find "$out" -name '*.tmp' -o -name '*.del' | grep -v "$names"
}
# start: the run of $name goes on in the background, its output in $out.log
start() {
    train "$name" "${name%%.*}" "${name%%.*}" "${ways[@]}" "$@" &
    pid=$!
}
declare -A killed done_runs stopped failed_saves wrong refused
for name in "${names[@]}"; do
    train "$name" "${name%%.*}" "$name.straight" "${ways[@]}" ||
        { verdict "$name, undisturbed" "exit $?: $(tail -n 2 "$scratch/$name.straight.log")"; exit 1; }
    killed[$name]=0 done_runs[$name]=0 stopped[$name]=0 failed_saves[$name]=0 wrong[$name]= refused[$name]=
done

# one_start HOW: of $name; HOW: a kill some time after its start (early), or after a step (late); none (whole)
one_start() {
    local how=$1 before code victim wait script= why=
    out=$scratch/${name%%.*}
    before=$(newest "$out")
    if [ "$how" = whole ]; then
        start
    else
        # one call in 40 fails; a save has some twenty, and gets a second chance
        LD_PRELOAD=$shim BAD_DISK="$out $((RANDOM + 1)) 6000 40" start
    fi
    if [ "$how" != whole ]; then
        if [ "$how" = late ]; then
            for ((i = 0; i < 1200; i++)); do
                grep -q '^step ' "$out.log" 2>/dev/null || ! kill -0 $pid 2>/dev/null && break
                sleep 0.05
            done
        fi
        script=$(pgrep -P $pid -f 'run\.sh')
        printf -v wait '%d.%03d' $((RANDOM % 2)) $((RANDOM % 1000))
        sleep "$wait"
        mapfile -t victim < <(ours "$out")
        if [ ${#victim[@]} -gt 0 ] && kill -9 "${victim[RANDOM % ${#victim[@]}]}" 2>/dev/null; then
            killed[$name]=$((killed[$name] + 1)) n=$((n + 1))
        fi
    fi
    wait $pid 2>/dev/null
    code=$?
    starts=$((starts + 1))
    failed_saves[$name]=$((failed_saves[$name] + $(grep -cE "trying once more|training goes on" "$out.log")))
    ! grep -q 'checkpoint of step 15 not saved' "$out.log" || refused[$name]+=" save"
    ! grep -q 'old checkpoint not removed' "$out.log" || refused[$name]+=" removal"
    case $code in
    0 | 84 | 90 | 137) [ $code != 90 ] || stopped[$name]=$((stopped[$name] + 1)) ;;
    *) why+="exit $code: $(tail -n 2 "$out.log") " ;;
    esac
    why+=$(grep -E 'Sanitizer|runtime error|\.corrupt|damaged' "$out.log" | head -n 2)
    [ -z "$before" ] || ! grep -q '^resumed from' "$out.log" ||
        why+=$(sed -n 's/^resumed from .*checkpoint-\([0-9]*\).*/\1/p' "$out.log" | grep -vx "$before" |
            sed "s/\$/ is resumed, the newest was $before/")
    [ -z "$before" ] || ! grep -q '^step ' "$out.log" || grep -q '^resumed from' "$out.log" || why+="it started over "
    [ ! -d "$out" ] || why+=$(garbage "$out")
    [ -z "$(ours "$out")" ] || why+="processes are left "
    [ -z "$script" ] || why+=$(find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -name "diecast.*.$script" 2>/dev/null)
    if [ -z "$why" ] && [ $code = 0 ]; then
        why=$(differs)
        done_runs[$name]=$((done_runs[$name] + 1))
        [ -n "$why" ] || rm -rf "$out"
        refused[$name]=
    fi
    [ -z "$why" ] || wrong[$name]="seed $seed, start $starts ($how): $why"
}
starts=0 n=0
while [ $n -lt "$kills" ]; do
    name=${names[starts % ${#names[@]}]}
    [ $starts -lt $((6 * kills)) ] && [ -z "${wrong[$name]}" ] || break
    how=late
    [ $((RANDOM % 4)) != 0 ] || how=early
    one_start $how
done
for name in "${names[@]}"; do
    [ -n "${wrong[$name]}" ] || one_start whole
    verdict "$name: ${killed[$name]} kills, ${stopped[$name]} stops by the disk, ${failed_saves[$name]} failed writes, \
${done_runs[$name]} runs done (seed $seed)" "${wrong[$name]}"
done
verdict "$n kills of $kills" "$([ "$n" -ge "$kills" ] || echo "in $starts starts")"
exit $failed
