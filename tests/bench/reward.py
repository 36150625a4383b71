"""Process reward models for the bench, in plain PyTorch: Qwen2 with a score head of two layers at step marks, and
weights of records, learned by differences of losses as DARTS and DreamPRM have them.

In:    records (B, T) with the places of their marks, labels, and which they are; the same of meta records.
Out:   Rewards(...): the loss of a batch; updated(): after each step, an update of the weights if one is due.
Keeps: each record a weight; two more forward passes for an update, the model is then as it was, bit for bit."""
import torch
from torch import nn
from torch.nn import functional as F

META_RATE, META_DECAY, META_CLIP = 0.1, 1e-3, 1.0


class Scores(nn.Module):
    """Margins (records, marks) of the second class over the first."""

    def __init__(self, model):
        super().__init__()
        hidden = model.config.hidden_size
        self.model = model
        self.score = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, ids, marks):
        x = self.model(input_ids=ids).last_hidden_state
        z = self.score(x.gather(1, marks[..., None].expand(-1, -1, x.shape[-1])))
        return z[..., 1] - z[..., 0]


class Rewards:
    """unroll: updates of the model to one of the weights; 0: all records count 1."""

    def __init__(self, model, run, case, vocab):
        self.model, self.run, self.case, self.vocab = model, run, case, vocab
        self.steps, self.last = 0, None
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.table = nn.Parameter(torch.ones(case["records"]))
        self.optim = torch.optim.AdamW([self.table], lr=META_RATE, weight_decay=META_DECAY)

    def records(self):
        B, T, marks = self.case["B"], self.case["T"], self.case["marks"]
        places = torch.arange(1, marks + 1).mul(T // marks).sub(1).repeat(B, 1)
        return torch.randint(0, self.vocab, (B, T)), places

    def batch(self):
        ids, marks = self.records()
        record = torch.randperm(self.case["records"])[:len(ids)]
        return dict(ids=ids, marks=marks, labels=torch.randint(0, 2, marks.shape).float(), record=record)

    def each(self, ids, marks, labels):
        margins = self.run(ids, marks)
        return F.binary_cross_entropy_with_logits(margins, labels, reduction="none").mean(-1)

    def __call__(self, ids, marks, labels, record):
        self.last = ids, marks, labels, record
        weight = F.leaky_relu(self.table.detach()[record], 0.01)
        return (weight * self.each(ids, marks, labels)).mean()

    @torch.no_grad()
    def move(self, kept, along, by):
        for p, start, v in zip(self.params, kept, along):
            p.copy_(start).add_(v, alpha=by)

    def updated(self):
        self.steps += 1
        if not self.case["unroll"] or self.steps % self.case["unroll"]:
            return
        ids, marks, labels, record = self.last
        outcome = torch.randint(0, 2, (len(ids),)).float()
        score = torch.sigmoid(self.run(*self.records()).sum(-1))
        along = torch.autograd.grad(F.mse_loss(score, outcome), self.params, allow_unused=True)
        along = [torch.zeros_like(p) if v is None else v for p, v in zip(self.params, along)]
        by = 0.01 / (torch.stack([v.norm() for v in along]).norm().item() + 1e-15)
        kept, losses = [p.detach().clone() for p in self.params], []
        for sign in (-1, 1):
            self.move(kept, along, sign * by)
            with torch.no_grad():
                losses.append(self.each(ids, marks, labels))
        self.move(kept, along, 0)
        raw = self.table[record]
        slope = (losses[0] - losses[1]) / (2 * by * len(ids))
        (slope * F.leaky_relu(raw, 0.01)).sum().backward()
        torch.nn.utils.clip_grad_norm_([self.table], META_CLIP)
        self.optim.step()
        self.optim.zero_grad(set_to_none=True)
