#!/bin/bash
# Checks the witness itself: needs PYTHON with tests/oracle/requirements.txt; not part of `make test`. ENGINES_PYTHON: one
# with requirements_engines.txt, which cannot be installed with the others.
# The recorded runs can be made again, and roundtrip.py tells right folders from wrong ones.
set -u
. tests/compare.sh
PYTHON=${PYTHON:-python3} ENGINES_PYTHON=${ENGINES_PYTHON:-python3}
here=tests/oracle
ref=tests/train/ref
failed=0
export PYTHONDONTWRITEBYTECODE=1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

say() { # NAME WHY
    if [ -n "$2" ]; then
        echo "not ok $1: $2"
        failed=1
    else
        echo "ok $1"
    fi
}

if ! "$PYTHON" -c 'import torch, transformers, peft' 2>"$tmp/import"; then
    echo "not ok python: $(tail -n 1 "$tmp/import") (pip install -r $here/requirements.txt)"
    exit 1
fi

say runs "$("$PYTHON" $here/train.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say nf4 "$("$PYTHON" $here/nf4.py "$tmp/nf4.h" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log"
    cmp "$tmp/nf4.h" tests/kernels/nf4_recorded.h 2>&1)"
say vectors "$("$PYTHON" $here/vectors.py "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say mlm "$("$PYTHON" $here/mlm.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say mdm "$("$PYTHON" $here/mdm.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say unmask "$("$PYTHON" $here/unmask.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log"
    cmp "$tmp"/ref/mdm_llada/generated.json $ref/mdm_llada/generated.json 2>&1)"
say dpo "$("$PYTHON" $here/dpo.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say prm "$("$PYTHON" $here/prm.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say ad "$("$PYTHON" $here/ad.py --out "$tmp/ref" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log")"
say same_again "$("$PYTHON" $here/same.py "$tmp/ref" $ref 2>&1 | tail -n 1)"
say dtypes "$("$PYTHON" $here/dtypes.py 2>"$tmp/log" | cmp - tests/checkpoint/as_16bit.sha256 2>&1)"
say regression "$("$PYTHON" $here/regression.py --out "$tmp/objective" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log"
    "$PYTHON" $here/same.py "$tmp/objective" tests/objectives/ref 2>&1 | tail -n 1)"

say apo "$("$PYTHON" $here/unpaired.py --out "$tmp/apo" >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log"
    "$PYTHON" $here/same.py "$tmp/apo" tests/objectives/ref/apo 2>&1 | tail -n 1)"

say ppo "$("$PYTHON" $here/ppo.py | paste - $ref/ppo.txt | awk '
    { off = ($1 - $2) / $2; n += off > -1e-6 && off < 1e-6 } END { if (n != 22) print n + 0 " of 22" }')"

say moments "$("$PYTHON" $here/moments.py 2>/dev/null | cmp - tests/kernels/moments.h 2>&1
    "$PYTHON" $here/moments.py --maps 2>/dev/null |
        cmp - <(sed -n '/^#define DYNAMIC_SIGNED/,/^\/\*/p' runtime/dynamic_map.h | sed '$d') 2>&1)"

say agents "$("$PYTHON" $here/agents.py --again tests 2>"$tmp/log" | head -n 2)"
say templates "$("$PYTHON" $here/chats.py --ours tests 2>&1 | grep -v '^\[transformers\]' | tail -n 1)"

# Workflows, ours and those of gen ci, by the schemas of GitHub and GitLab
schema() { "$PYTHON" -m check_jsonschema --builtin-schema "vendor.$1" "${@:2}" 2>&1 | grep -v '^ok -- '; }
for host in github gitlab; do out/.gen/gen ci --$host >"$tmp/$host.yml" 2>/dev/null; done
say workflows "$(schema github-workflows .github/workflows/*.yml "$tmp/github.yml"; schema gitlab-ci "$tmp/gitlab.yml")"

# Files of gen launch, by the models of Kubeflow Trainer and the schemas of SkyPilot; the table that the tests have of them
for file in 'kubernetes a100x4_full cluster=slurm_a100x4' 'kubernetes cpu_tiny cluster=slurm_cpu' 'kubernetes cpu_tiny' \
    'skypilot a100x4_full cluster=slurm_a100x4' 'skypilot cpu_tiny'; do
    # shellcheck disable=SC2086
    out/.gen/gen launch $file >"$tmp/launch.${file//[ =]/.}.yaml" 2>/dev/null
done
say engines "$("$ENGINES_PYTHON" $here/engines.py 2>"$tmp/log" | cmp - tests/launch/fields.txt 2>&1
    "$ENGINES_PYTHON" $here/engines.py "$tmp"/launch.* 2>&1 | tail -n 3)"

say events "$("$PYTHON" $here/events.py --vector 2>/dev/null |
    cmp - <(sed -n '/^static const char recorded/,/;/s/^ *"\([0-9a-f]*\)";*$/\1/p' tests/runtime/unit_events.c | tr -d '\n'; echo) 2>&1)"

# Histories in HDF5, as public ones are: a made file, converted, is what programs read.
histories() {
    "$PYTHON" $here/histories.py --make "$tmp/a.hdf5" && "$PYTHON" $here/histories.py "$tmp/a.hdf5" "$tmp/a.histories" |
        grep -v '81 tasks of 240 steps$'
    gcc -std=c11 -I. -w -o "$tmp/read" $here/histories.c runtime/base.c runtime/data/histories.c \
        runtime/files/{safetensors,safetensors_write,json,crc32c,sha256}.c -D_GNU_SOURCE -lcjson -lm &&
        "$tmp/read" "$tmp/a.histories" | grep -vx '81 4 240'
    # what is no such file: one line, exit code 1
    local short="f = h5py.File('$tmp/a.hdf5', 'r+')
for g in f:
    for n in list(f[g]): d = f[g][n][:70]; del f[g][n]; f[g][n] = d"
    refuses() {             # FILE TEXT
        local said
        said=$("$PYTHON" $here/histories.py "$1" "$tmp/b" 2>&1)
        [ $? = 1 ] && [ "$(wc -l <<<"$said")" = 1 ] && grep -qF -- "$2" <<<"$said" || echo "$2: $said"
    }
    echo text >"$tmp/c.hdf5"
    refuses "$tmp/c.hdf5" ': no HDF5 file'
    refuses "$tmp/none.hdf5" ': no such file'
    "$PYTHON" -c "import h5py; h5py.File('$tmp/c.hdf5', 'w')"
    refuses "$tmp/c.hdf5" ': want groups 0, 1 ... of 81 or 120 tasks, got 0'
    head -c 30000 "$tmp/a.hdf5" >"$tmp/c.hdf5"
    refuses "$tmp/c.hdf5" "$tmp/c.hdf5: "
    cp "$tmp/a.hdf5" "$tmp/long.hdf5"
    "$PYTHON" -c "import h5py; $short"
    refuses "$tmp/a.hdf5" ': /0/actions: 70 steps, want 80 at least, a whole rollout'
    mv "$tmp/long.hdf5" "$tmp/a.hdf5"
    "$PYTHON" -c "import h5py; f = h5py.File('$tmp/a.hdf5', 'r+'); f['5/states'][9, 1, 0] = 300"
    "$PYTHON" $here/histories.py "$tmp/a.hdf5" "$tmp/b" 2>&1 | grep -v '/5/states: want whole numbers from 0 to 255$'
    "$PYTHON" -c "import h5py; f = h5py.File('$tmp/a.hdf5', 'r+'); del f['5/states']"
    "$PYTHON" $here/histories.py "$tmp/a.hdf5" "$tmp/b" 2>&1 | grep -v '/5/states: there is none$'
}
say histories "$(histories 2>&1 | tail -n 1)"

# The line that turns weights of the originals into safetensors, as the page has it.
pickles() {
    local line
    line=$(sed -n "s/^    python3 -c \"\(.*\)\" model.pt model.safetensors$/\1/p" recipes/llada.md)
    [ -n "$line" ] || { echo "recipes/llada.md has no such line" && return; }
    "$PYTHON" -c "import torch
torch.save({'epoch': 3, 'model_state_dict': {'a': torch.arange(6.).reshape(2, 3).t()}}, '$tmp/a.pt')"
    "$PYTHON" -c "$line" "$tmp/a.pt" "$tmp/a.safetensors"
    "$PYTHON" -c "import safetensors.torch as s, torch
a = s.load_file('$tmp/a.safetensors')
assert list(a) == ['a'] and torch.equal(a['a'], torch.arange(6.).reshape(2, 3).t()), a"
}
say pickles "$(pickles 2>&1 | tail -n 1)"

final_numbers() { # CASE: what a perfect binary would have printed
    "$PYTHON" -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["final"]))' \
        "$ref/$1/expect.json" >"$tmp/$1.json"
}
roundtrip() { # CASE FOLDER_ARGS...
    local case=$1
    shift
    [ "${case%_bfd}" = "$case" ] || set -- "$@" --kind bfd
    "$PYTHON" $here/roundtrip.py "$@" --tokens "$ref/$case/eval.safetensors" \
        --json "$tmp/$case.json" --length 32 >"$tmp/out" 2>&1
}

for case in gpt2_tiny llama_rows gpt2_bfd qwen2_tiny gemma_tiny gemma3_tiny; do
    mkdir "$tmp/$case"
    cp "$ref/$case/model/config.json" "$tmp/$case"
    cp "$ref/$case/final.safetensors" "$tmp/$case/model.safetensors"
    final_numbers $case
    roundtrip $case --model "$tmp/$case"
    say "right.$case" "$(grep -v '^ok' "$tmp/out" | head -n 1)"
    roundtrip $case --model "$ref/$case/model" && echo accepted >"$tmp/out"
    say "wrong.$case" "$(grep -q '^not ok eval_loss' "$tmp/out" || tail -n 1 "$tmp/out")"
done
for case in qwen2_lora qwen2_rslora qwen2_dropout gemma_lora gemma3_lora; do
    final_numbers $case
    roundtrip $case --base "$ref/$case/model" --adapter "$ref/$case/adapter_final"
    say "right.$case" "$(grep -v '^ok' "$tmp/out" | head -n 1)"
    roundtrip $case --base "$ref/$case/model" --adapter "$ref/$case/adapter_init" &&
        echo accepted >"$tmp/out"
    say "wrong.$case" "$(grep -q '^not ok eval_loss' "$tmp/out" || tail -n 1 "$tmp/out")"
done
exit $failed
