#!/usr/bin/env python3
"""Records reference training runs: train.py [--out DIR] [CASE ...], all cases without names.

In:    the table CASES; torch autograd over transformers / PEFT models, in fp64 (and once in fp32).
Out:   model/ tokens.safetensors eval.safetensors expect.json final.safetensors or adapter_*/.
Keeps: what a binary does by default; losses are divided by the window's target count."""
import argparse
import json
import math
import os
import shutil
import sys
import warnings

import nf4       # before peft, which imports bitsandbytes
import numpy
import peft
import safetensors
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from torch.nn import functional as F
from transformers import (AutoConfig, AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig,
                          GemmaConfig, GemmaForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm
from transformers.trainer_pt_utils import get_parameter_names

import data
import dropout
import rounding
import tower

T, MICRO, ACCUM, STEPS, SAMPLES, EVAL_SAMPLES, WARMUP = 32, 4, 2, 20, 48, 10, 5
DOCUMENTS, EVAL_DOCUMENTS = 150, 34      # of bfd
REF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train", "ref")
NO_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
PAD = 32         # the blank of byte tokens: the commonest one of the data
IDS = dict(vocab_size=data.VOCAB, bos_token_id=data.EOS, eos_token_id=data.EOS)


def gpt2():
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, n_positions=64,
                                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **IDS))


def llama():
    rope = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                high_freq_factor=4.0, original_max_position_embeddings=16)
    return LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=2, hidden_size=64, intermediate_size=96, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-5,
        tie_word_embeddings=False, rope_parameters=rope, **IDS))


def qwen2(layers=2, tied=True):
    return Qwen2ForCausalLM(Qwen2Config(
        num_hidden_layers=layers, hidden_size=48, intermediate_size=80, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6,
        tie_word_embeddings=tied, rope_parameters=dict(rope_type="default", rope_theta=1e6), **IDS))


def gemma():
    return GemmaForCausalLM(GemmaConfig(
        num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=4,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=64, rope_theta=10000.0, **IDS))


def qwen3():
    """Heads of all together more than hidden; rows whose token is padding get no gradient where it is read."""
    return Qwen3ForCausalLM(Qwen3Config(
        num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-6,
        tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6),
        **{**IDS, "pad_token_id": PAD}))


def mistral():
    """Heads of all together less than hidden, as in Mistral-Nemo; a window that no sequence fills."""
    return MistralForCausalLM(MistralConfig(
        num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-5,
        tie_word_embeddings=False, sliding_window=32,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0), **IDS))


def gemma3():
    """The second of three layers is of full attention; scores are not scaled by the width of heads."""
    return Gemma3ForCausalLM(Gemma3TextConfig(
        num_hidden_layers=3, hidden_size=48, intermediate_size=80, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=64, query_pre_attn_scalar=24,
        sliding_window=32, sliding_window_pattern=2, **IDS))


# model: a function, or the case whose model folder is shared. config4: config.json in 4.x keys.
# dropout: of the model, and of attention's probabilities.
# base: nf4: bitsandbytes quantises the model as it is loaded.
# kind: data.kind of the recipe, packed without one; documents of a bin are computed one by one.
CASES = {
    "gpt2_tiny": dict(model=gpt2, seed=42, lr=3e-3, clip=1.0),
    "gpt2_dropout": dict(model="gpt2_tiny", seed=5 << 32 | 7, lr=3e-3, clip=1.0, dropout=(0.1, 0.15)),
    "llama_tiny": dict(model=llama, seed=7, lr=3e-3, clip=0.5),
    "qwen2_tiny": dict(model=qwen2, config4=True, seed=0, lr=3e-3, clip=1.5),
    "qwen2_lora": dict(model="qwen2_tiny", seed=3, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "qwen2_nf4": dict(model="qwen2_tiny", base="nf4", seed=6, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "qwen2_rslora": dict(model=lambda: qwen2(1, False), seed=4294967294, lr=5e-3, clip=1.8,
                         lora=dict(r=4, lora_alpha=8, lora_dropout=0.0, use_rslora=True,
                                   target_modules=["q_proj", "v_proj"],
                                   modules_to_save=["lm_head"])),
    "qwen2_dropout": dict(model="qwen2_tiny", seed=3 << 32 | 5, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.25, target_modules="all-linear")),
    "gemma_tiny": dict(model=gemma, seed=8, lr=3e-3, clip=1.5),
    "gemma_lora": dict(model="gemma_tiny", seed=9, lr=1e-2, clip=0.5, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "qwen3_tiny": dict(model=qwen3, seed=31, lr=3e-3, clip=1.5),
    "qwen3_lora": dict(model="qwen3_tiny", seed=32, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "mistral_tiny": dict(model=mistral, config4=True, seed=33, lr=3e-3, clip=1.0),
    "mistral_lora": dict(model="mistral_tiny", seed=34, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "gemma3_tiny": dict(model=gemma3, seed=41, lr=3e-3, clip=1.5),
    "gemma3_lora": dict(model="gemma3_tiny", seed=42, lr=1e-2, clip=0.5, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
    "llama_rows": dict(model="llama_tiny", kind="rows", seed=11, lr=3e-3, clip=1.5),
    "gpt2_bfd": dict(model="gpt2_tiny", kind="bfd", seed=12, lr=3e-3, clip=1.0),
    "llama_bfd": dict(model="llama_tiny", kind="bfd", seed=13, lr=3e-3, clip=1.0),
    "post_norm": dict(model=lambda: tower.Tower("post_norm"), seed=21, lr=3e-3, clip=1.0),
    "norm_then_residual": dict(model=lambda: tower.Tower("norm_then_residual"), seed=22, lr=3e-3,
                               clip=1.5),
    "two_stacks": dict(model=lambda: tower.Tower("two_stacks"), seed=24, lr=3e-3, clip=1.5),
    "typed": dict(model=lambda: tower.Tower("typed"), kind="bfd", seed=25, lr=3e-3, clip=1.0),
    "post_lora": dict(model="post_norm", seed=23, lr=1e-2, clip=1.0, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.25,
        target_modules=["query", "key", "value", "output", "up", "down", "dense"])),
}


def rmsnorm(self, x):
    """The library's RMSNorm without its cast to fp32, so that an fp64 run is fp64 throughout."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rmsnorm_plus(self, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def randomise(params, seed, norms=1.0):
    """Nothing is trivially zero or one: norms around `norms`, biases and matrices around 0."""
    g = torch.Generator().manual_seed(seed)
    for name, p in params:
        z = torch.randn(p.shape, generator=g)
        norm = p.ndim == 1 and name.endswith("weight")
        p.data.copy_(norms + 0.1 * z if norm else (0.05 if p.ndim == 1 else 0.08) * z)


def save_model(model, case, folder):
    model.save_pretrained(folder)
    if not case.get("config4"):
        return
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    c.pop("layer_types", None)
    theta, kind = rope.pop("rope_theta"), rope.pop("rope_type")
    scaling = None if kind == "default" else dict(rope, type=kind)
    c.update(torch_dtype=c.pop("dtype"), rope_theta=theta, rope_scaling=scaling,
             transformers_version="4.44.0")
    with open(path, "w") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True) + "\n")
    again = AutoConfig.from_pretrained(folder)
    assert {k: again.rope_parameters[k] for k in ("rope_theta", "rope_type", *rope)} == {
        "rope_theta": theta, "rope_type": kind, **rope}, again


def save_adapter(model, folder):
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as f:
        c = json.load(f)
    c["base_model_name_or_path"] = ""
    c["target_modules"].sort()
    with open(path, "w") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True))


def load_model(folder, attention="sdpa"):
    return tower.load(folder) or AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention)


def load(case, out, dtype):
    drops = case.get("dropout")
    if case.get("base") == "nf4":
        model = nf4.load(os.path.join(out, "model"))
        if dtype == torch.float64:           # its layers know no fp64: the same values in ordinary ones
            nf4.dequantise(model)
    else:
        model = load_model(os.path.join(out, "model"), "eager" if drops else "sdpa")
    if drops:
        dropout.install_gpt2(model, *drops, case["seed"])
    if "lora" in case:
        model = PeftModel.from_pretrained(model, os.path.join(out, "adapter_init"),
                                          is_trainable=True)
        dropout.install(model, case["lora"]["lora_dropout"], case["seed"])
    return (model if case.get("base") == "nf4" and dtype == torch.float32 else model.to(dtype)).train()


def batch(rows):
    """Right-padded (B, longest) ids, mask, labels."""
    n = max(len(ids) for ids, _ in rows)
    pad = lambda v, fill: torch.tensor([r + [fill] * (n - len(r)) for r in v])
    ids = [r[0] for r in rows]
    return pad(ids, 0), pad([[1] * len(r) for r in ids], 0), pad([r[1] for r in rows], data.IGNORE)


def ce_sums(model, rows):
    """Over a micro-batch's targets: sum of CE (with graph), of entropy, hits, count; CE (B, T)."""
    ids, mask, labels = batch(rows)
    logits = model(input_ids=ids, attention_mask=mask).logits
    ce = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=data.IGNORE,
                         reduction="none")
    on = labels != data.IGNORE
    logp = logits.detach().log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)[on].sum().item()
    return ce.sum(), entropy, int((logits.argmax(-1) == labels)[on].sum()), int(on.sum()), ce


def evaluate(model, rows):
    """eval_loss_token: mean over targets. eval_loss: batch means weighted by rows."""
    total = count = by_rows = 0
    with torch.no_grad():
        for b in range(0, len(rows), MICRO):
            part = rows[b:b + MICRO]
            s, _, _, n, _ = ce_sums(model, sum(part, []))
            total, count, by_rows = total + s.item(), count + n, by_rows + s.item() / n * len(part)
    return {"eval_loss_token": total / count, "eval_loss": by_rows / len(rows)}


def order(seed, samples):
    """Sample indices of the whole run: one mt19937 permutation an epoch, seeded seed + epoch; its
    last step is filled up from its start."""
    out, per = [], math.ceil(samples / (MICRO * ACCUM))
    for epoch in range(math.ceil(STEPS / per)):
        g = torch.Generator().manual_seed((seed + epoch) & 0xffffffff)
        p = torch.randperm(samples, generator=g).tolist()
        out += (p + p)[:per * MICRO * ACCUM]
    return out


def named_trained(model):
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def tensor_name(name):
    return name.replace(".default", "").replace(".modules_to_save", "")


def parameters(model):
    return {tensor_name(n): p for n, p in named_trained(model)}


def train(case, out, dtype):
    model = load(case, out, dtype)
    kind = case.get("kind", "packed")
    rows = data.samples(os.path.join(out, "tokens.safetensors"), T, kind)
    held = data.samples(os.path.join(out, "eval.safetensors"), T, kind)
    assert kind == "bfd" or (len(rows) == SAMPLES and len(held) == EVAL_SAMPLES)
    params = named_trained(model)
    decays = set(get_parameter_names(model, [torch.nn.LayerNorm], NO_DECAY))
    opt = torch.optim.AdamW([{"params": [p for n, p in params if n in decays], "weight_decay": 0.1},
                             {"params": [p for n, p in params if n not in decays],
                              "weight_decay": 0.0}],
                            lr=case["lr"], betas=(0.9, 0.999), eps=1e-8, foreach=False)
    sched = transformers.get_scheduler("linear", opt, WARMUP, STEPS)
    run = {"initial": evaluate(model, held)}
    with torch.no_grad():
        run["probe"] = ce_sums(model, rows[0][:1])[4][0].tolist()
    todo = order(case["seed"], len(rows))
    run["first_samples"] = todo[:MICRO * ACCUM]
    run["steps"] = []
    for step in range(STEPS):
        window = [sum((rows[i] for i in todo[(step * ACCUM + m) * MICRO:][:MICRO]), [])
                  for m in range(ACCUM)]
        targets = sum(t != data.IGNORE for mb in window for _, ts in mb for t in ts)
        loss = entropy = hits = 0.0
        for m, mb in enumerate(window):
            dropout.Sites.now = (step, m * MICRO)
            s, e, h, _, _ = ce_sums(model, mb)
            (s / targets).backward()
            loss, entropy, hits = loss + s.item() / targets, entropy + e, hits + h
        dropout.Sites.now = None
        if step == 0:
            run["grad_norms_step1"] = {tensor_name(n): p.grad.norm().item() for n, p in params}
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in params], case["clip"], foreach=False)
        lr = sched.get_last_lr()[0]
        opt.step()
        sched.step()
        opt.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss, "grad_norm": norm.item(), "lr": lr,
                             "targets": targets, "entropy": entropy / targets,
                             "mean_token_accuracy": hits / targets})
    run["final"] = evaluate(model, held)
    run["samples"], run["eval_samples"] = len(rows), len(held)
    run["no_decay"] = sorted(tensor_name(n) for n, _ in params if n not in decays)
    return model, run


def fp64_norms(on):
    """Swaps the norms' forward; returns nothing, the fp32 run uses the library's own."""
    for cls, own in ((LlamaRMSNorm, rmsnorm), (MistralRMSNorm, rmsnorm), (Qwen2RMSNorm, rmsnorm),
                     (Qwen3RMSNorm, rmsnorm), (GemmaRMSNorm, rmsnorm_plus),
                     (Gemma3RMSNorm, rmsnorm_plus)):
        if on:
            cls.library_forward, cls.forward = cls.forward, own
        else:
            cls.forward = cls.library_forward


def prepare(name, case, out):
    """Initial files: token files, model folder (or a link to the shared one), initial adapter."""
    make, n, held = {"packed": (data.make_packed, SAMPLES, EVAL_SAMPLES),
                     "rows": (data.make_rows, SAMPLES, EVAL_SAMPLES),
                     "bfd": (data.make_documents, DOCUMENTS, EVAL_DOCUMENTS),
                     }[case.get("kind", "packed")]
    make(os.path.join(out, "tokens.safetensors"), 1000 + case["seed"], n, T)
    make(os.path.join(out, "eval.safetensors"), 2000 + case["seed"], held, T)
    folder = os.path.join(out, "model")
    if isinstance(case["model"], str):
        os.symlink(os.path.join("..", case["model"], "model"), folder)
    else:
        model = case["model"]()
        plus = any(isinstance(m, (GemmaRMSNorm, Gemma3RMSNorm)) for m in model.modules())
        randomise(model.named_parameters(), 100 + len(name), 0.0 if plus else 1.0)
        save_model(model, case, folder)
    if case.get("base") == "nf4":            # as bitsandbytes stores it
        nf4.load(folder).save_pretrained(os.path.join(out, "quantised"))
    if "lora" in case:
        torch.manual_seed(case["seed"])
        base = load_model(folder)
        task = None if isinstance(base, tower.Tower) else "CAUSAL_LM"
        model = get_peft_model(base, LoraConfig(task_type=task, **case["lora"]))
        for n, p in model.named_parameters():
            if "lora_B" in n:
                torch.nn.init.normal_(p, std=0.02)
        save_adapter(model, os.path.join(out, "adapter_init"))


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    prepare(name, case, out)
    single, run32 = train(case, out, torch.float32)
    fp64_norms(True)
    model, run = train(case, out, torch.float64)
    far = rounding.drift(lambda: train(case, out, torch.float64), model, run, parameters)
    fp64_norms(False)
    drift = {tensor_name(n): (a - b).abs().max().item() for (n, a), (_, b) in
             zip(named_trained(model), named_trained(single))}
    model.float()
    if "lora" in case:
        save_adapter(model, os.path.join(out, "adapter_final"))
    else:
        save_file({n: p.detach() for n, p in model.named_parameters()},
                  os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    expect = {
        "case": name,
        "versions": {m.__name__: m.__version__ for m in
                     (torch, transformers, peft, safetensors, numpy)},
        "settings": {"T": T, "micro_batch": MICRO, "accum": ACCUM, "steps": STEPS,
                     "samples": run.pop("samples"), "eval_samples": run.pop("eval_samples"),
                     "seed": case["seed"],
                     "order": "hf", "lr": case["lr"], "schedule": "linear", "warmup_steps": WARMUP,
                     "optimizer": "adamw", "betas": [0.9, 0.999], "eps": 1e-8,
                     "weight_decay": 0.1, "decay_rule": "hf5", "clip": case["clip"],
                     "kind": case.get("kind", "packed"), "lora": case.get("lora")},
        "dtype": "float64", **run,
        "float32": {"loss": [s["loss"] for s in run32["steps"]],
                    "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                    "final": run32["final"], "final_max_abs_diff": drift},
        "rounding": far,
    }
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(run["steps"], run32["steps"]))
    clipped = sum(s["grad_norm"] > case["clip"] for s in run["steps"])
    print(f"{name}: loss {run['steps'][0]['loss']:.4f} -> {run['steps'][-1]['loss']:.4f}, "
          f"clipped {clipped}/{STEPS}, fp32 against fp64: "
          f"loss {worst:.1e} weights {max(drift.values()):.1e}")
    print("   grad norms", " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]))


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    for name in args.cases or CASES:
        if name not in CASES:
            p.error(f"no case {name}; there are {' '.join(CASES)}")
        record(name, args.out)


if __name__ == "__main__":
    main()
