return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 16, accum = 65536 },
    gpus = 65536,
}
