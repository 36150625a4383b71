#!/bin/bash
# Every kernel of the CPU target against its double reference: fp32 and bf16 for plain AVX2, but that those that are
# written for AVX-512, too (tile.h), are there in fp32 and for this machine, which may have it, in bf16 (FULL=1: all, in
# both). SEED=n repeats a run, run.sh NAME picks tests, run.sh --bench [NAME] prints speeds. Compiled as programs are,
# but for b_*.c, which get -O1 (FULL=1: as the others): most of their time goes into compiling. a_*.c would run for
# longer so.
# parts: main bf16
# wide: bf16
# cost: main=44
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=no
[ "${1:-}" = --bench ] && bench=yes
# bf16: plain AVX2 in bf16; main: the others
part=
case ${1:-} in main | bf16) part=$1 && shift ;; esac
out=out/.test/kernels${part:+.$part}${FULL:+.full}
[ $bench = no ] || out=out/.test/kernels.bench
mkdir -p $out
flags="-std=c11 -mprefer-vector-width=512 -ffp-contract=fast -fno-math-errno -fno-trapping-math
       -fopenmp -I. -D_GNU_SOURCE= -Werror -Wall -Wextra -Wshadow -Wvla -Werror=date-time"
arches="x86-64-v3 native"
export OMP_WAIT_POLICY=passive    # three threads on two cores must not spin
[ $bench = no ] || arches=native OMP_WAIT_POLICY=active
acts() {                # ARCH
    local act all="fp32 bf16"
    [ $1 = native ] && [ -z "${FULL:-}" ] && [ $bench = no ] && all=bf16
    for act in $all; do
        case $part-$1-$act in
        main-x86-64-v3-bf16) ;;
        bf16-x86-64-v3-bf16) echo $act ;;
        bf16-*) ;;
        *) echo $act ;;
        esac
    done
}
optimise() {            # SOURCE
    [ -z "${FULL:-}" ] && [ $bench = no ] &&
        case $1 in */b_*.c) echo -O1; return ;; esac
    echo -O3
}
skipped() {             # ARCH ACT SOURCE
    [ -z "${FULL:-}" ] && [ $bench = no ] &&
        case $1-$2-$3 in
        native-*/b_*.c | native-*/a_ce.c) ;;
        x86-64-v3-bf16-*/a_ce.c) false ;;
        x86-64-v3-bf16-*/a_*.c) ;;
        *) false ;;
        esac
}

# The products of the shipped tiny programs, a row of a_gemm.c each: n, k, form, bias and type of C. Those that sum over
# rows (GEMM_TN: gradients of weights) have no rows of their own.
products() {
    local recipe dir=$out/products
    rm -rf $dir
    for recipe in $(grep -L 'target = "sm_' recipes/*tiny*.lua); do
        out/.gen/gen "$recipe" -o $dir/emitted >"$dir.log" 2>&1 || { cat "$dir.log" >&2; return 1; }
        {
            printf '#include "%s"\n' shape.h kernels/cpu/gemm.h stdio.h
            awk '/^static Gemm / { on = 1 } on { print } /;$/ { on = 0 }' $dir/emitted/step.c
            echo 'int main(void) { for (size_t i = 0; i < sizeof gemms / sizeof *gemms; i++) { const Gemm *g = gemms[i];'
            echo 'if (g->form != GEMM_TN) printf("{ %d, %d, %d, %d, %d, 0, %d, 0, 0 },\n", 60, (int)g->n, (int)g->k,'
            echo '(int)g->form, g->bias, g->out_f32); } }'
        } >$dir/emitted/list.c
        gcc -w -march=x86-64-v3 -fopenmp -D_GNU_SOURCE -I$dir/emitted -o $dir/emitted/list $dir/emitted/list.c \
            $dir/emitted/runtime/base.c -ldnnl -lm && $dir/emitted/list || return 1
        rm -rf $dir/emitted
    done >$dir.all
    LC_ALL=C sort -u $dir.all >$out/products.new
    [ -s $out/products.new ] || return 1
    cmp -s $out/products.new $out/products.inc || mv $out/products.new $out/products.inc
}
products || { echo "not ok kernels/products: of the tiny programs are not listed"; exit 1; }

{
    echo "CFLAGS = $(echo $flags) -I$out"
    echo "all:"
    for arch in $arches; do
        for act in $(acts $arch); do
            define=$([ $act = bf16 ] && echo -DACT_BF16; [ $bench = no ] || echo -DBENCHES)
            objects=
            for source in runtime/base.c kernels/cpu/*_$act.c kernels/cpu/tile.c tests/kernels/*.c; do
                [ $bench = yes ] || [ $source != tests/kernels/b_bench.c ] || continue
                ! skipped $arch $act $source || continue
                object=$out/$act-$arch-$(basename $source .c).o
                objects="$objects $object"
                echo "$object: $source $(echo tests/kernels/*.h kernels/*.h kernels/*.def kernels/cpu/*.h kernels/reference/*.h)"
                echo "	\$(CC) $(optimise $source) \$(CFLAGS) -march=$arch $(echo $define) \\"
                echo "	    -DLABEL='\"$act-$arch\"' -MMD -c -o \$@ \$<"
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
    # as plain AVX2 on every CPU; the other way with all that this one has
    [ $arch = x86-64-v3 ] && export ONEDNN_MAX_CPU_ISA=AVX2 || unset ONEDNN_MAX_CPU_ISA
    for act in $(acts $arch); do
        if [ $bench = yes ]; then
            echo "# $act $arch, $(nproc) threads"
            $out/$act-$arch "$@" || status=1
        else
            $out/$act-$arch "$@" || status=1
        fi
    done
done
exit $status
