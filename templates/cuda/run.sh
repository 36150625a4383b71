#!/bin/bash
# Starts the program next to this file, one process for each GPU, and passes on every argument except
# these:
#
#   ./run.sh --nodes 2 --node-rank 0 --master-addr node1 [--master-port 29500] ...
#                                             several hosts: run it on each, with another
#                                             --node-rank; or set NNODES, NODE_RANK, MASTER_ADDR
#                                             and MASTER_PORT. The variables of Kubeflow Trainer
#                                             (PET_NNODES ...), SkyPilot, srun and mpirun with one
#                                             task per host work as well
#   ./run.sh --gpu-ids 4,5 ...                uses these GPUs; or set CUDA_VISIBLE_DEVICES=4,5
#   ./run.sh --restarts 3 ...                 restarts up to 3 times when a rank dies or hangs
#   OMP_NUM_THREADS=4 ./run.sh ...            threads of a process (default: its share of the cores)
#
# Several hosts need the same DIECAST_SECRET on all of them, or must share this folder. Without this
# file, torchrun --no-python ./train, srun ./train and mpirun ./train start the program.
# Values that neither flags nor variables set come from the file of gen config, if there is one, then
# from the cluster. SIGTERM, SIGINT and SIGUSR1 to this process ask all of its ranks to save and stop.
# Only the values below come from the recipe and its cluster.
set -u
NAME=@NAME@
RECIPE=@RECIPE@
RANKS=@RANKS@
# Defaults from the recipe's cluster: its nodes and their names, threads of a process.
CLUSTER=@CLUSTER@
NODES=@NODES@
HOSTS=@HOSTS@
THREADS=@THREADS@
#@ variables

here=$(cd "$(dirname "$0")" && pwd)
refuse() {
    echo "$NAME: $*" >&2
    exit 80
}
[ -x "$here/train" ] || refuse "$here/train is not built: run make in $here (source: gen $RECIPE)"

# Settings of the hosts, as WORD=VALUE: from the environment, then from flags, which must agree.
nodes=${NNODES:+NNODES=$NNODES}
node=${NODE_RANK:+NODE_RANK=$NODE_RANK}
address=${MASTER_ADDR:+MASTER_ADDR=$MASTER_ADDR}
port=${MASTER_PORT:+MASTER_PORT=$MASTER_PORT}
each=                            # ranks of a host
gpus=
again=
restarts=0
agree() {                        # agree OLD NEW: prints the common value
    [ -z "$1" ] || [ "${1#*=}" = "${2#*=}" ] || refuse "$1, but $2: they must be equal; leave out the wrong one"
    [ -n "${2#*=}" ] || refuse "$2: needs a value"
    echo "$2"
}
args=()
while [ $# -gt 0 ]; do
    flag=${1%%=*}
    case ${flag//_/-} in
    --nodes | --nnodes | --nproc-per-node | --node-rank | --master-addr | --master-port | \
        --gpu-ids | --restarts)
        if [ "$flag" = "$1" ]; then
            [ $# -gt 1 ] || refuse "$1 needs a value"
            set -- "$1=$2" "${@:3}"
        fi
        ;;&
    --nodes | --nnodes) nodes=$(agree "$nodes" "$1") || exit ;;
    --nproc-per-node) each=$(agree "$each" "$1") || exit ;;
    --node-rank) node=$(agree "$node" "$1") || exit ;;
    --master-addr) address=$(agree "$address" "$1") || exit ;;
    --master-port) port=$(agree "$port" "$1") || exit ;;
    --gpu-ids) gpus=$(agree "$gpus" "$1") || exit ;;
    --restarts)
        [[ ${1#*=} =~ ^(0|[1-9][0-9]{0,3})$ ]] || refuse "$1: must be a number, how often the run may restart"
        again=$(agree "$again" "$1") || exit
        restarts=${1#*=}
        ;;
    --hosts) refuse "--hosts is for CPU programs; here: $0 --nodes 2 --node-rank 0 --master-addr" \
        "node1 on node1, --node-rank 1 on the other" ;;
    -h | --help)                 # the lines at the head of this file first
        sed -n 's/^#   //p' "$0"
        echo
        exec "$here/train" ${args[@]+"${args[@]}"} "$@"
        ;;
    --version | --where | --plot) exec "$here/train" ${args[@]+"${args[@]}"} "$@" ;;
    *) args+=("$1") ;;
    esac
    shift
done
kind=gpu
#@ engines
#@ preflight

# The file of gen config: lines KEY=VALUE, which are read and never run.
file=${DIECAST_CONFIG:-${XDG_CONFIG_HOME:-${HOME:-}/.config}/diecast/machine}
[ -z "${DIECAST_CONFIG:-}" ] || [ -r "$file" ] || refuse "DIECAST_CONFIG=$file: cannot be read"
declare -A said=()
while [ -r "$file" ] && { IFS= read -r line || [ -n "$line" ]; }; do
    [[ -n $line && $line != "#"* ]] || continue
    [[ $line =~ ^(NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|GPU_IDS)=([A-Za-z0-9._:,-]+)$ ]] ||
        refuse "$file: must have lines NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT or GPU_IDS=VALUE, got ${line@Q}"
    [ -z "${said[${BASH_REMATCH[1]}]:-}" ] || refuse "$file: ${BASH_REMATCH[1]} is set twice"
    said[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
done < <(cat "$file" 2>/dev/null)
taken=
take() {                         # take KEY VALUE: sets $value, from the file if VALUE is empty
    value=$2
    [ -z "$2" ] && [ -n "${said[$1]:-}" ] || return 0
    value=$1=${said[$1]}
    taken+=" $value"
}
take NNODES "$nodes"
nodes=$value
count=${nodes#*=}
if [ -z "$nodes" ] && [ "$NODES" != 1 ]; then
    nodes="cluster $CLUSTER, nodes=$NODES"
    count=$NODES
fi
count=${count:-1}
if [ "$count" = 1 ]; then        # nobody else needs to find rank 0
    [[ $address != PET_* ]] || address=
    [[ $port != PET_* ]] || port=
else
    [ -z "$address" ] && [ -n "$listed" ] && [ -z "${DIECAST_ADDR:-}" ] && address=$listed=$(first_of "${!listed}")
    take NODE_RANK "$node"
    node=$value
    take MASTER_ADDR "${DIECAST_ADDR:-$address}"
    [ -n "${DIECAST_ADDR:-}" ] || address=$value
    take MASTER_PORT "${DIECAST_PORT:-$port}"
    [ -n "${DIECAST_PORT:-}" ] || port=$value
fi
# The names of the cluster's nodes give the index of this node and the address of rank 0.
IFS=, read -ra names <<<"$HOSTS"
if [ "$count" = "${#names[@]}" ] && [ "$count" != 1 ]; then
    for i in "${!names[@]}"; do
        case ${names[i]} in
        "$(hostname)" | "$(hostname -s)" | "$(hostname -f 2>/dev/null)") node=${node:-cluster.hosts=$i} ;;
        esac
    done
    [ -n "${DIECAST_ADDR:-}" ] || address=${address:-cluster.hosts=${names[0]}}
fi
number=${node#*=}
[[ $count =~ ^[1-9][0-9]{0,4}$ ]] || refuse "$nodes: must be a number of hosts"
[[ $number =~ ^(0|[1-9][0-9]{0,4})?$ ]] || refuse "$node: must be 0 to $((count - 1))"
[[ ${port#*=} =~ ^([1-9][0-9]{0,4})?$ ]] || refuse "$port: must be a port"
[ $((RANKS % count)) = 0 ] || refuse "$nodes: the $RANKS ranks of this program cannot be divided evenly" \
    "among $count machines; other numbers: gen $RECIPE gpus=TOTAL"
[ -z "$each" ] || [ "${each#*=}" = $((RANKS / count)) ] ||
    refuse "$each: this is built for $RANKS in all, so $((RANKS / count)) on each of $count;" \
        "other numbers: gen $RECIPE gpus=TOTAL"
[ "${number:-0}" -lt "$count" ] ||
    refuse "$node: must be 0 to $((count - 1)), as ${nodes:-no --nodes is given}"
if [ "$count" != 1 ]; then
    [ -n "$number" ] || refuse "$nodes needs --node-rank: 0 on the first host, 1 on the next"
    [ -n "$address" ] || [ -n "${DIECAST_ADDR:-}" ] ||
        refuse "$nodes needs --master-addr: the host of node 0"
fi
# These two override MASTER_ADDR and MASTER_PORT, but must not contradict a flag.
[[ -z ${DIECAST_ADDR:-} || $address != --* || $address = *="$DIECAST_ADDR" ]] ||
    refuse "DIECAST_ADDR=$DIECAST_ADDR, but $address"
[[ -z ${DIECAST_PORT:-} || $port != --* || $port = *="$DIECAST_PORT" ]] ||
    refuse "DIECAST_PORT=$DIECAST_PORT, but $port"
address=${DIECAST_ADDR:-${address#*=}}
port=${DIECAST_PORT:-${port#*=}}
# A launcher may start this file only once per host.
for row in "${launchers[@]}"; do
    read -r size _ _ local <<<"$row"
    of "$local"
    [ "${!size:-1}" = 1 ] || { [ "${!size}" = "$count" ] && [ "$size" != WORLD_SIZE ] && [ "${value:-1}" = 1 ]; } ||
        refuse "$size=${!size}: a launcher started this file, which starts all ranks of a host" \
            "itself; let it start $here/train, or unset $size"
done

export DIECAST_NODES=$count      # for flags that count what one host has, --num-gpus
local=$((RANKS / count))
[[ ${room#*=} =~ ^(0|[1-9][0-9]{0,4})?$ ]] || refuse "$room: must be a number of GPUs"
[ -z "$room" ] || [ "$local" -le "${room#*=}" ] || refuse "$room: too few, $local ranks of this program run" \
    "on each of $count hosts; other numbers: gen $RECIPE gpus=TOTAL"
# GPUs: from a flag or the environment, exactly as many as ranks; from the file, the first ones.
visible=${CUDA_VISIBLE_DEVICES:+CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES}
[ -z "$gpus" ] || [ -z "$visible" ] || [ "${gpus#*=}" = "$CUDA_VISIBLE_DEVICES" ] || refuse "$visible, but $gpus"
from=$gpus
if [ -z "$visible" ]; then
    take GPU_IDS "$gpus"
    from=$value
fi
if [ -n "$from" ]; then
    [[ ${from#*=} =~ ^(0|[1-9][0-9]{0,3})(,(0|[1-9][0-9]{0,3}))*$ ]] || refuse "$from: must be GPU numbers such as 0,1"
    IFS=, read -ra ids <<<"${from#*=}"
    twice=$(printf '%s\n' "${ids[@]}" | sort | uniq -d | head -1)
    [ -z "$twice" ] || refuse "$from: GPU $twice is named twice"
    [ ${#ids[@]} -ge "$local" ] && [ -z "$gpus" ] || [ ${#ids[@]} = "$local" ] ||
        refuse "$from: ${#ids[@]} of them, but $local ranks of this program run on this host;" \
            "other numbers: gen $RECIPE gpus=TOTAL"
    CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${ids[*]:0:local}")
    export CUDA_VISIBLE_DEVICES
fi
[ -z "$taken" ] || echo "$NAME:$taken, from $file" >&2
[ "$restarts" = 0 ] || [ "$count" = 1 ] ||
    refuse "--restarts=$restarts is for one machine; on several, torchrun --max-restarts or Slurm restarts all ranks"
share=$(($(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) / local))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${THREADS:-$((share > 0 ? share : 1))}}
if [ "$RANKS" = 1 ] && [ "$restarts" = 0 ]; then
    exec "$here/train" ${args[@]+"${args[@]}"}
fi

# Descriptors: connections to all ranks, and those of CUDA and NCCL.
files=$((256 + 16 * local))
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge $files ] || ulimit -Sn $files 2>/dev/null ||
    refuse "$local ranks need $files open files, $(ulimit -n) are allowed: ulimit -n 4096"
[ "$(ulimit -s)" = unlimited ] || [ "$(ulimit -s)" -ge 1024 ] || ulimit -Ss 8192 2>/dev/null ||
    refuse "stacks are limited to $(ulimit -s) KiB, which is too little: ulimit -s 8192"

out=$("$here/train" --where --verbose ${args[@]+"${args[@]}"}) || exit
trains=$(sed -n '2{/^trains$/p}' <<<"$out")
out=${out%%$'\n'*}
elsewhere=
[ "${number:-0}" = 0 ] || trains=      # rank 0, which writes DONE, is on another host
# On one host nobody else needs to know where the ranks meet: a free port and a new secret, at each start.
given=$port
secret=${DIECAST_SECRET:-}
meet() {
    port=${given:-29500}
    if [ "$count" = 1 ]; then
        address=${address:-127.0.0.1}
        port=$given
        while [ -z "$port" ]; do
            port=$((10000 + RANDOM % 20000))
            (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && port=
        done
        export DIECAST_SECRET=${secret:-$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')}
    fi
    export WORLD_SIZE=$RANKS LOCAL_WORLD_SIZE=$local MASTER_ADDR=$address MASTER_PORT=$port
}
# The run has the same name on all hosts, whichever launcher started this file there.
export DIECAST_RUN=${DIECAST_RUN:-run.sh}
unset TORCHELASTIC_USE_AGENT_STORE GROUP_RANK NNODES NODE_RANK
for row in "${launchers[@]}"; do                 # these started this file, not the ranks
    read -r size rank rank_too _ <<<"$row"
    unset "$size" "$rank"
    [ "$rank_too" = - ] || unset "$rank_too"
done

# If this process is killed, its ranks stop in an orderly way.
tied=()
if setpriv --pdeathsig TERM true 2>/dev/null; then tied=(setpriv --pdeathsig TERM); fi

pids=()
ask() {                          # ask SIGNAL: all ranks that still run
    for pid in ${pids[@]+"${pids[@]}"}; do
        [ -z "$pid" ] || kill -s "$1" "$pid" 2>/dev/null
    done
}
asked_to_stop=
passed=                          # the last signal and when, in microseconds
passed_at=0
pass() {                         # pass SIGNAL on; not the same at once again, as timeout sends it
    local now=${EPOCHREALTIME/[.,]/}
    asked_to_stop=yes
    if [ "$passed" != "$1" ] || [ $((now - passed_at)) -gt 500000 ]; then ask "$1"; fi
    passed=$1
    passed_at=$now
}
for signal in TERM INT USR1; do
    # shellcheck disable=SC2064      # the name of now
    trap "pass $signal" "$signal"
done

ours() { [ "$1" -ge 80 ] && [ "$1" -le 94 ]; }
start() {                        # all ranks, until they have ended: $code
    meet
    # Standard input reaches rank 0 through cat: a process group of its own may not read the terminal.
    reader=
    exec 3<&0
    case " ${args[*]-} " in
    *" --chat "* | *" - "* | *"=- "*)
        exec 3< <(exec cat)
        reader=$!
        ;;
    esac

    # Process groups of their own: a Ctrl-C or a kill of the group reaches them once, through ask.
    set -m
    for ((i = 0; i < local; i++)); do
        RANK=$((${number:-0} * local + i)) LOCAL_RANK=$i \
            ${tied[@]+"${tied[@]}"} "$here/train" ${args[@]+"${args[@]}"} <&3 3<&- &
        pids[i]=$!
    done
    set +m
    exec 3<&-

    # Ranks end together: each is notified when another fails. Ranks that do not end are killed.
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
                ended "${pids[i]}"
                pids[i]=
                left=$((left - 1))
                if [ $code != 0 ] && [ "$first" = 0 ]; then
                    first=$code
                    failed_at=$SECONDS
                elif ours $code && ! ours "$first"; then
                    first=$code      # if a rank was killed, the others know more
                fi
            fi
        done
        if [ "$first" != 0 ] && [ $((SECONDS - failed_at)) -ge $give_seconds ]; then
            ask KILL
        elif [ "$first" != 0 ] && [ "$first" != 91 ] && [ $((SECONDS - failed_at)) -ge 15 ]; then
            ask TERM
        fi
    done
    [ -z "$reader" ] || kill "$reader" 2>/dev/null
    code=$first
}
ask_fault() { false; }           # the ranks' own codes are known

#@ restarts
