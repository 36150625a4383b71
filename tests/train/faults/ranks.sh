# shellcheck shell=bash disable=SC2086,SC2154
# ranks.sh -- ranks that differ, die, hang or compute wrongly; NaN and Inf. Sourced by faults.sh.

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
