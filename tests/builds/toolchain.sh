#!/bin/bash
# Locks of toolchains: made, compared, refused. In a copy of the tree: locks are written there.
. "$(dirname "$0")/common.sh"
unset MAKEFLAGS MAKELEVEL CC CXX MPICC NVCC CLUSTER TOOLCHAIN

tree=$T/tree
mkdir -p "$tree/gen" "$tree/runtime"
cp Makefile "$tree"
cp gen/toolchain.sh "$tree/gen"
cp runtime/toolchain.* "$tree/runtime"
lock=$tree/recipes/clusters/here.lock.json
# as the shell has it: without what a build does
make_tree() { make -s -C "$tree" -n "$@" >"$T/out" 2>&1; }
# code and line of make
refused() { check "toolchain/$1" "2 $2" "$? $(grep -o '\*\*\* .*' "$T/out" | sed 's/^\*\*\* //; s/^toolchain: //')"; }

# the compiler as it is, and one that is told to take another assembler; no CUDA: its libraries are large
export CUDA=$T/none
mkdir "$T/bin"
printf '#!/bin/sh\nexec /usr/bin/as "$@"\n' >"$T/bin/as"
chmod +x "$T/bin/as"

make -s -C "$tree" lock-toolchain >"$T/out" 2>&1
check toolchain/unnamed "2 toolchain: set CLUSTER=NAME, the cluster of the lock" "$? $(head -n 1 "$T/out")"
make -s -C "$tree" lock-toolchain CLUSTER=../x >"$T/out" 2>&1
check toolchain/name "2 toolchain: CLUSTER=../x: must be a name of letters, digits and _ . -" "$? $(head -n 1 "$T/out")"
make_tree gen TOOLCHAIN=locked
refused none "TOOLCHAIN=locked: set CLUSTER=NAME, the cluster of the lock; there are: none.  Stop."
make_tree gen TOOLCHAIN=locked CLUSTER=here
refused absent "recipes/clusters/here.lock.json: there is no such lock; on a machine of the cluster: $(
    )make lock-toolchain CLUSTER=here.  Stop."
make_tree gen TOOLCHAIN=looked
refused value "TOOLCHAIN=looked: must be locked, or empty.  Stop."

make -s -C "$tree" lock-toolchain CLUSTER=here >"$T/out" 2>&1
check toolchain/made "0 1" "$? $(grep -c '^recipes/clusters/here.lock.json: [0-9]* parts of ' "$T/out")"
cp "$lock" "$T/one"
env TZ=Asia/Tokyo LANG=de_DE.UTF-8 HOME=/ TMPDIR=/tmp make -s -C "$tree" lock-toolchain CLUSTER=here >"$T/out" 2>&1
check toolchain/same_bytes "0 " "$? $(cmp "$lock" "$T/one" 2>&1)"
check toolchain/version "$(gcc -dumpfullversion)" \
    "$(sed -n '/"C compiler": {/,/}/s/.*"version": "\(.*\)"/\1/p' "$lock")"
check toolchain/cc1 "$(sha256sum <"$(gcc -print-prog-name=cc1)" | cut -d' ' -f1)" \
    "$(sed -n 's/.*"cc1": "\(.*\)",/\1/p' "$lock")"
check toolchain/library "$(sha256sum <"$(gcc -print-file-name=libdnnl.so)" | cut -d' ' -f1)" \
    "$(sed -n 's/.*"libdnnl.so.*": "\(.*\)",/\1/p' "$lock")"
check toolchain/header "$(sed -n 's/^#define CJSON_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' /usr/include/cjson/cJSON.h |
    paste -sd.)" "$(sed -n '/"cJSON": {/,/}/s/.*"version": "\(.*\)"/\1/p' "$lock")"

make_tree gen TOOLCHAIN=locked
check toolchain/fits 0 $?
locks="make lock-toolchain CLUSTER=here"
differ="build where it fits, or lock what is here: $locks"
as=$(sed -n 's/.*"as": "\(.\{12\}\).*/\1/p' "$lock")
now=$(sha256sum <"$T/bin/as" | cut -c1-12)
make_tree gen TOOLCHAIN=locked "CC=gcc -B$T/bin"
refused other_as "recipes/clusters/here.lock.json: 1 difference from this machine; the first: $(
    )binutils as: locked $as, here $now; $differ.  Stop."
make_tree gen TOOLCHAIN=locked CC=no-such-compiler
refused no_compiler "no-such-compiler is not a working C compiler.  Stop."

# what a lock may not be: edited, cut short, of another cluster, of another form
again() {                # with a sum that fits
    local body
    body=$(head -n -2 "$lock")
    { echo "$body"; printf '  "sum": "%s"\n}\n' "$(echo "$body" | sha256sum | cut -c1-64)"; } >"$T/new"
    cp "$T/new" "$lock"
}
bad() {                  # name, what sed does to the lock, the line; FIT=1: its sum is recomputed
    sed "$2" "$T/one" >"$lock"
    [ -z "${FIT-}" ] || again
    make_tree gen TOOLCHAIN=locked CLUSTER=here
    refused "$1" "recipes/clusters/here.lock.json: $3.  Stop."
}
damaged="edited or damaged: its checksum does not match; copy it again from where it was made, or lock again: $locks"
bad edited 's/"version": "12/"version": "13/' "$damaged"
bad cut '20,$d' "$damaged"
bad format 's/"diecast_toolchain": 1/"diecast_toolchain": 2/' "another version of gen wrote this; lock again: $locks"
bad other_file '2d' 'not a toolchain lock: its second line must be "diecast_toolchain": 1'
FIT=1 bad cluster 's/"cluster": "here"/"cluster": "there"/' "is for the cluster there, not here"
machine=$(gcc -dumpmachine)
FIT=1 bad machine 's/"machine": .*/"machine": "aarch64-linux-gnu",/; s/"version": "[0-9]*\./"version": "0./' \
    "10 differences from this machine; the first: machine: locked aarch64-linux-gnu, here $machine; $differ"
FIT=1 bad versions 's/"version": "'"$(gcc -dumpfullversion)/\"version\": \"0.1/" \
    "1 difference from this machine; the first: C compiler version: locked 0.1, here $(gcc -dumpfullversion); $differ"
# what gen is not built with does not matter to it
sed '/"oneDNN": {/,/}/s/"version": .*/"version": "0.1"/' "$T/one" >"$lock"
again
make_tree gen TOOLCHAIN=locked
check toolchain/other_program 0 $?

# an emitted folder
"$GEN" recipes/cpu_tiny.lua -o "$T/p" >"$T/out" 2>&1
make -C "$T/p" -n "TOOLCHAIN=locked" "LOCK=$lock" >"$T/out" 2>&1
check toolchain/program "2 oneDNN version: locked 0.1" "$? $(grep -o 'oneDNN version: locked [0-9.]*' "$T/out")"
cp "$T/one" "$lock"
make -C "$T/p" -n "TOOLCHAIN=locked" "LOCK=$lock" >"$T/out" 2>&1
check toolchain/program_fits "0" $?
make -C "$T/p" -n "TOOLCHAIN=locked" >"$T/out" 2>&1
refused program_none "toolchain.lock.json: there is no such lock; on a machine of the cluster: $(
    )make lock-toolchain CLUSTER=NAME in the project, and LOCK=FILE.  Stop."
make -C "$T/p" -n "TOOLCHAIN=x" >"$T/out" 2>&1
refused program_value "TOOLCHAIN=x: must be locked, or empty.  Stop."

# a recipe of a cluster: its lock is in the folder; an older one, and another cluster, are refused
mkdir -p "$tree/out/.gen"
cp "$GEN" "$tree/out/.gen"
cp -r kernels templates runtime recipes "$tree"
sed 's/"here"/"slurm_cpu"/' "$T/one" >"$lock"
again
mv "$lock" "$tree/recipes/clusters/slurm_cpu.lock.json"
lock=$tree/recipes/clusters/slurm_cpu.lock.json
(cd "$tree" && out/.gen/gen recipes/cpu_tiny.lua cluster=slurm_cpu cluster.nodes=1 cluster.gpus_per_node=1 \
    -o out/of) >"$T/out" 2>&1
check toolchain/copied "0 " "$? $(cmp "$lock" "$tree/out/of/toolchain.lock.json" 2>&1)"
check toolchain/manifest "1 1" "$(grep -c '"cluster": "slurm_cpu"' "$tree/out/of/manifest.json") $(
    grep -c '"toolchain_locked": true' "$tree/out/of/manifest.json")"
make -C "$tree/out/of" -n TOOLCHAIN=locked >"$T/out" 2>&1
check toolchain/copied_fits 0 $?
of() { check "toolchain/$1" "1 toolchain: $2" "$? $(cat "$T/out")"; }
"$tree/gen/toolchain.sh" of out/of workstation >"$T/out" 2>&1
of other_cluster "CLUSTER=workstation, but out/of was made for the cluster slurm_cpu"
echo >>"$lock"
"$tree/gen/toolchain.sh" of out/of >"$T/out" 2>&1
of yesterday "out/of/toolchain.lock.json is not recipes/clusters/slurm_cpu.lock.json, as it was when gen ran: run gen $(
    )again, or lock again"
rm "$tree"/recipes/clusters/*
lock=$tree/recipes/clusters/here.lock.json
cp "$T/one" "$lock"

# several locks; names of clusters once there are files of them
cp "$lock" "${lock%here*}there.lock.json"
make_tree gen TOOLCHAIN=locked
refused several "TOOLCHAIN=locked: set CLUSTER=NAME, the cluster of the lock; there are: here there.  Stop."
: >"${lock%here*}here.lua"
make_tree gen TOOLCHAIN=locked CLUSTER=hre
refused unknown "CLUSTER=hre: no such cluster; there are: here.  Stop."
exit $failed
