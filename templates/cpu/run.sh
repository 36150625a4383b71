#!/bin/bash
# Starts the program beside this file as the processes it was built for and hands it every argument.
#
#   ./run.sh --help
#   MPIRUN=mpirun.mpich ./run.sh ...          launcher of another MPI (make MPICC=mpicc.mpich)
#   MPIRUN_FLAGS="--hostfile hosts" ./run.sh  several machines: flags for the launcher
#   OMP_NUM_THREADS=4 ./run.sh ...            threads of a process; else its share of the cores
#
# Ask a run to save and stop with SIGUSR1 to this process: SIGTERM leaves Open MPI's ranks a second.
# From the recipe come the three values below and nothing else.
set -u
NAME='@NAME@'
RECIPE='@RECIPE@'
RANKS=@RANKS@

here=$(cd "$(dirname "$0")" && pwd)
if [ ! -x "$here/train" ]; then
    echo "$here/train is not built: run make in $here (source: gen $RECIPE)" >&2
    exit 80
fi

threads_available=$(nproc)
share=$((threads_available / RANKS))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
# Threads that wait for each other sleep soon. Measured on two cores: 2 % slower when nobody else
# uses them, four times as fast when others do.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}

if [ "$RANKS" = 1 ]; then
    exec "$here/train" "$@"
fi

mpirun=${MPIRUN:-$(command -v mpirun.openmpi || echo mpirun)}
if ! version=$("$mpirun" --version 2>&1); then
    echo "$mpirun does not run; $NAME needs the MPI it was built with" >&2
    exit 80
fi
flags=()
case $version in
*"Open MPI"* | *OpenRTE*)
    # Threads are placed by OpenMP: Open MPI would bind a whole rank to one core. Single copy is the
    # slower way to move gradients on one machine.
    flags+=(--bind-to none --mca btl_vader_single_copy_mechanism none)
    [ "$(id -u)" = 0 ] && flags+=(--allow-run-as-root)
    if [ -z "${MPIRUN_FLAGS:-}" ]; then
        cores=$(lscpu -p=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l)
        if [ "$RANKS" -gt "$threads_available" ]; then
            echo "note: $RANKS processes share $threads_available CPUs: correct, but slow" >&2
        fi
        [ "$RANKS" -gt "$cores" ] && flags+=(--oversubscribe)
        # Shared memory of a run that was killed stays behind: each run has a folder of its own,
        # named by its process, and clears those whose process is gone.
        for old in /dev/shm/diecast."$NAME".*; do
            [ -O "$old" ] && ! kill -0 "${old##*.}" 2>/dev/null && rm -rf -- "$old"
        done
        scratch=/dev/shm/diecast.$NAME.$$
        if mkdir -m 700 "$scratch" 2>/dev/null; then
            flags+=(--mca btl_vader_backing_directory "$scratch")
        fi
    fi
    ;;
esac
# shellcheck disable=SC2086      # MPIRUN_FLAGS holds several words
exec "$mpirun" -n "$RANKS" ${flags[@]+"${flags[@]}"} ${MPIRUN_FLAGS:-} "$here/train" "$@"
