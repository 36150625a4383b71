-- Masked language model: MicroBERT's block, exact masks; settings of tests/oracle/mlm.py.
return {
    target = "cpu", objective = "mlm", data = { kind = "rows" },
    model = { family = "microbert", layers = 2, hidden = 8, heads = 4, vocab = 205 },
    seq = { max = 32 },
    batch = { micro = 4, accum = 2 },
    optim = { decay_rule = "all" },
    run = { steps = 10, lr = 1e-2, warmup = 1, seed = 42, log_every = 1, eval_every = 5,
        eval_share = 0.1, max_samples = 100000 },
}
