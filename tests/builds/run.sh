#!/bin/bash
# Build guarantees of gen: run.sh [PART ...], every part in turn. Without the CUDA toolkit what needs it is
# left out, with a line.
# parts: twice check lock hostile toolchain dist
# wide: lock
# cost: check=27 lock=25
cd "$(dirname "$0")" || exit 2
failed=0
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^# parts: //p' run.sh)
for part in "$@"; do
    ./"$part".sh || failed=1
done
exit $failed
