#!/bin/bash
# Two Debians made apart, with other paths, users, homes, languages, time zones, masks, orders of files and packages
# next to those of the build: gen, what it emits and the program have the same bytes. RECIPE=recipes/x.lua: another.
# Differences are named: files, and parts of the toolchain.
. "$(dirname "$0")/lib.sh"
recipe=${RECIPE:-recipes/cpu_tiny.lua}
packages=$(gen/deps.sh list | grep -v -e cuda -e nccl -e ccache -e g++ -e cairo | paste -sd,)
root one "$packages"
root two "$packages,ccache,clang,g++,locales,libopenblas-dev"
git ls-files Makefile gen kernels recipes runtime templates >"$T/files"
tar -cf "$T/tree.tar" -T "$T/files"
tac "$T/files" | tar -cf "$T/eert.tar" -T -

build() {                # root, folder, archive, user, jobs, variables
    mkdir -p "$T/$1$2"
    tar -xf "$3" -C "$T/$1$2"
    [ "$4" = root ] || inside "$1" "useradd -m $4"
    inside "$1" "chown -R $4 $(printf %q "$2")"
    inside "$1" "${@:6}" "su $4 -s /bin/bash -c $(printf %q "umask $([ "$4" = root ] && echo 022 || echo 077) &&
        cd $(printf %q "$2") && make -s -j$5 gen && out/.gen/gen $recipe -o out/program &&
        make -s -j$5 -C out/program")" >"$T/$1.log" 2>&1 </dev/null
}
inside two "locale-gen >/dev/null; localedef -i de_DE -f UTF-8 de_DE.UTF-8" >"$T/log" 2>&1
build one /srv/d "$T/tree.tar" root 2 TZ=UTC LC_ALL=C
check verify/one "0" "$?$(grep -i warning "$T/one.log")"
build two "/home/b/a deep folder/of, it" "$T/eert.tar" builder 1 TZ=Asia/Tokyo LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8
check verify/two "0" "$?$(grep -i warning "$T/two.log")"
a=$T/one/srv/d/out b="$T/two/home/b/a deep folder/of, it/out"
[ -x "$a/program/train" ] && [ -x "$b/program/train" ] ||
    { not_ok verify/programs "$(tail -n 2 "$T/one.log" "$T/two.log")"; exit 1; }
check verify/sources "" "$(diff -rq -x .obj -x train "$a/program" "$b/program" 2>&1 | head -5)"
list() { inside "$1" "${2:-/srv/d}/runtime/toolchain.sh list CPU MODEL DNNL GEN" | sort; }
list one >"$T/tools.one"
list two "/home/b/a\\ deep\\ folder/of,\\ it" >"$T/tools.two"
if cmp -s "$T/tools.one" "$T/tools.two"; then
    check verify/program "" "$(cmp "$a/program/train" "$b/program/train" 2>&1)"
    check verify/gen "" "$(cmp "$a/.gen/gen" "$b/.gen/gen" 2>&1)"
else
    not_ok verify/toolchain "$(diff "$T/tools.one" "$T/tools.two" | grep '^[<>]' | cut -f1,2 | sort -u | paste -sd';')"
fi
exit $failed
