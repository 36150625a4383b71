#!/bin/bash
# run.sh and train.slurm with their holes filled as the emitter does, around programs that show what
# they got: ranks, several machines, signals, exit codes. Called by run.sh.
set -u
. tests/runtime/launcher.sh
. tests/verdict.sh
verdict_prefix="start: "
scratch=$(mktemp -d)
program=start_test$$         # another start of these tests has its own
trap 'rm -rf "$scratch" {/dev/shm,"${TMPDIR:-/tmp}"}/diecast.$program.*' EXIT
unset NNODES NODE_RANK MASTER_ADDR MASTER_PORT MPIRUN MPIRUN_FLAGS OMP_NUM_THREADS
export DIECAST_CONFIG=/dev/null         # not what gen config wrote on this machine

# folder BACKEND RANKS: $x, with run.sh and the program of standard input
folder() {
    x=$scratch/$1.$2
    mkdir -p "$x"
    run_sh "$1" "$program" "$2" "${NODES:-1}" "${HOSTS:-}" >"$x/run.sh"
    cat >"$x/train"
    chmod +x "$x/run.sh" "$x/train"
}

# ends NAME CODE PATTERN COMMAND...: pattern of the output, which is then the output in $scratch/c
ends() {
    local name=$1 want=$2 pattern=$3
    shift 3
    timeout -k 5 200 "$@" >"$scratch/c" 2>&1
    local code=$?
    [ $code = "$want" ] && [[ -z $pattern || $(<"$scratch/c") =~ $pattern ]]
    verdict_of "$name" $? "code $code: $(head -3 "$scratch/c")"
}

# said NAME N PATTERN: so many lines of the last command are like that
said() {
    local n
    n=$(grep -cE -- "$3" "$scratch/c")
    [ "$n" = "$2" ]
    verdict_of "$1" $? "$n lines: $(head -5 "$scratch/c")"
}

# ---- CPU: the ranks that a start has

show='[[ " $* " != *" --bad "* ]] || { echo "the flag is wrong" >&2; exit 80; }
if [[ " $* " == *" --where "* ]]; then printf "%s\n" "$RUN" ${TRAINS:+trains}; exit; fi
echo "rank ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-none}} threads $OMP_NUM_THREADS x ${DIECAST_X:-} args $*${SHOW:+ nodes $DIECAST_NODES port $DIECAST_PORT}"'
export RUN=$scratch/the\ run DIECAST_X=5
mkdir "$RUN"
share=$(nproc)
for n in 1 2; do
    folder cpu $n <<<"#!/bin/bash
$show
exit 91"
    ends "$n CPU ranks" 91 "rank" bash -c "cd / && exec '$x/run.sh' --lr 1 'a b'"
    said "$n CPU ranks get the arguments" $n \
        "^rank .* threads $((share >= n ? share / n : 1)) x 5 args --lr 1 a b$"
done
ends "OMP_NUM_THREADS is not the number of CPUs" 91 "threads 1 " env OMP_NUM_THREADS=1 "$scratch/cpu.2/run.sh"
said "OMP_NUM_THREADS is not the number of CPUs" $(($(nproc) < 2)) "processes share"
[ -z "$(find /dev/shm -maxdepth 1 -name "diecast.$program.*")" ]
verdict_of "nothing is left in shared memory" $? "$(ls /dev/shm)"
rm "$scratch/cpu.1/train"
ends "without a binary" 80 "is not built: run make" "$scratch/cpu.1/run.sh"

# Ports that MPI opens for ranks of one machine are closed to others: the same of Open MPI is in tests/train/faults.sh.
if command -v mpicc.mpich >/dev/null && mpicc.mpich -o "$scratch/listens" tests/runtime/listens.c; then
    folder cpu 2 <<<"#!/bin/bash
$show
exec '$scratch/listens'"
    ends "MPICH" 0 "rank looked" env MPIRUN=mpirun.mpich "$x/run.sh"
    said "MPICH: ranks listen to this machine alone" 0 "listens on"
fi

# ---- a program that was built before gen last rewrote its sources; one without a manifest was copied
hash=$(printf %064d 7)
for backend in cpu cuda; do
    RUN=$scratch/copied folder $backend 1 <<<"#!/bin/bash
# $hash
[[ \" \$* \" != *' --where '* ]] || exec echo '$scratch/copied'
echo started"
    for manifest in "" '{}' "{
  \"sources_sha256\": \"$hash\",
  \"files\": {}
}"; do
        printf %s "$manifest" >"$x/manifest.json"
        [ -n "$manifest" ] || rm "$x/manifest.json"
        ends "$backend program with the manifest $(tr -d '\n ' <<<"$manifest" | cut -c1-20)" 0 started "$x/run.sh"
    done
    sed -i 's/7"/8"/' "$x/manifest.json"
    ends "stale $backend program" 80 "rewrote its sources; rebuild it: make -C $backend.1$" bash -c "cd '$scratch' && $backend.1/run.sh"
    said "stale $backend program is not started" 0 started
    ends "stale $backend program: --version" 0 started "$x/run.sh" --version
    rm "$x/manifest.json"
done

# ---- CPU: several machines. The agent that starts a daemon on the other host does it here.

folder cpu 4 <<<"#!/bin/bash
$show"
cat >"$scratch/agent" <<'END'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
export TMPDIR=${0%/*}/tmp.$1
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
END
chmod +x "$scratch/agent"
ends "two machines" 0 "rank" env NNODES=2 NODE_RANK=0 \
    MPIRUN_FLAGS="--mca plm_rsh_agent $scratch/agent" "$x/run.sh" --nnodes=2 --nproc-per-node=2 --hosts na,nb --steps 3
said "two machines have all ranks" 4 "^rank [0-3] .* x 5 args --steps 3$"
[ "$(find "$scratch" -maxdepth 1 -name 'tmp.n?' | wc -l)" = 2 ]
verdict_of "two machines, each by the agent" $? "$(ls "$scratch")"
if command -v mpirun.mpich >/dev/null; then
    ends "two machines with MPICH" 0 "rank" env MPIRUN=mpirun.mpich \
        MPIRUN_FLAGS="-launcher ssh -launcher-exec $scratch/agent" "$x/run.sh" --hosts na,nb
    said "two machines with MPICH have all ranks" 4 "^rank [0-3] "
fi
refuses() {             # refuses PATTERN [NAME=VALUE...] -- ARGS...
    local pattern=$1 set=()
    shift
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    ends "${x##*/}: ${set[*]} run.sh $*" 80 "$program: .*$pattern" \
        env ${set[@]+"${set[@]}"} "$x/run.sh" "$@"
    said "${x##*/}: ${set[*]} run.sh $* starts nothing" 0 "^rank"
}
line="once, on one machine, for all: .*run.sh --nodes 2 --hosts node1,node2"
refuses "--node-rank=1: .*$line" -- --node-rank 1
refuses "--node_rank=0: .*$line" -- --nnodes 2 --hosts a,b --node_rank=0
refuses "--master_addr=h: .*$line" -- --master_addr h
refuses "--master-port=x: must be a port" -- --master-port=x
refuses "--node_rank=1: .*$line" -- --nnodes 1 --node_rank=1 --master_addr localhost
refuses "--master-addr=localhost: .*$line" -- --hosts a,b --master-addr localhost
refuses "--nodes=2: .*$line" -- --nodes 2
refuses "NNODES=2: .*$line" NNODES=2 NODE_RANK=0 MASTER_ADDR=h MASTER_PORT=29500 --
refuses "NODE_RANK=1: .*$line" NODE_RANK=1 -- --hosts a,b
refuses "MASTER_ADDR=h: .*$line" MASTER_ADDR=h --
refuses "NNODES=4, but --nodes=2" NNODES=4 -- --nodes 2 --hosts a,b
refuses "--nodes=2, but --nnodes=4" -- --nodes=2 --nnodes 4 --hosts a,b
refuses "--hosts=a,b, but --hosts=a,c" -- --hosts a,b --hosts a,c
refuses "--nproc-per-node=2, but --nproc-per-node=4" -- --nproc-per-node 2 --nproc-per-node 4
refuses "--master-port=29500, but --master-port=29501" -- --master-port 29500 --master-port 29501
refuses "--restarts=1, but --restarts=2" -- --restarts 1 --restarts=2
refuses "--nodes=2, but --hosts=a" -- --nodes 2 --hosts a
refuses "a host is named twice" -- --hosts a,b,a,c
refuses "names such as" -- --hosts a,-x
refuses "names such as" -- --hosts=
refuses "--nproc_per_node=8: this is built for 4 in all, so 4 on each of 1" -- --nproc_per_node 8
refuses "divided evenly among 3" -- --hosts a,b,c
refuses "must be a number of machines" -- --nodes 02 --hosts a,b
refuses "--hosts needs a value" -- --hosts
refuses "WORLD_SIZE=2: a launcher started this" RANK=0 WORLD_SIZE=2 --
refuses "SLURM_STEP_NUM_TASKS=4: a launcher" SLURM_STEP_NUM_TASKS=4 --
ends "NNODES=1 is this machine" 0 "rank 3 " env NNODES=1 NODE_RANK=0 MASTER_ADDR=h "$x/run.sh"
ends "torchrun's words for one machine" 0 "args --lr 1 nodes 1 port 12355" env SHOW=yes "$x/run.sh" --nproc_per_node=4 \
    --nnodes=1 --node_rank=0 --master_addr=localhost --master_port=12355 --lr 1
for word in --help --plot --version; do
    ends "flags before and after $word" 0 "rank none .* args --out o $word --verbose" "$x/run.sh" --out o $word --verbose
done
ends "--help is printed once" 0 "rank none .* args --help" "$x/run.sh" --help
said "--help starts no ranks" 1 "^rank"
said "--help has what run.sh takes itself" 2 "^\./run.sh --(nodes 2 --hosts|restarts 3) "

# ---- CPU: exit codes. A launcher that leaves what STUB does, and the code it returns.

folder cpu 2 <<<"#!/bin/bash
$show"
cat >"$scratch/mpirun" <<'END'
#!/bin/bash
[ "$1" = --version ] && exec echo "mpirun (Open MPI) stub"
fault() {                # NAME CODE [START]
    printf '{\n  "code": %s,\n  "rank": 0,\n  "start": "%s"\n}\n' "$2" "${3-$DIECAST_START}" >"$RUN/x" &&
        mv "$RUN/x" "$RUN/fault.$1.json"
}
eval "$STUB"
END
chmod +x "$scratch/mpirun"
left() {                # left NAME CODE PATTERN STUB
    MPIRUN=$scratch/mpirun STUB=$4 ends "$1" "$2" "$3" "$x/run.sh"
}
left "killed, no fault file" 137 "returned 137, and no rank left a fault file in $RUN" 'exit 137'
left "the fault file says why" 84 "returned 137; $RUN/fault.0.0.json says 84" 'fault 0.0 84; exit 137'
left "that of an earlier start does not" 139 "no rank left a fault file" 'exit 139'
left "that of another start does not" 139 "no rank left a fault file" 'fault 0.1 92 another; exit 139'
left "the same written again does" 84 "says 84" 'fault 0.0 84; exit 137'
left "the newest of two" 85 "fault.0.2.json says 85" \
    'fault 0.1 84; touch -d "1 minute ago" "$RUN/fault.0.1.json"; fault 0.2 85; exit 1'
left "a code of a rank goes first" 88 "" 'fault 0.0 84; exit 88'
left "a fault file that is none" 137 "no rank left" 'echo x >"$RUN/fault.9.9.json"; exit 137'
left "a good end" 0 "" 'exit 0'
left "sampling that a stop ended, where the launcher returns 0" 91 "returned 0; .*says 91" 'fault 0.0 91; exit 0'
rm -f "$RUN"/*
finishes='echo 1 >"$RUN/x" && mv "$RUN/x" "$RUN/DONE"; exit 0'
none="ended with 0, but $RUN has no DONE of this start"
export TRAINS=1                  # the command line means training
left "training that ends with 0 and no DONE" 84 "$none" 'exit 0'
MPIRUN=/bin/true ends "a launcher that starts nothing" 84 "$none" "$x/run.sh"
left "training that a fault file ends" 84 "returned 0; .*says 84" 'fault 0.0 84; exit 0'
left "training that is over" 0 "" "$finishes"
left "training that is over in spite of a fault file" 0 "" "fault 0.0 92; $finishes"
left "a DONE of an earlier start" 84 "$none" 'exit 0'
left "training that is found over" 0 "" "$finishes"
left "training that stopped" 91 "" 'exit 91'
ends "restarts without a DONE" 84 "restart 1 of 1 .*gives up" \
    env MPIRUN="$scratch/mpirun" STUB="exit 0" "$x/run.sh" --restarts 1
cpu=$x
folder cuda 2 <<<"#!/bin/bash
$show
[ \$RANK = 1 ] || { $finishes; }"
sed -i 's/\[ .RANK = 1 \]/[ -n "\${IDLE:-}" ] || &/' "$x/train"
ends "ranks of GPUs that end with 0 and no DONE" 84 "$none" env IDLE=1 "$x/run.sh"
ends "ranks of GPUs that are over" 0 "" "$x/run.sh"
ends "ranks of the second host write none" 0 "" env IDLE=1 DIECAST_SECRET=x "$x/run.sh" --nodes 2 --node-rank 1 \
    --master-addr h
x=$cpu
unset TRAINS
rm -f "$RUN"/*
ends "a wrong flag is reported once" 80 "the flag is wrong" \
    env MPIRUN="$scratch/mpirun" STUB="exit 1" "$x/run.sh" --bad
said "a wrong flag is reported once" 1 "wrong"

# Two signals within microseconds: the second meets bash's wait at every point, one of some gaps goes wrong where
# a wait's end is taken for that of the launcher.
stub='trap "" TERM; trap "sleep 0.1; exit 91" USR1; touch "$RUN/up"; while :; do sleep 0.01; done'
twice=0
for gap in $(seq 10 10 300); do
    rm -f "$RUN"/*
    MPIRUN=$scratch/mpirun STUB=$stub "$x/run.sh" >"$scratch/c" 2>&1 &
    script=$!
    while [ ! -e "$RUN/up" ] && kill -0 $script; do sleep 0.01; done
    kill -TERM $script
    for ((i = 0; i < gap; i++)); do :; done
    kill -TERM $script
    wait $script 2>/dev/null
    code=$?
    # on one core it notes that two processes share it
    [ $code = 91 ] && ! grep -qv '^note: 2 processes share 1 CPUs' "$scratch/c" || break
    twice=$((twice + 1))
done
[ $twice = 30 ]
verdict_of "two signals at once, $twice times, are one" $? "after $gap turns of a loop: code $code: $(head -3 "$scratch/c")"

# ---- CPU: what a start needs, and launchers that hang

rm -f "$RUN"/*
ends "few open files" 80 "2 ranks need 96 open files, 32 are allowed: ulimit -n 4096" \
    bash -c "ulimit -n 32; exec '$x/run.sh'"
ends "few open files, but more may be had" 88 "" bash -c "ulimit -Sn 32; MPIRUN='$scratch/mpirun' \
    STUB='[ \$(ulimit -n) -ge 96 ] && exit 88' exec '$x/run.sh'"
ends "a small stack" 80 "stacks are limited to 128 KiB, .* ulimit -s 8192" bash -c "ulimit -s 128; exec '$x/run.sh'"
for tmp in /proc "$scratch/nowhere"; do
    ends "TMPDIR=$tmp" 90 "TMPDIR=$tmp: the launcher cannot write its files there: make room" \
        env TMPDIR="$tmp" "$x/run.sh"
    said "TMPDIR=$tmp is reported once" 1 ""
done
MPIRUN=$scratch/mpirun STUB='trap "" TERM USR1; touch "$RUN/up"; while :; do sleep 0.1; done' \
    "$x/run.sh" >"$scratch/c" 2>&1 &
script=$!
while [ ! -e "$RUN/up" ] && kill -0 $script; do sleep 0.01; done
kill -TERM $script
wait $script 2>/dev/null
code=$?
[ $code = 137 ] && grep -q "has started no rank and is ended, as asked" "$scratch/c"
verdict_of "one SIGTERM ends a launcher that hangs" $? "code $code: $(head -3 "$scratch/c")"

# ---- CPU: signals, with the real launchers. The program
# saves for $1 seconds when it is asked to stop.

folder cpu 2 <<'END'
#!/bin/bash
if [[ " $* " == *" --where "* ]]; then echo "$RUN"; exit; fi
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
fault() { printf '{"code": %s, "start": "%s"}' "$1" "$DIECAST_START" >"$RUN/fault.0.$rank.json"; }
save() {
    trap '' TERM
    sleep "$save"
    fault 91                                                # MPICH's launcher may return 0
    touch "$RUN/saved.$rank"
    until [ -e "$RUN/saved.$((1 - rank))" ]; do sleep 0.02; done
    exit 91
}
save=$1
trap save USR1
trap 'fault 84; exit 84' TERM
[ "$1" != deaf ] || trap 'touch "$RUN/asked.$rank"' USR1
echo $$ >"$RUN/pid.$rank"
if [ "$1$rank" = dies1 ]; then
    until [ -e "$RUN/pid.0" ]; do sleep 0.02; done           # it can say so now
    kill -9 $$
fi
while :; do sleep 0.05; done
END
# begin ARGS...: run.sh with its ranks at work, $script
begin() {
    rm -f "$RUN"/*
    env --default-signal=INT "$x/run.sh" "$@" >"$scratch/c" 2>&1 &
    script=$!
    for _ in $(seq 1200); do
        [ "$(cat "$RUN"/pid.? 2>/dev/null | wc -l)" = 2 ] && break
        sleep 0.05
    done
}
# ended CODE SAVED: run.sh ends so, no rank is left and so many have saved; else $why
ended() {
    local code alive=0
    wait $script 2>/dev/null
    code=$?
    for _ in $(seq 1200); do
        alive=0
        for pid in $(cat "$RUN"/pid.?); do
            state=$(ps -o stat= -p "$pid") && [[ $state != Z* ]] && alive=$((alive + 1))
        done
        [ $alive = 0 ] && break
        sleep 0.05
    done
    why="code $code, $alive alive: $(cat "$scratch/c")"
    [ "$code" = "$1" ] && [ "$(find "$RUN" -name 'saved.?' | wc -l)" = "$2" ] && [ $alive = 0 ]
}
gone() {                # NAME CODE SAVED
    ended "$2" "$3"
    verdict_of "$1" $? "$why"
}
export MPIRUN=mpirun.openmpi
begin 3.4                        # longer than they have after a SIGTERM
kill -TERM $script $script
gone "SIGTERM, twice as timeout sends it, stops in order" 91 2
begin 0
kill -INT $script
gone "SIGINT stops in order" 91 2
if command -v mpirun.mpich >/dev/null; then
    MPIRUN=mpirun.mpich begin 0
    kill -USR1 $script
    gone "SIGUSR1 stops in order, MPICH" 91 2
fi
# Behind a SIGTERM ranks have three seconds, which may not do on a busy machine
for _ in 1 2 3; do
    begin deaf
    kill -TERM $script
    for _ in $(seq 1200); do
        [ -e "$RUN/asked.0" ] && [ -e "$RUN/asked.1" ] && break
        sleep 0.05
    done
    sleep 0.6                        # sooner it counts as the same once more
    kill -TERM $script
    ended 84 0
    status=$?
    [ $status = 0 ] && break
done
verdict_of "a second SIGTERM ends ranks that do not stop" $status "$why"
begin 0
kill -KILL $script
gone "kill -9 of run.sh stops its ranks in order" 137 2
rm -f "$RUN"/*
ends "a rank is killed" 84 "says 84" "$x/run.sh" dies
# After a start was killed with its launcher, the next one removes its temporary folders.
remains() { find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -name "diecast.$program.*"; }
begin 0
kill -STOP $script
read -ra launcher <"/proc/$script/task/$script/children"
kill -KILL "${launcher[@]}" $(cat "$RUN"/pid.?)
kill -KILL $script
gone "kill -9 of everything" 137 0
[ "$(remains | grep -c "\.$script$")" = 2 ]         # a launcher before it may not have ended yet
verdict_of "what a killed start leaves" $? "$(remains)"
# One in use has a lock, whatever its name; one without is left over, although a process has that number.
for place in /dev/shm "${TMPDIR:-/tmp}"; do
    mkdir -p "$place/diecast.$program".{1.2147483646,2.$$}
done
exec 7<"/dev/shm/diecast.$program.1.2147483646" 8<"${TMPDIR:-/tmp}/diecast.$program.1.2147483646"
flock -s 7 && flock -s 8
rm -f "$RUN"/*
ends "a start after a killed one" 84 "says 84" "$x/run.sh" dies
[ "$(remains | sed -n "s/.*\.\($script\|2147483646\|$$\)$/\1/p" | tr '\n' ' ')" = "2147483646 2147483646 " ]
verdict_of "it removes what is in no use, and nothing else" $? "$(remains)"
exec 7<&- 8<&-
unset MPIRUN

# ---- Slurm: a copy of train.slurm in its spool, srun and scontrol that show what they got

mkdir "$scratch/bin" "$scratch/other"
cat >"$scratch/bin/srun" <<'END'
#!/bin/bash
echo "srun $* in $PWD port ${DIECAST_PORT:-} secret ${#DIECAST_SECRET}"
eval "$STUB"
END
cat >"$scratch/bin/scontrol" <<'END'
#!/bin/bash
[ "$1" = show ] || exec echo "scontrol $*"
[ "$RECORD" = none ] || printf 'JobId=%s\n   Command=%s\n   WorkDir=/x\n' "$3" "$RECORD"
END
chmod +x "$scratch/bin"/*
# batch NAME CODE PATTERN RECORD STUB: submitted in $scratch/other
batch() {
    env PATH="$scratch/bin:$PATH" SLURM_SUBMIT_DIR="$scratch/other" SLURM_JOB_ID=23456 DIECAST_SECRET= \
        RECORD="$4" STUB="$5" timeout 200 bash -c 'cd "$0" && exec bash "$1" --lr 1' \
        "$scratch/other" "$scratch/slurm_script" >"$scratch/c" 2>&1
    local code=$?
    [ $code = "$2" ] && [[ $(<"$scratch/c") =~ $3 ]]
    verdict_of "$1" $? "code $code: $(head -3 "$scratch/c")"
}
for backend in cpu cuda; do
    folder $backend 2 <<<"#!/bin/bash
$show"
    y="$scratch/a folder.$backend"
    mkdir "$y"
    cp "$x/train" "$y"
    sed "s/@NAME@/$program/; s/@RANKS@/2/; s/@NODES@/1/; s/@LOCAL@/2/; s/@TIME@/1:00:00/; s/@CONTAINER@//" "templates/$backend/train.slurm" >"$y/train.slurm"
    ! grep -q '@[A-Z]*@' "$y/train.slurm" "$x/run.sh"
    verdict_of "templates of $backend have no other holes" $? "see templates/$backend"
    cp "$y/train.slurm" "$scratch/slurm_script"
    rm -rf "$RUN"/*
    step='checkpoint() { mkdir -p "$RUN/checkpoint-$1"; }; checkpoint'
    want="srun -K1 --wait=60 $y/train --lr 1 in $scratch/other port 13456 secret 64"
    [ $backend = cuda ] ||
        want="srun -K1 --wait=60 --mpi=pmix $y/train --lr 1 in $scratch/other port  secret 0"
    batch "train.slurm of $backend, from another folder" 91 "$want" "$y/train.slurm --lr 1" "$step 5; exit 91"
    said "train.slurm of $backend goes back into the queue" 1 '^scontrol requeue 23456$'
    batch "train.slurm of $backend, no record" 80 "submit the train.slurm next to it" none ''
    (cd "$y" && cp train.slurm train "$scratch/other")
    batch "train.slurm of $backend, submitted where it lies" 88 "srun .* $scratch/other/train --lr" \
        none 'exit 88'
    rm "$scratch/other"/*
    said "train.slurm of $backend stays out of the queue" 0 scontrol
    fault='printf "{\"code\": 91, \"start\": \"%s\"}" "$DIECAST_START" >"$RUN/fault.0.1.json"'
    batch "train.slurm of $backend, srun's own code" 91 "back into" "$y/train.slurm" "$step 10; $fault; exit 143"
    batch "train.slurm of $backend, no step on" 91 "no checkpoint since this start: not back" "$y/train.slurm" 'exit 91'
    said "train.slurm of $backend, no step on, stays out of the queue" 0 '^scontrol'
    batch "train.slurm of $backend, a code that is not asked for" 85 "srun" "$y/train.slurm" "$step 11; exit 85"
    said "train.slurm of $backend, a code that is not asked for, stays out" 0 '^scontrol'
    DIECAST_REQUEUE="84 85" batch "train.slurm of $backend, one that is" 85 "back into" "$y/train.slurm" \
        "$step 12; exit 85"
    SLURM_RESTART_COUNT=2 SLURM_ARRAY_JOB_ID=23456 SLURM_ARRAY_TASK_ID=7 \
        batch "train.slurm of $backend, of an array" 91 \
        "job 23456_7 again, restart 2.*srun .*/train --lr 1 --seed 7 --out $RUN/seed-7 in" "$y/train.slurm" \
        "$step 13; exit 91"
    said "train.slurm of $backend, the task of an array alone goes back into the queue" 1 '^scontrol requeue 23456_7$'
    finishes='echo 1 >"$RUN/x" && mv "$RUN/x" "$RUN/DONE"'
    TRAINS=1 batch "train.slurm of $backend, 0 and no DONE" 84 "srun returned 0, but $RUN has no DONE" "$y/train.slurm" 'exit 0'
    TRAINS=1 batch "train.slurm of $backend, a good end" 0 "srun" "$y/train.slurm" "$finishes"
    TRAINS=1 batch "train.slurm of $backend, a DONE of before" 84 "no DONE of this start" "$y/train.slurm" 'exit 0'
    batch "train.slurm of $backend, no training" 0 "srun" "$y/train.slurm" 'exit 0'
    batch "train.slurm of $backend, a fault file of before" 143 srun "$y/train.slurm" 'exit 143'
done
exit $failed
