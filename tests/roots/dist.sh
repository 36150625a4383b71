#!/bin/bash
# The archive of `make dist` builds and trains in a Debian that has the packages of its README and nothing else of ours.
. "$(dirname "$0")/lib.sh"

"$GEN" recipes/cpu_tiny.lua name=packed -o "$T/packed" >"$T/log" 2>&1
"$GEN" dist "$T/packed" >>"$T/log" 2>&1 || not_ok dist/pack "$(tail -1 "$T/log")"
packages=$(sed -n 's/^    apt-get install //p' "$T/packed/README.md")
root a "${packages// /,}"
cp "$T/packed.tar" "$T/a/tmp"
seq 3000 >"$T/a/tmp/text.txt"
inside a 'cd /srv && tar -xf /tmp/packed.tar && make -j2 -C packed' >"$T/log" 2>&1
check dist/builds "0 " "$? $(grep -i warning "$T/log")"
[ -x "$T/a/srv/packed/train" ] || not_ok dist/program "$(tail -3 "$T/log")"
inside a 'cd /srv/packed && ./run.sh --data /tmp/text.txt --tokenizer bytes --steps 2 --threads 1' >"$T/log" 2>&1
check dist/trains "0 1" "$? $(grep -c '^2 steps in' "$T/log")"
inside a 'cd /srv/packed && ./run.sh --data /tmp/text.txt --tokenizer bytes --steps 4 --threads 1' >"$T/log" 2>&1
check dist/goes_on "0 1" "$? $(grep -c 'resumed from .*checkpoint-2$' "$T/log")"
# the same bytes as here, where the tools are the same
if [ "$(inside a '/srv/packed/runtime/toolchain.sh list CPU MODEL DNNL')" = \
    "$(PATH=/usr/sbin:/usr/bin:/sbin:/bin runtime/toolchain.sh list CPU MODEL DNNL)" ]; then
    make -s -j2 -C "$T/packed" >"$T/log" 2>&1
    check dist/same_bytes "" "$(cmp "$T/packed/train" "$T/a/srv/packed/train" 2>&1)"
else
    echo "# dist: this machine's toolchain is another: its bytes are not compared"
fi
exit $failed
