return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { hidden = 4, heads = 64 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
