#!/bin/bash
# toolchain.sh -- locks of clusters, recipes/clusters/NAME.lock.json, for the Makefile; runtime/toolchain.sh makes and
# compares them.
#
#   gen/toolchain.sh lock NAME             writes the lock of that cluster: the tools of this machine
#   gen/toolchain.sh check [NAME] NEED     one line, and 1, where this machine differs; NAME empty: of the only lock
#   gen/toolchain.sh path [NAME]           that lock
#   gen/toolchain.sh of FOLDER [NAME]      the lock that an emitted folder is built with, as a path; 1: one line why not
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
clusters=recipes/clusters

die() { echo "toolchain: $1" >&2; exit 1; }

# Names of files of that ending, one a line.
names() { find "$clusters" -maxdepth 1 -name "*$1" -printf '%f\n' 2>/dev/null | sed "s/$1\$//" | LC_ALL=C sort; }

listed() { paste -sd' ' | sed 's/^$/none/'; }

# The lock of a cluster; ends if there is no such cluster.
path_of() {
    [[ $1 =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]*$ ]] || die "CLUSTER=$1: must be a name of letters, digits and _ . -"
    if [ -n "$(names .lua)" ] && ! names .lua | grep -qxF -- "$1"; then
        die "CLUSTER=$1: no such cluster; there are: $(names .lua | listed)"
    fi
    echo "$clusters/$1.lock.json"
}

only() {
    [ "$(names .lock.json | wc -l)" = 1 ] ||
        die "TOOLCHAIN=locked: set CLUSTER=NAME, the cluster of the lock; there are: $(names .lock.json | listed)"
    names .lock.json
}

# The cluster that a lock names.
cluster_in() { sed -n '3s/^  "cluster": "\(.*\)",$/\1/p' "$1"; }

name=${2-}
case ${1-} in
lock)
    [ -n "$name" ] || die "set CLUSTER=NAME, the cluster of the lock"
    file=$(path_of "$name") || exit
    mkdir -p "$clusters" && exec runtime/toolchain.sh lock "$file" "$name"
    ;;
check)
    [ -n "$name" ] || name=$(only) || exit
    file=$(path_of "$name") || exit
    export MAKE_LOCK="make lock-toolchain CLUSTER=$name"
    exec runtime/toolchain.sh check "$file" --cluster "$name" "${@:3}"
    ;;
path)
    [ -n "$name" ] || name=$(only) || exit
    path_of "$name"
    ;;
of)
    own=$2/toolchain.lock.json name=${3-}
    if [ -e "$own" ]; then
        of=$(cluster_in "$own")
        [ -z "$name" ] || [ "$name" = "$of" ] ||
            die "CLUSTER=$name, but $2 was made for the cluster $of"
        ! [ -e "$clusters/$of.lock.json" ] || cmp -s "$own" "$clusters/$of.lock.json" ||
            die "$own is not $clusters/$of.lock.json, as it was when gen ran: run gen again, or lock again"
        echo "$PWD/$own"
    else
        [ -n "$name" ] || name=$(only) || exit
        file=$(path_of "$name") && echo "$PWD/$file"
    fi
    ;;
*) die "${1:-no command}: use lock, check, path or of" ;;
esac
