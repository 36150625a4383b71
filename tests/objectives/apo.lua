-- Answers that are desired or not: TRL's apo_zero_unpaired, on the model of tests/train's dpo_mean.
return {
    target = "cpu",
    objective = "apo",
    model = { family = "llama", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128, vocab = 264,
              positions = 128, bos = 256, eos = 256, norm_eps = 1e-5, tied = false },
    seq = { max = 32 },
    data = { kind = "labelled" },
    batch = { micro = 4, accum = 2 },
    run = { steps = 10, lr = 1e-3, weight_decay = 0.001, seed = 42, log_every = 1 },
}
