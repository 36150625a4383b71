-- Windows without regions; settings of tests/oracle/ad.py.
return {
    target = "cpu",
    objective = "ad",
    model = { family = "transitions", layers = 2, hidden = 16, heads = 2 },
    ad = { n_transit = 12 },
    batch = { micro = 8 },
    optim = { decay_rule = "all" },
    run = {
        source_streams = 0, source_steps = 0, steps = 10, lr = 3e-3, schedule = "linear", warmup = 1,
        weight_decay = 0.01, log_every = 1,
        eval_every = 10, eval_from = 0, seed = 42,
    },
}
