#!/usr/bin/env python3
"""Writes runtime/data/characters.def: what Hugging Face tokenizers takes each character for.

Usage: characters.py OUT        (needs the package tokenizers; nothing is downloaded)
Every code point goes through the normalisers and pre-tokenisers that judge by these classes.
"""
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

HEAD = """/* characters.def -- classes of characters, as Hugging Face tokenizers has them.
 *
 * CONTROL(first, last)      that cleaning drops: Cc, Cf, Co but tab, line feed, carriage return
 * ACCENT(first, last)       nonspacing marks: what BertNormalizer strips
 * MARK(first, last)         all marks: what StripAccents strips
 * PUNCTUATION(first, last)  P* and the marks of ASCII
 * Method: upstream's tables stand at Unicode 8 and 9: tests/oracle/characters.py records them. */
"""


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**options, **on})


def ranges(test):
    out = []
    for c in range(0x110000):
        if not 0xd800 <= c < 0xe000 and test(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def main(path):
    clean, accents, marks = bert(clean_text=True), bert(strip_accents=True), normalizers.StripAccents()
    split = pre_tokenizers.BertPreTokenizer()
    classes = [
        ("CONTROL", lambda c: c not in "\0\ufffd" and not clean.normalize_str(c)),
        ("ACCENT", lambda c: not accents.normalize_str(c)),
        ("MARK", lambda c: not marks.normalize_str(c)),
        ("PUNCTUATION", lambda c: len(split.pre_tokenize_str("a" + c + "a")) == 3),
    ]
    with open(path, "w") as out:
        out.write(HEAD)
        for name, test in classes:
            out.write("\n")
            line = ""
            for first, last in ranges(test):
                row = f"{name}(0x{first:x}, 0x{last:x})"
                if len(line) + 1 + len(row) > 100:
                    out.write(line + "\n")
                    line = ""
                line += (" " if line else "") + row
            out.write(line + "\n")


if __name__ == "__main__":
    print(tokenizers.__version__)
    main(sys.argv[1])
