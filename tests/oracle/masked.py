#!/usr/bin/env python3
"""Does PyTorch see in a folder of a masked language model of ours what we see in it?

In:    --model DIR of a case of mlm.py, --json: what our binary said of its validation; --adapter DIR on it.
Out:   `ok NAME` or `not ok NAME: why` a check; --again DIR: the model as transformers writes it.
Keeps: BERT is loaded by transformers, which has to know every tensor; MicroBERT by its names."""
import argparse
import json
import os
import sys

import torch
import transformers
from peft import PeftModel
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

import mlm

bad = 0


def say(name, why):
    """why: empty when the check passed."""
    global bad
    bad += bool(why)
    print(f"not ok {name}: {why}" if why else f"ok {name}")


def load(case, folder, again):
    model = case["model"]()
    if not isinstance(model, mlm.Bert):
        wrong = model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")), False)
        say("tensors", "" if not any(wrong) else str(wrong))
        return model
    model.model, info = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32,
                                                            output_loading_info=True)
    say("tensors", "; ".join(f"{k}: {sorted(v)[:4]}" for k, v in info.items() if v))
    say("class", "" if type(model.model).__name__ == "BertForMaskedLM" else str(type(model.model)))
    if again:
        model.model.save_pretrained(again)
    return model


def rows_of(path):
    file = load_arrays(path)
    tokens, at = file["tokens"].tolist(), file["doc_offsets"].tolist()
    return [tokens[a:b] for a, b in zip(at, at[1:])]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True)
    p.add_argument("--case", required=True, choices=sorted(mlm.CASES))
    p.add_argument("--json", required=True)
    p.add_argument("--adapter")
    p.add_argument("--again")
    args = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    case = mlm.CASES[args.case]
    model = load(case, args.model, args.again)
    if args.adapter:
        model.model = PeftModel.from_pretrained(model.model, args.adapter)
    model.double().eval()
    held = rows_of(os.path.join(mlm.REF, args.case, "eval.safetensors"))
    want = mlm.evaluate(model, case, held)["eval_loss"]
    with open(args.json) as f:
        got = json.load(f)["eval_loss"]
    say("eval_loss", "" if abs(got - want) <= 1e-6 * want else f"{got} here, PyTorch has {want}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
