# env.sh -- for the shell that reads it: `. gen/env.sh` puts gen on the PATH, from any folder in bash and zsh, from the
# project's folder in others.
for diecast_root in "${BASH_SOURCE:-$0}" gen/env.sh; do
    diecast_root=$(cd "$(dirname -- "$diecast_root")/.." 2>/dev/null && pwd -P)
    [ -f "$diecast_root/gen/env.sh" ] && break
    diecast_root=
done
if [ -n "$diecast_root" ]; then
    PATH=$diecast_root/out/.gen:$PATH
    export PATH
    [ -x "$diecast_root/out/.gen/gen" ] || echo "gen is not built yet: make -C $diecast_root gen"
else
    echo "this shell does not say where env.sh is: cd to the project's folder, then . gen/env.sh" >&2
fi
unset diecast_root
