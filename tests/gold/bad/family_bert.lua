return {
    target = "cpu",
    model = { family = "bert", layers = 2, hidden = 16, heads = 8, kv_heads = 4, head_dim = 4, vocab = 50,
              tied = false, pad = 50 },
    seq = { max = 8 },
    batch = { micro = 2 },
}
