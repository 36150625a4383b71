#!/bin/bash
# gen doctor: sample trees of /proc and /sys, libraries hidden one by one, a driver of the tests with 1, 2 and 8 GPUs in
# several topologies, its program for GPUs on the simulator, and whole runs.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/builds/lib.sh
. tests/verdict.sh
gen=$PWD/${GEN:-out/.gen/gen}
work=out/.test/doctor
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
mkdir -p $work "$T"/{driver,home,none}
for name in $(compgen -e | grep -E '^(NCCL|SLURM|OMPI|PMI|PET|SKYPILOT|MV2|DIECAST|TORCHELASTIC|CUDA)') \
    RANK WORLD_SIZE NNODES NODE_RANK \
    MASTER_ADDR MASTER_PORT CC CXX MPICC MPIRUN NVCC; do
    unset "$name"
done

same() { [ "$2" = "$3" ]; verdict_of "$1" $? "want '$2', got '$3'"; }
says() { grep -qxE -- "$2" "$T/out"; verdict_of "$1" $? "no line '$2' in: $(cat "$T/out")"; }
has() { grep -qE -- "$2" "$T/out"; verdict_of "$1" $? "no '$2' in: $(cat "$T/out")"; }
hasnt() { ! grep -qE -- "$2" "$T/out"; verdict_of "$1" $? "'$2' in: $(grep -E -- "$2" "$T/out")"; }

# shellcheck disable=SC2046
{
    gcc -std=c11 -Wall -Wextra -Werror -O1 -I. tests/doctor/main.c \
        $(find out/.obj -name '*.o' ! -path out/.obj/gen/main.o) \
        -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm -o $work/parts 2>"$T/cc" &&
        gcc -std=c11 -Wall -Wextra -Werror -shared -fPIC tests/doctor/nvml.c \
        -o "$T/driver/libnvidia-ml.so.1" 2>>"$T/cc" &&
        echo 'int x;' | gcc -shared -fPIC -x c - -o "$T/driver/libcuda.so.1" 2>>"$T/cc"
    verdict_of "its parts by themselves compile" $? "$(head -3 "$T/cc")"
}
part() { $work/parts "$@" >"$T/out" 2>&1 || echo "exit $?" >>"$T/out"; }

# ---- sample trees

tree=$T/two
mkdir -p "$tree"/{etc,dev/shm,proc/sys/kernel,sys/devices/system/node/node{0,1},sys/fs/cgroup} \
    "$tree"/sys/class/infiniband/mlx5_{0,1}/ports/1 "$tree"/sys/bus/pci/devices/0000:{65,66,00}:00.0
printf 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n' >"$tree/etc/os-release"
echo 6.8.0-45-generic >"$tree/proc/sys/kernel/osrelease"
for cpu in 0 1 2 3 4 5 6 7; do      # two sockets of two cores of two threads
    printf 'processor\t: %d\nmodel name\t: AMD EPYC 7763 64-Core Processor\nphysical id\t: %d\ncore id\t\t: %d\n' \
        $cpu $((cpu / 4)) $((cpu % 2))
    printf 'flags\t\t: fpu avx avx2 bmi1 bmi2 f16c fma abm movbe\npower management:\n\n'
done >"$tree/proc/cpuinfo"
printf 'MemTotal:       8388608 kB\nMemFree:  1 kB\nMemAvailable:   4194304 kB\nSwapTotal:  1048576 kB\nSwapFree: 524288 kB\n' \
    >"$tree/proc/meminfo"
echo 0-3 >"$tree/sys/devices/system/node/node0/cpulist"
echo 4-7 >"$tree/sys/devices/system/node/node1/cpulist"
echo '4: ACTIVE' >"$tree/sys/class/infiniband/mlx5_0/ports/1/state"
echo '400 Gb/sec (4X NDR)' >"$tree/sys/class/infiniband/mlx5_0/ports/1/rate"
echo InfiniBand >"$tree/sys/class/infiniband/mlx5_0/ports/1/link_layer"
echo '1: DOWN' >"$tree/sys/class/infiniband/mlx5_1/ports/1/state"
for card in 65 66; do
    echo 0x10de >"$tree/sys/bus/pci/devices/0000:$card:00.0/vendor"
    echo 0x030200 >"$tree/sys/bus/pci/devices/0000:$card:00.0/class"
done
echo 0x10de >"$tree/sys/bus/pci/devices/0000:00:00.0/vendor"       # its bridge
echo 0x060400 >"$tree/sys/bus/pci/devices/0000:00:00.0/class"

part system "$tree"
says "system: distribution" 'ok distribution: Ubuntu 24.04.1 LTS, kernel 6.8.0-45-generic'
says "system: sockets, cores, threads" 'ok CPU: AMD EPYC 7763 64-Core Processor, 2 sockets, 4 cores, 8 threads'
says "system: instructions" 'ok instructions: AVX2, FMA'
says "system: memory" 'ok memory: 8.0 GiB, 4.0 GiB free'
says "system: swap" 'ok swap: 1.0 GiB, 512.0 MiB free'
says "system: NUMA" 'ok NUMA: 2 nodes: CPUs 0-3; CPUs 4-7'
says "system: this CPU runs the target" 'ok target: cpu: .*'
part system "$tree" cpu_v4
says "system: it does not run that of AVX-512" \
    'missing target: cpu_v4 is .*; this CPU is without avx512f avx512bw avx512cd avx512dq avx512vl'
says "system: bf16 without instructions" 'warning precision: bf16 is slow on this CPU.*'
says "system: more than there is" 'missing memory planned: 10.0 GiB for 2 ranks here, more than the 8.0 GiB there are'
NNODES=2 part system "$tree" cpu
says "system: more than is free, on each of two machines" \
    'warning memory planned: 5.0 GiB for 1 rank here, of which 4.0 GiB are free now'
echo 2147483648 >"$tree/sys/fs/cgroup/memory.max"
echo 1073741824 >"$tree/sys/fs/cgroup/memory.current"
part system "$tree"
says "system: a container's memory" "ok memory: 2.0 GiB, 1.0 GiB free \(this container's, of 8.0 GiB\)"
mkdir -p "$T/bare/proc"
sed -i '/^flags/s/ avx2/& amx_tile/' "$tree/proc/cpuinfo"
part system "$tree"
says "system: instructions that the tests have not met" 'ok instructions: AVX2, FMA, AMX \(never tested\)'
sed -i '/^flags/s/ avx2//' "$tree/proc/cpuinfo"
part system "$tree"
says "system: no AVX2" 'missing target: cpu is .*; this CPU is without avx2'
part system "$T/bare"
says "system: nothing to read" 'ok distribution: unknown, kernel unknown'

(
    ulimit -S -n 256 -s 4096
    part limits x
)
says "limits: files" 'warning open files: 256, less than 1024: .*'
says "limits: stack" 'warning stack: 4.0 MiB, less than 8.0 MiB: .*'
part network "$tree"
says "InfiniBand: active" 'ok InfiniBand: mlx5_0 port 1: 4: ACTIVE, 400 Gb/sec \(4X NDR\), InfiniBand'
says "InfiniBand: down" 'warning InfiniBand: mlx5_1 port 1: 1: DOWN, unknown rate, unknown link'
MASTER_PORT=1x part network "$T/bare"
says "a port that is none" 'warning port: MASTER_PORT=1x: want a port from 1 to 65534'
MASTER_PORT=29777 TORCHELASTIC_USE_AGENT_STORE=True part network "$T/bare"
says "the port with torchrun's agent" "ok port: 29778 is .*, one more than MASTER_PORT, where torchrun's agent listens"

interface() { same "NCCL's interface: $*" "$1" "$($work/parts interface x "${@:2}")"; }
interface eth0 - lo:lo docker0 eth0 eth1
interface ib1 - lo:lo eth0 down:ib0 ib1
interface docker0 - lo:lo virbr0 docker0
interface lo - lo:lo down:eth0
interface eth1 =eth1 eth10 eth1
interface eth10 eth1 eth10 eth1
interface eth2 ^eth0,eth1 eth0 eth1 eth2
interface eth01 ^=eth0 eth0 eth01
interface none wlan lo:lo eth0
visible() { same "visible by $2" "$1" "$($work/parts visible x "$2")"; }
visible "0 1 2 3" -
visible "2 0" 2,0
visible "3 1" GPU-dd44,GPU-bb22
visible "1" 1,7,0
visible "" 1,1
visible "" ""
visible "" x

# ---- launchers

# ---- what a cluster wants of a node
mkdir -p "$T/net/sys/class/net"/{lo,eth0,eth1} "$T/clusters"
echo up >"$T/net/sys/class/net/eth0/operstate"
echo down >"$T/net/sys/class/net/eth1/operstate"
node() {                # node FIELDS GPUS CAPABILITY GIB
    echo "return { $1 }" >"$T/clusters/c.lua"
    part cluster "$T/net" "$T/clusters/c.lua" "$2" "$3" "$4"
}
gpus='card = "a100", gpus_per_node = 4, nodes = 2'
node "$gpus, interface = \"eth0\", scratch = \"$T\"" 4 80 79.2
says "cluster: launcher" "ok launcher: run.sh"
says "cluster: cards" "ok card: 4 x a100"
says "cluster: interface" "ok interface: eth0"
has "cluster: scratch" "^ok scratch: $T: .* left$"
node "$gpus, interface = \"eth1\", network = \"infiniband\", scratch = \"$T/absent\"" 4 80 39.4
says "cluster: smaller cards" "missing card: a100 with 79 GiB, the smallest GPU here has 39.4"
says "cluster: interface that is down" "missing interface: eth1 is down"
says "cluster: no InfiniBand" "warning InfiniBand: no adapter here, the cluster has it"
says "cluster: no scratch" "missing scratch: $T/absent: there is no such folder"
node "$gpus, interface = \"ib0\", hosts = { \"elsewhere1\", \"elsewhere2\" }" 2 80 79.2
says "cluster: fewer cards" "warning card: 4 x a100 a node, here are 2"
says "cluster: no such interface" "missing interface: ib0: none of that name; there are: eth0, eth1, lo"
says "cluster: another machine" "warning host: $(hostname) is none of cluster.hosts"
node "$gpus" 4 90 79.2
says "cluster: another card" "missing card: a100 is sm_80, the first GPU here sm_90"
node "$gpus" 0 0 0
says "cluster: no card" "missing card: 4 x a100 a node, here is no GPU"
PATH=$T/none node "$gpus, launcher = \"slurm\"" 4 80 79.2
says "cluster: no launcher" "missing launcher: slurm: no srun on PATH"

part launch x
says "launch: nothing set" 'ok launcher: none: out/NAME/run.sh starts all ranks'
RANK=1 part launch x
says "launch: half of a launcher" 'warning launcher: RANK=1: set without WORLD_SIZE'
RANK=1 WORLD_SIZE=4 DIECAST_SECRET=hush NCCL_DEBUG=INFO part launch x cpu
says "launch: variables are shown" 'ok NCCL_DEBUG: INFO'
says "launch: the secret is not" 'ok DIECAST_SECRET: \(set, not shown\)'
says "launch: another number of ranks" 'warning ranks: torchrun says 4, the recipe 2'
NNODES=2 NODE_RANK=1 ACCELERATE_MIXED_PRECISION=fp16 part launch x cpu
says "launch: run.sh takes the nodes" 'ok launcher: none: .*'
PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=4 SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=1 part launch x cpu
says "launch: run.sh takes the nodes of others" 'ok launcher: none: .*'
says "launch: the nodes of others are shown" 'ok PET_NNODES: 2'
NNODES=2 NODE_RANK=1 ACCELERATE_MIXED_PRECISION=fp16 part launch x cpu
says "launch: another precision" 'warning precision: ACCELERATE_MIXED_PRECISION=fp16, but the recipe has bf16'

# ---- libraries hidden one by one: a gcc that does not see a header, one that does not find a library

part libraries x
for name in Lua libyaml cJSON PCRE2 utf8proc OpenSSL oneDNN; do says "libraries: $name" "ok $name: [0-9.]*; .*"; done
mkdir "$T/bin"
real=$(PATH=${PATH//\/usr\/lib\/ccache:/} command -v gcc)      # ccache would look for a gcc behind itself: ours again
cat >"$T/bin/gcc" <<END
#!/bin/bash
words=()
for word; do
    case \$word in
    -I/usr/include/lua5.4) [ "\$HIDE_HEADER" = lua.h ] || words+=("\$word") ;;
    -l\$HIDE_LIBRARY) words+=(-lhidden) ;;
    *) words+=("\$word") ;;
    esac
done
if [ -n "\$HIDE_HEADER" ]; then
    sed "s|__has_include(<\$HIDE_HEADER>)|0|" | $real "\${words[@]}"
else
    exec $real "\${words[@]}"
fi
END
chmod +x "$T/bin/gcc"
hidden() {              # NAME HEADER LIBRARY PACKAGE STATE: gen runs, so what only gen needs is a warning
    PATH=$T/bin:$PATH HIDE_HEADER=$2 HIDE_LIBRARY= part libraries x
    says "hidden: header of $1" "$5 $1: no header $2.*\[$4\]"
    same "hidden: only that of $1" 1 "$(grep -v -e CUDA -e cuBLASLt -e NCCL -e cairo "$T/out" | grep -vc '^ok ')"
    [ "$1" = oneDNN ] || return
    PATH=$T/bin:$PATH HIDE_HEADER= HIDE_LIBRARY=$3 part libraries x
    says "hidden: library of $1" "missing $1: [0-9.]*, but does not link: cannot find -lhidden.*\[$4\]"
}
hidden Lua lua.h lua5.4 liblua5.4-dev warning
hidden libyaml yaml.h yaml libyaml-dev warning
hidden cJSON cjson/cJSON.h cjson libcjson-dev missing
hidden PCRE2 pcre2.h pcre2-8 libpcre2-dev missing
hidden utf8proc utf8proc.h utf8proc libutf8proc-dev missing
hidden OpenSSL openssl/evp.h crypto libssl-dev warning
hidden oneDNN oneapi/dnnl/dnnl.h dnnl libdnnl-dev missing
mkdir "$T/broken"
for name in libdnnl.so.2 libcairo.so.2; do echo broken >"$T/broken/$name"; done
LD_LIBRARY_PATH=$T/broken part libraries x
says "broken: oneDNN" 'missing oneDNN: does not load: .*\[libdnnl-dev\]'
says "broken: cairo" 'warning cairo: libcairo.so.2 does not load: .*; plots are not drawn without it \[libcairo2\]'
# every package that doctor names is in the one list, and every one of those that are built with has a row
same "packages: those of gen/deps.sh" "" "$(gen/deps.sh list | sort -u | comm -3 - <($work/parts packages x |
    sort -u) | tr -d '\t')"

# ---- GPUs

gpus() {                # ROOT TARGET RANKS: the machine is read from stdin
    cat >"$T/nvml"
    FAKE_NVML=$T/nvml LD_LIBRARY_PATH=$T/driver part gpus "$@"
}
h200() { for ((i = 0; i < $1; i++)); do echo "gpu 9 0 140.4 0.4 0 NVIDIA H200"; done; }
part gpus "$tree"
says "GPUs: cards without a driver" 'missing driver: libnvidia-ml.so.1: .*, though 2 NVIDIA cards are on the bus'
LD_LIBRARY_PATH=$T/driver part gpus "$tree"
has "GPUs: a driver that does not start" '^missing driver: libnvidia-ml.so.1: nvmlInit_v2 failed \(9\): is the driver loaded'

{ echo "driver 580.65.06 13000"; h200 1; } | gpus x
says "one GPU: driver" 'ok driver: 580.65.06, for CUDA up to 13.0'
says "one GPU" 'ok GPU 0: NVIDIA H200, 140.4 GiB, 140.0 GiB free, compute capability 9.0 \(sm_90\), 00000000:10:00.0'
says "one GPU: nothing to join" 'ok links: one GPU: nothing to join'
echo "gpu 7 5 15 0 0 Tesla T4" | gpus x
has "a card without a target" '^warning GPU 0: Tesla T4, .* 7.5, for which gen has no target'
echo "gpu 8 9 23.5 20 2 RTX 4090" | gpus x sm_90 1
has "a card in use" '^warning GPU 0: .*; in use by 2 processes: pid 1000: 1.0 GiB, pid 1001: 1.0 GiB$'
says "another capability" 'missing GPU 0: has compute capability 8.9, target sm_90 needs 9.0'
says "too little memory" \
    'missing GPU 0: has 3.5 GiB free of 23.5 GiB, the plan takes 5.0 GiB and the context about 1.5 GiB'
h200 1 | gpus x sm_90 2
says "too few" 'missing number: the recipe needs 2 GPUs here, programs see 1'
h200 1 | CUDA_VISIBLE_DEVICES=3 gpus x
says "none is visible" 'missing number: CUDA_VISIBLE_DEVICES=3 shows none of the 1'

{ h200 2; echo "pair 0 1 40 4"; } | gpus x
says "two by NVLink" 'ok links of 0: X     NV4'
hasnt "two by NVLink: nothing apart" '^warning split'
h200 2 | gpus x
says "two sockets" 'ok links of 1: SYS   X'
says "two sockets: told" 'warning split pairs: GPUs 0-1 \(SYS\): sums of gradients take the way of the slowest'
{ h200 8; echo "switch 18"; } | gpus x
says "eight on a switch" 'ok links of 7: NV18  NV18  NV18  NV18  NV18  NV18  NV18  X'
hasnt "eight on a switch: nothing apart" '^warning split'
{ h200 8; for a in 0 1 2 3; do for ((b = a + 1; b < 4; b++)); do
    echo "pair $a $b 20 0"; echo "pair $((a + 4)) $((b + 4)) 10 0"; done; done; } >"$T/pcie"
gpus x sm_90 4 <"$T/pcie"
says "eight on PCIe" 'ok links of 0: X     PXB   PXB   PXB   SYS   SYS   SYS   SYS'
hasnt "four of one socket: nothing apart" '^warning split'
CUDA_VISIBLE_DEVICES=0,4,1,5 gpus x sm_90 2 <"$T/pcie"
has "two of two sockets" '^warning split pairs: GPUs 0-4 \(SYS\)'
gpus x <"$T/pcie"
has "all of two sockets" '^warning split pairs: GPUs 0-4 \(SYS\), .*, \.\.\.:'
says "what the words mean" 'ok links: PIX one PCIe switch; PXB several PCIe switches; SYS from socket to socket'
{ h200 4; echo "pair 0 2 30 4"; echo "pair 1 3 30 4"; echo "pair 0 1 30 0"; echo "pair 2 3 30 0"; } | gpus x sm_90 2
says "a pair without the NVLink that others have" 'warning split pairs: GPUs 0-1 \(PHB\): .*'
{ echo "driver 535.10 12020"; echo "gpu 9 0 140 0 0 NVIDIA H200"; echo "gpu 8 0 79 0 0 NVIDIA A100"; } | gpus x
says "an old driver" 'missing driver: is for CUDA 12, nvcc makes programs of CUDA 13'
says "cards that differ" 'warning order: the cards differ: .*'

# ---- whole runs

R=$T/r.lua
cat >"$R" <<'END'
return {
    target = "sm_90", precision = "bf16", gpus = 2,
    model = { family = "gpt2", layers = 2, hidden = 64, heads = 2, vocab = 300, positions = 64 },
    seq = { max = 32 }, batch = { micro = 2 },
}
END
doctor() { "$gen" doctor "$@" >"$T/out" 2>&1; code=$?; }
doctor
same "a machine without a recipe" 0 $code
for section in system compilers libraries GPUs network launch trials summary; do
    says "section $section" "$section"
done
says "CPU programs" '  CPU programs, several ranks  builds here: yes, runs here: yes'
says "two ranks of MPI" '  ok       MPI              two ranks met and summed: .*'
export CUDA=$T/none                # without nvcc, from here on
doctor --json recipes/cpu_tiny.lua
same "JSON" "0 1 1 1" "$code $(grep -cx '  "builds": true,' "$T/out") $(grep -cx '  "runs": true,' "$T/out") \
$(grep -cx '  "recipe": "recipes/cpu_tiny.lua",' "$T/out")"
has "JSON: facts" '"avx2":'
hasnt "a CPU recipe needs no GPU" '"missing"'
mkdir "$T/tools"
for name in make sed bash; do ln -s "$(command -v $name)" "$T/tools/"; done
PATH=$T/tools doctor recipes/cpu_tiny.lua gpus=2
same "no compiler" 1 $code
has "no compiler: told" '^  missing  C compiler       gcc is missing; compiles gen and programs'
has "no launcher: told" '^  missing  MPI launcher     mpirun.openmpi\|mpirun is missing'
says "no compiler: neither" '  recipes/cpu_tiny.lua: builds here: no, runs here: no'
for name in as ld; do ln -s "$(command -v $name)" "$T/tools/"; done
PATH=$T/tools CC=$real doctor recipes/cpu_tiny.lua
says "a compiler by CC" '  recipes/cpu_tiny.lua: builds here: yes, runs here: yes'
printf '#!/bin/bash\nsleep 60\n' >"$T/tools/gcc"
chmod +x "$T/tools/gcc"
ln -s "$(command -v sleep)" "$T/tools/"
PATH=$T/tools DIECAST_TIMEOUT_SCALE=0.02 doctor recipes/cpu_tiny.lua
has "a compiler that hangs" '^  missing  C compiler       gcc does not say its version: no answer'
DIECAST_TIMEOUT_SCALE=5s doctor recipes/cpu_tiny.lua
has "a scale of times that programs refuse" '^  warning  times            DIECAST_TIMEOUT_SCALE=5s: want a number from 0.001 to 1000: unset it'
says "a scale of times: does not run" '  recipes/cpu_tiny.lua: builds here: yes, runs here: no'
doctor recipes/cpu_tiny.lua --jsn
same "a misspelt option" "1 gen: doctor: unknown option --jsn; did you mean --json?" "$code $(cat "$T/out")"
# a gen that does not start: make says which library, and what is not installed
mkdir "$T/lua"
echo broken >"$T/lua/liblua5.4.so.0"
printf '#!/bin/bash\n[ "${!#}" = liblua5.4-dev ] || echo installed\n' >"$T/tools/dpkg-query"
chmod +x "$T/tools/dpkg-query"
ln -sf /bin/true "$T/tools/apt-get"
PATH=$T/tools:$PATH gen/deps.sh check >"$T/out" 2>&1
same "packages: missing ones are named" "1 missing  packages: liblua5.4-dev: apt-get install liblua5.4-dev" \
    "$? $(cat "$T/out")"
LD_LIBRARY_PATH=$T/lua out/.gen/gen --version >/dev/null 2>&1 && verdict_of "gen loads Lua" 1 "it does not"
LD_LIBRARY_PATH=$T/lua make -s doctor GEN=out/.gen/gen >"$T/out" 2>&1
same "make doctor without Lua" 2 $?
has "make doctor without Lua: told" 'liblua5.4.so.0'
doctor "$R"
same "a CUDA recipe without a GPU" 1 $code
says "a CUDA recipe without a GPU runs elsewhere" ".*/r.lua: builds here: (yes|no), runs here: no"
hasnt "cuDNN: only where it is used" cuDNN
echo broken >"$T/broken/libcudnn.so.9"
CUDA=$T LD_LIBRARY_PATH=$T/broken doctor recipes/h200x1_tiny.lua kernels.attention=cudnn
says "broken: cuDNN" '  missing +cuDNN +libcudnn.so.9 does not load: .*; kernels.attention = "cudnn".*'
has "broken: cuDNN: its package" 'libcudnn9-cuda-13'

# ---- the program for GPUs, on the simulator

toolkit=$(tests/sim/toolkit.sh fast 2>"$T/err") || verdict_of "the simulator" 1 "$(tail -3 "$T/err")"
mkdir -p "$T/cuda/bin"
ln -s "$toolkit/lib64" "$toolkit/include" "$T/cuda/"
for file in "$toolkit"/{flags,prelude.h,prelude.h.gch}; do ln -s "$file" "$T/cuda/"; done
ln -s "$PWD/tests/sim/nvcc" "$T/cuda/bin/sim"
cat >"$T/cuda/bin/nvcc" <<END
#!/bin/bash
case "\$*" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
--list-gpu-code) printf 'sm_80\nsm_90\n' ;;
*" -E "*) ;;
*) exec "\${0%/*}/sim" "\$@" ;;
esac
END
chmod +x "$T/cuda/bin/nvcc"
{ echo "driver 580.65.06 13000"; h200 2; echo "pair 0 1 10 2"; } >"$T/nvml"
simulated() {           # [NAME=VALUE ...]: doctor of R on two simulated GPUs
    (
        export CUDA=$T/cuda FAKE_NVML=$T/nvml LD_LIBRARY_PATH=$T/driver DIECAST_SIM_DEVICES=2 \
            DIECAST_SIM_MEMORY_GIB=0.55 "$@"
        doctor "$R"
        exit $code
    )
}
simulated
same "two GPUs: it runs" "0" $?
for line in 'product 0 ' 'product 1 ' 'memory 0 ' 'memory 1 ' 'NCCL 0 ' 'NCCL 1 '; do
    has "two GPUs: $line" "^  ok       $line"
done
has "two GPUs: copies" '^  ok       copies           each of 2 GPUs to each other, every value compared$'
has "two GPUs: multiprocessors" '^  ok       device 0         Simulated GPU sm_90, 132 multiprocessors, compute capability 9.0$'
simulated DIECAST_SIM_DEVICES=1
same "a GPU that does not answer" "1" $?
has "a GPU that does not answer: told" '^  missing  product 1        cudaSetDevice\(number\): '
same "a GPU that does not answer: nobody waits for it" "" "$(grep 'does not end' "$T/out")"
sed 's/sm_90/sm_121/' "$R" >"$T/later.lua"
CUDA=$T/cuda doctor "$T/later.lua"
has "a target that nvcc does not know" \
    '^  missing  nvcc  .*/nvcc 13.0 does not know sm_121: install CUDA toolkit 12.9 or later$'
nvcc=$(nvcc_path)
if [ -n "$nvcc" ]; then
    "$nvcc" -std=c++20 -O3 -gencode arch=compute_80,code=sm_80 -DDOCTOR_NCCL=0 -cubin -o "$T/gpu.cubin" \
        templates/doctor/gpu.cu >"$T/out" 2>&1
    same "nvcc compiles it" "0 " "$? $(cat "$T/out")"
fi
exit $failed
