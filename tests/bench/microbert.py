"""MicroBERT for the bench, as a careful user of PyTorch writes it: q, k, v of all heads in one layer,
scaled_dot_product_attention, all labels but those of hidden words ignored.

In:    ids (B, T), labels (B, T) with -100 where no word is hidden, lengths (B).
Out:   the mean cross-entropy of hidden words; rows=True: only their rows go through the head."""
import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    """x = norm(x); x = x + attention(x); x = norm(x); x = x + feed_forward(x)."""

    def __init__(self, d, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, keys):
        B, T, d = x.shape
        x = self.norm1(x)
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keys,
                                           dropout_p=self.p if self.training else 0.0)
        x = x + self.dropout(self.proj(a.transpose(1, 2).reshape(B, T, d)))
        x = self.norm2(x)
        return x + self.dropout(self.down(F.gelu(self.up(x))))


class MicroBert(nn.Module):
    def __init__(self, vocab, positions, layers, heads, d, dropout, rows):
        super().__init__()
        self.rows = rows
        self.words, self.places = nn.Embedding(vocab, d), nn.Embedding(positions, d)
        self.norm = nn.LayerNorm(d, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(d, heads, dropout) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, labels, lengths):
        T = ids.shape[1]
        keys = (torch.arange(T) < lengths[:, None])[:, None, None, :]
        x = self.dropout(self.norm(self.words(ids) + self.places.weight[:T]))
        for layer in self.layers:
            x = layer(x, keys)
        x, labels = x.flatten(0, 1), labels.flatten()
        if self.rows:
            hidden = labels >= 0
            x, labels = x[hidden], labels[hidden]
        return F.cross_entropy(self.head(x), labels, ignore_index=-100)
