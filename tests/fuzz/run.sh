#!/bin/bash
# Fuzz targets: builds each *_fuzz.c with clang's fuzzer and sanitizers and replays its corpus; FUZZ_SECONDS=N: looks on
# for so long, from SEED (make soak). Usage: run.sh [NAME...]. A target's first lines name what to link: sources of gen
# and runtime, and options.
set -u
. tests/sources.sh
seconds=${FUZZ_SECONDS:-0}
work=out/.test/fuzz
mkdir -p $work
command -v clang > /dev/null || { echo "ok fuzz # skipped: no clang"; exit 0; }
failed=0
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
why() { grep -m1 -e ERROR -e 'runtime error' -e '_fuzz.c:' "$work/$1.log"; }
for target in tests/fuzz/*_fuzz.c; do
    name=$(basename $target _fuzz.c)
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    words=$(sed -n 's,^// link: ,,p' $target)
    names=$(printf '%s\n' $words | grep -v '^-')
    link=$(printf '%s\n' $words | grep '^-' | tr '\n' ' ')
    objects=$(sources "gen runtime" $names)
    level="-O1 -g"
    # a corpus is replayed by objects that other groups have, too, which tell a fuzzer nothing of the ways they took
    if [ "$seconds" = 0 ]; then
        level="-O0 -g1"
        watched $objects
    fi
    if ! clang -std=c11 -I. $level -D_GNU_SOURCE -Wno-macro-redefined -fsanitize=fuzzer,address,undefined \
               -fno-sanitize-recover=undefined -o $work/$name $target $objects $link 2> $work/$name.log; then
        echo "not ok fuzz $name: does not build: $(grep -m1 error $work/$name.log)"
        failed=1
        continue
    fi
    corpus=tests/fuzz/corpus/$name
    mkdir -p $work/$name.found $work/$name.crash
    options="-rss_limit_mb=2048 -timeout=5 -max_len=4096 -seed=${SEED:-1}"
    dictionary=tests/fuzz/$name.dict
    [ -e $dictionary ] && options="$options -dict=$dictionary"
    if ! $work/$name $options -artifact_prefix=$work/$name.crash/ $corpus/* > $work/$name.log 2>&1; then
        echo "not ok fuzz $name: replay of $corpus: $(why $name), see $work/$name.log"
        failed=1
        continue
    fi
    echo "ok fuzz $name: replay of $(ls $corpus | wc -l) files"
    [ "$seconds" -gt 0 ] || continue
    if $work/$name $options -max_total_time=$seconds -artifact_prefix=$work/$name.crash/ \
            $work/$name.found $corpus > $work/$name.log 2>&1; then
        runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' $work/$name.log)
        if [ "${runs:-0}" -gt 0 ]; then
            echo "ok fuzz $name: $runs inputs in $seconds s"
        else
            echo "not ok fuzz $name: ran nothing"
            failed=1
        fi
    else
        echo "not ok fuzz $name: $(why $name), input in $work/$name.crash"
        failed=1
    fi
done
exit $failed
