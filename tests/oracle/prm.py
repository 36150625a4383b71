#!/usr/bin/env python3
"""Records reference runs of process reward models: prm.py [--out DIR] [CASE ...]; --claims: only what is
known beforehand of the formulas.

In:    transformers' Qwen2Model with a score head, PEFT; torch autograd.
Out:   DIR/CASE: record files of solutions in steps, model, adapter, expect.json and the last weights and
       table of a run in fp64; of the same in fp32 the losses and how far weights and table drift.
Keeps: the formulas stand here a second time, as text has them."""
import argparse
import json
import math
import os
import random
import shutil

import numpy as np
import peft
import safetensors
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen2Config, Qwen2Model

import data
import rounding
import train as runs

T, V, MARK, PAD, MARKS = 32, 264, 257, 0, 4
RECORDS, META, BATCH, META_BATCH, STEPS = 24, 12, 4, 4, 20
DECAY, CLIP, META_DECAY, WARM = 0.01, 1.0, 1e-3, 1
DOMAINS = ("algebra", "geometry", "numbers")
REF = runs.REF

# files: those of another case; weights net: from net.safetensors, as a run of ours has drawn them; cold: updates
# before the weights are learned; head: adapters with the score head trained with them, and a mark that the base
# lacks: one more row of its embedding, at first the mean of the others
CASES = {
    "prm_instance": dict(seed=42, lr=3e-3, meta_lr=0.1, meta_clip=1.0, weights="instance", hyper="dot",
                         activation="leaky", aggregate="log_sum", unroll=1, cold=0),
    "prm_lora": dict(seed=42, lr=1e-2, meta_lr=0.1, meta_clip=1e-3, weights="domain", hyper="fd",
                     aggregate="mean", unroll=2, cold=4, files="prm_instance", lora=dict(
                         r=4, lora_alpha=8, lora_dropout=0.0, target_modules=[
                             "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])),
    "prm_head": dict(seed=42, lr=3e-3, meta_lr=0.1, meta_clip=1.0, weights="instance", hyper="dot",
                     activation="leaky", aggregate="log_sum", unroll=1, cold=0, head=True, model="prm_instance",
                     lora=dict(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"],
                               modules_to_save=["score"], trainable_token_indices={"embed_tokens": [V]})),
    "prm_net": dict(seed=42, lr=3e-3, meta_lr=0.1, meta_clip=1.0, weights="net", hyper="dot", aggregate="log_sum",
                    unroll=2, cold=0, files="prm_instance"),
}


# ---- the model -------------------------------------------------------------------------------------

def config():
    return Qwen2Config(
        vocab_size=V, num_hidden_layers=2, hidden_size=64, intermediate_size=128,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-6,
        tie_word_embeddings=False, bos_token_id=data.EOS, eos_token_id=data.EOS,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0))


def grow(model):
    """One more row of the embedding: the mean of the others."""
    model.resize_token_embeddings(V + 1)
    with torch.no_grad():
        table = model.embed_tokens.weight
        table[V] = table[:V].double().mean(0).to(table)


class Scores(nn.Module):
    """The decoder and the head, by the names of Qwen2.5-Math-PRM."""
    def __init__(self, model):
        super().__init__()
        C = model.config.hidden_size
        self.model = model
        self.score = nn.Sequential(nn.Linear(C, C), nn.ReLU(), nn.Linear(C, 2))

    def forward(self, ids, rows):
        """Margins z1 - z0, (records, marks): of the places rows; of those that are -1 nothing is taken."""
        x = self.model(input_ids=ids).last_hidden_state
        x = x.gather(1, rows.clamp(min=0)[..., None].expand(-1, -1, x.shape[-1]))
        z = self.score(x)
        return z[..., 1] - z[..., 0]


# ---- records ---------------------------------------------------------------------------------------

def mark_of(case):
    return V if case.get("head") else MARK


def make_records(seed, n, mark=MARK):
    """(ids, labels, outcome, domain, id); of several lengths and, of the second, fewer marks."""
    rng, out = random.Random(seed), []
    for i in range(n):
        ids = [rng.randrange(97, 123) for _ in range(rng.randint(2, 5))]
        marks = MARKS - (i == 1)
        for _ in range(marks):
            ids += [rng.randrange(48, 58) for _ in range(rng.randint(1, 4))] + [mark]
        ids += [rng.randrange(48, 58), data.EOS]
        labels = [rng.choice((0.0, 1.0, 1.0, round(rng.random(), 2))) for _ in range(marks)]
        out.append((ids, labels, float(i % 2), rng.randrange(len(DOMAINS)), f"r{seed}-{i}"))
    return out


def tensors_of(records, mark=MARK):
    """ids (n, T), rows and labels (n, MARKS), -1 where there is no mark; outcomes (n)."""
    ids = torch.full((len(records), T), PAD)
    rows, labels = torch.full((len(records), MARKS), -1), torch.full((len(records), MARKS), -1.0).double()
    for i, r in enumerate(records):
        ids[i, :len(r[0])] = torch.tensor(r[0])
        at = [t for t, x in enumerate(r[0]) if x == mark]
        rows[i, :len(at)] = torch.tensor(at)
        labels[i, :len(at)] = torch.tensor(r[1]).double()
    return ids, rows, labels, torch.tensor([r[2] for r in records]).double()


def write_records(path, records, seed, mark=MARK):
    tensors = {}

    def ragged(name, rows, dtype):
        tensors[name] = np.array(sum(rows, []), dtype)
        tensors[f"{name}.offsets"] = np.cumsum([0] + [len(r) for r in rows]).astype(np.int64)

    ragged("tokens", [r[0] for r in records], np.int32)
    tensors["tokens.mask"] = (tensors["tokens"] == mark).astype(np.uint8)
    ragged("rewards", [r[1] for r in records], np.float32)
    ragged("id", [list(r[4].encode()) for r in records], np.uint8)
    tensors["outcome"] = np.array([r[2] for r in records], np.float32)
    tensors["domain"] = np.array([r[3] for r in records], np.int32)
    meta = {"format": "diecast-records-1", "kind": "steps", "records": str(len(records)),
            "columns": "tokens=ragged tokens.mask=tokens rewards=ragged id=ragged outcome=fixed domain=fixed",
            "parts": "tokens", "targets": "own", "domains": json.dumps(DOMAINS), "tokenizer": "bytes",
            "vocab": str(mark + 1), "eos": str(data.EOS), "max_length": str(T), "sha256": f"{seed:064x}"}
    aligned = sorted(tensors, key=lambda name: -tensors[name].itemsize)
    data.save(path, {name: tensors[name] for name in aligned}, meta)


# ---- the formulas ----------------------------------------------------------------------------------

def record_losses(d, rows, labels):
    """(records): mean over the marks of softplus(d) - r d."""
    on = rows >= 0
    each = torch.where(on, F.softplus(d) - labels.to(d) * d, torch.zeros_like(d))
    return each.sum(1) / on.sum(1)


def aggregate(how, d, rows):
    on, n = rows >= 0, (rows >= 0).sum(1)
    p, none = torch.sigmoid(d), torch.zeros_like(d)
    if how == "log_sum":
        return torch.sigmoid(torch.where(on, d, none).sum(1))
    if how == "log_mean":
        return torch.sigmoid(torch.where(on, d, none).sum(1) / n)
    if how == "mean":
        return torch.where(on, p, none).sum(1) / n
    if how == "min":
        return torch.where(on, p, none + 2).min(1)[0]
    return torch.where(on, p, none - 1).max(1)[0]


def activation(how, a):
    return {"leaky": lambda: torch.where(a > 0, a, 0.01 * a), "relu": lambda: a.clamp(min=0),
            "none": lambda: a, "clip": lambda: a.clamp(-1, 3)}[how]()


class Weights:
    """What the loss of a record counts, of learned numbers."""
    def __init__(self, case, n, dtype, net=None):
        self.case, self.kind = case, case["weights"]
        if self.kind == "net":
            self.learned = [net[f"weights.net.{k}"].to(dtype) for k in ("0.weight", "0.bias", "2.weight", "2.bias")]
        else:
            self.learned = [torch.ones(n, dtype=dtype) if self.kind == "instance"
                            else torch.zeros(len(DOMAINS), dtype=dtype)]
        for x in self.learned:
            x.requires_grad_()

    def of(self, index, domains, d=None, rows=None):
        """(records); d (records, marks): margins, which a net judges."""
        if self.kind == "net":
            on, p = rows >= 0, torch.sigmoid(d.detach())
            w1, b1, w2, b2 = self.learned
            marks = F.linear(F.leaky_relu(F.linear(torch.stack([1 - p, p], -1), w1, b1)), w2, b2)[..., 0]
            return torch.sigmoid(torch.where(on, marks, torch.zeros_like(marks)).sum(1) / on.sum(1))
        if self.kind == "instance":
            return activation(self.case["activation"], self.learned[0][index])
        s = F.softplus(self.learned[0])
        return (s / s.mean())[domains[index]]

    def numbers(self):
        return torch.cat([x.detach().flatten() for x in self.learned]).tolist()


def by_differences(losses, params, v, B, step=0.01):
    """g (records), before the activation's derivative; params are as they were, bit for bit."""
    with torch.no_grad():
        eps = step / (math.sqrt(sum((x.double() ** 2).sum().item() for x in v)) + 1e-15)
        kept = [p.clone() for p in params]
        both = []
        for sign in (1, -1):
            for p, k, x in zip(params, kept, v):
                p.copy_(k + sign * eps * x)
            both.append(losses())
        for p, k in zip(params, kept):
            p.copy_(k)
        return (both[1] - both[0]) / (2 * eps * B)


def by_products(losses, params, v, B):
    each = losses()
    out = []
    for l in each:
        g = torch.autograd.grad(l, params, retain_graph=True)
        out.append(-sum((a * b).sum() for a, b in zip(g, v)) / B)
    return torch.stack(out).detach()


HYPER = {"fd": by_differences, "dot": by_products}


# ---- a run -----------------------------------------------------------------------------------------

def order(seed, n, batch, updates):
    out, epoch = [], 0
    while len(out) < updates * batch:
        g = torch.Generator().manual_seed((seed + epoch) & 0xffffffff)
        out += torch.randperm(n, generator=g).tolist()
        epoch += 1
    assert n % batch == 0
    return out


def cosine(t, warm, n):
    return t / warm if t < warm else (1 + math.cos(math.pi * (t - warm) / (n - warm))) / 2


def adamw(params, lr, decay):
    return torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay, foreach=False)


def evaluate(scores, how, meta):
    ids, rows, _, y = meta
    with torch.no_grad():
        S = torch.cat([aggregate(how, scores(ids[i:i + 4], rows[i:i + 4]), rows[i:i + 4])
                       for i in range(0, len(y), 4)])
        return {"eval_loss": ((S - y.to(S)) ** 2).mean().item(), "avg_aggregate_score": S.mean().item(),
                "accuracy": ((S > 0.5) == (y > 0.5)).double().mean().item()}


def load(case, out, dtype):
    scores = Scores(Qwen2Model(config()))
    scores.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")))
    if "lora" in case:
        for p in scores.parameters():
            p.requires_grad_(False)
        if case.get("head"):
            scores.score.requires_grad_(True)
            grow(scores.model)
        scores.model = PeftModel.from_pretrained(scores.model, os.path.join(out, "adapter_init"),
                                                 is_trainable=True)
    return scores.to(dtype).train()


def train(case, out, records, meta_records, dtype):
    scores = load(case, out, dtype)
    params = [p for _, p in runs.named_trained(scores)]
    ids, rows, labels, _ = tensors_of(records, mark_of(case))
    meta = tensors_of(meta_records, mark_of(case))
    domains = torch.tensor([r[3] for r in records])
    net = load_file(os.path.join(out, "net.safetensors")) if case["weights"] == "net" else None
    weights = Weights(case, len(records), dtype, net)
    table = weights.learned
    opt, meta_opt = adamw(params, case["lr"], DECAY), adamw(table, case["meta_lr"], META_DECAY)
    U, cold, k = case["unroll"], case["cold"], 0
    uppers = (STEPS - cold) // U
    todo = order(case["seed"], len(records), BATCH, STEPS)
    meta_todo = order(case["seed"], len(meta_records), META_BATCH, uppers)
    run = {"initial": evaluate(scores, case["aggregate"], meta), "steps": []}
    for t in range(STEPS):
        at = torch.tensor(todo[t * BATCH:][:BATCH])
        margins = lambda: scores(ids[at], rows[at])
        lower = lambda: record_losses(margins(), rows[at], labels[at])
        lr = case["lr"] * cosine(t, WARM, STEPS)
        d = margins()
        each = record_losses(d, rows[at], labels[at])
        loss = (weights.of(at, domains, d, rows[at]).detach() * each).mean()
        opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP, foreach=False)
        opt.param_groups[0]["lr"] = lr
        opt.step()
        step = {"step": t + 1, "targets": int((rows[at] >= 0).sum()), "inner_loss": each.mean().item(), "loss": loss.item(),
                "grad_norm": norm.item(), "lr": lr}
        if t >= cold and (t + 1) % U == 0:
            m = torch.tensor(meta_todo[k * META_BATCH:][:META_BATCH])
            S = aggregate(case["aggregate"], scores(meta[0][m], meta[1][m]), meta[1][m])
            upper = ((S - meta[3][m].to(S)) ** 2).mean()
            v = torch.autograd.grad(upper, params)
            g = HYPER[case["hyper"]](lower, params, v, BATCH)
            meta_opt.zero_grad()
            (g * weights.of(at, domains, margins(), rows[at])).sum().backward()
            meta_norm = torch.nn.utils.clip_grad_norm_(table, case["meta_clip"], foreach=False)
            meta_lr = case["meta_lr"] * cosine(k, max(1, int(0.05 * uppers)), uppers)
            meta_opt.param_groups[0]["lr"] = meta_lr
            meta_opt.step()
            k += 1
            step.update(meta_loss=upper.item(), avg_aggregate_score=S.mean().item(), learning_rate_meta=meta_lr,
                        grad_norm_meta=meta_norm.item(), v_norm=math.sqrt(sum((x * x).sum().item() for x in v)),
                        hyper=g.tolist())
        run["steps"].append(step)
    run["final"] = evaluate(scores, case["aggregate"], meta)
    run["table"] = weights.numbers()
    return scores, run


# ---- what is known beforehand ----------------------------------------------------------------------

def random_scores(seed, dtype=torch.float64):
    scores = Scores(Qwen2Model(config()))
    runs.randomise(scores.named_parameters(), seed)
    return scores.to(dtype)


def near(name, got, want, bound):
    got, want = (torch.as_tensor(x, dtype=torch.float64) for x in (got, want))
    off = (got - want).abs().max().item()
    assert off <= bound, f"{name}: {got}, want {want}"
    print(f"ok {name}: off by {off:.1e}")


def claim_untrained():
    """A last layer of 0: ln 2 for any labels, 0.25 for any aggregate, d l / d d_s = (0.5 - r_s) / n."""
    records = make_records(5, 8)
    ids, rows, labels, y = tensors_of(records)
    scores = random_scores(1)
    nn.init.zeros_(scores.score[2].weight), nn.init.zeros_(scores.score[2].bias)
    d = scores(ids, rows).detach().requires_grad_()
    each = record_losses(d, rows, labels)
    near("untrained loss is ln 2", each.detach(), math.log(2), 1e-15)
    each.sum().backward()
    n = (rows >= 0).sum(1, keepdim=True)
    near("its derivative", d.grad, torch.where(rows >= 0, (0.5 - labels) / n, torch.zeros(1).double()), 1e-15)
    for how in ("log_sum", "log_mean", "mean", "min", "max"):
        near(f"untrained meta loss, {how}", ((aggregate(how, d.detach(), rows) - y) ** 2), 0.25, 1e-15)


def claim_weights():
    for how in ("leaky", "relu", "none", "clip"):
        near(f"first weights, {how}", activation(how, torch.ones(3).double()), 1, 0)
    w = Weights(dict(weights="domain"), 0, torch.float64)
    near("first weights, domain", w.of(torch.arange(3), torch.arange(3)).detach(), 1, 1e-15)


def claim_quadratic():
    """l_i = (x - c_i)^2 / 2, c = (0, 2); L_meta = (x - 0.5)^2 / 2; x = 1, B = 2."""
    x, c = torch.ones(1, dtype=torch.float64, requires_grad=True), torch.tensor([0.0, 2.0]).double()
    losses = lambda: (x - c) ** 2 / 2
    v = torch.autograd.grad((x - 0.5) ** 2 / 2, x)
    near("quadratic, v", v[0], 0.5, 0)
    for step in (1, 0.01, 1e-4):
        near(f"quadratic, fd {step:g}", by_differences(losses, [x], v, 2, step), torch.tensor([-0.25, 0.25]), 1e-11)
    near("quadratic, dot", by_products(losses, [x], v, 2), torch.tensor([-0.25, 0.25]), 0)
    near("quadratic, restored", x.detach(), 1, 0)


def claim_hyper():
    """fd goes to dot as its step falls; dot is the derivative of the meta loss through ONE plain gradient
    step of rate h, divided by h, as h falls; fp32 values correlate with those of fp64."""
    runs.fp64_norms(True)
    scores = random_scores(2)
    params = list(scores.parameters())
    ids, rows, labels, _ = tensors_of(make_records(6, BATCH))
    meta = tensors_of(make_records(7, META_BATCH))
    losses = lambda s=scores: record_losses(s(ids, rows), rows, labels)

    def upper(s=scores):
        S = aggregate("log_sum", s(meta[0], meta[1]), meta[1])
        return ((S - meta[3].to(S)) ** 2).mean()

    # the embedding's gradient is 0 in rows that no record has
    v = torch.autograd.grad(upper(), params)
    dot = by_products(losses, params, v, BATCH)
    top = dot.abs().max().item()
    last = math.inf
    for step in (0.1, 0.01, 1e-3, 1e-4, 1e-5):
        off = (by_differences(losses, params, v, BATCH, step) - dot).abs().max().item() / top
        print(f"   fd {step:g}: off by {off:.1e} of the largest")
        assert off < last, "fd does not go to dot"      # slowly where the head's ReLU has a kink
        last = off
    assert last < 1e-6
    names = [n for n, _ in scores.named_parameters()]
    last = math.inf
    for h in (1e-2, 1e-3, 1e-4, 1e-6):
        w = torch.ones(BATCH, dtype=torch.float64, requires_grad=True)
        with sdpa_kernel(SDPBackend.MATH):              # of which there are second derivatives
            mean = (w * losses()).mean()
        g = torch.autograd.grad(mean, params, create_graph=True)
        moved = dict(zip(names, [p - h * x for p, x in zip(params, g)]))
        there = torch.func.functional_call(scores, moved, (meta[0], meta[1]))
        S = aggregate("log_sum", there, meta[1])
        through = torch.autograd.grad(((S - meta[3]) ** 2).mean(), w)[0] / h
        off = (through - dot).abs().max().item() / top
        print(f"   through a step of rate {h:g}: off by {off:.1e} of the largest")
        assert off < last / 5 or off < 1e-6, "dot is not the derivative through a step"
        last = off
    assert last < 1e-4
    runs.fp64_norms(False)
    single = random_scores(2, torch.float32)
    few = list(single.parameters())
    for dtype in ("fp32", "bf16"):
        for name, how in HYPER.items():
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16", cache_enabled=False):
                v = torch.autograd.grad(upper(single), few)
                got = how(lambda: losses(single), few, v, BATCH).double()
            r = np.corrcoef(got.numpy(), dot.numpy())[0, 1]
            off = (got - dot).abs().max().item() / top
            # 16-bit copies of weights do not see the steps of fd
            good = r > 0.95 or (name, dtype) == ("fd", "bf16")
            print(f"{'ok' if r > 0.95 else '  '} {name} in {dtype}: correlation with fp64 {r:.6f}, off by {off:.1e} "
                  "of the largest")
            assert good


def claims():
    claim_untrained()
    claim_weights()
    claim_quadratic()
    claim_hyper()


# ---- a case ----------------------------------------------------------------------------------------

def prepare(name, case, out):
    scores = random_scores(100 + len(name), torch.float32)
    os.makedirs(os.path.join(out, "model"))
    save_file(scores.state_dict(), os.path.join(out, "model", "model.safetensors"), {"format": "pt"})
    c = config().to_dict()
    c.update(architectures=["Qwen2ForProcessRewardModel"], dtype="float32",
             transformers_version=transformers.__version__)
    with open(os.path.join(out, "model", "config.json"), "w") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True) + "\n")


def write_sets(case, out):
    seed, mark = 5000 + case["seed"], mark_of(case)
    write_records(os.path.join(out, "tokens.safetensors"), make_records(seed, RECORDS, mark), seed, mark)
    write_records(os.path.join(out, "meta.safetensors"), make_records(seed + 1, META, mark), seed + 1, mark)


def file_name(case, name):
    """Of an adapter's tensor as its file has it, which does not know of the wrapper here."""
    if case.get("head") and name.startswith("score."):
        return f"base_model.model.{name}"
    return name[max(name.find("base_model."), 0):]


def add_head(case, scores, folder):
    """The trained head, which PEFT knows nothing of, in an adapter's file."""
    path = os.path.join(folder, "adapter_model.safetensors")
    if not case.get("head"):
        return
    head = {f"base_model.model.score.{n}": p.detach().float() for n, p in scores.score.named_parameters()}
    save_file({**load_file(path), **head}, path, {"format": "pt"})


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    kept = os.path.join(out, "net.safetensors")
    net = load_file(kept) if os.path.exists(kept) else None
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    if net:
        save_file(net, kept, metadata={"format": "pt"})
    if "files" in case:
        for file in ("model", "tokens.safetensors", "meta.safetensors"):
            os.symlink(os.path.join("..", case["files"], file), os.path.join(out, file))
    else:
        if "model" in case:
            os.symlink(os.path.join("..", case["model"], "model"), os.path.join(out, "model"))
        else:
            prepare(name, case, out)
        write_sets(case, out)
    if "lora" in case:
        torch.manual_seed(case["seed"])
        base, scores = Qwen2Model(config()), Scores(Qwen2Model(config()))
        if case.get("head"):                # the row is of the adapter: as the model's own weights give it
            scores.load_state_dict(load_file(os.path.join(out, "model", "model.safetensors")))
            base = scores.model
            grow(base)
        model = get_peft_model(base, LoraConfig(task_type="FEATURE_EXTRACTION", **case["lora"]))
        for n, p in model.named_parameters():
            if "lora_B" in n:
                torch.nn.init.normal_(p, std=0.02)
        runs.save_adapter(model, os.path.join(out, "adapter_init"))
        add_head(case, scores, os.path.join(out, "adapter_init"))
    seed = 5000 + case["seed"]
    sets = (make_records(seed, RECORDS, mark_of(case)), make_records(seed + 1, META, mark_of(case)))
    single, run32 = train(case, out, *sets, torch.float32)
    runs.fp64_norms(True)
    scores, run = train(case, out, *sets, torch.float64)
    far = rounding.drift(lambda: train(case, out, *sets, torch.float64), scores, run,
                         lambda s: {file_name(case, n): p for n, p in runs.parameters(s).items()})
    runs.fp64_norms(False)
    drift = {file_name(case, runs.tensor_name(n)): (a - b).abs().max().item() for (n, a), (_, b) in
             zip(runs.named_trained(scores), runs.named_trained(single))}
    scores.float()
    if "lora" in case:
        runs.save_adapter(scores.model, os.path.join(out, "adapter_final"))
        add_head(case, scores, os.path.join(out, "adapter_final"))
    else:
        save_file(scores.state_dict(), os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    save_file({"weights.table": torch.tensor(run["table"], dtype=torch.float32)},
              os.path.join(out, "table.safetensors"), metadata={"format": "pt"})
    off = np.abs(np.subtract(run["table"], run32["table"])).max()
    expect = {"case": name,
              "versions": {m.__name__: m.__version__ for m in (torch, transformers, peft, safetensors, np)},
              "settings": {"T": T, "batch": BATCH, "meta_batch": META_BATCH, "steps": STEPS, "records": RECORDS,
                           "meta": META, "schedule": "cosine", "warmup": WARM, "weight_decay": DECAY,
                           "meta_weight_decay": META_DECAY, "decay_rule": "all", "clip": CLIP, "kind": "steps",
                           **{k: v for k, v in case.items() if k != "files"}},
              "dtype": "float64", **run,
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "meta_loss": [s.get("meta_loss") for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "table_max_abs_diff": off, "final_max_abs_diff": drift},
              "rounding": far}
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(run32["steps"], run["steps"]))
    print(f"{name}: loss", " ".join(f"{s['loss']:.4f}" for s in run["steps"]))
    print("  meta loss", " ".join(f"{s['meta_loss']:.4f}" for s in run["steps"] if "meta_loss" in s))
    print("  norms", " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]), "meta",
          " ".join(f"{s['grad_norm_meta']:.1e}" for s in run["steps"] if "meta_loss" in s))
    print(f"  {run['initial']} {run['final']}; fp32 against fp64: loss {worst:.1e} weights "
          f"{max(drift.values()):.1e} table {off:.1e}")
    print("  table", *(f"{x:.3f}" for x in run["table"]))


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("--claims", action="store_true", help="only what is known beforehand")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    claims()
    for name in args.cases or ([] if args.claims else CASES):
        record(name, args.out)


if __name__ == "__main__":
    main()
