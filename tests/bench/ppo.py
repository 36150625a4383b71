"""Updates a second of PPO on darkroom: plain PyTorch against the program that gen writes, on the same cores, in turns.

Usage: ppo.py PROGRAM [PROCESSES [SECONDS [RUNS]]]      out/darkroom_ppo/train, 2, 20, 1; make bench CASE=ppo
Out:   a line each, medians of the runs, and how often faster the program is; by the clock, and by the time that cores
       worked for them, which others on the machine change less. tests/bench/results/ppo.ISA.json has every run.
PyTorch's side: one process a goal, each with one thread, eager, the settings of recipes/darkroom_ppo.lua; timed are
updates alone, without rollouts and without the processes' start. The program's: whole goals, as many as processes."""
import multiprocessing
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from table import write

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


def peers_rates(processes, seconds):
    """Of all processes: updates a second by the clock, and by their work."""
    counts = multiprocessing.Queue()
    peers = [multiprocessing.Process(target=updates, args=(seed, seconds, counts)) for seed in range(processes)]
    for peer in peers:
        peer.start()
    sums = [sum(x) for x in zip(*(counts.get() for _ in peers))]
    for peer in peers:
        peer.join()
    return sums


def program_rates(program, processes):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as out:
        said = subprocess.run([program, "--threads", str(processes), "--goals", f"0-{processes - 1}", "--out", out],
                              capture_output=True, text=True, check=True).stderr
    of = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    work = processes * float(re.search(r"([0-9]+) updates by", said)[1]) / of * processes
    return [float(re.search(r"([0-9]+) updates a second", said)[1]), work]


def main():
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    processes, seconds, runs = (number(sys.argv[2 + i]) if len(sys.argv) > 2 + i else default
                                for i, (number, default) in enumerate(((int, 2), (float, 20), (int, 1))))
    turns = [(peers_rates(processes, seconds), program_rates(sys.argv[1], processes)) for _ in range(runs)]
    theirs, ours = ([statistics.median(turn[side][i] for turn in turns) for i in (0, 1)] for side in (0, 1))
    print(f"PyTorch, {processes} x one thread  {theirs[0]:8.0f} updates/s  {theirs[1]:8.0f} a second of work\n"
          f"the program, {processes} threads   {ours[0]:8.0f} updates/s  {ours[1]:8.0f} a second of work\n"
          f"{ours[0] / theirs[0]:.1f} and {ours[1] / theirs[1]:.1f} times as many")
    keys = "updates_per_second", "updates_per_second_of_work"
    write("ppo", processes, recipe="darkroom_ppo", ours=[dict(zip(keys, turn[1])) for turn in turns],
          peer=[dict(zip(keys, turn[0])) for turn in turns])


if __name__ == "__main__":
    main()
