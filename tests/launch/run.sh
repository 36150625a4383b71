#!/bin/bash
# Files of `gen launch`: their fields by what Kubeflow Trainer and SkyPilot accept (fields.txt, from their packages),
# their numbers by the recipe and its cluster, words of users as they were typed. tests/nodes/engines.sh runs them.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=launch/
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Og tests/launch/check_yaml.c -lyaml -o "$T/check_yaml" || exit 1
fields=tests/launch/fields.txt

# made NAME ARGS...: of gen launch into $T/NAME.yaml, a line PATH=VALUE a scalar into $T/NAME; says what is wrong
made() {
    "$GEN" launch "${@:2}" >"$T/$1.yaml" 2>"$T/$1.said" || { head -1 "$T/$1.said"; return; }
    "$T/check_yaml" $fields <"$T/$1.yaml" 2>&1 >"$T/$1" | head -3
}
value() { sed -n "s/^$2=//p" "$T/$1" | paste -sd' '; }       # NAME PATTERN

# ---- the fields, and numbers of the recipe and its cluster
full=(image=ghcr.io/me/run:1 volume=shared)
check a100 "" "$(made a100 kubernetes a100x4_full cluster=slurm_a100x4 gpus=all "${full[@]}" -- --data /data/x.jsonl)"
check a100/quiet "" "$(cat "$T/a100.said")"
check a100/machines "2 2 4 4 32" "$(value a100 '.*mlPolicy.numNodes') $(value a100 'TrainJob.spec.trainer.num.*') $(
    value a100 '.*limits.nvidia.com.gpu') $(value a100 '.*requests.cpu')"
check a100/memory "20Gi 4Gi" "$(value a100 '.*requests.memory') $(value a100 '.*sizeLimit')"
check a100/card "8 0" "$(value a100 '.*compute.m[aj].*') $(value a100 '.*compute.mi.*')"
check a100/command "/diecast/a100x4_full/run.sh --data /data/x.jsonl --out /data/runs/a100x4_full" \
    "$(value a100 'TrainJob.*command.*') $(value a100 'TrainJob.*args.*')"
check a100/volume "shared 1" "$(value a100 '.*claimName') $(grep -c 'spec.containers.0..volumeMounts.0..mountPath=/data$' "$T/a100")"
check a100/secret "DIECAST_SECRET a100x4-full secret" "$(value a100 '.*env.2..name') $(value a100 '.*secretKeyRef.*')"
check a100/interface "NCCL_SOCKET_IFNAME eth0" "$(value a100 '.*env.3..\(name\|value\)')"
# exit codes: those that a restart does not change end the job
check a100/codes "$(sed -n 's/^EXIT_CODE([A-Z_]*, *\([1-9][0-9]*\), "no".*/\1/p' runtime/exit_codes.def | paste -sd' ')" \
    "$(value a100 '.*onExitCodes.values.*')"
check a100/restarts "0 10 FailJobSet PodFailurePolicy FailJob" "$(value a100 '.*backoffLimit') $(value a100 '.*maxRestarts') $(
    value a100 '.*rules.0..\(action\|onJobF.*\)')"
check one "" "$(made one kubernetes h200x1_tiny card=h200 "${full[@]}" namespace=team-a gpu=NVIDIA-H200 -- --data /data/x)"
check one/machine "1 1 0 team-a team-a NVIDIA-H200" "$(value one '.*mlPolicy.numNodes') $(value one '.*limits.nvidia.com.gpu') $(
    grep -c DIECAST_SECRET "$T/one") $(value one '.*namespace') $(value one '.*gpu.product')"
check cpus "" "$(made cpus kubernetes cpu_tiny cluster=slurm_cpu "${full[@]}" -- --data /data/x.txt)"
check cpus/mpi "OpenMPI 1 true /home/diecast/.ssh" "$(value cpus '.*mlPolicy.mpi.*')"
check cpus/jobs "node launcher node Ready" "$(value cpus '.*replicatedJobs.[01]..\(name\|dependsOn.*\)')"
check cpus/sshd "/usr/sbin/sshd -De -f /home/diecast/.sshd_config 2222" "$(value cpus 'TrainingRuntime.*\(command\|args\|port\).*')"
check cpus/image "openssh-server
HostKey /home/diecast/.ssh/id_rsa
AuthorizedKeysFile /home/diecast/.ssh/authorized_keys" "$("$GEN" container cpu_tiny cluster=slurm_cpu 2>"$T/said" |
    grep -o "HostKey [^']*\|AuthorizedKeysFile [^']*\|openssh-server")$(cat "$T/said")"
check cpus/image_of_one 0 "$("$GEN" container cpu_tiny | grep -c ssh)"
check cpu "" "$(made cpu kubernetes cpu_x2_full "${full[@]}" -- --data /data/x.txt)"
check cpu/machine "1 2 0" "$(value cpu '.*mlPolicy.numNodes') $(value cpu '.*numProcPerNode') $(grep -c 'mpi\|gpu' "$T/cpu")"
sky=(image=ghcr.io/me/run:1 bucket=s3://runs)
check sky "" "$(made sky skypilot a100x4_full cluster=slurm_a100x4 gpus=all "${sky[@]}" -- --data /data/x.jsonl)"
check sky/quiet "" "$(cat "$T/sky.said")"
check sky/machines "2 A100-80GB:4 32+ 20+ true" "$(value sky 'SkyPilot.num_nodes') $(value sky '.*accelerators') $(
    value sky '.*cpus') $(value sky '.*memory') $(value sky '.*use_spot')"
check sky/image "docker:ghcr.io/me/run:1 s3://runs MOUNT_CACHED" "$(value sky '.*image_id') $(value sky '.*file_mounts.*')"
check sky/codes "$(sed -n 's/^EXIT_CODE([A-Z_]*, *\([1-9][0-9]*\), "yes.*/\1/p' runtime/exit_codes.def | paste -sd' ')" \
    "$(value sky '.*recover_on_exit_codes.*')"
check sky/cpu "" "$(made skycpu skypilot cpu_x2_full "${sky[@]}" -- --data /data/x.txt)"
check sky/cpu_machine "1 0" "$(value skycpu 'SkyPilot.num_nodes') $(grep -c 'accelerators\|secrets' "$T/skycpu")"
check sky/gpu "L4:1" "$(made l4 skypilot h200x1_tiny card=l4 "${sky[@]}" gpu=L4 -- --data /data/x; value l4 '.*accelerators')"

# ---- a file with placeholders
check holes "" "$(made holes kubernetes a100x4_full)"
check holes/places "IMAGE CLAIM /data/FILE" "$(value holes 'TrainJob.*image') $(value holes '.*claimName') $(
    value holes 'TrainJob.*args.1.')"
check holes/said "gen: launch: replace these placeholders, or give the words: IMAGE (image=: an image, such as \
ghcr.io/me/run:1), CLAIM (volume=: a PersistentVolumeClaim that all pods may write, such as shared), FILE (-- --data \
/data/...: the program's arguments)" "$(cat "$T/holes.said")"
check holes/sky "docker:IMAGE s3://BUCKET GPU:4" "$(made hs skypilot a100x4_full >"$T/out"; value hs '.*image_id') $(
    value hs '.*source') $(value hs '.*accelerators')"

# ---- words of users arrive as they were typed: in YAML, past Kubernetes ($(NAME), $$), in the shell of SkyPilot
odd=("it's" '$(HOME) $$x ${y} `id`' ': # - &a *b !c %d @e' '"q" \n {k: [v]}' --data=/d --out=/data/mine '' größe)
made odd kubernetes cpu_x2_full "${full[@]}" -- "${odd[@]}" >"$T/out"
check odd/kubernetes "$(printf '%s|' "${odd[@]}")" "$(sed -n 's/^TrainJob.*args\[.*\]=//p' "$T/odd" | sed 's/\$\$/$/g' | tr '\n' '|')"
made oddsky skypilot cpu_x2_full "${sky[@]}" -- "${odd[@]}" >"$T/out"
sed '1,/^SkyPilot.run=/{/^SkyPilot.run=/!d;s/^SkyPilot.run=exec [^ ]*run.sh/printf "%s|"/}' "$T/oddsky" >"$T/run"
check odd/skypilot "$(printf '%s|' "${odd[@]}")" "$(bash "$T/run")"
mkdir -p "$T/a, b @c"
cp recipes/cpu_x2_full.lua "$T/a, b @c/7_Odd.x_.lua"
check odd/recipe "" "$(made oddname kubernetes "$T/a, b @c/7_Odd.x_.lua" "${full[@]}" -- --data x)"
check odd/name "run-7-odd-x /diecast/7_Odd.x_/run.sh /data/runs/7_Odd.x_" "$(value oddname 'TrainJob.metadata.name') $(
    value oddname 'TrainJob.*command.0.') $(value oddname 'TrainJob.*args.3.')"
check odd/head "#   gen container '$T/a, b @c/7_Odd.x_.lua' >Containerfile; then build, push, and name it below" \
    "$(grep 'gen container .*>' "$T/oddname.yaml")"
check odd/comment "" "$(made comment kubernetes cpu_x2_full "${full[@]}" -- --data "/x' y")"

# ---- what is refused
refused() { check "refuses_$1" "1 $2" "$("$GEN" launch "${@:3}" >"$T/out" 2>"$T/said"; echo "$? $(cat "$T/said" "$T/out")")"; }
# flags without which the job would fail at once, by any of their names; placeholders for them if no argument is given
for engine in kubernetes skypilot; do
    refused data_$engine "gen: launch: the program needs --data, which is missing: add --data /data/FILE after --" \
        $engine a100x4_full -- --steps 3
    refused base_$engine "gen: launch: the program needs --init-from, which is missing: add --init-from /data/FOLDER after --" \
        $engine a100x4_lora -- --data /data/x
    refused meta_$engine \
        "gen: launch: the program needs --meta-data, which is missing: add --meta-data /data/META.jsonl after --" \
        $engine dreamprm_full -- --data=/data/x
    for words in "--init_from=/data/b --data /data/x" "--model_name_or_path=/data/b --train_file /data/x" \
        "--data /data/x --resume last" "--bench-steps 1"; do
        # shellcheck disable=SC2086
        check "takes_$engine $words" 0 "$("$GEN" launch $engine a100x4_lora -- $words >/dev/null 2>&1; echo $?)"
    done
    check places_$engine "/data/FILE /data/FOLDER" "$("$GEN" launch $engine a100x4_lora 2>/dev/null |
        grep -o '/data/F[A-Z]*' | sort | paste -sd' ')"
done
# what is no training needs none of them: each flag of flags.def that exits
awk 'BEGIN { RS = "\nFLAG[(]" } { gsub(/"\n *"/, "") } / (and|then) exit/ { sub(/,.*/, ""); print }' \
    runtime/run/flags.def runtime/objectives/*.def >"$T/commands"
check takes_commands "" "$(while read -r flag; do
    "$GEN" launch kubernetes a100x4_lora -- "--$flag" 2>&1 >/dev/null | grep -o '.* is missing'
done <"$T/commands")"
check commands "8 0" "$(grep -cE '^(sample|plot|eval_only|export|show|dry_run|bench_steps|where)$' "$T/commands") $(
    grep -c '^steps$' "$T/commands")"
for name in out output_dir; do
    check out_once_$name "--$name 0" "$(made out kubernetes cpu_x2_full "${full[@]}" -- --data /data/x --$name /data/mine)$(
        value out 'TrainJob.*args.2.') $(grep -c /data/runs "$T/out")"
done
refused nothing "gen: launch: must be followed by kubernetes or skypilot, then a recipe"
refused engine 'gen: launch: must be followed by kubernetes or skypilot, then a recipe, got "ray"' ray cpu_tiny
refused word 'gen: launch: "imge": unknown word; did you mean "image"?' kubernetes a100x4_full imge=x
refused recipe "gen: name a recipe, for example recipes/cpu_tiny.lua; \`gen list\` shows them" kubernetes image=x
refused image 'gen: launch: image: must be an image, such as ghcr.io/me/run:1, got "a b"' kubernetes cpu_tiny 'image=a b'
refused bucket 'gen: launch: bucket: must be a bucket, such as s3://runs or gs://runs, got "runs"' skypilot cpu_tiny \
    bucket=runs
refused empty 'gen: launch: volume: must be a PersistentVolumeClaim that all pods may write, such as shared, got ""' \
    kubernetes cpu_tiny volume=
refused twice "gen: launch: image: given twice" kubernetes cpu_tiny image=a image=b
refused other 'gen: launch: "bucket=s3://x": kubernetes has no such word; gen launch --help' kubernetes cpu_tiny \
    bucket=s3://x
refused control 'gen: launch: argument "--x\012y": has a control character' kubernetes cpu_tiny -- $'--x\ny'
refused sky_cpus "gen: launch: skypilot: CPU programs of several machines are started by MPI over ssh, which needs \
names that SkyPilot does not give; cluster.nodes=1, or gen launch kubernetes" skypilot cpu_tiny cluster=slurm_cpu
check refuses_alone "1 1" "$("$GEN" launch kubernetes darkroom_ppo >"$T/out" 2>"$T/said"; echo "$? $(
    grep -c '^gen: launch: programs of the objective ppo run as one process' "$T/said")")"
check refuses_interface "1 1" "$("$GEN" launch kubernetes cpu_tiny cluster=slurm_cpu cluster.interface=ib0 >"$T/out" 2>"$T/said"
    echo "$? $(grep -c 'cluster.interface: run.sh gives ib0 to MPI, but pods have eth0; leave it out' "$T/said")")"

# ---- the check itself sees what is wrong
broken() {                                    # NAME FILE EXPRESSION MESSAGE
    check "broken/$1" "$4" "$(sed "$3" "$T/$2.yaml" | "$T/check_yaml" $fields 2>&1 >"$T/out" | head -1 | sed 's/^line [0-9]*: //')"
}
broken type a100 's/numNodes: 2/numNodes: two/' 'TrainingRuntime.spec.mlPolicy.numNodes: "two": must be int'
broken quoted a100 "s/numProcPerNode: 4/numProcPerNode: '4'/" 'TrainJob.spec.trainer.numProcPerNode: "4": must be int'
broken field a100 's/numProcPerNode:/nprocPerNode:/' 'TrainJob.spec.trainer.nprocPerNode: no such field'
broken missing a100 '/operator: In/d' \
    'TrainingRuntime.spec.template.spec.replicatedJobs[0].template.spec.podFailurePolicy.rules[0].onExitCodes: operator'
broken kind a100 's/kind: TrainJob/kind: Train/' 'Train: no type of the table'
broken twice a100 's/^\( *\)backoffLimit: 0/&\n&/' \
    'TrainingRuntime.spec.template.spec.replicatedJobs[0].template.spec.backoffLimit: twice'
broken word sky 's/MOUNT_CACHED/CACHED/' \
    'SkyPilot.file_mounts./data.mode: "CACHED": must be =MOUNT|=COPY|=MOUNT_CACHED'
broken yaml sky 's/^num_nodes: 2/num_nodes: [2/' "did not find expected ',' or ']'"
exit $failed
