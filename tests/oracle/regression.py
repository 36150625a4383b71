#!/usr/bin/env python3
"""Records the run of tests/objectives/regression: regression.py [--out DIR].

In:    transformers' GPT2Model over a linear layer of the features, without a mask; torch autograd.
Out:   model/ train.safetensors eval.safetensors; of fp64 final.safetensors expect.json, and in sets/
       those of a run with three parameter groups: the features' layer apart, and the head, which
       every second step learns from the step's first two samples; slopes: how losses of samples
       change along the gradient of others.
Keeps: what a binary does by default; a target that is NaN is none."""
import argparse
import json
import os

import numpy
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2Config, GPT2Model

import rounding

T, X, C, MICRO, ACCUM, STEPS, SAMPLES, EVAL_SAMPLES = 8, 5, 32, 2, 2, 10, 11, 5
SEED, LR, WARMUP, CLIP, DECAY = 9, 3e-3, 3, 8.0, 0.1
HEAD_LR, HEAD_DECAY, HEAD_EVERY, HEAD_SAMPLES, PROJ_LR, PROJ_CLIP = 1e-2, 0.5, 2, 2, 2e-3, 0.5
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "objectives", "ref")


class Tower(nn.Module):
    """Features (B, T, X) to one number a place; every place meets all."""

    def __init__(self):
        super().__init__()
        self.transformer = GPT2Model(GPT2Config(
            n_layer=2, n_embd=C, n_head=4, n_positions=T, vocab_size=1, bos_token_id=None,
            eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        self.transformer.proj = nn.Linear(X, C)
        self.head = nn.Linear(C, 1)

    def forward(self, features):
        all_meet_all = torch.zeros(features.shape[0], 1, T, T, dtype=features.dtype)
        x = self.transformer(inputs_embeds=self.transformer.proj(features),
                             attention_mask=all_meet_all).last_hidden_state
        return self.head(x)

    def weights(self):
        return {n: p for n, p in self.named_parameters() if n != "transformer.wte.weight"}


def randomise(model):
    """Nothing is trivially zero or one."""
    g = torch.Generator().manual_seed(100)
    for name, p in model.weights().items():
        z = torch.randn(p.shape, generator=g)
        norm = p.ndim == 1 and name.endswith("weight")
        p.data.copy_(1 + 0.1 * z if norm else (0.05 if p.ndim == 1 else 0.15) * z)


def records(path, n, seed):
    """Targets want more than a place's own features: a mean over all places is part of them."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn((n, T, X), generator=g)
    t = torch.sin(x[..., :1]) + x.mean(1, keepdim=True)[..., 1:2] * 3 - x[..., 2:3] * x[..., 3:4]
    t[torch.rand(t.shape, generator=g) < 0.1] = float("nan")
    save_file({"features": x, "targets": t}, path)


def squares(model, data, rows):
    """Sum of squared errors, number of targets."""
    y = model(data["features"][rows])
    t = data["targets"][rows]
    on = ~t.isnan()
    return ((y - t)[on] ** 2).sum(), int(on.sum())


def evaluate(model, data):
    total = count = 0
    with torch.no_grad():
        for b in range(0, EVAL_SAMPLES, MICRO):
            s, n = squares(model, data, list(range(b, min(b + MICRO, EVAL_SAMPLES))))
            total, count = total + s.item(), count + n
    return {"eval_loss": total / count}


def order():
    """An mt19937 permutation an epoch; its last step is filled up from its start."""
    per, out = -(-SAMPLES // (MICRO * ACCUM)), []
    for epoch in range(-(-STEPS // per)):
        g = torch.Generator().manual_seed(SEED + epoch)
        p = torch.randperm(SAMPLES, generator=g).tolist()
        out += (p + p)[:per * MICRO * ACCUM]
    return out


class Set:
    """Parameters with an optimiser, a schedule and a norm of their own."""

    def __init__(self, params, lr, clip, decay, steps):
        plain = {n for n in params if n.endswith("bias") or ".ln_" in n}
        self.params, self.clip = params.values(), clip
        self.opt = torch.optim.AdamW(
            [{"params": [p for n, p in params.items() if n not in plain], "weight_decay": decay},
             {"params": [p for n, p in params.items() if n in plain], "weight_decay": 0.0}],
            lr=lr, betas=(0.9, 0.999), eps=1e-8, foreach=False)
        self.sched = transformers.get_scheduler("linear", self.opt, WARMUP, steps)

    def update(self):
        """The norm of the gradient, and the rate."""
        norm = torch.nn.utils.clip_grad_norm_(self.params, self.clip, foreach=False)
        lr = self.sched.get_last_lr()[0]
        self.opt.step()
        self.sched.step()
        return norm.item(), lr


def sets_of(params, several):
    """By name, in the order of their updates; "": of the model."""
    part = {n: "head" if n.startswith("head.") else "proj" if ".proj." in n else "" for n in params}
    def these(*names):
        return {n: p for n, p in params.items() if part[n] in names}
    if not several:
        return {"": Set(params, LR, CLIP, DECAY, STEPS)}
    return {"": Set(these(""), LR, CLIP, DECAY, STEPS),
            "proj": Set(these("proj"), PROJ_LR, PROJ_CLIP, DECAY, STEPS),
            "head": Set(these("head"), HEAD_LR, CLIP, HEAD_DECAY, STEPS // HEAD_EVERY)}


def train(out, dtype, several=False):
    model = Tower()
    model.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")), strict=False)
    model.to(dtype).train()
    data, held = ({k: v.to(dtype) for k, v in
                   load_file(os.path.join(out, f"{name}.safetensors")).items()}
                  for name in ("train", "eval"))
    params = model.weights()
    sets, told = sets_of(params, several), {}
    run, todo = {"initial": evaluate(model, held), "steps": []}, order()
    for step in range(STEPS):
        window = [todo[(step * ACCUM + m) * MICRO:][:MICRO] for m in range(ACCUM)]
        targets = int((~data["targets"][sum(window, [])].isnan()).sum())
        loss = 0.0
        for rows in window:
            s, _ = squares(model, data, rows)
            (s / targets).backward()
            loss += s.item() / targets
        norm, lr = sets[""].update()
        if several:
            told["grad_norm_proj"], told["learning_rate_proj"] = sets["proj"].update()
        model.zero_grad()
        if several and step % HEAD_EVERY == HEAD_EVERY - 1:
            s, n = squares(model, data, sum(window, [])[:HEAD_SAMPLES])
            (s / n).backward()
            told["grad_norm_head"], told["learning_rate_head"] = sets["head"].update()
            model.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss, "grad_norm": norm, "lr": lr,
                             "targets": targets, **told})
    run["final"] = evaluate(model, held)
    return model, run


def meets_all(model):
    """The first place depends on the last: no causal mask is left."""
    x = torch.randn((1, T, X), generator=torch.Generator().manual_seed(1)).requires_grad_()
    model(x)[0, 0].sum().backward()
    assert x.grad[0, -1].abs().max() > 0
    model.zero_grad()


def main():
    torch.set_num_threads(1)
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=OUT, help="default: tests/objectives/ref")
    out = p.parse_args().out
    os.makedirs(os.path.join(out, "model"), exist_ok=True)
    model = Tower()
    randomise(model)
    meets_all(model)
    save_file({n: p.detach() for n, p in model.weights().items()},
              os.path.join(out, "model", "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(out, "model", "config.json"), "w") as f:
        f.write(json.dumps({"model_type": "gpt2", "architectures": ["GPT2ForRegression"],
                            "n_layer": 2, "n_embd": C, "n_head": 4, "n_positions": T,
                            "tie_word_embeddings": False}, indent=2) + "\n")
    records(os.path.join(out, "train.safetensors"), SAMPLES, 1000)
    records(os.path.join(out, "eval.safetensors"), EVAL_SAMPLES, 2000)
    for several in False, True:
        record(out, several)
    slopes(out)


def slopes(out):
    """Of samples 0 to 3 the derivative of their losses along the gradient of that of 5 to 10."""
    model = Tower()
    model.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")), strict=False)
    model.double()
    data = {k: v.double() for k, v in load_file(os.path.join(out, "train.safetensors")).items()}
    params = list(model.weights().values())
    s, n = squares(model, data, list(range(5, 11)))
    v = torch.autograd.grad(s / n, params)
    with open(os.path.join(out, "slopes"), "w") as f:
        for i in range(4):
            g = torch.autograd.grad(squares(model, data, [i])[0], params)
            f.write(f"{sum((a * b).sum() for a, b in zip(g, v)).item():.12g}\n")


def record(out, several):
    single, run32 = train(out, torch.float32, several)
    model, run = train(out, torch.float64, several)
    far = rounding.drift(lambda: train(out, torch.float64, several), model, run, Tower.weights)
    out = os.path.join(out, "sets") if several else out
    os.makedirs(out, exist_ok=True)
    ours, other = model.weights(), single.weights()
    drift = {n: (ours[n] - other[n]).abs().max().item() for n in ours}
    save_file({n: p.detach().float() for n, p in ours.items()},
              os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    expect = {"versions": {m.__name__: m.__version__ for m in
                           (torch, transformers, safetensors, numpy)},
              "settings": {"T": T, "features": X, "micro_batch": MICRO, "accum": ACCUM,
                           "steps": STEPS, "samples": SAMPLES, "eval_samples": EVAL_SAMPLES,
                           "seed": SEED, "lr": LR, "schedule": "linear", "warmup_steps": WARMUP,
                           "weight_decay": DECAY, "decay_rule": "hf5", "clip": CLIP,
                           **({"head_lr": HEAD_LR, "head_decay": HEAD_DECAY,
                               "head_every": HEAD_EVERY, "head_samples": HEAD_SAMPLES,
                               "proj_lr": PROJ_LR, "proj_clip": PROJ_CLIP} if several else {})},
              "dtype": "float64", **run,
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "final_max_abs_diff": drift},
              "rounding": far}
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(run["steps"], run32["steps"]))
    print("loss", " ".join(f"{s['loss']:.4f}" for s in run["steps"]))
    print("norm", " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]))
    print(f"eval {run['initial']['eval_loss']:.4f} {run['final']['eval_loss']:.4f}; fp32 against fp64: "
          f"loss {worst:.1e} weights {max(drift.values()):.1e}")


if __name__ == "__main__":
    main()
