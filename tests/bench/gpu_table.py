#!/usr/bin/env python3
"""Keeps and prints what gpu.sh measured.

In:    `add CASE RECIPE DIR RESULTS`: DIR/CASE.ours, .peer (a JSON line a run), .config, DIR/card, ceilings.
Out:   RESULTS/gpu_CASE.json; `print RESULTS CASE ...`: the table of them.
Keeps: no date; a side's figure is the median over its runs. MFU: the model's FLOP (no recomputation)
       over the card's dense bf16 peak of gen/config/targets.def."""
import json
import os
import re
import statistics
import sys

ROW = "{:<13} {:<8} {:>12} {:>7} {:>6} {:>12} {:>7} {:>6} {:>6} {:>15} {:>15}"


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def config(path):
    """field -> value, from the text of gen's config room."""
    fields = {}
    with open(path) as f:
        for line in f:
            m = re.match(r"([a-z_0-9.]+) = (.*?)(  # .*)?$", line)
            if m:
                fields[m[1]] = m[2].strip('"')
    return fields


def flop_per_token(c):
    """Full: 6 (N_linear + N_head) + causal attention; LoRA: 4 of them and 6 of the adapters."""
    n = {k: int(c["model." + k]) for k in
         ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")}
    q, kv = n["heads"] * n["head_dim"], n["kv_heads"] * n["head_dim"]
    gated = c["model.family"] != "gpt2"
    block = n["hidden"] * (2 * q + 2 * kv) + (3 if gated else 2) * n["hidden"] * n["ffn"]
    linear = n["layers"] * block + n["vocab"] * n["hidden"]
    attention = 6 * n["layers"] * q * int(c["seq.max"])
    rank = int(c["lora.rank"])
    if not rank:
        return 6 * linear + attention
    pairs = 4 * n["hidden"] + 2 * q + 2 * kv + (3 if gated else 2) * (n["hidden"] + n["ffn"])
    return 4 * linear + attention + 6 * n["layers"] * rank * pairs


def peak(target):
    """FLOP/s in bf16 of the target's row."""
    with open(os.path.join(os.path.dirname(__file__), "../../gen/config/targets.def")) as f:
        row = re.search(r"TARGET\(" + target + r',[^"]*"cuda", "[^"]*",\s*([^"A-Z]*)', f.read())
    return float(row[1].replace("\n", " ").split(",")[4])


def add(case, recipe, folder, results):
    sides = {side: lines(os.path.join(folder, f"{case}.{side}")) for side in ("ours", "peer")}
    if not sides["ours"]:
        sys.exit(f"{case}: no run of ours")
    with open(os.path.join(folder, "card")) as f:
        card = json.load(f)
    c = config(os.path.join(folder, f"{case}.config"))
    doc = {"case": case, "recipe": recipe, **card,
           "batch": {k: int(c[k]) for k in ("batch.micro", "batch.accum", "seq.max", "gpus")},
           "flop_per_token": flop_per_token(c), "peak_bf16": peak(card["target"]),
           "kernels": lines(os.path.join(folder, "ceiling")),
           "peer_kernels": lines(os.path.join(folder, "peer_ceiling")), **sides}
    os.makedirs(results, exist_ok=True)
    with open(os.path.join(results, f"gpu_{case}.json"), "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")


def summary(runs):
    """Median tokens/s, spread in percent, first step in s, the card's memory in GiB as text, if known."""
    rates = [r["tokens_per_second"] for r in runs]
    mid = statistics.median(rates)
    return (mid, 100 * (max(rates) - min(rates)) / mid,
            statistics.median(r["first_step_seconds"] for r in runs),
            f"{max(r['card_mib'] for r in runs) / 1024:.1f}" if all("card_mib" in r for r in runs) else "-")


def show(results, cases):
    print(ROW.format("case", "peer", "ours tok/s", "spread", "MFU", "peer tok/s", "spread", "MFU",
                     "ratio", "first step s", "card GiB"))
    doc = None
    for case in cases:
        path = os.path.join(results, f"gpu_{case}.json")
        if not os.path.exists(path):
            continue
        with open(path) as f:
            doc = json.load(f)
        a = summary(doc["ours"])
        mfu = doc["flop_per_token"] / doc["peak_bf16"] * 100
        for mode in dict.fromkeys([r["mode"] for r in doc["peer"]] or [""]):
            runs = [r for r in doc["peer"] if r["mode"] == mode]
            b = summary(runs) if runs else None
            print(ROW.format(
                case, mode or "none", f"{a[0]:.0f}", f"{a[1]:.1f}%", f"{a[0] * mfu:.1f}%",
                *((f"{b[0]:.0f}", f"{b[1]:.1f}%", f"{b[0] * mfu:.1f}%", f"{a[0] / b[0]:.2f}",
                   f"{a[2]:.2f} / {b[2]:.2f}", f"{a[3]} / {b[3]}") if b else
                  ("", "", "", "", f"{a[2]:.2f}", a[3]))))
    if doc:
        print(f"    {doc['card']}, driver {doc['driver']}, nvcc {doc['nvcc']}, power limit "
              f"{doc['power_limit_w']} W")
        for who, rows in (("ours", doc["kernels"]), ("PyTorch", doc["peer_kernels"])):
            for row in rows:
                print(f"    {who:<8} {row['kernel']:<40} {row['tflops']:8.1f} TFLOP/s")


if __name__ == "__main__":
    {"add": lambda a: add(*a), "print": lambda a: show(a[0], a[1:])}[sys.argv[1]](sys.argv[2:])
