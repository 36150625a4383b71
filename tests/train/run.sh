#!/bin/bash
# The targets end to end: run.sh [PART ...], all parts in turn. sanitize.sh, whole runs under sanitizers, is soak's.
# Parts that compile alike stand apart: the second takes from the cache what the first put there.
# parts: sim isa reference nf4 ffn mlm masked_diffusion dpo prm ad ppo
# parts: fused checked pairs terminal faults export new talk readers mistakes records yesterday
# wide: isa checked readers fused
# cost: sim=100 reference=50 pairs=55 faults=40 dpo=32 yesterday=34
cd "$(dirname "$0")" || exit 1
failed=0
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^# parts: //p' run.sh)
for part in "$@"; do
    ./"$part".sh || failed=1
done
exit $failed
