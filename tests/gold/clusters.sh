# shellcheck shell=bash
# Clusters: what follows from them, what contradicts them, what the scripts of a program say of them. Read by run.sh.
cluster_case() {                              # cluster_case NAME WANT FIELD=VALUE ...: the message, or lines of the config
    local name=$1 want=$2
    shift 2
    check "clusters/$name" "$want" "$("$B/driver" config "$@" 2>&1 | sed 's/^gen: //;/^    /d')"
}
refused() {                                   # the same of a small CPU recipe on cluster `cpus`
    local name=$1 want=$2
    shift 2
    cluster_case "$name" "$want" "$T/c/r.lua" cluster=cpus "$@"
}
follows() {                                   # follows NAME "VALUE ..." RECIPE FIELD=VALUE ...: target gpus limit out
    local name=$1 want=$2
    shift 2
    "$B/driver" config "$@" >"$T/config" 2>&1
    check "clusters/$name" "$want" "$(for field in target gpus memory.limit_gib run.out; do
        sed -n "s/^$field = \"*\([^\" ]*\).*/\1/p" "$T/config"; done | paste -sd' ')$(grep -h '^gen:' "$T/config")"
}
mkdir -p "$T/c/clusters"
model='precision = "fp32", seq = { max = 8 }, batch = { micro = 1 }, data = { kind = "rows" },
    model = { family = "gpt2", layers = 1, hidden = 8, heads = 2, vocab = 9 }'
echo "return { $model }" >"$T/c/r.lua"
echo "return { cluster = use \"clusters/gpus\", $model }" >"$T/c/own.lua"
echo 'return { target = "cpu", memory_gib = 96, nodes = 2, gpus_per_node = 4 }' >"$T/c/clusters/cpus.lua"
echo 'return { card = "a100-40", nodes = 2, gpus_per_node = 8, scratch = "/scratch/me" }' >"$T/c/clusters/gpus.lua"
echo 'return { nodes = 2 }' >"$T/c/clusters/neither.lua"
echo 'return 5' >"$T/c/clusters/five.lua"
C=$T/c/clusters

# ---- what follows
follows cpu "cpu 8 24.0" "$T/c/r.lua" cluster=cpus
follows own "sm_80 16 39.3 /scratch/me/own" "$T/c/own.lua"
follows other "cpu 8 24.0" "$T/c/own.lua" cluster=cpus
follows usual_memory "sm_80 16 0.0 /scratch/me/r" "$T/c/r.lua" cluster=gpus cluster.card=a100
follows fewer "sm_80 4 39.3 /scratch/me/own" "$T/c/own.lua" gpus=4
follows all "sm_80 16 39.3 /scratch/me/own" "$T/c/own.lua" gpus=all
follows nodes "sm_80 8 39.3 /scratch/me/own" "$T/c/own.lua" cluster.nodes=1
follows less_memory "sm_80 16 20.0 there" "$T/c/own.lua" memory.limit_gib=20 run.out=there
follows name "sm_80 16 39.3 /scratch/me/x" "$T/c/own.lua" name=x
follows share "cpu 2 96.0" "$T/c/r.lua" cluster=cpus gpus=2
follows native "cpu_v4 8 24.0" "$T/c/r.lua" cluster=cpus target=cpu_v4
check clusters/none "target: has to be set" "$("$B/driver" config "$T/c/own.lua" cluster= 2>&1 | grep -o 'target: has to be set')"
check clusters/place "target = \"sm_80\"  # $C/gpus.lua:1" "$("$B/driver" config "$T/c/own.lua" | grep ^target)"
# the same program, whatever starts it
hash_of() { "$B/driver" config "$@" | sed -n 's/^# config  hash \([0-9a-f]*\) .*/\1/p'; }
check clusters/hash "$(hash_of "$T/c/r.lua" target=cpu gpus=8 memory.limit_gib=24)" "$(hash_of "$T/c/r.lua" cluster=cpus)"
"$B/driver" config "$T/c/own.lua" cluster.hosts=a,b >"$T/c/text"
check clusters/text-reads-back "" "$("$B/driver" parse "$T/c/text" | diff - "$T/c/text" | head -3)"

# ---- what contradicts
N="$T/c/r.lua"
cluster_case no_file "cluster=cpuss: no file clusters/cpuss.lua below $T/c or the project's recipes/; did you mean\
 \"cpus\"?; there are: $(for f in "$C"/*.lua recipes/clusters/*.lua; do basename "$f" .lua; done | sort -u | paste -sd, |
    sed 's/,/, /g')" "$N" cluster=cpuss
cluster_case path "cluster=a/b: want a name, of recipes/clusters/NAME.lua" "$N" cluster=a/b
cluster_case odd "cluster=a b: want a name below recipes/ made of letters, digits and _ . + - /, without \"..\"" "$N" \
    "cluster=a b"
cluster_case no_table "$C/five.lua:1: want a file that returns a table, got number" "$N" cluster=five
cluster_case neither "$N: cluster.card: want the GPU of its nodes (gen list cards), or of a cluster of CPUs target = \"cpu\"
$N:1: target: has to be set: device the binary is built for; see \`gen list\`" "$N" cluster=neither
cluster_case no_card "cluster.card: none: of a cluster of CPUs want target = \"cpu\" as well" "$N" cluster=neither \
    cluster.card=none target=cpu
cluster_case target_alone "cluster.target: for sm_80 want cluster.card, which says the memory too (gen list cards)" "$N" \
    cluster=neither cluster.target=sm_80
cluster_case target_card "cluster.target: sm_90, but a a100-40 is sm_80; leave it out" "$T/c/own.lua" cluster.target=sm_90
cluster_case target "target: sm_90, but the nodes of cluster gpus have a100-40, which is sm_80; leave it out (target=)" \
    "$T/c/own.lua" target=sm_90
cluster_case memory "memory.limit_gib: 40, but a card of cluster gpus has 39.3; leave it out (memory.limit_gib=)" \
    "$T/c/own.lua" memory.limit_gib=40
refused memory_cpu "memory.limit_gib: 25, but a rank's share of a node of cluster cpus has 24; leave it out\
 (memory.limit_gib=)" memory.limit_gib=25
cluster_case all_of_none "gpus: all of a cluster, but the recipe has none: add cluster=NAME (gen list clusters), or want a\
 number" "$N" target=cpu gpus=all
refused too_many "gpus: 10, but cluster cpus has 2 nodes x 4 = 8; gpus=all takes these" gpus=10
refused uneven "gpus: 3 cannot be dealt evenly to the 2 nodes of cluster cpus; gpus=all takes all 8, cluster.nodes=1 one\
 node" gpus=3
refused too_large "$N: gpus: a cluster of 67108864 is larger than the largest, 65536; want fewer nodes" \
    cluster.nodes=65536 cluster.gpus_per_node=1024
refused unknown 'cluster.partitoin: unknown key; did you mean "partition"?' cluster.partitoin=x
refused slurm_only "cluster.partition: of clusters whose launcher is slurm; here it is run.sh; leave it out" \
    cluster.partition=x
refused slurm_hosts "cluster.hosts: of clusters whose launcher is run.sh or mpirun; slurm knows its nodes; leave it out" \
    cluster.launcher=slurm cluster.hosts=a,b
refused hosts "cluster.hosts: names 3 machines, but cluster.nodes = 2" cluster.hosts=a,b,c
refused torchrun "cluster.launcher: torchrun starts GPU programs; of CPUs want run.sh, mpirun or slurm" \
    cluster.launcher=torchrun
refused cpu_nccl "cluster.nccl: of clusters with GPUs; leave it out" cluster.nccl=NCCL_DEBUG=INFO
cluster_case nccl_taken "cluster.nccl: NCCL_SOCKET_IFNAME is cluster.interface; leave it out" "$T/c/own.lua" \
    cluster.nccl=NCCL_SOCKET_IFNAME=eth0
cluster_case nccl_twice "cluster.nccl: NCCL_DEBUG stands there twice" "$T/c/own.lua" \
    cluster.nccl=NCCL_DEBUG=INFO,NCCL_DEBUG=WARN
cluster_case text "$T/c/text.lua:1: cluster: want cluster = use \"clusters/gpus\"" \
    "$(echo "return { target = \"cpu\", cluster = \"gpus\", $model }" >"$T/c/text.lua"; echo "$T/c/text.lua")"
cluster_case whole "$T/c/ppo.lua:1: cluster: programs of the objective ppo are one process of a CPU; leave it out" \
    "$(echo 'return { target = "cpu", objective = "ppo" }' >"$T/c/ppo.lua"; echo "$T/c/ppo.lua")" cluster=cpus

# ---- what would be code in a script, or a line of Slurm's, is refused field by field
for pair in 'interface=eth0;id' 'interface=-a' 'interface=eth0 eth1' 'hosts=a,$(id)' 'hosts=-oProxyCommand,b' \
    'scratch=scratch' 'scratch=/a/../b' 'scratch=/a b' "name=a'b"; do
    check "clusters/safe/$pair" "cluster.${pair%%=*}: want" "$("$B/driver" config "$N" cluster=cpus "cluster.$pair" 2>&1 |
        grep -o "cluster.${pair%%=*}: want" | head -1)"
done
for pair in 'partition=a b' $'partition=a\n#SBATCH --wrap=id' 'account=`id`' 'qos=a|b' 'time=1:2:3:4' 'time=0' 'time=1-24' \
    'time=10:60' 'modules=cuda;id' 'modules=a b' 'container=a;b' 'container=$HOME/x' 'nccl=NCCL_X=$(id)' \
    'nccl=LD_PRELOAD=/x.so' 'nccl=NCCL_X'; do
    check "clusters/safe/${pair//[$'\n ']/_}" "cluster.${pair%%=*}: want" "$("$B/driver" config "$T/c/own.lua" \
        cluster.launcher=slurm "cluster.$pair" 2>&1 | grep -o "cluster.${pair%%=*}: want" | head -1)"
done
for time in 90 1:30 24:00:00 2-12 7-00:00:00; do
    check "clusters/time/$time" "cluster.time = \"$time\"" "$("$B/driver" config "$T/c/own.lua" cluster.launcher=slurm \
        "cluster.time=$time" 2>&1 | grep -o '^cluster.time = "[^"]*"')"
done

# ---- what the scripts say, and a text of a room as well
"$GEN" "$N" cluster=gpus cluster.launcher=slurm cluster.partition=p1,p2 cluster.account=acc cluster.qos=high \
    cluster.time=2-00 cluster.modules=cuda/13.0,nccl cluster.container=apptainer,exec,--nv,/i/x.sif \
    cluster.cpus_per_task=8 cluster.interface=eth1 cluster.nccl=NCCL_DEBUG=WARN -o "$T/c/out" >"$T/log" 2>&1
check clusters/emits 0 $?
check clusters/sbatch "--account=acc --cpus-per-task=8 --gpus-per-node=8 --nodes=2 --ntasks-per-node=8 --ntasks=16\
 --partition=p1,p2 --qos=high --time=2-00" "$(sed -n 's/^#SBATCH //p' "$T/c/out/train.slurm" |
    grep -e nodes -e ntasks -e time -e partition -e account -e qos -e cpus -e gpus | LC_ALL=C sort | paste -sd' ')"
check clusters/job "module load cuda/13.0 || exit;module load nccl || exit;[ -n \"\${NCCL_SOCKET_IFNAME:-}\" ] || export\
 NCCL_SOCKET_IFNAME='=eth1';[ -n \"\${NCCL_IB_DISABLE:-}\" ] || export NCCL_IB_DISABLE='1';[ -n \"\${NCCL_DEBUG:-}\" ] ||\
 export NCCL_DEBUG='WARN'" "$(grep -e '^module' -e '^\[ -n .*NCCL' "$T/c/out/train.slurm" | paste -sd';')"
check clusters/container 3 "$(grep -cF 'apptainer exec --nv /i/x.sif "$here/train"' "$T/c/out/train.slurm")"
check clusters/run.sh "CLUSTER=gpus NODES=2 HOSTS='' THREADS=8" "$(grep -e ^CLUSTER= -e ^NODES= -e ^HOSTS= -e ^THREADS= \
    "$T/c/out/run.sh" | paste -sd' ')"
for f in run.sh train.slurm; do bash -n "$T/c/out/$f" && ok "clusters/syntax/$f" || not_ok "clusters/syntax/$f" "see above"; done
"$GEN" --from plan "$T/c/out/ir/plan.ir" -o "$T/c/again" >"$T/log" 2>&1
check clusters/from "0 " "$? $(diff -r "$T/c/out" "$T/c/again" | head -3)"
edited() {                                    # edited NAME WANT SED: a plan's text that somebody changed
    sed "$3" "$T/c/out/ir/plan.ir" >"$T/c/edited.ir"
    check "clusters/edited/$1" "$2" "$("$GEN" --from plan "$T/c/edited.ir" -o "$T/c/bad" 2>&1 >/dev/null |
        head -1 | sed 's/^.*edited.ir:[0-9]*: //')"
    [ ! -e "$T/c/bad" ] || not_ok "clusters/edited/$1-wrote" "it wrote a folder"
}
edited code 'cluster: a line that no cluster has: "partition=p1;id"' 's/^| partition=.*/| partition=p1;id/'
edited name 'cluster: a line that no cluster has: "prolog=x"' 's/^| partition=.*/| prolog=x/'
edited nodes 'cluster: 16 ranks cannot be dealt evenly to 3 nodes' 's/^| nodes=2/| nodes=3/'
edited no_nodes 'cluster: no line nodes=N' '/^| nodes=2/d'

# ---- those that are shipped plan, and without one nothing of it is emitted
for pair in workstation:rtx4090x2_lora slurm_a100x4:a100x4_full h100x8_ssh:dpo_llama32_1b slurm_cpu:cpu_tiny; do
    "$GEN" plan "recipes/${pair#*:}.lua" "cluster=${pair%:*}" memory.limit_gib= >"$T/log" 2>&1
    check "clusters/shipped/${pair%:*}" 0 "$?"
done
check clusters/all-shipped "" "$(for f in recipes/clusters/*.lua; do
    grep -q "$(basename "$f" .lua):" tests/gold/clusters.sh || echo "$f"; done)"
"$GEN" "$N" target=cpu -o "$T/c/plain" >"$T/log" 2>&1
check clusters/plain "0 0 CLUSTER='' NODES=1" "$(grep -c 'set cluster' "$T/c/plain/ir/plan.ir") $(
    grep -c -e partition -e module "$T/c/plain/train.slurm") $(grep -e ^CLUSTER -e ^NODES "$T/c/plain/run.sh" | paste -sd' ')"
