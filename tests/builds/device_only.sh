#!/bin/bash
# nvcc, for what is compiled for the GPU alone: as NVCC=... of an emitted folder's `make .obj/step.o`, which then is a
# cubin. The host's half of the sources, whose syntax is checked here too, takes half the time.
set -u
words=()
for word; do [ "$word" = -c ] && words+=(-cubin) || words+=("$word"); done
exec "${REAL_NVCC:?}" "${words[@]}"
