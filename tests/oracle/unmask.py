#!/usr/bin/env python3
"""Records what LLaDA's sampler says after prompts: unmask.py [--out DIR].

In:    the weights mdm_llada/model of mdm.py, in fp64.
Out:   mdm_llada/generated.json: a list of flags, prompts and answers.
Keeps: a hidden token becomes argmax e^logit / (-ln u)^temperature of the tokenizer's ids but the mask.
Method: blocks left to right; the surest of a block stay, the others are asked for again; draws are Philox of
       (id / 2, place, step, text) under seed and stream; see runtime/data/unmask_order.c."""
import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import load_file

import dropout
import mdm
import mlm

TOKENS, PLACES = 0x554D534B, 0x554D534C
PROMPTS = ["w10 w150 w7", "w3", "w99 w98 w97 w96 w95 w94 w93", "w180 w20", "w60 w61 w62 w63"]
ASKED = [dict(length=16, block=8, steps=6), dict(length=16, block=4, steps=16, guidance=0.75),
         dict(length=12, block=12, steps=5, order="random", seed=5 << 32 | 9),
         dict(length=16, block=16, steps=8, temperature=0.7, seed=11)]


def uniform(seed, stream, place, step, text, n):
    """n draws in (0, 1)."""
    c = [np.arange((n + 1) // 2, dtype=np.uint64)] + [
        np.full((n + 1) // 2, x, np.uint64) for x in (place, step, text)]
    w = dropout.philox(c, ((seed & 0xffffffff) ^ (stream * 0x9E3779B9 & 0xffffffff), seed >> 32))
    both = [((w[i] << np.uint64(32) | w[i + 1]) >> np.uint64(12)).astype(np.float64) for i in (0, 2)]
    return (np.stack(both, -1).reshape(-1)[:n] + 0.5) * 2.0 ** -52


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), torch.ones(1, len(ids)))[0]


def answer(model, how, number, prompt):
    ids = prompt + [mdm.MASK] * how["length"]
    blocks, seed = how["length"] // how["block"], how.get("seed", 42)
    steps, g, t = how["steps"] // blocks, how.get("guidance", 0), how.get("temperature", 0)
    for first in range(len(prompt), len(ids), how["block"]):
        for step in range(steps):
            hidden = [i for i in range(first, first + how["block"]) if ids[i] == mdm.MASK]
            show = how["block"] // steps + (step < how["block"] % steps)
            if not show:
                break
            z = logits(model, ids)
            if g:
                un = logits(model, [mdm.MASK] * len(prompt) + ids[len(prompt):])
                z = un + (g + 1) * (z - un)
            found = []
            for i in hidden:
                score = z[i, :mlm.IDS].numpy().copy()
                if t:
                    score -= t * np.log(-np.log(uniform(seed, TOKENS, i, step, number, mlm.IDS)))
                score[mdm.MASK] = -np.inf
                token = int(score.argmax())
                sure = z[i].softmax(-1)[token].item()
                if how.get("order") == "random":
                    sure = uniform(seed, PLACES, i, step, number, 1)[0]
                found.append((-sure, i, token))
            for _, i, token in sorted(found)[:show]:
                ids[i] = token
    return " ".join(f"w{i}" for i in ids[len(prompt):] if i >= 5)


def main():
    torch.set_num_threads(1)
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=mdm.REF, help="folder of the cases; default: tests/train/ref")
    folder = os.path.join(p.parse_args().out, "mdm_llada")
    model = mdm.Llada()
    model.load_state_dict(load_file(os.path.join(folder, "model", "model.safetensors")))
    model.double().eval()
    rows = []
    for how in ASKED:
        flags = {"gen-length": how["length"], "gen-block": how["block"], "gen-steps": how["steps"],
                 "gen-remasking": how.get("order", "low_confidence"), "seed": how.get("seed", 42),
                 "guidance": how.get("guidance", 0), "temperature": how.get("temperature", 0)}
        said = [answer(model, how, k, [mlm.CLS] + [int(w[1:]) for w in text.split()])
                for k, text in enumerate(PROMPTS)]
        rows.append({"flags": " ".join(f"--{k} {v}" for k, v in flags.items()),
                     "said": [{"prompt": text, "answer": a} for text, a in zip(PROMPTS, said)]})
    with open(os.path.join(folder, "generated.json"), "w") as f:
        f.write(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
