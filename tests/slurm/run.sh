#!/bin/bash
# A real Slurm with two nodes on this machine, and the emitted train.slurm in it. Apart from the others: it installs
# Slurm (gen/deps.sh slurm), needs root, and takes minutes, most of which it waits.
# All of it runs in namespaces of its own (unshare): network, processes, host names, mounts. It does not touch a Slurm
# that is already here, and all its processes end with this script, also if it is killed.
# apart: installs Slurm, needs root, and waits for minutes
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/programs.sh
here=tests/slurm
work=$PWD/out/.test/slurm
for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|OMPI|PMI|DIECAST|MUNGE)') NNODES NODE_RANK MASTER_ADDR \
    MASTER_PORT RANK WORLD_SIZE MPI_PLUGIN; do
    unset "$name"
done
fail() {
    echo "not ok slurm: $*"
    exit 1
}
spaces=(unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc)
gen/deps.sh slurm || fail "its packages are not there"
"${spaces[@]}" true 2>/dev/null || fail "wants root, and a machine that lets it make namespaces (unshare)"

# build NAME MAKE-WORD... -- GEN-WORD...: a program of four ranks, tiny
build() {
    local name=$1 words=() said
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    said=$(out/.gen/gen recipes/cpu_tiny.lua "name=$name" gpus=4 seq.max=32 batch.micro=2 model.layers=1 \
        model.hidden=32 model.heads=2 "$@" -o "$work/$name" 2>&1) &&
        said=$(make_in_haste "$work/$name" ${words[@]+"${words[@]}"} 2>&1) ||
        fail "$name: $said"
}
rm -rf "$work"
mkdir -p "$work"
build x4 --
mv "$work/x4" "$work/out of x4"
printf '#!/bin/sh\nMPICC=mpicc.mpich exec "%s" "$@"\n' "$PWD/tests/cc" >"$work/cc"
chmod +x "$work/cc"
build mpich "CC='$work/cc'" --
toolkit=$(tests/sim/toolkit.sh fast) || fail "the simulator of a GPU does not build"
build gpus "CUDA=$toolkit" -- target=sm_90
seq 20000 >"$work/numbers.txt"

# A short path: sockets lie in it.
T=$(mktemp -d /tmp/slurm.XXXXXX)
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM
tied=()
if setpriv --pdeathsig KILL true 2>/dev/null; then tied=(setpriv --pdeathsig KILL); fi
T=$T work=$work ${tied[@]+"${tied[@]}"} "${spaces[@]}" $here/jobs.sh &
wait $!
