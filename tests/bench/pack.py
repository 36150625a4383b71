#!/usr/bin/env python3
"""Times `gen pack` against Hugging Face tokenizers: pack.py GEN THREADS RUNS [TEXT]

In:    TEXT: a file of text; without one, 6 MB of words by Zipf's law are made here. A tokenizer of each kind is
       trained on it.
Out:   a table, and tests/bench/results/pack.ISA.json. Timings are never tests.
Keeps: both sides run in turns, with THREADS threads; ours reads rows of JSON and writes the token file, theirs
       encodes a list that is in memory (encode_batch_fast). `lines`: documents of about 2 KB; `whole`: one document."""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

GEN, THREADS, RUNS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.environ["RAYON_NUM_THREADS"] = str(THREADS)
os.environ["TOKENIZERS_PARALLELISM"] = "true"

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers as pre, trainers  # noqa: E402

from table import write  # noqa: E402

ROW = "{:<10} {:<7} {:>11} {:>7} {:>11} {:>7} {:>6}"
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def made_text():
    rng = random.Random(1)
    parts = [a + v + e for a in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "ou") for e in ("", "n", "r", "st")]
    words = ["".join(rng.choices(parts, k=rng.randint(1, 4))) for _ in range(20000)]
    out, size = [], 0
    while size < 6_000_000:
        n = rng.randint(3, 20)
        line = " ".join(words[min(int(rng.paretovariate(0.9)) - 1, 19999)] for _ in range(n))
        line = line.capitalize() + rng.choice([".\n", ",\n", "?\n\n"])
        out.append(line)
        size += len(line)
    return "".join(out)


def tokenizer(kind, lines):
    special = ["<unk>", "<s>", "</s>"]
    mark = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    if kind == "gpt2":
        t = Tokenizer(models.BPE())
        t.pre_tokenizer, t.decoder = pre.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=special, show_progress=False,
                                      initial_alphabet=sorted(pre.ByteLevel.alphabet()))
    elif kind == "llama2":
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=special + BYTES, show_progress=False)
        t.pre_tokenizer = pre.Metaspace()
    else:
        t = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=8000, unk_token="<unk>", special_tokens=special,
                                          show_progress=False)
        t.pre_tokenizer = pre.Metaspace()
    t.train_from_iterator(lines, trainer)
    if kind == "llama2":
        t.normalizer, t.pre_tokenizer = mark, None
    if kind != "gpt2":
        t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
    return t


def main():
    text = open(sys.argv[4], encoding="utf-8").read() if len(sys.argv) > 4 else made_text()
    lines = text.splitlines(keepends=True)
    documents, part = [], ""
    for line in lines:
        part += line
        if len(part) >= 2000:
            documents.append(part)
            part = ""
    documents += [part] if part else []
    rows = []
    print(ROW.format("tokenizer", "shape", "ours MB/s", "spread", "peer MB/s", "spread", "ratio"))
    with tempfile.TemporaryDirectory() as tmp:
        for kind in ("gpt2", "llama2", "unigram"):
            t = tokenizer(kind, lines[:20000])
            t.save(f"{tmp}/tokenizer.json")
            with open(f"{tmp}/tokenizer_config.json", "w") as f:
                json.dump({"eos_token": "</s>"}, f)
            for shape, batch in (("lines", documents), ("whole", [text])):
                with open(f"{tmp}/data.jsonl", "w") as f:
                    f.writelines(json.dumps({"text": d}) + "\n" for d in batch)
                size = sum(len(d.encode()) for d in batch) / 1e6
                rates = {"ours": [], "peer": []}
                for _ in range(RUNS):
                    begin = time.perf_counter()
                    subprocess.run([GEN, "pack", "-o", f"{tmp}/out.safetensors", "--tokenizer", f"{tmp}/tokenizer.json",
                                    "--threads", str(THREADS), f"{tmp}/data.jsonl"],
                                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    rates["ours"].append(size / (time.perf_counter() - begin))
                    peer = Tokenizer.from_file(f"{tmp}/tokenizer.json")      # its cache is empty, as ours is
                    begin = time.perf_counter()
                    peer.encode_batch_fast(batch)
                    rates["peer"].append(size / (time.perf_counter() - begin))
                row = {"tokenizer": kind, "shape": shape, "megabytes": round(size, 1),
                       **{k: [round(r, 2) for r in v] for k, v in rates.items()}}
                rows.append(row)
                mid = {k: statistics.median(v) for k, v in rates.items()}
                spread = {k: f"{100 * (max(v) - min(v)) / mid[k]:.0f} %" for k, v in rates.items()}
                print(ROW.format(kind, shape, f"{mid['ours']:.2f}", spread["ours"],
                                 f"{mid['peer']:.2f}", spread["peer"], f"{mid['ours'] / mid['peer']:.2f}"), flush=True)
    write("pack", THREADS, runs=rows)


if __name__ == "__main__":
    main()
