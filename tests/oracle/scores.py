#!/usr/bin/env python3
"""Scores solutions as the README.md of exported process reward models shows: an adapter on its base, and both merged.

In:    BASE ADAPTER MERGED SOLUTIONS SCORES: folders, rows of data, what `--score` of our program said of them; the
       tokenizer of MERGED, whose chat is ChatML.
Out:   a line a folder: `ok scores NAME` or `not ok scores NAME: why`."""
import json
import os
import re
import sys

import torch
import transformers
from safetensors.torch import load_file

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
base, adapter, merged, rows, scores = (os.path.abspath(p) for p in sys.argv[1:])
SYSTEM, MARK = os.environ.get("SYSTEM", ""), "<extra_0>"


def text_of(row):
    """The solution's steps with marks between them; steps begin at "### Step"."""
    steps = [s for s in re.split(r"### Step \d+:\n", row["cot_response"])[1:]]
    turns = ([("system", SYSTEM)] if SYSTEM else []) + [("user", row["informal_prefix"]), ("assistant", MARK.join(
        s.strip() for s in steps))]
    return "\n".join(f"<|im_start|>{who}\n{what}<|im_end|>" for who, what in turns) + "\n"


def commands(folder):
    with open(os.path.join(folder, "README.md")) as f:
        text = f.read()
    os.chdir(folder)
    named = re.search(r'from_pretrained\("([^".]+)"', text)
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, re.S).group(1).replace(
        f'"{named.group(1)}"' if named else "\0", f'"{base}"'), names)
    return names


def card_scores(names, row):
    """By the lines of the card alone."""
    return torch.tensor(names["score"](row["informal_prefix"], [
        s.strip() for s in re.split(r"### Step \d+:\n", row["cot_response"])[1:]]))


def look(folder, names, tokenizer):
    file = "adapter_model.safetensors" if folder == adapter else "model.safetensors"
    head = {k.removeprefix("base_model.model."): v for k, v in load_file(os.path.join(folder, file)).items()}
    mark, worst = tokenizer.convert_tokens_to_ids(MARK), 0.0
    with open(rows) as f, open(scores) as g:
        for row, said in zip(map(json.loads, f), map(json.loads, g)):
            ids = tokenizer(text_of(row), return_tensors="pt", add_special_tokens=False).input_ids
            with torch.no_grad():
                x = names["model"](input_ids=ids).last_hidden_state[0][ids[0] == mark]
                h = torch.relu(x @ head["score.0.weight"].T + head["score.0.bias"])
                p = torch.softmax(h @ head["score.2.weight"].T + head["score.2.bias"], -1)[:, 1]
            if len(p) != len(said["steps"]):
                return f"{len(p)} marks in {row['id']}, want {len(said['steps'])}"
            worst = max(worst, *((x - torch.tensor(said["steps"])).abs().max().item()
                                 for x in (p, card_scores(names, row))))
    return "" if worst < 1e-5 else f"off by {worst:.1e}"


bad = 0
whole = commands(merged)
for path in adapter, merged:
    try:
        why = look(path, whole if path == merged else commands(path), whole["tokenizer"])
    except Exception as e:
        why = repr(e)
    bad += bool(why)
    print(f"not ok scores {os.path.basename(path)}: {why}" if why else f"ok scores {os.path.basename(path)}")
sys.exit(bad > 0)
