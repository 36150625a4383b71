-- Preference optimisation: means of log-probabilities and e^r (r - p); settings of tests/oracle/dpo.py.
return extend(use "dpo_tiny", {
    seq = { max = 32 },
    batch = { global = 8, accum = 2 },
    optim = { decay_rule = "hf5" },
    run = {
        steps = 10, lr = 3e-3, lr_scale = "none", schedule = "linear", min_lr = 0,
        weight_decay = 0.001, log_every = 1, eval_every = 5, eval_from = 0, seed = 42,
    },
})
