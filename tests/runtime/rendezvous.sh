#!/bin/bash
# The rendezvous, in plain processes: who may join, and that every rank is informed of a death, a hang
# and a mismatch, in time and with the right code. Called by run.sh with the folder of the binaries.
# Waits of this script only guard against hangs. Timeouts of the rendezvous itself are tried more than once.
set -u
. tests/verdict.sh
verdict_prefix="star: "
build=${1:-out/.test/runtime}
scratch=$(mktemp -d)
pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
port=20000
here=127.$((1 + $$ / 65536)).$(($$ / 256 % 256)).$(($$ % 256))       # this host: ours alone, with all of its ports
export HOST=$here RES_OPTIONS="timeout:1 attempts:1"

now() { date +%s%3N; }

# begin: forgets the ranks of the scenario before; a port of its own
begin() {
    kill -9 "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    pids=()
    rm -f "$scratch"/r.*
    port=$((port + 1))
}

# rank R SIZE MODE [NAME=VALUE...]: starts it; output in r.R, code in r.R.code when it ends
rank() {
    local r=$1 size=$2 mode=$3
    shift 3
    env SECRET=s "$@" "$build/star" "$r" "$size" "$port" "$mode" >"$scratch/r.$r" 2>&1 &
    pids[r]=$!
}

# joined SIZE: waits until all have
joined() {
    for _ in $(seq 1200); do
        [ "$(cat "$scratch"/r.? | grep -c '^joined i')" = "$1" ] && return 0
        sleep 0.05
    done
    return 1
}

# listens: waits until rank 0 does
listens() {
    local at
    at=$(printf '%02X%02X%02X%02X:%04X' $(($$ % 256)) $(($$ / 256 % 256)) $((1 + $$ / 65536)) 127 $port)
    for _ in $(seq 1200); do
        grep -q ": $at 00000000:0000 0A" /proc/net/tcp && return 0
        sleep 0.05
    done
    return 1
}

# tries SCENARIO: up to five times, with ranks of its own; the verdicts are those of the last time
tries() {
    local before=$failed
    for _ in 1 2 3 4 5; do
        failed=$before
        begin
        "$@" >"$scratch/tried"
        grep -q '^not ok' "$scratch/tried" || break
        sleep 1
    done
    cat "$scratch/tried"
}

# code_of R: its exit status, within 60 s, in $code
code_of() {
    local r=$1
    for _ in $(seq 1200); do
        kill -0 "${pids[r]}" 2>/dev/null || break
        sleep 0.05
    done
    kill -0 "${pids[r]}" 2>/dev/null && { code=running; return; }
    wait "${pids[r]}"
    code=$?
}

# expect NAME R CODE PATTERN
expect() {
    code_of "$2"
    [ "$code" = "$3" ] && grep -qE -- "$4" "$scratch/r.$2"
    verdict_of "$1" $? "code $code: $(tail -2 "$scratch/r.$2")"
}

# survivors NAME CODE PATTERN MS R...: all end so within that time from $began
survivors() {
    local name=$1 want=$2 pattern=$3 ms=$4 why=
    shift 4
    for r in "$@"; do
        code_of "$r"
        [ "$code" = "$want" ] || why="$why rank $r: code $code"
        grep -qE -- "$pattern" "$scratch/r.$r" || why="$why rank $r: $(tail -1 "$scratch/r.$r")"
    done
    [ $(($(now) - began)) -le "$ms" ] || why="$why after $(($(now) - began)) ms"
    [ -z "$why" ]
    verdict_of "$name" $? "$why"
}

all() {                 # all SIZE MODE [NAME=VALUE...]: from the last to rank 0
    local size=$1 mode=$2
    shift 2
    for ((r = size - 1; r >= 0; r--)); do rank $r "$size" "$mode" "$@"; done
}

# ---- joining

begin
all 4 exchange
for r in 0 1 2 3; do expect "4 ranks join and talk, rank $r" $r 0 '^done'; done
grep -q '^joined i h3' "$scratch/r.1"
verdict_of "hosts and the id reach everybody" $? "$(cat "$scratch/r.1")"

begin
rank 1 2 exchange
sleep 1
rank 0 2 exchange
expect "rank 0 comes a second late" 1 0 '^done'

missing() {
    rank 0 3 exchange JOIN=2
    rank 1 3 exchange
    expect "a missing rank is named" 0 82 'ranks 2 of 3 have not come within 2 s'
    expect "and those who came hear it" 1 82 'ranks 2 of 3 have not come'
}
tries missing

begin
rank 1 2 exchange JOIN=1
expect "no rank 0" 1 82 "rank 0 was not found at $here port .*Connection refused"

begin
all 3 hold
joined 3
rank 3 3 hold JOIN=1      # too late: nobody listens any more
expect "after the start nobody is let in" 3 82 'was not found'
kill -0 "${pids[0]}" && kill -0 "${pids[1]}"
verdict_of "and nobody is disturbed" $? "$(tail -1 "$scratch/r.0")"

begin
rank 0 3 hold
rank 1 3 hold
env SECRET=s "$build/star" 1 3 "$port" hold >"$scratch/r.twin" 2>&1
code=$?
expect "a second rank 1 ends rank 0" 0 83 'rank 1 is there twice'
expect "a second rank 1 ends the first" 1 83 'rank 1 is there twice'
[ $code = 83 ] && grep -q 'rank 1 is there twice' "$scratch/r.twin" &&
    [ "$(cat "$scratch"/r.{1,twin} | grep -c 'refused by rank 0: rank 1 is there twice')" = 1 ]
verdict_of "a second rank 1 is refused" $? "code $code: $(cat "$scratch"/r.{1,twin})"

begin
rank 0 2 exchange
rank 1 2 exchange SECRET=other
expect "another secret" 1 83 'DIECAST_SECRET must be the same'
rank 1 2 exchange
expect "another secret leaves rank 0 waiting" 0 0 '^done'

begin
rank 0 2 exchange
rank 1 4 exchange
expect "another world" 1 83 'rank 1 believes in 4 ranks, rank 0 in 2'
expect "another world ends rank 0" 0 83 'rank 1 believes in 4 ranks'

begin
rank 0 2 exchange
rank 1 2 exchange BUILD=x
expect "another binary" 1 83 'rank 1 runs another binary'
expect "another binary ends rank 0" 0 83 'rank 1 runs another binary'

# A rank of another job on the same port is turned away and ends nothing, as long as ours come.
begin
rank 0 2 exchange
listens
env SECRET=s RUN=stray JOIN=1 "$build/star" 1 2 "$port" exchange >"$scratch/r.stray" 2>&1
code=$?
[ $code = 82 ] && grep -q 'another run answers there' "$scratch/r.stray"
verdict_of "a rank of another run is turned away" $? "code $code: $(cat "$scratch/r.stray")"
env SECRET=s RESTART=1 JOIN=1 "$build/star" 1 2 "$port" exchange >"$scratch/r.stray" 2>&1
code=$?
[ $code = 82 ] && grep -q 'another run answers there' "$scratch/r.stray"
verdict_of "a rank of another start is turned away" $? "code $code: $(cat "$scratch/r.stray")"
env SECRET=s RUN=stray "$build/star" 0 2 "$port" exchange >"$scratch/r.stray" 2>&1
code=$?
[ $code = 81 ] && grep -q "port $port of $here is taken" "$scratch/r.stray"
verdict_of "a port taken by another run" $? "code $code: $(cat "$scratch/r.stray")"
rank 1 2 exchange
expect "and ends nothing" 0 0 '^done'

begin
rank 1 2 exchange RUN=b
rank 0 2 exchange RUN=a
expect "one that insists ends" 1 83 'refused by rank 0: rank 1 says it is of another run'
expect "one that insists ends rank 0" 0 83 'rank 1 says it is of another run: DIECAST_RUN'

# The job cannot be right: who comes a moment later hears it too.
later() {
    rank 0 3 exchange
    rank 2 4 exchange
    expect "another world, of three" 2 83 'rank 2 believes in 4 ranks, rank 0 in 3'
    rank 1 3 exchange JOIN=5
    expect "another world, one that comes later" 1 83 'refused by rank 0: rank 2 believes in 4 ranks'
    expect "another world, of three, ends rank 0" 0 83 'rank 2 believes in 4 ranks'
}
tries later

one_too_many() {
    rank 0 3 exchange
    rank 3 3 exchange WRONG="rank 3 of 3"
    rank 1 3 exchange
    expect "a rank too many" 3 83 'rank 3 of 3$'
    expect "a rank too many ends rank 0" 0 83 'a rank 3 too many: they go from 0 to 2'
    expect "a rank too many ends the others" 1 83 'a rank 3 too many'
}
tries one_too_many

rank_0_alone() {
    rank 0 1 exchange WRONG="built for 2 ranks, started as 1"
    rank 1 2 exchange
    expect "rank 0 of another world" 0 83 'built for 2 ranks, started as 1$'
    expect "rank 0 of another world ends the others" 1 83 'rank 1 believes in 2 ranks, rank 0 in 1'
}
tries rank_0_alone

all_wrong() {
    all 3 exchange WRONG="built for 2 ranks, started as 3"
    began=$(now)
    survivors "all of another world" 83 'built for 2 ranks, started as 3$' 2500 0 1 2
}
tries all_wrong

begin
rank 0 2 hold
listens
env SECRET=s "$build/star" 0 2 "$port" hold >"$scratch/r.second" 2>&1
code=$?
[ $code = 83 ] && grep -q "refused by rank 0: a second rank 0 of 2" "$scratch/r.second"
verdict_of "a second rank 0" $? "code $code: $(cat "$scratch/r.second")"
expect "a second rank 0 ends the first" 0 83 'a second rank 0 of 2'

twins() {
    rank 0 2 hold
    listens
    rank 1 2 hold
    env SECRET=s JOIN=5 "$build/star" 1 2 "$port" hold >"$scratch/r.second" 2>&1
    code=$?
    [ $code = 83 ] && grep -q 'rank 1 is there twice' "$scratch/r.second" "$scratch/r.1"
    verdict_of "a twin that comes with the last rank" $? "code $code: $(cat "$scratch/r.second")"
    [ $code = 83 ] || return
    expect "a twin that comes with the last rank ends rank 0" 0 83 'rank 1 is there twice'
}
tries twins

begin
rank 0 2 exchange
listens
env SECRET=other "$build/star" 0 2 "$port" hold >"$scratch/r.second" 2>&1
code=$?
[ $code = 81 ] && grep -q "port $port of $here is taken" "$scratch/r.second"
verdict_of "a port taken by others" $? "code $code: $(cat "$scratch/r.second")"
rank 1 2 exchange
expect "who hear nothing of it" 0 0 '^done'

for any in 0.0.0.0 :: 0 ::ffff:0.0.0.0; do
    begin
    rank 0 2 hold HOST=$any NODES=2
    rank 1 2 hold HOST=$any
    expect "an address that is every one, $any" 0 80 "address $any means every address of a host"
    expect "an address that is every one, $any, rank 1" 1 80 "address $any means every address"
done

begin
rank 0 2 hold NODES=2
expect "loopback for several hosts" 0 80 'loopback, which other hosts cannot reach'
begin
rank 0 2 hold HOST=192.0.2.1 NODES=2
expect "an address that is not ours" 0 80 'cannot listen on 192.0.2.1'
begin
rank 0 2 hold HOST=no.such.host.invalid
expect "a name nobody knows" 0 80 'no.such.host.invalid'

# A secret in a file: one left by an earlier run is replaced, the file goes after the start.
begin
echo stale >"$scratch/secret"
env -u SECRET SECRET_FILE="$scratch/secret" "$build/star" 1 2 "$port" exchange \
    >"$scratch/r.1" 2>&1 &
pids[1]=$!
sleep 0.5
env -u SECRET SECRET_FILE="$scratch/secret" "$build/star" 0 2 "$port" exchange \
    >"$scratch/r.0" 2>&1 &
pids[0]=$!
expect "the secret of a file" 0 0 '^done'
expect "the secret of a file, found late" 1 0 '^done'
[ ! -e "$scratch/secret" ]
verdict_of "the file goes" $? "$(ls -l "$scratch")"

# ---- strangers

begin
rank 0 3 exchange JOIN=60
listens
for _ in $(seq 100); do
    exec {fd}<>/dev/tcp/$here/$port && held[fd]=$fd     # silent
done
for _ in $(seq 30); do
    head -c 500 /dev/urandom 2>/dev/null >/dev/tcp/$here/$port
    printf 'GET / HTTP/1.1\r\n\r\n' 2>/dev/null >/dev/tcp/$here/$port
    printf 'DCRDV001' 2>/dev/null >/dev/tcp/$here/$port
done 2>/dev/null
began=$(now)
rank 1 3 exchange
rank 2 3 exchange
expect "strangers delay nobody" 0 0 '^done'
[ $(($(now) - began)) -lt 30000 ] && grep -q 'strangers turned away' "$scratch/r.0"
verdict_of "strangers are counted" $? "$(($(now) - began)) ms: $(tail -2 "$scratch/r.0")"
for fd in "${held[@]}"; do exec {fd}>&-; done

# ---- after the start. Two seconds are promised for a death; elsewhere the bound tells the way it is heard of from the
# silence of 20 s.

killed() {              # killed RANK OTHER...
    all 4 hold
    joined 4
    began=$(now)
    kill -9 "${pids[$1]}"
    survivors "kill -9 of rank $1" 84 "step 7: rank $1 \\(h$1\\) died" 2000 "${@:2}"
}
tries killed 2 0 1 3
tries killed 0 1 2 3

begin
all 4 quit
began=$(now)
survivors "a rank leaves with exit 0" 84 'rank 1 \(h1\) died: (its connection was closed|Connection reset by peer)' \
    15000 0 2 3

begin
all 4 die
began=$(now)
survivors "a rank ends with a code of its own" 88 \
    'rank 1 \(h1\) ended with code 88|line 3 of the data' 15000 0 1 2 3

stopped() {             # stopped RANK OTHER...
    all 4 hold SILENCE=3
    joined 4
    began=$(now)
    kill -STOP "${pids[$1]}"
    survivors "SIGSTOP of rank $1" 85 "rank $1 \\(h$1\\) has been silent" 15000 "${@:2}"
    grep -q "warning: .*rank $1 (h$1) has been silent for" "$scratch/r.$2"
    verdict_of "rank $1, silent, is warned about" $? "$(cat "$scratch/r.$2")"
    kill -CONT "${pids[$1]}"
    [ "$1" = 0 ] || expect "which hears of it when it wakes" "$1" 85 "rank $1 \\(h$1\\) has been silent"
}
tries stopped 3 0 1 2
tries stopped 0 1 2 3

begin
all 3 hold SILENCE=12
joined 3
kill -STOP "${pids[1]}"
sleep 2.5
kill -CONT "${pids[1]}"
sleep 1.5
kill -0 "${pids[0]}" && kill -0 "${pids[1]}" && kill -0 "${pids[2]}"
verdict_of "a short SIGSTOP is forgiven" $? "$(tail -1 "$scratch/r.0")"

no_further() {
    all 3 stall
    began=$(now)
    survivors "no progress anywhere" 85 'no rank got further for [0-9]+ s: all wait' 15000 0 1 2
}
tries no_further

one_behind() {
    all 3 behind
    began=$(now)
    survivors "one rank behind is named" 85 'behind the others: rank 1 \(h1\)$' 15000 0 1 2
}
tries one_behind
exit $failed
