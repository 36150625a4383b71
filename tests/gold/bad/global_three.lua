return {
    target = "cpu",
    gpus = 2,
    seq = { max = 32 },
    batch = { global = 8, micro = 3, accum = 2 },
    model = { family = "gpt2", layers = 1, hidden = 32, heads = 2, vocab = 257 },
}
