#!/bin/bash
# toolkit.sh fast|checked: prints a folder that stands for the CUDA toolkit, the simulator inside.
# `make CUDA=FOLDER` in an emitted folder then builds that program for this host, sources and
# Makefile unchanged. checked: every access of device code is looked at.
set -eu
cd "$(dirname "$0")/../.."
mode=$1
folder=$PWD/out/.test/sim/toolkit.$mode
library=$(tests/sim/build.sh "$mode")
mkdir -p "$folder/bin" "$folder/lib64"
ln -sfn "$PWD/tests/sim/include" "$folder/include"
ln -sfn "$PWD/tests/sim/nvcc" "$folder/bin/nvcc"
replace() { cmp -s - "$1" <<<"$2" || { echo "$2" >"$1.$$" && mv "$1.$$" "$1"; }; }
exec 9>"$folder/lock"       # callers at the same time: one builds
flock 9
replace "$folder/flags" "$(tests/sim/build.sh --flags "$mode")"
# what every source includes first, compiled once
prelude=$folder/prelude.h
replace "$prelude" "#include \"$PWD/tests/sim/ptx.h\"
#include <cublasLt.h>"
if [ ! -f "$prelude.gch" ] ||
    [ -n "$(find tests/sim/{ptx.h,include,nvcc} "$prelude" "$folder/flags" -newer "$prelude.gch" \
    -print -quit)" ]; then
    rm -f "$prelude.gch"
    "$folder/bin/nvcc" -std=c++20 --header -o "$prelude.new" "$prelude" && mv "$prelude.new" "$prelude.gch"
fi
# one library under the three names that programs link
for name in cudart cublasLt nccl; do
    replace "$folder/lib64/lib$name.so" "GROUP($library)"
done
echo "$folder"
