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
check clusters/none "target: is required" "$("$B/driver" config "$T/c/own.lua" cluster= 2>&1 | grep -o 'target: is required')"
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
cluster_case path "cluster=a/b: must be a name, of recipes/clusters/NAME.lua" "$N" cluster=a/b
cluster_case odd "cluster=a b: must be a name below recipes/ made of letters, digits and _ . + - /, without \"..\"" "$N" \
    "cluster=a b"
cluster_case no_table "$C/five.lua:1: the file must return a table, got number" "$N" cluster=five
cluster_case neither "$N: cluster.card: set the GPU of its nodes (gen list cards), or target = \"cpu\" for a cluster of CPUs
$N:1: target: is required: target architecture; see \`gen list targets\`" "$N" cluster=neither
cluster_case no_card "cluster.card: none: for a cluster of CPUs also set target = \"cpu\"" "$N" cluster=neither \
    cluster.card=none target=cpu
cluster_case target_alone "cluster.target: sm_80 needs cluster.card, which also sets the memory (gen list cards)" "$N" \
    cluster=neither cluster.target=sm_80
cluster_case target_card "cluster.target: sm_90, but a a100-40 is sm_80; leave it out" "$T/c/own.lua" cluster.target=sm_90
cluster_case target "target: sm_90, but the nodes of cluster gpus have a100-40, which is sm_80; leave it out (target=)" \
    "$T/c/own.lua" target=sm_90
cluster_case memory "memory.limit_gib: 40, but a card of cluster gpus has 39.3; leave it out (memory.limit_gib=)" \
    "$T/c/own.lua" memory.limit_gib=40
refused memory_cpu "memory.limit_gib: 25, but a rank's share of a node of cluster cpus has 24; leave it out\
 (memory.limit_gib=)" memory.limit_gib=25
cluster_case all_of_none "gpus: all means the GPUs of the cluster, or else of this machine, whose driver shows none to a CPU program:\
 add cluster=NAME (gen list clusters), or give a number" "$N" target=cpu gpus=all
refused too_many "gpus: 10, but cluster cpus has 2 nodes x 4 = 8; gpus=all uses all of them" gpus=10
refused uneven "gpus: 3 cannot be divided evenly among the 2 nodes of cluster cpus; gpus=all uses all 8, cluster.nodes=1 one\
 node" gpus=3
refused too_large "$N: gpus: a cluster of 67108864 is larger than the largest, 65536; use fewer nodes" \
    cluster.nodes=65536 cluster.gpus_per_node=1024
refused unknown 'cluster.partitoin: unknown key; did you mean "partition"?' cluster.partitoin=x
refused slurm_only "cluster.partition: only for clusters whose launcher is slurm; here it is run.sh; leave it out" \
    cluster.partition=x
refused slurm_hosts "cluster.hosts: only for clusters whose launcher is run.sh or mpirun; slurm knows its nodes; leave it out" \
    cluster.launcher=slurm cluster.hosts=a,b
refused hosts "cluster.hosts: names 3 machines, but cluster.nodes = 2" cluster.hosts=a,b,c
refused torchrun "cluster.launcher: torchrun starts GPU programs; for CPUs use run.sh, mpirun or slurm" \
    cluster.launcher=torchrun
refused cpu_nccl "cluster.nccl: only for clusters with GPUs; leave it out" cluster.nccl=NCCL_DEBUG=INFO
cluster_case nccl_taken "cluster.nccl: NCCL_SOCKET_IFNAME is cluster.interface; leave it out" "$T/c/own.lua" \
    cluster.nccl=NCCL_SOCKET_IFNAME=eth0
cluster_case nccl_twice "cluster.nccl: NCCL_DEBUG is set twice" "$T/c/own.lua" \
    cluster.nccl=NCCL_DEBUG=INFO,NCCL_DEBUG=WARN
cluster_case text "$T/c/text.lua:1: cluster: write cluster = use \"clusters/gpus\"" \
    "$(echo "return { target = \"cpu\", cluster = \"gpus\", $model }" >"$T/c/text.lua"; echo "$T/c/text.lua")"
cluster_case whole "$T/c/ppo.lua:1: cluster: programs of the objective ppo run as one process on a CPU; leave it out" \
    "$(echo 'return { target = "cpu", objective = "ppo" }' >"$T/c/ppo.lua"; echo "$T/c/ppo.lua")" cluster=cpus

# ---- a card: target and memory follow from cards.def; on the command line it replaces the recipe's
echo "return { target = \"sm_90\", memory = { limit_gib = 139 }, $model }" >"$T/c/h200.lua"
echo "return { card = \"RTX 3080\", $model }" >"$T/c/card.lua"
echo "return { card = \"rtx3080\", target = \"sm_90\", $model }" >"$T/c/two.lua"
follows card "sm_86 1 9.6" "$T/c/card.lua"
follows card/replaces "sm_86 1 9.6" "$T/c/h200.lua" card=rtx3080
follows card/usual_memory "sm_90 1 0.0" "$T/c/h200.lua" card=h100
follows card/same "sm_89 1 0.0" "$N" card="RTX 4090" target=sm_89
follows card/b300 "sm_103 1 0.0" "$N" card=b300
follows card/rtx5090 "sm_120 1 0.0" "$N" card="RTX 5090"
follows card/rtxpro6000 "sm_120 1 95.0" "$N" card="RTX PRO 6000"
follows card/rtxpro6000-server "sm_120 1 95.0" "$N" card="RTX PRO 6000 Server"
follows card/gb10 "sm_121 1 0.0" "$N" card=GB10
follows card/cluster "sm_80 16 39.3 /scratch/me/own" "$T/c/own.lua" card=a100-40
follows card/left_out "cpu 1 0.0" "$T/c/card.lua" card= target=cpu
check clusters/card/hash "$(hash_of "$N" target=sm_86 memory.limit_gib=9.6)" "$(hash_of "$T/c/card.lua")"
cluster_case card/target "card: rtx3080 is sm_86, but target = \"sm_90\" (the command line); leave one of them out" \
    "$N" card=rtx3080 target=sm_90
cluster_case card/limit "card: rtx3080 has 9.6 GiB, but memory.limit_gib = 40 (the command line); leave one of them out" \
    "$N" card=rtx3080 memory.limit_gib=40
cluster_case card/recipe "$T/c/two.lua:1: card: rtx3080 is sm_86, but target = \"sm_90\" ($T/c/two.lua:1); leave one of\
 them out" "$T/c/two.lua"
cluster_case card/typed_target "$T/c/card.lua:1: card: rtx3080 is sm_86, but target = \"cpu\" (the command line); leave\
 one of them out (card=)" "$T/c/card.lua" target=cpu
cluster_case card/other_cluster "card: h100, but cluster.card = \"a100-40\" ($C/gpus.lua:1); leave one of them out" \
    "$T/c/own.lua" card=h100
cluster_case card/of_cpus "card: h100 is sm_90, but cluster.target = \"cpu\" ($C/cpus.lua:1); leave one of them out" \
    "$N" cluster=cpus card=h100
cluster_case card/whole "card: recipes whose objective is ppo train no model of layers and have no such field; leave it out" \
    "$T/c/ppo.lua" card=h100
for pair in "h1000|did you mean h100?" "3080|did you mean rtx3080?" "A100-SXM4-80GB|did you mean a100?" \
    "DGX Spark|did you mean gb10?" "banana|gen list cards prints the known ones" "NVIDIA H200|tune.card; as a card it is h200"; do
    for field in card cluster.card; do
        check "clusters/$field/${pair%|*}" 1 "$("$B/driver" config "$T/c/own.lua" "$field=${pair%|*}" 2>&1 |
            grep -cF -- "${pair#*|}")"
    done
done
# tune = "required" is the short form of tune.lock, also with tune.card
for words in "tune=required tune.card=x" "tune.card=x tune=required"; do
    # shellcheck disable=SC2086      # words
    check "clusters/tune/$words" 'tune.lock = "required" tune.card = "x"' "$("$B/driver" config "$N" card=h100 $words |
        sed -n 's/^\(tune.*\)  # .*/\1/p' | paste -sd' ')"
done

# ---- what would be code in a script, or a line of Slurm's, is refused field by field
for pair in 'interface=eth0;id' 'interface=-a' 'interface=eth0 eth1' 'hosts=a,$(id)' 'hosts=-oProxyCommand,b' \
    'scratch=scratch' 'scratch=/a/../b' 'scratch=/a b' "name=a'b"; do
    check "clusters/safe/$pair" "cluster.${pair%%=*}: must be" "$("$B/driver" config "$N" cluster=cpus "cluster.$pair" 2>&1 |
        grep -o "cluster.${pair%%=*}: must be" | head -1)"
done
for pair in 'partition=a b' $'partition=a\n#SBATCH --wrap=id' 'account=`id`' 'qos=a|b' 'time=1:2:3:4' 'time=0' 'time=1-24' \
    'time=10:60' 'modules=cuda;id' 'modules=a b' 'container=a;b' 'container=$HOME/x' 'nccl=NCCL_X=$(id)' \
    'nccl=LD_PRELOAD=/x.so' 'nccl=NCCL_X'; do
    check "clusters/safe/${pair//[$'\n ']/_}" "cluster.${pair%%=*}: must be" "$("$B/driver" config "$T/c/own.lua" \
        cluster.launcher=slurm "cluster.$pair" 2>&1 | grep -o "cluster.${pair%%=*}: must be" | head -1)"
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
# tests of run.sh fill in the same rows of launchers.def
check clusters/engines "" "$(. tests/runtime/launcher.sh && engines_sh >"$T/c/engines" &&
    sed -n '/^engines=(/,/^file=/p' "$T/c/out/run.sh" | head -n "$(wc -l <"$T/c/engines")" | diff - "$T/c/engines" | head -5)"
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
edited nodes 'cluster: 16 ranks cannot be divided evenly among 3 nodes' 's/^| nodes=2/| nodes=3/'
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

# ---- what is said of it
check clusters/list "cpus 2 x 4 cpu, run.sh" "$(mkdir -p "$T/c/recipes/clusters" && cp "$C/cpus.lua" "$T/c/recipes/clusters" &&
    cd "$T/c" && "$OLDPWD/$GEN" list clusters | grep '^  cpus ' | xargs)"
check clusters/plan "cluster gpus: 2 nodes x 8 a100-40 on pcie, ethernet, started by run.sh" "$("$GEN" plan "$T/c/own.lua" |
    grep '^cluster')"
check clusters/info "sbatch out/own/train.slurm" "$("$GEN" info "$T/c/own.lua" cluster.launcher=slurm | grep -o 'sbatch .*')"
check clusters/json '"name":"gpus"' "$("$GEN" plan "$T/c/own.lua" --json | tr -d '\n\t ' | grep -o '"cluster":{"name":"gpus"' |
    cut -c12-)"
check clusters/diff "cluster.nodes 2 4" "$("$GEN" diff "$T/c/own.lua" cluster.nodes=4 | grep '^ *cluster.nodes' | tr -d '>-' | xargs)"

# ---- gen config
config_says() {                               # config_says NAME CODE WANT WORDS...: the first line of what it says
    local name=$1 code=$2 want=$3
    shift 3
    DIECAST_CONFIG=$T/c/machine "$GEN" config "$@" </dev/null >"$T/out" 2>&1
    check "config/$name" "$code $want" "$? $(head -1 "$T/out" | sed 's/^gen: //')"
}
config_says no_terminal 1 "config: no terminal to ask on: give --nodes (how many machines take part in a run)"
config_says missing 1 "config: no terminal to ask on: give --node-rank (which of them is this, from 0), --master-addr (name\
 or address of machine 0)" --nodes 2
config_says rank 1 "config: --node-rank: 2 of 2 machines; must be from 0 to 1" --nodes 2 --node-rank 2 --master-addr h
config_says one 1 "config: --master-addr: is for several machines; add --nodes N" --nodes 1 --master-addr h
config_says gpus 1 'config: --gpu-ids: must be numbers of GPUs such as 0,1, each once, or all, got "0,0"' --nodes 1 --gpu-ids 0,0
config_says host 1 'config: --master-addr: must be a host name or address, got "-x;id"' --nodes 2 --node-rank 0 \
    --master-addr '-x;id'
config_says port 1 'config: --master-port: must be a port, 1 to 65535, got "65536"' --nodes 2 --node-rank 0 --master-addr h \
    --master-port 65536
config_says precision 1 "config: --mixed-precision: precision is a recipe field: add precision=bf16 to gen RECIPE or gen\
 new FILE.lua" --mixed-precision fp16
config_says unknown 1 "config: unknown option --nods; did you mean --nodes?" --nods 2
config_says both 1 "config: give only one of --show, --cluster and a machine's flags" --show --nodes 2
config_says stray 1 "config: card=a100: is for --cluster NAME" card=a100
config_says no_value 1 "config: --nodes: needs N after it" --nodes
config_says show_none 1 "config: $T/c/machine: No such file or directory; gen config writes it" --show
[ ! -e "$T/c/machine" ] || not_ok config/nothing "a refusal wrote the file"
config_says all 0 "$T/c/machine:" --nodes 1 --gpu-ids all
check config/all_gpus "NNODES=1" "$(grep -v '^#' "$T/c/machine")"
config_says writes 0 "$T/c/machine:" --nodes 2 --node-rank=1 --master-addr h0 --gpu-ids 0,1
check config/file "NNODES=2 NODE_RANK=1 MASTER_ADDR=h0 MASTER_PORT=29500 GPU_IDS=0,1" "$(grep -v '^#' "$T/c/machine" | paste -sd' ')"
config_says show 0 "# $T/c/machine" --show
echo 'NODE_RANK=$(id)' >"$T/c/machine"
config_says show_bad 1 "$T/c/machine:1: NODE_RANK: must be a number from 0, got \"\$(id)\"" --show
config_says cluster 0 "$T/c/new/mine.lua:" --cluster mine -o "$T/c/new" card=a100 nodes=2 launcher=slurm modules=a,b
check config/cluster-file 'return { card = "a100", nodes = 2, launcher = "slurm", modules = {"a", "b"}, }' "$(grep -v '^--' \
    "$T/c/new/mine.lua" | tr -s ' \n' ' ' | sed 's/ $//')"
config_says cluster_there 1 "$T/c/new/mine.lua: exists; --force overwrites it" --cluster mine -o "$T/c/new" \
    target=cpu
config_says cluster_bad 1 "cluster.time: must be MINUTES, HH:MM:SS, DAYS-HH or DAYS-HH:MM:SS, got \"x\"" --cluster b \
    -o "$T/c/new" card=a100 launcher=slurm time=x
config_says cluster_device 1 "config: --cluster b: add card=NAME, the GPU of its nodes (gen list cards), or target=cpu" \
    --cluster b -o "$T/c/new" nodes=2
config_says cluster_none 1 "config: no terminal to ask on: give words FIELD=VALUE: card=NAME or target=cpu, nodes=N,\
 gpus_per_node=N, launcher=slurm ... (gen fields, cluster)" --cluster b -o "$T/c/new"
config_says cluster_name 1 'config: --cluster: must be a name of up to 64 letters, digits and _ . -, got "../x"' --cluster ../x \
    target=cpu
# a disk that fails leaves the file as it was
echo 'int fsync(int fd) { (void)fd; *__errno_location() = 5; return -1; }' >"$T/fsync.c"
gcc -shared -fPIC -include errno.h -o "$T/fsync.so" "$T/fsync.c"
cp "$T/c/new/mine.lua" "$T/before.lua"
LD_PRELOAD=$T/fsync.so config_says disk 1 "cannot write $T/c/new/mine.lua: Input/output error" --cluster mine \
    -o "$T/c/new" --force card=h100
check config/disk_kept "mine.lua" "$(ls "$T/c/new")$(cmp "$T/before.lua" "$T/c/new/mine.lua")"
if command -v script >/dev/null; then
    printf '2\nx\n1\nnode0\n\n\n' | DIECAST_CONFIG=$T/c/asked script -qec "$GEN config" /dev/null >"$T/out" 2>&1
    check config/asked "NNODES=2 NODE_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29500" "$(grep -v '^#' "$T/c/asked" | paste -sd' ')"
fi
# what joins the cards of a node changes the estimate of their sums
sums() { "$GEN" info recipes/a100x4_full.lua cluster=slurm_a100x4 "cluster.link=$1" --json 2>/dev/null |
    sed -n 's/.*"ranks_seconds":[^0-9]*\([0-9.]*\).*/\1/p'; }
check clusters/link 1 "$(awk -v a="$(sums pcie)" -v b="$(sums nvlink)" 'BEGIN { print (a > 10 * b && b > 0) + 0 }')"
