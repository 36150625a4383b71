-- The smallest preference optimisation: 107,840 parameters over bytes, for a first look and for tests.
return {
    about = "very small DPO over bytes: chosen above rejected answers, in seconds",
    target = "cpu",
    precision = "fp32",
    objective = "dpo",
    data = { kind = "pairs" },
    model = use "models/llama_64x2",
    seq = { max = 64 },
    batch = { global = 8 },
    optim = { decay_rule = "all" },
    run = { lr = 1e-3, min_lr = 1e-4 },
}
