#!/bin/bash
# packing: the offset packer and `gen pack-buffers`. SEED=N repeats a run of the random tests, FULL=1
# draws more.
set -u
cd "$(dirname "$0")/../.."
. tests/compare.sh
. tests/verdict.sh
here=tests/packing
build=out/.test/packing
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$build"
flags="-std=c11 -I. -O2 -g -Wall -Wextra -Wshadow -Wvla -Werror"
units="gen/lower/packing.c gen/tools/packing_csv.c"

# shellcheck disable=SC2086
build_all() {
    gcc $flags -o "$build/properties" $here/properties.c gen/lower/packing.c &&
    gcc $flags -o "$build/pack-buffers" $here/main.c $units &&
    gcc $flags -fsanitize=address,undefined -fno-sanitize-recover=all \
        -o "$build/pack-checked" $here/main.c $units
}
if ! build_all 2> "$scratch/build"; then
    verdict build "$(head -1 "$scratch/build")"
    exit 1
fi
gen=${GEN:-out/.gen/gen}
if [ -x "$gen" ] && "$gen" pack-buffers $here/A.1048576.csv > /dev/null 2>&1; then
    packer="$gen pack-buffers"
else
    packer="$build/pack-buffers"
fi
timed() { (ulimit -t 10; exec $packer "$@"); }      # seconds of processor time, however busy the machine is

# ---- properties on random instances ----
"$build/properties" "${SEED:-1}" ${FULL:+all} || failed=1

# ---- public instances: fit, in time, and valid for a checker of its own ----
for name in A B C D E F; do
    csv=$here/$name.1048576.csv
    why=
    timed "$csv" --capacity 1048576 > "$scratch/out" 2> "$scratch/err" || why="exit $?"
    [ -n "$why" ] || why=$(awk -v capacity=1048576 -f $here/validate.awk "$csv" "$scratch/out")
    verdict "instance-$name" "$why"
done

# ---- the checker itself must refuse ----
awk -F, -v OFS=, 'NR == 30 { $5 += 1024 } { print }' "$scratch/out" > "$scratch/moved"
why=$(awk -v capacity=1048576 -f $here/validate.awk $here/F.1048576.csv "$scratch/moved")
verdict validator-refuses "$([ -n "$why" ] || echo "a moved buffer passes")"

# ---- the command: columns, line ends, order of rows ----
run() { "$build/pack-checked" "$@" > "$scratch/out" 2> "$scratch/err"; }

printf '\xef\xbb\xbfnote,size,id,upper,lower\r\nx,4,a b,2,0\r\n\r\n,4,c\tq,2,0\r\n-,8,7,4,2' > "$scratch/in.csv"
run "$scratch/in.csv"
printf 'id,lower,upper,size,offset\na b,0,2,4,0\nc\tq,0,2,4,4\n7,2,4,8,0\n' > "$scratch/want"
verdict columns "$(cmp "$scratch/want" "$scratch/out" 2>&1)"

tail -n +2 $here/C.1048576.csv | awk -F, -v OFS=, '{ print "r" NR % 97 "-" NR, $2, $3, $4
    if (NR % 10 == 0) print "twin" NR, $2, $3, $4 }' > "$scratch/rows"
head="id,lower,upper,size"
{ echo $head; cat "$scratch/rows"; } > "$scratch/forward.csv"
{ echo $head; tac "$scratch/rows"; } > "$scratch/backward.csv"
timed "$scratch/forward.csv" 2> /dev/null | sort > "$scratch/forward"
timed "$scratch/backward.csv" 2> /dev/null | sort > "$scratch/backward"
verdict row-order "$([ -s "$scratch/forward" ] || echo "no output"
    cmp "$scratch/forward" "$scratch/backward" 2>&1)"

printf 'id,lower,upper,size,alignment\na,0,2,5,4\nb,0,2,6,8\n' > "$scratch/in.csv"
run "$scratch/in.csv" --capacity 13
printf 'id,lower,upper,size,offset\na,0,2,5,8\nb,0,2,6,0\n' > "$scratch/want"
verdict alignment "$(cmp "$scratch/want" "$scratch/out" 2>&1)"

# ---- refusals: exact text, exit 1, nothing on stdout ----
refused() {  # NAME WANTED ARGUMENTS
    local name=$1 want=$2 status
    shift 2
    run "$@"
    status=$?
    local got
    got=$(cat "$scratch/err")
    if [ $status -ne 1 ]; then verdict "$name" "exit $status, want 1"
    elif [ -s "$scratch/out" ]; then verdict "$name" "it printed rows"
    elif [ "$got" != "$want" ]; then verdict "$name" "want [$want], got [$got]"
    else verdict "$name" ""; fi
}
bad() {  # NAME TEXT WANTED-AFTER-THE-FILE-NAME
    printf "$2" > "$scratch/in.csv"
    refused "bad-$1" "$scratch/in.csv:$3" "$scratch/in.csv"
}
h='id,lower,upper,size\n'
max=9223372036854775807
range="must be an integer from 0 to $max, got"
bad empty '' '1: header: must have columns id,lower,upper,size, got none'
bad no-rows "$h" '1: row: there must be at least one row, got none'
bad no-column 'id,lower,upper\na,0,1\n' '1: size: the header must have this column, got none'
bad two-columns 'id,size,lower,upper,size\n' '1: size: must be one column, got two'
bad negative "${h}a,0,1,-5\n" "2: size: $range \"-5\""
bad fraction "${h}a,0,1.5,5\n" "2: upper: $range \"1.5\""
bad blank "${h}a,0,,5\n" "2: upper: $range \"\""
bad space "${h}a, 0,1,5\n" "2: lower: $range \" 0\""
bad overflow "${h}a,0,1,5\nb,0,9223372036854775808,5\n" \
    "3: upper: $range \"9223372036854775808\""
bad long "${h}a,0,1,$(printf '9%.0s' {1..90})\n" "2: size: $range \"$(printf '9%.0s' {1..40})\""
bad control "${h}a,0,1,\033[1m\n" "2: size: $range \"?[1m\""
bad lifetime "${h}a,7,7,5\n" '2: upper: must be more than lower 7, got 7'
bad backwards "${h}a,7,3,5\n" '2: upper: must be more than lower 7, got 3'
bad no-id "${h},0,1,5\n" '2: id: must be a name, got ""'
bad duplicate "${h}a,0,1,5\nb,0,1,5\na,2,3,5\nb,2,3,5\n" \
    '4: id: must be unique, got "a" as in line 2'
bad few-fields "${h}a,0,1\n" '2: row: must have 4 fields as in the header, got 3'
bad many-fields "${h}a,0,1,5,6\n" '2: row: must have 4 fields as in the header, got 5'
bad alignment 'id,lower,upper,size,alignment\na,0,1,5,0\n' \
    "2: alignment: must be an integer from 1 to $max, got \"0\""
bad sum "${h}a,0,1,4611686018427387000\nb,5,6,4611686018427387000\n" \
    '3: size: sizes and alignments must be at most 4611686018427387903 in all, got more'
seq 0 1000000 | awk 'BEGIN { print "id,lower,upper,size" } { print $1 ",0,1,1" }' \
    > "$scratch/in.csv"
refused bad-rows "$scratch/in.csv:1000002: row: there may be at most 1000000 rows, got more" \
    "$scratch/in.csv"
refused bad-file "$scratch/none.csv: No such file or directory" "$scratch/none.csv"
refused bad-folder "$scratch: Is a directory" "$scratch"
refused bad-capacity "gen: --capacity: must be an integer from 1 to $max, got \"0\"" x --capacity 0
refused bad-usage "usage: gen pack-buffers FILE.csv [--capacity BYTES]" --capacity
printf "${h}a,0,3,4\nb,1,3,4\n" > "$scratch/in.csv"
refused capacity \
    "$scratch/in.csv: does not fit 7: best peak 8 (by size), lower bound 8" \
    "$scratch/in.csv" --capacity 7
exit $failed
