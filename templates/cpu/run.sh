#!/bin/bash
# Starts the processes that the program next to this file was built for, and passes on every
# argument except --nodes, --hosts and --restarts:
#
#   ./run.sh --help                             these lines, then every flag of the program
#   ./run.sh --nodes 2 --hosts node1,node2 ...  several machines: run it once, on one of them; it
#                                               reaches the others by ssh and needs this folder at
#                                               the same path there
#   ./run.sh --restarts 3 ...                   restarts up to 3 times when a rank dies or hangs
#   MPIRUN=mpirun.mpich ./run.sh ...            the launcher of another MPI (make MPICC=mpicc.mpich)
#   MPIRUN_FLAGS="--hostfile hosts" ./run.sh    flags for the launcher
#   OMP_NUM_THREADS=4 ./run.sh ...              threads of a process (default: its share of the cores)
#
# SIGTERM, SIGINT and SIGUSR1 to this process ask all ranks to save and stop; a second SIGTERM or
# SIGINT ends them. If the launcher hides why the ranks ended, the newest fault file of this start
# gives the reason. Only the values below come from the recipe and its cluster.
set -u
NAME=@NAME@
RECIPE=@RECIPE@
RANKS=@RANKS@
# Defaults from the recipe's cluster: its nodes and their names, threads of a process, the network
# interface between nodes.
CLUSTER=@CLUSTER@
NODES=@NODES@
HOSTS=@HOSTS@
THREADS=@THREADS@
INTERFACE=@INTERFACE@

here=$(cd "$(dirname "$0")" && pwd)
refuse() {
    echo "$NAME: $*" >&2
    exit 80
}
[ -x "$here/train" ] || refuse "$here/train is not built: run make in $here (source: gen $RECIPE)"

# Flags as FLAG=VALUE; a repeated one must have the same value, and --nodes must match NNODES.
nodes=${NNODES:+NNODES=$NNODES}
node=${NODE_RANK:+NODE_RANK=$NODE_RANK}
hosts=
each=                            # ranks of a machine
address=
port=
again=
here_alone=()                    # variables and flags of launchers that concern one machine only
restarts=0
agree() {                        # agree OLD NEW: prints the common value
    [ -z "$1" ] || [ "${1#*=}" = "${2#*=}" ] || refuse "$1, but $2: they must be equal; leave out the wrong one"
    [ -n "${2#*=}" ] || refuse "$2: needs a value"
    echo "$2"
}
args=()
once="a CPU program is started once, on one machine, for all: $0 --nodes 2 --hosts node1,node2"
while [ $# -gt 0 ]; do
    flag=${1%%=*}
    case ${flag//_/-} in
    --nodes | --nnodes | --nproc-per-node | --hosts | --node-rank | --master-addr | --master-port | \
        --gpu-ids | --restarts)
        if [ "$flag" = "$1" ]; then
            [ $# -gt 1 ] || refuse "$1 needs a value"
            set -- "$1=$2" "${@:3}"
        fi
        ;;&
    --nodes | --nnodes) nodes=$(agree "$nodes" "$1") || exit ;;
    --nproc-per-node) each=$(agree "$each" "$1") || exit ;;
    --hosts)
        [ -z "$hosts" ] || agree "--hosts=$hosts" "$1" >/dev/null
        hosts=${1#*=}
        [[ $hosts =~ ^[A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*$ ]] ||
            refuse "$1: must be names such as node1,node2"
        ;;
    --node-rank | --master-addr) here_alone+=("$1") ;;
    --master-port)
        [[ ${1#*=} =~ ^[1-9][0-9]{0,4}$ ]] || refuse "$1: must be a port"
        port=$(agree "$port" "$1") || exit
        export DIECAST_PORT=${1#*=}
        ;;
    --gpu-ids) refuse "$1: this program runs on CPUs; gen $RECIPE target=sm_80 makes one for GPUs" ;;
    --restarts)
        [[ ${1#*=} =~ ^(0|[1-9][0-9]{0,3})$ ]] || refuse "$1: must be a number, how often the run may restart"
        again=$(agree "$again" "$1") || exit
        restarts=${1#*=}
        ;;
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
kind=cpu
#@ engines
#@ preflight
if [ -z "$nodes$hosts" ] && [ "$NODES" != 1 ]; then
    nodes="cluster $CLUSTER, nodes=$NODES"
    hosts=$HOSTS
    [ -n "$hosts" ] || refuse "cluster $CLUSTER has $NODES nodes: --hosts names them, --nodes 1 is for" \
        "this machine alone"
fi
IFS=, read -ra names <<<"$hosts"
count=${nodes#*=}
count=${count:-${#names[@]}}
[ "$nodes$hosts" ] || count=1
[[ $count =~ ^[1-9][0-9]{0,4}$ ]] || refuse "$nodes: must be a number of machines"
[ $((RANKS % count)) = 0 ] || refuse "${nodes:---hosts=$hosts}: the $RANKS ranks of this program cannot be" \
    "divided evenly among $count machines; other numbers: gen $RECIPE gpus=TOTAL"
[ -z "$each" ] || [ "${each#*=}" = $((RANKS / count)) ] ||
    refuse "$each: this is built for $RANKS in all, so $((RANKS / count)) on each of $count;" \
        "other numbers: gen $RECIPE gpus=TOTAL"
if [ -n "$hosts" ]; then
    [ ${#names[@]} = "$count" ] || refuse "$nodes, but --hosts=$hosts names ${#names[@]}"
    [ -z "$(printf '%s\n' "${names[@]}" | sort | uniq -d)" ] ||
        refuse "--hosts=$hosts: a host is named twice"
    # Rank 0 is on the first. Open MPI begins with the machine of the launcher, wherever the list has it.
    for name in "${names[@]}"; do
        case $name in
        "$(hostname)" | "$(hostname -s)" | "$(hostname -s)".*) ;;
        *) [[ " $(hostname -I 2>/dev/null) " = *" $name "* ]] || continue ;;
        esac
        hosts=,$hosts,
        hosts=$name${hosts/",$name,"/,}
        hosts=${hosts%,}
        break
    done
    export MASTER_ADDR=${MASTER_ADDR:-${hosts%%,*}}
elif [ "$count" != 1 ]; then
    refuse "$nodes: $once"
elif [ -z "$nodes" ]; then
    case ${MASTER_ADDR:-localhost} in
    localhost | 127.* | ::1 | "$HOSTNAME") ;;
    *) refuse "MASTER_ADDR=$MASTER_ADDR: $once (NNODES=1 for this machine alone)" ;;
    esac
fi
case ${node#*=} in
'' | 0) ;;
*) refuse "$node: $once" ;;
esac
for said in ${here_alone[@]+"${here_alone[@]}"}; do
    case $count$hosts:${said#*=} in
    1:0 | 1:localhost | 1:127.* | 1:::1 | "1:$HOSTNAME") ;;
    *) refuse "$said: $once" ;;
    esac
done
export DIECAST_NODES=$count      # for flags that count what one machine has, --num-gpus
for row in "${launchers[@]}"; do
    size=${row%% *}
    [ "${!size:-1}" = 1 ] || refuse "$size=${!size}: a launcher started this file, which starts" \
        "all $RANKS ranks itself; let mpirun or srun start $here/train, or unset $size"
done

threads_available=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
local=$((RANKS / count))
share=$((threads_available / local))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${THREADS:-$((share > 0 ? share : 1))}}
# Threads that wait for each other sleep soon. Measured on two cores: 2 % slower when nobody else
# uses them, four times as fast when others do.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}

alone=
[ "$RANKS" != 1 ] || [ -n "$hosts" ] || alone=yes
if [ -n "$alone" ] && [ "$restarts" = 0 ]; then
    exec "$here/train" ${args[@]+"${args[@]}"}
fi

# Connections to all ranks: with fewer descriptors Open MPI's launcher hangs (measured: 2 ranks need 40, 4 need 48).
files=$((64 + 16 * local))
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge $files ] || ulimit -Sn $files 2>/dev/null ||
    refuse "$local ranks need $files open files, $(ulimit -n) are allowed: ulimit -n 4096"
[ "$(ulimit -s)" = unlimited ] || [ "$(ulimit -s)" -ge 1024 ] || ulimit -Ss 8192 2>/dev/null ||
    refuse "stacks are limited to $(ulimit -s) KiB, which is too little: ulimit -s 8192"

mpirun=${MPIRUN:-$(command -v mpirun.openmpi || echo mpirun)}
version=
[ -n "$alone" ] || version=$("$mpirun" --version 2>&1) ||
    refuse "$mpirun does not run; the MPI that the program was built with is needed"
out=$("$here/train" --where --verbose ${args[@]+"${args[@]}"}) || exit
trains=$(sed -n '2{/^trains$/p}' <<<"$out")
out=${out%%$'\n'*}
# The run folder of the other machines may not exist here.
elsewhere=$hosts
[ -z "$hosts" ] || [ -d "$out" ] || trains=
# Ranks write into pipes of the launcher, which passes them on to this terminal.
unset DIECAST_TERMINAL
if [ -t 2 ]; then
    read -r _ DIECAST_TERMINAL < <(stty size <&2 2>/dev/null)
    export DIECAST_TERMINAL=${DIECAST_TERMINAL:-80}
fi

# Names this start in the fault files of its ranks; start() gives each restart its own.
export DIECAST_START=
# A folder of this start in PLACE; its path in $made, "" where none can be made. A lock on the folder (flock), which the
# launcher inherits, says that it is in use, also to other containers: a folder that nobody has locked was left by a
# start that was killed with its launcher, and goes.
trap 'rm -rf -- ${made_all[@]+"${made_all[@]}"}' EXIT
made_all=() locks=()
make_folder() {
    local old
    made=
    for old in "$1/diecast.$NAME".*; do
        # earlier versions lock none; they go by the process that is last in the name
        [[ ${old#"$1/diecast.$NAME."} == *.* ]] || ! kill -0 "${old##*.}" || continue
        [ -d "$old" ] && [ -O "$old" ] && [ ! -L "$old" ] && flock -n "$old" rm -rf -- "$old"
    done 2>/dev/null
    for _ in 1 2 3; do
        made=$1/diecast.$NAME.$RANDOM$RANDOM.$$
        mkdir -m 700 "$made" 2>/dev/null || continue
        made_all+=("$made")
        exec {held}<"$made"
        flock -s "$held" 2>/dev/null
        if [ "$made" -ef "/proc/$$/fd/$held" ]; then
            locks+=("$held")
            return
        fi                               # another start came in between
        exec {held}<&-
    done
    made=
}

flags=()
case $version in
*"Open MPI"* | *OpenRTE*)
    # Threads are placed by OpenMP: Open MPI would bind a whole rank to one core. Single copy is the
    # slower way to move gradients on one machine. When a rank dies the others have three seconds to say what
    # they know of it before they are killed; by default one, which a busy machine may not give them.
    flags+=(--bind-to none --mca btl_vader_single_copy_mechanism none --mca odls_base_sigkill_timeout 3)
    [ "$(id -u)" = 0 ] && flags+=(--allow-run-as-root)
    if [ -n "$hosts" ]; then
        flags+=(--map-by slot --host "${hosts//,/:$local,}:$local")
        [ -z "$INTERFACE" ] || flags+=(--mca btl_tcp_if_include "$INTERFACE" --mca oob_tcp_if_include "$INTERFACE")
        [ "$restarts" = 0 ] || export TORCHELASTIC_RESTART_COUNT=0
        for name in OMP_NUM_THREADS GOMP_SPINCOUNT MASTER_ADDR $(compgen -e DIECAST_) \
            $(compgen -e TORCHELASTIC_RESTART); do
            flags+=(-x "$name")
        done
    elif [ -z "${MPIRUN_FLAGS:-}" ]; then
        cores=$(lscpu -p=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l)
        if [ "$RANKS" -gt "$threads_available" ]; then
            echo "note: $RANKS processes share $threads_available CPUs: correct, but slow" >&2
        fi
        [ "$RANKS" -gt "$cores" ] && flags+=(--oversubscribe)
        # Ranks of one machine talk by shared memory alone: with TCP they would listen on all its networks. The launcher
        # itself does: Open MPI 4 binds its port to every address, whatever its parameters say.
        case $version in
        *" "[1-4].*) shared=vader ;;
        *) shared=sm ;;
        esac
        export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,$shared}
        make_folder /dev/shm
        [ -z "$made" ] || flags+=(--mca "btl_${shared}_backing_directory" "$made")
        # The launcher's own files, 9 MB, under the name that each of its versions has for their place.
        tmp=${TMPDIR:-/tmp}
        make_folder "$tmp"
        free=$(df -Pk "${made:-$tmp}" 2>/dev/null | awk 'NR == 2 { print $4 }')
        if [ -z "$made" ] || [ "${free:-16384}" -lt 16384 ]; then
            echo "$NAME: ${TMPDIR:+TMPDIR=}$tmp: ${made:+only $free KiB are free, }the launcher cannot write its" \
                "files there: make room (df -h), or set TMPDIR to a folder with 16 MiB" >&2
            exit 90
        fi
        export OMPI_MCA_orte_tmpdir_base=$made PRTE_MCA_prte_tmpdir_base=$made
    fi
    ;;
?*)
    if [ -n "$hosts" ]; then
        flags+=(-hosts "$hosts" -ppn "$local")
    elif [ -z "${MPIRUN_FLAGS:-}" ]; then
        # As above, for the ranks of either kind of MPICH (UCX, libfabric).
        export UCX_NET_DEVICES=${UCX_NET_DEVICES:-lo} FI_TCP_IFACE=${FI_TCP_IFACE:-lo}
    fi
    ;;
esac

# The newest fault file of this start; nothing when there is none.
fault() {
    find "$out" -maxdepth 1 -type f -name 'fault.*.json' -exec grep -qF "\"start\": \"$DIECAST_START\"" {} \; \
        -printf '%T@ %p\n' 2>/dev/null | sort -n | sed -n '$s/^[^ ]* //p'
}
# Why the ranks ended, in $code, if the launcher hides it: from that file.
ask_fault() {
    local file said
    file=$(fault)
    said=$(sed -n 's/.*"code":[[:space:]]*\([0-9]*\).*/\1/p' "${file:-/dev/null}" 2>/dev/null)
    ours "${said:-0}" || return
    echo "$NAME: $name returned $code; $file says $said" >&2
    code=$said
}

# The launcher passes SIGUSR1 on and waits; on SIGTERM it kills the ranks three seconds later.
pid=
exec {requests}<> <(:)           # a line for watch() when the ranks are asked to stop
asked_to_stop=
stop=                            # the ranks are asked to stop
hard_at=0                        # SIGTERM or SIGINT came, in microseconds
ask() {                          # ask HARD: to stop; when HARD comes again, at once
    local now=${EPOCHREALTIME/[.,]/}
    asked_to_stop=yes
    if [ -z "$stop" ]; then
        stop=yes
        [ -z "$pid" ] || kill -s USR1 "$pid" 2>/dev/null
        echo >&"$requests"
    elif [ -n "$1" ] && [ -n "$pid" ] && [ $hard_at != 0 ] && [ $((now - hard_at)) -gt 500000 ]; then
        kill -s TERM "$pid" 2>/dev/null      # not the same at once again, as timeout sends it
    fi
    [ -z "$1" ] || hard_at=$now
}
trap 'ask hard' TERM INT
trap 'ask ""' USR1
# If this process is killed, the ranks stop in an orderly way too.
tied=()
if setpriv --pdeathsig USR1 true 2>/dev/null; then tied=(setpriv --pdeathsig USR1); fi

ours() { [ "$1" -ge 80 ] && [ "$1" -le 94 ]; }
command=("$here/train")
name=$here/train
# shellcheck disable=SC2206      # MPIRUN_FLAGS holds several words
if [ -z "$alone" ]; then
    command=("$mpirun" -n "$RANKS" ${flags[@]+"${flags[@]}"} ${MPIRUN_FLAGS:-} "$here/train")
    name=$mpirun
fi
nap() { read -rt "$1" -u "$requests" _ && asked=yes; }
# True if a descendant of PID... runs the program. A process that has ended has no command line; one that was just
# forked still has that of its parent.
has_rank() {
    local pid child file some words parent below=()
    for pid; do
        mapfile -d '' -t parent <"/proc/$pid/cmdline"
        for file in "/proc/$pid/task"/*/children; do
            read -ra some <"$file"           # no newline ends it
            for child in ${some[@]+"${some[@]}"}; do
                mapfile -d '' -t words <"/proc/$child/cmdline"
                [[ ${words[*]-} != *"$here/train"* || ${words[*]-} = "${parent[*]-}" ]] || return 0
                below+=("$child")
            done
        done
    done 2>/dev/null
    [ ${#below[@]} != 0 ] && has_rank "${below[@]}"
}
# Watches the launcher PID of the ranks of one machine. It ends one that has started none within two minutes, or within
# two seconds after a request to stop, be it before (ASKED) or later. It wakes one whose ranks have ended: Open MPI's
# sleeps up to six seconds then, which signals cut short, and passes on the last output of the ranks.
watch() {                        # watch PID ASKED
    local asked=$2 left=$((480 * $(awk -v s="${DIECAST_TIMEOUT_SCALE:-1}" 'BEGIN { print int(s + 0.999) }')))
    for held in ${locks[@]+"${locks[@]}"}; do exec {held}<&-; done
    [ -r "/proc/$1/task/$1/children" ] || return         # a kernel without this file
    until has_rank "$1"; do
        kill -0 "$1" 2>/dev/null || return
        [ -z "$(fault)" ] || break           # they were there between two looks
        [ -z "$asked" ] || [ $left -le 8 ] || left=8
        if [ $left = 0 ]; then
            echo "$NAME: $name has started no rank and is ended${asked:+, as asked}" >&2
            kill -s TERM "$1"
            nap 2
            kill -s KILL "$1" 2>/dev/null
            return
        fi
        left=$((left - 1))
        nap 0.25
    done
    while has_rank "$1"; do nap 0.5; done
    for _ in {1..100}; do
        kill -s CHLD "$1" || return
        nap 0.05
    done 2>/dev/null
}

start() {                        # all ranks, until they have ended: $code
    DIECAST_START=${HOSTNAME:-here}.$$.$EPOCHREALTIME
    # Standard input reaches rank 0 through cat: a process group of its own may not read the terminal.
    reader=
    case " ${args[*]-} " in
    *" --chat "* | *" - "* | *"=- "*)
        exec 3< <(exec cat)
        reader=$!
        ;;
    *) exec 3</dev/null ;;
    esac

    set -m                           # a group of its own: Ctrl-C reaches the launcher through ask alone
    ${tied[@]+"${tied[@]}"} "${command[@]}" ${args[@]+"${args[@]}"} <&3 3<&- &
    pid=$!
    # A launcher that has lost another machine waits for it long after the ranks, one of which reported the loss,
    # have ended. It is ended together with its ssh processes.
    watcher=
    if [ -z "$alone$hosts" ]; then
        watch "$pid" "$stop" 3<&- &
        watcher=$!
    elif [ -n "$hosts" ]; then
        {
            while kill -0 "$pid" && [ -z "$(fault)" ]; do sleep 1; done
            sleep 10
            read -ra started <"/proc/$pid/task/$pid/children"
            kill -s KILL ${started[@]+"${started[@]}"}
            sleep 2
            kill -s KILL "$pid"
        } >/dev/null 2>&1 3<&- &
        watcher=$!
    fi
    set +m
    exec 3<&-
    [ -z "$stop" ] || kill -s USR1 "$pid"
    ended "$pid"
    pid=
    [ -z "$watcher" ] || kill -- "-$watcher" 2>/dev/null
    [ -z "$reader" ] || kill "$reader" 2>/dev/null
    # check_finished decides about 0.
    ours "$code" || [ "$code" = 0 ] || ask_fault ||
        echo "$NAME: $name returned $code, and no rank left a fault file in $out: killed, out" \
            "of memory, or ended before the run began; the same command goes on from the newest checkpoint" >&2
}

#@ restarts
