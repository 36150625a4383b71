"""Histories of darkroom from an HDF5 file, as public ones are, to safetensors that programs of the objective ad read.

Usage: histories.py FILE.hdf5 OUT.safetensors       read with ad.next_state=reset, where a done step's next state is the start
       histories.py --make FILE.hdf5                the histories of a uniform policy in that layout, for tests
In:    groups 0, 1 ... of the tasks: states, next_states (T, streams, 2), actions, rewards, dones (T, streams) and perhaps
       compress_markers, of any numeric type; whole numbers. T is cut to whole rollouts.
Out:   tensors of the same names, uint8."""
import sys

import h5py
import numpy
from safetensors.numpy import save_file

SIDE, EPISODE, ROLLOUT, TASKS = 9, 20, 80, 81
WIDTH = {"states": 2, "next_states": 2, "actions": 0, "rewards": 0, "dones": 0, "compress_markers": 0}


def markers(shape):
    """1 on the first step of a rollout, 2 on its last."""
    made = numpy.zeros(shape, numpy.uint8)
    made[::ROLLOUT], made[ROLLOUT - 1::ROLLOUT] = 1, 2
    return made


def column(group, name, steps):
    if name == "compress_markers" and name not in group:
        return markers((steps, group["actions"].shape[1]))
    if name not in group:
        sys.exit(f"{group.file.filename}: {group.name}/{name}: there is none")
    values = group[name][()]
    want = (steps, group["actions"].shape[1], 2)[:3 if WIDTH[name] else 2]
    if values.ndim != len(want) or values.shape[0] < steps or values.shape[1:] != want[1:]:
        sys.exit(f"{group.file.filename}: {group.name}/{name}: want {want}, got {values.shape}")
    whole = values[:steps].astype(numpy.uint8)
    if not numpy.array_equal(whole, values[:steps]):
        sys.exit(f"{group.file.filename}: {group.name}/{name}: want whole numbers from 0 to 255")
    return numpy.ascontiguousarray(whole)


def convert(source, to):
    with h5py.File(source) as file:
        if sorted(file) != sorted(map(str, range(len(file)))):
            sys.exit(f"{source}: want groups 0, 1 ... of tasks, got {' '.join(list(file)[:5])} ...")
        steps = file["0"]["actions"].shape[0] // ROLLOUT * ROLLOUT
        tensors = {f"{g}/{name}": column(file[str(g)], name, steps) for g in range(len(file)) for name in WIDTH}
    save_file(tensors, to, {"format": "histories", "next_state": "reset"})
    print(f"{to}: {len(tensors) // len(WIDTH)} tasks of {steps} steps")


def make(to, steps=3 * ROLLOUT + 7, streams=4):
    """By the rules, here a second time: walls hold, a done step's next state is the centre. Floats, as some files have."""
    draw = numpy.random.default_rng(5)
    moves = numpy.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])
    with h5py.File(to, "w") as file:
        for goal in range(TASKS):
            state = numpy.full((streams, 2), SIDE // 2)
            rows = {name: [] for name in WIDTH if name != "compress_markers"}
            for t in range(steps):
                action = draw.integers(0, 5, streams)
                after = numpy.clip(state + moves[action], 0, SIDE - 1)
                done = t % EPISODE == EPISODE - 1
                rows["states"].append(state)
                rows["actions"].append(action)
                rows["rewards"].append((after == [goal // SIDE, goal % SIDE]).all(1))
                rows["dones"].append(numpy.full(streams, done))
                state = numpy.full((streams, 2), SIDE // 2) if done else after
                rows["next_states"].append(state)
            for name, values in rows.items():
                file[f"{goal}/{name}"] = numpy.array(values, numpy.float32 if name == "rewards" else numpy.int64)
            if goal % 2:
                file[f"{goal}/compress_markers"] = markers((steps, streams))


if len(sys.argv) != 3:
    sys.exit(__doc__)
make(sys.argv[2]) if sys.argv[1] == "--make" else convert(*sys.argv[1:])
