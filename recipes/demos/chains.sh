#!/bin/bash
# Data for process reward models: chains of five sums, "x op y = z", each of which begins with the result of the one
# before. In half of them one step, from the second on, is wrong by 1 to 3, and later steps continue from it. Its label
# and those of all later steps are 0. Labels of noisy records are random and differ from the right ones; a key, which is
# not trained on, marks these records. The last step has no mark, so an error in it alone cannot be found: meta
# records and candidates have none there, because right marks of a solution that is called wrong suggest a noisy record.
#
#   chains.sh train N SEED [NOISY]       N records to train on; of NOISY (0.5) of them the labels are drawn. Of
#                                        "a=0.1,b=0.5,c=0.9" as many from each domain, noisy by that share
#   chains.sh meta N SEED                the same, all of them right
#   chains.sh candidates N SEED [K]      N problems with K (8) solutions each, which of them are right
#   chains.sh sheets N SEED              texts to tune a base on: exercises, marked "y" or "n" after most steps: half of
#                                        them chains, "n" from the wrong step on, the others single sums
#   chains.sh tokenizer DIR              DIR/tokenizer.json: 256 bytes, then <|endoftext|>, <|im_start|>, <|im_end|>,
#                                        <extra_0>; ChatML as a conversation's format
# With MOST=9 in the environment numbers are from 1 to 9; sums have no blanks, and no problem statement is given.
set -u

usage() {
    sed -n '8,16s/^# \{0,3\}//p' "$0" >&2
    exit 2
}

# Lines of JSON; with a generator of its own, because rand() differs between awks.
chains() {              # KIND N SEED NOISY-OR-K
    awk -v kind="$1" -v n="$2" -v x="$3" -v more="$4" -v most="${MOST:-}" '
        function pick(m) { x = x * 16807 % 2147483647; return 1 + int(x / 2147483647 * m) }
        function result(value, op, y) { return op == "+" ? value + y : op == "-" ? value - y : value * y }
        function fits(z) { return !most || (z >= 1 && z <= most) }
        function off(z,  w) {
            do w = z + (pick(2) == 1 ? 1 : -1) * pick(3)
            while (!fits(w))
            return w
        }
        # steps of a chain that begins with `value`, the first that is wrong in `fault` (6: none)
        function chain(value, wrong,  s, op, y, z, all, blank) {
            fault = wrong ? 1 + pick(kind == "train" ? 4 : 3) : 6
            blank = most ? "" : " "
            for (s = 1; s <= 5; s++) {
                op = ops[s]
                y = values[s]
                while (!fits(z = result(value, op, y))) {       # a number of its own for each solution
                    op = substr("+-*", pick(3), 1)
                    y = 1 + pick(8)
                }
                if (s == fault) z = off(z)
                all = all "### Step " s ":\\n" value blank op blank y blank "=" blank z "\\n"
                value = z
            }
            return all
        }
        # exercises with marks after most of them: a chain, or independent sums
        function sheet(single,  s, value, op, y, z, bad, all) {
            fault = pick(6)
            value = 1 + pick(8)
            for (s = 1; s <= 5; s++) {
                if (single) value = pick(most)
                do {
                    op = substr("+-*", pick(3), 1)
                    y = 1 + pick(8)
                } while (!fits(z = result(value, op, y)))
                bad = single ? pick(2) == 1 : s == fault
                if (bad) z = off(z)
                all = all value op y "=" z (single ? ";" : "<extra_0>")
                if (pick(10) <= 6) all = all ((single ? bad : s >= fault) ? "n" : "y")
                value = z
            }
            return all
        }
        # the problem: the first number, five operations
        function draw(  s, text) {
            start = 1 + pick(8)
            text = start
            for (s = 1; s <= 5; s++) {
                ops[s] = substr("+-*", pick(3), 1)
                values[s] = 1 + pick(8)
                text = text " " ops[s] " " values[s]
            }
            return text
        }
        # noisy: drawn ones, not all 0, and not those that are right
        function labels(noisy,  s, list, any, wrong, bit) {
            do {
                list = ""
                any = wrong = !noisy
                for (s = 1; s <= 4; s++) {
                    bit = noisy ? pick(2) - 1 : (s < fault)
                    any = any || bit
                    wrong = wrong || bit != (s < fault)
                    list = list (s > 1 ? "," : "") "{\"pi\":" bit "}"
                }
            } while (!any || !wrong)
            return list
        }
        BEGIN {
            if (x !~ /^[0-9]+$/ || x < 1 || n !~ /^[0-9]+$/ || n < 1) exit 2
            for (k = 0; k < 9; k++) pick(2)
            domains = more ~ /=/ ? split(more, share, ",") : 0
            for (k = 1; k <= domains; k++) {
                split(share[k], pair, "=")
                name[k] = pair[1]
                share[k] = pair[2]
            }
            for (i = 1; i <= n; i++) {
                if (kind == "sheets") {
                    printf "{\"messages\":[{\"role\":\"user\",\"content\":\"Problem\"},"
                    printf "{\"role\":\"assistant\",\"content\":\"%s\"}]}\n", sheet(pick(2) == 1)
                    continue
                }
                problem = draw()
                if (most) problem = "Problem"
                if (kind == "candidates") {
                    texts = truth = ""
                    for (k = 1; k <= more; k++) {
                        texts = texts (k > 1 ? "," : "") "\"" chain(start, pick(2) == 1) "\""
                        truth = truth (k > 1 ? "," : "") (fault == 6 ? "true" : "false")
                    }
                    printf "{\"id\":\"%d\",\"informal_prefix\":\"%s\",\"candidates\":[%s],\"true_false\":[%s]}\n", i,
                        problem, texts, truth
                    continue
                }
                k = domains ? 1 + (i - 1) % domains : 0
                noisy = kind == "train" && pick(1000000) <= 1000000 * (domains ? share[k] : more)
                text = chain(start, pick(2) == 1)
                printf "{\"id\":\"%d\",\"informal_prefix\":\"%s\",\"cot_response\":\"%s\",\"cot_steps\":[%s],", i,
                    problem, text, labels(noisy)
                printf "\"meta_label\":%d%s%s}\n", fault == 6, domains ? ",\"domain\":\"" name[k] "\"" : "",
                    kind == "train" ? ",\"noisy\":" (noisy ? "true" : "false") : ""
            }
        }' </dev/null
}

# A byte-level vocabulary without merges: each byte is the token of its own number, spelt as GPT-2 does.
tokenizer() {           # DIR
    mkdir -p "$1" || exit 1
    awk '
        function added(id, text) {
            return "{\"id\":" id ",\"content\":\"" text "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false," \
                "\"normalized\":false,\"special\":true}"
        }
        BEGIN {
            split("<|endoftext|> <|im_start|> <|im_end|> <extra_0>", special, " ")
            level = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
            printf "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
            for (i = 1; i <= 4; i++) printf "%s%s", (i > 1 ? "," : ""), added(255 + i, special[i])
            printf "],\"normalizer\":null,\"pre_tokenizer\":%s,\"post_processor\":null,\"decoder\":%s,", level, level
            printf "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
            printf "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{"
            for (b = 0; b < 256; b++) {
                own = (b > 32 && b < 127) || (b > 160 && b != 173)
                printf "%s\"\\u%04x\":%d", (b ? "," : ""), own ? b : 256 + others++, b
            }
            printf "},\"merges\":[]}}\n"
        }' </dev/null >"$1/tokenizer.json" &&
        cat >"$1/tokenizer_config.json" <<'END'
{
  "eos_token": "<|im_end|>",
  "pad_token": "<|endoftext|>",
  "tokenizer_class": "PreTrainedTokenizerFast"
}
END
}

case ${1:-} in
    train) [ $# -ge 3 ] || usage
        chains train "$2" "$3" "${4:-0.5}" || usage ;;
    meta) [ $# = 3 ] || usage
        chains meta "$2" "$3" 0 || usage ;;
    candidates) [ $# -ge 3 ] || usage
        chains candidates "$2" "$3" "${4:-8}" || usage ;;
    sheets) [ $# = 3 ] && [ -n "${MOST:-}" ] || usage
        chains sheets "$2" "$3" "" || usage ;;
    tokenizer) [ $# = 2 ] || usage
        tokenizer "$2" || exit 1 ;;
    *) usage ;;
esac
