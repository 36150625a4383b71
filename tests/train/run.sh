#!/bin/bash
# The targets end to end: every script of this folder in turn.
cd "$(dirname "$0")" || exit 1
failed=0
for part in reference.sh pairs.sh export.sh faults.sh sanitize.sh sim.sh checked.sh; do
    ./$part || failed=1
done
exit $failed
