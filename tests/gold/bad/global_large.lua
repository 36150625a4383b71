return {
    target = "cpu",
    seq = { max = 32 },
    batch = { global = 131072 },
    model = { family = "gpt2", layers = 1, hidden = 32, heads = 2, vocab = 257 },
}
