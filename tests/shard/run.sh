#!/bin/bash
# States divided over ranks (memory.zero): each rank keeps the moments and master weights of its own shares, from
# stage 2 on sums of gradients, too, from stage 3 weights. The same bits as with whole states, in memory and in files;
# what is written by one resumes in the others.
# parts: cpu sim overlap memory faults small small_sim weights counts counts_sim fit fit_sim async async_sim
# wide: overlap faults small_sim weights counts counts_sim fit fit_sim async async_sim
# cost: cpu=66 sim=62 small=68 weights=80 counts=45 fit=35 small_sim=32 memory=29 overlap=22
case ${1:-cpu} in
overlap | memory | faults | small | weights | counts | fit | async) exec "$(dirname "$0")/$1.sh" ;;
small_sim | counts_sim | fit_sim | async_sim) exec "$(dirname "$0")/${1%_sim}.sh" sim ;;
esac
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

# On the simulator, which is slow, fewer, half as many steps, and those that only a GPU has. FULL=1: all.
steps=8
[ "$BACKEND" != sim ] || [ -n "$FULL" ] || steps=4
ranks="2 3 2.bf16" objectives="dpo=dpo_mean llada=mdm_llada dot=prm_instance fd=prm_instance"
[ "$BACKEND" = cpu ] || ranks="2.bf16 2.fp16"
[ "$BACKEND" = cpu ] || [ -n "$FULL" ] || objectives=
[ "$BACKEND" = cpu ] || [ -z "$FULL" ] || ranks="2 3 2.bf16 2.fp16"
stages="1 2 3"
[ "$BACKEND" = cpu ] || [ -n "$FULL" ] || stages="1 3"
# all of the first, which differ in who holds sums of gradients; FULL=1: of all. Weights in fp16 are divided in
# canonical/run.sh.
stages_of() {
    case $FULL$1 in
    2.fp16) echo 1 ;;
    3 | 2.bf16) [ "$1" = "${ranks%% *}" ] && echo $stages || echo 1 3 ;;
    *) echo $stages ;;
    esac
}
# on the simulator, collectives of divided arrays run in parallel with compute
beside=
[ "$BACKEND" = cpu ] || beside=comm.overlap=all
# of_objective NAME: the stages of its programs
of_objective() { case $1 in dpo* | dot*) echo ${FULL:+1} 3 ;; llada*) echo ${FULL:+1} 2 ;; *) echo 1 ;; esac; }
programs <<<"$(
    for n in $ranks; do
        fields="shard gpus=${n%%.*} precision=$([[ $n == *.* ]] && echo "${n#*.}" || echo fp32)"
        [ $steps = 8 ] || fields+=" run.steps=$steps run.save_every=$((steps / 2))"
        echo "shard.$n $fields"
        for zero in $(stages_of $n); do echo "shard.$n.z$zero $fields $beside memory.zero=$zero"; done
    done
    for name in $objectives; do
        fields="${name#*=} model.ffn=1024 gpus=2 batch.accum=1"
        case $name in dot=*) fields+=" precision=bf16" ;; fd=*) fields+=" prm.hypergradient=fd" ;; esac
        echo "shard.${name%=*} $fields"
        for zero in $(of_objective "$name"); do echo "shard.${name%=*}.z$zero $fields memory.zero=$zero"; done
    done
)"
first=${ranks%% *}       # whose faults are tried
# looks PROGRAM: preloads a check of the padding at the end of its runs
gcc -std=c11 -I. -O1 -Wall -Wextra -Werror -shared -fPIC -o "$scratch/padding.so" tests/shard/padding.c ||
    verdict padding.c "does not compile"
looks() {
    MODEL=$(nm "$work/$1/train" | sed -n 's/ [A-Za-z] model$//p')
    export MODEL LD_PRELOAD=$scratch/padding.so
}
# padding TEST RUN RANKS STAGE: every rank has padding, or, of weights in parts, the last one; all of it is 0
padding() {
    verdict "$1" "$(grep -a '^padding: ' "$scratch/$2.log" | awk -v ranks="$3" -v stage="$4" '
        $4 > 10000 && $6 == 0 { n++ }
        { all = all $0 "; "; wrong += $6 }
        END { if (wrong || n < (stage < 3 ? ranks : 1) || NR != ranks) print "of " ranks " ranks: " all }')"
}
# counted ...: as ran; what each rank sends is counted, into $scratch/RUN.sent.RANK (sent.c; tests/sim/nccl.cpp)
counted() {
    case $BACKEND in
    cpu) SENT=$scratch/$2.sent LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD }$scratch/sent.so" ran "$@" ;;
    *) SIM_MOVED=$scratch/$2.sent ran "$@" ;;
    esac
}

# ---- whole and divided: without clipping the norm, whose order of additions differs, decides nothing

mpicc=$(command -v mpicc.openmpi || echo mpicc)
[ "$BACKEND" != cpu ] || $mpicc -std=c11 -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers -shared -fPIC \
    -o "$scratch/sent.so" tests/shard/sent.c || verdict sent.c "does not compile"
for n in $ranks; do
    counted shard.$n whole.$n --clip 0
    for zero in $(stages_of $n); do
        name=$n.z$zero
        (looks "shard.$name" && counted "shard.$name" divided.$name --clip 0
            exit $failed) || failed=1
        padding "$name, padding" divided.$name "${n%%.*}" $zero
        verdict "$name, losses" "$(diff <(losses "$scratch/whole.$n") <(losses "$scratch/divided.$name")
            [ "$(losses "$scratch/whole.$n" | wc -l)" = $steps ] || echo "not $steps losses")"
        files "$name, files" divided.$name whole.$n
    done
done
ran "shard.$first" clipped.whole
# on the simulator, stages from 2 on with collectives as late as events allow: what does not wait for one has other bits
for zero in $stages; do
    DIECAST_SIM_COLLECTIVES=$([ $zero = 1 ] && echo early || echo late) ran shard.$first.z$zero clipped.$zero
done
# within 1e-6: a norm differs in its last bits of fp32, 6e-8, and up to eight updates scale by it
compare "clipped by norms whose sums have another order" history "$scratch/clipped.1" "$scratch/clipped.whole" 1e-6
for zero in ${stages#* }; do
    verdict "clipped, stage $zero" "$(diff <(losses "$scratch/clipped.1") <(losses "$scratch/clipped.$zero"))"
    files "clipped, stage $zero, files" clipped.$zero clipped.1
done
verdict "they do clip" "$(awk '{ most = $1 > most ? $1 : most } END { if (most <= 1) print most }' \
    <(sed -n 's/.*"grad_norm": \([^,]*\),.*/\1/p' "$scratch/clipped.whole/history.jsonl"))"

for name in $objectives; do
    zeros=$(of_objective "$name") case=$ref/${name#*=} name=${name%=*}
    held=()
    [ ! -e "$case/meta.safetensors" ] || held=(--meta-data "$case/meta.safetensors")
    for way in '' $(for zero in $zeros; do echo .z$zero; done); do
        "$work/shard.$name$way/run.sh" --data "$case/tokens.safetensors" "${held[@]}" --out "$scratch/$name$way" --steps 6 \
            --save-every 3 --clip 0 >"$scratch/$name$way.log" 2>&1 || verdict "$name$way" "$(tail -n 2 "$scratch/$name$way.log")"
    done
    for zero in $zeros; do
        verdict "$name.z$zero, losses" "$(diff <(losses "$scratch/$name") <(losses "$scratch/$name.z$zero"))"
        files "$name.z$zero, files" $name.z$zero $name
    done
done

# ---- bytes that ranks send: those of gen plan, times the steps. An all-reduce exchanges parts of the gradients and
# gathers their sums, each half of its bytes. Control messages of the host (losses, checkpoints) are not counted here.
# The simulator counts the bytes of values: an all-reduce is two passes round the ring of them, the others are one.

# sent KIND RUN: bytes of all ranks
sent() { cat "$scratch/$2.sent".* | awk -v kind="$1" '$1 == kind { n += $2 } END { print n }'; }
# planned EXPRESSION RANKS[.PRECISION] ZERO: bytes of all ranks and steps; $a all-reduce, $r reduce-scatter, $g gather
planned() {
    "$gen" plan "$here/recipes/shard.lua" "${target[@]}" gpus="${2%%.*}" precision="$([[ $2 == *.* ]] && echo "${2#*.}" || echo fp32)" \
        memory.zero="$3" $([ "$3" = 0 ] || echo $beside) --json |
        jq -r "$steps * .ranks $pass * (.schedules[] | select(.name == \"train\") | .sent_bytes |
            map_values(.within_node + .between_nodes) | .allreduce as \$a | (.reduce_scatter // 0) as \$r |
            (.all_gather // 0) as \$g | $1) | round"
}
pass=
for n in $ranks; do
    [ "$BACKEND" != gpu ] || break
    case $BACKEND in
    cpu) kinds=(scattered gathered gathered_parts) formulas=('$a / 2 + $r' '$a / 2' '$g') ;;
    *)
        pass="* .ranks / (.ranks - 1)"
        kinds=(ncclAllReduce ncclReduceScatter ncclAllGather) formulas=('$a / 2' '$r' '$g') ;;
    esac
    for zero in 0 $(stages_of $n); do
        name=$([ $zero = 0 ] && echo "whole.$n" || echo "divided.$n.z$zero")
        verdict "$name, bytes sent" "$(diff <(for kind in "${kinds[@]}"; do sent $kind "$name"; done) \
            <(for formula in "${formulas[@]}"; do planned "$formula" "$n" $zero; done))"
    done
    # of gradients of 32 bits 2/2, of weights of 16 bits 1/2; not of fp32
    [[ $n != *.bf16 ]] || verdict "$n, divided, less is sent" "$(awk -v a="$(planned '$a' "$n" 0)" -v b="$(planned '$a + $r + $g' "$n" 1)" \
        'BEGIN { if (b >= a) print b, a }')"
done

# ---- files go from one to the other

# from RUN STEP NAME TO: TO goes on, by program NAME, from that step of RUN
from() {
    mkdir "$scratch/$4"
    cp -r "$scratch/$1/checkpoint-$2" "$scratch/$4"
    ran "$3" "$4" --clip 0
    grep -q "^resumed from .*checkpoint-$2\$" "$scratch/$4.log" || verdict "$4 resumes" "it did not"
}
for n in $ranks; do
    [[ $n == 2* && " $(stages_of $n) " == *" 3 "* ]] || continue
    from divided.$n.z3 $((steps / 2)) shard.$n to_whole.$n
    files "$n, divided, then whole" to_whole.$n whole.$n
    from whole.$n $((steps / 2)) shard.$n.z1 to_divided.$n
    files "$n, whole, then divided" to_divided.$n whole.$n
    from divided.$n.z1 $((steps / 2)) shard.$n.z3 to_more.$n
    files "$n, divided, then more" to_more.$n whole.$n
done
for name in whole.2.bf16 divided.2.bf16.z1 divided.2.bf16.z3; do
    program=shard.${name#*.}
    "$work/$program/run.sh" --out "$scratch/$name" --export "$scratch/$name.fp32" --export-dtype fp32 \
        >"$scratch/$name.log" 2>&1 || verdict "$name, export" "$(tail -n 1 "$scratch/$name.log")"
done
for zero in 1 3; do
    verdict "export of master weights, stage $zero" \
        "$(cmp "$scratch"/{whole.2.bf16,divided.2.bf16.z$zero}.fp32/model.safetensors)"
done

# ---- faults

DIECAST_FAULT=kill9:rank=1:step=$((steps * 3 / 4)) DIECAST_TIMEOUT_SCALE=0.25 run shard.$first.z3 struck --clip 0
verdict "a rank is killed" "$([ $? = 84 ] || tail -n 2 "$scratch/struck.log")"
ran shard.$first.z3 struck --clip 0
files "a rank is killed, then resumed" struck whole.$first
# on a CPU, where the same code of the host writes files; FULL=1: on the simulator, too
if [ "$BACKEND" = cpu ] || [ -n "$FULL" ]; then
    shim=$scratch/shim.so
    gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$shim" tests/checkpoint/shim.c -ldl ||
        verdict shim.c "does not compile"
    LD_PRELOAD=$shim BAD_DISK="$scratch/full 7 0 2" run shard.$first.z1 full --clip 0
    verdict "every other call of the disk fails" "$(
        grep -qE 'trying once more|exit code 90|not saved|cannot be written' "$scratch/full.log" || tail -n 3 "$scratch/full.log")"
    ran shard.$first.z1 full --clip 0
    files "the disk is mended" full whole.$first
fi

# struck RANKS RANK CLAUSE: a bit of the first share of wte, which rank 0 updates, flips on RANK before a save: it is
# found, and nothing of it saved
struck() {
    local name="a bit of a gathered weight flips on rank $2, $1"
    DIECAST_FAULT=flip_shared:rank=$2:step=4 run "shard.$1.z1" "flipped.$1.$2" --clip 0 --steps 4 --save-every 4
    local code=$?
    verdict "$name" "$([ $code = 94 ] || echo "exit $code"
        grep -qE "^rank 0 .* step 4: $3: faulty memory or processor" "$scratch/flipped.$1.$2.log" ||
            tail -n 2 "$scratch/flipped.$1.$2.log"
        ls -d "$scratch/flipped.$1.$2"/checkpoint-* 2>/dev/null)"
}
either="ranks 0 \(.*\) and 1 \(.*\) have different weights or moments: one of them is wrong"
for n in $ranks; do
    case $n in
    2)                  # without master weights either rank may be the wrong one
        struck 2 0 "$either"
        struck 2 1 "$either"
        ;;
    3)                  # most ranks are right
        struck 3 0 "rank 0 \(.*\) has different weights or moments from the other ranks"
        struck 3 2 "rank 2 \(.*\) has different weights or moments from the other ranks"
        ;;
    2.bf16)             # nor with remainders
        struck $n 0 "$either"
        ;;
    2.*)                # the owner is right where its weights are its master weights
        struck $n 0 "rank 0 \(.*\) has weights that are not its master weights rounded"
        struck $n 1 "rank 1 \(.*\) has different weights or moments from the other ranks"
        ;;
    esac
done
ran shard.$first.z1 flipped.$first.1 --clip 0
files "a bit of a gathered weight flips, then resumed" flipped.$first.1 whole.$first

# ---- what a rank holds: of wte, 701 x 96, 64 shares of 1280 elements; half of them on two ranks

for zero in $stages; do
    plan=$("$gen" plan "$here/recipes/shard.lua" "${target[@]}" gpus=2 memory.zero=$zero --json)
    # bytes NAME SHARES: of a buffer
    bytes() { jq -r --arg name "$1" '.buffers[] | select(.name == $name) | .bytes' <<<"$plan" | grep -vx $(($2 * 1280 * 4)); }
    verdict "plan of stage $zero" "$(bytes m.wte 32
        bytes grad.wte $((zero > 1 ? 32 : 64))
        bytes wte $((zero > 2 ? 32 : 64)))"
done
exit $failed
