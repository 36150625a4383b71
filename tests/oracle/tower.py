"""The families of tests/train/families in PyTorch: what their rows say, in words of its modules.

In:    a family's name; or a folder that save() has written.
Keeps: the module names of the rows; of post_norm the blocks are torch.nn.TransformerEncoderLayer's."""
import json
import os
from types import SimpleNamespace

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

import data

C, LAYERS, HEADS, PLACES = 64, 2, 4, 64
MODEL_TYPE = {"two_stacks": "norm_then_residual"}    # the recipe's family, where it is another
TOP = 4                     # layers of the upper stack of two_stacks
# eps of the norm after the embedding, of the others
EPS = {"post_norm": (1e-12, 1e-12), "typed": (1e-12, 1e-12),
       "norm_then_residual": (1e-3, 1e-5), "two_stacks": (1e-3, 1e-5)}
POST = "post_norm", "typed"
TYPES = 40                  # of a token: its place, as typed.c has it


class Embeddings(nn.Module):
    def __init__(self, family):
        super().__init__()
        self.word = nn.Embedding(data.VOCAB, C)
        self.position = nn.Embedding(PLACES, C) if family in POST else None
        self.kind = nn.Embedding(TYPES, C) if family == "typed" else None
        self.LayerNorm = nn.LayerNorm(C, EPS[family][0])

    def forward(self, ids):
        x = self.word(ids)
        if self.position is not None:
            x = x + self.position(torch.arange(ids.shape[1]))
        if self.kind is not None:
            x = x + self.kind(torch.arange(ids.shape[1]))
        return self.LayerNorm(x)


class Layer(nn.Module):
    def __init__(self, family, post):
        super().__init__()
        self.post, self.function = post, F.gelu if post else F.relu
        self.query, self.key, self.value = (nn.Linear(C, C) for _ in range(3))
        self.output = nn.Linear(C, C, bias=post)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.LayerNorm1, self.LayerNorm2 = (nn.LayerNorm(C, EPS[family][1]) for _ in range(2))

    def attention(self, x):
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, HEADS, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(B, T, C))

    def ffn(self, x):
        return self.down(self.function(self.up(x)))

    def forward(self, x):
        if self.post:
            x = self.LayerNorm1(x + self.attention(x))
            return self.LayerNorm2(x + self.ffn(x))
        x = self.LayerNorm1(x)
        x = x + self.attention(x)
        x = self.LayerNorm2(x)
        return x + self.ffn(x)


class Head(nn.Module):
    def __init__(self, family, word):
        super().__init__()
        self.family = family
        if family in POST:
            self.dense = nn.Linear(C, C)
        if family != "norm_then_residual":
            self.LayerNorm = nn.LayerNorm(C, EPS[family][1])
        if family in POST:
            self.word = [word]           # no parameter of this module's
        else:
            self.decoder = nn.Linear(C, data.VOCAB, bias=False)

    def forward(self, x):
        if self.family in POST:
            return F.linear(self.LayerNorm(F.gelu(self.dense(x))), self.word[0].weight)
        return self.decoder(self.LayerNorm(x) if self.family == "two_stacks" else x)


class Tower(nn.Module):
    def __init__(self, family):
        super().__init__()
        self.family = family
        self.embeddings = Embeddings(family)
        self.layer = nn.ModuleList(Layer(family, family in POST) for _ in range(LAYERS))
        if family == "two_stacks":
            self.between = nn.LayerNorm(C, EPS[family][1])
            self.top = nn.ModuleList(Layer(family, True) for _ in range(TOP))
        self.head = Head(family, self.embeddings.word)

    def forward(self, input_ids, attention_mask=None):
        x = self.embeddings(input_ids)
        for layer in self.layer:
            x = layer(x)
        if self.family == "two_stacks":
            x = self.between(x)
            for layer in self.top:
                x = layer(x)
        return SimpleNamespace(logits=self.head(x))

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        save_file(self.state_dict(), os.path.join(folder, "model.safetensors"), {"format": "pt"})
        with open(os.path.join(folder, "config.json"), "w") as f:
            f.write(json.dumps({"model_type": MODEL_TYPE.get(self.family, self.family),
                                "architectures": [self.family]}, indent=2) + "\n")


def load(folder):
    """The model of a folder; None: none of these families."""
    with open(os.path.join(folder, "config.json")) as f:
        family = json.load(f).get("architectures", [""])[0]
    if family not in EPS:
        return None
    model = Tower(family)
    model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    if model.layer[0].post:
        same_as_torch(model.layer[0])
    return model


def same_as_torch(layer):
    """PyTorch's own post-norm layer with the same weights gives the same."""
    own = nn.TransformerEncoderLayer(C, HEADS, 4 * C, 0.0, "gelu", EPS["post_norm"][1], True)
    parts = layer.query, layer.key, layer.value
    state = {"self_attn.in_proj_weight": torch.cat([p.weight for p in parts]),
             "self_attn.in_proj_bias": torch.cat([p.bias for p in parts])}
    for theirs, ours in (("self_attn.out_proj", layer.output), ("linear1", layer.up),
                         ("linear2", layer.down), ("norm1", layer.LayerNorm1),
                         ("norm2", layer.LayerNorm2)):
        state[theirs + ".weight"], state[theirs + ".bias"] = ours.weight, ours.bias
    own.load_state_dict(state)
    x = torch.randn(2, 8, C, generator=torch.Generator().manual_seed(1))
    mask = nn.Transformer.generate_square_subsequent_mask(8)
    with torch.no_grad():
        off = (own(x, src_mask=mask, is_causal=True) - layer(x)).abs().max().item()
    assert off < 1e-5, off
