-- Algorithm distillation, one query a sequence, too long ones cut; settings of tests/oracle/ad.py.
return {
    target = "cpu",
    objective = "ad",
    model = {
        family = "transitions", layers = 2, hidden = 16, heads = 2, dropout = 0.1, attention_dropout = 0.2,
    },
    ad = { context = "compressed", n_transit = 18, region = 8, type_weight = 0.5 },
    batch = { micro = 4, accum = 2 },
    optim = { decay_rule = "all" },
    run = {
        source_streams = 0, source_steps = 0, steps = 10, lr = 3e-3, schedule = "linear", warmup = 1,
        weight_decay = 0.01, log_every = 1,
        eval_every = 10, eval_from = 0, seed = 3 * 4294967296 + 5,
    },
}
