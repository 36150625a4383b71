"""Updates a second of PPO on darkroom: plain PyTorch beside the program that gen writes, on the same cores.

Usage: ppo.py PROGRAM [PROCESSES [SECONDS]]     out/darkroom_ppo/train, 2, 20
Out:   a line each, and how often faster the program is; by the clock, and by the time that cores worked for them, which
       others on the machine change less.
PyTorch's side: one process a goal, each with one thread, eager, the settings of recipes/darkroom_ppo.lua; timed are
updates alone, without rollouts and without the processes' start. The program's: whole goals, as many as processes."""
import multiprocessing
import re
import resource
import subprocess
import sys
import tempfile
import time

MINIBATCH, SAMPLES = 40, 8000


def net(outputs, gain):
    import torch
    layers = [torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
              torch.nn.Linear(64, outputs)]
    for layer, by in zip(layers[::2], (2 ** 0.5, 2 ** 0.5, gain)):
        torch.nn.init.orthogonal_(layer.weight, by)
        torch.nn.init.zeros_(layer.bias)
    return torch.nn.Sequential(*layers)


def updates(seed, seconds, counts):
    """On samples of a policy that knows nothing; what they are makes no difference to the time."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    policy, value = net(5, 0.01), net(1, 1)
    parameters = [*policy.parameters(), *value.parameters()]
    adam = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
    states = torch.randint(0, 9, (SAMPLES, 2)).float()
    actions = torch.randint(0, 5, (SAMPLES,))
    with torch.no_grad():
        before = policy(states).log_softmax(-1).gather(1, actions[:, None])[:, 0]
    advantages, returns = torch.randn(SAMPLES), torch.randn(SAMPLES)
    n, start = -100, time.perf_counter()
    while n < 0 or time.perf_counter() - start < seconds:
        for of in torch.randperm(SAMPLES).view(-1, MINIBATCH):
            advantage = advantages[of]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            logp = policy(states[of]).log_softmax(-1).gather(1, actions[of, None])[:, 0]
            ratio = (logp - before[of]).exp()
            loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            loss = loss + 0.5 * torch.nn.functional.mse_loss(value(states[of])[:, 0], returns[of])
            adam.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            adam.step()
            n += 1
            if n == 0:                           # warm
                start, worked = time.perf_counter(), time.process_time()
            if n > 0 and time.perf_counter() - start >= seconds:
                break
    counts.put((n / (time.perf_counter() - start), n / (time.process_time() - worked)))


def main():
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 20
    counts = multiprocessing.Queue()
    peers = [multiprocessing.Process(target=updates, args=(seed, seconds, counts)) for seed in range(processes)]
    for peer in peers:
        peer.start()
    theirs = [sum(x) for x in zip(*(counts.get() for _ in peers))]
    for peer in peers:
        peer.join()
    print(f"PyTorch, {processes} x one thread  {theirs[0]:8.0f} updates/s  {theirs[1]:8.0f} a second of work")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as out:
        said = subprocess.run([sys.argv[1], "--threads", str(processes), "--goals", f"0-{processes - 1}", "--out", out],
                              capture_output=True, text=True, check=True).stderr
    ours = float(re.search(r"([0-9]+) updates a second", said)[1])
    of = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    work = processes * float(re.search(r"([0-9]+) updates by", said)[1]) / of * processes
    print(f"the program, {processes} threads   {ours:8.0f} updates/s  {work:8.0f} a second of work\n"
          f"{ours / theirs[0]:.1f} and {work / theirs[1]:.1f} times as many")


main()
