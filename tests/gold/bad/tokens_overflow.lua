return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { positions = 65536 }),
    seq = { max = 65536 },
    batch = { micro = 65536 },
}
