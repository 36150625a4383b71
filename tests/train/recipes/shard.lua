-- GPT-2 with matrices that are large enough to be divided over ranks: wte (whose last share is padding in part), up and
-- down; qkv and the rest stay whole.
return {
    target = "cpu",
    precision = "fp32",
    model = { family = "gpt2", layers = 2, hidden = 96, heads = 4, ffn = 768, vocab = 701, positions = 32,
              norm_eps = 1e-5, tied = true },
    seq = { max = 32 },
    batch = { micro = 2 },
    run = { seed = 42, steps = 8, lr = 3e-3, log_every = 1, save_every = 4, save_total_limit = 0 },
}
