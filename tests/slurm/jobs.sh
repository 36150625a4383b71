#!/bin/bash
# The jobs: what train.slurm does in the cluster of cluster.sh. Called by run.sh, with $T and $work.
set -u
. tests/slurm/cluster.sh
. tests/compare.sh
. tests/verdict.sh
x=$work/out\ of\ x4
export OMPI_MCA_mpi_yield_when_idle=1       # more ranks than cores: who waits lets others run
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# submit ARGS...: sbatch from the folder $from; $id is the job's number
# shellcheck disable=SC2154
from=$work
submit() { id=$(cd "$from" && sbatch --parsable --time=20 "$@" 2>&1) || verdict_of "sbatch $*" 1 "$id"; }
record() { scontrol show job -o "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; }
over() { [[ $(record "$1" JobState) =~ ^(COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL|OUT_OF_MEMORY)$ ]]; }
logs() { cat "$from"/*-"$(record "$1" JobId)".log; }
# ends NAME ID STATE CODE [PATTERN]: the job ends so (CODE|CODE: or so), and has a line like that in its log
ends() {
    until_true 300 over "$2"
    [[ "$(record "$2" JobState) $(record "$2" ExitCode)" =~ ^$3\ ($4)$ ]] &&
        { [ -z "${5:-}" ] || logs "$2" | grep -qE -- "$5"; }
    verdict_of "$1" $? "$(record "$2" JobState) $(record "$2" ExitCode): $(logs "$2" | tail -n 6)"
}
# course OUT: what a run computed: its losses step by step, and the weights and moments it ended with
course() {
    grep '"loss"' "$1/history.jsonl" | sed 's/, "tokens_per_second": [^,]*, "time": [^,]*//'
    (cd "$1/checkpoint-$steps" && sha256sum model.safetensors optimizer.safetensors)
}
# same NAME OUT [REFERENCE]: it computed what the run without Slurm did
same() {
    diff <(course "${3:-$work/reference}" 2>&1) <(course "$2" 2>&1) >"$T/diff" &&
        [ "$(course "$2" | wc -l)" = $((steps + 2)) ]
    verdict_of "$1" $? "$(head -n 4 "$T/diff")"
}
ranks() { pgrep -f "^$x/train " | while read -r p; do grep -qs "State:.Z" "/proc/$p/status" || echo "$p"; done; }
# holds OUT [STEP]: it is at its save of that step, which DIECAST_FAULT keeps from ending
holds() { compgen -G "$work/$1/checkpoint-${2:-100}*.tmp*" >/dev/null; }
held() {                # held OUT STEP SECONDS SBATCH-WORD...: submitted; its save of this step takes so long
    DIECAST_FAULT=save:rank=0:step=$2:seconds=$3 \
        submit "${@:4}" "$x/train.slurm" "${run[@]}" --save-every 100 --out "$1"
}
steps=300
run=(--data numbers.txt --tokenizer bytes --steps $steps --log-every 1)
two=(--nodes=2 --ntasks-per-node=2)

cluster 2 || { verdict_of "the cluster starts" 1 "$(tail -n 5 "$T"/log/*)"; exit 1; }
verdict_of "the cluster starts" 0
(cd "$work" && "$x/run.sh" "${run[@]}" --out reference >reference.log 2>&1)
verdict_of "the run without Slurm" $? "$(tail -n 3 "$work/reference.log")"

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

# ---- on one node nobody else reaches the ranks: a socket that all four have is Slurm's own, which they inherit
held one 100 10 --nodes=1 --ntasks-per-node=4
one=$id
until_true 120 holds one
verdict_of "a job on one node holds at step 100" $? "$(logs "$one" | tail -n 3)"
open=$(for rank in $(ranks); do
    echo rank
    awk '$4 == "0A" && $2 !~ /^0100007F:/ { print $10 }' "/proc/$rank/net"/tcp* |
        grep -xFf <(find "/proc/$rank/fd" -printf '%l\n' | sed -n 's/socket:.\([0-9]*\).$/\1/p')
done | sort | uniq -c)
grep -q ' 4 rank$' <<<"$open" && ! grep -qv '^ *4 ' <<<"$open"
verdict_of "on one node: ranks listen to this machine alone" $? "$open"
ends "a job on one node" "$one" COMPLETED 0:0
same "on one node: the same bits as without Slurm" "$work/one"

# ---- a job goes back into the queue: by hand, and when it is asked to stop before its time is over
held hand 100 10 "${two[@]}"
hand=$id
held limit 100 60 "${two[@]}" --signal=USR1@100
limit=$id
until_true 120 holds hand
verdict_of "a job holds at step 100" $? "$(logs "$hand" | tail -n 3)"
on 2 ls "/dev/shm/diecast.$hand.0.0" | grep -q vader
verdict_of "what ranks share has a folder of its own for this start" $? "$(on 2 find /dev/shm)"
# what stands there under the next start's name is a link of somebody's: it stays as it is
on 2 sh -c "mkdir /dev/shm/theirs; echo >/dev/shm/theirs/file; ln -s theirs /dev/shm/diecast.$hand.0.1"
scontrol requeue "$hand"
until_true 120 holds limit
# Slurm looks at times every 30 s, asks a job that has less than 130 s left to stop, and ends it at 120 s.
scontrol update "JobId=$limit" TimeLimit=2
# Its next start has time enough: one that is asked to stop at its first step comes back twice.
waits_in_queue() { [ "$(record "$limit" JobState)" = PENDING ]; }
{ until_true 300 waits_in_queue && scontrol update "JobId=$limit" TimeLimit=20; } >/dev/null 2>&1 &
# what_came_back JOB...: variables with their numbers; once back in the queue, they end with the bits of others
what_came_back() {
    local job
    for job; do
        ends "requeue ($job): goes on" "${!job}" COMPLETED 0:0 "x4: job ${!job} again, restart 1"
        same "requeue ($job): the same bits as undisturbed" "$work/$job"
        [ "$(record "${!job}" Restarts)" = 1 ]
        verdict_of "requeue ($job): once" $? "$(record "${!job}" Restarts)"
    done
}
what_came_back hand
[ "$(on 2 ls -A /dev/shm/theirs)" = file ]
verdict_of "a link in the place of that folder is left alone" $? "$(on 2 find /dev/shm)"
on 2 rm -r /dev/shm/theirs "/dev/shm/diecast.$hand.0.1"

# ---- an array is a run for each seed; a task that is asked to stop goes back into the queue alone
seeds() { holds seeds/seed-1 && holds seeds/seed-2; }
held seeds 100 10 --array=1-2 "${two[@]}"
array=$id
until_true 120 seeds
verdict_of "an array: each task in a folder of its own" $? "$(logs "${array}_1" | tail -n 6)"
scancel --signal=USR1 "${array}_2"
for seed in 1 2; do
    (cd "$work" && "$x/run.sh" "${run[@]}" --seed $seed --out "reference-$seed" >"reference-$seed.log" 2>&1)
done
for seed in 1 2; do
    task=${array}_$seed
    ends "an array: task $seed" "$task" COMPLETED 0:0 \
        "x4: task $seed of array $array: --seed $seed --out .*seeds/seed-$seed$"
    same "an array: task $seed: the bits of a run with that seed" "$work/seeds/seed-$seed" "$work/reference-$seed"
    [ "$(record "$task" Restarts)" = $((seed - 1)) ]
    verdict_of "an array: task $seed went $((seed - 1)) times back into the queue" $? "$(record "$task" Restarts)"
done
submit --array=3 "$x/train.slurm" "${run[@]}" --seed 4
ends "an array, and another seed" "$id" FAILED 80:0 'x4: --seed, but task 3 of an array has that number as its seed'
submit --array=3 "$x/train.slurm" "${run[@]}" --output_dir other
ends "an array, and another trainer's name of the folder" "$id" FAILED 80:0 \
    '--output_dir other and --out other/seed-3 are the same flag: give one'

# ---- other ways to start it
# srun ends with the highest code of a task: 143 if it stopped one that had not refused yet
submit --nodes=1 --ntasks=3 --ntasks-per-node=3 "$x/train.slurm" "${run[@]}" --out few
ends "too few tasks" "$id" FAILED '83:0|143:0' 'built for 4 ranks, started as 3 by launcher Slurm'
submit --nodes=1 --ntasks=5 --ntasks-per-node=5 "$x/train.slurm" "${run[@]}" --out many
ends "too many tasks" "$id" FAILED '83:0|143:0' 'built for 4 ranks, started as 5 by launcher Slurm'
submit --ntasks=4 --job-name=alone --output=%x-%j.log --wrap "'$x/train' ${run[*]} --out alone"
ends "a script that starts the program without srun" "$id" FAILED 83:0 \
    'built for 4 ranks, started as 1 by launcher none'
submit --ntasks=4 --job-name=plain --output=%x-%j.log --wrap "srun '$x/train' ${run[*]} --out plain"
ends "srun without PMI" "$id" FAILED 1:0 \
    'srun offers no PMIx; if Open MPI .* does not start: srun --mpi=pmix for Open MPI'
(cd "$work" && salloc "${two[@]}" srun --mpi=pmix "$x/train" "${run[@]}" --out direct >direct.log 2>&1)
verdict_of "salloc srun ./train" $? "$(tail -n 3 "$work/direct.log")"
same "salloc srun ./train: the same bits as without Slurm" "$work/direct"
MPI_PLUGIN=pmi2 submit "${two[@]}" mpich/train.slurm "${run[@]}" --out mpich.run
ends "MPICH with pmi2" "$id" COMPLETED 0:0 'launcher Hydra .*, MPI MPICH'
same "MPICH with pmi2: the bits of Open MPI" "$work/mpich.run"
submit "${two[@]}" mpich/train.slurm "${run[@]}" --out mpich.pmix
ends "MPICH with pmix" "$id" FAILED 83:0 'srun --mpi=pmi2 for MPICH'

# ---- GPUs, simulated: two jobs on a node, which must not meet. The simulator reaches no process of another node.
few=(--data numbers.txt --tokenizer bytes --steps 10 --log-every 1)
(cd "$work" && gpus/run.sh "${few[@]}" --out reference.gpus >reference.gpus.log 2>&1)
verdict_of "GPUs: the run without Slurm" $? "$(tail -n 3 "$work/reference.gpus.log")"
for job in one other; do
    submit --nodelist=node1 gpus/train.slurm "${few[@]}" --out "gpus.$job"
    eval "$job=\$id"
done
for job in one other; do
    ends "GPUs: job $job" "${!job}" COMPLETED 0:0 '4 ranks .*launcher Slurm, NCCL'
    steps=10 same "GPUs: job $job: the same bits as without Slurm" "$work/gpus.$job" "$work/reference.gpus"
done
devices=$(cd "$work" && salloc --nodes=1 --ntasks=4 --gpus-per-node=3 \
    srun -n1 printenv CUDA_VISIBLE_DEVICES 2>/dev/null)
[ "$devices" = 0,1,2 ]
verdict_of "GPUs: the cluster deals them" $? "$devices"
# run.sh, once on each node: it reads the number of its node from the step
. tests/runtime/launcher.sh
mkdir -p "$work/show"
run_sh cuda show 4 >"$work/show/run.sh"
printf '%s\n' '#!/bin/bash' '[ "$1" = --where ] || echo "$RANK of $WORLD_SIZE, $LOCAL_RANK at $MASTER_ADDR $MASTER_PORT"' \
    >"$work/show/train"
chmod +x "$work/show/run.sh" "$work/show/train"
shown=$(cd "$work" && salloc --nodes=2 --ntasks-per-node=1 srun show/run.sh 2>/dev/null | sort | paste -sd';')
[ "$shown" = "0 of 4, 0 at node1 29500;1 of 4, 1 at node1 29500;2 of 4, 0 at node1 29500;3 of 4, 1 at node1 29500" ]
verdict_of "GPUs: srun starts run.sh on each node" $? "$shown"

# ---- a rank dies, the user has enough, a node is lost
gone() { [ -z "$(ranks)" ]; }
no_rank() {             # no_rank NAME
    until_true 60 gone
    verdict_of "$1: nothing is left on the nodes" $? "$(ranks)"
}
kill_rank() {           # kill_rank JOB RANK
    local pid
    for pid in $(ranks); do
        tr '\0' '\n' <"/proc/$pid/environ" | grep -cx -e "SLURM_PROCID=$2" -e "SLURM_JOB_ID=$1" | grep -qx 2 &&
            kill -9 "$pid"
    done 2>/dev/null
}
DIECAST_REQUEUE="84 85" held killed 100 300 "${two[@]}"
until_true 120 holds killed
kill_rank "$id" 3
ends "a rank is killed: the job's code is that of the others" "$id" FAILED 84:0 'rank 3 .node2. died'
logs "$id" | grep -q 'x4: code 84, and no checkpoint since this start: not back into the queue'
verdict_of "a rank is killed: no way forward is no way back" $? "$(logs "$id" | tail -n 3)"
no_rank "a rank is killed"
DIECAST_REQUEUE="84 85" held again 200 300 "${two[@]}"
again=$id
until_true 120 holds again 200
kill_rank "$again" 1
DIECAST_REQUEUE="84 1" submit "$x/train.slurm" "${run[@]}" --out never
ends "a code to go back with that is none" "$id" FAILED 80:0 'x4: DIECAST_REQUEUE=84 1: must be codes of'
what_came_back again

held enough 100 5 "${two[@]}"
until_true 120 holds enough
scancel "$id"
ends "a job that is cancelled stays so" "$id" CANCELLED 0:15
no_rank "a job that is cancelled"
compgen -G "$work/enough/checkpoint-10[0-9]" >/dev/null
verdict_of "a job that is cancelled: it saved" $? "$(ls "$work/enough")"

logs "$limit" | grep -q 'stopped on request: back into the queue'
verdict_of "the limit: says so" $? "$(logs "$limit" | tail -n 6)"
what_came_back limit

# the node of the script itself, and of rank 0
held lost 200 300 "${two[@]}"
lost=$id
until_true 120 holds lost 200
node_lose 1
no_rank "a node is lost"
node_start 1
what_came_back lost

for n in 1 2; do
    # but for the folder of a moment of this script, which jobs know by TMPDIR
    [ -z "$(on $n ls -A /dev/shm | grep -vxF "${TMPDIR##*/}")" ]
    verdict_of "nothing is left in shared memory of node$n" $? "$(on $n find /dev/shm)"
done
exit $failed
