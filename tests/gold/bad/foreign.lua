return {
    target = "cpu",
    model = { family = "gpt2", num_hidden_layers = 4, n_embd = 128, heads = 4, vocab = 257 },
    seq = { max = 64 },
    batch = { micro = 2 },
}
