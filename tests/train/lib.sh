# lib.sh -- builds recipes into out/.test/train/ and tells verdicts; sourced by the scripts next to it.
#
# BACKEND=cpu (default): as recipes say. sim: the CUDA target, run by the simulator (SIM=checked: every
# access is looked at). gpu: the CUDA target on the GPU at hand.
# FULL=1 (make soak; on a GPU the default, FULL= for less): also programs whose parts others have.
# Keeps: programs of the last time, as long as what they are made from is the same; scripts side by side share them.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/sources.sh
. tests/programs.sh
. tests/compare.sh
. tests/verdict.sh
here=tests/train
ref=$here/ref
BACKEND=${BACKEND:-cpu} SIM=${SIM:-fast}
FULL=${FULL-$([ $BACKEND != gpu ] || echo 1)}
target=() tools=() flags=
case $BACKEND in
cpu) work=out/.test/train${FULL:+.full} ;;
sim) work=out/.test/train.$SIM${FULL:+.full} target=("target=${TARGET:-sm_90}") ;;
gpu) work=out/.test/train.gpu${FULL:+.full} target=("target=${TARGET:-sm_90}") ;;
*) echo "not ok BACKEND: want cpu, sim or gpu, got $BACKEND"; exit 1 ;;
esac
gen=${GEN:-out/.gen/gen}
cores=${CORES:-$(nproc)}
mkdir -p $work
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1

if [ $BACKEND = sim ]; then
    toolkit=$(tests/sim/toolkit.sh $SIM) || { verdict simulator "does not build"; exit 1; }
    tools=("CUDA=$toolkit") flags=$(cat "$toolkit/flags" tests/sim/{*.cpp,*.h,*.def,include/*} | sha256sum)
    # the host's own accesses are looked at too
    [ $SIM = fast ] || tools+=("CC='$PWD/tests/cc' --watched")
fi
compiled=$(sha256sum <tests/cc)    # programs of other ways to compile are rebuilt
flags+=$compiled
[ -x "$gen" ] || { verdict gen "$gen is not built: make gen"; exit 1; }

# Compiled as users do it are two programs for the CPU, of fp32 and of bf16: their runs agree bit for bit (twice,
# resumed), and with PyTorch's within bounds. Those of PPO, too, which run for longer than they are compiled. FULL=1:
# all. The others, whose tests look at numbers within bounds, words and files, and at bits of programs compiled alike,
# in haste, which takes a tenth of the time. Always in haste are programs whose bits are compared with those of other
# kernels (fused.sh): as shipped, gcc makes a fused multiply-add of a gradient times rstd plus a residual, which two
# kernels round twice (kernels.fuse changes rounding, its row in gen/reference/fields.md says).
as_shipped() {          # NAME
    case $1 in fused.*) return 1 ;; esac
    [ -z "$FULL" ] || return 0
    [ $BACKEND = cpu ] || return
    case $1 in
    gpt2_tiny | llama_tiny.bf16 | ppo | ppo.small) ;;
    *) return 1 ;;
    esac
}
# Those whose bounds leave no room for sums in another order than those of shipped programs get -O2 for their own files.
nearly_so() { case $1 in mdm_llada | mlm_microbert | prm_raw) ;; *) return 1 ;; esac; }
# A gen with the families of the tests alone (families/) and the real ones, of the same objects but for the files
# that read their table and for lm.c, where there is families/RECIPE.c; prints its path.
families_gen() {        # RECIPE
    local own=$PWD/out/.test/families file objects= lm=
    [ ! -e "$here/families/$1.c" ] || lm=$1
    own+=${lm:+.$lm}
    mkdir -p $own
    exec 8>$own.lock
    flock 8 || return
    if [ ! -x $own/gen ] ||
        [ -n "$(find out/.obj/gen $here/families -newer $own/gen -type f ! -name '*.d')" ]; then
        rm -f $own/*.o
        for file in $(grep -l runtime/model/families.def gen/*/*.c); do
            gcc -std=c11 -Og -I$here/families -I. -c "$file" -o "$own/$(basename "$file" .c).o" || return
        done
        [ -z "$lm" ] || gcc -std=c11 -Og -I. -c "$here/families/$lm.c" -o "$own/lm.o" || return
        # those whose source is still there
        objects=$(find out/.obj/gen out/.obj/runtime -name '*.o' | while read -r file; do
            source=${file#out/.obj/}
            [ -e "$own/${file##*/}" ] || [ ! -e "${source%.o}.c" ] || echo "$file"; done)
        # shellcheck disable=SC2086
        gcc -o $own/gen $own/*.o $objects -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm || return
    fi
    exec 8>&-
    echo $own/gen
}
build() (               # NAME RECIPE [FIELD=VALUE ...]: $work/NAME/train; with EXTRA in the environment by that
    fail() { rm -f "$dir/key"; exit 1; }         # an earlier build must not pass for it
    dir=$work/$1 recipe=$here/recipes/$2.lua own=$gen
    if [ ! -e "$recipe" ]; then
        recipe=$here/families/recipes/$2.lua
        own=$(families_gen "$2" 2>"$dir.log") || fail
    fi
    how=(make_in_haste)
    if [ -n "${EXTRA:-}" ] || as_shipped "$1"; then how=(make_program "EXTRA=${EXTRA:--g0}"); fi
    export OWN=
    ! nearly_so "$1" || OWN=-O2
    shift 2
    exec 9>"$dir.lock"
    flock 9
    rm -rf "$dir.new"
    "$own" "$recipe" "${target[@]}" "$@" -o "$dir.new" >"$dir.log" 2>&1 || fail
    key=$(cd "$dir.new" && find . -type f | LC_ALL=C sort | xargs cat | sha256sum)${how[*]}$OWN$flags
    if [ "$key" = "$(cat "$dir/key" 2>/dev/null)" ]; then
        rm -rf "$dir.new"
        exit 0
    fi
    rm -rf "$dir"
    mv "$dir.new" "$dir"
    "${how[0]}" "$dir" "${tools[@]}" "${how[@]:1}" >"$dir.log" 2>&1 || exit 1
    echo "$key" >"$dir/key"
)

# programs: those of standard input, NAME RECIPE [FIELD=VALUE ...] a line, $CORES at a time; ends the
# script when one fails
programs() {
    local name words names=() bad=0
    while read -r name words; do
        [ -n "$name" ] || continue
        names+=("$name")
        while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
        # shellcheck disable=SC2086
        build "$name" $words &
    done
    built "${names[@]}"
}

built() {               # NAME ...: what `build` in the background left; ends the script when one failed
    local name bad=0
    wait
    for name in "$@"; do
        [ -f "$work/$name/key" ] || { verdict "build $name" "$(tail -n 3 "$work/$name.log")"; bad=1; }
    done
    [ $bad = 0 ] || exit 1
}

# train NAME CASE RUN ARGS...: trains on the data of a reference case from its weights into
# $scratch/RUN; the program's exit code. What it said is in $scratch/RUN.log.
train() {
    local name=$1 case=$ref/$2 run=$scratch/$3 adapter= held=eval
    shift 3
    [ ! -e "$case/meta.safetensors" ] || held=meta      # what a process reward model validates on, and learns from
    if [ -d "$case/adapter_init" ] && grep -q 'adapter_json =' "$work/$name/recipe.h"; then
        adapter="--adapter $case/adapter_init"
    fi
    # shellcheck disable=SC2086
    "$work/$name/run.sh" --data "$case/tokens.safetensors" --$held-data "$case/$held.safetensors" \
        --init-from "$case/model" $adapter --out "$run" "$@" >"$run.log" 2>&1
}

trained() {             # as train; a verdict when it fails
    train "$@" || verdict "$3 trains" "exit $?: $(tail -n 2 "$scratch/$3.log")"
}

# divided NAME CASE KEY [FLAGS]: KEY, which says what validation is the best, of the weights that a case begins with, by
# a program that divides the samples in another way: PyTorch's, but for the rounding of fp32
divided() {
    local name=$1 case=$ref/$2 key=$3 held=eval
    shift 3
    [ ! -e "$case/meta.safetensors" ] || held=meta
    "$work/$name/run.sh" --eval-only --$held-data "$case/$held.safetensors" --init-from "$case/model" \
        --out "$scratch/divided.$name" "$@" >"$scratch/divided" 2>"$scratch/divided.log"
    verdict "$name, $key" "$(paste <(sed -n "s/.*\"$key\": \([-+.e0-9]*\).*/\1/p" "$scratch/divided") \
        <(sed -n "s/.*\"$key\": \([-+.e0-9]*\).*/\1/p" "$case/expect.json" | head -n 1) | awk '
        NF == 2 && ($1 / $2 - 1) ^ 2 < 1e-12 { same = 1 }
        END { if (!same) print "not the same: " $0 }'
        [ -s "$scratch/divided" ] || tail -n 1 "$scratch/divided.log")"
}

# waited TEST LOG: --profile says how long a step waits for collectives: the sum of its rows of them; of one rank it
# has no such line
waited() {
    verdict "$1" "$(awk '
        $1 == "collectives" && $3 == "ms" { told = $2; lines++ }
        $1 ~ /^comm_/ && $6 == "%" { sum += $3; kernels++ }
        END { if (lines != (kernels > 0) || (kernels && (sum <= 0 || (told - sum) ^ 2 > 0.01 ^ 2)))
            print lines " lines, " told " of " sum " ms" }' "$2")"
}
# profiled RUN: what --profile has told of it: shares that are a whole, spans that lie in their step or, on a GPU's
# track, one after the other; of each rank
profiled() {
    local run=$scratch/$1
    verdict "$1, profile: shares" "$(awk '
        $1 ~ /^(compute|communication|waiting|host)$/ && $3 == "ms" { sum += $4; n++ }
        $1 == "together" { all = $4 }
        END { if (n != 4 || sum < 95 || sum > 105 || all < 95 || all > 105) print n " shares, " sum " and " all " %" }
        ' "$run.log")"
    waited "$1, profile: collectives" "$run.log"
    verdict "$1, profile: timeline" "$(head -n 1 "$run/profile.json" |
        grep -qxF '{"displayTimeUnit":"ms","traceEvents":[' ||
        echo "it begins with $(head -n 1 "$run/profile.json")"
        tail -n 1 "$run/profile.json" | grep -qx ']}' || echo "it has no end"
        tr -d '{}"' <"$run/profile.json" | awk -F '[:,]' '
        $2 == "X" { track = $4 " " $6; begin = $8; end = $8 + $10; spans++
            if ($12 ~ /^step /) { from = begin; to = end; at[track] = begin; steps++; next }
            if ((track in at && begin < at[track] - 0.002) || ($6 == 0 && end > to + 0.002)) wrong = wrong " " NR
            at[track] = end }
        END { if (wrong || spans < 20 || !steps) print steps " steps, " spans " spans, wrong in lines" wrong }')"
}
# nexts NAME LOG WHAT [FLAGS]: the line WHAT of what a finished run says to do next, typed
nexts() {
    local line
    line=$(sed -n "s/^  $3  *\(.*\)$/\1/p" "$2" | sed "s/     [a-zA-Z].*//")
    verdict "$1" "$([ -n "$line" ] || echo "no line $3: $(tail -n 5 "$2")"
        eval "timeout 100 $line ${4:-}" >"$scratch/typed" 2>&1 </dev/null ||
            echo "$line: $(tail -n 2 "$scratch/typed")")"
}

# bench_memory FILE: bytes planned, bytes allocated on the device, of the line of --bench-steps
bench_memory() { sed -n 's/.*"planned_bytes": \([0-9]*\), "allocated_bytes": \([0-9]*\),.*/\1 \2/p' "$1"; }

compare() { "$work/compare" "$@" 2>>"$scratch/compare.log" || failed=1; }

# same TEST RUN RUN [STEP]: every number of the history and every byte of weights and optimiser state at STEP (20)
same() {
    local file at=checkpoint-${4:-20}
    compare "$1" history "$scratch/$2" "$scratch/$3" 0
    for file in "$scratch/$3/$at"/*.safetensors; do
        cmp -s "$file" "$scratch/$2/$at/$(basename "$file")" ||
            { verdict "$1 bits" "$(basename "$file") differs"; return; }
    done
    verdict "$1 bits"
}

(
    flock 9
    sources="$here/compare.c $(sources runtime base json safetensors safetensors_write crc32c)"
    # shellcheck disable=SC2086
    [ -x $work/compare ] && [ -z "$(find $sources $here/events.h $(headers runtime) -newer $work/compare)" ] ||
        ${CC:-gcc} -std=c11 -I. -Og -g0 -Wall -Wextra -Wshadow -Wvla -Werror -o $work/compare $sources -lcjson -lm
) 9>$work/compare.lock || { verdict compare "does not compile"; exit 1; }

# ---- losses, a line a step --------------------------------------------------

losses() { sed -n 's/.*"loss": \([0-9.e+-]*\).*/\1/p' "$1/history.jsonl"; }
as_ten() {              # RUN: its ten losses are those of standard input
    paste <(losses "$scratch/$1") - | awk '
        NF == 2 { off = ($1 - $2) / $2; n += off > -1e-5 && off < 1e-5 }
        END { if (n != 10) print n " of 10 within 1e-5" }'
}
dpo_variant() {         # NAME: of tests/oracle/dpo.py
    sed -n "/losses/,/}/s/^ *\"$1\": \[\(.*\)\].*/\1/p" $ref/dpo_variants/expect.json | tr ',' '\n'
}
