#!/bin/bash
# Every kernel of the CPU target against its double reference: fp32 and bf16 for plain AVX2; for this machine, which may
# have AVX-512, those that are written for it (tile.h), in bf16 (FULL=1: all, in both). SEED=n repeats a run,
# run.sh NAME picks tests, run.sh --bench [NAME] prints speeds.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=out/.test/kernels
mkdir -p $out
flags="-std=c11 -O3 -mprefer-vector-width=512 -ffp-contract=fast -fno-math-errno -fno-trapping-math
       -fopenmp -I. -D_GNU_SOURCE= -DKERNEL_REFERENCE -Werror -Wall -Wextra -Wshadow -Wvla -Werror=date-time"
arches="x86-64-v3 native"
export OMP_WAIT_POLICY=passive    # three threads on two cores must not spin
[ "${1:-}" = --bench ] && arches=native OMP_WAIT_POLICY=active
bench=no
[ "${1:-}" = --bench ] && bench=yes
acts() { [ $1 = native ] && [ -z "${FULL:-}" ] && [ $bench = no ] && echo bf16 || echo fp32 bf16; }     # ARCH
skipped() {             # ARCH SOURCE
    [ $1 = native ] && [ -z "${FULL:-}" ] && [ $bench = no ] &&
        case $2 in */b_*.c | */a_ce.c) ;; *) false ;; esac
}

{
    echo "CFLAGS = $(echo $flags)"
    echo "all:"
    for arch in $arches; do
        for act in $(acts $arch); do
            define=$([ $act = bf16 ] && echo -DACT_BF16)
            objects=
            for source in runtime/base.c tests/kernels/*.c; do
                [ $bench = yes ] || [ $source != tests/kernels/b_bench.c ] || continue
                ! skipped $arch $source || continue
                object=$out/$act-$arch-$(basename $source .c).o
                objects="$objects $object"
                echo "$object: $source $(echo tests/kernels/*.h kernels/cpu/*.h kernels/reference/*.h)"
                echo "	\$(CC) \$(CFLAGS) -march=$arch $define -DLABEL='\"$act-$arch\"' -c -o \$@ \$<"
            done
            echo "$out/$act-$arch: $objects"
            echo "	\$(CC) -fopenmp -o \$@ $objects -ldnnl -lpthread -lm"
            echo "all: $out/$act-$arch"
        done
    done
} >$out/Makefile
make -s "-j${CORES:-$(nproc)}" -f $out/Makefile all || { echo "not ok kernels/build: does not compile"; exit 1; }

status=0
for arch in $arches; do
    for act in $(acts $arch); do
        if [ "${1:-}" = --bench ]; then
            echo "# $act $arch, $(nproc) threads"
            $out/$act-$arch "$@" || status=1
        else
            $out/$act-$arch "$@" || status=1
        fi
    done
done
exit $status
