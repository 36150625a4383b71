#!/usr/bin/env python3
"""Random tokenizers and random texts, with the ids and texts that Hugging Face tokenizers makes of them.

Usage: tokenizer_random.py FOLDER SEED COUNT >CASES     (FOLDER: tests/tokenizer; needs the package tokenizers)
The models are those of FOLDER; what stands around them is drawn: normalisers, pre-tokenisers, decoders, added tokens. CASES, for
tests/tokenizer/random.c: a tokenizer is 0xffffffff and its JSON; a text is itself, its ids, what they are decoded to. Each has
its length before it; numbers are 32 bits, little-endian."""
import json
import random
import struct
import sys

from tokenizer_ids import FIXED, GREEK, MARKED, PIECES, WORDY, charsmap, random_pieces, random_text, RULES
from tokenizers import Tokenizer

DECODE_B = 2000                         # of a tokenizer
META = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
BACK = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
ADDED = ["tok", "thing", "the", " the", "the king", "\u2581a", "<x>", "<x", "e\u0301", "\u00e9", "\uff21", "K", "\n\n", "\u2581", "<s>a"]


def metaspace(rng):
    return dict(META, prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < 0.5)


def normalizer(rng):
    bert = {f: rng.random() < 0.5 for f in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")}
    return rng.choice([
        {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
        {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5},
        {"type": "Prepend", "prepend": rng.choice(["\u2581", " ", "ab"])}, MARK, MARK, dict(bert, type="BertNormalizer"),
        {"type": "Replace", "pattern": {"Regex": rng.choice([" {2,}", r"\s+", "[ab]+", "\u2581|e"])}, "content": rng.choice(["", " ", "\u2581", "the"])},
        {"type": "Replace", "pattern": {"String": rng.choice(["a", "  ", "\n", "\u4e2d"])}, "content": rng.choice(["", " ", "bb"])},
        {"type": "Precompiled", "precompiled_charsmap": charsmap(RULES)}])


def pre_tokenizer(rng, byte_level):
    """Not `first` after a split: upstream finds all that a first character became at the beginning."""
    behavior = rng.choice(["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"])
    step = rng.choice([
        metaspace(rng), metaspace(rng), {"type": "WhitespaceSplit"}, {"type": "Whitespace"}, {"type": "BertPreTokenizer"},
        {"type": "Punctuation", "behavior": behavior},
        {"type": "Split", "pattern": {"String": rng.choice([" ", "\u2581", "the"])}, "behavior": behavior, "invert": rng.random() < 0.3},
        {"type": "Split", "pattern": {"Regex": rng.choice([r"\d", "[ab]+", r"\s"])}, "behavior": behavior, "invert": rng.random() < 0.3}])
    if byte_level:
        return rng.choice([byte_level, {"type": "Sequence", "pretokenizers": [step, {
            "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}])
    return rng.choice([None, metaspace(rng), step, {"type": "Sequence", "pretokenizers": [step, dict(META, prepend_scheme=rng.choice(["always", "never"]))]}])


def decoder(rng):
    return rng.choice([
        None, {"type": "Fuse"}, {"type": "ByteFallback"}, dict(metaspace(rng)), BACK,
        {"type": "WordPiece", "prefix": rng.choice(["##", "\u2581"]), "cleanup": rng.random() < 0.5},
        {"type": "Strip", "content": rng.choice([" ", "\u2581", "a"]), "start": rng.randint(0, 2), "stop": 0}])


def sequence(rng, key, make, most):
    n = rng.randint(0, most)
    return None if n == 0 else make(rng) if n == 1 else {"type": "Sequence", key: [s for s in (make(rng) for _ in range(n)) if s]}


def drawn(rng, folder, names):
    """A tokenizer as JSON; some are as they are."""
    with open(f"{folder}/{rng.choice(names)}/tokenizer.json") as f:
        t = json.load(f)
    if rng.random() < 0.25:
        return t
    model = t["model"]
    byte_level = t["pre_tokenizer"] if "ByteLevel" in json.dumps(t["pre_tokenizer"]) else None
    t["normalizer"] = sequence(rng, "normalizers", normalizer, 3)
    t["pre_tokenizer"] = pre_tokenizer(rng, byte_level)
    if not byte_level:
        t["decoder"] = sequence(rng, "decoders", decoder, 3)
    if model["type"] == "BPE":
        model["fuse_unk"] = rng.random() < 0.5
        model["ignore_merges"] = rng.random() < 0.3
        if not byte_level:
            model["byte_fallback"] = rng.random() < 0.7
            model["unk_token"] = rng.choice([None, "<unk>"])
    if model["type"] == "Unigram":
        model["byte_fallback"] = rng.random() < 0.5
    known = {a["content"] for a in t["added_tokens"]} | ({p for p, _ in model["vocab"]} if model["type"] == "Unigram" else set(model["vocab"]))
    free = Tokenizer.from_str(json.dumps(t)).get_vocab_size(True)
    for content in rng.sample(ADDED, rng.randint(0, 4)):
        if content not in known:
            t["added_tokens"].append(dict({f: rng.random() < 0.3 for f in ("single_word", "lstrip", "rstrip")}, id=free, content=content,
                                          normalized=rng.random() < 0.5, special=rng.random() < 0.3))
            free += 1
    return t


def alike(tokenizer, t):
    """Whether added tokens become nothing or the same when they are normalised: Diecast refuses such files, but for one that
    becomes what another is unnormalised; there upstream takes what is special by its text, Diecast by its id."""
    texts = [tokenizer.normalizer.normalize_str(a["content"]) if a["normalized"] and tokenizer.normalizer else a["content"]
             for a in t["added_tokens"]]
    return "" in texts or len(set(texts)) < len(texts)


def put(*parts):
    for p in parts:
        sys.stdout.buffer.write(struct.pack("<I", len(p) // (4 if isinstance(p, bytearray) else 1)) + p)


def main(folder, seed, count):
    rng = random.Random(seed)
    names = [m.__name__ for m in MARKED] * 3 + ["gpt2", "llama3", "qwen2", "tekken", "unknown", "dropping", "bert", "level"]
    fixed = FIXED + PIECES + WORDY + GREEK
    while count > 0:
        t = drawn(rng, folder, names)
        text = json.dumps(t)
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception:            # what it refuses is of no use
            continue
        if alike(tokenizer, t):
            continue
        tokenizer.no_truncation()
        sys.stdout.buffer.write(b"\xff\xff\xff\xff")
        put(text.encode())
        for i in range(min(DECODE_B, count)):
            s = fixed[i] if i < len(fixed) else random_pieces(rng) if rng.random() < 0.8 else random_text(rng)
            try:
                ids = tokenizer.encode(s).ids
                back = tokenizer.decode(ids, skip_special_tokens=True)
            except BaseException as e:   # it panics where no id stands for what is unknown, or on texts that are short
                if isinstance(e, KeyboardInterrupt):
                    raise
                continue
            put(s.encode(), bytearray(struct.pack(f"<{len(ids)}i", *ids)), back.encode())
        count -= DECODE_B


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
