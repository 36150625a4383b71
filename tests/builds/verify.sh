#!/bin/bash
# make verify: the same recipe and tools give the same bytes. Generates and builds each recipe twice, in
# folders of different depth, one with blanks, with another HOME, time zone and language, once by the path that is
# given, once from another folder by an absolute path through a symbolic link, and compares every file.
# In: recipes; none: one a backend (CUDA where nvcc is). IN_HASTE=1: objects of runtime/ are those that tests share.
# Out: a line each; exit code 1: some byte differs.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/builds/lib.sh
. tests/programs.sh
. tests/compare.sh
GEN=$(realpath "${GEN:-out/.gen/gen}")
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
[ $# -gt 0 ] || set -- recipes/cpu_tiny.lua $([ -n "$(nvcc_path)" ] && echo recipes/h200x1_tiny.lua)
bad=0

build() (                                     # recipe, folder, home, time zone, language, jobs, mask of new files, from
    recipe=$1 dir=$2
    mkdir -p "$3"
    umask "$7"
    unset MAKEFLAGS MAKELEVEL
    export HOME="$3" TZ="$4"
    (cd "$8" && env LANG="$5" LC_ALL="$5" "$GEN" "$recipe" -o "$dir") || exit
    # words of make, which it exports: a shell would warn of a language that is not installed
    if [ -n "${IN_HASTE:-}" ]; then
        make_in_haste "$dir" "-j$6" "LANG=$5" "LC_ALL=$5"
    else
        make -s -C "$dir" "-j$6" "LANG=$5" "LC_ALL=$5"
    fi
)

for recipe in "$@"; do
    name=$(basename "$recipe" .lua)
    one=$T/1/$name two="$T/2/a rather/deep, folder/$name"
    mkdir -p "$T/else/where"
    ln -sfn "$(realpath "$(dirname "$recipe")")" "$T/else/linked"
    if ! { build "$recipe" "$one" "$T/home" UTC C 2 022 . &&
        build "$T/else/linked/$(basename "$recipe")" "$two" "$T/h/o/me" Asia/Tokyo de_DE.UTF-8 1 077 \
            "$T/else/where"; } \
        >"$T/log" 2>&1; then
        echo "$recipe: does not build: $(tail -1 "$T/log")"
        bad=1
    elif grep -i warning "$T/log"; then
        echo "$recipe: warnings"
        bad=1
    elif ! difference=$(diff -rq -x made_from "$one" "$two" 2>&1); then
        echo "$recipe: differs between two builds:"
        echo "$difference" | sed "s|$T/[^ ]*/$name/|  |g" | head -8
        bad=1
    else
        echo "$recipe: two builds are the same, $(find "$one" -type f | wc -l) files, train $(
            sha256sum "$one/train" | cut -c1-16)"
    fi
    rm -rf "$T/1" "$T/2"
done
exit $bad
