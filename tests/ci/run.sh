#!/bin/bash
# What continuous integration of recipes rests on: the cost of a change (gen diff --base), workflows that gen ci prints.
set -u
cd "$(dirname "$0")/../.." || exit 2
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
fails=0
check() {                                     # NAME WANT GOT
    if [ "$2" = "$3" ]; then echo "ok $1"; else
        echo "not ok $1: want '$2', got '$3'"
        fails=$((fails + 1))
    fi
}

# ---- gen diff --base: what a change costs, as two plans say
R=recipes/cpu_tiny.lua
of() { sed -n "s/^\t\"$1\":\t\([0-9]*\),*/\1/p" "$2"; }         # a number of a plan
"$GEN" plan $R --json >"$T/base"
"$GEN" plan $R batch.micro=16 --json >"$T/now"
more=$(($(of device_bytes "$T/now") - $(of device_bytes "$T/base")))
cost() { "$GEN" diff --base "$T/base" $R "$@" >"$T/cost" 2>"$T/said"; }
row() { tr -d , <"$T/cost" | sed -n "s/^| $1 | \(.*\) |\$/\1/p"; }
cost
check cost/same "0 this change costs nothing on cpu_tiny: 64.5 MiB a rank, as before" "$? $(head -n 1 "$T/cost")"
cost batch.micro=16
code=$?
check cost/more "1 this change costs $(awk -v n=$more 'BEGIN { printf "%.1f", n / 1048576 }') MiB on cpu_tiny" \
    "$code $(sed 's/:.*//;q' "$T/cost")"
check cost/bytes "$(of device_bytes "$T/base") | $(of device_bytes "$T/now") | +$more (+35.6 MiB)" "$(row 'bytes of a rank')"
flop() { sed -n '/"schedules"/,/"updates":\ttrue/p; /"updates":\ttrue/,/"flop"/p' "$1" | sed -n 's/.*"flop":\t\(.*\),/\1/p'; }
check cost/flop "$(flop "$T/base") | $(flop "$T/now") | +$(($(flop "$T/now") - $(flop "$T/base")))" \
    "$(row 'FLOP of a step all ranks')"
check cost/parameters "$(of parameters "$T/base") | $(of parameters "$T/now") | 0" "$(row parameters)"
check cost/allowed "0 1 0" "$(for most in ${more}B $((more - 1))B any; do
    cost batch.micro=16 --allow "$most"
    echo $?
done | paste -sd' ')"
cost batch.micro=16 --allow 1MiB
check cost/too_much "gen: diff: cpu_tiny: a rank needs 35.6 MiB more than the base, --allow 1MiB" "$(cat "$T/said")"
cost batch.micro=4 --allow 0 --json
check cost/less "0 false true this change saves" "$? $(sed -n 's/^\t"\(same\|allowed\|sentence\)":\t"\{0,1\}\(.*\),$/\2/p' "$T/cost" |
    cut -d' ' -f1-3 | paste -sd' ')"
"$GEN" diff --base none --allow 0 $R >"$T/cost"
check cost/new "0 cpu_tiny is new: 64.5 MiB a rank" "$? $(head -n 1 "$T/cost")"
"$GEN" plan recipes/darkroom_ppo.lua --json >"$T/ppo"
"$GEN" diff --base "$T/ppo" recipes/darkroom_ppo.lua run.seed=2 >"$T/cost"
check cost/whole "0 9192942720000 | 9192942720000 | 0" "$? $(row 'FLOP of a run')"

refuses() {                                   # NAME LINE WORDS of gen diff: this line alone, and 1
    local said code
    said=$(cd "$T" && "$GEN" diff "${@:3}" 2>&1 >/dev/null)
    code=$?
    check "cost/refuses_$1" "1 $2" "$code $said"
}
sed 's/"device_bytes"/"devicebytes"/' "$T/base" >"$T/lacks"
head -c 100 "$T/base" >"$T/cut"
"$GEN" info $R --json >"$T/info"
"$GEN" plan tests/gold/bad/ffn.lua --json >"$T/failed" 2>/dev/null
A=$PWD/$R
refuses other "base: is the plan of cpu_tiny, the recipe is called cpu_tiny_lora; gen diff A B compares two recipes" \
    --base base "${A%.lua}_lora.lua"
refuses lacks "lacks: lacks numbers of a plan: made by another version of gen? gen plan --json again, of the recipe as it was" \
    --base lacks "$A"
refuses info "info: want what gen plan --json RECIPE printed, found that of gen info" --base info "$A"
refuses failed "failed: is no plan but a mistake: $(sed -n 's/^\t\t"message":\t"\(.*\)",/\1/p' "$T/failed")" --base failed "$A"
refuses missing "gen: diff: --base no.json: cannot be read: No such file or directory; gen plan --json RECIPE prints such a file" \
    --base no.json "$A"
refuses size "gen: diff: --allow: want bytes of a rank with their unit, such as 24GiB, got 24" --base base --allow 24 "$A"
refuses alone "gen: diff: --allow 1GiB: limits what a recipe costs more than --base FILE, which is missing" --allow 1GiB "$A"
check cost/refuses_cut 1 "$("$GEN" diff --base "$T/cut" $R 2>&1 | grep -c 'cut: .*; want what gen plan --json RECIPE printed$')"
exit $((fails > 0))
