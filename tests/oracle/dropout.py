"""Dropout of PEFT's adapters and of models, whose masks come from Philox4x32-10 by counter.

In:    Sites.now = (step from 0, index of the micro-batch's first sample in the step), or None: off.
Out:   x * mask; the element e of position t of sample b is dropped when word e % 4 of
       philox((e / 4, t, b, step), (seed low ^ site * 0x9E3779B9, seed high)) < p * 2^32.
       Probabilities (B, heads, T, keys): t is the query's, the element is head * T' + key, T' = T rounded up to 4s.
Keeps: adapters: site = 16 layer + 4 (0 qkv, 1 o, 2 gate and up, 3 down) + 0 q or gate, 1 k or up, 2 v; what stands after
       the layers has sites after theirs. Models: 4 n + 3, n = 3 layer + 0 probabilities, 1 attention, 2 feed-forward
       part; n = 3 layers after the embedding."""
import numpy as np
import torch
from transformers.models.gpt2 import modeling_gpt2

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
        self.p = float(np.float32(p))
        self.key = (seed & 0xffffffff) ^ (site * 0x9E3779B9 & 0xffffffff), seed >> 32

    def forward(self, x):
        if Sites.now is None:
            return x
        if x.ndim == 4:                  # (B, heads, T, keys), a row a query
            B, H, T, n = x.shape
            wide = torch.nn.functional.pad(x, (0, -n % 4))
            dropped = self.forward(wide.transpose(1, 2).reshape(B, T, -1))
            return dropped.reshape(B, T, H, -1).transpose(1, 2)[..., :n]
        B, T, n = x.shape
        step, first = Sites.now
        grid = np.meshgrid(np.arange(B) + first, np.arange(T), np.arange((n + 3) // 4),
                           indexing="ij")
        b, t, quad = (g.astype(np.uint64) for g in grid)
        words = philox((quad, t, b, np.full_like(b, step)), self.key)
        word = np.stack(words, -1).reshape(B, T, -1)[:, :, :n]
        keep = torch.from_numpy(word >= np.uint64(int(self.p * 2 ** 32)))
        return x * keep.to(x.dtype) / (1 - self.p)


def check_philox():
    counters = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]
    ours = philox([np.array([c], np.uint64) for c in counters], (0xa4093822, 0x299f31d0))
    assert [int(w[0]) for w in ours] == vectors.philox(counters, (0xa4093822, 0x299f31d0))


def attention(module, query, key, value, attention_mask, scaling=None, **_):
    """The library's eager attention, which draws its own mask, with the module's dropout."""
    scaling = query.size(-1) ** -0.5 if scaling is None else scaling
    scores = query @ key.transpose(-1, -2) * scaling
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    return (module.attn_dropout(weights) @ value).transpose(1, 2), weights


def install_gpt2(model, p, attention_p, seed):
    """Puts a Sites in the place of every dropout of a GPT-2 whose attention is eager."""
    check_philox()
    modeling_gpt2.eager_attention_forward = attention
    blocks, site = model.transformer.h, lambda n: 4 * n + 3
    model.transformer.drop = Sites(p, seed, site(3 * len(blocks)))
    for layer, block in enumerate(blocks):
        block.attn.attn_dropout = Sites(attention_p, seed, site(3 * layer))
        block.attn.resid_dropout = Sites(p, seed, site(3 * layer + 1))
        block.mlp.dropout = Sites(p, seed, site(3 * layer + 2))


def install(model, p, seed):
    """Puts a Sites in the place of every dropout of an adapter."""
    check_philox()
    found = [(name.split("."), m) for name, m in model.named_modules() if hasattr(m, "lora_dropout")]
    inside = [(path, [int(word) for word in path if word.isdigit()]) for path, _ in found]
    layers = 1 + max(at[0] for _, at in inside if at)
    for (path, at), (_, module) in zip(inside, found):
        site = 16 * at[0] + SITE[path[-1]] if at else 16 * layers + BEHIND[path[-1]]
        module.lora_dropout["default"] = Sites(p, seed, site)
