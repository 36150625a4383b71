"""Table of make result-small-states: last validation losses by setting, and the largest updates.

usage: small_states.py FOLDER SEED ... <SETTINGS, a line `NAME ...` each
"""
import array
import json
import math
import os
import re
import statistics
import sys


def last_loss(folder):
    """The last eval_loss of a run's history."""
    with open(os.path.join(folder, "history.jsonl")) as file:
        losses = [r["eval_loss"] for r in map(json.loads, file) if "eval_loss" in r]
    if not losses or not all(map(math.isfinite, losses)):
        sys.exit(f"{folder}: no finite eval_loss")
    return losses[-1]


def weights(path):
    """The fp32 tensors of a safetensors file as one array."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        values = array.array("f")
        values.frombytes(file.read())
    if any(t["dtype"] != "F32" for name, t in header.items() if name != "__metadata__"):
        sys.exit(f"{path}: weights are not fp32")
    return values


def largest_update(folder, lr):
    """Of all weights and steps, the largest |update| / lr."""
    steps = sorted(int(m[1]) for m in map(re.compile(r"checkpoint-(\d+)$").match, os.listdir(folder)) if m)
    before, most = None, 0.0
    for step in steps:
        now = weights(os.path.join(folder, f"checkpoint-{step}", "model.safetensors"))
        if before:
            most = max(most, max(abs(a - b) for a, b in zip(before, now)) / lr)
        before = now
    if len(steps) < 2:
        sys.exit(f"{folder}: {len(steps)} checkpoints")
    return most


def main():
    folder, seeds = sys.argv[1], sys.argv[2:]
    base = {}
    print(f"last validation loss, {len(seeds)} seeds")
    for name in [line.split()[0] for line in sys.stdin if line.strip()]:
        losses = [last_loss(os.path.join(folder, f"{name}.{seed}")) for seed in seeds]
        mean = statistics.fmean(losses)
        error = statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
        kind = name.split("_")[0]
        if kind not in base:
            base[kind] = (mean, error)
            print(f"  {name:<14} {mean:.5f} +- {error:.5f}")
        else:
            apart = (mean - base[kind][0]) / math.hypot(error, base[kind][1])
            print(f"  {name:<14} {mean:.5f} +- {error:.5f}   {apart:+.2f} standard errors")
    print("largest |update| / lr of a weight, fp32 weights, 60 steps")
    for moments in ("fp32", "8bit"):
        run = os.path.join(folder, f"update_{moments}.1")
        print(f"  moments {moments}   {largest_update(run, 3e-3):.2f}")


main()
