return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { hidden = 900, heads = 12, head_dim = 64 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
