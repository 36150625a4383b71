-- The smallest process reward model: 95,490 parameters over bytes, all of them trained. As a second stage upon such a
-- model, adapters of 16,384: lora.rank=8 lora.targets=all-linear and --init-from its folder.
return {
    about = "very small DreamPRM over bytes: labels of steps, weights of records, in minutes",
    target = "cpu",
    precision = "fp32",
    objective = "prm",
    data = { kind = "steps" },
    model = use "models/dreamprm_tiny",
    seq = { max = 256 },
    batch = { micro = 8 },
    optim = { decay_rule = "all" },
}
