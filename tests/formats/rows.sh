# shellcheck shell=bash disable=SC2154
# rows.sh -- rows of gen pack against TRL's rules and the models' own chat templates; blocks, threads, other
# spellings. Sourced by run.sh.

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
