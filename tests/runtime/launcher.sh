# shellcheck shell=bash
# launcher.sh -- sourced by tests of run.sh.

# The rows of launchers.def, as run.sh has them, and the part of run.sh that reads them.
engines_sh() {
    local kind
    for kind in engines:'ENGINE(n,o,a,b,c,d,e,f,g)=o a b c d e f g' launchers:'LAUNCHER(n,a,b,c,d,e,f)=c a b e'; do
        echo "${kind%%:*}=("
        gcc -E -P -x c -D"${kind#*:}" runtime/ranks/launchers.def |
            sed -n "/^$/d; /^\"\" \"NNODES\"/d; s/\"\"/-/g; s/\"//g; s/.*/    '&'/p"
        echo ")"
    done
    cat templates/engines.sh
}

# run_sh BACKEND NAME RANKS [NODES [HOSTS [CLUSTER]]]: run.sh with its holes filled as the emitter does.
run_sh() {
    sed -e '/^#@ restarts/{r templates/restarts.sh' -e 'd}' -e '/^#@ engines/{r '<(engines_sh) -e 'd}' \
        -e '/^#@ preflight/{r templates/preflight.sh' -e 'd}' \
        "templates/$1/run.sh" |
        sed "s/@NAME@/$2/; s|@RECIPE@|recipes/x.lua|; s/@RANKS@/$3/; s/@NODES@/${4:-1}/; s/@HOSTS@/${5:-}/
            s/@CLUSTER@/${6:-}/; s/@[A-Z]*@//"
}
