return {
    objective = "ppo",
    target = "sm_90",
    gpus = 2,
    model = { layers = 2 },
    ad = { env = "permuted" },
    run = { lr = 0.1, seed = 1, meta_lr = 0.1 },
}
