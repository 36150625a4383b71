#!/bin/bash
# Weights updated inside the backward pass (optim.when = "backward"): the same losses, weights and moments as with
# optim.when = "step" and no clipping, bit for bit; files of one resume in the other; a NaN ends the run. With learned
# record weights, the products of prm.hypergradient = "lockstep" against those with a whole gradient.
# usage: backward.sh [cpu|sim]; part of small.sh
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

# NAME RECIPE [FIELD=VALUE ...]: tied and untied heads, dropout, recomputed blocks, two ranks; FULL=1: every objective
cases='text shard model.dropout=0.1
llama llama_bfd precision=bf16 memory.recompute=block
two shard gpus=2
learned prm_instance prm.unroll=2 memory.recompute=block'
[ -z "$FULL" ] || cases+='
learned2 prm_instance gpus=2
net prm_none prm.weights=net precision=bf16
domain prm_none prm.weights=domain prm.domains=3 seq.max=32
dpo dpo_mean
llada mdm_llada precision=bf16 memory.recompute=block
mlm mlm_dropout
ad ad_plain
prm prm_none memory.recompute=block lora.rank=0'
[ "$BACKEND" = cpu ] || cases=text" shard precision=bf16 memory.recompute=block${FULL:+
two llama_tiny gpus=2
learned prm_instance precision=bf16}"
programs <<<"$(while read -r name words; do
    step= backward=
    case $words in prm_instance* | *prm.weights*) step=prm.hypergradient=dot backward=prm.hypergradient=lockstep ;; esac
    [[ $words != prm_instance* ]] || step=        # as it is
    echo "backward.$name.step $words batch.accum=1 run.clip=0 $step"
    echo "backward.$name $words batch.accum=1 run.clip=0 optim.when=backward $backward"
done <<<"$cases")"

# trains NAME.WHEN RUN [FLAGS]: on the text or the records of the reference case; the exit code
trains() {
    local name=$1 to=$2 case
    case=$(awk -v name="${1%%.*}" '$1 == name { print $2 }' <<<"$cases")
    shift 2
    [ "$case" != prm_none ] || case=prm_instance
    local data=("--data=$ref/$case/tokens.safetensors")
    [[ ! $name =~ ^(learned|net|domain) ]] || data+=("--meta-data=$ref/$case/meta.safetensors")
    [ "$case" != shard ] || data=("--data=$scratch/text.txt" --tokenizer=bytes)
    timeout 300 "$work/backward.$name/run.sh" "${data[@]}" --steps 8 --log-every 1 --save-every 4 --save-total-limit 0 \
        --eval-every 0 --out "$scratch/$to" "$@" >"$scratch/$to.log" 2>&1 </dev/null
}
# alike TEST RUN RUN: losses and files to the bit; norms, whose squares are added in another order, to 1e-6
alike() {
    verdict "$1, losses" "$(diff <(losses "$scratch/$2") <(losses "$scratch/$3")
        [ "$(losses "$scratch/$2" | wc -l)" = 8 ] || echo "not 8 losses")"
    files "$1, files" "$2" "$3"
    compare "$1, norms" history "$scratch/$2" "$scratch/$3" 1e-6
}

while read -r name _; do
    for program in "$name.step" "$name"; do
        trains "$program" "$program" || verdict "$program trains" "$(tail -n 2 "$scratch/$program.log")"
    done
    alike "$name" "$name" "$name.step"
done <<<"$cases"
if [ -e "$scratch/learned" ]; then
    verdict "learned weights" "$(cmp "$scratch"/learned{,.step}/instance_weights.json
        moved=$(grep -o '"raw": [^,]*' "$scratch/learned/instance_weights.json" | sort -u | wc -l)
        [ "$moved" -gt 3 ] || echo "$moved different weights")"
fi

# ---- what it says

verdict "banner" "$(grep -q '^  update  *inside the backward pass: ' "$scratch/text.log" || cat "$scratch/text.log"
    ! grep -q '^  update ' "$scratch/text.step.log" || echo "without it, too")"
[ "$BACKEND" = cpu ] || exit $failed
plan() { "$gen" plan $here/recipes/shard.lua run.clip=0 "$@"; }
# two layers of matrices of 96 x (288 + 96 + 768 + 768), wte and wpe, 4 bytes an element, but no vectors
whole=$(plan --json | jq .bytes_of_whole_gradients)
rest=$(plan optim.when=backward --json | jq .bytes_of_whole_gradients)
verdict "gen plan" "$(plan optim.when=backward | grep '^  updated inside the backward pass: ' >"$scratch/plan" || echo "no line"
    [ $((whole - rest)) -ge $((4 * (2 * 96 * 1920 + 96 * (701 + 32)))) ] && [ "$rest" -lt 40000 ] ||
        echo "whole gradients: $whole, $rest bytes")"

# ---- ends, resumed

DIECAST_FAULT=kill9:rank=0:step=6 trains text struck && verdict "it is killed" "it was not"
trains text struck || verdict "it resumes" "$(tail -n 2 "$scratch/struck.log")"
files "killed, then resumed" struck text
# from RUN PROGRAM TO: TO goes on, by PROGRAM, from step 4 of RUN
from() {
    mkdir "$scratch/$3"
    cp -r "$scratch/$1/checkpoint-4" "$scratch/$3"
    trains "$2" "$3" || verdict "$3 trains" "$(tail -n 2 "$scratch/$3.log")"
    files "$1, on with $2" "$3" "$1"
}
from text text.step to_step
from text.step text to_backward

DIECAST_FAULT=nan:rank=0:step=7 trains text none
verdict "a NaN ends it" "$([ $? = 87 ] && grep 'gradient norm -*nan;' "$scratch/none.log" |
    grep -q " the last checkpoint is $scratch/none/checkpoint-4;" || tail -n 2 "$scratch/none.log")"
verdict "nothing newer is saved" "$(cd "$scratch/none" && ls -d checkpoint-* | grep -vx checkpoint-4
    cmp "$scratch"/{none,text}/checkpoint-4/model.safetensors)"
DIECAST_FAULT=nan:rank=0:step=2 trains text early
verdict "a NaN before the first checkpoint" "$([ $? = 87 ] && grep -q "there is no checkpoint yet;" "$scratch/early.log" ||
    tail -n 2 "$scratch/early.log")"

# ---- refused

# refused TEXT FLAGS: the run ends at once with this text
refused() {
    local text=$1
    shift
    trains text refused "$@"
    verdict "refused: $*" "$([ $? = 80 ] && grep -q -e "$text" "$scratch/refused.log" || tail -n 2 "$scratch/refused.log")"
}
refused "^[^ ]* *.*--clip 0.5: this program updates weights inside the backward pass" --clip 0.5
refused "--nonfinite skip: this program updates weights inside the backward pass" --nonfinite skip
exit $failed
