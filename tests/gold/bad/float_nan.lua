return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { norm_eps = 0 / 0 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
