return {
    target = "cpu",
    model = extend(use "models/tiny_gpt2", { kv_heads = 2 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
