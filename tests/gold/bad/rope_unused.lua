return {
    target = "cpu",
    model = extend(use "models/tiny_llama", { rope_factor = 8 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
