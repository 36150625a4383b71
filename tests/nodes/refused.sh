#!/bin/bash
# Hosts that cannot come together: the code and the line on each side, within the time. BACKEND=cpu or sim.
source "$(dirname "$0")/hosts.sh"
export DIECAST_TIMEOUT_SCALE=0.04                # ranks wait for each other for 12 s
other=$scratch/other                             # a program that is not the same
cp "$binary/train" "$other"
printf x >>"$other"

# says NAME HOST CODE PATTERN: what was started on that host ended so
says() {
    local code
    read -ra code <<<"$codes"
    verdict "$name: $1, host $2" "$([ "${code[$2]}" = "$3" ] || echo "code ${code[$2]}"
        grep -qE "^rank .*$4" "$scratch/$PAIR.$2" || tail -n 3 "$scratch/$PAIR.$2")"
}
# ends NAME [MS]: all of it, soon enough, and nothing has been trained
ends() {
    end
    began=$(($(now) - began))
    verdict "$name: $1, time" "$([ $began -lt "${2:-60000}" ] || echo "$began ms")"
    verdict "$name: $1, nothing is left" "$(gone 0; gone 1; ls -d "$scratch/$PAIR"/checkpoint-* 2>/dev/null)"
}
# tries_to ARGS...: a run of this pair, from now on
tries_to() {
    began=$(now)
    begin "$PAIR" --steps 1 "$@"
}
# by_hand ADDRESS0 ADDRESS1 [NAME=VALUE]: the hosts get different addresses, the second also NAME=VALUE
by_hand() {
    local host address=("$1" "$2") set=("" "${3:-}")
    began=$(now)
    script=()
    for host in 0 1; do
        env NNODES=2 NODE_RANK=$host MASTER_ADDR="${address[host]}" DIECAST_SECRET=s ${set[host]:+"${set[host]}"} \
            "$on" $host "$binary/run.sh" "${ours[@]}" --out "$scratch/$PAIR" --steps 1 \
            >"$scratch/$PAIR.$host" 2>&1 &
        script[host]=$!
    done
}

late="ranks 2-3 of 4 have not come within 12 s"
if [ $BACKEND = cpu ]; then
    blocked() {
        rule 0 -A INPUT -i eth0 -p tcp --dport 21000 -j "$target"
        DIECAST_PORT=21000 tries_to
        ends "port $target"
        # MPI's launcher ends the others when the first gives up
        says "port $target" 0 82 "($late|rank 0 was not found at 10.77.0.1 port 21000 within 12 s: $1)"
    }
    dropped() { target=DROP blocked "Connection timed out"; }
    rejected() { target=REJECT blocked "Connection refused"; }
    # those of MPI itself, after its daemons have found each other
    parted() {
        local host
        for host in 0 1; do rule $host -A INPUT -i eth0 -p tcp --dport 1024:1100 -j DROP; done
        tries_to
        ends "MPI's own ports"
        says "MPI's own ports" 0 82 "MPI has not brought the ranks together within 12 s: is there a firewall"
    }
    addresses() {
        MASTER_ADDR=0.0.0.0 tries_to
        ends "no address"
        says "no address" 0 80 'rank 0.s address 0.0.0.0 means every address of a host and names none'
        MASTER_ADDR=127.0.0.1 tries_to
        ends "loopback"
        says "loopback" 0 80 "rank 0's address 127.0.0.1 is this host's own loopback"
        DIECAST_ADDR=10.77.0.2 tries_to
        ends "another host's address"
        says "another host's address" 0 80 'rank 0 cannot listen on 10.77.0.2 port'
    }
    differs() {
        ln -s "$other" "$scratch/train.$PAIR.1"
        tries_to
        ends "another program"
        says "another program" 0 83 'rank [23] runs another binary than rank 0'
    }
    scenarios dropped rejected parted addresses differs
    exit $failed
fi

blocked() {
    rule 0 -A INPUT -i eth0 -p tcp --dport 29500 -j "$target"
    tries_to
    ends "port $target"
    says "port $target" 0 82 "$late"
    says "port $target" 1 82 "rank 0 was not found at node0 port 29500 within 12 s: $1"
}
dropped() { target=DROP blocked "Connection timed out"; }
rejected() { target=REJECT blocked "Connection refused"; }
addresses() {
    by_hand 0.0.0.0 0.0.0.0
    ends "no address"
    for host in 0 1; do says "no address" $host 80 "rank 0's address 0.0.0.0 means every address"; done
    by_hand node1 node1
    ends "another host's address"
    says "another host's address" 0 80 'rank 0 cannot listen on node1 port'
    says "another host's address" 1 82 'rank 0 was not found at node1 port 29500 within 12 s: Connection refused'
    by_hand 127.0.0.1 node0
    ends "loopback"
    says "loopback" 0 80 "rank 0's address 127.0.0.1 is this host's own loopback"
    says "loopback" 1 82 'rank 0 was not found at node0 port'
}
nobody() {
    by_hand node0 10.77.0.9
    ends "nobody at that address"
    says "nobody at that address" 0 82 "$late"
    says "nobody at that address" 1 82 'rank 0 was not found at 10.77.0.9 port 29500 within 12 s: (No route to host|Conn)'
    by_hand node0 nodex
    ends "no such name"
    says "no such name" 0 82 "$late"
    says "no such name" 1 82 'rank 0 was not found at nodex port 29500 within 12 s: (Temporary failure in n|N)ame'
}
differs() {
    by_hand node0 node0 NNODES=4
    ends "a host believes in four"
    says "a host believes in four" 0 83 'rank 1 is there twice'
    verdict "$name: a host believes in four, host 1" "$(grep -qE '^rank 1 .*rank 1 is there twice' "$scratch/$PAIR.1" ||
        tail -n 3 "$scratch/$PAIR.1")"
    by_hand node0 node0 DIECAST_SECRET=other
    ends "another secret"
    says "another secret" 0 82 "$late"
    says "another secret" 1 83 'rank 0 at node0 port 29500 has another secret'
    by_hand node0 node0 DIECAST_RUN=other
    ends "another run"
    for host in 0 1; do says "another run" $host 83 'rank [23] says it is of another run'; done
    ln -s "$other" "$scratch/train.$PAIR.1"
    tries_to
    ends "another program"
    for host in 0 1; do says "another program" $host 83 'rank [23] runs another binary than rank 0'; done
}
scenarios dropped rejected addresses nobody differs
exit $failed
