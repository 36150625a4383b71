#!/bin/bash
# Basis of continuous integration of recipes: the cost of a change (gen diff --base), workflows that gen ci prints.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# ---- gen diff --base: what a change costs, as two plans say
R=recipes/cpu_tiny.lua
of() { sed -n "s/^\t\"$1\":\t\([0-9]*\),*/\1/p" "$2"; }         # a number of a plan
"$GEN" plan $R --json >"$T/base"
"$GEN" plan $R batch.micro=16 --json >"$T/now"
more=$(($(of device_bytes "$T/now") - $(of device_bytes "$T/base")))
cost() { "$GEN" diff --base "$T/base" $R "$@" >"$T/cost" 2>"$T/said"; }
row() { tr -d , <"$T/cost" | sed -n "s/^| $1 | \(.*\) |\$/\1/p"; }
cost
check cost/same "0 this change costs nothing on cpu_tiny: 64.1 MiB a rank, as before" "$? $(head -n 1 "$T/cost")"
cost batch.micro=16
code=$?
check cost/more "1 this change costs $(awk -v n=$more 'BEGIN { printf "%.1f", n / 1048576 }') MiB on cpu_tiny" \
    "$code $(sed 's/:.*//;q' "$T/cost")"
check cost/bytes "$(of device_bytes "$T/base") | $(of device_bytes "$T/now") | +$more (+35.1 MiB)" "$(row 'bytes of a rank')"
flop() { sed -n '/"schedules"/,/"updates":\ttrue/p; /"updates":\ttrue/,/"flop"/p' "$1" | sed -n 's/.*"flop":\t\(.*\),/\1/p'; }
check cost/flop "$(flop "$T/base") | $(flop "$T/now") | +$(($(flop "$T/now") - $(flop "$T/base")))" \
    "$(row 'FLOP of a step all ranks')"
check cost/parameters "$(of parameters "$T/base") | $(of parameters "$T/now") | 0" "$(row parameters)"
"$GEN" plan recipes/cpu_x2_full.lua memory.zero=0 --json >"$T/two"
"$GEN" diff --base "$T/two" recipes/cpu_x2_full.lua memory.zero=0 batch.micro=2 >"$T/cost"
check cost/sent "$((4 * 842624)) | $((4 * 842624)) | 0" "$(row 'bytes that a rank sends in a step')"
sed 's/"sent_bytes"/"sentbytes"/' "$T/two" >"$T/earlier"
"$GEN" diff --base "$T/earlier" recipes/cpu_x2_full.lua memory.zero=0 >"$T/cost"
check cost/earlier "0 this change costs nothing on cpu_x2_full - | $((4 * 842624)) | -" \
    "$? $(sed 's/:.*//;q' "$T/cost") $(row 'bytes that a rank sends in a step')"
check cost/allowed "0 1 0" "$(for most in ${more}B $((more - 1))B any; do
    cost batch.micro=16 --allow "$most"
    echo $?
done | paste -sd' ')"
cost batch.micro=16 --allow 1MiB
check cost/too_much "gen: diff: cpu_tiny: a rank needs 35.1 MiB more than the base, --allow 1MiB" "$(cat "$T/said")"
cost batch.micro=4 --allow 0 --json
check cost/less "0 false true this change saves" "$? $(sed -n 's/^\t"\(same\|allowed\|sentence\)":\t"\{0,1\}\(.*\),$/\2/p' "$T/cost" |
    cut -d' ' -f1-3 | paste -sd' ')"
"$GEN" diff --base none --allow 0 $R >"$T/cost"
check cost/new "0 cpu_tiny is new: 64.1 MiB a rank" "$? $(head -n 1 "$T/cost")"
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
refuses lacks "lacks: lacks numbers of a plan: made by another version of gen? Run gen plan --json again on the base recipe" \
    --base lacks "$A"
refuses info "info: must be the output of gen plan --json RECIPE, found that of gen info" --base info "$A"
refuses failed "failed: is not a plan but an error: $(sed -n 's/^\t\t"message":\t"\(.*\)",/\1/p' "$T/failed")" --base failed "$A"
refuses missing "gen: diff: --base no.json: cannot be read: No such file or directory; gen plan --json RECIPE prints such a file" \
    --base no.json "$A"
refuses size "gen: diff: --allow: must be bytes per rank with a unit, such as 24GiB, got 24" --base base --allow 24 "$A"
refuses alone "gen: diff: --allow 1GiB: limits the growth over --base FILE, which is missing" --allow 1GiB "$A"
check cost/refuses_cut 1 "$("$GEN" diff --base "$T/cut" $R 2>&1 | grep -c 'cut: .*; give the output of gen plan --json RECIPE$')"

# ---- gen ci: a workflow; its words
ci() { "$GEN" ci "$@" 2>"$T/said"; }
ci --github $R recipes/h200x1_tiny.lua >"$T/github.yml"
ci --gitlab $R recipes/h200x1_tiny.lua >"$T/gitlab.yml"
check ci/twice "" "$(ci --github $R recipes/h200x1_tiny.lua | diff - "$T/github.yml")"
check ci/jobs "'recipes/cpu_tiny.lua' 'cpu_tiny' 'debian:12' 'recipes/h200x1_tiny.lua' 'h200x1_tiny' \
'nvidia/cuda:13.0.1-devel-ubuntu24.04'" "$(sed -n 's/^ *\(- \)*\(recipe\|name\|container\): \(.*\)/\3/p' "$T/github.yml" |
    grep "^'" | paste -sd' ')"
check ci/all "$("$GEN" list recipes --json | grep -c '"path"')" "$(ci --gitlab | grep -c '^      - RECIPE: ')"
check ci/filter "$("$GEN" list recipes objective=dpo adapter=none | wc -l)" \
    "$(ci --gitlab objective=dpo adapter=none | grep -c RECIPE:)"
check ci/allow "2" "$(for host in github gitlab; do ci --$host --allow 2GiB $R; done | grep -c "^ *ALLOW: '2GiB'")"
refused() { check "ci/refuses_$1" "1 $2" "$(ci "${@:3}" >"$T/out"; echo "$? $(grep -v taking "$T/said")$(cat "$T/out")")"; }
refused host "gen: ci: needs --github or --gitlab, the service that runs the workflow" $R
refused both "gen: ci: --gitlab: give only one of --github and --gitlab" --github --gitlab $R
refused option "gen: ci: unknown option --jobs; gen ci --help lists them" --github --jobs
refused recipe "gen: cpu_tyni: no such file, and recipes/ has no cpu_tyni.lua; did you mean cpu_tiny?" --github cpu_tyni
refused twice "gen: ci: recipes/cpu_tiny.lua: named twice" --github $R cpu_tiny
refused none "gen: ci: none of the 1 recipes has these values" --github $R target=sm_90
refused allow "gen: ci: --allow: must be bytes per rank with a unit, such as 24GiB, got 24" --github --allow 24 $R
cp $R "$T/elsewhere.lua"
refused outside "gen: ci: $T/elsewhere.lua: not in the repository $PWD, so jobs cannot find it" --github "$T/elsewhere.lua"
check ci/refuses_url 1 "$(ci --github --diecast 'https://x/$(id)' $R; grep -c '^gen: ci: --diecast .*: must be an address for git clone' "$T/said")"

# a repository of recipes alone, with names that YAML and shells read otherwise
U=$T/team
mkdir -p "$U/a, b @c"
git -C "$U" init -q
cp $R "$U/a, b @c/no.lua"
cp $R "$U/null.lua"
check ci/no_diecast "gen: ci: the repository $U does not contain Diecast; tell jobs where to clone it: --diecast URL#REF" \
    "$(cd "$U" && "$GEN" ci --github null.lua 2>&1)"
check ci/names "'a, b @c/no.lua' 'no' 'null.lua' 'null' 'out/diecast' 'https://git.example.org/d.git' 'v1'" \
    "$(cd "$U" && "$GEN" ci --github --diecast 'https://git.example.org/d.git#v1' "a, b @c/no.lua" null.lua |
        sed -n 's/^ *\(- \)*\(recipe\|name\|DIECAST[A-Z_]*\): \(.*\)/\3/p' | grep "^'" | paste -sd' ')"
check ci/below "'null.lua'" "$(cd "$U/a, b @c" && "$GEN" ci --gitlab --diecast /srv/d ../null.lua | sed -n 's/.*RECIPE: //p')"
printf 'return {}' >"$U/a\$b.lua"
check ci/refuses_sign 1 "$(cd "$U" && "$GEN" ci --github --diecast /srv/d 'a$b.lua' 2>&1 | grep -c 'is not allowed in paths')"

# ---- each command of it, run as a runner does: bash -eo pipefail, a file a step
# FILE: writes N.sh, a command (run: |, or - | of GitLab's scripts) each
commands() {
    awk -v to="$2" '
        /^ *(- )?(run: )?\|$/ {
            if (f) close(f)
            f = sprintf("%s/%02d.sh", to, ++n)
            match($0, /^ */)
            at = RLENGTH
            next
        }
        f {
            match($0, /^ */)
            if (RLENGTH > at && NF) { sub("^ {" (at + 2) "}", ""); print >f }
            else if (NF) { close(f); f = "" }
        }
    ' "$1"
}
for host in github gitlab; do
    mkdir -p "$T/$host"
    sed '/path: |/,$d' "$T/$host.yml" >"$T/cut.yml"
    commands "$T/cut.yml" "$T/$host"
    if command -v shellcheck >/dev/null; then
        check "ci/shellcheck_$host" "" "$(shellcheck -s bash -e SC2154 "$T/$host"/*.sh | head -5)"
    fi
done
check ci/commands "8 8" "$(find "$T/github" -name '*.sh' | wc -l) $(find "$T/gitlab" -name '*.sh' | wc -l)"
check ci/no_expression "" "$(grep -l '\${{' "$T"/github/*.sh)"

# ---- our own workflow: what its list job hands to the others has every recipe once, at most four a job, of one image
mkdir "$T/own"
commands .github/workflows/recipes.yml "$T/own"
list=$(grep -l 'list recipes --json' "$T/own"/*.sh)
GITHUB_OUTPUT=$T/output bash --noprofile --norc -eo pipefail "$list" >"$T/log" 2>&1
check own/list "0 groups" "$? $(sed 's/=.*//' "$T/output")"
sed -n 's/^groups=//p' "$T/output" >"$T/groups"
check own/recipes "" "$(jq -r '.[].recipes' "$T/groups" | tr ' ' '\n' | sort |
    diff - <("$GEN" list recipes --json | jq -r '.recipes[].path' | sort) | head -3)"
check own/groups "true" "$(jq 'all(.[]; (.recipes | split(" ") | length) <= 4)' "$T/groups")"
check own/images "$("$GEN" list recipes target=cpu --json | jq '.recipes | length')" \
    "$(jq '[.[] | select(.image == "debian:12") | .recipes | split(" ") | length] | add' "$T/groups")"

# A copy of this tree as a repository, where main has cpu_tiny and the change makes it dearer; apt-get installs nothing.
# It has this tree's objects. FULL=1: programs are built, too, twice as make verify does, and those of a CUDA recipe where
# nvcc is; of a gen that was changed, base's is built.
mkdir -p "$T/bin" "$T/home" "$T/work"
printf '#!/bin/sh\necho "apt-get $*" >>"%s"\n' "$T/apt" >"$T/bin/apt-get"
chmod +x "$T/bin/apt-get"
export HOME="$T/home" PATH="$T/bin:$PATH"
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost
git ls-files -co --exclude-standard | tar cf - --ignore-failed-read -T - 2>/dev/null | tar xf - -C "$T/work"
W=$T/work
mkdir "$W/out"
cp -r --preserve=timestamps out/.obj out/.gen "$W/out/"
{
    git -C "$W" init -q -b main && git -C "$W" add -A && git -C "$W" commit -qm base &&
        git -C "$W" update-ref refs/remotes/origin/main HEAD
    cp "$W/$R" "$W/recipes/ci_new.lua"
    sed -i 's/micro = 8/micro = 16/' "$W/$R"
    git -C "$W" add -A && git -C "$W" commit -qm change
} >"$T/log" 2>&1
check run/change 1 "$(git -C "$W" diff --stat HEAD^ -- "$R" | grep -c cpu_tiny)"

# HOST RECIPE: every command, with the variables of the job, until one fails: its number and status
steps() {
    local n image
    image=$([[ $2 == *h200* ]] && echo cuda || echo cpu)
    rm -rf "$W/out/ci"
    : >"$T/summary"
    for n in "$T/$1"/*.sh; do
        if [ -z "${FULL:-}" ] && grep -q -e 'make -j' -e 'verify RECIPE' "$n"; then continue; fi
        (cd "$W" && RECIPE=$2 NAME=$(basename "$2" .lua) DIECAST=. ALLOW=${ALLOW:-any} IMAGE=$image \
            BASE=${BASE:-origin/main} GITHUB_STEP_SUMMARY="$T/summary" bash --noprofile --norc -eo pipefail "$n") \
            >"$T/log" 2>&1 </dev/null || {
            local code=$?
            echo "$(basename "$n" .sh) $code $(grep '^gen: ' "$T/log" | tail -n 1)"
            return
        }
    done
    echo passed
}
check run/github "passed" "$(steps github $R)"
check run/summary "this change costs 35.1 MiB on cpu_tiny: 99.2 MiB a rank, was 64.1 MiB" "$(head -n 1 "$T/summary")"
check run/bytes "| bytes of a rank | $(of device_bytes "$T/base") | $(of device_bytes "$T/now") | +$more (+35.1 MiB) |" \
    "$(tr -d , <"$T/summary" | grep 'bytes of')"
check run/kept "base.json cost.md manifest.json plan.json plan.txt" "$(cd "$W/out/ci/cpu_tiny" && find . -maxdepth 1 -type f |
    cut -c3- | sort | paste -sd' ')"
check run/packages "apt-get install -y --no-install-recommends ca-certificates git make" "$(tail -n 1 "$T/apt")"
check run/limit "04 1 gen: diff: cpu_tiny: a rank needs 35.1 MiB more than the base, --allow 1MiB" "$(ALLOW=1MiB steps github $R)"
check run/limit_summary 1 "$(grep -c '^this change costs 35.1 MiB' "$T/summary")"
check run/same "passed this change costs nothing on mlm_tiny" "$(steps github recipes/mlm_tiny.lua) $(
    sed 's/:.*//;q' "$T/summary")"
cp "$W/$R" "$W/recipes/ci_new.lua"
check run/new "passed ci_new is new: 99.2 MiB a rank" "$(steps github recipes/ci_new.lua) $(head -n 1 "$T/summary")"
check run/first_commit "passed cpu_tiny is new" "$(BASE=nothing steps github $R) $(sed 's/:.*//;q' "$T/summary")"
check run/gitlab "passed this change costs 35.1 MiB on cpu_tiny" "$(BASE='' steps gitlab $R) $(
    sed 's/:.*//;q' "$W/out/ci/cpu_tiny/cost.md")"
if [ -n "${FULL:-}" ]; then
    echo '/* changed */' >>"$W/gen/util.h"
    git -C "$W" commit -qam gen
    check run/changed_gen "passed this change costs 35.1 MiB on cpu_tiny $W/out/base/out/.gen/gen" "$(steps github $R) $(
        sed 's/:.*//;q' "$T/summary") $(ls "$W/out/base/out/.gen/gen")"
fi
if [ -n "${FULL:-}" ] && [ -n "$(. tests/builds/lib.sh && nvcc_path)" ]; then
    check run/cuda "passed this change costs nothing on h200x1_tiny" "$(steps github recipes/h200x1_tiny.lua) $(
        sed 's/:.*//;q' "$T/summary")"
fi
exit $failed
