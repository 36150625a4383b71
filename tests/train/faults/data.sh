# shellcheck shell=bash disable=SC2086,SC2154
# data.sh -- raw data, shares of several files, sample rows (--show). Sourced by faults.sh.

# ---- raw data --------------------------------------------------

# They are packed once, by rank 0, and train as what gen pack makes of them; a run goes on on either.
head -c 4000 README.md >"$scratch/raw/b.txt"
tail -c 3000 README.md >"$scratch/raw/c.txt"
rm "$scratch/raw/a.jsonl"
"$gen" pack -o "$scratch/raw.safetensors" "$scratch/raw" >/dev/null
packs() {               # PROGRAM RUN DATA ARGS...: two steps
    local program=$1 run=$2
    shift 2
    "$work/$program/run.sh" --out "$scratch/$run" --tokenizer bytes --save-every 0 --log-every 1 --steps 2 --data "$@" \
        >"$scratch/$run.log" 2>&1 || verdict "$run trains" "exit $?: $(tail -n 1 "$scratch/$run.log")"
}
said() { verdict "$1" "$(grep -q -- "$3" "$scratch/$2.log" || echo "no '$3' in: $(head -n 5 "$scratch/$2.log")")"; }
cached() { verdict "$1" "$([ "$(ls "$scratch/$2/.dataset_cache" | wc -l)" = "$3" ] ||
    ls -A "$scratch/$2/.dataset_cache")"; }
for program in gpt2_tiny gpt2_tiny.2x2x2; do
    packs $program raw.1 "$scratch/raw"
    said "raw data are packed, $program" raw.1 "^data: $scratch/raw.1/.dataset_cache/[0-9a-f]*/records.safetensors: packed, 2 documents, 7002 tokens"
    packs $program raw.2 "$scratch/raw.safetensors" --num-workers 2 --streaming false
    compare "raw and packed data, $program" history "$scratch/raw.1" "$scratch/raw.2" 0
    packs $program raw.1 "$scratch/raw" --steps 3
    said "packed once, $program" raw.1 "^data: --data was packed before: $scratch/raw.1/.dataset_cache/"
    said "it resumes, $program" raw.1 "^resumed from $scratch/raw.1/checkpoint-2"
    cached "nothing else is in the cache, $program" raw.1 1
    packs $program raw.2 "$scratch/raw/b.txt,$scratch/raw/c.txt" --steps 3
    said "a run goes on on raw data, $program" raw.2 "^resumed from $scratch/raw.2/checkpoint-2"
    rm -rf "$scratch"/raw.[12]
done
packs gpt2_tiny raw.3 - --eval-share 0.25 --max-samples 12 <"$scratch/raw/b.txt"
said "standard input" raw.3 "^data: .*: packed, 1 document, 4001 tokens"
said "the last of the first samples validate" raw.3 "^  data       9 samples of "
said "and only those" raw.3 "^  [a-z]*  *3 samples of .* batches a rank"
packs gpt2_tiny raw.4 "$scratch/raw/b.txt" --out "$scratch/raw.3" --bench-steps 1 --max-samples 12
said "the same text by name" raw.4 "was packed before"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore-keys tools
said "a key that is left out" raw.5 "^data: .*: packed, 1 document, 4001 tokens"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore_keys=tools --steps 3
said "a key that was left out" raw.5 "was packed before"
said "a run goes on without it" raw.5 "^resumed from $scratch/raw.5/checkpoint-2"
# The name of the cache of a release in which answers began at other tokens, with a file that nobody can read.
mv "$scratch"/raw.5/.dataset_cache/*-2 "$scratch/raw.5/other"
: >"$scratch/raw.5/other/records.safetensors"
mv "$scratch/raw.5/other" "$(sed -n 's/^data: --data was packed before: \(.*\)-2.records.safetensors.*/\1/p' "$scratch/raw.5.log")"
packs gpt2_tiny raw.5 "$scratch/keys.jsonl" --ignore_keys=tools --steps 4
said "rows packed by other rules" raw.5 "^data: $scratch/raw.5/.dataset_cache/[0-9a-f]*: packed by another release, .*; packed again$"
said "a run goes on on rows that were packed again" raw.5 "^resumed from $scratch/raw.5/checkpoint-3"
"$work/gpt2_tiny/run.sh" --out "$scratch/raw.5" --tokenizer bytes --data "$scratch/keys.jsonl" --steps 4 \
    --ignore_keys id >"$scratch/raw.5.log" 2>&1
verdict "packed rows do not hide a key" "$([ $? = 88 ] && grep -q -- "--steps 4 --ignore-keys id,tools" \
    "$scratch/raw.5.log" || tail -n 3 "$scratch/raw.5.log")"
printf '{"text":"%s"}\n{"text":7}\n' "$(head -c 4000 /dev/zero | tr '\0' a)" >"$scratch/bad.jsonl"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip-bad 2
said "a malformed row" raw.6 "^data: .*: packed, 1 document, 4001 tokens, all targets, 1 malformed;"
said "a malformed row is listed" raw.6 "^  $scratch/bad.jsonl:2: text: must be a string"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip_bad=2 --steps 3
said "a malformed row is packed once" raw.6 "was packed before"
said "a row that was left out before" raw.6 "^malformed rows left out: 1 (file:line 1:2)"
packs gpt2_tiny raw.6 "$scratch/bad.jsonl" --skip-bad 3 --steps 4
said "another --skip-bad packs again" raw.6 "^data: .*: packed, 1 document"
said "a run goes on without the same rows" raw.6 "^resumed from $scratch/raw.6/checkpoint-3"
"$work/gpt2_tiny/run.sh" --out "$scratch/raw.6" --tokenizer bytes --data "$scratch/bad.jsonl" --steps 5 \
    --skip-bad 0 >"$scratch/raw.6.log" 2>&1
verdict "packed rows do not hide a malformed one" "$([ $? = 88 ] && grep -q -- "--data: $scratch/bad.jsonl:2: text: must" \
    "$scratch/raw.6.log" || tail -n 3 "$scratch/raw.6.log")"
refuses "--skip-bad of a record file" 80 "--skip-bad: .*tokens.safetensors is packed, already without the rows that" gpt2_tiny \
    $ours --skip-bad 1
echo more >>"$scratch/raw/b.txt"
packs gpt2_tiny raw.4 "$scratch/raw/b.txt" --out "$scratch/raw.3" --bench-steps 1
cached "other text, another file" raw.3 2
# Files next to tokenizer.json name the special tokens: with another eos_token the same text gives other records, on
# which a run does not go on by itself.
. tests/tiny_tokenizer.sh
mkdir "$scratch/raw.special"
tiny_tokenizer "$scratch/raw.special"
special="$scratch/raw --tokenizer $scratch/raw.special/tokenizer.json"
packs gpt2_tiny raw.7 $special
cp -r "$scratch/raw.7" "$scratch/raw.8"
sed -i 's/"eos_token":"<|im_end|>"/"eos_token":"<|endoftext|>"/' "$scratch/raw.special/tokenizer_config.json"
refuses "a run goes on with another eos_token" 83 \
    "data: ids of eos, mask, pad and bos 255,-1,-1,-1 -> 256,-1,-1,-1; --allow" gpt2_tiny --data $special --out "$scratch/raw.8" --steps 3
packs gpt2_tiny raw.7 $special --force
said "another eos_token packs again" raw.7 "was packed before the tokenizer's special tokens changed; packed again$"
packs gpt2_tiny raw.9 $special
verdict "records have the eos_token of today" "$(cmp "$scratch"/raw.{7,9}/.dataset_cache/*/records.safetensors 2>&1)"
packs gpt2_tiny raw.9 $special --steps 3
said "the same eos_token" raw.9 "was packed before: "
rm -rf "$scratch"/raw*

# ---- shares of several files --------------------------------------------------

both=$ref/$case/tokens.safetensors,$ref/$case/eval.safetensors
shares() { refuses "shares: $1" 80 "$2" gpt2_tiny --init-from $ref/$case/model "${@:3}"; }
shares "a number is missing" "--data-weights 1: must be 2 numbers, one per file of --data, got 1" --data "$both" \
    --data-weights 1
shares "one file" "--data-weights 1: --data is one file, .*tokens.safetensors: leave them out" $ours --data-weights 1
shares "no file" "--data-weights applies to the files of --data, which is missing" --data-weights 1,2 \
    --eval-only --eval-data "$both"
for bad in -1 nan inf 0x1 '' x; do
    shares "'$bad'" "--data-weights 1,$bad: must be numbers from 0, separated by commas, got \"$bad\"" --data "$both" \
        --data-weights "1,$bad"
done
shares "nothing" "--data-weights 0,0: their sum is 0, must be above 0" --data "$both" --data-weights 0,0
shares "the first samples" "--max-samples counts samples over all files" --data "$both" \
    --data-weights 1,2 --max-samples 9
refuses "shares: less than a sample" 88 "tokens.safetensors: its --data-weights, 1e-09, gives less than one of the" \
    gpt2_tiny \
    --init-from $ref/$case/model --data "$both" --data-weights 1e-9,1
mixed() {               # PROGRAM RUN ARGS...
    local program=$1 run=$2
    shift 2
    "$work/$program/run.sh" --init-from $ref/$case/model --out "$scratch/$run" --data "$both" --steps 8 --log-every 1 \
        --save-every 4 "$@" >"$scratch/$run.log" 2>&1
}
mixed gpt2_tiny mixed --data-weights 3,1
mixed gpt2_tiny.2x2x2 mixed.2 --data-weights 0.75,0.25
compare "shares on two ranks" history "$scratch/mixed" "$scratch/mixed.2" 1e-5
DIECAST_FAULT=kill9:rank=0:step=7 mixed gpt2_tiny mixed.killed --data-weights 3,1
mixed gpt2_tiny mixed.killed
verdict "shares are kept" "$(grep -q 'resumed from .*checkpoint-4$' "$scratch/mixed.killed.log" &&
    grep -q '"drawn_1": 4[0-9], "drawn_2": 1[0-9], .*"step": 8' "$scratch/mixed.killed/history.jsonl" ||
    tail -n 2 "$scratch/mixed.killed.log" "$scratch/mixed.killed/history.jsonl")"
same "shares, resumed" mixed mixed.killed 8
mixed gpt2_tiny mixed --data-weights 1,1 --steps 10
verdict "other shares on resume" "$(grep -q 'CHANGED ON RESUME: data_weights 3,1 -> 1,1' "$scratch/mixed.log" &&
    grep -q '^rank .*checkpoint-8: data: samples drawn from each file [0-9,]* -> [0-9,]*; --allow-inexact' \
        "$scratch/mixed.log" || tail -n 3 "$scratch/mixed.log")"
verdict "shares are said" "$(grep -q '^  source 2   .*eval.safetensors: weight 1, [0-9]* samples per epoch, drawn from' \
    "$scratch/mixed.killed.log" || head -n 14 "$scratch/mixed.killed.log")"
head -c 4000 README.md >"$scratch/b.txt"
tail -c 3000 README.md >"$scratch/c.txt"
both="$scratch/b.txt,$scratch/c.txt" mixed gpt2_tiny mixed.raw --init-from none --tokenizer bytes --data-weights 1,2 \
    --steps 1 --eval-share 0.25
verdict "shares of raw files, each divided" "$(grep -q '^  source 2   .*c.txt: weight 2, ' "$scratch/mixed.raw.log" &&
    [ "$(ls "$scratch/mixed.raw/.dataset_cache" | wc -l)" = 2 ] || tail -n 4 "$scratch/mixed.raw.log")"
rm -rf "$scratch"/mixed* "$scratch"/[bc].txt

# ---- rows for people --------------------------------------------------

shows() {               # NAME PROGRAM ARGS...: standard input is what it prints
    local name=$1 program=$2
    shift 2
    "$work/$program/train" --tokenizer bytes --out "$scratch/shown" "$@" >"$scratch/rows" 2>"$scratch/said"
    verdict "--show: $name" "$([ $? = 0 ] || tail -n 1 "$scratch/said"; diff - "$scratch/rows")"
}
printf 'the quick brown fox jumps over the dogs' >"$scratch/text"
printf '%s\n' '{"prompt":"2+2=","completion":"4"}' '{"prompt":"q","completion":"\u00e9\n"}' >"$scratch/rows.jsonl"
shows "a window of text, the token after it" gpt2_tiny --data "$scratch/text" --show 1 <<'END'
step 1 micro-batch 1 row 1: sample 0, 33 tokens, 32 targets
     116 "t"
  *  104 "h"  101 "e"  32 " "  113 "q"  117 "u"  105 "i"  99 "c"  107 "k"  32 " "  98 "b"  114 "r"
  *  111 "o"  119 "w"  110 "n"  32 " "  102 "f"  111 "o"  120 "x"  32 " "  106 "j"  117 "u"  109 "m"
  *  112 "p"  115 "s"  32 " "  111 "o"  118 "v"  101 "e"  114 "r"  32 " "  116 "t"  104 "h"
END
for program in llama_rows few; do    # the head sees all rows, or those of targets
    shows "prompts and padding, $program" $program --data "$scratch/rows.jsonl" --show 2 <<'END'
step 1 micro-batch 1 row 1: sample 1, 5 tokens, 4 targets
     113 "q"
  *  195 "\xc3"  169 "\xa9"  10 "\n"  256 "<|endoftext|>"
     and 27 of padding
step 1 micro-batch 1 row 2: sample 0, 6 tokens, 2 targets
     50 "2"  43 "+"  50 "2"  61 "="
  *  52 "4"  256 "<|endoftext|>"
     and 26 of padding
END
done
refuses "--show of nothing" 80 "--show needs --data FILE" gpt2_tiny --show 2
refuses "--show with another use" 80 "--show and --dry-run: give one\|--dry-run and --show: give one" gpt2_tiny $ours \
    --show 2 --dry-run
rm -rf "$scratch"/{shown,text,rows,rows.jsonl}
