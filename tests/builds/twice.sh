#!/bin/bash
# Two equal builds of a program for the CPU. nvcc's are in tests/shipped.
. "$(dirname "$0")/common.sh"

# ---- the same bytes
verify() {              # recipe
    tests/builds/verify.sh "$1" >"$T/out" 2>&1
    check "verify/$(basename "$1" .lua)" 0 "$?$([ -s "$T/out" ] && grep -e differ -e warning "$T/out")"
}
# The program's own files are compiled twice. FULL=1: everything, and as the Makefile says, with all that can name a
# place.
if [ -n "${FULL:-}" ]; then
    CCACHE_DISABLE=1 EXTRA=-O0 verify recipes/cpu_tiny.lua
else
    CCACHE_DISABLE=1 IN_HASTE=1 verify recipes/cpu_tiny.lua
fi
exit $failed
