#!/bin/bash
# make gpu-carry: packs the libraries of gen and the programs, with their headers, into FOLDER/carry.tar.gz (out), for a
# machine that has a GPU, nvcc, gcc and make, but neither these libraries nor a package manager. Programs are
# built there, in the root of the same sources:
#   tar xzf out/carry.tar.gz && . out/.carry/env.sh && make gen && tests/gpu/first_hour.sh A
# TARGET=sm_90: with gen, tests and programs built here, so that first_hour.sh there spends no time on it.
set -eu
cd "$(dirname "$0")/../.."
limit=64        # MiB that may be brought along
folder=$(realpath -m "${1:-out}") machine=$(gcc -print-multiarch)
stage=$folder/.carry
rm -rf "$stage"
mkdir -p "$stage"/{lib,link,include,missing}

# those that gen is linked with, but for the C library's
linked=$(ldd out/.gen/gen | awk '$2 == "=>" && $1 !~ /^lib[cm]\.so/ { print $1, $3 }')
for name in $(sed -n 's/^LIBS *:= *//p' Makefile | tr ' ' '\n' | sed -n 's/^-l//p' | grep -vx m); do
    read -r file path < <(grep -E "^lib$name(-[0-9.]+)?\.so" <<<"$linked") ||
        { echo "$0: out/.gen/gen is not linked with lib$name.so: make gen" >&2; exit 1; }
    cp -L "$path" "$stage/lib/"
    ln -s "../lib/$file" "$stage/link/lib$name.so"
done
(cd /usr/include && cp -rL --parents cjson lua5.4 openssl "$machine/openssl" pcre2.h utf8proc.h yaml.h "$stage/include")

cat >"$stage/env.sh" <<END
# Sourced before make: compilers, linkers and programs find the libraries next to this file. Programs get one from here
# only where the machine has none of its name.
carried=\$(cd "\$(dirname "\${BASH_SOURCE[0]}")" && pwd)
for file in "\$carried"/lib/*; do
    PATH=\$PATH:/sbin:/usr/sbin ldconfig -p | grep -qF "\${file##*/} " || ln -sf "../lib/\${file##*/}" "\$carried/missing/"
done
export LD_LIBRARY_PATH=\$carried/missing\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export LIBRARY_PATH=\$carried/link\${LIBRARY_PATH:+:\$LIBRARY_PATH}
nccl=\$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])' 2>/dev/null) &&
    export LD_LIBRARY_PATH=\$LD_LIBRARY_PATH:\$nccl/lib      # as PyTorch brings it
headers=\$carried/include:\$carried/include/lua5.4:\$carried/include/$machine
export C_INCLUDE_PATH=\$headers\${C_INCLUDE_PATH:+:\$C_INCLUDE_PATH}
END

archive=$folder/carry.tar.gz
built=()
if [ -n "${TARGET:-}" ]; then
    tests/gpu/first_hour.sh build "$folder/.carry.log" >&2
    rm -rf "$folder/.carry.log"
    # programs and what their scripts read, without debug information
    mapfile -t built < <(find out/.gen/gen out/.first_hour out/.test/{cuda-gpu,train.gpu,gpu} -type f \
        ! -path '*/.obj/*' ! -path '*/runtime/*' ! -path '*/kernels/*' ! -name '*.o' ! -name '*.lock' ! -name '*.log')
    find out/.first_hour out/.test/{cuda-gpu,train.gpu,gpu} -type f -perm -100 -size +100k \
        -exec strip --strip-debug {} +
fi
tar czf "$archive" -C "$folder/.." "${folder##*/}/.carry" ${built:+-C "$PWD" "${built[@]}"}
bytes=$(stat -c %s "$archive")
echo "$archive: $(numfmt --to=iec-i --suffix=B --format=%.1f "$bytes") of at most $limit MiB"
[ "$bytes" -le $((limit * 1048576)) ] || { echo "$0: more than $limit MiB" >&2; exit 1; }
