#!/usr/bin/env python3
"""Makes tests/tokenizer/: small tokenizer.json files of each layout and the ids Hugging Face gives.

Usage: tokenizer_ids.py OUT_FOLDER [LAYOUT...]     (needs the packages tokenizers and transformers; nothing is downloaded)
Each layout is trained here on generated text; expected.json holds texts as hex, ids without and with special
tokens, and the decoded text with and without special tokens. parts.json holds many small tokenizers, for each part;
companions.json one, with the ids that it gives next to other files.
"""
import base64
import collections
import json
import os
import random
import re
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# Ling's, which LLaDA's tokenizer is (llama.cpp's bailingmoe, "original regex from tokenizer.json")
LING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}"
          r"\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

WORDS = """the and I to of you my a that in is not me it with be your for this his have thy as he thou so but him
we our shall king lord good now will come more her from all are no which man do by let or what they if sir upon
what's I'll don't he's we've they're you'd I'm IT'S where's speak proceed citizen rather hungry revenge people
straße naïve café Ελλάδα Москва город 東京 漢字 かな 한국어 हिन्दी العربية 1597 2024 3.14 100,000 x=3; foo(bar) {a:1}
++i http://example.org/~user?q=1&r=2 -- ... !? "quoted" (paren) [x] <tag> it's""".split()

FIXED = [
    "", " ", "  ", "\n", "\t", "\r\n", "a", "é", "e\u0301", "Hello  world's IT'S 2024\n\n x  = 3;\r\n\t foo   ",
    "11 is greater than 8.", " Hello world", "Hello world", "   leading", "trailing   ", "a\n\n\nb", "a \n b", "a \n\n  \n b",
    "\u180e\u180e a\u180eb", "x\u00a0y\u2003z\u3000w\u0085v\u2028u\u2029", "don\u2019t DON'T 'ſ 'S 'RE 're", "1234567890",
    "\u0661\u0662\u0663\u0664 \u2160\u2161 \u00b2\u00b3 \u00bd", "a\u200db\u200cc", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165", "\ud55c\uad6d\uc5b4", "q\u0307\u0323 q\u0323\u0307", "\u212b \u2126 \u00c5",
    "\u0958 \u0915\u093c", "A\u030a\u0301", "\ufb01 \ufb03", "ZA\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308LGO",
    "\u0000", "a\u0000b", "\u0001\u001f\u007f\u0080\u009f", "\ufeffbom", "\ufffd\ufffe\uffff", "\U0010ffff\U000e0001",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", "<|endoftext", " <|endoftext|> ", "<|<|endoftext|>|>",
    "<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|>x<|eot_id|>", "<extra>x</extra>", "thing things everything thing",
    " mask  mask\nmask", "tab\t mask \tmask", "thing-thing thing_thing thing1", "éclair e\u0301clair", "a" * 300, "ab" * 200,
    "end.\nNext (x)\n\"Quoted\" \u2014 line\n東京。\nA\nb;\n;c\n\u0301d\n 1\n2\n'\n's\n<x>\r\ny\n\u180ez\u3000\nthing\nmask\nthe the\ntab\nx",
    "x\n<|endoftext|>\ny\nthe the\nmask\n\u212aelvin\n\u037e\nthing" * 3, " " * 200 + "x", "\n" * 50, "- " * 60, "=" * 70, "'" * 9, "the the the the", "0" * 40, "東京" * 40, "\u0301" * 20,
]

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDY = [
    "the [MASK] of the king", "[mask] [MASK][MASK]x[MASK]", "thing THING tHing a thing. MASK MASKED", "[CLS] a [SEP] b [PAD]",
    "I do not, he's; we've they're I'm don't . ? ! , ' x ' y", "\u4e2d\u6587 a\u4e2d\u6587b \u3042\u3044", "\u00c0\u00c9\u00ce\u00d5\u00dc \u0130stanbul \u1e9e",
    "\u039f\u0394\u039f\u03a3 \u03a3\u03a3 \u03b1\u03a3.\u03b2", "shall" * 3, "shallshallsh", "shallshallsha", "a" * 12, "\u6771" * 12, "\u00e9" * 12, "a" * 13, "\u0301" * 13,
    "king's\u2014king\u2019s \u00abking\u00bb $5 +1 <a> ^b `c ~d |e", "a\u00adb c\u200bd e\ufefff g\u2060h", "##ing king##ing ## ###", "a\u0000b\ufffdc\u0007d",
]
# small letters: the final sigma and what may stand around it, Turkish, German, letters that grow
GREEK = ["\u039f\u0394\u039f\u03a3 \u039f\u0394\u039f\u03a3. \u039f\u0394\u039f\u03a3's \u03a3 \u03a3\u03a3 \u03c3\u03a3 1\u03a3 \u1fbf\u03a3 A\u0301\u03a3\u0301 A\u03a3\u0301b \u02b0\u03a3 A\u02b0\u03a3 A.\u03a3.B A\u03a3-B",
         "\u0130STANBUL I\u0131 \u0130\u03a3", "STRASSE \u1e9e GR\u00dc\u1e9eE \u01c5 \u01c4 \u023a \u212a \u2126 \u2160 \u24b6", "\U00010400\U0001e900 \ua64a \u13a0 \u10a0"]


# what matters where U+2581 stands for a space, bytes stand for characters, and added tokens touch words
PIECES = [
    "\u2581", "\u2581\u2581", " \u2581", "\u2581 ", "\u2581a", "a\u2581b", "  a  b ", "\n a\n", "\ta\t", " \n ", "<s>a</s>", "a <s> b</s> c",
    "<s>", " <s>", "<s> ", "x<s>y", "<unk>", "a<unk>b", "<unk><unk>\u00e9<unk>", "<0x41>", "<0x0A>\n<0xZZ>", "\u00e4\u4e9c\U0001f600", "\U0001f600\U0001f600 \U0001f600",
    "e\u0301\u0301 \u0301", "\u0000", "a\u0000b \u0000", "\ufffd", "\ue000\U000f0000", "the" * 100, "\u4e2d" * 300, "\U0001f600" * 60, " the" * 100,
    "[INST] hi [/INST]", "[INST]hi[/INST]there", "the[INST]the", "<start_of_turn>user\nthe king<end_of_turn>\n<start_of_turn>model\n",
    "\n\n\n", "a\n\nb\n\n\nc", "the  king   shall    speak", "\u00a0the\u00a0", "\u3000\u6771\u4eac\u3000", "\r\n\r\n", "a/b;\n/c", "XMLHttpRequest iPhone ABCdef",
    "thing a thing  thing\tthing", "left  tok right", "tok  tok", " tok", "tok ", "a tok\nb", "Tok TOK", "`` quoted ''", "\uff21\uff22\uff23 \u2460 \ufb01 \u00bd \u3392",
    "\u00a8\u037a \u1e9b\u0323", "\u0001\u0002a", "\u200b\u200ba\u200b", "a\u0300\u0301", "\r\n \r\n", "\u0e33\u0e40", "\U0001f468\u200d\U0001f469", "   ", "\u2581the \u2581the",
]


def corpus(seed):
    rng = random.Random(seed)
    for _ in range(3000):
        n = rng.randint(1, 14)
        words = [WORDS[min(int(rng.expovariate(1 / 18)), len(WORDS) - 1)] for _ in range(n)]
        yield rng.choice(["", " ", "\n", "\t"]) + rng.choice([" ", " ", "  "]).join(words) + rng.choice([".", ",", ";", "!", "?", "\n", ".\n", ";\n", "\n\n"])


def random_text(rng):
    pools = [
        lambda: rng.choice(" \t\n\r\u000b\u000c\u0085\u00a0\u1680\u180e\u2000\u200b\u2028\u202f\u205f\u3000  \n"),
        lambda: rng.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        lambda: rng.choice("0123456789\u0660\u0967\u2167\u00bd\u2075\U0001d7ce"),
        lambda: rng.choice("'\"!?.,;:-_()[]{}<>|/\\@#$%^&*+=~`\u2019\u201c\u2014\u20ac\u00a1"),
        lambda: rng.choice("\u0300\u0301\u0308\u0323\u0327\u093c\u0bbe\u3099\u1161\u11a8\u1100\u200d\ufe0f\u0345"),
        lambda: rng.choice("éèñöüßſKÅΩ漢字日本語한국어кириллицаελληνικάहिन्दीالعربيةไทย\u212a\U0001f600\U0001f3fd"),
        lambda: rng.choice(["'s", "'T", "'Re", "'ve", "'m", "'LL", "'d", " the", " mask", "thing", "\r\n", "  ", "<|"]),
        lambda: rng.choice(WORDS),
        lambda: chr(rng.choice([rng.randrange(0x80, 0x800), rng.randrange(0x800, 0xd800), rng.randrange(0x10000, 0x30000)])),
    ]
    weights = [6, 6, 3, 3, 3, 3, 4, 4, 1]
    text = "".join(rng.choices(pools, weights)[0]() for _ in range(rng.randint(1, 40)))
    # code points without a name in this Unicode version may be classified differently by another
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))


def random_pieces(rng):
    """A random text with more of what PIECES has."""
    return "".join(rng.choice(PIECES)[:8] if rng.random() < 0.3 else random_text(rng)[:12] if rng.random() < 0.6 else rng.choice(
        [" ", "  ", "\u2581", " the", "\n", "\t", "<s>", "</s>", "<unk>", "\u0000", "tok", " tok ", "thing", "<0x41>", "\u6771"])
        for _ in range(rng.randint(1, 12)))


def trained(model, pre_tokenizer, normalizer, size, alphabet=True):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=[],
                                  initial_alphabet=sorted(pre.ByteLevel.alphabet()) if alphabet else [])
    t.train_from_iterator(corpus(7), trainer)
    return t


def split(pattern):
    return pre.Sequence([pre.Split(Regex(pattern), "isolated", False),
                         pre.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])


def gpt2():
    t = trained(models.BPE(), pre.ByteLevel(add_prefix_space=False), None, 700)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.add_special_tokens([AddedToken("<|endoftext|>", normalized=True)])
    return t, {"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}


def llama3():
    t = trained(models.BPE(ignore_merges=True), split(LLAMA3), None, 700)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    t.add_special_tokens([AddedToken(n, normalized=False) for n in names])
    bos = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    return t, {"eos_token": "<|eot_id|>", "bos_token": "<|begin_of_text|>"}


def qwen2():
    t = trained(models.BPE(), split(QWEN2), normalizers.NFC(), 700)
    t.add_special_tokens([AddedToken(n, normalized=False) for n in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]])
    t.add_tokens([AddedToken("<extra>", normalized=False), AddedToken("</extra>", normalized=False)])
    return t, {"eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "lstrip": False}, "bos_token": None}


def smollm2():
    """Each digit a piece, then GPT-2's pattern; the special tokens are the first of the vocabulary."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(7), trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=sorted(pre.ByteLevel.alphabet()),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]))
    return t, {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>"}


def llada():
    """Ling's pattern, whose classes give nothing back; begins no text with <|startoftext|> by itself."""
    t = trained(models.BPE(), split(LING), None, 700)
    names = ["<|startoftext|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|mdm_mask|>"]
    t.add_special_tokens([AddedToken(n, normalized=False) for n in names])
    return t, {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}


def added():
    """Every flag of an added token, over a normaliser."""
    t = trained(models.BPE(), split(QWEN2), normalizers.Sequence([normalizers.NFC()]), 500)
    t.add_tokens([
        AddedToken("thing", single_word=True, normalized=False), AddedToken("mask", lstrip=True, normalized=False),
        AddedToken("tab", rstrip=True, normalized=True), AddedToken("e\u0301clair", normalized=True),
        AddedToken("things", normalized=True), AddedToken("the the", lstrip=True, rstrip=True, normalized=True),
        AddedToken("é", single_word=True, normalized=False), AddedToken("<|", normalized=False),
        AddedToken("<|endoftext", normalized=False), AddedToken("a b ü", normalized=False)])
    t.add_special_tokens([AddedToken("<|endoftext|>", lstrip=True, rstrip=True, normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>",
                                                     special_tokens=[("<|endoftext|>", t.token_to_id("<|endoftext|>"))])
    return t, {"eos_token": "<|endoftext|>"}


def unknown():
    """A vocabulary without some bytes: an unknown token, fused; and a space put in front."""
    t = trained(models.BPE(unk_token="?", fuse_unk=True), pre.ByteLevel(add_prefix_space=True), None, 300, alphabet=False)
    return t, None


def dropping():
    """A vocabulary without some bytes and without an unknown token: they vanish."""
    t = trained(models.BPE(), pre.ByteLevel(add_prefix_space=False), None, 300, alphabet=False)
    return t, None


def words(model, trainer, normalizer, pre_tokenizer):
    """A vocabulary of words, or of parts of words."""
    t = Tokenizer(model)
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.train_from_iterator(corpus(7), trainer(vocab_size=600, show_progress=False, special_tokens=SPECIALS))
    return t


def bert():     # its trainer does not give the same vocabulary twice
    """BERT uncased, with a template and a decoder that cleans up."""
    t = words(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer, normalizers.BertNormalizer(),
              pre.BertPreTokenizer())
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(n, t.token_to_id(n)) for n in ("[CLS]", "[SEP]")])
    t.decoder = decoders.WordPiece()
    t.add_tokens([AddedToken("Thing", normalized=True), AddedToken("MASK", normalized=False, single_word=True)])
    return t, {"mask_token": "[MASK]", "pad_token": "[PAD]"}


def cased():
    """BERT cased: accents stay; words of at most 12 characters; BertProcessing; another prefix."""
    t = words(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer,
              normalizers.BertNormalizer(lowercase=False), pre.BertPreTokenizer())
    t.model.max_input_chars_per_word = 12
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t, None


def level():
    """Whole words, of a normaliser in steps; words stand apart when they are decoded."""
    t = words(models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer, normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.NFC()]), pre.Whitespace())
    return t, None


BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]


def pieces(model, normalizer, pre_tokenizer, decoder, size=900, train=None, bos="<s>", alphabet=60, **more):
    """BPE of characters, or Unigram, trained on words that Metaspace splits off, or what `train` does."""
    t = Tokenizer(model)
    t.pre_tokenizer = train if train is not None else pre.Metaspace(prepend_scheme="always")
    if isinstance(model, models.BPE):
        trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=alphabet,
                                      special_tokens=["<unk>", "<s>", "</s>"] + (BYTE_TOKENS if model.byte_fallback else []))
    else:
        trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token="<unk>", special_tokens=["<pad>", "<s>", "</s>", "<unk>"], **more)
    t.train_from_iterator(corpus(7), trainer)
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre_tokenizer, decoder
    t.add_special_tokens([AddedToken(n, normalized=False) for n in ("<unk>", "<s>", "</s>")])
    if bos:
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
                                                         special_tokens=[(bos, t.token_to_id(bos))])
    return t


def spaced(strip):
    """The decoder of Llama 2's kind of files."""
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
                             + ([decoders.Strip(" ", 1, 0)] if strip else []))


def strings(t):
    """The same with merges as older files have them."""
    json_of = json.loads(t.to_str())
    json_of["model"]["merges"] = [" ".join(m) for m in json_of["model"]["merges"]]
    return json.dumps(json_of, ensure_ascii=False)


def llama2():
    """No pre-tokeniser: a text is one word. Merges as strings."""
    t = pieces(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
               normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, spaced(True))
    return strings(t), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def phi3():
    """Llama 2's, with roles that take the white space after them; no token begins a text."""
    t = pieces(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
               normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, spaced(True), bos=None)
    t.add_special_tokens([AddedToken("</s>", rstrip=True, normalized=False), AddedToken("<|endoftext|>", normalized=False)])
    t.add_special_tokens([AddedToken(n, rstrip=True, normalized=False) for n in ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>")])
    t.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    return t, {"bos_token": "<s>", "eos_token": "<|endoftext|>", "unk_token": "<unk>"}


def joined():
    """Tokens that reach over spaces, characters that no byte stands for, added tokens that are normalised."""
    t = pieces(models.BPE(unk_token="<unk>", byte_fallback=True), normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(
        " ", "\u2581")]), None, spaced(True), train=pre.Sequence([pre.Metaspace(split=False), pre.Split("\n", "isolated")]), size=1500, alphabet=50)
    t.add_tokens([AddedToken("thing", normalized=True), AddedToken(" tok", normalized=True), AddedToken("king", lstrip=True, rstrip=True, normalized=False)])
    text = json.dumps(json.loads(t.to_str()))
    for byte in range(0xe5, 0xf0):       # those that begin most of East Asia's characters become other tokens
        text = text.replace(f"<0x{byte:02X}>", f"<no {byte:02X}>")
    return text, None


def mistral():
    """Metaspace instead of a normaliser, before the first word only; the whole text is one word; tokens next to words."""
    t = pieces(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), None,
               pre.Metaspace(prepend_scheme="first", split=False), spaced(True))
    t.add_special_tokens([AddedToken(n, normalized=False) for n in ("[INST]", "[/INST]")])
    t.add_tokens([AddedToken("tok", lstrip=True, normalized=False), AddedToken("thing", single_word=True, rstrip=True)])
    return t, {"bos_token": "<s>", "eos_token": "</s>"}


def gemma():
    """Spaces become marks before anything could split at them; runs of spaces and line feeds are tokens; merges hold line feeds."""
    t = pieces(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), normalizers.Replace(" ", "\u2581"),
               pre.Split(" ", "merged_with_previous"), spaced(False), train=pre.Sequence([
                   pre.Metaspace(prepend_scheme="never"), pre.Split("\n", "contiguous")]), bos=None)
    t.add_special_tokens([AddedToken(n, normalized=False) for n in ("<bos>", "<start_of_turn>", "<end_of_turn>")])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", t.token_to_id("<bos>"))])
    json_of = json.loads(t.to_str())
    vocab, merges = json_of["model"]["vocab"], json_of["model"]["merges"]
    vocab.update({a["content"]: a["id"] for a in json_of["added_tokens"]})
    free = max(vocab.values()) + 1
    for left, right in (("\n", "\n"), ("\n\n", "\n"), ("\u2581", "\u2581"), ("\u2581\u2581", "\u2581"), ("\u2581\u2581", "\u2581\u2581"), ("\n", "\u2581"), (" ", "x")):
        for token in (left, right, left + right):
            free += token not in vocab
            vocab.setdefault(token, free - 1)
        if [left, right] not in merges:
            merges.append([left, right])
    return json.dumps(json_of), {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}


def tekken():
    t = trained(models.BPE(ignore_merges=True), split(TEKKEN), None, 700)
    t.add_special_tokens([AddedToken(n, normalized=False) for n in ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    return t, {"bos_token": "<s>", "eos_token": "</s>"}


def charsmap(entries):
    """What sentencepiece compiles its rules to, base64: a double array of what is looked for, and the texts instead."""
    texts, at = b"", {}
    for key, text in entries.items():
        if text not in at:
            at[text] = len(texts)
            texts += text.encode() + b"\0"
    trie = {}
    for key, text in entries.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = at[text]
    units, taken = {0: 0}, set()

    def place(node, where):
        """Gives the children of the node at `where` an offset: child c goes to where ^ offset ^ c."""
        offset = next(o for o in range(1, 1 << 20) if not any((where ^ o ^ c) in units or (where ^ o ^ c) == 0 for c in node))
        units[where] |= offset << 10 | (0 in node) << 8
        for c in node:
            units[where ^ offset ^ c] = 1 << 31 | node[c] if c == 0 else c
        for c, child in node.items():
            if c:
                place(child, where ^ offset ^ c)
    place(trie, 0)
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) | 0xff + 1))
    return base64.b64encode(len(array).to_bytes(4, "little") + array + texts).decode()


RULES = {"\u0001": "", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufb01": "fi", "\ufb03": "ffi", "\u2460": "1",
         "\u00bd": "1\u20442", "\uff21": "A", "\uff22": "B", "a\u0300": "\u00e0", "e\u0301": "\u00e9", "A\u030a": "\u00c5", "\u2581": "_", "\u0e33": "\u0e4d\u0e32",
         "\u1100\u1161": "\uac00", "\u0301": "'", "\u3392": "MHz", "\u212b": "\u00c5", "\u037e": ";"}


def precompiled():
    return normalizers.Precompiled(base64.b64decode(charsmap(RULES)))


def t5():
    """Unigram without bytes; the map of characters, white space split off."""
    t = pieces(models.Unigram(), precompiled(), pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()]), decoders.Metaspace(), bos=None)
    t.add_special_tokens([AddedToken(f"<extra_id_{i}>", lstrip=True, rstrip=True, normalized=False) for i in range(3)])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t, {"eos_token": "</s>", "pad_token": "<pad>"}


def xlmr():
    """Unigram with a normaliser in steps, as sentencepiece files are converted."""
    t = pieces(models.Unigram(), normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), precompiled(), normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "\u2581")]), pre.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first"), bos=None)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[(n, t.token_to_id(n)) for n in ("<s>", "</s>")])
    return t, {"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}


def unibytes():
    """Unigram that falls back to bytes; a text is one word; words have scores in common."""
    t = pieces(models.Unigram(), normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, spaced(True), size=500)
    json_of = json.loads(t.to_str())
    vocab = json_of["model"]["vocab"]
    known = {p for p, _ in vocab}
    vocab[4:] = [[p, round(score)] for p, score in vocab[4:]]
    vocab += [[b, -20 - i % 3] for i, b in enumerate(BYTE_TOKENS)] + [[p, -9] for p in ("ab", "aba", "ba", "bab", "a", "b", "\u2581ab") if p not in known]
    json_of["model"]["byte_fallback"] = True
    return json.dumps(json_of), None


ISOLATED = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"]
PARTS = ([(f"Punctuation {b}", None, pre.Punctuation(b)) for b in ISOLATED]
         + [(f"Split {b}{' inverted' * i}", None, pre.Split("the", b, bool(i))) for b in ISOLATED for i in (0, 1)]
         + [(f"Split by pattern {b}", None, pre.Split(Regex(QWEN2), b)) for b in ISOLATED]
         + [("WhitespaceSplit", None, pre.WhitespaceSplit()), ("Whitespace", None, pre.Whitespace()),
            ("BertPreTokenizer", None, pre.BertPreTokenizer()), ("no pre-tokeniser", None, None),
            ("Sequence", normalizers.Lowercase(),
             pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation(), pre.Sequence([pre.Split("a", "removed")])]))]
         + [(f"{name} and spaces", n, pre.WhitespaceSplit()) for name, n in [
             ("NFC", normalizers.NFC()), ("NFD", normalizers.NFD()), ("StripAccents", normalizers.StripAccents()),
             ("Lowercase", normalizers.Lowercase()),
             ("clean_text", normalizers.BertNormalizer(True, False, False, False)),
             ("handle_chinese_chars", normalizers.BertNormalizer(False, True, False, False)),
             ("strip_accents", normalizers.BertNormalizer(False, False, True, False)),
             ("lowercase", normalizers.BertNormalizer(False, False, False, True)),
             ("accents as case", normalizers.BertNormalizer(False, False, None, True))]]
         + [(f"{name}, no split", n, None) for name, n in [
             ("NFKC", normalizers.NFKC()), ("NFKD", normalizers.NFKD()), ("Strip", normalizers.Strip()), ("Strip left", normalizers.Strip(right=False)),
             ("Strip right", normalizers.Strip(left=False)), ("Prepend", normalizers.Prepend("> ")), ("Prepend nothing", normalizers.Prepend("")),
             ("Replace", normalizers.Replace("the", "\u4e2d\u56fd")), ("Replace by nothing", normalizers.Replace("a", "")),
             ("Replace by a pattern", normalizers.Replace(Regex(r"\s{2,}|[ab]+\.?|\d"), "_")), ("Precompiled", precompiled()),
             ("Strip after Prepend", normalizers.Sequence([normalizers.Prepend(" "), normalizers.Strip(), normalizers.NFKD()]))]]
         + [(f"Metaspace {s}{'' if k else ', no split'}", None, pre.Metaspace(prepend_scheme=s, split=k)) for s in ("always", "first", "never") for k in (True, False)]
         + [("Metaspace first after Strip", normalizers.Strip(), pre.Metaspace(prepend_scheme="first")),
            ("Metaspace first after Replace", normalizers.Replace("``", '"'), pre.Metaspace(prepend_scheme="first")),
            ("Metaspace first after Replace by nothing", normalizers.Replace("a", ""), pre.Metaspace(prepend_scheme="first")),
            ("Metaspace first after clean_text", normalizers.BertNormalizer(True, False, True, False), pre.Metaspace(prepend_scheme="first")),
            ("Metaspace first after words", None, pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(prepend_scheme="first")])),
            ("Metaspace of another mark", None, pre.Metaspace(replacement="_")),
            ("Split by a simple pattern", None, pre.Split(Regex(r"\d|[ab]{2}| "), "merged_with_previous")),
            ("Digits", None, pre.Digits(False)), ("Digits, each", None, pre.Digits(True)),
            ("Digits and spaces", None, pre.Sequence([pre.Digits(True), pre.WhitespaceSplit()]))])
# pre-tokenisers that end in bytes, in a Sequence
BYTE_PARTS = [
    (f"ByteLevel{' with a space before' * space}{'' if regex else ' without its pattern'} after {name}",
     pre.Sequence([step, pre.ByteLevel(add_prefix_space=space, use_regex=regex)]))
    for name, step in [("Digits", pre.Digits(False)), ("Digits, each", pre.Digits(True)), ("a pattern", pre.Split(Regex(QWEN2), "isolated")),
                       ("WhitespaceSplit", pre.WhitespaceSplit())]
    for regex in (True, False) for space in (False, True)]
# decoders of texts, each for tokens as they are
DECODERS = [
    ("Replace", decoders.Replace("a", "bc")), ("Replace by a pattern", decoders.Replace(Regex("a+|\u2581"), " ")), ("ByteFallback", decoders.ByteFallback()),
    ("Fuse", decoders.Fuse()), ("Strip", decoders.Strip("a", 2, 0)), ("Strip after", decoders.Strip(" ", 0, 1)), ("Metaspace", decoders.Metaspace()),
    ("Metaspace never", decoders.Metaspace(prepend_scheme="never")), ("Metaspace of another mark", decoders.Metaspace(replacement="a")),
    ("Sequence", decoders.Sequence([decoders.Fuse(), decoders.Strip("\u2581", 3, 0), decoders.WordPiece("a", False)])), ("Llama's", spaced(True)),
    ("WordPiece after bytes", decoders.Sequence([decoders.ByteFallback(), decoders.WordPiece("a", True)]))]


def row(name, t, texts, file=None):
    return json.dumps({"name": name, "tokenizer": file or json.loads(t.to_str()), "cases": cases(t, texts)})


def byte_parts():
    for name, pre_tokenizer in BYTE_PARTS:
        rng = random.Random(name)
        t = trained(models.BPE(), pre_tokenizer, None, 300)
        yield row(name, t, ["Hello  world's 2024\n\n x  = 3;\r\n\t foo   ", "12 34five6\n7\nx\n1", "\u0661\u0662a\u2160\u00b2\u00bd", " 1 "]
                  + [random_text(rng) for _ in range(10)])


def untyped():
    """Files before tokenizers 0.9 do not say what their model is."""
    vocab = {p: i for i, p in enumerate(["<unk>", "a", "b", "ab", "##b", "##ab", "the", "##the", " "])}
    scores = [[p, -1 - i / 8] for p, i in vocab.items()]
    for name, model in [
            ("BPE", {"vocab": vocab, "merges": ["a b"], "unk_token": "<unk>"}),
            ("BPE, with the keys of WordPiece", {"vocab": vocab, "merges": [["a", "b"]], "unk_token": "<unk>",
                                                 "continuing_subword_prefix": "", "max_input_chars_per_word": 100}),
            ("WordPiece", {"vocab": vocab, "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 4}),
            ("WordLevel", {"vocab": vocab, "unk_token": "<unk>"}),
            ("WordLevel, with a key of WordPiece", {"vocab": vocab, "unk_token": "<unk>", "continuing_subword_prefix": "##"}),
            ("Unigram", {"vocab": scores, "unk_id": 0})]:
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None, "model": model}
        t = Tokenizer.from_str(json.dumps(file))
        assert type(t.model).__name__ == name.split(",")[0]
        yield row(f"no type: {name}", t, ["ab abab a the thethe abthe x xab", "aaaaa abab b", ""], file)


# Files next to tokenizer.json: their content, then the ids of transformers. The tokenizer has <eos> 0, <unk> 1, <bos> 2.
def token(content, **more):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True, **more}


EOS = {"eos_token": "<eos>"}
BESIDE = [
    ("nothing", {}, {}),
    ("added_tokens_decoder", {**EOS, "added_tokens_decoder": {"0": token("<eos>"), "300": token("<x>")}}, {}),
    ("added_tokens_decoder, not in order", {**EOS, "added_tokens_decoder": {"301": token("<x>"), "300": token("<y>", lstrip=True, special=False)}}, {}),
    ("added_tokens_decoder says what is stripped", {**EOS, "added_tokens_decoder": {"0": token("<eos>", lstrip=True, rstrip=True)}}, {}),
    ("added_tokens_decoder says what is whole words", {"added_tokens_decoder": {"0": token("<eos>", special=False), "ID OF x": token("x", single_word=True, normalized=True)}}, {}),
    ("added_tokens_decoder of contents alone", {"added_tokens_decoder": {"300": {"content": "<x>", "special": True}, "301": {"content": "<y>"}}}, {}),
    ("added_tokens_decoder with a token of the vocabulary", {"added_tokens_decoder": {"ID OF \u0120th": token("\u0120th")}}, {}),
    ("extra_special_tokens", {**EOS, "extra_special_tokens": ["<y>", "<x>", "<eos>"]}, {}),
    ("extra_special_tokens of objects", {**EOS, "extra_special_tokens": [{"__type": "AddedToken", **token("<y>", lstrip=True)}, "<x>"]}, {}),
    ("extra_special_tokens of names", {**EOS, "extra_special_tokens": {"image_token": "<y>", "x_token": "<x>"}}, {}),
    ("additional_special_tokens", {**EOS, "additional_special_tokens": ["<y>", "<x>"]}, {}),
    ("extra_special_tokens before additional ones", {**EOS, "extra_special_tokens": ["<x>"], "additional_special_tokens": ["<y>"]}, {}),
    ("named tokens", {"eos_token": "<x>", "pad_token": "<y>"}, {}),
    ("named tokens as objects", {"eos_token": {"__type": "AddedToken", **token("<x>", rstrip=True)}, "pad_token": "<y>"}, {}),
    ("a named token of the vocabulary", {"eos_token": "q"}, {}),
    ("other names and extra ones", {"extra_special_tokens": ["<y>"], "image_token": "<x>", "pad_token": "<p>"}, {}),
    ("null and empty ones", {"eos_token": None, "extra_special_tokens": [""], "pad_token": ""}, {}),
    ("added_tokens.json", EOS, {"added_tokens.json": {"<x>": 301, "<y>": 300}}),
    ("added_tokens.json with a named one", {"eos_token": "<x>"}, {"added_tokens.json": {"<y>": 300, "<x>": 301}}),
    ("special_tokens_map.json", EOS, {"special_tokens_map.json": {"eos_token": "<eos>", "pad_token": "<x>", "additional_special_tokens": ["<y>"]}}),
    ("special_tokens_map.json alone", None, {"special_tokens_map.json": {"eos_token": token("<x>", rstrip=True)}}),
    ("added_tokens_decoder and older files", {**EOS, "added_tokens_decoder": {"0": token("<eos>")}},
     {"special_tokens_map.json": {"pad_token": "<x>"}, "added_tokens.json": {"<y>": 301}}),
]


def companions(path):
    """Files next to tokenizer.json, each with the ids that transformers gives with them; needs transformers."""
    import tempfile
    import transformers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(corpus(7), trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<eos>", "<unk>", "<bos>"],
                                                         initial_alphabet=sorted(pre.ByteLevel.alphabet())))
    rows = []
    for name, config, files in BESIDE:
        config = re.sub(r'"ID OF (.*?)"', lambda m: f'"{t.token_to_id(json.loads(chr(34) + m[1] + chr(34)))}"', json.dumps(config))
        files = {**({} if config == "null" else {"tokenizer_config.json": json.loads(config)}), **files}
        with tempfile.TemporaryDirectory() as folder:
            for file, value in {"tokenizer.json": json.loads(t.to_str()), **files}.items():
                with open(os.path.join(folder, file), "w") as f:
                    json.dump(value, f)
            loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        texts = ["a <x> b<y>  <eos> c th x axb", "<x> <x>  <y><eos>\n<y> q aqb <p>", " th the th", "<eos><bos><unk>", "x", "\n\nx\n"]
        rng = random.Random(name)
        texts += ["".join(rng.choices(["<x>", "<y>", "<eos>", " ", "  ", "\n", "a", "x", "q", "the", " th"], k=8)) for _ in range(8)]
        rows.append(json.dumps({"name": name, "files": files, "eos": loaded.eos_token_id, "pad": loaded.pad_token_id, "size": len(loaded),
                                "cases": cases(loaded.backend_tokenizer, texts)}))
    with open(path, "w") as f:
        f.write('{"made_by": "tests/oracle/tokenizer_ids.py, transformers %s",\n"tokenizer": %s,\n"companions": [\n' % (transformers.__version__, t.to_str()))
        f.write(",\n".join(rows) + "\n]}\n")


def parts(path):
    """Each part in a tokenizer whose vocabulary is half of the pieces that the texts have."""
    rows = []
    for name, normalizer, pre_tokenizer in PARTS:
        rng = random.Random(name)
        texts = ["the the,the.the! a,b", "..a..", "  a  b ", "ΟΔΟΣ İI STRASSE ẞ Ǆ", "a\u0300\u0488b\u093ec\u07fd",
                 "x\u4e00\u2b820\U0002b820\U0002b920y", "\t\x01a\x85b\u200bc\ud7ff\ufffdd\u0378"] + [random_text(rng) for _ in range(10)]
        t = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
        if normalizer:
            t.normalizer = normalizer
        if pre_tokenizer:
            t.pre_tokenizer = pre_tokenizer
        vocab = {"[UNK]": 0}
        for s in texts:
            normal = normalizer.normalize_str(s) if normalizer else s
            for piece in [p for p, _ in pre_tokenizer.pre_tokenize_str(normal)] if pre_tokenizer else [normal]:
                if rng.random() < 0.8:
                    vocab.setdefault(piece, len(vocab))
        t.model = models.WordLevel(vocab, "[UNK]")
        rows.append(row(name, t, texts))
    tokens = ["[UNK]", "a", "aa", "aaab", "b a", " ", "\u2581", "\u2581a", "a\u2581\u2581", "a ", " a", "<0x41>", "<0xe4>", "<0xBA>", "<0x9C>", "<0xFF>", "<0x4>", "<0xZZ>",
              ".", "n't", "aaa", "\u4e2d"]
    for name, decoder in DECODERS:
        rng = random.Random(name)
        t = Tokenizer(models.WordLevel({p: i for i, p in enumerate(tokens)}, "[UNK]"))
        t.pre_tokenizer, t.decoder = pre.Split("|", "removed"), decoder
        texts = ["|".join(tokens), "a", "<0x41>", "\u2581"] + ["|".join(rng.choices([p for p in tokens if "Strip" not in name or len(p) > 1], k=rng.randint(1, 9))) for _ in range(25)]
        rows.append(row(f"decoder {name}", t, texts))
    rows += [*byte_parts(), *untyped()]
    with open(path, "w") as f:
        f.write('{"made_by": "tests/oracle/tokenizer_ids.py, tokenizers %s",\n"parts": [\n' % tokenizers.__version__)
        f.write(",\n".join(rows) + "\n]}\n")


def plain(out):
    """A vocabulary counted from a text as Python counts it; its twin for Hugging Face, with the same ids."""
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    space = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
    lines = [s.replace("\n", " ").replace("\0", "") for s in [*corpus(7)][:400] + FIXED + 9 * GREEK]
    lines = [s for s in lines if not any(n in s for n in names)]
    counts = collections.Counter(w for s in lines for w in space.split(s.lower()) if w)
    first = {w: i for i, w in enumerate(counts)}
    best = sorted(counts, key=lambda w: (-counts[w], first[w]))[:200]
    vocab = {w: i for i, w in enumerate(names + best)}
    sigma = (r"[\p{Cased}&&[^\p{Case_Ignorable}]]\p{Case_Ignorable}*+\K" "\u03a3" r"(?!\p{Case_Ignorable}*+\p{Cased})")
    t = Tokenizer(models.WordLevel(vocab, "[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.Replace(Regex(sigma), "\u03c2"), normalizers.Lowercase()])
    t.pre_tokenizer = pre.WhitespaceSplit()
    t.add_special_tokens([AddedToken(n, normalized=False) for n in names])
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(n, vocab[n]) for n in ("[CLS]", "[SEP]")])
    rng = random.Random("plain")
    texts = lines[-30:] + GREEK + WORDY + [random_text(rng) for _ in range(60)]
    for s in texts:
        want = [1] + [vocab.get(w, 3) for w in space.split(s.lower()) if w] + [2]
        assert any(n in s for n in names) or t.encode(s).ids == want, s
    for name in ("plain", "twin"):
        os.makedirs(os.path.join(out, name), exist_ok=True)
        with open(os.path.join(out, name, "tokenizer.json"), "w") as f:
            f.write(json.dumps(vocab if name == "plain" else json.loads(t.to_str()), indent=2, sort_keys=name == "twin") + "\n")
    with open(os.path.join(out, "plain", "corpus.txt"), "w", newline="") as f:
        f.write("\n".join(lines) + "\n")
    with open(os.path.join(out, "plain", "expected.json"), "w") as f:
        f.write('{"made_by": "tests/oracle/tokenizer_ids.py, tokenizers %s",\n"cases": [\n' % tokenizers.__version__)
        f.write(",\n".join(json.dumps(c) for c in cases(t, texts)) + "\n]}\n")


def cases(t, texts):
    rows = []
    for s in texts:
        plain = t.encode(s, add_special_tokens=False).ids
        full = t.encode(s, add_special_tokens=True).ids
        rows.append({
            "text": s.encode().hex(), "ids": plain, "special_ids": full if full != plain else None,
            "decoded": t.decode(full, skip_special_tokens=False).encode().hex(),
            "decoded_skip": t.decode(full, skip_special_tokens=True).encode().hex()})
    return rows


MARKED = (llama2, phi3, joined, mistral, gemma, t5, xlmr, unibytes)      # U+2581 stands for a space
CHATS = ["<|user|>\n hi<|end|>\n<|assistant|>\nthe king 1597<|end|>\n<|endoftext|>", "<|system|> \t\n<|end|>x <|user|>", "<|im_start|>user\n12 3<|im_end|>\n",
         "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n2024<|eot_id|><|mdm_mask|>", "<repo_name>thing"]


def main(out, *names):
    if not names:
        parts(os.path.join(out, "parts.json"))
        companions(os.path.join(out, "companions.json"))
        plain(out)
    byte_level, words = (gpt2, llama3, qwen2, added, unknown, dropping), (bert, cased, level)
    few = (smollm2, llada, phi3)         # what is new in them others do not have; the rest they share
    for make in byte_level + words + (tekken, smollm2, llada) + MARKED:
        if names and make.__name__ not in names:
            continue
        folder = os.path.join(out, make.__name__)
        os.makedirs(folder, exist_ok=True)
        t, config = make()
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            f.write(t if isinstance(t, str) else t.to_str())
        if config is not None:
            with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
                json.dump(config, f, indent=2)
                f.write("\n")
        t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        rng = random.Random(make.__name__)
        texts = FIXED + (WORDY if make in words else []) + [random_text(rng) for _ in range(40 if make in MARKED + few else 120)]
        if make in MARKED:
            texts += PIECES + [random_pieces(rng) for _ in range(30 if make in few else 80)]
        if make in few:
            texts += CHATS
        with open(os.path.join(folder, "expected.json"), "w") as f:
            f.write('{"made_by": "tests/oracle/tokenizer_ids.py, tokenizers %s",\n"cases": [\n' % tokenizers.__version__)
            rows = [json.dumps(c) for c in cases(t, texts)]
            f.write(",\n".join(rows) + "\n]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
