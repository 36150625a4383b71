#!/usr/bin/env python3
"""Records reference runs of masked language models: mlm.py [--out DIR] [CASE ...].

In:    transformers' BertForMaskedLM, and MicroBERT as its rows of families.def say; torch autograd.
Out:   a folder a case: model/ tokens.safetensors eval.safetensors final.safetensors (fp64) expect.json.
Keeps: masks of runtime/data/mask_draw.h; losses are divided by the window's number of chosen words.
Method: every draw is Philox of (place, sample, epoch) under seed and stream; see mask_draw.c."""
import argparse
import json
import os
import random
import shutil

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM
from transformers.models.bert import modeling_bert

import data
import dropout
import rounding

T, V, IDS, MICRO, ACCUM, STEPS, SAMPLES, EVAL_SAMPLES, WARMUP = 32, 205, 201, 4, 2, 10, 27, 9, 1
PAD, CLS, SEP, UNK, MASK = range(5)
TRAIN, EVAL = 0x4d41534b, 0x4d41534c
DECAY, CLIP = 0.01, 1.0
REF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train", "ref")


class Head(nn.Module):
    def __init__(self, d, size):
        super().__init__()
        self.query, self.key, self.values = (nn.Linear(d, size) for _ in range(3))

    def forward(self, x, mask):
        y = F.scaled_dot_product_attention(self.query(x)[:, None], self.key(x)[:, None],
                                           self.values(x)[:, None], attn_mask=mask)
        return y[:, 0]


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = nn.ModuleList(Head(d, d // heads) for _ in range(heads))
        self.proj = nn.Linear(d, d)

    def forward(self, x, mask):
        return self.proj(torch.cat([h(x, mask) for h in self.heads], -1))


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ffwd = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return self.ffwd(x)


class Layer(nn.Module):
    """The residual is taken after the norm."""

    def __init__(self, d, heads):
        super().__init__()
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.self_attention, self.feed_forward = Attention(d, heads), FeedForward(d)

    def forward(self, x, mask):
        x = self.layer_norm1(x)
        x = x + self.self_attention(x, mask)
        x = self.layer_norm2(x)
        return x + self.feed_forward(x)


class Embedding(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.word_embeddings, self.pos_embeddings = nn.Embedding(V, d), nn.Embedding(T, d)
        self.layer_norm = nn.LayerNorm(d, eps=1e-12)

    def forward(self, ids):
        return self.layer_norm(self.word_embeddings(ids) +
                               self.pos_embeddings(torch.arange(ids.shape[1])))


class Encoder(nn.Module):
    def __init__(self, layers, heads, d):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))


class MicroBert(nn.Module):
    def __init__(self, layers=2, heads=4, d=8):
        super().__init__()
        self.embedding = Embedding(d)
        self.encoder = Encoder(layers, heads, d)
        self.mlm_head = nn.Linear(d, V)

    def forward(self, ids, on):
        x, mask = self.embedding(ids), (on != 0)[:, None, None, :]
        for layer in self.encoder.layers:
            x = layer(x, mask)
        return self.mlm_head(x)


def attention_of_sites(module, query, key, value, attention_mask, scaling, **_):
    """The library's own, but for what draws the probabilities' mask: heads side by side in a row of keys."""
    p = query @ key.transpose(2, 3) * scaling
    p = (p if attention_mask is None else p + attention_mask).softmax(-1)
    B, H, n, _ = p.shape
    p = module.sites(p.transpose(1, 2).reshape(B, n, H * n)).view(B, n, H, n).transpose(1, 2)
    return (p @ value).transpose(1, 2).contiguous(), p


class Bert(nn.Module):
    """Token types are 0; the word 5 counts as padding, whose row learns nothing where it stands.
    drop: shares of the places of runtime's dropout_site(), of probabilities."""

    def __init__(self, drop=(0, 0), seed=0):
        super().__init__()
        self.model = BertForMaskedLM(BertConfig(
            vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=T, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, pad_token_id=5, attn_implementation="eager"))
        bert, layers = self.model.bert, self.model.bert.encoder.layer
        place = lambda share, s: dropout.Sites(share, seed, 4 * s + 3)
        bert.embeddings.dropout = place(drop[0], 3 * len(layers))
        for i, layer in enumerate(layers):
            layer.attention.self.sites = place(drop[1], 3 * i)
            layer.attention.output.dropout = place(drop[0], 3 * i + 1)
            layer.output.dropout = place(drop[0], 3 * i + 2)

    def forward(self, ids, on):
        return self.model(input_ids=ids, attention_mask=on).logits


# select, share: recipe fields; files: those of another case
CASES = {
    "mlm_microbert": dict(model=MicroBert, select="exact", share=0.15, seed=42, lr=1e-2),
    "mlm_bert": dict(model=Bert, select="independent", share=0.3, seed=3 << 32 | 5, lr=3e-3),
    "mlm_dropout": dict(model=lambda: Bert((0.1, 0.2), 3 << 32 | 5), select="independent", share=0.3,
                        seed=3 << 32 | 5, lr=3e-3, files="mlm_bert"),
}


def weights(model):
    """Names of files; a tied tensor once."""
    return {n.removeprefix("model."): p for n, p in model.named_parameters()}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def tokenizer():
    """The plain tokenizer.json of the ids, and its name in token files."""
    ids = {w: i for i, w in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])}
    ids.update({f"w{i}": i for i in range(5, IDS)})
    text = (json.dumps(ids, indent=2) + "\n").encode()
    return text, f"crc32c:{crc32c(text):08x}:{len(text)}"


def write_rows(path, seed, n):
    """Texts of 1 to T - 2 words between [CLS] and [SEP]."""
    rng, rows = random.Random(seed), []
    for i in range(n):
        length = (T - 2, 1, 2)[i] if i < 3 else rng.randint(5, T - 2)
        words = [UNK if rng.random() < 0.1 else min(IDS - 1, 5 + int(rng.expovariate(0.01)))
                 for _ in range(length)]
        rows.append([CLS] + words + [SEP])
    tokens = np.array(sum(rows, []), np.int32)
    meta = {"format": "diecast-tokens-1", "kind": "rows", "tokenizer": tokenizer()[1],
            "vocab": str(IDS), "eos": "-1", "mask_id": str(MASK), "pad_id": str(PAD),
            "documents": str(n), "targets": "own", "max_length": str(T), "sha256": f"{seed:064x}"}
    data.save(path, {
        "doc_offsets": np.cumsum([0] + [len(r) for r in rows]).astype(np.int64),
        "tokens": tokens,
        "mask": np.isin(tokens, [PAD, CLS, SEP, MASK], invert=True).astype(np.uint8)}, meta)


def words_of(rule, stream, epoch, sample, places):
    """(places, 4) words of each place."""
    c = [np.array(places, np.uint64), np.full(len(places), sample, np.uint64),
         np.zeros(len(places), np.uint64), np.full(len(places), epoch, np.uint64)]
    seed = rule["seed"]
    key = (seed & 0xffffffff) ^ (stream * 0x9E3779B9 & 0xffffffff), seed >> 32
    return np.stack(dropout.philox(c, key), -1).astype(object)


def hide(rule, stream, epoch, sample, row):
    """Input and labels of a row."""
    places = [i for i, t in enumerate(row) if t not in (PAD, CLS, SEP, MASK)]
    word = dict(zip(places, words_of(rule, stream, epoch, sample, places)))
    if rule["select"] == "exact":
        k = max(1, int(rule["share"] * len(places)))
        chosen = sorted(places, key=lambda i: (word[i][0], i))[:k]
    else:
        chosen = [i for i in places if word[i][0] < int(rule["share"] * 2 ** 32)]
    seen, labels = list(row), [data.IGNORE] * len(row)
    for i in chosen:
        labels[i] = row[i]
        if word[i][1] < int(0.8 * 2 ** 32):
            seen[i] = MASK
        elif word[i][1] < int(0.9 * 2 ** 32):
            seen[i] = (int(word[i][2]) << 32 | int(word[i][3])) % IDS
    return seen, labels


def ce_sum(model, batch):
    """Padding holds ids that change nothing."""
    fill = lambda rows, by: torch.tensor([r + [by] * (T - len(r)) for r in rows])
    ids, labels = fill([b[0] for b in batch], 7), fill([b[1] for b in batch], data.IGNORE)
    on = fill([[1] * len(b[0]) for b in batch], 0)
    logits = model(ids, on)
    s = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=data.IGNORE, reduction="sum")
    return s, int((labels != data.IGNORE).sum())


def evaluate(model, rule, held):
    total = count = 0
    with torch.no_grad():
        for b in range(0, len(held), MICRO):
            part = [hide(rule, EVAL, 0, b + i, r) for i, r in enumerate(held[b:b + MICRO])]
            s, n = ce_sum(model, part)
            total, count = total + s.item(), count + n
    return {"eval_loss": total / count}


def order(seed):
    """(epoch, sample) of the whole run; the last step of an epoch is filled up from its start."""
    per, out = -(-SAMPLES // (MICRO * ACCUM)), []
    for epoch in range(-(-STEPS // per)):
        g = torch.Generator().manual_seed((seed + epoch) & 0xffffffff)
        p = torch.randperm(SAMPLES, generator=g).tolist()
        out += [(epoch, i) for i in (p + p)[:per * MICRO * ACCUM]]
    return out


def train(case, out, rows, held, dtype):
    model = case["model"]()
    got = load_file(os.path.join(out, "model", "model.safetensors"))
    params = weights(model)
    with torch.no_grad():
        for name, p in params.items():
            p.copy_(got[name])
    model.to(dtype).train()
    params = weights(model)
    opt = torch.optim.AdamW(params.values(), lr=case["lr"], weight_decay=DECAY, betas=(0.9, 0.999),
                            eps=1e-8, foreach=False)
    sched = transformers.get_scheduler("linear", opt, WARMUP, STEPS)
    run, todo = {"initial": evaluate(model, case, held), "steps": []}, order(case["seed"])
    for step in range(STEPS):
        window = [[hide(case, TRAIN, epoch, i, rows[i])
                   for epoch, i in todo[(step * ACCUM + m) * MICRO:][:MICRO]] for m in range(ACCUM)]
        targets = sum(t != data.IGNORE for part in window for _, labels in part for t in labels)
        loss = 0.0
        for m, part in enumerate(window):
            dropout.Sites.now = (step, m * MICRO)
            s, _ = ce_sum(model, part)
            (s / targets).backward()
            loss += s.item() / targets
        dropout.Sites.now = None
        norm = torch.nn.utils.clip_grad_norm_(params.values(), CLIP, foreach=False)
        lr = sched.get_last_lr()[0]
        opt.step()
        sched.step()
        opt.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss, "grad_norm": norm.item(), "lr": lr,
                             "targets": targets})
    run["final"] = evaluate(model, case, held)
    return model, run


PROBE = "w10 w150 [MASK] w20 w7"


def probe(model):
    """The likeliest words of the tokenizer at the mask, with what they have of all rows."""
    ids = [CLS] + [MASK if w == "[MASK]" else int(w[1:]) for w in PROBE.split()] + [SEP]
    row = torch.tensor([ids + [7] * (T - len(ids))])
    with torch.no_grad():
        p = model(row, torch.tensor([[1] * len(ids) + [0] * (T - len(ids))]))[0, ids.index(MASK)].softmax(-1)
    words = range(5, IDS)  # [UNK] is none
    best = sorted(words, key=lambda i: -p[i])[:5]
    assert p[IDS:].max() > p[best[0]], "no row without a word is the likeliest"
    return {"text": PROBE, "said": [f"  {p[i].item():.4f}  w{i}" for i in best]}


def write_config(model, folder):
    if isinstance(model, Bert):
        model.model.config.architectures = ["BertForMaskedLM"]
        c = json.loads(model.model.config.to_json_string())
    else:
        c = {"model_type": "microbert", "vocab_size": V, "n_layers": 2, "n_heads": 4, "n_embed": 8,
             "max_seq_len": T}
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True) + "\n")


def prepare(name, case, out):
    """Model, tokenizer and token files."""
    os.makedirs(os.path.join(out, "model"))
    model = case["model"]()
    g = torch.Generator().manual_seed(100 + len(name))
    for n, p in model.named_parameters():
        z = torch.randn(p.shape, generator=g)
        norm = p.ndim == 1 and n.endswith("weight")
        p.data.copy_(1 + 0.1 * z if norm else (0.05 if p.ndim == 1 else 0.3) * z)
        if p.shape == (V,):
            p.data[IDS:] += 6    # rows that no word has seem likely
    save_file({n: p.detach().clone() for n, p in weights(model).items()},
              os.path.join(out, "model", "model.safetensors"), metadata={"format": "pt"})
    write_config(model, os.path.join(out, "model"))
    with open(os.path.join(out, "tokenizer.json"), "wb") as f:
        f.write(tokenizer()[0])
    write_rows(os.path.join(out, "tokens.safetensors"), 1000 + len(name), SAMPLES)
    write_rows(os.path.join(out, "eval.safetensors"), 2000 + len(name), EVAL_SAMPLES)


def read_rows(path):
    with safetensors.safe_open(path, "np") as f:
        tokens, at = f.get_tensor("tokens").tolist(), f.get_tensor("doc_offsets").tolist()
    return [tokens[b:e] for b, e in zip(at, at[1:])]


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    if "files" in case:
        for file in ("model", "tokenizer.json", "tokens.safetensors", "eval.safetensors"):
            os.symlink(os.path.join("..", case["files"], file), os.path.join(out, file))
    else:
        prepare(name, case, out)
    rows, held = (read_rows(os.path.join(out, f"{n}.safetensors")) for n in ("tokens", "eval"))
    single, run32 = train(case, out, rows, held, torch.float32)
    model, run = train(case, out, rows, held, torch.float64)
    ours, other = weights(model), weights(single)
    drift = {n: (ours[n] - other[n]).abs().max().item() for n in ours}
    save_file({n: p.detach().float() for n, p in ours.items()},
              os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    expect = {"case": name,
              "versions": {m.__name__: m.__version__ for m in (torch, transformers, safetensors, np)},
              "settings": {"T": T, "micro_batch": MICRO, "accum": ACCUM, "steps": STEPS,
                           "samples": SAMPLES, "eval_samples": EVAL_SAMPLES, "seed": case["seed"],
                           "select": case["select"], "share": case["share"], "lr": case["lr"],
                           "schedule": "linear", "warmup_steps": WARMUP, "weight_decay": DECAY,
                           "decay_rule": "all", "clip": CLIP, "kind": "rows"},
              "dtype": "float64", **run, "probe": probe(model),
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "final_max_abs_diff": drift},
              "rounding": rounding.drift(lambda: train(case, out, rows, held, torch.float64), model, run, weights)}
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
    modeling_bert.eager_attention_forward = attention_of_sites
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    for name in args.cases or CASES:
        record(name, args.out)


if __name__ == "__main__":
    main()
