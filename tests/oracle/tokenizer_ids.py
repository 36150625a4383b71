#!/usr/bin/env python3
"""Makes tests/tokenizer/: small tokenizer.json files of each layout and the ids Hugging Face gives.

Usage: tokenizer_ids.py OUT_FOLDER        (needs the package tokenizers; nothing is downloaded)
Each layout is trained here on generated text; expected.json holds texts as hex, ids without and with special
tokens, and the decoded text with and without special tokens. parts.json holds many small tokenizers, for each part.
"""
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


def bert():
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
             ("accents as case", normalizers.BertNormalizer(False, False, None, True))]])


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
        rows.append(json.dumps({"name": name, "tokenizer": json.loads(t.to_str()), "cases": cases(t, texts)}))
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


def main(out):
    parts(os.path.join(out, "parts.json"))
    plain(out)
    for make in (gpt2, llama3, qwen2, added, unknown, dropping, bert, cased, level):
        folder = os.path.join(out, make.__name__)
        os.makedirs(folder, exist_ok=True)
        t, config = make()
        t.save(os.path.join(folder, "tokenizer.json"), pretty=False)
        if config is not None:
            with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
                json.dump(config, f, indent=2)
                f.write("\n")
        t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        rng = random.Random(make.__name__)
        texts = FIXED + (WORDY if make in (bert, cased, level) else []) + [random_text(rng) for _ in range(120)]
        with open(os.path.join(folder, "expected.json"), "w") as f:
            f.write('{"made_by": "tests/oracle/tokenizer_ids.py, tokenizers %s",\n"cases": [\n' % tokenizers.__version__)
            rows = [json.dumps(c) for c in cases(t, texts)]
            f.write(",\n".join(rows) + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
