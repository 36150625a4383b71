#!/bin/bash
# Ranks of a CUDA program on the simulator: sums, arrays in a GPU, launchers, ends, and run.sh.
# Called by run.sh with the folder of the binaries.
set -u
. tests/runtime/launcher.sh
. tests/verdict.sh
verdict_prefix="cuda ranks: "
build=${1:-out/.test/runtime}
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
port=$((12000 + $$ % 7000))                # in the name of a file next to the program
here=127.$((1 + $$ / 65536)).$(($$ / 256 % 256)).$(($$ % 256))       # this host: ours alone, with all of its ports
export DIECAST_PORT DIECAST_SECRET=test DIECAST_ADDR=$here
unset NNODES NODE_RANK MASTER_ADDR MASTER_PORT

# together N MODE [NAME=VALUE...]: N ranks as torchrun would start them; codes in ${codes[*]}
together() {
    local n=$1 mode=$2 pids=()
    shift 2
    port=$((port + 1))
    DIECAST_PORT=$port
    codes=()
    for ((r = n - 1; r >= 0; r--)); do
        env RANK=$r WORLD_SIZE="$n" LOCAL_RANK=$r LOCAL_WORLD_SIZE="$n" "$@" timeout -s KILL 200 \
            "$build/nccl" "$n" "$mode" >"$scratch/r.$r" 2>&1 &
        pids[r]=$!
    done
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}"
        codes[r]=$?
    done
}

# good NAME LINES: all ended well, rank 0 said ok so often
good() {
    ! printf '%s\n' "${codes[@]}" | grep -qvx 0 && ! grep -q '^bad' "$scratch"/r.* &&
        [ "$(grep -c '^ok' "$scratch/r.0")" = "$2" ]
    verdict_of "$1" $? "codes ${codes[*]}: $(tail -n 2 "$scratch"/r.*)"
}

# ended NAME R CODE PATTERN
ended() {
    [ "${codes[$2]}" = "$3" ] && grep -qE -- "$4" "$scratch/r.$2"
    verdict_of "$1" $? "code ${codes[$2]}: $(tail -n 2 "$scratch/r.$2")"
}

for n in 1 2 3 4; do
    together $n sums
    good "sums over $n ranks" 14
done
together 3 sums DIECAST_SIM_COLLECTIVES=late SIM_MOVED="$scratch/moved"
good "sums over 3 ranks, collectives as late as possible" 14
# By nccl_main.c: of tensors of 3 parts of 3001 floats, three times two are gathered and one summed; then one is
# gathered.
whole=$((3 * 3001 * 4))
[ "$(awk '$1 == "ncclAllGather" { gathered += $2 } $1 == "ncclReduceScatter" { summed += $2 }
    END { print gathered, summed }' "$scratch"/moved.?)" = "$((3 * 7 * whole)) $((3 * 3 * whole))" ]
verdict_of "bytes moved to gather and to sum parts" $? "$(grep -h -e AllGather -e Scatter "$scratch"/moved.?)"
together 2 late DIECAST_SIM_COLLECTIVES=late
good "operations as late as possible" 3
together 2 late
[ "$(grep -c '^bad' "$scratch/r.0")" = 2 ]
verdict_of "operations as early as possible are over before their end" $? "$(tail -n 3 "$scratch/r.0")"

# The order of sums is NCCL's ring unless the user chooses; variables that may change it are reported, those of messages are not.
settings() {            # settings NAME LINES [NAME=VALUE...]
    together 1 none "${@:3}"
    [ "$(grep -E '^(pinned|chosen) ' "$scratch/r.0" | sort | paste -sd' ')" = "$2" ]
    verdict_of "settings of NCCL: $1" $? "$(cat "$scratch/r.0")"
}
mkdir "$scratch/user"
printf '#NCCL_PROTO=LL\nNCCL_ALGO=Tree\r\nNCCL_NVLS_ENABLE=2\n' >"$scratch/user/.nccl.conf"
settings "none set" "pinned NCCL_ALGO=Ring pinned NCCL_NVLS_ENABLE=0"
settings "set" "chosen NCCL_MIN_NCHANNELS=4 chosen NCCL_NVLS_ENABLE=1 pinned NCCL_ALGO=Ring" NCCL_DEBUG=VERSION \
    NCCL_ALGO=ring NCCL_NVLS_ENABLE=1 NCCL_MIN_NCHANNELS=4
settings "in a file" "chosen NCCL_ALGO=Tree pinned NCCL_NVLS_ENABLE=0" HOME="$scratch/user" NCCL_NVLS_ENABLE=0
settings "in another file" "pinned NCCL_ALGO=Ring pinned NCCL_NVLS_ENABLE=0" HOME="$scratch/user" \
    NCCL_CONF_FILE=/dev/null
# shellcheck disable=SC2016
together 2 sums bash -c '[ "$RANK" = 0 ] || export NCCL_PROTO=LL; exec "$@"' -
ended "settings that ranks do not share" 1 83 'NCCL_PROTO is "LL" here, but "" on rank 0: set it alike on all hosts'
together 2 arrays
good "arrays in a GPU" 12

together 3 abort
for r in 0 2; do ended "a rank ends with a code of its own, rank $r" $r 88 'rank 1 .*ended with code 88'; done
ended "and says why" 1 88 'this rank has bad data'
together 3 kill
for r in 0 2; do ended "a rank is killed, rank $r" $r 84 'rank 1 .* died'; done
together 2 hang DIECAST_TIMEOUT_SCALE=2
ended "a rank that hangs is named" 0 85 'no rank got further.* rank 1 '
ended "and ends" 1 85 'no rank got further'

together 2 sums NCCL_COMM_ID=127.0.0.1:1
ended "NCCL_COMM_ID" 0 80 'NCCL_COMM_ID is set: unset it'
mkdir "$scratch/home"
printf '# x\n NCCL_COMM_ID = 1.2.3.4:5\n' >"$scratch/home/.nccl.conf"
together 2 sums HOME="$scratch/home"
ended "NCCL_COMM_ID in a file" 0 80 '.nccl.conf sets NCCL_COMM_ID'
together 2 sums DIECAST_TIMEOUT_SCALE=1e9
ended "a scale that is none" 1 80 'want a number from 0.001 to 1000'
together 2 sums DIECAST_PORT=70000
ended "a port that is none" 1 80 'DIECAST_PORT=70000: want a port'
together 2 sums TARGET=sm_80
# both ranks find it; whoever is first tells the other
ended "another GPU than built for" 0 83 'built for sm_80, but GPU [01] is .* of compute capability 9.0'
together 3 sums CUDA_VISIBLE_DEVICES=2,3
ended "more ranks than GPUs" 2 80 '2 GPUs are visible to 3 ranks of this host: .* for 2 GPUs gen recipes/x.lua gpus=2 && make'
together 2 sums CUDA_VISIBLE_DEVICES=2
ended "two ranks and one GPU" 0 80 '2 ranks share the GPU 0000:[0-9a-f:.]* of .*: for one GPU gen recipes/x.lua gpus=1 && make'
together 2 sums CUDA_VISIBLE_DEVICES=
ended "no GPU" 0 80 'no GPU to run on'

# Other launchers.
ompi="--oversubscribe --bind-to none"
[ "$(id -u)" = 0 ] && ompi="$ompi --allow-run-as-root"
DIECAST_PORT=$((port + 1))
# shellcheck disable=SC2086
timeout 200 mpirun -n 2 $ompi -x DIECAST_ADDR -x DIECAST_PORT -x DIECAST_SECRET "$build/nccl" 2 sums >"$scratch/m" 2>&1
code=$?
[ $code = 0 ] && [ "$(grep -c '^ok' "$scratch/m")" = 14 ]
verdict_of "mpirun" $? "code $code: $(tail -3 "$scratch/m")"
codes=()
for r in 0 1; do
    env -u DIECAST_ADDR -u DIECAST_PORT -u DIECAST_SECRET RANK=$r WORLD_SIZE=2 MASTER_ADDR=$here \
        MASTER_PORT=$((port + 2)) TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=x \
        timeout 200 "$build/nccl" 2 sums >"$scratch/r.$r" 2>&1 &
    pids[r]=$!
done
for r in 0 1; do wait "${pids[r]}"; codes[r]=$?; done
good "torchrun's agent, no local ranks, no secret given" 14
grep -q "rendezvous on port $((port + 3))" "$scratch/r.0" && [ ! -e "$build/.secret.$((port + 3))" ]
verdict_of "port of torchrun's agent is left alone, the secret goes" $? "$(cat "$scratch/r.0")"
env -u DIECAST_ADDR RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 LOCAL_RANK=0 "$build/nccl" 2 sums >"$scratch/r.0" 2>&1
codes=($?)
ended "nobody says where rank 0 is" 0 80 'set DIECAST_ADDR to its address'
"$build/nccl" 2 sums >"$scratch/r.0" 2>&1
codes=($?)
ended "no launcher" 0 83 'built for 2 ranks, started as 1'
# by_hand WORLD_SIZE...: rank 0, 1, ... of a program for 2, each with a size of its own; again when a busy machine
# started one so late that the others, who wait three seconds to tell it, were gone (82)
by_hand() {
    local r pids
    for _ in 1 2 3 4 5; do
        r=0 pids=()
        port=$((port + 5))
        for size in "$@"; do
            env -u DIECAST_ADDR DIECAST_PORT=$port MASTER_ADDR=$here RANK=$r WORLD_SIZE="$size" \
                DIECAST_TIMEOUT_SCALE=0.1 timeout -s KILL 200 "$build/nccl" 2 sums >"$scratch/r.$r" 2>&1 &
            pids[r++]=$!
        done
        codes=()
        for ((r = 0; r < $#; r++)); do wait "${pids[r]}"; codes[r]=$?; done
        [[ " ${codes[*]} " == *" 82 "* ]] || break
    done
}
by_hand 2 3
ended "a rank of another world" 1 83 'built for 2 ranks, started as 3 .* torchrun --nproc-per-node 2'
ended "a rank of another world ends rank 0" 0 83 'rank 1 believes in 3 ranks, rank 0 in 2'
by_hand 1 2
ended "rank 0 of another world" 0 83 'built for 2 ranks, started as 1'
ended "rank 0 of another world ends the others" 1 83 'rank 1 believes in 2 ranks, rank 0 in 1'
by_hand 2 2 2
ended "a rank too many" 2 83 'RANK=2: want an integer from 0 to 1'
by_hand 3 3 3
ended "all of another world, rank 0" 0 83 'built for 2 ranks, started as 3'
ended "all of another world, rank 2" 2 83 'built for 2 ranks, started as 3'

# run.sh with its holes filled as the emitter does, around the program or one that shows what it got.
unset DIECAST_ADDR DIECAST_PORT DIECAST_SECRET CUDA_VISIBLE_DEVICES
export DIECAST_CONFIG=/dev/null         # not what gen config wrote on this machine
folder() {              # folder NAME RANKS
    mkdir -p "$scratch/$1"
    run_sh cuda "$1" "$2" "${NODES:-1}" "${HOSTS:-}" >"$scratch/$1/run.sh"
    chmod +x "$scratch/$1/run.sh"
}
folder real 3
printf '#!/bin/bash\n[ "$1" != --where ] || exec echo none\nexec %q "$@"\n' "$root/$build/nccl" >"$scratch/real/train"
chmod +x "$scratch/real/train"
"$scratch/real/run.sh" 3 sums >"$scratch/c" 2>&1
code=$?
[ $code = 0 ] && [ "$(grep -c '^ok' "$scratch/c")" = 14 ]
verdict_of "run.sh starts 3" $? "code $code: $(tail -3 "$scratch/c")"
"$scratch/real/run.sh" 3 abort >"$scratch/c" 2>&1
code=$?
[ $code = 88 ]
verdict_of "run.sh ends with the code of the first" $? "code $code: $(tail -3 "$scratch/c")"

folder show 4
cat >"$scratch/show/train" <<'SHOW'
#!/bin/bash
[ "${1:-}" != wait ] || trap 'echo "rank $RANK got TERM"; sleep 1; exit 91' TERM
echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR $MASTER_PORT" \
    "secret ${#DIECAST_SECRET} args $*"
[ "${1:-}" = wait ] || exit 0
trap 'echo "rank $RANK got USR1"; exit 91' USR1
echo $$ >"$0.$RANK"
while :; do sleep 0.1; done
SHOW
chmod +x "$scratch/show/train"
(cd / && env -u DIECAST_SECRET "$scratch/show/run.sh" --lr 1 "a b" >"$scratch/c" 2>&1)
code=$?
[ $code = 0 ] && [ "$(grep -cE '^rank ([0-3]) of 4 local \1 of 4 at 127.0.0.1 [0-9]+ secret 64 args --lr 1 a b$' \
    "$scratch/c")" = 4 ]
verdict_of "run.sh on one host" $? "code $code: $(cat "$scratch/c")"
PET_NNODES=1 PET_NODE_RANK=0 PET_MASTER_ADDR=pod.job PET_MASTER_PORT=29500 PET_NPROC_PER_NODE=4 SKYPILOT_NUM_NODES=1 \
    SKYPILOT_NODE_RANK=0 SKYPILOT_NODE_IPS=10.0.0.1 SKYPILOT_NUM_GPUS_PER_NODE=8 SLURM_NODEID=0 SLURM_NNODES=3 \
    "$scratch/show/run.sh" >"$scratch/c" 2>&1
code=$?
[ $code = 0 ] && [ "$(grep -cE '^rank [0-3] of 4 local [0-3] of 4 at 127.0.0.1 ' "$scratch/c")" = 4 ]
verdict_of "run.sh on the one host of other launchers" $? "code $code: $(cat "$scratch/c")"
second() {              # second [NAME=VALUE...] -- ARGS...
    local set=()
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    env DIECAST_SECRET=sss ${set[@]+"${set[@]}"} "$scratch/show/run.sh" "$@" --steps 3 >"$scratch/c" 2>&1
    code=$?
    [ $code = 0 ] && [ "$(grep -cE '^rank (2|3) of 4 local (0|1) of 2 at h0 29500 secret 3 args --steps 3$' \
        "$scratch/c")" = 2 ]
    verdict_of "run.sh on the second of two hosts: ${set[*]//$'\n'/,} $*" $? "code $code: $(cat "$scratch/c")"
}
second -- --nodes 2 --node-rank=1 --master-addr h0
second -- --nnodes=2 --nproc_per_node=2 --node_rank 1 --master_addr=h0 --master_port 29500
second NNODES=2 NODE_RANK=1 MASTER_ADDR=h0 MASTER_PORT=29500 --
second NNODES=2 MASTER_ADDR=h0 -- --nodes 2 --node-rank 1
second SLURM_STEP_NUM_TASKS=2 -- --nodes 2 --node-rank 1 --master-addr h0
# other launchers that start run.sh once on each host
pet=(PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=h0 PET_MASTER_PORT=29500)
second "${pet[@]}" PET_NPROC_PER_NODE=2 --
second "${pet[@]}" PET_NPROC_PER_NODE=auto NNODES=2 MASTER_ADDR=h0 -- --node-rank 1 --master-port 29500
second PET_NNODES=2:2 "${pet[@]:1}" PET_NPROC_PER_NODE=gpu --
sky=(SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=1 SKYPILOT_NODE_IPS=$'h0\nh1' SKYPILOT_NUM_GPUS_PER_NODE=2)
second "${sky[@]}" --
second "${sky[@]}" "${pet[@]}" -- --nodes 2
second "${sky[@]}" -- --nodes 2 --master-addr h0
step=(SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_PROCID=1 SLURM_NODEID=1)
second "${step[@]}" SLURM_STEP_NODELIST='h[0,7]' --
second "${step[@]}" SLURM_STEP_NODELIST='h[0-1]' PMI_RANK=1 PMI_SIZE=2 --
second "${step[@]}" SLURM_STEP_NODELIST='h0,h1' --
second OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=1 -- --master-addr h0
second PMI_SIZE=2 PMI_ID=1 MPI_LOCALNRANKS=1 MASTER_ADDR=h0 --
wrong() {               # wrong PATTERN [NAME=VALUE...] -- ARGS...
    local pattern=$1 set=()
    shift
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    env ${set[@]+"${set[@]}"} "$scratch/show/run.sh" "$@" >"$scratch/c" 2>&1
    code=$?
    [ $code = 80 ] && grep -q -- "$pattern" "$scratch/c" && ! grep -q '^rank' "$scratch/c"
    verdict_of "run.sh ${set[*]//$'\n'/,} $*" $? "code $code: $(cat "$scratch/c")"
}
wrong "cannot be divided" -- --nodes 3 --node-rank 0 --master-addr x
wrong "needs --master-addr" -- --nodes 2 --node-rank 0
wrong "needs --node-rank" -- --nodes 2 --master-addr x
wrong "must be 0 to 1" -- --nodes 2 --node-rank 2 --master-addr x
wrong "NODE_RANK=1: must be 0 to 0, as no --nodes is given" NODE_RANK=1 MASTER_ADDR=x --
wrong "must be a number of hosts" -- --nodes x
wrong "must be a port" -- --master-port x
wrong "needs a value" -- --nodes
wrong "--nproc-per-node=4: this is built for 4 in all, so 2 on each of 2" -- --nodes 2 --node-rank 0 \
    --master-addr x --nproc-per-node 4
wrong "needs a value" -- --master-addr=
wrong "NNODES=4, but --nodes=2" NNODES=4 -- --nodes 2 --node-rank 0 --master-addr x
wrong "NODE_RANK=0, but --node_rank=1" NNODES=2 NODE_RANK=0 MASTER_ADDR=x -- --node_rank 1
wrong "MASTER_ADDR=x, but --master-addr=y" NNODES=2 NODE_RANK=0 MASTER_ADDR=x -- --master-addr y
wrong "MASTER_PORT=1, but --master_port=2" MASTER_PORT=1 -- --master_port 2
wrong "DIECAST_ADDR=x, but --master-addr=y" DIECAST_ADDR=x -- --master-addr y
wrong "--nodes 2 --node-rank 0 --master-addr" -- --nodes 2 --hosts a,b
wrong "WORLD_SIZE=2: a launcher started this file" RANK=1 WORLD_SIZE=2 MASTER_ADDR=x --
wrong "SLURM_STEP_NUM_TASKS=4: a launcher" SLURM_STEP_NUM_TASKS=4 --
wrong "OMPI_COMM_WORLD_SIZE=2: a launcher" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 -- --nodes 2 \
    --node-rank 0 --master-addr x
wrong "NNODES=4, but PET_NNODES=2: they must be equal; leave out the wrong one" NNODES=4 "${pet[@]}" --
wrong "--nodes=4, but SKYPILOT_NUM_NODES=2: they" "${sky[@]}" -- --nodes 4
wrong "PET_NNODES=2, but SKYPILOT_NUM_NODES=4: they" "${pet[@]}" SKYPILOT_NUM_NODES=4 --
wrong "PET_NODE_RANK=1, but SLURM_NODEID=0: they" "${pet[@]}" "${step[@]}" SLURM_NODEID=0 --
wrong "MASTER_ADDR=x, but PET_MASTER_ADDR=h0: they" MASTER_ADDR=x "${pet[@]}" --
wrong "--master-port=1, but PET_MASTER_PORT=29500: they" "${pet[@]}" -- --master-port 1
wrong "PET_NNODES=2:4: must be one number of machines" "${pet[@]}" PET_NNODES=2:4 --
wrong "PET_NNODES=x: must be one number" "${pet[@]}" PET_NNODES=x --
wrong "PET_NPROC_PER_NODE=8: this is built for 4 in all, so 2 on each of 2" "${pet[@]}" PET_NPROC_PER_NODE=8 --
wrong "PET_NPROC_PER_NODE=cpu: the ranks of this program run on gpus" "${pet[@]}" PET_NPROC_PER_NODE=cpu --
wrong "PET_NODE_RANK=2: must be 0 to 1" "${pet[@]}" PET_NODE_RANK=2 --
wrong "PET_NODE_RANK=1: must be 0 to 0" PET_NODE_RANK=1 --
wrong "PET_MASTER_PORT=abc: must be a port" "${pet[@]}" PET_MASTER_PORT=abc --
wrong "PET_NNODES=2 needs --master-addr" PET_NNODES=2 PET_NODE_RANK=0 --
wrong "SKYPILOT_NODE_IPS names 2 machines, but SKYPILOT_NUM_NODES=4" "${sky[@]}" SKYPILOT_NUM_NODES=4 --
wrong "SKYPILOT_NUM_GPUS_PER_NODE=1: too few, 2 ranks of this program" "${sky[@]}" SKYPILOT_NUM_GPUS_PER_NODE=1 --
wrong "OMPI_COMM_WORLD_SIZE=2 needs --master-addr" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 \
    OMPI_COMM_WORLD_LOCAL_SIZE=1 --

# Signals reach every rank once; the end of run.sh is the end of its ranks.
for signal in USR1 TERM KILL; do
    rm -f "$scratch/show/train".?
    "$scratch/show/run.sh" wait >"$scratch/c" 2>&1 &
    script=$!
    for _ in $(seq 1200); do
        [ "$(cat "$scratch/show/train".? 2>/dev/null | wc -l)" = 4 ] && break
        sleep 0.05
    done
    twice=
    [ $signal != TERM ] || twice=$script                 # as timeout sends it
    # shellcheck disable=SC2086
    kill -s $signal $script $twice
    wait $script 2>/dev/null
    code=$?
    want=91
    name=$signal
    [ $signal != KILL ] || { want=137 && name=TERM; }
    for _ in $(seq 600); do
        alive=0
        while read -r pid; do
            state=$(ps -o stat= -p "$pid") && [[ $state != Z* ]] && alive=$((alive + 1))
        done < <(cat "$scratch/show/train".?)
        [ $alive != 0 ] && [ $signal = KILL ] || break       # else it has waited for them
        sleep 0.1
    done
    [ $code = $want ] && [ "$(grep -c "got $name" "$scratch/c")" = 4 ] && [ $alive = 0 ]
    verdict_of "run.sh passes SIG$signal on" $? "code $code, $alive alive: $(cat "$scratch/c")"
done
cat >"$scratch/show/train" <<'DIES'
#!/bin/bash
[ "$RANK" != 2 ] || kill -9 $$
sleep 0.2
exit 84
DIES
"$scratch/show/run.sh" >"$scratch/c" 2>&1
code=$?
[ $code = 84 ]
verdict_of "run.sh ends with what the others say of a rank that was killed" $? "code $code"
rm "$scratch/show/train"
wrong "is not built: run make" -- --lr 1
exit $failed
