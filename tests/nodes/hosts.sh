# shellcheck shell=bash
# hosts.sh -- two hosts on one machine, for the scripts next to it: network namespaces, each with its own name, address,
# /etc/hosts and folder of moments, joined by a switch in a third one. Nothing outside of them changes; a trap takes
# them away with all that runs in them.
#
# Hosts are 0 and 1, node0 and node1, 10.77.0.1 and 10.77.0.2; several pairs stand side by side, each with its switch.
source "$(dirname "${BASH_SOURCE[0]}")/../train/lib.sh"
unset NNODES NODE_RANK MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MPIRUN MPIRUN_FLAGS
# shellcheck disable=SC2086      # names
unset ${!DIECAST_*}
case=gpt2_tiny
program=gpt2_tiny.4x1x2          # four ranks, two on each host
binary=$PWD/$work/$program
base=dc$$                        # namespaces are $base.PAIR.0, .1 and .s, the switch
export SCRATCH=$scratch BASE=$base PAIR= PROGRAM=$binary/train

spaces() { ip netns list | grep -o "^$base\.[^ ]*"; }
clear() {
    local space
    for space in $(spaces); do ip netns pids "$space" | xargs -r kill -9; done 2>/dev/null
    for space in $(spaces); do ip netns del "$space"; done
    rm -rf "$scratch"
}
trap clear EXIT
trap 'exit 130' INT TERM HUP

said=$(ip netns add $base.try 2>&1 && ip -n $base.try link add x type veth peer name y 2>&1 &&
    ip netns exec $base.try iptables -A INPUT -p tcp --dport 1 -j REJECT 2>&1) ||
    { verdict "two hosts" "wants root, network namespaces and gen/deps.sh nodes: $said"; exit 1; }
ip netns del $base.try

# on HOST COMMAND...: as if it were typed there; $! of `"$on" 0 x &` is x itself. Where there is
# $scratch/train.PAIR.HOST, it stands in the program's place.
on=$scratch/on
cat >"$on" <<'END'
#!/bin/bash
export TMPDIR=$SCRATCH/tmp.$PAIR.$1
mkdir -p "$TMPDIR"
exec ip netns exec "$BASE.$PAIR.$1" unshare --uts --mount bash -c \
    'hostname "$0" && mount --bind "$SCRATCH/hosts" /etc/hosts &&
    { [ ! -e "$1" ] || mount --bind "$1" "$2"; } && exec "${@:3}"' \
    "node$1" "$SCRATCH/train.$PAIR.$1" "$PROGRAM" "${@:2}"
END
# what stands for ssh: of the caller's variables none but those of a login; its end ends nothing there
agent=$scratch/agent
cat >"$agent" <<'END'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
env -i PATH="$PATH" HOME="$HOME" SCRATCH="$SCRATCH" BASE="$BASE" PAIR="$PAIR" PROGRAM="$PROGRAM" \
    setsid "$SCRATCH/on" "${1#node}" sh -c "${*:2}" &
wait $!
END
chmod +x "$on" "$agent"
printf '127.0.0.1 localhost\n10.77.0.1 node0\n10.77.0.2 node1\n' >"$scratch/hosts"

# pair NAME: two hosts and their switch, which `on` then means
pair() {
    local host
    PAIR=$1
    ip netns add "$base.$1.s"
    ip -n "$base.$1.s" link add switch type bridge
    ip -n "$base.$1.s" link set switch up
    for host in 0 1; do
        ip netns add "$base.$1.$host"
        ip -n "$base.$1.$host" link set lo up
        ip -n "$base.$1.s" link add "port$host" type veth peer name eth0 netns "$base.$1.$host"
        ip -n "$base.$1.s" link set "port$host" master switch up
        ip -n "$base.$1.$host" addr add "10.77.0.$((host + 1))/24" dev eth0
        ip -n "$base.$1.$host" link set eth0 up
    done
}
port() { ip -n "$base.$PAIR.s" link set "port$1" "$2"; }       # HOST up|down: of the switch, which the host sees
rule() { ip netns exec "$base.$PAIR.$1" iptables -w "${@:2}"; }                          # HOST ARGS...: of iptables
processes() { ip netns pids "$base.$PAIR.$1"; }                # HOST: their ids
# waits COMMAND...: until it succeeds, a minute at most
waits() {
    local i
    for ((i = 0; i < 1200; i++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}
idle() { [ -z "$(processes "$1")" ]; }
# gone HOST: until nothing runs there, a minute at most; prints what does
gone() { waits idle "$1" || processes "$1" | xargs -r ps -o pid=,args= -p; }
now() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

# The run: a tiny model, its data; both hosts see the run folders.
ours=(--data "$PWD/$ref/$case/tokens.safetensors" --eval-data "$PWD/$ref/$case/eval.safetensors"
    --init-from "$PWD/$ref/$case/model" --log-every 1)
ssh="--mca plm_rsh_agent $agent --display-map"
# begin RUN ARGS...: run.sh as it is typed for two hosts: for the CPU on the first, for GPUs on both; what it says goes
# to $scratch/RUN.0 and .1. For GPUs ADDRESS is what the second calls rank 0 by.
begin() {
    local run=$1 host
    shift
    script=()
    rm -f "$scratch/$run".[01]
    if [ "$BACKEND" = cpu ]; then
        MPIRUN_FLAGS=$ssh "$on" 0 "$binary/run.sh" --nodes 2 --hosts node0,node1 "${ours[@]}" --out "$scratch/$run" "$@" \
            >"$scratch/$run.0" 2>&1 &
        script[0]=$!
        return
    fi
    for host in 0 1; do
        DIECAST_SECRET=shared "$on" "$host" "$binary/run.sh" --nodes 2 --node-rank "$host" \
            --master-addr "${ADDRESS:-node0}" "${ours[@]}" --out "$scratch/$run" "$@" >"$scratch/$run.$host" 2>&1 &
        script[host]=$!
    done
}
# end: waits for what began; its codes are in $codes
end() {
    local host
    codes=
    for host in "${!script[@]}"; do
        wait "${script[host]}"
        codes+=" $?"
    done
    codes=${codes# }
}
good=$([ "$BACKEND" = cpu ] && echo 0 || echo "0 0")       # codes of a good end
reached() { [ "$(losses "$scratch/$1" 2>/dev/null | wc -l)" -ge "$2" ]; }       # RUN STEP

programs <<END
$program gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
END
# straight RUN ARGS...: on one host alone
straight() {
    local run=$1
    shift
    "$binary/run.sh" "${ours[@]}" --out "$scratch/$run" "$@" >"$scratch/$run.log" 2>&1 ||
        verdict "$run trains" "exit $?: $(tail -n 2 "$scratch/$run.log")"
}
# trains NAME [CODES]: what began, a run called run of $steps steps, ended well on two hosts, with the bits of straight
trains() {
    end
    verdict "$BACKEND, $1: it trains" "$([ "$codes" = "${2:-$good}" ] ||
        echo "codes $codes: $(tail -qn 3 "$scratch"/run.[0-3])")"
    same "$BACKEND, $1" run straight $steps
    verdict "$BACKEND, $1: nothing is left" "$(gone 0; gone 1)"
    rm -rf "$scratch"/run "$scratch"/run.?
}
# scenarios NAME...: these functions side by side, each with a pair of hosts of its own and $BACKEND NAME as $name
scenarios() {
    local each pids=()
    for each; do
        while [ "$(jobs -rp | wc -l)" -ge 3 ]; do wait -n; done
        (
            name="$BACKEND $each"
            pair "$each"
            "$each"
            exit $failed
        ) >"$scratch/$each.said" 2>"$scratch/$each.errors" &
        pids+=($!)
    done
    for each in "${!pids[@]}"; do
        wait "${pids[each]}" || failed=1
    done
    for each; do cat "$scratch/$each.said"; done
}
