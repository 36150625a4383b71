"""Proximal policy optimisation in PyTorch: the updates that tests/train/ppo_updates.c makes, for tests/train/ref/ppo.txt.

Usage: ppo.py > tests/train/ref/ppo.txt
Out:   a line of the norm of the gradient for each of four updates, then, of three states, the policy's probabilities
       and the value."""
import math

import torch
from torch import nn

N, UPDATES = 40, 4


def net(k, outputs):
    """Two layers of 64 units; the numbers in the order of goal.h, where w1 and w2 lie from inputs to units."""
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
    at = 0

    def take(n):
        nonlocal at
        at += n
        return torch.tensor([0.15 * math.sin(0.7 * i + k) for i in range(at - n, at)], dtype=torch.float32)

    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.copy_(take(layer.weight.numel()).view(layer.in_features, 64).t())
            layer.bias.copy_(take(64))
        model[4].weight.copy_(take(64 * outputs).view(outputs, 64))
        model[4].bias.copy_(take(outputs))
    return model


def cells(states):
    return torch.tensor([[s // 9, s % 9] for s in states], dtype=torch.float32)


def main():
    policy, value = net(0, 5), net(1, 1)
    parameters = [*policy.parameters(), *value.parameters()]
    adam = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
    for j in range(UPDATES):
        of = range(N)
        x = cells([(i * i + 5 * j) % 31 for i in of])
        action = torch.tensor([(3 * i + j) % 5 for i in of])
        before = torch.tensor([0.1 + 0.02 * (7 * i % 20) for i in of]).log()
        advantage = torch.tensor([2 * math.sin(i + 0.5 * j) for i in of])
        target = torch.tensor([math.cos(0.3 * i) for i in of])
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = (torch.distributions.Categorical(logits=policy(x)).log_prob(action) - before).exp()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        loss = loss + 0.5 * nn.functional.mse_loss(value(x)[:, 0], target)
        adam.zero_grad()
        loss.backward()
        print(f"{nn.utils.clip_grad_norm_(parameters, 0.5).item():.8g}")
        adam.step()
    with torch.no_grad():
        x = cells([0, 40, 80])
        for p, v in zip(policy(x).softmax(-1), value(x)[:, 0]):
            print("\n".join(f"{y:.8g}" for y in [*p.tolist(), v.item()]))


main()
