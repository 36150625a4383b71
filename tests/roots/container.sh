#!/bin/bash
# Output of `gen container`: its RUN, ADD, USER and WORKDIR lines, in a new root in the place of the image, then a
# run. Podman and a registry are not needed.
. "$(dirname "$0")/lib.sh"

"$GEN" recipes/cpu_tiny.lua name=boxed -o "$T/boxed" >"$T/log" 2>&1
"$GEN" dist "$T/boxed" >>"$T/log" 2>&1
"$GEN" container recipes/cpu_tiny.lua name=boxed >"$T/Containerfile" 2>"$T/log"
check container/printed "0 FROM docker.io/library/$(. /etc/os-release && echo "$ID"):$suite" \
    "$? $(grep ^FROM "$T/Containerfile")"
root c
user=root folder=/ steps=0
# lines that go on are one; comments go
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba}' "$T/Containerfile" | grep -v '^#' >"$T/lines"
while read -r word rest; do
    case $word in
    FROM | '') continue ;;
    ENV) export "${rest?}" ;;
    ADD) mkdir -p "$T/c${rest##* }" && tar -xf "$T/${rest%% *}" -C "$T/c${rest##* }" ;;
    USER) user=$rest ;;
    WORKDIR) folder=$rest ;;
    ENTRYPOINT) start=$(tr -d '[]",' <<<"$rest") ;;
    RUN)
        inside c "su $user -s /bin/bash -c $(printf %q "$rest")" >"$T/log" 2>&1 </dev/null ||
            { not_ok container/run "$rest: $(tail -3 "$T/log")"; exit 1; }
        ;;
    *) not_ok container/word "$word" ;;
    esac
    steps=$((steps + 1))
done <"$T/lines"
check container/steps "$(grep -cE '^(ENV|ADD|USER|WORKDIR|ENTRYPOINT|RUN) ' "$T/lines")" $steps
seq 3000 >"$T/c/tmp/text.txt"
inside c "su $user -s /bin/bash -c 'cd $folder && $start --data /tmp/text.txt --tokenizer bytes --steps 2 --threads 1 \
    --out /tmp/run'" >"$T/log" 2>&1
check container/trains "0 1" "$? $(grep -c '^2 steps in' "$T/log")"
# packages have the versions that it says
check container/versions "" "$(grep -oE '[a-z0-9.+-]+=[^ ]+' "$T/lines" | tr -d "'" | while IFS='=' read -r p v; do
    [ "$(inside c "dpkg-query -W -f '\${Version}' $p")" = "$v" ] || echo "$p"
done)"
exit $failed
