#!/bin/bash
# The same bits on any number of ranks (comm.order = "canonical"): programs of one recipe and one global batch, but
# other gpus and other stages of memory.zero, write the same histories, weights and moments, and go on from each
# other's checkpoints.
# parts: cpu sim
# wide: sim
# cost: cpu=85 sim=32
BACKEND=${1:-cpu}
source "$(dirname "$0")/../train/lib.sh"

# NAME K RANKS RECIPE FIELDS: K micro-batches an update, on each of RANKS; its programs are canonical.NAME.RANKS. Of
# RANKS, N.zS is N ranks with memory.zero=S. shard and those with wider layers have matrices that are divided; mlm has
# none. Two ranks with whole states: of lm, dpo, llada, mlm and fd; FULL=1: of all.
more=${FULL:+,2} adapters="lora.rank=1024 lora.targets=q_proj,down_proj"
cases='lm 8 1,2,4,4.z3 shard batch.micro=1
six 6 1,3,3.z2 shard batch.micro=1
bf16 4 1'$more',2.z3 shard batch.micro=1 precision=bf16
lora 2 1'$more',2.z3 qwen2_dropout batch.micro=2 '$adapters' model.hidden=64 model.ffn=1024
dpo 4 1,2 dpo_mean batch.micro=2 model.ffn=1024
copy 4 1'$more',2.z3 dpo_mean batch.micro=2 model.ffn=1024 dpo.reference=copy
llada 2 1,2 mdm_llada model.ffn=1024
mlm 2 1,2 mlm_microbert
dot 2 1'$more',2.z2 prm_instance model.ffn=1024
fd 2 1,2 prm_instance model.ffn=1024 prm.hypergradient=fd'
# On the simulator, which is slow, those that only a GPU has, or a GPU has in another way, for half as many steps.
# FULL=1: all.
steps=8
if [ $BACKEND = sim ]; then
    [ -n "$FULL" ] || steps=4
    fp16="fp16 4 1,${FULL:+2,2.z2,}2.z3 shard batch.micro=1 precision=fp16"
    cases=${FULL:+$cases$'\n'}$fp16${FULL:+$'\neight 8 1,8,8.z3 shard batch.micro=1 precision=bf16'}
fi
fields() {              # K RANKS RECIPE FIELDS
    local stage=
    [[ $2 != *.z* ]] || stage=memory.zero=${2#*.z}
    echo "$3 comm.order=canonical gpus=${2%.z*} batch.accum=$(($1 / ${2%.z*})) $stage ${*:4}"
}
programs <<<"$(while read -r name k ranks words; do
    # shellcheck disable=SC2086
    for n in ${ranks//,/ }; do echo "canonical.$name.$n $(fields $k $n $words)"; done
done <<<"$cases")"

verdict "weights are divided" "$(for n in "$work"/canonical.*.z3; do
    grep -q '_full_' "$n"/step.c* || echo "${n##*/}: none"; done)"

# Words that the model can only learn by their order, the same every time; ids that no batch has.
awk 'BEGIN { x = 1; for (i = 0; i < 1000; i++) { x = (x * 1103515245 + 12345) % 2147483648
    printf "%s%s", substr("the cat sat on a mat and saw the moon", x % 30 + 1, x % 7 + 2), i % 12 ? " " : ".\n" } }' \
    >"$scratch/text.txt"

# run NAME RUN ARGS...: trains canonical.NAME into $scratch/RUN, on the text or on the records of its reference case;
# the exit code. What it said is in $scratch/RUN.log.
run() {
    local name=$1 to=$2 case
    case=$(awk -v name="${1%%.*}" '$1 == name { print $4 }' <<<"$cases")
    shift 2
    local data=("--data=$ref/$case/tokens.safetensors" "--eval-data=$ref/$case/eval.safetensors")
    [ ! -e "$ref/$case/meta.safetensors" ] || data[1]=--meta-data=$ref/$case/meta.safetensors
    [ "$case" != qwen2_dropout ] || data+=(--init-from none)
    [ "$case" != shard ] || data=("--data=$scratch/text.txt" --tokenizer=bytes --eval-share=0.1)
    "$work/canonical.$name/run.sh" "${data[@]}" --steps $steps --save-every $((steps / 2)) --save-total-limit 0 \
        --eval-every 2 --eval-from 0 --keep-best --out "$scratch/$to" "$@" >"$scratch/$to.log" 2>&1
}
ran() { run "$@" || verdict "$2 trains" "exit $?: $(tail -n 2 "$scratch/$2.log")"; }

# history RUN: its records, but for times
history() {
    jq -cS 'with_entries(select(.key | test("time$|runtime|per_second") | not))' "$scratch/$1/history.jsonl"
}
# same TEST RUN RUN: the checkpoints that there are, their files of tensors, history, checksums of weights in the log
same() {
    local file n=0 why=
    why+=$(diff <(cd "$scratch/$2" && ls -d checkpoint-*) <(cd "$scratch/$3" && ls -d checkpoint-*))
    for file in "$scratch/$3"/checkpoint-*/*.safetensors; do
        n=$((n + 1))
        cmp -s "$file" "$scratch/$2${file#"$scratch/$3"}" || why+="${file#"$scratch/"} differs; "
    done
    [ $n -ge 4 ] || why+="only $n files; "
    why+=$(diff <(history "$2") <(history "$3") | head -n 3)
    [ "$(history "$3" | grep -c '"loss"')" = $steps ] || why+="not $steps losses"
    why+=$(diff <(grep ^bits "$scratch/$2.log") <(grep ^bits "$scratch/$3.log"))
    [ "$(grep -c ^bits "$scratch/$3.log")" -ge 2 ] || why+="no 2 checksums"
    verdict "$1" "$why"
}

# On CPUs what each rank sends is counted, into $scratch/RUN.sent.RANK.
if [ $BACKEND = cpu ]; then
    mpicc=$(command -v mpicc.openmpi || echo mpicc)
    $mpicc -std=c11 -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers -shared -fPIC \
        -o "$scratch/sent.so" tests/shard/sent.c || verdict sent.c "does not compile"
fi
while read -r name k ranks _; do
    for n in ${ranks//,/ }; do
        stage=${n#"${n%.z*}"}
        if [ $BACKEND$name$n = cpulm4 ]; then
            SENT=$scratch/lm.4.sent LD_PRELOAD=$scratch/sent.so ran lm.4 lm.4
        else
            ran $name.$n $name.$n
        fi
        [ $n = 1 ] || same "$name, $k micro-batches on ${n%.z*} ranks${stage:+, stage ${n#*.z}}" $name.$n $name.1
    done
done <<<"$cases"

# A gradient of one rank is not finite, in the third step: no rank updates its part. In fp16 the loss scale halves.
if [ $BACKEND = cpu ]; then
    skips=lm two=2
else
    skips=fp16 two=2.z3
fi
for n in 1 $two; do
    DIECAST_FAULT=nan:rank=$((${n%.z*} - 1)):step=3 run $skips.$n skip.$n --nonfinite skip ||
        verdict "skip.$n trains" "$(tail -n 2 "$scratch/skip.$n.log")"
done
same "an update is skipped" skip.$two skip.1
verdict "it is skipped" "$(grep -q '^step 3: .*update skipped' "$scratch/skip.1.log" || tail -n 2 "$scratch/skip.1.log"
    ! cmp -s "$scratch"/{skip.1,$skips.1}/checkpoint-4/model.safetensors || echo "the weights are those of a whole run")"

# Bytes that four ranks send in eight steps: those of gen plan.
if [ $BACKEND = cpu ]; then
    # shellcheck disable=SC2046
    verdict "bytes sent" "$(diff <(cat "$scratch"/lm.4.sent.? | awk '$1 ~ /scattered|collected/ { fold += $2 }
        $1 == "gathered_parts" { gather += $2 } END { print fold, gather }') \
        <("$gen" plan $here/recipes/$(fields 8 4 shard batch.micro=1 | sed 's/ /.lua /') --json |
        jq -r '[.schedules[] | select(.name == "train") | .sent_bytes | .fold, .all_gather | .within_node * 32 | round] |
            join(" ")'))"
fi

# ---- plain accumulation, and an order that is not that of the micro-batches

if [ $BACKEND = cpu ]; then
    build canonical.fast shard gpus=1 batch.accum=8 batch.micro=1
    # 1e-5: sums of eight gradients in fp32, scaled by a norm, over eight updates
    "$work/canonical.fast/run.sh" --data "$scratch/text.txt" --tokenizer bytes --eval-share 0.1 --eval-every 2 \
        --eval-from 0 --keep-best --out "$scratch/fast" >"$scratch/fast.log" 2>&1 ||
        verdict "fast order" "$(tail -n 2 "$scratch/fast.log")"
    compare "fast order" history "$scratch/lm.1" "$scratch/fast" 1e-5
    # the ranks in another order
    cp -r "$work/canonical.lm.2" "$scratch/mutant"
    sed -i 's/s += pieces\[r \* apart + i\]/s += pieces[(ranks - 1 - r) * apart + i]/' "$scratch/mutant/kernels/cpu/fold.h"
    touch "$scratch/mutant/kernels/cpu/fold.h"
    make_in_haste "$scratch/mutant" >"$scratch/mutant.log" 2>&1 || verdict mutant "does not build"
    "$scratch/mutant/run.sh" --data "$scratch/text.txt" --tokenizer bytes --eval-share 0.1 --eval-every 4 \
        --eval-from 0 --out "$scratch/other" >"$scratch/other.log" 2>&1
    verdict "ranks in another order would differ" "$(
        ! cmp -s "$scratch"/{other,lm.1}/checkpoint-8/model.safetensors && [ -e "$scratch/other/DONE" ] ||
            tail -n 2 "$scratch/other.log")"
fi

# ---- resumed on other numbers of ranks

# from RUN STEP NAME TO: TO goes on, by program NAME, from that step of RUN
from() {
    mkdir -p "$scratch/$4"
    cp -r "$scratch/$1/checkpoint-$2" "$scratch/$4"
    cp "$scratch/$1/history.jsonl" "$scratch/$4"
    ran "$3" "$4" --exact
    cmp -s "$scratch/$4/checkpoint-8/model.safetensors" "$scratch/$1/checkpoint-8/model.safetensors" &&
        cmp -s "$scratch/$4/checkpoint-8/optimizer.safetensors" "$scratch/$1/checkpoint-8/optimizer.safetensors"
    verdict "$1, on with $3" "$([ $? = 0 ] || tail -n 2 "$scratch/$4.log")"
}
if [ $BACKEND = cpu ]; then
    from lm.1 4 lm.4 to4
    from lm.2 2 lm.1 to1
    from lm.4 4 lm.2 to2
    from lm.2 4 lm.4.z3 toz
    from six.3.z2 4 six.3 six.to3
    from six.3 4 six.1 six.to1
    DIECAST_FAULT=kill9:rank=1:step=6 DIECAST_TIMEOUT_SCALE=0.25 run lm.2 struck
    verdict "a rank is killed" "$([ $? = 84 ] || tail -n 2 "$scratch/struck.log")"
    ran lm.4 struck
    verdict "goes on with four" "$(cmp "$scratch"/{struck,lm.1}/checkpoint-8/optimizer.safetensors)"
    # the bits do not depend on threads, in either order
    build fast.bf16 shard gpus=1 batch.micro=1 precision=bf16
    OMP_NUM_THREADS=2 from lm.4 4 lm.1 threads
    OMP_NUM_THREADS=3 from bf16.1 4 bf16.2.z3 bf16.threads
    for n in 1 2 3 4; do
        OMP_NUM_THREADS=$n "$work/fast.bf16/run.sh" --data "$scratch/text.txt" --tokenizer bytes --steps 4 \
            --out "$scratch/fast.$n" >"$scratch/fast.$n.log" 2>&1
        verdict "bf16, $n threads" "$(for file in {model,optimizer}.safetensors; do
            cmp "$scratch"/fast.{1,$n}/checkpoint-4/$file 2>&1; done)"
    done
fi

# ---- refused

run $skips.$two refused --lr-scale linear
verdict "a rate that counts ranks" "$([ $? = 80 ] &&
    grep -q 'lr-scale linear: comm.order = canonical trains alike' "$scratch/refused.log" ||
    tail -n 2 "$scratch/refused.log")"
exit $failed
