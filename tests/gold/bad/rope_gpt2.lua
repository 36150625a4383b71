return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { rope_theta = 10000.0, rope_scaling = "none" }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
