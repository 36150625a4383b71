#!/bin/bash
# Prompts, one and many, from the command line, files and standard input; conversations, by a script and on a terminal.
# shellcheck disable=SC2086      # $tokenizer is two words
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh
programs <<'END'
llama_rows llama_rows
llama_rows.bf16 llama_rows precision=bf16 batch.texts=3
END
train=$work/llama_rows/train

# a model that has learned two answers by heart; its tokenizer has é as two tokens
tiny_tokenizer "$scratch"
sed -i 's/"~96":96,"~97":97/"Ã":96,"©":97/; s/,"~253":253//; s/<|im_start|>/[INST]/; s/<|im_end|>/<\/s>/; s/<|endoftext|>/<s>/' \
    "$scratch/tokenizer.json"
sed -i 's/"added_tokens":\[\({"id":254[^}]*}\)/"added_tokens":[\1,\1/; s/{"id":254,"content":"\[INST\]"/{"id":253,"content":"[\/INST]"/' \
    "$scratch/tokenizer.json"
echo '{"eos_token":"</s>","bos_token":"<s>"}' >"$scratch/tokenizer_config.json"
tokenizer="--tokenizer $scratch/tokenizer.json"
turn() { echo '{"role":"user","content":"'"$1"'"},{"role":"assistant","content":"'"$2"'"}'; }
for ((i = 0; i < 8; i++)); do
    echo '{"messages":['"$(turn a éé1)"']}'
    echo '{"messages":['"$(turn b zwei)"']}'
done >"$scratch/chat.jsonl"
"$gen" pack --tokenizer "$scratch/tokenizer.json" --chat mistral-v3-tekken --max-length 32 \
    -o "$scratch/chat.safetensors" \
    "$scratch/chat.jsonl" >"$scratch/log" 2>&1 || verdict "talk packs" "$(tail -n 2 "$scratch/log")"
"$train" --data "$scratch/chat.safetensors" --init-from none --out "$scratch/run" --steps 60 --lr 1e-2 --save-every 0 \
    >"$scratch/log" 2>&1 || verdict "talk trains" "$(tail -n 2 "$scratch/log")"
cp "$scratch/log" "$scratch/trained"
# says ARGS...: standard output, of the trained model; what it said in addition in $scratch/log
says() { timeout 60 "$train" --out "$scratch/run" $tokenizer --greedy "$@" 2>"$scratch/log"; }
# refused NAME CODE TEXT ARGS...: standard input is ours
refused() {
    local name=$1 want=$2 text=$3 code
    shift 3
    timeout 60 "$train" --init-from none --max-new-tokens 2 "$@" >"$scratch/said" 2>"$scratch/log"
    code=$?
    verdict "$name" "$([ $code = "$want" ] || echo "exit $code: $(tail -n 1 "$scratch/log")"
        grep -q -- "^\(rank\|train:\) .*$text" "$scratch/log" || tail -n 1 "$scratch/log"
        [ ! -s "$scratch/said" ] || cat "$scratch/said")"
}

# ---- prompts

printf '\xef\xbb\xbf[INST]a[/INST]\r\n\n  \n[INST]b[/INST]' >"$scratch/prompts.txt"
said=$(says --prompts "$scratch/prompts.txt" 2>&1)
verdict "lines of a file" "$(diff - <(echo "$said") <<'END'
{"prompt":"[INST]a[/INST]","answer":"éé1","prompt_tokens":3,"new_tokens":5,"end":"end"}
{"prompt":"[INST]b[/INST]","answer":"zwei","prompt_tokens":3,"new_tokens":4,"end":"end"}
END
)"
verdict "tokens a second" "$(grep -qE '^2 texts in [0-9.]+ s; 6 prompt tokens, [0-9.]+ a second; 9 new, [0-9.]+ a second$' \
    "$scratch/log" || cat "$scratch/log")"
# a file, standard input and the command line say the same; neighbours change nothing, and each line has its own draws
drawn="--temperature 1 --max-new-tokens 6"
verdict "the likeliest token alone" "$(diff <(says --sample abc --max-new-tokens 6) \
    <(says --greedy=false --sample abc $drawn --top-k 1) 2>&1)"
printf '{"prompt":"%s"}\n' one two three >"$scratch/three.jsonl"
three=$("$train" --out "$scratch/run" $tokenizer --prompts "$scratch/three.jsonl" $drawn 2>/dev/null)
verdict "texts by standard input" "$(diff <(echo "$three") <("$train" --out "$scratch/run" $tokenizer \
    --prompts - $drawn \
    <"$scratch/three.jsonl" 2>&1 | grep '^{'))"
verdict "texts by flags" "$(diff <(echo "$three") <("$train" --out "$scratch/run" $tokenizer --json --sample one \
    --sample two \
    --sample three $drawn 2>&1 | grep '^{'))"
verdict "other neighbours" "$(diff <(sed -n 3p <<<"$three") <("$train" --out "$scratch/run" $tokenizer \
    --json --sample a,b \
    --sample c --sample three $drawn 2>&1 | sed -n '/^{/p' | sed -n 3p))"
# side by side, four in fp32 and three in bf16: texts that begin and end at other times, and take the places of those
# that ended, each as if it were alone
letters=(a b)
for ((i = 1; i < 12; i++)); do
    echo "$(seq -s' ' $((i * 7 % 11)))[INST]${letters[i % 2]}[/INST]"
done >"$scratch/many.txt"
for name in llama_rows llama_rows.bf16; do
    alone() {
        "$work/$name/train" --init-from "$scratch/run/checkpoint-60" --out "$scratch/none" $tokenizer --greedy \
            --max-new-tokens $((1 + ${#1} % 5)) "${@:2}" 2>"$scratch/log"
    }
    beside() { alone "$@" --prompts "$scratch/many.txt"; }
    verdict "$name: with others as alone" "$(
        for line in 2 3 7 8; do
            text=$(sed -n ${line}p "$scratch/many.txt")
            diff <(alone "$text" --json --sample "$text") <(beside "$text" | sed -n ${line}p)
        done
        [ "$(beside "" | grep -c '"new_tokens":1,')" = 11 ] || { beside ""; tail -n 1 "$scratch/log"; })"
done
verdict "as they are" "$(printf '%s\n' '[INST]a[/INST]' '[INST]b[/INST]' | sed 's/\[.*\(.\)\[.*/\1/' >"$scratch/want"
    says --sample '[INST]a[/INST]' --sample '[INST]b[/INST]' | diff - <(printf 'aéé1\n\nbzwei\n'))"
echo '{"messages":[{"role":"user","content":"b"}]}' >"$scratch/messages.jsonl"
verdict "messages of a file" "$(says --prompts "$scratch/messages.jsonl" --chat-format mistral-v3-tekken |
    diff - <(echo '{"messages":[{"role":"user","content":"b"}],"answer":"zwei","prompt_tokens":4,"new_tokens":4,"end":"end"}'))"
refused "messages without a format" 80 "--prompts: messages need a tokenizer with chat tokens" \
    --prompts "$scratch/messages.jsonl"
refused "a file that is not there" 80 "--prompts: $scratch/none.txt: No such file" --prompts "$scratch/none.txt"
: >"$scratch/bad.txt"
refused "an empty file" 88 "bad.txt: no prompts" --prompts "$scratch/bad.txt"
printf '\xff\xfe[\0' >"$scratch/bad.txt"
refused "UTF-16" 88 "bad.txt: is UTF-16, must be UTF-8: iconv -f UTF-16 -t UTF-8 FILE" --prompts "$scratch/bad.txt"
refused "an empty standard input" 88 "standard input: no prompts" --prompts - </dev/null
head -c 1000000 /dev/zero | tr '\0' x >"$scratch/bad.txt"
refused "a line longer than the context" 88 "bad.txt:1: the text has 1000000 tokens; it must have 1 to 31" \
    --prompts "$scratch/bad.txt"
while IFS='|' read -r name text why; do
    printf "$text" >"$scratch/bad.jsonl"
    refused "a row: $name" 88 "bad.jsonl:$why" --prompts "$scratch/bad.jsonl"
done <<'END'
no key|{"prompt":"a"}\n{"text":"a"}|2: must be an object with either "prompt" or "messages"$
both keys|{"prompt":"a","messages":[]}|1: .*, got both
a number|{"prompt":1}|1: prompt: must be a text
no message|{"messages":[]}|1: messages: must be a list of
no object|\n["a"]|2: must be an object
not closed|{"prompt":"a"}\n{"prompt":"a"|2: byte
a system text|{"prompt":"a","system":"s"}|1: system: prompts do not have this key; --ignore-keys system leaves
an answer|{"prompt":"a","completion":"b"}|1: completion: prompts do not have this key; --ignore-keys completion
a variable|{"messages":[{"role":"user","content":"a"}],"think":false}|1: think: .*--template-var NAME=VALUE
bad UTF-8|{"prompt":"a\xff"}|1: byte 13 is not UTF-8
a NUL|{"prompt":"a"}\n\0|2: holds a NUL
END

# rows by the name of a file, in any case, else by how it begins; metadata and null are no keys; others can be left out
row='{"prompt":"[INST]a[/INST]","messages":null,"id":7}'
for name in rows.JSONL rows.json rows.ndjson rows; do
    echo "$row" >"$scratch/$name"
    verdict "rows: $name" "$(says --prompts "$scratch/$name" | grep -q '"prompt":"\[INST\]a\[/INST\]","answer":"éé1"' ||
        cat "$scratch/log")"
done
echo "$row" >"$scratch/rows.txt"
says --prompts "$scratch/rows.txt" >"$scratch/said" 2>&1
verdict "a text that looks like a row" "$(grep -q 'rows.txt:1: the text has 39 tokens' "$scratch/log" || cat "$scratch/log")"
echo '[{"prompt":"a"}]' >"$scratch/rows.json"
refused "a list" 88 "rows.json: is one list, --prompts takes a JSON object a line: jq -c '.\[\]' FILE" --prompts "$scratch/rows.json"
echo '{"prompt":"[INST]b[/INST]","system":"s"}' >"$scratch/bad.jsonl"
verdict "a key left out" "$(says --ignore-keys system --prompts "$scratch/bad.jsonl" | grep -q '"answer":"zwei"' || cat "$scratch/log")"
echo '{"messages":[{"role":"user","content":"b","images":["x.png"]}]}' >"$scratch/bad.jsonl"
refused "a key of a message" 88 "bad.jsonl:1: message 1: images: the chat format mistral-v3-tekken does not read this key" \
    --prompts "$scratch/bad.jsonl" --chat-format mistral-v3-tekken $tokenizer
refused "a format without messages" 80 "--chat-format has no effect: no prompt of --prompts has messages" \
    --prompts "$scratch/three.jsonl" --chat-format mistral-v3-tekken $tokenizer
refused "a variable without messages" 80 "--template-var has no effect: no prompt of --prompts has messages" \
    --prompts "$scratch/three.jsonl" --template-var x=1 $tokenizer

# ---- conversations

chat() { says --chat --chat-format mistral-v3-tekken "$@"; }
# the second question has the first's tokens in front, of which all but the last are known; the third does not fit
printf '\xef\xbb\xbfa\r\n\n/reset\nb\na\nb\nb\n' >"$scratch/turns"
said=$(chat --json --max-new-tokens 6 <"$scratch/turns")
verdict "a script of turns" "$(diff - <(sed 's/,"new.*//' <<<"$said" |
    sed '4d; s/"answer":"[^"]*","prompt_tokens":1/@1/') <<'END'
{"turn":1,"question":"a","answer":"éé1","prompt_tokens":4,"known_tokens":0
{"turn":2,"question":"b","answer":"zwei","prompt_tokens":4,"known_tokens":2
{"turn":3,"question":"a",@12,"known_tokens":8
{"turn":5,"question":"b","answer":"zwei","prompt_tokens":23,"known_tokens":2
END
    )"
verdict "the earliest goes" "$([ "$(grep -c 'room for 32 tokens: the earliest question and its answer are left out' \
    "$scratch/log")" = 1 ] &&
    grep -q '^a new conversation$' "$scratch/log" && grep -q '^5 answers; [0-9]* prompt tokens' "$scratch/log" ||
    cat "$scratch/log")"
verdict "an answer is cut" "$(says --chat --chat-format mistral-v3-tekken --max-new-tokens 2 <<<a | diff - <(echo é)
    grep -q 'cut after 2 tokens: --max-new-tokens' "$scratch/log" || cat "$scratch/log")"
verdict "what the context cuts" "$(says --chat --chat-format mistral-v3-tekken --temperature 1000 \
    --greedy=false <<<aaaaaaaaaaaaaaaaaaaaaa >"$scratch/said"
    grep -q 'room for 32 tokens: the answer is cut' "$scratch/log" || cat "$scratch/log")"
verdict "a system message" "$(chat --json --chat-system S <<<'//b' |
    sed 's/,"answer.*tokens":\([0-9]*\),"known.*/ \1/' |
    diff - <(echo '{"turn":1,"question":"/b" 8'))"
while IFS='|' read -r name text why; do
    printf "$text\n" >"$scratch/turns"
    refused "a turn: $name" 88 "--chat: line $why" --chat --chat-format mistral-v3-tekken $tokenizer <"$scratch/turns"
done <<'END'
no command|/rest|1: /rest: unknown, commands are /help, /reset, /exit;
bad UTF-8|\n\xff|2: byte 1 is not UTF-8
a NUL|a\0b|1: holds a NUL
longer than the context|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|1: the question has 35 tokens with its format; this program has room for 32
END
refused "a format that is none" 80 "--chat-format: must be one of chatml, .* got mistral-v3-teken: did you mean mistral-v3-tekken?" --chat \
    --chat-format mistral-v3-teken
refused "a system message without a place" 80 "--chat-system: the chat format mistral-0.2 has no system messages" \
    --chat --chat-system x \
    $tokenizer --chat-format mistral-0.2
refused "--json alone" 80 "--json: has no effect without --sample or --chat or --version$" --json
refused "a chat and a sample" 80 "--sample and --chat: give one of them" --chat --sample a

# by the chat_template that the training data were packed with, wherever the weights are; it ends answers with another
# token than texts
mkdir "$scratch/own"
cp "$scratch/tokenizer.json" "$scratch/tokenizer_config.json" "$scratch/own"
cat >"$scratch/own/chat_template.jinja" <<'END'
{%- if tools %}{{ '[INST]' + tools[0].function.name + '[/INST]' }}{% endif %}
{%- for m in messages %}
    {%- if m.role == 'assistant' %}{{ m.content + '<s>' }}{% else %}{{ '[INST]' + m.content + '[/INST]' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt and brief is defined %}{{ brief }}{% endif %}
END
tool='"tools":[{"type":"function","function":{"name":"f"}}]'
{ cat "$scratch/chat.jsonl"
  for ((i = 0; i < 8; i++)); do echo '{"messages":['"$(turn a T)"'],'"$tool}"; done
} >"$scratch/own.jsonl"
"$train" --data "$scratch/own.jsonl" --tokenizer "$scratch/own/tokenizer.json" --init-from none --out "$scratch/own_run" \
    --steps 80 --lr 1e-2 --save-every 0 >"$scratch/log" 2>&1 || verdict "own trains" "$(tail -n 2 "$scratch/log")"
"$train" --data "$scratch/own.jsonl" --tokenizer "$scratch/own/tokenizer.json" --init-from none --loss-on turns \
    --template-var brief=1 --out "$scratch/turns_run" --steps 1 --dry-run >"$scratch/log" 2>&1
verdict "targets and a variable of raw data" "$(grep -q 'a row of its own (--loss-on turns)$' "$scratch/log" &&
    grep -q '^chat format: the chat_template in .*, with brief=1$' "$scratch/log" || cat "$scratch/log")"
while read -r flag value; do
    "$train" --init-from none --data "$scratch/chat.safetensors" $flag $value --dry-run >"$scratch/log" 2>&1
    verdict "packed data have it: $flag" "$([ $? = 80 ] && grep -q -- "$flag: .*chat.safetensors is packed, with the" \
        "$scratch/log" || tail -n 2 "$scratch/log")"
done <<<$'--loss-on all\n--template-var brief=1'
own() { timeout 60 "$train" $tokenizer --greedy "$@" 2>"$scratch/log"; }
by="conversations as the chat_template in"
verdict "a template" "$(own --out "$scratch/own_run" --chat <<<a | diff - <(echo éé1)
    grep -q "^$by the training data ([0-9a-f]*) writes them" "$scratch/log" || cat "$scratch/log")"
echo '{"messages":[{"role":"user","content":"a"}],'"$tool}" >"$scratch/tools.jsonl"
verdict "a template: tools" "$(own --out "$scratch/own_run" --prompts "$scratch/tools.jsonl" | sed 's/.*"answer"/"answer"/' |
    diff - <(echo '"answer":"T","prompt_tokens":6,"new_tokens":1,"end":"end"}'))"
verdict "a template: a variable" "$(own --out "$scratch/own_run" --prompts "$scratch/tools.jsonl" --template-var brief=yes |
    grep -o '"prompt_tokens":[0-9]*' | diff - <(echo '"prompt_tokens":9'))"
verdict "a template: another format is reported" "$(
    own --out "$scratch/own_run" --chat --chat-format mistral-v3-tekken <<<a >/dev/null
    grep -q '^the model was trained on conversations as the chat_template of its data' "$scratch/log" || cat "$scratch/log")"
"$train" --out "$scratch/own_run" $tokenizer --export "$scratch/own_model" >"$scratch/log" 2>&1
verdict "a template: exported" "$(diff "$scratch/own/chat_template.jinja" "$scratch/own_model/chat_template.jinja" 2>&1
    tr -d ' \n' <"$scratch/own_model/generation_config.json" | grep -q '"eos_token_id":\[[0-9]*,[0-9]*\]' ||
        cat "$scratch/own_model/generation_config.json")"
tokenizer=
verdict "a template: of a folder" "$(own --init-from "$scratch/own_model" --out "$scratch/none" --chat <<<a | diff - <(echo éé1)
    grep -q "^$by $scratch/own_model/chat_template.jinja ([0-9a-f]*) writes them" "$scratch/log" || cat "$scratch/log")"
tokenizer="--tokenizer $scratch/tokenizer.json"
refused "a template: tools by hand" 88 "tools.jsonl:1: tools, their calls and results need the model's own chat_template: .*replaces" \
    --prompts "$scratch/tools.jsonl" --chat-format mistral-v3-tekken $tokenizer
refused "a template: a variable of none" 80 "--template-var: --chat-format mistral-v3-tekken replaces the chat_template" \
    --prompts "$scratch/tools.jsonl" --chat-format mistral-v3-tekken --template-var x=1 $tokenizer

# on a terminal: what is typed, what is answered, and the end
printf 'a\n/nothing\n/reset\nb\n\004' >"$scratch/typed"
TERM=dumb script -qefc "$train --out $scratch/run $tokenizer --greedy --chat --chat-format mistral-v3-tekken 2>&1" \
    /dev/null \
    <"$scratch/typed" 2>&1 | tr -d '\r' >"$scratch/seen"
verdict "a terminal" "$(for line in '^\(> \)*éé1$' '^\(> \)*zwei$' '^4 prompt tokens, .*; 5 new, ' \
    '/nothing: unknown, commands are /help' 'a new conversation$' \
    '^2 answers; [0-9]* prompt tokens'; do grep -q "$line" "$scratch/seen" ||
    echo "no $line: $(cat "$scratch/seen")"; done)"

# ---- what to do next: every row, as it is typed

nexts "next: sample" "$scratch/trained" sample "--max-new-tokens 2"
nexts "next: export" "$scratch/trained" export
"$train" --out "$scratch/run" --export "$scratch/model" >"$scratch/log" 2>&1
verdict "next: after an export" "$([ -s "$scratch/model/README.md" ] &&
    grep -q "^next: $scratch/model/README.md shows how to load it$" "$scratch/log" || tail -n 2 "$scratch/log")"
"$train" --bench-steps 1 >/dev/null 2>"$scratch/log"
verdict "next: after timings" "$(grep -q "^next: --profile 20 instead of --bench-steps, and --data FILE, shows" \
    "$scratch/log" || tail -n 2 "$scratch/log")"
make -s -B -C "$work/llama_rows" .obj/train.o CC=false >"$scratch/log" 2>&1
verdict "next: of a compiler that fails" "$(grep -q '^next: gen doctor ' "$scratch/log" || tail -n 2 "$scratch/log")"
verdict "no chat without a template" "$(grep '^  chat' "$scratch/trained")"
mkdir "$scratch/it's"
tiny_tokenizer "$scratch/it's"
for ((i = 0; i < 40; i++)); do echo '{"messages":['"$(turn a b)"']}'; done >"$scratch/it's/chat.jsonl"
"$work/llama_rows/run.sh" --data "$scratch/it's/chat.jsonl" --tokenizer "$scratch/it's/tokenizer.json" \
    --init-from none \
    --out "$scratch/it's/run" --steps 1 --dry-run >"$scratch/log" 2>&1
nexts "next: of a dry run, with a quote in it" <(sed -n 's/^next: \(.*\) trains$/  all \1/p' "$scratch/log") all
nexts "next: chat" "$scratch/typed" chat
"$work/llama_rows/run.sh" --data "$scratch/it's/chat.jsonl" --tokenizer "$scratch/it's/tokenizer.json" \
    --init-from none \
    --out "$scratch/stopped" --steps 1000000 --resume auto >"$scratch/log" 2>&1 &
for ((i = 0; i < 200; i++)); do ! grep -q '^step 10 ' "$scratch/log" || break; sleep 0.05; done
kill -TERM $!
wait $!
verdict "next: of a run that was stopped" "$([ $? = 91 ] || tail -n 1 "$scratch/log"
    grep -q "^next: .*llama_rows/run.sh --data .* --steps 1000000 goes on from there$" "$scratch/log" ||
        tail -n 2 "$scratch/log")"
# all codes but those of a good end have a row, and no hole stays open
verdict "next: a row a code" "$(diff <(sed -n 's/^EXIT_CODE(\([A-Z_]*\),.*/\1/p' runtime/exit_codes.def |
    grep -vx -e OK -e STOPPED) \
    <(sed -n 's/^FAILED(\([A-Z_]*\),.*/\1/p' runtime/run/hints.def))"
verdict "next: known words" "$(grep -E -h '^(FINISHED|HINT|FAILED)\(' runtime/run/hints.def runtime/objectives/*.def |
    grep -oE '\{[^}]*\}' | sort -u |
    tr -d '{}\n' |
    diff - <(printf 'againonoutprogramremedytokenizer'))"
exit $failed
