#!/usr/bin/env python3
"""Keeps and prints what run.sh measured.

In:    `add CASE RECIPE DIR THREADS`: DIR/CASE.ours and DIR/CASE.peer, a JSON line a run; its
       "case" is CASE or a row timed with it, CASE/NAME.
Out:   tests/bench/results/CASE.ISA.json, a file for each kind of CPU; `print CASE ...`: the table of them.
Keeps: no date; a side's figure is the median over its runs, the spread (max - min) / median."""
import glob
import json
import os
import statistics
import sys

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
RATE = "_per_second"
ROW = "{:<10} {:<12} {:>12} {:>7} {:>12} {:>7} {:>6} {:>15} {:>15}"


def cpu(key):
    """The first value of a key of /proc/cpuinfo."""
    with open("/proc/cpuinfo") as f:
        values = [line.split(":", 1)[1].strip() for line in f if line.startswith(key)]
    return values[0] if values else "unknown"


def isa():
    """The widest of the instruction sets that our products know."""
    has = cpu("flags").split()
    return next((name for name in ("avx512_bf16", "avx512f") if name in has), "avx2")


def write(case, threads, **measured):
    """Keeps what was measured of a case, with this CPU."""
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, f"{case}.{isa()}.json"), "w") as f:
        json.dump({"case": case, "cpu": cpu("model name"), "isa": isa(), "threads": threads, **measured}, f, indent=1)
        f.write("\n")


def add(case, recipe, folder, threads):
    sides = {}
    for side in ("ours", "peer"):
        with open(os.path.join(folder, f"{case}.{side}")) as f:
            sides[side] = [json.loads(line) for line in f]
        if not sides[side]:
            sys.exit(f"{case}: no run of {side}")
    write(case, int(threads), recipe=recipe, **sides)


def unit_of(run):
    """What a run counts: tokens or predictions."""
    return next(key[:-len(RATE)] for key in run if key.endswith(RATE))


def summary(runs):
    """Median rate, spread in percent, first step in s, peak in GiB."""
    rates = [r[unit_of(r) + RATE] for r in runs]
    mid = statistics.median(rates)
    return (mid, 100 * (max(rates) - min(rates)) / mid,
            statistics.median(r["first_step_seconds"] for r in runs),
            max(r["peak_rss_bytes"] for r in runs) / 2**30)


def step_seconds(runs):
    """What a step takes, of those that gen plan counts."""
    rows = runs[0]["sequences"]
    work = rows if unit_of(runs[0]) == "predictions" else rows * runs[0]["places"]
    return work / summary(runs)[0]


def share(name, runs):
    """Of the FMA peak, by the operations that gen plan counts in a step."""
    peak = max(r["peak_gflops"] for r in runs)      # what others take of the machine only lowers it
    gflop = runs[0]["gflop"]
    rate = gflop / step_seconds(runs)
    print(f"    {name}: {gflop:.1f} GFLOP a step, {rate:.1f} GFLOP/s: {100 * rate / peak:.0f} % of the FMA peak, "
          f"measured {peak:.1f}")


def results(case):
    """What was measured of a case, of each kind of CPU."""
    for path in sorted(glob.glob(os.path.join(RESULTS, f"{case}.*.json"))):
        with open(path) as f:
            yield json.load(f)


def show(cases):
    print(ROW.format("case", "peer", "ours /s", "spread", "peer /s", "spread", "ratio",
                     "first step s", "peak GiB"))
    for doc in (doc for case in cases for doc in results(case)):
        case, last = doc["case"], None
        ours = {}
        for run in doc["ours"]:
            ours.setdefault(run.get("case", case), []).append(run)
        for name, mode in dict.fromkeys((r["case"], r["mode"]) for r in doc["peer"]):
            if name not in ours:
                continue
            runs = [r for r in doc["peer"] if (r["case"], r["mode"]) == (name, mode)]
            a, b, last = summary(ours[name]), summary(runs), runs[0]
            print(ROW.format(name, mode, f"{a[0]:.1f}", f"{a[1]:.1f}%", f"{b[0]:.1f}",
                             f"{b[1]:.1f}%", f"{a[0] / b[0]:.2f}", f"{a[2]:.2f} / {b[2]:.2f}",
                             f"{a[3]:.2f} / {b[3]:.2f}"))
        for name, runs in ours.items():
            if "peak_gflops" in runs[0]:
                share(name, runs)
        peers = {r["case"] for r in doc["peer"]}
        for above, name in zip(ours, list(ours)[1:]):
            if name not in peers:
                print(f"    a step of {above} takes {step_seconds(ours[above]) / step_seconds(ours[name]):.2f} "
                      f"times as long as one of {name}")
        if last:
            precisions = " ".join(sorted({r["precision"] for r in doc["peer"]}))
            versions = " ".join(f"{k} {v}" for k, v in last["versions"].items())
            print(f"    {unit_of(last)}, {len(ours[last['case']])} runs a side, {doc['threads']} threads, "
                  f"{doc['cpu']}, {doc['isa']}; {precisions}, {versions}")


if __name__ == "__main__":
    {"add": lambda a: add(*a), "print": show}[sys.argv[1]](sys.argv[2:])
