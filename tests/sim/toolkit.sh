#!/bin/bash
# toolkit.sh fast|checked: prints a folder that stands for the CUDA toolkit, the simulator inside.
# `make CUDA=FOLDER` in an emitted folder then builds that program for this host, sources and
# Makefile unchanged. checked: every access of device code is looked at.
set -eu
cd "$(dirname "$0")/../.."
mode=$1
case $mode in
fast) flags=(-O2) ;;
checked) flags=(-O1 -fsanitize=thread -DSIM_CHECKED) ;;
*) echo "toolkit.sh: want fast or checked, got $mode" >&2; exit 1 ;;
esac
folder=$PWD/out/.test/sim/toolkit.$mode
library=$(tests/sim/build.sh "$mode")
mkdir -p "$folder/bin" "$folder/lib64"
ln -sfn "$PWD/tests/sim/include" "$folder/include"
ln -sfn "$PWD/tests/sim/nvcc" "$folder/bin/nvcc"
printf '%s\n' "${flags[@]}" >"$folder/flags.new"
mv "$folder/flags.new" "$folder/flags"
# one library under the three names that programs link
for name in cudart cublasLt nccl; do
    ln -sfn "$library" "$folder/lib64/lib$name.so"
done
echo "$folder"
