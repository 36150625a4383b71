/* refused.c -- tokenizer files that must be refused, and why. */
#define _GNU_SOURCE
#include "tests.h"
#include "../../runtime/base.h"
#include "../../runtime/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define UNIGRAM(vocab, rest) "{\"model\":{\"type\":\"Unigram\",\"vocab\":" vocab "}" rest "}"
#define META ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\""
#define REPLACE(pattern) \
    BPE(AB, ",\"normalizer\":{\"type\":\"Replace\",\"content\":\"b\",\"pattern\":" pattern "}")
#define UNK(token) "\"unk_token\":\"" token "\""
#define WORDS(model, rest) "{\"model\":{\"type\":\"WordLevel\"," model "}" rest "}"

static const struct {
    const char *name, *json, *why;
} refused[] = {
    {"empty vocabulary", FILE_OF("\"vocab\":{},\"merges\":[]", ""),
     "model.vocab: must be a non-empty object of token: id"},
    {"negative id", FILE_OF("\"vocab\":{\"a\":-1},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"id of 2^31", FILE_OF("\"vocab\":{\"a\":2147483648},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"fraction as id", FILE_OF("\"vocab\":{\"a\":1.0},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"id twice", FILE_OF("\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]", ""),
     "model.vocab: id 1 belongs to two tokens"},
    {"token twice", FILE_OF("\"vocab\":{\"a\":1,\"\\u0061\":2},\"merges\":[]", ""),
     "key given twice"},
    {"merge of absent token", FILE_OF("\"vocab\":{\"a\":0},\"merges\":[\"a b\"]", ""),
     "model.merges[0]: the right token is not in the vocabulary"},
    {"merge with absent result",
     FILE_OF("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[[\"a\",\"b\"]]", ""),
     "model.merges[0]: the result is not in the vocabulary"},
    {"merge of three", FILE_OF("\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]", ""),
     "model.merges[0]: must be two tokens"},
    {"merges missing", FILE_OF("\"type\":\"BPE\",\"vocab\":{\"a\":0}", ""), "model.merges: must be a list"},
    {"no type, no keys", FILE_OF("\"vocab\":{\"a\":0}", ""), "its keys match none of BPE"},
    {"no type, no list", FILE_OF("\"vocab\":{\"a\":0},\"merges\":null", ""), "model: has no type, and its keys"},
    {"a type that is null", FILE_OF(AB ",\"type\":null", ""),
     "model.type: must be BPE, Unigram, WordPiece or WordLevel, got null"},
    {"Digits without its word", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"Digits\"}"),
     "pre_tokenizer: Digits: individual_digits: must be true or false"},
    {"dropout", FILE_OF(AB ",\"dropout\":0.1", ""),
     "model.dropout: ids would differ from one run to the next; set it to null"},
    {"byte_fallback", FILE_OF(AB ",\"byte_fallback\":true", ""),
     "model.byte_fallback: not supported for byte-level BPE"},
    {"prefix", FILE_OF(AB ",\"continuing_subword_prefix\":\"##\"", ""),
     "model.continuing_subword_prefix: not supported for BPE"},
    {"suffix", BPE(AB ",\"end_of_word_suffix\":\"</w>\"", ""),
     "model.end_of_word_suffix: not supported for BPE"},
    {"another model", FILE_OF(AB ",\"type\":\"Other\"", ""),
     "model.type: must be BPE, Unigram, WordPiece or WordLevel, got Other"},
    {"Unigram with a vocabulary of BPE", FILE_OF(AB ",\"type\":\"Unigram\"", ""),
     "model.vocab: must be a non-empty list of [token, score]"},
    {"Unigram without a score", UNIGRAM("[[\"a\",-1],[\"b\"]]", ""),
     "model.vocab[1]: must be [token, score]"},
    {"Unigram: token twice", UNIGRAM("[[\"a\",-1],[\"b\",-1],[\"a\",-2]]", ""),
     "model.vocab[0]: a given twice"},
    {"Unigram: empty token", UNIGRAM("[[\"a\",-1],[\"\",-1]]", ""), "model.vocab: id 1: empty token"},
    {"Unigram: unknown beyond", UNIGRAM("[[\"a\",-1]],\"unk_id\":1", ""),
     "model.unk_id: must be an id below 1"},
    {"Unigram at random", UNIGRAM("[[\"a\",-1]],\"alpha\":0.1", ""),
     "model.alpha: ids would differ from one run to the next"},
    {"Unigram after ByteLevel",
     UNIGRAM("[[\"a\",-1]]", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
     "pre_tokenizer: ByteLevel goes with model BPE"},
    {"bytes before a split",
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"use_regex"
     "\":false},{\"type\":\"Whitespace\"}]},\"model\":{" AB "}}",
     "pre_tokenizer: Whitespace after ByteLevel, which must be the last"},
    {"words without unknown", WORDS("\"vocab\":{\"a\":0}", ""), "model.unk_token: must be the token of"},
    {"words' absent unknown", WORDS(UNK("?") ",\"vocab\":{\"a\":0}", ""),
     "model.unk_token: ? is not in the vocabulary"},
    {"words: id twice", WORDS(UNK("a") ",\"vocab\":{\"a\":1,\"b\":1}", ""),
     "model.vocab: id 1 belongs to two tokens"},
    {"words: huge id", WORDS(UNK("a") ",\"vocab\":{\"a\":4294967296}", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"words: empty token", WORDS(UNK("a") ",\"vocab\":{\"a\":0,\"\":7}", ""),
     "model.vocab: id 7: empty token"},
    {"words: no vocabulary", WORDS(UNK("a"), ""), "model.vocab: must be a non-empty object of token: id"},
    {"parts without prefix",
     "{\"model\":{\"type\":\"WordPiece\"," UNK("a") ",\"vocab\":{\"a\":0}}}",
     "model.continuing_subword_prefix: must be a text"},
    {"parts without a longest word",
     "{\"model\":{\"type\":\"WordPiece\"," UNK("a") ",\"vocab\":{\"a\":0},"
     "\"continuing_subword_prefix\":\"##\"}}", "model.max_input_chars_per_word: must be an integer"},
    {"words after ByteLevel",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
     "pre_tokenizer: ByteLevel goes with model BPE"},
    {"words' decoder",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"decoder\":{\"type\":\"ByteLevel\"}"),
     "decoder: must be WordPiece, Fuse, ByteFallback, Replace, Strip, Metaspace or a Sequence of them, "
     "got ByteLevel"},
    {"a token that normalises to nothing",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"normalizer\":{\"type\":\"StripAccents\"},"
           "\"added_tokens\":[{\"id\":1,\"content\":\"\\u0301\",\"normalized\":true}]"),
     "is empty when normalised"},
    {"an empty Split",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
           "{\"String\":\"\"},\"behavior\":\"Isolated\",\"invert\":false}"),
     "pre_tokenizer: Split: the pattern must be a Regex or a String, not empty"},
    {"an unknown behavior",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"Punctuation\","
           "\"behavior\":\"isolated\"}"), "pre_tokenizer: behavior: must be Isolated, Removed"},
    {"BertNormalizer without a field",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"normalizer\":{\"type\":\"BertNormalizer\"}"),
     "normalizer: BertNormalizer: clean_text: must be true or false"},
    {"absent unknown token", FILE_OF(AB ",\"unk_token\":\"?\"", ""),
     "model.unk_token: ? is not in the vocabulary"},
    {"added token under another id",
     FILE_OF(AB, ",\"added_tokens\":[{\"id\":7,\"content\":\"ab\"}]"),
         "added_tokens: ab: id 7, but the vocabulary gives it"},
    {"added token on a taken id", FILE_OF(AB, ",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]"),
     "added_tokens: x: id 1, but Hugging Face tokenizers numbers added tokens consecutively after the vocabulary (3 "
     "tokens) and gives it 3: change the id"},
    {"added token where the vocabulary has a gap",
     FILE_OF("\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]", ",\"added_tokens\":[{\"id\":2,\"content\":\"x\"}]"),
     "added_tokens: x: id 2 is another token in the vocabulary"},
    {"added token after a gap", FILE_OF(AB, ",\"added_tokens\":[{\"id\":70000,\"content\":\"x\"}]"),
     "added_tokens: x: id 70000, but Hugging Face tokenizers numbers"},
    {"added id twice", FILE_OF(AB,
                               ",\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content"
                               "\":\"y\"}]"), "added_tokens: y: id 3, but Hugging Face tokenizers numbers"},
    {"added token twice", FILE_OF(AB,
                               ",\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content"
                               "\":\"x\"}]"), "added_tokens: x given twice"},
    {"empty added token", FILE_OF(AB, ",\"added_tokens\":[{\"id\":7,\"content\":\"\"}]"),
     "added_tokens[0]: needs an id from 0 to 2^31-2 and a content that is not empty"},
    {"unknown normalizer", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Nmt\"}"),
     "BertNormalizer or a Sequence of them, got Nmt"},
    {"unknown normalizer in a Sequence",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                 "{\"type\":\"ByteLevel\"}]}"),
     "BertNormalizer or a Sequence of them, got ByteLevel"},
    {"Sequence of nothing", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Sequence\"}"),
     "normalizer: Sequence: normalizers must be a list"},
    {"Prepend without a text", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Prepend\"}"),
     "normalizer: Prepend: prepend must be a text"},
    {"Strip without sides", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Strip\"}"),
     "normalizer: Strip: strip_left and strip_right must be"},
    {"a map of nothing",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"),
     "precompiled_charsmap: must be base64"},
    {"a map that is none",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}"),
     "precompiled_charsmap: must be base64"},
    {"bytes' decoder", FILE_OF(AB, ",\"decoder\":{\"type\":\"Metaspace\"}"),
     "decoder: must be ByteLevel, like the pre_tokenizer, got Metaspace"},
    {"unknown decoder", BPE(AB, ",\"decoder\":{\"type\":\"CTC\"}"),
     "Strip, Metaspace or a Sequence of them, got CTC"},
    {"Strip of two characters",
     BPE(AB, ",\"decoder\":{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}"),
     "decoder: Strip: needs a content of one character"},
    {"unknown post-processor", FILE_OF(AB, ",\"post_processor\":{\"type\":\"Roberta\"}"),
     "post_processor: must be ByteLevel, TemplateProcessing, BertProcessing or a Sequence of them, "
     "got Roberta"},
    {"template beyond the vocabulary",
     FILE_OF(AB,
             ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
             "\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"s\":{\"ids\":[99]"
             "}}}"), "post_processor: adds an id beyond the vocabulary"},
    {"unknown pattern",
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
     "{\"Regex\":\"(a+)+b\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\""
     "use_regex\":false}]},\"model\":{" AB "}}", "pre_tokenizer: unknown split pattern (a+)+b"},
    {"unknown pre-tokeniser", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"),
     "BertPreTokenizer, Punctuation or a Sequence of them, got UnicodeScripts"},
    {"Metaspace without a mark", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}"),
     "pre_tokenizer: Metaspace: the replacement must be one character"},
    {"Metaspace of another scheme", BPE(AB, META ",\"prepend_scheme\":\"last\"}"),
     "prepend_scheme: must be always, first or never, got last"},
    {"Metaspace that contradicts itself",
     BPE(AB, META ",\"prepend_scheme\":\"first\",\"add_prefix_space\":false}"),
     "add_prefix_space is false, prepend_scheme is first"},
    {"no model", "{}", "model: must be an object"},
    {"words without [SEP]", "{\"[UNK]\":0,\"[CLS]\":1,\"a\":2}",
     "a plain vocabulary, \"token\": id, without an id for [SEP]"},
    {"words with a text as id", "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":\"b\"}",
     "model.vocab: a: must be an id"},
    {"plain words: id twice", "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":2}",
     "model.vocab: id 2 belongs to two tokens"},
    {"a Replace of nothing", REPLACE("{\"String\":\"\"}"),
     "normalizer: Replace: needs a content, and a pattern"},
    {"a Replace that finds nothing anywhere", REPLACE("{\"Regex\":\"a*\"}"),
     "normalizer: Replace: pattern a*: must be a String, or a Regex of characters"},
    {"a Replace by groups", REPLACE("{\"Regex\":\"(a)\"}"), "normalizer: Replace: pattern (a): must be"},
    {"a Replace that looks back", REPLACE("{\"Regex\":\"\\\\Ka\"}"), "normalizer: Replace: pattern \\Ka"},
    {"a Replace that repeats twice", REPLACE("{\"Regex\":\"a+?\"}"), "normalizer: Replace: pattern a+?"},
    {"a Replace by a range", REPLACE("{\"Regex\":\"[a-z]\"}"), "normalizer: Replace: pattern [a-z]"},
    {"no JSON", "{", "expected a key in quotes"},
};

static void check_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Tokenizer *t = NULL;
        char *error = tokenizer_parse(&t, refused[i].json, strlen(refused[i].json), NULL, 0);
        const char *why = !error ? "accepted" : strstr(error, refused[i].why) ? NULL : error;
        verdict(format("refuses: %s", refused[i].name), why);
        free(error);
        tokenizer_free(t);
    }
    Tokenizer *t = NULL;
    static const char plain[] = FILE_OF(AB, "");
    char *error = tokenizer_parse(&t, plain, sizeof plain - 1, NULL, 0);
    int32_t *ids;
    size_t n;
    if (!error)
        error = tokenizer_encode(t, "aab\xff", 4, false, &ids, &n);
    verdict("bad UTF-8 names its offset", error && !strcmp(error, "byte 3: not UTF-8")
            ? NULL : "other message");
    tokenizer_free(t);
}

/* Files next to a tokenizer that contradict it. */
static void check_companions_refused(void)
{
    static const char json[] = BPE(AB, ",\"added_tokens\":[{\"id\":3,\"content\":\"<e>\"}]");
    static const struct {
        const char *config, *why;
    } rows[] = {
        {"{\"added_tokens_decoder\":{\"9\":{\"content\":\"<x>\"}}}",
         "tokenizer_config.json: <x>: id 9, but Hugging Face tokenizers numbers added tokens consecutively after "
         "the vocabulary (3 tokens) and gives it 4"},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"<e>\"}}}",
         "<e>: id 4, but added_tokens in tokenizer.json gives it 3"},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"ab\"}}}", "ab: id 4, but the vocabulary gives it 2"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}", "added_tokens_decoder: x: must be an id from 0"},
        {"{\"added_tokens_decoder\":{\"4\":{}}}", "added_tokens_decoder: 4: must be a text, or an object"},
        {"{\"added_tokens_decoder\":[]}", "added_tokens_decoder: must be an object of id: token"},
        {"{\"extra_special_tokens\":\"<x>\"}", "extra_special_tokens: must be a list of tokens, or an object"},
        {"{\"extra_special_tokens\":[3]}", "extra_special_tokens: must be a text, or an object"},
        {"{\"split_special_tokens\":true}", "split_special_tokens is true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tokenizer *t = NULL;
        char *error = tokenizer_parse(&t, json, sizeof json - 1, rows[i].config, strlen(rows[i].config));
        const char *why = !error ? "accepted" : strstr(error, rows[i].why) ? NULL : error;
        verdict(format("refuses next to it: %s", rows[i].config), why);
        free(error);
        tokenizer_free(t);
    }
}

void check_refusals(void)
{
    check_companions_refused();
    check_refused();
}
