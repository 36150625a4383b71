# shellcheck shell=bash
# tiny_tokenizer.sh -- tokenizer files for models of 257 tokens; for scripts that stand in the project's root.

# tiny_tokenizer FOLDER: byte-level BPE of single characters of ASCII, ChatML's tokens, and its template
tiny_tokenizer() {
    local chars added='{"id":%d,"content":"%s","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}'
    chars=$(awk 'BEGIN { for (i = 33; i < 127; i++) { c = sprintf("%c", i); if (c == "\"" || c == "\\") c = "\\" c
        printf "\"%s\":%d,", c, i - 33 } print "\"Ġ\":94,\"Ċ\":95" }')
    # shellcheck disable=SC2059
    printf "{\"version\":\"1.0\",\"added_tokens\":[$added,$added,$added],\"normalizer\":null,\"pre_tokenizer\":%s,
\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},
\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,
\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{%s},\"merges\":[]}}\n" \
        254 '<|im_start|>' 255 '<|im_end|>' 256 '<|endoftext|>' \
        '{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}' "$chars" >"$1/tokenizer.json"
    cat >"$1/tokenizer_config.json" <<'END'
{"eos_token":"<|im_end|>","chat_template":"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}
END
}
