"""What bitsandbytes and numpy make of moments in 8 bit: recorded in tests/kernels/moments.h.

In:    bitsandbytes' maps and its `default` backend (its CPU library does not give the nearest code); AdamW in
       numpy, in fp32, every operation rounded.
Out:   --maps: the two lists of runtime/dynamic_map.h. Else the header, on standard output: blocks with the codes
       that the backend gives them, and an update of a tensor of three blocks, the last of which is short. No
       value lies within 1e-6 of a midpoint, so that one rounding more or less changes no code."""
import sys

import bitsandbytes
import bitsandbytes.backends.default.ops  # noqa: F401
import bitsandbytes.functional as F
import numpy as np
import torch

f4 = np.float32
MAPS = [F.create_dynamic_map(signed=signed).numpy() for signed in (True, False)]
BLOCK = 256


def hexadecimal(x):
    if x == 0:
        return "0x0p+0f"
    mantissa, exponent = float(x).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}f"


def lines(words, end):
    line = "   "
    for i, word in enumerate(words):
        word = f" {word}" + ("," if i < len(words) - 1 else "")
        if len(line + word) > 97:
            yield line + end
            line = "   "
        line += word
    yield line


def maps():
    for name, values in zip(("SIGNED", "UNSIGNED"), MAPS):
        print(f"#define DYNAMIC_{name} \\\n" + "\n".join(lines([hexadecimal(v) for v in values], " \\")) + "\n")


def array(kind, name, values):
    words = [hexadecimal(v) for v in values] if kind == "float" else [str(int(v)) for v in values]
    print(f"static const {kind} {name}[] = {{\n" + "\n".join(lines(words, "")) + "\n};\n")


def bounds(values):
    return (values[:-1] + values[1:]) / f4(2)


def near(x, absmax, values):
    """Elements whose code one rounding might change."""
    y = (np.abs(x) if values is MAPS[1] else x) / absmax
    edge = bounds(values)
    return (np.abs(y[:, None] - edge) <= f4(1e-6) * np.abs(edge)).any(1)


def by_bitsandbytes(x, values):
    op = torch.ops.bitsandbytes.quantize_blockwise.default
    code, absmax = op._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, torch.tensor(x), torch.tensor(values),
                             BLOCK)
    return code.numpy(), absmax.numpy()


def quantise(x, values):
    code, absmax = np.zeros(len(x), np.uint8), []
    for i in range(0, len(x), BLOCK):
        block = x[i:i + BLOCK]
        most = np.abs(block).max()
        absmax.append(most)
        k = np.searchsorted(bounds(values), block / most, side="left")      # a tie: the lower
        if values is MAPS[1]:
            k = np.where((block > 0) & (k == 0), 1, k)
        code[i:i + BLOCK] = k
    return code, np.array(absmax, f4)


def dequantise(code, absmax, values):
    return values[code] * np.repeat(absmax, BLOCK)[:len(code)]


def draw(rng, n, signed):
    """Of many sizes, as gradients have them; none near a midpoint."""
    x = (rng.standard_normal(n) * np.exp(3 * rng.standard_normal(n))).astype(f4)
    return x if signed else x * x


ARGS = dict(lr=1e-2, b1=0.9, b2=0.999, eps=1e-8, decay=0.1, bias1=0.271, bias2=0.002997, clip=1.0, norm=3.0)


def update(w, m, v, g):
    a = {k: f4(x) for k, x in ARGS.items()}
    one = f4(1)
    g = g * min(one, a["clip"] / (a["norm"] + f4(1e-6)))
    m = a["b1"] * m + (one - a["b1"]) * g
    v = a["b2"] * v + (one - a["b2"]) * g * g
    step = a["lr"] / a["bias1"] * m / (np.sqrt(v) * (one / np.sqrt(a["bias2"])) + a["eps"])
    return w * (one - a["lr"] * a["decay"]) - step, m, v


def header():
    rng = np.random.default_rng(35)
    print("/* moments.h -- recorded by tests/oracle/moments.py: codes of bitsandbytes "
          f"{bitsandbytes.__version__}, an update by numpy. */\n#ifndef DIECAST_TESTS_KERNELS_MOMENTS_H\n"
          "#define DIECAST_TESTS_KERNELS_MOMENTS_H\n\n#include <stdint.h>\n")
    for values, name, signed in ((MAPS[0], "m", True), (MAPS[1], "v", False)):
        while True:
            x = draw(rng, 3 * BLOCK, signed)
            if not any(near(b, np.abs(b).max(), values).any() for b in x.reshape(-1, BLOCK)):
                break
        code, absmax = by_bitsandbytes(x, values)
        assert np.array_equal(absmax, np.abs(x.reshape(-1, BLOCK)).max(1))
        array("float", f"recorded_{name}", x)
        array("uint8_t", f"recorded_{name}_code", code)
    n = 2 * BLOCK + 100
    while True:
        g, w = draw(rng, n, True), rng.standard_normal(n).astype(f4)
        m8, v8 = quantise(draw(rng, n, True) * f4(0.1), MAPS[0]), quantise(draw(rng, n, False) * f4(0.1), MAPS[1])
        w1, m1, v1 = update(w, dequantise(*m8, MAPS[0]), dequantise(*v8, MAPS[1]), g)
        edges = [near(x[i:i + BLOCK], np.abs(x[i:i + BLOCK]).max(), values).any()
                 for x, values in ((m1, MAPS[0]), (v1, MAPS[1])) for i in range(0, n, BLOCK)]
        if not any(edges):
            break
    for name, values in (("g", g), ("w", w), ("w_after", w1)):
        array("float", f"update_{name}", values)
    for name, before, after in (("m", m8, quantise(m1, MAPS[0])), ("v", v8, quantise(v1, MAPS[1]))):
        array("uint8_t", f"update_{name}", before[0])
        array("float", f"update_{name}_absmax", before[1])
        array("uint8_t", f"update_{name}_after", after[0])
        array("float", f"update_{name}_absmax_after", after[1])
    print("#endif")


if __name__ == "__main__":
    maps() if sys.argv[1:] == ["--maps"] else header()
