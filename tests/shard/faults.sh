#!/bin/bash
# Ranks that die or freeze inside the collectives of divided states and weights, in a step, in evaluation and while a
# checkpoint is written, and a disk that is full at that moment: exit codes, leftovers, and the bits of the run that
# resumes.
# FULL=1 (make soak): every collective and rank, and the time until the others end.
BACKEND=cpu
source "$(dirname "$0")/lib.sh"
programs <<<"shard.2z shard gpus=2 precision=fp32 memory.zero=1
shard.2.z3 shard gpus=2 precision=fp32 memory.zero=3"
program=shard.2z flags=(--clip 0)
gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$scratch/strike.so" tests/shard/strike.c -ldl ||
    verdict strike.c "does not compile"
ran shard.2z straight --clip 0

# struck RANK KIND N SIGNAL [STEPS]: that collective of a run of $program, after that many steps; the other rank reports
# it and no process is left; strike.c
struck() {
    local name="$4 of rank $1 in $2 $3" code want=84 text="rank $1 \\(.*\\) died: " soon=4 other=$((1 - $1))
    [ "$4" = KILL ] || want=85 text="rank $1 \\(.*\\) has been silent for 5 s" soon=9
    rm -rf "$scratch/struck"
    STRIKE="$1 $2 $3 $(kill -l "$4")" STRUCK=$scratch/at DIECAST_TIMEOUT_SCALE=0.25 LD_PRELOAD=$scratch/strike.so \
        run $program struck "${flags[@]}"
    code=$?
    verdict "$name" "$([ $code = $want ] || echo "exit $code: $(tail -n 2 "$scratch/struck.log")"
        grep -qaE "^rank $other .* step [0-9]+: $text" "$scratch/struck.log" || tail -n 2 "$scratch/struck.log"
        grep -q "\"code\": $want," "$scratch/struck/fault.0.$other.json" || echo "no fault file of rank $other"
        grep -qa "^strike: $2 $3 of rank $1" "$scratch/struck.log" || echo "not struck"
        [ -z "${5:-}" ] || losses "$scratch/struck" | wc -l | grep -vx "$5"
        pgrep -f -- "--out $scratch/struck" >/dev/null && echo "processes are left"
        # on a machine that others use too, seconds say nothing
        [ -z "$FULL" ] || awk -v from="$(stat -c %.3Y "$scratch/at")" \
            -v to="$(stat -c %.3Y "$scratch/struck/fault.0.$other.json")" -v soon=$soon \
            'BEGIN { if (to - from > soon) print "after " to - from " s" }')"
}
# goes_on NAME STEP: the run resumes from that step (0: begins again) and ends like the one without a fault
goes_on() {
    local from
    ran $program struck "${flags[@]}"
    from=$(sed -n 's/^resumed from .*checkpoint-\([0-9]*\)$/\1/p' "$scratch/struck.log")
    verdict "$1: goes on" "$([ "${from:-0}" = "$2" ] || echo "from ${from:-0}"
        ls -d "$scratch/struck"/*.tmp 2>/dev/null)"
    files "$1: the same in the end" struck straight
}

# In the second step: while gradients go to their owners, and new weights to the other ranks.
struck 1 scatter 7 KILL
struck 0 gather 9 KILL
goes_on "killed in a step" 0
struck 1 gather 9 STOP
struck 0 scatter 7 STOP
# While the second checkpoint is written: it resumes from the first.
for rank in 1 0; do
    struck $rank collect 15 KILL
    verdict "rank $rank, half a checkpoint" "$([ -d "$scratch/struck/checkpoint-8.tmp" ] || ls "$scratch/struck")"
    goes_on "rank $rank killed in a save" 4
done
for rank in ${FULL:+0 1}; do
    for kind in scatter gather collect; do
        for signal in KILL STOP; do
            for n in 1 2 6 14; do
                struck $rank $kind $n $signal
            done
            goes_on "$signal of rank $rank in $kind" $([ $kind = collect ] && echo 4 || echo 0)
        done
    done
done

# Weights: a step gathers the embedding, then up and down of layers 0 and 1; in the backward pass, in which those of
# layer 1 are still there, down and up of layer 0; at the end, sums of squares. An evaluation gathers all weights once;
# there is one before the first step. Struck are the second step, in layer 1 of the forward and in layer 0 of the
# backward pass, and the evaluations after the fourth step and, when the checkpoint of the fourth is there, the last.
program=shard.2.z3
struck 1 gather 12 KILL 1
struck 0 gather 15 STOP 1
struck 0 gather 12 STOP 1
struck 1 gather 14 KILL 1
goes_on "killed in the backward pass" 0
flags+=(--eval-data "$scratch/text.txt" --eval-batches 1 --eval-every 4)
struck 0 gather $((5 + 4 * 8 + 4)) STOP 4
struck 1 gather $((5 + 8 * 8 + 5 + 4)) KILL 8
goes_on "killed in evaluation" 4
for rank in ${FULL:+0 1}; do
    for n in $(seq 6 18) $(seq 38 42); do
        struck $rank gather $n KILL
    done
    goes_on "rank $rank killed in a gather" 0
done
program=shard.2z flags=(--clip 0)

# A full disk in the middle of both attempts at the first checkpoint, room at the second.
FULL_AT="3 8" LD_PRELOAD=$scratch/strike.so run shard.2z full --clip 0
verdict "a full disk while a checkpoint is written" "$([ $? = 0 ] || tail -n 2 "$scratch/full.log"
    for text in "trying once more" "training goes on"; do
        grep -q "^warning: .*checkpoint of step 4.*optimizer.*No space left on device; $text" "$scratch/full.log" ||
            echo "no line: $text"
    done
    ls -d "$scratch/full"/checkpoint-4* 2>/dev/null)"
verdict "a full disk: the next is whole" "$(for file in "$scratch/straight/checkpoint-8"/*.safetensors; do
    cmp "$file" "$scratch/full/checkpoint-8/${file##*/}"; done)"
exit $failed
