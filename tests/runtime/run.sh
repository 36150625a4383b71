#!/bin/bash
# The thin runtime: flags, launchers, ranks, order, batches, schedules, log, sampling.
# cost: 52
set -u
. tests/sources.sh
. tests/verdict.sh
build=out/.test/runtime
mkdir -p "$build"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap_ub=-fno-sanitize-recover=undefined
export ASAN_OPTIONS=detect_leaks=0      # leaks are not the subject: the processes are short
WARN="-std=c11 -Wall -Wextra -Wshadow -Wvla -Werror -Werror=date-time"
units="unit unit_launch unit_schedule unit_param_groups unit_data unit_data_bins unit_data_refused unit_steps
    unit_log unit_events unit_profile unit_mask_draw unit_contexts unit_masked_batch unit_unmask_order unit_sample
    unit_sha256 unit_nf4 unit_names unit_normal unit_record_cache unit_darkroom unit_incontext unit_histories
    unit_plot"
parts="base names owners built schedule flags flags_parse launch bins data_bins shuffle data data_order
    data_batch steps mask_draw contexts masked_batch unmask_order diffusion_sampler workers log log_banner
    log_history progress profile sample tokenfile recordfile host_memory json safetensors
    safetensors_write draw layout png table table_csv table_json table_returns table_weights figures crc32c sha256 nf4
    device_cpu model model_parts metrics
    best folder param_groups record_cache incontext returns regions npy histories events tfevents"
mpi="base names launch comm comm_rendezvous comm_mpi rendezvous rendezvous_join sha256"

compile() {             # compile CC OUT FLAGS SOURCE...
    local cc=$1 out=$2 flags=$3
    shift 3
    # shellcheck disable=SC2086
    "$cc" $WARN -I. -Og -g0 -fopenmp $flags "$@" -o "$out" -lcjson -lm 2>"$scratch/cc"
    local status=$?
    verdict_of "compile $(basename "$out")" $status "$(head -3 "$scratch/cc")"
    return $status
}

# shellcheck disable=SC2046,SC2086
{
    watched $(sources tests/runtime $units) $(sources runtime comm comm_mpi $parts)
    watched_link "$build/unit" $objects -lcjson -lm || exit 1
    watched tests/runtime/flags_main.c $(sources runtime base names owners flags flags_parse built launch)
    watched_link "$build/flags" $objects -lcjson -lm || exit 1
    compile mpicc "$build/comm" "" tests/runtime/comm_main.c $(sources runtime $mpi) || exit 1
    watched tests/runtime/rendezvous_main.c $(sources runtime base sha256 rendezvous rendezvous_join)
    watched_link "$build/star" $objects || exit 1
}

# CUDA programs, on the simulator; with the toolkit there, against its own headers and NCCL too. One rank
# needs neither NCCL nor a star.
cuda="base names launch comm comm_rendezvous comm_nccl device_cuda nvml_cuda rendezvous rendezvous_join sha256 model model_parts crc32c safetensors"
cuda="$cuda safetensors_write json"
# shellcheck disable=SC2046,SC2086
if simulator=$(tests/sim/build.sh fast); then
    compile gcc "$build/nccl" "-Itests/sim/include -fsanitize=undefined $trap_ub" \
        tests/runtime/nccl_main.c $(sources runtime $cuda) "$simulator" -lstdc++ -lpthread || exit 1
else
    verdict_of "the simulator builds" 1 "see tests/sim/build.sh"
fi
toolkit=${CUDA:-/usr/local/cuda}
if [ -e "$toolkit/include/nccl.h" ]; then
    BUILD=1 CUDA=$toolkit tests/gpu/ranks.sh || failed=1
fi
# shellcheck disable=SC2086
gcc $WARN -I. -O1 -fsyntax-only -DDIECAST_RANKS=1 runtime/ranks/comm_nccl.c 2>"$scratch/cc"
verdict_of "one rank needs no NCCL" $? "$(head -3 "$scratch/cc")"

# A program whose instructions this CPU lacks ends with one line, not with SIGILL. No CPU of today has FMA4.
while read -r word flags; do
    # shellcheck disable=SC2086
    said=$(gcc $WARN $flags -I. -O3 -o "$scratch/needs" -x c - runtime/{device_cpu,base}.c -lm 2>&1 \
        <<<'int main(void) { return 0; }' && "$scratch/needs" 2>&1)
    code=$?
    want=0 line=
    grep -qw "$word" /proc/cpuinfo ||
        want=83 line="needs: this CPU has no $word, which the program was built to use: run it on one that has"
    [ $code = $want ] && [[ $said = "$line"* ]] && [[ -n $line || -z $said ]]
    verdict_of "built to use $word: ${line:-runs}" $? "code $code: $(head -2 <<<"$said")"
done <<'END'
avx2 -march=x86-64-v3
avx512f -march=x86-64-v4
fma4 -march=x86-64-v3 -mfma4
END

# In-process checks.
"$build/unit" "$scratch" >"$scratch/unit" 2>"$scratch/unit.err"
status=$?
cat "$scratch/unit"
grep -q '^not ok' "$scratch/unit" && failed=1
verdict_of "unit ends well" $status "status $status: $(tail -3 "$scratch/unit.err")"
for line in '1 rank x 2 threads' '^  changed by gpus=2 batch.micro=1$' '^  weights    models/x$' \
    '^  lora       rank 4, alpha 8.0, targets q_proj,v_proj$' '^  run folder /.*/run$' \
    '^  rate       5e-05 (linear), weight decay 0, clip 1, seed 42$' \
    '^  rate       0.0002 = 5e-05 x 4, --lr-scale linear of the run.s first 4 ranks (linear), weight' \
    ' in 1 file, 9 of 10 batches a rank$' ' in 1 file, 10 batches a rank$' \
    '^profile: 2 steps, from 8 on, of [0-9.]* ms; [0-9.]* ms before' \
    '^  linear_fwd  *2  *\(0\.[3-9]\|[1-9]\)' \
    '^  together .* \(99\|100\)\.' '^  collectives  *\(0\.[1-9]\|[1-9]\)[0-9.]* ms .* the step waits for them'; do
    grep -q "$line" "$scratch/unit.err"
    verdict_of "said: $line" $? "$(head -30 "$scratch/unit.err")"
done

# Flags: what is printed, and for bad ones the code 80 and a line that names flag and value.
accepts() {             # accepts WANTED ARGS...
    local want=$1
    shift
    "$build/flags" "$@" >"$scratch/f" 2>&1 && grep -qxF -- "$want" "$scratch/f" \
        && ! grep -q "READ BACK" "$scratch/f"
    verdict_of "flags $* -> $want" $? "$(grep -i "${want%%=*}" "$scratch/f" | head -1)"
}
refuses() {             # refuses TEXT ARGS...
    local want=$1
    shift
    "$build/flags" "$@" >"$scratch/f" 2>&1
    local code=$?
    [ $code = 80 ] && grep -qF -- "$want" "$scratch/f" && [ "$(wc -l <"$scratch/f")" = 1 ]
    verdict_of "flags refuse ${*@Q}" $? "code $code: $(head -2 "$scratch/f")"
}
accepts "lr=0.0003"
accepts "lr=5e-06 given" --lr 5e-6
accepts "log_every=7"
accepts "log_every=3 given" --log-every=3
accepts "log_every=3 given" --log_every 3
accepts "schedule=cosine given" --schedule cosine
accepts "exact=true given" --exact --lr 1
accepts "exact=false given" --exact false
accepts "tensorboard=true"
accepts "tensorboard=true given" --report_to tensorboard
accepts "tensorboard=false given" --report-to none
accepts "tensorboard=false given" --use_tensorboard False
accepts "exact=true given" --exact True
accepts "exact=true given" --exact=true
accepts "data=a,b given" --data a,b
refuses "--data is given twice, a and b: give one list, --data a,b" --data a --data b
refuses "--data_weights is given twice, 1,2 and 3: give one list" --data a,b --data_weights 1,2 --data_weights=3
accepts "init_from=none given" --init-from none
accepts "seed=9223372036854775807 given" --seed 9223372036854775807
accepts "warmup=0.1 given" --warmup 0.1
accepts "beta2=0.1 given" --beta2 0.1
accepts "resume=auto"
OBJECTIVE=prm accepts "eval_data=m" --meta-data m
OBJECTIVE=prm accepts "eval_data=e given" --meta-data m --eval-data e
OBJECTIVE=prm accepts "meta_data=m given" --meta_json_file m
OBJECTIVE=ad accepts "eval_data=h" --data h
OBJECTIVE=ad accepts "eval_data=e given" --data h --eval-data e
OBJECTIVE=ad accepts "source_streams=5 given" --train_n_stream 5
OBJECTIVE=ad accepts "steps=7 given" --train_timesteps 7
OBJECTIVE=lm accepts "eval_data=" --data h
accepts "out=$(cd "$build" && pwd -P)/run"
refuses "--bench-steps: must be an integer from 1 to" --bench-steps 0
refuses "--n_transit 80: fixed when the program was generated, with no ad.n_transit; to change it: gen recipes/x.lua \
ad.n_transit=80 && make" --n_transit 80
refuses "gen recipes/x.lua model.layers=2 && make" --tf_n_layer 2
refuses "--traj_dir: write --data datasets/history_darkroom_PPO_alg-seed42.safetensors" --traj_dir x
OBJECTIVE=ad refuses "--tokenizer: needs a program with the objective lm|" --tokenizer x
refuses "did you mean --lr? " --lrr 1
refuses "did you mean --save-total-limit? " --save-totl-limit 1
refuses "did you mean --learning-rate, here --lr?" --leraning_rate 1
refuses "did you mean --val-max-steps, here --eval-batches?" --val_max_step 1
refuses "did you mean --lora-rank, here the recipe's lora.rank?" --lora_rnk 8
refuses "train: --zzzzzz: no such flag (--help" --zzzzzz 1
refuses "gen recipes/x.lua batch.micro=4" --batch.micro 4
refuses "lr=1e-4: not a flag; write --lr 1e-4" lr=1e-4
refuses "-lr: not a flag; write --lr X" -lr 1e-4
BUILT='precision="bf16"' accepts "lr=1 given" --fp16 False --lr 1
built=$'objective="lm"\nprecision="fp32"\ntarget="cpu_v4"\n'
BUILT=$built refuses "--dpo_beta 0.3: recipes like this program's, with objective=lm, have no field dpo.beta; leave it out" \
    --dpo_beta 0.3
BUILT=$built refuses "gen recipes/x.lua objective=dpo dpo.beta=0.3 && make" --objective dpo --dpo_beta 0.3
BUILT=$built refuses "--mixed_precision fp8: no program has it, only fp32|bf16|fp16" --mixed_precision fp8
BUILT=$built refuses "--fp16: fp16 needs a GPU, and this program is for target=cpu_v4; bf16 or fp32" --fp16
BUILT=$built refuses "gen recipes/x.lua target=sm_80 precision=fp16 && make" --target sm_80 --fp16
OBJECTIVE=dpo BUILT=gpus=2 accepts "lr=1 given" 2 --lr 1
OBJECTIVE=dpo BUILT=gpus=2 refuses "--num_gpus 4: fixed when" 4
OBJECTIVE=lm refuses "4: not a flag" 4
DIECAST_NODES=2 BUILT=gpus=8 accepts "lr=1 given" --num_gpus 4 --lr 1
DIECAST_NODES=2 BUILT=gpus=8 refuses "--num_gpus 8: fixed when the program was generated, with gpus=8; to change it: \
gen recipes/x.lua gpus=16 && make" --num_gpus 8
for bad in 0 two 2x -1; do
    DIECAST_NODES=$bad BUILT=gpus=8 refuses "DIECAST_NODES=$bad: must be the number of machines" --num_gpus 4
done
RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 BUILT=gpus=8 accepts "lr=1 given" --num_gpus 4 --lr 1
refuses "--lr 0.5 and --learning_rate 1 are the same flag" --lr 0.5 --learning_rate 1
refuses "(learning rate: the peak" --learning_rate -1
accepts "lr=0.5 given" --lr 0.25 --lr 0.5
accepts "resume=last given" --resume_from_checkpoint True
accepts "steps=0 given" --max_steps -1
accepts "merge_lora=DIR given" --merge DIR
accepts "merge_lora=final_merged_model given" --merge-lora
accepts "merge_lora=final_merged_model given" --merge_and_unload --lr 1
refuses "must be a number from 0 to 1000, got \"1e9\"" --lr 1e9
refuses "--lr: must be a number" --lr 1x
refuses "--beta2: must be a number from 0 to 0.99999999, got" --beta2 1
refuses "must be true or false, got \"wandb\" (true (default): write events for \`tensorboard --logdir OUT/runs\`; false: do not)" \
    --report_to wandb
refuses "--logging-dir: event files go to OUT/runs" --logging-dir x
refuses "--lr: must be a number" --lr ""
refuses "--lr: must be a number" --lr nan
refuses "--lr: must be a number" --lr inf
refuses "--lr: must be a number" --lr 0x1p-3
refuses "--lr: must be a number" --lr -1
refuses "--steps: must be an integer" --steps 1.5
refuses "--steps: must be an integer" --steps 1e3
refuses "--steps: must be an integer" --steps 99999999999999999999
refuses "--steps: must be an integer" --steps " 5"
refuses "--log-every: must be an integer from 1" --log-every 0
accepts "eval_every=epoch given" --eval-every Epoch
accepts "save_every=7 given" --save-every 7
accepts "save_every=5epochs given" --save-every 5epochs
accepts "save_every=5epochs given" --save-every 5Epoch
accepts "save_every=epoch given" --save-every 1epochs
accepts "eval_from=1 given" --eval-from 1
refuses "--save-every: must be an integer from 0 to 1000000000, epoch, or 5epochs, got \"0epochs\"" --save-every 0epochs
for every in epochs -1 -5epochs 2.5epochs 5epochsx "5 epochs" 9999999epochs; do
    refuses "--eval-every: must be an integer from 0 to 1000000000, epoch, or 5epochs, got \"$every\"" \
        --eval-every "$every"
done
refuses "--log-every: must be an integer from 1" --log-every epoch
refuses "must be one of linear|cosine|" --schedule cos
refuses "must be one of stop|skip" --nonfinite stop\|skip
refuses "must be true or false" --exact=yes
refuses "--exact and --allow-inexact contradict each other: give one of them" --exact --allow-inexact
refuses 'must be a number from 0 to 1000, got "1e-400"' --lr 1e-400
refuses "needs a value" --lr
refuses "--sample: is empty, needs TEXT" --sample ""
refuses "--out: is empty, needs DIR" --out ""
accepts "system=none given" --system ""
accepts "chat_system= given" --chat --chat-system ""
refuses "--init-from: is empty" --init-from=
refuses "x: not a flag" x
refuses "-x: not a flag" -x
DEFAULTS=bad refuses "recipe, run: resume"
OBJECTIVE=other refuses "--top-p: needs a program with the objective lm" --top-p 0.5
OBJECTIVE=other refuses "--prompt: needs a program with the objective lm" --prompt x
"$build/flags" --help >"$scratch/f"
flag_rows() { cat runtime/run/flags.def runtime/objectives/[a-z]*.def; }
rows=$(flag_rows | grep -c '^FLAG(')
[ "$(grep -c '^  --' "$scratch/f")" = "$rows" ]
verdict_of "help lists all $rows flags" $? "$(grep -c '^  --' "$scratch/f")"
[ "$(flag_rows | sed -n 's/^SECTION("\(.*\)")$/\1/p' | sort)" = "$(grep -A1 '^$' "$scratch/f" | grep '^[a-z]' | sort)" ]
verdict_of "help has the sections of flags.def" $? "$(grep '^[a-z]' "$scratch/f" | head -3)"
OBJECTIVE=lm "$build/flags" --help >"$scratch/h"
grep -q -e --temperature "$scratch/h" && ! grep -q -e --probe "$scratch/h"
verdict_of "lm has its flags, and not those of mlm" $? "$(grep -e --probe "$scratch/h")"
OBJECTIVE=ad DEFAULTS=none "$build/flags" --help >"$scratch/h"
grep -A 1 -e '^  --data ' "$scratch/h" | grep -q '^      histories to train on' &&
    ! grep -A 4 -e '^  --data ' -e '^  --goal-idx ' "$scratch/h" | grep -q -e 'raw ones' -e '\[-1\]'
verdict_of "help says what a flag is in the program's objective" $? "$(grep -A 4 -e '^  --data ' -e '^  --goal-idx' "$scratch/h")"
OBJECTIVE=other "$build/flags" --help >"$scratch/h"
! grep -q -e --temperature -e '^sampling' "$scratch/h" && grep -q -e --export "$scratch/h"
verdict_of "help has the flags of the program's objective" $? "$(grep -A1 '^sampling' "$scratch/h")"
! grep -q ' $' "$scratch/f" && awk 'length > 100 { exit 1 }' "$scratch/f"
verdict_of "help fits a terminal" $? "$(awk 'length > 100' "$scratch/f" | head -1)"
OBJECTIVE=ppo DEFAULTS=none "$build/flags" --help >"$scratch/h"
[ "$(grep -c '^  --' "$scratch/h")" = "$(sed -n 's/^ONLY(ppo, "\(.*\)")$/\1/p' runtime/objectives/ppo.def | tr '|' '\n' |
    wc -l)" ]
verdict_of "ppo has its flags alone" $? "$(grep '^  --' "$scratch/h")"
OBJECTIVE=ppo DEFAULTS=none refuses "--lr: programs with the objective ppo have no such flag" --lr 1
OBJECTIVE=ppo DEFAULTS=none accepts "goals=3 given" --goals 3
OBJECTIVE=ad DEFAULTS=none refuses "--goal-idx: must be an integer from 0 to 11" --goal-idx 12
"$build/flags" -h --lr 0.25 >"$scratch/h" && grep -q 'schedule \[0.25\]; also --learning_rate' "$scratch/h"
verdict_of "-h is --help, with the values of now" $? "$(grep -A1 -e --lr "$scratch/h")"

# Ranks. Each MPI in turn; worlds of 2, 3 and 4.
ompi="--bind-to none --oversubscribe --mca btl_vader_single_copy_mechanism none"
[ "$(id -u)" = 0 ] && ompi="$ompi --allow-run-as-root"
ranks() {               # ranks NAME LAUNCHER N FLAGS PROGRAM
    # shellcheck disable=SC2086
    timeout 300 "$2" -n "$3" $4 "$5" "$3" sums >"$scratch/c" 2>&1
    local code=$?
    [ $code = 0 ] && grep -q '^ok' "$scratch/c" && ! grep -q '^bad' "$scratch/c"
    verdict_of "$1: $3 ranks sum to the same bits as the tree" $? \
        "code $code: $(grep -v '^ok' "$scratch/c" | head -3)"
}
ends() {                # ends NAME CODE TEXT COMMAND...
    local name=$1 want=$2 text=$3
    shift 3
    "$@" >"$scratch/c" 2>&1
    local code=$?
    [ $code = "$want" ] && grep -q -- "$text" "$scratch/c"
    verdict_of "$name: code $want" $? "code $code: $(head -3 "$scratch/c")"
}
for n in 2 3 4; do
    ranks "Open MPI" mpirun $n "$ompi" "$build/comm"
done
# Bytes that three ranks send for tensors gathered from parts (comm_main.c): of parts of 1009 elements of 1, 2, 4 and 8
# bytes, which each rank sends twice for one tensor and once for two, to two others.
mpicc -std=c11 -O1 -shared -fPIC -o "$scratch/sent.so" tests/shard/sent.c || verdict_of sent.c 1 "does not compile"
ranks "Open MPI, bytes counted" mpirun 3 "$ompi -x LD_PRELOAD=$scratch/sent.so -x SENT=$scratch/sent" "$build/comm"
[ "$(awk '$1 == "gathered_parts" { n++; bytes += $2 } END { print n, bytes }' "$scratch"/sent.?)" = \
    "3 $((3 * 4 * 1009 * (1 + 2 + 4 + 8) * 2))" ]
verdict_of "bytes sent to gather parts" $? "$(grep -h parts "$scratch"/sent.?)"
# shellcheck disable=SC2086
{
    ends "another number of ranks" 83 "gen recipes/x.lua gpus=2, then the make" \
        mpirun -n 2 $ompi "$build/comm" 3 sums
    ends "contradicting launchers" 80 "torchrun says rank 0 of 4, Open MPI says" \
        env RANK=0 WORLD_SIZE=4 mpirun -n 2 $ompi "$build/comm" 2 sums
    ends "torchrun starts an MPI binary" 83 "mpirun instead of torchrun" \
        env RANK=1 WORLD_SIZE=2 "$build/comm" 2 sums
    ends "one rank dies" 88 "rank 0 (.*) step 12: rank 1 (.*) ended with code 88: this rank has bad data" \
        mpirun -n 2 $ompi "$build/comm" 2 abort
    # the rank's own code: mpirun sometimes ends with 1, because of the rank that never came
    never() {
        env DIECAST_TIMEOUT_SCALE=0.004 mpirun $ompi -n 1 true : -n 1 \
            sh -c '"$@"; echo $? >'"$scratch/code" sh "$build/comm" 2 sums
        return "$(cat "$scratch/code")"
    }
    ends "a rank that never comes" 82 "MPI has not brought the ranks together within 1 s" never
    ends "a rank that gets no further" 85 "no rank got further for [0-9]* s: behind the others: rank 1 (.*)$" \
        mpirun -n 2 $ompi "$build/comm" 2 hang
    ends "a time scale that is none" 80 "DIECAST_TIMEOUT_SCALE=1e9: want a number from" \
        env DIECAST_TIMEOUT_SCALE=1e9 mpirun -n 2 $ompi "$build/comm" 2 sums
    # as on several hosts: loopback will not do
    apart="$ompi env OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0"
    ends "loopback for several hosts" 80 "loopback, which other hosts cannot reach: set DIECAST_ADDR" \
        env DIECAST_ADDR=127.0.0.1 mpirun -n 2 $apart "$build/comm" 2 sums
    ends "an address of another host" 80 "cannot listen on 192.0.2.99 .*; set DIECAST_ADDR to an address of the host" \
        env DIECAST_ADDR=192.0.2.99 mpirun -n 2 $apart "$build/comm" 2 sums
    address=$(hostname -I | cut -d' ' -f1)
    [ -z "$address" ] || ends "an address that other hosts reach" 0 "ok broadcast" \
        env DIECAST_ADDR="$address" mpirun -n 2 $apart "$build/comm" 2 sums
    ends "no launcher, built for 2" 83 "built for 2 ranks, started as 1" "$build/comm" 2 sums
    ends "a world of one" 0 "ok sum of doubles" "$build/comm" 1 sums
    ends "--local-rank of another launcher" 80 "but launcher none says 0" "$build/comm" 1 sums 3
}
if command -v mpicc.mpich >/dev/null && command -v mpirun.mpich >/dev/null; then
    # shellcheck disable=SC2046
    compile mpicc.mpich "$build/comm_mpich" "" tests/runtime/comm_main.c \
        $(sources runtime $mpi) && ranks MPICH mpirun.mpich 2 "" "$build/comm_mpich"
    ends "binary of one MPI, launcher of the other" 83 "use the mpirun of the MPI" \
        mpirun.mpich -n 2 "$build/comm" 2 sums
fi

# The ranks of CUDA programs, in plain processes; bash says who was killed, which is the test.
# They wait more than they work: all at once.
part_pid=()
for part in rendezvous nccl start machine guides; do
    tests/runtime/$part.sh "$build" >"$scratch/$part.out" 2>"$scratch/$part" &
    part_pid[${#part_pid[@]}]=$!
done
for pid in "${part_pid[@]}"; do wait "$pid" || failed=1; done
for part in rendezvous nccl start machine guides; do
    cat "$scratch/$part.out"
    grep -v ' Killed ' "$scratch/$part"
done

exit $failed
