#!/bin/bash
# deps.sh -- the list of system packages; installs the missing ones and nothing else.
#   gen/deps.sh build    packages for gen and the training binaries
#   gen/deps.sh test     also those of the tests
#   gen/deps.sh soak     also those of `make soak`
#   gen/deps.sh roots    also those of tests/roots
#   gen/deps.sh nodes    also those of tests/nodes
#   gen/deps.sh slurm    also those of tests/slurm
#   gen/deps.sh demo     those of `build`, and texts to train on
#   gen/deps.sh check    installs nothing: names the missing packages of `build` and the command; 1: some are missing
#   gen/deps.sh list     the packages of `build`, those of some programs, and NVIDIA's for CUDA programs
set -u
build=(gcc libc6-dev make liblua5.4-dev libyaml-dev libcjson-dev libpcre2-dev libutf8proc-dev libssl-dev
    libdnnl-dev libopenmpi-dev openmpi-bin libcairo2)
tests=(g++ clang libclang-rt-dev mpich libmpich-dev procps ccache jq)
soak=(strace libfaketime iproute2 util-linux)
roots=(mmdebstrap mount)
nodes=(iproute2 iptables util-linux)
slurm=(slurmctld slurmd slurm-client munge iproute2 util-linux)
extra=(ccache g++)
nvidia=(cuda-toolkit-13-0 libnccl-dev libcudnn9-cuda-13)      # from NVIDIA's own repository
texts=(fortunes fortunes-min)

case ${1:-} in
build | check) want=("${build[@]}") ;;
list)
    printf '%s\n' "${build[@]}" "${extra[@]}" "${nvidia[@]}"
    exit
    ;;
test) want=("${build[@]}" "${tests[@]}") ;;
soak) want=("${build[@]}" "${tests[@]}" "${soak[@]}") ;;
nodes) want=("${build[@]}" "${tests[@]}" "${nodes[@]}") ;;
slurm) want=("${build[@]}" "${tests[@]}" "${slurm[@]}") ;;
roots) want=("${build[@]}" "${tests[@]}" "${roots[@]}") ;;
demo) want=("${build[@]}" "${texts[@]}") ;;
*)
    echo "usage: gen/deps.sh build|test|soak|roots|nodes|slurm|demo|check|list" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "not Debian or Ubuntu: nothing installed. Needed, by their Debian names: ${want[*]}"
    exit 0
fi

find_missing() {
    local package
    missing=()
    for package in "${want[@]}"; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
        [ "$state" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ]
}
find_missing || exit 0
if [ "$1" = check ]; then
    echo "missing  packages: ${missing[*]}: apt-get install ${missing[*]}"
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=sudo
fi
# One installation at a time: another deps.sh is waited for, and five minutes for other users of dpkg.
exec 8<"$0"
flock 8
find_missing || exit 0
echo "installing: ${missing[*]}"
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null 8<&-
}
if ! apt update || ! apt install -y --no-install-recommends "${missing[@]}" >/dev/null; then
    echo "apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
