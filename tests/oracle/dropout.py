"""Dropout in front of PEFT's adapters whose masks come from Philox4x32-10 by counter.

In:    Sites.now = (step from 0, index of the micro-batch's first sample in the step), or None: off.
Out:   x * mask; the element e of position t of sample b is dropped when word e % 4 of
       philox((e / 4, t, b, step), (seed low ^ site * 0x9E3779B9, seed high)) < p * 2^32.
Keeps: site = 16 layer + 4 (0 qkv, 1 o, 2 gate and up, 3 down) + 0 q or gate, 1 k or up, 2 v; what stands behind
       the layers has sites behind theirs."""
import numpy as np
import torch

import vectors

SITE = {"q_proj": 0, "k_proj": 1, "v_proj": 2, "o_proj": 4, "gate_proj": 8, "up_proj": 9,
        "down_proj": 12, "query": 0, "key": 1, "value": 2, "output": 4, "up": 8, "down": 12}
BEHIND = {"dense": 0}


def philox(c, k):
    """vectors.philox over arrays of counters: c four uint64 arrays, k two ints."""
    c, k, low = list(c), list(k), np.uint64(0xffffffff)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high = np.uint64(32)
        c = [(b >> high) ^ c[1] ^ np.uint64(k[0]), b & low,
             (a >> high) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


class Sites(torch.nn.Module):
    now = None

    def __init__(self, p, seed, site):
        super().__init__()
        self.p = p
        self.key = (seed & 0xffffffff) ^ (site * 0x9E3779B9 & 0xffffffff), seed >> 32

    def forward(self, x):
        if Sites.now is None:
            return x
        B, T, n = x.shape
        step, first = Sites.now
        grid = np.meshgrid(np.arange(B) + first, np.arange(T), np.arange((n + 3) // 4),
                           indexing="ij")
        b, t, quad = (g.astype(np.uint64) for g in grid)
        words = philox((quad, t, b, np.full_like(b, step)), self.key)
        word = np.stack(words, -1).reshape(B, T, -1)[:, :, :n]
        keep = torch.from_numpy(word >= np.uint64(int(self.p * 2 ** 32)))
        return x * keep.to(x.dtype) / (1 - self.p)


def install(model, p, seed):
    """Puts a Sites in the place of every dropout of an adapter."""
    counters = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]
    ours = philox([np.array([c], np.uint64) for c in counters], (0xa4093822, 0x299f31d0))
    assert [int(w[0]) for w in ours] == vectors.philox(counters, (0xa4093822, 0x299f31d0))
    found = [(name.split("."), m) for name, m in model.named_modules() if hasattr(m, "lora_dropout")]
    inside = [(path, [int(word) for word in path if word.isdigit()]) for path, _ in found]
    layers = 1 + max(at[0] for _, at in inside if at)
    for (path, at), (_, module) in zip(inside, found):
        site = 16 * at[0] + SITE[path[-1]] if at else 16 * layers + BEHIND[path[-1]]
        module.lora_dropout["default"] = Sites(p, seed, site)
