#!/usr/bin/env python3
"""Does PyTorch see in a folder of a masked language model of ours what we see in it?

In:    --model DIR of a case of mlm.py or mdm.py, --json: what our binary said of its validation; --adapter DIR on it.
Out:   `ok NAME` or `not ok NAME: why` a check; --again DIR: the model as transformers writes it.
Keeps: BERT is loaded by transformers, which has to know every tensor; MicroBERT and LLaDA by their names."""
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

import mdm
import mlm

CASES = {**mlm.CASES, **mdm.CASES}
bad = 0


def say(name, why):
    """why: empty when the check passed."""
    global bad
    bad += bool(why)
    print(f"not ok {name}: {why}" if why else f"ok {name}")


# of the config.json of LLaDA-8B: what tells a reader what to build
LLADA = {"architectures": ["LLaDAModelLM"], "model_type": "llada", "block_type": "llama", "activation_type": "silu",
         "layer_norm_type": "rms", "rope": True, "rope_theta": mdm.THETA, "include_bias": False, "weight_tying": False,
         "d_model": mdm.C, "n_layers": mdm.LAYERS, "n_heads": mdm.HEADS, "n_kv_heads": mdm.HEADS,
         "mlp_hidden_size": mdm.FFN, "vocab_size": mdm.V, "embedding_size": mdm.V, "mask_token_id": mdm.MASK}


def load(case, folder, again):
    model = case["model"]() if "model" in case else mdm.Llada()
    if "model" not in case:
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        say("config", str([k for k, v in LLADA.items() if config.get(k) != v] or ""))
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
    p.add_argument("--case", required=True, choices=sorted(CASES))
    p.add_argument("--json", required=True)
    p.add_argument("--adapter")
    p.add_argument("--again")
    args = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    case = CASES[args.case]
    model = load(case, args.model, args.again)
    if args.adapter:
        model.model = PeftModel.from_pretrained(model.model, args.adapter)
    model.double().eval()
    file = os.path.join(mlm.REF, args.case, "eval.safetensors")
    want = (mlm.evaluate(model, case, rows_of(file)) if "model" in case else
            mdm.evaluate(case, model, mdm.read_rows(file)))["eval_loss"]
    with open(args.json) as f:
        got = json.load(f)["eval_loss"]
    say("eval_loss", "" if abs(got - want) <= 1e-6 * want else f"{got} here, PyTorch has {want}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
