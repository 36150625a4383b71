return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { positions = 65535 }),
    seq = { max = 65535 },
    batch = { micro = 65535 },
}
