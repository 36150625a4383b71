-- Masked diffusion by the encoder, with learned places; settings of tests/oracle/mdm.py.
return {
    target = "cpu", objective = "masked_diffusion", data = { kind = "rows" },
    model = { family = "encoder", layers = 2, hidden = 32, heads = 4, vocab = 205, eos = 2, init_std = 0 },
    seq = { max = 32 },
    batch = { micro = 4, accum = 2 },
    optim = { decay_rule = "all" },
    diffusion = { random_length = 0.4, mask = 4 },
    run = {
        steps = 15, lr = 1e-2, seed = 11, log_every = 1, eval_every = 5, val_draws = 2, val_noise = "spread",
    },
}
