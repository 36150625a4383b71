#!/bin/bash
# make gpu-carry: builds here, without a GPU, what `make gpu-check` runs on a machine that has one, nvcc, gcc and
# make, but not our libraries. Writes out/carry.tar.gz; there, in the root of the same sources:
#   tar xzf out/carry.tar.gz && . out/.carry/env.sh && FAST=1 make gpu-check       TARGET=sm_90
cd "$(dirname "$0")/../.." || exit 2
. tests/builds/lib.sh
export TARGET=${TARGET:-sm_90} BACKEND=gpu BUILD=1
nvcc=$(nvcc_path) || { echo "$0: needs nvcc" >&2; exit 1; }
CUDA=$(cd "$(dirname "$nvcc")/.." && pwd)
export CUDA PATH="$CUDA/bin:$PATH"
stage=out/.carry kernels=out/.test/cuda-gpu-256 programs=out/.test/train.gpu

NVCC=1 ARCH=$TARGET tests/cuda/run.sh && tests/train/sim.sh || exit 1

# ---- the libraries that Debian calls ..-dev; to run with libcrypto there is that machine's own
rm -rf $stage
mkdir -p $stage/lib $stage/link $stage/include
for name in lua5.4 yaml cjson pcre2-8 utf8proc crypto; do
    file=$(ldd out/.gen/gen | awk -v name="lib$name.so" 'index($1, name) == 1 { print $3 }')
    cp -L "$file" $stage/link/lib$name.so || exit 1
    [ $name = crypto ] || cp -L "$file" $stage/lib/ || exit 1
done
machine=$(gcc -print-multiarch)
(cd /usr/include && cp -rL --parents cjson lua5.4 openssl "$machine/openssl" pcre2.h utf8proc.h yaml.h \
    "$OLDPWD/$stage/include") || exit 1
cat >$stage/env.sh <<END
# Sourced in the root of the sources, before make: compilers, linkers and programs find our libraries.
export LD_LIBRARY_PATH=\$PWD/$stage/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export LIBRARY_PATH=\$PWD/$stage/link\${LIBRARY_PATH:+:\$LIBRARY_PATH}
export C_INCLUDE_PATH=\$PWD/$stage/include:\$PWD/$stage/include/lua5.4:\$PWD/$stage/include/$machine
END

# ---- the programs, without what debuggers read of them
files=()
for key in $programs/*/key; do
    dir=$(dirname "$key")
    strip -o "$dir/train.stripped" "$dir/train" || exit 1
    files+=("$key" "$dir/run.sh" "$dir/recipe.h" "$dir/train.stripped")
done
for program in $kernels/{fp32,bf16,fp16}-*; do
    case $program in *.o | *.stripped | *'*') continue ;; esac
    strip -o "$program.stripped" "$program" && files+=("$program.stripped") || exit 1
done
touch $kernels/carried
tar czf out/carry.tar.gz --transform='s/\.stripped$//' $stage $kernels/carried "${files[@]}"
code=$?
rm -f $kernels/carried $kernels/*.stripped $programs/*/train.stripped
[ $code = 0 ] && ls -sh out/carry.tar.gz
exit $code
