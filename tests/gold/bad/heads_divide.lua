return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { hidden = 130 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
