#!/bin/bash
# Commands of the files of `gen launch` on two hosts, with the variables that Kubeflow Trainer and SkyPilot set there,
# and run.sh as srun and mpirun start it once on each: the bits of one host, also after a restart. BACKEND=cpu or sim.
source "$(dirname "$0")/hosts.sh"
steps=5
straight straight --steps $steps
pair engines
printf '%s\n' '10.77.0.1 gpt2-tiny-node-0-0.gpt2-tiny' '10.77.0.2 gpt2-tiny-node-0-1.gpt2-tiny' \
    '10.77.0.1 gpt2-tiny-launcher-0-0.gpt2-tiny' >>"$scratch/hosts"
gcc -std=c11 -D_GNU_SOURCE -Og tests/launch/check_yaml.c -lyaml -o "$scratch/check_yaml" || exit 1

# file ENGINE: the file of this program for two machines, a line PATH=VALUE a scalar in $scratch/flat
file() {
    local kind=(target= cluster.card=h200)
    [ $BACKEND = sim ] || kind=(cluster.target=cpu)
    "$gen" launch "$1" $here/recipes/gpt2_tiny.lua gpus=4 batch.micro=2 batch.accum=1 cluster.nodes=2 \
        cluster.gpus_per_node=2 "${kind[@]}" -- "${ours[@]}" --out "$scratch/run" --steps $steps --save-every 1 \
        >"$scratch/file" 2>"$scratch/said" && "$scratch/check_yaml" tests/launch/fields.txt <"$scratch/file" >"$scratch/flat" ||
        { verdict "$BACKEND, $1: its file" "$(cat "$scratch/said")"; exit 1; }
}
# container: the words of a TrainJob's container, as Kubernetes gives them to it, with this program's path; in $words
container() {
    mapfile -t words < <(sed -n 's/^TrainJob.spec.trainer.\(command\|args\)\[[0-9]*\]=//p' "$scratch/flat" |
        sed "s/\\$\\$/$/g; s,/diecast/gpt2_tiny/,$binary/,; s,/etc/mpi/hostfile,$scratch/hostfile,")
}

if [ $BACKEND = cpu ]; then
    # The launcher's pod is one of the hosts; ssh reaches the other by its name
    cat >"$scratch/ssh" <<'END'
#!/bin/bash
while [[ $1 == -* ]]; do [ "$1" != -o ] || shift; shift; done
case $1 in
gpt2-tiny-node-0-0.gpt2-tiny) host=1 ;;
*) exit 255 ;;
esac
env -i PATH="$PATH" HOME="$HOME" SCRATCH="$SCRATCH" BASE="$BASE" PAIR="$PAIR" PROGRAM="$PROGRAM" \
    setsid "$SCRATCH/on" $host sh -c "${*:2}" &
wait $!
END
    chmod +x "$scratch/ssh"
    sed -i 's/^10.77.0.1 gpt2-tiny-node/10.77.0.2 gpt2-tiny-node/' "$scratch/hosts"
    printf '%s slots=2\n' gpt2-tiny-node-0-0.gpt2-tiny gpt2-tiny-launcher-0-0.gpt2-tiny >"$scratch/hostfile"
    file kubernetes
    container
    OMPI_MCA_orte_default_hostfile=$scratch/hostfile OMPI_MCA_orte_keep_fqdn_hostnames=true \
        OMPI_MCA_orte_set_default_slots=2 OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10' \
        OMPI_MCA_plm_rsh_agent=$scratch/ssh "$on" 0 bash -c 'hostname gpt2-tiny-launcher-0-0 && exec "$@"' pod \
        "${words[@]}" >"$scratch/run.0" 2>&1 &
    script=($!)
    trains "Kubeflow Trainer's MPI runtime"
    exit $failed
fi

# pods RESTART: the two pods of a TrainJob
pods() {
    local host
    script=()
    for host in 1 0; do
        PET_NNODES=2 PET_NODE_RANK=$host PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=gpt2-tiny-node-0-0.gpt2-tiny \
            PET_MASTER_PORT=29500 JOB_COMPLETION_INDEX=$host TORCHELASTIC_RUN_ID=a-uid TORCHELASTIC_RESTART_COUNT=$1 \
            DIECAST_SECRET=s "$on" $host "${words[@]}" >"$scratch/run.$host" 2>&1 &
        script[host]=$!
    done
}
file kubernetes
container
pods 0
trains "Kubeflow Trainer"
# one pod dies with all that runs in it; the other ends with a code that restarts the set, which goes on
pods 0
waits reached run 2
processes 1 | xargs -r kill -9
end 2>/dev/null
verdict "$BACKEND, Kubeflow Trainer: a pod dies" "$([ "$codes" = "84 137" ] || echo "codes $codes")"
pods 1
end 2>/dev/null
verdict "$BACKEND, Kubeflow Trainer: the set restarts" "$([ "$codes" = "0 0" ] || echo "codes $codes: $(
    tail -qn 3 "$scratch"/run.[01])"; grep -q 'resumed from .*checkpoint-[1-5]$' "$scratch/run.0" || cat "$scratch/run.0")"
same "$BACKEND, Kubeflow Trainer, restarted" run straight $steps
verdict "$BACKEND, Kubeflow Trainer: the name of the fault file" "$(
    [ -n "$(find "$scratch/run" -name 'fault.0.*.json')" ] || ls "$scratch/run")"
rm -rf "$scratch"/run "$scratch"/run.?

# machines FIRST SECOND: those of a task, by their hosts, with the command of its file. The run folder is as in a
# bucket: without hard links and exclusive renames.
gcc -std=c11 -O1 -shared -fPIC -o "$scratch/shim.so" tests/checkpoint/shim.c -ldl || exit 1
machines() {
    local host rank=0 ip=("" "")
    script=()
    for host; do ip[rank++]=10.77.0.$((host + 1)); done
    rank=0
    for host; do
        SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=$rank SKYPILOT_NODE_IPS=${ip[0]}$'\n'${ip[1]} \
            SKYPILOT_NUM_GPUS_PER_NODE=2 SKYPILOT_TASK_ID=sky-task-1 DIECAST_SECRET=s \
            "$on" "$host" env BUCKET=1 LD_PRELOAD="$scratch/shim.so" bash -c "$command" >"$scratch/run.$host" 2>&1 &
        script[host]=$!
        rank=$((rank + 1))
    done
}
file skypilot
command=$(sed '1,/^SkyPilot.run=/{/^SkyPilot.run=/!d}' "$scratch/flat" |
    sed "s/^SkyPilot.run=//; s,/diecast/gpt2_tiny/,$binary/,")
machines 0 1
trains "SkyPilot"
# both instances are taken away; the task goes on with the other host as its first
machines 0 1
waits reached run 2
for host in 0 1; do processes $host; done | xargs -r kill -9
end 2>/dev/null
machines 1 0
end 2>/dev/null
verdict "$BACKEND, SkyPilot: the task recovers" "$([ "$codes" = "0 0" ] || echo "codes $codes: $(
    tail -qn 3 "$scratch"/run.[01])"; grep -q 'resumed from .*checkpoint-[1-5]$' "$scratch/run.1" || cat "$scratch/run.1")"
same "$BACKEND, SkyPilot, recovered" run straight $steps
rm -rf "$scratch"/run "$scratch"/run.?

# srun and mpirun start run.sh once on each host
script=()
for host in 1 0; do
    SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=$host SLURM_LOCALID=0 SLURM_NODEID=$host SLURM_STEP_NUM_TASKS=2 \
        SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE='1(x2)' SLURM_STEP_NODELIST='node[0-1]' DIECAST_SECRET=s \
        "$on" $host "$binary/run.sh" "${ours[@]}" --out "$scratch/run" --steps $steps >"$scratch/run.$host" 2>&1 &
    script[host]=$!
done
trains "srun, a run.sh on each host"
# shellcheck disable=SC2086
MASTER_ADDR=node0 DIECAST_SECRET=x "$on" 0 mpirun $ssh --allow-run-as-root -n 2 --host node0:1,node1:1 -x MASTER_ADDR \
    -x DIECAST_SECRET "$binary/run.sh" "${ours[@]}" --out "$scratch/run" --steps $steps >"$scratch/run.0" 2>&1 &
script=($!)
trains "mpirun, a run.sh on each host" 0
exit $failed
