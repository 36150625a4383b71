"""Algorithm distillation for the bench, as a careful user of PyTorch writes it: a post-norm encoder of
transitions with q, k, v of all heads in one layer, causal scaled_dot_product_attention, heads for the
rows of queries alone.

In:    features (B, T, 10) of transitions, types (B, T): 0 a transition, 1 and 2 the marks <c> and </c>,
       at (B) the query's place, states (B) its state, labels (B) and kinds (B) what follows.
Out:   the mean cross-entropy of labels plus that of kinds."""
import torch
from torch import nn
from torch.nn import functional as F

STATES, FEATURES, ACTIONS, TYPES = 81, 10, 5, 3


class Layer(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads, self.p, self.dropout = heads, p, nn.Dropout(p)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        B, T, d = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.p if self.training else 0.0)
        x = self.norm1(x + self.dropout(self.proj(a.transpose(1, 2).reshape(B, T, d))))
        return self.norm2(x + self.dropout(self.down(self.dropout(F.gelu(self.up(x))))))


class Transitions(nn.Module):
    def __init__(self, positions, layers, heads, d, dropout):
        super().__init__()
        self.transition, self.states = nn.Linear(FEATURES, d), nn.Embedding(STATES, d)
        self.marks, self.types = nn.Embedding(2, d), nn.Embedding(TYPES, d)
        self.places = nn.Embedding(positions, d)
        self.layers = nn.ModuleList(Layer(d, heads, dropout) for _ in range(layers))
        self.action, self.kind = nn.Linear(d, ACTIONS), nn.Linear(d, TYPES)

    def forward(self, features, types, at, states, labels, kinds):
        B, T = types.shape
        rows = torch.arange(B)
        marks = self.marks((types - 1).clamp(min=0))
        x = torch.where(types[..., None] > 0, marks, self.transition(features))
        x = x.index_put((rows, at), self.states(states)) + self.types(types)
        x = x + self.places.weight[:T]
        for layer in self.layers:
            x = layer(x)
        x = x[rows, at]
        return F.cross_entropy(self.action(x), labels) + F.cross_entropy(self.kind(x), kinds)


def batch(B, T):
    """Contexts of one region between its marks and part of the next."""
    at = torch.randint(2, T, (B,))
    types = torch.zeros(B, T, dtype=torch.long)
    types[:, 0], types[torch.arange(B), at // 2] = 1, 2
    return dict(features=torch.rand(B, T, FEATURES), types=types, at=at,
                states=torch.randint(0, STATES, (B,)), labels=torch.randint(0, ACTIONS, (B,)),
                kinds=torch.randint(0, TYPES, (B,)))
