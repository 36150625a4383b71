#!/bin/bash
# Runs the groups tests/*/run.sh, or those named, and sums up; the exit status is the verdict.
# A group prints `ok NAME` or `not ok NAME: WHY`, a line a test; one that prints none or that
# dies counts as a failed test. GROUP_SECONDS: how long a group may take.
set -u
cd "$(dirname "$0")/.." || exit 2
export LC_ALL=C.UTF-8
unset MAKEFLAGS MAKELEVEL        # of a make that started this
# Threads that wait for each other sleep soon: on cores that others use too, spinning costs a lot.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# bench needs Python and is no test
groups=("$@")
if [ $# = 0 ]; then
    mapfile -t groups < <(printf '%s\n' tests/*/run.sh | cut -d/ -f2 | grep -vx bench)
fi

for group in "${groups[@]}"; do
    echo "== $group"
    began=$(date +%s%N)
    timeout -k 10 "${GROUP_SECONDS:-900}" "tests/$group/run.sh" </dev/null 2>&1 | tee "$scratch/log"
    status=${PIPESTATUS[0]}
    ok=$(grep -c '^ok ' "$scratch/log")
    bad=$(grep -c '^not ok ' "$scratch/log")
    grep '^not ok ' "$scratch/log" | sed "s|^not ok |not ok $group: |" >>"$scratch/failures"
    why=
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then
        why="ended after ${GROUP_SECONDS:-900} s"
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        why="exit status $status without a failed test"
    elif [ "$status" = 0 ] && [ "$bad" != 0 ]; then
        why="exit status 0 with failed tests"
    elif [ "$ok" = 0 ] && [ "$bad" = 0 ]; then
        why="ran no test"
    fi
    if [ -n "$why" ]; then
        echo "not ok $group: $why" | tee -a "$scratch/failures"
        bad=$((bad + 1))
    fi
    ms=$((($(date +%s%N) - began) / 1000000))
    printf '== %s: %d passed, %d failed, %d.%d s\n\n' "$group" "$ok" "$bad" $((ms / 1000)) $((ms % 1000 / 100))
    passed=$((passed + ok))
    failed=$((failed + bad))
done

[ "$failed" = 0 ] || cat "$scratch/failures"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
