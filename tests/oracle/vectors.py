#!/usr/bin/env python3
"""Records vectors.json (Philox4x32-10, mt19937 permutations, bins), schedules.json: vectors.py [DIR].

In:    Random123's published known answers; torch.randperm; TRL's packing "bfd"; transformers' and
       torch's schedules.
Out:   tests/train/ref/vectors.json, tests/train/ref/schedules.json.
Keeps: the published answers: a slow Philox written from the paper must give them first."""
import json
import os
import random
import sys
import warnings
import zlib

import torch
import transformers
import trl
from datasets import Dataset, disable_progress_bars
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

REF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train", "ref")
KNOWN = (  # kat_vectors of Random123, philox 4x32 with 10 rounds: counter, key, answer
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"))
PERMUTATIONS = ((1, 0), (2, 1), (10, 42), (10, 0), (48, 7), (48, 4294967295), (1000, 123456789),
                (65537, 42), (100000, 42), (100000, 2026))
BINS = ((1, 8), (40, 8), (60, 32), (200, 64), (150, 100))       # documents, longest
SCHEDULES = {"linear": {}, "cosine": {}, "cosine_with_min_lr": {"min_lr": 1e-5},
             "cosine_with_restarts": {}, "polynomial": {}, "inverse_sqrt": {}, "constant": {},
             "constant_with_warmup": {}}
LR, TOTAL, BEYOND = 2e-4, 100, 4


def philox(counter, key):
    """Salmon et al. 2011, section 3.3: ten rounds of two 32x32 multiplies, key bumped between."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def words(text):
    return [int(w, 16) for w in text.split()]


def philox_vectors():
    out = []
    for counter, key, answer in KNOWN:
        assert philox(words(counter), words(key)) == words(answer)
        out.append({"counter": words(counter), "key": words(key), "out": words(answer)})
    rng = random.Random(2011)
    for _ in range(13):
        counter = [rng.getrandbits(32) for _ in range(4)]
        key = [rng.getrandbits(32) for _ in range(2)]
        out.append({"counter": counter, "key": key, "out": philox(counter, key)})
    return out


def permutation_vectors():
    out = []
    for n, seed in PERMUTATIONS:
        p = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        row = {"n": n, "seed": seed, "crc32_i32le": zlib.crc32(p.to(torch.int32).numpy().tobytes()),
               "head": p[:10].tolist()}
        out.append(row)
    return out


def bin_vectors():
    """Lengths of documents, and for every bin the lengths of those that TRL puts there."""
    out = []
    rng = random.Random(5)
    for n, most in BINS:
        lengths = [rng.randint(1, most) for _ in range(n)]
        packed = trl.pack_dataset(Dataset.from_dict({"input_ids": [[0] * l for l in lengths]}), most,
                                  "bfd")
        out.append({"T": most, "lengths": lengths, "bins": packed["seq_lengths"][:]})
    return out


def rates(make, steps):
    """The rate of optimiser step s + 1, for s = 0 .. steps - 1."""
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=LR)
    sched = make(opt)
    out = [sched.get_last_lr()[0]]
    while len(out) < steps:
        opt.step()
        sched.step()
        out.append(sched.get_last_lr()[0])
    return out


def schedules():
    """transformers' by name; torch's two for as long as they are defined."""
    out = []
    for name, kwargs in SCHEDULES.items():
        for w in (10, 0):
            make = lambda opt: transformers.get_scheduler(name, opt, w, TOTAL,
                                                          scheduler_specific_kwargs=kwargs)
            out.append({"name": name, "args": kwargs, "warmup": w,
                        "lr": rates(make, TOTAL + BEYOND)})
    anneal = lambda opt: CosineAnnealingLR(opt, TOTAL, eta_min=1e-5)
    out.append({"name": "anneal", "args": {"min_lr": 1e-5}, "warmup": 0,
                "lr": rates(anneal, TOTAL)})
    onecycle = lambda opt: OneCycleLR(opt, LR, total_steps=TOTAL, pct_start=0.1, cycle_momentum=False)
    out.append({"name": "onecycle", "args": {"pct_start": 0.1}, "warmup": 0, "lr": rates(onecycle, TOTAL)})
    return out


def save(name, doc):
    folder = sys.argv[1] if len(sys.argv) > 1 else REF
    with open(os.path.join(folder, name), "w") as f:
        f.write(json.dumps(doc) + "\n")


def main():
    warnings.filterwarnings("ignore")
    disable_progress_bars()
    versions = {m.__name__: m.__version__ for m in (torch, transformers)}
    save("vectors.json", {"versions": {**versions, "trl": trl.__version__},
                          "philox4x32_10": philox_vectors(),
                          "permutations": permutation_vectors(), "bins": bin_vectors()})
    save("schedules.json", {"versions": versions, "lr": LR, "total": TOTAL,
                            "schedules": schedules()})


if __name__ == "__main__":
    main()
