#!/usr/bin/env python3
"""Are two reference folders the same runs? Prints the first difference, or nothing.

In:    two folders made by train.py and vectors.py.
Out:   exit status 1 and one line at the first difference.
Keeps: fp64 numbers to 1e-9 (sums vary with the vector width), tensors to 1e-6; fp32 and rounded runs vary."""
import json
import os
import sys

import numpy as np
from safetensors.numpy import load_file

VARY = ("versions", "float32", "rounding")


def first(differences):
    return next((d for d in differences if d), "")


def close(a, b, where):
    if isinstance(a, dict) and isinstance(b, dict):
        return first(close(a.get(k), b.get(k), f"{where}.{k}")
                     for k in sorted((a.keys() | b.keys()) - set(VARY)))
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return first(close(x, y, f"{where}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
    if isinstance(a, float) and isinstance(b, float):
        return "" if abs(a - b) <= 1e-9 * max(1.0, abs(b)) else f"{where}: {a} and {b}"
    return "" if a == b else f"{where}: {a} and {b}"


def tensors(a, b):
    x, y = load_file(a), load_file(b)
    if x.keys() != y.keys():
        return f"{a}: other tensors"
    return first("" if np.allclose(x[k], y[k], 1e-6, 1e-6, True) else f"{a}: {k}" for k in sorted(x))


def files(folder):
    return sorted(os.path.relpath(os.path.join(d, f), folder)
                  for d, _, names in os.walk(folder) for f in names)


def main():
    one, two = sys.argv[1:]
    if files(one) != files(two):
        return f"other files: {sorted(set(files(one)) ^ set(files(two)))[:4]}"
    for name in files(one):
        a, b = os.path.join(one, name), os.path.join(two, name)
        if name.endswith(".json"):
            with open(a) as f, open(b) as g:
                why = close(json.load(f), json.load(g), name)
        else:
            why = tensors(a, b)
        if why:
            return why
    return ""


if __name__ == "__main__":
    difference = main()
    if difference:
        print(difference)
    sys.exit(difference != "")
