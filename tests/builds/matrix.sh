#!/bin/bash
# make matrix: emits and builds recipes, warnings are errors; says how long each took, and all.
# In: recipes; none: all, those for CUDA only where nvcc is. IN_HASTE=1: what is for the host in haste.
# Out: a line each; exit code 1: one does not build.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/builds/lib.sh
. tests/programs.sh
export GEN=${GEN:-out/.gen/gen} B=out/.test/matrix
unset MAKEFLAGS MAKELEVEL
[ $# -gt 0 ] || set -- recipes/*.lua
mkdir -p "$B"

since() { local ms=$((($(date +%s%N) - $1) / 1000000)); printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100)); }

build() {               # recipe: a line
    local name dir start how=make_program
    [ -z "${IN_HASTE:-}" ] || how=make_in_haste
    name=$(basename "$1" .lua)
    dir=$B/$name
    start=$(date +%s%N)
    rm -rf "$dir"
    if ! "$GEN" "$1" -o "$dir" >"$dir.log" 2>&1; then
        echo "$name: not generated: $(head -1 "$dir.log")"
        return 1
    fi
    if grep -q '"target": "sm_' "$dir/manifest.json" && [ -z "$(nvcc_path)" ]; then
        echo "$name: generated; not built: no nvcc here"
        rm -rf "$dir"
        return 0
    fi
    if ! $how "$dir" >"$dir.log" 2>&1 || grep -qi 'warning' "$dir.log"; then
        echo "$name: $(grep -i -m1 -e error -e warning "$dir.log" || tail -1 "$dir.log")"
        return 1
    fi
    echo "$name: $(since "$start"), $(stat -c %s "$dir/train") bytes"
    rm -rf "$dir"
}
export haste
export -f build make_program make_in_haste since nvcc_path

began=$(date +%s%N)
printf '%s\n' "$@" | xargs -P "${CORES:-$(nproc)}" -I{} bash -c 'build {}'
bad=$?
echo "$# recipes in $(since "$began")"
exit $((bad > 0))
