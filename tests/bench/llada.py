"""LLaDA for the bench, as a careful user of PyTorch writes it: scaled_dot_product_attention in both
directions, rotary tables made once, logits of all places, the loss of those that were hidden.

In:    ids (B, T) with the mask where a token is hidden, labels (B, T), hidden (B, T), p (B, T) the
       probability that it is.
Out:   the sum of hidden tokens' cross-entropies, each divided by its p, over B * T."""
import torch
from torch import nn
from torch.nn import functional as F

THETA = 100.0


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Block(nn.Module):
    def __init__(self, d, heads, ffn):
        super().__init__()
        self.heads = heads
        self.attn_norm, self.ff_norm = nn.RMSNorm(d, eps=1e-5), nn.RMSNorm(d, eps=1e-5)
        self.q_proj, self.k_proj, self.v_proj, self.attn_out = (
            nn.Linear(d, d, bias=False) for _ in range(4))
        self.ff_proj, self.up_proj = nn.Linear(d, ffn, bias=False), nn.Linear(d, ffn, bias=False)
        self.ff_out = nn.Linear(ffn, d, bias=False)

    def forward(self, x, cos, sin):
        B, T, d = x.shape
        y = self.attn_norm(x)
        q, k, v = (f(y).view(B, T, self.heads, d // self.heads).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        a = F.scaled_dot_product_attention(turned(q, cos, sin), turned(k, cos, sin), v)
        x = x + self.attn_out(a.transpose(1, 2).reshape(B, T, d))
        y = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(y)) * self.up_proj(y))


class Llada(nn.Module):
    def __init__(self, vocab, positions, layers, heads, d, ffn):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, heads, ffn) for _ in range(layers))
        self.ln_f, self.ff_out = nn.RMSNorm(d, eps=1e-5), nn.Linear(d, vocab, bias=False)
        pairs = torch.arange(0, d // heads, 2) / (d // heads)
        angle = (torch.arange(positions)[:, None] * THETA ** -pairs).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, ids, labels, hidden, p):
        T = ids.shape[1]
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x, self.cos[:T], self.sin[:T])
        logits = self.ff_out(self.ln_f(x))
        return (F.cross_entropy(logits[hidden], labels[hidden], reduction="none")
                / p[hidden]).sum() / ids.numel()
