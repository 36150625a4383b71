return {
    target = "cpu",
    model = { family = "llama", layers = 1, hidden = 64, heads = 2, vocab = 257 },
    seq = { max = 64 },
    batch = { micro = 2 },
}
