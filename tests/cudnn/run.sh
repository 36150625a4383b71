#!/bin/bash
# Attention by cuDNN, without a GPU: our constants against its headers; what it compiles for an H200 described by
# h200.json, its workspaces against our formula, and its errors. A driver of the tests takes the place of libcuda: its
# functions do nothing. Left out where the library or CUDA's stub of the driver is not installed.
# A program with kernels.attention = "cudnn" on the simulator, with the library of library.c: the losses of our kernels.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/verdict.sh
cuda=${CUDA_HOME:-/usr/local/cuda}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

says() { grep -qxE -- "$2" "$T/out"; verdict_of "$1" $? "no line '$2' in: $(cat "$T/out")"; }

gcc -std=c11 -Wall -Wextra -Wshadow -Wvla -Werror -O1 -g -I. tests/cudnn/plans.c runtime/attention_cudnn.c \
    runtime/base.c -o "$T/plans" -lm 2>"$T/cc"
verdict_of cudnn/build $? "$(cat "$T/cc")"

if [ -f "$cuda/include/cudnn.h" ]; then
    gcc -std=c11 -fsyntax-only -I. -I"$cuda/include" -x c - 2>"$T/cc" <<'END'
#include <cudnn.h>
#define CUDNN(name, value) _Static_assert((int)CUDNN_##name == value, #name);
#include "runtime/cudnn.def"
END
    verdict_of cudnn/constants $? "$(cat "$T/cc")"
else
    echo "ok cudnn/constants: left out, no cudnn.h here"
fi

# a library that is damaged, and one of an older version
mkdir "$T/damaged" "$T/older"
: >"$T/damaged/libcudnn.so.9"
LD_LIBRARY_PATH=$T/damaged "$T/plans" tests/cudnn/h200.json >"$T/out" 2>&1
says cudnn/damaged '0 0 .*libcudnn.so.9: file too short'
gcc -shared -o "$T/older/libcudnn.so.9" -x c /dev/null
LD_LIBRARY_PATH=$T/older "$T/plans" tests/cudnn/h200.json >"$T/out" 2>&1
says cudnn/older '0 0 libcudnn.so.9 has no cudnn[A-Za-z]*: install a newer cuDNN 9'

# dummies of the driver: libraries and kernels get an address that is not NULL
mkdir "$T/driver"
if [ -f "$cuda/lib64/libcudnn.so.9" ] && [ -f "$cuda/lib64/stubs/libcuda.so" ]; then
    nm -D --defined-only "$cuda/lib64/stubs/libcuda.so" | awk '
        $2 != "T" { next }
        $3 ~ /^cu(LibraryLoadData|LibraryGetKernel|KernelGetFunction)$/ {
            print "int " $3 "(void **to) { *to = (void *)16; return 0; }"; next }
        $3 ~ /^cu(FuncSetAttribute|KernelSetAttribute|LibraryUnload)$/ { print "int " $3 "(void) { return 0; }"; next }
        { print "int " $3 "(void) { return 100; }" }' >"$T/driver.c"
    gcc -w -shared -fPIC "$T/driver.c" -Wl,-soname,libcuda.so.1 -o "$T/driver/libcuda.so.1" &&
        LD_LIBRARY_PATH=$T/driver:$cuda/lib64 "$T/plans" tests/cudnn/h200.json >"$T/out" 2>&1
    verdict_of cudnn/plans $? "$(cat "$T/out")"
    for shape in 0 1 2 3; do
        says cudnn/forward/$shape "$shape 0 as planned"
        says cudnn/backward/$shape "$shape 1 as planned"
    done
    says cudnn/odd_head 'odd cudnnBackend.*: CUDNN_STATUS_[A-Z_]+: .+|odd cuDNN has no kernel for this graph: .*'
    says cudnn/no_device 'json cudnnBackendFinalize: CUDNN_STATUS_[A-Z_]+: .+'
else
    echo "skipped: cudnn/plans needs libcudnn.so.9 and the stub of libcuda"
fi
# ---- a program, with grouped heads, captured from its second step on
. tests/programs.sh
gen=${GEN:-out/.gen/gen} case=tests/train/ref/llama_tiny work=out/.test/cudnn
toolkit=$(tests/sim/toolkit.sh fast) || { verdict_of cudnn/simulator 1 "no simulator"; exit 1; }
mkdir -p "$T/library" $work
gcc -std=c11 -Wall -Wextra -Wshadow -Werror -O2 -shared -fPIC -I. tests/cudnn/library.c \
    -o "$T/library/libcudnn.so.9" -lm -ldl 2>"$T/cc"
verdict_of cudnn/library $? "$(cat "$T/cc")"
train() {               # KIND LIBRARY ARGS...: into $T/KIND.run, a line a step into $T/KIND.losses
    local kind=$1 library=$2
    shift 2
    LD_LIBRARY_PATH=$library "$work/$kind/run.sh" --data $case/tokens.safetensors --eval-data $case/eval.safetensors \
        --init-from $case/model --out "$T/$kind.run" --steps 6 "$@" >"$T/out" 2>&1
}
for kind in builtin cudnn; do
    rm -rf "${work:?}/$kind" "$T/$kind.run"
    { "$gen" tests/train/recipes/llama_tiny.lua target=sm_90 precision=bf16 kernels.attention=$kind -o $work/$kind &&
        make_in_haste $work/$kind CUDA="$toolkit" EXTRA="$haste -rdynamic"; } >"$T/out" 2>&1 && train $kind "$T/library"
    verdict_of cudnn/$kind $? "$(tail -n 3 "$T/out")"
    mv "$T/out" "$T/$kind.log"
    grep -o '"\(eval_\)\?loss": *[0-9.]*' "$T/$kind.run/history.jsonl" >"$T/$kind.losses"
done
paste "$T/builtin.losses" "$T/cudnn.losses" | awk '
    { n++; if (NF != 4 || ($2 - $4) ^ 2 > 4e-6) { print; bad = 1 } }
    END { exit bad || n < 6 }' >"$T/out"
verdict_of cudnn/losses $? "not the same to 2e-3: $(cat "$T/out")"
! cmp -s "$T/builtin.losses" "$T/cudnn.losses"
verdict_of cudnn/other_kernels $? "the losses are equal to the last bit"
grep -qx '  libraries  cuBLASLt [0-9.]*, cuDNN 9.19.0' "$T/cudnn.log"
verdict_of cudnn/version $? "$(head -n 5 "$T/cudnn.log")"
rm -rf "$T/cudnn.run"
train cudnn "$T/damaged"
says cudnn/start ".*kernels.attention = cudnn: .*libcudnn.so.9: file too short; install cuDNN 9.19, or set .*"
rm -rf "$T/cudnn.run"
MORE_BYTES=4096 train cudnn "$T/library"
says cudnn/more ".*cuDNN 9.19.0 needs 4352 bytes of workspace, but the plan has 256; try .*"
exit $failed
