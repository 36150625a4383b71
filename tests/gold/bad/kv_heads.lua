return {
    target = "cpu",
    model = extend(use "models/tiny_llama", { heads = 14, hidden = 896, kv_heads = 4 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
