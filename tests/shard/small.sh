#!/bin/bash
# Small states: what optimizer states and gradients need less memory by. small.sh sim: on the simulator.
BACKEND=${1:-cpu}
cd "$(dirname "$0")/../.." || exit 1
failed=0
scripts="master moments backward"
[ "$BACKEND" = cpu ] || scripts="moments backward"
for script in $scripts; do
    tests/shard/$script.sh "$BACKEND" || failed=1
done
exit $failed
