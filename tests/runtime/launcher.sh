# shellcheck shell=bash
# launcher.sh -- sourced by tests of run.sh.

# run_sh BACKEND NAME RANKS [NODES [HOSTS [CLUSTER]]]: run.sh with its holes filled as the emitter does.
run_sh() {
    sed -e '/^#@ restarts/{r templates/restarts.sh' -e 'd}' "templates/$1/run.sh" |
        sed "s/@NAME@/$2/; s|@RECIPE@|recipes/x.lua|; s/@RANKS@/$3/; s/@NODES@/${4:-1}/; s/@HOSTS@/${5:-}/
            s/@CLUSTER@/${6:-}/; s/@[A-Z]*@//"
}
