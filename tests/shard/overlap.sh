#!/bin/bash
# Collectives of divided gradients and weights during compute (comm.overlap), on the simulator: the same bits as with
# each at once, whether they run as early or as late as events allow. Three layers share two slots; a step, which is
# captured, has two micro-batches; evaluation is not captured. Those of two layers are in run.sh; FULL=1 (make soak):
# here, too, a step that is not captured, and all of it with every access checked.
export BACKEND=sim
source "$(dirname "$0")/lib.sh"
fields="shard gpus=2 precision=bf16 model.hidden=64 model.ffn=1024 model.layers=3 model.vocab=257 batch.accum=2"
programs <<<"overlap.3.none $fields memory.zero=3 comm.overlap=none
overlap.2.all $fields memory.zero=2 comm.overlap=all
overlap.3.all $fields memory.zero=3 comm.overlap=all
${FULL:+overlap.3.launches $fields memory.zero=3 comm.overlap=all kernels.graph=false}"
verdict "collectives begin during compute" "$(for kind in gather scatter; do
    grep -q "^ *comm_${kind}_begin(" "$work/overlap.3.all/step.cu" || echo "no $kind"; done
    ! grep '^ *comm_[a-z]*_begin(' "$work/overlap.3.none/step.cu")"

steps=3
# trains PROGRAM RUN early|late
trains() {
    DIECAST_SIM_COLLECTIVES=$3 ran "overlap.$1" "$2" --steps $steps --save-every 2 --eval-share 0.1 --eval-every 2 \
        --eval-batches 1
}
trains 3.none none early
for run in "2.all late" "3.all late" ${FULL:+"2.all early" "3.all early" "3.launches late"}; do
    name=${run/ /.}
    # shellcheck disable=SC2086
    trains ${run% *} $name ${run#* }
    same "$name" $name none $steps
    files "$name, all files" $name none
done
verdict "it trains" "$([ "$(losses "$scratch/none" | sort -u | wc -l)" = $steps ] || losses "$scratch/none")"

# ---- programs that do not wait for one of them

numbers() { grep -o '"\(loss\|grad_norm\)": [^,}]*' "$scratch/$1/history.jsonl" | head -n 2; }
# unwaited TEST PROGRAM VALUE: a copy of a program without its first comm_end() of that value: when collectives are
# late, the loss or the norm of the first step is another, or the simulator reports a race
unwaited() {
    local copy=$scratch/overlap.unwaited
    rm -rf "$copy" "$scratch/unwaited"
    cp -r "$work/overlap.$2" "$copy"
    sed -i "0,/^ *comm_end(EVENT($3,/{/^ *comm_end(EVENT($3,/d}" "$copy/step.cu"
    make_in_haste "$copy" "${tools[@]}" >"$scratch/log" 2>&1 || verdict "$1" "$(tail -n 2 "$scratch/log")"
    DIECAST_SIM_COLLECTIVES=late work=$scratch run overlap.unwaited unwaited --steps 1 --save-every 0
    verdict "$1" "$(diff "$work/overlap.$2/step.cu" "$copy/step.cu" | grep -c '^[<>]' | grep -vx 1
        [ -e "$scratch/unwaited/history.jsonl" ] || grep -q ' race' "$scratch/unwaited.log" ||
            tail -n 2 "$scratch/unwaited.log"
        ! diff <(numbers unwaited) <(numbers none) >/dev/null 2>&1 || echo "the same loss and norm")"
}
unwaited "a weight that has not arrived" 3.all micro_full_b_down_w
unwaited "a sum that has not arrived" 2.all micro_grad_b_down_w
[ -z "$FULL" ] || [ $SIM = checked ] || SIM=checked tests/shard/overlap.sh || failed=1
exit $failed
