"""Token files for the oracle: makes, reads and cuts them into samples.

In:    a seed; or a token file (format "diecast-tokens-1", a safetensors file).
Out:   tokens I32 [N], doc_offsets I64 [D+1], mask U8 [N] (1 = target); samples (ids, labels).
Keeps: the byte vocabulary: ids 0..255 are bytes, 256 ends a document."""
import hashlib
import json
import random

import numpy as np
from safetensors import safe_open

EOS = 256
VOCAB = 257
IGNORE = -100
WORDS = ("the", "a", "small", "machine", "casts", "metal", "into", "one", "shape", "and", "then",
         "cools", "slowly", "while", "workers", "count", "every", "piece", "again", "tonight")


def sentence(rng, nwords):
    return " ".join(rng.choice(WORDS) for _ in range(nwords)).capitalize() + "."


def save(path, tensors, meta):
    """A safetensors file of the same bytes every time: the library shuffles the metadata."""
    names = {np.int64: "I64", np.int32: "I32", np.float32: "F32", np.uint8: "U8"}
    header, at = {"__metadata__": meta}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": names[a.dtype.type], "shape": list(a.shape),
                        "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for a in tensors.values():
            f.write(a.tobytes())
    with safe_open(path, "np") as f:
        assert f.metadata() == meta
        assert all(np.array_equal(f.get_tensor(n), a) for n, a in tensors.items())


def write(path, docs, masks=None, max_length=None):
    """docs: lists of ids. masks: lists of 0/1 of the same lengths, or None for packed text."""
    tokens = np.array([t for d in docs for t in d], dtype=np.int32)
    offsets = np.cumsum([0] + [len(d) for d in docs]).astype(np.int64)
    source = b"".join(bytes(t for t in d if t < 256) for d in docs)
    tensors = {"doc_offsets": offsets, "tokens": tokens}
    meta = {"format": "diecast-tokens-1", "kind": "rows" if masks else "packed",
            "tokenizer": "bytes", "vocab": str(VOCAB), "eos": str(EOS),
            "documents": str(len(docs)), "sha256": hashlib.sha256(source).hexdigest()}
    if masks:
        tensors["mask"] = np.array([m for r in masks for m in r], dtype=np.uint8)
        meta["max_length"] = str(max_length)
    save(path, tensors, meta)


def make_packed(path, seed, nsamples, T):
    """One stream that holds exactly nsamples samples and a few tokens too few for another."""
    rng = random.Random(seed)
    want = nsamples * T + 1 + T // 4
    docs, n = [], 0
    while n < want:
        doc = list(sentence(rng, rng.randint(4, 40)).encode()) + [EOS]
        docs.append(doc[:want - n])
        n += len(docs[-1])
    write(path, docs)


def make_rows(path, seed, nrows, T):
    """Prompt-masked rows of 5..T tokens; some fill T exactly, some are cut before their EOS."""
    rng = random.Random(seed)
    docs, masks = [], []
    for i in range(nrows):
        prompt = list(sentence(rng, rng.randint(1, 2)).encode())[:T - 4]
        answer = list(sentence(rng, rng.randint(1, 6)).encode())[:rng.randint(2, 2 * T)] + [EOS]
        row = (prompt + answer)[:T]
        docs.append(row)
        masks.append([0] * len(prompt) + [1] * (len(row) - len(prompt)))
    write(path, docs, masks, T)


def make_documents(path, seed, ndocs, T):
    """Documents of 2..T tokens, most of them short, a third with a prompt."""
    rng = random.Random(seed)
    docs, masks = [], []
    for i in range(ndocs):
        n = rng.randint(2, T if i % 5 == 0 else T // 2)
        row = (list(sentence(rng, 6).encode()) + [EOS] * T)[:n]
        docs.append(row)
        masks.append([0] * (n // 2 if i % 3 == 0 else 0))
        masks[-1] += [1] * (n - len(masks[-1]))
    write(path, docs, masks, T)


def bins(lengths, T):
    """Best fit decreasing: longest first, of equal ones the first; of all bins with the least space
    that is enough the one that has had it longest. Lists of document numbers."""
    out, space, since = [], [], []
    for at, i in enumerate(sorted(range(len(lengths)), key=lambda i: -lengths[i])):
        fits = [k for k in range(len(out)) if space[k] >= lengths[i]]
        if fits:
            k = min(fits, key=lambda k: (space[k], since[k]))
        else:
            k = len(out)
            out, space, since = out + [[]], space + [T], since + [0]
        out[k].append(i)
        space[k], since[k] = space[k] - lengths[i], at
    return out


def samples(path, T, kind):
    """A sample is a list of documents: one window, one row, or for bfd those of a bin."""
    docs = documents(path, T)
    if kind != "bfd":
        return [[d] for d in docs]
    return [[docs[i] for i in b] for b in bins([len(ids) for ids, _ in docs], T)]


def documents(path, T):
    """[(input ids, labels)]: labels are already shifted, IGNORE where there is no target."""
    with safe_open(path, "np") as f:
        kind = f.metadata()["kind"]
        tokens = f.get_tensor("tokens").astype(np.int64)
        offsets = f.get_tensor("doc_offsets")
        mask = f.get_tensor("mask") if "mask" in f.keys() else np.ones(len(tokens), np.uint8)
    if kind == "packed":
        return [(tokens[i:i + T].tolist(), tokens[i + 1:i + T + 1].tolist())
                for i in range(0, len(tokens) - T, T)]
    out = []
    for b, e in zip(offsets[:-1], offsets[1:]):
        row, m = tokens[b:e], mask[b:e]
        labels = np.where(m[1:] != 0, row[1:], IGNORE).tolist() + [IGNORE]
        out.append((row[:T].tolist(), labels[:T]))
    return out
