# shellcheck shell=bash
# Shared by the parts of this group: GEN, T, verdicts, root file systems of Debian.
#
# A root is a folder; mmdebstrap makes it from the package sources of this machine. KEEP=FOLDER: they are made there,
# and taken from there the next time (an archive a kind).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
unset MAKEFLAGS MAKELEVEL CC CXX MPICC NVCC CLUSTER TOOLCHAIN
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d "${KEEP:-/tmp}/diecast-roots.XXXXXX")
chmod 755 "$T"
trap 'umount_all; rm -rf "$T"' EXIT
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mounts=()
umount_all() {
    local m
    for m in "${mounts[@]}"; do umount -l "$m" 2>/dev/null; done
}

# Sources of this machine that are Debian's, and what apt is told of proxies and mirrors.
sources() { grep -lsE "(^|[ /])$suite" /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; }
options() { apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|Check-Valid-Until)' | sed 's/^/--aptopt=/'; }

# root NAME [PACKAGE,...]: a new root $T/NAME with apt and these packages, none that they only recommend
root() {
    local name=$1 packages=${2-} kept=
    [ -z "${KEEP-}" ] || kept=$KEEP/$name.$(sha256sum <<<"$suite $packages" | cut -c1-12).tar
    mkdir "$T/$name"
    if [ -n "$kept" ] && [ -e "$kept" ]; then
        tar -xf "$kept" -C "$T/$name"
    else
        local told from
        mapfile -t told < <(options)
        mapfile -t from < <(sources)
        mmdebstrap --quiet --variant=apt ${packages:+--include="$packages"} "${told[@]}" "$suite" "$T/$name" \
            "${from[@]}" >"$T/$name.log" 2>&1 ||
            { not_ok "root/$name" "$(tail -3 "$T/$name.log")"; exit 1; }
        [ -z "$kept" ] || tar -cf "$kept" -C "$T/$name" .
    fi
    mount --bind /proc "$T/$name/proc" && mounts+=("$T/$name/proc")
    mount --bind /dev "$T/$name/dev" && mounts+=("$T/$name/dev")
}

# inside NAME [VARIABLE=VALUE ...] SCRIPT: bash in that root, with these and nothing else of our environment
inside() {
    local name=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "${@:1:$#-1}" \
        chroot "$T/$name" /bin/bash -c "${*: -1}"
}
