#!/bin/bash
# layers.sh PROGRAM: every folder of gen and runtime needs only folders below it, in what it calls (symbols of gen's
# objects and of PROGRAM/.obj) and in what it includes; no files need each other in a circle; no file
# knows an objective that is not its own.
# Tables (.def) are facts, to be read from anywhere; kernels/ is next to the two.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/programs.sh
. tests/verdict.sh
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# from above to below; what is not in a list is not to be used there
gen="gen/main gen/tools gen/emit gen/lower gen/graph gen/config gen/recipe gen
     runtime/pack runtime/jinja runtime/data runtime/model runtime/ranks runtime/files runtime/objectives runtime"
runtime="program kernels runtime/run runtime/plot runtime/pack runtime/jinja runtime/data runtime/model runtime/ranks runtime/files runtime/objectives runtime"

# lines `FILE OTHER header`: FILE includes a header of OTHER; without a path: one next to it
includes() {
    find "$1" -name '*.[ch]' -print0 | sort -z | xargs -0 grep -Ho '^#include "[^"]*\.h"' |
        sed 's,^\(.*\)\.[ch]:#include "\(.*\)\.h"$,\1 \2 header,
             s,^\(.*/\)\([^/ ]*\) \([^/ ]*\) header$,\1\2 \1\3 header,' | grep -v ' kernels/'
}

# upward LIST: those lines whose OTHER is above FILE in the list, or not in it
upward() {
    awk -v list="$1" '
        function folder(file,   part, n) {
            n = split(file, part, "/")
            if (part[1] == "kernels") return "kernels"
            if (file == "gen/main" || n == 1) return n == 1 ? "program" : file
            return n == 2 ? part[1] : part[1] "/" part[2]
        }
        BEGIN { n = split(list, name, " "); for (i = 1; i <= n; i++) height[name[i]] = n + 1 - i }
        { a = folder($1); b = folder($2) }
        !(a in height) { print a " has no place in tests/rooms/layers.sh"; next }
        !(b in height) || (a != b && height[b] >= height[a]) { print $1 " needs " $2 " (" $3 ")" }' | sort -u
}

needs out/.obj >"$scratch/gen"
needs "$program/.obj" >"$scratch/program"
verdict "layers: $(wc -l <"$scratch/gen") symbols of gen" "$(grep '^gen/' "$scratch/gen" | upward "$gen")"
verdict "layers: $(wc -l <"$scratch/program") symbols of a program" "$(upward "$runtime" <"$scratch/program")"
verdict "layers: includes of gen" "$(includes gen | upward "$gen")"
verdict "layers: includes of runtime" "$(includes runtime | upward "$runtime")"

verdict "layers: no circle of files in gen" "$(grep '^gen/' "$scratch/gen" | circles)"
verdict "layers: no circle of files in runtime" "$(grep -h '^runtime/' "$scratch/gen" | circles; circles <"$scratch/program")"
# an objective is known by its own file: no other C file of gen has its fields (F_NAME_...) or its name as a text
names=$(basename -s .c gen/graph/objectives/*.c | paste -sd '|')
verdict "layers: no objective's name in gen but in its own file" "$([ -n "$names" ] || echo no rows
    grep -rnE "F_($names)_|\"($names)[.\"]" gen --include='*.[ch]' | grep -v '^gen/graph/objectives/')"
[ "$(wc -l <"$scratch/gen")" -gt 500 ] && [ "$(wc -l <"$scratch/program")" -gt 100 ] ||
    verdict "layers: symbols" "too few were found"
exit $failed
