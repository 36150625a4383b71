"""Histories of darkroom from an HDF5 file, as public ones are, to safetensors that programs of the objective ad read.

Usage: histories.py FILE.hdf5 OUT.safetensors       read with ad.next_state=reset, where a done step's next state is the start
       histories.py --make FILE.hdf5                the histories of a uniform policy in that layout, for tests
In:    groups 0, 1 ... of the tasks: states, next_states (T, streams, 2), actions, rewards, dones (T, streams) and perhaps
       compress_markers, of any numeric type; whole numbers. T is cut to whole rollouts of 80 steps. 81 tasks are darkroom's,
       120 those of ad.env=permuted.
Out:   tensors of the same names, uint8. A file of another kind: one line that says what it lacks, exit code 1.
Needs: pip install h5py numpy safetensors"""
import os
import sys

try:
    import h5py
    import numpy
    from safetensors.numpy import save_file
except ImportError as missing:
    sys.exit(f"{missing}: pip install h5py numpy safetensors")

SIDE, EPISODE, ROLLOUT, TASKS, ORDERS = 9, 20, 80, 81, 120
WIDTH = {"states": 2, "next_states": 2, "actions": 0, "rewards": 0, "dones": 0, "compress_markers": 0}


def markers(shape):
    """1 on the first step of a rollout, 2 on its last."""
    made = numpy.zeros(shape, numpy.uint8)
    made[::ROLLOUT], made[ROLLOUT - 1::ROLLOUT] = 1, 2
    return made


def dataset(group, name):
    """Of numbers; another ends the program."""
    where = f"{group.file.filename}: {group.name}/{name}"
    if name not in group:
        sys.exit(f"{where}: there is none")
    if not isinstance(group[name], h5py.Dataset) or group[name].dtype.kind not in "biuf":
        sys.exit(f"{where}: want numbers")
    return group[name]


def shape_of(file):
    """Whole steps and streams, of the first task's actions."""
    shape = dataset(file["0"], "actions").shape
    steps = shape[0] // ROLLOUT * ROLLOUT if len(shape) == 2 else 0
    if len(shape) != 2 or not shape[1]:
        sys.exit(f"{file.filename}: /0/actions: want (steps, streams), got {shape}")
    if not steps:
        sys.exit(f"{file.filename}: /0/actions: {shape[0]} steps, want {ROLLOUT} at least, a whole rollout")
    return steps, shape[1]


def column(group, name, steps, streams):
    if name == "compress_markers" and name not in group:
        return markers((steps, streams))
    values = dataset(group, name)[()]
    want = (steps, streams, 2)[:3 if WIDTH[name] else 2]
    if values.ndim != len(want) or values.shape[0] < steps or values.shape[1:] != want[1:]:
        sys.exit(f"{group.file.filename}: {group.name}/{name}: want {want}, got {values.shape}")
    with numpy.errstate(invalid="ignore"):
        whole = values[:steps].astype(numpy.uint8)
    if not numpy.array_equal(whole, values[:steps]):
        sys.exit(f"{group.file.filename}: {group.name}/{name}: want whole numbers from 0 to 255")
    return numpy.ascontiguousarray(whole)


def convert(source, to):
    if not os.path.isfile(source):
        sys.exit(f"{source}: no such file")
    if not h5py.is_hdf5(source):
        sys.exit(f"{source}: no HDF5 file")
    with h5py.File(source) as file:
        named = sorted(file) == sorted(map(str, range(len(file))))
        if not named or len(file) not in (TASKS, ORDERS) or not all(isinstance(file[g], h5py.Group) for g in file):
            sys.exit(f"{source}: want groups 0, 1 ... of {TASKS} or {ORDERS} tasks, got {len(file)}: {' '.join(list(file)[:5])}")
        steps, streams = shape_of(file)
        tensors = {f"{g}/{name}": column(file[str(g)], name, steps, streams) for g in range(len(file)) for name in WIDTH}
    try:
        save_file(tensors, to, {"format": "histories", "next_state": "reset"})
    except Exception as why:             # the library has a type of its own
        sys.exit(f"{to}: {why}")
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
try:
    make(sys.argv[2]) if sys.argv[1] == "--make" else convert(*sys.argv[1:])
except OSError as why:                   # a damaged file, among others
    sys.exit(f"{sys.argv[1]}: {why}")
