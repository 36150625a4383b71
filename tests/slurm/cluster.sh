# shellcheck shell=bash
# cluster.sh -- a Slurm of our own: munged, slurmctld and a slurmd a node, each node with a name, an address, processes
# and memory of its own. To be sourced in fresh namespaces of mounts, network, names and processes (run.sh makes them),
# which take all of it along when they end. $T: a folder of its own with a short path.
export SLURM_CONF=$T/slurm.conf
node_pid=()

# until_true SECONDS COMMAND...: tries it until it succeeds; against hangs only
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

# up NODE...: are these nodes free
up() {
    local n
    for n; do [ "$(sinfo -h -n "$n" -o %t 2>/dev/null)" = idle ] || return 1; done
}

# node_start N: nodeN at 10.0.0.N, a machine as far as its processes can see
node_start() {
    local n=$1 fifo=$T/plugged.$1
    rm -f "$fifo"
    mkfifo "$fifo"
    unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c '
        hostname "node$1"
        read -r _ <"$3"
        ip link set lo up && ip addr add "10.0.0.$1/24" dev eth0 && ip link set eth0 up || exit
        mount -t tmpfs none /dev/shm
        export TMPDIR=$2/tmp.node$1
        # as a node without disks that was switched on: what steps left here keeps slurmd from starting them again
        rm -rf "$TMPDIR" "$2/spool.node$1" && mkdir "$TMPDIR"
        slurmd -D -N "node$1" &
        echo $! >"$2/slurmd.$1"
        wait $!
        while :; do sleep 3600 & wait $!; done' - "$n" "$T" "$fifo" >"$T/log/node$n.out" 2>&1 &
    node_pid[n]=$!
    until_true 60 pgrep -P "${node_pid[n]}" >/dev/null || return
    ip link add "to$n" type veth peer name eth0 netns "$(pgrep -P "${node_pid[n]}")" &&
        ip link set "to$n" master switch && ip link set "to$n" up || return
    echo >"$fifo"
}

# on N COMMAND...: with the files of nodeN
on() { nsenter -m -t "$(pgrep -P "${node_pid[$1]}")" "${@:2}"; }

# node_lose N: as if its power were cut; nobody hears of it
node_lose() {
    ip link del "to$1"
    kill -9 "${node_pid[$1]}"
    wait "${node_pid[$1]}" 2>/dev/null
}

# cluster NODES
cluster() {
    local n all=
    mkdir -p "$T"/{state,log}
    chmod 755 "$T"
    hostname control
    ip link set lo up && ip link add switch type bridge && ip addr add 10.0.0.254/24 dev switch &&
        ip link set switch up || return
    {
        echo 127.0.0.1 localhost
        echo 10.0.0.254 control
        for n in $(seq "$1"); do echo "10.0.0.$n node$n"; done
    } >"$T/hosts"
    mount --bind "$T/hosts" /etc/hosts || return
    (umask 077 && head -c 1024 /dev/urandom >"$T/key")
    # cred_expire: how long a job that goes back into the queue waits at least; 120 s without it
    cat >"$SLURM_CONF" <<END
ClusterName=diecast
SlurmctldHost=control
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$T/munge.socket,cred_expire=5
StateSaveLocation=$T/state
SlurmdSpoolDir=$T/spool.%n
TmpFS=$T/tmp.%n
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd.%n.pid
SlurmctldLogFile=$T/log/slurmctld
SlurmdLogFile=$T/log/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=60
SlurmdTimeout=10
MailProg=/bin/true
GresTypes=gpu
NodeName=node[1-$1] CPUs=64 RealMemory=1 Gres=gpu:8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    for n in {0..7}; do mknod "$T/gpu$n" c 1 3; done
    echo "Name=gpu File=$T/gpu[0-7]" >"$T/gres.conf"
    munged --force --key-file="$T/key" --socket="$T/munge.socket" --pid-file="$T/munged.pid" \
        --log-file="$T/log/munged" --seed-file="$T/munge.seed" --num-threads=2 || return
    slurmctld || return
    for n in $(seq "$1"); do
        node_start "$n" || return
        all+=" node$n"
    done
    # shellcheck disable=SC2086
    until_true 60 up $all
}
