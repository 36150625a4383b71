#!/bin/bash
# Starts the program beside this file, one process a GPU, and hands it every argument but these:
#
#   ./run.sh --nodes 2 --node-rank 0 --master-addr node1 [--master-port 29500] ...
#                                             several hosts: once on each, the same on all but its rank
#   CUDA_VISIBLE_DEVICES=4,5 ./run.sh ...     these GPUs
#   OMP_NUM_THREADS=4 ./run.sh ...            threads of a process; else its share of the cores
#
# Several hosts want DIECAST_SECRET, the same word on all, or this folder shared between them. As
# well: torchrun --no-python ./train, srun ./train, mpirun ./train start it without this file.
# SIGTERM, SIGINT and SIGUSR1 to this process ask all of its ranks to save and stop.
# From the recipe come the three values below and nothing else.
set -u
NAME=@NAME@
RECIPE=@RECIPE@
RANKS=@RANKS@

here=$(cd "$(dirname "$0")" && pwd)
refuse() {
    echo "$NAME: $1" >&2
    exit 80
}
[ -x "$here/train" ] || refuse "$here/train is not built: run make in $here (source: gen $RECIPE)"

nodes=1
node=0
address=
port=
args=()
while [ $# -gt 0 ]; do
    case $1 in
    --nodes | --node-rank | --master-addr | --master-port)
        [ $# -gt 1 ] || refuse "$1 wants a value"
        set -- "$1=$2" "${@:3}"
        ;;
    --nodes=*) nodes=${1#*=} && shift ;;
    --node-rank=*) node=${1#*=} && shift ;;
    --master-addr=*) address=${1#*=} && shift ;;
    --master-port=*) port=${1#*=} && shift ;;
    *) args+=("$1") && shift ;;
    esac
done
for value in "$nodes" "$node" "${port:-1}"; do
    [[ $value =~ ^[0-9]{1,5}$ ]] || refuse "--nodes, --node-rank, --master-port: no number: $value"
done
if [ "$nodes" -lt 1 ] || [ $((RANKS % nodes)) != 0 ]; then
    refuse "--nodes $nodes: $RANKS ranks cannot be dealt to them evenly"
fi
[ "$node" -lt "$nodes" ] || refuse "--node-rank $node: want 0 to $((nodes - 1))"
[ "$nodes" = 1 ] || [ -n "$address" ] || refuse "--nodes $nodes wants --master-addr: the host of node 0"

local=$((RANKS / nodes))
share=$(($(nproc) / local))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
if [ "$RANKS" = 1 ]; then
    exec "$here/train" ${args[@]+"${args[@]}"}
fi

# On one host nobody else needs to know where the ranks meet: a free port and a new secret.
if [ "$nodes" = 1 ]; then
    address=${address:-127.0.0.1}
    while [ -z "$port" ]; do
        port=$((10000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && port=
    done
    export DIECAST_SECRET=${DIECAST_SECRET:-$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')}
fi
export WORLD_SIZE=$RANKS LOCAL_WORLD_SIZE=$local MASTER_ADDR=$address MASTER_PORT=${port:-29500}
unset TORCHELASTIC_USE_AGENT_STORE

# A rank is stopped in order when this process is killed.
tied=()
if setpriv --pdeathsig TERM true 2>/dev/null; then tied=(setpriv --pdeathsig TERM); fi

pids=()
ask() {                          # ask SIGNAL: all ranks that still run
    for pid in ${pids[@]+"${pids[@]}"}; do
        [ -z "$pid" ] || kill -s "$1" "$pid" 2>/dev/null
    done
}
for signal in TERM INT USR1; do
    # shellcheck disable=SC2064      # the name of now
    trap "ask $signal" "$signal"
done

# Process groups of their own: a Ctrl-C or a kill of the group reaches them once, through ask.
set -m
for ((i = 0; i < local; i++)); do
    RANK=$((node * local + i)) LOCAL_RANK=$i \
        ${tied[@]+"${tied[@]}"} "$here/train" ${args[@]+"${args[@]}"} <&0 &
    pids[i]=$!
done
set +m

# Ranks end together: each hears when another fails. The ones that do not are made to.
first=0
left=$local
give_seconds=30
failed_at=0
while [ "$left" -gt 0 ]; do
    if [ "$first" = 0 ]; then
        wait -n                  # or until a signal is passed on
    else
        sleep 0.2
    fi 2>/dev/null
    for ((i = 0; i < local; i++)); do
        if [ -n "${pids[i]}" ] && ! kill -0 "${pids[i]}" 2>/dev/null; then
            wait "${pids[i]}" 2>/dev/null
            code=$?
            pids[i]=
            left=$((left - 1))
            if [ $code != 0 ] && [ "$first" = 0 ]; then
                first=$code
                failed_at=$SECONDS
            fi
        fi
    done
    if [ "$first" != 0 ] && [ $((SECONDS - failed_at)) -ge $give_seconds ]; then
        ask KILL
    elif [ "$first" != 0 ] && [ "$first" != 91 ] && [ $((SECONDS - failed_at)) -ge 15 ]; then
        ask TERM
    fi
done
exit "$first"
