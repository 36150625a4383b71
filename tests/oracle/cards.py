#!/usr/bin/env python3
"""Runs the lines of Python that the README.md of exported folders shows, and reads its head.

In:    FOLDER[=BASE] ...: of an adapter with the folder of its base.
Out:   a line a folder: `ok card NAME` or `not ok card NAME: why`."""
import os
import re
import shutil
import sys
import tempfile

import torch
import transformers
import yaml

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
bad = 0


def look(folder, base):
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
        return "" if torch.isfinite(logits).all() else "logits are not finite"


home = os.getcwd()
for word in sys.argv[1:]:
    path, _, of = word.partition("=")
    try:
        why = look(path, of)
    except Exception as e:
        why = repr(e)
    os.chdir(home)
    bad += bool(why)
    name = os.path.basename(path)
    print(f"not ok card {name}: {why}" if why else f"ok card {name}")
sys.exit(bad > 0)
