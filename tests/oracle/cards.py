#!/usr/bin/env python3
"""Runs the lines of Python that the README.md of exported folders shows, and reads its head. Those called chat... then
answer as they were trained, and stop; those of bytes read a text; those called odd... have the ids of their tokenizer.json.

In:    FOLDER[=BASE] ...: of an adapter with the folder of its base.
Out:   a line a folder: `ok card NAME` or `not ok card NAME: why`."""
import os
import re
import shutil
import sys
import tempfile

import tokenizers
import torch
import transformers
import yaml

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
bad = 0


def look(folder, base, name):
    with tempfile.TemporaryDirectory() as here:
        copy = os.path.join(here, "folder")
        shutil.copytree(folder, copy)
        with open(os.path.join(copy, "README.md")) as f:
            text = f.read()
        head = yaml.safe_load(text.split("---\n")[1])
        if head["library_name"] != ("peft" if base else "transformers") or "diecast" not in head["tags"]:
            return f"its head is {head}"
        if base:
            os.symlink(os.path.abspath(base), os.path.join(copy, head["base_model"]))
        os.chdir(copy)
        names = {}
        exec(re.search(r"```python\n(.*?)```", text, re.S).group(1), names)
        with torch.no_grad():
            logits = names["model"](input_ids=torch.arange(4)[None]).logits
        if not torch.isfinite(logits).all():
            return "logits are not finite"
        if name.startswith("odd"):
            return odd(names["tokenizer"])
        return "".join(talks(names, q, a) for q, a in (("a", "yes"), ("b", "no"))) if name.startswith("chat") else reads(names, name)


def talks(names, question, answer):
    """Why the model does not answer as it was trained, and stop, with what is in its folder."""
    tokenizer, model = names["tokenizer"], names["model"]
    ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt",
                                        return_dict=True)["input_ids"]
    said = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, pad_token_id=256)
    text = tokenizer.decode(said[0, ids.shape[1]:])
    return "" if text == answer + "<|im_end|>" else f"{question} is answered {text!r}"


def odd(tokenizer):
    """Why the tokenizer of the card gives other ids than tokenizer.json, or has other tokens."""
    plain = tokenizers.Tokenizer.from_file("tokenizer.json")
    for text in ("Hello  world's IT'S 2024\n\n x  = 3;\r\n\t foo   ", " a1 ", "e\u0301 <|endoftext|>"):
        if tokenizer(text).input_ids != plain.encode(text).ids:
            return f"{text!r} has the ids {tokenizer(text).input_ids}"
    return "" if len(tokenizer) == plain.get_vocab_size() else "it has other tokens"


def reads(names, name):
    """Why bytes are not what they are."""
    text = "Bytes \u00e9\0\n\u4e2d <|endoftext|>" if name == "bytes" else ""
    ids = names["tokenizer"](text).input_ids if text else []
    return "" if ids == [*text.split("<")[0].encode(), 256][:len(ids)] else f"ids are {ids}"


home = os.getcwd()
for word in sys.argv[1:]:
    path, _, of = word.partition("=")
    name = os.path.basename(path)
    try:
        why = look(path, of, name)
    except Exception as e:
        why = repr(e)
    os.chdir(home)
    bad += bool(why)
    print(f"not ok card {name}: {why}" if why else f"ok card {name}")
sys.exit(bad > 0)
