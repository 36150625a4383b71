# shellcheck shell=bash
# common.sh -- functions of the scripts here and of ../quickstart.sh. A script sets `demo`, its name before messages,
# and sources this first: it then runs in the project's root, with a folder $here of its own and gen's path in $gen. The
# folder is empty, unless the script sets `goes_on`.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
unset MAKEFLAGS MAKELEVEL        # of a make that started this
gen=out/.gen/gen
here=out/${demo//-/_}
began=$SECONDS
[ -n "${goes_on:-}" ] || rm -rf "$here"
mkdir -p "$here" || exit 1

die() {                 # MESSAGE
    echo "$demo: $1" >&2
    exit 1
}
run() {                 # COMMAND ...: printed, then run; one that fails ends the script
    printf '$'
    printf ' %q' "$@"
    echo
    "$@" || die "the command above ended with $?"
}
# leaves RUN...: prints a line for each table, picture and file of example texts in the run folders
leaves() {
    local dir
    say "to look at"
    for dir; do
        find "$dir" -type f \( -name '*.png' -o -name '*.csv' -o -name 'distributed_output_*.txt' \
            -o -name samples.jsonl \
            -o -name '*_weights.json' -o -name 'eval_result*.json' -o -name mlm_training_history.json \) | LC_ALL=C sort
        [ ! -d "$dir/runs" ] || echo "tensorboard --logdir $dir/runs"
    done
}
say() { printf '\n-- %s\n' "$*"; }

# program NAME RECIPE-ARGS...: out/NAME/train from a recipe of recipes/
program() {
    local name=$1
    shift
    run $gen "recipes/$name.lua" "$@"
    echo "\$ make -C out/$name"
    make -s -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
        -C "out/$name" >/dev/null || die "out/$name does not build"
}

# Texts of the package fortunes, without pictures, each followed by a line %.
fortunes() {
    local from=/usr/share/games/fortunes file
    [ -d $from ] || die "no $from: name a text with make $demo DATA=FILE"
    for file in "$from"/*; do
        case $file in *.dat | *.u8 | */ascii-art) continue ;; esac
        cat "$file"
        echo %
    done
}

# The last validation loss in the log $1; with "first", the first one.
validation() {
    sed -n 's/.*eval loss \([0-9.]*\).*/\1/p' "$1" | if [ "${2:-}" = first ]; then head -1; else tail -1; fi
}

# Succeeds if the number $1 is there and below $2 - $3 (0).
below() { awk -v a="$1" -v b="$2" -v by="${3:-0}" 'BEGIN { exit !(a != "" && a < b - by) }'; }
