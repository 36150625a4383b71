return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { bos = 256, eos = 257 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
