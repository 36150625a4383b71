# shellcheck shell=bash disable=SC2154
# refused.sh -- input that gen pack refuses, or mentions in its summary: each message in full. Sourced by run.sh.

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
# Mistral's, which writes bos_token and eos_token, with any values
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
verdict "turns before some prompts are reported" "$(grep -q '^1 row has system or history and became a conversation; the others do not use' \
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
verdict "keys that the suggested command leaves out" "$(grep -qx 'metadata, not used: id: 2, source: 1, name: 1' \
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

# Answers whose beginning is no target: one line for all rows. A call is an answer, and an earlier one is no target.
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
refuse "no mark in the tokenizer" "{$step}" "--tokenizer bytes" 'x.jsonl:1: the byte vocabulary has no token to mark steps: use a tokenizer that has <extra_0>, --tokenizer'
refuse "a mark that bytes get" "{$step}" "--mark-id 257" 'no token <extra_0> can be added to the byte vocabulary: use another tokenizer, --tokenizer'
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
