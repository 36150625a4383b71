return {
    target = "cpu",
    model = extend(use "models/tiny_llama", { head_dim = 33 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
