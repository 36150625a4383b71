#!/bin/bash
# Layout of the sources: no tabs, no blanks at line ends, at most 100 columns in C of the product, 120 elsewhere,
# except lists of inputs in tests/oracle, link lines of fuzz targets, and texts that tests write or expect (rows of
# here-documents, lines that are short without their quoted texts).
# A #pragma after an if needs braces: nvcc misreads `if #pragma for else`.
# The scripts are also checked by shellcheck if it is installed, unless the word `layout` is given. Prints FILE:LINE of
# each finding.
set -u
cd "$(dirname "$0")/.." || exit 2
found=0
sources=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' '*.def' '*.lua' '*.sh' '*.py' '.ci/run' |
    grep -v -e '^tests/gold/' -e '^tests/fuzz/corpus/')
# shellcheck disable=SC2086      # a list of names
awk '
    function say(what) { print FILENAME ":" FNR ": " what; bad = 1 }
    /\t/ && FILENAME !~ /\.sh$/ { say("tab") }
    /[ \t]$/ { say("blank at the end of the line") }
    FNR == 1 {
        here = ""
        most = FILENAME ~ /^(gen|runtime|kernels|templates)\/.*\.(c|h|cu|cuh)$/ ? 100 : 120
    }
    # nvcc 13.0 dropped the else after such a loop
    /^ *#pragma unroll/ && before ~ /^ *(} )?(else )?if .*\)$/ { say("#pragma after an if without {") }
    { before = $0 }
    FILENAME ~ /^tests\/.*\.sh$/ {
        if (here != "" && $0 == here) here = ""
        else if (here == "" && match($0, /<<-? ?\047?[A-Z]+\047?/)) {
            here = substr($0, RSTART, RLENGTH)
            gsub(/[^A-Z]/, "", here)
        }
        else if (here != "") next
        bare = $0
        gsub(/\047[^\047]*\047?|"[^"]*"/, "", bare)
        if (length(bare) < 80) next
    }
    length > most && FILENAME !~ /^tests\/oracle\// && !/^\/\/ link: / { say(length " columns") }
    END { exit bad }' $sources || found=1
if [ "${1:-}" = layout ]; then
    exit $found
fi
if command -v shellcheck >/dev/null; then
    # shellcheck disable=SC2046,SC2086
    shellcheck -S error $(grep -l '^#!/bin/bash' $sources) || found=1
else
    echo "shellcheck is not installed: scripts not checked"
fi
exit $found
