#!/bin/bash
# Every way to start a run on two hosts, against the same run on one: the same bits. BACKEND=cpu or sim.
source "$(dirname "$0")/hosts.sh"
steps=5
straight straight --steps $steps
pair start

begin run --steps $steps
end
if [ $BACKEND = cpu ]; then
    placed=$(grep -o '^ Data for node: node[01]\>.*procs: 2$' "$scratch/run.0" | sort -u)
    [ "$(wc -l <<<"$placed")" = 2 ] && placed= || placed="none: $placed"
else
    placed=$(grep -ho '^  GPU of rank . .*(node.)' "$scratch"/run.? | sed 's/.*rank \(.\) .*(\(.*\))/\1 \2/' | paste -sd' ')
    [ "$placed" != "0 node0 1 node0 2 node1 3 node1" ] || placed=
fi
verdict "$BACKEND: two ranks are on each host" "${placed:+not so: $placed}"
trains "run.sh with flags"

if [ $BACKEND = cpu ]; then
    NNODES=2 MPIRUN_FLAGS=$ssh "$on" 0 "$binary/run.sh" --hosts node0,node1 "${ours[@]}" --out "$scratch/run" --steps $steps \
        >"$scratch/run.0" 2>&1 &
    script=($!)
    trains "run.sh with NNODES"
    MPIRUN_FLAGS=$ssh "$on" 1 "$binary/run.sh" --hosts node0,node1 "${ours[@]}" --out "$scratch/run" --steps $steps \
        >"$scratch/run.0" 2>&1 &
    script=($!)
    trains "run.sh on the second of its hosts"
    # without run.sh: rank 0 is found by the name of its host
    # shellcheck disable=SC2086
    "$on" 0 mpirun $ssh --allow-run-as-root -n 4 --host node0:2,node1:2 "$binary/train" "${ours[@]}" --out "$scratch/run" \
        --steps $steps >"$scratch/run.0" 2>&1 &
    script=($!)
    trains "mpirun --host"
    # ranks dealt in turns: 0 and 2 on one host
    # shellcheck disable=SC2086
    "$on" 1 mpirun $ssh --allow-run-as-root -n 4 --map-by node --host node1:2,node0:2 "$binary/train" "${ours[@]}" \
        --out "$scratch/run" --steps $steps >"$scratch/run.0" 2>&1 &
    script=($!)
    trains "mpirun --map-by node, from the other host"
    exit $failed
fi

script=()
for host in 1 0; do
    NNODES=2 NODE_RANK=$host MASTER_ADDR=10.77.0.1 MASTER_PORT=29600 DIECAST_SECRET=x \
        "$on" $host "$binary/run.sh" "${ours[@]}" --out "$scratch/run" --steps $steps >"$scratch/run.$host" 2>&1 &
    script[host]=$!
done
trains "run.sh with NNODES and NODE_RANK"

# as torchrun starts them; the secret is in a file next to the program, which both hosts see
script=()
for rank in 3 2 1 0; do
    RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 GROUP_RANK=$((rank / 2)) MASTER_ADDR=node0 \
        MASTER_PORT=29700 TORCHELASTIC_RUN_ID=a TORCHELASTIC_USE_AGENT_STORE=True \
        "$on" $((rank / 2)) "$binary/train" "${ours[@]}" --out "$scratch/run" --steps $steps >"$scratch/run.$rank" 2>&1 &
    script[rank]=$!
done
trains "torchrun's variables" "0 0 0 0"
verdict "$BACKEND: the file with the secret goes" "$(ls "$binary"/.secret.* 2>/dev/null)"

# shellcheck disable=SC2086
DIECAST_ADDR=node0 DIECAST_SECRET=x "$on" 0 mpirun $ssh --allow-run-as-root -n 4 --host node0:2,node1:2 \
    -x DIECAST_ADDR -x DIECAST_SECRET "$binary/train" "${ours[@]}" --out "$scratch/run" --steps $steps >"$scratch/run.0" 2>&1 &
script=($!)
trains "mpirun --host" 0
exit $failed
