# env.sh -- for the shell that reads it from the project's folder: `. gen/env.sh` puts gen on the PATH.
if [ -f gen/env.sh ] && [ -f Makefile ]; then
    PATH=$PWD/out/.gen:$PATH
    export PATH
    [ -x out/.gen/gen ] || echo "gen is not built yet: make gen"
else
    echo "read this from the project's folder: cd there, then . gen/env.sh" >&2
fi
