# shellcheck shell=bash
# tiny_tokenizer.sh -- tokenizer files for models of 257 tokens; for scripts that stand in the project's root.

# tiny_tokenizer FOLDER: byte-level BPE of single characters of ASCII, 158 tokens that no text has (added ones are
# numbered after the vocabulary), ChatML's tokens, and its template
tiny_tokenizer() {
    local chars added id=254 token
    chars=$(awk 'BEGIN { for (i = 33; i < 127; i++) { c = sprintf("%c", i); if (c == "\"" || c == "\\") c = "\\" c
        printf "\"%s\":%d,", c, i - 33 } printf "\"Ġ\":94,\"Ċ\":95"
        for (i = 96; i < 254; i++) printf ",\"~%d\":%d", i, i }')
    for token in '<|im_start|>' '<|im_end|>' '<|endoftext|>'; do
        added+=${added:+,}'{"id":'$id',"content":"'$token'","single_word":false,"lstrip":false,"rstrip":false,'
        added+='"normalized":false,"special":true}'
        id=$((id + 1))
    done
    cat >"$1/tokenizer.json" <<END
{"version":"1.0","added_tokens":[$added],"normalizer":null,
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"post_processor":null,
"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{$chars},"merges":[]}}
END
    printf '{"eos_token":"<|im_end|>","chat_template":"%s%s%s%s"}\n' \
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + " \
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}" \
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant" "\\n' }}{% endif %}" >"$1/tokenizer_config.json"
}
