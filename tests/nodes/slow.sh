#!/bin/bash
# A network that is slow or loses packets: training goes on to the same bits, and nobody is called slow.
# BACKEND=cpu or sim.
source "$(dirname "$0")/hosts.sh"
run=(--steps 8 --save-every 0 --eval-every 0)
straight straight "${run[@]}"
gcc -std=c11 -O1 -Wall -Wextra -Werror -o "$scratch/relay" tests/nodes/relay.c ||
    { verdict "relay.c" "does not compile"; exit 1; }

# in the switch's place a cable on which all takes 30 ms each way
cable() {
    local host
    for host in 0 1; do ip -n "$base.$PAIR.s" link set "port$host" nomaster; done
    ip netns exec "$base.$PAIR.s" "$scratch/relay" 30 port0 port1 2>"$scratch/$PAIR.relay" &
    # the way there and back, as TCP has measured it, in ms
    local time
    "$on" 1 bash -c 'exec 3<>/dev/tcp/node0/9' 2>/dev/null
    time=$(now)
    "$on" 1 bash -c 'exec 3<>/dev/tcp/node0/9' 2>/dev/null
    time=$(($(now) - time))
    verdict "$name: the cable is slow" "$([ $time -ge 60 ] || echo "$time ms there and back; $(cat "$scratch/$PAIR.relay")")"
}
# of all packets on both hosts each twentieth
loss() {
    local host
    for host in 0 1; do
        rule $host -A INPUT -i eth0 -m statistic --mode nth --every 20 --packet 0 -j DROP
    done
}
lost() { rule 0 -L INPUT -vnx | awk '/statistic/ { print $1 }'; }
trains() {
    begin "$PAIR" "${run[@]}"
    end
    verdict "$name: it trains" "$([ "$codes" = "$good" ] || echo "codes $codes: $(tail -qn 3 "$scratch/$PAIR".[01])")"
    same "$name" "$PAIR" straight 8
    verdict "$name: nobody is called slow" "$(grep -h '^warning' "$scratch/$PAIR".[01])"
    verdict "$name: nothing is left" "$(gone 0; gone 1)"
}
slow() {
    cable
    trains
}
lossy() {
    loss
    trains
    verdict "$name: packets are lost" "$([ "$(lost)" -ge 5 ] || echo "only $(lost)")"
}
slow_and_lossy() {
    cable
    loss
    trains
}
scenarios slow lossy slow_and_lossy
exit $failed
