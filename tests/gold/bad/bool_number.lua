return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { tied = 1 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
