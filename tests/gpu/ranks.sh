#!/bin/bash
# ranks.sh: sums over ranks by NCCL, one by one and captured into a graph, in a world of one rank on this machine's GPU.
# Prints `ok NAME` or `not ok NAME: why`. BUILD=1 builds the program and stops, which takes no GPU; BUILT=1 takes the
# one that is there. CUDA: the toolkit; NCCL: the folder of include/nccl.h and lib, where that is not the toolkit's.
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/lib.sh
. tests/sources.sh
if [ -z "${BUILD:-}" ]; then
    gpu_need "$0"
    export TARGET
fi
CUDA=${CUDA:-/usr/local/cuda}
NCCL=${NCCL:-$CUDA}
out=out/.test/gpu
mkdir -p $out
# shellcheck disable=SC2046
if [ -z "${BUILT:-}" ] && ! said=$(gcc -std=c11 -Wall -Wextra -Wshadow -Wvla -Werror -I. -O0 \
    -I"$NCCL/include" -I"$CUDA/include" -fopenmp tests/runtime/nccl_main.c \
    $(sources runtime base names launch comm comm_rendezvous comm_nccl device_cuda \
        nvml_cuda rendezvous rendezvous_join sha256 model model_parts crc32c safetensors safetensors_write json) \
    -o $out/ranks \
    -L"$NCCL/lib" -L"$CUDA/lib64" -Wl,-rpath,"$(realpath "$NCCL")/lib:$(realpath "$CUDA")/lib64" -l:libnccl.so.2 -lcudart \
    -lcjson -lpthread -ldl -lm 2>&1); then
    echo "not ok one rank of NCCL builds: $(head -n 3 <<<"$said" | tr '\n' ' ')"
    exit 1
fi
echo "ok one rank of NCCL builds"
[ -z "${BUILD:-}" ] || exit 0

said=$(RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 timeout 300 $out/ranks 1 sums 2>&1)
code=$?
sed 's/^/# /' <<<"$said"
if [ $code = 0 ] && [ "$(grep -c '^ok' <<<"$said")" = 14 ] && ! grep -q '^bad' <<<"$said"; then
    echo "ok one rank of NCCL sums, in a graph too"
else
    echo "not ok one rank of NCCL sums: exit $code: $(tail -n 1 <<<"$said")"
    exit 1
fi
