#!/bin/bash
# run.sh: which GPUs, what the file of gen config and the cluster say of this machine, restarts. Around programs that
# show what they got. Called by run.sh.
set -u
. tests/runtime/launcher.sh
. tests/verdict.sh
verdict_prefix="machine: "
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset NNODES NODE_RANK MASTER_ADDR MASTER_PORT MPIRUN MPIRUN_FLAGS OMP_NUM_THREADS CUDA_VISIBLE_DEVICES DIECAST_ADDR \
    DIECAST_PORT DIECAST_SECRET XDG_CONFIG_HOME
export HOME=$scratch/home DIECAST_CONFIG=$scratch/machine OUT=$scratch/out
mkdir -p "$HOME" "$OUT"

# folder BACKEND RANKS [HOSTS]: $x, with run.sh and the program of standard input
folder() {
    x=$scratch/$1.$2
    mkdir -p "$x"
    run_sh "$1" prog "$2" "$([ -z "${3:-}" ] && echo 1 || echo 2)" "${3:-}" mine >"$x/run.sh"
    cat >"$x/train"
    chmod +x "$x/run.sh" "$x/train"
}
# ends NAME CODE PATTERN [NAME=VALUE...] -- ARGS...: pattern of a line of what run.sh says
ends() {
    local name=$1 want=$2 pattern=$3 set=() code
    shift 3
    while [ "$1" != -- ]; do set+=("$1") && shift; done
    shift
    env ${set[@]+"${set[@]}"} timeout -k 5 200 "$x/run.sh" "$@" >"$scratch/c" 2>&1
    code=$?
    [ $code = "$want" ] && grep -qE -- "$pattern" "$scratch/c"
    verdict_of "$name" $? "code $code: $(head -4 "$scratch/c" | paste -sd'|')"
}
refuses() {             # refuses PATTERN [NAME=VALUE...] -- ARGS...: one line, and no rank
    ends "${x##*/}: ${*:2}" 80 "^prog: .*$1" "${@:2}"
    [ "$(grep -c '^rank' "$scratch/c")" = 0 ] && [ "$(wc -l <"$scratch/c")" = 1 ]
    verdict_of "${x##*/}: ${*:2}: one line, no ranks" $? "$(head -4 "$scratch/c")"
}
show='#!/bin/bash
[[ " $* " != *" --where "* ]] || { echo "$OUT"; exit; }
echo "rank ${RANK:-none} of ${WORLD_SIZE:-1} at ${MASTER_ADDR:-none} ${MASTER_PORT:-none} gpus ${CUDA_VISIBLE_DEVICES:-all} args $*"'

# ---- which GPUs
folder cuda 2 <<<"$show"
: >"$DIECAST_CONFIG"
ends "--gpu-ids" 0 "^rank 1 of 2 .* gpus 3,1 args --lr 1$" -- --gpu-ids 3,1 --lr 1
ends "--gpu_ids=, and the same in the environment" 0 " gpus 0,1 args $" CUDA_VISIBLE_DEVICES=0,1 -- --gpu_ids=0,1
refuses "CUDA_VISIBLE_DEVICES=4,5, but --gpu-ids=0,1" CUDA_VISIBLE_DEVICES=4,5 -- --gpu-ids 0,1
refuses "--gpu-ids=0,1, but --gpu-ids=1,0" -- --gpu-ids=0,1 --gpu-ids=1,0
refuses "--gpu-ids=0: 1 of them, but 2 ranks .* gen recipes/x.lua gpus=TOTAL" -- --gpu-ids 0
refuses "--gpu-ids=0,1,2: 3 of them, but 2 ranks" -- --gpu-ids 0,1,2
refuses "--gpu-ids=1,1: GPU 1 is named twice" -- --gpu-ids 1,1
for bad in all 0, ,1 -1,0 0x1,2 00,1 "0 1"; do
    refuses "must be GPU numbers such as 0,1" -- "--gpu-ids=$bad"
done
refuses "needs a value" -- --gpu-ids
refuses "needs a value" -- --gpu-ids=
folder cuda 1 <<<"$show"
ends "--gpu-ids of one rank" 0 "^rank none .* gpus 5 " -- --gpu-ids 5
folder cpu 1 <<<"$show"
refuses "--gpu-ids=0: this program runs on CPUs; gen recipes/x.lua target=sm_80" -- --gpu-ids 0

# ---- the file of gen config: flags, then the environment, then the file
folder cuda 4 <<<"$show"
said() { printf '%s\n' "$@" >"$DIECAST_CONFIG"; }
said "# this machine" NNODES=2 NODE_RANK=1 MASTER_ADDR=h0 MASTER_PORT=29511 GPU_IDS=2,3,5
ends "the file" 0 "^rank 3 of 4 at h0 29511 gpus 2,3 " --
line="^prog: NNODES=2 NODE_RANK=1 MASTER_ADDR=h0 MASTER_PORT=29511 GPU_IDS=2,3,5, from $DIECAST_CONFIG$"
[ "$(grep -cE "$line" "$scratch/c")" = 1 ]
verdict_of "says once what it took from where" $? "$(cat "$scratch/c")"
ends "flags go before the file" 0 "^rank 1 of 4 at h9 29511 gpus 0,1 " -- --node-rank 0 --master-addr h9 --gpu-ids 0,1
grep -qE "^prog: NNODES=2 MASTER_PORT=29511, from" "$scratch/c"
verdict_of "says only what it took" $? "$(cat "$scratch/c")"
ends "the environment goes before the file" 0 "^rank 0 of 4 at h7 29600 gpus 6,7 " NODE_RANK=0 DIECAST_ADDR=h7 \
    MASTER_PORT=29600 CUDA_VISIBLE_DEVICES=6,7 --
refuses "MASTER_ADDR=h8, but --master-addr=h9" MASTER_ADDR=h8 -- --master-addr h9
ends "one host takes its GPUs alone" 80 "GPU_IDS=2,3,5: 3 of them, but 4 ranks" -- --nodes 1
said GPU_IDS=7,6,5,4,3
ends "more GPUs than ranks: the first" 0 "^rank 3 of 4 at 127.0.0.1 [0-9]+ gpus 7,6,5,4 " --
ends "no file" 0 "^rank 0 .* gpus all " DIECAST_CONFIG= --
mkdir -p "$HOME/.config/diecast"
echo GPU_IDS=4,3,2,1 >"$HOME/.config/diecast/machine"
ends "the usual place" 0 "GPU_IDS=4,3,2,1, from $HOME/.config/diecast/machine" DIECAST_CONFIG= --
ends "XDG_CONFIG_HOME" 0 "gpus all" DIECAST_CONFIG= XDG_CONFIG_HOME="$scratch/none" --
rm "$HOME/.config/diecast/machine"
refuses "DIECAST_CONFIG=$scratch/absent: cannot be read" DIECAST_CONFIG="$scratch/absent" --
# read, never run
for bad in 'NODE_RANK=$(touch pwned)' 'X=1' 'export NNODES=2' 'NNODES=' 'MASTER_ADDR=a b' '`touch pwned`' 'NNODES 2'; do
    said "$bad"
    refuses "machine: must have lines NNODES, " --
done
said NNODES=2 NNODES=2
refuses "NNODES is set twice" --
said NNODES=3
refuses "NNODES=3: the 4 ranks of this program cannot be divided" --
[ -z "$(find . "$scratch" -maxdepth 2 -name pwned)" ]
verdict_of "nothing of the file is run" $? "pwned"
said NODE_RANK=1
folder cpu 1 <<<"$show"
ends "CPU programs have no use for it" 0 "^rank none" --

# ---- the cluster's nodes
: >"$DIECAST_CONFIG"
folder cuda 4 "first,$(hostname)" <<<"$show"
ends "this machine by its name, rank 0 on the first" 0 "^rank 2 of 4 at first 29500 " DIECAST_SECRET=x --
ends "flags go before the cluster" 0 "^rank 0 of 4 at h9 29500 " DIECAST_SECRET=x -- --node-rank 0 --master-addr h9
ends "one of them alone" 0 "^rank 3 of 4 at 127.0.0.1 " -- --nodes 1
folder cuda 4 "a.example,b.example" <<<"$show"
refuses "cluster mine, nodes=2 needs --node-rank" --
folder cpu 4 "$(hostname),$(hostname)" <<<"$show"
refuses "a host is named twice" --

# ---- restarts. The program ends with the codes of $CODES, one a start; those with + leave a newer checkpoint.
for backend in cpu cuda; do
    folder $backend 1 <<'END'
#!/bin/bash
[[ " $* " != *" --where "* ]] || { echo "$OUT"; exit; }
n=$(cat "$OUT/n" 2>/dev/null || echo 0)
echo $((n + 1)) >"$OUT/n"
read -ra codes <<<"$CODES"
code=${codes[n]}
echo "start $n restart ${TORCHELASTIC_RESTART_COUNT:-none}"
[[ $code != *+ ]] || mkdir -p "$OUT/checkpoint-$((10 * n + 10))"
if [[ $code = wait* ]]; then
    trap 'exit 91' TERM USR1 INT
    touch "$OUT/waits"
    while :; do sleep 0.05; done
fi
[ "${code%+}" != kill ] || kill -9 $$
exit "${code%+}"
END
    again() {           # again NAME STARTS CODE PATTERN CODES ARGS...
        local name=$1 starts=$2 want=$3 pattern=$4 codes=$5
        shift 5
        rm -rf "${OUT:?}"/*
        ends "$backend restarts: $name" "$want" "$pattern" CODES="$codes" -- "$@"
        [ "$(cat "$OUT/n" 2>/dev/null || echo 0)" = "$starts" ]
        verdict_of "$backend restarts: $name: $starts starts" $? "$(cat "$scratch/c")"
    }
    again "a dead peer, then the end" 2 0 "^prog: ended with 84: restart 1 of 3 in 1 s, from checkpoint-10$" "84+ 0" \
        --restarts 3
    grep -q "^start 1 restart 1$" "$scratch/c"
    verdict_of "$backend restarts: the program knows" $? "$(cat "$scratch/c")"
    again "without it" 1 84 "" "84 0"
    again "--restarts 0" 1 84 "" "84 0" --restarts=0
    again "the number is over" 2 85 "^prog: ended with 85 after 1 restarts: gives up$" "82+ 85+ 0" --restarts 1
    for code in 80 83 87 88 89 92 93 1; do
        again "$code is not changed by it" 1 $code "^prog: ended with $code, which a restart would not change$" "$code 0" --restarts 9
    done
    again "94: not on this machine" 1 94 "not restarted on this machine" "94 0" --restarts 9
    for bad in -1 x 1.5 01 99999 ""; do
        again "--restarts=$bad" 0 80 "must be a number" "0" "--restarts=$bad"
    done
    again "--restarts alone" 0 80 "needs a value" "0" --restarts
    again "with --force" 0 80 "would start over" "0" --restarts 2 --force
    again "with --resume never" 0 80 "would start over" "0" --restarts 2 --resume never
    again "with standard input" 0 80 "cannot be read again" "0" --restarts 2 --data -
    # a program stopped through run.sh stays stopped
    rm -rf "${OUT:?}"/*
    CODES="wait 0" "$x/run.sh" --restarts 5 >"$scratch/c" 2>&1 &
    script=$!
    for _ in $(seq 1200); do [ -e "$OUT/waits" ] && break; sleep 0.05; done
    kill -TERM $script
    wait $script
    code=$?
    [ $code = 91 ] && [ "$(cat "$OUT/n")" = 1 ]
    verdict_of "$backend restarts: not what was asked to stop" $? "code $code: $(cat "$scratch/c")"
done
# the pause grows, and ends where no checkpoint is won: once, for it takes seven seconds
again "two in a row without a newer checkpoint" 4 137 "after 3 restarts, the last two without a newer checkpoint: gives up" \
    "kill kill+ kill kill 0" --restarts 9
[ "$(grep -oE 'in [0-9]+ s' "$scratch/c" | paste -sd,)" = "in 1 s,in 2 s,in 4 s" ]
verdict_of "the pause grows" $? "$(cat "$scratch/c")"
folder cuda 2 <<<"$show"
refuses "--restarts=2 is for one machine" -- --restarts 2 --nodes 2 --node-rank 0 --master-addr x
exit $failed
