#!/usr/bin/env python3
"""Records reference runs of algorithm distillation: ad.py [--out DIR] [CASE ...].

In:    histories of a random policy in darkroom; torch autograd. Every query is a sequence of its own, as long as it is,
       also where the program asks all places of a region in one pass.
Out:   a folder a case: tokens.safetensors (histories) model/ final.safetensors (fp64) expect.json.
Keeps: the rules of darkroom and of sequences stand here a second time, as text has them; the model without dropout is
       torch.nn.TransformerEncoder, to the bit of a double.
Method: the loss of a step is the mean over its actions and, times the type's weight, over its predictions."""
import argparse
import json
import os
import shutil

import numpy as np
import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

import data
import dropout
import rounding

D, LAYERS, HEADS = 16, 2, 2
TASKS, TEST, HISTORY, EPISODE = 81, (38, 51, 62, 65, 33, 5, 53, 49), 80, 20
STEPS, WARMUP, DECAY, CLIP, BETAS, LR = 10, 1, 0.01, 1.0, (0.9, 0.99), 3e-3
REGION = 8
REF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train", "ref")

# n: n_transit; drop: model.dropout, model.attention_dropout; pad: tokens of the program's rows, which draws depend on;
# weight: ad.type_weight; files: those of another case
CASES = {
    "ad_one": dict(compressed=True, all=False, n=18, micro=4, accum=2, drop=(0.1, 0.2), pad=18, seed=3 << 32 | 5, weight=0.5),
    "ad_all": dict(compressed=True, all=True, n=20, micro=2, accum=2, seed=7, weight=1.0),
    "ad_last": dict(compressed=True, all=True, n=20, micro=2, accum=2, seed=7, weight=1.0, last=True, files="ad_all"),
    "ad_plain": dict(compressed=False, all=False, n=12, micro=8, accum=1, seed=42, weight=0.0),
    "ad_windows": dict(compressed=False, all=True, n=12, micro=2, accum=1, seed=42, weight=0.0, files="ad_plain"),
}


# ---- darkroom and its histories ---------------------------------------------------------------------

def move(state, action):
    r, c = divmod(state, 9)
    r, c = r + (1, -1, 0, 0, 0)[action], c + (0, 0, 1, -1, 0)[action]
    return 9 * min(max(r, 0), 8) + min(max(c, 0), 8)


def make_histories(seed):
    """Of each task (state, action, reward, next) a step."""
    rng, out = np.random.default_rng(seed), []
    for goal in range(TASKS):
        steps, state = [], 40
        for t in range(HISTORY):
            action = int(rng.integers(5))
            after = move(state, action)
            steps.append((state, action, int(after == goal), after))
            state = 40 if (t + 1) % EPISODE == 0 else after
        out.append(steps)
    return out


def write_histories(path, histories):
    tensors = {}
    for g, steps in enumerate(histories):
        a = np.array(steps, np.uint8)
        place = lambda s: np.stack([s // 9, s % 9], -1)[:, None]
        ends = np.arange(1, HISTORY + 1)
        tensors.update({
            f"{g}/states": place(a[:, 0]), f"{g}/actions": a[:, 1:2], f"{g}/rewards": a[:, 2:3],
            f"{g}/next_states": place(a[:, 3]), f"{g}/dones": (ends % EPISODE == 0).astype(np.uint8)[:, None],
            f"{g}/compress_markers": (np.where(ends % 80 == 0, 2, 0) + (ends % 80 == 1)).astype(np.uint8)[:, None]})
    data.save(path, tensors, {})


# ---- samples: lists of (sequence, action or None, type) ----------------------------------------------

OPEN, CLOSE = ("mark", 0), ("mark", 1)


def state_at(steps, t):
    return steps[t][0] if t < len(steps) else 40


def sequence(case, context, state):
    """Too long: the first token stays, the newest ones and the query."""
    full = context + [("query", state)]
    over = len(full) - case["n"]
    return full if over <= 0 else full[:1] + full[1 + over:]


def ask(case, steps, first, t):
    """The query of place t of a region, or window, that begins at step `first`."""
    now = steps[first:first + t]
    if not case["compressed"]:
        return sequence(case, now, state_at(steps, first + t)), steps[first + t][1], None
    before = [OPEN] + steps[first - REGION:first] + [CLOSE] if first else []
    end = t == places(case) - 1
    seq = sequence(case, before + [OPEN] + now, state_at(steps, first + t))
    return seq, None if end else steps[first + t][1], 2 if end else 0


def places(case):
    return REGION + (not case.get("last")) if case["compressed"] else case["n"]


def samples(case, histories):
    """In the order of history, region or window, place."""
    out, at = [], range(0, HISTORY, REGION) if case["compressed"] else range(HISTORY - case["n"] + 1)
    for steps in histories:
        for first in at:
            if case["all"]:
                out.append([ask(case, steps, first, t) for t in range(places(case))])
            elif case["compressed"]:
                out += [[ask(case, steps, first, t)] for t in range(places(case))]
            else:
                out.append([ask(case, steps, first, places(case) - 1)])
    return out


# ---- the model ---------------------------------------------------------------------------------------

class Attention(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.in_proj, self.out_proj, self.drop = nn.Linear(D, 3 * D), nn.Linear(D, D), drop

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (y.view(B, T, HEADS, -1).transpose(1, 2) for y in self.in_proj(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5
        p = self.drop(scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf")).softmax(-1))
        return self.out_proj((p @ v).transpose(1, 2).reshape(B, T, D))


class Layer(nn.Module):
    """drop: of probabilities, attention, inside the feed-forward part, after it."""
    def __init__(self, drop):
        super().__init__()
        self.self_attn, self.norm1, self.norm2 = Attention(drop[0]), nn.LayerNorm(D), nn.LayerNorm(D)
        self.linear1, self.linear2, self.drop = nn.Linear(D, 4 * D), nn.Linear(4 * D, D), nn.ModuleList(drop)

    def forward(self, x):
        x = self.norm1(x + self.drop[1](self.self_attn(x)))
        return self.norm2(x + self.drop[3](self.linear2(self.drop[2](F.gelu(self.linear1(x))))))


class Model(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case, self.compressed = case, case["compressed"]
        share = case.get("drop", (0.0, 0.0))
        place = lambda p, n: dropout.Sites(p, case["seed"], 4 * n + 3)
        e = self.embed = nn.Module()
        e.transition, e.state, e.position = nn.Linear(10, D), nn.Embedding(81, D), nn.Embedding(case["n"], D)
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(
            Layer([place(share[i == 0], 4 * l + i) for i in range(4)]) for l in range(LAYERS))
        self.action = nn.Linear(D, 5)
        if self.compressed:
            e.marks, e.type = nn.Parameter(torch.zeros(2, D)), nn.Embedding(3, D)
            self.type = nn.Linear(D, 3)

    def row(self, token):
        e, types = self.embed, self.embed._modules["type"].weight if self.compressed else None
        if token[0] == "mark":
            return e.marks[token[1]] + types[1 + token[1]]
        if token[0] == "query":
            x = e.state.weight[token[1]]
        else:
            s, a, r, n = token
            f = [s // 9, s % 9] + [float(a == k) for k in range(5)] + [r, n // 9, n % 9]
            x = e.transition(torch.tensor(f, dtype=e.state.weight.dtype))
        return x + types[0] if self.compressed else x

    def forward(self, sequences, pad=0):
        """(n, 5 or 8) logits at the last tokens of sequences as long as each other, or padded with the first token."""
        T = pad or len(sequences[0])
        made = {t: self.row(t) for s in sequences for t in s}
        x = torch.stack([torch.stack([made[t] for t in s + s[:1] * (T - len(s))]) for s in sequences])
        x = x + self.embed.position.weight[:T]
        for layer in self.encoder.layers:
            x = layer(x)
        last = x[torch.arange(len(sequences)), torch.tensor([len(s) - 1 for s in sequences])]
        return torch.cat([self.action(last)] + ([self._modules["type"](last)] if self.compressed else []), -1)

    def logits(self, asked):
        """Of (sequence, ...), those of a length together."""
        if self.case.get("pad"):
            return self([a[0] for a in asked], self.case["pad"])
        out, lengths = [None] * len(asked), {len(a[0]) for a in asked}
        for n in lengths:
            of = [i for i, a in enumerate(asked) if len(a[0]) == n]
            for i, z in zip(of, self([asked[i][0] for i in of])):
                out[i] = z
        return torch.stack(out)


def losses(model, asked):
    """Sums of cross-entropies of actions and types."""
    z = model.logits(asked)
    on = [i for i, a in enumerate(asked) if a[1] is not None]
    action = F.cross_entropy(z[on, :5], torch.tensor([asked[i][1] for i in on]), reduction="sum") if on else z.sum() * 0
    kind = F.cross_entropy(z[:, 5:], torch.tensor([a[2] for a in asked]), reduction="sum") if model.compressed else 0 * action
    return action, kind


def is_torch(model):
    """The layers against nn.TransformerEncoder, which has no name of ours."""
    layer = nn.TransformerEncoderLayer(D, HEADS, 4 * D, dropout=0.0, activation="gelu", batch_first=True)
    theirs = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).double()
    theirs.load_state_dict({n.replace("in_proj.", "in_proj_"): p.double() for n, p in model.encoder.state_dict().items()})
    x = torch.randn(3, 7, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask, ours = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64), x
    for layer in model.double().encoder.layers:
        ours = layer(ours)
    assert (theirs(x, mask=mask, is_causal=True) - ours).abs().max() < 1e-13


# ---- a run -------------------------------------------------------------------------------------------

def evaluate(model, case, held):
    asked = [a for s in held for a in s]
    with torch.no_grad():
        sums = [losses(model, asked[i:i + 500]) for i in range(0, len(asked), 500)]
    action, kind = (sum(s[k].item() for s in sums) for k in range(2))
    action /= sum(a[1] is not None for a in asked)
    kind /= len(asked)
    out = {"eval_loss": action + case["weight"] * kind, "eval_loss_action": action}
    return {**out, "eval_loss_token_type": kind} if case["compressed"] else out


def train(case, out, histories, dtype):
    model = Model(case)
    model.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")))
    model.to(dtype).train()
    params = [p for _, p in model.named_parameters()]
    pool = samples(case, [h for g, h in enumerate(histories) if g not in TEST])
    held = samples(case, [histories[g] for g in sorted(TEST)])
    opt = torch.optim.AdamW(params, lr=LR, weight_decay=DECAY, betas=BETAS, eps=1e-8, foreach=False)
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(case["seed"] & 0xffffffff)).tolist()
    run, batch = {"initial": evaluate(model, case, held), "steps": []}, case["micro"] * case["accum"]
    for step in range(STEPS):
        window = [pool[i] for i in order[step * batch:][:batch]]
        asked = [a for s in window for a in s]
        actions, loss = sum(a[1] is not None for a in asked), 0.0
        for m in range(case["accum"]):
            part = [a for s in window[m * case["micro"]:][:case["micro"]] for a in s]
            dropout.Sites.now = (step, m * case["micro"]) if "drop" in case else None
            action, kind = losses(model, part)
            each = action / actions + case["weight"] * kind / len(asked)
            each.backward()
            loss += each.item()
        dropout.Sites.now = None
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP, foreach=False)
        lr = LR * (step / WARMUP if step < WARMUP else (STEPS - step) / (STEPS - WARMUP))
        opt.param_groups[0]["lr"] = lr
        opt.step()
        opt.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss, "grad_norm": norm.item(), "lr": lr, "targets": len(asked)})
    run["final"] = evaluate(model, case, held)
    return model, run


def code(token):
    """As the program's inputs have it."""
    if token[0] == "mark":
        return 81 * 60 + 81 + token[1]
    if token[0] == "query":
        return 81 * 60 + token[1]
    s, a, r, after = token
    return ((s * 5 + a) * 2 + r) * 6 + next(m for m in range(5) if move(s, m) == after)


def act(case, out, histories):
    """Of the first weights the logits of some queries."""
    model = Model(case)
    model.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")))
    held = [a[0] for s in samples(case, [histories[TEST[0]]]) for a in s]
    of = held[:3] + held[-2:]
    with torch.no_grad():
        z = model.double().logits([(s,) for s in of])
    return {"tokens": [[code(t) for t in s] for s in of], "logits": z.tolist()}


def prepare(name, case, out):
    os.makedirs(os.path.join(out, "model"))
    model, g = Model(case), torch.Generator().manual_seed(100 + len(name))
    for n, p in model.named_parameters():
        z = torch.randn(p.shape, generator=g)
        norm = "norm" in n and n.endswith("weight")
        scale = 0.05 if p.ndim == 1 else 0.1 if "transition" in n else 0.3
        p.data.copy_(1 + 0.1 * z if norm else scale * z)
    is_torch(model)
    save_file({n: p.detach().float() for n, p in model.named_parameters()},
              os.path.join(out, "model", "model.safetensors"), metadata={"format": "pt"})
    c = {"architectures": ["TransitionEncoder"], "model_type": "transitions", "hidden_size": D,
         "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": case["n"]}
    with open(os.path.join(out, "model", "config.json"), "w") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True) + "\n")
    if name == "ad_one":
        write_histories(os.path.join(out, "tokens.safetensors"), make_histories(17))
        os.symlink("tokens.safetensors", os.path.join(out, "eval.safetensors"))


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    if "files" in case:
        os.symlink(os.path.join("..", case["files"], "model"), os.path.join(out, "model"))
    else:
        prepare(name, case, out)
    for file in ("tokens.safetensors", "eval.safetensors"):
        if name != "ad_one":
            os.symlink(os.path.join("..", "ad_one", file), os.path.join(out, file))
    histories = make_histories(17)
    single, run32 = train(case, out, histories, torch.float32)
    model, run = train(case, out, histories, torch.float64)
    ours, other = dict(model.named_parameters()), dict(single.named_parameters())
    drift = {n: (ours[n] - other[n]).abs().max().item() for n in ours}
    save_file({n: p.detach().float() for n, p in ours.items()},
              os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    expect = {"case": name, "versions": {m.__name__: m.__version__ for m in (torch, safetensors, np)},
              "settings": {**{k: case[k] for k in sorted(case) if k != "files"}, "steps": STEPS, "lr": LR,
                           "schedule": "linear", "warmup_steps": WARMUP, "weight_decay": DECAY, "decay_rule": "all",
                           "clip": CLIP, "betas": BETAS, "region": REGION},
              "dtype": "float64", **run,
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "final_max_abs_diff": drift},
              "rounding": rounding.drift(lambda: train(case, out, histories, torch.float64), model, run)}
    if name == "ad_all":
        with open(os.path.join(out, "act.json"), "w") as f:
            f.write(json.dumps(act(case, out, histories)) + "\n")
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(run["steps"], run32["steps"]))
    print(f"{name}: {sum(p.numel() for p in ours.values())} parameters; loss",
          " ".join(f"{s['loss']:.4f}" for s in run["steps"]))
    print("  norm", " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]))
    print(f"  eval {run['initial']['eval_loss']:.4f} {run['final']['eval_loss']:.4f}; fp32 against "
          f"fp64: loss {worst:.1e} weights {max(drift.values()):.1e}")


def main():
    torch.set_num_threads(1)
    dropout.check_philox()
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    for name in args.cases or CASES:
        record(name, args.out)


if __name__ == "__main__":
    main()
