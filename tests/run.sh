#!/bin/bash
# run.sh [GROUP | GROUP/PART ...]: runs the groups tests/*/run.sh, or those named, side by side, and sums up; the
# exit status is the verdict. A group prints `ok NAME` or `not ok NAME: WHY`, a line a test; one that prints none
# or that dies counts as a failed test. A group with a line `# parts: A B` is one job a part: run.sh A, run.sh B.
# One with a line `# apart: WHY` runs only where it is named; parts of a line `# wide: A B`, where they or their group
# are named, or with FULL=1. `# cost: SECONDS`, or `# cost: A=SECONDS B=SECONDS` of parts: processor time, if it is more
# than 20 s; the longest jobs start first.
# JOBS=N: how many jobs at a time (two more than cores: some wait more than they work). JOB_SECONDS: against hangs only.
# Inputs are the same every time: SEED=N for others (make soak).
# Nothing else of the caller's environment or home folder reaches the tests (`kept` lists what does).
# Programs run with AVX2, which every supported CPU has, so that the tests see the same arithmetic on every machine;
# ONEDNN_MAX_CPU_ISA=ALL: with all that this CPU has. kernels and train/isa compare the two in any case.
set -u
cd "$(dirname "$0")/.." || exit 2
kept=(PATH PWD LD_LIBRARY_PATH CUDA_HOME NVCC PYTHON TMPDIR CCACHE_DIR GOMP_SPINCOUNT ONEDNN_MAX_CPU_ISA JOBS
    JOB_SECONDS SEED FULL COUNT KILLS FUZZ_SECONDS UPDATE VERBOSE http_proxy https_proxy no_proxy)
for name in $(compgen -e); do
    [[ " ${kept[*]} " == *" $name "* ]] || unset "$name"
done
umask 022
ulimit -Sn 1024                         # as in a login shell, whoever runs this
export LC_ALL=C.UTF-8 ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX2}
# Threads that wait for each other sleep soon: on cores that others use too, spinning costs a lot.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
export SEED=${SEED:-1}
limit=${JOB_SECONDS:-1800}
# The same sources with the same flags are compiled once for all groups; kept from one run to the next. What is new is
# not preprocessed twice where the compiler is asked for the headers (-MMD): that took a third of the time.
if [ -d /usr/lib/ccache ]; then
    export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=${CCACHE_DIR:-$PWD/out/.test/ccache} CCACHE_NOHASHDIR=1
    export CCACHE_DEPEND=1 CCACHE_NOCOMPRESS=1
fi
# Folders of a moment lie in memory where there is room: making their files costs a disk more than most tests need.
# With TMPDIR in the environment they lie there.
room() { [ "$(df --output=avail "$1" 2>/dev/null | tail -n 1)" -ge 4000000 ] 2>/dev/null; }
if [ -z "${TMPDIR:-}" ] && room /dev/shm && [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -ge 6000000 ] &&
    findmnt -no OPTIONS -T /dev/shm | grep -qvw noexec; then
    TMPDIR=/dev/shm
fi
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/diecast.XXXXXX") || exit 2
export TMPDIR HOME=$TMPDIR/home
mkdir "$HOME"
scratch=$(mktemp -d)
# what still runs goes with this script
trap 'cat "$scratch"/*.pid 2>/dev/null | xargs -r kill 2>/dev/null; rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
: >"$scratch/failures"

# ---- the queue

groups=("$@")
named=$*
[ $# != 0 ] || mapfile -t groups < <(grep -L '^# apart: ' tests/*/run.sh | cut -d/ -f2)
queue=()
for group in "${groups[@]}"; do
    if [ ! -x "tests/${group%%/*}/run.sh" ]; then
        echo "$0: no group $group; there are $(printf '%s\n' tests/*/run.sh | cut -d/ -f2 | paste -sd' ')" >&2
        exit 2
    fi
    parts=$(sed -n 's/^# parts: //p' "tests/${group%%/*}/run.sh" | paste -sd' ')
    case $group in
    */*)
        if [[ " $parts " != *" ${group#*/} "* ]]; then
            echo "$0: no part $group; there are: $parts" >&2
            exit 2
        fi
        queue+=("$group")
        ;;
    *)
        [ -n "$parts" ] || queue+=("$group")
        wide=" $(sed -n 's/^# wide: //p' "tests/$group/run.sh") "
        for part in $parts; do
            [[ -z $named${FULL:-} && $wide == *" $part "* ]] || queue+=("$group/$part")
        done
        ;;
    esac
done

# the longest first, so that none of them runs alone at the end; the others in the order of their names
costs() {               # GROUP/PART SECONDS, or GROUP SECONDS, a line
    grep -H '^# cost: ' tests/*/run.sh | sed 's|^tests/||; s|/run.sh:# cost:||' | awk '{
        for (i = 2; i <= NF; i++) print split($i, word, "=") == 2 ? $1 "/" word[1] " " word[2] : $1 " " $i }'
}
[ $# != 0 ] || mapfile -t queue < <(printf '%s\n' "${queue[@]}" |
    awk 'NR == FNR { cost[$1] = $2; next } { print cost[$1] + 0, $1 }' <(costs) - | sort -s -k1,1nr | cut -d' ' -f2)

# ---- a job: its output in one piece when it ends, and a line NAME PASSED FAILED SECONDS in $scratch/results

job() {
    local name=$1 log status why= ok bad real used
    local group=${1%%/*} part=${1#"${1%%/*}"}
    log=$scratch/${name//\//.}
    TIMEFORMAT='%R %U %S'
    # shellcheck disable=SC2086      # no part: no word
    {
        time {
            timeout -k 10 "$limit" "tests/$group/run.sh" ${part#/} </dev/null >"$log" 2>&1 &
            echo $! >"$log.pid"
            wait $!
        }
    } 2>"$log.time"
    status=$?
    rm "$log.pid"
    ok=$(grep -c '^ok ' "$log")
    bad=$(grep -c '^not ok ' "$log")
    if [ $status = 124 ] || [ $status = 137 ]; then
        why="ended after $limit s"
    elif [ $status != 0 ] && [ "$bad" = 0 ]; then
        why="exit status $status without a failed test"
    elif [ $status = 0 ] && [ "$bad" != 0 ]; then
        why="exit status 0 with failed tests"
    elif [ "$ok" = 0 ] && [ "$bad" = 0 ]; then
        why="ran no test"
    fi
    if [ -n "$why" ]; then
        echo "not ok $name: $why" >>"$log"
        bad=$((bad + 1))
    fi
    read -r real used < <(tail -n 1 "$log.time" | awk '{ printf "%.1f %.1f\n", $1, $2 + $3 }')
    {
        flock 9
        printf '== %s\n' "$name"
        cat "$log"
        printf '== %s: %d passed, %d failed, %s s (%s s of processor time)\n\n' "$name" "$ok" "$bad" "$real" "$used"
        grep '^not ok ' "$log" | sed "s|^not ok |not ok $name: |; s|^not ok $name: $name: |not ok $name: |" \
            >>"$scratch/failures"
        echo "$name $ok $bad $real $used" >>"$scratch/results"
    } 9>"$scratch/lock"
}

cpus=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
jobs=${JOBS:-$((cpus + 2))}
[ ${#queue[@]} -gt "$jobs" ] || jobs=${#queue[@]}
# how many processes a job may use at a time: alone all cores
export CORES=$((cpus / jobs > 0 ? cpus / jobs : 1))
SECONDS=0
for name in "${queue[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    job "$name" &
done
wait

if [ ${#queue[@]} -gt 1 ]; then
    sort -k4,4nr "$scratch/results" |
        awk -v cores="$cpus" -v seconds=$SECONDS '
        { printf "%-24s %5d passed %3d failed %8.1f s %8.1f s of processor time\n", $1, $2, $3, $4, $5; used += $5 }
        END { printf "%d s on %d cores: %.0f s of processor time, %.0f s without work or used by others\n",
                  seconds, cores, used, cores * seconds - used }'
fi
cat "$scratch/failures"
awk '{ ok += $2; bad += $3 } END { print ok + 0 " passed, " bad + 0 " failed"; exit !(bad == 0 && ok > 0) }' \
    "$scratch/results"
