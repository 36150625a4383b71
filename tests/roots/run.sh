#!/bin/bash
# Builds in root file systems that mmdebstrap makes: run.sh [PART ...], all parts in turn.
# apart: makes root file systems from the package sources of this machine, as root, in some minutes
# parts: dist container verify
cd "$(dirname "$0")" || exit 1
failed=0
(cd ../.. && gen/deps.sh roots) || { echo "not ok roots: the packages of gen/deps.sh roots are missing"; exit 1; }
[ "$(id -u)" = 0 ] || { echo "not ok roots: root is needed, for chroot"; exit 1; }
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^# parts: //p' run.sh)
for part in "$@"; do
    ./"$part".sh || failed=1
done
exit $failed
