#!/bin/bash
# The jobs: what train.slurm does in the cluster of cluster.sh. Called by run.sh, with $T and $work.
set -u
. tests/slurm/cluster.sh
failed=0
x=$work/out\ of\ x4
text=$work/numbers.txt
export OMPI_MCA_mpi_yield_when_idle=1       # more ranks than cores: who waits lets others run
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

verdict() {             # verdict NAME STATUS WHY
    if [ "$2" = 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1: $(head -c 700 <<<"$3" | tr '\n' ' ')"
        failed=1
    fi
}

# submit ARGS...: sbatch from the folder $from; $id is the job's number
from=$work
submit() { id=$(cd "$from" && sbatch --parsable --time=20 "$@" 2>&1) || verdict "sbatch $*" 1 "$id"; }
record() { scontrol show job -o "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; }
over() { [[ $(record "$1" JobState) =~ ^(COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL|OUT_OF_MEMORY)$ ]]; }
logs() { cat "$from"/*-"$(record "$1" JobId)".log; }
# ends NAME ID STATE CODE [PATTERN]: the job ends so, and has a line like that in its log
ends() {
    until_true 300 over "$2"
    [[ "$(record "$2" JobState) $(record "$2" ExitCode)" = "$3 $4" ]] &&
        { [ -z "${5:-}" ] || logs "$2" | grep -qE -- "$5"; }
    verdict "$1" $? "$(record "$2" JobState) $(record "$2" ExitCode): $(logs "$2" | tail -n 6)"
}
# course OUT: what a run computed: its losses step by step, and the weights and moments it ended with
course() {
    grep '"loss"' "$1/history.jsonl" | sed 's/, "tokens_per_second": [^,]*, "time": [^,]*//'
    (cd "$1/checkpoint-300" && sha256sum model.safetensors optimizer.safetensors)
}
# same NAME OUT [REFERENCE]: it computed what the run without Slurm did
same() {
    diff <(course "${3:-$work/reference}" 2>&1) <(course "$2" 2>&1) >"$T/diff" && [ "$(course "$2" | wc -l)" = 302 ]
    verdict "$1" $? "$(head -n 4 "$T/diff")"
}
ranks() { pgrep -f "^$x/train " | while read -r p; do grep -qs "State:.Z" "/proc/$p/status" || echo "$p"; done; }
# holds OUT: it is at its save of step 100, which DIECAST_FAULT keeps from ending
holds() { compgen -G "$1/checkpoint-100*.tmp*" >/dev/null; }
held() {                # held OUT SECONDS SBATCH-WORD...: submitted, and holds for so long
    local out=$1
    export DIECAST_FAULT=save:rank=0:step=100:seconds=$2
    submit "${@:3}" "$x/train.slurm" "${run[@]}" --save-every 100 --out "$out"
    unset DIECAST_FAULT
}
run=(--data numbers.txt --tokenizer bytes --steps 300 --log-every 1)
two=(--nodes=2 --ntasks-per-node=2)

cluster 2 || { verdict "the cluster starts" 1 "$(tail -n 5 "$T"/log/*)"; exit 1; }
verdict "the cluster starts" 0
(cd "$work" && "$x/run.sh" "${run[@]}" --out reference >reference.log 2>&1)
verdict "the run without Slurm" $? "$(tail -n 3 "$work/reference.log")"

# ---- two jobs on the same nodes at once, from two folders
from=$x
submit "${two[@]}" train.slurm --data ../numbers.txt "${run[@]:2}" --out ../a
a=$id
from=$work
submit "${two[@]}" "out of x4/train.slurm" "${run[@]}" --out b
b=$id
ends "a job from its own folder" "$b" COMPLETED 0:0 '4 ranks x 1 thread on .* of node1 .launcher Slurm'
from=$x ends "a job from another folder" "$a" COMPLETED 0:0 '4 ranks x 1 thread on .* of node1 .launcher Slurm'
same "from its own folder: the same bits as without Slurm" "$work/a"
same "from another folder: the same bits as without Slurm" "$work/b"

# ---- a job goes back into the queue: by hand, and when it is asked to stop before its time is over
held hand 20 "${two[@]}"
hand=$id
held limit 60 "${two[@]}" --signal=USR1@100
limit=$id
until_true 120 holds "$work/hand"
verdict "a job holds at step 100" $? "$(logs "$hand" | tail -n 3)"
scontrol requeue "$hand"
until_true 120 holds "$work/limit"
scontrol update "JobId=$limit" TimeLimit=2
# Slurm looks at times every 30 s, asks a job that has less than 130 s left to stop, and ends it at 120 s
back() { [ "$(record "$1" Restarts)" = 1 ]; }
until_true 120 back "$limit"
verdict "a job is back in the queue before its time is over" $? "$(logs "$limit" | tail -n 6)"
scontrol update "JobId=$limit" TimeLimit=20
for job in hand limit; do
    ends "requeue ($job): goes on" "${!job}" COMPLETED 0:0 "x4: job ${!job} again, restart 1"
    same "requeue ($job): the same bits as undisturbed" "$work/$job"
    [ "$(record "${!job}" Restarts)" = 1 ]
    verdict "requeue ($job): once" $? "$(record "${!job}" Restarts)"
done
logs "$limit" | grep -q 'stopped on request: back into the queue'
verdict "the limit: says so" $? "$(logs "$limit" | tail -n 6)"


# ---- an array is a run for each seed; a task that is asked to stop goes back into the queue alone
seeds() { compgen -G "$work/seeds/seed-1/checkpoint-100*.tmp*" && compgen -G "$work/seeds/seed-2/checkpoint-100*.tmp*"; }
held seeds 10 --array=1-2 "${two[@]}"
array=$id
until_true 120 seeds >/dev/null
verdict "an array: each task in a folder of its own" $? "$(logs "${array}_1" | tail -n 6)"
scancel --signal=USR1 "${array}_2"
for seed in 1 2; do
    (cd "$work" && "$x/run.sh" "${run[@]}" --seed $seed --out "reference-$seed" >"reference-$seed.log" 2>&1)
done
for seed in 1 2; do
    ends "an array: task $seed" "${array}_$seed" COMPLETED 0:0 "x4: task $seed of array $array: --seed $seed --out .*seeds/seed-$seed$"
    same "an array: task $seed: the bits of a run with that seed" "$work/seeds/seed-$seed" "$work/reference-$seed"
    [ "$(record "${array}_$seed" Restarts)" = $((seed - 1)) ]
    verdict "an array: task $seed went $((seed - 1)) times back into the queue" $? "$(record "${array}_$seed" Restarts)"
done
submit --array=3 "$x/train.slurm" "${run[@]}" --seed 4
ends "an array, and another seed" "$id" FAILED 80:0 'x4: --seed, but task 3 of an array has that number as its seed'
submit --array=3 "$x/train.slurm" "${run[@]}" --output_dir other
ends "an array, and another trainer's name of the folder" "$id" FAILED 80:0 \
    '--output_dir other and --out other/seed-3 are the same flag: give one'

# ---- a rank dies, a node is lost, the user has enough
gone() { [ -z "$(ranks)" ]; }
held killed 300 "${two[@]}"
until_true 120 holds "$work/killed"
for pid in $(ranks); do
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx SLURM_PROCID=3; then kill -9 "$pid"; fi
done
ends "a rank is killed: the job's code is that of the others" "$id" FAILED 84:0 'rank 3 .node2. died'
until_true 60 gone
verdict "a rank is killed: nothing is left on the nodes" $? "$(ranks)"

held enough 5 "${two[@]}"
until_true 120 holds "$work/enough"
scancel "$id"
ends "a job that is cancelled stays so" "$id" CANCELLED 0:15
until_true 120 gone
verdict "a job that is cancelled: nothing is left on the nodes" $? "$(ranks)"

exit $failed
