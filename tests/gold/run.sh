#!/bin/bash
# Recipes in, text out: bad recipes with their exact messages, good ones with their values.
# UPDATE=1 rewrites bad/*.err and the texts of ir.sh; review the diff.
# cost: 67
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/sources.sh
. tests/compare.sh
. tests/verdict.sh
GEN=${GEN:-out/.gen/gen}
HERE=tests/gold
B=out/.test/gold
mkdir -p "$B/cov"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
values() { sed -n 's/  # .*//; /^[a-z].* = /p' "$1"; }      # a Config's text without places

# The two rooms alone, built to count which lines ran.
ROOMS="util quote source recipe_name renamed recipe tables environment override config fields config_text config_rules kept objective target cards cluster family alias"
CFLAGS="-std=c11 -O0 -g -Wall -Wextra -I. -I/usr/include/lua5.4"
for f in $ROOMS; do
    source=$(sources gen "$f")
    # shellcheck disable=SC2086      # one path and a blank
    if [ ! "$B/cov/$f.o" -nt $source ] || [ -n "$(find gen runtime/run/flags.def runtime/objectives runtime/model/families.def runtime/files/aliases.def runtime/files/names.h -newer "$B/cov/$f.o" \
         \( -name '*.def' -o -name '*.h' \))" ]; then
        gcc $CFLAGS --coverage -c $source -o "$B/cov/$f.o" || exit 1
    fi
done
# the rules of objectives are theirs, in the graph room
others=$(cd out/.obj && find gen runtime -name '*.o' ! -path gen/main.o | while read -r o; do
    case " $ROOMS " in *" $(basename "$o" .o) "*) [[ $o != gen/* ]] || continue ;; esac
    [ ! -f "../../${o%.o}.c" ] || echo "out/.obj/$o"
done)
LIBS="-llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm"
gcc $CFLAGS --coverage -o "$B/driver" $HERE/driver.c $(printf "$B/cov/%s.o " $ROOMS) $others $LIBS || exit 1
rm -f "$B"/cov/*.gcda
check "layout of the sources" "" "$(tests/lint.sh layout 2>&1 | head -n 5)"
# what wrote nothing is not the same as what wrote nothing
mkdir "$T/none"
: >"$T/none/file"
check "cmp of two empty files" "2 both are empty: $T/none/file $T/none/file" "$(
    said=$(cmp "$T/none/file" "$T/none/file"); echo "$? $said")"
check "diff of two empty outputs" 1 "$(diff <(true) <(true) | grep -c '^both are empty: ')"
check "diff of two folders of empty files" "both are empty: $T/none $T/none" "$(diff -r "$T/none" "$T/none")"
check "diff of a missing file" "diff: $T/none/x: No such file or directory" "$(true | diff - "$T/none/x")"
check "diff of the same text" "0 " "$(said=$(echo a | diff - <(echo a)); echo "$? $said")"
check "scripts that compare take both from compare.sh" "" "$(grep -lE '(\$\(|[|;&] *)(cmp|diff) ' -r tests --include='*.sh' |
    xargs grep -l '^#!' | xargs grep -LE '^(\.|source) .*/(compare|lib|common)\.sh')"
check "ok, not_ok and verdict of scripts come from verdict.sh" tests/verdict.sh \
    "$(grep -lE '^(ok|not_ok|verdict|verdict_of)\(\)' -r tests --include='*.sh')"
[ -x "$GEN" ] || { not_ok gen "$GEN is not built"; exit 1; }

# ---- bad recipes: exact message, exit code 1, nothing on stdout
for lua in $HERE/bad/*.lua; do
    name=${lua##*/} name=${name%.lua} args=
    read -r first <"$lua"
    [[ $first != '-- args: '* ]] || args=${first#-- args: }
    case "$args" in *-d*) room=;; *) room="-d config";; esac
    # shellcheck disable=SC2086
    "$GEN" "$lua" $room $args >"$T/out" 2>"$T/err"
    rc=$?
    # what ran; but of what is stopped by the system nothing would be told
    [ -n "$room" ] && [ $name != cpu_pattern ] && "$B/driver" config "$lua" $args >/dev/null 2>&1
    [ "${UPDATE:-0}" = 1 ] && cp "$T/err" "${lua%.lua}.err"
    if [ $rc -ne 1 ]; then not_ok "bad/$name" "exit code $rc"
    elif [ -s "$T/out" ]; then not_ok "bad/$name" "printed $(head -1 "$T/out")"
    elif ! cmp -s "$T/err" "${lua%.lua}.err"; then
        not_ok "bad/$name" "$(diff "${lua%.lua}.err" "$T/err" | head -3 | tr '\n' ' ')"
    else ok "bad/$name"; fi
done

# ---- names of earlier releases: each is known, and a recipe with old ones is the same one, with a line about them
check renamed/known "" "$(sed -n 's/^RENAMED("\([^"]*\)", "\([^"]*\)")$/\1 \2/p' runtime/files/aliases.def |
    while read -r before now; do
        shown=${now/./\\.}
        "$GEN" explain "$before" 2>"$T/err" | grep -q "^\(--\)\?${shown/-/_}[: ]" || echo "$before: no field $now"
        grep -qx "gen: renamed: $before is now $now" "$T/err" || echo "$before: said '$(cat "$T/err")'"
    done)"
cat >"$T/renamed.lua" <<'END'
local base = extend(use "dreamprm_tiny", { prm = { hypergradient = "dot" } })
return extend(base, {
    prm = { hyper = "fd" },
})
END
of_today() { "$GEN" -d config "$T/renamed.lua" "$@" 2>&1 | grep -e hyper | sed "s,$T/,,"; }
check renamed/recipe 'gen: renamed: prm.hyper is now prm.hypergradient
prm.hypergradient = "fd"  # renamed.lua:3' "$(of_today)"
check renamed/word 'gen: renamed: prm.hyper is now prm.hypergradient
prm.hypergradient = "dot"  # command line' "$(of_today prm.hyper=dot)"
# r of another file, whose fields are set and read by names of earlier releases
cat >"$T/new_base.lua" <<'END'
return extend(use "dreamprm_tiny", { prm = { hypergradient = "dot" } })
END
cat >"$T/old_base.lua" <<'END'
local r = use "dreamprm_tiny"
r.prm = { hyper = "dot" }
return r
END
of_lines() {            # FIELD LINES BASE: the notes and the field, of LINES after `local r = use BASE`
    printf 'local r = use "%s"\n%breturn r\n' "$3" "$2" >"$T/of_lines.lua"
    "$GEN" -d config "$T/of_lines.lua" 2>&1 | sed -n "s,$T/,,; /^gen: /p; /^$1 = /p; /^[a-z_]*\.lua:/p"
}
check renamed/group 'gen: renamed: mdm.mask is now diffusion.mask
diffusion.mask = 5  # of_lines.lua:2' "$(of_lines diffusion.mask 'r.mdm.mask = 5\n' llada_tiny)"
check renamed/over-new 'gen: renamed: prm.hyper is now prm.hypergradient
prm.hypergradient = "fd"  # of_lines.lua:2' "$(of_lines prm.hypergradient 'r.prm.hyper = "fd"\n' new_base)"
check renamed/over-old 'gen: renamed: prm.hyper is now prm.hypergradient
prm.hypergradient = "fd"  # of_lines.lua:2' "$(of_lines prm.hypergradient 'r.prm.hypergradient = "fd"\n' old_base)"
check renamed/read 'gen: renamed: prm.hyper is now prm.hypergradient
name = "dot"  # of_lines.lua:2' "$(of_lines name 'r.name = r.prm.hyper\n' new_base)"
check renamed/read-group 'gen: renamed: mdm.block is now diffusion.block, mdm is now diffusion
name = "8"  # of_lines.lua:3' "$(of_lines name 'r.diffusion = { block = 8 }\nr.name = "" .. r.mdm.block\n' llada_tiny)"
check renamed/list "gen: renamed: prm.hyper is now prm.hypergradient dreamprm_tiny" \
    "$("$GEN" list recipes prm.hyper=dot model.hidden=64 2>&1 | grep -oE '^gen.*|[a-z_]+tiny\.lua' | sed 's/\.lua//' | paste -sd' ')"

# The hash of a recipe is the one that it had before the rename: its locks and files stay its own.
check renamed/hash "24549cf483bd4ee5" \
    "$("$GEN" -d config recipes/dreamprm_tiny.lua | sed -n 's/^# config  hash \(.\{16\}\).*/\1/p')"

# ---- another objective: what is lm's alone is refused and not asked for
mkdir -p "$T/other/runtime/objectives"
cat >"$T/other/runtime/objectives/other.def" <<'END'
OBJECTIVE(other, "of these tests", "rows", causal_lm, rows, score)
DEFAULT(other, lr, "0.001")
DEFAULT(other, keep_best, "true")
END
(cat runtime/objectives/all.def; echo '#include "runtime/objectives/other.def"') >"$T/other/runtime/objectives/all.def"
objects=$(printf "$B/cov/%s.o " $ROOMS)
printf '%s\n' '#include "gen/graph/objectives.h"' 'const ObjectiveParts other_parts;' >"$T/other/other.c"
# shellcheck disable=SC2086
others=$(printf '%s\n' $others | grep -vx -e out/.obj/gen/graph/objectives.o -e out/.obj/runtime/objectives/owners.o)
# shellcheck disable=SC2086
gcc -I"$T/other" $CFLAGS --coverage -o "$T/other/driver" $HERE/driver.c gen/config/objective.c gen/graph/objectives.c \
    runtime/objectives/owners.c "$T/other/other.c" ${objects/"$B/cov/objective.o"/} $others $LIBS || exit 1
cat >"$T/other.lua" <<'END'
return { objective = "other", target = "cpu", seq = { max = 8 }, batch = { micro = 1 }, data = { kind = "rows" },
         model = { family = "gpt2", layers = 1, hidden = 8, heads = 2 } }
END
other() { "$T/other/driver" config "$T/other.lua" "$@" 2>&1 | sed 's,^gen: ,,'; }
other >"$T/other.config"
check objective/without-vocabulary "0 1" "$(grep -c 'model.vocab' "$T/other.config") $(
    grep -c '^objective = "other"' "$T/other.config")"
check objective/text-reads-back "" "$("$T/other/driver" parse "$T/other.config" | diff - "$T/other.config" | head -3)"
mkdir "$T/marked"
{ printf '\xef\xbb\xbf'; cat "$T/other.lua"; } >"$T/marked/other.lua"
check objective/byte-order-mark "$(values "$T/other.config")" "$("$T/other/driver" config "$T/marked/other.lua" 2>&1 |
    sed -n 's/  # .*//; /^[a-z].* = /p')"
check objective/defaults 'run.lr = 0.001 run.keep_best = true' "$(grep '^run' "$T/other.config" | paste -sd' ')"
check objective/recipe-first 'run.lr = 0.5 run.keep_best = true' "$(other run.lr=0.5 | grep '^run' | paste -sd' ')"
check objective/flag "run.top_p: only for programs whose objective is lm|dpo; this one's is other: leave it out" \
    "$(other run.top_p=0.5)"
check objective/field "model.vocab: only for recipes whose objective is lm|mlm|masked_diffusion|dpo|prm; this one's is other: leave it out" \
    "$(other model.vocab=257)"
check objective/records "data.kind: objective=other trains on rows, got \"packed\" (objective=lm trains on packed)" "$(other data.kind=packed)"
check objective/choices "objective: must be one of lm, mlm, masked_diffusion, dpo, prm, ad, ppo, other, got \"none\"" "$(other objective=none | head -1)"

# ---- an upper level: v in the place of the gradients, what samples' losses change along it
levels() {                                    # ROOM FIELD=VALUE ...
    local room=$1
    shift
    out/.gen/gen -d "$room" recipes/dreamprm_tiny.lua "$@" >"$T/levels" 2>&1 || tail -1 "$T/levels"
}
in_program() { sed -n "/^program $1 /,/^program/p" "$T/levels" | grep -c "$2"; }
schedule_of() { sed -n "s/^schedule $1 *\\(.*\\)  \"an.*/\\1/p" "$T/levels"; }
levels graph
check levels/products "clear \$meta_stats, meta_micro, tangent, clear \$jvp, jvp, weigh, reduce_meta, update_meta\
  -> \$meta_stats, \$total_norm.meta" "$(schedule_of meta)"
check levels/no_gradient "0 10" "$(in_program jvp '^ *\$grad') $(in_program jvp ' = jvp_dot ')"
levels part prm.hypergradient=fd prm.weights=net batch.accum=2 gpus=2
check levels/differences "clear \$meta_stats, begin, meta_micro * 2, tangent, clear \$jvp, forth, jvp * 2, back,\
 jvp * 2, restore, begin_meta, weigh * 2, reduce_meta, update_meta  -> \$meta_stats, \$total_norm.meta" \
    "$(schedule_of meta)"
check levels/kept "13 13 13 13 0" "$(in_program forth ' = keep ') $(in_program forth ' = shift ') \
$(in_program back ' = shift ') $(in_program restore ' = keep ') $(in_program back ' = keep ')"
check levels/whole "1 1 0" "$(in_program tangent ' = allreduce ') $(in_program reduce_meta ' = allreduce ') \
$(in_program jvp ' = allreduce ')"
check levels/places "\$jvp shard \$tangent rep" "$(awk '$2 == "$jvp" || $2 == "$tangent" {
    print $2, / shard 0/ ? "shard" : "rep" }' "$T/levels" | LC_ALL=C sort | paste -sd' ')"
check levels/16_bit 'gen: prm.hypergradient: "fd" moves parameters by about 1e-6, too little for the 16-bit copies that matrix
products read; try prm.hypergradient = "dot", or precision = "fp32"' \
    "$(levels graph precision=bf16 prm.hypergradient=fd | sed 's/ matrix products/ matrix\nproducts/')"
check levels/no_mark 'gen: prm.mark: must be a token, such as "<extra_0>", got none: scores are read at it' \
    "$(levels graph prm.mark=)"
check levels/one_domain 'gen: prm.domains: the weight of a domain is relative to the mean of all domains, so that of a
single domain is always 1; set 2 or more, or prm.weights = "none"' \
    "$(levels graph prm.weights=domain prm.domains=1 | sed 's/ single domain/\nsingle domain/')"
check levels/plan "2" "$(out/.gen/gen plan recipes/dreamprm_tiny.lua |
    grep -c '^  schedule [a-z]* *holds .*iB that no other reads; of the memory shared over time it uses')"

# ---- the command line
cli() {                                       # name, message, words
    local name=$1 want=$2
    shift 2
    check "cli/$name" "$want" "$("$GEN" "$@" 2>&1 >/dev/null | head -1; exit "${PIPESTATUS[0]}")"
    "$GEN" "$@" >/dev/null 2>&1
    check "cli/$name-exit" 1 $?
}
R=recipes/cpu_tiny.lua
P=recipes/darkroom_ppo.lua
cli whole_room $P':5: -d plan: the objective ppo trains no model of layers, so there is no such text; use -d recipe or -d config' -d plan $P
cli whole_tune "$P:5: the objective ppo has no matrix products or kernels to measure" tune $P
check whole/check "$P: target cpu has no CUDA kernels" "$("$GEN" check $P)"
check whole/plan 3 "$("$GEN" plan $P | grep -c -e '81 of darkroom' -e ' 52000 updates by 40 ' -e ' 4212000 updates, of ')"
cli no_file "gen: nothing.lua: no such file, and recipes/ has no nothing.lua; gen list prints all recipes" nothing.lua
cli no_settings "gen: nothing.yml: no such file; gen list prints all recipes" nothing.yml
cli near_file "gen: recipe/cpu_tniy.lua: no such file, and recipes/ has no cpu_tniy.lua; did you mean cpu_tiny?" recipe/cpu_tniy.lua
cli near_name "gen: a100x4_ful: neither a command nor a recipe (NAME.lua); did you mean a100x4_full?" a100x4_ful
cli hub "gen: Qwen/Qwen2.5-7B: no such file; if it is a model of the Hugging Face hub, download it (hf download Qwen/Qwen2.5-7B --local-dir DIR); gen new FILE.lua --from DIR writes a recipe for it, gen plan DIR shows what fits" Qwen/Qwen2.5-7B
mkdir -p "$T/model" "$T/adapter" "$T/emitted"
echo '{}' | tee "$T/model/config.json" "$T/adapter/adapter_config.json" > "$T/emitted/manifest.json"
cli model_folder "gen: $T/model is a model's folder, not a recipe: gen new FILE.lua --from $T/model writes one, gen plan $T/model shows what fits" "$T/model"
echo '{"model_type": "x"}' > "$T/model/config.json"
cli model_config "gen: $T/model/config.json: is a file of a model's folder, not a recipe: gen new FILE.lua --from $T/model writes one" "$T/model/config.json"
cli adapter_folder "gen: $T/adapter is an adapter's folder, not a recipe: gen new FILE.lua --from BASE writes one for the model below it; the program takes the adapter: --adapter $T/adapter" "$T/adapter"
cli emitted_folder "gen: $T/emitted is a folder that gen wrote: the head of its train.c has the recipe and the words that made it" "$T/emitted"
cli folder "gen: cannot read recipes/: Is a directory" recipes/
cli command "gen: pln: neither a command nor a recipe (NAME.lua); did you mean plan?" pln
cli command_far "gen: zzzzzzzz: neither a command nor a recipe (NAME.lua); \`gen --help\` lists the commands" zzzzzzzz
cli flag "gen: --learning_rate is a flag of the training program: out/NAME/run.sh --lr 1e-4; its default, here: run.lr=1e-4" $R --learning_rate 1e-4
cli flag_only "gen: --resume is a flag of the training program: out/NAME/run.sh --resume VALUE" $R --resume
cli tiny "gen: run.lr: must be a number from 0 to 1000, got \"1e-400\"" $R run.lr=1e-400
cli field "gen: --batch.micro: fields are words without --: batch.micro=4" $R --batch.micro=4
cli field_foreign "gen: --lora_r: here it is the word lora.rank=8" $R --lora_r 8
cli field_noted "gen: --nproc_per_node: here it is the word gpus=4 (of a node; gpus counts the ranks of all nodes)" $R --nproc_per_node 4
cli field_off "gen: --fp16: leave it out; here it is precision (on GPUs)" $R --fp16=false
cli field_value "gen: --finetuning_type: here it is the word lora.rank=0 (the rank; 0 trains all weights)" $R \
    --finetuning_type full
cli field_open "gen: --finetuning_type: here it is the word lora.rank=N (the rank; 0 trains all weights)" $R \
    --finetuning_type lora
cli word_value "gen: apply_lora_to_mlp: unknown key; here it is the word lora.targets=gate_proj,up_proj,down_proj (or by\
 name: gate_proj, up_proj, down_proj)" $R apply_lora_to_mlp=true
cli word_flag "gen: save_strategy: unknown key; here it is the word run.save_every=epoch (epoch, or in steps, 0: only after\
 the last)" $R save_strategy=epoch
cli word_foreign "gen: mixed_precision: unknown key; here it is the word precision=no" plan $R mixed_precision=no
cli word_noted "gen: nproc_per_node: unknown key; here it is the word gpus=4 (of a node; gpus counts the ranks of all nodes)" $R nproc_per_node=4
cli word_run "gen: learning_rate: unknown key; here it is the word run.lr=1e-4" $R learning_rate=1e-4
cli word_unknown_target "gen: target: sm_75 is not supported: GPUs from Ampere on (sm_80); gen list names the targets" plan recipes/h200x1_qwen2.5_7b_full.lua target=sm_75
cli word_card 'gen: target: "h100-nvl" is a card: use card = "h100-nvl", which sets target sm_90 and memory.limit_gib = 93 (NVIDIA H100 NVL, 94 GB)' plan recipes/h200x1_qwen2.5_7b_full.lua target=h100-nvl
cli nothing_like_it "gen: --use_dora: not supported: adapters are LoRA, or lora.rslora" $R --use_dora
cli option "gen: unknown option --zzzz; gen --help lists them" $R --zzzz
cli room "gen: -d grpah: no such room; did you mean graph?" -d grpah $R
cli room_far "gen: -d zzzzzzzz: no such room; use recipe, config, graph, fuse, part or plan" -d zzzzzzzz $R
cli room_without "gen: -d: needs a room after it" $R -d
cli out_without "gen: -o: needs a folder after it" $R -o
cli option_elsewhere "gen: -o is not an option of this command; \`gen --help\` lists its commands" plan $R -o x
cli blanks "gen: batch.micro =: write it without blanks: batch.micro=16" $R batch.micro = 16
cli blank "gen: batch.micro =16: write it without blanks: batch.micro=16" $R batch.micro =16
cli two "gen: recipes/cpu_tiny_llama.lua: takes one recipe, and field=value words; $R is the recipe" $R recipes/cpu_tiny_llama.lua
cli none "gen: name a recipe, for example recipes/cpu_tiny.lua; \`gen list\` shows them" plan
cli explain "gen: no field lora.rnak; did you mean \"lora.rank\"?; \`gen fields\` lists them" explain lora.rnak
cli explain_foreign "gen: no field hiden_size; did you mean \"hidden_size\"?; \`gen fields\` lists them" explain hiden_size
cli explain_none "gen: explain: takes one field, for example: gen explain lora.rank" explain
cli fields "gen: fields: takes no words, got x; one field: gen explain x" fields x
cli list "gen: list: no section famlies; did you mean families?" list famlies
cli list_far "gen: list: no section zzzzzzzzzzzz; use recipes, models, families, chats, objectives, targets, cards or clusters" list zzzzzzzzzzzz
cli list_two "gen: list: takes one section at most, and FIELD=VALUE words; got cards as well" list chats cards
cli help_none "gen writes the source of one training program from a recipe."
cli info_none "gen: name a recipe, for example recipes/cpu_tiny.lua; \`gen list\` shows them" info
"$GEN" info mlm_h200_8gpu_fast gpus=4 batch.accum=2 >"$T/info" 2>/dev/null
for line in '^mlm_h200_8gpu_fast: MLM over words' '^  model      microbert, 4 layers of 8, 4 heads, vocabulary 10,005$' \
    '^  parameters 174,613, 174,613 of them trained$' '^  ranks      4 of sm_90 (.*), bf16$' \
    '^  batch      64 x 2 accumulated x 4 ranks = 512 samples a step, of 128 tokens' \
    '^  samples    the first 500,000 of --data, 0.1 of them' '^  length     3 epochs, 2,637 updates at most, 879 an epoch$' \
    '^  rate       5e-05 (linear, warm-up 0.1), weight decay 0.01' '^  device     [0-9.]* MiB a rank, of 77.5 GiB$' \
    '^  gen recipes/mlm_h200_8gpu_fast.lua gpus=4 batch.accum=2 && make -C out/mlm_h200_8gpu_fast$' \
    '^  gen recipes/mlm_h200_8gpu_fast.lua batch.accum=2 gpus=N '; do
    check "info: $line" 1 "$(grep -c -- "$line" "$T/info")"
done
head -c 2000000 /dev/zero | tr '\0' ' ' > "$T/large.lua"
cli large "gen: cannot read $T/large.lua: File too large" "$T/large.lua"

# ---- values
for want in $HERE/good/*.config; do
    name=$(basename "$want" .config)
    "$B/driver" config "${want%.config}.lua" >"$T/$name" 2>"$T/err" || not_ok "good/$name" "$(head -1 "$T/err")"
    check "good/$name" "" "$(values "$T/$name" | grep -vxFf - "$want" | head -1)"
done
check every_field "" "$(grep '# default' "$T/every_field" | head -1)"
for recipe in recipes/*.lua $HERE/good/*.lua tests/train/recipes/*.lua; do
    [ "$recipe" != tests/train/recipes/base.lua ] || continue      # a part of the others
    name=$(basename "$recipe" .lua)
    if ! "$B/driver" config "$recipe" >"$T/a" 2>"$T/err"; then
        not_ok "config/$name" "$(head -1 "$T/err")"
        continue
    fi
    "$B/driver" parse "$T/a" >"$T/b" 2>&1
    check "roundtrip/$name" "" "$(diff "$T/a" "$T/b" | head -3)"
    "$GEN" --roundtrip "$recipe" >"$T/b" 2>&1
    code=$? rooms=5
    grep -q '^objective = "ppo"' "$T/a" && rooms=1          # no model: its program stands whole in a template
    check "rooms/$name" "0 $rooms" "$code $(grep -c '^same: ' "$T/b")"
    # Emitted twice, in folders of different depth: the same bytes. Of each objective one or more; FULL=1:
    # all. Random recipes are emitted twice in tests/rooms.
    rm -rf "$T/e"
    "$GEN" "$recipe" -o "$T/e/1" >"$T/b" 2>&1
    check "emit/$name" 0 $?
    [[ ! $recipe =~ ^recipes/(.*tiny|mlm_1gpu|darkroom) && -z ${FULL:-} ]] || check "emit/$name again" "0 " \
        "$("$GEN" "$recipe" -o "$T/e/a/b/2" >"$T/b" 2>&1; echo $?) $(diff -r "$T/e/1" "$T/e/a/b/2" 2>&1 | head -3)"
    check "columns/$name" "" "$(awk 'length > 100 { print FILENAME ":" FNR; exit }' "$T"/e/1/*.{c,cu,h} 2>&1 |
        grep -v 'No such')"
    # Witness for the places: the line that is named holds the last part of the field's name.
    check "places/$name" "" "$(sed -n 's/^\([a-z_0-9.]*\) = .*  # \([^ ]*\):\([0-9]*\)$/\1 \2 \3/p' "$T/a" | awk '
        {
            word = $1
            sub(/.*[.]/, "", word)
            if (!read[$2]++) while ((getline line < $2) > 0) text[$2, ++lines[$2]] = line
            if (text[$2, $3] !~ "(^|[^A-Za-z0-9_])" word "([^A-Za-z0-9_]|$)") print $1 " " $2 ":" $3
        }')"
done

# ---- texts of a recipe in C: any bytes, as they are
system=$'tab\tline\ndelete\1771 quote" back\\slash what??/ \xc3\xa9'
if "$GEN" recipes/dreamprm_tiny.lua "prm.system=$system" -o "$T/text" >"$T/b" 2>&1; then
    { printf '#include <stdio.h>\nint main(void)\n{\n    fputs('
        sed -n '/^ *\.system = /,/};/p' "$T/text/solutions.c" | sed 's/^ *\.system = //; s/};$/, stdout);\n}/'
    } | gcc -std=c11 -Wall -Wextra -Werror -x c -o "$T/say" - 2>"$T/b" && "$T/say" >"$T/b"
fi
check text/prm.system "$system" "$(cat "$T/b")"

# ---- process reward models: a body without its head over tokens, a score head of two layers, perhaps a row more;
# adapters; what records count is none of the model's
parameters() { "$GEN" info "$@" 2>&1 | sed -n 's/^  parameters //p'; }
check parameters/dreamprm_tiny "95,490, 95,490 of them trained" "$(parameters recipes/dreamprm_tiny.lua)"
check parameters/dreamprm_tiny_lora "111,874, 16,384 of them trained" \
    "$(parameters recipes/dreamprm_tiny.lua lora.rank=8 lora.targets=all-linear)"
check parameters/dreamprm_full "7,083,474,946, 7,083,474,946 of them trained" "$(parameters recipes/dreamprm_full.lua)"
check parameters/dreamprm "7,123,845,122, 40,370,176 of them trained" "$(parameters recipes/dreamprm.lua)"
head=$((4096 * 4096 + 4096 + 2 * 4096 + 2))
check parameters/dreamprm_llama2_7b "$((6624137218 + 39976960 + 4096)) $((39976960 + head + 4096))" \
    "$(parameters recipes/dreamprm_llama2_7b.lua | tr -d , | awk '{ print $1, $2 }')"

# ---- algorithm distillation: parameters by hand of the layers' sizes; what cannot be together
ad() { parameters recipes/ad_tiny.lua "$@" | sed 's/, [0-9,]* of them trained//'; }
wide="model.hidden=64 model.layers=4"
check parameters/ad "36,456 36,197 222,024 221,509 211,269 33,896 1,245,064" \
    "$(echo $(ad; ad ad.context=plain; ad $wide; ad $wide ad.context=plain; ad $wide ad.context=plain ad.n_transit=80
    ad ad.n_transit=160; ad model.hidden=128 model.layers=6 model.heads=8 ad.n_transit=328))"
for case in "ad.ragged=true|ad.ragged: only for ad.context = \"plain\"; leave it out" \
    "ad.context=plain ad.region=40|ad.region: only for ad.context = \"compressed\"; leave it out" \
    "ad.context=plain ad.queries=all ad.ragged=true|ad.ragged: has no effect while ad.queries is \"all\", whose contexts have all lengths; leave it out" \
    "ad.queries=all ad.n_transit=160|ad.n_transit: 160 positions would cut regions, of which every position is a query: two regions of 80 and their marks have up to 164; try ad.n_transit = 164, or ad.queries = \"one\"" \
    "ad.region=1 ad.boundary=last|ad.region: with 1 step and ad.boundary = \"last\" there is no action to learn: nothing would be trained; try ad.region = 2 or more, or ad.boundary = \"next\"" \
    "seq.max=164|seq.max: ad.context, ad.n_transit, ad.region and ad.queries set the sequence length; leave it out" \
    "lora.rank=4|lora.rank: the objective ad trains all weights, without adapters; leave it out"; do
    check "ad/refused ${case%%|*}" "gen: ${case#*|}" "$("$GEN" -d graph recipes/ad_tiny.lua ${case%%|*} 2>&1 >/dev/null)"
done
lengths() { "$GEN" -d graph recipes/ad_tiny.lua "$@" | awk '$1 == "size" && $2 ~ /^(T|N|TA)$/ { printf "%s ", $3 }'; }
check ad/lengths "164 16 240 163 16 240 150 16 150 244 1296 240 242 1280 240 479 3840 240 " \
    "$(lengths; lengths ad.boundary=last; lengths ad.n_transit=150; lengths ad.queries=all
    lengths ad.queries=all ad.boundary=last; lengths ad.queries=all ad.context=plain)"

# ---- models: the number of weights as the model cards and transformers give it
weights() { values "$1" | awk -F' = ' '{ v[$1] = $2 } END {
    L = v["model.layers"]; C = v["model.hidden"]; F = v["model.ffn"]; V = v["model.vocab"]
    q = v["model.heads"] * v["model.head_dim"]; k = v["model.kv_heads"] * v["model.head_dim"]
    if (v["model.family"] == "\"gpt2\"")
        n = V*C + v["model.positions"]*C + L*(4*C*C + 4*C + 2*C*F + F + C + 4*C) + 2*C
    else
        n = V*C*(v["model.tied"] == "true" ? 1 : 2) + L*(2*C*q + 2*C*k + 3*C*F + 2*C) + C \
            + (v["model.family"] == "\"qwen2\"" ? L*(q + 2*k) : 0)
    printf "%.0f", n }'; }
while read -r model count; do
    printf 'return { target = "cpu", model = use "models/%s", seq = { max = 128 }, batch = { micro = 1 } }\n' \
        "$model" > "$T/m.lua"
    "$B/driver" config "$T/m.lua" >"$T/m" 2>&1
    check "models/$model" "$count" "$(weights "$T/m")"
done <<END
gpt2_124m 124439808
gpt2_355m 354823168
gpt2_774m 774030080
gpt2_1558m 1557611200
llama2_7b 6738415616
llama3.1_8b 8030261248
qwen2.5_0.5b 494032768
qwen2.5_1.5b 1543714304
qwen2.5_7b 7615616512
END

# ---- overrides and identity
conf() { "$B/driver" config "$@" 2>&1; }
hash_of() { conf "$@" | sed -n '1s/.*hash \([0-9a-f]*\).*/\1/p'; }
L=recipes/cpu_tiny_lora.lua
conf $L lora.targets=c_attn,c_fc batch.micro=3 name=123 run.lr=2e-3 ranks=2 > "$T/a"
check override/list 'lora.targets = {"c_attn", "c_fc"}  # command line' "$(grep ^lora.targets "$T/a")"
check override/int 'batch.micro = 3  # command line' "$(grep ^batch.micro "$T/a")"
check override/digits 'name = "123"  # command line' "$(grep ^name "$T/a")"
check override/flag 'run.lr = 0.002' "$(grep ^run.lr "$T/a")"
check override/alias 'gpus = 2  # command line' "$(grep ^gpus "$T/a")"
check override/left_out 'gpus = 1' "$(conf recipes/cpu_x2_full.lua gpus= memory.zero= | grep -o '^gpus = 1')"
check override/left_out_flag "" "$(conf $R run.lr=2e-3 run.lr= | grep '^run.lr ')"
check override/over_ranks 'gpus = 3  # command line' "$(conf recipes/cpu_x2_full.lua ranks=3 | grep ^gpus)"
h=$(hash_of $R)
conf $R | values /dev/stdin >"$T/as_is"
check hash/length 64 ${#h}
check hash/name "$h" "$(hash_of $R name=x about=y)"
sed 's/^return/local twice = 2\n\n\nreturn/; s/micro = 8/micro = 4 * twice/' $R > "$T/moved.lua"
check hash/lines "$h" "$(hash_of "$T/moved.lua")"
sed -n 's/^FIELD([a-z_]*, "\([a-z_.]*\)", INT, .*/\1/p' gen/config/fields.def runtime/objectives/*.def | while read -r field; do
    case $field in model.heads|model.kv_heads|model.head_dim) continue;; esac
    a=$(conf $R "$field=64" | values /dev/stdin | grep "^$field") b=$(grep "^$field" "$T/as_is")
    x=$(hash_of $R "$field=64")
    [ -z "$x" ] || [ "$a" = "$b" ] || [ "$x" != "$h" ] || echo "$field"
done > "$T/same"
check hash/fields "" "$(cat "$T/same")"
for i in 1 2 3; do
    TZ=UTC+$i LC_ALL=$([ $i = 2 ] && echo de_DE.UTF-8 || echo C) "$GEN" -d recipe $HERE/good/every_field.lua
done | sort | uniq -c | awk '$1 % 3 { print }' | head -1 > "$T/order"
check same_every_run "" "$(cat "$T/order")"

# ---- the text of a Config that was damaged
conf $R > "$T/good.txt"
damage() {                                    # name, sed script, message with LINE for the changed line
    sed "$2" "$T/good.txt" > "$T/bad.txt"
    local line
    line=$(cmp "$T/good.txt" "$T/bad.txt" 2>&1 | sed -n 's/.* line //p')
    check "text/$1" "${3/LINE/$line}" "$("$B/driver" parse "$T/bad.txt" 2>&1 >/dev/null | sed "s|$T/||" | head -1)"
}
damage int 's/^gpus = 1/gpus = x/' 'bad.txt:LINE: gpus: expected an integer, got x  # default recipes/cpu_tiny.lua:2'
damage range 's/^gpus = 1/gpus = 0/' 'bad.txt:LINE: gpus: must be an integer from 1 to 65536, got 0'
damage choice 's/"fp32"/"fp33"/' 'bad.txt:LINE: precision: no such choice: "fp33"'
damage string 's/"fp32"/"fp32/' 'bad.txt:LINE: precision: expected a closing quote, got "fp32  # recipes/cpu_tiny.lua:5'
damage list 's/{}/{"a" "b"}/' 'bad.txt:LINE: lora.targets: expected a comma and a blank between items, got {"a" "b"}  # default recipes/cpu_tiny.lua:2'
damage bool 's/rslora = false/rslora = no/' 'bad.txt:LINE: lora.rslora: expected true or false, got no  # default recipes/cpu_tiny.lua:2'
damage number 's/^lora.alpha = 0.0/lora.alpha = inf/' 'bad.txt:LINE: lora.alpha: expected a number, got inf  # default recipes/cpu_tiny.lua:2'
damage place 's/# recipes.cpu_tiny.lua:5/# x/' 'bad.txt:LINE: expected # FILE:LINE, # default FILE:LINE or # command line, got # x'
damage field 's/^gpus/gpu/' 'bad.txt:LINE: gpu: no such field'
damage line 's/^gpus = 1.*/gpus/' 'bad.txt:LINE: expected field = value  # place, got gpus'
damage missing '/^gpus/d' "bad.txt:$(($(wc -l < "$T/good.txt") - 1)): gpus: missing"
damage head '1d' 'bad.txt:1: expected # config  hash H  recipe PATH'
damage flag 's/^run.lr/run.rl/' 'bad.txt:LINE: run.rl: no such flag'
damage flag_value 's/^run.lr = 0.003/run.lr = x/' 'bad.txt:LINE: run.lr: expected a number, got x'
damage escape 's/"gpt2"/"gp\\q"/' 'bad.txt:LINE: model.family: expected one of \" \\ \ddd after a backslash, got "gp\q"  # recipes/models/tiny_gpt2.lua:3'

# ---- the reference has every field and every flag of a recipe
"$GEN" fields > "$T/fields"
field_rows() { cat gen/config/fields.def runtime/objectives/*.def; }
field_rows | sed -n 's/^FIELD([a-z_]*, "\([a-z_.]*\)".*/\1/p' > "$T/names"
sed -n 's/^FLAG(\([a-z_0-9]*\),.*/\1/p' runtime/run/flags.def runtime/objectives/*.def > "$T/flags"
check fields/count "$(field_rows | grep -c '^FIELD(')" "$(wc -l < "$T/names")"
check fields/all "" "$(while read -r f; do grep -q "^$f: " "$T/fields" || echo "$f"; done < "$T/names")"
check fields/explain "" "$(while read -r f; do "$GEN" explain "$f" | grep -q "^$f: " || echo "$f"; done < "$T/names")"
check fields/id "" "$(field_rows | sed -n 's/^FIELD(\([a-z_]*\), "\([a-z_.]*\)".*/\1 \2/p' | tr . _ | awk '$1 != $2')"
check explain/group "$(grep -c '^lora[.]' "$T/names")" "$("$GEN" explain lora | grep -c '^lora[.]')"
check explain/run "$(grep -c '^run[.]' "$T/fields")" "$("$GEN" explain run | grep -c '^run[.]')"
check explain/flag "--resume" "$("$GEN" explain --resume | cut -d' ' -f1)"
check explain/foreign "hidden_size: here it is model.hidden|model.hidden: an integer from 1 to 65536; required" \
    "$("$GEN" explain hidden-size | head -2 | tr '\n' '|' | sed 's/|$//')"

# ---- names of other trainers: ours exist, the words that they lead to are taken
sed -n 's/^\(ALIAS\|LINE\)("[^"]*", "\([a-z_0-9.]*\)".*/\2/p' runtime/files/aliases.def | sort -u > "$T/ours"
check foreign/flags "" "$(grep -vxFf "$T/flags" "$T/ours" | head -1)"
sed -n 's/^RECIPE("[^"]*", "\([a-z_0-9.]*\)", "\([^"]*\)".*/\1=\2/p' runtime/files/aliases.def | sort -u > "$T/typed"
sed -n 's/^\(WHEN\|IMPLIED\)("[^"]*", "[^"]*", "\([a-z_0-9.]\+\)", "+\?\([^?"][^"]*\)".*/\2=\3/p' runtime/files/aliases.def |
    awk -F= 'NR == FNR { flag[$1] = 1; next } { print ($1 in flag ? "run." : "") $0 }' "$T/flags" - | sort -u >> "$T/typed"
sed -n 's/^WORD("\([a-z_.]*\)", "\([^"]*\)".*/\1=\2/p' runtime/files/aliases.def \
    | sed 's/^\(schedule\|resume\|steps\|data_format\|tensorboard\)=/run.&/' | grep -v '^run.resume\|^export_dtype' >> "$T/typed"
check foreign/typed "" "$(while read -r word; do
    "$B/driver" config $R "$word" 2>&1 >/dev/null | grep -E ': (want|unknown|no such)' | head -1; done < "$T/typed")"
sed -n 's/^\(ALIAS\|LINE\|RECIPE\|MEANS\|SAY\|NONE\|ALWAYS\)("\([^"]*\)".*/\2/p' runtime/files/aliases.def > "$T/theirs"
# what the guides of the five systems are told by: names of theirs that are no flags of ours
for name in num_gpus nnodes node_rank master_addr master_port use_lora no_lora lora_r lora_alpha lora_dropout batch_size \
    gradient_accumulation_steps precision total_steps model_name train_json_file meta_json_file max_length \
    resume_from use_ddp num_processes nproc_per_node gpu_ids mixed_precision \
    train_batch_size test_batch_size tf_n_embd tf_n_layer tf_n_head n_transit ckpt_dir \
    num_machines machine_rank main_process_ip main_process_port data_dir learning_rate save_dir fp16 no_fp16 \
    deterministic batch_size_per_gpu max_grad_norm dataset \
    merge; do
    grep -qx "$name" "$T/theirs" || echo "$name"
done > "$T/missing"
check foreign/guides "" "$(cat "$T/missing")"
check foreign/explained "" "$(xargs "$B/driver" explain < "$T/theirs" 2>&1 > "$T/said" || echo "of $(wc -l < "$T/theirs")")"

# ---- recipes by name, and settings files of other trainers
taken() {                                     # word, what stderr says; the Config is that of cpu_tiny
    check "find/$1" "${2:+gen: $1: $2; using recipes/cpu_tiny.lua}" "$("$GEN" -d config "$1" 2>&1 >"$T/a")"
    check "find/$1-text" "" "$("$GEN" -d config $R 2>&1 | diff - "$T/a" | head -1)"
}
taken recipe/cpu_tiny.lua "no such file"
taken recipes/cpu_tiny "no such file"
taken cpu_tiny ""
check find/elsewhere "recipe $PWD/$R" \
    "$(cd "$T" && "$OLDPWD/$GEN" -d config cpu_tiny 2>/dev/null | grep -o 'recipe .*' | head -1)"
for file in $HERE/foreign/*.yaml $HERE/foreign/*.json $HERE/foreign/*.toml; do
    "$GEN" "$file" >"$T/out" 2>"$T/err"
    rc=$?
    check "foreign/$(basename "$file")-exit" 1 $rc
    [ "${UPDATE:-0}" = 1 ] && cp "$T/err" "$file.err"
    check "foreign/$(basename "$file")" "" "$(diff "$file.err" "$T/err" | head -3)"
done

$HERE/settings.sh || failed=1

# ---- a memory limit holds for the target it was set with
H=recipes/h200x1_qwen2.5_7b_full.lua
limit() {                                     # name, Config line, line on stderr, words
    "$GEN" -d config "${@:4}" >"$T/a" 2>"$T/err"
    check "limit/$1" "$2" "$(grep '^memory.limit_gib' "$T/a" | sed 's/ *#.*//')"
    check "limit/$1-said" "$3" "$(cut -d'(' -f1 "$T/err")"
}
left="gen: memory.limit_gib = 139 was set for target sm_90 "
limit other "memory.limit_gib = 0.0" "$left" $H target=sm_80
limit same "memory.limit_gib = 139.0" "" $H target=sm_90
limit both "memory.limit_gib = 40.0" "" $H target=sm_80 memory.limit_gib=40
cat > "$T/limit.lua" <<'END'
local base = { target = "sm_90", memory = { limit_gib = 139 }, precision = "bf16",
               model = use "models/tiny_gpt2", seq = { max = 64 }, batch = { micro = 4 } }
return extend(base, { target = "sm_80", memory = { recompute = "block" } })
END
limit extend "memory.limit_gib = 0.0" "$left" "$T/limit.lua"
sed 's/"block"/"block", limit_gib = 40/' "$T/limit.lua" > "$T/beside.lua"
limit beside "memory.limit_gib = 40.0" "" "$T/beside.lua"
echo 'local r = use "h200x1_tiny"; r.target = "sm_80"; return r' > "$T/assigned.lua"
limit assigned "memory.limit_gib = 0.0" "$left" "$T/assigned.lua"
# a path that is listed works where it is listed, also through the link of make install
listed() { sed -n "s/^  \('.*\.lua'\|[^ ]*\.lua\)  .*/\1/p"; }
make -s install PREFIX="$T/pre fix" >/dev/null
check list/here "$(ls recipes/*.lua)" "$("$GEN" list | listed)"
check list/elsewhere "$(ls "$PWD"/recipes/*.lua)" "$(cd "$T" && "pre fix/bin/gen" list | listed | tr -d "'")"
check list/works "0 gen" "$(cd "$T" && eval "pre\ fix/bin/gen -d recipe $("pre fix/bin/gen" list | listed | head -1)" >/dev/null;
    echo "$? $(basename "pre fix/bin/gen")")"

# ---- recipes/README.md: every recipe
check readme/recipes "" "$(for r in recipes/*.lua; do
    name=$(basename "$r" .lua)
    grep -q "^| .*\`$name\`" recipes/README.md || echo "$name"
done)"

# ---- machines
. $HERE/clusters.sh

# ---- every place that blames the recipe has a case above: lines with err( that never ran
"$B/driver" config nothing.lua 2>/dev/null
"$B/driver" explain nothing 2>/dev/null
for f in source recipe renamed tables environment override config fields config_text config_rules cluster; do
    gcov -t -o "$B/cov/$f.o" "$(sources gen $f | tr -d " ")" 2>/dev/null \
        | awk -v f=$f -F: '/^ *#####:/ && /err\(|err_add\(|luaL_error\(/ { print f ".c:" $2 + 0 }'
done > "$T/unseen"
check every_error_has_a_case "" "$(tr '\n' ' ' < "$T/unseen")"

# ---- the rooms' texts and the emitted step; what the emitted folder holds already; hostile paths
$HERE/ir.sh || failed=1
$HERE/folder.sh || failed=1
# ---- numbers in calls have names
$HERE/arguments.sh || failed=1
# ---- the commands by their table
$HERE/commands.sh || failed=1
# ---- what recomputed blocks keep
$HERE/kept.sh || failed=1
# ---- recipes of model folders
$HERE/new.sh || failed=1

exit $failed
