#!/bin/bash
# h_values.sh TOOLKIT: the constants of the stand-in headers have the values of the real headers in
# TOOLKIT/include. Prints `ok NAME` or `not ok NAME: why` a header.
set -u
cd "$(dirname "$0")" || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

errors() { sed -n 's/^ERROR(\([A-Za-z]*\), .*/cuda\1 = 0,/p' errors.def; }

# constants HEADER: names of its enumerators and numeric macros
constants() {
    sed -n 's/^#define \([A-Za-z]*_*[A-Z_a-z]*\) [-0-9x(].*/\1/p' "include/$1"
    { cat "include/$1"; [ "$1" != cuda_runtime_api.h ] || errors; } |
        grep -o '\b\(cuda\|CUDA\|CUBLAS\|CUBLASLT\|nccl\|NCCL\)_*[A-Za-z0-9_]* = [0-9]' |
        sed 's/ = .*//'
}

for header in cuda_runtime_api.h cublasLt.h nccl.h; do
    if [ ! -f "$1/include/$header" ]; then
        echo "skipped: $1/include has no $header"
        continue
    fi
    {
        echo '#include <stdio.h>'
        echo "#include <$header>"
        echo 'int main(void) {'
        constants $header | grep -v -e SIM -e '^cublasLt' -e '^CUDARTAPI' | sort -u |
            sed 's/.*/printf("& %lld\\n", (long long)&);/'
        echo 'return 0; }'
    } >"$scratch/list.c"
    if gcc -w -I include "$scratch/list.c" -o "$scratch/ours" 2>"$scratch/errors" &&
        gcc -w -I "$1/include" "$scratch/list.c" -o "$scratch/theirs" 2>>"$scratch/errors" &&
        "$scratch/ours" >"$scratch/ours.txt" && "$scratch/theirs" >"$scratch/theirs.txt" &&
        [ "$(wc -l <"$scratch/ours.txt")" -ge 20 ] &&
        diff "$scratch/ours.txt" "$scratch/theirs.txt" >"$scratch/errors"; then
        echo "ok values_$header"
    else
        echo "not ok values_$header: $(head -n 5 "$scratch/errors" | tr '\n' '|')"
        failed=1
    fi
done
exit $failed
