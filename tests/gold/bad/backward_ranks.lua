return {
    target = "sm_90",
    gpus = 2,
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    memory = { zero = 1 },
    optim = { when = "backward" },
    comm = { overlap = "all" },
    run = { clip = 0.5, nonfinite = "skip" },
}
