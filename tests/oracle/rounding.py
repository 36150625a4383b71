"""How far rounding to fp32 may lead a run: Monte Carlo arithmetic.

In:    a function that trains in fp64, its exact result.
Out:   the largest differences from it over DRAWS runs whose every result is rounded at random.
Method: D. S. Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic",
       UCLA CSD-970002, 1997. An element v becomes v (1 + 2^-24 u), u uniform in [-1, 1]. A sum of
       products or terms gets 2^-24 u / 2 times the sum of their magnitudes as well: the rms error of
       fp32 sums in blocks, whatever their order."""
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DRAWS = 4
UNIT = 2.0 ** -24
aten = torch.ops.aten
PRODUCTS = {aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1, aten.baddbmm.default: 1}
SUMS = {aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.cumsum.default,
        aten.embedding_dense_backward.default, aten.index_put.default, aten.linalg_vector_norm.default}


class Rounded(TorchDispatchMode):
    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def noise(self, like):
        return torch.rand(like.shape, generator=self.generator, dtype=like.dtype).mul_(2 * UNIT).sub_(UNIT)

    def round_(self, x, magnitude=None):
        if isinstance(x, torch.Tensor) and x.dtype == torch.float64 and x.numel():
            with torch.no_grad():
                off = x * self.noise(x)
                if magnitude is not None:
                    off += magnitude * self.noise(x) / 2
                x += off.nan_to_num_(0, 0, 0)        # masks are infinite
        return x

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        returns = func._schema.returns
        if func in (aten.detach.default, aten.copy_.default, aten.clone.default, aten._to_copy.default) or \
                any(r.alias_info is not None and not r.alias_info.is_write for r in returns):
            return out           # views and copies compute nothing
        magnitude = None
        if func in PRODUCTS and out.dtype == torch.float64:
            a, b = args[PRODUCTS[func]:][:2]
            magnitude = aten.bmm(a.abs(), b.abs()) if a.dim() == 3 else aten.mm(a.abs(), b.abs())
        elif func in SUMS and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float64 and \
                func is not aten.index_put.default:
            magnitude = func(args[0].abs(), *args[1:], **kwargs).abs()
        if returns and not any(r.alias_info is not None for r in returns):
            return tree_map(lambda x: self.round_(x, magnitude), out)
        tree_map(self.round_, out)
        return out


def short(x):
    return float(f"{x:.2e}")


def of_module(model):
    return dict(model.named_parameters())


def drift(train, exact, run, parameters=of_module):
    """train() -> (model, run); `exact` and `run` are its results without rounding, parameters(model) is
    a dictionary of tensors. Losses and norms: relative; weights: absolute."""
    exact = {name: x.detach().clone() for name, x in parameters(exact).items()}
    far = {"loss": [0.0] * len(run["steps"]), "grad_norm": [0.0] * len(run["steps"]),
           "final_max_abs_diff": dict.fromkeys(exact, 0.0)}
    for seed in range(DRAWS):
        with Rounded(seed):
            model, rough = train()
        assert all(math.isfinite(s["loss"]) for s in rough["steps"])
        ended = parameters(model)
        for key in ("loss", "grad_norm"):
            far[key] = [max(f, abs(a[key] - b[key]) / (abs(b[key]) or 1.0))
                        for f, a, b in zip(far[key], rough["steps"], run["steps"])]
        for name, x in exact.items():
            far["final_max_abs_diff"][name] = max(far["final_max_abs_diff"][name],
                                                  (x - ended[name].detach()).abs().max().item())
    return {key: {n: short(x) for n, x in value.items()} if isinstance(value, dict) else [short(x) for x in value]
            for key, value in far.items()}
