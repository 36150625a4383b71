#!/bin/bash
# Programs and generator built with AddressSanitizer and UBSan: programs train some steps, the
# generator takes every recipe.
source "$(dirname "$0")/lib.sh"
sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
export ASAN_OPTIONS=detect_leaks=0      # what lives until exit is not freed

export EXTRA="$sanitizers -O1 -g1"
# PROGRAM CASE FIELDS
cases="
gpt2_tiny gpt2_tiny
dropout qwen2_dropout precision=bf16 memory.recompute=block
llama_rows llama_rows memory.loss_rows=32
"
[ -z "$FULL" ] || cases+="
qwen2_lora qwen2_lora memory.loss_rows=32
"
programs < <(sed 's/ /.asan /' <<<"$cases")
found() {               # CODE LOG: why a run failed
    [ "$1" = 0 ] || echo "exit $1: $(grep -m 1 -E 'ERROR|runtime error|^rank|^gen' "$2")"
}
while read -r name case _; do
    [ -n "$name" ] || continue
    train $name.asan $case $name --steps 2 --save-every 1
    verdict "$name with sanitizers" "$(found $? "$scratch/$name.log")"
    train $name.asan $case $name --steps 3
    verdict "$name resumed with sanitizers" "$(found $? "$scratch/$name.log")"
done <<<"$cases"

objects=$work/gen.asan
mkdir -p $objects
{
    echo "all: $objects/gen"
    sources="$(find gen -name "*.c" | sort) $(make -s --no-print-directory -f - shared <<<'include Makefile
shared: ; @echo $(SHARED:%=runtime/%.c)')"
    list=
    for source in $sources; do
        object=$objects/${source//\//_}.o
        list="$list $object"
        echo "$object: $source $(headers gen) $(headers runtime) kernels/kernels.def"
        echo "	\$(CC) -std=c11 -g1 -O1 $sanitizers -I. -I/usr/include/lua5.4 -c -o \$@ \$<"
    done
    echo "$objects/gen:$list"
    echo "	\$(CC) $sanitizers -o \$@ \$^ -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm"
} >$objects/Makefile
env -u EXTRA make -s "-j$cores" -f $objects/Makefile all >"$scratch/log" 2>&1 ||
    { verdict "gen with sanitizers" "$(tail -n 2 "$scratch/log")"; exit 1; }
for recipe in recipes/*.lua $here/recipes/*.lua; do
    case $recipe in */base.lua) continue ;; esac
    { $objects/gen "$recipe" -o "$scratch/emitted" && $objects/gen plan "$recipe"; } \
        >"$scratch/log" 2>&1
    verdict "gen with sanitizers $recipe" "$(found $? "$scratch/log")"
    rm -rf "$scratch/emitted"
done
exit $failed
