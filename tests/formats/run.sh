#!/bin/bash
# Formats: JSON, safetensors, checksums, token files, gen pack; built with sanitizers.
# cost: 32
set -u
. tests/sources.sh
. tests/compare.sh
. tests/verdict.sh
work=out/.test/formats
mkdir -p $work
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
readers=$(sources runtime base names folder folder_replace json crc32c safetensors safetensors_write)
export ASAN_OPTIONS=detect_leaks=0
watched tests/formats/{main,safetensors,tokenfile}.c $readers $(sources runtime tokenfile recordfile host_memory)
watched_link $work/test $objects -lcjson -lm || exit 1
watched tests/formats/pack_main.c gen/tools/pack.c runtime/pack/*.c runtime/jinja/*.c gen/util.c gen/commands.c \
    $readers $(sources runtime recordfile host_memory sha256 tokenizer* bpe tokens wordpiece words chars)
watched_link $work/pack $objects -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm -lpthread || exit 1
$work/test $scratch tests/formats || failed=1
pack=$work/pack

tokenizer() { [ "$1" = bytes ] && echo bytes || echo tests/tokenizer/$1/tokenizer.json; }

# Rows against TRL's rules and the reference templates (tests/oracle/formats.py).
for expected in tests/formats/rows/*.expected; do
    name=$(basename $expected .expected)
    kind=${name%.*} model=${name#*.} options=
    case $kind in
        prompt | pairs) options="--max-length 64" ;;
        talks) options="--max-length 100 --system Be_brief." ;;
        chat | list) options="--max-length 100" ;;
        assistant) options="--max-length 100 --loss-on assistant" ;;
        steps | candidates) options="--max-length 100 --system Judge. --mark <|endoftext|>" ;;
        unlabelled) options="--max-length 100 --system Judge. --mark <|endoftext|> --unlabelled" ;;
    esac
    if $pack -o $scratch/rows.st --tokenizer $(tokenizer $model) $options \
             tests/formats/rows/$kind.jsonl > $scratch/log 2>&1; then
        $work/test dump $scratch/rows.st > $scratch/got
        verdict "rows: $name" "$(diff $expected $scratch/got | head -4)"
    else
        verdict "rows: $name" "$(cat $scratch/log)"
    fi
done

# The same rows as the models' own chat templates render them (tests/oracle/chats.py), by each format and loss;
# what a template refuses is refused, too.
with_tokens() {                 # tokenizer.json, words that it lacks: the file with them
    local id word tokens=
    id=$(grep -o '"id":[0-9]*' "$1" | cut -d : -f 2 | sort -n | tail -n 1)
    for word in "${@:2}"; do
        id=$((id + 1))
        tokens="$tokens,{\"id\":$id,\"content\":\"$word\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false"
        tokens="$tokens,\"normalized\":false,\"special\":true}"
    done
    sed "s#}\],\"normalizer\"#}$tokens],\"normalizer\"#" "$1"
}
chats=tests/formats/chats
chat_tokenizer() {              # chat: its tokenizer, with the tokens that chats/tokenizers adds, as $t
    local base more folder=$scratch/chat-$1
    read -r base more < <(sed -n "s/^$1 //p" $chats/tokenizers)
    t=$(tokenizer $base)
    mkdir -p $folder
    with_tokens $t $more > $folder/tokenizer.json
    cp $(dirname $t)/tokenizer_config.json $folder/     # tests write others there
    t=$folder/tokenizer.json
}
for expected in $chats/*.expected; do
    name=$(basename $expected .expected)
    chat=${name%.*} loss=${name##*.}
    chat_tokenizer $chat
    paste -d '\t' $expected $chats/conversations.jsonl | grep -v '^refused' | cut -f 2 > $scratch/taken.jsonl
    if $pack -o $scratch/rows.st --tokenizer $t --chat $chat --loss-on $loss $scratch/taken.jsonl > $scratch/log 2>&1
    then
        $work/test dump $scratch/rows.st > $scratch/got
        verdict "chat: $name" "$(grep -v refused $expected | diff - $scratch/got | head -4)"
    else
        verdict "chat: $name" "$(cat $scratch/log)"
    fi
    [ $loss = last ] || continue
    paste -d '\t' $expected $chats/conversations.jsonl | sed -n 's/^refused\t//p' | while IFS= read -r row; do
        printf '%s\n' "$row" > $scratch/row.jsonl
        $pack -o $scratch/rows.st --tokenizer $t --chat $chat $scratch/row.jsonl > $scratch/log 2>&1 && echo "$row"
        grep -q "row.jsonl:1: .*$chat" $scratch/log || echo "$row: $(cat $scratch/log)"
    done > $scratch/taken
    grep -q refused $expected && verdict "chat: $chat: what the template refuses" "$(cat $scratch/taken)"
done

verdict "chat formats: each has rows here" "$(comm -3 <(sed -n 's/^CHAT(.name = "\([^"]*\)".*/\1/p' runtime/pack/chats.def |
    sort) <(basename -s .last.expected $chats/*.last.expected | sort))"

# The templates that exports write (tests/oracle/chats.py renders them): recorded, and known again.
for jinja in $chats/*.jinja; do
    chat=$(basename $jinja .jinja)
    $pack $chat > $scratch/got 2>&1
    verdict "template: $chat" "$(diff $jinja $scratch/got | head -4)"
    grep -q "^$chat " $chats/tokenizers || continue
    chat_tokenizer $chat
    folder=$scratch/template-$chat
    mkdir -p $folder
    cp $t $(dirname $t)/tokenizer_config.json $folder/
    cp $jinja $folder/chat_template.jinja
    echo '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}' > $scratch/row.jsonl
    $pack --show 1 --tokenizer $folder/tokenizer.json $scratch/row.jsonl > $scratch/log 2>&1
    verdict "template: $chat is known again" "$(grep -q "^chat format: $chat, by the chat_template" $scratch/log ||
        tail -n 2 $scratch/log)"
done

# A text file is a document; blocks must not show in the ids, so a large file equals the same text as one row.
printf 'abc' > $scratch/a.txt
printf '\xffd' > $scratch/b.txt
$pack -o $scratch/t.st $scratch/a.txt $scratch/b.txt > $scratch/log
verdict "two text files, any bytes" \
    "$($work/test dump $scratch/t.st | diff - <(printf '97* 98* 99* 256*\n255* 100* 256*\n'))"
verdict "the summary" "$(diff $scratch/log - << END
$scratch/t.st: packed, 2 documents, 7 tokens, all targets; 0.71 bytes a token, tokenizer bytes
read text files: 2
END
)"
cp $scratch/t.st $scratch/flipped.st        # 97 becomes 96, which is an id, too
at=$(($(stat -c %s $scratch/flipped.st) - 28))
printf '\140' | dd of=$scratch/flipped.st bs=1 seek=$at conv=notrunc status=none
$work/test dump $scratch/flipped.st > $scratch/log 2>&1
verdict "a byte that is another" "$(grep -q 'flipped.st: tensor tokens: its checksum is .*, it was packed with' \
    $scratch/log || cat $scratch/log)"
sed 's/\(crc32c":"tokens:\)./\1x/' $scratch/t.st > $scratch/flipped.st
$work/test dump $scratch/flipped.st > $scratch/log 2>&1
verdict "a checksum that is none" "$(grep -q 'metadata crc32c: must be NAME:0123abcd, got "tokens:x' $scratch/log ||
    cat $scratch/log)"
printf '\0\0\0\005\0\0\0\0' > $scratch/long.st         # a header of 80 MiB, in a sparse file
truncate -s 84M $scratch/long.st
ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=64:allocator_may_return_null=1 \
    $work/test dump $scratch/long.st > $scratch/log 2>&1
verdict "no memory for a header" "$(grep -q 'long.st: out of memory for its header of 83886080 bytes' \
    $scratch/log || tail -n 3 $scratch/log)"
sum=$(cat $scratch/a.txt $scratch/b.txt | sha256sum | cut -d' ' -f1)
verdict "sha256 of the source" "$(grep -aq "\"sha256\":\"$sum\"" $scratch/t.st || echo differs)"
for k in $(seq 9000); do echo "Line $k of the file;  it's  éé 東京 $((k * k)).
Next"; done > $scratch/big.txt
for k in 1 2 3; do cat $scratch/big.txt; done > $scratch/bigger.txt
{ printf '{"text":"'; tr '\n' '\001' < $scratch/bigger.txt | sed 's/\x01/\\n/g'; printf '"}\n'; } > $scratch/one.jsonl
for model in gpt2 llama3 qwen2; do
    t=$(tokenizer $model)
    $pack -o $scratch/big.st --tokenizer $t $scratch/bigger.txt > $scratch/log &&
    $pack -o $scratch/one.st --tokenizer $t $scratch/one.jsonl > $scratch/log
    cmp <($work/test dump $scratch/big.st) <($work/test dump $scratch/one.st) > $scratch/diff
    verdict "blocks do not show: $model" \
        "$(cat $scratch/diff; [ $(stat -c %s $scratch/bigger.txt) -gt 1200000 ] || echo one block)"
done
# Threads, and how the input is cut for them, do not show in the file.
{ cat tests/formats/rows/chat.jsonl
  yes '{"messages":[{"role":"user","content":"more of it"},{"role":"assistant","content":"yes"}]}' |
    head -4000; } > $scratch/many.jsonl
for input in bigger.txt many.jsonl; do
    for n in 1 7; do
        $pack -o $scratch/n$n.st --threads $n --tokenizer $(tokenizer qwen2) $scratch/$input $scratch/$input \
            > $scratch/log
    done
    verdict "threads: $input" "$(cmp $scratch/n1.st $scratch/n7.st 2>&1)"
done
{ head -3000 $scratch/many.jsonl; echo oops; cat $scratch/many.jsonl; echo '{}'; } > $scratch/bad.jsonl
for n in 1 7; do
    $pack -o $scratch/out.st --threads $n --tokenizer $(tokenizer qwen2) $scratch/bad.jsonl > $scratch/log 2>&1
    verdict "threads: $n name the first bad row" \
        "$(grep -q '^[^ ]*bad.jsonl:3001: byte 0' $scratch/log || cat $scratch/log)"
done

# Other ways to write the same rows.
same() {                        # name, pack's arguments of the one, of the other
    rm -f $scratch/1.st $scratch/2.st
    $pack -o $scratch/1.st $2 > $scratch/log 2>&1 && $pack -o $scratch/2.st $3 > $scratch/log 2>&1
    verdict "$1" "$(cmp <($work/test dump $scratch/1.st) <($work/test dump $scratch/2.st) 2>&1
                    [ -s $scratch/2.st ] || cat $scratch/log)"
}
qwen="--tokenizer $(tokenizer qwen2)"
cat > $scratch/sharegpt.jsonl << END
{"conversations":[{"from":"system","value":"S"},{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}
END
sed 's/conversations/messages/; s/from/role/g; s/value/content/g; s/human/user/; s/gpt/assistant/' \
    $scratch/sharegpt.jsonl > $scratch/messages.jsonl
same "ShareGPT's keys" "$qwen $scratch/messages.jsonl" "$qwen $scratch/sharegpt.jsonl"
# Conversations that are lists by themselves, a line each or in one array; contents in parts.
list='[{"role":"user","content":"a b"},{"role":"assistant","content":"c"}]'
printf '{"messages":%s}\n{"messages":%s}\n' "$list" "$list" > $scratch/talks.jsonl
printf '%s\n%s\n' "$list" "$list" > $scratch/lists.jsonl
printf ' [%s,\n %s\n]\n' "$list" "$list" > $scratch/lists.json
same "lists of messages, a line each" "$qwen $scratch/talks.jsonl" "$qwen $scratch/lists.jsonl"
same "lists of messages, in one array" "$qwen $scratch/talks.jsonl" "$qwen $scratch/lists.json"
sed 's/"a b"/[{"type":"text","text":"a "},{"type":"text","text":"b"}]/; s/role/from/g; s/"c"/[{"type":"text","text":"c"}]/
    s/content/value/g' $scratch/lists.jsonl > $scratch/parts.jsonl
same "contents in parts" "$qwen $scratch/talks.jsonl" "$qwen $scratch/parts.jsonl"
$pack -o $scratch/1.st $qwen - < $scratch/lists.jsonl > $scratch/log 2>&1
verdict "lists of messages, in standard input" "$(cmp <($work/test dump $scratch/1.st) \
    <($work/test dump $scratch/2.st) 2>&1)"
begin='Below is an instruction that describes a task'
context=', paired with an input that provides further context'
request='Write a response that appropriately completes the request.\n\n### Instruction:\n'
cat > $scratch/prompts.jsonl << END
{"prompt":"$begin. ${request}Add.\n\n### Response:\n","completion":"3"}
{"prompt":"$begin$context. ${request}Add.\n\n### Input:\n1 2\n\n### Response:\n","completion":"3"}
END
cat > $scratch/alpaca.json << END
 [ {"instruction": "Add.", "input": "", "output": "3", "text": "as one"},
 {"instruction": "Add.",
  "input": "1 2", "output": "3"}
]
END
cp $scratch/prompts.jsonl $scratch/prompts.txt
same "Alpaca's keys, an array of rows" "$scratch/prompts.jsonl" "$scratch/alpaca.json"
for input in a.txt prompts.jsonl; do
    $pack -o $scratch/1.st $scratch/$input > $scratch/log
    $pack -o $scratch/2.st - < $scratch/$input > $scratch/log
    cat $scratch/$input | $pack -o $scratch/3.st - > $scratch/log
    verdict "standard input: $input" "$(cmp $scratch/1.st $scratch/2.st 2>&1; cmp $scratch/1.st $scratch/3.st 2>&1)"
done
{ printf '['
  for k in $(seq 3000); do printf '%s{"text":"Row %d, [\\"{\\\\"}\n' "$([ $k = 1 ] || echo ,)" $k; done
  printf ']\n\n'; } > $scratch/long.json
for k in $(seq 3000); do printf '{"text":"Row %d, [\\"{\\\\"}\n' $k; done > $scratch/long.jsonl
same "a long array" $scratch/long.jsonl $scratch/long.json

# Conversations with tools by 32 templates (tests/oracle/agents.py): which rows are refused, ids, targets.
templates=tests/formats/templates
template_folder() {             # name: $scratch/agent, with its template and tokens
    local bos eos words
    mkdir -p $scratch/agent
    read -r bos eos words < <(sed -n "s/^$1 //p" $templates/tokens)
    # shellcheck disable=SC2086
    with_tokens $(tokenizer qwen2) $words > $scratch/agent/tokenizer.json
    printf '{"bos_token":"%s","eos_token":"%s"}' "$bos" "$eos" > $scratch/agent/tokenizer_config.json
    cp $templates/$1.jinja $scratch/agent/chat_template.jinja
}
before=
while read -r name loss want; do
    [ "$name" = "$before" ] || template_folder $name
    before=$name
    rm -f $scratch/rows.st
    $pack -o $scratch/rows.st --max-length 100000 --skip-bad 100 --tokenizer $scratch/agent/tokenizer.json \
        --loss-on $loss --chat template $templates/rows.jsonl > $scratch/log 2>&1
    $work/test dump $scratch/rows.st > $scratch/got 2>&1
    # the rows that are there, in the order of the file
    got="$(awk '{ print NF "/" gsub(/\*/, "") }' $scratch/got | paste -s -d ' ' -)"
    got="$got $(sha256sum < $scratch/got | cut -c 1-16)"
    verdict "agents: $name $loss" "$([ "$got" = "$(echo "$want" | sed 's/- //g')" ] || echo "got $got, expected $want")"
done < $templates/expected
# Prompts for the last answers of these rows; and conversations made from a seed, a row for each user turn.
gzip -dc $templates/made.jsonl.gz > $scratch/made.jsonl
before=
while read -r name want made wanted; do
    template_folder $name
    got=$($pack prompts $scratch/agent/tokenizer.json $templates/rows.jsonl 2> $scratch/log | sha256sum | cut -c 1-16)
    verdict "agents: $name prompts" "$([ "$got" = "$want" ] || echo "got $got, expected $want")"
    rm -f $scratch/rows.st
    $pack -o $scratch/rows.st --max-length 100000 --skip-bad 1000 --tokenizer $scratch/agent/tokenizer.json \
        --loss-on turns --chat template $scratch/made.jsonl > $scratch/log 2>&1
    $work/test dump $scratch/rows.st 2> $scratch/log > $scratch/got
    got="$(wc -l < $scratch/got) $(sha256sum < $scratch/got | cut -c 1-16)"
    verdict "agents: $name made" "$([ "$got" = "$made $wanted" ] || echo "got $got, expected $made $wanted")"
done < <(join $templates/prompts $templates/made)
verdict "agents: each template has rows" "$(diff <(basename -s .jinja $templates/*.jinja) \
    <(cut -d ' ' -f 1 $templates/expected | uniq))"

# Parts of a row that a template does not or cannot render: one error, with file, line and message.
ask='{"role":"user","content":"q"}' end='{"role":"assistant","content":"a"}'
agent_row() {                   # name, pattern of the message, row, options
    printf '{"messages":[%s,%s]}\n%s\n' "$ask" "$end" "$3" > $scratch/agent.jsonl
    $pack --show 2 --tokenizer $scratch/agent/tokenizer.json ${4-} $scratch/agent.jsonl > $scratch/log 2>&1
    verdict "agents: $1" "$(grep -v '^ \|^chat format\|^targets' $scratch/log | tail -n 1 | grep -q "agent.jsonl:2: $2" ||
        cat $scratch/log)"
}
use='{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"x":1}}}]}'
defined='"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}]'
template_folder own_hermes
agent_row "a role" 'message 1: role: must be system, user, assistant, tool or developer .*got "robot"' \
    "{\"messages\":[{\"role\":\"robot\",\"content\":\"q\"},$end]}"
agent_row "no content" 'message 2: content: must be a string; only an answer with tool_calls may have none' \
    "{\"messages\":[$ask,{\"role\":\"assistant\",\"content\":null}]}"
agent_row "a key" 'message 1: mood: the chat_template in .* does not read it from the role user; .*--ignore-keys mood$' \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"mood\":1},$end]}"
agent_row "reasoning that is not read" 'message 2: reasoning_content: the chat_template in .* does not read it' \
    "{\"messages\":[$ask,{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"r\"}]}"
agent_row "a result of another call" 'message 3: tool_call_id: no earlier call has the id "c2"' \
    "{\"messages\":[$ask,$use,{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"1\"},$end],$defined}"
agent_row "calls of a user" 'message 1: tool_calls: only an answer has them, not the role user' \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"tool_calls\":[{\"name\":\"f\"}]},$end]}"
agent_row "a call without a name" 'message 2: tool_calls: call 1 must be {"function": {"name", "arguments"}}' \
    "{\"messages\":[$ask,{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]}"
agent_row "tools that are no list" 'tools: must be a list of' "{\"messages\":[$ask,$end],\"tools\":{\"f\":1}}"
agent_row "tools that are none" 'tools: a string that is no JSON' "{\"messages\":[$ask,$end],\"tools\":\"[\"}"
agent_row "a content with calls" 'message 2: .* does not render the content of this assistant message with tool_calls' \
    "{\"messages\":[$ask,$(sed 's/null/"hm"/' <<< "$use")],$defined}"
agent_row "spans" 'message 2: masked: \[0, 2\]: must have 0 <= begin <= end' \
    "{\"messages\":[$ask,{\"role\":\"assistant\",\"content\":\"a\",\"masked\":[[0,2]]}]}"
$pack --show 1 --template-var mood=1 --tokenizer $scratch/agent/tokenizer.json $scratch/agent.jsonl > $scratch/log 2>&1
verdict "agents: a variable that is not read" "$(grep -q -- '--template-var mood: the chat_template in .* does not read it' \
    $scratch/log || cat $scratch/log)"
template_folder own_vicuna
agent_row "tools that are not read" 'tools: the chat_template in .* does not render tool 1' "{\"messages\":[$ask,$end],$defined}"
template_folder own_inst_tools
agent_row "a result without its call's id" 'the chat_template in .*: line [0-9]*: tool_call_id is undefined' \
    "{\"messages\":[$ask,$end,$ask,{\"role\":\"tool\",\"content\":\"1\"},$end]}"
agent_row "what the template refuses" 'the chat_template in .*: line [0-9]*: the template refuses the conversation: Tool call IDs' \
    "{\"messages\":[$ask,$use],$defined}"
# what a template computes last and does not write is not taken for its text
cp $scratch/agent/chat_template.jinja $scratch/template
printf '{%% for m in messages %%}{{ m.content if m.role == "user" }}{%% set x = "" ~ m.content %%}{%% endfor %%}' > \
    $scratch/agent/chat_template.jinja
printf '{"messages":[%s,%s]}\n' "$ask" "$end" > $scratch/agent.jsonl
$pack --show 1 --chat template --tokenizer $scratch/agent/tokenizer.json $scratch/agent.jsonl > $scratch/log 2>&1
verdict "agents: an answer computed, not written" "$(grep -q 'agent.jsonl:1: message 2: .* does not render the content of' \
    $scratch/log || cat $scratch/log)"
mv $scratch/template $scratch/agent/chat_template.jinja
template_folder trl_glm4moe
thought='{"role":"assistant","content":"a","reasoning_content":"r"}'
agent_row "an answer that changes" 'message 2: the chat_template renders it differently when others follow .*"train": false' \
    "{\"messages\":[$ask,$thought,$ask,$thought]}" "--loss-on assistant"
# excluded, it is a prompt like others; arguments in a string are as those in an object; tools may be a string, too
as_said() {                     # name, row, the same row
    printf '%s\n' "$2" > $scratch/1.jsonl
    printf '%s\n' "$3" > $scratch/2.jsonl
    same "agents: $1" "--tokenizer $scratch/agent/tokenizer.json --max-length 4000 --loss-on assistant $scratch/1.jsonl" \
        "--tokenizer $scratch/agent/tokenizer.json --max-length 4000 --loss-on assistant $scratch/2.jsonl"
}
as_said "an answer that changes, excluded" "{\"messages\":[$ask,${thought/\"role\"/\"train\":false,\"role\"},$ask,$thought]}" \
    "{\"messages\":[$ask,${thought/\"role\"/\"weight\":0,\"role\"},$ask,$thought]}"
as_said "arguments in a string" "{\"messages\":[$ask,$use],$defined}" \
    "{\"messages\":[$ask,$(sed 's/{"x":1}/"{\\"x\\":1}"/' <<< "$use")],$defined}"
result='{"role":"tool","content":"1"}'
printf '{"messages":[%s,%s,%s,%s],%s}\n' "$ask" "$use" "$result" "$end" "$defined" > $scratch/1.jsonl
printf '{"prompt":[%s],"completion":[%s,%s,%s],%s}\n' "$ask" "$use" "$result" "$end" "$defined" > $scratch/2.jsonl
agent="--tokenizer $scratch/agent/tokenizer.json --max-length 4000"
same "agents: results in a completion are no targets" "$agent --loss-on assistant $scratch/1.jsonl" "$agent $scratch/2.jsonl"
as_said "tools in a string" "{\"messages\":[$ask,$use],$defined}" \
    "{\"messages\":[$ask,$use],\"tools\":\"$(sed 's/^"tools"://; s/"/\\"/g' <<< "$defined")\"}"
as_said "ShareGPT's roles" "{\"messages\":[$ask,$end]}" \
    '{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}'
printf '{{ bos_token }}\n{%%- for m in messages | groupby("role") %%}' > $scratch/agent/chat_template.jinja
$pack --show 2 --tokenizer $scratch/agent/tokenizer.json $scratch/agent.jsonl > $scratch/log 2>&1
verdict "agents: a filter that is not supported" "$(grep -q 'agent.jsonl:1: the chat_template in .*: line 2: the filter groupby is not' \
    $scratch/log || cat $scratch/log)"
# the template, and the tokens that it writes, are part of the data's fingerprint
# Parts of answers are no targets, as with the same format by hand; variables; each user turn as a row.
mkdir -p $scratch/agent
cp $(tokenizer qwen2) $scratch/agent
printf '{"eos_token":"<|im_end|>"}' > $scratch/agent/tokenizer_config.json
cp $chats/chatml.jinja $scratch/agent/chat_template.jinja
printf '{"messages":[%s,{"role":"assistant","content":"%s","masked":[%s]}]}\n' "$ask" 'one two\nthree é 東京 ' '[4,7]' \
    "$ask" 'one two\nthree é 東京 ' '[0,3],[8,16]' "$ask" '  one two' '[6,9]' > $scratch/spans.jsonl
agent="--tokenizer $scratch/agent/tokenizer.json --max-length 4000"
same "agents: spans" "$agent --chat chatml $scratch/spans.jsonl" "$agent --chat template $scratch/spans.jsonl"
cat > $scratch/agent/chat_template.jinja << 'END'
{{ mood if mood is defined }}{{ deep.x if deep is mapping }}
{%- for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}
END
printf '{"messages":[%s,%s]}\n' "$ask" "$end" > $scratch/agent.jsonl
said() {
    $pack --show 1 $agent "$@" $scratch/agent.jsonl 2>&1 | grep '^ ' | tr -cd 'a-z0-9<>|:"\n' |
        grep -o '"[^"]*"' | tr -d '"\n'
}
verdict "agents: variables" "$(diff <(said --template-var mood=good --template-var 'deep={"x":7}') <(echo -n "good7$(said)") 2>&1)"
# as Jinja 3.1: else of a loop whose rounds all end early; a slice of a range is a range; what only a string has
jinja() {                       # name, expression or statements, words that they print or part of the message
    printf '%s{%% for m in messages %%}{{ m.role + m.content + eos_token }}{%% endfor %%}' "$2" > \
        $scratch/agent/chat_template.jinja
    $pack --show 1 $agent --chat template $scratch/agent.jsonl > $scratch/log 2>&1
    verdict "jinja: $1" "$(grep '^ ' $scratch/log | grep -o '"[^"]*"' | tr -d '" \n' | grep -q "^$3" ||
        grep -q "the chat_template in .*$3" $scratch/log || cat $scratch/log)"
}
jinja "else after continue" '{% for x in [1] %}{% continue %}{% else %}none{% endfor %}' 'noneuser'
jinja "else after break" '{% for x in [1, 2] %}{% break %}{% else %}none{% endfor %}' 'noneuser'
jinja "no else after one whole round" '{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}' 'user'
jinja "a slice of a range" '{{ range(3)[1:] }}' 'line 1: a generator cannot be printed'
jinja "a list of such a slice" '{{ range(3)[1:]|list|length }}' '2user'
jinja "indent of a list" '{{ [1]|indent }}' 'line 1: indent: must be given a str, got list'
jinja "int of nothing" '{{ nothing|int }}' 'line 1: nothing is undefined'
jinja "float of nothing" '{{ nothing|float }}' 'line 1: nothing is undefined'
jinja "a safe text in a list" '{{ ["a"|safe] }}' 'line 1: a safe text within a list'
jinja "nothing is a sequence" '{{ "yes" if nothing is sequence }}' 'yesuser'
thought='{"role":"assistant","content":"a","reasoning_content":"r"}'
template_folder trl_qwen3
printf '{"messages":[%s,%s,%s,%s,%s,%s],%s}\n' "$ask" "$thought" "$ask" "$use" "$result" "$thought" "$defined" > $scratch/1.jsonl
{ printf '{"messages":[%s,%s],%s}\n' "$ask" "$thought" "$defined"
  printf '{"messages":[%s,%s,%s,%s],%s}\n' "$ask" "$thought" "$ask" "$use" "$defined"
  printf '{"messages":[%s,%s,%s,%s,%s,%s],%s}\n' "$ask" "$thought" "$ask" "$use" "$result" "$thought" "$defined"
} > $scratch/2.jsonl
same "agents: turns, some of which change" "$agent --loss-on turns $scratch/1.jsonl" "$agent --loss-on last $scratch/2.jsonl"
agent_row "turns: a row that is wrong" 'role: must be' \
    "{\"messages\":[$ask,{\"role\":\"robot\",\"content\":\"q\"},$end]}" "--loss-on turns"
agent_row "turns: a role after the last answer" 'role: must be' \
    "{\"messages\":[$ask,$end,{\"role\":\"robot\",\"content\":\"q\"}]}" "--loss-on turns"
agent_row "turns: a key after the last answer" 'message 3: zzz: the chat_template in .* does not read it' \
    "{\"messages\":[$ask,$end,{\"role\":\"user\",\"content\":\"q\",\"zzz\":1}]}" "--loss-on turns --chat template"
agent_row "turns: a wrong row without an answer" 'message 1: role: must be' \
    "{\"messages\":[{\"role\":\"robot\",\"content\":\"q\"}]}" "--loss-on turns --chat template"
template_folder own_marked
printf '{"messages":[%s,%s]}\n' "$ask" "$end" > $scratch/agent.jsonl
marked() {
    $pack -o $scratch/rows.st --tokenizer $scratch/agent/tokenizer.json $scratch/agent.jsonl > $scratch/log 2>&1 &&
        grep -ao '"fingerprint":"[0-9a-f]*"' $scratch/rows.st
}
first=$(marked)
verdict "agents: the same fingerprint again" "$([ -n "$first" ] && [ "$(marked)" = "$first" ] || cat $scratch/log)"
verdict "agents: the log says how" "$(grep -q '^chat format: the chat_template in .* ([0-9a-f]*), answers by its generation' \
    $scratch/log || cat $scratch/log)"
printf ' ' >> $scratch/agent/chat_template.jinja
verdict "agents: another template, another fingerprint" "$([ "$(marked)" != "$first" ] || echo the same)"
template_folder own_marked
sed -i 's/<s>/<t>/' $scratch/agent/tokenizer_config.json
verdict "agents: another bos_token, another fingerprint" "$([ "$(marked)" != "$first" ] || echo the same)"

# --show: rows as they would be written; a terminal gets colours, and nothing that would steer it.
{ cat $scratch/messages.jsonl; printf '\n{"text":"not reached"\n'; } > $scratch/show.jsonl
sed -i 's/"b"/"b\\u001b[1m"/' $scratch/show.jsonl
cat > $scratch/show.expected << END
$scratch/show.jsonl:1: messages, 29 tokens, 4 targets, cut
     688 "<|im_start|>"  82 "s"  88 "y"  82 "s"  83 "t"  68 "e"  76 "m"  198 "\n"  50 "S"
     689 "<|im_end|>"  198 "\n"  688 "<|im_start|>"  554 "user"  198 "\n"  64 "a"  689 "<|im_end|>"
     198 "\n"  688 "<|im_start|>"  390 "as"  82 "s"  274 "is"  83 "t"  351 "an"  83 "t"  198 "\n"
  *  65 "b"  215 "\u{1b}"  58 "["  16 "1"
chat format: chatml, by the tokenizer's added tokens, as it has no chat_template
targets: the last answer of each row, its completion, or all of a text (the default)
END
$pack --show 1 --max-length 29 $qwen $scratch/show.jsonl > $scratch/log 2>&1
verdict "--show" "$(diff $scratch/log $scratch/show.expected)"
echo '[]' > $scratch/none.jsonl
$pack --show 2 $qwen $scratch/none.jsonl > $scratch/log 2>&1
verdict "--show of no row" "$([ $? != 0 ] && grep -q 'none.jsonl: has no row to show' $scratch/log || cat $scratch/log)"
$pack --show 9 --loss-on all -o $scratch/show.st $qwen $scratch/messages.jsonl > $scratch/log 2>&1
verdict "--show and -o" "$(grep -q 'messages, 28 tokens, 27 targets$' $scratch/log &&
    grep -q 'show.st: rows, 1 rows, 28 tokens, 27 targets' $scratch/log || cat $scratch/log)"
if command -v script > /dev/null; then
    script -qec "$pack --show 1 $qwen $scratch/messages.jsonl" /dev/null > $scratch/log 2>&1 < /dev/null
    verdict "--show on what only a launcher made a terminal" "$(script \
        -qec "$pack --show 1 $qwen $scratch/messages.jsonl \
        2> $scratch/said" /dev/null 2>&1 < /dev/null | grep $'\033')"
    verdict "--show on a terminal" "$(grep -q $'^\033\[32m  \*  65 "b".*\033\[0m' $scratch/log || cat -v $scratch/log)"
fi

# Pairs: both parts, what is left out, how long they are.
cat > $scratch/pairs.jsonl << END
{"prompt":"ab","chosen":"cd","rejected":"e"}
{"chosen":"one two","rejected":"one eight"}
{"prompt":"ab","chosen":"c","rejected":"c"}
{"prompt":"abcdefgh","chosen":"i","rejected":"j"}
END
cat > $scratch/pairs.expected << END
$scratch/pairs.jsonl:1: pairs
  chosen: 5 tokens, 3 targets
     97 "a"  98 "b"
  *  99 "c"  100 "d"  256 "<|endoftext|>"
  rejected: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  101 "e"  256 "<|endoftext|>"
$scratch/pairs.jsonl:2: pairs, cut
  chosen: 8 tokens, 5 targets
     111 "o"  110 "n"  101 "e"
  *  32 " "  116 "t"  119 "w"  111 "o"  256 "<|endoftext|>"
  rejected: 8 tokens, 5 targets
     111 "o"  110 "n"  101 "e"
  *  32 " "  101 "e"  105 "i"  103 "g"  104 "h"
$scratch/pairs.jsonl:3: pairs
  chosen: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  99 "c"  256 "<|endoftext|>"
  rejected: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  99 "c"  256 "<|endoftext|>"
$scratch/pairs.jsonl:4: pairs, cut: left out, with a prompt that leaves no room for an answer
  chosen: 8 tokens, 0 targets
     97 "a"  98 "b"  99 "c"  100 "d"  101 "e"  102 "f"  103 "g"  104 "h"
  rejected: 8 tokens, 0 targets
     97 "a"  98 "b"  99 "c"  100 "d"  101 "e"  102 "f"  103 "g"  104 "h"
$scratch/pairs.st: pairs, 3 pairs, 33 tokens, 19 targets, 2 cut to 8 tokens, 0 left out without a target, \
1 with a prompt that leaves no room for an answer; 1.42 bytes a token, tokenizer bytes
read pairs: 4
targets: the answers, with their ends
lengths before cutting: prompts 2 to 8 tokens, mean 3.8, half up to 2, 95 of 100 up to 8; chosen answers \
2 to 5 tokens, mean 3.0, half up to 2, 95 of 100 up to 5; rejected answers 2 to 7 tokens, mean 3.2, half up to 2, \
95 of 100 up to 7
1 pair has no prompt: the common prefix of the answers is used
1 pair has identical answers: neither is preferred
END
sed -i -e ':a' -e '/\\$/N; s/\\\n//; ta' $scratch/pairs.expected
$pack --show 9 -o $scratch/pairs.st --max-length 8 $scratch/pairs.jsonl > $scratch/log 2>&1
verdict "pairs: rows as they are written" "$(diff $scratch/log $scratch/pairs.expected)"
verdict "pairs: what the file says" "$(for key in '"dropped_long_prompt":"1"' '"identical":"1"' \
    '"lengths":"prompts 2 to 8' \
    '"kind":"pairs"'; do grep -aqF "$key" $scratch/pairs.st || echo no $key; done)"
$pack -o $scratch/1.st --threads 1 $scratch/pairs.jsonl $scratch/pairs.jsonl > $scratch/log 2>&1
$pack -o $scratch/2.st --threads 5 $scratch/pairs.jsonl $scratch/pairs.jsonl > $scratch/log 2>&1
verdict "pairs: threads do not show" "$(cmp $scratch/1.st $scratch/2.st 2>&1)"
# Rows that say the same: a prompt that is a string with lists; a question after a system message of its own.
alike() {               # NAME ROW ROW
    for i in 2 3; do
        echo "${!i}" >$scratch/$i.jsonl
        # shellcheck disable=SC2086
        $pack --show 1 -o $scratch/alike.st $qwen $scratch/$i.jsonl >$scratch/$i.log 2>&1 || tail -n 1 $scratch/$i.log
    done
    verdict "pairs alike: $1" "$(diff <(grep '^ ' $scratch/2.log) <(grep '^ ' $scratch/3.log)
        grep -q 'chosen: ' $scratch/2.log || tail -n 1 $scratch/2.log)"
}
user='{"role":"user","content":"Question: a"}'
answers='"chosen":[{"role":"assistant","content":"c"}],"rejected":[{"role":"assistant","content":"d"}]'
whole='"chosen":['$user',{"role":"assistant","content":"c"}],"rejected":['$user',{"role":"assistant","content":"d"}]'
alike "a string before answers" "{\"prompt\":\"Question: a\",$answers}" "{\"prompt\":[$user],$answers}"
alike "a string and conversations" "{\"prompt\":\"Question: a\",$whole}" "{$whole}"
alike "a system message with a question" '{"system":"s","question":"a","chosen":"c","rejected":"d"}' \
    '{"prompt":[{"role":"system","content":"s"},'"$user],$answers}"
alike "an empty one" '{"system":"","question":"a","chosen":"c","rejected":"d"}' "{\"prompt\":[$user],$answers}"
# Parts of answers that are not trained on: the same ids, other targets. Characters, not bytes; after a common prompt
# they are counted from the beginning all the same; one that an ending cuts in two is told as with prompts.
cat > $scratch/masked.jsonl << END
{"prompt":"ab","chosen":"cdef","rejected":"xy","chosen_masked":[[0,1],[2,3]],"rejected_masked":[]}
{"chosen":"h\u00e9 one","rejected":"h\u00e9 two","rejected_masked":[[1,5]]}
{"prompt":"a","chosen":"b","rejected":"b","chosen_masked":[[0,1]]}
{"prompt":"a","chosen":"b","rejected":"cd","rejected_masked":[[0,2]]}
END
cat > $scratch/masked.expected << END
$scratch/masked.jsonl:1: pairs
  chosen: 7 tokens, 3 targets
     97 "a"  98 "b"  99 "c"
  *  100 "d"
     101 "e"
  *  102 "f"  256 "<|endoftext|>"
  rejected: 5 tokens, 3 targets
     97 "a"  98 "b"
  *  120 "x"  121 "y"  256 "<|endoftext|>"
$scratch/masked.jsonl:2: pairs
  chosen: 8 tokens, 5 targets
     104 "h"  195 "\xc3"  169 "\xa9"
  *  32 " "  111 "o"  110 "n"  101 "e"  256 "<|endoftext|>"
  rejected: 8 tokens, 2 targets
     104 "h"  195 "\xc3"  169 "\xa9"  32 " "  116 "t"  119 "w"
  *  111 "o"  256 "<|endoftext|>"
END
$pack --show 2 $scratch/masked.jsonl | head -n -1 > $scratch/log 2>&1
verdict "masked spans of pairs" "$(diff $scratch/log $scratch/masked.expected)"
$pack -o $scratch/masked.st $scratch/masked.jsonl > $scratch/log 2>&1
verdict "masked spans: prompts and answers are what they are" "$(grep \
    -q '^lengths .*prompts 1 to 3 tokens.*; chosen answers 2 to 5 tokens' \
    $scratch/log && ! grep -q identical $scratch/log || cat $scratch/log)"
# $1: rows, $2: of a message with the answer "one two three", what is to be added to it; targets' texts
masked_turns() {
    printf '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" one two three"%s}]}\n' \
        "$2" > $scratch/turns.jsonl
    $pack --show 1 --tokenizer $(tokenizer $1) ${3-} $scratch/turns.jsonl 2> /dev/null | sed -n 's/^  \* *//p' |
        grep -o '"[^"]*"' | tr -d '"\n'
}
whole=$(masked_turns qwen2 '')
verdict "masked spans of turns" "$(
    [ "$(masked_turns qwen2 ',"masked":[[4,8]]')" = "${whole/ two/}" ] || masked_turns qwen2 ',"masked":[[4,8]]'
    [ "$(masked_turns qwen2 ',"masked":[[0,14]]')" = "${whole##*three}" ] ||
        masked_turns qwen2 ',"masked":[[0,14]]'
    [ "$(masked_turns llama3 ',"masked":[[1,4]]')" = "$(masked_turns llama3 '' | sed 's/^one//')" ] ||
        masked_turns llama3 ',"masked":[[1,4]]'
    for words in ',"weight":0' ',"train":false'; do [ -z "$(masked_turns qwen2 "$words")" ] || echo "$words"; done
    for words in ',"weight":1' ',"train":true'; do [ "$(masked_turns qwen2 "$words")" = "$whole" ] ||
        echo "$words"; done)"
printf '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"one","weight":0},'\
'{"role":"user","content":"b"},{"role":"assistant","content":"two"}]}\n' > $scratch/turns.jsonl
verdict "a turn that is not trained on among others" "$($pack --show 1 $qwen --loss-on assistant $scratch/turns.jsonl |
    sed -n 's/^  \* *//p' | grep -q one && echo "it is"
    $pack --show 1 $qwen --loss-on all $scratch/turns.jsonl | grep -c '^  \*' | grep -vx 4)"

bos='<|begin_of_text|>'
printf '{"prompt":"a","chosen":" b","rejected":" c"}\n' > $scratch/a.jsonl
printf '{"prompt":"%sa","chosen":" b","rejected":" c"}\n' "$bos" > $scratch/b.jsonl
same "one begin-of-text token" "--tokenizer $(tokenizer llama3) $scratch/a.jsonl" \
    "--tokenizer $(tokenizer llama3) $scratch/b.jsonl"

# Solutions in steps: what is told of them, what the file says, ids of rows that have none.
recipes/demos/chains.sh tokenizer $scratch/chains
chains="--tokenizer $scratch/chains/tokenizer.json"
cat > $scratch/steps.jsonl << 'END'
{"informal_prefix":"P","cot_response":"Well.\n### Step 1: t\na\n### Step 2: t\nb","cot_steps":[{"pi":0.5}],"domain":"d\u001b[1m","id":7}
{"cot_response":"### Step 1: t\na","cot_steps":[{"pi":1}]}
{"cot_response":"### Step 1: t\na\n### Step 2: t\nb\n### Step 3:\nc","cot_steps":[{"pi":1}]}
{"cot_response":"### Step 1: t\na\n### Step 2: t\nb\n### Step 3:\nc","cot_steps":[{"pi":1},{"pi":0}],"meta_label":0}
END
cat > $scratch/steps.expected << END
$scratch/steps.jsonl:1: step-labelled solutions, 25 tokens, 1 target
     257 "<|im_start|>"  117 "u"  115 "s"  101 "e"  114 "r"  10 "\\n"  80 "P"  258 "<|im_end|>"
     10 "\\n"  257 "<|im_start|>"  97 "a"  115 "s"  115 "s"  105 "i"  115 "s"  116 "t"  97 "a"
     110 "n"  116 "t"  10 "\\n"  97 "a"
  *  259 "<extra_0>"
     98 "b"  258 "<|im_end|>"  10 "\\n"
  labels 0.5; meta_label 1; domain d?[1m; id 7
$scratch/steps.jsonl:2: step-labelled solutions: left out, with another number of steps
$scratch/steps.st: steps, 2 records, 58 tokens, 3 marks, 0 cut to 40 tokens; 2 left out: 1 with another number of \
steps, 1 with too few labels
lengths before cutting: solutions 25 to 33 tokens, mean 29.0, half up to 25, 95 of 100 up to 33; 1 have no \
meta_label: taken as right, unless a stepwise label is false; 1 have no problem; 1 have text before their first step, \
which is dropped
mark <extra_0>, token 259; for gen: prm.steps=0 prm.records=2 prm.domains=1
chat format: chatml, by the tokenizer's added tokens, as it has no chat_template; tokenizer ID
END
sed -i -e ':a' -e '/\\$/N; s/\\\n//; ta' $scratch/steps.expected
$pack --show 2 -o $scratch/steps.st --steps 0 --max-length 40 --system '' $chains $scratch/steps.jsonl \
    > $scratch/log 2>&1
verdict "steps: what is told" "$(sed 's/crc32c:.*/ID/' $scratch/log | diff - $scratch/steps.expected)"

mkdir $scratch/other
cp $scratch/chains/tokenizer.json $scratch/other
echo '{"eos_token":"<|im_end|>","chat_template":"{{ messages }}"}' > $scratch/other/tokenizer_config.json
for kind in steps auto; do
    $pack -o $scratch/other.st --steps 0 --system s --tokenizer $scratch/other/tokenizer.json --kind $kind \
        $scratch/steps.jsonl > $scratch/$kind.log 2>&1
done
verdict "steps: a chat template that is not known" "$(grep \
    -q 'chatml, by the .* is not known; tok' $scratch/steps.log ||
    cat $scratch/steps.log; grep -q 'jsonl:1: message 2: the chat_template renders it differently' $scratch/auto.log ||
    cat $scratch/auto.log)"

# Characters: the vocabulary is that of the data, its file is a tokenizer like others; one more is refused.
mkdir $scratch/char
printf 'hello\nworld \xc3\xa9\n' > $scratch/char/a.txt
printf 'oh, hello' > $scratch/char/b.txt
$pack -o $scratch/char/1.st --tokenizer char $scratch/char/a.txt > $scratch/log 2>&1
verdict "char: ids by code point" "$($work/test dump $scratch/char/1.st | diff - <(
    echo '1* 7* 6* 8* 8* 9* 3* 11* 9* 10* 8* 5* 4* 12* 3* 2*'))"
verdict "char: the summary" "$(grep -qF '4 special tokens and 10 of 10 characters; for gen: model.vocab=14' \
    $scratch/log ||
    cat $scratch/log)"
$pack -o $scratch/char/2.st --tokenizer $scratch/char/tokenizer.json $scratch/char/a.txt > $scratch/log 2>&1
verdict "char: its tokenizer.json" \
    "$(cmp <($work/test dump $scratch/char/1.st) <($work/test dump $scratch/char/2.st) 2>&1)"
$pack -o $scratch/char/3.st --tokenizer $scratch/char/tokenizer.json $scratch/char/b.txt > $scratch/log 2>&1
verdict "char: another character" "$(grep -q 'b.txt: "," is not in the vocabulary, which has no unknown token' $scratch/log ||
    cat $scratch/log)"
printf 'h\r' > $scratch/char/r.txt
$pack -o $scratch/char/3.st --tokenizer $scratch/char/tokenizer.json $scratch/char/r.txt > $scratch/log 2>&1
verdict "char: a character that is not seen" "$(grep -q 'r.txt: the control character 13 is not in' $scratch/log ||
    cat $scratch/log)"
$pack -o $scratch/char/3.st --tokenizer char $scratch/char/b.txt > $scratch/log 2>&1
verdict "char: another vocabulary next to it" "$(grep -q 'tokenizer.json exists, with another' \
    $scratch/log || cat $scratch/log)"
printf '{"text":"ab"}\n{"text":"ba[EOS]"}\n' > $scratch/rows.jsonl
mkdir $scratch/char/rows
$pack -o $scratch/char/rows/1.st --tokenizer char $scratch/rows.jsonl > $scratch/log 2>&1
verdict "char: rows of JSON" "$($work/test dump $scratch/char/rows/1.st |
    diff - <(printf '1* 3* 4* 2*\n1* 4* 3* 2*\n'))"

# Windows: each begins a stride after the one before, the last ends with the text; some are held back.
windows() {                     # name, text, options, rows
    rm -rf $scratch/win
    mkdir $scratch/win
    printf "$2" > $scratch/win/a.txt
    $pack -o $scratch/win/w.st --format windows --tokenizer char --max-length 4 $3 $scratch/win/a.txt \
        > $scratch/log 2>&1
    verdict "windows: $1" "$($work/test dump $scratch/win/w.st 2>&1 | tr -d '*' |
        diff - <(printf "$4"); grep ^gen: $scratch/log)"
}
windows "the last one fits" abcdefgh "" '1 3 4 5\n1 5 6 7\n1 7 8 9\n'
windows "the last one overlaps more" abcdefghi "" '1 3 4 5\n1 5 6 7\n1 7 8 9\n1 8 9 10\n'
windows "as long as one" abcd "" '1 3 4 5\n'
windows "shorter than one" ab "" '1 3 4\n'
windows "--stride" abcdefgh "--stride 4" '1 3 4 5\n1 7 8 9\n'
windows "of the end of the text" 'abcdefgh\xc3\xa9\xc3\xa9' "--split tail --eval-share 0.4" \
    '1 3 4 5\n1 5 6 7\n1 9 10 11\n'
verdict "windows: what the file says" "$(grep -aqF '"train":"2"' $scratch/win/w.st || echo no train
    grep -qF '2 for training, 1 for validation: the last 0.4 of each text' $scratch/log || cat $scratch/log)"
for how in tail random; do
    for n in 1 3; do
        $pack -o $scratch/n$n.st --threads $n --format windows --max-length 4096 --split $how --tokenizer \
            $(tokenizer gpt2) \
            $scratch/bigger.txt $scratch/big.txt > $scratch/log 2>&1
    done
    verdict "windows: threads do not show: $how" "$(cmp $scratch/n1.st $scratch/n3.st 2>&1)"
done
$pack -o $scratch/n1.st --format windows --max-length 4096 --tokenizer $(tokenizer gpt2) $scratch/bigger.txt \
    $scratch/big.txt > $scratch/log
verdict "windows: random ones are the same, in another order" \
    "$(cmp <($work/test dump $scratch/n1.st | sort) <($work/test dump $scratch/n3.st | sort) 2>&1)"

# Arrays of ids: windows as another program's folder, and read again; each rule that such a folder breaks.
printf 'abcdefghij\nklmno' > $scratch/a.txt
arrays=$scratch/arrays
rm -rf $scratch/win
mkdir $scratch/win
$pack --prepare $arrays --tokenizer char --max-length 4 --eval-share 0.4 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: the summary" "$(grep -qF "4 for training, 3 for validation: the last 0.4" $scratch/log ||
    cat $scratch/log)"
verdict "arrays: the folder" "$(ls $arrays | tr '\n' ' ' |
    diff - <(printf 'metadata.json tokenizer.json tokenizer_config.json train_data.npy val_data.npy ')
    tr -d ' \n' < $arrays/metadata.json |
        diff - <(printf \
        '{"bos_token":1,"eos_token":2,"mask_token":19,"pad_token":0,"sequence_length":4,"total_tokens":16,"train_samples":4,"val_samples":3,"vocab_size":20}'))"
verdict "arrays: an array" "$(head -c 128 $arrays/train_data.npy | tr -d '\0' |
    grep -aqF "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 4), }" || echo header
    tail -c +129 $arrays/train_data.npy | od -An -w32 -tu8 | head -2 | tr -s ' ' |
        diff - <(printf ' 1 4 5 6\n 1 6 7 8\n'))"
$pack -o $scratch/1.st $arrays > $scratch/log 2>&1
$pack -o $scratch/win/w.st --format windows --split tail --tokenizer char --max-length 4 --eval-share 0.4 \
    $scratch/a.txt > $scratch/log
verdict "arrays: read as the windows" "$(cmp <($work/test dump $scratch/1.st) <($work/test dump $scratch/win/w.st) 2>&1
    grep -aqF '"train":"4"' $scratch/1.st || echo no train)"
bad_arrays() {                  # name, file, sed's line, pattern
    rm -rf $scratch/bad
    cp -r $arrays $scratch/bad
    LC_ALL=C sed -i "$3" $scratch/bad/$2
    $pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
    verdict "arrays: $1" "$([ ! -e $scratch/out.st ] && grep -qe "gen: .*bad/$2: $4" $scratch/log ||
        head -c 300 $scratch/log)"
    rm -f $scratch/out.st
}
bad_arrays "int32" train_data.npy "s/<i8/<i4/" "dtype is '<i4', must be int64"
bad_arrays "Fortran's order" val_data.npy "s/False,/True ,/" 'is in Fortran order'
bad_arrays "one axis" train_data.npy "s/(4, 4)/(16,) /" "shape is (16,), must be two lengths"
bad_arrays "three axes" train_data.npy "s/(4, 4), }   /(4, 4, 1), }/" "shape is (4, 4, 1), must be two lengths"
bad_arrays "fewer bytes than its shape" train_data.npy "s/(4, 4)/(6, 4)/" "has 256 bytes, must have 320 for its shape"
bad_arrays "no array" val_data.npy "s/NUMPY/NUMPO/" "not a NumPy array"
bad_arrays "other lengths" val_data.npy "s/(3, 4)/(4, 3)/" "has rows of 3 tokens, but those of train_data.npy have 4"
bad_arrays "an id beyond the vocabulary" train_data.npy '$s/.$/\x99/' "row 3, position 3: id -[0-9]* is outside the vocabulary, 0 to 19"
bad_arrays "metadata of another length" metadata.json 's/"sequence_length": 4/"sequence_length": 5/' \
    "sequence_length is 5, but the arrays have 4"
bad_arrays "metadata of more rows" metadata.json 's/"train_samples": 4/"train_samples": 9/' \
    "train_samples is 9, but the arrays have 4"
bad_arrays "metadata of other tokens" metadata.json 's/"total_tokens": 16/"total_tokens": 21/' \
    "total_tokens is 21, but the arrays have 16"
bad_arrays "metadata without a key" metadata.json '/vocab_size/d; s/"val_samples": 3,/"val_samples": 3/' \
    "vocab_size: must be an integer"
bad_arrays "a mask beyond the vocabulary" metadata.json 's/"mask_token": 19/"mask_token": 20/' \
    "mask_token: must be an integer from 0 to 19"
rm -rf $scratch/bad
cp -r $arrays $scratch/bad
sed -i 's/"mask_token": 19/"mask_token": 6/' $scratch/bad/metadata.json
$pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
verdict "arrays: which row has the mask" "$(grep -q 'train_data.npy: row 0, position 3: id 6 is mask_token' \
    $scratch/log || cat $scratch/log)"
# padding at the end of a row is none of it; where it is what ends texts it stays
for pad in 6 0; do
    sed -i "s/\(\"mask_token\":\) [0-9]*/\1 19/; s/\(\"pad_token\":\) [0-9]*/\1 $pad/" $scratch/bad/metadata.json
    $pack -o $scratch/padded.st $scratch/bad > $scratch/log 2>&1
    verdict "arrays: padding $pad" "$([ "$($work/test dump $scratch/padded.st | wc -w)" = \
        $(($($work/test dump $scratch/1.st | wc -w) - (pad == 6))) ] || $work/test dump $scratch/padded.st | head -5
        [ "$(grep -c '^1 of them with pad_token at the end' $scratch/log)" = $((pad == 6)) ] || cat $scratch/log)"
done
rm $scratch/bad/val_data.npy
$pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
verdict "arrays: one is missing" "$(grep -q 'bad/val_data.npy: No such file' $scratch/log || cat $scratch/log)"
$pack --prepare $arrays --tokenizer char --max-length 4 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: into a folder that has some" "$(grep -q 'has arrays of ids already' $scratch/log || cat $scratch/log)"
$pack --prepare $scratch/nothing --tokenizer char --max-length 40 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: of a text that is too short" "$(grep -q 'a window has 15 tokens, but the arrays need 40' $scratch/log ||
    cat $scratch/log
    [ ! -e $scratch/nothing/train_data.npy ] || echo left)"

# Answers in which tokens are hidden: the same rows as for prediction, but for what they say of targets.
printf '{"prompt":"2+2?","response":" 4"}\n{"prompt":"a","completion":"b"}\n' > $scratch/answers.jsonl
$pack -o $scratch/1.st --format answers $scratch/answers.jsonl > $scratch/log 2>&1
verdict "answers: as they are without a chat format" "$($work/test dump $scratch/1.st | diff - <(
    printf '50 43 50 63 32* 52* 256*\n97 98* 256*\n'); grep -aqF '"targets":"own"' $scratch/1.st || cat $scratch/log)"
printf '{"prompt":"2+2?","response":" 4"}\n' > $scratch/answers.jsonl
printf '{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":" 4"}]}\n' > $scratch/turns.jsonl
same "answers: turns where there is a chat format" "$qwen --format answers $scratch/turns.jsonl" \
    "$qwen --format answers $scratch/answers.jsonl"
same "answers: as messages" "$qwen $scratch/turns.jsonl" "$qwen --format answers $scratch/turns.jsonl"

# The chat_template in the tokenizer's folder decides; what is not known renders rows itself.
chatml="{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"
qwen2="${chatml/\{\{/"{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant.<|im_end|>
' }}{% endif %}{{"}"
json() { printf '%s' "$1" | sed ':a;N;$!ba;s/\n/\\n/g'; }
folder=$scratch/folder
template() {                    # name, members of tokenizer_config.json, text of chat_template.jinja, pattern, options
    rm -rf $folder
    mkdir $folder
    cp tests/tokenizer/qwen2/tokenizer.json $folder
    printf '{"eos_token":"<|im_end|>"%s}' "$2" > $folder/tokenizer_config.json
    [ -z "$3" ] || printf '%s' "$3" > $folder/chat_template.jinja
    $pack -o $scratch/out.st --tokenizer $folder/tokenizer.json ${5-} $scratch/sharegpt.jsonl > $scratch/log 2>&1
    verdict "chat_template: $1" "$(grep -qe "$4" $scratch/log || cat $scratch/log)"
}
printf '{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}' > $scratch/sharegpt.jsonl
template "none" '' '' 'chat format: chatml, by the tokenizer.s added tokens'
template "null" ',"chat_template":null' '' 'chat format: chatml, by the tokenizer.s added tokens'
template "ChatML" ",\"chat_template\":\"$(json "$chatml")\"" '' \
    'chat format: chatml, by the chat_template in .*tokenizer_config.json'
template "Qwen2" ",\"chat_template\":\"$(json "$qwen2")\"" '' 'chat format: qwen2, by the chat_template'
same "chat_template: Qwen2's default system message" "--tokenizer $folder/tokenizer.json $scratch/sharegpt.jsonl" \
    "$qwen --chat qwen2 $scratch/sharegpt.jsonl"
template "a file, with CRLF and a last line end" ',"chat_template":"unknown"' "${qwen2//$'\n'/$'\r\n'}"$'\n' \
    'chat format: qwen2, by the chat_template in .*chat_template.jinja'
tool='{"name":"tool_use","template":"?"}'
template "named ones" ",\"chat_template\":[$tool,{\"name\":\"default\",\"template\":\"$(json "$qwen2")\"}]" '' \
    'chat format: qwen2, by the chat_template'
template "named ones without default" ",\"chat_template\":[$tool]" '' \
    'chat_template has none named default (tool_use): give the format with --chat NAME'
template "unknown" ",\"chat_template\":\"$(json "$qwen2") \"" '' \
    'chat format: the chat_template in .*tokenizer_config.json ([0-9a-f]*)$'
template "unknown, not Jinja's" ",\"chat_template\":\"{{ messages\"" '' \
    'the chat_template in .*: line 1: a tag does not end with }}; a format .* --chat NAME'
template "unknown, overridden" ',"chat_template":"?"' '' 'chat format: qwen2.5, by --chat' '--chat qwen2.5'
template "a misspelt --chat" '' '' 'must be one of chatml, .*got qwen-2: did you mean qwen2?' '--chat qwen-2'
# Mistral's, which writes bos_token and eos_token, whatever they are
chat_tokenizer mistral-0.2
mistral="{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if \
message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' \
%}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}\
{% endif %}{% endfor %}"
for eos in '</s>' '<|im_end|>'; do
    printf '{"bos_token":"<s>","eos_token":"%s","chat_template":"%s"}' "$eos" "$mistral" > ${t%/*}/tokenizer_config.json
    $pack --show 1 --tokenizer $t $scratch/sharegpt.jsonl > $scratch/log 2>&1
    [ "$eos" = '</s>' ] && want='^chat format: mistral-0.2, by the chat_template in' ||
        want='^chat format: the chat_template in'
    verdict "chat_template: Mistral's, eos_token $eos" "$(grep -q "$want" $scratch/log || cat $scratch/log)"
done
mkdir $scratch/llada                # LLaDA: Llama-3's template, which begins with bos_token, and other names
sed 's/<|begin_of_text|>/<|startoftext|>/g' $(tokenizer llama3) > $scratch/llada/tokenizer.json
printf '{"bos_token":"<|startoftext|>","eos_token":"<|eot_id|>"}' > $scratch/llada/tokenizer_config.json
same "chat format: LLaDA's begin of text" "--tokenizer $(tokenizer llama3) $scratch/turns.jsonl" \
    "--tokenizer $scratch/llada/tokenizer.json $scratch/turns.jsonl"
verdict "chat format: LLaDA, by its tokens" "$(grep -q '^chat format: llada, by the tokenizer.s added tokens' \
    $scratch/log ||
    cat $scratch/log)"
template "--chat for other tokens" '' '' \
    'llama-3 needs the added tokens <|begin_of_text|>, <|start_header_id|> and <|eot_id|>' '--chat llama-3'
ln -s nowhere $folder/chat_template.jinja
$pack -o $scratch/out.st --tokenizer $folder/tokenizer.json $scratch/sharegpt.jsonl > $scratch/log 2>&1
verdict "chat_template: a link that leads nowhere" \
    "$(grep -q 'chat_template.jinja: No such file' $scratch/log || cat $scratch/log)"
printf '{"text":"no conversation"}' > $scratch/sharegpt.jsonl
template "unknown, but not asked for" ',"chat_template":"?"' '' '^read text: 1$'
template "--chat without conversations" '' '' '--chat qwen2: no row is a conversation' '--chat qwen2'

# Refused input: file content, options, the message's end.
refuse() {                      # name, content of x.jsonl, options, pattern
    printf "$2" > $scratch/x.jsonl
    rm -f $scratch/out.st
    if $pack -o $scratch/out.st $3 $scratch/x.jsonl > $scratch/log 2>&1; then
        verdict "refuses: $1" accepted
    elif [ -e $scratch/out.st ] || ! grep -qe "$4" $scratch/log; then
        verdict "refuses: $1" "$(head -c 300 $scratch/log)"
    else
        verdict "refuses: $1"
    fi
}
good='{"text":"fine"}\n'

# "system" and "history" with a prompt are turns before it, as LLaMA-Factory's converters make them: a system
# message, each pair of history as question and answer, instruction and input with a line end between.
told() { echo "{\"role\":\"$1\",\"content\":\"$2\"}"; }
before="$(told system S),$(told user h),$(told assistant H),"
as_messages() {                 # NAME PROMPT-AS-MESSAGE ROW: the row's tokens are those of a conversation
    echo "{\"messages\":[$before$2,$(told assistant c)]}" > $scratch/said.jsonl
    echo "$3" > $scratch/row.jsonl
    same "turns before a prompt: $1" "$qwen ${4-} $scratch/said.jsonl" "$qwen ${4-} $scratch/row.jsonl"
}
turns='"system":"S","history":[["h","H"]]'
as_messages "prompt" "$(told user q)" "{\"prompt\":\"q\",\"completion\":\"c\",$turns}"
as_messages "prompt as a list" "$(told user q)" \
    "{\"prompt\":[$(told user q)],\"completion\":[$(told assistant c)],$turns}"
as_messages "Alpaca" "$(told user 'q\ni')" "{\"instruction\":\"q\",\"input\":\"i\",\"output\":\"c\",$turns}"
as_messages "Alpaca without input" "$(told user q)" "{\"instruction\":\"q\",\"input\":\"\",\"output\":\"c\",$turns}" \
    "--loss-on assistant"
as_messages "messages" "$(told user q)" "{\"messages\":[$(told user q),$(told assistant c)],$turns}"
as_messages "a system message said twice" "$(told user q)" \
    "{\"messages\":[$(told system S),$(told user q),$(told assistant c)],$turns}"
as_messages "answers" "$(told user q)" "{\"prompt\":\"q\",\"response\":\"c\",$turns}" "--format answers"
whole='"chosen":['$before$(told user q),$(told assistant c)'],"rejected":['$before$(told user q),$(told assistant d)']'
strings='"chosen":"c","rejected":"d"'
alike "turns before a prompt" "{\"prompt\":\"q\",$strings,$turns}" "{$whole}"
alike "turns before an instruction" "{\"instruction\":\"q\",\"input\":\"\",$strings,$turns}" "{$whole}"
alike "turns before a question" "{\"question\":\"q\",$strings,$turns}" "{${whole//$(told user q)/$(told user 'Question: q')}}"
alike "turns before a list" "{\"prompt\":[$(told user q)],$answers,$turns}" "{$whole}"
alike "turns before conversations" "{\"chosen\":[$(told user q),$(told assistant c)],\
\"rejected\":[$(told user q),$(told assistant d)],$turns}" "{$whole}"
printf '%s\n' '{"prompt":"q","completion":"c"}' "{\"prompt\":\"q\",\"completion\":\"c\",$turns}" > $scratch/mixed.jsonl
$pack -o $scratch/1.st $qwen $scratch/mixed.jsonl > $scratch/log 2>&1
verdict "turns before some prompts are told" "$(grep -q '^1 row has system or history and became a conversation; the others do not use' \
    $scratch/log || cat $scratch/log)"

# null counts as an absent key, and so do "", [] and {} where another key says what the row is.
for row in '"chosen":null,"rejected":null' '"chosen":"","rejected":""' '"messages":[]' '"messages":null,"text":null' \
    '"tools":[],"history":[],"system":"","label":null,"functions":{}'; do
    echo '{"prompt":"q","completion":"c"}' > $scratch/said.jsonl
    echo "{$row,\"prompt\":\"q\",\"completion\":\"c\"}" > $scratch/row.jsonl
    same "absent keys: $row" "$scratch/said.jsonl" "$scratch/row.jsonl"
done
alike "an absent prompt" '{"prompt":null,"instruction":"","question":"a","chosen":"c","rejected":"d"}' \
    '{"question":"a","chosen":"c","rejected":"d"}'
alike "an absent list" "{\"prompt\":[],$whole}" "{$whole}"
verdict "absent weights" "$([ "$(masked_turns qwen2 ',"weight":null,"train":null,"masked":null')" = \
    "$(masked_turns qwen2 '')" ] || masked_turns qwen2 ',"weight":null,"train":null,"masked":null')"

# Keys that no format reads: metadata is counted, all else ends the pack with one line for the whole file, whose command
# then packs what older versions packed.
cat > $scratch/keys.jsonl << 'END'
{"prompt":"a","completion":"b","id":1,"source":"x","lang":null}
{"prompt":"a","completion":"c","id":2,"tools":"[]","sytem":"S"}
{"prompt":[{"role":"user","content":"a"}],"completion":[{"role":"assistant","content":"b","loss":false,"name":"n"}]}
{"prompt":"a","completion":"d","label":false,"tools":[{}],"my key's":1}
END
$pack -o $scratch/keys.st $qwen $scratch/keys.jsonl > $scratch/log 2>&1
verdict "keys that are not read" "$(diff $scratch/log - << END
$scratch/keys.jsonl:2: these keys would be dropped: tools (2 rows: tool definitions need messages and the model's own chat_template), \
sytem (1 row: did you mean system?), loss (1 row, first $scratch/keys.jsonl:3: weight 0 or train false excludes \
a message from the loss), label (1 row, first $scratch/keys.jsonl:4: a false one marks a bad answer, which must not be \
learned: keep rows with true), my key's (1 row, first $scratch/keys.jsonl:4); to pack without them: gen pack \
-o $scratch/keys.st $qwen $scratch/keys.jsonl --ignore-keys 'tools,sytem,loss,label,my key'\\''s'
END
[ ! -e $scratch/keys.st ] || echo written)"
(eval "$(sed "s#.*to pack without them: gen pack#$pack#" $scratch/log)") > $scratch/said 2>&1
verdict "keys that are left out, by the command that is told" "$(grep -qx 'metadata, not used: id: 2, source: 1, name: 1' \
    $scratch/said && $work/test dump $scratch/keys.st > /dev/null || cat $scratch/said)"
for n in 1 7; do
    { cat $scratch/many.jsonl; cat $scratch/keys.jsonl; } > $scratch/late.jsonl
    $pack -o $scratch/keys.st --threads $n $qwen $scratch/late.jsonl 2>&1 | sed 's/--threads . //' > $scratch/n$n.log
done
verdict "keys that are not read: threads do not show" "$(diff $scratch/n1.log $scratch/n7.log
    grep -q "late.jsonl:$(($(wc -l < $scratch/many.jsonl) + 2)): .*tools (2 rows" $scratch/n1.log || cat $scratch/n1.log)"
# the fingerprints that these rows had before keys were looked at
fingerprint() {                 # ROW, options
    echo "$1" > $scratch/row.jsonl
    $pack -o $scratch/row.st $qwen ${2-} $scratch/row.jsonl > $scratch/log 2>&1 || cat $scratch/log
    grep -ao '"fingerprint":"[0-9a-f]*"' $scratch/row.st | cut -d '"' -f 4 | head -c 16
    rm -f $scratch/row.st
}
alpaca_row='{"instruction":"q","input":"","output":"a","system":"BE KIND","tools":"[1]"}'
verdict "fingerprints: as before" "$(
    [ "$(fingerprint '{"prompt":"q","completion":"a","id":3}')" = 7ab5dac6e0b16c19 ] || echo metadata
    [ "$(fingerprint '{"prompt":"Is it?","completion":" the"}')" = 6ce18366bebd6a0d ] || echo 'a border of tokens'
    [ "$(fingerprint '{"prompt":"Is it? ","completion":"the"}')" != f4ae9a662faddc6f ] || echo 'a token across it'
    [ "$(fingerprint "$alpaca_row" '--ignore-keys tools,system')" = aa15a446d1517672 ] || echo ignored
    [ "$(fingerprint "$alpaca_row" '--ignore-keys tools')" != aa15a446d1517672 ] || echo used
    own='{"system":"s","question":"a","chosen":"c","rejected":"d"}'
    [ "$(fingerprint "$own")" = a1bb9a7b90763b62 ] || echo 'a system message of a question'
    [ "$(fingerprint "$own" '--ignore-keys system')" != a1bb9a7b90763b62 ] || echo 'an ignored one')"
refuse "--ignore-keys misspelt" "$good" "--ignore-keys tolls" '--ignore-keys tolls: no row has this key'
refuse "--ignore-keys of nothing" "$good" "--ignore-keys ," 'must be keys separated by commas'
refuse "turns without a chat format" '{"prompt":"a","completion":"b","system":"s"}' "" \
    'x.jsonl:1: system: turns of a conversation need a chat format, but .*system,history drops'
refuse "turns before no prompt" '{"chosen":"ab","rejected":"ac","system":"s"}' "$qwen" \
    'x.jsonl:1: system or history, but no prompt'
refuse "a history of other lists" '{"prompt":"a","completion":"b","history":[["q"]]}' "$qwen" \
    'history: must be a list of \[question, answer\], two strings each'
refuse "a system message of a document" '{"text":"a","system":"s"}' "" 'system (1 row: this format has no system message)'
fingerprint "{\"messages\":[$(told user a),$(told assistant b)],\"prompt\":\"a\"}" > $scratch/said
verdict "a key that repeats a message is no loss" "$(grep -q '^metadata, not used: prompt: 1$' $scratch/log || cat $scratch/log)"
# Where two formats fit, the summary tells which was taken.
printf '{"prompt":"q","chosen":"a","rejected":"b","messages":[%s]}\n' "$(told user a)" > $scratch/both.jsonl
$pack -o $scratch/1.st $qwen $scratch/both.jsonl > $scratch/log 2>&1
verdict "two formats fit" "$(grep -qxF '1 row fits the format messages, too, and was read as pairs (--format messages for the other)' \
    $scratch/log || cat $scratch/log)"

# A prompt that ends in a blank, or whose last token goes on in the answer: one line for all rows.
printf '%s\n' '{"prompt":"What is","completion":" it"}' '{"prompt":"q: ","completion":"a"}' \
    '{"prompt":"as th","completion":"e"}' '{"prompt":"q:\t","completion":"b"}' '{"prompt":"q\n","completion":"b"}' \
    > $scratch/border.jsonl
$pack -o $scratch/1.st $qwen $scratch/border.jsonl 2> $scratch/log > /dev/null
verdict "prompts whose ends are not those of tokens" "$(diff $scratch/log - << END
gen pack: warning: 2 prompts end in a blank (first $scratch/border.jsonl:2), 1 prompt's last token \
merges with its answer (first $scratch/border.jsonl:3): at inference the prompt \
ends in other tokens than in training; move the blank to the beginning of the answer
END
)"

# Answers of which only the end is learned: one line for all rows. A call is an answer, and an earlier one is no target.
printf '%s\n' '{"prompt":"q","completion":""}' '{"prompt":"q","completion":"a"}' '{"instruction":"q","output":""}' \
    "{\"messages\":[$(told user q),$(told assistant "")]}" "{\"messages\":[$(told user q),$(told assistant a)]}" \
    "{\"messages\":[$(told user q),$(told assistant ""),$(told user q),$(told assistant a)]}" \
    > $scratch/empty.jsonl
$pack -o $scratch/1.st $qwen $scratch/empty.jsonl 2> $scratch/log > /dev/null
verdict "empty answers" "$(diff $scratch/log - << END
gen pack: warning: 3 answers are empty (first $scratch/empty.jsonl:1): the model learns to end the text there; \
remove the rows if that is not meant
END
)"
printf '{"prompt":"q","chosen":"a","rejected":""}\n' > $scratch/empty.jsonl
$pack -o $scratch/1.st $qwen $scratch/empty.jsonl > $scratch/log 2>&1
verdict "an empty answer of a pair" "$(grep -q "1 answer is empty (first $scratch/empty.jsonl:1)" $scratch/log || cat $scratch/log)"

echo 'a text' > $scratch/plain.txt
echo '{"text":"a text"}' > $scratch/plain.jsonl
for file in $scratch/plain.txt $scratch/plain.jsonl; do
    $pack -o $scratch/1.st $qwen --loss-on turns $file > $scratch/log 2>&1
    verdict "turns of a text: ${file##*.}" "$([ $? != 0 ] && grep -q '^[^ ]*: --loss-on.*: a text has no answers' $scratch/log ||
        cat $scratch/log)"
done

# A byte order mark is no part of any text, and UTF-8 goes on after it.
mark=$(printf '\xef\xbb\xbf')
for input in talks.jsonl alpaca.json big.txt; do
    { printf %s "$mark"; cat $scratch/$input; } > $scratch/marked.${input##*.}
    marked=$scratch/marked.${input##*.}
    for how in file input pipe; do
        case $how in
            file) $pack -o $scratch/2.st $qwen $marked ;;
            input) $pack -o $scratch/2.st $qwen - < $marked ;;
            pipe) { printf '\xef'; sleep 0.05; tail -c +2 $marked; } | $pack -o $scratch/2.st $qwen - ;;
        esac > $scratch/log 2>&1
        $pack -o $scratch/1.st $qwen $scratch/$input > $scratch/log2 2>&1
        verdict "a byte order mark: $input, $how" "$(cmp $scratch/1.st $scratch/2.st 2>&1 || cat $scratch/log)"
    done
done
{ printf %s "$mark"; cat $scratch/talks.jsonl; printf %s "$mark"; cat $scratch/talks.jsonl; } > $scratch/marked.jsonl
same "a byte order mark in each of two joined files" "$qwen $scratch/talks.jsonl $scratch/talks.jsonl" \
    "$qwen $scratch/marked.jsonl"
printf '%sabcdefgh\xc3\xa9\xc3\xa9' "$mark" > $scratch/marked.txt
printf 'abcdefgh\xc3\xa9\xc3\xa9' > $scratch/said.txt
same "a byte order mark before the last part of a text" \
    "--format windows --max-length 4 --split tail --eval-share 0.4 $scratch/said.txt" \
    "--format windows --max-length 4 --split tail --eval-share 0.4 $scratch/marked.txt"
refuse "a byte order mark alone" '\xef\xbb\xbf' "" 'x.jsonl: empty'

refuse "no JSON" "$good{\n" "" 'x.jsonl:2: byte 1: expected a key in quotes'
refuse "bad UTF-8" "$good{\"text\":\"\\xff\"}\n" "" 'x.jsonl:2: byte 9: not UTF-8'
refuse "NUL" '{"text":"a\0"}\n' "" 'x.jsonl:1: byte 10: control character NUL in a string: take it out'
refuse "NaN" '{"text":"a","score":NaN}' "" 'x.jsonl:1: byte 20: NaN is not a JSON value: write null, or leave the key out'
refuse "a row of several lines" '{\n"text": "a"\n}\n' "" \
    'x.jsonl:1: byte 1: expected a key in quotes; a row of JSON Lines is one line: jq -c . FILE > ROWS.jsonl'
refuse "a NUL between rows" '{"text":"a"}\n\0\n' "" 'x.jsonl:2: byte 0: a NUL character where a value should be: take it out'
refuse "an escaped NUL" '{"text":"a\\u0000"}' "" 'x.jsonl:1: .*u0000, the NUL character, is not accepted: take it out'
refuse "gzip" '\x1f\x8b\x08' "" 'zcat .*x.jsonl | gen pack'
refuse "UTF-16" '\xff\xfe{\0' "" 'iconv -f UTF-16 -t UTF-8 .*x.jsonl | gen pack ... -$'
refuse "UTF-16 without its mark" '{\0"\0' "" 'iconv -f UTF-16LE -t UTF-8 .*x.jsonl | gen pack ... -$'
refuse "UTF-16 of the other order" '\0[\0{' "" 'iconv -f UTF-16BE -t UTF-8 .*x.jsonl | gen pack ... -$'
refuse "Parquet" 'PAR1abc' "" 'pandas.read_parquet(.*x.jsonl'
refuse "NumPy" '\x93NUMPY' "" 'numpy.load('
refuse "an empty file" '' "" 'x.jsonl: empty'
refuse "text is a number" "$good\n\n{\"text\":1}\n" "" 'x.jsonl:4: text: must be a string'
refuse "empty text" '{"text":""}' "" 'x.jsonl:1: text: empty'
refuse "no known key" '{"txt":"a"}' "" \
    'x.jsonl:1: needs the keys chosen and .*, messages, conversations, cot_response, .*, instruction and output, or text'
pair='"chosen":"ab","rejected":"ac"'
refuse "an answer twice" '{"prompt":"a","response":"b","completion":"c"}' "--format answers" \
    'x.jsonl:1: needs the keys messages, conversations, prompt and response, or prompt and completion'
refuse "a response that is none" '{"prompt":"a","response":1}' "--format answers" 'response: must be a string'
refuse "windows of rows without a text" '{"txt":"a"}' "--format windows" 'x.jsonl:1: text: must be a string'
refuse "windows with what hides a token" '{"text":"a[MASK]"}' "--format windows --tokenizer char" \
    'x.jsonl:1: the text contains the mask token \[MASK\] (id 3)'
printf 'ab[MASK]' > $scratch/mask.txt
$pack -o $scratch/out.st --format windows --tokenizer char $scratch/mask.txt > $scratch/log 2>&1
verdict "refuses: a text with what hides a token" "$(grep -q 'mask.txt: the text contains the mask token \[MASK\] at byte 3 (id 3)' $scratch/log ||
    cat $scratch/log)"
refuse "the tail of rows" "$good" "--format windows --split tail" '--split tail is for texts'
refuse "too few windows to divide" "$good" "--format windows --split random" \
    '1 windows: a share of 0.1 leaves 1'
refuse "--split of other formats" "$good" "--split tail" '--split is for the format windows'
refuse "--stride of other formats" "$good" "--stride 5" '--stride is for the format windows'
refuse "--eval-share without --split" "$good" "--format windows --eval-share 0.5" '--eval-share needs --split'
refuse "--eval-share of all" "$good" "--format windows --split tail --eval-share 1" \
    'must be a number between 0 and 1, got 1'
refuse "a stride beyond a window" "$good" "--format windows --max-length 4 --stride 5" 'skips tokens between'
refuse "char for messages" '{"messages":[{"role":"user","content":"a"}]}' "--tokenizer char" \
    'a vocabulary of char has no chat tokens'
refuse "char for words" "$good" "--tokenizer char --format corpus" 'need --tokenizer words'
refuse "pairs without rejected" '{"prompt":"a","chosen":"b"}' "" 'x.jsonl:1: rejected: must be a string'
refuse "pairs of a number" "{$pair}\n{\"chosen\":1,\"rejected\":\"b\"}" "" 'x.jsonl:2: chosen: must be a string'
refuse "pairs without a prompt" "{$pair}\n{\"chosen\":\"a\",\"rejected\":\"b\"}" "" 'x.jsonl:2: no prompt: add prompt'
refuse "pairs of lists without a prompt" \
    '{"chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]}' "$qwen" \
    'x.jsonl:1: no prompt: add prompt'
refuse "pairs with a prompt misspelt" "{\"promt\":\"q\",$pair}" "" 'x.jsonl:1: promt: did you mean prompt?'
refuse "pairs with two prompts" "{\"question\":\"q\",\"prompt\":\"p\",$pair}" "" \
    'has two prompts, question and prompt: keep one'
refuse "pairs with a question without chat tokens" "{\"question\":\"q\",$pair}" "" \
    'x.jsonl:1: messages need a tokenizer'
refuse "pairs with a question that is none" "{\"question\":7,$pair}" "$qwen" 'question: must be a string'
refuse "pairs of a string and a list" '{"chosen":[{"role":"assistant","content":"a"}],"rejected":"b"}' "$qwen" \
    'rejected: must be a non-empty list of {"role", "content"}'
said='[{"role":"user","content":"a"},{"role":"assistant","content":'
refuse "pairs of lists after another string" "{\"prompt\":\"b\",\"chosen\":$said\"c\"}],\"rejected\":$said\"d\"}]}" "$qwen" \
    'is a string that differs from the user.s last message in both lists: remove it'
refuse "pairs that end with a question" \
    '{"chosen":[{"role":"user","content":"a"},{"role":"user","content":"b"}],'\
'"rejected":[{"role":"user","content":"a"},{"role":"user","content":"c"}]}' "$qwen" \
    'the answer must have the role assistant, got "user"'
refuse "pairs of lists after an instruction" '{"instruction":"a","chosen":[{}],"rejected":[{}]}' "$qwen" \
    'chosen: must be a string, like instruction'
refuse "a span beyond its answer" "{\"prompt\":\"q\",$pair,\"chosen_masked\":[[0,99]]}" "" \
    'x.jsonl:1: masked: \[0, 99\]: must have 0 <= begin <= end'
refuse "a span that ends before it begins" "{\"prompt\":\"q\",$pair,\"chosen_masked\":[[1,0]]}" "" \
    'masked: \[1, 0\]: must have 0 <= begin <= end'
refuse "a span that is none" "{\"prompt\":\"q\",$pair,\"chosen_masked\":[1]}" "" 'masked: must be a list of \[begin, end)'
refuse "spans misspelt" "{\"prompt\":\"q\",$pair,\"rejected_mask\":[[0,1]]}" "" \
    'rejected_mask: did you mean rejected_masked?'
refuse "spans with messages" '{"chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"chosen_masked":[],'\
'"rejected":[{"role":"user","content":"a"},{"role":"assistant","content":"c"}]}' "$qwen" \
    'chosen_masked: chosen is a list of messages: use the key masked of its messages'
turn='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",'
refuse "a weight of a half" "$turn\"weight\":0.5}]}" "$qwen" 'weight: must be 0 or 1'
refuse "train that is no word" "$turn\"train\":0}]}" "$qwen" 'train: must be true or false'
refuse "weight and train" "$turn\"weight\":0,\"train\":true}]}" "$qwen" 'both weight and train'
refuse "weight misspelt" "$turn\"weigth\":0}]}" "$qwen" 'weigth: did you mean weight?'
refuse "train_detail" "$turn\"train_detail\":[]}]}" "$qwen" 'train_detail: use masked'
refuse "pairs and texts" "{$pair}\n$good" "" 'x.jsonl:2: the output is pairs, and text cannot be part of it'
refuse "pairs as rows" "{$pair}" "--kind rows" 'x.jsonl:1: the output is rows, and pairs cannot be part of it'
refuse "--loss-on all for pairs" "{$pair}" "--loss-on all" 'not for pairs, whose targets are always the answers'
refuse "--system without a question" "{$pair}" "--system x" '--system: no row is a pair of answers to a question'
refuse "pairs whose prompt leaves no room" "{\"prompt\":\"abcd\",$pair}" "--max-length 4" \
    'no usable row (0 without a target, 1 with a prompt that leaves no room for an answer)'
refuse "prompt without completion" '{"prompt":"a"}' "" 'x.jsonl:1: completion: must be a string'
refuse "an array of something else" '[1]' "" 'x.jsonl:1: must be a JSON object'
refuse "an array on a later line" "${good}[{}]" "" 'x.jsonl:2: must be a JSON object'
refuse "an array that goes on" '[{"text":"a"}]\n{}' "" 'x.jsonl:1: something follows the array of rows'
refuse "an array that does not end" '[{"text":"a"},\n{"text":"b"}' "" 'x.jsonl:2: the array does not end'
refuse "an array without a comma" '[{"text":"a"}\n{"text":"b"}]' "" 'x.jsonl:1: .*byte'
refuse "an array with a comma too many" '[{"text":"a"},]' "" 'x.jsonl:1: .*byte'
refuse "an empty array" '[]' "" 'no usable row'
refuse "texts and prompts mixed" "$good{\"prompt\":\"a\",\"completion\":\"b\"}" "" \
    'x.jsonl:2: prompt + completion become rows'
refuse "nothing usable" '\n\n' "" 'no usable row (0 without a target)'
refuse "every row cut before its targets" \
    '{"prompt":"abcd","completion":"e"}' "--max-length 3" \
    'no usable row (0 without a target, 1 with a prompt that leaves no room for an answer)'
refuse "answers after the end of a row" '{"prompt":"abcd","response":"e"}' "--format answers --max-length 3" \
    'no usable row (0 without a target, 1 with a prompt that leaves no room for an answer)'
refuse "messages without chat tokens" \
    '{"messages":[{"role":"user","content":"a"}]}' "" 'x.jsonl:1: messages need a tokenizer'
refuse "the last turn is the user's" \
    '{"messages":[{"role":"user","content":"a"}]}' "$qwen" 'the answer must have the role assistant'
refuse "calls of tools" '{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}' "$qwen" \
    'tool_calls: tool calls are not supported by this chat format: tools, .* the tokenizer.s folder has none'
refuse "definitions of tools" '{"tools":[{}],"messages":[{"role":"assistant","content":""}]}' "$qwen" \
    'x.jsonl:1: .*: tools (1 row: tool definitions need messages and .*); .* --ignore-keys tools$'
refuse "role twice" '{"messages":[{"role":"assistant","from":"gpt","content":""}]}' "$qwen" 'has both role and from'
refuse "Alpaca without output" '{"instruction":"a"}' "" 'x.jsonl:1: output: must be a string'
refuse "unknown role" '{"messages":[{"role":"robot","content":"a"},{"role":"assistant","content":"a"}]}' \
    "$qwen" 'role: must be system, user or assistant .*got "robot"'
refuse "an answer of a tool" '{"messages":[{"role":"tool","content":"a"}]}' "$qwen" 'role: must be .*got "tool"'
refuse "reasoning that the format does not write" \
    '{"messages":[{"role":"assistant","content":"a","reasoning_content":"b"}]}' "$qwen" \
    'reasoning_content: the chat format chatml does not render it'
chat_tokenizer qwen3
refuse "an answer of a tool that the user gives" \
    '{"messages":[{"role":"user","content":"<tool_response>a</tool_response>"},{"role":"assistant","content":""}]}' \
    "--tokenizer $t --chat qwen3" 'tool responses are not'
refuse "spans of an answer with its reasoning" \
    '{"messages":[{"role":"assistant","content":"<think>a</think>b","masked":[[0,1]]}]}' \
    "--tokenizer $t --chat qwen3" 'masked: not supported for an answer with its reasoning in its content'
refuse "a picture" '[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]' "$qwen" \
    'content: part 2 is of the type image_url'
refuse "a part without a text" '[{"role":"user","content":[{"type":"text"}]}]' "$qwen" \
    'content: part 1: text: must be a string'
refuse "a message by itself" '[\n{"role":"user","content":"a"},\n{"role":"assistant","content":"b"}]' "$qwen" \
    'x.jsonl:2: a single message: a row must be a list'
refuse "two system messages" \
    '{"system":"s","conversations":[{"from":"system","value":"t"},{"from":"gpt","value":"a"}]}' "$qwen" \
    'x.jsonl:1: system: the messages begin with another system message: remove one'
refuse "content missing" '{"messages":[{"role":"assistant"}]}' "$qwen" 'x.jsonl:1: content: must be a string'
refuse "no messages" '{"messages":[]}' "$qwen" 'messages: must be a non-empty list'
refuse "a tokenizer that appends specials" \
    '{"prompt":"a","completion":"b"}' "--tokenizer $(tokenizer added)" 'appends special tokens'
refuse "a tokenizer without end of text" "$good" "--tokenizer $(tokenizer unknown)" 'no end-of-text token'
refuse "an absent tokenizer" "$good" "--tokenizer nowhere.json" 'nowhere.json: No such file'
refuse "--assistant-only" "$good" "--assistant-only" 'is now --loss-on assistant'
refuse "--loss-on assistant for texts" "$good" "--loss-on assistant" \
    'x.jsonl:1: --loss-on assistant: a text has no answers'
refuse "--loss-on last for texts" "$good" "--loss-on last" 'x.jsonl:1: --loss-on last: a text has no answers'
refuse "--loss-on assistant for prompts" '{"prompt":"a","completion":"b"}' "--loss-on assistant" \
    'assistant needs messages'
refuse "--loss-on turns for prompts" '{"prompt":"a","completion":"b"}' "--loss-on turns" \
    '--loss-on turns needs messages, but these are strings'
refuse "--loss-on misspelt" "$good" "--loss-on asistant" \
    'must be last, assistant, turns or all, got asistant: did you mean assistant'
refuse "--threads 0" "$good" "--threads 0" 'must be 1 to'
refuse "--show 0" "$good" "--show 0" 'must be 1 to'
refuse "--max-length on texts" "$good" "--max-length 9" 'add --kind rows'
refuse "--max-length 0" "$good" "--max-length 0" 'must be 2 to'
refuse "unknown kind" "$good" "--kind heap" 'must be auto, packed, rows, pairs, steps or candidates, got heap'
refuse "unknown option" "$good" "--frob" 'unknown option --frob'
refuse "a misspelt option" "$good" "--los-on all" 'did you mean --loss-on?'
refuse "standard input twice" "$good" "- -" 'can be read only once'
refuse "an unknown format" "$good" "--format txt" \
    'must be pairs, messages, conversations, steps, .*, alpaca, text.*, got txt: did you mean text'
refuse "objects of another format" '{"prompt":"a","completion":"b"}' "--format text" 'x.jsonl:1: text: must be a string'
mkdir $scratch/in $scratch/none
printf 'two' > $scratch/in/b.txt
printf '{"text":"one"}' > $scratch/in/a.jsonl
touch $scratch/in/README $scratch/in/.hidden $scratch/none/README
refuse "a folder without data" "$good" "$scratch/none" 'none: a folder without files that end in .jsonl'
$pack -o $scratch/1.st $scratch/in > $scratch/log 2>&1
verdict "a folder" "$($work/test dump $scratch/1.st | diff - <(printf '111* 110* 101* 256*\n116* 119* 111* 256*\n')
    grep -q 'note: .*in: 1 file is not read' $scratch/log || cat $scratch/log)"
same "--format: JSON as one text" "--format file $scratch/prompts.jsonl" "$scratch/prompts.txt"

# Samples of words: what is left out and why, what is cut, which tokens are targets; a vocabulary of the data.
words=$scratch/words
mkdir -p $words/in $words/other
printf '%s\n' '{"text":["A","good","Film","with","heart"],"label":"pos"}' \
    '{"text":"the film is the best of it all"}' '{"text":"too short a text"}' '{"text":" "}' \
    '{"text":null}' '{"content":"the film is not the same"}' \
    '{"text":"a [MASK] of the \u00c9T\u00c9"}' > $words/in/a.jsonl
printf '[%s,\n%s]' '{"text":"one of the best of it"}' '{"text":["the","film"]}' > $words/in/b.json
printf 'a line is a film of it\n\nshort\nbad \xff line of the film\n' > $words/in/c.txt
reviews=$(printf '%s\n' '1 7* 11* 8* 12* 13* 2' '1 5* 8* 14* 5* 9* 6* 2' '1 7* 4 6* 5* 16* 2' \
    '1 17* 6* 5* 9* 6* 10* 2')
$pack -o $words/a.st --tokenizer words --format imdb --max-length 8 $words/in/{a.jsonl,b.json} > $scratch/log 2>&1
counts='30 tokens, 21 targets, 1 cut to 8 tokens, 0 left out without a target, 2 with too few words, 2 empty, 1 '
verdict "imdb: short ones out, [SEP] stays when a row is cut, specials are no targets" \
    "$($work/test dump $words/a.st 2>&1 | diff - <(echo "$reviews")
    grep -qF "$counts" $scratch/log || cat $scratch/log)"
counted='{"[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"[MASK]":4,"the":5,"of":6,"a":7,"film":8,"best":9,"it":10,"good":11,'
counted+='"with":12,"heart":13,"is":14,"all":15,"\u00e9t\u00e9":16,"one":17}'
verdict "a vocabulary of the data: by count, then as they first came" \
    "$(tr -d ' \n' < $words/tokenizer.json | diff - <(printf %s "$counted")
    grep -q '13 of 13 words; for gen: model.vocab=18$' $scratch/log || cat $scratch/log)"
for twin in tokenizer tokenizer_hf; do
    $pack -o $words/other/$twin.st --tokenizer $words/$twin.json --format imdb --max-length 8 \
        $words/in/{a.jsonl,b.json} > $scratch/log 2>&1
    verdict "$twin.json packs the same" "$($work/test dump $words/other/$twin.st 2>&1 | diff - <(echo "$reviews"))"
done
$pack -o $words/other/c.st --tokenizer words --vocab 3 --min-words 4 --format corpus --threads 3 $words/in \
    > $scratch/log 2>&1
verdict "corpus: other keys, lines of text, a small vocabulary" \
    "$($work/test dump $words/other/c.st 2>&1 | diff - <(printf '%s\n' '1 6* 3* 3* 3* 3* 2' \
    '1 5* 3* 3* 5* 3* 7* 3* 3* 2' '1 3* 3* 6* 3* 2' '1 5* 3* 3* 3* 5* 3* 2' '1 6* 4 7* 5* 3* 2' \
    '1 3* 7* 5* 3* 7* 3* 2' '1 6* 3* 3* 6* 3* 7* 3* 2')
    grep -q '2 with too few words, 2 empty, 1 not UTF-8;' $scratch/log &&
        grep -q 'model.vocab=8, or 24 for all$' $scratch/log ||
        cat $scratch/log)"
cp $words/tokenizer.json $words/keep.json
$pack -o $words/d.st --tokenizer words --format corpus $words/in/c.txt > $scratch/log 2>&1
verdict "refuses: to write over another vocabulary" "$([ ! -e $words/d.st ] &&
    cmp $words/tokenizer.json $words/keep.json &&
    grep -q 'tokenizer.json exists, with another vocab' $scratch/log || cat $scratch/log)"
mkdir $words/imdb
cp $words/in/a.jsonl $words/imdb/imdb_train.json
cp $words/in/b.json $words/imdb/imdb_test.json
$pack -o $words/other/e.st --tokenizer $words/tokenizer.json --dataset imdb --max-length 8 $words/imdb \
    > $scratch/log 2>&1
verdict "--dataset imdb: training before testing" \
    "$($work/test dump $words/other/e.st 2>&1 | diff - <(echo "$reviews"))"
refuse "another data set" "$good" "--dataset imbd" 'must be imdb or hf, got imbd: did you mean imdb'
refuse "a data set of another format" "$good" "--dataset hf --format imdb" '--format imdb: conflicts with the format corpus given before'
refuse "words for documents" "$good" "--tokenizer words" '--tokenizer words is for the formats imdb and corpus'
refuse "words of standard input" "$good" "--tokenizer words --format imdb -" 'reads its data twice, but standard input'
refuse "--vocab of another tokenizer" "$good" "--vocab 9 --format imdb" '--vocab is for --tokenizer words'
refuse "--min-words for documents" "$good" "--min-words 9" '--min-words is for the formats imdb and corpus'
refuse "a number as text" '{"text":7}' "--format corpus" 'x.jsonl:1: text: must be a string or a list of words'
refuse "a number as word" '{}\n{"text":["a",7]}' "--format imdb" 'x.jsonl:2: text: must be a string or a list of words'
refuse "no room for a word" "$good" "--tokenizer $words/tokenizer.json --format imdb --max-length 2 --min-words 1" \
    'x.jsonl:1: rows of 2 tokens (seq.max, --max-length) leave no room beyond their 2 special tokens'
refuse "words: bad JSON" "{}\n{\"text\":" "--tokenizer words --format imdb" 'x.jsonl:2: byte'
refuse "no sample of words" '{"text":"a b c d"}\n{"t":1}' "--format imdb" \
    'x.jsonl: no usable row (0 without a target, 1 with too few words, 1 without a text)'

# Solutions in steps: values that are none, options that do not go together.
step='"cot_response":"### Step 1:\\na\\n### Step 2:\\nb"'
steps="--steps 2 $chains"
refuse "a label above 1" "{$step,\"cot_steps\":[{\"pi\":1.5}]}" "$steps" \
    'x.jsonl:1: cot_steps\[0\].pi: must be a number from 0 to 1'
refuse "a label below 0" "{$step,\"cot_steps\":{\"3\":{\"pi\":-1}}}" "$steps" \
    'cot_steps\[3\].pi: must be a number from 0 to 1'
refuse "a label that is text" "{$step,\"cot_steps\":[{\"pi\":\"1\"}]}" "$steps" 'cot_steps\[0\].pi: must be a number'
refuse "a label that is a truth" "{$step,\"cot_steps\":[{\"pi\":true}]}" "$steps" 'cot_steps\[0\].pi: must be a number'
refuse "a label too large for a double" "{$step,\"cot_steps\":[{\"pi\":1e999}]}" "$steps" 'x.jsonl:1: byte'
refuse "labels that are a number" "{$step,\"cot_steps\":7}" "$steps" 'x.jsonl:1: cot_steps: must be a list of {"pi"'
refuse "steps that are numbers" "{$step,\"cot_steps\":[1]}" "$steps" 'cot_steps\[0\]: must be an object with pi'
refuse "keys that are no numbers" "{$step,\"cot_steps\":{\"a\":{\"pi\":1}}}" "$steps" \
    'its keys must be numbers, got "a"'
refuse "keys that are one number" "{$step,\"cot_steps\":{\"1\":{\"pi\":1},\"01\":{\"pi\":1}}}" "$steps" \
    'cot_steps: two keys mean the number 1'
refuse "1001 labels" "{$step,\"cot_steps\":[$(printf '{},%.0s' $(seq 1000)){}]}" "$steps" 'cot_steps: .*, at most 1000'
refuse "an outcome between" "{$step,\"meta_label\":0.5}" "$steps" 'x.jsonl:1: meta_label: must be 0 or 1'
refuse "a domain that is a number" "{$step,\"domain\":3}" "$steps" 'x.jsonl:1: domain: must be a string'
refuse "an id that is a list" "{$step,\"id\":[]}" "$steps" 'x.jsonl:1: id: must be a string or a number'
refuse "an id that is rounded" "{$step,\"id\":9007199254740993}" "$steps" \
    'x.jsonl:1: id: numbers from 2^53 on would be rounded'
refuse "two records of one id" "{$step,\"id\":7,\"cot_steps\":[{\"pi\":1}]}\n{$step,\"id\":\"7\",\"cot_steps\":[{\"pi\":1}]}" \
    "$steps" 'x.jsonl:2: id: .*x.jsonl:1 also has "7"'
refuse "an id that is the line of another record" \
    "{$step,\"id\":2,\"cot_steps\":[{\"pi\":1}]}\n{$step,\"cot_steps\":[{\"pi\":1}]}" "$steps" \
    'x.jsonl:2: id: .*x.jsonl:1 also has "2"'
refuse "a problem that is a number" "{$step,\"informal_prefix\":3}" "$steps" 'informal_prefix: must be a string'
refuse "a misspelt key of a label" "{$step,\"metalabel\":0}" "$steps" 'metalabel: did you mean meta_label?'
refuse "a solution that is a list" '{"cot_response":["a"]}' "$steps" 'x.jsonl:1: cot_response: must be a string'
refuse "too few labels of TRL" '{"prompt":"a","completions":["a","b"],"labels":[true]}' "$steps" \
    'x.jsonl:1: labels: must be a list of 2, one per completion'
refuse "labels of TRL as an object" '{"prompt":"a","completions":["a"],"labels":{"a":1}}' "$steps" \
    'labels: must be a list of 1'
refuse "TRL without a prompt" '{"completions":["a"],"labels":[1]}' "$steps" 'x.jsonl:1: prompt: must be a string'
refuse "a step of TRL that is none" '{"prompt":"a","completions":[1],"labels":[1]}' "$steps" \
    'completions\[0\]: must be a string'
refuse "no candidates" '{"candidates":[]}' "$steps" 'x.jsonl:1: candidates: must be a non-empty list of strings'
refuse "candidates that are numbers" '{"candidates":[3]}' "$steps" 'x.jsonl:1: candidates\[0\]: must be a string'
refuse "another number of truths" '{"candidates":["a"],"true_false":[]}' "$steps" 'true_false: must be a list of 1'
refuse "a truth that is none" '{"candidates":["a","b"],"true_false":[true,2]}' "$steps" \
    'true_false\[1\]: must be true or false'
refuse "candidates after solutions" "{$step,\"cot_steps\":[{\"pi\":1}]}\n{\"candidates\":[\"a\"]}" "$steps" \
    'x.jsonl:2: the output is steps, and candidates cannot be part of it'
refuse "no usable solution" "{$step}" "$steps" 'x.jsonl: no usable row (0 without a target, 1 with too few labels)'
refuse "no mark in the tokenizer" "{$step}" "--tokenizer bytes" 'x.jsonl:1: the byte vocabulary has no token to mark steps: give one that has <extra_0>, --tokenizer'
refuse "a mark that bytes get" "{$step}" "--mark-id 257" 'no token <extra_0> can be added to the byte vocabulary: give another one, --tokenizer'
refuse "another id of the mark" "{$step}" "$chains --mark-id 300" 'step mark <extra_0> is token 259 .*, not 300'
refuse "an id that another has" "{$step}" "$chains --mark <x> --mark-id 97" '<x>: the token or its id 97 exists already'
refuse "steps of texts" "$good" "--steps 3" '--steps: no row is a solution in steps'
refuse "one step" "$good" "--steps 1" '--steps: must be 2 to 16, or 0: one step has no mark'
refuse "labels of any number of steps" "$good" "--steps 0 --rewards 2" \
    '--rewards: with --steps 0 every mark needs a label'
refuse "--loss-on for marks" "{$step,\"cot_steps\":[{\"pi\":1}]}" "$steps --loss-on all" \
    '--loss-on all: not for step-labelled solutions, whose targets are always the step marks'
printf '%s\n' "{${step//\\\\/\\},\"cot_steps\":[{\"pi\":1}]}" > $scratch/mark.jsonl
$pack -o $scratch/mark.st --steps 2 --system '' --tokenizer $(tokenizer qwen2) --mark '<new>' --mark-id 900 \
    $scratch/mark.jsonl > $scratch/log 2>&1
verdict "steps: a mark that the model alone has" "$($work/test dump $scratch/mark.st 2>&1 |
    grep -q ' 900\* .* rewards 1 outcome 1 domain -1 id 1$' && grep -aq '"vocab":"901"' $scratch/mark.st ||
    cat $scratch/log)"

# --skip-bad: malformed rows of each format are left out and listed; the others give the records of a file without them.
bad=$scratch/malformed
mkdir $bad
skips() {                       # name, options, two good rows, malformed ones: each a line
    local name=$1 options=$2 n lines
    sed 1,2d $bad/rows > $bad/own
    {                            # what is no JSON, whatever the format
        sed -n '1s/"}*$//p' $bad/rows
        sed -n '1s/":/" /p' $bad/rows
        printf '{"text":"a \\ud800"}\n{"text":"\\u0000"}\n{"text":"a\0b"}\n{"text":"a\xff"}\n{"text":NaN}\n'
    } | cat - $bad/own > $bad/all
    n=$(wc -l < $bad/all)
    { sed -n 1p $bad/rows; cat $bad/all; sed -n 2p $bad/rows; } > $bad/x.jsonl
    sed -n 1,2p $bad/rows > $bad/good.jsonl
    $pack -o $bad/good.st $options $bad/good.jsonl > $scratch/log 2>&1 || cat $scratch/log
    $pack -o $bad/x.st $options --skip-bad $n $bad/x.jsonl > $bad/log 2>&1 || cat $bad/log
    $work/test dump $bad/good.st | sed 's/ id 2$/ id '$((n + 2))'/' > $bad/want
    $work/test dump $bad/x.st | diff $bad/want - | head -n 4
    grep -q "^$n malformed rows are left out (--skip-bad $n):" $bad/log || echo "not $n of them"
    lines=$(sed -n "s|^  $bad/x.jsonl:\([0-9]*\): .*|\1|p" $bad/log)
    [ "$lines" = "$(seq 2 $((n + 1)))" ] || echo "lines $lines"
    grep -aq "\"dropped_malformed\":\"$n\",\"malformed\":\"1:2 1:3 1:4 .* 1:$((n + 1))\"" $bad/x.st || echo metadata
    $pack -o $bad/y.st $options --skip-bad $((n - 1)) $bad/x.jsonl > $bad/log 2>&1
    [ $? = 1 ] && grep -q "x.jsonl:$((n + 1)): .*; --skip-bad $((n - 1)) is used up by $bad/x.jsonl:2, .* more: " $bad/log ||
        cat $bad/log
    [ ! -e $bad/y.st ] || echo written
    tr -d '\n' < $bad/rows | grep -q . || echo "no rows"
}
skipped() { verdict "--skip-bad: $1" "$(cat > $bad/rows; skips "$@" 2>&1)"; }
qwen="--tokenizer $(tokenizer qwen2)"
skipped "texts" "" << 'END'
{"text":"a"}
{"text":"b"}
{"text":7}
{"text":""}
END
skipped "messages" "$qwen" << 'END'
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"messages":[]}
{"messages":null}
{"messages":[{"role":"user","content":"a"},{"role":"bot","content":"b"}]}
{"messages":[{"role":"user","content":"a"},{"content":"b"}]}
{"messages":[{"role":"user","content":"a"}]}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":7}]}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","masked":[[1,0]]}]}
[{"role":"user","content":"a"},{"role":"user","content":"b"}]
END
skipped "conversations" "$qwen" << 'END'
{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}
{"conversations":[{"from":"human","value":"c"},{"from":"gpt","value":"d"}]}
{"conversations":[]}
{"conversations":[{"from":"human","value":"a"},{"from":"robot","value":"b"}]}
{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":null}]}
END
skipped "roles in turn" "--tokenizer $(tokenizer llama2) --chat llama-2" << 'END'
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]}
END
skipped "prompts" "$qwen" << 'END'
{"prompt":"a","completion":"b"}
{"prompt":"c","completion":"d"}
{"prompt":"a","completion":7}
{"prompt":["a"],"completion":"b"}
{"prompt":"a","completion":null}
{"prompt":"a","completion":"b","completion_masked":7}
{"prompt":"a","completion":"b","system":7}
END
skipped "Alpaca's rows" "$qwen" << 'END'
{"instruction":"a","output":"b"}
{"instruction":"c","input":"d","output":"e"}
{"instruction":"a","output":7}
{"instruction":"a","input":7,"output":"b"}
{"instruction":"a","output":"b","history":["a"]}
END
skipped "pairs" "$qwen" << 'END'
{"prompt":"a","chosen":"b","rejected":"c"}
{"prompt":"d","chosen":"e","rejected":"f"}
{"prompt":"a","chosen":"b","rejected":7}
{"prompt":"a","chosen":[{"role":"bot","content":"b"}],"rejected":[{"role":"assistant","content":"b"}]}
END
skipped "solutions in steps" "--kind steps $steps" << 'END'
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":[{"pi":1}],"domain":"x"}
{"cot_response":"### Step 1:\nc\n### Step 2:\nd","cot_steps":[{"pi":0.5}],"domain":"y"}
{"cot_response":7,"domain":"z"}
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":[{"pi":2}],"domain":"z"}
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":7}
END
skipped "stepwise labels" "--kind steps $steps" << 'END'
{"prompt":"a","completions":["b"],"labels":[true]}
{"prompt":"a","completions":["c"],"labels":[false]}
{"prompt":"a","completions":["b"],"labels":[true,false]}
{"prompt":"a","completions":[7],"labels":[true]}
{"prompt":7,"completions":["b"],"labels":[true]}
END
skipped "candidates, some of a row already read" "--kind candidates $steps" << 'END'
{"candidates":["### Step 1:\na\n### Step 2:\nb"],"true_false":[true],"id":"x"}
{"candidates":["### Step 1:\nc\n### Step 2:\nd"],"true_false":[false],"id":"y"}
{"candidates":["### Step 1:\na\n### Step 2:\nb",7]}
{"candidates":[]}
END
skipped "windows" "--format windows --max-length 4" << 'END'
{"text":"abcd"}
{"text":"efghij"}
{"text":7}
END
skipped "answers" "$qwen --format answers" << 'END'
{"prompt":"a","response":"b"}
{"prompt":"c","response":"d"}
{"prompt":"a","response":7}
{"messages":[{"role":"bot","content":"a"}]}
END
skipped "words" "--format corpus --min-words 1 --tokenizer $words/tokenizer.json" << 'END'
{"text":"the film"}
{"content":"the best"}
{"text":[7]}
END
still() {                       # name, a row, the message: it stops the pack whatever --skip-bad says
    printf '%s\n' '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}' "$2" > $bad/x.jsonl
    $pack -o $bad/y.st $qwen --skip-bad 9 $bad/x.jsonl > $bad/log 2>&1
    verdict "--skip-bad: not $1" "$([ $? = 1 ] && grep -q "x.jsonl:[12]: $3" $bad/log || cat $bad/log)"
}
still "rows of no format" '{"question":"a"}' 'needs the keys'
still "an answer without its prompt" '{"completion":"a"}' 'prompt: must be a string'
still "one answer of a pair" '{"prompt":"a","chosen":"b"}' 'rejected: must be a string'
still "a message by itself" '{"role":"user","content":"a"}' 'a single message: a row must be a list'
still "a number" 7 'must be a JSON object'
still "rows of another kind" '{"prompt":"a","chosen":"b","rejected":"c"}' 'the output is rows, and pairs cannot be part of it'
still "keys that would be dropped" '{"text":"a","tools":"b"}' 'these keys would be dropped'
still "pictures" '[{"role":"user","content":[{"type":"image_url"}]}]' 'content: part 1 is of the type image_url'
still "calls of tools" '{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}' 'tool_calls: tool calls'
printf '[{"text":"a"},\n{"text":"b" 7},\n{"text":"c"}]' > $bad/array.json
$pack -o $bad/a.st --skip-bad 1 - < $bad/array.json > $bad/log 2>&1
verdict "--skip-bad: of an array, of standard input" "$($work/test dump $bad/a.st | diff - <(printf '97* 256*\n99* 256*\n')
    grep -qx '  standard input:2: byte 12: expected , or }' $bad/log || cat $bad/log)"
printf 'the film\nthe \0 best\nthe best\n' > $bad/lines.txt
$pack -o $bad/l.st --format corpus --min-words 1 --tokenizer $words/tokenizer.json --skip-bad 1 $bad/lines.txt \
    > $bad/log 2>&1
verdict "--skip-bad: of lines" "$($work/test dump $bad/l.st | diff - <(printf '1 5* 8* 2\n1 5* 9* 2\n')
    grep -qx "  $bad/lines.txt:2: byte 4 is 0: binary data, not lines of text" $bad/log || cat $bad/log)"
printf '{"text":"a"}\n7"\n{"text":"b"}\n7"\n' > $bad/show.jsonl
$pack --show 2 --skip-bad 9 $bad/show.jsonl > $bad/log 2>&1
verdict "--skip-bad: rows that are not shown are not judged" "$(grep -q '^1 malformed row is left out (--skip-bad 9):' \
    $bad/log || cat $bad/log)"
echo '{"text":"a"}' > $bad/one.jsonl
$pack -o $bad/two.st --skip-bad 2 $bad/one.jsonl $bad/array.json $bad/array.json > $bad/log 2>&1
verdict "--skip-bad: rows of several files" "$(grep -aq '"malformed":"2:2 3:2"' $bad/two.st || cat $bad/log)"
seq -f '{"text":"%g"}' 30000 | sed '7000s/}//; 20000s/}//; 29999s/"text"/text/' > $bad/long.jsonl
for threads in 1 3; do
    $pack -o $bad/t$threads.st --threads $threads --skip-bad 3 $bad/long.jsonl > $bad/log$threads 2>&1
    $pack -o $bad/y.st --threads $threads --skip-bad 2 $bad/long.jsonl >> $bad/log$threads 2>&1
done
verdict "--skip-bad: with any number of threads" "$(cmp $bad/t1.st $bad/t3.st
    diff <(sed s/t1.st// $bad/log1) <(sed s/t3.st// $bad/log3)
    grep -c 'long.jsonl:\(7000\|20000\): byte\|long.jsonl:29999: .*--skip-bad 2 is used up by ' $bad/log1 | grep -vx 3)"
one() { $pack -o $bad/f.st "$@" $bad/long.jsonl > $bad/log 2>&1 && grep -ao '"fingerprint":"[0-9a-f]*"' $bad/f.st; }
sed -i 's/^{"text":"20000"$/{"text":"20000"}/; s/{text:/{"text":/' $bad/long.jsonl
first=$(one --skip-bad 1) second=$(one --skip-bad 5)
sed -i '7000s/$/}/' $bad/long.jsonl
verdict "--skip-bad: the fingerprint says what was left out" "$([ -n "$first" ] && [ "$first" = "$second" ] || echo "$first $second"
    [ "$(one --skip-bad 5)" = "$(one)" ] || echo 'nothing was left out')"
$pack -o $bad/f.st --skip-bad 1 $scratch/a.txt > $bad/log 2>&1
verdict "--skip-bad: texts have no rows" "$(grep -q '^gen: pack: --skip-bad: these files are texts' $bad/log || cat $bad/log)"

printf 'a\0b' > $scratch/zero.txt
refuse "a text with zeros" "$good" "$scratch/zero.txt" 'zero.txt: byte 1 is 0: binary data'
refuse "--kind rows for a text file" "$good" "--kind rows $scratch/a.txt" 'a.txt: a text file has no rows'
refuse "a text file after prompts" '{"text":"a"}' "$scratch/prompts.jsonl $scratch/a.txt" \
    'a.txt: a text file is a document without rows'
refuse "--loss-on assistant for a text file" "$good" "--loss-on assistant $scratch/a.txt" \
    'a.txt: --loss-on: a text has no answers'
printf 'a,text\n1,"x, ""y"""\n' > $scratch/t.csv
refuse "CSV" "$good" "$scratch/t.csv" 'csv.DictReader'
if command -v python3 > /dev/null; then
    (eval "$(sed -n 's/.*this converts it: //p' $scratch/log)")
    verdict "the line for CSV converts" "$(printf '{"a": "1", "text": "x, \\"y\\""}\n' | diff - $scratch/t.csv.jsonl)"
fi
# Folders with their subfolders, by name; of aclImdb only the reviews, train before test; a folder of data that has to
# be converted names one command for all of it.
acl=$scratch/aclImdb
mkdir -p $acl/{train,test}/{neg,pos}
for file in train/neg/10_2 train/neg/1_2 train/pos/0_9 test/neg/0_1 test/pos/0_8; do
    printf 'the film %s' $file > $acl/$file.txt
done
for other in README imdbEr.txt train/urls_pos.txt test/urls_neg.txt; do echo "no review at all" > $acl/$other; done
order='train/neg/10_2 train/neg/1_2 train/pos/0_9 test/neg/0_1 test/pos/0_8'
$pack --show 9 $acl 2> $bad/log | sed -n "s|^$acl/\(.*\).txt: a text|\1|p" > $bad/got
verdict "aclImdb: reviews by name, those to train on first" "$(diff $bad/got <(tr ' ' '\n' <<< "$order"))"
verdict "aclImdb: what is told" "$(diff $bad/log - << END
gen pack: note: $acl: 5 files, subfolders included
gen pack: note: $acl: 4 files are not read: only .jsonl, .ndjson, .json and .txt are; of aclImdb only pos, neg and unsup are read
END
)"
$pack --show 9 --dataset imdb --min-words 3 --tokenizer $words/tokenizer.json $acl 2> /dev/null |
    sed -n "s|^$acl/\(.*\).txt:1: reviews.*|\1|p" > $bad/got
verdict "aclImdb: --dataset imdb" "$(diff $bad/got <(tr ' ' '\n' <<< "$order"))"
folder=$scratch/nested
mkdir -p $folder/b/c $folder/a
printf '{"text":"1"}' > $folder/a/2.jsonl
printf '{"text":"2"}' > $folder/b/1.json
printf '{"text":"3"}' > $folder/b/c/1.jsonl
printf '{"text":"4"}' > $folder/c.jsonl
printf '{"dataset":{}}' > $folder/dataset_infos.json
mkdir $folder/.hidden
echo x > $folder/.hidden/x.txt
$pack -o $bad/f.st $folder > $bad/log 2>&1
verdict "a folder of folders, by name" "$($work/test dump $bad/f.st | cut -d '*' -f 1 | tr '\n' ' ' | grep -vx '49 50 51 52 ')"
ln -s .. $folder/b/up
refuse "a folder in itself" "$good" "$folder" 'nested/b/up/.*: more than 16 nested folders: is one a link to a parent?'
mkdir -p $scratch/{shards/data,saved,both,gz,stream}
printf PAR1 > $scratch/shards/data/train-00000-of-00002.parquet
touch $scratch/shards/README.md $scratch/both/dataset_dict.json $scratch/{saved,stream}/dataset_info.json \
    $scratch/saved/state.json $scratch/gz/x.jsonl.gz
printf '\xff\xff\xff\xff\x10\0\0\0' > $scratch/stream/x-train.arrow
converts() {                    # folder, what it holds, the command that converts it; SET stands for the folder
    $pack -o $scratch/out.st $scratch/$1 > $scratch/log 2>&1
    verdict "a folder that is converted: $1" "$(diff $scratch/log <(printf '%s, but gen pack reads text and JSON rows; '\
'this converts it: %s\n' "$2" "$3" | sed "s#SET#$scratch/${1%/}#g"))"
}
shards="python3 -c \"import glob, pandas; [print(pandas.read_parquet(f).to_json(orient='records', lines=True).strip())"
shards+=" for f in sorted(glob.glob('SET/**/*.parquet', recursive=True))]\" > SET.jsonl"
converts shards 'SET: a folder of Parquet data' "$shards"
converts shards/ 'SET/: a folder of Parquet data' "$shards"
converts saved "SET: a folder of datasets' save_to_disk" \
    "python3 -c \"import datasets; datasets.load_from_disk('SET').to_json('SET.jsonl')\""
both="python3 -c \"import datasets; [d.to_json('SET.' + k + '.jsonl') for k, d in "
converts both "SET: a folder of datasets' save_to_disk" "${both}datasets.load_from_disk('SET').items()]\""
stream="python3 -c \"import datasets; datasets.Dataset.from_file('SET/x-train.arrow')"
converts stream 'SET/x-train.arrow: Arrow data' "$stream.to_json('SET/x-train.arrow.jsonl')\""
converts gz 'SET/x.jsonl.gz: gzip data' 'zcat SET/x.jsonl.gz | gen pack ... -'
cp $scratch/a.txt $scratch/keep.txt
$pack -o $scratch/keep.txt $scratch/a.txt > $scratch/log 2>&1
verdict "refuses: to write over a text" "$(grep -q 'exists and is not a token file' $scratch/log &&
    cmp $scratch/a.txt $scratch/keep.txt || cat $scratch/log)"
$pack $scratch/a.txt > $scratch/log 2>&1
verdict "refuses: no -o" "$(grep -q 'needs -o OUT.safetensors, or --show N' $scratch/log || cat $scratch/log)"
head -c 17000000 /dev/zero | tr '\0' ' ' > $scratch/long.jsonl
$pack -o $scratch/out.st $scratch/long.jsonl > $scratch/log 2>&1
verdict "refuses: a line of 17 MB" "$(grep -q 'long.jsonl:1: line longer than 16 MiB' $scratch/log || cat $scratch/log)"
printf '{"text":"a"}\r\n\r\n \n{"text":"b"}' > $scratch/crlf.jsonl
$pack -o $scratch/c.st $scratch/crlf.jsonl > $scratch/log 2>&1
verdict "CRLF, blank lines and a last line without its end are fine" \
    "$($work/test dump $scratch/c.st | diff - <(printf '97* 256*\n98* 256*\n'))"
verdict "nothing is left next to the output" "$(ls $scratch | grep -e '\.tmp' -e 'st\.')"
exit $failed
