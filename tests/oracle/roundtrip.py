#!/usr/bin/env python3
"""Does transformers / PEFT see in a folder of ours what we see in it? The exit status tells.

In:    --model DIR, or --adapter DIR --base DIR; a token file; JSON that a binary printed.
Out:   one line a check: `ok NAME` or `not ok NAME: why`.
Keeps: JSON may be one object or a line each; the last value of a key counts. Keys compared:
       eval_loss, eval_loss_token, eval_mean_token_accuracy, eval_entropy, logits (rows x T x V)."""
import argparse
import json
import os
import sys
import warnings

import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict
from safetensors import safe_open
from transformers import AutoModelForCausalLM, TrainerState

import data
import train

KEYS = ("eval_loss", "eval_loss_token", "eval_mean_token_accuracy", "eval_entropy")
bad = 0


def say(name, why):
    """why: empty when the check passed."""
    global bad
    bad += bool(why)
    print(f"not ok {name}: {why}" if why else f"ok {name}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", help="Hugging Face model folder to judge")
    p.add_argument("--adapter", help="PEFT adapter folder to judge; needs --base")
    p.add_argument("--base", help="Hugging Face model folder that the adapter was trained on")
    p.add_argument("--tokens", required=True, help="token file that the numbers belong to")
    p.add_argument("--json", required=True, help="numbers of the binary: JSON or JSON Lines")
    p.add_argument("--length", type=int, required=True, help="T of the recipe")
    p.add_argument("--kind", default="", help="bfd: a sample is a bin of documents")
    p.add_argument("--micro", type=int, default=4, help="rows of a batch (batch.micro)")
    p.add_argument("--rows", type=int, help="only the first ROWS samples; all when left out")
    p.add_argument("--tolerance", type=float, default=1e-5, help="relative, of losses and logits")
    args = p.parse_args()
    if bool(args.model) == bool(args.adapter) or bool(args.adapter) != bool(args.base):
        p.error("want --model DIR, or --adapter DIR --base DIR")
    return args


def numbers(path):
    with open(path) as f:
        text = f.read()
    try:
        records = [json.loads(text)]
    except json.JSONDecodeError:
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    out = {}
    for r in records:
        out.update({k: v for k, v in r.items() if k in KEYS + ("logits",)})
    return out


def load_model(folder):
    """Any tensor that transformers misses, does not know or has to reshape is a failure."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                       output_loading_info=True)
    say("model.tensors", "; ".join(f"{k}: {sorted(v)[:4]}" for k, v in info.items() if v))
    return model


def load_adapter(folder, base):
    model = PeftModel.from_pretrained(load_model(base), folder)
    want = {k: list(v.shape) for k, v in get_peft_model_state_dict(model).items()}
    with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as f:
        have = {k: f.get_slice(k).get_shape() for k in f.keys()}
    wrong = sorted(k for k in want.keys() | have.keys() if want.get(k) != have.get(k))
    say("adapter.tensors", f"missing, unknown or of another shape: {wrong[:4]}" if wrong else "")
    return model


def trainer_state(folder):
    path = os.path.join(folder, "trainer_state.json")
    if os.path.exists(path):
        state = TrainerState.load_from_json(path)
        say("trainer_state", "" if state.global_step > 0 else "global_step is 0")


def measure(model, rows, micro):
    """The same sums as our binaries, and all logits."""
    total = entropy = hits = count = by_rows = 0
    logits = []
    for b in range(0, len(rows), micro):
        part = sum(rows[b:b + micro], [])
        s, e, h, n, _ = train.ce_sums(model, part)
        total, entropy, hits, count = total + s.item(), entropy + e, hits + h, count + n
        by_rows += s.item() / max(n, 1) * len(rows[b:b + micro])
        ids, mask, _ = train.batch(part)
        logits += [x for x in model(input_ids=ids, attention_mask=mask).logits]
    return {"eval_loss": by_rows / len(rows), "eval_loss_token": total / count,
            "eval_mean_token_accuracy": hits / count, "eval_entropy": entropy / count}, logits


def compare(got, ours, tolerance):
    if not got:
        say("numbers", f"none of {', '.join(KEYS)} or logits in the JSON")
    for key in KEYS:
        if key in got:
            off = abs(got[key] - ours[key]) / max(1.0, abs(ours[key]))
            say(key, "" if off <= tolerance else f"{got[key]} here, transformers has {ours[key]}")


def compare_logits(got, logits, tolerance):
    if len(got) > len(logits):
        say("logits", f"{len(got)} rows for {len(logits)} samples")
        return
    for i, (row, want) in enumerate(zip(got, logits)):
        row = torch.tensor(row)
        n = min(len(row), len(want))
        off = ((row[:n] - want[:n]).abs().max() / want[:n].abs().max()).item()
        say(f"logits.{i}", "" if off <= tolerance else f"off by {off:.1e} of the largest")


def main():
    args = arguments()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)
    folder = args.model or args.adapter
    trainer_state(folder)
    model = load_model(args.model) if args.model else load_adapter(args.adapter, args.base)
    model.double().eval()
    rows = data.samples(args.tokens, args.length, args.kind)[:args.rows]
    got = numbers(args.json)
    with torch.no_grad():
        ours, logits = measure(model, rows, args.micro)
    compare(got, ours, args.tolerance)
    compare_logits(got.get("logits", []), logits, args.tolerance)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
