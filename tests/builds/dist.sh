#!/bin/bash
# gen dist: an emitted folder as one file, the same bytes each time; what it refuses; gen container. That it is built
# and trains elsewhere: tests/roots.
. "$(dirname "$0")/common.sh"
P="$T/a folder/prog, & 1"
mkdir "$T/a folder"
"$GEN" recipes/cpu_tiny.lua -o "$T/prog" >"$T/out" 2>&1
mv "$T/prog" "$P"
"$GEN" dist "$P" >"$T/out" 2>&1
check dist/made "0 1" \
    "$? $(grep -c "^$P.tar: [0-9]* files, .*; elsewhere: tar -xf it, then README.md in ${P##*/}\$" "$T/out")"
cp "$P.tar" "$T/one.tar"

# again: other times and modes, with what builds and runs leave, under another mask and options of tar
mkdir -p "$P/.obj" "$P/run/checkpoint-1"
touch "$P/train" "$P/.obj/step.o" "$P/run/DONE"
find "$P" -type f -exec touch -d '2001-02-03' {} +
find "$P" -type f -exec chmod g-rwx,o-rwx {} +
(umask 077 && TZ=Asia/Tokyo TAR_OPTIONS=--exclude=step.c "$GEN" dist "$P" -o "$T/two.tar" >"$T/out" 2>&1)
check dist/same_bytes "0 " "$? $(cmp "$T/one.tar" "$T/two.tar" 2>&1)"
mkdir "$T/there"
tar -xf "$T/one.tar" -C "$T/there"
check dist/same_files "" "$(diff -rq "$P" "$T/there/${P##*/}" | grep -v "^Only in $P.*: \(train\|.obj\|run\)$")"
check dist/names "${P##*/}" "$(tar -tf "$T/one.tar" | cut -d/ -f1 | sort -u)"
check dist/sorted "" "$(tar -tf "$T/one.tar" | LC_ALL=C sort -c 2>&1)"
check dist/owners "0/0 1970-01-01" "$(tar --numeric-owner -tvf "$T/one.tar" | awk '{ print $2, $4 }' | sort -u)"
check dist/modes "-rw-r--r-- -rwxr-xr-x" "$(tar -tvf "$T/one.tar" | cut -c1-10 | sort -u | paste -sd' ')"
make -s -C "$T/there/${P##*/}" -n >/dev/null 2>"$T/out"
check dist/makefile "0 " "$? $(cat "$T/out")"
check dist/packages "1 1" "$(grep -c "^    apt-get install make gcc libc6-dev .*libdnnl-dev\$" "$P/README.md") $(
    grep -c "^#   apt-get install make gcc libc6-dev .*libdnnl-dev\$" "$P/Makefile")"

refused() {              # name, line, words of gen dist
    "$GEN" dist "${@:3}" >"$T/out" 2>&1
    check "dist/$1" "1 $2" "$? $(cat "$T/out")"
}
refused none "gen: dist: needs the NAME of a folder out/NAME, or a folder"
refused two "gen: dist: b: takes one folder, and -o FILE.tar" a b
refused option "gen: dist: --out: takes one folder, and -o FILE.tar" "$P" --out
refused no_folder "gen: dist: there is no folder $T/x; gen RECIPE writes it" "$T/x"
refused no_manifest "$T/recipes: has no manifest.json: not a folder that gen wrote" "$T/recipes"
refused no_place "gen: $T/no/x.tar is not written: tar: $T/no/x.tar.part: Cannot open: No such file or directory" "$P" -o "$T/no/x.tar"
(mkdir -p "$T/w/out" && cp -r "$P" "$T/w/out/mine" && cd "$T/w" && "$GEN" dist mne >"$T/out" 2>&1)
check dist/misspelt "gen: dist: there is no folder out/mne; did you mean mine?" "$(cat "$T/out")"
echo >>"$P/step.c"
rm "$P/shape.h"
refused changed "$P: shape.h is missing, and 1 more: run gen again" "$P"
tar -xf "$T/one.tar" -C "$T/a folder"
sed -i 's/"generator": "diecast [0-9.]*"/"generator": "diecast 0.0"/' "$P/manifest.json"
refused older "$P: was written by an older gen (diecast 0.0): run gen again" "$P"
echo '{"files": 1' >"$P/manifest.json"
refused damaged "$P/manifest.json: line 2, byte 12: expected , or }; run gen again" "$P"

# ---- gen container
box() { "$GEN" container "$@" >"$T/out" 2>"$T/err"; }
box recipes/cpu_tiny.lua name=boxed
check container/code 0 $?
has container/add '^ADD boxed.tar /diecast/$' "$T/out"
has container/make '^RUN make -C /diecast/boxed ' "$T/out"
check container/packages "$(sed -n 's/^    apt-get install //p' "$T/there"/*/README.md | tr ' ' '\n')" \
    "$(sed -n "s/^    '\\{0,1\\}\\([a-z0-9.+-]*\\)=.*/\\1/p" "$T/out")"
check container/pin "gcc=$(dpkg-query -W -f '${Version}' gcc)" "$(grep -o 'gcc=[^ ]*' "$T/out")"
box recipes/h200x1_tiny.lua
check container/cuda "1 0" "$(grep -c '^COPY --from=cuda .* /usr/local/cuda$' "$T/out") $(grep -c nccl "$T/out")"
box recipes/h200x1_tiny.lua kernels.attention=cudnn
check container/cudnn "1 1" "$(grep -c '^ARG CUDA_IMAGE=.*-cudnn-devel-' "$T/out") $(grep -c '^COPY .*/libcudnn\* ' "$T/out")"
box --snapshot 20260101T000000Z
has container/snapshot 'snapshot.debian.org/archive/%s/20260101T000000Z' "$T/out"
box --snapshot yesterday
check container/bad_snapshot "1 gen: container: --snapshot yesterday: must be a time such as 20261101T000000Z" "$? $(cat "$T/err")"
box recipes/cpu_tny.lua
check container/misspelt 1 $?

# ---- make gpu-carry: on a machine without them, headers and libraries are those of the archive
tests/gpu/carry.sh "$T/here" >"$T/out" 2>&1
check carry/size "0 1" "$? $(grep -c '/carry.tar.gz: [0-9.]*[KM]iB of at most 64 MiB$' "$T/out")"
mkdir -p "$T/bare/bin"
printf '#!/bin/sh\n' >"$T/bare/bin/ldconfig"
chmod +x "$T/bare/bin/ldconfig"
tar -xzf "$T/here/carry.tar.gz" -C "$T/bare"
{
    echo '#define PCRE2_CODE_UNIT_WIDTH 8'
    grep -rhoE '^#include <(cjson/|lua|lauxlib|lualib|yaml|pcre2|utf8proc|openssl/)[^>]*>' gen runtime | sort -u
    echo 'int main(void) { return 0; }'
} >"$T/bare/main.c"
libs=$(sed -n 's/^LIBS *:= *//p' Makefile)
(
    PATH=$T/bare/bin:$PATH
    . "$T/bare/here/.carry/env.sh"
    # shellcheck disable=SC2086
    gcc -MD -MF "$T/headers" "$T/bare/main.c" -o "$T/bare/main" -Wl,--no-as-needed $libs >"$T/out" 2>&1
    check carry/links "0 " "$? $(cat "$T/out")"
    check carry/headers "" "$(tr ' ' '\n' <"$T/headers" | grep -v "^$T" |
        grep -E '/(lua5\.4|cjson|openssl)/|/(yaml|pcre2|utf8proc)[^/]*\.h')"
    check carry/runs "$(tr ' ' '\n' <<<"$libs" | grep -cvx -e -lm)" "$(ldd "$T/bare/main" | grep -c "=> $T/bare/")"
    exit $failed
) || failed=1
exit $failed
