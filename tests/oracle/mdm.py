#!/usr/bin/env python3
"""Records reference runs of masked diffusion models: mdm.py [--out DIR] [CASE ...].

In:    LLaDA's block as its paper says, and the encoder's, in PyTorch, by the names of their tensors; torch autograd.
Out:   a folder a case: model/ tokens.safetensors eval.safetensors final.safetensors (fp64) expect.json.
Keeps: a hidden token's loss counts 1 / p, of norm seq 1 / (p may); the sum is divided over the whole window.
Method: every draw is Philox of (place, sample, epoch) under seed and stream; see mask_draw.c."""
import argparse
import json
import os
import random
import shutil

import numpy as np
import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import Trainer

import data
import mlm
import rounding

T, V, MICRO, ACCUM, STEPS, SAMPLES, EVAL_SAMPLES = 32, 205, 4, 2, 15, 27, 9
PAD, BOS, EOS, UNK, MASK = range(5)
TRAIN, EVAL, LENGTHS = 0x4d41534b, 0x4d41534c, 0x4d41534d
ONCE = 0xffffffff
DECAY, CLIP, E = 0.01, 1.0, 1.0 / 1000
LAYERS, HEADS, C, FFN, THETA = 2, 4, 32, 64, 500000.0
REF = mlm.REF

mlm.STEPS, mlm.SAMPLES, mlm.MICRO, mlm.ACCUM = STEPS, SAMPLES, MICRO, ACCUM


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def turned(x):
    """Rotary positions: the halves of each head as pairs."""
    D = x.shape[-1]
    angle = torch.arange(x.shape[-2]).double()[:, None] * THETA ** (-torch.arange(0, D, 2).double() / D)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :D // 2], x[..., D // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm, self.ff_norm = Norm(), Norm()
        self.q_proj, self.k_proj, self.v_proj, self.attn_out = (nn.Linear(C, C, bias=False) for _ in range(4))
        self.ff_proj, self.up_proj = nn.Linear(C, FFN, bias=False), nn.Linear(C, FFN, bias=False)
        self.ff_out = nn.Linear(FFN, C, bias=False)

    def forward(self, x, mask):
        y = self.attn_norm(x)
        q, k, v = (p(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, attn_mask=mask)
        x = x + self.attn_out(y.transpose(1, 2).flatten(2))
        y = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(y)) * self.up_proj(y))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(V, C)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f, self.ff_out = Norm(), nn.Linear(C, V, bias=False)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = Transformer()


class Llada(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Inner()

    def forward(self, ids, on):
        t, x = self.model.transformer, self.model.transformer.wte(ids)
        for block in t.blocks:
            x = block(x, (on != 0)[:, None, None, :])
        return t.ff_out(t.ln_f(x))

    CONFIG = {"model_type": "llada", "architectures": ["LLaDAModelLM"], "vocab_size": V, "embedding_size": V,
              "d_model": C, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": HEADS, "mlp_hidden_size": FFN,
              "max_sequence_length": T, "rope": True, "rope_theta": THETA, "rms_norm_eps": 1e-5,
              "layer_norm_type": "rms", "block_type": "llama", "activation_type": "silu", "include_bias": False,
              "include_qkv_bias": False, "weight_tying": False, "mask_token_id": MASK, "pad_token_id": EOS}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(C, C, bias=False) for _ in range(4))

    def forward(self, x, mask):
        q, k, v = (p(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).flatten(2))


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class EncoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attention, self.ffn = Attention(), Wide()

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.ffn(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(V, C), nn.Embedding(T, C), nn.LayerNorm(C)

    def forward(self, ids):
        return self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))


class Encoder(nn.Module):
    """Pre-norm, a norm of the sum of tokens and places, biases in the wide layers and the head alone."""
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.head = Embedding(), nn.LayerNorm(C), nn.Linear(C, V)
        self.blocks = nn.ModuleList(EncoderBlock() for _ in range(LAYERS))

    def forward(self, ids, on):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, (on != 0)[:, None, None, :])
        return self.head(self.norm(x))

    CONFIG = {"model_type": "encoder", "architectures": ["EncoderForMaskedLM"], "vocab_size": V, "hidden_size": C,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 4 * C,
              "hidden_act": "gelu", "max_position_embeddings": T, "layer_norm_eps": 1e-5,
              "tie_word_embeddings": False, "mask_token_id": MASK, "pad_token_id": EOS}


# mode, norm, random_length: recipe fields; accuracy: recorded of validations; spread, draws: --val-noise, --val-draws; files, records: those of another
# case, or its records alone
CASES = {
    "mdm_llada": dict(mode="pretrain", norm="seq", random_length=0.4, seed=3 << 32 | 5, lr=1e-2,
                      spread=False, draws=2),
    "mdm_masked": dict(mode="pretrain", norm="masked", random_length=0.0, seed=42, lr=5e-3,
                       spread=False, draws=1, files="mdm_llada"),
    "mdm_encoder": dict(mode="pretrain", norm="seq", random_length=0.4, seed=11, lr=1e-2, spread=True, draws=2,
                        model=Encoder, records="mdm_llada", accuracy=True),
    "mdm_sft": dict(mode="sft", norm="tokens", random_length=0.0, seed=7, lr=1e-2, spread=True, draws=3, rule="hf5"),
}


def write_rows(path, seed, n, sft):
    """Texts of 1 to T words; or questions and answers with an end, whose masks are 1 in the answer."""
    rng, rows, masks = random.Random(seed), [], []
    words = lambda k: [min(mlm.IDS - 1, 5 + int(rng.expovariate(0.01))) for _ in range(k)]
    for i in range(n):
        asked = rng.randint(1, 20)
        row = words((T, 1)[i] if i < 2 else rng.randint(3, T))
        if sft:
            row = [BOS] + words(asked)
            row += words(rng.randint(1, T - 1 - len(row))) + [EOS]
        rows.append(row)
        masks.append([int(not sft or k > asked) for k in range(len(row))])
    meta = {"format": "diecast-tokens-1", "kind": "rows", "tokenizer": mlm.tokenizer()[1],
            "vocab": str(mlm.IDS), "eos": str(EOS), "mask_id": str(MASK), "pad_id": str(PAD),
            "documents": str(n), "targets": "own", "max_length": str(T), "sha256": f"{seed:064x}"}
    data.save(path, {"doc_offsets": np.cumsum([0] + [len(r) for r in rows]).astype(np.int64),
                     "tokens": np.array(sum(rows, []), np.int32),
                     "mask": np.array(sum(masks, []), np.uint8)}, meta)


def read_rows(path):
    with safetensors.safe_open(path, "np") as f:
        tokens, mask, at = (f.get_tensor(n).tolist() for n in ("tokens", "mask", "doc_offsets"))
    return [(tokens[b:e], mask[b:e]) for b, e in zip(at, at[1:])]


def once(case, stream, epoch, sample):
    return [int(w) for w in mlm.words_of(case, stream, epoch, sample, [ONCE])[0]]


def hide(case, stream, epoch, sample, row, may):
    """Input, labels and the share of what may be hidden; of a row without any: 1."""
    places = [i for i, m in enumerate(may) if m]
    word = dict(zip(places, mlm.words_of(case, stream, epoch, sample, places))) if places else {}
    if stream == EVAL and case["spread"]:
        w, n = once(case, stream, 0, sample), len(places)
        k = 1 + ((w[2] << 32 | w[3]) % n + epoch * n // case["draws"]) % n
        chosen, share = sorted(places, key=lambda i: (word[i][0], i))[:k], k / n
    else:
        share = (1 - E) * (once(case, stream, epoch, sample)[0] / 2 ** 32) + E
        chosen = [i for i in places if word[i][0] < int(share * 2 ** 32)]
    seen, labels = list(row), [data.IGNORE] * len(row)
    for i in chosen:
        labels[i], seen[i] = row[i], MASK
    return seen, labels, share, len(places)


def laid_out(case, stream, epoch, part, length):
    """Rows (sample, tokens, mask) of a micro-batch: cut, or answers to train on made equally long; hidden."""
    longest, out = max(sum(m) for _, _, m in part), []
    for k, (sample, row, may) in enumerate(part):
        row, may = row[:length], may[:length]
        if case["mode"] == "sft" and stream != EVAL:
            more = min(longest - sum(may), T - len(row))
            row, may = row + [EOS] * more, may + [1] * more
        out.append(hide(case, stream, epoch if stream == EVAL else epoch[k], sample, row, may))
    return out


def divisor(case, batch):
    return {"seq": len(batch), "tokens": sum(b[3] for b in batch),
            "masked": sum(t != data.IGNORE for b in batch for t in b[1])}[case["norm"]]


def said(model, batch):
    """Logits and labels. Padding holds ids that change nothing."""
    fill = lambda rows, by: torch.tensor([r + [by] * (T - len(r)) for r in rows])
    ids, labels = fill([b[0] for b in batch], 7), fill([b[1] for b in batch], data.IGNORE)
    return model(ids, fill([[1] * len(b[0]) for b in batch], 0)), labels


def ce_sum(case, model, batch):
    logits, labels = said(model, batch)
    each = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=data.IGNORE, reduction="none")
    weight = [1 / (share * (may if case["norm"] == "seq" else 1)) if may else 0 for _, _, share, may in batch]
    return (each * torch.tensor(weight, dtype=each.dtype)[:, None]).sum()


def evaluate(case, model, held):
    total = count = right = targets = 0
    with torch.no_grad():
        for draw in range(case["draws"]):
            for b in range(0, len(held), MICRO):
                part = [(b + i, *r) for i, r in enumerate(held[b:b + MICRO])]
                batch = laid_out(case, EVAL, draw, part, T)
                total, count = total + ce_sum(case, model, batch).item(), count + divisor(case, batch)
                logits, labels = said(model, batch)
                right += (logits.argmax(-1) == labels).sum().item()
                targets += (labels != data.IGNORE).sum().item()
    return {"eval_loss": total / count, **({"eval_accuracy": right / targets} if "accuracy" in case else {})}


def length_of(case, step):
    w = once(case, LENGTHS, 0, step)
    return 1 + (w[2] << 32 | w[3]) % T if w[0] < int(case["random_length"] * 2 ** 32) else T


def train(case, out, rows, held, dtype):
    model = case.get("model", Llada)()
    got = load_file(os.path.join(out, "model", "model.safetensors"))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(got[name])
    model.to(dtype).train()
    params = list(model.parameters())
    decayed = Trainer.get_decay_parameter_names(None, model) if case.get("rule") == "hf5" else list(got)
    groups = [{"params": [p for n, p in model.named_parameters() if (n in decayed) == k],
               "weight_decay": DECAY if k else 0.0} for k in (True, False)]
    opt = torch.optim.AdamW(groups, lr=case["lr"], betas=(0.9, 0.999), eps=1e-8, foreach=False)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=case["lr"], total_steps=STEPS, pct_start=0.1)
    run, todo = {"initial": evaluate(case, model, held), "steps": []}, mlm.order(case["seed"])
    for step in range(STEPS):
        window = []
        for m in range(ACCUM):
            at = todo[(step * ACCUM + m) * MICRO:][:MICRO]
            window.append(laid_out(case, TRAIN, [e for e, _ in at], [(i, *rows[i]) for _, i in at],
                                   length_of(case, step)))
        by = sum(divisor(case, part) for part in window)
        loss = 0.0
        for part in window:
            s = ce_sum(case, model, part)
            if by:
                (s / by).backward()
                loss += s.item() / by
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP, foreach=False)
        lr = sched.get_last_lr()[0]
        opt.step()
        if step + 1 < STEPS:
            sched.step()
        opt.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss, "grad_norm": norm.item(), "lr": lr,
                             "targets": sum(t != data.IGNORE for part in window for b in part for t in b[1])})
    run["final"] = evaluate(case, model, held)
    return model, run


def link(case, out, files):
    for file in files:
        os.symlink(os.path.join("..", case, file), os.path.join(out, file))


def prepare(name, case, out):
    """Model, tokenizer and token files."""
    os.makedirs(os.path.join(out, "model"))
    model = case.get("model", Llada)()
    g = torch.Generator().manual_seed(100 + len(name))
    for p in model.parameters():
        z = torch.randn(p.shape, generator=g)
        p.data.copy_(1 + 0.1 * z if p.ndim == 1 else 0.2 * z)
    save_file({n: p.detach().clone() for n, p in model.named_parameters()},
              os.path.join(out, "model", "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(out, "model", "config.json"), "w") as f:
        f.write(json.dumps(model.CONFIG, indent=2, sort_keys=True) + "\n")
    if "records" in case:
        return link(case["records"], out, ("tokenizer.json", "tokens.safetensors", "eval.safetensors"))
    with open(os.path.join(out, "tokenizer.json"), "wb") as f:
        f.write(mlm.tokenizer()[0])
    for k, (file, n) in enumerate((("tokens", SAMPLES), ("eval", EVAL_SAMPLES))):
        write_rows(os.path.join(out, f"{file}.safetensors"), 3000 + 1000 * k + len(name), n, case["mode"] == "sft")


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    if "files" in case:
        link(case["files"], out, ("model", "tokenizer.json", "tokens.safetensors", "eval.safetensors"))
    else:
        prepare(name, case, out)
    rows, held = (read_rows(os.path.join(out, f"{n}.safetensors")) for n in ("tokens", "eval"))
    single, run32 = train(case, out, rows, held, torch.float32)
    model, run = train(case, out, rows, held, torch.float64)
    ours, other = dict(model.named_parameters()), dict(single.named_parameters())
    drift = {n: (ours[n] - other[n]).abs().max().item() for n in ours}
    save_file({n: p.detach().float() for n, p in ours.items()},
              os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    settings = {k: case[k] for k in ("seed", "mode", "norm", "random_length", "lr", "spread", "draws")}
    expect = {"case": name,
              "versions": {m.__name__: m.__version__ for m in (torch, safetensors, np)},
              "settings": {"T": T, "micro_batch": MICRO, "accum": ACCUM, "steps": STEPS, "samples": SAMPLES,
                           "eval_samples": EVAL_SAMPLES, "schedule": "onecycle", "weight_decay": DECAY,
                           "decay_rule": case.get("rule", "all"), "clip": CLIP, "kind": "rows", **settings},
              "dtype": "float64", **run,
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "final_max_abs_diff": drift},
              "rounding": rounding.drift(lambda: train(case, out, rows, held, torch.float64), model, run)}
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(run["steps"], run32["steps"]) if a["loss"])
    print(f"{name}: {sum(p.numel() for p in ours.values())} parameters; loss",
          " ".join(f"{s['loss']:.4f}" for s in run["steps"]))
    print("  norm", " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]))
    print(f"  eval {run['initial']['eval_loss']:.4f} {run['final']['eval_loss']:.4f}; fp32 against "
          f"fp64: loss {worst:.1e} weights {max(drift.values()):.1e}")


def main():
    torch.set_num_threads(1)
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    for name in args.cases or CASES:
        record(name, args.out)


if __name__ == "__main__":
    main()
