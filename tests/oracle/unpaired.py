#!/usr/bin/env python3
"""Records the run of tests/objectives/apo: unpaired.py [--out DIR].

In:    the model of tests/train/ref/dpo_mean, transformers' LlamaForCausalLM; torch autograd; TRL's KTOTrainer with
       loss_type apo_zero_unpaired.
Out:   DIR (tests/objectives/ref/apo): train.safetensors, eval.safetensors, of fp64 final.safetensors and expect.json.
Keeps: the formula is written out here; KTOTrainer's losses, in fp32, are within 1e-5 of it. Prompts, completions and
       labels: a word and its letters in reverse, desired, or in another order, undesired."""
import argparse
import json
import os
import tempfile

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaForCausalLM
from transformers.trainer_pt_utils import get_parameter_names

import data
import dpo
import rounding
import train as runs

T, ROWS, EVAL_ROWS, BATCH, STEPS, V = 32, 40, 9, 8, 10, dpo.V
SEED, LR, DECAY, CLIP, BETA = 42, 1e-3, 0.001, 1.0, 0.1
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "objectives", "ref", "apo")
MODEL = os.path.join(runs.REF, "dpo_mean", "model")


def make_rows(seed, n):
    """(prompt, completion, label)"""
    return [(p[0], p[1 + i % 2], i % 2 == 0) for i, p in enumerate(dpo.make_pairs(seed, n))]


def write_rows(path, rows, seed):
    cut = [dpo.row(prompt, completion) for prompt, completion, _ in rows]
    tensors = {"answer.offsets": np.cumsum([0] + [len(ids) for ids, _ in cut]).astype(np.int64),
               "answer": np.array(sum((ids for ids, _ in cut), []), np.int32),
               "answer.mask": np.array(sum((m for _, m in cut), []), np.uint8),
               "label": np.array([label for _, _, label in rows], np.uint8)}
    data.save(path, tensors, {
        "format": "diecast-records-1", "kind": "labelled", "records": str(len(rows)),
        "columns": "answer=ragged answer.mask=answer label=fixed", "parts": "answer", "tokenizer": "bytes", "vocab": str(data.VOCAB),
        "eos": str(data.EOS), "max_length": str(T), "sha256": f"{seed:064x}"})


def load(dtype):
    return LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").to(dtype).train()


def losses(lp, rf, desired):
    p = torch.sigmoid(BETA * (lp - rf))
    return torch.where(desired, 1 - p, p)


def log_probs(model, rows):
    return dpo.log_probs(model, [dpo.row(p, c) for p, c, _ in rows], "sum")


def labels(rows):
    return torch.tensor([label for _, _, label in rows])


def evaluate(model, held, held_rf):
    with torch.no_grad():
        return {"eval_loss": losses(log_probs(model, held), held_rf, labels(held)).mean().item()}


def train(rows, held, dtype):
    model, first = load(dtype), load(dtype)
    with torch.no_grad():
        rf, held_rf = log_probs(first, rows), log_probs(first, held)
    params = runs.named_trained(model)
    decays = set(get_parameter_names(model, [torch.nn.LayerNorm], runs.NO_DECAY))
    opt = torch.optim.AdamW([{"params": [p for n, p in params if n in decays], "weight_decay": DECAY},
                             {"params": [p for n, p in params if n not in decays], "weight_decay": 0.0}],
                            lr=LR, betas=(0.9, 0.999), eps=1e-8, foreach=False)
    sched = transformers.get_scheduler("linear", opt, 0, STEPS)
    run, todo = {"initial": evaluate(model, held, held_rf), "steps": []}, dpo.order(SEED)
    for step in range(STEPS):
        at = todo[step * BATCH:][:BATCH]
        mine = [rows[i] for i in at]
        lp, on = log_probs(model, mine), labels(mine)
        loss = losses(lp, rf[at], on).mean()
        rewards = BETA * (lp.detach() - rf[at])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in params], CLIP, foreach=False)
        lr = sched.get_last_lr()[0]
        opt.step()
        sched.step()
        opt.zero_grad()
        run["steps"].append({"step": step + 1, "loss": loss.item(), "grad_norm": norm.item(), "lr": lr,
                             "targets": sum(sum(dpo.row(p, c)[1]) for p, c, _ in mine),
                             "reward_chosen": rewards[on].mean().item(),
                             "reward_rejected": rewards[~on].mean().item()})
    run["final"] = evaluate(model, held, held_rf)
    return model, run


def by_trl(rows):
    """The losses of KTOTrainer."""
    import datasets
    import trl
    try:
        from trl import KTOConfig, KTOTrainer
    except ImportError:
        from trl.experimental.kto import KTOConfig, KTOTrainer
    told = []

    class Trainer(KTOTrainer):
        def _get_train_sampler(self, *args):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            told.append((loss[0] if isinstance(loss, tuple) else loss).item())
            return loss

    with tempfile.TemporaryDirectory() as tmp:
        args = KTOConfig(
            output_dir=tmp, per_device_train_batch_size=BATCH, learning_rate=LR, lr_scheduler_type="linear",
            max_steps=STEPS, weight_decay=DECAY, max_grad_norm=CLIP, beta=BETA, loss_type="apo_zero_unpaired",
            bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none", save_strategy="no",
            logging_steps=1, optim="adamw_torch", max_length=None, disable_tqdm=True, adam_epsilon=1e-8)
        table = [dict(zip(("prompt", "completion", "label"), rows[i])) for i in dpo.order(SEED)]
        Trainer(model=load(torch.float32), ref_model=load(torch.float32), args=args,
                train_dataset=datasets.Dataset.from_list(table), processing_class=dpo.letters(tmp)).train()
    return told, trl.__version__


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=OUT, help="default: tests/objectives/ref/apo")
    out = p.parse_args().out
    os.makedirs(out, exist_ok=True)
    rows, held = make_rows(4000, ROWS), make_rows(4001, EVAL_ROWS)
    write_rows(os.path.join(out, "train.safetensors"), rows, 4000)
    write_rows(os.path.join(out, "eval.safetensors"), held, 4001)
    single, run32 = train(rows, held, torch.float32)
    runs.fp64_norms(True)
    model, run = train(rows, held, torch.float64)
    far = rounding.drift(lambda: train(rows, held, torch.float64), model, run, runs.parameters)
    runs.fp64_norms(False)
    trl, version = by_trl(rows)
    off = max(abs(a - b["loss"]) / b["loss"] for a, b in zip(trl, run["steps"]))
    assert off < 1e-5 and len(trl) == STEPS, (off, trl, run["steps"])
    drift = {runs.tensor_name(n): (a - b).abs().max().item() for (n, a), (_, b) in
             zip(runs.named_trained(model), runs.named_trained(single))}
    model.float()
    save_file({n: p.detach() for n, p in model.named_parameters()}, os.path.join(out, "final.safetensors"),
              metadata={"format": "pt"})
    expect = {"case": "apo", "versions": {m.__name__: m.__version__ for m in (torch, transformers, safetensors, np)}
              | {"trl": version},
              "settings": {"T": T, "batch": BATCH, "steps": STEPS, "rows": ROWS, "eval_rows": EVAL_ROWS, "seed": SEED,
                           "lr": LR, "schedule": "linear", "weight_decay": DECAY, "decay_rule": "hf5", "clip": CLIP,
                           "beta": BETA, "kind": "labelled", "lora": None},
              "dtype": "float64", **run, "trl": {"loss": trl},
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]], "final_max_abs_diff": drift},
              "rounding": far}
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    print("loss", " ".join(f"{s['loss']:.4f}" for s in run["steps"]), "norm",
          " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]), f"TRL off by {off:.1e}")


main()
