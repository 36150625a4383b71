# shellcheck shell=bash disable=SC2154
# templates.sh -- chat templates of models, with tools: rows, targets, errors; Jinja's functions. Sourced by run.sh.

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
