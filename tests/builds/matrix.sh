#!/bin/bash
# make matrix: emits and builds recipes, warnings are errors; says how long each took, and all.
# In: recipes; none: all, those for CUDA only where nvcc is.   Out: a line each; exit code 1: one does not build.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/builds/lib.sh
GEN=${GEN:-out/.gen/gen}
B=out/.test/matrix
[ $# -gt 0 ] || set -- recipes/*.lua
mkdir -p "$B"
bad=0
began=$(date +%s%N)
skipped=0

since() { local ms=$((($(date +%s%N) - $1) / 1000000)); printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100)); }

for recipe in "$@"; do
    name=$(basename "$recipe" .lua)
    start=$(date +%s%N)
    rm -rf "${B:?}/$name"
    if ! "$GEN" "$recipe" -o "$B/$name" >"$B/$name.log" 2>&1; then
        echo "$name: not generated: $(head -1 "$B/$name.log")"
        bad=1
    elif grep -q '"target": "sm_' "$B/$name/manifest.json" && [ -z "$(nvcc_path)" ]; then
        skipped=$((skipped + 1))
    elif ! env -u MAKEFLAGS -u MAKELEVEL make -s -C "$B/$name" -j"$(nproc)" >"$B/$name.log" 2>&1 ||
        grep -qi 'warning' "$B/$name.log"; then
        echo "$name: $(grep -i -m1 -e error -e warning "$B/$name.log" || tail -1 "$B/$name.log")"
        bad=1
    else
        echo "$name: $(since "$start"), $(stat -c %s "$B/$name/train") bytes"
    fi
    rm -rf "${B:?}/$name"
done
[ $skipped = 0 ] || echo "$skipped CUDA recipes not built: no nvcc here"
echo "$# recipes in $(since "$began")"
exit $bad
