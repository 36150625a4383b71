#!/bin/bash
# A checkout, a recipe and a folder to emit into that all have blanks and signs in their paths: gen is made, emits,
# and what it emitted is built and run, with two ranks; texts that would be code in C, make or a shell stay texts.
# Refused input is in tests/gold/folder.sh.
. "$(dirname "$0")/common.sh"
unset MAKEFLAGS MAKELEVEL

# objects go along, with the times of all: one file of gen is compiled there
tree="$T/it's a 'check out' (1)"
mkdir -p "$tree/out"
cp -rp Makefile gen kernels recipes runtime templates "$tree"
cp -rp out/.obj "$tree/out"
cd "$tree" || exit 2
touch gen/tools/list.c
make -s gen >"$T/log" 2>&1
check hostile/gen 0 "$?$(grep -i warning "$T/log")"
mkdir 'my recipes'
sed "s/about = .*/about = 'x',/" recipes/cpu_x2_full.lua >'my recipes/größe 1.lua'
text=$'\'"`$(touch pwned)*/ ??/\n#error pwned'
out/.gen/gen 'my recipes/größe 1.lua' name=blank batch.micro=2 "about=$text" "run.out=$text" -o 'out/a b' \
    >"$T/log" 2>&1
check hostile/emit 0 $?
make EXTRA=-O0 >"$T/log" 2>&1
check hostile/build "0" "$?$(grep -i 'warning' "$T/log")"
{ seq 3000; } >text.txt
out/.gen/gen pack -o tokens.safetensors text.txt >"$T/log" 2>&1
'out/a b/run.sh' --data tokens.safetensors --steps 2 --threads 1 --out 'out/a b/run' >"$T/log" 2>&1
check hostile/run "0 1" "$? $(grep -c '^2 steps in' "$T/log")"
[ -f "out/a b/run/DONE" ] && ok hostile/run-done || not_ok hostile/run-done "$(tail -3 "$T/log")"
"out/a b/train" --help >"$T/help" 2>&1
grep -qF '#error pwned' "$T/help" && ok hostile/text-kept || not_ok hostile/text-kept "$(grep -A3 -e --out "$T/help")"
# what it was built with, as lines and as JSON
'out/a b/train' --version --verbose >"$T/out"
says() { sed -n 's/^library \('"$1"'\) \(.*\), loaded \(.*\)$/\2 \3/p' "$T/out"; }
cjson=$(sed -n 's/^#define CJSON_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' /usr/include/cjson/cJSON.h | paste -sd.)
check hostile/version-cjson "$cjson $cjson" "$(says cJSON)"
libc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
check hostile/version-libc "$libc $libc" "$(says 'C library')"
check hostile/version-mpi 1 "$(says MPI | grep -c '^Open MPI v[0-9.]* Open MPI v[0-9.]*$')"
check hostile/version-lock "lock none: built with the installed tools" "$(grep ^lock "$T/out")"
'out/a b/train' --version --json >"$T/json"
key() { sed -n 's/.*"'"$1"'":[[:space:]]*"\(.*\)",*$/\1/p' "$2"; }
check hostile/version-json "$(key recipe_sha256 'out/a b/manifest.json') $(key ir_sha256 'out/a b/manifest.json')" \
    "$(key recipe_sha256 "$T/json") $(key ir_sha256 "$T/json")"
check hostile/version-flags "$(key cflags 'out/a b/manifest.json')" "$(key flags "$T/json")"
sum=$(sha256sum <'out/a b/train')
make LOCKED=1 EXTRA=-O0 >"$T/log" 2>&1
check hostile/locked-keeps-overrides "0 $sum" "$? $(sha256sum <'out/a b/train')"
# gen without make: yesterday's program is refused by run.sh and by itself, and goes on without a manifest, as a copy
out/.gen/gen 'my recipes/größe 1.lua' name=blank batch.micro=1 "about=$text" "run.out=$text" -o 'out/a b' >"$T/log" 2>&1
for program in 'out/a b/run.sh' 'out/a b/train'; do
    said=$("$program" --lr 1 2>&1)
    code=$?
    check "hostile/stale-${program##*/}" "80 make -C out/a b" "$code $(sed -n "s/['\\]//g; s/.*rewrote its sources; rebuild it: //p" \
        <<<"$said")"
done
mv 'out/a b/manifest.json' "$T/manifest.json"
check hostile/copied "$PWD/out/a b/run" "$('out/a b/train' --where --out "$PWD/out/a b/run")"
mv "$T/manifest.json" 'out/a b/manifest.json'
make -s install PREFIX="$T/pre fix" >"$T/log" 2>&1
check hostile/install "recipes/cpu_tiny.lua" "$("$T/pre fix/bin/gen" list | grep -o 'recipes/cpu_tiny.lua')"
make -s clean >"$T/log" 2>&1
check hostile/clean "0 0" "$? $(find out -name '*.o' | wc -l)"
check hostile/nothing-ran "" "$(find "$T" -name pwned)"
exit $failed
