#!/bin/bash
# Recipes in, the text of each room out: ir/CASE/recipe.lua against ir/CASE/*.ir and, where it
# stands there, step.c or step.cu. Then the same bytes anywhere (tests/builds: of programs too).
# UPDATE=1 rewrites; review the diff.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=ir/
gen=$(realpath "${GEN:-out/.gen/gen}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
texts() { # CASE FOLDER: the text of each room
    local i=0 room
    mkdir -p "$2"
    for room in graph fuse part plan; do
        i=$((i + 1))
        "$gen" -d $room "$1/recipe.lua" >"$2/$i-$room.ir"
    done
}
first_difference() { diff -r "$@" 2>&1 | head -3 | cut -c1-200 | tr '\n' ' '; }

for case in tests/gold/ir/*/; do
    case=${case%/}
    name=$(basename "$case")
    out=$scratch/$name
    if ! "$gen" "$case/recipe.lua" -o "$out" >"$scratch/log" 2>&1; then
        verdict "$name" "$(head -1 "$scratch/log")"
        continue
    fi
    if [ "${UPDATE:-0}" = 1 ]; then
        texts "$case" "$case"
        for step in "$case"/step.c*; do [ ! -e "$step" ] || cp "$out/${step##*/}" "$case"; done
    fi
    texts "$case" "$out.rooms"
    for room in "$out.rooms"/*.ir; do
        verdict "$name/$(basename "$room")" "$(first_difference "$case/${room##*/}" "$room")"
    done
    for step in "$case"/step.c*; do
        [ ! -e "$step" ] ||
            verdict "$name/${step##*/}" "$(first_difference "$step" "$out/${step##*/}")"
    done
    verdict "$name/in the folder" "$(first_difference "$case/4-plan.ir" "$out/ir/plan.ir")"
    for room in graph fuse part plan; do
        "$gen" --from $room "$out.rooms"/?-$room.ir -o "$out.from" >"$scratch/log" 2>&1 ||
            cat "$scratch/log" >"$out.from/error"
        verdict "$name/from-$room" "$(first_difference "$out" "$out.from")"
        rm -rf "$out.from"
    done
    same=$("$gen" --roundtrip "$case/recipe.lua" 2>&1 | grep -c '^same: ')
    verdict "$name/reads-back" "$([ "$same" = 5 ] || echo "$same of 5 texts read back the same")"
    other=$scratch/another/folder/$name
    env -i HOME=/nowhere LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8 TZ=Asia/Kolkata \
        "$gen" "$case/recipe.lua" -o "$other" >/dev/null 2>&1
    verdict "$name/emitted-elsewhere" "$(first_difference "$out" "$other")"
done
exit $failed
