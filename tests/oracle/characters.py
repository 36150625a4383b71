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
 * WHOLE(first, last)        newer than upstream's normal forms, which leave them as they are
 * Method: upstream's tables stand at Unicode 8 and 9: tests/oracle/characters.py records them. */
"""


# what has a decomposition or an order among marks, or is part of a composition, since Unicode 9
NEWER = [(0x7fd, 0x7fd), (0x898, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c), (0xd3b, 0xd3c), (0xeba, 0xeba), (0x1715, 0x1715),
         (0x1abf, 0x1ace), (0x1df6, 0x1dfa), (0x32ff, 0x32ff), (0xa7f2, 0xa7f4), (0xa82c, 0xa82c), (0xab69, 0xab69), (0x10781, 0x107ba),
         (0x10d24, 0x10d27), (0x10eab, 0x10eac), (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070), (0x1133b, 0x1133b),
         (0x1145e, 0x1145e), (0x11839, 0x1183a), (0x11930, 0x11930), (0x11938, 0x11938), (0x1193d, 0x1193e), (0x11943, 0x11943), (0x119e0, 0x119e0),
         (0x11a34, 0x11a34), (0x11a47, 0x11a47), (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45), (0x11d97, 0x11d97), (0x11f41, 0x11f42),
         (0x16ff0, 0x16ff1), (0x1e030, 0x1e06d), (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef),
         (0x1f16c, 0x1f16c), (0x1fbf0, 0x1fbf9)]


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
    split, whole = pre_tokenizers.BertPreTokenizer(), normalizers.NFKD()
    classes = [
        ("CONTROL", lambda c: c not in "\0\ufffd" and not clean.normalize_str(c)),
        ("ACCENT", lambda c: not accents.normalize_str(c)),
        ("MARK", lambda c: not marks.normalize_str(c)),
        ("PUNCTUATION", lambda c: len(split.pre_tokenize_str("a" + c + "a")) == 3),
        ("WHOLE", lambda c: any(a <= ord(c) <= z for a, z in NEWER) and whole.normalize_str(c) == c),
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
