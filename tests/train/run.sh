#!/bin/bash
# The CPU target end to end: every script of this folder in turn.
cd "$(dirname "$0")" || exit 1
failed=0
for part in reference.sh pairs.sh export.sh faults.sh sanitize.sh; do
    ./$part || failed=1
done
exit $failed
