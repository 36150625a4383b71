#!/bin/bash
# Two hosts, as network namespaces on one machine: run.sh [PART ...], all parts in turn. Each part takes CPU programs,
# then CUDA programs on the simulator, or the one of them that BACKEND names.
# apart: makes network namespaces, for which it needs root and packages of its own
# parts: start engines cut refused slow
cd "$(dirname "$0")" || exit 1
failed=0
(cd ../.. && gen/deps.sh nodes) || { echo "not ok nodes: the packages of gen/deps.sh nodes are missing"; exit 1; }
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^# parts: //p' run.sh)
for part in "$@"; do
    for backend in ${BACKEND:-cpu sim}; do
        BACKEND=$backend ./"$part".sh || failed=1
    done
done
exit $failed
