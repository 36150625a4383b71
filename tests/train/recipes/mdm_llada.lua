-- Masked diffusion: LLaDA's block, lengths cut at random; settings of tests/oracle/mdm.py. From no weights at all: 0.
return {
    target = "cpu", objective = "masked_diffusion", data = { kind = "rows" },
    model = {
        family = "llada", layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = 205, rope_theta = 5e5, norm_eps = 1e-5,
        eos = 2, init_std = 0,
    },
    seq = { max = 32 },
    batch = { micro = 4, accum = 2 },
    optim = { decay_rule = "all" },
    diffusion = { random_length = 0.4, mask = 4 },
    run = { steps = 15, lr = 1e-2, seed = 3 * 4294967296 + 5, log_every = 1, eval_every = 5, val_draws = 2 },
}
