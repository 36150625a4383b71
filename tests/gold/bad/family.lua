return {
    target = "cpu",
    model = { family = "microbert", layers = 2, hidden = 16, heads = 8, kv_heads = 4, head_dim = 4, vocab = 50,
              tied = true, init_std = 0.1, pad = 3 },
    seq = { max = 8 },
    batch = { micro = 2 },
    lora = { rank = 2 },
}
