#!/bin/bash
# Speed-up over one rank, and 16 bit against fp32 in time and planned bytes, each against what the guides of the systems
# say: GPUs where there are any, else processes of a thread each, which is said. Part of `make bench`; alone: make bench
# CASE=ranks, which wants no PyTorch. Runs in turns, medians; prints a table and writes nothing: timings are never
# tests.
#   RUNS=3 STEPS=10 RANKS="2 4 8" (default: up to the GPUs, or the cores, at hand)
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/lib.sh
RUNS=${RUNS:-3}
STEPS=${STEPS:-10}
gen=out/.gen/gen here=out/bench_ranks
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# system, recipe on CPUs, samples of a step there, recipe on GPUs, samples of a step, ranks:speed-up of its guide
CASES="ad ad_tiny 64 ad_compressed 1024 2:1.8,4:3.5,8:6-7
mlm mlm_tiny 64 mlm_1gpu_standard 512 8:6-8"
# the guide's words on 16 bit, of ad: times as fast, bytes as a share
HALF_TIME="about 2" HALF_BYTES="about 0.5"

have=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
if [ "$have" -gt 0 ]; then
    gpu_need "$0"
    target=$TARGET half=fp16 precision=fp16 other=fp32 what="GPUs ($(gpu_name))"
    fields=("target=$target" "memory.limit_gib=$MEMORY_GIB")
else
    have=$(nproc) target=cpu_native half=bf16 precision=fp32 other=bf16 what="CPU processes of one thread"
    fields=("target=$target")
    export OMP_NUM_THREADS=1
fi
counts=1
for n in ${RANKS:-2 4 8}; do
    if ! [[ $n =~ ^(2|4|8)$ ]]; then
        echo "$0: RANKS: want some of 2 4 8, got $n" >&2
        exit 2
    fi
    if [ "$n" -le "$have" ] || [ -n "${RANKS:-}" ]; then counts+=" $n"; fi
done
echo "speed-up over one rank, 16 bit ($half) over fp32: $what, $have at hand"
[ "$target" != cpu_native ] || echo "no GPU answers here: what the guides say is of GPUs, and of fp16"

# build NAME RECIPE FIELDS...: out/bench_ranks/NAME; its planned MiB of a rank in $tmp/NAME.mib
build() {
    local name=$1 recipe=$2
    shift 2
    if ! { "$gen" "recipes/$recipe.lua" "${fields[@]}" "$@" -o "$here/$name" &&
        make -s -C "$here/$name" -j"$(nproc)"; } \
        >"$tmp/build" 2>&1; then
        echo "$name is not built: $(tail -n 1 "$tmp/build")" >&2
        return 1
    fi
    sed -n 's/.*, \([0-9.]*\) \([KMG]\)iB a rank planned.*/\1 \2/p' "$tmp/build" |
        awk '{ print $1 * ($2 == "G" ? 1024 : $2 == "K" ? 1 / 1024 : 1) }' >"$tmp/$name.mib"
}
# once NAME: a run's rate onto the end of $tmp/NAME.rates
once() {
    "$here/$1/run.sh" --bench-steps "$STEPS" --out "$tmp/run" 2>"$tmp/err" >"$tmp/line" ||
        { echo "$1: $(tail -n 1 "$tmp/err")" >&2; return 1; }
    sed -n 's/^{"[a-z]*_per_second": \([0-9.]*\).*/\1/p' "$tmp/line" >>"$tmp/$1.rates"
}
median() { sort -g "$tmp/$1.rates" 2>/dev/null | awk '{ x[NR] = $1 } END { print NR ? x[int((NR + 1) / 2)] : "" }'; }
mib() { cat "$tmp/$1.mib" 2>/dev/null; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || b + 0 == 0) print "-"; else printf "%.2f", a / b }'; }
claim() { tr ',' '\n' <<<"$2" | sed -n "s/^$1://p"; }       # RANKS CLAIMS

failed=0
printf '%-8s %-22s %12s %9s %s\n' system ranks "a second" speed-up "guide's"
while read -r system cpu_recipe cpu_batch gpu_recipe gpu_batch claims; do
    recipe=$gpu_recipe batch=$gpu_batch
    [ "$target" != cpu_native ] || { recipe=$cpu_recipe batch=$cpu_batch; }
    names=
    for n in $counts; do
        build "$system.$n" "$recipe" gpus="$n" precision=$precision batch.micro=$((batch / n)) \
            batch.accum=1 && names+=" $system.$n" || failed=1
    done
    # one rank is of one of the two precisions
    build "$system.$other" "$recipe" gpus=1 precision="$other" batch.micro="$batch" batch.accum=1 &&
        names+=" $system.$other" || failed=1
    for ((run = 1; run <= RUNS; run++)); do
        for name in $names; do once "$name" || failed=1; done
    done
    for n in $counts; do
        [ "$n" = 1 ] && said=- || said=$(claim "$n" "$claims")
        printf '%-8s %-22s %12s %9s %s\n' "$system" "$n" "$(median "$system.$n")" \
            "$(over "$(median "$system.$n")" "$(median "$system.1")")" "${said:--}"
    done
    time=- bytes=- full=$system.1 low=$system.$other
    [ "$other" = "$half" ] || { full=$system.$other low=$system.1; }
    [ "$system" != ad ] || { time=$HALF_TIME bytes=$HALF_BYTES; }
    printf '%-8s %-22s %12s %9s %s\n' "$system" "1, $half over fp32" "$(median "$low")" \
        "$(over "$(median "$low")" "$(median "$full")")" "$time"
    printf '%-8s %-22s %12s %9s %s\n' "" "  its planned MiB" "$(mib "$low")" \
        "$(over "$(mib "$low")" "$(mib "$full")")" "$bytes"
done <<<"$CASES"
exit $failed
