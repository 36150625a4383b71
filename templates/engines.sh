# Variables of launchers that start this file once on each machine (rows above). They must not contradict flags or
# our own variables; equal values are fine.
of() { value= && [ "$1" = - ] || value=${!1:-}; }        # of NAME: $value, "" if it is not set; -: no such variable
listed=                          # a variable with the machines, that of rank 0 first
room=                            # GPUs of a machine
for row in "${engines[@]}"; do
    read -r only its_nodes its_node its_address its_hosts its_port its_ranks its_gpus <<<"$row"
    [ "$only" = - ] || [ -n "${!only:-}" ] || continue
    of "$its_nodes"
    [ "${value%%:*}" != "${value#*:}" ] || value=${value%%:*}      # 2:2, as torchrun says it
    [[ $value =~ ^([1-9][0-9]{0,4})?$ ]] || refuse "$its_nodes=$value: must be one number of machines: the number" \
        "of ranks is built in, so this is no elastic run"
    [ -z "$value" ] || nodes=$(agree "$nodes" "$its_nodes=$value") || exit
    of "$its_node"
    [ -z "$value" ] || node=$(agree "$node" "$its_node=$value") || exit
    of "$its_address"
    [ -z "$value" ] || address=$(agree "$address" "$its_address=$value") || exit
    of "$its_hosts"
    if [ -n "$value" ]; then
        listed=${listed:-$its_hosts}
        [[ $value = *[[,]* ]] || [ "$(wc -w <<<"$value")" = "${!its_nodes:-1}" ] ||
            refuse "$its_hosts names $(wc -w <<<"$value") machines, but $its_nodes=${!its_nodes:-}"
    fi
    of "$its_port"
    [ -z "$value" ] || port=$(agree "$port" "$its_port=$value") || exit
    of "$its_ranks"
    case $value in
    '' | auto | "$kind") ;;              # as many as this was built for
    cpu | gpu) refuse "$its_ranks=$value: the ranks of this program run on ${kind}s; give their number, or auto" ;;
    *) each=$(agree "$each" "$its_ranks=$value") || exit ;;
    esac
    of "$its_gpus"
    [ -z "$value" ] || room=$its_gpus=$value
done
# Launchers of single ranks, if they start one process on each machine.
for row in "${launchers[@]}"; do
    read -r size rank rank_too local <<<"$row"
    of "$rank_too"
    [ -z "$value" ] || rank=$rank_too
    of "$local"
    if [ "$size" != WORLD_SIZE ] && [ "$value" = 1 ] && [ "${!size:-1}" != 1 ]; then
        nodes=$(agree "$nodes" "$size=${!size}") || exit
        [ -z "${!rank:-}" ] || node=$(agree "$node" "$rank=${!rank}") || exit
    fi
done
# The first name of a list of Slurm, n[03-05,7],login, or of lines.
first_of() {
    local list=${1%%$'\n'*} within
    while [[ ${list%%,*} = *[* ]]; do
        within=${list#*[}
        list=${list%%[*}${within%%[],-]*}${within#*]}
    done
    echo "${list%%,*}"
}
