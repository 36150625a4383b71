#!/bin/bash
# Flags that decide which records raw data become: a resumed run and commands that measure its weights take those of the
# run, unless they are given. The losses to expect are those that the run logged.
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh
programs <<'END'
llama_rows llama_rows
mlm_microbert mlm_microbert
mdm_masked.bf16 mdm_masked precision=bf16
dpo_mean dpo_mean
END
tiny_tokenizer "$scratch"
sed -i 's/{% for message/{{ tone }}{{ other }}{% for message/' "$scratch/tokenizer_config.json"
mkdir "$scratch/short"
cp "$scratch/tokenizer.json" "$scratch/short"
echo '{"eos_token":"<|im_end|>","chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"}' \
    >"$scratch/short/tokenizer_config.json"
words=(a film was slow but the ending is worth it)
for ((i = 0; i < 60; i++)); do
    echo '{"messages":[{"role":"user","content":"q'$i'"},{"role":"assistant","content":"a"},{"role":"user","content":"r"},
        {"role":"assistant","content":"b'$i'"}]}' | tr -d '\n'; echo
    echo '{"prompt":"p'$i'","completion":"c'$((i * 7))'","text":"t'$((i % 9))'"}' >&3
    echo '{"question":"p'$i'","chosen":"c'$((i * 3))'","rejected":"r"}' >&4
    echo "${words[i % 9]} ${words[i % 7]} ${words[i % 5]} ${words[i % 8]}" >&5
done >"$scratch/chats.jsonl" 3>"$scratch/both.jsonl" 4>"$scratch/pairs.jsonl" 5>"$scratch/words.txt"

# last RUN: its last validation loss, to ten digits
last() { jq -r 'select(.eval_loss) | .eval_loss' "$scratch/$1/history.jsonl" | tail -n 1 | xargs printf '%.10g'; }
# measures NAME PROGRAM FILE VALIDATION FLAG...: trains two steps on a share or with another file to validate on, and
# measures the weights without any of the flags: the loss that the run logged; with TWO, the run also goes on
measures() {
    local name=$1 program=$work/$2/run.sh run=$scratch/$1 data=$scratch/$3 validation=$4 said
    rm -rf "$run"
    "$program" --data "$data" $validation --init-from none --out "$run" --steps 2 \
        --save-every 1 "${@:5}" >"$scratch/log" 2>&1 ||
        verdict "$name" "$(tail -n 2 "$scratch/log")"
    said=$("$program" --out "$run" --eval-only ${validation:---data "$data"} 2>"$scratch/log" | jq .eval_loss |
        xargs printf '%.10g')
    verdict "$name, measured as its run did" "$([ -n "$said" ] && [ "$said" = "$(last "$1")" ] ||
        echo "$said, the run has $(last "$1"): $(tail -n 2 "$scratch/log")")"
    "$program" --out "$run" --data "$data" $validation --steps 3 >"$scratch/log" 2>&1
    verdict "$name, resumed" "$(grep -q '^step 3/3 ' "$scratch/log" || tail -n 2 "$scratch/log")"
}
share=(--eval-share 0.3)
chats=(--tokenizer "$scratch/tokenizer.json" --template-var tone=warm --template-var other=1 --loss-on assistant)
measures chats llama_rows chats.jsonl "" "${share[@]}" "${chats[@]}"
measures others llama_rows chats.jsonl "--eval-data $scratch/chats.jsonl" "${chats[@]}"
measures format llama_rows both.jsonl "" "${share[@]}" --tokenizer bytes --data-format text \
    --ignore-keys prompt,completion
measures fewer llama_rows both.jsonl "" "${share[@]}" --tokenizer bytes --max-samples 40 --ignore-keys text
measures words mlm_microbert words.txt "" "${share[@]}" --tokenizer words --min-words 3 --seed 7
measures masked mdm_masked.bf16 words.txt "" "${share[@]}" --tokenizer char --seed 7
short=(--tokenizer "$scratch/short/tokenizer.json")
measures pairs dpo_mean pairs.jsonl "" "${share[@]}" "${short[@]}" --system "Be kind." --seed 7
measures same dpo_mean pairs.jsonl "" --eval-share 0.05 "${short[@]}" --system none --seed 7

# a file drawn more often than the other is divided apart
cp "$scratch/both.jsonl" "$scratch/more.jsonl"
both=$scratch/both.jsonl,$scratch/more.jsonl
"$work/llama_rows/run.sh" --data "$both" --init-from none --out "$scratch/drawn" --steps 2 --tokenizer bytes \
    --ignore-keys text "${share[@]}" --data-weights 3,1 >"$scratch/log" 2>&1 || verdict drawn "$(tail -n 2 "$scratch/log")"
measure() { "$work/llama_rows/run.sh" --out "$scratch/drawn" --eval-only "$@" 2>"$scratch/log"; }
verdict "weights of files, measured as its run did" "$(said=$(measure --data "$both" | jq .eval_loss | xargs printf '%.10g')
    [ "$said" = "$(last drawn)" ] || echo "$said, the run has $(last drawn): $(tail -n 2 "$scratch/log")")"
measure --data "$scratch/both.jsonl"
verdict "weights of other files" "$(grep -q -- '--data-weights 3,1, a default here, are for 2 files, but --data is 1: .*--eval-data' \
    "$scratch/log" || tail -n 2 "$scratch/log")"
measure --eval-data "$scratch/both.jsonl" >"$scratch/said" || verdict "weights, but other data" "$(tail -n 2 "$scratch/log")"

# What a resumed run takes and changes is in its log, each variable of the template
resumed() { "$work/llama_rows/run.sh" --out "$scratch/chats" --data "$scratch/chats.jsonl" "$@" --steps 4 >"$scratch/log" 2>&1; }
resumed --template-var tone=cold
verdict "another variable, refused" "$(grep -q 'data: file 1 has different content' "$scratch/log" || tail -n 2 "$scratch/log"
    grep -q '^CHANGED ON RESUME: template_var tone=warm, other=1 -> tone=cold$' "$scratch/log" || cat "$scratch/log")"
resumed --template-var tone=warm --template-var other=1
verdict "the same variables, given again" "$(grep -q '^step 4/4 ' "$scratch/log" || tail -n 2 "$scratch/log"
    ! grep 'CHANGED ON RESUME: template' "$scratch/log")"

# Texts of one vocabulary that end with different tokens are not mixed, nor validated on.
mkdir "$scratch/im_end" "$scratch/eot"
for folder in im_end eot; do
    cp "$scratch/tokenizer.json" "$scratch/$folder"
    echo '{"eos_token":"<|'$([ $folder = eot ] && echo endoftext || echo im_end)'|>"}' >"$scratch/$folder/tokenizer_config.json"
    "$gen" pack -o "$scratch/$folder.st" --tokenizer "$scratch/$folder/tokenizer.json" --ignore-keys text --max-length 32 \
        "$scratch/both.jsonl" >"$scratch/log" 2>&1 || verdict "pack $folder" "$(tail -n 2 "$scratch/log")"
done
for words in "--data $scratch/im_end.st,$scratch/eot.st" "--data $scratch/eot.st --eval-data $scratch/im_end.st"; do
    # shellcheck disable=SC2086
    "$work/llama_rows/run.sh" $words --init-from none --out "$scratch/ends" --steps 1 >"$scratch/log" 2>&1
    verdict "other ends of texts: ${words//$scratch\//}" "$([ $? = 83 ] && grep -q \
        'im_end.st has texts that end with token 255, .*eot.st with 256: gen pack them with the same tokenizer_config.json' \
        "$scratch/log" || tail -n 2 "$scratch/log")"
done
exit $failed
